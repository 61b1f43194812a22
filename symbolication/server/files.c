/* Stored files under the paths of debuginfod and of symbol stores.
 *
 * debuginfod: debuginfod(8) of elfutils. Symbol stores: FILE/ID/FILE, where the ID's form tells the kind: a PDB's GUID
 * and age, a PE file's time stamp and size, SSQP's elf-buildid-… (.NET's symstore, "SSQP key conventions"), and
 * Breakpad's FILE/ID/FILE.sym. Names in those paths are hints only: the ID decides. */
#include "internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define MOST_ID 128 /* chars */

static void lower(const char *from, size_t length, char *ret)
{
	for (size_t i = 0; i < length; i++)
		ret[i] = (char)tolower((unsigned char)from[i]);
	ret[length] = 0;
}

/* Hands out bytes of a stored file; `size` UINT64_MAX = all of it. */
static struct sp_error *reply_file(struct sp_server *server, const struct sp_store_artifact *artifact, uint64_t offset,
                                   uint64_t size, struct sp_http_reply *reply)
{
	int fd;
	uint64_t file_size;
	char etag[SP_STORE_SHA_SIZE + 48];
	struct sp_error *error = sp_store_open_blob(server->options.store, artifact->sha256, &fd, &file_size);
	if (error)
		return error;
	bool whole = size == UINT64_MAX;
	snprintf(etag, sizeof(etag), whole ? "\"%s\"" : "\"%s-%llx-%llx\"", artifact->sha256,
	         (unsigned long long)offset, (unsigned long long)size);
	if (whole)
		size = file_size;
	reply->etag = strdup(etag);
	if (!reply->etag || offset > file_size || size > file_size - offset) {
		close(fd);
		return reply->etag ? sp_error_create(SP_ERROR_SYSTEM, "a stored file is shorter than it was")
		                   : sp_error_no_memory();
	}
	reply->has_fd = true;
	reply->fd = fd;
	reply->fd_offset = offset;
	reply->fd_size = size;
	reply->content_type = "application/octet-stream";
	/* A better file with the same ID may come. */
	sp_http_reply_header(reply, "Cache-Control", "public, max-age=3600");
	return NULL;
}

/* A miss is 404, which clients remember for a while; trouble of our own must not look like one. */
static void end(struct sp_server *server, struct sp_error *error, bool reset, struct sp_http_reply *reply)
{
	if (!error)
		return;
	if (error->code == SP_ERROR_NOT_FOUND) {
		sp_http_reply_header(reply, "Cache-Control", "max-age=60");
		server_text(reply, 404, "%s\n", error->message);
	} else {
		sp_log(server->options.log, SP_LOG_ERROR, "%s", error->message);
		reply->reset = reset;
		server_text(reply, 503, "The server cannot tell now.\n");
	}
	sp_error_destroy(error);
}

/* ---- debuginfod ---- */

static struct sp_error *find_build_id(struct sp_server *server, const struct server_request *request,
                                      const char *build_id, enum sp_store_want want, struct sp_store_artifact *ret)
{
	const struct sp_store_query query = { .want = want, .build_id = build_id, .ns = server_view(request) };
	return sp_store_find(server->options.store, &query, ret);
}

static struct sp_error *serve_section(struct sp_server *server, const struct server_request *request,
                                      const char *build_id, const char *name, struct sp_store_artifact *artifact,
                                      struct sp_http_reply *reply)
{
	uint64_t offset = 0, size = 0;
	static const enum sp_store_want wants[] = { SP_STORE_DEBUG, SP_STORE_CODE };
	struct sp_error *error = NULL;
	for (size_t i = 0; i < 2; i++) {
		error = find_build_id(server, request, build_id, wants[i], artifact);
		if (!error)
			error = sp_store_find_section(server->options.store, artifact->sha256, name, &offset, &size);
		if (!error || error->code != SP_ERROR_NOT_FOUND)
			break;
		if (i == 0)
			sp_error_destroy(error);
	}
	return error ? error : reply_file(server, artifact, offset, size, reply);
}

static struct sp_error *serve_buildid(struct sp_server *server, const struct server_request *request,
                                      struct sp_store_artifact *artifact, struct sp_http_reply *reply)
{
	char build_id[MOST_ID + 1];
	const char *id = request->path + strlen("/buildid/"), *what = id + strcspn(id, "/");
	size_t length = (size_t)(what - id);
	if (length > MOST_ID)
		return sp_error_create(SP_ERROR_NOT_FOUND, "that is no build ID");
	lower(id, length, build_id);
	if (!strncmp(what, "/source/", 8)) {
		/* "source//usr/x.c" and "source/usr/x.c": clients send both. */
		const char *path = what[8] == '/' ? what + 8 : what + 7;
		struct sp_error *error = sp_store_find_source(server->options.store, build_id, path,
		                                              server_view(request), artifact);
		return error ? error : reply_file(server, artifact, 0, UINT64_MAX, reply);
	}
	if (!strncmp(what, "/section/", 9))
		return serve_section(server, request, build_id, what + 9, artifact, reply);
	bool debug = !strcmp(what, "/debuginfo");
	if (!debug && strcmp(what, "/executable") != 0)
		return sp_error_create(SP_ERROR_NOT_FOUND, "there is no such part of a build ID");
	struct sp_error *error = find_build_id(server, request, build_id, debug ? SP_STORE_DEBUG : SP_STORE_CODE,
	                                       artifact);
	return error ? error : reply_file(server, artifact, 0, UINT64_MAX, reply);
}

