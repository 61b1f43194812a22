/* Inline sites: each S_INLINESITE record holds a small program that says which code came from the inlined function, and
 * from which lines of it. Lines count from where the function begins, code from the start of the procedure.
 *
 * The operations are those of CodeView's binary annotations (microsoft-pdb, cvinfo.h, CodeViewInfo). */
#include "symbolication/pdb/internal.h"

#include <stdlib.h>

enum {
	S_END = 0x0006,
	S_THUNK32 = 0x1102,
	S_BLOCK32 = 0x1103,
	S_SEPCODE = 0x1132,
	S_LPROC32 = 0x110f,
	S_GPROC32 = 0x1110,
	S_LPROC32_ID = 0x1146,
	S_GPROC32_ID = 0x1147,
	S_INLINESITE = 0x114d,
	S_INLINESITE_END = 0x114e,
	S_PROC_ID_END = 0x114f,
	S_LPROC32_DPC = 0x1155,
	S_LPROC32_DPC_ID = 0x1156,
	S_INLINESITE2 = 0x115d,
};

enum annotation {
	CODE_OFFSET = 1,
	CODE_OFFSET_BASE,
	CODE_DELTA,
	CODE_LENGTH,
	FILE_ID,
	LINE_DELTA,
	LINE_END_DELTA,
	RANGE_KIND,
	COLUMN_START,
	COLUMN_END_DELTA,
	CODE_AND_LINE_DELTA,
	CODE_LENGTH_AND_DELTA,
	COLUMN_END,
};

typedef SP_VECTOR(struct pdb_inline_site) site_vector;
typedef SP_VECTOR(struct pdb_inline_range) range_vector;

/* A number of one, two or four bytes, the length in its top bits. */
static uint32_t compressed(struct sp_cursor *c)
{
	uint32_t b = sp_cursor_u8(c);
	if (!(b & 0x80))
		return b;
	if (!(b & 0x40))
		return (b & 0x3f) << 8 | sp_cursor_u8(c);
	if (b & 0x20) {
		sp_cursor_fail(c);
		return 0;
	}
	uint32_t high = (b & 0x1f) << 24;
	uint32_t middle = (uint32_t)sp_cursor_u8(c) << 16;
	uint32_t low = (uint32_t)sp_cursor_u8(c) << 8;
	return high | middle | low | sp_cursor_u8(c);
}

/* The sign is in the lowest bit. */
static uint32_t sign(uint32_t value)
{
	return value & 1 ? 0u - (value >> 1) : value >> 1;
}

/* The state of one program. */
struct program {
	uint32_t base, offset; /* code */
	uint32_t file, line, column;
	uint32_t length; /* of the range that comes next, where it was said beforehand; 0 = not said */
	bool open;       /* the last range has no end yet */
};

static bool emit(struct program *p, range_vector *ranges, size_t first)
{
	uint32_t start = p->base + p->offset;
	if (p->open && ranges->count > first) {
		struct pdb_inline_range *last = &ranges->items[ranges->count - 1];
		last->end = start > last->start ? start : last->start;
	}
	struct pdb_inline_range range = { start, start + p->length, p->file, p->line, p->column };
	p->open = !p->length;
	p->length = 0;
	return sp_vector_push(ranges, range);
}

/* One operation; false without memory. */
static bool step(struct program *p, enum annotation operation, struct sp_cursor *c, range_vector *ranges, size_t first)
{
	uint32_t value = compressed(c), second;
	switch (operation) {
	case CODE_OFFSET:
		p->offset = value;
		return true;
	case CODE_OFFSET_BASE:
		p->base = value;
		return true;
	case CODE_DELTA:
		p->offset += value;
		return emit(p, ranges, first);
	case CODE_LENGTH:
		if (p->open && ranges->count > first) {
			ranges->items[ranges->count - 1].end = ranges->items[ranges->count - 1].start + value;
			p->open = false;
		}
		p->offset += value;
		return true;
	case FILE_ID:
		p->file = value;
		return true;
	case LINE_DELTA:
		p->line += sign(value);
		return true;
	case COLUMN_START:
		p->column = value;
		return true;
	case CODE_AND_LINE_DELTA:
		p->offset += value & 0xf;
		p->line += sign(value >> 4);
		return emit(p, ranges, first);
	case CODE_LENGTH_AND_DELTA:
		second = compressed(c);
		p->length = value;
		p->offset += second;
		return emit(p, ranges, first);
	default: /* ends of lines and columns, kinds of ranges */
		return true;
	}
}

