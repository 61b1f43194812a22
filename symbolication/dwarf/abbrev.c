/* Abbreviations: the shapes of DIEs.
 *
 * A table is compiled once into what the hot loop over DIEs wants: entries in an array by code, the size of those
 * whose attributes all have fixed sizes, and for the rest a skip program: a byte below OP_ULEB moves over that many
 * bytes, the others over one value of variable size. */
#include "internal.h"

#define USUAL_SIZE ((size_t)32 << 10) /* bytes of a table, which says its end only there */

#include <stdlib.h>

enum skip_op {
	OP_ULEB = 0xf0, /* also SLEB128 */
	OP_BLOCK1,
	OP_BLOCK2,
	OP_BLOCK4,
	OP_BLOCK, /* ULEB128 length */
	OP_STRING,
	OP_INDIRECT,
	OP_INVALID, /* a form that nobody knows: the unit can't be read past it */
	OP_END,
};

/* Sizes that depend on the unit. */
struct shape {
	unsigned address_size, offset_size, version;
};

/* The size of a form's value, or a skip_op. */
static unsigned form_size(unsigned form, const struct shape *shape)
{
	switch (form) {
	case DW_FORM_flag_present:
	case DW_FORM_implicit_const:
		return 0;
	case DW_FORM_data1:
	case DW_FORM_flag:
	case DW_FORM_ref1:
	case DW_FORM_strx1:
	case DW_FORM_addrx1:
		return 1;
	case DW_FORM_data2:
	case DW_FORM_ref2:
	case DW_FORM_strx2:
	case DW_FORM_addrx2:
		return 2;
	case DW_FORM_strx3:
	case DW_FORM_addrx3:
		return 3;
	case DW_FORM_data4:
	case DW_FORM_ref4:
	case DW_FORM_ref_sup4:
	case DW_FORM_strx4:
	case DW_FORM_addrx4:
		return 4;
	case DW_FORM_data8:
	case DW_FORM_ref8:
	case DW_FORM_ref_sup8:
	case DW_FORM_ref_sig8:
		return 8;
	case DW_FORM_data16:
		return 16;
	case DW_FORM_addr:
		return shape->address_size;
	case DW_FORM_ref_addr:
		return shape->version <= 2 ? shape->address_size : shape->offset_size;
	case DW_FORM_sec_offset:
	case DW_FORM_strp:
	case DW_FORM_strp_sup:
	case DW_FORM_line_strp:
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_GNU_strp_alt:
		return shape->offset_size;
	case DW_FORM_sdata:
	case DW_FORM_udata:
	case DW_FORM_ref_udata:
	case DW_FORM_strx:
	case DW_FORM_addrx:
	case DW_FORM_loclistx:
	case DW_FORM_rnglistx:
	case DW_FORM_GNU_addr_index:
	case DW_FORM_GNU_str_index:
		return OP_ULEB;
	case DW_FORM_block1:
		return OP_BLOCK1;
	case DW_FORM_block2:
		return OP_BLOCK2;
	case DW_FORM_block4:
		return OP_BLOCK4;
	case DW_FORM_block:
	case DW_FORM_exprloc:
		return OP_BLOCK;
	case DW_FORM_string:
		return OP_STRING;
	case DW_FORM_indirect:
		return OP_INDIRECT;
	default:
		return OP_INVALID;
	}
}

static inline void skip_uleb(struct sp_cursor *c)
{
	for (unsigned i = 0; i < 10 && c->at < c->end; i++)
		if (!(*c->at++ & 0x80))
			return;
	sp_cursor_fail(c);
}

static void skip_indirect(struct sp_cursor *c, const struct dw_unit *unit)
{
	struct dw_value value;
	dw_read_value(c, unit, DW_FORM_indirect, 0, &value);
}

