/* The command line's parser and its tables. */
#include "sampler/cli/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Splits a command line at blanks and parses it as `name`'s. */
static struct sp_error *parse(char *line, const char *name, struct sp_parsed *ret)
{
	static char *argv[32];
	int argc = 0;
	argv[argc++] = (char *)name;
	for (char *word = strtok(line, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	argv[argc] = NULL;
	return sp_options_parse(sp_command_find(name), argc, argv, ret);
}

static void test_forms(void **state)
{
	(void)state;
	static const char *const lines[] = { "-r 250 -s x", "-r250 -s x", "--rate 250 --save-only x", "--rate=250 -s x",
		                             "-sr 250 x" };
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char line[64];
		strcpy(line, lines[i]);
		struct sp_parsed parsed;
		assert_null(parse(line, "record", &parsed));
		double rate;
		assert_null(sp_option_number(&parsed, "rate", 1, 1e6, 1000, &rate));
		assert_true(rate == 250);
		assert_true(sp_option_given(&parsed, "save-only"));
		assert_int_equal(parsed.operand_count, 1);
		sp_parsed_deinit(&parsed);
	}
}

static void test_command_keeps_its_options(void **state)
{
	(void)state;
	char line[] = "-s ls -r 5 --help -- -n";
	struct sp_parsed parsed;
	assert_null(parse(line, "record", &parsed));
	assert_false(parsed.help);
	assert_false(sp_option_given(&parsed, "rate"));
	assert_int_equal(parsed.operand_count, 6);
	assert_string_equal(parsed.operands[4], "--");
	sp_parsed_deinit(&parsed);

	char dashes[] = "-s -- -odd -r 5";
	assert_null(parse(dashes, "record", &parsed));
	assert_int_equal(parsed.operand_count, 3);
	assert_string_equal(parsed.operands[0], "-odd");
	sp_parsed_deinit(&parsed);

	char behind[] = "file -n";
	assert_null(parse(behind, "load", &parsed));
	assert_true(sp_option_given(&parsed, "no-open"));
	assert_int_equal(parsed.operand_count, 1);
	sp_parsed_deinit(&parsed);
}

static void test_errors_say_what_to_do(void **state)
{
	(void)state;
	static const struct {
		const char *line, *part;
	} cases[] = {
		{ "--nonsense x", "unknown option '--nonsense'" },
		{ "-z x", "unknown option in '-z'" },
		{ "--rate", "a value is missing after '--rate'" },
		{ "-r", "a value is missing after '-r'" },
		{ "--save-only=1 x", "no value is taken by" },
		{ "--all", "--all is not offered" },
		{ "-a", "--all is not offered" },
		{ "--gfx x", "--gfx is not offered" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char line[64];
		strcpy(line, cases[i].line);
		struct sp_parsed parsed;
		struct sp_error *error = parse(line, "record", &parsed);
		assert_non_null(error);
		assert_int_equal(error->code, SP_ERROR_USAGE);
		assert_non_null(strstr(error->message, cases[i].part));
		sp_error_destroy(error);
		sp_parsed_deinit(&parsed);
	}
}

static void test_numbers(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"-r abc x", "-r 0 x", "-r -5 x", "-r 1e99 x", "-r nan x", "-r 5x x", "-r= x"
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char line[64];
		strcpy(line, bad[i]);
		struct sp_parsed parsed;
		assert_null(parse(line, "record", &parsed));
		double rate;
		struct sp_error *error = sp_option_number(&parsed, "rate", 1, 1e6, 1000, &rate);
		assert_non_null(error);
		sp_error_destroy(error);
		sp_parsed_deinit(&parsed);
	}
}

static void test_lists_and_optional_values(void **state)
{
	(void)state;
	char line[] = "--symbol-dir a --include-args --symbol-dir=b x";
	struct sp_parsed parsed;
	assert_null(parse(line, "record", &parsed));
	const char **folders = sp_option_list(&parsed, "symbol-dir");
	assert_string_equal(folders[0], "a");
	assert_string_equal(folders[1], "b");
	assert_null(folders[2]);
	free(folders);
	assert_true(sp_option_given(&parsed, "include-args"));
	assert_null(sp_option_value(&parsed, "include-args"));
	sp_parsed_deinit(&parsed);
}

/* A table that names an option or letter twice would hide one of them. */
static void test_tables_are_unique(void **state)
{
	(void)state;
	for (size_t c = 0; c < sp_command_count; c++) {
		const struct sp_command *command = &sp_commands[c];
		for (size_t i = 0; i < command->option_count; i++) {
			for (size_t k = 0; k < i; k++) {
				assert_string_not_equal(command->options[i].name, command->options[k].name);
				if (command->options[i].letter)
					assert_int_not_equal(command->options[i].letter, command->options[k].letter);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_command_keeps_its_options),
		cmocka_unit_test(test_errors_say_what_to_do),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_lists_and_optional_values),
		cmocka_unit_test(test_tables_are_unique),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
