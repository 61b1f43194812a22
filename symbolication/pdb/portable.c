/* Portable PDBs: metadata in the form of ECMA-335 with the tables of "Portable PDB v1.0: Format Specification". */
#include "symbolication/pdb/portable.h"

#include "common/cursor.h"
#include "common/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	SIGNATURE = 0x424a5342, /* "BSJB" */
	STREAMS_MAX = 64,
	TABLE_DOCUMENT = 0x30,
	TABLE_METHOD = 0x31,
	HEAP_GUID_LARGE = 2,
	HEAP_BLOB_LARGE = 4,
	NAME_MAX_SIZE = 65536,
};

struct sp_portable_pdb {
	struct spsym_file_info info;
	struct sp_cursor blobs;              /* the #Blob heap */
	struct sp_cursor documents, methods; /* rows of those tables */
	uint32_t document_count, method_count;
	unsigned document_size, method_size;       /* bytes of a row */
	unsigned blob_size, guid_size, index_size; /* bytes of references */
};

bool sp_portable_pdb_probe(const uint8_t *bytes, size_t size)
{
	return size >= 4 && memcmp(bytes, "BSJB", 4) == 0;
}

/* A number of one, two or four bytes, the length in its top bits. */
static uint32_t compressed(struct sp_cursor *c)
{
	uint32_t first = sp_cursor_u8(c);
	if (!(first & 0x80))
		return first;
	if (!(first & 0x40))
		return (first & 0x3f) << 8 | sp_cursor_u8(c);
	if (first & 0x20) {
		sp_cursor_fail(c);
		return 0;
	}
	c->big_endian = true;
	uint32_t high = (first & 0x1f) << 24, middle = (uint32_t)sp_cursor_u8(c) << 16;
	uint32_t low = sp_cursor_u16(c);
	c->big_endian = false;
	return high | middle | low;
}

/* The sign was rotated into the lowest bit, in the width of the number. */
static int32_t compressed_signed(struct sp_cursor *c)
{
	const uint8_t *start = c->at;
	uint32_t value = compressed(c);
	unsigned bits = c->at - start == 1 ? 6 : c->at - start == 2 ? 13 : 28;
	return value & 1 ? (int32_t)(value >> 1) - (int32_t)(1u << bits) : (int32_t)(value >> 1);
}

/* A blob of the heap: its length, its bytes. */
static struct sp_cursor blob(const struct sp_portable_pdb *pdb, uint32_t offset)
{
	struct sp_cursor c = pdb->blobs;
	sp_cursor_seek(&c, offset);
	uint32_t size = compressed(&c);
	return sp_cursor_sub(&c, sp_cursor_offset(&c), c.bad ? UINT64_MAX : size);
}

static struct sp_cursor row(struct sp_cursor table, unsigned row_size, uint32_t number)
{
	return sp_cursor_sub(&table, (uint64_t)(number - 1) * row_size, row_size);
}

/* The tables: which there are, how many rows each has, then all rows. */
static struct sp_error *read_tables(struct sp_portable_pdb *pdb, struct sp_cursor c)
{
	sp_cursor_skip(&c, 6);
	uint8_t heaps = sp_cursor_u8(&c);
	sp_cursor_skip(&c, 1);
	uint64_t valid = sp_cursor_u64(&c);
	sp_cursor_skip(&c, 8);
	if (valid & ((UINT64_C(1) << TABLE_DOCUMENT) - 1))
		return sp_error_create(SP_ERROR_UNSUPPORTED, "metadata of an assembly, not of its debug information");
	for (unsigned i = TABLE_DOCUMENT; i < 64; i++) {
		if (!(valid >> i & 1))
			continue;
		uint32_t rows = sp_cursor_u32(&c);
		if (i == TABLE_DOCUMENT)
			pdb->document_count = rows;
		else if (i == TABLE_METHOD)
			pdb->method_count = rows;
	}
	pdb->blob_size = heaps & HEAP_BLOB_LARGE ? 4 : 2;
	pdb->guid_size = heaps & HEAP_GUID_LARGE ? 4 : 2;
	pdb->index_size = pdb->document_count > 0xffff ? 4 : 2;
	pdb->document_size = 2 * (pdb->blob_size + pdb->guid_size);
	pdb->method_size = pdb->index_size + pdb->blob_size;
	uint64_t at = sp_cursor_offset(&c), size = (uint64_t)pdb->document_count * pdb->document_size;
	pdb->documents = sp_cursor_sub(&c, at, size);
	pdb->methods = sp_cursor_sub(&c, at + size, (uint64_t)pdb->method_count * pdb->method_size);
	if (c.bad || pdb->documents.bad || pdb->methods.bad)
		return sp_error_create(SP_ERROR_FORMAT, "the tables are cut off");
	return NULL;
}

