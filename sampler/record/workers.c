/* The unwinding threads of workers.h: each has a queue with one writer (the reader thread) and one reader. */
#include "sampler/record/workers.h"

#include "sampler/profile/stack_node.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#include <windows.h>
#else
#include <unistd.h>
#endif

#define MAX_WORKERS 4
#define MAX_KERNEL_FRAMES 1024

struct worker {
	pthread_t thread;
	bool started;
	struct sp_workers *workers;
	struct sp_signal wake;
	struct sp_task **queue; /* owned; circular */
	size_t capacity;        /* a power of two */
	size_t pushed;          /* the reader thread's; visible to the worker as `tail` */
	_Atomic(size_t) tail;
	_Atomic(size_t) head;
	atomic_bool stop;
	struct sp_unwinder *unwinder;
	struct sp_frame *frames; /* owned */
};

struct sp_workers {
	unsigned count;
	struct worker workers[MAX_WORKERS];
	struct sp_signal *progress;
	_Atomic(size_t) result_bytes;
};

unsigned sp_workers_default_count(void)
{
#ifdef _WIN32
	SYSTEM_INFO info;
	GetSystemInfo(&info);
	long cpus = (long)info.dwNumberOfProcessors;
#else
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
#endif
	if (cpus < 1)
		cpus = 1;
	return cpus / 4 + 1 < MAX_WORKERS ? (unsigned)(cpus / 4 + 1) : MAX_WORKERS;
}

/* ---- One sample ---- */

static size_t put_chain(const uint64_t *chain, uint32_t count, enum sp_frame_mode mode, enum sp_frame_origin origin,
                        struct sp_frame *frames, size_t capacity)
{
	size_t n = count < capacity ? count : capacity;
	for (size_t i = 0; i < n; i++) {
		frames[i] = (struct sp_frame){
			.address = chain[i],
			.kind = i ? SP_FRAME_RETURN_ADDRESS : SP_FRAME_IP,
			.mode = mode,
			.origin = i ? origin : SP_FOUND_EXACT,
		};
	}
	return n;
}

static size_t put_kernel_frames(const struct sp_event_sample *sample, struct sp_frame *frames)
{
	size_t count = put_chain(sample->kernel_chain, sample->kernel_chain_count, SP_MODE_KERNEL, SP_FOUND_EXACT,
	                         frames, MAX_KERNEL_FRAMES);
	if (!count && sample->in_kernel)
		count = put_chain(&sample->ip, 1, SP_MODE_KERNEL, SP_FOUND_EXACT, frames, 1);
	return count;
}

/* The user part without registers: as much as the sample tells. */
static enum sp_unwind_end put_bare_user_frames(const struct sp_event_sample *sample, struct sp_frame *frames,
                                               size_t *ret_count)
{
	*ret_count = put_chain(sample->user_chain, sample->user_chain_count, SP_MODE_USER, SP_FOUND_FRAME_POINTER,
	                       frames, SP_UNWIND_MAX_FRAMES);
	if (*ret_count || sample->in_kernel || sample->kernel_chain_count)
		return SP_UNWIND_ROOT;
	*ret_count = put_chain(&sample->ip, 1, SP_MODE_USER, SP_FOUND_EXACT, frames, 1);
	return SP_UNWIND_NO_REGS;
}

static enum sp_unwind_end put_user_frames(struct worker *worker, struct sp_task *task, const struct sp_code_map *code,
                                          struct sp_frame *frames, size_t *ret_count)
{
	const struct sp_event_sample *sample = &task->event.sample;
	*ret_count = 0;
	if (sample->regs.arch == SP_ARCH_NONE)
		return put_bare_user_frames(sample, frames, ret_count);
	struct sp_thread_stacks *stacks = task->stacks;
	if (stacks->history)
		sp_stack_history_prefetch(stacks->history, &sample->stack);
	enum sp_unwind_end end = sp_unwind(worker->unwinder, code, &sample->regs, &sample->stack,
	                                   sample->stack.size ? 1 : 0, frames, SP_UNWIND_MAX_FRAMES, ret_count);
	if (!stacks->history) {
		struct sp_error *error = sp_stack_history_create(&stacks->history);
		if (error) {
			sp_error_destroy(error);
			stacks->history = NULL;
			return end;
		}
	}
	return sp_unwind_complete(stacks->history, task->event.time, &sample->stack, sample->stack.size ? 1 : 0,
	                          sample->user_chain, sample->user_chain_count, end, frames, SP_UNWIND_MAX_FRAMES,
	                          ret_count);
}

