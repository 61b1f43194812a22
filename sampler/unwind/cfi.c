/* Call frame information: CIEs, FDEs and the programs in them (DWARF 5 section 6.4; LSB 5 "Exception Frames").
 *
 * Both tables have the same shape: a list of entries, each a CIE (what functions have in common) or an FDE (one
 * function). A program says how the row of rules changes from address to address; running it up to an address gives the
 * row there. Entries are parsed when asked for; only CIEs are kept, in a small cache. */
#include "internal.h"

enum {
	PE_ABSPTR = 0x00,
	PE_ULEB = 0x01,
	PE_UDATA2 = 0x02,
	PE_UDATA4 = 0x03,
	PE_UDATA8 = 0x04,
	PE_SLEB = 0x09,
	PE_SDATA2 = 0x0a,
	PE_SDATA4 = 0x0b,
	PE_SDATA8 = 0x0c,
	PE_PCREL = 0x10,
	PE_DATAREL = 0x30,
	PE_ALIGNED = 0x50,
	PE_INDIRECT = 0x80,
};

static const struct sp_unwind_section *table_section(const struct sp_unwind_module *module, enum cfi_table table)
{
	return table == CFI_EH_FRAME ? &module->input.eh_frame : &module->input.debug_frame;
}

static uint64_t read_plain(struct sp_cursor *cursor, uint8_t format, unsigned address_size)
{
	switch (format) {
	case PE_ABSPTR:
		return sp_cursor_uint(cursor, address_size);
	case PE_ULEB:
		return sp_cursor_uleb(cursor);
	case PE_UDATA2:
		return sp_cursor_u16(cursor);
	case PE_UDATA4:
		return sp_cursor_u32(cursor);
	case PE_UDATA8:
	case PE_SDATA8:
		return sp_cursor_u64(cursor);
	case PE_SLEB:
		return (uint64_t)sp_cursor_sleb(cursor);
	case PE_SDATA2:
		return (uint64_t)(int16_t)sp_cursor_u16(cursor);
	case PE_SDATA4:
		return (uint64_t)(int32_t)sp_cursor_u32(cursor);
	default:
		sp_cursor_fail(cursor);
		return 0;
	}
}

uint64_t cfi_read_pointer(struct sp_cursor *cursor, uint8_t encoding, unsigned address_size,
                          const struct sp_unwind_section *section, uint64_t data_base)
{
	uint64_t base;
	switch (encoding & 0x70) {
	case PE_ABSPTR:
		base = 0;
		break;
	case PE_PCREL:
		base = section->address + sp_cursor_offset(cursor);
		break;
	case PE_DATAREL:
		base = data_base;
		break;
	default: /* text-relative, function-relative and aligned addresses occur in no FDE */
		base = 0;
		sp_cursor_fail(cursor);
		break;
	}
	if (encoding & PE_INDIRECT)
		sp_cursor_fail(cursor);
	return base + read_plain(cursor, encoding & 0x0f, address_size);
}

bool cfi_read_entry(const struct sp_unwind_module *module, enum cfi_table table, uint64_t offset, struct cfi_entry *ret,
                    uint64_t *ret_next)
{
	const struct sp_unwind_section *section = table_section(module, table);
	if (!section->bytes || offset >= section->size)
		return false;
	struct sp_cursor cursor = sp_cursor_init(section->bytes, section->size);
	sp_cursor_seek(&cursor, offset);
	unsigned id_size = 4;
	uint64_t length = sp_cursor_u32(&cursor);
	if (length == 0xffffffff) {
		length = sp_cursor_u64(&cursor);
		id_size = table == CFI_DEBUG_FRAME ? 8 : 4;
	}
	if (cursor.bad || length < id_size || length > sp_cursor_left(&cursor))
		return false;
	cursor.end = cursor.at + length;
	*ret_next = sp_cursor_offset(&cursor) + length;
	uint64_t id_at = sp_cursor_offset(&cursor);
	uint64_t id = sp_cursor_uint(&cursor, id_size);
	if (table == CFI_EH_FRAME) {
		ret->is_cie = id == 0;
		ret->cie = id_at - id; /* counts backwards from the field itself; an overflow fails in the parser */
	} else {
		ret->is_cie = id == (id_size == 8 ? UINT64_MAX : UINT32_MAX);
		ret->cie = id;
	}
	ret->body = cursor;
	return !cursor.bad;
}

