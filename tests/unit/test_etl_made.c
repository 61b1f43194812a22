/* Unit tests of traces that no public file holds: kinds of record headers, identities over time, losses. Names, counts
 * and times are known since the trace was made so. */
#include "etl_made.h"

#include "platform/windows/etl_format.h"

#define PID 4321
#define KERNEL 0xfffff80000001000u
#define USER 0x140001000u

/* A process and its threads 11 and 12. */
static struct made *begin(const struct sp_etl_writer_options *options)
{
	struct made *made = made_begin(8, options);
	put_process(made, SP_ETL_DC_START, 0, PID, 1, "a.exe", true);
	put_thread(made, SP_ETL_DC_START, 0, PID, 11, "");
	put_thread(made, SP_ETL_DC_START, 0, PID, 12, "second");
	return made;
}

/* ---- Waits ---- */

/* A wait becomes an off-CPU sample from its beginning to its end, weighted by the timer's interval (1 ms), with its
 * reason and the thread that ended it. */
static void test_waits(void **state)
{
	(void)state;
	struct made *made = begin(NULL);
	struct sp_import_result result;
	put_switch(made, 1 * MS, 11, 0, 0, 0);
	put_switch(made, 2 * MS, 12, 11, 6, 5); /* 11 waits (state 5) for a user request (6) */
	put_ready(made, 5 * MS, 12, PID, 11);
	put_switch(made, 6 * MS, 11, 12, 0, 1); /* 12 stays ready (1): it was preempted */
	put_switch(made, 9 * MS, 12, 11, 6, 5);
	const struct sp_trace *trace = read_back(made);
	assert_int_equal(trace->counts.switches, 4);
	assert_int_equal(trace->counts.readies, 1);
	assert_int_equal(trace->counts.off_cpu, 2);
	assert_int_equal(trace->samples.count, 2);
	const struct sp_trace_sample *wait = &trace->samples.items[0], *preempted = &trace->samples.items[1];
	assert_int_equal(wait->kind, SP_TRACE_OFF_CPU);
	assert_int_equal(tid_of(trace, wait->thread), 11);
	assert_int_equal(wait->ip, 2 * NS_OF_MS);
	assert_int_equal(wait->time, 6 * NS_OF_MS);
	assert_int_equal(wait->weight, 4);
	assert_int_equal(wait->cpu_ns, NS_OF_MS);
	assert_int_equal(wait->reason, 6);
	assert_int_equal(wait->state, 5);
	assert_int_equal(tid_of(trace, wait->waker), 12);
	assert_int_equal(tid_of(trace, preempted->thread), 12);
	assert_int_equal(preempted->ip, 6 * NS_OF_MS);
	assert_int_equal(preempted->weight, 3);
	assert_int_equal(preempted->state, 1);
	assert_int_equal(tid_of(trace, preempted->waker), 0);
	assert_string_equal(process_name_of(trace, wait->thread), "a.exe");
	const char *text = recorded(made, &result);
	assert_has(text, "label [blocked: UserRequest, woken by second of a.exe]");
	assert_has(text, "label [off-CPU: ready to run, preempted]");
	sp_import_result_deinit(&result);
	made_end(made);
}

/* ---- Record headers ---- */

/* The same events with the short header that has no times are the same. */
static void test_compact_headers(void **state)
{
	(void)state;
	static const uint8_t pointer_sizes[] = { 8, 4 };
	for (unsigned i = 0; i < 2; i++) {
		struct made *made = made_begin(pointer_sizes[i], NULL);
		struct bytes thread = thread_payload(made, 77, 78, "compact"),
		             change = switch_payload(made, 78, 0, 0, 0);
		put_process(made, SP_ETL_DC_START, 0, 77, 1, "b.exe", false);
		put_kernel(made, true, 0, SP_ETL_GROUP_THREAD, SP_ETL_DC_START, 3, 1 * MS, 9, 10, &thread);
		put_kernel(made, true, 0, SP_ETL_GROUP_THREAD, SP_ETL_THREAD_CSWITCH, 3, 2 * MS, SP_ETL_ID_UNKNOWN,
		           SP_ETL_ID_UNKNOWN, &change);
		put_sample(made, 3 * MS, USER, 78, 0);
		const struct sp_trace *trace = read_back(made);
		assert_int_equal(trace->samples.count, 1);
		assert_int_equal(trace->samples.items[0].cpu_ns, NS_OF_MS);
		assert_int_equal(tid_of(trace, trace->samples.items[0].thread), 78);
		assert_string_equal(process_name_of(trace, trace->samples.items[0].thread), "b.exe");
		assert_string_equal(sp_trace_get(trace, trace->threads.items[trace->samples.items[0].thread].name),
		                    "compact");
		assert_int_equal(sp_etl_reader_counts(made->reader)->skipped_records, 0);
		made_end(made);
	}
}

