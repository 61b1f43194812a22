/* A set of perf events and their rings: which events can be had here, opened, on, off, counted.
 *
 * For each CPU there are two rings, one for samples and one for the side band (mappings, forks, names, exits,
 * switches), so that a burst of stack dumps cannot push out what is needed to understand them. A ring belongs to an
 * "owner", a dummy event on sp's own thread that is never enabled; all events that report on a CPU are redirected into
 * its rings. Thus rings are mapped before the events are chosen, and outlive the threads that are sampled. */
#ifndef SP_PLATFORM_LINUX_PERF_SESSION_H
#define SP_PLATFORM_LINUX_PERF_SESSION_H

#include "common/error.h"
#include "common/log.h"
#include "common/vector.h"
#include "platform/linux/perf_ring.h"

enum sp_perf_mode {
	SP_PERF_MODE_SYSTEM,      /* A: events of each CPU, all processes */
	SP_PERF_MODE_THREAD,      /* B: events of the target's threads, inherited by their children */
	SP_PERF_MODE_THREAD_USER, /* C: the same, user code only */
};

struct sp_perf_event {
	int fd;
	uint32_t cpu_index; /* into the session's cpus */
	uint32_t tid;       /* the thread it was opened for; 0 = the whole CPU */
	bool side_band;
};

/* The rings of a CPU, in this order in all arrays. */
enum { SP_RING_SAMPLES, SP_RING_SIDE_BAND, SP_RINGS };

struct sp_perf_cpu {
	uint32_t number;
	int owner[SP_RINGS]; /* fd, -1 = none */
	struct sp_perf_ring ring[SP_RINGS];
};

struct sp_perf_session {
	enum sp_perf_mode mode;
	struct sp_perf_cpu *cpus; /* those online when the session was made */
	size_t cpu_count;
	struct sp_perf_attr attr[SP_RINGS]; /* as the kernel took them */
	struct sp_perf_layout layout[SP_RINGS];
	uint64_t ring_size[SP_RINGS]; /* bytes of data of one ring */
	uint64_t ring_bytes;          /* of all rings, control pages included */
	bool rings_cut;               /* the kernel allowed less than wished */
	struct sp_perf_filter filter;
	SP_VECTOR(struct sp_perf_event) events;
	const struct sp_log *log;
};

struct sp_perf_wish {
	double rate;          /* samples a second and CPU */
	uint32_t stack_bytes; /* of a sample, at most SP_PERF_STACK_MAX; a small ring may lower it */
	bool launching;       /* events of threads begin at the exec */
	const struct sp_log *log;
};
#define SP_PERF_STACK_MAX 65528u

/* Maps the rings. An error of code SP_ERROR_PERMISSION or SP_ERROR_UNSUPPORTED means that perf_event_open itself is
 * refused (mode D); `errnum` says how. The session must not move afterwards. */
struct sp_error *sp_perf_session_init(struct sp_perf_session *session, const struct sp_perf_wish *wish);
void sp_perf_session_deinit(struct sp_perf_session *session);

/* Finds the best mode for the target `tid` (one of its threads), by opening: on return the events of the whole system,
 * or those of that thread, are open and off, in the order side band, samples. */
struct sp_error *sp_perf_session_choose(struct sp_perf_session *session, uint32_t tid);

/* Modes B and C: opens events for one more thread. *ret_gone: the thread ended meanwhile, which is no error. */
struct sp_error *sp_perf_session_add_thread(struct sp_perf_session *session, uint32_t tid, bool *ret_gone);

/* Switches the events from `from` on (an index into events), of one kind of ring, on or off. */
void sp_perf_session_enable(struct sp_perf_session *session, size_t from, int ring, bool on);

/* Records the kernel dropped since no room was left, so far: of one CPU's ring, exact; 0 before Linux 6.0. */
uint64_t sp_perf_session_lost(const struct sp_perf_session *session, size_t cpu_index, int ring);

/* Makes readable what was written by now: all sample rings, then all side-band rings, so that a readable sample's
 * causes are readable too. */
void sp_perf_session_snapshot(struct sp_perf_session *session);

/* "cycles" or "cpu-clock". */
const char *sp_perf_session_source(const struct sp_perf_session *session);

#endif
