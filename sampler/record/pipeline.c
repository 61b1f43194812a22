/* The pipeline's life and its main loop: the earliest event of all streams is dealt with, samples go to the workers and
 * come back in order, streams get back what is no longer used.
 *
 * When a stream fills up because the workers are behind, the stack bytes that wait are copied out of it, so that the OS
 * can go on; when there is no room for that either, the reader waits for the workers, and the OS counts what it loses.
 */
#include "sampler/record/internal.h"

#include "common/clock.h"

#include <stdlib.h>
#include <string.h>

/* Events between two looks at what is finished. */
#define BATCH 256
/* sp_stream_ops.pressure() from which on bytes are copied. */
#define HIGH_PRESSURE 128
/* ... and how long the workers get before. */
#define PATIENCE_MS 2
#define CLOCK_PERIOD_NS 60000000000u
#define KEEP_KERNEL_AFTER_NS 1000000000u
/* Modules closed in one go. */
#define CLOSE_BATCH 32

static void write_sources(struct sp_pipeline *p)
{
	for (size_t i = 0; i < p->options.source_count; i++) {
		const struct sp_source *source = &p->options.sources[i];
		struct sp_record record = {
			.type = SP_RECORD_SOURCE,
			.source = { .source = (uint32_t)i,
			            .name = source->name,
			            .unit = source->unit,
			            .rate = source->rate },
		};
		sp_commit_record(p, &record);
	}
}

struct sp_error *sp_pipeline_create(const struct sp_pipeline_options *options, struct sp_pipeline **ret)
{
	struct sp_pipeline *p = calloc(1, sizeof(*p));
	if (!p)
		return sp_error_no_memory();
	p->options = *options;
	p->started = sp_clock_now();
	sp_signal_init(&p->progress);
	struct sp_error *error = sp_loader_create(&p->progress, &p->loader);
	if (!error)
		error = sp_workers_create(sp_workers_default_count(), SP_TASKS_MAX + 1, &p->progress, &p->workers);
	struct sp_modules_options modules = {
		.ops = options->ops,
		.backend = options->backend,
		.cache_folder = options->cache_folder,
		.loader = p->loader,
		.progress = &p->progress,
		.log = options->log,
	};
	if (!error)
		error = sp_modules_create(&modules, &p->modules);
	if (error) {
		sp_pipeline_destroy(p);
		return error;
	}
	write_sources(p);
	*ret = p;
	return p->error ? sp_error_copy(p->error) : NULL;
}

struct sp_error *sp_pipeline_add_stream(struct sp_pipeline *p, struct sp_stream *stream)
{
	struct sp_task *task = sp_task_new(p);
	if (!task || !sp_merge_add(&p->merge, stream, &task->event)) {
		free(task);
		return sp_error_no_memory();
	}
	return NULL;
}

static struct sp_task *task_of_event(struct sp_event *event)
{
	return (struct sp_task *)((char *)event - offsetof(struct sp_task, event));
}

static void remove_streams(struct sp_pipeline *p)
{
	for (size_t i = 0; i < p->merge.streams.count; i++)
		sp_task_spare(p, task_of_event(p->merge.streams.items[i]->event));
	sp_merge_deinit(&p->merge);
	p->merge = (struct sp_merge){ 0 };
}

/* ---- Back pressure ---- */

/* Whether the stream's bytes are no longer needed for the task; then the stream's reference goes. */
static bool bytes_done(void *user)
{
	struct sp_task *task = user;
	return sp_task_done(task) || task->copy_size;
}

static void release(struct sp_pipeline *p, struct sp_merge_stream *stream)
{
	/* sp_merge_release() lets go; the references follow. */
	for (size_t i = 0; i < stream->held_count; i++) {
		struct sp_task *task = sp_merge_held(stream, i)->user;
		if (task && bytes_done(task)) {
			sp_merge_held(stream, i)->user = NULL;
			sp_task_release(p, task);
		}
	}
	sp_merge_release(stream);
}

