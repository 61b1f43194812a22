/* Compression: what the writer makes is read by zlib itself; what the decoders read is made by the libraries' own
 * encoders, whole, cut off at each byte, and with bits turned. */
#include "common/compress.h"

#include <lzma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include <cmocka.h>

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

/* Text with repetitions near and far, and some noise. */
static uint8_t *make_data(size_t size, uint32_t seed)
{
	uint8_t *data = malloc(size + 1);
	size_t at = 0;
	while (at < size) {
		size_t length = next_random(&seed) % 60 + 1;
		if (length > size - at)
			length = size - at;
		size_t back = next_random(&seed) % 50000 + length;
		if (back <= at && next_random(&seed) % 4)
			memcpy(data + at, data + at - back, length);
		else
			for (size_t i = 0; i < length; i++)
				data[at + i] = (uint8_t)next_random(&seed);
		at += length;
	}
	return data;
}

/* An independent reader that takes one gzip member, as a browser does, and says where it ended. */
static uint8_t *read_one_member(const uint8_t *in, size_t in_size, size_t *out_size, size_t *used)
{
	z_stream stream = { .next_in = (uint8_t *)(uintptr_t)in, .avail_in = (uInt)in_size };
	assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
	size_t capacity = (size_t)64 << 20;
	uint8_t *out = malloc(capacity);
	stream.next_out = out;
	stream.avail_out = (uInt)capacity;
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	*out_size = stream.total_out;
	*used = stream.total_in;
	inflateEnd(&stream);
	return out;
}

static void write_and_read(size_t size, unsigned threads, size_t piece)
{
	uint8_t *data = make_data(size, (uint32_t)size + threads);
	struct sp_buffer buffer = { 0 };
	struct sp_gzip *gzip;
	assert_null(sp_gzip_create(1, threads, sp_buffer_write, &buffer, &gzip));
	for (size_t at = 0; at < size; at += piece)
		assert_null(sp_gzip_write(gzip, data + at, piece < size - at ? piece : size - at));
	assert_null(sp_gzip_finish(gzip));
	sp_gzip_destroy(gzip);
	size_t out_size, used;
	uint8_t *out = read_one_member((const uint8_t *)buffer.bytes, buffer.size, &out_size, &used);
	assert_int_equal(out_size, size);
	assert_int_equal(used, buffer.size);
	assert_memory_equal(out, data, size);
	free(out);
	free(data);
	free(buffer.bytes);
}

static void test_gzip_is_one_member(void **state)
{
	(void)state;
	static const size_t sizes[] = { 0, 1, 1000, 262143, 262144, 262145, 524288, 3000001 };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (unsigned threads = 0; threads <= 3; threads++) {
			write_and_read(sizes[i], threads, 100003);
			write_and_read(sizes[i], threads, SIZE_MAX);
		}
}

/* Parts among ordinary writes, at the start, at the end, next to each other, empty. The text repeats itself so that a
 * reference from one side of a part to the other would be found out. */
static void parts_and_read(unsigned threads, size_t piece)
{
	size_t size = 2000000;
	uint8_t *data = make_data(size, (uint32_t)piece + threads);
	struct sp_buffer buffer = { 0 };
	struct sp_gzip *gzip;
	assert_null(sp_gzip_create(1, threads, sp_buffer_write, &buffer, &gzip));
	unsigned step = 0;
	for (size_t at = 0; at < size; step++) {
		size_t length = step % 7 == 3 ? 0 : piece < size - at ? piece : size - at;
		if (step % 5 < 3) {
			struct sp_buffer bytes = { 0 };
			struct sp_gzip_part part;
			assert_null(sp_gzip_part(1, data + at, length, sp_buffer_write, &bytes, &part));
			assert_int_equal(part.size, bytes.size);
			assert_null(sp_gzip_put_part(gzip, &part, bytes.bytes));
			free(bytes.bytes);
		} else {
			assert_null(sp_gzip_write(gzip, data + at, length));
		}
		at += length;
	}
	assert_null(sp_gzip_finish(gzip));
	struct sp_error *error = sp_gzip_put_part(gzip, &(struct sp_gzip_part){ 0 }, NULL);
	assert_int_equal(error->code, SP_ERROR_USAGE);
	sp_error_destroy(error);
	sp_gzip_destroy(gzip);
	size_t out_size, used;
	uint8_t *out = read_one_member((const uint8_t *)buffer.bytes, buffer.size, &out_size, &used);
	assert_int_equal(out_size, size);
	assert_int_equal(used, buffer.size);
	assert_memory_equal(out, data, size);
	free(out);
	free(data);
	free(buffer.bytes);
}

