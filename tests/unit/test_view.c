/* The viewer: what is a profile, its libraries, its addresses, and what answers where. */
#include "sampler/view/internal.h"
#include "symbolication/http/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

static char folder[] = "/tmp/sp-test-view-XXXXXX";

static void write_file(const char *name, const void *bytes, size_t size)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	close(fd);
}

static void write_text(const char *name, const char *text)
{
	write_file(name, text, strlen(text));
}

static void write_gzip(const char *name, const char *text, size_t size, const char *mode)
{
	gzFile file = gzopen(name, mode);
	assert_int_equal(gzwrite(file, text, (unsigned)size), size);
	gzclose(file);
}

/* ---- Profiles ---- */

#define LIB(name, id)                                                                                 \
	"{\"arch\":\"x86_64\",\"name\":\"" name "\",\"path\":\"/lib/" name "\",\"debugName\":\"" name \
	".dbg\",\"debugPath\":null,\"breakpadId\":\"" id "\",\"codeId\":\"c0de\",\"other\":[1,{}]}"
#define ID1 "AAAABBBBCCCCDDDDEEEEFFFF000011110"
#define ID2 "AAAABBBBCCCCDDDDEEEEFFFF000011120"

static const char processed[] = "{\"meta\":{\"preprocessedProfileVersion\":66,\"x\":1.5},\"libs\":[" LIB(
    "a.so", ID1) "," LIB("b.so", ID2) "],\"shared\":{},\"threads\":[]}";

