/* Rings of perf_event, made by hand: order, wrapping, release, loss, filters, and sizes that can't be. */
#include "perf_records.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct test_record record;

static void test_sample_fields(void **state)
{
	(void)state;
	struct test_ring test;
	test_ring_init(&test, 65536, &test_sample_layout);
	make_sample(&record, 7, 8, 1000, 5, 256, 128);
	assert_true(test_ring_put(&test, &record));
	struct sp_event event;
	assert_false(test_ring_next(&test, &event)); /* not before the snapshot */
	sp_perf_ring_snapshot(&test.ring);
	assert_true(test_ring_next(&test, &event));
	assert_int_equal(event.kind, SP_EVENT_SAMPLE);
	assert_int_equal(event.pid, 7);
	assert_int_equal(event.tid, 8);
	assert_int_equal(event.cpu, 1);
	assert_int_equal(event.time, 1000);
	assert_int_equal(event.sample.period, 1000000);
	assert_false(event.sample.in_kernel);
	assert_null(event.sample.kernel_chain);
	assert_int_equal(event.sample.user_chain_count, 2);
	assert_int_equal(event.sample.user_chain[1], 0x402000);
	assert_int_equal(event.sample.regs.arch, SP_ARCH_X86_64);
	assert_int_equal(event.sample.regs.known, 0x1ffff);
	/* The kernel's order is ax bx cx dx si di bp sp ip r8..r15. */
	assert_int_equal(event.sample.regs.value[SP_X86_64_RBX], 0x1001);
	assert_int_equal(event.sample.regs.value[SP_X86_64_RDX], 0x1003);
	assert_int_equal(event.sample.regs.value[SP_X86_64_RSP], 0x1007);
	assert_int_equal(event.sample.regs.value[SP_X86_64_RIP], 0x1008);
	assert_int_equal(event.sample.regs.value[SP_X86_64_R15], 0x1010);
	assert_int_equal(event.sample.stack.address, 0x1007);
	assert_int_equal(event.sample.stack.size, 128);
	assert_int_equal(event.sample.stack.bytes[5], (uint8_t)1005);
	assert_false(event.sample.stack_cut);
	/* Not copied. */
	assert_in_range((uintptr_t)event.sample.stack.bytes, (uintptr_t)test.data, (uintptr_t)test.data + test.size);
	test_ring_deinit(&test);
}

static void test_chain_with_both_parts(void **state)
{
	(void)state;
	begin_record(&record, SP_PERF_RECORD_SAMPLE, SP_PERF_MISC_KERNEL);
	const uint64_t chain[] = { SP_PERF_CONTEXT_KERNEL, 0xffffffff81000010, 0xffffffff81000020,
		                   SP_PERF_CONTEXT_USER,   0x401000,           SP_PERF_CONTEXT_KERNEL };
	struct sp_perf_layout layout = { .sample_type = SP_PERF_SAMPLE_CALLCHAIN, .arch = SP_ARCH_X86_64 };
	put64(&record, 6);
	put_bytes(&record, chain, sizeof(chain));
	end_record(&record);
	struct sp_perf_record decoded;
	sp_perf_decode(&layout, record.bytes, record.size, &decoded);
	assert_int_equal(decoded.result, SP_PERF_EVENT);
	assert_true(decoded.event.sample.in_kernel);
	assert_int_equal(decoded.event.sample.kernel_chain_count, 2);
	assert_int_equal(decoded.event.sample.kernel_chain[1], 0xffffffff81000020);
	assert_int_equal(decoded.event.sample.user_chain_count, 1);
	assert_int_equal(decoded.event.sample.user_chain[0], 0x401000);
}

static void test_full_stack_is_cut(void **state)
{
	(void)state;
	struct sp_perf_record decoded;
	make_sample(&record, 7, 8, 1000, 5, 256, 256);
	sp_perf_decode(&test_sample_layout, record.bytes, record.size, &decoded);
	assert_true(decoded.event.sample.stack_cut);
	make_sample(&record, 7, 8, 1000, 5, 256, 0);
	sp_perf_decode(&test_sample_layout, record.bytes, record.size, &decoded);
	assert_int_equal(decoded.result, SP_PERF_EVENT);
	assert_null(decoded.event.sample.stack.bytes);
	make_sample(&record, 7, 8, 1000, 5, 0, 0);
	sp_perf_decode(&test_sample_layout, record.bytes, record.size, &decoded);
	assert_int_equal(decoded.result, SP_PERF_EVENT);
	assert_null(decoded.event.sample.stack.bytes);
}

