/* The places where symbol files are put: by build ID, by name in a symbol folder, beside the binary, by debug link. */
#include "symbolication/locate/private.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#ifndef _WIN32
#include <sys/utsname.h>
#endif

enum { BUILD_ID_PREFIX = 16 }; /* bytes of the build ID that a debug ID holds */

static void hex(const uint8_t *bytes, size_t size, char *ret)
{
	for (size_t i = 0; i < size; i++)
		snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
	ret[2 * size] = 0;
}

/* The first 16 bytes of the build ID, out of the debug ID: a GUID whose fields are in the file's byte order. */
static bool build_id_prefix(const char *debug_id, bool big_endian, uint8_t ret[BUILD_ID_PREFIX])
{
	static const unsigned char order[BUILD_ID_PREFIX] = { 3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15 };
	if (!debug_id || strlen(debug_id) < 2 * BUILD_ID_PREFIX)
		return false;
	for (unsigned i = 0; i < BUILD_ID_PREFIX; i++) {
		unsigned value;
		if (!isxdigit((unsigned char)debug_id[2 * i]) || !isxdigit((unsigned char)debug_id[2 * i + 1]) ||
		    sscanf(debug_id + 2 * i, "%2x", &value) != 1)
			return false;
		ret[big_endian ? i : order[i]] = (uint8_t)value;
	}
	return true;
}

/* Tries the files of a build-ID folder whose names begin with what is known of the ID. A build ID shorter than 16 bytes
 * is padded with zeros in the debug ID, which a name does not show: then nothing matches. */
static void try_prefix(struct sp_search *search, const char *folder, const uint8_t prefix[BUILD_ID_PREFIX])
{
	char digits[2 * BUILD_ID_PREFIX + 1];
	hex(prefix, BUILD_ID_PREFIX, digits);
	char *path = sp_path_format("%s/%.2s", folder, digits);
	if (!path) {
		search->error = sp_error_no_memory();
		return;
	}
	DIR *listing = opendir(path);
	struct dirent *entry;
	bool any = false;
	while (listing && !sp_search_done(search) && (entry = readdir(listing))) {
		if (strncmp(entry->d_name, digits + 2, 2 * BUILD_ID_PREFIX - 2) != 0)
			continue;
		any = true;
		sp_search_tryf(search, "build-ID folder", "%s/%s", path, entry->d_name);
	}
	if (listing)
		closedir(listing);
	if (!any)
		sp_search_trace(search, "build-ID folder: %s: nothing that begins with %s", path, digits + 2);
	free(path);
}

/* Looks into one folder laid out as xx/yyyy: with the whole ID, or with the part that a debug ID holds. */
static void try_build_id_folder(struct sp_search *search, const char *folder)
{
	char id[SPSYM_ID_MAX];
	if (search->build_id_size >= 2) {
		hex(search->build_id, search->build_id_size, id);
		sp_search_tryf(search, "build-ID folder", "%s/%.2s/%s.debug", folder, id, id + 2);
		sp_search_tryf(search, "build-ID folder", "%s/%.2s/%s", folder, id, id + 2);
		return;
	}
	uint8_t prefix[BUILD_ID_PREFIX], other[BUILD_ID_PREFIX];
	if (!build_id_prefix(search->identity->debug_id, false, prefix))
		return;
	try_prefix(search, folder, prefix);
	build_id_prefix(search->identity->debug_id, true, other);
	if (!sp_search_done(search) && memcmp(prefix, other, sizeof(prefix)) != 0)
		try_prefix(search, folder, other);
}

void sp_search_build_id(struct sp_search *search)
{
	const char *const *roots = search->options->debug_roots;
	for (size_t i = 0; roots && roots[i] && !sp_search_done(search); i++) {
		char *folder = sp_path_format("%s/.build-id", roots[i]);
		if (folder)
			try_build_id_folder(search, folder);
		else
			search->error = sp_error_no_memory();
		free(folder);
	}
	if (!search->found->binary && !sp_search_done(search))
		try_build_id_folder(search, "/usr/lib/.build-id"); /* Fedora: links to the binaries */
}

