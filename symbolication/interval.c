/* See interval.h. The sweep keeps the intervals that have begun in a heap, the best one on top. */
#include "symbolication/interval.h"

#include "common/vector.h"

#include <stdlib.h>
#include <string.h>

#define DIGIT_BITS 8
#define DIGITS (1u << DIGIT_BITS)

static void insertion_sort(struct sp_interval *intervals, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		struct sp_interval item = intervals[i];
		size_t k = i;
		for (; k && intervals[k - 1].start > item.start; k--)
			intervals[k] = intervals[k - 1];
		intervals[k] = item;
	}
}

/* Moves the intervals from `from` to `to`, ordered by eight bits of their starts. */
static void sort_digit(const struct sp_interval *from, struct sp_interval *to, size_t count, unsigned shift)
{
	size_t places[DIGITS] = { 0 };
	for (size_t i = 0; i < count; i++)
		places[from[i].start >> shift & (DIGITS - 1)]++;
	for (size_t digit = 0, place = 0; digit < DIGITS; digit++) {
		size_t here = places[digit];
		places[digit] = place;
		place += here;
	}
	for (size_t i = 0; i < count; i++)
		to[places[from[i].start >> shift & (DIGITS - 1)]++] = from[i];
}

/* A radix sort over the bits in which the starts differ. */
bool sp_interval_sort(struct sp_interval *intervals, size_t count)
{
	uint64_t any = 0, last = 0;
	bool sorted = true;
	for (size_t i = 0; i < count; i++) {
		any |= intervals[i].start ^ intervals[0].start;
		sorted = sorted && intervals[i].start >= last;
		last = intervals[i].start;
	}
	if (sorted)
		return true;
	if (count < 64) {
		insertion_sort(intervals, count);
		return true;
	}
	struct sp_interval *other = malloc(count * sizeof(*other)), *from = intervals, *to = other;
	if (!other)
		return false;
	for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS) {
		if (!(any >> shift & (DIGITS - 1)))
			continue;
		sort_digit(from, to, count, shift);
		struct sp_interval *swap = from;
		from = to;
		to = swap;
	}
	if (from != intervals)
		memcpy(intervals, from, count * sizeof(*intervals));
	free(other);
	return true;
}

/* A heap of the intervals that have begun, the highest id on top. */
struct heap {
	uint32_t *items; /* indices of intervals */
	size_t count;
};

static void heap_push(struct heap *heap, const struct sp_interval *intervals, uint32_t item)
{
	size_t i = heap->count++;
	while (i && intervals[heap->items[(i - 1) / 2]].id < intervals[item].id) {
		heap->items[i] = heap->items[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	heap->items[i] = item;
}

static void heap_pop(struct heap *heap, const struct sp_interval *intervals)
{
	uint32_t item = heap->items[--heap->count];
	size_t i = 0;
	for (;;) {
		size_t child = 2 * i + 1;
		if (child >= heap->count)
			break;
		if (child + 1 < heap->count && intervals[heap->items[child + 1]].id > intervals[heap->items[child]].id)
			child++;
		if (intervals[heap->items[child]].id <= intervals[item].id)
			break;
		heap->items[i] = heap->items[child];
		i = child;
	}
	heap->items[i] = item;
}

struct sp_error *sp_interval_sweep(struct sp_interval *intervals, size_t count, struct sp_interval **ret,
                                   size_t *ret_count)
{
	*ret = NULL;
	*ret_count = 0;
	if (!count)
		return NULL;
	if (!sp_interval_sort(intervals, count))
		return sp_error_no_memory();
	SP_VECTOR(struct sp_interval) pieces = { 0 };
	struct heap heap = { .items = malloc(count * sizeof(*heap.items)) };
	bool ok = heap.items && sp_vector_reserve(&pieces, count);
	uint64_t at = 0;
	for (size_t next = 0; ok && (next < count || heap.count);) {
		if (!heap.count)
			at = intervals[next].start;
		while (next < count && intervals[next].start <= at)
			heap_push(&heap, intervals, (uint32_t)next++);
		while (heap.count && intervals[heap.items[0]].end <= at)
			heap_pop(&heap, intervals);
		if (!heap.count)
			continue;
		const struct sp_interval *top = &intervals[heap.items[0]];
		uint64_t end = next < count && intervals[next].start < top->end ? intervals[next].start : top->end;
		struct sp_interval *last = pieces.count ? &pieces.items[pieces.count - 1] : NULL;
		if (last && last->end == at && last->id == top->id)
			last->end = end;
		else
			ok = sp_vector_push(&pieces, (struct sp_interval){ at, end, top->id });
		at = end;
	}
	free(heap.items);
	if (!ok) {
		sp_vector_deinit(&pieces);
		return sp_error_no_memory();
	}
	*ret = pieces.items;
	*ret_count = pieces.count;
	return NULL;
}

static int compare_spans(const void *a, const void *b)
{
	const struct sp_interval *x = a, *y = b;
	uint64_t x_span = x->end - x->start, y_span = y->end - y->start;
	if (x_span != y_span)
		return x_span > y_span ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* Where some overlap: a sweep with the rank by size as the id. */
static struct sp_error *sweep_by_span(struct sp_interval *intervals, size_t count, struct sp_interval **ret,
                                      size_t *ret_count)
{
	uint32_t *ids = malloc(count * sizeof(*ids));
	if (!ids)
		return sp_error_no_memory();
	qsort(intervals, count, sizeof(*intervals), compare_spans);
	for (size_t i = 0; i < count; i++) {
		ids[i] = intervals[i].id;
		intervals[i].id = (uint32_t)i;
	}
	struct sp_error *error = sp_interval_sweep(intervals, count, ret, ret_count);
	for (size_t i = 0; i < *ret_count; i++)
		(*ret)[i].id = ids[(*ret)[i].id];
	free(ids);
	return error;
}

struct sp_error *sp_interval_tightest(struct sp_interval *intervals, size_t count, struct sp_interval **ret,
                                      size_t *ret_count)
{
	*ret = NULL;
	*ret_count = 0;
	if (!count)
		return NULL;
	if (!sp_interval_sort(intervals, count))
		return sp_error_no_memory();
	for (size_t i = 1; i < count; i++)
		if (intervals[i].start < intervals[i - 1].end)
			return sweep_by_span(intervals, count, ret, ret_count);
	*ret = malloc(count * sizeof(**ret));
	if (!*ret)
		return sp_error_no_memory();
	memcpy(*ret, intervals, count * sizeof(**ret));
	*ret_count = count;
	return NULL;
}
