/* The stream of what was not seen happening: processes, threads and mappings listed from /proc, kernel modules. */
#ifndef SP_PLATFORM_LINUX_FOUND_H
#define SP_PLATFORM_LINUX_FOUND_H

#include "common/arena.h"
#include "common/error.h"
#include "common/vector.h"
#include "sampler/event.h"

struct sp_found_events {
	struct sp_stream stream;
	struct sp_arena arena; /* strings of the events */
	SP_VECTOR(struct sp_event) events;
	size_t next;
};

void sp_found_events_init(struct sp_found_events *found);
void sp_found_events_deinit(struct sp_found_events *found);

/* Adds an event, with copies of its strings. Times must not go down. */
struct sp_error *sp_found_events_add(struct sp_found_events *found, const struct sp_event *event);

/* Adds a thread (tid == pid: the process) with its name, as of `time`. */
struct sp_error *sp_found_events_add_thread(struct sp_found_events *found, uint64_t time, uint32_t pid, uint32_t tid,
                                            uint32_t parent_pid);

/* Adds the executable mappings of a process. */
struct sp_error *sp_found_events_add_maps(struct sp_found_events *found, uint64_t time, uint32_t pid);

/* Adds the kernel and its modules, as far as this user may see their addresses. */
struct sp_error *sp_found_events_add_kernel(struct sp_found_events *found, uint64_t time);

#endif