static struct sp_error *read_streams(struct sp_portable_pdb *pdb, struct sp_cursor file)
{
	struct sp_cursor c = file, tables = { .bad = true };
	sp_cursor_skip(&c, 12);
	sp_cursor_skip(&c, sp_cursor_u32(&c));
	sp_cursor_skip(&c, 2);
	unsigned count = sp_cursor_u16(&c);
	for (unsigned i = 0; i < count && i < STREAMS_MAX; i++) {
		uint32_t offset = sp_cursor_u32(&c), size = sp_cursor_u32(&c);
		size_t start = sp_cursor_offset(&c);
		const char *name = sp_cursor_string(&c);
		sp_cursor_skip(&c, -(sp_cursor_offset(&c) - start) & 3);
		struct sp_cursor stream = sp_cursor_sub(&file, offset, size);
		if (c.bad || stream.bad)
			return sp_error_create(SP_ERROR_FORMAT, "stream %u is past the end", i);
		if (strcmp(name, "#Pdb") == 0 && size >= 20) {
			spsym_debug_id_from_build_id(stream.start, 16, false, pdb->info.debug_id);
			memcpy(pdb->info.debug_id + 32, "1", 2);
		} else if (strcmp(name, "#~") == 0) {
			tables = stream;
		} else if (strcmp(name, "#Blob") == 0) {
			pdb->blobs = stream;
		}
	}
	if (tables.bad || !pdb->info.debug_id[0])
		return sp_error_create(SP_ERROR_UNSUPPORTED, "metadata without debug information");
	return read_tables(pdb, tables);
}

struct sp_error *sp_portable_pdb_open(const uint8_t *bytes, size_t size, const char *name, struct sp_portable_pdb **ret)
{
	struct sp_portable_pdb *pdb = calloc(1, sizeof(*pdb));
	if (!pdb)
		return sp_error_no_memory();
	pdb->info.kind = SPSYM_KIND_PORTABLE_PDB;
	pdb->blobs = sp_cursor_init(NULL, 0);
	struct sp_cursor file = sp_cursor_init(bytes, size);
	struct sp_error *error = read_streams(pdb, file);
	if (error) {
		free(pdb);
		return sp_error_prefix(error, "cannot read %s", name);
	}
	*ret = pdb;
	return NULL;
}

void sp_portable_pdb_destroy(struct sp_portable_pdb *pdb)
{
	free(pdb);
}

const struct spsym_file_info *sp_portable_pdb_info(const struct sp_portable_pdb *pdb)
{
	return &pdb->info;
}

uint32_t sp_portable_pdb_method_count(const struct sp_portable_pdb *pdb)
{
	return pdb->method_count;
}

/* A document's name: a separator, then blobs with its parts. */
static struct sp_error *document_name(const struct sp_portable_pdb *pdb, uint32_t document, char **ret)
{
	*ret = NULL;
	if (!document || document > pdb->document_count)
		return NULL;
	struct sp_cursor entry = row(pdb->documents, pdb->document_size, document);
	struct sp_cursor name = blob(pdb, (uint32_t)sp_cursor_uint(&entry, pdb->blob_size));
	struct sp_buffer out = { 0 };
	char separator = (char)sp_cursor_u8(&name);
	struct sp_error *error = NULL;
	for (bool first = true; sp_cursor_left(&name) && !error && out.size < NAME_MAX_SIZE; first = false) {
		struct sp_cursor part = blob(pdb, compressed(&name));
		if (!first && separator)
			error = sp_buffer_write(&out, &separator, 1);
		if (!error && !part.bad)
			error = sp_buffer_write(&out, (const char *)part.start, sp_cursor_left(&part));
	}
	if (!error)
		error = sp_buffer_write(&out, "", 1);
	if (error) {
		free(out.bytes);
		return error;
	}
	*ret = out.bytes;
	return NULL;
}

/* Where the reading of a method's sequence points is. */
struct point {
	uint32_t il_offset, document;
	int64_t line, column;
	bool hidden;
};

/* Reads the next point; false at the end. `state` holds the values that the deltas count from. */
static bool next_point(struct sp_cursor *c, struct point *state, bool *first, bool *any_visible)
{
	while (sp_cursor_left(c)) {
		uint32_t delta = compressed(c);
		if (!delta && !*first) {
			state->document = compressed(c);
			continue;
		}
		*first = false;
		state->il_offset += delta;
		uint32_t lines = compressed(c);
		int32_t columns = lines ? compressed_signed(c) : (int32_t)compressed(c);
		state->hidden = !lines && !columns;
		if (!state->hidden) {
			state->line += *any_visible ? compressed_signed(c) : (int64_t)compressed(c);
			state->column += *any_visible ? compressed_signed(c) : (int64_t)compressed(c);
			*any_visible = true;
		}
		return !c->bad;
	}
	return false;
}

struct sp_error *sp_portable_pdb_find(const struct sp_portable_pdb *pdb, uint32_t method, uint32_t il_offset,
                                      struct sp_portable_place *ret)
{
	if (!method || method > pdb->method_count)
		return sp_error_create(SP_ERROR_NOT_FOUND, "there is no method %u", method);
	struct sp_cursor entry = row(pdb->methods, pdb->method_size, method);
	struct point state = { .document = (uint32_t)sp_cursor_uint(&entry, pdb->index_size) },
	             found = { .hidden = true };
	uint32_t at = (uint32_t)sp_cursor_uint(&entry, pdb->blob_size);
	if (at) {
		struct sp_cursor c = blob(pdb, at);
		bool first = true, any_visible = false;
		(void)compressed(&c); /* signature of the local variables */
		if (!state.document)
			state.document = compressed(&c);
		while (next_point(&c, &state, &first, &any_visible) && state.il_offset <= il_offset)
			found = state;
	}
	if (found.hidden || found.line <= 0 || found.line > UINT32_MAX)
		return sp_error_create(SP_ERROR_NOT_FOUND, "method %u has no place in the source at 0x%x", method,
		                       il_offset);
	*ret = (struct sp_portable_place){ .il_offset = found.il_offset,
		                           .line = (uint32_t)found.line,
		                           .column = found.column > 0 ? (uint32_t)found.column : 0 };
	return document_name(pdb, found.document, &ret->file);
}
