/* Shared by the two sources: inline members, templates and static functions that both have a copy of. */
#ifndef SHAPES_H
#define SHAPES_H

extern "C" volatile int sink;
extern "C" int opaque(int value);

namespace shapes
{
struct point {
	int x, y;
	inline int length() const
	{
		return x * x + y * y;
	}
	int far(int by) const
	{
		int sum = 0;
		for (int i = 0; i < by; i++)
			sum += opaque(x + i) - opaque(y - i);
		return sum;
	}
};

template <typename T, int N> struct ring {
	T items[N];
	int at = 0;
	inline void push(T item)
	{
		items[at] = item;
		at = (at + 1) % N;
		if (at == 0)
			sink = sink + 1;
	}
	T total() const
	{
		T sum = 0;
		for (int i = 0; i < N; i++)
			sum += items[i];
		return sum;
	}
};

static inline __attribute__((always_inline)) int twice(int value)
{
	if (value > 100)
		value = opaque(value);
	return value * 2;
}

static inline __attribute__((always_inline)) int four_times(int value)
{
	return twice(twice(value) + 1);
}

class animal
{
      public:
	virtual ~animal();
	virtual int speak(int loudness) = 0;
};
} // namespace shapes
#endif
