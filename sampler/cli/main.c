/* sp: the command. Finds the subcommand and hands over. */
#include "sampler/cli/cli.h"
#include "sampler/cli/mapped_files.h"
#include "sampler/cli/peers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} runners[] = {
	{ "record", sp_cmd_record },   { "load", sp_cmd_load },   { "import", sp_cmd_import },
	{ "filter", sp_cmd_filter },   { "setup", sp_cmd_setup }, { "symbolicate", sp_cmd_symbolicate },
	{ "symbols", sp_cmd_symbols }, { "serve", sp_cmd_serve }, { "upload", sp_cmd_upload },
};

static int help(int argc, char **argv)
{
	if (argc < 2) {
		sp_help_overview(stdout);
		return 0;
	}
	const struct sp_command *command = sp_command_find(argv[1]);
	if (!command)
		return sp_cli_fail(sp_error_create(SP_ERROR_USAGE, "there is no command '%s' (see 'sp help')", argv[1]),
		                   SP_EXIT_USAGE);
	sp_help_command(command, stdout);
	return 0;
}

static int run(int argc, char **argv)
{
	if (argc < 2) {
		sp_help_overview(stderr);
		return SP_EXIT_USAGE;
	}
	const char *name = argv[1];
	if (!strcmp(name, "--version") || !strcmp(name, "-V") || !strcmp(name, "version")) {
		printf("sp %s\n", SP_VERSION);
		return 0;
	}
	if (!strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h"))
		return help(argc - 1, argv + 1);
	for (size_t i = 0; i < sizeof(runners) / sizeof(runners[0]); i++) {
		if (!strcmp(runners[i].name, name))
			return runners[i].run(argc - 1, argv + 1);
	}
	return sp_cli_fail(sp_error_create(SP_ERROR_USAGE, "there is no command '%s' (see 'sp help')", name),
	                   SP_EXIT_USAGE);
}

int main(int argc, char **argv)
{
	int status;
	sp_mapped_files_guard();
	if (sp_peer_by_name(argc, argv, &status))
		return status;
	status = run(argc, argv);
	/* Output that went nowhere is no success. */
	if ((fflush(stdout) || ferror(stdout)) && !status)
		status = sp_cli_fail(sp_error_from_errno(errno, "cannot write the output"), SP_EXIT_FAILED);
	return status;
}
