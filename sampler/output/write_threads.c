/* Threads with their samples, and counters. */
#include "sampler/output/write.h"

#include <stdlib.h>
#include <string.h>

/* ---- The samples of a thread in order ---- */

struct order {
	SP_VECTOR(uint32_t) samples;
	bool weighted, cpu_known, unsorted;
	uint64_t last_time;
};

static struct sp_error *add_row(const struct sp_profile_builder *builder, const struct sp_build_row *row,
                                struct order *order)
{
	if (!row->count)
		return NULL;
	if (!sp_vector_reserve(&order->samples, row->count))
		return sp_error_no_memory();
	order->unsorted = order->unsorted || row->unsorted || row->first_time < order->last_time;
	order->weighted = order->weighted || row->weighted;
	order->cpu_known = order->cpu_known || row->cpu_known;
	order->last_time = row->last_time > order->last_time ? row->last_time : order->last_time;
	for (uint32_t at = row->head; at != SP_INDEX_NONE; at = builder->samples.items[at].next)
		order->samples.items[order->samples.count++] = at;
	return NULL;
}

struct timed {
	uint64_t time;
	uint32_t sample;
};

static int compare_timed(const void *left, const void *right)
{
	const struct timed *a = left, *b = right;
	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	return a->sample < b->sample ? -1 : a->sample > b->sample;
}

static struct sp_error *sort(const struct sp_profile_builder *builder, struct order *order)
{
	struct timed *timed = malloc((order->samples.count + 1) * sizeof(*timed));
	if (!timed)
		return sp_error_no_memory();
	for (size_t i = 0; i < order->samples.count; i++) {
		timed[i].sample = order->samples.items[i];
		timed[i].time = builder->samples.items[timed[i].sample].time;
	}
	qsort(timed, order->samples.count, sizeof(*timed), compare_timed);
	for (size_t i = 0; i < order->samples.count; i++)
		order->samples.items[i] = timed[i].sample;
	free(timed);
	return NULL;
}

static struct sp_error *order_samples(const struct sp_layout *layout, const struct sp_out_thread *thread,
                                      struct order *order)
{
	const struct sp_profile_builder *builder = layout->builder;
	struct sp_error *error = NULL;
	if (thread->source != SP_HANDLE_NONE) {
		const uint64_t *row = sp_map_get(&builder->other_rows, (uint64_t)thread->member << 32 | thread->source);
		if (row)
			error = add_row(builder, &builder->rows.items[*row], order);
	} else {
		for (uint32_t member = thread->member; member != SP_HANDLE_NONE && !error;
		     member = layout->next_member.items[member]) {
			uint32_t row = builder->threads.items[member].row;
			if (row != SP_INDEX_NONE)
				error = add_row(builder, &builder->rows.items[row], order);
		}
	}
	return error || !order->unsorted ? error : sort(builder, order);
}

/* ---- Columns ---- */

static uint64_t since_start_us(const struct sp_layout *layout, uint64_t time)
{
	uint64_t us = (time - layout->zero) / 1000;
	return us < INT64_MAX / 1000 ? us : INT64_MAX / 1000;
}

static void write_times(struct sp_json *json, const struct sp_layout *layout, const struct order *order)
{
	uint64_t last = 0;
	sp_json_key(json, "timeDeltas");
	sp_json_array_begin(json);
	for (size_t i = 0; i < order->samples.count; i++) {
		uint64_t time = since_start_us(layout, layout->builder->samples.items[order->samples.items[i]].time);
		sp_json_ns_as_ms(json, (int64_t)((time - last) * 1000));
		last = time;
	}
	sp_json_array_end(json);
}

static int64_t weight_of(const struct sp_profile_builder *builder, uint32_t index)
{
	int32_t weight = builder->samples.items[index].weight;
	const uint64_t *large = weight == SP_WEIGHT_LARGE ? sp_map_get(&builder->large_weights, index) : NULL;
	return large ? (int64_t)*large : weight;
}

static void write_weights(struct sp_json *json, const struct sp_layout *layout, const struct order *order)
{
	sp_json_key(json, "weight");
	if (order->weighted) {
		sp_json_array_begin(json);
		for (size_t i = 0; i < order->samples.count; i++)
			sp_json_int(json, weight_of(layout->builder, order->samples.items[i]));
		sp_json_array_end(json);
	} else {
		sp_json_null(json);
	}
	sp_json_member_string(json, "weightType", "samples");
}

