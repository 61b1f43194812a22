/* Line programs (.debug_line): which row of source covers an address.
 *
 * The program is run once. Of its rows we keep what a look-up can see: of several rows at one address the last, and
 * none that says the same as the row before it. A row is then 12 bytes: its distance from the sequence's start, and
 * line, file and column packed in 64 bits. The rare row whose numbers do not fit has all ones as its line, and the
 * index of an entry in `wide` in the other bits. */
#include "internal.h"

#include <stdlib.h>

#define LINE_BITS 24
#define FILE_BITS 20
#define COLUMN_BITS 20
#define MAX_OF(bits) (((uint64_t)1 << (bits)) - 1)
#define WIDE MAX_OF(LINE_BITS)
#define BYTES_A_ROW 16 /* of a program, for a row that is kept, at least */

struct header {
	uint64_t end;                 /* of the program */
	uint64_t file_table, program; /* offsets */
	uint8_t version, offset_size, address_size;
	uint8_t min_length, max_operations, line_range, opcode_base;
	int8_t line_base;
	const uint8_t *lengths; /* of the standard opcodes; [0] is for opcode 1 */
};

/* Registers of the state machine. */
struct state {
	uint64_t address;
	uint32_t operation, file, line, column;
	bool dead;      /* the address is one of dropped code */
	uint64_t place; /* file and column packed, without the line; WIDE_PLACE when they do not fit */
};

#define WIDE_PLACE UINT64_MAX

struct row {
	uint64_t address;
	struct dw_place place;
	uint32_t order;
};

/* What is being made. */
struct builder {
	struct dw_lines *lines;
	const struct dw_file *code; /* file that has the code */
	SP_VECTOR(uint32_t) deltas;
	SP_VECTOR(uint64_t) places;
	SP_VECTOR(struct dw_place) wide;
	SP_VECTOR(struct dw_sequence) sequences;
	SP_VECTOR(struct dw_line_file) files;
	SP_VECTOR(const char *) folders;
	/* The sequence at hand. */
	bool begun;
	uint64_t start, address; /* of the first row, of the pending row */
	uint64_t pending;        /* packed */
	size_t first;
	bool backwards; /* a row's address is below the one before: the sequence is read again into `rows` */
	bool collect;
	SP_VECTOR(struct row) rows;
	bool discriminators; /* they stand in the place of columns */
	bool no_memory;
};

/* ---- Rows ---- */

static uint64_t pack_wide(struct builder *b, const struct dw_place *place)
{
	/* Equal rows in a row are one. */
	const struct dw_place *last = b->wide.count ? &b->wide.items[b->wide.count - 1] : NULL;
	bool same = last && last->file == place->file && last->line == place->line && last->column == place->column;
	if (!same && !sp_vector_push(&b->wide, *place)) {
		b->no_memory = true;
		return 0;
	}
	return WIDE << (FILE_BITS + COLUMN_BITS) | (b->wide.count - 1);
}

static uint64_t pack_rest(uint32_t file, uint32_t column)
{
	if (file > MAX_OF(FILE_BITS) || column > MAX_OF(COLUMN_BITS))
		return WIDE_PLACE;
	return (uint64_t)file << COLUMN_BITS | column;
}

void dw_lines_unpack(const struct dw_lines *lines, uint64_t packed, struct dw_place *ret)
{
	if (packed >> (FILE_BITS + COLUMN_BITS) == WIDE) {
		*ret = lines->wide[packed & MAX_OF(FILE_BITS + COLUMN_BITS)];
		return;
	}
	ret->line = (uint32_t)(packed >> (FILE_BITS + COLUMN_BITS));
	ret->file = (uint32_t)(packed >> COLUMN_BITS & MAX_OF(FILE_BITS));
	ret->column = (uint32_t)(packed & MAX_OF(COLUMN_BITS));
}

/* Keeps the pending row unless it says nothing new. */
static void flush(struct builder *b)
{
	uint64_t delta = b->address - b->start;
	if (delta > UINT32_MAX || (b->places.count > b->first && b->places.items[b->places.count - 1] == b->pending))
		return;
	if (!sp_vector_push(&b->deltas, (uint32_t)delta) || !sp_vector_push(&b->places, b->pending))
		b->no_memory = true;
}

