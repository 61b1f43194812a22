/* Functions that are inlined into each other, for tests of inline frames. Addresses matter, not what it does. */
static volatile unsigned sink;

static inline __attribute__((always_inline)) unsigned innermost(unsigned value)
{
	for (unsigned i = 0; i < 8; i++)
		sink += value ^ i;
	return sink * 3;
}

static inline __attribute__((always_inline)) unsigned middle(unsigned value)
{
	unsigned result = innermost(value + 1);
	sink ^= result;
	return innermost(result) + 5;
}

__attribute__((noinline)) unsigned outermost(unsigned value)
{
	sink = value;
	unsigned result = middle(value * 7);
	return result + sink;
}

int main(int argc, char **argv)
{
	(void)argv;
	return (int)(outermost((unsigned)argc) & 1);
}
