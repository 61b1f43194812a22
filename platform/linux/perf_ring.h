/* One ring buffer of perf_event as a stream of events, without copying.
 *
 * The kernel writes at `head`, sp reads at `at`; the space behind `tail` is given back to the kernel only when the
 * events that point into it were released. A record that wraps round the ring's end is copied to a side buffer; at
 * most one such record can be in use, since the bytes in use never exceed the ring. */
#ifndef SP_PLATFORM_LINUX_PERF_RING_H
#define SP_PLATFORM_LINUX_PERF_RING_H

#include "common/map.h"
#include "platform/linux/perf_decode.h"
#include "sampler/event.h"

/* What all rings of a capture must know to leave out what is not the target's. Written only between two reads. */
struct sp_perf_filter {
	uint32_t command_pid;   /* the launched command; 0 when attached */
	uint32_t recorder_pid;  /* sp itself, the command's parent; never reported */
	bool command_runs;      /* its exec was seen */
	uint64_t exec_time;     /* when; samples of it before that are of sp's own image, and dropped */
	uint64_t first_sample;  /* samples before this time are dropped: not all events were enabled yet */
	struct sp_map owner_of; /* attached, per-thread events: event id -> tid it was opened for */
	struct sp_map opened;   /* the same tids; a thread in here is sampled by its own events only */
	struct sp_map listed;   /* attached: tids that were found in /proc; */
	uint64_t listed_until;  /* the FORK records of those, up to here, say nothing new */
};

struct sp_perf_ring {
	struct sp_stream stream;
	const struct sp_perf_layout *layout;
	const struct sp_perf_filter *filter;
	const uint64_t *data_head; /* the kernel's; in the control page */
	uint64_t *data_tail;       /* ours */
	const uint8_t *data;
	uint64_t size; /* bytes of data, a power of two */
	uint32_t cpu;
	uint64_t head;     /* as of the last snapshot */
	uint64_t at;       /* next record */
	uint64_t tail;     /* as stored last */
	uint64_t released; /* where the tail could be */
	uint8_t *wrapped;  /* side buffer, SP_PERF_RECORD_MAX bytes; made when first needed */
	uint64_t skipped;  /* bytes before `at` that belong to no given event yet */
	/* Circular queue of the events given and not released. */
	uint32_t *given; /* bytes of the ring that the event, and skipped records before it, take */
	size_t given_capacity, given_first, given_count;
	uint64_t last_time;      /* of the last record */
	uint64_t lost_reported;  /* records that LOST records told of */
	uint64_t throttled;      /* THROTTLE records */
	struct sp_map throttles; /* event id -> since when */
	bool corrupt;            /* a record had impossible sizes: the rest of that snapshot was dropped */
	bool has_extra;          /* an event to give before the next record */
	struct sp_event extra;
	bool finished;        /* nothing more will be written; then, when all records were read: */
	uint64_t end_time;    /* when that was */
	uint64_t lost_in_all; /* by the kernel's count */
	void *mapping;        /* what sp_perf_ring_deinit() unmaps; NULL for tests */
	size_t mapping_size;
};

/* A ring over memory that has the kernel's layout: `data_head`, `data_tail`, and `size` bytes (a power of two, at least
 * 8) at `data`. `layout` and `filter` are borrowed. */
void sp_perf_ring_init(struct sp_perf_ring *ring, const uint64_t *data_head, uint64_t *data_tail, const void *data,
                       uint64_t size, uint32_t cpu, const struct sp_perf_layout *layout,
                       const struct sp_perf_filter *filter);
void sp_perf_ring_deinit(struct sp_perf_ring *ring);

/* Makes what the kernel has written by now readable. */
void sp_perf_ring_snapshot(struct sp_perf_ring *ring);

/* Looks in the readable part, without consuming it, for the first exec of `pid`. */
bool sp_perf_ring_find_exec(const struct sp_perf_ring *ring, uint32_t pid, uint64_t *ret_time);

/* Nothing more will be written. After the last record, the stream gives what no record told of: losses after which
 * nothing was written (`lost_in_all` is the kernel's count for this ring), throttling that did not end. */
void sp_perf_ring_finish(struct sp_perf_ring *ring, uint64_t lost_in_all, uint64_t time);

#endif
