/* ELF symbol tables: the symbols that name code. */
#include "symbolication/object/elf.h"

#include <string.h>

struct sp_elf_symbol sp_elf_symbol_at(const struct sp_elf *elf, const struct sp_cursor *table,
                                      const struct sp_cursor *extended, uint64_t index)
{
	struct sp_elf_symbol symbol = { 0 };
	size_t size = sp_elf_symbol_size(elf);
	if (index >= (size_t)(table->end - table->start) / size)
		return symbol;
	struct sp_cursor c = *table;
	sp_cursor_seek(&c, index * size);
	symbol.name = sp_cursor_u32(&c);
	if (elf->is64) {
		symbol.info = sp_cursor_u8(&c);
		symbol.other = sp_cursor_u8(&c);
		symbol.section = sp_cursor_u16(&c);
		symbol.value = sp_cursor_u64(&c);
		symbol.size = sp_cursor_u64(&c);
	} else {
		symbol.value = sp_cursor_u32(&c);
		symbol.size = sp_cursor_u32(&c);
		symbol.info = sp_cursor_u8(&c);
		symbol.other = sp_cursor_u8(&c);
		symbol.section = sp_cursor_u16(&c);
	}
	if (symbol.section == SP_SHN_XINDEX) {
		struct sp_cursor x = *extended;
		sp_cursor_seek(&x, index * 4);
		symbol.section = sp_cursor_u32(&x);
	} else if (symbol.section >= SP_SHN_LORESERVE) {
		symbol.section |= 0xffff0000; /* reserved numbers stay apart from real indexes of 65280 and more */
	}
	return symbol;
}

/* Mapping symbols of ARM, AArch64 and RISC-V ("$a", "$x.foo") and local labels are no functions. */
static bool is_label(const struct sp_elf *elf, const char *name)
{
	if (name[0] == '.' && name[1] == 'L')
		return true;
	if (name[0] != '$' || !name[1])
		return false;
	switch (elf->machine) {
	case SP_EM_ARM:
	case SP_EM_AARCH64:
		return strchr("atdx", name[1]) && (!name[2] || name[2] == '.');
	case SP_EM_RISCV:
		return name[1] == 'x' || name[1] == 'd';
	default:
		return false;
	}
}

static bool in_code(const struct sp_object *object, const struct sp_elf_symbol *symbol)
{
	if (sp_elf(object)->section_table_used)
		return symbol->section < object->section_count && object->sections[symbol->section].executable;
	if (symbol->section >= SP_SHN_LORESERVE)
		return false;
	for (size_t i = 0; i < object->segment_count; i++) {
		const struct sp_segment *s = &object->segments[i];
		if (s->executable && symbol->value >= s->address && symbol->value - s->address < s->size)
			return true;
	}
	return false;
}

/* On 64-bit PowerPC with the first ABI a function's symbol names a descriptor in .opd, whose first word is the code. */
static bool follow_descriptor(const struct sp_object *object, const struct sp_cursor *opd, uint64_t opd_address,
                              struct sp_elf_symbol *symbol)
{
	if (symbol->value < opd_address || !opd->start)
		return false;
	struct sp_cursor c = *opd;
	sp_cursor_seek(&c, symbol->value - opd_address);
	uint64_t code = sp_cursor_u64(&c);
	if (c.bad)
		return false;
	for (size_t i = 0; i < object->section_count; i++) {
		const struct sp_section *s = &object->sections[i];
		if (s->executable && code >= s->address && code - s->address < s->size) {
			symbol->value = code;
			symbol->section = (uint32_t)i;
			return true;
		}
	}
	return false;
}

/* One symbol table with what belongs to it. */
struct table {
	struct sp_cursor symbols, extended;
	struct sp_elf_strings strings;
	struct sp_cursor opd; /* .opd of 64-bit PowerPC; empty elsewhere */
	uint64_t opd_address;
	uint32_t opd_index;
	enum sp_symbol_source source;
};

