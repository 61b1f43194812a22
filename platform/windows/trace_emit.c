/* From a trace that is all in to the recording: definitions when they are due, samples between them in order of time.
 *
 * What a range of addresses shows changes over time, and a consumer resolves a sample by what was written before it. So
 * everything that changes an address space goes into one list sorted by time, and each sample goes after what happened
 * before it. */
#include "platform/windows/trace.h"

#include "common/file.h"

#include <stdio.h>

/* DPCs and interrupts run on whatever thread has the CPU. A frame between its own and theirs says so: a function at an
 * address in the last pages of the address space, where Windows never has code. */
#define DPC_ADDRESS 0xfffffffffffff000u
#define ISR_ADDRESS 0xfffffffffffff800u
#define PSEUDO_SIZE 0x100u

enum { SOURCE_TIMER, SOURCE_OFF_CPU, SOURCE_PMC };

enum item_kind {
	ITEM_PROCESS,
	ITEM_THREAD,
	ITEM_UNMAP,
	ITEM_METHOD_END,
	ITEM_MAP,
	ITEM_METHOD,
	ITEM_THREAD_END,
	ITEM_PROCESS_END
};

/* Something that happens, other than a sample. */
struct item {
	uint64_t time;
	uint32_t index;
	uint8_t kind; /* enum item_kind; the order of what happens at one time */
};

/* A sample to write; an off-CPU interval is written at its begin and its end. */
struct turn {
	uint64_t time;
	uint32_t sample;
	uint32_t begin; /* 1: the first interval of an off-CPU sample */
};

struct emitter {
	struct sp_trace *trace;
	struct sp_recording_writer *recording;
	struct sp_import_result *result;
	uint64_t base_interval;                     /* the shortest one: what a weight of 1 stands for */
	uint64_t from, to;                          /* ns, what the user wants to see */
	uint32_t *process_handles, *thread_handles; /* SP_HANDLE_NONE = not written */
	uint64_t *process_last, *thread_last;       /* time of the last sample */
	uint64_t *process_samples;
	uint32_t unknown_process; /* handle for threads whose process the trace does not tell */
	uint32_t next_process, next_thread, next_module;
	struct sp_map modules; /* hash of path and IDs -> handle */
	SP_VECTOR(struct item) items;
	size_t next_item;
	SP_SPOOL(struct turn) turns;
	SP_VECTOR(struct sp_frame) frames; /* scratch */
};

static struct sp_error *put(struct emitter *e, const struct sp_record *record)
{
	return sp_recording_write(e->recording, record);
}

static struct sp_error *put_meta(struct emitter *e, const char *key, const char *value)
{
	if (!value || !*value)
		return NULL;
	return put(e, &(struct sp_record){ .type = SP_RECORD_META, .meta = { .key = key, .value = value } });
}

/* ---- Which processes and threads ---- */

/* Threads with something to show, and the first one of each process. */
static void choose_threads(struct emitter *e)
{
	const struct sp_trace *trace = e->trace;
	for (size_t i = 0; i < trace->threads.count; i++)
		e->thread_handles[i] = SP_HANDLE_NONE;
	for (size_t i = 0; i < trace->samples.count; i++) {
		const struct sp_trace_sample *sample = &trace->samples.items[i];
		uint32_t process = trace->threads.items[sample->thread].process;
		e->thread_handles[sample->thread] = 0;
		if (e->thread_last[sample->thread] < sample->time)
			e->thread_last[sample->thread] = sample->time;
		if (process == SP_TRACE_NONE)
			continue;
		if (e->process_last[process] < sample->time)
			e->process_last[process] = sample->time;
		e->process_samples[process] += sample->kind == SP_TRACE_CPU;
	}
	for (size_t i = 0; i < trace->markers.count; i++)
		if (trace->markers.items[i].thread != SP_TRACE_NONE)
			e->thread_handles[trace->markers.items[i].thread] = 0;
	for (size_t i = 0; i < trace->processes.count; i++)
		if (trace->processes.items[i].main_thread != SP_TRACE_NONE)
			e->thread_handles[trace->processes.items[i].main_thread] = 0;
	bool filter = sp_trace_has_filter(trace->options);
	for (size_t i = 0; i < trace->threads.count; i++) {
		uint32_t process = trace->threads.items[i].process;
		bool left_out = process == SP_TRACE_NONE ? filter : e->process_handles[process] == SP_HANDLE_NONE;
		if (left_out)
			e->thread_handles[i] = SP_HANDLE_NONE;
	}
}

/* ---- The list of what happens ---- */

static int compare_items(const void *left, const void *right)
{
	const struct item *a = left, *b = right;
	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	return a->index < b->index ? -1 : a->index > b->index;
}

