/* Windows modules for the unwinder: their table of functions, and the walk over a stack. */
#include "sampler/unwind/pe.h"

#include "sampler/unwind/pe_internal.h"
#include "symbolication/object/object.h"

#include <stdlib.h>
#include <string.h>

struct sp_error *sp_pe_module_create(struct sp_object *object, struct sp_pe_module **ret)
{
	const struct spsym_file_info *info = sp_object_info(object);
	enum sp_arch arch = strcmp(info->arch, "x86_64") == 0  ? SP_ARCH_X86_64
	                    : strcmp(info->arch, "arm64") == 0 ? SP_ARCH_AARCH64
	                                                       : SP_ARCH_NONE;
	if (info->kind != SPSYM_KIND_PE || arch == SP_ARCH_NONE)
		return sp_error_create(SP_ERROR_UNSUPPORTED, "%s: no Windows binary of an architecture that is unwound",
		                       sp_object_name(object));
	struct sp_pe_module *module = calloc(1, sizeof(*module));
	if (!module)
		return sp_error_no_memory();
	uint32_t address, size;
	module->object = object;
	module->arch = arch;
	module->base = info->base;
	module->entry_size = arch == SP_ARCH_X86_64 ? 12 : 8;
	module->pdata = sp_cursor_init(NULL, 0);
	if (sp_object_exception_table(object, &address, &size))
		module->pdata = pe_bytes(module, address, size);
	module->count = sp_cursor_left(&module->pdata) / module->entry_size;
	*ret = module;
	return NULL;
}

void sp_pe_module_destroy(struct sp_pe_module *module)
{
	free(module);
}

struct sp_cursor pe_bytes(const struct sp_pe_module *module, uint32_t address, size_t size)
{
	const uint8_t *bytes = sp_object_image_bytes(module->object, module->base + address, &size);
	struct sp_cursor c = sp_cursor_init(bytes, bytes ? size : 0);
	c.bad = !bytes;
	return c;
}

static struct pe_function entry_at(const struct sp_pe_module *module, size_t index)
{
	struct sp_cursor c = module->pdata;
	struct pe_function function = { 0 };
	sp_cursor_seek(&c, index * module->entry_size);
	function.start = sp_cursor_u32(&c);
	if (module->arch == SP_ARCH_X86_64)
		function.end = sp_cursor_u32(&c);
	function.unwind = sp_cursor_u32(&c);
	return function;
}

bool pe_find_function(const struct sp_pe_module *module, uint32_t address, struct pe_function *ret)
{
	size_t low = 0, high = module->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (entry_at(module, middle).start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return false;
	*ret = entry_at(module, low - 1);
	return true;
}

enum sp_pe_step sp_pe_step(const struct sp_pe_module *module, uint64_t base, bool exact, struct sp_regs *regs,
                           const struct sp_pe_memory *memory)
{
	bool x64 = module->arch == SP_ARCH_X86_64;
	uint64_t pc = regs->value[x64 ? (unsigned)SP_X86_64_RIP : (unsigned)SP_AARCH64_PC] - base - !exact;
	if (pc > UINT32_MAX)
		return SP_PE_BAD_TABLES;
	struct pe_frame frame = {
		.module = module, .memory = memory, .regs = regs, .pc = (uint32_t)pc, .exact = exact
	};
	enum sp_pe_step step = x64 ? pe_step_x64(&frame) : pe_step_arm64(&frame);
	return frame.missing ? SP_PE_NO_MEMORY : step;
}

/* ---- Stacks ---- */

struct slices {
	const struct sp_stack_slice *items;
	size_t count;
};

static bool read_slices(void *context, uint64_t address, uint64_t *ret)
{
	const struct slices *slices = context;
	for (size_t i = 0; i < slices->count; i++) {
		const struct sp_stack_slice *slice = &slices->items[i];
		uint64_t offset = address - slice->address;
		if (slice->size >= 8 && offset <= slice->size - 8) {
			memcpy(ret, slice->bytes + offset, 8);
			return true;
		}
	}
	return false;
}

static const struct sp_pe_range *find_range(const struct sp_pe_range *ranges, size_t count, uint64_t address)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (ranges[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low && address < ranges[low - 1].end ? &ranges[low - 1] : NULL;
}

enum sp_unwind_end sp_pe_unwind(const struct sp_pe_range *ranges, size_t range_count, const struct sp_regs *regs,
                                const struct sp_stack_slice *slices, size_t slice_count, struct sp_frame *frames,
                                size_t capacity, size_t *ret_count)
{
	bool x64 = regs->arch == SP_ARCH_X86_64;
	unsigned pc = x64 ? (unsigned)SP_X86_64_RIP : (unsigned)SP_AARCH64_PC;
	unsigned sp = x64 ? (unsigned)SP_X86_64_RSP : (unsigned)SP_AARCH64_SP;
	struct slices context = { slices, slice_count };
	const struct sp_pe_memory memory = { read_slices, &context };
	struct sp_regs current = *regs;
	bool exact = true;
	*ret_count = 0;
	if (!(regs->known >> pc & 1) || !(regs->known >> sp & 1))
		return SP_UNWIND_NO_REGS;
	for (;;) {
		if (!current.value[pc])
			return SP_UNWIND_ROOT;
		if (*ret_count == capacity || *ret_count == SP_UNWIND_MAX_FRAMES)
			return SP_UNWIND_DEPTH;
		struct sp_frame *frame = &frames[(*ret_count)++];
		*frame = (struct sp_frame){ .address = current.value[pc],
			                    .kind = exact ? SP_FRAME_IP : SP_FRAME_RETURN_ADDRESS,
			                    .mode = SP_MODE_USER,
			                    .origin = SP_FOUND_EXACT };
		const struct sp_pe_range *range = find_range(ranges, range_count, current.value[pc] - !exact);
		if (!range || !range->module || range->module->arch != regs->arch)
			return SP_UNWIND_NO_TABLES;
		uint64_t before = current.value[sp];
		enum sp_pe_step step = sp_pe_step(range->module, range->start, exact, &current, &memory);
		if (step == SP_PE_NO_MEMORY)
			return SP_UNWIND_DUMP_END;
		if (step == SP_PE_BAD_TABLES)
			return SP_UNWIND_BAD_CFA;
		/* The stack shrinks; only a leaf of ARM64 keeps nothing on it, and only the innermost frame is one. */
		bool kept = !x64 && exact && current.value[sp] == before;
		if (current.value[sp] <= before && !kept && step != SP_PE_INTERRUPTED)
			return SP_UNWIND_BAD_CFA;
		frame->cfa = current.value[sp];
		exact = step == SP_PE_INTERRUPTED;
	}
}
