/* Events of providers as markers: named, with their fields as text, begin and end put together.
 *
 * Firefox and Chrome send their own markers in events whose fields say when the marker began and ended; these fields
 * are the marker's time then, and not shown. Other providers' Start and Stop events of one task make an interval. */
#include "platform/windows/etl_schema.h"
#include "platform/windows/trace.h"

#include <stdio.h>

#define TEXT_SIZE 1024

enum dialect { DIALECT_PLAIN, DIALECT_FIREFOX, DIALECT_CHROME };
enum phase { PHASE_INSTANT, PHASE_INTERVAL, PHASE_START, PHASE_END };

/* A marker on its way out. */
struct draft {
	enum dialect dialect;
	char name[256], text[TEXT_SIZE], marker_name[128], phase_text[24];
	size_t text_used;
	bool has_start, has_end, has_phase;
	uint64_t start, end, duration; /* as the fields have them */
	uint64_t phase;
};

/* A marker that has begun. */
struct open_marker {
	uint64_t time;
	uint32_t thread, older; /* of the same key */
	uint32_t name, text;    /* strings */
	bool closed;
};

struct writer {
	struct sp_trace *trace;
	const uint32_t *handles; /* thread -> handle in the recording */
	struct sp_recording_writer *recording;
	struct sp_map open_by_key; /* hash of (thread, provider, name or task) -> newest open + 1 */
	SP_VECTOR(struct open_marker) open;
	uint64_t written, undecoded;
};

/* ---- Fields ---- */

static void append(struct draft *draft, const char *name, const char *value)
{
	int size = snprintf(draft->text + draft->text_used, TEXT_SIZE - draft->text_used, "%s%s: %s",
	                    draft->text_used ? ", " : "", name, value);
	if (size > 0)
		draft->text_used += (size_t)size < TEXT_SIZE - draft->text_used ? (size_t)size
		                                                                : TEXT_SIZE - 1 - draft->text_used;
}

static bool take_firefox(struct draft *draft, const struct sp_etl_field *field)
{
	if (!strcmp(field->name, "StartTime") && field->is_number) {
		draft->has_start = true;
		draft->start = field->number;
	} else if (!strcmp(field->name, "EndTime") && field->is_number) {
		draft->has_end = true;
		draft->end = field->number;
	} else if (!strcmp(field->name, "Phase") && field->is_number) {
		draft->has_phase = true;
		draft->phase = field->number;
	} else if (!strcmp(field->name, "MarkerName")) {
		snprintf(draft->marker_name, sizeof(draft->marker_name), "%.127s", field->text);
	} else {
		return !strcmp(field->name, "InnerWindowId") || !strcmp(field->name, "CategoryPair");
	}
	return true;
}

static bool take_chrome(struct draft *draft, const struct sp_etl_field *field)
{
	if (!strcmp(field->name, "Timestamp") && field->is_number) {
		draft->has_start = true;
		draft->start = field->number;
	} else if (!strcmp(field->name, "Duration") && field->is_number) {
		draft->duration = field->number;
	} else if (!strcmp(field->name, "Phase")) {
		snprintf(draft->phase_text, sizeof(draft->phase_text), "%.23s", field->text);
	} else {
		return false;
	}
	return true;
}

static bool take_field(void *context, const struct sp_etl_field *field)
{
	struct draft *draft = context;
	bool taken = false;
	if (draft->dialect == DIALECT_FIREFOX)
		taken = take_firefox(draft, field);
	else if (draft->dialect == DIALECT_CHROME)
		taken = take_chrome(draft, field);
	if (!taken)
		append(draft, field->name, field->text);
	return draft->text_used + 1 < TEXT_SIZE;
}

/* ---- Names ---- */

static void name_from_info(struct draft *draft, const struct sp_trace_marker *marker,
                           const struct sp_etl_event_info *info)
{
	char task[128] = "", opcode[64] = "";
	sp_etl_text_utf8(&info->task_name, task, sizeof(task));
	sp_etl_text_utf8(&info->opcode_name, opcode, sizeof(opcode));
	/* Start and Stop make one marker, named by what starts and stops. */
	if (marker->opcode == SP_ETL_START || marker->opcode == SP_ETL_STOP)
		opcode[0] = '\0';
	if (*task)
		snprintf(draft->name, sizeof(draft->name), "%s%s%s", task, *opcode ? "/" : "", opcode);
	else
		snprintf(draft->name, sizeof(draft->name), "event %u%s%s", marker->id, *opcode ? "/" : "", opcode);
}