void sp_thread_stacks_deinit(struct sp_thread_stacks *stacks)
{
	if (stacks->history)
		sp_stack_history_destroy(stacks->history);
	free(stacks->addresses);
}

static bool resize_stacks(struct sp_thread_stacks *stacks, uint32_t capacity)
{
	uint64_t *addresses = malloc((size_t)capacity * (sizeof(*addresses) + 1));
	if (!addresses)
		return false;
	uint8_t *flags = (uint8_t *)(addresses + capacity);
	if (stacks->depth) {
		memcpy(addresses, stacks->addresses, stacks->depth * sizeof(*addresses));
		memcpy(flags, stacks->flags, stacks->depth);
	}
	free(stacks->addresses);
	stacks->addresses = addresses;
	stacks->flags = flags;
	stacks->capacity = capacity;
	return true;
}

/* How many outermost frames are those of the thread's previous stack. */
static uint32_t count_kept(const struct sp_thread_stacks *stacks, const struct sp_frame *frames, uint32_t count)
{
	uint32_t kept = 0, both = count < stacks->depth ? count : stacks->depth;
	const struct sp_frame *frame = frames + count;
	while (kept < both && frame[-1].address == stacks->addresses[kept] &&
	       sp_stack_flags(&frame[-1]) == stacks->flags[kept]) {
		kept++;
		frame--;
	}
	return kept;
}

/* Gives the reader what is new of the stack: a few frames cross over to its CPU instead of all. */
static void store_result(struct worker *worker, struct sp_task *task, const struct sp_frame *frames, size_t all)
{
	struct sp_thread_stacks *stacks = task->stacks;
	uint32_t count = (uint32_t)all;
	task->count = task->kept = 0;
	if (count > stacks->capacity && !resize_stacks(stacks, count + count / 2))
		return;
	uint32_t kept = count_kept(stacks, frames, count), added = count - kept;
	size_t size = added * (sizeof(uint64_t) + 1);
	if (added && !(task->addresses = malloc(size)))
		return;
	task->flags = added ? (uint8_t *)(task->addresses + added) : NULL;
	for (uint32_t i = 0; i < added; i++) {
		uint32_t place = count - 1 - i;
		task->addresses[i] = stacks->addresses[place] = frames[i].address;
		task->flags[i] = stacks->flags[place] = sp_stack_flags(&frames[i]);
	}
	if (count)
		stacks->depth = count;
	task->count = added;
	task->kept = kept;
	atomic_fetch_add_explicit(&worker->workers->result_bytes, size, memory_order_relaxed);
}

static void take(struct sp_task *task)
{
	uint8_t expected = SP_TASK_WAITS;
	while (!atomic_compare_exchange_weak(&task->claim, &expected, SP_TASK_TAKEN)) {
		/* The reader copies the bytes, some microseconds; they go on from there. */
		if (expected == SP_TASK_COPYING)
			sched_yield();
		expected = SP_TASK_WAITS;
	}
}

static void do_sample(struct worker *worker, struct sp_task *task)
{
	static const struct sp_code_map no_code;
	/* May wait for files to be opened; the stack bytes must not be kept from being moved by that. */
	const struct sp_code_map *code = task->event.sample.regs.arch == SP_ARCH_NONE ? &no_code
	                                                                              : sp_space_code(task->space);
	take(task);
	size_t kernel = put_kernel_frames(&task->event.sample, worker->frames), user;
	task->end = (uint8_t)put_user_frames(worker, task, code ? code : &no_code, worker->frames + kernel, &user);
	size_t count = kernel + user;
	task->spliced = user && worker->frames[count - 1].origin >= SP_FOUND_SPLICED_CHAIN;
	store_result(worker, task, worker->frames, count);
	free(task->copy);
	task->copy = NULL;
}

/* ---- Threads ---- */

static bool has_work(void *context)
{
	struct worker *worker = context;
	return atomic_load(&worker->tail) != atomic_load_explicit(&worker->head, memory_order_relaxed) ||
	       atomic_load(&worker->stop);
}

