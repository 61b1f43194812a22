/* From a row of call frame information to a rule of eight bytes.
 *
 * Nearly all rows say "the CFA is a register plus a constant, the return address and the frame pointer are saved near
 * it". The expressions that occur in a distribution's binaries have six shapes (PLT stubs, realigned stacks, assembly
 * that keeps the old stack pointer on the stack, signal frames); they are recognised by their structure and become
 * rules as well. What fits no rule stays a row, which is looked up and interpreted at each use. */
#include "internal.h"

enum {
	OP_DEREF = 0x06,
	OP_CONST1U = 0x08,
	OP_CONST1S = 0x09,
	OP_CONST2S = 0x0b,
	OP_CONST4S = 0x0d,
	OP_CONSTU = 0x10,
	OP_CONSTS = 0x11,
	OP_MUL = 0x1e,
	OP_PLUS = 0x22,
	OP_PLUS_UCONST = 0x23,
	OP_SHL = 0x24,
	OP_LIT3 = 0x33,
	OP_LIT8 = 0x38,
	OP_LIT0 = 0x30,
	OP_LIT31 = 0x4f,
	OP_BREG0 = 0x70,
	OP_BREG31 = 0x8f,
};

/* base + 8 * index + offset, or *(base + 8 * index + offset) + addend. */
struct shape {
	uint8_t base, index;
	bool has_index, dereferenced;
	int64_t offset, addend;
};

/* Reads "add a constant" if it comes next. */
static bool read_addition(struct sp_cursor *cursor, int64_t *sum)
{
	struct sp_cursor c = *cursor;
	uint8_t operation = sp_cursor_u8(&c);
	int64_t value;
	if (operation == OP_PLUS_UCONST) {
		value = (int64_t)sp_cursor_uleb(&c);
	} else {
		if (operation >= OP_LIT0 && operation <= OP_LIT31)
			value = operation - OP_LIT0;
		else if (operation == OP_CONST1U)
			value = sp_cursor_u8(&c);
		else if (operation == OP_CONST1S)
			value = (int8_t)sp_cursor_u8(&c);
		else if (operation == OP_CONST2S)
			value = (int16_t)sp_cursor_u16(&c);
		else if (operation == OP_CONST4S)
			value = (int32_t)sp_cursor_u32(&c);
		else if (operation == OP_CONSTU)
			value = (int64_t)sp_cursor_uleb(&c);
		else if (operation == OP_CONSTS)
			value = sp_cursor_sleb(&c);
		else
			return false;
		if (sp_cursor_u8(&c) != OP_PLUS)
			return false;
	}
	if (c.bad)
		return false;
	*sum = (int64_t)((uint64_t)*sum + (uint64_t)value);
	*cursor = c;
	return true;
}

/* Reads "add 8 times a register" if it comes next. */
static bool read_index(struct sp_cursor *cursor, struct shape *shape)
{
	struct sp_cursor c = *cursor;
	uint8_t reg = sp_cursor_u8(&c);
	if (reg < OP_BREG0 || reg > OP_BREG31 || sp_cursor_sleb(&c) != 0)
		return false;
	uint8_t factor = sp_cursor_u8(&c), operation = sp_cursor_u8(&c);
	bool times_eight = (factor == OP_LIT8 && operation == OP_MUL) || (factor == OP_LIT3 && operation == OP_SHL);
	if (!times_eight || sp_cursor_u8(&c) != OP_PLUS || c.bad)
		return false;
	shape->index = reg - OP_BREG0;
	shape->has_index = true;
	*cursor = c;
	return true;
}

static bool read_shape(const uint8_t *bytes, size_t size, struct shape *ret)
{
	struct sp_cursor cursor = sp_cursor_init(bytes, size);
	*ret = (struct shape){ 0 };
	uint8_t base = sp_cursor_u8(&cursor);
	if (base < OP_BREG0 || base > OP_BREG31)
		return false;
	ret->base = base - OP_BREG0;
	ret->offset = sp_cursor_sleb(&cursor);
	(void)read_index(&cursor, ret);
	while (read_addition(&cursor, &ret->offset))
		;
	if (cursor.at < cursor.end && *cursor.at == OP_DEREF) {
		ret->dereferenced = true;
		cursor.at++;
		while (read_addition(&cursor, &ret->addend))
			;
	}
	return !cursor.bad && cursor.at == cursor.end;
}

/* The CFA in a table of PLT stubs: rsp + 8, and 8 more from some offset in each 16-byte stub on, when the index has
 * been pushed. Given the address it is a constant. */
