/* What code a process has mapped where. Shared between a process and its forks until one of them changes it. */
#ifndef SP_SAMPLER_RECORD_ADDRESS_SPACE_H
#define SP_SAMPLER_RECORD_ADDRESS_SPACE_H

#include "sampler/record/module.h"
#include "sampler/unwind/unwind.h"

struct sp_mapping {
	uint64_t start, end;
	uint64_t file_offset;     /* of start */
	uint64_t time;            /* when it was made */
	struct sp_module *module; /* NULL: code that no file is behind */
};

struct sp_code_ranges; /* a code map with its ranges */

/* Counted by the reader thread alone; constant while more than one refers to it. */
struct sp_space {
	uint32_t references;
	struct sp_mapping *mappings; /* owned; sorted, without overlap */
	size_t count, capacity;
	_Atomic(struct sp_code_ranges *) code; /* owned; made by the first worker that needs it */
};

struct sp_space *sp_space_create(void);
struct sp_space *sp_space_reference(struct sp_space *space);
void sp_space_release(struct sp_space *space);

/* Puts a mapping (its module's user is taken over) into *space, which is replaced by a copy when others refer to it.
 * What it overlaps is cut. False without memory; the module's user is dropped then. */
bool sp_space_map(struct sp_space **space, const struct sp_mapping *mapping);
/* *ret_any: whether something was there. */
bool sp_space_unmap(struct sp_space **space, uint64_t start, uint64_t end, bool *ret_any);

/* What the unwinder sees; waits until all modules are ready. Any thread that holds a reference through the reader. NULL
 * without memory. */
const struct sp_code_map *sp_space_code(struct sp_space *space);

#endif
