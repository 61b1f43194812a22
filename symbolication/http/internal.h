/* What the parts of the shell share. */
#ifndef SP_SYMBOLICATION_HTTP_INTERNAL_H
#define SP_SYMBOLICATION_HTTP_INTERNAL_H

#include "http.h"

#include "mhd.h"

#include <pthread.h>

/* A TCP connection. */
struct http_connection {
	struct http_connection *previous, *next; /* all open ones */
	int fd;
	uint64_t deadline; /* sp_clock_now() at which it is cut; 0 = never */
};

enum http_state {
	HTTP_NEW,       /* the request line was read */
	HTTP_WAIT_ROOM, /* suspended until its body may be read */
	HTTP_BODY,      /* the body is coming in */
	HTTP_QUEUED,    /* suspended: waits for a worker or has one */
	HTTP_DONE,      /* the reply is ready */
};

/* A request under way; at most one a connection. */
struct http_job {
	struct sp_http_request request; /* first: its address is the job's */
	struct sp_http *http;
	struct MHD_Connection *mhd;
	struct http_connection *connection; /* NULL without memory */
	enum http_state state;
	struct http_job *next; /* in the queue or the list of those that wait for room */
	char *query;           /* owned */
	char *body;            /* owned */
	size_t body_capacity;
	size_t reserved;          /* bytes of the bodies' budget that it holds */
	uint64_t body_start;      /* when the first byte of the body could come */
	bool too_large;           /* the body passed the limit; the rest is thrown away */
	bool reset;               /* the connection is reset instead of a reply */
	struct sp_http_body sink; /* where the body goes; no stream = memory */
	struct MHD_Response *response;
	unsigned status;
	uint64_t reply_size; /* bytes to send */
};

/* A list with two ends. */
struct http_list {
	struct http_job *first, *last;
};

struct sp_http {
	struct sp_http_options options; /* with the defaults filled in */
	char *address;                  /* owned, options.address */
	bool wildcard;                  /* it is "0.0.0.0" or "::" */
	uint16_t port;
	struct MHD_Daemon *daemon;
	pthread_mutex_t lock; /* of all below */
	pthread_cond_t work;  /* the queue is not empty, or stopping */
	pthread_cond_t tick;  /* stopping */
	bool stopping;
	struct http_list queue;   /* requests for workers */
	struct http_list waiting; /* requests whose bodies do not fit now */
	size_t body_bytes;        /* reserved by bodies; at most body_limit * SP_HTTP_MAX_BODIES */
	struct http_connection *connections;
	pthread_t *workers, reaper;
	unsigned workers_started;
	bool reaper_started;
};

/* ---- listen.c ---- */

/* A listening socket on the first free port. */
struct sp_error *http_listen(const char *address, uint16_t port, unsigned attempts, int *ret, uint16_t *ret_port);
void http_close_socket(int fd);
/* Ends a connection from outside: its owner sees an error. */
void http_cut_socket(int fd);
/* As cutting, but the other side is told of an error and not of an end. */
void http_reset_socket(int fd);

/* ---- connection.c: called by MHD in its thread ---- */

void http_on_connection(void *context, struct MHD_Connection *mhd, void **socket_context,
                        enum MHD_ConnectionNotificationCode code);
void *http_on_request_line(void *context, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result http_on_request(void *context, struct MHD_Connection *mhd, const char *url, const char *method,
                                const char *version, const char *data, size_t *data_size, void **job);
void http_on_completed(void *context, struct MHD_Connection *mhd, void **job, enum MHD_RequestTerminationCode code);
/* Gives the room of a job's body back, and to those that wait for it, in order. In any thread. */
void http_release_room(struct http_job *job);
/* The thread that cuts connections past their deadline. */
void *http_reaper(void *context);

/* ---- worker.c ---- */

void *http_worker(void *context);
void http_list_push(struct http_list *list, struct http_job *job);
struct http_job *http_list_pop(struct http_list *list);

/* ---- host.c ---- */

/* Whether the Host header names this server. */
bool http_host_is_ours(const struct sp_http *http, const char *host);

/* ---- range.c ---- */

struct http_range {
	uint64_t first, size; /* bytes */
};
enum http_range_kind { HTTP_RANGE_ALL, HTTP_RANGE_PART, HTTP_RANGE_OUTSIDE };
/* What a Range header (NULL = absent) asks for of `size` bytes. One range; what is more or is malformed counts as
 * absent, as RFC 9110 (14.2) allows. */
enum http_range_kind http_read_range(const char *header, uint64_t size, struct http_range *ret);
/* Whether a list of entity tags (If-None-Match; NULL = absent) has the tag, compared weakly, or is "*". */
bool http_has_tag(const char *list, const char *tag);

/* ---- encode.c ---- */

/* Storage for compression that a worker keeps. Zeroed storage is empty. */
struct http_encoder {
	void *zstd; /* ZSTD_CCtx */
};
void http_encoder_deinit(struct http_encoder *encoder);
/* Whether Accept-Encoding (NULL = absent) allows a coding. */
bool http_accepts(const char *accept_encoding, const char *coding);
/* Compresses the body with the best coding that the client takes; returns its name, or NULL and leaves the body. */
const char *http_encode(struct http_encoder *encoder, const char *accept_encoding, struct sp_buffer *body);

#endif
