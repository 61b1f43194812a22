/* Function ranges from .eh_frame: what is known of code without symbols.
 *
 * Only the addresses are read, not the unwind instructions. Format: Linux Standard Base, "Exception Frames". */
#include "common/vector.h"
#include "symbolication/object/private.h"

#include <string.h>

enum {
	DW_EH_PE_omit = 0xff,
	DW_EH_PE_pcrel = 0x10,
	AUGMENTATION_LIMIT = 16, /* real ones have up to 5 letters */
};

struct reader {
	struct sp_cursor section;
	uint64_t address; /* svma of the section */
	unsigned address_size;
};

/* A pointer's value as stored; false for an encoding that needs more than the section (indirect, other bases). */
static bool read_encoded(const struct reader *reader, struct sp_cursor *c, uint8_t encoding, uint64_t *ret)
{
	uint64_t at = reader->address + (uint64_t)(c->at - reader->section.start);
	switch (encoding & 0x0f) {
	case 0x00:
		*ret = sp_cursor_uint(c, reader->address_size);
		break;
	case 0x01:
		*ret = sp_cursor_uleb(c);
		break;
	case 0x02:
		*ret = sp_cursor_u16(c);
		break;
	case 0x03:
		*ret = sp_cursor_u32(c);
		break;
	case 0x04:
	case 0x0c:
		*ret = sp_cursor_u64(c);
		break;
	case 0x09:
		*ret = (uint64_t)sp_cursor_sleb(c);
		break;
	case 0x0a:
		*ret = (uint64_t)(int16_t)sp_cursor_u16(c);
		break;
	case 0x0b:
		*ret = (uint64_t)(int32_t)sp_cursor_u32(c);
		break;
	default:
		return false;
	}
	if ((encoding & 0xf0) == DW_EH_PE_pcrel)
		*ret += at;
	else if (encoding & 0xf0)
		return false;
	if (reader->address_size == 4)
		*ret &= UINT32_MAX;
	return !c->bad;
}

/* The pointer encoding that a CIE gives its FDEs; false when the CIE is not understood. */
static bool cie_encoding(const struct reader *reader, struct sp_cursor c, uint8_t *ret)
{
	uint8_t version = sp_cursor_u8(&c);
	struct sp_cursor head = sp_cursor_sub(&c, sp_cursor_offset(&c),
	                                      sp_cursor_left(&c) < AUGMENTATION_LIMIT ? sp_cursor_left(&c)
	                                                                              : AUGMENTATION_LIMIT);
	const char *augmentation = sp_cursor_string(&head);
	if (head.bad)
		return false;
	sp_cursor_skip(&c, strlen(augmentation) + 1);
	*ret = 0;
	if (augmentation[0] != 'z')
		return augmentation[0] == 0;
	(void)sp_cursor_uleb(&c); /* code alignment */
	(void)sp_cursor_sleb(&c); /* data alignment */
	if (version == 1)
		(void)sp_cursor_u8(&c);
	else
		(void)sp_cursor_uleb(&c);
	(void)sp_cursor_uleb(&c); /* augmentation size */
	for (const char *letter = augmentation + 1; *letter && !c.bad; letter++) {
		uint64_t ignored;
		uint8_t encoding;
		switch (*letter) {
		case 'R':
			*ret = sp_cursor_u8(&c);
			return !c.bad;
		case 'L':
			(void)sp_cursor_u8(&c);
			break;
		case 'P':
			encoding = sp_cursor_u8(&c) & 0x0f;
			if (!read_encoded(reader, &c, encoding, &ignored))
				return false;
			break;
		default: /* S, B, G: no data */
			break;
		}
	}
	return !c.bad;
}

/* One entry of the section: its bytes behind the ID, and the ID (0 for a CIE). False at the end. */
static bool next_entry(struct sp_cursor *section, struct sp_cursor *entry, uint32_t *id, uint64_t *id_at)
{
	if (sp_cursor_left(section) < 4)
		return false;
	uint64_t length = sp_cursor_u32(section);
	if (length == 0xffffffff)
		length = sp_cursor_u64(section);
	if (section->bad || length < 4 || length > sp_cursor_left(section))
		return false;
	*id_at = sp_cursor_offset(section);
	*entry = sp_cursor_sub(section, *id_at, length);
	sp_cursor_skip(section, length);
	*id = sp_cursor_u32(entry);
	return true;
}

typedef SP_VECTOR(struct sp_function_range) range_vector;

static bool collect(const struct reader *reader, range_vector *ranges)
{
	struct sp_cursor section = reader->section, entry;
	uint64_t known_cie = UINT64_MAX, id_at;
	uint8_t encoding = 0;
	bool understood = false;
	uint32_t id;
	while (next_entry(&section, &entry, &id, &id_at)) {
		if (id == 0 || id > id_at)
			continue;
		if (id_at - id != known_cie) {
			known_cie = id_at - id;
			struct sp_cursor c = reader->section, cie;
			uint32_t cie_id;
			uint64_t ignored;
			sp_cursor_seek(&c, known_cie);
			understood = next_entry(&c, &cie, &cie_id, &ignored) && cie_id == 0;
			/* The cursor of the entry starts at its ID. */
			struct sp_cursor body = reader->section;
			if (understood) {
				body.at = cie.at;
				body.end = cie.end;
				understood = cie_encoding(reader, body, &encoding);
			}
		}
		struct sp_cursor body = reader->section;
		body.at = entry.at;
		body.end = entry.end;
		struct sp_function_range range;
		if (!understood || encoding == DW_EH_PE_omit ||
		    !read_encoded(reader, &body, encoding, &range.address) ||
		    !read_encoded(reader, &body, encoding & 0x0f, &range.size) || !range.size)
			continue;
		if (!sp_vector_push(ranges, range))
			return false;
	}
	return true;
}

struct sp_error *sp_eh_frame_functions(struct sp_object *object, struct sp_function_range **ret, size_t *ret_count)
{
	*ret = NULL;
	*ret_count = 0;
	const struct sp_section *section = sp_object_find_section(object, ".eh_frame");
	if (!section || section->no_bits)
		return NULL;
	const uint8_t *bytes;
	size_t size;
	struct sp_error *error = sp_object_section_bytes(object, section, &bytes, &size);
	if (error)
		return error;
	struct reader reader = { sp_cursor_init(bytes, size), section->address, object->address_size };
	reader.section.big_endian = object->big_endian;
	range_vector ranges = { 0 };
	if (!collect(&reader, &ranges)) {
		sp_vector_deinit(&ranges);
		return sp_error_no_memory();
	}
	*ret = ranges.items;
	*ret_count = ranges.count;
	return NULL;
}
