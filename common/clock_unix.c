/* The clocks of clock.h on Linux and macOS. */
#include "common/clock.h"

#include <time.h>

static uint64_t read_clock(clockid_t clock)
{
	struct timespec ts = { 0 };
	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

uint64_t sp_clock_now(void)
{
#ifdef __APPLE__
	return read_clock(CLOCK_UPTIME_RAW); /* mach_absolute_time() in nanoseconds */
#else
	return read_clock(CLOCK_MONOTONIC);
#endif
}

const char *sp_clock_name(void)
{
#ifdef __APPLE__
	return "CLOCK_UPTIME_RAW";
#else
	return "CLOCK_MONOTONIC";
#endif
}

uint64_t sp_clock_wall(void)
{
	return read_clock(CLOCK_REALTIME);
}

uint64_t sp_clock_process_cpu(void)
{
	return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}
