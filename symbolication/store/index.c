/* Rows in SQLite; see private.h.
 *
 * Two connections, each with its lock and its prepared statements: one writes (WAL, synchronous FULL: a commit is on
 * disk when it returns), one reads and never waits for it. All of it can be made anew from the blobs but the
 * namespaces, names, tokens and sources' paths, which only the uploaders knew. */
#include "private.h"
#include "sqlite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCHEMA_VERSION 1
#define BUSY_MS 10000

static const char schema[] =
    "CREATE TABLE blob(sha TEXT NOT NULL, size INTEGER NOT NULL, kind INTEGER NOT NULL, format INTEGER NOT NULL,"
    " arch TEXT NOT NULL, debug_id TEXT NOT NULL, code_id TEXT NOT NULL, base INTEGER NOT NULL, symbols INTEGER NOT "
    "NULL,"
    " debug INTEGER NOT NULL, code INTEGER NOT NULL, pdb_name TEXT NOT NULL, PRIMARY KEY(sha, kind)) WITHOUT ROWID;"
    /* The same bytes may be a source and something else: a row each. build_id: of ELF files, or of the files that a
       source belongs to. */
    "CREATE TABLE artifact(id INTEGER PRIMARY KEY, sha TEXT NOT NULL, kind INTEGER NOT NULL, build_id TEXT NOT NULL, "
    "debug_id TEXT NOT NULL,"
    " code_id TEXT NOT NULL, name TEXT NOT NULL, ns TEXT NOT NULL, rank INTEGER NOT NULL, token TEXT NOT NULL,"
    " ref TEXT NOT NULL, uploaded INTEGER NOT NULL, UNIQUE(sha, kind, ns, build_id, name));"
    "CREATE INDEX artifact_build ON artifact(build_id) WHERE build_id <> '';"
    "CREATE INDEX artifact_debug ON artifact(debug_id) WHERE debug_id <> '';"
    "CREATE INDEX artifact_code ON artifact(code_id) WHERE code_id <> '';"
    "CREATE TABLE section(sha TEXT NOT NULL, name TEXT NOT NULL, offset INTEGER NOT NULL, size INTEGER NOT NULL,"
    " PRIMARY KEY(sha, name)) WITHOUT ROWID;"
    "CREATE TABLE token(id TEXT PRIMARY KEY, sha TEXT NOT NULL, label TEXT NOT NULL, ns TEXT NOT NULL, ref TEXT NOT "
    "NULL,"
    " kinds INTEGER NOT NULL, size_limit INTEGER NOT NULL, can_read INTEGER NOT NULL, created INTEGER NOT NULL,"
    " expires INTEGER NOT NULL, revoked INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE touched(id INTEGER PRIMARY KEY, at INTEGER NOT NULL);"
    "PRAGMA user_version = 1;";

#define COLUMNS                                                                                                  \
	"b.sha, b.size, b.kind, b.format, b.arch, b.debug_id, b.code_id, b.base, b.symbols, b.debug, b.code, "   \
	"b.pdb_name, a.name, a.ns, a.token, a.ref, a.uploaded FROM artifact a JOIN blob b ON b.sha = a.sha AND " \
	"b.kind = a.kind "

/* Kinds and namespaces that a reader sees; the best first. */
#define VISIBLE " AND (a.rank < 2 OR a.ns = ?2) "
#define BY_QUALITY " ORDER BY b.debug DESC, b.symbols DESC, a.rank, a.uploaded DESC LIMIT 1"
#define WANT_DEBUG " AND b.kind < 2 AND (b.debug OR b.symbols) "
#define WANT_CODE " AND b.kind = 0 AND b.code "
#define WANT_BREAKPAD " AND b.kind = 2 "
#define WANT_NAMES " AND b.kind < 3 "

enum statement {
	BEGIN,
	COMMIT,
	ROLLBACK,
	PUT_BLOB,
	PUT_ARTIFACT,
	PUT_SECTION,
	HAS_ARTIFACT,
	HAS_BLOB,
	ANY,
	FIND_BUILD,
	FIND_DEBUG = FIND_BUILD + 4,
	FIND_CODE = FIND_DEBUG + 4,
	FIND_SOURCE = FIND_CODE + 4,
	FIND_SECTION,
	ALL_BLOBS,
	DROP_ARTIFACTS,
	DROP_SECTIONS,
	DROP_BLOB,
	COUNT,
	TOUCH,
	PUT_TOKEN,
	GET_TOKEN,
	REVOKE_TOKEN,
	ALL_TOKENS,
	STATEMENTS
};

