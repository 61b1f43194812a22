/* Uploads: bytes come into staging/SHA256-TOKEN and are published from there.
 *
 * The order is what makes an acknowledged upload last, whatever ends the process: the bytes are synced, hashed and
 * parsed; the blob gets its name; the folder is synced; the rows are committed; only then the staged name goes. Up to
 * the commit nothing of it can be found, and a crash leaves a staged file that the next try takes up, and at worst a
 * blob without rows, which is removed when the store is opened. */
#include "private.h"

#include "common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SILENCE_NS ((uint64_t)5000000000)

struct sp_stage {
	struct sp_stage *next; /* all open ones */
	struct sp_store *store;
	char sha256[SP_STORE_SHA_SIZE];
	char *path; /* owned; tells one upload from another */
	int fd;
	uint64_t size;
	uint64_t last_write; /* sp_clock_now() */
	atomic_bool lost;    /* another one took over; what this one still does counts for nothing */
	bool publishing;     /* under the lock of the list */
};

static char *stage_path(const struct sp_store *store, const char *token, const char *sha256)
{
	char *path;
	if (!sp_store_is_sha256(sha256) || !*token ||
	    strspn(token, "abcdefghijklmnopqrstuvwxyz0123456789") != strlen(token))
		return NULL;
	return asprintf(&path, "%s/%s-%s", store->staging, sha256, token) < 0 ? NULL : path;
}

/* One writer an upload; one that has been silent for a while loses it to the next. Should both write for a moment, the
 * hash tells. */
static bool enter(struct sp_stage *stage)
{
	struct sp_store *store = stage->store;
	bool free_now = true;
	stage->last_write = sp_clock_now();
	pthread_mutex_lock(&store->stages_lock);
	for (struct sp_stage *other = store->stages; other && free_now; other = other->next) {
		if (atomic_load(&other->lost) || strcmp(other->path, stage->path) != 0)
			continue;
		free_now = !other->publishing && stage->last_write - other->last_write > SILENCE_NS;
		if (free_now)
			atomic_store(&other->lost, true);
	}
	if (free_now) {
		stage->next = store->stages;
		store->stages = stage;
	}
	pthread_mutex_unlock(&store->stages_lock);
	return free_now;
}

static void leave(struct sp_stage *stage)
{
	struct sp_store *store = stage->store;
	pthread_mutex_lock(&store->stages_lock);
	for (struct sp_stage **at = &store->stages; *at; at = &(*at)->next) {
		if (*at == stage) {
			*at = stage->next;
			break;
		}
	}
	pthread_mutex_unlock(&store->stages_lock);
}

