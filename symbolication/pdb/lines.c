/* C13 subsections of a module: lines, file checksums, where inlinees begin, cross-module references. */
#include "symbolication/pdb/internal.h"

#include <stdlib.h>
#include <string.h>

enum {
	SUBSECTION_LINES = 0xf2,
	SUBSECTION_CHECKSUMS = 0xf4,
	SUBSECTION_INLINEES = 0xf6,
	SUBSECTION_IMPORTS = 0xf7,
	SUBSECTION_EXPORTS = 0xf8,
};
enum { LINES_HAVE_COLUMNS = 1, LINE_BITS = 24, INLINEES_HAVE_FILES = 1, LINES_TRIED = 16 };
/* Lines that stand for "none": code that the compiler made up. */
enum { LINE_HIDDEN = 0xfeefee, LINE_NEVER_STEP = 0xf00f00 };

struct reader {
	SP_VECTOR(struct pdb_row) rows;
	SP_VECTOR(struct pdb_lines) lines;
	SP_VECTOR(struct pdb_inlinee) inlinees;
};

static uint32_t visible_line(uint32_t line)
{
	return line == LINE_HIDDEN || line == LINE_NEVER_STEP ? 0 : line;
}

/* The rows of one source file: `count` of eight bytes, then as many columns if there are any. */
static bool read_block(struct reader *reader, struct sp_cursor c, uint32_t start, uint32_t file, uint32_t count,
                       bool with_columns)
{
	if (count > sp_cursor_left(&c) / 8)
		count = (uint32_t)(sp_cursor_left(&c) / 8);
	struct sp_cursor columns = c;
	sp_cursor_skip(&columns, (uint64_t)count * 8);
	if (!sp_vector_reserve(&reader->rows, count))
		return false;
	for (uint32_t i = 0; i < count; i++) {
		struct pdb_row row = { .file = file };
		row.offset = start + sp_cursor_u32(&c);
		row.line = visible_line(sp_cursor_u32(&c) & ((1u << LINE_BITS) - 1));
		if (with_columns) {
			row.column = sp_cursor_u16(&columns);
			sp_cursor_skip(&columns, 2);
		}
		reader->rows.items[reader->rows.count++] = row;
	}
	return true;
}

static int compare_rows(const void *a, const void *b)
{
	const struct pdb_row *x = a, *y = b;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Files alternate in a function with inlined code or macros; the rows of all go into one order. */
static void sort_rows(struct pdb_row *rows, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		if (rows[i].offset < rows[i - 1].offset) {
			qsort(rows, count, sizeof(*rows), compare_rows);
			return;
		}
	}
}

static bool read_lines(struct reader *reader, struct sp_cursor c)
{
	uint32_t offset = sp_cursor_u32(&c);
	uint16_t section = sp_cursor_u16(&c), flags = sp_cursor_u16(&c);
	struct pdb_lines lines = { .place = pdb_place_key(section, offset),
		                   .size = sp_cursor_u32(&c),
		                   .first_row = (uint32_t)reader->rows.count };
	while (sp_cursor_left(&c) >= 12) {
		uint32_t file = sp_cursor_u32(&c), count = sp_cursor_u32(&c), size = sp_cursor_u32(&c);
		if (size < 12 || size - 12 > sp_cursor_left(&c))
			break;
		struct sp_cursor block = sp_cursor_init(c.at, size - 12);
		sp_cursor_skip(&c, size - 12);
		if (!read_block(reader, block, offset, file, count, flags & LINES_HAVE_COLUMNS))
			return false;
	}
	lines.row_count = (uint32_t)reader->rows.count - lines.first_row;
	if (!lines.row_count || c.bad)
		return true;
	sort_rows(&reader->rows.items[lines.first_row], lines.row_count);
	return sp_vector_push(&reader->lines, lines);
}

static bool read_inlinees(struct reader *reader, struct sp_cursor c)
{
	bool with_files = sp_cursor_u32(&c) == INLINEES_HAVE_FILES;
	while (sp_cursor_left(&c) >= 12) {
		struct pdb_inlinee inlinee = { .id = sp_cursor_u32(&c) };
		inlinee.file = sp_cursor_u32(&c);
		inlinee.line = sp_cursor_u32(&c);
		if (with_files)
			sp_cursor_skip(&c, (uint64_t)sp_cursor_u32(&c) * 4);
		if (!c.bad && !sp_vector_push(&reader->inlinees, inlinee))
			return false;
	}
	return true;
}

static int compare_lines(const void *a, const void *b)
{
	const struct pdb_lines *x = a, *y = b;
	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	return x->first_row < y->first_row ? -1 : x->first_row > y->first_row;
}

static int compare_inlinees(const void *a, const void *b)
{
	const struct pdb_inlinee *x = a, *y = b;
	return x->id < y->id ? -1 : x->id > y->id;
}

