/* The profile's file: what it is, and its text as a stream. Compression is told by the first bytes, never the name. */
#include "internal.h"

#include "common/cursor.h"
#include "common/file.h"
#include "common/json_read.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define PIECE_SIZE 65536 /* bytes of text at a time */

static const uint8_t gzip_magic[] = { 0x1f, 0x8b };
static const uint8_t jslb_magic[] = { 0xdc, 0xdf, 'J', 'S', 'L', 'B' };

struct view_text {
	struct sp_file_map map;
	char *path;
	size_t done; /* bytes of the file that were given or fed to `z` */
	bool gzip, ended;
	z_stream z;
	char piece[PIECE_SIZE];
};

static bool begins_with(const void *bytes, size_t size, const void *magic, size_t magic_size)
{
	return size >= magic_size && !memcmp(bytes, magic, magic_size);
}

struct sp_error *view_text_open(const char *path, struct view_text **ret)
{
	struct view_text *text = calloc(1, sizeof(*text));
	if (!text)
		return sp_error_no_memory();
	text->path = strdup(path);
	struct sp_error *error = text->path ? sp_file_map_path(path, &text->map) : sp_error_no_memory();
	if (error) {
		free(text->path);
		free(text);
		return error;
	}
	text->gzip = begins_with(text->map.bytes, text->map.size, gzip_magic, sizeof(gzip_magic));
	if (text->gzip && inflateInit2(&text->z, 15 + 16) != Z_OK) {
		text->gzip = false;
		view_text_close(text);
		return sp_error_no_memory();
	}
	*ret = text;
	return NULL;
}

void view_text_close(struct view_text *text)
{
	if (text->gzip)
		inflateEnd(&text->z);
	sp_file_unmap(&text->map);
	free(text->path);
	free(text);
}

/* At the end of a gzip member: another one may follow; anything else is ignored, as gzip does. */
static void next_member(struct view_text *text)
{
	size_t left = text->map.size - text->done;
	if (!begins_with(text->map.bytes + text->done, left, gzip_magic, sizeof(gzip_magic)) ||
	    inflateReset(&text->z) != Z_OK)
		text->ended = true;
}

static struct sp_error *fill_gzip(struct view_text *text, size_t *ret_size)
{
	text->z.next_out = (Bytef *)text->piece;
	text->z.avail_out = PIECE_SIZE;
	while (text->z.avail_out == PIECE_SIZE && !text->ended) {
		size_t left = text->map.size - text->done;
		uInt input = left > 1u << 20 ? 1u << 20 : (uInt)left;
		text->z.next_in = (Bytef *)(text->map.bytes + text->done);
		text->z.avail_in = input;
		int status = inflate(&text->z, Z_NO_FLUSH);
		text->done += input - text->z.avail_in;
		if (status == Z_STREAM_END)
			next_member(text);
		else if (status == Z_BUF_ERROR && !left)
			return sp_error_create(SP_ERROR_FORMAT, "%s: the compressed data end early", text->path);
		else if (status != Z_OK && status != Z_BUF_ERROR)
			return sp_error_create(SP_ERROR_FORMAT, "%s: cannot be decompressed: %s", text->path,
			                       text->z.msg ? text->z.msg : "corrupt data");
	}
	*ret_size = PIECE_SIZE - text->z.avail_out;
	return NULL;
}

struct sp_error *view_text_fill(void *context, const char **ret, size_t *ret_size)
{
	struct view_text *text = context;
	if (text->gzip) {
		*ret = text->piece;
		return fill_gzip(text, ret_size);
	}
	/* The map is not handed out whole: a file that is cut meanwhile would raise SIGBUS in any case, but this way
	 * the memory touched is small. */
	size_t left = text->map.size - text->done;
	*ret = left ? (const char *)text->map.bytes + text->done : "";
	*ret_size = left > PIECE_SIZE ? PIECE_SIZE : left;
	text->done += *ret_size;
	return NULL;
}

