/* The Unix half of file.h: mapping, atomic replacement, folders. Its twin is file_windows.c. */
#include "common/file.h"
#include "common/file_internal.h"
#include "common/sudo.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CREATE_TRIES 100
#define WANT_AT_ONCE ((size_t)128 << 10)

/* Opens without ever waiting for the other end of a pipe, and without taking a terminal. */
static struct sp_error *open_for_reading(const char *path, int *ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return sp_error_from_errno(errno, "cannot open %s", path);
	*ret = fd;
	return NULL;
}

static struct sp_error *stat_regular(int fd, const char *name, struct stat *ret)
{
	if (fstat(fd, ret))
		return sp_error_from_errno(errno, "cannot look at %s", name);
	if (!S_ISREG(ret->st_mode))
		return sp_error_create(SP_ERROR_FORMAT, "%s is not a regular file", name);
	return NULL;
}

struct sp_error *sp_file_open(const char *path, FILE **ret)
{
	int fd;
	struct stat st;
	struct sp_error *error = open_for_reading(path, &fd);
	if (error)
		return error;
	error = stat_regular(fd, path, &st);
	*ret = error ? NULL : fdopen(fd, "rb");
	if (!error && !*ret)
		error = sp_error_from_errno(errno, "cannot open %s", path);
	if (error)
		close(fd);
	return error;
}

struct sp_error *sp_file_map_path(const char *path, struct sp_file_map *ret)
{
	int fd;
	struct sp_error *error = open_for_reading(path, &fd);
	if (error)
		return error;
	error = sp_file_map_fd(fd, path, ret);
	close(fd);
	return error;
}

struct sp_error *sp_file_map_fd(int fd, const char *name, struct sp_file_map *ret)
{
	struct stat st;
	struct sp_error *error = stat_regular(fd, name, &st);
	if (error)
		return error;
	struct sp_file_map map = {
		.size = (size_t)st.st_size,
		.device = (uint64_t)st.st_dev,
		.inode = (uint64_t)st.st_ino,
#ifdef __APPLE__
		.mtime_ns = (int64_t)st.st_mtimespec.tv_sec * 1000000000 + st.st_mtimespec.tv_nsec,
#else
		.mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
#endif
	};
	if (map.size) {
		void *bytes = mmap(NULL, map.size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (bytes == MAP_FAILED)
			return sp_error_from_errno(errno, "cannot map %s", name);
		map.bytes = bytes;
		map.mapped = true;
	}
	*ret = map;
	return NULL;
}

void sp_file_unmap(struct sp_file_map *map)
{
	if (map->mapped)
		munmap((void *)(uintptr_t)map->bytes, map->size);
	*map = (struct sp_file_map){ 0 };
}

/* Advice to the kernel is of whole pages. */
static void advise(const void *bytes, size_t size, int advice)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)bytes & ~(page - 1);
	if (size)
		madvise((void *)start, (uintptr_t)bytes + size - start, advice);
}

void sp_file_expect(const void *bytes, size_t size, bool scattered)
{
	advise(bytes, size, scattered ? MADV_RANDOM : MADV_NORMAL);
}

void sp_file_want(const void *bytes, size_t size)
{
	/* Linux reads no more at a time than it would read ahead. */
	for (size_t at = 0; at < size; at += WANT_AT_ONCE)
		advise((const uint8_t *)bytes + at, size - at < WANT_AT_ONCE ? size - at : WANT_AT_ONCE, MADV_WILLNEED);
}

static struct sp_error *write_all(int fd, const char *path, const void *bytes, size_t size)
{
	const char *at = bytes;
	while (size) {
		ssize_t n = write(fd, at, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return sp_error_from_errno(errno, "cannot write %s", path);
		at += n;
		size -= (size_t)n;
	}
	return NULL;
}

/* A new file beside `path`. The name holds the process and a count, so that it is new at the first try. */
static struct sp_error *create_beside(const char *path, char *name, size_t name_size, int *ret)
{
	for (unsigned i = 0; i < CREATE_TRIES; i++) {
		snprintf(name, name_size, "%s.%ld-%u.tmp", path, (long)getpid(), i);
		int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd >= 0) {
			sp_file_give_to_user(name);
			*ret = fd;
			return NULL;
		}
		if (errno != EEXIST)
			break;
	}
	return sp_error_from_errno(errno, "cannot create %s", name);
}

struct sp_error *sp_file_write_atomic(const char *path, const void *bytes, size_t size)
{
	size_t name_size = strlen(path) + 48;
	char *name = malloc(name_size);
	if (!name)
		return sp_error_no_memory();
	int fd;
	struct sp_error *error = create_beside(path, name, name_size, &fd);
	if (!error) {
		error = write_all(fd, name, bytes, size);
		if (close(fd) && !error)
			error = sp_error_from_errno(errno, "cannot write %s", name);
		if (!error && rename(name, path))
			error = sp_error_from_errno(errno, "cannot rename %s to %s", name, path);
		if (error)
			unlink(name);
	}
	free(name);
	return error;
}

struct sp_error *sp_file_make_folder(const char *path)
{
	struct stat st;
	if (!mkdir(path, 0700)) {
		sp_file_give_to_user(path);
		return NULL;
	}
	int errnum = errno;
	if (!stat(path, &st)) {
		if (S_ISDIR(st.st_mode))
			return NULL;
		errnum = ENOTDIR;
	}
	return sp_error_from_errno(errnum, "cannot make the folder %s", path);
}

struct sp_error *sp_file_read(const char *path, size_t limit, char **ret, size_t *ret_size)
{
	int fd;
	struct sp_error *error = open_for_reading(path, &fd);
	if (error)
		return error;
	struct stat st;
	error = stat_regular(fd, path, &st);
	struct sp_file_read_state state = { .limit = limit };
	while (!error && !state.done) {
		char *room;
		size_t room_size;
		error = sp_file_read_room(&state, path, (uint64_t)st.st_size, &room, &room_size);
		if (error)
			break;
		ssize_t n = read(fd, room, room_size);
		if (n < 0 && errno != EINTR)
			error = sp_error_from_errno(errno, "cannot read %s", path);
		else if (n >= 0)
			sp_file_read_took(&state, (size_t)n);
	}
	close(fd);
	return sp_file_read_end(&state, error, ret, ret_size);
}

bool sp_file_is_absolute(const char *path)
{
	return path[0] == '/';
}

void sp_file_give_to_user(const char *path)
{
	uid_t uid;
	gid_t gid;
	/* A file that stays root's is an annoyance, no error. */
	if (sp_sudo_ids(&uid, &gid) && lchown(path, uid, gid))
		return;
}

const char *sp_file_cache_base(const char **ret_suffix)
{
	uid_t uid;
	gid_t gid;
	if (sp_sudo_ids(&uid, &gid)) {
		/* sudo took the user's HOME away; what is kept must be found without sudo too. */
		const struct passwd *user = getpwuid(uid);
		*ret_suffix = "/.cache/sp";
		return user ? user->pw_dir : NULL;
	}
	const char *base = getenv("XDG_CACHE_HOME");
	*ret_suffix = "/sp";
	if (base && sp_file_is_absolute(base))
		return base;
	base = getenv("HOME");
	*ret_suffix = "/.cache/sp";
	return base && *base ? base : NULL;
}
