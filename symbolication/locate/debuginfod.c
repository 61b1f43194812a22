/* Asks one server after the other, and keeps what they say in the cache folder that debuginfod's clients share:
 * <cache>/<build ID>/debuginfo, .../executable, .../source##path; an empty file tells that no server had it. */
#include "symbolication/locate/debuginfod.h"

#include "common/clock.h"
#include "common/file.h"
#include "symbolication/locate/debuginfod_cache.h"
#include "symbolication/locate/fetch.h"
#include "symbolication/locate/private.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	SERVER_LIMIT = 16,
	HEADER_LIMIT = 16,
	CONNECT_MS = 3000,
	FIRST_BYTE_MS = 10000,
	STALL_MS = 30000,
	RETRIES = 2,
	PAUSE_S = 60 /* for which a server that failed is not asked again */
};

struct server {
	char *url;           /* owned; without a slash at its end */
	uint64_t not_before; /* sp_clock_now(); 0 = may be asked */
};

struct sp_debuginfod {
	struct server servers[SERVER_LIMIT];
	size_t server_count;
	char *headers[HEADER_LIMIT + 1]; /* owned; NULL-terminated */
	char *cache;                     /* owned */
	bool offline;
	unsigned stall_ms, total_ms, retries;
	uint64_t size_limit;
	bool (*progress)(void *context, const char *url, uint64_t done, uint64_t total);
	void *context;
	pthread_mutex_t lock; /* guards not_before and cleaned */
	bool cleaned;
};

static uint64_t number_from_environment(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	char *end;
	unsigned long long value = text ? strtoull(text, &end, 10) : 0;
	return text && end != text ? value : otherwise;
}

/* The blank-separated words of `text`; only http and https URLs. */
static struct sp_error *take_urls(struct sp_debuginfod *d, const char *text)
{
	while (*text && d->server_count < SERVER_LIMIT) {
		size_t blank = strspn(text, " \t\n"), length = strcspn(text + blank, " \t\n");
		const char *url = text + blank;
		text = url + length;
		while (length && url[length - 1] == '/')
			length--;
		if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
			continue;
		char *copy = sp_path_format("%.*s", (int)length, url);
		if (!copy)
			return sp_error_no_memory();
		d->servers[d->server_count++].url = copy;
	}
	return NULL;
}

/* $DEBUGINFOD_HEADERS_FILE: one "Name: value" a line. */
static void take_headers(struct sp_debuginfod *d)
{
	const char *path = getenv("DEBUGINFOD_HEADERS_FILE");
	char *text, *rest;
	size_t size, count = 0;
	struct sp_error *error = path ? sp_file_read(path, 65536, &text, &size) : NULL;
	if (!path || error) {
		sp_error_destroy(error);
		return;
	}
	for (char *line = strtok_r(text, "\r\n", &rest); line && count < HEADER_LIMIT;
	     line = strtok_r(NULL, "\r\n", &rest)) {
		char *colon = strchr(line, ':');
		if (colon && colon != line && (d->headers[count] = strdup(line)))
			count++;
	}
	free(text);
}

struct sp_error *sp_debuginfod_create(const struct sp_debuginfod_options *options, struct sp_debuginfod **ret)
{
	*ret = NULL;
	const char *urls = options->urls ? options->urls : getenv("DEBUGINFOD_URLS");
	if (!urls || !urls[strspn(urls, " \t\n")])
		return NULL;
	struct sp_debuginfod *d = calloc(1, sizeof(*d));
	if (!d)
		return sp_error_no_memory();
	pthread_mutex_init(&d->lock, NULL);
	d->offline = options->offline;
	d->progress = options->progress;
	d->context = options->context;
	d->stall_ms = (unsigned)number_from_environment("DEBUGINFOD_TIMEOUT", STALL_MS / 1000) * 1000;
	d->total_ms = (unsigned)number_from_environment("DEBUGINFOD_MAXTIME", 0) * 1000;
	d->retries = (unsigned)number_from_environment("DEBUGINFOD_RETRY_LIMIT", RETRIES);
	d->size_limit = number_from_environment("DEBUGINFOD_MAXSIZE", 0);
	take_headers(d);
	struct sp_error *error = take_urls(d, urls);
	if (!error)
		error = sp_debuginfod_cache_folder(&d->cache);
	if (error || !d->server_count) {
		sp_debuginfod_destroy(d);
		return error;
	}
	*ret = d;
	return NULL;
}

void sp_debuginfod_destroy(struct sp_debuginfod *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->server_count; i++)
		free(d->servers[i].url);
	for (size_t i = 0; i < HEADER_LIMIT; i++)
		free(d->headers[i]);
	free(d->cache);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

