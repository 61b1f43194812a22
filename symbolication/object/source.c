/* See source.h. What was read is noted by blocks. */
#include "symbolication/object/source.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#ifndef _WIN32
#include <sys/mman.h>
#endif

#define BLOCK UINT64_C(4096)
#define READ_MOST (UINT64_C(8) << 20) /* bytes of one read */
#define SIZE_MOST (UINT64_C(1) << 42)

struct sp_source {
	struct spsym_reader reader;
	char *name;     /* owned; for messages */
	uint8_t *bytes; /* owned; room for all of the file */
	size_t size;
	atomic_size_t memory;
	pthread_mutex_t lock; /* guards what follows */
	uint8_t *present;     /* owned; a bit a block */
	bool failed;          /* a read */
	uint64_t failed_at, failed_size;
};

#ifdef _WIN32
static uint8_t *make_room(size_t size)
{
	return calloc(1, size);
}

static void free_room(uint8_t *bytes, size_t size)
{
	(void)size;
	free(bytes);
}
#else
static uint8_t *make_room(size_t size)
{
	void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return bytes == MAP_FAILED ? NULL : bytes;
}

static void free_room(uint8_t *bytes, size_t size)
{
	if (bytes)
		munmap(bytes, size);
}
#endif

static uint64_t count_blocks(uint64_t size)
{
	return (size + BLOCK - 1) / BLOCK;
}

void sp_source_destroy(struct sp_source *source)
{
	if (!source)
		return;
	if (source->reader.close)
		source->reader.close(source->reader.context);
	pthread_mutex_destroy(&source->lock);
	free_room(source->bytes, source->size ? source->size : 1);
	free(source->present);
	free(source->name);
	free(source);
}

struct sp_error *sp_source_create(const struct spsym_reader *reader, const char *name, struct sp_source **ret)
{
	struct sp_source *source = calloc(1, sizeof(*source));
	bool large = reader->size > SIZE_MOST || reader->size > SIZE_MAX / 2;
	if (!source || large) {
		if (reader->close)
			reader->close(reader->context);
		free(source);
		return large ? sp_error_create(SP_ERROR_LIMIT, "%s: %llu bytes are more than can be read", name,
		                               (unsigned long long)reader->size)
		             : sp_error_no_memory();
	}
	source->reader = *reader;
	source->size = (size_t)reader->size;
	pthread_mutex_init(&source->lock, NULL);
	source->name = strdup(name);
	source->bytes = make_room(source->size ? source->size : 1);
	source->present = calloc(1, (size_t)(count_blocks(source->size) / 8 + 1));
	if (!source->name || !source->bytes || !source->present) {
		sp_source_destroy(source);
		return sp_error_no_memory();
	}
	*ret = source;
	return NULL;
}

const uint8_t *sp_source_bytes(const struct sp_source *source, size_t *ret_size)
{
	*ret_size = source->size;
	return source->bytes;
}

size_t sp_source_memory(const struct sp_source *source)
{
	return atomic_load_explicit(&source->memory, memory_order_relaxed);
}

static struct sp_error *failure(const struct sp_source *source)
{
	return sp_error_create(SP_ERROR_SYSTEM, "%s: cannot read %llu bytes at offset 0x%llx", source->name,
	                       (unsigned long long)source->failed_size, (unsigned long long)source->failed_at);
}

struct sp_error *sp_source_failure(struct sp_source *source)
{
	pthread_mutex_lock(&source->lock);
	struct sp_error *error = source->failed ? failure(source) : NULL;
	pthread_mutex_unlock(&source->lock);
	return error;
}

static bool is_present(const struct sp_source *source, uint64_t block)
{
	return source->present[block / 8] >> (block % 8) & 1;
}

/* Reads blocks [first, next), which are missing. */
static bool read_blocks(struct sp_source *source, uint64_t first, uint64_t next)
{
	uint64_t offset = first * BLOCK, end = next * BLOCK < source->size ? next * BLOCK : source->size;
	if (!source->reader.read(source->reader.context, offset, source->bytes + offset, (size_t)(end - offset))) {
		source->failed = true;
		source->failed_at = offset;
		source->failed_size = end - offset;
		return false;
	}
	for (uint64_t block = first; block < next; block++)
		source->present[block / 8] |= (uint8_t)(1u << (block % 8));
	atomic_fetch_add_explicit(&source->memory, (size_t)(end - offset), memory_order_relaxed);
	return true;
}

struct sp_error *sp_source_need(struct sp_source *source, uint64_t offset, uint64_t size)
{
	if (offset >= source->size || !size)
		return NULL;
	uint64_t end = size < source->size - offset ? offset + size : source->size;
	uint64_t block = offset / BLOCK, last = count_blocks(end);
	bool ok = true;
	pthread_mutex_lock(&source->lock);
	while (block < last && ok) {
		uint64_t next = block;
		while (next < last && next - block < READ_MOST / BLOCK && !is_present(source, next))
			next++;
		ok = next == block || read_blocks(source, block, next);
		block = next > block ? next : block + 1;
	}
	struct sp_error *error = ok ? NULL : failure(source);
	pthread_mutex_unlock(&source->lock);
	return error;
}
