/* sp filter: a first pass learns who is who, a second one writes what the filter keeps. */
#include "platform/windows/etl_buffer.h"
#include "platform/windows/etl_filter.h"
#include "platform/windows/etl_import.h"
#include "platform/windows/etl_writer.h"
#include "platform/windows/trace.h"

#define PROGRESS_EVENTS 65536
#define MODE_COMPRESSED 0x04000000u

/* What the first pass found out. */
struct who {
	const struct sp_import_options *options;
	struct sp_trace trace;
	uint32_t *chosen; /* process -> SP_HANDLE_NONE = not wanted */
	uint8_t *header;  /* owned: the record of the header event */
	uint32_t header_size;
};

/* ---- Answers ---- */

static uint32_t process_at(const struct who *who, uint32_t pid, uint64_t time)
{
	const uint64_t *newest = sp_map_get(&who->trace.by_pid, pid);
	uint32_t at = newest ? (uint32_t)*newest : SP_TRACE_NONE;
	while (at != SP_TRACE_NONE && who->trace.processes.items[at].start > time &&
	       who->trace.processes.items[at].older != SP_TRACE_NONE)
		at = who->trace.processes.items[at].older;
	return at;
}

static uint32_t pid_of(void *context, uint32_t tid, uint64_t time)
{
	const struct who *who = context;
	const uint64_t *newest = sp_map_get(&who->trace.by_tid, tid);
	uint32_t at = newest ? (uint32_t)*newest : SP_TRACE_NONE;
	while (at != SP_TRACE_NONE && who->trace.threads.items[at].start > time &&
	       who->trace.threads.items[at].older != SP_TRACE_NONE)
		at = who->trace.threads.items[at].older;
	uint32_t process = at == SP_TRACE_NONE ? SP_TRACE_NONE : who->trace.threads.items[at].process;
	return process == SP_TRACE_NONE ? SP_ETL_ID_UNKNOWN : who->trace.processes.items[process].pid;
}

static bool is_wanted(void *context, uint32_t pid, uint64_t time)
{
	const struct who *who = context;
	uint32_t process = process_at(who, pid, time);
	return process != SP_TRACE_NONE && who->chosen[process] != SP_HANDLE_NONE;
}

static bool is_wanted_time(void *context, uint64_t time)
{
	const struct who *who = context;
	uint64_t since = time > who->trace.first_time ? time - who->trace.first_time : 0;
	return !who->options->time_limited || (since >= who->options->from_ns && since < who->options->to_ns);
}

static bool is_wanted_provider(void *context, const uint8_t *guid)
{
	const struct who *who = context;
	const uint64_t *found = sp_map_get(&who->trace.by_provider, sp_hash_bytes(guid, SP_GUID_SIZE));
	return found && sp_trace_provider_wanted(&who->trace, &who->trace.providers.items[*found]);
}

static uint64_t stack_time(void *context, const struct sp_etl_event *event, uint64_t raw)
{
	const struct who *who = context;
	return sp_etl_reader_time(who->trace.reader, event->file, raw);
}

/* ---- Passes ---- */

static struct sp_error *go_on(const struct sp_import_options *options, struct sp_etl_reader *reader, uint64_t count,
                              bool second)
{
	uint64_t done, total;
	if (count % PROGRESS_EVENTS || !options->progress)
		return NULL;
	sp_etl_reader_progress(reader, &done, &total);
	if (!options->progress(options->context, done + (second ? total : 0), 2 * total))
		return sp_error_create(SP_ERROR_CANCELLED, "cancelled");
	return NULL;
}

/* Whether the event can be the header of what is written: a file may hold damaged ones, too. */
static bool is_header(const struct sp_etl_event *event)
{
	struct sp_etl_header header;
	return event->group == SP_ETL_GROUP_TRACE && event->opcode == SP_ETL_TRACE_HEADER &&
	       event->payload == event->record + SP_ETL_SIZE_SYSTEM && sp_etl_header_parse(event, &header);
}

static bool keep_header(struct who *who, const struct sp_etl_event *event)
{
	who->header = malloc(event->record_size);
	if (!who->header)
		return false;
	memcpy(who->header, event->record, event->record_size);
	who->header_size = event->record_size;
	return true;
}

static struct sp_error *learn(struct who *who, struct sp_etl_reader *reader, struct sp_filter_result *ret)
{
	struct sp_etl_event event;
	struct sp_error *error = NULL;
	while (!error && sp_etl_reader_next(reader, &event)) {
		if (!sp_trace_feed(&who->trace, &event))
			return sp_error_no_memory();
		if (!who->header && is_header(&event) && !keep_header(who, &event))
			return sp_error_no_memory();
		error = go_on(who->options, reader, ++ret->events, false);
	}
	if (!error)
		error = sp_etl_reader_failure(reader);
	if (error)
		return error;
	who->chosen = calloc(who->trace.processes.count + 1, sizeof(*who->chosen));
	if (!sp_trace_finish(&who->trace) || !who->chosen)
		return sp_error_no_memory();
	sp_trace_choose_processes(&who->trace, who->options, who->chosen);
	return NULL;
}

