/* Importing a trace file into a profile, for sp import and sp load. */
#ifndef SP_SAMPLER_CLI_IMPORT_H
#define SP_SAMPLER_CLI_IMPORT_H

#include "sampler/importer.h"
#include "sampler/output/output.h"

#include <signal.h>

struct sp_cli_import {
	const struct sp_importer_ops *importer;
	struct sp_import_options options; /* paths, filters, log; folder and progress are set here */
	struct sp_profile_options profile;
	const char *output;
};

/* Imports, writes the profile, and says what was there. */
struct sp_error *sp_cli_import_run(struct sp_cli_import *import);

/* The importer for a trace; none is an error. */
struct sp_error *sp_cli_importer_for(const char *path, const struct sp_importer_ops **ret);

/* From begin to end the first SIGINT, SIGTERM or SIGHUP only makes sp_cli_show_progress() cancel, so that what was
 * begun is removed; a second one ends sp at once. sp_cli_import_run() does both itself. */
struct sp_cli_stop {
	struct sigaction before[3];
};
void sp_cli_stop_begin(struct sp_cli_stop *stop);
void sp_cli_stop_end(const struct sp_cli_stop *stop);
/* Ends sp by the signal that came meanwhile, if one did: for when all is cleaned up. */
void sp_cli_stop_if_told(void);

/* The folder of a path, for temporary files; the caller frees it. NULL without memory. */
char *sp_cli_folder_of(const char *path);

/* An import's progress callback; `context` is an unsigned, the last percentage, 100 at first. */
bool sp_cli_show_progress(void *context, uint64_t done, uint64_t total);

/* Filters that import and filter share: --pid, --name, --children, --time-range. The arrays are owned. */
struct sp_cli_filters {
	uint32_t *pids;
	const char **names;
};
struct sp_parsed;
struct sp_error *sp_cli_filters(const struct sp_parsed *parsed, struct sp_cli_filters *filters,
                                struct sp_import_options *ret);
void sp_cli_filters_deinit(struct sp_cli_filters *filters);

#endif
