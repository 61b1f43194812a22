/* Reads source files that debug information names. */
#include "internal.h"

#include <errno.h>
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

struct sp_error *api_read_source_descriptor(int fd, const char *path, char **ret, size_t *ret_size)
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
