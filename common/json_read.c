/* The pull reader of JSON. The text is seen through a window: all of it, or the chunk that the source gave last. What
 * spans two chunks (only strings and numbers can) is gathered in `scratch`; everything else is one byte at a time. */
#include "common/json_read.h"

#include "common/hex.h"
#include "common/json_plain.h"

#include <stdlib.h>
#include <string.h>

void sp_json_read_init(struct sp_json_reader *reader, const char *text, size_t size)
{
	memset(reader, 0, sizeof(*reader));
	reader->window = reader->at = text;
	reader->end = text ? text + size : text;
}

void sp_json_read_init_fill(struct sp_json_reader *reader, sp_json_fill_fn fill, void *context)
{
	sp_json_read_init(reader, NULL, 0);
	reader->fill = fill;
	reader->context = context;
}

void sp_json_read_deinit(struct sp_json_reader *reader)
{
	free(reader->scratch);
	reader->scratch = NULL;
	sp_error_destroy(reader->error);
	reader->error = NULL;
}

bool sp_json_read_failed(const struct sp_json_reader *reader)
{
	return reader->error;
}

static void fail_with(struct sp_json_reader *reader, struct sp_error *error)
{
	if (reader->error)
		sp_error_destroy(error);
	else
		reader->error = error;
	/* Nothing more is read: every loop of the caller ends. */
	reader->before += (uint64_t)(reader->at - reader->window);
	reader->window = reader->at = reader->end = NULL;
	reader->fill = NULL;
}

void sp_json_read_fail(struct sp_json_reader *reader, const char *what)
{
	if (reader->error)
		return;
	uint64_t offset = reader->before + (uint64_t)(reader->at - reader->window);
	fail_with(reader, sp_error_create(SP_ERROR_FORMAT, "JSON at byte %llu: %s", (unsigned long long)offset, what));
}

/* The next chunk into the window; false at the end of the text. */
static bool refill(struct sp_json_reader *reader)
{
	if (!reader->fill)
		return false;
	const char *bytes = NULL;
	size_t size = 0;
	struct sp_error *error = reader->fill(reader->context, &bytes, &size);
	if (error) {
		fail_with(reader, error);
		return false;
	}
	reader->before += (uint64_t)(reader->end - reader->window);
	reader->window = reader->at = reader->end = NULL;
	if (!size) {
		reader->fill = NULL;
		return false;
	}
	reader->window = reader->at = bytes;
	reader->end = bytes + size;
	return true;
}

/* The next byte without reading it, -1 at the end. */
static inline int look(struct sp_json_reader *reader)
{
	if (reader->at == reader->end && !refill(reader))
		return -1;
	return (unsigned char)*reader->at;
}

static inline int look_past_space(struct sp_json_reader *reader)
{
	for (;;) {
		int c = look(reader);
		if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
			return c;
		reader->at++;
	}
}

enum sp_json_kind sp_json_peek(struct sp_json_reader *reader)
{
	switch (look_past_space(reader)) {
	case '{':
		return SP_JSON_KIND_OBJECT;
	case '[':
		return SP_JSON_KIND_ARRAY;
	case '"':
		return SP_JSON_KIND_STRING;
	case 't':
	case 'f':
		return SP_JSON_KIND_BOOL;
	case 'n':
		return SP_JSON_KIND_NULL;
	case '-':
	case '0' ... '9':
		return SP_JSON_KIND_NUMBER;
	case -1:
		return SP_JSON_KIND_NONE;
	default:
		sp_json_read_fail(reader, "not a value");
		return SP_JSON_KIND_NONE;
	}
}

static bool scratch_add(struct sp_json_reader *reader, const char *bytes, size_t size);

/* ---- Objects and arrays ---- */

static bool enter(struct sp_json_reader *reader, char open, const char *what)
{
	if (look_past_space(reader) != open) {
		sp_json_read_fail(reader, what);
		return false;
	}
	if (reader->depth == SP_JSON_READ_DEPTH) {
		sp_json_read_fail(reader, "nested too deeply");
		return false;
	}
	reader->at++;
	uint64_t bit = (uint64_t)1 << (reader->depth % 64), *word = &reader->is_object[reader->depth / 64];
	*word = open == '{' ? *word | bit : *word & ~bit;
	reader->depth++;
	reader->first = true;
	return true;
}

