/* What the files that answer look-ups share (lookup.c, lookup_index.c). */
#ifndef SP_SYMBOLICATION_LOOKUP_H
#define SP_SYMBOLICATION_LOOKUP_H

#include "symbolication/module.h"
#include "symbolication/sort.h"

/* Frames stay where they are while more come: they are in blocks, each larger than the one before. */
struct sp_frame_block {
	struct sp_frame_block *next;
	size_t used, capacity;
	struct spsym_frame frames[];
};

/* spsym_result.storage */
struct sp_result_storage {
	struct sp_frame_block *blocks, *block; /* owned; the one in use */
	struct sp_keyed *order;                /* owned; addresses sorted, with their place in the request */
	uint64_t *addresses;                   /* owned; those, as svmas of the debug file */
	size_t capacity, order_capacity;       /* of the locations; of these two */
};

/* Room for frames; NULL without memory. */
struct spsym_frame *sp_result_frames(struct sp_result_storage *storage, size_t count);
/* Sorts addresses into storage->order; false without memory. */
bool sp_result_sort(struct sp_result_storage *storage, const uint64_t *addresses, size_t count);

/* The name of the outermost frame: what the symbol says, where that is the same name, more fully qualified. */
const char *sp_outermost_name(const char *name, const char *symbol);

/* Answers from an index. *ret_damaged: it can't be used; nothing is said then. */
struct sp_error *sp_lookup_index(struct spsym_module *module, struct sp_indexed *indexed, const uint64_t *addresses,
                                 size_t count, bool frames, struct spsym_result *result, bool *ret_damaged);
/* The module's symbols from an index, in the order of addresses; the caller frees *ret. */
struct sp_error *sp_symbols_index(struct spsym_module *module, struct sp_indexed *indexed, struct spsym_symbol **ret,
                                  size_t *ret_count, bool *ret_damaged);

#endif
