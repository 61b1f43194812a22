/* ARM64: unwind codes, one for each instruction of a prologue, last first, and of an epilogue, first first (Microsoft,
 * "ARM64 exception handling"). Small functions have them packed into their entry, from which the codes are made here.
 */
#include "sampler/unwind/pe_internal.h"

#include <string.h>

enum { CODES_MAX = 1024, EPILOGUES_MAX = 65536, FP = 29, LR = 30, SP = 31, PC = 32 };
enum { END = 0xe4, END_C = 0xe5, NEXT = 0xe6, SET_FP = 0xe1, PAC_SIGN_LR = 0xfc };

/* What the tables say of a function. */
struct unwind {
	uint32_t start, length; /* bytes */
	uint8_t codes[CODES_MAX];
	unsigned size;              /* of codes */
	bool has_prologue;          /* false: a fragment whose prologue is elsewhere, and was run */
	struct sp_cursor epilogues; /* scopes of four bytes each; empty when `at_end` */
	bool at_end;                /* one epilogue, at the function's end, ... */
	unsigned end_index;         /* ... whose codes begin here */
};

/* Bytes of the code that begins with `first`; 0 = not known. */
static unsigned code_size(uint8_t first)
{
	if (first < 0xc0)
		return 1;
	if (first < 0xe0)
		return 2;
	switch (first) {
	case 0xe0:
		return 4;
	case 0xe1:
	case 0xe3:
	case END:
	case END_C:
	case NEXT:
	case 0xe8:
	case 0xe9:
	case 0xea:
	case 0xeb:
	case 0xec:
	case PAC_SIGN_LR:
		return 1;
	case 0xe2:
		return 2;
	case 0xe7:
		return 3;
	default:
		return 0;
	}
}

/* The number of codes from `index` up to the end, which stand for an instruction each. */
static unsigned count_codes(const struct unwind *u, unsigned index)
{
	unsigned count = 0;
	while (index < u->size && u->codes[index] != END && u->codes[index] != END_C) {
		unsigned size = code_size(u->codes[index]);
		if (!size)
			break;
		index += size;
		count++;
	}
	return count;
}

static unsigned skip_codes(const struct unwind *u, unsigned index, unsigned count)
{
	while (count-- && index < u->size) {
		unsigned size = code_size(u->codes[index]);
		if (!size)
			return u->size;
		index += size;
	}
	return index;
}

/* ---- Packed data ---- */

static void put(struct unwind *u, unsigned code)
{
	if (u->size < CODES_MAX)
		u->codes[u->size++] = (uint8_t)code;
}

static void put2(struct unwind *u, unsigned code)
{
	put(u, code >> 8);
	put(u, code & 0xff);
}

/* "sub sp, sp, #size", in one instruction or two. */
static void put_allocation(struct unwind *u, unsigned size)
{
	unsigned first = size > 4080 ? size - 4080 : 0, parts[2] = { first, size - first };
	for (unsigned i = 0; i < 2; i++) {
		unsigned units = parts[i] / 16;
		if (units)
			put2(u, 0xc000 | units);
	}
}