static bool add_item(struct emitter *e, enum item_kind kind, uint64_t time, size_t index)
{
	struct item item = { .time = time, .index = (uint32_t)index, .kind = (uint8_t)kind };
	return sp_vector_push(&e->items, item);
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static bool list_processes(struct emitter *e)
{
	const struct sp_trace *trace = e->trace;
	for (size_t i = 0; i < trace->processes.count; i++) {
		const struct sp_trace_process *process = &trace->processes.items[i];
		if (e->process_handles[i] == SP_HANDLE_NONE)
			continue;
		/* A sample that comes late still finds what the process had mapped. */
		if (!add_item(e, ITEM_PROCESS, process->start, i) ||
		    (process->ended && !add_item(e, ITEM_PROCESS_END, later(process->end, e->process_last[i]), i)))
			return false;
	}
	for (size_t i = 0; i < trace->threads.count; i++) {
		const struct sp_trace_thread *thread = &trace->threads.items[i];
		if (e->thread_handles[i] == SP_HANDLE_NONE)
			continue;
		uint64_t start = thread->start;
		if (thread->process != SP_TRACE_NONE)
			start = later(start, trace->processes.items[thread->process].start);
		if (!add_item(e, ITEM_THREAD, start, i) ||
		    (thread->ended && !add_item(e, ITEM_THREAD_END, later(thread->end, e->thread_last[i]), i)))
			return false;
	}
	return true;
}

static bool list_code(struct emitter *e)
{
	const struct sp_trace *trace = e->trace;
	for (size_t i = 0; i < trace->images.count; i++) {
		const struct sp_trace_image *image = &trace->images.items[i];
		uint64_t start = image->load;
		if (image->process != SP_TRACE_NONE) {
			if (e->process_handles[image->process] == SP_HANDLE_NONE)
				continue;
			start = later(start, trace->processes.items[image->process].start);
		}
		if (!add_item(e, ITEM_MAP, start, i) ||
		    (image->unload != UINT64_MAX && !add_item(e, ITEM_UNMAP, image->unload, i)))
			return false;
	}
	for (size_t i = 0; i < trace->methods.count; i++) {
		const struct sp_trace_method *method = &trace->methods.items[i];
		if (e->process_handles[method->process] == SP_HANDLE_NONE)
			continue;
		uint64_t start = later(method->load, trace->processes.items[method->process].start);
		if (!add_item(e, ITEM_METHOD, start, i) ||
		    (method->unload != UINT64_MAX && !add_item(e, ITEM_METHOD_END, method->unload, i)))
			return false;
	}
	return true;
}

/* ---- Items out ---- */

static struct sp_error *put_process(struct emitter *e, uint32_t index)
{
	const struct sp_trace *trace = e->trace;
	const struct sp_trace_process *process = &trace->processes.items[index];
	const char *name = sp_trace_get(trace, process->name);
	uint32_t parent = sp_trace_parent_of(trace, index), handle = e->next_process++;
	if (!name && process->pid == 0)
		name = "Idle";
	struct sp_record record = { .type = SP_RECORD_PROCESS,
		                    .process = { .process = handle,
		                                 .previous = SP_HANDLE_NONE,
		                                 .parent = SP_HANDLE_NONE,
		                                 .pid = process->pid,
		                                 .time = later(process->start, trace->first_time),
		                                 .found = !process->started,
		                                 .name = name,
		                                 .command_line = sp_trace_get(trace, process->command) } };
	e->process_handles[index] = handle;
	if (parent != SP_TRACE_NONE && e->process_handles[parent] < handle)
		record.process.parent = e->process_handles[parent];
	e->result->processes++;
	return put(e, &record);
}

static struct sp_error *need_unknown_process(struct emitter *e)
{
	if (e->unknown_process != SP_HANDLE_NONE)
		return NULL;
	e->unknown_process = e->next_process++;
	return put(e, &(struct sp_record){ .type = SP_RECORD_PROCESS,
	                                   .process = { .process = e->unknown_process,
	                                                .previous = SP_HANDLE_NONE,
	                                                .parent = SP_HANDLE_NONE,
	                                                .pid = UINT32_MAX,
	                                                .time = e->trace->first_time,
	                                                .found = true,
	                                                .name = "[process not in the trace]" } });
}

static struct sp_error *put_thread(struct emitter *e, uint32_t index)
{
	const struct sp_trace *trace = e->trace;
	const struct sp_trace_thread *thread = &trace->threads.items[index];
	uint32_t process = SP_HANDLE_NONE;
	struct sp_error *error = NULL;
	char idle[32];
	if (thread->process != SP_TRACE_NONE) {
		process = e->process_handles[thread->process];
	} else {
		error = need_unknown_process(e);
		process = e->unknown_process;
	}
	if (error)
		return error;
	const char *name = sp_trace_get(trace, thread->name);
	if (!thread->tid) {
		snprintf(idle, sizeof(idle), "Idle, CPU %u", thread->idle_cpu);
		name = idle;
	}
	e->thread_handles[index] = e->next_thread++;
	e->result->threads++;
	struct sp_record record = { .type = SP_RECORD_THREAD,
		                    .thread = { .thread = e->thread_handles[index],
		                                .process = process,
		                                .tid = thread->tid,
		                                .time = later(thread->start, trace->first_time),
		                                .main = thread->process != SP_TRACE_NONE &&
		                                        trace->processes.items[thread->process].main_thread == index,
		                                .name = name } };
	return put(e, &record);
}

static const char *arch_name(const struct sp_trace *trace)
{
	switch (trace->arch) {
	case 0:
		return "x86";
	case 5:
		return "arm";
	case 9:
		return "x86_64";
	case 12:
		return "arm64";
	default:
		return trace->pointer_size == 4 ? "x86" : "";
	}
}

/* GUID and age as Breakpad writes them. */
static void debug_id_text(const struct sp_trace_ids *ids, char *out, size_t size)
{
	const uint8_t *g = ids->guid;
	snprintf(out, size, "%02X%02X%02X%02X%02X%02X%02X%02X%02X%02X%02X%02X%02X%02X%02X%02X%x", g[3], g[2], g[1],
	         g[0], g[5], g[4], g[7], g[6], g[8], g[9], g[10], g[11], g[12], g[13], g[14], g[15], ids->age);
}

/* The module of an image; the same file in many processes is one. */
static struct sp_error *module_of(struct emitter *e, const struct sp_trace_image *image, uint32_t *ret)
{
	const struct sp_trace *trace = e->trace;
	const struct sp_trace_ids *ids = sp_trace_ids_of(trace, image);
	char path[2048], debug_id[48] = "", code_id[32] = "", key[2200];
	const char *nt_path = sp_trace_get(trace, image->path), *debug_name = NULL;
	sp_trace_dos_path(trace, nt_path ? nt_path : "", path, sizeof(path));
	const char *name = sp_file_base_name(path);
	if (!*name && ids && ids->name != SP_INTERN_NONE)
		name = sp_trace_get(trace, ids->name);
	if (ids && ids->has_debug) {
		debug_id_text(ids, debug_id, sizeof(debug_id));
		debug_name = sp_trace_get(trace, ids->debug_name);
	}
	uint32_t timestamp = ids && ids->timestamp ? ids->timestamp : image->timestamp;
	uint32_t size = ids && ids->size ? ids->size : (uint32_t)image->size;
	if (timestamp)
		snprintf(code_id, sizeof(code_id), "%08X%x", timestamp, size);
	snprintf(key, sizeof(key), "%s|%s|%s|%d", path, debug_id, code_id, image->process == SP_TRACE_NONE);
	uint64_t hash = sp_hash_bytes(key, strlen(key));
	const uint64_t *found = sp_map_get(&e->modules, hash);
	if (found) {
		*ret = (uint32_t)*found;
		return NULL;
	}
	*ret = e->next_module++;
	if (!sp_map_put(&e->modules, hash, *ret))
		return sp_error_no_memory();
	bool low = trace->pointer_size == 8 && image->base <= UINT32_MAX; /* perhaps of a 32-bit process */
	struct sp_record record = {
		.type = SP_RECORD_MODULE,
		.module = { .module = *ret,
		            .kind = image->process == SP_TRACE_NONE ? SP_MODULE_KERNEL : SP_MODULE_FILE,
		            .name = *name ? name : "[unnamed image]",
		            .path = path,
		            .debug_name = debug_name ? sp_file_base_name(debug_name) : NULL,
		            .debug_path = debug_name,
		            .debug_id = debug_id,
		            .code_id = code_id,
		            .arch = low ? "" : arch_name(trace),
		            .note =
		                *debug_id
		                    ? NULL
		                    : "the trace has no debug ID for it (it was not merged on the recorded machine, "
		                      "or the file was gone by then)" },
	};
	return put(e, &record);
}

static struct sp_error *put_mapping(struct emitter *e, uint32_t index, uint64_t time)
{
	const struct sp_trace_image *image = &e->trace->images.items[index];
	uint32_t module;
	struct sp_error *error = module_of(e, image, &module);
	if (error)
		return error;
	uint32_t process = image->process == SP_TRACE_NONE ? SP_HANDLE_NONE : e->process_handles[image->process];
	return put(e, &(struct sp_record){ .type = SP_RECORD_MAPPING,
	                                   .mapping = { .process = process,
	                                                .module = module,
	                                                .time = time,
	                                                .start = image->base,
	                                                .size = image->size,
	                                                .base = image->base } });
}

static struct sp_error *put_method(struct emitter *e, uint32_t index, uint64_t time, bool gone)
{
	const struct sp_trace_method *method = &e->trace->methods.items[index];
	const char *name = sp_trace_get(e->trace, method->name);
	return put(e, &(struct sp_record){ .type = SP_RECORD_JIT_FUNCTION,
	                                   .jit_function = { .process = e->process_handles[method->process],
	                                                     .time = time,
	                                                     .start = method->start,
	                                                     .size = method->size,
	                                                     .name = gone ? NULL : name,
	                                                     /* One that only the rundown told of has been there at
	                                                      * some time: it names what is nothing else. */
	                                                     .late = !gone && !method->load } });
}

static struct sp_error *put_item(struct emitter *e, const struct item *item)
{
	const struct sp_trace *trace = e->trace;
	switch ((enum item_kind)item->kind) {
	case ITEM_PROCESS:
		return put_process(e, item->index);
	case ITEM_THREAD:
		return put_thread(e, item->index);
	case ITEM_MAP:
		return put_mapping(e, item->index, later(item->time, trace->first_time));
	case ITEM_METHOD:
		return put_method(e, item->index, later(item->time, trace->first_time), false);
	case ITEM_METHOD_END:
		return put_method(e, item->index, item->time, true);
	case ITEM_UNMAP: {
		const struct sp_trace_image *image = &trace->images.items[item->index];
		bool kernel = image->process == SP_TRACE_NONE;
		return put(e,
		           &(struct sp_record){
		               .type = SP_RECORD_UNMAPPING,
		               .unmapping = { .process = kernel ? SP_HANDLE_NONE : e->process_handles[image->process],
		                              .time = item->time,
		                              .start = image->base,
		                              .size = image->size } });
	}
	case ITEM_THREAD_END:
		return put(e, &(struct sp_record){
		                  .type = SP_RECORD_THREAD_END,
		                  .thread_end = { .thread = e->thread_handles[item->index], .time = item->time } });
	case ITEM_PROCESS_END:
		return put(e, &(struct sp_record){
		                  .type = SP_RECORD_PROCESS_END,
		                  .process_end = { .process = e->process_handles[item->index], .time = item->time } });
	}
	return NULL;
}

/* Writes what happens before a sample at `time`: beginnings at that time, but no endings. */
static struct sp_error *put_items(struct emitter *e, uint64_t time)
{
	struct sp_error *error = NULL;
	for (; e->next_item < e->items.count && !error; e->next_item++) {
		const struct item *item = &e->items.items[e->next_item];
		bool ends = item->kind == ITEM_UNMAP || item->kind == ITEM_METHOD_END ||
		            item->kind == ITEM_THREAD_END || item->kind == ITEM_PROCESS_END;
		if (item->time > time || (ends && item->time == time && time != UINT64_MAX))
			break;
		error = put_item(e, item);
	}
	return error;
}

/* ---- Samples ---- */

static bool push_frame(struct emitter *e, uint64_t address, bool exact, bool kernel)
{
	struct sp_frame frame = { .address = address,
		                  .kind = exact ? SP_FRAME_IP : SP_FRAME_RETURN_ADDRESS,
		                  .mode = kernel ? SP_MODE_KERNEL : SP_MODE_USER };
	return sp_vector_push(&e->frames, frame);
}

static bool push_nodes(struct emitter *e, uint32_t node, bool kernel)
{
	const struct sp_trace *trace = e->trace;
	for (bool first = true; node != SP_TRACE_NONE; node = trace->node_parent.items[node], first = false)
		if (!push_frame(e, trace->node_address.items[node], first, kernel))
			return false;
	return true;
}

/* Whether all of a thread's stack is in the kernel. */
static bool only_kernel(const struct sp_trace *trace, const struct sp_trace_sample *sample)
{
	uint32_t process = trace->threads.items[sample->thread].process;
	uint32_t pid = process == SP_TRACE_NONE ? SP_ETL_ID_UNKNOWN : trace->processes.items[process].pid;
	if (pid == SP_TRACE_PID_SYSTEM || pid == 0)
		return true;
	const char *name = process == SP_TRACE_NONE ? NULL : sp_trace_get(trace, trace->processes.items[process].name);
	return name && (!strcmp(name, "Registry") || !strcmp(name, "MemCompression") || !strcmp(name, "Secure System"));
}

/* Fills e->frames; why the stack ends. */
static bool collect_frames(struct emitter *e, const struct sp_trace_sample *sample, uint8_t *ret_end)
{
	const struct sp_trace *trace = e->trace;
	bool none = sample->kernel == SP_TRACE_NONE && sample->user == SP_TRACE_NONE;
	bool good = true;
	e->frames.count = 0;
	if (none && sample->kind != SP_TRACE_OFF_CPU)
		good = push_frame(e, sample->ip, true, sp_etl_is_kernel(sample->ip, trace->pointer_size));
	good = good && push_nodes(e, sample->kernel, true);
	if (good && sample->flags & SP_TRACE_ISR)
		good = push_frame(e, ISR_ADDRESS + 1, true, true);
	if (good && sample->flags & SP_TRACE_DPC)
		good = push_frame(e, DPC_ADDRESS + 1, true, true);
	good = good && push_nodes(e, sample->user, false);
	*ret_end = SP_UNWIND_ROOT;
	if (sample->user == SP_TRACE_NONE && !only_kernel(trace, sample))
		*ret_end = SP_UNWIND_NOT_RECORDED;
	if (sample->flags & (sample->user == SP_TRACE_NONE ? SP_TRACE_KERNEL_FULL : SP_TRACE_USER_FULL))
		*ret_end = SP_UNWIND_DEPTH;
	return good;
}

static const char *wait_name(uint8_t reason)
{
	static const char *const names[] = {
		"Executive",      "FreePage",       "PageIn",          "PoolAllocation",  "DelayExecution",
		"Suspended",      "UserRequest",    "Executive",       "FreePage",        "PageIn",
		"PoolAllocation", "DelayExecution", "Suspended",       "UserRequest",     "EventPair",
		"Queue",          "LpcReceive",     "LpcReply",        "VirtualMemory",   "PageOut",
		"Rendezvous",     "KeyedEvent",     "Terminated",      "ProcessInSwap",   "CpuRateControl",
		"CalloutStack",   "Kernel",         "Resource",        "PushLock",        "Mutex",
		"QuantumEnd",     "DispatchInt",    "Preempted",       "YieldExecution",  "FastMutex",
		"GuardedMutex",   "Rundown",        "AlertByThreadId", "DeferredPreempt", "PhysicalFault",
		"IoRing",         "MdlCache",
	};
	return reason < sizeof(names) / sizeof(names[0]) ? names[reason] : "unknown reason";
}

/* "[blocked: UserRequest, woken by thread 12 of b.exe]" */
static void off_cpu_label(const struct emitter *e, const struct sp_trace_sample *sample, char *out, size_t size)
{
	enum { STATE_READY = 1, STATE_WAITING = 5, STATE_DEFERRED_READY = 7 };
	const struct sp_trace *trace = e->trace;
	int used;
	if (sample->state == STATE_READY || sample->state == STATE_DEFERRED_READY) {
		snprintf(out, size, "[off-CPU: ready to run, preempted]");
		return;
	}
	used = snprintf(out, size, "[%s: %s", sample->state == STATE_WAITING ? "blocked" : "off-CPU",
	                wait_name(sample->reason));
	if (used < 0 || (size_t)used >= size)
		return;
	if (sample->waker != SP_TRACE_NONE) {
		const struct sp_trace_thread *waker = &trace->threads.items[sample->waker];
		const char *process = waker->process == SP_TRACE_NONE
		                          ? NULL
		                          : sp_trace_get(trace, trace->processes.items[waker->process].name);
		const char *name = sp_trace_get(trace, waker->name);
		if (name && *name)
			used += snprintf(out + used, size - (size_t)used, ", woken by %s of %s", name,
			                 process ? process : "an unknown process");
		else
			used += snprintf(out + used, size - (size_t)used, ", woken by thread %u of %s", waker->tid,
			                 process ? process : "an unknown process");
	}
	if ((size_t)used < size)
		snprintf(out + used, size - (size_t)used, "]");
}

static int64_t weight_of(const struct emitter *e, const struct sp_trace_sample *sample, uint64_t interval)
{
	uint64_t ticks = (interval + e->base_interval / 2) / e->base_interval;
	return (int64_t)(sample->weight * (ticks ? ticks : 1));
}

static struct sp_error *put_sample(struct emitter *e, const struct turn *turn)
{
	const struct sp_trace *trace = e->trace;
	const struct sp_trace_sample *sample = &trace->samples.items[turn->sample];
	struct sp_record record = { .type = SP_RECORD_SAMPLE };
	struct sp_record_sample *out = &record.sample;
	char label[256];
	if (!collect_frames(e, sample, &out->end))
		return sp_error_no_memory();
	out->thread = e->thread_handles[sample->thread];
	out->time = turn->time;
	out->cpu = sample->cpu;
	out->frames = e->frames.items;
	out->frame_count = (uint32_t)e->frames.count;
	out->cpu_delta_known = true;
	if (sample->kind == SP_TRACE_CPU) {
		uint64_t interval = sp_trace_interval_at(trace, sample->time);
		out->source = SOURCE_TIMER;
		out->weight = weight_of(e, sample, interval);
		out->cpu_delta = trace->switches_traced ? sample->cpu_ns : interval * sample->weight;
		e->result->samples++;
		e->result->with_stack += sample->kernel != SP_TRACE_NONE || sample->user != SP_TRACE_NONE;
	} else if (sample->kind == SP_TRACE_PMC) {
		uint32_t interval = trace->pmc.items[sample->source].interval;
		out->source = SOURCE_PMC + (uint32_t)sample->source;
		out->weight = interval ? interval : 1;
		out->cpu_delta_known = false;
	} else {
		uint64_t interval = sp_trace_interval_at(trace, sample->time);
		off_cpu_label(e, sample, label, sizeof(label));
		out->label = label;
		out->source = SOURCE_OFF_CPU;
		out->weight = weight_of(e, sample, interval);
		/* The CPU time since the last sample was used before the wait. */
		bool pair = turn->begin || (sample->weight > 1 && sample->ip >= e->from);
		if (turn->begin)
			out->weight = out->weight / (int64_t)sample->weight;
		else if (pair)
			out->weight -= out->weight / (int64_t)sample->weight;
		out->cpu_delta = turn->begin || !pair ? sample->cpu_ns : 0;
		e->result->off_cpu += turn->begin || !pair;
	}
	return put(e, &record);
}

static int compare_turns(const void *left, const void *right)
{
	const struct turn *a = left, *b = right;
	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	return a->sample < b->sample ? -1 : a->sample > b->sample;
}

/* The order in which samples are written. */
static bool list_turns(struct emitter *e)
{
	const struct sp_trace *trace = e->trace;
	bool sorted = !trace->samples_unordered;
	e->turns.store.folder = trace->folder;
	for (size_t i = 0; i < trace->samples.count; i++) {
		const struct sp_trace_sample *sample = &trace->samples.items[i];
		if (e->thread_handles[sample->thread] == SP_HANDLE_NONE)
			continue;
		if (sample->kind == SP_TRACE_OFF_CPU && sample->weight > 1 && sample->ip >= e->from) {
			sorted = false;
			if (!sp_spool_push(&e->turns, (struct turn){ sample->ip, (uint32_t)i, 1 }))
				return false;
		}
		if (!sp_spool_push(&e->turns, (struct turn){ sample->time, (uint32_t)i, 0 }))
			return false;
	}
	if (!sorted)
		qsort(e->turns.items, e->turns.count, sizeof(*e->turns.items), compare_turns);
	return true;
}

static struct sp_error *put_samples(struct emitter *e)
{
	struct sp_error *error = NULL;
	for (size_t i = 0; i < e->turns.count && !error; i++) {
		error = put_items(e, e->turns.items[i].time);
		if (!error)
			error = put_sample(e, &e->turns.items[i]);
	}
	return error ? error : put_items(e, UINT64_MAX);
}

/* ---- The recording as a whole ---- */

static void os_name(const struct sp_etl_header *header, const char *product, char *out, size_t size)
{
	static const struct {
		uint32_t build;
		const char *name;
	} names[] = { { 26100, "Windows 11 24H2" }, { 22631, "Windows 11 23H2" },
		      { 22000, "Windows 11" },      { 20348, "Windows Server 2022" },
		      { 10240, "Windows 10" },      { 9600, "Windows 8.1" },
		      { 9200, "Windows 8" },        { 7600, "Windows 7" },
		      { 6000, "Windows Vista" } };
	const char *name = "Windows";
	for (size_t i = sizeof(names) / sizeof(names[0]); i-- > 0;)
		if (header->os_build >= names[i].build)
			name = names[i].name;
	snprintf(out, size, "%s (%u.%u, build %u)", product && *product ? product : name, header->os_major,
	         header->os_minor, header->os_build);
}

static struct sp_error *put_machine(struct emitter *e)
{
	const struct sp_trace *trace = e->trace;
	const struct sp_etl_header *header = sp_etl_reader_header(trace->reader, 0);
	char os[256], cpus[16], memory[32] = "", interval[32], cpu[64] = "";
	os_name(header, sp_trace_get(trace, trace->os_text), os, sizeof(os));
	snprintf(cpus, sizeof(cpus), "%u", header->cpus);
	if (trace->memory_mb)
		snprintf(memory, sizeof(memory), "%llu", (unsigned long long)trace->memory_mb << 20);
	uint32_t mhz = trace->cpu_mhz ? trace->cpu_mhz : header->cpu_mhz;
	if (mhz)
		snprintf(cpu, sizeof(cpu), "%s %u MHz", arch_name(trace), mhz);
	snprintf(interval, sizeof(interval), "%llu", (unsigned long long)e->base_interval);
	const char *const pairs[][2] = {
		{ SP_META_PRODUCT, "ETW trace" },
		{ SP_META_PROFILE_NAME, sp_file_base_name(trace->options->paths[0]) },
		{ SP_META_OS, os },
		{ SP_META_PLATFORM, "Windows" },
		{ SP_META_ARCH, arch_name(trace) },
		{ SP_META_CPU, cpu },
		{ SP_META_CPUS, cpus },
		{ SP_META_MEMORY, memory },
		{ SP_META_HOST, sp_trace_get(trace, trace->host) },
		{ SP_META_INTERVAL_NS, interval },
		{ SP_META_MODE, "imported ETW trace" },
		{ SP_META_RATE_NOTE,
		  trace->intervals.count ? NULL : "the trace does not tell the sampling interval; 1 ms is assumed" },
		{ "Windows build", sp_trace_get(trace, trace->build_text) },
		{ "Machine", sp_trace_get(trace, trace->model_text) },
	};
	struct sp_error *error = NULL;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]) && !error; i++)
		error = put_meta(e, pairs[i][0], pairs[i][1]);
	return error;
}

