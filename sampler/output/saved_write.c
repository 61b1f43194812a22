/* Writes a saved profile with the symbols it got: the text as it was, but for the tables and the stacks that refer to
 * them. */
#include "common/compress.h"
#include "common/json.h"
#include "common/json_read.h"
#include "sampler/output/saved.h"

#include <stdlib.h>
#include <string.h>

static void put(struct sp_json *json, const struct saved_value *value)
{
	sp_json_raw(json, value->text, value->size);
}

static void put_index(struct sp_json *json, uint32_t index)
{
	if (index == SAVED_NONE)
		sp_json_null(json);
	else
		sp_json_uint(json, index);
}

static void put_number(struct sp_json *json, uint32_t number)
{
	put_index(json, number ? number : SAVED_NONE);
}

/* Copies the next value. */
static void copy(struct sp_json *json, struct sp_json_reader *reader)
{
	struct saved_value value;
	if (saved_read_value(reader, &value))
		put(json, &value);
	else
		sp_json_null(json); /* the reader's error ends the writing */
}

/* ---- Tables ---- */

/* A cell of column `name` in an old row that changed, or in a new row; false: the cell is as it was, or null. */
typedef bool (*cell_fn)(struct sp_json *json, const struct saved_profile *profile, const char *name, size_t row);

static void write_table(struct sp_json *json, const struct saved_profile *profile, const struct saved_table *table,
                        size_t added, cell_fn changed, cell_fn fresh)
{
	sp_json_object_begin(json);
	for (size_t i = 0; i < table->columns.count; i++) {
		const struct saved_column *column = &table->columns.items[i];
		sp_json_key(json, column->name);
		sp_json_array_begin(json);
		for (size_t row = 0; row < table->length; row++) {
			if (!changed || !changed(json, profile, column->name, row))
				put(json, &column->values.items[row]);
		}
		for (size_t row = 0; row < added; row++) {
			if (!fresh(json, profile, column->name, row))
				sp_json_null(json);
		}
		sp_json_array_end(json);
	}
	sp_json_member_int(json, "length", (int64_t)(table->length + added));
	sp_json_object_end(json);
	sp_json_newline(json);
}

static bool changed_frame(struct sp_json *json, const struct saved_profile *profile, const char *name, size_t row)
{
	const struct saved_frame *change = &profile->frame_changes.items[row];
	if (!change->named)
		return false;
	if (!strcmp(name, "func"))
		sp_json_uint(json, change->func);
	else if (!strcmp(name, "nativeSymbol"))
		put_index(json, change->native_symbol);
	else if (!strcmp(name, "line"))
		put_number(json, change->line);
	else if (!strcmp(name, "column"))
		put_number(json, change->column);
	else
		return false;
	return true;
}

static bool fresh_frame(struct sp_json *json, const struct saved_profile *profile, const char *name, size_t row)
{
	const struct saved_inlined *inlined = &profile->inlined.items[row];
	const struct saved_column *column = saved_column(&profile->frames, name);
	if (!strcmp(name, "func"))
		sp_json_uint(json, inlined->func);
	else if (!strcmp(name, "inlineDepth"))
		sp_json_uint(json, inlined->depth);
	else if (!strcmp(name, "nativeSymbol"))
		put_index(json, profile->frame_changes.items[inlined->frame].native_symbol);
	else if (!strcmp(name, "line"))
		put_number(json, inlined->line);
	else if (!strcmp(name, "column"))
		put_number(json, inlined->column);
	else
		put(json, &column->values.items[inlined->frame]);
	return true;
}

static bool fresh_func(struct sp_json *json, const struct saved_profile *profile, const char *name, size_t row)
{
	const struct saved_func *func = &profile->new_funcs.items[row];
	if (!strcmp(name, "name"))
		sp_json_uint(json, func->name);
	else if (!strcmp(name, "source"))
		put_index(json, func->source);
	else if (!strcmp(name, "resource"))
		sp_json_int(json, func->resource == SAVED_NONE ? -1 : (int64_t)func->resource);
	else if (!strcmp(name, "isJS") || !strcmp(name, "relevantForJS"))
		sp_json_bool(json, false);
	else
		return false;
	return true;
}