#define FINDS(at, condition)                                                                                    \
	[(at) + SP_STORE_DEBUG] = "SELECT " COLUMNS condition WANT_DEBUG VISIBLE BY_QUALITY,                    \
	        [(at) + SP_STORE_CODE] = "SELECT " COLUMNS condition WANT_CODE VISIBLE BY_QUALITY,              \
	        [(at) + SP_STORE_BREAKPAD_TEXT] = "SELECT " COLUMNS condition WANT_BREAKPAD VISIBLE BY_QUALITY, \
	        [(at) + SP_STORE_NAMES] = "SELECT " COLUMNS condition WANT_NAMES VISIBLE BY_QUALITY

/* clang-format off */
static const char *const texts[STATEMENTS] = {
	[BEGIN] = "BEGIN IMMEDIATE",
	[COMMIT] = "COMMIT",
	[ROLLBACK] = "ROLLBACK",
	[PUT_BLOB] = "INSERT OR IGNORE INTO blob VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)",
	[PUT_ARTIFACT] = "INSERT OR IGNORE INTO artifact(sha, build_id, debug_id, code_id, name, ns, rank, token, ref, uploaded, kind)"
	                 " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11)",
	[PUT_SECTION] = "INSERT OR IGNORE INTO section VALUES(?1,?2,?3,?4)",
	[HAS_ARTIFACT] = "SELECT 1 FROM artifact WHERE sha = ?1 AND ns = ?2 AND name = ?3"
	                 " AND (kind = 3) = (?4 <> '') AND (?4 = '' OR build_id = ?4)",
	[HAS_BLOB] = "SELECT 1 FROM blob WHERE sha = ?1",
	[ANY] = "SELECT " COLUMNS "WHERE a.sha = ?1 AND (a.kind = 3) = (?2 = 'source') LIMIT 1",
	FINDS(FIND_BUILD, "WHERE a.build_id = ?1 AND a.build_id <> ''"),
	FINDS(FIND_DEBUG, "WHERE a.debug_id = ?1 AND a.debug_id <> ''"),
	[FIND_CODE + SP_STORE_CODE] = "SELECT " COLUMNS "WHERE a.code_id = ?1 AND a.code_id <> ''" WANT_CODE VISIBLE
	                              " ORDER BY lower(a.name) = ?3 DESC, a.rank, a.uploaded DESC LIMIT 1",
	[FIND_SOURCE] = "SELECT " COLUMNS "WHERE a.build_id = ?1 AND a.build_id <> '' AND a.name = ?3 AND b.kind = 3" VISIBLE
	                "ORDER BY a.rank, a.uploaded DESC LIMIT 1",
	[FIND_SECTION] = "SELECT offset, size FROM section WHERE sha = ?1 AND name = ?2",
	[ALL_BLOBS] = "SELECT DISTINCT sha FROM blob",
	[DROP_ARTIFACTS] = "DELETE FROM artifact WHERE sha = ?1",
	[DROP_SECTIONS] = "DELETE FROM section WHERE sha = ?1",
	[DROP_BLOB] = "DELETE FROM blob WHERE sha = ?1",
	[COUNT] = "SELECT (SELECT count(*) FROM artifact), count(DISTINCT sha), total(size) FROM blob",
	[TOUCH] = "INSERT OR REPLACE INTO touched VALUES(1, ?1)",
	[PUT_TOKEN] = "INSERT INTO token VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,0)",
	[GET_TOKEN] = "SELECT id, sha, label, ns, ref, kinds, size_limit, can_read, created, expires, revoked FROM token WHERE id = ?1",
	[REVOKE_TOKEN] = "UPDATE token SET revoked = 1 WHERE id = ?1",
	[ALL_TOKENS] = "SELECT id, sha, label, ns, ref, kinds, size_limit, can_read, created, expires, revoked FROM token ORDER BY created, id",
};
/* clang-format on */

