/* Unit tests of traces that no public file holds: made by our writer, with payloads as Microsoft documents the classes
 * Process_V4_TypeGroup1, Thread_V3_TypeGroup1, CSwitch (version 3), ReadyThread and SampledProfile. */
#include "platform/windows/etl_format.h"
#include "platform/windows/etl_import.h"
#include "platform/windows/etl_writer.h"
#include "platform/windows/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PID 4321
#define MILLISECOND 10000 /* ticks of the made clock */

struct made {
	char path[64];
	struct sp_etl_writer *writer;
	struct sp_import_options options;
	struct sp_etl_sources sources;
	struct sp_etl_reader *reader;
	struct sp_trace trace;
};

static void put(struct made *made, uint8_t group, uint8_t code, uint8_t version, uint64_t time, uint32_t tid,
                const void *payload, size_t size)
{
	uint8_t record[256] = { version, 0, SP_ETL_TYPE_SYSTEM64, SP_ETL_MARKER_TRACE };
	uint16_t whole = (uint16_t)(SP_ETL_SIZE_SYSTEM + size);
	uint32_t pid = tid ? PID : 0;
	memcpy(record + 4, &whole, 2);
	record[6] = code;
	record[7] = group;
	memcpy(record + 8, &tid, 4);
	memcpy(record + 12, &pid, 4);
	memcpy(record + 16, &time, 8);
	memcpy(record + SP_ETL_SIZE_SYSTEM, payload, size);
	assert_null(sp_etl_writer_put(made->writer, 0, record, whole));
}

static void put_process(struct made *made)
{
	struct __attribute__((packed)) {
		uint64_t key;
		uint32_t pid, parent, session;
		int32_t status;
		uint64_t directory;
		uint32_t flags, no_sid;
		char image[6];
		uint16_t command[4];
	} payload = { .key = 1, .pid = PID, .image = "a.exe", .command = { 'a', ' ', 'b' } };
	put(made, SP_ETL_GROUP_PROCESS, SP_ETL_DC_START, 4, 0, 0, &payload, sizeof(payload));
}

static void put_thread(struct made *made, uint32_t tid)
{
	struct __attribute__((packed)) {
		uint32_t pid, tid;
		uint64_t addresses[7];
		uint32_t tag;
		uint8_t priorities[4];
	} payload = { .pid = PID, .tid = tid };
	put(made, SP_ETL_GROUP_THREAD, SP_ETL_DC_START, 3, 0, 0, &payload, sizeof(payload));
}

static void put_switch(struct made *made, uint64_t time, uint32_t new, uint32_t old, uint8_t reason, uint8_t state)
{
	struct {
		uint32_t new, old;
		uint8_t new_priority, old_priority, previous_c_state, spare, reason, mode, state, ideal;
		uint32_t waited, reserved;
	} payload = { .new = new, .old = old, .reason = reason, .state = state };
	put(made, SP_ETL_GROUP_THREAD, SP_ETL_THREAD_CSWITCH, 3, time, SP_ETL_ID_UNKNOWN, &payload, sizeof(payload));
}

static void put_ready(struct made *made, uint64_t time, uint32_t waker, uint32_t tid)
{
	struct {
		uint32_t tid;
		uint8_t adjusted, increment, flags, reserved;
	} payload = { .tid = tid };
	put(made, SP_ETL_GROUP_THREAD, SP_ETL_THREAD_READY, 2, time, waker, &payload, sizeof(payload));
}

/* Begins a trace of 2 CPUs with a clock of 10 MHz, a process and its threads 11 and 12. */
static struct made *begin(uint16_t loss_flags)
{
	const struct sp_etl_header header = { .os_major = 10,
		                              .os_build = 19041,
		                              .cpus = 2,
		                              .buffer_size = 65536,
		                              .pointer_size = 8,
		                              .clock = SP_ETL_CLOCK_QPC,
		                              .frequency = 10000000,
		                              .raw_start = 5,
		                              .events_lost = 5,
		                              .buffers_lost = 2,
		                              .start_filetime = 130000000000000000u };
	uint8_t record[SP_ETL_HEADER_RECORD_MAX];
	struct made *made = calloc(1, sizeof(*made));
	assert_non_null(made);
	strcpy(made->path, "/tmp/sp-made-XXXXXX");
	close(mkstemp(made->path));
	const struct sp_etl_writer_options options = { .loss_flags = loss_flags,
		                                       .header = record,
		                                       .header_size = sp_etl_header_record(&header, record) };
	assert_null(sp_etl_writer_create(made->path, &options, &made->writer));
	put_process(made);
	put_thread(made, 11);
	put_thread(made, 12);
	return made;
}