/* A file by one name in a folder: itself, and with the suffixes of separate debug files. */
static void try_names(struct sp_search *search, const char *place, const char *folder, const char *name)
{
	static const char *const suffixes[] = { "", ".debug", ".dbg" };
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		sp_search_tryf(search, place, "%s/%s%s", folder, name, suffixes[i]);
}

/* Breakpad's own files: "libc.so.6.sym"; "foo.sym" for "foo.pdb". */
static void try_sym(struct sp_search *search, const char *folder, const char *name)
{
	size_t length = strlen(name);
	if (length > 4 && !strcasecmp(name + length - 4, ".pdb"))
		length -= 4;
	sp_search_tryf(search, "symbol folder", "%s/%.*s.sym", folder, (int)length, name);
}

/* A symbol folder is flat, or shaped by build ID (itself or its .build-id), or as Breakpad's: name/ID/file. */
static void search_folder(struct sp_search *search, const char *folder)
{
	const char *names[] = { search->name, search->debug_name };
	for (size_t i = 0; i < 2; i++) {
		if (!names[i] || (i == 1 && names[0] && strcmp(names[0], names[1]) == 0))
			continue;
		try_names(search, "symbol folder", folder, names[i]);
		if (!sp_path_is_component(search->identity->debug_id) || sp_search_done(search))
			continue;
		char *by_id = sp_path_format("%s/%s/%s", folder, names[i], search->identity->debug_id);
		if (by_id) {
			try_names(search, "symbol folder", by_id, names[i]);
			try_sym(search, by_id, names[i]);
		} else
			search->error = sp_error_no_memory();
		free(by_id);
	}
	char *build_id = sp_search_done(search) ? NULL : sp_path_format("%s/.build-id", folder);
	if (build_id) {
		try_build_id_folder(search, build_id);
		try_build_id_folder(search, folder);
	}
	free(build_id);
}

static void search_kept(struct sp_search *search)
{
	char *path;
	if (!search->options->cache_folder || !sp_path_is_component(search->identity->debug_id) ||
	    sp_search_done(search))
		return;
	search->error = sp_kept_path(search->options->cache_folder, search->identity->debug_id, &path);
	if (search->error)
		return;
	sp_search_try(search, "kept file", path, SP_CHECK_ID, 0);
	free(path);
}

void sp_search_folders(struct sp_search *search)
{
	const char *const *folders = search->options->symbol_folders;
	for (size_t i = 0; folders && folders[i] && !sp_search_done(search); i++)
		search_folder(search, folders[i]);
	search_kept(search);
}

/* The running kernel's image with debug information, as distributions install it. */
static void search_kernel(struct sp_search *search)
{
#ifndef _WIN32
	struct utsname system;
	const char *name = search->identity->name;
	if (!name || (strncmp(name, "[kernel", 7) != 0 && strncmp(name, "vmlinux", 7) != 0) || uname(&system) != 0)
		return;
	const char *const *roots = search->options->debug_roots;
	for (size_t i = 0; roots && roots[i]; i++) {
		sp_search_tryf(search, "kernel image", "%s/boot/vmlinux-%s", roots[i], system.release);
		sp_search_tryf(search, "kernel image", "%s/lib/modules/%s/vmlinux", roots[i], system.release);
	}
	sp_search_tryf(search, "kernel image", "/boot/vmlinux-%s", system.release);
	sp_search_tryf(search, "kernel image", "/lib/modules/%s/build/vmlinux", system.release);
#else
	(void)search;
#endif
}

/* Under the debug roots, the binary's own path: with ".debug" (Fedora), as it is (kernel modules). Where /usr/bin and
 * /bin are one, either may be there. */
static void search_mirrored(struct sp_search *search, const char *path)
{
	const char *const *roots = search->options->debug_roots;
	bool in_usr = strncmp(path, "/usr/", 5) == 0;
	for (size_t i = 0; path[0] == '/' && roots && roots[i]; i++) {
		sp_search_tryf(search, "debug root", "%s%s.debug", roots[i], path);
		sp_search_tryf(search, "debug root", "%s%s", roots[i], path);
		if (in_usr) {
			sp_search_tryf(search, "debug root", "%s%s.debug", roots[i], path + 4);
			sp_search_tryf(search, "debug root", "%s%s", roots[i], path + 4);
		}
	}
}