static inline void add_row(struct builder *b, uint64_t address, uint64_t packed)
{
	if (!b->begun) {
		b->begun = true;
		b->start = address;
		b->first = b->places.count;
	} else if (address > b->address) {
		flush(b);
	} else if (address < b->address) {
		b->backwards = true;
		return;
	}
	b->address = address;
	b->pending = packed;
}

/* Takes a row; true when the sequence can't be read on. */
static inline bool emit(struct builder *b, const struct state *s)
{
	if (s->dead)
		return false;
	if (b->collect) {
		struct row row = { s->address, { s->file, s->line, s->column }, (uint32_t)b->rows.count };
		if (!sp_vector_push(&b->rows, row))
			b->no_memory = true;
	} else if (s->place != WIDE_PLACE && s->line < WIDE) {
		add_row(b, s->address, (uint64_t)s->line << (FILE_BITS + COLUMN_BITS) | s->place);
	} else {
		add_row(b, s->address, pack_wide(b, &(struct dw_place){ s->file, s->line, s->column }));
	}
	return b->backwards || b->no_memory;
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* Forgets the sequence at hand. */
static void drop_sequence(struct builder *b)
{
	if (b->begun) {
		b->deltas.count = b->first;
		b->places.count = b->first;
	}
	b->begun = b->backwards = b->collect = false;
	b->rows.count = 0;
}

static void end_sequence(struct builder *b, uint64_t end)
{
	if (b->collect) {
		b->collect = false;
		dw_sort(b->rows.items, b->rows.count, sizeof(*b->rows.items), compare_rows);
		for (size_t i = 0; i < b->rows.count; i++) {
			const struct dw_place *place = &b->rows.items[i].place;
			struct state s = { .address = b->rows.items[i].address,
				           .file = place->file,
				           .line = place->line,
				           .column = place->column,
				           .place = pack_rest(place->file, place->column) };
			emit(b, &s);
		}
	}
	if (!b->begun)
		return drop_sequence(b);
	/* An end in dropped code, or below the last row: the last row is one byte then. */
	if (end <= b->address || !dw_is_code(b->code, end - 1))
		end = b->address + 1;
	flush(b);
	struct dw_sequence sequence = { b->start, end, (uint32_t)b->first, (uint32_t)(b->places.count - b->first) };
	if (!sp_vector_push(&b->sequences, sequence))
		b->no_memory = true;
	b->begun = false;
	b->rows.count = 0;
}

/* ---- The program ---- */

/* What a special opcode does. */
struct special {
	uint32_t advance; /* operations */
	int32_t line;
};

static void advance(const struct header *h, struct state *s, uint64_t operations)
{
	if (h->max_operations <= 1) {
		s->address += operations * h->min_length;
		return;
	}
	operations += s->operation;
	s->address += h->min_length * (operations / h->max_operations);
	s->operation = (uint32_t)(operations % h->max_operations);
}

static void define_file(struct builder *b, struct sp_cursor *c)
{
	struct dw_line_file file = { .name = sp_cursor_string(c) };
	file.folder = sp_cursor_uleb(c);
	if (!c->bad && !sp_vector_push(&b->files, file))
		b->no_memory = true;
}

static inline void set_column(struct state *s, uint32_t column)
{
	s->column = column;
	s->place = pack_rest(s->file, column);
}

/* A discriminator is of one row. */
static inline bool emit_row(struct builder *b, struct state *s)
{
	bool ended = emit(b, s);
	if (b->discriminators)
		set_column(s, 0);
	return ended;
}

/* Returns true at the end of a sequence, which it makes. */
static bool extended(struct builder *b, struct sp_cursor *c, struct state *s)
{
	uint64_t length = sp_cursor_uleb(c);
	size_t at = sp_cursor_offset(c);
	struct sp_cursor sub = sp_cursor_sub(c, at, length);
	if (sub.bad || c->bad) {
		sp_cursor_fail(c);
		return false;
	}
	sp_cursor_skip(c, length);
	switch (sp_cursor_u8(&sub)) {
	case DW_LNE_end_sequence:
		end_sequence(b, s->address);
		return true;
	case DW_LNE_set_address: /* of any size: some producers and relocations disagree with the header */
		if (length < 2 || length > 9)
			break;
		s->address = sp_cursor_uint(&sub, (unsigned)length - 1);
		s->operation = 0;
		s->dead = !dw_is_code(b->code, s->address);
		break;
	case DW_LNE_define_file:
		define_file(b, &sub);
		break;
	case DW_LNE_set_discriminator:
		if (b->discriminators)
			set_column(s, (uint32_t)sp_cursor_uleb(&sub));
		break;
	default:
		break;
	}
	return false;
}

/* sp_cursor_uleb() for the numbers of one byte that nearly all are. */
static inline uint64_t short_uleb(struct sp_cursor *c)
{
	if (c->at < c->end && *c->at < 0x80)
		return *c->at++;
	return sp_cursor_uleb(c);
}

static inline int64_t short_sleb(struct sp_cursor *c)
{
	if (c->at < c->end && *c->at < 0x80) {
		int64_t byte = *c->at++;
		return byte & 0x40 ? byte - 0x80 : byte;
	}
	return sp_cursor_sleb(c);
}

/* Runs one sequence from *program on; false at the end of the program. */
static bool run_sequence(const struct header *h, struct builder *b, struct sp_cursor *program,
                         const struct special *special)
{
	struct sp_cursor c = *program; /* a copy, which can stay in registers */
	struct state s = { .file = 1, .line = 1, .dead = !dw_is_code(b->code, 0), .place = pack_rest(1, 0) };
	const unsigned opcode_base = h->opcode_base;
	bool ended = false;
	uint32_t column;
	while (c.at < c.end && !ended) {
		unsigned opcode = *c.at++;
		if (opcode >= opcode_base) {
			advance(h, &s, special[opcode].advance);
			s.line += (uint32_t)special[opcode].line;
			ended = emit_row(b, &s);
			continue;
		}
		switch (opcode) {
		case 0:
			*program = c;
			ended = extended(b, program, &s);
			c = *program;
			break;
		case DW_LNS_copy:
			ended = emit_row(b, &s);
			break;
		case DW_LNS_advance_pc:
			advance(h, &s, short_uleb(&c));
			break;
		case DW_LNS_advance_line:
			s.line += (uint32_t)short_sleb(&c);
			break;
		case DW_LNS_set_file:
			s.file = (uint32_t)short_uleb(&c);
			s.place = pack_rest(s.file, s.column);
			break;
		case DW_LNS_set_column:
			column = (uint32_t)short_uleb(&c);
			if (!b->discriminators)
				set_column(&s, column);
			break;
		case DW_LNS_const_add_pc:
			advance(h, &s, special[255].advance);
			break;
		case DW_LNS_fixed_advance_pc:
			s.address += sp_cursor_u16(&c);
			s.operation = 0;
			break;
		case DW_LNS_negate_stmt:
		case DW_LNS_set_basic_block:
		case DW_LNS_set_prologue_end:
		case DW_LNS_set_epilogue_begin:
			break;
		default: /* set_isa, and the unknown ones */
			for (unsigned i = 0; i < h->lengths[opcode - 1]; i++)
				sp_cursor_uleb(&c);
			break;
		}
	}
	*program = c;
	if (!ended)
		drop_sequence(b); /* without an end */
	return ended;
}

static void run(const struct header *h, struct builder *b, struct sp_cursor c)
{
	struct special special[256] = { 0 };
	for (unsigned i = h->opcode_base; i < 256; i++) {
		special[i].advance = (i - h->opcode_base) / h->line_range;
		special[i].line = h->line_base + (int)((i - h->opcode_base) % h->line_range);
	}
	/* const_add_pc is what opcode 255 does, also where 255 is a standard opcode. */
	special[255].advance = (255u - h->opcode_base) / h->line_range;
	for (;;) {
		const uint8_t *start = c.at;
		size_t file_count = b->files.count;
		if (!run_sequence(h, b, &c, special) || b->no_memory)
			return;
		if (b->backwards) { /* once more, to be sorted */
			drop_sequence(b);
			b->files.count = file_count;
			b->collect = true;
			c.at = start;
			if (!run_sequence(h, b, &c, special) || b->no_memory)
				return;
		}
	}
}

/* ---- The header ---- */

static bool read_header(struct sp_cursor *c, struct header *h)
{
	*h = (struct header){ .offset_size = 4, .max_operations = 1 };
	uint64_t length = sp_cursor_u32(c);
	if (length == 0xffffffff) {
		h->offset_size = 8;
		length = sp_cursor_u64(c);
	}
	if (c->bad)
		return false;
	if (length < sp_cursor_left(c))
		c->end = c->at + length;
	unsigned version = sp_cursor_u16(c);
	if (version < 2 || version > 5)
		return false;
	h->version = (uint8_t)version;
	if (version >= 5) {
		h->address_size = sp_cursor_u8(c);
		sp_cursor_u8(c); /* size of a segment selector */
	}
	uint64_t header_length = sp_cursor_uint(c, h->offset_size);
	if (c->bad || header_length > sp_cursor_left(c))
		return false;
	h->program = sp_cursor_offset(c) + header_length;
	h->min_length = sp_cursor_u8(c);
	if (version >= 4)
		h->max_operations = sp_cursor_u8(c);
	sp_cursor_u8(c); /* default of is_stmt */
	h->line_base = (int8_t)sp_cursor_u8(c);
	h->line_range = sp_cursor_u8(c);
	h->opcode_base = sp_cursor_u8(c);
	h->lengths = sp_cursor_bytes(c, h->opcode_base ? h->opcode_base - 1u : 0);
	return !c->bad && h->opcode_base && h->line_range;
}

/* DWARF 2 to 4: strings up to an empty one. */
static void read_tables(struct builder *b, struct sp_cursor *c)
{
	while (!c->bad && !b->no_memory) {
		const char *folder = sp_cursor_string(c);
		if (!*folder)
			break;
		if (!sp_vector_push(&b->folders, folder))
			b->no_memory = true;
	}
	while (!c->bad && !b->no_memory) {
		struct dw_line_file file = { .name = sp_cursor_string(c) };
		if (!*file.name)
			break;
		file.folder = sp_cursor_uleb(c);
		sp_cursor_uleb(c); /* modification time */
		sp_cursor_uleb(c); /* size */
		if (!c->bad && !sp_vector_push(&b->files, file))
			b->no_memory = true;
	}
}

/* DWARF 5: a table whose columns are described in front of it. */
static void read_table(struct builder *b, const struct dw_unit *shape, struct sp_cursor *c, bool folders)
{
	unsigned columns = sp_cursor_u8(c);
	struct {
		uint64_t content, form;
	} formats[255];
	for (unsigned i = 0; i < columns; i++) {
		formats[i].content = sp_cursor_uleb(c);
		formats[i].form = sp_cursor_uleb(c);
	}
	uint64_t count = sp_cursor_uleb(c);
	if (count > sp_cursor_left(c)) /* each entry has at least a byte */
		sp_cursor_fail(c);
	for (uint64_t i = 0; i < count && !c->bad && !b->no_memory; i++) {
		struct dw_line_file file = { 0 };
		for (unsigned k = 0; k < columns; k++) {
			struct dw_value value;
			dw_read_value(c, shape, formats[k].form <= UINT16_MAX ? (unsigned)formats[k].form : UINT16_MAX,
			              0, &value);
			if (formats[k].content == DW_LNCT_path)
				file.name = dw_value_string(shape, &value);
			else if (formats[k].content == DW_LNCT_directory_index)
				file.folder = value.u;
		}
		if (c->bad)
			break;
		if (folders ? !sp_vector_push(&b->folders, file.name) : !sp_vector_push(&b->files, file))
			b->no_memory = true;
	}
}

static void read_names(struct builder *b, const struct dw_unit *unit, const struct header *h, struct sp_cursor *c)
{
	if (h->version < 5)
		return read_tables(b, c);
	struct dw_unit shape = { .file = unit->file,
		                 .version = h->version,
		                 .address_size = h->address_size,
		                 .offset_size = h->offset_size,
		                 .str_offsets = unit->str_offsets,
		                 .str_offsets_base = unit->str_offsets_base };
	read_table(b, &shape, c, true);
	read_table(b, &shape, c, false);
}

/* ---- The table ---- */

/* Where sequences overlap, the tightest has the address, of equal ones the first. */
static struct sp_error *make_pieces(struct dw_lines *lines)
{
	uint32_t count = (uint32_t)lines->sequence_count;
	struct sp_interval *intervals = calloc(count + 1u, sizeof(*intervals));
	if (!intervals)
		return sp_error_no_memory();
	for (uint32_t i = 0; i < count; i++)
		intervals[i] = (struct sp_interval){ lines->sequences[i].start, lines->sequences[i].end,
			                             count - 1 - i };
	struct sp_error *error = sp_interval_tightest(intervals, count, &lines->pieces, &lines->piece_count);
	free(intervals);
	for (size_t i = 0; i < lines->piece_count; i++)
		lines->pieces[i].id = count - 1 - lines->pieces[i].id;
	return error;
}

/* Hands what the builder has to `lines`. */
static void finish(struct builder *b, struct dw_lines *lines)
{
	lines->sequences = b->sequences.items;
	lines->sequence_count = b->sequences.count;
	lines->deltas = b->deltas.items;
	lines->places = b->places.items;
	lines->row_count = b->places.count;
	lines->wide = b->wide.items;
	lines->folders = b->folders.items;
	lines->folder_count = b->folders.count;
	lines->files = b->files.items;
	lines->file_count = b->files.count;
	/* Give back what growing left over. */
	if (b->places.count) {
		void *deltas = realloc(lines->deltas, b->deltas.count * sizeof(*lines->deltas));
		void *places = realloc(lines->places, b->places.count * sizeof(*lines->places));
		lines->deltas = deltas ? deltas : lines->deltas;
		lines->places = places ? places : lines->places;
	}
	sp_vector_deinit(&b->rows);
}

void dw_lines_destroy(struct dw_lines *lines)
{
	if (!lines)
		return;
	free(lines->pieces);
	free(lines->sequences);
	free(lines->deltas);
	free(lines->places);
	free(lines->wide);
	free(lines->folders);
	free(lines->files);
	free(lines);
}

static size_t lines_memory(const struct dw_lines *lines)
{
	return sizeof(*lines) + lines->row_count * (sizeof(*lines->deltas) + sizeof(*lines->places)) +
	       lines->sequence_count * sizeof(*lines->sequences) + lines->piece_count * sizeof(*lines->pieces) +
	       lines->folder_count * sizeof(*lines->folders) + lines->file_count * sizeof(*lines->files);
}

static struct sp_error *lines_create(struct dw_unit *unit, bool discriminators, struct dw_lines **ret)
{
	struct dw_bytes bytes = dw_section(unit->file, DW_LINE)->data;
	struct sp_cursor c = sp_cursor_init(bytes.bytes, bytes.size);
	c.big_endian = unit->file->big_endian;
	sp_cursor_seek(&c, unit->lines_offset);
	struct header header;
	if (c.bad || !read_header(&c, &header))
		return sp_error_create(SP_ERROR_FORMAT, "section .debug_line: no table at 0x%llx that can be read",
		                       (unsigned long long)unit->lines_offset);
	if (!discriminators && !dw_spend(unit->file->dwarf, DW_WORK_LINES, sp_cursor_left(&c)))
		return sp_error_create(SP_ERROR_LIMIT, "section .debug_line: tables overlap");
	struct dw_lines *lines = calloc(1, sizeof(*lines));
	if (!lines)
		return sp_error_no_memory();
	dw_want(unit->file, c.at, sp_cursor_left(&c));
	lines->version = header.version;
	struct builder b = { .lines = lines, .code = unit->file, .discriminators = discriminators };
	struct sp_cursor names = c;
	names.end = names.start + header.program;
	read_names(&b, unit, &header, &names);
	if (names.bad)
		dw_note(unit->file->dwarf, "section .debug_line: file names at 0x%llx are cut short",
		        (unsigned long long)unit->lines_offset);
	sp_cursor_seek(&c, header.program);
	/* About as many rows as there will be; growing would cost more than what is left over. */
	size_t rows = sp_cursor_left(&c) / BYTES_A_ROW + 1;
	if (!sp_vector_reserve(&b.deltas, rows) || !sp_vector_reserve(&b.places, rows))
		b.no_memory = true;
	if (!b.no_memory)
		run(&header, &b, c);
	finish(&b, lines);
	struct sp_error *error = b.no_memory ? sp_error_no_memory() : make_pieces(lines);
	if (error) {
		dw_lines_destroy(lines);
		return error;
	}
	if (!discriminators) /* those tables do not stay */
		dw_count_memory(unit->file->dwarf, lines_memory(lines));
	*ret = lines;
	return NULL;
}

struct sp_error *dw_discriminators_create(struct dw_unit *unit, struct dw_lines **ret)
{
	*ret = NULL;
	return unit->has_lines ? lines_create(unit, true, ret) : NULL;
}

/* An empty table stands for one that can't be read, so that it is not tried again. */
struct sp_error *dw_lines_create(struct dw_unit *unit, struct dw_lines **ret)
{
	*ret = NULL;
	struct sp_error *error = unit->has_lines ? lines_create(unit, false, ret) : NULL;
	if (!error || error->code == SP_ERROR_NO_MEMORY)
		return error;
	dw_note(unit->file->dwarf, "%s", error->message);
	sp_error_destroy(error);
	*ret = calloc(1, sizeof(**ret));
	return *ret ? NULL : sp_error_no_memory();
}

struct sp_error *dw_lines_get(struct dw_unit *unit, const struct dw_lines **ret)
{
	struct dw_file *file = unit->file;
	struct dw_lines *lines = atomic_load_explicit(&unit->lines, memory_order_acquire);
	*ret = lines;
	if (lines || !unit->has_lines)
		return NULL;
	struct sp_error *error = NULL;
	pthread_mutex_lock(&unit->lock);
	lines = atomic_load_explicit(&unit->lines, memory_order_relaxed);
	if (!lines) {
		pthread_mutex_lock(&file->lock);
		uint64_t *known = sp_map_get(&file->line_tables, unit->lines_offset);
		lines = known ? (struct dw_lines *)(uintptr_t)*known : NULL;
		pthread_mutex_unlock(&file->lock);
		if (!lines)
			error = dw_lines_create(unit, &lines);
		if (!error && !known) {
			pthread_mutex_lock(&file->lock);
			known = sp_map_get(&file->line_tables, unit->lines_offset);
			if (known) { /* another unit with the same table was faster */
				dw_lines_destroy(lines);
				lines = (struct dw_lines *)(uintptr_t)*known;
			} else if (!sp_map_put(&file->line_tables, unit->lines_offset, (uintptr_t)lines)) {
				dw_lines_destroy(lines);
				error = sp_error_no_memory();
			}
			pthread_mutex_unlock(&file->lock);
		}
		if (!error)
			atomic_store_explicit(&unit->lines, lines, memory_order_release);
	}
	pthread_mutex_unlock(&unit->lock);
	*ret = error ? NULL : lines;
	return error;
}

bool dw_lines_find(const struct dw_lines *lines, uint64_t address, struct dw_place *ret)
{
	const struct sp_interval *piece = sp_interval_at(lines->pieces, lines->piece_count, address);
	if (!piece)
		return false;
	const struct dw_sequence *sequence = &lines->sequences[piece->id];
	uint64_t delta = address - sequence->start;
	const uint32_t *deltas = lines->deltas + sequence->first;
	size_t low = 0, high = sequence->count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (deltas[middle] <= delta)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return false;
	dw_lines_unpack(lines, lines->places[sequence->first + low - 1], ret);
	return true;
}

/* ---- Paths ---- */

struct dw_paths {
	size_t count;
	_Atomic(const char *) items[];
};

void dw_paths_destroy(struct dw_paths *paths)
{
	free(paths);
}

static bool is_absolute(const char *path)
{
	return path[0] == '/' || path[0] == '\\' || (path[0] && path[1] == ':' && (path[2] == '/' || path[2] == '\\'));
}

/* Windows paths go on with the separator that they began with. */
static char separator(const char *path)
{
	return is_absolute(path) && path[0] != '/' && strchr(path, '\\') ? '\\' : '/';
}

/* Appends a part, after a separator where there is something in front. */
static bool append(char *buffer, size_t *length, const char *part)
{
	size_t size = strlen(part);
	if (!size)
		return true;
	if (*length + size + 2 > DW_MAX_NAME)
		return false;
	if (*length && buffer[*length - 1] != '/' && buffer[*length - 1] != '\\') {
		buffer[*length] = '\0';
		buffer[*length] = separator(buffer);
		++*length;
	}
	memcpy(buffer + *length, part, size);
	*length += size;
	return true;
}

static const char *folder_name(const struct dw_unit *unit, const struct dw_lines *lines, uint64_t index)
{
	if (lines->version < 5) {
		if (!index)
			return unit->comp_dir;
		index--;
	}
	return index < lines->folder_count ? lines->folders[index] : NULL;
}

/* compilation folder / folder / name, without the parts in front of an absolute one. */
static bool join(const struct dw_unit *unit, const struct dw_lines *lines, const struct dw_line_file *file,
                 char *buffer, size_t *ret_length)
{
	size_t length = 0;
	if (!file->name)
		return false;
	if (!is_absolute(file->name)) {
		const char *folder = folder_name(unit, lines, file->folder);
		bool whole = folder && is_absolute(folder);
		/* Folder 0 of DWARF 5 is the compilation folder itself. */
		if (!whole && unit->comp_dir && !(folder && !strcmp(folder, unit->comp_dir)) &&
		    !append(buffer, &length, unit->comp_dir))
			return false;
		if (folder && !append(buffer, &length, folder))
			return false;
	}
	if (!append(buffer, &length, file->name))
		return false;
	*ret_length = length;
	return true;
}

bool dw_join_path(const struct dw_unit *unit, const struct dw_lines *lines, uint64_t file, char *buffer,
                  size_t *ret_length)
{
	if (lines->version < 5)
		file--; /* 0 wraps to none */
	return file < lines->file_count && join(unit, lines, &lines->files[file], buffer, ret_length);
}

bool dw_unit_path(struct dw_unit *unit, const struct dw_lines *lines, uint64_t file, const char **ret)
{
	*ret = NULL;
	if (lines->version < 5)
		file--; /* 0 wraps to none */
	if (file >= lines->file_count)
		return true;
	struct dw_paths *paths = atomic_load_explicit(&unit->paths, memory_order_acquire);
	if (!paths) {
		pthread_mutex_lock(&unit->lock);
		paths = atomic_load_explicit(&unit->paths, memory_order_relaxed);
		if (!paths) {
			size_t size = sizeof(*paths) + lines->file_count * sizeof(*paths->items);
			paths = calloc(1, size);
			if (paths) {
				paths->count = lines->file_count;
				dw_count_memory(unit->file->dwarf, size);
				atomic_store_explicit(&unit->paths, paths, memory_order_release);
			}
		}
		pthread_mutex_unlock(&unit->lock);
		if (!paths)
			return false;
	}
	const char *path = atomic_load_explicit(&paths->items[file], memory_order_acquire);
	if (!path) {
		char buffer[DW_MAX_NAME];
		size_t length;
		if (!join(unit, lines, &lines->files[file], buffer, &length))
			return true;
		path = dw_keep_string(unit->file->dwarf, buffer, length);
		if (!path)
			return false;
		atomic_store_explicit(&paths->items[file], path, memory_order_release);
	}
	*ret = path;
	return true;
}
