/* Unit tests of quoting: what is joined can be told apart again. */
#include "common/words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check_join(char *const *words, const char *expected)
{
	char *text = sp_words_join(words);
	assert_string_equal(text, expected);
	if (words[0]) {
		char *first = sp_words_first(text);
		assert_string_equal(first, words[0]);
		free(first);
	}
	free(text);
}

static void test_join(void **state)
{
	(void)state;
	check_join((char *[]){ NULL }, "");
	check_join((char *[]){ "ls", "-l", NULL }, "ls -l");
	check_join((char *[]){ "./b c d", "e", NULL }, "'./b c d' e");
	check_join((char *[]){ "it's", "", "\"", NULL }, "'it'\\''s' '' '\"'");
	check_join((char *[]){ "a\\b", "\n", NULL }, "'a\\b' '\n'");
	check_join((char *[]){ "'", "''", NULL }, "''\\''' ''\\'''\\'''");
}

static void check_first(const char *text, const char *expected)
{
	char *first = sp_words_first(text);
	assert_string_equal(first, expected);
	free(first);
}

/* Command lines of Windows are quoted in their own way. */
static void test_first(void **state)
{
	(void)state;
	check_first("", "");
	check_first(" x", "");
	check_first("\"C:\\Program Files\\a.exe\" /x", "C:\\Program Files\\a.exe");
	check_first("C:\\a\\b.exe /x", "C:\\a\\b.exe");
	check_first("\"unclosed word", "unclosed word");
	check_first("a\\\"b c", "a\"b");
	check_first("ends\\", "ends\\");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_join),
		cmocka_unit_test(test_first),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
