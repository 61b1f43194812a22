/* Who wrote the events: names and counts of providers, and what is kept of those whose events become markers. */
#include "platform/windows/etl_schema.h"
#include "platform/windows/trace.h"

#include <stdio.h>

/* Providers that a user may name although a trace does not. The first two are wanted always: their events are markers
 * by nature. */
static const struct {
	struct sp_guid guid;
	const char *name;
} known[] = {
	{ SP_GUID(0xc923f508, 0x96e4, 0x5515, 0xe3, 0x2c, 0x75, 0x39, 0xd1, 0xb1, 0x05, 0x04),
	  "Mozilla.FirefoxTraceLogger" },
	{ SP_GUID(0xd2d578d9, 0x2936, 0x45b6, 0xa0, 0x9f, 0x30, 0xe3, 0x27, 0x15, 0xf4, 0x2d), "Google.Chrome" },
	{ SP_GUID(0xe13c0d23, 0xccbc, 0x4e12, 0x93, 0x1b, 0xd9, 0xcc, 0x2e, 0xee, 0x27, 0xe4),
	  "Microsoft-Windows-DotNETRuntime" },
	{ SP_GUID(0xa669021c, 0xc450, 0x4609, 0xa0, 0x35, 0x5a, 0xf5, 0x9a, 0xf4, 0xdf, 0x18),
	  "Microsoft-Windows-DotNETRuntimeRundown" },
	{ SP_GUID(0x763fd754, 0x7086, 0x4dfe, 0x95, 0xeb, 0xc0, 0x1a, 0x46, 0xfa, 0xf4, 0xca),
	  "Microsoft-Windows-DotNETRuntimePrivate" },
	{ SP_GUID(0x57277741, 0x3638, 0x4a4b, 0xbd, 0xba, 0x0a, 0xc6, 0xe4, 0x5d, 0xa5, 0x6c), "Microsoft-JScript" },
	{ SP_GUID(0xb3e675d7, 0x2554, 0x4f18, 0x83, 0x0b, 0x27, 0x62, 0x73, 0x25, 0x60, 0xde),
	  "KernelTraceControl/ImageID" },
	{ SP_GUID(0x9b79ee91, 0xb5fd, 0x41c0, 0xa2, 0x43, 0x42, 0x48, 0xe2, 0x66, 0xe9, 0xd0),
	  "KernelTraceControl/System" },
	{ SP_GUID(0xbbccf6c1, 0x6cd1, 0x48c4, 0x80, 0xff, 0x83, 0x94, 0x82, 0xe3, 0x76, 0x71),
	  "KernelTraceControl/MetaData" },
	{ SP_GUID(0x802ec45a, 0x1e99, 0x4b83, 0x99, 0x20, 0x87, 0xc9, 0x82, 0x77, 0xba, 0x9d),
	  "Microsoft-Windows-DxgKrnl" },
};

