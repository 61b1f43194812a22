/* The symbol server: one store behind the protocols of debuginfod, of Microsoft's and Breakpad's symbol servers, and of
 * the Firefox Profiler, and the door by which CI puts files into it.
 *
 * Every path may begin with /t/TOKEN (for clients that cannot send a header) and then /n/pr/NAME (to see that pull
 * request's files, too):
 *
 *	GET  /buildid/ID/debuginfo, executable, section/NAME, source/PATH     debuginfod(8)
 *	GET  /FILE/ID/FILE                                                    symsrv, SSQP; Breakpad's .sym
 *	POST /symbolicate/v5, /source/v1, /asm/v1                             api/api.h
 *	POST /v1/uploads:check, PUT /v1/uploads/SHA256                        upload.c
 *
 * A client of /buildid takes every HTTP error for "does not exist" and remembers it: when the server is in trouble the
 * connection is reset there, which clients try again after. */
#ifndef SP_SYMBOLICATION_SERVER_SERVER_H
#define SP_SYMBOLICATION_SERVER_SERVER_H

#include "common/log.h"
#include "symbolication/store/store.h"

#include <stdbool.h>
#include <stdint.h>

/* All pointers are borrowed until sp_server_stop(). */
struct sp_server_options {
	struct sp_store *store;
	const char *cache_folder;  /* for tables made of stored files */
	const char *address;       /* default "127.0.0.1" */
	uint16_t port;             /* 0 = any */
	const char *const *hosts;  /* names that it is reached by, besides addresses; NULL-terminated; may be NULL */
	bool open_read;            /* reading needs no token */
	const char *admin_address; /* default "127.0.0.1" */
	uint16_t admin_port;       /* for /healthz, /readyz and /metrics; 0 = any */
	bool admin;                /* there is such a listener */
	uint64_t upload_limit;     /* bytes a file; default 4 GiB */
	unsigned workers;          /* default 8 */
	const struct sp_log *log;  /* may be NULL */
	/* Gets a line of JSON for every request: time, method, path (tokens taken out), status, token's ID, ms. May be
	 * NULL; any thread. */
	void (*access)(void *context, const char *line);
	void *access_context;
};

struct sp_server;
/* Signals stay with the calling thread. */
struct sp_error *sp_server_start(const struct sp_server_options *options, struct sp_server **ret);
uint16_t sp_server_port(const struct sp_server *server);
uint16_t sp_server_admin_port(const struct sp_server *server); /* 0 = none */
/* Waits for the requests that run. NULL is fine. */
void sp_server_stop(struct sp_server *server);

#endif
