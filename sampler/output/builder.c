/* Takes in the records of a recording, in their order, as they are written.
 *
 * Handles are dense numbers, so everything is an array indexed by them. Whatever grows with the number of samples is
 * in spools; the rest grows with processes, threads, modules and functions. */
#include "sampler/output/builder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HANDLE_MAX (1u << 24)
#define INTERVAL_MAX 1000000000000u /* ns; more is no interval */

/* ---- Strings and handles ---- */

static struct sp_error *intern(struct sp_profile_builder *builder, const char *string, uint32_t *ret)
{
	*ret = SP_INTERN_NONE;
	if (!string)
		return NULL;
	*ret = sp_intern(&builder->strings, string, strlen(string));
	return *ret == SP_INTERN_NONE ? sp_error_no_memory() : NULL;
}

/* As intern() for a list of (string, where to) pairs. */
struct intern_pair {
	const char *string;
	uint32_t *ret;
};

static struct sp_error *intern_all(struct sp_profile_builder *builder, const struct intern_pair *pairs, size_t count)
{
	struct sp_error *error = NULL;
	for (size_t i = 0; i < count && !error; i++)
		error = intern(builder, pairs[i].string, pairs[i].ret);
	return error;
}

/* Makes `vector` hold `handle`, filling up with `blank`. */
#define DEFINE_HANDLE(vector, handle, ...)                                                                         \
	do {                                                                                                       \
		if ((handle) >= HANDLE_MAX)                                                                        \
			return sp_error_create(SP_ERROR_FORMAT, "handle %u in the recording", (unsigned)(handle)); \
		while ((vector)->count <= (handle))                                                                \
			if (!sp_vector_push((vector), __VA_ARGS__))                                                \
				return sp_error_no_memory();                                                       \
	} while (0)

static struct sp_error *define_process(struct sp_profile_builder *builder, uint32_t handle,
                                       struct sp_build_process **ret)
{
	DEFINE_HANDLE(&builder->processes, handle,
	              (struct sp_build_process){ .previous = SP_HANDLE_NONE,
	                                         .parent = SP_HANDLE_NONE,
	                                         .name = SP_INTERN_NONE,
	                                         .command = SP_INTERN_NONE });
	*ret = &builder->processes.items[handle];
	if (!(*ret)->view)
		(*ret)->view = sp_build_new_view(builder);
	if (!(*ret)->view)
		return sp_error_create(SP_ERROR_LIMIT, "too many processes");
	return NULL;
}

static struct sp_error *define_thread(struct sp_profile_builder *builder, uint32_t handle, struct sp_build_thread **ret)
{
	DEFINE_HANDLE(
	    &builder->threads, handle,
	    (struct sp_build_thread){
	        .process = SP_HANDLE_NONE, .name = SP_INTERN_NONE, .row = SP_INDEX_NONE, .markers = SP_INDEX_NONE });
	*ret = &builder->threads.items[handle];
	return NULL;
}

/* ---- Definitions ---- */

static struct sp_error *take_meta(struct sp_profile_builder *builder, const struct sp_record_meta *record)
{
	struct sp_build_meta meta;
	struct sp_error *error = intern_all(
	    builder, (struct intern_pair[]){ { record->key, &meta.key }, { record->value, &meta.value } }, 2);
	if (error || meta.key == SP_INTERN_NONE || meta.value == SP_INTERN_NONE)
		return error;
	for (size_t i = 0; i < builder->meta.count; i++) {
		if (builder->meta.items[i].key != meta.key)
			continue;
		builder->meta.items[i] = meta;
		return NULL;
	}
	return sp_vector_push(&builder->meta, meta) ? NULL : sp_error_no_memory();
}

static struct sp_error *take_clock(struct sp_profile_builder *builder, const struct sp_record_clock *record)
{
	struct sp_record_clock clock = *record;
	uint32_t name;
	struct sp_error *error = intern(builder, record->name ? record->name : "", &name);
	if (error)
		return error;
	clock.name = sp_build_string(builder, name);
	if (builder->clocks.count == 2)
		builder->clocks.items[1] = clock;
	else if (!sp_vector_push(&builder->clocks, clock))
		return sp_error_no_memory();
	return NULL;
}

