/* The memory of the rings: as large as wished where the kernel allows it, else fairly smaller. */
#ifndef SP_PLATFORM_LINUX_RING_MEMORY_H
#define SP_PLATFORM_LINUX_RING_MEMORY_H

#include "platform/linux/perf_session.h"

/* Opens the owners and maps all rings. */
struct sp_error *sp_ring_memory_map(struct sp_perf_session *session, const struct sp_perf_wish *wish);
void sp_ring_memory_unmap(struct sp_perf_session *session);

#endif
