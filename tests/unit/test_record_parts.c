/* Unit tests of the pipeline's parts: CPU accounting, the parser of JIT maps, the merge of streams. */
#include "fake_capture.h"

#include "sampler/record/account.h"
#include "sampler/record/perf_map.h"
#include "sampler/record/stream_merge.h"

/* ---- account.h ---- */

static void test_account_from_start(void **state)
{
	(void)state;
	struct sp_account account;
	uint64_t delta;
	sp_account_init(&account, true);
	sp_account_in(&account, 100);
	assert_true(sp_account_sample(&account, 130, 10, &delta));
	assert_int_equal(delta, 30);
	assert_int_equal(sp_account_out(&account, 150), 50);
	sp_account_in(&account, 1000);
	assert_true(sp_account_sample(&account, 1005, 10, &delta));
	assert_int_equal(delta, 25);
	assert_int_equal(sp_account_out(&account, 1001), 1);
}

static void test_account_of_unknown_past(void **state)
{
	(void)state;
	struct sp_account account;
	uint64_t delta;
	sp_account_init(&account, false);
	assert_false(sp_account_sample(&account, 500, 10, &delta));
	assert_int_equal(delta, 0);
	/* Nothing is missing of the time before. */
	assert_int_equal(sp_account_uncovered(&account, 509, 10, 0), 0);
	assert_true(sp_account_sample(&account, 520, 10, &delta));
	assert_int_equal(delta, 20);
}

/* Intervals that nothing covers are whole numbers, and none is lost or invented however often one asks. */
static void test_account_carries_the_rest(void **state)
{
	(void)state;
	for (uint64_t step = 1; step < 40; step += 3) {
		struct sp_account account;
		uint64_t count = 0;
		sp_account_init(&account, true);
		sp_account_in(&account, 0);
		for (uint64_t time = 0; time <= 1000; time += step)
			count += sp_account_uncovered(&account, time, 10, 0);
		count += sp_account_uncovered(&account, 1005, 10, 0);
		assert_int_equal(count, 100);
	}
}

static void test_account_forgives_losses(void **state)
{
	(void)state;
	struct sp_account account;
	sp_account_init(&account, true);
	sp_account_in(&account, 0);
	sp_account_forgive(&account, 100, 30);
	assert_int_equal(sp_account_uncovered(&account, 100, 10, 0), 7);
	/* More than there is counts for no later time. */
	sp_account_forgive(&account, 100, 1000);
	assert_int_equal(sp_account_uncovered(&account, 200, 10, 0), 10);
}

/* Samples that come a little early do not make up for time in the kernel later. */
static void test_account_with_jitter(void **state)
{
	(void)state;
	struct sp_account account;
	uint64_t delta, count = 0;
	sp_account_init(&account, true);
	sp_account_in(&account, 0);
	for (uint64_t i = 1; i <= 1000; i++) {
		uint64_t time = i * 10 + (i % 3) - 1;
		count += sp_account_uncovered(&account, time, 10, 10);
		sp_account_sample(&account, time, 10, &delta);
	}
	assert_int_equal(count, 0);
}

/* ---- perf_map.h ---- */

static void expect_map(const char *text, const char *expected, uint64_t expected_skipped)
{
	static struct text found;
	struct sp_cursor c = sp_cursor_init(text, strlen(text));
	struct sp_perf_map_function function;
	uint64_t skipped = 0;
	found.size = 0;
	found.bytes[0] = '\0';
	while (sp_perf_map_next(&c, &function, &skipped))
		say(&found, "%llx+%llx %s;", (unsigned long long)function.start, (unsigned long long)function.size,
		    function.name);
	assert_string_equal(found.bytes, expected);
	assert_int_equal(skipped, expected_skipped);
}