static void decode_side(struct sp_perf_record *ret)
{
	sp_perf_decode(&test_side_layout, record.bytes, record.size, ret);
	assert_int_equal(ret->result, SP_PERF_EVENT);
}

static void make_map(bool build_id, const char *path)
{
	begin_record(&record, SP_PERF_RECORD_MMAP2, build_id ? SP_PERF_MISC_MMAP_BUILD_ID : 0);
	put32(&record, 7);
	put32(&record, 8);
	put64(&record, 0x400000);
	put64(&record, 0x2000);
	put64(&record, 0x1000);
	uint8_t id[24] = { 20, 0, 0, 0, 0xab, 0xcd };
	if (build_id) {
		put_bytes(&record, id, sizeof(id));
	} else {
		put32(&record, 8);
		put32(&record, 3);
		put64(&record, 4711);
		put64(&record, 0);
	}
	put32(&record, 5); /* read, exec */
	put32(&record, 2);
	put_string(&record, path);
	end_with_id(&record, 7, 8, 2000, 6);
}

static void test_side_band_records(void **state)
{
	(void)state;
	struct sp_perf_record decoded;
	make_map(true, "/bin/x");
	decode_side(&decoded);
	assert_int_equal(decoded.event.kind, SP_EVENT_MAP);
	assert_int_equal(decoded.event.map.start, 0x400000);
	assert_int_equal(decoded.event.map.size, 0x2000);
	assert_int_equal(decoded.event.map.file_offset, 0x1000);
	assert_string_equal(decoded.event.map.path, "/bin/x");
	assert_int_equal(decoded.event.map.build_id_size, 20);
	assert_int_equal(decoded.event.map.build_id[1], 0xcd);
	assert_true(decoded.event.map.executable);
	assert_int_equal(decoded.id, 6);
	make_map(false, "/bin/longer-name-than-that");
	decode_side(&decoded);
	assert_int_equal(decoded.event.map.build_id_size, 0);
	assert_int_equal(decoded.event.map.inode, 4711);
	assert_int_equal(decoded.event.map.device, 0x803);

	make_comm(&record, false, 7, 8, "worker", 3000, 6);
	decode_side(&decoded);
	assert_int_equal(decoded.event.kind, SP_EVENT_NAME);
	assert_string_equal(decoded.event.name.name, "worker");
	make_fork(&record, SP_PERF_RECORD_FORK, 9, 7, 9, 8, 4000, 6);
	decode_side(&decoded);
	assert_int_equal(decoded.event.kind, SP_EVENT_THREAD_START);
	assert_int_equal(decoded.event.pid, 9);
	assert_int_equal(decoded.event.thread_start.parent_pid, 7);
	assert_int_equal(decoded.event.thread_start.parent_tid, 8);
	assert_null(decoded.event.thread_start.name);
	make_fork(&record, SP_PERF_RECORD_EXIT, 9, 7, 10, 8, 5000, 6);
	decode_side(&decoded);
	assert_int_equal(decoded.event.kind, SP_EVENT_THREAD_EXIT);
	assert_int_equal(decoded.event.tid, 10);

	begin_record(&record, SP_PERF_RECORD_SWITCH_CPU_WIDE,
	             SP_PERF_MISC_SWITCH_OUT | SP_PERF_MISC_SWITCH_OUT_PREEMPT);
	put32(&record, 1);
	put32(&record, 2);
	end_with_id(&record, 7, 8, 6000, 6);
	decode_side(&decoded);
	assert_int_equal(decoded.event.kind, SP_EVENT_SWITCH_OUT);
	assert_int_equal(decoded.event.tid, 8);
	assert_true(decoded.event.context_switch.preempted);
	begin_record(&record, SP_PERF_RECORD_SWITCH, 0);
	end_with_id(&record, 7, 8, 6000, 6);
	decode_side(&decoded);
	assert_int_equal(decoded.event.kind, SP_EVENT_SWITCH_IN);

	begin_record(&record, SP_PERF_RECORD_KSYMBOL, 0);
	put64(&record, 0xffffffffc0000000);
	put32(&record, 64);
	put16(&record, 1);
	put16(&record, 0);
	put_string(&record, "bpf_prog_x");
	end_with_id(&record, 7, 8, 7000, 6);
	decode_side(&decoded);
	assert_int_equal(decoded.event.kind, SP_EVENT_JIT_FUNCTION);
	assert_int_equal(decoded.event.pid, 0);
	assert_string_equal(decoded.event.jit.name, "bpf_prog_x");
}

