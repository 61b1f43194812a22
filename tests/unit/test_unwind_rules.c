/* The unwinder's rules one by one, on made-up tables, code and stacks whose answer is known by construction. */
#include "sampler/unwind/unwind.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CODE 0x40000u
#define CODE_SIZE 256
#define TABLE 0x2000u
#define STACK 0x7f0000000000u
#define WORDS 64
#define MAX_FRAMES 32

/* Functions of 64 bytes each: their return addresses, after a call. */
#define RETURN_TO(function) (CODE + 64 * (function) + 16)

struct world {
	uint8_t table[1024], code[CODE_SIZE];
	size_t table_size, cie;
	struct sp_unwind_input input;
	struct sp_regs regs;
	uint64_t stack[WORDS];
	size_t stack_words; /* given to the unwinder */
	struct sp_frame frames[MAX_FRAMES];
	size_t count;
};

static void put(struct world *w, const void *bytes, size_t size)
{
	assert_true(w->table_size + size <= sizeof(w->table));
	memcpy(w->table + w->table_size, bytes, size);
	w->table_size += size;
}

static void put_u32(struct world *w, uint32_t value)
{
	put(w, &value, sizeof(value));
}

static void finish_entry(struct world *w, size_t start)
{
	while ((w->table_size - start) % 4)
		put(w, "", 1);
	uint32_t length = (uint32_t)(w->table_size - start - 4);
	memcpy(w->table + start, &length, sizeof(length));
}

/* A CIE: CFA = rsp + 8, return address at CFA - 8; "zRS" for signal frames. */
static void put_cie(struct world *w, bool signal)
{
	w->cie = w->table_size;
	put_u32(w, 0);
	put_u32(w, 0);
	put(w, "\1", 1);
	put(w, signal ? "zRS" : "zR", signal ? 4 : 3);
	put(w, "\1\x78\x10\1\x1b\x0c\7\x8\x90\1", 10);
	finish_entry(w, w->cie);
}

/* An FDE for one of the functions, with its program. */
static void put_fde(struct world *w, unsigned function, const char *program, size_t size)
{
	size_t start = w->table_size;
	put_u32(w, 0);
	put_u32(w, (uint32_t)(start + 4 - w->cie));
	put_u32(w, CODE + 64 * function - (TABLE + (uint32_t)start + 8));
	put_u32(w, 64);
	put(w, "", 1);
	put(w, program, size);
	finish_entry(w, start);
}
#define PUT_FDE(w, function, program) put_fde(w, function, program, sizeof(program) - 1)

static struct world *setup(void)
{
	struct world *w = calloc(1, sizeof(*w));
	assert_non_null(w);
	memset(w->code, 0x90, sizeof(w->code));
	for (unsigned function = 0; function < CODE_SIZE / 64; function++)
		w->code[64 * function + 11] = 0xe8; /* a call that ends at RETURN_TO(function) */
	w->input.arch = w->regs.arch = SP_ARCH_X86_64;
	w->regs.known = 0x1ffff;
	w->regs.value[SP_X86_64_RIP] = CODE + 20;
	w->regs.value[SP_X86_64_RSP] = STACK;
	w->stack_words = WORDS;
	put_cie(w, false);
	return w;
}

static enum sp_unwind_end run(struct world *w)
{
	struct sp_unwind_module *module;
	struct sp_unwinder *unwinder;
	w->input.eh_frame = (struct sp_unwind_section){ w->table, w->table_size, TABLE };
	w->input.text = (struct sp_unwind_section){ w->code, sizeof(w->code), CODE };
	assert_null(sp_unwind_module_create(&w->input, &module));
	assert_null(sp_unwinder_create(&unwinder));
	const struct sp_code_range range = { CODE, CODE + CODE_SIZE, 0, module };
	const struct sp_code_map map = { &range, 1 };
	const struct sp_stack_slice slice = { STACK, (const uint8_t *)w->stack, w->stack_words * 8 };
	enum sp_unwind_end end = SP_UNWIND_ROOT, first = SP_UNWIND_ROOT;
	for (int pass = 0; pass < 2; pass++) { /* interpreted, then from the cache */
		end = sp_unwind(unwinder, &map, &w->regs, &slice, 1, w->frames, MAX_FRAMES, &w->count);
		if (pass == 0)
			first = end;
		assert_int_equal(end, first);
	}
	sp_unwinder_destroy(unwinder);
	sp_unwind_module_destroy(module);
	return end;
}

#define ROOT_PROGRAM "\x07\x10" /* the return address is undefined */

/* The top function's program, with function 1 as the root that called it. */
static enum sp_unwind_end run_top(struct world *w, const char *program, size_t size)
{
	put_fde(w, 0, program, size);
	PUT_FDE(w, 1, ROOT_PROGRAM);
	return run(w);
}
#define RUN_TOP(w, program) run_top(w, program, sizeof(program) - 1)

