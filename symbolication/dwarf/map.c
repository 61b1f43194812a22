/* From an address to the units that claim it.
 *
 * .debug_aranges, where a unit has a set there, leads straight to it: no other unit is touched. It is a hint, not the
 * truth: what it does not know is looked for among the units without a set, by their root's ranges, else by their line
 * sequences and functions. */
#include "internal.h"

#include <stdlib.h>

typedef SP_VECTOR(struct sp_interval) intervals;
typedef SP_VECTOR(uint64_t) offsets;

static int compare_offsets(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

void dw_map_destroy(struct dw_map *map)
{
	if (!map)
		return;
	dw_tree_deinit(&map->tree);
	free(map->units);
	free(map);
}

size_t dw_map_memory(const struct dw_map *map)
{
	return sizeof(*map) + map->count * sizeof(*map->units) +
	       map->tree.count * (sizeof(*map->tree.intervals) + sizeof(*map->tree.ends));
}

/* Makes a map of intervals whose ids are indices of `units`; takes over the intervals' storage. */
static struct sp_error *map_create(intervals *found, const offsets *units, struct dw_map **ret)
{
	struct dw_map *map = calloc(1, sizeof(*map));
	uint64_t *sorted = malloc((units->count + 1) * sizeof(*sorted));
	uint32_t *place = malloc((units->count + 1) * sizeof(*place));
	struct sp_error *error = NULL;
	if (map)
		map->units = calloc(units->count + 1, sizeof(*map->units));
	if (!map || !sorted || !place || !map->units) {
		sp_vector_deinit(found);
		error = sp_error_no_memory();
	} else {
		if (units->count)
			memcpy(sorted, units->items, units->count * sizeof(*sorted));
		dw_sort(sorted, units->count, sizeof(*sorted), compare_offsets);
		for (size_t i = 0; i < units->count; i++)
			if (!map->count || map->units[map->count - 1].offset != sorted[i])
				map->units[map->count++].offset = sorted[i];
		for (size_t i = 0; i < units->count; i++) {
			const uint64_t *slot = bsearch(&units->items[i], map->units, map->count, sizeof(*map->units),
			                               compare_offsets);
			place[i] = (uint32_t)((const struct dw_map_unit *)(const void *)slot - map->units);
		}
		for (size_t i = 0; i < found->count; i++)
			found->items[i].id = place[found->items[i].id];
		error = dw_tree_init(&map->tree, found->items, found->count);
	}
	free(sorted);
	free(place);
	if (error) {
		dw_map_destroy(map);
		return error;
	}
	*ret = map;
	return NULL;
}

/* ---- .debug_aranges ---- */

/* What is looked for, and what was found. */
struct scan {
	struct dw_file *file;
	uint64_t first, last; /* addresses */
	intervals found;      /* id = index in `units` */
	offsets units;
	bool no_memory;
};

static void take_tuple(struct scan *scan, uint64_t from, uint64_t size, bool *any)
{
	uint64_t end = from + size;
	if (from > scan->last || end <= scan->first || end <= from || !dw_is_code(scan->file, from))
		return;
	*any = true;
	if (!sp_vector_push(&scan->found, (struct sp_interval){ from, end, (uint32_t)scan->units.count }))
		scan->no_memory = true;
}

/* Reads one set; the cursor is then behind it. False when the section can't be read further. */
static bool read_set(struct scan *scan, struct sp_cursor *c)
{
	size_t start = sp_cursor_offset(c);
	unsigned offset_size = 4;
	uint64_t length = sp_cursor_u32(c);
	if (length == 0xffffffff) {
		offset_size = 8;
		length = sp_cursor_u64(c);
	}
	if (c->bad || length > sp_cursor_left(c))
		return false;
	struct sp_cursor set = sp_cursor_sub(c, start, sp_cursor_offset(c) - start + length);
	sp_cursor_skip(&set, sp_cursor_offset(c) - start);
	sp_cursor_skip(c, length);
	unsigned version = sp_cursor_u16(&set);
	uint64_t unit = sp_cursor_uint(&set, offset_size);
	unsigned address_size = sp_cursor_u8(&set), segment_size = sp_cursor_u8(&set);
	if (set.bad || version < 2 || version > 3 || (address_size != 4 && address_size != 8) || segment_size > 8)
		return true;
	unsigned tuple = 2 * address_size + segment_size;
	sp_cursor_seek(&set, (sp_cursor_offset(&set) + tuple - 1) / tuple * tuple);
	bool any = false;
	while (sp_cursor_left(&set) >= tuple) {
		sp_cursor_skip(&set, segment_size);
		uint64_t from = sp_cursor_uint(&set, address_size);
		take_tuple(scan, from, sp_cursor_uint(&set, address_size), &any);
	}
	if (any && !sp_vector_push(&scan->units, unit))
		scan->no_memory = true;
	return !scan->no_memory;
}

struct sp_error *dw_map_by_aranges(struct sp_dwarf *dwarf, uint64_t first, uint64_t last, struct dw_map **ret)
{
	struct dw_bytes bytes = dw_section(dwarf->main, DW_ARANGES)->data;
	struct sp_cursor c = sp_cursor_init(bytes.bytes, bytes.size);
	c.big_endian = dwarf->main->big_endian;
	dw_want(dwarf->main, bytes.bytes, bytes.size);
	struct scan scan = { .file = dwarf->main, .first = first, .last = last };
	while (sp_cursor_left(&c) && read_set(&scan, &c))
		;
	struct sp_error *error = NULL;
	if (scan.no_memory) {
		sp_vector_deinit(&scan.found);
		error = sp_error_no_memory();
	} else {
		error = map_create(&scan.found, &scan.units, ret);
	}
	sp_vector_deinit(&scan.units);
	return error;
}

/* ---- Units without a set ---- */

static bool add_pieces(const struct sp_interval *pieces, size_t count, uint32_t id, intervals *found)
{
	for (size_t i = 0; i < count; i++)
		if (!sp_vector_push(found, (struct sp_interval){ pieces[i].start, pieces[i].end, id }))
			return false;
	return true;
}

/* A unit whose root has no ranges: what its lines and functions cover. */
static struct sp_error *add_contents(struct dw_unit *unit, uint32_t id, intervals *found)
{
	const struct dw_lines *lines;
	const struct dw_functions *functions;
	struct sp_error *error = dw_lines_get(unit, &lines);
	if (!error && lines && !add_pieces(lines->pieces, lines->piece_count, id, found))
		error = sp_error_no_memory();
	if (!error)
		error = dw_functions_get(dw_unit_with_dies(unit), &functions);
	if (!error && !add_pieces(functions->pieces, functions->piece_count, id, found))
		error = sp_error_no_memory();
	return error;
}

static struct sp_error *add_unit(struct dw_unit *unit, uint32_t id, struct dw_ranges *scratch, intervals *found)
{
	scratch->count = 0;
	struct sp_error *error = dw_ranges_read(unit, &unit->low, &unit->high, &unit->ranges, scratch);
	if (error)
		return error;
	for (size_t i = 0; i < scratch->count; i++)
		if (!sp_vector_push(found, (struct sp_interval){ scratch->items[i].start, scratch->items[i].end, id }))
			return sp_error_no_memory();
	return scratch->count ? NULL : add_contents(unit, id, found);
}

/* A corrupt unit costs that unit only. */
static struct sp_error *add_or_note(struct sp_dwarf *dwarf, uint64_t offset, struct dw_ranges *scratch,
                                    intervals *found, offsets *units)
{
	struct dw_unit *unit;
	struct sp_error *error = dw_unit_get(dwarf->main, false, offset, &unit);
	if (!error && (unit->root_tag == DW_TAG_partial_unit || unit->root_tag == DW_TAG_type_unit))
		return NULL;
	if (!error && !sp_vector_push(units, offset))
		error = sp_error_no_memory();
	if (!error)
		error = add_unit(unit, (uint32_t)units->count - 1, scratch, found);
	if (!error || error->code == SP_ERROR_NO_MEMORY)
		return error;
	dw_note(dwarf, "%s", error->message);
	sp_error_destroy(error);
	return NULL;
}

struct sp_error *dw_map_by_units(struct sp_dwarf *dwarf, const struct dw_map *known, struct dw_map **ret)
{
	const struct dw_unit_list *list;
	struct sp_error *error = dw_unit_list_get(dwarf->main, &list);
	if (error)
		return error;
	intervals found = { 0 };
	offsets units = { 0 };
	struct dw_ranges scratch = { 0 };
	for (size_t i = 0; i < list->info_count && !error; i++) {
		const struct dw_unit_entry *entry = &list->entries[i];
		if (entry->type == DW_UT_type || entry->type == DW_UT_partial)
			continue;
		if (bsearch(&entry->offset, known->units, known->count, sizeof(*known->units), compare_offsets))
			continue;
		error = add_or_note(dwarf, entry->offset, &scratch, &found, &units);
	}
	if (error)
		sp_vector_deinit(&found);
	else
		error = map_create(&found, &units, ret);
	sp_vector_deinit(&units);
	sp_vector_deinit(&scratch);
	return error;
}
