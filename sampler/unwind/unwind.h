/* The unwinder: registers + stack bytes + unwind tables -> frames.
 *
 * One engine for live samples, trace files, minidumps and tests. No allocation and no system call in a step; no tables
 * are built when a module is added. An unwinder belongs to one thread; modules and address spaces are immutable and
 * shared. */
#ifndef SP_SAMPLER_UNWIND_UNWIND_H
#define SP_SAMPLER_UNWIND_UNWIND_H

#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sp_arch {
	SP_ARCH_NONE,
	SP_ARCH_X86_64,
	SP_ARCH_AARCH64,
	SP_ARCH_X86, /* named, not unwound */
	SP_ARCH_ARM, /* named, not unwound */
};

/* DWARF numbers of the registers that code here names. */
enum {
	SP_X86_64_RAX = 0,
	SP_X86_64_RDX = 1,
	SP_X86_64_RCX = 2,
	SP_X86_64_RBX = 3,
	SP_X86_64_RSI = 4,
	SP_X86_64_RDI = 5,
	SP_X86_64_RBP = 6,
	SP_X86_64_RSP = 7,
	SP_X86_64_R8 = 8,
	SP_X86_64_R15 = 15,
	SP_X86_64_RIP = 16,
	SP_AARCH64_X0 = 0,
	SP_AARCH64_FP = 29,
	SP_AARCH64_LR = 30,
	SP_AARCH64_SP = 31,
	SP_AARCH64_PC = 32,
	SP_REGS_MAX = 33,
};

/* User registers of a thread, indexed by DWARF number (x86-64: 0-15 and 16 = rip; AArch64: x0-x30, sp, 32 = pc). */
struct sp_regs {
	enum sp_arch arch;
	uint64_t known; /* bit n: value[n] is valid */
	uint64_t value[SP_REGS_MAX];
	uint64_t pointer_auth_mask; /* AArch64: bits to clear in return addresses; 0 = a default of bits 48 to 54 */
};

/* Bytes of the target's memory. */
struct sp_stack_slice {
	uint64_t address; /* of bytes[0] in the target */
	const uint8_t *bytes;
	size_t size;
};

/* Where the code of a file came to lie and how to unwind it. Sections are borrowed from the object file, which must
 * outlive the module. Addresses in here are the file's own (stated virtual addresses, "svma"). */
struct sp_unwind_section {
	const uint8_t *bytes; /* NULL = absent */
	size_t size;
	uint64_t address; /* svma of bytes[0] */
};
struct sp_unwind_input {
	enum sp_arch arch;
	struct sp_unwind_section eh_frame_hdr, eh_frame, debug_frame;
	struct sp_unwind_section pdata, xdata; /* PE */
	struct sp_unwind_section text;         /* the executable segment, to check for calls; may be absent */
	struct sp_unwind_section got;          /* base for datarel pointers; only .address is used */
	uint64_t image_base;                   /* svma that relative addresses count from */
	uint64_t entry;                        /* svma of the entry point; 0 = none */
	bool big_endian;
};
struct sp_unwind_module;
struct sp_error *sp_unwind_module_create(const struct sp_unwind_input *input, struct sp_unwind_module **ret);
void sp_unwind_module_destroy(struct sp_unwind_module *module);
/* The same from an object file, which must outlive the module. Fails with SP_ERROR_UNSUPPORTED for architectures that
 * are not unwound. */
struct sp_object;
struct sp_error *sp_unwind_module_from_object(struct sp_object *object, struct sp_unwind_module **ret);

/* One mapping of executable memory. Code without a module is stepped over by frame pointers. */
struct sp_code_range {
	uint64_t start, end;                   /* [start, end) in the target */
	uint64_t bias;                         /* target address - svma */
	const struct sp_unwind_module *module; /* borrowed; NULL for JIT and unreadable files */
};

/* What an address space looks like to the unwinder: ranges sorted by start, without overlap. Borrowed. */
struct sp_code_map {
	const struct sp_code_range *ranges;
	size_t count;
};

