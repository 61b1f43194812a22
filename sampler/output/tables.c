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

/* A stack that was appended right after its prefix is found there: prefix + 1. That is nearly every one, as a new stack
 * brings its frames one after the other; only those that fork off elsewhere are in the hash table. SP_INDEX_NONE + 1 is
 * 0, so the first root is one of the former. */

/* Whether the stack is found without the hash table. */
static bool follows_prefix(const struct sp_tables *tables, uint32_t number)
{
	return tables->stacks.items[number].prefix + 1 == number;
}

static uint32_t hash_of(uint32_t prefix, uint32_t frame)
{
	return (uint32_t)sp_hash_u64((uint64_t)prefix << 32 | frame);
}

/* The slot of a stack, or the free one where it would be. Most slots of other stacks are passed without a look at the
 * stacks, which would cost a cache miss. */
static struct sp_stack_slot *find_slot(const struct sp_tables *tables, uint32_t prefix, uint32_t frame, uint32_t hash)
{
	size_t mask = tables->slots.count - 1;
	for (size_t i = hash & mask;; i = (i + 1) & mask) {
		struct sp_stack_slot *slot = &tables->slots.items[i];
		if (!slot->number)
			return slot;
		const struct sp_stack_entry *entry = &tables->stacks.items[slot->number - 1];
		if (slot->hash == hash && entry->frame == frame && entry->prefix == prefix)
			return slot;
	}
}

/* Doubles the hash table. */
static bool grow_slots(struct sp_tables *tables)
{
	size_t count = tables->slots.count ? tables->slots.count * 2 : 1024;
	if (count > (size_t)1 << 31 || !sp_spool_reserve(&tables->slots, count - tables->slots.count))
		return false;
	tables->slots.count = count;
	memset(tables->slots.items, 0, count * sizeof(*tables->slots.items));
	for (uint32_t i = 0; i < tables->stacks.count; i++) {
		if (follows_prefix(tables, i))
			continue;
		const struct sp_stack_entry *entry = &tables->stacks.items[i];
		uint32_t hash = hash_of(entry->prefix, entry->frame);
		*find_slot(tables, entry->prefix, entry->frame, hash) = (struct sp_stack_slot){ .number = i + 1,
			                                                                        .hash = hash };
	}
	return true;
}

static uint32_t append_stack(struct sp_tables *tables, uint32_t prefix, uint32_t frame)
{
	if (tables->stacks.count >= INT32_MAX ||
	    !sp_spool_push(&tables->stacks, (struct sp_stack_entry){ .frame = frame, .prefix = prefix }))
		return SP_INDEX_NONE;
	return (uint32_t)tables->stacks.count - 1;
}

uint32_t sp_tables_stack(struct sp_tables *tables, uint32_t prefix, uint32_t frame)
{
	uint32_t next = prefix + 1;
	if (next == tables->stacks.count)
		return append_stack(tables, prefix, frame);
	if (tables->stacks.items[next].frame == frame && tables->stacks.items[next].prefix == prefix)
		return next;
	if (tables->forks >= tables->slots.count / 8 * 5 && !grow_slots(tables))
		return SP_INDEX_NONE;
	uint32_t hash = hash_of(prefix, frame);
	struct sp_stack_slot *slot = find_slot(tables, prefix, frame, hash);
	if (slot->number)
		return slot->number - 1;
	uint32_t number = append_stack(tables, prefix, frame);
	if (number == SP_INDEX_NONE)
		return SP_INDEX_NONE;
	*slot = (struct sp_stack_slot){ .number = number + 1, .hash = hash };
	tables->forks++;
	return number;
}

void sp_tables_deinit(struct sp_tables *tables)
{
	sp_vector_deinit(&tables->frames);
	sp_map_deinit(&tables->frame_by_hash);
	sp_spool_deinit(&tables->stacks);
	sp_spool_deinit(&tables->slots);
}