struct connection {
	sqlite3 *db;
	pthread_mutex_t lock;
	sqlite3_stmt *statements[STATEMENTS]; /* made on first use */
};

struct store_index {
	struct connection writer, reader;
};

/* ---- Statements ---- */

static struct sp_error *db_error(struct connection *c, const char *what)
{
	return sp_error_create(SP_ERROR_SYSTEM, "the index: %s: %s", what, sqlite3_errmsg(c->db));
}

/* A statement ready for its values; under the connection's lock. */
static struct sp_error *prepare(struct connection *c, enum statement number, sqlite3_stmt **ret)
{
	sqlite3_stmt **statement = &c->statements[number];
	if (!*statement && sqlite3_prepare_v3(c->db, texts[number], -1, 1 /* kept */, statement, NULL) != SQLITE_OK)
		return db_error(c, "cannot prepare");
	*ret = *statement;
	return NULL;
}

static void bind(sqlite3_stmt *s, int at, const char *text)
{
	sqlite3_bind_text(s, at, text ? text : "", -1, NULL);
}

static void done(sqlite3_stmt *s)
{
	sqlite3_reset(s);
	sqlite3_clear_bindings(s);
}

/* Runs a statement without rows. */
static struct sp_error *run(struct connection *c, sqlite3_stmt *s)
{
	int code = sqlite3_step(s);
	struct sp_error *error = code == SQLITE_DONE || code == SQLITE_ROW ? NULL : db_error(c, "cannot write");
	done(s);
	return error;
}

static struct sp_error *run_plain(struct connection *c, enum statement number)
{
	sqlite3_stmt *s;
	struct sp_error *error = prepare(c, number, &s);
	return error ? error : run(c, s);
}

/* ---- Opening ---- */

static struct sp_error *open_connection(struct connection *c, const char *path, bool writer)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (writer ? SQLITE_OPEN_CREATE : 0);
	pthread_mutex_init(&c->lock, NULL);
	if (sqlite3_open_v2(path, &c->db, flags, NULL) != SQLITE_OK)
		return sp_error_create(SP_ERROR_SYSTEM, "%s: %s", path, c->db ? sqlite3_errmsg(c->db) : "no memory");
	sqlite3_busy_timeout(c->db, BUSY_MS);
	if (sqlite3_exec(c->db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA trusted_schema=OFF;", NULL,
	                 NULL, NULL) != SQLITE_OK)
		return db_error(c, path);
	return NULL;
}

static struct sp_error *read_version(struct connection *c, int64_t *ret)
{
	sqlite3_stmt *s;
	if (sqlite3_prepare_v3(c->db, "PRAGMA user_version", -1, 0, &s, NULL) != SQLITE_OK)
		return db_error(c, "cannot read its version");
	struct sp_error *error = sqlite3_step(s) == SQLITE_ROW ? NULL : db_error(c, "cannot read its version");
	*ret = error ? 0 : sqlite3_column_int64(s, 0);
	sqlite3_finalize(s);
	return error;
}

static struct sp_error *make_tables(struct connection *c)
{
	int64_t version = 0;
	struct sp_error *error = run_plain(c, BEGIN);
	if (!error)
		error = read_version(c, &version);
	if (!error && version > SCHEMA_VERSION)
		error = sp_error_create(SP_ERROR_UNSUPPORTED, "the store was made by a newer version of sp");
	if (!error && !version && sqlite3_exec(c->db, schema, NULL, NULL, NULL) != SQLITE_OK)
		error = db_error(c, "cannot make its tables");
	if (error) {
		sp_error_destroy(run_plain(c, ROLLBACK));
		return error;
	}
	return run_plain(c, COMMIT);
}

struct sp_error *store_index_open(const char *folder, struct store_index **ret)
{
	char *path;
	struct sp_error *error = store_need_sqlite();
	if (error)
		return error;
	struct store_index *index = calloc(1, sizeof(*index));
	if (!index || asprintf(&path, "%s/index.db", folder) < 0) {
		free(index);
		return sp_error_no_memory();
	}
	error = open_connection(&index->writer, path, true);
	if (!error)
		error = make_tables(&index->writer);
	if (!error)
		error = open_connection(&index->reader, path, false);
	free(path);
	if (error) {
		store_index_close(index);
		return error;
	}
	*ret = index;
	return NULL;
}

