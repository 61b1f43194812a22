/* Intervals of addresses that overlap, flattened to disjoint pieces by a rule. Internal to symbolication/. */
#ifndef SP_SYMBOLICATION_INTERVAL_H
#define SP_SYMBOLICATION_INTERVAL_H

#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sp_interval {
	uint64_t start, end;
	uint32_t id;
};

/* Sorts by start, equal ones stay in order; false without memory. */
bool sp_interval_sort(struct sp_interval *intervals, size_t count);
/* Flattens intervals to disjoint pieces in ascending order: at each address the one with the highest id wins.
 * Sorts `intervals`. The caller frees *ret. */
struct sp_error *sp_interval_sweep(struct sp_interval *intervals, size_t count, struct sp_interval **ret,
                                   size_t *ret_count);
/* As sp_interval_sweep(), but at each address the shortest one wins, of equal ones that with the highest id. */
struct sp_error *sp_interval_tightest(struct sp_interval *intervals, size_t count, struct sp_interval **ret,
                                      size_t *ret_count);

/* The piece that holds an address, NULL when none does. */
static inline const struct sp_interval *sp_interval_at(const struct sp_interval *pieces, size_t count, uint64_t address)
{
	size_t low = 0, high = count; /* pieces[low - 1].start <= address < pieces[high].start */
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (pieces[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low && address < pieces[low - 1].end ? &pieces[low - 1] : NULL;
}

#endif
