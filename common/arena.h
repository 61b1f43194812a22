/* An arena: many small allocations freed at once. */
#ifndef SP_COMMON_ARENA_H
#define SP_COMMON_ARENA_H

#include <stddef.h>

struct sp_arena_block;

struct sp_arena {
	struct sp_arena_block *blocks; /* newest first; owned */
	size_t used;                   /* bytes used of the newest block */
	size_t total;                  /* bytes allocated in all blocks, for memory budgets */
};

/* Zeroed storage is an empty arena. Memory is 16-byte aligned and uninitialised; NULL without memory. */
void *sp_arena_alloc(struct sp_arena *arena, size_t size);

/* A NUL-terminated copy of `length` bytes. */
char *sp_arena_strndup(struct sp_arena *arena, const char *string, size_t length);

void sp_arena_deinit(struct sp_arena *arena);

#endif
