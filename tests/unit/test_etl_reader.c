/* Unit tests of the ETL reader: LZ77, real files with known counts, and files cut and damaged everywhere. */
#include "platform/windows/etl_reader.h"
#include "platform/windows/xpress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* The examples of [MS-XCA] 3.1. */
static void test_xpress_examples(void **state)
{
	(void)state;
	static const uint8_t alphabet[] = "\x3f\0\0\0abcdefghijklmnopqrstuvwxyz";
	static const uint8_t abc[] = { 0xff, 0xff, 0xff, 0x1f, 'a', 'b', 'c', 0x17, 0x00, 0x0f, 0xff, 0x26, 0x01 };
	uint8_t out[300];
	size_t got;
	assert_true(sp_xpress_decode(alphabet, sizeof(alphabet) - 1, out, 26, &got));
	assert_int_equal(got, 26);
	assert_memory_equal(out, "abcdefghijklmnopqrstuvwxyz", 26);
	assert_true(sp_xpress_decode(abc, sizeof(abc), out, 300, &got));
	assert_int_equal(got, 300);
	for (size_t i = 0; i < 300; i++)
		assert_int_equal(out[i], "abc"[i % 3]);
}

/* What is encoded comes back: runs of every length class, and noise. */
static void test_xpress_round_trip(void **state)
{
	(void)state;
	enum { SIZE = 300000 };
	uint8_t *in = malloc(SIZE), *packed = malloc(sp_xpress_bound(SIZE)), *out = malloc(SIZE);
	static const size_t runs[] = { 1, 3, 9, 10, 24, 25, 26, 279, 280, 281, 65537, 65538, 65539, 100000 };
	uint32_t random = 1;
	size_t count = 0;
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		for (size_t j = 0; j < 40 && count < SIZE; j++)
			in[count++] = (uint8_t)((random = random * 1103515245 + 12345) >> 16);
		for (size_t j = 0; j < runs[i] && count < SIZE; j++)
			in[count++] = (uint8_t)i;
	}
	for (size_t size = 0; size <= count; size = size < 70 ? size + 1 : size * 3) {
		size_t got, packed_size = sp_xpress_encode(in, size, packed);
		assert_true(packed_size <= sp_xpress_bound(size));
		assert_true(sp_xpress_decode(packed, packed_size, out, size, &got));
		assert_int_equal(got, size);
		assert_memory_equal(in, out, size);
	}
	size_t got, packed_size = sp_xpress_encode(in, count, packed);
	assert_true(sp_xpress_decode(packed, packed_size, out, count, &got));
	assert_int_equal(got, count);
	assert_memory_equal(in, out, count);
	free(in);
	free(packed);
	free(out);
}

static void test_xpress_malformed(void **state)
{
	(void)state;
	static const uint8_t before_start[] = { 0xff, 0xff, 0xff, 0xff, 0x00, 0x00 };
	static const uint8_t short_long[] = { 0, 0, 0, 0x40, 'a', 0x07, 0, 0x0f, 0xff, 0x01, 0x00 };
	uint8_t out[64];
	size_t got;
	assert_false(sp_xpress_decode(before_start, sizeof(before_start), out, sizeof(out), &got));
	assert_int_equal(got, 0);
	assert_false(sp_xpress_decode(short_long, sizeof(short_long), out, sizeof(out), &got));
}

/* ---- Real files ---- */

static struct sp_etl_reader *open_trace(const char *name, struct sp_etl_sources *sources)
{
	struct sp_etl_reader *reader;
	char path[512];
	snprintf(path, sizeof(path), "%s/etl/%s", TEST_SHARED_DATA, name);
	if (access(path, R_OK)) {
		printf("SKIPPED: no shared data (%s)\n", name);
		skip();
	}
	struct sp_error *error = sp_etl_sources_add(sources, path);
	assert_null(error);
	error = sp_etl_reader_create(sources, &reader);
	assert_null(error);
	return reader;
}

static void close_trace(struct sp_etl_reader *reader, struct sp_etl_sources *sources)
{
	sp_etl_reader_destroy(reader);
	sp_etl_sources_deinit(sources);
}

