/* Libraries, functions and frames of layout.h. */
#include "sampler/output/layout.h"

#include "sampler/output/script_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t sp_layout_string(struct sp_layout *layout, const char *string)
{
	return sp_intern(&layout->strings, string, strlen(string));
}

uint32_t sp_layout_func(struct sp_layout *layout, const struct sp_out_func *func)
{
	uint64_t key = sp_hash_bytes(func, sizeof(*func));
	for (uint64_t *found; (found = sp_map_get(&layout->func_by_key, key)); key++)
		if (!memcmp(&layout->funcs.items[*found], func, sizeof(*func)))
			return (uint32_t)*found;
	uint32_t index = (uint32_t)layout->funcs.count;
	if (!sp_vector_reserve(&layout->funcs, 1) || !sp_map_put(&layout->func_by_key, key, index))
		return SP_INDEX_NONE;
	layout->funcs.items[layout->funcs.count++] = *func;
	return index;
}

struct sp_error *sp_layout_source(struct sp_layout *layout, const char *file, uint32_t *ret)
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

/* ---- Libraries ---- */

static const char *module_string(const struct sp_layout *layout, uint32_t number)
{
	const char *string = sp_build_string(layout->builder, number);
	return string ? string : "";
}

/* The last part of a name: the front-end splits "debugName/breakpadId" at the slash. */
static const char *without_folder(const char *name)
{
	const char *slash = strrchr(name, '/');
	return slash ? slash + 1 : name;
}

/* Finds the lib with the same debug name and ID, or where to put a new one. */
static uint32_t find_lib(const struct sp_layout *layout, const char *debug_name, const char *debug_id,
                         uint64_t *ret_key)
{
	uint64_t key = sp_hash_bytes(debug_name, strlen(debug_name)) * 31 + sp_hash_bytes(debug_id, strlen(debug_id));
	for (uint64_t *found; (found = sp_map_get(&layout->lib_by_key, key)); key++) {
		const struct sp_out_lib *lib = &layout->libs.items[*found];
		const struct sp_build_module *module = &layout->builder->modules.items[lib->module];
		if (!strcmp(sp_intern_string(&layout->strings, lib->debug_name), debug_name) &&
		    !strcmp(module_string(layout, module->debug_id), debug_id))
			return (uint32_t)*found;
	}
	*ret_key = key;
	return SP_INDEX_NONE;
}

static bool same_path(const struct sp_layout *layout, uint32_t lib, const struct sp_build_module *module)
{
	const struct sp_build_module *other = &layout->builder->modules.items[layout->libs.items[lib].module];
	return other->path == module->path;
}

/* The lib of a module, made when it is the first of its debug name and ID. Modules without an ID are the same lib when
 * their paths are; others of the same name get a number, since the front-end knows a lib by name and ID. */
static struct sp_error *lib_for(struct sp_layout *layout, uint32_t handle, uint32_t *ret)
{
	const struct sp_build_module *module = &layout->builder->modules.items[handle];
	*ret = layout->lib_of_module.items[handle];
	if (*ret != SP_INDEX_NONE)
		return NULL;
	const char *name = without_folder(module_string(layout, module->name));
	const char *debug_name = without_folder(module_string(layout, module->debug_name));
	const char *debug_id = module_string(layout, module->debug_id);
	if (!*name)
		name = without_folder(module_string(layout, module->path));
	if (!*name)
		name = "(unnamed)";
	if (!*debug_name)
		debug_name = name;
	uint64_t key = 0;
	char *numbered = NULL;
	const char *unique = debug_name;
	for (unsigned number = 2; (*ret = find_lib(layout, unique, debug_id, &key)) != SP_INDEX_NONE; number++) {
		if (*debug_id || same_path(layout, *ret, module))
			break;
		free(numbered);
		if (asprintf(&numbered, "%s (%u)", debug_name, number) < 0)
			return sp_error_no_memory();
		unique = numbered;
	}
	if (*ret == SP_INDEX_NONE) {
		struct sp_out_lib lib = { .module = handle,
			                  .name = sp_layout_string(layout, name),
			                  .debug_name = sp_layout_string(layout, unique) };
		*ret = (uint32_t)layout->libs.count;
		if (lib.name == SP_INTERN_NONE || lib.debug_name == SP_INTERN_NONE ||
		    !sp_vector_push(&layout->libs, lib) || !sp_map_put(&layout->lib_by_key, key, *ret))
			*ret = SP_INDEX_NONE;
	}
	free(numbered);
	layout->lib_of_module.items[handle] = *ret;
	return *ret == SP_INDEX_NONE ? sp_error_no_memory() : NULL;
}