void dw_skip_program(struct sp_cursor *c, const struct dw_unit *unit, const uint8_t *program)
{
	for (;;) {
		uint8_t op = *program++;
		switch (op) {
		case OP_ULEB:
			skip_uleb(c);
			break;
		case OP_BLOCK1:
			sp_cursor_skip(c, sp_cursor_u8(c));
			break;
		case OP_BLOCK2:
			sp_cursor_skip(c, sp_cursor_u16(c));
			break;
		case OP_BLOCK4:
			sp_cursor_skip(c, sp_cursor_u32(c));
			break;
		case OP_BLOCK:
			sp_cursor_skip(c, sp_cursor_uleb(c));
			break;
		case OP_STRING:
			sp_cursor_string(c);
			break;
		case OP_INDIRECT:
			skip_indirect(c, unit);
			break;
		case OP_INVALID:
			sp_cursor_fail(c);
			return;
		case OP_END:
			return;
		default:
			sp_cursor_skip(c, op);
			break;
		}
	}
}

/* Compiles the attributes of one abbreviation. */
static bool compile(struct dw_abbrevs *table, struct dw_abbrev *abbrev, const struct shape *shape)
{
	uint64_t run = 0, offset = 0; /* fixed bytes not yet written; offset from the DIE's first attribute */
	bool fixed = true;
	abbrev->program = (uint32_t)table->programs.count;
	for (size_t i = 0; i < abbrev->count; i++) {
		const struct dw_attribute *attribute = &table->attributes.items[abbrev->first + i];
		if (attribute->name == DW_AT_sibling && attribute->form == DW_FORM_ref4 && fixed &&
		    offset <= UINT16_MAX) {
			abbrev->flags |= DW_ABBREV_SIBLING;
			abbrev->sibling = (uint16_t)offset;
		} else if (attribute->name == DW_AT_sibling) {
			abbrev->flags |= DW_ABBREV_FAR_SIBLING;
		}
		unsigned size = form_size(attribute->form, shape);
		if (size < OP_ULEB) {
			run += size;
			offset += size;
			continue;
		}
		fixed = false;
		for (; run; run -= run < OP_ULEB ? run : OP_ULEB - 1)
			if (!sp_vector_push(&table->programs, (uint8_t)(run < OP_ULEB ? run : OP_ULEB - 1)))
				return false;
		if (!sp_vector_push(&table->programs, (uint8_t)size))
			return false;
	}
	abbrev->size = fixed ? (uint32_t)offset : DW_SIZE_VARIES;
	for (; run; run -= run < OP_ULEB ? run : OP_ULEB - 1)
		if (!sp_vector_push(&table->programs, (uint8_t)(run < OP_ULEB ? run : OP_ULEB - 1)))
			return false;
	return sp_vector_push(&table->programs, (uint8_t)OP_END);
}

/* Reads the attribute list of one abbreviation. */
static struct sp_error *read_attributes(struct sp_cursor *c, struct dw_abbrevs *table, struct dw_abbrev *abbrev)
{
	abbrev->first = (uint32_t)table->attributes.count;
	for (;;) {
		uint64_t name = sp_cursor_uleb(c), form = sp_cursor_uleb(c);
		uint32_t constant = 0;
		if (c->bad)
			return sp_error_create(SP_ERROR_FORMAT, "section .debug_abbrev: an abbreviation is cut short");
		if (!name && !form)
			return NULL;
		if (form == DW_FORM_implicit_const) {
			constant = (uint32_t)table->constants.count;
			if (!sp_vector_push(&table->constants, sp_cursor_sleb(c)))
				return sp_error_no_memory();
		}
		if (++abbrev->count > DW_MAX_ATTRIBUTES)
			return sp_error_create(SP_ERROR_LIMIT,
			                       "section .debug_abbrev: an abbreviation has more than %u attributes",
			                       DW_MAX_ATTRIBUTES);
		if (name == DW_AT_low_pc || name == DW_AT_ranges)
			abbrev->flags |= DW_ABBREV_RANGES;
		if (name == DW_AT_declaration)
			abbrev->flags |= DW_ABBREV_DECLARATION;
		struct dw_attribute attribute = { .name = name <= UINT16_MAX ? (uint16_t)name : 0,
			                          .form = form <= UINT16_MAX ? (uint16_t)form : UINT16_MAX,
			                          .constant = constant };
		if (!sp_vector_push(&table->attributes, attribute))
			return sp_error_no_memory();
	}
}

