/* Writes recording files: records are encoded into one segment in memory, which is closed and handed to the file
 * (segment_file.h) when it is large or old enough.
 *
 * Each segment stands for itself: numbers of processes, threads, modules ... are given anew in it, and the definition
 * of a handle is put in front of its first use in each segment. For that the encoded definition of each handle that is
 * in use is kept; when a process or thread ends, its definition is dropped with the next segment, and a late use of the
 * handle only refers to it. */
#include "common/clock.h"
#include "sampler/profile/recording.h"
#include "sampler/profile/segment_file.h"
#include "sampler/profile/stack_node.h"

#include <stdlib.h>

/* Records between two looks at the clock. */
#define LOOK_PERIOD 64
/* More frames than any stack has; keeps a record below SP_SEGMENT_MAX. */
#define MAX_FRAMES ((uint32_t)1 << 17)

/* What is known of a handle. */
struct definition {
	uint8_t *bytes;   /* owned; the encoded record (type, size, body); NULL = not kept any more */
	uint32_t size;    /* of bytes */
	uint32_t segment; /* the segment in which it has `local`; 0 = none yet */
	uint32_t local;   /* its number there */
	uint32_t process; /* defined before it in each segment; SP_HANDLE_NONE = none */
	bool known, ended;
};

/* The latest stack of a thread, outermost frame first: the next one mostly shares its outer frames. */
struct latest_stack {
	uint32_t segment; /* in which it was written last; 0 = none */
	uint32_t depth, capacity;
	uint64_t *addresses; /* owned; followed by a byte of flags each */
	uint8_t *flags;
};

struct space {
	SP_VECTOR(struct definition) items; /* by handle */
	SP_VECTOR(uint32_t) ended;          /* handles to forget when the segment is closed */
	uint32_t next_local;
};

struct sp_recording_writer {
	struct sp_segment_file *file; /* owned */
	struct sp_error *error;       /* sticky; owned */

	/* The open segment. */
	struct sp_bytes payload, body;
	uint32_t segment; /* its number, from 1 */
	uint64_t opened;  /* when its first record came; sp_clock_now() */
	uint64_t time;    /* of the latest record, for deltas */
	uint64_t first_time, last_time;
	bool has_time;
	unsigned since_look;                   /* records since the clock was looked at */
	SP_VECTOR(struct latest_stack) latest; /* by thread */
	struct space spaces[SP_SPACE_COUNT];
};

struct sp_error *sp_recording_writer_create(const char *path, struct sp_recording_writer **ret)
{
	struct sp_recording_writer *w = calloc(1, sizeof(*w));
	if (!w)
		return sp_error_no_memory();
	w->segment = 1;
	struct sp_error *error = sp_segment_file_create(path, &w->file);
	if (error) {
		free(w);
		return error;
	}
	*ret = w;
	return NULL;
}

/* ---- Segments ---- */

static void forget_definition(struct definition *definition)
{
	free(definition->bytes);
	definition->bytes = NULL;
	definition->size = 0;
}

static void forget_stack(struct sp_recording_writer *w, uint32_t thread)
{
	if (thread >= w->latest.count)
		return;
	free(w->latest.items[thread].addresses);
	w->latest.items[thread] = (struct latest_stack){ 0 };
}

static void open_segment(struct sp_recording_writer *w)
{
	w->segment++;
	w->payload.count = 0;
	w->time = 0;
	w->has_time = false;
	w->first_time = w->last_time = 0;
	for (int i = 0; i < SP_SPACE_COUNT; i++) {
		struct space *space = &w->spaces[i];
		space->next_local = 0;
		for (size_t k = 0; k < space->ended.count; k++) {
			forget_definition(&space->items.items[space->ended.items[k]]);
			if (i == SP_SPACE_THREAD)
				forget_stack(w, space->ended.items[k]);
		}
		space->ended.count = 0;
	}
}

/* Keeps the first error for good. */
static struct sp_error *fail(struct sp_recording_writer *w, struct sp_error *error)
{
	w->error = error;
	return sp_error_copy(error);
}