/* The prologue that stands behind the fields, as codes: the last instruction first. */
static void unpack(struct unwind *u, uint32_t data)
{
	unsigned reg_f = data >> 13 & 7, reg_i = data >> 16 & 15, home = data >> 20 & 1, cr = data >> 21 & 3;
	unsigned frame_size = (data >> 23 & 0x1ff) * 16;
	unsigned int_size = reg_i * 8 + (cr == 1 ? 8 : 0), float_size = reg_f ? reg_f * 8 + 8 : 0;
	unsigned save_size = (int_size + float_size + home * 64 + 15) & ~15u;
	unsigned local = frame_size > save_size ? frame_size - save_size : 0;
	if (cr >= 2) {
		put(u, SET_FP);
		if (local && local <= 512) {
			put(u, 0x80 | (local / 8 - 1)); /* stp x29, lr, [sp, #-local]! */
		} else {
			put(u, 0x40); /* stp x29, lr, [sp] */
			put_allocation(u, local);
		}
	} else {
		put_allocation(u, local);
	}
	if (home) {
		for (unsigned i = 0; i < 4; i++)
			put(u, 0xe3); /* arguments, which need not come back */
	}
	bool pushed_by_int = int_size > 0; /* who moves the stack pointer: the first store */
	for (unsigned pairs = float_size / 16 + (float_size % 16 != 0), i = pairs; i-- > 0;) {
		bool single = i == pairs - 1 && float_size % 16, first = i == 0 && !pushed_by_int;
		unsigned at = (int_size + i * 16) / 8;
		if (first)
			put2(u, (single ? 0xde00u : 0xda00u) | (save_size / 8 - 1));
		else
			put2(u, (single ? 0xdc00u : 0xd800u) | i * 2 << 6 | at);
	}
	/* x19 and up in pairs; with cr 1 the link register behind them. */
	unsigned words = int_size / 8;
	for (unsigned i = (words + 1) / 2; i-- > 0;) {
		bool lr_first = cr == 1 && i * 2 == reg_i, lr_second = cr == 1 && i * 2 + 1 == reg_i;
		bool single = i * 2 + 1 == words;
		unsigned move = save_size / 8 - 1;
		if (lr_first)
			put2(u, i == 0 ? 0xd400u | 11u << 5 | (move & 31) : 0xd000u | 11u << 6 | i * 2);
		else if (lr_second && i)
			put2(u, 0xd600u | i << 6 | i * 2);
		else if (lr_second) { /* sub sp, sp, #size; stp x19, lr, [sp] */
			put2(u, 0xd600u);
			put2(u, 0xc000 | save_size / 16);
		} else if (single)
			put2(u, i == 0 ? 0xd400u | (move & 31) : 0xd000u | i * 2 << 6 | i * 2);
		else if (i == 0)
			put(u, 0x20 | (save_size / 8 & 31)); /* stp x19, x20, [sp, #-size]! */
		else
			put2(u, 0xc800u | i * 2 << 6 | i * 2);
	}
	if (cr == 2)
		put(u, PAC_SIGN_LR);
	put(u, END);
}

/* ---- Full data ---- */

static bool read_full(const struct sp_pe_module *module, uint32_t address, struct unwind *u)
{
	struct sp_cursor c = pe_bytes(module, address, 8 + EPILOGUES_MAX * 4 + CODES_MAX);
	uint32_t header = sp_cursor_u32(&c);
	u->length = (header & 0x3ffff) * 4;
	u->at_end = header >> 21 & 1;
	unsigned epilogues = header >> 22 & 31, words = header >> 27;
	if (!epilogues && !words) {
		uint32_t more = sp_cursor_u32(&c);
		epilogues = more & 0xffff;
		words = more >> 16 & 0xff;
	}
	if (header >> 18 & 3)
		return false; /* another version */
	u->end_index = u->at_end ? epilogues : 0;
	size_t scopes = u->at_end ? 0 : epilogues * (size_t)4;
	u->epilogues = sp_cursor_sub(&c, sp_cursor_offset(&c), scopes);
	sp_cursor_skip(&c, scopes);
	const uint8_t *codes = sp_cursor_bytes(&c, words * (size_t)4);
	u->size = words * 4;
	if (c.bad || u->epilogues.bad)
		return false;
	memcpy(u->codes, codes, u->size);
	return true;
}

static bool read_unwind(const struct sp_pe_module *module, const struct pe_function *function, struct unwind *u)
{
	uint32_t data = function->unwind;
	u->start = function->start;
	u->size = 0;
	u->has_prologue = true;
	u->at_end = false;
	u->end_index = 0;
	u->epilogues = sp_cursor_init(NULL, 0);
	if (!(data & 3))
		return read_full(module, data, u);
	if ((data & 3) == 3)
		return false;
	u->length = (data >> 2 & 0x7ff) * 4;
	u->has_prologue = (data & 3) == 1;
	/* Its epilogue mirrors the prologue, without the frame pointer's setting and the storing of arguments. */
	u->at_end = u->has_prologue && !(data >> 20 & 1);
	u->end_index = (data >> 21 & 3) >= 2;
	unpack(u, data);
	return true;
}

/* ---- Undoing ---- */

static uint64_t *stack_pointer(struct pe_frame *frame)
{
	return &frame->regs->value[SP];
}

