/* The client of debuginfod servers: files by build ID over HTTP. Internal to symbolication/.
 *
 * Environment variables and cache folder are those of elfutils' client (debuginfod-client-config(7)), so that what one
 * tool has downloaded the others find. Unlike it, a server that does not answer is left alone for a minute instead of
 * being waited for each time, and only "404 not found" of every server counts as "does not exist". */
#ifndef SP_SYMBOLICATION_LOCATE_DEBUGINFOD_H
#define SP_SYMBOLICATION_LOCATE_DEBUGINFOD_H

#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sp_debuginfod;

struct sp_debuginfod_options {
	const char *urls; /* separated by blanks; NULL = $DEBUGINFOD_URLS */
	bool offline;     /* only what is in the cache */
	/* Told of downloads; `done` and `total` (0 = unknown) in bytes. False cancels. May be NULL; any thread. */
	bool (*progress)(void *context, const char *url, uint64_t done, uint64_t total);
	void *context;
};

/* *ret is NULL when no server is named. */
struct sp_error *sp_debuginfod_create(const struct sp_debuginfod_options *options, struct sp_debuginfod **ret);
void sp_debuginfod_destroy(struct sp_debuginfod *debuginfod);

/* What a server is asked for. */
enum sp_debuginfod_kind { SP_DEBUGINFOD_DEBUGINFO, SP_DEBUGINFOD_EXECUTABLE, SP_DEBUGINFOD_SOURCE };

/* Gives the path of a file in the cache, downloaded if need be; the caller frees *ret. `source` is an absolute path for
 * SP_DEBUGINFOD_SOURCE, else NULL. Object files are checked against the build ID before they enter the cache. Errors:
 * SP_ERROR_NOT_FOUND when no server has it (also from the cache of misses), SP_ERROR_SYSTEM for trouble on the way; the
 * message tells what each server said. Thread-safe. */
struct sp_error *sp_debuginfod_get(struct sp_debuginfod *debuginfod, const uint8_t *build_id, size_t size,
                                   enum sp_debuginfod_kind kind, const char *source, char **ret);

#endif
