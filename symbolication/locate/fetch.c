/* Downloads through libcurl's easy interface. Its option numbers are part of its ABI and are written out here, so that
 * the build needs no header of it. */
#include "symbolication/locate/fetch.h"

#include "common/clock.h"
#include "common/library.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* curl.h: CURLoption is a type's base plus a number; CURLINFO likewise. */
enum {
	OPT_WRITEDATA = 10001,
	OPT_READDATA = 10009,
	OPT_POSTFIELDS = 10015,
	OPT_URL = 10002,
	OPT_ERRORBUFFER = 10010,
	OPT_USERAGENT = 10018,
	OPT_HTTPHEADER = 10023,
	OPT_XFERINFODATA = 10057,
	OPT_ACCEPT_ENCODING = 10102,
	OPT_NOPROGRESS = 43,
	OPT_UPLOAD = 46,
	OPT_POST = 47,
	OPT_FOLLOWLOCATION = 52,
	OPT_MAXREDIRS = 68,
	OPT_NOSIGNAL = 99,
	OPT_TIMEOUT_MS = 155,
	OPT_CONNECTTIMEOUT_MS = 156,
	OPT_PROTOCOLS = 181,
	OPT_REDIR_PROTOCOLS = 182,
	OPT_WRITEFUNCTION = 20011,
	OPT_READFUNCTION = 20012,
	OPT_XFERINFOFUNCTION = 20219,
	OPT_INFILESIZE_LARGE = 30115,
	OPT_POSTFIELDSIZE_LARGE = 30120,
	READ_ABORT = 0x10000000,
	INFO_RESPONSE_CODE = 0x200002,
	PROTOCOLS_HTTP = 3, /* http and https */
	GLOBAL_ALL = 3,
	ERROR_SIZE = 256,
	REDIRECTIONS = 5
};

struct curl_slist;

/* The functions in use. */
static struct {
	int (*global_init)(long flags);
	void *(*easy_init)(void);
	int (*easy_setopt)(void *easy, int option, ...);
	int (*easy_perform)(void *easy);
	int (*easy_getinfo)(void *easy, int info, ...);
	void (*easy_cleanup)(void *easy);
	const char *(*easy_strerror)(int code);
	struct curl_slist *(*slist_append)(struct curl_slist *list, const char *line);
	void (*slist_free_all)(struct curl_slist *list);
} curl;

/* The library is loaded and initialised once a process, as it demands. */
static bool curl_loaded;
static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static void load_curl(void)
{
#ifdef _WIN32
	static const char *const names[] = { "libcurl-4.dll", "libcurl-x64.dll", "libcurl.dll", NULL };
#elif defined(__APPLE__)
	static const char *const names[] = { "libcurl.4.dylib", "/usr/lib/libcurl.4.dylib", NULL };
#else
	static const char *const names[] = { "libcurl.so.4", "libcurl-gnutls.so.4", NULL };
#endif
	static const struct sp_library_function functions[] = {
		{ "curl_global_init", &curl.global_init },       { "curl_easy_init", &curl.easy_init },
		{ "curl_easy_setopt", &curl.easy_setopt },       { "curl_easy_perform", &curl.easy_perform },
		{ "curl_easy_getinfo", &curl.easy_getinfo },     { "curl_easy_cleanup", &curl.easy_cleanup },
		{ "curl_easy_strerror", &curl.easy_strerror },   { "curl_slist_append", &curl.slist_append },
		{ "curl_slist_free_all", &curl.slist_free_all },
	};
	struct sp_error *error = sp_library_load(names, functions, sizeof(functions) / sizeof(functions[0]));
	curl_loaded = !error && curl.global_init(GLOBAL_ALL) == 0;
	sp_error_destroy(error);
}

/* One running download. */
struct transfer {
	const struct sp_fetch_request *request;
	void *easy;
	uint64_t started, last_byte; /* ns */
	uint64_t seen;               /* bytes */
	uint64_t written, sent;
	bool too_large, cancelled, write_failed;
	const char *late; /* which deadline passed */
};

static uint64_t ms_since(uint64_t then)
{
	return (sp_clock_now() - then) / 1000000;
}

/* CURLOPT_WRITEFUNCTION: fewer bytes than given end the transfer. */
static size_t take_body(char *bytes, size_t size, size_t count, void *context)
{
	struct transfer *t = context;
	long status = 0;
	size *= count;
	curl.easy_getinfo(t->easy, INFO_RESPONSE_CODE, &status);
	if (t->request->reply) {
		struct sp_error *error = sp_buffer_write(t->request->reply, bytes, size);
		t->write_failed |= error != NULL;
		sp_error_destroy(error);
		return t->write_failed ? 0 : size;
	}
	if (status != 200)
		return size; /* the page of an error */
	if (t->request->size_limit && size > t->request->size_limit - t->written) {
		t->too_large = true;
		return 0;
	}
	for (size_t done = 0; done < size;) {
		ssize_t n = write(t->request->fd, bytes + done, (unsigned)(size - done));
		if (n <= 0) {
			t->write_failed = true;
			return 0;
		}
		done += (size_t)n;
	}
	t->written += size;
	return size;
}

/* CURLOPT_READFUNCTION: the next bytes to send. */
static size_t give_body(char *bytes, size_t size, size_t count, void *context)
{
	struct transfer *t = context;
	uint64_t left = t->request->put_size - t->sent;
	size *= count;
	if (size > left)
		size = (size_t)left;
	if (!size)
		return 0;
#ifdef _WIN32
	ssize_t n = lseek64(t->request->put_fd, (int64_t)(t->request->put_offset + t->sent), SEEK_SET) < 0
	                ? -1
	                : read(t->request->put_fd, bytes, (unsigned)size);
#else
	ssize_t n = pread(t->request->put_fd, bytes, size, (off_t)(t->request->put_offset + t->sent));
#endif
	if (n <= 0)
		return READ_ABORT;
	t->sent += (uint64_t)n;
	return (size_t)n;
}