/* Records of all sizes go round a small ring thousands of times; everything comes out as it went in, without copying
 * but at the seam, and space comes back in order of release. */
static void test_wrapping(void **state)
{
	(void)state;
	struct test_ring test;
	test_ring_init(&test, 8192, &test_sample_layout);
	uint64_t written = 1, read = 1, held = 0;
	unsigned random = 1, copied = 0;
	uint64_t oldest = 1; /* number of the oldest event not released */
	struct {
		const uint8_t *bytes;
		size_t size;
	} kept[64];
	while (read < 20000) {
		for (;;) {
			random = random * 1103515245u + 12345u;
			size_t stack = (random >> 16) % 400 * 8;
			make_sample(&record, 7, 8, written, 5, stack, stack);
			if (!test_ring_put(&test, &record))
				break;
			written++;
		}
		sp_perf_ring_snapshot(&test.ring);
		struct sp_event event;
		while (test_ring_next(&test, &event)) {
			assert_int_equal(event.time, read);
			kept[read % 64].bytes = event.sample.stack.bytes;
			kept[read % 64].size = event.sample.stack.size;
			if (event.sample.stack.bytes)
				copied += event.sample.stack.bytes < test.data ||
				          event.sample.stack.bytes >= test.data + test.size;
			read++;
			held++;
			assert_true(held < 64);
		}
		/* All that is held is still whole, whatever was written since. */
		for (uint64_t n = oldest; n < read; n++) {
			for (size_t i = 0; i < kept[n % 64].size; i++)
				assert_int_equal(kept[n % 64].bytes[i], (uint8_t)(n + i));
		}
		size_t release = held < 3 ? held : 1 + random % held;
		test_ring_release(&test, release);
		held -= release;
		oldest += release;
		assert_true(test.tail <= test.head && test.head - test.tail <= test.size);
	}
	assert_true(copied > 100 && copied < read / 2);
	test_ring_release(&test, held);
	assert_int_equal(test.tail, test.head);
	test_ring_deinit(&test);
}

static void test_space_only_after_release(void **state)
{
	(void)state;
	struct test_ring test;
	test_ring_init(&test, 1024, &test_side_layout);
	struct sp_event event;
	make_comm(&record, false, 7, 8, "one", 1, 6);
	test_ring_put(&test, &record);
	make_comm(&record, false, 7, 8, "two", 2, 6);
	test_ring_put(&test, &record);
	sp_perf_ring_snapshot(&test.ring);
	assert_true(test_ring_next(&test, &event));
	assert_true(test_ring_next(&test, &event));
	assert_false(test_ring_next(&test, &event));
	assert_int_equal(test.tail, 0);
	assert_in_range(test.ring.stream.ops->pressure(&test.ring.stream), 1, 254);
	test_ring_release(&test, 1);
	assert_int_equal(test.tail, record.size);
	test_ring_release(&test, 1);
	assert_int_equal(test.tail, test.head);
	assert_int_equal(test.ring.stream.ops->pressure(&test.ring.stream), 0);
	/* More than was given is no harm. */
	test_ring_release(&test, 10);
	assert_int_equal(test.tail, test.head);
	test_ring_deinit(&test);
}

static void test_skipped_records_free_space(void **state)
{
	(void)state;
	struct test_ring test;
	test_ring_init(&test, 1024, &test_side_layout);
	struct sp_event event;
	for (int i = 0; i < 1000; i++) {
		begin_record(&record, 12345, 0);
		put64(&record, 0);
		end_with_id(&record, 1, 1, 1, 1);
		assert_true(test_ring_put(&test, &record));
		sp_perf_ring_snapshot(&test.ring);
		assert_false(test_ring_next(&test, &event));
		assert_int_equal(test.tail, test.head);
	}
	test_ring_deinit(&test);
}

