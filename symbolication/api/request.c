/* Requests from JSON. Read with the pull reader: a body of 130 KB holds ten thousand addresses, for which a tree costs
 * more than their look-up does (measured: cJSON 4 ms and 22 times the body's size in memory). */
#include "common/hex.h"
#include "common/json_read.h"
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#define ADDRESS_MAX ((uint64_t)1 << 53) /* JSON numbers are exact up to here */

/* ---- symbolicate/v5 ---- */

struct symbolicate_reader {
	const struct sp_api *api;
	struct sp_json_reader json;
	struct api_symbolicate_request *request;
	bool too_large;
	bool no_memory;
};

static void fail_memory(struct symbolicate_reader *r)
{
	r->no_memory = true;
	sp_json_read_fail(&r->json, "out of memory");
}

/* A name outside the plain set is only good for a module that this side already knows, so it cannot be used to probe.
 */
static bool name_is_allowed(const struct sp_api *api, const char *name, const char *id)
{
	struct spsym_identity identity = { 0 };
	return api_name_is_plain(name) ||
	       (api->options.resolve && api->options.resolve(api->options.context, name, id, &identity));
}

/* [debugName, debugId] */
static void read_module(struct symbolicate_reader *r)
{
	struct sp_arena *arena = &r->request->arena;
	struct api_module module = { 0 };
	if (!sp_json_read_array(&r->json))
		return;
	if (sp_json_next_item(&r->json))
		module.name = sp_json_read_copy(&r->json, arena);
	if (sp_json_next_item(&r->json))
		module.id = sp_json_read_copy(&r->json, arena);
	if (!module.name || !module.id || sp_json_next_item(&r->json)) {
		sp_json_read_fail(&r->json, "memoryMap: an entry is not [debugName, debugId]");
		return;
	}
	if (module.id[strspn(module.id, "0123456789abcdefABCDEF")]) {
		sp_json_read_fail(&r->json, "memoryMap: a debug ID is not hexadecimal");
		return;
	}
	if (!name_is_allowed(r->api, module.name, module.id)) {
		sp_json_read_fail(&r->json, "memoryMap: a debug name has characters that are not allowed");
		return;
	}
	module.valid = api_debug_id_is_valid(module.id);
	if (!sp_vector_push(&r->request->modules, module))
		fail_memory(r);
}

/* [moduleIndex, address] */
static inline void read_frame(struct symbolicate_reader *r)
{
	uint64_t module = 0, address = 0;
	struct sp_json_reader *json = &r->json;
	if (!sp_json_read_array(json) || !sp_json_next_item(json) || !sp_json_read_u64(json, &module) ||
	    !sp_json_next_item(json) || !sp_json_read_u64(json, &address) || sp_json_next_item(json)) {
		sp_json_read_fail(json, "stacks: a frame is not [moduleIndex, address]");
		return;
	}
	if (sp_json_read_failed(json))
		return;
	if (module > UINT32_MAX || address > ADDRESS_MAX) {
		sp_json_read_fail(json, "stacks: a number is too large");
		return;
	}
	if (r->request->frames.count == SP_API_MAX_FRAMES) {
		r->too_large = true;
		sp_json_read_fail(json, "too many addresses in one request");
		return;
	}
	if (!sp_vector_push(&r->request->frames, (struct api_frame){ .address = address, .module = (uint32_t)module }))
		fail_memory(r);
}

static void read_stacks(struct symbolicate_reader *r)
{
	if (!sp_json_read_array(&r->json))
		return;
	while (sp_json_next_item(&r->json)) {
		struct api_stack stack = { .first = r->request->frames.count };
		if (!sp_json_read_array(&r->json))
			return;
		while (sp_json_next_item(&r->json))
			read_frame(r);
		stack.count = r->request->frames.count - stack.first;
		if (!sp_vector_push(&r->request->stacks, stack))
			fail_memory(r);
	}
}

/* A job's two members, which may be those of the whole body. */
struct job_reader {
	struct api_job job;
	bool has_modules, has_stacks;
};

static void read_job_member(struct symbolicate_reader *r, struct job_reader *j, bool modules)
{
	bool *has = modules ? &j->has_modules : &j->has_stacks;
	if (*has) {
		sp_json_read_fail(&r->json, modules ? "memoryMap is there twice" : "stacks is there twice");
		return;
	}
	*has = true;
	if (!modules) {
		j->job.stack_first = r->request->stacks.count;
		read_stacks(r);
		j->job.stack_count = r->request->stacks.count - j->job.stack_first;
		return;
	}
	j->job.module_first = r->request->modules.count;
	if (!sp_json_read_array(&r->json))
		return;
	while (sp_json_next_item(&r->json))
		read_module(r);
	j->job.module_count = r->request->modules.count - j->job.module_first;
}

/* Checks the job's module indexes, counts their uses and takes the job. */
static void end_job(struct symbolicate_reader *r, const struct job_reader *j)
{
	struct api_symbolicate_request *request = r->request;
	if (sp_json_read_failed(&r->json))
		return;
	if (!j->has_modules || !j->has_stacks) {
		sp_json_read_fail(&r->json, j->has_modules ? "a job has no stacks" : "a job has no memoryMap");
		return;
	}
	for (size_t s = 0; s < j->job.stack_count; s++) {
		struct api_stack stack = request->stacks.items[j->job.stack_first + s];
		for (size_t f = stack.first; f < stack.first + stack.count; f++) {
			uint32_t module = request->frames.items[f].module;
			if (module >= j->job.module_count) {
				sp_json_read_fail(&r->json, "stacks: a module index is past the end of memoryMap");
				return;
			}
			request->modules.items[j->job.module_first + module].uses++;
		}
	}
	if (!sp_vector_push(&request->jobs, j->job))
		fail_memory(r);
}