bool sp_json_read_object(struct sp_json_reader *reader)
{
	return enter(reader, '{', "not an object");
}

bool sp_json_read_array(struct sp_json_reader *reader)
{
	return enter(reader, '[', "not an array");
}

/* Past the comma to the next member, or past the closing bracket (false). */
static bool next_member(struct sp_json_reader *reader, char close)
{
	int c = look_past_space(reader);
	if (c == close) {
		reader->at++;
		reader->depth--;
		reader->first = false;
		return false;
	}
	if (!reader->first) {
		if (c != ',') {
			sp_json_read_fail(reader, c < 0 ? "the text ends early" : "neither a comma nor the end");
			return false;
		}
		reader->at++;
		c = look_past_space(reader);
	}
	if (c < 0 || c == close) {
		sp_json_read_fail(reader, c < 0 ? "the text ends early" : "a comma before the end");
		return false;
	}
	reader->first = false;
	return true;
}

bool sp_json_next_item(struct sp_json_reader *reader)
{
	return !reader->error && next_member(reader, ']');
}

bool sp_json_next_key(struct sp_json_reader *reader, const char **ret, size_t *ret_length)
{
	if (reader->error || !next_member(reader, '}') || !sp_json_read_string(reader, ret, ret_length))
		return false;
	/* Reaching the colon may replace the window that the key lies in. */
	if (reader->fill && *ret != reader->scratch) {
		reader->scratch_size = 0;
		if (!scratch_add(reader, *ret, *ret_length))
			return false;
		*ret = reader->scratch ? reader->scratch : "";
	}
	if (look_past_space(reader) != ':') {
		sp_json_read_fail(reader, "no colon behind a key");
		return false;
	}
	reader->at++;
	return true;
}

/* ---- Strings ---- */

static bool scratch_add(struct sp_json_reader *reader, const char *bytes, size_t size)
{
	if (size > SP_JSON_READ_STRING - reader->scratch_size) {
		sp_json_read_fail(reader, "a string is too long");
		return false;
	}
	if (reader->scratch_size + size > reader->scratch_capacity) {
		size_t capacity = (reader->scratch_size + size) * 2 + 64;
		char *scratch = realloc(reader->scratch, capacity);
		if (!scratch) {
			fail_with(reader, sp_error_no_memory());
			return false;
		}
		reader->scratch = scratch;
		reader->scratch_capacity = capacity;
	}
	if (size)
		memcpy(reader->scratch + reader->scratch_size, bytes, size);
	reader->scratch_size += size;
	return true;
}

static bool scratch_add_code_point(struct sp_json_reader *reader, uint32_t c)
{
	char utf8[4];
	size_t size = 0;
	if (c < 0x80) {
		utf8[size++] = (char)c;
	} else if (c < 0x800) {
		utf8[size++] = (char)(0xc0 | c >> 6);
		utf8[size++] = (char)(0x80 | (c & 0x3f));
	} else if (c < 0x10000) {
		utf8[size++] = (char)(0xe0 | c >> 12);
		utf8[size++] = (char)(0x80 | (c >> 6 & 0x3f));
		utf8[size++] = (char)(0x80 | (c & 0x3f));
	} else {
		utf8[size++] = (char)(0xf0 | c >> 18);
		utf8[size++] = (char)(0x80 | (c >> 12 & 0x3f));
		utf8[size++] = (char)(0x80 | (c >> 6 & 0x3f));
		utf8[size++] = (char)(0x80 | (c & 0x3f));
	}
	return scratch_add(reader, utf8, size);
}

/* The four hex digits of \uXXXX. */
static bool read_hex4(struct sp_json_reader *reader, uint32_t *ret)
{
	*ret = 0;
	for (unsigned i = 0; i < 4; i++) {
		int digit = sp_hex_digit(look(reader));
		if (digit < 0) {
			sp_json_read_fail(reader, "a bad \\u escape");
			return false;
		}
		*ret = *ret << 4 | (uint32_t)digit;
		reader->at++;
	}
	return true;
}