static void release_all(struct sp_pipeline *p)
{
	for (size_t i = 0; i < p->merge.streams.count; i++)
		release(p, p->merge.streams.items[i]);
}

static bool is_full(const struct sp_merge_stream *stream)
{
	return stream->stream->ops->pressure && stream->stream->ops->pressure(stream->stream) >= HIGH_PRESSURE;
}

static bool any_full(const struct sp_pipeline *p)
{
	for (size_t i = 0; i < p->merge.streams.count; i++) {
		if (is_full(p->merge.streams.items[i]))
			return true;
	}
	return false;
}

/* How much of a stack is worth its copy; the rest is cut off. */
static size_t copied_stack_size(const struct sp_pipeline *p, const struct sp_event_sample *sample)
{
	size_t share = (SP_COPY_BYTES_MAX - p->copied_bytes) / SP_COPY_PART & ~(size_t)7;
	if (share < SP_COPY_BYTES_MIN)
		share = SP_COPY_BYTES_MIN;
	return share < sample->stack.size ? share : sample->stack.size;
}

/* Moves what the task needs of the stream into memory of its own; false when there is no room, or a worker has it. */
static bool copy_out(struct sp_pipeline *p, struct sp_task *task)
{
	struct sp_event_sample *sample = &task->event.sample;
	size_t kernel = sample->kernel_chain_count * sizeof(uint64_t);
	size_t user = sample->user_chain_count * sizeof(uint64_t);
	size_t stack = copied_stack_size(p, sample);
	size_t size = kernel + user + stack;
	uint8_t expected = SP_TASK_WAITS;
	if (p->copied_bytes + size > SP_COPY_BYTES_MAX)
		return false;
	char *copy = malloc(size + 1);
	if (!copy || !atomic_compare_exchange_strong(&task->claim, &expected, SP_TASK_COPYING)) {
		free(copy);
		return false;
	}
	if (kernel)
		sample->kernel_chain = memcpy(copy, sample->kernel_chain, kernel);
	if (user)
		sample->user_chain = memcpy(copy + kernel, sample->user_chain, user);
	if (stack)
		sample->stack.bytes = memcpy(copy + kernel + user, sample->stack.bytes, stack);
	sample->stack.size = stack;
	task->copy = copy;
	task->copy_size = size + 1;
	p->copied_bytes += task->copy_size;
	atomic_store(&task->claim, SP_TASK_WAITS);
	return true;
}

static void copy_out_all(struct sp_pipeline *p, struct sp_merge_stream *stream)
{
	for (size_t i = 0; i < stream->held_count && is_full(stream); i++) {
		struct sp_task *task = sp_merge_held(stream, i)->user;
		if (task && !bytes_done(task))
			copy_out(p, task);
		if (i % 16 == 15)
			release(p, stream);
	}
	release(p, stream);
}

static bool first_ready(void *context)
{
	return sp_commit_first_ready(context);
}

/* Waits for the workers, a little while. */
static void wait_a_little(struct sp_pipeline *p)
{
	sp_workers_kick(p->workers);
	sp_signal_wait_for(&p->progress, first_ready, p, PATIENCE_MS);
	sp_commit_run(p, false);
	release_all(p);
}

static void relieve(struct sp_pipeline *p)
{
	release_all(p);
	if (!any_full(p))
		return;
	wait_a_little(p);
	for (size_t i = 0; i < p->merge.streams.count; i++) {
		if (is_full(p->merge.streams.items[i]))
			copy_out_all(p, p->merge.streams.items[i]);
	}
}

static bool has_room(const struct sp_pipeline *p)
{
	return p->tasks < SP_TASKS_MAX && sp_workers_result_bytes(p->workers) < SP_RESULT_BYTES_MAX;
}

/* ---- The main loop ---- */

