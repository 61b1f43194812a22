/* Lines of a descriptor in batches: as many whole lines as have come, so that a pipe that talks back and forth is
 * answered line by line, and a file in large pieces. */
#ifndef SP_SAMPLER_CLI_LINES_H
#define SP_SAMPLER_CLI_LINES_H

#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>

#define SP_LINE_LIMIT ((size_t)1 << 20) /* bytes of one line */

struct sp_lines {
	int fd;
	char *buffer; /* owned */
	size_t used, given, capacity;
	bool ended;
};

/* Waits for input and gives the whole lines in it, each ended by '\n' (the last one of the input may lack it); valid
 * until the next call. *ret_size is 0 at the end. The text may be written to. */
struct sp_error *sp_lines_read(struct sp_lines *lines, char **ret, size_t *ret_size);
void sp_lines_deinit(struct sp_lines *lines);

/* Takes one line off the front of a batch and NUL-terminates it, without its line break; false when none is left. */
bool sp_lines_next(char **at, char *end, char **ret);

#endif