const char *sp_trace_kernel_name(uint8_t group, uint8_t code)
{
	static const struct {
		uint8_t group, code;
		const char *name;
	} names[] = {
		{ SP_ETL_GROUP_TRACE, SP_ETL_TRACE_HEADER, "EventTrace/Header" },
		{ SP_ETL_GROUP_TRACE, SP_ETL_TRACE_EXTENSION, "EventTrace/Extension" },
		{ SP_ETL_GROUP_PROCESS, SP_ETL_START, "Process/Start" },
		{ SP_ETL_GROUP_PROCESS, SP_ETL_STOP, "Process/End" },
		{ SP_ETL_GROUP_PROCESS, SP_ETL_DC_START, "Process/DCStart" },
		{ SP_ETL_GROUP_PROCESS, SP_ETL_DC_STOP, "Process/DCEnd" },
		{ SP_ETL_GROUP_THREAD, SP_ETL_START, "Thread/Start" },
		{ SP_ETL_GROUP_THREAD, SP_ETL_STOP, "Thread/End" },
		{ SP_ETL_GROUP_THREAD, SP_ETL_DC_START, "Thread/DCStart" },
		{ SP_ETL_GROUP_THREAD, SP_ETL_DC_STOP, "Thread/DCEnd" },
		{ SP_ETL_GROUP_THREAD, SP_ETL_THREAD_CSWITCH, "Thread/CSwitch" },
		{ SP_ETL_GROUP_THREAD, SP_ETL_THREAD_READY, "Thread/ReadyThread" },
		{ SP_ETL_GROUP_THREAD, SP_ETL_THREAD_SET_NAME, "Thread/SetName" },
		{ SP_ETL_GROUP_IMAGE, SP_ETL_IMAGE_LOAD, "Image/Load" },
		{ SP_ETL_GROUP_IMAGE, SP_ETL_IMAGE_UNLOAD, "Image/Unload" },
		{ SP_ETL_GROUP_IMAGE, SP_ETL_IMAGE_DC_START, "Image/DCStart" },
		{ SP_ETL_GROUP_IMAGE, SP_ETL_IMAGE_DC_STOP, "Image/DCEnd" },
		{ SP_ETL_GROUP_PERFINFO, SP_ETL_PERF_SAMPLE, "PerfInfo/Sample" },
		{ SP_ETL_GROUP_PERFINFO, SP_ETL_PERF_PMC, "PerfInfo/PMCSample" },
		{ SP_ETL_GROUP_PERFINFO, SP_ETL_PERF_SET_INTERVAL, "PerfInfo/SetInterval" },
		{ SP_ETL_GROUP_PERFINFO, SP_ETL_PERF_START, "PerfInfo/CollectionStart" },
		{ SP_ETL_GROUP_PERFINFO, SP_ETL_PERF_STOP, "PerfInfo/CollectionEnd" },
		{ SP_ETL_GROUP_STACK, SP_ETL_STACK_WALK, "StackWalk/Stack" },
		{ SP_ETL_GROUP_STACK, SP_ETL_STACK_DELETE, "StackWalk/KeyDelete" },
		{ SP_ETL_GROUP_STACK, SP_ETL_STACK_RUNDOWN, "StackWalk/KeyRundown" },
		{ SP_ETL_GROUP_STACK, SP_ETL_STACK_KERNEL_KEY, "StackWalk/KeyKernel" },
		{ SP_ETL_GROUP_STACK, SP_ETL_STACK_USER_KEY, "StackWalk/KeyUser" },
	};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].group == group && names[i].code == code)
			return names[i].name;
	return NULL;
}

static void guid_text(const struct sp_guid *guid, char *out, size_t size)
{
	const uint8_t *g = guid->bytes;
	snprintf(out, size, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", g[3], g[2], g[1],
	         g[0], g[5], g[4], g[7], g[6], g[8], g[9], g[10], g[11], g[12], g[13], g[14], g[15]);
}

void sp_trace_provider_name(const struct sp_trace *trace, const struct sp_trace_provider *provider, char *out,
                            size_t size)
{
	const char *name = sp_trace_get(trace, provider->name);
	if (name && *name)
		snprintf(out, size, "%s", name);
	else
		guid_text(&provider->guid, out, size);
}

/* ---- Which providers are wanted ---- */

/* What merging adds, and what tells of losses: no events of programs. */
static bool is_about_the_trace(const struct sp_guid *guid)
{
	return sp_guid_equal(guid->bytes, &sp_etl_guid_image_id) || sp_guid_equal(guid->bytes, &sp_etl_guid_system) ||
	       sp_guid_equal(guid->bytes, &sp_etl_guid_metadata) || sp_guid_equal(guid->bytes, &sp_etl_guid_rt_lost);
}

