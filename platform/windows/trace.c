/* See trace.h: taking events in. */
#include "platform/windows/trace.h"

#include <stdio.h>

#define TEXT_MAX ((size_t)65536) /* bytes of a text as UTF-8: command lines have up to 32767 characters */

uint32_t sp_trace_string(struct sp_trace *trace, const char *text)
{
	uint32_t string = sp_intern(&trace->strings, text, strlen(text));
	if (string == SP_INTERN_NONE)
		trace->failed = true;
	return string;
}

uint32_t sp_trace_text(struct sp_trace *trace, const struct sp_etl_text *text)
{
	char small[600];
	if (!text->bytes || !text->size)
		return SP_INTERN_NONE;
	/* At most three bytes for two, or two for one. */
	size_t size = (size_t)text->size * 2 + 4;
	if (size <= sizeof(small)) {
		sp_etl_text_utf8(text, small, sizeof(small));
		return *small ? sp_trace_string(trace, small) : SP_INTERN_NONE;
	}
	size = size < TEXT_MAX ? size : TEXT_MAX;
	char *large = malloc(size);
	if (!large) {
		trace->failed = true;
		return SP_INTERN_NONE;
	}
	sp_etl_text_utf8(text, large, size);
	uint32_t string = *large ? sp_trace_string(trace, large) : SP_INTERN_NONE;
	free(large);
	return string;
}

void sp_trace_init(struct sp_trace *trace, const struct sp_import_options *options, struct sp_etl_reader *reader,
                   const char *folder)
{
	memset(trace, 0, sizeof(*trace));
	trace->options = options;
	trace->reader = reader;
	trace->folder = folder;
	trace->pointer_size = sp_etl_reader_header(reader, 0)->pointer_size;
	trace->first_time = UINT64_MAX;
	trace->host = trace->os_text = trace->build_text = trace->model_text = trace->system_root = SP_INTERN_NONE;
	trace->arch = 0xffff;
	trace->samples.store.folder = trace->markers.store.folder = trace->marker_bytes.store.folder = folder;
	trace->node_parent.store.folder = trace->node_address.store.folder = trace->node_table.store.folder = folder;
	trace->info_bytes.store.folder = folder;
}

void sp_trace_deinit(struct sp_trace *trace)
{
	sp_intern_deinit(&trace->strings);
	sp_vector_deinit(&trace->processes);
	sp_vector_deinit(&trace->threads);
	sp_vector_deinit(&trace->running);
	sp_vector_deinit(&trace->images);
	sp_vector_deinit(&trace->ids);
	sp_vector_deinit(&trace->volumes);
	sp_vector_deinit(&trace->methods);
	sp_vector_deinit(&trace->intervals);
	sp_vector_deinit(&trace->pmc);
	sp_vector_deinit(&trace->providers);
	sp_vector_deinit(&trace->infos);
	struct sp_map *const maps[] = { &trace->by_pid,      &trace->by_tid,  &trace->by_base,
		                        &trace->ids_by_base, &trace->by_code, &trace->kernel_keys,
		                        &trace->user_keys,   &trace->scripts, &trace->by_provider,
		                        &trace->info_by_key };
	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
		sp_map_deinit(maps[i]);
	sp_spool_deinit(&trace->samples);
	sp_spool_deinit(&trace->node_parent);
	sp_spool_deinit(&trace->node_address);
	sp_spool_deinit(&trace->node_table);
	sp_spool_deinit(&trace->markers);
	sp_spool_deinit(&trace->marker_bytes);
	sp_spool_deinit(&trace->info_bytes);
}

/* ---- The machine ---- */

static bool take_cpu(struct sp_trace *trace, const struct sp_etl_event *event)
{
	struct sp_cursor c = sp_cursor_init(event->payload, event->payload_size);
	trace->cpu_mhz = sp_cursor_u32(&c);
	sp_cursor_skip(&c, 4);
	trace->memory_mb = sp_cursor_u32(&c);
	sp_cursor_skip(&c, 8); /* page size, allocation granularity */
	const uint8_t *name = sp_cursor_bytes(&c, 512);
	struct sp_cursor host = sp_cursor_init(name, name ? 512 : 0);
	struct sp_etl_text text = sp_etl_wide_text(&host);
	trace->host = sp_trace_text(trace, &text);
	sp_cursor_skip(&c, 268);                      /* domain */
	sp_cursor_skip(&c, 2u * event->pointer_size); /* hyperthreading, highest user address */
	uint16_t arch = sp_cursor_u16(&c);
	if (event->version >= 2 && !c.bad)
		trace->arch = arch;
	return !trace->failed;
}