static void test_what_is_a_profile(void **state)
{
	(void)state;
	static const struct {
		const char *text, *part; /* NULL = a profile */
	} cases[] = {
		{ processed, NULL },
		{ " \n\t{\"threads\":[],\"meta\":{}}", NULL },
		{ "{\"libs\":[],\"processes\":[],\"threads\":[],\"meta\":{\"version\":36}}", NULL },
		{ "", "is empty" },
		{ "   ", "is not a Firefox Profiler profile" },
		{ "PERFILE2xxxxxxxx", "is not a Firefox Profiler profile" },
		{ "{\"meta\":null,\"threads\":null}", "is not a Firefox Profiler profile" },
		{ "{\"meta\":{},\"threads\":{}}", "is not a Firefox Profiler profile" },
		{ "[]", "is not a Firefox Profiler profile" },
		{ "{}", "no \"meta\"" },
		{ "{\"meta\":{}}", "no \"meta\"" },
		{ "{\"name\":1,\"meta\":{},\"threads\":[]}", "no \"meta\"" },
		{ "{\"meta\":{},\"threads\":[", "the text ends early" },
		{ "{\"meta\":{},\"threads\":[]} x", "more text" },
		{ "{meta:1}", "not a string" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		for (int gzip = 0; gzip < 2; gzip++) {
			struct view_profile profile;
			if (gzip)
				write_gzip("p", cases[i].text, strlen(cases[i].text), "wb");
			else
				write_text("p", cases[i].text);
			struct sp_error *error = view_profile_check("p", &profile);
			if (!cases[i].part) {
				assert_null(error);
				assert_int_equal(profile.gzip, gzip);
				continue;
			}
			assert_non_null(error);
			if (!strstr(error->message, cases[i].part) || strchr(error->message, '\n'))
				fail_msg("\"%s\" is not in \"%s\"", cases[i].part, error->message);
			sp_error_destroy(error);
		}
	}
	struct view_profile profile;
	write_file("p", "\xdc\xdfJSLB\1\0rest", 12);
	struct sp_error *error = view_profile_check("p", &profile);
	assert_null(error);
	assert_int_equal(profile.format, VIEW_JSLB);
	/* Cut and corrupt compressed files, folders, files that are not there. */
	write_gzip("p", processed, sizeof(processed) - 1, "wb");
	assert_int_equal(truncate("p", 60), 0);
	error = view_profile_check("p", &profile);
	assert_non_null(strstr(error->message, "end early"));
	sp_error_destroy(error);
	write_file("p", "\x1f\x8b\x08\0\0\0\0\0\0\0\xff\xff\xff\xff", 14);
	error = view_profile_check("p", &profile);
	assert_non_null(strstr(error->message, "cannot be decompressed"));
	sp_error_destroy(error);
	error = view_profile_check(".", &profile);
	assert_non_null(error);
	sp_error_destroy(error);
	error = view_profile_check("gone", &profile);
	assert_int_equal(error->code, SP_ERROR_NOT_FOUND);
	sp_error_destroy(error);
}

static void assert_libs(const char *text, size_t expected, const char *wanted, bool error_expected)
{
	for (int gzip = 0; gzip < 2; gzip++) {
		struct view_libs libs = { 0 };
		if (gzip)
			write_gzip("p", text, strlen(text), "wb");
		else
			write_text("p", text);
		struct sp_error *error = view_libs_read("p", &libs);
		if ((error != NULL) != error_expected)
			fail_msg("%s: %s", text, error ? error->message : "no error");
		sp_error_destroy(error);
		assert_int_equal(libs.identities.count, expected);
		const struct spsym_identity *found = view_libs_find(&libs, wanted, "aaaabbbbccccddddeeeeffff000011110");
		if (expected) {
			assert_non_null(found);
			assert_string_equal(found->code_id, "c0de");
			assert_string_equal(found->arch, "x86_64");
			assert_null(found->debug_path);
		}
		assert_null(view_libs_find(&libs, wanted, "AAAABBBBCCCCDDDDEEEEFFFF000011190"));
		assert_null(view_libs_find(&libs, "other", ID1));
		view_libs_deinit(&libs);
	}
}

static void test_libraries_of_every_format(void **state)
{
	(void)state;
	assert_libs(processed, 2, "a.so.dbg", false);
	/* Nothing behind the libraries is looked at. */
	assert_libs("{\"meta\":{\"preprocessedProfileVersion\":41},\"libs\":[" LIB("a.so", ID1) "],\"threads\":[}}}", 1,
	            "a.so.dbg", false);
	/* Libraries before the version. */
	assert_libs("{\"libs\":[" LIB("a.so", ID1) "],\"meta\":{\"preprocessedProfileVersion\":60},\"threads\":[]}", 1,
	            "a.so.dbg", false);
	/* A list in each thread. */
	assert_libs("{\"meta\":{\"preprocessedProfileVersion\":40},\"threads\":[{\"samples\":{},\"libs\":[" LIB(
	                "a.so", ID1) "]},{\"libs\":[" LIB("a.so", ID1) "," LIB("b.so", ID2) "],\"x\":[]}]}",
	            2, "a.so.dbg", false);
	/* Gecko: processes in processes. */
	assert_libs("{\"meta\":{\"version\":27},\"libs\":[],\"threads\":[{}],\"processes\":[{\"libs\":[" LIB(
	                "a.so", ID1) "],\"processes\":[{\"libs\":[" LIB("b.so", ID2) "]}]}]}",
	            2, "a.so.dbg", false);
	/* Old Gecko: the list as text; odd members. */
	assert_libs("{\"meta\":{\"version\":3},\"libs\":\"[]\",\"threads\":[1,null,\"x\"]}", 0, "a", false);
	assert_libs("{\"meta\":1,\"libs\":[1,null,{},{\"debugName\":5,\"breakpadId\":\"00\"}],\"threads\":{}}", 0, "a",
	            false);
	assert_libs("[]", 0, "a", false);
	/* What stands before a defect counts. */
	assert_libs("{\"meta\":{\"preprocessedProfileVersion\":40},\"threads\":[{\"libs\":[" LIB("a.so", ID1) ",}", 1,
	            "a.so.dbg", true);
}

static void test_libraries_across_pieces(void **state)
{
	(void)state;
	/* Many libraries, so that every boundary of the pieces cuts some member, in two gzip members. */
	SP_VECTOR(char) text = { 0 };
	assert_true(sp_vector_reserve(&text, 8 << 20));
	text.count = (size_t)sprintf(text.items, "{\"meta\":{\"preprocessedProfileVersion\":60},\"libs\":[");
	for (unsigned i = 0; i < 20000; i++)
		text.count += (size_t)sprintf(
		    text.items + text.count,
		    "%s{\"debugName\":\"lib%u\\u00e9\\\\\",\"breakpadId\":\"%033u\",\"path\":\"/p/%u\"}", i ? ", " : "",
		    i, i, i);
	text.count += (size_t)sprintf(text.items + text.count, "],\"threads\":[]}");
	write_gzip("p", text.items, 700000, "wb1");
	write_gzip("p", text.items + 700000, text.count - 700000, "ab1");
	struct view_libs libs = { 0 };
	struct sp_error *error = view_libs_read("p", &libs);
	assert_null(error);
	assert_int_equal(libs.identities.count, 20000);
	for (unsigned i = 0; i < 20000; i++) {
		char name[64], id[64], path[64];
		sprintf(name, "lib%u\xc3\xa9\\", i);
		sprintf(id, "%033u", i);
		sprintf(path, "/p/%u", i);
		assert_string_equal(view_libs_find(&libs, name, id)->path, path);
	}
	view_libs_deinit(&libs);
	sp_vector_deinit(&text);
}

/* ---- Addresses ---- */

static void test_addresses(void **state)
{
	(void)state;
	char *text = view_percent_encode("http://127.0.0.1:3000/a-b_c.d~e/\xc3\xa9 %?&#[]");
	assert_string_equal(text, "http%3A%2F%2F127.0.0.1%3A3000%2Fa-b_c.d~e%2F%C3%A9%20%25%3F%26%23%5B%5D");
	free(text);
	static const char *const origins[][2] = {
		{ "127.0.0.1", "http://127.0.0.1:80" }, { "localhost", "http://127.0.0.1:80" },
		{ "::1", "http://[::1]:80" },           { "[::1]", "http://[::1]:80" },
		{ "0.0.0.0", "http://127.0.0.1:80" },   { "::", "http://[::1]:80" },
		{ "10.1.2.3", "http://10.1.2.3:80" },
	};
	for (size_t i = 0; i < sizeof(origins) / sizeof(*origins); i++) {
		text = view_origin(origins[i][0], 80);
		assert_string_equal(text, origins[i][1]);
		free(text);
	}
	char one[VIEW_TOKEN_SIZE], two[VIEW_TOKEN_SIZE];
	assert_null(view_random_token(one));
	assert_null(view_random_token(two));
	assert_int_equal(strlen(one), 39);
	assert_int_equal(strspn(one, "abcdefghijklmnopqrstuvwxyz234567"), 39);
	assert_string_not_equal(one, two);
}

/* ---- The server ---- */

struct answer {
	int status;
	char head[4096];
	char body[65536];
	size_t size;
};

static struct answer answer;

static const char *header_of(const char *name)
{
	static char value[512];
	char wanted[64];
	snprintf(wanted, sizeof(wanted), "\n%s: ", name);
	const char *at = strcasestr(answer.head, wanted);
	if (!at)
		return NULL;
	at += strlen(wanted);
	snprintf(value, sizeof(value), "%.*s", (int)strcspn(at, "\r"), at);
	return value;
}

/* One request over its own connection; "{token}" in the path is the real one. The reply goes to `answer`. */
static int ask(const struct sp_view *view, const char *method, const char *path, const char *headers, const char *body)
{
	const char *server = sp_view_symbol_server(view);
	const char *token = strrchr(server, '/') + 1, *mark = strstr(path, "{token}");
	char request[4096];
	int length = snprintf(
	    request, sizeof(request),
	    "%s %.*s%s%s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n%s", method,
	    mark ? (int)(mark - path) : (int)strlen(path), path, mark ? token : "", mark ? mark + 7 : "", headers,
	    strlen(body), body);
	struct sockaddr_in address = { .sin_family = AF_INET,
		                       .sin_port = htons((uint16_t)atoi(strrchr(server, ':') + 1)) };
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_return_code(connect(fd, (struct sockaddr *)&address, sizeof(address)), errno);
	assert_int_equal(send(fd, request, (size_t)length, MSG_NOSIGNAL), length);
	static char all[sizeof(answer.head) + sizeof(answer.body)];
	size_t size = 0;
	for (ssize_t got; (got = recv(fd, all + size, sizeof(all) - 1 - size, 0)) > 0;)
		size += (size_t)got;
	close(fd);
	all[size] = 0;
	char *end = strstr(all, "\r\n\r\n");
	assert_non_null(end);
	end[2] = 0;
	memset(&answer, 0, sizeof(answer));
	strcpy(answer.head, all);
	answer.size = size - (size_t)(end + 4 - all);
	memcpy(answer.body, end + 4, answer.size);
	answer.status = atoi(all + 9);
	return answer.status;
}

static struct sp_view *start(const char *profile, const char *viewer_folder, const char *profiler_url)
{
	static spsym_context *symbols;
	if (!symbols) {
		spsym_error *error = spsym_context_create(NULL, &symbols);
		assert_null(error);
	}
	struct sp_view_options options = { .profile_path = profile,
		                           .any_port = true,
		                           .viewer_folder = viewer_folder,
		                           .profiler_url = profiler_url,
		                           .symbols = symbols };
	struct sp_view *view;
	struct sp_error *error = sp_view_start(&options, &view);
	if (error)
		fail_msg("%s", error->message);
	return view;
}

static void test_profile_and_preflight(void **state)
{
	(void)state;
	write_text("p.json", processed);
	struct sp_view *view = start("p.json", NULL, NULL);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ask(view, "GET", "/{token}/profile.json", "", ""), 200);
		assert_string_equal(answer.body, processed);
		assert_string_equal(header_of("Access-Control-Allow-Origin"), "*");
		assert_string_equal(header_of("Content-Type"), "application/json");
		assert_null(header_of("Content-Encoding"));
	}
	assert_int_equal(ask(view, "HEAD", "/{token}/profile.json", "", ""), 200);
	assert_int_equal(answer.size, 0);
	assert_int_equal(ask(view, "OPTIONS", "/{token}/symbolicate/v5",
	                     "Origin: https://x.example\r\nAccess-Control-Request-Method: POST\r\n"
	                     "Access-Control-Request-Headers: user-agent, x-y\r\n",
	                     ""),
	                 204);
	assert_string_equal(header_of("Access-Control-Allow-Origin"), "*");
	assert_string_equal(header_of("Access-Control-Allow-Methods"), "POST, GET, OPTIONS");
	assert_string_equal(header_of("Access-Control-Allow-Headers"), "user-agent, x-y");
	assert_string_equal(header_of("Access-Control-Max-Age"), "86400");
	assert_int_equal(ask(view, "OPTIONS", "/{token}/profile.json", "", ""), 204);
	assert_string_equal(header_of("Allow"), "GET, HEAD, OPTIONS");
	assert_null(header_of("Access-Control-Allow-Methods"));
	/* Wrong methods and paths under the token. */
	assert_int_equal(ask(view, "POST", "/{token}/profile.json", "", "x"), 405);
	assert_int_equal(ask(view, "GET", "/{token}/symbolicate/v5", "", ""), 405);
	assert_int_equal(ask(view, "PUT", "/{token}/asm/v1", "", "{}"), 405);
	assert_int_equal(ask(view, "GET", "/{token}", "", ""), 404);
	assert_int_equal(ask(view, "GET", "/{token}/", "", ""), 404);
	assert_int_equal(ask(view, "POST", "/{token}/symbolicate/v6", "", "{}"), 404);
	/* The API behind it. */
	assert_int_equal(ask(view, "POST", "/{token}/symbolicate/v5", "", "{\"jobs\":[]}"), 200);
	assert_string_equal(answer.body, "{\"results\":[]}");
	assert_string_equal(header_of("Access-Control-Allow-Origin"), "*");
	assert_int_equal(ask(view, "POST", "/{token}/symbolicate/v5", "", "nonsense"), 400);
	assert_int_equal(ask(view, "POST", "/{token}/source/v1", "", ""), 400);
	/* The file went away, then came back. */
	assert_return_code(rename("p.json", "q.json"), errno);
	assert_int_equal(ask(view, "GET", "/{token}/profile.json", "", ""), 404);
	assert_string_equal(header_of("Access-Control-Allow-Origin"), "*");
	assert_return_code(rename("q.json", "p.json"), errno);
	assert_int_equal(ask(view, "GET", "/{token}/profile.json", "", ""), 200);
	sp_view_stop(view);
}