/* Loads register `reg` and the next one, or the link register behind it. */
static bool load_pair(struct pe_frame *frame, unsigned first, unsigned second, uint64_t address)
{
	return pe_load(frame, first, address) && pe_load(frame, second, address + 8);
}

/* A pair of registers from x19 on, and those that "save next" codes added to it. */
static bool load_pairs(struct pe_frame *frame, unsigned reg, uint64_t address, unsigned *next)
{
	bool ok = true;
	for (unsigned i = 0; i <= *next && ok; i++) {
		unsigned first = reg + 2 * i;
		if (first > 29)
			break;
		ok = load_pair(frame, first, first + 1, address + 16 * (uint64_t)i);
	}
	*next = 0;
	return ok;
}

/* Codes of one byte. */
static bool undo_short(struct pe_frame *frame, uint8_t code, unsigned *next)
{
	uint64_t *sp = stack_pointer(frame);
	bool ok = true;
	if (code < 0x20) { /* sub sp */
		*sp += (code & 31) * UINT64_C(16);
	} else if (code < 0x40) { /* stp x19, x20, [sp, #-n]! */
		ok = load_pairs(frame, 19, *sp, next);
		*sp += (code & 31) * UINT64_C(8);
	} else if (code < 0x80) { /* stp x29, lr, [sp, #n] */
		ok = load_pair(frame, FP, LR, *sp + (code & 63) * UINT64_C(8));
	} else { /* stp x29, lr, [sp, #-n]! */
		ok = load_pair(frame, FP, LR, *sp);
		*sp += ((code & 63) + UINT64_C(1)) * 8;
	}
	return ok;
}

/* Codes of two bytes. */
static bool undo_long(struct pe_frame *frame, unsigned code, unsigned *next)
{
	uint64_t *sp = stack_pointer(frame);
	unsigned low = code & 63, reg = 19 + (code >> 6 & 15);
	bool ok = true;
	if (code < 0xc800) { /* sub sp */
		*sp += (code & 0x7ff) * UINT64_C(16);
	} else if (code < 0xcc00) { /* a pair */
		ok = load_pairs(frame, reg, *sp + low * UINT64_C(8), next);
	} else if (code < 0xd000) {
		ok = load_pairs(frame, reg, *sp, next);
		*sp += (low + UINT64_C(1)) * 8;
	} else if (code < 0xd400) { /* one register */
		ok = pe_load(frame, reg, *sp + low * UINT64_C(8));
	} else if (code < 0xd600) {
		ok = pe_load(frame, 19 + (code >> 5 & 15), *sp);
		*sp += ((code & 31) + UINT64_C(1)) * 8;
	} else if (code < 0xd800) { /* one with the link register */
		ok = load_pair(frame, 19 + 2 * (code >> 6 & 7), LR, *sp + low * UINT64_C(8));
	} else { /* vector registers: only the stack pointer matters */
		*next = 0;
		if (code >= 0xda00 && code < 0xdc00)
			*sp += (low + UINT64_C(1)) * 8;
		else if (code >= 0xde00 && code < 0xdf00)
			*sp += ((code & 31) + UINT64_C(1)) * 8;
		else if (code >= 0xdf00)
			return false; /* scalable vectors */
	}
	return ok;
}

/* Any registers, at any place: 0pxrrrrr ttoooooo. */
static bool undo_any(struct pe_frame *frame, unsigned a, unsigned b)
{
	uint64_t *sp = stack_pointer(frame);
	bool pair = a & 0x40, moves = a & 0x20, is_integer = b < 0x40, ok = true;
	unsigned reg = a & 31;
	uint64_t offset = b & 63;
	uint64_t address = *sp + (moves ? 0 : offset * (pair || b >= 0x80 ? 16 : 8));
	if (is_integer)
		ok = pe_load(frame, reg, address) && (!pair || pe_load(frame, reg + 1, address + 8));
	if (moves)
		*sp += (offset + 1) * 16;
	return ok;
}

