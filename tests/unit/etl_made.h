/* ETL traces made record by record, for tests of what no public file holds: every kind of record header, and payloads
 * as Microsoft documents the classes. */
#ifndef SP_TESTS_ETL_MADE_H
#define SP_TESTS_ETL_MADE_H

#include "platform/windows/etl_import.h"
#include "platform/windows/etl_writer.h"
#include "platform/windows/trace.h"

#include "record_text.h"

#include <unistd.h>

#define MS 10000u /* ticks of the made clock, which counts 100 ns, in a millisecond */
#define NS_OF_MS 1000000u

/* ---- Bytes ---- */

struct bytes {
	uint8_t b[8192];
	uint32_t n;
	uint8_t pointer_size;
};

static inline void put_bytes(struct bytes *out, const void *data, size_t size)
{
	assert_true(out->n + size <= sizeof(out->b));
	memcpy(out->b + out->n, data, size);
	out->n += (uint32_t)size;
}

static inline void u8(struct bytes *out, unsigned value)
{
	put_bytes(out, &(uint8_t){ (uint8_t)value }, 1);
}

static inline void u16(struct bytes *out, unsigned value)
{
	put_bytes(out, &(uint16_t){ (uint16_t)value }, 2);
}

static inline void u32(struct bytes *out, uint32_t value)
{
	put_bytes(out, &value, 4);
}

static inline void u64(struct bytes *out, uint64_t value)
{
	put_bytes(out, &value, 8);
}

static inline void zeros(struct bytes *out, size_t count)
{
	while (count--)
		u8(out, 0);
}

static inline void ptr(struct bytes *out, uint64_t value)
{
	if (out->pointer_size == 4)
		u32(out, (uint32_t)value);
	else
		u64(out, value);
}

static inline void narrow(struct bytes *out, const char *text)
{
	put_bytes(out, text, strlen(text) + 1);
}

static inline void wide(struct bytes *out, const char *text)
{
	do
		u16(out, (uint8_t)*text);
	while (*text++);
}

/* ---- A trace ---- */

struct made {
	char path[64];
	uint8_t pointer_size;
	struct sp_etl_writer *writer;
	struct sp_import_options options;
	struct sp_etl_sources sources;
	struct sp_etl_reader *reader;
	struct sp_trace trace;
	uint16_t cpu; /* that writes the next records */
	struct text text;
};

static inline struct made *made_begin(uint8_t pointer_size, const struct sp_etl_writer_options *more)
{
	const struct sp_etl_header header = { .os_major = 10,
		                              .os_build = 19041,
		                              .cpus = 2,
		                              .buffer_size = 65536,
		                              .pointer_size = pointer_size,
		                              .clock = SP_ETL_CLOCK_QPC,
		                              .frequency = 10000000,
		                              .raw_start = 5,
		                              .events_lost = 5,
		                              .buffers_lost = 2,
		                              .start_filetime = 130000000000000000u };
	static const char *const paths[] = { "made.etl", NULL };
	uint8_t record[SP_ETL_HEADER_RECORD_MAX];
	struct made *made = calloc(1, sizeof(*made));
	assert_non_null(made);
	made->pointer_size = pointer_size;
	made->options.paths = paths;
	strcpy(made->path, "/tmp/sp-made-XXXXXX");
	close(mkstemp(made->path));
	struct sp_etl_writer_options options = more ? *more : (struct sp_etl_writer_options){ 0 };
	options.header = record;
	options.header_size = sp_etl_header_record(&header, record);
	ok(sp_etl_writer_create(made->path, &options, &made->writer));
	return made;
}

static inline struct bytes begin_bytes(const struct made *made)
{
	return (struct bytes){ .pointer_size = made->pointer_size };
}

static inline void put_record(struct made *made, struct bytes *record, bool size_behind)
{
	uint16_t size = (uint16_t)record->n;
	memcpy(record->b + (size_behind ? 4 : 0), &size, 2);
	ok(sp_etl_writer_put(made->writer, made->cpu, record->b, record->n));
}

/* `words` says in bits 8 to 10 how many counters, in bit 15 whether a PEBS index is in front of the payload. */
static inline void put_words(struct bytes *record, uint16_t words)
{
	for (unsigned i = 0; i < (words >> 8 & 7u) + (words >> 15); i++)
		u64(record, 0x1111111111111111u * (i + 1));
}

