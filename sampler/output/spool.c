/* The arrays of spool.h. File space is reserved before it is mapped, so that a full disk is an error here and never a
 * fault at some later write. */
#include "sampler/output/spool.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32

static bool grow_in_file(void **items, size_t used, size_t old_bytes, size_t bytes, struct sp_spool_store *store)
{
	(void)items, (void)used, (void)old_bytes, (void)bytes, (void)store;
	return false;
}

static void unmap(void *items, size_t bytes)
{
	(void)items, (void)bytes;
}

static void close_file(struct sp_spool_store *store)
{
	(void)store;
}

#else

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static int open_nameless(const char *folder)
{
	int fd = -1;
#ifdef O_TMPFILE
	fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
#endif
	char path[4096];
	if (fd < 0 && (size_t)snprintf(path, sizeof(path), "%s/sp-spool-XXXXXX", folder) < sizeof(path)) {
		fd = mkstemp(path);
		if (fd >= 0) {
			unlink(path);
			fcntl(fd, F_SETFD, FD_CLOEXEC);
		}
	}
	return fd;
}

static bool reserve_file(int fd, size_t bytes)
{
#ifdef __APPLE__
	(void)fd, (void)bytes; /* no way to reserve: stay on the heap */
	return false;
#else
	return bytes <= INT64_MAX && !posix_fallocate(fd, 0, (off_t)bytes);
#endif
}

static void unmap(void *items, size_t bytes)
{
	munmap(items, bytes);
}

static void close_file(struct sp_spool_store *store)
{
	if (store->file)
		close(store->file - 1);
	store->file = 0;
}

/* Moves the items to a mapping of `bytes` bytes; false leaves them as they are. */
static bool grow_in_file(void **items, size_t used, size_t old_bytes, size_t bytes, struct sp_spool_store *store)
{
	int fd = store->file ? store->file - 1 : open_nameless(store->folder);
	if (fd < 0)
		return false;
	void *mapped = MAP_FAILED;
	if (reserve_file(fd, bytes))
		mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED) {
		if (!store->file)
			close(fd);
		return false;
	}
	if (store->file) {
		munmap(*items, old_bytes);
	} else {
		if (used)
			memcpy(mapped, *items, used);
		free(*items);
	}
	store->file = fd + 1;
	*items = mapped;
	return true;
}

#endif

bool sp_spool_grow(void **items, size_t *capacity, size_t count, size_t extra, size_t item_size,
                   struct sp_spool_store *store)
{
	size_t limit = SIZE_MAX / 4 / item_size;
	if (count > limit || extra > limit - count)
		return false;
	size_t wanted = *capacity + *capacity / 2;
	if (wanted < count + extra)
		wanted = count + extra;
	if (wanted < 64)
		wanted = 64;
	size_t old_bytes = *capacity * item_size, used = count * item_size, bytes = wanted * item_size;
	if (bytes > SP_SPOOL_HEAP && store->folder && grow_in_file(items, used, old_bytes, bytes, store)) {
		*capacity = wanted;
		return true;
	}
	void *grown = realloc(store->file ? NULL : *items, bytes);
	if (!grown)
		return false;
	if (store->file) { /* the disk is full: back to the heap */
		memcpy(grown, *items, used);
		unmap(*items, old_bytes);
		close_file(store);
		store->folder = NULL;
	}
	*items = grown;
	*capacity = wanted;
	return true;
}

void sp_spool_release(void *items, size_t bytes, struct sp_spool_store *store)
{
	if (store->file) {
		unmap(items, bytes);
		close_file(store);
	} else {
		free(items);
	}
}
