/* The workers: each takes a request off the queue, runs the handler, and makes the reply ready for sending. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef _WIN32
#define OPEN_FLAGS (O_RDONLY | O_BINARY | O_NOINHERIT)
#else
#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC)
#endif

void http_list_push(struct http_list *list, struct http_job *job)
{
	job->next = NULL;
	if (list->last)
		list->last->next = job;
	else
		list->first = job;
	list->last = job;
}

struct http_job *http_list_pop(struct http_list *list)
{
	struct http_job *job = list->first;
	if (job) {
		list->first = job->next;
		if (!list->first)
			list->last = NULL;
	}
	return job;
}

bool sp_http_reply_header(struct sp_http_reply *reply, const char *name, const char *value)
{
	if (reply->header_count == sizeof(reply->headers) / sizeof(*reply->headers))
		return false;
	char *name_copy = strdup(name), *value_copy = strdup(value);
	if (!name_copy || !value_copy) {
		free(name_copy);
		free(value_copy);
		return false;
	}
	reply->headers[reply->header_count].name = name_copy;
	reply->headers[reply->header_count++].value = value_copy;
	return true;
}

static struct MHD_Response *text_response(struct http_job *job, unsigned status, const char *text)
{
	job->status = status;
	struct MHD_Response *response = MHD_create_response_from_buffer(strlen(text), (void *)text,
	                                                                MHD_RESPMEM_PERSISTENT);
	if (response)
		MHD_add_response_header(response, "Content-Type", "text/plain; charset=utf-8");
	return response;
}

static struct MHD_Response *file_response(struct http_job *job, const struct sp_http_reply *reply)
{
	struct stat st;
	int fd = open(reply->file, OPEN_FLAGS);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		int errnum = errno;
		if (fd >= 0)
			close(fd);
		return text_response(job, fd < 0 && errnum == ENOENT ? 404 : 500, "The file cannot be read.\n");
	}
	struct MHD_Response *response = MHD_create_response_from_fd64((uint64_t)st.st_size, fd);
	if (!response) {
		close(fd);
		return NULL;
	}
	job->reply_size = (uint64_t)st.st_size;
	const char *accept = job->request.header(&job->request, "Accept-Encoding");
	/* Who cannot take the file's coding gets its bytes as a file of that kind. */
	if (!reply->content_encoding || !accept || http_accepts(accept, reply->content_encoding)) {
		MHD_add_response_header(response, "Content-Type", reply->content_type);
		if (reply->content_encoding)
			MHD_add_response_header(response, "Content-Encoding", reply->content_encoding);
	} else {
		MHD_add_response_header(response, "Content-Type", "application/gzip");
	}
	return response;
}

/* A part of an open file, or of that part what the client asks for. The descriptor becomes the response's. */
static struct MHD_Response *fd_response(struct http_job *job, struct sp_http_reply *reply)
{
	const struct sp_http_request *request = &job->request;
	const char *if_range = request->header(request, "If-Range");
	bool same = !if_range || (reply->etag && !strcmp(if_range, reply->etag));
	struct http_range range = { 0, reply->fd_size };
	enum http_range_kind kind = HTTP_RANGE_ALL;
	char text[80];
	if (reply->etag && http_has_tag(request->header(request, "If-None-Match"), reply->etag)) {
		job->status = 304;
		return MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
	}
	if (reply->status == 200 && same)
		kind = http_read_range(request->header(request, "Range"), reply->fd_size, &range);
	if (kind == HTTP_RANGE_OUTSIDE) {
		struct MHD_Response *outside = text_response(job, 416, "There are no such bytes.\n");
		snprintf(text, sizeof(text), "bytes */%llu", (unsigned long long)reply->fd_size);
		if (outside)
			MHD_add_response_header(outside, "Content-Range", text);
		return outside;
	}
	struct MHD_Response *response = MHD_create_response_from_fd_at_offset64(range.size, reply->fd,
	                                                                        reply->fd_offset + range.first);
	if (!response)
		return NULL;
	reply->has_fd = false;
	job->reply_size = range.size;
	if (kind == HTTP_RANGE_PART) {
		job->status = 206;
		snprintf(text, sizeof(text), "bytes %llu-%llu/%llu", (unsigned long long)range.first,
		         (unsigned long long)(range.first + range.size - 1), (unsigned long long)reply->fd_size);
		MHD_add_response_header(response, "Content-Range", text);
	}
	MHD_add_response_header(response, "Accept-Ranges", "bytes");
	MHD_add_response_header(response, "Content-Type",
	                        reply->content_type ? reply->content_type : "application/octet-stream");
	return response;
}

static struct MHD_Response *body_response(struct http_job *job, struct http_encoder *encoder,
                                          struct sp_http_reply *reply)
{
	const char *coding = NULL;
	if (!reply->no_compression)
		coding = http_encode(encoder, job->request.header(&job->request, "Accept-Encoding"), &reply->body);
	struct MHD_Response *response = MHD_create_response_from_buffer(reply->body.size, reply->body.bytes,
	                                                                MHD_RESPMEM_MUST_FREE);
	if (!response)
		return NULL;
	job->reply_size = reply->body.size;
	reply->body.bytes = NULL;
	if (reply->content_type)
		MHD_add_response_header(response, "Content-Type", reply->content_type);
	if (coding)
		MHD_add_response_header(response, "Content-Encoding", coding);
	if (!reply->no_compression)
		MHD_add_response_header(response, "Vary", "Accept-Encoding");
	return response;
}

static void run_job(struct http_job *job, struct http_encoder *encoder)
{
	struct sp_http *http = job->http;
	struct sp_http_reply reply = { .status = 200 };
	if (job->too_large) {
		job->response = text_response(job, 413, "The request is too large.\n");
		return;
	}
	http->options.handler(http->options.context, &job->request, &reply);
	job->status = reply.status;
	job->reset = reply.reset;
	if (!reply.reset)
		job->response = reply.has_fd ? fd_response(job, &reply)
		                : reply.file ? file_response(job, &reply)
		                             : body_response(job, encoder, &reply);
	if (reply.has_fd)
		close(reply.fd);
	if (reply.etag && job->response)
		MHD_add_response_header(job->response, "ETag", reply.etag);
	free(reply.etag);
	for (size_t i = 0; i < reply.header_count; i++) {
		if (job->response)
			MHD_add_response_header(job->response, reply.headers[i].name, reply.headers[i].value);
		free(reply.headers[i].name);
		free(reply.headers[i].value);
	}
	free(reply.body.bytes);
	free(reply.file);
	/* Only the reply is kept while a slow client takes it. */
	free(job->body);
	job->body = NULL;
	http_release_room(job);
}

void *http_worker(void *context)
{
	struct sp_http *http = context;
	struct http_encoder encoder = { 0 };
	pthread_mutex_lock(&http->lock);
	while (!http->stopping) {
		struct http_job *job = http_list_pop(&http->queue);
		if (!job) {
			pthread_cond_wait(&http->work, &http->lock);
			continue;
		}
		pthread_mutex_unlock(&http->lock);
		run_job(job, &encoder);
		job->state = HTTP_DONE;
		/* From here on the job is the other thread's. */
		MHD_resume_connection(job->mhd);
		pthread_mutex_lock(&http->lock);
	}
	pthread_mutex_unlock(&http->lock);
	http_encoder_deinit(&encoder);
	return NULL;
}
