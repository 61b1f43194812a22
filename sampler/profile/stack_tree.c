/* The tree of stack_tree.h: an array of nodes and an open-addressed index over it. */
#include "sampler/profile/stack_tree.h"

#include "common/map.h"
#include "common/vector.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 1024

static size_t hash_node(uint32_t parent, uint64_t address, uint8_t flags)
{
	return (size_t)sp_hash_u64(address ^ (uint64_t)parent << 32 ^ (uint64_t)parent >> 8 ^ (uint64_t)flags << 56);
}

static bool grow_slots(struct sp_stack_tree *tree)
{
	size_t count = tree->slot_count ? tree->slot_count * 2 : FIRST_SLOTS;
	uint32_t *slots = calloc(count, sizeof(*slots));
	if (!slots)
		return false;
	for (size_t node = 0; node < tree->count; node++) {
		const struct sp_stack_node *n = &tree->nodes[node];
		size_t i = hash_node(n->parent, n->address, n->flags) & (count - 1);
		while (slots[i])
			i = (i + 1) & (count - 1);
		slots[i] = (uint32_t)node + 1;
	}
	free(tree->slots);
	tree->slots = slots;
	tree->slot_count = count;
	return true;
}

uint32_t sp_stack_tree_intern(struct sp_stack_tree *tree, uint32_t parent, uint64_t address, uint8_t flags)
{
	if (tree->count >= tree->slot_count / 4 * 3 && !grow_slots(tree))
		return SP_HANDLE_NONE;
	size_t mask = tree->slot_count - 1;
	size_t i = hash_node(parent, address, flags) & mask;
	while (tree->slots[i]) {
		const struct sp_stack_node *node = &tree->nodes[tree->slots[i] - 1];
		if (node->address == address && node->parent == parent && node->flags == flags)
			return tree->slots[i] - 1;
		i = (i + 1) & mask;
	}
	if (tree->count >= SP_HANDLE_NONE - 1 ||
	    !sp_vector_grow((void **)&tree->nodes, &tree->capacity, tree->count, 1, sizeof(*tree->nodes)))
		return SP_HANDLE_NONE;
	tree->nodes[tree->count] = (struct sp_stack_node){ .address = address, .parent = parent, .flags = flags };
	tree->slots[i] = (uint32_t)++tree->count;
	return (uint32_t)tree->count - 1;
}

void sp_stack_tree_clear(struct sp_stack_tree *tree)
{
	if (tree->count)
		memset(tree->slots, 0, tree->slot_count * sizeof(*tree->slots));
	tree->count = 0;
}

void sp_stack_tree_deinit(struct sp_stack_tree *tree)
{
	free(tree->nodes);
	free(tree->slots);
	*tree = (struct sp_stack_tree){ 0 };
}
