/* The client of debuginfod servers against a server that is good or bad in known ways. */
#include "spsym.h"

#include "fake_server.h"

#include <sys/stat.h>
#include <utime.h>

static struct spsym_file_info info; /* of bin/prog */

static int start_server(void **state)
{
	if (make_folder(state) != 0)
		return -1;
	write_text("a.c",
	           "static inline __attribute__((always_inline)) int square(int x) { return x * x; }\n"
	           "static __attribute__((noinline)) int hidden(int n) { int s = BUILD; while (n--) s += square(n);\n"
	           "return s; }\nint main(int argc, char **argv) { (void)argv; return hidden(argc); }\n");
	must_run("mkdir bin served cache && gcc -g -O2 -DBUILD=1 a.c -o full && strip -o bin/prog full && "
	         "objcopy --only-keep-debug full right && gcc -g -O2 -DBUILD=2 a.c -o other && "
	         "objcopy --only-keep-debug other served/wrong");
	if (spsym_identify_path(in_folder("bin/prog"), &info))
		return -1;
	must_run("mkdir -p served/buildid/%s/source/src && cp right served/buildid/%s/debuginfo && "
	         "cp bin/prog served/buildid/%s/executable && cp a.c 'served/buildid/%s/source/src/a b#.c'",
	         info.code_id, info.code_id, info.code_id, info.code_id);
	bool served = start_fake_server();
	unsetenv("DEBUGINFOD_URLS");
	setenv("DEBUGINFOD_CACHE_PATH", in_folder("cache"), 1);
	setenv("DEBUGINFOD_TIMEOUT", "1", 1);
	return served ? 0 : -1;
}

static int empty_cache(void **state)
{
	(void)state;
	return run("rm -rf cache/* served/requests") ? 0 : -1;
}

static const char *urls(const char *modes)
{
	static char text[1000];
	text[0] = 0;
	for (const char *mode = modes; *mode; mode += strcspn(mode, " "), mode += strspn(mode, " "))
		sprintf(text + strlen(text), "http://127.0.0.1:%u/%.*s/ ", port, (int)strcspn(mode, " "), mode);
	return text;
}

static unsigned requests(void)
{
	char *text = output_of("cat served/requests 2>/dev/null | wc -l");
	unsigned count = (unsigned)strtoul(text, NULL, 10);
	free(text);
	return count;
}

/* Opens the stripped program; whether debug information came. */
static bool find(spsym_context *context, spsym_module **ret)
{
	spsym_module *module;
	struct spsym_identity identity = { .name = "prog", .debug_id = info.debug_id, .code_id = info.code_id };
	char path[600];
	snprintf(path, sizeof(path), "%s", in_folder("bin/prog"));
	identity.path = path;
	spsym_error *error = spsym_module_find(context, &identity, &module);
	if (error)
		fail_msg("%s", spsym_error_message(error));
	bool found = spsym_module_info(module)->has_debug_info;
	if (found) {
		uint64_t address = hex_output("nm full | grep ' t hidden'");
		struct spsym_result result = { 0 };
		assert_null(spsym_lookup(module, &address, 1, &result));
		assert_int_equal(result.locations[0].frame_count >= 1, 1);
		spsym_result_deinit(&result);
		assert_true(spsym_module_is_downloaded(module));
	}
	if (ret)
		*ret = module;
	else
		spsym_module_release(module);
	return found;
}

static bool find_with(const struct spsym_options *options)
{
	spsym_context *context;
	assert_null(spsym_context_create(options, &context));
	bool found = find(context, NULL);
	spsym_context_destroy(context);
	return found;
}

static void test_off_by_default(void **state)
{
	(void)state;
	assert_false(find_with(NULL));
	struct spsym_options none = { .debuginfod_urls = "" };
	setenv("DEBUGINFOD_URLS", urls("good"), 1);
	assert_false(find_with(&none));
	unsetenv("DEBUGINFOD_URLS");
	assert_int_equal(requests(), 0);
	char maps[100];
	snprintf(maps, sizeof(maps), "grep -q libcurl /proc/%d/maps", getpid());
	assert_false(run("%s", maps)); /* nothing is loaded that is not used */
}

