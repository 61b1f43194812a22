/* A hash map from a 64-bit key to a 64-bit value, and a mixer to make such keys. */
#ifndef SP_COMMON_MAP_H
#define SP_COMMON_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sp_map_slot {
	uint64_t key;
	uint64_t value;
};

/* Open addressing with linear probing. Zeroed storage is an empty map. */
struct sp_map {
	struct sp_map_slot *slots; /* owned; `capacity` of them */
	uint8_t *used;             /* owned; one flag a slot */
	size_t capacity;           /* a power of two, or 0 */
	size_t count;              /* keys held */
};

/* A pointer to the key's value, or NULL. Valid until the next sp_map_put(). */
uint64_t *sp_map_get(const struct sp_map *map, uint64_t key);

/* Sets the key's value; false without memory. */
bool sp_map_put(struct sp_map *map, uint64_t key, uint64_t value);

/* Takes the key out; true if it was there. */
bool sp_map_remove(struct sp_map *map, uint64_t key);

/* Forgets all keys, keeps the storage. */
void sp_map_clear(struct sp_map *map);
void sp_map_deinit(struct sp_map *map);

/* A bijective mix of 64 bits (the finaliser of splitmix64). */
static inline uint64_t sp_hash_u64(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* Hash of bytes (wyhash-like folding over 8-byte words); not for hostile inputs that must not collide. */
uint64_t sp_hash_bytes(const void *bytes, size_t size);

#endif