/* Puts an abbreviation where it is found by its code. The first of several with one code wins. */
static bool insert(struct dw_abbrevs *table, uint64_t code, const struct dw_abbrev *abbrev, size_t seen,
                   size_t *capacity)
{
	/* Codes are nearly always 1, 2, 3 ...; a few holes are fine. */
	if (code <= 4 * seen + 64) {
		if (code >= table->dense_count) {
			if (!sp_vector_grow((void **)&table->dense, capacity, table->dense_count,
			                    code + 1 - table->dense_count, sizeof(*table->dense)))
				return false;
			memset(table->dense + table->dense_count, 0,
			       (code + 1 - table->dense_count) * sizeof(*table->dense));
			table->dense_count = code + 1;
		}
		if (!(table->dense[code].flags & DW_ABBREV_DEFINED))
			table->dense[code] = *abbrev;
		return true;
	}
	if (sp_map_get(&table->sparse, code))
		return true;
	return sp_vector_push(&table->sparse_items, *abbrev) &&
	       sp_map_put(&table->sparse, code, table->sparse_items.count - 1);
}

const struct dw_abbrev *dw_abbrev_sparse(const struct dw_abbrevs *abbrevs, uint64_t code)
{
	const uint64_t *index = sp_map_get(&abbrevs->sparse, code);
	return index ? &abbrevs->sparse_items.items[*index] : NULL;
}

static struct sp_error *parse(struct dw_file *file, struct sp_cursor c, const struct shape *shape,
                              struct dw_abbrevs *table)
{
	size_t seen = 0, capacity = 0;
	while (sp_cursor_left(&c)) {
		const uint8_t *start = c.at;
		uint64_t code = sp_cursor_uleb(&c);
		if (!code)
			break;
		uint64_t tag = sp_cursor_uleb(&c);
		struct dw_abbrev abbrev = { .tag = tag <= UINT16_MAX ? (uint16_t)tag : 0, .flags = DW_ABBREV_DEFINED };
		if (sp_cursor_u8(&c))
			abbrev.flags |= DW_ABBREV_CHILDREN;
		struct sp_error *error = read_attributes(&c, table, &abbrev);
		if (error)
			return error;
		if (!compile(table, &abbrev, shape) || !insert(table, code, &abbrev, seen++, &capacity))
			return sp_error_no_memory();
		if (!dw_spend(file->dwarf, DW_WORK_ABBREVS, (uint64_t)(c.at - start)))
			return sp_error_create(SP_ERROR_LIMIT, "section .debug_abbrev: too many tables");
	}
	return NULL;
}

static bool make_steps(struct dw_abbrevs *table)
{
	table->steps = calloc(table->dense_count + 1, sizeof(*table->steps));
	table->child_steps = calloc(table->dense_count + 1, sizeof(*table->child_steps));
	if (!table->steps || !table->child_steps)
		return false;
	for (size_t code = 1; code < table->dense_count; code++) {
		const struct dw_abbrev *abbrev = &table->dense[code];
		if (!(abbrev->flags & DW_ABBREV_DEFINED) || abbrev->size == DW_SIZE_VARIES)
			continue;
		bool children = abbrev->flags & DW_ABBREV_CHILDREN;
		bool skips = children && dw_abbrev_is_hollow(abbrev) && abbrev->flags & DW_ABBREV_SIBLING;
		if (!dw_abbrev_is_function(abbrev) && !skips)
			table->steps[code] = abbrev->size + 1;
		if (!children && abbrev->tag != DW_TAG_inlined_subroutine && abbrev->tag != DW_TAG_subprogram)
			table->child_steps[code] = abbrev->size + 1;
	}
	table->steps[0] = 1;
	return true;
}

