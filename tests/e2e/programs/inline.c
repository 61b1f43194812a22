/* A program whose symbols are known by construction: outer() calls step(), inlined, which holds the label here_inlined;
 * the label here_outer is in outer() itself. The lines that the tests ask for are marked. */
#include <stdio.h>

static inline __attribute__((always_inline)) unsigned long step(unsigned long value)
{
	__asm__ volatile(".globl here_inlined\nhere_inlined: nop"); /* line: inlined */
	return value * 6364136223846793005u + 1442695040888963407u;
}

__attribute__((noinline)) unsigned long outer(unsigned long value)
{
	value ^= 1;
	value = step(value); /* line: call */
	__asm__ volatile(".globl here_outer\nhere_outer: nop" : "+r"(value)); /* line: outer */
	return value;
}

int main(int argc, char **argv)
{
	unsigned long value = (unsigned long)argc;
	for (unsigned long i = 0; i < (argv[1] ? 400000000u : 1u); i++)
		value = outer(value);
	printf("%lu\n", value);
	return 0;
}