static void close_connection(struct connection *c)
{
	if (!c->db)
		return;
	for (unsigned i = 0; i < STATEMENTS; i++)
		sqlite3_finalize(c->statements[i]);
	sqlite3_close(c->db);
	pthread_mutex_destroy(&c->lock);
}

void store_index_close(struct store_index *index)
{
	if (!index)
		return;
	close_connection(&index->reader);
	close_connection(&index->writer);
	free(index);
}

/* ---- Writing ---- */

/* Ends a transaction as the error says. */
static struct sp_error *end(struct connection *c, struct sp_error *error)
{
	if (!error)
		error = run_plain(c, COMMIT);
	if (error)
		sp_error_destroy(run_plain(c, ROLLBACK));
	return error;
}

static struct sp_error *put_blob(struct connection *c, const struct sp_store_artifact *a)
{
	sqlite3_stmt *s;
	struct sp_error *error = prepare(c, PUT_BLOB, &s);
	if (error)
		return error;
	bind(s, 1, a->sha256);
	sqlite3_bind_int64(s, 2, (int64_t)a->size);
	sqlite3_bind_int64(s, 3, a->kind);
	sqlite3_bind_int64(s, 4, a->info.kind);
	bind(s, 5, a->info.arch);
	bind(s, 6, a->info.debug_id);
	bind(s, 7, a->info.code_id);
	sqlite3_bind_int64(s, 8, (int64_t)a->info.base);
	sqlite3_bind_int64(s, 9, a->info.has_symbols);
	sqlite3_bind_int64(s, 10, a->info.has_debug_info);
	sqlite3_bind_int64(s, 11, a->info.has_code);
	bind(s, 12, a->pdb_name);
	return run(c, s);
}

static int rank_of(const char *ns)
{
	return !strcmp(ns, "release") ? 0 : !strncmp(ns, "pr/", 3) ? 2 : 1;
}

static struct sp_error *put_artifact(struct connection *c, const struct sp_store_artifact *a, const char *build_id,
                                     bool *ret_new)
{
	char debug_id[SPSYM_ID_MAX], code_id[SPSYM_ID_MAX];
	store_plain_id(a->info.debug_id, debug_id);
	store_plain_id(a->info.code_id, code_id);
	sqlite3_stmt *s;
	struct sp_error *error = prepare(c, PUT_ARTIFACT, &s);
	if (error)
		return error;
	bind(s, 1, a->sha256);
	bind(s, 2, build_id);
	bind(s, 3, debug_id);
	bind(s, 4, code_id);
	bind(s, 5, a->name);
	bind(s, 6, a->ns);
	sqlite3_bind_int64(s, 7, rank_of(a->ns));
	bind(s, 8, a->token);
	bind(s, 9, a->ref);
	sqlite3_bind_int64(s, 10, a->uploaded);
	sqlite3_bind_int64(s, 11, a->kind);
	error = run(c, s);
	*ret_new = !error && sqlite3_changes(c->db) > 0;
	return error;
}

static struct sp_error *put_sections(struct connection *c, const char *sha256, const struct store_facts *facts)
{
	struct sp_error *error = NULL;
	sqlite3_stmt *s;
	for (size_t i = 0; facts && i < facts->section_count && !error; i++) {
		error = prepare(c, PUT_SECTION, &s);
		if (error)
			break;
		bind(s, 1, sha256);
		bind(s, 2, facts->sections[i].name);
		sqlite3_bind_int64(s, 3, (int64_t)facts->sections[i].offset);
		sqlite3_bind_int64(s, 4, (int64_t)facts->sections[i].size);
		error = run(c, s);
	}
	return error;
}

struct sp_error *store_index_put(struct store_index *index, const struct sp_store_artifact *artifact,
                                 const char *build_id, const struct store_facts *facts, bool *ret_new)
{
	struct connection *c = &index->writer;
	pthread_mutex_lock(&c->lock);
	struct sp_error *error = run_plain(c, BEGIN);
	if (!error) {
		error = put_blob(c, artifact);
		if (!error)
			error = put_artifact(c, artifact, build_id, ret_new);
		if (!error)
			error = put_sections(c, artifact->sha256, facts);
		error = end(c, error);
	}
	pthread_mutex_unlock(&c->lock);
	return error;
}