void dw_abbrevs_destroy(struct dw_abbrevs *abbrevs)
{
	if (!abbrevs)
		return;
	free(abbrevs->steps);
	free(abbrevs->child_steps);
	free(abbrevs->dense);
	sp_map_deinit(&abbrevs->sparse);
	sp_vector_deinit(&abbrevs->sparse_items);
	sp_vector_deinit(&abbrevs->attributes);
	sp_vector_deinit(&abbrevs->constants);
	sp_vector_deinit(&abbrevs->programs);
	free(abbrevs);
}

static size_t abbrevs_memory(const struct dw_abbrevs *abbrevs)
{
	return sizeof(*abbrevs) + (abbrevs->dense_count + abbrevs->sparse_items.capacity) * sizeof(struct dw_abbrev) +
	       abbrevs->dense_count * 2 * sizeof(*abbrevs->steps) +
	       abbrevs->attributes.capacity * sizeof(struct dw_attribute) + abbrevs->constants.capacity * 8 +
	       abbrevs->programs.capacity;
}

/* Tables of one offset differ where units differ in sizes. The address tells apart the parts of a package. */
static uint64_t cache_key(struct dw_bytes bytes, uint64_t offset, const struct shape *shape)
{
	uint64_t place = (uint64_t)(uintptr_t)bytes.bytes + offset;
	return place << 8 | (shape->version <= 2) << 5 | (shape->offset_size == 8) << 4 | shape->address_size;
}

struct sp_error *dw_abbrevs_get(struct dw_file *file, struct dw_bytes bytes, uint64_t offset, unsigned address_size,
                                unsigned offset_size, unsigned version, const struct dw_abbrevs **ret)
{
	struct shape shape = { address_size, offset_size, version };
	if (offset >= bytes.size)
		return sp_error_create(SP_ERROR_FORMAT, "section .debug_abbrev: offset 0x%llx past the end (0x%zx)",
		                       (unsigned long long)offset, bytes.size);
	uint64_t key = cache_key(bytes, offset, &shape);
	pthread_mutex_lock(&file->lock);
	uint64_t *known = sp_map_get(&file->abbrevs, key);
	struct dw_abbrevs *table = known ? (struct dw_abbrevs *)(uintptr_t)*known : NULL;
	pthread_mutex_unlock(&file->lock);
	if (table) {
		*ret = table;
		return NULL;
	}
	table = calloc(1, sizeof(*table));
	if (!table)
		return sp_error_no_memory();
	struct sp_cursor c = sp_cursor_init(bytes.bytes, bytes.size);
	c.big_endian = file->big_endian;
	sp_cursor_seek(&c, offset);
	dw_want(file, c.at, sp_cursor_left(&c) < USUAL_SIZE ? sp_cursor_left(&c) : USUAL_SIZE);
	struct sp_error *error = parse(file, c, &shape, table);
	if (!error && !make_steps(table))
		error = sp_error_no_memory();
	if (error) {
		dw_abbrevs_destroy(table);
		return error;
	}
	pthread_mutex_lock(&file->lock);
	known = sp_map_get(&file->abbrevs, key);
	if (known) { /* another thread was faster */
		dw_abbrevs_destroy(table);
		table = (struct dw_abbrevs *)(uintptr_t)*known;
	} else if (sp_map_put(&file->abbrevs, key, (uintptr_t)table)) {
		dw_count_memory(file->dwarf, abbrevs_memory(table));
	} else {
		dw_abbrevs_destroy(table);
		error = sp_error_no_memory();
	}
	pthread_mutex_unlock(&file->lock);
	*ret = table;
	return error;
}