static int compare_ranges(const void *a, const void *b)
{
	const struct pdb_inline_range *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* Runs a site's program; what is malformed ends it. Takes out empty ranges and sorts the rest. */
static bool run(const struct pdb_inlinee *inlinee, struct sp_cursor c, range_vector *ranges,
                struct pdb_inline_site *site)
{
	struct program p = { .file = inlinee ? inlinee->file : UINT32_MAX, .line = inlinee ? inlinee->line : 0 };
	size_t first = ranges->count, kept = first;
	while (sp_cursor_left(&c)) {
		uint32_t operation = compressed(&c);
		if (c.bad || operation < CODE_OFFSET || operation > COLUMN_END)
			break; /* 0: padding */
		if (!step(&p, (enum annotation)operation, &c, ranges, first))
			return false;
	}
	bool sorted = true;
	for (size_t i = first; i < ranges->count; i++) {
		struct pdb_inline_range range = ranges->items[i];
		if (range.end <= range.start)
			continue;
		sorted &= kept == first || ranges->items[kept - 1].start <= range.start;
		site->low = range.start < site->low ? range.start : site->low;
		site->high = range.end > site->high ? range.end : site->high;
		ranges->items[kept++] = range;
	}
	ranges->count = kept;
	site->first_range = (uint32_t)first;
	site->range_count = (uint32_t)(kept - first);
	if (!sorted)
		qsort(&ranges->items[first], kept - first, sizeof(*ranges->items), compare_ranges);
	return true;
}

/* Reads one record of a site and runs it; false without memory. */
static bool add_site(const struct pdb_module_data *data, struct sp_cursor c, uint16_t kind, site_vector *sites,
                     range_vector *ranges)
{
	struct pdb_inline_site site = { .low = UINT32_MAX };
	sp_cursor_skip(&c, 8); /* parent, end */
	site.inlinee = sp_cursor_u32(&c);
	if (kind == S_INLINESITE2)
		sp_cursor_skip(&c, 4); /* how often it was called */
	return run(pdb_find_inlinee(data, site.inlinee), c, ranges, &site) && sp_vector_push(sites, site);
}

static bool opens_scope(uint16_t kind)
{
	return kind == S_BLOCK32 || kind == S_INLINESITE || kind == S_INLINESITE2;
}

static bool closes_scope(uint16_t kind)
{
	return kind == S_END || kind == S_INLINESITE_END || kind == S_PROC_ID_END;
}

static bool begins_code(uint16_t kind)
{
	return kind == S_LPROC32 || kind == S_GPROC32 || kind == S_LPROC32_ID || kind == S_GPROC32_ID ||
	       kind == S_LPROC32_DPC || kind == S_LPROC32_DPC_ID || kind == S_THUNK32 || kind == S_SEPCODE;
}

/* Ends the innermost scope. A site's reach takes in that of the sites inside it: a callee's code outside of its
 * caller's is the caller's, too. */
static void close_scope(uint32_t scope, uint32_t parent, site_vector *sites)
{
	struct pdb_inline_site *site = &sites->items[scope];
	site->next = (uint32_t)sites->count;
	if (parent != UINT32_MAX) {
		struct pdb_inline_site *outer = &sites->items[parent];
		outer->low = site->low < outer->low ? site->low : outer->low;
		outer->high = site->high > outer->high ? site->high : outer->high;
	}
}

/* Open scopes, innermost last: the site's index, or that of the site around a block. */
struct scopes {
	uint32_t site[PDB_INLINE_DEPTH_MAX];
	bool is_site[PDB_INLINE_DEPTH_MAX];
	unsigned depth;
};

static void leave_scope(struct scopes *scopes, site_vector *sites)
{
	unsigned top = --scopes->depth;
	if (scopes->is_site[top])
		close_scope(scopes->site[top], top ? scopes->site[top - 1] : UINT32_MAX, sites);
}

/* Walks the records behind a procedure's to its end. */
static bool collect(const struct pdb_module_data *data, uint32_t record, site_vector *sites, range_vector *ranges)
{
	struct scopes scopes = { .depth = 0 };
	struct sp_cursor c = data->bytes.cursor;
	c.end = c.start + data->symbols_end;
	sp_cursor_seek(&c, record);
	sp_cursor_skip(&c, sp_cursor_u16(&c));
	while (sp_cursor_left(&c) >= 4) {
		uint16_t length = sp_cursor_u16(&c), kind = sp_cursor_u16(&c);
		if (length < 2 || length - 2u > sp_cursor_left(&c) || begins_code(kind))
			break;
		struct sp_cursor body = sp_cursor_init(c.at, length - 2u);
		sp_cursor_skip(&c, length - 2u);
		if (closes_scope(kind)) {
			if (!scopes.depth)
				break;
			leave_scope(&scopes, sites);
		} else if (opens_scope(kind)) {
			if (scopes.depth == PDB_INLINE_DEPTH_MAX)
				break;
			bool is_site = kind != S_BLOCK32;
			if (is_site && !add_site(data, body, kind, sites, ranges))
				return false;
			scopes.is_site[scopes.depth] = is_site;
			scopes.site[scopes.depth] = is_site        ? (uint32_t)sites->count - 1
			                            : scopes.depth ? scopes.site[scopes.depth - 1]
			                                           : UINT32_MAX;
			scopes.depth++;
		}
	}
	while (scopes.depth)
		leave_scope(&scopes, sites);
	return true;
}

const struct pdb_inlines *pdb_need_inlines(struct sp_pdb *pdb, const struct pdb_module_data *data,
                                           struct pdb_procedure *procedure, bool *ret_no_memory)
{
	struct pdb_inlines *known = atomic_load_explicit(&procedure->inlines, memory_order_acquire);
	if (known)
		return known->site_count ? known : NULL;
	site_vector sites = { 0 };
	range_vector ranges = { 0 };
	struct pdb_inlines *made = calloc(1, sizeof(*made));
	if (!made || (!procedure->thunk && !collect(data, procedure->record, &sites, &ranges))) {
		sp_vector_deinit(&sites);
		sp_vector_deinit(&ranges);
		free(made);
		*ret_no_memory = true;
		return NULL;
	}
	*made = (struct pdb_inlines){ sites.items, ranges.items, (uint32_t)sites.count, (uint32_t)ranges.count };
	struct pdb_inlines *other = NULL;
	if (!atomic_compare_exchange_strong(&procedure->inlines, &other, made)) {
		free(made->sites); /* another thread was faster */
		free(made->ranges);
		free(made);
		made = other;
	} else {
		atomic_fetch_add(&pdb->memory, sizeof(*made) + sites.capacity * sizeof(*sites.items) +
		                                   ranges.capacity * sizeof(*ranges.items));
	}
	return made->site_count ? made : NULL;
}
