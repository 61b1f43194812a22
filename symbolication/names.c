/* A hash table from raw name pointers to readable names: readers take no lock. A full table is replaced by a larger
 * one; the old ones, together smaller than the new one, are kept for readers that are still in them. */
#include "symbolication/names.h"

#include "spsym.h"

#include "common/intern.h"
#include "symbolication/demangle/demangle.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 256 };

struct slot {
	_Atomic(const char *) key;
	const char *value; /* written before the key */
};

struct table {
	struct table *older;
	size_t capacity; /* a power of two */
	struct slot slots[];
};

struct sp_names {
	_Atomic(struct table *) table;
	bool raw;
	pthread_mutex_t lock; /* guards everything below, and writing to the table */
	size_t count;         /* keys in the table */
	struct sp_intern strings;
	struct sp_buffer scratch;
	atomic_size_t memory;
};

static struct table *table_create(size_t capacity, struct table *older)
{
	struct table *table = calloc(1, sizeof(*table) + capacity * sizeof(struct slot));
	if (table) {
		table->capacity = capacity;
		table->older = older;
	}
	return table;
}

struct sp_names *sp_names_create(bool raw)
{
	struct sp_names *names = calloc(1, sizeof(*names));
	struct table *table = names ? table_create(FIRST_CAPACITY, NULL) : NULL;
	if (!table) {
		free(names);
		return NULL;
	}
	atomic_store(&names->table, table);
	names->raw = raw;
	pthread_mutex_init(&names->lock, NULL);
	return names;
}

void sp_names_destroy(struct sp_names *names)
{
	if (!names)
		return;
	struct table *table = atomic_load(&names->table);
	while (table) {
		struct table *older = table->older;
		free(table);
		table = older;
	}
	sp_intern_deinit(&names->strings);
	free(names->scratch.bytes);
	pthread_mutex_destroy(&names->lock);
	free(names);
}

static size_t first_slot(const struct table *table, const char *key)
{
	return sp_hash_u64((uint64_t)(uintptr_t)key) & (table->capacity - 1);
}

/* The value of `key`, or NULL. Tables are never full. */
static const char *find(struct table *table, const char *key)
{
	for (size_t at = first_slot(table, key);; at = (at + 1) & (table->capacity - 1)) {
		const char *found = atomic_load_explicit(&table->slots[at].key, memory_order_acquire);
		if (found == key)
			return table->slots[at].value;
		if (!found)
			return NULL;
	}
}

/* Adds a key that is not there; under the lock. */
static void put(struct table *table, const char *key, const char *value)
{
	size_t at = first_slot(table, key);
	while (atomic_load_explicit(&table->slots[at].key, memory_order_relaxed))
		at = (at + 1) & (table->capacity - 1);
	table->slots[at].value = value;
	atomic_store_explicit(&table->slots[at].key, key, memory_order_release);
}

/* Makes room for one more key; false without memory. */
static bool reserve(struct sp_names *names)
{
	struct table *table = atomic_load_explicit(&names->table, memory_order_relaxed);
	if (names->count + 1 <= table->capacity / 4 * 3)
		return true;
	struct table *larger = table_create(table->capacity * 2, table);
	if (!larger)
		return false;
	for (size_t i = 0; i < table->capacity; i++) {
		const char *key = atomic_load_explicit(&table->slots[i].key, memory_order_relaxed);
		if (key)
			put(larger, key, table->slots[i].value);
	}
	atomic_fetch_add(&names->memory, larger->capacity * sizeof(struct slot));
	atomic_store_explicit(&names->table, larger, memory_order_release);
	return true;
}

/* Under the lock. */
static const char *copy(struct sp_names *names, const char *string, size_t length)
{
	size_t before = names->strings.arena.total;
	uint32_t index = sp_intern(&names->strings, string, length);
	atomic_fetch_add(&names->memory, names->strings.arena.total - before);
	return index == SP_INTERN_NONE ? NULL : sp_intern_string(&names->strings, index);
}

/* Keeps the readable form of a name, NULL = there is none, unless another thread was faster. */
static const char *keep(struct sp_names *names, const char *name, const struct sp_buffer *made)
{
	pthread_mutex_lock(&names->lock);
	const char *readable = find(atomic_load_explicit(&names->table, memory_order_relaxed), name);
	if (!readable) {
		readable = made ? copy(names, made->bytes, made->size) : NULL;
		readable = readable ? readable : name;
		if (reserve(names)) {
			put(atomic_load_explicit(&names->table, memory_order_relaxed), name, readable);
			names->count++;
		}
	}
	pthread_mutex_unlock(&names->lock);
	return readable;
}

const char *sp_names_get(struct sp_names *names, const char *name)
{
	if (names->raw || (name[0] != '_' && name[0] != 'c')) /* what sp_demangle() tries */
		return name;
	const char *readable = find(atomic_load_explicit(&names->table, memory_order_acquire), name);
	if (readable)
		return readable;
	struct sp_buffer made = { 0 }; /* without the lock: it takes longer than all else */
	bool mangled = sp_demangle(name, &made);
	readable = keep(names, name, mangled ? &made : NULL);
	free(made.bytes);
	return readable;
}

const char *sp_names_copy(struct sp_names *names, const char *string)
{
	pthread_mutex_lock(&names->lock);
	const char *result = copy(names, string, strlen(string));
	pthread_mutex_unlock(&names->lock);
	return result;
}

const char *sp_names_readable(struct sp_names *names, const char *name)
{
	pthread_mutex_lock(&names->lock);
	names->scratch.size = 0;
	bool readable = !names->raw && sp_demangle(name, &names->scratch);
	const char *result = readable ? copy(names, names->scratch.bytes, names->scratch.size)
	                              : copy(names, name, strlen(name));
	pthread_mutex_unlock(&names->lock);
	return result;
}

size_t sp_names_memory(const struct sp_names *names)
{
	return atomic_load(&names->memory);
}

struct sp_error *spsym_demangle(const char *name, enum spsym_demangle_style style, char **ret)
{
	static const enum sp_demangle_style styles[] = { SP_DEMANGLE_PLAIN, SP_DEMANGLE_BINUTILS, SP_DEMANGLE_LLVM };
	struct sp_buffer text = { 0 };
	*ret = NULL;
	if (!sp_demangle_as(name, styles[style], &text)) {
		free(text.bytes);
		return NULL;
	}
	struct sp_error *error = sp_buffer_write(&text, "", 1);
	if (error)
		free(text.bytes);
	else
		*ret = text.bytes;
	return error;
}
