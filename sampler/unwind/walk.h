/* The state of one unwind, shared by the fast loop (unwinder.c) and the slow steps (step.c). */
#ifndef SP_SAMPLER_UNWIND_WALK_H
#define SP_SAMPLER_UNWIND_WALK_H

#include "internal.h"

/* Look-ups of rows that one unwind may do to recover registers. */
#define WALK_ROW_BUDGET 4096
/* Times that one unwind may go to another slice of stack. */
#define WALK_JUMP_BUDGET 16
/* Expressions that need registers of inner frames that need expressions ... */
#define WALK_MAX_NESTING 4

/* The register's value in some frame, found once. */
struct walk_memo {
	uint32_t frame;
	uint64_t value;
};

struct walk {
	const struct sp_code_map *map;
	const struct sp_regs *regs;
	const struct sp_stack_slice *slices;
	size_t slice_count;
	const struct unwind_arch *arch;
	struct cfi_scratch *scratch;
	struct sp_frame *frames;
	size_t count; /* the frame being stepped from is frames[count - 1] */

	/* Registers of that frame. */
	uint64_t pc, sp, fp;
	bool fp_known;
	bool exact;                         /* pc is the next instruction, not a return address */
	bool jumped;                        /* sp came from memory: it may be on another stack */
	const struct sp_stack_slice *slice; /* the one that holds sp, or held the last sp that was in one */
	const struct sp_code_range *range;  /* the one that holds pc, or some other one; NULL when there are none */

	/* Callee-saved registers are recovered when a rule asks for one. */
	uint64_t memo_set; /* bit n: memo[n] is valid */
	struct walk_memo memo[SP_REGS_MAX];
	unsigned row_budget, jump_budget, nesting;
};

/* Where a step leads. */
struct step {
	uint64_t cfa, sp, pc, fp; /* of the caller, cfa of the frame stepped from */
	bool fp_known;
	bool interrupted; /* the caller's pc is exact */
	bool jumped;
	uint8_t origin; /* enum sp_frame_origin of the caller */
};

/* A step's result when it did not end the stack. */
#define WALK_ON (-1)

static inline uint64_t walk_strip(const struct walk *walk, uint64_t return_address)
{
	if (walk->arch->lr == walk->arch->pc)
		return return_address;
	uint64_t mask = walk->regs->pointer_auth_mask;
	return return_address & ~(mask ? mask : (uint64_t)0x7f << 48);
}

/* A word of the target's stack. */
bool walk_read_elsewhere(const struct walk *walk, uint64_t address, uint64_t *ret);
static inline bool walk_read(const struct walk *walk, uint64_t address, uint64_t *ret)
{
	const struct sp_stack_slice *slice = walk->slice;
	uint64_t offset = address - slice->address;
	if (__builtin_expect(slice->size >= 8 && offset <= slice->size - 8, 1)) {
		memcpy(ret, slice->bytes + offset, 8);
		return true;
	}
	return walk_read_elsewhere(walk, address, ret);
}

/* The range that holds an address, or NULL. */
const struct sp_code_range *walk_find_range(const struct sp_code_map *map, uint64_t address);
/* The range to look up a frame in, and the address to look up: one before a return address, except where the range
 * starts with it (a page with nothing but the way back from signal handlers). */
const struct sp_code_range *walk_find_code(const struct sp_code_map *map, uint64_t pc, bool exact,
                                           uint64_t *ret_address);

/* Why the word at `address`, wanted by the rules, can't be read; `jumped`: the address was read from memory. */
enum sp_unwind_end walk_unreadable(const struct walk *walk, uint64_t address, bool jumped);

/* The value of a register in frames[frame]. */
bool walk_register(struct walk *walk, size_t frame, unsigned reg, uint64_t *ret);

/* Steps by the full row of tables, or with a rule whose return address is in the link register. WALK_ON or an enum
 * sp_unwind_end; cfa is set in either case, 0 when unknown. */
int walk_step_row(struct walk *walk, struct step *ret);
/* Steps from code without tables. */
int walk_step_without_tables(struct walk *walk, struct step *ret);

#endif