static void test_perf_map_lines(void **state)
{
	(void)state;
	expect_map("", "", 0);
	expect_map("\n\n", "", 0);
	expect_map("7f00 20 name", "7f00+20 name;", 0);
	expect_map("7F00 2A LazyCompile:~f a.js:1\n", "7f00+2a LazyCompile:~f a.js:1;", 0);
	expect_map("0x7f00 0x20 name\r\n0X1 0 tiny\n", "7f00+20 name;1+1 tiny;", 0);
	expect_map("7f00\t20  two blanks \n", "7f00+20 two blanks ;", 0);
	expect_map("7f00 20\n7f00 20 \n 7f00 20 x\nx 20 y\n7f00 -1 z\n0x 1 q\n", "", 6);
	expect_map("10000000000000000 1 wide\nffffffffffffffff 1 end\n1 ffffffffffffffff over\n", "", 3);
	expect_map("fffffffffffffffe 1 last\n", "fffffffffffffffe+1 last;", 0);
	/* The last one wins: order is kept. */
	expect_map("1 1 a\n1 1 b\n", "1+1 a;1+1 b;", 0);
}

static void test_perf_map_long_name(void **state)
{
	(void)state;
	size_t size = 3 * SP_PERF_MAP_NAME_MAX;
	char *text = malloc(size + 1);
	struct sp_perf_map_function function;
	uint64_t skipped = 0;
	assert_non_null(text);
	memset(text, 'n', size);
	memcpy(text, "1 1 ", 4);
	text[size] = '\0';
	struct sp_cursor c = sp_cursor_init(text, size);
	assert_true(sp_perf_map_next(&c, &function, &skipped));
	assert_int_equal(strlen(function.name), SP_PERF_MAP_NAME_MAX);
	assert_false(sp_perf_map_next(&c, &function, &skipped));
	free(text);
}

/* ---- stream_merge.h ---- */

/* Many streams with random times each in order: all events come in order, all are given back, and what is held keeps
 * what follows it. */
static void test_merge(void **state)
{
	(void)state;
	enum { STREAMS = 9, EVENTS = 500 };
	static struct fake_stream streams[STREAMS];
	static struct sp_event rooms[STREAMS];
	struct sp_merge merge = { 0 };
	uint64_t random = 7, last = 0;
	for (unsigned i = 0; i < STREAMS; i++) {
		fake_init(&streams[i]);
		uint64_t time = 0;
		for (unsigned k = 0; k < EVENTS; k++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			time += random >> 60;
			fake_add(&streams[i], k % 5 ? SP_EVENT_MARKER : SP_EVENT_SAMPLE, time, i, k);
		}
		assert_true(sp_merge_add(&merge, &streams[i].stream, &rooms[i]));
	}
	unsigned count = 0;
	struct sp_merge_stream *first;
	int user;
	sp_merge_poll(&merge);
	while ((first = sp_merge_first(&merge, UINT64_MAX))) {
		assert_true(first->event->time >= last);
		last = first->event->time;
		count++;
		assert_true(sp_merge_next(&merge, first->event->kind == SP_EVENT_SAMPLE ? &user : NULL, first->event));
	}
	assert_int_equal(count, STREAMS * EVENTS);
	for (unsigned i = 0; i < STREAMS; i++) {
		struct sp_merge_stream *stream = merge.streams.items[i];
		assert_int_equal(stream->held_count, EVENTS / 5);
		/* The second held event goes, the first stays: nothing can be given back. */
		sp_merge_held(stream, 1)->user = NULL;
		sp_merge_release(stream);
		assert_int_equal(streams[i].released, 0);
		sp_merge_held(stream, 0)->user = NULL;
		sp_merge_release(stream);
		assert_int_equal(streams[i].released, 10);
		while (stream->held_count) {
			sp_merge_held(stream, 0)->user = NULL;
			sp_merge_release(stream);
		}
		assert_int_equal(streams[i].released, EVENTS);
	}
	sp_merge_deinit(&merge);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_account_from_start),       cmocka_unit_test(test_account_of_unknown_past),
		cmocka_unit_test(test_account_carries_the_rest), cmocka_unit_test(test_account_forgives_losses),
		cmocka_unit_test(test_account_with_jitter),      cmocka_unit_test(test_perf_map_lines),
		cmocka_unit_test(test_perf_map_long_name),       cmocka_unit_test(test_merge),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
