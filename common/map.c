/* The 64-bit hash map of map.h. */
#include "common/map.h"

#include <stdlib.h>
#include <string.h>

static size_t find_slot(const struct sp_map *map, uint64_t key)
{
	size_t mask = map->capacity - 1;
	size_t i = (size_t)sp_hash_u64(key) & mask;
	while (map->used[i] && map->slots[i].key != key)
		i = (i + 1) & mask;
	return i;
}

uint64_t *sp_map_get(const struct sp_map *map, uint64_t key)
{
	if (!map->capacity)
		return NULL;
	size_t i = find_slot(map, key);
	return map->used[i] ? &map->slots[i].value : NULL;
}

static bool resize(struct sp_map *map, size_t capacity)
{
	struct sp_map grown = { .capacity = capacity };
	grown.slots = malloc(capacity * sizeof(*grown.slots));
	grown.used = calloc(capacity, 1);
	if (!grown.slots || !grown.used) {
		free(grown.slots);
		free(grown.used);
		return false;
	}
	for (size_t i = 0; i < map->capacity; i++) {
		if (!map->used[i])
			continue;
		size_t slot = find_slot(&grown, map->slots[i].key);
		grown.used[slot] = 1;
		grown.slots[slot] = map->slots[i];
	}
	free(map->slots);
	free(map->used);
	map->slots = grown.slots;
	map->used = grown.used;
	map->capacity = capacity;
	return true;
}

bool sp_map_put(struct sp_map *map, uint64_t key, uint64_t value)
{
	if (map->count + 1 > map->capacity / 4 * 3 && !resize(map, map->capacity ? map->capacity * 2 : 16))
		return false;
	size_t i = find_slot(map, key);
	if (!map->used[i]) {
		map->used[i] = 1;
		map->slots[i].key = key;
		map->count++;
	}
	map->slots[i].value = value;
	return true;
}

bool sp_map_remove(struct sp_map *map, uint64_t key)
{
	if (!map->capacity)
		return false;
	size_t mask = map->capacity - 1;
	size_t hole = find_slot(map, key);
	if (!map->used[hole])
		return false;
	/* Close the gap: move back each later entry of the run whose home lies at or before the hole. */
	for (size_t i = (hole + 1) & mask; map->used[i]; i = (i + 1) & mask) {
		size_t home = (size_t)sp_hash_u64(map->slots[i].key) & mask;
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			map->slots[hole] = map->slots[i];
			hole = i;
		}
	}
	map->used[hole] = 0;
	map->count--;
	return true;
}

void sp_map_clear(struct sp_map *map)
{
	if (map->capacity)
		memset(map->used, 0, map->capacity);
	map->count = 0;
}

void sp_map_deinit(struct sp_map *map)
{
	free(map->slots);
	free(map->used);
	*map = (struct sp_map){ 0 };
}

uint64_t sp_hash_bytes(const void *bytes, size_t size)
{
	const unsigned char *at = bytes;
	uint64_t hash = 0x9e3779b97f4a7c15u ^ size;
	while (size >= 8) {
		uint64_t word;
		memcpy(&word, at, sizeof(word));
		hash = sp_hash_u64(hash ^ word);
		at += 8;
		size -= 8;
	}
	uint64_t tail = 0;
	if (size)
		memcpy(&tail, at, size);
	return sp_hash_u64(hash ^ tail ^ (uint64_t)size << 56);
}