/* Counters and a PEBS index stand between header and payload. */
static void test_words_before_the_payload(void **state)
{
	(void)state;
	static const uint16_t words[] = { 0x0100, 0x0400, 0x8000, 0x8700 };
	static const unsigned counts[] = { 1, 4, 1, 8 };
	for (unsigned i = 0; i < 4; i++) {
		struct made *made = begin(NULL);
		struct bytes sample = sample_payload(made, USER, 12, 1, 0), change = switch_payload(made, 11, 12, 5, 5);
		put_perf(made, words[i], SP_ETL_GROUP_PERFINFO, SP_ETL_PERF_SAMPLE, 2, 3 * MS, &sample);
		put_kernel(made, i & 1, words[i], SP_ETL_GROUP_THREAD, SP_ETL_THREAD_CSWITCH, 3, 4 * MS,
		           SP_ETL_ID_UNKNOWN, SP_ETL_ID_UNKNOWN, &change);
		const struct sp_trace *trace = read_back(made);
		assert_int_equal(trace->samples.count, 1);
		assert_int_equal(trace->samples.items[0].ip, USER);
		assert_int_equal(tid_of(trace, trace->samples.items[0].thread), 12);
		assert_int_equal(trace->counts.switches, 1);
		assert_true(trace->threads.items[trace->samples.items[0].thread].off_cpu);
		struct sp_etl_event event;
		bool seen = false;
		sp_etl_reader_rewind(made->reader);
		while (sp_etl_reader_next(made->reader, &event))
			seen |= event.opcode == SP_ETL_PERF_SAMPLE && event.counters == counts[i];
		assert_true(seen);
		made_end(made);
	}
}

/* Kinds that carry nothing for us are passed over by their size, and counted. */
static void test_other_records(void **state)
{
	(void)state;
	static const uint8_t types[] = { SP_ETL_TYPE_INSTANCE32, SP_ETL_TYPE_INSTANCE64, SP_ETL_TYPE_TIMED,
		                         SP_ETL_TYPE_ERROR, SP_ETL_TYPE_WNODE };
	struct made *made = begin(NULL);
	for (unsigned i = 0; i <= sizeof(types); i++) {
		struct bytes record = begin_bytes(made);
		u16(&record, 0);
		u8(&record, i < sizeof(types) ? types[i] : 0);
		u8(&record, i < sizeof(types) ? SP_ETL_MARKER_TRACE : SP_ETL_MARKER_MESSAGE);
		zeros(&record, 0x4c);
		put_record(made, &record, false);
	}
	put_sample(made, 1 * MS, USER, 11, 0);
	const struct sp_trace *trace = read_back(made);
	assert_int_equal(sp_etl_reader_counts(made->reader)->skipped_records, sizeof(types) + 1);
	assert_int_equal(sp_etl_reader_counts(made->reader)->corrupt_buffers, 0);
	assert_int_equal(trace->samples.count, 1);
	made_end(made);
}

/* ---- Identities ---- */

