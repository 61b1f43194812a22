/* What file.c asks of file_unix.c and file_windows.c, and what it gives them. */
#ifndef SP_COMMON_FILE_INTERNAL_H
#define SP_COMMON_FILE_INTERNAL_H

#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes one folder whose parent exists; one that is there already is fine. */
struct sp_error *sp_file_make_folder(const char *path);

bool sp_file_is_absolute(const char *path);

/* The user's folder for caches, and what to append for sp's. NULL = the environment names none. */
const char *sp_file_cache_base(const char **ret_suffix);

/* A growing buffer for reading a file whose size is not known (those of /proc say 0). Zeroed but for .limit at start;
 * call sp_file_read_room(), read into it, tell sp_file_read_took() how much came, until .done. */
struct sp_file_read_state {
	char *bytes;
	size_t size, capacity;
	size_t limit;
	bool done; /* the end was reached */
};
struct sp_error *sp_file_read_room(struct sp_file_read_state *state, const char *path, uint64_t size_hint, char **ret,
                                   size_t *ret_size);
void sp_file_read_took(struct sp_file_read_state *state, size_t size);
/* Gives the bytes, or frees them when `error` (passed through) is set. */
struct sp_error *sp_file_read_end(struct sp_file_read_state *state, struct sp_error *error, char **ret,
                                  size_t *ret_size);

#endif
