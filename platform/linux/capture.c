/* The Linux backend: perf_event. This file ties the parts together; each of them explains itself:
 * perf_session (which events), perf_ring and perf_decode (records to events), launch and attach (the target),
 * found (what was there before), rate, target (looking into processes). */
#include "platform/linux/capture.h"

#include "common/clock.h"
#include "platform/linux/attach.h"
#include "platform/linux/machine.h"
#include "platform/linux/rate.h"
#include "platform/linux/refusal.h"
#include "platform/linux/setup.h"
#include "platform/linux/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

/* A record may be seen this much later than its time. */
#define MARGIN_NS 2000000u
/* Where the kernel has no pidfd, a wait lasts at most this long, so that the command's end is noticed. */
#define TIMEOUT_WITHOUT_PIDFD_MS 20

/* A busy process needs an event a thread and CPU. The command was forked before and keeps its own limit. */
static void raise_file_limit(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static struct sp_error *open_session(struct sp_backend *backend)
{
	const struct sp_capture_options *options = &backend->options;
	struct sp_error *error = sp_rate_choose(options->rate == 0 ? 1000 : options->rate, &backend->info.rate,
	                                        &backend->rate_note);
	if (error)
		return error;
	uint32_t stack = options->stack_bytes ? options->stack_bytes : SP_PERF_STACK_MAX;
	struct sp_perf_wish wish = {
		.rate = backend->info.rate,
		.stack_bytes = stack < SP_PERF_STACK_MAX ? stack : SP_PERF_STACK_MAX,
		.launching = !options->pid,
		.log = options->log,
	};
	return sp_perf_session_init(&backend->session, &wish);
}

static struct sp_error *open_target(struct sp_backend *backend, uint64_t begin)
{
	struct sp_perf_session *session = &backend->session;
	uint32_t pid = backend->options.pid;
	session->filter.recorder_pid = (uint32_t)getpid();
	if (pid) {
		backend->target_pidfd = sp_pidfd_open((int)pid);
		return sp_attach(session, &backend->found, begin, pid);
	}
	session->filter.command_pid = (uint32_t)backend->launch.pid;
	return sp_perf_session_choose(session, session->filter.command_pid);
}

static void describe_mode(struct sp_backend *backend)
{
	struct sp_capture_info *info = &backend->info;
	struct sp_perf_session *session = &backend->session;
	info->kernel_sampled = session->mode != SP_PERF_MODE_THREAD_USER;
	info->whole_system = session->mode == SP_PERF_MODE_SYSTEM;
	switch (session->mode) {
	case SP_PERF_MODE_SYSTEM:
		info->mode = "per-CPU events";
		break;
	case SP_PERF_MODE_THREAD:
		info->mode = "per-thread events";
		info->shortfall = "processes that live only for a few ms are sampled too seldom";
		break;
	case SP_PERF_MODE_THREAD_USER:
		info->mode = "per-thread events, user code only";
		info->shortfall = "kernel code is not sampled, and processes that live only for a few ms are "
		                  "sampled too seldom";
		break;
	}
	if (info->shortfall)
		info->cure = sp_refusal_cure();
	bool cycles = session->attr[SP_RING_SAMPLES].type == SP_PERF_TYPE_HARDWARE;
	backend->source = (struct sp_source){ .name = sp_perf_session_source(session),
		                              .unit = cycles ? "cycles" : "ns",
		                              .rate = info->rate };
	info->sources = &backend->source;
	info->source_count = 1;
	info->interval_ns = (uint64_t)(1e9 / info->rate + 0.5);
	info->rate_note = backend->rate_note;
	info->ring_bytes = session->ring_bytes;
	info->root_pid = backend->options.pid ? backend->options.pid : session->filter.command_pid;
}

static struct sp_error *make_polls(struct sp_backend *backend)
{
	struct sp_perf_session *session = &backend->session;
	backend->poll_count = SP_POLL_RINGS + session->cpu_count * SP_RINGS;
	backend->polls = calloc(backend->poll_count, sizeof(*backend->polls));
	if (!backend->polls)
		return sp_error_no_memory();
	backend->polls[SP_POLL_INTERRUPT].fd = backend->interrupt_fd;
	backend->polls[SP_POLL_TARGET].fd = backend->options.pid ? backend->target_pidfd : backend->launch.pidfd;
	backend->polls[SP_POLL_EXEC].fd = backend->launch.exec_fd;
	for (size_t i = 0; i < session->cpu_count * SP_RINGS; i++)
		backend->polls[SP_POLL_RINGS + i].fd = session->cpus[i / SP_RINGS].owner[i % SP_RINGS];
	for (size_t i = 0; i < backend->poll_count; i++)
		backend->polls[i].events = POLLIN;
	return NULL;
}

static struct sp_error *open_capture(struct sp_backend *backend)
{
	/* The child is made first: it must inherit neither priority nor limits of the recorder. */
	struct sp_error *error = NULL;
	if (!backend->options.pid)
		error = sp_launch_init(&backend->launch, backend->options.argv, backend->options.env,
		                       backend->options.ignored);
	if (error)
		return error;
	raise_file_limit();
	sp_priority_raise(&backend->priority);
	backend->interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (backend->interrupt_fd < 0)
		return sp_error_from_errno(errno, "eventfd");
	uint64_t begin = sp_clock_now();
	error = open_session(backend);
	if (!error)
		error = open_target(backend, begin);
	if (!error && backend->session.mode != SP_PERF_MODE_THREAD_USER)
		error = sp_found_events_add_kernel(&backend->found, begin);
	if (!error)
		error = make_polls(backend);
	if (!error)
		describe_mode(backend);
	return error;
}

static void capture_destroy(struct sp_backend *backend)
{
	sp_launch_deinit(&backend->launch);
	sp_perf_session_deinit(&backend->session);
	sp_found_events_deinit(&backend->found);
	sp_priority_restore(&backend->priority);
	if (backend->target_pidfd >= 0)
		close(backend->target_pidfd);
	if (backend->interrupt_fd >= 0)
		close(backend->interrupt_fd);
	free(backend->polls);
	free(backend->rate_note);
	free(backend);
}

static struct sp_error *capture_create(const struct sp_capture_options *options, struct sp_backend **ret)
{
	if (!options->pid && (!options->argv || !options->argv[0]))
		return sp_error_create(SP_ERROR_USAGE, "neither a command nor a process to record");
	struct sp_backend *backend = calloc(1, sizeof(*backend));
	if (!backend)
		return sp_error_no_memory();
	backend->options = *options;
	backend->launch = (struct sp_launch){ .pidfd = -1, .go_fd = -1, .exec_fd = -1 };
	backend->target_pidfd = backend->interrupt_fd = -1;
	sp_found_events_init(&backend->found);
	struct sp_error *error = open_capture(backend);
	if (error) {
		error = sp_refusal_explain(error, options->pid);
		capture_destroy(backend);
		return error;
	}
	*ret = backend;
	return NULL;
}

static const struct sp_capture_info *capture_info(struct sp_backend *backend)
{
	return &backend->info;
}

/* Streams: what was found, then the rings of each CPU. */
static size_t capture_stream_count(struct sp_backend *backend)
{
	return 1 + backend->session.cpu_count * SP_RINGS;
}

static struct sp_stream *capture_stream(struct sp_backend *backend, size_t index)
{
	if (index == 0)
		return &backend->found.stream;
	index--;
	return &backend->session.cpus[index / SP_RINGS].ring[index % SP_RINGS].stream;
}

static struct sp_error *capture_start(struct sp_backend *backend)
{
	struct sp_perf_session *session = &backend->session;
	backend->started = true;
	sp_priority_raise_helpers(&backend->priority);
	if (backend->options.pid) {
		sp_perf_session_enable(session, 0, SP_RING_SAMPLES, true);
		session->filter.first_sample = sp_clock_now();
		return NULL;
	}
	sp_perf_session_enable(session, 0, SP_RING_SIDE_BAND, true);
	/* Events of threads begin with the exec by themselves. */
	if (session->mode == SP_PERF_MODE_SYSTEM)
		sp_perf_session_enable(session, 0, SP_RING_SAMPLES, true);
	return sp_launch_go(&backend->launch);
}

/* Until the command's exec was seen, its events are of sp's own image. Samples were made readable before the side band,
 * so one that came after the exec cannot be readable without it. */
static void look_for_exec(struct sp_backend *backend)
{
	struct sp_perf_session *session = &backend->session;
	struct sp_perf_filter *filter = &session->filter;
	uint64_t earliest = UINT64_MAX;
	for (size_t i = 0; i < session->cpu_count; i++) {
		uint64_t time;
		if (sp_perf_ring_find_exec(&session->cpus[i].ring[SP_RING_SIDE_BAND], filter->command_pid, &time) &&
		    time < earliest)
			earliest = time;
	}
	if (earliest == UINT64_MAX)
		return;
	filter->exec_time = earliest;
	filter->command_runs = true;
}

static void snapshot(struct sp_backend *backend)
{
	sp_perf_session_snapshot(&backend->session);
	if (backend->session.filter.command_pid && !backend->session.filter.command_runs)
		look_for_exec(backend);
}

/* After their one message, descriptors that stay readable are watched no more. */
static void take_polls(struct sp_backend *backend)
{
	struct pollfd *polls = backend->polls;
	if (polls[SP_POLL_INTERRUPT].revents) {
		uint64_t count;
		while (read(backend->interrupt_fd, &count, sizeof(count)) < 0 && errno == EINTR)
			;
	}
	if (polls[SP_POLL_EXEC].revents) {
		sp_launch_poll_exec(&backend->launch);
		polls[SP_POLL_EXEC].fd = backend->launch.exec_fd;
	}
	if (polls[SP_POLL_TARGET].revents)
		polls[SP_POLL_TARGET].fd = -1;
	for (size_t i = SP_POLL_RINGS; i < backend->poll_count; i++) {
		if (polls[i].revents & (POLLHUP | POLLERR | POLLNVAL))
			polls[i].fd = -1;
	}
}

static struct sp_error *capture_wait(struct sp_backend *backend, int timeout_ms, uint64_t *ret_watermark)
{
	bool blind = !backend->options.pid && backend->launch.pidfd < 0;
	if (blind && (timeout_ms < 0 || timeout_ms > TIMEOUT_WITHOUT_PIDFD_MS))
		timeout_ms = TIMEOUT_WITHOUT_PIDFD_MS;
	int ready = poll(backend->polls, backend->poll_count, timeout_ms);
	if (ready < 0 && errno != EINTR)
		return sp_error_from_errno(errno, "cannot wait for events");
	if (ready > 0)
		take_polls(backend);
	uint64_t now = sp_clock_now();
	snapshot(backend);
	*ret_watermark = now - MARGIN_NS;
	return NULL;
}

static struct sp_exit_status capture_status(struct sp_backend *backend)
{
	if (!backend->options.pid)
		return sp_launch_status(&backend->launch);
	struct sp_exit_status status = { 0 };
	struct pollfd poll_fd = { .fd = backend->target_pidfd, .events = POLLIN };
	if (backend->target_pidfd >= 0)
		status.exited = poll(&poll_fd, 1, 0) > 0;
	else
		status.exited = kill((int)backend->options.pid, 0) && errno == ESRCH;
	return status;
}

static void capture_signal(struct sp_backend *backend, int number)
{
	if (!backend->options.pid)
		sp_launch_signal(&backend->launch, number);
}

static void capture_interrupt(struct sp_backend *backend)
{
	const uint64_t one = 1;
	int saved = errno;
	ssize_t wrote = write(backend->interrupt_fd, &one, sizeof(one));
	(void)wrote; /* full means: it is readable already */
	errno = saved;
}

static void capture_pause(struct sp_backend *backend, bool paused)
{
	if (backend->started && !backend->stopped)
		sp_perf_session_enable(&backend->session, 0, SP_RING_SAMPLES, !paused);
}

/* Records dropped at the very end had no later record to tell of them. */
static void tell_last_losses(struct sp_backend *backend, uint64_t now)
{
	struct sp_perf_session *session = &backend->session;
	for (size_t i = 0; i < session->cpu_count; i++) {
		for (int ring = 0; ring < SP_RINGS; ring++)
			sp_perf_ring_finish(&session->cpus[i].ring[ring], sp_perf_session_lost(session, i, ring), now);
	}
}

static void capture_stop(struct sp_backend *backend)
{
	if (backend->stopped)
		return;
	backend->stopped = true;
	sp_perf_session_enable(&backend->session, 0, SP_RING_SAMPLES, false);
	sp_perf_session_enable(&backend->session, 0, SP_RING_SIDE_BAND, false);
	snapshot(backend);
	tell_last_losses(backend, sp_clock_now());
	sp_priority_restore(&backend->priority);
}

static struct sp_capture_counts capture_counts(struct sp_backend *backend)
{
	struct sp_perf_session *session = &backend->session;
	struct sp_capture_counts counts = { 0 };
	for (size_t i = 0; i < session->cpu_count; i++) {
		for (int ring = 0; ring < SP_RINGS; ring++) {
			counts.lost += sp_perf_session_lost(session, i, ring);
			counts.throttled += session->cpus[i].ring[ring].throttled;
		}
	}
	return counts;
}

static const struct sp_backend_ops perf_event_ops = {
	.name = "perf_event",
	.create = capture_create,
	.info = capture_info,
	.stream_count = capture_stream_count,
	.stream = capture_stream,
	.start = capture_start,
	.wait = capture_wait,
	.status = capture_status,
	.signal = capture_signal,
	.interrupt = capture_interrupt,
	.pause = capture_pause,
	.stop = capture_stop,
	.counts = capture_counts,
	.open_mapped_file = sp_target_open_mapped_file,
	.read_memory = sp_target_read_memory,
	.target_path = sp_target_path,
	.target_pid = sp_target_pid,
	.command_line = sp_target_command_line,
	.destroy = capture_destroy,
	.describe = sp_machine_describe,
	.setup = sp_linux_setup,
};

const struct sp_backend_ops *const sp_native_backend = &perf_event_ops;
