/* The string interner of intern.h. */
#include "common/intern.h"

#include <string.h>

uint32_t sp_intern(struct sp_intern *intern, const char *string, size_t length)
{
	if (length >= UINT32_MAX)
		return SP_INTERN_NONE;
	uint64_t hash = sp_hash_bytes(string, length);
	uint64_t *first = sp_map_get(&intern->by_hash, hash);
	uint32_t last = SP_INTERN_NONE;
	if (first) {
		for (uint32_t i = (uint32_t)*first;;) {
			struct sp_interned *entry = &intern->strings.items[i];
			if (entry->length == length && !memcmp(entry->string, string, length))
				return i;
			last = i;
			if (!entry->next)
				break;
			i = entry->next - 1;
		}
	}
	if (intern->strings.count >= UINT32_MAX - 1)
		return SP_INTERN_NONE;
	uint32_t index = (uint32_t)intern->strings.count;
	char *copy = sp_arena_strndup(&intern->arena, string, length);
	if (!copy ||
	    !sp_vector_push(&intern->strings, (struct sp_interned){ .string = copy, .length = (uint32_t)length }))
		return SP_INTERN_NONE;
	if (last != SP_INTERN_NONE) {
		intern->strings.items[last].next = index + 1;
	} else if (!sp_map_put(&intern->by_hash, hash, index)) {
		intern->strings.count--;
		return SP_INTERN_NONE;
	}
	return index;
}

void sp_intern_deinit(struct sp_intern *intern)
{
	sp_arena_deinit(&intern->arena);
	sp_map_deinit(&intern->by_hash);
	sp_vector_deinit(&intern->strings);
}
