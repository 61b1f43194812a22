/* The HTTP shell, talked to over real sockets. */
#include "common/clock.h"
#include "common/compress.h"
#include "symbolication/http/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- A server whose handler says what it got ---- */

static sem_t gate; /* "/gate" waits until a test opens it */
static char file_path[] = "/tmp/sp-test-http-XXXXXX";

static void say(struct sp_http_reply *reply, const char *format, ...) SP_PRINTF(2, 3);
static void say(struct sp_http_reply *reply, const char *format, ...)
{
	char text[512];
	va_list args;
	va_start(args, format);
	int length = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	sp_error_destroy(sp_buffer_write(&reply->body, text, (size_t)length));
}

static void handle(void *context, const struct sp_http_request *request, struct sp_http_reply *reply)
{
	(void)context;
	reply->content_type = "text/plain";
	if (!strcmp(request->path, "/file")) {
		reply->file = strdup(file_path);
		reply->content_encoding = request->query ? "gzip" : NULL;
		return;
	}
	if (!strcmp(request->path, "/part")) { /* of the file, without its first four bytes */
		reply->has_fd = true;
		reply->fd = open(file_path, O_RDONLY | O_CLOEXEC);
		reply->fd_offset = 4;
		reply->fd_size = 12;
		reply->etag = strdup("\"tag\"");
		return;
	}
	if (!strcmp(request->path, "/reset")) {
		reply->reset = true;
		return;
	}
	if (!strcmp(request->path, "/missing")) {
		reply->file = strdup("/nonexistent/file");
		return;
	}
	if (!strcmp(request->path, "/gate")) {
		sem_wait(&gate);
	}
	if (!strcmp(request->path, "/big")) {
		for (int i = 0; i < 4000; i++)
			say(reply, "line %d\n", i);
		return;
	}
	uint64_t sum = 0;
	for (size_t i = 0; request->body && i < request->body_size; i++)
		sum = sum * 31 + (unsigned char)request->body[i];
	const char *agent = request->header(request, "uSeR-aGeNt");
	sp_http_reply_header(reply, "X-Test", "yes");
	say(reply, "%s %s %s %s %zu %llx", request->method, request->path, request->query ? request->query : "-",
	    agent ? agent : "-", request->body_size, (unsigned long long)sum);
}

/* Where bodies of PUT requests go: their bytes are added up. */
static struct {
	uint64_t sum;
	sem_t closed;
} stream;

static bool write_stream(void *context, const void *bytes, size_t size)
{
	assert_ptr_equal(context, &stream);
	for (size_t i = 0; i < size; i++)
		stream.sum += ((const unsigned char *)bytes)[i];
	return true;
}

static void close_stream(void *context)
{
	assert_ptr_equal(context, &stream);
	sem_post(&stream.closed);
}

static unsigned open_body(void *context, const struct sp_http_request *request, struct sp_http_body *ret)
{
	(void)context;
	if (strcmp(request->method, "PUT") != 0)
		return 0;
	if (!request->header(request, "Authorization")) {
		ret->refusal = "Who are you?\n";
		return 401;
	}
	stream.sum = 0;
	*ret = (struct sp_http_body){ &stream, 1 << 20, write_stream, close_stream, NULL };
	return 200;
}

static const char *const known_hosts[] = { "symbols.example", NULL };

static struct sp_http *start(unsigned timeout_s, size_t body_limit)
{
	struct sp_http_options options = { .port_attempts = 1,
		                           .timeout_s = timeout_s,
		                           .body_limit = body_limit,
		                           .handler = handle,
		                           .open_body = open_body,
		                           .hosts = known_hosts };
	struct sp_http *http;
	struct sp_error *error = sp_http_start(&options, &http);
	assert_null(error);
	return http;
}

/* ---- A client ---- */

static int dial(const struct sp_http *http)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(sp_http_port(http)) };
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_return_code(connect(fd, (struct sockaddr *)&address, sizeof(address)), errno);
	return fd;
}