static struct sp_error *put_clock(struct emitter *e)
{
	uint64_t time, wall = sp_etl_reader_wall(e->trace->reader, &time);
	if (!wall)
		return NULL;
	return put(
	    e, &(struct sp_record){ .type = SP_RECORD_CLOCK,
	                            .clock = { .name = "QueryPerformanceCounter", .time = time, .wall_ns = wall } });
}

static struct sp_error *put_source(struct emitter *e, uint32_t source, const char *name, const char *unit, bool off_cpu,
                                   double rate)
{
	return put(e,
	           &(struct sp_record){
	               .type = SP_RECORD_SOURCE,
	               .source = { .source = source, .name = name, .unit = unit, .off_cpu = off_cpu, .rate = rate } });
}

static struct sp_error *put_sources(struct emitter *e)
{
	const struct sp_trace *trace = e->trace;
	struct sp_error *error = put_source(e, SOURCE_TIMER, "profile timer", "samples", false,
	                                    1e9 / (double)e->base_interval);
	if (!error)
		error = put_source(e, SOURCE_OFF_CPU, "off-CPU", "samples", true, 0);
	for (size_t i = 0; i < trace->pmc.count && !error; i++) {
		const struct sp_trace_pmc *pmc = &trace->pmc.items[i];
		char number[32];
		const char *name = sp_trace_get(trace, pmc->name);
		snprintf(number, sizeof(number), "counter %u", pmc->id);
		error = put_source(e, SOURCE_PMC + (uint32_t)i, name ? name : number,
		                   pmc->interval ? "events" : "samples", false, 0);
	}
	return error;
}

