/* Reading a saved profile; see saved.h. */
#include "sampler/output/saved.h"

#include "common/compress.h"
#include "common/json_read.h"
#include "sampler/output/profile_file.h"
#include "sampler/output/profile_lib.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#define TEXT_LIMIT ((size_t)4 << 30)
#define VERSION_FIRST 60 /* from here on the tables are shared by all threads */
#define VERSION_LAST 70  /* what is known here */
#define COLUMNS_MAX 64

bool saved_read_value(struct sp_json_reader *reader, struct saved_value *ret)
{
	sp_json_peek(reader);
	ret->text = reader->at;
	bool ok = sp_json_skip(reader);
	ret->size = ok ? (size_t)(reader->at - ret->text) : 0;
	return ok;
}

const struct saved_column *saved_column(const struct saved_table *table, const char *name)
{
	for (size_t i = 0; i < table->columns.count; i++) {
		if (!strcmp(table->columns.items[i].name, name))
			return &table->columns.items[i];
	}
	return NULL;
}

uint32_t saved_index(const struct saved_column *column, size_t row, size_t limit)
{
	if (!column)
		return SAVED_NONE;
	const struct saved_value *value = &column->values.items[row];
	uint64_t number = 0;
	if (!value->size || value->size > 10)
		return SAVED_NONE;
	for (size_t i = 0; i < value->size; i++) {
		if (value->text[i] < '0' || value->text[i] > '9')
			return SAVED_NONE;
		number = number * 10 + (uint64_t)(value->text[i] - '0');
	}
	return number < limit && number < SAVED_NONE ? (uint32_t)number : SAVED_NONE;
}

static void out_of_memory(struct sp_json_reader *reader)
{
	sp_json_read_fail(reader, "out of memory");
}

static void read_column(struct saved_profile *profile, struct sp_json_reader *reader, struct saved_table *table,
                        const char *key, size_t length)
{
	struct saved_column column = { .name = sp_arena_strndup(&profile->arena, key, length) };
	if (table->columns.count == COLUMNS_MAX)
		sp_json_read_fail(reader, "a table has too many columns");
	else if (!column.name || !sp_vector_push(&table->columns, column))
		out_of_memory(reader);
	else if (saved_column(table, column.name) != &table->columns.items[table->columns.count - 1])
		sp_json_read_fail(reader, "a table has two columns of one name");
	else
		sp_json_read_array(reader);
	while (sp_json_next_item(reader)) {
		struct saved_column *last = &table->columns.items[table->columns.count - 1];
		struct saved_value value;
		if (saved_read_value(reader, &value) && !sp_vector_push(&last->values, value))
			out_of_memory(reader);
	}
}

static void read_table(struct saved_profile *profile, struct sp_json_reader *reader, struct saved_table *table)
{
	const char *key;
	size_t length;
	uint64_t rows = 0;
	if (table->columns.count) {
		sp_json_read_fail(reader, "a table is there twice");
		return;
	}
	sp_json_read_object(reader);
	while (sp_json_next_key(reader, &key, &length)) {
		if (sp_json_key_is(key, length, "length"))
			sp_json_read_u64(reader, &rows);
		else
			read_column(profile, reader, table, key, length);
	}
	for (size_t i = 0; i < table->columns.count; i++) {
		if (table->columns.items[i].values.count != rows)
			sp_json_read_fail(reader, "a column is not as long as its table");
	}
	if (rows >= INT32_MAX)
		sp_json_read_fail(reader, "a table is too long");
	table->length = (size_t)rows;
}

static void read_strings(struct saved_profile *profile, struct sp_json_reader *reader)
{
	sp_json_read_array(reader);
	while (sp_json_next_item(reader)) {
		sp_json_peek(reader);
		struct saved_value value = { .text = reader->at };
		const char *string;
		size_t length;
		if (!sp_json_read_string(reader, &string, &length))
			return;
		value.size = (size_t)(reader->at - value.text);
		uint32_t number = (uint32_t)profile->strings.count;
		size_t known = profile->intern.strings.count;
		uint32_t interned = length < UINT32_MAX ? sp_intern(&profile->intern, string, length) : SP_INTERN_NONE;
		if (interned == SP_INTERN_NONE || !sp_vector_push(&profile->strings, value) ||
		    (interned == known && !sp_vector_push(&profile->string_numbers, number)))
			out_of_memory(reader);
	}
}

