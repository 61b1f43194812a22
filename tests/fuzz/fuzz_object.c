/* Fuzz target: the object reader on any bytes: identity, sections, symbols, stubs, unwind functions, links, and the
 * symbol table that is made of them. */
#include "symbolication/symbol_table.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads through every byte that is handed out, so that a bad range is seen. */
static unsigned touch(const void *bytes, size_t size)
{
	unsigned sum = 0;
	for (size_t i = 0; i < size; i++)
		sum += ((const unsigned char *)bytes)[i];
	return sum;
}

static volatile unsigned sink;

static void read_sections(struct sp_object *object)
{
	size_t count;
	const struct sp_section *sections = sp_object_sections(object, &count);
	for (size_t i = 0; i < count; i++) {
		const uint8_t *bytes;
		size_t size;
		sink += touch(sections[i].name, strlen(sections[i].name));
		struct sp_error *error = sp_object_section_bytes(object, &sections[i], &bytes, &size);
		if (!error)
			sink += touch(bytes, size);
		sp_error_destroy(error);
		size = 64;
		bytes = sp_object_image_bytes(object, sections[i].address, &size);
		if (bytes)
			sink += touch(bytes, size);
	}
}

static void read_links(struct sp_object *object)
{
	struct sp_debug_link link;
	const char *path;
	const uint8_t *id;
	size_t size;
	if (sp_object_debug_link(object, &link))
		sink += touch(link.name, strlen(link.name));
	if (sp_object_debug_alt_link(object, &path, &id, &size))
		sink += touch(path, strlen(path)) + touch(id, size) + sp_object_is_supplementary(object, id, size);
	id = sp_object_build_id(object, &size);
	if (id)
		sink += touch(id, size);
}

/* Borders are sorted, and what is found covers the address. */
static void check_table(const struct sp_symbol_table *table)
{
	for (size_t i = 0; i < table->border_count; i++) {
		uint64_t address = table->borders[i];
		if (i && address <= table->borders[i - 1])
			abort();
		const struct sp_table_symbol *symbol = sp_symbol_table_find(table, address);
		if (symbol && (address < symbol->start || address - symbol->start >= symbol->size))
			abort();
	}
}

static void make_table(struct sp_object *object)
{
	struct sp_table_builder builder = { 0 };
	struct sp_symbol_table table;
	struct sp_symbols symbols = { 0 };
	struct sp_error *error = sp_table_add_object(&builder, object, sp_object_info(object)->base, true, &symbols);
	if (!error)
		error = sp_table_finish(&builder, &table);
	if (!error) {
		check_table(&table);
		sp_symbol_table_deinit(&table);
	}
	for (size_t i = 0; i < symbols.count; i++)
		sink += touch(symbols.items[i].name, strlen(symbols.items[i].name));
	sp_error_destroy(error);
	sp_table_builder_deinit(&builder);
	sp_symbols_deinit(&symbols);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sp_object *object;
	struct sp_error *error = sp_object_open_bytes(data, size, "fuzz", &object);
	if (error) {
		sp_error_destroy(error);
		return 0;
	}
	read_sections(object);
	read_links(object);
	make_table(object);
	sp_object_destroy(object);
	return 0;
}
