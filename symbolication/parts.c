/* Parts of a module's files as they stand there: segments, sections, the raw symbol table. */
#include "symbolication/module.h"

#include <stdlib.h>

void sp_parts_deinit(struct sp_parts *parts)
{
	free(parts->segments);
	free(parts->sections);
	free(parts->raw);
}

size_t sp_parts_memory(const struct sp_parts *parts)
{
	size_t memory = 0;
	if (atomic_load_explicit(&parts->segments_ready, memory_order_acquire))
		memory += parts->segment_count * sizeof(*parts->segments);
	if (atomic_load_explicit(&parts->sections_ready, memory_order_acquire))
		memory += parts->section_count * sizeof(*parts->sections);
	if (atomic_load_explicit(&parts->raw_ready, memory_order_acquire))
		memory += parts->raw_count * sizeof(*parts->raw);
	return memory;
}

/* The file that has the code's layout, and what is taken off its addresses. */
static struct sp_object *layout_file(const struct spsym_module *module, uint64_t *ret_base)
{
	const struct sp_symbol_file *file = module->found.binary ? module->found.binary : module->found.debug;
	*ret_base = file->info.base;
	return file->object;
}

static struct sp_error *no_object(const struct spsym_module *module)
{
	return sp_error_create(SP_ERROR_UNSUPPORTED, "%s is no object file", module->found.debug->path);
}

static struct sp_error *make_segments(struct spsym_module *module)
{
	uint64_t base;
	struct sp_object *object = layout_file(module, &base);
	size_t count;
	if (!object)
		return no_object(module);
	const struct sp_segment *segments = sp_object_segments(object, &count);
	module->parts.segments = malloc((count + 1) * sizeof(*module->parts.segments));
	if (!module->parts.segments)
		return sp_error_no_memory();
	for (size_t i = 0; i < count; i++)
		module->parts.segments[i] = (struct spsym_segment){ .address = segments[i].address - base,
			                                            .size = segments[i].size,
			                                            .file_offset = segments[i].file_offset,
			                                            .file_size = segments[i].file_size,
			                                            .executable = segments[i].executable };
	module->parts.segment_count = count;
	atomic_store_explicit(&module->parts.segments_ready, true, memory_order_release);
	return NULL;
}

static struct sp_error *make_sections(struct spsym_module *module)
{
	uint64_t base;
	struct sp_object *object = layout_file(module, &base);
	size_t count;
	if (!object)
		return no_object(module);
	const struct sp_section *sections = sp_object_sections(object, &count);
	module->parts.sections = malloc((count + 1) * sizeof(*module->parts.sections));
	if (!module->parts.sections)
		return sp_error_no_memory();
	for (size_t i = 0; i < count; i++) {
		const struct sp_section *s = &sections[i];
		module->parts.sections[i] = (struct spsym_section){ .name = s->name,
			                                            .address = s->allocated ? s->address - base : 0,
			                                            .size = s->size,
			                                            .file_offset = s->file_offset,
			                                            .executable = s->executable,
			                                            .allocated = s->allocated,
			                                            .no_bits = s->no_bits };
	}
	module->parts.section_count = count;
	atomic_store_explicit(&module->parts.sections_ready, true, memory_order_release);
	return NULL;
}

static struct sp_error *make_raw(struct spsym_module *module)
{
	const struct sp_symbol_file *file = module->found.debug;
	struct sp_raw_symbol *symbols = NULL;
	size_t count = 0;
	if (!file->object)
		return no_object(module);
	struct sp_error *error = sp_object_raw_symbols(file->object, &symbols, &count);
	if (error)
		return error;
	module->parts.raw = malloc((count + 1) * sizeof(*module->parts.raw));
	for (size_t i = 0; module->parts.raw && i < count; i++)
		module->parts.raw[i] = (struct spsym_raw_symbol){ .name = symbols[i].name,
			                                          .file = symbols[i].file,
			                                          .address = symbols[i].address - file->info.base,
			                                          .size = symbols[i].size,
			                                          .section = symbols[i].section,
			                                          .type = symbols[i].type,
			                                          .binding = symbols[i].binding };
	free(symbols);
	if (!module->parts.raw)
		return sp_error_no_memory();
	module->parts.raw_count = count;
	atomic_store_explicit(&module->parts.raw_ready, true, memory_order_release);
	return NULL;
}

/* Makes one of the lists unless it is there. */
static struct sp_error *need(struct spsym_module *module, const atomic_bool *ready,
                             struct sp_error *(*make)(struct spsym_module *module))
{
	if (atomic_load_explicit(ready, memory_order_acquire))
		return NULL;
	pthread_mutex_lock(&module->lock);
	struct sp_error *error = atomic_load_explicit(ready, memory_order_relaxed) ? NULL : make(module);
	pthread_mutex_unlock(&module->lock);
	return error;
}

struct sp_error *spsym_segments(struct spsym_module *module, const struct spsym_segment **ret, size_t *ret_count)
{
	struct sp_error *error = need(module, &module->parts.segments_ready, make_segments);
	*ret = module->parts.segments;
	*ret_count = error ? 0 : module->parts.segment_count;
	return error;
}

struct sp_error *spsym_sections(struct spsym_module *module, const struct spsym_section **ret, size_t *ret_count)
{
	struct sp_error *error = need(module, &module->parts.sections_ready, make_sections);
	*ret = module->parts.sections;
	*ret_count = error ? 0 : module->parts.section_count;
	return error;
}

struct sp_error *spsym_raw_symbols(struct spsym_module *module, const struct spsym_raw_symbol **ret, size_t *ret_count)
{
	struct sp_error *error = need(module, &module->parts.raw_ready, make_raw);
	*ret = module->parts.raw;
	*ret_count = error ? 0 : module->parts.raw_count;
	return error;
}

static struct sp_error *no_section(const struct spsym_module *module, const char *name)
{
	return sp_error_create(SP_ERROR_NOT_FOUND, "%s: cannot find section %s", module->found.debug->path, name);
}

struct sp_error *spsym_section_bytes(struct spsym_module *module, const char *name, const void **ret, size_t *ret_size)
{
	const struct sp_symbol_file *files[] = { module->found.binary, module->found.debug };
	for (size_t i = 0; i < 2; i++) {
		struct sp_object *object = files[i] ? files[i]->object : NULL;
		const struct sp_section *section = object ? sp_object_find_section(object, name) : NULL;
		const uint8_t *bytes;
		if (!section || section->no_bits)
			continue;
		struct sp_error *error = sp_object_section_bytes(object, section, &bytes, ret_size);
		*ret = bytes;
		return error;
	}
	return no_section(module, name);
}

struct sp_error *spsym_section_address(struct spsym_module *module, const char *name, uint64_t offset, uint64_t *ret)
{
	uint64_t base;
	struct sp_object *object = layout_file(module, &base);
	const struct sp_section *section = object ? sp_object_find_section(object, name) : NULL;
	if (!section || !section->allocated)
		return no_section(module, name);
	if (offset >= section->size)
		return sp_error_create(SP_ERROR_NOT_FOUND, "%s: offset 0x%llx is past the end of section %s (0x%llx)",
		                       module->found.debug->path, (unsigned long long)offset, name,
		                       (unsigned long long)section->size);
	*ret = section->address - base + offset;
	return NULL;
}
