/* Starting and stopping, and the way from a request to who answers it; see server.h. */
#include "internal.h"

#include "common/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define UPLOAD_LIMIT ((uint64_t)4 << 30) /* bytes */
#define BODY_LIMIT (8u << 20)            /* of JSON */
#define WORKERS 8

static bool is_method(const struct server_request *request, const char *method)
{
	return !strcmp(request->http->method, method);
}

static bool is_read(const struct server_request *request)
{
	return is_method(request, "GET") || is_method(request, "HEAD");
}

static enum server_route route_of(const char *path)
{
	if (!strncmp(path, "/buildid/", 9))
		return ROUTE_BUILDID;
	if (!strncmp(path, "/v1/", 4))
		return ROUTE_UPLOAD;
	return server_is_api(path) ? ROUTE_API : ROUTE_FILES;
}

static void refuse_method(struct sp_http_reply *reply, const char *allowed)
{
	sp_http_reply_header(reply, "Allow", allowed);
	server_text(reply, 405, "Method not allowed.\n");
}

static void serve_options(const struct server_request *request, struct sp_http_reply *reply)
{
	const char *headers = request->http->header(request->http, "Access-Control-Request-Headers");
	reply->status = 204;
	reply->no_compression = true;
	sp_http_reply_header(reply, "Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS");
	sp_http_reply_header(reply, "Access-Control-Max-Age", "86400");
	if (headers)
		sp_http_reply_header(reply, "Access-Control-Allow-Headers", headers);
}

static void not_found(struct sp_http_reply *reply)
{
	sp_http_reply_header(reply, "Cache-Control", "max-age=60");
	server_text(reply, 404, "Not found.\n");
}

static void serve_read(struct sp_server *server, const struct server_request *request, enum server_route route,
                       struct sp_http_reply *reply)
{
	/* Browsers' pages of any site may read what their users may. */
	sp_http_reply_header(reply, "Access-Control-Allow-Origin", "*");
	if (is_method(request, "OPTIONS")) {
		serve_options(request, reply);
	} else if (!server->options.open_read && !request->token.read) {
		sp_http_reply_header(reply, "WWW-Authenticate", "Basic realm=\"symbols\"");
		server_text(reply, 401, "This server wants a token that may read.\n");
	} else if (route == ROUTE_API) {
		if (is_method(request, "POST"))
			server_api(server, request, reply);
		else
			refuse_method(reply, "POST, OPTIONS");
	} else if (!is_read(request)) {
		refuse_method(reply, "GET, HEAD, OPTIONS");
	} else if (route == ROUTE_BUILDID) {
		server_buildid(server, request, reply);
	} else if (!server_symbol_file(server, request, reply)) {
		not_found(reply);
	}
}

static void serve_upload(struct sp_server *server, const struct server_request *request, struct sp_http_reply *reply)
{
	bool check = !strcmp(request->path, "/v1/uploads:check");
	if (!request->token.ns[0]) {
		sp_http_reply_header(reply, "WWW-Authenticate", "Bearer");
		server_text(reply, 401, "Uploads need a token that may upload.\n");
	} else if (check && is_method(request, "POST")) {
		server_check(server, request, reply);
	} else if (!strncmp(request->path, "/v1/uploads/", 12) && is_method(request, "PUT")) {
		server_upload(server, request, reply);
	} else {
		not_found(reply);
	}
}

static void serve(struct sp_server *server, const struct server_request *request, enum server_route route,
                  struct sp_error *error, struct sp_http_reply *reply)
{
	if (!error) {
		if (route == ROUTE_UPLOAD)
			serve_upload(server, request, reply);
		else
			serve_read(server, request, route, reply);
	} else if (error->code == SP_ERROR_PERMISSION) {
		sp_http_reply_header(reply, "WWW-Authenticate", "Basic realm=\"symbols\"");
		server_error(reply, 401, error);
	} else {
		sp_log(server->options.log, SP_LOG_ERROR, "%s", error->message);
		reply->reset = route == ROUTE_BUILDID;
		server_error(reply, 503, error);
	}
}

