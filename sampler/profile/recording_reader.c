/* Reads recording files: one segment at a time is loaded, checked and unpacked, its records are decoded one by one.
 *
 * Nothing in the file is trusted. A segment whose header or CRC is wrong is passed over (the next one is found by its
 * magic), as is the rest of a segment with a record that makes no sense; the bytes are counted. An incomplete segment
 * at the end of the file is left for the next call: the writer may still be at it.
 *
 * Numbers in the file are turned into handles by order of first appearance, so that they are dense whatever the file
 * says, and equal to the writer's handles when nothing is missing. */
#include "common/cursor.h"
#include "common/map.h"
#include "sampler/profile/recording.h"
#include "sampler/profile/stack_node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <zstd.h>

#define SCAN_SIZE 65536
/* Nodes that are found again: enough for most, and in the CPU's cache. A power of two. */
#define RECENT 4096
#define MAX_HANDLES ((uint32_t)1 << 24) /* of a space */

struct reader_space {
	struct sp_map by_number; /* number in the file -> handle */
	uint32_t next_handle;
	SP_VECTOR(uint32_t) local; /* number in the segment -> handle */
};

/* The latest stack of a thread in this segment. */
struct latest_stack {
	uint32_t node;  /* of its leaf; SP_HANDLE_NONE = none yet */
	uint32_t depth; /* frames */
};

struct sp_recording_reader {
	FILE *file;
	char *path;        /* owned, for messages */
	uint64_t position; /* of the next segment */
	uint64_t dropped;  /* bytes passed over as corrupt */
	bool finished;
	ZSTD_DCtx *zstd;
	SP_VECTOR(uint8_t) stored;             /* the segment as in the file */
	SP_VECTOR(uint8_t) payload;            /* unpacked */
	struct sp_cursor records;              /* over the unpacked bytes, at the next record */
	uint64_t time;                         /* of the record before */
	uint64_t segment;                      /* how many were opened */
	SP_VECTOR(struct sp_stack_node) nodes; /* of the segment */
	uint32_t recent[RECENT];               /* nodes by hash; what is no node (any more) matches none */
	SP_VECTOR(struct latest_stack) latest; /* by the thread's number in the segment */
	struct reader_space spaces[SP_SPACE_COUNT];
};

/* What became of a record. */
enum outcome {
	GIVEN,   /* it goes to the caller */
	PASSED,  /* a repeated definition, or of a kind from the future */
	CORRUPT, /* nothing after it in the segment can be trusted */
};

struct sp_error *sp_recording_reader_create(const char *path, struct sp_recording_reader **ret)
{
	struct sp_recording_reader *r = calloc(1, sizeof(*r));
	if (!r)
		return sp_error_no_memory();
	r->path = strdup(path);
	r->zstd = ZSTD_createDCtx();
	r->file = fopen(path, "rb");
	int errnum = errno;
	struct sp_error *error = NULL;
	if (!r->path || !r->zstd)
		error = sp_error_no_memory();
	else if (!r->file)
		error = sp_error_from_errno(errnum, "cannot open the recording %s", path);
	if (error) {
		sp_recording_reader_destroy(r);
		return error;
	}
	/* Segments are read whole; a buffer in between would only serve stale bytes of a growing file. */
	setvbuf(r->file, NULL, _IONBF, 0);
	*ret = r;
	return NULL;
}

void sp_recording_reader_destroy(struct sp_recording_reader *r)
{
	if (!r)
		return;
	if (r->file)
		fclose(r->file);
	for (int i = 0; i < SP_SPACE_COUNT; i++) {
		sp_map_deinit(&r->spaces[i].by_number);
		sp_vector_deinit(&r->spaces[i].local);
	}
	sp_vector_deinit(&r->nodes);
	sp_vector_deinit(&r->latest);
	sp_vector_deinit(&r->stored);
	sp_vector_deinit(&r->payload);
	ZSTD_freeDCtx(r->zstd);
	free(r->path);
	free(r);
}

