/* A bounds-checked reader over bytes from outside.
 *
 * Every read that would pass the end gives 0 (or "") and sets `bad`, which stays set: a parser may read a whole
 * header and check once. All input from files, traces and the network goes through this. */
#ifndef SP_COMMON_CURSOR_H
#define SP_COMMON_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct sp_cursor {
	const uint8_t *start; /* first byte of the range; offsets count from here */
	const uint8_t *at;    /* next byte to read */
	const uint8_t *end;   /* one past the last byte */
	bool big_endian;      /* byte order of multi-byte reads */
	bool bad;             /* a read went past the end or was malformed */
};

/* What cursors over nothing point to: arithmetic on NULL is undefined, even + 0. */
static const uint8_t sp_cursor_nothing[1];

static inline struct sp_cursor sp_cursor_init(const void *bytes, size_t size)
{
	const uint8_t *start = bytes ? bytes : sp_cursor_nothing;
	return (struct sp_cursor){ .start = start, .at = start, .end = bytes ? start + size : start };
}

static inline size_t sp_cursor_left(const struct sp_cursor *c)
{
	return (size_t)(c->end - c->at);
}

static inline size_t sp_cursor_offset(const struct sp_cursor *c)
{
	return (size_t)(c->at - c->start);
}

static inline void sp_cursor_fail(struct sp_cursor *c)
{
	c->bad = true;
	c->at = c->end;
}

/* The next `size` bytes, or NULL (and bad) when there are fewer; NULL for none, too, when it was bad before. */
static inline const uint8_t *sp_cursor_bytes(struct sp_cursor *c, uint64_t size)
{
	size_t left = sp_cursor_left(c);
	if (size >= left && (size > left || c->bad)) { /* a bad cursor has nothing left */
		sp_cursor_fail(c);
		return NULL;
	}
	const uint8_t *bytes = c->at;
	c->at += size;
	return bytes;
}

static inline void sp_cursor_skip(struct sp_cursor *c, uint64_t size)
{
	(void)sp_cursor_bytes(c, size);
}

/* Moves to an absolute offset of the range. */
static inline void sp_cursor_seek(struct sp_cursor *c, uint64_t offset)
{
	if (offset > (size_t)(c->end - c->start))
		sp_cursor_fail(c);
	else
		c->at = c->start + offset;
}

/* A cursor over bytes [offset, offset + size) of this one's range; bad when they are not all inside. */
static inline struct sp_cursor sp_cursor_sub(const struct sp_cursor *c, uint64_t offset, uint64_t size)
{
	size_t total = (size_t)(c->end - c->start);
	struct sp_cursor sub = { .big_endian = c->big_endian };
	if (offset > total || size > total - offset) {
		sub.start = sub.at = sub.end = sp_cursor_nothing;
		sub.bad = true;
		return sub;
	}
	sub.start = sub.at = c->start + offset;
	sub.end = sub.start + size;
	return sub;
}

static inline uint8_t sp_cursor_u8(struct sp_cursor *c)
{
	const uint8_t *b = sp_cursor_bytes(c, 1);
	return b ? *b : 0;
}

static inline uint16_t sp_cursor_u16(struct sp_cursor *c)
{
	const uint8_t *b = sp_cursor_bytes(c, 2);
	if (!b)
		return 0;
	uint16_t v;
	memcpy(&v, b, sizeof(v));
	return c->big_endian ? __builtin_bswap16(v) : v;
}

static inline uint32_t sp_cursor_u32(struct sp_cursor *c)
{
	const uint8_t *b = sp_cursor_bytes(c, 4);
	if (!b)
		return 0;
	uint32_t v;
	memcpy(&v, b, sizeof(v));
	return c->big_endian ? __builtin_bswap32(v) : v;
}

static inline uint64_t sp_cursor_u64(struct sp_cursor *c)
{
	const uint8_t *b = sp_cursor_bytes(c, 8);
	if (!b)
		return 0;
	uint64_t v;
	memcpy(&v, b, sizeof(v));
	return c->big_endian ? __builtin_bswap64(v) : v;
}

/* An unsigned integer of 1 to 8 bytes. */
static inline uint64_t sp_cursor_uint(struct sp_cursor *c, unsigned size)
{
	switch (size) {
	case 1:
		return sp_cursor_u8(c);
	case 2:
		return sp_cursor_u16(c);
	case 4:
		return sp_cursor_u32(c);
	case 8:
		return sp_cursor_u64(c);
	default:
		break;
	}
	const uint8_t *b = size && size < 8 ? sp_cursor_bytes(c, size) : NULL;
	if (!b) {
		sp_cursor_fail(c);
		return 0;
	}
	uint64_t v = 0;
	for (unsigned i = 0; i < size; i++)
		v |= (uint64_t)b[i] << (8 * (c->big_endian ? size - 1 - i : i));
	return v;
}

/* ULEB128. More than 10 bytes is malformed; bits past the 64th are dropped. */
static inline uint64_t sp_cursor_uleb(struct sp_cursor *c)
{
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 70; shift += 7) {
		if (c->at >= c->end)
			break;
		uint8_t b = *c->at++;
		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return v;
	}
	sp_cursor_fail(c);
	return 0;
}

/* SLEB128, with the same limit. */
static inline int64_t sp_cursor_sleb(struct sp_cursor *c)
{
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 70; shift += 7) {
		if (c->at >= c->end)
			break;
		uint8_t b = *c->at++;
		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80)) {
			if ((b & 0x40) && shift + 7 < 64)
				v |= ~(uint64_t)0 << (shift + 7);
			return (int64_t)v;
		}
	}
	sp_cursor_fail(c);
	return 0;
}

/* A NUL-terminated string inside the range; "" (and bad) when there is no NUL before the end. */
static inline const char *sp_cursor_string(struct sp_cursor *c)
{
	const uint8_t *nul = sp_cursor_left(c) ? memchr(c->at, 0, sp_cursor_left(c)) : NULL;
	if (!nul) {
		sp_cursor_fail(c);
		return "";
	}
	const char *string = (const char *)c->at;
	c->at = nul + 1;
	return string;
}

#endif
