/* Completing truncated stacks: made-up stacks of which the truth is known, clipped as a dump would be. */
#include "sampler/unwind/unwind.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_DEPTH 1000
#define FRAME_SIZE 512
#define BASE 0x7ffc00000000u /* above the outermost frame */
#define MILLISECOND 1000000u

/* A thread's stack: frames, outermost first, each of FRAME_SIZE bytes. */
struct stack {
	uint64_t address[MAX_DEPTH];
	size_t depth;
	uint8_t bytes[MAX_DEPTH * FRAME_SIZE]; /* up to BASE */
};

struct splicer {
	struct sp_stack_history *history;
	struct stack stack;
	struct sp_frame frames[MAX_DEPTH + 8];
	size_t count, dumped;
	uint64_t time;
};

static uint64_t frame_cfa(size_t index) /* from the outside */
{
	return BASE - index * FRAME_SIZE;
}

/* The word of the stack at a distance below a frame's CFA. */
static uint64_t *stack_word(struct stack *stack, size_t index, size_t below)
{
	return (uint64_t *)(stack->bytes + sizeof(stack->bytes) - index * FRAME_SIZE - below);
}

/* Calls a function; `saved` stands for the registers that it saves. */
static void call(struct stack *stack, uint64_t address, uint64_t saved)
{
	size_t index = stack->depth++;
	assert_true(index < MAX_DEPTH);
	stack->address[index] = address;
	for (size_t word = 1; word <= 4; word++)
		*stack_word(stack, index, 8 * word) = saved;
}

static struct splicer *setup(void)
{
	struct splicer *s = calloc(1, sizeof(*s));
	assert_non_null(s);
	assert_null(sp_stack_history_create(&s->history));
	s->time = 1000 * MILLISECOND;
	return s;
}

static void teardown(struct splicer *s)
{
	sp_stack_history_destroy(s->history);
	free(s);
}

/* Samples the stack with a dump of that many frames, and completes what is truncated. */
static enum sp_unwind_end sample(struct splicer *s, size_t dumped, const uint64_t *chain, size_t chain_count)
{
	struct stack *stack = &s->stack;
	size_t depth = stack->depth;
	s->dumped = s->count = depth <= dumped ? depth : dumped;
	uint64_t sp = frame_cfa(depth);
	struct sp_stack_slice slice = { sp, stack->bytes + sizeof(stack->bytes) - depth * FRAME_SIZE,
		                        s->count * FRAME_SIZE - 16 };
	for (size_t i = 0; i < s->count; i++)
		s->frames[i] = (struct sp_frame){ .address = stack->address[depth - 1 - i],
			                          .cfa = frame_cfa(depth - 1 - i),
			                          .kind = i ? SP_FRAME_RETURN_ADDRESS : SP_FRAME_IP };
	enum sp_unwind_end end = SP_UNWIND_DUMP_END;
	if (depth <= dumped) {
		s->frames[s->count - 1].cfa = 0; /* the root has none */
		end = SP_UNWIND_ROOT;
	}
	s->time += MILLISECOND;
	return sp_unwind_complete(s->history, s->time, &slice, 1, chain, chain_count, end, s->frames, MAX_DEPTH,
	                          &s->count);
}

static bool is_true(const struct splicer *s)
{
	const struct stack *stack = &s->stack;
	for (size_t i = 0; i < s->count; i++)
		if (i >= stack->depth || s->frames[i].address != stack->address[stack->depth - 1 - i])
			return false;
	return true;
}

static void grow_to(struct splicer *s, size_t depth)
{
	while (s->stack.depth < depth)
		call(&s->stack, 0x1000 + s->stack.depth * 16, s->stack.depth);
}

static void test_deeper_stack_is_completed(void **state)
{
	(void)state;
	struct splicer *s = setup();
	for (size_t depth = 20; depth < MAX_DEPTH; depth += 30) {
		grow_to(s, depth);
		assert_int_equal(sample(s, 60, NULL, 0), SP_UNWIND_ROOT);
		assert_int_equal(s->count, depth);
		assert_true(is_true(s));
		for (size_t i = 0; i < s->count; i++)
			assert_int_equal(s->frames[i].origin, i < s->dumped ? SP_FOUND_EXACT : SP_FOUND_SPLICED_STACK);
	}
	teardown(s);
}

/* Without an earlier stack that overlaps, nothing is made up. */
static void test_unknown_stack_stays_truncated(void **state)
{
	(void)state;
	struct splicer *s = setup();
	grow_to(s, 20);
	sample(s, 60, NULL, 0);
	grow_to(s, 100);
	assert_int_equal(sample(s, 60, NULL, 0), SP_UNWIND_DUMP_END);
	assert_int_equal(s->count, 60);
	teardown(s);
}

static void test_stale_stack_is_not_used(void **state)
{
	(void)state;
	struct splicer *s = setup();
	grow_to(s, 40);
	sample(s, 60, NULL, 0);
	s->time += 1001 * MILLISECOND;
	grow_to(s, 80);
	assert_int_equal(sample(s, 60, NULL, 0), SP_UNWIND_DUMP_END);
	teardown(s);
}

