/* Prologues and epilogues of the top frame on AArch64.
 *
 * Compilers before LLVM 15 describe a frame only from the end of its prologue on and say nothing about epilogues. The
 * instructions tell: from the function's first one to the interrupted one, or from there to the return, they are
 * followed by what they do to sp, x29 and x30. That is exact as long as the way is straight and each instruction is
 * understood; else the tables are believed. */
#include "internal.h"

#define MAX_INSTRUCTIONS 32

enum { FP = SP_AARCH64_FP, LR = SP_AARCH64_LR, SP = 31 };

/* What an instruction means here. */
enum effect {
	EFFECT_NONE, /* not on sp, x29 or x30 */
	EFFECT_MOVE, /* rd = rn + offset, where rd is sp or x29 and rn too */
	EFFECT_LOAD, /* one or two registers from [sp ...] */
	EFFECT_STORE,
	EFFECT_RETURN,
	EFFECT_JUMP,    /* to somewhere else */
	EFFECT_REALIGN, /* sp becomes something lower that is not known */
	EFFECT_OTHER,
};

struct instruction {
	enum effect effect;
	uint8_t rd, rn;      /* EFFECT_MOVE */
	uint8_t rt, rt2;     /* EFFECT_LOAD, EFFECT_STORE; rt2 = SP when there is none */
	int64_t offset;      /* of the move, or of rt's slot from sp before the instruction */
	int64_t sp_change;   /* by the load or store */
	int64_t jump_offset; /* EFFECT_JUMP, from the instruction */
};

static int64_t sign_extend(uint32_t value, unsigned bits)
{
	return (int64_t)((uint64_t)value << (64 - bits)) >> (64 - bits);
}

/* Add and subtract with an immediate, when they concern sp, x29 or x30. */
static struct instruction decode_add(uint32_t code)
{
	uint8_t rd = code & 31, rn = code >> 5 & 31;
	int64_t value = (int64_t)(code >> 10 & 0xfff) << (code >> 22 & 1 ? 12 : 0);
	if (rd != SP && rd != FP && rd != LR)
		return (struct instruction){ .effect = EFFECT_NONE };
	if (rd == LR || (rn != SP && rn != FP))
		return (struct instruction){ .effect = EFFECT_OTHER };
	return (
	    struct instruction){ .effect = EFFECT_MOVE, .rd = rd, .rn = rn, .offset = code >> 30 & 1 ? -value : value };
}

/* Load and store of pairs; `vector` when the registers are not the general ones. */
static struct instruction decode_pair(uint32_t code, bool vector)
{
	uint8_t rn = code >> 5 & 31;
	unsigned mode = code >> 23 & 3; /* 1 post-index, 2 offset, 3 pre-index */
	int64_t offset = sign_extend(code >> 15 & 0x7f, 7) * 8;
	bool load = code >> 22 & 1;
	uint8_t rt = vector ? 0 : code & 31, rt2 = vector ? 0 : code >> 10 & 31;
	bool frame_registers = rt == FP || rt == LR || rt2 == FP || rt2 == LR;
	if (mode == 0 || (rn != SP && (mode != 2 || (load && frame_registers))))
		return (struct instruction){ .effect = rn == FP || frame_registers ? EFFECT_OTHER : EFFECT_NONE };
	if (rn != SP)
		return (struct instruction){ .effect = EFFECT_NONE };
	return (struct instruction){ .effect = load ? EFFECT_LOAD : EFFECT_STORE,
		                     .rt = rt,
		                     .rt2 = rt2,
		                     .offset = mode == 1 ? 0 : offset,
		                     .sp_change = mode == 2 ? 0 : offset };
}

/* Load and store of one 64-bit register with [sp, #imm]! or [sp], #imm; other registers and forms by decode_other(). */
static bool decode_single(uint32_t code, struct instruction *ret)
{
	bool load = code >> 22 & 1;
	uint8_t rt = code & 31, rn = code >> 5 & 31;
	if (rn != SP)
		return false;
	if ((code & 0xffa00400) == 0xf8000400) { /* bit 11: pre-index */
		int64_t offset = sign_extend(code >> 12 & 0x1ff, 9);
		*ret = (struct instruction){ .offset = code >> 11 & 1 ? offset : 0, .sp_change = offset };
	} else if ((code & 0xff800000) == 0xf9000000) {
		*ret = (struct instruction){ .offset = (int64_t)(code >> 10 & 0xfff) * 8 };
	} else {
		return false;
	}
	ret->effect = load ? EFFECT_LOAD : EFFECT_STORE;
	ret->rt = rt;
	ret->rt2 = SP;
	return true;
}

