/* The arena of arena.h: blocks of 64 KiB, larger requests get a block of their own. */
#include "common/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_SIZE ((size_t)65536)

struct sp_arena_block {
	struct sp_arena_block *next;
	size_t size; /* bytes of data */
	_Alignas(16) unsigned char data[];
};

void *sp_arena_alloc(struct sp_arena *arena, size_t size)
{
	if (size > SIZE_MAX / 2)
		return NULL;
	size = (size + 15) & ~(size_t)15;
	struct sp_arena_block *block = arena->blocks;
	if (!block || size > block->size - arena->used) {
		size_t data_size = size > BLOCK_SIZE ? size : BLOCK_SIZE;
		block = malloc(sizeof(*block) + data_size);
		if (!block)
			return NULL;
		block->size = data_size;
		block->next = arena->blocks;
		arena->blocks = block;
		arena->used = 0;
		arena->total += sizeof(*block) + data_size;
	}
	void *memory = block->data + arena->used;
	arena->used += size;
	return memory;
}

char *sp_arena_strndup(struct sp_arena *arena, const char *string, size_t length)
{
	char *copy = sp_arena_alloc(arena, length + 1);
	if (copy) {
		memcpy(copy, string, length);
		copy[length] = '\0';
	}
	return copy;
}

void sp_arena_deinit(struct sp_arena *arena)
{
	while (arena->blocks) {
		struct sp_arena_block *next = arena->blocks->next;
		free(arena->blocks);
		arena->blocks = next;
	}
	arena->used = arena->total = 0;
}