static void expect_loss(struct test_ring *test, enum sp_loss_kind kind, uint64_t count, uint64_t from, uint64_t to)
{
	struct sp_event event;
	assert_true(test_ring_next(test, &event));
	assert_int_equal(event.kind, SP_EVENT_LOSS);
	assert_int_equal(event.loss.kind, kind);
	assert_int_equal(event.loss.count, count);
	assert_int_equal(event.time, from);
	assert_int_equal(event.loss.end_time, to);
}

static void test_losses(void **state)
{
	(void)state;
	struct test_ring test;
	test_ring_init(&test, 4096, &test_side_layout);
	struct sp_event event;
	make_comm(&record, false, 7, 8, "one", 100, 6);
	test_ring_put(&test, &record);
	make_lost(&record, 42, 300);
	test_ring_put(&test, &record);
	make_throttle(&record, SP_PERF_RECORD_THROTTLE, 400, 5);
	test_ring_put(&test, &record);
	make_throttle(&record, SP_PERF_RECORD_UNTHROTTLE, 500, 5);
	test_ring_put(&test, &record);
	make_throttle(&record, SP_PERF_RECORD_THROTTLE, 600, 5);
	test_ring_put(&test, &record);
	begin_record(&record, SP_PERF_RECORD_LOST_SAMPLES, 0);
	put64(&record, 3);
	end_with_id(&record, 0, 0, 700, 5);
	test_ring_put(&test, &record);
	sp_perf_ring_snapshot(&test.ring);
	assert_true(test_ring_next(&test, &event));
	expect_loss(&test, SP_LOSS_RING_FULL, 42, 100, 300);
	expect_loss(&test, SP_LOSS_THROTTLED, 0, 400, 500);
	expect_loss(&test, SP_LOSS_SAMPLES, 3, 600, 700);
	assert_false(test_ring_next(&test, &event));
	/* The kernel counts 50: five were dropped after its last word. */
	sp_perf_ring_finish(&test.ring, 50, 800);
	expect_loss(&test, SP_LOSS_RING_FULL, 5, 700, 800);
	expect_loss(&test, SP_LOSS_THROTTLED, 0, 700, 800);
	assert_false(test_ring_next(&test, &event));
	assert_int_equal(test.ring.throttled, 2);
	test_ring_deinit(&test);
}

/* What the stream tells of is what the kernel dropped, whatever the reader's pace. */
static void test_loss_is_exact(void **state)
{
	(void)state;
	struct test_ring test;
	test_ring_init(&test, 4096, &test_side_layout);
	uint64_t time = 1, told = 0, got = 0, put = 0, told_by_kernel = 0;
	unsigned random = 7;
	for (int round = 0; round < 2000; round++) {
		random = random * 1103515245u + 12345u;
		for (unsigned i = 0; i < (random >> 20) % 120; i++) {
			/* As the kernel does: the loss is told before the next record that fits. */
			if (test.lost > told_by_kernel) {
				make_lost(&record, test.lost - told_by_kernel, time++);
				struct test_record first = record;
				make_comm(&record, false, 7, 8, "x", time++, 6);
				if (test.size - (test.head - test.tail) < first.size + record.size) {
					test.lost++;
					continue;
				}
				told_by_kernel = test.lost;
				test_ring_put(&test, &first);
				put += test_ring_put(&test, &record);
				continue;
			}
			make_comm(&record, false, 7, 8, "x", time++, 6);
			put += test_ring_put(&test, &record);
		}
		sp_perf_ring_snapshot(&test.ring);
		if (round == 1999)
			sp_perf_ring_finish(&test.ring, test.lost, time);
		struct sp_event event;
		size_t count = 0;
		for (; test_ring_next(&test, &event); count++) {
			if (event.kind == SP_EVENT_LOSS)
				told += event.loss.count;
			else
				got++;
		}
		test_ring_release(&test, count);
	}
	assert_true(test.lost > 1000);
	assert_int_equal(told, test.lost);
	assert_int_equal(got, put);
	test_ring_deinit(&test);
}

