/* One HTTP request: a download into a file, or an upload. Internal to symbolication/.
 *
 * libcurl is loaded when the first download begins, so that programs which never download anything neither need nor
 * load it. Only http and https, also after redirections. */
#ifndef SP_SYMBOLICATION_LOCATE_FETCH_H
#define SP_SYMBOLICATION_LOCATE_FETCH_H

#include "common/error.h"
#include "common/json.h"

#include <stdbool.h>
#include <stdint.h>

struct sp_fetch_request {
	const char *url;
	const char *const *headers; /* "Name: value", NULL-terminated; may be NULL */
	int fd;                     /* where the body goes; only that of a 200 reply; unused with `reply` */
	struct sp_buffer *reply;    /* where the body of any reply goes instead, up to its limit; may be NULL */
	const void *post;           /* a body to POST, borrowed; NULL = none */
	size_t post_size;
	bool put; /* PUT put_size bytes of the descriptor from put_offset on */
	int put_fd;
	uint64_t put_offset, put_size;
	uint64_t size_limit;    /* of the body, bytes; 0 = none */
	unsigned connect_ms;    /* until there is a connection */
	unsigned first_byte_ms; /* from the start until the first byte is sent or comes */
	unsigned stall_ms;      /* without a byte */
	unsigned total_ms;      /* for all of it; 0 = none */
	/* Told from time to time of what came, or was PUT; `total` is 0 while unknown. False cancels. May be NULL. */
	bool (*progress)(void *context, uint64_t done, uint64_t total);
	void *context;
};

/* Gives the HTTP status once a reply was received whole, whatever it says. Errors: SP_ERROR_SYSTEM for the network (its
 * message names the cause), SP_ERROR_LIMIT, SP_ERROR_CANCELLED, SP_ERROR_UNSUPPORTED without libcurl. Thread-safe. */
struct sp_error *sp_fetch(const struct sp_fetch_request *request, long *ret_status);

#endif