static struct sp_error *take_source(struct sp_profile_builder *builder, const struct sp_record_source *record)
{
	DEFINE_HANDLE(&builder->sources, record->source,
	              (struct sp_build_source){ .name = SP_INTERN_NONE, .unit = SP_INTERN_NONE });
	struct sp_build_source *source = &builder->sources.items[record->source];
	source->defined = true;
	source->off_cpu = record->off_cpu;
	source->rate = record->rate;
	if (!record->off_cpu && builder->primary_source == SP_HANDLE_NONE)
		builder->primary_source = record->source;
	return intern_all(
	    builder, (struct intern_pair[]){ { record->name, &source->name }, { record->unit, &source->unit } }, 2);
}

/* A long recording of a build sees thousands of processes: what they had mapped goes with them. */
static void end_process(struct sp_build_process *process, uint64_t time)
{
	process->ended = true;
	process->end = time > process->start ? time : process->start;
	sp_range_map_deinit(&process->map);
}

static struct sp_error *take_process(struct sp_profile_builder *builder, const struct sp_record_process *record)
{
	struct sp_build_process *process;
	struct sp_error *error = define_process(builder, record->process, &process);
	if (error)
		return error;
	bool first = !process->defined;
	process->defined = true;
	process->pid = record->pid;
	error = intern_all(
	    builder,
	    (struct intern_pair[]){ { record->name, &process->name }, { record->command_line, &process->command } }, 2);
	if (!first || error)
		return error;
	process->start = record->time;
	process->found = record->found;
	size_t count = builder->processes.count;
	process->previous = record->previous < count ? record->previous : SP_HANDLE_NONE;
	process->parent = record->parent < count ? record->parent : SP_HANDLE_NONE;
	if (process->previous != SP_HANDLE_NONE) {
		struct sp_build_process *previous = &builder->processes.items[process->previous];
		previous->replaced = true;
		end_process(previous, previous->ended ? previous->end : record->time);
	}
	return NULL;
}

static struct sp_error *take_process_end(struct sp_profile_builder *builder, const struct sp_record_process_end *record)
{
	struct sp_build_process *process;
	struct sp_error *error = define_process(builder, record->process, &process);
	if (error)
		return error;
	end_process(process, record->time);
	return NULL;
}

static struct sp_error *new_row(struct sp_profile_builder *builder, uint32_t thread, uint32_t source, uint32_t *ret)
{
	struct sp_build_row row = { .thread = thread, .source = source, .head = SP_INDEX_NONE, .tail = SP_INDEX_NONE };
	*ret = (uint32_t)builder->rows.count;
	if (builder->rows.count >= UINT32_MAX - 1 || !sp_vector_push(&builder->rows, row))
		return sp_error_no_memory();
	return NULL;
}

static struct sp_error *take_thread(struct sp_profile_builder *builder, const struct sp_record_thread *record)
{
	struct sp_build_process *process;
	struct sp_build_thread *thread;
	struct sp_error *error = define_process(builder, record->process, &process);
	if (!error)
		error = define_thread(builder, record->thread, &thread);
	if (error)
		return error;
	if (!thread->defined) {
		thread->process = record->process;
		thread->start = record->time;
	}
	thread->defined = true;
	thread->tid = record->tid;
	thread->main = record->main;
	return record->name ? intern(builder, record->name, &thread->name) : NULL;
}

static struct sp_error *take_thread_name(struct sp_profile_builder *builder, const struct sp_record_thread_name *record)
{
	struct sp_build_thread *thread;
	struct sp_error *error = define_thread(builder, record->thread, &thread);
	return error || !record->name ? error : intern(builder, record->name, &thread->name);
}

static struct sp_error *take_thread_end(struct sp_profile_builder *builder, const struct sp_record_thread_end *record)
{
	struct sp_build_thread *thread;
	struct sp_error *error = define_thread(builder, record->thread, &thread);
	if (error)
		return error;
	thread->ended = true;
	thread->end = record->time > thread->start ? record->time : thread->start;
	return NULL;
}

