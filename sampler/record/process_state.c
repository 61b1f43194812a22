/* Who is who: processes and threads by (pid, tid, time), their programs and address spaces, and who belongs to the
 * recorded tree.
 *
 * A process gets a handle ("is announced") when it runs a program of its own, is sampled, has a child, or ends: the
 * moment between fork and exec, in which it is a copy of its parent, mostly leaves no trace. Its mappings go into the
 * recording with its first sample.
 *
 * A thread whose end was seen stays for a while: the kernel samples it until it is off its CPU for good. */
#include "sampler/record/internal.h"

#include "common/clock.h"

#include <stdlib.h>
#include <string.h>

/* How long an ended thread's last samples may take. */
#define LINGER_NS 10000000u
/* Clocks of files and of sampling are compared with this tolerance. */
#define MTIME_SLACK_NS 2000000000u

static struct sp_process *find_process(const struct sp_pipeline *p, uint32_t pid)
{
	uint64_t *found = sp_map_get(&p->processes, pid);
	return found ? (struct sp_process *)(uintptr_t)*found : NULL;
}

static struct sp_thread *find_thread(const struct sp_pipeline *p, uint32_t tid)
{
	uint64_t *found = sp_map_get(&p->threads, tid);
	return found ? (struct sp_thread *)(uintptr_t)*found : NULL;
}

static char *copy_name(struct sp_pipeline *p, const char *name)
{
	char *copy = strdup(name ? name : "");
	if (!copy)
		sp_pipeline_fail(p, sp_error_no_memory());
	return copy;
}

static const char *text(const char *string)
{
	return string ? string : "";
}

/* ---- Facts ---- */

static struct sp_facts *ask_facts(struct sp_pipeline *p, uint32_t pid)
{
	if (!p->options.ops)
		return NULL;
	return sp_facts_create(p->options.ops, p->options.backend, p->loader, pid);
}

static struct sp_facts *reference_facts(struct sp_facts *facts)
{
	if (facts)
		facts->references++;
	return facts;
}

void sp_facts_release(struct sp_pipeline *p, struct sp_facts *facts)
{
	if (!facts || --facts->references)
		return;
	if (sp_job_done(&facts->job)) {
		sp_facts_free(facts);
		return;
	}
	facts->next = p->orphans;
	p->orphans = facts;
}

void sp_sweep_facts(struct sp_pipeline *p)
{
	struct sp_facts **link = &p->orphans;
	while (*link) {
		struct sp_facts *facts = *link;
		if (!sp_job_done(&facts->job)) {
			link = &facts->next;
			continue;
		}
		*link = facts->next;
		sp_facts_free(facts);
	}
}

/* ---- Announcing ---- */

static void announce_thread(struct sp_pipeline *p, struct sp_thread *thread)
{
	thread->handle = p->next_thread++;
	struct sp_record record = {
		.type = SP_RECORD_THREAD,
		.thread = { .thread = thread->handle,
		            .process = thread->process->handle,
		            .tid = thread->tid,
		            .time = thread->time,
		            .main = thread->tid == thread->process->pid,
		            .name = text(thread->name) },
	};
	sp_commit_record(p, &record);
}

static void announce(struct sp_pipeline *p, struct sp_process *process)
{
	if (process->handle != SP_HANDLE_NONE)
		return;
	process->handle = p->next_process++;
	struct sp_record record = {
		.type = SP_RECORD_PROCESS,
		.process = { .process = process->handle,
		             .previous = process->previous,
		             .parent = process->parent,
		             .pid = process->pid,
		             .generation = process->generation,
		             .time = process->time,
		             .found = process->found,
		             .name = text(process->name) },
	};
	sp_commit_process(p, &record, reference_facts(process->facts));
	for (struct sp_thread *thread = process->threads; thread; thread = thread->next)
		announce_thread(p, thread);
}

void sp_announce_for_sample(struct sp_pipeline *p, struct sp_thread *thread)
{
	struct sp_process *process = thread->process;
	if (process->mapped)
		return;
	if (process->facts && process->facts->pid != process->pid) {
		/* A fork that goes on as it is has a JIT map of its own. */
		sp_facts_release(p, process->facts);
		process->facts = ask_facts(p, process->pid);
	}
	announce(p, process);
	process->mapped = true;
	struct sp_entry entry = {
		.kind = SP_ENTRY_SPACE,
		.process = process->handle,
		.time = process->time,
		.space = sp_space_reference(process->space),
	};
	sp_commit_push(p, &entry);
}

