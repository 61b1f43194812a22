/* Fuzz target: the unwinder on any tables, code and stack.
 *
 * The input is a header (architecture, pc offset, sizes of the parts, two registers), then the parts: .eh_frame_hdr,
 * .eh_frame, .debug_frame, code, stack. The stack is unwound twice, so that rules come from the cache too, and
 * completed from a history. Whatever the bytes are, frames must stay inside the array and the end be one of the known
 * ones. */
#include "sampler/unwind/unwind.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEADER 16
#define CAPACITY 256
#define HDR_ADDRESS 0x1000
#define EH_FRAME_ADDRESS 0x2000
#define DEBUG_FRAME_ADDRESS 0x20000
#define CODE_ADDRESS 0x40000
#define STACK_ADDRESS 0x7f0000000000u

/* The next part of the input, at most `wanted` bytes. */
static struct sp_unwind_section take(const uint8_t **data, size_t *left, size_t wanted, uint64_t address)
{
	size_t size = wanted < *left ? wanted : *left;
	struct sp_unwind_section section = { .bytes = size ? *data : NULL, .size = size, .address = address };
	*data += size;
	*left -= size;
	return section;
}

static void unwind(const struct sp_unwind_module *module, const struct sp_unwind_section *code,
                   const struct sp_regs *regs, const struct sp_stack_slice *stack)
{
	struct sp_unwinder *unwinder;
	struct sp_stack_history *history;
	struct sp_frame frames[CAPACITY];
	struct sp_code_range ranges[2] = { { CODE_ADDRESS, CODE_ADDRESS + (code->size ? code->size : 1), 0, module },
		                           { 0x50000000, 0x60000000, 0, NULL } };
	const struct sp_code_map map = { ranges, 2 };
	if (sp_unwinder_create(&unwinder) || sp_stack_history_create(&history))
		abort();
	for (uint64_t pass = 1; pass <= 3; pass++) {
		size_t count;
		struct sp_stack_slice slice = *stack;
		if (pass == 3)
			slice.size /= 2;
		enum sp_unwind_end end = sp_unwind(unwinder, &map, regs, &slice, 1, frames, CAPACITY - 8, &count);
		if (count > CAPACITY - 8 || end > SP_UNWIND_NO_REGS)
			abort();
		end = sp_unwind_complete(history, pass, &slice, 1, NULL, 0, end, frames, CAPACITY, &count);
		if (count > CAPACITY || end > SP_UNWIND_NO_REGS)
			abort();
	}
	sp_unwinder_forget(unwinder, module);
	sp_stack_history_destroy(history);
	sp_unwinder_destroy(unwinder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < HEADER)
		return 0;
	const uint8_t *head = data;
	data += HEADER;
	size -= HEADER;
	struct sp_unwind_input input = { .arch = head[0] & 1 ? SP_ARCH_AARCH64 : SP_ARCH_X86_64 };
	input.entry = head[0] & 2 ? CODE_ADDRESS : 0;
	input.eh_frame_hdr = take(&data, &size, head[1], HDR_ADDRESS);
	input.eh_frame = take(&data, &size, head[2] * 4u, EH_FRAME_ADDRESS);
	input.debug_frame = take(&data, &size, head[3] * 4u, DEBUG_FRAME_ADDRESS);
	input.text = take(&data, &size, head[4] * 4u, CODE_ADDRESS);
	struct sp_unwind_module *module;
	if (sp_unwind_module_create(&input, &module))
		abort();
	struct sp_regs regs = { .arch = input.arch, .known = head[0] & 4 ? UINT64_MAX : 0x1ffff };
	if (input.arch == SP_ARCH_AARCH64)
		regs.known = UINT64_MAX;
	for (size_t i = 0; i < SP_REGS_MAX; i++)
		regs.value[i] = STACK_ADDRESS + head[8 + i % 8] * 8u;
	regs.value[input.arch == SP_ARCH_X86_64 ? SP_X86_64_RIP : SP_AARCH64_PC] = CODE_ADDRESS + head[5];
	regs.value[input.arch == SP_ARCH_X86_64 ? SP_X86_64_RSP : SP_AARCH64_SP] = STACK_ADDRESS;
	regs.value[input.arch == SP_ARCH_X86_64 ? SP_X86_64_RBP : SP_AARCH64_FP] = STACK_ADDRESS + head[6] * 8u;
	const struct sp_stack_slice stack = { STACK_ADDRESS, data, size };
	unwind(module, &input.text, &regs, &stack);
	sp_unwind_module_destroy(module);
	return 0;
}
