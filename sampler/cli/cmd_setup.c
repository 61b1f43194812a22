/* `sp setup`: lets ordinary users sample, tells whether they can, and takes it back. */
#include "sampler/backend.h"
#include "sampler/cli/cli.h"

#include <stdio.h>

#define EXIT_NOT_READY 1

static void print_line(void *context, const char *line)
{
	(void)context;
	printf("%s\n", line);
}

/* What the options ask for. */
static struct sp_error *choose_action(const struct sp_parsed *parsed, enum sp_setup_action *ret)
{
	bool status = sp_option_given(parsed, "status"), undo = sp_option_given(parsed, "undo"),
	     system = sp_option_given(parsed, "sysctl");
	if (status + undo + system > 1)
		return sp_error_create(SP_ERROR_USAGE, "--status, --undo and --sysctl exclude each other");
	if (parsed->operand_count)
		return sp_error_create(SP_ERROR_USAGE, "unexpected \"%s\"", parsed->operands[0]);
	*ret = status ? SP_SETUP_STATUS : undo ? SP_SETUP_UNDO : system ? SP_SETUP_SYSTEM : SP_SETUP_GRANT;
	return NULL;
}

static int run(enum sp_setup_action action)
{
	if (!sp_native_backend->setup) {
		printf("nothing needs to be set up on this system\n");
		return 0;
	}
	bool ready;
	struct sp_error *error = sp_native_backend->setup(action, print_line, NULL, &ready);
	if (error)
		return sp_cli_fail(error, EXIT_NOT_READY);
	if (action == SP_SETUP_UNDO || ready)
		return 0;
	if (action != SP_SETUP_STATUS)
		printf("and yet ordinary users cannot sample here: something else forbids it (a container's seccomp "
		       "filter, a security module)\n");
	return EXIT_NOT_READY;
}

int sp_cmd_setup(int argc, char **argv)
{
	struct sp_parsed parsed = { 0 };
	int status = 0;
	if (!sp_cli_parse("setup", argc, argv, SP_EXIT_USAGE, &parsed, &status)) {
		enum sp_setup_action action;
		struct sp_error *error = choose_action(&parsed, &action);
		status = error ? sp_cli_fail(error, SP_EXIT_USAGE) : run(action);
	}
	sp_parsed_deinit(&parsed);
	return status;
}