/* Whether a symbol names code; gives its raw form. */
static bool accept(const struct sp_object *object, const struct table *table, struct sp_elf_symbol *symbol,
                   const char **ret_name)
{
	const struct sp_elf *elf = sp_elf(object);
	unsigned type = symbol->info & 0xf;
	bool function = type == SP_STT_FUNC || type == SP_STT_GNU_IFUNC;
	if (!function && !(type == SP_STT_NOTYPE && symbol->size))
		return false;
	if (symbol->section == SP_SHN_UNDEF || (!symbol->value && !object->relocatable))
		return false;
	if (table->opd_index && symbol->section == table->opd_index) {
		if (!follow_descriptor(object, &table->opd, table->opd_address, symbol))
			return false;
	} else if (!in_code(object, symbol)) {
		return false;
	}
	const char *name = sp_elf_string(&table->strings, symbol->name);
	if (!name || !name[0] || is_label(elf, name))
		return false;
	if (elf->machine == SP_EM_ARM && function)
		symbol->value &= ~UINT64_C(1);
	*ret_name = name;
	return true;
}

static struct sp_error *add_table(struct sp_object *object, const struct table *table, sp_symbol_vector *symbols)
{
	const struct sp_elf *elf = sp_elf(object);
	const size_t item = sp_elf_symbol_size(elf);
	size_t count = (size_t)(table->symbols.end - table->symbols.start) / item;
	const uint8_t *info = table->symbols.start + (elf->is64 ? 4 : 12); /* st_info of a symbol */
	for (size_t i = 1; i < count; i++) {
		unsigned type = info[i * item] & 0xf;
		if (type != SP_STT_FUNC && type != SP_STT_NOTYPE && type != SP_STT_GNU_IFUNC)
			continue; /* the quick way over what accept() would refuse */
		struct sp_elf_symbol raw = sp_elf_symbol_at(elf, &table->symbols, &table->extended, i);
		const char *name;
		if (!accept(object, table, &raw, &name))
			continue;
		unsigned binding = raw.info >> 4;
		struct sp_symbol symbol = { .name = name,
			                    .address = raw.value,
			                    .size = raw.size,
			                    .source = (uint8_t)table->source,
			                    .binding = (uint8_t)(binding > 2 ? 1 : binding) };
		if (object->relocatable)
			symbol.address += object->sections[raw.section].address;
		if (!sp_vector_push(symbols, symbol))
			return sp_error_no_memory();
	}
	return NULL;
}

static struct sp_error *section_cursor(struct sp_object *object, size_t at, struct sp_cursor *ret)
{
	const uint8_t *bytes;
	size_t size;
	struct sp_error *error = sp_object_section_bytes(object, &object->sections[at], &bytes, &size);
	if (error)
		return error;
	*ret = sp_cursor_init(bytes, size);
	ret->big_endian = object->big_endian;
	return NULL;
}

/* The strings and extended indexes of symbol table section `at`. */
static struct sp_error *open_table(struct sp_object *object, size_t at, struct table *ret)
{
	const struct sp_elf *elf = sp_elf(object);
	size_t strings_at = elf->sections[at].link;
	struct sp_cursor strings;
	if (strings_at >= object->section_count)
		return sp_error_create(SP_ERROR_FORMAT, "cannot read %s: section %s has no string table", object->name,
		                       object->sections[at].name);
	struct sp_error *error = section_cursor(object, at, &ret->symbols);
	if (!error)
		error = section_cursor(object, strings_at, &strings);
	if (error)
		return error;
	sp_object_want(object, ret->symbols.start, sp_cursor_left(&ret->symbols));
	sp_object_want(object, strings.start, sp_cursor_left(&strings));
	ret->strings = sp_elf_strings(&strings);
	for (size_t i = 0; i < object->section_count && !error; i++) {
		if (elf->sections[i].type == SP_SHT_SYMTAB_SHNDX && elf->sections[i].link == at)
			error = section_cursor(object, i, &ret->extended);
	}
	const struct sp_section *opd = elf->machine == SP_EM_PPC64 ? sp_object_find_section(object, ".opd") : NULL;
	if (!error && opd && !opd->no_bits) {
		ret->opd_index = (uint32_t)(opd - object->sections);
		ret->opd_address = opd->address;
		error = section_cursor(object, ret->opd_index, &ret->opd);
	}
	return error;
}

