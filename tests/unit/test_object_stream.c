/* A section that is inflated in the background: what was waited for is there, corruption costs what lies behind it, and
 * it can be closed at any time. */
#include "symbolication/object/stream.h"

#include "common/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define SIZE ((size_t)8 << 20)

static uint8_t *plain, *packed;
static size_t packed_size;

static int setup(void **state)
{
	(void)state;
	uint32_t x = 7;
	plain = malloc(SIZE);
	for (size_t i = 0; i < SIZE; i++) {
		x = x * 1664525 + 1013904223;
		plain[i] = (uint8_t)((x >> 24) % 23 + (i >> 16));
	}
	uLongf size = compressBound(SIZE);
	packed = malloc(size);
	assert_int_equal(compress2(packed, &size, plain, SIZE, 1), Z_OK);
	packed_size = size;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(plain);
	free(packed);
	return 0;
}

static struct sp_stream *begin(const uint8_t *in, size_t size)
{
	struct sp_stream *stream;
	struct sp_error *error = sp_stream_create(in, size, SIZE, &stream);
	if (error)
		fail_msg("%s", error->message);
	return stream;
}

static void *use(void *argument)
{
	struct sp_stream *stream = argument;
	size_t size;
	const uint8_t *bytes = sp_stream_bytes(stream, &size);
	for (size_t end = 1; end <= SIZE; end += end / 3 + 1000) {
		struct sp_error *error = sp_stream_wait(stream, end);
		assert_null(error);
		assert_memory_equal(bytes, plain, end);
	}
	assert_null(sp_stream_wait(stream, SIZE));
	assert_memory_equal(bytes, plain, SIZE);
	return NULL;
}

static void gives_what_was_waited_for(void **state)
{
	(void)state;
	struct sp_stream *stream = begin(packed, packed_size);
	pthread_t other;
	assert_int_equal(pthread_create(&other, NULL, use, stream), 0);
	use(stream);
	pthread_join(other, NULL);
	sp_stream_destroy(stream);
}

static void corruption_costs_what_is_behind(void **state)
{
	(void)state;
	uint8_t *copy = malloc(packed_size);
	memcpy(copy, packed, packed_size);
	memset(copy + packed_size / 2, 0xff, 200);
	struct sp_stream *stream = begin(copy, packed_size);
	size_t size;
	const uint8_t *bytes = sp_stream_bytes(stream, &size);
	assert_null(sp_stream_wait(stream, SIZE / 4));
	assert_memory_equal(bytes, plain, SIZE / 4);
	struct sp_error *error = sp_stream_wait(stream, SIZE);
	assert_non_null(error);
	sp_error_destroy(error);
	error = sp_stream_wait(stream, SIZE - 1);
	assert_non_null(error);
	sp_error_destroy(error);
	assert_null(sp_stream_wait(stream, SIZE / 4));
	sp_stream_destroy(stream);
	/* A checksum that is wrong shows at the end. */
	memcpy(copy, packed, packed_size);
	copy[packed_size - 1] ^= 1;
	stream = begin(copy, packed_size);
	error = sp_stream_wait(stream, SIZE);
	assert_non_null(error);
	sp_error_destroy(error);
	sp_stream_destroy(stream);
	free(copy);
}

static void can_be_closed_early(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		struct sp_stream *stream = begin(packed, packed_size);
		if (i % 2)
			assert_null(sp_stream_wait(stream, SIZE / 40 * i));
		sp_stream_destroy(stream);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_what_was_waited_for),
		cmocka_unit_test(corruption_costs_what_is_behind),
		cmocka_unit_test(can_be_closed_early),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
