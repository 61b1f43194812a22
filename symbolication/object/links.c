/* The sections that name other files: .gnu_debuglink and .gnu_debugaltlink (GDB manual, "Separate Debug Files"; dwz).
 */
#include "symbolication/object/object.h"

#include "symbolication/object/private.h"

#include <string.h>

static bool section_cursor(const struct sp_object *object, const char *name, struct sp_cursor *ret)
{
	const struct sp_section *section = sp_object_find_section(object, name);
	if (!section || section->no_bits || section->compressed)
		return false;
	*ret = sp_object_range(object, section->file_offset, section->size);
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

/* DWARF 5 section 7.3.6: the link in one file, or the counterpart in the file that it names. */
static bool read_debug_sup(const struct sp_object *object, bool counterpart, const char **ret_path,
                           const uint8_t **ret_id, size_t *ret_size)
{
	struct sp_cursor c;
	if (!section_cursor(object, ".debug_sup", &c))
		return false;
	c.big_endian = object->big_endian;
	uint16_t version = sp_cursor_u16(&c);
	bool is_supplementary = sp_cursor_u8(&c);
	*ret_path = sp_cursor_string(&c);
	uint64_t size = sp_cursor_uleb(&c);
	*ret_id = sp_cursor_bytes(&c, size);
	*ret_size = (size_t)size;
	return !c.bad && version == 5 && is_supplementary == counterpart && size;
}

bool sp_object_debug_alt_link(const struct sp_object *object, const char **ret_path, const uint8_t **ret_build_id,
                              size_t *ret_size)
{
	struct sp_cursor c;
	if (!section_cursor(object, ".gnu_debugaltlink", &c))
		return read_debug_sup(object, false, ret_path, ret_build_id, ret_size);
	*ret_path = sp_cursor_string(&c);
	*ret_size = sp_cursor_left(&c);
	*ret_build_id = sp_cursor_bytes(&c, *ret_size);
	return !c.bad && (*ret_path)[0] && *ret_size;
}

bool sp_object_is_supplementary(const struct sp_object *object, const uint8_t *id, size_t size)
{
	const char *path;
	const uint8_t *own;
	size_t own_size;
	if (object->build_id_size == size && memcmp(object->build_id, id, size) == 0)
		return true;
	return read_debug_sup(object, true, &path, &own, &own_size) && own_size == size && memcmp(own, id, size) == 0;
}
