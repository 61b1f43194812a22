/* Starting and stopping the server.
 *
 * One thread of libmicrohttpd holds all connections; requests are suspended there while workers answer them; one thread
 * cuts clients that are too slow. */
#include "internal.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_mhd_message(void *context, const char *format, va_list args) SP_PRINTF(2, 0);
static void on_mhd_message(void *context, const char *format, va_list args)
{
	struct sp_http *http = context;
	char line[512];
	vsnprintf(line, sizeof(line), format, args);
	line[strcspn(line, "\n")] = 0;
	sp_log(http->options.log, SP_LOG_DEBUG, "http: %s", line);
}

static struct sp_error *start_daemon(struct sp_http *http)
{
	int fd;
	struct sp_error *error = http_listen(http->address, http->options.port, http->options.port_attempts, &fd,
	                                     &http->port);
	if (error)
		return error;
	http->daemon = MHD_start_daemon(
	    MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL,
	    NULL, http_on_request, http, MHD_OPTION_EXTERNAL_LOGGER, on_mhd_message, http, MHD_OPTION_LISTEN_SOCKET, fd,
	    MHD_OPTION_URI_LOG_CALLBACK, http_on_request_line, http, MHD_OPTION_NOTIFY_COMPLETED, http_on_completed,
	    http, MHD_OPTION_NOTIFY_CONNECTION, http_on_connection, http, MHD_OPTION_CONNECTION_LIMIT,
	    (unsigned)SP_HTTP_MAX_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, http->options.timeout_s, MHD_OPTION_END);
	if (http->daemon)
		return NULL;
	http_close_socket(fd);
	return sp_error_create(SP_ERROR_SYSTEM, "cannot start the HTTP server");
}

static struct sp_error *start_threads(struct sp_http *http)
{
	http->workers = calloc(http->options.workers, sizeof(*http->workers));
	if (!http->workers)
		return sp_error_no_memory();
	for (unsigned i = 0; i < http->options.workers; i++) {
		if (pthread_create(&http->workers[i], NULL, http_worker, http))
			return sp_error_create(SP_ERROR_SYSTEM, "cannot start a thread");
		http->workers_started++;
	}
	if (pthread_create(&http->reaper, NULL, http_reaper, http))
		return sp_error_create(SP_ERROR_SYSTEM, "cannot start a thread");
	http->reaper_started = true;
	return NULL;
}

/* "[::1]" is "::1", "localhost" is its IPv4 address. */
static char *plain_address(const char *address)
{
	size_t length = strlen(address);
	if (!strcmp(address, "localhost"))
		return strdup("127.0.0.1");
	if (length > 2 && address[0] == '[' && address[length - 1] == ']')
		return strndup(address + 1, length - 2);
	return strdup(address);
}

struct sp_error *sp_http_start(const struct sp_http_options *options, struct sp_http **ret)
{
	struct sp_error *missing = http_need_mhd();
	if (missing)
		return missing;
	struct sp_http *http = calloc(1, sizeof(*http));
	if (!http)
		return sp_error_no_memory();
	http->options = *options;
	http->address = plain_address(options->address ? options->address : "127.0.0.1");
	if (!http->address) {
		free(http);
		return sp_error_no_memory();
	}
	http->wildcard = !strcmp(http->address, "0.0.0.0") || !strcmp(http->address, "::");
	if (!http->options.body_limit)
		http->options.body_limit = 64u << 20;
	if (!http->options.workers)
		http->options.workers = 2;
	if (!http->options.timeout_s)
		http->options.timeout_s = 30;
	pthread_mutex_init(&http->lock, NULL);
	pthread_cond_init(&http->work, NULL);
	pthread_cond_init(&http->tick, NULL);

#ifndef _WIN32
	/* Signals are for the thread that started us, and a client that goes away must not raise SIGPIPE. */
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
#endif
	struct sp_error *error = start_threads(http);
	if (!error)
		error = start_daemon(http);
#ifndef _WIN32
	pthread_sigmask(SIG_SETMASK, &before, NULL);
#endif
	if (error) {
		sp_http_stop(http);
		return error;
	}
	*ret = http;
	return NULL;
}

uint16_t sp_http_port(const struct sp_http *http)
{
	return http->port;
}

/* Ends the requests that no worker will answer. */
static void resume_all(struct sp_http *http, struct http_list *list)
{
	pthread_mutex_lock(&http->lock);
	for (struct http_job *job; (job = http_list_pop(list));) {
		if (list == &http->waiting)
			job->reserved = 0;
		job->state = HTTP_QUEUED;
		MHD_resume_connection(job->mhd);
	}
	pthread_mutex_unlock(&http->lock);
}

void sp_http_stop(struct sp_http *http)
{
	pthread_mutex_lock(&http->lock);
	http->stopping = true;
	pthread_cond_broadcast(&http->work);
	pthread_cond_broadcast(&http->tick);
	pthread_mutex_unlock(&http->lock);
	for (unsigned i = 0; i < http->workers_started; i++)
		pthread_join(http->workers[i], NULL);
	if (http->reaper_started)
		pthread_join(http->reaper, NULL);
	resume_all(http, &http->queue);
	resume_all(http, &http->waiting);
	if (http->daemon)
		MHD_stop_daemon(http->daemon);
	pthread_cond_destroy(&http->tick);
	pthread_cond_destroy(&http->work);
	pthread_mutex_destroy(&http->lock);
	free(http->workers);
	free(http->address);
	free(http);
}
