/* --presymbolicate: names, files, lines and inlined functions baked into the profile.
 *
 * All addresses of a module are looked up at once. An address becomes as many frames as functions were inlined there,
 * the outermost first; they share address, library and symbol and differ in depth, function and line. */
#include "sampler/output/layout.h"
#include "sampler/output/lookup.h"

#include <stdlib.h>
#include <string.h>

/* Frames of entries as they are found, in any order: entry -> [first, first + count) of `frames`. */
struct found {
	struct sp_layout *layout;
	SP_VECTOR(struct sp_out_frame) frames;
	uint32_t *first, *count; /* by entry; owned */
};

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
	struct sp_error *error = sp_layout_source(layout, file, &func.source);
	if (error)
		return error;
	func.name = sp_layout_string(layout, function);
	frame->func = func.name == SP_INTERN_NONE ? SP_INDEX_NONE : sp_layout_func(layout, &func);
	return frame->func == SP_INDEX_NONE ? sp_error_no_memory() : NULL;
}

/* sp_lookup_requests.answer: turns one answer into frames, outermost first. */
static struct sp_error *add_location(void *context, uint32_t entry, const struct spsym_location *location)
{
	struct found *found = context;
	struct sp_layout *layout = found->layout;
	struct sp_out_frame plain;
	struct sp_error *error = sp_layout_bare_frame(layout, &layout->entries.items[entry], &plain);
	if (!error)
		error = intern_symbol(layout, plain.lib, &location->symbol, &plain.native_symbol);
	if (error)
		return error;
	size_t count = sp_lookup_depth(location);
	if (found->frames.count + count > INT32_MAX || !sp_vector_reserve(&found->frames, count))
		return sp_error_no_memory();
	found->first[entry] = (uint32_t)found->frames.count;
	found->count[entry] = (uint32_t)count;
	for (size_t depth = 0; depth < count; depth++) {
		struct sp_out_frame frame = plain;
		struct spsym_frame from = sp_lookup_frame(location, depth);
		frame.inline_depth = (uint8_t)depth;
		error = name_frame(layout, &layout->entries.items[entry], from.function, from.file, &frame);
		if (error)
			return error;
		frame.line = from.line;
		frame.column = from.column;
		found->frames.items[found->frames.count++] = frame;
	}
	return NULL;
}

/* sp_lookup_requests.identity */
static void identify(void *context, uint32_t handle, struct spsym_identity *ret)
{
	const struct found *found = context;
	const struct sp_profile_builder *builder = found->layout->builder;
	const struct sp_build_module *module = &builder->modules.items[handle];
	*ret = (struct spsym_identity){ .name = sp_build_string(builder, module->name),
		                        .path = sp_build_string(builder, module->path),
		                        .debug_name = sp_build_string(builder, module->debug_name),
		                        .debug_path = sp_build_string(builder, module->debug_path),
		                        .debug_id = sp_build_string(builder, module->debug_id),
		                        .code_id = sp_build_string(builder, module->code_id),
		                        .arch = sp_build_string(builder, module->arch) };
	const char *kept = sp_build_string(builder, module->kept_path);
	if (kept && *kept) {
		ret->debug_path = kept;
		if (module->kind != SP_MODULE_KERNEL)
			ret->path = kept;
	}
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
	struct sp_lookup_query *queries = malloc((count + 1) * sizeof(*queries));
	struct found found = { .layout = layout,
		               .first = calloc(count + 1, sizeof(uint32_t)),
		               .count = calloc(count + 1, sizeof(uint32_t)) };
	struct sp_error *error = NULL;
	if (!queries || !found.first || !found.count)
		error = sp_error_no_memory();
	for (size_t i = 0; i < count && !error; i++) {
		const struct sp_frame_entry *entry = &layout->entries.items[i];
		if (entry->kind == SP_ENTRY_MODULE)
			queries[asked++] = (struct sp_lookup_query){ entry->target, (uint32_t)i, entry->address };
	}
	if (!error)
		error = sp_lookup(&(struct sp_lookup_requests){ .symbols = symbols,
		                                                .log = layout->builder->options.log,
		                                                .identity = identify,
		                                                .answer = add_location,
		                                                .context = &found },
		                  queries, asked);
	if (!error)
		error = arrange(layout, &found);
	layout->symbolicated = true;
	sp_vector_deinit(&found.frames);
	free(found.first);
	free(found.count);
	free(queries);
	return error;
}
