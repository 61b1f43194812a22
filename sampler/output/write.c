/* Writes the processed profile of the Firefox Profiler: a stream of JSON through gzip into a file beside the target,
 * which then takes its place.
 *
 * The format is Mozilla's "processed profile"; its versions differ for us in: 61 (sources), 64 (source locations), 66
 * (stack prefixes as offsets) and 70 (the library stands on the frame). A front-end never checks a profile: a wrong
 * index shows up later as a wrong number or an endless loop, so tests/e2e/validate_profile.py does. */
#include "sampler/output/write.h"

#include "common/compress.h"
#include "common/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define GZIP_THREADS 2
#define TEMPORARY_TRIES 100

static struct sp_error *write_to_file(void *context, const void *bytes, size_t size)
{
	if (fwrite(bytes, 1, size, context) != size)
		return sp_error_from_errno(errno ? errno : EIO, "cannot write the profile");
	return NULL;
}

/* `gzip`: the sink again, when it is one. */
static struct sp_error *write_json(struct sp_layout *layout, sp_write_fn write, void *context, struct sp_gzip *gzip)
{
	struct sp_json *json = malloc(sizeof(*json));
	if (!json)
		return sp_error_no_memory();
	sp_json_init(json, write, context);
	sp_json_object_begin(json);
	sp_write_meta(json, layout);
	sp_json_newline(json);
	sp_write_libs(json, layout);
	sp_json_key(json, "pages");
	sp_json_array_begin(json);
	sp_json_array_end(json);
	sp_json_newline(json);
	struct sp_error *error = sp_write_threads(json, layout);
	sp_json_newline(json);
	sp_write_counters(json, layout);
	sp_json_newline(json);
	sp_write_shared(json, layout, gzip);
	sp_json_object_end(json);
	sp_json_newline(json);
	struct sp_error *sink = sp_json_finish(json);
	free(json);
	if (error)
		sp_error_destroy(sink);
	return error ? error : sink;
}

static struct sp_error *write_text(struct sp_layout *layout, FILE *file, bool gzip)
{
	struct sp_gzip *zipped;
	if (!gzip)
		return write_json(layout, write_to_file, file, NULL);
	struct sp_error *error = sp_gzip_create(SP_GZIP_LEVEL, GZIP_THREADS, write_to_file, file, &zipped);
	if (error)
		return error;
	error = write_json(layout, sp_gzip_write, zipped, zipped);
	if (!error)
		error = sp_gzip_finish(zipped);
	sp_gzip_destroy(zipped);
	return error;
}

static bool ends_with(const char *string, const char *end)
{
	size_t length = strlen(string), end_length = strlen(end);
	return length >= end_length && !strcmp(string + length - end_length, end);
}

/* A new file beside `path`; the caller frees *ret_name. */
static struct sp_error *open_beside(const char *path, char **ret_name, FILE **ret)
{
	for (unsigned i = 0; i < TEMPORARY_TRIES; i++) {
		if (asprintf(ret_name, "%s.%u.tmp", path, i) < 0)
			return sp_error_no_memory();
		*ret = fopen(*ret_name, "wbx");
		if (*ret) {
			sp_file_give_to_user(*ret_name);
			return NULL;
		}
		int errnum = errno;
		free(*ret_name);
		if (errnum != EEXIST)
			return sp_error_from_errno(errnum, "cannot write beside %s", path);
	}
	return sp_error_create(SP_ERROR_SYSTEM, "cannot write beside %s: %u files named %s.*.tmp are in the way", path,
	                       TEMPORARY_TRIES, path);
}

static struct sp_error *close_file(FILE *file, struct sp_error *error, const char *path)
{
	if (fclose(file) && !error)
		error = sp_error_from_errno(errno, "cannot write the profile");
	return error ? sp_error_prefix(error, "%s", path) : NULL;
}

static struct sp_error *replace_file(const char *from, const char *to)
{
#ifdef _WIN32
	remove(to); /* rename() does not replace there */
#endif
	return rename(from, to) ? sp_error_from_errno(errno, "cannot rename %s to %s", from, to) : NULL;
}

static struct sp_error *write_file(struct sp_layout *layout, const char *path)
{
	struct stat status;
	char *beside = NULL;
	FILE *file;
	bool gzip = ends_with(path, ".gz");
	if (!stat(path, &status) && !S_ISREG(status.st_mode)) { /* a pipe or device: nothing to replace */
		file = fopen(path, "wb");
		if (!file)
			return sp_error_from_errno(errno, "cannot write %s", path);
		return close_file(file, write_text(layout, file, gzip), path);
	}
	struct sp_error *error = open_beside(path, &beside, &file);
	if (error)
		return error;
	error = close_file(file, write_text(layout, file, gzip), path);
	if (!error)
		error = replace_file(beside, path);
	if (error)
		remove(beside);
	free(beside);
	return error;
}

static uint64_t count_processes(const struct sp_layout *layout)
{
	return layout->threads.items[0].member == SP_HANDLE_NONE ? 0 : layout->processes.count;
}

struct sp_error *sp_profile_builder_write(struct sp_profile_builder *builder, const char *path,
                                          struct sp_profile_summary *ret)
{
	struct sp_layout *layout;
	struct sp_error *error = sp_build_take_in(builder);
	if (!error)
		error = sp_layout_create(builder, &layout);
	if (error)
		return error;
	*ret = builder->summary;
	ret->processes = count_processes(layout);
	ret->threads = ret->processes ? layout->threads.count : 0;
	ret->kernel_unsampled_ns = builder->kernel_unsampled_weight * sp_build_interval(builder);
	error = write_file(layout, path);
	sp_layout_destroy(layout);
	return error;
}
