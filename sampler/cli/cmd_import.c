/* sp import: a trace of another tool becomes a profile. */
#include "sampler/cli/cli.h"
#include "sampler/cli/import.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DEFAULT_OUTPUT "profile.json.gz"

/* --list: what the trace has. */
static struct sp_error *list(struct sp_cli_import *import)
{
	struct sp_import_result result = { 0 };
	import->options.folder = NULL;
	struct sp_error *error = import->importer->import(&import->options, NULL, &result);
	if (!error) {
		for (size_t i = 0; i < result.lines.count; i++)
			printf("%s\n", result.lines.items[i].text);
		printf("\n%12s  %s\n", "events", "provider");
		for (size_t i = 0; i < result.providers.count; i++)
			printf("%12" PRIu64 "  %s\n", result.providers.items[i].events, result.providers.items[i].name);
		printf("\n%12s %9s  %s\n", "samples", "pid", "process");
		for (size_t i = 0; i < result.process_list.count; i++)
			printf("%12" PRIu64 " %9" PRIu32 "  %s\n", result.process_list.items[i].samples,
			       result.process_list.items[i].pid, result.process_list.items[i].name);
	}
	sp_import_result_deinit(&result);
	return error;
}

/* Writes the profile and shows it if that is wanted. */
static struct sp_error *import_and_view(const struct sp_parsed *parsed, struct sp_cli_import *import)
{
	struct sp_view_options view;
	spsym_context *symbols;
	const char *output = sp_option_value(parsed, "output");
	bool serve = !sp_option_given(parsed, "save-only") &&
	             (isatty(STDERR_FILENO) || sp_option_given(parsed, "serve"));
	if (sp_option_given(parsed, "save-only") && sp_option_given(parsed, "serve"))
		return sp_error_create(SP_ERROR_USAGE, "--save-only and --serve contradict each other");
	struct sp_error *error = sp_cli_view_options(parsed, &view);
	if (!error)
		error = sp_cli_symbols(parsed, true, &symbols);
	if (error)
		return error;
	import->output = output ? output : DEFAULT_OUTPUT;
	import->profile.profile_name = sp_option_value(parsed, "profile-name");
	import->profile.presymbolicate = sp_option_given(parsed, "presymbolicate") ? symbols : NULL;
	import->profile.log = import->options.log;
	error = sp_cli_import_run(import);
	if (!error && serve) {
		view.profile_path = import->output;
		view.symbols = symbols;
		view.log = import->options.log;
		error = sp_cli_serve(parsed, &view);
	}
	spsym_context_destroy(symbols);
	return error;
}

static struct sp_error *run(const struct sp_parsed *parsed)
{
	if (!parsed->operand_count)
		return sp_error_create(SP_ERROR_USAGE,
		                       "sp import takes a trace, and files that belong to it (see 'sp import --help')");
	struct sp_log log = sp_cli_log(sp_option_given(parsed, "verbose"));
	struct sp_cli_import import = { .options = { .paths = (const char *const *)parsed->operands,
		                                     .idle = sp_option_given(parsed, "idle"),
		                                     .log = &log } };
	struct sp_cli_filters filters = { 0 };
	const char **markers = sp_option_list(parsed, "markers");
	import.options.markers = markers;
	struct sp_error *error = markers ? sp_cli_filters(parsed, &filters, &import.options) : sp_error_no_memory();
	if (!error)
		error = sp_cli_importer_for(parsed->operands[0], &import.importer);
	if (!error)
		error = sp_option_given(parsed, "list") ? list(&import) : import_and_view(parsed, &import);
	sp_cli_filters_deinit(&filters);
	free(markers);
	return error;
}

int sp_cmd_import(int argc, char **argv)
{
	struct sp_parsed parsed = { 0 };
	int status = 0;
	if (!sp_cli_parse("import", argc, argv, SP_EXIT_USAGE, &parsed, &status)) {
		struct sp_error *error = run(&parsed);
		if (error)
			status = sp_cli_end(error);
	}
	sp_parsed_deinit(&parsed);
	sp_cli_stop_if_told();
	return status;
}