static struct sp_error *put_marker(struct emitter *e, uint64_t time, uint64_t end, const char *name, const char *text)
{
	return put(
	    e, &(struct sp_record){
	           .type = SP_RECORD_MARKER,
	           .marker = { .thread = SP_HANDLE_NONE, .time = time, .end_time = end, .name = name, .text = text } });
}

static struct sp_error *put_loss(struct emitter *e, enum sp_loss_kind kind, uint64_t count)
{
	if (!count)
		return NULL;
	return put(e, &(struct sp_record){ .type = SP_RECORD_LOSS,
	                                   .loss = { .kind = (uint8_t)kind,
	                                             .thread = SP_HANDLE_NONE,
	                                             .cpu = SP_CPU_NONE,
	                                             .time = e->from,
	                                             .end_time = e->to,
	                                             .count = count } });
}

/* The header counts what the session lost; where it does not, marks on buffers tell of at least one. */
static struct sp_error *put_losses(struct emitter *e)
{
	const struct sp_etl_counts *counts = sp_etl_reader_counts(e->trace->reader);
	uint64_t events = later(counts->events_lost,
	                        later(counts->flagged_events_lost, e->trace->counts.rt_lost_events));
	uint64_t buffers = later(later(counts->buffers_lost, counts->missing_buffers),
	                         later(counts->flagged_buffer_lost, e->trace->counts.rt_lost_buffers));
	buffers += counts->corrupt_buffers + counts->bad_compression + (counts->truncated_bytes != 0);
	struct sp_error *error = put_loss(e, SP_LOSS_SAMPLES, events);
	return error ? error : put_loss(e, SP_LOSS_BUFFER, buffers);
}