/* Fills the draft from the marker's event. */
static void decode(struct writer *writer, const struct sp_trace_marker *marker, struct draft *draft)
{
	struct sp_trace *trace = writer->trace;
	const struct sp_trace_provider *provider = &trace->providers.items[marker->provider];
	const uint8_t *schema = trace->marker_bytes.items + marker->data, *payload = schema + marker->schema_size;
	const uint64_t *found = sp_map_get(&trace->info_by_key,
	                                   sp_trace_info_key(provider->guid.bytes, marker->id, marker->version));
	struct sp_etl_event_info parsed;
	bool good = false;
	const char *provider_name = sp_trace_get(trace, provider->name);
	if (provider_name && !strcmp(provider_name, "Mozilla.FirefoxTraceLogger"))
		draft->dialect = DIALECT_FIREFOX;
	else if (provider_name && !strcmp(provider_name, "Google.Chrome"))
		draft->dialect = DIALECT_CHROME;
	if (marker->schema_size) {
		good = sp_etl_schema_decode(schema, marker->schema_size, payload, marker->payload_size,
		                            marker->pointer_size, draft->name, sizeof(draft->name), take_field, draft);
	} else if (found) {
		const struct sp_trace_event_info *info = &trace->infos.items[*found];
		const uint8_t *bytes = trace->info_bytes.items + info->bytes;
		if (sp_etl_info_parse(bytes, info->size, &parsed)) {
			name_from_info(draft, marker, &parsed);
			good = sp_etl_info_decode(bytes, info->size, payload, marker->payload_size,
			                          marker->pointer_size, take_field, draft);
		}
	}
	if (!*draft->name)
		snprintf(draft->name, sizeof(draft->name), "event %u", marker->id ? marker->id : marker->opcode);
	if (!good) {
		char text[48];
		snprintf(text, sizeof(text), "%u bytes that the trace has no schema for", marker->payload_size);
		if (!draft->text_used)
			append(draft, "payload", text);
		writer->undecoded++;
	}
}

/* ---- Times ---- */

/* Where the marker begins and ends, ns, and what it is. */
static enum phase place(const struct writer *writer, const struct sp_trace_marker *marker, struct draft *draft,
                        uint64_t *ret_start, uint64_t *ret_end)
{
	const struct sp_trace *trace = writer->trace;
	*ret_start = *ret_end = marker->time;
	if (draft->dialect == DIALECT_FIREFOX && (draft->has_start || draft->has_end)) {
		bool start = draft->has_start && draft->start, end = draft->has_end && draft->end;
		if (start)
			*ret_start = sp_etl_reader_time(trace->reader, marker->file, draft->start);
		*ret_end = end ? sp_etl_reader_time(trace->reader, marker->file, draft->end) : *ret_start;
		if (!start)
			*ret_start = *ret_end;
		if (draft->has_phase && draft->phase <= PHASE_END)
			return (enum phase)draft->phase;
		return start && end ? PHASE_INTERVAL : PHASE_INSTANT; /* Firefox before 125 */
	}
	if (draft->dialect == DIALECT_CHROME && draft->has_start) {
		*ret_start = *ret_end = draft->start * 1000; /* µs of the same clock */
		if (!strcmp(draft->phase_text, "Begin"))
			return PHASE_START;
		if (!strcmp(draft->phase_text, "End"))
			return PHASE_END;
		*ret_end = *ret_start + draft->duration * 1000;
		return draft->duration ? PHASE_INTERVAL : PHASE_INSTANT;
	}
	if (marker->opcode == SP_ETL_START)
		return PHASE_START;
	return marker->opcode == SP_ETL_STOP ? PHASE_END : PHASE_INSTANT;
}

/* ---- Out ---- */

static struct sp_error *write_marker(struct writer *writer, uint32_t thread, uint64_t time, uint64_t end,
                                     const char *name, const char *text)
{
	struct sp_record record = {
		.type = SP_RECORD_MARKER,
		.marker = { .thread = thread == SP_TRACE_NONE ? SP_HANDLE_NONE : writer->handles[thread],
		            .time = time,
		            .end_time = end > time ? end : time,
		            .name = name,
		            .text = text },
	};
	writer->written++;
	return sp_recording_write(writer->recording, &record);
}

