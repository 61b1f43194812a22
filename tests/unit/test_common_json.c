/* The JSON writer against texts worked out by hand, and numbers against the C library's reader. */
#include "common/json.h"

#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
	struct sp_json json;
	struct sp_buffer buffer;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	sp_json_init(&f->json, sp_buffer_write, &f->buffer);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	free(f->buffer.bytes);
	free(f);
	return 0;
}

static void expect(struct fixture *f, const char *text)
{
	assert_null(sp_json_finish(&f->json));
	assert_true(sp_buffer_write(&f->buffer, "", 1) == NULL); /* a NUL */
	assert_string_equal(f->buffer.bytes, text);
	f->buffer.size = 0;
}

static void test_nesting_and_commas(void **state)
{
	struct fixture *f = *state;
	sp_json_object_begin(&f->json);
	sp_json_key(&f->json, "a");
	sp_json_array_begin(&f->json);
	sp_json_int(&f->json, 1);
	sp_json_array_begin(&f->json);
	sp_json_array_end(&f->json);
	sp_json_object_begin(&f->json);
	sp_json_object_end(&f->json);
	sp_json_null(&f->json);
	sp_json_newline(&f->json);
	sp_json_bool(&f->json, true);
	sp_json_array_end(&f->json);
	sp_json_member_string(&f->json, "b", NULL);
	sp_json_member_int(&f->json, "c\"", -2);
	sp_json_member_bool(&f->json, "d", false);
	sp_json_object_end(&f->json);
	expect(f, "{\"a\":[1,[],{},null\n,true],\"b\":null,\"c\\\"\":-2,\"d\":false}");
}

static void test_stepping_aside(void **state)
{
	struct fixture *f = *state;
	sp_json_array_begin(&f->json);
	sp_json_step_aside(&f->json, true);
	assert_null(sp_buffer_write(&f->buffer, "7,8", 3));
	sp_json_step_aside(&f->json, true);
	assert_null(sp_buffer_write(&f->buffer, ",9", 2));
	sp_json_int(&f->json, 10);
	sp_json_array_begin(&f->json);
	sp_json_step_aside(&f->json, false);
	sp_json_int(&f->json, 11);
	sp_json_array_end(&f->json);
	sp_json_array_end(&f->json);
	expect(f, "[7,8,9,10,[11]]");
}