static struct sp_error *drop_blob(struct connection *c, const char *sha256)
{
	static const enum statement drops[] = { DROP_ARTIFACTS, DROP_SECTIONS, DROP_BLOB };
	struct sp_error *error = run_plain(c, BEGIN);
	if (error)
		return error;
	for (unsigned i = 0; i < 3 && !error; i++) {
		sqlite3_stmt *s;
		error = prepare(c, drops[i], &s);
		if (!error) {
			bind(s, 1, sha256);
			error = run(c, s);
		}
	}
	return end(c, error);
}

typedef SP_VECTOR(char *) names;

static struct sp_error *all_blobs(struct connection *c, names *ret)
{
	sqlite3_stmt *s;
	struct sp_error *error = prepare(c, ALL_BLOBS, &s);
	if (error)
		return error;
	int code;
	while ((code = sqlite3_step(s)) == SQLITE_ROW && !error) {
		char *name = strdup((const char *)sqlite3_column_text(s, 0));
		if (!name || !sp_vector_push(ret, name)) {
			free(name);
			error = sp_error_no_memory();
		}
	}
	if (!error && code != SQLITE_DONE)
		error = db_error(c, "cannot read");
	done(s);
	return error;
}

struct sp_error *store_index_sweep(struct store_index *index, struct store_blobs *blobs, size_t *ret_count)
{
	names all = { 0 };
	struct connection *c = &index->writer;
	*ret_count = 0;
	pthread_mutex_lock(&c->lock);
	struct sp_error *error = all_blobs(c, &all);
	for (size_t i = 0; i < all.count; i++) {
		if (!error && !store_blobs_has(blobs, all.items[i])) {
			error = drop_blob(c, all.items[i]);
			++*ret_count;
		}
		free(all.items[i]);
	}
	pthread_mutex_unlock(&c->lock);
	sp_vector_deinit(&all);
	return error;
}

struct sp_error *store_index_touch(struct store_index *index)
{
	struct connection *c = &index->writer;
	sqlite3_stmt *s;
	pthread_mutex_lock(&c->lock);
	struct sp_error *error = prepare(c, TOUCH, &s);
	if (!error) {
		sqlite3_bind_int64(s, 1, store_now());
		error = run(c, s);
	}
	pthread_mutex_unlock(&c->lock);
	return error;
}

/* ---- Reading ---- */

static void take_text(sqlite3_stmt *s, int column, char *ret, size_t size)
{
	const char *text = (const char *)sqlite3_column_text(s, column);
	snprintf(ret, size, "%s", text ? text : "");
}

static void take_artifact(sqlite3_stmt *s, struct sp_store_artifact *ret)
{
	memset(ret, 0, sizeof(*ret));
	take_text(s, 0, ret->sha256, sizeof(ret->sha256));
	ret->size = (uint64_t)sqlite3_column_int64(s, 1);
	ret->kind = (enum sp_store_kind)sqlite3_column_int64(s, 2);
	ret->info.kind = (enum spsym_kind)sqlite3_column_int64(s, 3);
	take_text(s, 4, ret->info.arch, sizeof(ret->info.arch));
	take_text(s, 5, ret->info.debug_id, sizeof(ret->info.debug_id));
	take_text(s, 6, ret->info.code_id, sizeof(ret->info.code_id));
	ret->info.base = (uint64_t)sqlite3_column_int64(s, 7);
	ret->info.has_symbols = sqlite3_column_int64(s, 8);
	ret->info.has_debug_info = sqlite3_column_int64(s, 9);
	ret->info.has_code = sqlite3_column_int64(s, 10);
	take_text(s, 11, ret->pdb_name, sizeof(ret->pdb_name));
	take_text(s, 12, ret->name, sizeof(ret->name));
	take_text(s, 13, ret->ns, sizeof(ret->ns));
	take_text(s, 14, ret->token, sizeof(ret->token));
	take_text(s, 15, ret->ref, sizeof(ret->ref));
	ret->uploaded = sqlite3_column_int64(s, 16);
}

