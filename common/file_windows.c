/* The Windows half of file.h. Paths are UTF-8. Its twin is file_unix.c. */
#include "common/file.h"
#include "common/file_internal.h"

#include <windows.h>

#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CREATE_TRIES 100
#define EPOCH_1601_TO_1970 INT64_C(116444736000000000) /* in units of 100 ns */

static struct sp_error *last_error(const char *what, const char *path)
{
	DWORD number = GetLastError();
	char text[256] = "";
	DWORD length = FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, number, 0, text,
	                              sizeof(text), NULL);
	while (length && (text[length - 1] == '\n' || text[length - 1] == '\r' || text[length - 1] == '.'))
		text[--length] = '\0';
	enum sp_error_code code = SP_ERROR_SYSTEM;
	if (number == ERROR_FILE_NOT_FOUND || number == ERROR_PATH_NOT_FOUND)
		code = SP_ERROR_NOT_FOUND;
	else if (number == ERROR_ACCESS_DENIED)
		code = SP_ERROR_PERMISSION;
	return sp_error_create(code, "cannot %s %s: %s", what, path, text);
}

static wchar_t *widen(const char *path)
{
	int count = MultiByteToWideChar(CP_UTF8, 0, path, -1, NULL, 0);
	wchar_t *wide = count > 0 ? malloc((size_t)count * sizeof(*wide)) : NULL;
	if (wide)
		MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, count);
	return wide;
}

static struct sp_error *open_for_reading(const char *path, HANDLE *ret)
{
	wchar_t *wide = widen(path);
	if (!wide)
		return sp_error_no_memory();
	HANDLE file = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
	                          OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL);
	free(wide);
	if (file == INVALID_HANDLE_VALUE)
		return last_error("open", path);
	if (GetFileType(file) != FILE_TYPE_DISK) {
		CloseHandle(file);
		return sp_error_create(SP_ERROR_FORMAT, "%s is not a regular file", path);
	}
	*ret = file;
	return NULL;
}

struct sp_error *sp_file_open(const char *path, FILE **ret)
{
	HANDLE file;
	struct sp_error *error = open_for_reading(path, &file);
	if (error)
		return error;
	CloseHandle(file);
	wchar_t *wide = widen(path);
	if (!wide)
		return sp_error_no_memory();
	*ret = _wfopen(wide, L"rb");
	free(wide);
	return *ret ? NULL : sp_error_from_errno(errno, "cannot open %s", path);
}

static struct sp_error *map_handle(HANDLE file, const char *name, struct sp_file_map *ret)
{
	BY_HANDLE_FILE_INFORMATION info;
	if (!GetFileInformationByHandle(file, &info))
		return last_error("look at", name);
	uint64_t size = (uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow;
	int64_t time = (int64_t)((uint64_t)info.ftLastWriteTime.dwHighDateTime << 32 |
	                         info.ftLastWriteTime.dwLowDateTime);
	struct sp_file_map map = {
		.size = (size_t)size,
		.device = info.dwVolumeSerialNumber,
		.inode = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow,
		.mtime_ns = (time - EPOCH_1601_TO_1970) * 100,
	};
	if (size > SIZE_MAX / 2)
		return sp_error_create(SP_ERROR_LIMIT, "%s is too large to map", name);
	if (map.size) {
		HANDLE mapping = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
		if (!mapping)
			return last_error("map", name);
		map.bytes = MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0);
		struct sp_error *error = map.bytes ? NULL : last_error("map", name);
		CloseHandle(mapping); /* the view holds it */
		if (error)
			return error;
		map.mapped = true;
	}
	*ret = map;
	return NULL;
}

struct sp_error *sp_file_map_path(const char *path, struct sp_file_map *ret)
{
	HANDLE file;
	struct sp_error *error = open_for_reading(path, &file);
	if (error)
		return error;
	error = map_handle(file, path, ret);
	CloseHandle(file);
	return error;
}

struct sp_error *sp_file_map_fd(int fd, const char *name, struct sp_file_map *ret)
{
	HANDLE file = (HANDLE)_get_osfhandle(fd);
	if (file == INVALID_HANDLE_VALUE || GetFileType(file) != FILE_TYPE_DISK)
		return sp_error_create(SP_ERROR_FORMAT, "%s is not a regular file", name);
	return map_handle(file, name, ret);
}

void sp_file_unmap(struct sp_file_map *map)
{
	if (map->mapped)
		UnmapViewOfFile(map->bytes);
	*map = (struct sp_file_map){ 0 };
}

