/* Markers: what the recording has, and what must not stay unseen: losses, truncated stacks, execs, how it was made. */
#include "sampler/output/write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum payload { PAYLOAD_TEXT, PAYLOAD_LOSS, PAYLOAD_TRUNCATED };

struct marker {
	uint64_t time, end;
	const char *name;
	const char *text; /* borrowed; may be NULL */
	uint64_t count, total;
	uint32_t order; /* keeps the order of markers of one time */
	uint32_t cpu;
	uint8_t payload; /* enum payload */
};

struct markers {
	SP_VECTOR(struct marker) list;
};

const char *sp_loss_name(uint8_t kind)
{
	switch (kind) {
	case SP_LOSS_RING_FULL:
		return "Records lost: buffer full";
	case SP_LOSS_SAMPLES:
		return "Samples lost";
	case SP_LOSS_THROTTLED:
		return "Sampling throttled";
	case SP_LOSS_LATE:
		return "Records too late";
	default:
		return "Buffers lost";
	}
}

static struct sp_error *add(struct markers *markers, struct marker marker)
{
	marker.order = (uint32_t)markers->list.count;
	return sp_vector_push(&markers->list, marker) ? NULL : sp_error_no_memory();
}

/* The markers of a list of the builder, which is newest first. */
static struct sp_error *add_recorded(const struct sp_profile_builder *builder, uint32_t list, struct markers *markers)
{
	size_t start = markers->list.count;
	for (; list != SP_INDEX_NONE; list = builder->markers.items[list].next) {
		const struct sp_build_marker *from = &builder->markers.items[list];
		struct marker marker = { .time = from->time, .end = from->end, .count = from->count, .cpu = from->cpu };
		if (from->kind == SP_MARKER_LOSS) {
			marker.payload = PAYLOAD_LOSS;
			marker.name = sp_loss_name(from->loss_kind);
		} else {
			marker.name = sp_build_string(builder, from->name);
			marker.text = sp_build_string(builder, from->text);
		}
		struct sp_error *error = add(markers, marker);
		if (error)
			return error;
	}
	for (size_t i = start; i < markers->list.count; i++) /* oldest first */
		markers->list.items[i].order = (uint32_t)(start + markers->list.count - 1 - i);
	return NULL;
}

static struct sp_error *add_truncated(const struct sp_build_row *row, struct markers *markers)
{
	if (!row->truncated)
		return NULL;
	return add(markers, (struct marker){ .time = row->first_time,
	                                     .end = row->last_time,
	                                     .name = "Truncated stacks",
	                                     .count = row->truncated,
	                                     .total = row->count,
	                                     .payload = PAYLOAD_TRUNCATED });
}

static struct sp_error *add_exec(const struct sp_profile_builder *builder, const struct sp_build_thread *thread,
                                 struct markers *markers)
{
	const struct sp_build_process *process = &builder->processes.items[thread->process];
	if (!thread->main || process->previous == SP_HANDLE_NONE)
		return NULL;
	const char *text = sp_build_string(builder, process->command);
	return add(markers, (struct marker){ .time = process->start,
	                                     .end = process->start,
	                                     .name = "exec",
	                                     .text = text ? text : sp_build_string(builder, process->name) });
}

/* How the recording was made, over its whole length. */
static struct sp_error *add_conditions(const struct sp_layout *layout, struct markers *markers)
{
	static const struct {
		const char *key, *name;
	} conditions[] = {
		{ SP_META_MODE, "Recording mode" },
		{ SP_META_SHORTFALL, "Recording falls short" },
		{ SP_META_EMPTY, "No samples" },
	};
	struct sp_error *error = NULL;
	for (size_t i = 0; i < sizeof(conditions) / sizeof(*conditions) && !error; i++) {
		const char *text = sp_build_meta(layout->builder, conditions[i].key);
		if (text && *text)
			error = add(markers, (struct marker){ .time = layout->zero,
			                                      .end = layout->end,
			                                      .name = conditions[i].name,
			                                      .text = text });
	}
	return error;
}

static struct sp_error *collect(const struct sp_layout *layout, uint32_t index, struct markers *markers)
{
	const struct sp_profile_builder *builder = layout->builder;
	const struct sp_out_thread *thread = &layout->threads.items[index];
	struct sp_error *error = NULL;
	if (!index) {
		error = add_conditions(layout, markers);
		if (!error)
			error = add_recorded(builder, builder->global_markers, markers);
	}
	if (thread->source != SP_HANDLE_NONE)
		return error;
	for (uint32_t member = thread->member; member != SP_HANDLE_NONE && !error;
	     member = layout->next_member.items[member]) {
		const struct sp_build_thread *from = &builder->threads.items[member];
		error = add_exec(builder, from, markers);
		if (!error)
			error = add_recorded(builder, from->markers, markers);
		if (!error && from->row != SP_INDEX_NONE)
			error = add_truncated(&builder->rows.items[from->row], markers);
	}
	return error;
}

