/* source/v1: the text of a source file.
 *
 * A client proves with an address that the file belongs to a module: only a file that this address symbolicates to
 * (inlined functions included) is read, so the API cannot be used to read any other. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `path` with the first --map-path that fits applied; the caller frees it. */
static char *map_path(const struct sp_api *api, const char *path)
{
	for (const char *const *map = api->options.map_paths; map && *map; map++) {
		const char *to = strchr(*map, '=');
		size_t from = to ? (size_t)(to - *map) : 0;
		if (!from || strncmp(path, *map, from) != 0)
			continue;
		/* Whole folders only: /src must not take /srcs/x. */
		if (path[from] && path[from] != '/' && path[from] != '\\' && (*map)[from - 1] != '/')
			continue;
		char *mapped = NULL;
		return asprintf(&mapped, "%s%s", to + 1, path + from) < 0 ? NULL : mapped;
	}
	return strdup(path);
}

/* Where the source file `file` of the debug information can be read. Paths in debug information that came from a server
 * mean nothing here unless the user mapped them: such a file is asked of the servers, too. */
static struct sp_error *readable_path(const struct sp_api *api, spsym_module *module, const char *file, char **ret)
{
	if (api->options.read_source) {
		*ret = strdup(file);
		return *ret ? NULL : sp_error_no_memory();
	}
	*ret = map_path(api, file);
	if (!*ret)
		return sp_error_no_memory();
	if (!spsym_module_is_downloaded(module) || strcmp(*ret, file) != 0)
		return NULL;
	free(*ret);
	*ret = NULL;
	return spsym_module_fetch_source(module, file, ret);
}

/* The path in the debug information that clients see as `file`, among the frames at the address. The caller frees it.
 */
static struct sp_error *proven_path(const struct sp_api *api, spsym_module *module,
                                    const struct api_code_request *request, char **ret)
{
	struct spsym_result result = { 0 };
	struct sp_arena arena = { 0 };
	char *path = NULL;
	struct sp_error *error = spsym_lookup(module, &request->offset, 1, &result);
	if (error)
		return error;
	const struct spsym_location *location = result.count ? &result.locations[0] : NULL;
	for (size_t i = 0; location && i < location->frame_count && !path && !error; i++) {
		const char *file = location->frames[i].file;
		if (file && !strcmp(api_shown_path(&arena, file), request->file))
			error = readable_path(api, module, file, &path);
	}
	if (!path && !error)
		error = sp_error_create(SP_ERROR_PERMISSION, "%s is not a source file of the code at %s+0x%llx%s%s",
		                        request->file, request->debug_name, (unsigned long long)request->offset,
		                        result.debug_error ? ": " : "", result.debug_error ? result.debug_error : "");
	sp_arena_deinit(&arena);
	spsym_result_deinit(&result);
	*ret = path;
	return error;
}

struct sp_error *api_source(const struct sp_api *api, const struct api_code_request *request, struct sp_json *json)
{
	spsym_module *module;
	char *path = NULL, *text;
	size_t size;
	if (!request->file || !request->debug_name || !request->debug_id)
		return sp_error_create(SP_ERROR_USAGE, "debugName, debugId, moduleOffset and file are needed");
	if (!api->options.local_sources && !api->options.read_source)
		return sp_error_create(SP_ERROR_PERMISSION, "this server does not serve source files");
	struct sp_error *error = api_find_module(api, request->debug_name, request->debug_id, request->name,
	                                         request->code_id, false, &module);
	if (error)
		return error;
	error = proven_path(api, module, request, &path);
	if (!error && api->options.read_source)
		error = api->options.read_source(api->options.context, module, path, &text, &size);
	else if (!error)
		error = api_read_source_file(path, &text, &size);
	spsym_module_release(module);
	free(path);
	if (error)
		return error;
	sp_json_object_begin(json);
	sp_json_key(json, "symbolsLastModified");
	sp_json_null(json);
	sp_json_key(json, "sourceLastModified");
	sp_json_null(json);
	sp_json_member_string(json, "file", request->file);
	sp_json_key(json, "source");
	sp_json_string_n(json, text, size);
	sp_json_object_end(json);
	free(text);
	return NULL;
}