/* ---- Frames ---- */

struct sp_error *sp_layout_bare_frame(struct sp_layout *layout, const struct sp_frame_entry *entry,
                                      struct sp_out_frame *ret)
{
	*ret = (struct sp_out_frame){ .func = SP_INDEX_NONE,
		                      .lib = SP_INDEX_NONE,
		                      .native_symbol = SP_INDEX_NONE,
		                      .category = entry->category,
		                      .subcategory = entry->subcategory };
	if (entry->kind != SP_ENTRY_MODULE)
		return NULL;
	ret->address = (uint32_t)entry->address;
	return lib_for(layout, entry->target, &ret->lib);
}

/* The function of code that a JIT made of a script. */
static struct sp_error *script_func(struct sp_layout *layout, const struct sp_script_name *name,
                                    struct sp_out_func *ret)
{
	ret->name = name->function_size ? sp_intern(&layout->strings, name->function, name->function_size)
	                                : sp_layout_string(layout, "(anonymous)");
	ret->line = name->line;
	ret->column = name->column;
	ret->script = 1;
	char *file = malloc(name->file_size + 1);
	if (!file)
		return sp_error_no_memory();
	memcpy(file, name->file, name->file_size);
	file[name->file_size] = '\0';
	struct sp_error *error = sp_layout_source(layout, file, &ret->source);
	free(file);
	return error;
}

struct sp_error *sp_layout_plain_func(struct sp_layout *layout, const struct sp_frame_entry *entry,
                                      struct sp_out_frame *frame)
{
	char hex[24];
	const char *name = hex;
	if (entry->kind == SP_ENTRY_JIT || entry->kind == SP_ENTRY_LABEL)
		name = sp_build_string(layout->builder, entry->target);
	else
		snprintf(hex, sizeof(hex), "0x%llx", (unsigned long long)entry->address);
	struct sp_out_func func = { .lib = frame->lib, .source = SP_INDEX_NONE };
	struct sp_script_name script;
	struct sp_error *error = NULL;
	if (entry->kind == SP_ENTRY_JIT && sp_script_name_parse(name, &script))
		error = script_func(layout, &script, &func);
	else
		func.name = sp_layout_string(layout, name);
	if (error)
		return error;
	frame->func = func.name == SP_INTERN_NONE ? SP_INDEX_NONE : sp_layout_func(layout, &func);
	return frame->func == SP_INDEX_NONE ? sp_error_no_memory() : NULL;
}

static struct sp_error *layout_entries(struct sp_layout *layout)
{
	struct sp_profile_builder *builder = layout->builder;
	size_t count = builder->tables.frames.count, modules = builder->modules.count;
	struct sp_late_index *late;
	if (!sp_vector_reserve(&layout->entries, count + 1) || !sp_vector_reserve(&layout->lib_of_module, modules + 1))
		return sp_error_no_memory();
	while (layout->lib_of_module.count < modules)
		layout->lib_of_module.items[layout->lib_of_module.count++] = SP_INDEX_NONE;
	struct sp_error *error = sp_late_index_create(builder, &late);
	if (error)
		return error;
	for (size_t i = 0; i < count; i++)
		layout->entries.items[i] = sp_late_index_resolve(late, &builder->tables.frames.items[i]);
	layout->entries.count = count;
	sp_late_index_destroy(late);
	return NULL;
}