static void read_shared(struct saved_profile *profile, struct sp_json_reader *reader)
{
	const struct {
		const char *key;
		struct saved_table *table;
	} tables[] = {
		{ "stackTable", &profile->stacks }, { "frameTable", &profile->frames },
		{ "funcTable", &profile->funcs },   { "nativeSymbols", &profile->symbols },
		{ "sources", &profile->sources },   { "resourceTable", &profile->resources },
	};
	const char *key;
	size_t length;
	sp_json_read_object(reader);
	while (sp_json_next_key(reader, &key, &length)) {
		size_t i = 0, count = sizeof(tables) / sizeof(tables[0]);
		while (i < count && !sp_json_key_is(key, length, tables[i].key))
			i++;
		if (i < count)
			read_table(profile, reader, tables[i].table);
		else if (sp_json_key_is(key, length, "stringArray"))
			read_strings(profile, reader);
		else
			sp_json_skip(reader);
	}
}

static void read_libs(struct saved_profile *profile, struct sp_json_reader *reader)
{
	sp_json_read_array(reader);
	while (sp_json_next_item(reader)) {
		struct spsym_identity identity;
		sp_profile_lib_read(reader, &profile->arena, &identity);
		if (!sp_vector_push(&profile->libs, identity))
			out_of_memory(reader);
	}
}

static void read_meta(struct saved_profile *profile, struct sp_json_reader *reader)
{
	const char *key;
	size_t length;
	sp_json_read_object(reader);
	while (sp_json_next_key(reader, &key, &length)) {
		if (sp_json_key_is(key, length, "preprocessedProfileVersion"))
			sp_json_read_u64(reader, &profile->version);
		else
			sp_json_skip(reader);
	}
}

static struct sp_error *read_top(struct saved_profile *profile, struct sp_json_reader *reader)
{
	const char *key;
	size_t length;
	bool meta = false, libs = false;
	sp_json_read_object(reader);
	while (sp_json_next_key(reader, &key, &length)) {
		if (sp_json_key_is(key, length, "meta") && !meta) {
			meta = true;
			read_meta(profile, reader);
		} else if (sp_json_key_is(key, length, "libs") && !libs) {
			libs = true;
			read_libs(profile, reader);
		} else if (sp_json_key_is(key, length, "shared")) {
			saved_read_value(reader, &profile->shared);
		} else {
			sp_json_skip(reader);
		}
	}
	struct sp_error *error = sp_json_read_finish(reader);
	if (!error && (profile->version < VERSION_FIRST || profile->version > VERSION_LAST || !profile->shared.size))
		error = sp_error_create(
		    SP_ERROR_UNSUPPORTED,
		    "a profile of format %llu; names can be written into formats %u to %u (open it in the "
		    "Firefox Profiler and save it there to convert it)",
		    (unsigned long long)profile->version, VERSION_FIRST, VERSION_LAST);
	return error;
}

/* The columns that are worked with. */
static struct sp_error *check_columns(const struct saved_profile *profile)
{
	const struct {
		const struct saved_table *table;
		const char *name, *column;
	} needed[] = {
		{ &profile->stacks, "stackTable", "frame" },
		{ &profile->stacks, "stackTable", profile->version >= 66 ? "prefixOffset" : "prefix" },
		{ &profile->frames, "frameTable", "address" },
		{ &profile->frames, "frameTable", "func" },
		{ &profile->frames, "frameTable", "inlineDepth" },
		{ &profile->frames, "frameTable", "nativeSymbol" },
		{ &profile->frames, "frameTable", "line" },
		{ &profile->frames, "frameTable", "column" },
		{ &profile->funcs, "funcTable", "name" },
		{ &profile->funcs, "funcTable", "resource" },
		{ &profile->funcs, "funcTable", "source" },
		{ &profile->symbols, "nativeSymbols", "libIndex" },
		{ &profile->symbols, "nativeSymbols", "address" },
		{ &profile->symbols, "nativeSymbols", "name" },
		{ &profile->symbols, "nativeSymbols", "functionSize" },
		{ &profile->sources, "sources", "filename" },
	};
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		if (!saved_column(needed[i].table, needed[i].column))
			return sp_error_create(SP_ERROR_FORMAT, "%s has no column %s", needed[i].name,
			                       needed[i].column);
	}
	return NULL;
}

