/* sp filter: a trace file becomes a smaller one. */
#include "sampler/cli/cli.h"
#include "sampler/cli/import.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct sp_error *filter(const struct sp_importer_ops *importer, struct sp_import_options *options,
                               const char *output)
{
	struct sp_filter_result result;
	struct sp_cli_stop stop;
	unsigned percent = 100;
	if (!importer->filter)
		return sp_error_create(SP_ERROR_UNSUPPORTED, "traces of the format %s can't be filtered",
		                       importer->name);
	char *folder = sp_cli_folder_of(output);
	if (!folder)
		return sp_error_no_memory();
	options->folder = folder;
	options->progress = sp_cli_show_progress;
	options->context = &percent;
	sp_cli_stop_begin(&stop);
	struct sp_error *error = importer->filter(options, output, &result);
	sp_cli_stop_end(&stop);
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r                      \r");
	if (!error)
		sp_log(options->log, SP_LOG_INFO,
		       "wrote %s: %" PRIu64 " of %" PRIu64 " events (%" PRIu64 " samples), %.1f of %.1f MB", output,
		       result.kept, result.events, result.samples, (double)result.bytes_out / 1e6,
		       (double)result.bytes_in / 1e6);
	if (!error && !result.samples)
		sp_log(options->log, SP_LOG_WARNING,
		       "there is no sample in it (sp import --list shows which processes the trace has)");
	free(folder);
	return error;
}

static struct sp_error *run(const struct sp_parsed *parsed)
{
	if (parsed->operand_count != 2)
		return sp_error_create(SP_ERROR_USAGE, "sp filter takes a trace and the name of the file to write (see "
		                                       "'sp filter --help')");
	const char *paths[] = { parsed->operands[0], NULL };
	struct sp_log log = sp_cli_log(false);
	struct sp_import_options options = { .paths = paths, .log = &log };
	struct sp_cli_filters filters = { 0 };
	const struct sp_importer_ops *importer;
	const char **markers = sp_option_list(parsed, "markers");
	options.markers = markers;
	struct sp_error *error = markers ? sp_cli_filters(parsed, &filters, &options) : sp_error_no_memory();
	if (!error && !options.pid_count && !options.names[0] && !options.time_limited)
		error = sp_error_create(SP_ERROR_USAGE, "what shall be kept? give --pid, --name or --time-range");
	if (!error)
		error = sp_cli_importer_for(paths[0], &importer);
	if (!error)
		error = filter(importer, &options, parsed->operands[1]);
	sp_cli_filters_deinit(&filters);
	free(markers);
	return error;
}

int sp_cmd_filter(int argc, char **argv)
{
	struct sp_parsed parsed = { 0 };
	int status = 0;
	if (!sp_cli_parse("filter", argc, argv, SP_EXIT_USAGE, &parsed, &status)) {
		struct sp_error *error = run(&parsed);
		if (error)
			status = sp_cli_end(error);
	}
	sp_parsed_deinit(&parsed);
	sp_cli_stop_if_told();
	return status;
}
