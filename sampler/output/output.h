/* The processed Firefox Profiler profile, from a recording file. */
#ifndef SP_SAMPLER_OUTPUT_OUTPUT_H
#define SP_SAMPLER_OUTPUT_OUTPUT_H

#include "common/error.h"
#include "common/log.h"
#include "spsym.h"

#include <stdbool.h>
#include <stdint.h>

#define SP_PROFILE_VERSION_DEFAULT 66

struct sp_profile_options {
	unsigned version;         /* 60, 66 or 70; 0 = SP_PROFILE_VERSION_DEFAULT */
	const char *profile_name; /* NULL = the recording's */
	bool main_thread_only;
	bool reuse_threads;         /* --reuse-threads: later runs' processes and threads join earlier ones by name */
	bool fold_recursive_prefix; /* --fold-recursive-prefix */
	int include_args;           /* --include-args: words of the command line in process names; -1 = all, 0 = none */
	spsym_context *presymbolicate; /* not NULL: bake names, inline frames and lines into the profile */
	const struct sp_log *log;
};

/* What the writer saw, for the summary. */
struct sp_profile_summary {
	uint64_t samples, off_cpu_samples;    /* without those added for unsampled time in the kernel */
	uint64_t truncated, spliced, guessed; /* stacks */
	uint64_t lost, throttled;
	uint64_t processes, threads;
	uint64_t kernel_unsampled_ns; /* CPU time that only switch records show, and all of it */
	uint64_t cpu_ns;
};

/* What sp_profile_symbolicate() did. */
struct sp_symbolicate_summary {
	uint64_t frames;  /* in the profile */
	uint64_t named;   /* of those: got a name that they did not have */
	uint64_t inlined; /* new frames, of inlined functions */
};
/* Whether a file begins as the JSON of a profile does, compressed with gzip or not. */
bool sp_profile_probe(const char *path);
/* Writes a copy of a saved profile (JSON of format 60 to 70, also gzipped) to `output`, in which frames that had only
 * addresses have names, files, lines and inlined functions, as with `presymbolicate`. Everything else is kept as it is.
 * `output` may be the same file; gzip when it ends in ".gz". */
struct sp_error *sp_profile_symbolicate(const char *path, const char *output, spsym_context *symbols,
                                        const struct sp_log *log, struct sp_symbolicate_summary *ret);

/* A builder follows a recording while it is written, so that little is left to do at its end. */
struct sp_profile_builder;
struct sp_error *sp_profile_builder_create(const char *recording_path, const struct sp_profile_options *options,
                                           struct sp_profile_builder **ret);
/* Takes in what has been written so far. Call it from one thread, now and then. */
struct sp_error *sp_profile_builder_advance(struct sp_profile_builder *builder);
/* Takes in the rest and writes `path` (gzip when it ends in ".gz"); "-" is not special. Atomic: a temporary file beside
 * it is renamed. */
struct sp_error *sp_profile_builder_write(struct sp_profile_builder *builder, const char *path,
                                          struct sp_profile_summary *ret);
void sp_profile_builder_destroy(struct sp_profile_builder *builder);

#endif
