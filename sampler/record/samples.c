/* Samples on their way to and from the workers, CPU time by the switch records, losses, and the estimate of the
 * kernel's share where only user code is sampled.
 *
 * The estimate: the switch records tell how long a thread was on a CPU, its samples how long it was seen there. What is
 * missing is time in the kernel; it becomes samples with a label for a stack, with whole numbers as weights and the
 * rest carried on. */
#include "sampler/profile/stack_node.h"
#include "sampler/record/internal.h"

#include <stdlib.h>
#include <string.h>

#define KERNEL_LABEL "[kernel, not sampled]"

/* ---- Tasks ---- */

struct sp_task *sp_task_new(struct sp_pipeline *p)
{
	struct sp_task *task;
	if (p->spare_tasks.count)
		task = p->spare_tasks.items[--p->spare_tasks.count];
	else
		task = malloc(sizeof(*task));
	if (!task)
		return NULL;
	/* All but the event, which is large and about to be written. */
	memset(task, 0, offsetof(struct sp_task, event));
	return task;
}

void sp_task_spare(struct sp_pipeline *p, struct sp_task *task)
{
	if (!sp_vector_push(&p->spare_tasks, task))
		free(task);
}

void sp_task_release(struct sp_pipeline *p, struct sp_task *task)
{
	if (!--task->references)
		sp_task_spare(p, task);
}

/* ---- The kernel's share ---- */

static void add_estimate(struct sp_pipeline *p, struct sp_thread *thread, uint64_t time, uint64_t count)
{
	uint64_t ns = count * p->options.interval_ns, delta;
	bool known = sp_account_row(&thread->account, time, ns, &delta);
	sp_announce_for_sample(p, thread);
	struct sp_record record = {
		.type = SP_RECORD_SAMPLE,
		.sample = { .thread = thread->handle,
		            .time = time,
		            .cpu = SP_CPU_NONE,
		            .stack = SP_HANDLE_NONE,
		            .label = KERNEL_LABEL,
		            .cpu_delta = delta,
		            .cpu_delta_known = known,
		            .weight = (int64_t)count },
	};
	sp_commit_record(p, &record);
	p->counts.kernel_estimated += count;
}

void sp_estimate_kernel(struct sp_pipeline *p, struct sp_thread *thread, uint64_t time, uint64_t next_ns)
{
	if (p->options.kernel_sampled || !p->switches_seen || !p->options.source_count)
		return;
	uint64_t count = sp_account_uncovered(&thread->account, time, p->options.interval_ns, next_ns);
	if (count)
		add_estimate(p, thread, time, count);
}

void sp_estimate_running(struct sp_pipeline *p, uint64_t time)
{
	for (size_t i = 0; i < p->running.count; i++)
		sp_estimate_kernel(p, p->running.items[i], time, 0);
}

/* ---- CPU time ---- */

void sp_start_running(struct sp_pipeline *p, struct sp_thread *thread, uint64_t time)
{
	bool was_on = thread->account.on;
	sp_account_in(&thread->account, time);
	if (!was_on && !p->options.kernel_sampled && !sp_vector_push(&p->running, thread))
		sp_pipeline_fail(p, sp_error_no_memory());
}

void sp_stop_running(struct sp_pipeline *p, struct sp_thread *thread, uint64_t time)
{
	if (!thread->account.on)
		return;
	sp_estimate_kernel(p, thread, time, 0);
	p->counts.cpu_ns += sp_account_out(&thread->account, time);
	for (size_t i = 0; i < p->running.count; i++) {
		if (p->running.items[i] == thread) {
			p->running.items[i] = p->running.items[--p->running.count];
			break;
		}
	}
}

void sp_on_switch(struct sp_pipeline *p, const struct sp_event *event)
{
	struct sp_thread *thread = sp_thread_of_event(p, event);
	if (!thread || event->time < thread->last_time)
		return;
	p->switches_seen = true;
	thread->last_time = event->time;
	if (event->kind == SP_EVENT_SWITCH_IN)
		sp_start_running(p, thread, event->time);
	else
		sp_stop_running(p, thread, event->time);
}

/* ---- Losses ---- */

static void note_late(struct sp_pipeline *p, uint64_t time)
{
	if (!p->late || time < p->late_first)
		p->late_first = time;
	if (!p->late || time > p->late_last)
		p->late_last = time;
	p->late++;
	p->counts.late++;
}

void sp_report_late(struct sp_pipeline *p)
{
	if (!p->late)
		return;
	struct sp_record record = {
		.type = SP_RECORD_LOSS,
		.loss = { .kind = SP_LOSS_LATE,
		          .thread = SP_HANDLE_NONE,
		          .cpu = SP_CPU_NONE,
		          .time = p->late_first,
		          .end_time = p->late_last,
		          .count = p->late },
	};
	sp_commit_record(p, &record);
	p->late = 0;
}

