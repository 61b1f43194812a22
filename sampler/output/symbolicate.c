/* --presymbolicate: names, files, lines and inlined functions baked into the profile.
 *
 * All addresses of a module are looked up at once. An address becomes as many frames as functions were inlined there,
 * the outermost first; they share address, library and symbol and differ in depth, function and line. */
#include "sampler/output/layout.h"

#include <stdlib.h>
#include <string.h>

#define INLINE_DEPTH_MAX 255 /* what the format holds */

/* An entry of one module, to be sorted by module and address. */
struct query {
	uint32_t module, entry;
	uint64_t address;
};

static int compare_queries(const void *left, const void *right)
{
	const struct query *a = left, *b = right;
	if (a->module != b->module)
		return a->module < b->module ? -1 : 1;
	return a->address < b->address ? -1 : a->address > b->address;
}

/* Frames of entries as they are found, in any order: entry -> [first, first + count) of `frames`. */
struct found {
	SP_VECTOR(struct sp_out_frame) frames;
	uint32_t *first, *count; /* by entry; owned */
};

static struct sp_error *intern_source(struct sp_layout *layout, const char *file, uint32_t *ret)
{
	*ret = SP_INDEX_NONE;
	if (!file || !*file)
		return NULL;
	uint32_t name = sp_layout_string(layout, file);
	const uint64_t *known = sp_map_get(&layout->source_by_name, name);
	if (known) {
		*ret = (uint32_t)*known;
		return NULL;
	}
	*ret = (uint32_t)layout->sources.count;
	if (name == SP_INTERN_NONE || !sp_vector_push(&layout->sources, name) ||
	    !sp_map_put(&layout->source_by_name, name, *ret))
		return sp_error_no_memory();
	return NULL;
}

static struct sp_error *intern_symbol(struct sp_layout *layout, uint32_t lib, const struct spsym_symbol *symbol,
                                      uint32_t *ret)
{
	*ret = SP_INDEX_NONE;
	if (!symbol->name || symbol->address > INT32_MAX)
		return NULL;
	uint64_t key = (uint64_t)lib << 32 | symbol->address;
	const uint64_t *known = sp_map_get(&layout->symbol_by_key, key);
	if (known) {
		*ret = (uint32_t)*known;
		return NULL;
	}
	struct sp_out_symbol out = { .lib = lib,
		                     .name = sp_layout_string(layout, symbol->name),
		                     .address = (uint32_t)symbol->address,
		                     .size = symbol->size <= INT32_MAX ? (uint32_t)symbol->size : 0 };
	*ret = (uint32_t)layout->symbols.count;
	if (out.name == SP_INTERN_NONE || !sp_vector_push(&layout->symbols, out) ||
	    !sp_map_put(&layout->symbol_by_key, key, *ret))
		return sp_error_no_memory();
	return NULL;
}

/* Names a frame; without a function it keeps its address as name. */
static struct sp_error *name_frame(struct sp_layout *layout, const struct sp_frame_entry *entry, const char *function,
                                   const char *file, struct sp_out_frame *frame)
{
	struct sp_out_func func = { .lib = frame->lib };
	if (!function || !*function)
		return sp_layout_plain_func(layout, entry, frame);
	struct sp_error *error = intern_source(layout, file, &func.source);
	if (error)
		return error;
	func.name = sp_layout_string(layout, function);
	frame->func = func.name == SP_INTERN_NONE ? SP_INDEX_NONE : sp_layout_func(layout, &func);
	return frame->func == SP_INDEX_NONE ? sp_error_no_memory() : NULL;
}

/* Turns one answer into frames, outermost first. */
static struct sp_error *add_location(struct sp_layout *layout, struct found *found, uint32_t entry,
                                     const struct spsym_location *location)
{
	struct sp_out_frame plain;
	struct sp_error *error = sp_layout_bare_frame(layout, &layout->entries.items[entry], &plain);
	if (!error)
		error = intern_symbol(layout, plain.lib, &location->symbol, &plain.native_symbol);
	if (error)
		return error;
	size_t count = location->frame_count ? location->frame_count : 1;
	if (count > INLINE_DEPTH_MAX + 1)
		count = INLINE_DEPTH_MAX + 1;
	if (found->frames.count + count > INT32_MAX || !sp_vector_reserve(&found->frames, count))
		return sp_error_no_memory();
	found->first[entry] = (uint32_t)found->frames.count;
	found->count[entry] = (uint32_t)count;
	for (size_t depth = 0; depth < count; depth++) {
		struct sp_out_frame frame = plain;
		frame.inline_depth = (uint8_t)depth;
		const struct spsym_frame *from = location->frame_count
		                                     ? &location->frames[location->frame_count - 1 - depth]
		                                     : NULL;
		const char *function = from ? from->function : NULL;
		if (!function && !depth) /* the outermost function is what the symbol names */
			function = location->symbol.name;
		error = name_frame(layout, &layout->entries.items[entry], function, from ? from->file : NULL, &frame);
		if (error)
			return error;
		frame.line = from ? from->line : 0;
		frame.column = from ? from->column : 0;
		found->frames.items[found->frames.count++] = frame;
	}
	return NULL;
}

