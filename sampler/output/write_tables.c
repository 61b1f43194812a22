/* The shared tables: strings, stacks, frames, functions, libraries. Each column is written whole, from the layout. */
#include "sampler/output/write.h"

#include <string.h>

/* ---- Columns ---- */

static void column_begin(struct sp_json *json, const char *name)
{
	sp_json_key(json, name);
	sp_json_array_begin(json);
}

static void column_of_nulls(struct sp_json *json, const char *name, size_t count)
{
	column_begin(json, name);
	for (size_t i = 0; i < count; i++)
		sp_json_null(json);
	sp_json_array_end(json);
}

static void column_of_ints(struct sp_json *json, const char *name, size_t count, int64_t value)
{
	column_begin(json, name);
	for (size_t i = 0; i < count; i++)
		sp_json_int(json, value);
	sp_json_array_end(json);
}

static void column_of_false(struct sp_json *json, const char *name, size_t count)
{
	column_begin(json, name);
	for (size_t i = 0; i < count; i++)
		sp_json_bool(json, false);
	sp_json_array_end(json);
}

static void index_or_null(struct sp_json *json, uint32_t index)
{
	if (index == SP_INDEX_NONE)
		sp_json_null(json);
	else
		sp_json_uint(json, index);
}

static void index_or_minus_one(struct sp_json *json, uint32_t index)
{
	sp_json_int(json, index == SP_INDEX_NONE ? -1 : (int64_t)index);
}

/* Of lines and columns, which count from 1. */
static void number_or_null(struct sp_json *json, uint32_t number)
{
	if (number)
		sp_json_uint(json, number);
	else
		sp_json_null(json);
}

/* ---- Libraries ---- */

static void member_or_null(struct sp_json *json, const char *key, const char *value)
{
	sp_json_member_string(json, key, value && *value ? value : NULL);
}

static const char *first_of(const char *a, const char *b, const char *c)
{
	if (a && *a)
		return a;
	return b && *b ? b : c;
}

void sp_write_libs(struct sp_json *json, const struct sp_layout *layout)
{
	const struct sp_profile_builder *builder = layout->builder;
	sp_json_key(json, "libs");
	sp_json_array_begin(json);
	for (size_t i = 0; i < layout->libs.count; i++) {
		const struct sp_out_lib *lib = &layout->libs.items[i];
		const struct sp_build_module *module = &builder->modules.items[lib->module];
		const char *name = sp_intern_string(&layout->strings, lib->name);
		const char *path = first_of(sp_build_string(builder, module->path), name, name);
		/* A kept copy is where the symbols will be when the file itself is gone. */
		const char *debug_path = first_of(sp_build_string(builder, module->kept_path),
		                                  sp_build_string(builder, module->debug_path), path);
		const char *debug_id = sp_build_string(builder, module->debug_id);
		sp_json_object_begin(json);
		member_or_null(json, "arch", sp_build_string(builder, module->arch));
		sp_json_member_string(json, "name", name);
		sp_json_member_string(json, "path", path);
		sp_json_member_string(json, "debugName", sp_intern_string(&layout->strings, lib->debug_name));
		sp_json_member_string(json, "debugPath", debug_path);
		sp_json_member_string(json, "breakpadId", debug_id ? debug_id : "");
		member_or_null(json, "codeId", sp_build_string(builder, module->code_id));
		sp_json_object_end(json);
		sp_json_newline(json);
	}
	sp_json_array_end(json);
}

static void write_resources(struct sp_json *json, const struct sp_layout *layout)
{
	size_t count = layout->libs.count;
	sp_json_key(json, "resourceTable");
	sp_json_object_begin(json);
	column_begin(json, "name");
	for (size_t i = 0; i < count; i++)
		sp_json_uint(json, layout->libs.items[i].name);
	sp_json_array_end(json);
	column_of_nulls(json, "host", count);
	column_of_ints(json, "type", count, 1);
	if (layout->builder->options.version < 70) {
		column_begin(json, "lib");
		for (size_t i = 0; i < count; i++)
			sp_json_uint(json, i);
		sp_json_array_end(json);
	}
	sp_json_member_int(json, "length", (int64_t)count);
	sp_json_object_end(json);
}

/* ---- Functions and sources ---- */

