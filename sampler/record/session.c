/* The life of a recording; see session.h.
 *
 * The reader loop waits for the backend, lets the pipeline take what is final, and looks after the command: its end, a
 * signal that asks to end, the time limit. Meanwhile a second thread lets the profile builder follow the recording
 * file, so that little is left to do once the command is gone. */
#include "sampler/record/session.h"

#include "common/clock.h"
#include "common/file.h"
#include "sampler/record/place.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define WAIT_MS 100
#define BUILDER_INTERVAL_MS 250
#define PROGRESS_INTERVAL_NS 500000000u
#ifndef SIGKILL
#define SIGKILL 9 /* Windows has no such signal: a backend there ends the process */
#endif

#define GRACE_NS 2000000000u /* from a passed-on signal to the end of the command */
#define KILL_NS 1000000000u  /* from SIGTERM to SIGKILL */

struct session {
	const struct sp_session_options *options;
	struct sp_session_result *result;
	char *recording_path; /* owned */
	struct sp_recording_writer *recording;
	struct sp_profile_builder *builder;
	struct sp_pipeline *pipeline;
	struct sp_backend *backend;                   /* of the current run */
	uint64_t started, run_started, last_progress; /* sampling clock */
	uint64_t stop_requested;                      /* when the first signal came, 0 = none */
	unsigned kill_stage;                          /* how far ending the command has gone */
	/* The builder's thread. */
	pthread_t thread;
	bool thread_running;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool thread_stop;               /* under lock */
	struct sp_error *builder_error; /* the thread's, read after it ended */
};

static struct sp_error *write_record(struct session *session, const struct sp_record *record)
{
	return sp_recording_write(session->recording, record);
}

static struct sp_error *write_meta(struct session *session, const char *key, const char *value)
{
	if (!value || !*value)
		return NULL;
	struct sp_record record = { .type = SP_RECORD_META, .meta = { .key = key, .value = value } };
	return write_record(session, &record);
}

static void emit_machine(void *context, const char *key, const char *value)
{
	/* A failed write is sticky in the writer: the next checked one reports it. */
	sp_error_destroy(write_meta(context, key, value));
}

/* ---- The builder's thread ---- */

static void *builder_main(void *argument)
{
	struct session *session = argument;
	pthread_mutex_lock(&session->lock);
	while (!session->thread_stop && !session->builder_error) {
		struct timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += BUILDER_INTERVAL_MS * 1000000L;
		until.tv_sec += until.tv_nsec / 1000000000L;
		until.tv_nsec %= 1000000000L;
		pthread_cond_timedwait(&session->wake, &session->lock, &until);
		if (session->thread_stop)
			break;
		pthread_mutex_unlock(&session->lock);
		struct sp_error *error = sp_profile_builder_advance(session->builder);
		pthread_mutex_lock(&session->lock);
		session->builder_error = error;
	}
	pthread_mutex_unlock(&session->lock);
	return NULL;
}

static void stop_builder_thread(struct session *session)
{
	if (!session->thread_running)
		return;
	pthread_mutex_lock(&session->lock);
	session->thread_stop = true;
	pthread_cond_signal(&session->wake);
	pthread_mutex_unlock(&session->lock);
	pthread_join(session->thread, NULL);
	session->thread_running = false;
}

/* ---- Setting up ---- */

static char *copy_string(const char *string)
{
	return string ? strdup(string) : NULL;
}

/* Keeps what the summary needs of the backend's info and writes it into the recording. */
static struct sp_error *record_capture_info(struct session *session, const struct sp_capture_info *info)
{
	struct sp_session_result *result = session->result;
	result->mode = copy_string(info->mode);
	result->source = copy_string(info->source_count ? info->sources[0].name : NULL);
	result->shortfall = copy_string(info->shortfall);
	result->cure = copy_string(info->cure);
	result->rate_note = copy_string(info->rate_note);
	result->kernel_sampled = info->kernel_sampled;
	result->rate = info->rate;
	result->ring_bytes = info->ring_bytes;
	const struct sp_backend_ops *ops = session->options->backend;
	uint32_t pid = session->options->capture.pid;
	char *attached = pid && ops->command_line ? ops->command_line(session->backend, pid) : NULL;
	char interval[32];
	snprintf(interval, sizeof(interval), "%llu", (unsigned long long)info->interval_ns);
	const char *const pairs[][2] = {
		{ SP_META_PRODUCT, "sp" },
		{ SP_META_COMMAND, attached ? attached : session->options->command_text },
		{ SP_META_PROFILE_NAME, session->options->profile.profile_name },
		{ SP_META_MODE, info->mode },
		{ SP_META_SHORTFALL, info->shortfall },
		{ SP_META_CURE, info->cure },
		{ SP_META_RATE_NOTE, info->rate_note },
		{ SP_META_INTERVAL_NS, interval },
	};
	struct sp_error *error = NULL;
	for (size_t i = 0; !error && i < sizeof(pairs) / sizeof(pairs[0]); i++)
		error = write_meta(session, pairs[i][0], pairs[i][1]);
	free(attached);
	if (error)
		return error;
	if (session->options->backend->describe)
		session->options->backend->describe(emit_machine, session);
	return NULL;
}