static void read_job(struct symbolicate_reader *r)
{
	struct job_reader j = { 0 };
	const char *key;
	size_t length;
	if (!sp_json_read_object(&r->json))
		return;
	while (sp_json_next_key(&r->json, &key, &length)) {
		if (sp_json_key_is(key, length, "memoryMap"))
			read_job_member(r, &j, true);
		else if (sp_json_key_is(key, length, "stacks"))
			read_job_member(r, &j, false);
		else
			sp_json_skip(&r->json);
	}
	end_job(r, &j);
}

static void read_body(struct symbolicate_reader *r)
{
	struct job_reader single = { 0 };
	bool has_jobs = false;
	const char *key;
	size_t length;
	if (!sp_json_read_object(&r->json))
		return;
	while (sp_json_next_key(&r->json, &key, &length)) {
		if (sp_json_key_is(key, length, "jobs") && !has_jobs) {
			has_jobs = true;
			if (!sp_json_read_array(&r->json))
				return;
			while (sp_json_next_item(&r->json))
				read_job(r);
		} else if (sp_json_key_is(key, length, "memoryMap")) {
			read_job_member(r, &single, true);
		} else if (sp_json_key_is(key, length, "stacks")) {
			read_job_member(r, &single, false);
		} else {
			sp_json_skip(&r->json);
		}
	}
	if (!has_jobs)
		end_job(r, &single);
}

struct sp_error *api_read_symbolicate(const struct sp_api *api, const char *body, size_t size,
                                      struct api_symbolicate_request *ret)
{
	struct symbolicate_reader r = { .api = api, .request = ret };
	memset(ret, 0, sizeof(*ret));
	sp_json_read_init(&r.json, body, size);
	read_body(&r);
	struct sp_error *error = sp_json_read_finish(&r.json);
	sp_json_read_deinit(&r.json);
	if (error && r.no_memory) {
		sp_error_destroy(error);
		error = sp_error_no_memory();
	} else if (error && r.too_large) {
		error->code = SP_ERROR_LIMIT;
	}
	if (error)
		api_symbolicate_request_deinit(ret);
	return error;
}

void api_symbolicate_request_deinit(struct api_symbolicate_request *request)
{
	sp_vector_deinit(&request->jobs);
	sp_vector_deinit(&request->modules);
	sp_vector_deinit(&request->stacks);
	sp_vector_deinit(&request->frames);
	sp_arena_deinit(&request->arena);
}

/* ---- source/v1 and asm/v1 ---- */

/* "0x1f" */
static bool read_hex(struct sp_json_reader *r, uint64_t *ret)
{
	const char *text;
	size_t length;
	if (!sp_json_read_string(r, &text, &length))
		return false;
	uint64_t value = 0;
	bool good = length > 2 && length <= 18 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	for (size_t i = 2; good && i < length; i++) {
		int digit = sp_hex_digit(text[i]);
		good = digit >= 0;
		value = value << 4 | (unsigned)digit;
	}
	if (!good || value > ADDRESS_MAX) {
		sp_json_read_fail(r, "not a hexadecimal string (\"0x1f\")");
		return false;
	}
	*ret = value;
	return true;
}

static void read_code_member(struct sp_json_reader *r, const char *key, size_t length, struct api_code_request *ret)
{
	const struct {
		const char *key;
		const char **value;
	} strings[] = {
		{ "debugName", &ret->debug_name }, { "debugId", &ret->debug_id }, { "name", &ret->name },
		{ "codeId", &ret->code_id },       { "file", &ret->file },
	};
	if (sp_json_peek(r) == SP_JSON_KIND_NULL) {
		sp_json_skip(r);
		return;
	}
	for (size_t i = 0; i < sizeof(strings) / sizeof(*strings); i++) {
		if (sp_json_key_is(key, length, strings[i].key)) {
			*strings[i].value = sp_json_read_copy(r, &ret->arena);
			return;
		}
	}
	if (sp_json_key_is(key, length, "moduleOffset") || sp_json_key_is(key, length, "startAddress"))
		ret->has_offset = read_hex(r, &ret->offset);
	else if (sp_json_key_is(key, length, "size"))
		ret->has_size = read_hex(r, &ret->size);
	else if (sp_json_key_is(key, length, "continueUntilFunctionEnd"))
		sp_json_read_bool(r, &ret->continue_until_function_end);
	else
		sp_json_skip(r);
}

struct sp_error *api_read_code_request(const char *body, size_t size, struct api_code_request *ret)
{
	struct sp_json_reader r;
	const char *key;
	size_t length;
	memset(ret, 0, sizeof(*ret));
	sp_json_read_init(&r, body, size);
	if (sp_json_read_object(&r)) {
		while (sp_json_next_key(&r, &key, &length))
			read_code_member(&r, key, length, ret);
	}
	struct sp_error *error = sp_json_read_finish(&r);
	sp_json_read_deinit(&r);
	if (!error && ret->debug_id && !api_debug_id_is_valid(ret->debug_id))
		error = sp_error_create(SP_ERROR_FORMAT, "debugId is not a debug ID");
	if (!error && !ret->has_offset)
		error = sp_error_create(SP_ERROR_FORMAT, "moduleOffset or startAddress is missing");
	if (error)
		api_code_request_deinit(ret);
	return error;
}

void api_code_request_deinit(struct api_code_request *request)
{
	sp_arena_deinit(&request->arena);
}