/* A number that is given out again means another thread or process, but events of the old one may come late. */
static void test_reuse_of_numbers(void **state)
{
	(void)state;
	struct made *made = begin(NULL);
	struct sp_import_result result;
	put_sample(made, 1 * MS, USER, 11, 0);
	put_thread(made, SP_ETL_STOP, 2 * MS, PID, 11, "");
	put_sample(made, 3 * MS, USER, 11, 0); /* late: still a.exe's */
	put_thread(made, SP_ETL_STOP, 4 * MS, PID, 12, "");
	put_process(made, SP_ETL_STOP, 4 * MS, PID, 1, "a.exe", true);
	put_process(made, SP_ETL_START, 5 * MS, 50, 1, "b.exe", false);
	put_thread(made, SP_ETL_START, 5 * MS, 50, 11, "of b");
	put_sample(made, 6 * MS, USER, 11, 0);
	put_process(made, SP_ETL_START, 7 * MS, PID, 50, "c.exe", false);
	put_thread(made, SP_ETL_START, 7 * MS, PID, 12, "of c");
	put_sample(made, 8 * MS, USER, 12, 0);
	put_process(made, SP_ETL_DC_STOP, 9 * MS, PID, 50, "c.exe", false);
	const struct sp_trace *trace = read_back(made);
	static const char *const names[] = { "a.exe", "a.exe", "b.exe", "c.exe" };
	assert_int_equal(trace->processes.count, 3);
	assert_int_equal(trace->threads.count, 4);
	assert_int_equal(trace->samples.count, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_string_equal(process_name_of(trace, trace->samples.items[i].thread), names[i]);
	assert_int_equal(trace->samples.items[0].thread, trace->samples.items[1].thread);
	const char *text = recorded(made, &result);
	assert_has(text, "process 0 previous 4294967295 parent 4294967295 pid 4321 generation 0 time 0 found 1 a.exe");
	assert_has(text, "parent 4294967295 pid 50 generation 0 time 5000000 found 0 b.exe");
	assert_has(text, "process 2 previous 4294967295 parent 1 pid 4321 generation 0 time 7000000 found 0 c.exe");
	assert_has(text, "process end 0 4000000\n");
	assert_int_equal(result.processes, 3);
	assert_int_equal(result.samples, 4);
	sp_import_result_deinit(&result);
	made_end(made);
}

/* Some recorders list what there was only at the end: it holds from the beginning. */
static void test_rundown_at_the_end(void **state)
{
	(void)state;
	struct made *made = made_begin(8, NULL);
	struct sp_import_result result;
	const uint64_t frames[] = { USER, USER + 0x50 };
	put_sample(made, 1 * MS, USER, 31, 0);
	put_stack(made, 1 * MS + 5, 1 * MS, 30, 31, frames, 2);
	put_sample(made, 2 * MS, USER, 32, 0); /* nothing but the rundown tells whose it is */
	put_process(made, SP_ETL_DC_STOP, 9 * MS, 30, 1, "late.exe", true);
	put_thread(made, SP_ETL_DC_STOP, 9 * MS, 30, 31, "worker");
	put_thread(made, SP_ETL_DC_STOP, 9 * MS, 30, 32, "");
	put_image(made, SP_ETL_IMAGE_DC_STOP, 9 * MS, 30, USER - 0x1000, 0x8000, "\\Device\\HarddiskVolume1\\late.exe");
	const struct sp_trace *trace = read_back(made);
	assert_int_equal(trace->processes.count, 1);
	assert_int_equal(trace->threads.count, 2);
	const char *text = recorded(made, &result);
	/* The process and the mapping come first in the recording, and hold from its first moment. */
	assert_has(text, "pid 30 generation 0 time 500 found 1 late.exe");
	assert_has(text, "tid 31 time 500 main 1 worker");
	assert_has(text, "mapping 0 0 500 140000000+8000 base 140000000");
	assert_has(text, "sample thread 0 source 0 time 1000000 cpu 0 end 0 label (null) delta 1000000/1 weight 1: "
	                 "140001000/0/0/0 140001050/1/0/0\n");
	assert_true(strstr(text, "mapping") < strstr(text, "sample thread"));
	assert_int_equal(result.samples, 2);
	assert_null(strstr(text, "[process not in the trace]"));
	sp_import_result_deinit(&result);
	made_end(made);
}

/* ---- Losses ---- */

static void patch(const struct made *made, long offset, const void *bytes, size_t size)
{
	FILE *file = fopen(made->path, "r+b");
	assert_non_null(file);
	fseek(file, offset, SEEK_SET);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	fclose(file);
}

/* Writes the file to the end; read_back() reads it. */
static void finish(struct made *made)
{
	uint64_t bytes;
	ok(sp_etl_writer_finish(made->writer, &bytes));
	made->writer = NULL;
}

static void many_samples(struct made *made, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		put_sample(made, (1 + i) * MS, USER, 11, 0);
}

/* A loss of `kind` with `count` is in the recording, and a line with `words` is told. */
static void assert_told(struct made *made, enum sp_loss_kind kind, uint64_t count, const char *words)
{
	struct sp_import_result result;
	struct sp_recording_writer *writer;
	const char *paths[] = { made->path, NULL };
	const struct sp_import_options options = { .paths = paths };
	char line[128], recording[80];
	snprintf(line, sizeof(line), "loss %u thread 4294967295 cpu ", kind);
	const char *text = recorded(made, &result), *found = strstr(text, line);
	sp_import_result_deinit(&result);
	assert_non_null(found);
	snprintf(line, sizeof(line), " %llu\n", (unsigned long long)count);
	if (strncmp(strchr(found, '\n') + 1 - strlen(line), line, strlen(line)))
		fail_msg("not %llu: %.100s", (unsigned long long)count, found);
	snprintf(recording, sizeof(recording), "%s.import", made->path);
	ok(sp_recording_writer_create(recording, &writer));
	ok(sp_etl_importer.import(&options, writer, &result));
	ok(sp_recording_writer_finish(writer));
	remove(recording);
	unsigned hits = 0;
	for (size_t i = 0; i < result.lines.count; i++)
		hits += result.lines.items[i].warning && strstr(result.lines.items[i].text, words);
	assert_int_equal(hits, 1);
	sp_import_result_deinit(&result);
}

/* The header's counts. Each file here has them: 5 events, 2 buffers. */
static void test_losses_in_the_header(void **state)
{
	(void)state;
	struct made *made = begin(NULL);
	read_back(made);
	const struct sp_etl_counts *counts = sp_etl_reader_counts(made->reader);
	assert_int_equal(counts->events_lost, 5);
	assert_int_equal(counts->buffers_lost, 2);
	assert_told(made, SP_LOSS_SAMPLES, 5, "events were lost while the trace was recorded (5 by its header)");
	assert_told(made, SP_LOSS_BUFFER, 2, "buffers were lost while the trace was recorded (2 by its header, 0 ");
	made_end(made);
}

static void test_losses_marked_on_buffers(void **state)
{
	(void)state;
	struct made *made = begin(
	    &(struct sp_etl_writer_options){ .loss_flags = SP_ETL_BUFFER_EVENTS_LOST | SP_ETL_BUFFER_BUFFER_LOST });
	read_back(made);
	const struct sp_etl_counts *counts = sp_etl_reader_counts(made->reader);
	assert_int_equal(counts->flagged_events_lost, 1);
	assert_int_equal(counts->flagged_buffer_lost, 1);
	assert_int_equal(counts->corrupt_buffers, 0);
	made_end(made);
}

/* A real-time session is told of its losses by events: lost event, lost buffer, lost file. */
static void test_losses_told_by_events(void **state)
{
	(void)state;
	struct made *made = begin(NULL);
	struct bytes nothing = begin_bytes(made);
	for (unsigned i = 0; i < 9; i++)
		put_classic(made, &sp_etl_guid_rt_lost, 32, 0, (1 + i) * MS, 0, 0, &nothing);
	for (unsigned i = 0; i < 3; i++)
		put_classic(made, &sp_etl_guid_rt_lost, 33, 0, (20 + i) * MS, 0, 0, &nothing);
	put_classic(made, &sp_etl_guid_rt_lost, 34, 0, 30 * MS, 0, 0, &nothing);
	const struct sp_trace *trace = read_back(made);
	assert_int_equal(trace->counts.rt_lost_events, 9);
	assert_int_equal(trace->counts.rt_lost_buffers, 4);
	assert_told(made, SP_LOSS_SAMPLES, 9, "events were lost while the trace was recorded");
	assert_told(made, SP_LOSS_BUFFER, 4, "buffers were lost while the trace was recorded");
	made_end(made);
}

/* Buffers are numbered; what is missing was lost. */
static void test_missing_buffers(void **state)
{
	(void)state;
	struct made *made = begin(NULL);
	const int64_t number = 11;
	many_samples(made, 3000); /* two buffers, and the header's */
	finish(made);
	patch(made, 2 * 65536 + 0x18, &number, sizeof(number));
	read_back(made);
	assert_int_equal(sp_etl_reader_counts(made->reader)->buffers, 3);
	assert_int_equal(sp_etl_reader_counts(made->reader)->missing_buffers, 9);
	assert_told(made, SP_LOSS_BUFFER, 9, "9 numbers missing");
	made_end(made);
}

static void test_corrupt_buffer(void **state)
{
	(void)state;
	struct made *made = begin(NULL);
	const uint32_t garbage = 0x12345678;
	many_samples(made, 3000);
	finish(made);
	patch(made, 2 * 65536 + SP_ETL_BUFFER_HEADER + 10 * 0x20, &garbage, sizeof(garbage));
	const struct sp_trace *trace = read_back(made);
	assert_int_equal(sp_etl_reader_counts(made->reader)->corrupt_buffers, 1);
	uint64_t in_first = (65536 - SP_ETL_BUFFER_HEADER) / 0x20; /* at most */
	assert_in_range(trace->samples.count, in_first - 40, in_first + 10);
	assert_told(made, SP_LOSS_BUFFER, 2 + 1, "1 buffers are damaged");
	made_end(made);
}

static void test_bad_compression(void **state)
{
	(void)state;
	struct made *made = begin(&(struct sp_etl_writer_options){ .compress = true });
	many_samples(made, 1500);
	finish(made);
	uint8_t garbage[64];
	memset(garbage, 0xff, sizeof(garbage));
	/* Behind the header's buffer: matches with bytes from before the beginning. */
	patch(made, 512 + SP_ETL_BUFFER_HEADER, garbage, sizeof(garbage));
	const struct sp_trace *trace = read_back(made);
	assert_int_equal(sp_etl_reader_counts(made->reader)->bad_compression, 1);
	assert_int_equal(trace->samples.count, 0);
	assert_told(made, SP_LOSS_BUFFER, 2 + 1, "1 could not be decompressed");
	made_end(made);
}

static void test_cut_short(void **state)
{
	(void)state;
	struct made *made = begin(NULL);
	many_samples(made, 3000);
	finish(made);
	assert_int_equal(truncate(made->path, 2 * 65536 + 12345), 0);
	const struct sp_trace *trace = read_back(made);
	assert_int_equal(sp_etl_reader_counts(made->reader)->truncated_bytes, 12345);
	assert_in_range(trace->samples.count, 1000, 2047);
	assert_told(made, SP_LOSS_BUFFER, 2 + 1, "the file ends in 12345 bytes that are no whole buffer");
	made_end(made);
}

/* ---- Filtering ---- */

/* A record that claims to be the header and comes before it in time does not become the header of a filtered trace. */
static void test_filter_takes_the_true_header(void **state)
{
	(void)state;
	struct made *made = begin(NULL);
	const uint32_t pids[] = { PID };
	const struct sp_import_options options = { .pids = pids, .pid_count = 1 };
	struct sp_filter_result result;
	char output[80];
	struct bytes payload = begin_bytes(made);
	zeros(&payload, 16);
	snprintf(output, sizeof(output), "%s.out", made->path);
	put_system(made, SP_ETL_GROUP_TRACE, SP_ETL_TRACE_HEADER, 2, 1, 0, 0, &payload);
	read_back(made);
	ok(sp_etl_filter_source(&options, &made->sources, output, &result));
	struct sp_etl_sources sources = { 0 };
	struct sp_etl_reader *reader;
	ok(sp_etl_sources_add(&sources, output));
	ok(sp_etl_reader_create(&sources, &reader));
	assert_int_equal(sp_etl_reader_header(reader, 0)->os_build, 19041);
	sp_etl_reader_destroy(reader);
	sp_etl_sources_deinit(&sources);
	remove(output);
	made_end(made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_compact_headers),
		cmocka_unit_test(test_words_before_the_payload),
		cmocka_unit_test(test_other_records),
		cmocka_unit_test(test_reuse_of_numbers),
		cmocka_unit_test(test_rundown_at_the_end),
		cmocka_unit_test(test_losses_in_the_header),
		cmocka_unit_test(test_losses_marked_on_buffers),
		cmocka_unit_test(test_losses_told_by_events),
		cmocka_unit_test(test_missing_buffers),
		cmocka_unit_test(test_corrupt_buffer),
		cmocka_unit_test(test_bad_compression),
		cmocka_unit_test(test_cut_short),
		cmocka_unit_test(test_filter_takes_the_true_header),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
