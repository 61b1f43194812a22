/* The recorder's priority; see priority.h. */
#include "platform/linux/priority.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define HELPER_NICENESS (-10)

void sp_priority_raise(struct sp_priority *saved)
{
	if (saved->raised)
		return;
	saved->policy = sched_getscheduler(0);
	errno = 0;
	saved->niceness = getpriority(PRIO_PROCESS, 0);
	if (saved->policy != SCHED_OTHER || (saved->niceness == -1 && errno))
		return; /* someone chose for us */
	struct sched_param fifo = { .sched_priority = 1 }, other = { 0 };
	if (!sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &fifo)) {
		saved->raised = true;
		return;
	}
	if (setpriority(PRIO_PROCESS, 0, -20))
		return;
	saved->raised = true;
	sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &other);
}

/* Sets the niceness of all threads of the process but the calling one. */
static void set_others(int niceness)
{
	DIR *folder = opendir("/proc/self/task");
	if (!folder)
		return;
	for (struct dirent *entry; (entry = readdir(folder));) {
		int tid = atoi(entry->d_name);
		if (tid > 0 && tid != gettid())
			setpriority(PRIO_PROCESS, (id_t)tid, niceness);
	}
	closedir(folder);
}

void sp_priority_raise_helpers(const struct sp_priority *saved)
{
	if (saved->raised)
		set_others(HELPER_NICENESS);
}

void sp_priority_restore(struct sp_priority *saved)
{
	if (!saved->raised)
		return;
	set_others(saved->niceness);
	struct sched_param other = { 0 };
	sched_setscheduler(0, SCHED_OTHER, &other);
	setpriority(PRIO_PROCESS, 0, saved->niceness);
	saved->raised = false;
}
