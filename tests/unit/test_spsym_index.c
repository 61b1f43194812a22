/* An index gives the answers that the debug information gives: made in memory, made in the background, saved and found
 * again, and when the saved one is damaged, replaced, or belongs to another file. */
#include "common/error.h"
#include "spsym.h"
#include "symbolication/index/cache.h"

#include "fixture_support.h"

#include <time.h>

#define STEP 3

static void ok(spsym_error *error)
{
	if (error)
		fail_msg("%s", spsym_error_message(error));
}

static const char source[] =
    "#include <algorithm>\n#include <map>\n#include <string>\n#include <vector>\n"
    "namespace one { template <class T> static inline T twice(T x) { return x + x; } struct both { int a; both(int b) "
    ": "
    "a(b) {} int get() const { return twice(a); } }; }\n"
    "static int plain(int n) { std::vector<int> v; for (int i = 0; i < n; i++) v.push_back(one::both(i).get());\n"
    "std::sort(v.begin(), v.end()); return v[0]; }\n"
    "int main(int argc, char **argv) { std::map<std::string, int> m; for (int i = 0; i < argc; i++) m[argv[i]] = "
    "plain(i); return (int)m.size(); }\n";

static void make_program(const char *name, const char *flags)
{
	write_text("a.cpp", source);
	must_run("g++ %s a.cpp -o %s", flags, name);
}

/* Addresses of all the code, in no order. */
struct addresses {
	uint64_t *items;
	size_t count;
};

static struct addresses addresses_of(const char *name)
{
	uint64_t start = hex_output(
	    "readelf -SW %s | awk '$2 == \".text\" || $3 == \".text\" { for (i = 1; i < NF; i++) if "
	    "($i == \"PROGBITS\") print $(i + 1) }'",
	    name);
	uint64_t size = hex_output(
	    "readelf -SW %s | awk '$2 == \".text\" || $3 == \".text\" { for (i = 1; i < NF; i++) if "
	    "($i == \"PROGBITS\") print $(i + 3) }'",
	    name);
	struct addresses a = { malloc(size * sizeof(uint64_t)), 0 };
	assert_true(start && size > 1000);
	for (uint64_t i = 0; i < size; i += STEP)
		a.items[a.count++] = start + i;
	for (size_t i = a.count - 1; i; i--) {
		size_t k = (i * 2654435761u) % (i + 1);
		uint64_t swap = a.items[i];
		a.items[i] = a.items[k];
		a.items[k] = swap;
	}
	return a;
}

static spsym_module *open_in(const char *name, const char *cache, bool background, spsym_context **ret)
{
	struct spsym_options options = { .cache_folder = cache, .no_background = !background };
	spsym_module *module;
	ok(spsym_context_create(&options, ret));
	ok(spsym_module_open_path(*ret, in_folder("%s", name), &module));
	return module;
}

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static void expect_same_location(const struct spsym_location *a, const struct spsym_location *b, uint64_t address)
{
	if (!same(a->symbol.name, b->symbol.name) || a->symbol.address != b->symbol.address ||
	    a->symbol.size != b->symbol.size || a->frame_count != b->frame_count)
		fail_msg("0x%llx: %s with %zu frames, not %s with %zu", (unsigned long long)address, b->symbol.name,
		         b->frame_count, a->symbol.name, a->frame_count);
	for (size_t i = 0; i < a->frame_count; i++) {
		const struct spsym_frame *x = &a->frames[i], *y = &b->frames[i];
		if (!same(x->function, y->function) || !same(x->file, y->file) || x->line != y->line ||
		    x->column != y->column)
			fail_msg("0x%llx frame %zu: %s %s:%u:%u, not %s %s:%u:%u", (unsigned long long)address, i,
			         y->function, y->file, y->line, y->column, x->function, x->file, x->line, x->column);
	}
}

