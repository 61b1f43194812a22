/* Fuzzes the streaming zlib decoder against zlib: both accept the same streams and give the same bytes. The input: how
 * many bytes are expected (3 bytes, little-endian), then the stream. */
#include "common/inflate.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool go_on(void *context, size_t done)
{
	*(size_t *)context = done;
	return true;
}

/* What zlib makes of it: its status, and the bytes that it wrote. */
static int with_zlib(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size, size_t *ret_size)
{
	z_stream stream = { .next_in = (uint8_t *)(uintptr_t)in,
		            .avail_in = (uInt)in_size,
		            .next_out = out,
		            .avail_out = (uInt)out_size };
	if (inflateInit(&stream) != Z_OK)
		abort();
	int status = inflate(&stream, Z_FINISH);
	*ret_size = stream.total_out;
	inflateEnd(&stream);
	return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 3)
		return 0;
	size_t expected = (data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16) % (1u << 20), done = 0,
	       other_size = 0;
	uint8_t *out = calloc(1, expected + 1), *other = calloc(1, expected + 1);
	if (!out || !other)
		abort();
	struct sp_error *error = sp_inflate(data + 3, size - 3, out, expected, go_on, &done);
	int status = with_zlib(data + 3, size - 3, other, expected, &other_size);
	bool good = status == Z_STREAM_END && other_size == expected;
	if (good != !error)
		abort();
	if (done > other_size || memcmp(out, other, done) != 0)
		abort();
	sp_error_destroy(error);
	free(out);
	free(other);
	return 0;
}
