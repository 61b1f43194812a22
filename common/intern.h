/* A string interner: equal strings get equal small numbers, in order of first appearance. */
#ifndef SP_COMMON_INTERN_H
#define SP_COMMON_INTERN_H

#include "common/arena.h"
#include "common/map.h"
#include "common/vector.h"

#include <stdint.h>

struct sp_interned {
	const char *string; /* NUL-terminated, owned by the interner's arena */
	uint32_t length;
	uint32_t next; /* next index + 1 with the same hash, 0 = none */
};

/* Zeroed storage is empty. */
struct sp_intern {
	struct sp_arena arena;
	struct sp_map by_hash; /* hash -> first index */
	SP_VECTOR(struct sp_interned) strings;
};

#define SP_INTERN_NONE UINT32_MAX

/* The string's index, SP_INTERN_NONE without memory. */
uint32_t sp_intern(struct sp_intern *intern, const char *string, size_t length);

/* The string of an index that sp_intern() returned; valid as long as the interner. */
static inline const char *sp_intern_string(const struct sp_intern *intern, uint32_t index)
{
	return intern->strings.items[index].string;
}

void sp_intern_deinit(struct sp_intern *intern);

#endif
