/* Puts a profile's text into its file; see profile_file.h. */
#include "sampler/output/profile_file.h"

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

static struct sp_error *write_text(FILE *file, bool gzip, sp_profile_text_fn text, void *context)
{
	struct sp_gzip *zipped;
	if (!gzip)
		return text(context, write_to_file, file, NULL);
	struct sp_error *error = sp_gzip_create(SP_GZIP_LEVEL, GZIP_THREADS, write_to_file, file, &zipped);
	if (error)
		return error;
	error = text(context, sp_gzip_write, zipped, zipped);
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

struct sp_error *sp_profile_file_write(const char *path, sp_profile_text_fn text, void *context)
{
	struct stat status;
	char *beside = NULL;
	FILE *file;
	bool gzip = ends_with(path, ".gz");
	if (!stat(path, &status) && !S_ISREG(status.st_mode)) { /* a pipe or device: nothing to replace */
		file = fopen(path, "wb");
		if (!file)
			return sp_error_from_errno(errno, "cannot write %s", path);
		return close_file(file, write_text(file, gzip, text, context), path);
	}
	struct sp_error *error = open_beside(path, &beside, &file);
	if (error)
		return error;
	error = close_file(file, write_text(file, gzip, text, context), path);
	if (!error)
		error = replace_file(beside, path);
	if (error)
		remove(beside);
	free(beside);
	return error;
}