static const struct sp_trace *read_back(struct made *made)
{
	struct sp_etl_event event;
	uint64_t bytes;
	assert_null(sp_etl_writer_finish(made->writer, &bytes));
	assert_null(sp_etl_sources_add(&made->sources, made->path));
	assert_null(sp_etl_reader_create(&made->sources, &made->reader));
	sp_trace_init(&made->trace, &made->options, made->reader, "/tmp");
	while (sp_etl_reader_next(made->reader, &event))
		assert_true(sp_trace_feed(&made->trace, &event));
	assert_true(sp_trace_finish(&made->trace));
	assert_int_equal(made->trace.counts.bad_payloads, 0);
	return &made->trace;
}

static void end(struct made *made)
{
	sp_trace_deinit(&made->trace);
	sp_etl_reader_destroy(made->reader);
	sp_etl_sources_deinit(&made->sources);
	remove(made->path);
	free(made);
}

static uint32_t tid_of(const struct sp_trace *trace, uint32_t thread)
{
	return thread == SP_TRACE_NONE ? 0 : trace->threads.items[thread].tid;
}

/* A wait becomes an off-CPU sample from its beginning to its end, weighted by the timer's interval (1 ms), with its
 * reason and the thread that ended it. */
static void test_waits(void **state)
{
	(void)state;
	struct made *made = begin(0);
	put_switch(made, 1 * MILLISECOND, 11, 0, 0, 0);
	put_switch(made, 2 * MILLISECOND, 12, 11, 6, 5); /* 11 waits (state 5) for a user request (6) */
	put_ready(made, 5 * MILLISECOND, 12, 11);
	put_switch(made, 6 * MILLISECOND, 11, 12, 0, 1); /* 12 stays ready (1): it was preempted */
	put_switch(made, 9 * MILLISECOND, 12, 11, 6, 5);
	const struct sp_trace *trace = read_back(made);
	assert_int_equal(trace->counts.switches, 4);
	assert_int_equal(trace->counts.readies, 1);
	assert_int_equal(trace->counts.off_cpu, 2);
	assert_int_equal(trace->samples.count, 2);
	const struct sp_trace_sample *wait = &trace->samples.items[0], *preempted = &trace->samples.items[1];
	assert_int_equal(wait->kind, SP_TRACE_OFF_CPU);
	assert_int_equal(tid_of(trace, wait->thread), 11);
	assert_int_equal(wait->ip, 2000000);
	assert_int_equal(wait->time, 6000000);
	assert_int_equal(wait->weight, 4);
	assert_int_equal(wait->cpu_ns, 1000000);
	assert_int_equal(wait->reason, 6);
	assert_int_equal(wait->state, 5);
	assert_int_equal(tid_of(trace, wait->waker), 12);
	assert_int_equal(tid_of(trace, preempted->thread), 12);
	assert_int_equal(preempted->ip, 6000000);
	assert_int_equal(preempted->weight, 3);
	assert_int_equal(preempted->state, 1);
	assert_int_equal(tid_of(trace, preempted->waker), 0);
	uint32_t process = trace->threads.items[wait->thread].process;
	assert_string_equal(sp_trace_get(trace, trace->processes.items[process].name), "a.exe");
	end(made);
}

/* Each kind of loss that a file can tell of is counted. */
static void test_losses(void **state)
{
	(void)state;
	struct made *made = begin(SP_ETL_BUFFER_EVENTS_LOST | SP_ETL_BUFFER_BUFFER_LOST);
	read_back(made);
	const struct sp_etl_counts *counts = sp_etl_reader_counts(made->reader);
	assert_int_equal(counts->events_lost, 5);
	assert_int_equal(counts->buffers_lost, 2);
	assert_int_equal(counts->flagged_events_lost, 1);
	assert_int_equal(counts->flagged_buffer_lost, 1);
	assert_int_equal(counts->corrupt_buffers, 0);
	end(made);
}

/* A record that claims to be the header and comes before it in time does not become the header of a filtered trace. */
static void test_filter_takes_the_true_header(void **state)
{
	(void)state;
	struct made *made = begin(0);
	const uint32_t pids[] = { PID };
	const struct sp_import_options options = { .pids = pids, .pid_count = 1 };
	struct sp_filter_result result;
	char output[80];
	snprintf(output, sizeof(output), "%s.out", made->path);
	put(made, SP_ETL_GROUP_TRACE, SP_ETL_TRACE_HEADER, 2, 1, 0, output, 16);
	read_back(made);
	assert_null(sp_etl_filter_source(&options, &made->sources, output, &result));
	struct sp_etl_sources sources = { 0 };
	struct sp_etl_reader *reader;
	assert_null(sp_etl_sources_add(&sources, output));
	assert_null(sp_etl_reader_create(&sources, &reader));
	assert_int_equal(sp_etl_reader_header(reader, 0)->os_build, 19041);
	sp_etl_reader_destroy(reader);
	sp_etl_sources_deinit(&sources);
	remove(output);
	end(made);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_waits), cmocka_unit_test(test_losses),
		                            cmocka_unit_test(test_filter_takes_the_true_header) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
