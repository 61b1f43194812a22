/* Connections and requests as MHD reports them, in its one thread, and the deadlines of slow clients.
 *
 * A request goes through the states of enum http_state. MHD's own timeout is for silence only, and a client could
 * trickle bytes for ever; so each connection has a deadline for what it is doing now: the request line, the headers, a
 * body at a least rate, taking the reply at a least rate. A thread looks at them once a second and cuts those past
 * it. */
#include "internal.h"

#include "common/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND 1000000000u

static uint64_t timeout_of(const struct sp_http *http)
{
	return (uint64_t)http->options.timeout_s * SECOND;
}

/* `start` plus the timeout plus the time that `bytes` may take. */
static uint64_t deadline_for(const struct sp_http *http, uint64_t start, uint64_t bytes)
{
	return start + timeout_of(http) + bytes / SP_HTTP_MIN_RATE * SECOND;
}

static void set_deadline(struct sp_http *http, struct http_connection *connection, uint64_t deadline)
{
	if (!connection)
		return;
	pthread_mutex_lock(&http->lock);
	connection->deadline = deadline;
	pthread_mutex_unlock(&http->lock);
}

void *http_reaper(void *context)
{
	struct sp_http *http = context;
	pthread_mutex_lock(&http->lock);
	while (!http->stopping) {
		struct timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec++;
		pthread_cond_timedwait(&http->tick, &http->lock, &until);
		uint64_t now = sp_clock_now();
		for (struct http_connection *c = http->connections; c; c = c->next) {
			if (c->deadline && now > c->deadline)
				http_cut_socket(c->fd);
		}
	}
	pthread_mutex_unlock(&http->lock);
	return NULL;
}

void http_on_connection(void *context, struct MHD_Connection *mhd, void **socket_context,
                        enum MHD_ConnectionNotificationCode code)
{
	struct sp_http *http = context;
	struct http_connection *connection = *socket_context;
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
		connection = calloc(1, sizeof(*connection));
		if (!connection || !info) {
			free(connection);
			return;
		}
		connection->fd = (int)info->connect_fd;
		connection->deadline = deadline_for(http, sp_clock_now(), 0);
		pthread_mutex_lock(&http->lock);
		connection->next = http->connections;
		if (connection->next)
			connection->next->previous = connection;
		http->connections = connection;
		pthread_mutex_unlock(&http->lock);
		*socket_context = connection;
	} else if (connection) {
		pthread_mutex_lock(&http->lock);
		if (connection->previous)
			connection->previous->next = connection->next;
		else
			http->connections = connection->next;
		if (connection->next)
			connection->next->previous = connection->previous;
		pthread_mutex_unlock(&http->lock);
		free(connection);
		*socket_context = NULL;
	}
}

static const char *request_header(const struct sp_http_request *request, const char *name)
{
	const struct http_job *job = request->internal;
	return MHD_lookup_connection_value(job->mhd, MHD_HEADER_KIND, name);
}

void *http_on_request_line(void *context, const char *uri, struct MHD_Connection *mhd)
{
	struct sp_http *http = context;
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct http_job *job = calloc(1, sizeof(*job));
	if (!job)
		return NULL;
	job->http = http;
	job->mhd = mhd;
	job->connection = info ? info->socket_context : NULL;
	job->request.header = request_header;
	job->request.internal = job;
	const char *query = strchr(uri, '?');
	if (query)
		job->query = strdup(query + 1);
	job->request.query = job->query;
	set_deadline(http, job->connection, deadline_for(http, sp_clock_now(), 0));
	return job;
}

/* ---- Room for bodies ---- */

/* Takes the room that a body needs; false when there is none now. Called with the lock. */
static bool reserve(struct sp_http *http, struct http_job *job, size_t size)
{
	if (http->body_bytes + size > http->options.body_limit * SP_HTTP_MAX_BODIES)
		return false;
	http->body_bytes += size;
	job->reserved = size;
	return true;
}

void http_release_room(struct http_job *job)
{
	struct sp_http *http = job->http;
	pthread_mutex_lock(&http->lock);
	http->body_bytes -= job->reserved;
	job->reserved = 0;
	while (!http->stopping && http->waiting.first) {
		struct http_job *first = http->waiting.first;
		size_t size = first->reserved;
		first->reserved = 0;
		if (!reserve(http, first, size)) {
			first->reserved = size; /* what it waits for */
			break;
		}
		http_list_pop(&http->waiting);
		MHD_resume_connection(first->mhd);
	}
	pthread_mutex_unlock(&http->lock);
}

/* ---- Requests ---- */

static enum MHD_Result reply_now(struct http_job *job, unsigned status, const char *text)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(strlen(text), (void *)text,
	                                                                MHD_RESPMEM_PERSISTENT);
	if (!response)
		return MHD_NO;
	MHD_add_response_header(response, "Content-Type", "text/plain; charset=utf-8");
	set_deadline(job->http, job->connection, deadline_for(job->http, sp_clock_now(), strlen(text)));
	enum MHD_Result result = MHD_queue_response(job->mhd, status, response);
	MHD_destroy_response(response);
	return result;
}

/* The size that the headers announce; SIZE_MAX for a body of unknown size. */
static size_t announced_size(const struct http_job *job)
{
	const char *length = request_header(&job->request, "Content-Length");
	if (!length)
		return request_header(&job->request, "Transfer-Encoding") ? SIZE_MAX : 0;
	errno = 0;
	char *end;
	unsigned long long size = strtoull(length, &end, 10);
	return errno || *end || end == length || size > SIZE_MAX - 1 ? SIZE_MAX - 1 : (size_t)size;
}