static void expect_same(spsym_module *expected, spsym_module *module, const struct addresses *a)
{
	struct spsym_result x = { 0 }, y = { 0 };
	ok(spsym_lookup(expected, a->items, a->count, &x));
	ok(spsym_lookup(module, a->items, a->count, &y));
	assert_int_equal(x.count, y.count);
	for (size_t i = 0; i < x.count; i++)
		expect_same_location(&x.locations[i], &y.locations[i], a->items[i]);
	ok(spsym_lookup_symbols(module, a->items, a->count, &y));
	for (size_t i = 0; i < x.count; i++) {
		assert_true(same(x.locations[i].symbol.name, y.locations[i].symbol.name));
		assert_int_equal(y.locations[i].frame_count, 0);
	}
	const struct spsym_symbol *list, *other;
	size_t count, other_count;
	ok(spsym_symbols(expected, &list, &count));
	ok(spsym_symbols(module, &other, &other_count));
	assert_int_equal(count, other_count);
	for (size_t i = 0; i < count; i++)
		assert_true(same(list[i].name, other[i].name) && list[i].address == other[i].address);
	spsym_result_deinit(&x);
	spsym_result_deinit(&y);
}

/* Compares a module of the same file, with an index or on the way to one, with one that has none. */
static void compare(const char *name, const char *cache, bool make)
{
	spsym_context *plain, *context;
	spsym_module *expected = open_in(name, NULL, false, &plain), *module = open_in(name, cache, false, &context);
	struct addresses a = addresses_of(name);
	if (make)
		ok(spsym_module_index(module));
	expect_same(expected, module, &a);
	expect_same(expected, module, &a);
	free(a.items);
	spsym_module_release(module);
	spsym_module_release(expected);
	spsym_context_destroy(context);
	spsym_context_destroy(plain);
}

static void gives_the_same_answers(void **state)
{
	(void)state;
	static const char *const flags[] = { "-O0 -g",
		                             "-O2 -g",
		                             "-O2 -gdwarf-4",
		                             "-O1 -g1",
		                             "-O2 -g -gz",
		                             "-O2 -g -flto",
		                             "-O2 -gdwarf-5 -fdebug-types-section" };
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		make_program("program", flags[i]);
		compare("program", NULL, true);
	}
	if (!have("clang++")) {
		skip_part("clang", "not installed");
		return;
	}
	must_run("clang++ -O2 -g a.cpp -o program"); /* without .debug_aranges */
	compare("program", NULL, true);
}

/* The units are in .dwo files; while one is missing the index is used but not saved. */
static void works_with_split_units(void **state)
{
	(void)state;
	write_text("a.cpp", source);
	must_run("mkdir -p split && g++ -O2 -g -gsplit-dwarf a.cpp -o split/program");
	must_run("rm -rf cache");
	char cache[600];
	snprintf(cache, sizeof(cache), "%s", in_folder("cache"));
	must_run("mkdir -p away && mv *.dwo split/*.dwo away/ 2>/dev/null; ls away/*.dwo");
	compare("split/program", cache, true);
	must_run("! ls cache/indexes/*");
	must_run("cp away/*.dwo split/ && cp away/*.dwo .");
	compare("split/program", cache, true);
	must_run("ls cache/indexes/*.spindex");
	compare("split/program", cache, false);
}

static void is_found_again(void **state)
{
	(void)state;
	char cache[600];
	snprintf(cache, sizeof(cache), "%s", in_folder("cache"));
	must_run("rm -rf cache");
	make_program("program", "-O2 -g");
	compare("program", cache, true);
	must_run("ls cache/indexes/*.spindex");
	compare("program", cache, false);
	/* The saved one is what answers: without it in place the debug information would be read. */
	spsym_context *context;
	spsym_module *module = open_in("program", cache, false, &context);
	uint64_t address = hex_output("nm program | grep ' T main'");
	struct spsym_result result = { 0 };
	ok(spsym_lookup(module, &address, 1, &result));
	char *report;
	ok(spsym_module_explain(module, &report));
	assert_non_null(strstr(report, "saved index"));
	free(report);
	spsym_result_deinit(&result);
	spsym_module_release(module);
	spsym_context_destroy(context);
	/* Another file in the same place is another key. */
	make_program("program", "-O0 -g");
	compare("program", cache, false);
}