/* ---- One question ---- */

struct question {
	struct sp_debuginfod *debuginfod;
	const uint8_t *build_id;
	size_t build_id_size;
	char id[SPSYM_ID_MAX];
	enum sp_debuginfod_kind kind;
	const char *source;
	char *path;             /* owned; in the cache */
	const char *url;        /* being asked, for progress */
	struct sp_buffer notes; /* what each server said */
	bool trouble;           /* a server could not be asked, so that nothing is known to be missing */
};

static void note(struct question *q, const char *url, const char *what)
{
	char line[1200];
	int length = snprintf(line, sizeof(line), "%s%s: %s", q->notes.size ? "; " : "", url, what);
	size_t size = (size_t)length < sizeof(line) ? (size_t)length : sizeof(line) - 1;
	if (q->notes.size < 8192)
		sp_error_destroy(sp_buffer_write(&q->notes, line, size));
}

/* Escapes what may not stand in the path of a URL. */
static char *escape_path(const char *path)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
	char *escaped = malloc(3 * strlen(path) + 1), *at = escaped;
	for (; escaped && *path; path++) {
		if (strchr(plain, *path))
			*at++ = *path;
		else
			at += snprintf(at, 4, "%%%02X", (unsigned char)*path);
	}
	if (escaped)
		*at = 0;
	return escaped;
}

static char *make_url(const struct question *q, const struct server *server)
{
	static const char *const names[] = { "debuginfo", "executable", "source" };
	char *path = q->source ? escape_path(q->source) : NULL;
	if (q->source && !path)
		return NULL;
	char *url = sp_path_format("%s/buildid/%s/%s%s", server->url, q->id, names[q->kind], path ? path : "");
	free(path);
	return url;
}

/* Whether a downloaded file is what was asked for. */
static bool is_right(const struct question *q, const char *path)
{
	if (q->kind == SP_DEBUGINFOD_SOURCE)
		return true;
	struct sp_object *object;
	struct sp_error *error = sp_object_open_path(path, &object);
	if (error) {
		sp_error_destroy(error);
		return false;
	}
	size_t size;
	const uint8_t *id = sp_object_build_id(object, &size);
	bool right = id && size == q->build_id_size && memcmp(id, q->build_id, size) == 0;
	sp_object_destroy(object);
	return right;
}

static bool report_progress(void *context, uint64_t done, uint64_t total)
{
	struct question *q = context;
	const struct sp_debuginfod *d = q->debuginfod;
	return !d->progress || d->progress(d->context, q->url, done, total);
}

static unsigned smaller(unsigned a, unsigned b)
{
	return a && a < b ? a : b;
}

static struct sp_error *download(struct question *q, const char *url, int fd, long *status)
{
	const struct sp_debuginfod *d = q->debuginfod;
	q->url = url;
	struct sp_fetch_request request = { .url = url,
		                            .headers = (const char *const *)d->headers,
		                            .fd = fd,
		                            .size_limit = d->size_limit,
		                            .connect_ms = smaller(d->stall_ms, CONNECT_MS),
		                            .first_byte_ms = smaller(d->stall_ms, FIRST_BYTE_MS),
		                            .stall_ms = d->stall_ms ? d->stall_ms : STALL_MS,
		                            .total_ms = d->total_ms,
		                            .progress = report_progress,
		                            .context = q };
	return sp_fetch(&request, status);
}

enum outcome { FOUND, MISSING, FAILED, FATAL };

/* Downloads into a temporary file beside the place in the cache, and moves it there when it is right. */
static enum outcome ask_once(struct question *q, const char *url, struct sp_error **ret_error, bool *ret_again)
{
	long status = 0;
	*ret_again = false;
	char *temporary = sp_path_format("%s.XXXXXX", q->path);
	int fd = temporary ? mkstemp(temporary) : -1;
	if (fd < 0) {
		*ret_error = temporary ? sp_error_create(SP_ERROR_SYSTEM, "cannot write into %s", q->debuginfod->cache)
		                       : sp_error_no_memory();
		free(temporary);
		return FATAL;
	}
	struct sp_error *error = download(q, url, fd, &status);
	close(fd);
	enum outcome outcome = FAILED;
	if (error) {
		note(q, url, error->message);
		*ret_again = error->code == SP_ERROR_SYSTEM && status == 0 && !strstr(error->message, "no reply");
		if (error->code != SP_ERROR_SYSTEM && error->code != SP_ERROR_LIMIT)
			outcome = FATAL;
	} else if (status == 404) {
		note(q, url, "not found (404)");
		outcome = MISSING;
	} else if (status != 200) {
		char text[40];
		snprintf(text, sizeof(text), "HTTP status %ld", status);
		note(q, url, text);
	} else if (!is_right(q, temporary)) {
		note(q, url, "it sent a file with another build ID");
	} else if (rename(temporary, q->path) == 0) {
		outcome = FOUND;
	}
	if (outcome != FOUND)
		unlink(temporary);
	free(temporary);
	if (outcome == FATAL)
		*ret_error = error;
	else
		sp_error_destroy(error);
	return outcome;
}

