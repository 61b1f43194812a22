/* Intervals that overlap: flattened to disjoint pieces by a rule (sweep), or kept and searched (tree). */
#include "internal.h"

#include <stdlib.h>

static int compare_starts(const void *a, const void *b)
{
	const struct dw_interval *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static void sort_by_start(struct dw_interval *intervals, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		if (compare_starts(&intervals[i - 1], &intervals[i]) > 0) {
			dw_sort(intervals, count, sizeof(*intervals), compare_starts);
			return;
		}
	}
}

/* A heap of the intervals that have begun, the highest id on top. */
struct heap {
	uint32_t *items; /* indices of intervals */
	size_t count;
};

static void heap_push(struct heap *heap, const struct dw_interval *intervals, uint32_t item)
{
	size_t i = heap->count++;
	while (i && intervals[heap->items[(i - 1) / 2]].id < intervals[item].id) {
		heap->items[i] = heap->items[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	heap->items[i] = item;
}

static void heap_pop(struct heap *heap, const struct dw_interval *intervals)
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

struct sp_error *dw_sweep(struct dw_interval *intervals, size_t count, struct dw_interval **ret, size_t *ret_count)
{
	*ret = NULL;
	*ret_count = 0;
	if (!count)
		return NULL;
	sort_by_start(intervals, count);
	SP_VECTOR(struct dw_interval) pieces = { 0 };
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
		const struct dw_interval *top = &intervals[heap.items[0]];
		uint64_t end = next < count && intervals[next].start < top->end ? intervals[next].start : top->end;
		struct dw_interval *last = pieces.count ? &pieces.items[pieces.count - 1] : NULL;
		if (last && last->end == at && last->id == top->id)
			last->end = end;
		else
			ok = sp_vector_push(&pieces, (struct dw_interval){ at, end, top->id });
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

/* The root of the subtree over [low, high) is its middle. */
static uint64_t set_ends(struct dw_tree *tree, size_t low, size_t high)
{
	if (low >= high)
		return 0;
	size_t middle = low + (high - low) / 2;
	uint64_t left = set_ends(tree, low, middle), right = set_ends(tree, middle + 1, high);
	uint64_t end = tree->intervals[middle].end;
	end = left > end ? left : end;
	end = right > end ? right : end;
	tree->ends[middle] = end;
	return end;
}

struct sp_error *dw_tree_init(struct dw_tree *tree, struct dw_interval *intervals, size_t count)
{
	*tree = (struct dw_tree){ 0 };
	if (!count) {
		free(intervals);
		return NULL;
	}
	sort_by_start(intervals, count);
	tree->ends = malloc(count * sizeof(*tree->ends));
	if (!tree->ends) {
		free(intervals);
		return sp_error_no_memory();
	}
	tree->intervals = intervals;
	tree->count = count;
	set_ends(tree, 0, count);
	return NULL;
}

void dw_tree_deinit(struct dw_tree *tree)
{
	free(tree->intervals);
	free(tree->ends);
	*tree = (struct dw_tree){ 0 };
}

static bool find(const struct dw_tree *tree, size_t low, size_t high, uint64_t address, struct dw_ids *ret)
{
	if (low >= high)
		return true;
	size_t middle = low + (high - low) / 2;
	if (tree->ends[middle] <= address)
		return true;
	if (!find(tree, low, middle, address, ret))
		return false;
	const struct dw_interval *interval = &tree->intervals[middle];
	if (interval->start > address)
		return true;
	if (address < interval->end && !sp_vector_push(ret, interval->id))
		return false;
	return find(tree, middle + 1, high, address, ret);
}

bool dw_tree_find(const struct dw_tree *tree, uint64_t address, struct dw_ids *ret)
{
	return find(tree, 0, tree->count, address, ret);
}