/* The augmentation string says what the CIE's (and FDEs') extra data are. */
static bool parse_augmentation(struct cfi_cie *cie, struct sp_cursor *cursor, const char *augmentation)
{
	if (!*augmentation)
		return true;
	if (*augmentation != 'z')
		return false; /* without a length the rest can't be skipped */
	cie->has_augmentation = true;
	uint64_t length = sp_cursor_uleb(cursor);
	if (length > sp_cursor_left(cursor))
		return false;
	struct sp_cursor data = *cursor;
	data.end = data.at + length;
	sp_cursor_skip(cursor, length);
	for (const char *letter = augmentation + 1; *letter; letter++) {
		switch (*letter) {
		case 'R':
			cie->pointer_encoding = sp_cursor_u8(&data);
			break;
		case 'P': {
			uint8_t encoding = sp_cursor_u8(&data);
			if ((encoding & 0x70) == PE_ALIGNED)
				return false;
			(void)read_plain(&data, encoding & 0x0f, cie->address_size);
			break;
		}
		case 'L':
			sp_cursor_skip(&data, 1);
			break;
		case 'S':
			cie->signal_frame = true;
			break;
		case 'B': /* AArch64: return addresses are signed with the B key */
		case 'G': /* AArch64: memory tagging */
			break;
		default: /* what follows an unknown letter can't be read, but 'z' lets us skip it */
			return !data.bad;
		}
	}
	return !data.bad;
}

static bool parse_cie(const struct sp_unwind_module *module, enum cfi_table table, uint64_t offset, struct cfi_cie *ret)
{
	struct cfi_entry entry;
	uint64_t next;
	if (!cfi_read_entry(module, table, offset, &entry, &next) || !entry.is_cie)
		return false;
	struct sp_cursor *cursor = &entry.body;
	*ret = (struct cfi_cie){ .module = module, .offset = offset, .table = (uint8_t)table, .address_size = 8 };
	uint8_t version = sp_cursor_u8(cursor);
	if (version != 1 && version != 3 && version != 4)
		return false;
	const char *augmentation = sp_cursor_string(cursor);
	if (version == 4) {
		ret->address_size = sp_cursor_u8(cursor);
		uint8_t segment_size = sp_cursor_u8(cursor);
		if (ret->address_size != 8 || segment_size != 0)
			return false;
	}
	ret->code_align = sp_cursor_uleb(cursor);
	ret->data_align = sp_cursor_sleb(cursor);
	uint64_t return_register = version == 1 ? sp_cursor_u8(cursor) : sp_cursor_uleb(cursor);
	if (return_register >= SP_REGS_MAX)
		return false;
	ret->return_register = (uint8_t)return_register;
	ret->pointer_encoding = PE_ABSPTR;
	if (!parse_augmentation(ret, cursor, augmentation))
		return false;
	ret->program = cursor->at;
	ret->program_size = sp_cursor_left(cursor);
	return !cursor->bad;
}

static const struct cfi_cie *find_cie(const struct sp_unwind_module *module, struct cfi_scratch *scratch,
                                      enum cfi_table table, uint64_t offset)
{
	size_t slots = sizeof(scratch->cies) / sizeof(scratch->cies[0]);
	struct cfi_cie *slot = &scratch->cies[((offset >> 2) ^ ((uintptr_t)module >> 6)) % slots];
	if (slot->module == module && slot->offset == offset && slot->table == table)
		return slot;
	if (!parse_cie(module, table, offset, slot)) {
		slot->module = NULL;
		return NULL;
	}
	return slot;
}

