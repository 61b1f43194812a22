/* x64: UNWIND_INFO, a list of what the prologue did, last thing first (Microsoft, "x64 exception handling").
 *
 * Epilogues are not described; they have one form, so that they are known by their instructions: an adjustment of the
 * stack pointer, pops, then a return or a jump out. */
#include "sampler/unwind/pe_internal.h"

enum {
	UNWIND_HEADER = 4,
	FLAG_CHAINED = 4,
	CHAIN_MAX = 32,
	EPILOGUE_MAX = 64, /* bytes of an epilogue that are looked at */
	INDIRECT = 1,
};
enum {
	PUSH_NONVOL,
	ALLOC_LARGE,
	ALLOC_SMALL,
	SET_FPREG,
	SAVE_NONVOL,
	SAVE_NONVOL_FAR,
	EPILOG,
	SPARE,
	SAVE_XMM128,
	SAVE_XMM128_FAR,
	PUSH_MACHFRAME,
};

/* The processor's numbers of registers as DWARF's. */
static const uint8_t dwarf[16] = { 0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15 };

struct info {
	uint8_t version, flags, prologue, count, frame_register, frame_offset;
	struct sp_cursor codes; /* 16 bits each */
	struct sp_cursor rest;  /* behind them: handler or chained entry */
};

static bool read_info(const struct sp_pe_module *module, uint32_t address, struct info *ret)
{
	struct sp_cursor c = pe_bytes(module, address, UNWIND_HEADER + 256 * 2 + 12);
	uint8_t first = sp_cursor_u8(&c);
	ret->version = first & 7;
	ret->flags = first >> 3;
	ret->prologue = sp_cursor_u8(&c);
	ret->count = sp_cursor_u8(&c);
	uint8_t frame = sp_cursor_u8(&c);
	ret->frame_register = frame & 15;
	ret->frame_offset = frame >> 4;
	ret->codes = sp_cursor_sub(&c, UNWIND_HEADER, (uint64_t)ret->count * 2);
	uint64_t end = UNWIND_HEADER + ((uint64_t)ret->count + 1) / 2 * 4;
	ret->rest = c;
	sp_cursor_seek(&ret->rest, end);
	return !c.bad && !ret->codes.bad && (ret->version == 1 || ret->version == 2);
}

static uint64_t *stack_pointer(struct pe_frame *frame)
{
	return &frame->regs->value[SP_X86_64_RSP];
}

static bool pop(struct pe_frame *frame, unsigned reg)
{
	if (!pe_load(frame, reg, *stack_pointer(frame)))
		return false;
	if (reg != SP_X86_64_RSP)
		*stack_pointer(frame) += 8;
	return true;
}

/* ---- Epilogues ---- */

/* "add rsp, n" or "lea rsp, [fp + n]", at which an epilogue begins. False when it is neither. */
static bool read_adjustment(struct sp_cursor *c, const struct info *info, uint64_t *ret_add, bool *ret_from_frame)
{
	struct sp_cursor at = *c;
	uint8_t rex = sp_cursor_u8(&at), opcode = sp_cursor_u8(&at), modrm = sp_cursor_u8(&at);
	if (rex == 0x48 && (opcode == 0x83 || opcode == 0x81) && modrm == 0xc4) {
		*ret_add = opcode == 0x83 ? (uint64_t)(int64_t)(int8_t)sp_cursor_u8(&at)
		                          : (uint64_t)(int64_t)(int32_t)sp_cursor_u32(&at);
	} else if ((rex & 0xfe) == 0x48 && opcode == 0x8d && (modrm >> 3 & 7) == 4 && info->frame_register &&
	           (modrm & 7) == (info->frame_register & 7) && (rex & 1) == info->frame_register >> 3) {
		if ((modrm & 7) == 4)
			sp_cursor_skip(&at, 1); /* r12 needs another byte */
		*ret_from_frame = true;
		if (modrm >> 6 == 1)
			*ret_add = (uint64_t)(int64_t)(int8_t)sp_cursor_u8(&at);
		else if (modrm >> 6 == 2)
			*ret_add = (uint64_t)(int64_t)(int32_t)sp_cursor_u32(&at);
		else
			return false;
	} else {
		return false;
	}
	if (!at.bad)
		*c = at;
	return !at.bad;
}