static struct sp_error *write_kept(struct who *who, struct sp_etl_reader *reader, struct sp_etl_writer *writer,
                                   struct sp_filter_result *ret)
{
	struct sp_etl_oracle oracle = { .pid_of = pid_of,
		                        .is_wanted = is_wanted,
		                        .is_wanted_time = is_wanted_time,
		                        .is_wanted_provider = is_wanted_provider,
		                        .stack_time = stack_time,
		                        .context = who };
	struct sp_etl_filter *filter = sp_etl_filter_create(&oracle, who->trace.pointer_size);
	struct sp_error *error = filter ? NULL : sp_error_no_memory();
	struct sp_etl_event event;
	sp_etl_reader_rewind(reader);
	for (uint64_t count = 1; !error && sp_etl_reader_next(reader, &event); count++) {
		if (sp_etl_filter_keeps(filter, &event)) {
			ret->kept++;
			ret->samples += event.group == SP_ETL_GROUP_PERFINFO && event.opcode == SP_ETL_PERF_SAMPLE;
			error = sp_etl_writer_put(writer, event.cpu, event.record, event.record_size);
		}
		if (!error)
			error = go_on(who->options, reader, count, true);
	}
	if (!error)
		error = sp_etl_reader_failure(reader);
	if (!error && sp_etl_filter_failed(filter))
		error = sp_error_no_memory();
	sp_etl_filter_destroy(filter);
	return error;
}

static struct sp_error *run(struct who *who, struct sp_etl_reader *reader, const char *output,
                            struct sp_filter_result *ret)
{
	struct sp_etl_writer *writer;
	struct sp_error *error = learn(who, reader, ret);
	if (!error && !who->header)
		error = sp_error_create(SP_ERROR_FORMAT, "the trace has no header event");
	if (error)
		return error;
	const struct sp_etl_counts *counts = sp_etl_reader_counts(reader);
	struct sp_etl_writer_options options = {
		.compress = sp_etl_reader_header(reader, 0)->mode & MODE_COMPRESSED,
		.loss_flags = (uint16_t)((counts->flagged_events_lost ? SP_ETL_BUFFER_EVENTS_LOST : 0) |
		                         (counts->flagged_buffer_lost ? SP_ETL_BUFFER_BUFFER_LOST : 0)),
		.header = who->header,
		.header_size = who->header_size,
	};
	error = sp_etl_writer_create(output, &options, &writer);
	if (error)
		return error;
	error = write_kept(who, reader, writer, ret);
	if (!error)
		return sp_etl_writer_finish(writer, &ret->bytes_out);
	sp_etl_writer_destroy(writer);
	return error;
}

struct sp_error *sp_etl_filter_source(const struct sp_import_options *options, struct sp_etl_sources *sources,
                                      const char *output, struct sp_filter_result *ret)
{
	struct sp_etl_reader *reader = NULL;
	/* The first pass wants no samples. */
	struct sp_import_options learning = *options;
	learning.time_limited = true;
	learning.from_ns = learning.to_ns = 0;
	*ret = (struct sp_filter_result){ 0 };
	struct who *who = calloc(1, sizeof(*who));
	struct sp_error *error = who ? sp_etl_reader_create(sources, &reader) : sp_error_no_memory();
	if (!error) {
		ret->bytes_in = sources->list.items[0].size;
		who->options = options;
		sp_trace_init(&who->trace, &learning, reader, options->folder);
		error = run(who, reader, output, ret);
		sp_trace_deinit(&who->trace);
		free(who->chosen);
		free(who->header);
	}
	free(who);
	sp_etl_reader_destroy(reader);
	return error;
}

struct sp_error *sp_etl_filter(const struct sp_import_options *options, const char *output,
                               struct sp_filter_result *ret)
{
	struct sp_etl_sources sources = { 0 };
	struct sp_error *error = sp_etl_sources_add(&sources, options->paths[0]);
	if (!error && sources.list.count != 1)
		error = sp_error_create(SP_ERROR_UNSUPPORTED,
		                        "%s has %zu traces in it, and one at a time can be filtered: unpack it first",
		                        options->paths[0], sources.list.count);
	if (!error)
		error = sp_etl_filter_source(options, &sources, output, ret);
	sp_etl_sources_deinit(&sources);
	return error;
}
