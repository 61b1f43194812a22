/* churn SECONDS THREADS: keeps that many threads alive; each uses 30 ms of CPU time, then makes its successor. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double end;
static atomic_int alive;

static double seconds(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void *live(void *argument);

static void begin(void)
{
	pthread_t handle;
	atomic_fetch_add(&alive, 1);
	if (pthread_create(&handle, NULL, live, NULL))
		atomic_fetch_sub(&alive, 1);
	else
		pthread_detach(handle);
}

static void *live(void *argument)
{
	volatile uint64_t sum = 0;
	while (seconds(CLOCK_THREAD_CPUTIME_ID) < 0.03) {
		for (uint64_t i = 0; i < 20000; i++)
			sum += i;
	}
	if (seconds(CLOCK_MONOTONIC) < end)
		begin();
	atomic_fetch_sub(&alive, 1);
	return argument;
}

int main(int argc, char **argv)
{
	end = seconds(CLOCK_MONOTONIC) + (argc > 1 ? atof(argv[1]) : 1);
	for (int i = argc > 2 ? atoi(argv[2]) : 1; i > 0; i--)
		begin();
	while (atomic_load(&alive))
		usleep(1000);
	return 0;
}
