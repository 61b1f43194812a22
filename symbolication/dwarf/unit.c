/* Units: headers, root DIEs, the list of all units of a file, and how to find one. */
#include "internal.h"

#include <stdlib.h>

#define MAX_HEADER 64 /* bytes of a header, at most */

struct header {
	uint64_t end; /* offset of the next unit, from where the cursor began */
	uint64_t abbrev_offset;
	uint64_t signature;
	uint64_t type_die;
	uint8_t version, address_size, offset_size, type;
};

/* Reads a unit's header; the cursor is then at its root DIE. */
static bool read_header(struct sp_cursor *c, bool in_types, struct header *ret)
{
	size_t start = sp_cursor_offset(c);
	*ret = (struct header){ .offset_size = 4 };
	uint64_t length = sp_cursor_u32(c);
	if (length == 0xffffffff) {
		ret->offset_size = 8;
		length = sp_cursor_u64(c);
	} else if (length >= 0xfffffff0) {
		return false;
	}
	if (c->bad)
		return false;
	/* A unit that is cut short is read as far as it goes. */
	length = length < sp_cursor_left(c) ? length : sp_cursor_left(c);
	ret->end = sp_cursor_offset(c) - start + length;
	c->end = c->at + length;
	unsigned version = sp_cursor_u16(c);
	if (version < 2 || version > 5)
		return false;
	ret->version = (uint8_t)version;
	if (ret->version == 5) {
		ret->type = sp_cursor_u8(c);
		ret->address_size = sp_cursor_u8(c);
		ret->abbrev_offset = sp_cursor_uint(c, ret->offset_size);
		if (ret->type == DW_UT_skeleton || ret->type == DW_UT_split_compile)
			ret->signature = sp_cursor_u64(c);
	} else {
		ret->abbrev_offset = sp_cursor_uint(c, ret->offset_size);
		ret->address_size = sp_cursor_u8(c);
		ret->type = in_types ? DW_UT_type : 0;
	}
	if (ret->type == DW_UT_type || ret->type == DW_UT_split_type) {
		ret->signature = sp_cursor_u64(c);
		ret->type_die = sp_cursor_uint(c, ret->offset_size);
	}
	return !c->bad && (ret->address_size == 2 || ret->address_size == 4 || ret->address_size == 8);
}

/* What the root DIE says, as it stands there. */
struct root {
	struct dw_value name, comp_dir, dwo_name;
	struct dw_value str_offsets_base, addr_base, rnglists_base, ranges_base;
	struct dw_value dwo_id, lines, language, low, high, ranges;
};

static void take_root_attribute(struct root *root, unsigned name, const struct dw_value *value)
{
	switch (name) {
	case DW_AT_name:
		root->name = *value;
		break;
	case DW_AT_comp_dir:
		root->comp_dir = *value;
		break;
	case DW_AT_dwo_name:
	case DW_AT_GNU_dwo_name:
		root->dwo_name = *value;
		break;
	case DW_AT_GNU_dwo_id:
		root->dwo_id = *value;
		break;
	case DW_AT_str_offsets_base:
		root->str_offsets_base = *value;
		break;
	case DW_AT_addr_base:
	case DW_AT_GNU_addr_base:
		root->addr_base = *value;
		break;
	case DW_AT_rnglists_base:
		root->rnglists_base = *value;
		break;
	case DW_AT_GNU_ranges_base:
		root->ranges_base = *value;
		break;
	case DW_AT_stmt_list:
		root->lines = *value;
		break;
	case DW_AT_language:
		root->language = *value;
		break;
	case DW_AT_low_pc:
		root->low = *value;
		break;
	case DW_AT_high_pc:
		root->high = *value;
		break;
	case DW_AT_ranges:
		root->ranges = *value;
		break;
	default:
		break;
	}
}

/* The bytes in front of the entries in a table of .debug_str_offsets and .debug_rnglists of DWARF 5: where a base is
 * when none is given. */
static uint64_t default_base(const struct dw_unit *unit, unsigned after_length)
{
	return unit->version < 5 ? 0 : (unit->offset_size == 8 ? 12 : 4) + after_length;
}

static void set_root(struct dw_unit *unit, const struct root *root)
{
	unit->str_offsets_base = root->str_offsets_base.form ? root->str_offsets_base.u : default_base(unit, 4);
	unit->rnglists_base = root->rnglists_base.form ? root->rnglists_base.u : default_base(unit, 8);
	unit->addr_base = root->addr_base.form ? root->addr_base.u : default_base(unit, 4);
	unit->ranges_base = root->ranges_base.u;
	if (root->dwo_id.form)
		unit->signature = root->dwo_id.u;
	unit->name = dw_value_string(unit, &root->name);
	unit->comp_dir = dw_value_string(unit, &root->comp_dir);
	unit->dwo_name = dw_value_string(unit, &root->dwo_name);
	unit->language = (uint16_t)root->language.u;
	unit->has_lines = root->lines.form;
	unit->lines_offset = root->lines.u;
	unit->low = root->low;
	unit->high = root->high;
	unit->ranges = root->ranges;
	if (!dw_value_address(unit, &root->low, &unit->low_pc))
		unit->low_pc = 0;
}

