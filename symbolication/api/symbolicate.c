/* symbolicate/v5: for each job one batch of look-ups a module, then the reply in the order of the stacks.
 *
 * Optional fields are left out when they are unknown: the front-end refuses null, and with it the whole reply. A
 * frame's own function, file and line are those of the outermost function; `inlines` are the others, innermost first.
 */
#include "internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the modules of one job gave. */
struct job_module {
	struct api_module *asked;
	spsym_module *module;       /* NULL = not found */
	struct spsym_result result; /* locations, one an address, in the order of the frames */
	struct sp_error *error;     /* why there is nothing, or not all */
	size_t first;               /* of its addresses among the job's */
	size_t next;                /* while addresses are dealt out and answers taken */
};

struct job_state {
	const struct sp_api *api;
	const struct api_symbolicate_request *request;
	const struct api_job *job;
	struct job_module *modules;
	struct api_places places;
	bool no_memory;
	struct sp_json *json;
};

/* ---- Look-ups ---- */

static void look_up_module(struct job_state *state, struct job_module *m, const uint64_t *addresses)
{
	const struct api_module *asked = m->asked;
	if (!asked->valid) {
		m->error = sp_error_create(SP_ERROR_FORMAT, "\"%s\" is not a debug ID", asked->id);
		return;
	}
	m->error = api_find_module(state->api, asked->name, asked->id, NULL, NULL, false, &m->module);
	if (m->error) {
		m->module = NULL;
		return;
	}
	m->error = spsym_lookup(m->module, addresses, asked->uses, &m->result);
	if (m->error || m->result.count != asked->uses) {
		spsym_result_deinit(&m->result);
		spsym_module_release(m->module);
		m->module = NULL;
	} else if (m->result.debug_error) {
		m->error = sp_error_create(SP_ERROR_FORMAT, "%s", m->result.debug_error);
	}
}

/* The job's addresses sorted by module, each module's in the order of the frames; false without memory. */
static bool look_up(struct job_state *state)
{
	const struct api_symbolicate_request *request = state->request;
	const struct api_job *job = state->job;
	size_t total = 0;
	for (size_t i = 0; i < job->module_count; i++) {
		struct job_module *m = &state->modules[i];
		m->asked = &request->modules.items[job->module_first + i];
		m->first = m->next = total;
		total += m->asked->uses;
	}
	uint64_t *addresses = malloc((total ? total : 1) * sizeof(*addresses));
	if (!addresses)
		return false;
	for (size_t s = 0; s < job->stack_count; s++) {
		struct api_stack stack = request->stacks.items[job->stack_first + s];
		for (size_t f = stack.first; f < stack.first + stack.count; f++) {
			const struct api_frame *frame = &request->frames.items[f];
			addresses[state->modules[frame->module].next++] = frame->address;
		}
	}
	for (size_t i = 0; i < job->module_count; i++) {
		struct job_module *m = &state->modules[i];
		m->next = 0;
		if (m->asked->uses)
			look_up_module(state, m, addresses + m->first);
	}
	free(addresses);
	return true;
}

/* ---- The reply ---- */

static void write_place(struct job_state *state, const char *function, const char *file)
{
	state->no_memory |= !api_places_write(&state->places, state->json, function, file);
}

static void write_inlines(struct job_state *state, const struct spsym_frame *frames, size_t count)
{
	struct sp_json *json = state->json;
	sp_json_key(json, "inlines");
	sp_json_array_begin(json);
	for (size_t i = 0; i < count; i++) {
		sp_json_object_begin(json);
		write_place(state, frames[i].function, frames[i].file);
		if (frames[i].line)
			sp_json_member_int(json, "line", frames[i].line);
		sp_json_object_end(json);
	}
	sp_json_array_end(json);
}

static void write_location(struct job_state *state, uint64_t address, const struct spsym_location *location)
{
	struct sp_json *json = state->json;
	const struct spsym_symbol *symbol = &location->symbol;
	const struct spsym_frame *outer = location->frame_count ? &location->frames[location->frame_count - 1] : NULL;
	const char *function = outer && outer->function ? outer->function : symbol->name;

	/* A function without an offset is dropped by the front-end, so one whose start is unknown begins here. */
	bool covered = symbol->address <= address && (symbol->name || address - symbol->address < symbol->size);
	write_place(state, function, outer ? outer->file : NULL);
	if (function) {
		sp_json_key(json, "function_offset");
		sp_json_hex(json, covered ? address - symbol->address : 0);
		if (covered && symbol->size) {
			sp_json_key(json, "function_size");
			sp_json_hex(json, symbol->size);
		}
	}
	if (outer && outer->line)
		sp_json_member_int(json, "line", outer->line);
	if (location->frame_count > 1)
		write_inlines(state, location->frames, location->frame_count - 1);
}