static void put(int fd, const char *text, size_t size)
{
	while (size) {
		ssize_t sent = send(fd, text, size, MSG_NOSIGNAL);
		if (sent <= 0)
			return; /* refused meanwhile: the reply tells */
		text += sent;
		size -= (size_t)sent;
	}
}

struct answer {
	int status;      /* 0 = the connection ended without one */
	char head[4096]; /* status line and headers */
	char *body;
	size_t size;
};

static const char *header_of(const struct answer *a, const char *name)
{
	static _Thread_local char value[256];
	char wanted[64];
	snprintf(wanted, sizeof(wanted), "\n%s: ", name);
	const char *at = strcasestr(a->head, wanted);
	if (!at)
		return NULL;
	at += strlen(wanted);
	snprintf(value, sizeof(value), "%.*s", (int)strcspn(at, "\r"), at);
	return value;
}

/* Reads one reply, with its body by Content-Length. */
static struct answer take(int fd, bool head_only)
{
	struct answer a = { 0 };
	size_t used = 0;
	while (used < sizeof(a.head) - 1 && !strstr(a.head, "\r\n\r\n")) {
		ssize_t got = recv(fd, a.head + used, 1, 0);
		if (got <= 0)
			return a;
		used += (size_t)got;
	}
	a.status = atoi(a.head + 9);
	const char *length = header_of(&a, "Content-Length");
	a.size = length && !head_only ? (size_t)atoll(length) : 0;
	a.body = calloc(1, a.size + 1);
	for (size_t done = 0; done < a.size;) {
		ssize_t got = recv(fd, a.body + done, a.size - done, 0);
		assert_true(got > 0);
		done += (size_t)got;
	}
	return a;
}

static struct answer ask(const struct sp_http *http, const char *request)
{
	int fd = dial(http);
	put(fd, request, strlen(request));
	struct answer a = take(fd, !strncmp(request, "HEAD", 4));
	close(fd);
	return a;
}

static void assert_status(const struct sp_http *http, const char *request, int status)
{
	struct answer a = ask(http, request);
	if (a.status != status)
		fail_msg("status %d instead of %d for\n%s", a.status, status, request);
	free(a.body);
}

#define HOST "Host: 127.0.0.1:1\r\n"

/* ---- Tests ---- */

