/* sp load: the viewer for a saved profile, or for a trace that is imported first. */
#include "sampler/cli/cli.h"
#include "sampler/cli/import.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Serves a trace's profile, which is made in a temporary folder. */
static struct sp_error *load_trace(const struct sp_parsed *parsed, struct sp_view_options *view,
                                   struct sp_cli_import *import)
{
	const char *parent = getenv("TMPDIR");
	char folder[4000], output[4096];
	snprintf(folder, sizeof(folder), "%s/sp-load-XXXXXX", parent && *parent ? parent : "/tmp");
	if (!mkdtemp(folder))
		return sp_error_from_errno(errno, "cannot create a temporary folder %s", folder);
	snprintf(output, sizeof(output), "%s/profile.json.gz", folder);
	import->output = output;
	struct sp_error *error = sp_cli_import_run(import);
	if (!error) {
		view->profile_path = output;
		error = sp_cli_serve(parsed, view);
	}
	remove(output);
	rmdir(folder);
	return error;
}

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
	error = sp_cli_symbols(parsed, true, &symbols);
	if (error)
		return error;
	view.profile_path = parsed->operands[0];
	view.symbols = symbols;
	view.log = &log;
	const char *paths[] = { parsed->operands[0], NULL };
	struct sp_cli_import import = { .options = { .paths = paths, .log = &log }, .profile = { .log = &log } };
	error = sp_importer_for(paths[0], &import.importer);
	if (error && error->code != SP_ERROR_NO_MEMORY) { /* what can't be read is the viewer's to tell */
		sp_error_destroy(error);
		error = NULL;
	}
	if (!error)
		error = import.importer ? load_trace(parsed, &view, &import) : sp_cli_serve(parsed, &view);
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
			status = sp_cli_end(error);
	}
	sp_parsed_deinit(&parsed);
	sp_cli_stop_if_told();
	return status;
}
