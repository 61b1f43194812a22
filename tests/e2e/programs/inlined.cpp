// Functions inlined into each other, for look-ups by address. Built with -g -O2; line numbers count.
#include <cstdio>

namespace ns {
struct Scale {
	int factor;
	__attribute__((always_inline)) int apply(int x) const
	{
		return x * factor + 3;
	}
};

static __attribute__((always_inline)) inline int twice(Scale scale, int x)
{
	return scale.apply(x) + scale.apply(x + 1);
}

template <class T> __attribute__((noinline)) T compute(T x)
{
	asm volatile("" : "+r"(x));
	return static_cast<T>(twice(Scale{ static_cast<int>(x) }, static_cast<int>(x)));
}
} // namespace ns

int data_object = 3;

int main(int argc, char **)
{
	std::printf("%d\n", ns::compute<int>(argc) + static_cast<int>(ns::compute<long>(argc)));
	return 0;
}