static void test_gzip_parts(void **state)
{
	(void)state;
	for (unsigned threads = 0; threads <= 3; threads++) {
		parts_and_read(threads, 1000);
		parts_and_read(threads, 40001);
		parts_and_read(threads, 600000);
	}
}

static void test_gzip_stops_at_the_sinks_error(void **state)
{
	(void)state;
	size_t size = (size_t)20 << 20;
	uint8_t *data = make_data(size, 5);
	for (unsigned threads = 0; threads <= 2; threads++) {
		struct sp_buffer buffer = { .limit = 1 << 20 };
		struct sp_gzip *gzip;
		assert_null(sp_gzip_create(1, threads, sp_buffer_write, &buffer, &gzip));
		struct sp_error *error = sp_gzip_write(gzip, data, size);
		assert_non_null(error);
		assert_int_equal(error->code, SP_ERROR_LIMIT);
		sp_error_destroy(error);
		error = sp_gzip_write(gzip, data, 1);
		assert_int_equal(error->code, SP_ERROR_USAGE);
		sp_error_destroy(error);
		sp_gzip_destroy(gzip);
		free(buffer.bytes);
	}
	struct sp_buffer buffer = { .limit = 3 };
	struct sp_gzip *gzip;
	struct sp_error *error = sp_gzip_create(1, 1, sp_buffer_write, &buffer, &gzip);
	assert_non_null(error);
	sp_error_destroy(error);
	free(buffer.bytes);
	free(data);
}

static size_t encode(enum sp_compression kind, const uint8_t *data, size_t size, uint8_t *out, size_t room)
{
	if (kind == SP_COMPRESSION_ZLIB || kind == SP_COMPRESSION_GZIP) {
		z_stream stream = { .next_in = (uint8_t *)(uintptr_t)data,
			            .avail_in = (uInt)size,
			            .next_out = out,
			            .avail_out = (uInt)room };
		deflateInit2(&stream, 6, Z_DEFLATED, kind == SP_COMPRESSION_GZIP ? 31 : 15, 8, Z_DEFAULT_STRATEGY);
		assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
		deflateEnd(&stream);
		return stream.total_out;
	}
	if (kind == SP_COMPRESSION_ZSTD) {
		ZSTD_CCtx *context = ZSTD_createCCtx();
		ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
		size_t used = ZSTD_compress2(context, out, room, data, size);
		ZSTD_freeCCtx(context);
		assert_false(ZSTD_isError(used));
		return used;
	}
	size_t used = 0;
	assert_int_equal(lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, NULL, data, size, out, &used, room), LZMA_OK);
	return used;
}

#define KINDS 4