/* \uXXXX, or two of them that make one code point; a surrogate alone becomes U+FFFD. The "\u" has been read. */
static bool read_unicode_escape(struct sp_json_reader *reader)
{
	uint32_t c;
	if (!read_hex4(reader, &c))
		return false;
	while (c >= 0xd800 && c < 0xdc00) {
		if (look(reader) != '\\')
			return scratch_add_code_point(reader, 0xfffd);
		reader->at++;
		if (look(reader) != 'u') {
			static const char escapes[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
			int e = look(reader);
			const char *at = e > 0 ? strchr(escapes, e) : NULL;
			if (!at) {
				sp_json_read_fail(reader, "an unknown escape");
				return false;
			}
			reader->at++;
			return scratch_add_code_point(reader, 0xfffd) && scratch_add(reader, &values[at - escapes], 1);
		}
		reader->at++;
		uint32_t low;
		if (!read_hex4(reader, &low))
			return false;
		if (low >= 0xdc00 && low < 0xe000)
			return scratch_add_code_point(reader, 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00));
		if (!scratch_add_code_point(reader, 0xfffd))
			return false;
		c = low;
	}
	return scratch_add_code_point(reader, c >= 0xdc00 && c < 0xe000 ? 0xfffd : c);
}

static bool read_escape(struct sp_json_reader *reader)
{
	static const char escapes[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	int c = look(reader);
	if (c == 'u') {
		reader->at++;
		return read_unicode_escape(reader);
	}
	const char *at = c > 0 ? strchr(escapes, c) : NULL;
	if (!at) {
		sp_json_read_fail(reader, "an unknown escape");
		return false;
	}
	reader->at++;
	return scratch_add(reader, &values[at - escapes], 1);
}

/* The run of plain bytes from `at`: up to a quote, a backslash or a control character. */
static const char *plain_run(const char *at, const char *end)
{
	at = sp_json_plain(at, end);
	while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20)
		at++;
	return at;
}

bool sp_json_read_string(struct sp_json_reader *reader, const char **ret, size_t *ret_length)
{
	if (look_past_space(reader) != '"') {
		sp_json_read_fail(reader, "not a string");
		return false;
	}
	reader->at++;
	const char *stop = plain_run(reader->at, reader->end);
	if (stop < reader->end && *stop == '"') {
		*ret = reader->at;
		*ret_length = (size_t)(stop - reader->at);
		reader->at = stop + 1;
		return true;
	}
	reader->scratch_size = 0;
	for (;;) {
		stop = plain_run(reader->at, reader->end);
		if (!scratch_add(reader, reader->at, (size_t)(stop - reader->at)))
			return false;
		reader->at = stop;
		int c = look(reader);
		if (c == '"') {
			reader->at++;
			*ret = reader->scratch ? reader->scratch : "";
			*ret_length = reader->scratch_size;
			return true;
		}
		if (c == '\\') {
			reader->at++;
			if (!read_escape(reader))
				return false;
		} else if (c < 0x20) {
			sp_json_read_fail(reader, c < 0 ? "a string without end" : "a control character in a string");
			return false;
		}
	}
}

const char *sp_json_read_copy(struct sp_json_reader *reader, struct sp_arena *arena)
{
	const char *string;
	size_t length;
	if (!sp_json_read_string(reader, &string, &length))
		return NULL;
	if (memchr(string, 0, length)) {
		sp_json_read_fail(reader, "a NUL in a string");
		return NULL;
	}
	const char *copy = sp_arena_strndup(arena, string, length);
	if (!copy)
		sp_json_read_fail(reader, "out of memory");
	return copy;
}

/* ---- The other values ---- */

