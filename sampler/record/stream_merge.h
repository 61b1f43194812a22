/* Merges streams of events by time, and gives events back to their streams in order when they are done with. */
#ifndef SP_SAMPLER_RECORD_STREAM_MERGE_H
#define SP_SAMPLER_RECORD_STREAM_MERGE_H

#include "common/vector.h"
#include "sampler/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An event whose pointers are still in use, and how many events after it wait for it. */
struct sp_held {
	void *user; /* NULL: no longer in use */
	uint32_t after;
};

struct sp_merge_stream {
	struct sp_stream *stream; /* borrowed */
	struct sp_event *event;   /* borrowed room for the next event, which is in it if has_event */
	bool has_event;
	/* Circular queue of what is held, oldest first. */
	struct sp_held *held; /* owned */
	size_t held_first, held_count, held_capacity;
	size_t releasable; /* events before the first held one that the stream does not know of yet */
};

struct sp_merge {
	SP_VECTOR(struct sp_merge_stream *) streams; /* owned */
	SP_VECTOR(struct sp_merge_stream *) heap;    /* those with an event; the earliest first */
};

/* `room`: where the stream's next event goes. Events are large, so they are put where they stay. */
bool sp_merge_add(struct sp_merge *merge, struct sp_stream *stream, struct sp_event *room);
void sp_merge_deinit(struct sp_merge *merge);

/* Asks streams that had nothing to give again. */
void sp_merge_poll(struct sp_merge *merge);
/* The stream with the earliest event, NULL when there is none with time < limit. */
struct sp_merge_stream *sp_merge_first(const struct sp_merge *merge, uint64_t limit);
/* The first stream's event was dealt with; goes to its next one, into `room`. With `user` the event's pointers stay in
 * use; false without memory (then they do not). */
bool sp_merge_next(struct sp_merge *merge, void *user, struct sp_event *room);

/* Gives back to the stream what is no longer in use: held events whose `user` was set to NULL, and all before the first
 * one that is held. */
void sp_merge_release(struct sp_merge_stream *stream);

/* The held events of a stream, oldest first. */
static inline struct sp_held *sp_merge_held(const struct sp_merge_stream *stream, size_t index)
{
	return &stream->held[(stream->held_first + index) & (stream->held_capacity - 1)];
}

#endif
