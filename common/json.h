/* A streaming JSON writer: text goes to a sink as it is made, never a tree or the whole text in memory.
 *
 * Commas and nesting are kept by the writer; keys must be given inside objects. Errors of the sink are sticky and
 * returned by sp_json_finish(). */
#ifndef SP_COMMON_JSON_H
#define SP_COMMON_JSON_H

#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Takes `size` bytes; an error ends the writing. */
typedef struct sp_error *(*sp_write_fn)(void *context, const void *bytes, size_t size);

#define SP_JSON_BUFFER 32768
#define SP_JSON_DEPTH 64

struct sp_json {
	sp_write_fn write;
	void *context;
	struct sp_error *error; /* first error of the sink */
	unsigned depth;         /* open arrays and objects */
	bool need_comma[SP_JSON_DEPTH];
	bool after_key;
	size_t used;
	char buffer[SP_JSON_BUFFER];
};

void sp_json_init(struct sp_json *json, sp_write_fn write, void *context);
void sp_json_object_begin(struct sp_json *json);
void sp_json_object_end(struct sp_json *json);
void sp_json_array_begin(struct sp_json *json);
void sp_json_array_end(struct sp_json *json);
void sp_json_key(struct sp_json *json, const char *key);
void sp_json_key_n(struct sp_json *json, const char *key, size_t length);
/* A string of `length` bytes; control characters are escaped, bytes that are not UTF-8 become U+FFFD. */
void sp_json_string_n(struct sp_json *json, const char *string, size_t length);
/* NULL writes null. */
void sp_json_string(struct sp_json *json, const char *string);
void sp_json_int(struct sp_json *json, int64_t value);
void sp_json_uint(struct sp_json *json, uint64_t value);
/* A finite number with up to 17 significant digits; NaN and infinity write null. */
void sp_json_double(struct sp_json *json, double value);
/* Nanoseconds as a decimal number of milliseconds, exact (1234567 -> 1.234567). */
void sp_json_ns_as_ms(struct sp_json *json, int64_t ns);
/* "0x..." in quotes. */
void sp_json_hex(struct sp_json *json, uint64_t value);
void sp_json_bool(struct sp_json *json, bool value);
void sp_json_null(struct sp_json *json);
/* Text that was written before and kept: a value, or members of the open object ("a":1,"b":2 without the braces; at
 * least one). */
void sp_json_raw(struct sp_json *json, const char *text, size_t size);
/* A newline between values, for people who look into the file. */
void sp_json_newline(struct sp_json *json);
/* Hands all text so far to the sink. The caller may then write values of the open array to the sink itself, with
 * commas between them; `any`: it is going to write some. */
void sp_json_step_aside(struct sp_json *json, bool any);
/* Flushes and gives the first error. */
struct sp_error *sp_json_finish(struct sp_json *json);

/* Shorthands for object members. */
void sp_json_member_string(struct sp_json *json, const char *key, const char *value);
void sp_json_member_int(struct sp_json *json, const char *key, int64_t value);
void sp_json_member_bool(struct sp_json *json, const char *key, bool value);

/* A sink that collects the text in memory. Zeroed storage is empty; the caller frees .bytes. */
struct sp_buffer {
	char *bytes; /* owned; not NUL-terminated */
	size_t size, capacity;
	size_t limit; /* 0 = none; more than this is SP_ERROR_LIMIT */
};
/* An sp_write_fn; `context` is the struct sp_buffer. */
struct sp_error *sp_buffer_write(void *context, const void *bytes, size_t size);

#endif
