/* Images (executables, DLLs, drivers) in address spaces over time, and the IDs by which their symbols are found. */
#include "platform/windows/trace.h"

#include <stdio.h>

static uint64_t place_key(uint32_t owner, uint64_t base)
{
	return sp_hash_u64(base ^ (uint64_t)owner << 40 ^ owner);
}

/* ---- Images ---- */

static uint32_t find_image(const struct sp_trace *trace, uint32_t process, uint64_t base)
{
	const uint64_t *found = sp_map_get(&trace->by_base, place_key(process, base));
	if (!found)
		return SP_TRACE_NONE;
	const struct sp_trace_image *image = &trace->images.items[*found];
	return image->process == process && image->base == base ? (uint32_t)*found : SP_TRACE_NONE;
}

static bool add_image(struct sp_trace *trace, const struct sp_trace_image *image)
{
	uint32_t index = (uint32_t)trace->images.count;
	if (sp_vector_push(&trace->images, *image) &&
	    sp_map_put(&trace->by_base, place_key(image->process, image->base), index))
		return true;
	trace->failed = true;
	return false;
}

static void end_image(struct sp_trace_image *image, uint64_t time)
{
	image->live = false;
	image->unload = time;
}

static const char *base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '\\') : NULL;
	return slash ? slash + 1 : path ? path : "";
}

/* Whether two events speak of one image. Load events leave the volume out of the path that rundowns have. */
static bool is_same(const struct sp_trace *trace, const struct sp_trace_image *image, uint64_t size, uint32_t path)
{
	return image->live && image->size == size &&
	       (image->path == path || path == SP_INTERN_NONE || image->path == SP_INTERN_NONE ||
	        !strcasecmp(base_name(sp_trace_get(trace, image->path)), base_name(sp_trace_get(trace, path))));
}

/* A rundown tells of an image that is there; the load event may have been seen or not. */
static void seen_again(const struct sp_trace *trace, struct sp_trace_image *image, const struct sp_etl_event *event,
                       const struct sp_etl_image *parsed, uint32_t path)
{
	const char *text = sp_trace_get(trace, path);
	image->described = event->time;
	if (!image->timestamp)
		image->timestamp = parsed->timestamp;
	if (text && (image->path == SP_INTERN_NONE || !strncasecmp(text, "\\Device\\", 8)))
		image->path = path;
}

bool sp_trace_image_event(struct sp_trace *trace, const struct sp_etl_event *event)
{
	struct sp_etl_image parsed;
	uint8_t code = event->opcode;
	if (code != SP_ETL_IMAGE_LOAD && code != SP_ETL_IMAGE_UNLOAD && code != SP_ETL_IMAGE_DC_START &&
	    code != SP_ETL_IMAGE_DC_STOP)
		return true;
	if (!sp_etl_image_parse(event, &parsed)) {
		trace->counts.bad_payloads++;
		return true;
	}
	trace->counts.images++;
	bool kernel = parsed.pid == 0 || sp_etl_is_kernel(parsed.base, trace->pointer_size);
	uint32_t process = kernel ? SP_TRACE_NONE : sp_trace_process_now(trace, parsed.pid);
	uint32_t path = sp_trace_text(trace, &parsed.path);
	uint32_t index = find_image(trace, process, parsed.base);
	struct sp_trace_image *old = index == SP_TRACE_NONE ? NULL : &trace->images.items[index];
	if (trace->failed)
		return false;
	bool same = old && is_same(trace, old, parsed.size, path);
	if (same && code == SP_ETL_IMAGE_UNLOAD)
		end_image(old, event->time);
	if (same) {
		seen_again(trace, old, event, &parsed, path);
		return true;
	}
	if (old && old->live)
		end_image(old, event->time); /* another one lies there: its unload got lost */
	struct sp_trace_image image = { .process = process,
		                        .pid = parsed.pid,
		                        .base = parsed.base,
		                        .size = parsed.size,
		                        .load = code == SP_ETL_IMAGE_LOAD ? event->time
		                                : old                     ? old->unload
		                                                          : 0,
		                        .unload = code == SP_ETL_IMAGE_UNLOAD ? event->time : UINT64_MAX,
		                        .described = event->time,
		                        .timestamp = parsed.timestamp,
		                        .path = path,
		                        .live = code != SP_ETL_IMAGE_UNLOAD };
	return add_image(trace, &image);
}

