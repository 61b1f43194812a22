/* What a backend or importer reports: one event at a time, each stream in time order.
 *
 * Events name processes and threads by the numbers the OS gave (pid, tid) and the time; the model resolves them to
 * handles. Pointers inside an event belong to the stream and stay valid until the stream is told to release it. */
#ifndef SP_SAMPLER_EVENT_H
#define SP_SAMPLER_EVENT_H

#include "sampler/unwind/unwind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_CPU_NONE UINT32_MAX
#define SP_TID_ENDED UINT32_MAX /* a thread that has ended already: the OS does not know its number any more */
#define SP_BUILD_ID_MAX 20

enum sp_event_kind {
	SP_EVENT_THREAD_START, /* a thread (or, when pid differs from parent_pid, a process) began or was found alive */
	SP_EVENT_THREAD_EXIT,  /* the thread ended; the last thread's end ends the process */
	SP_EVENT_NAME,         /* a thread's name changed */
	SP_EVENT_EXEC,         /* the process runs a new program: all mappings are gone, the name is new */
	SP_EVENT_MAP,          /* a range of the address space now shows a file or code */
	SP_EVENT_UNMAP,        /* ... or no longer does */
	SP_EVENT_KERNEL_MODULE, /* the kernel or one of its modules occupies a range; pid is 0 */
	SP_EVENT_JIT_FUNCTION,  /* code made at run time (KSYMBOL records, jitdump, ETW method loads) */
	SP_EVENT_SAMPLE,        /* a stack was taken */
	SP_EVENT_SWITCH_IN,     /* the thread got a CPU */
	SP_EVENT_SWITCH_OUT,    /* the thread lost its CPU */
	SP_EVENT_LOSS,          /* the OS dropped records or slowed the sampling */
	SP_EVENT_MARKER,        /* something to show on the time line */
};

/* Why records are missing; shown to the user in these terms. */
enum sp_loss_kind {
	SP_LOSS_RING_FULL, /* records dropped since the ring had no room (PERF_RECORD_LOST) */
	SP_LOSS_SAMPLES,   /* samples dropped (PERF_RECORD_LOST_SAMPLES, ETW lost events) */
	SP_LOSS_THROTTLED, /* sampling paused: [time, end_time) */
	SP_LOSS_LATE,      /* a record arrived after its time had been passed on, or after its thread's end */
	SP_LOSS_BUFFER,    /* a whole buffer is missing (ETW) */
};

struct sp_event_map {
	uint64_t start, size;   /* bytes of address space */
	uint64_t file_offset;   /* of `start` in the file */
	const char *path;       /* as the target sees it; "[vdso]", "//anon", "/memfd:x (deleted)", ... */
	uint64_t device, inode; /* 0 = unknown */
	uint8_t build_id[SP_BUILD_ID_MAX];
	uint8_t build_id_size; /* 0 = the source did not say */
	bool executable;
};

struct sp_event_sample {
	uint32_t source;             /* index into the backend's sources */
	uint64_t period;             /* events (or ns for clock sources) that this sample stands for */
	bool in_kernel;              /* the CPU was in the kernel when the sample was taken */
	uint64_t ip;                 /* where */
	struct sp_regs regs;         /* user registers; regs.arch == SP_ARCH_NONE when there are none */
	struct sp_stack_slice stack; /* user stack bytes from regs.sp on; size 0 when there are none */
	bool stack_cut;              /* the user stack went on past the bytes given */
	const uint64_t
	    *kernel_chain; /* instruction pointers, leaf first; [0] is exact, the others are return addresses */
	uint32_t kernel_chain_count;
	const uint64_t *user_chain; /* the kernel's frame-pointer chain of user code, in the same form */
	uint32_t user_chain_count;
};

struct sp_event_loss {
	enum sp_loss_kind kind;
	uint64_t count;    /* records or samples; 0 for SP_LOSS_THROTTLED */
	uint64_t end_time; /* the loss happened in [time, end_time] */
};

struct sp_event {
	enum sp_event_kind kind;
	uint64_t time; /* ns of the backend's clock */
	uint32_t pid, tid;
	uint32_t cpu; /* SP_CPU_NONE = unknown */
	bool found;   /* not seen happening: listed at the start (or end) of the recording */
	union {
		struct {
			uint32_t parent_pid, parent_tid; /* for a thread: the process and the creating thread */
			const char *name;                /* NULL = inherited */
		} thread_start;
		struct {
			const char *name;
		} name;                  /* SP_EVENT_NAME and SP_EVENT_EXEC (there: the new process name) */
		struct sp_event_map map; /* SP_EVENT_MAP, _UNMAP (start, size), _KERNEL_MODULE */
		struct {
			uint64_t start, size;
			const char *name; /* NULL = the code at `start` is gone */
		} jit;
		struct sp_event_sample sample;
		struct {
			bool preempted; /* SWITCH_OUT: it wanted to go on */
		} context_switch;
		struct sp_event_loss loss;
		struct {
			const char *name;
			const char *text;
			uint64_t end_time; /* == time for an instant */
		} marker;
	};
};

/* One time-ordered sequence of events: a ring, a CPU, a file. */
struct sp_stream;
struct sp_stream_ops {
	/* Decodes the next event into *ret. False when none is there yet. Does not block. */
	bool (*next)(struct sp_stream *stream, struct sp_event *ret);
	/* The pointers of the first `count` not yet released events are no longer needed. Events are released in
	 * the order in which they were given. */
	void (*release)(struct sp_stream *stream, size_t count);
	/* Optional (NULL = never full): how much of the stream's store waits for release, 0 to 255. */
	uint8_t (*pressure)(struct sp_stream *stream);
};
struct sp_stream {
	const struct sp_stream_ops *ops;
	void *context; /* the backend's */
};

#endif