static struct sp_error *open_text(const char *path, struct saved_profile *ret)
{
	struct sp_error *error = sp_file_map_path(path, &ret->map);
	if (error)
		return error;
	ret->text = (const char *)ret->map.bytes;
	ret->size = ret->map.size;
	if (ret->size < 2 || ret->map.bytes[0] != 0x1f || ret->map.bytes[1] != 0x8b)
		return NULL;
	error = sp_decompress(SP_COMPRESSION_GZIP, ret->map.bytes, ret->map.size, TEXT_LIMIT, &ret->unpacked,
	                      &ret->size);
	ret->text = (const char *)ret->unpacked;
	return error ? sp_error_prefix(error, "%s", path) : NULL;
}

struct sp_error *saved_open(const char *path, struct saved_profile *ret)
{
	struct sp_json_reader reader;
	*ret = (struct saved_profile){ 0 };
	struct sp_error *error = open_text(path, ret);
	if (!error) {
		sp_json_read_init(&reader, ret->text ? ret->text : "", ret->size);
		error = read_top(ret, &reader);
		sp_json_read_deinit(&reader);
	}
	if (!error) {
		sp_json_read_init(&reader, ret->shared.text, ret->shared.size);
		read_shared(ret, &reader);
		error = sp_json_read_finish(&reader);
		sp_json_read_deinit(&reader);
	}
	if (!error)
		error = check_columns(ret);
	if (!error)
		return NULL;
	saved_deinit(ret);
	return sp_error_prefix(error, "%s", path);
}

static void table_deinit(struct saved_table *table)
{
	for (size_t i = 0; i < table->columns.count; i++)
		sp_vector_deinit(&table->columns.items[i].values);
	sp_vector_deinit(&table->columns);
}

void saved_deinit(struct saved_profile *profile)
{
	table_deinit(&profile->stacks);
	table_deinit(&profile->frames);
	table_deinit(&profile->funcs);
	table_deinit(&profile->symbols);
	table_deinit(&profile->resources);
	table_deinit(&profile->sources);
	sp_vector_deinit(&profile->libs);
	sp_vector_deinit(&profile->strings);
	sp_vector_deinit(&profile->string_numbers);
	sp_vector_deinit(&profile->frame_changes);
	sp_vector_deinit(&profile->inlined);
	sp_vector_deinit(&profile->new_funcs);
	sp_vector_deinit(&profile->new_symbols);
	sp_vector_deinit(&profile->new_sources);
	sp_map_deinit(&profile->func_by_key);
	sp_map_deinit(&profile->symbol_by_key);
	sp_map_deinit(&profile->source_by_name);
	sp_intern_deinit(&profile->intern);
	sp_arena_deinit(&profile->arena);
	free(profile->stack_map);
	free(profile->unpacked);
	sp_file_unmap(&profile->map);
	*profile = (struct saved_profile){ 0 };
}

struct sp_error *sp_profile_symbolicate(const char *path, const char *output, spsym_context *symbols,
                                        const struct sp_log *log, struct sp_symbolicate_summary *ret)
{
	struct saved_profile profile;
	struct sp_error *error = saved_open(path, &profile);
	if (error)
		return error;
	error = saved_symbolicate(&profile, symbols, log);
	if (!error)
		error = sp_profile_file_write(output, saved_write, &profile);
	*ret = (struct sp_symbolicate_summary){ .inlined = profile.inlined.count };
	for (size_t i = 0; i < profile.frame_changes.count; i++)
		ret->named += profile.frame_changes.items[i].named;
	ret->frames = profile.frames.length;
	saved_deinit(&profile);
	return error;
}

bool sp_profile_probe(const char *path)
{
	struct stat status;
	char text[256];
	gzFile file = !stat(path, &status) && S_ISREG(status.st_mode) ? gzopen(path, "rb") : NULL;
	if (!file)
		return false;
	int size = gzread(file, text, sizeof(text)), at = 0; /* also of a file that is not compressed */
	gzclose(file);
	while (at < size && text[at] && strchr(" \t\r\n", text[at]))
		at++;
	return at < size && text[at] == '{';
}
