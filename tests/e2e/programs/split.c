/* split MS: spends MS milliseconds of CPU time, 70 % of it in seventy(), 20 % in twenty(), 10 % in ten(). The answer
 * that a sampling profiler must give is known by construction: each slice is measured on the thread's own CPU clock. */
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static uint64_t cpu_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static volatile uint64_t sink;

/* The clock is read rarely, so that nearly all samples fall into the loop itself. */
#define SPIN(ns)                                                        \
	do {                                                            \
		uint64_t end = cpu_ns() + (ns);                         \
		while (cpu_ns() < end) {                                \
			for (int i = 0; i < 20000; i++)                 \
				sink = sink * 2862933555777941757u + 1; \
		}                                                       \
	} while (0)

static __attribute__((noinline)) void seventy(void)
{
	SPIN(7000000);
}

static __attribute__((noinline)) void twenty(void)
{
	SPIN(2000000);
}

static __attribute__((noinline)) void ten(void)
{
	SPIN(1000000);
}

int main(int argc, char **argv)
{
	int ms = argc > 1 ? atoi(argv[1]) : 2000;
	for (int i = 0; i < ms / 10; i++) {
		seventy();
		twenty();
		ten();
	}
	return 0;
}