/* ---- Segments ---- */

/* Reads up to `size` bytes at an offset. */
static struct sp_error *read_at(struct sp_recording_reader *r, uint64_t offset, void *bytes, size_t size,
                                size_t *ret_size)
{
	clearerr(r->file);
	if (fseeko(r->file, (off_t)offset, SEEK_SET))
		return sp_error_from_errno(errno, "cannot read the recording %s", r->path);
	*ret_size = fread(bytes, 1, size, r->file);
	if (*ret_size < size && ferror(r->file))
		return sp_error_from_errno(errno, "cannot read the recording %s", r->path);
	return NULL;
}

static void drop_to(struct sp_recording_reader *r, uint64_t position)
{
	r->dropped += position - r->position;
	r->position = position;
}

/* Moves on to the next place where a segment may begin. *ret_found is false when the file ends before. */
static struct sp_error *find_magic(struct sp_recording_reader *r, bool *ret_found)
{
	uint8_t bytes[SCAN_SIZE];
	uint64_t at = r->position + 1;
	*ret_found = false;
	for (;;) {
		size_t size;
		struct sp_error *error = read_at(r, at, bytes, sizeof(bytes), &size);
		if (error)
			return error;
		if (size < SP_SEGMENT_MAGIC_SIZE) {
			drop_to(r, at);
			return NULL;
		}
		const uint8_t *found = NULL;
		for (size_t i = 0; i + SP_SEGMENT_MAGIC_SIZE <= size && !found; i++) {
			const uint8_t *first = memchr(bytes + i, SP_SEGMENT_MAGIC[0], size - i);
			if (!first)
				break;
			i = (size_t)(first - bytes);
			if (i + SP_SEGMENT_MAGIC_SIZE <= size &&
			    !memcmp(first, SP_SEGMENT_MAGIC, SP_SEGMENT_MAGIC_SIZE))
				found = first;
		}
		if (found) {
			drop_to(r, at + (uint64_t)(found - bytes));
			*ret_found = true;
			return NULL;
		}
		at += size - (SP_SEGMENT_MAGIC_SIZE - 1);
	}
}

static bool header_plausible(const struct sp_segment_header *header)
{
	return header->size <= SP_SEGMENT_MAX && header->stored_size <= SP_SEGMENT_MAX &&
	       (header->packing != SP_SEGMENT_PLAIN || header->size == header->stored_size);
}

static bool make_room(uint8_t **items, size_t *capacity, size_t size)
{
	return sp_vector_grow((void **)items, capacity, 0, size, 1);
}

/* Unpacks the stored bytes and makes ready to decode them. False when they are not what the header says. */
static bool open_payload(struct sp_recording_reader *r, const struct sp_segment_header *header)
{
	const uint8_t *bytes = r->stored.items;
	if (sp_segment_crc(bytes, header->stored_size) != header->payload_crc)
		return false;
	if (header->packing == SP_SEGMENT_ZSTD) {
		size_t size = ZSTD_decompressDCtx(r->zstd, r->payload.items, header->size, bytes, header->stored_size);
		if (ZSTD_isError(size) || size != header->size)
			return false;
		bytes = r->payload.items;
	} else if (header->packing != SP_SEGMENT_PLAIN) {
		return false;
	}
	r->records = sp_cursor_init(bytes, header->size);
	r->time = 0;
	r->nodes.count = 0;
	r->latest.count = 0;
	r->segment++;
	for (int i = 0; i < SP_SPACE_COUNT; i++)
		r->spaces[i].local.count = 0;
	return true;
}

