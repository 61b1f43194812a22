/* What a reader of trace files implements: the finished recording of another tool becomes a recording of ours.
 *
 * Portable, built on every OS. Such files have their stacks unwound already, often name things only at their end, and
 * complete samples long after they were taken; so an importer is not a live stream of events but writes the records of
 * the sample model itself, in order of time, once it has read as much as it needs. All that makes profiles follows from
 * the recording, whoever wrote it. */
#ifndef SP_SAMPLER_IMPORTER_H
#define SP_SAMPLER_IMPORTER_H

#include "common/error.h"
#include "common/log.h"
#include "common/vector.h"
#include "sampler/profile/model.h"

/* What the user asked for. Strings and arrays are borrowed for the call. */
struct sp_import_options {
	const char *const *paths; /* the file, then files that belong to it; NULL-terminated */
	const uint32_t *pids;     /* processes to keep ... */
	size_t pid_count;         /* ... */
	const char *const *names; /* ... and their names, NULL-terminated or NULL. None of both: all processes */
	bool children;            /* and all that these started */
	bool time_limited;        /* keep only [from_ns, to_ns), counted from the trace's start */
	uint64_t from_ns, to_ns;
	bool idle;                  /* keep samples of idle CPUs */
	const char *const *markers; /* providers whose events shall be markers; NULL-terminated or NULL */
	const char *folder;         /* for temporary files */
	const struct sp_log *log;
	/* Called now and then with done and total bytes; returning false cancels. May be NULL. */
	bool (*progress)(void *context, uint64_t done, uint64_t total);
	void *context;
};

/* One line for the user. */
struct sp_import_line {
	bool warning;
	char *text; /* owned */
};

/* A provider of events and how many the trace has of it. */
struct sp_import_provider {
	char *name; /* owned */
	uint64_t events;
};

/* A process of the trace. */
struct sp_import_process {
	char *name; /* owned */
	uint32_t pid;
	uint64_t samples; /* on the CPU */
};

struct sp_import_result {
	uint64_t events;  /* in the files */
	uint64_t samples; /* kept, on the CPU */
	uint64_t with_stack, off_cpu;
	uint64_t markers, markers_undecoded;
	uint64_t processes, threads;
	char *empty;                                      /* NULL, or why there are no samples; owned */
	SP_VECTOR(struct sp_import_line) lines;           /* what was in the file, and what was not */
	SP_VECTOR(struct sp_import_provider) providers;   /* most events first */
	SP_VECTOR(struct sp_import_process) process_list; /* of all processes, most samples first */
};
void sp_import_result_deinit(struct sp_import_result *result);
/* Adds a line; without memory it is missing. */
void sp_import_say(struct sp_import_result *result, bool warning, const char *format, ...) SP_PRINTF(3, 4);

/* What a filter of trace files did. */
struct sp_filter_result {
	uint64_t events, kept; /* in the files and in the output */
	uint64_t samples;      /* kept */
	uint64_t bytes_in, bytes_out;
};

struct sp_importer_ops {
	const char *name; /* "ETL" */
	/* Whether the first bytes look like this format. */
	bool (*probe)(const char *path, const uint8_t *head, size_t size);
	/* Reads the files and writes the recording; without one only counts what is there (for --list). */
	struct sp_error *(*import)(const struct sp_import_options *options, struct sp_recording_writer *recording,
	                           struct sp_import_result *ret);
	/* Writes a smaller file of the same format with only what the options ask for. NULL = this format has none. */
	struct sp_error *(*filter)(const struct sp_import_options *options, const char *output,
	                           struct sp_filter_result *ret);
};

/* The readers of this build, NULL-terminated; defined in platform/. */
extern const struct sp_importer_ops *const sp_importers[];

/* The importer for a file, NULL = none; reads its beginning. */
struct sp_error *sp_importer_for(const char *path, const struct sp_importer_ops **ret);

#endif
