/* Opens source files that debug information names, with care: the path was written by whoever built the program. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads `size` bytes from a descriptor. */
static struct sp_error *read_all(int fd, const char *path, size_t size, char **ret, size_t *ret_size)
{
	char *text = malloc(size + 1);
	size_t done = 0;
	if (!text)
		return sp_error_no_memory();
	while (done < size) {
		ssize_t got = read(fd, text + done, (unsigned)(size - done > 1u << 20 ? 1u << 20 : size - done));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			free(text);
			return sp_error_from_errno(errno, "cannot read %s", path);
		}
		if (!got)
			break;
		done += (size_t)got;
	}
	if (memchr(text, 0, done)) {
		free(text);
		return sp_error_create(SP_ERROR_FORMAT, "%s is not a text file", path);
	}
	text[done] = 0;
	*ret = text;
	*ret_size = done;
	return NULL;
}

static struct sp_error *read_descriptor(int fd, const char *path, char **ret, size_t *ret_size)
{
	struct stat st;
	if (fstat(fd, &st))
		return sp_error_from_errno(errno, "cannot read %s", path);
	if (!S_ISREG(st.st_mode))
		return sp_error_create(SP_ERROR_PERMISSION, "%s is not a regular file", path);
	if (st.st_size > (off_t)SP_API_MAX_SOURCE)
		return sp_error_create(SP_ERROR_LIMIT, "%s is larger than %u MiB", path, SP_API_MAX_SOURCE >> 20);
	return read_all(fd, path, (size_t)st.st_size, ret, ret_size);
}

#ifdef _WIN32

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
	struct sp_error *error = read_descriptor(fd, path, ret, ret_size);
	close(fd);
	return error;
}

#else

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
	error = read_descriptor(fd, path, ret, ret_size);
	close(fd);
	return error;
}

#endif
