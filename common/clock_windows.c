/* The clocks of clock.h on Windows. */
#include "common/clock.h"

#include <windows.h>

#define EPOCH_1601_TO_1970 UINT64_C(116444736000000000) /* in units of 100 ns */

static uint64_t filetime(FILETIME time)
{
	return (uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime;
}

uint64_t sp_clock_now(void)
{
	LARGE_INTEGER frequency, count;
	QueryPerformanceFrequency(&frequency);
	QueryPerformanceCounter(&count);
	uint64_t per_second = (uint64_t)frequency.QuadPart, ticks = (uint64_t)count.QuadPart;
	return ticks / per_second * 1000000000 + ticks % per_second * 1000000000 / per_second;
}

const char *sp_clock_name(void)
{
	return "QueryPerformanceCounter";
}

uint64_t sp_clock_wall(void)
{
	FILETIME now;
	GetSystemTimeAsFileTime(&now);
	return (filetime(now) - EPOCH_1601_TO_1970) * 100;
}

uint64_t sp_clock_process_cpu(void)
{
	FILETIME created, exited, kernel, user;
	if (!GetProcessTimes(GetCurrentProcess(), &created, &exited, &kernel, &user))
		return 0;
	return (filetime(kernel) + filetime(user)) * 100;
}
