/* What the commands of sp share; see cli.h. */
#include "sampler/cli/cli.h"

#include "common/file.h"
#include "common/json.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Length of the text up to its first control character. */
static size_t plain_length(const char *text)
{
	const unsigned char *at = (const unsigned char *)text;
	/* U+0080 to U+009F are control characters, too. */
	while (*at >= 0x20 && *at != 0x7f && !(*at == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0))
		at++;
	return (size_t)(at - (const unsigned char *)text);
}

struct sp_error *sp_cli_escape(const char *text, sp_write_fn write, void *context)
{
	for (;;) {
		size_t plain = plain_length(text);
		char escape[8];
		struct sp_error *error = write(context, text, plain);
		text += plain;
		if (error || !*text)
			return error;
		int length = snprintf(escape, sizeof(escape), "\\x%02x", (unsigned char)*text++);
		error = write(context, escape, (size_t)length);
		if (error)
			return error;
	}
}

static struct sp_error *write_stream(void *stream, const void *bytes, size_t size)
{
	fwrite(bytes, 1, size, stream); /* main() looks for errors of stdout */
	return NULL;
}

void sp_cli_print(FILE *out, const char *text)
{
	sp_error_destroy(sp_cli_escape(text, write_stream, out));
}

struct sp_error *sp_cli_write_stdout(void *context, const void *bytes, size_t size)
{
	(void)context;
	return fwrite(bytes, 1, size, stdout) == size ? NULL : sp_error_from_errno(errno, "cannot write the output");
}

void sp_cli_size(uint64_t bytes, char ret[SP_CLI_SIZE_TEXT])
{
	if (bytes < 1000000)
		snprintf(ret, SP_CLI_SIZE_TEXT, "%.1f kB", (double)bytes / 1e3);
	else
		snprintf(ret, SP_CLI_SIZE_TEXT, "%.1f MB", (double)bytes / 1e6);
}

static void print_message(const char *text)
{
	fputs("sp: ", stderr);
	sp_cli_print(stderr, text);
	putc('\n', stderr);
}

static void print_line(void *context, enum sp_log_level level, const char *line)
{
	(void)context;
	(void)level;
	print_message(line);
}

struct sp_log sp_cli_log(bool verbose)
{
	return (struct sp_log){ .level = verbose ? SP_LOG_DEBUG : SP_LOG_INFO, .emit = print_line };
}

int sp_cli_fail(struct sp_error *error, int status)
{
	print_message(error->message);
	sp_error_destroy(error);
	return status;
}

int sp_cli_end(struct sp_error *error)
{
	return sp_cli_fail(error, error->code == SP_ERROR_USAGE ? SP_EXIT_USAGE : SP_EXIT_FAILED);
}

bool sp_cli_parse(const char *name, int argc, char **argv, int usage_status, struct sp_parsed *ret, int *ret_status)
{
	const struct sp_command *command = sp_command_find(name);
	struct sp_error *error = sp_options_parse(command, argc, argv, ret);
	if (error) {
		*ret_status = sp_cli_fail(error, usage_status);
		return true;
	}
	if (ret->help) {
		sp_help_command(command, stdout);
		*ret_status = 0;
		return true;
	}
	return false;
}

/* A list option as one text, the values separated by blanks; NULL (and no error) when it was not given. */
static struct sp_error *join_values(const struct sp_parsed *parsed, const char *name, char **ret)
{
	struct sp_buffer text = { 0 };
	struct sp_error *error = NULL;
	const char **values = sp_option_list(parsed, name);
	*ret = NULL;
	if (!values)
		return sp_error_no_memory();
	for (size_t i = 0; values[i] && !error; i++) {
		if (i)
			error = sp_buffer_write(&text, " ", 1);
		if (!error)
			error = sp_buffer_write(&text, values[i], strlen(values[i]));
	}
	if (!error && values[0])
		error = sp_buffer_write(&text, "", 1);
	free(values);
	if (error)
		free(text.bytes);
	else
		*ret = text.bytes;
	return error;
}

static struct sp_error *take_engine(const struct sp_parsed *parsed, enum spsym_engine *ret)
{
	const char *name = sp_option_value(parsed, "engine");
	*ret = SPSYM_ENGINE_NATIVE;
	if (!name || !strcmp(name, "native"))
		return NULL;
	if (strcmp(name, "libdwarf") != 0)
		return sp_error_create(SP_ERROR_USAGE, "--engine takes native or libdwarf, not '%s'", name);
	*ret = SPSYM_ENGINE_LIBDWARF;
	return NULL;
}

/* Adds "separator text" to a text; NULL and "" add nothing. */
static struct sp_error *append(struct sp_buffer *text, const char *separator, const char *more, size_t length)
{
	if (!more || !length)
		return NULL;
	struct sp_error *error = text->size ? sp_buffer_write(text, separator, strlen(separator)) : NULL;
	return error ? error : sp_buffer_write(text, more, length);
}

/* Puts the servers of sp (`servers`, separated by blanks) before what is asked otherwise: the other values of
 * `separator`, or where there are none the environment's. The caller frees *ret. */
static struct sp_error *put_before(const char *servers, const char *separator, const char *others,
                                   const char *const *environment, char **ret)
{
	struct sp_buffer text = { 0 };
	struct sp_error *error = NULL;
	for (const char *at = servers + strspn(servers, " "); *at && !error; at += strspn(at, " ")) {
		size_t length = strcspn(at, " ");
		error = append(&text, separator, at, length);
		at += length;
	}
	if (!error && others)
		error = append(&text, separator, others, strlen(others));
	for (; !others && *environment && !error; environment++) {
		const char *value = getenv(*environment);
		error = append(&text, separator, value, value ? strlen(value) : 0);
	}
	if (!error)
		error = sp_buffer_write(&text, "", 1);
	if (error)
		free(text.bytes);
	else
		*ret = text.bytes;
	return error;
}