static inline void put_kernel(struct made *made, bool compact, uint16_t words, uint8_t group, uint8_t code,
                              uint8_t version, uint64_t time, uint32_t tid, uint32_t pid, const struct bytes *payload)
{
	struct bytes record = begin_bytes(made);
	bool is_wide = made->pointer_size == 8;
	unsigned type = compact   ? is_wide ? SP_ETL_TYPE_COMPACT64 : SP_ETL_TYPE_COMPACT32
	                : is_wide ? SP_ETL_TYPE_SYSTEM64
	                          : SP_ETL_TYPE_SYSTEM32;
	u16(&record, words | version);
	u16(&record, type | SP_ETL_MARKER_TRACE << 8);
	u16(&record, 0);
	u8(&record, code);
	u8(&record, group);
	u32(&record, tid);
	u32(&record, pid);
	u64(&record, time);
	if (!compact)
		u64(&record, 0x0000000700000003); /* kernel and user time */
	put_words(&record, words);
	put_bytes(&record, payload->b, payload->n);
	put_record(made, &record, true);
}

static inline void put_system(struct made *made, uint8_t group, uint8_t code, uint8_t version, uint64_t time,
                              uint32_t tid, uint32_t pid, const struct bytes *payload)
{
	put_kernel(made, false, 0, group, code, version, time, tid, pid, payload);
}

static inline void put_perf(struct made *made, uint16_t words, uint8_t group, uint8_t code, uint8_t version,
                            uint64_t time, const struct bytes *payload)
{
	struct bytes record = begin_bytes(made);
	unsigned type = made->pointer_size == 8 ? SP_ETL_TYPE_PERFINFO64 : SP_ETL_TYPE_PERFINFO32;
	u16(&record, words | version);
	u16(&record, type | SP_ETL_MARKER_TRACE << 8);
	u16(&record, 0);
	u8(&record, code);
	u8(&record, group);
	u64(&record, time);
	put_words(&record, words);
	put_bytes(&record, payload->b, payload->n);
	put_record(made, &record, true);
}

/* A classic event of a provider. */
static inline void put_classic(struct made *made, const struct sp_guid *guid, uint8_t code, uint16_t version,
                               uint64_t time, uint32_t tid, uint32_t pid, const struct bytes *payload)
{
	struct bytes record = begin_bytes(made);
	u16(&record, 0);
	u16(&record, (made->pointer_size == 8 ? SP_ETL_TYPE_FULL64 : SP_ETL_TYPE_FULL32) | SP_ETL_MARKER_TRACE << 8);
	u8(&record, code);
	u8(&record, 0);
	u16(&record, version);
	u32(&record, tid);
	u32(&record, pid);
	u64(&record, time);
	put_bytes(&record, guid, SP_GUID_SIZE);
	u64(&record, 0);
	put_bytes(&record, payload->b, payload->n);
	put_record(made, &record, false);
}

/* What a manifest or TraceLogging event has in its header. */
struct made_event {
	const struct sp_guid *guid;
	uint16_t id, task;
	uint8_t version, opcode;
	uint64_t time;
	uint32_t tid, pid;
	const struct bytes *items; /* of extended data; NULL = none */
	const struct bytes *payload;
};

static inline void put_event(struct made *made, const struct made_event *event)
{
	struct bytes record = begin_bytes(made);
	u16(&record, 0);
	u16(&record, (made->pointer_size == 8 ? SP_ETL_TYPE_EVENT64 : SP_ETL_TYPE_EVENT32) | SP_ETL_MARKER_TRACE << 8);
	u16(&record, event->items ? 1 : 0);
	u16(&record, 0);
	u32(&record, event->tid);
	u32(&record, event->pid);
	u64(&record, event->time);
	put_bytes(&record, event->guid, SP_GUID_SIZE);
	u16(&record, event->id);
	u8(&record, event->version);
	u8(&record, 11); /* channel */
	u8(&record, 4);
	u8(&record, event->opcode);
	u16(&record, event->task);
	u64(&record, 0x20);
	zeros(&record, 8 + 16);
	assert_int_equal(record.n, SP_ETL_SIZE_EVENT);
	if (event->items)
		put_bytes(&record, event->items->b, event->items->n);
	put_bytes(&record, event->payload->b, event->payload->n);
	put_record(made, &record, false);
}

/* An item of extended data; `more`: another one follows. */
static inline void add_item(struct bytes *items, unsigned type, bool more, const void *data, uint32_t size)
{
	u16(items, 8 + size);
	u16(items, type);
	u16(items, more);
	u16(items, size);
	put_bytes(items, data, size);
	while (items->n % 8)
		u8(items, 0);
}

/* ---- Kernel events ---- */

