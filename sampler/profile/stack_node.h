/* A frame as recordings keep it: 16 bytes in a tree of stacks, and one byte for all but the address. */
#ifndef SP_SAMPLER_PROFILE_STACK_NODE_H
#define SP_SAMPLER_PROFILE_STACK_NODE_H

#include "sampler/profile/model.h"

#include <stdint.h>

struct sp_stack_node {
	uint64_t address;
	uint32_t parent;  /* node; SP_HANDLE_NONE at a root */
	uint8_t flags;    /* sp_stack_flags() of the frame */
	uint8_t spare[3]; /* 0 */
};

/* Kind, mode and origin of a frame in one byte (7 bits are used). */
static inline uint8_t sp_stack_flags(const struct sp_frame *frame)
{
	return (uint8_t)((frame->kind & 3) | (frame->mode & 3) << 2 | (frame->origin & 7) << 4);
}

/* The frame's origin (enum sp_frame_origin) from that byte. */
static inline uint8_t sp_stack_origin(uint8_t flags)
{
	return flags >> 4 & 7;
}

/* The frame again; its CFA is not kept. */
static inline struct sp_frame sp_stack_frame(uint64_t address, uint8_t flags)
{
	return (struct sp_frame){
		.address = address,
		.kind = flags & 3,
		.mode = flags >> 2 & 3,
		.origin = sp_stack_origin(flags),
	};
}

#endif