/* CPU time in µs, with what rounding cut off carried on. An unknown delta is null, which the front-end takes as 100 %;
 * a thread that has none leaves the column out, which means the same. */
static void write_cpu_deltas(struct sp_json *json, const struct sp_layout *layout, const struct order *order)
{
	const struct sp_profile_builder *builder = layout->builder;
	uint64_t carry = 0;
	if (!order->cpu_known)
		return;
	sp_json_key(json, "threadCPUDelta");
	sp_json_array_begin(json);
	for (size_t i = 0; i < order->samples.count; i++) {
		uint32_t index = order->samples.items[i];
		uint64_t delta = builder->samples.items[index].cpu_delta;
		if (delta == SP_CPU_DELTA_UNKNOWN) {
			sp_json_null(json);
			continue;
		}
		const uint64_t *large = delta == SP_CPU_DELTA_LARGE ? sp_map_get(&builder->large_cpu_deltas, index)
		                                                    : NULL;
		delta = large ? *large : delta;
		sp_json_uint(json, delta / 1000 + (delta % 1000 + carry) / 1000);
		carry = (delta % 1000 + carry) % 1000;
	}
	sp_json_array_end(json);
}

static void write_samples(struct sp_json *json, const struct sp_layout *layout, const struct order *order)
{
	const struct sp_profile_builder *builder = layout->builder;
	sp_json_key(json, "samples");
	sp_json_object_begin(json);
	sp_json_key(json, "stack");
	sp_json_array_begin(json);
	for (size_t i = 0; i < order->samples.count; i++)
		sp_json_uint(json, sp_layout_stack(layout, builder->samples.items[order->samples.items[i]].stack));
	sp_json_array_end(json);
	write_times(json, layout, order);
	write_weights(json, layout, order);
	write_cpu_deltas(json, layout, order);
	sp_json_member_int(json, "length", (int64_t)order->samples.count);
	sp_json_object_end(json);
}

/* ---- Threads ---- */

static void member_time(struct sp_json *json, const struct sp_layout *layout, const char *key, bool known,
                        uint64_t time)
{
	sp_json_key(json, key);
	if (known)
		sp_write_time(json, layout, time);
	else
		sp_json_null(json);
}

static struct sp_error *write_thread(struct sp_json *json, struct sp_layout *layout, uint32_t index)
{
	const struct sp_out_thread *thread = &layout->threads.items[index];
	const struct sp_out_process *process = &layout->processes.items[thread->process];
	struct order order = { 0 };
	struct sp_error *error = order_samples(layout, thread, &order);
	bool any_markers = false;
	sp_json_object_begin(json);
	sp_json_member_string(json, "name", sp_intern_string(&layout->strings, thread->name));
	sp_json_member_string(json, "processName", sp_intern_string(&layout->strings, process->name));
	sp_json_member_string(json, "processType", "default");
	sp_json_member_string(json, "pid", process->pid);
	sp_json_member_int(json, "tid", thread->tid);
	sp_json_member_bool(json, "isMainThread", thread->main);
	member_time(json, layout, "processStartupTime", true, process->start);
	member_time(json, layout, "processShutdownTime", process->ended, process->end);
	member_time(json, layout, "registerTime", true, thread->start);
	member_time(json, layout, "unregisterTime", thread->ended, thread->end);
	sp_json_key(json, "pausedRanges");
	sp_json_array_begin(json);
	sp_json_array_end(json);
	if (!error)
		write_samples(json, layout, &order);
	if (!error)
		error = sp_write_markers(json, layout, index, &any_markers);
	sp_json_member_bool(json, "showMarkersInTimeline", any_markers);
	sp_json_object_end(json);
	sp_json_newline(json);
	sp_vector_deinit(&order.samples);
	return error;
}

struct sp_error *sp_write_threads(struct sp_json *json, struct sp_layout *layout)
{
	struct sp_error *error = NULL;
	sp_json_key(json, "threads");
	sp_json_array_begin(json);
	for (size_t i = 0; i < layout->threads.count && !error && !json->error; i++)
		error = write_thread(json, layout, (uint32_t)i);
	sp_json_array_end(json);
	return error;
}

/* ---- Counters ---- */

