/* Which events of a trace to keep, decided one at a time: the same for a file and for events that come live.
 *
 * What a kept sample needs is kept with it: its stack halves, the keys' definitions, the process, its threads and
 * images, the kernel's images, the IDs of both, methods of run-time compilers. Who a thread or process is, is asked of
 * an oracle: live it knows what was seen so far, for a file a first pass has filled it. */
#ifndef SP_PLATFORM_WINDOWS_ETL_FILTER_H
#define SP_PLATFORM_WINDOWS_ETL_FILTER_H

#include "platform/windows/etl_record.h"

/* Answers for a moment of the trace; times as in the events. */
struct sp_etl_oracle {
	uint32_t (*pid_of)(void *context, uint32_t tid, uint64_t time); /* SP_ETL_ID_UNKNOWN = unknown */
	bool (*is_wanted)(void *context, uint32_t pid, uint64_t time);
	bool (*is_wanted_time)(void *context, uint64_t time);           /* for samples and switches */
	bool (*is_wanted_provider)(void *context, const uint8_t *guid); /* beside those of code */
	/* ns of the raw time inside of a stack event. */
	uint64_t (*stack_time)(void *context, const struct sp_etl_event *event, uint64_t raw);
	void *context;
};

struct sp_etl_filter;
/* NULL without memory. The oracle is borrowed. `pointer_size`: of the recorded kernel. */
struct sp_etl_filter *sp_etl_filter_create(const struct sp_etl_oracle *oracle, uint8_t pointer_size);
/* Whether to keep the event. Header events are the writer's business and not kept. Events come in time order. */
bool sp_etl_filter_keeps(struct sp_etl_filter *filter, const struct sp_etl_event *event);
/* Out of memory at some time: stacks may be missing. */
bool sp_etl_filter_failed(const struct sp_etl_filter *filter);
void sp_etl_filter_destroy(struct sp_etl_filter *filter);

#endif
