/* What the parts of the api share. */
#ifndef SP_SYMBOLICATION_API_INTERNAL_H
#define SP_SYMBOLICATION_API_INTERNAL_H

#include "api.h"
#include "common/arena.h"
#include "common/map.h"
#include "common/vector.h"

struct sp_api {
	struct sp_api_options options;
};

/* ---- Requests (request.c) ---- */

struct api_module {
	const char *name; /* debug name */
	const char *id;   /* debug ID */
	bool valid;       /* the ID can be one */
	size_t uses;      /* frames in this module */
};

struct api_frame {
	uint64_t address; /* relative to the module */
	uint32_t module;  /* index into the job's modules */
};

struct api_stack {
	size_t first, count; /* frames */
};

struct api_job {
	size_t module_first, module_count;
	size_t stack_first, stack_count;
};

/* A symbolicate/v5 request, flat. Zeroed storage is empty. */
struct api_symbolicate_request {
	struct sp_arena arena; /* the strings */
	SP_VECTOR(struct api_job) jobs;
	SP_VECTOR(struct api_module) modules;
	SP_VECTOR(struct api_stack) stacks;
	SP_VECTOR(struct api_frame) frames;
};
/* SP_ERROR_FORMAT: not a valid request; SP_ERROR_LIMIT: too large. */
struct sp_error *api_read_symbolicate(const struct sp_api *api, const char *body, size_t size,
                                      struct api_symbolicate_request *ret);
void api_symbolicate_request_deinit(struct api_symbolicate_request *request);

/* A source/v1 or asm/v1 request; strings are in the arena, NULL = absent. */
struct api_code_request {
	struct sp_arena arena;
	const char *debug_name, *debug_id, *name, *code_id, *file;
	uint64_t offset; /* moduleOffset or startAddress */
	uint64_t size;
	bool has_offset, has_size, continue_until_function_end;
};
struct sp_error *api_read_code_request(const char *body, size_t size, struct api_code_request *ret);
void api_code_request_deinit(struct api_code_request *request);

/* ---- Modules (module.c) ---- */

/* Opens the module of a debug name and debug ID, completed by the resolver; `name` and `code_id` may be NULL. `code`:
 * it is for the bytes of its code. */
struct sp_error *api_find_module(const struct sp_api *api, const char *debug_name, const char *debug_id,
                                 const char *name, const char *code_id, bool code, spsym_module **ret);
/* Whether a debug name uses only the characters that a client may ask for. */
bool api_name_is_plain(const char *name);
/* Whether it is hex digits and long enough to be a debug ID, and not the null one. */
bool api_debug_id_is_valid(const char *id);

/* ---- The three requests; each writes a whole reply ---- */

struct sp_error *api_symbolicate(const struct sp_api *api, const struct api_symbolicate_request *request,
                                 struct sp_json *json);
struct sp_error *api_source(const struct sp_api *api, const struct api_code_request *request, struct sp_json *json);
struct sp_error *api_asm(const struct sp_api *api, const struct api_code_request *request, struct sp_json *json);

/* ---- File paths (path.c) ---- */

/* The path that clients see: "git:…", "hg:…", "s3:…" or "cargo:…" when the file is known to be fetchable from there,
 * else `path` itself. A new string is in the arena; without memory it is `path`. */
const char *api_shown_path(struct sp_arena *arena, const char *path);

/* ---- Functions and files of frames as JSON text (place.c) ---- */

struct api_places {
	struct sp_arena arena;
	struct api_place *slots;
	size_t mask;
	struct sp_buffer text; /* of the one that is being made */
};
/* For a reply of that many frames; false without memory. The strings that are given must live until deinit. */
bool api_places_init(struct api_places *places, size_t frames);
void api_places_deinit(struct api_places *places);
/* Writes the members "function" and "file" of the open object, those that are not NULL; false without memory. */
bool api_places_write(struct api_places *places, struct sp_json *json, const char *function, const char *file);

/* ---- Source files (source_file.c; opening them: source_file_unix.c, source_file_windows.c) ---- */

/* Reads a regular file of this machine for showing. Never one under /proc, /sys or /dev, never through a symbolic link
 * as the last part. The caller frees *ret. */
struct sp_error *api_read_source_file(const char *path, char **ret, size_t *ret_size);
/* Its second half: checks and reads what was opened. */
struct sp_error *api_read_source_descriptor(int fd, const char *path, char **ret, size_t *ret_size);

/* ---- Disassembly (disassemble.c) ---- */

struct api_instruction {
	uint32_t offset;  /* from the first byte */
	uint32_t text[2]; /* offsets into `texts`, one a syntax */
	uint64_t target;  /* relative address that it branches to */
	bool has_target;
};

struct api_disassembly {
	const char *arch;      /* "x86_64", "i686", "aarch64", "arm" */
	const char *syntax[2]; /* names */
	unsigned syntaxes;     /* 1 or 2 */
	uint64_t start;        /* relative address of the first byte; aligned down where the arch asks for it */
	SP_VECTOR(struct api_instruction) instructions;
	SP_VECTOR(char) texts;
};
/* Disassembles bytes of code. `arch` is spsym_file_info's. Invalid bytes become ".byte" lines. */
struct sp_error *api_disassemble(const char *arch, uint64_t start, const uint8_t *code, size_t size,
                                 struct api_disassembly *ret);
void api_disassembly_deinit(struct api_disassembly *disassembly);
/* The address at or below `start` where an instruction of `arch` may begin. */
uint64_t api_align_code(const char *arch, uint64_t start);

#endif
