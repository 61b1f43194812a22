/* The memory budget of a context: measured by the allocator, with many more modules than it has room for; and what was
 * given of a module in use stays as it was, whatever is dropped. */
#include "spsym.h"

#include "fixture_support.h"

#include <malloc.h>

/* AddressSanitizer has an allocator of its own. */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static size_t allocated(void)
{
	if (__sanitizer_get_current_allocated_bytes)
		return __sanitizer_get_current_allocated_bytes();
#ifdef __GLIBC__
	struct mallinfo2 info = mallinfo2();
	return info.uordblks + info.hblkhd;
#else
	return 0;
#endif
}

static void ok(spsym_error *error)
{
	if (error)
		fail_msg("%s", spsym_error_message(error));
}

enum { MODULES = 40, ADDRESSES = 2000 };
static uint64_t addresses[ADDRESSES];
static char paths[MODULES][600];

static const char source[] =
    "#include <algorithm>\n#include <map>\n#include <string>\n#include <vector>\n"
    "template <int N> int f(std::map<std::string, int> &m) { std::vector<std::string> v; for (auto &x : m)\n"
    "v.push_back(x.first + std::to_string(N)); std::sort(v.begin(), v.end()); return (int)v.size(); }\n"
    "int main(int argc, char **argv) { std::map<std::string, int> m; m[argv[0]] = argc;\n"
    "return f<1>(m) + f<2>(m) + f<3>(m); }\n";

static int make_modules(void **state)
{
	if (make_folder(state))
		return -1;
	write_text("a.cpp", source);
	must_run("g++ -O1 -g a.cpp -o a0 && for i in $(seq 1 %d); do cp a0 a$i; done", MODULES - 1);
	for (int i = 0; i < MODULES; i++)
		snprintf(paths[i], sizeof(paths[i]), "%s", in_folder("a%d", i));
	uint64_t start = hex_output("nm a0 | grep ' T main'");
	for (size_t i = 0; i < ADDRESSES; i++)
		addresses[i] = start + 5 * i;
	return 0;
}

static void use(spsym_context *context, const char *path)
{
	spsym_module *module;
	struct spsym_result result = { 0 };
	ok(spsym_module_open_path(context, path, &module));
	ok(spsym_lookup(module, addresses, ADDRESSES, &result));
	assert_string_equal(result.locations[0].symbol.name, "main");
	assert_true(result.locations[0].frame_count);
	spsym_result_deinit(&result);
	spsym_module_release(module);
}

/* Uses all modules; gives the most that was allocated after one of them was released. */
static size_t use_all(spsym_context *context, size_t before)
{
	size_t most = 0;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < MODULES; i++) {
			use(context, paths[i]);
			size_t now = allocated() - before;
			most = now > most ? now : most;
		}
	}
	return most;
}

static size_t most_with(size_t limit)
{
	spsym_context *context;
	struct spsym_options options = { .memory_limit = limit, .no_background = true, .debuginfod_urls = "" };
	size_t before = allocated();
	ok(spsym_context_create(&options, &context));
	size_t most = use_all(context, before);
	spsym_context_destroy(context);
	return most;
}

static void test_budget(void **state)
{
	(void)state;
	size_t one, all = most_with(0), limits[] = { 6 << 20, 2 << 20 };
	spsym_context *context;
	struct spsym_options options = { .no_background = true, .debuginfod_urls = "" };
	size_t before = allocated();
	ok(spsym_context_create(&options, &context));
	use(context, paths[0]);
	one = allocated() - before;
	spsym_context_destroy(context);
	printf("one module %zu KiB, all without a limit %zu KiB\n", one >> 10, all >> 10);
	assert_true(all > 20 * one); /* else the test proves nothing */
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		size_t most = most_with(limits[i]);
		printf("limit %zu KiB: %zu KiB\n", limits[i] >> 10, most >> 10);
		assert_true(all > 2 * limits[i]);
		assert_true(most < limits[i] + limits[i] / 4);
		assert_true(most > limits[i] / 3); /* and it is used */
	}
	assert_true(most_with(1) < one / 2); /* nothing is kept */
}

/* A module that is in use, its results and its lists. */
static void test_in_use(void **state)
{
	(void)state;
	spsym_context *context;
	spsym_module *module, *again;
	struct spsym_result result = { 0 };
	const struct spsym_symbol *symbols;
	size_t count;
	struct spsym_options options = { .memory_limit = 1, .no_background = true, .debuginfod_urls = "" };
	ok(spsym_context_create(&options, &context));
	ok(spsym_module_open_path(context, paths[0], &module));
	ok(spsym_lookup(module, addresses, ADDRESSES, &result));
	ok(spsym_symbols(module, &symbols, &count));
	char **names = calloc(ADDRESSES, sizeof(*names)), **files = calloc(ADDRESSES, sizeof(*files));
	for (size_t i = 0; i < ADDRESSES; i++) {
		const struct spsym_location *l = &result.locations[i];
		names[i] = strdup(l->frame_count && l->frames[0].function ? l->frames[0].function : "");
		files[i] = strdup(l->frame_count && l->frames[0].file ? l->frames[0].file : "");
	}
	char *first = strdup(symbols[0].name);
	use_all(context, 0);
	for (size_t i = 0; i < ADDRESSES; i++) {
		const struct spsym_location *l = &result.locations[i];
		assert_string_equal(names[i], l->frame_count && l->frames[0].function ? l->frames[0].function : "");
		assert_string_equal(files[i], l->frame_count && l->frames[0].file ? l->frames[0].file : "");
		free(names[i]);
		free(files[i]);
	}
	assert_string_equal(first, symbols[0].name);
	ok(spsym_module_open_path(context, paths[0], &again));
	assert_ptr_equal(module, again); /* it was never dropped */
	spsym_module_release(again);
	spsym_module_release(module);
	spsym_result_deinit(&result);
	spsym_context_destroy(context);
	free(first);
	free(names);
	free(files);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_in_use),
	};
	return cmocka_run_group_tests(tests, make_modules, remove_folder);
}