static struct sp_error *put_interval_changes(struct emitter *e)
{
	const struct sp_trace *trace = e->trace;
	struct sp_error *error = NULL;
	for (size_t i = 1; i < trace->intervals.count && !error; i++) {
		const struct sp_trace_interval *before = &trace->intervals.items[i - 1], *now = before + 1;
		char text[96];
		if (now->time < e->from || now->time >= e->to)
			continue;
		snprintf(text, sizeof(text), "from %g ms to %g ms", (double)before->ns / 1e6, (double)now->ns / 1e6);
		error = put_marker(e, now->time, now->time, "Sampling interval changed", text);
	}
	return error;
}

/* Names for what the pseudo frames show. */
static struct sp_error *put_pseudo_frames(struct emitter *e)
{
	static const struct {
		uint64_t address;
		const char *name;
	} frames[] = { { DPC_ADDRESS, "[DPC]" }, { ISR_ADDRESS, "[ISR]" } };
	struct sp_error *error = NULL;
	for (size_t i = 0; i < 2 && !error; i++)
		error = put(e, &(struct sp_record){ .type = SP_RECORD_JIT_FUNCTION,
		                                    .jit_function = { .process = SP_HANDLE_NONE,
		                                                      .time = e->trace->first_time,
		                                                      .start = frames[i].address,
		                                                      .size = PSEUDO_SIZE,
		                                                      .name = frames[i].name } });
	return error;
}

