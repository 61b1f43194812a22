/* A part of an index that is made: what one unit says, collected, then flattened to segments in which neither the
 * innermost node nor the place changes. */
#include "symbolication/index/private.h"

#include <stdlib.h>

/* ---- Places ---- */

static size_t hash_place(const struct sp_index_place *place)
{
	return (size_t)sp_hash_u64((uint64_t)place->file << 40 ^ (uint64_t)place->line << 16 ^ place->column);
}

static bool grow_places(struct sp_index_places *places)
{
	size_t capacity = places->capacity ? 2 * places->capacity : 256;
	uint32_t *slots = calloc(capacity, sizeof(*slots));
	if (!slots)
		return false;
	for (uint32_t number = 1; number <= places->items.count; number++) {
		size_t at = hash_place(&places->items.items[number - 1]) & (capacity - 1);
		while (slots[at])
			at = (at + 1) & (capacity - 1);
		slots[at] = number;
	}
	free(places->slots);
	places->slots = slots;
	places->capacity = capacity;
	return true;
}

uint32_t sp_index_places_add(struct sp_index_places *places, const struct sp_index_place *place)
{
	if (2 * (places->items.count + 1) > places->capacity && !grow_places(places))
		return 0;
	size_t at = hash_place(place) & (places->capacity - 1);
	for (; places->slots[at]; at = (at + 1) & (places->capacity - 1)) {
		const struct sp_index_place *p = &places->items.items[places->slots[at] - 1];
		if (p->file == place->file && p->line == place->line && p->column == place->column)
			return places->slots[at];
	}
	if (places->items.count >= UINT32_MAX - 1 || !sp_vector_push(&places->items, *place))
		return 0;
	places->slots[at] = (uint32_t)places->items.count;
	return places->slots[at];
}

void sp_index_places_deinit(struct sp_index_places *places)
{
	sp_vector_deinit(&places->items);
	free(places->slots);
	places->slots = NULL;
	places->capacity = 0;
}

/* ---- Collecting ---- */

struct sp_error *sp_index_part_create(struct sp_index_builder *builder, uint32_t order, struct sp_index_part **ret)
{
	struct sp_index_part *part = calloc(1, sizeof(*part));
	if (!part)
		return sp_error_no_memory();
	part->builder = builder;
	part->order = order;
	*ret = part;
	return NULL;
}

void sp_index_part_destroy(struct sp_index_part *part)
{
	if (!part)
		return;
	sp_vector_deinit(&part->nodes);
	sp_index_places_deinit(&part->places);
	sp_vector_deinit(&part->ranges);
	sp_vector_deinit(&part->rows);
	sp_vector_deinit(&part->claims);
	sp_vector_deinit(&part->segments);
	sp_vector_deinit(&part->runs);
	free(part->node_numbers);
	free(part->place_numbers);
	free(part);
}

static uint32_t add_string(struct sp_index_part *part, struct sp_index_strings *strings, enum sp_index_name_kind kind,
                           const char *text, size_t length)
{
	if (!length)
		return 0;
	/* No one reads a name that is longer. */
	length = length < SP_INDEX_MAX_STRING ? length : SP_INDEX_MAX_STRING;
	uint32_t number = sp_index_strings_add(strings, kind, text, length);
	part->no_memory |= !number;
	return number;
}

uint32_t sp_index_part_name(struct sp_index_part *part, enum sp_index_name_kind kind, const char *name, size_t length)
{
	return add_string(part, &part->builder->names, kind, name, length);
}

uint32_t sp_index_part_file(struct sp_index_part *part, const char *path, size_t length)
{
	return add_string(part, &part->builder->files, SP_INDEX_PLAIN, path, length);
}

/* The number of a place; 0 = unknown. */
static uint32_t add_place(struct sp_index_part *part, const struct sp_index_place *place)
{
	if (!place || (!place->file && !place->line))
		return 0;
	uint32_t number = sp_index_places_add(&part->places, place);
	part->no_memory |= !number;
	return number;
}

uint32_t sp_index_part_node(struct sp_index_part *part, uint32_t parent, uint32_t name,
                            const struct sp_index_place *call)
{
	struct sp_index_node node = { parent <= part->nodes.count ? parent : 0, name, add_place(part, call) };
	if (part->nodes.count >= UINT32_MAX - 1 || !sp_vector_push(&part->nodes, node)) {
		part->no_memory = true;
		return 1;
	}
	return (uint32_t)part->nodes.count;
}

void sp_index_part_range(struct sp_index_part *part, uint32_t node, uint64_t start, uint64_t end)
{
	if (start < end && node && node <= part->nodes.count &&
	    !sp_vector_push(&part->ranges, (struct sp_interval){ start, end, node }))
		part->no_memory = true;
}

void sp_index_part_row(struct sp_index_part *part, uint64_t start, uint64_t end, const struct sp_index_place *place)
{
	uint32_t number = start < end ? add_place(part, place) : 0;
	if (number && !sp_vector_push(&part->rows, (struct sp_interval){ start, end, number }))
		part->no_memory = true;
}

void sp_index_part_claim(struct sp_index_part *part, uint64_t start, uint64_t end)
{
	if (start < end && !sp_vector_push(&part->claims, (struct sp_interval){ start, end, 1 }))
		part->no_memory = true;
}

/* ---- Flattening ---- */

struct pieces {
	struct sp_interval *items; /* owned; disjoint, ascending */
	size_t count, at;          /* at: the first that does not end before the address at hand */
};

