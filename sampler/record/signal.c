/* The condition of signal.h: a mutex and a condition variable that are left alone while nobody waits. */
#include "sampler/record/signal.h"

#include <errno.h>
#include <time.h>

void sp_signal_init(struct sp_signal *signal)
{
	pthread_mutex_init(&signal->lock, NULL);
	pthread_cond_init(&signal->changed, NULL);
	atomic_init(&signal->waiters, 0);
}

void sp_signal_deinit(struct sp_signal *signal)
{
	pthread_cond_destroy(&signal->changed);
	pthread_mutex_destroy(&signal->lock);
}

void sp_signal_raise(struct sp_signal *signal)
{
	/* A waiter counts itself before it looks, so either it sees the new state or it is seen here. */
	if (!atomic_load(&signal->waiters))
		return;
	pthread_mutex_lock(&signal->lock);
	pthread_cond_broadcast(&signal->changed);
	pthread_mutex_unlock(&signal->lock);
}

static bool wait_until(struct sp_signal *signal, bool (*ready)(void *context), void *context,
                       const struct timespec *deadline)
{
	bool is_ready;
	atomic_fetch_add(&signal->waiters, 1);
	pthread_mutex_lock(&signal->lock);
	while (!(is_ready = ready(context))) {
		if (!deadline)
			pthread_cond_wait(&signal->changed, &signal->lock);
		else if (pthread_cond_timedwait(&signal->changed, &signal->lock, deadline) == ETIMEDOUT)
			break;
	}
	pthread_mutex_unlock(&signal->lock);
	atomic_fetch_sub(&signal->waiters, 1);
	return is_ready;
}

void sp_signal_wait(struct sp_signal *signal, bool (*ready)(void *context), void *context)
{
	wait_until(signal, ready, context, NULL);
}

bool sp_signal_wait_for(struct sp_signal *signal, bool (*ready)(void *context), void *context, unsigned timeout_ms)
{
	struct timespec deadline;
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += timeout_ms / 1000;
	deadline.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
	if (deadline.tv_nsec >= 1000000000) {
		deadline.tv_sec++;
		deadline.tv_nsec -= 1000000000;
	}
	return wait_until(signal, ready, context, &deadline);
}
