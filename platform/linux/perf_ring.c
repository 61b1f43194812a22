/* A ring buffer as a stream; see perf_ring.h. */
#include "platform/linux/perf_ring.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Space is given back at once when the ring is empty, else in pieces of at least 1/RETURN_PART of the ring: each store
 * takes the page's cache line from the CPU that writes records. */
#define RETURN_PART 32
/* Bytes of a record with a stack. */
#define LARGE_RECORD 4096

static uint64_t waiting(const struct sp_perf_ring *ring)
{
	return ring->head - ring->at;
}

static void store_tail(struct sp_perf_ring *ring, uint64_t tail)
{
	ring->tail = tail;
	__atomic_store_n(ring->data_tail, tail, __ATOMIC_RELEASE);
}

void sp_perf_ring_snapshot(struct sp_perf_ring *ring)
{
	uint64_t head = __atomic_load_n(ring->data_head, __ATOMIC_ACQUIRE);
	/* The kernel never passes the tail and never goes back; anything else is no ring. */
	if (head - ring->at > ring->size || head % 8) {
		ring->corrupt = true;
		return;
	}
	ring->head = head;
}

/* Copies from the ring, round its end. */
static void copy_out(const struct sp_perf_ring *ring, uint64_t position, void *to, size_t size)
{
	uint64_t offset = position & (ring->size - 1);
	size_t first = size < ring->size - offset ? size : (size_t)(ring->size - offset);
	memcpy(to, ring->data + offset, first);
	memcpy((uint8_t *)to + first, ring->data, size - first);
}

/* Type and size of the record at `position`; false when its size can't be. Records are 8-byte aligned, so a header
 * never wraps. */
static bool read_header(const struct sp_perf_ring *ring, uint64_t position, uint32_t *ret_type, uint32_t *ret_size)
{
	if (ring->head - position < SP_PERF_HEADER_SIZE)
		return false;
	uint16_t size;
	copy_out(ring, position, ret_type, sizeof(*ret_type));
	copy_out(ring, position + 6, &size, sizeof(size));
	*ret_size = size;
	return size >= SP_PERF_HEADER_SIZE && size % 8 == 0 && size <= ring->head - position;
}

/* The record's bytes in one piece; NULL without memory. */
static const void *record_bytes(struct sp_perf_ring *ring, uint64_t position, uint32_t size)
{
	uint64_t offset = position & (ring->size - 1);
	if (size <= ring->size - offset)
		return ring->data + offset;
	if (!ring->wrapped)
		ring->wrapped = aligned_alloc(8, (SP_PERF_RECORD_MAX + 8) & ~7u);
	if (ring->wrapped)
		copy_out(ring, position, ring->wrapped, size);
	return ring->wrapped;
}

static bool grow_given(struct sp_perf_ring *ring)
{
	size_t capacity = ring->given_capacity ? ring->given_capacity * 2 : 256;
	uint32_t *given = malloc(capacity * sizeof(*given));
	if (!given)
		return false;
	for (size_t i = 0; i < ring->given_count; i++)
		given[i] = ring->given[(ring->given_first + i) & (ring->given_capacity - 1)];
	free(ring->given);
	ring->given = given;
	ring->given_capacity = capacity;
	ring->given_first = 0;
	return true;
}

static void push_given(struct sp_perf_ring *ring, uint32_t bytes)
{
	ring->given[(ring->given_first + ring->given_count++) & (ring->given_capacity - 1)] = bytes;
}

/* An inherited copy of an event reports a thread that has events of its own too (it was made while sp attached). */
static bool is_duplicate(const struct sp_perf_filter *filter, const struct sp_perf_record *record)
{
	if (!filter->owner_of.count)
		return false;
	const struct sp_event *event = &record->event;
	uint32_t tid = event->kind == SP_EVENT_THREAD_START ? event->thread_start.parent_tid : event->tid;
	if (!sp_map_get(&filter->opened, tid))
		return false;
	const uint64_t *owner = sp_map_get(&filter->owner_of, record->id);
	return owner && *owner != tid;
}

/* Whether the event is about something that is not the target, or not yet. */
static bool is_filtered(const struct sp_perf_filter *filter, const struct sp_perf_record *record)
{
	const struct sp_event *event = &record->event;
	if (event->kind == SP_EVENT_LOSS)
		return false;
	if (filter->recorder_pid && event->pid == filter->recorder_pid)
		return true;
	if (filter->command_pid && event->pid == filter->command_pid &&
	    (!filter->command_runs || event->time < filter->exec_time))
		return true;
	if (event->kind == SP_EVENT_SAMPLE && event->time < filter->first_sample)
		return true;
	if (event->kind == SP_EVENT_THREAD_START && event->time < filter->listed_until &&
	    sp_map_get(&filter->listed, event->tid))
		return true;
	return is_duplicate(filter, record);
}