enum sp_frame_kind {
	SP_FRAME_IP,             /* an instruction pointer: exact */
	SP_FRAME_RETURN_ADDRESS, /* look up address - 1 */
	SP_FRAME_ADJUSTED,       /* a return address from which 1 was taken already */
};
enum sp_frame_mode { SP_MODE_USER, SP_MODE_KERNEL, SP_MODE_GUEST };
enum sp_frame_origin {
	SP_FOUND_EXACT,         /* the sampled registers, or unwind tables */
	SP_FOUND_FRAME_POINTER, /* code without tables, by frame pointer */
	SP_FOUND_GUESS,         /* code without tables, by a plausible return address */
	SP_FOUND_SPLICED_CHAIN, /* taken from the kernel's frame-pointer chain where the dump ended */
	SP_FOUND_SPLICED_STACK, /* taken from an earlier stack of the same thread */
};

struct sp_frame {
	uint64_t address;
	uint64_t cfa;   /* canonical frame address; 0 = unknown */
	uint8_t kind;   /* enum sp_frame_kind */
	uint8_t mode;   /* enum sp_frame_mode */
	uint8_t origin; /* enum sp_frame_origin */
};

/* Why an unwind ended. Only SP_UNWIND_ROOT is a whole stack. */
enum sp_unwind_end {
	SP_UNWIND_ROOT,         /* the outermost frame was reached */
	SP_UNWIND_DUMP_END,     /* the stack bytes ended first */
	SP_UNWIND_NO_TABLES,    /* code without unwind tables, and no usable frame pointer */
	SP_UNWIND_BAD_CFA,      /* the tables gave an impossible frame */
	SP_UNWIND_OTHER_STACK,  /* the stack pointer left the dumped stack (sigaltstack, fiber) */
	SP_UNWIND_DEPTH,        /* more than SP_UNWIND_MAX_FRAMES */
	SP_UNWIND_NO_REGS,      /* nothing to start from */
	SP_UNWIND_NOT_RECORDED, /* an imported trace has no (user) stack for the sample; not of the unwinder */
};
#define SP_UNWIND_MAX_FRAMES 16384

struct sp_unwinder;
struct sp_error *sp_unwinder_create(struct sp_unwinder **ret);
void sp_unwinder_destroy(struct sp_unwinder *unwinder);

/* Forgets everything cached about a module; call it before the module is destroyed. */
void sp_unwinder_forget(struct sp_unwinder *unwinder, const struct sp_unwind_module *module);

/* Unwinds, leaf first, into frames[0 .. capacity). *ret_count frames were found. Never fails: what can't be had ends
 * the stack, and the end says why. */
enum sp_unwind_end sp_unwind(struct sp_unwinder *unwinder, const struct sp_code_map *map, const struct sp_regs *regs,
                             const struct sp_stack_slice *slices, size_t slice_count, struct sp_frame *frames,
                             size_t capacity, size_t *ret_count);

/* Completes a stack that ended at SP_UNWIND_DUMP_END: first from `chain` (the kernel's user call chain, leaf first, may
 * be empty), then from earlier stacks of the same thread kept in `history`. Guards against recursion: see splice.c.
 * Appends to frames and returns the new end. All stacks of a thread are passed here, in order of time (ns) and with the
 * slices that they were unwound from: whole ones are remembered. */
struct sp_stack_history; /* one a thread */
struct sp_error *sp_stack_history_create(struct sp_stack_history **ret);
void sp_stack_history_destroy(struct sp_stack_history *history);
/* Begins to fetch from memory what sp_unwind() will read of a stack when it is like the thread's last one: a dump that
 * another CPU has just written is cold, and a walk would wait for each frame in turn. */
void sp_stack_history_prefetch(const struct sp_stack_history *history, const struct sp_stack_slice *slice);
enum sp_unwind_end sp_unwind_complete(struct sp_stack_history *history, uint64_t time,
                                      const struct sp_stack_slice *slices, size_t slice_count, const uint64_t *chain,
                                      size_t chain_count, enum sp_unwind_end end, struct sp_frame *frames,
                                      size_t capacity, size_t *count);

struct sp_unwind_stats {
	uint64_t stacks, frames;
	uint64_t cache_hits, cache_misses;
	uint64_t ends[SP_UNWIND_NO_REGS + 1]; /* by enum sp_unwind_end, before completion */
};
void sp_unwinder_stats(const struct sp_unwinder *unwinder, struct sp_unwind_stats *ret);

#endif
