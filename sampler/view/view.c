/* The viewer: one profile and its symbols behind a random path.
 *
 * Whoever knows the path may read the profile and ask for symbols, from any origin (the front-end's is not ours); all
 * else answers nothing, so a page that does not know it learns nothing, not even by guessing the port. The profile is
 * served from its file again and again; its list of libraries is read when symbols are asked for the first time, so
 * that the first byte goes out at once. */
#include "internal.h"

#include "common/file.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PROFILER_URL "https://profiler.firefox.com"
#define DEFAULT_PORT 3000
#define PORTS_TO_TRY 100

struct sp_view {
	const struct sp_log *log;
	char *profile_path, *address, *viewer_folder; /* owned; the last may be NULL */
	const char **map_paths;                       /* owned with its strings; NULL-terminated */
	struct view_profile profile;
	char token[VIEW_TOKEN_SIZE];
	char *url, *profile_url, *symbol_server; /* owned */
	struct sp_api *api;
	struct sp_http *http;
	pthread_mutex_t libs_lock;
	atomic_bool libs_ready; /* `libs` will not change any more */
	struct view_libs libs;
};

/* ---- The libraries ---- */

static const struct view_libs *libs_of(struct sp_view *view)
{
	if (atomic_load_explicit(&view->libs_ready, memory_order_acquire))
		return &view->libs;
	pthread_mutex_lock(&view->libs_lock);
	if (!atomic_load_explicit(&view->libs_ready, memory_order_relaxed)) {
		/* The binary container's parts are not read here: its modules are found by name and ID alone. */
		struct sp_error *error = view->profile.format == VIEW_JSON
		                             ? view_libs_read(view->profile_path, &view->libs)
		                             : NULL;
		if (error)
			sp_log(view->log, SP_LOG_WARNING, "some libraries of the profile are unknown: %s",
			       error->message);
		sp_error_destroy(error);
		atomic_store_explicit(&view->libs_ready, true, memory_order_release);
	}
	pthread_mutex_unlock(&view->libs_lock);
	return &view->libs;
}

static bool resolve(void *context, const char *debug_name, const char *debug_id, struct spsym_identity *ret)
{
	const struct spsym_identity *identity = view_libs_find(libs_of(context), debug_name, debug_id);
	if (identity)
		*ret = *identity;
	return identity;
}

/* ---- Requests ---- */

static void reply_text(struct sp_http_reply *reply, unsigned status, const char *text)
{
	reply->status = status;
	reply->content_type = "text/plain; charset=utf-8";
	sp_error_destroy(sp_buffer_write(&reply->body, text, strlen(text)));
}

static bool is_method(const struct sp_http_request *request, const char *method)
{
	return !strcmp(request->method, method);
}

/* The part of the path behind "/token", or NULL when it is another one. The time taken tells nothing of the token. */
static const char *path_behind_token(const struct sp_view *view, const char *path)
{
	size_t length = strlen(view->token), given = strcspn(path + 1, "/");
	unsigned char difference = given != length;
	for (size_t i = 0; i < length && i < given; i++)
		difference |= (unsigned char)(path[1 + i] ^ view->token[i]);
	return difference ? NULL : path + 1 + given;
}

static void serve_profile(const struct sp_view *view, struct sp_http_reply *reply)
{
	reply->file = strdup(view->profile_path);
	reply->content_type = view->profile.format == VIEW_JSON ? "application/json" : "application/octet-stream";
	reply->content_encoding = view->profile.gzip ? "gzip" : NULL;
}

static void serve_api(struct sp_view *view, const char *path, const struct sp_http_request *request,
                      struct sp_http_reply *reply)
{
	enum sp_api_status status = SP_API_OK;
	struct sp_error *error = sp_api_handle(view->api, path, request->body ? request->body : "", request->body_size,
	                                       &reply->body, &status);
	reply->status = (unsigned)status;
	reply->content_type = "application/json";
	if (error) {
		reply->body.size = 0;
		reply_text(reply, 500, "out of memory\n");
		sp_error_destroy(error);
	}
}

/* OPTIONS: browsers ask before a request with headers of its own kind, as Firefox sends. */
static void serve_options(const struct sp_http_request *request, const char *methods, struct sp_http_reply *reply)
{
	reply->status = 204;
	reply->no_compression = true;
	sp_http_reply_header(reply, "Allow", methods);
	if (!request->header(request, "Access-Control-Request-Method"))
		return;
	const char *headers = request->header(request, "Access-Control-Request-Headers");
	sp_http_reply_header(reply, "Access-Control-Allow-Methods", "POST, GET, OPTIONS");
	sp_http_reply_header(reply, "Access-Control-Max-Age", "86400");
	if (headers)
		sp_http_reply_header(reply, "Access-Control-Allow-Headers", headers);
}