/* ---- Threads ---- */

static struct sp_thread *add_thread(struct sp_pipeline *p, struct sp_process *process, uint32_t tid, uint64_t time,
                                    const char *name, bool from_start)
{
	struct sp_thread *thread = calloc(1, sizeof(*thread));
	if (!thread || !sp_map_put(&p->threads, tid, (uintptr_t)thread)) {
		free(thread);
		sp_pipeline_fail(p, sp_error_no_memory());
		return NULL;
	}
	thread->tid = tid;
	thread->handle = SP_HANDLE_NONE;
	thread->process = process;
	thread->name = copy_name(p, name);
	thread->time = time;
	sp_account_init(&thread->account, from_start);
	thread->link = &process->threads;
	thread->next = process->threads;
	if (thread->next)
		thread->next->link = &thread->next;
	process->threads = thread;
	if (process->handle != SP_HANDLE_NONE)
		announce_thread(p, thread);
	return thread;
}

static void free_thread(struct sp_thread *thread)
{
	sp_thread_stacks_deinit(&thread->stacks);
	free(thread->name);
	free(thread);
}

void sp_thread_drop_task(struct sp_thread *thread)
{
	thread->tasks--;
	if (thread->gone && !thread->tasks)
		free_thread(thread);
}

/* Takes the thread out of the tables. With `end`, its end goes into the recording. */
static void remove_thread(struct sp_pipeline *p, struct sp_thread *thread, uint64_t time, bool end)
{
	sp_stop_running(p, thread, time);
	if (thread->next)
		thread->next->link = thread->link;
	*thread->link = thread->next;
	struct sp_thread *known = find_thread(p, thread->tid);
	if (known == thread)
		sp_map_remove(&p->threads, thread->tid);
	if (time < thread->last_time)
		time = thread->last_time;
	if (thread->process->last_time < time)
		thread->process->last_time = time;
	struct sp_record record = { .type = SP_RECORD_THREAD_END,
		                    .thread_end = { .thread = thread->handle, .time = time } };
	if (end && thread->handle != SP_HANDLE_NONE)
		sp_commit_record(p, &record);
	thread->gone = true;
	if (!thread->tasks)
		free_thread(thread);
}

/* ---- Processes ---- */

static struct sp_process *add_process(struct sp_pipeline *p, uint32_t pid, uint64_t time, const char *name)
{
	struct sp_process *process = calloc(1, sizeof(*process));
	struct sp_space *space = sp_space_create();
	if (!process || !space || !sp_map_put(&p->processes, pid, (uintptr_t)process)) {
		free(process);
		sp_space_release(space);
		sp_pipeline_fail(p, sp_error_no_memory());
		return NULL;
	}
	process->pid = pid;
	process->handle = process->previous = process->parent = SP_HANDLE_NONE;
	process->time = process->born = time;
	process->name = copy_name(p, name);
	process->space = space;
	process->link = &p->all;
	process->next = p->all;
	if (process->next)
		process->next->link = &process->next;
	p->all = process;
	return process;
}

/* The wall-clock time from which on a file may be the process's. */
static uint64_t born_wall(const struct sp_process *process)
{
	uint64_t now = sp_clock_now(), wall = sp_clock_wall();
	if (process->found || process->born > now)
		return 0;
	uint64_t age = now - process->born + MTIME_SLACK_NS;
	return age < wall ? wall - age : 0;
}

/* Takes in the JIT map that the program leaves behind. */
static void read_perf_map(struct sp_pipeline *p, struct sp_process *process, uint64_t time)
{
	if (!process->mapped || !process->facts)
		return;
	struct sp_entry entry = { .kind = SP_ENTRY_PERF_MAP, .process = process->handle, .time = time };
	entry.perf_map = sp_perf_map_job_create(process->facts, born_wall(process), p->loader);
	entry.facts = entry.perf_map ? reference_facts(process->facts) : NULL;
	if (entry.perf_map)
		sp_commit_push(p, &entry);
}