bool cfi_parse_fde(const struct sp_unwind_module *module, struct cfi_scratch *scratch, enum cfi_table table,
                   uint64_t offset, struct cfi_fde *ret)
{
	struct cfi_entry entry;
	uint64_t next;
	if (!cfi_read_entry(module, table, offset, &entry, &next) || entry.is_cie)
		return false;
	const struct cfi_cie *cie = find_cie(module, scratch, table, entry.cie);
	if (!cie)
		return false;
	ret->cie = *cie;
	struct sp_cursor *cursor = &entry.body;
	ret->start = cfi_read_pointer(cursor, cie->pointer_encoding, cie->address_size, table_section(module, table),
	                              module->input.got.address);
	uint64_t size = read_plain(cursor, cie->pointer_encoding & 0x0f, cie->address_size);
	ret->end = ret->start + size;
	if (cie->has_augmentation)
		sp_cursor_skip(cursor, sp_cursor_uleb(cursor));
	ret->program = cursor->at;
	ret->program_size = sp_cursor_left(cursor);
	return !cursor->bad && ret->end >= ret->start;
}

/* ---- The programs ---- */

enum {
	CFA_ADVANCE_LOC = 0x40, /* the upper two bits; the lower six are the operand */
	CFA_OFFSET = 0x80,
	CFA_RESTORE = 0xc0,
	CFA_NOP = 0x00,
	CFA_SET_LOC = 0x01,
	CFA_ADVANCE_LOC1 = 0x02,
	CFA_ADVANCE_LOC2 = 0x03,
	CFA_ADVANCE_LOC4 = 0x04,
	CFA_OFFSET_EXTENDED = 0x05,
	CFA_RESTORE_EXTENDED = 0x06,
	CFA_UNDEFINED = 0x07,
	CFA_SAME_VALUE = 0x08,
	CFA_REGISTER = 0x09,
	CFA_REMEMBER_STATE = 0x0a,
	CFA_RESTORE_STATE = 0x0b,
	CFA_DEF_CFA = 0x0c,
	CFA_DEF_CFA_REGISTER = 0x0d,
	CFA_DEF_CFA_OFFSET = 0x0e,
	CFA_DEF_CFA_EXPRESSION = 0x0f,
	CFA_EXPRESSION = 0x10,
	CFA_OFFSET_EXTENDED_SF = 0x11,
	CFA_DEF_CFA_SF = 0x12,
	CFA_DEF_CFA_OFFSET_SF = 0x13,
	CFA_VAL_OFFSET = 0x14,
	CFA_VAL_OFFSET_SF = 0x15,
	CFA_VAL_EXPRESSION = 0x16,
	CFA_AARCH64_NEGATE_RA_STATE_WITH_PC = 0x2c,
	CFA_AARCH64_NEGATE_RA_STATE = 0x2d,
	CFA_GNU_ARGS_SIZE = 0x2e,
	CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

/* A program being run. */
struct machine {
	struct sp_cursor cursor;
	const struct cfi_fde *fde;
	const struct unwind_arch *arch;
	struct cfi_scratch *scratch;
	struct cfi_row *row;
	uint64_t location; /* svma that the row holds from */
	unsigned states;   /* remembered */
	unsigned operations;
	bool initial; /* the CIE's program */
};

static void copy_row(struct cfi_row *to, const struct cfi_row *from)
{
	to->cfa = from->cfa;
	to->cfa_base = from->cfa_base;
	to->set = from->set;
	for (uint64_t set = from->set; set; set &= set - 1) {
		int reg = __builtin_ctzll(set);
		to->registers[reg] = from->registers[reg];
	}
}

static void set_rule(struct machine *m, uint64_t reg, struct cfi_register rule)
{
	if (reg >= m->arch->registers)
		return;
	m->row->registers[reg] = rule;
	m->row->set |= (uint64_t)1 << reg;
}

static void set_offset(struct machine *m, uint64_t reg, enum cfi_how how, uint64_t factored)
{
	int64_t offset = (int64_t)(factored * (uint64_t)m->fde->cie.data_align);
	set_rule(m, reg, (struct cfi_register){ .how = (uint8_t)how, .offset = offset });
}

static void restore_rule(struct machine *m, uint64_t reg)
{
	if (reg >= m->arch->registers)
		return;
	uint64_t bit = (uint64_t)1 << reg;
	const struct cfi_row *initial = &m->scratch->initial;
	if (!m->initial && (initial->set & bit)) {
		m->row->registers[reg] = initial->registers[reg];
		m->row->set |= bit;
	} else {
		m->row->set &= ~bit;
	}
}

static struct cfi_register read_expression(struct machine *m, enum cfi_how how)
{
	uint64_t size = sp_cursor_uleb(&m->cursor);
	const uint8_t *bytes = sp_cursor_bytes(&m->cursor, size);
	if (size > UINT32_MAX)
		sp_cursor_fail(&m->cursor);
	return (struct cfi_register){ .how = (uint8_t)how, .size = (uint32_t)size, .bytes = bytes };
}

static void define_cfa(struct machine *m, uint64_t reg, int64_t offset)
{
	if (reg >= SP_REGS_MAX)
		sp_cursor_fail(&m->cursor);
	m->row->cfa_base = (uint8_t)reg;
	m->row->cfa = (struct cfi_register){ .how = CFI_REGISTER, .offset = offset };
}

/* A change of half of "register + offset"; malformed when the CFA is an expression. */
static void change_cfa(struct machine *m, uint64_t reg, int64_t offset)
{
	if (m->row->cfa.how != CFI_REGISTER)
		sp_cursor_fail(&m->cursor);
	define_cfa(m, reg, offset);
}

static void push_state(struct machine *m)
{
	if (m->states == CFI_MAX_STATES)
		sp_cursor_fail(&m->cursor);
	else
		copy_row(&m->scratch->states[m->states++], m->row);
}

static void pop_state(struct machine *m)
{
	if (m->states == 0)
		sp_cursor_fail(&m->cursor);
	else
		copy_row(m->row, &m->scratch->states[--m->states]);
}

/* Operations that change the row. */
static void run_row_operation(struct machine *m, uint8_t operation)
{
	struct sp_cursor *c = &m->cursor;
	uint64_t reg = 0;
	switch (operation) { /* those that start with a register */
	case CFA_OFFSET_EXTENDED:
	case CFA_RESTORE_EXTENDED:
	case CFA_UNDEFINED:
	case CFA_SAME_VALUE:
	case CFA_REGISTER:
	case CFA_DEF_CFA:
	case CFA_DEF_CFA_REGISTER:
	case CFA_EXPRESSION:
	case CFA_OFFSET_EXTENDED_SF:
	case CFA_DEF_CFA_SF:
	case CFA_VAL_OFFSET:
	case CFA_VAL_OFFSET_SF:
	case CFA_VAL_EXPRESSION:
	case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
		reg = sp_cursor_uleb(c);
		break;
	default:
		break;
	}
	switch (operation) {
	case CFA_OFFSET_EXTENDED:
		set_offset(m, reg, CFI_OFFSET, sp_cursor_uleb(c));
		break;
	case CFA_OFFSET_EXTENDED_SF:
		set_offset(m, reg, CFI_OFFSET, (uint64_t)sp_cursor_sleb(c));
		break;
	case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
		set_offset(m, reg, CFI_OFFSET, -sp_cursor_uleb(c));
		break;
	case CFA_VAL_OFFSET:
		set_offset(m, reg, CFI_VALUE_OFFSET, sp_cursor_uleb(c));
		break;
	case CFA_VAL_OFFSET_SF:
		set_offset(m, reg, CFI_VALUE_OFFSET, (uint64_t)sp_cursor_sleb(c));
		break;
	case CFA_RESTORE_EXTENDED:
		restore_rule(m, reg);
		break;
	case CFA_UNDEFINED:
		set_rule(m, reg, (struct cfi_register){ .how = CFI_UNDEFINED });
		break;
	case CFA_SAME_VALUE:
		set_rule(m, reg, (struct cfi_register){ .how = CFI_SAME });
		break;
	case CFA_REGISTER:
		set_rule(m, reg, (struct cfi_register){ .how = CFI_REGISTER, .reg = sp_cursor_uleb(c) });
		break;
	case CFA_EXPRESSION:
		set_rule(m, reg, read_expression(m, CFI_EXPRESSION));
		break;
	case CFA_VAL_EXPRESSION:
		set_rule(m, reg, read_expression(m, CFI_VALUE_EXPRESSION));
		break;
	case CFA_REMEMBER_STATE:
		push_state(m);
		break;
	case CFA_RESTORE_STATE:
		pop_state(m);
		break;
	case CFA_DEF_CFA:
		define_cfa(m, reg, (int64_t)sp_cursor_uleb(c));
		break;
	case CFA_DEF_CFA_SF:
		define_cfa(m, reg, (int64_t)((uint64_t)sp_cursor_sleb(c) * (uint64_t)m->fde->cie.data_align));
		break;
	case CFA_DEF_CFA_REGISTER:
		change_cfa(m, reg, m->row->cfa.offset);
		break;
	case CFA_DEF_CFA_OFFSET:
		change_cfa(m, m->row->cfa_base, (int64_t)sp_cursor_uleb(c));
		break;
	case CFA_DEF_CFA_OFFSET_SF:
		change_cfa(m, m->row->cfa_base,
		           (int64_t)((uint64_t)sp_cursor_sleb(c) * (uint64_t)m->fde->cie.data_align));
		break;
	case CFA_DEF_CFA_EXPRESSION:
		m->row->cfa = read_expression(m, CFI_VALUE_EXPRESSION);
		break;
	case CFA_GNU_ARGS_SIZE:
		(void)sp_cursor_uleb(c);
		break;
	case CFA_NOP:
	case CFA_AARCH64_NEGATE_RA_STATE: /* return addresses are always stripped of their signature */
	case CFA_AARCH64_NEGATE_RA_STATE_WITH_PC:
		break;
	default: /* unknown: its operands can't be skipped */
		sp_cursor_fail(c);
		break;
	}
}

/* Runs one program up to `address`. False when it is malformed. */
static bool run_program(struct machine *m, uint64_t address)
{
	struct sp_cursor *c = &m->cursor;
	while (c->at < c->end) {
		if (++m->operations > CFI_MAX_OPERATIONS)
			return false;
		uint8_t operation = *c->at++;
		uint64_t low = operation & 0x3f, location = m->location;
		switch (operation & 0xc0) {
		case CFA_ADVANCE_LOC:
			location += low * m->fde->cie.code_align;
			break;
		case CFA_OFFSET:
			set_offset(m, low, CFI_OFFSET, sp_cursor_uleb(c));
			break;
		case CFA_RESTORE:
			restore_rule(m, low);
			break;
		default:
			switch (operation) {
			case CFA_SET_LOC:
				location = cfi_read_pointer(c, m->fde->cie.pointer_encoding, m->fde->cie.address_size,
				                            table_section(m->fde->cie.module, m->fde->cie.table),
				                            m->fde->cie.module->input.got.address);
				break;
			case CFA_ADVANCE_LOC1:
				location += sp_cursor_u8(c) * m->fde->cie.code_align;
				break;
			case CFA_ADVANCE_LOC2:
				location += sp_cursor_u16(c) * m->fde->cie.code_align;
				break;
			case CFA_ADVANCE_LOC4:
				location += sp_cursor_u32(c) * m->fde->cie.code_align;
				break;
			default:
				run_row_operation(m, operation);
				break;
			}
		}
		if (c->bad)
			return false;
		if (location > address)
			return true;
		m->location = location;
	}
	return !c->bad;
}

/* A cursor over a program, whose offsets are those of the section (for pc-relative operands). */
static struct sp_cursor program_cursor(const struct cfi_fde *fde, const uint8_t *program, size_t size)
{
	const struct sp_unwind_section *section = table_section(fde->cie.module, fde->cie.table);
	return (struct sp_cursor){ .start = section->bytes, .at = program, .end = program + size };
}

bool cfi_run(const struct cfi_fde *fde, const struct unwind_arch *arch, uint64_t address, struct cfi_scratch *scratch)
{
	struct machine m = {
		.cursor = program_cursor(fde, fde->cie.program, fde->cie.program_size),
		.fde = fde,
		.arch = arch,
		.scratch = scratch,
		.row = &scratch->row,
		.location = fde->start,
		.initial = true,
	};
	scratch->row.cfa = (struct cfi_register){ .how = CFI_UNDEFINED };
	scratch->row.cfa_base = arch->sp;
	scratch->row.set = 0;
	if (!run_program(&m, UINT64_MAX))
		return false;
	copy_row(&scratch->initial, &scratch->row);
	m.initial = false;
	m.cursor = program_cursor(fde, fde->program, fde->program_size);
	return run_program(&m, address) && scratch->row.cfa.how != CFI_UNDEFINED;
}
