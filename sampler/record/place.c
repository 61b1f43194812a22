/* See place.h. */
#include "sampler/record/place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORDING_NAMES 100

/* What stands at the output's place must take a profile: a folder would be found out only after the run, and a pipe
 * without a reader would block for ever. A character device such as /dev/null is fine. */
static struct sp_error *check_output(const char *output)
{
	struct stat status;
	if (stat(output, &status) || S_ISREG(status.st_mode) || S_ISCHR(status.st_mode))
		return NULL;
	return sp_error_create(SP_ERROR_UNSUPPORTED,
	                       "cannot write the profile to %s: it is %s; name another file with -o", output,
	                       S_ISDIR(status.st_mode) ? "a folder" : "not a regular file");
}

/* Why no file can be made beside the output, in the user's terms. */
static struct sp_error *explain(const char *output, int errnum)
{
	const char *slash = strrchr(output, '/');
	int length = slash ? (int)(slash - output) + (slash == output) : 1;
	const char *folder = slash ? output : ".";
	if (errnum == ENOENT && !slash)
		return sp_error_create(SP_ERROR_NOT_FOUND,
		                       "cannot write the profile to %s: the current folder was deleted; "
		                       "go to another one, or name one with -o",
		                       output);
	if (errnum == ENOENT || errnum == ENOTDIR)
		return sp_error_create(SP_ERROR_NOT_FOUND,
		                       "cannot write the profile to %s: there is no folder %.*s; make it, "
		                       "or name another file with -o",
		                       output, length, folder);
	if (errnum == EACCES || errnum == EPERM || errnum == EROFS)
		return sp_error_create(
		    SP_ERROR_PERMISSION,
		    "cannot write the profile to %s: no file can be made in the folder %.*s (%s); name "
		    "another file with -o",
		    output, length, folder, strerror(errnum));
	struct sp_error *error = sp_error_from_errno(errnum, "cannot create the recording of %s", output);
	if (errnum == EMFILE)
		error = sp_error_prefix(error, "raise the limit of open files (ulimit -n)");
	return error;
}

/* A device takes no file beside it. */
static struct sp_error *place_in_temporary_folder(char **ret)
{
	const char *folder = getenv("TMPDIR");
	if (!folder || !*folder)
		folder = "/tmp";
	size_t size = strlen(folder) + sizeof("/sp-XXXXXX");
	char *path = malloc(size);
	if (!path)
		return sp_error_no_memory();
	snprintf(path, size, "%s/sp-XXXXXX", folder);
	int fd = mkstemp(path);
	if (fd < 0) {
		struct sp_error *error = sp_error_from_errno(errno, "cannot create the recording in %s", folder);
		free(path);
		return error;
	}
	close(fd);
	*ret = path;
	return NULL;
}

struct sp_error *sp_recording_place(const char *output, char **ret)
{
	struct stat status;
	struct sp_error *error = check_output(output);
	if (error)
		return error;
	if (!stat(output, &status) && S_ISCHR(status.st_mode))
		return place_in_temporary_folder(ret);
	size_t size = strlen(output) + sizeof(".recording.999");
	char *path = malloc(size);
	if (!path)
		return sp_error_no_memory();
	snprintf(path, size, "%s.recording", output);
	for (unsigned i = 2; i <= RECORDING_NAMES; i++) {
		FILE *file = fopen(path, "wx");
		if (file) {
			fclose(file);
			*ret = path;
			return NULL;
		}
		if (errno != EEXIST) {
			error = explain(output, errno);
			free(path);
			return error;
		}
		snprintf(path, size, "%s.recording.%u", output, i);
	}
	free(path);
	return sp_error_create(SP_ERROR_LIMIT, "%s.recording and more of that name are in the way: delete some",
	                       output);
}
