/* The fixed header in front of each segment of a recording file. */
#include "common/cursor.h"
#include "sampler/profile/recording.h"

#include <zlib.h>

uint32_t sp_segment_crc(const void *bytes, size_t size)
{
	return (uint32_t)crc32_z(0, bytes, size);
}

static uint8_t *put(uint8_t *at, uint64_t value, unsigned size)
{
	for (unsigned i = 0; i < size; i++)
		*at++ = (uint8_t)(value >> 8 * i);
	return at;
}

void sp_segment_header_encode(const struct sp_segment_header *header, uint8_t bytes[SP_SEGMENT_HEADER_SIZE])
{
	memcpy(bytes, SP_SEGMENT_MAGIC, SP_SEGMENT_MAGIC_SIZE);
	uint8_t *at = bytes + SP_SEGMENT_MAGIC_SIZE;
	at = put(at, header->version, 1);
	at = put(at, header->type, 1);
	at = put(at, header->packing, 1);
	at = put(at, 0, 1);
	at = put(at, header->sequence, 4);
	at = put(at, header->first_time, 8);
	at = put(at, header->last_time, 8);
	at = put(at, header->stored_size, 4);
	at = put(at, header->size, 4);
	at = put(at, header->payload_crc, 4);
	at = put(at, 0, 8);
	put(at, sp_segment_crc(bytes, SP_SEGMENT_HEADER_SIZE - 4), 4);
}

bool sp_segment_header_decode(const uint8_t bytes[SP_SEGMENT_HEADER_SIZE], struct sp_segment_header *ret)
{
	struct sp_cursor c = sp_cursor_init(bytes, SP_SEGMENT_HEADER_SIZE);
	const uint8_t *magic = sp_cursor_bytes(&c, SP_SEGMENT_MAGIC_SIZE);
	if (memcmp(magic, SP_SEGMENT_MAGIC, SP_SEGMENT_MAGIC_SIZE) != 0)
		return false;
	*ret = (struct sp_segment_header){ .version = sp_cursor_u8(&c) };
	ret->type = sp_cursor_u8(&c);
	ret->packing = sp_cursor_u8(&c);
	sp_cursor_skip(&c, 1);
	ret->sequence = sp_cursor_u32(&c);
	ret->first_time = sp_cursor_u64(&c);
	ret->last_time = sp_cursor_u64(&c);
	ret->stored_size = sp_cursor_u32(&c);
	ret->size = sp_cursor_u32(&c);
	ret->payload_crc = sp_cursor_u32(&c);
	sp_cursor_skip(&c, 8);
	return sp_cursor_u32(&c) == sp_segment_crc(bytes, SP_SEGMENT_HEADER_SIZE - 4);
}