bool sp_json_read_u64(struct sp_json_reader *reader, uint64_t *ret)
{
	int c = look_past_space(reader);
	if (c < '0' || c > '9') {
		sp_json_read_fail(reader, "not a whole number");
		return false;
	}
	uint64_t value = 0;
	bool leading_zero = c == '0';
	unsigned digits = 0;
	for (; c >= '0' && c <= '9'; c = look(reader)) {
		if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, c - '0', &value)) {
			sp_json_read_fail(reader, "a number is too large");
			return false;
		}
		reader->at++;
		digits++;
	}
	if (c == '.' || c == 'e' || c == 'E' || (leading_zero && digits > 1)) {
		sp_json_read_fail(reader, "not a whole number");
		return false;
	}
	*ret = value;
	return !reader->error;
}

/* Reads the rest of a literal. */
static bool read_literal(struct sp_json_reader *reader, const char *literal)
{
	for (; *literal; literal++) {
		if (look(reader) != *literal) {
			sp_json_read_fail(reader, "not a value");
			return false;
		}
		reader->at++;
	}
	return true;
}

bool sp_json_read_bool(struct sp_json_reader *reader, bool *ret)
{
	int c = look_past_space(reader);
	if (c != 't' && c != 'f') {
		sp_json_read_fail(reader, "neither true nor false");
		return false;
	}
	*ret = c == 't';
	return read_literal(reader, *ret ? "true" : "false");
}

static bool skip_string(struct sp_json_reader *reader)
{
	reader->at++;
	for (;;) {
		int c = look(reader);
		if (c < 0) {
			sp_json_read_fail(reader, "a string without end");
			return false;
		}
		reader->at = plain_run(reader->at, reader->end);
		c = look(reader);
		if (c < 0)
			continue;
		reader->at++;
		if (c == '"')
			return true;
		if (c == '\\' && look(reader) >= 0)
			reader->at++;
	}
}

/* What skip_container() does at a byte: 0 nothing (numbers, literals, commas, colons, space), else look. */
static const uint8_t structural[256] = { ['"'] = 1, ['{'] = 1, ['}'] = 1, ['['] = 1, [']'] = 1 };

/* Skips an object or array: brackets must match and strings end; the rest of the grammar is not checked. */
static bool skip_container(struct sp_json_reader *reader)
{
	unsigned outer = reader->depth;
	do {
		while (reader->at < reader->end && !structural[(unsigned char)*reader->at])
			reader->at++;
		int c = look(reader);
		switch (c) {
		case -1:
			sp_json_read_fail(reader, "the text ends early");
			return false;
		case '"':
			if (!skip_string(reader))
				return false;
			break;
		case '{':
		case '[':
			if (!enter(reader, (char)c, ""))
				return false;
			break;
		case '}':
		case ']': {
			unsigned level = reader->depth - 1;
			bool is_object = reader->is_object[level / 64] >> (level % 64) & 1;
			if (is_object != (c == '}')) {
				sp_json_read_fail(reader, "brackets do not match");
				return false;
			}
			reader->at++;
			reader->depth--;
			break;
		}
		default:
			break;
		}
	} while (reader->depth > outer);
	reader->first = false;
	return true;
}

static bool skip_number(struct sp_json_reader *reader)
{
	for (int c = look(reader); c >= 0 && strchr("+-.0123456789eE", c) && c; c = look(reader))
		reader->at++;
	return !reader->error;
}

bool sp_json_skip(struct sp_json_reader *reader)
{
	switch (sp_json_peek(reader)) {
	case SP_JSON_KIND_OBJECT:
	case SP_JSON_KIND_ARRAY:
		return skip_container(reader);
	case SP_JSON_KIND_STRING:
		return skip_string(reader);
	case SP_JSON_KIND_NUMBER:
		return skip_number(reader);
	case SP_JSON_KIND_BOOL: {
		bool value;
		return sp_json_read_bool(reader, &value);
	}
	case SP_JSON_KIND_NULL:
		return read_literal(reader, "null");
	default:
		sp_json_read_fail(reader, "a value is missing");
		return false;
	}
}

struct sp_error *sp_json_read_error(struct sp_json_reader *reader)
{
	struct sp_error *error = reader->error;
	reader->error = NULL;
	return error;
}

struct sp_error *sp_json_read_finish(struct sp_json_reader *reader)
{
	if (!reader->error && look_past_space(reader) >= 0)
		sp_json_read_fail(reader, "more text behind the value");
	return sp_json_read_error(reader);
}
