/* The end of making an index: of the parts that claim an address one wins, the nodes, places and names that are still
 * needed are numbered in the order of addresses, and all is laid out.
 *
 * The winning segments are gone through once: what they lead to is numbered, and they are noted by these numbers. The
 * parts are gone then, before there is a file. */
#include "symbolication/index/private.h"

#include "symbolication/symbol_table.h"

#include <stdlib.h>

#define MAX_PAGES (1u << 22) /* 64 KiB each: 256 GiB of code */

struct sp_error *sp_index_builder_create(struct sp_index_builder **ret)
{
	struct sp_index_builder *builder = calloc(1, sizeof(*builder));
	if (!builder)
		return sp_error_no_memory();
	pthread_mutex_init(&builder->names.lock, NULL);
	pthread_mutex_init(&builder->files.lock, NULL);
	pthread_mutex_init(&builder->lock, NULL);
	*ret = builder;
	return NULL;
}

static void deinit_strings(struct sp_index_strings *strings)
{
	sp_arena_deinit(&strings->arena);
	sp_map_deinit(&strings->by_hash);
	sp_vector_deinit(&strings->items);
	pthread_mutex_destroy(&strings->lock);
}

static void drop_parts(struct sp_index_builder *builder)
{
	for (size_t i = 0; i < builder->parts.count; i++)
		sp_index_part_destroy(builder->parts.items[i]);
	sp_vector_deinit(&builder->parts);
}

void sp_index_builder_destroy(struct sp_index_builder *builder)
{
	if (!builder)
		return;
	drop_parts(builder);
	sp_vector_deinit(&builder->symbols);
	sp_vector_deinit(&builder->borders);
	sp_vector_deinit(&builder->owners);
	deinit_strings(&builder->names);
	deinit_strings(&builder->files);
	pthread_mutex_destroy(&builder->lock);
	free(builder);
}

/* ---- Symbols ---- */

static bool add_symbol(struct sp_index_builder *builder, const struct sp_table_symbol *symbol)
{
	bool nameless = symbol->name == sp_symbol_no_name;
	size_t length = strlen(symbol->name);
	length = length < SP_INDEX_MAX_STRING ? length : SP_INDEX_MAX_STRING;
	uint32_t name = sp_index_strings_add(&builder->names, nameless ? SP_INDEX_NAMELESS : SP_INDEX_LINKAGE,
	                                     symbol->name, length);
	struct sp_index_symbol item = { .start = symbol->start, .size = symbol->size, .name = name };
	return name && sp_vector_push(&builder->symbols, item);
}

struct sp_error *sp_index_builder_symbols(struct sp_index_builder *builder, const struct sp_symbol_table *table)
{
	bool ok = true;
	if (table->symbol_count >= UINT32_MAX - 1 || table->border_count >= UINT32_MAX - 1)
		return sp_error_create(SP_ERROR_LIMIT, "too many symbols for an index");
	for (size_t i = 0; i < table->symbol_count && ok; i++)
		ok = add_symbol(builder, &table->symbols[i]);
	for (size_t i = 0; i < table->border_count && ok; i++) /* none is UINT32_MAX, which becomes 0 */
		ok = sp_vector_push(&builder->borders, table->borders[i]) &&
		     sp_vector_push(&builder->owners, table->owners[i] + 1);
	return ok ? NULL : sp_error_no_memory();
}

/* ---- Which part has an address ---- */

struct segment {
	uint32_t node, place;
};

struct assembly {
	struct sp_index_builder *builder;
	struct sp_interval *pieces; /* owned; of the winning parts: id = index in parts */
	size_t piece_count;

	/* What is needed, numbered. */
	SP_VECTOR(struct sp_index_node) nodes;
	struct sp_index_places places;
	SP_VECTOR(uint32_t) names, files;      /* numbers in the builder's strings, in order */
	uint32_t *name_numbers, *file_numbers; /* owned; the other way round, 0 = not yet */
	SP_VECTOR(uint32_t) path;              /* of nodes, while one is numbered */
	struct sp_index_packed packed_names, packed_files;

