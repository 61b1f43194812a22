/* Least significant digit first, 11 bits a pass; digits that all keys share are skipped, sorted input costs one look.
 */
#include "symbolication/sort.h"

#include <stdlib.h>
#include <string.h>

enum { DIGIT_BITS = 11, BUCKETS = 1 << DIGIT_BITS, SMALL = 48 };

static void insertion_sort(struct sp_keyed *items, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		struct sp_keyed item = items[i];
		size_t at = i;
		for (; at > 0 && items[at - 1].key > item.key; at--)
			items[at] = items[at - 1];
		items[at] = item;
	}
}

/* The bits in which keys differ; 0 also when they are sorted already. */
static uint64_t differing_bits(const struct sp_keyed *items, size_t count)
{
	uint64_t bits = 0;
	bool sorted = true;
	for (size_t i = 1; i < count; i++) {
		bits |= items[i].key ^ items[0].key;
		sorted = sorted && items[i - 1].key <= items[i].key;
	}
	return sorted ? 0 : bits;
}

static void pass(const struct sp_keyed *from, struct sp_keyed *to, size_t count, unsigned shift, size_t *starts)
{
	memset(starts, 0, BUCKETS * sizeof(*starts));
	for (size_t i = 0; i < count; i++)
		starts[from[i].key >> shift & (BUCKETS - 1)]++;
	size_t next = 0;
	for (size_t i = 0; i < BUCKETS; i++) {
		size_t size = starts[i];
		starts[i] = next;
		next += size;
	}
	for (size_t i = 0; i < count; i++)
		to[starts[from[i].key >> shift & (BUCKETS - 1)]++] = from[i];
}

bool sp_sort_keyed(struct sp_keyed *items, size_t count)
{
	if (count < SMALL) {
		insertion_sort(items, count);
		return true;
	}
	uint64_t bits = differing_bits(items, count);
	if (!bits)
		return true;
	struct sp_keyed *spare = malloc(count * sizeof(*spare));
	size_t *starts = malloc(BUCKETS * sizeof(*starts));
	struct sp_keyed *from = items, *to = spare;
	for (unsigned shift = 0; spare && starts && shift < 64; shift += DIGIT_BITS) {
		if (!(bits >> shift & (BUCKETS - 1)))
			continue;
		pass(from, to, count, shift, starts);
		struct sp_keyed *swap = from;
		from = to;
		to = swap;
	}
	bool ok = spare && starts;
	if (ok && from != items)
		memcpy(items, from, count * sizeof(*items));
	free(spare);
	free(starts);
	return ok;
}