static struct sp_error *read_root(struct dw_unit *unit)
{
	struct sp_cursor c = dw_unit_cursor(unit, unit->first_die);
	const struct dw_abbrev *abbrev = dw_abbrev_find(unit->abbrevs, sp_cursor_uleb(&c));
	struct root root = { 0 };
	if (!abbrev)
		return sp_error_create(SP_ERROR_FORMAT, "section .debug_info: unit at 0x%llx has no root",
		                       (unsigned long long)unit->offset);
	unit->root_tag = abbrev->tag;
	for (unsigned i = 0; i < abbrev->count; i++) {
		const struct dw_attribute *attribute = &unit->abbrevs->attributes.items[abbrev->first + i];
		struct dw_value value;
		dw_read_attribute(&c, unit, attribute, &value);
		if (c.bad)
			return sp_error_create(SP_ERROR_FORMAT,
			                       "section .debug_info: root of unit at 0x%llx is cut short",
			                       (unsigned long long)unit->offset);
		take_root_attribute(&root, attribute->name, &value);
	}
	set_root(unit, &root);
	return NULL;
}

static struct sp_error *unit_create(struct dw_file *file, bool in_types, uint64_t offset,
                                    const struct dw_contribution *part, struct dw_unit *skeleton, struct dw_unit **ret)
{
	const char *section_name = in_types ? ".debug_types" : ".debug_info";
	struct dw_bytes info = part ? part->info : dw_section(file, in_types ? DW_TYPES : DW_INFO)->data;
	struct sp_cursor c = sp_cursor_init(info.bytes, info.size);
	c.big_endian = file->big_endian;
	sp_cursor_seek(&c, offset);
	struct header header;
	bool waits = !part && !in_types;
	if (c.bad || (waits && !dw_info_wait(file, offset + MAX_HEADER)) || !read_header(&c, in_types, &header) ||
	    (waits && !dw_info_wait(file, offset + header.end)))
		return sp_error_create(SP_ERROR_FORMAT, "section %s: no unit at 0x%llx that can be read", section_name,
		                       (unsigned long long)offset);
	if (header.end > DW_MAX_UNIT)
		return sp_error_create(SP_ERROR_LIMIT, "section %s: unit at 0x%llx is larger than 4 GiB", section_name,
		                       (unsigned long long)offset);
	struct dw_unit *unit = calloc(1, sizeof(*unit));
	if (!unit)
		return sp_error_no_memory();
	unit->file = file;
	unit->skeleton = skeleton;
	unit->bytes = (struct dw_bytes){ info.bytes + offset, (size_t)header.end };
	unit->offset = offset;
	unit->first_die = (uint32_t)(sp_cursor_offset(&c) - offset);
	unit->in_types = in_types;
	unit->version = header.version;
	unit->address_size = header.address_size;
	unit->offset_size = header.offset_size;
	unit->type = header.type;
	unit->signature = header.signature;
	unit->type_die = header.type_die < header.end ? (uint32_t)header.type_die : 0;
	unit->str_offsets = part ? part->str_offsets : dw_section(file, DW_STR_OFFSETS)->data;
	unit->rnglists = part ? part->rnglists : dw_section(file, DW_RNGLISTS)->data;
	pthread_mutex_init(&unit->lock, NULL);
	struct sp_error *error = dw_abbrevs_get(file, part ? part->abbrev : dw_section(file, DW_ABBREV)->data,
	                                        header.abbrev_offset, unit->address_size, unit->offset_size,
	                                        unit->version, &unit->abbrevs);
	if (!error)
		error = read_root(unit);
	if (error) {
		dw_unit_destroy(unit);
		return error;
	}
	dw_count_memory(file->dwarf, sizeof(*unit));
	*ret = unit;
	return NULL;
}

void dw_unit_destroy(struct dw_unit *unit)
{
	if (!unit)
		return;
	dw_functions_destroy(atomic_load(&unit->functions));
	dw_paths_destroy(atomic_load(&unit->paths));
	dw_names_destroy(atomic_load(&unit->names));
	dw_scopes_destroy(atomic_load(&unit->scopes));
	pthread_mutex_destroy(&unit->lock);
	free(unit);
}

struct sp_error *dw_unit_get(struct dw_file *file, bool in_types, uint64_t offset, struct dw_unit **ret)
{
	return dw_unit_get_part(file, in_types, offset, NULL, NULL, ret);
}