	/* The segments, by number. */
	SP_VECTOR(struct sp_index_page) pages;
	SP_VECTOR(uint16_t) lows;
	SP_VECTOR(struct segment) segments;
	bool begun;
	uint32_t page, node, place; /* of the last one */
	uint32_t width;
	struct sp_error *error;
};

static int compare_parts(const void *a, const void *b)
{
	const struct sp_index_part *x = *(struct sp_index_part *const *)a, *y = *(struct sp_index_part *const *)b;
	return x->order < y->order ? 1 : x->order > y->order ? -1 : 0;
}

/* Higher ranks win, then lower orders: parts are sorted by falling order, so that the index is what counts. */
static struct sp_error *choose(struct assembly *a)
{
	struct sp_index_builder *builder = a->builder;
	SP_VECTOR(struct sp_interval) runs = { 0 };
	size_t total = 0;
	if (builder->parts.count > 1)
		qsort(builder->parts.items, builder->parts.count, sizeof(*builder->parts.items), compare_parts);
	for (size_t i = 0; i < builder->parts.count; i++)
		total += builder->parts.items[i]->runs.count;
	if (!sp_vector_reserve(&runs, total))
		return sp_error_no_memory();
	for (size_t i = 0; i < builder->parts.count; i++) {
		const struct sp_index_part *part = builder->parts.items[i];
		for (size_t k = 0; k < part->runs.count; k++) {
			struct sp_interval run = part->runs.items[k];
			run.id = run.id * SP_INDEX_MAX_PARTS + (uint32_t)i;
			runs.items[runs.count++] = run;
		}
	}
	struct sp_error *error = sp_interval_sweep(runs.items, runs.count, &a->pieces, &a->piece_count);
	for (size_t i = 0; i < a->piece_count; i++)
		a->pieces[i].id %= SP_INDEX_MAX_PARTS;
	sp_vector_deinit(&runs);
	return error;
}

/* ---- Numbers ---- */

static void fail(struct assembly *a)
{
	if (!a->error)
		a->error = sp_error_no_memory();
}

static uint32_t number_file(struct assembly *a, uint32_t file)
{
	if (!file || file > a->builder->files.items.count || a->file_numbers[file])
		return file <= a->builder->files.items.count ? a->file_numbers[file] : 0;
	if (!sp_vector_push(&a->files, file)) {
		fail(a);
		return 0;
	}
	return a->file_numbers[file] = (uint32_t)a->files.count;
}

static uint32_t number_name(struct assembly *a, uint32_t name)
{
	if (!name || name > a->builder->names.items.count || a->name_numbers[name])
		return name <= a->builder->names.items.count ? a->name_numbers[name] : 0;
	if (!sp_vector_push(&a->names, name)) {
		fail(a);
		return 0;
	}
	return a->name_numbers[name] = (uint32_t)a->names.count;
}

static uint32_t number_place(struct assembly *a, struct sp_index_part *part, uint32_t place)
{
	if (!place)
		return 0;
	uint32_t *number = &part->place_numbers[place];
	if (!*number) {
		struct sp_index_place p = part->places.items.items[place - 1];
		p.file = number_file(a, p.file);
		*number = sp_index_places_add(&a->places, &p);
		if (!*number)
			fail(a);
	}
	return *number;
}

