/* The store of CI artifacts: files that were uploaded once, found by what their bytes say they are.
 *
 * A file is a blob, named by the SHA-256 of its bytes and never changed. An artifact says what a blob is and where it
 * belongs: kind, IDs, how much it knows (all derived from the bytes, in a limited child process), and the namespace and
 * token that it came in under. One ID may have many artifacts: all are kept, the best is served.
 *
 * This is the interface that servers see. What every store does is in store.c, stage.c, derive.c and token.c; behind
 * stand two small sets of calls (private.h) for blobs (blobs.c: a folder) and for rows (index.c: SQLite). An object
 * store and a database on another machine fit behind the same calls: a blob is published whole from a local file and
 * may be published twice, an artifact is one transaction, and nothing relies on a rename or a lock that both share.
 *
 * Namespaces are "release", "branch/NAME" and "pr/NAME", and rank in this order. What stands under pr/ is seen only by
 * readers that name that namespace, so a pull request cannot change what others read. */
#ifndef SP_SYMBOLICATION_STORE_STORE_H
#define SP_SYMBOLICATION_STORE_STORE_H

#include "common/error.h"
#include "common/log.h"
#include "common/vector.h"
#include "spsym.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_STORE_SHA_SIZE 65    /* 64 hex digits in lower case and the NUL */
#define SP_STORE_NAME_SIZE 256  /* of a file name or namespace, with the NUL */
#define SP_STORE_PATH_SIZE 4096 /* of a source file's path, with the NUL */

struct sp_store;

struct sp_store_options {
	const char *folder;       /* made when absent */
	uint64_t disk_floor;      /* bytes that stay free: below, uploads are refused; 0 = none */
	bool only_tokens;         /* another process serves it: nothing but tokens is touched */
	const struct sp_log *log; /* may be NULL; until sp_store_close() */
	/* For tests: told before each step of publishing. May be NULL. */
	void (*step)(void *context, const char *name);
	void *context;
};

/* Opens a store and repairs what an earlier process left unfinished: parts of uploads older than a day and blobs that
 * no row names are removed, rows whose blob is gone too. SP_ERROR_UNSUPPORTED without SQLite. */
struct sp_error *sp_store_open(const struct sp_store_options *options, struct sp_store **ret);
void sp_store_close(struct sp_store *store);

/* ---- Artifacts ---- */

enum sp_store_kind { SP_STORE_OBJECT, SP_STORE_PDB, SP_STORE_BREAKPAD, SP_STORE_SOURCE };
const char *sp_store_kind_name(enum sp_store_kind kind); /* "object", "pdb", "breakpad", "source" */

struct sp_store_artifact {
	char sha256[SP_STORE_SHA_SIZE];
	uint64_t size;
	enum sp_store_kind kind;
	struct spsym_file_info info;   /* as derived; zeroed for sources */
	char name[SP_STORE_PATH_SIZE]; /* the uploader's file name: a hint, nothing is found by it alone; of a source
	                                  its path */
	char pdb_name[SP_STORE_NAME_SIZE]; /* of a PE file: what it calls its PDB; "" = none */
	char ns[SP_STORE_NAME_SIZE];       /* namespace */
	char token[SP_STORE_NAME_SIZE];    /* ID of the token */
	char ref[SP_STORE_NAME_SIZE];      /* build or branch, as the uploader says */
	int64_t uploaded;                  /* seconds since 1970 */
};

/* What is wanted of an ID. */
enum sp_store_want {
	SP_STORE_DEBUG, /* an object or PDB with debug information or a symbol table */
	SP_STORE_CODE,  /* the binary */
	SP_STORE_BREAKPAD_TEXT,
	SP_STORE_NAMES, /* whatever gives the best names, exports at last */
};

struct sp_store_query {
	enum sp_store_want want;
	const char *build_id; /* of an ELF file; the case of hex digits does not count, in none of the three */
	const char *debug_id; /* Breakpad form */
	const char *code_id;  /* of a PE file */
	const char *name;     /* of two files with the same PE code ID that with this name goes first; may be NULL */
	const char *ns;       /* a pr/ namespace to see besides the others; NULL = none */
};
/* The best artifact; SP_ERROR_NOT_FOUND. Exactly one ID of the query is set. Thread-safe, as all that follow. */
struct sp_error *sp_store_find(struct sp_store *store, const struct sp_store_query *query,
                               struct sp_store_artifact *ret);
/* The source file of an absolute path that a build ID's debug information names. */
struct sp_error *sp_store_find_source(struct sp_store *store, const char *build_id, const char *path, const char *ns,
                                      struct sp_store_artifact *ret);
/* An absolute path without "//", "/./" and "/../": sources are stored and found by it. `ret` holds SP_STORE_PATH_SIZE
 * chars; false when the path is too long or not absolute. */
bool sp_store_plain_path(const char *path, char *ret);
/* Where a section's bytes lie in an artifact's file, as its section table says (compressed ones as they are). */
struct sp_error *sp_store_find_section(struct sp_store *store, const char *sha256, const char *name,
                                       uint64_t *ret_offset, uint64_t *ret_size);