/* Undoes the code at `index`; *ret_known = false for one that is not handled. */
static bool undo(struct pe_frame *frame, const struct unwind *u, unsigned index, unsigned *next, bool *ret_known,
                 bool *ret_machine)
{
	uint64_t *sp = stack_pointer(frame);
	uint8_t code = u->codes[index];
	unsigned size = code_size(code);
	if (!size || index + size > u->size) {
		*ret_known = false;
		return true;
	}
	if (code < 0xc0)
		return undo_short(frame, code, next);
	if (code < 0xe0) {
		*ret_known = code != 0xdf;
		return undo_long(frame, (unsigned)code << 8 | u->codes[index + 1], next);
	}
	switch (code) {
	case 0xe0:
		*sp += ((uint64_t)u->codes[index + 1] << 16 | (uint64_t)u->codes[index + 2] << 8 |
		        u->codes[index + 3]) *
		       16;
		return true;
	case SET_FP:
		*sp = frame->regs->value[FP];
		return true;
	case 0xe2:
		*sp = frame->regs->value[FP] - u->codes[index + 1] * UINT64_C(8);
		return true;
	case NEXT:
		(*next)++;
		return true;
	case 0xe7:
		return undo_any(frame, u->codes[index + 1], u->codes[index + 2]);
	case 0xe9: /* machine frame: sp, pc */
		*ret_machine = true;
		return pe_load(frame, PC, *sp + 8) && pe_load(frame, SP, *sp);
	case PAC_SIGN_LR:
		frame->regs->value[LR] &= UINT64_C(0x0000ffffffffffff);
		return true;
	case 0xe3:
	case END_C:
	case 0xec:
		return true;
	default: /* frames of the kernel's making, which no user code has */
		*ret_known = false;
		return true;
	}
}

/* ---- Where the pc is ---- */

/* The epilogue that the pc is in: the codes of what is left of it. */
static bool find_epilogue(const struct unwind *u, uint32_t offset, unsigned *ret_index)
{
	struct sp_cursor scopes = u->epilogues;
	if (u->at_end) {
		unsigned count = count_codes(u, u->end_index);
		uint32_t size = (count + 1) * 4, start = u->length > size ? u->length - size : 0;
		if (offset < start || offset >= u->length)
			return false;
		*ret_index = skip_codes(u, u->end_index, (offset - start) / 4);
		return true;
	}
	while (sp_cursor_left(&scopes) >= 4) {
		uint32_t scope = sp_cursor_u32(&scopes), start = (scope & 0x3ffff) * 4;
		unsigned index = scope >> 22, count = count_codes(u, index);
		if (offset >= start && offset - start < (count + 1) * 4) {
			*ret_index = skip_codes(u, index, (offset - start) / 4);
			return true;
		}
	}
	return false;
}

/* The first code to undo: in a prologue those of instructions that were not run are passed over. */
static unsigned first_code(const struct unwind *u, uint32_t offset, bool exact)
{
	unsigned index;
	if (!exact)
		return 0;
	unsigned count = count_codes(u, 0);
	if (u->has_prologue && offset / 4 < count)
		return skip_codes(u, 0, count - offset / 4);
	return find_epilogue(u, offset, &index) ? index : 0;
}

static enum sp_pe_step run(struct pe_frame *frame, const struct unwind *u, unsigned index)
{
	unsigned next = 0;
	bool known = true, machine = false;
	while (index < u->size && u->codes[index] != END) {
		if (!undo(frame, u, index, &next, &known, &machine))
			return SP_PE_NO_MEMORY;
		if (!known)
			return SP_PE_BAD_TABLES;
		if (machine)
			return SP_PE_INTERRUPTED;
		index += code_size(u->codes[index]);
	}
	return SP_PE_CALLER;
}

enum sp_pe_step pe_step_arm64(struct pe_frame *frame)
{
	struct pe_function function;
	struct unwind u;
	struct sp_regs *regs = frame->regs;
	enum sp_pe_step step = SP_PE_CALLER;
	if (pe_find_function(frame->module, frame->pc, &function)) {
		if (!read_unwind(frame->module, &function, &u))
			return SP_PE_BAD_TABLES;
		uint32_t offset = frame->pc - function.start;
		if (offset < u.length)
			step = run(frame, &u, first_code(&u, offset, frame->exact));
	}
	if (step != SP_PE_CALLER)
		return step;
	if (!(regs->known >> LR & 1))
		return SP_PE_NO_MEMORY;
	regs->value[PC] = regs->value[LR];
	return SP_PE_CALLER;
}