static void serve_token(struct sp_view *view, const char *path, const struct sp_http_request *request,
                        struct sp_http_reply *reply)
{
	static const char *const apis[] = { "/symbolicate/v5", "/source/v1", "/asm/v1" };
	bool is_profile = !strcmp(path, "/profile.json"), is_api = false;
	for (size_t i = 0; i < sizeof(apis) / sizeof(*apis); i++)
		is_api |= !strcmp(path, apis[i]);
	const char *methods = is_profile ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";

	sp_http_reply_header(reply, "Access-Control-Allow-Origin", "*");
	if (!is_profile && !is_api) {
		reply_text(reply, 404, "Not found.\n");
	} else if (is_method(request, "OPTIONS")) {
		serve_options(request, methods, reply);
	} else if (is_profile && (is_method(request, "GET") || is_method(request, "HEAD"))) {
		serve_profile(view, reply);
	} else if (is_api && is_method(request, "POST")) {
		serve_api(view, path, request, reply);
	} else {
		sp_http_reply_header(reply, "Allow", methods);
		reply_text(reply, 405, "Method not allowed.\n");
	}
}

static void handle(void *context, const struct sp_http_request *request, struct sp_http_reply *reply)
{
	struct sp_view *view = context;
	const char *path = request->path[0] == '/' ? path_behind_token(view, request->path) : NULL;
	if (path)
		serve_token(view, path, request, reply);
	else if (!view->viewer_folder || request->path[0] != '/')
		reply_text(reply, 404, "Not found.\n");
	else if (is_method(request, "GET") || is_method(request, "HEAD"))
		view_serve_static(view->viewer_folder, request, reply);
	else
		reply_text(reply, 405, "Method not allowed.\n");
}

/* ---- Starting ---- */

static struct sp_error *resolve_path(const char *path, char **ret)
{
#ifdef _WIN32
	*ret = _fullpath(NULL, path, 0);
#else
	*ret = realpath(path, NULL);
#endif
	return *ret ? NULL : sp_error_from_errno(errno, "cannot open %s", path);
}

static struct sp_error *check_files(struct sp_view *view, const struct sp_view_options *options)
{
	struct sp_error *error = resolve_path(options->profile_path, &view->profile_path);
	if (!error)
		error = view_profile_check(options->profile_path, &view->profile);
	if (error || !options->viewer_folder)
		return error;
	error = resolve_path(options->viewer_folder, &view->viewer_folder);
	if (error)
		return error;
	char *index = NULL;
	struct sp_file_map map;
	if (asprintf(&index, "%s/index.html", view->viewer_folder) < 0)
		return sp_error_no_memory();
	error = sp_file_map_path(index, &map);
	free(index);
	if (!error)
		sp_file_unmap(&map);
	return error ? sp_error_prefix(error, "%s is not a built front-end", options->viewer_folder) : NULL;
}

static struct sp_error *start_http(struct sp_view *view, const struct sp_view_options *options)
{
	uint16_t port = options->port ? options->port : DEFAULT_PORT;
	const struct sp_http_options http = {
		.address = view->address,
		.port = options->any_port ? 0 : port,
		.port_attempts = options->port_search ? PORTS_TO_TRY : 1,
		.handler = handle,
		.context = view,
		.log = options->log,
	};
	struct sp_error *error = sp_http_start(&http, &view->http);
	if (error && error->code == SP_ERROR_SYSTEM && !options->port_search && !options->any_port) {
		struct sp_error *hint = sp_error_create(SP_ERROR_SYSTEM, "%s (--port %u+ takes the next free one)",
		                                        error->message, port);
		sp_error_destroy(error);
		error = hint;
	}
	return error;
}

static struct sp_error *make_urls(struct sp_view *view, const struct sp_view_options *options)
{
	char *origin = view_origin(view->address, sp_http_port(view->http));
	if (!origin)
		return sp_error_no_memory();
	const char *front_end = options->profiler_url;
	if (!front_end || !*front_end)
		front_end = view->viewer_folder ? origin : getenv("PROFILER_URL");
	if (!front_end || !*front_end)
		front_end = DEFAULT_PROFILER_URL;
	int front_end_length = (int)strlen(front_end);
	while (front_end_length && front_end[front_end_length - 1] == '/')
		front_end_length--;