static void put_sample_of(struct test_ring *test, uint32_t pid, uint32_t tid, uint64_t time, uint64_t id)
{
	make_sample(&record, pid, tid, time, id, 64, 64);
	assert_true(test_ring_put(test, &record));
}

static void expect_sample(struct test_ring *test, uint32_t tid, uint64_t time)
{
	struct sp_event event;
	assert_true(test_ring_next(test, &event));
	assert_int_equal(event.kind, SP_EVENT_SAMPLE);
	assert_int_equal(event.tid, tid);
	assert_int_equal(event.time, time);
}

/* The forked copy of the recorder is not the command. */
static void test_samples_begin_with_the_exec(void **state)
{
	(void)state;
	struct test_ring test;
	struct sp_event event;
	test_ring_init(&test, 65536, &test_sample_layout);
	test.filter.command_pid = 50;
	put_sample_of(&test, 50, 50, 100, 5);
	put_sample_of(&test, 51, 51, 110, 5);
	sp_perf_ring_snapshot(&test.ring);
	expect_sample(&test, 51, 110);
	assert_false(test_ring_next(&test, &event));
	put_sample_of(&test, 50, 50, 190, 5);
	put_sample_of(&test, 50, 50, 210, 5);
	sp_perf_ring_snapshot(&test.ring);
	test.filter.command_runs = true;
	test.filter.exec_time = 200;
	expect_sample(&test, 50, 210);
	test_ring_deinit(&test);
}

static void test_command_starts_at_its_exec(void **state)
{
	(void)state;
	struct test_ring test;
	struct sp_event event;
	uint64_t time;
	test_ring_init(&test, 4096, &test_side_layout);
	test.filter.command_pid = 50;
	test.filter.recorder_pid = 49;
	make_comm(&record, true, 60, 60, "other", 150, 6);
	test_ring_put(&test, &record);
	begin_record(&record, SP_PERF_RECORD_SWITCH_CPU_WIDE, 0);
	put64(&record, 0);
	end_with_id(&record, 50, 50, 160, 6);
	test_ring_put(&test, &record);
	sp_perf_ring_snapshot(&test.ring);
	assert_false(sp_perf_ring_find_exec(&test.ring, 50, &time));
	make_comm(&record, true, 50, 50, "command", 200, 6);
	test_ring_put(&test, &record);
	assert_false(sp_perf_ring_find_exec(&test.ring, 50, &time));
	sp_perf_ring_snapshot(&test.ring);
	assert_true(sp_perf_ring_find_exec(&test.ring, 50, &time));
	assert_int_equal(time, 200);
	test.filter.command_runs = true;
	test.filter.exec_time = time;
	assert_true(test_ring_next(&test, &event));
	assert_int_equal(event.kind, SP_EVENT_EXEC);
	assert_int_equal(event.pid, 60);
	assert_true(test_ring_next(&test, &event));
	assert_int_equal(event.kind, SP_EVENT_THREAD_START);
	assert_int_equal(event.pid, 50);
	assert_int_equal(event.thread_start.parent_pid, 49);
	assert_string_equal(event.thread_start.name, "command");
	assert_true(test_ring_next(&test, &event));
	assert_int_equal(event.kind, SP_EVENT_SWITCH_IN);
	assert_int_equal(event.pid, 50);
	assert_int_equal(event.time, 200);
	/* The next exec is one. */
	make_comm(&record, true, 50, 50, "second", 300, 6);
	test_ring_put(&test, &record);
	sp_perf_ring_snapshot(&test.ring);
	assert_true(test_ring_next(&test, &event));
	assert_int_equal(event.kind, SP_EVENT_EXEC);
	test_ring_release(&test, 4);
	assert_int_equal(test.tail, test.head);
	test_ring_deinit(&test);
}