/* ---- IDs ---- */

static uint32_t find_ids(const struct sp_trace *trace, uint32_t pid, uint64_t base)
{
	const uint64_t *found = sp_map_get(&trace->ids_by_base, place_key(pid, base));
	return found ? (uint32_t)*found : SP_TRACE_NONE;
}

/* The record for (pid, base) at this time; the events about one image share it. */
static struct sp_trace_ids *ids_at(struct sp_trace *trace, uint32_t pid, uint64_t base, uint64_t time)
{
	uint32_t newest = find_ids(trace, pid, base);
	if (newest != SP_TRACE_NONE) {
		struct sp_trace_ids *ids = &trace->ids.items[newest];
		if (ids->pid == pid && ids->base == base && ids->time == time)
			return ids;
	}
	struct sp_trace_ids ids = { .pid = pid,
		                    .base = base,
		                    .time = time,
		                    .older = newest,
		                    .name = SP_INTERN_NONE,
		                    .debug_name = SP_INTERN_NONE };
	if (!sp_vector_push(&trace->ids, ids) ||
	    !sp_map_put(&trace->ids_by_base, place_key(pid, base), trace->ids.count - 1)) {
		trace->failed = true;
		return NULL;
	}
	return &trace->ids.items[trace->ids.count - 1];
}

bool sp_trace_image_id_event(struct sp_trace *trace, const struct sp_etl_event *event)
{
	struct sp_etl_image_id parsed;
	uint8_t code = event->opcode;
	if (code != SP_ETL_IMAGE_ID && code != SP_ETL_IMAGE_RSDS && code != SP_ETL_IMAGE_IL_RSDS &&
	    code != SP_ETL_IMAGE_PORTABLE_PDB)
		return true;
	if (!sp_etl_image_id_parse(event, &parsed)) {
		trace->counts.bad_payloads++;
		return true;
	}
	trace->merged = true;
	trace->counts.image_ids += code == SP_ETL_IMAGE_RSDS;
	uint32_t name = sp_trace_text(trace, &parsed.name);
	struct sp_trace_ids *ids = ids_at(trace, parsed.pid, parsed.base, event->time);
	if (!ids || trace->failed)
		return false;
	if (code == SP_ETL_IMAGE_ID) {
		ids->has_id = true;
		ids->size = parsed.size;
		ids->timestamp = parsed.timestamp;
		ids->name = name;
	} else if (!ids->has_debug || code == SP_ETL_IMAGE_RSDS) { /* the native one goes before the managed ones */
		ids->has_debug = true;
		ids->debug_kind = code;
		ids->age = parsed.age;
		ids->debug_name = name;
		memcpy(ids->guid, parsed.guid, SP_GUID_SIZE);
	}
	return true;
}

const struct sp_trace_ids *sp_trace_ids_of(const struct sp_trace *trace, const struct sp_trace_image *image)
{
	const struct sp_trace_ids *within = NULL;
	unsigned steps = 0;
	for (uint32_t at = find_ids(trace, image->pid, image->base); at != SP_TRACE_NONE && steps < 4096; steps++) {
		const struct sp_trace_ids *ids = &trace->ids.items[at];
		at = ids->older;
		if (ids->pid != image->pid || ids->base != image->base)
			continue;
		if (ids->time == image->described || ids->time == image->load)
			return ids;
		if (!within && ids->time >= image->load && ids->time <= image->unload)
			within = ids;
	}
	return within;
}