/* One row of a query by up to four texts; `take` (may be NULL) gets it. */
static struct sp_error *query(struct store_index *index, enum statement number, const char *const *values, size_t count,
                              void (*take)(sqlite3_stmt *s, void *ret), void *ret, bool *ret_found)
{
	struct connection *c = &index->reader;
	sqlite3_stmt *s;
	*ret_found = false;
	pthread_mutex_lock(&c->lock);
	struct sp_error *error = prepare(c, number, &s);
	if (!error) {
		for (size_t i = 0; i < count; i++)
			bind(s, (int)i + 1, values[i]);
		int code = sqlite3_step(s);
		*ret_found = code == SQLITE_ROW;
		if (*ret_found && take)
			take(s, ret);
		else if (code != SQLITE_ROW && code != SQLITE_DONE)
			error = db_error(c, "cannot read");
		done(s);
	}
	pthread_mutex_unlock(&c->lock);
	return error;
}

static void row_artifact(sqlite3_stmt *s, void *ret)
{
	take_artifact(s, ret);
}

static struct sp_error *find(struct store_index *index, enum statement number, const char *const *values, size_t count,
                             struct sp_store_artifact *ret)
{
	bool found;
	struct sp_error *error = query(index, number, values, count, row_artifact, ret, &found);
	if (!error && !found)
		error = sp_error_create(SP_ERROR_NOT_FOUND, "nothing that fits is stored");
	return error;
}

struct sp_error *store_index_find(struct store_index *index, const struct sp_store_query *q,
                                  struct sp_store_artifact *ret)
{
	enum statement number = q->build_id ? FIND_BUILD : q->debug_id ? FIND_DEBUG : FIND_CODE;
	const char *values[] = { q->build_id ? q->build_id : q->debug_id ? q->debug_id : q->code_id, q->ns, q->name };
	return find(index, number + q->want, values, number == FIND_CODE ? 3 : 2, ret);
}

struct sp_error *store_index_find_source(struct store_index *index, const char *build_id, const char *path,
                                         const char *ns, struct sp_store_artifact *ret)
{
	const char *values[] = { build_id, ns, path };
	return find(index, FIND_SOURCE, values, 3, ret);
}

struct sp_error *store_index_any(struct store_index *index, const char *sha256, bool source,
                                 struct sp_store_artifact *ret)
{
	const char *values[] = { sha256, source ? "source" : "" };
	return find(index, ANY, values, 2, ret);
}

struct sp_error *store_index_has(struct store_index *index, const struct sp_store_claim *claim, bool *ret)
{
	const char *values[] = { claim->sha256, claim->ns, claim->name, claim->build_id };
	return query(index, HAS_ARTIFACT, values, 4, NULL, NULL, ret);
}

struct sp_error *store_index_has_blob(struct store_index *index, const char *sha256, bool *ret)
{
	return query(index, HAS_BLOB, &sha256, 1, NULL, NULL, ret);
}

static void row_two(sqlite3_stmt *s, void *ret)
{
	((uint64_t *)ret)[0] = (uint64_t)sqlite3_column_int64(s, 0);
	((uint64_t *)ret)[1] = (uint64_t)sqlite3_column_int64(s, 1);
}

struct sp_error *store_index_find_section(struct store_index *index, const char *sha256, const char *name,
                                          uint64_t *ret_offset, uint64_t *ret_size)
{
	const char *values[] = { sha256, name };
	uint64_t place[2] = { 0 };
	bool found;
	struct sp_error *error = query(index, FIND_SECTION, values, 2, row_two, place, &found);
	if (!error && !found)
		error = sp_error_create(SP_ERROR_NOT_FOUND, "the file has no section %s", name);
	*ret_offset = place[0];
	*ret_size = place[1];
	return error;
}

static void row_counts(sqlite3_stmt *s, void *ret)
{
	*(struct sp_store_counts *)ret = (struct sp_store_counts){ (uint64_t)sqlite3_column_int64(s, 0),
		                                                   (uint64_t)sqlite3_column_int64(s, 1),
		                                                   (uint64_t)sqlite3_column_int64(s, 2) };
}