/* Whether a jump leaves the function (a tail call). */
static bool jumps_out(struct sp_cursor *c, uint32_t address, const struct pe_function *function, uint8_t opcode)
{
	int64_t distance = opcode == 0xeb ? (int8_t)sp_cursor_u8(c) : (int32_t)sp_cursor_u32(c);
	int64_t target = (int64_t)address + (int64_t)sp_cursor_offset(c) + distance;
	return !c->bad && (target < function->start || target >= function->end);
}

/* The end of an epilogue, behind its pops. */
static bool read_end(struct sp_cursor c, uint32_t address, const struct pe_function *function)
{
	uint8_t opcode = sp_cursor_u8(&c);
	if (opcode == 0xf3 || opcode == 0xf2) /* rep ret, bnd ret */
		opcode = sp_cursor_u8(&c);
	if (opcode == 0xc3 || opcode == 0xc2)
		return !c.bad;
	if (opcode == 0xe9 || opcode == 0xeb)
		return jumps_out(&c, address, function, opcode);
	if ((opcode & 0xf8) == 0x48)
		opcode = sp_cursor_u8(&c);
	return opcode == 0xff && (sp_cursor_u8(&c) >> 3 & 7) == 4 && !c.bad; /* jmp through a register or memory */
}

/* If the pc is in an epilogue, does what is left of it. *ret_failed: it is, but the stack is not there. */
static bool run_epilogue(struct pe_frame *frame, const struct pe_function *function, const struct info *info,
                         bool *ret_failed)
{
	struct sp_cursor c = pe_bytes(frame->module, frame->pc, EPILOGUE_MAX);
	uint8_t pops[16];
	unsigned count = 0;
	uint64_t add = 0;
	bool from_frame = false, adjusted = read_adjustment(&c, info, &add, &from_frame);
	while (count < 16 && sp_cursor_left(&c)) {
		struct sp_cursor at = c;
		uint8_t opcode = sp_cursor_u8(&at), high = 0;
		if (opcode == 0x41) {
			high = 8;
			opcode = sp_cursor_u8(&at);
		}
		if ((opcode & 0xf8) != 0x58)
			break;
		pops[count++] = dwarf[(opcode & 7) | high];
		c = at;
	}
	if (!read_end(c, frame->pc, function))
		return false;
	if (adjusted && from_frame)
		*stack_pointer(frame) = frame->regs->value[dwarf[info->frame_register]] + add;
	else if (adjusted)
		*stack_pointer(frame) += add;
	for (unsigned i = 0; i < count && !*ret_failed; i++)
		*ret_failed = !pop(frame, pops[i]);
	return true;
}

/* ---- Unwind codes ---- */

/* How many 16-bit words an operation takes. */
static unsigned words_of(const struct info *info, unsigned operation, unsigned extra)
{
	switch (operation) {
	case ALLOC_LARGE:
		return extra ? 3 : 2;
	case SAVE_NONVOL:
	case SAVE_XMM128:
		return 2;
	case SAVE_NONVOL_FAR:
	case SAVE_XMM128_FAR:
		return 3;
	case EPILOG:
		return info->version == 1 ? 2 : 1;
	case SPARE:
		return 3;
	default:
		return 1;
	}
}

/* Undoes one operation. `base` is what saved registers count from. */
static bool undo(struct pe_frame *frame, const struct info *info, unsigned operation, unsigned extra,
                 struct sp_cursor operands, uint64_t base, bool *ret_machine)
{
	uint64_t *rsp = stack_pointer(frame);
	switch (operation) {
	case PUSH_NONVOL:
		return pop(frame, dwarf[extra]);
	case ALLOC_LARGE:
		*rsp += extra ? sp_cursor_u32(&operands) : sp_cursor_u16(&operands) * UINT64_C(8);
		return true;
	case ALLOC_SMALL:
		*rsp += extra * UINT64_C(8) + 8;
		return true;
	case SET_FPREG:
		*rsp = frame->regs->value[dwarf[info->frame_register]] - info->frame_offset * UINT64_C(16);
		return true;
	case SAVE_NONVOL:
		return pe_load(frame, dwarf[extra], base + sp_cursor_u16(&operands) * UINT64_C(8));
	case SAVE_NONVOL_FAR:
		return pe_load(frame, dwarf[extra], base + sp_cursor_u32(&operands));
	case PUSH_MACHFRAME: /* [error code,] rip, cs, flags, rsp, ss */
		if (extra)
			*rsp += 8;
		*ret_machine = true;
		return pe_load(frame, SP_X86_64_RIP, *rsp) && pe_load(frame, SP_X86_64_RSP, *rsp + 24);
	default: /* vector registers, and where epilogues are */
		return true;
	}
}