/* Deals with an event that is no sample. */
static void take_event(struct sp_pipeline *p, const struct sp_event *event)
{
	switch (event->kind) {
	case SP_EVENT_SAMPLE:
		break;
	case SP_EVENT_SWITCH_IN:
	case SP_EVENT_SWITCH_OUT:
		sp_on_switch(p, event);
		break;
	case SP_EVENT_THREAD_START:
		sp_on_thread_start(p, event);
		break;
	case SP_EVENT_THREAD_EXIT:
		sp_on_thread_exit(p, event);
		break;
	case SP_EVENT_NAME:
		sp_on_name(p, event);
		break;
	case SP_EVENT_EXEC:
		sp_on_exec(p, event);
		break;
	case SP_EVENT_MAP:
	case SP_EVENT_UNMAP:
		sp_on_map(p, event);
		break;
	case SP_EVENT_KERNEL_MODULE:
		sp_on_kernel_module(p, event);
		break;
	case SP_EVENT_JIT_FUNCTION:
		sp_on_jit_function(p, event);
		break;
	case SP_EVENT_LOSS:
		sp_on_loss(p, event);
		break;
	case SP_EVENT_MARKER:
		sp_on_marker(p, event);
		break;
	}
}

/* Deals with the stream's event and goes on to its next one, which takes another place when the task is in use now. */
static bool take_first(struct sp_pipeline *p, struct sp_merge_stream *stream)
{
	struct sp_event *event = stream->event;
	if (event->kind != SP_EVENT_SAMPLE) {
		take_event(p, event);
		return sp_merge_next(&p->merge, NULL, event);
	}
	struct sp_task *task = task_of_event(event), *next = sp_task_new(p);
	if (!next || !sp_on_sample(p, task)) {
		if (next)
			sp_task_spare(p, next);
		return sp_merge_next(&p->merge, NULL, event) && next;
	}
	return sp_merge_next(&p->merge, task, &next->event);
}

/* Has the workers go on, and writes and gives back what is finished. */
static void pump(struct sp_pipeline *p)
{
	sp_workers_kick(p->workers);
	sp_commit_run(p, false);
	relieve(p);
	while (!has_room(p))
		wait_a_little(p);
}

static void take_events(struct sp_pipeline *p, uint64_t watermark)
{
	struct sp_merge_stream *stream;
	unsigned since_pump = 0;
	while ((stream = sp_merge_first(&p->merge, watermark))) {
		if (stream->event->time > p->now)
			p->now = stream->event->time;
		if (!take_first(p, stream))
			sp_pipeline_fail(p, sp_error_no_memory());
		if (++since_pump >= BATCH) {
			pump(p);
			since_pump = 0;
		}
	}
}

/* Pairs the sampling clock with the wall clock: at the start, every minute, and at the end. */
static void pair_clocks(struct sp_pipeline *p, bool now)
{
	uint64_t time = sp_clock_now();
	if (!p->options.ops || (!now && time < p->next_clock))
		return;
	p->next_clock = time + CLOCK_PERIOD_NS;
	struct sp_record record = {
		.type = SP_RECORD_CLOCK,
		.clock = { .name = sp_clock_name(), .time = time, .wall_ns = sp_clock_wall() },
	};
	sp_commit_record(p, &record);
}

static void close_unused_modules(struct sp_pipeline *p)
{
	struct sp_module *unused[CLOSE_BATCH];
	size_t count = sp_modules_excess(p->modules, unused, CLOSE_BATCH);
	if (!count)
		return;
	struct sp_error *error = sp_workers_forget(p->workers, unused, count);
	if (error) {
		sp_pipeline_fail(p, error);
		return;
	}
	for (size_t i = 0; i < count; i++)
		sp_module_close(unused[i]);
}

struct sp_error *sp_pipeline_advance(struct sp_pipeline *p, uint64_t watermark)
{
	pair_clocks(p, false);
	sp_commit_run(p, false);
	sp_merge_poll(&p->merge);
	take_events(p, watermark);
	if (watermark > p->watermark)
		p->watermark = watermark;
	sp_estimate_running(p, p->watermark < p->now ? p->watermark : p->now);
	sp_report_late(p);
	sp_end_threads(p, false);
	pump(p);
	close_unused_modules(p);
	sp_sweep_facts(p);
	/* Not at the start, when modules are waited for. */
	if (p->options.kernel_sampled && sp_clock_now() - p->started > KEEP_KERNEL_AFTER_NS)
		sp_modules_keep_kernel(p->modules);
	if (!p->error)
		sp_pipeline_fail(p, sp_recording_flush_old(p->options.recording));
	return p->error ? sp_error_copy(p->error) : NULL;
}

