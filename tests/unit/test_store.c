/* The store: what is found, who sees it, and what is left when the process is killed at any step of publishing. */
#include "common/file.h"
#include "symbolication/store/private.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static struct sp_store *open_store(void (*step)(void *, const char *), void *context)
{
	struct sp_store *store;
	const struct sp_store_options options = { .folder = folder, .step = step, .context = context };
	struct sp_error *error = sp_store_open(&options, &store);
	if (error)
		fail_msg("%s", error->message);
	return store;
}

static int setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/sp-test-store-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	char command[128];
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static const char *sha_of(const void *bytes, size_t size)
{
	static char sha256[SP_STORE_SHA_SIZE];
	assert_null(store_need_hash());
	store_sha256(bytes, size, sha256);
	return sha256;
}

static struct sp_error *publish(struct sp_store *store, const struct sp_store_claim *claim, const void *bytes,
                                size_t size, struct sp_store_artifact *ret)
{
	struct sp_stage *stage;
	uint64_t offset;
	bool is_new = false;
	struct sp_error *error = sp_stage_open(store, claim->token, claim->sha256, &stage, &offset);
	if (error)
		return error;
	error = offset <= size ? NULL : sp_stage_restart(stage);
	offset = sp_stage_size(stage);
	if (!error)
		error = sp_stage_write(stage, (const char *)bytes + offset, size - offset);
	if (!error)
		error = sp_stage_publish(stage, claim, ret, &is_new);
	sp_stage_close(stage);
	return error;
}

static struct sp_store_artifact put(struct sp_store *store, const char *ns, const char *name, const void *bytes,
                                    size_t size)
{
	struct sp_store_artifact artifact;
	const struct sp_store_claim claim = { .sha256 = sha_of(bytes, size), .name = name, .ns = ns, .token = "t" };
	struct sp_error *error = publish(store, &claim, bytes, size, &artifact);
	if (error)
		fail_msg("%s", error->message);
	return artifact;
}

static void refuse(struct sp_store *store, const struct sp_store_claim *claim, const void *bytes, size_t size,
                   const char *why)
{
	struct sp_store_artifact artifact;
	struct sp_error *error = publish(store, claim, bytes, size, &artifact);
	assert_non_null(error);
	if (!strstr(error->message, why))
		fail_msg("\"%s\" has no \"%s\"", error->message, why);
	sp_error_destroy(error);
	assert_int_equal(sp_store_staged(store, claim->token, claim->sha256), 0);
}

/* Whether the blob of an artifact has the bytes that its name promises. */
static void check_blob(struct sp_store *store, const struct sp_store_artifact *artifact)
{
	int fd;
	uint64_t size;
	struct sp_file_map map;
	assert_null(sp_store_open_blob(store, artifact->sha256, &fd, &size));
	assert_null(sp_file_map_fd(fd, "blob", &map));
	close(fd);
	assert_int_equal(size, artifact->size);
	assert_int_equal(map.size, size);
	assert_string_equal(sha_of(map.bytes, map.size), artifact->sha256);
	sp_file_unmap(&map);
}

static bool find(struct sp_store *store, enum sp_store_want want, const char *build_id, const char *ns,
                 struct sp_store_artifact *ret)
{
	const struct sp_store_query query = { .want = want, .build_id = build_id, .ns = ns };
	struct sp_error *error = sp_store_find(store, &query, ret);
	if (!error)
		return true;
	assert_int_equal(error->code, SP_ERROR_NOT_FOUND);
	sp_error_destroy(error);
	return false;
}

/* Copies of this program: an ELF file with a build ID and debug information, of which bytes at the end may differ. */
static struct sp_file_map self;

static char *copy_of_self(size_t extra)
{
	char *copy = calloc(1, self.size + extra);
	memcpy(copy, self.bytes, self.size);
	return copy;
}