/* Process_V4_TypeGroup1, with a SID of five sub-authorities when `sid`. */
static inline void put_process(struct made *made, uint8_t code, uint64_t time, uint32_t pid, uint32_t parent,
                               const char *name, bool sid)
{
	struct bytes p = begin_bytes(made);
	ptr(&p, 0x1000);
	u32(&p, pid);
	u32(&p, parent);
	u32(&p, 1);
	u32(&p, 0);
	ptr(&p, 0x2000);
	u32(&p, 0);
	if (sid) {
		ptr(&p, 0x5555);
		ptr(&p, 0);
		u8(&p, 1);
		u8(&p, 5);
		zeros(&p, 6 + 5 * 4);
	} else {
		u32(&p, 0);
	}
	narrow(&p, name);
	wide(&p, name);
	wide(&p, "package");
	wide(&p, "application");
	put_system(made, SP_ETL_GROUP_PROCESS, code, 4, time, SP_ETL_ID_UNKNOWN, SP_ETL_ID_UNKNOWN, &p);
}

/* Thread_V3_TypeGroup1. */
static inline struct bytes thread_payload(const struct made *made, uint32_t pid, uint32_t tid, const char *name)
{
	struct bytes p = begin_bytes(made);
	u32(&p, pid);
	u32(&p, tid);
	for (unsigned i = 0; i < 7; i++)
		ptr(&p, 0x7000 + i);
	u32(&p, 0);
	zeros(&p, 4);
	wide(&p, name);
	return p;
}

static inline void put_thread(struct made *made, uint8_t code, uint64_t time, uint32_t pid, uint32_t tid,
                              const char *name)
{
	struct bytes p = thread_payload(made, pid, tid, name);
	put_system(made, SP_ETL_GROUP_THREAD, code, 3, time, SP_ETL_ID_UNKNOWN, SP_ETL_ID_UNKNOWN, &p);
}

/* Image_V3_TypeGroup1. */
static inline void put_image(struct made *made, uint8_t code, uint64_t time, uint32_t pid, uint64_t base, uint64_t size,
                             const char *path)
{
	struct bytes p = begin_bytes(made);
	ptr(&p, base);
	ptr(&p, size);
	u32(&p, pid);
	u32(&p, 0);
	u32(&p, 0x5f000000);
	u32(&p, 0);
	ptr(&p, base);
	zeros(&p, 16);
	wide(&p, path);
	put_system(made, SP_ETL_GROUP_IMAGE, code, 3, time, SP_ETL_ID_UNKNOWN, pid, &p);
}

static inline struct bytes sample_payload(const struct made *made, uint64_t ip, uint32_t tid, unsigned count,
                                          unsigned flags)
{
	struct bytes p = begin_bytes(made);
	ptr(&p, ip);
	u32(&p, tid);
	u16(&p, count);
	u8(&p, flags);
	u8(&p, 0);
	return p;
}

static inline void put_sample(struct made *made, uint64_t time, uint64_t ip, uint32_t tid, unsigned flags)
{
	struct bytes p = sample_payload(made, ip, tid, 1, flags);
	put_perf(made, 0, SP_ETL_GROUP_PERFINFO, SP_ETL_PERF_SAMPLE, 2, time, &p);
}

static inline void put_stack(struct made *made, uint64_t time, uint64_t event_time, uint32_t pid, uint32_t tid,
                             const uint64_t *frames, unsigned count)
{
	struct bytes p = begin_bytes(made);
	u64(&p, event_time);
	u32(&p, pid);
	u32(&p, tid);
	for (unsigned i = 0; i < count; i++)
		ptr(&p, frames[i]);
	put_perf(made, 0, SP_ETL_GROUP_STACK, SP_ETL_STACK_WALK, 2, time, &p);
}

static inline void put_key(struct made *made, uint8_t code, uint64_t time, uint64_t event_time, uint32_t pid,
                           uint32_t tid, uint64_t key)
{
	struct bytes p = begin_bytes(made);
	u64(&p, event_time);
	u32(&p, pid);
	u32(&p, tid);
	ptr(&p, key);
	put_perf(made, 0, SP_ETL_GROUP_STACK, code, 2, time, &p);
}

static inline void put_definition(struct made *made, uint8_t code, uint64_t time, uint64_t key, const uint64_t *frames,
                                  unsigned count)
{
	struct bytes p = begin_bytes(made);
	ptr(&p, key);
	for (unsigned i = 0; i < count; i++)
		ptr(&p, frames[i]);
	put_perf(made, 0, SP_ETL_GROUP_STACK, code, 2, time, &p);
}

/* SampledProfileInterval_V3, of the timer (source 0) or a counter. */
static inline void put_interval(struct made *made, uint8_t code, uint64_t time, uint32_t source, uint32_t now,
                                uint32_t before, const char *name)
{
	struct bytes p = begin_bytes(made);
	u32(&p, source);
	u32(&p, now);
	u32(&p, before);
	wide(&p, name);
	put_perf(made, 0, SP_ETL_GROUP_PERFINFO, code, 3, time, &p);
}