static struct sp_error *hint(struct sp_error *error)
{
	return error && error->errnum == EMFILE ? sp_error_prefix(error, "raise the limit of open files (ulimit -n)")
	                                        : error;
}

static struct sp_error *open_recording(struct session *session)
{
	struct sp_error *error = sp_recording_place(session->options->output, &session->recording_path);
	if (error)
		return error;
	error = sp_recording_writer_create(session->recording_path, &session->recording);
	if (!error)
		error = sp_profile_builder_create(session->recording_path, &session->options->profile,
		                                  &session->builder);
	if (!error)
		return NULL;
	remove(session->recording_path);
	return hint(error);
}

static struct sp_error *create_pipeline(struct session *session, const struct sp_capture_info *info)
{
	const struct sp_session_options *options = session->options;
	struct sp_pipeline_options pipeline = {
		.ops = options->backend,
		.backend = session->backend,
		.sources = info->sources,
		.source_count = info->source_count,
		.interval_ns = info->interval_ns,
		.kernel_sampled = info->kernel_sampled,
		.whole_system = info->whole_system,
		.root_pid = info->root_pid,
		.cache_folder = options->cache_folder,
		.recording = session->recording,
		.log = options->log,
	};
	return sp_pipeline_create(&pipeline, &session->pipeline);
}

/* ---- The command's life ---- */

static void end_command(struct session *session, uint64_t now)
{
	static const int signals[] = { SIGTERM, SIGKILL };
	uint64_t due = session->stop_requested + GRACE_NS + session->kill_stage * KILL_NS;
	if (session->kill_stage >= 2 || now < due)
		return;
	session->result->ended_by_us = true;
	/* The command had its SIGTERM already when that is what was passed on. */
	if (session->kill_stage == 0 && session->result->stop_signal == SIGTERM)
		session->kill_stage = 1;
	session->options->backend->signal(session->backend, signals[session->kill_stage++]);
}

/* True when the recording must end now. */
static bool handle_requests(struct session *session, uint64_t now)
{
	const struct sp_session_options *options = session->options;
	bool attached = options->capture.pid != 0;
	struct sp_stop_request request = { 0 };
	if (options->poll_stop)
		request = options->poll_stop(options->context);
	if (request.suspend && options->suspend) {
		options->backend->pause(session->backend, true);
		options->suspend(options->context);
		options->backend->pause(session->backend, false);
	}
	if (request.signal && !session->stop_requested) {
		session->stop_requested = now;
		session->result->stop_signal = request.signal;
		session->result->stop_passed_on = request.pass_on;
		if (attached)
			return true;
		if (request.pass_on)
			options->backend->signal(session->backend, request.signal);
	}
	if (request.at_once && !attached && session->kill_stage < 2) {
		sp_log(options->log, SP_LOG_INFO, "the command is ended at once; the next signal ends sp");
		session->result->ended_by_us = true;
		session->kill_stage = 2;
		options->backend->signal(session->backend, SIGKILL);
	}
	if (session->stop_requested && !attached)
		end_command(session, now);
	return options->duration > 0 && (double)(now - session->run_started) >= options->duration * 1e9;
}

static void show_progress(struct session *session, uint64_t now)
{
	const struct sp_session_options *options = session->options;
	if (options->progress && now - session->last_progress >= PROGRESS_INTERVAL_NS) {
		struct sp_pipeline_counts counts;
		sp_pipeline_counts(session->pipeline, &counts);
		options->progress(options->context, "recording", (double)(now - session->started) / 1e9,
		                  counts.samples);
		session->last_progress = now;
	}
}

