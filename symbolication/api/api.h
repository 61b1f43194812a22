/* symbolicate/v5, source/v1, asm/v1: JSON in, JSON out. No sockets, no threads of its own. */
#ifndef SP_SYMBOLICATION_API_API_H
#define SP_SYMBOLICATION_API_API_H

#include "common/error.h"
#include "common/json.h"
#include "spsym.h"

/* Answers requests from one symbol context. A (debugName, debugId) that a client asks for is completed by `resolve`. */
struct sp_api;
struct sp_api_options {
	spsym_context *symbols; /* borrowed */
	/* Fills the missing fields of an identity (path, code ID, arch) for a debug name and debug ID, from the
	 * profile's lib table; false when unknown. Strings must live as long as the api. May be NULL. Thread-safe. */
	bool (*resolve)(void *context, const char *debug_name, const char *debug_id, struct spsym_identity *ret);
	/* Instead of spsym_module_find() and `resolve`: the module of a debug ID (any may be NULL), of the file that
	 * has its code where `code` is set. Thread-safe. May be NULL. */
	spsym_error *(*find_module)(void *context, const char *debug_name, const char *debug_id, bool code,
	                            spsym_module **ret);
	/* Instead of files of this machine: the text of a source file that the module's debug information names; the
	 * caller frees *ret. Thread-safe. May be NULL. */
	spsym_error *(*read_source)(void *context, spsym_module *module, const char *file, char **ret,
	                            size_t *ret_size);
	void *context;      /* of these */
	bool local_sources; /* source/v1 may read files of this machine that debug information of local files names */
	/* "from=to": a source file whose path begins with the folder `from` is read from `to` instead; the first that
	 * fits counts. NULL-terminated, borrowed; may be NULL. */
	const char *const *map_paths;
};
struct sp_error *sp_api_create(const struct sp_api_options *options, struct sp_api **ret);
void sp_api_destroy(struct sp_api *api);

enum sp_api_status { SP_API_OK = 200, SP_API_BAD_REQUEST = 400, SP_API_NOT_FOUND = 404, SP_API_TOO_LARGE = 413 };

#define SP_API_MAX_FRAMES (4u << 20)   /* addresses of one request */
#define SP_API_MAX_REPLY (1024u << 20) /* bytes of one reply, where `reply` has no limit of its own */
#define SP_API_MAX_CODE (1u << 20)     /* bytes that one asm/v1 request disassembles */
#define SP_API_MAX_SOURCE (32u << 20)  /* bytes of a source file */

/* Handles POST `path` ("/symbolicate/v5", "/source/v1", "/asm/v1"), writes the JSON reply to the empty `reply`. The
 * status is for HTTP: soft failures are SP_API_OK with {"error": reason}, so are all others with their status. Returns
 * an error only without memory. Thread-safe. The formats: the Firefox Profiler's symbolication API, as the Mozilla
 * symbol server and samply speak it. */
struct sp_error *sp_api_handle(struct sp_api *api, const char *path, const char *body, size_t body_size,
                               struct sp_buffer *reply, enum sp_api_status *ret_status);

#endif
