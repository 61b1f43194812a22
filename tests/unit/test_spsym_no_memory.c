/* Every allocation of the symbol library fails once, one after the other, while a context is made, modules are found
 * and addresses are looked up: each call gives the right answer or an error, and everything can be closed.
 *
 * The program is linked with --wrap for the allocation functions (see tests/CMakeLists.txt). */
#include "common/error.h"
#include "spsym.h"

#include "fixture_support.h"

#include <stdatomic.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);

static atomic_long until_failure = -1; /* allocations that still work; below 0 = all do */
static atomic_bool failed;

static bool may_allocate(void)
{
	if (atomic_load(&until_failure) < 0)
		return true;
	if (atomic_fetch_sub(&until_failure, 1) > 0)
		return true;
	atomic_store(&until_failure, -1);
	atomic_store(&failed, true);
	return false;
}

void *__wrap_malloc(size_t size)
{
	return may_allocate() ? __real_malloc(size) : NULL;
}

void *__wrap_calloc(size_t count, size_t size)
{
	return may_allocate() ? __real_calloc(count, size) : NULL;
}

void *__wrap_realloc(void *old, size_t size)
{
	return may_allocate() ? __real_realloc(old, size) : NULL;
}

char *__wrap_strdup(const char *text)
{
	return may_allocate() ? __real_strdup(text) : NULL;
}

/* What a run looks up, and whether its answer is complete. */
struct subject {
	struct spsym_identity identity;
	struct spsym_options options;
	uint64_t addresses[64];
	size_t count;
	const char *name; /* of the symbol at the first address */
	bool index;       /* make the index first; without it look-ups go on */
};

/* How much of the answer there was. */
enum answer { WHOLE, LESS, SILENTLY_LESS };

/* Gives the error that an operation met. */
static spsym_error *use(const struct subject *subject, enum answer *ret)
{
	spsym_context *context;
	spsym_module *module;
	*ret = SILENTLY_LESS;
	spsym_error *error = spsym_context_create(&subject->options, &context);
	if (error)
		return error;
	error = spsym_module_find(context, &subject->identity, &module);
	if (error) {
		spsym_context_destroy(context);
		return error;
	}
	struct spsym_result result = { 0 };
	const struct spsym_symbol *symbols;
	size_t count;
	spsym_error *index_error = subject->index ? spsym_module_index(module) : NULL;
	error = spsym_lookup(module, subject->addresses, subject->count, &result);
	if (!error) {
		const struct spsym_location *first = &result.locations[0];
		if (result.count == subject->count && first->symbol.name &&
		    strcmp(first->symbol.name, subject->name) == 0)
			*ret = first->frame_count ? WHOLE : result.debug_error ? LESS : SILENTLY_LESS;
		error = spsym_symbols(module, &symbols, &count);
	}
	/* After the failure the module must be as good as new. */
	if (atomic_load(&failed)) {
		struct spsym_result again = { 0 };
		spsym_error *second = spsym_lookup(module, subject->addresses, subject->count, &again);
		if (second)
			fail_msg("still failing: %s", spsym_error_message(second));
		assert_non_null(again.locations[0].symbol.name);
		assert_int_equal(again.count, subject->count);
		spsym_result_deinit(&again);
	}
	spsym_result_deinit(&result);
	spsym_module_release(module);
	spsym_context_destroy(context);
	if (!error)
		return index_error;
	spsym_error_destroy(index_error);
	return error;
}

static void fail_everywhere(const struct subject *subject)
{
	enum answer answer;
	size_t errors = 0, less = 0, at = 0;
	for (;; at++) {
		atomic_store(&failed, false);
		atomic_store(&until_failure, (long)at);
		spsym_error *error = use(subject, &answer);
		atomic_store(&until_failure, -1);
		if (!atomic_load(&failed)) {
			assert_null(error);
			assert_int_equal(answer, WHOLE);
			break;
		}
		errors += error != NULL;
		assert_true(error || answer != SILENTLY_LESS);
		less += !error && answer == LESS;
		spsym_error_destroy(error);
		assert_true(at < 100000);
	}
	printf("%zu allocations, %zu failures reported, %zu with a note and less in the answer\n", at, errors, less);
	assert_true(at > 50 && errors > at / 2);
}

/* Where main() is, and every fourth byte behind it. */
static void set_addresses(struct subject *subject, const char *file)
{
	subject->name = "main";
	subject->count = 64;
	for (size_t i = 0; i < subject->count; i++)
		subject->addresses[i] = 4 * i;
	subject->addresses[0] = hex_output("nm %s | grep ' T main'", file);
}

static const char source[] = "#include <vector>\n#include <algorithm>\n"
                             "static inline int square(int x) { return x * x; }\n"
                             "int main(int argc, char **) { std::vector<int> v; for (int i = 0; i < argc; i++)\n"
                             "v.push_back(square(i)); std::sort(v.begin(), v.end()); return v[0]; }\n";

static void test_binary(void **state)
{
	(void)state;
	struct spsym_file_info info;
	write_text("a.cpp", source);
	must_run("g++ -O1 -g -gz=zlib a.cpp -o a");
	assert_null(spsym_identify_path(in_folder("a"), &info));
	struct subject subject = { .identity = { .name = "a", .path = in_folder("a"), .debug_id = info.debug_id } };
	set_addresses(&subject, "a");
	fail_everywhere(&subject);
}

static void test_separate_files(void **state)
{
	(void)state;
	static const char *folders[2];
	struct spsym_file_info info;
	write_text("a.cpp", source);
	must_run("mkdir -p bin symbols && g++ -O1 -g a.cpp -o a && objcopy --only-keep-debug a symbols/a.debug && "
	         "strip -o bin/a a && objcopy --add-gnu-debuglink=symbols/a.debug bin/a");
	assert_null(spsym_identify_path(in_folder("bin/a"), &info));
	char path[600], symbols[600];
	snprintf(path, sizeof(path), "%s", in_folder("bin/a"));
	snprintf(symbols, sizeof(symbols), "%s", in_folder("symbols"));
	folders[0] = symbols;
	struct subject subject = {
		.identity = { .name = "a", .path = path, .debug_id = info.debug_id, .code_id = info.code_id },
		.options = { .symbol_folders = folders, .cache_folder = symbols },
	};
	set_addresses(&subject, "a");
	fail_everywhere(&subject);
}

/* An index is made, saved and used: of the two answers, that of the index and that of the debug information, one is
 * given. */
static void test_index(void **state)
{
	(void)state;
	struct spsym_file_info info;
	write_text("a.cpp", source);
	must_run("g++ -O1 -g a.cpp -o indexed && mkdir -p cache && rm -rf cache/*");
	assert_null(spsym_identify_path(in_folder("indexed"), &info));
	char path[600], cache[600];
	snprintf(path, sizeof(path), "%s", in_folder("indexed"));
	snprintf(cache, sizeof(cache), "%s", in_folder("cache"));
	struct subject subject = { .identity = { .name = "indexed", .path = path, .debug_id = info.debug_id },
		                   .options = { .no_background = true },
		                   .index = true };
	set_addresses(&subject, "indexed");
	fail_everywhere(&subject);
	/* The first runs save one, the others find it. */
	subject.options.cache_folder = cache;
	fail_everywhere(&subject);
	must_run("ls cache/indexes/*.spindex");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_binary),
		cmocka_unit_test(test_separate_files),
		cmocka_unit_test(test_index),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
