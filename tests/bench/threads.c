/* threads N SECONDS: N threads that compute and call through a few frames, for as long as it takes them to use SECONDS
 * of CPU time each. A target for benchmarks. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double budget;

static __attribute__((noinline)) double leaf(double x, int n)
{
	for (int i = 0; i < n; i++)
		x = sqrt(x * 1.0001 + i);
	return x;
}

static __attribute__((noinline)) double middle(double x, int depth)
{
	return depth ? middle(x + depth, depth - 1) + 1 : leaf(x, 2000);
}

static void *work(void *argument)
{
	double x = *(const double *)argument;
	struct timespec now;
	do {
		x = middle(x, 12);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	} while ((double)now.tv_sec + (double)now.tv_nsec / 1e9 < budget);
	volatile double result = x;
	(void)result;
	return NULL;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 4;
	budget = argc > 2 ? atof(argv[2]) : 1;
	pthread_t threads[64];
	double seeds[64];
	for (int i = 0; i < count && i < 64; i++) {
		seeds[i] = i;
		pthread_create(&threads[i], NULL, work, &seeds[i]);
	}
	for (int i = 0; i < count && i < 64; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
