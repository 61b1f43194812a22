/* The sections that name other files: .gnu_debuglink and .gnu_debugaltlink (GDB manual, "Separate Debug Files"; dwz).
 */
#include "symbolication/object/object.h"

#include "symbolication/object/private.h"

static bool section_cursor(const struct sp_object *object, const char *name, struct sp_cursor *ret)
{
	const struct sp_section *section = sp_object_find_section(object, name);
	if (!section || section->no_bits || section->compressed)
		return false;
	*ret = sp_cursor_sub(&object->file, section->file_offset, section->size);
	return !ret->bad;
}

bool sp_object_debug_link(const struct sp_object *object, struct sp_debug_link *ret)
{
	struct sp_cursor c;
	if (!section_cursor(object, ".gnu_debuglink", &c))
		return false;
	ret->name = sp_cursor_string(&c);
	sp_cursor_skip(&c, -sp_cursor_offset(&c) & 3);
	ret->crc = sp_cursor_u32(&c);
	return !c.bad && ret->name[0];
}

bool sp_object_debug_alt_link(const struct sp_object *object, const char **ret_path, const uint8_t **ret_build_id,
                              size_t *ret_size)
{
	struct sp_cursor c;
	if (!section_cursor(object, ".gnu_debugaltlink", &c))
		return false;
	*ret_path = sp_cursor_string(&c);
	*ret_size = sp_cursor_left(&c);
	*ret_build_id = sp_cursor_bytes(&c, *ret_size);
	return !c.bad && (*ret_path)[0] && *ret_size;
}
