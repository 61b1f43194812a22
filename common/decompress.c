/* The decoders of compress.h. Each works through an `output` that either fills a buffer of known size or grows up to
 * a limit; a byte too many goes to a spare place and is an error, so no input can make more than was allowed. */
#include "common/compress.h"

#include <libdeflate.h>
#include <limits.h>
#include <lzma.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#define FIRST_CAPACITY ((size_t)65536)
#define XZ_MEMORY_LIMIT (UINT64_C(192) << 20) /* `xz -9` asks for 65 MiB */

struct output {
	uint8_t *bytes;
	size_t size, capacity;
	size_t limit; /* more is an error */
	bool grows;   /* .bytes is ours, made larger as needed */
	uint8_t spare;
};

/* Where the next bytes go; at least one. */
static struct sp_error *output_room(struct output *out, uint8_t **ret, size_t *ret_size)
{
	if (out->size == out->capacity && out->grows && out->capacity < out->limit) {
		size_t wanted = out->capacity ? out->capacity * 2 : FIRST_CAPACITY;
		if (wanted > out->limit || wanted < out->capacity)
			wanted = out->limit;
		uint8_t *grown = realloc(out->bytes, wanted);
		if (!grown)
			return sp_error_no_memory();
		out->bytes = grown;
		out->capacity = wanted;
	}
	*ret = out->size < out->capacity ? out->bytes + out->size : &out->spare;
	*ret_size = out->size < out->capacity ? out->capacity - out->size : 1;
	return NULL;
}

static struct sp_error *output_took(struct output *out, size_t size)
{
	if (size > out->capacity - out->size)
		return sp_error_create(SP_ERROR_LIMIT, "decompressed data is larger than %zu bytes", out->limit);
	out->size += size;
	return NULL;
}

static bool all_zero(const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (bytes[i])
			return false;
	return true;
}

static struct sp_error *inflate_error(int status, const z_stream *stream)
{
	if (status == Z_MEM_ERROR)
		return sp_error_no_memory();
	if (status == Z_BUF_ERROR)
		return sp_error_create(SP_ERROR_FORMAT, "compressed data is cut off");
	return sp_error_create(SP_ERROR_FORMAT, "corrupt compressed data: %s",
	                       stream->msg ? stream->msg : "not a zlib or gzip stream");
}

static uInt clamp(size_t size)
{
	return size > UINT_MAX ? UINT_MAX : (uInt)size;
}

/* One or more streams, and zeroes after them (tapes and linkers pad). */
static struct sp_error *inflate_streams(z_stream *stream, const uint8_t *in, size_t in_size, struct output *out)
{
	for (;;) {
		uint8_t *room;
		size_t room_size;
		struct sp_error *error = output_room(out, &room, &room_size);
		if (error)
			return error;
		stream->next_in = (uint8_t *)(uintptr_t)in;
		stream->avail_in = clamp(in_size);
		stream->next_out = room;
		stream->avail_out = clamp(room_size);
		int status = inflate(stream, Z_NO_FLUSH);
		error = output_took(out, (size_t)(stream->next_out - room));
		if (error)
			return error;
		in_size -= (size_t)(stream->next_in - in);
		in = stream->next_in;
		if (status == Z_STREAM_END) {
			if (all_zero(in, in_size))
				return NULL;
			status = inflateReset(stream);
		}
		if (status != Z_OK) /* without progress it is Z_BUF_ERROR, so this ends */
			return inflate_error(status, stream);
	}
}

static struct sp_error *decode_zlib(bool gzip, const uint8_t *in, size_t in_size, struct output *out)
{
	z_stream stream = { 0 };
	if (inflateInit2(&stream, gzip ? 15 + 16 : 15) != Z_OK)
		return sp_error_no_memory();
	struct sp_error *error = inflate_streams(&stream, in, in_size, out);
	inflateEnd(&stream);
	return error;
}

/* The usual case of a debug section: one stream of known size. False = let zlib have a look. */
static bool decode_zlib_whole(bool gzip, const void *in, size_t in_size, void *out, size_t out_size)
{
	struct libdeflate_decompressor *decompressor = libdeflate_alloc_decompressor();
	if (!decompressor)
		return false;
	size_t used = 0;
	enum libdeflate_result result = gzip ? libdeflate_gzip_decompress_ex(decompressor, in, in_size, out, out_size,
	                                                                     &used, NULL)
	                                     : libdeflate_zlib_decompress_ex(decompressor, in, in_size, out, out_size,
	                                                                     &used, NULL);
	libdeflate_free_decompressor(decompressor);
	return result == LIBDEFLATE_SUCCESS && used == in_size;
}

