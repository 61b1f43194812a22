/* Range and If-None-Match: which part of a file a client wants, and whether it has it already (RFC 9110, 13 and 14). */
#include "internal.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Decimal digits; false without any or when the number is too large. */
static bool take_number(const char **at, uint64_t *ret)
{
	const char *start = *at;
	uint64_t value = 0;
	for (; isdigit((unsigned char)**at); (*at)++) {
		unsigned digit = (unsigned)(**at - '0');
		if (value > (UINT64_MAX - digit) / 10)
			return false;
		value = value * 10 + digit;
	}
	*ret = value;
	return *at != start;
}

static void skip_blanks(const char **at)
{
	*at += strspn(*at, " \t");
}

enum http_range_kind http_read_range(const char *header, uint64_t size, struct http_range *ret)
{
	uint64_t first = 0, last = 0;
	*ret = (struct http_range){ 0, size };
	if (!header || strncasecmp(header, "bytes=", 6) != 0)
		return HTTP_RANGE_ALL;
	const char *at = header + 6;
	skip_blanks(&at);
	bool has_first = take_number(&at, &first);
	if (!has_first && isdigit((unsigned char)*at))
		return HTTP_RANGE_ALL;
	if (*at++ != '-')
		return HTTP_RANGE_ALL;
	bool has_last = take_number(&at, &last);
	skip_blanks(&at);
	if (*at || (!has_first && !has_last) || (has_first && has_last && last < first))
		return HTTP_RANGE_ALL;
	if (!has_first) { /* the last so many bytes */
		if (!last || !size)
			return HTTP_RANGE_OUTSIDE;
		uint64_t part = last < size ? last : size;
		*ret = (struct http_range){ size - part, part };
		return HTTP_RANGE_PART;
	}
	if (first >= size)
		return HTTP_RANGE_OUTSIDE;
	if (!has_last || last >= size)
		last = size - 1;
	*ret = (struct http_range){ first, last - first + 1 };
	return HTTP_RANGE_PART;
}

bool http_has_tag(const char *list, const char *tag)
{
	size_t length = strlen(tag);
	for (const char *at = list; at && *at;) {
		at += strspn(at, " \t,");
		if (*at == '*')
			return true;
		if (at[0] == 'W' && at[1] == '/')
			at += 2;
		if (*at != '"')
			return false;
		const char *end = strchr(at + 1, '"');
		if (!end)
			return false;
		if ((size_t)(end + 1 - at) == length && !memcmp(at, tag, length))
			return true;
		at = end + 1;
	}
	return false;
}
