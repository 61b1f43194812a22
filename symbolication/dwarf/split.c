/* Split DWARF: the unit that a skeleton stands for, in a package (.dwp) or in a file of its own (.dwo). */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Packages ---- */

/* The header of .debug_cu_index or .debug_tu_index and where its tables begin. */
struct package_index {
	struct sp_cursor c;
	uint32_t columns, units, slots;
	uint64_t hashes, rows, ids, offsets, sizes; /* offsets of the tables */
};

static bool read_index(struct dw_file *package, enum dw_section_id id, struct package_index *ret)
{
	struct dw_bytes bytes = dw_section(package, id)->data;
	struct sp_cursor c = sp_cursor_init(bytes.bytes, bytes.size);
	c.big_endian = package->big_endian;
	uint32_t version = sp_cursor_u32(&c);
	if (version != 2) { /* version 5 has two bytes, and two of padding */
		sp_cursor_seek(&c, 0);
		version = sp_cursor_u16(&c);
		sp_cursor_skip(&c, 2);
	}
	ret->columns = sp_cursor_u32(&c);
	ret->units = sp_cursor_u32(&c);
	ret->slots = sp_cursor_u32(&c);
	ret->hashes = sp_cursor_offset(&c);
	ret->rows = ret->hashes + (uint64_t)ret->slots * 8;
	ret->ids = ret->rows + (uint64_t)ret->slots * 4;
	ret->offsets = ret->ids + (uint64_t)ret->columns * 4;
	ret->sizes = ret->offsets + (uint64_t)ret->units * ret->columns * 4;
	ret->c = c;
	return !c.bad && (version == 2 || version == 5) && ret->slots && !(ret->slots & (ret->slots - 1)) &&
	       ret->columns && ret->columns <= 16 && ret->sizes + (uint64_t)ret->units * ret->columns * 4 <= bytes.size;
}

static uint32_t u32_at(struct package_index *index, uint64_t offset)
{
	sp_cursor_seek(&index->c, offset);
	return sp_cursor_u32(&index->c);
}

/* The row (from 1) of a signature; 0 when there is none. */
static uint32_t find_row(struct package_index *index, uint64_t signature)
{
	uint32_t mask = index->slots - 1;
	uint32_t slot = (uint32_t)signature & mask, step = ((uint32_t)(signature >> 32) & mask) | 1;
	for (uint32_t i = 0; i < index->slots; i++, slot = (slot + step) & mask) {
		uint32_t row = u32_at(index, index->rows + (uint64_t)slot * 4);
		if (!row || row > index->units)
			return 0;
		sp_cursor_seek(&index->c, index->hashes + (uint64_t)slot * 8);
		if (sp_cursor_u64(&index->c) == signature)
			return row;
	}
	return 0;
}

/* A part of a section; empty when it is not inside. */
static struct dw_bytes part(struct dw_file *package, enum dw_section_id id, uint32_t offset, uint32_t size)
{
	struct dw_bytes all = dw_section(package, id)->data;
	if (!all.bytes || offset > all.size || size > all.size - offset)
		return (struct dw_bytes){ 0 };
	return (struct dw_bytes){ all.bytes + offset, size };
}

/* What the index gives for a signature. *ret_types: the unit is in .debug_types. */
static bool find_contribution(struct dw_file *package, enum dw_section_id id, uint64_t signature,
                              struct dw_contribution *ret, bool *ret_types)
{
	struct package_index index;
	*ret = (struct dw_contribution){ 0 };
	*ret_types = false;
	if (!read_index(package, id, &index))
		return false;
	uint32_t row = find_row(&index, signature);
	if (!row)
		return false;
	for (uint32_t i = 0; i < index.columns; i++) {
		uint64_t cell = ((uint64_t)(row - 1) * index.columns + i) * 4;
		uint32_t offset = u32_at(&index, index.offsets + cell), size = u32_at(&index, index.sizes + cell);
		switch (u32_at(&index, index.ids + (uint64_t)i * 4)) {
		case DW_SECT_INFO:
			ret->info = part(package, DW_INFO, offset, size);
			break;
		case DW_SECT_TYPES:
			*ret_types = true;
			ret->info = part(package, DW_TYPES, offset, size);
			break;
		case DW_SECT_ABBREV:
			ret->abbrev = part(package, DW_ABBREV, offset, size);
			break;
		case DW_SECT_STR_OFFSETS:
			ret->str_offsets = part(package, DW_STR_OFFSETS, offset, size);
			break;
		case DW_SECT_RNGLISTS:
			ret->rnglists = part(package, DW_RNGLISTS, offset, size);
			break;
		default:
			break;
		}
	}
	return ret->info.size;
}