void sp_on_loss(struct sp_pipeline *p, const struct sp_event *event)
{
	/* Whose records are missing is not known: the thread is the one that ran when the loss was noticed. */
	uint64_t *found = sp_map_get(&p->threads, event->tid);
	struct sp_thread *thread = found ? (struct sp_thread *)(uintptr_t)*found : NULL;
	uint64_t ns = event->loss.count * p->options.interval_ns;
	if (event->loss.kind == SP_LOSS_THROTTLED && event->loss.end_time > event->time)
		ns = event->loss.end_time - event->time;
	if (thread)
		sp_account_forgive(&thread->account, event->time, ns);
	struct sp_record record = {
		.type = SP_RECORD_LOSS,
		.loss = { .kind = (uint8_t)event->loss.kind,
		          .thread = SP_HANDLE_NONE,
		          .cpu = event->cpu,
		          .time = event->time,
		          .end_time = event->loss.end_time,
		          .count = event->loss.count },
	};
	sp_commit_record(p, &record);
}

void sp_on_marker(struct sp_pipeline *p, const struct sp_event *event)
{
	uint32_t handle = SP_HANDLE_NONE;
	if (event->tid) {
		struct sp_thread *thread = sp_thread_of_event(p, event);
		if (!thread)
			return;
		sp_announce_for_sample(p, thread);
		handle = thread->handle;
	}
	struct sp_record record = {
		.type = SP_RECORD_MARKER,
		.marker = { .thread = handle,
		            .time = event->time,
		            .end_time = event->marker.end_time,
		            .name = event->marker.name ? event->marker.name : "",
		            .text = event->marker.text },
	};
	sp_commit_record(p, &record);
}

/* ---- Samples ---- */

bool sp_on_sample(struct sp_pipeline *p, struct sp_task *task)
{
	const struct sp_event *event = &task->event;
	struct sp_thread *thread = sp_thread_of_event(p, event);
	if (sp_is_of_ended_thread(p, event))
		note_late(p, event->time);
	if (!thread || event->sample.source >= p->options.source_count)
		return false;
	if (event->time < p->watermark || event->time < thread->last_time) {
		note_late(p, event->time);
		return false;
	}
	thread->last_time = event->time;
	uint64_t covers = event->sample.source ? 0 : p->options.interval_ns;
	if (thread->account.on)
		sp_estimate_kernel(p, thread, event->time, covers);
	else if (!p->options.kernel_sampled)
		sp_start_running(p, thread, event->time);
	sp_announce_for_sample(p, thread);
	task->references = 2; /* the stream's queue and the commit queue */
	task->space = sp_space_reference(thread->process->space);
	task->stacks = &thread->stacks;
	task->thread = thread;
	task->cpu_delta_known = sp_account_sample(&thread->account, event->time, covers, &task->cpu_delta) &&
	                        p->switches_seen;
	thread->tasks++;
	p->tasks++;
	sp_workers_push(p->workers, task);
	struct sp_entry entry = { .kind = SP_ENTRY_SAMPLE, .task = task };
	sp_commit_push(p, &entry);
	return true;
}

void sp_write_sample(struct sp_pipeline *p, struct sp_task *task)
{
	struct sp_thread *thread = task->thread;
	p->frames.count = 0;
	if (!sp_vector_reserve(&p->frames, task->count)) {
		sp_pipeline_fail(p, sp_error_no_memory());
		task->count = 0;
	}
	for (uint32_t i = 0; i < task->count; i++)
		p->frames.items[i] = sp_stack_frame(task->addresses[i], task->flags[i]);
	struct sp_record record = {
		.type = SP_RECORD_SAMPLE,
		.sample = { .thread = thread->handle,
		            .source = task->event.sample.source,
		            .time = task->event.time,
		            .cpu = task->event.cpu,
		            .frames = p->frames.items,
		            .frame_count = task->count,
		            .kept = task->kept,
		            .stack = SP_HANDLE_NONE,
		            .end = task->end,
		            .cpu_delta = task->cpu_delta,
		            .cpu_delta_known = task->cpu_delta_known,
		            .weight = 1 },
	};
	if (!p->error)
		sp_pipeline_fail(p, sp_recording_write(p->options.recording, &record));
	p->counts.samples++;
	p->counts.ends[task->end]++;
	p->counts.spliced += task->spliced;
	sp_task_free_result(p->workers, task);
	p->copied_bytes -= task->copy_size;
	sp_space_release(task->space);
	sp_thread_drop_task(thread);
	p->tasks--;
	sp_task_release(p, task);
}
