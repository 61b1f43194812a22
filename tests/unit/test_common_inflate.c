/* The streaming decoder against zlib: on streams of every level and strategy, on all kinds of data, and on damaged
 * ones, where both must refuse or give the same. */
#include "common/inflate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static uint64_t seed = 7;

static uint32_t below(uint32_t limit)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % limit;
}

/* Noise, text-like, long runs, short periods, or a mix. */
static void fill(uint8_t *bytes, size_t size, unsigned kind)
{
	for (size_t i = 0; i < size; i++) {
		unsigned how = kind == 4 ? (unsigned)(i / 5000) % 4 : kind;
		if (how == 0)
			bytes[i] = (uint8_t)below(256);
		else if (how == 1)
			bytes[i] = (uint8_t)("etaoinshrdlu ,.\n"[below(below(16) + 1)]);
		else if (how == 2)
			bytes[i] = (uint8_t)(i / 3000);
		else
			bytes[i] = i > 30 ? bytes[i - 1 - below(3) * 7] : (uint8_t)i;
	}
}

static uint8_t *compress_with(const uint8_t *bytes, size_t size, int level, int strategy, size_t *ret_size)
{
	z_stream stream = { 0 };
	assert_int_equal(deflateInit2(&stream, level, Z_DEFLATED, 15, 8, strategy), Z_OK);
	*ret_size = deflateBound(&stream, size);
	uint8_t *packed = malloc(*ret_size);
	stream.next_in = (uint8_t *)(uintptr_t)bytes;
	stream.avail_in = (uInt)size;
	stream.next_out = packed;
	stream.avail_out = (uInt)*ret_size;
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	*ret_size = stream.total_out;
	deflateEnd(&stream);
	return packed;
}

struct told {
	const uint8_t *bytes, *expected; /* NULL = anything */
	size_t done, stop_at;
};

static bool on_progress(void *context, size_t done)
{
	struct told *told = context;
	assert_true(done >= told->done);
	if (told->expected)
		assert_memory_equal(told->bytes + told->done, told->expected + told->done, done - told->done);
	told->done = done;
	return done < told->stop_at;
}

static void gives_what_was_packed(void **state)
{
	(void)state;
	static const size_t sizes[] = { 0, 1, 2, 100, 257, 5000, 65536, 700000 };
	static const int strategies[] = { Z_DEFAULT_STRATEGY, Z_HUFFMAN_ONLY, Z_RLE, Z_FIXED, Z_FILTERED };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (unsigned kind = 0; kind < 5; kind++)
			for (int level = 0; level < 10; level += 3)
				for (size_t s = 0; s < 5; s++) {
					size_t size = sizes[i], packed_size;
					uint8_t *bytes = malloc(size + 1), *out = malloc(size + 1);
					fill(bytes, size, kind);
					uint8_t *packed = compress_with(bytes, size, level, strategies[s],
					                                &packed_size);
					struct told told = { out, bytes, 0, SIZE_MAX };
					struct sp_error *error = sp_inflate(packed, packed_size, out, size, on_progress,
					                                    &told);
					if (error)
						fail_msg("size %zu, kind %u, level %d, strategy %zu: %s", size, kind,
						         level, s, error->message);
					assert_int_equal(told.done, size);
					assert_memory_equal(out, bytes, size);
					free(packed);
					free(bytes);
					free(out);
				}
}

/* A damaged stream: what is told before is right, and the decoder accepts it only where zlib gives the same. */
static void damage_is_found(void **state)
{
	(void)state;
	size_t size = 40000, packed_size;
	uint8_t *bytes = malloc(size), *out = malloc(size), *other = malloc(size);
	for (unsigned round = 0; round < 1500; round++) {
		fill(bytes, size, round % 5);
		size_t part = 1 + below((uint32_t)size);
		uint8_t *packed = compress_with(bytes, part, 1 + (int)below(9),
		                                round % 7 ? Z_DEFAULT_STRATEGY : Z_FIXED, &packed_size);
		for (unsigned k = 0; k <= below(3); k++)
			packed[below(4) ? below((uint32_t)packed_size)
			                : below(packed_size < 100 ? (uint32_t)packed_size : 100)] ^=
			    (uint8_t)(1u << below(8));
		if (!below(3))
			packed_size = below((uint32_t)packed_size);
		uint8_t *exact = malloc(packed_size + !packed_size); /* sanitizers see its end */
		memcpy(exact, packed, packed_size);
		struct told told = { out, NULL, 0, SIZE_MAX };
		struct sp_error *error = sp_inflate(exact, packed_size, out, part, on_progress, &told);
		uLongf length = part;
		int status = uncompress(other, &length, exact, packed_size);
		bool good = status == Z_OK && length == part;
		if (good != !error)
			fail_msg("round %u: zlib says %d, sp_inflate %s", round, status,
			         error ? error->message : "yes");
		if (good)
			assert_memory_equal(out, other, part);
		sp_error_destroy(error);
		free(exact);
		free(packed);
	}
	free(bytes);
	free(out);
	free(other);
}

static void can_be_stopped(void **state)
{
	(void)state;
	size_t size = 4000000, packed_size;
	uint8_t *bytes = malloc(size), *out = malloc(size);
	fill(bytes, size, 1);
	uint8_t *packed = compress_with(bytes, size, 6, Z_DEFAULT_STRATEGY, &packed_size);
	struct told told = { out, bytes, 0, 1000000 };
	struct sp_error *error = sp_inflate(packed, packed_size, out, size, on_progress, &told);
	assert_non_null(error);
	assert_int_equal(error->code, SP_ERROR_CANCELLED);
	assert_true(told.done >= 1000000 && told.done < 1500000);
	sp_error_destroy(error);
	free(packed);
	free(bytes);
	free(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_what_was_packed),
		cmocka_unit_test(damage_is_found),
		cmocka_unit_test(can_be_stopped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
