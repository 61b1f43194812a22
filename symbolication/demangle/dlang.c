/* D names, by libiberty, after a look at how long the result can get.
 *
 * libiberty's demangler for D fills a buffer of its own and cannot be stopped. A back reference ("Q", a number in base
 * 26) repeats an earlier part of the name, which may have back references itself, so a name of 100 characters can stand
 * for gigabytes. What each reference repeats is estimated from above first; names that could grow beyond a limit that
 * no real name comes near stay as they are. Grammar: the D specification, "Name Mangling". */
#include "symbolication/demangle/private.h"

#include <libiberty/demangle.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
	INPUT_LIMIT = 4096,        /* the longest name of the standard library has 558 */
	REPEATED_LIMIT = 4 << 20,  /* characters; the most repetitive name there comes to 980,000 */
	NUMBER_LIMIT = INPUT_LIMIT /* numbers are cut off here, they only have to stay larger than any name */
};

static size_t skip_number(const char *name, size_t at, size_t end, size_t *ret)
{
	*ret = 0;
	for (; at < end && name[at] >= '0' && name[at] <= '9'; at++)
		*ret = *ret < NUMBER_LIMIT ? *ret * 10 + (size_t)(name[at] - '0') : NUMBER_LIMIT;
	return at;
}

/* Reads the distance of the back reference at `at`; 0 when there is none. */
static size_t reference_distance(const char *name, size_t at, size_t end)
{
	size_t distance = 0;
	for (at++; at < end && name[at] >= 'A' && name[at] <= 'Z'; at++)
		distance = distance < NUMBER_LIMIT ? distance * 26 + (size_t)(name[at] - 'A') : NUMBER_LIMIT;
	if (at >= end || name[at] < 'a' || name[at] > 'z')
		return 0;
	return distance < NUMBER_LIMIT ? distance * 26 + (size_t)(name[at] - 'a') : NUMBER_LIMIT;
}

/* Where the qualified name at `at` ends; `end` when it is not a plain one. */
static size_t skip_qualified(const char *name, size_t at, size_t end)
{
	while (at < end) {
		if (name[at] >= '0' && name[at] <= '9') {
			size_t length;
			at = skip_number(name, at, end, &length);
			at = length < end - at ? at + length : end;
		} else if (name[at] == 'Q') {
			for (at++; at < end && name[at] >= 'A' && name[at] <= 'Z'; at++)
				;
			at++;
		} else {
			break;
		}
	}
	return at < end && strchr("_MFUVRWY", name[at]) ? end : at; /* template instances, functions */
}

/* An upper bound of where the part that starts at `at` ends, at most `end`. */
static size_t skip_part(const char *name, size_t at, size_t end)
{
	if (name[at] >= '0' && name[at] <= '9') { /* an identifier */
		size_t length;
		at = skip_number(name, at, end, &length);
		return length < end - at ? at + length : end;
	}
	while (at < end && strchr("APOxy", name[at]))
		at++;
	if (at < end && strchr("SCETI", name[at]))
		at = skip_qualified(name, at + 1, end);
	else if (at < end && name[at] >= 'a' && name[at] <= 'w')
		at++;
	else
		at = end;
	return at < end ? at : end;
}

/* Whether all that back references repeat stays within the limit. */
static bool is_bounded(const char *name, size_t length)
{
	uint32_t before[INPUT_LIMIT + 1]; /* characters in the result for those in front of each position */
	before[0] = 0;
	for (size_t at = 0; at < length; at++) {
		uint32_t cost = 1;
		size_t distance = name[at] == 'Q' ? reference_distance(name, at, length) : 0;
		if (distance && distance <= at)
			cost += before[skip_part(name, at - distance, at)] - before[at - distance];
		before[at + 1] = before[at] + cost;
		if (before[at + 1] > REPEATED_LIMIT)
			return false;
	}
	return true;
}

bool sp_demangle_d(const char *name, size_t length, struct sp_buffer *out)
{
	if (length > INPUT_LIMIT || !is_bounded(name, length))
		return false;
	char *text = dlang_demangle(name, DMGL_PARAMS);
	size_t size = text ? strlen(text) : 0;
	bool ok = size && size <= SP_DEMANGLE_OUTPUT_LIMIT;
	struct sp_error *error = ok ? sp_buffer_write(out, text, size) : NULL;
	ok = ok && !error;
	sp_error_destroy(error);
	free(text);
	return ok;
}