static void check_two_frames(const struct world *w, enum sp_unwind_end end)
{
	assert_int_equal(end, SP_UNWIND_ROOT);
	assert_int_equal(w->count, 2);
	assert_int_equal(w->frames[1].address, RETURN_TO(1));
	assert_int_equal(w->frames[1].kind, SP_FRAME_RETURN_ADDRESS);
	assert_int_equal(w->frames[1].origin, SP_FOUND_EXACT);
}

static void test_plain(void **state)
{
	(void)state;
	struct world *w = setup();
	w->stack[2] = RETURN_TO(1);
	check_two_frames(w, RUN_TOP(w, "\x0e\x18"));
	assert_int_equal(w->frames[0].cfa, STACK + 24);
	free(w);
}

static void test_expression_shapes(void **state)
{
	(void)state;
	struct world *w = setup(); /* PLT: 16 from offset 11 on */
	w->regs.value[SP_X86_64_RIP] = CODE + 16 + 11;
	w->stack[1] = RETURN_TO(1);
	check_two_frames(w, RUN_TOP(w, "\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22"));
	free(w);
	w = setup(); /* *(rbp - 8): a realigned stack; rbp saved at *rbp */
	w->regs.value[SP_X86_64_RBP] = STACK + 32;
	w->stack[3] = STACK + 96;
	w->stack[11] = RETURN_TO(1);
	check_two_frames(w, RUN_TOP(w, "\x0f\x03\x76\x78\x06\x10\x06\x02\x76\x00"));
	free(w);
	w = setup(); /* *(rsp + 16) + 8 */
	w->stack[2] = STACK + 80;
	w->stack[10] = RETURN_TO(1);
	check_two_frames(w, RUN_TOP(w, "\x0f\x05\x77\x10\x06\x23\x08"));
	free(w);
	w = setup(); /* *(rsp + 8 * r9 + 8) + 8 */
	w->regs.value[9] = 3;
	w->stack[4] = STACK + 80;
	w->stack[10] = RETURN_TO(1);
	check_two_frames(w, RUN_TOP(w, "\x0f\x0a\x77\x08\x79\x00\x38\x1e\x22\x06\x23\x08"));
	free(w);
	w = setup(); /* no shape: *(rsp + 8) xor 1, by the evaluator */
	w->stack[1] = (STACK + 80) ^ 1;
	w->stack[9] = RETURN_TO(1);
	check_two_frames(w, RUN_TOP(w, "\x0f\x05\x77\x08\x06\x31\x27"));
	free(w);
}

/* The signal frame: the interrupted pc is exact, and registers come from the context. */
static void test_signal_frame(void **state)
{
	(void)state;
	struct world *w = setup();
	PUT_FDE(w, 0, "");
	PUT_FDE(w, 2, ROOT_PROGRAM);
	put_cie(w, true);
	PUT_FDE(w, 1, "\x0f\x04\x77\xa0\x01\x06\x10\x10\x03\x77\xa8\x01\x10\x06\x03\x77\xf8\x00");
	w->stack[0] = RETURN_TO(1);
	w->stack[1 + 20] = STACK + 8 * 40; /* rsp */
	w->stack[1 + 21] = CODE + 128;     /* rip: the first instruction of function 2 */
	assert_int_equal(run(w), SP_UNWIND_ROOT);
	assert_int_equal(w->count, 3);
	assert_int_equal(w->frames[1].kind, SP_FRAME_IP);
	assert_int_equal(w->frames[2].kind, SP_FRAME_IP);
	assert_int_equal(w->frames[2].address, CODE + 128);
	w->stack[1 + 20] = 0x10000; /* the interrupted stack is another one */
	w->stack[1 + 21] = CODE + 20;
	assert_int_equal(run(w), SP_UNWIND_OTHER_STACK);
	free(w);
}

/* CFA = rbx in the caller, which the callee saved. */
static void test_saved_register_as_cfa(void **state)
{
	(void)state;
	struct world *w = setup();
	PUT_FDE(w, 0, "\x0e\x18\x83\x02"); /* rbx at CFA - 16 */
	PUT_FDE(w, 1, "\x0c\x03\x10");     /* CFA = rbx + 16 */
	PUT_FDE(w, 2, ROOT_PROGRAM);
	w->stack[1] = STACK + 160;
	w->stack[2] = RETURN_TO(1);
	w->stack[21] = RETURN_TO(2);
	assert_int_equal(run(w), SP_UNWIND_ROOT);
	assert_int_equal(w->count, 3);
	assert_int_equal(w->frames[2].address, RETURN_TO(2));
	free(w);
}

/* "pop %rbp" has been executed: its slot lies below rsp, the register holds the caller's value already. */
static void test_epilogue_keeps_register(void **state)
{
	(void)state;
	struct world *w = setup();
	PUT_FDE(w, 0, "\x86\x02");     /* CFA = rsp + 8, rbp at CFA - 16 */
	PUT_FDE(w, 1, "\x0c\x06\x10"); /* CFA = rbp + 16 */
	PUT_FDE(w, 2, ROOT_PROGRAM);
	w->regs.value[SP_X86_64_RBP] = STACK + 64;
	w->stack[0] = RETURN_TO(1);
	w->stack[9] = RETURN_TO(2);
	assert_int_equal(run(w), SP_UNWIND_ROOT);
	assert_int_equal(w->count, 3);
	free(w);
}