/* Counts by group and event code that another reader published with the file. */
static void test_counts(void **state)
{
	(void)state;
	static const struct {
		uint8_t group, opcode;
		unsigned count;
	} known[] = {
		{ SP_ETL_GROUP_PERFINFO, SP_ETL_PERF_SAMPLE, 79528 },
		{ SP_ETL_GROUP_IMAGE, SP_ETL_IMAGE_DC_START, 1763 },
		{ SP_ETL_GROUP_IMAGE, SP_ETL_IMAGE_DC_STOP, 1766 },
		{ SP_ETL_GROUP_IMAGE, SP_ETL_IMAGE_LOAD, 35 },
		{ SP_ETL_GROUP_IMAGE, SP_ETL_IMAGE_UNLOAD, 32 },
		{ SP_ETL_GROUP_THREAD, SP_ETL_START, 9 },
		{ SP_ETL_GROUP_THREAD, SP_ETL_STOP, 15 },
		{ SP_ETL_GROUP_STACK, SP_ETL_STACK_WALK, 252 },
		{ SP_ETL_GROUP_STACK, SP_ETL_STACK_KERNEL_KEY, 2061 },
		{ SP_ETL_GROUP_STACK, SP_ETL_STACK_USER_KEY, 7046 },
	};
	static unsigned counts[256][256];
	struct sp_etl_sources sources = { 0 };
	struct sp_etl_reader *reader = open_trace("net.4.5.2.x64.etl.zip", &sources);
	struct sp_etl_event event;
	uint64_t last = 0;
	unsigned definitions = 0;
	memset(counts, 0, sizeof(counts));
	while (sp_etl_reader_next(reader, &event)) {
		assert_true(event.time >= last);
		last = event.time;
		counts[event.group][event.opcode]++;
		definitions += event.group == SP_ETL_GROUP_STACK &&
		               (event.opcode == SP_ETL_STACK_DELETE || event.opcode == SP_ETL_STACK_RUNDOWN);
	}
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		assert_int_equal(counts[known[i].group][known[i].opcode], known[i].count);
	assert_int_equal(definitions, 2921);
	const struct sp_etl_counts *total = sp_etl_reader_counts(reader);
	assert_int_equal(total->buffers, 360);
	assert_int_equal(total->events, 179474);
	assert_int_equal(total->corrupt_buffers + total->bad_compression + total->skipped_records, 0);
	assert_int_equal(total->truncated_bytes + total->unordered + total->missing_buffers, 0);
	const struct sp_etl_header *header = sp_etl_reader_header(reader, 0);
	assert_int_equal(header->os_build, 9200);
	assert_int_equal(header->cpus, 8);
	assert_int_equal(header->pointer_size, 8);
	assert_int_equal(header->frequency, 10000000);
	close_trace(reader, &sources);
}

static void test_small_files(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		unsigned events;
	} known[] = { { "SelfDescribingSingleEvent.etl", 23 },
		      { "primitive-types.etl.zip", 7 },
		      { "gcevents.etl.zip", 71 } };
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		struct sp_etl_sources sources = { 0 };
		struct sp_etl_reader *reader = open_trace(known[i].name, &sources);
		struct sp_etl_event event;
		while (sp_etl_reader_next(reader, &event))
			;
		assert_int_equal(sp_etl_reader_counts(reader)->events, known[i].events);
		assert_int_equal(sp_etl_reader_counts(reader)->corrupt_buffers, 0);
		close_trace(reader, &sources);
	}
}

/* A real file cut at every length, and with every byte turned: an error or events, never a crash. */
static void test_damaged(void **state)
{
	(void)state;
	struct sp_etl_sources sources = { 0 };
	struct sp_etl_reader *reader = open_trace("SelfDescribingSingleEvent.etl", &sources);
	size_t size = (size_t)sources.list.items[0].size, got;
	uint8_t *bytes = malloc(size);
	assert_null(sp_etl_source_read(&sources.list.items[0], 0, bytes, size, &got));
	assert_int_equal(got, size);
	close_trace(reader, &sources);
	for (size_t i = 0; i < 2 * size; i++) {
		struct sp_etl_sources damaged = { 0 };
		uint8_t *copy = malloc(size);
		memcpy(copy, bytes, size);
		copy[i / 2] ^= i & 1 ? 0xff : 0x10;
		assert_null(sp_etl_sources_add_bytes(&damaged, "damaged", copy, i & 1 ? i / 2 : size));
		struct sp_error *error = sp_etl_reader_create(&damaged, &reader);
		struct sp_etl_event event;
		if (!error) {
			while (sp_etl_reader_next(reader, &event))
				;
			assert_true(sp_etl_reader_counts(reader)->events <= 64);
			sp_etl_reader_destroy(reader);
		}
		sp_error_destroy(error);
		sp_etl_sources_deinit(&damaged);
		free(copy);
	}
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_xpress_examples),  cmocka_unit_test(test_xpress_round_trip),
		cmocka_unit_test(test_xpress_malformed), cmocka_unit_test(test_counts),
		cmocka_unit_test(test_small_files),      cmocka_unit_test(test_damaged),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