static void test_found(void **state)
{
	(void)state;
	setenv("DEBUGINFOD_URLS", urls("good"), 1);
	assert_true(find_with(NULL));
	unsetenv("DEBUGINFOD_URLS");
	assert_int_equal(requests(), 1);
	must_run("cmp cache/%s/debuginfo right && test $(ls cache/%s | wc -l) = 1", info.code_id, info.code_id);
	/* From the cache. */
	struct spsym_options options = { .debuginfod_urls = urls("good") };
	assert_true(find_with(&options));
	options.offline = true;
	assert_true(find_with(&options));
	assert_int_equal(requests(), 1);
	must_run("rm -r cache/*");
	assert_false(find_with(&options));
	assert_int_equal(requests(), 1);
	options = (struct spsym_options){ .debuginfod_urls = urls("moved") };
	assert_true(find_with(&options));
}

static void test_missing(void **state)
{
	(void)state;
	must_run("mv served/buildid served/away");
	struct spsym_options options = { .debuginfod_urls = urls("good") };
	assert_false(find_with(&options));
	must_run("test -e cache/%s/debuginfo && ! test -s cache/%s/debuginfo", info.code_id, info.code_id);
	assert_false(find_with(&options));
	assert_int_equal(requests(), 1); /* asked once */
	must_run("mv served/away served/buildid && touch -d '20 minutes ago' cache/%s/debuginfo", info.code_id);
	assert_true(find_with(&options));
}

static void test_trouble(void **state)
{
	(void)state;
	static const char *const modes[] = { "busy", "wrong", "silent", "slow" };
	for (unsigned i = 0; i < 4; i++) {
		spsym_context *context;
		spsym_module *module;
		struct spsym_options options = { .debuginfod_urls = urls(modes[i]) };
		assert_null(spsym_context_create(&options, &context));
		assert_false(find(context, &module));
		char *text;
		assert_null(spsym_module_explain(module, &text));
		assert_non_null(strstr(text, modes[i]));
		free(text);
		spsym_module_release(module);
		/* Nothing is remembered as missing, and nothing half done stays. */
		must_run("test -z \"$(find cache -type f ! -name 'cache_*')\"");
		spsym_context_destroy(context);
		/* The next server is asked. */
		char both[50];
		snprintf(both, sizeof(both), "%s good", modes[i]);
		options.debuginfod_urls = urls(both);
		assert_true(find_with(&options));
		must_run("rm -rf cache/*");
	}
	/* No server there at all. */
	struct spsym_options options = { .debuginfod_urls = "http://127.0.0.1:1" };
	assert_false(find_with(&options));
	options.debuginfod_urls = "ftp://127.0.0.1/ file:///tmp nonsense";
	assert_false(find_with(&options));
}

/* A server that failed is left alone for a while. */
static void test_pause(void **state)
{
	(void)state;
	spsym_context *context;
	struct spsym_options options = { .debuginfod_urls = urls("busy") };
	assert_null(spsym_context_create(&options, &context));
	assert_false(find(context, NULL));
	assert_int_equal(requests(), 1);
	char *text;
	struct spsym_identity identity = { .name = "x", .code_id = "0123456789abcdef0123456789abcdef01234567" };
	assert_null(spsym_explain(context, &identity, &text));
	assert_non_null(strstr(text, "a moment ago"));
	free(text);
	assert_int_equal(requests(), 1);
	spsym_context_destroy(context);
}

static bool cancel(void *context, const char *url, uint64_t done, uint64_t total)
{
	(void)url;
	(void)done;
	(void)total;
	++*(unsigned *)context;
	return false;
}

static void test_cancel(void **state)
{
	(void)state;
	unsigned calls = 0;
	struct spsym_options options = { .debuginfod_urls = urls("slow"),
		                         .progress = cancel,
		                         .progress_context = &calls };
	assert_false(find_with(&options));
	assert_true(calls > 0);
	must_run("test -z \"$(find cache -type f ! -name 'cache_*')\"");
}

