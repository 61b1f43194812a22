/* What a trace-file reader implements: the events of a finished recording of another tool.
 *
 * Portable, built on every OS. A reader makes as many passes over the file as it needs before its streams give the
 * first event (a rundown at the end of a trace names what came before). */
#ifndef SP_SAMPLER_IMPORTER_H
#define SP_SAMPLER_IMPORTER_H

#include "common/error.h"
#include "common/log.h"
#include "sampler/backend.h"
#include "sampler/event.h"

struct sp_importer;

struct sp_import_options {
	const char *const *paths; /* the file, then files that belong to it; NULL-terminated */
	const struct sp_log *log;
	/* Called now and then with done and total bytes; returning false cancels. May be NULL. */
	bool (*progress)(void *context, uint64_t done, uint64_t total);
	void *context;
};

/* Facts about the recorded machine and run, for the profile's meta data; borrowed from the importer. NULL = unknown. */
struct sp_import_info {
	const char *product; /* what made the file */
	const char *os;      /* name and version of the recorded machine's OS */
	const char *cpu;     /* its CPU's name */
	uint32_t cpus;
	uint64_t start_wall_ns;  /* wall-clock time, ns since 1970, ... */
	uint64_t start_clock_ns; /* ... at this time of the events' clock */
	uint64_t end_clock_ns;
	const struct sp_source *sources;
	size_t source_count;
};

struct sp_importer_ops {
	const char *name; /* "etl", "perf.data" */
	/* Whether the first bytes look like this format. */
	bool (*probe)(const uint8_t *head, size_t size);
	struct sp_error *(*create)(const struct sp_import_options *options, struct sp_importer **ret);
	const struct sp_import_info *(*info)(struct sp_importer *importer);
	size_t (*stream_count)(struct sp_importer *importer);
	struct sp_stream *(*stream)(struct sp_importer *importer, size_t index);
	/* The error that ended a stream early, if any; what was read before it stands. The caller owns it. */
	struct sp_error *(*failure)(struct sp_importer *importer);
	void (*destroy)(struct sp_importer *importer);
};

#endif
