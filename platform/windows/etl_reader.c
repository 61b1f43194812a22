/* The merge of buffers; see etl_reader.h. */
#include "platform/windows/etl_buffer.h"

#include "common/cursor.h"

#include <stdlib.h>
#include <string.h>

#define FILES_MAX 256
#define BUFFERS_MAX (1u << 26)
#define OPEN_MAX ((uint64_t)384 << 20) /* bytes of unpacked buffers held at once */
#define PEEK_STORED 512                /* stored bytes that hold the first record's time, compressed or not */
#define PEEK_SIZE 0x20
#define FILETIME_1970 116444736000000000u

/* A buffer whose records are being given. */
struct cursor {
	uint64_t time; /* ns, of `event` */
	uint32_t order;
	uint32_t at;   /* offset of the record after `event` in bytes */
	uint32_t size; /* of bytes */
	uint32_t capacity;
	uint16_t cpu, file;
	uint8_t *bytes; /* owned */
	struct sp_etl_event event;
};

struct file {
	struct sp_etl_source *source; /* borrowed */
	struct sp_etl_header header;
	uint64_t multiply; /* ns a tick; 0 = not whole, divide */
	int64_t shift;     /* ns to add, for clocks that differ from the first file's */
};

struct sp_etl_reader {
	SP_VECTOR(struct file) files;
	SP_VECTOR(struct sp_etl_buffer) buffers; /* by time of their first record */
	size_t next_buffer;                      /* the first one that was not opened yet */
	SP_VECTOR(struct cursor *) heap;         /* by (time, order) */
	SP_VECTOR(struct cursor *) spare;
	struct cursor *given; /* the one that the last event came from, not advanced yet; it is heap.items[0] */
	uint64_t open_bytes, read_bytes, total_bytes, last_time;
	uint8_t *stored; /* owned: a compressed buffer as it is in the file */
	size_t stored_capacity;
	struct sp_error *failure;             /* owned */
	struct sp_etl_counts counts, indexed; /* `indexed`: as they were after listing the buffers */
};

/* ---- Time ---- */

uint64_t sp_etl_reader_time(const struct sp_etl_reader *reader, size_t file, uint64_t raw)
{
	const struct file *f = &reader->files.items[file];
	if (f->multiply)
		return raw * f->multiply + (uint64_t)f->shift;
	uint64_t frequency = f->header.frequency;
	return raw / frequency * 1000000000u +
	       (uint64_t)((unsigned __int128)(raw % frequency) * 1000000000u / frequency) + (uint64_t)f->shift;
}

uint64_t sp_etl_reader_wall(const struct sp_etl_reader *reader, uint64_t *ret_time)
{
	const struct sp_etl_header *header = &reader->files.items[0].header;
	*ret_time = sp_etl_reader_time(reader, 0, header->raw_start);
	if (header->start_filetime < FILETIME_1970)
		return 0;
	return (header->start_filetime - FILETIME_1970) * 100;
}

/* Files of one boot share the clock; others are put beside each other by the wall clock. */
static void set_clock(struct sp_etl_reader *reader, struct file *file)
{
	const struct file *first = &reader->files.items[0];
	file->multiply = 1000000000u % file->header.frequency ? 0 : 1000000000u / file->header.frequency;
	uint64_t boot = file->header.boot_filetime, other = first->header.boot_filetime;
	bool same_boot = boot - other < 20000000 || other - boot < 20000000; /* 2 s: it is derived, and drifts */
	if (file == first || (same_boot && file->header.clock == first->header.clock &&
	                      file->header.frequency == first->header.frequency))
		return;
	size_t index = (size_t)(file - first);
	uint64_t start = sp_etl_reader_time(reader, index, file->header.raw_start);
	uint64_t first_start = sp_etl_reader_time(reader, 0, first->header.raw_start);
	int64_t later = (int64_t)((file->header.start_filetime - first->header.start_filetime) * 100);
	file->shift = (int64_t)(first_start + (uint64_t)later - start);
}

/* ---- Listing the buffers ---- */

static bool probe_event(const uint8_t *bytes, size_t size, struct sp_etl_event *ret)
{
	uint32_t step;
	return sp_etl_record_decode(bytes, size, 8, ret, &step) == SP_ETL_EVENT && ret->group == SP_ETL_GROUP_TRACE &&
	       ret->opcode == SP_ETL_TRACE_HEADER;
}

