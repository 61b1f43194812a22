/* Attaching to a running process and all below it. */
#ifndef SP_PLATFORM_LINUX_ATTACH_H
#define SP_PLATFORM_LINUX_ATTACH_H

#include "platform/linux/found.h"
#include "platform/linux/perf_session.h"

/* Chooses the mode, opens the events, switches the side band on, and lists processes, threads and mappings, all as of
 * `time`. Samples are still off. */
struct sp_error *sp_attach(struct sp_perf_session *session, struct sp_found_events *found, uint64_t time, uint32_t pid);

#endif