static void end_program(struct sp_pipeline *p, struct sp_process *process, uint64_t time)
{
	struct sp_record record = { .type = SP_RECORD_PROCESS_END,
		                    .process_end = { .process = process->handle, .time = time } };
	read_perf_map(p, process, time);
	if (process->handle != SP_HANDLE_NONE)
		sp_commit_record(p, &record);
}

static void free_process(struct sp_pipeline *p, struct sp_process *process)
{
	if (process->next)
		process->next->link = process->link;
	*process->link = process->next;
	if (find_process(p, process->pid) == process)
		sp_map_remove(&p->processes, process->pid);
	sp_facts_release(p, process->facts);
	sp_space_release(process->space);
	free(process->name);
	free(process);
}

static void end_process(struct sp_pipeline *p, struct sp_process *process, uint64_t time)
{
	announce(p, process);
	while (process->threads)
		remove_thread(p, process->threads, time, true);
	end_program(p, process, process->last_time > time ? process->last_time : time);
	free_process(p, process);
}

static void end_thread(struct sp_pipeline *p, struct sp_thread *thread)
{
	struct sp_process *process = thread->process;
	if (!thread->next && process->threads == thread) {
		end_process(p, process, thread->end_time);
		return;
	}
	/* A thread that nothing was seen of and that no one was told about leaves no trace, like its process. */
	remove_thread(p, thread, thread->end_time, true);
}

void sp_end_threads(struct sp_pipeline *p, bool all)
{
	size_t kept = 0;
	for (size_t i = 0; i < p->ended.count; i++) {
		uint32_t tid = p->ended.items[i];
		struct sp_thread *thread = find_thread(p, tid);
		if (!thread || !thread->ended)
			continue;
		if (all || thread->end_time + LINGER_NS < p->watermark)
			end_thread(p, thread);
		else
			p->ended.items[kept++] = tid;
	}
	p->ended.count = kept;
}

void sp_end_processes(struct sp_pipeline *p)
{
	sp_end_threads(p, true);
	while (p->all) {
		struct sp_process *process = p->all;
		announce(p, process);
		while (process->threads)
			remove_thread(p, process->threads, p->now, false);
		read_perf_map(p, process, p->now);
		free_process(p, process);
	}
}

/* ---- The tree ---- */

/* Whether a process that nothing is known of can be ours. */
static bool is_ours_unseen(const struct sp_pipeline *p, uint32_t pid)
{
	return pid && pid != UINT32_MAX && (!p->options.whole_system || pid == p->options.root_pid);
}

/* A process of which we missed how it began. */
static struct sp_process *process_of_event(struct sp_pipeline *p, const struct sp_event *event)
{
	struct sp_process *process = find_process(p, event->pid);
	if (process || !is_ours_unseen(p, event->pid))
		return process;
	process = add_process(p, event->pid, event->time, NULL);
	if (!process)
		return NULL;
	process->found = true;
	process->facts = ask_facts(p, event->pid);
	return process;
}

bool sp_is_of_ended_thread(const struct sp_pipeline *p, const struct sp_event *event)
{
	return event->tid == SP_TID_ENDED && find_process(p, event->pid);
}

struct sp_thread *sp_thread_of_event(struct sp_pipeline *p, const struct sp_event *event)
{
	if (event->tid == SP_TID_ENDED)
		return NULL;
	struct sp_thread *thread = find_thread(p, event->tid);
	if (thread && (thread->process->pid == event->pid || !event->pid))
		return thread;
	/* Another process's thread with a known number: we missed the end of the one we know. */
	struct sp_process *process = process_of_event(p, event);
	if (!process || !event->tid)
		return NULL;
	if (thread) {
		thread->end_time = event->time;
		end_thread(p, thread);
	}
	const char *name = event->tid == event->pid ? process->name : NULL;
	return add_thread(p, process, event->tid, event->time, name, false);
}

static const char *name_of_creator(const struct sp_pipeline *p, const struct sp_event *event)
{
	const struct sp_thread *creator = find_thread(p, event->thread_start.parent_tid);
	return creator ? creator->name : NULL;
}

static void start_thread(struct sp_pipeline *p, struct sp_process *process, const struct sp_event *event)
{
	struct sp_thread *known = find_thread(p, event->tid);
	if (known && known->process == process && !known->ended && event->found)
		return;
	const char *name = event->thread_start.name;
	/* The creator may be the one that goes now. */
	char *copy = copy_name(p, name ? name : name_of_creator(p, event));
	if (known) {
		known->end_time = known->ended ? known->end_time : event->time;
		/* Not end_thread(): the process goes on with the new thread. */
		if (known->process == process)
			remove_thread(p, known, known->end_time, true);
		else
			end_thread(p, known);
	}
	add_thread(p, process, event->tid, event->time, copy, !event->found);
	free(copy);
}

