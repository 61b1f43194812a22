/* What pe.c shares with the architectures. */
#ifndef SP_SAMPLER_UNWIND_PE_INTERNAL_H
#define SP_SAMPLER_UNWIND_PE_INTERNAL_H

#include "common/cursor.h"
#include "sampler/unwind/pe.h"

struct sp_pe_module {
	struct sp_object *object; /* borrowed */
	enum sp_arch arch;
	uint64_t base;          /* svma of relative address 0 */
	struct sp_cursor pdata; /* sorted entries */
	size_t entry_size, count;
};

/* An entry of .pdata. */
struct pe_function {
	uint32_t start;
	uint32_t end;    /* x64 */
	uint32_t unwind; /* x64: address of the unwind information; ARM64: that, or packed data */
};

/* One step at work. */
struct pe_frame {
	const struct sp_pe_module *module;
	const struct sp_pe_memory *memory;
	struct sp_regs *regs;
	uint32_t pc; /* relative; of a return address one less */
	bool exact;
	bool missing; /* stack bytes were not there */
};

/* The last entry that starts at or before an address; false when there is none. */
bool pe_find_function(const struct sp_pe_module *module, uint32_t address, struct pe_function *ret);
/* Bytes of the image from a relative address on, at most `size`; bad when there are none. */
struct sp_cursor pe_bytes(const struct sp_pe_module *module, uint32_t address, size_t size);

/* Reads a register from the stack; false, with `missing`, when it is not there. */
static inline bool pe_load(struct pe_frame *frame, unsigned reg, uint64_t address)
{
	uint64_t value;
	if (!frame->memory->read(frame->memory->context, address, &value)) {
		frame->missing = true;
		return false;
	}
	if (reg < SP_REGS_MAX) {
		frame->regs->value[reg] = value;
		frame->regs->known |= UINT64_C(1) << reg;
	}
	return true;
}

enum sp_pe_step pe_step_x64(struct pe_frame *frame);
enum sp_pe_step pe_step_arm64(struct pe_frame *frame);

#endif