static void test_decoders(void **state)
{
	(void)state;
	static const size_t sizes[] = { 0, 1, 70000, 2000000 };
	for (int kind = 0; kind < KINDS; kind++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			size_t size = sizes[i], room = size * 2 + 1000;
			uint8_t *data = make_data(size, 9), *packed = malloc(room), *out = malloc(size + 1);
			size_t packed_size = encode((enum sp_compression)kind, data, size, packed, room);
			out[size] = 0x5a;
			assert_null(sp_decompress_exact((enum sp_compression)kind, packed, packed_size, out, size));
			assert_memory_equal(out, data, size);
			assert_int_equal(out[size], 0x5a);
			uint8_t *grown;
			size_t grown_size;
			assert_null(
			    sp_decompress((enum sp_compression)kind, packed, packed_size, size, &grown, &grown_size));
			assert_int_equal(grown_size, size);
			assert_memory_equal(grown, data, size);
			free(grown);
			/* Another size than the true one, and a limit below it. */
			struct sp_error *error = sp_decompress_exact((enum sp_compression)kind, packed, packed_size,
			                                             out, size + 1);
			assert_non_null(error);
			assert_int_equal(error->code, SP_ERROR_FORMAT);
			sp_error_destroy(error);
			if (size) {
				error = sp_decompress_exact((enum sp_compression)kind, packed, packed_size, out,
				                            size - 1);
				assert_int_equal(error->code, SP_ERROR_FORMAT);
				sp_error_destroy(error);
				error = sp_decompress((enum sp_compression)kind, packed, packed_size, size - 1, &grown,
				                      &grown_size);
				assert_int_equal(error->code, SP_ERROR_LIMIT);
				sp_error_destroy(error);
			}
			free(data);
			free(packed);
			free(out);
		}
}

static void test_damaged_input(void **state)
{
	(void)state;
	enum { SIZE = 3000, ROOM = 8000 };
	uint8_t *data = make_data(SIZE, 3), packed[ROOM], out[SIZE + 1];
	for (int kind = 0; kind < KINDS; kind++) {
		size_t packed_size = encode((enum sp_compression)kind, data, SIZE, packed, sizeof(packed));
		for (size_t cut = 0; cut < packed_size; cut++) {
			uint8_t *grown;
			size_t grown_size;
			struct sp_error *error = sp_decompress((enum sp_compression)kind, packed, cut, 1 << 20, &grown,
			                                       &grown_size);
			assert_non_null(error);
			assert_int_equal(error->code, SP_ERROR_FORMAT);
			sp_error_destroy(error);
			error = sp_decompress_exact((enum sp_compression)kind, packed, cut, out, SIZE);
			assert_non_null(error);
			sp_error_destroy(error);
		}
		unsigned told = 0;
		for (size_t at = 0; at < packed_size; at++) {
			packed[at] ^= 0x10;
			struct sp_error *error = sp_decompress_exact((enum sp_compression)kind, packed, packed_size,
			                                             out, SIZE);
			told += error != NULL;
			sp_error_destroy(error);
			packed[at] ^= 0x10;
		}
		assert_true(told + 8 >= packed_size); /* a few header bits (time, OS, hints) carry no meaning */
	}
	free(data);
}

/* Several streams one after the other, then padding: legal for all but zlib, where linkers have made it too. */
static void test_concatenated(void **state)
{
	(void)state;
	uint8_t packed[400] = { 0 }, out[12];
	for (int kind = 0; kind < KINDS; kind++) {
		size_t first = encode((enum sp_compression)kind, (const uint8_t *)"Hello ", 6, packed, 150);
		size_t second = encode((enum sp_compression)kind, (const uint8_t *)"world.", 6, packed + first, 150);
		assert_null(sp_decompress_exact((enum sp_compression)kind, packed, first + second, out, 12));
		assert_memory_equal(out, "Hello world.", 12);
		packed[first + second] = 'x';
		struct sp_error *error = sp_decompress_exact((enum sp_compression)kind, packed, first + second + 1, out,
		                                             12);
		assert_non_null(error);
		sp_error_destroy(error);
		memset(packed + first + second, 0, 4);
		if (kind == SP_COMPRESSION_ZLIB || kind == SP_COMPRESSION_GZIP)
			assert_null(
			    sp_decompress_exact((enum sp_compression)kind, packed, first + second + 4, out, 12));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gzip_is_one_member),
		cmocka_unit_test(test_gzip_parts),
		cmocka_unit_test(test_gzip_stops_at_the_sinks_error),
		cmocka_unit_test(test_decoders),
		cmocka_unit_test(test_damaged_input),
		cmocka_unit_test(test_concatenated),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