static bool read_plt_shape(const uint8_t *bytes, size_t size, uint64_t address, int64_t *ret)
{
	/* breg7 8; breg16 0; lit15; and; litN; ge; lit3; shl; plus */
	static const uint8_t before[] = { 0x77, 8, 0x80, 0, 0x3f, 0x1a }, after[] = { 0x2a, 0x33, 0x24, 0x22 };
	if (size != sizeof(before) + 1 + sizeof(after) || memcmp(bytes, before, sizeof(before)) != 0 ||
	    memcmp(bytes + sizeof(before) + 1, after, sizeof(after)) != 0)
		return false;
	uint8_t literal = bytes[sizeof(before)];
	if (literal < OP_LIT0 || literal > OP_LIT31)
		return false;
	*ret = (address & 15) >= (uint64_t)(literal - OP_LIT0) ? 16 : 8;
	return true;
}

/* Divides by eight into a rule's field; false when it does not fit. */
static bool put_eighths(int64_t value, int16_t *ret)
{
	if (value % 8 != 0 || value / 8 != (int16_t)(value / 8))
		return false;
	*ret = (int16_t)(value / 8);
	return true;
}

static const struct cfi_register *row_register(const struct cfi_row *row, unsigned reg)
{
	static const struct cfi_register same = { .how = CFI_SAME };
	return row->set >> reg & 1 ? &row->registers[reg] : &same;
}

/* The offset of "saved at sp + offset" as a register rule in an expression. */
static bool saved_at(const struct cfi_register *rule, unsigned base, int64_t *ret)
{
	struct shape shape;
	if (rule->how != CFI_EXPRESSION || !read_shape(rule->bytes, rule->size, &shape) || shape.base != base ||
	    shape.has_index || shape.dereferenced)
		return false;
	*ret = shape.offset;
	return true;
}

static bool put_frame_pointer(const struct cfi_row *row, const struct unwind_arch *arch, struct rule *rule)
{
	const struct cfi_register *fp = row_register(row, arch->fp);
	int64_t offset;
	if (fp->how == CFI_SAME)
		return true;
	if (fp->how == CFI_OFFSET) {
		offset = fp->offset;
		rule->flags |= RULE_FP_AT_CFA;
	} else if (saved_at(fp, arch->fp, &offset)) {
		rule->flags |= RULE_FP_AT_FP;
	} else if (saved_at(fp, arch->sp, &offset)) {
		rule->flags |= RULE_FP_AT_SP;
	} else {
		return false;
	}
	return put_eighths(offset, &rule->fp);
}

/* The signal frame: everything is in the context that the stack pointer points at. */
static bool put_signal_shape(const struct cfi_row *row, const struct cfi_fde *fde, const struct unwind_arch *arch,
                             const struct shape *cfa, struct rule *rule)
{
	int64_t ra, fp;
	if (!fde->cie.signal_frame || cfa->base != arch->sp || cfa->has_index || !cfa->dereferenced || cfa->addend ||
	    !saved_at(row_register(row, fde->cie.return_register), arch->sp, &ra) ||
	    !saved_at(row_register(row, arch->fp), arch->sp, &fp))
		return false;
	rule->kind = RULE_SIGNAL;
	return put_eighths(cfa->offset, &rule->cfa) && put_eighths(ra, &rule->ra) && put_eighths(fp, &rule->fp);
}

static bool put_dereferenced(const struct cfi_row *row, const struct cfi_fde *fde, const struct unwind_arch *arch,
                             const struct shape *cfa, struct rule *rule)
{
	const struct cfi_register *ra = row_register(row, fde->cie.return_register);
	if (ra->how != CFI_OFFSET || ra->offset != -8 || !put_eighths(cfa->offset, &rule->cfa) ||
	    !put_eighths(cfa->addend, &rule->ra))
		return false;
	if (cfa->has_index && cfa->base == arch->sp && cfa->index < 16) {
		rule->kind = RULE_INDEXED;
		rule->flags |= (uint8_t)(cfa->index << RULE_INDEX_SHIFT);
		return true;
	}
	if (cfa->has_index || (cfa->base != arch->sp && cfa->base != arch->fp))
		return false;
	rule->kind = cfa->base == arch->sp ? RULE_SP_DEREF : RULE_FP_DEREF;
	return true;
}

/* CFA = base + offset. */
static bool put_plain(const struct cfi_row *row, const struct cfi_fde *fde, const struct unwind_arch *arch,
                      unsigned base, int64_t offset, struct rule *rule)
{
	if ((base != arch->sp && base != arch->fp) || !put_eighths(offset, &rule->cfa))
		return false;
	rule->kind = base == arch->sp ? RULE_SP : RULE_FP;
	const struct cfi_register *ra = row_register(row, fde->cie.return_register);
	if (ra->how == CFI_SAME && fde->cie.return_register == arch->lr && arch->lr != arch->pc) {
		rule->flags |= RULE_RA_IN_LR;
		return true;
	}
	return ra->how == CFI_OFFSET && put_eighths(ra->offset, &rule->ra);
}

