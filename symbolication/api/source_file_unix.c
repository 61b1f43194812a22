/* Opens source files that debug information names, with care: the path was written by whoever built the program.
 * Its twin is source_file_windows.c. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Folders whose files are not files: they read the kernel's or a process's state. */
static bool is_special_folder(const char *folder)
{
	static const char *const special[] = { "/proc", "/sys", "/dev" };
	for (size_t i = 0; i < sizeof(special) / sizeof(*special); i++) {
		size_t length = strlen(special[i]);
		if (!strncmp(folder, special[i], length) && (!folder[length] || folder[length] == '/'))
			return true;
	}
	return false;
}

/* Opens `name` in the folder; its links are resolved first, so that what is checked is what is opened. */
static struct sp_error *open_in(const char *folder, const char *name, const char *path, int *ret)
{
	char *real = realpath(folder, NULL);
	if (!real)
		return sp_error_from_errno(errno, "cannot open %s", path);
	if (is_special_folder(real)) {
		free(real);
		return sp_error_create(SP_ERROR_PERMISSION, "%s is not a source file", path);
	}
	int folder_fd = open(real, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	free(real);
	if (folder_fd < 0)
		return sp_error_from_errno(errno, "cannot open %s", path);
	/* O_NONBLOCK: opening a FIFO must not wait for its writer. */
	*ret = openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	int errnum = errno;
	close(folder_fd);
	if (*ret < 0)
		return errnum == ELOOP ? sp_error_create(SP_ERROR_PERMISSION, "%s is a symbolic link", path)
		                       : sp_error_from_errno(errnum, "cannot open %s", path);
	return NULL;
}

struct sp_error *api_read_source_file(const char *path, char **ret, size_t *ret_size)
{
	const char *slash = strrchr(path, '/');
	if (path[0] != '/')
		return sp_error_create(SP_ERROR_PERMISSION, "%s is not an absolute path", path);
	if (!slash[1] || !strcmp(slash, "/.") || !strcmp(slash, "/.."))
		return sp_error_create(SP_ERROR_PERMISSION, "%s is not a regular file", path);
	char *folder = slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
	if (!folder)
		return sp_error_no_memory();
	int fd = -1;
	struct sp_error *error = open_in(folder, slash + 1, path, &fd);
	free(folder);
	if (error)
		return error;
	error = api_read_source_descriptor(fd, path, ret, ret_size);
	close(fd);
	return error;
}
