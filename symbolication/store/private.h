/* What the parts of the store share, and what its blobs and rows are kept by. */
#ifndef SP_SYMBOLICATION_STORE_PRIVATE_H
#define SP_SYMBOLICATION_STORE_PRIVATE_H

#include "store.h"

#include "common/file.h"
#include "hash.h"

#include <pthread.h>

/* ---- What a file is (derive.c) ---- */

struct store_section {
	char name[64]; /* longer names are left out */
	uint64_t offset, size;
};

struct store_facts {
	enum sp_store_kind kind;
	struct spsym_file_info info;
	char pdb_name[SP_STORE_NAME_SIZE];
	struct store_section *sections; /* owned */
	size_t section_count;
};
/* Parses bytes in a limited child. What is of no use in a store is SP_ERROR_UNSUPPORTED with the reason. */
struct sp_error *store_derive(const void *bytes, size_t size, const char *name, struct store_facts *ret);
void store_facts_deinit(struct store_facts *facts);

/* ---- Blobs (blobs.c) ----
 *
 * blobs/aa/SHA256 holds the bytes as they are. A blob that is packed would be blobs/aa/SHA256.zst, in zstd's seekable
 * form (frames of 1 MiB and a table of them at the end), so that the name alone tells how it is kept, an index can be
 * made anew from the folder, and a section costs the frames that it lies in; the name stays that of the plain bytes. */

struct store_blobs {
	char *folder; /* owned; of the store */
	const struct sp_store_options *options;
};
struct sp_error *store_blobs_open(struct store_blobs *blobs, const struct sp_store_options *options);
void store_blobs_close(struct store_blobs *blobs);
/* Makes a blob of a file that is whole and synced; durable when it returns. One that is there already stays. */
struct sp_error *store_blobs_put(struct store_blobs *blobs, const char *sha256, const char *path);
struct sp_error *store_blobs_open_blob(struct store_blobs *blobs, const char *sha256, int *ret, uint64_t *ret_size);
/* NULL without memory; the caller frees it. */
char *store_blobs_path(const struct store_blobs *blobs, const char *sha256);
bool store_blobs_has(struct store_blobs *blobs, const char *sha256);
/* Calls `visit` with every blob; removes those that it says false for. */
struct sp_error *store_blobs_sweep(struct store_blobs *blobs, bool (*keep)(void *context, const char *sha256),
                                   void *context);
struct sp_error *store_blobs_free_space(struct store_blobs *blobs, uint64_t *ret);
/* Syncs a folder, so that names made in it last. */
struct sp_error *store_sync_folder(const char *path);

/* ---- Rows (index.c) ---- */

struct store_index;
struct sp_error *store_index_open(const char *folder, struct store_index **ret);
void store_index_close(struct store_index *index);
/* In one transaction, durable when it returns. `facts` NULL: the blob has its rows already. *ret_new: it was not there.
 */
struct sp_error *store_index_put(struct store_index *index, const struct sp_store_artifact *artifact,
                                 const char *build_id, const struct store_facts *facts, bool *ret_new);
struct sp_error *store_index_has(struct store_index *index, const struct sp_store_claim *claim, bool *ret);
struct sp_error *store_index_has_blob(struct store_index *index, const char *sha256, bool *ret);
/* Any artifact of a blob, to be copied for another namespace. */
struct sp_error *store_index_any(struct store_index *index, const char *sha256, bool source,
                                 struct sp_store_artifact *ret);
struct sp_error *store_index_find(struct store_index *index, const struct sp_store_query *query,
                                  struct sp_store_artifact *ret);
struct sp_error *store_index_find_source(struct store_index *index, const char *build_id, const char *path,
                                         const char *ns, struct sp_store_artifact *ret);
struct sp_error *store_index_find_section(struct store_index *index, const char *sha256, const char *name,
                                          uint64_t *ret_offset, uint64_t *ret_size);
/* Removes the rows of blobs that are not there; *ret_count of them. */
struct sp_error *store_index_sweep(struct store_index *index, struct store_blobs *blobs, size_t *ret_count);
struct sp_error *store_index_count(struct store_index *index, struct sp_store_counts *ret);
struct sp_error *store_index_touch(struct store_index *index);

struct sp_error *store_index_put_token(struct store_index *index, const struct sp_store_token *token,
                                       const char *sha256);
struct sp_error *store_index_get_token(struct store_index *index, const char *id, struct sp_store_token *ret,
                                       char *ret_sha256);
struct sp_error *store_index_revoke_token(struct store_index *index, const char *id);
struct sp_error *store_index_list_tokens(struct store_index *index, sp_store_tokens *ret);

/* ---- The store ---- */

struct sp_store {
	struct sp_store_options options;
	char *folder, *staging; /* owned */
	int lock;               /* descriptor: one process a store; -1 = not held */
	struct store_blobs blobs;
	struct store_index *index;
	pthread_mutex_t stages_lock;
	struct sp_stage *stages; /* those that are open */
};

void store_step(const struct sp_store *store, const char *name);
int64_t store_now(void); /* seconds since 1970 */
/* The build ID of an ELF file's info; "" = none. */
void store_build_id(const struct spsym_file_info *info, char *ret);
/* An ID as it stands in the index: in lower case, cut to SPSYM_ID_MAX with the NUL. */
void store_plain_id(const char *id, char *ret);

#endif
