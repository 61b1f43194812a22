/* Debug information of every kind compiles to the same index: it gives the same answers, is saved, and is found and
 * used when the file is opened the next time; one of a file that changed is not. Go's: test_go.c. */
#include "common/error.h"
#include "spsym.h"

#include "fixture_support.h"

static void ok(spsym_error *error)
{
	if (error)
		fail_msg("%s", spsym_error_message(error));
}

enum { ADDRESSES = 1024 };

static bool explains(spsym_module *module, const char *what)
{
	char *text;
	ok(spsym_module_explain(module, &text));
	bool found = strstr(text, what);
	free(text);
	return found;
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static void assert_same(const struct spsym_result *a, const struct spsym_result *b)
{
	size_t inlined = 0;
	assert_int_equal(a->count, b->count);
	for (size_t i = 0; i < a->count; i++) {
		const struct spsym_location *x = &a->locations[i], *y = &b->locations[i];
		assert_true(same_text(x->symbol.name, y->symbol.name));
		assert_int_equal(x->symbol.address, y->symbol.address);
		assert_int_equal(x->frame_count, y->frame_count);
		inlined += x->frame_count > 1;
		for (size_t k = 0; k < x->frame_count; k++) {
			const struct spsym_frame *f = &x->frames[k], *g = &y->frames[k];
			assert_true(same_text(f->function, g->function) && same_text(f->file, g->file));
			assert_true(f->line == g->line && f->column == g->column);
		}
	}
	assert_true(inlined);
}

static spsym_module *open_again(spsym_context **context, const char *name)
{
	static char cache[600];
	spsym_module *module;
	snprintf(cache, sizeof(cache), "%s", in_folder("cache"));
	struct spsym_options options = {
		.cache_folder = cache, .debuginfod_urls = "", .symbol_path = "", .no_background = true
	};
	ok(spsym_context_create(&options, context));
	ok(spsym_module_open_path(*context, in_folder("%s", name), &module));
	return module;
}

/* `address` is relative. */
static void check(const char *name, uint64_t address)
{
	spsym_context *first, *context;
	struct spsym_result expected = { 0 }, got = { 0 };
	uint64_t addresses[ADDRESSES];
	for (size_t i = 0; i < ADDRESSES; i++)
		addresses[i] = address + i;
	must_run("rm -rf cache && mkdir cache");
	spsym_module *module = open_again(&first, name);
	ok(spsym_lookup(module, addresses, ADDRESSES, &expected));
	assert_false(explains(module, "saved index"));
	ok(spsym_module_index(module));
	ok(spsym_lookup(module, addresses, ADDRESSES, &got));
	assert_same(&expected, &got);
	must_run("test $(ls cache/indexes/*.spindex | wc -l) = 1");

	spsym_module *second = open_again(&context, name);
	ok(spsym_lookup(second, addresses, ADDRESSES, &got));
	assert_true(explains(second, "saved index: in use"));
	assert_same(&expected, &got);
	const struct spsym_symbol *symbols;
	size_t count;
	ok(spsym_symbols(second, &symbols, &count));
	assert_true(count > 1);
	spsym_module_release(second);
	spsym_context_destroy(context);

	/* another time of change, another file */
	must_run("touch -d '2 days ago' %s", name);
	second = open_again(&context, name);
	ok(spsym_lookup(second, addresses, ADDRESSES, &got));
	assert_false(explains(second, "saved index"));
	assert_same(&expected, &got);
	spsym_module_release(second);
	spsym_context_destroy(context);
	spsym_result_deinit(&expected);
	spsym_result_deinit(&got);
	spsym_module_release(module);
	spsym_context_destroy(first);
}

static const char source[] =
    "int n;\nstatic inline __attribute__((always_inline)) int middle(int x)\n{\n\treturn x * n + 1;\n}\n"
    "int other(int x)\n{\n\tn = x;\n\treturn middle(x) + middle(x + 7);\n}\n"
    "int run(int x)\n{\n\treturn other(x) * middle(x);\n}\n";

static void test_elf(void **state)
{
	(void)state;
	write_text("a.c", source);
	must_run("gcc -O1 -g -shared -fPIC a.c -o a.so");
	check("a.so", hex_output("nm a.so | grep ' T other'"));
	must_run("cp a.so whole.so && objcopy --only-keep-debug whole.so a.debug && strip a.so");
	check("a.debug", hex_output("nm whole.so | grep ' T other'"));
}

static void test_pdb(void **state)
{
	(void)state;
	if (!have("clang") || !have("lld-link")) {
		skip_part("PDBs", "no clang or lld-link here");
		return;
	}
	write_text("a.c", source);
	must_run("clang --target=x86_64-pc-windows-msvc -g -gcodeview -O1 -c a.c -o a.obj && "
	         "lld-link /dll /noentry /nodefaultlib /debug /export:run /export:other /out:a.dll a.obj");
	check("a.pdb", 0x1000);
}

static void test_breakpad(void **state)
{
	(void)state;
	write_text("a.sym", "MODULE Linux x86_64 000102030405060708090A0B0C0D0E0F0 a.so\nFILE 0 /src/a.c\n"
	                    "INLINE_ORIGIN 0 middle(int)\nFUNC 1000 40 0 other(int)\nINLINE 0 9 0 0 1010 10 1028 8\n"
	                    "1000 10 8 0\n1010 10 4 0\n1020 8 9 0\n1028 8 4 0\n1030 10 10 0\n"
	                    "FUNC 1040 20 0 run(int)\n1040 20 13 0\nPUBLIC 1080 0 there\n");
	check("a.sym", 0x1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_elf),
		cmocka_unit_test(test_pdb),
		cmocka_unit_test(test_breakpad),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
