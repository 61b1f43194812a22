/* The recorder's priority: its reader must run when a ring fills up, however busy the machine is, and whoever works for
 * the reader must not hold what it needs for as long as it takes to get a turn among others. */
#ifndef SP_PLATFORM_LINUX_PRIORITY_H
#define SP_PLATFORM_LINUX_PRIORITY_H

#include <stdbool.h>

struct sp_priority {
	bool raised;
	int policy, niceness; /* before */
};

/* Raises the calling thread: SCHED_FIFO 1, else nice -20, else nothing. Threads and processes that it makes from now
 * on do not inherit it. */
void sp_priority_raise(struct sp_priority *saved);

/* Raises the process's other threads, those that are there now, to nice -10 where the caller's thread was raised. */
void sp_priority_raise_helpers(const struct sp_priority *saved);

/* Puts all back; on the thread that was raised. */
void sp_priority_restore(struct sp_priority *saved);

#endif
