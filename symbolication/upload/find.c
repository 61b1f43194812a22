/* Which files are worth sending; see upload.h. */
#include "upload.h"

#include "common/file.h"
#include "symbolication/store/hash.h"
#include "symbolication/store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_DEPTH 64            /* of folders */
#define SOURCE_LIMIT (32u << 20) /* bytes */

struct finder {
	spsym_context *symbols;
	bool sources;
	sp_upload_files *files;
	struct sp_error *error; /* no memory */
};

static void free_file(struct sp_upload_file *file)
{
	free(file->path);
	free(file->build_id);
	free(file->reason);
}

void sp_upload_files_deinit(sp_upload_files *files)
{
	for (size_t i = 0; i < files->count; i++)
		free_file(&files->items[i]);
	sp_vector_deinit(files);
}

static struct sp_upload_file *add(struct finder *f, const char *path)
{
	struct sp_upload_file file = { .path = strdup(path) };
	if (!file.path || !sp_vector_push(f->files, file)) {
		free(file.path);
		if (!f->error)
			f->error = sp_error_no_memory();
		return NULL;
	}
	return &f->files->items[f->files->count - 1];
}

/* Frees the error. */
static void give_up(struct sp_upload_file *file, enum sp_upload_result result, struct sp_error *error)
{
	file->result = result;
	file->reason = strdup(error->message);
	sp_error_destroy(error);
}

static struct sp_error *hash_file(struct sp_upload_file *file)
{
	struct sp_file_map map;
	struct sp_error *error = sp_file_map_path(file->path, &map);
	if (error)
		return error;
	store_sha256(map.bytes, map.size, file->sha256);
	file->size = map.size;
	sp_file_unmap(&map);
	return NULL;
}

/* ---- Sources ---- */

struct source_finder {
	struct finder *finder;
	const char *build_id;
};

static bool is_source(const char *path)
{
	struct stat st;
	return strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/sys/", 5) != 0 && strncmp(path, "/dev/", 5) != 0 &&
	       stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 && st.st_size <= SOURCE_LIMIT;
}

static bool add_source(void *context, const char *path)
{
	struct source_finder *s = context;
	char plain[SP_STORE_PATH_SIZE];
	if (!sp_store_plain_path(path, plain) || !is_source(plain))
		return true;
	struct sp_upload_file *file = add(s->finder, plain);
	if (!file)
		return false;
	struct sp_error *error = hash_file(file);
	if (error)
		give_up(file, SP_UPLOAD_LEFT_OUT, error);
	file->build_id = strdup(s->build_id);
	return file->build_id;
}

static void find_sources(struct finder *f, const char *path, const char *build_id)
{
	struct source_finder s = { f, build_id };
	spsym_module *module;
	struct sp_error *error = spsym_module_open_path(f->symbols, path, &module);
	if (!error) {
		error = spsym_module_sources(module, add_source, &s);
		spsym_module_release(module);
	}
	/* The file itself is sent all the same. */
	sp_error_destroy(error);
}

/* ---- Object files ---- */

static bool looks_right(const uint8_t *head, size_t size)
{
	static const struct {
		const char *magic;
		size_t size;
	} kinds[] = {
		{ "\177ELF", 4 }, { "MZ", 2 }, { "Microsoft C/C++ MSF 7.00", 24 }, { "BSJB", 4 }, { "MODULE ", 7 }
	};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (size >= kinds[i].size && !memcmp(head, kinds[i].magic, kinds[i].size))
			return true;
	}
	return false;
}

static struct sp_error *check_use(const struct spsym_file_info *info)
{
	if (info->kind == SPSYM_KIND_ELF && !*info->code_id)
		return sp_error_create(SP_ERROR_UNSUPPORTED,
		                       "it has no build ID, nothing could find it: link with -Wl,--build-id");
	if (!*info->debug_id && !*info->code_id)
		return sp_error_create(SP_ERROR_UNSUPPORTED, "it has no debug ID, nothing could find it");
	if (!info->has_symbols && !info->has_debug_info && !info->has_code)
		return sp_error_create(SP_ERROR_UNSUPPORTED, "it has neither code nor symbols");
	return NULL;
}

static bool is_known(const struct finder *f, const char *sha256)
{
	for (size_t i = 0; i + 1 < f->files->count; i++) {
		if (!f->files->items[i].build_id && !strcmp(f->files->items[i].sha256, sha256))
			return true;
	}
	return false;
}

static void find_file(struct finder *f, const char *path, bool named)
{
	uint8_t head[32];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t got = fd < 0 ? -1 : pread(fd, head, sizeof(head), 0);
	if (fd >= 0)
		close(fd);
	if (!named && (got < 0 || !looks_right(head, (size_t)got)))
		return;
	struct sp_upload_file *file = add(f, path);
	if (!file)
		return;
	struct sp_error *error = spsym_identify_path(path, &file->info);
	if (!error)
		error = check_use(&file->info);
	if (!error)
		error = hash_file(file);
	if (error) {
		give_up(file, named ? SP_UPLOAD_REFUSED : SP_UPLOAD_LEFT_OUT, error);
		return;
	}
	if (is_known(f, file->sha256)) {
		free_file(file);
		f->files->count--;
	} else if (f->sources && file->info.kind == SPSYM_KIND_ELF && file->info.has_debug_info) {
		char build_id[SPSYM_ID_MAX];
		memcpy(build_id, file->info.code_id, sizeof(build_id));
		find_sources(f, path, build_id); /* `file` may move */
	}
}

static void find_in_folder(struct finder *f, const char *folder, unsigned depth)
{
	struct dirent **entries;
	int count = depth < MOST_DEPTH ? scandir(folder, &entries, NULL, alphasort) : -1;
	for (int i = 0; i < count; i++) {
		struct stat st;
		const char *name = entries[i]->d_name;
		char *path = NULL;
		if (!f->error && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
		    asprintf(&path, "%s/%s", folder, name) >= 0) {
			/* Links are left alone: what they lead to has a name of its own. */
			if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
				find_in_folder(f, path, depth + 1);
			else if (S_ISREG(st.st_mode))
				find_file(f, path, false);
			free(path);
		}
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

struct sp_error *sp_upload_find(spsym_context *symbols, const char *const *paths, bool sources, sp_upload_files *ret)
{
	struct finder f = { .symbols = symbols, .sources = sources, .files = ret };
	struct sp_error *error = store_need_hash();
	if (error)
		return error;
	for (; *paths && !f.error; paths++) {
		struct stat st;
		if (stat(*paths, &st) != 0)
			return sp_error_from_errno(errno, "%s", *paths);
		if (S_ISDIR(st.st_mode))
			find_in_folder(&f, *paths, 0);
		else
			find_file(&f, *paths, true);
	}
	return f.error;
}
