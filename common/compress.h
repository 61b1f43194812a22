/* Compression: one-shot decoders with hard output limits, and a streaming gzip writer. */
#ifndef SP_COMMON_COMPRESS_H
#define SP_COMMON_COMPRESS_H

#include "common/error.h"
#include "common/json.h"

#include <stddef.h>
#include <stdint.h>

enum sp_compression {
	SP_COMPRESSION_ZLIB, /* RFC 1950 */
	SP_COMPRESSION_GZIP, /* RFC 1952, one or more members */
	SP_COMPRESSION_ZSTD, /* RFC 8878 */
	SP_COMPRESSION_XZ,   /* .xz container */
};

/* Decodes into a buffer of exactly `out_size` bytes that the caller owns; any other decoded size is an error. */
struct sp_error *sp_decompress_exact(enum sp_compression kind, const void *in, size_t in_size, void *out,
                                     size_t out_size);

/* Decodes data of unknown size; more than `limit` bytes is SP_ERROR_LIMIT. The caller frees *ret. */
struct sp_error *sp_decompress(enum sp_compression kind, const void *in, size_t in_size, size_t limit, uint8_t **ret,
                               size_t *ret_size);

/* A gzip writer in front of another sink. */
struct sp_gzip;
/* `level` 1 to 9; `threads` workers compress blocks side by side (0 = compress in the caller's thread). */
struct sp_error *sp_gzip_create(int level, unsigned threads, sp_write_fn write, void *context, struct sp_gzip **ret);
/* An sp_write_fn; `context` is the struct sp_gzip. */
struct sp_error *sp_gzip_write(void *context, const void *bytes, size_t size);
/* Writes the trailer. */
struct sp_error *sp_gzip_finish(struct sp_gzip *gzip);

/* A part of a gzip stream compressed beforehand, for text that is known long before the rest. */
struct sp_gzip_part {
	size_t size;      /* of its compressed bytes, which the caller keeps */
	size_t text_size; /* of what they stand for */
	uint32_t crc;     /* of that */
};
/* Compresses a part; its bytes go to `write`. */
struct sp_error *sp_gzip_part(int level, const void *text, size_t text_size, sp_write_fn write, void *context,
                              struct sp_gzip_part *ret);
/* Puts a part where the stream is now. */
struct sp_error *sp_gzip_put_part(struct sp_gzip *gzip, const struct sp_gzip_part *part, const void *bytes);
void sp_gzip_destroy(struct sp_gzip *gzip);

#endif
