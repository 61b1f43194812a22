/* Fuzzes the perf_event record decoder and the ring: the input is what a kernel wrote into a ring, in turns with
 * reading and releasing. Byte 0: bit 0 = the side band's layout, bits 1-3 = ring size; byte 1: how much is written and
 * released at a time. */
#include "platform/linux/perf_ring.h"

#include <stdlib.h>
#include <string.h>

static const struct sp_perf_layout layouts[2] = {
	{ .sample_type = SP_PERF_SAMPLE_IDENTIFIER | SP_PERF_SAMPLE_TID | SP_PERF_SAMPLE_TIME | SP_PERF_SAMPLE_CPU |
	                 SP_PERF_SAMPLE_IP | SP_PERF_SAMPLE_PERIOD | SP_PERF_SAMPLE_CALLCHAIN |
	                 SP_PERF_SAMPLE_REGS_USER | SP_PERF_SAMPLE_STACK_USER,
	  .regs_mask = SP_PERF_REGS_X86_64,
	  .arch = SP_ARCH_X86_64 },
	{ .sample_type = SP_PERF_SAMPLE_IDENTIFIER | SP_PERF_SAMPLE_TID | SP_PERF_SAMPLE_TIME | SP_PERF_SAMPLE_CPU,
	  .arch = SP_ARCH_X86_64 },
};

static volatile uint64_t sink;

/* Touches all that an event points to. */
static void touch(const struct sp_event *event)
{
	uint64_t sum = 0;
	switch (event->kind) {
	case SP_EVENT_SAMPLE:
		for (size_t i = 0; i < event->sample.stack.size; i++)
			sum += event->sample.stack.bytes[i];
		for (uint32_t i = 0; i < event->sample.kernel_chain_count; i++)
			sum += event->sample.kernel_chain[i];
		for (uint32_t i = 0; i < event->sample.user_chain_count; i++)
			sum += event->sample.user_chain[i];
		break;
	case SP_EVENT_MAP:
		sum += strlen(event->map.path);
		if (event->map.build_id_size > SP_BUILD_ID_MAX)
			abort();
		break;
	case SP_EVENT_EXEC:
	case SP_EVENT_NAME:
		sum += strlen(event->name.name);
		break;
	case SP_EVENT_THREAD_START:
		sum += event->thread_start.name ? strlen(event->thread_start.name) : 0;
		break;
	case SP_EVENT_JIT_FUNCTION:
		sum += event->jit.name ? strlen(event->jit.name) : 0;
		break;
	default:
		break;
	}
	sink += sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	uint64_t ring_size = 64ull << ((data[0] >> 1 & 7) * 2);
	size_t piece = 8 + (size_t)data[1] * 8;
	uint64_t head = 0, tail = 0;
	uint8_t *bytes = calloc(1, ring_size);
	struct sp_perf_filter filter = { .command_pid = 50, .recorder_pid = 49 };
	struct sp_perf_ring ring;
	if (!bytes)
		return 0;
	sp_perf_ring_init(&ring, &head, &tail, bytes, ring_size, 1, &layouts[data[0] & 1], &filter);
	data += 2;
	size -= 2;
	size_t held = 0;
	while (size) {
		for (size_t n = 0; n < piece && size && head - tail < ring_size; n++, size--)
			bytes[head++ & (ring_size - 1)] = *data++;
		sp_perf_ring_snapshot(&ring);
		uint64_t time;
		if (!filter.command_runs && sp_perf_ring_find_exec(&ring, 50, &time)) {
			filter.command_runs = true;
			filter.exec_time = time;
		}
		struct sp_event event;
		for (; ring.stream.ops->next(&ring.stream, &event); held++)
			touch(&event);
		/* A ring that is full of what is held, or ends within a header, goes on after a release. */
		size_t count = head - tail == ring_size ? held : held / 2;
		ring.stream.ops->release(&ring.stream, count);
		held -= count;
		if (head - tail == ring_size)
			break;
	}
	sp_perf_ring_finish(&ring, 3, 1);
	struct sp_event event;
	while (ring.stream.ops->next(&ring.stream, &event))
		held++;
	ring.stream.ops->release(&ring.stream, held);
	sp_perf_ring_deinit(&ring);
	sp_map_deinit(&filter.owner_of);
	free(bytes);
	return 0;
}