static void test_request_and_reply(void **state)
{
	(void)state;
	struct sp_http *http = start(30, 0);
	struct answer a = ask(http, "GET /a%20b/c?x=%201&y HTTP/1.1\r\n" HOST "User-Agent: me\r\n\r\n");
	assert_int_equal(a.status, 200);
	assert_string_equal(a.body, "GET /a b/c x=%201&y me 0 0");
	assert_string_equal(header_of(&a, "X-Test"), "yes");
	assert_string_equal(header_of(&a, "Content-Type"), "text/plain");
	free(a.body);
	a = ask(http, "HEAD / HTTP/1.1\r\n" HOST "\r\n");
	assert_int_equal(a.status, 200);
	assert_string_equal(header_of(&a, "Content-Length"), "14");
	free(a.body);
	a = ask(http, "POST /p HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
	assert_string_equal(a.body, "POST /p - - 5 584f463");
	free(a.body);
	a = ask(http, "POST /p HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nabcde");
	assert_string_equal(a.body, "POST /p - - 5 584f463");
	free(a.body);
	assert_status(http, "GET /missing HTTP/1.1\r\n" HOST "\r\n", 404);
	sp_http_stop(http);
}

static void test_connections_are_kept(void **state)
{
	(void)state;
	struct sp_http *http = start(30, 0);
	int fd = dial(http);
	for (int i = 0; i < 100; i++) {
		char request[128], expected[128];
		snprintf(request, sizeof(request), "POST /%d HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nx", i);
		snprintf(expected, sizeof(expected), "POST /%d - - 1 78", i);
		put(fd, request, strlen(request));
		struct answer a = take(fd, false);
		assert_string_equal(a.body, expected);
		free(a.body);
	}
	/* Two at once. */
	static const char two[] = "GET /1 HTTP/1.1\r\n" HOST "\r\nGET /2 HTTP/1.1\r\n" HOST "\r\n";
	put(fd, two, sizeof(two) - 1);
	for (int i = 1; i < 3; i++) {
		struct answer a = take(fd, false);
		assert_int_equal(a.body[5], '0' + i);
		free(a.body);
	}
	close(fd);
	sp_http_stop(http);
}

static void test_host_names(void **state)
{
	(void)state;
	struct sp_http *http = start(30, 0);
	static const char *const good[] = { "127.0.0.1", "127.0.0.1:80", "localhost",       "LOCALHOST:3000",
		                            "[::1]",     "[::1]:99",     "symbols.example", "symbols.example:443" };
	static const char *const bad[] = { "evil.example",
		                           "127.0.0.1.evil.example",
		                           "localhost.evil.example",
		                           "",
		                           "10.1.2.3",
		                           "[::2]",
		                           "[::1",
		                           "127.0.0.1evil",
		                           ":3000",
		                           "[]:1" };
	char request[256];
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		snprintf(request, sizeof(request), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", good[i]);
		assert_status(http, request, 200);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(request, sizeof(request), "POST / HTTP/1.1\r\nHost: %s\r\nContent-Length: 3\r\n\r\nabc",
		         bad[i]);
		assert_status(http, request, 403);
	}
	assert_status(http, "GET / HTTP/1.0\r\n\r\n", 403);
	sp_http_stop(http);

	struct sp_http any = { .address = "0.0.0.0", .wildcard = true };
	assert_true(http_host_is_ours(&any, "10.1.2.3:80"));
	assert_true(http_host_is_ours(&any, "[fe80::1]:80"));
	assert_false(http_host_is_ours(&any, "evil.example"));
	assert_false(http_host_is_ours(&any, "dead.beef"));
	assert_false(http_host_is_ours(&any, "1.2.3"));
}

static void test_accept_encoding(void **state)
{
	(void)state;
	assert_true(http_accepts("gzip", "gzip"));
	assert_true(http_accepts("br, GZIP;q=0.5", "gzip"));
	assert_true(http_accepts("*", "zstd"));
	assert_true(http_accepts("gzip;q=0.001", "gzip"));
	assert_false(http_accepts("gzip;q=0", "gzip"));
	assert_false(http_accepts("gzip; q=0.000, *", "gzip"));
	assert_false(http_accepts("*;q=0", "gzip"));
	assert_false(http_accepts("xgzip, gzipx", "gzip"));
	assert_false(http_accepts("", "gzip"));
	assert_false(http_accepts(NULL, "gzip"));
	assert_false(http_accepts("identity", "gzip"));
}

static void test_compression(void **state)
{
	(void)state;
	struct sp_http *http = start(30, 0);
	struct answer plain = ask(http, "GET /big HTTP/1.1\r\n" HOST "\r\n");
	assert_null(header_of(&plain, "Content-Encoding"));
	static const struct {
		const char *accept, *coding;
		enum sp_compression kind;
	} cases[] = { { "gzip, deflate", "gzip", SP_COMPRESSION_GZIP },
		      { "gzip, deflate, br, zstd", "zstd", SP_COMPRESSION_ZSTD } };
	for (size_t i = 0; i < 2; i++) {
		char request[256];
		snprintf(request, sizeof(request), "GET /big HTTP/1.1\r\n" HOST "Accept-Encoding: %s\r\n\r\n",
		         cases[i].accept);
		struct answer a = ask(http, request);
		assert_string_equal(header_of(&a, "Content-Encoding"), cases[i].coding);
		assert_string_equal(header_of(&a, "Vary"), "Accept-Encoding");
		uint8_t *text;
		size_t size;
		struct sp_error *error = sp_decompress(cases[i].kind, a.body, a.size, 1 << 20, &text, &size);
		assert_null(error);
		assert_int_equal(size, plain.size);
		assert_memory_equal(text, plain.body, size);
		free(text);
		free(a.body);
	}
	free(plain.body);
	/* Small replies are left alone. */
	struct answer a = ask(http, "GET / HTTP/1.1\r\n" HOST "Accept-Encoding: gzip\r\n\r\n");
	assert_null(header_of(&a, "Content-Encoding"));
	free(a.body);
	sp_http_stop(http);
}

static void test_files(void **state)
{
	(void)state;
	int fd = mkstemp(file_path);
	assert_int_equal(write(fd, "the file's bytes", 16), 16);
	close(fd);
	struct sp_http *http = start(30, 0);
	for (int i = 0; i < 3; i++) {
		struct answer a = ask(http, "GET /file HTTP/1.1\r\n" HOST "\r\n");
		assert_string_equal(a.body, "the file's bytes");
		free(a.body);
	}
	struct answer a = ask(http, "GET /file?gz HTTP/1.1\r\n" HOST "Accept-Encoding: gzip\r\n\r\n");
	assert_string_equal(header_of(&a, "Content-Encoding"), "gzip");
	free(a.body);
	a = ask(http, "GET /file?gz HTTP/1.1\r\n" HOST "Accept-Encoding: identity\r\n\r\n");
	assert_null(header_of(&a, "Content-Encoding"));
	assert_string_equal(header_of(&a, "Content-Type"), "application/gzip");
	free(a.body);
	sp_http_stop(http);
	unlink(file_path);
}

static void assert_part(const struct sp_http *http, const char *header, int status, const char *body, const char *range)
{
	char request[256];
	snprintf(request, sizeof(request), "GET /part HTTP/1.1\r\n" HOST "%s\r\n\r\n", header);
	struct answer a = ask(http, request);
	assert_int_equal(a.status, status);
	assert_string_equal(a.body, body);
	if (range)
		assert_string_equal(header_of(&a, "Content-Range"), range);
	else
		assert_null(header_of(&a, "Content-Range"));
	free(a.body);
}

static void test_parts_of_files(void **state)
{
	(void)state;
	snprintf(file_path, sizeof(file_path), "/tmp/sp-test-http-XXXXXX");
	int fd = mkstemp(file_path);
	assert_int_equal(write(fd, "the file's bytes", 16), 16);
	close(fd);
	struct sp_http *http = start(30, 0);
	assert_part(http, "X: y", 200, "file's bytes", NULL);
	assert_part(http, "Range: bytes=0-3", 206, "file", "bytes 0-3/12");
	assert_part(http, "Range: bytes=7-", 206, "bytes", "bytes 7-11/12");
	assert_part(http, "Range: bytes=-5", 206, "bytes", "bytes 7-11/12");
	assert_part(http, "Range: bytes=0-99", 206, "file's bytes", "bytes 0-11/12");
	assert_part(http, "Range: bytes=12-", 416, "There are no such bytes.\n", "bytes */12");
	assert_part(http, "Range: bytes=0-1,3-4", 200, "file's bytes", NULL);
	assert_part(http, "Range: bytes=3-1", 200, "file's bytes", NULL);
	assert_part(http, "Range: bytes=0-3\r\nIf-Range: \"tag\"", 206, "file", "bytes 0-3/12");
	assert_part(http, "Range: bytes=0-3\r\nIf-Range: \"old\"", 200, "file's bytes", NULL);
	assert_part(http, "If-None-Match: \"x\"", 200, "file's bytes", NULL);
	assert_status(http, "GET /part HTTP/1.1\r\n" HOST "If-None-Match: W/\"tag\"\r\n\r\n", 304);
	struct answer a = ask(http, "HEAD /part HTTP/1.1\r\n" HOST "\r\n");
	assert_int_equal(a.status, 200);
	assert_string_equal(header_of(&a, "Content-Length"), "12");
	assert_string_equal(header_of(&a, "ETag"), "\"tag\"");
	assert_string_equal(header_of(&a, "Accept-Ranges"), "bytes");
	free(a.body);
	sp_http_stop(http);
	unlink(file_path);
}

static void test_ranges(void **state)
{
	(void)state;
	struct http_range range;
	static const char *const whole[] = { NULL,
		                             "",
		                             "bytes=",
		                             "bytes=-",
		                             "bytes=a-b",
		                             "items=0-1",
		                             "bytes=0",
		                             "bytes=5-4",
		                             "bytes=0-1x",
		                             "bytes=1--2",
		                             "bytes=+1-2",
		                             "bytes=0-1,2-3",
		                             "bytes=99999999999999999999-" };
	for (size_t i = 0; i < sizeof(whole) / sizeof(*whole); i++) {
		assert_int_equal(http_read_range(whole[i], 10, &range), HTTP_RANGE_ALL);
		assert_int_equal(range.size, 10);
	}
	assert_int_equal(http_read_range("bytes=-0", 10, &range), HTTP_RANGE_OUTSIDE);
	assert_int_equal(http_read_range("bytes=-5", 0, &range), HTTP_RANGE_OUTSIDE);
	assert_int_equal(http_read_range("bytes=0-", 0, &range), HTTP_RANGE_OUTSIDE);
	assert_int_equal(http_read_range("BYTES= 2-18446744073709551615 ", 10, &range), HTTP_RANGE_PART);
	assert_int_equal(range.first, 2);
	assert_int_equal(range.size, 8);
	assert_int_equal(http_read_range("bytes=-18446744073709551615", 10, &range), HTTP_RANGE_PART);
	assert_int_equal(range.first, 0);
	assert_true(http_has_tag("\"a\", W/\"b\"", "\"b\""));
	assert_true(http_has_tag("*", "\"b\""));
	assert_false(http_has_tag("\"a\", b", "\"b\""));
	assert_false(http_has_tag("\"b", "\"b\""));
	assert_false(http_has_tag(NULL, "\"b\""));
}

static void test_reset_instead_of_a_reply(void **state)
{
	(void)state;
	struct sp_http *http = start(30, 0);
	int fd = dial(http);
	static const char request[] = "GET /reset HTTP/1.1\r\n" HOST "\r\n";
	put(fd, request, sizeof(request) - 1);
	char c;
	assert_int_equal(recv(fd, &c, 1, 0), -1); /* an end would be 0 */
	assert_int_equal(errno, ECONNRESET);
	close(fd);
	assert_status(http, "GET / HTTP/1.1\r\n" HOST "\r\n", 200);
	sp_http_stop(http);
}

static void test_streamed_bodies(void **state)
{
	(void)state;
	struct sp_http *http = start(30, 1024); /* above which nothing is kept in memory */
	sem_init(&stream.closed, 0, 0);
	assert_status(http, "PUT / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nabcde", 401);
	assert_status(http, "PUT / HTTP/1.1\r\n" HOST "Authorization: me\r\nContent-Length: 1048577\r\n\r\n", 413);
	sem_wait(&stream.closed);
	size_t size = 1 << 20;
	char *bytes = malloc(size);
	memset(bytes, 3, size);
	int fd = dial(http);
	char head[160];
	snprintf(head, sizeof(head), "PUT /x HTTP/1.1\r\n" HOST "Authorization: me\r\nContent-Length: %zu\r\n\r\n",
	         size);
	put(fd, head, strlen(head));
	put(fd, bytes, size);
	struct answer a = take(fd, false);
	assert_string_equal(a.body, "PUT /x - - 1048576 0");
	assert_int_equal(stream.sum, 3 * size);
	sem_wait(&stream.closed);
	free(a.body);
	close(fd);
	/* A client that goes away in the middle. */
	fd = dial(http);
	put(fd, head, strlen(head));
	put(fd, bytes, size / 2);
	close(fd);
	sem_wait(&stream.closed);
	/* More than announced nowhere. */
	fd = dial(http);
	snprintf(head, sizeof(head),
	         "PUT / HTTP/1.1\r\n" HOST "Authorization: me\r\nTransfer-Encoding: chunked\r\n\r\n%zx\r\n", size + 1);
	put(fd, head, strlen(head));
	put(fd, bytes, size);
	put(fd, "x\r\n0\r\n\r\n", 8);
	a = take(fd, false);
	assert_int_equal(a.status, 413);
	free(a.body);
	close(fd);
	sem_wait(&stream.closed);
	free(bytes);
	sp_http_stop(http);
	sem_destroy(&stream.closed);
}

static void test_bodies_above_the_limit(void **state)
{
	(void)state;
	struct sp_http *http = start(30, 100000);
	char *request = malloc(300000), *at = request;
	at += sprintf(at, "POST / HTTP/1.1\r\n" HOST "Content-Length: 100000\r\n\r\n");
	memset(at, 'x', 100000);
	at[100000] = 0;
	assert_status(http, request, 200);
	assert_status(http, "POST / HTTP/1.1\r\n" HOST "Content-Length: 100001\r\n\r\n", 413);
	assert_status(http, "POST / HTTP/1.1\r\n" HOST "Content-Length: 18446744073709551615\r\n\r\n", 413);
	/* One that does not say its size. */
	at = request + sprintf(request, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n20000\r\n");
	memset(at, 'x', 0x20000);
	strcpy(at + 0x20000, "\r\n0\r\n\r\n");
	assert_status(http, request, 413);
	free(request);
	sp_http_stop(http);
}

/* Sends a byte of `text` again and again, slowly; true when the server ends the connection. */
static bool is_cut_while_trickling(const struct sp_http *http, const char *start_text, char byte)
{
	int fd = dial(http);
	put(fd, start_text, strlen(start_text));
	bool cut = false;
	for (int i = 0; i < 600 && !cut; i++) {
		usleep(100000);
		char c;
		if (send(fd, &byte, 1, MSG_NOSIGNAL) < 0 || recv(fd, &c, 1, MSG_DONTWAIT) == 0)
			cut = true;
	}
	close(fd);
	return cut;
}

static void test_slow_clients_are_cut(void **state)
{
	(void)state;
	struct sp_http *http = start(1, 0);
	assert_true(is_cut_while_trickling(http, "", 'G'));
	assert_true(is_cut_while_trickling(http, "GET / HTTP/1.1\r\n" HOST "X-Slow: ", 'a'));
	assert_true(is_cut_while_trickling(http, "POST / HTTP/1.1\r\n" HOST "Content-Length: 1000000\r\n\r\n", 'a'));
	/* A request behind one that was answered. */
	assert_true(is_cut_while_trickling(http, "GET / HTTP/1.1\r\n" HOST "\r\n", 'G'));
	/* One that says nothing. */
	int fd = dial(http);
	char c;
	assert_int_equal(recv(fd, &c, 1, 0), 0);
	close(fd);
	sp_http_stop(http);
}

struct asker {
	const struct sp_http *http;
	unsigned number, wrong;
};

static void *ask_often(void *context)
{
	struct asker *asker = context;
	int fd = dial(asker->http);
	for (unsigned i = 0; i < 200; i++) {
		unsigned size = (asker->number * 977 + i * 131) % 5000;
		char head[128], expected[64], *body = malloc(size + 1);
		memset(body, 0, size);
		body[size] = 0;
		if (size)
			body[size - 1] = (char)asker->number;
		snprintf(head, sizeof(head), "POST /%u HTTP/1.1\r\n" HOST "Content-Length: %u\r\n\r\n", i, size);
		put(fd, head, strlen(head));
		put(fd, body, size);
		free(body);
		snprintf(expected, sizeof(expected), "POST /%u - - %u %x", i, size, size ? asker->number : 0);
		struct answer a = take(fd, false);
		if (!a.body || strcmp(a.body, expected) != 0) {
			fprintf(stderr, "status %d \"%s\" instead of \"%s\"\n", a.status, a.body ? a.body : "",
			        expected);
			asker->wrong++;
		}
		free(a.body);
	}
	close(fd);
	return NULL;
}

static void test_many_clients_at_once(void **state)
{
	(void)state;
	/* A limit so small that bodies must wait for each other's room. */
	struct sp_http *http = start(30, 6000);
	struct asker askers[24];
	pthread_t threads[24];
	for (unsigned i = 0; i < 24; i++) {
		askers[i] = (struct asker){ .http = http, .number = i + 1 };
		assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &askers[i]), 0);
	}
	for (unsigned i = 0; i < 24; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(askers[i].wrong, 0);
	}
	pthread_mutex_lock(&http->lock);
	assert_int_equal(http->body_bytes, 0);
	pthread_mutex_unlock(&http->lock);
	sp_http_stop(http);
}