/* ---- The system ---- */

static bool add_volume(struct sp_trace *trace, struct sp_cursor *c)
{
	struct sp_etl_text nt = sp_etl_wide_text(c), dos = sp_etl_wide_text(c);
	struct sp_trace_volume volume = { sp_trace_text(trace, &nt), sp_trace_text(trace, &dos) };
	if (volume.nt == SP_INTERN_NONE || !*sp_trace_get(trace, volume.nt))
		return !trace->failed;
	if (volume.dos == SP_INTERN_NONE)
		volume.dos = sp_trace_string(trace, "");
	if (!trace->failed && !sp_vector_push(&trace->volumes, volume))
		trace->failed = true;
	return !trace->failed;
}

bool sp_trace_system_event(struct sp_trace *trace, const struct sp_etl_event *event)
{
	struct sp_cursor c = sp_cursor_init(event->payload, event->payload_size);
	if (event->opcode == SP_ETL_SYS_VOLUME)
		return add_volume(trace, &c);
	if (event->opcode == SP_ETL_SYS_PATHS) {
		sp_etl_wide_text(&c); /* the system32 folder */
		struct sp_etl_text root = sp_etl_wide_text(&c);
		trace->system_root = sp_trace_text(trace, &root);
	}
	if (event->opcode == SP_ETL_SYS_BUILD) {
		sp_cursor_skip(&c, 8);
		struct sp_etl_text build = sp_etl_wide_text(&c), product = sp_etl_wide_text(&c);
		trace->build_text = sp_trace_text(trace, &build);
		trace->os_text = sp_trace_text(trace, &product);
	}
	return !trace->failed;
}

/* "C:\\Windows\\" */
static const char *system_root(const struct sp_trace *trace)
{
	const char *root = sp_trace_get(trace, trace->system_root);
	return root && strlen(root) >= 4 && root[1] == ':' ? root : "C:\\Windows\\";
}

/* What lies on a server: "\\Device\\Mup\\server\\share\\...", with a mapped drive in front as ";Z:000000...\\". */
static bool network_path(const char *path, char *out, size_t size)
{
	static const char *const prefixes[] = { "\\Device\\Mup\\", "\\Device\\LanmanRedirector\\",
		                                "\\Device\\DfsClient\\", "\\DfsClient\\" };
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		size_t length = strlen(prefixes[i]);
		if (strncasecmp(path, prefixes[i], length))
			continue;
		const char *rest = path + length, *next = strchr(rest, '\\');
		while (*rest == ';' && next) {
			rest = next + 1;
			next = strchr(rest, '\\');
		}
		snprintf(out, size, "\\\\%s", rest);
		return true;
	}
	return false;
}

void sp_trace_dos_path(const struct sp_trace *trace, const char *path, char *out, size_t size)
{
	for (size_t i = 0; i < trace->volumes.count; i++) {
		const char *nt = sp_trace_get(trace, trace->volumes.items[i].nt);
		const char *dos = sp_trace_get(trace, trace->volumes.items[i].dos);
		size_t length = strlen(nt);
		if (strncasecmp(path, nt, length) || (!*dos && strcmp(nt, "\\??\\")))
			continue;
		snprintf(out, size, "%s%s", dos, path + length);
		return;
	}
	if (network_path(path, out, size))
		return;
	if (!strncasecmp(path, "\\??\\", 4)) {
		snprintf(out, size, "%s", path + 4);
		return;
	}
	if (!strncasecmp(path, "\\SystemRoot\\", 12)) {
		snprintf(out, size, "%s%s", system_root(trace), path + 12);
		return;
	}
	/* Load events write \Windows\System32\x.dll for what lies on the system's drive. */
	const char *root = system_root(trace);
	size_t length = strlen(root + 2);
	bool inside = !strncasecmp(path, root + 2, length);
	snprintf(out, size, "%.2s%s", inside ? root : "", path);
}