static struct sp_error *find_module(const struct sp_layout *layout, spsym_context *symbols, uint32_t handle,
                                    spsym_module **ret)
{
	const struct sp_profile_builder *builder = layout->builder;
	const struct sp_build_module *module = &builder->modules.items[handle];
	struct spsym_identity identity = { .name = sp_build_string(builder, module->name),
		                           .path = sp_build_string(builder, module->path),
		                           .debug_name = sp_build_string(builder, module->debug_name),
		                           .debug_path = sp_build_string(builder, module->debug_path),
		                           .debug_id = sp_build_string(builder, module->debug_id),
		                           .code_id = sp_build_string(builder, module->code_id),
		                           .arch = sp_build_string(builder, module->arch) };
	const char *kept = sp_build_string(builder, module->kept_path);
	if (kept && *kept) {
		identity.debug_path = kept;
		if (module->kind != SP_MODULE_KERNEL)
			identity.path = kept;
	}
	return spsym_module_find(symbols, &identity, ret);
}

static void note(const struct sp_layout *layout, uint32_t module, const char *what, const char *why)
{
	const char *name = sp_build_string(layout->builder, layout->builder->modules.items[module].name);
	if (layout->builder->options.log)
		sp_log(layout->builder->options.log, SP_LOG_WARNING, "%s for %s: %s", what, name ? name : "(unnamed)",
		       why);
}

/* Looks up the addresses of one module. A module without symbols keeps its addresses, with a word on the log. */
static struct sp_error *look_up(struct sp_layout *layout, spsym_context *symbols, const struct query *queries,
                                size_t count, struct found *found)
{
	spsym_module *module;
	struct spsym_result result = { 0 };
	uint64_t *addresses = malloc(count * sizeof(*addresses));
	if (!addresses)
		return sp_error_no_memory();
	for (size_t i = 0; i < count; i++)
		addresses[i] = queries[i].address;
	struct sp_error *error = find_module(layout, symbols, queries[0].module, &module);
	if (!error) {
		error = spsym_lookup(module, addresses, count, &result);
		struct sp_error *failed = NULL;
		if (!error && result.debug_error)
			note(layout, queries[0].module, "no lines", result.debug_error);
		for (size_t i = 0; i < count && !error && !failed; i++)
			failed = add_location(layout, found, queries[i].entry, &result.locations[i]);
		spsym_result_deinit(&result);
		spsym_module_release(module);
		free(addresses);
		if (!error)
			return failed;
	} else {
		free(addresses);
	}
	if (error->code == SP_ERROR_NO_MEMORY)
		return error;
	note(layout, queries[0].module, "no symbols", error->message);
	sp_error_destroy(error);
	return NULL;
}

static struct sp_error *look_up_all(struct sp_layout *layout, spsym_context *symbols, struct query *queries,
                                    size_t count, struct found *found)
{
	struct sp_error *error = NULL;
	qsort(queries, count, sizeof(*queries), compare_queries);
	for (size_t first = 0, end; first < count && !error; first = end) {
		for (end = first + 1; end < count && queries[end].module == queries[first].module;)
			end++;
		error = look_up(layout, symbols, queries + first, end - first, found);
	}
	return error;
}

/* Puts the frames of all entries in order of entries, the plain ones among them. */
static struct sp_error *arrange(struct sp_layout *layout, const struct found *found)
{
	size_t count = layout->entries.count;
	if (!sp_vector_reserve(&layout->first_frame, count + 1))
		return sp_error_no_memory();
	for (size_t i = 0; i < count; i++) {
		uint32_t extra = found->count[i] ? found->count[i] : 1;
		layout->first_frame.items[i] = (uint32_t)layout->frames.count;
		if (layout->frames.count + extra > INT32_MAX || !sp_vector_reserve(&layout->frames, extra))
			return sp_error_no_memory();
		struct sp_out_frame *to = layout->frames.items + layout->frames.count;
		layout->frames.count += extra;
		if (found->count[i]) {
			memcpy(to, found->frames.items + found->first[i], extra * sizeof(*to));
			continue;
		}
		struct sp_error *error = sp_layout_bare_frame(layout, &layout->entries.items[i], to);
		if (!error)
			error = sp_layout_plain_func(layout, &layout->entries.items[i], to);
		if (error)
			return error;
	}
	layout->first_frame.items[count] = (uint32_t)layout->frames.count;
	layout->first_frame.count = count + 1;
	return NULL;
}

struct sp_error *sp_layout_symbols(struct sp_layout *layout, spsym_context *symbols)
{
	size_t count = layout->entries.count, asked = 0;
	struct query *queries = malloc((count + 1) * sizeof(*queries));
	struct found found = { .first = calloc(count + 1, sizeof(uint32_t)),
		               .count = calloc(count + 1, sizeof(uint32_t)) };
	struct sp_error *error = NULL;
	if (!queries || !found.first || !found.count)
		error = sp_error_no_memory();
	for (size_t i = 0; i < count && !error; i++) {
		const struct sp_frame_entry *entry = &layout->entries.items[i];
		if (entry->kind == SP_ENTRY_MODULE)
			queries[asked++] = (struct query){ entry->target, (uint32_t)i, entry->address };
	}
	if (!error)
		error = look_up_all(layout, symbols, queries, asked, &found);
	if (!error)
		error = arrange(layout, &found);
	layout->symbolicated = true;
	sp_vector_deinit(&found.frames);
	free(found.first);
	free(found.count);
	free(queries);
	return error;
}