void server_buildid(struct sp_server *server, const struct server_request *request, struct sp_http_reply *reply)
{
	struct sp_store_artifact artifact;
	char size[32];
	struct sp_error *error = serve_buildid(server, request, &artifact, reply);
	if (!error) {
		snprintf(size, sizeof(size), "%llu", (unsigned long long)reply->fd_size);
		sp_http_reply_header(reply, "X-DEBUGINFOD-SIZE", size);
		sp_http_reply_header(reply, "X-DEBUGINFOD-FILE", server_base_name(artifact.name));
	}
	end(server, error, true, reply);
}

/* ---- Symbol stores ---- */

/* FILE/ID/FILE2. */
struct key {
	char file[SP_STORE_NAME_SIZE]; /* lower case */
	char id[MOST_ID + 1];          /* lower case */
	char file2[SP_STORE_NAME_SIZE];
};

static bool take_part(const char **at, char *ret, size_t size)
{
	size_t length = strcspn(*at, "/");
	if (!length || length >= size)
		return false;
	lower(*at, length, ret);
	*at += length + ((*at)[length] == '/');
	return true;
}

static bool read_key(const char *path, struct key *ret)
{
	const char *at = path + 1;
	return path[0] == '/' && take_part(&at, ret->file, sizeof(ret->file)) &&
	       take_part(&at, ret->id, sizeof(ret->id)) && take_part(&at, ret->file2, sizeof(ret->file2)) && !*at;
}

static bool ends_in(const char *text, const char *end)
{
	size_t length = strlen(text), size = strlen(end);
	return length >= size && !strcmp(text + length - size, end);
}

static bool is_hex(const char *text, size_t least, size_t most)
{
	size_t length = strlen(text);
	return length >= least && length <= most && strspn(text, "0123456789abcdef") == length;
}

/* SSQP fills short build IDs up to 20 bytes with zeros. */
static struct sp_error *find_padded(struct sp_server *server, const struct server_request *request, char *build_id,
                                    enum sp_store_want want, struct sp_store_artifact *ret)
{
	struct sp_error *error = find_build_id(server, request, build_id, want, ret);
	size_t length = strlen(build_id);
	while (error && error->code == SP_ERROR_NOT_FOUND && length > 16 && length <= 40 &&
	       !strcmp(build_id + length - 2, "00")) {
		sp_error_destroy(error);
		build_id[length -= 2] = 0;
		error = find_build_id(server, request, build_id, want, ret);
	}
	return error;
}

/* What the path asks for; `key->id` may be changed. */
static struct sp_error *find_key(struct sp_server *server, const struct server_request *request, struct key *key,
                                 struct sp_store_artifact *ret)
{
	struct sp_store_query query = { .name = key->file, .ns = server_view(request) };
	if (!strncmp(key->id, "elf-buildid-sym-", 16))
		return find_padded(server, request, key->id + 16, SP_STORE_DEBUG, ret);
	if (!strncmp(key->id, "elf-buildid-", 12))
		return find_padded(server, request, key->id + 12, SP_STORE_CODE, ret);
	if (ends_in(key->file2, ".sym") && is_hex(key->id, 33, 40)) {
		query.want = SP_STORE_BREAKPAD_TEXT;
		query.debug_id = key->id;
	} else if (ends_in(key->file2, ".pdb") && !strcmp(key->file, key->file2) && is_hex(key->id, 33, 40)) {
		/* A portable PDB has this in place of its age. */
		if (ends_in(key->id, "ffffffff") && strlen(key->id) == 40)
			memcpy(key->id + 32, "1", 2);
		query.want = SP_STORE_DEBUG;
		query.debug_id = key->id;
	} else if (!strcmp(key->file, key->file2) && is_hex(key->id, 9, 16)) {
		query.want = SP_STORE_CODE;
		query.code_id = key->id;
	} else {
		return sp_error_create(SP_ERROR_NOT_FOUND, "that is no key of a symbol store");
	}
	return sp_store_find(server->options.store, &query, ret);
}

bool server_symbol_file(struct sp_server *server, const struct server_request *request, struct sp_http_reply *reply)
{
	struct key key;
	struct sp_store_artifact artifact;
	if (!read_key(request->path, &key))
		return false;
	struct sp_error *error = find_key(server, request, &key, &artifact);
	if (!error)
		error = reply_file(server, &artifact, 0, UINT64_MAX, reply);
	end(server, error, false, reply);
	return true;
}
