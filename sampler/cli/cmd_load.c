/* sp load: the viewer for a saved profile. */
#include "sampler/cli/cli.h"

#include <stdio.h>

static struct sp_error *load(const struct sp_parsed *parsed)
{
	if (parsed->operand_count != 1)
		return sp_error_create(SP_ERROR_USAGE, "sp load takes one profile (see 'sp load --help')");
	struct sp_log log = sp_cli_log(sp_option_given(parsed, "verbose"));
	struct sp_view_options view;
	struct sp_error *error = sp_cli_view_options(parsed, &view);
	if (error)
		return error;
	spsym_context *symbols;
	error = sp_cli_symbols(parsed, &symbols);
	if (error)
		return error;
	view.profile_path = parsed->operands[0];
	view.symbols = symbols;
	view.log = &log;
	error = sp_cli_serve(parsed, &view);
	spsym_context_destroy(symbols);
	return error;
}

int sp_cmd_load(int argc, char **argv)
{
	struct sp_parsed parsed = { 0 };
	int status = 0;
	if (!sp_cli_parse("load", argc, argv, SP_EXIT_USAGE, &parsed, &status)) {
		struct sp_error *error = load(&parsed);
		if (error)
			status = sp_cli_fail(error, error->code == SP_ERROR_USAGE ? SP_EXIT_USAGE : SP_EXIT_FAILED);
	}
	sp_parsed_deinit(&parsed);
	return status;
}