static bool fresh_symbol(struct sp_json *json, const struct saved_profile *profile, const char *name, size_t row)
{
	const struct saved_symbol *symbol = &profile->new_symbols.items[row];
	if (!strcmp(name, "libIndex"))
		sp_json_uint(json, symbol->lib);
	else if (!strcmp(name, "address"))
		sp_json_uint(json, symbol->address);
	else if (!strcmp(name, "name"))
		sp_json_uint(json, symbol->name);
	else if (!strcmp(name, "functionSize"))
		put_number(json, symbol->size);
	else
		return false;
	return true;
}

static bool fresh_source(struct sp_json *json, const struct saved_profile *profile, const char *name, size_t row)
{
	if (!strcmp(name, "filename"))
		sp_json_uint(json, profile->new_sources.items[row]);
	else if (!strcmp(name, "startLine") || !strcmp(name, "startColumn"))
		sp_json_int(json, 1);
	else
		return false;
	return true;
}

/* ---- Stacks ---- */

static void write_stack_frames(struct sp_json *json, const struct saved_profile *profile)
{
	const struct saved_column *frames = saved_column(&profile->stacks, "frame");
	for (size_t i = 0; i < profile->stacks.length; i++) {
		uint32_t frame = saved_index(frames, i, profile->frames.length);
		const struct saved_frame *change = &profile->frame_changes.items[frame];
		sp_json_uint(json, frame);
		for (uint32_t n = 0; n < change->inlined_count; n++)
			sp_json_uint(json, profile->frames.length + change->first_inlined + n);
	}
}

/* The old number of a stack's caller, SAVED_NONE at a root; false when there is none such. */
static bool old_prefix(const struct saved_profile *profile, size_t stack, uint32_t *ret)
{
	bool offsets = profile->version >= 66;
	const struct saved_column *column = saved_column(&profile->stacks, offsets ? "prefixOffset" : "prefix");
	*ret = saved_index(column, stack, SAVED_NONE);
	if (!offsets)
		return *ret == SAVED_NONE || *ret < stack;
	if (*ret == SAVED_NONE || *ret > stack)
		return false;
	*ret = *ret ? (uint32_t)stack - *ret : SAVED_NONE;
	return true;
}

static struct sp_error *write_stack_prefixes(struct sp_json *json, const struct saved_profile *profile)
{
	uint32_t own = 0;
	for (size_t i = 0; i < profile->stacks.length; i++) {
		uint32_t prefix;
		if (!old_prefix(profile, i, &prefix))
			return sp_error_create(SP_ERROR_FORMAT,
			                       "stackTable: the caller of stack %zu does not stand before it", i);
		prefix = prefix == SAVED_NONE ? SAVED_NONE : profile->stack_map[prefix];
		for (; own <= profile->stack_map[i]; own++) {
			if (profile->version < 66)
				put_index(json, prefix);
			else
				sp_json_uint(json, prefix == SAVED_NONE ? 0 : own - prefix);
			prefix = own;
		}
	}
	return NULL;
}

static struct sp_error *write_stacks(struct sp_json *json, const struct saved_profile *profile)
{
	size_t count = profile->stacks.length;
	if (profile->stacks.columns.count != 2)
		return sp_error_create(SP_ERROR_UNSUPPORTED, "stackTable has columns that are not known");
	sp_json_object_begin(json);
	sp_json_key(json, "frame");
	sp_json_array_begin(json);
	write_stack_frames(json, profile);
	sp_json_array_end(json);
	sp_json_key(json, profile->version >= 66 ? "prefixOffset" : "prefix");
	sp_json_array_begin(json);
	struct sp_error *error = write_stack_prefixes(json, profile);
	sp_json_array_end(json);
	sp_json_member_int(json, "length", count ? (int64_t)profile->stack_map[count - 1] + 1 : 0);
	sp_json_object_end(json);
	sp_json_newline(json);
	return error;
}

static struct sp_error *write_strings(struct sp_json *json, const struct saved_profile *profile)
{
	sp_json_array_begin(json);
	for (size_t i = 0; i < profile->strings.count; i++)
		put(json, &profile->strings.items[i]);
	size_t interned = profile->intern.strings.count;
	for (size_t i = interned - profile->new_strings; i < interned; i++)
		sp_json_string_n(json, profile->intern.strings.items[i].string,
		                 profile->intern.strings.items[i].length);
	sp_json_array_end(json);
	return NULL;
}