static struct sp_error *add_tables(struct sp_object *object, uint32_t type, enum sp_symbol_source source,
                                   sp_symbol_vector *symbols)
{
	const struct sp_elf *elf = sp_elf(object);
	for (size_t i = 0; i < object->section_count; i++) {
		if (elf->sections[i].type != type || object->sections[i].no_bits)
			continue;
		struct table table = { .source = source };
		struct sp_error *error = open_table(object, i, &table);
		if (!error)
			error = add_table(object, &table, symbols);
		if (error)
			return error;
		break; /* the format allows one of each */
	}
	return NULL;
}

struct sp_error *sp_elf_symbols(struct sp_object *object, struct sp_symbols *ret)
{
	sp_symbol_vector symbols = { 0 };
	struct sp_error *error = add_tables(object, SP_SHT_SYMTAB, SP_SYMBOL_SYMTAB, &symbols);
	if (!error)
		error = add_tables(object, SP_SHT_DYNSYM, SP_SYMBOL_DYNSYM, &symbols);
	if (!error)
		error = sp_elf_plt_symbols(object, &ret->names, &symbols);
	ret->items = symbols.items;
	ret->count = symbols.count;
	return error;
}

/* ---- The table as it is ---- */

typedef SP_VECTOR(struct sp_raw_symbol) raw_vector;

enum { STT_SECTION = 3, STT_FILE = 4 };

static struct sp_error *add_raw(struct sp_object *object, const struct table *table, raw_vector *ret)
{
	const struct sp_elf *elf = sp_elf(object);
	size_t count = (size_t)(table->symbols.end - table->symbols.start) / sp_elf_symbol_size(elf);
	const char *file = NULL;
	bool several = false; /* a second file began: from then on global symbols are nobody's */
	for (size_t i = 1; i < count; i++) {
		struct sp_elf_symbol raw = sp_elf_symbol_at(elf, &table->symbols, &table->extended, i);
		const char *name = sp_elf_string(&table->strings, raw.name);
		unsigned type = raw.info & 0xf, binding = raw.info >> 4;
		if (type == STT_FILE) {
			file = name;
			several = several || i > 1;
		}
		if (type == STT_FILE || type == STT_SECTION || raw.section == SP_SHN_UNDEF || !name || !name[0] ||
		    is_label(elf, name))
			continue;
		bool placed = raw.section < object->section_count;
		struct sp_raw_symbol symbol = { .name = name,
			                        .file = binding && several ? NULL : file,
			                        .address = raw.value,
			                        .size = raw.size,
			                        .section = placed ? raw.section : UINT32_MAX,
			                        .type = (uint8_t)type,
			                        .binding = (uint8_t)(binding > 2 ? 1 : binding) };
		if (object->relocatable && placed)
			symbol.address += object->sections[raw.section].address;
		if (!sp_vector_push(ret, symbol))
			return sp_error_no_memory();
	}
	return NULL;
}

struct sp_error *sp_elf_raw_symbols(struct sp_object *object, struct sp_raw_symbol **ret, size_t *ret_count)
{
	static const uint32_t types[] = { SP_SHT_SYMTAB, SP_SHT_DYNSYM };
	const struct sp_elf *elf = sp_elf(object);
	raw_vector symbols = { 0 };
	struct sp_error *error = NULL;
	for (size_t t = 0; t < 2 && !symbols.count && !error; t++) {
		for (size_t i = 0; i < object->section_count && !error; i++) {
			struct table table = { 0 };
			if (elf->sections[i].type != types[t] || object->sections[i].no_bits)
				continue;
			error = open_table(object, i, &table);
			if (!error)
				error = add_raw(object, &table, &symbols);
		}
	}
	if (error) {
		sp_vector_deinit(&symbols);
		return error;
	}
	*ret = symbols.items;
	*ret_count = symbols.count;
	return NULL;
}
