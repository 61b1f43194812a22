/* The pull reader of JSON, from memory and from chunks of every size. */
#include "common/json_read.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Gives `text` in pieces of `step` bytes, each in storage of its own that is gone at the next call. */
struct chunks {
	const char *text;
	size_t left, step;
	char *last;
};

static struct sp_error *next_chunk(void *context, const char **ret, size_t *ret_size)
{
	struct chunks *c = context;
	size_t size = c->left < c->step ? c->left : c->step;
	free(c->last);
	c->last = malloc(size + 1);
	memcpy(c->last, c->text, size);
	c->text += size;
	c->left -= size;
	*ret = c->last;
	*ret_size = size;
	return NULL;
}

static const char document[] =
    "{ \"a\\u0041\\ud83d\\ude00\" : [ 1, 20 ,\t300 ] , \"deep\" : {\"x\":[[{\"y\":\"\\\\\\\"]}\"}]],"
    "\"z\":-1.5e+3}, \"t\":true,\"f\":false,\"n\":null,\"s\":\"\",\"big\":18446744073709551615 } \n";

static void walk(struct sp_json_reader *r)
{
	const char *key;
	size_t length;
	uint64_t value = 0;
	bool flag;
	assert_int_equal(sp_json_peek(r), SP_JSON_KIND_OBJECT);
	assert_true(sp_json_read_object(r));
	assert_true(sp_json_next_key(r, &key, &length));
	assert_int_equal(length, 6);
	assert_memory_equal(key, "aA\xf0\x9f\x98\x80", 6);
	assert_true(sp_json_read_array(r));
	for (unsigned i = 0; i < 3; i++) {
		static const uint64_t expected[] = { 1, 20, 300 };
		assert_true(sp_json_next_item(r));
		assert_true(sp_json_read_u64(r, &value));
		assert_int_equal(value, expected[i]);
	}
	assert_false(sp_json_next_item(r));
	assert_true(sp_json_next_key(r, &key, &length));
	assert_int_equal(length, 4);
	assert_true(sp_json_skip(r));
	assert_true(sp_json_next_key(r, &key, &length) && *key == 't');
	assert_true(sp_json_read_bool(r, &flag) && flag);
	assert_true(sp_json_next_key(r, &key, &length) && *key == 'f');
	assert_true(sp_json_read_bool(r, &flag) && !flag);
	assert_true(sp_json_next_key(r, &key, &length) && *key == 'n');
	assert_int_equal(sp_json_peek(r), SP_JSON_KIND_NULL);
	assert_true(sp_json_skip(r));
	assert_true(sp_json_next_key(r, &key, &length) && *key == 's');
	assert_true(sp_json_read_string(r, &key, &length));
	assert_int_equal(length, 0);
	assert_true(sp_json_next_key(r, &key, &length) && *key == 'b');
	assert_true(sp_json_read_u64(r, &value));
	assert_true(value == UINT64_MAX);
	assert_false(sp_json_next_key(r, &key, &length));
	struct sp_error *error = sp_json_read_finish(r);
	assert_null(error);
	sp_json_read_deinit(r);
}

static void test_a_document_from_memory_and_from_chunks(void **state)
{
	(void)state;
	struct sp_json_reader r;
	sp_json_read_init(&r, document, sizeof(document) - 1);
	walk(&r);
	for (size_t step = 1; step < sizeof(document); step++) {
		struct chunks c = { .text = document, .left = sizeof(document) - 1, .step = step };
		sp_json_read_init_fill(&r, next_chunk, &c);
		walk(&r);
		free(c.last);
	}
}

/* Skips the whole text; true when it is in order. */
static bool skips(const char *text, size_t size)
{
	struct sp_json_reader r;
	sp_json_read_init(&r, text, size);
	sp_json_skip(&r);
	struct sp_error *error = sp_json_read_finish(&r);
	bool ok = !error;
	sp_error_destroy(error);
	sp_json_read_deinit(&r);
	return ok;
}

