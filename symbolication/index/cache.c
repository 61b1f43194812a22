/* The folder of saved indexes. A file is written beside its place and renamed into it; readers see the old or the new.
 * Its time of modification tells when it was last used. */
#include "symbolication/index/cache.h"

#include "common/map.h"
#include "common/vector.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

#define SUFFIX ".spindex"
#define KEEP_USED_SECONDS 3600 /* a file's time is not set more often */
#define STALE_SECONDS 3600     /* what a writer that was killed left */

/* folder/<32 hex digits>.spindex; the caller frees it. NULL without memory. */
static char *path_of(const char *folder, const char *key)
{
	size_t length = strlen(key), size = strlen(folder) + 64;
	char *path = malloc(size);
	if (path)
		snprintf(path, size, "%s/%016llx%016llx" SUFFIX, folder, (unsigned long long)sp_hash_bytes(key, length),
		         (unsigned long long)sp_hash_u64(sp_hash_bytes(key, length / 2) + length));
	return path;
}

static void mark_as_used(const char *path, const struct sp_file_map *map)
{
	time_t now = time(NULL);
	if (now - (time_t)(map->mtime_ns / 1000000000) > KEEP_USED_SECONDS)
		utime(path, NULL); /* a folder that is not ours stays as it is */
}

struct sp_error *sp_index_cache_load(const char *folder, const char *key, struct sp_index **ret)
{
	*ret = NULL;
	char *path = path_of(folder, key);
	if (!path)
		return sp_error_no_memory();
	struct sp_file_map map;
	struct sp_error *error = sp_file_map_path(path, &map);
	if (!error) {
		mark_as_used(path, &map);
		error = sp_index_open_map(&map, ret);
		if (error && error->code != SP_ERROR_NO_MEMORY)
			remove(path);
	}
	free(path);
	if (error && error->code == SP_ERROR_NO_MEMORY)
		return error;
	sp_error_destroy(error);
	/* Another file with the same hash: it stays until this one's index is saved. */
	if (*ret && strcmp(sp_index_key(*ret), key) != 0) {
		sp_index_destroy(*ret);
		*ret = NULL;
	}
	return NULL;
}

void sp_index_cache_remove(const char *folder, const char *key)
{
	char *path = path_of(folder, key);
	if (path)
		remove(path);
	free(path);
}

/* ---- Keeping the folder small ---- */

struct entry {
	char *path; /* owned */
	uint64_t size;
	time_t used;
};

struct listing {
	SP_VECTOR(struct entry) entries;
	uint64_t total;
};

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	return x->used < y->used ? -1 : x->used > y->used;
}

/* Takes a file of the folder into account; one that a killed writer left is removed. */
static void take_file(struct listing *listing, const char *folder, const char *name)
{
	const char *suffix = strstr(name, SUFFIX);
	struct stat st;
	size_t size = strlen(folder) + strlen(name) + 2;
	char *path = suffix ? malloc(size) : NULL;
	if (!path)
		return;
	snprintf(path, size, "%s/%s", folder, name);
	bool regular = !stat(path, &st) && S_ISREG(st.st_mode), unfinished = strcmp(suffix, SUFFIX) != 0;
	if (regular && unfinished && time(NULL) - st.st_mtime > STALE_SECONDS)
		remove(path);
	struct entry entry = { path, regular ? (uint64_t)st.st_size : 0, regular ? st.st_mtime : 0 };
	if (regular && !unfinished && sp_vector_push(&listing->entries, entry))
		listing->total += entry.size;
	else
		free(path);
}

static void evict(const char *folder, const char *keep, uint64_t limit)
{
	struct listing listing = { 0 };
	DIR *dir = opendir(folder);
	if (!dir)
		return;
	for (struct dirent *item = readdir(dir); item; item = readdir(dir))
		take_file(&listing, folder, item->d_name);
	closedir(dir);
	if (listing.entries.count > 1)
		qsort(listing.entries.items, listing.entries.count, sizeof(struct entry), compare_entries);
	for (size_t i = 0; i < listing.entries.count; i++) {
		const struct entry *entry = &listing.entries.items[i];
		if (listing.total > limit && strcmp(entry->path, keep) != 0 && !remove(entry->path))
			listing.total -= entry->size;
		free(entry->path);
	}
	sp_vector_deinit(&listing.entries);
}

struct sp_error *sp_index_cache_save(const char *folder, const struct sp_index *index, uint64_t limit)
{
	size_t size;
	const void *bytes = sp_index_bytes(index, &size);
	if (size > limit)
		return sp_error_create(SP_ERROR_LIMIT, "an index of %zu bytes is not kept", size);
	char *path = path_of(folder, sp_index_key(index));
	if (!path)
		return sp_error_no_memory();
	struct sp_error *error = sp_file_make_folders(folder);
	if (!error)
		error = sp_file_write_atomic(path, bytes, size);
	if (!error)
		evict(folder, path, limit);
	free(path);
	return error;
}
