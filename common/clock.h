/* Clocks. All times in sp are nanoseconds of one named clock; this is it on each OS. */
#ifndef SP_COMMON_CLOCK_H
#define SP_COMMON_CLOCK_H

#include <stdint.h>

/* The sampling clock: CLOCK_MONOTONIC (Linux), mach_absolute_time in ns (macOS), QueryPerformanceCounter in ns. */
uint64_t sp_clock_now(void);
/* Its name, as recordings give it: "CLOCK_MONOTONIC". */
const char *sp_clock_name(void);

/* Wall-clock time, ns since 1970. */
uint64_t sp_clock_wall(void);

/* CPU time of this process (user and system, all threads), ns. */
uint64_t sp_clock_process_cpu(void);

#endif