static bool read_subsection(struct reader *reader, struct pdb_module_data *data, uint32_t kind, struct sp_cursor c)
{
	switch (kind) {
	case SUBSECTION_LINES:
		return read_lines(reader, c);
	case SUBSECTION_CHECKSUMS:
		data->checksums = c;
		return true;
	case SUBSECTION_INLINEES:
		return read_inlinees(reader, c);
	case SUBSECTION_IMPORTS:
		data->imports = c;
		return true;
	case SUBSECTION_EXPORTS:
		data->exports = c;
		return true;
	default: /* also those with the top bit set, which are to be ignored */
		return true;
	}
}

struct sp_error *pdb_read_c13(struct sp_pdb *pdb, struct pdb_module_data *data, struct sp_cursor c)
{
	(void)pdb;
	struct reader reader = { 0 };
	bool ok = true;
	while (ok && sp_cursor_left(&c) >= 8) {
		uint32_t kind = sp_cursor_u32(&c), size = sp_cursor_u32(&c);
		if (size > sp_cursor_left(&c))
			break;
		struct sp_cursor part = sp_cursor_init(c.at, size);
		sp_cursor_skip(&c, size);
		size_t padding = -sp_cursor_offset(&c) & 3;
		sp_cursor_skip(&c, padding < sp_cursor_left(&c) ? padding : sp_cursor_left(&c));
		ok = read_subsection(&reader, data, kind, part);
	}
	data->rows = reader.rows.items;
	data->row_count = reader.rows.count;
	data->lines = reader.lines.items;
	data->line_count = reader.lines.count;
	data->inlinees = reader.inlinees.items;
	data->inlinee_count = reader.inlinees.count;
	if (!ok)
		return sp_error_no_memory();
	if (data->line_count)
		qsort(data->lines, data->line_count, sizeof(*data->lines), compare_lines);
	if (data->inlinee_count)
		qsort(data->inlinees, data->inlinee_count, sizeof(*data->inlinees), compare_inlinees);
	return NULL;
}

/* The number of subsections that begin at or before a place. */
static size_t lines_up_to(const struct pdb_module_data *data, uint64_t place)
{
	size_t low = 0, high = data->line_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (data->lines[middle].place <= place)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

size_t pdb_first_lines(const struct pdb_module_data *data, uint64_t place)
{
	size_t low = lines_up_to(data, place);
	return low < LINES_TRIED ? 0 : low - LINES_TRIED;
}

/* The last row of a subsection at or before a place. */
static const struct pdb_row *row_in(const struct pdb_module_data *data, const struct pdb_lines *lines, uint64_t place)
{
	const struct pdb_row *rows = &data->rows[lines->first_row];
	size_t low = 0, high = lines->row_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (rows[middle].offset <= (uint32_t)place)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &rows[low - 1] : NULL;
}

const struct pdb_row *pdb_find_row(const struct pdb_module_data *data, uint64_t place)
{
	size_t low = lines_up_to(data, place);
	for (size_t tries = 0; low && tries < LINES_TRIED; tries++, low--) {
		const struct pdb_lines *lines = &data->lines[low - 1];
		if (place - lines->place >= lines->size)
			continue;
		/* Folded functions may have several tables for the same code: the last one that knows a line. */
		const struct pdb_row *row = row_in(data, lines, place);
		if (row && row->line)
			return row;
	}
	return NULL;
}

struct pdb_inlinee *pdb_find_inlinee(const struct pdb_module_data *data, uint32_t id)
{
	size_t low = 0, high = data->inlinee_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (data->inlinees[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < data->inlinee_count && data->inlinees[low].id == id ? &data->inlinees[low] : NULL;
}

const char *pdb_file_name(struct sp_pdb *pdb, const struct pdb_module_data *data, uint32_t file)
{
	struct sp_cursor c = data->checksums;
	if (!c.start || file > (size_t)(c.end - c.start))
		return NULL;
	c.at = c.start + file;
	uint32_t offset = sp_cursor_u32(&c);
	if (c.bad || offset >= pdb->names_size)
		return NULL;
	pthread_mutex_lock(&pdb->lock);
	const uint64_t *known = sp_map_get(&pdb->files, offset);
	const char *name = known ? (const char *)(uintptr_t)*known : NULL;
	pthread_mutex_unlock(&pdb->lock);
	if (name)
		return name;
	name = pdb_stream_string(pdb, pdb->names_stream, pdb->names_at + offset, pdb->names_at + pdb->names_size);
	if (name) {
		pthread_mutex_lock(&pdb->lock);
		sp_map_put(&pdb->files, offset, (uint64_t)(uintptr_t)name);
		pthread_mutex_unlock(&pdb->lock);
	}
	return name;
}