static void write_stack(struct job_state *state, struct api_stack stack)
{
	struct sp_json *json = state->json;
	const struct api_module *modules = &state->request->modules.items[state->job->module_first];
	sp_json_array_begin(json);
	for (size_t i = 0; i < stack.count && !json->error; i++) {
		const struct api_frame *frame = &state->request->frames.items[stack.first + i];
		struct job_module *m = &state->modules[frame->module];
		sp_json_object_begin(json);
		sp_json_member_int(json, "frame", (int64_t)i);
		sp_json_key(json, "module_offset");
		sp_json_hex(json, frame->address);
		sp_json_member_string(json, "module", modules[frame->module].name);
		if (m->module)
			write_location(state, frame->address, &m->result.locations[m->next]);
		m->next++;
		sp_json_object_end(json);
	}
	sp_json_array_end(json);
}

/* Names of the kinds of failures, for programs. */
static const char *error_name(const struct sp_error *error)
{
	switch (error->code) {
	case SP_ERROR_NO_MEMORY:
		return "NoMemory";
	case SP_ERROR_FORMAT:
		return "InvalidInput";
	case SP_ERROR_LIMIT:
		return "TooLarge";
	case SP_ERROR_NOT_FOUND:
		return "NotFound";
	case SP_ERROR_PERMISSION:
		return "NoPermission";
	case SP_ERROR_UNSUPPORTED:
		return "Unsupported";
	default:
		return "SystemError";
	}
}

static void write_module_key(struct job_state *state, const struct job_module *m, char **storage)
{
	free(*storage);
	*storage = NULL;
	if (asprintf(storage, "%s/%s", m->asked->name, m->asked->id) < 0)
		*storage = NULL;
	sp_json_key(state->json, *storage ? *storage : m->asked->name);
}

/* found_modules, and module_errors if there are any; only of modules that a stack refers to. */
static void write_modules(struct job_state *state)
{
	struct sp_json *json = state->json;
	bool errors = false;
	char *key = NULL;
	sp_json_key(json, "found_modules");
	sp_json_object_begin(json);
	for (size_t i = 0; i < state->job->module_count; i++) {
		const struct job_module *m = &state->modules[i];
		if (!m->asked->uses)
			continue;
		write_module_key(state, m, &key);
		sp_json_bool(json, m->module);
		errors |= m->error != NULL;
	}
	sp_json_object_end(json);
	if (errors) {
		sp_json_key(json, "module_errors");
		sp_json_object_begin(json);
		for (size_t i = 0; i < state->job->module_count; i++) {
			const struct job_module *m = &state->modules[i];
			if (!m->error)
				continue;
			write_module_key(state, m, &key);
			sp_json_array_begin(json);
			sp_json_object_begin(json);
			sp_json_member_string(json, "name", error_name(m->error));
			sp_json_member_string(json, "message", m->error->message);
			sp_json_object_end(json);
			sp_json_array_end(json);
		}
		sp_json_object_end(json);
	}
	free(key);
}

static void write_job(struct job_state *state)
{
	struct sp_json *json = state->json;
	sp_json_object_begin(json);
	sp_json_key(json, "stacks");
	sp_json_array_begin(json);
	for (size_t s = 0; s < state->job->stack_count && !json->error; s++)
		write_stack(state, state->request->stacks.items[state->job->stack_first + s]);
	sp_json_array_end(json);
	write_modules(state);
	sp_json_object_end(json);
}

static void end_job(struct job_state *state)
{
	for (size_t i = 0; i < state->job->module_count; i++) {
		struct job_module *m = &state->modules[i];
		if (m->module) {
			spsym_result_deinit(&m->result);
			spsym_module_release(m->module);
		}
		sp_error_destroy(m->error);
	}
	free(state->modules);
	api_places_deinit(&state->places);
}

/* One job's result; false without memory. */
static bool answer_job(struct job_state *state)
{
	size_t frames = 0;
	for (size_t s = 0; s < state->job->stack_count; s++)
		frames += state->request->stacks.items[state->job->stack_first + s].count;
	state->modules = calloc(state->job->module_count ? state->job->module_count : 1, sizeof(*state->modules));
	if (!state->modules)
		return false;
	bool done = api_places_init(&state->places, frames) && look_up(state);
	if (done)
		write_job(state);
	end_job(state);
	return done && !state->no_memory;
}

struct sp_error *api_symbolicate(const struct sp_api *api, const struct api_symbolicate_request *request,
                                 struct sp_json *json)
{
	sp_json_object_begin(json);
	sp_json_key(json, "results");
	sp_json_array_begin(json);
	for (size_t j = 0; j < request->jobs.count && !json->error; j++) {
		struct job_state state = {
			.api = api, .request = request, .job = &request->jobs.items[j], .json = json
		};
		if (!answer_job(&state))
			return sp_error_no_memory();
	}
	sp_json_array_end(json);
	sp_json_object_end(json);
	return NULL;
}
