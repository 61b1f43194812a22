/* The JSON writer of json.h. A profile has tens of millions of numbers, so numbers are formatted here, two digits at a
 * time, straight into the buffer; each value asks once for the most room that it can need. */
#include "common/json.h"

#include "common/json_plain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_ROOM 40 /* the longest number with its comma, sign and point */

static const char digit_pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
                                  "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
                                  "8081828384858687888990919293949596979899";

static void fail(struct sp_json *json, struct sp_error *error)
{
	if (json->error)
		sp_error_destroy(error);
	else
		json->error = error;
}

static void flush(struct sp_json *json)
{
	if (json->used && !json->error)
		json->error = json->write(json->context, json->buffer, json->used);
	json->used = 0;
}

/* Room for `size` bytes (much less than the buffer) at the returned place; add what was used to json->used. */
static inline char *room(struct sp_json *json, size_t size)
{
	if (SP_JSON_BUFFER - json->used < size)
		flush(json);
	return json->buffer + json->used;
}

static void put_bytes(struct sp_json *json, const char *bytes, size_t size)
{
	while (size) {
		size_t part = SP_JSON_BUFFER - json->used;
		if (!part) {
			flush(json);
			continue;
		}
		if (part > size)
			part = size;
		memcpy(json->buffer + json->used, bytes, part);
		json->used += part;
		bytes += part;
		size -= part;
	}
}

/* What must stand in front of a value: a comma, but not after a key or at the start of an array. */
static inline char *begin_value(struct sp_json *json, char *at)
{
	if (json->after_key) {
		json->after_key = false;
		return at;
	}
	if (json->depth && json->depth <= SP_JSON_DEPTH) {
		bool *need = &json->need_comma[json->depth - 1];
		if (*need)
			*at++ = ',';
		*need = true;
	}
	return at;
}

/* A short literal as a value. */
static void put_literal(struct sp_json *json, const char *text, size_t size)
{
	char *start = room(json, NUMBER_ROOM);
	char *at = begin_value(json, start);
	memcpy(at, text, size);
	json->used += (size_t)(at - start) + size;
}

static void begin_nested(struct sp_json *json, const char *bracket)
{
	put_literal(json, bracket, 1);
	json->depth++;
	if (json->depth <= SP_JSON_DEPTH)
		json->need_comma[json->depth - 1] = false;
	else
		fail(json, sp_error_create(SP_ERROR_LIMIT, "JSON nested deeper than %d", SP_JSON_DEPTH));
}

static void end_nested(struct sp_json *json, char bracket)
{
	if (!json->depth || json->after_key)
		fail(json, sp_error_create(SP_ERROR_USAGE, "JSON brackets or keys do not match"));
	if (json->depth)
		json->depth--;
	json->after_key = false;
	*room(json, 1) = bracket;
	json->used++;
}

void sp_json_init(struct sp_json *json, sp_write_fn write, void *context)
{
	json->write = write;
	json->context = context;
	json->error = NULL;
	json->depth = 0;
	json->after_key = false;
	json->used = 0;
}

void sp_json_object_begin(struct sp_json *json)
{
	begin_nested(json, "{");
}

void sp_json_object_end(struct sp_json *json)
{
	end_nested(json, '}');
}

void sp_json_array_begin(struct sp_json *json)
{
	begin_nested(json, "[");
}

void sp_json_array_end(struct sp_json *json)
{
	end_nested(json, ']');
}