static void set_range(struct emitter *e)
{
	const struct sp_trace *trace = e->trace;
	const struct sp_import_options *options = trace->options;
	e->from = trace->first_time;
	e->to = trace->last_time;
	if (!options->time_limited)
		return;
	uint64_t length = e->to - e->from;
	e->to = options->to_ns < length ? e->from + options->to_ns : e->to;
	e->from = options->from_ns < length ? e->from + options->from_ns : e->to;
}

static bool prepare(struct emitter *e)
{
	const struct sp_trace *trace = e->trace;
	size_t processes = trace->processes.count + 1, threads = trace->threads.count + 1;
	e->unknown_process = SP_HANDLE_NONE;
	e->process_handles = calloc(processes, sizeof(*e->process_handles));
	e->process_last = calloc(processes, sizeof(*e->process_last));
	e->process_samples = calloc(processes, sizeof(*e->process_samples));
	e->thread_handles = calloc(threads, sizeof(*e->thread_handles));
	e->thread_last = calloc(threads, sizeof(*e->thread_last));
	if (!e->process_handles || !e->process_last || !e->process_samples || !e->thread_handles || !e->thread_last)
		return false;
	e->base_interval = sp_trace_interval_at(trace, 0);
	for (size_t i = 0; i < trace->intervals.count; i++)
		if (trace->intervals.items[i].ns < e->base_interval)
			e->base_interval = trace->intervals.items[i].ns;
	set_range(e);
	sp_trace_choose_processes(e->trace, e->trace->options, e->process_handles);
	choose_threads(e);
	if (!list_processes(e) || !list_code(e) || !list_turns(e))
		return false;
	if (e->items.count)
		qsort(e->items.items, e->items.count, sizeof(*e->items.items), compare_items);
	return true;
}

