/* Growable arrays that move into a file when they get large.
 *
 * What grows with the length of a recording must not stay in anonymous memory. A spool starts on the heap; past
 * SP_SPOOL_HEAP bytes it becomes a shared mapping of a nameless file in a given folder, which the OS may write back and
 * drop at will. Where no such file can be had (disk full, OS without the means) it stays on the heap. */
#ifndef SP_SAMPLER_OUTPUT_SPOOL_H
#define SP_SAMPLER_OUTPUT_SPOOL_H

#include <stdbool.h>
#include <stddef.h>

#define SP_SPOOL_HEAP ((size_t)1 << 20)

struct sp_spool_store {
	const char *folder; /* borrowed; NULL = heap only */
	int file;           /* descriptor + 1; 0 = the items are on the heap */
};

/* An array of `type`: items[0 .. count) in use, capacity allocated. Zeroed storage (but for store.folder) is empty. */
#define SP_SPOOL(type)                       \
	struct {                             \
		type *items;                 \
		size_t count;                \
		size_t capacity;             \
		struct sp_spool_store store; \
	}

/* Makes room for `extra` more items, whose bytes are not initialised; false without memory. */
#define sp_spool_reserve(s, extra)                        \
	((s)->capacity - (s)->count >= (size_t)(extra) || \
	 sp_spool_grow((void **)&(s)->items, &(s)->capacity, (s)->count, (extra), sizeof(*(s)->items), &(s)->store))

/* Appends one item by value; false without memory. */
#define sp_spool_push(s, ...) (sp_spool_reserve(s, 1) ? ((s)->items[(s)->count++] = (__VA_ARGS__), true) : false)

#define sp_spool_deinit(s)                                                                      \
	do {                                                                                    \
		sp_spool_release((s)->items, (s)->capacity * sizeof(*(s)->items), &(s)->store); \
		(s)->items = NULL;                                                              \
		(s)->count = (s)->capacity = 0;                                                 \
	} while (0)

bool sp_spool_grow(void **items, size_t *capacity, size_t count, size_t extra, size_t item_size,
                   struct sp_spool_store *store);
void sp_spool_release(void *items, size_t bytes, struct sp_spool_store *store);

#endif
