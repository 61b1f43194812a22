/* Input in batches of lines; see lines.h. */
#include "sampler/cli/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_SIZE ((size_t)256 << 10)

/* Room for a read, and for the NUL behind a last line without line break. */
static struct sp_error *make_room(struct sp_lines *lines)
{
	if (lines->used > SP_LINE_LIMIT)
		return sp_error_create(SP_ERROR_LIMIT, "a line of the input is longer than %zu bytes", SP_LINE_LIMIT);
	size_t wanted = lines->used + READ_SIZE + 1;
	if (wanted <= lines->capacity)
		return NULL;
	char *larger = realloc(lines->buffer, wanted);
	if (!larger)
		return sp_error_no_memory();
	lines->buffer = larger;
	lines->capacity = wanted;
	return NULL;
}

struct sp_error *sp_lines_read(struct sp_lines *lines, char **ret, size_t *ret_size)
{
	*ret_size = 0;
	if (lines->given)
		memmove(lines->buffer, lines->buffer + lines->given, lines->used - lines->given);
	lines->used -= lines->given;
	lines->given = 0;
	while (!lines->ended) {
		struct sp_error *error = make_room(lines);
		if (error)
			return error;
		ssize_t got = read(lines->fd, lines->buffer + lines->used, READ_SIZE);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return sp_error_from_errno(errno, "cannot read the input");
		lines->ended = !got;
		char *fresh = lines->buffer + lines->used;
		lines->used += (size_t)got;
		char *last = got ? memrchr(fresh, '\n', (size_t)got) : NULL;
		if (last) {
			lines->given = (size_t)(last + 1 - lines->buffer);
			break;
		}
	}
	if (lines->ended)
		lines->given = lines->used;
	*ret = lines->buffer;
	*ret_size = lines->given;
	return NULL;
}

void sp_lines_deinit(struct sp_lines *lines)
{
	free(lines->buffer);
	*lines = (struct sp_lines){ 0 };
}

bool sp_lines_next(char **at, char *end, char **ret)
{
	if (*at >= end)
		return false;
	char *line = *at, *stop = memchr(line, '\n', (size_t)(end - line));
	*at = stop ? stop + 1 : end;
	*(stop ? stop : end) = '\0'; /* behind the end there is room */
	*ret = line;
	return true;
}
