/* The door of the api: picks the request's handler and turns failures into replies. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

struct sp_error *sp_api_create(const struct sp_api_options *options, struct sp_api **ret)
{
	struct sp_api *api = malloc(sizeof(*api));
	if (!api)
		return sp_error_no_memory();
	api->options = *options;
	*ret = api;
	return NULL;
}

void sp_api_destroy(struct sp_api *api)
{
	free(api);
}

static struct sp_error *symbolicate(struct sp_api *api, const char *body, size_t size, struct sp_json *json)
{
	struct api_symbolicate_request request;
	struct sp_error *error = api_read_symbolicate(api, body, size, &request);
	if (error)
		return error;
	error = api_symbolicate(api, &request, json);
	api_symbolicate_request_deinit(&request);
	return error;
}

/* {"error": reason} instead of what was written so far. */
static struct sp_error *reply_error(struct sp_buffer *reply, struct sp_error *error)
{
	struct sp_json json;
	reply->size = 0;
	sp_json_init(&json, sp_buffer_write, reply);
	sp_json_object_begin(&json);
	sp_json_member_string(&json, "error", error->message);
	sp_json_object_end(&json);
	sp_error_destroy(error);
	return sp_json_finish(&json);
}

static enum sp_api_status status_of(const struct sp_error *error)
{
	return error->code == SP_ERROR_LIMIT ? SP_API_TOO_LARGE : SP_API_BAD_REQUEST;
}

struct sp_error *sp_api_handle(struct sp_api *api, const char *path, const char *body, size_t body_size,
                               struct sp_buffer *reply, enum sp_api_status *ret_status)
{
	bool is_source = !strcmp(path, "/source/v1"), is_asm = !strcmp(path, "/asm/v1");
	struct api_code_request code;
	struct sp_json json;
	struct sp_error *error;

	if (!reply->limit)
		reply->limit = SP_API_MAX_REPLY;
	sp_json_init(&json, sp_buffer_write, reply);
	*ret_status = SP_API_OK;
	if (is_source || is_asm) {
		error = api_read_code_request(body, body_size, &code);
		if (error) {
			*ret_status = status_of(error);
			return reply_error(reply, error);
		}
		error = is_source ? api_source(api, &code, &json) : api_asm(api, &code, &json);
		api_code_request_deinit(&code);
		if (error)
			return reply_error(reply, error);
	} else if (!strcmp(path, "/symbolicate/v5")) {
		error = symbolicate(api, body, body_size, &json);
		if (error && error->code == SP_ERROR_NO_MEMORY)
			return error;
		if (error) {
			*ret_status = status_of(error);
			return reply_error(reply, error);
		}
	} else {
		*ret_status = SP_API_NOT_FOUND;
		return reply_error(reply, sp_error_create(SP_ERROR_NOT_FOUND, "no such API: %s", path));
	}
	error = sp_json_finish(&json);
	if (error && error->code == SP_ERROR_LIMIT) {
		*ret_status = SP_API_TOO_LARGE;
		sp_error_destroy(error);
		return reply_error(reply,
		                   sp_error_create(SP_ERROR_LIMIT,
		                                   "the reply would be larger than %zu MiB: ask for fewer addresses",
		                                   reply->limit >> 20));
	}
	return error;
}
