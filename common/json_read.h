/* A pull reader of JSON: the caller walks the text in its own order and takes what it needs; no tree is built, so a
 * hostile text costs no memory beyond what the caller keeps.
 *
 *	sp_json_read_object(&r);
 *	while (sp_json_next_key(&r, &key, &length))
 *		if (...) sp_json_read_u64(&r, &value); else sp_json_skip(&r);
 *	error = sp_json_read_finish(&r);
 *
 * Errors are sticky: after one every call fails, loops end, and sp_json_read_finish() tells what and where. Reads RFC
 * 8259; strings are not checked to be UTF-8. */
#ifndef SP_COMMON_JSON_READ_H
#define SP_COMMON_JSON_READ_H

#include "common/arena.h"
#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Gives the next bytes of the text, *ret_size 0 at its end; they stay valid until the next call. */
typedef struct sp_error *(*sp_json_fill_fn)(void *context, const char **ret, size_t *ret_size);

#define SP_JSON_READ_DEPTH 512       /* nesting of arrays and objects */
#define SP_JSON_READ_STRING 16777216 /* bytes of one string that is read (not skipped) */

enum sp_json_kind {
	SP_JSON_KIND_NONE, /* end of the text, or an error */
	SP_JSON_KIND_OBJECT,
	SP_JSON_KIND_ARRAY,
	SP_JSON_KIND_STRING,
	SP_JSON_KIND_NUMBER,
	SP_JSON_KIND_BOOL,
	SP_JSON_KIND_NULL,
};

struct sp_json_reader {
	const char *at, *end; /* unread bytes of the window */
	const char *window;   /* its first byte */
	uint64_t before;      /* bytes of the text before the window */
	sp_json_fill_fn fill; /* NULL: the window is the whole text */
	void *context;
	unsigned depth;
	uint64_t is_object[SP_JSON_READ_DEPTH / 64]; /* one bit a level: an object, else an array */
	bool first;                                  /* no member of the innermost container was read yet */
	char *scratch;                               /* owned: a string that had to be copied */
	size_t scratch_size, scratch_capacity;
	struct sp_error *error; /* the first one */
};

void sp_json_read_init(struct sp_json_reader *reader, const char *text, size_t size);
void sp_json_read_init_fill(struct sp_json_reader *reader, sp_json_fill_fn fill, void *context);
/* Frees the storage, an error that was not taken too. */
void sp_json_read_deinit(struct sp_json_reader *reader);

/* The kind of the next value; nothing is read. */
enum sp_json_kind sp_json_peek(struct sp_json_reader *reader);

/* Begin an object or array; false when the next value is none. */
bool sp_json_read_object(struct sp_json_reader *reader);
bool sp_json_read_array(struct sp_json_reader *reader);
/* The next member of the innermost object: its key, valid until the next call, NUL-terminated is not promised. False
 * (and the object is left) at its end. The value must then be read or skipped. */
bool sp_json_next_key(struct sp_json_reader *reader, const char **ret, size_t *ret_length);
/* Whether a key, or a string's text, is `name`. */
static inline bool sp_json_key_is(const char *key, size_t length, const char *name)
{
	return length == strlen(name) && !memcmp(key, name, length);
}
/* True when there is a further item in the innermost array; false (and the array is left) at its end. */
bool sp_json_next_item(struct sp_json_reader *reader);

/* A string, decoded; valid until the next call of any function. */
bool sp_json_read_string(struct sp_json_reader *reader, const char **ret, size_t *ret_length);
/* The same as a copy that ends in a NUL; one with a NUL inside is an error. NULL on errors, a lack of memory too. */
const char *sp_json_read_copy(struct sp_json_reader *reader, struct sp_arena *arena);
/* A whole number from 0 to 2^64 - 1; one with a sign, fraction or exponent is an error. */
bool sp_json_read_u64(struct sp_json_reader *reader, uint64_t *ret);
bool sp_json_read_bool(struct sp_json_reader *reader, bool *ret);
/* Any value. */
bool sp_json_skip(struct sp_json_reader *reader);

/* Sets an error of the caller's ("stacks: not an array"); the offset is added. */
void sp_json_read_fail(struct sp_json_reader *reader, const char *what);
bool sp_json_read_failed(const struct sp_json_reader *reader);
/* Checks that nothing but white space follows and hands over the first error. */
struct sp_error *sp_json_read_finish(struct sp_json_reader *reader);
/* Hands over the first error without looking at what follows. */
struct sp_error *sp_json_read_error(struct sp_json_reader *reader);

#endif
