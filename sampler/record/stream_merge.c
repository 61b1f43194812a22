/* A binary heap of streams; see stream_merge.h. */
#include "sampler/record/stream_merge.h"

#include <stdlib.h>

/* At the same time, what changes the state comes before what needs it. */
static bool is_before(const struct sp_merge_stream *a, const struct sp_merge_stream *b)
{
	if (a->event->time != b->event->time)
		return a->event->time < b->event->time;
	return a->event->kind != SP_EVENT_SAMPLE && b->event->kind == SP_EVENT_SAMPLE;
}

static void swap(struct sp_merge *merge, size_t a, size_t b)
{
	struct sp_merge_stream *stream = merge->heap.items[a];
	merge->heap.items[a] = merge->heap.items[b];
	merge->heap.items[b] = stream;
}

static void sift_up(struct sp_merge *merge, size_t at)
{
	while (at && is_before(merge->heap.items[at], merge->heap.items[(at - 1) / 2])) {
		swap(merge, at, (at - 1) / 2);
		at = (at - 1) / 2;
	}
}

static void sift_down(struct sp_merge *merge)
{
	size_t at = 0;
	for (;;) {
		size_t least = at;
		for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < merge->heap.count; child++) {
			if (is_before(merge->heap.items[child], merge->heap.items[least]))
				least = child;
		}
		if (least == at)
			return;
		swap(merge, at, least);
		at = least;
	}
}

bool sp_merge_add(struct sp_merge *merge, struct sp_stream *stream, struct sp_event *room)
{
	struct sp_merge_stream *added = calloc(1, sizeof(*added));
	if (!added)
		return false;
	added->stream = stream;
	added->event = room;
	if (!sp_vector_reserve(&merge->heap, merge->streams.count + 1) || !sp_vector_push(&merge->streams, added)) {
		free(added);
		return false;
	}
	return true;
}

void sp_merge_deinit(struct sp_merge *merge)
{
	for (size_t i = 0; i < merge->streams.count; i++) {
		free(merge->streams.items[i]->held);
		free(merge->streams.items[i]);
	}
	sp_vector_deinit(&merge->streams);
	sp_vector_deinit(&merge->heap);
}

static bool fetch(struct sp_merge_stream *stream)
{
	stream->has_event = stream->stream->ops->next(stream->stream, stream->event);
	return stream->has_event;
}

void sp_merge_poll(struct sp_merge *merge)
{
	for (size_t i = 0; i < merge->streams.count; i++) {
		struct sp_merge_stream *stream = merge->streams.items[i];
		if (stream->has_event || !fetch(stream))
			continue;
		merge->heap.items[merge->heap.count++] = stream;
		sift_up(merge, merge->heap.count - 1);
	}
}

struct sp_merge_stream *sp_merge_first(const struct sp_merge *merge, uint64_t limit)
{
	if (!merge->heap.count || merge->heap.items[0]->event->time >= limit)
		return NULL;
	return merge->heap.items[0];
}

static bool hold(struct sp_merge_stream *stream, void *user)
{
	if (stream->held_count == stream->held_capacity) {
		size_t capacity = stream->held_capacity ? stream->held_capacity * 2 : 64;
		struct sp_held *held = malloc(capacity * sizeof(*held));
		if (!held)
			return false;
		for (size_t i = 0; i < stream->held_count; i++)
			held[i] = *sp_merge_held(stream, i);
		free(stream->held);
		stream->held = held;
		stream->held_first = 0;
		stream->held_capacity = capacity;
	}
	stream->held_count++;
	*sp_merge_held(stream, stream->held_count - 1) = (struct sp_held){ .user = user };
	return true;
}

bool sp_merge_next(struct sp_merge *merge, void *user, struct sp_event *room)
{
	struct sp_merge_stream *stream = merge->heap.items[0];
	bool held = user && hold(stream, user);
	if (!held) {
		if (stream->held_count)
			sp_merge_held(stream, stream->held_count - 1)->after++;
		else
			stream->releasable++;
	}
	stream->event = room;
	if (!fetch(stream))
		merge->heap.items[0] = merge->heap.items[--merge->heap.count];
	sift_down(merge);
	return held || !user;
}

void sp_merge_release(struct sp_merge_stream *stream)
{
	while (stream->held_count && !sp_merge_held(stream, 0)->user) {
		stream->releasable += 1 + (size_t)sp_merge_held(stream, 0)->after;
		stream->held_first = (stream->held_first + 1) & (stream->held_capacity - 1);
		stream->held_count--;
	}
	if (stream->releasable) {
		stream->stream->ops->release(stream->stream, stream->releasable);
		stream->releasable = 0;
	}
}