static struct sp_error *define_module(struct sp_profile_builder *builder, uint32_t handle, struct sp_build_module **ret)
{
	DEFINE_HANDLE(&builder->modules, handle,
	              (struct sp_build_module){ .name = SP_INTERN_NONE,
	                                        .path = SP_INTERN_NONE,
	                                        .debug_name = SP_INTERN_NONE,
	                                        .debug_path = SP_INTERN_NONE,
	                                        .debug_id = SP_INTERN_NONE,
	                                        .code_id = SP_INTERN_NONE,
	                                        .arch = SP_INTERN_NONE,
	                                        .kept_path = SP_INTERN_NONE,
	                                        .note = SP_INTERN_NONE });
	*ret = &builder->modules.items[handle];
	return NULL;
}

/* The front-end and its servers take nothing else for an ID. */
static bool is_hex(const char *string)
{
	return string && string[strspn(string, "0123456789abcdefABCDEF")] == 0;
}

static struct sp_error *take_module(struct sp_profile_builder *builder, const struct sp_record_module *record)
{
	struct sp_build_module *module;
	struct sp_error *error = define_module(builder, record->module, &module);
	if (error)
		return error;
	module->defined = true;
	module->kind = record->kind;
	const struct intern_pair pairs[] = {
		{ record->name, &module->name },
		{ record->path, &module->path },
		{ record->debug_name, &module->debug_name },
		{ record->debug_path, &module->debug_path },
		{ is_hex(record->debug_id) ? record->debug_id : "", &module->debug_id },
		{ record->code_id, &module->code_id },
		{ record->arch, &module->arch },
		{ record->kept_path, &module->kept_path },
		{ record->note, &module->note },
	};
	return intern_all(builder, pairs, sizeof(pairs) / sizeof(*pairs));
}

/* ---- Address spaces ---- */

/* Shows a range from now on; also as a late one when samples went before it. */
static struct sp_error *show_range(struct sp_profile_builder *builder, uint32_t process, uint64_t time,
                                   const struct sp_range *range)
{
	uint64_t last_sample = builder->last_time;
	if (process != SP_HANDLE_NONE) {
		struct sp_build_process *owner;
		struct sp_error *error = define_process(builder, process, &owner);
		if (error)
			return error;
		last_sample = owner->last_sample;
	}
	if (time < last_sample &&
	    !sp_vector_push(&builder->late, (struct sp_late_range){ .process = process, .range = *range }))
		return sp_error_no_memory();
	return sp_build_map_range(builder, process, range);
}

static uint64_t range_end(uint64_t start, uint64_t size)
{
	return size > UINT64_MAX - start ? UINT64_MAX : start + size;
}

static struct sp_error *take_mapping(struct sp_profile_builder *builder, const struct sp_record_mapping *record)
{
	struct sp_range range = { .start = record->start,
		                  .end = range_end(record->start, record->size),
		                  .base = record->base,
		                  .target = record->module,
		                  .kind = SP_RANGE_MODULE };
	struct sp_build_module *module;
	struct sp_error *error = define_module(builder, record->module, &module);
	if (error || range.start >= range.end)
		return error;
	return show_range(builder, record->process, record->time, &range);
}

static struct sp_error *hide_range(struct sp_profile_builder *builder, uint32_t process, uint64_t start, uint64_t end)
{
	struct sp_build_process *owner;
	if (process != SP_HANDLE_NONE) {
		struct sp_error *error = define_process(builder, process, &owner);
		if (error)
			return error;
	}
	return sp_build_unmap_range(builder, process, start, end);
}

static struct sp_error *take_unmapping(struct sp_profile_builder *builder, const struct sp_record_unmapping *record)
{
	uint64_t end = range_end(record->start, record->size);
	return record->start < end ? hide_range(builder, record->process, record->start, end) : NULL;
}

static struct sp_error *take_jit_function(struct sp_profile_builder *builder,
                                          const struct sp_record_jit_function *record)
{
	struct sp_range range = { .start = record->start,
		                  .end = range_end(record->start, record->size),
		                  .kind = SP_RANGE_JIT };
	if (range.start >= range.end)
		return NULL;
	if (!record->name || !*record->name) /* the code there is gone */
		return hide_range(builder, record->process, range.start, range.end);
	struct sp_error *error = intern(builder, record->name, &range.target);
	if (error)
		return error;
	if (!record->late)
		return show_range(builder, record->process, record->time, &range);
	struct sp_build_process *process;
	if (record->process != SP_HANDLE_NONE)
		error = define_process(builder, record->process, &process);
	if (!error && !sp_vector_push(&builder->late, (struct sp_late_range){ record->process, range }))
		error = sp_error_no_memory();
	return error;
}

