/* Unit tests of the recording file: all records come back, and nothing that happens to the file is worse than a loss.
 */
#include "record_text.h"
#include "sampler/profile/segment_file.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct sp_frame deep[] = {
	{ .address = 0xffffffff81000010, .kind = SP_FRAME_IP, .mode = SP_MODE_KERNEL },
	{ .address = 0xffffffff81000200, .kind = SP_FRAME_RETURN_ADDRESS, .mode = SP_MODE_KERNEL },
	{ .address = 0x7f0000001000, .kind = SP_FRAME_IP, .mode = SP_MODE_USER },
	{ .address = 0x555500000010, .kind = SP_FRAME_RETURN_ADDRESS, .origin = SP_FOUND_FRAME_POINTER },
	{ .address = 0, .kind = SP_FRAME_ADJUSTED, .mode = SP_MODE_GUEST, .origin = SP_FOUND_SPLICED_STACK },
};
static const struct sp_frame other[] = {
	{ .address = 0x7f0000002000, .kind = SP_FRAME_IP, .mode = SP_MODE_USER },
	{ .address = 0x555500000010, .kind = SP_FRAME_RETURN_ADDRESS, .origin = SP_FOUND_FRAME_POINTER },
	{ .address = 0, .kind = SP_FRAME_ADJUSTED, .mode = SP_MODE_GUEST, .origin = SP_FOUND_SPLICED_STACK },
};

#define SAMPLE(...)                                                                                 \
	{                                                                                           \
		.type = SP_RECORD_SAMPLE, .sample = {.cpu = SP_CPU_NONE, .weight = 1, __VA_ARGS__ } \
	}