static void test_compressed_profile_whatever_its_name(void **state)
{
	(void)state;
	write_gzip("p.json", processed, sizeof(processed) - 1, "wb");
	struct sp_view *view = start("p.json", NULL, NULL);
	assert_int_equal(ask(view, "GET", "/{token}/profile.json", "Accept-Encoding: gzip, br\r\n", ""), 200);
	assert_string_equal(header_of("Content-Encoding"), "gzip");
	assert_memory_equal(answer.body, "\x1f\x8b", 2);
	sp_view_stop(view);
}

static void test_nothing_without_the_token(void **state)
{
	(void)state;
	write_text("p.json", processed);
	struct sp_view *view = start("p.json", NULL, NULL);
	static const char *const paths[] = { "/",
		                             "/profile.json",
		                             "/symbolicate/v5",
		                             "//{token}/profile.json",
		                             "/x{token}/profile.json",
		                             "/{token}x/profile.json",
		                             "/%7Btoken%7D/profile.json",
		                             "/../{token}/profile.json",
		                             "/favicon.ico",
		                             "/aaaa/profile.json",
		                             "*" };
	static const char *const methods[] = { "GET", "HEAD", "POST", "OPTIONS", "PUT" };
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		for (size_t m = 0; m < sizeof(methods) / sizeof(*methods); m++) {
			assert_int_equal(ask(view, methods[m], paths[i], "Access-Control-Request-Method: POST\r\n", ""),
			                 404);
			assert_null(header_of("Access-Control-Allow-Origin"));
			assert_null(strstr(answer.body, strrchr(sp_view_symbol_server(view), '/') + 1));
		}
	}
	sp_view_stop(view);
}