/* Whether the words of --markers are the provider's name or GUID. */
static bool is_called(const struct sp_trace *trace, const struct sp_trace_provider *provider, const char *wanted)
{
	char guid[40];
	const char *name = sp_trace_get(trace, provider->name);
	guid_text(&provider->guid, guid, sizeof(guid));
	if ((name && !strcasecmp(wanted, name)) || !strcasecmp(wanted, guid))
		return true;
	return strlen(wanted) == 38 && wanted[0] == '{' && !strncasecmp(wanted + 1, guid, 36);
}

static bool is_listed(const struct sp_trace *trace, const struct sp_trace_provider *provider)
{
	for (const char *const *at = trace->options->markers; at && *at; at++) {
		if (!strcmp(*at, "all") && !is_about_the_trace(&provider->guid))
			return true;
		if (is_called(trace, provider, *at))
			return true;
	}
	return false;
}

void sp_trace_say_unknown_providers(const struct sp_trace *trace, struct sp_import_result *result)
{
	for (const char *const *at = trace->options->markers; at && *at; at++) {
		bool known_one = !strcmp(*at, "all");
		for (size_t i = 0; i < trace->providers.count && !known_one; i++)
			known_one = is_called(trace, &trace->providers.items[i], *at);
		if (!known_one)
			sp_import_say(result, true,
			              "there is no event of %s in the trace (sp import --list shows whose there are)",
			              *at);
	}
}

bool sp_trace_provider_wanted(const struct sp_trace *trace, const struct sp_trace_provider *provider)
{
	return sp_guid_equal(provider->guid.bytes, &known[0].guid) ||
	       sp_guid_equal(provider->guid.bytes, &known[1].guid) || is_listed(trace, provider);
}

/* A provider without a name may turn out to be one that was asked for by name. */
static bool keep_events(const struct sp_trace *trace, const struct sp_trace_provider *provider)
{
	bool named_later = provider->name == SP_INTERN_NONE && trace->options->markers && trace->options->markers[0];
	return named_later || sp_trace_provider_wanted(trace, provider);
}

static uint32_t provider_of(struct sp_trace *trace, const struct sp_etl_event *event)
{
	/* Mostly it is the one of the event before. */
	uint32_t last = trace->last_provider;
	if (last < trace->providers.count && sp_guid_equal(event->guid, &trace->providers.items[last].guid))
		return last;
	uint64_t key = sp_hash_bytes(event->guid, SP_GUID_SIZE);
	const uint64_t *found = sp_map_get(&trace->by_provider, key);
	if (found)
		return trace->last_provider = (uint32_t)*found;
	struct sp_trace_provider provider = { .name = SP_INTERN_NONE };
	char name[256];
	memcpy(provider.guid.bytes, event->guid, SP_GUID_SIZE);
	sp_etl_traits_name(event, name, sizeof(name));
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && !*name; i++)
		if (sp_guid_equal(event->guid, &known[i].guid))
			snprintf(name, sizeof(name), "%s", known[i].name);
	if (*name)
		provider.name = sp_trace_string(trace, name);
	provider.marked = keep_events(trace, &provider);
	if (!sp_vector_push(&trace->providers, provider) ||
	    !sp_map_put(&trace->by_provider, key, trace->providers.count - 1)) {
		trace->failed = true;
		return SP_TRACE_NONE;
	}
	return (uint32_t)trace->providers.count - 1;
}

/* ---- Events ---- */

static bool put_bytes(struct sp_trace *trace, const uint8_t *bytes, uint32_t size)
{
	if (!size)
		return true;
	if (!sp_spool_reserve(&trace->marker_bytes, size)) {
		trace->failed = true;
		return false;
	}
	memcpy(trace->marker_bytes.items + trace->marker_bytes.count, bytes, size);
	trace->marker_bytes.count += size;
	return true;
}

static bool has_stack(const struct sp_etl_event *event)
{
	const uint8_t *data;
	uint32_t offset = 0, size;
	for (uint16_t type; event->extended && (type = sp_etl_next_item(event, &offset, &data, &size));)
		if (type == SP_ETL_ITEM_STACK32 || type == SP_ETL_ITEM_STACK64 || type == SP_ETL_ITEM_STACK_KEY32 ||
		    type == SP_ETL_ITEM_STACK_KEY64)
			return true;
	return false;
}

