/* What the parts of the server share. */
#ifndef SP_SYMBOLICATION_SERVER_INTERNAL_H
#define SP_SYMBOLICATION_SERVER_INTERNAL_H

#include "server.h"

#include "symbolication/api/api.h"
#include "symbolication/http/http.h"

#include <stdatomic.h>

/* Requests are counted by these. */
enum server_route { ROUTE_BUILDID, ROUTE_FILES, ROUTE_API, ROUTE_UPLOAD, ROUTE_COUNT };

struct sp_server {
	struct sp_server_options options; /* with the defaults filled in */
	spsym_context *symbols;
	struct sp_http *http, *admin;
	/* By route and first digit of the status; resets count as 0. */
	_Atomic uint64_t requests[ROUTE_COUNT][6];
	_Atomic uint64_t received, stored; /* bytes and files of uploads */
};

/* A request after its prefixes. */
struct server_request {
	const struct sp_http_request *http;
	const char *path;            /* behind /t/TOKEN and /n/NAMESPACE */
	char ns[SP_STORE_NAME_SIZE]; /* a pr/ namespace to see; "" = none */
	struct sp_store_token token; /* id "" = none */
};
/* Reads prefixes and token. SP_ERROR_PERMISSION: a token that is not good; SP_ERROR_SYSTEM: it cannot be told now. */
struct sp_error *server_read_request(struct sp_server *server, const struct sp_http_request *http,
                                     struct server_request *ret);
/* The namespace to see besides the open ones, or NULL. */
const char *server_view(const struct server_request *request);

/* A request that ends with a status (0 = reset): into the counters and the access log. `started` is of sp_clock_now().
 */
void server_count(struct sp_server *server, const struct server_request *request, unsigned status, uint64_t started);

void server_text(struct sp_http_reply *reply, unsigned status, const char *format, ...) SP_PRINTF(3, 4);
/* {"error": message}; frees the error. */
void server_error(struct sp_http_reply *reply, unsigned status, struct sp_error *error);
/* The decoded value of a parameter of the query; NULL = absent, too long or with a NUL. `ret` holds `size` chars. */
const char *server_parameter(const char *query, const char *name, char *ret, size_t size);
/* The last part of a path. */
const char *server_base_name(const char *path);

/* files.c: false when the path is none of theirs. */
void server_buildid(struct sp_server *server, const struct server_request *request, struct sp_http_reply *reply);
bool server_symbol_file(struct sp_server *server, const struct server_request *request, struct sp_http_reply *reply);

/* symbols.c */
struct sp_error *server_symbols_open(struct sp_server *server);
bool server_is_api(const char *path);
void server_api(struct sp_server *server, const struct server_request *request, struct sp_http_reply *reply);

/* upload.c */
unsigned server_open_body(void *context, const struct sp_http_request *http, struct sp_http_body *ret);
void server_upload(struct sp_server *server, const struct server_request *request, struct sp_http_reply *reply);
void server_check(struct sp_server *server, const struct server_request *request, struct sp_http_reply *reply);

/* admin.c */
void server_admin(void *context, const struct sp_http_request *request, struct sp_http_reply *reply);

#endif
