/* Saved indexes: one file each in a folder, named by the hash of what it was made of. Internal to symbolication/. */
#ifndef SP_SYMBOLICATION_INDEX_CACHE_H
#define SP_SYMBOLICATION_INDEX_CACHE_H

#include "symbolication/index/index.h"

#define SP_INDEX_CACHE_LIMIT (UINT64_C(2) << 30) /* bytes of a folder */

/* The saved index with a key; *ret is NULL when there is none that can be used. What is damaged or of another version
 * is removed. The file counts as used now. Only a lack of memory is an error. */
struct sp_error *sp_index_cache_load(const char *folder, const char *key, struct sp_index **ret);
/* Writes a file whole or not at all, then removes those that were used least recently until at most `limit` bytes are
 * left. Makes the folder. */
struct sp_error *sp_index_cache_save(const char *folder, const struct sp_index *index, uint64_t limit);
/* Removes the saved index with a key, which turned out to be damaged. */
void sp_index_cache_remove(const char *folder, const char *key);

#endif
