/* Reading /proc; see proc.h. */
#include "platform/linux/proc.h"

#include "common/file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#define STAT_LIMIT 4096
#define STATUS_LIMIT 65536
#define MAPS_LIMIT (64u << 20) /* half a million mappings */

struct sp_error *sp_proc_numbers(const char *folder, sp_proc_number_fn each, void *context)
{
	DIR *dir = opendir(folder);
	if (!dir)
		return NULL;
	struct sp_error *error = NULL;
	for (const struct dirent *entry; !error && (entry = readdir(dir));) {
		char *end;
		unsigned long number = strtoul(entry->d_name, &end, 10);
		if (end != entry->d_name && !*end && number && number <= UINT32_MAX)
			error = each(context, (uint32_t)number);
	}
	closedir(dir);
	return error;
}

/* A whole file of a process (tid 0) or thread; pid 0 is sp. NULL when it can't be read. The caller frees it. */
static char *read_file(uint32_t pid, uint32_t tid, const char *name, size_t limit)
{
	char path[64];
	if (!pid)
		snprintf(path, sizeof(path), "/proc/self/%s", name);
	else if (!tid)
		snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
	else
		snprintf(path, sizeof(path), "/proc/%u/task/%u/%s", pid, tid, name);
	char *text;
	size_t size;
	struct sp_error *error = sp_file_read(path, limit, &text, &size);
	if (!error)
		return text;
	sp_error_destroy(error);
	return NULL;
}

/* Field `number` (from 1) of a stat line as a number; the name in field 2 may hold anything. */
static bool stat_field(const char *stat, unsigned number, uint64_t *ret)
{
	const char *at = strrchr(stat, ')');
	for (unsigned field = 2; at && field < number; field++)
		at = strchr(at + 1, ' ');
	if (!at)
		return false;
	char *end;
	*ret = strtoull(at + 1, &end, 10);
	return end != at + 1;
}

bool sp_proc_parent(uint32_t pid, uint32_t *ret)
{
	char *stat = read_file(pid, 0, "stat", STAT_LIMIT);
	uint64_t parent = 0;
	bool found = stat && stat_field(stat, 4, &parent);
	free(stat);
	*ret = (uint32_t)parent;
	return found;
}

bool sp_proc_name(uint32_t pid, uint32_t tid, char *buffer, size_t size)
{
	char *name = read_file(pid, tid, "comm", STAT_LIMIT);
	if (!name)
		return false;
	name[strcspn(name, "\n")] = 0;
	snprintf(buffer, size, "%s", name);
	free(name);
	return true;
}

/* maps writes a newline in a path as "\012". */
static void unescape(char *path)
{
	char *to = path;
	for (const char *at = path; *at; at++) {
		if (!strncmp(at, "\\012", 4)) {
			*to++ = '\n';
			at += 3;
		} else {
			*to++ = *at;
		}
	}
	*to = 0;
}

bool sp_proc_parse_map(char *line, struct sp_event_map *ret)
{
	unsigned long long start, end, offset, inode;
	unsigned major, minor;
	char rights[5];
	int path = 0;
	if (sscanf(line, "%llx-%llx %4s %llx %x:%x %llu %n", &start, &end, rights, &offset, &major, &minor, &inode,
	           &path) < 7 ||
	    !path || end < start)
		return false;
	unescape(line + path);
	*ret = (struct sp_event_map){ .start = start,
		                      .size = end - start,
		                      .file_offset = offset,
		                      .path = line[path] ? line + path : "//anon",
		                      .device = inode ? makedev(major, minor) : 0,
		                      .inode = inode,
		                      .executable = rights[2] == 'x' };
	return true;
}

struct sp_error *sp_proc_maps(uint32_t pid, sp_proc_map_fn each, void *context)
{
	char *maps = read_file(pid, 0, "maps", MAPS_LIMIT);
	struct sp_error *error = NULL;
	char *rest = maps;
	for (char *line; !error && rest && (line = strsep(&rest, "\n"));) {
		struct sp_event_map map;
		if (sp_proc_parse_map(line, &map))
			error = each(context, &map);
	}
	free(maps);
	return error;
}

bool sp_proc_status_field(uint32_t pid, const char *name, char *buffer, size_t size)
{
	char *status = read_file(pid, 0, "status", STATUS_LIMIT);
	size_t length = strlen(name);
	bool found = false;
	char *rest = status;
	for (char *line; !found && rest && (line = strsep(&rest, "\n"));) {
		if (strncmp(line, name, length) || line[length] != ':')
			continue;
		snprintf(buffer, size, "%s", line + length + 1 + strspn(line + length + 1, " \t"));
		found = true;
	}
	free(status);
	return found;
}
