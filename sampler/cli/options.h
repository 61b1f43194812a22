/* The command line: tables of commands and options, the parser that reads by them, and the help text made from them.
 * The man page and the shell completions are made from the same tables (generate.c), so they can't disagree. */
#ifndef SP_SAMPLER_CLI_OPTIONS_H
#define SP_SAMPLER_CLI_OPTIONS_H

#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum sp_option_kind {
	SP_OPTION_FLAG,     /* no value */
	SP_OPTION_VALUE,    /* a value must follow */
	SP_OPTION_OPTIONAL, /* --name or --name=value */
	SP_OPTION_LIST,     /* a value must follow; may be given again */
	SP_OPTION_REFUSED,  /* known from a peer, not offered: `help` says why and what to do; takes no value */
};

/* What completes an option's value in a shell. */
enum sp_option_completion { SP_COMPLETE_NONE, SP_COMPLETE_FILE, SP_COMPLETE_FOLDER, SP_COMPLETE_PID };

struct sp_option {
	char letter;            /* 0 = none */
	const char *name;       /* without dashes; unique in its command, and how the code asks for it */
	const char *value_name; /* NULL for flags */
	enum sp_option_kind kind;
	const char *help; /* one sentence, no full stop */
	enum sp_option_completion completion;
};

struct sp_command {
	const char *name;
	const char *usage;       /* operands: "[--] [VAR=value...] command [args...]" */
	const char *summary;     /* one line */
	const char *description; /* paragraphs for the man page and --help; may be NULL */
	const struct sp_option *options;
	size_t option_count;
	bool operands_end_options; /* the first operand ends the options (they belong to the command then) */
	enum sp_option_completion operand_completion;
};

extern const struct sp_command sp_commands[];
extern const size_t sp_command_count;

/* Exit codes of sp itself, and environment variables, for the man page. */
struct sp_documented {
	const char *name, *help;
};
extern const struct sp_documented sp_exit_codes[], sp_environment[];
extern const size_t sp_exit_code_count, sp_environment_count;

const struct sp_command *sp_command_find(const char *name);

/* Parsed options; zeroed storage is empty. */
struct sp_parsed {
	const struct sp_command *command;
	struct sp_parsed_value {
		const struct sp_option *option;
		const char *value; /* borrowed from argv; NULL for flags */
	} * values;                /* owned, in the order given */
	size_t value_count;
	char **operands; /* borrowed: a NULL-terminated tail of argv, or owned copies of pointers */
	size_t operand_count;
	bool help; /* -h or --help was given */
};

/* Parses argv[1 .. argc) by the command's table. The order of argv may change. */
struct sp_error *sp_options_parse(const struct sp_command *command, int argc, char **argv, struct sp_parsed *ret);
void sp_parsed_deinit(struct sp_parsed *parsed);

/* Whether the option was given; asking for a name that the table lacks is a bug (assertion). */
bool sp_option_given(const struct sp_parsed *parsed, const char *name);
/* The last value given, or NULL. */
const char *sp_option_value(const struct sp_parsed *parsed, const char *name);
/* All values of a list option, NULL-terminated; the caller frees the array. NULL without memory. */
const char **sp_option_list(const struct sp_parsed *parsed, const char *name);
/* A number in [low, high]; `fallback` when not given. */
struct sp_error *sp_option_number(const struct sp_parsed *parsed, const char *name, double low, double high,
                                  double fallback, double *ret);

void sp_help_overview(FILE *out);
void sp_help_command(const struct sp_command *command, FILE *out);

#endif