static void test_links(void **state)
{
	(void)state;
	write_text("p.json", processed);
	unsetenv("PROFILER_URL");
	struct sp_view *view = start("p.json", NULL, NULL);
	char expected[1024];
	const char *server = sp_view_symbol_server(view);
	unsigned port = (unsigned)atoi(strrchr(server, ':') + 1);
	const char *token = strrchr(server, '/') + 1;
	static const char format[] = "%s/from-url/http%%3A%%2F%%2F127.0.0.1%%3A%u%%2F%s%%2Fprofile.json/"
	                             "?symbolServer=http%%3A%%2F%%2F127.0.0.1%%3A%u%%2F%s";
	snprintf(expected, sizeof(expected), format, "https://profiler.firefox.com", port, token, port, token);
	assert_string_equal(sp_view_url(view), expected);
	sp_view_stop(view);

	setenv("PROFILER_URL", "http://127.0.0.1:4242//", 1);
	view = start("p.json", NULL, NULL);
	assert_memory_equal(sp_view_url(view), "http://127.0.0.1:4242/from-url/http", 35);
	sp_view_stop(view);
	view = start("p.json", NULL, "https://other.example/");
	assert_memory_equal(sp_view_url(view), "https://other.example/from-url/", 31);
	sp_view_stop(view);
	unsetenv("PROFILER_URL");
}