static struct sp_error *write_frames(struct sp_json *json, const struct saved_profile *profile)
{
	write_table(json, profile, &profile->frames, profile->inlined.count, changed_frame, fresh_frame);
	return NULL;
}

static struct sp_error *write_funcs(struct sp_json *json, const struct saved_profile *profile)
{
	write_table(json, profile, &profile->funcs, profile->new_funcs.count, NULL, fresh_func);
	return NULL;
}

static struct sp_error *write_symbols(struct sp_json *json, const struct saved_profile *profile)
{
	write_table(json, profile, &profile->symbols, profile->new_symbols.count, NULL, fresh_symbol);
	return NULL;
}

static struct sp_error *write_sources(struct sp_json *json, const struct saved_profile *profile)
{
	write_table(json, profile, &profile->sources, profile->new_sources.count, NULL, fresh_source);
	return NULL;
}

static struct sp_error *write_shared(struct sp_json *json, const struct saved_profile *profile)
{
	const struct {
		const char *key;
		struct sp_error *(*write)(struct sp_json *json, const struct saved_profile *profile);
	} parts[] = { { "frameTable", write_frames },     { "funcTable", write_funcs },
		      { "nativeSymbols", write_symbols }, { "sources", write_sources },
		      { "stringArray", write_strings },   { "stackTable", write_stacks } };
	/* Without inlined functions stacks stay as they were. */
	size_t count = sizeof(parts) / sizeof(parts[0]) - (profile->stack_map ? 0 : 1);
	struct sp_json_reader reader;
	struct sp_error *error = NULL;
	const char *key;
	size_t length;
	sp_json_read_init(&reader, profile->shared.text, profile->shared.size);
	sp_json_read_object(&reader);
	sp_json_object_begin(json);
	while (!error && sp_json_next_key(&reader, &key, &length)) {
		size_t i = 0;
		while (i < count && !sp_json_key_is(key, length, parts[i].key))
			i++;
		sp_json_key_n(json, key, length);
		if (i < count) {
			sp_json_skip(&reader);
			error = parts[i].write(json, profile);
		} else {
			copy(json, &reader);
		}
	}
	sp_json_object_end(json);
	struct sp_error *failed = sp_json_read_finish(&reader);
	sp_json_read_deinit(&reader);
	if (error)
		sp_error_destroy(failed);
	return error ? error : failed;
}

/* ---- Whatever refers to stacks ---- */

/* The number of a stack, or null. */
static void copy_stack(struct sp_json *json, const struct saved_profile *profile, struct sp_json_reader *reader)
{
	uint64_t stack;
	if (sp_json_peek(reader) != SP_JSON_KIND_NUMBER) {
		copy(json, reader);
		return;
	}
	if (sp_json_read_u64(reader, &stack) && stack < profile->stacks.length)
		sp_json_uint(json, profile->stack_map[stack]);
	else
		sp_json_read_fail(reader, "no such stack");
}

static void copy_stack_column(struct sp_json *json, const struct saved_profile *profile, struct sp_json_reader *reader)
{
	sp_json_read_array(reader);
	sp_json_array_begin(json);
	while (sp_json_next_item(reader))
		copy_stack(json, profile, reader);
	sp_json_array_end(json);
}

typedef void (*copy_fn)(struct sp_json *json, const struct saved_profile *profile, struct sp_json_reader *reader);
struct rule {
	const char *key;
	copy_fn copy;
};

/* Copies an object, the members of some keys by rules. What is no object is copied as it is. */
static void copy_object(struct sp_json *json, const struct saved_profile *profile, struct sp_json_reader *reader,
                        const struct rule *rules, size_t count)
{
	const char *key;
	size_t length;
	if (sp_json_peek(reader) != SP_JSON_KIND_OBJECT) {
		copy(json, reader);
		return;
	}
	sp_json_read_object(reader);
	sp_json_object_begin(json);
	while (sp_json_next_key(reader, &key, &length)) {
		size_t i = 0;
		while (i < count && !sp_json_key_is(key, length, rules[i].key))
			i++;
		sp_json_key_n(json, key, length);
		if (i < count)
			rules[i].copy(json, profile, reader);
		else
			copy(json, reader);
	}
	sp_json_object_end(json);
}