static void test_size_limit(void **state)
{
	(void)state;
	struct spsym_options options = { .debuginfod_urls = urls("good") };
	setenv("DEBUGINFOD_MAXSIZE", "1000", 1);
	assert_false(find_with(&options));
	unsetenv("DEBUGINFOD_MAXSIZE");
	must_run("test -z \"$(find cache -type f ! -name 'cache_*')\"");
	assert_true(find_with(&options));
}

static void test_code_and_source(void **state)
{
	(void)state;
	spsym_context *context;
	spsym_module *module;
	struct spsym_options options = { .debuginfod_urls = urls("good") };
	assert_null(spsym_context_create(&options, &context));
	struct spsym_identity identity = { .name = "prog", .debug_id = info.debug_id, .code_id = info.code_id };
	assert_null(spsym_module_find(context, &identity, &module));
	assert_false(spsym_module_info(module)->has_code);
	uint64_t address = hex_output("nm full | grep ' T main'");
	uint8_t code[4];
	size_t size;
	assert_null(spsym_code(module, address, code, sizeof(code), &size));
	assert_int_equal(size, 4);
	must_run("cmp cache/%s/executable bin/prog", info.code_id);
	char *path;
	assert_null(spsym_module_fetch_source(module, "/src/a b#.c", &path));
	must_run("cmp '%s' a.c", path);
	free(path);
	must_run("test -e 'cache/%s/source##src##a b#_.c'", info.code_id);
	spsym_error *error = spsym_module_fetch_source(module, "/src/none.c", &path);
	assert_non_null(error);
	spsym_error_destroy(error);
	error = spsym_module_fetch_source(module, "relative.c", &path);
	assert_non_null(error);
	spsym_error_destroy(error);
	spsym_module_release(module);
	spsym_context_destroy(context);
}

/* What was not used for a week goes, at most once a day. */
static void test_cleaning(void **state)
{
	(void)state;
	struct spsym_options options = { .debuginfod_urls = urls("good") };
	must_run(
	    "mkdir -p cache/0123456789abcdef cache/other && echo old >cache/0123456789abcdef/debuginfo && "
	    "echo new >cache/0123456789abcdef/executable && touch -d '8 days ago' cache/0123456789abcdef/debuginfo "
	    "cache/other && echo 86400 >cache/cache_clean_interval_s && "
	    "touch -d '2 days ago' cache/cache_clean_interval_s && mkdir cache/fedcba9876543210 && "
	    "echo old >cache/fedcba9876543210/debuginfo && touch -d '8 days ago' cache/fedcba9876543210/debuginfo "
	    "cache/fedcba9876543210");
	assert_true(find_with(&options));
	must_run("! test -e cache/0123456789abcdef/debuginfo && test -e cache/0123456789abcdef/executable && "
	         "! test -e cache/fedcba9876543210 && test -e cache/other && test -s cache/%s/debuginfo",
	         info.code_id);
	must_run("touch -d '8 days ago' cache/0123456789abcdef/executable && rm -r cache/%s", info.code_id);
	assert_true(find_with(&options));
	must_run("test -e cache/0123456789abcdef/executable"); /* cleaned today already */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_off_by_default, empty_cache),
		cmocka_unit_test_setup(test_found, empty_cache),
		cmocka_unit_test_setup(test_missing, empty_cache),
		cmocka_unit_test_setup(test_trouble, empty_cache),
		cmocka_unit_test_setup(test_pause, empty_cache),
		cmocka_unit_test_setup(test_cancel, empty_cache),
		cmocka_unit_test_setup(test_size_limit, empty_cache),
		cmocka_unit_test_setup(test_code_and_source, empty_cache),
		cmocka_unit_test_setup(test_cleaning, empty_cache),
	};
	return cmocka_run_group_tests(tests, start_server, stop_fake_server);
}
