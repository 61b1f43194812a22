/* Attribute values: reading them by form, and what they stand for: text, addresses, other DIEs. */
#include "internal.h"

static void read_block(struct sp_cursor *c, uint64_t size, struct dw_value *ret)
{
	ret->u = size;
	ret->bytes = sp_cursor_bytes(c, size);
}

static void read_uint(struct sp_cursor *c, unsigned size, struct dw_value *ret)
{
	ret->u = sp_cursor_uint(c, size);
}

/* DW_FORM_indirect: the form stands in front of the value. Not twice in a row. */
static void read_indirect(struct sp_cursor *c, const struct dw_unit *unit, struct dw_value *ret)
{
	uint64_t form = sp_cursor_uleb(c);
	int64_t constant = form == DW_FORM_implicit_const ? sp_cursor_sleb(c) : 0;
	if (form == DW_FORM_indirect || form > UINT16_MAX)
		sp_cursor_fail(c);
	else
		dw_read_value(c, unit, (unsigned)form, constant, ret);
}

void dw_read_value(struct sp_cursor *c, const struct dw_unit *unit, unsigned form, int64_t constant,
                   struct dw_value *ret)
{
	*ret = (struct dw_value){ .form = (uint16_t)form };
	switch (form) {
	case DW_FORM_flag_present:
		ret->u = 1;
		break;
	case DW_FORM_implicit_const:
		ret->u = (uint64_t)constant;
		break;
	case DW_FORM_data1:
	case DW_FORM_flag:
	case DW_FORM_ref1:
	case DW_FORM_strx1:
	case DW_FORM_addrx1:
		ret->u = sp_cursor_u8(c);
		break;
	case DW_FORM_data2:
	case DW_FORM_ref2:
	case DW_FORM_strx2:
	case DW_FORM_addrx2:
		ret->u = sp_cursor_u16(c);
		break;
	case DW_FORM_strx3:
	case DW_FORM_addrx3:
		read_uint(c, 3, ret);
		break;
	case DW_FORM_data4:
	case DW_FORM_ref4:
	case DW_FORM_ref_sup4:
	case DW_FORM_strx4:
	case DW_FORM_addrx4:
		ret->u = sp_cursor_u32(c);
		break;
	case DW_FORM_data8:
	case DW_FORM_ref8:
	case DW_FORM_ref_sup8:
	case DW_FORM_ref_sig8:
		ret->u = sp_cursor_u64(c);
		break;
	case DW_FORM_data16:
		read_block(c, 16, ret);
		break;
	case DW_FORM_addr:
		read_uint(c, unit->address_size, ret);
		break;
	case DW_FORM_ref_addr:
		read_uint(c, unit->version <= 2 ? unit->address_size : unit->offset_size, ret);
		break;
	case DW_FORM_sec_offset:
	case DW_FORM_strp:
	case DW_FORM_strp_sup:
	case DW_FORM_line_strp:
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_GNU_strp_alt:
		read_uint(c, unit->offset_size, ret);
		break;
	case DW_FORM_sdata:
		ret->u = (uint64_t)sp_cursor_sleb(c);
		break;
	case DW_FORM_udata:
	case DW_FORM_ref_udata:
	case DW_FORM_strx:
	case DW_FORM_addrx:
	case DW_FORM_loclistx:
	case DW_FORM_rnglistx:
	case DW_FORM_GNU_addr_index:
	case DW_FORM_GNU_str_index:
		ret->u = sp_cursor_uleb(c);
		break;
	case DW_FORM_block1:
		read_block(c, sp_cursor_u8(c), ret);
		break;
	case DW_FORM_block2:
		read_block(c, sp_cursor_u16(c), ret);
		break;
	case DW_FORM_block4:
		read_block(c, sp_cursor_u32(c), ret);
		break;
	case DW_FORM_block:
	case DW_FORM_exprloc:
		read_block(c, sp_cursor_uleb(c), ret);
		break;
	case DW_FORM_string:
		ret->bytes = (const uint8_t *)sp_cursor_string(c);
		break;
	case DW_FORM_indirect:
		read_indirect(c, unit, ret);
		break;
	default:
		sp_cursor_fail(c);
		break;
	}
}

