/* Reading .sym files; see breakpad.h. A line that cannot be read costs that line. */
#include "symbolication/breakpad/breakpad.h"

#include "common/hex.h"
#include "common/map.h"
#include "common/vector.h"
#include "symbolication/index/builder.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_LINES 16               /* MODULE, and INFO lines behind it */
#define NAME_LIMIT ((size_t)64 << 10) /* bytes of a name; the rest is cut off */
#define DEPTH_LIMIT 1024              /* of inlining */

struct function {
	uint64_t address, size;
	uint64_t text; /* where its line begins */
};

/* A call that was inlined, at one range of addresses. */
struct inlined {
	uint64_t start, end;
	uint32_t depth, record; /* record: those of one line have the same number */
	uint32_t line;
	uint64_t file, origin; /* numbers of the file's */
};

struct row {
	uint64_t start, end;
	uint32_t line;
	uint64_t file;
};

/* The lines of one function. */
struct body {
	const struct function *function; /* NULL = empty */
	SP_VECTOR(struct inlined) inlined;
	SP_VECTOR(struct row) rows;
	bool ascending; /* the rows, and disjoint */
};

struct sp_breakpad {
	const char *bytes;
	size_t size;
	struct spsym_file_info info;

	pthread_mutex_t lock; /* for making what follows, and for the strings */
	atomic_bool ready;
	SP_VECTOR(struct function) functions; /* sorted */
	SP_VECTOR(struct function) publics;   /* as in the file */
	struct sp_map files, origins;         /* number -> where the name begins */
	struct sp_arena strings;
	struct sp_map string_at; /* where a name begins -> copy */
};

/* ---- Lines and their words ---- */

/* What is left of a line. */
struct words {
	const char *at, *end;
};

static struct words line_at(const struct sp_breakpad *b, uint64_t offset)
{
	const char *start = b->bytes + offset, *file_end = b->bytes + b->size;
	const char *end = memchr(start, '\n', (size_t)(file_end - start));
	if (!end)
		end = file_end;
	if (end > start && end[-1] == '\r')
		end--;
	return (struct words){ start, end };
}

/* The offset behind the line. */
static uint64_t next_line(const struct sp_breakpad *b, uint64_t offset)
{
	const char *end = memchr(b->bytes + offset, '\n', b->size - (size_t)offset);
	return end ? (uint64_t)(end + 1 - b->bytes) : b->size;
}

static void skip_blanks(struct words *w)
{
	while (w->at < w->end && (*w->at == ' ' || *w->at == '\t'))
		w->at++;
}

/* Takes a word that is `text` followed by a blank. */
static bool take(struct words *w, const char *text)
{
	size_t length = strlen(text);
	if ((size_t)(w->end - w->at) <= length || memcmp(w->at, text, length) != 0 || w->at[length] != ' ')
		return false;
	w->at += length;
	skip_blanks(w);
	return true;
}

/* Of any base up to 16; what is no digit is larger. */
static unsigned digit(char c)
{
	return (unsigned)sp_hex_digit(c);
}

/* Takes a number of a base; false when the next word is none. */
static bool take_number(struct words *w, unsigned base, uint64_t *ret)
{
	const char *start = w->at;
	*ret = 0;
	while (w->at < w->end && digit(*w->at) < base) {
		if (*ret > (UINT64_MAX - 15) / base)
			return false;
		*ret = *ret * base + digit(*w->at++);
	}
	bool ok = w->at > start && (w->at == w->end || *w->at == ' ' || *w->at == '\t');
	skip_blanks(w);
	return ok;
}

static struct words take_word(struct words *w)
{
	struct words word = { w->at, w->at };
	while (w->at < w->end && *w->at != ' ' && *w->at != '\t')
		w->at++;
	word.end = w->at;
	skip_blanks(w);
	return word;
}

static void copy_word(struct words word, char *ret, size_t size)
{
	size_t length = (size_t)(word.end - word.at);
	if (length >= size)
		length = 0; /* no such ID, no such architecture */
	memcpy(ret, word.at, length);
	ret[length] = '\0';
}

/* ---- Opening ---- */

bool sp_breakpad_probe(const uint8_t *bytes, size_t size)
{
	return size > 7 && !memcmp(bytes, "MODULE ", 7);
}