static void test_objects(void **state)
{
	(void)state;
	struct sp_store *store = open_store(NULL, NULL);
	struct sp_store_artifact made = put(store, "release", "program", self.bytes, self.size), found;
	assert_int_equal(made.kind, SP_STORE_OBJECT);
	assert_true(made.info.has_debug_info && made.info.has_code && made.info.has_symbols);
	const char *id = made.info.code_id;
	assert_true(strlen(id) >= 32);
	assert_true(find(store, SP_STORE_DEBUG, id, NULL, &found));
	assert_string_equal(found.name, "program");
	assert_string_equal(found.info.debug_id, made.info.debug_id);
	assert_string_equal(found.info.arch, made.info.arch);
	assert_int_equal(found.info.base, made.info.base);
	check_blob(store, &found);
	assert_true(find(store, SP_STORE_CODE, id, NULL, &found));
	assert_false(find(store, SP_STORE_BREAKPAD_TEXT, id, NULL, &found));
	assert_false(find(store, SP_STORE_DEBUG, "0123456789abcdef0123456789abcdef01234567", NULL, &found));
	assert_false(find(store, SP_STORE_DEBUG, "", NULL, &found));
	const struct sp_store_query by_debug = { .want = SP_STORE_NAMES, .debug_id = made.info.debug_id };
	assert_null(sp_store_find(store, &by_debug, &found));
	assert_string_equal(found.sha256, made.sha256);
	uint64_t offset, size;
	assert_null(sp_store_find_section(store, made.sha256, ".text", &offset, &size));
	assert_true(size && offset + size <= self.size);
	struct sp_error *error = sp_store_find_section(store, made.sha256, ".nothing", &offset, &size);
	assert_non_null(error);
	sp_error_destroy(error);
	/* It is there still when the store is opened again, and once. */
	put(store, "release", "program", self.bytes, self.size);
	sp_store_close(store);
	store = open_store(NULL, NULL);
	assert_true(find(store, SP_STORE_DEBUG, id, NULL, &found));
	struct sp_store_counts counts;
	assert_null(sp_store_count(store, &counts));
	assert_int_equal(counts.artifacts, 1);
	assert_int_equal(counts.blobs, 1);
	assert_int_equal(counts.bytes, self.size);
	sp_store_close(store);
}

