/* A recording from start to profile: runs the backend, the pipeline and the profile builder, follows the command's
 * life.
 *
 * Three threads of its own beside the pipeline's workers: the caller's is the reader, one builds the profile while the
 * recording grows. */
#ifndef SP_SAMPLER_RECORD_SESSION_H
#define SP_SAMPLER_RECORD_SESSION_H

#include "common/error.h"
#include "common/log.h"
#include "sampler/backend.h"
#include "sampler/output/output.h"
#include "sampler/record/pipeline.h"

#include <stdbool.h>
#include <stdint.h>

/* A request from outside to end, as the session polls it. */
struct sp_stop_request {
	int signal;   /* 0 = none */
	bool pass_on; /* only sp got the signal: the command must be told */
	bool at_once; /* asked for the second time: the command gets no more time to end */
	bool suspend; /* Ctrl-Z: sp is to stop itself after pausing the capture */
};

struct sp_session_options {
	const struct sp_backend_ops *backend;
	struct sp_capture_options capture;
	double duration;          /* seconds until the recording ends by itself; 0 = none */
	unsigned iterations;      /* runs of the command; at least 1 */
	bool ignore_exit_code;    /* go on after a failed run */
	const char *output;       /* the profile's path; the recording file is made beside it */
	const char *command_text; /* the command line, for titles */
	const char *cache_folder; /* where files that will not exist later are kept; NULL = nothing is kept */
	struct sp_profile_options profile;
	/* Asked between events; the flags of a request are given once. May be NULL. */
	struct sp_stop_request (*poll_stop)(void *context);
	/* Stops sp itself (SIGSTOP) and returns when it was continued. May be NULL. */
	void (*suspend)(void *context);
	/* Told now and then while recording a running process, and while the profile is written. May be NULL. */
	void (*progress)(void *context, const char *phase, double seconds, uint64_t samples);
	/* Told where the recording is, and with `runs` false when what is left to do is writing the profile. */
	void (*phase)(void *context, bool runs, const char *recording_path);
	void *context;
	const struct sp_log *log;
};

struct sp_session_result {
	struct sp_exit_status status; /* of the last run */
	int stop_signal;              /* the signal that ended the recording, 0 = none */
	bool stop_passed_on;          /* ... and that the command was sent in its turn */
	bool ended_by_us;             /* the command did not end by itself after it */
	unsigned runs;                /* of the command; one that could not be started does not count */
	bool profile_written;
	uint64_t profile_bytes;
	double seconds; /* wall time of the runs */
	struct sp_pipeline_counts pipeline;
	struct sp_capture_counts capture;
	struct sp_profile_summary profile;
	/* Copies from sp_capture_info; owned, NULL where there is none. */
	char *mode, *source, *shortfall, *cure, *rate_note;
	bool kernel_sampled;
	double rate;
	uint64_t ring_bytes;
	char *empty_reason;           /* NULL, or why there is no sample */
	char *kept_recording;         /* NULL, or the recording file that was left since no profile could be written */
	struct sp_error *write_error; /* NULL, or what kept the recording or the profile from being written; owned */
	bool write_error_said;        /* ... was logged when it happened */
};

/* Runs a whole session. An error means that nothing was recorded (events refused, output not writable): the command was
 * not run. Failures later are in the result. */
struct sp_error *sp_session_run(const struct sp_session_options *options, struct sp_session_result *ret);
void sp_session_result_deinit(struct sp_session_result *result);

#endif