static void read_header(struct sp_breakpad *b)
{
	struct words w = line_at(b, 0), id, name;
	take(&w, "MODULE");
	take_word(&w); /* the OS */
	copy_word(take_word(&w), b->info.arch, sizeof(b->info.arch));
	id = take_word(&w);
	copy_word(id, b->info.debug_id, sizeof(b->info.debug_id));
	uint64_t offset = next_line(b, 0);
	for (unsigned i = 0; i < HEADER_LINES && offset < b->size; i++, offset = next_line(b, offset)) {
		w = line_at(b, offset);
		if (take(&w, "INFO") && take(&w, "CODE_ID")) {
			name = take_word(&w);
			copy_word(name, b->info.code_id, sizeof(b->info.code_id));
		}
	}
	if (!strcmp(b->info.arch, "arm64e"))
		strcpy(b->info.arch, "arm64");
}

struct sp_error *sp_breakpad_open(const uint8_t *bytes, size_t size, const char *name, struct sp_breakpad **ret)
{
	struct sp_breakpad *b = calloc(1, sizeof(*b));
	if (!b)
		return sp_error_no_memory();
	b->bytes = (const char *)bytes;
	b->size = size;
	b->info.kind = SPSYM_KIND_BREAKPAD;
	b->info.has_symbols = b->info.has_debug_info = true;
	pthread_mutex_init(&b->lock, NULL);
	read_header(b);
	if (!b->info.debug_id[0]) {
		sp_breakpad_destroy(b);
		return sp_error_create(SP_ERROR_FORMAT, "cannot read %s: its MODULE line has no debug ID", name);
	}
	*ret = b;
	return NULL;
}