/* ---- Is it a profile? ---- */

static bool is_profile_key(const char *key, size_t length)
{
	static const char *const keys[] = {
		"meta",     "libs",    "threads",      "shared",           "processes",    "pages",
		"counters", "sources", "pausedRanges", "profilerOverhead", "profilingLog", "profileGatheringLog"
	};
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		if (length == strlen(keys[i]) && !memcmp(key, keys[i], length))
			return true;
	}
	return false;
}

/* Looks at the keys of the object that begins in `text`, which may be cut: the first must be one of a profile; an
 * object that is there whole must have meta and threads. */
static struct sp_error *check_object(const char *path, const char *text, size_t size, bool whole)
{
	struct sp_json_reader r;
	const char *key;
	size_t length, keys = 0;
	bool meta = false, threads = false, known = false;
	sp_json_read_init(&r, text, size);
	if (sp_json_read_object(&r)) {
		while (sp_json_next_key(&r, &key, &length)) {
			known |= !keys++ && is_profile_key(key, length);
			if (length == 4 && !memcmp(key, "meta", 4))
				meta = sp_json_peek(&r) == SP_JSON_KIND_OBJECT;
			else if (length == 7 && !memcmp(key, "threads", 7))
				threads = sp_json_peek(&r) == SP_JSON_KIND_ARRAY;
			sp_json_skip(&r);
		}
	}
	struct sp_error *cause = sp_json_read_finish(&r), *error = NULL;
	sp_json_read_deinit(&r);
	if (whole && cause)
		error = sp_error_create(SP_ERROR_FORMAT, "%s is not a profile: %s", path, cause->message);
	else if (!known || (whole && !(meta && threads)))
		error = sp_error_create(SP_ERROR_FORMAT,
		                        "%s is not a Firefox Profiler profile: it has no \"meta\" and "
		                        "\"threads\"",
		                        path);
	sp_error_destroy(cause);
	return error;
}

/* The first bytes of the text, up to `limit`; *ret_whole tells that there are no more. */
static struct sp_error *read_beginning(struct view_text *text, char *buffer, size_t limit, size_t *ret_size,
                                       bool *ret_whole)
{
	const char *piece;
	size_t size, used = 0;
	for (;;) {
		struct sp_error *error = view_text_fill(text, &piece, &size);
		if (error)
			return error;
		*ret_whole = !size;
		if (!size || used == limit)
			break;
		if (size > limit - used)
			size = limit - used;
		memcpy(buffer + used, piece, size);
		used += size;
	}
	*ret_size = used;
	return NULL;
}

static struct sp_error *check_text(const char *path, struct view_text *text, struct view_profile *ret)
{
	size_t size, space = 0;
	bool whole;
	char *beginning = malloc(PIECE_SIZE);
	if (!beginning)
		return sp_error_no_memory();
	struct sp_error *error = read_beginning(text, beginning, PIECE_SIZE, &size, &whole);
	if (!error && begins_with(beginning, size, jslb_magic, sizeof(jslb_magic))) {
		ret->format = VIEW_JSLB;
	} else if (!error) {
		while (space < size && strchr(" \t\r\n", beginning[space]) && beginning[space])
			space++;
		if (!size)
			error = sp_error_create(SP_ERROR_FORMAT, "%s is not a profile: it is empty", path);
		else if (space == size || beginning[space] != '{')
			error = sp_error_create(
			    SP_ERROR_FORMAT,
			    "%s is not a Firefox Profiler profile (JSON, or JSON compressed with gzip)", path);
		else
			error = check_object(path, beginning, size, whole);
	}
	free(beginning);
	return error;
}

struct sp_error *view_profile_check(const char *path, struct view_profile *ret)
{
	struct view_text *text;
	memset(ret, 0, sizeof(*ret));
	struct sp_error *error = view_text_open(path, &text);
	if (error)
		return error;
	ret->gzip = text->gzip;
	error = check_text(path, text, ret);
	view_text_close(text);
	return error;
}