bool sp_etl_probe(const uint8_t *head, size_t size)
{
	struct sp_etl_buffer buffer;
	if (size < SP_ETL_PROBE_SIZE || !sp_etl_buffer_parse(head, UINT64_MAX, &buffer))
		return false;
	uint32_t marker;
	memcpy(&marker, head + SP_ETL_BUFFER_HEADER, sizeof(marker));
	uint8_t type = (uint8_t)(marker >> 16);
	/* Of the header event only the beginning is here: group and event code. */
	return marker >> 24 == SP_ETL_MARKER_TRACE &&
	       ((type <= SP_ETL_TYPE_COMPACT64 && type && head[SP_ETL_BUFFER_HEADER + 6] == SP_ETL_TRACE_HEADER &&
	         head[SP_ETL_BUFFER_HEADER + 7] == SP_ETL_GROUP_TRACE) ||
	        type == SP_ETL_TYPE_FULL32 || type == SP_ETL_TYPE_FULL64);
}

static struct sp_error *need_stored(struct sp_etl_reader *reader, size_t size)
{
	if (size <= reader->stored_capacity)
		return NULL;
	uint8_t *grown = realloc(reader->stored, size);
	if (!grown)
		return sp_error_no_memory();
	reader->stored = grown;
	reader->stored_capacity = size;
	return NULL;
}

/* The first buffer has the header event, which says how to read everything. */
static struct sp_error *read_header(struct sp_etl_reader *reader, struct file *file)
{
	struct sp_etl_source *source = file->source;
	struct sp_etl_buffer buffer;
	struct sp_etl_event event;
	uint8_t head[SP_ETL_BUFFER_HEADER];
	size_t got;
	struct sp_error *error = sp_etl_source_read(source, 0, head, sizeof(head), &got);
	if (error)
		return error;
	if (got < sizeof(head) || !sp_etl_buffer_parse(head, UINT64_MAX, &buffer))
		return sp_error_create(SP_ERROR_FORMAT, "%s: not an ETL file (no buffer header at its start)",
		                       source->name);
	if (buffer.stored > source->size)
		return sp_error_create(SP_ERROR_FORMAT, "%s: cut short within its first buffer, which has %u bytes",
		                       source->name, buffer.stored);
	error = need_stored(reader, buffer.stored);
	if (!error)
		error = sp_etl_source_read(source, 0, reader->stored, buffer.stored, &got);
	if (error)
		return error;
	if (buffer.flags & SP_ETL_BUFFER_COMPRESSED || got < buffer.used ||
	    !probe_event(reader->stored + SP_ETL_BUFFER_HEADER, buffer.used - SP_ETL_BUFFER_HEADER, &event))
		return sp_error_create(SP_ERROR_FORMAT, "%s: not an ETL file (no header event at its start)",
		                       source->name);
	if (!sp_etl_header_parse(&event, &file->header))
		return sp_error_create(SP_ERROR_FORMAT, "%s: its header event is damaged", source->name);
	set_clock(reader, file);
	reader->counts.events_lost += file->header.events_lost;
	reader->counts.buffers_lost += file->header.buffers_lost;
	return NULL;
}

/* The time of a buffer's first record; false when it has none. */
static bool peek_time(struct sp_etl_reader *reader, const struct sp_etl_buffer *buffer, const uint8_t *stored,
                      size_t stored_size, uint64_t *ret)
{
	uint8_t records[PEEK_SIZE];
	size_t used = buffer->used - SP_ETL_BUFFER_HEADER;
	if (used < 16)
		return false;
	if (used > sizeof(records))
		used = sizeof(records);
	if (!sp_etl_buffer_unpack(buffer, stored, stored_size, records, used))
		return false;
	struct sp_cursor c = sp_cursor_init(records, used);
	uint32_t marker = sp_cursor_u32(&c);
	uint8_t type = (uint8_t)(marker >> 16);
	bool perf = type == SP_ETL_TYPE_PERFINFO32 || type == SP_ETL_TYPE_PERFINFO64;
	sp_cursor_seek(&c, perf ? 8 : 16);
	*ret = sp_etl_reader_time(reader, buffer->file, sp_cursor_u64(&c));
	return !c.bad && marker >> 24 == SP_ETL_MARKER_TRACE;
}

