/* The importer of ETL traces: reads, lets the trace model take it all in, and tells what was there. */
#include "platform/windows/etl_import.h"

#include "platform/windows/trace.h"

#include <inttypes.h>
#include <stdio.h>

#define PROGRESS_EVENTS 65536

static bool is_zip_name(const char *path)
{
	size_t length = strlen(path);
	return (length > 4 && !strcasecmp(path + length - 4, ".zip")) ||
	       (length > 12 && !strcasecmp(path + length - 12, ".diagsession"));
}

static bool probe(const char *path, const uint8_t *head, size_t size)
{
	if (size >= 4 && !memcmp(head, "PK\3\4", 4))
		return is_zip_name(path);
	return sp_etl_probe(head, size);
}

/* ---- Reading ---- */

static struct sp_error *open_all(const struct sp_import_options *options, struct sp_etl_sources *sources,
                                 struct sp_etl_reader **ret)
{
	struct sp_error *error = NULL;
	for (const char *const *path = options->paths; *path && !error; path++)
		error = sp_etl_sources_add(sources, *path);
	return error ? error : sp_etl_reader_create(sources, ret);
}

static struct sp_error *read_all(const struct sp_import_options *options, struct sp_etl_reader *reader,
                                 struct sp_trace *trace)
{
	struct sp_etl_event event;
	uint64_t done, total;
	for (uint64_t count = 1; sp_etl_reader_next(reader, &event); count++) {
		if (!sp_trace_feed(trace, &event))
			return sp_error_no_memory();
		if (count % PROGRESS_EVENTS || !options->progress)
			continue;
		sp_etl_reader_progress(reader, &done, &total);
		if (!options->progress(options->context, done, total))
			return sp_error_create(SP_ERROR_CANCELLED, "cancelled");
	}
	struct sp_error *error = sp_etl_reader_failure(reader);
	if (!error && !sp_trace_finish(trace))
		error = sp_error_no_memory();
	return error;
}

/* ---- What is told ---- */

static int compare_providers(const void *left, const void *right)
{
	const struct sp_import_provider *a = left, *b = right;
	if (a->events != b->events)
		return a->events > b->events ? -1 : 1;
	return strcmp(a->name, b->name);
}

static void add_provider(struct sp_import_result *result, const char *name, uint64_t events)
{
	struct sp_import_provider provider = { .name = strdup(name), .events = events };
	if (!provider.name || !sp_vector_push(&result->providers, provider))
		free(provider.name);
}

static void list_providers(const struct sp_trace *trace, struct sp_import_result *result)
{
	char name[256];
	for (unsigned group = 0; group < 256; group++) {
		for (unsigned code = 0; code < 256; code++) {
			uint64_t events = trace->kernel_events[group][code];
			const char *known = sp_trace_kernel_name((uint8_t)group, (uint8_t)code);
			if (!events)
				continue;
			if (known)
				snprintf(name, sizeof(name), "kernel: %s", known);
			else
				snprintf(name, sizeof(name), "kernel: group 0x%02x, event %u", group, code);
			add_provider(result, name, events);
		}
	}
	for (size_t i = 0; i < trace->providers.count; i++) {
		const struct sp_trace_provider *provider = &trace->providers.items[i];
		if (!provider->events)
			continue;
		sp_trace_provider_name(trace, provider, name, sizeof(name));
		add_provider(result, name, provider->events);
	}
	if (result->providers.count)
		qsort(result->providers.items, result->providers.count, sizeof(*result->providers.items),
		      compare_providers);
}

static int compare_processes(const void *left, const void *right)
{
	const struct sp_import_process *a = left, *b = right;
	if (a->samples != b->samples)
		return a->samples > b->samples ? -1 : 1;
	return a->pid < b->pid ? -1 : a->pid > b->pid;
}

static void list_processes(const struct sp_trace *trace, struct sp_import_result *result)
{
	uint64_t *samples = calloc(trace->processes.count + 1, sizeof(*samples));
	for (size_t i = 0; samples && i < trace->samples.count; i++) {
		const struct sp_trace_sample *sample = &trace->samples.items[i];
		uint32_t process = trace->threads.items[sample->thread].process;
		if (process != SP_TRACE_NONE)
			samples[process] += sample->kind == SP_TRACE_CPU;
	}
	for (size_t i = 0; samples && i < trace->processes.count; i++) {
		const char *name = sp_trace_get(trace, trace->processes.items[i].name);
		struct sp_import_process process = { .name = strdup(name ? name : "?"),
			                             .pid = trace->processes.items[i].pid,
			                             .samples = samples[i] };
		if (!process.name || !sp_vector_push(&result->process_list, process))
			free(process.name);
	}
	if (result->process_list.count)
		qsort(result->process_list.items, result->process_list.count, sizeof(*result->process_list.items),
		      compare_processes);
	free(samples);
}

