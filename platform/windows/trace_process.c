/* Processes and threads over time. Windows gives their numbers out again soon, and some recorders list what there was
 * only at the end, so a number means the process that had it last, and one that nobody announced is taken to have been
 * there from the beginning. */
#include "platform/windows/trace.h"

/* ---- Processes ---- */

static uint32_t newest(const struct sp_map *map, uint64_t key)
{
	const uint64_t *found = sp_map_get(map, key);
	return found ? (uint32_t)*found : SP_TRACE_NONE;
}

static uint32_t add_process(struct sp_trace *trace, uint32_t pid, uint64_t start)
{
	struct sp_trace_process process = { .pid = pid,
		                            .parent_pid = SP_ETL_ID_UNKNOWN,
		                            .start = start,
		                            .end = UINT64_MAX,
		                            .name = SP_INTERN_NONE,
		                            .command = SP_INTERN_NONE,
		                            .main_thread = SP_TRACE_NONE,
		                            .older = newest(&trace->by_pid, pid) };
	uint32_t index = (uint32_t)trace->processes.count;
	if (!sp_vector_push(&trace->processes, process) || !sp_map_put(&trace->by_pid, pid, index)) {
		trace->failed = true;
		return SP_TRACE_NONE;
	}
	return index;
}

uint32_t sp_trace_process_now(struct sp_trace *trace, uint32_t pid)
{
	if (pid == SP_ETL_ID_UNKNOWN)
		return SP_TRACE_NONE;
	uint32_t index = newest(&trace->by_pid, pid);
	return index != SP_TRACE_NONE ? index : add_process(trace, pid, 0);
}

static void describe(struct sp_trace *trace, uint32_t index, const struct sp_etl_process *parsed)
{
	uint32_t name = sp_trace_text(trace, &parsed->name), command = sp_trace_text(trace, &parsed->command);
	struct sp_trace_process *process = &trace->processes.items[index];
	if (process->parent_pid == SP_ETL_ID_UNKNOWN)
		process->parent_pid = parsed->parent_pid;
	if (process->name == SP_INTERN_NONE)
		process->name = name;
	if (process->command == SP_INTERN_NONE)
		process->command = command;
}

bool sp_trace_process_event(struct sp_trace *trace, const struct sp_etl_event *event)
{
	struct sp_etl_process parsed;
	if (event->opcode < SP_ETL_START || event->opcode > SP_ETL_DC_STOP)
		return true;
	if (!sp_etl_process_parse(event, &parsed)) {
		trace->counts.bad_payloads++;
		return true;
	}
	uint32_t index = newest(&trace->by_pid, parsed.pid);
	struct sp_trace_process *process = index == SP_TRACE_NONE ? NULL : &trace->processes.items[index];
	if (event->opcode == SP_ETL_START) {
		if (process && !process->ended) { /* its end got lost */
			process->ended = true;
			process->end = event->time;
		}
		index = add_process(trace, parsed.pid, event->time);
		if (index != SP_TRACE_NONE)
			trace->processes.items[index].started = true;
	} else if (!process || (process->ended && event->opcode != SP_ETL_STOP)) {
		/* Nobody told of its start, which is after the end of the one that had the number before. */
		index = add_process(trace, parsed.pid, process ? process->end : 0);
	}
	if (index == SP_TRACE_NONE)
		return false;
	process = &trace->processes.items[index];
	if (event->opcode == SP_ETL_STOP && !process->ended) {
		process->ended = true;
		process->end = event->time;
	}
	describe(trace, index, &parsed);
	return !trace->failed;
}

/* ---- Threads ---- */

static uint32_t add_thread(struct sp_trace *trace, uint64_t key, uint32_t tid, uint32_t process, uint64_t start)
{
	struct sp_trace_thread thread = { .tid = tid,
		                          .process = process,
		                          .start = start,
		                          .end = UINT64_MAX,
		                          .name = SP_INTERN_NONE,
		                          .pending = SP_TRACE_NONE,
		                          .waker = SP_TRACE_NONE,
		                          .older = newest(&trace->by_tid, key) };
	uint32_t index = (uint32_t)trace->threads.count;
	if (!sp_vector_push(&trace->threads, thread) || !sp_map_put(&trace->by_tid, key, index)) {
		trace->failed = true;
		return SP_TRACE_NONE;
	}
	return index;
}

static void belongs_to(struct sp_trace *trace, uint32_t thread, uint32_t process)
{
	if (process == SP_TRACE_NONE || trace->threads.items[thread].process != SP_TRACE_NONE)
		return;
	trace->threads.items[thread].process = process;
}

/* The first thread that a process is seen to have is the one that it began with. */
static void note_main(struct sp_trace *trace, uint32_t process, uint32_t thread)
{
	if (process != SP_TRACE_NONE && trace->processes.items[process].main_thread == SP_TRACE_NONE)
		trace->processes.items[process].main_thread = thread;
}