/* Hands the open segment to the file, which writes it soon. */
static struct sp_error *close_segment(struct sp_recording_writer *w)
{
	if (w->error)
		return sp_error_copy(w->error);
	if (!w->payload.count)
		return NULL;
	struct sp_segment_header header = {
		.type = SP_SEGMENT_RECORDS,
		.sequence = w->segment,
		.first_time = w->first_time,
		.last_time = w->last_time,
	};
	struct sp_error *error = sp_segment_file_put(w->file, &header, &w->payload);
	if (error)
		return fail(w, error);
	open_segment(w);
	return NULL;
}

struct sp_error *sp_recording_flush(struct sp_recording_writer *w)
{
	struct sp_error *error = close_segment(w);
	if (error)
		return error;
	error = sp_segment_file_wait(w->file);
	return error ? fail(w, error) : NULL;
}

struct sp_error *sp_recording_flush_old(struct sp_recording_writer *w)
{
	if (!w->error && w->payload.count && sp_clock_now() - w->opened < SP_SEGMENT_AGE_NS)
		return NULL;
	return close_segment(w);
}

struct sp_error *sp_recording_writer_finish(struct sp_recording_writer *w)
{
	struct sp_error *error = sp_recording_flush(w);
	struct sp_segment_header header = { .type = SP_SEGMENT_END, .sequence = w->segment };
	struct sp_bytes nothing = { 0 };
	if (!error)
		error = sp_segment_file_put(w->file, &header, &nothing);
	free(nothing.items);
	struct sp_error *file_error = sp_segment_file_destroy(w->file);
	if (error)
		sp_error_destroy(file_error);
	else
		error = file_error;
	for (int i = 0; i < SP_SPACE_COUNT; i++) {
		struct space *space = &w->spaces[i];
		for (size_t k = 0; k < space->items.count; k++)
			free(space->items.items[k].bytes);
		sp_vector_deinit(&space->items);
		sp_vector_deinit(&space->ended);
	}
	for (size_t i = 0; i < w->latest.count; i++)
		free(w->latest.items[i].addresses);
	sp_vector_deinit(&w->latest);
	free(w->payload.items);
	free(w->body.items);
	sp_error_destroy(w->error);
	free(w);
	return error;
}

/* ---- Definitions ---- */

static void note_time(struct sp_recording_writer *w, uint64_t time)
{
	if (!w->has_time || time < w->first_time)
		w->first_time = time;
	if (!w->has_time || time > w->last_time)
		w->last_time = time;
	w->has_time = true;
}

/* The time of a fact: as the difference from the one before. */
static void put_time(struct sp_recording_writer *w, uint64_t time)
{
	sp_bytes_delta(&w->body, time, w->time);
	w->time = time;
	note_time(w, time);
}

/* Appends the record whose body has been put together: type, size, body. */
static void append_record(struct sp_recording_writer *w, struct sp_bytes *to, unsigned type)
{
	sp_bytes_uleb(to, type);
	sp_bytes_uleb(to, w->body.count);
	sp_bytes_put(to, w->body.items, w->body.count);
}

/* Stores w->body as the definition of a handle and puts it into the segment. */
static struct sp_error *define(struct sp_recording_writer *w, enum sp_space in, uint32_t handle, unsigned type,
                               uint32_t process)
{
	struct space *space = &w->spaces[in];
	/* Handles are dense, so a gap can only be small; a wild one must not take the memory away. */
	if (handle > space->items.count + 65536)
		return sp_error_create(SP_ERROR_USAGE, "recording: handle %u is not dense", handle);
	while (space->items.count <= handle) {
		if (!sp_vector_push(&space->items, (struct definition){ 0 }))
			return sp_error_no_memory();
	}
	struct definition *definition = &space->items.items[handle];
	if (definition->known)
		return sp_error_create(SP_ERROR_USAGE, "recording: handle %u is defined twice", handle);
	struct sp_bytes kept = { 0 };
	append_record(w, &kept, type);
	if (kept.failed) {
		free(kept.items);
		return sp_error_no_memory();
	}
	definition->bytes = kept.items;
	definition->size = (uint32_t)kept.count;
	definition->segment = w->segment;
	definition->local = space->next_local++;
	definition->process = process;
	definition->known = true;
	sp_bytes_put(&w->payload, definition->bytes, definition->size);
	return NULL;
}

