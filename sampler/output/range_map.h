/* What an address space shows where: a set of address ranges that don't overlap, in which a later one replaces what it
 * covers. A treap, so that a process with 100,000 functions made at run time costs no more than its look-ups. */
#ifndef SP_SAMPLER_OUTPUT_RANGE_MAP_H
#define SP_SAMPLER_OUTPUT_RANGE_MAP_H

#include "common/vector.h"

#include <stdbool.h>
#include <stdint.h>

enum sp_range_kind {
	SP_RANGE_HOLE,   /* known to show nothing: remembers that somebody looked */
	SP_RANGE_MODULE, /* target: module handle */
	SP_RANGE_JIT,    /* target: string number of the function's name */
};

struct sp_range {
	uint64_t start, end; /* [start, end) */
	uint64_t base;       /* address of the module's relative address 0 */
	uint32_t target;
	uint8_t kind; /* enum sp_range_kind */
	bool used;    /* a look-up was answered from it */
};

struct sp_range_node {
	struct sp_range range;
	uint32_t left, right; /* node + 1; 0 = none */
};

/* Zeroed storage is empty. */
struct sp_range_map {
	SP_VECTOR(struct sp_range_node) nodes;
	uint32_t root; /* node + 1; 0 = none */
	uint32_t free; /* list of free nodes, linked by `left` */
};

/* The range that holds `address`, or NULL. Valid until the next change. When NULL, *ret_low and *ret_high (may be NULL)
 * tell the hole: [*ret_low, *ret_high). */
struct sp_range *sp_range_map_find(const struct sp_range_map *map, uint64_t address, uint64_t *ret_low,
                                   uint64_t *ret_high);
/* Puts a range (start < end) in place of what it covers; *ret_used: something of that had been used. False without
 * memory. */
bool sp_range_map_put(struct sp_range_map *map, const struct sp_range *range, bool *ret_used);
/* Takes out what lies in [start, end). */
bool sp_range_map_remove(struct sp_range_map *map, uint64_t start, uint64_t end, bool *ret_used);
void sp_range_map_deinit(struct sp_range_map *map);

#endif
