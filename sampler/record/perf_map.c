/* Reads perf-PID.map line by line; see perf_map.h. The file is written by the profiled program: nothing is trusted. */
#include "sampler/record/perf_map.h"
#include "common/hex.h"

#include <string.h>

/* A hex number with or without 0x, and the blanks after it. Wider than 64 bits is none. */
static bool take_hex(struct sp_cursor *line, uint64_t *ret)
{
	const uint8_t *at = line->at;
	uint64_t value = 0;
	if (line->end - at > 2 && at[0] == '0' && (at[1] | 0x20) == 'x')
		at += 2;
	const uint8_t *first = at;
	for (; at < line->end && sp_hex_digit(*at) >= 0; at++) {
		if (value >> 60)
			return false;
		value = value << 4 | (uint64_t)sp_hex_digit(*at);
	}
	if (at == first || at == line->end || (*at != ' ' && *at != '\t'))
		return false;
	while (at < line->end && (*at == ' ' || *at == '\t'))
		at++;
	line->at = at;
	*ret = value;
	return true;
}

static bool parse_line(struct sp_cursor line, struct sp_perf_map_function *ret)
{
	if (!take_hex(&line, &ret->start) || !take_hex(&line, &ret->size))
		return false;
	if (!ret->size)
		ret->size = 1;
	size_t length = sp_cursor_left(&line);
	if (length && line.end[-1] == '\r')
		length--;
	if (length > SP_PERF_MAP_NAME_MAX)
		length = SP_PERF_MAP_NAME_MAX;
	memcpy(ret->name, line.at, length);
	ret->name[length] = '\0';
	return length && ret->size <= UINT64_MAX - ret->start;
}

bool sp_perf_map_next(struct sp_cursor *text, struct sp_perf_map_function *ret, uint64_t *skipped)
{
	while (sp_cursor_left(text)) {
		const uint8_t *newline = memchr(text->at, '\n', sp_cursor_left(text));
		const uint8_t *end = newline ? newline : text->end;
		struct sp_cursor line = { .start = text->at, .at = text->at, .end = end };
		text->at = newline ? newline + 1 : end;
		if (parse_line(line, ret))
			return true;
		if (line.at != end)
			++*skipped;
	}
	return false;
}