static enum effect decode_other(uint32_t code)
{
	uint8_t rd = code & 31;
	bool frame_register = rd == FP || rd == LR;
	if ((code & 0xfffff01f) == 0xd503201f) /* hints: nop, bti, paciasp, autiasp */
		return EFFECT_NONE;
	if ((code & 0xfffffbff) == 0xd65f0bff || code == 0xd65f03c0) /* retaa, retab, ret */
		return EFFECT_RETURN;
	bool immediate = (code >> 26 & 7) == 4, registers = (code >> 25 & 7) == 5, floating = (code >> 25 & 7) == 7;
	bool plain_access = (code & 0x3b000000) == 0x39000000 || (code & 0x3b200c00) == 0x38000000;
	bool vector = code >> 26 & 1;
	if (floating || (plain_access && vector))
		return EFFECT_NONE;
	bool logical = immediate && (code >> 23 & 7) == 4, extended = (code & 0x1f200000) == 0x0b200000;
	if (rd == SP && (logical || extended)) /* "and sp, x9, #-64", "sub sp, sp, x0" */
		return EFFECT_REALIGN;
	if (immediate || registers || plain_access)
		return frame_register && !(plain_access && !(code >> 22 & 3)) ? EFFECT_OTHER : EFFECT_NONE;
	return EFFECT_OTHER;
}

static struct instruction decode(uint32_t code)
{
	struct instruction single;
	if ((code & 0xbf800000) == 0x91000000)
		return decode_add(code);
	if ((code & 0xfe000000) == 0xa8000000)
		return decode_pair(code, false);
	if ((code & 0xfe000000) == 0x6c000000)
		return decode_pair(code, true);
	if (decode_single(code, &single))
		return single;
	if ((code & 0xfc000000) == 0x14000000)
		return (struct instruction){ .effect = EFFECT_JUMP,
			                     .jump_offset = sign_extend(code & 0x3ffffff, 26) * 4 };
	return (struct instruction){ .effect = decode_other(code) };
}

/* Registers as the instructions change them. In a prologue values count from the CFA, in an epilogue from sp (or x29)
 * where it started. */
struct state {
	int64_t sp;
	bool sp_from_fp; /* epilogue: sp counts from x29 */
	bool fp_moved;   /* prologue: x29 is this frame's */
	bool sp_unknown; /* prologue: the stack was realigned */
	int64_t fp;      /* prologue: when moved */
	bool has_fp_slot, has_lr_slot;
	int64_t fp_slot, lr_slot;
};

static bool put_eighth(int64_t value, int16_t *ret)
{
	*ret = (int16_t)(value / 8);
	return value % 8 == 0 && value / 8 == *ret;
}

static void note_slot(struct state *state, uint8_t reg, int64_t slot)
{
	if (reg == FP) {
		state->has_fp_slot = true;
		state->fp_slot = slot;
	} else if (reg == LR) {
		state->has_lr_slot = true;
		state->lr_slot = slot;
	}
}

static void follow_access(struct state *state, const struct instruction *instruction)
{
	note_slot(state, instruction->rt, state->sp + instruction->offset);
	if (instruction->rt2 != SP)
		note_slot(state, instruction->rt2, state->sp + instruction->offset + 8);
	state->sp += instruction->sp_change;
}

static bool read_code(const struct sp_unwind_module *module, uint64_t address, struct instruction *ret)
{
	const struct sp_unwind_section *text = &module->input.text;
	uint64_t offset = address - text->address;
	uint32_t code;
	if (!text->bytes || text->size < sizeof(code) || offset > text->size - sizeof(code))
		return false;
	memcpy(&code, text->bytes + offset, sizeof(code));
	*ret = decode(code);
	return true;
}

/* The rule for a frame whose CFA is at an offset from a register and whose slots are relative to `cfa`. */
static bool finish(const struct state *state, enum rule_kind kind, int64_t offset, int64_t cfa, bool fp_in_slot,
                   struct rule *ret)
{
	struct rule rule = { .kind = (uint8_t)kind };
	if (!put_eighth(offset, &rule.cfa))
		return false;
	if (!state->has_lr_slot)
		rule.flags |= RULE_RA_IN_LR;
	else if (!put_eighth(state->lr_slot - cfa, &rule.ra))
		return false;
	if (fp_in_slot) {
		rule.flags |= RULE_FP_AT_CFA;
		if (!put_eighth(state->fp_slot - cfa, &rule.fp))
			return false;
	}
	*ret = rule;
	return true;
}