/* Undoes what the prologue has done by `offset`. False: the stack is not there. */
static bool undo_prologue(struct pe_frame *frame, const struct info *info, uint32_t offset, bool *ret_machine)
{
	uint64_t base = *stack_pointer(frame);
	bool whole = offset >= info->prologue;
	struct sp_cursor c = info->codes;
	/* Once the frame register is set, saved registers count from there. */
	if (info->frame_register) {
		bool set = whole;
		while (!set && sp_cursor_left(&c) >= 2) {
			unsigned at = sp_cursor_u8(&c), code = sp_cursor_u8(&c);
			set = (code & 15) == SET_FPREG && at <= offset;
			sp_cursor_skip(&c, (words_of(info, code & 15, code >> 4) - 1) * 2);
		}
		if (set)
			base = frame->regs->value[dwarf[info->frame_register]] - info->frame_offset * UINT64_C(16);
	}
	c = info->codes;
	while (sp_cursor_left(&c) >= 2 && !*ret_machine) {
		unsigned at = sp_cursor_u8(&c), code = sp_cursor_u8(&c);
		struct sp_cursor operands = c;
		sp_cursor_skip(&c, (words_of(info, code & 15, code >> 4) - 1) * 2);
		if ((whole || at <= offset) && !undo(frame, info, code & 15, code >> 4, operands, base, ret_machine))
			return false;
	}
	return true;
}

static enum sp_pe_step finish(struct pe_frame *frame)
{
	uint64_t *rsp = stack_pointer(frame);
	if (!pe_load(frame, SP_X86_64_RIP, *rsp))
		return SP_PE_NO_MEMORY;
	*rsp += 8;
	return SP_PE_CALLER;
}

/* A leaf has no entry: its return address is where the stack pointer is. */
static bool find(struct pe_frame *frame, struct pe_function *ret)
{
	if (!pe_find_function(frame->module, frame->pc, ret) || frame->pc >= ret->end)
		return false;
	/* The entry may stand for another one. */
	for (unsigned i = 0; i < CHAIN_MAX && ret->unwind & INDIRECT; i++) {
		struct sp_cursor c = pe_bytes(frame->module, ret->unwind & ~(uint32_t)INDIRECT, 12);
		sp_cursor_skip(&c, 8);
		ret->unwind = sp_cursor_u32(&c);
	}
	return true;
}

enum sp_pe_step pe_step_x64(struct pe_frame *frame)
{
	struct pe_function function;
	struct info info;
	bool failed = false, machine = false;
	if (!find(frame, &function))
		return finish(frame);
	if (!read_info(frame->module, function.unwind, &info))
		return SP_PE_BAD_TABLES;
	uint32_t offset = frame->pc - function.start;
	if (frame->exact && (offset >= info.prologue || info.flags & FLAG_CHAINED) &&
	    run_epilogue(frame, &function, &info, &failed))
		return failed ? SP_PE_NO_MEMORY : finish(frame);
	for (unsigned i = 0; i < CHAIN_MAX; i++) {
		if (!undo_prologue(frame, &info, i ? UINT32_MAX : offset, &machine))
			return SP_PE_NO_MEMORY;
		if (machine)
			return SP_PE_INTERRUPTED;
		if (!(info.flags & FLAG_CHAINED))
			return finish(frame);
		sp_cursor_skip(&info.rest, 8);
		uint32_t next = sp_cursor_u32(&info.rest);
		if (info.rest.bad || !read_info(frame->module, next, &info))
			return SP_PE_BAD_TABLES;
	}
	return SP_PE_BAD_TABLES;
}