static struct dw_unit *unit_of_package(struct dw_file *package, enum dw_section_id id, uint64_t signature,
                                       struct dw_unit *skeleton)
{
	struct dw_contribution contribution;
	bool in_types;
	struct dw_unit *unit = NULL;
	if (!find_contribution(package, id, signature, &contribution, &in_types))
		return NULL;
	struct sp_error *error = dw_unit_get_part(package, in_types, 0, &contribution, skeleton, &unit);
	if (!error)
		return unit;
	dw_note(package->dwarf, "%s", error->message);
	sp_error_destroy(error);
	return NULL;
}

struct dw_unit *dw_package_type_unit(struct dw_file *package, uint64_t signature)
{
	return unit_of_package(package, DW_TU_INDEX, signature, NULL);
}

/* ---- .dwo files ---- */

/* Opens a .dwo, once; NULL when there is none. */
static struct dw_file *open_file(struct sp_dwarf *dwarf, const char *path)
{
	uint64_t key = sp_hash_bytes(path, strlen(path));
	pthread_mutex_lock(&dwarf->dwo_lock);
	uint64_t *known = sp_map_get(&dwarf->dwo_files, key);
	struct dw_file *file = known ? (struct dw_file *)(uintptr_t)*known : NULL;
	if (!known) {
		struct sp_object *object = dwarf->open_dwo(dwarf->context, path);
		struct sp_error *error = object ? dw_file_create(dwarf, object, true, &file) : NULL;
		if (!error && !sp_map_put(&dwarf->dwo_files, key, (uintptr_t)file)) {
			dw_file_destroy(file);
			file = NULL;
		}
		sp_error_destroy(error);
		if (!file)
			dw_note(dwarf, "%s: not found: no inlined functions for its unit", path);
	}
	pthread_mutex_unlock(&dwarf->dwo_lock);
	return file;
}

/* The unit with the skeleton's ID. */
static struct dw_unit *unit_of_file(struct dw_file *file, struct dw_unit *skeleton)
{
	const struct dw_unit_list *list;
	struct sp_error *error = dw_unit_list_get(file, &list);
	for (size_t i = 0; !error && i < list->info_count; i++) {
		const struct dw_unit_entry *entry = &list->entries[i];
		struct dw_unit *unit;
		if (entry->type == DW_UT_type || entry->type == DW_UT_split_type)
			continue;
		/* Its address pool and ranges are in the skeleton's file, so it must be made knowing the skeleton. */
		if (entry->type == DW_UT_split_compile && entry->signature != skeleton->signature)
			continue;
		error = dw_unit_get_part(file, false, entry->offset, NULL, skeleton, &unit);
		if (!error && unit->signature == skeleton->signature && unit->skeleton == skeleton)
			return unit;
	}
	if (error) {
		dw_note(file->dwarf, "%s", error->message);
		sp_error_destroy(error);
	} else {
		dw_note(file->dwarf, "%s is of another build: no inlined functions for its unit",
		        sp_object_name(file->object));
	}
	return NULL;
}

static struct dw_unit *find_split(struct dw_unit *skeleton)
{
	struct sp_dwarf *dwarf = skeleton->file->dwarf;
	if (dwarf->package) {
		struct dw_unit *unit = unit_of_package(dwarf->package, DW_CU_INDEX, skeleton->signature, skeleton);
		if (unit)
			return unit;
	}
	if (!dwarf->open_dwo)
		return NULL;
	const char *name = skeleton->dwo_name, *folder = skeleton->comp_dir;
	char path[DW_MAX_NAME];
	bool whole = name[0] == '/' || !folder;
	int length = snprintf(path, sizeof(path), "%s%s%s", whole ? "" : folder, whole ? "" : "/", name);
	if (length < 0 || (size_t)length >= sizeof(path))
		return NULL;
	struct dw_file *file = open_file(dwarf, path);
	return file ? unit_of_file(file, skeleton) : NULL;
}

struct dw_unit *dw_unit_with_dies(struct dw_unit *unit)
{
	struct dw_unit *split = atomic_load_explicit(&unit->split, memory_order_acquire);
	if (split)
		return split;
	pthread_mutex_lock(&unit->lock);
	split = atomic_load_explicit(&unit->split, memory_order_relaxed);
	if (!split) {
		bool skeleton = unit->dwo_name && !unit->file->split;
		split = skeleton ? find_split(unit) : NULL;
		split = split ? split : unit;
		atomic_store_explicit(&unit->split, split, memory_order_release);
	}
	pthread_mutex_unlock(&unit->lock);
	return split;
}
