/* Threads that unwind. A sample goes to the worker of its thread, so that a thread's stacks are seen in order. */
#ifndef SP_SAMPLER_RECORD_WORKERS_H
#define SP_SAMPLER_RECORD_WORKERS_H

#include "sampler/event.h"
#include "sampler/record/address_space.h"
#include "sampler/record/signal.h"

#include <stdbool.h>
#include <stdint.h>

/* Where a task's stack bytes are. */
enum sp_task_claim {
	SP_TASK_WAITS,   /* in the stream, not begun */
	SP_TASK_COPYING, /* the reader is moving them to memory of the task's own */
	SP_TASK_TAKEN,   /* a worker uses them */
};

/* The earlier stacks of a thread; made and used by its worker alone. */
struct sp_thread_stacks {
	struct sp_stack_history *history; /* NULL = none yet */
	/* The latest stack, outermost frame first. */
	uint32_t depth, capacity;
	uint64_t *addresses; /* owned; followed by a byte of flags each */
	uint8_t *flags;
};

/* A sample on its way. */
struct sp_task {
	/* The reader's; constant while the worker has it. */
	struct sp_space *space;                /* a reference of its own */
	struct sp_thread_stacks *stacks;       /* outlives the task */
	const struct sp_unwind_module *forget; /* not NULL: no sample, but a module to forget */

	_Atomic(uint8_t) claim; /* enum sp_task_claim */
	void *copy;             /* owned; the bytes that were moved, NULL = they lie in the stream */
	size_t copy_size;

	/* The worker's, until `done`. */
	uint64_t *addresses; /* owned; leaf first, followed by a byte of flags each */
	uint8_t *flags;      /* in the same memory; sp_stack_flags() */
	uint32_t count;      /* of these; the outermost `kept` frames of the thread's previous stack follow */
	uint32_t kept;
	uint8_t end; /* enum sp_unwind_end */
	bool spliced;
	atomic_bool done;

	/* The reader's again. */
	uint8_t references;
	void *thread; /* struct sp_thread */
	uint64_t cpu_delta;
	bool cpu_delta_known;

	/* Where streams put events; constant while the worker has it. */
	struct sp_event event;
};

struct sp_workers;

/* `progress` (borrowed) is raised when samples were finished. No more than `capacity` tasks are ever under way. */
struct sp_error *sp_workers_create(unsigned count, size_t capacity, struct sp_signal *progress,
                                   struct sp_workers **ret);
/* Does what is left, and ends. */
void sp_workers_destroy(struct sp_workers *workers);

/* min(4, CPUs / 4 + 1) */
unsigned sp_workers_default_count(void);

/* Hands over a sample; the worker may not begin before sp_workers_kick(). */
void sp_workers_push(struct sp_workers *workers, struct sp_task *task);
void sp_workers_kick(struct sp_workers *workers);

/* Bytes of finished stacks that were not freed yet. */
size_t sp_workers_result_bytes(const struct sp_workers *workers);
void sp_thread_stacks_deinit(struct sp_thread_stacks *stacks);
void sp_task_free_result(struct sp_workers *workers, struct sp_task *task);

/* Makes all workers forget the modules; returns when they have. */
struct sp_error *sp_workers_forget(struct sp_workers *workers, struct sp_module *const *modules, size_t count);

static inline bool sp_task_done(struct sp_task *task)
{
	return atomic_load(&task->done);
}

#endif