void sp_breakpad_destroy(struct sp_breakpad *b)
{
	if (!b)
		return;
	sp_vector_deinit(&b->functions);
	sp_vector_deinit(&b->publics);
	sp_map_deinit(&b->files);
	sp_map_deinit(&b->origins);
	sp_map_deinit(&b->string_at);
	sp_arena_deinit(&b->strings);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

const struct spsym_file_info *sp_breakpad_info(const struct sp_breakpad *b)
{
	return &b->info;
}

size_t sp_breakpad_memory(struct sp_breakpad *b)
{
	pthread_mutex_lock(&b->lock);
	size_t memory = sizeof(*b) + (b->functions.count + b->publics.count) * sizeof(struct function) +
	                (b->files.capacity + b->origins.capacity + b->string_at.capacity) * 17 + b->strings.total;
	pthread_mutex_unlock(&b->lock);
	return memory;
}

/* ---- The index ---- */

static bool index_line(struct sp_breakpad *b, uint64_t offset)
{
	struct words w = line_at(b, offset);
	struct function function = { .text = offset };
	uint64_t number;
	if (w.at == w.end)
		return true;
	if (*w.at == 'F' && take(&w, "FUNC")) {
		take(&w, "m");
		if (take_number(&w, 16, &function.address) && take_number(&w, 16, &function.size))
			return sp_vector_push(&b->functions, function);
	} else if (*w.at == 'P' && take(&w, "PUBLIC")) {
		take(&w, "m");
		if (take_number(&w, 16, &function.address))
			return sp_vector_push(&b->publics, function);
	} else if (*w.at == 'F' && take(&w, "FILE")) {
		if (take_number(&w, 10, &number))
			return sp_map_put(&b->files, number, (uint64_t)(w.at - b->bytes));
	} else if (*w.at == 'I' && take(&w, "INLINE_ORIGIN")) {
		if (take_number(&w, 10, &number))
			return sp_map_put(&b->origins, number, (uint64_t)(w.at - b->bytes));
	}
	return true;
}

static int compare_functions(const void *left, const void *right)
{
	const struct function *a = left, *b = right;
	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return a->text < b->text ? -1 : a->text > b->text;
}

static struct sp_error *make_index(struct sp_breakpad *b)
{
	/* A first try that ran out of memory left something. */
	b->functions.count = b->publics.count = 0;
	for (uint64_t offset = 0; offset < b->size; offset = next_line(b, offset)) {
		char first = b->bytes[offset];
		if ((first == 'F' || first == 'P' || first == 'I') && !index_line(b, offset))
			return sp_error_no_memory();
	}
	if (b->functions.count > 1)
		qsort(b->functions.items, b->functions.count, sizeof(*b->functions.items), compare_functions);
	return NULL;
}

static struct sp_error *need_index(struct sp_breakpad *b)
{
	if (atomic_load_explicit(&b->ready, memory_order_acquire))
		return NULL;
	pthread_mutex_lock(&b->lock);
	struct sp_error *error = NULL;
	if (!atomic_load_explicit(&b->ready, memory_order_relaxed)) {
		error = make_index(b);
		if (!error)
			atomic_store_explicit(&b->ready, true, memory_order_release);
	}
	pthread_mutex_unlock(&b->lock);
	return error;
}

/* The rest of the line from an offset on: a name. */
static struct words name_at(const struct sp_breakpad *b, uint64_t offset)
{
	struct words w = line_at(b, offset);
	if ((size_t)(w.end - w.at) > NAME_LIMIT)
		w.end = w.at + NAME_LIMIT;
	return w;
}

/* Where the name in a FUNC or PUBLIC line begins; NULL without one. */
static struct words function_name(const struct sp_breakpad *b, const struct function *function)
{
	struct words w = line_at(b, function->text);
	uint64_t number;
	bool is_function = take(&w, "FUNC");
	if (!is_function)
		take(&w, "PUBLIC");
	take(&w, "m");
	if (!take_number(&w, 16, &number) || (is_function && !take_number(&w, 16, &number)) ||
	    !take_number(&w, 16, &number))
		w.at = w.end;
	return name_at(b, (uint64_t)(w.at - b->bytes));
}

/* A copy that lives as long as the file; NULL when it is empty, or without memory (*ok). */
static const char *keep(struct sp_breakpad *b, struct words name, bool *ok)
{
	if (name.at == name.end)
		return NULL;
	uint64_t key = (uint64_t)(name.at - b->bytes);
	pthread_mutex_lock(&b->lock);
	const uint64_t *known = sp_map_get(&b->string_at, key);
	const char *copy = known ? (const char *)(uintptr_t)*known : NULL;
	if (!copy) {
		copy = sp_arena_strndup(&b->strings, name.at, (size_t)(name.end - name.at));
		*ok = *ok && copy && sp_map_put(&b->string_at, key, (uintptr_t)copy);
	}
	pthread_mutex_unlock(&b->lock);
	return copy;
}

static struct words named(const struct sp_breakpad *b, const struct sp_map *map, uint64_t number)
{
	const uint64_t *offset = sp_map_get(map, number);
	return offset ? name_at(b, *offset) : (struct words){ 0 };
}

/* ---- The lines of a function ---- */

static bool read_inline(struct words *w, uint32_t record, struct body *body)
{
	struct inlined inlined = { .record = record };
	uint64_t depth, line, size;
	if (!take_number(w, 10, &depth) || !take_number(w, 10, &line) || !take_number(w, 10, &inlined.file) ||
	    !take_number(w, 10, &inlined.origin) || depth >= DEPTH_LIMIT)
		return true;
	inlined.depth = (uint32_t)depth;
	inlined.line = line < UINT32_MAX ? (uint32_t)line : 0;
	while (take_number(w, 16, &inlined.start) && take_number(w, 16, &size)) {
		inlined.end = inlined.start + size;
		if (inlined.end > inlined.start && !sp_vector_push(&body->inlined, inlined))
			return false;
	}
	return true;
}

static bool read_row(struct words *w, struct body *body)
{
	struct row row;
	uint64_t size, line;
	if (!take_number(w, 16, &row.start) || !take_number(w, 16, &size) || !take_number(w, 10, &line) ||
	    !take_number(w, 10, &row.file))
		return true;
	row.end = row.start + size;
	row.line = line < UINT32_MAX ? (uint32_t)line : 0;
	if (row.end <= row.start)
		return true;
	if (body->rows.count && body->rows.items[body->rows.count - 1].end > row.start)
		body->ascending = false;
	return sp_vector_push(&body->rows, row);
}

/* Reads the lines behind a FUNC, up to the next record of another kind; false without memory. */
static bool read_body(const struct sp_breakpad *b, const struct function *function, struct body *body)
{
	if (body->function == function)
		return true;
	body->function = NULL;
	body->inlined.count = body->rows.count = 0;
	body->ascending = true;
	uint32_t record = 0;
	for (uint64_t offset = next_line(b, function->text); offset < b->size; offset = next_line(b, offset)) {
		struct words w = line_at(b, offset);
		if (take(&w, "INLINE")) {
			if (!read_inline(&w, record++, body))
				return false;
		} else if (w.at < w.end && digit(*w.at) < 16 && (w.end - w.at < 4 || memcmp(w.at, "FILE", 4) != 0)) {
			/* "FUNC" and "FILE" begin with a hexadecimal digit, too. */
			if (w.end - w.at >= 4 && !memcmp(w.at, "FUNC", 4))
				break;
			if (!read_row(&w, body))
				return false;
		} else {
			break;
		}
	}
	body->function = function;
	return true;
}

static void body_deinit(struct body *body)
{
	sp_vector_deinit(&body->inlined);
	sp_vector_deinit(&body->rows);
}

/* ---- Look-ups ---- */

static const struct function *find_function(const struct sp_breakpad *b, uint64_t address)
{
	size_t low = 0, high = b->functions.count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (b->functions.items[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return NULL;
	const struct function *function = &b->functions.items[low - 1];
	return address - function->address < function->size ? function : NULL;
}

/* The calls around an address, outermost first; their number. A call stands behind the one that it is in, and of
 * several the last one counts, as in the flat index. */
static uint32_t find_calls(const struct body *body, uint64_t address, const struct inlined *ret[DEPTH_LIMIT])
{
	uint32_t count = 0;
	for (size_t i = 0; i < body->inlined.count; i++) {
		const struct inlined *inlined = &body->inlined.items[i];
		if (inlined->depth <= count && address >= inlined->start && address < inlined->end) {
			ret[inlined->depth] = inlined;
			count = inlined->depth + 1;
		}
	}
	return count;
}

static const struct row *find_row(const struct body *body, uint64_t address)
{
	size_t low = 0, high = body->rows.count;
	if (!body->ascending) { /* the last one counts */
		while (high-- > 0) {
			const struct row *row = &body->rows.items[high];
			if (address >= row->start && address < row->end)
				return row;
		}
		return NULL;
	}
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (body->rows.items[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low && address < body->rows.items[low - 1].end ? &body->rows.items[low - 1] : NULL;
}

typedef SP_VECTOR(struct sp_dwarf_frame) frame_vector;

/* The frames at an address, innermost first; false without memory. */
static bool make_frames(struct sp_breakpad *b, const struct body *body, uint64_t address, frame_vector *frames)
{
	bool ok = true;
	struct sp_dwarf_frame frame = { .name = keep(b, function_name(b, body->function), &ok) };
	frames->count = 0;
	const struct inlined *calls[DEPTH_LIMIT];
	uint32_t depths = find_calls(body, address, calls);
	/* From the outermost one inwards: a call's place is in the frame around it. */
	for (uint32_t depth = 0; depth < depths && ok; depth++) {
		frame.file = keep(b, named(b, &b->files, calls[depth]->file), &ok);
		frame.line = calls[depth]->line;
		ok = ok && sp_vector_push(frames, frame);
		frame = (struct sp_dwarf_frame){ .name = keep(b, named(b, &b->origins, calls[depth]->origin), &ok) };
	}
	const struct row *row = find_row(body, address);
	if (row) {
		frame.file = keep(b, named(b, &b->files, row->file), &ok);
		frame.line = row->line;
	}
	ok = ok && sp_vector_push(frames, frame);
	for (size_t i = 0; i < frames->count / 2; i++) {
		struct sp_dwarf_frame other = frames->items[i];
		frames->items[i] = frames->items[frames->count - 1 - i];
		frames->items[frames->count - 1 - i] = other;
	}
	return ok;
}

struct sp_error *sp_breakpad_lookup(struct sp_breakpad *b, const uint64_t *addresses, size_t count,
                                    void (*emit)(void *context, size_t index, const struct sp_dwarf_answer *answer),
                                    void *context)
{
	struct body body = { 0 };
	frame_vector frames = { 0 };
	struct sp_error *error = need_index(b);
	for (size_t i = 0; i < count && !error; i++) {
		const struct function *function = find_function(b, addresses[i]);
		struct sp_dwarf_answer answer = { 0 };
		if (function && (!read_body(b, function, &body) || !make_frames(b, &body, addresses[i], &frames)))
			error = sp_error_no_memory();
		if (function)
			answer = (struct sp_dwarf_answer){ frames.items, frames.count };
		if (!error)
			emit(context, i, &answer);
	}
	body_deinit(&body);
	sp_vector_deinit(&frames);
	return error;
}

struct sp_error *sp_breakpad_symbols(struct sp_breakpad *b, struct sp_symbols *ret)
{
	*ret = (struct sp_symbols){ 0 };
	struct sp_error *error = need_index(b);
	size_t functions = b->functions.count, count = functions + b->publics.count;
	if (error)
		return error;
	ret->items = malloc((count + 1) * sizeof(*ret->items));
	if (!ret->items)
		return sp_error_no_memory();
	for (size_t i = 0; i < count; i++) {
		const struct function *f = i < functions ? &b->functions.items[i] : &b->publics.items[i - functions];
		bool ok = true;
		const char *name = keep(b, function_name(b, f), &ok);
		if (!ok) {
			sp_symbols_deinit(ret);
			return sp_error_no_memory();
		}
		if (name)
			ret->items[ret->count++] = (struct sp_symbol){ .name = name,
				                                       .address = f->address,
				                                       .size = f->size,
				                                       .source = SP_SYMBOL_SYMTAB,
				                                       .binding = 1 };
	}
	return NULL;
}

/* ---- The flat index ---- */

static uint32_t part_name(struct sp_index_part *part, struct words name)
{
	return sp_index_part_name(part, SP_INDEX_PLAIN, name.at, (size_t)(name.end - name.at));
}

static struct sp_index_place part_place(struct sp_breakpad *b, struct sp_index_part *part, uint64_t file, uint32_t line)
{
	struct words name = named(b, &b->files, file);
	return (struct sp_index_place){ sp_index_part_file(part, name.at, (size_t)(name.end - name.at)), line, 0 };
}

static void compile_function(struct sp_breakpad *b, struct sp_index_part *part, const struct body *body,
                             uint32_t nodes[DEPTH_LIMIT + 1])
{
	const struct function *f = body->function;
	uint32_t record = UINT32_MAX, known = 0; /* known: depths that have a node */
	nodes[0] = sp_index_part_node(part, 0, part_name(part, function_name(b, f)), NULL);
	if (f->size && f->address + f->size > f->address)
		sp_index_part_range(part, nodes[0], f->address, f->address + f->size);
	for (size_t i = 0; i < body->inlined.count; i++) {
		const struct inlined *inlined = &body->inlined.items[i];
		if (inlined->depth > known)
			continue; /* its caller is missing */
		if (inlined->record != record) {
			struct sp_index_place call = part_place(b, part, inlined->file, inlined->line);
			nodes[inlined->depth + 1] = sp_index_part_node(
			    part, nodes[inlined->depth], part_name(part, named(b, &b->origins, inlined->origin)),
			    &call);
			record = inlined->record;
			known = inlined->depth + 1;
		}
		sp_index_part_range(part, nodes[inlined->depth + 1], inlined->start, inlined->end);
	}
	for (size_t i = 0; i < body->rows.count; i++) {
		struct sp_index_place place = part_place(b, part, body->rows.items[i].file, body->rows.items[i].line);
		sp_index_part_row(part, body->rows.items[i].start, body->rows.items[i].end, &place);
	}
}

struct sp_error *sp_breakpad_compile(struct sp_breakpad *b, const atomic_bool *cancel, struct sp_index_builder *builder)
{
	struct sp_index_part *part;
	struct body body = { 0 };
	uint32_t *nodes = malloc((DEPTH_LIMIT + 1) * sizeof(*nodes));
	struct sp_error *error = nodes ? need_index(b) : sp_error_no_memory();
	if (!error)
		error = sp_index_part_create(builder, 0, &part);
	if (error) {
		free(nodes);
		return error;
	}
	for (size_t i = 0; i < b->functions.count && !error; i++) {
		if (atomic_load_explicit(cancel, memory_order_relaxed))
			error = sp_error_create(SP_ERROR_CANCELLED, "cancelled");
		else if (!read_body(b, &b->functions.items[i], &body))
			error = sp_error_no_memory();
		else
			compile_function(b, part, &body, nodes);
	}
	body_deinit(&body);
	free(nodes);
	if (error)
		sp_index_part_destroy(part);
	else
		error = sp_index_part_finish(part);
	return error;
}