/* The command's first exec is where it begins: before, it was a copy of sp. It is on a CPU at that moment. */
static void begin_command(struct sp_perf_ring *ring, struct sp_event *event)
{
	const struct sp_perf_filter *filter = ring->filter;
	if (event->kind != SP_EVENT_EXEC || !filter->command_pid || event->pid != filter->command_pid ||
	    event->time != filter->exec_time)
		return;
	const char *name = event->name.name;
	event->kind = SP_EVENT_THREAD_START;
	event->thread_start.parent_pid = event->thread_start.parent_tid = filter->recorder_pid;
	event->thread_start.name = name;
	ring->extra = (struct sp_event){
		.kind = SP_EVENT_SWITCH_IN, .time = event->time, .pid = event->pid, .tid = event->tid, .cpu = event->cpu
	};
	ring->has_extra = true;
}

/* A throttled event writes UNTHROTTLE when it goes on; both together make one LOSS. */
static bool end_throttle(struct sp_perf_ring *ring, uint64_t id, uint64_t previous, struct sp_event *event)
{
	uint64_t *since = sp_map_get(&ring->throttles, id);
	if (!since)
		return false;
	uint64_t time = event->time;
	event->kind = SP_EVENT_LOSS;
	/* The stream stays in order of time, also where other events went on meanwhile. */
	event->time = *since > previous ? *since : previous;
	event->loss = (struct sp_event_loss){ .kind = SP_LOSS_THROTTLED, .end_time = time };
	sp_map_remove(&ring->throttles, id);
	return true;
}

/* Turns a decoded record into the event to give; false when there is none. */
static bool finish_record(struct sp_perf_ring *ring, struct sp_perf_record *record)
{
	struct sp_event *event = &record->event;
	uint64_t previous = ring->last_time;
	uint64_t time = event->time;
	if (time)
		ring->last_time = time;
	if (event->cpu == SP_CPU_NONE)
		event->cpu = ring->cpu;
	switch (record->result) {
	case SP_PERF_THROTTLE:
		ring->throttled++;
		sp_map_put(&ring->throttles, record->id, time);
		return false;
	case SP_PERF_UNTHROTTLE:
		return end_throttle(ring, record->id, previous, event);
	case SP_PERF_EVENT:
		break;
	default:
		return false;
	}
	if (event->kind == SP_EVENT_LOSS) {
		ring->lost_reported += event->loss.count;
		/* The records are missing somewhere between the last one and this. */
		if (previous && previous < time)
			event->time = previous;
		return true;
	}
	if (is_filtered(ring->filter, record))
		return false;
	begin_command(ring, event);
	return true;
}

/* Samples lie 64 KB apart, so the next one is in no cache yet: asks for its head, and for the word behind its stack, if
 * it is as large as this one. */
static void prefetch_next(const struct sp_perf_ring *ring, uint32_t size)
{
	uint64_t offset = ring->at & (ring->size - 1);
	if (size < LARGE_RECORD || size > waiting(ring) || size > ring->size - offset)
		return;
	for (unsigned line = 0; line < 5; line++)
		__builtin_prefetch(ring->data + offset + (size_t)line * 64);
	__builtin_prefetch(ring->data + offset + size - 8);
}

/* Reads one record; true when *ret holds an event of it. */
static bool read_record(struct sp_perf_ring *ring, struct sp_perf_record *record)
{
	uint32_t type, size;
	if (!read_header(ring, ring->at, &type, &size)) {
		ring->corrupt = true;
		ring->skipped += waiting(ring);
		ring->at = ring->head;
		return false;
	}
	const void *bytes = record_bytes(ring, ring->at, size);
	ring->at += size;
	ring->skipped += size;
	if (!bytes)
		return false;
	prefetch_next(ring, size);
	sp_perf_decode(ring->layout, bytes, size, record);
	return finish_record(ring, record);
}

static bool take_extra(struct sp_perf_ring *ring, struct sp_event *ret)
{
	if (!ring->has_extra)
		return false;
	*ret = ring->extra;
	ring->has_extra = false;
	return true;
}

