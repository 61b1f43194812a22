/* Times are those of the file system; settings are small files with a number of seconds, as other clients write them.
 */
#include "symbolication/locate/debuginfod_cache.h"

#include "common/clock.h"
#include "common/file.h"
#include "symbolication/locate/private.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

enum { MISS_S = 600, CLEAN_S = 86400, UNUSED_S = 604800 };

static bool is_folder(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

struct sp_error *sp_debuginfod_cache_folder(char **ret)
{
	const char *set = getenv("DEBUGINFOD_CACHE_PATH"), *home = getenv("HOME"), *xdg = getenv("XDG_CACHE_HOME");
	*ret = NULL;
	if (set && set[0]) {
		*ret = strdup(set);
		return *ret ? NULL : sp_error_no_memory();
	}
	if (!home || !home[0])
		home = "/";
	*ret = sp_path_format("%s/.debuginfod_client_cache", home);
	if (*ret && !is_folder(*ret)) {
		free(*ret);
		*ret = xdg && xdg[0] ? sp_path_format("%s/debuginfod_client", xdg)
		                     : sp_path_format("%s/.cache/debuginfod_client", home);
	}
	return *ret ? NULL : sp_error_no_memory();
}

/* A source's path as one file name: "/" is "##", "#" is "#_". */
static char *flatten(const char *source)
{
	char *flat = malloc(2 * strlen(source) + 1), *at = flat;
	for (; flat && *source; source++) {
		if (*source == '/' || *source == '#') {
			*at++ = '#';
			*at++ = *source == '/' ? '#' : '_';
		} else {
			*at++ = *source;
		}
	}
	if (flat)
		*at = 0;
	return flat;
}

struct sp_error *sp_debuginfod_cache_path(const char *cache, const char *id, enum sp_debuginfod_kind kind,
                                          const char *source, bool make, char **ret)
{
	static const char *const names[] = { "debuginfo", "executable", "source" };
	char *folder = sp_path_format("%s/%s", cache, id), *flat = source ? flatten(source) : NULL;
	struct sp_error *error = folder && (flat || !source) ? NULL : sp_error_no_memory();
	if (!error && make)
		error = sp_file_make_folders(folder);
	*ret = error ? NULL : sp_path_format("%s/%s%s", folder, names[kind], flat ? flat : "");
	free(folder);
	free(flat);
	return error || *ret ? error : sp_error_no_memory();
}

/* The number in a settings file of the cache. */
static uint64_t setting(const char *cache, const char *name, uint64_t otherwise)
{
	char *path = sp_path_format("%s/%s", cache, name), *text;
	size_t size;
	struct sp_error *error = path ? sp_file_read(path, 64, &text, &size) : sp_error_no_memory();
	free(path);
	if (error) {
		sp_error_destroy(error);
		return otherwise;
	}
	char *end;
	unsigned long long value = strtoull(text, &end, 10);
	bool good = end != text;
	free(text);
	return good ? value : otherwise;
}

static uint64_t wall_seconds(void)
{
	return sp_clock_wall() / 1000000000;
}

static bool older(time_t then, uint64_t seconds)
{
	uint64_t now = wall_seconds();
	return then < 0 || (now > (uint64_t)then && now - (uint64_t)then > seconds);
}

enum sp_debuginfod_cached sp_debuginfod_cache_look(const char *cache, const char *path)
{
	struct stat st;
	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
		return SP_DEBUGINFOD_UNKNOWN;
	if (st.st_size > 0) {
		/* A file that is mapped is used: its time of access must say so also where reading does not set it. */
		struct utimbuf times = { .actime = (time_t)wall_seconds(), .modtime = st.st_mtime };
		(void)utime(path, &times);
		return SP_DEBUGINFOD_HAVE;
	}
	if (!older(st.st_mtime, setting(cache, "cache_miss_s", MISS_S)))
		return SP_DEBUGINFOD_MISS;
	unlink(path);
	return SP_DEBUGINFOD_UNKNOWN;
}

void sp_debuginfod_cache_miss(const char *path)
{
	FILE *file = fopen(path, "wb");
	if (file)
		fclose(file);
}

/* Removes the unused files of one build ID, and its folder when none is left. */
static void clean_folder(const char *folder, uint64_t unused)
{
	struct stat folder_st;
	if (stat(folder, &folder_st) != 0)
		return;
	DIR *listing = opendir(folder);
	struct dirent *entry;
	while (listing && (entry = readdir(listing))) {
		struct stat st;
		char *path = entry->d_name[0] == '.' ? NULL : sp_path_format("%s/%s", folder, entry->d_name);
		if (path && stat(path, &st) == 0 && S_ISREG(st.st_mode) && older(st.st_atime, unused))
			unlink(path);
		free(path);
	}
	if (listing)
		closedir(listing);
	if (older(folder_st.st_mtime, CLEAN_S)) /* a new one is about to be filled */
		(void)rmdir(folder);
}

static bool is_build_id(const char *name)
{
	return strlen(name) >= 8 && strspn(name, "0123456789abcdef") == strlen(name);
}

void sp_debuginfod_cache_clean(const char *cache)
{
	struct stat st;
	char *stamp = sp_path_format("%s/cache_clean_interval_s", cache);
	if (!stamp)
		return;
	bool known = stat(stamp, &st) == 0;
	uint64_t interval = setting(cache, "cache_clean_interval_s", CLEAN_S);
	if (!known || older(st.st_mtime, interval)) {
		/* Written first, so that other clients leave the work to this one. */
		char text[32];
		int length = snprintf(text, sizeof(text), "%llu", (unsigned long long)interval);
		sp_error_destroy(sp_file_write_atomic(stamp, text, (size_t)length));
		uint64_t unused = setting(cache, "max_unused_age_s", UNUSED_S);
		DIR *listing = known ? opendir(cache) : NULL;
		struct dirent *entry;
		while (listing && (entry = readdir(listing))) {
			char *folder = is_build_id(entry->d_name) ? sp_path_format("%s/%s", cache, entry->d_name)
			                                          : NULL;
			if (folder)
				clean_folder(folder, unused);
			free(folder);
		}
		if (listing)
			closedir(listing);
	}
	free(stamp);
}
