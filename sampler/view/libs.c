/* The libraries of a profile: what completes the (debug name, debug ID) of a request with path, code ID and
 * architecture. Profiles hold them at the top; before format 41, and in Gecko's own format, also in each thread and
 * process. */
#include "internal.h"

#include "common/json_read.h"
#include "sampler/output/profile_lib.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define VERSION_OF_TOP_LIBS 41 /* from this preprocessedProfileVersion on all are at the top */
#define NESTING 16             /* objects and arrays around libs: processes in processes, threads in them */

struct libs_reader {
	struct sp_json_reader json;
	struct view_libs *libs;
	uint64_t version; /* preprocessedProfileVersion; 0 = not seen */
	bool top_libs;    /* the list at the top was read */
	bool complete;    /* nothing more needs to be read */
};

static uint64_t key_hash(const char *debug_name, const char *debug_id)
{
	char id[SPSYM_ID_MAX];
	size_t length = 0;
	for (; debug_id[length] && length < sizeof(id); length++)
		id[length] = (char)toupper((unsigned char)debug_id[length]);
	return sp_hash_bytes(debug_name, strlen(debug_name)) ^ sp_hash_u64(sp_hash_bytes(id, length));
}

const struct spsym_identity *view_libs_find(const struct view_libs *libs, const char *debug_name, const char *debug_id)
{
	const uint64_t *first = sp_map_get(&libs->by_key, key_hash(debug_name, debug_id));
	for (uint64_t i = first ? *first : 0; i; i = libs->next.items[i - 1]) {
		const struct spsym_identity *identity = &libs->identities.items[i - 1];
		if (!strcmp(identity->debug_name, debug_name) && !strcasecmp(identity->debug_id, debug_id))
			return identity;
	}
	return NULL;
}

void view_libs_deinit(struct view_libs *libs)
{
	sp_vector_deinit(&libs->identities);
	sp_vector_deinit(&libs->next);
	sp_map_deinit(&libs->by_key);
	sp_arena_deinit(&libs->arena);
}

/* The first one of a key counts. */
static bool add_identity(struct view_libs *libs, const struct spsym_identity *identity)
{
	if (!identity->debug_name || !identity->debug_id ||
	    view_libs_find(libs, identity->debug_name, identity->debug_id))
		return true;
	uint64_t hash = key_hash(identity->debug_name, identity->debug_id);
	const uint64_t *first = sp_map_get(&libs->by_key, hash);
	uint32_t next = first ? (uint32_t)*first : 0;
	return sp_vector_push(&libs->identities, *identity) && sp_vector_push(&libs->next, next) &&
	       sp_map_put(&libs->by_key, hash, libs->identities.count);
}

static void read_lib(struct libs_reader *r)
{
	struct spsym_identity identity;
	sp_profile_lib_read(&r->json, &r->libs->arena, &identity);
	if (!sp_json_read_failed(&r->json) && !add_identity(r->libs, &identity))
		sp_json_read_fail(&r->json, "out of memory");
}

static void read_libs(struct libs_reader *r)
{
	if (sp_json_peek(&r->json) != SP_JSON_KIND_ARRAY) {
		sp_json_skip(&r->json);
		return;
	}
	sp_json_read_array(&r->json);
	while (sp_json_next_item(&r->json))
		read_lib(r);
}

static void read_meta(struct libs_reader *r)
{
	const char *key;
	size_t length;
	if (sp_json_peek(&r->json) != SP_JSON_KIND_OBJECT) {
		sp_json_skip(&r->json);
		return;
	}
	sp_json_read_object(&r->json);
	while (sp_json_next_key(&r->json, &key, &length)) {
		if (sp_json_key_is(key, length, "preprocessedProfileVersion") &&
		    sp_json_peek(&r->json) == SP_JSON_KIND_NUMBER)
			sp_json_read_u64(&r->json, &r->version);
		else
			sp_json_skip(&r->json);
	}
}

/* One member of a profile, process or thread; true when its value is an array of such that was begun. */
static bool read_member(struct libs_reader *r, const char *key, size_t length, bool top, bool nest)
{
	bool is_libs = sp_json_key_is(key, length, "libs");
	bool parts = sp_json_key_is(key, length, "threads") || sp_json_key_is(key, length, "processes");
	if (parts && nest && r->version < VERSION_OF_TOP_LIBS && sp_json_peek(&r->json) == SP_JSON_KIND_ARRAY)
		return sp_json_read_array(&r->json);
	if (is_libs)
		read_libs(r);
	else if (top && sp_json_key_is(key, length, "meta"))
		read_meta(r);
	else
		sp_json_skip(&r->json);
	r->top_libs |= top && is_libs;
	r->complete = r->top_libs && r->version >= VERSION_OF_TOP_LIBS;
	return false;
}

/* Walks through the profile, the processes and the threads in it: objects (of an odd depth) and arrays of them. */
static void read_profile(struct libs_reader *r)
{
	unsigned depth = 0; /* open objects and arrays */
	const char *key;
	size_t length;
	if (sp_json_peek(&r->json) == SP_JSON_KIND_OBJECT)
		depth += sp_json_read_object(&r->json);
	else
		sp_json_skip(&r->json);
	while (depth && !r->complete && !sp_json_read_failed(&r->json)) {
		bool in_array = depth % 2 == 0;
		if (in_array && !sp_json_next_item(&r->json))
			depth--;
		else if (in_array && sp_json_peek(&r->json) == SP_JSON_KIND_OBJECT)
			depth += sp_json_read_object(&r->json);
		else if (in_array)
			sp_json_skip(&r->json);
		else if (!sp_json_next_key(&r->json, &key, &length))
			depth--;
		else
			depth += read_member(r, key, length, depth == 1, depth < NESTING);
	}
}

struct sp_error *view_libs_read(const char *path, struct view_libs *ret)
{
	struct libs_reader r = { .libs = ret };
	struct view_text *text;
	struct sp_error *error = view_text_open(path, &text);
	if (error)
		return error;
	sp_json_read_init_fill(&r.json, view_text_fill, text);
	read_profile(&r);
	error = r.complete ? sp_json_read_error(&r.json) : sp_json_read_finish(&r.json);
	sp_json_read_deinit(&r.json);
	view_text_close(text);
	return error ? sp_error_prefix(error, "%s", path) : NULL;
}