uint32_t sp_trace_thread_now(struct sp_trace *trace, uint32_t tid, uint32_t pid, uint16_t cpu, uint64_t time)
{
	if (tid == SP_ETL_ID_UNKNOWN)
		return SP_TRACE_NONE;
	uint64_t key = tid ? tid : (uint64_t)1 << 32 | cpu;
	uint32_t index = newest(&trace->by_tid, key);
	if (index != SP_TRACE_NONE) {
		const struct sp_trace_thread *thread = &trace->threads.items[index];
		bool other = pid != SP_ETL_ID_UNKNOWN && thread->process != SP_TRACE_NONE && tid &&
		             trace->processes.items[thread->process].pid != pid;
		if (!other && (!thread->ended || time <= thread->end + SP_TRACE_GRACE_NS)) {
			if (pid != SP_ETL_ID_UNKNOWN && thread->process == SP_TRACE_NONE)
				belongs_to(trace, index, sp_trace_process_now(trace, pid));
			return index;
		}
	}
	uint64_t start = index == SP_TRACE_NONE ? 0 : time; /* after another one: its start got lost */
	uint32_t process = sp_trace_process_now(trace, tid ? pid : 0);
	index = add_thread(trace, key, tid, process, start);
	if (index != SP_TRACE_NONE) {
		trace->threads.items[index].guessed = true;
		trace->threads.items[index].idle_cpu = cpu;
	}
	return index;
}

/* The thread that a Start, Stop or rundown event speaks of. */
static uint32_t thread_of_event(struct sp_trace *trace, const struct sp_etl_event *event,
                                const struct sp_etl_thread *parsed, uint32_t process)
{
	uint32_t index = newest(&trace->by_tid, parsed->tid);
	struct sp_trace_thread *thread = index == SP_TRACE_NONE ? NULL : &trace->threads.items[index];
	bool same = thread && (thread->process == process || thread->process == SP_TRACE_NONE);
	bool starts = event->opcode == SP_ETL_START;
	if (starts || (thread && !same)) {
		if (thread && !thread->ended) {
			thread->ended = true;
			thread->end = event->time;
		}
		return add_thread(trace, parsed->tid, parsed->tid, process, starts ? event->time : thread->end);
	}
	bool stop = event->opcode == SP_ETL_STOP;
	if (thread && (!thread->ended || stop))
		return index;
	return add_thread(trace, parsed->tid, parsed->tid, process, thread ? thread->end : 0);
}

bool sp_trace_thread_event(struct sp_trace *trace, const struct sp_etl_event *event)
{
	struct sp_etl_thread parsed;
	bool named = event->opcode == SP_ETL_THREAD_SET_NAME;
	if ((event->opcode < SP_ETL_START || event->opcode > SP_ETL_DC_STOP) && !named)
		return true;
	if (!sp_etl_thread_parse(event, &parsed)) {
		trace->counts.bad_payloads++;
		return true;
	}
	if (!parsed.tid)
		return true; /* idle threads, one a CPU, are known by their CPU */
	uint32_t process = sp_trace_process_now(trace, parsed.pid);
	uint32_t index = named ? sp_trace_thread_now(trace, parsed.tid, parsed.pid, event->cpu, event->time)
	                       : thread_of_event(trace, event, &parsed, process);
	if (index == SP_TRACE_NONE)
		return !trace->failed;
	belongs_to(trace, index, process);
	note_main(trace, process, index);
	uint32_t name = sp_trace_text(trace, &parsed.name);
	struct sp_trace_thread *thread = &trace->threads.items[index];
	thread->guessed = thread->guessed && named;
	if (name != SP_INTERN_NONE)
		thread->name = name;
	if (event->opcode == SP_ETL_STOP && !thread->ended) {
		thread->ended = true;
		thread->end = event->time;
	}
	return !trace->failed;
}

/* ---- Which are asked for ---- */

static bool name_fits(const char *name, const char *wanted)
{
	size_t length = strlen(wanted);
	return name && !strncasecmp(name, wanted, length) && (!name[length] || !strcasecmp(name + length, ".exe"));
}

static bool is_asked_for(const struct sp_import_options *options, const struct sp_trace *trace,
                         const struct sp_trace_process *process)
{
	for (size_t i = 0; i < options->pid_count; i++)
		if (options->pids[i] == process->pid)
			return true;
	for (const char *const *name = options->names; name && *name; name++)
		if (name_fits(sp_trace_get(trace, process->name), *name))
			return true;
	return false;
}

bool sp_trace_has_filter(const struct sp_import_options *options)
{
	return options->pid_count || (options->names && options->names[0]);
}

uint32_t sp_trace_parent_of(const struct sp_trace *trace, uint32_t child)
{
	const struct sp_trace_process *process = &trace->processes.items[child];
	for (size_t i = trace->processes.count; i-- > 0;) {
		const struct sp_trace_process *other = &trace->processes.items[i];
		if (i != child && other->pid == process->parent_pid && other->start <= process->start &&
		    process->start <= other->end)
			return (uint32_t)i;
	}
	return SP_TRACE_NONE;
}

void sp_trace_choose_processes(const struct sp_trace *trace, const struct sp_import_options *options, uint32_t *chosen)
{
	bool filter = sp_trace_has_filter(options), changed = options->children;
	for (size_t i = 0; i < trace->processes.count; i++)
		chosen[i] = !filter || is_asked_for(options, trace, &trace->processes.items[i]) ? 0 : SP_HANDLE_NONE;
	for (unsigned round = 0; changed && round < 64; round++) {
		changed = false;
		for (size_t i = 0; i < trace->processes.count; i++) {
			if (chosen[i] != SP_HANDLE_NONE)
				continue;
			uint32_t parent = sp_trace_parent_of(trace, (uint32_t)i);
			if (parent != SP_TRACE_NONE && chosen[parent] != SP_HANDLE_NONE) {
				chosen[i] = 0;
				changed = true;
			}
		}
	}
}
