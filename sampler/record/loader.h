/* A thread for what may block: opening files, reading /proc, copying. Jobs are done one by one, in order. */
#ifndef SP_SAMPLER_RECORD_LOADER_H
#define SP_SAMPLER_RECORD_LOADER_H

#include "common/error.h"
#include "sampler/record/signal.h"

#include <stdbool.h>

struct sp_loader;

/* Part of whatever the job works on; zeroed before it is pushed. */
struct sp_job {
	void (*run)(struct sp_job *job);
	struct sp_job *next;
	atomic_bool done; /* set after run() */
};

/* `progress` (borrowed) is raised after each job. */
struct sp_error *sp_loader_create(struct sp_signal *progress, struct sp_loader **ret);
/* Does what is left, and ends. */
void sp_loader_destroy(struct sp_loader *loader);

/* The job belongs to the loader until it is done. */
void sp_loader_push(struct sp_loader *loader, struct sp_job *job);

/* Waits until all that was pushed is done. */
void sp_loader_drain(struct sp_loader *loader);

static inline bool sp_job_done(struct sp_job *job)
{
	return atomic_load(&job->done);
}

/* Starts a thread that takes no signals and does not inherit the caller's scheduling policy. */
struct sp_error *sp_thread_start(const char *name, void *(*run)(void *), void *context, pthread_t *ret);

#endif
