/* Prefixes, tokens and parameters of a request. */
#include "common/hex.h"
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void server_text(struct sp_http_reply *reply, unsigned status, const char *format, ...)
{
	char text[1024];
	va_list args;
	va_start(args, format);
	int length = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	reply->status = status;
	reply->content_type = "text/plain; charset=utf-8";
	reply->body.size = 0;
	if (length > 0)
		sp_error_destroy(sp_buffer_write(&reply->body, text, strnlen(text, sizeof(text))));
}

void server_error(struct sp_http_reply *reply, unsigned status, struct sp_error *error)
{
	struct sp_json json;
	reply->status = status;
	reply->content_type = "application/json";
	reply->body.size = 0;
	sp_json_init(&json, sp_buffer_write, &reply->body);
	sp_json_object_begin(&json);
	sp_json_member_string(&json, "error", error->message);
	sp_json_object_end(&json);
	sp_error_destroy(sp_json_finish(&json));
	sp_error_destroy(error);
}

const char *server_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* Decodes %XX and '+' up to '&' or the end. */
static bool decode(const char *from, char *ret, size_t size)
{
	size_t length = 0;
	for (; *from && *from != '&'; from++) {
		int c = (unsigned char)*from;
		if (c == '+') {
			c = ' ';
		} else if (c == '%') {
			int high = sp_hex_digit(from[1]), low = high < 0 ? -1 : sp_hex_digit(from[2]);
			if (low < 0)
				return false;
			c = high << 4 | low;
			from += 2;
		}
		if (!c || length + 1 >= size)
			return false;
		ret[length++] = (char)c;
	}
	ret[length] = 0;
	return true;
}

const char *server_parameter(const char *query, const char *name, char *ret, size_t size)
{
	size_t length = strlen(name);
	for (const char *at = query; at && *at; at += strcspn(at, "&"), at += *at == '&') {
		if (!strncmp(at, name, length) && at[length] == '=')
			return decode(at + length + 1, ret, size) ? ret : NULL;
	}
	return NULL;
}

/* ---- Tokens ---- */

/* The text behind "Basic ", decoded; at most `size` - 1 bytes. */
static bool from_base64(const char *text, char *ret, size_t size)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	unsigned bits = 0, held = 0;
	size_t length = 0;
	for (; *text && *text != '='; text++) {
		const char *digit = strchr(digits, *text);
		if (!digit)
			return false;
		bits = bits << 6 | (unsigned)(digit - digits);
		held += 6;
		if (held < 8)
			continue;
		held -= 8;
		char c = (char)(bits >> held & 0xff);
		if (!c || length + 1 >= size)
			return false;
		ret[length++] = c;
	}
	ret[length] = 0;
	return true;
}

/* The token in an Authorization header: Bearer, or either half of Basic. */
static bool token_of_header(const char *header, char *ret, size_t size)
{
	char pair[256];
	if (!strncasecmp(header, "Bearer ", 7)) {
		header += 7 + strspn(header + 7, " ");
		return (size_t)snprintf(ret, size, "%s", header) < size;
	}
	if (strncasecmp(header, "Basic ", 6) != 0 || !from_base64(header + 6, pair, sizeof(pair)))
		return false;
	char *password = strchr(pair, ':');
	if (password)
		*password++ = 0;
	return (size_t)snprintf(ret, size, "%s", password && *password ? password : pair) < size;
}

/* Takes "/t/TOKEN" off the path. */
static bool token_of_path(const char **path, char *ret, size_t size)
{
	if (strncmp(*path, "/t/", 3) != 0)
		return false;
	size_t length = strcspn(*path + 3, "/");
	if (length && length < size) {
		memcpy(ret, *path + 3, length);
		ret[length] = 0;
	} else {
		snprintf(ret, size, "-");
	}
	*path += 3 + length;
	return true;
}

/* Takes "/n/pr/NAME" off the path. */
static bool namespace_of_path(const char **path, char *ret, size_t size)
{
	if (strncmp(*path, "/n/pr/", 6) != 0)
		return false;
	size_t length = 3 + strcspn(*path + 6, "/");
	if (length >= size)
		return false;
	memcpy(ret, *path + 3, length);
	ret[length] = 0;
	*path += 3 + length;
	return sp_store_is_namespace(ret);
}

struct sp_error *server_read_request(struct sp_server *server, const struct sp_http_request *http,
                                     struct server_request *ret)
{
	char secret[SP_STORE_TOKEN_SIZE] = "";
	memset(ret, 0, sizeof(*ret));
	ret->http = http;
	ret->path = http->path;
	bool given = token_of_path(&ret->path, secret, sizeof(secret));
	const char *header = http->header(http, "Authorization");
	if (!given && header) {
		given = true;
		if (!token_of_header(header, secret, sizeof(secret)))
			snprintf(secret, sizeof(secret), "-");
	}
	if (!namespace_of_path(&ret->path, ret->ns, sizeof(ret->ns)))
		ret->ns[0] = 0;
	if (!given)
		return NULL;
	struct sp_error *error = sp_store_token_check(server->options.store, secret, &ret->token);
	if (error)
		memset(&ret->token, 0, sizeof(ret->token));
	return error;
}

const char *server_view(const struct server_request *request)
{
	return request->ns[0] ? request->ns : NULL;
}
