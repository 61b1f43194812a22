/* Parsing by table; see options.h. The habits of getopt_long hold: -r 100, -r100, --rate 100, --rate=100, grouped
 * flags,
 * "--" ends the options. */
#include "sampler/cli/options.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const struct sp_command *sp_command_find(const char *name)
{
	for (size_t i = 0; i < sp_command_count; i++) {
		if (!strcmp(sp_commands[i].name, name))
			return &sp_commands[i];
	}
	return NULL;
}

static const struct sp_option *find_long(const struct sp_command *command, const char *name, size_t length)
{
	for (size_t i = 0; i < command->option_count; i++) {
		const struct sp_option *option = &command->options[i];
		if (strlen(option->name) == length && !memcmp(option->name, name, length))
			return option;
	}
	return NULL;
}

static const struct sp_option *find_letter(const struct sp_command *command, char letter)
{
	for (size_t i = 0; i < command->option_count; i++) {
		if (command->options[i].letter == letter)
			return &command->options[i];
	}
	return NULL;
}

static struct sp_error *usage_error(const struct sp_command *command, const char *what, const char *subject)
{
	return sp_error_create(SP_ERROR_USAGE, "%s '%s' (see 'sp %s --help')", what, subject, command->name);
}

static struct sp_error *add_value(struct sp_parsed *parsed, const struct sp_option *option, const char *value)
{
	if (option->kind == SP_OPTION_REFUSED)
		return sp_error_create(SP_ERROR_USAGE, "--%s is not offered: %s", option->name, option->help);
	parsed->values[parsed->value_count++] = (struct sp_parsed_value){ .option = option, .value = value };
	return NULL;
}

static bool needs_value(const struct sp_option *option)
{
	return option->kind == SP_OPTION_VALUE || option->kind == SP_OPTION_LIST;
}

/* "--name", "--name=value", "--name value". Advances *at past what it used. */
static struct sp_error *parse_long(struct sp_parsed *parsed, int argc, char **argv, int *at)
{
	const char *text = argv[(*at)++] + 2;
	const char *equals = strchr(text, '=');
	size_t length = equals ? (size_t)(equals - text) : strlen(text);
	if (length == 4 && !memcmp(text, "help", 4)) {
		parsed->help = true;
		return NULL;
	}
	const struct sp_option *option = find_long(parsed->command, text, length);
	if (!option)
		return usage_error(parsed->command, "unknown option", argv[*at - 1]);
	if (option->kind == SP_OPTION_FLAG && equals)
		return usage_error(parsed->command, "no value is taken by", argv[*at - 1]);
	const char *value = equals ? equals + 1 : NULL;
	if (needs_value(option) && !value) {
		if (*at >= argc)
			return usage_error(parsed->command, "a value is missing after", argv[*at - 1]);
		value = argv[(*at)++];
	}
	return add_value(parsed, option, value);
}

/* "-abc", "-r100", "-r 100". */
static struct sp_error *parse_letters(struct sp_parsed *parsed, int argc, char **argv, int *at)
{
	const char *word = argv[(*at)++];
	for (const char *letter = word + 1; *letter; letter++) {
		if (*letter == 'h' && !find_letter(parsed->command, 'h')) {
			parsed->help = true;
			continue;
		}
		const struct sp_option *option = find_letter(parsed->command, *letter);
		if (!option)
			return usage_error(parsed->command, "unknown option in", word);
		if (!needs_value(option)) {
			struct sp_error *error = add_value(parsed, option, NULL);
			if (error)
				return error;
			continue;
		}
		if (letter[1])
			return add_value(parsed, option, letter + 1);
		if (*at >= argc)
			return usage_error(parsed->command, "a value is missing after", word);
		return add_value(parsed, option, argv[(*at)++]);
	}
	return NULL;
}

struct sp_error *sp_options_parse(const struct sp_command *command, int argc, char **argv, struct sp_parsed *ret)
{
	*ret = (struct sp_parsed){ .command = command };
	/* No word gives more than one value, except grouped flags: count letters. */
	size_t most = 1;
	for (int i = 1; i < argc; i++)
		most += strlen(argv[i]) + 1;
	ret->values = calloc(most, sizeof(*ret->values));
	ret->operands = calloc((size_t)argc + 1, sizeof(*ret->operands));
	if (!ret->values || !ret->operands)
		return sp_error_no_memory();
	struct sp_error *error = NULL;
	int at = 1;
	bool options_ended = false;
	while (at < argc && !error) {
		const char *word = argv[at];
		if (options_ended || word[0] != '-' || !word[1]) {
			ret->operands[ret->operand_count++] = argv[at++];
			options_ended = options_ended || command->operands_end_options;
		} else if (!strcmp(word, "--")) {
			options_ended = true;
			at++;
		} else if (word[1] == '-') {
			error = parse_long(ret, argc, argv, &at);
		} else {
			error = parse_letters(ret, argc, argv, &at);
		}
	}
	return error;
}

