/* Diagnostics for the person at the terminal. Only commands (sampler/cli, sampler/record, …) print; libraries return
 * errors. A logger is passed where notes must be said as things go (it is not global state). */
#ifndef SP_COMMON_LOG_H
#define SP_COMMON_LOG_H

#include "common/error.h"

enum sp_log_level {
	SP_LOG_ERROR,
	SP_LOG_WARNING,
	SP_LOG_INFO,  /* what a user should know at the default verbosity */
	SP_LOG_DEBUG, /* only with --verbose */
};

struct sp_log {
	enum sp_log_level level; /* messages above this are dropped */
	/* Gets one line without newline. May be called from any thread. NULL = drop all. */
	void (*emit)(void *context, enum sp_log_level level, const char *line);
	void *context;
};

void sp_log(const struct sp_log *log, enum sp_log_level level, const char *format, ...) SP_PRINTF(3, 4);

#endif
