#include "shapes.h"

namespace shapes
{
namespace deep
{
enum class colour { red, green };
struct outer {
	struct inner {
		static __attribute__((noinline)) int paint(colour c, int value)
		{
			switch (c) {
			case colour::red:
				return opaque(value);
			case colour::green:
				return opaque(value) * four_times(value);
			}
			return 0;
		}
	};
};
} // namespace deep
} // namespace shapes

extern "C" int first(int n);

extern "C" int second(int n)
{
	shapes::ring<int, 16> r;
	shapes::ring<long, 4> s;
	for (int i = 0; i < n; i++) {
		r.push(i);
		s.push(shapes::deep::outer::inner::paint(shapes::deep::colour::green, i));
	}
	shapes::point p = { n, n + 1 };
	return r.total() + (int)s.total() + p.far(n);
}

extern "C" int main(int argc, char **argv)
{
	(void)argv;
	return first(argc) + second(argc + 1);
}