void sp_parsed_deinit(struct sp_parsed *parsed)
{
	free(parsed->values);
	free(parsed->operands);
	*parsed = (struct sp_parsed){ 0 };
}

static const struct sp_parsed_value *last_value(const struct sp_parsed *parsed, const char *name)
{
	const struct sp_option *option = find_long(parsed->command, name, strlen(name));
	assert(option);
	for (size_t i = parsed->value_count; i-- > 0;) {
		if (parsed->values[i].option == option)
			return &parsed->values[i];
	}
	return NULL;
}

bool sp_option_given(const struct sp_parsed *parsed, const char *name)
{
	return last_value(parsed, name);
}

const char *sp_option_value(const struct sp_parsed *parsed, const char *name)
{
	const struct sp_parsed_value *value = last_value(parsed, name);
	return value ? value->value : NULL;
}

const char **sp_option_list(const struct sp_parsed *parsed, const char *name)
{
	const char **list = calloc(parsed->value_count + 1, sizeof(*list));
	size_t count = 0;
	for (size_t i = 0; list && i < parsed->value_count; i++) {
		if (!strcmp(parsed->values[i].option->name, name))
			list[count++] = parsed->values[i].value;
	}
	return list;
}

struct sp_error *sp_option_number(const struct sp_parsed *parsed, const char *name, double low, double high,
                                  double fallback, double *ret)
{
	const char *text = sp_option_value(parsed, name);
	*ret = fallback;
	if (!text)
		return NULL;
	char *end;
	double value = strtod(text, &end);
	if (end == text || *end || !(value >= low && value <= high))
		return sp_error_create(SP_ERROR_USAGE, "--%s takes a number from %.10g to %.10g, not '%s'", name, low,
		                       high, text);
	*ret = value;
	return NULL;
}

void sp_help_overview(FILE *out)
{
	fprintf(out,
	        "sp %s: a sampling profiler for the Firefox Profiler\n\nUsage: sp COMMAND [options]\n\nCommands:\n",
	        SP_VERSION);
	for (size_t i = 0; i < sp_command_count; i++)
		fprintf(out, "  %-12s %s\n", sp_commands[i].name, sp_commands[i].summary);
	fputs("  help         Say how to use a command: sp help record\n\n"
	      "Options:\n  --version    Print the version\n  --help       Print this\n\n"
	      "Start here:  sp record ./your-program its arguments\n",
	      out);
}

static void print_wrapped(FILE *out, const char *text, int indent)
{
	int column = indent;
	while (*text) {
		size_t length = strcspn(text, " \n");
		if (column > indent && column + 1 + (int)length > 100) {
			fprintf(out, "\n%*s", indent, "");
			column = indent;
		} else if (column > indent) {
			fputc(' ', out);
			column++;
		}
		fwrite(text, 1, length, out);
		column += (int)length;
		text += length;
		if (*text == '\n') {
			fprintf(out, "\n%*s", indent, "");
			column = indent;
		}
		if (*text)
			text++;
	}
}

static void print_option(FILE *out, const struct sp_option *option)
{
	char left[64];
	char letter[5] = "    ";
	if (option->letter)
		snprintf(letter, sizeof(letter), "-%c, ", option->letter);
	const char *value = option->value_name ? option->value_name : "";
	const char *form = option->kind == SP_OPTION_OPTIONAL ? "%s--%s[=%s]"
	                   : option->value_name               ? "%s--%s %s"
	                                                      : "%s--%s%s";
	/* One of three constant formats, each with three strings. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(left, sizeof(left), form, letter, option->name, value);
#pragma GCC diagnostic pop
	fprintf(out, "  %-34s ", left);
	if (strlen(left) > 34)
		fprintf(out, "\n%37s", "");
	print_wrapped(out, option->help, 37);
	fputc('\n', out);
}

void sp_help_command(const struct sp_command *command, FILE *out)
{
	fprintf(out, "%s\n\nUsage: sp %s [options] %s\n", command->summary, command->name, command->usage);
	if (command->description) {
		fputc('\n', out);
		print_wrapped(out, command->description, 0);
		fputc('\n', out);
	}
	fputs("\nOptions:\n", out);
	for (size_t i = 0; i < command->option_count; i++) {
		if (command->options[i].kind != SP_OPTION_REFUSED)
			print_option(out, &command->options[i]);
	}
	fputs("  -h, --help                         Print this\n", out);
}
