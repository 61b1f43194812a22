/* Address ranges of DIEs: low_pc and high_pc, .debug_ranges (DWARF 2 to 4), .debug_rnglists (5). */
#include "internal.h"

#define LISTS_AHEAD ((size_t)128 << 10) /* bytes of lists that are read from the disk at a time */

/* Where a list is read, and what its entries count from. */
struct list {
	const struct dw_unit *unit;
	const struct dw_file *file; /* the main one: it has the code */
	struct sp_cursor c;
	uint64_t base, mask; /* mask: of addresses */
	bool dead_base;      /* the base address is a tombstone */
	struct dw_ranges *ret;
};

static uint64_t address_mask(const struct dw_unit *unit)
{
	return unit->address_size >= 8 ? UINT64_MAX : ((uint64_t)1 << (8 * unit->address_size)) - 1;
}

/* The file that has the code that a unit describes. */
static struct dw_file *code_file(const struct dw_unit *unit)
{
	return unit->skeleton ? unit->skeleton->file : unit->file;
}

static bool add(const struct list *list, uint64_t start, uint64_t end)
{
	start &= list->mask;
	end &= list->mask;
	if (end <= start || !dw_is_code(list->file, start))
		return true;
	return sp_vector_push(list->ret, (struct dw_range){ start, end });
}

static void set_base(struct list *list, uint64_t base)
{
	list->base = base;
	list->dead_base = !list->file->any_address && base >= list->mask - 1;
}

/* Pays for what was read, now and then. */
static bool pay(const struct list *list, bool now, const uint8_t **paid)
{
	size_t size = (size_t)(list->c.at - *paid);
	if (!now && size < 4096)
		return true;
	*paid = list->c.at;
	return dw_spend(list->unit->file->dwarf, DW_WORK_RANGES, size);
}

/* DWARF 2 to 4: pairs of addresses. */
static struct sp_error *read_ranges(struct list *list)
{
	unsigned size = list->unit->address_size;
	const uint8_t *paid = list->c.at;
	for (;;) {
		uint64_t start = sp_cursor_uint(&list->c, size), end = sp_cursor_uint(&list->c, size);
		bool last = !start && !end;
		if (list->c.bad)
			return sp_error_create(SP_ERROR_FORMAT, "section .debug_ranges: a list is cut short");
		if (!pay(list, last, &paid) || last)
			return NULL;
		if (start == list->mask)
			set_base(list, end);
		else if (!list->dead_base && start < list->mask - 1 && !add(list, list->base + start, list->base + end))
			return sp_error_no_memory();
	}
}

static bool read_indexed(struct list *list, uint64_t *ret)
{
	uint64_t index = sp_cursor_uleb(&list->c);
	return !list->c.bad && dw_indexed_address(list->unit, index, ret);
}

/* One entry of a DWARF 5 list; false at its end. */
static bool read_entry(struct list *list, struct sp_error **error)
{
	unsigned size = list->unit->address_size;
	uint64_t start = 0, end = 0;
	bool known = true;
	switch (sp_cursor_u8(&list->c)) {
	case DW_RLE_end_of_list:
		return false;
	case DW_RLE_base_addressx:
		if (read_indexed(list, &start))
			set_base(list, start);
		else
			list->dead_base = true;
		return true;
	case DW_RLE_base_address:
		set_base(list, sp_cursor_uint(&list->c, size));
		return true;
	case DW_RLE_startx_endx:
		known = read_indexed(list, &start);
		known = read_indexed(list, &end) && known;
		break;
	case DW_RLE_startx_length:
		known = read_indexed(list, &start);
		end = start + sp_cursor_uleb(&list->c);
		break;
	case DW_RLE_offset_pair:
		start = list->base + sp_cursor_uleb(&list->c);
		end = list->base + sp_cursor_uleb(&list->c);
		known = !list->dead_base;
		break;
	case DW_RLE_start_end:
		start = sp_cursor_uint(&list->c, size);
		end = sp_cursor_uint(&list->c, size);
		break;
	case DW_RLE_start_length:
		start = sp_cursor_uint(&list->c, size);
		end = start + sp_cursor_uleb(&list->c);
		break;
	default:
		*error = sp_error_create(SP_ERROR_FORMAT, "section .debug_rnglists: unknown kind of entry");
		return false;
	}
	if (!list->c.bad && known && !add(list, start, end))
		*error = sp_error_no_memory();
	return !*error;
}