static struct sp_error *begin_marker(struct writer *writer, const struct sp_trace_marker *marker, uint64_t key,
                                     uint64_t time, const struct draft *draft)
{
	const uint64_t *newest = sp_map_get(&writer->open_by_key, key);
	struct open_marker open = { .time = time,
		                    .thread = marker->thread,
		                    .older = newest ? (uint32_t)*newest : 0,
		                    .name = sp_trace_string(writer->trace, draft->name),
		                    .text = sp_trace_string(writer->trace, draft->text) };
	if (writer->trace->failed || !sp_vector_push(&writer->open, open) ||
	    !sp_map_put(&writer->open_by_key, key, writer->open.count))
		return sp_error_no_memory();
	return NULL;
}

static struct sp_error *end_marker(struct writer *writer, const struct sp_trace_marker *marker, uint64_t key,
                                   uint64_t time, const struct draft *draft)
{
	const uint64_t *newest = sp_map_get(&writer->open_by_key, key);
	if (!newest || !*newest)
		return write_marker(writer, marker->thread, time, time, draft->name, draft->text);
	struct open_marker *open = &writer->open.items[*newest - 1];
	if (!sp_map_put(&writer->open_by_key, key, open->older))
		return sp_error_no_memory();
	open->closed = true;
	char text[2 * TEXT_SIZE + 8];
	const char *begun = sp_trace_get(writer->trace, open->text);
	bool same = !strcmp(begun, draft->text);
	snprintf(text, sizeof(text), "%s%s%s", begun, *begun && *draft->text && !same ? "; " : "",
	         same ? "" : draft->text);
	return write_marker(writer, marker->thread, open->time, time, sp_trace_get(writer->trace, open->name), text);
}

static struct sp_error *take_marker(struct writer *writer, const struct sp_trace_marker *marker)
{
	struct sp_trace *trace = writer->trace;
	const struct sp_trace_provider *provider = &trace->providers.items[marker->provider];
	struct draft draft = { 0 };
	uint64_t start, end;
	if (!sp_trace_provider_wanted(trace, provider))
		return NULL; /* it was kept since its name was not known yet */
	if (marker->thread != SP_TRACE_NONE && writer->handles[marker->thread] == SP_HANDLE_NONE)
		return NULL; /* of a process that is left out */
	decode(writer, marker, &draft);
	if (*draft.marker_name) /* what users of Firefox's simple markers call them */
		snprintf(draft.name, sizeof(draft.name), "%s", draft.marker_name);
	enum phase phase = place(writer, marker, &draft, &start, &end);
	bool by_task = draft.dialect == DIALECT_PLAIN && !marker->schema_size && marker->task;
	uint64_t key = sp_hash_u64(((uint64_t)marker->thread << 32 | marker->provider) ^
	                           (by_task ? marker->task : sp_hash_bytes(draft.name, strlen(draft.name))));
	if (phase == PHASE_START)
		return begin_marker(writer, marker, key, start, &draft);
	if (phase == PHASE_END)
		return end_marker(writer, marker, key, end, &draft);
	return write_marker(writer, marker->thread, start, end, draft.name, draft.text);
}

struct sp_error *sp_trace_emit_markers(struct sp_trace *trace, const uint32_t *thread_handles,
                                       struct sp_recording_writer *recording, struct sp_import_result *result)
{
	struct writer writer = { .trace = trace, .handles = thread_handles, .recording = recording };
	struct sp_error *error = NULL;
	for (size_t i = 0; i < trace->markers.count && !error; i++)
		error = take_marker(&writer, &trace->markers.items[i]);
	for (size_t i = 0; i < writer.open.count && !error; i++) {
		const struct open_marker *open = &writer.open.items[i];
		char text[TEXT_SIZE + 32];
		if (open->closed)
			continue;
		snprintf(text, sizeof(text), "%s (no end in the trace)", sp_trace_get(trace, open->text));
		error = write_marker(&writer, open->thread, open->time, trace->last_time,
		                     sp_trace_get(trace, open->name), text);
	}
	result->markers = writer.written;
	result->markers_undecoded = writer.undecoded;
	sp_map_deinit(&writer.open_by_key);
	sp_vector_deinit(&writer.open);
	return error;
}