static inline struct bytes switch_payload(const struct made *made, uint32_t new, uint32_t old, uint8_t reason,
                                          uint8_t state)
{
	struct bytes p = begin_bytes(made);
	u32(&p, new);
	u32(&p, old);
	zeros(&p, 4);
	u8(&p, reason);
	u8(&p, 0);
	u8(&p, state);
	u8(&p, 0);
	u32(&p, 0);
	u32(&p, 0);
	return p;
}

static inline void put_switch(struct made *made, uint64_t time, uint32_t new, uint32_t old, uint8_t reason,
                              uint8_t state)
{
	struct bytes p = switch_payload(made, new, old, reason, state);
	put_system(made, SP_ETL_GROUP_THREAD, SP_ETL_THREAD_CSWITCH, 3, time, SP_ETL_ID_UNKNOWN, SP_ETL_ID_UNKNOWN, &p);
}

static inline void put_ready(struct made *made, uint64_t time, uint32_t waker, uint32_t waker_pid, uint32_t tid)
{
	struct bytes p = begin_bytes(made);
	u32(&p, tid);
	zeros(&p, 4);
	put_system(made, SP_ETL_GROUP_THREAD, SP_ETL_THREAD_READY, 2, time, waker, waker_pid, &p);
}

/* SystemConfig_V3_CPU: what of it is read. */
static inline void put_cpu_config(struct made *made, uint16_t arch)
{
	struct bytes p = begin_bytes(made);
	u32(&p, 2400);
	u32(&p, 2);
	u32(&p, 8192);
	zeros(&p, 8);
	uint32_t name = p.n;
	wide(&p, "BOX");
	zeros(&p, 512 - (p.n - name) + 268);
	ptr(&p, 0);
	ptr(&p, 0);
	u16(&p, arch);
	zeros(&p, 6);
	put_system(made, SP_ETL_GROUP_CONFIG, SP_ETL_CONFIG_CPU, 3, 0, SP_ETL_ID_UNKNOWN, SP_ETL_ID_UNKNOWN, &p);
}

/* ---- Reading it ---- */

static inline const struct sp_trace *read_back(struct made *made)
{
	struct sp_etl_event event;
	uint64_t bytes;
	if (made->writer)
		ok(sp_etl_writer_finish(made->writer, &bytes));
	made->writer = NULL;
	ok(sp_etl_sources_add(&made->sources, made->path));
	ok(sp_etl_reader_create(&made->sources, &made->reader));
	sp_trace_init(&made->trace, &made->options, made->reader, "/tmp");
	while (sp_etl_reader_next(made->reader, &event))
		assert_true(sp_trace_feed(&made->trace, &event));
	assert_true(sp_trace_finish(&made->trace));
	assert_int_equal(made->trace.counts.bad_payloads, 0);
	return &made->trace;
}

/* The recording that the trace becomes, as text. */
static inline const char *recorded(struct made *made, struct sp_import_result *result)
{
	struct sp_recording_writer *writer;
	struct sp_recording_reader *reader;
	struct sp_record record;
	char path[80];
	bool more;
	snprintf(path, sizeof(path), "%s.rec", made->path);
	*result = (struct sp_import_result){ 0 };
	ok(sp_recording_writer_create(path, &writer));
	ok(sp_trace_emit(&made->trace, writer, result));
	ok(sp_recording_writer_finish(writer));
	ok(sp_recording_reader_create(path, &reader));
	made->text.size = 0;
	for (;;) {
		ok(sp_recording_read(reader, &record, &more));
		if (!more)
			break;
		render(&made->text, &record, reader);
	}
	sp_recording_reader_destroy(reader);
	remove(path);
	return made->text.bytes;
}

static inline void assert_has(const char *text, const char *line)
{
	if (!strstr(text, line))
		fail_msg("no \"%s\" in:\n%s", line, text);
}

static inline void assert_has_not(const char *text, const char *line)
{
	if (strstr(text, line))
		fail_msg("\"%s\" in:\n%s", line, text);
}

static inline void made_end(struct made *made)
{
	sp_trace_deinit(&made->trace);
	sp_etl_reader_destroy(made->reader);
	sp_etl_sources_deinit(&made->sources);
	remove(made->path);
	free(made);
}

static inline uint32_t tid_of(const struct sp_trace *trace, uint32_t thread)
{
	return thread == SP_TRACE_NONE ? 0 : trace->threads.items[thread].tid;
}

static inline const char *process_name_of(const struct sp_trace *trace, uint32_t thread)
{
	uint32_t process = trace->threads.items[thread].process;
	const char *name = process == SP_TRACE_NONE ? NULL : sp_trace_get(trace, trace->processes.items[process].name);
	return name ? name : "?";
}

#endif
