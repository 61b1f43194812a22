/* The store: opening and repairing, look-ups, names. See store.h. */
#include "private.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STAGED_SECONDS (24 * 3600) /* parts of uploads are kept as long */

void store_step(const struct sp_store *store, const char *name)
{
	if (store->options.step)
		store->options.step(store->options.context, name);
}

int64_t store_now(void)
{
	return (int64_t)time(NULL);
}

void store_build_id(const struct spsym_file_info *info, char *ret)
{
	store_plain_id(info->kind == SPSYM_KIND_ELF ? info->code_id : "", ret);
}

void store_plain_id(const char *id, char *ret)
{
	size_t length = 0;
	for (; id[length] && length + 1 < SPSYM_ID_MAX; length++)
		ret[length] = (char)tolower((unsigned char)id[length]);
	ret[length] = 0;
}

const char *sp_store_kind_name(enum sp_store_kind kind)
{
	static const char *const names[] = { [SP_STORE_OBJECT] = "object",
		                             [SP_STORE_PDB] = "pdb",
		                             [SP_STORE_BREAKPAD] = "breakpad",
		                             [SP_STORE_SOURCE] = "source" };
	return names[kind];
}

/* ---- Names ---- */

bool sp_store_is_sha256(const char *text)
{
	return text && strlen(text) == SP_STORE_SHA_SIZE - 1 &&
	       strspn(text, "0123456789abcdef") == SP_STORE_SHA_SIZE - 1;
}

bool sp_store_is_namespace(const char *text)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/";
	if (!strcmp(text, "release"))
		return true;
	const char *name = !strncmp(text, "branch/", 7) ? text + 7 : !strncmp(text, "pr/", 3) ? text + 3 : "";
	size_t length = strlen(text);
	if (text[0] == 'p' && strchr(name, '/'))
		return false;
	return *name && *name != '/' && length < SP_STORE_NAME_SIZE && strspn(text, allowed) == length &&
	       text[length - 1] != '/' && !strstr(text, "//") && !strstr(text, "..");
}

bool sp_store_plain_path(const char *path, char *ret)
{
	size_t length = 0;
	if (path[0] != '/' || strlen(path) >= SP_STORE_PATH_SIZE)
		return false;
	while (*path) {
		path += strspn(path, "/");
		size_t part = strcspn(path, "/");
		if (part == 2 && !memcmp(path, "..", 2)) {
			while (length && ret[--length] != '/')
				;
		} else if (part && !(part == 1 && *path == '.')) {
			ret[length++] = '/';
			memcpy(ret + length, path, part);
			length += part;
		}
		path += part;
	}
	ret[length] = 0;
	return length;
}

/* ---- Opening ---- */

static struct sp_error *take_lock(struct sp_store *store)
{
	char *path;
	if (asprintf(&path, "%s/lock", store->folder) < 0)
		return sp_error_no_memory();
	store->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct sp_error *error = store->lock < 0 ? sp_error_from_errno(errno, "%s", path) : NULL;
	free(path);
	if (!error && flock(store->lock, LOCK_EX | LOCK_NB) != 0)
		error = sp_error_create(SP_ERROR_SYSTEM, "%s is served by another process already", store->folder);
	return error;
}

/* Whether a staged file was published: the process ended before its name was removed. */
static bool is_published(const struct sp_store *store, const char *name)
{
	char sha256[SP_STORE_SHA_SIZE];
	bool has = false;
	snprintf(sha256, sizeof(sha256), "%.64s", name);
	sp_error_destroy(store_index_has_blob(store->index, sha256, &has));
	return has;
}

static void drop_old_stages(const struct sp_store *store)
{
	DIR *dir = opendir(store->staging);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		struct stat st;
		if (entry->d_name[0] != '.' && fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    (st.st_mtime + STAGED_SECONDS < store_now() || is_published(store, entry->d_name)))
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
	if (dir)
		closedir(dir);
}

struct sweep {
	struct sp_store *store;
	struct sp_error *error;
	size_t removed;
};

static bool has_rows(void *context, const char *sha256)
{
	struct sweep *sweep = context;
	bool has = true;
	if (!sweep->error)
		sweep->error = store_index_has_blob(sweep->store->index, sha256, &has);
	sweep->removed += !has;
	return has || sweep->error;
}

/* Blobs that no row names were never acknowledged: the process ended before. */
static struct sp_error *repair(struct sp_store *store)
{
	size_t lost = 0;
	struct sweep sweep = { .store = store };
	drop_old_stages(store);
	struct sp_error *error = store_blobs_sweep(&store->blobs, has_rows, &sweep);
	if (!error)
		error = sweep.error;
	if (!error)
		error = store_index_sweep(store->index, &store->blobs, &lost);
	if (sweep.removed)
		sp_log(store->options.log, SP_LOG_INFO, "removed %zu files whose upload was never finished",
		       sweep.removed);
	if (lost)
		sp_log(store->options.log, SP_LOG_WARNING, "%zu files are gone from %s/blobs: forgotten", lost,
		       store->folder);
	return error;
}

