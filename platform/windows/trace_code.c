/* Code made at run time: the method events of .NET, and of Microsoft's and Google's JavaScript engines. */
#include "platform/windows/etl_schema.h"
#include "platform/windows/trace.h"

#include <stdio.h>

/* Microsoft-Windows-DotNETRuntime, ...Rundown; Microsoft-JScript, which V8 uses too. */
static const struct sp_guid clr = SP_GUID(0xe13c0d23, 0xccbc, 0x4e12, 0x93, 0x1b, 0xd9, 0xcc, 0x2e, 0xee, 0x27, 0xe4);
static const struct sp_guid clr_rundown = SP_GUID(0xa669021c, 0xc450, 0x4609, 0xa0, 0x35, 0x5a, 0xf5, 0x9a, 0xf4, 0xdf,
                                                  0x18);
static const struct sp_guid jscript = SP_GUID(0x57277741, 0x3638, 0x4a4b, 0xbd, 0xba, 0x0a, 0xc6, 0xe4, 0x5d, 0xa5,
                                              0x6c);

enum { CLR_LOAD = 143, CLR_UNLOAD = 144 }; /* "verbose": with names. In the rundown: at its start, at its end */
enum { JS_LOAD = 9, JS_DC_START = 11, JS_SOURCE_LOAD = 41 };

static uint64_t code_key(uint32_t process, uint64_t start)
{
	return sp_hash_u64(start ^ (uint64_t)process << 44 ^ process);
}

static struct sp_trace_method *find_method(struct sp_trace *trace, uint32_t process, uint64_t start)
{
	const uint64_t *found = sp_map_get(&trace->by_code, code_key(process, start));
	struct sp_trace_method *method = found ? &trace->methods.items[*found] : NULL;
	return method && method->process == process && method->start == start ? method : NULL;
}

static bool add_method(struct sp_trace *trace, const struct sp_trace_method *method)
{
	struct sp_trace_method *old = find_method(trace, method->process, method->start);
	if (old && old->unload == UINT64_MAX)
		old->unload = method->load;
	trace->counts.methods++;
	if (sp_vector_push(&trace->methods, *method) &&
	    sp_map_put(&trace->by_code, code_key(method->process, method->start), trace->methods.count - 1))
		return true;
	trace->failed = true;
	return false;
}

/* Whether a rundown tells what is known. */
static bool is_known(struct sp_trace *trace, const struct sp_trace_method *method)
{
	const struct sp_trace_method *old = method->load ? NULL : find_method(trace, method->process, method->start);
	return old && old->unload == UINT64_MAX;
}

/* "Namespace.Class.Method(int32,class String)": of the signature only the parameters are shown. */
static uint32_t clr_name(struct sp_trace *trace, struct sp_cursor *c)
{
	char space[512], name[512], signature[1024], whole[2100], *end = whole;
	struct sp_etl_text texts[3];
	for (unsigned i = 0; i < 3; i++)
		texts[i] = sp_etl_wide_text(c);
	sp_etl_text_utf8(&texts[0], space, sizeof(space));
	sp_etl_text_utf8(&texts[1], name, sizeof(name));
	sp_etl_text_utf8(&texts[2], signature, sizeof(signature));
	const char *parameters = strchr(signature, '(');
	const char *const parts[] = { space, *space && *name ? "." : "", name, parameters ? parameters : "" };
	for (unsigned i = 0; i < 4; i++) { /* they fit */
		size_t length = strlen(parts[i]);
		memcpy(end, parts[i], length + 1);
		end += length;
	}
	return sp_trace_string(trace, whole);
}

static bool take_clr(struct sp_trace *trace, const struct sp_etl_event *event, bool rundown)
{
	struct sp_cursor c = sp_cursor_init(event->payload, event->payload_size);
	sp_cursor_skip(&c, 16); /* method and module ID */
	struct sp_trace_method method = { .load = rundown ? 0 : event->time, .unload = UINT64_MAX };
	method.start = sp_cursor_u64(&c);
	method.size = sp_cursor_u32(&c);
	sp_cursor_skip(&c, 8); /* token, flags */
	if (c.bad) {
		trace->counts.bad_payloads++;
		return true;
	}
	method.process = sp_trace_process_now(trace, event->pid);
	if (method.process == SP_TRACE_NONE || !method.size)
		return !trace->failed;
	if (event->id == CLR_UNLOAD && !rundown) {
		struct sp_trace_method *old = find_method(trace, method.process, method.start);
		if (old && old->unload == UINT64_MAX) {
			old->unload = event->time;
			return true;
		}
		method.load = 0;
		method.unload = event->time;
	}
	if (is_known(trace, &method))
		return true;
	method.name = clr_name(trace, &c);
	return !trace->failed && add_method(trace, &method);
}

