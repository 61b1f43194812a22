/* See place.h. */
#include "sampler/record/place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RECORDING_NAMES 100

/* What stands at the output's place must take a profile: a folder would be found out only after the run, and a pipe
 * without a reader would block for ever. A character device such as /dev/null is fine. */
static struct sp_error *check_output(const char *output)
{
	struct stat status;
	if (stat(output, &status) || S_ISREG(status.st_mode) || S_ISCHR(status.st_mode))
		return NULL;
	return sp_error_create(SP_ERROR_USAGE, "cannot write the profile to %s: it is %s; name another file with -o",
	                       output, S_ISDIR(status.st_mode) ? "a folder" : "not a regular file");
}

struct sp_error *sp_recording_place(const char *output, char **ret)
{
	struct sp_error *error = check_output(output);
	if (error)
		return error;
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
			error = sp_error_from_errno(errno, "cannot create the recording %s", path);
			free(path);
			return error;
		}
		snprintf(path, size, "%s.recording.%u", output, i);
	}
	free(path);
	return sp_error_create(SP_ERROR_LIMIT, "%s.recording and more of that name are in the way: delete some",
	                       output);
}
