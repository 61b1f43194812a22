/* Fuzzes what an ETL file becomes: the input is a file; the first byte chooses options. The whole way to a recording,
 * with every event that has a schema as a marker. */
#include "platform/windows/etl_import.h"
#include "platform/windows/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void run(const uint8_t *data, size_t size, const struct sp_import_options *options)
{
	static char path[64];
	struct sp_etl_sources sources = { 0 };
	struct sp_etl_reader *reader = NULL;
	struct sp_import_result result = { 0 };
	struct sp_recording_writer *recording;
	struct sp_etl_event event;
	snprintf(path, sizeof(path), "/tmp/sp-fuzz-etl-%d", (int)getpid());
	struct sp_error *error = sp_etl_sources_add_bytes(&sources, "input", data, size);
	if (!error)
		error = sp_etl_reader_create(&sources, &reader);
	if (!error)
		error = sp_recording_writer_create(path, &recording);
	if (!error) {
		struct sp_trace *trace = malloc(sizeof(*trace));
		if (!trace)
			abort();
		sp_trace_init(trace, options, reader, NULL);
		while (sp_etl_reader_next(reader, &event))
			if (!sp_trace_feed(trace, &event))
				abort();
		if (!sp_trace_finish(trace))
			abort();
		error = sp_trace_emit(trace, recording, &result);
		/* A filter for a process that is not there is told; nothing else can be wrong here. */
		if (error && error->code != SP_ERROR_NOT_FOUND)
			abort();
		sp_error_destroy(sp_recording_writer_finish(recording));
		sp_trace_deinit(trace);
		free(trace);
		remove(path);
	}
	sp_error_destroy(error);
	sp_import_result_deinit(&result);
	sp_etl_reader_destroy(reader);
	sp_etl_sources_deinit(&sources);
}

/* What the filter writes is a trace again. */
static void filter(const uint8_t *data, size_t size, const struct sp_import_options *options)
{
	static char path[64];
	struct sp_etl_sources sources = { 0 };
	struct sp_filter_result result;
	snprintf(path, sizeof(path), "/tmp/sp-fuzz-etl-%d.etl", (int)getpid());
	struct sp_error *error = sp_etl_sources_add_bytes(&sources, "input", data, size);
	if (!error)
		error = sp_etl_filter_source(options, &sources, path, &result);
	sp_etl_sources_deinit(&sources);
	if (!error) {
		struct sp_etl_reader *reader;
		struct sp_etl_event event;
		uint64_t count = 0;
		if (sp_etl_sources_add(&sources, path) || sp_etl_reader_create(&sources, &reader))
			abort();
		while (sp_etl_reader_next(reader, &event))
			count++;
		if (count != result.kept + 1 || sp_etl_reader_counts(reader)->corrupt_buffers)
			abort();
		sp_etl_reader_destroy(reader);
		sp_etl_sources_deinit(&sources);
		remove(path);
	}
	sp_error_destroy(error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const paths[] = { "x.etl", NULL }, *const markers[] = { "all", NULL };
	static const char *const names[] = { "a", NULL };
	static const uint32_t pids[] = { 4 };
	if (!size)
		return 0;
	struct sp_import_options options = { .paths = paths,
		                             .markers = data[0] & 1 ? markers : NULL,
		                             .names = data[0] & 2 ? names : NULL,
		                             .pids = pids,
		                             .pid_count = data[0] >> 2 & 1,
		                             .children = data[0] & 8,
		                             .idle = data[0] & 16,
		                             .time_limited = data[0] & 32,
		                             .from_ns = 10,
		                             .to_ns = 1000000 };
	if (data[0] & 64)
		filter(data + 1, size - 1, &options);
	else
		run(data + 1, size - 1, &options);
	return 0;
}