/* Release goes before branch; what is under pr/ is seen by those only who name it. */
static void test_namespaces(void **state)
{
	(void)state;
	struct sp_store *store = open_store(NULL, NULL);
	struct sp_store_artifact found;
	char *copies[4];
	static const char *const places[] = { "pr/7", "pr/8", "branch/main", "release" };
	for (size_t i = 0; i < 4; i++)
		copies[i] = copy_of_self(i + 1);
	struct sp_store_artifact made = put(store, places[0], "a", copies[0], self.size + 1);
	const char *id = made.info.code_id;
	assert_false(find(store, SP_STORE_DEBUG, id, NULL, &found));
	assert_false(find(store, SP_STORE_DEBUG, id, "pr/8", &found));
	assert_true(find(store, SP_STORE_DEBUG, id, "pr/7", &found));
	put(store, places[1], "b", copies[1], self.size + 2);
	assert_true(find(store, SP_STORE_DEBUG, id, "pr/8", &found));
	assert_string_equal(found.ns, "pr/8");
	put(store, places[2], "c", copies[2], self.size + 3);
	assert_true(find(store, SP_STORE_DEBUG, id, NULL, &found));
	assert_string_equal(found.ns, "branch/main");
	put(store, places[3], "d", copies[3], self.size + 4);
	assert_true(find(store, SP_STORE_DEBUG, id, NULL, &found));
	assert_string_equal(found.ns, "release");
	assert_true(find(store, SP_STORE_DEBUG, id, "pr/8", &found));
	assert_string_equal(found.ns, "release");
	/* All are kept. */
	struct sp_store_counts counts;
	assert_null(sp_store_count(store, &counts));
	assert_int_equal(counts.blobs, 4);
	for (size_t i = 0; i < 4; i++)
		free(copies[i]);
	sp_store_close(store);

	static const char *const good[] = { "release", "branch/a", "branch/a/b-c.d", "pr/12" };
	static const char *const bad[] = { "",       "branch", "branch/",   "pr/", "pr//x",  "pr/a/",
		                           "pr/a/b", "pr/..",  "release/x", "x",   "pr/a b", "branch//" };
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		assert_true(sp_store_is_namespace(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(sp_store_is_namespace(bad[i]));
}

static void test_sources(void **state)
{
	(void)state;
	static const char id[] = "00112233445566778899aabbccddeeff00112233", text[] = "int main;\n";
	struct sp_store *store = open_store(NULL, NULL);
	struct sp_store_artifact made, found;
	struct sp_store_claim claim = {
		.sha256 = sha_of(text, 10), .name = "/src/a.c", .build_id = id, .ns = "release", .token = "t"
	};
	bool done;
	assert_null(sp_store_adopt(store, &claim, &done));
	assert_false(done);
	assert_null(publish(store, &claim, text, 10, &made));
	assert_int_equal(made.kind, SP_STORE_SOURCE);
	assert_null(sp_store_find_source(store, id, "/src/a.c", NULL, &found));
	check_blob(store, &found);
	/* The same bytes under another path need not be sent. */
	claim.name = "/src/b.c";
	assert_null(sp_store_has(store, &claim, &done));
	assert_false(done);
	assert_null(sp_store_adopt(store, &claim, &done));
	assert_true(done);
	assert_null(sp_store_has(store, &claim, &done));
	assert_true(done);
	assert_null(sp_store_find_source(store, id, "/src/b.c", NULL, &found));
	claim.name = "relative.c";
	refuse(store, &claim, text, 10, "absolute path");
	struct sp_error *error = sp_store_find_source(store, "ff112233445566778899aabbccddeeff00112233", "/src/a.c",
	                                              NULL, &found);
	assert_non_null(error);
	sp_error_destroy(error);
	/* An object that someone sent as a source first is found as what it is. */
	claim = (struct sp_store_claim){
		.sha256 = sha_of(self.bytes, self.size), .name = "/src/x", .build_id = id, .ns = "pr/1", .token = "t"
	};
	assert_null(publish(store, &claim, self.bytes, self.size, &made));
	struct sp_store_claim object = {
		.sha256 = sha_of(self.bytes, self.size), .name = "x", .ns = "release", .token = "t"
	};
	assert_null(sp_store_adopt(store, &object, &done));
	assert_false(done);
	made = put(store, "release", "x", self.bytes, self.size);
	assert_true(find(store, SP_STORE_DEBUG, made.info.code_id, NULL, &found));
	sp_store_close(store);
}

static void test_paths(void **state)
{
	(void)state;
	static const char *const cases[][2] = { { "/a/b.c", "/a/b.c" },       { "//a//b.c", "/a/b.c" },
		                                { "/a/./b.c", "/a/b.c" },     { "/a/x/../b.c", "/a/b.c" },
		                                { "/../../a", "/a" },         { "/a/..b/.c", "/a/..b/.c" },
		                                { "/x/y/../../a/b", "/a/b" }, { "/a/b/", "/a/b" } };
	char plain[SP_STORE_PATH_SIZE], text[SP_STORE_PATH_SIZE + 2];
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_true(sp_store_plain_path(cases[i][0], plain));
		assert_string_equal(plain, cases[i][1]);
	}
	memset(text, 'a', sizeof(text));
	text[0] = '/';
	text[SP_STORE_PATH_SIZE - 1] = 0;
	assert_true(sp_store_plain_path(text, plain));
	text[SP_STORE_PATH_SIZE - 1] = 'a';
	text[SP_STORE_PATH_SIZE] = 0;
	assert_false(sp_store_plain_path(text, plain));
	assert_false(sp_store_plain_path("a/b", plain));
	assert_false(sp_store_plain_path("/..", plain));
	assert_false(sp_store_plain_path("", plain));
}

static void test_refusals(void **state)
{
	(void)state;
	struct sp_store *store = open_store(NULL, NULL);
	static const char text[] = "hello";
	struct sp_store_claim claim = { .sha256 = sha_of("other", 5), .name = "x", .ns = "release", .token = "t" };
	refuse(store, &claim, text, 5, "SHA-256");
	claim.sha256 = sha_of(text, 5);
	refuse(store, &claim, text, 5, "x");
	claim.ns = "nowhere";
	refuse(store, &claim, text, 5, "namespace");
	claim.ns = "release";
	claim.name = "";
	refuse(store, &claim, text, 5, "name");
	/* Parts of an object file. */
	claim.name = "cut";
	for (size_t size = 16; size < self.size; size = size * 3 + 1) {
		struct sp_store_artifact artifact, found;
		claim.sha256 = sha_of(self.bytes, size);
		struct sp_error *error = publish(store, &claim, self.bytes, size, &artifact);
		if (!error && find(store, SP_STORE_DEBUG, artifact.info.code_id, NULL, &found))
			check_blob(store, &found);
		sp_error_destroy(error);
	}
	struct sp_stage *stage, *second;
	uint64_t offset;
	struct sp_error *error = sp_stage_open(store, "t", "../../etc/passwd", &stage, &offset);
	assert_non_null(error);
	sp_error_destroy(error);
	/* One writer at a time; what arrived stays for the next. */
	assert_null(sp_stage_open(store, "t", claim.sha256, &stage, &offset));
	assert_null(sp_stage_write(stage, "abc", 3));
	error = sp_stage_open(store, "t", claim.sha256, &second, &offset);
	assert_non_null(error);
	assert_int_equal(error->code, SP_ERROR_PERMISSION);
	sp_error_destroy(error);
	assert_null(sp_stage_open(store, "u", claim.sha256, &second, &offset));
	assert_int_equal(offset, 0);
	sp_stage_close(second);
	sp_stage_close(stage);
	assert_int_equal(sp_store_staged(store, "t", claim.sha256), 3);
	assert_null(sp_stage_open(store, "t", claim.sha256, &stage, &offset));
	assert_int_equal(offset, 3);
	assert_null(sp_stage_restart(stage));
	sp_stage_close(stage);
	/* Who is silent loses it, and cannot spoil what the next one makes of it. */
	const char *whole = sha_of(self.bytes, self.size);
	char sha256[SP_STORE_SHA_SIZE];
	strcpy(sha256, whole);
	claim = (struct sp_store_claim){ .sha256 = sha256, .name = "x", .ns = "release", .token = "t" };
	assert_null(sp_stage_open(store, "t", sha256, &stage, &offset));
	assert_null(sp_stage_write(stage, self.bytes, 1000));
	usleep(5100000);
	assert_null(sp_stage_open(store, "t", sha256, &second, &offset));
	assert_int_equal(offset, 1000);
	error = sp_stage_write(stage, "x", 1);
	assert_non_null(error);
	assert_int_equal(error->code, SP_ERROR_PERMISSION);
	sp_error_destroy(error);
	struct sp_store_artifact artifact;
	bool is_new;
	error = sp_stage_publish(stage, &claim, &artifact, &is_new);
	assert_non_null(error);
	assert_true(sp_stage_is_lost(stage));
	sp_error_destroy(error);
	sp_stage_close(stage);
	assert_null(sp_stage_write(second, self.bytes + 1000, self.size - 1000));
	assert_null(sp_stage_publish(second, &claim, &artifact, &is_new));
	assert_true(is_new);
	sp_stage_close(second);
	check_blob(store, &artifact);
	/* One process a store. */
	struct sp_store *other;
	const struct sp_store_options options = { .folder = folder };
	error = sp_store_open(&options, &other);
	assert_non_null(error);
	assert_non_null(strstr(error->message, "another process"));
	sp_error_destroy(error);
	sp_store_close(store);
}

static void test_tokens(void **state)
{
	(void)state;
	struct sp_store *store = open_store(NULL, NULL), *beside;
	const struct sp_store_options options = { .folder = folder, .only_tokens = true };
	assert_null(sp_store_open(&options, &beside));
	char secret[SP_STORE_TOKEN_SIZE], text[SP_STORE_TOKEN_SIZE];
	struct sp_store_token token = { .label = "CI", .ns = "branch/*", .kinds = 3, .size_limit = 5, .read = true },
	                      got;
	assert_null(sp_store_token_create(beside, &token, secret));
	assert_null(sp_store_token_check(store, secret, &got));
	assert_string_equal(got.id, token.id);
	assert_string_equal(got.label, "CI");
	assert_int_equal(got.kinds, 3);
	assert_int_equal(got.size_limit, 5);
	assert_true(got.read);
	assert_true(sp_store_token_allows(&got, "branch/x"));
	assert_false(sp_store_token_allows(&got, "release"));
	/* Any other text, however near, is none. */
	for (size_t i = 0; secret[i]; i++) {
		strcpy(text, secret);
		text[i] = text[i] == 'a' ? 'b' : 'a';
		struct sp_error *error = sp_store_token_check(store, text, &got);
		assert_non_null(error);
		assert_int_equal(error->code, SP_ERROR_PERMISSION);
		sp_error_destroy(error);
	}
	static const char *const none[] = { "", "sps_", "sps__", "sps_a", "x" };
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
		struct sp_error *error = sp_store_token_check(store, none[i], &got);
		assert_non_null(error);
		sp_error_destroy(error);
	}
	assert_null(sp_store_token_revoke(beside, token.id));
	struct sp_error *error = sp_store_token_check(store, secret, &got);
	assert_non_null(strstr(error->message, "revoked"));
	sp_error_destroy(error);
	token.expires = 1;
	assert_null(sp_store_token_create(beside, &token, secret));
	error = sp_store_token_check(store, secret, &got);
	assert_non_null(strstr(error->message, "expired"));
	sp_error_destroy(error);
	snprintf(token.ns, sizeof(token.ns), "everything");
	error = sp_store_token_create(beside, &token, secret);
	assert_non_null(error);
	sp_error_destroy(error);
	sp_store_tokens tokens = { 0 };
	assert_null(sp_store_token_list(store, &tokens));
	assert_int_equal(tokens.count, 2);
	sp_vector_deinit(&tokens);
	sp_store_close(beside);
	sp_store_close(store);
	/* The secret is nowhere in the store. */
	char command[256];
	snprintf(command, sizeof(command), "grep -rqF %s %s", secret + strlen("sps_") + 8 + 1, folder);
	assert_int_equal(WEXITSTATUS(system(command)), 1);
}

