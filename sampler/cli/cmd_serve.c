/* sp serve: the symbol server, and its tokens. */
#include "sampler/cli/cli.h"

#include "common/file.h"
#include "symbolication/http/http.h"
#include "symbolication/server/server.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#define DEFAULT_PORT 8100
#define FLOOR_PERCENT 10                /* of the disk are kept free, */
#define MOST_FLOOR ((uint64_t)10 << 30) /* but no more bytes than this */

static void print_access(void *context, const char *line)
{
	(void)context;
	printf("%s\n", line);
	fflush(stdout);
}

static struct sp_error *take_port(const struct sp_parsed *parsed, const char *name, uint16_t fallback, uint16_t *ret)
{
	double port = 0;
	struct sp_error *error = sp_option_number(parsed, name, 0, 65535, fallback, &port);
	*ret = (uint16_t)port;
	return error;
}

static struct sp_error *take_options(const struct sp_parsed *parsed, struct sp_server_options *ret)
{
	const char *read = sp_option_value(parsed, "read");
	ret->address = sp_option_value(parsed, "address");
	if (!ret->address)
		ret->address = "127.0.0.1";
	if (read && strcmp(read, "open") != 0 && strcmp(read, "token") != 0)
		return sp_error_create(SP_ERROR_USAGE, "--read takes open or token, not '%s'", read);
	if (!read && !sp_http_is_loopback(ret->address))
		return sp_error_create(SP_ERROR_USAGE,
		                       "%s can be reached from other machines: say who may read, --read open (everyone "
		                       "who reaches it) or --read token",
		                       ret->address);
	ret->open_read = !read || !strcmp(read, "open");
	ret->admin = sp_option_given(parsed, "admin-port");
	struct sp_error *error = take_port(parsed, "port", DEFAULT_PORT, &ret->port);
	return error ? error : take_port(parsed, "admin-port", 0, &ret->admin_port);
}

static uint64_t disk_floor(const char *folder)
{
	struct statvfs st;
	if (statvfs(folder, &st) != 0)
		return 0;
	uint64_t part = (uint64_t)st.f_blocks * st.f_frsize / 100 * FLOOR_PERCENT;
	return part < MOST_FLOOR ? part : MOST_FLOOR;
}

/* Serves until a signal asks for the end. */
static struct sp_error *serve_store(struct sp_server_options *options, const struct sp_log *log, const char *folder)
{
	struct sp_server *server;
	sigset_t ends;
	sp_cli_block_ends(&ends);
	struct sp_error *error = sp_server_start(options, &server);
	if (error)
		return error;
	const char *at = options->address;
	bool brackets = strchr(at, ':') && *at != '[';
	sp_log(log, SP_LOG_INFO, "serving %s on http://%s%s%s:%u, reading is %s", folder, brackets ? "[" : "", at,
	       brackets ? "]" : "", sp_server_port(server), options->open_read ? "open" : "by token");
	if (options->admin)
		sp_log(log, SP_LOG_INFO, "health and metrics on http://127.0.0.1:%u", sp_server_admin_port(server));
	sp_cli_wait_for_end(&ends);
	sp_server_stop(server);
	return NULL;
}

static struct sp_error *serve(const struct sp_parsed *parsed, const char *folder)
{
	struct sp_log log = sp_cli_log(sp_option_given(parsed, "verbose"));
	struct sp_server_options options = { .log = &log, .access = print_access };
	struct sp_error *error = take_options(parsed, &options);
	if (!error)
		error = sp_file_make_folders(folder);
	if (error)
		return error;
	const struct sp_store_options store = { .folder = folder, .disk_floor = disk_floor(folder), .log = &log };
	char *cache = NULL;
	const char **hosts = sp_option_list(parsed, "host");
	if (!hosts || asprintf(&cache, "%s/derived", folder) < 0) {
		free(hosts);
		return sp_error_no_memory();
	}
	options.hosts = hosts;
	options.cache_folder = cache;
	error = sp_file_make_folders(cache);
	if (!error)
		error = sp_store_open(&store, &options.store);
	if (!error)
		error = serve_store(&options, &log, folder);
	sp_store_close(options.store);
	free(cache);
	free(hosts);
	return error;
}

/* ---- Tokens ---- */

static struct sp_error *take_kinds(const struct sp_parsed *parsed, unsigned *ret)
{
	const char **names = sp_option_list(parsed, "kind");
	struct sp_error *error = names ? NULL : sp_error_no_memory();
	*ret = names && names[0] ? 0 : 15;
	for (size_t i = 0; names && names[i] && !error; i++) {
		unsigned kind = 0;
		while (kind < 4 && strcmp(names[i], sp_store_kind_name((enum sp_store_kind)kind)) != 0)
			kind++;
		if (kind == 4)
			error = sp_error_create(SP_ERROR_USAGE,
			                        "--kind takes object, pdb, breakpad or source, not '%s'", names[i]);
		*ret |= 1u << kind;
	}
	free(names);
	return error;
}