static void write_funcs(struct sp_json *json, const struct sp_layout *layout)
{
	size_t count = layout->funcs.count;
	sp_json_key(json, "funcTable");
	sp_json_object_begin(json);
	column_begin(json, "name");
	for (size_t i = 0; i < count; i++)
		sp_json_uint(json, layout->funcs.items[i].name);
	sp_json_array_end(json);
	column_begin(json, "isJS");
	for (size_t i = 0; i < count; i++)
		sp_json_bool(json, layout->funcs.items[i].script);
	sp_json_array_end(json);
	column_of_false(json, "relevantForJS", count);
	column_begin(json, "resource"); /* one resource a lib, of the same number */
	for (size_t i = 0; i < count; i++)
		index_or_minus_one(json, layout->funcs.items[i].lib);
	sp_json_array_end(json);
	column_begin(json, "source");
	for (size_t i = 0; i < count; i++)
		index_or_null(json, layout->funcs.items[i].source);
	sp_json_array_end(json);
	column_begin(json, "lineNumber");
	for (size_t i = 0; i < count; i++)
		number_or_null(json, layout->funcs.items[i].line);
	sp_json_array_end(json);
	column_begin(json, "columnNumber");
	for (size_t i = 0; i < count; i++)
		number_or_null(json, layout->funcs.items[i].column);
	sp_json_array_end(json);
	if (layout->builder->options.version >= 64)
		column_of_nulls(json, "originalLocation", count);
	sp_json_member_int(json, "length", (int64_t)count);
	sp_json_object_end(json);
}

static void write_sources(struct sp_json *json, const struct sp_layout *layout)
{
	size_t count = layout->sources.count;
	unsigned version = layout->builder->options.version;
	sp_json_key(json, "sources");
	sp_json_object_begin(json);
	column_of_nulls(json, version >= 61 ? "id" : "uuid", count);
	column_begin(json, "filename");
	for (size_t i = 0; i < count; i++)
		sp_json_uint(json, layout->sources.items[i]);
	sp_json_array_end(json);
	if (version >= 61) {
		column_of_ints(json, "startLine", count, 1);
		column_of_ints(json, "startColumn", count, 1);
		column_of_nulls(json, "sourceMapURL", count);
	}
	if (version >= 64)
		column_of_nulls(json, "content", count);
	sp_json_member_int(json, "length", (int64_t)count);
	sp_json_object_end(json);
	if (version < 64)
		return;
	sp_json_key(json, "sourceLocationTable");
	sp_json_object_begin(json);
	column_begin(json, "source");
	sp_json_array_end(json);
	column_begin(json, "line");
	sp_json_array_end(json);
	column_begin(json, "column");
	sp_json_array_end(json);
	sp_json_member_int(json, "length", 0);
	sp_json_object_end(json);
}

static void write_native_symbols(struct sp_json *json, const struct sp_layout *layout)
{
	size_t count = layout->symbols.count;
	sp_json_key(json, "nativeSymbols");
	sp_json_object_begin(json);
	column_begin(json, "libIndex");
	for (size_t i = 0; i < count; i++)
		sp_json_uint(json, layout->symbols.items[i].lib);
	sp_json_array_end(json);
	column_begin(json, "address");
	for (size_t i = 0; i < count; i++)
		sp_json_uint(json, layout->symbols.items[i].address);
	sp_json_array_end(json);
	column_begin(json, "name");
	for (size_t i = 0; i < count; i++)
		sp_json_uint(json, layout->symbols.items[i].name);
	sp_json_array_end(json);
	column_begin(json, "functionSize");
	for (size_t i = 0; i < count; i++)
		index_or_null(json, layout->symbols.items[i].size ? layout->symbols.items[i].size : SP_INDEX_NONE);
	sp_json_array_end(json);
	sp_json_member_int(json, "length", (int64_t)count);
	sp_json_object_end(json);
}

/* ---- Frames and stacks ---- */

/* Writes one column of the frame table: `value` is what follows for each frame `f`. */
#define FRAME_COLUMN(name, value)                                                \
	do {                                                                     \
		column_begin(json, name);                                        \
		for (size_t i = 0; i < count; i++) {                             \
			const struct sp_out_frame *f = &layout->frames.items[i]; \
			value;                                                   \
		}                                                                \
		sp_json_array_end(json);                                         \
	} while (0)

static void write_frames(struct sp_json *json, const struct sp_layout *layout)
{
	size_t count = layout->frames.count;
	unsigned version = layout->builder->options.version;
	sp_json_key(json, "frameTable");
	sp_json_object_begin(json);
	FRAME_COLUMN("address", sp_json_int(json, f->lib == SP_INDEX_NONE ? -1 : (int64_t)f->address));
	if (version >= 70)
		FRAME_COLUMN("lib", index_or_minus_one(json, f->lib));
	FRAME_COLUMN("inlineDepth", sp_json_uint(json, f->inline_depth));
	FRAME_COLUMN("category", sp_json_uint(json, f->category));
	FRAME_COLUMN("subcategory", sp_json_uint(json, f->subcategory));
	FRAME_COLUMN("func", sp_json_uint(json, f->func));
	FRAME_COLUMN("nativeSymbol", index_or_null(json, f->native_symbol));
	column_of_ints(json, "innerWindowID", count, 0);
	FRAME_COLUMN("line", index_or_null(json, f->line ? f->line : SP_INDEX_NONE));
	FRAME_COLUMN("column", index_or_null(json, f->column ? f->column : SP_INDEX_NONE));
	if (version >= 64)
		column_of_nulls(json, "originalLocation", count);
	sp_json_member_int(json, "length", (int64_t)count);
	sp_json_object_end(json);
}