static void *open_gate(void *context)
{
	(void)context;
	usleep(300000);
	for (int i = 0; i < 20; i++)
		sem_post(&gate);
	return NULL;
}

static void test_stopping_with_requests_under_way(void **state)
{
	(void)state;
	struct sp_http *http = start(30, 1000);
	int fds[20];
	/* Two are with the workers, the others in the queue, and of the last ones the bodies find no room. */
	sem_init(&gate, 0, 0);
	for (int i = 0; i < 20; i++) {
		static const char text[] = "POST /gate HTTP/1.1\r\n" HOST "Content-Length: 1000\r\n\r\n";
		char body[1000] = { 0 };
		fds[i] = dial(http);
		put(fds[i], text, sizeof(text) - 1);
		put(fds[i], body, sizeof(body));
	}
	usleep(100000);
	pthread_t opener;
	pthread_create(&opener, NULL, open_gate, NULL);
	sp_http_stop(http);
	pthread_join(opener, NULL);
	for (int i = 0; i < 20; i++)
		close(fds[i]);
}

static void test_ports(void **state)
{
	(void)state;
	struct sp_http *first = start(30, 0), *second = NULL;
	struct sp_http_options options = { .port = sp_http_port(first), .port_attempts = 1, .handler = handle };
	struct sp_error *error = sp_http_start(&options, &second);
	assert_non_null(error);
	assert_non_null(strstr(error->message, "cannot listen on 127.0.0.1 port"));
	sp_error_destroy(error);
	options.port_attempts = 100;
	error = sp_http_start(&options, &second);
	assert_null(error);
	assert_true(sp_http_port(second) > sp_http_port(first) && sp_http_port(second) < sp_http_port(first) + 100);
	sp_http_stop(second);
	/* The port of a server that ended is free again at once, connections of it notwithstanding. */
	uint16_t port = sp_http_port(first);
	int fd = dial(first);
	sp_http_stop(first);
	options.port = port;
	options.port_attempts = 1;
	error = sp_http_start(&options, &second);
	assert_null(error);
	sp_http_stop(second);
	close(fd);
	static const char *const bad[] = { "nosuchhost.example", "1.2.3", "300.1.1.1", "::g", "" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		options.address = bad[i];
		options.port = 0;
		error = sp_http_start(&options, &second);
		if (!error)
			fail_msg("listens on \"%s\"", bad[i]);
		sp_error_destroy(error);
	}
}