static void fork_process(struct sp_pipeline *p, const struct sp_event *event, struct sp_process *parent)
{
	const char *name = event->thread_start.name;
	if (!name)
		name = name_of_creator(p, event);
	if (!name && parent)
		name = parent->name;
	struct sp_process *process = add_process(p, event->pid, event->time, name);
	if (!process)
		return;
	process->found = event->found;
	if (parent) {
		announce(p, parent);
		process->parent = parent->handle;
	}
	if (parent && !event->found) {
		sp_space_release(process->space);
		process->space = sp_space_reference(parent->space);
		process->facts = reference_facts(parent->facts);
	} else {
		process->facts = ask_facts(p, event->pid);
	}
	add_thread(p, process, event->tid, event->time, name, !event->found);
}

static bool has_live_thread(const struct sp_process *process)
{
	for (const struct sp_thread *thread = process->threads; thread; thread = thread->next) {
		if (!thread->ended)
			return true;
	}
	return false;
}

void sp_on_thread_start(struct sp_pipeline *p, const struct sp_event *event)
{
	struct sp_process *process = find_process(p, event->pid);
	if (event->pid == event->thread_start.parent_pid) {
		process = process_of_event(p, event);
		if (process)
			start_thread(p, process, event);
		return;
	}
	/* Found first and its fork seen then (or twice found): one and the same. */
	if (process && (event->found || process->found) && has_live_thread(process)) {
		process->found &= event->found;
		if (!find_thread(p, event->tid))
			start_thread(p, process, event);
		return;
	}
	if (process)
		end_process(p, process, has_live_thread(process) ? event->time : process->last_time);
	struct sp_process *parent = find_process(p, event->thread_start.parent_pid);
	if (parent || is_ours_unseen(p, event->pid))
		fork_process(p, event, parent);
}

void sp_on_thread_exit(struct sp_pipeline *p, const struct sp_event *event)
{
	struct sp_thread *thread = find_thread(p, event->tid);
	if (!thread || thread->process->pid != event->pid || thread->ended)
		return;
	thread->ended = true;
	thread->end_time = event->time;
	/* Events of a thread end before the thread leaves its CPU: no switch record tells of that. */
	if (!p->options.whole_system)
		sp_stop_running(p, thread, event->time);
	if (thread->process->last_time < event->time)
		thread->process->last_time = event->time;
	if (!sp_vector_push(&p->ended, event->tid))
		sp_pipeline_fail(p, sp_error_no_memory());
}

static void rename_process(struct sp_pipeline *p, struct sp_process *process, const char *name)
{
	free(process->name);
	process->name = copy_name(p, name);
}

void sp_on_name(struct sp_pipeline *p, const struct sp_event *event)
{
	struct sp_thread *thread = sp_thread_of_event(p, event);
	if (!thread || !strcmp(text(thread->name), text(event->name.name)))
		return;
	free(thread->name);
	thread->name = copy_name(p, event->name.name);
	if (thread->tid == thread->process->pid && thread->process->handle == SP_HANDLE_NONE)
		rename_process(p, thread->process, event->name.name);
	struct sp_record record = {
		.type = SP_RECORD_THREAD_NAME,
		.thread_name = { .thread = thread->handle, .time = event->time, .name = text(thread->name) },
	};
	if (thread->handle != SP_HANDLE_NONE)
		sp_commit_record(p, &record);
}

/* The program before the exec ends with all its threads; the next one goes on with the CPU that it is on. */
static void replace_program(struct sp_pipeline *p, struct sp_process *process, const struct sp_event *event)
{
	struct sp_thread *running = find_thread(p, event->tid);
	struct sp_account account;
	sp_account_init(&account, true);
	if (running && running->process == process) {
		sp_stop_running(p, running, event->time);
		account = running->account;
		account.row_ns = account.cpu_ns;
	}
	while (process->threads)
		remove_thread(p, process->threads, event->time, true);
	end_program(p, process, event->time);
	if (process->handle != SP_HANDLE_NONE)
		process->previous = process->handle;
	process->handle = SP_HANDLE_NONE;
	process->generation++;
	process->time = process->last_time = event->time;
	process->mapped = false;
	rename_process(p, process, event->name.name);
	struct sp_thread *thread = add_thread(p, process, event->tid, event->time, event->name.name, true);
	if (thread) {
		thread->account = account;
		sp_start_running(p, thread, event->time);
	}
}

