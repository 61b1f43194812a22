/* The attributes of the events that sp opens, and opening one with as many of its wishes as the kernel grants. */
#ifndef SP_PLATFORM_LINUX_PERF_ATTR_H
#define SP_PLATFORM_LINUX_PERF_ATTR_H

#include "platform/linux/perf_session.h"

/* Fills attr[SP_RING_SAMPLES] (cycles) and attr[SP_RING_SIDE_BAND] with all wishes. */
void sp_perf_attr_init(struct sp_perf_attr attr[SP_RINGS], const struct sp_perf_wish *wish);
void sp_perf_attr_set_mode(struct sp_perf_attr *attr, enum sp_perf_mode mode);

/* Makes a cycles event one of the CPU's clock, at the same rate. */
void sp_perf_attr_use_clock(struct sp_perf_attr *attr);

/* The event that a ring is mapped of: on the calling thread, never enabled. */
void sp_perf_attr_owner(struct sp_perf_attr *attr, uint64_t watermark);

/* perf_event_open(): an fd, or -errno. Wishes that this kernel does not know are taken out of *attr one by one. */
int sp_perf_open(struct sp_perf_attr *attr, int32_t pid, int cpu, const struct sp_log *log);

enum sp_arch sp_perf_native_arch(void);

#endif