/* Numbers a node and those around it, the outermost first. */
static uint32_t number_node(struct assembly *a, struct sp_index_part *part, uint32_t node)
{
	a->path.count = 0;
	uint32_t up = node;
	for (; up && !part->node_numbers[up]; up = part->nodes.items[up - 1].parent)
		if (!sp_vector_push(&a->path, up)) {
			fail(a);
			return 0;
		}
	uint32_t parent = up ? part->node_numbers[up] : 0;
	while (a->path.count) {
		uint32_t here = a->path.items[--a->path.count];
		const struct sp_index_node *from = &part->nodes.items[here - 1];
		struct sp_index_node to = { parent, number_name(a, from->name), number_place(a, part, from->place) };
		if (!sp_vector_push(&a->nodes, to)) {
			fail(a);
			return 0;
		}
		parent = part->node_numbers[here] = (uint32_t)a->nodes.count;
	}
	return parent;
}

/* ---- Segments ---- */

static void put_number(uint8_t *out, uint32_t width, uint32_t number)
{
	memcpy(out, &number, 3);
	if (width == 4)
		out[3] = (uint8_t)(number >> 24);
}

static void put_page(struct assembly *a, uint32_t page)
{
	if (!sp_vector_push(&a->pages, (struct sp_index_page){ page, (uint32_t)a->segments.count }))
		fail(a);
	a->page = page;
}

static void put_segment(struct assembly *a, uint16_t low, uint32_t node, uint32_t place)
{
	if (!sp_vector_push(&a->lows, low) || !sp_vector_push(&a->segments, (struct segment){ node, place }))
		fail(a);
	a->node = node;
	a->place = place;
}

/* A segment goes on in the pages behind it: each begins with a copy. */
static void emit(struct assembly *a, uint64_t start, uint32_t node, uint32_t place)
{
	uint64_t page = start >> SP_INDEX_PAGE_BITS;
	bool gap = !a->begun || (!a->node && !a->place);
	if (a->begun && node == a->node && place == a->place)
		return;
	uint64_t more = !a->begun ? 1 : gap ? page != a->page : page - a->page;
	if (page >= UINT32_MAX || a->pages.count + more > MAX_PAGES || a->segments.count >= UINT32_MAX - MAX_PAGES) {
		if (!a->error)
			a->error = sp_error_create(SP_ERROR_LIMIT, "too much code for an index");
		return;
	}
	while (a->begun && !gap && a->page < page && !a->error) {
		put_page(a, a->page + 1);
		if (a->page < page || start & ((1u << SP_INDEX_PAGE_BITS) - 1))
			put_segment(a, 0, a->node, a->place);
	}
	if (gap && !node && !place) /* nothing after nothing */
		return;
	if (!a->begun || a->page != page)
		put_page(a, (uint32_t)page);
	a->begun = true;
	put_segment(a, (uint16_t)start, node, place);
}

/* The segments of one part in a piece. */
static void take_piece(struct assembly *a, const struct sp_interval *piece)
{
	struct sp_index_part *part = a->builder->parts.items[piece->id];
	const struct sp_index_segment *segments = part->segments.items;
	size_t count = part->segments.count, i = part->next;
	while (i + 1 < count && part->base + segments[i + 1].start <= piece->start)
		i++;
	for (; i < count && !a->error; i++) {
		uint64_t start = part->base + segments[i].start;
		if (start >= piece->end)
			break;
		start = start < piece->start ? piece->start : start;
		emit(a, start, segments[i].node ? number_node(a, part, segments[i].node) : 0,
		     number_place(a, part, segments[i].place));
		part->next = i;
	}
}

static struct sp_error *go_through(struct assembly *a)
{
	for (size_t i = 0; i < a->piece_count && !a->error; i++) {
		take_piece(a, &a->pieces[i]);
		if (i + 1 == a->piece_count || a->pieces[i + 1].start > a->pieces[i].end)
			emit(a, a->pieces[i].end, 0, 0);
	}
	if (!sp_vector_push(&a->pages, (struct sp_index_page){ UINT32_MAX, (uint32_t)a->segments.count }))
		fail(a);
	return a->error;
}