static struct sp_error *open_staged(struct sp_stage *stage)
{
	struct stat st;
	stage->fd = open(stage->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (stage->fd < 0 || fstat(stage->fd, &st) != 0)
		return sp_error_from_errno(errno, "%s", stage->path);
	stage->size = (uint64_t)st.st_size;
	return NULL;
}

struct sp_error *sp_stage_open(struct sp_store *store, const char *token, const char *sha256, struct sp_stage **ret,
                               uint64_t *ret_offset)
{
	struct sp_stage *stage = calloc(1, sizeof(*stage));
	if (!stage)
		return sp_error_no_memory();
	stage->store = store;
	stage->fd = -1;
	stage->path = stage_path(store, token, sha256);
	if (!stage->path) {
		free(stage);
		return sp_error_create(SP_ERROR_USAGE, "that is no SHA-256");
	}
	memcpy(stage->sha256, sha256, sizeof(stage->sha256));
	if (!enter(stage)) {
		free(stage->path);
		free(stage);
		return sp_error_create(SP_ERROR_PERMISSION, "the same file is being sent right now");
	}
	struct sp_error *error = open_staged(stage);
	if (error) {
		sp_stage_close(stage);
		return error;
	}
	*ret = stage;
	*ret_offset = stage->size;
	return NULL;
}

uint64_t sp_store_staged(struct sp_store *store, const char *token, const char *sha256)
{
	struct stat st;
	char *path = stage_path(store, token, sha256);
	uint64_t size = path && stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
	free(path);
	return size;
}

void sp_stage_close(struct sp_stage *stage)
{
	leave(stage);
	if (stage->fd >= 0)
		close(stage->fd);
	free(stage->path);
	free(stage);
}

static struct sp_error *lost_error(void)
{
	return sp_error_create(SP_ERROR_PERMISSION, "another one went on with this upload");
}

struct sp_error *sp_stage_restart(struct sp_stage *stage)
{
	if (ftruncate(stage->fd, 0) != 0)
		return sp_error_from_errno(errno, "%s", stage->path);
	stage->size = 0;
	return NULL;
}

struct sp_error *sp_stage_write(struct sp_stage *stage, const void *bytes, size_t size)
{
	const char *at = bytes;
	pthread_mutex_lock(&stage->store->stages_lock);
	stage->last_write = sp_clock_now();
	pthread_mutex_unlock(&stage->store->stages_lock);
	if (atomic_load(&stage->lost))
		return lost_error();
	while (size) {
		ssize_t n = pwrite(stage->fd, at, size, (off_t)stage->size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return sp_error_from_errno(n < 0 ? errno : ENOSPC, "%s", stage->path);
		at += n;
		size -= (size_t)n;
		stage->size += (uint64_t)n;
	}
	return NULL;
}

bool sp_stage_is_lost(const struct sp_stage *stage)
{
	return atomic_load(&stage->lost);
}

uint64_t sp_stage_size(const struct sp_stage *stage)
{
	return stage->size;
}

/* ---- Publishing ---- */

static struct sp_error *check_claim(const struct sp_store_claim *claim)
{
	if (!sp_store_is_sha256(claim->sha256))
		return sp_error_create(SP_ERROR_FORMAT, "that is no SHA-256");
	if (!sp_store_is_namespace(claim->ns))
		return sp_error_create(SP_ERROR_FORMAT, "\"%s\" is no namespace: release, branch/NAME or pr/NAME",
		                       claim->ns);
	if (!*claim->name || strlen(claim->name) >= (claim->build_id ? SP_STORE_PATH_SIZE : SP_STORE_NAME_SIZE))
		return sp_error_create(SP_ERROR_FORMAT, "the file name is empty or too long");
	if (claim->build_id &&
	    (claim->name[0] != '/' || strlen(claim->build_id) < 16 || strlen(claim->build_id) >= SPSYM_ID_MAX ||
	     strspn(claim->build_id, "0123456789abcdef") != strlen(claim->build_id)))
		return sp_error_create(SP_ERROR_FORMAT, "a source has an absolute path and the build ID of its binary");
	return NULL;
}

static struct sp_error *check_kind(const struct sp_store_claim *claim, enum sp_store_kind kind)
{
	if (!claim->kinds || claim->kinds & 1u << kind)
		return NULL;
	return sp_error_create(SP_ERROR_PERMISSION, "%s is a file of the kind %s, which the token does not allow",
	                       claim->name, sp_store_kind_name(kind));
}

static void fill(const struct sp_store_claim *claim, struct sp_store_artifact *ret)
{
	memcpy(ret->sha256, claim->sha256, sizeof(ret->sha256));
	snprintf(ret->name, sizeof(ret->name), "%s", claim->name);
	snprintf(ret->ns, sizeof(ret->ns), "%s", claim->ns);
	snprintf(ret->token, sizeof(ret->token), "%s", claim->token);
	snprintf(ret->ref, sizeof(ret->ref), "%s", claim->ref ? claim->ref : "");
	ret->uploaded = store_now();
}

/* Hashes what arrived and says what it is. */
static struct sp_error *look(struct sp_stage *stage, const struct sp_store_claim *claim, struct store_facts *ret)
{
	struct sp_file_map map;
	char sha256[SP_STORE_SHA_SIZE];
	memset(ret, 0, sizeof(*ret));
	struct sp_error *error = sp_file_map_fd(stage->fd, claim->name, &map);
	if (error)
		return error;
	store_sha256(map.bytes, map.size, sha256);
	if (strcmp(sha256, claim->sha256) != 0 || strcmp(sha256, stage->sha256) != 0)
		error = sp_error_create(SP_ERROR_FORMAT, "%s: the bytes that arrived have the SHA-256 %s", claim->name,
		                        sha256);
	else if (claim->build_id)
		ret->kind = SP_STORE_SOURCE;
	else
		error = store_derive(map.bytes, map.size, claim->name, ret);
	sp_file_unmap(&map);
	return error;
}

static bool is_hopeless(const struct sp_error *error)
{
	return error->code == SP_ERROR_FORMAT || error->code == SP_ERROR_UNSUPPORTED || error->code == SP_ERROR_LIMIT;
}

static struct sp_error *publish(struct sp_stage *stage, const struct sp_store_claim *claim,
                                const struct store_facts *facts, struct sp_store_artifact *ret, bool *ret_new)
{
	struct sp_store *store = stage->store;
	char build_id[SPSYM_ID_MAX];
	memset(ret, 0, sizeof(*ret));
	fill(claim, ret);
	ret->size = stage->size;
	ret->kind = facts->kind;
	ret->info = facts->info;
	memcpy(ret->pdb_name, facts->pdb_name, sizeof(ret->pdb_name));
	store_build_id(&ret->info, build_id);
	struct sp_error *error = store_blobs_put(&store->blobs, claim->sha256, stage->path);
	store_step(store, "commit");
	if (!error)
		error = store_index_put(store->index, ret, claim->build_id ? claim->build_id : build_id, facts,
		                        ret_new);
	store_step(store, "unstage");
	return error;
}

struct sp_error *sp_stage_publish(struct sp_stage *stage, const struct sp_store_claim *claim,
                                  struct sp_store_artifact *ret, bool *ret_new)
{
	struct store_facts facts = { 0 };
	store_step(stage->store, "sync file");
	pthread_mutex_lock(&stage->store->stages_lock);
	bool lost = atomic_load(&stage->lost);
	stage->publishing = !lost;
	pthread_mutex_unlock(&stage->store->stages_lock);
	if (lost)
		return lost_error();
	struct sp_error *error = check_claim(claim);
	if (!error && fsync(stage->fd) != 0)
		error = sp_error_from_errno(errno, "%s", stage->path);
	store_step(stage->store, "look");
	if (!error)
		error = look(stage, claim, &facts);
	if (error && !is_hopeless(error))
		return error;
	if (!error)
		error = check_kind(claim, facts.kind);
	if (!error)
		error = publish(stage, claim, &facts, ret, ret_new);
	store_facts_deinit(&facts);
	if (!error || is_hopeless(error) || error->code == SP_ERROR_PERMISSION)
		unlink(stage->path);
	store_step(stage->store, "done");
	return error;
}

/* ---- What is there already ---- */

struct sp_error *sp_store_has(struct sp_store *store, const struct sp_store_claim *claim, bool *ret)
{
	struct sp_error *error = check_claim(claim);
	return error ? error : store_index_has(store->index, claim, ret);
}

struct sp_error *sp_store_adopt(struct sp_store *store, const struct sp_store_claim *claim, bool *ret_done)
{
	struct sp_store_artifact artifact;
	char build_id[SPSYM_ID_MAX];
	bool is_new;
	*ret_done = false;
	struct sp_error *error = check_claim(claim);
	if (!error)
		error = store_index_any(store->index, claim->sha256, claim->build_id, &artifact);
	if (error && error->code == SP_ERROR_NOT_FOUND) {
		sp_error_destroy(error);
		return NULL;
	}
	if (!error)
		error = check_kind(claim, artifact.kind);
	if (error)
		return error;
	fill(claim, &artifact);
	store_build_id(&artifact.info, build_id);
	error = store_index_put(store->index, &artifact, claim->build_id ? claim->build_id : build_id, NULL, &is_new);
	*ret_done = !error;
	return error;
}