/* Puts in the parts of a column that were made beforehand; gives the number of stacks in them. */
static size_t put_parts(struct sp_json *json, const struct sp_profile_builder *builder, struct sp_gzip *gzip,
                        enum sp_stack_column column)
{
	for (size_t i = 0; i < builder->parts.count && !json->error; i++) {
		const struct sp_stack_part *part = &builder->parts.items[i];
		sp_json_step_aside(json, true);
		if (!json->error)
			json->error = sp_gzip_put_part(gzip, &part->columns[column],
			                               builder->part_bytes.items + part->offsets[column]);
	}
	return builder->parts.count * SP_STACK_PART;
}

static void write_stack_column(struct sp_json *json, const struct sp_layout *layout, struct sp_gzip *gzip,
                               enum sp_stack_column column)
{
	const struct sp_profile_builder *builder = layout->builder;
	size_t first = gzip ? put_parts(json, builder, gzip, column) : 0;
	sp_write_stack_column(json, builder, column, first, builder->tables.stacks.count);
}

/* With inlined functions a stack of the builder is as many stacks as its frame became frames. */
static void write_inlined_frames(struct sp_json *json, const struct sp_layout *layout)
{
	const struct sp_tables *tables = &layout->builder->tables;
	const uint32_t *first_frame = layout->first_frame.items;
	for (size_t i = 0; i < tables->stacks.count; i++) {
		uint32_t entry = tables->stacks.items[i].frame;
		for (uint32_t frame = first_frame[entry]; frame < first_frame[entry + 1]; frame++)
			sp_json_uint(json, frame);
	}
}

static void write_inlined_prefixes(struct sp_json *json, const struct sp_layout *layout)
{
	const struct sp_tables *tables = &layout->builder->tables;
	bool offsets = layout->builder->options.version >= 66;
	uint32_t own = 0;
	for (size_t i = 0; i < tables->stacks.count; i++) {
		uint32_t prefix = tables->stacks.items[i].prefix;
		prefix = prefix == SP_INDEX_NONE ? SP_INDEX_NONE : sp_layout_stack(layout, prefix);
		uint32_t last = sp_layout_stack(layout, (uint32_t)i);
		for (; own <= last; own++) {
			if (!offsets)
				index_or_null(json, prefix);
			else
				sp_json_uint(json, prefix == SP_INDEX_NONE ? 0 : own - prefix);
			prefix = own;
		}
	}
}

static void write_stacks(struct sp_json *json, const struct sp_layout *layout, struct sp_gzip *gzip)
{
	bool inlined = layout->last_stack.count;
	sp_json_key(json, "stackTable");
	sp_json_object_begin(json);
	column_begin(json, "frame");
	if (inlined)
		write_inlined_frames(json, layout);
	else
		write_stack_column(json, layout, gzip, SP_COLUMN_FRAME);
	sp_json_array_end(json);
	column_begin(json, layout->builder->options.version >= 66 ? "prefixOffset" : "prefix");
	if (inlined)
		write_inlined_prefixes(json, layout);
	else
		write_stack_column(json, layout, gzip, SP_COLUMN_PREFIX);
	sp_json_array_end(json);
	sp_json_member_int(json, "length", layout->stack_count);
	sp_json_object_end(json);
}

static void write_strings(struct sp_json *json, const struct sp_layout *layout)
{
	column_begin(json, "stringArray");
	for (size_t i = 0; i < layout->strings.strings.count; i++)
		sp_json_string_n(json, layout->strings.strings.items[i].string,
		                 layout->strings.strings.items[i].length);
	sp_json_array_end(json);
}

void sp_write_shared(struct sp_json *json, const struct sp_layout *layout, struct sp_gzip *gzip)
{
	sp_json_key(json, "shared");
	sp_json_object_begin(json);
	write_stacks(json, layout, gzip);
	sp_json_newline(json);
	write_frames(json, layout);
	sp_json_newline(json);
	write_funcs(json, layout);
	write_resources(json, layout);
	write_native_symbols(json, layout);
	write_sources(json, layout);
	sp_json_newline(json);
	write_strings(json, layout);
	sp_json_object_end(json);
}
