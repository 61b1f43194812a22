/* Work on bytes of unknown origin in a child process with limits.
 *
 * A child is forked for each piece of work. It inherits memory (mappings of the files at hand among it) and gives bytes
 * back through a pipe; it opens nothing: it may not make descriptors, and on Linux only the system calls that memory
 * and that pipe need. Its memory, processor and wall-clock time are bounded. Whatever happens to it, a crash too, is an
 * error message here. */
#ifndef SP_COMMON_LIMITED_H
#define SP_COMMON_LIMITED_H

#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the child writes to. */
struct sp_limited_output {
	int fd;
	bool failed;
	size_t used;
	uint8_t buffer[65536];
};
void sp_limited_put(struct sp_limited_output *out, const void *bytes, size_t size);

struct sp_limited {
	const char *what;   /* who works there, for messages: "libdwarf" */
	const char *name;   /* what it works on */
	uint64_t memory;    /* bytes on top of what the process has */
	unsigned cpu_s;     /* seconds of processor time */
	unsigned wall_s;    /* seconds altogether */
	size_t output_size; /* bytes that it may write */
	/* Runs in the child; must not start threads. False = it failed. */
	bool (*work)(void *context, struct sp_limited_output *out);
	void *context;
};

/* Gives what the child wrote; the caller frees *ret. SP_ERROR_LIMIT: it took too much of something; SP_ERROR_FORMAT: it
 * crashed or failed; SP_ERROR_UNSUPPORTED on Windows. Thread-safe. */
struct sp_error *sp_limited_run(const struct sp_limited *limited, uint8_t **ret, size_t *ret_size);

#endif