/* The reader loop of one run. An error is the recording's (disk full): sampling has ended, the command lives on. */
static struct sp_error *read_events(struct session *session)
{
	const struct sp_backend_ops *ops = session->options->backend;
	struct sp_error *error = NULL;
	bool done = false;
	while (!done && !error) {
		uint64_t watermark = 0;
		error = ops->wait(session->backend, WAIT_MS, &watermark);
		if (!error)
			error = sp_pipeline_advance(session->pipeline, watermark);
		uint64_t now = sp_clock_now();
		show_progress(session, now);
		done = handle_requests(session, now) || ops->status(session->backend).exited;
	}
	ops->stop(session->backend);
	return error;
}

/* Waits for a command whose recording had to end early. */
static void wait_for_command(struct session *session)
{
	const struct sp_backend_ops *ops = session->options->backend;
	while (!ops->status(session->backend).exited) {
		uint64_t watermark;
		struct timespec pause = { .tv_nsec = 20000000 };
		sp_error_destroy(ops->wait(session->backend, WAIT_MS, &watermark));
		nanosleep(&pause, NULL);
		if (handle_requests(session, sp_clock_now()))
			break;
	}
}

static void emit_survivor(void *context, uint32_t pid, const char *name)
{
	const struct session *session = context;
	sp_log(session->options->log, SP_LOG_INFO,
	       "process %u (%s) lives on; it was left alone (sp record -p %u records it)", pid, name, pid);
}

/* One run of the command, from its start to the last event. */
static void run(struct session *session)
{
	const struct sp_backend_ops *ops = session->options->backend;
	struct sp_session_result *result = session->result;
	session->run_started = sp_clock_now();
	struct sp_error *error = ops->start(session->backend);
	if (!error)
		error = read_events(session);
	uint64_t end = sp_clock_now();
	if (!error)
		error = sp_pipeline_advance(session->pipeline, UINT64_MAX);
	if (!error)
		error = sp_pipeline_finish(session->pipeline, end);
	if (error && !session->options->capture.pid) {
		sp_log(session->options->log, SP_LOG_WARNING, "the recording ended early: %s", error->message);
		result->write_error_said = true;
		wait_for_command(session);
	}
	result->write_error = error;
	result->seconds += (double)(end - session->run_started) / 1e9;
	result->status = ops->status(session->backend);
	struct sp_capture_counts counts = ops->counts(session->backend);
	result->capture.lost += counts.lost;
	result->capture.throttled += counts.throttled;
	/* What could not be run is no run. */
	result->runs += !result->status.exec_errno;
	sp_pipeline_survivors(session->pipeline, emit_survivor, session);
}

static bool wants_another_run(const struct session *session)
{
	const struct sp_session_result *result = session->result;
	if (result->runs >= session->options->iterations || result->stop_signal || result->write_error ||
	    !result->status.exited || result->status.exec_errno)
		return false;
	bool failed = result->status.signal || result->status.code;
	return !failed || session->options->ignore_exit_code;
}

/* ---- Ending ---- */

static char *describe_emptiness(const struct session *session)
{
	const struct sp_session_result *result = session->result;
	char text[256];
	if (result->capture.lost)
		snprintf(text, sizeof(text), "all samples were lost (%llu records)",
		         (unsigned long long)result->capture.lost);
	else
		snprintf(
		    text, sizeof(text),
		    "no sample was taken: the program used %.1f ms of CPU time, a sample is due every %.1f ms of it",
		    (double)result->pipeline.cpu_ns / 1e6, 1000.0 / result->rate);
	return strdup(text);
}

static struct sp_error *close_recording(struct session *session)
{
	struct sp_session_result *result = session->result;
	sp_pipeline_counts(session->pipeline, &result->pipeline);
	if (!result->pipeline.samples)
		result->empty_reason = describe_emptiness(session);
	struct sp_error *error = write_meta(session, SP_META_EMPTY, result->empty_reason);
	struct sp_error *finish_error = sp_recording_writer_finish(session->recording);
	session->recording = NULL;
	if (error)
		sp_error_destroy(finish_error);
	return error ? error : finish_error;
}

