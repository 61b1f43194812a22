/* Blobs in a folder; see private.h. */
#include "private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct sp_error *store_sync_folder(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return sp_error_from_errno(errno, "%s", path);
	int failed = fsync(fd);
	int errnum = errno;
	close(fd);
	return failed ? sp_error_from_errno(errnum, "%s", path) : NULL;
}

struct sp_error *store_blobs_open(struct store_blobs *blobs, const struct sp_store_options *options)
{
	blobs->options = options;
	if (asprintf(&blobs->folder, "%s/blobs", options->folder) < 0) {
		blobs->folder = NULL;
		return sp_error_no_memory();
	}
	return sp_file_make_folders(blobs->folder);
}

void store_blobs_close(struct store_blobs *blobs)
{
	free(blobs->folder);
	blobs->folder = NULL;
}

char *store_blobs_path(const struct store_blobs *blobs, const char *sha256)
{
	char *path;
	return asprintf(&path, "%s/%.2s/%s", blobs->folder, sha256, sha256) < 0 ? NULL : path;
}

static void step(const struct store_blobs *blobs, const char *name)
{
	if (blobs->options->step)
		blobs->options->step(blobs->options->context, name);
}

static struct sp_error *publish(struct store_blobs *blobs, const char *folder, const char *path, const char *staged)
{
	step(blobs, "make folder");
	if (mkdir(folder, 0700) == 0) {
		struct sp_error *error = store_sync_folder(blobs->folder);
		if (error)
			return error;
	} else if (errno != EEXIST) {
		return sp_error_from_errno(errno, "%s", folder);
	}
	step(blobs, "name blob");
	/* The staged name stays until the rows are there. Where there are no hard links it does not. */
	if (link(staged, path) != 0 && errno != EEXIST && rename(staged, path) != 0)
		return sp_error_from_errno(errno, "%s", path);
	step(blobs, "sync folder");
	return store_sync_folder(folder);
}

struct sp_error *store_blobs_put(struct store_blobs *blobs, const char *sha256, const char *path)
{
	char *to = store_blobs_path(blobs, sha256), *folder = to ? strdup(to) : NULL;
	struct sp_error *error = folder ? NULL : sp_error_no_memory();
	if (!error) {
		*strrchr(folder, '/') = 0;
		error = publish(blobs, folder, to, path);
	}
	free(folder);
	free(to);
	return error;
}

struct sp_error *store_blobs_open_blob(struct store_blobs *blobs, const char *sha256, int *ret, uint64_t *ret_size)
{
	struct stat st;
	char *path = store_blobs_path(blobs, sha256);
	if (!path)
		return sp_error_no_memory();
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct sp_error *error = NULL;
	/* A row says that it is there: what is wrong is the store, and not the question. */
	if (fd < 0 || fstat(fd, &st) != 0)
		error = sp_error_create(SP_ERROR_SYSTEM, "%s: %s", path, strerror(errno));
	free(path);
	if (error) {
		if (fd >= 0)
			close(fd);
		return error;
	}
	*ret = fd;
	*ret_size = (uint64_t)st.st_size;
	return NULL;
}

bool store_blobs_has(struct store_blobs *blobs, const char *sha256)
{
	char *path = store_blobs_path(blobs, sha256);
	bool has = path && access(path, F_OK) == 0;
	free(path);
	return has;
}

static void sweep_folder(const char *folder, bool (*keep)(void *context, const char *sha256), void *context)
{
	DIR *dir = opendir(folder);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		if (sp_store_is_sha256(entry->d_name) && !keep(context, entry->d_name))
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
	if (dir)
		closedir(dir);
}

struct sp_error *store_blobs_sweep(struct store_blobs *blobs, bool (*keep)(void *context, const char *sha256),
                                   void *context)
{
	for (unsigned i = 0; i < 256; i++) {
		char *folder;
		if (asprintf(&folder, "%s/%02x", blobs->folder, i) < 0)
			return sp_error_no_memory();
		sweep_folder(folder, keep, context);
		free(folder);
	}
	return NULL;
}

struct sp_error *store_blobs_free_space(struct store_blobs *blobs, uint64_t *ret)
{
	struct statvfs st;
	if (statvfs(blobs->folder, &st) != 0)
		return sp_error_from_errno(errno, "%s", blobs->folder);
	*ret = (uint64_t)st.f_bavail * st.f_frsize;
	return NULL;
}
