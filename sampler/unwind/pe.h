/* Unwinding by the tables of Windows binaries: .pdata and .xdata of x64 and ARM64.
 *
 * They say for each function what its prologue did, so that a caller's registers follow exactly, also from within a
 * prologue or an epilogue. Functions without an entry are leaves. Nothing is allocated in a step; modules are immutable
 * and shared. For samplers that suspend threads, and for minidumps: registers and stack bytes go in, frames come out.
 */
#ifndef SP_SAMPLER_UNWIND_PE_H
#define SP_SAMPLER_UNWIND_PE_H

#include "sampler/unwind/unwind.h"

struct sp_object;
struct sp_pe_module;

/* `object` is a PE file and must outlive the module. SP_ERROR_UNSUPPORTED for other architectures. */
struct sp_error *sp_pe_module_create(struct sp_object *object, struct sp_pe_module **ret);
void sp_pe_module_destroy(struct sp_pe_module *module);

/* Memory of the target; false when it is not there. */
struct sp_pe_memory {
	bool (*read)(void *context, uint64_t address, uint64_t *ret);
	void *context;
};

enum sp_pe_step {
	SP_PE_CALLER,      /* the registers are those of the caller, its pc a return address */
	SP_PE_INTERRUPTED, /* the same, but the caller was interrupted there: its pc is exact */
	SP_PE_NO_MEMORY,   /* stack bytes are missing */
	SP_PE_BAD_TABLES,  /* the tables make no sense */
};

/* Goes from the registers of a frame, whose pc lies in a module loaded at `base`, to those of its caller. `exact`: the
 * pc is not a return address. On failure the registers are undefined. */
enum sp_pe_step sp_pe_step(const struct sp_pe_module *module, uint64_t base, bool exact, struct sp_regs *regs,
                           const struct sp_pe_memory *memory);

/* Where modules lie, sorted by start, without overlap. */
struct sp_pe_range {
	uint64_t start, end;
	const struct sp_pe_module *module; /* borrowed; NULL = code without tables, which ends the stack */
};

/* As sp_unwind() for a stack in a Windows process. Frames have their caller's stack pointer as CFA. */
enum sp_unwind_end sp_pe_unwind(const struct sp_pe_range *ranges, size_t range_count, const struct sp_regs *regs,
                                const struct sp_stack_slice *slices, size_t slice_count, struct sp_frame *frames,
                                size_t capacity, size_t *ret_count);

#endif
