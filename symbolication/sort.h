/* A stable radix sort of numbers with a payload: what symbol tables and batches of addresses are sorted with. */
#ifndef SP_SYMBOLICATION_SORT_H
#define SP_SYMBOLICATION_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sp_keyed {
	uint64_t key;
	uint64_t value;
};

/* Sorts by key, equal keys stay in order; false without memory. */
bool sp_sort_keyed(struct sp_keyed *items, size_t count);

#endif