static bool take_source(struct sp_trace *trace, const struct sp_etl_event *event)
{
	struct sp_cursor c = sp_cursor_init(event->payload, event->payload_size);
	uint64_t source = sp_cursor_u64(&c);
	sp_cursor_skip(&c, event->pointer_size + 4u); /* context, flags */
	struct sp_etl_text url = sp_etl_wide_text(&c);
	uint32_t text = sp_trace_text(trace, &url);
	uint32_t process = sp_trace_process_now(trace, event->pid);
	if (text != SP_INTERN_NONE && process != SP_TRACE_NONE &&
	    !sp_map_put(&trace->scripts, code_key(process, source), text))
		trace->failed = true;
	return !trace->failed;
}

/* V8 and Edge's old engine send the same fields. A name without a place gets its script and line. */
static bool take_javascript(struct sp_trace *trace, const struct sp_etl_event *event, bool found)
{
	struct sp_cursor c = sp_cursor_init(event->payload, event->payload_size);
	struct sp_trace_method method = { .load = found ? 0 : event->time, .unload = UINT64_MAX };
	bool wide = event->pointer_size == 8;
	sp_cursor_skip(&c, event->pointer_size); /* context */
	method.start = wide ? sp_cursor_u64(&c) : sp_cursor_u32(&c);
	method.size = sp_cursor_u64(&c);
	sp_cursor_skip(&c, 8); /* method ID, flags, range ID */
	uint64_t source = sp_cursor_u64(&c);
	uint32_t line = sp_cursor_u32(&c);
	sp_cursor_skip(&c, 4); /* column */
	struct sp_etl_text name = sp_etl_wide_text(&c);
	if (c.bad) {
		trace->counts.bad_payloads++;
		return true;
	}
	char text[1024], whole[2100];
	method.process = sp_trace_process_now(trace, event->pid);
	if (method.process == SP_TRACE_NONE || !method.size)
		return !trace->failed;
	if (is_known(trace, &method))
		return true;
	sp_etl_text_utf8(&name, text, sizeof(text));
	const uint64_t *url = source ? sp_map_get(&trace->scripts, code_key(method.process, source)) : NULL;
	const char *script = url ? sp_trace_get(trace, (uint32_t)*url) : "";
	if (*script && !strstr(text, script) && line)
		snprintf(whole, sizeof(whole), "%s %s:%u", *text ? text : "(anonymous)", script, line);
	else
		snprintf(whole, sizeof(whole), "%s", *text ? text : "(anonymous)");
	method.name = sp_trace_string(trace, whole);
	return !trace->failed && add_method(trace, &method);
}

bool sp_trace_is_code(const struct sp_etl_event *event)
{
	if (event->type != SP_ETL_TYPE_EVENT32 && event->type != SP_ETL_TYPE_EVENT64)
		return false;
	if (sp_guid_equal(event->guid, &jscript))
		return true;
	return (event->id == CLR_LOAD || event->id == CLR_UNLOAD) &&
	       (sp_guid_equal(event->guid, &clr) || sp_guid_equal(event->guid, &clr_rundown));
}

bool sp_trace_code_event(struct sp_trace *trace, const struct sp_etl_event *event, bool *ret_taken)
{
	bool rundown = false;
	*ret_taken = true;
	if (event->id == CLR_LOAD || event->id == CLR_UNLOAD) {
		rundown = sp_guid_equal(event->guid, &clr_rundown);
		if (rundown || sp_guid_equal(event->guid, &clr))
			return take_clr(trace, event, rundown);
	}
	if (sp_guid_equal(event->guid, &jscript)) {
		char name[32];
		sp_etl_schema_name(event, name, sizeof(name));
		if (event->id == JS_SOURCE_LOAD || !strcmp(name, "SourceDCStart"))
			return take_source(trace, event);
		bool rundown_method = event->id == JS_DC_START || !strcmp(name, "MethodDCStart");
		if (event->id == JS_LOAD || rundown_method)
			return take_javascript(trace, event, rundown_method);
	}
	*ret_taken = false;
	return true;
}
