/* Growable arrays by macro: `SP_VECTOR(uint32_t) v = { 0 };`, then v.items[0 .. v.count). */
#ifndef SP_COMMON_VECTOR_H
#define SP_COMMON_VECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* An array of `type`: items (owned, freed by sp_vector_deinit), count in use, capacity allocated. */
#define SP_VECTOR(type)          \
	struct {                 \
		type *items;     \
		size_t count;    \
		size_t capacity; \
	}

/* Makes room for `extra` more items; false without memory, the vector is then unchanged. */
#define sp_vector_reserve(v, extra) \
	sp_vector_grow((void **)&(v)->items, &(v)->capacity, (v)->count, (extra), sizeof(*(v)->items))

/* Appends one item by value; false without memory. */
#define sp_vector_push(v, ...)                                                                                    \
	((v)->count < (v)->capacity || sp_vector_reserve(v, 1) ? ((v)->items[(v)->count++] = (__VA_ARGS__), true) \
	                                                       : false)

#define sp_vector_deinit(v)                     \
	do {                                    \
		free((v)->items);               \
		(v)->items = NULL;              \
		(v)->count = (v)->capacity = 0; \
	} while (0)

bool sp_vector_grow(void **items, size_t *capacity, size_t count, size_t extra, size_t item_size);

#endif
