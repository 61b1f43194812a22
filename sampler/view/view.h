/* The local viewer: serves one profile and its symbols on loopback, opens the browser. */
#ifndef SP_SAMPLER_VIEW_VIEW_H
#define SP_SAMPLER_VIEW_VIEW_H

#include "common/error.h"
#include "common/log.h"
#include "spsym.h"

#include <stdbool.h>
#include <stdint.h>

/* All pointers are borrowed for the call, but `symbols` and `log` until sp_view_stop(). */
struct sp_view_options {
	const char *profile_path;     /* .json, .json.gz, .jslb; opened anew for each request */
	const char *address;          /* default "127.0.0.1" */
	uint16_t port;                /* default 3000 */
	bool port_search;             /* "3000+": the first free one of 100 */
	bool any_port;                /* one that the system picks, for tests; `port` is ignored */
	const char *profiler_url;     /* front-end; default $PROFILER_URL, else https://profiler.firefox.com */
	const char *viewer_folder;    /* --viewer-dir: a built front-end to serve at the site root; NULL = none */
	const char *const *map_paths; /* "from=to" for source files (sp_api_options); NULL-terminated; may be NULL */
	spsym_context *symbols;
	const struct sp_log *log; /* may be NULL */
};

struct sp_view;
/* Looks whether the file can be a profile (its first bytes; nothing else is read before it is asked for) and starts
 * serving it at a random path that only the returned address tells. SP_ERROR_FORMAT: it is no profile; SP_ERROR_SYSTEM:
 * the port is taken. Signals stay with the calling thread. */
struct sp_error *sp_view_start(const struct sp_view_options *options, struct sp_view **ret);
/* The address to open in a browser: the front-end with the profile; lives as long as the view. */
const char *sp_view_url(const struct sp_view *view);
/* The address of the symbol server, without a slash at its end. */
const char *sp_view_symbol_server(const struct sp_view *view);
/* Says on the log what to open, and opens it in the browser of this session: $BROWSER, else the desktop's; under sudo
 * as the user behind it. Over SSH and without a display it says how to reach the port instead. */
void sp_view_open(struct sp_view *view);
/* Only says it. */
void sp_view_say(struct sp_view *view);
/* Waits for the look-ups that run. NULL is fine. */
void sp_view_stop(struct sp_view *view);

#endif
