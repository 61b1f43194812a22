/* How files come in.
 *
 * POST /v1/uploads:check asks what is needed, of up to 1,024 files:
 *	{"files":[{"sha256":S,"size":N,"name":NAME,"namespace":NS,"ref":REF,"buildId":ID}]}    buildId: of sources only
 *	-> {"files":[{"action":"skip"} | {"action":"upload","offset":N} | {"action":"reject","reason":TEXT}]}
 * PUT /v1/uploads/SHA256?offset=N&name=NAME&namespace=NS&ref=REF&buildId=ID sends one from an offset on. What arrived
 * of one that broke off stays: the next check tells how much. 201: stored, on disk; 200: it was there. 409: another one
 * sends it now, or the offset is another. 422: it is of no use, with the reason. 507: the disk is full. */
#include "internal.h"

#include "common/arena.h"
#include "common/clock.h"
#include "common/json_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_FILES 1024

/* Who may put what where; the reason why not. */
static const char *refusal(const struct sp_store_token *token, const struct sp_store_claim *claim, uint64_t size)
{
	unsigned sources = 1u << SP_STORE_SOURCE;
	if (!sp_store_is_namespace(claim->ns))
		return "namespaces are release, branch/NAME and pr/NAME";
	if (!sp_store_token_allows(token, claim->ns))
		return "the token does not allow that namespace";
	if (token->ref[0] && strcmp(token->ref, claim->ref ? claim->ref : "") != 0)
		return "the token does not allow that ref";
	if (token->size_limit && size > token->size_limit)
		return "the file is larger than the token allows";
	if (claim->build_id ? !(token->kinds & sources) : !(token->kinds & ~sources))
		return "the token does not allow that kind of file";
	return NULL;
}

/* ---- One file ---- */

/* Strings of a claim from a query. */
struct claim_text {
	char sha256[SP_STORE_SHA_SIZE], name[SP_STORE_PATH_SIZE], ns[SP_STORE_NAME_SIZE], ref[SP_STORE_NAME_SIZE],
	    build_id[SPSYM_ID_MAX];
};

static bool read_claim(const struct server_request *request, struct claim_text *text, struct sp_store_claim *ret)
{
	const char *query = request->http->query;
	const char *sha256 = request->path + strlen("/v1/uploads/");
	memset(ret, 0, sizeof(*ret));
	if (!sp_store_is_sha256(sha256))
		return false;
	memcpy(text->sha256, sha256, sizeof(text->sha256));
	ret->sha256 = text->sha256;
	ret->name = server_parameter(query, "name", text->name, sizeof(text->name));
	ret->ns = server_parameter(query, "namespace", text->ns, sizeof(text->ns));
	ret->ref = server_parameter(query, "ref", text->ref, sizeof(text->ref));
	ret->build_id = server_parameter(query, "buildId", text->build_id, sizeof(text->build_id));
	return ret->name && ret->ns;
}

struct upload {
	struct sp_server *server;
	struct sp_stage *stage;
	struct sp_error *error; /* the first of writing */
	struct sp_store_token token;
	struct sp_store_claim claim;
	struct claim_text text;
};

static bool write_upload(void *stream, const void *bytes, size_t size)
{
	struct upload *upload = stream;
	if (!upload->error)
		upload->error = sp_stage_write(upload->stage, bytes, size);
	atomic_fetch_add_explicit(&upload->server->received, size, memory_order_relaxed);
	return true; /* the rest is thrown away, so that the client reads why */
}

static void close_upload(void *stream)
{
	struct upload *upload = stream;
	sp_stage_close(upload->stage);
	sp_error_destroy(upload->error);
	free(upload);
}

static unsigned refuse(struct sp_http_body *ret, unsigned status, const char *text)
{
	ret->refusal = text;
	return status;
}

static unsigned open_stage(struct upload *upload, uint64_t wanted, struct sp_http_body *ret)
{
	uint64_t offset = 0;
	struct sp_error *error = sp_stage_open(upload->server->options.store, upload->token.id, upload->claim.sha256,
	                                       &upload->stage, &offset);
	bool busy = error && error->code == SP_ERROR_PERMISSION;
	if (!error && wanted == 0 && offset) {
		error = sp_stage_restart(upload->stage);
		offset = 0;
	}
	if (!error && wanted != offset)
		busy = true;
	if (!error && !busy)
		return 200;
	if (upload->stage)
		sp_stage_close(upload->stage);
	sp_error_destroy(error);
	return busy ? refuse(ret, 409, "Another one sends this file, or the offset is another: check again.\n")
	            : refuse(ret, 507, "The upload cannot be stored now.\n");
}