struct sp_error *store_index_count(struct store_index *index, struct sp_store_counts *ret)
{
	bool found;
	return query(index, COUNT, NULL, 0, row_counts, ret, &found);
}

/* ---- Tokens ---- */

static void take_token(sqlite3_stmt *s, struct sp_store_token *ret)
{
	memset(ret, 0, sizeof(*ret));
	take_text(s, 0, ret->id, sizeof(ret->id));
	take_text(s, 2, ret->label, sizeof(ret->label));
	take_text(s, 3, ret->ns, sizeof(ret->ns));
	take_text(s, 4, ret->ref, sizeof(ret->ref));
	ret->kinds = (unsigned)sqlite3_column_int64(s, 5);
	ret->size_limit = (uint64_t)sqlite3_column_int64(s, 6);
	ret->read = sqlite3_column_int64(s, 7);
	ret->created = sqlite3_column_int64(s, 8);
	ret->expires = sqlite3_column_int64(s, 9);
	ret->revoked = sqlite3_column_int64(s, 10);
}

struct sp_error *store_index_put_token(struct store_index *index, const struct sp_store_token *token,
                                       const char *sha256)
{
	struct connection *c = &index->writer;
	sqlite3_stmt *s;
	pthread_mutex_lock(&c->lock);
	struct sp_error *error = prepare(c, PUT_TOKEN, &s);
	if (!error) {
		bind(s, 1, token->id);
		bind(s, 2, sha256);
		bind(s, 3, token->label);
		bind(s, 4, token->ns);
		bind(s, 5, token->ref);
		sqlite3_bind_int64(s, 6, token->kinds);
		sqlite3_bind_int64(s, 7, (int64_t)token->size_limit);
		sqlite3_bind_int64(s, 8, token->read);
		sqlite3_bind_int64(s, 9, token->created);
		sqlite3_bind_int64(s, 10, token->expires);
		error = run(c, s);
	}
	pthread_mutex_unlock(&c->lock);
	return error;
}

struct token_row {
	struct sp_store_token *token;
	char *sha256;
};

static void row_token(sqlite3_stmt *s, void *ret)
{
	struct token_row *row = ret;
	take_token(s, row->token);
	take_text(s, 1, row->sha256, SP_STORE_SHA_SIZE);
}

struct sp_error *store_index_get_token(struct store_index *index, const char *id, struct sp_store_token *ret,
                                       char *ret_sha256)
{
	struct token_row row = { ret, ret_sha256 };
	bool found;
	struct sp_error *error = query(index, GET_TOKEN, &id, 1, row_token, &row, &found);
	return error || found ? error : sp_error_create(SP_ERROR_NOT_FOUND, "there is no token %s", id);
}

struct sp_error *store_index_revoke_token(struct store_index *index, const char *id)
{
	struct connection *c = &index->writer;
	sqlite3_stmt *s;
	pthread_mutex_lock(&c->lock);
	struct sp_error *error = prepare(c, REVOKE_TOKEN, &s);
	if (!error) {
		bind(s, 1, id);
		error = run(c, s);
		if (!error && !sqlite3_changes(c->db))
			error = sp_error_create(SP_ERROR_NOT_FOUND, "there is no token %s", id);
	}
	pthread_mutex_unlock(&c->lock);
	return error;
}

struct sp_error *store_index_list_tokens(struct store_index *index, sp_store_tokens *ret)
{
	struct connection *c = &index->reader;
	sqlite3_stmt *s;
	pthread_mutex_lock(&c->lock);
	struct sp_error *error = prepare(c, ALL_TOKENS, &s);
	int code = SQLITE_DONE;
	while (!error && (code = sqlite3_step(s)) == SQLITE_ROW) {
		struct sp_store_token token;
		take_token(s, &token);
		if (!sp_vector_push(ret, token))
			error = sp_error_no_memory();
	}
	if (!error && code != SQLITE_DONE)
		error = db_error(c, "cannot read");
	if (c->statements[ALL_TOKENS])
		done(c->statements[ALL_TOKENS]);
	pthread_mutex_unlock(&c->lock);
	return error;
}
