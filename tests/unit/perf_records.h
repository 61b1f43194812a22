/* Building perf_event records and rings by hand, for tests. */
#ifndef TEST_PERF_RECORDS_H
#define TEST_PERF_RECORDS_H

#include "platform/linux/perf_ring.h"

#include <stdlib.h>
#include <string.h>

/* As the backend asks for them. */
#define TEST_SIDE_TYPE (SP_PERF_SAMPLE_IDENTIFIER | SP_PERF_SAMPLE_TID | SP_PERF_SAMPLE_TIME | SP_PERF_SAMPLE_CPU)
#define TEST_SAMPLE_TYPE                                                                         \
	(TEST_SIDE_TYPE | SP_PERF_SAMPLE_IP | SP_PERF_SAMPLE_PERIOD | SP_PERF_SAMPLE_CALLCHAIN | \
	 SP_PERF_SAMPLE_REGS_USER | SP_PERF_SAMPLE_STACK_USER)

static const struct sp_perf_layout test_side_layout = { .sample_type = TEST_SIDE_TYPE, .arch = SP_ARCH_X86_64 };
static const struct sp_perf_layout test_sample_layout = { .sample_type = TEST_SAMPLE_TYPE,
	                                                  .regs_mask = SP_PERF_REGS_X86_64,
	                                                  .arch = SP_ARCH_X86_64 };

/* A record under construction. */
struct test_record {
	uint8_t bytes[70000] __attribute__((aligned(8)));
	size_t size;
};

static inline void put_bytes(struct test_record *record, const void *bytes, size_t size)
{
	memcpy(record->bytes + record->size, bytes, size);
	record->size += size;
}

static inline void put16(struct test_record *record, uint16_t value)
{
	put_bytes(record, &value, sizeof(value));
}

static inline void put32(struct test_record *record, uint32_t value)
{
	put_bytes(record, &value, sizeof(value));
}

static inline void put64(struct test_record *record, uint64_t value)
{
	put_bytes(record, &value, sizeof(value));
}

/* Padded to 8 bytes, as the kernel does. */
static inline void put_string(struct test_record *record, const char *string)
{
	size_t size = (strlen(string) + 8) & ~(size_t)7;
	memset(record->bytes + record->size, 0, size);
	memcpy(record->bytes + record->size, string, strlen(string));
	record->size += size;
}

static inline void begin_record(struct test_record *record, uint32_t type, uint16_t misc)
{
	record->size = 0;
	put32(record, type);
	put16(record, misc);
	put16(record, 0);
}

static inline void end_record(struct test_record *record)
{
	uint16_t size = (uint16_t)record->size;
	memcpy(record->bytes + 6, &size, sizeof(size));
}

static inline void end_with_id(struct test_record *record, uint32_t pid, uint32_t tid, uint64_t time, uint64_t id)
{
	put32(record, pid);
	put32(record, tid);
	put64(record, time);
	put32(record, 1); /* cpu */
	put32(record, 0);
	put64(record, id);
	end_record(record);
}

/* A sample with `stack_size` bytes of dump, of which `valid` are; byte i of it is (uint8_t)(time + i). */
static inline void make_sample(struct test_record *record, uint32_t pid, uint32_t tid, uint64_t time, uint64_t id,
                               size_t stack_size, size_t valid)
{
	begin_record(record, SP_PERF_RECORD_SAMPLE, SP_PERF_MISC_USER);
	put64(record, id);
	put64(record, 0x401000);
	put32(record, pid);
	put32(record, tid);
	put64(record, time);
	put32(record, 1);
	put32(record, 0);
	put64(record, 1000000);
	put64(record, 3);
	put64(record, SP_PERF_CONTEXT_USER);
	put64(record, 0x401000);
	put64(record, 0x402000);
	put64(record, SP_PERF_REGS_64);
	for (uint64_t i = 0; i < 17; i++)
		put64(record, 0x1000 + i);
	put64(record, stack_size);
	for (size_t i = 0; i < stack_size; i++)
		record->bytes[record->size++] = (uint8_t)(time + i);
	if (stack_size)
		put64(record, valid);
	end_record(record);
}

static inline void make_comm(struct test_record *record, bool exec, uint32_t pid, uint32_t tid, const char *name,
                             uint64_t time, uint64_t id)
{
	begin_record(record, SP_PERF_RECORD_COMM, exec ? SP_PERF_MISC_COMM_EXEC : 0);
	put32(record, pid);
	put32(record, tid);
	put_string(record, name);
	end_with_id(record, pid, tid, time, id);
}

static inline void make_fork(struct test_record *record, uint32_t type, uint32_t pid, uint32_t parent_pid, uint32_t tid,
                             uint32_t parent_tid, uint64_t time, uint64_t id)
{
	begin_record(record, type, 0);
	put32(record, pid);
	put32(record, parent_pid);
	put32(record, tid);
	put32(record, parent_tid);
	put64(record, time);
	end_with_id(record, parent_pid, parent_tid, time, id);
}

static inline void make_lost(struct test_record *record, uint64_t count, uint64_t time)
{
	begin_record(record, SP_PERF_RECORD_LOST, 0);
	put64(record, 77);
	put64(record, count);
	end_with_id(record, 0, 0, time, 77);
}

/* THROTTLE or UNTHROTTLE. */
static inline void make_throttle(struct test_record *record, uint32_t type, uint64_t time, uint64_t id)
{
	begin_record(record, type, 0);
	put64(record, time);
	put64(record, id);
	put64(record, id);
	end_with_id(record, 0, 0, time, id);
}

/* A ring as the kernel has it, with the kernel's side of it. */
struct test_ring {
	uint64_t head, tail;
	uint8_t *data;
	uint64_t size;
	uint64_t lost; /* records that found no room */
	struct sp_perf_filter filter;
	struct sp_perf_ring ring;
};

static inline void test_ring_init(struct test_ring *test, uint64_t size, const struct sp_perf_layout *layout)
{
	memset(test, 0, sizeof(*test));
	test->size = size;
	test->data = calloc(1, size);
	sp_perf_ring_init(&test->ring, &test->head, &test->tail, test->data, size, 1, layout, &test->filter);
}

static inline void test_ring_deinit(struct test_ring *test)
{
	sp_perf_ring_deinit(&test->ring);
	sp_map_deinit(&test->filter.owner_of);
	sp_map_deinit(&test->filter.opened);
	sp_map_deinit(&test->filter.listed);
	free(test->data);
}

/* Writes bytes as they are; false, and counted, when there is no room. */
static inline bool test_ring_write(struct test_ring *test, const void *bytes, size_t size)
{
	if (test->size - (test->head - test->tail) < size) {
		test->lost++;
		return false;
	}
	for (size_t i = 0; i < size; i++)
		test->data[(test->head + i) & (test->size - 1)] = ((const uint8_t *)bytes)[i];
	test->head += size;
	return true;
}

static inline bool test_ring_put(struct test_ring *test, const struct test_record *record)
{
	return test_ring_write(test, record->bytes, record->size);
}

static inline bool test_ring_next(struct test_ring *test, struct sp_event *ret)
{
	return test->ring.stream.ops->next(&test->ring.stream, ret);
}

static inline void test_ring_release(struct test_ring *test, size_t count)
{
	test->ring.stream.ops->release(&test->ring.stream, count);
}

#endif
