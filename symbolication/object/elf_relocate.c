/* Relocations of debug sections in relocatable files (kernel modules, .o): the few types that compilers and assemblers
 * put there. Each is checked against the section; one that cannot be applied is skipped, it spoils one value only.
 * Sources: the processor supplements of x86-64, AArch64, i386 and ARM. */
#include "symbolication/object/elf.h"

struct relocation_rule {
	uint16_t machine, type;
	uint8_t width; /* bytes written */
	bool relative; /* to the place */
};

static const struct relocation_rule rules[] = {
	{ SP_EM_X86_64, 1, 8, false },    /* R_X86_64_64 */
	{ SP_EM_X86_64, 2, 4, true },     /* R_X86_64_PC32 */
	{ SP_EM_X86_64, 10, 4, false },   /* R_X86_64_32 */
	{ SP_EM_X86_64, 11, 4, false },   /* R_X86_64_32S */
	{ SP_EM_X86_64, 17, 8, false },   /* R_X86_64_DTPOFF64 */
	{ SP_EM_X86_64, 21, 4, false },   /* R_X86_64_DTPOFF32 */
	{ SP_EM_X86_64, 24, 8, true },    /* R_X86_64_PC64 */
	{ SP_EM_AARCH64, 257, 8, false }, /* R_AARCH64_ABS64 */
	{ SP_EM_AARCH64, 258, 4, false }, /* R_AARCH64_ABS32 */
	{ SP_EM_AARCH64, 259, 2, false }, /* R_AARCH64_ABS16 */
	{ SP_EM_AARCH64, 260, 8, true },  /* R_AARCH64_PREL64 */
	{ SP_EM_AARCH64, 261, 4, true },  /* R_AARCH64_PREL32 */
	{ SP_EM_386, 1, 4, false },       /* R_386_32 */
	{ SP_EM_386, 2, 4, true },        /* R_386_PC32 */
	{ SP_EM_386, 32, 4, false },      /* R_386_TLS_LDO_32 */
	{ SP_EM_ARM, 2, 4, false },       /* R_ARM_ABS32 */
	{ SP_EM_ARM, 3, 4, true },        /* R_ARM_REL32 */
};

static const struct relocation_rule *find_rule(uint16_t machine, uint32_t type)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		if (rules[i].machine == machine && rules[i].type == type)
			return &rules[i];
	}
	return NULL;
}

struct sp_elf_relocation sp_elf_relocation_next(const struct sp_elf *elf, struct sp_cursor *table, bool with_addend)
{
	struct sp_elf_relocation r = { 0 };
	r.offset = sp_elf_word(table, elf);
	if (elf->is64) {
		uint64_t info = sp_cursor_u64(table);
		r.symbol = (uint32_t)(info >> 32);
		r.type = (uint32_t)info;
		r.addend = with_addend ? (int64_t)sp_cursor_u64(table) : 0;
	} else {
		uint32_t info = sp_cursor_u32(table);
		r.symbol = info >> 8;
		r.type = info & 0xff;
		r.addend = with_addend ? (int32_t)sp_cursor_u32(table) : 0;
	}
	return r;
}

static uint64_t get(const uint8_t *place, unsigned width, bool big_endian)
{
	struct sp_cursor c = sp_cursor_init(place, width);
	c.big_endian = big_endian;
	return sp_cursor_uint(&c, width);
}

static void put(uint8_t *place, unsigned width, bool big_endian, uint64_t value)
{
	for (unsigned i = 0; i < width; i++)
		place[big_endian ? width - 1 - i : i] = (uint8_t)(value >> (8 * i));
}

static uint64_t symbol_address(const struct sp_object *object, const struct sp_elf_symbol *symbol)
{
	if (symbol->section == SP_SHN_UNDEF || symbol->section >= object->section_count)
		return symbol->value;
	return object->sections[symbol->section].address + symbol->value;
}

struct sp_error *sp_elf_relocate(struct sp_object *object, size_t at, uint8_t *bytes, size_t size)
{
	const struct sp_elf *elf = sp_elf(object);
	size_t table_at = elf->sections[at].relocations;
	bool with_addend = elf->sections[table_at].type == SP_SHT_RELA;
	size_t symbols_at = elf->sections[table_at].link;
	struct sp_cursor table, symbols = { 0 }, extended = { 0 };
	struct sp_error *error = sp_object_stored_bytes(object, &object->sections[table_at], &table);
	if (!error && symbols_at < object->section_count)
		error = sp_object_stored_bytes(object, &object->sections[symbols_at], &symbols);
	if (error)
		return error;
	symbols.big_endian = object->big_endian;
	size_t entry = sp_elf_relocation_size(elf, with_addend);
	while (sp_cursor_left(&table) >= entry) {
		struct sp_elf_relocation r = sp_elf_relocation_next(elf, &table, with_addend);
		const struct relocation_rule *rule = find_rule(elf->machine, r.type);
		if (!rule || r.offset > size || rule->width > size - r.offset)
			continue;
		struct sp_elf_symbol symbol = sp_elf_symbol_at(elf, &symbols, &extended, r.symbol);
		uint64_t value = symbol_address(object, &symbol) + (uint64_t)r.addend;
		if (!with_addend)
			value += get(bytes + r.offset, rule->width, object->big_endian);
		if (rule->relative)
			value -= object->sections[at].address + r.offset;
		put(bytes + r.offset, rule->width, object->big_endian, value);
	}
	return NULL;
}
