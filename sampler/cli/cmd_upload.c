/* sp upload: sends what a build made to a symbol server. */
#include "sampler/cli/cli.h"

#include "common/file.h"
#include "common/json.h"
#include "symbolication/upload/upload.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOKEN_LIMIT 4096 /* bytes of a file with one */

static const char *const result_names[] = {
	[SP_UPLOAD_PENDING] = "failed",    [SP_UPLOAD_SENT] = "sent",       [SP_UPLOAD_THERE] = "there",
	[SP_UPLOAD_LEFT_OUT] = "left out", [SP_UPLOAD_REFUSED] = "refused", [SP_UPLOAD_FAILED] = "failed"
};

/* The token, from where --auth says; the caller frees *ret. */
static struct sp_error *take_token(const struct sp_parsed *parsed, char **ret)
{
	const char *auth = sp_option_value(parsed, "auth");
	size_t size;
	if (!auth)
		auth = "env:SP_UPLOAD_TOKEN";
	*ret = NULL;
	if (!strncmp(auth, "env:", 4)) {
		const char *value = getenv(auth + 4);
		if (!value || !*value)
			return sp_error_create(SP_ERROR_USAGE, "$%s holds no token (see --auth)", auth + 4);
		*ret = strdup(value);
		if (!*ret)
			return sp_error_no_memory();
	} else if (!strncmp(auth, "file:", 5)) {
		struct sp_error *error = sp_file_read(auth + 5, TOKEN_LIMIT, ret, &size);
		if (error)
			return error;
	} else {
		return sp_error_create(SP_ERROR_USAGE, "--auth takes env:NAME or file:PATH, not '%s'", auth);
	}
	(*ret)[strcspn(*ret, " \t\r\n")] = 0;
	return NULL;
}

struct meter {
	pthread_mutex_t lock;
	unsigned percent; /* shown last, + 1 */
};

static void show_progress(void *context, uint64_t done, uint64_t total)
{
	struct meter *meter = context;
	unsigned percent = total ? (unsigned)(done * 100 / total) : 100;
	pthread_mutex_lock(&meter->lock);
	if (percent + 1 > meter->percent) {
		meter->percent = percent + 1;
		fprintf(stderr, "\rsp: %u%% of %.1f MiB", percent, (double)total / (1 << 20));
	}
	pthread_mutex_unlock(&meter->lock);
}

static struct sp_error *write_json(const sp_upload_files *files)
{
	struct sp_json json;
	sp_json_init(&json, sp_cli_write_stdout, NULL);
	sp_json_array_begin(&json);
	for (size_t i = 0; i < files->count; i++) {
		const struct sp_upload_file *file = &files->items[i];
		const char *code_id = file->build_id ? file->build_id : file->info.code_id;
		sp_json_newline(&json);
		sp_json_object_begin(&json);
		sp_json_member_string(&json, "file", file->path);
		sp_json_member_string(&json, "result", result_names[file->result]);
		sp_json_member_string(&json, "reason", file->reason);
		sp_json_member_string(&json, "sha256", file->sha256[0] ? file->sha256 : NULL);
		sp_json_member_int(&json, "size", (int64_t)file->size);
		sp_json_member_bool(&json, "source", file->build_id);
		sp_json_member_string(&json, "codeId", *code_id ? code_id : NULL);
		sp_json_member_string(&json, "debugId", *file->info.debug_id ? file->info.debug_id : NULL);
		sp_json_object_end(&json);
	}
	sp_json_newline(&json);
	sp_json_array_end(&json);
	sp_json_newline(&json);
	struct sp_error *error = sp_json_finish(&json);
	return error || fflush(stdout) == 0 ? error : sp_error_from_errno(errno, "cannot write the output");
}

/* Tells what did not go as wanted, and the sum; false when something is not on the server that should be. */
static bool report(const struct sp_log *log, const sp_upload_files *files, const char *url)
{
	size_t counts[SP_UPLOAD_FAILED + 1] = { 0 };
	for (size_t i = 0; i < files->count; i++) {
		const struct sp_upload_file *file = &files->items[i];
		counts[file->result]++;
		if (file->reason)
			sp_log(log, file->result == SP_UPLOAD_LEFT_OUT ? SP_LOG_DEBUG : SP_LOG_ERROR, "%s: %s: %s",
			       file->path, result_names[file->result], file->reason);
	}
	size_t failed = counts[SP_UPLOAD_REFUSED] + counts[SP_UPLOAD_FAILED] + counts[SP_UPLOAD_PENDING];
	sp_log(log, SP_LOG_INFO, "%zu sent, %zu were on %s already, %zu left out%s, %zu failed", counts[SP_UPLOAD_SENT],
	       counts[SP_UPLOAD_THERE], url, counts[SP_UPLOAD_LEFT_OUT],
	       counts[SP_UPLOAD_LEFT_OUT] ? " (-v tells why)" : "", failed);
	return !failed;
}

static struct sp_error *send_found(const struct sp_parsed *parsed, const struct sp_log *log,
                                   struct sp_upload_options *options, sp_upload_files *files, int *ret_status)
{
	struct meter meter = { .lock = PTHREAD_MUTEX_INITIALIZER };
	if (isatty(STDERR_FILENO)) {
		options->progress = show_progress;
		options->context = &meter;
	}
	struct sp_error *error = sp_upload_send(options, files);
	if (meter.percent)
		fputc('\n', stderr);
	if (error)
		return error;
	*ret_status = report(log, files, options->url) ? 0 : SP_EXIT_FAILED;
	return sp_option_given(parsed, "json") ? write_json(files) : NULL;
}

static struct sp_error *upload(const struct sp_parsed *parsed, int *ret_status)
{
	struct sp_log log = sp_cli_log(sp_option_given(parsed, "verbose"));
	struct sp_upload_options options = { .url = sp_option_value(parsed, "server"),
		                             .ns = sp_option_value(parsed, "namespace"),
		                             .ref = sp_option_value(parsed, "ref") };
	if (!options.url || !*options.url || !options.ns || !parsed->operand_count)
		return sp_error_create(SP_ERROR_USAGE, "sp upload takes --server URL, --namespace NS, and files or "
		                                       "folders (see 'sp upload --help')");
	const struct spsym_options quiet = {
		.debuginfod_urls = "", .symbol_path = "", .offline = true, .no_background = true
	};
	spsym_context *symbols = NULL;
	sp_upload_files files = { 0 };
	char *token = NULL;
	struct sp_error *error = take_token(parsed, &token);
	if (!error)
		error = spsym_context_create(&quiet, &symbols);
	if (!error)
		error = sp_upload_find(symbols, (const char *const *)parsed->operands,
		                       sp_option_given(parsed, "sources"), &files);
	if (!error && !files.count)
		error = sp_error_create(SP_ERROR_NOT_FOUND, "nothing to send was found: no ELF, PE, PDB or .sym file");
	options.token = token;
	if (!error)
		error = send_found(parsed, &log, &options, &files, ret_status);
	sp_upload_files_deinit(&files);
	spsym_context_destroy(symbols);
	free(token);
	return error;
}

int sp_cmd_upload(int argc, char **argv)
{
	struct sp_parsed parsed = { 0 };
	int status = 0;
	if (!sp_cli_parse("upload", argc, argv, SP_EXIT_USAGE, &parsed, &status)) {
		struct sp_error *error = upload(&parsed, &status);
		if (error)
			status = sp_cli_end(error);
	}
	sp_parsed_deinit(&parsed);
	return status;
}
