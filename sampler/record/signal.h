/* One condition that several threads wait for and several announce: "something was finished".
 *
 * Raising costs one atomic load while nobody waits. */
#ifndef SP_SAMPLER_RECORD_SIGNAL_H
#define SP_SAMPLER_RECORD_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>

#include <pthread.h>
#include <stdatomic.h>

struct sp_signal {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	atomic_uint waiters;
};

void sp_signal_init(struct sp_signal *signal);
void sp_signal_deinit(struct sp_signal *signal);

/* Wakes all waiters. What they wait for must have been stored with sequential consistency before. */
void sp_signal_raise(struct sp_signal *signal);

/* Waits until `ready` says so. It is called with the lock held and must read with sequential consistency. */
void sp_signal_wait(struct sp_signal *signal, bool (*ready)(void *context), void *context);

/* As sp_signal_wait(), for at most about `timeout_ms`; false when that passed first. */
bool sp_signal_wait_for(struct sp_signal *signal, bool (*ready)(void *context), void *context, unsigned timeout_ms);

#endif