static void count_flags(struct sp_etl_counts *counts, const struct sp_etl_buffer *buffer)
{
	counts->buffers++;
	counts->flagged_events_lost += (buffer->flags & SP_ETL_BUFFER_EVENTS_LOST) != 0;
	counts->flagged_buffer_lost += (buffer->flags & SP_ETL_BUFFER_BUFFER_LOST) != 0;
}

static struct sp_error *list_buffers(struct sp_etl_reader *reader, size_t file_index)
{
	struct sp_etl_source *source = reader->files.items[file_index].source;
	uint8_t head[PEEK_STORED];
	uint64_t offset = 0, last_time = 0;
	while (offset < source->size) {
		size_t got;
		struct sp_etl_buffer buffer;
		struct sp_error *error = sp_etl_source_read(source, offset, head, sizeof(head), &got);
		if (error)
			return error;
		if (got < SP_ETL_BUFFER_HEADER || !sp_etl_buffer_parse(head, source->size - offset, &buffer))
			break;
		buffer.offset = offset;
		buffer.file = (uint16_t)file_index;
		buffer.order = (uint32_t)reader->buffers.count;
		/* One that can't be looked into keeps its place in the file, so that the loss shows up there. */
		if (!peek_time(reader, &buffer, head, got < buffer.stored ? got : buffer.stored, &buffer.first_time))
			buffer.first_time = last_time;
		last_time = buffer.first_time;
		count_flags(&reader->counts, &buffer);
		if (reader->buffers.count >= BUFFERS_MAX)
			return sp_error_create(SP_ERROR_LIMIT, "%s: more than %u buffers", source->name, BUFFERS_MAX);
		if (!sp_vector_push(&reader->buffers, buffer))
			return sp_error_no_memory();
		offset += buffer.stored;
	}
	reader->counts.truncated_bytes += source->size - offset;
	return NULL;
}

static int compare_buffers(const void *left, const void *right)
{
	const struct sp_etl_buffer *a = left, *b = right;
	if (a->first_time != b->first_time)
		return a->first_time < b->first_time ? -1 : 1;
	return a->order < b->order ? -1 : 1;
}

static int compare_sequences(const void *left, const void *right)
{
	int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
	return a < b ? -1 : a > b;
}

/* A session numbers its buffers as it fills them: a number that no buffer has is a buffer that did not make it. Merged
 * files and those of other writers have numbers several times, which says nothing. */
static struct sp_error *count_gaps(struct sp_etl_reader *reader, size_t first)
{
	size_t count = reader->buffers.count - first;
	if (count < 2)
		return NULL;
	int64_t *numbers = malloc(count * sizeof(*numbers));
	if (!numbers)
		return sp_error_no_memory();
	for (size_t i = 0; i < count; i++)
		numbers[i] = reader->buffers.items[first + i].sequence;
	/* The header's buffer comes from before; in a circular file the ones between are overwritten. */
	qsort(numbers + 1, count - 1, sizeof(*numbers), compare_sequences);
	uint64_t missing = 0;
	for (size_t i = 2; i < count; i++) {
		if (numbers[i] == numbers[i - 1]) {
			missing = 0;
			break;
		}
		missing += (uint64_t)numbers[i] - (uint64_t)numbers[i - 1] - 1; /* numbers of any size */
	}
	free(numbers);
	if (missing < UINT32_MAX)
		reader->counts.missing_buffers += missing;
	return NULL;
}

static struct sp_error *add_file(struct sp_etl_reader *reader, struct sp_etl_source *source)
{
	if (!sp_vector_push(&reader->files, (struct file){ .source = source }))
		return sp_error_no_memory();
	struct sp_error *error = read_header(reader, &reader->files.items[reader->files.count - 1]);
	size_t first = reader->buffers.count;
	if (!error)
		error = list_buffers(reader, reader->files.count - 1);
	if (!error)
		error = count_gaps(reader, first);
	reader->total_bytes += source->size;
	return error;
}

struct sp_error *sp_etl_reader_create(struct sp_etl_sources *sources, struct sp_etl_reader **ret)
{
	struct sp_etl_reader *reader = calloc(1, sizeof(*reader));
	struct sp_error *error = NULL;
	if (!reader)
		return sp_error_no_memory();
	if (!sources->list.count || sources->list.count > FILES_MAX)
		error = sp_error_create(SP_ERROR_LIMIT, "%zu trace files: 1 to %d can be read together",
		                        sources->list.count, FILES_MAX);
	for (size_t i = 0; i < sources->list.count && !error; i++)
		error = add_file(reader, &sources->list.items[i]);
	if (error) {
		sp_etl_reader_destroy(reader);
		return error;
	}
	qsort(reader->buffers.items, reader->buffers.count, sizeof(*reader->buffers.items), compare_buffers);
	reader->indexed = reader->counts;
	*ret = reader;
	return NULL;
}