static bool take_config(struct sp_trace *trace, const struct sp_etl_event *event)
{
	struct sp_cursor c = sp_cursor_init(event->payload, event->payload_size);
	if (event->opcode == SP_ETL_CONFIG_CPU)
		return take_cpu(trace, event);
	if (event->opcode != SP_ETL_CONFIG_PLATFORM)
		return true;
	char maker[128], model[128], both[260];
	struct sp_etl_text texts[2];
	for (unsigned i = 0; i < 2; i++)
		texts[i] = sp_etl_wide_text(&c);
	sp_etl_text_utf8(&texts[0], maker, sizeof(maker));
	sp_etl_text_utf8(&texts[1], model, sizeof(model));
	snprintf(both, sizeof(both), "%s %s", maker, model);
	if (*maker || *model)
		trace->model_text = sp_trace_string(trace, both);
	return !trace->failed;
}

/* ---- Events ---- */

/* Losses that a real-time session was told of while it ran. */
static void take_rt_lost(struct sp_trace *trace, const struct sp_etl_event *event)
{
	enum { LOST_EVENT = 32, LOST_BUFFER = 33, LOST_FILE = 34 };
	trace->counts.rt_lost_events += event->opcode == LOST_EVENT;
	trace->counts.rt_lost_buffers += event->opcode == LOST_BUFFER || event->opcode == LOST_FILE;
}

static bool feed_kernel(struct sp_trace *trace, const struct sp_etl_event *event)
{
	trace->kernel_events[event->group][event->opcode]++;
	switch (event->group) {
	case SP_ETL_GROUP_PERFINFO:
		return sp_trace_perf_event(trace, event);
	case SP_ETL_GROUP_STACK:
		return sp_trace_stack_event(trace, event);
	case SP_ETL_GROUP_THREAD:
		if (event->opcode == SP_ETL_THREAD_CSWITCH)
			return sp_trace_switch_event(trace, event);
		if (event->opcode == SP_ETL_THREAD_READY)
			return sp_trace_ready_event(trace, event);
		return sp_trace_thread_event(trace, event);
	case SP_ETL_GROUP_PROCESS:
		return sp_trace_process_event(trace, event);
	case SP_ETL_GROUP_IMAGE:
		return sp_trace_image_event(trace, event);
	case SP_ETL_GROUP_CONFIG:
		return take_config(trace, event);
	default:
		return true;
	}
}

static bool feed_provider(struct sp_trace *trace, const struct sp_etl_event *event)
{
	bool classic = event->type == SP_ETL_TYPE_FULL32 || event->type == SP_ETL_TYPE_FULL64;
	if (!sp_trace_provider_event(trace, event))
		return false;
	if (!classic)
		return true;
	if (sp_guid_equal(event->guid, &sp_etl_guid_image_id))
		return sp_trace_image_id_event(trace, event);
	if (sp_guid_equal(event->guid, &sp_etl_guid_system))
		return sp_trace_system_event(trace, event);
	if (sp_guid_equal(event->guid, &sp_etl_guid_metadata))
		return sp_trace_metadata_event(trace, event);
	if (sp_guid_equal(event->guid, &sp_etl_guid_rt_lost))
		take_rt_lost(trace, event);
	return true;
}

bool sp_trace_feed(struct sp_trace *trace, const struct sp_etl_event *event)
{
	if (event->time < trace->first_time)
		trace->first_time = event->time;
	if (event->time > trace->last_time)
		trace->last_time = event->time;
	if (event->group != SP_ETL_GROUP_NONE || !event->guid)
		return feed_kernel(trace, event);
	return feed_provider(trace, event);
}

bool sp_trace_finish(struct sp_trace *trace)
{
	if (trace->first_time > trace->last_time)
		trace->first_time = trace->last_time;
	return sp_trace_stack_finish(trace) && !trace->failed;
}
