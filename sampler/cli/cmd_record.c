/* sp record: options, signals, the summary and the exit status around a recording session. */
#include "sampler/cli/cli.h"

#include "common/file.h"
#include "common/words.h"
#include "sampler/record/session.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_OUTPUT "profile.json.gz"
#define DEFAULT_RATE 1000
#define MAX_RATE 1e6
/* CPU time without a sample that makes sp itself fail: this, and this many times what a sample stands for. */
#define SUSPICIOUS_CPU_NS 50000000u
#define SUSPICIOUS_INTERVALS 50

/* ---- Signals ----
 * Handlers can only leave notes; this is the one place with state outside a context. */
static volatile sig_atomic_t stop_signal, stop_alone, stop_at_once, suspend_wanted, stops_seen;
/* A command can still be ended: the second signal does that, the third quits. Else the second one quits. */
static volatile sig_atomic_t command_runs;
/* What a signal that quits says; set before it can come. */
static char *volatile last_words; /* owned; freed never, as a handler may use it */

static void quit(int signal)
{
	const char *words = last_words;
	ssize_t wrote = words ? write(STDERR_FILENO, words, strlen(words)) : 0;
	(void)wrote;
	_exit(128 + signal);
}

static void on_stop(int signal, siginfo_t *info, void *context)
{
	(void)context;
	if (++stops_seen > (command_runs ? 2 : 1))
		quit(signal);
	if (stops_seen == 2) {
		stop_at_once = 1;
		return;
	}
	/* From the terminal the kernel sends it to the whole foreground group, the command included. */
	stop_alone = info->si_code <= 0;
	stop_signal = signal;
}

static void on_suspend(int signal)
{
	(void)signal;
	suspend_wanted = 1;
}

static void on_ignored(int signal)
{
	(void)signal; /* SIGPIPE, SIGXFSZ: the failed write says so; a handler, since ignoring would be inherited */
}

static void catch_signals(uint64_t *ret_ignored)
{
	static const int stops[] = { SIGINT, SIGTERM, SIGHUP };
	for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
		struct sigaction action = { .sa_sigaction = on_stop, .sa_flags = SA_SIGINFO }, old;
		sigaction(stops[i], NULL, &old);
		/* nohup relies on its signal staying ignored. That the others are is how shells without job control
		 * start background jobs: a signal sent to sp is meant, and the command goes on ignoring it. */
		if (old.sa_handler == SIG_IGN && stops[i] == SIGHUP)
			continue;
		if (old.sa_handler == SIG_IGN)
			*ret_ignored |= UINT64_C(1) << (stops[i] - 1);
		sigaction(stops[i], &action, NULL);
	}
	struct sigaction suspend = { .sa_handler = on_suspend }, old;
	sigaction(SIGTSTP, NULL, &old);
	if (old.sa_handler != SIG_IGN)
		sigaction(SIGTSTP, &suspend, NULL);
	struct sigaction ignored = { .sa_handler = on_ignored, .sa_flags = SA_RESTART };
	sigaction(SIGPIPE, &ignored, NULL);
	sigaction(SIGXFSZ, &ignored, NULL);
}

static struct sp_stop_request poll_stop(void *context)
{
	(void)context;
	struct sp_stop_request request = {
		.signal = stop_signal,
		.pass_on = stop_alone,
		.at_once = stop_at_once,
		.suspend = suspend_wanted,
	};
	stop_signal = 0;
	stop_at_once = 0;
	suspend_wanted = 0;
	return request;
}

static void suspend_self(void *context)
{
	(void)context;
	raise(SIGSTOP);
}

/* ---- Options ---- */

/* Everything a recording needs, from the command line. */
struct record {
	struct sp_parsed parsed;
	struct sp_log log;
	struct sp_session_options session;
	struct sp_view_options view;
	spsym_context *symbols;
	char **env;         /* borrowed tail ends: "VAR=value" words; the array is owned */
	char *command_text; /* owned */
	char *cache_folder; /* owned */
	bool serve, terminal;
};

static bool is_assignment(const char *word)
{
	const char *at = word;
	if (!isalpha((unsigned char)*at) && *at != '_')
		return false;
	while (isalnum((unsigned char)*at) || *at == '_')
		at++;
	return *at == '=';
}