static struct sp_error *decode_zstd_frames(ZSTD_DStream *stream, const uint8_t *in, size_t in_size, struct output *out)
{
	ZSTD_inBuffer input = { .src = in, .size = in_size };
	size_t left = 1; /* 0 = a frame is complete */
	while (input.pos < in_size || left) {
		uint8_t *room;
		size_t room_size;
		struct sp_error *error = output_room(out, &room, &room_size);
		if (error)
			return error;
		ZSTD_outBuffer output = { .dst = room, .size = room_size };
		size_t before = input.pos;
		left = ZSTD_decompressStream(stream, &output, &input);
		if (ZSTD_isError(left))
			return sp_error_create(SP_ERROR_FORMAT, "corrupt compressed data: %s", ZSTD_getErrorName(left));
		error = output_took(out, output.pos);
		if (error)
			return error;
		if (input.pos == before && !output.pos)
			return sp_error_create(SP_ERROR_FORMAT, "compressed data is cut off");
	}
	return NULL;
}

static struct sp_error *decode_zstd(const uint8_t *in, size_t in_size, struct output *out)
{
	/* Its window is limited to 128 MiB unless more is asked for. */
	ZSTD_DStream *stream = ZSTD_createDStream();
	if (!stream)
		return sp_error_no_memory();
	struct sp_error *error = decode_zstd_frames(stream, in, in_size, out);
	ZSTD_freeDStream(stream);
	return error;
}

static struct sp_error *xz_error(lzma_ret status)
{
	switch (status) {
	case LZMA_MEM_ERROR:
		return sp_error_no_memory();
	case LZMA_MEMLIMIT_ERROR:
		return sp_error_create(SP_ERROR_LIMIT, "xz data needs more than %u MiB to decode",
		                       (unsigned)(XZ_MEMORY_LIMIT >> 20));
	case LZMA_BUF_ERROR:
	case LZMA_OK:
		return sp_error_create(SP_ERROR_FORMAT, "compressed data is cut off");
	case LZMA_FORMAT_ERROR:
		return sp_error_create(SP_ERROR_FORMAT, "corrupt compressed data: not an xz container");
	default:
		return sp_error_create(SP_ERROR_FORMAT, "corrupt compressed data: xz error %d", (int)status);
	}
}

static struct sp_error *decode_xz(const uint8_t *in, size_t in_size, struct output *out)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	lzma_ret status = lzma_stream_decoder(&stream, XZ_MEMORY_LIMIT, LZMA_CONCATENATED);
	if (status != LZMA_OK)
		return xz_error(status);
	stream.next_in = in;
	stream.avail_in = in_size;
	struct sp_error *error = NULL;
	while (!error && status == LZMA_OK) {
		uint8_t *room;
		size_t room_size;
		error = output_room(out, &room, &room_size);
		if (error)
			break;
		stream.next_out = room;
		stream.avail_out = room_size;
		status = lzma_code(&stream, LZMA_FINISH);
		error = output_took(out, room_size - stream.avail_out);
	}
	lzma_end(&stream);
	if (!error && status != LZMA_STREAM_END)
		error = xz_error(status);
	return error;
}

static struct sp_error *decode(enum sp_compression kind, const void *in, size_t in_size, struct output *out)
{
	switch (kind) {
	case SP_COMPRESSION_ZLIB:
		return decode_zlib(false, in, in_size, out);
	case SP_COMPRESSION_GZIP:
		return decode_zlib(true, in, in_size, out);
	case SP_COMPRESSION_ZSTD:
		return decode_zstd(in, in_size, out);
	case SP_COMPRESSION_XZ:
		return decode_xz(in, in_size, out);
	}
	return sp_error_create(SP_ERROR_UNSUPPORTED, "unknown compression %d", (int)kind);
}

struct sp_error *sp_decompress_exact(enum sp_compression kind, const void *in, size_t in_size, void *out,
                                     size_t out_size)
{
	bool gzip = kind == SP_COMPRESSION_GZIP;
	if ((gzip || kind == SP_COMPRESSION_ZLIB) && decode_zlib_whole(gzip, in, in_size, out, out_size))
		return NULL;
	if (kind == SP_COMPRESSION_ZSTD && ZSTD_decompress(out, out_size, in, in_size) == out_size && in_size)
		return NULL;
	struct output output = { .bytes = out, .capacity = out_size, .limit = out_size };
	struct sp_error *error = decode(kind, in, in_size, &output);
	if (error && error->code == SP_ERROR_LIMIT)
		error->code = SP_ERROR_FORMAT;
	if (!error && output.size != out_size)
		error = sp_error_create(SP_ERROR_FORMAT, "decompressed data has %zu bytes, not %zu", output.size,
		                        out_size);
	return error;
}

struct sp_error *sp_decompress(enum sp_compression kind, const void *in, size_t in_size, size_t limit, uint8_t **ret,
                               size_t *ret_size)
{
	struct output output = { .grows = true, .limit = limit };
	struct sp_error *error = decode(kind, in, in_size, &output);
	if (!error && !output.bytes && !(output.bytes = malloc(1)))
		error = sp_error_no_memory();
	if (error) {
		free(output.bytes);
		return error;
	}
	*ret = output.bytes;
	*ret_size = output.size;
	return NULL;
}