void sp_search_beside(struct sp_search *search)
{
	const char *path = search->identity->path;
	if (path && path[0] && !sp_search_done(search)) {
		sp_search_tryf(search, "beside the binary", "%s.debug", path);
		sp_search_tryf(search, "beside the binary", "%s.dbg", path);
		char *folder = sp_path_folder(path);
		if (folder && search->debug_name && strcmp(sp_path_name(path), search->debug_name) != 0)
			sp_search_tryf(search, "beside the binary", "%s%s%s", folder, folder[0] ? "/" : "",
			               search->debug_name);
		free(folder);
		search_mirrored(search, path);
	}
	search_kernel(search);
}

/* The folder of a file with symbolic links resolved; malloc()ed, NULL when the file is gone. */
static char *real_folder(const char *path)
{
#ifdef _WIN32
	return sp_path_folder(path);
#else
	char *real = realpath(path, NULL);
	char *folder = real ? sp_path_folder(real) : NULL;
	free(real);
	return folder;
#endif
}

static void try_link(struct sp_search *search, const struct sp_debug_link *link, const char *format, ...)
    SP_PRINTF(3, 4);
static void try_link(struct sp_search *search, const struct sp_debug_link *link, const char *format, ...)
{
	char path[4096];
	va_list args;
	va_start(args, format);
	int length = vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	if (length > 0 && (size_t)length < sizeof(path))
		sp_search_try(search, "debug link", path, SP_CHECK_CRC, link->crc);
}

void sp_search_debug_link(struct sp_search *search)
{
	const struct sp_symbol_file *binary = search->found->binary;
	struct sp_debug_link link;
	if (sp_search_done(search) || !binary || !binary->object || !sp_object_debug_link(binary->object, &link))
		return;
	if (!sp_path_is_component(link.name)) {
		sp_search_trace(search, "debug link: not followed: %.200s is not a plain file name", link.name);
		return;
	}
	char *folder = real_folder(binary->path);
	if (!folder)
		return;
	try_link(search, &link, "%s/%s", folder, link.name);
	try_link(search, &link, "%s/.debug/%s", folder, link.name);
	const char *const *roots = search->options->debug_roots;
	for (size_t i = 0; folder[0] == '/' && roots && roots[i]; i++) {
		try_link(search, &link, "%s%s/%s", roots[i], folder, link.name);
		if (strncmp(folder, "/usr/", 5) == 0)
			try_link(search, &link, "%s%s/%s", roots[i], folder + 4, link.name);
	}
	free(folder);
}

/* The PDB that a PE file names: where its linker wrote it, and by that name beside the binary. */
void sp_search_pdb(struct sp_search *search)
{
	const struct sp_symbol_file *binary = search->found->binary;
	const char *path = binary && binary->object ? sp_object_pdb_path(binary->object) : NULL;
	if (!path || sp_search_done(search))
		return;
	const char *name = sp_path_name(path);
	if (sp_path_is_component(name)) {
		char *folder = sp_path_folder(binary->path);
		if (folder)
			sp_search_tryf(search, "beside the binary", "%s%s%s", folder, folder[0] ? "/" : "", name);
		else
			search->error = sp_error_no_memory();
		free(folder);
	}
	if (name != path && !binary->downloaded)
		sp_search_try(search, "PDB path of the binary", path, SP_CHECK_ID, 0);
}