/* Sees to it that the handle has a number in this segment. */
static struct sp_error *use(struct sp_recording_writer *w, enum sp_space in, uint32_t handle, uint32_t *ret_local)
{
	struct space *space = &w->spaces[in];
	if (handle >= space->items.count || !space->items.items[handle].known)
		return sp_error_create(SP_ERROR_USAGE, "recording: handle %u is used before it is defined", handle);
	struct definition *definition = &space->items.items[handle];
	if (definition->segment != w->segment) {
		if (definition->process != SP_HANDLE_NONE) {
			uint32_t unused;
			struct sp_error *error = use(w, SP_SPACE_PROCESS, definition->process, &unused);
			if (error)
				return error;
		}
		definition->segment = w->segment;
		definition->local = space->next_local++;
		if (definition->bytes) {
			sp_bytes_put(&w->payload, definition->bytes, definition->size);
		} else {
			w->body.count = 0;
			sp_bytes_u8(&w->body, (uint8_t)in);
			sp_bytes_uleb(&w->body, handle);
			append_record(w, &w->payload, SP_RECORD_REFERENCE);
			w->body.count = 0;
		}
	}
	*ret_local = definition->local;
	return NULL;
}

/* As use() for a handle that may be SP_HANDLE_NONE; gives local + 1, or 0. */
static struct sp_error *use_optional(struct sp_recording_writer *w, enum sp_space in, uint32_t handle,
                                     uint32_t *ret_local)
{
	*ret_local = 0;
	if (handle == SP_HANDLE_NONE)
		return NULL;
	struct sp_error *error = use(w, in, handle, ret_local);
	if (!error)
		++*ret_local;
	return error;
}

static void end_handle(struct sp_recording_writer *w, enum sp_space in, uint32_t handle)
{
	struct space *space = &w->spaces[in];
	struct definition *definition = &space->items.items[handle];
	if (definition->ended || !sp_vector_push(&space->ended, handle))
		return;
	definition->ended = true;
}

/* A handle + 1, so that SP_HANDLE_NONE is 0. */
static void put_handle(struct sp_bytes *body, uint32_t handle)
{
	sp_bytes_uleb(body, (uint32_t)(handle + 1));
}

static void put_double(struct sp_bytes *body, double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof(bits));
	for (unsigned i = 0; i < 8; i++)
		sp_bytes_u8(body, (uint8_t)(bits >> 8 * i));
}

static struct sp_error *write_source(struct sp_recording_writer *w, const struct sp_record_source *r)
{
	struct sp_bytes *b = &w->body;
	sp_bytes_uleb(b, r->source);
	sp_bytes_u8(b, r->off_cpu);
	put_double(b, r->rate);
	sp_bytes_string(b, r->name);
	sp_bytes_string(b, r->unit);
	return define(w, SP_SPACE_SOURCE, r->source, SP_RECORD_SOURCE, SP_HANDLE_NONE);
}

static struct sp_error *write_process(struct sp_recording_writer *w, const struct sp_record_process *r)
{
	struct sp_bytes *b = &w->body;
	sp_bytes_uleb(b, r->process);
	put_handle(b, r->previous);
	put_handle(b, r->parent);
	sp_bytes_uleb(b, r->pid);
	sp_bytes_uleb(b, r->generation);
	sp_bytes_uleb(b, r->time);
	sp_bytes_u8(b, r->found);
	sp_bytes_string(b, r->name);
	sp_bytes_string(b, r->command_line);
	note_time(w, r->time);
	return define(w, SP_SPACE_PROCESS, r->process, SP_RECORD_PROCESS, SP_HANDLE_NONE);
}