/* ---- The end ---- */

static void count_survivors(struct sp_pipeline *p)
{
	p->survivors.count = 0;
	for (struct sp_process *process = p->all; process; process = process->next) {
		bool alive = false;
		for (struct sp_thread *thread = process->threads; thread; thread = thread->next)
			alive |= !thread->ended;
		if (!alive || process->pid == p->options.root_pid || !process->name)
			continue;
		char *name = strdup(process->name);
		if (!name || !sp_vector_push(&p->survivors, (struct sp_survivor){ .pid = process->pid, .name = name }))
			free(name);
	}
	p->counts.survivors = (uint32_t)p->survivors.count;
}

static void forget_survivors(struct sp_pipeline *p)
{
	for (size_t i = 0; i < p->survivors.count; i++)
		free(p->survivors.items[i].name);
	p->survivors.count = 0;
}

struct sp_error *sp_pipeline_finish(struct sp_pipeline *p, uint64_t end_time)
{
	sp_merge_poll(&p->merge);
	take_events(p, UINT64_MAX);
	if (end_time > p->now)
		p->now = end_time;
	sp_report_late(p);
	sp_end_threads(p, true);
	forget_survivors(p);
	count_survivors(p);
	sp_end_processes(p);
	pair_clocks(p, true);
	sp_workers_kick(p->workers);
	sp_commit_run(p, true);
	release_all(p);
	sp_modules_keep_gone(p->modules);
	if (!p->error)
		sp_pipeline_fail(p, sp_recording_flush(p->options.recording));
	return p->error ? sp_error_copy(p->error) : NULL;
}

struct sp_error *sp_pipeline_next_run(struct sp_pipeline *p, struct sp_backend *backend, uint32_t root_pid)
{
	sp_loader_drain(p->loader);
	sp_sweep_facts(p);
	remove_streams(p);
	p->options.backend = backend;
	p->options.root_pid = root_pid;
	sp_modules_set_backend(p->modules, backend);
	return p->error ? sp_error_copy(p->error) : NULL;
}

void sp_pipeline_counts(const struct sp_pipeline *p, struct sp_pipeline_counts *ret)
{
	*ret = p->counts;
}

void sp_pipeline_survivors(const struct sp_pipeline *p, void (*emit)(void *context, uint32_t pid, const char *name),
                           void *context)
{
	for (size_t i = 0; i < p->survivors.count; i++)
		emit(context, p->survivors.items[i].pid, p->survivors.items[i].name);
}

void sp_pipeline_destroy(struct sp_pipeline *p)
{
	if (!p)
		return;
	/* Without a finish before: nothing more is written, but all threads must be done with what they were given. */
	if (p->workers) {
		if (!p->error)
			p->error = sp_error_create(SP_ERROR_CANCELLED, "the recording was given up");
		sp_workers_kick(p->workers);
		sp_commit_run(p, true);
		release_all(p);
		sp_end_processes(p);
		sp_commit_run(p, true);
	}
	sp_workers_destroy(p->workers);
	sp_loader_destroy(p->loader);
	sp_sweep_facts(p);
	sp_modules_destroy(p->modules);
	remove_streams(p);
	sp_commit_deinit(p);
	for (size_t i = 0; i < p->spare_tasks.count; i++)
		free(p->spare_tasks.items[i]);
	sp_vector_deinit(&p->spare_tasks);
	sp_vector_deinit(&p->frames);
	sp_vector_deinit(&p->ended);
	sp_vector_deinit(&p->running);
	sp_map_deinit(&p->processes);
	sp_map_deinit(&p->threads);
	forget_survivors(p);
	sp_vector_deinit(&p->survivors);
	sp_signal_deinit(&p->progress);
	sp_error_destroy(p->error);
	free(p);
}