static void say_contents(const struct sp_trace *trace, struct sp_import_result *result)
{
	const struct sp_etl_header *header = sp_etl_reader_header(trace->reader, 0);
	const struct sp_trace_counts *counts = &trace->counts;
	const char *product = sp_trace_get(trace, trace->os_text);
	sp_import_say(result, false, "%s build %u, %u CPUs, %.2f s, %" PRIu64 " events", product ? product : "Windows",
	              header->os_build, header->cpus, (double)(trace->last_time - trace->first_time) / 1e9,
	              result->events);
	if (counts->samples || counts->idle)
		sp_import_say(result, false,
		              "%" PRIu64 " CPU samples (%" PRIu64 " in DPCs and interrupts) and %" PRIu64
		              " of idle CPUs%s",
		              counts->samples, counts->dpc_isr, counts->idle, trace->options->idle ? "" : ", left out");
	else
		sp_import_say(result, false, "no CPU samples");
	if (counts->pmc)
		sp_import_say(result, false, "%" PRIu64 " samples of %zu hardware counters", counts->pmc,
		              trace->pmc.count);
	if (counts->switches)
		sp_import_say(result, false, "%" PRIu64 " context switches and %" PRIu64 " wake-ups: waiting is shown",
		              counts->switches, counts->readies);
	if (counts->methods)
		sp_import_say(result, false, "%" PRIu64 " methods of .NET or JavaScript", counts->methods);
}

static void say_shortfalls(const struct sp_trace *trace, struct sp_import_result *result)
{
	const struct sp_etl_counts *read = sp_etl_reader_counts(trace->reader);
	const struct sp_trace_counts *counts = &trace->counts;
	if (read->events_lost || read->flagged_events_lost || counts->rt_lost_events)
		sp_import_say(result, true,
		              "events were lost while the trace was recorded (%" PRIu64
		              " by its header); larger or more buffers help",
		              read->events_lost);
	if (read->buffers_lost || read->missing_buffers || read->flagged_buffer_lost || counts->rt_lost_buffers)
		sp_import_say(result, true,
		              "buffers were lost while the trace was recorded (%" PRIu64 " by its header, %" PRIu64
		              " numbers missing)",
		              read->buffers_lost, read->missing_buffers);
	if (read->corrupt_buffers || read->bad_compression)
		sp_import_say(result, true, "%" PRIu64 " buffers are damaged, %" PRIu64 " could not be decompressed",
		              read->corrupt_buffers, read->bad_compression);
	if (read->truncated_bytes)
		sp_import_say(result, true,
		              "the file ends in %" PRIu64 " bytes that are no whole buffer: it was cut short",
		              read->truncated_bytes);
	if (counts->bad_payloads)
		sp_import_say(result, true, "%" PRIu64 " events have contents that do not fit their kind",
		              counts->bad_payloads);
	if (read->unordered)
		sp_import_say(result, true, "%" PRIu64 " events were out of order", read->unordered);
	if (counts->unresolved_keys)
		sp_import_say(result, true,
		              "%" PRIu64 " stacks are missing: the trace ended before the stack cache was written",
		              counts->unresolved_keys);
	if (!trace->merged && counts->images)
		sp_import_say(
		    result, true,
		    "the trace was not merged (xperf -merge, wpr -stop and etwprof do that): it has no debug IDs "
		    "and no names of .NET images, so most functions can't be named");
}

static void say_samples(const struct sp_trace *trace, struct sp_import_result *result)
{
	if (result->samples && !result->with_stack && !trace->counts.stacks && !trace->counts.keys)
		sp_import_say(result, true,
		              "the samples have no stacks: record with stack walking (wpr -start CPU, xperf "
		              "-stackwalk Profile); only the functions that ran are shown");
	else if (result->samples)
		sp_import_say(
		    result, false, "kept %" PRIu64 " samples, %" PRIu64 " with stacks, of %" PRIu64 " process%s",
		    result->samples, result->with_stack, result->processes, result->processes == 1 ? "" : "es");
	if (result->off_cpu)
		sp_import_say(result, false, "%" PRIu64 " waits are shown as off-CPU samples", result->off_cpu);
	sp_trace_say_unknown_providers(trace, result);
	if (result->markers)
		sp_import_say(result, false,
		              "%" PRIu64 " markers; of their events, the trace lacks the schema of %" PRIu64,
		              result->markers, result->markers_undecoded);
	if (trace->counts.marker_stacks)
		sp_import_say(result, false,
		              "%" PRIu64 " of the events that are markers have stacks, which are not shown",
		              trace->counts.marker_stacks);
}

static struct sp_error *import(const struct sp_import_options *options, struct sp_recording_writer *recording,
                               struct sp_import_result *ret)
{
	struct sp_etl_sources sources = { 0 };
	struct sp_etl_reader *reader = NULL;
	struct sp_trace *trace = malloc(sizeof(*trace));
	*ret = (struct sp_import_result){ 0 };
	struct sp_error *error = trace ? open_all(options, &sources, &reader) : sp_error_no_memory();
	if (!error) {
		sp_trace_init(trace, options, reader, options->folder);
		error = read_all(options, reader, trace);
		ret->events = sp_etl_reader_counts(reader)->events;
		if (!error && recording)
			error = sp_trace_emit(trace, recording, ret);
		if (!error) {
			list_providers(trace, ret);
			list_processes(trace, ret);
			say_contents(trace, ret);
			say_samples(trace, ret);
			say_shortfalls(trace, ret);
		}
		sp_trace_deinit(trace);
	}
	free(trace);
	sp_etl_reader_destroy(reader);
	sp_etl_sources_deinit(&sources);
	return error;
}

const struct sp_importer_ops sp_etl_importer = {
	.name = "ETL",
	.probe = probe,
	.import = import,
	.filter = sp_etl_filter,
};
