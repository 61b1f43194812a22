/* Addresses: relative ones to section and offset and back, through OMAP tables where a tool has rearranged the image,
 * and the contributions that say which module a place belongs to. */
#include "symbolication/pdb/internal.h"

#include "symbolication/sort.h"

#include <stdlib.h>
#include <string.h>

/* Places in the optional debug header. */
enum { OMAP_TO_SOURCE = 3, OMAP_FROM_SOURCE = 4, SECTION_HEADERS = 5, SECTION_HEADERS_ORIGINAL = 10 };
enum { SECTION_HEADER = 40, CONTRIBUTION = 28, CONTRIBUTION_V2 = 32, EMPTY_MAX = 64, INSERTED_MAX = 4096 };
enum { CONTRIBUTIONS_V1 = (int)0xf12eba2d, CONTRIBUTIONS_V2 = (int)0xf13151e4 };

static struct sp_error *read_omap(const struct sp_pdb *pdb, uint16_t stream, struct pdb_omap *ret)
{
	uint32_t size = stream == PDB_NO_STREAM ? 0 : msf_size(&pdb->msf, stream);
	size_t count = size / sizeof(struct pdb_omap_entry);
	struct msf_bytes bytes;
	if (!count)
		return NULL;
	struct sp_error *error = msf_load(&pdb->msf, stream, 0, size, &bytes);
	if (error)
		return error;
	ret->entries = malloc(count * sizeof(*ret->entries));
	if (ret->entries) {
		memcpy(ret->entries, bytes.cursor.start, count * sizeof(*ret->entries));
		ret->count = count;
	}
	free(bytes.owned);
	if (!ret->entries)
		return sp_error_no_memory();
	for (size_t i = 1; i < count; i++) {
		if (ret->entries[i].from < ret->entries[i - 1].from)
			return sp_error_create(SP_ERROR_FORMAT, "an OMAP table is not sorted");
	}
	return NULL;
}

static struct sp_error *read_headers(struct sp_pdb *pdb, uint16_t stream)
{
	uint32_t size = stream == PDB_NO_STREAM ? 0 : msf_size(&pdb->msf, stream);
	size_t count = size / SECTION_HEADER;
	if (count > PDB_SECTIONS_MAX)
		return sp_error_create(SP_ERROR_LIMIT, "the PDB lists %zu sections", count);
	pdb->sections = calloc(count + 1, sizeof(*pdb->sections));
	if (!pdb->sections)
		return sp_error_no_memory();
	for (size_t i = 0; i < count; i++) {
		uint8_t header[SECTION_HEADER];
		if (!msf_read(&pdb->msf, stream, i * SECTION_HEADER, header, sizeof(header)))
			break;
		struct sp_cursor c = sp_cursor_init(header, sizeof(header));
		sp_cursor_skip(&c, 8);
		pdb->sections[i].size = sp_cursor_u32(&c);
		pdb->sections[i].address = sp_cursor_u32(&c);
		uint32_t stored = sp_cursor_u32(&c);
		if (stored > pdb->sections[i].size)
			pdb->sections[i].size = stored; /* padding belongs to the section, too */
		sp_cursor_skip(&c, 16);
		pdb->sections[i].executable = sp_cursor_u32(&c) & 0x20000000;
		pdb->section_count = i + 1;
	}
	return NULL;
}

struct sp_error *pdb_read_sections(struct sp_pdb *pdb, const uint16_t *debug_streams, size_t count)
{
	(void)count;
	struct sp_error *error = read_omap(pdb, debug_streams[OMAP_TO_SOURCE], &pdb->to_source);
	if (!error)
		error = read_omap(pdb, debug_streams[OMAP_FROM_SOURCE], &pdb->from_source);
	if (error)
		return error;
	/* Symbols count by the sections that the linker made. */
	bool rearranged = pdb->to_source.count && debug_streams[SECTION_HEADERS_ORIGINAL] != PDB_NO_STREAM;
	error = read_headers(pdb, debug_streams[rearranged ? SECTION_HEADERS_ORIGINAL : SECTION_HEADERS]);
	if (!error && !pdb->section_count && !pdb->note)
		pdb->note = "it has no section headers, without which addresses mean nothing";
	return error;
}

