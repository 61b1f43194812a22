/* Unwinds this very process, on the architecture that it is built for: recursion through calls that the compiler can't
 * see through, signal handlers, and tables without their search table. */
#include "unwind_self.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define MAX_FRAMES 2048

struct result {
	struct sp_frame frames[MAX_FRAMES];
	size_t count;
	enum sp_unwind_end end;
	uint64_t expected[MAX_FRAMES]; /* return addresses, leaf first */
	size_t expected_count;
};

static struct self_map the_map;
static struct result *volatile the_result;

static __attribute__((noinline)) void unwind_here(struct result *result)
{
	struct sp_regs regs;
	SELF_REGISTERS(&regs);
	struct sp_stack_slice stack = self_stack(&regs);
	struct sp_unwinder *unwinder;
	assert_null(sp_unwinder_create(&unwinder));
	struct sp_code_map map = { the_map.ranges, the_map.count };
	result->end = sp_unwind(unwinder, &map, &regs, &stack, 1, result->frames, MAX_FRAMES, &result->count);
	sp_unwinder_destroy(unwinder);
}

/* Notes its return address, so that the truth is known. */
static __attribute__((noinline)) int recurse(struct result *result, int depth)
{
	result->expected[depth] = (uint64_t)__builtin_extract_return_addr(__builtin_return_address(0));
	volatile char big[40];
	big[depth % 40] = 1;
	if (depth == 0)
		unwind_here(result);
	else
		recurse(result, depth - 1);
	return big[depth % 40];
}

static void check(const struct result *result, size_t first, size_t depth)
{
	assert_int_equal(result->end, SP_UNWIND_ROOT);
	assert_true(result->count > first + depth);
	for (size_t i = 0; i <= depth; i++)
		assert_int_equal(result->frames[first + i].address, result->expected[i]);
}

static void test_recursion(void **state)
{
	(void)state;
	struct result *result = calloc(1, sizeof(*result));
	for (int depth = 0; depth < 1200; depth = depth * 2 + 1) {
		recurse(result, depth);
		check(result, 2, (size_t)depth); /* after unwind_here() and the innermost recurse() */
	}
	free(result);
}

static void handler(int signal)
{
	(void)signal;
	unwind_here(the_result);
}

static void test_signal_frame(void **state)
{
	(void)state;
	the_result = calloc(1, sizeof(*the_result));
	struct sigaction action = { .sa_handler = handler };
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	assert_int_equal(the_result->end, SP_UNWIND_ROOT);
	size_t interrupted = 0;
	for (size_t i = 1; i < the_result->count; i++)
		interrupted += the_result->frames[i].kind == SP_FRAME_IP;
	assert_int_equal(interrupted, 2); /* the trampoline, and the frame that the signal hit */
	free(the_result);
}

/* Without .eh_frame_hdr an index is made; the truth is found as well. */
static void test_without_search_tables(void **state)
{
	self_map_deinit(&the_map);
	self_map_init(&the_map, true);
	test_recursion(state);
	test_signal_frame(state);
}

int main(void)
{
	self_map_init(&the_map, false);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recursion),
		cmocka_unit_test(test_signal_frame),
		cmocka_unit_test(test_without_search_tables),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	self_map_deinit(&the_map);
	return failed;
}