/* Takes the segment at r->position whose header was read. *ret_whole is false when its bytes are not all there yet. */
static struct sp_error *take_segment(struct sp_recording_reader *r, const struct sp_segment_header *header,
                                     bool *ret_whole)
{
	*ret_whole = false;
	/* One byte more, so that no buffer is NULL. */
	if (!make_room(&r->stored.items, &r->stored.capacity, header->stored_size + 1) ||
	    !make_room(&r->payload.items, &r->payload.capacity, header->size + 1))
		return sp_error_no_memory();
	size_t size;
	struct sp_error *error = read_at(r, r->position + SP_SEGMENT_HEADER_SIZE, r->stored.items, header->stored_size,
	                                 &size);
	if (error || size < header->stored_size)
		return error;
	*ret_whole = true;
	uint64_t end = r->position + SP_SEGMENT_HEADER_SIZE + header->stored_size;
	bool known = header->version == SP_SEGMENT_VERSION;
	if (known && header->type == SP_SEGMENT_END)
		r->finished = true;
	else if (!known || header->type != SP_SEGMENT_RECORDS || !open_payload(r, header))
		r->dropped += end - r->position;
	r->position = end;
	return NULL;
}

/* Loads segments until there are records to decode. *ret_more is false at the end of what is there. */
static struct sp_error *next_segment(struct sp_recording_reader *r, bool *ret_more)
{
	*ret_more = false;
	while (!sp_cursor_left(&r->records)) {
		uint8_t bytes[SP_SEGMENT_HEADER_SIZE];
		struct sp_segment_header header;
		size_t size;
		bool going = true;
		struct sp_error *error = read_at(r, r->position, bytes, sizeof(bytes), &size);
		if (error || size < sizeof(bytes))
			return error;
		if (!sp_segment_header_decode(bytes, &header) || !header_plausible(&header))
			error = find_magic(r, &going);
		else
			error = take_segment(r, &header, &going);
		if (error || !going)
			return error;
	}
	*ret_more = true;
	return NULL;
}

/* ---- Fields ---- */

static const char *get_string(struct sp_cursor *c)
{
	uint64_t size = sp_cursor_uleb(c);
	if (!size)
		return NULL;
	const uint8_t *bytes = sp_cursor_bytes(c, size);
	if (!bytes || bytes[size - 1]) {
		sp_cursor_fail(c);
		return "";
	}
	return (const char *)bytes;
}

/* As get_string() for strings that always are there. */
static const char *get_text(struct sp_cursor *c)
{
	const char *string = get_string(c);
	return string ? string : "";
}

static uint64_t get_delta(struct sp_cursor *c, uint64_t from)
{
	return from + (uint64_t)sp_unzigzag(sp_cursor_uleb(c));
}

static uint64_t get_time(struct sp_recording_reader *r, struct sp_cursor *c)
{
	r->time = get_delta(c, r->time);
	return r->time;
}

static uint32_t get_u32(struct sp_cursor *c)
{
	uint64_t value = sp_cursor_uleb(c);
	if (value > UINT32_MAX)
		sp_cursor_fail(c);
	return (uint32_t)value;
}