void sp_on_exec(struct sp_pipeline *p, const struct sp_event *event)
{
	struct sp_process *process = process_of_event(p, event);
	struct sp_space *space = process ? sp_space_create() : NULL;
	if (!process)
		return;
	if (!space) {
		sp_pipeline_fail(p, sp_error_no_memory());
		return;
	}
	replace_program(p, process, event);
	sp_space_release(process->space);
	process->space = space;
	sp_facts_release(p, process->facts);
	process->facts = ask_facts(p, event->pid);
	announce(p, process);
}

/* ---- Mappings ---- */

static void unmap(struct sp_pipeline *p, struct sp_process *process, const struct sp_event *event)
{
	bool any;
	uint64_t start = event->map.start, size = event->map.size;
	if (size > UINT64_MAX - start)
		return;
	if (!sp_space_unmap(&process->space, start, start + size, &any)) {
		sp_pipeline_fail(p, sp_error_no_memory());
		return;
	}
	struct sp_record record = {
		.type = SP_RECORD_UNMAPPING,
		.unmapping = { .process = process->handle, .time = event->time, .start = start, .size = size },
	};
	if (any && process->mapped)
		sp_commit_record(p, &record);
}

static void map(struct sp_pipeline *p, struct sp_process *process, const struct sp_event *event)
{
	const struct sp_event_map *seen = &event->map;
	struct sp_mapping mapping = { .start = seen->start,
		                      .end = seen->start + seen->size,
		                      .file_offset = seen->file_offset,
		                      .time = event->time };
	struct sp_error *error = sp_module_of_mapping(p->modules, event->pid, event->time, seen, &mapping.module);
	if (error) {
		sp_pipeline_fail(p, error);
		return;
	}
	if (process->mapped && mapping.module) {
		struct sp_entry entry = { .kind = SP_ENTRY_MAPPING, .process = process->handle, .mapping = mapping };
		sp_module_add_user(mapping.module);
		sp_commit_push(p, &entry);
	} else if (process->mapped) {
		unmap(p, process, event);
	}
	if (!sp_space_map(&process->space, &mapping))
		sp_pipeline_fail(p, sp_error_no_memory());
}

void sp_on_map(struct sp_pipeline *p, const struct sp_event *event)
{
	struct sp_process *process = process_of_event(p, event);
	if (!process || event->map.size > UINT64_MAX - event->map.start)
		return;
	if (event->kind == SP_EVENT_MAP && event->map.executable)
		map(p, process, event);
	else
		unmap(p, process, event);
}

void sp_on_kernel_module(struct sp_pipeline *p, const struct sp_event *event)
{
	if (event->map.size > UINT64_MAX - event->map.start)
		return;
	struct sp_entry entry = { .kind = SP_ENTRY_MAPPING, .process = SP_HANDLE_NONE };
	entry.mapping = (struct sp_mapping){ .start = event->map.start,
		                             .end = event->map.start + event->map.size,
		                             .time = event->time };
	struct sp_error *error = sp_module_of_kernel(p->modules, &event->map, &entry.mapping.module);
	if (error)
		sp_pipeline_fail(p, error);
	else
		sp_commit_push(p, &entry);
}

void sp_on_jit_function(struct sp_pipeline *p, const struct sp_event *event)
{
	uint32_t handle = SP_HANDLE_NONE; /* pid 0: kernel code (BPF) */
	if (event->pid) {
		struct sp_process *process = process_of_event(p, event);
		if (!process)
			return;
		announce(p, process);
		handle = process->handle;
	}
	struct sp_record record = {
		.type = SP_RECORD_JIT_FUNCTION,
		.jit_function = { .process = handle,
		                  .time = event->time,
		                  .start = event->jit.start,
		                  .size = event->jit.size,
		                  .name = event->jit.name },
	};
	if (event->jit.size <= UINT64_MAX - event->jit.start)
		sp_commit_record(p, &record);
}