static void test_front_end_files(void **state)
{
	(void)state;
	write_text("p.json", processed);
	mkdir("site", 0700);
	mkdir("site/docs", 0700);
	mkdir("site/.git", 0700);
	write_text("site/index.html", "the index");
	write_text("site/main-abc.js", "the script");
	write_text("site/sw.js", "the worker");
	write_text("site/demangle.wasm", "wasm");
	write_text("site/docs/index.html", "the docs");
	write_text("site/.git/config", "secret");
	assert_int_equal(symlink("../p.json", "site/escape.json"), 0);
	assert_int_equal(symlink("main-abc.js", "site/alias.js"), 0);
	assert_int_equal(symlink("..", "site/up"), 0);
	struct sp_view *view = start("p.json", "site", NULL);
	static const struct {
		const char *path, *body, *type;
		int status;
	} cases[] = {
		{ "/", "the index", "text/html; charset=utf-8", 200 },
		{ "/index.html", "the index", "text/html; charset=utf-8", 200 },
		{ "/main-abc.js", "the script", "text/javascript; charset=utf-8", 200 },
		{ "/main-abc.js?x=1", "the script", "text/javascript; charset=utf-8", 200 },
		{ "/alias.js", "the script", "text/javascript; charset=utf-8", 200 },
		{ "/demangle.wasm", "wasm", "application/wasm", 200 },
		{ "/docs/", "the docs", "text/html; charset=utf-8", 200 },
		{ "/docs", "the index", "text/html; charset=utf-8", 200 },
		{ "/calltree/x/y", "the index", "text/html; charset=utf-8", 200 },
		{ "/from-url/http%3A%2F%2F127.0.0.1%3A3000%2Fabc%2Fprofile.json/calltree/?x=..%2F", "the index",
		  "text/html; charset=utf-8", 200 },
		{ "/sw.js", NULL, NULL, 404 },
		{ "/sw.js.map", NULL, NULL, 404 },
		{ "/../p.json", NULL, NULL, 404 },
		{ "/docs/../../p.json", NULL, NULL, 404 },
		{ "/%2e%2e/p.json", NULL, NULL, 404 },
		{ "/..%2fp.json", NULL, NULL, 404 },
		{ "/.git/config", NULL, NULL, 404 },
		{ "/escape.json", "the index", NULL, 200 },
		{ "/up/p.json", "the index", NULL, 200 },
		{ "/up/site/main-abc.js", "the script", NULL, 200 },
		{ "/main-abc.js%00.png", "the script", NULL, 200 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (ask(view, "GET", cases[i].path, "", "") != cases[i].status)
			fail_msg("%s: status %d", cases[i].path, answer.status);
		assert_null(header_of("Access-Control-Allow-Origin"));
		if (cases[i].body)
			assert_string_equal(answer.body, cases[i].body);
		if (cases[i].type)
			assert_string_equal(header_of("Content-Type"), cases[i].type);
	}
	/* As a service worker it is one that removes itself. */
	assert_int_equal(ask(view, "GET", "/sw.js", "Service-Worker: script\r\n", ""), 200);
	assert_non_null(strstr(answer.body, "unregister"));
	assert_int_equal(ask(view, "HEAD", "/main-abc.js", "", ""), 200);
	assert_int_equal(ask(view, "POST", "/main-abc.js", "", ""), 405);
	assert_int_equal(ask(view, "OPTIONS", "/main-abc.js", "", ""), 405);
	assert_int_equal(ask(view, "GET", "/{token}/profile.json", "", ""), 200);
	/* Its links open the front-end that it serves. */
	char origin[64];
	snprintf(origin, sizeof(origin), "%.*s/from-url/",
	         (int)(strrchr(sp_view_symbol_server(view), '/') - sp_view_symbol_server(view)),
	         sp_view_symbol_server(view));
	assert_memory_equal(sp_view_url(view), origin, strlen(origin));
	sp_view_stop(view);

	struct sp_view_options options = { .profile_path = "p.json",
		                           .any_port = true,
		                           .viewer_folder = "site/docs/.." };
	struct sp_error *error = sp_view_start(&options, &view);
	assert_null(error);
	sp_view_stop(view);
	options.viewer_folder = "site/.git";
	error = sp_view_start(&options, &view);
	assert_non_null(strstr(error->message, "not a built front-end"));
	sp_error_destroy(error);
}

static void test_a_taken_port(void **state)
{
	(void)state;
	write_text("p.json", processed);
	struct sp_view *first = start("p.json", NULL, NULL), *second;
	struct sp_view_options options = { .profile_path = "p.json",
		                           .port = (uint16_t)atoi(strrchr(sp_view_symbol_server(first), ':') + 1) };
	struct sp_error *error = sp_view_start(&options, &second);
	assert_non_null(error);
	assert_non_null(strstr(error->message, "--port"));
	sp_error_destroy(error);
	options.port_search = true;
	error = sp_view_start(&options, &second);
	assert_null(error);
	sp_view_stop(second);
	sp_view_stop(first);
}

/* ---- The browser ---- */

static void collect(void *context, enum sp_log_level level, const char *line)
{
	(void)level;
	strcat(context, line);
	strcat(context, "\n");
}

static void test_opening_a_browser(void **state)
{
	(void)state;
	/* A "browser" that writes its arguments down; the first command of the list does not exist. */
	write_text("browser", "#!/bin/sh\nprintf '%s\\n' \"$@\" >\"$OUT.new\" && mv \"$OUT.new\" \"$OUT\"\n");
	chmod("browser", 0700);
	char browser[512], out[256];
	snprintf(browser, sizeof(browser), "/nonexistent/browser %%s:%s/browser --new \"a b\" x%%%%s=%%s", folder);
	snprintf(out, sizeof(out), "%s/out", folder);
	setenv("BROWSER", browser, 1);
	setenv("OUT", out, 1);
	bool remote;
	assert_true(view_open_browser("http://127.0.0.1/from-url/a%2Fb/?x=$(id);'", &remote));
	char text[512] = "";
	for (int i = 0; i < 600 && access(out, R_OK); i++)
		usleep(50000);
	FILE *file = fopen(out, "r");
	assert_non_null(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = 0;
	fclose(file);
	assert_string_equal(text, "--new\na b\nx%s=http://127.0.0.1/from-url/a%2Fb/?x=$(id);'\n");
	unlink(out);

	/* None that works, and no display. */
	setenv("BROWSER", "/nonexistent/browser", 1);
	unsetenv("DISPLAY");
	unsetenv("WAYLAND_DISPLAY");
	unsetenv("SSH_TTY");
	setenv("SSH_CONNECTION", "192.0.2.1 5555 192.0.2.2 2222", 1);
	setenv("USER", "me", 1);
	write_text("p.json", processed);
	char said[2048] = "";
	const struct sp_log log = { .level = SP_LOG_INFO, .emit = collect, .context = said };
	struct sp_view_options options = { .profile_path = "p.json", .any_port = true, .log = &log };
	struct sp_view *view;
	struct sp_error *error = sp_view_start(&options, &view);
	assert_null(error);
	sp_view_open(view);
	char forward[128];
	unsigned port = (unsigned)atoi(strrchr(sp_view_symbol_server(view), ':') + 1);
	snprintf(forward, sizeof(forward), "ssh -N -L %u:127.0.0.1:%u -p 2222 me@192.0.2.2\n", port, port);
	assert_non_null(strstr(said, sp_view_url(view)));
	assert_non_null(strstr(said, forward));
	sp_view_stop(view);
	unsetenv("SSH_CONNECTION");
	unsetenv("BROWSER");
}

static int enter_folder(void **state)
{
	(void)state;
	return !mkdtemp(folder) || chdir(folder);
}

static int remove_folder(void **state)
{
	(void)state;
	char command[128];
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return chdir("/") || system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_a_profile),
		cmocka_unit_test(test_libraries_of_every_format),
		cmocka_unit_test(test_libraries_across_pieces),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_profile_and_preflight),
		cmocka_unit_test(test_compressed_profile_whatever_its_name),
		cmocka_unit_test(test_nothing_without_the_token),
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_front_end_files),
		cmocka_unit_test(test_a_taken_port),
		cmocka_unit_test(test_opening_a_browser),
	};
	return cmocka_run_group_tests(tests, enter_folder, remove_folder);
}
