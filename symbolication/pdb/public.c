/* Public symbols: the linker's names, decorated. The stream has a table of them in address order, searched in place. */
#include "symbolication/pdb/internal.h"

enum { PUBLICS_HEADER = 28, PUBLIC_FIXED = 10, S_PUB32 = 0x110e };

struct sp_error *pdb_open_publics(struct sp_pdb *pdb)
{
	uint32_t header[2], size = msf_size(&pdb->msf, pdb->public_stream);
	if (!msf_read(&pdb->msf, pdb->public_stream, 0, header, sizeof(header)) || size < PUBLICS_HEADER)
		return NULL;
	if (header[0] > size - PUBLICS_HEADER || header[1] > size - PUBLICS_HEADER - header[0])
		return sp_error_create(SP_ERROR_FORMAT, "the PDB's table of public symbols is past its stream's end");
	pdb->address_map = PUBLICS_HEADER + header[0];
	pdb->address_map_count = header[1] / 4;
	return NULL;
}

/* The fixed part of a public symbol; false when the record is something else. *ret_name: where the name stands. */
static bool read_public(const struct sp_pdb *pdb, uint32_t index, struct pdb_place *ret, uint32_t *ret_name,
                        uint32_t *ret_end)
{
	uint32_t at;
	uint8_t bytes[4 + PUBLIC_FIXED];
	if (index >= pdb->address_map_count ||
	    !msf_read(&pdb->msf, pdb->public_stream, pdb->address_map + (uint64_t)index * 4, &at, sizeof(at)) ||
	    !msf_read(&pdb->msf, pdb->symbol_stream, at, bytes, sizeof(bytes)))
		return false;
	struct sp_cursor c = sp_cursor_init(bytes, sizeof(bytes));
	uint32_t length = sp_cursor_u16(&c);
	if (sp_cursor_u16(&c) != S_PUB32 || length < 2 + PUBLIC_FIXED)
		return false;
	sp_cursor_skip(&c, 4); /* flags */
	ret->offset = sp_cursor_u32(&c);
	ret->section = sp_cursor_u16(&c);
	*ret_name = at + (uint32_t)sizeof(bytes);
	*ret_end = at + 2 + length;
	return *ret_end >= at;
}

bool pdb_public_at(struct sp_pdb *pdb, uint32_t index, struct pdb_public *ret)
{
	struct pdb_place next;
	uint32_t name, end, next_name, next_end;
	if (!read_public(pdb, index, &ret->place, &name, &end))
		return false;
	ret->next = UINT32_MAX;
	/* Several names at one place end where the next place begins. */
	for (uint32_t i = index + 1; i - index < 64 && read_public(pdb, i, &next, &next_name, &next_end); i++) {
		if (next.section != ret->place.section)
			break;
		if (next.offset > ret->place.offset) {
			ret->next = next.offset;
			break;
		}
	}
	uint32_t stream_end = msf_size(&pdb->msf, pdb->symbol_stream);
	ret->name = pdb_stream_string(pdb, pdb->symbol_stream, name, end < stream_end ? end : stream_end);
	return ret->name && ret->name[0];
}

bool pdb_find_public(struct sp_pdb *pdb, struct pdb_place place, struct pdb_public *ret)
{
	uint64_t key = pdb_place_key(place.section, place.offset);
	uint32_t low = 0, high = pdb->address_map_count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2, name, end;
		struct pdb_place at;
		if (!read_public(pdb, middle, &at, &name, &end))
			return false;
		if (pdb_place_key(at.section, at.offset) <= key)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return false;
	/* The first of several names at one place. */
	struct pdb_place found, before;
	uint32_t name, end, index = low - 1;
	if (!read_public(pdb, index, &found, &name, &end) || found.section != place.section)
		return false;
	for (unsigned i = 0; i < 64 && index && read_public(pdb, index - 1, &before, &name, &end); i++) {
		if (before.section != found.section || before.offset != found.offset)
			break;
		index--;
	}
	return pdb_public_at(pdb, index, ret);
}