static void test_threads_are_not_counted_twice(void **state)
{
	(void)state;
	struct test_ring test;
	struct sp_event event;
	test_ring_init(&test, 65536, &test_sample_layout);
	/* Event 5 was opened for thread 10, event 6 for 11; 12 is a child of 10 and has none of its own. */
	sp_map_put(&test.filter.owner_of, 5, 10);
	sp_map_put(&test.filter.owner_of, 6, 11);
	sp_map_put(&test.filter.opened, 10, 1);
	sp_map_put(&test.filter.opened, 11, 1);
	test.filter.first_sample = 50;
	put_sample_of(&test, 10, 10, 40, 5);
	put_sample_of(&test, 10, 10, 100, 5);
	put_sample_of(&test, 10, 11, 101, 5); /* an inherited copy */
	put_sample_of(&test, 10, 11, 102, 6);
	put_sample_of(&test, 10, 12, 103, 5);
	sp_perf_ring_snapshot(&test.ring);
	expect_sample(&test, 10, 100);
	expect_sample(&test, 11, 102);
	expect_sample(&test, 12, 103);
	assert_false(test_ring_next(&test, &event));
	test_ring_deinit(&test);
}

/* Sizes that no kernel writes: the rest is dropped and marked, and reading goes on after it. */
static void test_impossible_sizes(void **state)
{
	(void)state;
	const uint16_t sizes[] = { 0, 4, 12, 65528 };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct test_ring test;
		struct sp_event event;
		test_ring_init(&test, 4096, &test_side_layout);
		make_comm(&record, false, 7, 8, "one", 1, 6);
		memcpy(record.bytes + 6, &sizes[i], sizeof(sizes[i]));
		test_ring_put(&test, &record);
		sp_perf_ring_snapshot(&test.ring);
		assert_false(test_ring_next(&test, &event));
		assert_true(test.ring.corrupt);
		assert_int_equal(test.tail, test.head);
		make_comm(&record, false, 7, 8, "two", 2, 6);
		test_ring_put(&test, &record);
		sp_perf_ring_snapshot(&test.ring);
		assert_true(test_ring_next(&test, &event));
		assert_string_equal(event.name.name, "two");
		test_ring_deinit(&test);
	}
}

static void test_impossible_head(void **state)
{
	(void)state;
	struct test_ring test;
	struct sp_event event;
	test_ring_init(&test, 4096, &test_side_layout);
	test.head = 4096 + 8;
	sp_perf_ring_snapshot(&test.ring);
	assert_true(test.ring.corrupt);
	assert_false(test_ring_next(&test, &event));
	test_ring_deinit(&test);
}

/* A record cut short anywhere is malformed or decodes; nothing outside of it is read (the sanitizers watch). */
static void test_torn_records(void **state)
{
	(void)state;
	make_sample(&record, 7, 8, 1000, 5, 256, 256);
	for (size_t size = 8; size <= record.size; size++) {
		void *copy = aligned_alloc(8, (size + 7) & ~(size_t)7);
		uint8_t *exact = malloc(size);
		memcpy(exact, record.bytes, size);
		memcpy(copy, record.bytes, size);
		struct sp_perf_record decoded;
		sp_perf_decode(&test_sample_layout, exact, size, &decoded);
		assert_int_equal(decoded.result, size == record.size ? SP_PERF_EVENT : SP_PERF_MALFORMED);
		free(exact);
		free(copy);
	}
	make_map(true, "/bin/x");
	for (size_t size = 8; size < record.size; size++) {
		uint8_t *exact = malloc(size);
		memcpy(exact, record.bytes, size);
		struct sp_perf_record decoded;
		sp_perf_decode(&test_side_layout, exact, size, &decoded);
		free(exact);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sample_fields),
		cmocka_unit_test(test_chain_with_both_parts),
		cmocka_unit_test(test_full_stack_is_cut),
		cmocka_unit_test(test_side_band_records),
		cmocka_unit_test(test_wrapping),
		cmocka_unit_test(test_space_only_after_release),
		cmocka_unit_test(test_skipped_records_free_space),
		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_loss_is_exact),
		cmocka_unit_test(test_samples_begin_with_the_exec),
		cmocka_unit_test(test_command_starts_at_its_exec),
		cmocka_unit_test(test_threads_are_not_counted_twice),
		cmocka_unit_test(test_impossible_sizes),
		cmocka_unit_test(test_impossible_head),
		cmocka_unit_test(test_torn_records),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
