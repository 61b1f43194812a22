#include "shapes.h"

namespace
{
struct hidden {
	int value;
	__attribute__((noinline)) int get(int more)
	{
		return shapes::four_times(value) + opaque(more);
	}
};

__attribute__((noinline)) int quiet(int value)
{
	return opaque(shapes::twice(value)) + 3;
}
} // namespace

static __attribute__((noinline, cold)) int fail(int value)
{
	sink = value;
	return opaque(-value);
}

shapes::animal::~animal()
{
	sink = 9;
}

class dog : public shapes::animal
{
      public:
	int speak(int loudness) override
	{
		shapes::point p = { loudness, sink };
		return p.length() + p.far(loudness);
	}
};

int make_noise(int loudness)
{
	/* A class and a lambda inside a function. */
	struct local {
		int factor;
		__attribute__((noinline)) int apply(int value) const
		{
			return opaque(value * factor);
		}
	};
	local l = { loudness };
	auto twist = [loudness](int by) __attribute__((noinline)) { return opaque(by + loudness) + shapes::twice(by); };
	dog d;
	int sum = l.apply(3) + twist(4) + d.speak(loudness);
	if (__builtin_expect(sum == 12345, 0))
		sum += fail(sum);
	return sum;
}

extern "C" int first(int n)
{
	shapes::ring<int, 16> r;
	hidden h = { n };
	for (int i = 0; i < n; i++) {
		r.push(shapes::four_times(i));
		{
			int inner = shapes::twice(i);
			r.push(inner);
		}
	}
	return r.total() + h.get(n) + quiet(n) + make_noise(n);
}
