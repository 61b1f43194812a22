/* V8's names of code; see script_name.h. The text is the profiled program's: nothing is trusted. */
#include "sampler/output/script_name.h"

#include <string.h>

/* JS: and Script: of today, the others of Node 14 and before. */
static const char *const kinds[] = { "JS:", "Eval:", "Script:", "Function:", "LazyCompile:", "InterpretedFunction:" };
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static const char *skip_kind(const char *text)
{
	for (size_t i = 0; i < KINDS; i++) {
		size_t length = strlen(kinds[i]);
		if (!strncmp(text, kinds[i], length))
			return text + length;
	}
	return NULL;
}

/* Takes ":123" off the end of [start, *end). */
static bool take_number(const char *start, const char **end, uint32_t *ret)
{
	const char *at = *end;
	uint64_t value = 0, scale = 1;
	while (at > start && at[-1] >= '0' && at[-1] <= '9' && scale < 10000000000u) {
		value += (uint64_t)(*--at - '0') * scale;
		scale *= 10;
	}
	if (at == *end || at == start || at[-1] != ':' || !value || value > INT32_MAX)
		return false;
	*end = at - 1;
	*ret = (uint32_t)value;
	return true;
}

/* Whether a path or URL begins here. */
static bool is_location(const char *at, const char *end)
{
	static const char *const starts[] = { "/", "node:", "file:", "http:", "https:", "evalmachine." };
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		size_t length = strlen(starts[i]);
		if ((size_t)(end - at) >= length && !memcmp(at, starts[i], length))
			return true;
	}
	return false;
}

/* The blank between name and location: names ("get size") and paths may hold blanks too, so the first one before what
 * looks like a location, else the first one. */
static const char *find_blank(const char *start, const char *end)
{
	const char *first = NULL;
	for (const char *at = start; at < end; at++) {
		if (*at != ' ')
			continue;
		if (is_location(at + 1, end))
			return at;
		if (!first)
			first = at;
	}
	return first;
}

bool sp_script_name_parse(const char *text, struct sp_script_name *ret)
{
	const char *start = skip_kind(text);
	if (!start)
		return false;
	if (*start && strchr("~^+*", *start))
		start++;
	const char *end = start + strlen(start);
	if (!take_number(start, &end, &ret->column) || !take_number(start, &end, &ret->line))
		return false;
	const char *blank = find_blank(start, end);
	if (!blank || blank + 1 == end)
		return false;
	ret->function = start;
	ret->function_size = (size_t)(blank - start);
	ret->file = blank + 1;
	ret->file_size = (size_t)(end - ret->file);
	return true;
}