static unsigned begin(struct sp_server *server, const struct server_request *request, struct upload *upload,
                      struct sp_http_body *ret)
{
	char offset_text[24];
	const char *offset = server_parameter(request->http->query, "offset", offset_text, sizeof(offset_text));
	upload->server = server;
	upload->token = request->token;
	if (!read_claim(request, &upload->text, &upload->claim))
		return refuse(ret, 400, "PUT /v1/uploads/SHA256?name=…&namespace=…\n");
	upload->claim.token = upload->token.id;
	upload->claim.kinds = upload->token.kinds;
	const char *why = refusal(&upload->token, &upload->claim, 0);
	if (why)
		return refuse(ret, 403, why);
	struct sp_error *error = sp_store_check_space(server->options.store);
	if (error) {
		sp_log(server->options.log, SP_LOG_ERROR, "%s", error->message);
		sp_error_destroy(error);
		return refuse(ret, 507, "The server's disk is full.\n");
	}
	return open_stage(upload, offset ? strtoull(offset, NULL, 10) : 0, ret);
}

unsigned server_open_body(void *context, const struct sp_http_request *http, struct sp_http_body *ret)
{
	struct sp_server *server = context;
	struct server_request request;
	uint64_t started = sp_clock_now();
	struct sp_error *error = server_read_request(server, http, &request);
	bool is_upload = !strcmp(http->method, "PUT") && !strncmp(request.path, "/v1/uploads/", 12);
	bool allowed = !error && request.token.ns[0];
	sp_error_destroy(error);
	if (!is_upload)
		return 0;
	struct upload *upload = calloc(1, sizeof(*upload));
	unsigned status = !allowed  ? refuse(ret, 401, "Uploads need a token that may upload.\n")
	                  : !upload ? refuse(ret, 503, "The server is out of memory.\n")
	                            : begin(server, &request, upload, ret);
	if (status != 200) {
		free(upload);
		server_count(server, &request, status, started);
		return status;
	}
	uint64_t limit = server->options.upload_limit, there = sp_stage_size(upload->stage);
	if (upload->token.size_limit && upload->token.size_limit < limit)
		limit = upload->token.size_limit;
	*ret = (struct sp_http_body){ .stream = upload,
		                      .limit = limit > there ? limit - there : 0,
		                      .write = write_upload,
		                      .close = close_upload };
	return 200;
}

static unsigned status_of(const struct sp_error *error)
{
	switch (error->code) {
	case SP_ERROR_FORMAT:
	case SP_ERROR_UNSUPPORTED:
	case SP_ERROR_LIMIT:
		return 422;
	case SP_ERROR_PERMISSION:
		return 403;
	case SP_ERROR_NO_MEMORY:
		return 503;
	case SP_ERROR_SYSTEM:
	case SP_ERROR_NOT_FOUND:
	case SP_ERROR_USAGE:
	case SP_ERROR_CANCELLED:
	default:
		return 507;
	}
}

static void reply_stored(const struct sp_store_artifact *artifact, bool is_new, struct sp_http_reply *reply)
{
	struct sp_json json;
	reply->status = is_new ? 201 : 200;
	reply->content_type = "application/json";
	sp_json_init(&json, sp_buffer_write, &reply->body);
	sp_json_object_begin(&json);
	sp_json_member_string(&json, "sha256", artifact->sha256);
	sp_json_member_string(&json, "kind", sp_store_kind_name(artifact->kind));
	sp_json_member_string(&json, "debugId", artifact->info.debug_id);
	sp_json_member_string(&json, "codeId", artifact->info.code_id);
	sp_json_member_bool(&json, "new", is_new);
	sp_json_object_end(&json);
	sp_error_destroy(sp_json_finish(&json));
}

void server_upload(struct sp_server *server, const struct server_request *request, struct sp_http_reply *reply)
{
	struct upload *upload = request->http->stream;
	struct sp_store_artifact artifact;
	bool is_new = false;
	if (!upload) { /* an empty body */
		server_text(reply, 400, "The file is empty.\n");
		return;
	}
	struct sp_error *error = upload->error;
	upload->error = NULL;
	if (!error)
		error = sp_stage_publish(upload->stage, &upload->claim, &artifact, &is_new);
	if (!error) {
		atomic_fetch_add_explicit(&server->stored, is_new, memory_order_relaxed);
		reply_stored(&artifact, is_new, reply);
		return;
	}
	bool taken_over = error->code == SP_ERROR_PERMISSION && sp_stage_is_lost(upload->stage);
	sp_log(server->options.log, SP_LOG_DEBUG, "upload refused: %s", error->message);
	server_error(reply, taken_over ? 409 : status_of(error), error);
}

