/* Names and files of an index: numbered while it is made, then packed in blocks of a few dozen. A block is small enough
 * to be unpacked for one name, and large enough for names that share namespaces and template arguments to shrink to a
 * fifth. */
#include "symbolication/index/private.h"

#include <string.h>
#include <zstd.h>

#define LEVEL 1

static uint32_t find(const struct sp_index_strings *strings, uint32_t number, uint8_t kind, const char *text,
                     size_t length)
{
	for (; number; number = strings->items.items[number - 1].next) {
		const struct sp_index_string *s = &strings->items.items[number - 1];
		if (s->length == length && s->kind == kind && memcmp(s->text, text, length) == 0)
			break;
	}
	return number;
}

static uint32_t add(struct sp_index_strings *strings, uint64_t hash, uint32_t first, uint8_t kind, const char *text,
                    size_t length)
{
	char *copy = sp_arena_strndup(&strings->arena, text, length);
	struct sp_index_string string = { copy, (uint32_t)length, first, kind };
	if (!copy || strings->items.count >= UINT32_MAX - 1 || !sp_vector_push(&strings->items, string))
		return 0;
	uint32_t number = (uint32_t)strings->items.count;
	if (!sp_map_put(&strings->by_hash, hash, number)) {
		strings->items.count--;
		return 0;
	}
	return number;
}

uint32_t sp_index_strings_add(struct sp_index_strings *strings, enum sp_index_name_kind kind, const char *text,
                              size_t length)
{
	uint64_t hash = sp_hash_bytes(text, length) + kind;
	pthread_mutex_lock(&strings->lock);
	const uint64_t *known = sp_map_get(&strings->by_hash, hash);
	uint32_t first = known ? (uint32_t)*known : 0;
	uint32_t number = find(strings, first, (uint8_t)kind, text, length);
	if (!number)
		number = add(strings, hash, first, (uint8_t)kind, text, length);
	pthread_mutex_unlock(&strings->lock);
	return number;
}

/* ---- Packing ---- */

/* Some of the strings, packed by one thread. */
struct batch {
	const struct sp_index_strings *strings;
	const uint32_t *numbers;
	size_t count;
	struct sp_index_packed packed; /* without the last offset */
	struct sp_error *error;
};

static struct sp_error *append_string(struct sp_buffer *raw, const struct sp_index_string *string)
{
	char kind = (char)(string->kind + 1);
	struct sp_error *error = sp_buffer_write(raw, &kind, 1);
	if (!error)
		error = sp_buffer_write(raw, string->text, string->length);
	return error ? error : sp_buffer_write(raw, "", 1);
}

static struct sp_error *append_block(struct batch *batch, ZSTD_CCtx *compressor, const struct sp_buffer *raw)
{
	struct sp_buffer *out = &batch->packed.blocks;
	if (!sp_vector_push(&batch->packed.offsets, out->size))
		return sp_error_no_memory();
	size_t bound = ZSTD_compressBound(raw->size);
	if (out->capacity - out->size < bound) {
		size_t capacity = 2 * out->capacity + bound;
		char *larger = realloc(out->bytes, capacity);
		if (!larger)
			return sp_error_no_memory();
		out->bytes = larger;
		out->capacity = capacity;
	}
	size_t size = ZSTD_compressCCtx(compressor, out->bytes + out->size, bound, raw->bytes, raw->size, LEVEL);
	if (ZSTD_isError(size)) /* it fails at nothing else */
		return sp_error_no_memory();
	out->size += size;
	return NULL;
}

static void *pack_batch(void *argument)
{
	struct batch *batch = argument;
	struct sp_buffer raw = { 0 };
	ZSTD_CCtx *compressor = ZSTD_createCCtx();
	batch->error = compressor ? NULL : sp_error_no_memory();
	for (size_t i = 0; i < batch->count && !batch->error; i++) {
		batch->error = append_string(&raw, &batch->strings->items.items[batch->numbers[i] - 1]);
		if (batch->error || ((i + 1) % SP_INDEX_STRINGS_PER_BLOCK && i + 1 < batch->count))
			continue;
		batch->error = append_block(batch, compressor, &raw);
		raw.size = 0;
	}
	ZSTD_freeCCtx(compressor);
	free(raw.bytes);
	return NULL;
}

/* Puts what the second thread made behind the rest. */
static struct sp_error *join(struct sp_index_packed *packed, const struct sp_index_packed *rest)
{
	for (size_t i = 0; i < rest->offsets.count; i++)
		if (!sp_vector_push(&packed->offsets, packed->blocks.size + rest->offsets.items[i]))
			return sp_error_no_memory();
	return rest->blocks.size ? sp_buffer_write(&packed->blocks, rest->blocks.bytes, rest->blocks.size) : NULL;
}

struct sp_error *sp_index_pack(const struct sp_index_strings *strings, const uint32_t *numbers, size_t count,
                               bool helper, struct sp_index_packed *ret)
{
	size_t blocks = count / SP_INDEX_STRINGS_PER_BLOCK;
	size_t half = helper ? blocks / 2 * SP_INDEX_STRINGS_PER_BLOCK : count;
	struct batch first = { .strings = strings, .numbers = numbers, .count = half };
	struct batch second = { .strings = strings, .numbers = half ? numbers + half : numbers, .count = count - half };
	pthread_t thread;
	bool started = second.count && pthread_create(&thread, NULL, pack_batch, &second) == 0;
	pack_batch(&first);
	if (started)
		pthread_join(thread, NULL);
	else if (second.count)
		pack_batch(&second);
	struct sp_error *error = first.error;
	if (error)
		sp_error_destroy(second.error);
	else
		error = second.error;
	if (!error)
		error = join(&first.packed, &second.packed);
	sp_index_packed_deinit(&second.packed);
	if (!error && !sp_vector_push(&first.packed.offsets, first.packed.blocks.size))
		error = sp_error_no_memory();
	if (error)
		sp_index_packed_deinit(&first.packed);
	*ret = first.packed;
	return error;
}

void sp_index_packed_deinit(struct sp_index_packed *packed)
{
	sp_vector_deinit(&packed->offsets);
	free(packed->blocks.bytes);
	packed->blocks = (struct sp_buffer){ 0 };
}
