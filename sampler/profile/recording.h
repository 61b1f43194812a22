/* The layout of a recording file, shared by its writer and its reader; described in docs/recording-format.md. */
#ifndef SP_SAMPLER_PROFILE_RECORDING_H
#define SP_SAMPLER_PROFILE_RECORDING_H

#include "common/vector.h"
#include "sampler/profile/model.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define SP_SEGMENT_MAGIC "\x89spREC\r\n"
#define SP_SEGMENT_MAGIC_SIZE 8
#define SP_SEGMENT_HEADER_SIZE 56
#define SP_SEGMENT_VERSION 1

/* A writer closes a segment at this payload size or age ... */
#define SP_SEGMENT_FULL ((size_t)1 << 20)
#define SP_SEGMENT_AGE_NS 1000000000u
/* ... so that the payload, with the last record, stays below this: what a reader accepts. */
#define SP_SEGMENT_MAX ((size_t)4 << 20)
#define SP_RECORDING_STRING_MAX 65535 /* bytes; longer strings are cut */

enum sp_segment_type {
	SP_SEGMENT_RECORDS = 1,
	SP_SEGMENT_END = 2, /* no payload: the writer finished */
};

enum sp_segment_packing { SP_SEGMENT_PLAIN, SP_SEGMENT_ZSTD };

/* Records that only exist in the file. */
enum {
	SP_RECORD_REFERENCE = 64, /* gives a handle that is defined elsewhere a number in this segment */
};

/* Spaces of handles that have definitions. */
enum sp_space { SP_SPACE_PROCESS, SP_SPACE_THREAD, SP_SPACE_MODULE, SP_SPACE_SOURCE, SP_SPACE_COUNTER, SP_SPACE_COUNT };

struct sp_segment_header {
	uint8_t version, type, packing;
	uint32_t sequence;              /* counts the segments of a file */
	uint64_t first_time, last_time; /* of the records inside; both 0 when there are none */
	uint32_t stored_size, size;     /* of the payload in the file, and unpacked */
	uint32_t payload_crc;           /* of the stored bytes */
};

/* Bits of the first byte of a sample. */
enum {
	SP_SAMPLE_CPU_DELTA = 1,
	SP_SAMPLE_WEIGHT = 2, /* other than 1 */
	SP_SAMPLE_LABEL = 4,
	SP_SAMPLE_CPU = 8,
	SP_SAMPLE_END = 16, /* other than SP_UNWIND_ROOT */
};

/* ---- Bytes being put together ---- */

struct sp_bytes {
	uint8_t *items; /* owned */
	size_t count, capacity;
	bool failed; /* out of memory: what was put since is missing */
};

static inline uint8_t *sp_bytes_reserve(struct sp_bytes *bytes, size_t size)
{
	if (size > bytes->capacity - bytes->count &&
	    !sp_vector_grow((void **)&bytes->items, &bytes->capacity, bytes->count, size, 1)) {
		bytes->failed = true;
		return NULL;
	}
	return bytes->items + bytes->count;
}

static inline void sp_bytes_put(struct sp_bytes *bytes, const void *data, size_t size)
{
	uint8_t *at = sp_bytes_reserve(bytes, size);
	if (!at || !size)
		return;
	memcpy(at, data, size);
	bytes->count += size;
}

static inline void sp_bytes_u8(struct sp_bytes *bytes, uint8_t value)
{
	uint8_t *at = sp_bytes_reserve(bytes, 1);
	if (!at)
		return;
	*at = value;
	bytes->count++;
}

static inline void sp_bytes_uleb(struct sp_bytes *bytes, uint64_t value)
{
	uint8_t *at = sp_bytes_reserve(bytes, 10);
	if (!at)
		return;
	uint8_t *start = at;
	for (; value >= 0x80; value >>= 7)
		*at++ = (uint8_t)(value | 0x80);
	*at++ = (uint8_t)value;
	bytes->count += (size_t)(at - start);
}

static inline uint64_t sp_zigzag(int64_t value)
{
	return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

static inline int64_t sp_unzigzag(uint64_t value)
{
	return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

/* A signed difference of two unsigned numbers; wraps, so that any pair works. */
static inline void sp_bytes_delta(struct sp_bytes *bytes, uint64_t value, uint64_t from)
{
	sp_bytes_uleb(bytes, sp_zigzag((int64_t)(value - from)));
}

/* NULL is 0; else length + 1, the bytes, and a NUL so that a reader need not copy. */
static inline void sp_bytes_string(struct sp_bytes *bytes, const char *string)
{
	if (!string) {
		sp_bytes_uleb(bytes, 0);
		return;
	}
	size_t length = strnlen(string, SP_RECORDING_STRING_MAX);
	sp_bytes_uleb(bytes, length + 1);
	sp_bytes_put(bytes, string, length);
	sp_bytes_u8(bytes, 0);
}

/* The header's bytes, its own CRC included, and back; false when they are not a header. */
void sp_segment_header_encode(const struct sp_segment_header *header, uint8_t bytes[SP_SEGMENT_HEADER_SIZE]);
bool sp_segment_header_decode(const uint8_t bytes[SP_SEGMENT_HEADER_SIZE], struct sp_segment_header *ret);
uint32_t sp_segment_crc(const void *bytes, size_t size);

#endif
