/* Decodes single perf_event records into events. Pure: takes bytes, gives values, keeps no state. */
#ifndef SP_PLATFORM_LINUX_PERF_DECODE_H
#define SP_PLATFORM_LINUX_PERF_DECODE_H

#include "platform/linux/perf_abi.h"
#include "sampler/event.h"

/* What must be known of an event's attr to read its records. */
struct sp_perf_layout {
	uint64_t sample_type; /* with SAMPLE_ID_ALL and IDENTIFIER */
	uint64_t regs_mask;   /* attr.sample_regs_user */
	enum sp_arch arch;    /* of this machine: SP_ARCH_X86_64 or SP_ARCH_AARCH64 */
};

enum sp_perf_result {
	SP_PERF_EVENT,      /* *ret holds an event */
	SP_PERF_THROTTLE,   /* sampling of `id` pauses; *ret has the time and cpu only */
	SP_PERF_UNTHROTTLE, /* ... goes on */
	SP_PERF_SKIP,       /* a record that says nothing to sp */
	SP_PERF_MALFORMED,  /* sizes that can't be */
};

/* What a record says beside its event. */
struct sp_perf_record {
	enum sp_perf_result result;
	uint64_t id; /* of the perf event that wrote it, 0 = unknown */
	struct sp_event event;
};

/* Decodes the record in bytes[0 .. size), header included. Pointers of the event point into `bytes`, which must be
 * 8-byte aligned. A LOSS event's `time` and `end_time` are both the record's. */
void sp_perf_decode(const struct sp_perf_layout *layout, const void *bytes, size_t size, struct sp_perf_record *ret);

#endif