static int compare_markers(const void *left, const void *right)
{
	const struct marker *a = left, *b = right;
	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

static void write_payload(struct sp_json *json, const struct marker *marker)
{
	static const char *const types[] = { "sp-text", "sp-loss", "sp-truncated" };
	sp_json_object_begin(json);
	sp_json_member_string(json, "type", types[marker->payload]);
	switch (marker->payload) {
	case PAYLOAD_LOSS:
		sp_json_key(json, "count");
		sp_json_uint(json, marker->count);
		if (marker->cpu != SP_CPU_NONE) {
			sp_json_key(json, "cpu");
			sp_json_uint(json, marker->cpu);
		}
		break;
	case PAYLOAD_TRUNCATED:
		sp_json_key(json, "count");
		sp_json_uint(json, marker->count);
		sp_json_key(json, "share");
		sp_json_double(json, marker->total ? (double)marker->count / (double)marker->total : 0);
		break;
	default:
		sp_json_member_string(json, "text", marker->text ? marker->text : "");
		break;
	}
	sp_json_object_end(json);
}

static struct sp_error *write_columns(struct sp_json *json, struct sp_layout *layout, const struct marker *list,
                                      size_t count)
{
	sp_json_key(json, "data");
	sp_json_array_begin(json);
	for (size_t i = 0; i < count; i++)
		write_payload(json, &list[i]);
	sp_json_array_end(json);
	sp_json_key(json, "name");
	sp_json_array_begin(json);
	for (size_t i = 0; i < count; i++) {
		uint32_t name = sp_layout_string(layout, list[i].name);
		if (name == SP_INTERN_NONE)
			return sp_error_no_memory();
		sp_json_uint(json, name);
	}
	sp_json_array_end(json);
	sp_json_key(json, "startTime");
	sp_json_array_begin(json);
	for (size_t i = 0; i < count; i++)
		sp_write_time(json, layout, list[i].time);
	sp_json_array_end(json);
	sp_json_key(json, "endTime");
	sp_json_array_begin(json);
	for (size_t i = 0; i < count; i++) {
		if (list[i].end > list[i].time)
			sp_write_time(json, layout, list[i].end);
		else
			sp_json_null(json);
	}
	sp_json_array_end(json);
	sp_json_key(json, "phase"); /* 0 an instant, 1 an interval */
	sp_json_array_begin(json);
	for (size_t i = 0; i < count; i++)
		sp_json_uint(json, list[i].end > list[i].time);
	sp_json_array_end(json);
	sp_json_key(json, "category");
	sp_json_array_begin(json);
	for (size_t i = 0; i < count; i++)
		sp_json_uint(json, SP_CATEGORY_OTHER);
	sp_json_array_end(json);
	return NULL;
}

struct sp_error *sp_write_markers(struct sp_json *json, struct sp_layout *layout, uint32_t thread, bool *ret_any)
{
	struct markers markers = { 0 };
	struct sp_error *error = collect(layout, thread, &markers);
	if (!error) {
		*ret_any = markers.list.count > 0;
		if (*ret_any)
			qsort(markers.list.items, markers.list.count, sizeof(*markers.list.items), compare_markers);
		sp_json_key(json, "markers");
		sp_json_object_begin(json);
		error = write_columns(json, layout, markers.list.items, markers.list.count);
		sp_json_member_int(json, "length", (int64_t)markers.list.count);
		sp_json_object_end(json);
	}
	sp_vector_deinit(&markers.list);
	return error;
}

/* ---- Schemas ---- */

struct field {
	const char *key, *label, *format;
};

static void write_schema(struct sp_json *json, const char *name, const char *label, const struct field *fields,
                         size_t count)
{
	static const char *const display[] = { "marker-chart", "marker-table", "timeline-overview" };
	sp_json_object_begin(json);
	sp_json_member_string(json, "name", name);
	sp_json_member_string(json, "tooltipLabel", "{marker.name}");
	sp_json_member_string(json, "tableLabel", label);
	sp_json_member_string(json, "chartLabel", label);
	sp_json_key(json, "display");
	sp_json_array_begin(json);
	for (size_t i = 0; i < sizeof(display) / sizeof(*display); i++)
		sp_json_string(json, display[i]);
	sp_json_array_end(json);
	sp_json_key(json, "fields");
	sp_json_array_begin(json);
	for (size_t i = 0; i < count; i++) {
		sp_json_object_begin(json);
		sp_json_member_string(json, "key", fields[i].key);
		sp_json_member_string(json, "label", fields[i].label);
		sp_json_member_string(json, "format", fields[i].format);
		sp_json_object_end(json);
	}
	sp_json_array_end(json);
	sp_json_object_end(json);
}

void sp_write_marker_schemas(struct sp_json *json)
{
	static const struct field text[] = { { "text", "Details", "string" } };
	static const struct field loss[] = { { "count", "How many", "integer" }, { "cpu", "CPU", "integer" } };
	static const struct field truncated[] = { { "count", "Truncated stacks", "integer" },
		                                  { "share", "Of the thread's samples", "percentage" } };
	sp_json_key(json, "markerSchema");
	sp_json_array_begin(json);
	write_schema(json, "sp-text", "{marker.data.text}", text, 1);
	write_schema(json, "sp-loss", "{marker.data.count}", loss, 2);
	write_schema(json, "sp-truncated", "{marker.data.count} ({marker.data.share})", truncated, 2);
	sp_json_array_end(json);
}