/* ---- Facts ---- */

static void saw_time(struct sp_profile_builder *builder, uint64_t time)
{
	if (time < builder->first_time)
		builder->first_time = time;
	if (time > builder->last_time)
		builder->last_time = time;
}

/* The row that a sample belongs to. */
static struct sp_error *row_for(struct sp_profile_builder *builder, uint32_t handle, uint32_t source, uint32_t *ret)
{
	struct sp_build_thread *thread = &builder->threads.items[handle];
	bool known = source < builder->sources.count;
	bool ordinary = !known || builder->sources.items[source].off_cpu || source == builder->primary_source;
	if (ordinary) {
		struct sp_error *error = NULL;
		if (thread->row == SP_INDEX_NONE)
			error = new_row(builder, handle, SP_HANDLE_NONE, &thread->row);
		*ret = thread->row;
		return error;
	}
	uint64_t key = (uint64_t)handle << 32 | source;
	uint64_t *found = sp_map_get(&builder->other_rows, key);
	if (found) {
		*ret = (uint32_t)*found;
		return NULL;
	}
	struct sp_error *error = new_row(builder, handle, source, ret);
	if (!error && !sp_map_put(&builder->other_rows, key, *ret))
		error = sp_error_no_memory();
	return error;
}

/* Packs CPU delta and weight into a sample's small fields. */
static struct sp_error *pack_sample(struct sp_profile_builder *builder, const struct sp_record_sample *record,
                                    bool off_cpu, struct sp_build_sample *sample)
{
	uint64_t index = builder->samples.count;
	sample->cpu_delta = SP_CPU_DELTA_UNKNOWN;
	if (record->cpu_delta_known || off_cpu) {
		uint64_t delta = record->cpu_delta_known ? record->cpu_delta : 0;
		sample->cpu_delta = delta < SP_CPU_DELTA_LARGE ? (uint32_t)delta : SP_CPU_DELTA_LARGE;
		if (sample->cpu_delta == SP_CPU_DELTA_LARGE && !sp_map_put(&builder->large_cpu_deltas, index, delta))
			return sp_error_no_memory();
	}
	if (record->weight > INT32_MIN && record->weight <= INT32_MAX) {
		sample->weight = (int32_t)record->weight;
		return NULL;
	}
	sample->weight = SP_WEIGHT_LARGE;
	return sp_map_put(&builder->large_weights, index, (uint64_t)record->weight) ? NULL : sp_error_no_memory();
}

static struct sp_error *add_to_row(struct sp_profile_builder *builder, uint32_t row_index,
                                   const struct sp_build_sample *sample)
{
	uint32_t index = (uint32_t)builder->samples.count;
	if (builder->samples.count >= UINT32_MAX - 1 || !sp_spool_push(&builder->samples, *sample))
		return sp_error_no_memory();
	struct sp_build_row *row = &builder->rows.items[row_index];
	if (row->tail == SP_INDEX_NONE) {
		row->head = index;
		row->first_time = row->last_time = sample->time;
	} else {
		builder->samples.items[row->tail].next = index;
		row->unsorted = row->unsorted || sample->time < row->last_time;
	}
	row->tail = index;
	row->first_time = sample->time < row->first_time ? sample->time : row->first_time;
	row->last_time = sample->time > row->last_time ? sample->time : row->last_time;
	row->weighted = row->weighted || sample->weight != 1;
	row->cpu_known = row->cpu_known || sample->cpu_delta != SP_CPU_DELTA_UNKNOWN;
	row->count++;
	return NULL;
}

