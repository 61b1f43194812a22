/* Intervals that overlap, kept and searched: which units claim an address. */
#include "internal.h"

#include <stdlib.h>

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

struct sp_error *dw_tree_init(struct dw_tree *tree, struct sp_interval *intervals, size_t count)
{
	*tree = (struct dw_tree){ 0 };
	if (!count) {
		free(intervals);
		return NULL;
	}
	tree->ends = malloc(count * sizeof(*tree->ends));
	if (!tree->ends || !sp_interval_sort(intervals, count)) {
		free(tree->ends);
		tree->ends = NULL;
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
	const struct sp_interval *interval = &tree->intervals[middle];
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
