/* Plain LZ77: groups of 32 flag bits (most significant first), each for a literal byte or a match. A match is 13 bits
 * of distance - 1 and 3 bits of length - 3; longer lengths go on in a nibble that two matches share, a byte, 16 and 32
 * bits.
 */
#include "platform/windows/xpress.h"

#include <string.h>

#define MATCH_MIN 3
#define DISTANCE_MAX 8192
#define SHORT_MAX 7   /* lengths below are in the match word itself */
#define NIBBLE_MAX 15 /* ... and in the nibble */
#define BYTE_MAX 255  /* ... and in the byte */

struct decoder {
	const uint8_t *at, *end;
	const uint8_t *nibble; /* the byte whose high half is still free; NULL = none */
};

static bool read_u16(struct decoder *decoder, uint32_t *ret)
{
	if (decoder->end - decoder->at < 2)
		return false;
	*ret = (uint32_t)decoder->at[0] | (uint32_t)decoder->at[1] << 8;
	decoder->at += 2;
	return true;
}

static bool read_u32(struct decoder *decoder, uint32_t *ret)
{
	uint32_t low, high;
	if (!read_u16(decoder, &low) || !read_u16(decoder, &high))
		return false;
	*ret = low | high << 16;
	return true;
}

/* The rest of a length that did not fit into the match word; *length comes and goes without MATCH_MIN. */
static bool read_long_length(struct decoder *decoder, uint32_t *length)
{
	uint32_t more;
	if (decoder->nibble) {
		more = *decoder->nibble >> 4;
		decoder->nibble = NULL;
	} else {
		if (decoder->at == decoder->end)
			return false;
		decoder->nibble = decoder->at++;
		more = *decoder->nibble & 15;
	}
	*length = SHORT_MAX + more;
	if (more != NIBBLE_MAX)
		return true;
	if (decoder->at == decoder->end)
		return false;
	more = *decoder->at++;
	*length = SHORT_MAX + NIBBLE_MAX + more;
	if (more != BYTE_MAX)
		return true;
	if (!read_u16(decoder, length) || (*length == 0 && !read_u32(decoder, length)))
		return false;
	return *length >= SHORT_MAX + NIBBLE_MAX;
}

/* Copies from `distance` back; the ranges may overlap, which repeats. */
static void copy_match(uint8_t *out, size_t distance, size_t length, bool room)
{
	const uint8_t *from = out - distance;
	if (distance >= 8 && room) { /* a few bytes past the match do not matter */
		for (size_t i = 0; i < length; i += 8)
			memcpy(out + i, from + i, 8);
		return;
	}
	for (size_t i = 0; i < length; i++)
		out[i] = from[i];
}

bool sp_xpress_decode(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size, size_t *ret_size)
{
	struct decoder decoder = { .at = in, .end = in + in_size };
	uint32_t flags = 0;
	unsigned left = 0;
	size_t count = 0;
	bool good = true;
	while (count < out_size && decoder.at < decoder.end) {
		if (!left) {
			good = read_u32(&decoder, &flags);
			if (!good)
				break;
			left = 32;
			if (decoder.at == decoder.end)
				break;
		}
		left--;
		if (!(flags >> left & 1)) {
			out[count++] = *decoder.at++;
			continue;
		}
		uint32_t match, length;
		good = read_u16(&decoder, &match);
		if (!good)
			break;
		size_t distance = (match >> 3) + 1;
		length = match & SHORT_MAX;
		if (length == SHORT_MAX)
			good = read_long_length(&decoder, &length);
		if (!good || distance > count) {
			good = false;
			break;
		}
		size_t size = (size_t)length + MATCH_MIN;
		if (size > out_size - count)
			size = out_size - count;
		copy_match(out + count, distance, size, out_size - count - size >= 8);
		count += size;
	}
	*ret_size = count;
	return good;
}

/* ---- Encoder ---- */

size_t sp_xpress_bound(size_t size)
{
	return size + (size / 32 + 2) * 4;
}

#define HASH_BITS 13

struct encoder {
	uint8_t *at;
	uint8_t *flags_at; /* where the current group's flags go */
	uint8_t *nibble;
	uint32_t flags;
	unsigned count; /* flags used */
};

static void put_u16(struct encoder *encoder, uint32_t value)
{
	*encoder->at++ = (uint8_t)value;
	*encoder->at++ = (uint8_t)(value >> 8);
}

static void store_flags(struct encoder *encoder)
{
	for (unsigned i = 0; i < 4; i++)
		encoder->flags_at[i] = (uint8_t)(encoder->flags >> (8 * i));
}

static void put_flag(struct encoder *encoder, uint32_t flag)
{
	if (encoder->count == 32) {
		store_flags(encoder);
		encoder->flags_at = encoder->at;
		encoder->at += 4;
		encoder->flags = 0;
		encoder->count = 0;
	}
	encoder->flags |= flag << (31 - encoder->count++);
}

static void put_match(struct encoder *encoder, size_t distance, size_t length)
{
	uint32_t rest = (uint32_t)(length - MATCH_MIN);
	uint32_t first = rest < SHORT_MAX ? rest : SHORT_MAX;
	put_u16(encoder, (uint32_t)(distance - 1) << 3 | first);
	if (first < SHORT_MAX)
		return;
	uint32_t more = rest - SHORT_MAX < NIBBLE_MAX ? rest - SHORT_MAX : NIBBLE_MAX;
	if (encoder->nibble) {
		*encoder->nibble |= (uint8_t)(more << 4);
		encoder->nibble = NULL;
	} else {
		encoder->nibble = encoder->at;
		*encoder->at++ = (uint8_t)more;
	}
	if (more < NIBBLE_MAX)
		return;
	uint32_t last = rest - SHORT_MAX - NIBBLE_MAX;
	*encoder->at++ = (uint8_t)(last < BYTE_MAX ? last : BYTE_MAX);
	if (last < BYTE_MAX)
		return;
	if (rest < 65536) {
		put_u16(encoder, rest);
		return;
	}
	put_u16(encoder, 0);
	put_u16(encoder, rest & 0xffff);
	put_u16(encoder, rest >> 16);
}

static uint32_t hash3(const uint8_t *at)
{
	uint32_t value = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16;
	return value * 2654435761u >> (32 - HASH_BITS);
}

size_t sp_xpress_encode(const uint8_t *in, size_t size, uint8_t *out)
{
	uint32_t last[1 << HASH_BITS] = { 0 }; /* position + 1 */
	struct encoder encoder = { .at = out + 4, .flags_at = out };
	size_t i = 0;
	while (i < size) {
		size_t length = 0, distance = 0;
		if (size - i >= MATCH_MIN) {
			uint32_t *slot = &last[hash3(in + i)];
			distance = *slot ? i + 1 - *slot : 0;
			*slot = (uint32_t)i + 1;
			if (distance && distance <= DISTANCE_MAX)
				while (i + length < size && in[i + length] == in[i + length - distance])
					length++;
		}
		if (length >= MATCH_MIN) {
			put_flag(&encoder, 1);
			put_match(&encoder, distance, length);
			i += length;
		} else {
			put_flag(&encoder, 0);
			*encoder.at++ = in[i++];
		}
	}
	/* What is left of the last group reads as matches: a decoder that has its bytes stops before. */
	while (encoder.count < 32)
		encoder.flags |= 1u << (31 - encoder.count++);
	store_flags(&encoder);
	return (size_t)(encoder.at - out);
}