/* Writes the profile from whatever the recording holds. */
static void write_profile(struct session *session)
{
	struct sp_session_result *result = session->result;
	struct sp_error *error = close_recording(session);
	if (error && !result->write_error) {
		result->write_error = error;
		result->write_error_said = false;
	} else {
		sp_error_destroy(error);
	}
	stop_builder_thread(session);
	error = session->builder_error;
	session->builder_error = NULL;
	if (!error)
		error = sp_profile_builder_write(session->builder, session->options->output, &result->profile);
	struct stat status;
	if (error) {
		sp_error_destroy(result->write_error);
		result->write_error = error;
		result->write_error_said = false;
		/* A file without a whole segment, or without a sample, is of no use. */
		if (result->pipeline.samples && !stat(session->recording_path, &status) && status.st_size > 0)
			result->kept_recording = copy_string(session->recording_path);
		else
			remove(session->recording_path);
		return;
	}
	result->profile_written = true;
	if (!stat(session->options->output, &status))
		result->profile_bytes = (uint64_t)status.st_size;
	remove(session->recording_path);
}

static void session_deinit(struct session *session)
{
	stop_builder_thread(session);
	sp_error_destroy(session->builder_error);
	sp_pipeline_destroy(session->pipeline);
	if (session->backend)
		session->options->backend->destroy(session->backend);
	sp_profile_builder_destroy(session->builder);
	if (session->recording) {
		sp_error_destroy(sp_recording_writer_finish(session->recording));
		remove(session->recording_path);
	}
	free(session->recording_path);
	pthread_cond_destroy(&session->wake);
	pthread_mutex_destroy(&session->lock);
}

static struct sp_error *add_streams(struct session *session)
{
	const struct sp_backend_ops *ops = session->options->backend;
	for (size_t i = 0; i < ops->stream_count(session->backend); i++) {
		struct sp_error *error = sp_pipeline_add_stream(session->pipeline, ops->stream(session->backend, i));
		if (error)
			return error;
	}
	return NULL;
}

/* Everything that may fail before the command runs. */
static struct sp_error *prepare(struct session *session)
{
	const struct sp_session_options *options = session->options;
	struct sp_error *error = options->backend->create(&options->capture, &session->backend);
	if (error)
		return error;
	error = open_recording(session);
	if (error)
		return error;
	if (options->phase)
		options->phase(options->context, true, session->recording_path);
	session->started = sp_clock_now();
	const struct sp_capture_info *info = options->backend->info(session->backend);
	error = record_capture_info(session, info);
	if (!error)
		error = create_pipeline(session, info);
	if (!error)
		error = add_streams(session);
	if (error)
		return error;
	if (pthread_create(&session->thread, NULL, builder_main, session))
		return sp_error_create(SP_ERROR_SYSTEM, "cannot start a thread");
	session->thread_running = true;
	return NULL;
}

/* The next iteration: a new backend feeds the same pipeline. */
static struct sp_error *prepare_next_run(struct session *session)
{
	const struct sp_session_options *options = session->options;
	options->backend->destroy(session->backend);
	session->backend = NULL;
	struct sp_error *error = options->backend->create(&options->capture, &session->backend);
	if (!error)
		error = sp_pipeline_next_run(session->pipeline, session->backend,
		                             options->backend->info(session->backend)->root_pid);
	return error ? error : add_streams(session);
}

struct sp_error *sp_session_run(const struct sp_session_options *options, struct sp_session_result *ret)
{
	*ret = (struct sp_session_result){ 0 };
	struct session session = { .options = options, .result = ret };
	pthread_mutex_init(&session.lock, NULL);
	pthread_cond_init(&session.wake, NULL);
	struct sp_error *error = prepare(&session);
	if (!error) {
		run(&session);
		while (wants_another_run(&session)) {
			ret->write_error = prepare_next_run(&session);
			if (ret->write_error)
				break;
			run(&session);
		}
		if (options->phase)
			options->phase(options->context, false, session.recording_path);
		if (ret->runs)
			write_profile(&session);
	}
	session_deinit(&session);
	return error;
}

void sp_session_result_deinit(struct sp_session_result *result)
{
	free(result->mode);
	free(result->source);
	free(result->shortfall);
	free(result->cure);
	free(result->rate_note);
	free(result->empty_reason);
	free(result->kept_recording);
	sp_error_destroy(result->write_error);
	*result = (struct sp_session_result){ 0 };
}