static void cursor_free(struct cursor *cursor)
{
	free(cursor->bytes);
	free(cursor);
}

void sp_etl_reader_destroy(struct sp_etl_reader *reader)
{
	if (!reader)
		return;
	for (size_t i = 0; i < reader->heap.count; i++)
		cursor_free(reader->heap.items[i]);
	for (size_t i = 0; i < reader->spare.count; i++)
		cursor_free(reader->spare.items[i]);
	sp_vector_deinit(&reader->heap);
	sp_vector_deinit(&reader->spare);
	sp_vector_deinit(&reader->buffers);
	sp_vector_deinit(&reader->files);
	free(reader->stored);
	sp_error_destroy(reader->failure);
	free(reader);
}

/* ---- The heap ---- */

static bool before(const struct cursor *a, const struct cursor *b)
{
	return a->time != b->time ? a->time < b->time : a->order < b->order;
}

static void sift_down(struct sp_etl_reader *reader)
{
	struct cursor **heap = reader->heap.items, *moved = heap[0];
	size_t count = reader->heap.count, at = 0;
	for (;;) {
		size_t child = 2 * at + 1;
		if (child >= count)
			break;
		if (child + 1 < count && before(heap[child + 1], heap[child]))
			child++;
		if (!before(heap[child], moved))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = moved;
}

static bool heap_push(struct sp_etl_reader *reader, struct cursor *cursor)
{
	if (!sp_vector_push(&reader->heap, cursor))
		return false;
	struct cursor **heap = reader->heap.items;
	size_t at = reader->heap.count - 1;
	for (; at && before(cursor, heap[(at - 1) / 2]); at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	heap[at] = cursor;
	return true;
}

/* Sets the cursor's event to its next record; false at the buffer's end. */
static bool advance(struct sp_etl_reader *reader, struct cursor *cursor)
{
	while (cursor->at < cursor->size) {
		uint32_t step;
		enum sp_etl_decoded decoded = sp_etl_record_decode(
		    cursor->bytes + cursor->at, cursor->size - cursor->at,
		    reader->files.items[cursor->file].header.pointer_size, &cursor->event, &step);
		cursor->at += step;
		if (decoded == SP_ETL_EVENT) {
			cursor->event.time = sp_etl_reader_time(reader, cursor->file, cursor->event.time);
			cursor->event.cpu = cursor->cpu;
			cursor->event.file = cursor->file;
			cursor->time = cursor->event.time;
			return true;
		}
		if (decoded == SP_ETL_ENDED)
			return false;
		if (decoded == SP_ETL_CORRUPT) {
			reader->counts.corrupt_buffers++;
			return false;
		}
		reader->counts.skipped_records++;
	}
	return false;
}

static struct cursor *take_spare(struct sp_etl_reader *reader, size_t size)
{
	struct cursor *cursor = reader->spare.count ? reader->spare.items[--reader->spare.count] : NULL;
	if (!cursor)
		cursor = calloc(1, sizeof(*cursor));
	if (cursor && cursor->capacity < size) {
		free(cursor->bytes);
		cursor->bytes = malloc(size);
		cursor->capacity = cursor->bytes ? (uint32_t)size : 0;
	}
	if (cursor && size && !cursor->bytes) {
		free(cursor);
		cursor = NULL;
	}
	return cursor;
}

/* The bytes are kept for the next buffer. */
static void put_spare(struct sp_etl_reader *reader, struct cursor *cursor)
{
	reader->open_bytes -= cursor->size;
	if (reader->spare.count >= 64 || !sp_vector_push(&reader->spare, cursor))
		cursor_free(cursor);
}

/* Reads a buffer's records to cursor->bytes. */
static struct sp_error *load(struct sp_etl_reader *reader, const struct sp_etl_buffer *buffer, struct cursor *cursor,
                             bool *ret_good)
{
	struct sp_etl_source *source = reader->files.items[buffer->file].source;
	size_t size = cursor->size, got;
	struct sp_error *error;
	if (!(buffer->flags & SP_ETL_BUFFER_COMPRESSED)) {
		error = sp_etl_source_read(source, buffer->offset + SP_ETL_BUFFER_HEADER, cursor->bytes, size, &got);
		*ret_good = got == size;
		cursor->size = (uint32_t)got;
		return error;
	}
	error = need_stored(reader, buffer->stored);
	if (!error)
		error = sp_etl_source_read(source, buffer->offset, reader->stored, buffer->stored, &got);
	if (error)
		return error;
	*ret_good = sp_etl_buffer_unpack(buffer, reader->stored, got, cursor->bytes, size);
	if (!*ret_good)
		cursor->size = 0;
	return NULL;
}

static struct sp_error *open_buffer(struct sp_etl_reader *reader, const struct sp_etl_buffer *buffer)
{
	size_t size = buffer->used - SP_ETL_BUFFER_HEADER;
	struct cursor *cursor = take_spare(reader, size);
	bool good = true;
	if (!cursor)
		return sp_error_no_memory();
	cursor->order = buffer->order;
	cursor->cpu = buffer->cpu;
	cursor->file = buffer->file;
	cursor->at = 0;
	cursor->size = (uint32_t)size;
	struct sp_error *error = load(reader, buffer, cursor, &good);
	reader->open_bytes += cursor->size;
	reader->read_bytes += buffer->stored;
	if (!error && !good)
		reader->counts.bad_compression++;
	if (error || !advance(reader, cursor)) {
		put_spare(reader, cursor);
		return error;
	}
	if (heap_push(reader, cursor))
		return NULL;
	put_spare(reader, cursor);
	return sp_error_no_memory();
}

/* Opens the buffers that begin before the next event does. */
static struct sp_error *open_due(struct sp_etl_reader *reader)
{
	while (reader->next_buffer < reader->buffers.count) {
		const struct sp_etl_buffer *buffer = &reader->buffers.items[reader->next_buffer];
		bool due = !reader->heap.count || buffer->first_time <= reader->heap.items[0]->time;
		if (!due || (reader->heap.count && reader->open_bytes + buffer->used > OPEN_MAX))
			return NULL; /* a file that has so many buffers at once is given in less order */
		reader->next_buffer++;
		struct sp_error *error = open_buffer(reader, buffer);
		if (error)
			return error;
	}
	return NULL;
}

/* Moves on from the event that was given last. */
static void leave_given(struct sp_etl_reader *reader)
{
	struct cursor *cursor = reader->given;
	reader->given = NULL;
	if (!cursor)
		return;
	if (!advance(reader, cursor)) {
		reader->heap.items[0] = reader->heap.items[--reader->heap.count];
		put_spare(reader, cursor);
	}
	if (reader->heap.count)
		sift_down(reader);
}

bool sp_etl_reader_next(struct sp_etl_reader *reader, struct sp_etl_event *ret)
{
	if (reader->failure)
		return false;
	leave_given(reader);
	if (reader->next_buffer < reader->buffers.count) {
		reader->failure = open_due(reader);
		if (reader->failure)
			return false;
	}
	if (!reader->heap.count)
		return false;
	struct cursor *cursor = reader->heap.items[0];
	*ret = cursor->event;
	reader->counts.events++;
	if (ret->time < reader->last_time)
		reader->counts.unordered++;
	else
		reader->last_time = ret->time;
	reader->given = cursor;
	return true;
}

void sp_etl_reader_rewind(struct sp_etl_reader *reader)
{
	while (reader->heap.count)
		put_spare(reader, reader->heap.items[--reader->heap.count]);
	reader->given = NULL;
	reader->next_buffer = 0;
	reader->read_bytes = 0;
	reader->last_time = 0;
	reader->counts = reader->indexed;
}

struct sp_error *sp_etl_reader_failure(struct sp_etl_reader *reader)
{
	return reader->failure ? sp_error_copy(reader->failure) : NULL;
}

const struct sp_etl_header *sp_etl_reader_header(const struct sp_etl_reader *reader, size_t file)
{
	return &reader->files.items[file].header;
}

const struct sp_etl_counts *sp_etl_reader_counts(const struct sp_etl_reader *reader)
{
	return &reader->counts;
}

void sp_etl_reader_progress(const struct sp_etl_reader *reader, uint64_t *ret_done, uint64_t *ret_total)
{
	*ret_done = reader->read_bytes;
	*ret_total = reader->total_bytes;
}