static struct sp_error *prepare(struct assembly *a)
{
	struct sp_index_builder *builder = a->builder;
	a->name_numbers = calloc(builder->names.items.count + 1, sizeof(*a->name_numbers));
	a->file_numbers = calloc(builder->files.items.count + 1, sizeof(*a->file_numbers));
	bool ok = a->name_numbers && a->file_numbers;
	size_t segments = 0, nodes = 0; /* at most */
	for (size_t i = 0; i < builder->parts.count && ok; i++) {
		struct sp_index_part *part = builder->parts.items[i];
		part->node_numbers = calloc(part->nodes.count + 1, sizeof(*part->node_numbers));
		part->place_numbers = calloc(part->places.items.count + 1, sizeof(*part->place_numbers));
		ok = part->node_numbers && part->place_numbers;
		segments += part->segments.count;
		nodes += part->nodes.count;
	}
	ok = ok && sp_vector_reserve(&a->lows, segments) && sp_vector_reserve(&a->segments, segments) &&
	     sp_vector_reserve(&a->nodes, nodes);
	return ok ? NULL : sp_error_no_memory();
}

/* Numbers everything that is needed. */
static struct sp_error *number_all(struct assembly *a, bool helper)
{
	struct sp_error *error = choose(a);
	if (!error)
		error = prepare(a);
	if (!error)
		error = go_through(a);
	drop_parts(a->builder);
	for (size_t i = 0; i < a->builder->symbols.count && !error; i++) {
		struct sp_index_symbol *symbol = &a->builder->symbols.items[i];
		symbol->name = number_name(a, symbol->name);
		error = a->error;
	}
	if (!error)
		error = sp_index_pack(&a->builder->names, a->names.items, a->names.count, helper, &a->packed_names);
	if (!error)
		error = sp_index_pack(&a->builder->files, a->files.items, a->files.count, false, &a->packed_files);
	return error;
}

/* ---- Layout ---- */

static uint64_t align(uint64_t offset)
{
	return (offset + 7) & ~UINT64_C(7);
}

/* Fills in the header; the file's size is then known. */
static void lay_out(const struct assembly *a, size_t key_size, struct sp_index_header *h)
{
	const struct sp_index_builder *b = a->builder;
	*h = (struct sp_index_header){ .version = SP_INDEX_VERSION, .order = SP_INDEX_ORDER, .width = a->width };
	memcpy(h->magic, SP_INDEX_MAGIC, sizeof(h->magic));
	h->key_size = (uint32_t)key_size;
	h->pages = (uint32_t)a->pages.count - 1; /* without the one behind the last */
	h->segments = (uint32_t)a->segments.count;
	h->nodes = (uint32_t)a->nodes.count;
	h->places = (uint32_t)a->places.items.count;
	h->names = (uint32_t)a->names.count;
	h->files = (uint32_t)a->files.count;
	h->symbols = (uint32_t)b->symbols.count;
	h->borders = (uint32_t)b->borders.count;
	uint64_t sizes[SP_INDEX_SECTIONS];
	sp_index_section_sizes(h, a->packed_names.blocks.size, a->packed_files.blocks.size, sizes);
	uint64_t body = 0;
	for (size_t i = 0; i < SP_INDEX_SECTIONS; i++)
		body = align(body + sizes[i] + SP_INDEX_PADDING);
	uint64_t chunks = (body + (1u << SP_INDEX_CHUNK_BITS) - 1) >> SP_INDEX_CHUNK_BITS;
	h->body = align(sizeof(*h) + chunks * sizeof(uint64_t) + key_size);
	h->size = h->body + body;
	uint64_t at = h->body;
	for (size_t i = 0; i < SP_INDEX_SECTIONS; i++) {
		h->sections[i] = (struct sp_index_extent){ at, sizes[i] };
		at = align(at + sizes[i] + SP_INDEX_PADDING);
	}
}

static void put_bytes(uint8_t *file, const struct sp_index_header *h, enum sp_index_section section, const void *bytes)
{
	if (h->sections[section].size)
		memcpy(file + h->sections[section].offset, bytes, h->sections[section].size);
}

