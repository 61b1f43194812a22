/* A decoder of zlib streams (RFC 1950, 1951) whose output can be used while it works: a debug section of hundreds of
 * megabytes has what is wanted somewhere in it. The input is one stream, whole in memory, and its size when decoded is
 * known. */
#ifndef SP_COMMON_INFLATE_H
#define SP_COMMON_INFLATE_H

#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes to `out`. `progress` is told now and then, and at the end, how many bytes of it are final; false stops the
 * decoder (SP_ERROR_CANCELLED). What it was told stays right also when the stream turns out to be corrupt further on,
 * except that only the end tells whether the checksum fits. Any other size than `out_size` is SP_ERROR_FORMAT. */
struct sp_error *sp_inflate(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size,
                            bool (*progress)(void *context, size_t done), void *context);

#endif