/* ---- What is needed ---- */

struct asked {
	struct sp_store_claim claim;
	uint64_t size;
	const char *problem; /* NULL = none */
};

static void read_file(struct sp_json_reader *reader, struct sp_arena *arena, struct asked *ret)
{
	const char *key;
	size_t length;
	memset(ret, 0, sizeof(*ret));
	sp_json_read_object(reader);
	while (sp_json_next_key(reader, &key, &length)) {
		if (sp_json_key_is(key, length, "sha256"))
			ret->claim.sha256 = sp_json_read_copy(reader, arena);
		else if (sp_json_key_is(key, length, "name"))
			ret->claim.name = sp_json_read_copy(reader, arena);
		else if (sp_json_key_is(key, length, "namespace"))
			ret->claim.ns = sp_json_read_copy(reader, arena);
		else if (sp_json_key_is(key, length, "ref"))
			ret->claim.ref = sp_json_read_copy(reader, arena);
		else if (sp_json_key_is(key, length, "buildId"))
			ret->claim.build_id = sp_json_read_copy(reader, arena);
		else if (sp_json_key_is(key, length, "size"))
			sp_json_read_u64(reader, &ret->size);
		else
			sp_json_skip(reader);
	}
}

static struct sp_error *answer_file(struct sp_server *server, const struct server_request *request, struct asked *asked,
                                    struct sp_json *json)
{
	struct sp_store *store = server->options.store;
	struct sp_store_claim *claim = &asked->claim;
	bool has = false;
	claim->token = request->token.id;
	claim->kinds = request->token.kinds;
	const char *why = !claim->sha256 || !claim->name || !claim->ns ? "sha256, name and namespace are needed"
	                  : asked->size > server->options.upload_limit ? "the file is larger than this server takes"
	                                                               : refusal(&request->token, claim, asked->size);
	struct sp_error *error = why ? NULL : sp_store_has(store, claim, &has);
	if (!why && !error && !has)
		error = sp_store_adopt(store, claim, &has);
	if (error && error->code != SP_ERROR_FORMAT && error->code != SP_ERROR_PERMISSION)
		return error;
	sp_json_object_begin(json);
	if (why || error) {
		sp_json_member_string(json, "action", "reject");
		sp_json_member_string(json, "reason", why ? why : error->message);
	} else if (has) {
		sp_json_member_string(json, "action", "skip");
	} else {
		uint64_t offset = sp_store_staged(store, request->token.id, claim->sha256);
		sp_json_member_string(json, "action", "upload");
		sp_json_member_int(json, "offset", (int64_t)(offset < asked->size ? offset : 0));
	}
	sp_json_object_end(json);
	sp_error_destroy(error);
	return NULL;
}

static struct sp_error *answer_check(struct sp_server *server, const struct server_request *request,
                                     struct sp_json_reader *reader, struct sp_json *json)
{
	const char *key;
	size_t length, count = 0;
	struct sp_error *error = NULL;
	sp_json_object_begin(json);
	sp_json_key(json, "files");
	sp_json_array_begin(json);
	sp_json_read_object(reader);
	while (sp_json_next_key(reader, &key, &length)) {
		if (!sp_json_key_is(key, length, "files")) {
			sp_json_skip(reader);
			continue;
		}
		sp_json_read_array(reader);
		while (sp_json_next_item(reader) && !error) {
			struct sp_arena arena = { 0 };
			struct asked asked;
			read_file(reader, &arena, &asked);
			if (++count > MOST_FILES)
				sp_json_read_fail(reader, "more than 1024 files");
			if (!sp_json_read_failed(reader))
				error = answer_file(server, request, &asked, json);
			sp_arena_deinit(&arena);
		}
		if (error)
			break;
	}
	sp_json_array_end(json);
	sp_json_object_end(json);
	return error;
}

void server_check(struct sp_server *server, const struct server_request *request, struct sp_http_reply *reply)
{
	struct sp_json json;
	struct sp_json_reader reader;
	sp_json_init(&json, sp_buffer_write, &reply->body);
	sp_json_read_init(&reader, request->http->body ? request->http->body : "", request->http->body_size);
	struct sp_error *error = answer_check(server, request, &reader, &json);
	struct sp_error *bad = error ? NULL : sp_json_read_finish(&reader);
	struct sp_error *broken = sp_json_finish(&json);
	sp_json_read_deinit(&reader);
	reply->content_type = "application/json";
	if (bad)
		server_error(reply, 400, bad);
	else if (error || broken)
		server_error(reply, 503, sp_error_copy(error ? error : broken));
	sp_error_destroy(error);
	sp_error_destroy(broken);
}