static void test_strings(void **state)
{
	struct fixture *f = *state;
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "", "\"\"" },
		{ "plain", "\"plain\"" },
		{ "q\" b\\ n\n t\t r\r \x01\x1f", "\"q\\\" b\\\\ n\\n t\\t r\\r \\u0001\\u001f\"" },
		{ "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"" },
		{ "\x80", "\"\xef\xbf\xbd\"" },                                                 /* a lone trailer */
		{ "\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\"" },                                 /* overlong */
		{ "\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },                 /* a surrogate */
		{ "\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" }, /* past 10FFFF */
		{ "\xe0\x80\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },                 /* overlong */
		{ "\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\"" },                                 /* cut off */
		{ "\xe2\x82z", "\"\xef\xbf\xbd\xef\xbf\xbdz\"" },
		{ "\xff\xc3\xa9", "\"\xef\xbf\xbd\xc3\xa9\"" },
		{ "\xf4\x8f\xbf\xbf", "\"\xf4\x8f\xbf\xbf\"" },
		{ "\x7f", "\"\x7f\"" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		sp_json_string(&f->json, cases[i].in);
		expect(f, cases[i].out);
	}
	sp_json_string_n(&f->json, "a\0b", 3);
	expect(f, "\"a\\u0000b\"");
}

static void test_integers(void **state)
{
	struct fixture *f = *state;
	char text[64];
	for (unsigned shift = 0; shift < 64; shift++) {
		for (int around = -1; around <= 1; around++) {
			uint64_t value = (UINT64_C(1) << shift) + (uint64_t)around;
			snprintf(text, sizeof(text), "%" PRIu64, value);
			sp_json_uint(&f->json, value);
			expect(f, text);
			snprintf(text, sizeof(text), "%" PRId64, (int64_t)value);
			sp_json_int(&f->json, (int64_t)value);
			expect(f, text);
			snprintf(text, sizeof(text), "\"0x%" PRIx64 "\"", value);
			sp_json_hex(&f->json, value);
			expect(f, text);
		}
	}
	uint64_t power = 1;
	for (unsigned i = 0; i < 20; i++, power *= 10) {
		snprintf(text, sizeof(text), "%" PRIu64 "%" PRIu64, power - 1, power);
		sp_json_uint(&f->json, power - 1);
		sp_json_uint(&f->json, power);
		expect(f, text);
	}
}

static void test_milliseconds(void **state)
{
	struct fixture *f = *state;
	static const struct {
		int64_t ns;
		const char *text;
	} cases[] = {
		{ 0, "0" },
		{ 1, "0.000001" },
		{ -1, "-0.000001" },
		{ 10, "0.00001" },
		{ 1000000, "1" },
		{ 1234567, "1.234567" },
		{ 1500000, "1.5" },
		{ 20030000, "20.03" },
		{ -20030000, "-20.03" },
		{ INT64_MAX, "9223372036854.775807" },
		{ INT64_MIN, "-9223372036854.775808" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		sp_json_ns_as_ms(&f->json, cases[i].ns);
		expect(f, cases[i].text);
	}
}

static void test_doubles(void **state)
{
	struct fixture *f = *state;
	static const double values[] = { 0.1,          1.0 / 3,    1e300,   -2.5e-300,          DBL_MAX, DBL_MIN,
		                         DBL_TRUE_MIN, 1e15 + 0.5, 123.456, 9007199254740993.0, -0.75,   1e22 };
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		sp_json_double(&f->json, values[i]);
		assert_null(sp_json_finish(&f->json));
		assert_null(sp_buffer_write(&f->buffer, "", 1));
		assert_true(strtod(f->buffer.bytes, NULL) == values[i]);
		f->buffer.size = 0;
	}
	sp_json_double(&f->json, 0.1);
	expect(f, "0.1");
	sp_json_double(&f->json, 42);
	expect(f, "42");
	sp_json_double(&f->json, (double)NAN);
	expect(f, "null");
	sp_json_double(&f->json, -(double)INFINITY);
	expect(f, "null");
}

/* Values of every length at every place around the buffer's end. */
static void test_buffer_seams(void **state)
{
	struct fixture *f = *state;
	struct sp_buffer expected = { 0 };
	sp_json_array_begin(&f->json);
	sp_buffer_write(&expected, "[", 1);
	for (unsigned i = 0; i < 40000; i++) {
		char text[64];
		int length = snprintf(text, sizeof(text), "%s%u,\"\\n%.*s\"", i ? "," : "", i * i, (int)(i % 13),
		                      "abcdefghijklm");
		sp_buffer_write(&expected, text, (size_t)length);
		sp_json_uint(&f->json, i * i);
		snprintf(text, sizeof(text), "\n%.*s", (int)(i % 13), "abcdefghijklm");
		sp_json_string(&f->json, text);
	}
	sp_json_array_end(&f->json);
	sp_buffer_write(&expected, "]", 1);
	assert_null(sp_json_finish(&f->json));
	assert_int_equal(f->buffer.size, expected.size);
	assert_memory_equal(f->buffer.bytes, expected.bytes, expected.size);
	free(expected.bytes);
}

static void test_errors_stick(void **state)
{
	struct fixture *f = *state;
	f->buffer.limit = 100000;
	sp_json_array_begin(&f->json);
	for (unsigned i = 0; i < 100000; i++)
		sp_json_uint(&f->json, i);
	sp_json_array_end(&f->json);
	struct sp_error *error = sp_json_finish(&f->json);
	assert_non_null(error);
	assert_int_equal(error->code, SP_ERROR_LIMIT);
	assert_true(f->buffer.size <= 100000);
	sp_error_destroy(error);
}

static void test_misuse_is_told(void **state)
{
	struct fixture *f = *state;
	sp_json_array_begin(&f->json);
	struct sp_error *error = sp_json_finish(&f->json);
	assert_int_equal(error->code, SP_ERROR_USAGE);
	sp_error_destroy(error);

	sp_json_init(&f->json, sp_buffer_write, &f->buffer);
	for (unsigned i = 0; i < SP_JSON_DEPTH + 5; i++)
		sp_json_array_begin(&f->json);
	for (unsigned i = 0; i < SP_JSON_DEPTH + 5; i++)
		sp_json_array_end(&f->json);
	error = sp_json_finish(&f->json);
	assert_int_equal(error->code, SP_ERROR_LIMIT);
	sp_error_destroy(error);

	sp_json_init(&f->json, sp_buffer_write, &f->buffer);
	sp_json_array_end(&f->json);
	error = sp_json_finish(&f->json);
	assert_int_equal(error->code, SP_ERROR_USAGE);
	sp_error_destroy(error);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nesting_and_commas, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stepping_aside, setup, teardown),
		cmocka_unit_test_setup_teardown(test_strings, setup, teardown),
		cmocka_unit_test_setup_teardown(test_integers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_milliseconds, setup, teardown),
		cmocka_unit_test_setup_teardown(test_doubles, setup, teardown),
		cmocka_unit_test_setup_teardown(test_buffer_seams, setup, teardown),
		cmocka_unit_test_setup_teardown(test_errors_stick, setup, teardown),
		cmocka_unit_test_setup_teardown(test_misuse_is_told, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