/* ---- Killed at any step ---- */

struct killer {
	unsigned left; /* steps until it happens; UINT_MAX = never */
};

static void step(void *context, const char *name)
{
	(void)name;
	struct killer *killer = context;
	if (killer->left != UINT32_MAX && !killer->left--)
		raise(SIGKILL);
}

/* The bytes of round `number`: mostly sources; objects, which are parsed, too. */
static void *make_file(unsigned number, size_t *ret_size)
{
	if (number % 16 == 0) {
		char *copy = copy_of_self(8);
		memcpy(copy + self.size, &number, sizeof(number));
		*ret_size = self.size + 8;
		return copy;
	}
	char *text = calloc(1, 5000);
	snprintf(text, 5000, "round %u", number);
	*ret_size = 100 + number * 20 % 4900;
	return text;
}

static const char round_id[] = "00112233445566778899aabbccddeeff00112233";

static void claim_of(unsigned number, struct sp_store_claim *ret, char *name)
{
	sprintf(name, "/src/%u.c", number);
	*ret = (struct sp_store_claim){
		.name = name, .ns = "release", .token = "t", .build_id = number % 16 ? round_id : NULL
	};
}

/* In a child: publishes until it is killed; says what was acknowledged. */
static void publish_and_die(unsigned number, unsigned steps, int fd)
{
	struct killer killer = { steps };
	struct sp_store *store = open_store(step, &killer);
	struct sp_store_artifact artifact;
	struct sp_store_claim claim;
	size_t size;
	char name[64];
	void *bytes = make_file(number, &size);
	claim_of(number, &claim, name);
	claim.sha256 = sha_of(bytes, size);
	if (publish(store, &claim, bytes, size, &artifact) == NULL && write(fd, "y", 1) != 1)
		_exit(1);
	_exit(0);
}

