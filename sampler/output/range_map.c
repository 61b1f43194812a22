/* The treap of range_map.h: ordered by start, heap-ordered by a hash of the node's number. */
#include "sampler/output/range_map.h"

#include "common/map.h"

#include <string.h>

static struct sp_range_node *node_at(const struct sp_range_map *map, uint32_t link)
{
	return &map->nodes.items[link - 1];
}

static bool above(uint32_t a, uint32_t b)
{
	return sp_hash_u64(a) > sp_hash_u64(b);
}

/* Splits a subtree into the ranges that start below `key` and the others. */
static void split(struct sp_range_map *map, uint32_t link, uint64_t key, uint32_t *ret_low, uint32_t *ret_high)
{
	uint32_t *low = ret_low, *high = ret_high;
	while (link) {
		struct sp_range_node *node = node_at(map, link);
		if (node->range.start < key) {
			*low = link;
			low = &node->right;
			link = node->right;
		} else {
			*high = link;
			high = &node->left;
			link = node->left;
		}
	}
	*low = *high = 0;
}

/* Joins two subtrees, all ranges of `low` before those of `high`. */
static uint32_t join(struct sp_range_map *map, uint32_t low, uint32_t high)
{
	uint32_t root = 0, *at = &root;
	while (low && high) {
		if (above(low, high)) {
			*at = low;
			at = &node_at(map, low)->right;
			low = *at;
		} else {
			*at = high;
			at = &node_at(map, high)->left;
			high = *at;
		}
	}
	*at = low ? low : high;
	return root;
}

/* Frees a subtree, rotating it into a list on the way so that no recursion is needed; true if any range was used. */
static bool free_subtree(struct sp_range_map *map, uint32_t link)
{
	bool used = false;
	while (link) {
		struct sp_range_node *node = node_at(map, link);
		if (node->left) { /* rotate right until there is no left side */
			uint32_t left = node->left;
			node->left = node_at(map, left)->right;
			node_at(map, left)->right = link;
			link = left;
			continue;
		}
		used = used || node->range.used;
		uint32_t next = node->right;
		node->left = map->free;
		map->free = link;
		link = next;
	}
	return used;
}

/* Makes sure that `count` nodes can be had. */
static bool reserve_nodes(struct sp_range_map *map, size_t count)
{
	return map->nodes.count < UINT32_MAX - 8 && sp_vector_reserve(&map->nodes, count);
}

static uint32_t new_node(struct sp_range_map *map, const struct sp_range *range)
{
	uint32_t link = map->free;
	if (link)
		map->free = node_at(map, link)->left;
	else
		link = (uint32_t)++map->nodes.count;
	*node_at(map, link) = (struct sp_range_node){ .range = *range };
	return link;
}

static struct sp_range *last_range(const struct sp_range_map *map, uint32_t link)
{
	if (!link)
		return NULL;
	while (node_at(map, link)->right)
		link = node_at(map, link)->right;
	return &node_at(map, link)->range;
}

/* Cuts [start, end) out; *ret_low and *ret_high are what is left below and above. Needs one spare node. */
static bool cut(struct sp_range_map *map, uint64_t start, uint64_t end, uint32_t *ret_low, uint32_t *ret_high)
{
	uint32_t rest, middle;
	bool used = false;
	split(map, map->root, start, ret_low, &rest);
	split(map, rest, end, &middle, ret_high);
	struct sp_range *before = last_range(map, *ret_low), *last = last_range(map, middle);
	struct sp_range tail = { 0 }; /* what reaches past the end */
	if (before && before->end > start) {
		used = before->used;
		if (before->end > end)
			tail = *before;
		before->end = start;
	}
	if (last && last->end > end)
		tail = *last;
	used = free_subtree(map, middle) || used;
	if (tail.end > end) {
		tail.start = end;
		*ret_high = join(map, new_node(map, &tail), *ret_high);
	}
	return used;
}

struct sp_range *sp_range_map_find(const struct sp_range_map *map, uint64_t address, uint64_t *ret_low,
                                   uint64_t *ret_high)
{
	uint64_t low = 0, high = UINT64_MAX;
	for (uint32_t link = map->root; link;) {
		struct sp_range_node *node = node_at(map, link);
		if (address < node->range.start) {
			high = node->range.start;
			link = node->left;
		} else if (address < node->range.end) {
			return &node->range;
		} else {
			low = node->range.end;
			link = node->right;
		}
	}
	if (ret_low)
		*ret_low = low;
	if (ret_high)
		*ret_high = high;
	return NULL;
}

bool sp_range_map_put(struct sp_range_map *map, const struct sp_range *range, bool *ret_used)
{
	uint32_t low, high;
	*ret_used = false;
	if (!reserve_nodes(map, 2))
		return false;
	*ret_used = cut(map, range->start, range->end, &low, &high);
	map->root = join(map, join(map, low, new_node(map, range)), high);
	return true;
}

bool sp_range_map_remove(struct sp_range_map *map, uint64_t start, uint64_t end, bool *ret_used)
{
	uint32_t low, high;
	*ret_used = false;
	if (!reserve_nodes(map, 1))
		return false;
	*ret_used = cut(map, start, end, &low, &high);
	map->root = join(map, low, high);
	return true;
}

void sp_range_map_deinit(struct sp_range_map *map)
{
	sp_vector_deinit(&map->nodes);
	map->root = map->free = 0;
}
