/* The interned tables of tables.h. */
#include "sampler/output/tables.h"

#include <string.h>

void sp_tables_init(struct sp_tables *tables, const char *folder)
{
	*tables = (struct sp_tables){ 0 };
	tables->stacks.store.folder = folder;
	tables->slots.store.folder = folder;
}

uint32_t sp_tables_frame(struct sp_tables *tables, const struct sp_frame_entry *frame)
{
	uint64_t key = sp_hash_bytes(frame, sizeof(*frame));
	for (uint64_t *found; (found = sp_map_get(&tables->frame_by_hash, key)); key++)
		if (!memcmp(&tables->frames.items[*found], frame, sizeof(*frame)))
			return (uint32_t)*found;
	uint32_t index = (uint32_t)tables->frames.count;
	if (tables->frames.count >= INT32_MAX || !sp_vector_reserve(&tables->frames, 1) ||
	    !sp_map_put(&tables->frame_by_hash, key, index))
		return SP_INDEX_NONE;
	tables->frames.items[tables->frames.count++] = *frame;
	return index;
}

static size_t home_slot(const struct sp_tables *tables, uint32_t prefix, uint32_t frame)
{
	return (size_t)sp_hash_u64((uint64_t)prefix << 32 | frame) & (tables->slots.count - 1);
}

/* Doubles the hash table. */
static bool grow_slots(struct sp_tables *tables)
{
	size_t count = tables->slots.count ? tables->slots.count * 2 : 1024;
	if (!sp_spool_reserve(&tables->slots, count - tables->slots.count))
		return false;
	tables->slots.count = count;
	memset(tables->slots.items, 0, count * sizeof(*tables->slots.items));
	for (size_t i = 0; i < tables->stacks.count; i++) {
		size_t slot = home_slot(tables, tables->stacks.items[i].prefix, tables->stacks.items[i].frame);
		while (tables->slots.items[slot])
			slot = (slot + 1) & (count - 1);
		tables->slots.items[slot] = (uint32_t)i + 1;
	}
	return true;
}

uint32_t sp_tables_stack(struct sp_tables *tables, uint32_t prefix, uint32_t frame)
{
	if (tables->stacks.count >= tables->slots.count / 4 * 3 && !grow_slots(tables))
		return SP_INDEX_NONE;
	size_t slot = home_slot(tables, prefix, frame);
	for (uint32_t at; (at = tables->slots.items[slot]); slot = (slot + 1) & (tables->slots.count - 1)) {
		const struct sp_stack_entry *entry = &tables->stacks.items[at - 1];
		if (entry->frame == frame && entry->prefix == prefix)
			return at - 1;
	}
	if (tables->stacks.count >= INT32_MAX ||
	    !sp_spool_push(&tables->stacks, (struct sp_stack_entry){ .frame = frame, .prefix = prefix }))
		return SP_INDEX_NONE;
	tables->slots.items[slot] = (uint32_t)tables->stacks.count;
	return (uint32_t)tables->stacks.count - 1;
}

void sp_tables_deinit(struct sp_tables *tables)
{
	sp_vector_deinit(&tables->frames);
	sp_map_deinit(&tables->frame_by_hash);
	sp_spool_deinit(&tables->stacks);
	sp_spool_deinit(&tables->slots);
}
