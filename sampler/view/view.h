/* The local viewer: serves one profile and its symbols on loopback, opens the browser. */
#ifndef SP_SAMPLER_VIEW_VIEW_H
#define SP_SAMPLER_VIEW_VIEW_H

#include "common/error.h"
#include "common/log.h"
#include "spsym.h"

#include <stdbool.h>
#include <stdint.h>

struct sp_view_options {
	const char *profile_path; /* .json, .json.gz */
	const char *address;      /* default "127.0.0.1" */
	uint16_t port;            /* default 3000 */
	bool port_search;         /* "3000+": the first free one of 100 */
	bool open_browser;
	const char *profiler_url;  /* front-end; default $PROFILER_URL, else https://profiler.firefox.com */
	const char *viewer_folder; /* --viewer-dir: a built front-end to serve at the site root; NULL = none */
	spsym_context *symbols;    /* borrowed */
	const struct sp_log *log;
};

struct sp_view;
/* Checks the profile, starts serving. */
struct sp_error *sp_view_start(const struct sp_view_options *options, struct sp_view **ret);
/* The address to open; lives as long as the view. */
const char *sp_view_url(const struct sp_view *view);
/* Opens the browser as the user behind sudo, or says on the log what to open (and, over SSH, how to forward the port).
 */
void sp_view_open(struct sp_view *view);
void sp_view_stop(struct sp_view *view);

#endif