static void *run_worker(void *context)
{
	struct worker *worker = context;
	size_t head = 0;
	for (;;) {
		if (!has_work(worker))
			sp_signal_wait(&worker->wake, has_work, worker);
		size_t tail = atomic_load(&worker->tail);
		if (head == tail)
			return NULL; /* told to stop, and nothing is left */
		for (; head != tail; head++) {
			struct sp_task *task = worker->queue[head & (worker->capacity - 1)];
			if (task->forget)
				sp_unwinder_forget(worker->unwinder, task->forget);
			else
				do_sample(worker, task);
			atomic_store_explicit(&worker->head, head + 1, memory_order_release);
			/* From here on the task may be gone. */
			atomic_store(&task->done, true);
			sp_signal_raise(worker->workers->progress);
		}
	}
}

static struct sp_error *start_worker(struct sp_workers *workers, struct worker *worker, size_t capacity)
{
	worker->workers = workers;
	worker->capacity = 1;
	while (worker->capacity < capacity)
		worker->capacity *= 2;
	worker->queue = malloc(worker->capacity * sizeof(*worker->queue));
	worker->frames = malloc((MAX_KERNEL_FRAMES + SP_UNWIND_MAX_FRAMES) * sizeof(*worker->frames));
	if (!worker->queue || !worker->frames)
		return sp_error_no_memory();
	struct sp_error *error = sp_unwinder_create(&worker->unwinder);
	if (!error)
		error = sp_thread_start("unwinding", run_worker, worker, &worker->thread);
	worker->started = !error;
	return error;
}

struct sp_error *sp_workers_create(unsigned count, size_t capacity, struct sp_signal *progress, struct sp_workers **ret)
{
	struct sp_workers *workers = calloc(1, sizeof(*workers));
	if (!workers)
		return sp_error_no_memory();
	workers->progress = progress;
	workers->count = count < MAX_WORKERS ? count : MAX_WORKERS;
	for (unsigned i = 0; i < workers->count; i++)
		sp_signal_init(&workers->workers[i].wake);
	for (unsigned i = 0; i < workers->count; i++) {
		struct sp_error *error = start_worker(workers, &workers->workers[i], capacity);
		if (error) {
			sp_workers_destroy(workers);
			return error;
		}
	}
	*ret = workers;
	return NULL;
}

void sp_workers_destroy(struct sp_workers *workers)
{
	if (!workers)
		return;
	sp_workers_kick(workers);
	for (unsigned i = 0; i < workers->count; i++) {
		struct worker *worker = &workers->workers[i];
		if (worker->started) {
			atomic_store(&worker->stop, true);
			sp_signal_raise(&worker->wake);
			pthread_join(worker->thread, NULL);
		}
		if (worker->unwinder)
			sp_unwinder_destroy(worker->unwinder);
		sp_signal_deinit(&worker->wake);
		free(worker->queue);
		free(worker->frames);
	}
	free(workers);
}

static void push(struct worker *worker, struct sp_task *task)
{
	worker->queue[worker->pushed++ & (worker->capacity - 1)] = task;
}

void sp_workers_push(struct sp_workers *workers, struct sp_task *task)
{
	push(&workers->workers[task->event.tid % workers->count], task);
}

void sp_workers_kick(struct sp_workers *workers)
{
	for (unsigned i = 0; i < workers->count; i++) {
		struct worker *worker = &workers->workers[i];
		if (atomic_load_explicit(&worker->tail, memory_order_relaxed) == worker->pushed)
			continue;
		atomic_store(&worker->tail, worker->pushed);
		sp_signal_raise(&worker->wake);
	}
}

size_t sp_workers_result_bytes(const struct sp_workers *workers)
{
	return atomic_load_explicit(&workers->result_bytes, memory_order_relaxed);
}

void sp_task_free_result(struct sp_workers *workers, struct sp_task *task)
{
	if (!task->addresses)
		return;
	atomic_fetch_sub_explicit(&workers->result_bytes, task->count * (sizeof(uint64_t) + 1), memory_order_relaxed);
	free(task->addresses);
	task->addresses = NULL;
}

static bool task_done(void *context)
{
	return sp_task_done(context);
}

struct sp_error *sp_workers_forget(struct sp_workers *workers, struct sp_module *const *modules, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!modules[i]->unwind)
			continue;
		for (unsigned k = 0; k < workers->count; k++) {
			struct sp_task *task = calloc(1, sizeof(*task));
			if (!task)
				return sp_error_no_memory();
			task->forget = modules[i]->unwind;
			push(&workers->workers[k], task);
			sp_workers_kick(workers);
			sp_signal_wait(workers->progress, task_done, task);
			free(task);
		}
	}
	return NULL;
}
