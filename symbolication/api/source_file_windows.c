/* Opens source files that debug information names, with care: the path was written by whoever built the program.
 * Its twin is source_file_unix.c. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <string.h>

struct sp_error *api_read_source_file(const char *path, char **ret, size_t *ret_size)
{
	/* A drive path, so no device (\\.\), no network share, no stream. */
	bool drive = ((path[0] >= 'A' && path[0] <= 'Z') || (path[0] >= 'a' && path[0] <= 'z')) && path[1] == ':' &&
	             (path[2] == '\\' || path[2] == '/');
	if (!drive || strchr(path + 2, ':'))
		return sp_error_create(SP_ERROR_PERMISSION, "%s is not an absolute path", path);
	int fd = open(path, O_RDONLY | O_BINARY | O_NOINHERIT);
	if (fd < 0)
		return sp_error_from_errno(errno, "cannot open %s", path);
	struct sp_error *error = api_read_source_descriptor(fd, path, ret, ret_size);
	close(fd);
	return error;
}