struct sp_error *dw_unit_get_part(struct dw_file *file, bool in_types, uint64_t offset,
                                  const struct dw_contribution *part, struct dw_unit *skeleton, struct dw_unit **ret)
{
	uint64_t key = (part ? (uint64_t)(uintptr_t)part->info.bytes + offset : offset) * 2 + in_types;
	pthread_mutex_lock(&file->lock);
	uint64_t *known = sp_map_get(&file->units, key);
	struct dw_unit *unit = known ? (struct dw_unit *)(uintptr_t)*known : NULL;
	pthread_mutex_unlock(&file->lock);
	if (unit) {
		*ret = unit;
		return NULL;
	}
	struct sp_error *error = unit_create(file, in_types, offset, part, skeleton, &unit);
	if (error)
		return error;
	pthread_mutex_lock(&file->lock);
	known = sp_map_get(&file->units, key);
	if (known) { /* another thread was faster */
		dw_unit_destroy(unit);
		unit = (struct dw_unit *)(uintptr_t)*known;
	} else if (!sp_map_put(&file->units, key, (uintptr_t)unit)) {
		dw_unit_destroy(unit);
		error = sp_error_no_memory();
	}
	pthread_mutex_unlock(&file->lock);
	*ret = unit;
	return error;
}

/* ---- The list of all units ---- */

typedef SP_VECTOR(struct dw_unit_entry) entries;

static bool list_section(struct dw_file *file, bool in_types, entries *list)
{
	struct dw_bytes bytes = dw_section(file, in_types ? DW_TYPES : DW_INFO)->data;
	uint64_t offset = 0;
	if (!in_types && !dw_info_wait(file, bytes.size))
		return true;
	while (offset < bytes.size) {
		struct sp_cursor c = sp_cursor_init(bytes.bytes, bytes.size);
		c.big_endian = file->big_endian;
		sp_cursor_seek(&c, offset);
		struct header header;
		bool readable = read_header(&c, in_types, &header);
		if (!readable && !header.end) {
			dw_note(file->dwarf, "section %s: no unit at 0x%llx that can be read",
			        in_types ? ".debug_types" : ".debug_info", (unsigned long long)offset);
			return true;
		}
		struct dw_unit_entry entry = { offset, offset + header.end, header.signature, header.type };
		if (readable && !sp_vector_push(list, entry))
			return false;
		offset += header.end;
	}
	return true;
}

static struct sp_error *list_create(struct dw_file *file, struct dw_unit_list **ret)
{
	struct dw_unit_list *list = calloc(1, sizeof(*list));
	entries found = { 0 };
	bool ok = list && list_section(file, false, &found);
	if (ok) {
		list->info_count = found.count;
		ok = list_section(file, true, &found);
	}
	for (size_t i = 0; ok && i < found.count; i++) {
		const struct dw_unit_entry *entry = &found.items[i];
		if ((entry->type == DW_UT_type || entry->type == DW_UT_split_type) &&
		    !sp_map_get(&list->signatures, entry->signature))
			ok = sp_map_put(&list->signatures, entry->signature, i);
	}
	if (!ok) {
		sp_vector_deinit(&found);
		if (list)
			sp_map_deinit(&list->signatures);
		free(list);
		return sp_error_no_memory();
	}
	list->entries = found.items;
	list->count = found.count;
	dw_count_memory(file->dwarf, found.capacity * sizeof(*found.items) + list->signatures.capacity * 17);
	*ret = list;
	return NULL;
}

struct sp_error *dw_unit_list_get(struct dw_file *file, const struct dw_unit_list **ret)
{
	struct dw_unit_list *list = atomic_load_explicit(&file->list, memory_order_acquire);
	struct sp_error *error = NULL;
	if (!list) {
		pthread_mutex_lock(&file->list_lock);
		list = atomic_load_explicit(&file->list, memory_order_relaxed);
		if (!list) {
			error = list_create(file, &list);
			if (!error)
				atomic_store_explicit(&file->list, list, memory_order_release);
		}
		pthread_mutex_unlock(&file->list_lock);
	}
	*ret = list;
	return error;
}

/* Opens a unit on the way to something else: a failure is a note. */
static struct dw_unit *open_unit(struct dw_file *file, bool in_types, uint64_t offset)
{
	struct dw_unit *unit;
	struct sp_error *error = dw_unit_get(file, in_types, offset, &unit);
	if (!error)
		return unit;
	dw_note(file->dwarf, "%s", error->message);
	sp_error_destroy(error);
	return NULL;
}

static const struct dw_unit_list *list_or_note(struct dw_file *file)
{
	const struct dw_unit_list *list;
	struct sp_error *error = dw_unit_list_get(file, &list);
	if (!error)
		return list;
	dw_note(file->dwarf, "%s", error->message);
	sp_error_destroy(error);
	return NULL;
}

struct dw_unit *dw_unit_containing(struct dw_file *file, uint64_t offset)
{
	if (file == file->dwarf->package) /* its units can only be found through its index */
		return NULL;
	const struct dw_unit_list *list = list_or_note(file);
	if (!list)
		return NULL;
	size_t low = 0, high = list->info_count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (list->entries[middle].offset <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || offset >= list->entries[low - 1].end)
		return NULL;
	return open_unit(file, false, list->entries[low - 1].offset);
}

struct dw_unit *dw_type_unit(struct dw_file *file, uint64_t signature)
{
	if (file == file->dwarf->package)
		return dw_package_type_unit(file, signature);
	const struct dw_unit_list *list = list_or_note(file);
	const uint64_t *index = list ? sp_map_get(&list->signatures, signature) : NULL;
	return index ? open_unit(file, *index >= list->info_count, list->entries[*index].offset) : NULL;
}