static struct rule compile(const struct cfi_row *row, const struct cfi_fde *fde, const struct unwind_arch *arch,
                           uint64_t address)
{
	const struct rule as_row = { .kind = RULE_ROW };
	if (row_register(row, fde->cie.return_register)->how == CFI_UNDEFINED)
		return (struct rule){ .kind = RULE_END };
	struct rule rule = { .flags = fde->cie.signal_frame ? RULE_INTERRUPTED : 0 };
	struct shape shape = { 0 };
	bool is_shape = row->cfa.how == CFI_VALUE_EXPRESSION && read_shape(row->cfa.bytes, row->cfa.size, &shape);
	if (is_shape && put_signal_shape(row, fde, arch, &shape, &rule))
		return rule;
	if (row_register(row, arch->sp)->how != CFI_SAME)
		return as_row;
	rule.kind = RULE_NONE;
	if (!put_frame_pointer(row, arch, &rule))
		return as_row;
	bool done;
	int64_t plt;
	if (row->cfa.how == CFI_REGISTER)
		done = put_plain(row, fde, arch, row->cfa_base, row->cfa.offset, &rule);
	else if (is_shape && !shape.dereferenced && !shape.has_index)
		done = put_plain(row, fde, arch, shape.base, shape.offset, &rule);
	else if (is_shape && shape.dereferenced)
		done = put_dereferenced(row, fde, arch, &shape, &rule);
	else if (arch->pc == SP_X86_64_RIP && read_plt_shape(row->cfa.bytes, row->cfa.size, address, &plt))
		done = put_plain(row, fde, arch, arch->sp, plt, &rule);
	else
		done = false;
	return done ? rule : as_row;
}

/* Where the kernel's signal frame has the registers, counted from sp in the trampoline; by DWARF number. */
static void make_signal_row(const struct sp_unwind_module *module, struct cfi_row *row, struct cfi_fde *ret_fde)
{
	static const uint8_t x86_64[] = { 144, 136, 152, 128, 112, 104, 120, 160, 40, 48, 56, 64, 72, 80, 88, 96, 168 };
	const struct unwind_arch *arch = module->arch;
	*ret_fde = (struct cfi_fde){ .cie = { .signal_frame = true, .return_register = arch->pc } };
	row->cfa = (struct cfi_register){ .how = CFI_REGISTER };
	row->cfa_base = arch->sp;
	row->set = 0;
	for (unsigned reg = 0; reg <= arch->pc; reg++) {
		/* AArch64: siginfo (128), the context up to the registers (184), x0 to x30, sp, pc */
		int64_t offset = module->input.arch == SP_ARCH_X86_64 ? x86_64[reg] : 128 + 184 + 8 * (int64_t)reg;
		row->registers[reg] = (struct cfi_register){ .how = CFI_OFFSET, .offset = offset };
		row->set |= (uint64_t)1 << reg;
	}
}

static bool is_near_entry(const struct sp_unwind_module *module, uint64_t address)
{
	return module->input.entry && address - module->input.entry < 64;
}

bool rule_find_row(const struct sp_unwind_module *module, struct cfi_scratch *scratch, uint64_t address,
                   struct cfi_fde *ret_fde)
{
	if (cfi_find(module, scratch, address, ret_fde))
		return cfi_run(ret_fde, module->arch, address, scratch);
	if (!code_is_signal_return(module, address))
		return false;
	make_signal_row(module, &scratch->row, ret_fde);
	return true;
}

struct rule rule_make(const struct sp_unwind_module *module, struct cfi_scratch *scratch, uint64_t address)
{
	struct cfi_fde fde;
	if (!cfi_find(module, scratch, address, &fde)) {
		if (code_is_signal_return(module, address))
			return (struct rule){ .kind = RULE_ROW };
		/* ld.so's and musl's _start have no tables: nothing called the code at the entry point. */
		bool is_root = is_near_entry(module, address) || code_is_fiber_start(module, address);
		return (struct rule){ .kind = is_root ? RULE_END : RULE_NONE };
	}
	/* Looked up for a return address, an address is one before it, and not a multiple of four. */
	struct rule rule;
	bool interrupted = module->input.arch == SP_ARCH_AARCH64 && address % 4 == 0;
	if (interrupted && !fde.cie.signal_frame && aarch64_follow_code(module, &fde, scratch, address, &rule))
		return rule;
	if (!cfi_run(&fde, module->arch, address, scratch))
		return (struct rule){ .kind = RULE_NONE };
	return compile(&scratch->row, &fde, module->arch, address);
}
