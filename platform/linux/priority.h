/* The reader's priority: it must run when a ring fills up, however busy the machine is. */
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

/* Puts it back; on the same thread. */
void sp_priority_restore(struct sp_priority *saved);

#endif
