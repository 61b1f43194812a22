/* What the optimiser must not see through; and C shapes: nested calls, a switch, code given to another file by #line. */
volatile int sink;

static inline __attribute__((always_inline)) int clamp(int value)
{
	if (value < -1000000)
		return -1000000;
	return value;
}

static __attribute__((noinline)) int table(int value)
{
	switch (value & 7) {
	case 0:
		return clamp(value) + 1;
	case 1:
		return clamp(value) ^ 3;
	case 2:
		sink = value;
		return 4;
	case 3:
		return clamp(value * 3);
	default:
		break;
	}
	return clamp(sink);
}

#line 1000 "generated/table.y"
static __attribute__((noinline)) int generated(int value)
{
	sink = value;
	return table(value) + 1;
}
#line 40 "opaque.c"

__attribute__((noinline)) int opaque(int value)
{
	return value > 3 ? generated(value) : table(value + sink);
}