/* True when code that jumps to `target` has left its function: the target is outside, and either unknown or the entry
 * of a function. (A part of the same function that was split off has a frame where it starts.) */
static bool is_tail_call(const struct sp_unwind_module *module, const struct cfi_fde *fde, struct cfi_scratch *scratch,
                         uint64_t target)
{
	struct cfi_fde callee;
	if (target >= fde->start && target < fde->end)
		return false;
	if (!cfi_find(module, scratch, target, &callee))
		return true;
	return target == callee.start && cfi_run(&callee, module->arch, target, scratch) &&
	       scratch->row.cfa.how == CFI_REGISTER && scratch->row.cfa_base == SP && scratch->row.cfa.offset == 0;
}

/* From the interrupted instruction to the return. */
static bool follow_epilogue(const struct sp_unwind_module *module, const struct cfi_fde *fde,
                            struct cfi_scratch *scratch, uint64_t address, struct rule *ret)
{
	struct state state = { 0 };
	for (uint64_t at = address; at < address + 4 * MAX_INSTRUCTIONS && at < fde->end; at += 4) {
		struct instruction instruction;
		if (!read_code(module, at, &instruction))
			return false;
		switch (instruction.effect) {
		case EFFECT_NONE:
			continue;
		case EFFECT_MOVE:
			if (instruction.rd != SP)
				return false;
			if (instruction.rn == FP && (state.has_fp_slot || state.has_lr_slot))
				return false; /* x29 is no longer this frame's */
			if (instruction.rn == FP) {
				state.sp_from_fp = true;
				state.sp = 0;
			}
			state.sp += instruction.offset;
			continue;
		case EFFECT_LOAD:
			follow_access(&state, &instruction);
			continue;
		case EFFECT_JUMP:
			if (!is_tail_call(module, fde, scratch, at + (uint64_t)instruction.jump_offset))
				return false;
			break;
		case EFFECT_RETURN:
			break;
		default:
			return false;
		}
		return finish(&state, state.sp_from_fp ? RULE_FP : RULE_SP, state.sp, state.sp, state.has_fp_slot, ret);
	}
	return false;
}

/* One instruction of a prologue; false when it is of no prologue. */
static bool follow_prologue_step(struct state *state, const struct instruction *instruction)
{
	switch (instruction->effect) {
	case EFFECT_NONE:
		return true;
	case EFFECT_MOVE:
		if (instruction->rn != SP || (instruction->rd == FP && !state->has_fp_slot))
			return false;
		if (instruction->rd == SP) {
			state->sp += instruction->offset;
		} else {
			state->fp = state->sp + instruction->offset;
			state->fp_moved = true;
		}
		return true;
	case EFFECT_STORE:
		follow_access(state, instruction);
		return true;
	case EFFECT_REALIGN:
		state->sp_unknown = true;
		return state->fp_moved;
	default:
		return false;
	}
}

/* From the function's start to the interrupted instruction. */
static bool follow_prologue(const struct sp_unwind_module *module, const struct cfi_fde *fde, uint64_t address,
                            struct rule *ret)
{
	struct state state = { 0 };
	if (address - fde->start > 4 * MAX_INSTRUCTIONS)
		return false;
	for (uint64_t at = fde->start; at < address; at += 4) {
		struct instruction instruction;
		bool was_unknown = state.sp_unknown;
		if (!read_code(module, at, &instruction) || !follow_prologue_step(&state, &instruction))
			return false;
		if (was_unknown && instruction.effect == EFFECT_STORE)
			return false; /* to a place that is not known */
	}
	if (state.sp_unknown)
		return finish(&state, RULE_FP, -state.fp, 0, true, ret);
	return finish(&state, RULE_SP, -state.sp, 0, state.fp_moved, ret);
}

bool aarch64_follow_code(const struct sp_unwind_module *module, const struct cfi_fde *fde, struct cfi_scratch *scratch,
                         uint64_t address, struct rule *ret)
{
	return follow_epilogue(module, fde, scratch, address, ret) || follow_prologue(module, fde, address, ret);
}