static bool keep_marker(struct sp_trace *trace, const struct sp_etl_event *event, uint32_t provider)
{
	uint32_t schema_size;
	const uint8_t *schema = sp_etl_schema_of(event, &schema_size);
	const struct sp_import_options *options = trace->options;
	uint64_t since = event->time > trace->first_time ? event->time - trace->first_time : 0;
	if (options->time_limited && (since < options->from_ns || since >= options->to_ns))
		return true;
	struct sp_trace_marker marker = { .time = event->time,
		                          .data = trace->marker_bytes.count,
		                          .keyword = event->keyword,
		                          .provider = provider,
		                          .payload_size = event->payload_size,
		                          .schema_size = (uint16_t)schema_size,
		                          .id = event->id,
		                          .task = event->task,
		                          .version = event->version,
		                          .opcode = event->opcode,
		                          .pointer_size = event->pointer_size,
		                          .level = event->level,
		                          .file = event->file };
	marker.thread = sp_trace_thread_now(trace, event->tid, event->pid, event->cpu, event->time);
	if (trace->failed || !put_bytes(trace, schema, schema_size) ||
	    !put_bytes(trace, event->payload, event->payload_size))
		return false;
	trace->counts.marker_stacks += has_stack(event);
	if (!sp_spool_push(&trace->markers, marker))
		trace->failed = true;
	return !trace->failed;
}

bool sp_trace_provider_event(struct sp_trace *trace, const struct sp_etl_event *event)
{
	uint32_t index = provider_of(trace, event);
	if (index == SP_TRACE_NONE)
		return false;
	struct sp_trace_provider *provider = &trace->providers.items[index];
	provider->events++;
	bool marked = provider->marked, code = false;
	if (event->type != SP_ETL_TYPE_FULL32 && event->type != SP_ETL_TYPE_FULL64 &&
	    !sp_trace_code_event(trace, event, &code))
		return false;
	return !marked || code || keep_marker(trace, event, index);
}

uint64_t sp_trace_info_key(const uint8_t *guid, uint16_t id, uint8_t version)
{
	return sp_hash_u64(sp_hash_bytes(guid, SP_GUID_SIZE) + id * 256u + version);
}

bool sp_trace_metadata_event(struct sp_trace *trace, const struct sp_etl_event *event)
{
	struct sp_etl_event_info parsed;
	trace->merged = true;
	if (event->opcode != SP_ETL_META_EVENT)
		return true;
	if (!sp_etl_info_parse(event->payload, event->payload_size, &parsed)) {
		trace->counts.bad_payloads++;
		return true;
	}
	struct sp_trace_event_info info = { .key = sp_trace_info_key(parsed.provider, parsed.id, parsed.version),
		                            .bytes = trace->info_bytes.count,
		                            .size = event->payload_size };
	if (sp_map_get(&trace->info_by_key, info.key))
		return true;
	if (!sp_spool_reserve(&trace->info_bytes, info.size) || !sp_vector_push(&trace->infos, info) ||
	    !sp_map_put(&trace->info_by_key, info.key, trace->infos.count - 1)) {
		trace->failed = true;
		return false;
	}
	memcpy(trace->info_bytes.items + trace->info_bytes.count, event->payload, info.size);
	trace->info_bytes.count += info.size;
	/* The provider may get its name from here. */
	struct sp_etl_event stand_in = { .guid = parsed.provider };
	uint32_t provider = provider_of(trace, &stand_in);
	if (provider != SP_TRACE_NONE && trace->providers.items[provider].name == SP_INTERN_NONE) {
		uint32_t name = sp_trace_text(trace, &parsed.provider_name);
		trace->providers.items[provider].name = name;
		trace->providers.items[provider].marked = keep_events(trace, &trace->providers.items[provider]);
	}
	return !trace->failed;
}
