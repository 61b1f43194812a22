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
	unsigned status;          /* default 200 */
	const char *content_type; /* static string */
	struct sp_buffer body;    /* freed by the shell; text replies above 1 KiB are compressed where the client can */
	char *file;               /* path of a file to send; freed by the shell */
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

/* All pointers are borrowed until sp_http_stop(). */
struct sp_http_options {
	const char *address;    /* default "127.0.0.1" */
	uint16_t port;          /* first port to try; 0 = any */
	unsigned port_attempts; /* 1 = only that one */
	size_t body_limit;      /* bytes; a larger body is 413; default 64 MiB */
	unsigned workers;       /* default 2 */
	unsigned timeout_s;     /* for slow clients; default 30 */
	sp_http_handler handler;
	void *context;
	/* Accepted Host names besides the literal address, the loopback addresses and "localhost", NULL-terminated; may
	 * be NULL. A request with another Host is 403 (DNS rebinding). The port in it is not looked at: it may have
	 * been forwarded. On a wildcard address ("0.0.0.0", "::") every literal address is accepted. */
	const char *const *hosts;
	const struct sp_log *log; /* debug messages only; may be NULL */
};

#define SP_HTTP_MAX_CONNECTIONS 512
/* Requests that wait hold at most this many bodies of the largest size; further ones are not read until there is room.
 */
#define SP_HTTP_MAX_BODIES 4
/* A client that sends or takes fewer bytes a second than this, after timeout_s, is cut. */
#define SP_HTTP_MIN_RATE 16384

/* There is no "busy" reply: a connection has one request under way, and when all workers are busy it waits, unread,
 * for its turn. */
struct sp_http;
/* SP_ERROR_USAGE: `address` is not a literal address; SP_ERROR_SYSTEM: no port is free. */
struct sp_error *sp_http_start(const struct sp_http_options *options, struct sp_http **ret);
uint16_t sp_http_port(const struct sp_http *http);
/* Waits for the handlers that run, then ends all connections and workers. */
void sp_http_stop(struct sp_http *http);

#endif