static void damage_costs_the_index_only(void **state)
{
	(void)state;
	char cache[600];
	snprintf(cache, sizeof(cache), "%s", in_folder("cache"));
	make_program("program", "-O2 -g");
	static const char *const damages[] = {
		/* Everywhere but in the header; in the header; cut; empty; another file; a folder. */
		("python3 -c \"p='$f'; b=bytearray(open(p,'rb').read()); b[2000::97]=bytes(x^1 for x in b[2000::97]); "
		 "open(p,'wb').write(b)\""),
		"printf x | dd of=$f bs=1 seek=70 conv=notrunc",
		"truncate -s 3000 $f",
		"truncate -s 0 $f",
		"cp program $f",
		"rm $f && mkdir $f",
	};
	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		must_run("rm -rf cache");
		compare("program", cache, true);
		must_run("f=$(echo cache/indexes/*.spindex) && %s", damages[i]);
		compare("program", cache, false);
		must_run("! test -f cache/indexes/*.spindex");
		compare("program", cache, true);
		compare("program", cache, false);
	}
}

static void is_made_in_the_background(void **state)
{
	(void)state;
	char cache[600];
	snprintf(cache, sizeof(cache), "%s", in_folder("cache"));
	must_run("rm -rf cache");
	make_program("program", "-O2 -g");
	spsym_context *plain, *context;
	spsym_module *expected = open_in("program", NULL, false, &plain);
	spsym_module *module = open_in("program", cache, true, &context);
	struct addresses a = addresses_of("program");
	bool saved = false;
	for (unsigned i = 0; i < 1000 && !saved; i++) {
		expect_same(expected, module, &a);
		saved = run("ls cache/indexes/*.spindex");
	}
	assert_true(saved);
	expect_same(expected, module, &a);
	spsym_module_release(module);
	spsym_context_destroy(context);
	/* One that goes away at once. */
	must_run("rm -rf cache");
	module = open_in("program", cache, true, &context);
	struct spsym_result result = { 0 };
	ok(spsym_lookup(module, a.items, a.count, &result));
	spsym_result_deinit(&result);
	spsym_module_release(module);
	spsym_context_destroy(context);
	spsym_module_release(expected);
	spsym_context_destroy(plain);
	free(a.items);
}

/* The files used least recently go first, and what killed writers left. */
static void folder_stays_small(void **state)
{
	(void)state;
	char cache[600], key[16];
	snprintf(cache, sizeof(cache), "%s", in_folder("small"));
	size_t size = 0;
	for (unsigned i = 0; i < 5; i++) {
		struct sp_index_builder *builder;
		struct sp_index *index;
		ok(sp_index_builder_create(&builder));
		snprintf(key, sizeof(key), "key %u", i);
		ok(sp_index_builder_finish(builder, key, false, &index));
		sp_index_builder_destroy(builder);
		sp_index_bytes(index, &size);
		ok(sp_index_cache_save(cache, index, 3 * size));
		sp_index_destroy(index);
		/* Older than those that come. */
		must_run("for f in small/*; do touch -d \"@$(($(stat -c %%Y $f) - 7200))\" $f; done; true");
		if (i == 2) { /* used again: it becomes younger than the others */
			ok(sp_index_cache_load(cache, "key 0", &index));
			assert_non_null(index);
			assert_string_equal(sp_index_key(index), "key 0");
			sp_index_destroy(index);
			must_run("touch -d '3 days ago' small/left.spindex.1-2.tmp && test $(ls small | wc -l) = 4");
		}
	}
	for (unsigned i = 0; i < 5; i++) {
		struct sp_index *index;
		snprintf(key, sizeof(key), "key %u", i);
		ok(sp_index_cache_load(cache, key, &index));
		assert_int_equal(index != NULL, i == 0 || i > 2);
		sp_index_destroy(index);
	}
	must_run("test $(ls small | wc -l) = 3");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_the_same_answers),
		cmocka_unit_test(works_with_split_units),
		cmocka_unit_test(is_found_again),
		cmocka_unit_test(damage_costs_the_index_only),
		cmocka_unit_test(is_made_in_the_background),
		cmocka_unit_test(folder_stays_small),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
