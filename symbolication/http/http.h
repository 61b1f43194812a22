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
	const char *body; /* whole; NULL when there is none, or when it was streamed */
	size_t body_size; /* bytes, of a streamed body too */
	void *stream;     /* where the body went, as sp_http_options.open_body said; else NULL */
	void *internal;
};

/* What a handler answers with. Exactly one of `body`, `file` and `fd` is used. */
struct sp_http_reply {
	unsigned status;          /* default 200 */
	const char *content_type; /* static string */
	struct sp_buffer body;    /* freed by the shell; text replies above 1 KiB are compressed where the client can */
	char *file;               /* path of a file to send; freed by the shell */
	const char *content_encoding; /* of `file`, static: "gzip"; NULL = as it is */
	/* A part of an open file: never read into memory, and the client may ask for a range of it (206, 416). */
	bool has_fd;
	int fd; /* closed by the shell */
	uint64_t fd_offset, fd_size;
	/* Of the bytes of `fd`, with its quotes, freed by the shell; If-None-Match is answered by 304, and If-Range is
	 * compared with it. NULL = none. */
	char *etag;
	struct {
		char *name, *value; /* freed by the shell */
	} headers[16];
	size_t header_count;
	bool no_compression; /* of `body` */
	/* Answer nothing and reset the connection: for clients that take every HTTP error for "does not exist" and
	 * remember it, a clean end too, but try again after a reset. */
	bool reset;
};
/* False without memory. */
bool sp_http_reply_header(struct sp_http_reply *reply, const char *name, const char *value);

/* Runs on a worker thread. */
typedef void (*sp_http_handler)(void *context, const struct sp_http_request *request, struct sp_http_reply *reply);

/* Where a body goes that is not kept in memory. */
struct sp_http_body {
	void *stream;
	uint64_t limit; /* bytes; a larger body is 413 */
	/* Takes bytes in the thread that serves all connections: must not block. False ends the connection. */
	bool (*write)(void *stream, const void *bytes, size_t size);
	/* Called once, after the reply or when the connection broke, in any thread. */
	void (*close)(void *stream);
	const char *refusal; /* static: the text of a refusing reply */
};

/* All pointers are borrowed until sp_http_stop(). */
struct sp_http_options {
	const char *address;    /* default "127.0.0.1" */
	uint16_t port;          /* first port to try; 0 = any */
	unsigned port_attempts; /* 1 = only that one */
	size_t body_limit;      /* bytes; a larger body is 413; default 64 MiB */
	unsigned workers;       /* default 2 */
	unsigned timeout_s;     /* for slow clients; default 30 */
	sp_http_handler handler;
	/* May be NULL. Asked when the headers of a request with a body are there: 0 = the body is kept in memory, 200 =
	 * it goes where *ret says, else the request is refused with that status. Must not block. */
	unsigned (*open_body)(void *context, const struct sp_http_request *request, struct sp_http_body *ret);
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
/* Whether only this machine reaches what listens on the address. */
bool sp_http_is_loopback(const char *address);
uint16_t sp_http_port(const struct sp_http *http);
/* Waits for the handlers that run, then ends all connections and workers. */
void sp_http_stop(struct sp_http *http);

#endif
