/* Files: mapped whole for reading, replaced atomically, made with their parent folders. */
#ifndef SP_COMMON_FILE_H
#define SP_COMMON_FILE_H

#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A read-only view of a file's bytes. */
struct sp_file_map {
	const uint8_t *bytes; /* NULL for an empty file */
	size_t size;
	uint64_t device, inode; /* identity on this machine; 0 where the OS has none */
	int64_t mtime_ns;       /* modification time, ns since 1970 */
	bool mapped;            /* the bytes are a mapping that sp_file_unmap() releases */
};

/* Opens a regular file for reading. As below, anything else is an error, and nothing blocks. */
struct sp_error *sp_file_open(const char *path, FILE **ret);

/* Maps a regular file. Anything else (folder, device, pipe) is an error: nothing here blocks on a FIFO. */
struct sp_error *sp_file_map_path(const char *path, struct sp_file_map *ret);

/* As sp_file_map_path() for an open descriptor, which stays the caller's. `name` is for messages. */
struct sp_error *sp_file_map_fd(int fd, const char *name, struct sp_file_map *ret);

void sp_file_unmap(struct sp_file_map *map);

/* How a part of a map will be read. By default the OS reads much around each place that is touched; for `scattered`
 * reads it reads that place only. A hint, which does nothing where the OS has no such thing. */
void sp_file_expect(const void *bytes, size_t size, bool scattered);
/* Begins to read a part of a map that will be touched soon, without waiting for it. A hint, too. */
void sp_file_want(const void *bytes, size_t size);

/* Writes a file beside `path` and renames it over it, so that a reader sees the old or the new, whole. */
struct sp_error *sp_file_write_atomic(const char *path, const void *bytes, size_t size);

/* Under sudo, what sp makes belongs to the user behind it: gives a file or folder that was just made to that user (a
 * link itself, not what it points at). Does nothing elsewhere. */
void sp_file_give_to_user(const char *path);

/* mkdir -p with mode 0700. */
struct sp_error *sp_file_make_folders(const char *path);

/* Reads a small file (e.g. of /proc) whole, at most `limit` bytes, NUL-terminated; the caller frees *ret. */
struct sp_error *sp_file_read(const char *path, size_t limit, char **ret, size_t *ret_size);

/* The last part of a path of Windows or Unix, whatever this system's is. */
const char *sp_file_base_name(const char *path);

/* sp's cache folder for `part` ("symbols", …): $SP_CACHE_DIR, else $XDG_CACHE_HOME/sp, else ~/.cache/sp, under sudo the
 * user's (on Windows %LOCALAPPDATA%\sp). Made when absent. The caller frees *ret. */
struct sp_error *sp_file_cache_folder(const char *part, char **ret);

#endif