static void test_roots(void **state)
{
	(void)state;
	struct world *w = setup(); /* a return address of 0 */
	PUT_FDE(w, 0, "");
	assert_int_equal(run(w), SP_UNWIND_ROOT);
	assert_int_equal(w->count, 1);
	free(w);
	w = setup(); /* no tables near the entry point */
	PUT_FDE(w, 0, "");
	w->stack[0] = RETURN_TO(1);
	w->input.entry = CODE + 64;
	assert_int_equal(run(w), SP_UNWIND_ROOT);
	assert_int_equal(w->count, 2);
	free(w);
	w = setup(); /* no tables and a frame pointer of 0 */
	PUT_FDE(w, 0, "");
	w->stack[0] = RETURN_TO(1);
	assert_int_equal(run(w), SP_UNWIND_ROOT);
	w->regs.value[SP_X86_64_RBP] = 7; /* nor anything to go on with */
	assert_int_equal(run(w), SP_UNWIND_NO_TABLES);
	free(w);
}

/* glibc's code that a fiber of makecontext() returns to has no tables there: plain, and as made for CET. */
static void test_fiber_starts(void **state)
{
	(void)state;
	static const char *const codes[] = { "\x48\x89\xdc\x48\x8b\x3c\x24",
		                             "\xf3\x0f\x1e\xfa\x48\x89\xdc\x48\x8b\x3c\x24" };
	for (size_t i = 0; i < 2; i++) {
		struct world *w = setup();
		PUT_FDE(w, 0, "");
		w->stack[0] = CODE + 128;
		w->regs.value[SP_X86_64_RBP] = 7;
		assert_int_equal(run(w), SP_UNWIND_NO_TABLES);
		memcpy(w->code + 128, codes[i], strlen(codes[i]));
		assert_int_equal(run(w), SP_UNWIND_ROOT);
		free(w);
	}
}

static void test_code_without_tables(void **state)
{
	(void)state;
	struct world *w = setup(); /* the top frame: what a call left is at rsp */
	PUT_FDE(w, 1, ROOT_PROGRAM);
	w->stack[0] = RETURN_TO(1);
	assert_int_equal(run(w), SP_UNWIND_ROOT);
	assert_int_equal(w->count, 2);
	assert_int_equal(w->frames[1].origin, SP_FOUND_GUESS);
	w->stack[0] = RETURN_TO(1) + 1; /* not after a call: by frame pointer */
	w->regs.value[SP_X86_64_RBP] = STACK + 32;
	w->stack[4] = 0;
	w->stack[5] = RETURN_TO(1);
	assert_int_equal(run(w), SP_UNWIND_ROOT);
	assert_int_equal(w->frames[1].origin, SP_FOUND_FRAME_POINTER);
	w->regs.value[SP_X86_64_RBP] = STACK + 33; /* not aligned */
	assert_int_equal(run(w), SP_UNWIND_NO_TABLES);
	w->regs.value[SP_X86_64_RBP] = STACK - 32; /* below rsp */
	assert_int_equal(run(w), SP_UNWIND_NO_TABLES);
	free(w);
}

static void test_ends(void **state)
{
	(void)state;
	struct world *w = setup(); /* the dump ends before the return address */
	w->stack_words = 2;
	assert_int_equal(RUN_TOP(w, "\x0e\x18"), SP_UNWIND_DUMP_END);
	assert_int_equal(w->frames[0].cfa, STACK + 24);
	free(w);
	w = setup(); /* a CFA below the stack pointer */
	w->stack[2] = STACK - 80;
	assert_int_equal(RUN_TOP(w, "\x0f\x05\x77\x10\x06\x23\x08"), SP_UNWIND_OTHER_STACK);
	free(w);
	w = setup(); /* an expression that never ends */
	assert_int_equal(RUN_TOP(w, "\x0f\x04\x31\x2f\xfc\xff"), SP_UNWIND_BAD_CFA);
	free(w);
	w = setup(); /* more frames than there is room for */
	PUT_FDE(w, 1, "");
	PUT_FDE(w, 0, "");
	for (size_t i = 0; i < WORDS; i++)
		w->stack[i] = RETURN_TO(1);
	assert_int_equal(run(w), SP_UNWIND_DEPTH);
	assert_int_equal(w->count, MAX_FRAMES);
	free(w);
	w = setup(); /* nothing to start from */
	w->regs.known = 0;
	assert_int_equal(run(w), SP_UNWIND_NO_REGS);
	free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_expression_shapes),
		cmocka_unit_test(test_signal_frame),
		cmocka_unit_test(test_saved_register_as_cfa),
		cmocka_unit_test(test_epilogue_keeps_register),
		cmocka_unit_test(test_roots),
		cmocka_unit_test(test_fiber_starts),
		cmocka_unit_test(test_code_without_tables),
		cmocka_unit_test(test_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