static struct sp_error *take_command(struct record *record)
{
	char **words = record->parsed.operands;
	size_t assignments = 0;
	while (words[assignments] && is_assignment(words[assignments]))
		assignments++;
	record->env = calloc(assignments + 1, sizeof(*record->env));
	if (!record->env)
		return sp_error_no_memory();
	memcpy(record->env, words, assignments * sizeof(*words));
	char **argv = words + assignments;
	const char *pid = sp_option_value(&record->parsed, "pid");
	if (pid && *argv)
		return sp_error_create(SP_ERROR_USAGE, "give a command or --pid, not both");
	if (!pid && !*argv)
		return sp_error_create(SP_ERROR_USAGE, "what should be recorded? sp record [options] command "
		                                       "[args...], or sp record -p PID");
	record->session.capture.argv = pid ? NULL : argv;
	record->session.capture.env = record->env;
	record->command_text = pid ? NULL : sp_words_join(argv);
	return NULL;
}

static struct sp_error *take_numbers(struct record *record)
{
	const struct sp_parsed *parsed = &record->parsed;
	double pid, iterations, args;
	struct sp_error *error = sp_option_number(parsed, "pid", 1, INT_MAX, 0, &pid);
	if (!error)
		error = sp_option_number(parsed, "rate", 1, MAX_RATE, DEFAULT_RATE, &record->session.capture.rate);
	if (!error)
		error = sp_option_number(parsed, "duration", 0.001, 1e9, 0, &record->session.duration);
	if (!error)
		error = sp_option_number(parsed, "iteration-count", 1, 1e6, 1, &iterations);
	if (!error)
		error = sp_option_number(parsed, "include-args", 0, INT_MAX, -1, &args);
	if (error)
		return error;
	record->session.capture.pid = (uint32_t)pid;
	record->session.iterations = (unsigned)iterations;
	record->session.profile.include_args = sp_option_given(parsed, "include-args") ? (int)args : 0;
	if (pid > 0 && iterations > 1)
		return sp_error_create(SP_ERROR_USAGE, "--iteration-count runs a command; it does not go with --pid");
	return NULL;
}

static struct sp_error *take_options(struct record *record)
{
	const struct sp_parsed *parsed = &record->parsed;
	struct sp_session_options *session = &record->session;
	struct sp_error *error = take_command(record);
	if (!error)
		error = take_numbers(record);
	if (!error)
		error = sp_cli_view_options(parsed, &record->view);
	if (!error)
		error = sp_cli_symbols(parsed, true, &record->symbols);
	if (error)
		return error;
	const char *output = sp_option_value(parsed, "output");
	if (output && !strcmp(output, "-"))
		return sp_error_create(SP_ERROR_USAGE,
		                       "the profile cannot go to stdout, which is the command's: name a "
		                       "file with -o (./- for one called -)");
	if (sp_option_given(parsed, "save-only") && sp_option_given(parsed, "serve"))
		return sp_error_create(SP_ERROR_USAGE, "--save-only and --serve contradict each other");
	record->log = sp_cli_log(sp_option_given(parsed, "verbose"));
	record->terminal = isatty(STDERR_FILENO);
	record->serve = !sp_option_given(parsed, "save-only") && (record->terminal || sp_option_given(parsed, "serve"));
	session->output = output ? output : DEFAULT_OUTPUT;
	session->ignore_exit_code = sp_option_given(parsed, "ignore-exit-code");
	session->profile.profile_name = sp_option_value(parsed, "profile-name");
	session->profile.main_thread_only = sp_option_given(parsed, "main-thread-only");
	session->profile.reuse_threads = sp_option_given(parsed, "reuse-threads");
	session->profile.fold_recursive_prefix = sp_option_given(parsed, "fold-recursive-prefix");
	session->profile.presymbolicate = sp_option_given(parsed, "presymbolicate") ? record->symbols : NULL;
	session->profile.log = session->capture.log = session->log = &record->log;
	session->command_text = record->command_text;
	error = sp_file_cache_folder("symbols", &record->cache_folder);
	if (error) {
		sp_log(&record->log, SP_LOG_WARNING, "%s; symbols of code that will not exist later are not kept",
		       error->message);
		sp_error_destroy(error);
	}
	session->cache_folder = record->cache_folder;
	return NULL;
}

/* ---- What is said ---- */

static void set_phase(void *context, bool runs, const char *recording_path)
{
	const struct record *record = context;
	char *words = NULL;
	if (!last_words && asprintf(&words, "sp: quit before the profile was written; what was recorded is in %s\n",
	                            recording_path) > 0)
		last_words = words;
	command_runs = runs && !record->session.capture.pid;
}