static void test_ipv6(void **state)
{
	(void)state;
	struct sp_http_options options = { .address = "[::1]", .port_attempts = 1, .handler = handle };
	struct sp_http *http;
	struct sp_error *error = sp_http_start(&options, &http);
	if (error) {
		printf("SKIPPED: no IPv6 here (%s)\n", error->message);
		sp_error_destroy(error);
		skip();
	}
	struct sockaddr_in6 address = { .sin6_family = AF_INET6,
		                        .sin6_port = htons(sp_http_port(http)),
		                        .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	assert_return_code(connect(fd, (struct sockaddr *)&address, sizeof(address)), errno);
	static const char request[] = "GET / HTTP/1.1\r\nHost: [::1]:3000\r\n\r\n";
	put(fd, request, sizeof(request) - 1);
	struct answer a = take(fd, false);
	assert_int_equal(a.status, 200);
	free(a.body);
	close(fd);
	sp_http_stop(http);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_request_and_reply),
		cmocka_unit_test(test_connections_are_kept),
		cmocka_unit_test(test_host_names),
		cmocka_unit_test(test_accept_encoding),
		cmocka_unit_test(test_compression),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_parts_of_files),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_reset_instead_of_a_reply),
		cmocka_unit_test(test_streamed_bodies),
		cmocka_unit_test(test_bodies_above_the_limit),
		cmocka_unit_test(test_slow_clients_are_cut),
		cmocka_unit_test(test_many_clients_at_once),
		cmocka_unit_test(test_stopping_with_requests_under_way),
		cmocka_unit_test(test_ports),
		cmocka_unit_test(test_ipv6),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
