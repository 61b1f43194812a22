/* The lines of a descriptor in batches: as many whole lines as have come, so that a pipe that talks back and forth is
 * answered line by line, and a file in large pieces. */
#ifndef SP_SAMPLER_CLI_LINES_H
#define SP_SAMPLER_CLI_LINES_H

#include "common/error.h"

#include <stddef.h>

#define SP_LINE_LIMIT ((size_t)1 << 20) /* bytes of one line */

/* Calls `take` for each line up to the end of the input, and `answer` after each batch. A line has no line break; it
 * may be written to and is valid until `answer` has returned. The first error ends the reading. */
struct sp_error *sp_lines_answer(int fd, struct sp_error *(*take)(void *context, char *line),
                                 struct sp_error *(*answer)(void *context), void *context);

#endif