/* One candidate for dwz's shared part; consumes `path`. */
static struct sp_error *try_supplementary(struct sp_search *search, char *path, const uint8_t *id, size_t size)
{
	struct sp_symbol_file *file;
	if (!path)
		return sp_error_no_memory();
	struct sp_error *error = sp_symbol_file_open_path(path, &file);
	if (error) {
		bool fatal = error->code == SP_ERROR_NO_MEMORY;
		sp_search_trace(search, "supplementary file: %s", error->message);
		free(path);
		if (fatal)
			return error;
		sp_error_destroy(error);
		return NULL;
	}
	bool right = file->object && sp_object_is_supplementary(file->object, id, size);
	sp_search_trace(search, "supplementary file: %s: %s", path, right ? "used" : "not used: of another build");
	free(path);
	if (right)
		search->found->supplementary = file;
	else
		sp_symbol_file_destroy(file);
	return NULL;
}

struct sp_error *sp_find_supplementary(struct sp_search *search)
{
	const struct sp_symbol_file *debug = search->found->debug;
	const char *path;
	const uint8_t *id;
	size_t size;
	if (!debug->object || !debug->info.has_debug_info ||
	    !sp_object_debug_alt_link(debug->object, &path, &id, &size))
		return NULL;
	struct sp_error *error = NULL;
	if (!search->options->no_local_paths && !debug->downloaded) {
		char *folder = path[0] == '/' ? NULL : real_folder(debug->path);
		if (path[0] == '/')
			error = try_supplementary(search, sp_path_format("%s", path), id, size);
		else if (folder)
			error = try_supplementary(search, sp_path_format("%s/%s", folder, path), id, size);
		free(folder);
	}
	char digits[SPSYM_ID_MAX];
	const char *const *roots = search->options->debug_roots;
	if (size < 2 || size >= sizeof(digits) / 2)
		return error;
	hex(id, size, digits);
	for (size_t i = 0; !error && !search->found->supplementary && roots && roots[i]; i++)
		error = try_supplementary(
		    search, sp_path_format("%s/.build-id/%.2s/%s.debug", roots[i], digits, digits + 2), id, size);
	if (error || search->found->supplementary || !search->options->debuginfod)
		return error;
	char *downloaded;
	error = sp_debuginfod_get(search->options->debuginfod, id, size, SP_DEBUGINFOD_DEBUGINFO, NULL, &downloaded);
	if (!error)
		return try_supplementary(search, downloaded, id, size);
	if (error->code == SP_ERROR_NO_MEMORY)
		return error;
	sp_search_trace(search, "supplementary file: %s", error->message);
	sp_error_destroy(error);
	return NULL;
}

/* Names in brackets ("[vdso]") are no files that a server could have. */
static bool is_file_name(const char *name)
{
	return !name || name[0] != '[';
}

void sp_search_debuginfod(struct sp_search *search)
{
	char *path;
	if (!search->options->debuginfod || sp_search_done(search) || !search->build_id_size ||
	    !is_file_name(search->identity->name))
		return;
	struct sp_error *error = sp_debuginfod_get(search->options->debuginfod, search->build_id, search->build_id_size,
	                                           SP_DEBUGINFOD_DEBUGINFO, NULL, &path);
	if (error) {
		if (error->code == SP_ERROR_NO_MEMORY) {
			search->error = error;
			return;
		}
		sp_search_trace(search, "%s", error->message);
		sp_error_destroy(error);
		return;
	}
	search->downloading = true;
	sp_search_try(search, "debuginfod", path, SP_CHECK_ID, 0);
	search->downloading = false;
	free(path);
}

/* For "x.debug" or ".debug/x", opened itself: the binary that it was split from. */
void sp_search_binary(struct sp_search *search)
{
	const char *path = search->found->debug->path;
	size_t length = strlen(path);
	char *folder = sp_path_folder(path);
	if (!folder) {
		search->error = sp_error_no_memory();
		return;
	}
	if (length > 6 && strcmp(path + length - 6, ".debug") == 0)
		sp_search_tryf(search, "beside the debug file", "%.*s", (int)length - 6, path);
	else if (length > 4 && strcmp(path + length - 4, ".dbg") == 0)
		sp_search_tryf(search, "beside the debug file", "%.*s", (int)length - 4, path);
	if (strcmp(sp_path_name(folder), ".debug") == 0)
		sp_search_tryf(search, "beside the debug file", "%.*s%s", (int)strlen(folder) - 6, folder,
		               sp_path_name(path));
	free(folder);
}