static struct sp_error *read_rnglists(struct list *list)
{
	struct sp_error *error = NULL;
	const uint8_t *paid = list->c.at;
	while (read_entry(list, &error) && !list->c.bad && pay(list, false, &paid))
		;
	pay(list, true, &paid);
	if (!error && list->c.bad)
		error = sp_error_create(SP_ERROR_FORMAT, "section .debug_rnglists: a list is cut short");
	return error;
}

/* The offset that an index in DW_FORM_rnglistx stands for: counts from the base, which is where the table of offsets
 * starts. */
static bool indexed_list(const struct dw_unit *unit, uint64_t index, uint64_t *ret)
{
	struct sp_cursor c = sp_cursor_init(unit->rnglists.bytes, unit->rnglists.size);
	c.big_endian = unit->file->big_endian;
	if (index > unit->rnglists.size)
		return false;
	sp_cursor_seek(&c, unit->rnglists_base);
	sp_cursor_skip(&c, index * unit->offset_size);
	*ret = unit->rnglists_base + sp_cursor_uint(&c, unit->offset_size);
	return !c.bad;
}

/* The lists of a unit's functions and calls lie one behind the other. */
static void want_lists(struct dw_file *file, struct dw_bytes bytes, uint64_t offset)
{
	uint64_t wanted = atomic_load_explicit(&file->lists_wanted, memory_order_relaxed);
	if ((offset < wanted && wanted - offset <= LISTS_AHEAD) || offset >= bytes.size)
		return;
	atomic_store_explicit(&file->lists_wanted, (size_t)offset + LISTS_AHEAD, memory_order_relaxed);
	size_t left = bytes.size - (size_t)offset;
	dw_want(file, bytes.bytes + offset, left < LISTS_AHEAD ? left : LISTS_AHEAD);
}

static struct sp_error *read_list(const struct dw_unit *unit, const struct dw_value *value, struct list *list)
{
	uint64_t offset = value->u;
	struct dw_bytes bytes;
	if (unit->version >= 5) {
		bytes = unit->rnglists;
		if (value->form == DW_FORM_rnglistx && !indexed_list(unit, value->u, &offset))
			return sp_error_create(SP_ERROR_FORMAT, "section .debug_rnglists: no list %llu",
			                       (unsigned long long)value->u);
	} else {
		bytes = dw_section(code_file(unit), DW_RANGES)->data;
		if (unit->skeleton)
			offset += unit->skeleton->ranges_base;
	}
	want_lists(unit->version >= 5 ? unit->file : code_file(unit), bytes, offset);
	list->c = sp_cursor_init(bytes.bytes, bytes.size);
	list->c.big_endian = unit->file->big_endian;
	sp_cursor_seek(&list->c, offset);
	set_base(list, unit->skeleton ? unit->skeleton->low_pc : unit->low_pc);
	return unit->version >= 5 ? read_rnglists(list) : read_ranges(list);
}

struct sp_error *dw_ranges_read(const struct dw_unit *unit, const struct dw_value *low, const struct dw_value *high,
                                const struct dw_value *ranges, struct dw_ranges *ret)
{
	struct list list = { .unit = unit, .file = code_file(unit), .mask = address_mask(unit), .ret = ret };
	if (ranges->form)
		return read_list(unit, ranges, &list);
	uint64_t start, end;
	/* low_pc alone is no range: the DIE stands for one address. */
	if (!low->form || !high->form || !dw_value_address(unit, low, &start))
		return NULL;
	if (!dw_value_address(unit, high, &end)) {
		if (dw_value_is_address(high))
			return NULL;
		end = start + high->u;
	}
	return add(&list, start, end) ? NULL : sp_error_no_memory();
}