static struct sp_error *open_store(struct sp_store *store)
{
	struct sp_error *error = store_need_hash();
	if (!error)
		error = sp_file_make_folders(store->folder);
	if (!error)
		error = sp_file_make_folders(store->staging);
	if (!error && !store->options.only_tokens)
		error = take_lock(store);
	if (!error)
		error = store_blobs_open(&store->blobs, &store->options);
	if (!error)
		error = store_index_open(store->folder, &store->index);
	if (!error)
		error = store_sync_folder(store->folder);
	if (!error && !store->options.only_tokens)
		error = repair(store);
	return error;
}

struct sp_error *sp_store_open(const struct sp_store_options *options, struct sp_store **ret)
{
	struct sp_store *store = calloc(1, sizeof(*store));
	if (!store)
		return sp_error_no_memory();
	store->options = *options;
	store->lock = -1;
	pthread_mutex_init(&store->stages_lock, NULL);
	store->folder = strdup(options->folder);
	struct sp_error *error = NULL;
	if (!store->folder || asprintf(&store->staging, "%s/staging", store->folder) < 0) {
		store->staging = NULL;
		error = sp_error_no_memory();
	}
	store->options.folder = store->folder;
	if (!error)
		error = open_store(store);
	if (error) {
		sp_store_close(store);
		return error;
	}
	*ret = store;
	return NULL;
}

void sp_store_close(struct sp_store *store)
{
	if (!store)
		return;
	store_index_close(store->index);
	store_blobs_close(&store->blobs);
	if (store->lock >= 0)
		close(store->lock);
	pthread_mutex_destroy(&store->stages_lock);
	free(store->staging);
	free(store->folder);
	free(store);
}

/* ---- Look-ups ---- */

struct sp_error *sp_store_find(struct sp_store *store, const struct sp_store_query *query,
                               struct sp_store_artifact *ret)
{
	if (!query->build_id && !query->debug_id && query->want != SP_STORE_CODE)
		return sp_error_create(SP_ERROR_USAGE, "a code ID leads to code only");
	char ids[3][SPSYM_ID_MAX];
	struct sp_store_query plain = *query;
	const char **fields[] = { &plain.build_id, &plain.debug_id, &plain.code_id };
	for (size_t i = 0; i < 3; i++) {
		if (!*fields[i])
			continue;
		store_plain_id(*fields[i], ids[i]);
		*fields[i] = ids[i];
	}
	return store_index_find(store->index, &plain, ret);
}

struct sp_error *sp_store_find_source(struct sp_store *store, const char *build_id, const char *path, const char *ns,
                                      struct sp_store_artifact *ret)
{
	char plain[SP_STORE_PATH_SIZE], id[SPSYM_ID_MAX];
	if (!sp_store_plain_path(path, plain))
		return sp_error_create(SP_ERROR_NOT_FOUND, "that is no path of a source");
	store_plain_id(build_id, id);
	return store_index_find_source(store->index, id, plain, ns, ret);
}

struct sp_error *sp_store_find_section(struct sp_store *store, const char *sha256, const char *name,
                                       uint64_t *ret_offset, uint64_t *ret_size)
{
	return store_index_find_section(store->index, sha256, name, ret_offset, ret_size);
}

struct sp_error *sp_store_open_blob(struct sp_store *store, const char *sha256, int *ret, uint64_t *ret_size)
{
	return store_blobs_open_blob(&store->blobs, sha256, ret, ret_size);
}

struct sp_error *sp_store_blob_path(struct sp_store *store, const char *sha256, char **ret)
{
	*ret = store_blobs_path(&store->blobs, sha256);
	return *ret ? NULL : sp_error_no_memory();
}

struct sp_error *sp_store_count(struct sp_store *store, struct sp_store_counts *ret)
{
	return store_index_count(store->index, ret);
}

struct sp_error *sp_store_check_space(struct sp_store *store)
{
	uint64_t space = 0;
	struct sp_error *error = store_blobs_free_space(&store->blobs, &space);
	if (!error && space < store->options.disk_floor)
		error = sp_error_create(SP_ERROR_LIMIT, "the disk is full: %llu MiB are left and %llu are kept free",
		                        (unsigned long long)space >> 20,
		                        (unsigned long long)store->options.disk_floor >> 20);
	return error;
}

struct sp_error *sp_store_is_ready(struct sp_store *store)
{
	struct sp_error *error = sp_store_check_space(store);
	return error ? error : store_index_touch(store->index);
}
