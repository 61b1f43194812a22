/* Call stacks interned as a tree: a node is a frame below its parent, the same (parent, frame) is the same node.
 *
 * Nodes are 16 bytes, numbered from 0 in order of creation, so a parent's number is below its children's. */
#ifndef SP_SAMPLER_PROFILE_STACK_TREE_H
#define SP_SAMPLER_PROFILE_STACK_TREE_H

#include "sampler/profile/model.h"

#include <stdbool.h>
#include <stdint.h>

struct sp_stack_node {
	uint64_t address;
	uint32_t parent;  /* SP_HANDLE_NONE at a root */
	uint8_t flags;    /* sp_stack_flags() of the frame */
	uint8_t spare[3]; /* 0 */
};

/* Zeroed storage is an empty tree. */
struct sp_stack_tree {
	struct sp_stack_node *nodes; /* owned */
	size_t count, capacity;
	uint32_t *slots;   /* owned; node + 1 by hash, 0 = free */
	size_t slot_count; /* a power of two, or 0 */
};

/* Kind, mode and origin of a frame in one byte (7 bits are used). */
static inline uint8_t sp_stack_flags(const struct sp_frame *frame)
{
	return (uint8_t)((frame->kind & 3) | (frame->mode & 3) << 2 | (frame->origin & 7) << 4);
}

static inline struct sp_frame sp_stack_frame(const struct sp_stack_node *node)
{
	return (struct sp_frame){
		.address = node->address,
		.kind = node->flags & 3,
		.mode = node->flags >> 2 & 3,
		.origin = node->flags >> 4 & 7,
	};
}

/* The node of a frame below `parent`, made when there is none yet (then its number is the old count). SP_HANDLE_NONE
 * without memory. */
uint32_t sp_stack_tree_intern(struct sp_stack_tree *tree, uint32_t parent, uint64_t address, uint8_t flags);

/* Forgets all nodes, keeps the storage. */
void sp_stack_tree_clear(struct sp_stack_tree *tree);
void sp_stack_tree_deinit(struct sp_stack_tree *tree);

#endif