	struct sp_error *error = NULL;
	char *profile = NULL, *server = NULL;
	if (asprintf(&view->symbol_server, "%s/%s", origin, view->token) < 0)
		view->symbol_server = NULL;
	else if (asprintf(&view->profile_url, "%s/profile.json", view->symbol_server) < 0)
		view->profile_url = NULL;
	if (view->profile_url) {
		profile = view_percent_encode(view->profile_url);
		server = view_percent_encode(view->symbol_server);
	}
	if (!profile || !server ||
	    asprintf(&view->url, "%.*s/from-url/%s/?symbolServer=%s", front_end_length, front_end, profile, server) <
	        0) {
		view->url = NULL;
		error = sp_error_no_memory();
	}
	free(profile);
	free(server);
	free(origin);
	return error;
}

static struct sp_error *copy_map_paths(struct sp_view *view, const char *const *paths)
{
	size_t count = 0;
	while (paths && paths[count])
		count++;
	view->map_paths = calloc(count + 1, sizeof(*view->map_paths));
	for (size_t i = 0; view->map_paths && i < count; i++) {
		view->map_paths[i] = strdup(paths[i]);
		if (!view->map_paths[i])
			return sp_error_no_memory();
	}
	return view->map_paths ? NULL : sp_error_no_memory();
}

static struct sp_error *start(struct sp_view *view, const struct sp_view_options *options)
{
	view->address = strdup(options->address ? options->address : "127.0.0.1");
	if (!view->address)
		return sp_error_no_memory();
	struct sp_error *error = check_files(view, options);
	if (!error)
		error = copy_map_paths(view, options->map_paths);
	if (error)
		return error;
	const struct sp_api_options api = { .symbols = options->symbols,
		                            .resolve = resolve,
		                            .context = view,
		                            .local_sources = true,
		                            .map_paths = view->map_paths };
	error = view_random_token(view->token);
	if (!error)
		error = sp_api_create(&api, &view->api);
	if (!error)
		error = start_http(view, options);
	if (!error)
		error = make_urls(view, options);
	if (!error && !sp_http_is_loopback(view->address))
		sp_log(view->log, SP_LOG_WARNING,
		       "serving on %s: everyone in that network who gets the link can read the profile", view->address);
	return error;
}

struct sp_error *sp_view_start(const struct sp_view_options *options, struct sp_view **ret)
{
	struct sp_view *view = calloc(1, sizeof(*view));
	if (!view)
		return sp_error_no_memory();
	view->log = options->log;
	pthread_mutex_init(&view->libs_lock, NULL);
	struct sp_error *error = start(view, options);
	if (error) {
		sp_view_stop(view);
		return error;
	}
	*ret = view;
	return NULL;
}

void sp_view_stop(struct sp_view *view)
{
	if (!view)
		return;
	if (view->http)
		sp_http_stop(view->http);
	sp_api_destroy(view->api);
	view_libs_deinit(&view->libs);
	pthread_mutex_destroy(&view->libs_lock);
	for (size_t i = 0; view->map_paths && view->map_paths[i]; i++)
		free((char *)view->map_paths[i]);
	free(view->map_paths);
	free(view->profile_path);
	free(view->address);
	free(view->viewer_folder);
	free(view->url);
	free(view->profile_url);
	free(view->symbol_server);
	free(view);
}

const char *sp_view_url(const struct sp_view *view)
{
	return view->url;
}

const char *sp_view_symbol_server(const struct sp_view *view)
{
	return view->symbol_server;
}

/* ---- Telling and opening ---- */

void sp_view_say(struct sp_view *view)
{
	sp_log(view->log, SP_LOG_INFO, "Open this address in a browser:");
	sp_log(view->log, SP_LOG_INFO, "%s", view->url);
}

/* How to get at the port from the machine where the user sits. */
static void say_forwarding(struct sp_view *view, bool remote)
{
	const char *user = getenv("USER"), *connection = getenv("SSH_CONNECTION");
	char host[64] = "this-machine", port_option[32] = "";
	unsigned ssh_port = 22;
	if (connection && sscanf(connection, "%*s %*s %63s %u", host, &ssh_port) == 2 && ssh_port != 22)
		snprintf(port_option, sizeof(port_option), " -p %u", ssh_port);
	/* "http://host:port/token" */
	const char *here = view->symbol_server + strlen("http://");
	sp_log(view->log, SP_LOG_INFO, "%s ssh -N -L %u:%.*s%s %s%s%s",
	       remote ? "This is a remote login: first, on the machine with the browser, run"
	              : "No browser could be opened. If yours is on another machine, first run there",
	       sp_http_port(view->http), (int)strcspn(here, "/"), here, port_option, user ? user : "", user ? "@" : "",
	       host);
}

void sp_view_open(struct sp_view *view)
{
	bool remote = false;
	bool opened = view_open_browser(view->url, &remote);
	sp_view_say(view);
	if (!opened)
		say_forwarding(view, remote);
}