static void show_progress(void *context, const char *phase, double seconds, uint64_t samples)
{
	const struct record *record = context;
	/* While a command runs, the terminal is the command's. */
	if (record->terminal && record->session.capture.pid)
		fprintf(stderr, "\rsp: %s, %.0f s, %llu samples (Ctrl-C ends it) ", phase, seconds,
		        (unsigned long long)samples);
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void say_losses(const struct sp_session_result *result, const struct sp_log *log)
{
	const uint64_t *ends = result->pipeline.ends;
	uint64_t whole = ends[SP_UNWIND_ROOT], cut = 0;
	for (int end = SP_UNWIND_ROOT + 1; end < SP_UNWIND_NO_REGS; end++)
		cut += ends[end];
	if (cut || result->pipeline.spliced)
		sp_log(log, SP_LOG_INFO,
		       "%llu of %llu user stacks are truncated (%.2f %%), %llu were completed by splicing",
		       (unsigned long long)cut, (unsigned long long)(whole + cut), percent(cut, whole + cut),
		       (unsigned long long)result->pipeline.spliced);
	if (result->pipeline.late)
		sp_log(
		    log, SP_LOG_WARNING,
		    "%llu samples could not be placed (too late, or of a thread that had just ended) and were dropped",
		    (unsigned long long)result->pipeline.late);
	if (result->capture.lost && result->write_error)
		sp_log(log, SP_LOG_WARNING, "%llu records were lost since the recording could not be written",
		       (unsigned long long)result->capture.lost);
	else if (result->capture.lost)
		sp_log(log, SP_LOG_WARNING, "%llu records were lost since sp could not keep up; a lower --rate helps",
		       (unsigned long long)result->capture.lost);
	if (result->capture.throttled)
		sp_log(log, SP_LOG_WARNING, "the kernel throttled sampling %llu times; a lower --rate helps",
		       (unsigned long long)result->capture.throttled);
}

static void say_summary(const struct record *record, const struct sp_session_result *result)
{
	const struct sp_log *log = &record->log;
	if (record->terminal && record->session.capture.pid)
		fputc('\n', stderr);
	sp_log(log, SP_LOG_INFO, "%llu samples, %llu lost, %.2f s of CPU time in %.2f s",
	       (unsigned long long)result->pipeline.samples, (unsigned long long)result->capture.lost,
	       (double)result->pipeline.cpu_ns / 1e9, result->seconds);
	say_losses(result, log);
	sp_log(log, SP_LOG_INFO, "mode: %s; %s, %g Hz", result->mode, result->source, result->rate);
	if (result->rate_note)
		sp_log(log, SP_LOG_WARNING, "%s", result->rate_note);
	uint64_t estimated = result->pipeline.kernel_estimated;
	if (!result->kernel_sampled && result->pipeline.cpu_ns)
		sp_log(log, SP_LOG_INFO,
		       "%.1f %% of the CPU time was in the kernel and not sampled: %llu samples were added for it",
		       percent(estimated, result->pipeline.samples + estimated), (unsigned long long)estimated);
	if (result->shortfall)
		sp_log(log, SP_LOG_INFO, "%s%s%s", result->shortfall, result->cure ? "; to change that: " : "",
		       result->cure ? result->cure : "");
	sp_log(log, SP_LOG_DEBUG, "rings: %.1f MiB", (double)result->ring_bytes / 1048576);
	if (result->empty_reason)
		sp_log(log, SP_LOG_WARNING, "the profile is empty: %s", result->empty_reason);
}

static void say_end_of_command(const struct record *record, const struct sp_session_result *result)
{
	const struct sp_log *log = &record->log;
	const char *what = record->session.capture.pid ? "the process" : "the command";
	if (result->status.signal && !result->stop_signal)
		sp_log(log, SP_LOG_INFO, "%s was killed by signal %d (%s)", what, result->status.signal,
		       strsignal(result->status.signal));
	else if (!result->status.exited && !record->session.capture.pid)
		sp_log(log, SP_LOG_INFO, "the recording ended after %g s; the command was left running",
		       record->session.duration);
	if (result->runs < record->session.iterations && !result->stop_signal && !result->write_error)
		sp_log(log, SP_LOG_INFO,
		       "stopped after run %u of %u since the command failed; --ignore-exit-code goes on", result->runs,
		       record->session.iterations);
}

/* One line for a command that could not be run; returns the exit status that shells use. */
static int say_exec_failure(const struct record *record, int errnum)
{
	const char *command = record->session.capture.argv[0];
	if (errnum == ENOENT)
		sp_log(&record->log, SP_LOG_ERROR, "%s: command not found", command);
	else
		sp_log(&record->log, SP_LOG_ERROR, "cannot run %s: %s", command, strerror(errnum));
	return errnum == ENOENT ? SP_EXIT_NOT_FOUND : SP_EXIT_CANNOT_RUN;
}

static int exit_status(const struct record *record, const struct sp_session_result *result)
{
	bool attached = record->session.capture.pid != 0;
	if (result->write_error)
		return SP_EXIT_RECORD;
	if (!result->pipeline.samples && result->pipeline.cpu_ns > SUSPICIOUS_CPU_NS &&
	    (double)result->pipeline.cpu_ns > SUSPICIOUS_INTERVALS * 1e9 / result->rate)
		return SP_EXIT_RECORD;
	if (attached)
		return 0;
	if (result->stop_signal && (result->stop_passed_on || result->ended_by_us))
		return 128 + result->stop_signal;
	if (!result->status.exited)
		return 0;
	return result->status.signal ? 128 + result->status.signal : result->status.code;
}

static void say_written(const struct record *record, uint64_t bytes)
{
	const char *output = record->session.output;
	char size[SP_CLI_SIZE_TEXT];
	sp_cli_size(bytes, size);
	if (record->serve)
		sp_log(&record->log, SP_LOG_INFO, "wrote %s (%s)", output, size);
	else
		sp_log(&record->log, SP_LOG_INFO, "wrote %s (%s); look at it with: %s load %s", output, size,
		       strchr(program_invocation_name, '/') ? program_invocation_name : "sp", output);
}

/* Says how it went; the status that sp ends with. */
static int report(const struct record *record, const struct sp_session_result *result)
{
	int errnum = result->status.exec_errno;
	if (errnum && !result->runs)
		return say_exec_failure(record, errnum);
	say_summary(record, result);
	say_end_of_command(record, result);
	if (result->write_error && !result->write_error_said)
		sp_log(&record->log, SP_LOG_ERROR, "%s", result->write_error->message);
	if (result->kept_recording)
		sp_log(&record->log, SP_LOG_INFO, "what was recorded is kept in %s", result->kept_recording);
	else if (!result->profile_written)
		sp_log(&record->log, SP_LOG_INFO, "nothing of the recording could be kept");
	if (result->profile_written)
		say_written(record, result->profile_bytes);
	/* An earlier iteration could be run. */
	return errnum ? say_exec_failure(record, errnum) : exit_status(record, result);
}

static struct sp_error *record_and_view(struct record *record, int *ret_status)
{
	struct sp_session_result result;
	catch_signals(&record->session.capture.ignored);
	record->session.phase = set_phase;
	struct sp_error *error = sp_session_run(&record->session, &result);
	if (error)
		return error;
	*ret_status = report(record, &result);
	bool serve = record->serve && result.profile_written;
	/* Ctrl-C ended the command, not the wish to look at the profile; a signal from elsewhere ends all. */
	if (result.stop_signal && result.stop_passed_on && !record->session.capture.pid)
		serve = false;
	sp_session_result_deinit(&result);
	if (!serve)
		return NULL;
	record->view.profile_path = record->session.output;
	record->view.symbols = record->symbols;
	record->view.log = &record->log;
	return sp_cli_serve(&record->parsed, &record->view);
}

static void record_deinit(struct record *record)
{
	if (record->symbols)
		spsym_context_destroy(record->symbols);
	free(record->env);
	free(record->command_text);
	free(record->cache_folder);
	sp_parsed_deinit(&record->parsed);
}

int sp_cmd_record(int argc, char **argv)
{
	struct record record = { 0 };
	record.session.backend = sp_native_backend;
	record.session.poll_stop = poll_stop;
	record.session.suspend = suspend_self;
	record.session.progress = show_progress;
	record.session.context = &record;
	int status = 0;
	if (!sp_cli_parse("record", argc, argv, SP_EXIT_RECORD, &record.parsed, &status)) {
		struct sp_error *error = take_options(&record);
		if (!error)
			error = record_and_view(&record, &status);
		if (error)
			status = sp_cli_fail(error, SP_EXIT_RECORD);
	}
	record_deinit(&record);
	return status;
}
