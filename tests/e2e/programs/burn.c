/* burn CPU-MS [THREADS]: uses that much CPU time in each thread, then ends. Prints nothing. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static double milliseconds;

static double used(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void *burn(void *argument)
{
	volatile uint64_t sum = 0;
	while (used() < milliseconds) {
		for (uint64_t i = 0; i < 20000; i++)
			sum += i;
	}
	return argument;
}

int main(int argc, char **argv)
{
	milliseconds = argc > 1 ? atof(argv[1]) : 100;
	int threads = argc > 2 ? atoi(argv[2]) : 1;
	pthread_t *handles = calloc((size_t)threads, sizeof(*handles));
	for (int i = 1; i < threads; i++)
		pthread_create(&handles[i], NULL, burn, NULL);
	burn(NULL);
	for (int i = 1; i < threads; i++)
		pthread_join(handles[i], NULL);
	return 0;
}