/* A table of samples: also of allocations. */
static void copy_samples(struct sp_json *json, const struct saved_profile *profile, struct sp_json_reader *reader)
{
	static const struct rule rules[] = { { "stack", copy_stack_column } };
	copy_object(json, profile, reader, rules, 1);
}

static void copy_cause(struct sp_json *json, const struct saved_profile *profile, struct sp_json_reader *reader)
{
	static const struct rule rules[] = { { "stack", copy_stack } };
	copy_object(json, profile, reader, rules, 1);
}

static void copy_marker_data(struct sp_json *json, const struct saved_profile *profile, struct sp_json_reader *reader)
{
	static const struct rule rules[] = { { "cause", copy_cause } };
	sp_json_read_array(reader);
	sp_json_array_begin(json);
	while (sp_json_next_item(reader))
		copy_object(json, profile, reader, rules, 1);
	sp_json_array_end(json);
}

static void copy_markers(struct sp_json *json, const struct saved_profile *profile, struct sp_json_reader *reader)
{
	static const struct rule rules[] = { { "data", copy_marker_data } };
	copy_object(json, profile, reader, rules, 1);
}

static void copy_threads(struct sp_json *json, const struct saved_profile *profile, struct sp_json_reader *reader)
{
	static const struct rule rules[] = { { "samples", copy_samples },
		                             { "jsAllocations", copy_samples },
		                             { "nativeAllocations", copy_samples },
		                             { "markers", copy_markers } };
	if (!profile->stack_map) {
		copy(json, reader);
		return;
	}
	sp_json_read_array(reader);
	sp_json_array_begin(json);
	while (sp_json_next_item(reader))
		copy_object(json, profile, reader, rules, sizeof(rules) / sizeof(rules[0]));
	sp_json_array_end(json);
}

static void copy_meta(struct sp_json *json, struct sp_json_reader *reader)
{
	const char *key;
	size_t length;
	sp_json_read_object(reader);
	sp_json_object_begin(json);
	sp_json_member_bool(json, "symbolicated", true);
	while (sp_json_next_key(reader, &key, &length)) {
		if (sp_json_key_is(key, length, "symbolicated")) {
			sp_json_skip(reader);
			continue;
		}
		sp_json_key_n(json, key, length);
		copy(json, reader);
	}
	sp_json_object_end(json);
}

static struct sp_error *write_top(struct sp_json *json, const struct saved_profile *profile,
                                  struct sp_json_reader *reader)
{
	struct sp_error *error = NULL;
	const char *key;
	size_t length;
	sp_json_read_object(reader);
	sp_json_object_begin(json);
	while (!error && sp_json_next_key(reader, &key, &length)) {
		sp_json_key_n(json, key, length);
		if (sp_json_key_is(key, length, "meta")) {
			copy_meta(json, reader);
		} else if (sp_json_key_is(key, length, "threads")) {
			copy_threads(json, profile, reader);
		} else if (sp_json_key_is(key, length, "shared")) {
			sp_json_skip(reader);
			error = write_shared(json, profile);
		} else {
			copy(json, reader);
		}
		sp_json_newline(json);
	}
	sp_json_object_end(json);
	return error ? error : sp_json_read_error(reader);
}

struct sp_error *saved_write(void *context, sp_write_fn write, void *sink, struct sp_gzip *gzip)
{
	const struct saved_profile *profile = context;
	struct sp_json *json = malloc(sizeof(*json));
	struct sp_json_reader reader;
	(void)gzip;
	if (!json)
		return sp_error_no_memory();
	sp_json_init(json, write, sink);
	sp_json_read_init(&reader, profile->text, profile->size);
	struct sp_error *error = write_top(json, profile, &reader);
	sp_json_read_deinit(&reader);
	struct sp_error *failed = sp_json_finish(json);
	free(json);
	if (error)
		sp_error_destroy(failed);
	return error ? error : failed;
}
