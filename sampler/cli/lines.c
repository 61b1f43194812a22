/* Input in batches of lines; see lines.h. */
#include "sampler/cli/lines.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifndef _WIN32
#include <poll.h>
#endif

#define READ_SIZE ((size_t)256 << 10)
#define MOST ((size_t)4 << 20) /* bytes of one batch, about */
#define BULK 4096              /* who has sent that many bytes is not typing ... */
#define PATIENCE_MS 2          /* ... and sends more within that time, or waits for an answer */

struct lines {
	int fd;
	char *buffer; /* owned */
	size_t used, given, capacity;
	bool ended;
};

/* Room for a read, and for the NUL behind a last line without line break. */
static struct sp_error *make_room(struct lines *lines)
{
	if (lines->used - lines->given > SP_LINE_LIMIT)
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

/* Whether more input is there, or comes at once: answering many addresses together takes much less time. */
static bool is_more_coming(const struct lines *lines)
{
#ifdef _WIN32
	(void)lines;
	return false;
#else
	struct pollfd waited = { .fd = lines->fd, .events = POLLIN };
	return lines->used < MOST && poll(&waited, 1, lines->used < BULK ? 0 : PATIENCE_MS) > 0;
#endif
}

/* Waits for input and gives the whole lines in it, each ended by '\n' (the last one of the input may lack it); valid
 * until the next call. *ret_size is 0 at the end. */
static struct sp_error *read_batch(struct lines *lines, char **ret, size_t *ret_size)
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
		if (last)
			lines->given = (size_t)(last + 1 - lines->buffer);
		if (lines->given && !is_more_coming(lines))
			break;
	}
	if (lines->ended)
		lines->given = lines->used;
	*ret = lines->buffer;
	*ret_size = lines->given;
	return NULL;
}

/* Takes one line off the front of a batch and NUL-terminates it; false when none is left. */
static bool next_line(char **at, char *end, char **ret)
{
	if (*at >= end)
		return false;
	char *line = *at, *stop = memchr(line, '\n', (size_t)(end - line));
	*at = stop ? stop + 1 : end;
	*(stop ? stop : end) = '\0'; /* behind the end there is room */
	*ret = line;
	return true;
}

struct sp_error *sp_lines_answer(int fd, struct sp_error *(*take)(void *context, char *line),
                                 struct sp_error *(*answer)(void *context), void *context)
{
	struct lines lines = { .fd = fd };
	struct sp_error *error = NULL;
	char *batch, *line;
	size_t size;
	while (!error && !(error = read_batch(&lines, &batch, &size)) && size) {
		char *end = batch + size;
		while (!error && next_line(&batch, end, &line))
			error = take(context, line);
		if (!error)
			error = answer(context);
	}
	free(lines.buffer);
	return error;
}