/* One of what was left to tell when nothing more is written. */
static bool take_last_loss(struct sp_perf_ring *ring, struct sp_event *ret)
{
	if (!ring->finished)
		return false;
	uint64_t end = ring->end_time > ring->last_time ? ring->end_time : ring->last_time;
	*ret = (struct sp_event){ .kind = SP_EVENT_LOSS, .time = ring->last_time, .cpu = ring->cpu };
	ret->loss = (struct sp_event_loss){ .kind = SP_LOSS_RING_FULL, .end_time = end };
	if (!ret->time)
		ret->time = end;
	if (ring->lost_in_all > ring->lost_reported) {
		ret->loss.count = ring->lost_in_all - ring->lost_reported;
		ring->lost_reported = ring->lost_in_all;
		return true;
	}
	for (size_t i = 0; i < ring->throttles.capacity; i++) {
		if (!ring->throttles.used[i])
			continue;
		ret->loss.kind = SP_LOSS_THROTTLED;
		sp_map_remove(&ring->throttles, ring->throttles.slots[i].key);
		return true;
	}
	return false;
}

static bool ring_next(struct sp_stream *stream, struct sp_event *ret)
{
	struct sp_perf_ring *ring = stream->context;
	if (ring->given_count == ring->given_capacity && !grow_given(ring))
		return false;
	if (take_extra(ring, ret)) {
		push_given(ring, 0);
		return true;
	}
	struct sp_perf_record record;
	while (waiting(ring)) {
		if (!read_record(ring, &record))
			continue;
		*ret = record.event;
		push_given(ring, (uint32_t)ring->skipped);
		ring->skipped = 0;
		return true;
	}
	if (take_last_loss(ring, ret)) {
		push_given(ring, 0);
		return true;
	}
	if (!ring->given_count && ring->tail != ring->at) {
		ring->skipped = 0;
		store_tail(ring, ring->at);
	}
	return false;
}

static void ring_release(struct sp_stream *stream, size_t count)
{
	struct sp_perf_ring *ring = stream->context;
	uint64_t bytes = 0;
	for (; count && ring->given_count; count--) {
		bytes += ring->given[ring->given_first];
		ring->given_first = (ring->given_first + 1) & (ring->given_capacity - 1);
		ring->given_count--;
	}
	ring->released += bytes;
	if (!ring->given_count && !waiting(ring)) {
		ring->skipped = 0;
		ring->released = ring->at;
	}
	if (ring->released == ring->at || ring->released - ring->tail >= ring->size / RETURN_PART)
		store_tail(ring, ring->released);
}

static uint8_t ring_pressure(struct sp_stream *stream)
{
	struct sp_perf_ring *ring = stream->context;
	uint64_t used = __atomic_load_n(ring->data_head, __ATOMIC_RELAXED) - ring->tail;
	return used >= ring->size ? 255 : (uint8_t)(used * 255 / ring->size);
}

static const struct sp_stream_ops ring_ops = { .next = ring_next, .release = ring_release, .pressure = ring_pressure };

void sp_perf_ring_init(struct sp_perf_ring *ring, const uint64_t *data_head, uint64_t *data_tail, const void *data,
                       uint64_t size, uint32_t cpu, const struct sp_perf_layout *layout,
                       const struct sp_perf_filter *filter)
{
	*ring = (struct sp_perf_ring){
		.stream = { .ops = &ring_ops, .context = ring },
		.layout = layout,
		.filter = filter,
		.data_head = data_head,
		.data = data,
		.size = size,
		.cpu = cpu,
	};
	ring->data_tail = data_tail;
	ring->head = ring->at = ring->tail = ring->released = __atomic_load_n(data_tail, __ATOMIC_RELAXED);
}

void sp_perf_ring_deinit(struct sp_perf_ring *ring)
{
	free(ring->wrapped);
	free(ring->given);
	sp_map_deinit(&ring->throttles);
	if (ring->mapping)
		munmap(ring->mapping, ring->mapping_size);
	ring->mapping = NULL;
}

bool sp_perf_ring_find_exec(const struct sp_perf_ring *ring, uint32_t pid, uint64_t *ret_time)
{
	uint64_t record[32];
	uint32_t type, size;
	for (uint64_t at = ring->at; at != ring->head && read_header(ring, at, &type, &size); at += size) {
		if (type != SP_PERF_RECORD_COMM || size > sizeof(record))
			continue;
		copy_out(ring, at, record, size);
		struct sp_perf_record decoded;
		sp_perf_decode(ring->layout, record, size, &decoded);
		if (decoded.result != SP_PERF_EVENT || decoded.event.kind != SP_EVENT_EXEC || decoded.event.pid != pid)
			continue;
		*ret_time = decoded.event.time;
		return true;
	}
	return false;
}

void sp_perf_ring_finish(struct sp_perf_ring *ring, uint64_t lost_in_all, uint64_t time)
{
	ring->finished = true;
	ring->end_time = time;
	ring->lost_in_all = lost_in_all;
}