static struct sp_error *copy_value(const struct sp_parsed *parsed, const char *name, char *ret, size_t size)
{
	const char *value = sp_option_value(parsed, name);
	if (value && (size_t)snprintf(ret, size, "%s", value) >= size)
		return sp_error_create(SP_ERROR_USAGE, "--%s is too long", name);
	return NULL;
}

static struct sp_error *create_token(const struct sp_parsed *parsed, struct sp_store *store)
{
	struct sp_store_token token = { .read = sp_option_given(parsed, "can-read") };
	char secret[SP_STORE_TOKEN_SIZE];
	double days = 0, size = 0;
	struct sp_error *error = copy_value(parsed, "namespace", token.ns, sizeof(token.ns));
	if (!error)
		error = copy_value(parsed, "ref", token.ref, sizeof(token.ref));
	if (!error)
		error = copy_value(parsed, "label", token.label, sizeof(token.label));
	if (!error)
		error = take_kinds(parsed, &token.kinds);
	if (!error)
		error = sp_option_number(parsed, "expires", 0.00001, 36500, 365, &days);
	if (!error)
		error = sp_option_number(parsed, "max-size", 1, 1 << 20, 0, &size);
	if (!error && !token.ns[0] && !token.read)
		error = sp_error_create(SP_ERROR_USAGE,
		                        "a token is for uploads (--namespace), reading (--can-read), or "
		                        "both");
	if (error)
		return error;
	token.size_limit = (uint64_t)(size * (1 << 20));
	token.expires = (int64_t)time(NULL) + (int64_t)(days * 86400);
	error = sp_store_token_create(store, &token, secret);
	if (!error)
		printf("%s\n", secret);
	return error;
}

static void print_date(int64_t seconds)
{
	char text[40];
	struct tm tm;
	time_t time = (time_t)seconds;
	gmtime_r(&time, &tm);
	strftime(text, sizeof(text), "%Y-%m-%d", &tm);
	printf("%s", text);
}

static struct sp_error *list_tokens(struct sp_store *store)
{
	sp_store_tokens tokens = { 0 };
	struct sp_error *error = sp_store_token_list(store, &tokens);
	for (size_t i = 0; i < tokens.count; i++) {
		const struct sp_store_token *t = &tokens.items[i];
		printf("%s  %s%s%s", t->id, t->revoked ? "revoked  " : "", t->ns[0] ? "uploads to " : "", t->ns);
		for (unsigned kind = 0; t->ns[0] && t->kinds != 15 && kind < 4; kind++) {
			if (t->kinds & 1u << kind)
				printf(" %s", sp_store_kind_name((enum sp_store_kind)kind));
		}
		if (t->ref[0])
			printf(" of %s", t->ref);
		if (t->size_limit)
			printf(" up to %.6g MiB", (double)t->size_limit / (1 << 20));
		printf("%s%s  ", t->ns[0] && t->read ? ", " : "", t->read ? "reads" : "");
		print_date(t->created);
		printf(" to ");
		print_date(t->expires);
		printf("%s%s\n", t->label[0] ? "  " : "", t->label);
	}
	sp_vector_deinit(&tokens);
	return error;
}

static struct sp_error *tokens(const struct sp_parsed *parsed)
{
	char **operands = parsed->operands;
	size_t count = parsed->operand_count;
	bool create = count == 3 && !strcmp(operands[1], "create"), list = count == 3 && !strcmp(operands[1], "list"),
	     revoke = count == 4 && !strcmp(operands[1], "revoke");
	if (!create && !list && !revoke)
		return sp_error_create(SP_ERROR_USAGE,
		                       "sp serve token takes create DIR, list DIR or revoke DIR ID (see "
		                       "'sp serve --help')");
	struct sp_store *store;
	const struct sp_store_options options = { .folder = operands[2], .only_tokens = true };
	struct sp_error *error = sp_store_open(&options, &store);
	if (error)
		return error;
	error = create ? create_token(parsed, store)
	        : list ? list_tokens(store)
	               : sp_store_token_revoke(store, operands[3]);
	sp_store_close(store);
	return error;
}

int sp_cmd_serve(int argc, char **argv)
{
	struct sp_parsed parsed = { 0 };
	int status = 0;
	if (!sp_cli_parse("serve", argc, argv, SP_EXIT_USAGE, &parsed, &status)) {
		struct sp_error *error;
		if (parsed.operand_count && !strcmp(parsed.operands[0], "token"))
			error = tokens(&parsed);
		else if (parsed.operand_count != 1)
			error = sp_error_create(SP_ERROR_USAGE,
			                        "sp serve takes one folder, or token (see 'sp serve --help')");
		else
			error = serve(&parsed, parsed.operands[0]);
		if (error)
			status = sp_cli_end(error);
	}
	sp_parsed_deinit(&parsed);
	return status;
}