/* ---- The access log ---- */

static void log_access(struct sp_server *server, const struct server_request *request, unsigned status,
                       uint64_t started)
{
	if (!server->options.access)
		return;
	struct sp_buffer line = { 0 };
	struct sp_json json;
	char when[40];
	struct tm tm;
	time_t now = time(NULL);
	gmtime_r(&now, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	sp_json_init(&json, sp_buffer_write, &line);
	sp_json_object_begin(&json);
	sp_json_member_string(&json, "time", when);
	sp_json_member_string(&json, "method", request->http->method);
	sp_json_member_string(&json, "path", request->path);
	sp_json_member_int(&json, "status", status);
	sp_json_member_string(&json, "token", request->token.id[0] ? request->token.id : NULL);
	sp_json_key(&json, "ms");
	sp_json_ns_as_ms(&json, (int64_t)(sp_clock_now() - started));
	sp_json_object_end(&json);
	struct sp_error *error = sp_json_finish(&json);
	if (!error)
		error = sp_buffer_write(&line, "", 1);
	if (!error)
		server->options.access(server->options.access_context, line.bytes);
	sp_error_destroy(error);
	free(line.bytes);
}

void server_count(struct sp_server *server, const struct server_request *request, unsigned status, uint64_t started)
{
	enum server_route route = route_of(request->path);
	unsigned class = status / 100;
	atomic_fetch_add_explicit(&server->requests[route][class < 6 ? class : 5], 1, memory_order_relaxed);
	log_access(server, request, status, started);
}

static void handle(void *context, const struct sp_http_request *http, struct sp_http_reply *reply)
{
	struct sp_server *server = context;
	struct server_request request;
	uint64_t started = sp_clock_now();
	struct sp_error *error = server_read_request(server, http, &request);
	serve(server, &request, route_of(request.path), error, reply);
	server_count(server, &request, reply->reset ? 0 : reply->status, started);
}

/* ---- Starting ---- */

static struct sp_error *start(struct sp_server *server)
{
	struct sp_server_options *o = &server->options;
	const struct sp_http_options http = {
		.address = o->address,
		.port = o->port,
		.port_attempts = 1,
		.body_limit = BODY_LIMIT,
		.workers = o->workers,
		.handler = handle,
		.open_body = server_open_body,
		.context = server,
		.hosts = o->hosts,
		.log = o->log,
	};
	const struct sp_http_options admin = {
		.address = o->admin_address,
		.port = o->admin_port,
		.port_attempts = 1,
		.body_limit = 4096,
		.workers = 1,
		.handler = server_admin,
		.context = server,
		.hosts = o->hosts,
		.log = o->log,
	};
	struct sp_error *error = server_symbols_open(server);
	if (!error)
		error = sp_http_start(&http, &server->http);
	if (!error && o->admin)
		error = sp_http_start(&admin, &server->admin);
	return error;
}

struct sp_error *sp_server_start(const struct sp_server_options *options, struct sp_server **ret)
{
	struct sp_server *server = calloc(1, sizeof(*server));
	if (!server)
		return sp_error_no_memory();
	server->options = *options;
	if (!server->options.upload_limit)
		server->options.upload_limit = UPLOAD_LIMIT;
	if (!server->options.workers)
		server->options.workers = WORKERS;
	struct sp_error *error = start(server);
	if (error) {
		sp_server_stop(server);
		return error;
	}
	*ret = server;
	return NULL;
}

uint16_t sp_server_port(const struct sp_server *server)
{
	return sp_http_port(server->http);
}

uint16_t sp_server_admin_port(const struct sp_server *server)
{
	return server->admin ? sp_http_port(server->admin) : 0;
}

void sp_server_stop(struct sp_server *server)
{
	if (!server)
		return;
	if (server->admin)
		sp_http_stop(server->admin);
	if (server->http)
		sp_http_stop(server->http);
	spsym_context_destroy(server->symbols);
	free(server);
}