/* Why a profile without samples has none, in one sentence. */
static void describe_emptiness(struct emitter *e)
{
	const struct sp_trace *trace = e->trace;
	const struct sp_trace_counts *counts = &trace->counts;
	char text[512];
	if (e->turns.count)
		return;
	if (!counts->samples && !counts->idle && !counts->pmc && !counts->switches)
		snprintf(text, sizeof(text),
		         "the trace has no CPU samples: it was recorded without the sampled profile "
		         "(wpr -start CPU, xperf -on PROC_THREAD+LOADER+PROFILE -stackwalk Profile)");
	else if (sp_trace_has_filter(trace->options))
		snprintf(text, sizeof(text), "no samples of the chosen processes among %llu in the trace",
		         (unsigned long long)counts->samples);
	else if (trace->options->time_limited)
		snprintf(text, sizeof(text), "no samples in the chosen time");
	else
		snprintf(text, sizeof(text), "all %llu samples are of idle CPUs (--idle keeps them)",
		         (unsigned long long)counts->idle);
	e->result->empty = strdup(text);
}

static void emitter_deinit(struct emitter *e)
{
	free(e->process_handles);
	free(e->process_last);
	free(e->process_samples);
	free(e->thread_handles);
	free(e->thread_last);
	sp_map_deinit(&e->modules);
	sp_vector_deinit(&e->items);
	sp_spool_deinit(&e->turns);
	sp_vector_deinit(&e->frames);
}