/* CURLOPT_XFERINFOFUNCTION, called at least once a second: anything but 0 ends the transfer. */
static int watch(void *context, int64_t total, int64_t done, int64_t upload_total, int64_t upload_done)
{
	struct transfer *t = context;
	uint64_t received = (done > 0 ? (uint64_t)done : 0) + (upload_done > 0 ? (uint64_t)upload_done : 0);
	if (t->request->put) {
		done = upload_done;
		total = upload_total;
	}
	if (received > t->seen) {
		t->seen = received;
		t->last_byte = sp_clock_now();
	}
	if (!t->seen && ms_since(t->started) > t->request->first_byte_ms)
		t->late = "no reply";
	else if (t->seen && ms_since(t->last_byte) > t->request->stall_ms)
		t->late = "the download stands still";
	if (t->request->progress &&
	    !t->request->progress(t->request->context, done > 0 ? (uint64_t)done : 0, total > 0 ? (uint64_t)total : 0))
		t->cancelled = true;
	return t->late || t->cancelled;
}

static void set_options(struct transfer *t, struct curl_slist *headers, char *message)
{
	const struct sp_fetch_request *r = t->request;
	curl.easy_setopt(t->easy, OPT_URL, r->url);
	curl.easy_setopt(t->easy, OPT_USERAGENT, "sp/" SP_VERSION);
	curl.easy_setopt(t->easy, OPT_ERRORBUFFER, message);
	curl.easy_setopt(t->easy, OPT_NOSIGNAL, 1L);
	curl.easy_setopt(t->easy, OPT_ACCEPT_ENCODING, "");
	curl.easy_setopt(t->easy, OPT_FOLLOWLOCATION, 1L);
	curl.easy_setopt(t->easy, OPT_MAXREDIRS, (long)REDIRECTIONS);
	curl.easy_setopt(t->easy, OPT_PROTOCOLS, (long)PROTOCOLS_HTTP);
	curl.easy_setopt(t->easy, OPT_REDIR_PROTOCOLS, (long)PROTOCOLS_HTTP);
	curl.easy_setopt(t->easy, OPT_CONNECTTIMEOUT_MS, (long)r->connect_ms);
	curl.easy_setopt(t->easy, OPT_TIMEOUT_MS, (long)r->total_ms);
	curl.easy_setopt(t->easy, OPT_NOPROGRESS, 0L);
	curl.easy_setopt(t->easy, OPT_XFERINFOFUNCTION, watch);
	curl.easy_setopt(t->easy, OPT_XFERINFODATA, t);
	curl.easy_setopt(t->easy, OPT_WRITEFUNCTION, take_body);
	curl.easy_setopt(t->easy, OPT_WRITEDATA, t);
	if (headers)
		curl.easy_setopt(t->easy, OPT_HTTPHEADER, headers);
	if (r->post) {
		curl.easy_setopt(t->easy, OPT_POST, 1L);
		curl.easy_setopt(t->easy, OPT_POSTFIELDS, r->post);
		curl.easy_setopt(t->easy, OPT_POSTFIELDSIZE_LARGE, (int64_t)r->post_size);
	} else if (r->put) {
		curl.easy_setopt(t->easy, OPT_UPLOAD, 1L);
		curl.easy_setopt(t->easy, OPT_READFUNCTION, give_body);
		curl.easy_setopt(t->easy, OPT_READDATA, t);
		curl.easy_setopt(t->easy, OPT_INFILESIZE_LARGE, (int64_t)r->put_size);
	}
}

/* Why a transfer ended early. */
static struct sp_error *transfer_error(const struct transfer *t, int code, const char *message)
{
	const char *url = t->request->url;
	if (t->too_large)
		return sp_error_create(SP_ERROR_LIMIT, "%s: larger than %llu bytes", url,
		                       (unsigned long long)t->request->size_limit);
	if (t->cancelled)
		return sp_error_create(SP_ERROR_CANCELLED, "%s: cancelled", url);
	if (t->write_failed)
		return sp_error_create(SP_ERROR_SYSTEM, "%s: cannot write the download", url);
	return sp_error_create(SP_ERROR_SYSTEM, "%s: %s", url,
	                       t->late      ? t->late
	                       : message[0] ? message
	                                    : curl.easy_strerror(code));
}

struct sp_error *sp_fetch(const struct sp_fetch_request *request, long *ret_status)
{
	pthread_once(&curl_once, load_curl);
	if (!curl_loaded)
		return sp_error_create(SP_ERROR_UNSUPPORTED, "%s: libcurl, which downloads need, cannot be loaded",
		                       request->url);
	struct transfer t = { .request = request, .easy = curl.easy_init(), .started = sp_clock_now() };
	if (!t.easy)
		return sp_error_no_memory();
	struct curl_slist *headers = NULL;
	for (size_t i = 0; request->headers && request->headers[i]; i++) {
		struct curl_slist *longer = curl.slist_append(headers, request->headers[i]);
		headers = longer ? longer : headers;
	}
	char message[ERROR_SIZE] = "";
	set_options(&t, headers, message);
	int code = curl.easy_perform(t.easy);
	struct sp_error *error = code ? transfer_error(&t, code, message) : NULL;
	curl.easy_getinfo(t.easy, INFO_RESPONSE_CODE, ret_status);
	curl.easy_cleanup(t.easy);
	curl.slist_free_all(headers);
	return error;
}
