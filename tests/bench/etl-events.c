/* Part of tests/bench/windows: makes a long ETL file of a short one, and reads files in steps that are timed apart.
 *
 * etl_events repeat IN OUT BYTES [compressed]  IN's events again and again, each time later, until OUT has that many
 *                                              bytes (unpacked)
 * etl_events copy|decode|model|import FILE     copy: the file's bytes, read and copied once; decode: all events in
 *                                              order of time; model: processes, stacks, samples too; import: all of
 *                                              sp import but the writing of the profile
 *
 * Prints a line: events, bytes, seconds, seconds of processor time. */
#include "platform/windows/etl_import.h"
#include "platform/windows/etl_writer.h"
#include "platform/windows/trace.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define CHUNK ((size_t)1 << 20)

struct totals {
	uint64_t events, bytes;
};

static void die(struct sp_error *error)
{
	if (!error)
		return;
	fprintf(stderr, "etl_events: %s\n", error->message);
	exit(1);
}

static double now(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static struct sp_etl_reader *open_reader(struct sp_etl_sources *sources, const char *path)
{
	struct sp_etl_reader *reader;
	die(sp_etl_sources_add(sources, path));
	die(sp_etl_reader_create(sources, &reader));
	return reader;
}

static void close_reader(struct sp_etl_sources *sources, struct sp_etl_reader *reader)
{
	die(sp_etl_reader_failure(reader));
	sp_etl_reader_destroy(reader);
	sp_etl_sources_deinit(sources);
}

/* ---- Making ---- */

static void add_to(uint8_t *at, uint64_t shift)
{
	uint64_t value;
	memcpy(&value, at, sizeof(value));
	value += shift;
	memcpy(at, &value, sizeof(value));
}

static uint32_t time_offset(const struct sp_etl_event *event)
{
	return event->type == SP_ETL_TYPE_PERFINFO32 || event->type == SP_ETL_TYPE_PERFINFO64 ? 8 : 16;
}

static bool is_header(const struct sp_etl_event *event)
{
	return event->group == SP_ETL_GROUP_TRACE && event->opcode == SP_ETL_TRACE_HEADER;
}

/* The event's record, `shift` raw ticks later; stacks say the time of their sample, too. */
static void put_later(struct sp_etl_writer *writer, const struct sp_etl_event *event, uint64_t shift)
{
	static uint8_t record[UINT16_MAX + 1];
	memcpy(record, event->record, event->record_size);
	add_to(record + time_offset(event), shift);
	if (event->group == SP_ETL_GROUP_STACK && event->payload_size >= 8 &&
	    (event->opcode == SP_ETL_STACK_WALK || event->opcode == SP_ETL_STACK_KERNEL_KEY ||
	     event->opcode == SP_ETL_STACK_USER_KEY))
		add_to(record + (event->payload - event->record), shift);
	die(sp_etl_writer_put(writer, event->cpu, record, event->record_size));
}

/* The raw clock's first and last time. */
static void find_range(struct sp_etl_reader *reader, struct sp_etl_writer_options *options, uint64_t *ret_length)
{
	static uint8_t header[UINT16_MAX + 1];
	struct sp_etl_event event;
	uint64_t first = UINT64_MAX, last = 0, raw;
	while (sp_etl_reader_next(reader, &event)) {
		memcpy(&raw, event.record + time_offset(&event), sizeof(raw));
		first = raw < first ? raw : first;
		last = raw > last ? raw : last;
		if (!is_header(&event) || options->header)
			continue;
		memcpy(header, event.record, event.record_size);
		options->header = header;
		options->header_size = event.record_size;
	}
	*ret_length = last - first + 1000;
}

static struct totals repeat(const char *in, const char *out, uint64_t wanted, bool compressed)
{
	struct sp_etl_sources sources = { 0 };
	struct sp_etl_reader *reader = open_reader(&sources, in);
	struct sp_etl_writer_options options = { .compress = compressed };
	struct sp_etl_writer *writer;
	struct sp_etl_event event;
	struct totals totals = { 0 };
	uint64_t length, written = 0;
	find_range(reader, &options, &length);
	die(sp_etl_writer_create(out, &options, &writer));
	for (uint64_t round = 0; written < wanted; round++) {
		sp_etl_reader_rewind(reader);
		while (sp_etl_reader_next(reader, &event)) {
			if (is_header(&event))
				continue;
			put_later(writer, &event, round * length);
			written += (event.record_size + 7) & ~7u;
			totals.events++;
		}
	}
	die(sp_etl_writer_finish(writer, &totals.bytes));
	close_reader(&sources, reader);
	return totals;
}

/* ---- Reading ---- */

static struct totals copy(const char *path)
{
	uint8_t *from = malloc(CHUNK), *to = malloc(CHUNK);
	int fd = open(path, O_RDONLY);
	struct totals totals = { 0 };
	ssize_t got;
	if (fd < 0 || !from || !to)
		exit(1);
	while ((got = read(fd, from, CHUNK)) > 0) {
		memcpy(to, from, (size_t)got);
		__asm__ volatile("" : : "r"(to) : "memory");
		totals.bytes += (uint64_t)got;
	}
	close(fd);
	free(from);
	free(to);
	return totals;
}

static struct totals decode(const char *path)
{
	struct sp_etl_sources sources = { 0 };
	struct sp_etl_reader *reader = open_reader(&sources, path);
	struct sp_etl_event event;
	struct totals totals = { .bytes = sources.list.items[0].size };
	while (sp_etl_reader_next(reader, &event))
		totals.events++;
	close_reader(&sources, reader);
	return totals;
}

static struct totals model(const char *path, const char *folder)
{
	static struct sp_trace trace;
	const char *const paths[] = { path, NULL };
	const struct sp_import_options options = { .paths = paths, .folder = folder };
	struct sp_etl_sources sources = { 0 };
	struct sp_etl_reader *reader = open_reader(&sources, path);
	struct sp_etl_event event;
	struct totals totals = { .bytes = sources.list.items[0].size };
	sp_trace_init(&trace, &options, reader, folder);
	while (sp_etl_reader_next(reader, &event)) {
		if (!sp_trace_feed(&trace, &event))
			exit(1);
		totals.events++;
	}
	if (!sp_trace_finish(&trace))
		exit(1);
	sp_trace_deinit(&trace);
	close_reader(&sources, reader);
	return totals;
}

static struct totals import(const char *path, const char *folder)
{
	const char *const paths[] = { path, NULL };
	const struct sp_import_options options = { .paths = paths, .folder = folder };
	struct sp_import_result result;
	struct sp_recording_writer *recording;
	char name[4096];
	snprintf(name, sizeof(name), "%s/etl-events.recording", folder);
	die(sp_recording_writer_create(name, &recording));
	die(sp_etl_importer.import(&options, recording, &result));
	die(sp_recording_writer_finish(recording));
	remove(name);
	struct totals totals = { .events = result.events };
	sp_import_result_deinit(&result);
	return totals;
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "", *folder = getenv("TMPDIR");
	double start = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
	struct totals totals;
	folder = folder && *folder ? folder : "/tmp";
	if (!strcmp(what, "repeat") && (argc == 5 || argc == 6))
		totals = repeat(argv[2], argv[3], strtoull(argv[4], NULL, 10), argc == 6);
	else if (!strcmp(what, "copy"))
		totals = copy(argv[2]);
	else if (!strcmp(what, "decode"))
		totals = decode(argv[2]);
	else if (!strcmp(what, "model"))
		totals = model(argv[2], folder);
	else if (!strcmp(what, "import"))
		totals = import(argv[2], folder);
	else
		return 2;
	printf("%" PRIu64 " %" PRIu64 " %.6f %.6f\n", totals.events, totals.bytes, now(CLOCK_MONOTONIC) - start,
	       now(CLOCK_PROCESS_CPUTIME_ID) - cpu);
	return 0;
}