static struct sp_error *layout_plain_frames(struct sp_layout *layout)
{
	size_t count = layout->entries.count;
	if (!sp_vector_reserve(&layout->frames, count + 1) || !sp_vector_reserve(&layout->first_frame, count + 1))
		return sp_error_no_memory();
	for (size_t i = 0; i < count; i++) {
		const struct sp_frame_entry *entry = &layout->entries.items[i];
		struct sp_error *error = sp_layout_bare_frame(layout, entry, &layout->frames.items[i]);
		if (!error)
			error = sp_layout_plain_func(layout, entry, &layout->frames.items[i]);
		if (error)
			return error;
		layout->first_frame.items[i] = (uint32_t)i;
	}
	layout->first_frame.items[count] = (uint32_t)count;
	layout->frames.count = count;
	layout->first_frame.count = count + 1;
	return NULL;
}

/* Numbers the stacks of the file: as many for each of the builder's as its frame became frames. */
static struct sp_error *layout_stacks(struct sp_layout *layout)
{
	const struct sp_tables *tables = &layout->builder->tables;
	size_t count = tables->stacks.count;
	layout->stack_count = (uint32_t)count;
	if (layout->frames.count == layout->entries.count)
		return NULL;
	layout->last_stack.store.folder = layout->builder->folder;
	if (!sp_spool_reserve(&layout->last_stack, count))
		return sp_error_no_memory();
	uint64_t next = 0;
	for (size_t i = 0; i < count; i++) {
		uint32_t entry = tables->stacks.items[i].frame;
		next += layout->first_frame.items[entry + 1] - layout->first_frame.items[entry];
		if (next > INT32_MAX)
			return sp_error_create(SP_ERROR_LIMIT, "more than %d stacks with inlined functions", INT32_MAX);
		layout->last_stack.items[i] = (uint32_t)next - 1;
	}
	layout->last_stack.count = count;
	layout->stack_count = (uint32_t)next;
	return NULL;
}

static void layout_times(struct sp_layout *layout)
{
	const struct sp_profile_builder *builder = layout->builder;
	layout->zero = builder->first_time;
	layout->end = builder->last_time;
	for (size_t i = 0; i < builder->clocks.count; i++) {
		uint64_t time = builder->clocks.items[i].time;
		layout->zero = time < layout->zero ? time : layout->zero;
		layout->end = time > layout->end ? time : layout->end;
	}
	if (layout->zero == UINT64_MAX)
		layout->zero = 0;
	/* The front-end's range ends before its end: what happened last must lie inside. */
	uint64_t interval = sp_build_interval(builder);
	if (builder->last_time <= UINT64_MAX - interval && builder->last_time + interval > layout->end)
		layout->end = builder->last_time + interval;
	if (layout->end <= layout->zero)
		layout->end = layout->zero + interval;
}

struct sp_error *sp_layout_create(struct sp_profile_builder *builder, struct sp_layout **ret)
{
	struct sp_layout *layout = calloc(1, sizeof(*layout));
	if (!layout)
		return sp_error_no_memory();
	layout->builder = builder;
	layout_times(layout);
	struct sp_error *error = layout_entries(layout);
	if (!error)
		error = builder->options.presymbolicate ? sp_layout_symbols(layout, builder->options.presymbolicate)
		                                        : layout_plain_frames(layout);
	if (!error)
		error = layout_stacks(layout);
	if (!error)
		error = sp_layout_threads(layout);
	if (error) {
		sp_layout_destroy(layout);
		return error;
	}
	*ret = layout;
	return NULL;
}

void sp_layout_destroy(struct sp_layout *layout)
{
	if (!layout)
		return;
	sp_intern_deinit(&layout->strings);
	sp_vector_deinit(&layout->processes);
	sp_vector_deinit(&layout->threads);
	sp_vector_deinit(&layout->next_member);
	sp_vector_deinit(&layout->out_process);
	sp_vector_deinit(&layout->libs);
	sp_vector_deinit(&layout->lib_of_module);
	sp_map_deinit(&layout->lib_by_key);
	sp_vector_deinit(&layout->funcs);
	sp_map_deinit(&layout->func_by_key);
	sp_vector_deinit(&layout->symbols);
	sp_map_deinit(&layout->symbol_by_key);
	sp_vector_deinit(&layout->sources);
	sp_map_deinit(&layout->source_by_name);
	sp_vector_deinit(&layout->frames);
	sp_vector_deinit(&layout->entries);
	sp_vector_deinit(&layout->first_frame);
	sp_spool_deinit(&layout->last_stack);
	free(layout);
}
