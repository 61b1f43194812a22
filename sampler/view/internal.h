/* What the parts of the viewer share. */
#ifndef SP_SAMPLER_VIEW_INTERNAL_H
#define SP_SAMPLER_VIEW_INTERNAL_H

#include "common/arena.h"
#include "common/map.h"
#include "common/vector.h"
#include "symbolication/api/api.h"
#include "symbolication/http/http.h"
#include "view.h"

/* ---- The profile's file (profile_file.c) ---- */

enum view_format {
	VIEW_JSON, /* text that begins with '{' */
	VIEW_JSLB, /* the front-end's binary container */
};

struct view_profile {
	enum view_format format;
	bool gzip; /* the file is compressed */
};
/* Looks at the first bytes; SP_ERROR_FORMAT when it cannot be a profile. */
struct sp_error *view_profile_check(const char *path, struct view_profile *ret);

/* The text of a file, decompressed, piece by piece. */
struct view_text;
struct sp_error *view_text_open(const char *path, struct view_text **ret);
/* An sp_json_fill_fn. */
struct sp_error *view_text_fill(void *text, const char **ret, size_t *ret_size);
void view_text_close(struct view_text *text);

/* ---- Its libraries (libs.c) ---- */

/* The identities of the modules in a profile. Zeroed storage is empty. */
struct view_libs {
	struct sp_arena arena;
	SP_VECTOR(struct spsym_identity) identities;
	struct sp_map by_key;     /* hash of debug name and ID -> index + 1 of the first; the rest is found by `next` */
	SP_VECTOR(uint32_t) next; /* index + 1 of the next with the same hash; 0 = none */
};
/* Reads as little of the profile as it can: from format 41 on only what stands before its libs. After an error what was
 * read so far is in `ret`. */
struct sp_error *view_libs_read(const char *path, struct view_libs *ret);
const struct spsym_identity *view_libs_find(const struct view_libs *libs, const char *debug_name, const char *debug_id);
void view_libs_deinit(struct view_libs *libs);

/* ---- Addresses (url.c) ---- */

#define VIEW_TOKEN_SIZE 40 /* with the NUL */

/* 24 random bytes in base32. */
struct sp_error *view_random_token(char *ret);
/* `text` with everything but letters, digits and "-_.~" percent-encoded; the caller frees it, NULL without memory. */
char *view_percent_encode(const char *text);
/* "http://address:port", for a client on this machine: a wildcard address becomes loopback. The caller frees it. */
char *view_origin(const char *address, uint16_t port);

/* ---- The front-end's files (static_files.c) ---- */

/* The reply for a GET from the folder `root` (resolved by realpath). */
void view_serve_static(const char *root, const struct sp_http_request *request, struct sp_http_reply *reply);

/* ---- Opening a browser (browser_unix.c, browser_windows.c) ---- */

/* Starts a browser in the desktop session of the user; false when there is none to be opened here, which
 * `*ret_remote` explains: this is a remote login. */
bool view_open_browser(const char *url, bool *ret_remote);

#endif
