/* The libmicrohttpd shell: bounded bodies, deadlines, Host check, compression on request, work off the event loop. The
 * viewer and the symbol server put their handlers into it. */
#ifndef SP_SYMBOLICATION_HTTP_HTTP_H
#define SP_SYMBOLICATION_HTTP_HTTP_H

#include "common/error.h"
#include "common/json.h"
#include "common/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sp_http_request {
	const char *method; /* "GET", "POST", ... */
	const char *path;   /* decoded, starts with '/', without query */
	const char *query;  /* raw text behind '?', or NULL */
	const char *(*header)(const struct sp_http_request *request, const char *name); /* NULL = absent */
	const char *body; /* whole; NULL when there is none */
	size_t body_size;
	void *internal;
};

/* What a handler answers with. Exactly one of `body` and `file` is used. */
struct sp_http_reply {
	unsigned status;              /* default 200 */
	const char *content_type;     /* static string */
	struct sp_buffer body;        /* freed by the shell */
	char *file;                   /* path of a file to send; freed by the shell */
	const char *content_encoding; /* of `file`, static: "gzip"; NULL = as it is */
	struct {
		char *name, *value; /* freed by the shell */
	} headers[16];
	size_t header_count;
	bool no_compression; /* of `body` */
};
/* False without memory. */
bool sp_http_reply_header(struct sp_http_reply *reply, const char *name, const char *value);

/* Runs on a worker thread. */
typedef void (*sp_http_handler)(void *context, const struct sp_http_request *request, struct sp_http_reply *reply);

struct sp_http_options {
	const char *address;    /* default "127.0.0.1" */
	uint16_t port;          /* first port to try; 0 = any */
	unsigned port_attempts; /* 1 = only that one */
	size_t body_limit;      /* bytes; a larger body is 413; default 64 MiB */
	unsigned workers;       /* default 2 */
	unsigned timeout_s;     /* for slow clients; default 30 */
	sp_http_handler handler;
	void *context;
	/* Accepted Host names besides the literal address and "localhost", NULL-terminated; may be NULL. A request with
	 * another Host is 403 (DNS rebinding). */
	const char *const *hosts;
	const struct sp_log *log;
};
struct sp_http;
struct sp_error *sp_http_start(const struct sp_http_options *options, struct sp_http **ret);
uint16_t sp_http_port(const struct sp_http *http);
/* Ends all connections and workers. */
void sp_http_stop(struct sp_http *http);

#endif
