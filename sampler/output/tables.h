/* The tables that all threads of a profile share while it is built: frames and stacks, each kept once. */
#ifndef SP_SAMPLER_OUTPUT_TABLES_H
#define SP_SAMPLER_OUTPUT_TABLES_H

#include "common/map.h"
#include "common/vector.h"
#include "sampler/output/spool.h"

#include <stdbool.h>
#include <stdint.h>

#define SP_INDEX_NONE UINT32_MAX

/* Categories of the profile, by number; names and colours are in write_meta.c. */
enum sp_category {
	SP_CATEGORY_OTHER,
	SP_CATEGORY_USER,
	SP_CATEGORY_KERNEL,
	SP_CATEGORY_JIT,
	SP_CATEGORY_KERNEL_UNSAMPLED,
	SP_CATEGORY_TRUNCATED,
	SP_CATEGORY_SPLICED,
	SP_CATEGORY_GUEST,
	SP_CATEGORY_OFF_CPU,
	SP_CATEGORY_COUNT,
};

/* Subcategories of user, kernel, JIT and guest frames. */
enum sp_subcategory {
	SP_SUBCATEGORY_OTHER,
	SP_SUBCATEGORY_FRAME_POINTER,
	SP_SUBCATEGORY_GUESS,
	SP_SUBCATEGORY_SPLICED_CHAIN,
	SP_SUBCATEGORY_SPLICED_STACK,
};

enum sp_frame_entry_kind {
	SP_ENTRY_MODULE,  /* target: module handle; address: relative to it */
	SP_ENTRY_JIT,     /* target: string number of the name */
	SP_ENTRY_LABEL,   /* target: string number of the text */
	SP_ENTRY_UNKNOWN, /* target: process handle, SP_INDEX_NONE for the kernel; address: absolute */
};

struct sp_frame_entry {
	uint64_t address;
	uint32_t target;
	uint8_t kind;        /* enum sp_frame_entry_kind */
	uint8_t category;    /* enum sp_category */
	uint8_t subcategory; /* enum sp_subcategory */
	uint8_t spare;       /* 0 */
};

struct sp_stack_entry {
	uint32_t frame;
	uint32_t prefix; /* SP_INDEX_NONE at a root; else below the entry's own number */
};

/* Of the hash table of stacks. */
struct sp_stack_slot {
	uint32_t number; /* of the stack + 1; 0 = free */
	uint32_t hash;
};

struct sp_tables {
	SP_VECTOR(struct sp_frame_entry) frames;
	struct sp_map frame_by_hash; /* hash (plus probes) -> frame */
	SP_SPOOL(struct sp_stack_entry) stacks;
	SP_SPOOL(struct sp_stack_slot)
	slots;        /* of stacks that do not follow their prefix; count: a power of two or 0 */
	size_t forks; /* slots in use */
};

void sp_tables_init(struct sp_tables *tables, const char *folder);
/* The number of a frame or stack, made when it is new; SP_INDEX_NONE without memory. */
uint32_t sp_tables_frame(struct sp_tables *tables, const struct sp_frame_entry *frame);
uint32_t sp_tables_stack(struct sp_tables *tables, uint32_t prefix, uint32_t frame);
void sp_tables_deinit(struct sp_tables *tables);

#endif
