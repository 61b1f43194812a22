/* What the commands of sp share. */
#ifndef SP_SAMPLER_CLI_CLI_H
#define SP_SAMPLER_CLI_CLI_H

#include "common/error.h"
#include "common/json.h"
#include "common/log.h"
#include "sampler/cli/options.h"
#include "sampler/view/view.h"
#include "spsym.h"

#include <signal.h>
#include <stdio.h>

/* Each command: argv[0] is its name; returns the exit status. */
int sp_cmd_record(int argc, char **argv);
int sp_cmd_import(int argc, char **argv);
int sp_cmd_filter(int argc, char **argv);
int sp_cmd_load(int argc, char **argv);
int sp_cmd_serve(int argc, char **argv);
int sp_cmd_setup(int argc, char **argv);
int sp_cmd_upload(int argc, char **argv);
int sp_cmd_symbolicate(int argc, char **argv);
int sp_cmd_symbols(int argc, char **argv);

enum {
	SP_EXIT_USAGE = 2,    /* wrong usage of a command other than record */
	SP_EXIT_FAILED = 1,   /* a command other than record failed */
	SP_EXIT_RECORD = 125, /* sp record failed by itself */
	SP_EXIT_CANNOT_RUN = 126,
	SP_EXIT_NOT_FOUND = 127,
};

/* What comes from files goes to terminals without control characters: they would be obeyed. */
/* Writes a text with control characters as \xNN. */
struct sp_error *sp_cli_escape(const char *text, sp_write_fn write, void *context);
/* The same to a stream. */
void sp_cli_print(FILE *out, const char *text);

/* An sp_write_fn for stdout. */
struct sp_error *sp_cli_write_stdout(void *context, const void *bytes, size_t size);

#define SP_CLI_SIZE_TEXT 32
/* "1.3 MB". */
void sp_cli_size(uint64_t bytes, char ret[SP_CLI_SIZE_TEXT]);

/* A log that prints "sp: ..." lines on stderr; `verbose` shows debug lines too. */
struct sp_log sp_cli_log(bool verbose);

/* Prints "sp: <message>" and frees the error; returns `status`. */
int sp_cli_fail(struct sp_error *error, int status);

/* The same for an error that ends a command other than record: its code tells the status. */
int sp_cli_end(struct sp_error *error);

/* Handles --help and parse errors: true when the command must return *ret_status at once. */
bool sp_cli_parse(const char *name, int argc, char **argv, int usage_status, struct sp_parsed *ret, int *ret_status);

/* The symbol context that the options ask for, with sp's cache folder. `stays`: the command serves look-ups for a
 * while, so that indexes are worth their making. */
struct sp_error *sp_cli_symbols(const struct sp_parsed *parsed, bool stays, spsym_context **ret);

/* The viewer options given on the command line, checked. `ret->profile_path`, `symbols` and `log` are the caller's to
 * fill. */
struct sp_error *sp_cli_view_options(const struct sp_parsed *parsed, struct sp_view_options *ret);

/* For what is served until SIGINT, SIGTERM or SIGHUP: blocks them, before the server's threads start, so that they
 * inherit it; and waits for one, after which a second one ends the process. */
void sp_cli_block_ends(sigset_t *ret);
void sp_cli_wait_for_end(const sigset_t *ends);

/* Serves until SIGINT, SIGTERM or SIGHUP, with --no-open and --map-path as given. */
struct sp_error *sp_cli_serve(const struct sp_parsed *parsed, struct sp_view_options *options);

#endif
