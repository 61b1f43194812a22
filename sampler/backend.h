/* What an OS backend implements: live capture of a command or of running processes.
 *
 * Threads: the sampler calls everything here from its one reader thread, except where noted. A backend needs no thread
 * of its own. The reader does not unwind: it takes events from the streams, in time order up to the watermark, and
 * hands samples to workers, which read the stack bytes where they lie until the event is released. */
#ifndef SP_SAMPLER_BACKEND_H
#define SP_SAMPLER_BACKEND_H

#include "common/error.h"
#include "common/log.h"
#include "sampler/event.h"

struct sp_backend;

/* What the user asked for. Strings and arrays are borrowed until the backend is destroyed. */
struct sp_capture_options {
	char *const *argv;    /* the command, NULL-terminated; NULL when attaching */
	char *const *env;     /* "VAR=value" to add for the command, NULL-terminated; may be NULL */
	uint32_t pid;         /* attach to this process; 0 when launching */
	double rate;          /* samples a second of CPU time; default 1000 */
	uint64_t ignored;     /* bit N - 1: signal N, which sp handles, is ignored in the command, as sp found it */
	uint32_t stack_bytes; /* user stack bytes to copy a sample; 0 = the default, 65528 on Linux */
	const struct sp_log *log;
};

/* What a sample counts. */
struct sp_source {
	const char *name; /* "cycles", "cpu-clock", ... */
	const char *unit; /* "samples", "cycles", "ns" */
	double rate;      /* nominal samples a second, 0 = not periodic */
};

/* How the capture runs, for the summary and the profile's info panel. Strings live as long as the backend. */
struct sp_capture_info {
	const char *mode;      /* short: "per-CPU events", "per-thread events, user code only", ... */
	const char *shortfall; /* NULL, or what is missing, in one sentence: "kernel code is not sampled" */
	const char *cure;      /* NULL, or the exact command that would allow the better mode */
	bool kernel_sampled;   /* samples in the kernel are delivered */
	bool whole_system;     /* events of all processes are delivered; the sampler filters by the process tree */
	double rate;           /* in force, after calibration */
	uint64_t interval_ns;
	const char *rate_note; /* NULL, or why the rate differs from the one asked for */
	uint64_t ring_bytes;   /* memory of all rings */
	uint32_t root_pid;     /* the command, or the process attached to */
	const struct sp_source *sources;
	size_t source_count;
};

/* Counts kept by the OS, exact, read at the end. */
struct sp_capture_counts {
	uint64_t lost;      /* records the OS says it dropped (read_format LOST, lost events) */
	uint64_t throttled; /* times the OS slowed sampling down */
};

/* How the command ended. */
struct sp_exit_status {
	bool exited;    /* false: still running (attach, --duration) */
	int code;       /* exit code when signal == 0 */
	int signal;     /* the signal that killed it, else 0 */
	int exec_errno; /* the command could not be run: errno of exec, else 0 */
};

/* Rights to sample, given to sp or to all users of the machine by its administrator. */
enum sp_setup_action {
	SP_SETUP_STATUS, /* change nothing, tell what is */
	SP_SETUP_GRANT,  /* the narrowest grant that works: to the sp binary where the OS can do that */
	SP_SETUP_SYSTEM, /* to all programs, by a system setting */
	SP_SETUP_UNDO,   /* take back what the two gave */
};

struct sp_backend_ops {
	const char *name; /* "perf_event" */
	/* Opens the capture: launches the command stopped before its exec (or lists the process to attach to), opens
	 * events and rings. The error's message says what to do. */
	struct sp_error *(*create)(const struct sp_capture_options *options, struct sp_backend **ret);
	const struct sp_capture_info *(*info)(struct sp_backend *backend);
	/* Streams; fixed after create(), except that `count` may grow while attaching. */
	size_t (*stream_count)(struct sp_backend *backend);
	struct sp_stream *(*stream)(struct sp_backend *backend, size_t index);
	/* Lets the command go. */
	struct sp_error *(*start)(struct sp_backend *backend);
	/* Waits until there is something to read, the command ended, or `timeout_ms` passed; then publishes the
	 * watermark: every event with time < *ret_watermark has been or will now be given by the streams' next(). */
	struct sp_error *(*wait)(struct sp_backend *backend, int timeout_ms, uint64_t *ret_watermark);
	/* The command's state, without blocking. Callable from any thread. */
	struct sp_exit_status (*status)(struct sp_backend *backend);
	/* Sends a signal (number of this OS) to the command. Callable from any thread. */
	void (*signal)(struct sp_backend *backend, int signal);
	/* Makes a running wait() return soon. Async-signal-safe, callable from any thread. */
	void (*interrupt)(struct sp_backend *backend);
	/* Suspends and resumes sampling, while sp itself is stopped by Ctrl-Z. */
	void (*pause)(struct sp_backend *backend, bool paused);
	/* Stops sampling; the streams still give what was recorded. */
	void (*stop)(struct sp_backend *backend);
	struct sp_capture_counts (*counts)(struct sp_backend *backend);
	/* Opens the file behind a mapping of a live process for reading, also when it was deleted or lies in another
	 * mount namespace. Callable from any thread. On systems without descriptors unsupported. */
	struct sp_error *(*open_mapped_file)(struct sp_backend *backend, uint32_t pid, const struct sp_event_map *map,
	                                     int *ret_fd);
	/* Bytes of a live process's memory (vdso, code made at run time). Callable from any thread. */
	struct sp_error *(*read_memory)(struct sp_backend *backend, uint32_t pid, uint64_t address, void *buffer,
	                                size_t size);
	/* The path, here, of a file that the target names (perf-PID.map in its namespaces). The caller frees *ret. */
	struct sp_error *(*target_path)(struct sp_backend *backend, uint32_t pid, const char *path, char **ret);
	/* The pid as the target itself sees it (its innermost pid namespace); `pid` where unknown. */
	uint32_t (*target_pid)(struct sp_backend *backend, uint32_t pid);
	/* Its command line, arguments joined by spaces; NULL when gone. The caller frees it. */
	char *(*command_line)(struct sp_backend *backend, uint32_t pid);
	void (*destroy)(struct sp_backend *backend);
	/* Facts about this machine as SP_META_* keys (profile/model.h); needs no backend object. */
	void (*describe)(void (*emit)(void *context, const char *key, const char *value), void *context);
	/* Does what `sp setup` asks for; each thing found out or done is given to `emit` as a line. *ret_ready: the
	 * best mode of capture is open to this user (after a grant: to ordinary users). NULL = this OS needs no setup.
	 */
	struct sp_error *(*setup)(enum sp_setup_action action, void (*emit)(void *context, const char *line),
	                          void *context, bool *ret_ready);
};

/* The backend of the OS this is built for; defined in platform/<os>/. */
extern const struct sp_backend_ops *const sp_native_backend;

#endif
