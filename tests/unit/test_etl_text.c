/* Unit tests of texts in events: found and converted by words, they must be what a conversion character by character
 * gives, wherever something that is not ASCII stands, and however small the room is. */
#include "platform/windows/etl_payload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define LONGEST 40

/* Code points that are a character of UTF-16 each, and their UTF-8. */
static const struct {
	uint16_t wide;
	const char *utf8;
} others[] = {
	{ 0x7f, "\x7f" },      { 0x80, "\xc2\x80" },       { 0xff, "\xc3\xbf" },       { 0x100, "\xc4\x80" },
	{ 0x7ff, "\xdf\xbf" }, { 0x8000, "\xe8\x80\x80" }, { 0xd800, "\xef\xbf\xbd" }, { 0xffff, "\xef\xbf\xbf" }
};
#define OTHERS (sizeof(others) / sizeof(others[0]))

/* A text of `length` letters with others[which] at `place`; its UTF-8 cut to whole characters that fit `size`. */
static void make(unsigned length, unsigned place, unsigned which, uint16_t *wide, char *utf8, size_t size)
{
	size_t used = 0;
	bool full = false;
	for (unsigned i = 0; i < length; i++) {
		char letter[2] = { (char)('a' + i % 26), '\0' };
		const char *next = i == place ? others[which].utf8 : letter;
		wide[i] = i == place ? others[which].wide : (uint8_t)letter[0];
		full |= used + strlen(next) >= size;
		if (!full)
			used += (size_t)snprintf(utf8 + used, size - used, "%s", next);
	}
	utf8[used] = '\0';
	wide[length] = 0;
}

static void test_wide(void **state)
{
	(void)state;
	static const size_t sizes[] = { 200, 1, 5, 9, 17 };
	for (unsigned length = 0; length <= LONGEST; length++) {
		for (unsigned i = 0; i < (length + 1) * OTHERS * 5; i++) {
			uint16_t wide[LONGEST + 3] = { 0 };
			char expected[256], got[256];
			size_t size = sizes[i % 5];
			make(length, i / 5 / OTHERS, i / 5 % OTHERS, wide, expected, size);
			wide[length + 1] = 'z'; /* what follows */
			struct sp_cursor c = sp_cursor_init(wide, (length + 2) * 2);
			struct sp_etl_text text = sp_etl_wide_text(&c);
			assert_int_equal(text.size, length * 2);
			assert_int_equal(sp_cursor_left(&c), 2);
			sp_etl_text_utf8(&text, got, size);
			assert_string_equal(got, expected);
			/* Without an end it goes to the payload's. */
			c = sp_cursor_init(wide, length * 2);
			text = sp_etl_wide_text(&c);
			assert_int_equal(text.size, length * 2);
			assert_int_equal(sp_cursor_left(&c), 0);
		}
	}
}

static void test_narrow(void **state)
{
	(void)state;
	static const size_t sizes[] = { 200, 1, 5, 9, 17 };
	for (unsigned length = 0; length <= LONGEST; length++) {
		for (unsigned i = 0; i < (length + 1) * OTHERS * 5; i++) {
			uint16_t unused[LONGEST + 3];
			char whole[256], expected[256], got[256];
			size_t size = sizes[i % 5];
			if (others[i / 5 % OTHERS].wide == 0xd800)
				continue;
			make(length, i / 5 / OTHERS, i / 5 % OTHERS, unused, whole, sizeof(whole));
			make(length, i / 5 / OTHERS, i / 5 % OTHERS, unused, expected, size);
			strcpy(whole + strlen(whole) + 1, "z");
			struct sp_cursor c = sp_cursor_init(whole, strlen(whole) + 2);
			struct sp_etl_text text = sp_etl_narrow_text(&c);
			assert_int_equal(text.size, strlen(whole));
			assert_int_equal(sp_cursor_left(&c), 1);
			sp_etl_text_utf8(&text, got, size);
			assert_string_equal(got, expected);
		}
	}
}

static void test_pairs(void **state)
{
	(void)state;
	const uint16_t wide[] = { 'a', 'b', 'c', 'd', 'e', 0xd83d, 0xde00, 'f', 'g', 'h', 'i', 'j', 0 };
	struct sp_cursor c = sp_cursor_init(wide, sizeof(wide));
	struct sp_etl_text text = sp_etl_wide_text(&c);
	char got[64];
	sp_etl_text_utf8(&text, got, sizeof(got));
	assert_string_equal(got, "abcde\xf0\x9f\x98\x80"
	                         "fghij");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_wide), cmocka_unit_test(test_narrow),
		                            cmocka_unit_test(test_pairs) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