/* The same addresses at the same places, but in another activation: the saved registers tell. */
static void test_other_registers_are_not_matched(void **state)
{
	(void)state;
	struct splicer *s = setup();
	grow_to(s, 50);
	sample(s, 60, NULL, 0);
	s->stack.depth = 10;
	while (s->stack.depth < 80)
		call(&s->stack, 0x1000 + s->stack.depth * 16, 77 + s->stack.depth);
	assert_int_equal(sample(s, 60, NULL, 0), SP_UNWIND_DUMP_END);
	assert_int_equal(s->count, 60);
	teardown(s);
}

/* A frame that had two callers a moment ago: which is it now? */
static void test_conflicting_callers_stop(void **state)
{
	(void)state;
	struct splicer *s = setup();
	for (uint64_t path = 0; path < 2; path++) {
		s->stack.depth = 0;
		grow_to(s, 20);
		call(&s->stack, 0x9000 + path, 1);
		grow_to(s, 50);
		sample(s, 60, NULL, 0);
	}
	s->stack.depth = 0;
	grow_to(s, 20);
	call(&s->stack, 0x9000, 1);
	grow_to(s, 81); /* the dump ends at the frame inside 0x9000 */
	assert_int_equal(sample(s, 60, NULL, 0), SP_UNWIND_DUMP_END);
	assert_int_equal(s->count, 60);
	teardown(s);
}

/* A dump that contradicts the history inside its window is not joined to it. */
static void test_contradiction_is_refused(void **state)
{
	(void)state;
	struct splicer *s = setup();
	grow_to(s, 50);
	sample(s, 60, NULL, 0);
	s->stack.depth = 40;
	call(&s->stack, 0x9000, 5);
	grow_to(s, 99); /* frame 40 is the second in the dump: 0x9000 is not what the history has there */
	assert_int_equal(sample(s, 60, NULL, 0), SP_UNWIND_DUMP_END);
	teardown(s);
}

static void test_kernel_chain_completes(void **state)
{
	(void)state;
	struct splicer *s = setup();
	grow_to(s, 15);
	sample(s, 60, NULL, 0); /* the thread's whole stack, whose outermost frames end a chain */
	grow_to(s, 80);
	uint64_t chain[80];
	for (size_t i = 0; i < 80; i++)
		chain[i] = s->stack.address[79 - i];
	/* All but the two outermost: the C library's start code keeps no frame pointer. */
	assert_int_equal(sample(s, 40, chain, 78), SP_UNWIND_ROOT);
	assert_int_equal(s->count, 80);
	assert_true(is_true(s));
	assert_int_equal(s->frames[40].origin, SP_FOUND_SPLICED_CHAIN);
	/* Cut off by the kernel's limit, it completes in part. */
	assert_int_equal(sample(s, 40, chain, 60), SP_UNWIND_DUMP_END);
	assert_int_equal(s->count, 60);
	assert_true(is_true(s));
	/* The caller of the top frame is missing while it has not set up its frame pointer. */
	memmove(chain + 1, chain + 2, 76 * sizeof(chain[0]));
	assert_int_equal(sample(s, 40, chain, 77), SP_UNWIND_ROOT);
	assert_true(is_true(s));
	/* A chain that lacks frames which the tables found is no frame pointer chain. */
	memmove(chain + 20, chain + 21, 50 * sizeof(chain[0]));
	assert_int_equal(sample(s, 40, chain, 76), SP_UNWIND_DUMP_END);
	assert_int_equal(s->count, 40);
	teardown(s);
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Random recursion: each millisecond some frames return and others are called. */
static void recurse_randomly(unsigned functions, size_t churn)
{
	struct splicer *s = setup();
	uint64_t seed = 88172645463325252u + functions;
	size_t truncated = 0, spliced = 0, wrong = 0;
	for (int i = 0; i < 10000; i++) {
		size_t returned = next_random(&seed) % 50 == 0 ? s->stack.depth : next_random(&seed) % churn;
		s->stack.depth -= returned < s->stack.depth ? returned : s->stack.depth;
		size_t target = s->stack.depth + 1 + next_random(&seed) % (churn + 10);
		while (s->stack.depth < target && s->stack.depth < 300)
			call(&s->stack, 0x1000 + next_random(&seed) % functions * 16, 1);
		size_t depth = s->stack.depth;
		sample(s, 100, NULL, 0);
		truncated += depth > 100;
		spliced += s->count > s->dumped;
		wrong += s->count > s->dumped && !is_true(s);
	}
	print_message("%u functions, churn %zu: %zu truncated, %zu spliced, %zu wrong\n", functions, churn, truncated,
	              spliced, wrong);
	assert_true(truncated > 1000);
	/* A few are wrong before the tests have found the thread out. */
	assert_true(wrong <= spliced / 100 + 5);
	teardown(s);
}

/* Few functions, all with frames of one size and the same saved registers each time: the worst case. */
static void test_adversarial_recursion(void **state)
{
	(void)state;
	for (unsigned functions = 2; functions <= 64; functions *= 2)
		for (size_t churn = 20; churn < 300; churn = churn * 5 / 2)
			recurse_randomly(functions, churn);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deeper_stack_is_completed),
		cmocka_unit_test(test_unknown_stack_stays_truncated),
		cmocka_unit_test(test_stale_stack_is_not_used),
		cmocka_unit_test(test_other_registers_are_not_matched),
		cmocka_unit_test(test_conflicting_callers_stop),
		cmocka_unit_test(test_contradiction_is_refused),
		cmocka_unit_test(test_kernel_chain_completes),
		cmocka_unit_test(test_adversarial_recursion),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
