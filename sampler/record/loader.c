/* The job thread of loader.h. */
#include "sampler/record/loader.h"

#include <signal.h>
#include <stdlib.h>

struct sp_loader {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct sp_job *first, **last;
	bool stop;
	struct sp_signal *progress;
};

struct sp_error *sp_thread_start(const char *name, void *(*run)(void *), void *context, pthread_t *ret)
{
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
#ifndef _WIN32
	/* Signals are for the thread that waits for them. */
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
#endif
	int errnum = pthread_create(ret, &attr, run, context);
#ifndef _WIN32
	pthread_sigmask(SIG_SETMASK, &before, NULL);
#endif
	pthread_attr_destroy(&attr);
	return errnum ? sp_error_from_errno(errnum, "cannot start the %s thread", name) : NULL;
}

static struct sp_job *next_job(struct sp_loader *loader)
{
	pthread_mutex_lock(&loader->lock);
	while (!loader->first && !loader->stop)
		pthread_cond_wait(&loader->wake, &loader->lock);
	struct sp_job *job = loader->first;
	if (job) {
		loader->first = job->next;
		if (!loader->first)
			loader->last = &loader->first;
	}
	pthread_mutex_unlock(&loader->lock);
	return job;
}

static void *run_jobs(void *context)
{
	struct sp_loader *loader = context;
	struct sp_job *job;
	while ((job = next_job(loader))) {
		job->run(job);
		/* From here on the job may be gone. */
		atomic_store(&job->done, true);
		sp_signal_raise(loader->progress);
	}
	return NULL;
}

struct sp_error *sp_loader_create(struct sp_signal *progress, struct sp_loader **ret)
{
	struct sp_loader *loader = calloc(1, sizeof(*loader));
	if (!loader)
		return sp_error_no_memory();
	loader->progress = progress;
	loader->last = &loader->first;
	pthread_mutex_init(&loader->lock, NULL);
	pthread_cond_init(&loader->wake, NULL);
	struct sp_error *error = sp_thread_start("loader", run_jobs, loader, &loader->thread);
	if (error) {
		free(loader);
		return error;
	}
	*ret = loader;
	return NULL;
}

void sp_loader_destroy(struct sp_loader *loader)
{
	if (!loader)
		return;
	pthread_mutex_lock(&loader->lock);
	loader->stop = true;
	pthread_cond_signal(&loader->wake);
	pthread_mutex_unlock(&loader->lock);
	pthread_join(loader->thread, NULL);
	pthread_cond_destroy(&loader->wake);
	pthread_mutex_destroy(&loader->lock);
	free(loader);
}

void sp_loader_push(struct sp_loader *loader, struct sp_job *job)
{
	job->next = NULL;
	atomic_store(&job->done, false);
	pthread_mutex_lock(&loader->lock);
	*loader->last = job;
	loader->last = &job->next;
	pthread_cond_signal(&loader->wake);
	pthread_mutex_unlock(&loader->lock);
}

static void do_nothing(struct sp_job *job)
{
	(void)job;
}

static bool job_done(void *context)
{
	return sp_job_done(context);
}

void sp_loader_drain(struct sp_loader *loader)
{
	struct sp_job job = { .run = do_nothing };
	sp_loader_push(loader, &job);
	sp_signal_wait(loader->progress, job_done, &job);
}
