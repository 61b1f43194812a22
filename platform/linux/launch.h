/* Starting the command, held back until the events are open; and what became of it. */
#ifndef SP_PLATFORM_LINUX_LAUNCH_H
#define SP_PLATFORM_LINUX_LAUNCH_H

#include "common/error.h"
#include "sampler/backend.h"

struct sp_launch {
	int pid;        /* the child, not reaped before sp_launch_deinit(); 0 = none */
	int pidfd;      /* readable once it ended; -1 = this kernel has none */
	int go_fd;      /* a byte written here lets it exec; -1 = sent */
	int exec_fd;    /* closed by its exec, or gives the errno of one that failed; -1 = read */
	int exec_errno; /* atomic; 0 = no failure known */
	bool exec_done; /* exec_fd was closed: the command runs (or died before) */
};

/* Forks a child that waits to run `argv` with `env` added to the environment. Under sudo it becomes the user who called
 * sudo. It stays in this process group and keeps stdin, stdout and the terminal. Signals that sp handles are at their
 * default in it, those in `ignored` (bit N - 1: signal N) are ignored. */
struct sp_error *sp_launch_init(struct sp_launch *launch, char *const *argv, char *const *env, uint64_t ignored);

/* Lets the child go. */
struct sp_error *sp_launch_go(struct sp_launch *launch);

/* Takes the result of the exec, when it is there; does not block. */
void sp_launch_poll_exec(struct sp_launch *launch);

/* Its state now; any thread may ask. It is not reaped by this. */
struct sp_exit_status sp_launch_status(const struct sp_launch *launch);

void sp_launch_signal(const struct sp_launch *launch, int signal);

/* Reaps the command if it ended. One that still runs goes on; one that was never let go ends. */
void sp_launch_deinit(struct sp_launch *launch);

/* pidfd_open(); -1 where the kernel has none. */
int sp_pidfd_open(int pid);

#endif
