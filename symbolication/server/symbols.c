/* symbolicate/v5, source/v1 and asm/v1 from stored files: what a debug ID leads to is decided by the store, under the
 * rights of the request, and nothing of the server's own machine is ever read. Parsed tables are shared: they are keyed
 * by the stored file, not by the ID that someone asked for. */
#include "internal.h"

#include "common/file.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const paths[] = { "/symbolicate/v5", "/source/v1", "/asm/v1" };

struct sp_error *server_symbols_open(struct sp_server *server)
{
	static const char *const nowhere[] = { NULL };
	const struct spsym_options options = { .debug_roots = nowhere,
		                               .cache_folder = server->options.cache_folder,
		                               .no_local_paths = true,
		                               .debuginfod_urls = "",
		                               .symbol_path = "",
		                               .offline = true };
	return spsym_context_create(&options, &server->symbols);
}

bool server_is_api(const char *path)
{
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		if (!strcmp(path, paths[i]))
			return true;
	}
	return false;
}

struct api_context {
	struct sp_server *server;
	const struct server_request *request;
};

/* The best file for names; where its code is wanted and it has none, the binary. */
static struct sp_error *find_file(const struct api_context *context, const char *debug_id, bool code,
                                  struct sp_store_artifact *ret)
{
	struct sp_store_query query = { .want = SP_STORE_NAMES,
		                        .debug_id = debug_id,
		                        .ns = server_view(context->request) };
	struct sp_error *error = sp_store_find(context->server->options.store, &query, ret);
	if (error || !code || ret->info.has_code)
		return error;
	query.want = SP_STORE_CODE;
	return sp_store_find(context->server->options.store, &query, ret);
}

static struct sp_error *find_module(void *data, const char *debug_name, const char *debug_id, bool code,
                                    spsym_module **ret)
{
	const struct api_context *context = data;
	struct sp_store_artifact artifact;
	char id[SPSYM_ID_MAX], *path;
	if (!debug_id || strlen(debug_id) >= sizeof(id))
		return sp_error_create(SP_ERROR_NOT_FOUND, "%s: no debug ID was given", debug_name ? debug_name : "?");
	struct sp_error *error = find_file(context, debug_id, code, &artifact);
	if (!error)
		error = sp_store_blob_path(context->server->options.store, artifact.sha256, &path);
	if (error)
		return sp_error_prefix(error, "%s %s", debug_name ? debug_name : "?", debug_id);
	error = spsym_module_open_path(context->server->symbols, path, ret);
	free(path);
	return error;
}

static struct sp_error *read_blob(struct sp_store *store, const char *sha256, char **ret, size_t *ret_size)
{
	int fd;
	uint64_t size;
	struct sp_error *error = sp_store_open_blob(store, sha256, &fd, &size);
	if (error)
		return error;
	if (size > SP_API_MAX_SOURCE)
		error = sp_error_create(SP_ERROR_LIMIT, "the source file is too large");
	char *text = error ? NULL : malloc((size_t)size + 1);
	if (!error && !text)
		error = sp_error_no_memory();
	ssize_t got = error ? 0 : pread(fd, text, (size_t)size, 0);
	close(fd);
	if (!error && (got < 0 || (uint64_t)got != size))
		error = sp_error_create(SP_ERROR_SYSTEM, "the stored source file cannot be read");
	if (error) {
		free(text);
		return error;
	}
	*ret = text;
	*ret_size = (size_t)size;
	return NULL;
}

static struct sp_error *read_source(void *data, spsym_module *module, const char *file, char **ret, size_t *ret_size)
{
	const struct api_context *context = data;
	struct sp_store *store = context->server->options.store;
	struct sp_store_artifact artifact;
	const struct spsym_file_info *info = spsym_module_info(module);
	struct sp_error *error = sp_store_find_source(store, info->code_id, file, server_view(context->request),
	                                              &artifact);
	if (error && error->code == SP_ERROR_NOT_FOUND) {
		sp_error_destroy(error);
		return sp_error_create(SP_ERROR_NOT_FOUND, "%s was not uploaded (sp upload --sources does)", file);
	}
	return error ? error : read_blob(store, artifact.sha256, ret, ret_size);
}

void server_api(struct sp_server *server, const struct server_request *request, struct sp_http_reply *reply)
{
	struct api_context context = { server, request };
	const struct sp_api_options options = {
		.symbols = server->symbols, .find_module = find_module, .read_source = read_source, .context = &context
	};
	struct sp_api *api;
	enum sp_api_status status = SP_API_OK;
	struct sp_error *error = sp_api_create(&options, &api);
	if (!error) {
		error = sp_api_handle(api, request->path, request->http->body ? request->http->body : "",
		                      request->http->body_size, &reply->body, &status);
		sp_api_destroy(api);
	}
	reply->status = (unsigned)status;
	reply->content_type = "application/json";
	if (error)
		server_error(reply, 503, error);
}