/* Makes disjoint pieces of intervals, which are moved out of their vector when they are that already. Where some
 * overlap the highest id wins; with `last`, the one given last. */
static struct sp_error *make_pieces(struct sp_interval **items, size_t *count, bool last, struct pieces *ret)
{
	bool disjoint = true;
	for (size_t i = 1; i < *count && disjoint; i++)
		disjoint = (*items)[i].start >= (*items)[i - 1].end;
	*ret = (struct pieces){ *items, *count, 0 };
	if (disjoint) {
		*items = NULL;
		*count = 0;
		return NULL;
	}
	uint32_t *ids = last ? malloc(*count * sizeof(*ids)) : NULL;
	if (last && !ids) {
		*ret = (struct pieces){ 0 };
		return sp_error_no_memory();
	}
	for (size_t i = 0; last && i < *count; i++) {
		ids[i] = (*items)[i].id;
		(*items)[i].id = (uint32_t)i;
	}
	struct sp_error *error = sp_interval_sweep(*items, *count, &ret->items, &ret->count);
	for (size_t i = 0; last && i < ret->count; i++)
		ret->items[i].id = ids[ret->items[i].id];
	free(ids);
	return error;
}

/* The id at an address, 0 = none. *next becomes the end of what is there, when that is lower. */
static inline uint32_t id_at(struct pieces *pieces, uint64_t address, uint64_t *next)
{
	while (pieces->at < pieces->count && pieces->items[pieces->at].end <= address)
		pieces->at++;
	if (pieces->at == pieces->count)
		return 0;
	const struct sp_interval *piece = &pieces->items[pieces->at];
	bool inside = piece->start <= address;
	uint64_t end = inside ? piece->end : piece->start;
	*next = end < *next ? end : *next;
	return inside ? piece->id : 0;
}

static void add_segment(struct sp_index_part *part, uint64_t start, uint32_t node, uint32_t place)
{
	size_t count = part->segments.count;
	if (!count)
		part->base = start;
	struct sp_index_segment *last = count ? &part->segments.items[count - 1] : NULL;
	if (last && last->node == node && last->place == place)
		return;
	uint64_t delta = start - part->base;
	if (delta > UINT32_MAX)
		part->too_large = true;
	else if (!sp_vector_push(&part->segments, (struct sp_index_segment){ (uint32_t)delta, node, place }))
		part->no_memory = true;
}

static void add_run(struct sp_index_part *part, uint64_t start, uint64_t end, uint32_t rank)
{
	struct sp_interval *last = part->runs.count ? &part->runs.items[part->runs.count - 1] : NULL;
	if (last && last->end == start && last->id == rank)
		last->end = end;
	else if (!sp_vector_push(&part->runs, (struct sp_interval){ start, end, rank }))
		part->no_memory = true;
}

/* Goes through nodes, rows and claims at once. */
static void merge(struct sp_index_part *part, struct pieces *nodes, struct pieces *rows, struct pieces *claims)
{
	uint64_t at = 0, end = 0; /* end: of the last segment */
	bool all = !claims->count;
	while (at < UINT64_MAX && !part->no_memory && !part->too_large) {
		uint64_t next = UINT64_MAX;
		uint32_t node = id_at(nodes, at, &next), place = id_at(rows, at, &next);
		bool claimed = id_at(claims, at, &next) || all;
		if ((node || place) && claimed) {
			if (part->segments.count && end < at)
				add_segment(part, end, 0, 0);
			add_segment(part, at, node, place);
			add_run(part, at, next, (node ? 2u : 0u) | (place ? 1u : 0u));
			end = next;
		}
		at = next;
	}
	if (part->segments.count)
		add_segment(part, end, 0, 0);
}

static struct sp_error *flatten(struct sp_index_part *part)
{
	struct pieces nodes = { 0 }, rows = { 0 }, claims = { 0 };
	struct sp_error *error = part->no_memory ? sp_error_no_memory() : NULL;
	if (!error)
		error = make_pieces(&part->ranges.items, &part->ranges.count, false, &nodes);
	if (!error)
		error = make_pieces(&part->rows.items, &part->rows.count, true, &rows);
	if (!error)
		error = make_pieces(&part->claims.items, &part->claims.count, false, &claims);
	if (!error)
		merge(part, &nodes, &rows, &claims);
	free(nodes.items);
	free(rows.items);
	free(claims.items);
	if (!error && part->no_memory)
		error = sp_error_no_memory();
	if (!error && part->too_large)
		error = sp_error_create(SP_ERROR_LIMIT, "a unit's code spans more than 4 GiB");
	return error;
}

struct sp_error *sp_index_part_finish(struct sp_index_part *part)
{
	struct sp_index_builder *builder = part->builder;
	struct sp_error *error = flatten(part);
	if (!error && !part->segments.count) { /* it says nothing */
		sp_index_part_destroy(part);
		return NULL;
	}
	if (!error) {
		sp_vector_deinit(&part->ranges);
		sp_vector_deinit(&part->rows);
		sp_vector_deinit(&part->claims);
		free(part->places.slots);
		part->places.slots = NULL;
		part->places.capacity = 0;
		pthread_mutex_lock(&builder->lock);
		if (!sp_vector_push(&builder->parts, part))
			error = sp_error_no_memory();
		pthread_mutex_unlock(&builder->lock);
	}
	if (error)
		sp_index_part_destroy(part);
	return error;
}