static bool run_round(unsigned number, unsigned steps, unsigned delay_us)
{
	int fds[2];
	char acknowledged = 0;
	assert_int_equal(pipe(fds), 0);
	pid_t pid = fork();
	if (pid == 0)
		publish_and_die(number, steps, fds[1]);
	close(fds[1]);
	if (delay_us) {
		usleep(delay_us);
		kill(pid, SIGKILL);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	ssize_t got = read(fds[0], &acknowledged, 1);
	close(fds[0]);
	return got == 1;
}

/* Nothing is found with wrong bytes; what was acknowledged is found; the next try succeeds. */
static void check_round(struct sp_store *store, unsigned number, bool acknowledged)
{
	struct sp_store_claim claim;
	struct sp_store_artifact artifact;
	size_t size;
	char name[64], sha256[SP_STORE_SHA_SIZE];
	bool has;
	void *bytes = make_file(number, &size);
	claim_of(number, &claim, name);
	strcpy(sha256, sha_of(bytes, size));
	claim.sha256 = sha256;
	assert_null(sp_store_has(store, &claim, &has));
	if (acknowledged)
		assert_true(has);
	if (has) {
		assert_null(store_index_any(store->index, sha256, claim.build_id, &artifact));
		check_blob(store, &artifact);
	} else {
		struct sp_error *error = publish(store, &claim, bytes, size, &artifact);
		if (error)
			fail_msg("round %u: %s", number, error->message);
		assert_null(sp_store_has(store, &claim, &has));
		assert_true(has);
		check_blob(store, &artifact);
	}
	assert_int_equal(sp_store_staged(store, "t", sha256), 0);
	free(bytes);
}

static void test_killed_while_publishing(void **state)
{
	(void)state;
	enum { ROUNDS = 220, STEPS = 9 };
	unsigned acknowledged = 0, killed = 0;
	for (unsigned i = 0; i < ROUNDS; i++) {
		/* Steps in turn, then some at any time. */
		bool done = i < 180 ? run_round(i, i % STEPS, 0) : run_round(i, UINT32_MAX, 1 + (i - 180) * 400);
		struct sp_store *store = open_store(NULL, NULL);
		check_round(store, i, done);
		sp_store_close(store);
		acknowledged += done;
		killed += !done;
	}
	assert_true(acknowledged >= 180 / STEPS && killed >= 180 / STEPS * 7);
	struct sp_store *store = open_store(NULL, NULL);
	for (unsigned i = 0; i < ROUNDS; i++)
		check_round(store, i, true);
	struct sp_store_counts counts;
	assert_null(sp_store_count(store, &counts));
	assert_int_equal(counts.blobs, ROUNDS);
	sp_store_close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_objects, setup, teardown),
		cmocka_unit_test_setup_teardown(test_namespaces, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sources, setup, teardown),
		cmocka_unit_test(test_paths),
		cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tokens, setup, teardown),
		cmocka_unit_test_setup_teardown(test_killed_while_publishing, setup, teardown),
	};
	struct sp_error *error = sp_file_map_path("/proc/self/exe", &self);
	if (error) {
		fprintf(stderr, "%s\n", error->message);
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
