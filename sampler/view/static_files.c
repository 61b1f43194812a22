/* A built front-end served from a folder: a single-page application, so every path that is no file is its index.html.
 *
 * Its service worker is left out: it would keep a copy of the front-end for an address that the next start of sp may
 * use for another. A browser that asks for it as a service worker (and would complain of a 404) gets one that removes
 * itself, and with it one that an earlier server at this address left behind. */
#include "internal.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static const char *content_type(const char *path)
{
	static const struct {
		const char *ending, *type;
	} types[] = {
		{ ".html", "text/html; charset=utf-8" },
		{ ".js", "text/javascript; charset=utf-8" },
		{ ".mjs", "text/javascript; charset=utf-8" },
		{ ".css", "text/css; charset=utf-8" },
		{ ".json", "application/json" },
		{ ".map", "application/json" },
		{ ".webmanifest", "application/manifest+json" },
		{ ".wasm", "application/wasm" },
		{ ".svg", "image/svg+xml" },
		{ ".png", "image/png" },
		{ ".jpg", "image/jpeg" },
		{ ".jpeg", "image/jpeg" },
		{ ".gif", "image/gif" },
		{ ".webp", "image/webp" },
		{ ".avif", "image/avif" },
		{ ".ico", "image/x-icon" },
		{ ".woff", "font/woff" },
		{ ".woff2", "font/woff2" },
		{ ".ttf", "font/ttf" },
		{ ".xml", "application/xml" },
		{ ".pdf", "application/pdf" },
		{ ".mp4", "video/mp4" },
		{ ".webm", "video/webm" },
		{ ".txt", "text/plain; charset=utf-8" },
		{ ".md", "text/plain; charset=utf-8" },
		{ ".ftl", "text/plain; charset=utf-8" },
	};
	size_t length = strlen(path);
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		size_t ending = strlen(types[i].ending);
		if (length > ending && !strcasecmp(path + length - ending, types[i].ending))
			return types[i].type;
	}
	return "application/octet-stream";
}

/* Whether a part of the path could lead out of the folder or is hidden. */
static bool is_unsafe(const char *path)
{
#ifdef _WIN32
	if (strpbrk(path, "\\:"))
		return true;
#endif
	for (const char *at = path; (at = strchr(at, '/')); at++) {
		if (at[1] == '.')
			return true;
	}
	return false;
}

/* The regular file at root/path (with "index.html" behind a slash), links resolved, when it lies in the folder. The
 * caller frees it. */
static char *find_file(const char *root, const char *path)
{
	char *joined = NULL, *real = NULL;
	struct stat st;
	size_t path_length = strlen(path);
	bool folder = path_length && path[path_length - 1] == '/';
	if (asprintf(&joined, "%s%s%s", root, path, folder ? "index.html" : "") < 0)
		return NULL;
#ifdef _WIN32
	real = _fullpath(NULL, joined, 0);
#else
	real = realpath(joined, NULL);
#endif
	free(joined);
	size_t length = strlen(root);
	bool inside = real && !strncmp(real, root, length) && (real[length] == '/' || real[length] == '\\');
	if (inside && !stat(real, &st) && S_ISREG(st.st_mode))
		return real;
	free(real);
	return NULL;
}

static const char no_worker[] = "self.addEventListener('install', () => self.skipWaiting());\n"
                                "self.addEventListener('activate', () => self.registration.unregister());\n";

static void reply_text(struct sp_http_reply *reply, unsigned status, const char *type, const char *text)
{
	reply->status = status;
	reply->content_type = type;
	sp_error_destroy(sp_buffer_write(&reply->body, text, strlen(text)));
}

static void not_found(struct sp_http_reply *reply)
{
	reply_text(reply, 404, "text/plain; charset=utf-8", "Not found.\n");
}

void view_serve_static(const char *root, const struct sp_http_request *request, struct sp_http_reply *reply)
{
	const char *path = request->path;
	sp_http_reply_header(reply, "X-Content-Type-Options", "nosniff");
	sp_http_reply_header(reply, "Referrer-Policy", "no-referrer");
	/* A front-end address holds the profile's, slashes and dots included: /from-url/http%3A%2F%2F…%2Fprofile.json/.
	 */
	bool is_route = !strncmp(path, "/from-", 6);
	if (!strcmp(path, "/sw.js") && request->header(request, "Service-Worker")) {
		reply_text(reply, 200, "text/javascript; charset=utf-8", no_worker);
		return;
	}
	if (!is_route && (is_unsafe(path) || !strncmp(path, "/sw.js", 6))) {
		not_found(reply);
		return;
	}
	reply->file = is_route ? NULL : find_file(root, path);
	if (!reply->file)
		reply->file = find_file(root, "/index.html");
	if (!reply->file) {
		not_found(reply);
		return;
	}
	reply->content_type = content_type(reply->file);
	if (!strncmp(reply->content_type, "text/html", 9))
		sp_http_reply_header(reply, "Cache-Control", "no-cache");
}