static void count_sample(struct sp_profile_builder *builder, const struct sp_record_sample *record, bool off_cpu,
                         const struct sp_resolved_stack *stack, struct sp_build_row *row)
{
	struct sp_profile_summary *summary = &builder->summary;
	bool estimate = record->label && !strcmp(record->label, SP_LABEL_KERNEL_UNSAMPLED);
	if (off_cpu)
		summary->off_cpu_samples++;
	else
		summary->samples += !estimate;
	summary->spliced += stack->spliced;
	summary->guessed += stack->guessed;
	if (record->cpu_delta_known)
		summary->cpu_ns += record->cpu_delta;
	if (estimate) {
		builder->kernel_unsampled_weight += record->weight > 0 ? (uint64_t)record->weight : 0;
	} else if (!record->label && record->end <= SP_UNWIND_NOT_RECORDED) {
		builder->ends[record->end]++;
		if (record->end != SP_UNWIND_ROOT) {
			summary->truncated++;
			row->truncated++;
		}
	}
	if (row->source == SP_HANDLE_NONE && !off_cpu)
		builder->weight += record->weight > 0 ? (uint64_t)record->weight : 0;
}

static struct sp_error *take_sample(struct sp_profile_builder *builder, const struct sp_record_sample *record)
{
	struct sp_build_thread *thread;
	struct sp_build_process *process;
	struct sp_resolved_stack stack;
	uint32_t row;
	struct sp_error *error = define_thread(builder, record->thread, &thread);
	if (!error && thread->process == SP_HANDLE_NONE)
		error = sp_error_create(SP_ERROR_FORMAT, "a sample of thread %u, which is not defined", record->thread);
	if (!error)
		error = sp_build_stack(builder, record, thread->process, &stack);
	if (!error)
		error = row_for(builder, record->thread, record->source, &row);
	if (error)
		return error;
	bool off_cpu = record->source < builder->sources.count && builder->sources.items[record->source].off_cpu;
	struct sp_build_sample sample = { .time = record->time, .next = SP_INDEX_NONE, .stack = stack.stack };
	error = pack_sample(builder, record, off_cpu, &sample);
	if (!error)
		error = add_to_row(builder, row, &sample);
	if (error)
		return error;
	process = &builder->processes.items[thread->process];
	process->samples++;
	if (record->time > process->last_sample)
		process->last_sample = record->time;
	saw_time(builder, record->time);
	count_sample(builder, record, off_cpu, &stack, &builder->rows.items[row]);
	return NULL;
}

/* Adds a marker to its thread, or to those of the recording as a whole. */
static struct sp_error *add_marker(struct sp_profile_builder *builder, uint32_t handle, struct sp_build_marker *marker)
{
	struct sp_build_thread *thread;
	uint32_t *list = &builder->global_markers;
	if (handle != SP_HANDLE_NONE) {
		struct sp_error *error = define_thread(builder, handle, &thread);
		if (error)
			return error;
		if (thread->process != SP_HANDLE_NONE)
			list = &thread->markers;
	}
	if (marker->end < marker->time)
		marker->end = marker->time;
	marker->next = *list;
	if (builder->markers.count >= UINT32_MAX - 1 || !sp_spool_push(&builder->markers, *marker))
		return sp_error_no_memory();
	*list = (uint32_t)builder->markers.count - 1;
	saw_time(builder, marker->time);
	saw_time(builder, marker->end);
	return NULL;
}

static struct sp_error *take_marker(struct sp_profile_builder *builder, const struct sp_record_marker *record)
{
	struct sp_build_marker marker = {
		.time = record->time, .end = record->end_time, .cpu = SP_CPU_NONE, .kind = SP_MARKER_TEXT
	};
	struct sp_error *error = intern_all(builder,
	                                    (struct intern_pair[]){ { record->name ? record->name : "", &marker.name },
	                                                            { record->text, &marker.text } },
	                                    2);
	return error ? error : add_marker(builder, record->thread, &marker);
}

static struct sp_error *take_loss(struct sp_profile_builder *builder, const struct sp_record_loss *record)
{
	struct sp_build_marker marker = { .time = record->time,
		                          .end = record->end_time,
		                          .count = record->count,
		                          .name = SP_INTERN_NONE,
		                          .text = SP_INTERN_NONE,
		                          .cpu = record->cpu,
		                          .kind = SP_MARKER_LOSS,
		                          .loss_kind = record->kind };
	if (record->kind > SP_LOSS_BUFFER)
		return sp_error_create(SP_ERROR_FORMAT, "a loss of unknown kind %u", record->kind);
	struct sp_error *error = add_marker(builder, record->thread, &marker);
	if (error)
		return error;
	if (record->kind == SP_LOSS_THROTTLED) {
		builder->losses[record->kind]++;
		builder->throttled_ns += marker.end - marker.time;
		builder->summary.throttled++;
	} else {
		builder->losses[record->kind] += record->count;
		builder->summary.lost += record->count;
	}
	return NULL;
}