static void put_segments(const struct assembly *a, uint8_t *nodes, uint8_t *places)
{
	for (size_t i = 0; i < a->segments.count; i++, nodes += a->width, places += a->width) {
		put_number(nodes, a->width, a->segments.items[i].node);
		put_number(places, a->width, a->segments.items[i].place);
	}
}

static void put_nodes(const struct assembly *a, uint8_t *out)
{
	for (size_t i = 0; i < a->nodes.count; i++, out += 3 * (size_t)a->width) {
		put_number(out, a->width, a->nodes.items[i].name);
		put_number(out + a->width, a->width, a->nodes.items[i].parent);
		put_number(out + 2 * a->width, a->width, a->nodes.items[i].place);
	}
}

static struct sp_error *write_all(struct assembly *a, const char *key, uint8_t **ret, size_t *ret_size)
{
	struct sp_index_header h;
	size_t key_size = strlen(key) + 1;
	uint64_t most = a->nodes.count | a->places.items.count | a->names.count;
	a->width = most < 1u << 24 ? 3 : 4;
	lay_out(a, key_size, &h);
	uint8_t *file = h.size <= SIZE_MAX ? calloc(1, (size_t)h.size) : NULL;
	if (!file)
		return sp_error_no_memory();
	memcpy(file, &h, sizeof(h));
	memcpy(file + sp_index_key_offset(&h), key, key_size);
	put_bytes(file, &h, SP_INDEX_PAGES, a->pages.items);
	put_bytes(file, &h, SP_INDEX_LOWS, a->lows.items);
	put_segments(a, file + h.sections[SP_INDEX_SEGMENT_NODE].offset,
	             file + h.sections[SP_INDEX_SEGMENT_PLACE].offset);
	put_nodes(a, file + h.sections[SP_INDEX_NODES].offset);
	put_bytes(file, &h, SP_INDEX_PLACES, a->places.items.items);
	put_bytes(file, &h, SP_INDEX_NAME_OFFSETS, a->packed_names.offsets.items);
	put_bytes(file, &h, SP_INDEX_NAME_BLOCKS, a->packed_names.blocks.bytes);
	put_bytes(file, &h, SP_INDEX_FILE_OFFSETS, a->packed_files.offsets.items);
	put_bytes(file, &h, SP_INDEX_FILE_BLOCKS, a->packed_files.blocks.bytes);
	put_bytes(file, &h, SP_INDEX_SYMBOLS, a->builder->symbols.items);
	put_bytes(file, &h, SP_INDEX_BORDERS, a->builder->borders.items);
	put_bytes(file, &h, SP_INDEX_OWNERS, a->builder->owners.items);
	sp_index_fix_checksums(file, (size_t)h.size);
	*ret = file;
	*ret_size = (size_t)h.size;
	return NULL;
}

struct sp_error *sp_index_builder_finish(struct sp_index_builder *builder, const char *key, bool helper,
                                         struct sp_index **ret)
{
	struct assembly a = { .builder = builder };
	uint8_t *bytes = NULL;
	size_t size = 0;
	struct sp_error *error = number_all(&a, helper);
	if (!error)
		error = write_all(&a, key, &bytes, &size);
	free(a.pieces);
	sp_vector_deinit(&a.nodes);
	sp_index_places_deinit(&a.places);
	sp_vector_deinit(&a.pages);
	sp_vector_deinit(&a.lows);
	sp_vector_deinit(&a.segments);
	sp_vector_deinit(&a.names);
	sp_vector_deinit(&a.files);
	free(a.name_numbers);
	free(a.file_numbers);
	sp_vector_deinit(&a.path);
	sp_index_packed_deinit(&a.packed_names);
	sp_index_packed_deinit(&a.packed_files);
	return error ? error : sp_index_open_owned(bytes, size, ret);
}
