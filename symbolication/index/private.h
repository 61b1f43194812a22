/* What the files that make an index share. */
#ifndef SP_SYMBOLICATION_INDEX_PRIVATE_H
#define SP_SYMBOLICATION_INDEX_PRIVATE_H

#include "common/arena.h"
#include "common/map.h"
#include "common/vector.h"
#include "symbolication/index/builder.h"
#include "symbolication/index/format.h"
#include "symbolication/index/index.h"
#include "symbolication/interval.h"

#include <pthread.h>

/* ---- Strings (strings.c) ---- */

struct sp_index_string {
	const char *text;
	uint32_t length;
	uint32_t next; /* with the same hash; 0 = none */
	uint8_t kind;
};

/* Numbers strings, from 1 on. */
struct sp_index_strings {
	pthread_mutex_t lock;
	struct sp_arena arena;
	struct sp_map by_hash; /* -> number */
	SP_VECTOR(struct sp_index_string) items;
};

/* 0 without memory. Thread-safe. */
uint32_t sp_index_strings_add(struct sp_index_strings *strings, enum sp_index_name_kind kind, const char *text,
                              size_t length);

/* Strings in blocks, as they lie in the file. */
struct sp_index_packed {
	SP_VECTOR(uint64_t) offsets;
	struct sp_buffer blocks;
};
/* Packs the strings of `numbers`, in that order; with a second thread when `helper`. */
struct sp_error *sp_index_pack(const struct sp_index_strings *strings, const uint32_t *numbers, size_t count,
                               bool helper, struct sp_index_packed *ret);
void sp_index_packed_deinit(struct sp_index_packed *packed);

/* ---- Parts (part.c) ---- */

struct sp_index_node {
	uint32_t parent, name, place; /* numbers of the part; after assembly of the index */
};

/* From `start` on. */
struct sp_index_segment {
	uint32_t start;       /* from the part's base */
	uint32_t node, place; /* both 0 = nothing here */
};

/* Numbers places, from 1 on. */
struct sp_index_places {
	SP_VECTOR(struct sp_index_place) items;
	uint32_t *slots; /* owned; numbers */
	size_t capacity; /* a power of two, or 0 */
};
/* 0 without memory. */
uint32_t sp_index_places_add(struct sp_index_places *places, const struct sp_index_place *place);
void sp_index_places_deinit(struct sp_index_places *places);

struct sp_index_part {
	struct sp_index_builder *builder;
	uint32_t order;
	bool no_memory;
	bool too_large;
	SP_VECTOR(struct sp_index_node) nodes;
	struct sp_index_places places;
	SP_VECTOR(struct sp_interval) ranges, rows, claims; /* while it is filled */

	/* When it is finished. */
	uint64_t base;
	SP_VECTOR(struct sp_index_segment) segments; /* the last one is a gap */
	SP_VECTOR(struct sp_interval) runs;          /* of segments of one rank, which is the id */

	/* While the index is assembled. */
	uint32_t *node_numbers, *place_numbers; /* owned; in the index; 0 = not yet */
	size_t next;                            /* segment */
};

struct sp_index_builder {
	struct sp_index_strings names, files;
	pthread_mutex_t lock; /* for the parts */
	SP_VECTOR(struct sp_index_part *) parts;
	SP_VECTOR(struct sp_index_symbol) symbols; /* names by number in `names` */
	SP_VECTOR(uint64_t) borders;
	SP_VECTOR(uint32_t) owners; /* one a border: symbol, 0 = none */
};

#endif
