/* Symbols of PE images: the COFF symbol table that MinGW leaves in, and exports. */
#include "symbolication/object/pe.h"

#include <string.h>

enum { CLASS_EXTERNAL = 2, CLASS_STATIC = 3, TYPE_FUNCTION = 2, TYPE_SHIFT = 4 };
enum { EXPORT_DIRECTORY = 40 };

typedef SP_VECTOR(struct sp_symbol) symbol_vector;

/* A COFF name: up to eight characters, or zeros and an offset of the string table. NULL when it cannot be had;
 * *ret_no_memory tells that from a bad one. */
static const char *symbol_name(const struct sp_pe *pe, const uint8_t *raw, struct sp_arena *names, bool *ret_no_memory)
{
	struct sp_cursor c = sp_cursor_init(raw, 8);
	if (sp_cursor_u32(&c) == 0)
		return sp_pe_string(pe, sp_cursor_u32(&c));
	size_t length = 0;
	while (length < 8 && raw[length])
		length++;
	const char *name = sp_arena_strndup(names, (const char *)raw, length);
	*ret_no_memory = !name;
	return name;
}

/* Functions, and what assembler code exports without saying that it is one. */
static bool is_code(const struct sp_object *object, uint16_t section, uint16_t type, uint8_t class)
{
	if (!section || section > object->section_count || !object->sections[section - 1].executable)
		return false;
	if (type >> TYPE_SHIFT == TYPE_FUNCTION)
		return class == CLASS_EXTERNAL || class == CLASS_STATIC;
	return class == CLASS_EXTERNAL;
}

static struct sp_error *add_coff(struct sp_object *object, struct sp_arena *names, symbol_vector *symbols)
{
	const struct sp_pe *pe = sp_pe(object);
	if (!pe->symbol_table)
		return NULL;
	struct sp_cursor c = object->file;
	sp_cursor_seek(&c, pe->symbol_table);
	bool no_memory = false;
	for (uint32_t i = 0; i < pe->symbol_count && sp_cursor_left(&c) >= SP_PE_SYMBOL_SIZE; i++) {
		const uint8_t *raw_name = sp_cursor_bytes(&c, 8);
		uint32_t value = sp_cursor_u32(&c);
		uint16_t section = sp_cursor_u16(&c), type = sp_cursor_u16(&c);
		uint8_t class = sp_cursor_u8(&c), extra = sp_cursor_u8(&c);
		i += extra;
		sp_cursor_skip(&c, (uint64_t)extra * SP_PE_SYMBOL_SIZE);
		if (!is_code(object, section, type, class))
			continue;
		const char *name = symbol_name(pe, raw_name, names, &no_memory);
		if (name && name[0] && name[0] != '.') {
			struct sp_symbol symbol = { .name = name,
				                    .address = object->sections[section - 1].address + value,
				                    .source = SP_SYMBOL_SYMTAB,
				                    .binding = class == CLASS_EXTERNAL };
			no_memory = !sp_vector_push(symbols, symbol);
		}
		if (no_memory)
			return sp_error_no_memory();
	}
	return NULL;
}

static bool in_code(const struct sp_object *object, uint64_t address)
{
	for (size_t i = 0; i < object->segment_count; i++) {
		const struct sp_segment *s = &object->segments[i];
		if (s->executable && address >= s->address && address - s->address < s->size)
			return true;
	}
	return false;
}

/* Exported names. One that points into the export directory is forwarded to another module. */
static struct sp_error *add_exports(struct sp_object *object, symbol_vector *symbols)
{
	const struct sp_pe_directory *directory = &sp_pe(object)->directories[SP_PE_DIR_EXPORT];
	struct sp_cursor c = sp_pe_bytes(object, directory->address, EXPORT_DIRECTORY);
	sp_cursor_skip(&c, 20);
	uint32_t address_count = sp_cursor_u32(&c), name_count = sp_cursor_u32(&c);
	uint32_t address_table = sp_cursor_u32(&c), name_table = sp_cursor_u32(&c), ordinal_table = sp_cursor_u32(&c);
	if (c.bad)
		return NULL;
	struct sp_cursor addresses = sp_pe_bytes(object, address_table, (uint64_t)address_count * 4);
	struct sp_cursor names = sp_pe_bytes(object, name_table, (uint64_t)name_count * 4);
	struct sp_cursor ordinals = sp_pe_bytes(object, ordinal_table, (uint64_t)name_count * 2);
	while (sp_cursor_left(&names) >= 4 && sp_cursor_left(&ordinals) >= 2) {
		uint32_t name_at = sp_cursor_u32(&names);
		struct sp_cursor entry = addresses;
		sp_cursor_seek(&entry, (uint64_t)sp_cursor_u16(&ordinals) * 4);
		uint32_t address = sp_cursor_u32(&entry);
		if (entry.bad || !address || address - directory->address < directory->size ||
		    !in_code(object, object->info.base + address))
			continue;
		if (sp_pe(object)->machine == SP_PE_MACHINE_ARMNT)
			address &= ~UINT32_C(1); /* the Thumb bit */
		struct sp_cursor text = sp_pe_bytes(object, name_at, UINT64_MAX);
		struct sp_symbol symbol = { .name = sp_cursor_string(&text),
			                    .address = object->info.base + address,
			                    .source = SP_SYMBOL_EXPORT,
			                    .binding = 1 };
		if (text.bad || !symbol.name[0])
			continue;
		if (!sp_vector_push(symbols, symbol))
			return sp_error_no_memory();
	}
	return NULL;
}

struct sp_error *sp_pe_symbols(struct sp_object *object, struct sp_symbols *ret)
{
	symbol_vector symbols = { 0 };
	struct sp_error *error = add_coff(object, &ret->names, &symbols);
	if (!error)
		error = add_exports(object, &symbols);
	ret->items = symbols.items;
	ret->count = symbols.count;
	return error;
}
