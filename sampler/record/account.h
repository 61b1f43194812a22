/* CPU time of a thread by its switch records, and what of it no sample stands for.
 *
 * Pure arithmetic on one thread's events in order of time. */
#ifndef SP_SAMPLER_RECORD_ACCOUNT_H
#define SP_SAMPLER_RECORD_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

struct sp_account {
	uint64_t cpu_ns;     /* on a CPU, up to `since` or the latest switch */
	uint64_t since;      /* when on a CPU: since then */
	uint64_t row_ns;     /* CPU time at the latest row (sample) of the thread */
	uint64_t covered_ns; /* CPU time that samples and estimates stand for; may run ahead by less than an interval */
	bool on;             /* on a CPU now */
	bool row_known;      /* the CPU time since the latest row is known */
};

/* A thread that was seen to begin; else all of its past is unknown. */
void sp_account_init(struct sp_account *account, bool from_start);

/* The thread got or lost its CPU. Times that go back are taken as no time. */
void sp_account_in(struct sp_account *account, uint64_t time);
/* Returns the CPU time since it got it. */
uint64_t sp_account_out(struct sp_account *account, uint64_t time);

/* A sample of the thread: it is on a CPU, and stands for `covers_ns`. Returns whether the CPU time since the latest row
 * is known. */
bool sp_account_sample(struct sp_account *account, uint64_t time, uint64_t covers_ns, uint64_t *ret_delta);

/* How many intervals passed on a CPU up to `time` that nothing stands for; they are covered now. The rest is carried.
 * `next_ns`: what a sample at `time` is going to cover. */
uint64_t sp_account_uncovered(struct sp_account *account, uint64_t time, uint64_t interval_ns, uint64_t next_ns);

/* CPU time that is known to have no samples for another reason than being in the kernel (samples were lost). */
void sp_account_forgive(struct sp_account *account, uint64_t time, uint64_t ns);

/* A row that stands for `covers_ns` of CPU time, of that which passed since the latest row. */
bool sp_account_row(struct sp_account *account, uint64_t time, uint64_t covers_ns, uint64_t *ret_delta);

#endif