/* Length of the well-formed UTF-8 sequence at `s` (Unicode, table 3-7), 0 = malformed. The first byte is >= 0x80. */
static unsigned utf8_length(const unsigned char *s, size_t left)
{
	unsigned length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
	if (s[0] < 0xc2 || s[0] > 0xf4 || length > left)
		return 0;
	unsigned char low = 0x80, high = 0xbf; /* bounds of the second byte: no overlong forms, surrogates, > 10FFFF */
	if (s[0] == 0xe0)
		low = 0xa0;
	else if (s[0] == 0xed)
		high = 0x9f;
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f;
	if (s[1] < low || s[1] > high)
		return 0;
	for (unsigned i = 2; i < length; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return length;
}

static void put_escape(struct sp_json *json, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";
	char text[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };
	size_t size = 2;
	if (c == '"' || c == '\\')
		text[1] = (char)c;
	else if (c == '\n')
		text[1] = 'n';
	else if (c == '\t')
		text[1] = 't';
	else if (c == '\r')
		text[1] = 'r';
	else
		size = 6;
	put_bytes(json, text, size);
}

static void put_quoted(struct sp_json *json, const char *string, size_t length)
{
	const unsigned char *at = (const unsigned char *)string, *end = at + length, *run = at;
	put_bytes(json, "\"", 1);
	for (;;) {
		at = (const unsigned char *)sp_json_plain((const char *)at, (const char *)end);
		while (at < end && *at >= 0x20 && *at < 0x80 && *at != '"' && *at != '\\')
			at++;
		if (at == end)
			break;
		unsigned sequence = *at < 0x80 ? 0 : utf8_length(at, (size_t)(end - at));
		if (sequence) {
			at += sequence;
			continue;
		}
		put_bytes(json, (const char *)run, (size_t)(at - run));
		if (*at < 0x80)
			put_escape(json, *at);
		else
			put_bytes(json, "\xef\xbf\xbd", 3);
		run = ++at;
	}
	put_bytes(json, (const char *)run, (size_t)(end - run));
	put_bytes(json, "\"", 1);
}

void sp_json_key_n(struct sp_json *json, const char *key, size_t length)
{
	char *start = room(json, NUMBER_ROOM);
	json->used += (size_t)(begin_value(json, start) - start);
	put_quoted(json, key, length);
	put_bytes(json, ":", 1);
	json->after_key = true;
}

void sp_json_key(struct sp_json *json, const char *key)
{
	sp_json_key_n(json, key, strlen(key));
}

void sp_json_string_n(struct sp_json *json, const char *string, size_t length)
{
	char *start = room(json, NUMBER_ROOM);
	json->used += (size_t)(begin_value(json, start) - start);
	put_quoted(json, string, length);
}

void sp_json_raw(struct sp_json *json, const char *text, size_t size)
{
	char *start = room(json, NUMBER_ROOM);
	json->used += (size_t)(begin_value(json, start) - start);
	put_bytes(json, text, size);
}

void sp_json_string(struct sp_json *json, const char *string)
{
	if (string)
		sp_json_string_n(json, string, strlen(string));
	else
		sp_json_null(json);
}

/* Writes the decimal digits of a number at `at`, gives the end. */
/* Most numbers are small: from below. */
static unsigned count_digits(uint64_t value)
{
	unsigned count = 1;
	for (uint64_t limit = 10; value >= limit; limit *= 10) {
		if (++count == 20)
			break;
	}
	return count;
}

static char *put_digits(char *at, uint64_t value)
{
	char *end = at + count_digits(value), *first = end;
	while (value >= 100) {
		first -= 2;
		memcpy(first, digit_pairs + (size_t)(value % 100) * 2, 2);
		value /= 100;
	}
	if (value >= 10)
		memcpy(first - 2, digit_pairs + value * 2, 2);
	else
		first[-1] = (char)('0' + value);
	return end;
}

void sp_json_uint(struct sp_json *json, uint64_t value)
{
	char *start = room(json, NUMBER_ROOM);
	char *at = put_digits(begin_value(json, start), value);
	json->used += (size_t)(at - start);
}

void sp_json_int(struct sp_json *json, int64_t value)
{
	char *start = room(json, NUMBER_ROOM);
	char *at = begin_value(json, start);
	if (value < 0)
		*at++ = '-';
	at = put_digits(at, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
	json->used += (size_t)(at - start);
}

void sp_json_ns_as_ms(struct sp_json *json, int64_t ns)
{
	char *start = room(json, NUMBER_ROOM);
	char *at = begin_value(json, start);
	uint64_t magnitude = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
	uint32_t fraction = (uint32_t)(magnitude % 1000000);
	if (ns < 0)
		*at++ = '-';
	at = put_digits(at, magnitude / 1000000);
	if (fraction) {
		*at++ = '.';
		memcpy(at, digit_pairs + (size_t)(fraction / 10000) * 2, 2);
		memcpy(at + 2, digit_pairs + (size_t)(fraction / 100 % 100) * 2, 2);
		memcpy(at + 4, digit_pairs + (size_t)(fraction % 100) * 2, 2);
		at += 6;
		while (at[-1] == '0')
			at--;
	}
	json->used += (size_t)(at - start);
}

void sp_json_double(struct sp_json *json, double value)
{
	if (!isfinite(value)) {
		sp_json_null(json);
		return;
	}
	if (value >= -1e15 && value <= 1e15 && value == (double)(int64_t)value) {
		sp_json_int(json, (int64_t)value);
		return;
	}
	/* The fewest digits that read back as the same number; most need 15 or less. */
	char text[NUMBER_ROOM];
	int length = 0;
	for (int digits = 15; digits <= 17; digits++) {
		length = snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	for (int i = 0; i < length; i++)
		if (text[i] == ',') /* the decimal point of the user's locale */
			text[i] = '.';
	put_literal(json, text, (size_t)length);
}

void sp_json_hex(struct sp_json *json, uint64_t value)
{
	char text[19], *at = text + sizeof(text);
	*--at = '"';
	do {
		*--at = "0123456789abcdef"[value & 15];
		value >>= 4;
	} while (value && at > text);
	char *start = room(json, NUMBER_ROOM);
	char *to = begin_value(json, start);
	size_t size = (size_t)(text + sizeof(text) - at);
	memcpy(to, "\"0x", 3);
	memcpy(to + 3, at, size);
	json->used += (size_t)(to - start) + 3 + size;
}

void sp_json_bool(struct sp_json *json, bool value)
{
	if (value)
		put_literal(json, "true", 4);
	else
		put_literal(json, "false", 5);
}

void sp_json_null(struct sp_json *json)
{
	put_literal(json, "null", 4);
}

void sp_json_newline(struct sp_json *json)
{
	put_bytes(json, "\n", 1);
}

void sp_json_step_aside(struct sp_json *json, bool any)
{
	flush(json);
	if (any && json->depth && json->depth <= SP_JSON_DEPTH)
		json->need_comma[json->depth - 1] = true;
}

struct sp_error *sp_json_finish(struct sp_json *json)
{
	if (json->depth || json->after_key)
		fail(json, sp_error_create(SP_ERROR_USAGE, "JSON ended with open brackets"));
	flush(json);
	struct sp_error *error = json->error;
	json->error = NULL;
	return error;
}

void sp_json_member_string(struct sp_json *json, const char *key, const char *value)
{
	sp_json_key(json, key);
	sp_json_string(json, value);
}

void sp_json_member_int(struct sp_json *json, const char *key, int64_t value)
{
	sp_json_key(json, key);
	sp_json_int(json, value);
}

void sp_json_member_bool(struct sp_json *json, const char *key, bool value)
{
	sp_json_key(json, key);
	sp_json_bool(json, value);
}

struct sp_error *sp_buffer_write(void *context, const void *bytes, size_t size)
{
	struct sp_buffer *buffer = context;
	if (buffer->limit && size > buffer->limit - buffer->size)
		return sp_error_create(SP_ERROR_LIMIT, "output larger than %zu bytes", buffer->limit);
	if (size > buffer->capacity - buffer->size) {
		if (size > SIZE_MAX / 4 - buffer->size)
			return sp_error_no_memory();
		size_t wanted = buffer->capacity ? buffer->capacity * 2 : 4096;
		if (wanted < buffer->size + size)
			wanted = buffer->size + size;
		char *grown = realloc(buffer->bytes, wanted);
		if (!grown)
			return sp_error_no_memory();
		buffer->bytes = grown;
		buffer->capacity = wanted;
	}
	if (size)
		memcpy(buffer->bytes + buffer->size, bytes, size);
	buffer->size += size;
	return NULL;
}