/* Every type of record, with extreme values where a field has room for them. */
static const struct sp_record all[] = {
	{ .type = SP_RECORD_META, .meta = { .key = "product", .value = "sp \xc3\xa9" } },
	{ .type = SP_RECORD_CLOCK, .clock = { .name = "CLOCK_MONOTONIC", .time = 1000, .wall_ns = UINT64_MAX } },
	{ .type = SP_RECORD_SOURCE, .source = { .source = 0, .name = "cycles", .unit = "cycles", .rate = 1000.5 } },
	{ .type = SP_RECORD_SOURCE, .source = { .source = 1, .name = "switch", .unit = "ns", .off_cpu = true } },
	{ .type = SP_RECORD_PROCESS,
	  .process = { .process = 0,
	               .previous = SP_HANDLE_NONE,
	               .parent = SP_HANDLE_NONE,
	               .pid = UINT32_MAX,
	               .time = UINT64_MAX,
	               .found = true,
	               .name = "" } },
	{ .type = SP_RECORD_PROCESS,
	  .process = { .process = 1,
	               .previous = 0,
	               .parent = 0,
	               .pid = 2,
	               .generation = UINT32_MAX,
	               .time = 5,
	               .name = "cc1plus",
	               .command_line = "cc1plus -O2 x" } },
	{ .type = SP_RECORD_THREAD,
	  .thread = { .thread = 0, .process = 0, .tid = 77, .time = 1, .main = true, .name = "main" } },
	{ .type = SP_RECORD_THREAD,
	  .thread = { .thread = 1, .process = 1, .tid = UINT32_MAX, .time = 2, .name = "t" } },
	{ .type = SP_RECORD_THREAD_NAME, .thread_name = { .thread = 1, .time = 1, .name = "renamed" } },
	{ .type = SP_RECORD_MODULE,
	  .module = { .module = 0,
	              .kind = SP_MODULE_VDSO,
	              .name = "[vdso]",
	              .path = "/p",
	              .debug_name = "d",
	              .debug_path = "/d",
	              .debug_id = "0123456789ABCDEF0",
	              .code_id = "cafe",
	              .arch = "x86_64",
	              .kept_path = "/kept",
	              .note = "why not" } },
	{ .type = SP_RECORD_MODULE,
	  .module = { .module = 1,
	              .kind = SP_MODULE_KERNEL,
	              .name = "",
	              .path = "",
	              .debug_name = "",
	              .debug_path = "",
	              .debug_id = "",
	              .code_id = "",
	              .arch = "" } },
	{ .type = SP_RECORD_MAPPING,
	  .mapping = { .process = 0, .module = 0, .time = 7, .start = 0x1000, .size = 0x2000, .base = UINT64_MAX } },
	{ .type = SP_RECORD_MAPPING,
	  .mapping = { .process = SP_HANDLE_NONE, .module = 1, .time = 8, .start = 1ull << 63, .size = 1, .base = 0 } },
	{ .type = SP_RECORD_UNMAPPING, .unmapping = { .process = 0, .time = 9, .start = 0x1000, .size = 0x1000 } },
	{ .type = SP_RECORD_JIT_FUNCTION,
	  .jit_function = { .process = 0, .time = 10, .start = 1, .size = 2, .name = "f", .late = true } },
	{ .type = SP_RECORD_JIT_FUNCTION, .jit_function = { .process = 0, .time = 11, .start = 1, .size = 2 } },
	SAMPLE(.thread = 0, .source = 0, .time = 20, .frames = deep, .frame_count = 5),
	SAMPLE(.thread = 0, .source = 0, .time = 19, .frames = other, .frame_count = 3, .cpu_delta = UINT64_MAX,
	       .cpu_delta_known = true, .end = SP_UNWIND_NO_REGS),
	{ .type = SP_RECORD_SAMPLE,
	  .sample = { .thread = 1,
	              .source = 1,
	              .time = UINT64_MAX,
	              .cpu = 0,
	              .weight = INT64_MIN,
	              .label = "[kernel, not sampled]" } },
	SAMPLE(.thread = 0, .source = 0, .time = 21, .frames = deep + 1, .frame_count = 4),
	SAMPLE(.thread = 0, .source = 0, .time = 22, .frames = deep, .frame_count = 5),
	{ .type = SP_RECORD_MARKER, .marker = { .thread = 1, .time = 30, .end_time = 40, .name = "m", .text = "x" } },
	{ .type = SP_RECORD_MARKER, .marker = { .thread = SP_HANDLE_NONE, .time = 31, .end_time = 31, .name = "m" } },
	{ .type = SP_RECORD_COUNTER,
	  .counter = { .counter = 0, .process = 1, .name = "n", .category = "c", .description = "d", .unit = "u" } },
	{ .type = SP_RECORD_COUNTER_VALUE, .counter_value = { .counter = 0, .time = 32, .delta = -1.25 } },
	{ .type = SP_RECORD_LOSS,
	  .loss = { .kind = SP_LOSS_LATE, .thread = 0, .cpu = 3, .time = 33, .end_time = 34, .count = UINT64_MAX } },
	{ .type = SP_RECORD_LOSS,
	  .loss = { .kind = SP_LOSS_RING_FULL, .thread = SP_HANDLE_NONE, .cpu = SP_CPU_NONE, .time = 35 } },
	{ .type = SP_RECORD_THREAD_END, .thread_end = { .thread = 1, .time = 50 } },
	{ .type = SP_RECORD_PROCESS_END, .process_end = { .process = 1, .time = 51 } },
	/* Late facts about what has ended. */
	{ .type = SP_RECORD_MARKER, .marker = { .thread = 1, .time = 52, .end_time = 52, .name = "late" } },
	{ .type = SP_RECORD_JIT_FUNCTION,
	  .jit_function = { .process = 1, .time = 53, .start = 5, .size = 6, .name = "g", .late = true } },
};
#define ALL (sizeof(all) / sizeof(all[0]))

static char path[] = "/tmp/sp-test-recording-XXXXXX";

