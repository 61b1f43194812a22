/* Fuzz target: unwinding by the tables of any PE file: steps at many places with made-up registers and stack. */
#include "sampler/unwind/pe.h"
#include "symbolication/object/object.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STACK = 4096, PLACES = 256 };

static void unwind(const struct sp_pe_module *module, enum sp_arch arch, const uint8_t *stack)
{
	const uint64_t base = 0x10000000, low = 0x20000000;
	struct sp_pe_range range = { base, base + 0x1000000, module };
	struct sp_stack_slice slice = { low, stack, STACK };
	struct sp_frame frames[64];
	for (unsigned i = 0; i < PLACES; i++) {
		struct sp_regs regs = { .arch = arch, .known = UINT64_MAX };
		size_t count;
		for (unsigned k = 0; k < SP_REGS_MAX; k++)
			regs.value[k] = low + 8 * k;
		regs.value[arch == SP_ARCH_X86_64 ? (unsigned)SP_X86_64_RIP : (unsigned)SP_AARCH64_PC] = base + 0x1000 +
		                                                                                         i;
		sp_pe_unwind(&range, 1, &regs, &slice, 1, frames, 64, &count);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sp_object *object;
	struct sp_pe_module *module;
	struct sp_error *error = sp_object_open_bytes(data, size, "fuzz", &object);
	if (error) {
		sp_error_destroy(error);
		return 0;
	}
	error = sp_pe_module_create(object, &module);
	if (!error) {
		/* Return addresses that lead back into the module. */
		static uint8_t stack[STACK];
		for (unsigned i = 0; i < STACK / 8; i++) {
			uint64_t value = 0x10001000 + i % 200;
			memcpy(stack + 8 * i, &value, 8);
		}
		bool x64 = strcmp(sp_object_info(object)->arch, "x86_64") == 0;
		unwind(module, x64 ? SP_ARCH_X86_64 : SP_ARCH_AARCH64, stack);
		sp_pe_module_destroy(module);
	}
	sp_error_destroy(error);
	sp_object_destroy(object);
	return 0;
}