/* Opens a blob's bytes; the caller closes *ret. */
struct sp_error *sp_store_open_blob(struct sp_store *store, const char *sha256, int *ret, uint64_t *ret_size);

/* A path of this machine where the blob's bytes can be mapped as long as it is stored; the caller frees *ret. */
struct sp_error *sp_store_blob_path(struct sp_store *store, const char *sha256, char **ret);

/* ---- Uploads ---- */

/* Who uploads and as what; strings are borrowed for the call. */
struct sp_store_claim {
	const char *sha256;   /* of the whole file */
	const char *name;     /* file name; for sources the absolute path that the debug information has */
	const char *build_id; /* for sources, which they belong to: else NULL */
	const char *ns, *token, *ref;
	unsigned kinds; /* bits by enum sp_store_kind that are allowed; 0 = all. Others are SP_ERROR_PERMISSION */
};

/* Whether the store has the artifact of a claim already: nothing need be sent. */
struct sp_error *sp_store_has(struct sp_store *store, const struct sp_store_claim *claim, bool *ret);
/* Records an artifact for bytes that the store has under another namespace or name; *ret_done is false when it has not
 * got them and they must be sent. */
struct sp_error *sp_store_adopt(struct sp_store *store, const struct sp_store_claim *claim, bool *ret_done);

/* A file on its way in. One writer a (token, SHA-256) at a time: SP_ERROR_PERMISSION while another one sends. What
 * arrived stays when it breaks off: the next one goes on from *ret_offset. A writer that was silent for five seconds
 * loses its place to a new one, and its further calls fail with SP_ERROR_PERMISSION. */
struct sp_stage;
struct sp_error *sp_stage_open(struct sp_store *store, const char *token, const char *sha256, struct sp_stage **ret,
                               uint64_t *ret_offset);
/* Forgets what arrived. */
struct sp_error *sp_stage_restart(struct sp_stage *stage);
struct sp_error *sp_stage_write(struct sp_stage *stage, const void *bytes, size_t size);
/* Whether another writer took over. */
bool sp_stage_is_lost(const struct sp_stage *stage);
uint64_t sp_stage_size(const struct sp_stage *stage);
void sp_stage_close(struct sp_stage *stage);
/* Checks the bytes against the claim, derives what they are, and publishes them: when this returns without error they
 * are on disk and will be found, whatever happens next. What is wrong with the file is SP_ERROR_FORMAT,
 * SP_ERROR_UNSUPPORTED or SP_ERROR_LIMIT with the reason, and its bytes are gone; other errors leave them for another
 * try. *ret_new: the store had no such artifact. */
struct sp_error *sp_stage_publish(struct sp_stage *stage, const struct sp_store_claim *claim,
                                  struct sp_store_artifact *ret, bool *ret_new);
/* How far an upload came; 0 = nothing is there. */
uint64_t sp_store_staged(struct sp_store *store, const char *token, const char *sha256);

/* SP_ERROR_LIMIT while less than the floor is free. */
struct sp_error *sp_store_check_space(struct sp_store *store);

/* ---- Tokens ---- */

/* A token is "sps_ID_SECRET"; only the SHA-256 of it is kept. */
#define SP_STORE_TOKEN_SIZE 80

struct sp_store_token {
	char id[16];
	char label[SP_STORE_NAME_SIZE];
	char ns[SP_STORE_NAME_SIZE];  /* where it may upload: a namespace, or one that ends in '*'; "" = nowhere */
	char ref[SP_STORE_NAME_SIZE]; /* the only ref that it may give; "" = any */
	unsigned kinds;               /* bits by enum sp_store_kind that it may upload */
	uint64_t size_limit;          /* bytes a file; 0 = the server's limit */
	bool read;                    /* it may read */
	int64_t created, expires;     /* seconds since 1970; 0 = never */
	bool revoked;
};
/* Fills in ret->id and created; `secret` holds SP_STORE_TOKEN_SIZE chars: the only time that it is told. */
struct sp_error *sp_store_token_create(struct sp_store *store, struct sp_store_token *token, char *secret);
/* SP_ERROR_PERMISSION when it is unknown, expired or revoked. */
struct sp_error *sp_store_token_check(struct sp_store *store, const char *secret, struct sp_store_token *ret);
struct sp_error *sp_store_token_revoke(struct sp_store *store, const char *id);
typedef SP_VECTOR(struct sp_store_token) sp_store_tokens;
struct sp_error *sp_store_token_list(struct sp_store *store, sp_store_tokens *ret);
/* Whether a token may put something into a namespace. */
bool sp_store_token_allows(const struct sp_store_token *token, const char *ns);

/* ---- Names ---- */

bool sp_store_is_sha256(const char *text);
/* "release", "branch/NAME", "pr/NAME": letters, digits and "._-"; a branch's name may have slashes, too, but no empty
 * parts and no "..". */
bool sp_store_is_namespace(const char *text);

/* ---- Numbers ---- */

struct sp_store_counts {
	uint64_t artifacts, blobs, bytes;
};
struct sp_error *sp_store_count(struct sp_store *store, struct sp_store_counts *ret);
/* Whether it can be written to: a small transaction. */
struct sp_error *sp_store_is_ready(struct sp_store *store);

#endif