static struct sp_error *write_thread(struct sp_recording_writer *w, const struct sp_record_thread *r)
{
	uint32_t process;
	struct sp_error *error = use(w, SP_SPACE_PROCESS, r->process, &process);
	if (error)
		return error;
	struct sp_bytes *b = &w->body;
	sp_bytes_uleb(b, r->thread);
	put_handle(b, r->process);
	sp_bytes_uleb(b, r->tid);
	sp_bytes_uleb(b, r->time);
	sp_bytes_u8(b, r->main);
	sp_bytes_string(b, r->name);
	note_time(w, r->time);
	return define(w, SP_SPACE_THREAD, r->thread, SP_RECORD_THREAD, r->process);
}

static struct sp_error *write_module(struct sp_recording_writer *w, const struct sp_record_module *r)
{
	struct sp_bytes *b = &w->body;
	sp_bytes_uleb(b, r->module);
	sp_bytes_u8(b, r->kind);
	sp_bytes_string(b, r->name);
	sp_bytes_string(b, r->path);
	sp_bytes_string(b, r->debug_name);
	sp_bytes_string(b, r->debug_path);
	sp_bytes_string(b, r->debug_id);
	sp_bytes_string(b, r->code_id);
	sp_bytes_string(b, r->arch);
	sp_bytes_string(b, r->kept_path);
	sp_bytes_string(b, r->note);
	return define(w, SP_SPACE_MODULE, r->module, SP_RECORD_MODULE, SP_HANDLE_NONE);
}

static struct sp_error *write_counter(struct sp_recording_writer *w, const struct sp_record_counter *r)
{
	uint32_t process;
	struct sp_error *error = use(w, SP_SPACE_PROCESS, r->process, &process);
	if (error)
		return error;
	struct sp_bytes *b = &w->body;
	sp_bytes_uleb(b, r->counter);
	put_handle(b, r->process);
	sp_bytes_string(b, r->name);
	sp_bytes_string(b, r->category);
	sp_bytes_string(b, r->description);
	sp_bytes_string(b, r->unit);
	return define(w, SP_SPACE_COUNTER, r->counter, SP_RECORD_COUNTER, r->process);
}

/* ---- Facts ---- */

static struct sp_error *write_meta(struct sp_recording_writer *w, const struct sp_record_meta *r)
{
	sp_bytes_string(&w->body, r->key);
	sp_bytes_string(&w->body, r->value);
	append_record(w, &w->payload, SP_RECORD_META);
	return NULL;
}

static struct sp_error *write_clock(struct sp_recording_writer *w, const struct sp_record_clock *r)
{
	put_time(w, r->time);
	sp_bytes_uleb(&w->body, r->wall_ns);
	sp_bytes_string(&w->body, r->name);
	append_record(w, &w->payload, SP_RECORD_CLOCK);
	return NULL;
}

static struct sp_error *write_process_end(struct sp_recording_writer *w, const struct sp_record_process_end *r)
{
	uint32_t process;
	struct sp_error *error = use(w, SP_SPACE_PROCESS, r->process, &process);
	if (error)
		return error;
	put_time(w, r->time);
	sp_bytes_uleb(&w->body, process);
	append_record(w, &w->payload, SP_RECORD_PROCESS_END);
	end_handle(w, SP_SPACE_PROCESS, r->process);
	return NULL;
}

static struct sp_error *write_thread_name(struct sp_recording_writer *w, const struct sp_record_thread_name *r)
{
	uint32_t thread;
	struct sp_error *error = use(w, SP_SPACE_THREAD, r->thread, &thread);
	if (error)
		return error;
	put_time(w, r->time);
	sp_bytes_uleb(&w->body, thread);
	sp_bytes_string(&w->body, r->name);
	append_record(w, &w->payload, SP_RECORD_THREAD_NAME);
	return NULL;
}

