/* From a trace file to a profile; see import.h. */
#include "sampler/cli/import.h"

#include "sampler/cli/cli.h"
#include "sampler/record/place.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Filters ---- */

/* "2.5,4", "2.5,", ",4": seconds from the trace's start. */
static struct sp_error *parse_range(const char *text, struct sp_import_options *ret)
{
	const char *comma = strchr(text, ',');
	char *end;
	double from = 0, to = 0;
	bool good = comma != NULL;
	if (good && comma > text) {
		from = strtod(text, &end);
		good = end == comma && isfinite(from) && from >= 0 && from < 1e9;
	}
	if (good && comma[1]) {
		to = strtod(comma + 1, &end);
		good = !*end && isfinite(to) && to > from && to < 1e9;
	}
	if (!good)
		return sp_error_create(SP_ERROR_USAGE,
		                       "--time-range takes two times in seconds from the trace's start, as in 2.5,4 or "
		                       "2.5, or ,4; not '%s'",
		                       text);
	ret->time_limited = true;
	ret->from_ns = (uint64_t)(from * 1e9);
	ret->to_ns = comma[1] ? (uint64_t)(to * 1e9) : UINT64_MAX;
	return NULL;
}

static struct sp_error *parse_pids(const char *const *texts, uint32_t *pids, size_t *ret_count)
{
	size_t count = 0;
	for (; texts[count]; count++) {
		char *end;
		unsigned long pid = strtoul(texts[count], &end, 10);
		if (!*texts[count] || *end || texts[count][0] == '-' || pid >= UINT32_MAX)
			return sp_error_create(SP_ERROR_USAGE, "--pid takes a process's number, not '%s'",
			                       texts[count]);
		pids[count] = (uint32_t)pid;
	}
	*ret_count = count;
	return NULL;
}

struct sp_error *sp_cli_filters(const struct sp_parsed *parsed, struct sp_cli_filters *filters,
                                struct sp_import_options *ret)
{
	const char **pids = sp_option_list(parsed, "pid");
	filters->names = sp_option_list(parsed, "name");
	filters->pids = calloc(parsed->value_count + 1, sizeof(*filters->pids));
	struct sp_error *error = NULL;
	if (!pids || !filters->names || !filters->pids)
		error = sp_error_no_memory();
	if (!error)
		error = parse_pids(pids, filters->pids, &ret->pid_count);
	free(pids);
	ret->pids = filters->pids;
	ret->names = filters->names;
	ret->children = sp_option_given(parsed, "children");
	const char *range = sp_option_value(parsed, "time-range");
	if (!error && range)
		error = parse_range(range, ret);
	if (!error && ret->children && !ret->pid_count && !ret->names[0])
		error = sp_error_create(SP_ERROR_USAGE, "--children goes with --pid or --name");
	return error;
}

void sp_cli_filters_deinit(struct sp_cli_filters *filters)
{
	free(filters->pids);
	free(filters->names);
}

/* ---- Importing ---- */

struct sp_error *sp_cli_importer_for(const char *path, const struct sp_importer_ops **ret)
{
	struct sp_error *error = sp_importer_for(path, ret);
	if (!error && !*ret)
		error = sp_error_create(SP_ERROR_FORMAT, "%s: not a trace that sp knows (.etl, .etl.zip, .diagsession)",
		                        path);
	return error;
}

static volatile sig_atomic_t stop_signal;
static const int stop_signals[] = { SIGINT, SIGTERM, SIGHUP };

static void on_stop(int signal)
{
	stop_signal = signal;
}

void sp_cli_stop_begin(struct sp_cli_stop *stop)
{
	struct sigaction action = { .sa_handler = on_stop, .sa_flags = (int)SA_RESETHAND | SA_RESTART };
	for (size_t i = 0; i < sizeof(stop_signals) / sizeof(stop_signals[0]); i++) {
		sigaction(stop_signals[i], NULL, &stop->before[i]);
		if (stop->before[i].sa_handler != SIG_IGN)
			sigaction(stop_signals[i], &action, NULL);
	}
}

void sp_cli_stop_end(const struct sp_cli_stop *stop)
{
	for (size_t i = 0; i < sizeof(stop_signals) / sizeof(stop_signals[0]); i++)
		sigaction(stop_signals[i], &stop->before[i], NULL);
}

void sp_cli_stop_if_told(void)
{
	if (stop_signal)
		raise(stop_signal);
}

bool sp_cli_show_progress(void *context, uint64_t done, uint64_t total)
{
	unsigned *last = context, percent = total ? (unsigned)(done * 100 / total) : 0;
	if (percent != *last && isatty(STDERR_FILENO))
		fprintf(stderr, "\rsp: reading, %u %% ", percent);
	*last = percent;
	return !stop_signal;
}

static void say(const struct sp_import_result *result, const struct sp_log *log)
{
	for (size_t i = 0; i < result->lines.count; i++)
		sp_log(log, result->lines.items[i].warning ? SP_LOG_WARNING : SP_LOG_INFO, "%s",
		       result->lines.items[i].text);
	if (result->empty)
		sp_log(log, SP_LOG_WARNING, "the profile %s: %s",
		       result->markers ? "has markers, but no samples" : "is empty", result->empty);
}

char *sp_cli_folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = strdup(slash ? path : ".");
	if (folder && slash)
		folder[slash == path ? 1 : slash - path] = '\0';
	return folder;
}

static struct sp_error *record_trace(struct sp_cli_import *import, const char *recording_path,
                                     struct sp_import_result *ret)
{
	struct sp_recording_writer *recording;
	unsigned percent = 100;
	struct sp_error *error = sp_recording_writer_create(recording_path, &recording);
	if (error)
		return error;
	import->options.progress = sp_cli_show_progress;
	import->options.context = &percent;
	error = import->importer->import(&import->options, recording, ret);
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r                      \r");
	struct sp_error *finish = sp_recording_writer_finish(recording);
	if (!error)
		return finish;
	sp_error_destroy(finish);
	return error;
}

static struct sp_error *write_profile(const struct sp_cli_import *import, const char *recording_path)
{
	struct sp_profile_builder *builder;
	struct sp_profile_summary summary;
	struct stat status;
	struct sp_error *error = sp_profile_builder_create(recording_path, &import->profile, &builder);
	if (error)
		return error;
	error = sp_profile_builder_write(builder, import->output, &summary);
	sp_profile_builder_destroy(builder);
	if (!error && !stat(import->output, &status)) {
		char size[SP_CLI_SIZE_TEXT];
		sp_cli_size((uint64_t)status.st_size, size);
		sp_log(import->options.log, SP_LOG_INFO, "wrote %s (%s)", import->output, size);
	}
	return error;
}

struct sp_error *sp_cli_import_run(struct sp_cli_import *import)
{
	struct sp_import_result result = { 0 };
	char *recording_path, *folder = sp_cli_folder_of(import->output);
	struct sp_error *error = folder ? sp_recording_place(import->output, &recording_path) : sp_error_no_memory();
	if (error) {
		free(folder);
		return error;
	}
	struct sp_cli_stop stop;
	sp_cli_stop_begin(&stop);
	import->options.folder = folder;
	error = record_trace(import, recording_path, &result);
	if (!error && stop_signal)
		error = sp_error_create(SP_ERROR_CANCELLED, "cancelled");
	if (!error) {
		say(&result, import->options.log);
		error = write_profile(import, recording_path);
	}
	remove(recording_path);
	sp_cli_stop_end(&stop);
	sp_import_result_deinit(&result);
	free(recording_path);
	free(folder);
	return error;
}