/* An entry of .debug_str_offsets. */
static const char *indexed_string(const struct dw_unit *unit, uint64_t index)
{
	struct sp_cursor c = sp_cursor_init(unit->str_offsets.bytes, unit->str_offsets.size);
	c.big_endian = unit->file->big_endian;
	if (index > unit->str_offsets.size)
		return NULL;
	sp_cursor_seek(&c, unit->str_offsets_base);
	sp_cursor_skip(&c, index * unit->offset_size);
	uint64_t offset = sp_cursor_uint(&c, unit->offset_size);
	return c.bad ? NULL : dw_section_string(unit->file, DW_STR, offset);
}

const char *dw_value_string(const struct dw_unit *unit, const struct dw_value *value)
{
	switch (value->form) {
	case DW_FORM_string:
		return (const char *)value->bytes;
	case DW_FORM_strp:
		return dw_section_string(unit->file, DW_STR, value->u);
	case DW_FORM_line_strp:
		return dw_section_string(unit->file, DW_LINE_STR, value->u);
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_strp_alt:
		return unit->file->supplementary ? dw_section_string(unit->file->supplementary, DW_STR, value->u)
		                                 : NULL;
	case DW_FORM_strx:
	case DW_FORM_strx1:
	case DW_FORM_strx2:
	case DW_FORM_strx3:
	case DW_FORM_strx4:
	case DW_FORM_GNU_str_index:
		return indexed_string(unit, value->u);
	default:
		return NULL;
	}
}

bool dw_indexed_address(const struct dw_unit *unit, uint64_t index, uint64_t *ret)
{
	const struct dw_unit *holder = unit->skeleton ? unit->skeleton : unit;
	const struct dw_section *section = dw_section(holder->file, DW_ADDR);
	struct sp_cursor c = sp_cursor_init(section->data.bytes, section->data.size);
	c.big_endian = holder->file->big_endian;
	if (index > section->data.size)
		return false;
	sp_cursor_seek(&c, holder->addr_base);
	sp_cursor_skip(&c, index * unit->address_size);
	*ret = sp_cursor_uint(&c, unit->address_size);
	return !c.bad;
}

bool dw_value_is_address(const struct dw_value *value)
{
	switch (value->form) {
	case DW_FORM_addr:
	case DW_FORM_addrx:
	case DW_FORM_addrx1:
	case DW_FORM_addrx2:
	case DW_FORM_addrx3:
	case DW_FORM_addrx4:
	case DW_FORM_GNU_addr_index:
		return true;
	default:
		return false;
	}
}

bool dw_value_address(const struct dw_unit *unit, const struct dw_value *value, uint64_t *ret)
{
	if (!dw_value_is_address(value))
		return false;
	if (value->form != DW_FORM_addr)
		return dw_indexed_address(unit, value->u, ret);
	*ret = value->u;
	return true;
}

/* A DIE by its offset in .debug_info of a file. */
static bool die_at(struct dw_file *file, uint64_t offset, struct dw_die *ret)
{
	ret->unit = file ? dw_unit_containing(file, offset) : NULL;
	if (!ret->unit)
		return false;
	ret->offset = offset - ret->unit->offset;
	return ret->offset >= ret->unit->first_die;
}

bool dw_value_die(const struct dw_unit *unit, const struct dw_value *value, struct dw_die *ret)
{
	switch (value->form) {
	case DW_FORM_ref1:
	case DW_FORM_ref2:
	case DW_FORM_ref4:
	case DW_FORM_ref8:
	case DW_FORM_ref_udata:
		*ret = (struct dw_die){ (struct dw_unit *)unit, value->u };
		return value->u >= unit->first_die && value->u < unit->bytes.size;
	case DW_FORM_ref_addr:
		/* Most lead into the same unit. */
		if (!unit->in_types && value->u >= unit->offset && value->u - unit->offset < unit->bytes.size) {
			*ret = (struct dw_die){ (struct dw_unit *)unit, value->u - unit->offset };
			return ret->offset >= unit->first_die;
		}
		return die_at(unit->file, value->u, ret);
	case DW_FORM_ref_sup4:
	case DW_FORM_ref_sup8:
	case DW_FORM_GNU_ref_alt:
		return die_at(unit->file->supplementary, value->u, ret);
	case DW_FORM_ref_sig8:
		ret->unit = dw_type_unit(unit->file, value->u);
		ret->offset = ret->unit ? ret->unit->type_die : 0;
		return ret->unit;
	default:
		return false;
	}
}