static struct sp_error *write_thread_end(struct sp_recording_writer *w, const struct sp_record_thread_end *r)
{
	uint32_t thread;
	struct sp_error *error = use(w, SP_SPACE_THREAD, r->thread, &thread);
	if (error)
		return error;
	put_time(w, r->time);
	sp_bytes_uleb(&w->body, thread);
	append_record(w, &w->payload, SP_RECORD_THREAD_END);
	end_handle(w, SP_SPACE_THREAD, r->thread);
	return NULL;
}

static struct sp_error *write_mapping(struct sp_recording_writer *w, const struct sp_record_mapping *r)
{
	uint32_t process, module;
	struct sp_error *error = use_optional(w, SP_SPACE_PROCESS, r->process, &process);
	if (!error)
		error = use(w, SP_SPACE_MODULE, r->module, &module);
	if (error)
		return error;
	put_time(w, r->time);
	sp_bytes_uleb(&w->body, process);
	sp_bytes_uleb(&w->body, module);
	sp_bytes_uleb(&w->body, r->start);
	sp_bytes_uleb(&w->body, r->size);
	sp_bytes_delta(&w->body, r->base, r->start);
	append_record(w, &w->payload, SP_RECORD_MAPPING);
	return NULL;
}

static struct sp_error *write_unmapping(struct sp_recording_writer *w, const struct sp_record_unmapping *r)
{
	uint32_t process;
	struct sp_error *error = use_optional(w, SP_SPACE_PROCESS, r->process, &process);
	if (error)
		return error;
	put_time(w, r->time);
	sp_bytes_uleb(&w->body, process);
	sp_bytes_uleb(&w->body, r->start);
	sp_bytes_uleb(&w->body, r->size);
	append_record(w, &w->payload, SP_RECORD_UNMAPPING);
	return NULL;
}

static struct sp_error *write_jit_function(struct sp_recording_writer *w, const struct sp_record_jit_function *r)
{
	uint32_t process;
	struct sp_error *error = use_optional(w, SP_SPACE_PROCESS, r->process, &process);
	if (error)
		return error;
	put_time(w, r->time);
	sp_bytes_uleb(&w->body, process);
	sp_bytes_uleb(&w->body, r->start);
	sp_bytes_uleb(&w->body, r->size);
	sp_bytes_u8(&w->body, r->late);
	sp_bytes_string(&w->body, r->name);
	append_record(w, &w->payload, SP_RECORD_JIT_FUNCTION);
	return NULL;
}

static struct sp_error *write_marker(struct sp_recording_writer *w, const struct sp_record_marker *r)
{
	uint32_t thread;
	struct sp_error *error = use_optional(w, SP_SPACE_THREAD, r->thread, &thread);
	if (error)
		return error;
	put_time(w, r->time);
	sp_bytes_uleb(&w->body, thread);
	sp_bytes_delta(&w->body, r->end_time, r->time);
	sp_bytes_string(&w->body, r->name);
	sp_bytes_string(&w->body, r->text);
	append_record(w, &w->payload, SP_RECORD_MARKER);
	return NULL;
}

static struct sp_error *write_counter_value(struct sp_recording_writer *w, const struct sp_record_counter_value *r)
{
	uint32_t counter;
	struct sp_error *error = use(w, SP_SPACE_COUNTER, r->counter, &counter);
	if (error)
		return error;
	put_time(w, r->time);
	sp_bytes_uleb(&w->body, counter);
	put_double(&w->body, r->delta);
	append_record(w, &w->payload, SP_RECORD_COUNTER_VALUE);
	return NULL;
}

static struct sp_error *write_loss(struct sp_recording_writer *w, const struct sp_record_loss *r)
{
	uint32_t thread;
	struct sp_error *error = use_optional(w, SP_SPACE_THREAD, r->thread, &thread);
	if (error)
		return error;
	put_time(w, r->time);
	sp_bytes_u8(&w->body, r->kind);
	sp_bytes_uleb(&w->body, thread);
	put_handle(&w->body, r->cpu);
	sp_bytes_delta(&w->body, r->end_time, r->time);
	sp_bytes_uleb(&w->body, r->count);
	append_record(w, &w->payload, SP_RECORD_LOSS);
	return NULL;
}

/* ---- Samples ---- */