static struct sp_error *define_counter(struct sp_profile_builder *builder, uint32_t handle,
                                       struct sp_build_counter **ret)
{
	DEFINE_HANDLE(&builder->counters, handle,
	              (struct sp_build_counter){ .process = SP_HANDLE_NONE,
	                                         .name = SP_INTERN_NONE,
	                                         .category = SP_INTERN_NONE,
	                                         .description = SP_INTERN_NONE,
	                                         .unit = SP_INTERN_NONE,
	                                         .head = SP_INDEX_NONE,
	                                         .tail = SP_INDEX_NONE });
	*ret = &builder->counters.items[handle];
	return NULL;
}

static struct sp_error *take_counter(struct sp_profile_builder *builder, const struct sp_record_counter *record)
{
	struct sp_build_counter *counter;
	struct sp_error *error = define_counter(builder, record->counter, &counter);
	if (error)
		return error;
	counter->defined = true;
	counter->process = record->process;
	return intern_all(builder,
	                  (struct intern_pair[]){ { record->name, &counter->name },
	                                          { record->category, &counter->category },
	                                          { record->description, &counter->description },
	                                          { record->unit, &counter->unit } },
	                  4);
}

static struct sp_error *take_counter_value(struct sp_profile_builder *builder,
                                           const struct sp_record_counter_value *record)
{
	struct sp_build_counter *counter;
	struct sp_error *error = define_counter(builder, record->counter, &counter);
	if (error)
		return error;
	uint32_t index = (uint32_t)builder->values.count;
	struct sp_build_value value = { .time = record->time,
		                        .delta = isfinite(record->delta) ? record->delta : 0,
		                        .next = SP_INDEX_NONE };
	if (builder->values.count >= UINT32_MAX - 1 || !sp_spool_push(&builder->values, value))
		return sp_error_no_memory();
	if (counter->tail == SP_INDEX_NONE)
		counter->head = index;
	else
		builder->values.items[counter->tail].next = index;
	counter->tail = index;
	saw_time(builder, record->time);
	return NULL;
}

static struct sp_error *take(struct sp_profile_builder *builder, const struct sp_record *record)
{
	switch (record->type) {
	case SP_RECORD_META:
		return take_meta(builder, &record->meta);
	case SP_RECORD_CLOCK:
		return take_clock(builder, &record->clock);
	case SP_RECORD_SOURCE:
		return take_source(builder, &record->source);
	case SP_RECORD_PROCESS:
		return take_process(builder, &record->process);
	case SP_RECORD_PROCESS_END:
		return take_process_end(builder, &record->process_end);
	case SP_RECORD_THREAD:
		return take_thread(builder, &record->thread);
	case SP_RECORD_THREAD_NAME:
		return take_thread_name(builder, &record->thread_name);
	case SP_RECORD_THREAD_END:
		return take_thread_end(builder, &record->thread_end);
	case SP_RECORD_MODULE:
		return take_module(builder, &record->module);
	case SP_RECORD_MAPPING:
		return take_mapping(builder, &record->mapping);
	case SP_RECORD_UNMAPPING:
		return take_unmapping(builder, &record->unmapping);
	case SP_RECORD_JIT_FUNCTION:
		return take_jit_function(builder, &record->jit_function);
	case SP_RECORD_SAMPLE:
		return take_sample(builder, &record->sample);
	case SP_RECORD_MARKER:
		return take_marker(builder, &record->marker);
	case SP_RECORD_COUNTER:
		return take_counter(builder, &record->counter);
	case SP_RECORD_COUNTER_VALUE:
		return take_counter_value(builder, &record->counter_value);
	case SP_RECORD_LOSS:
		return take_loss(builder, &record->loss);
	}
	return NULL; /* a newer kind of record: not for us */
}

/* ---- The builder ---- */

const char *sp_build_meta(const struct sp_profile_builder *builder, const char *key)
{
	for (size_t i = 0; i < builder->meta.count; i++)
		if (!strcmp(sp_build_string(builder, builder->meta.items[i].key), key))
			return sp_build_string(builder, builder->meta.items[i].value);
	return NULL;
}