static bool is_paused(struct sp_debuginfod *d, size_t at)
{
	pthread_mutex_lock(&d->lock);
	bool paused = d->servers[at].not_before > sp_clock_now();
	pthread_mutex_unlock(&d->lock);
	return paused;
}

static void pause_server(struct sp_debuginfod *d, size_t at)
{
	pthread_mutex_lock(&d->lock);
	d->servers[at].not_before = sp_clock_now() + (uint64_t)PAUSE_S * 1000000000;
	pthread_mutex_unlock(&d->lock);
}

static enum outcome ask_server(struct question *q, size_t at, struct sp_error **ret_error)
{
	struct sp_debuginfod *d = q->debuginfod;
	if (is_paused(d, at)) {
		note(q, d->servers[at].url, "not asked, it failed a moment ago");
		return FAILED;
	}
	char *url = make_url(q, &d->servers[at]);
	if (!url) {
		*ret_error = sp_error_no_memory();
		return FATAL;
	}
	bool again;
	enum outcome outcome = ask_once(q, url, ret_error, &again);
	for (unsigned i = 0; i < d->retries && outcome == FAILED && again; i++)
		outcome = ask_once(q, url, ret_error, &again);
	if (outcome == FAILED)
		pause_server(d, at);
	free(url);
	return outcome;
}

/* Asks all servers; NULL when the file is in its place. */
static struct sp_error *ask(struct question *q)
{
	struct sp_debuginfod *d = q->debuginfod;
	struct sp_error *error = NULL;
	bool missing_everywhere = true;
	for (size_t i = 0; i < d->server_count; i++) {
		enum outcome outcome = ask_server(q, i, &error);
		if (outcome == FOUND)
			return NULL;
		if (outcome == FATAL)
			return error;
		missing_everywhere = missing_everywhere && outcome == MISSING;
	}
	if (missing_everywhere)
		sp_debuginfod_cache_miss(q->path);
	return sp_error_create(missing_everywhere ? SP_ERROR_NOT_FOUND : SP_ERROR_SYSTEM, "debuginfod: %.*s",
	                       (int)q->notes.size, q->notes.bytes ? q->notes.bytes : "");
}

static void clean_cache(struct sp_debuginfod *d)
{
	pthread_mutex_lock(&d->lock);
	bool first = !d->cleaned;
	d->cleaned = true;
	pthread_mutex_unlock(&d->lock);
	if (first)
		sp_debuginfod_cache_clean(d->cache);
}

struct sp_error *sp_debuginfod_get(struct sp_debuginfod *d, const uint8_t *build_id, size_t size,
                                   enum sp_debuginfod_kind kind, const char *source, char **ret)
{
	struct question q = {
		.debuginfod = d, .build_id = build_id, .build_id_size = size, .kind = kind, .source = source
	};
	if (size < 4 || 2 * size >= sizeof(q.id))
		return sp_error_create(SP_ERROR_NOT_FOUND, "debuginfod needs a build ID");
	for (size_t i = 0; i < size; i++)
		snprintf(q.id + 2 * i, 3, "%02x", build_id[i]);
	struct sp_error *error = sp_debuginfod_cache_path(d->cache, q.id, kind, source, !d->offline, &q.path);
	if (error)
		return error;
	enum sp_debuginfod_cached cached = sp_debuginfod_cache_look(d->cache, q.path);
	if (cached == SP_DEBUGINFOD_MISS)
		error = sp_error_create(SP_ERROR_NOT_FOUND, "debuginfod: no server had it a moment ago (%s is empty)",
		                        q.path);
	else if (cached == SP_DEBUGINFOD_UNKNOWN && d->offline)
		error = sp_error_create(SP_ERROR_NOT_FOUND, "debuginfod: not in the cache, and downloads are off");
	else if (cached == SP_DEBUGINFOD_UNKNOWN) {
		clean_cache(d);
		error = ask(&q);
	}
	free(q.notes.bytes);
	if (error)
		free(q.path);
	else
		*ret = q.path;
	return error;
}