void sp_file_expect(const void *bytes, size_t size, bool scattered)
{
	(void)bytes;
	(void)size;
	(void)scattered;
}

void sp_file_want(const void *bytes, size_t size)
{
	(void)bytes;
	(void)size;
}

static struct sp_error *write_all(HANDLE file, const char *path, const void *bytes, size_t size)
{
	const char *at = bytes;
	while (size) {
		DWORD n = 0;
		if (!WriteFile(file, at, size > 1 << 30 ? 1 << 30 : (DWORD)size, &n, NULL))
			return last_error("write", path);
		at += n;
		size -= n;
	}
	return NULL;
}

static struct sp_error *create_beside(const char *path, char *name, size_t name_size, HANDLE *ret)
{
	for (unsigned i = 0; i < CREATE_TRIES; i++) {
		snprintf(name, name_size, "%s.%lu-%u.tmp", path, (unsigned long)GetCurrentProcessId(), i);
		wchar_t *wide = widen(name);
		if (!wide)
			return sp_error_no_memory();
		HANDLE file = CreateFileW(wide, GENERIC_WRITE, 0, NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
		free(wide);
		if (file != INVALID_HANDLE_VALUE) {
			*ret = file;
			return NULL;
		}
		if (GetLastError() != ERROR_FILE_EXISTS)
			break;
	}
	return last_error("create", name);
}

static struct sp_error *replace(const char *from, const char *to)
{
	wchar_t *wide_from = widen(from), *wide_to = widen(to);
	struct sp_error *error = NULL;
	if (!wide_from || !wide_to)
		error = sp_error_no_memory();
	else if (!MoveFileExW(wide_from, wide_to, MOVEFILE_REPLACE_EXISTING))
		error = last_error("replace", to);
	if (error && wide_from)
		DeleteFileW(wide_from);
	free(wide_from);
	free(wide_to);
	return error;
}

struct sp_error *sp_file_write_atomic(const char *path, const void *bytes, size_t size)
{
	size_t name_size = strlen(path) + 48;
	char *name = malloc(name_size);
	if (!name)
		return sp_error_no_memory();
	HANDLE file;
	struct sp_error *error = create_beside(path, name, name_size, &file);
	if (!error) {
		error = write_all(file, name, bytes, size);
		CloseHandle(file);
		if (!error) {
			error = replace(name, path);
		} else {
			wchar_t *wide = widen(name);
			if (wide)
				DeleteFileW(wide);
			free(wide);
		}
	}
	free(name);
	return error;
}

struct sp_error *sp_file_make_folder(const char *path)
{
	wchar_t *wide = widen(path);
	if (!wide)
		return sp_error_no_memory();
	struct sp_error *error = NULL;
	if (!CreateDirectoryW(wide, NULL)) {
		DWORD attributes = GetFileAttributesW(wide);
		if (attributes == INVALID_FILE_ATTRIBUTES || !(attributes & FILE_ATTRIBUTE_DIRECTORY))
			error = last_error("make the folder", path);
	}
	free(wide);
	return error;
}

struct sp_error *sp_file_read(const char *path, size_t limit, char **ret, size_t *ret_size)
{
	HANDLE file;
	struct sp_error *error = open_for_reading(path, &file);
	if (error)
		return error;
	LARGE_INTEGER size = { 0 };
	GetFileSizeEx(file, &size);
	struct sp_file_read_state state = { .limit = limit };
	while (!error && !state.done) {
		char *room;
		size_t room_size;
		error = sp_file_read_room(&state, path, (uint64_t)size.QuadPart, &room, &room_size);
		if (error)
			break;
		DWORD n = 0;
		if (ReadFile(file, room, room_size > 1 << 30 ? 1 << 30 : (DWORD)room_size, &n, NULL))
			sp_file_read_took(&state, n);
		else
			error = last_error("read", path);
	}
	CloseHandle(file);
	return sp_file_read_end(&state, error, ret, ret_size);
}

bool sp_file_is_absolute(const char *path)
{
	return path[0] == '/' || path[0] == '\\' || (path[0] && path[1] == ':');
}

const char *sp_file_cache_base(const char **ret_suffix)
{
	const char *base = getenv("LOCALAPPDATA");
	*ret_suffix = "\\sp";
	return base && *base ? base : NULL;
}

void sp_file_give_to_user(const char *path)
{
	(void)path; /* there is no sudo */
}