static double get_double(struct sp_cursor *c)
{
	uint64_t bits = sp_cursor_u64(c);
	double value;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* A number of this segment as a handle. SP_HANDLE_NONE (and bad) when the segment has not given it. */
static uint32_t handle_of_local(struct sp_recording_reader *r, struct sp_cursor *c, enum sp_space in, uint64_t local)
{
	const struct reader_space *space = &r->spaces[in];
	if (local >= space->local.count) {
		sp_cursor_fail(c);
		return SP_HANDLE_NONE;
	}
	return space->local.items[local];
}

static uint32_t get_local(struct sp_recording_reader *r, struct sp_cursor *c, enum sp_space in)
{
	return handle_of_local(r, c, in, sp_cursor_uleb(c));
}

/* As get_local() for a number + 1 that is 0 when there is none. False when there is one that nothing is known of: what
 * is said about it must not be taken for something about the whole recording. */
static bool get_optional_local(struct sp_recording_reader *r, struct sp_cursor *c, enum sp_space in, uint32_t *ret)
{
	const struct reader_space *space = &r->spaces[in];
	uint64_t local = sp_cursor_uleb(c);
	*ret = SP_HANDLE_NONE;
	if (!local)
		return true;
	if (local > space->local.count) {
		sp_cursor_fail(c);
		return false;
	}
	*ret = space->local.items[local - 1];
	return *ret != SP_HANDLE_NONE;
}

/* A number of the file + 1 as a handle; SP_HANDLE_NONE when it is not known (the segment with its definition is lost).
 */
static uint32_t get_number(struct sp_recording_reader *r, struct sp_cursor *c, enum sp_space in)
{
	uint32_t number = get_u32(c);
	const uint64_t *handle = number ? sp_map_get(&r->spaces[in].by_number, number - 1) : NULL;
	return handle ? (uint32_t)*handle : SP_HANDLE_NONE;
}

/* ---- Definitions ---- */

/* Gives `number` the next number of the segment, and a handle if it has none yet (then *ret_new is true). */
static struct sp_error *define(struct sp_recording_reader *r, enum sp_space in, uint32_t number, uint32_t *ret_handle,
                               bool *ret_new)
{
	struct reader_space *space = &r->spaces[in];
	const uint64_t *known = sp_map_get(&space->by_number, number);
	*ret_new = !known;
	*ret_handle = known ? (uint32_t)*known : space->next_handle;
	if (!known) {
		if (space->next_handle >= MAX_HANDLES)
			return sp_error_create(SP_ERROR_LIMIT, "recording %s: more than %u handles", r->path,
			                       MAX_HANDLES);
		if (!sp_map_put(&space->by_number, number, space->next_handle))
			return sp_error_no_memory();
		space->next_handle++;
	}
	return sp_vector_push(&space->local, *ret_handle) ? NULL : sp_error_no_memory();
}

/* Completes the decoding of a definition whose fields were all read. */
static enum outcome finish_definition(struct sp_recording_reader *r, struct sp_cursor *c, enum sp_space in,
                                      uint32_t number, uint32_t *ret_handle, struct sp_error **error)
{
	if (c->bad)
		return CORRUPT;
	bool is_new;
	*error = define(r, in, number, ret_handle, &is_new);
	return is_new ? GIVEN : PASSED;
}

/* A number without definition: known from before, or not at all. */
static enum outcome read_reference(struct sp_recording_reader *r, struct sp_cursor *c, struct sp_error **error)
{
	uint8_t in = sp_cursor_u8(c);
	uint32_t number = get_u32(c);
	if (c->bad || in >= SP_SPACE_COUNT)
		return CORRUPT;
	const uint64_t *handle = sp_map_get(&r->spaces[in].by_number, number);
	if (!sp_vector_push(&r->spaces[in].local, handle ? (uint32_t)*handle : SP_HANDLE_NONE))
		*error = sp_error_no_memory();
	return PASSED;
}

/* Gives the segment's next number to something that can't be used. */
static enum outcome pass_definition(struct sp_recording_reader *r, enum sp_space in, struct sp_error **error)
{
	if (!sp_vector_push(&r->spaces[in].local, SP_HANDLE_NONE))
		*error = sp_error_no_memory();
	return PASSED;
}

static enum outcome read_source(struct sp_recording_reader *r, struct sp_cursor *c, struct sp_record_source *ret,
                                struct sp_error **error)
{
	uint32_t number = get_u32(c);
	*ret = (struct sp_record_source){ .off_cpu = sp_cursor_u8(c) & 1 };
	ret->rate = get_double(c);
	ret->name = get_text(c);
	ret->unit = get_text(c);
	return finish_definition(r, c, SP_SPACE_SOURCE, number, &ret->source, error);
}

static enum outcome read_process(struct sp_recording_reader *r, struct sp_cursor *c, struct sp_record_process *ret,
                                 struct sp_error **error)
{
	uint32_t number = get_u32(c);
	*ret = (struct sp_record_process){ .previous = get_number(r, c, SP_SPACE_PROCESS) };
	ret->parent = get_number(r, c, SP_SPACE_PROCESS);
	ret->pid = get_u32(c);
	ret->generation = get_u32(c);
	ret->time = sp_cursor_uleb(c);
	ret->found = sp_cursor_u8(c) & 1;
	ret->name = get_text(c);
	ret->command_line = get_string(c);
	return finish_definition(r, c, SP_SPACE_PROCESS, number, &ret->process, error);
}

static enum outcome read_thread(struct sp_recording_reader *r, struct sp_cursor *c, struct sp_record_thread *ret,
                                struct sp_error **error)
{
	uint32_t number = get_u32(c);
	*ret = (struct sp_record_thread){ .process = get_number(r, c, SP_SPACE_PROCESS) };
	ret->tid = get_u32(c);
	ret->time = sp_cursor_uleb(c);
	ret->main = sp_cursor_u8(c) & 1;
	ret->name = get_text(c);
	if (!c->bad && ret->process == SP_HANDLE_NONE)
		return pass_definition(r, SP_SPACE_THREAD, error);
	return finish_definition(r, c, SP_SPACE_THREAD, number, &ret->thread, error);
}

static enum outcome read_module(struct sp_recording_reader *r, struct sp_cursor *c, struct sp_record_module *ret,
                                struct sp_error **error)
{
	uint32_t number = get_u32(c);
	*ret = (struct sp_record_module){ .kind = sp_cursor_u8(c) };
	ret->name = get_text(c);
	ret->path = get_text(c);
	ret->debug_name = get_text(c);
	ret->debug_path = get_text(c);
	ret->debug_id = get_text(c);
	ret->code_id = get_text(c);
	ret->arch = get_text(c);
	ret->kept_path = get_string(c);
	ret->note = get_string(c);
	if (ret->kind > SP_MODULE_ANONYMOUS)
		sp_cursor_fail(c);
	return finish_definition(r, c, SP_SPACE_MODULE, number, &ret->module, error);
}

static enum outcome read_counter(struct sp_recording_reader *r, struct sp_cursor *c, struct sp_record_counter *ret,
                                 struct sp_error **error)
{
	uint32_t number = get_u32(c);
	*ret = (struct sp_record_counter){ .process = get_number(r, c, SP_SPACE_PROCESS) };
	ret->name = get_text(c);
	ret->category = get_text(c);
	ret->description = get_text(c);
	ret->unit = get_text(c);
	if (!c->bad && ret->process == SP_HANDLE_NONE)
		return pass_definition(r, SP_SPACE_COUNTER, error);
	return finish_definition(r, c, SP_SPACE_COUNTER, number, &ret->counter, error);
}

/* ---- Samples ---- */

static bool flags_plausible(uint8_t flags)
{
	struct sp_frame frame = sp_stack_frame(0, flags);
	return !(flags & 0x80) && frame.kind <= SP_FRAME_ADJUSTED && frame.mode <= SP_MODE_GUEST &&
	       frame.origin <= SP_FOUND_SPLICED_STACK;
}

/* The latest stack of a thread by its number in the segment; NULL without memory. */
static struct latest_stack *latest_of(struct sp_recording_reader *r, uint64_t local)
{
	while (r->latest.count <= local) {
		if (!sp_vector_push(&r->latest, (struct latest_stack){ .node = SP_HANDLE_NONE }))
			return NULL;
	}
	return &r->latest.items[local];
}

static bool is_node(const struct sp_recording_reader *r, uint32_t number, uint32_t parent, uint64_t address,
                    uint8_t flags)
{
	if (number >= r->nodes.count)
		return false;
	const struct sp_stack_node *node = &r->nodes.items[number];
	return node->address == address && node->parent == parent && node->flags == flags;
}

/* The node of a frame below `parent`: the one right after it, a recent one, or made. There must be room for it. */
static uint32_t node_below(struct sp_recording_reader *r, uint32_t parent, uint64_t address, uint8_t flags)
{
	uint32_t count = (uint32_t)r->nodes.count, next = parent + 1; /* 0 after SP_HANDLE_NONE */
	if (is_node(r, next, parent, address, flags))
		return next;
	if (next < count) {
		uint32_t *recent = &r->recent[sp_hash_u64(address ^ (uint64_t)parent << 32 ^ flags) & (RECENT - 1)];
		if (is_node(r, *recent, parent, address, flags))
			return *recent;
		*recent = count;
	}
	r->nodes.items[r->nodes.count++] = (struct sp_stack_node){ .address = address,
		                                                   .parent = parent,
		                                                   .flags = flags };
	return count;
}

/* Puts `count` more frames below *node. */
static struct sp_error *read_frames(struct sp_recording_reader *r, struct sp_cursor *c, uint64_t count, uint32_t *node)
{
	uint64_t address = *node == SP_HANDLE_NONE ? 0 : r->nodes.items[*node].address;
	if (!sp_vector_reserve(&r->nodes, count))
		return sp_error_no_memory();
	for (uint64_t i = 0; i < count; i++) {
		uint8_t flags = sp_cursor_u8(c);
		address = get_delta(c, address);
		if (!flags_plausible(flags))
			sp_cursor_fail(c);
		if (c->bad)
			return NULL;
		*node = node_below(r, *node, address, flags);
	}
	return NULL;
}

/* Finds or makes the node of the stack's leaf. `local`: the thread's number in the segment. */
static struct sp_error *read_stack(struct sp_recording_reader *r, struct sp_cursor *c, uint64_t local,
                                   uint32_t *ret_node)
{
	uint64_t kept = sp_cursor_uleb(c);
	uint64_t count = sp_cursor_uleb(c);
	*ret_node = SP_HANDLE_NONE;
	/* Each frame takes two bytes at least. */
	if (c->bad || count > sp_cursor_left(c) / 2) {
		sp_cursor_fail(c);
		return NULL;
	}
	if (!kept && !count)
		return NULL;
	struct latest_stack *latest = latest_of(r, local);
	if (!latest)
		return sp_error_no_memory();
	if (kept > latest->depth) {
		sp_cursor_fail(c);
		return NULL;
	}
	for (; latest->depth > kept; latest->depth--)
		latest->node = r->nodes.items[latest->node].parent;
	struct sp_error *error = read_frames(r, c, count, &latest->node);
	latest->depth += (uint32_t)count;
	*ret_node = latest->node;
	return error;
}

static enum outcome read_sample(struct sp_recording_reader *r, struct sp_cursor *c, struct sp_record_sample *ret,
                                struct sp_error **error)
{
	uint8_t flags = sp_cursor_u8(c);
	*ret = (struct sp_record_sample){ .time = get_time(r, c), .weight = 1, .cpu = SP_CPU_NONE };
	uint64_t local = sp_cursor_uleb(c);
	ret->thread = handle_of_local(r, c, SP_SPACE_THREAD, local);
	ret->source = get_local(r, c, SP_SPACE_SOURCE);
	ret->cpu_delta_known = flags & SP_SAMPLE_CPU_DELTA;
	if (ret->cpu_delta_known)
		ret->cpu_delta = sp_cursor_uleb(c);
	if (flags & SP_SAMPLE_WEIGHT)
		ret->weight = sp_unzigzag(sp_cursor_uleb(c));
	if (flags & SP_SAMPLE_LABEL)
		ret->label = get_text(c);
	if (flags & SP_SAMPLE_CPU)
		ret->cpu = get_u32(c);
	if (flags & SP_SAMPLE_END)
		ret->end = sp_cursor_u8(c);
	if (ret->end > SP_UNWIND_NOT_RECORDED)
		sp_cursor_fail(c);
	if (!c->bad)
		*error = read_stack(r, c, local, &ret->stack);
	if (c->bad)
		return CORRUPT;
	return ret->thread == SP_HANDLE_NONE || ret->source == SP_HANDLE_NONE ? PASSED : GIVEN;
}

/* ---- Other facts ---- */

/* A fact about a handle that is not known says nothing. */
static enum outcome about(const struct sp_cursor *c, uint32_t handle)
{
	if (c->bad)
		return CORRUPT;
	return handle == SP_HANDLE_NONE ? PASSED : GIVEN;
}

static enum outcome read_mapping(struct sp_recording_reader *r, struct sp_cursor *c, struct sp_record_mapping *ret)
{
	*ret = (struct sp_record_mapping){ .time = get_time(r, c) };
	bool known = get_optional_local(r, c, SP_SPACE_PROCESS, &ret->process);
	ret->module = get_local(r, c, SP_SPACE_MODULE);
	ret->start = sp_cursor_uleb(c);
	ret->size = sp_cursor_uleb(c);
	ret->base = get_delta(c, ret->start);
	if (ret->size > UINT64_MAX - ret->start)
		sp_cursor_fail(c);
	return about(c, known ? ret->module : SP_HANDLE_NONE);
}

static enum outcome read_unmapping(struct sp_recording_reader *r, struct sp_cursor *c, struct sp_record_unmapping *ret)
{
	*ret = (struct sp_record_unmapping){ .time = get_time(r, c) };
	bool known = get_optional_local(r, c, SP_SPACE_PROCESS, &ret->process);
	ret->start = sp_cursor_uleb(c);
	ret->size = sp_cursor_uleb(c);
	if (ret->size > UINT64_MAX - ret->start)
		sp_cursor_fail(c);
	return c->bad ? CORRUPT : known ? GIVEN : PASSED;
}

static enum outcome read_jit_function(struct sp_recording_reader *r, struct sp_cursor *c,
                                      struct sp_record_jit_function *ret)
{
	*ret = (struct sp_record_jit_function){ .time = get_time(r, c) };
	bool known = get_optional_local(r, c, SP_SPACE_PROCESS, &ret->process);
	ret->start = sp_cursor_uleb(c);
	ret->size = sp_cursor_uleb(c);
	ret->late = sp_cursor_u8(c) & 1;
	ret->name = get_string(c);
	if (ret->size > UINT64_MAX - ret->start)
		sp_cursor_fail(c);
	return c->bad ? CORRUPT : known ? GIVEN : PASSED;
}

static enum outcome read_marker(struct sp_recording_reader *r, struct sp_cursor *c, struct sp_record_marker *ret)
{
	*ret = (struct sp_record_marker){ .time = get_time(r, c) };
	bool known = get_optional_local(r, c, SP_SPACE_THREAD, &ret->thread);
	ret->end_time = get_delta(c, ret->time);
	ret->name = get_text(c);
	ret->text = get_string(c);
	return c->bad ? CORRUPT : known ? GIVEN : PASSED;
}

static enum outcome read_loss(struct sp_recording_reader *r, struct sp_cursor *c, struct sp_record_loss *ret)
{
	*ret = (struct sp_record_loss){ .time = get_time(r, c) };
	ret->kind = sp_cursor_u8(c);
	bool known = get_optional_local(r, c, SP_SPACE_THREAD, &ret->thread);
	ret->cpu = get_u32(c) - 1;
	ret->end_time = get_delta(c, ret->time);
	ret->count = sp_cursor_uleb(c);
	if (ret->kind > SP_LOSS_BUFFER)
		sp_cursor_fail(c);
	return c->bad ? CORRUPT : known ? GIVEN : PASSED;
}

static enum outcome read_record(struct sp_recording_reader *r, unsigned type, struct sp_cursor *c,
                                struct sp_record *ret, struct sp_error **error)
{
	ret->type = type;
	switch (type) {
	case SP_RECORD_META:
		ret->meta.key = get_text(c);
		ret->meta.value = get_text(c);
		return c->bad ? CORRUPT : GIVEN;
	case SP_RECORD_CLOCK:
		ret->clock.time = get_time(r, c);
		ret->clock.wall_ns = sp_cursor_uleb(c);
		ret->clock.name = get_text(c);
		return c->bad ? CORRUPT : GIVEN;
	case SP_RECORD_SOURCE:
		return read_source(r, c, &ret->source, error);
	case SP_RECORD_PROCESS:
		return read_process(r, c, &ret->process, error);
	case SP_RECORD_PROCESS_END:
		ret->process_end.time = get_time(r, c);
		ret->process_end.process = get_local(r, c, SP_SPACE_PROCESS);
		return about(c, ret->process_end.process);
	case SP_RECORD_THREAD:
		return read_thread(r, c, &ret->thread, error);
	case SP_RECORD_THREAD_NAME:
		ret->thread_name.time = get_time(r, c);
		ret->thread_name.thread = get_local(r, c, SP_SPACE_THREAD);
		ret->thread_name.name = get_text(c);
		return about(c, ret->thread_name.thread);
	case SP_RECORD_THREAD_END:
		ret->thread_end.time = get_time(r, c);
		ret->thread_end.thread = get_local(r, c, SP_SPACE_THREAD);
		return about(c, ret->thread_end.thread);
	case SP_RECORD_MODULE:
		return read_module(r, c, &ret->module, error);
	case SP_RECORD_MAPPING:
		return read_mapping(r, c, &ret->mapping);
	case SP_RECORD_UNMAPPING:
		return read_unmapping(r, c, &ret->unmapping);
	case SP_RECORD_JIT_FUNCTION:
		return read_jit_function(r, c, &ret->jit_function);
	case SP_RECORD_SAMPLE:
		return read_sample(r, c, &ret->sample, error);
	case SP_RECORD_MARKER:
		return read_marker(r, c, &ret->marker);
	case SP_RECORD_COUNTER:
		return read_counter(r, c, &ret->counter, error);
	case SP_RECORD_COUNTER_VALUE:
		ret->counter_value.time = get_time(r, c);
		ret->counter_value.counter = get_local(r, c, SP_SPACE_COUNTER);
		ret->counter_value.delta = get_double(c);
		return about(c, ret->counter_value.counter);
	case SP_RECORD_LOSS:
		return read_loss(r, c, &ret->loss);
	case SP_RECORD_REFERENCE:
		return read_reference(r, c, error);
	default:
		return PASSED;
	}
}

struct sp_error *sp_recording_read(struct sp_recording_reader *r, struct sp_record *ret, bool *ret_more)
{
	*ret_more = false;
	for (;;) {
		bool more;
		struct sp_error *error = next_segment(r, &more);
		if (error || !more)
			return error;
		size_t left = sp_cursor_left(&r->records);
		uint64_t type = sp_cursor_uleb(&r->records);
		uint64_t size = sp_cursor_uleb(&r->records);
		const uint8_t *body = sp_cursor_bytes(&r->records, size);
		enum outcome outcome = CORRUPT;
		*ret = (struct sp_record){ 0 };
		if (body) {
			struct sp_cursor c = sp_cursor_init(body, size);
			outcome = read_record(r, type <= UINT8_MAX ? (unsigned)type : UINT8_MAX, &c, ret, &error);
		}
		if (error)
			return error;
		if (outcome == CORRUPT) {
			r->dropped += left;
			r->records = (struct sp_cursor){ 0 };
		}
		if (outcome == GIVEN) {
			*ret_more = true;
			return NULL;
		}
	}
}

bool sp_recording_finished(const struct sp_recording_reader *r, uint64_t *ret_dropped_bytes)
{
	uint64_t tail = 0;
	if (!fseeko(r->file, 0, SEEK_END)) {
		off_t end = ftello(r->file);
		tail = end > 0 && (uint64_t)end > r->position ? (uint64_t)end - r->position : 0;
	}
	*ret_dropped_bytes = r->dropped + tail;
	return r->finished;
}

uint64_t sp_recording_segment(const struct sp_recording_reader *r)
{
	return r->segment;
}

const struct sp_stack_node *sp_recording_stack_nodes(const struct sp_recording_reader *r, size_t *ret_count)
{
	*ret_count = r->nodes.count;
	return r->nodes.items;
}