struct sp_error *sp_trace_emit(struct sp_trace *trace, struct sp_recording_writer *recording,
                               struct sp_import_result *result)
{
	struct emitter e = { .trace = trace, .recording = recording, .result = result };
	struct sp_error *error = prepare(&e) ? NULL : sp_error_no_memory();
	if (!error)
		error = put_machine(&e);
	if (!error)
		error = put_clock(&e);
	if (!error)
		error = put_sources(&e);
	if (!error)
		error = put_pseudo_frames(&e);
	if (!error)
		error = put_samples(&e);
	if (!error)
		error = sp_trace_emit_markers(trace, e.thread_handles, recording, result);
	if (!error)
		error = put_interval_changes(&e);
	if (!error)
		error = put_losses(&e);
	if (!error)
		error = put_marker(&e, e.from, e.to, "Trace", sp_file_base_name(trace->options->paths[0]));
	if (!error && sp_trace_has_filter(trace->options) && !result->processes)
		error = sp_error_create(SP_ERROR_NOT_FOUND,
		                        "%s: the trace has no such process (sp import --list shows which it has)",
		                        trace->options->paths[0]);
	if (!error) {
		describe_emptiness(&e);
		error = put_meta(&e, SP_META_EMPTY, result->empty);
	}
	emitter_deinit(&e);
	return error;
}