/* The front-end sets the first count to 0, so a dummy goes first. */
static void write_counter_samples(struct sp_json *json, const struct sp_layout *layout,
                                  const struct sp_build_counter *counter)
{
	const struct sp_profile_builder *builder = layout->builder;
	uint64_t count = 1, last = 0;
	for (uint32_t at = counter->head; at != SP_INDEX_NONE; at = builder->values.items[at].next)
		count++;
	sp_json_key(json, "samples");
	sp_json_object_begin(json);
	sp_json_key(json, "time");
	sp_json_array_begin(json);
	sp_json_uint(json, 0);
	for (uint32_t at = counter->head; at != SP_INDEX_NONE; at = builder->values.items[at].next) {
		uint64_t time = builder->values.items[at].time;
		last = time > last ? time : last; /* times never go back */
		sp_write_time(json, layout, last);
	}
	sp_json_array_end(json);
	sp_json_key(json, "count");
	sp_json_array_begin(json);
	sp_json_uint(json, 0);
	for (uint32_t at = counter->head; at != SP_INDEX_NONE; at = builder->values.items[at].next)
		sp_json_double(json, builder->values.items[at].delta);
	sp_json_array_end(json);
	sp_json_member_int(json, "length", (int64_t)count);
	sp_json_object_end(json);
}

static void write_counter_display(struct sp_json *json, const char *name, const char *unit)
{
	bool bytes = !strcmp(unit, "bytes");
	sp_json_key(json, "display");
	sp_json_object_begin(json);
	sp_json_member_string(json, "graphType", "line-accumulated");
	sp_json_member_string(json, "unit", unit);
	sp_json_member_string(json, "color", bytes ? "orange" : "blue");
	sp_json_member_string(json, "markerSchemaLocation", bytes ? "timeline-memory" : NULL);
	sp_json_member_int(json, "sortWeight", bytes ? 20 : 50);
	sp_json_member_string(json, "label", name);
	sp_json_key(json, "tooltipRows");
	sp_json_array_begin(json);
	sp_json_object_begin(json);
	sp_json_member_string(json, "type", "value");
	sp_json_member_string(json, "source", "accumulated");
	sp_json_key(json, "format");
	sp_json_object_begin(json);
	sp_json_member_string(json, "unit", bytes ? "bytes" : "number");
	sp_json_object_end(json);
	sp_json_member_string(json, "label", name);
	sp_json_object_end(json);
	sp_json_array_end(json);
	sp_json_object_end(json);
}

static const char *or_empty(const char *string)
{
	return string ? string : "";
}

/* The thread that stands for the counter's process; the first of all when that is not shown. */
static uint32_t counter_thread(const struct sp_layout *layout, const struct sp_build_counter *counter)
{
	if (counter->process >= layout->out_process.count)
		return 0;
	uint32_t process = layout->out_process.items[counter->process];
	if (process == SP_INDEX_NONE)
		return 0;
	if (layout->processes.items[process].main_thread != SP_INDEX_NONE)
		return layout->processes.items[process].main_thread;
	for (size_t i = 0; i < layout->threads.count; i++)
		if (layout->threads.items[i].process == process)
			return (uint32_t)i;
	return 0;
}

void sp_write_counters(struct sp_json *json, struct sp_layout *layout)
{
	const struct sp_profile_builder *builder = layout->builder;
	sp_json_key(json, "counters");
	sp_json_array_begin(json);
	for (size_t i = 0; i < builder->counters.count; i++) {
		const struct sp_build_counter *counter = &builder->counters.items[i];
		if (!counter->defined || counter->head == SP_INDEX_NONE)
			continue;
		uint32_t thread = counter_thread(layout, counter);
		const char *name = or_empty(sp_build_string(builder, counter->name));
		sp_json_object_begin(json);
		sp_json_member_string(json, "name", name);
		sp_json_member_string(json, "category", or_empty(sp_build_string(builder, counter->category)));
		sp_json_member_string(json, "description", or_empty(sp_build_string(builder, counter->description)));
		sp_json_member_string(json, "pid", layout->processes.items[layout->threads.items[thread].process].pid);
		sp_json_member_int(json, "mainThreadIndex", thread);
		write_counter_samples(json, layout, counter);
		write_counter_display(json, name, or_empty(sp_build_string(builder, counter->unit)));
		sp_json_object_end(json);
	}
	sp_json_array_end(json);
}
