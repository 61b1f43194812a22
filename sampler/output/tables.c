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

/* A slot holds a stack's number + 1 in as many bits as numbers need (fewer stacks than slots), and above them a part of
 * its hash: nearly all slots of other stacks are passed without a look at the stacks, which would cost a cache miss. */
struct place {
	size_t slot;  /* where to look first */
	uint32_t tag; /* the part of the hash, in its place */
	uint32_t number_mask;
};

static struct place place_of(const struct sp_tables *tables, uint32_t prefix, uint32_t frame)
{
	uint64_t hash = sp_hash_u64((uint64_t)prefix << 32 | frame);
	struct place place = { .number_mask = (uint32_t)tables->slots.count - 1 };
	place.slot = (size_t)hash & place.number_mask;
	place.tag = (uint32_t)(hash >> 32) & ~place.number_mask;
	return place;
}

/* Doubles the hash table. */
static bool grow_slots(struct sp_tables *tables)
{
	size_t count = tables->slots.count ? tables->slots.count * 2 : 1024;
	if (count > (size_t)1 << 31 || !sp_spool_reserve(&tables->slots, count - tables->slots.count))
		return false;
	tables->slots.count = count;
	memset(tables->slots.items, 0, count * sizeof(*tables->slots.items));
	for (size_t i = 0; i < tables->stacks.count; i++) {
		struct place place = place_of(tables, tables->stacks.items[i].prefix, tables->stacks.items[i].frame);
		while (tables->slots.items[place.slot])
			place.slot = (place.slot + 1) & place.number_mask;
		tables->slots.items[place.slot] = place.tag | ((uint32_t)i + 1);
	}
	return true;
}

uint32_t sp_tables_stack(struct sp_tables *tables, uint32_t prefix, uint32_t frame)
{
	if (tables->stacks.count >= tables->slots.count / 8 * 5 && !grow_slots(tables))
		return SP_INDEX_NONE;
	struct place place = place_of(tables, prefix, frame);
	for (uint32_t at; (at = tables->slots.items[place.slot]); place.slot = (place.slot + 1) & place.number_mask) {
		if ((at & ~place.number_mask) != place.tag)
			continue;
		uint32_t number = (at & place.number_mask) - 1;
		const struct sp_stack_entry *entry = &tables->stacks.items[number];
		if (entry->frame == frame && entry->prefix == prefix)
			return number;
	}
	if (!sp_spool_push(&tables->stacks, (struct sp_stack_entry){ .frame = frame, .prefix = prefix }))
		return SP_INDEX_NONE;
	tables->slots.items[place.slot] = place.tag | (uint32_t)tables->stacks.count;
	return (uint32_t)tables->stacks.count - 1;
}

void sp_tables_deinit(struct sp_tables *tables)
{
	sp_vector_deinit(&tables->frames);
	sp_map_deinit(&tables->frame_by_hash);
	sp_spool_deinit(&tables->stacks);
	sp_spool_deinit(&tables->slots);
}