uint64_t sp_build_interval(const struct sp_profile_builder *builder)
{
	const char *value = sp_build_meta(builder, SP_META_INTERVAL_NS);
	uint64_t interval = value ? strtoull(value, NULL, 10) : 0;
	return interval && interval <= INTERVAL_MAX ? interval : 1000000;
}

static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	if (!slash)
		return strdup(".");
	char *folder = strdup(path);
	if (folder)
		folder[slash == path ? 1 : slash - path] = '\0';
	return folder;
}

struct sp_error *sp_profile_builder_create(const char *recording_path, const struct sp_profile_options *options,
                                           struct sp_profile_builder **ret)
{
	struct sp_profile_builder *builder = calloc(1, sizeof(*builder));
	if (!builder)
		return sp_error_no_memory();
	builder->options = *options;
	if (!builder->options.version)
		builder->options.version = SP_PROFILE_VERSION_DEFAULT;
	builder->primary_source = SP_HANDLE_NONE;
	builder->global_markers = SP_INDEX_NONE;
	builder->first_time = UINT64_MAX;
	builder->frame_cache = calloc(SP_FRAME_CACHE, sizeof(*builder->frame_cache));
	builder->folder = folder_of(recording_path);
	builder->profile_name = options->profile_name ? strdup(options->profile_name) : NULL;
	builder->options.profile_name = builder->profile_name;
	struct sp_error *error = NULL;
	if (!builder->folder || !builder->frame_cache || (options->profile_name && !builder->profile_name))
		error = sp_error_no_memory();
	else if (builder->options.version != 60 && builder->options.version != 66 && builder->options.version != 70)
		error = sp_error_create(SP_ERROR_UNSUPPORTED, "profile version %u: only 60, 66 and 70 can be written",
		                        builder->options.version);
	sp_tables_init(&builder->tables, builder->folder);
	builder->samples.store.folder = builder->markers.store.folder = builder->folder;
	builder->values.store.folder = builder->part_bytes.store.folder = builder->folder;
	if (!error)
		error = sp_recording_reader_create(recording_path, &builder->reader);
	if (error) {
		sp_profile_builder_destroy(builder);
		return error;
	}
	*ret = builder;
	return NULL;
}

struct sp_error *sp_build_take_in(struct sp_profile_builder *builder)
{
	for (;;) {
		struct sp_record record;
		bool more;
		struct sp_error *error = sp_recording_read(builder->reader, &record, &more);
		if (error || !more)
			return error;
		error = take(builder, &record);
		if (error)
			return sp_error_prefix(error, "building the profile");
	}
}

struct sp_error *sp_profile_builder_advance(struct sp_profile_builder *builder)
{
	struct sp_error *error = sp_build_take_in(builder);
	return error ? error : sp_build_stack_parts(builder);
}

void sp_profile_builder_destroy(struct sp_profile_builder *builder)
{
	if (!builder)
		return;
	for (size_t i = 0; i < builder->processes.count; i++)
		sp_range_map_deinit(&builder->processes.items[i].map);
	sp_recording_reader_destroy(builder->reader);
	sp_range_map_deinit(&builder->kernel);
	sp_tables_deinit(&builder->tables);
	sp_spool_deinit(&builder->samples);
	sp_spool_deinit(&builder->markers);
	sp_spool_deinit(&builder->values);
	sp_spool_deinit(&builder->part_bytes);
	sp_vector_deinit(&builder->parts);
	sp_map_deinit(&builder->other_rows);
	sp_map_deinit(&builder->large_cpu_deltas);
	sp_map_deinit(&builder->large_weights);
	sp_vector_deinit(&builder->processes);
	sp_vector_deinit(&builder->threads);
	sp_vector_deinit(&builder->rows);
	sp_vector_deinit(&builder->modules);
	sp_vector_deinit(&builder->sources);
	sp_vector_deinit(&builder->counters);
	sp_vector_deinit(&builder->late);
	sp_vector_deinit(&builder->meta);
	sp_vector_deinit(&builder->clocks);
	sp_vector_deinit(&builder->nodes);
	sp_vector_deinit(&builder->path);
	free(builder->frame_cache);
	sp_intern_deinit(&builder->strings);
	free(builder->profile_name);
	free(builder->folder);
	free(builder);
}