static bool resize_latest(struct latest_stack *latest, uint32_t capacity)
{
	uint64_t *addresses = malloc((size_t)capacity * (sizeof(*addresses) + 1));
	if (!addresses)
		return false;
	uint8_t *flags = (uint8_t *)(addresses + capacity);
	if (latest->depth) {
		memcpy(addresses, latest->addresses, latest->depth * sizeof(*addresses));
		memcpy(flags, latest->flags, latest->depth);
	}
	free(latest->addresses);
	latest->addresses = addresses;
	latest->flags = flags;
	latest->capacity = capacity;
	return true;
}

/* The thread's latest stack, with room for `count` frames. NULL without memory. */
static struct latest_stack *latest_of(struct sp_recording_writer *w, uint32_t thread, uint32_t count)
{
	while (w->latest.count <= thread) {
		if (!sp_vector_push(&w->latest, (struct latest_stack){ 0 }))
			return NULL;
	}
	struct latest_stack *latest = &w->latest.items[thread];
	if (count > latest->capacity && !resize_latest(latest, count + count / 2))
		return NULL;
	return latest;
}

/* How many outermost frames of the stack are those of the latest one; `known` are, and are not in `frames`. */
static uint32_t count_kept(const struct latest_stack *latest, const struct sp_frame *frames, uint32_t count,
                           uint32_t known)
{
	uint32_t kept = known, both = known + count < latest->depth ? known + count : latest->depth;
	const struct sp_frame *frame = frames + count;
	while (kept < both && frame[-1].address == latest->addresses[kept] &&
	       sp_stack_flags(&frame[-1]) == latest->flags[kept]) {
		kept++;
		frame--;
	}
	return kept;
}

/* How many outermost frames of the thread's latest stack in the segment the stack keeps, how many follow, and those. */
static struct sp_error *put_stack(struct sp_recording_writer *w, const struct sp_record_sample *r)
{
	struct sp_bytes *b = &w->body;
	uint32_t depth = r->kept + r->frame_count;
	if (!depth) {
		sp_bytes_uleb(b, 0);
		sp_bytes_uleb(b, 0);
		return NULL;
	}
	struct latest_stack *latest = latest_of(w, r->thread, depth);
	if (!latest)
		return sp_error_no_memory();
	if (r->kept > latest->depth)
		return sp_error_create(SP_ERROR_USAGE, "recording: a stack keeps %u frames of %u", r->kept,
		                       latest->depth);
	uint32_t kept = count_kept(latest, r->frames, r->frame_count, r->kept);
	for (uint32_t i = kept; i < depth; i++) {
		latest->addresses[i] = r->frames[depth - 1 - i].address;
		latest->flags[i] = sp_stack_flags(&r->frames[depth - 1 - i]);
	}
	latest->depth = depth;
	if (latest->segment != w->segment)
		kept = 0; /* the first one of the segment is whole */
	latest->segment = w->segment;
	sp_bytes_uleb(b, kept);
	sp_bytes_uleb(b, depth - kept);
	uint64_t address = kept ? latest->addresses[kept - 1] : 0;
	for (uint32_t i = kept; i < depth; i++) {
		sp_bytes_u8(b, latest->flags[i]);
		sp_bytes_delta(b, latest->addresses[i], address);
		address = latest->addresses[i];
	}
	return NULL;
}