/* The headers are in: refuses the request, or lets its body come when there is room. */
static enum MHD_Result begin_request(struct http_job *job)
{
	struct sp_http *http = job->http;
	if (!http_host_is_ours(http, request_header(&job->request, "Host")))
		return reply_now(job, 403, "This server does not answer to that Host name.\n");
	size_t size = announced_size(job);
	if (size && http->options.open_body) {
		unsigned status = http->options.open_body(http->options.context, &job->request, &job->sink);
		if (status && status != 200)
			return reply_now(job, status, job->sink.refusal);
	}
	if (job->sink.stream) {
		if (size != SIZE_MAX && size > job->sink.limit)
			return reply_now(job, 413, "The request is too large.\n");
		size = 0; /* it takes no room */
	}
	if (size == SIZE_MAX)
		size = http->options.body_limit;
	if (size > http->options.body_limit)
		return reply_now(job, 413, "The request is too large.\n");
	pthread_mutex_lock(&http->lock);
	bool stopping = http->stopping, room = !http->waiting.first && reserve(http, job, size);
	if (!stopping && !room && size) {
		job->state = HTTP_WAIT_ROOM;
		job->reserved = size; /* what it waits for */
		if (job->connection)
			job->connection->deadline = 0;
		MHD_suspend_connection(job->mhd);
		http_list_push(&http->waiting, job);
	} else {
		job->state = HTTP_BODY;
	}
	pthread_mutex_unlock(&http->lock);
	job->body_start = sp_clock_now();
	return stopping ? MHD_NO : MHD_YES;
}

static enum MHD_Result stream_body(struct http_job *job, const char *data, size_t *data_size)
{
	uint64_t size = job->request.body_size + *data_size;
	job->too_large |= size > job->sink.limit;
	if (!job->too_large && !job->sink.write(job->sink.stream, data, *data_size))
		return MHD_NO;
	if (!job->too_large)
		job->request.body_size = (size_t)size;
	*data_size = 0;
	set_deadline(job->http, job->connection, deadline_for(job->http, job->body_start, size));
	return MHD_YES;
}

static enum MHD_Result add_body(struct http_job *job, const char *data, size_t *data_size)
{
	struct sp_http *http = job->http;
	if (job->sink.stream)
		return stream_body(job, data, data_size);
	size_t size = job->request.body_size + *data_size;
	if (size > http->options.body_limit) {
		job->too_large = true;
		*data_size = 0;
		return MHD_YES;
	}
	if (size + 1 > job->body_capacity) {
		size_t capacity = size * 2 > 4096 ? size * 2 : 4096;
		char *body = realloc(job->body, capacity);
		if (!body)
			return MHD_NO;
		job->body = body;
		job->body_capacity = capacity;
	}
	memcpy(job->body + job->request.body_size, data, *data_size);
	job->body[size] = 0;
	job->request.body = job->body;
	job->request.body_size = size;
	*data_size = 0;
	set_deadline(http, job->connection, deadline_for(http, job->body_start, size));
	return MHD_YES;
}

static enum MHD_Result enqueue(struct http_job *job)
{
	struct sp_http *http = job->http;
	pthread_mutex_lock(&http->lock);
	bool stopping = http->stopping;
	if (!stopping) {
		job->state = HTTP_QUEUED;
		if (job->connection)
			job->connection->deadline = 0;
		MHD_suspend_connection(job->mhd);
		http_list_push(&http->queue, job);
		pthread_cond_signal(&http->work);
	}
	pthread_mutex_unlock(&http->lock);
	return stopping ? MHD_NO : MHD_YES;
}

static enum MHD_Result send_reply(struct http_job *job)
{
	if (job->reset && job->connection)
		http_reset_socket(job->connection->fd);
	if (!job->response)
		return MHD_NO;
	set_deadline(job->http, job->connection, deadline_for(job->http, sp_clock_now(), job->reply_size));
	return MHD_queue_response(job->mhd, job->status, job->response);
}

enum MHD_Result http_on_request(void *context, struct MHD_Connection *mhd, const char *url, const char *method,
                                const char *version, const char *data, size_t *data_size, void **job_slot)
{
	struct sp_http *http = context;
	struct http_job *job = *job_slot;
	(void)mhd;
	(void)version;
	if (!job)
		return MHD_NO;
	job->request.method = method;
	job->request.path = url;
	job->request.stream = job->sink.stream;
	switch (job->state) {
	case HTTP_NEW:
		return begin_request(job);
	case HTTP_WAIT_ROOM:
		job->state = HTTP_BODY;
		job->body_start = sp_clock_now();
		set_deadline(http, job->connection, deadline_for(http, job->body_start, 0));
		return *data_size ? add_body(job, data, data_size) : MHD_YES;
	case HTTP_BODY:
		return *data_size ? add_body(job, data, data_size) : enqueue(job);
	case HTTP_QUEUED:
		return MHD_NO; /* resumed without a reply: stopping */
	case HTTP_DONE:
	default:
		return send_reply(job);
	}
}

void http_on_completed(void *context, struct MHD_Connection *mhd, void **job_slot, enum MHD_RequestTerminationCode code)
{
	struct sp_http *http = context;
	struct http_job *job = *job_slot;
	(void)mhd;
	(void)code;
	if (!job)
		return;
	*job_slot = NULL;
	http_release_room(job);
	if (job->sink.stream)
		job->sink.close(job->sink.stream);
	/* The next request line may take as long again as the silence that MHD itself allows. */
	set_deadline(http, job->connection, sp_clock_now() + 2 * timeout_of(http));
	if (job->response)
		MHD_destroy_response(job->response);
	free(job->query);
	free(job->body);
	free(job);
}
