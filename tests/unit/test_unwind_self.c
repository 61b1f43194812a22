/* Unwinds this very process, on the architecture that it is built for: recursion through calls that the compiler can't
 * see through, signal handlers, tables without their search table. A plain program, so that the same file is built for
 * other architectures and run under an emulator (tests/oracle/test_unwind_aarch64.c). */
#include "unwind_self.h"

#include <signal.h>
#include <stdio.h>

#define MAX_FRAMES 2048

struct result {
	struct sp_frame frames[MAX_FRAMES];
	size_t count;
	enum sp_unwind_end end;
	uint64_t expected[MAX_FRAMES]; /* return addresses, leaf first */
};

static struct self_map the_map;
static struct result the_result;
static unsigned failures;

#define CHECK(condition)                                                                 \
	do {                                                                             \
		if (!(condition)) {                                                      \
			printf("%s:%d: %s is not so\n", __FILE__, __LINE__, #condition); \
			failures++;                                                      \
		}                                                                        \
	} while (0)

static __attribute__((noinline)) void unwind_here(struct result *result)
{
	struct sp_regs regs;
	SELF_REGISTERS(&regs);
	struct sp_stack_slice stack = self_stack(&regs);
	struct sp_unwinder *unwinder;
	if (sp_unwinder_create(&unwinder))
		abort();
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

static void test_recursion(void)
{
	for (size_t depth = 0; depth < 1200; depth = depth * 2 + 1) {
		recurse(&the_result, (int)depth);
		CHECK(the_result.end == SP_UNWIND_ROOT);
		CHECK(the_result.count > 2 + depth);
		for (size_t i = 0; i <= depth; i++) /* after unwind_here() and the innermost recurse() */
			CHECK(the_result.frames[2 + i].address == the_result.expected[i]);
	}
}

static __attribute__((noinline)) int recurse_in_handler(int depth)
{
	int result = depth ? recurse_in_handler(depth - 1) + 1 : 0;
	if (!depth)
		unwind_here(&the_result);
	return result;
}

static void handler(int signal)
{
	(void)signal;
	self_map_add_trampoline(&the_map, (uint64_t)__builtin_return_address(0));
	recurse_in_handler(3);
}

static void test_signal_frame(void)
{
	struct sigaction action = { .sa_handler = handler };
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	CHECK(the_result.end == SP_UNWIND_ROOT);
	size_t interrupted = 0;
	for (size_t i = 1; i < the_result.count; i++)
		interrupted += the_result.frames[i].kind == SP_FRAME_IP;
	CHECK(interrupted == 2); /* the trampoline, and the frame that the signal hit */
}

/* The handler runs where the test raised the signal, so it may call what it likes. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "report_signal_unsafe=0";
}

int main(void)
{
	/* Without .eh_frame_hdr an index is made; the truth is found as well. */
	for (int without = 0; without < 2; without++) {
		self_map_init(&the_map, without);
		test_recursion();
		test_signal_frame();
		self_map_deinit(&the_map);
	}
	printf("%u checks failed\n", failures);
	return failures != 0;
}