/* Servers of sp serve speak both protocols. Takes over *debuginfod (NULL = none), sets it and *ret_path. */
static struct sp_error *add_symbol_servers(const struct sp_parsed *parsed, char **debuginfod, char **ret_path)
{
	static const char *const debuginfod_variables[] = { "DEBUGINFOD_URLS", NULL };
	static const char *const path_variables[] = { "_NT_SYMBOL_PATH", "_NT_ALT_SYMBOL_PATH", NULL };
	char *given = NULL, *urls = NULL;
	struct sp_error *error = join_values(parsed, "symbol-server", &given);
	const char *servers = given ? given : getenv("SP_SYMBOL_SERVER");
	if (error || !servers || !*servers) {
		free(given);
		return error;
	}
	error = put_before(servers, " ", *debuginfod, debuginfod_variables, &urls);
	if (!error)
		error = put_before(servers, ";", sp_option_value(parsed, "symbol-path"), path_variables, ret_path);
	free(given);
	if (error) {
		free(urls);
		return error;
	}
	free(*debuginfod);
	*debuginfod = urls;
	return NULL;
}

struct sp_error *sp_cli_symbols(const struct sp_parsed *parsed, bool stays, spsym_context **ret)
{
	char *cache = NULL, *servers = NULL, *windows_servers = NULL, *symbol_path = NULL;
	struct spsym_options options = { .offline = sp_option_given(parsed, "offline"), .no_background = !stays };
	struct sp_error *error = take_engine(parsed, &options.engine);
	if (!error)
		error = join_values(parsed, "debuginfod", &servers);
	if (!error)
		error = join_values(parsed, "windows-symbol-server", &windows_servers);
	if (!error)
		error = add_symbol_servers(parsed, &servers, &symbol_path);
	if (error) {
		free(servers);
		free(windows_servers);
		return error;
	}
	/* Without a cache folder kept files are not found; everything else works. */
	sp_error_destroy(sp_file_cache_folder("symbols", &cache));
	const char **folders = sp_option_list(parsed, "symbol-dir");
	options.symbol_folders = folders;
	options.cache_folder = cache;
	options.debuginfod_urls = servers;
	options.symbol_path = symbol_path ? symbol_path : sp_option_value(parsed, "symbol-path");
	options.windows_symbol_servers = windows_servers;
	options.windows_symbol_cache = sp_option_value(parsed, "windows-symbol-cache");
	error = folders ? spsym_context_create(&options, ret) : sp_error_no_memory();
	free(folders);
	free(servers);
	free(windows_servers);
	free(symbol_path);
	free(cache);
	return error;
}

/* "3000", "3000+". */
static struct sp_error *parse_port(const char *text, struct sp_view_options *ret)
{
	char *end;
	unsigned long port = strtoul(text, &end, 10);
	ret->port_search = *end == '+';
	if (end == text || port > 65535 || (*end && strcmp(end, "+")) || text[0] == '-')
		return sp_error_create(SP_ERROR_USAGE, "--port takes a number or a number and '+', not '%s'", text);
	ret->port = (uint16_t)port;
	ret->any_port = !port;
	return NULL;
}

struct sp_error *sp_cli_view_options(const struct sp_parsed *parsed, struct sp_view_options *ret)
{
	const char *port = sp_option_value(parsed, "port");
	*ret = (struct sp_view_options){
		.address = sp_option_value(parsed, "address"),
		.profiler_url = sp_option_value(parsed, "profiler-url"),
		.viewer_folder = sp_option_value(parsed, "viewer-dir"),
	};
	for (size_t i = 0; i < parsed->value_count; i++) {
		const struct sp_parsed_value *value = &parsed->values[i];
		if (!strcmp(value->option->name, "map-path") && (!strchr(value->value, '=') || *value->value == '='))
			return sp_error_create(SP_ERROR_USAGE, "--map-path takes FROM=TO, not '%s'", value->value);
	}
	return parse_port(port ? port : "3000+", ret);
}

void sp_cli_block_ends(sigset_t *ret)
{
	sigemptyset(ret);
	sigaddset(ret, SIGINT);
	sigaddset(ret, SIGTERM);
	sigaddset(ret, SIGHUP);
	pthread_sigmask(SIG_BLOCK, ret, NULL);
}

void sp_cli_wait_for_end(const sigset_t *ends)
{
	int signal;
	sigwait(ends, &signal);
	pthread_sigmask(SIG_UNBLOCK, ends, NULL);
}

struct sp_error *sp_cli_serve(const struct sp_parsed *parsed, struct sp_view_options *options)
{
	sigset_t ends;
	sp_cli_block_ends(&ends);
	const char **map_paths = sp_option_list(parsed, "map-path");
	if (!map_paths)
		return sp_error_no_memory();
	struct sp_view *view;
	options->map_paths = map_paths;
	struct sp_error *error = sp_view_start(options, &view);
	free(map_paths);
	if (error)
		return error;
	if (sp_option_given(parsed, "no-open"))
		sp_view_say(view);
	else
		sp_view_open(view);
	sp_log(options->log, SP_LOG_INFO, "serving until Ctrl-C");
	sp_cli_wait_for_end(&ends);
	sp_view_stop(view); /* a look-up that runs is waited for */
	return NULL;
}
