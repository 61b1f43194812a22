/* Looking into a live process; see target.h. None of this needs the backend's state. */
#include "platform/linux/target.h"

#include "common/file.h"
#include "common/words.h"
#include "platform/linux/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define COMMAND_LINE_LIMIT (256u << 10)
#define DELETED " (deleted)"

/* Opens a regular file without waiting for a FIFO; -1 when it is none. */
static int open_regular(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* As open_regular(), if it is the mapping's file as far as the mapping says. An overlay file system may show another
 * device for the same file, so only the inode counts; without one, the caller compares build IDs. */
static int open_same(const char *path, const struct sp_event_map *map)
{
	int fd = open_regular(path);
	struct stat st;
	if (fd >= 0 && map->inode && (fstat(fd, &st) || st.st_ino != map->inode)) {
		close(fd);
		return -1;
	}
	return fd;
}

struct map_search {
	const struct sp_event_map *map;
	uint64_t start, end; /* 0 = not found */
};

/* The mapping as it is now may be a part of what it was, or grown together with its neighbour. */
static struct sp_error *search_map(void *context, const struct sp_event_map *map)
{
	struct map_search *search = context;
	const struct sp_event_map *wanted = search->map;
	if (search->end || !map->inode || wanted->start < map->start || wanted->start - map->start >= map->size ||
	    map->file_offset + (wanted->start - map->start) != wanted->file_offset)
		return NULL;
	search->start = map->start;
	search->end = map->start + map->size;
	return NULL;
}

/* The file itself, also when it was deleted or replaced; needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE. */
static int open_map_file(uint32_t pid, const struct sp_event_map *map)
{
	char path[96];
	snprintf(path, sizeof(path), "/proc/%u/map_files/%" PRIx64 "-%" PRIx64, pid, map->start,
	         map->start + map->size);
	int fd = open_same(path, map);
	if (fd >= 0 || errno == EPERM || errno == EACCES)
		return fd;
	struct map_search search = { .map = map };
	sp_error_destroy(sp_proc_maps(pid, search_map, &search));
	if (!search.end)
		return -1;
	snprintf(path, sizeof(path), "/proc/%u/map_files/%" PRIx64 "-%" PRIx64, pid, search.start, search.end);
	return open_same(path, map);
}

static bool ends_with(const char *string, const char *end)
{
	size_t length = strlen(string), end_length = strlen(end);
	return length >= end_length && !strcmp(string + length - end_length, end);
}

/* The executable stays reachable under /proc/PID/exe for whoever may trace the process. */
static int open_executable(uint32_t pid, const struct sp_event_map *map)
{
	char link[32], target[4096];
	snprintf(link, sizeof(link), "/proc/%u/exe", pid);
	ssize_t length = readlink(link, target, sizeof(target) - 1);
	if (length < 0)
		return -1;
	target[length] = 0;
	/* A file deleted after it was mapped has the suffix only in one of the two. */
	char *suffix = ends_with(target, DELETED) ? target + length - strlen(DELETED) : NULL;
	if (strcmp(target, map->path)) {
		if (!suffix)
			return -1;
		*suffix = 0;
		if (strcmp(target, map->path))
			return -1;
	}
	return open_same(link, map);
}

struct sp_error *sp_target_open_mapped_file(struct sp_backend *backend, uint32_t pid, const struct sp_event_map *map,
                                            int *ret_fd)
{
	(void)backend;
	*ret_fd = open_map_file(pid, map);
	if (*ret_fd < 0)
		*ret_fd = open_executable(pid, map);
	if (*ret_fd < 0 && map->path[0] == '/' && map->path[1] != '/' && !ends_with(map->path, DELETED)) {
		char *inside;
		if (asprintf(&inside, "/proc/%u/root%s", pid, map->path) < 0)
			return sp_error_no_memory();
		*ret_fd = open_same(inside, map);
		free(inside);
		if (*ret_fd < 0)
			*ret_fd = open_same(map->path, map);
	}
	if (*ret_fd >= 0)
		return NULL;
	return sp_error_create(SP_ERROR_NOT_FOUND, "the file behind the mapping of %s in process %u cannot be opened",
	                       map->path, pid);
}

struct sp_error *sp_target_read_memory(struct sp_backend *backend, uint32_t pid, uint64_t address, void *buffer,
                                       size_t size)
{
	(void)backend;
	struct iovec local = { .iov_base = buffer, .iov_len = size };
	struct iovec remote = { .iov_base = (void *)(uintptr_t)address, .iov_len = size };
	if (process_vm_readv((pid_t)pid, &local, 1, &remote, 1, 0) == (ssize_t)size)
		return NULL;
	char path[32];
	snprintf(path, sizeof(path), "/proc/%u/mem", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return sp_error_from_errno(errno, "cannot read memory of process %u", pid);
	ssize_t got = pread(fd, buffer, size, (off_t)address);
	int problem = got < 0 ? errno : EFAULT;
	close(fd);
	if (got == (ssize_t)size)
		return NULL;
	return sp_error_from_errno(problem, "cannot read %zu bytes at 0x%" PRIx64 " of process %u", size, address, pid);
}

/* Whether the process sees the file system as sp does. Unknown (gone, not ours) counts as yes. */
static bool same_root(uint32_t pid)
{
	char path[32];
	struct stat theirs, ours;
	snprintf(path, sizeof(path), "/proc/%u/root", pid);
	if (stat(path, &theirs) || stat("/", &ours))
		return true;
	if (theirs.st_dev != ours.st_dev || theirs.st_ino != ours.st_ino)
		return false;
	snprintf(path, sizeof(path), "/proc/%u/ns/mnt", pid);
	if (stat(path, &theirs) || stat("/proc/self/ns/mnt", &ours))
		return true;
	return theirs.st_ino == ours.st_ino;
}

struct sp_error *sp_target_path(struct sp_backend *backend, uint32_t pid, const char *path, char **ret)
{
	(void)backend;
	*ret = NULL;
	if (path[0] != '/' || same_root(pid))
		*ret = strdup(path);
	else if (asprintf(ret, "/proc/%u/root%s", pid, path) < 0)
		*ret = NULL;
	return *ret ? NULL : sp_error_no_memory();
}

uint32_t sp_target_pid(struct sp_backend *backend, uint32_t pid)
{
	(void)backend;
	char numbers[512]; /* outermost first; at most 32 namespaces */
	if (!sp_proc_status_field(pid, "NSpid", numbers, sizeof(numbers)))
		return pid;
	const char *last = strrchr(numbers, '\t');
	unsigned long inner = strtoul(last ? last + 1 : numbers, NULL, 10);
	return inner ? (uint32_t)inner : pid;
}

/* "a\0b c\0" -> "a 'b c'". Zeros at the end beyond the last word's are padding of processes that rename themselves. */
static char *join_zero_ended(char *text, size_t size)
{
	size_t count = 0;
	while (size && !text[size - 1])
		size--;
	for (size_t i = 0; i < size; i++)
		count += !text[i];
	char **words = calloc(count + 2, sizeof(*words));
	if (!words)
		return NULL;
	/* The byte behind the text is zero. */
	count = 0;
	for (char *at = text; at < text + size; at += strlen(at) + 1)
		words[count++] = at;
	char *line = sp_words_join(words);
	free(words);
	return line;
}

char *sp_target_command_line(struct sp_backend *backend, uint32_t pid)
{
	(void)backend;
	char path[32], *text;
	size_t size;
	snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
	struct sp_error *error = sp_file_read(path, COMMAND_LINE_LIMIT, &text, &size);
	if (error) {
		sp_error_destroy(error);
		return NULL;
	}
	char *line = join_zero_ended(text, size);
	free(text);
	return line;
}
