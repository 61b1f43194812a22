/* The fast part of reading and writing JSON strings: bytes that stand for themselves, eight at a time. */
#ifndef SP_COMMON_JSON_PLAIN_H
#define SP_COMMON_JSON_PLAIN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SP_JSON_EACH_BYTE(byte) (0x0101010101010101u * (uint64_t)(byte))

/* The first byte from `at` that may be a quote, a backslash, a control character or not ASCII: at that byte or up to
 * seven before it. */
static inline const char *sp_json_plain(const char *at, const char *end)
{
	const uint64_t ones = SP_JSON_EACH_BYTE(1), tops = SP_JSON_EACH_BYTE(0x80);
	while (end - at >= 8) {
		uint64_t word;
		memcpy(&word, at, 8);
		uint64_t quote = word ^ SP_JSON_EACH_BYTE('"'), backslash = word ^ SP_JSON_EACH_BYTE('\\');
		/* The top bit of a byte that is zero (or below the subtrahend); bytes above 0x7f have it already. */
		uint64_t found = (quote - ones) | (backslash - ones) | (word - SP_JSON_EACH_BYTE(0x20)) | word;
		if (found & tops)
			break;
		at += 8;
	}
	return at;
}

#endif