static struct sp_error *write_sample(struct sp_recording_writer *w, const struct sp_record_sample *r)
{
	uint32_t thread, source;
	struct sp_error *error = use(w, SP_SPACE_THREAD, r->thread, &thread);
	if (!error)
		error = use(w, SP_SPACE_SOURCE, r->source, &source);
	if (!error && (r->frame_count > MAX_FRAMES || r->kept > MAX_FRAMES))
		error = sp_error_create(SP_ERROR_LIMIT, "recording: a stack of too many frames");
	if (error)
		return error;
	struct sp_bytes *b = &w->body;
	sp_bytes_u8(b,
	            (uint8_t)((r->cpu_delta_known ? SP_SAMPLE_CPU_DELTA : 0) | (r->weight != 1 ? SP_SAMPLE_WEIGHT : 0) |
	                      (r->label ? SP_SAMPLE_LABEL : 0) | (r->cpu != SP_CPU_NONE ? SP_SAMPLE_CPU : 0) |
	                      (r->end != SP_UNWIND_ROOT ? SP_SAMPLE_END : 0)));
	put_time(w, r->time);
	sp_bytes_uleb(b, thread);
	sp_bytes_uleb(b, source);
	if (r->cpu_delta_known)
		sp_bytes_uleb(b, r->cpu_delta);
	if (r->weight != 1)
		sp_bytes_uleb(b, sp_zigzag(r->weight));
	if (r->label)
		sp_bytes_string(b, r->label);
	if (r->cpu != SP_CPU_NONE)
		sp_bytes_uleb(b, r->cpu);
	if (r->end != SP_UNWIND_ROOT)
		sp_bytes_u8(b, r->end);
	error = put_stack(w, r);
	if (!error)
		append_record(w, &w->payload, SP_RECORD_SAMPLE);
	return error;
}

/* ---- Any record ---- */

static struct sp_error *write_any(struct sp_recording_writer *w, const struct sp_record *record)
{
	switch (record->type) {
	case SP_RECORD_META:
		return write_meta(w, &record->meta);
	case SP_RECORD_CLOCK:
		return write_clock(w, &record->clock);
	case SP_RECORD_SOURCE:
		return write_source(w, &record->source);
	case SP_RECORD_PROCESS:
		return write_process(w, &record->process);
	case SP_RECORD_PROCESS_END:
		return write_process_end(w, &record->process_end);
	case SP_RECORD_THREAD:
		return write_thread(w, &record->thread);
	case SP_RECORD_THREAD_NAME:
		return write_thread_name(w, &record->thread_name);
	case SP_RECORD_THREAD_END:
		return write_thread_end(w, &record->thread_end);
	case SP_RECORD_MODULE:
		return write_module(w, &record->module);
	case SP_RECORD_MAPPING:
		return write_mapping(w, &record->mapping);
	case SP_RECORD_UNMAPPING:
		return write_unmapping(w, &record->unmapping);
	case SP_RECORD_JIT_FUNCTION:
		return write_jit_function(w, &record->jit_function);
	case SP_RECORD_SAMPLE:
		return write_sample(w, &record->sample);
	case SP_RECORD_MARKER:
		return write_marker(w, &record->marker);
	case SP_RECORD_COUNTER:
		return write_counter(w, &record->counter);
	case SP_RECORD_COUNTER_VALUE:
		return write_counter_value(w, &record->counter_value);
	case SP_RECORD_LOSS:
		return write_loss(w, &record->loss);
	}
	return sp_error_create(SP_ERROR_USAGE, "recording: record type %d", record->type);
}

static bool is_full(struct sp_recording_writer *w)
{
	if (w->payload.count >= SP_SEGMENT_FULL)
		return true;
	/* Reading the clock takes longer than writing a record. */
	if (!w->payload.count || ++w->since_look < LOOK_PERIOD)
		return false;
	w->since_look = 0;
	return sp_clock_now() - w->opened >= SP_SEGMENT_AGE_NS;
}

struct sp_error *sp_recording_write(struct sp_recording_writer *w, const struct sp_record *record)
{
	if (w->error)
		return sp_error_copy(w->error);
	if (is_full(w)) {
		struct sp_error *error = close_segment(w);
		if (error)
			return error;
	}
	if (!w->payload.count) {
		w->opened = sp_clock_now();
		w->since_look = 0;
	}
	w->body.count = 0;
	struct sp_error *error = write_any(w, record);
	/* A wrong record is the caller's mistake and leaves the file as it was; without memory nothing more is true. */
	if (error && error->code != SP_ERROR_NO_MEMORY)
		return error;
	if (!error && (w->payload.failed || w->body.failed))
		error = sp_error_no_memory();
	return error ? fail(w, error) : NULL;
}
