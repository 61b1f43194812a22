/* Fuzz target: what the symbol server reads of a request, its path, query and headers, in front of a store that knows
 * nothing. The input is lines: path, query, Authorization, Range, If-None-Match. */
#include "symbolication/http/internal.h"
#include "symbolication/server/internal.h"

#undef NDEBUG
#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PATH, QUERY, AUTHORIZATION, RANGE, NONE_MATCH, LINES };

struct sp_error *sp_store_token_check(struct sp_store *store, const char *secret, struct sp_store_token *ret)
{
	(void)store;
	assert(strlen(secret) < SP_STORE_TOKEN_SIZE);
	memset(ret, 0, sizeof(*ret));
	return secret[0] == 'x' ? NULL : sp_error_create(SP_ERROR_PERMISSION, "no");
}

struct sp_error *sp_store_find(struct sp_store *store, const struct sp_store_query *query,
                               struct sp_store_artifact *ret)
{
	(void)store;
	(void)ret;
	const char *id = query->build_id ? query->build_id : query->debug_id ? query->debug_id : query->code_id;
	assert(id && strlen(id) < 256);
	assert(!query->ns || !strncmp(query->ns, "pr/", 3));
	return sp_error_create(SP_ERROR_NOT_FOUND, "nothing");
}

struct sp_error *sp_store_find_source(struct sp_store *store, const char *build_id, const char *path, const char *ns,
                                      struct sp_store_artifact *ret)
{
	(void)store;
	(void)ns;
	(void)ret;
	assert(strlen(build_id) < 256 && path[0] == '/');
	return sp_error_create(SP_ERROR_NOT_FOUND, "nothing");
}

struct sp_error *sp_store_find_section(struct sp_store *store, const char *sha256, const char *name,
                                       uint64_t *ret_offset, uint64_t *ret_size)
{
	(void)store;
	(void)sha256;
	(void)name;
	(void)ret_offset;
	(void)ret_size;
	abort(); /* nothing was found before */
}

struct sp_error *sp_store_open_blob(struct sp_store *store, const char *sha256, int *ret, uint64_t *ret_size)
{
	(void)store;
	(void)sha256;
	(void)ret;
	(void)ret_size;
	abort();
}

bool sp_store_is_namespace(const char *text)
{
	return !strncmp(text, "pr/", 3) && text[3];
}

static const char *lines[LINES];

static const char *header(const struct sp_http_request *request, const char *name)
{
	(void)request;
	return !strcmp(name, "Authorization") ? lines[AUTHORIZATION] : NULL;
}

static void free_reply(struct sp_http_reply *reply)
{
	assert(!reply->has_fd && !reply->reset && reply->status == 404);
	free(reply->body.bytes);
	free(reply->etag);
	for (size_t i = 0; i < reply->header_count; i++) {
		free(reply->headers[i].name);
		free(reply->headers[i].value);
	}
}

static void check_range(const char *text, uint64_t size)
{
	struct http_range range;
	if (http_read_range(text, size, &range) == HTTP_RANGE_PART)
		assert(range.size && range.first < size && range.size <= size - range.first);
	else
		assert(range.first == 0 && range.size == size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sp_server server = { 0 };
	struct server_request request;
	char value[32], *text = malloc(size + 2);
	if (!text)
		return 0;
	text[0] = '/'; /* as MHD gives it */
	memcpy(text + 1, data, size);
	text[size + 1] = 0;
	memset(lines, 0, sizeof(lines));
	char *rest = text;
	for (size_t i = 0; i < LINES && rest; i++)
		lines[i] = strsep(&rest, "\n");
	const struct sp_http_request http = {
		.method = "GET", .path = lines[PATH], .query = lines[QUERY], .header = header
	};
	struct sp_error *error = server_read_request(&server, &http, &request);
	if (!error) {
		struct sp_http_reply reply = { .status = 200 };
		if (!strncmp(request.path, "/buildid/", 9)) {
			server_buildid(&server, &request, &reply);
			free_reply(&reply);
		} else if (server_symbol_file(&server, &request, &reply)) {
			free_reply(&reply);
		}
	}
	sp_error_destroy(error);
	if (server_parameter(lines[QUERY], "name", value, sizeof(value)))
		assert(strlen(value) < sizeof(value));
	check_range(lines[RANGE], size);
	check_range(lines[RANGE], UINT64_MAX);
	if (lines[NONE_MATCH])
		http_has_tag(lines[NONE_MATCH], "\"tag\"");
	free(text);
	return 0;
}