/* The number of entries that begin at or before an address. */
static size_t omap_up_to(const struct pdb_omap *omap, uint32_t address)
{
	size_t low = 0, high = omap->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (omap->entries[middle].from <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Tools write 0, or the top bit, for what has no counterpart. */
static bool is_nowhere(uint32_t to)
{
	return !to || to >> 31;
}

/* An image has less than 2 GB. */
static bool map_address(const struct pdb_omap *omap, uint32_t *address)
{
	size_t number = omap_up_to(omap, *address);
	if (!omap->count)
		return true;
	if (!number || is_nowhere(omap->entries[number - 1].to))
		return false;
	*address = omap->entries[number - 1].to + (*address - omap->entries[number - 1].from);
	return true;
}

/* Code that a tool inserted between two instructions that the linker put side by side belongs to the first one. */
static bool map_inserted(const struct pdb_omap *omap, uint32_t *address)
{
	size_t number = omap_up_to(omap, *address);
	if (number < 2 || number >= omap->count)
		return false;
	const struct pdb_omap_entry *e = &omap->entries[number - 1], *before = e - 1, *behind = e + 1;
	uint32_t size = e->from - before->from;
	if (!is_nowhere(e->to) || is_nowhere(before->to) || !size || before->to + size != behind->to ||
	    behind->from - e->from > INSERTED_MAX)
		return false;
	*address = behind->to - 1;
	return true;
}

bool pdb_place_of(const struct sp_pdb *pdb, uint64_t address, struct pdb_place *ret)
{
	uint32_t source = (uint32_t)address;
	if (address > UINT32_MAX || (!map_address(&pdb->to_source, &source) && !map_inserted(&pdb->to_source, &source)))
		return false;
	for (size_t i = 0; i < pdb->section_count; i++) {
		const struct pdb_section *s = &pdb->sections[i];
		if (source >= s->address && source - s->address < s->size) {
			*ret = (struct pdb_place){ (uint16_t)(i + 1), source - s->address };
			return true;
		}
	}
	return false;
}

bool pdb_address_of(const struct sp_pdb *pdb, uint16_t section, uint32_t offset, uint32_t *ret)
{
	if (!section || section > pdb->section_count || offset > UINT32_MAX - pdb->sections[section - 1].address)
		return false;
	*ret = pdb->sections[section - 1].address + offset;
	return map_address(&pdb->from_source, ret);
}

static struct pdb_contribution parse_contribution(const uint8_t *bytes)
{
	struct sp_cursor c = sp_cursor_init(bytes, CONTRIBUTION);
	struct pdb_contribution contribution = { .section = sp_cursor_u16(&c) };
	sp_cursor_skip(&c, 2);
	contribution.offset = sp_cursor_u32(&c);
	contribution.size = sp_cursor_u32(&c);
	sp_cursor_skip(&c, 4);
	contribution.module = sp_cursor_u16(&c);
	return contribution;
}

bool pdb_contribution_at(const struct sp_pdb *pdb, size_t index, struct pdb_contribution *ret)
{
	if (index >= pdb->contribution_count)
		return false;
	uint8_t buffer[CONTRIBUTION];
	uint64_t at = pdb->contributions + (uint64_t)index * pdb->contribution_size;
	const uint8_t *bytes = msf_view(&pdb->msf, PDB_STREAM_DBI, at, sizeof(buffer));
	if (!bytes) {
		if (!msf_read(&pdb->msf, PDB_STREAM_DBI, at, buffer, sizeof(buffer)))
			return false;
		bytes = buffer;
	}
	*ret = parse_contribution(bytes);
	return true;
}

/* Linkers sort them; what is not sorted gets an order. */
static struct sp_error *check_order(struct sp_pdb *pdb)
{
	uint64_t last = 0;
	bool sorted = true;
	for (size_t i = 0; i < pdb->contribution_count && sorted; i++) {
		struct pdb_contribution c = { 0 };
		sorted = pdb_contribution_at(pdb, i, &c) && pdb_place_key(c.section, c.offset) >= last;
		last = pdb_place_key(c.section, c.offset);
	}
	if (sorted)
		return NULL;
	struct sp_keyed *keys = malloc(pdb->contribution_count * sizeof(*keys));
	pdb->contribution_order = malloc(pdb->contribution_count * sizeof(*pdb->contribution_order));
	bool ok = keys && pdb->contribution_order;
	for (size_t i = 0; ok && i < pdb->contribution_count; i++) {
		struct pdb_contribution c = { 0 };
		pdb_contribution_at(pdb, i, &c);
		keys[i] = (struct sp_keyed){ pdb_place_key(c.section, c.offset), i };
	}
	ok = ok && sp_sort_keyed(keys, pdb->contribution_count);
	for (size_t i = 0; ok && i < pdb->contribution_count; i++)
		pdb->contribution_order[i] = (uint32_t)keys[i].value;
	free(keys);
	pdb->msf.memory += pdb->contribution_count * sizeof(*pdb->contribution_order);
	return ok ? NULL : sp_error_no_memory();
}

struct sp_error *pdb_read_contributions(struct sp_pdb *pdb, uint32_t at, uint32_t size)
{
	uint32_t version;
	if (size < 4 || !msf_read(&pdb->msf, PDB_STREAM_DBI, at, &version, sizeof(version)))
		return NULL;
	if (version != (uint32_t)CONTRIBUTIONS_V1 && version != (uint32_t)CONTRIBUTIONS_V2)
		return sp_error_create(SP_ERROR_UNSUPPORTED, "section contributions of version 0x%x are not known",
		                       version);
	pdb->contributions = at + 4;
	pdb->contribution_size = version == (uint32_t)CONTRIBUTIONS_V1 ? CONTRIBUTION : CONTRIBUTION_V2;
	pdb->contribution_count = (size - 4) / pdb->contribution_size;
	return check_order(pdb);
}

static bool ordered_contribution(const struct sp_pdb *pdb, size_t index, struct pdb_contribution *ret)
{
	return pdb_contribution_at(pdb, pdb->contribution_order ? pdb->contribution_order[index] : index, ret);
}

bool pdb_find_contribution(const struct sp_pdb *pdb, struct pdb_place place, struct pdb_contribution *ret)
{
	uint64_t key = pdb_place_key(place.section, place.offset);
	size_t low = 0, high = pdb->contribution_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (!ordered_contribution(pdb, middle, ret))
			return false;
		if (pdb_place_key(ret->section, ret->offset) <= key)
			low = middle + 1;
		else
			high = middle;
	}
	/* Empty ones may stand at the same place as the one that covers it. */
	for (size_t tries = 0; low && tries < EMPTY_MAX; tries++, low--) {
		if (!ordered_contribution(pdb, low - 1, ret) || ret->section != place.section)
			return false;
		if (place.offset - ret->offset < ret->size)
			return true;
	}
	return false;
}