static void test_every_truncation_is_an_error(void **state)
{
	(void)state;
	size_t whole = strrchr(document, '}') + 1 - document;
	assert_true(skips(document, whole));
	for (size_t size = 0; size < whole; size++)
		assert_false(skips(document, size));
}

static void test_malformed_texts(void **state)
{
	(void)state;
	static const char *const texts[] = { "", "[1,2}", "{\"a\":[}", "[1] 2", "nul", "tru", "\"\\", "[", "]", "x" };
	for (unsigned i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_false(skips(texts[i], strlen(texts[i])));
	/* Numbers that are no address. */
	static const char *const numbers[] = { "-1", "1.0", "1e3", "01", "18446744073709551616", "\"1\"", "null", "" };
	for (unsigned i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		struct sp_json_reader r;
		uint64_t value;
		sp_json_read_init(&r, numbers[i], strlen(numbers[i]));
		assert_false(sp_json_read_u64(&r, &value));
		assert_true(sp_json_read_failed(&r));
		sp_json_read_deinit(&r);
	}
	/* Commas. */
	static const char *const arrays[] = { "[,]", "[1,]", "[1 2]", "[1,,2]", "[1" };
	for (unsigned i = 0; i < sizeof(arrays) / sizeof(*arrays); i++) {
		struct sp_json_reader r;
		uint64_t value;
		sp_json_read_init(&r, arrays[i], strlen(arrays[i]));
		assert_true(sp_json_read_array(&r));
		while (sp_json_next_item(&r))
			sp_json_read_u64(&r, &value);
		struct sp_error *error = sp_json_read_finish(&r);
		assert_non_null(error);
		sp_error_destroy(error);
		sp_json_read_deinit(&r);
	}
}

static void test_escapes(void **state)
{
	(void)state;
	static const struct {
		const char *text, *expected;
	} good[] = {
		{ "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t" },
		{ "\"\\ud800\"", "\xef\xbf\xbd" },
		{ "\"\\ud800\\n\"", "\xef\xbf\xbd\n" },
		{ "\"\\ud800\\ud801x\"", "\xef\xbf\xbd\xef\xbf\xbdx" },
		{ "\"\\ud800\\u00e9\"", "\xef\xbf\xbd\xc3\xa9" },
		{ "\"\\udc00\"", "\xef\xbf\xbd" },
		{ "\"\\u20AC\"", "\xe2\x82\xac" },
	};
	const char *string;
	size_t length;
	struct sp_json_reader r;
	for (unsigned i = 0; i < sizeof(good) / sizeof(*good); i++) {
		sp_json_read_init(&r, good[i].text, strlen(good[i].text));
		assert_true(sp_json_read_string(&r, &string, &length));
		assert_int_equal(length, strlen(good[i].expected));
		assert_memory_equal(string, good[i].expected, length);
		sp_json_read_deinit(&r);
	}
	static const char *const bad[] = { "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"",   "\"\n\"",
		                           "\"abc",   "\"\\",      "\"\\ud800\\x\"" };
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		sp_json_read_init(&r, bad[i], strlen(bad[i]));
		assert_false(sp_json_read_string(&r, &string, &length));
		sp_json_read_deinit(&r);
	}
}

static void test_nesting_is_limited(void **state)
{
	(void)state;
	char text[2 * SP_JSON_READ_DEPTH + 4];
	memset(text, '[', SP_JSON_READ_DEPTH);
	memset(text + SP_JSON_READ_DEPTH, ']', SP_JSON_READ_DEPTH);
	assert_true(skips(text, 2 * SP_JSON_READ_DEPTH));
	memset(text, '[', SP_JSON_READ_DEPTH + 1);
	memset(text + SP_JSON_READ_DEPTH + 1, ']', SP_JSON_READ_DEPTH + 1);
	assert_false(skips(text, 2 * SP_JSON_READ_DEPTH + 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_document_from_memory_and_from_chunks),
		cmocka_unit_test(test_every_truncation_is_an_error),
		cmocka_unit_test(test_malformed_texts),
		cmocka_unit_test(test_escapes),
		cmocka_unit_test(test_nesting_is_limited),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
