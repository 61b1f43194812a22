/* Plain LZ77 of [MS-XCA] 2.4 (XPRESS, RtlCompressBuffer's format 3), as compressed ETL buffers hold it. */
#ifndef SP_PLATFORM_WINDOWS_XPRESS_H
#define SP_PLATFORM_WINDOWS_XPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes until `out_size` bytes are there or the input ends. *ret_size: bytes decoded. False when the input is
 * malformed (what was decoded before stands). A caller that wants only the beginning gives a smaller out_size. */
bool sp_xpress_decode(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size, size_t *ret_size);

/* Room that sp_xpress_encode() may need for `size` bytes. */
size_t sp_xpress_bound(size_t size);
/* Encodes; returns the size of what was written to `out`. Finds matches by a hash of three bytes: quick, not tight. */
size_t sp_xpress_encode(const uint8_t *in, size_t size, uint8_t *out);

#endif