static int make_file(void **state)
{
	(void)state;
	int fd = mkstemp(path);
	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

static void write_file(const void *bytes, size_t size)
{
	FILE *file = fopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

static uint8_t *read_file(size_t *ret_size)
{
	FILE *file = fopen(path, "rb");
	assert_non_null(file);
	uint8_t *bytes = malloc(1 << 20);
	assert_non_null(bytes);
	*ret_size = fread(bytes, 1, 1 << 20, file);
	fclose(file);
	return bytes;
}

/* Where each segment of the latest file ends. */
static size_t ends[ALL + 2];
static size_t end_count;

static void note_end(void)
{
	size_t size;
	free(read_file(&size));
	if (size != (end_count ? ends[end_count - 1] : 0))
		ends[end_count++] = size;
}

/* Writes `all` with a segment's end after every `per_segment` records (0: one segment), and renders it. */
static void write_all_records(size_t per_segment, struct text *ret)
{
	struct sp_recording_writer *writer;
	ok(sp_recording_writer_create(path, &writer));
	ret->size = end_count = 0;
	for (size_t i = 0; i < ALL; i++) {
		ok(sp_recording_write(writer, &all[i]));
		render(ret, &all[i], NULL);
		if (per_segment && i % per_segment == per_segment - 1)
			ok(sp_recording_flush(writer));
		note_end();
	}
	ok(sp_recording_flush(writer));
	note_end();
	ok(sp_recording_writer_finish(writer));
	note_end();
}

/* Reads the file to its end into *ret. */
static bool read_all_records(struct text *ret, uint64_t *ret_dropped)
{
	struct sp_recording_reader *reader;
	struct sp_record record;
	bool more;
	ret->size = 0;
	ret->bytes[0] = '\0';
	ok(sp_recording_reader_create(path, &reader));
	for (;;) {
		ok(sp_recording_read(reader, &record, &more));
		if (!more)
			break;
		render(ret, &record, reader);
	}
	bool finished = sp_recording_finished(reader, ret_dropped);
	sp_recording_reader_destroy(reader);
	return finished;
}

static struct text written, got;

static void test_round_trip(void **state)
{
	(void)state;
	/* The second and third force definitions to be repeated in front of their uses. */
	static const size_t per_segment[] = { 0, 1, 7 };
	for (size_t i = 0; i < 3; i++) {
		uint64_t dropped;
		write_all_records(per_segment[i], &written);
		assert_true(read_all_records(&got, &dropped));
		assert_string_equal(written.bytes, got.bytes);
		assert_int_equal(dropped, 0);
	}
}

static void test_equal_stacks_are_one_node(void **state)
{
	(void)state;
	struct sp_recording_reader *reader;
	struct sp_record record;
	bool more;
	write_all_records(0, &written);
	ok(sp_recording_reader_create(path, &reader));
	uint32_t deep_node[2], seen = 0;
	for (;;) {
		ok(sp_recording_read(reader, &record, &more));
		if (!more)
			break;
		if (record.type == SP_RECORD_SAMPLE && (record.sample.time == 20 || record.sample.time == 22))
			deep_node[seen++] = record.sample.stack;
	}
	assert_int_equal(seen, 2);
	assert_int_equal(deep_node[0], deep_node[1]);
	size_t nodes;
	sp_recording_stack_nodes(reader, &nodes);
	assert_int_equal(nodes, 6);
	sp_recording_reader_destroy(reader);
}

/* A tail torn at any byte: what the whole segments before it held, and all other bytes are accounted for. */
static void test_torn_tail(void **state)
{
	(void)state;
	write_all_records(3, &written);
	size_t size;
	uint8_t *bytes = read_file(&size);
	size_t segments = 0, at_boundary = 0;
	for (size_t n = 0; n < size; n++) {
		uint64_t dropped;
		write_file(bytes, n);
		assert_false(read_all_records(&got, &dropped));
		assert_memory_equal(written.bytes, got.bytes, got.size);
		if (n == ends[segments]) {
			segments++;
			assert_true(got.size > at_boundary);
			at_boundary = got.size;
		}
		assert_int_equal(got.size, at_boundary);
		assert_int_equal(dropped, n - (segments ? ends[segments - 1] : 0));
	}
	free(bytes);
}

/* One bit wrong anywhere is as if the segment with it were not there. */
static void test_bit_flips(void **state)
{
	(void)state;
	static struct text expected;
	write_all_records(4, &written);
	size_t size;
	uint8_t *bytes = read_file(&size);
	uint8_t *without = malloc(size);
	assert_non_null(without);
	assert_int_equal(ends[end_count - 1], size);
	for (size_t segment = 0; segment < end_count; segment++) {
		size_t start = segment ? ends[segment - 1] : 0;
		uint64_t dropped;
		memcpy(without, bytes, start);
		memcpy(without + start, bytes + ends[segment], size - ends[segment]);
		write_file(without, size - (ends[segment] - start));
		assert_int_equal(read_all_records(&expected, &dropped), segment + 1 < end_count);
		assert_int_equal(dropped, 0);
		for (size_t i = start; i < ends[segment]; i++) {
			bytes[i] ^= (uint8_t)(1 << i % 8);
			write_file(bytes, size);
			assert_int_equal(read_all_records(&got, &dropped), segment + 1 < end_count);
			assert_string_equal(expected.bytes, got.bytes);
			assert_int_equal(dropped, ends[segment] - start);
			bytes[i] ^= (uint8_t)(1 << i % 8);
		}
	}
	free(bytes);
	free(without);
}

/* What follows a lost segment still has its definitions: nothing is attributed to the wrong thread. */
static void test_lost_segment(void **state)
{
	(void)state;
	struct sp_recording_writer *writer;
	struct sp_record sample = SAMPLE(.thread = 1, .source = 0, .time = 20, .frames = deep, .frame_count = 5);
	ok(sp_recording_writer_create(path, &writer));
	for (size_t i = 0; i < 16; i++)
		ok(sp_recording_write(writer, &all[i]));
	ok(sp_recording_flush(writer));
	ok(sp_recording_write(writer, &sample));
	ok(sp_recording_writer_finish(writer));
	size_t size;
	uint8_t *bytes = read_file(&size);
	bytes[100] ^= 1;
	write_file(bytes, size);
	free(bytes);
	uint64_t dropped;
	assert_true(read_all_records(&got, &dropped));
	/* The process's other handle is gone with the segment, and its own and the thread's number are the first now.
	 */
	assert_string_equal(
	    got.bytes,
	    "process 0 previous 4294967295 parent 4294967295 pid 2 generation 4294967295 time 5 found 0 cc1plus "
	    "cc1plus -O2 x\n"
	    "thread 0 process 0 tid 4294967295 time 2 main 0 t\n"
	    "source 0 cycles cycles 0 1000.5\n"
	    "sample thread 0 source 0 time 20 cpu 4294967295 end 0 label (null) delta 0/0 weight 1: "
	    "ffffffff81000010/0/1/0 ffffffff81000200/1/1/0 7f0000001000/0/0/0 555500000010/1/0/1 0/2/2/4\n");
}

static void test_tail_follows_a_growing_file(void **state)
{
	(void)state;
	struct sp_recording_writer *writer;
	struct sp_recording_reader *reader;
	struct sp_record record;
	bool more;
	uint64_t dropped;
	written.size = got.size = 0;
	ok(sp_recording_writer_create(path, &writer));
	ok(sp_recording_reader_create(path, &reader));
	for (size_t i = 0; i < ALL; i++) {
		ok(sp_recording_write(writer, &all[i]));
		render(&written, &all[i], NULL);
		ok(sp_recording_read(reader, &record, &more));
		assert_false(more);
		ok(sp_recording_flush(writer));
		for (;;) {
			ok(sp_recording_read(reader, &record, &more));
			if (!more)
				break;
			render(&got, &record, reader);
		}
		assert_string_equal(written.bytes, got.bytes);
		assert_false(sp_recording_finished(reader, &dropped));
	}
	ok(sp_recording_writer_finish(writer));
	ok(sp_recording_read(reader, &record, &more));
	assert_false(more);
	assert_true(sp_recording_finished(reader, &dropped));
	assert_int_equal(dropped, 0);
	sp_recording_reader_destroy(reader);
}

/* Many threads with stacks that differ in every place, over many segments; frames are known by construction. */
static void test_many_stacks(void **state)
{
	(void)state;
	enum { THREADS = 5, SAMPLES = 20000, DEPTH = 60 };
	struct sp_recording_writer *writer;
	ok(sp_recording_writer_create(path, &writer));
	for (size_t i = 0; i < 5; i++)
		ok(sp_recording_write(writer, &all[i]));
	for (uint32_t i = 0; i < THREADS; i++) {
		struct sp_record thread = { .type = SP_RECORD_THREAD,
			                    .thread = { .thread = i, .process = 0, .tid = i, .name = "t" } };
		ok(sp_recording_write(writer, &thread));
	}
	struct sp_frame frames[DEPTH];
	uint64_t random = 1;
	uint64_t sum = 0, nodes_sum = 0;
	for (uint32_t i = 0; i < SAMPLES; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		uint32_t depth = (uint32_t)(random >> 33) % (DEPTH + 1);
		uint32_t changed = (uint32_t)(random >> 40) % (DEPTH + 1);
		for (uint32_t k = 0; k < depth; k++) {
			uint64_t low = k < changed ? random >> 44 : 7;
			frames[k] = (struct sp_frame){ .address = 0x400000 + 64 * (depth - k) + low % 8,
				                       .kind = SP_FRAME_RETURN_ADDRESS };
			sum += frames[k].address * (i + 1);
		}
		struct sp_record sample = SAMPLE(.thread = (uint32_t)(random >> 35) % THREADS, .source = 0, .time = i,
		                                 .frames = frames, .frame_count = depth);
		ok(sp_recording_write(writer, &sample));
	}
	ok(sp_recording_writer_finish(writer));

	struct sp_recording_reader *reader;
	struct sp_record record;
	bool more;
	uint32_t count = 0;
	ok(sp_recording_reader_create(path, &reader));
	for (;;) {
		ok(sp_recording_read(reader, &record, &more));
		if (!more)
			break;
		if (record.type != SP_RECORD_SAMPLE)
			continue;
		assert_int_equal(record.sample.time, count++);
		size_t total;
		const struct sp_stack_node *nodes = sp_recording_stack_nodes(reader, &total);
		for (uint32_t node = record.sample.stack; node != SP_HANDLE_NONE; node = nodes[node].parent)
			nodes_sum += nodes[node].address * count;
	}
	assert_int_equal(count, SAMPLES);
	assert_true(nodes_sum == sum);
	sp_recording_reader_destroy(reader);
}

static void test_wrong_use_is_refused(void **state)
{
	(void)state;
	struct sp_recording_writer *writer;
	ok(sp_recording_writer_create(path, &writer));
	struct sp_record sample = SAMPLE(.thread = 0, .source = 0);
	struct sp_error *error = sp_recording_write(writer, &sample);
	assert_non_null(error);
	assert_int_equal(error->code, SP_ERROR_USAGE);
	sp_error_destroy(error);
	/* It is not sticky, and leaves nothing behind. */
	ok(sp_recording_write(writer, &all[2]));
	error = sp_recording_write(writer, &all[2]);
	assert_non_null(error);
	sp_error_destroy(error);
	ok(sp_recording_writer_finish(writer));
	uint64_t dropped;
	assert_true(read_all_records(&got, &dropped));
	assert_string_equal(got.bytes, "source 0 cycles cycles 0 1000.5\n");
}

static void test_long_strings_are_cut(void **state)
{
	(void)state;
	struct sp_recording_writer *writer;
	struct sp_recording_reader *reader;
	struct sp_record record;
	bool more;
	char *value = malloc(200001);
	assert_non_null(value);
	memset(value, 'x', 200000);
	value[200000] = '\0';
	ok(sp_recording_writer_create(path, &writer));
	struct sp_record meta = { .type = SP_RECORD_META, .meta = { .key = "k", .value = value } };
	ok(sp_recording_write(writer, &meta));
	ok(sp_recording_writer_finish(writer));
	ok(sp_recording_reader_create(path, &reader));
	ok(sp_recording_read(reader, &record, &more));
	assert_true(more);
	assert_int_equal(strlen(record.meta.value), 65535);
	sp_recording_reader_destroy(reader);
	free(value);
}

/* A full disk: the error stays, is said at each call, and the writer can be ended. */
static void test_full_disk(void **state)
{
	(void)state;
	if (access("/dev/full", W_OK)) {
		print_message("SKIPPED: no /dev/full\n");
		skip();
	}
	struct sp_recording_writer *writer;
	ok(sp_recording_writer_create("/dev/full", &writer));
	ok(sp_recording_write(writer, &all[0]));
	for (int i = 0; i < 2; i++) {
		struct sp_error *error = sp_recording_flush(writer);
		assert_non_null(error);
		assert_int_equal(error->code, SP_ERROR_SYSTEM);
		assert_non_null(strstr(error->message, "/dev/full"));
		sp_error_destroy(error);
		error = sp_recording_write(writer, &all[0]);
		assert_non_null(error);
		sp_error_destroy(error);
	}
	struct sp_error *error = sp_recording_writer_finish(writer);
	assert_non_null(error);
	sp_error_destroy(error);
}

static void *count_bytes(void *argument)
{
	static char buffer[65536];
	int fd = *(int *)argument;
	size_t all_bytes = 0;
	for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;)
		all_bytes += (size_t)n;
	return (void *)all_bytes;
}

/* A disk that stands still for a minute does not stop whoever records: here a pipe that nobody reads until all is
 * handed over. */
static void test_standing_disk(void **state)
{
	(void)state;
	enum { SEGMENTS = 60, SIZE = 256 << 10 };
	char folder[] = "/tmp/sp-recording-XXXXXX", pipe_path[64];
	assert_non_null(mkdtemp(folder));
	snprintf(pipe_path, sizeof(pipe_path), "%s/pipe", folder);
	assert_int_equal(mkfifo(pipe_path, 0600), 0);
	int reader = open(pipe_path, O_RDONLY | O_NONBLOCK);
	assert_true(reader >= 0);
	struct sp_segment_file *file;
	ok(sp_segment_file_create(pipe_path, &file));
	uint32_t random = 1;
	for (uint32_t i = 0; i < SEGMENTS; i++) {
		struct sp_segment_header header = { .type = SP_SEGMENT_RECORDS, .sequence = i };
		struct sp_bytes payload = { 0 };
		assert_true(sp_bytes_reserve(&payload, SIZE));
		for (; payload.count < SIZE; payload.count++)
			payload.items[payload.count] = (uint8_t)((random = random * 1664525 + 1013904223) >> 24);
		ok(sp_segment_file_put(file, &header, &payload));
		free(payload.items);
	}
	assert_int_equal(fcntl(reader, F_SETFL, 0), 0);
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, count_bytes, &reader), 0);
	ok(sp_segment_file_destroy(file));
	void *all_bytes;
	assert_int_equal(pthread_join(thread, &all_bytes), 0);
	assert_int_equal((size_t)all_bytes, SEGMENTS * (SP_SEGMENT_HEADER_SIZE + SIZE));
	close(reader);
	unlink(pipe_path);
	rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_equal_stacks_are_one_node),
		cmocka_unit_test(test_torn_tail),
		cmocka_unit_test(test_bit_flips),
		cmocka_unit_test(test_lost_segment),
		cmocka_unit_test(test_tail_follows_a_growing_file),
		cmocka_unit_test(test_many_stacks),
		cmocka_unit_test(test_wrong_use_is_refused),
		cmocka_unit_test(test_long_strings_are_cut),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_standing_disk),
	};
	return cmocka_run_group_tests(tests, make_file, remove_file);
}
