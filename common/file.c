/* The part of file.h that is the same on every OS: building paths and growing buffers. The OS part is in
 * file_unix.c and file_windows.c. */
#include "common/file.h"
#include "common/file_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READ_CHUNK ((size_t)4096)

static bool is_separator(char c)
{
#ifdef _WIN32
	return c == '/' || c == '\\';
#else
	return c == '/';
#endif
}

const char *sp_file_base_name(const char *path)
{
	const char *base = path;
	for (const char *at = path; *at; at++) {
		if (*at == '/' || *at == '\\')
			base = at + 1;
	}
	return base;
}

struct sp_error *sp_file_make_folders(const char *path)
{
	size_t length = strlen(path);
	char *partial = malloc(length + 1);
	if (!partial)
		return sp_error_no_memory();
	memcpy(partial, path, length + 1);
	struct sp_error *error = NULL;
	for (size_t i = 1; i <= length && !error; i++) {
		if ((i < length && !is_separator(path[i])) || is_separator(path[i - 1]))
			continue;
#ifdef _WIN32
		if (path[i - 1] == ':')
			continue;
#endif
		partial[i] = '\0';
		error = sp_file_make_folder(partial);
		partial[i] = path[i];
	}
	free(partial);
	return error;
}

struct sp_error *sp_file_read_room(struct sp_file_read_state *state, const char *path, uint64_t size_hint, char **ret,
                                   size_t *ret_size)
{
	if (state->size > state->limit)
		return sp_error_create(SP_ERROR_LIMIT, "%s is larger than %zu bytes", path, state->limit);
	/* One byte past the limit tells whether the file is larger, one more is for the NUL. */
	size_t most = state->limit < SIZE_MAX - 2 ? state->limit + 2 : SIZE_MAX;
	if (state->capacity - state->size < 2) {
		size_t wanted = state->capacity ? state->capacity * 2 : READ_CHUNK;
		if (!state->capacity && size_hint >= READ_CHUNK && size_hint < most)
			wanted = (size_t)size_hint + 2;
		if (wanted > most)
			wanted = most;
		char *grown = realloc(state->bytes, wanted);
		if (!grown)
			return sp_error_no_memory();
		state->bytes = grown;
		state->capacity = wanted;
	}
	*ret = state->bytes + state->size;
	*ret_size = state->capacity - state->size - 1;
	return NULL;
}

void sp_file_read_took(struct sp_file_read_state *state, size_t size)
{
	state->size += size;
	state->done = !size;
}

struct sp_error *sp_file_read_end(struct sp_file_read_state *state, struct sp_error *error, char **ret,
                                  size_t *ret_size)
{
	if (error) {
		free(state->bytes);
		return error;
	}
	state->bytes[state->size] = '\0';
	*ret = state->bytes;
	if (ret_size)
		*ret_size = state->size;
	return NULL;
}

struct sp_error *sp_file_cache_folder(const char *part, char **ret)
{
	const char *suffix = "";
	const char *base = getenv("SP_CACHE_DIR");
	if (!base || !*base)
		base = sp_file_cache_base(&suffix);
	if (!base)
		return sp_error_create(SP_ERROR_NOT_FOUND, "no cache folder: set SP_CACHE_DIR or HOME");
	size_t size = strlen(base) + strlen(suffix) + strlen(part) + 2;
	char *path = malloc(size);
	if (!path)
		return sp_error_no_memory();
	snprintf(path, size, "%s%s/%s", base, suffix, part);
	struct sp_error *error = sp_file_make_folders(path);
	if (error) {
		free(path);
		return error;
	}
	*ret = path;
	return NULL;
}
