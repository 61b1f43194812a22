/* What real compilers and linkers make that tools get wrong, through the whole library: clones and cold parts, code
 * without debug information, relocations that were applied already, kernel modules, calls at the end of a function, and
 * the names of D. */
#include "common/error.h"
#include "spsym.h"

#include "fixture_support.h"

static void ok(spsym_error *error)
{
	if (error)
		fail_msg("%s", spsym_error_message(error));
}

static spsym_context *context;
static spsym_module *module;
static struct spsym_result result;

static void open_module(const char *name)
{
	struct spsym_options options = { .debuginfod_urls = "", .no_background = true };
	ok(spsym_context_create(&options, &context));
	ok(spsym_module_open_path(context, in_folder("%s", name), &module));
}

static void close_module(void)
{
	spsym_result_deinit(&result);
	spsym_module_release(module);
	spsym_context_destroy(context);
}

/* The answer for an address as nm prints it. */
static const struct spsym_location *at(uint64_t address)
{
	address -= spsym_module_info(module)->base;
	ok(spsym_lookup(module, &address, 1, &result));
	return &result.locations[0];
}

static uint64_t address_of(const char *name, const char *symbol)
{
	uint64_t address = hex_output("nm %s | grep ' [TtWw] %s$'", name, symbol);
	assert_true(address);
	return address;
}

/* gcc's clones: the frame has the function's name, the symbol the clone's; the
 * offset counts from the clone. */
static void test_clones(void **state)
{
	(void)state;
	write_text("a.c", "extern int g(int);\nint split(int);\nint n;\n"
	                  "static __attribute__((noinline)) int work(int a, int b) { for (int i = "
	                  "0; i < a; i++) n += g(i * b); "
	                  "return n; }\n"
	                  "int both(int a) { return work(a, 7) + work(a + 1, 7) + split(a); }\n");
	write_text("split.cpp", "#include <stdexcept>\nextern \"C\" int g(int);\nextern \"C\" int "
	                        "split(int a)\n{\n"
	                        "\tif (a > 5)\n\t\tthrow std::runtime_error(\"x\");\n\treturn "
	                        "g(a) + 1;\n}\n");
	write_text("g.c", "int both(int); int g(int a) { return a; }\n"
	                  "int main(int argc, char **argv) { (void)argv; return both(argc); }\n");
	must_run("gcc -O2 -g -c a.c g.c && g++ -O2 -g a.o g.o split.cpp -o a");
	open_module("a");
	char *clone = output_of("nm a | sed -n 's/.* t \\(work\\.[a-z]*\\.*[0-9]*\\)$/\\1/p'");
	clone[strcspn(clone, "\n")] = '\0';
	assert_true(strncmp(clone, "work.", 5) == 0);
	const struct spsym_location *l = at(address_of("a", clone) + 4);
	assert_string_equal(l->symbol.name, clone);
	assert_string_equal(l->frames[l->frame_count - 1].function, "work");
	uint64_t cold = address_of("a", "split.cold");
	l = at(cold + 1);
	assert_string_equal(l->symbol.name, "split.cold");
	assert_int_equal(l->symbol.address + spsym_module_info(module)->base, cold);
	assert_true(l->frame_count);
	assert_string_equal(l->frames[l->frame_count - 1].function, "split");
	assert_int_equal(l->frames[l->frame_count - 1].line, 6);
	l = at(address_of("a", "split"));
	assert_string_equal(l->symbol.name, "split");
	assert_string_equal(l->frames[0].function, "split");
	free(clone);
	close_module();
}

/* Assembler between compiled functions: its symbol and line, or its symbol
 * alone, never the neighbour's function. */
static void test_no_function(void **state)
{
	(void)state;
	write_text("f.c", "int f(int a) { return a + 1; }\n");
	write_text("main.c", "int f(int); int quiet(int); int loud(int);\n"
	                     "int main(void) { return f(1) + quiet(2) + loud(3); }\n");
	write_text("loud.S", "\t.text\n\t.globl loud\n\t.type loud, "
	                     "@function\nloud:\n\tmov %edi, %eax\n\tadd $1, %eax\n"
	                     "\tret\n\t.size loud, . - loud\n\t.section "
	                     ".note.GNU-stack,\"\",@progbits\n");
	write_text("quiet.S", "\t.text\n\t.globl quiet\n\t.type quiet, @function\nquiet:\n\tmov %edi, "
	                      "%eax\n\tret\n"
	                      "\t.size quiet, . - quiet\n\t.section .note.GNU-stack,\"\",@progbits\n");
	if (!have("gcc") || !run("gcc -g -c loud.S && gcc -c quiet.S")) {
		skip_part("assembler", "not of this machine");
		return;
	}
	must_run("gcc -O1 -g f.c loud.o quiet.o main.c -o a");
	open_module("a");
	uint64_t loud = address_of("a", "loud"), quiet = address_of("a", "quiet");
	const struct spsym_location *l = at(loud + 2);
	assert_string_equal(l->symbol.name, "loud");
	assert_int_equal(l->frame_count, 1);
	assert_int_equal(l->frames[0].line, 6);
	assert_non_null(strstr(l->frames[0].file, "loud.S"));
	assert_true(!l->frames[0].function || strcmp(l->frames[0].function, "loud") == 0);
	l = at(quiet);
	assert_string_equal(l->symbol.name, "quiet");
	assert_int_equal(l->frame_count, 0);
	close_module();
}

/* Relocations that stay in a linked file were applied when it was linked. */
static void test_emitted_relocations(void **state)
{
	(void)state;
	write_text("a.c", "int n;\nstatic inline int twice(int a) { return a + a; }\n"
	                  "int f(int a) {\n\treturn twice(a) * n;\n}\nint main(void) "
	                  "{ return f(3); }\n");
	must_run("gcc -O1 -g -no-pie a.c -o plain && gcc -O1 -g -no-pie "
	         "-Wl,--emit-relocs a.c -o a && "
	         "readelf -SW a | grep -q rela.debug_info");
	uint64_t f = address_of("plain", "f"), other = address_of("a", "f");
	unsigned lines[8];
	const char *functions[8];
	open_module("plain");
	for (unsigned i = 0; i < 8; i++) {
		const struct spsym_location *l = at(f + i);
		assert_true(l->frame_count);
		lines[i] = l->frames[0].line;
		functions[i] = l->frames[0].function; /* lives as long as the module */
	}
	spsym_module *plain = module;
	ok(spsym_module_open_path(context, in_folder("a"), &module));
	for (unsigned i = 0; i < 8; i++) {
		const struct spsym_location *l = at(other + i);
		assert_true(l->frame_count);
		assert_int_equal(l->frames[0].line, lines[i]);
		assert_string_equal(l->frames[0].function, functions[i]);
		assert_string_equal(l->frames[l->frame_count - 1].function, "f");
	}
	spsym_module_release(plain);
	close_module();
}

/* A kernel module, made: every section is at 0 in the file. */
static void check_ko(const char *section, uint64_t offset, const char *function, unsigned line)
{
	uint64_t address;
	ok(spsym_section_address(module, section, offset, &address));
	ok(spsym_lookup(module, &address, 1, &result));
	const struct spsym_location *l = &result.locations[0];
	assert_string_equal(l->symbol.name, function);
	assert_int_equal(l->frame_count, 1);
	assert_string_equal(l->frames[0].function, function);
	assert_int_equal(l->frames[0].line, line);
}

static void test_kernel_module(void **state)
{
	(void)state;
	write_text("a.c", "#define INIT __attribute__((section(\".init.text\")))\n"
	                  "#define EXIT __attribute__((section(\".exit.text\")))\nextern "
	                  "int printk(const char *, ...);\n"
	                  "int first(int a) { return a; }\n"
	                  "int second(int a) { return printk(\"%d\", a); }\n"
	                  "int INIT begin(void) { return printk(\"x\") + first(1); }\n"
	                  "void EXIT end(void) { printk(\"y\"); }\n");
	write_text("b.c", "int third(int a) { return a * 3; }\n");
	must_run("gcc -O2 -g -fno-pic -ffreestanding -fcf-protection=none "
	         "-falign-functions=16 -c a.c b.c && ld -r a.o "
	         "b.o -o a.ko");
	static const char *const debug[] = { "a.ko", "z.ko", "a.ko.xz" };
	must_run("objcopy --compress-debug-sections=zlib a.ko z.ko && xz -k a.ko");
	for (size_t i = 0; i < sizeof(debug) / sizeof(debug[0]); i++) {
		open_module(debug[i]);
		check_ko(".text", 0, "first", 4); /* 0 is an address like any other here */
		check_ko(".text", hex_output("nm a.ko | grep ' T second'"), "second", 5);
		check_ko(".text", hex_output("nm a.ko | grep ' T third'"), "third", 1);
		check_ko(".init.text", 0, "begin", 6);
		check_ko(".exit.text", 0, "end", 7);
		close_module();
	}
}

/* The call that never comes back is the last instruction: the return address is
 * the next function's, one less is the caller's. The same at the end of what is
 * inlined. */
static void test_return_addresses(void **state)
{
	(void)state;
	write_text("a.c", "extern void out(void) __attribute__((noreturn));\nextern "
	                  "void step(void);\nextern int n;\n"
	                  "void last(void) {\n\tstep();\n\tout();\n}\n"
	                  "void next(void) { n = 1; }\n"
	                  "static inline __attribute__((always_inline)) void "
	                  "inner(void) {\n\tn = 2;\n\tstep();\n}\n"
	                  "void outer(void) {\n\tinner();\n\tn = 3;\n}\n");
	write_text("b.c", "#include <stdlib.h>\nint n; void out(void) { exit(0); } "
	                  "void step(void) { n++; }\n"
	                  "void last(void); void next(void); void outer(void);\n"
	                  "int main(void) { outer(); next(); last(); return 0; }\n");
	must_run("gcc -O1 -g -fcf-protection=none -falign-functions=1 "
	         "-fno-reorder-functions a.c b.c -o a");
	open_module("a");
	uint64_t end = hex_output("objdump -d a | awk '/<last>:/ { f = 1 } f && /^$/ { print a; exit } "
	                          "f { a = $1 }' | tr -d :"),
	         next = address_of("a", "next");
	assert_true(end && end < next);
	const struct spsym_location *l = at(next);
	assert_string_equal(l->frames[0].function, "next");
	l = at(next - 1);
	assert_string_equal(l->symbol.name, "last");
	assert_string_equal(l->frames[0].function, "last");
	assert_int_equal(l->frames[0].line, 6);
	uint64_t after = hex_output("objdump -d a | awk '/<outer>:/ { f = 1 } f && c { print $1; exit } "
	                            "f && /call/ { c = 1 }' | tr -d :");
	assert_true(after);
	l = at(after - 1);
	assert_int_equal(l->frame_count, 2);
	assert_string_equal(l->frames[0].function, "inner");
	assert_int_equal(l->frames[0].line, 11);
	assert_int_equal(l->frames[1].line, 14);
	l = at(after);
	assert_int_equal(l->frame_count, 1);
	assert_int_equal(l->frames[0].line, 15);
	close_module();
}

static void test_d(void **state)
{
	(void)state;
	const char *compiler = have("gdc")    ? "gdc -O1 -g -fno-druntime a.d -o a"
	                       : have("ldc2") ? "ldc2 -O1 -g -betterC a.d -of=a"
	                                      : NULL;
	if (!compiler) {
		skip_part("D", "neither gdc nor ldc2 is here");
		return;
	}
	write_text("a.d", "module a;\n__gshared int n;\npragma(inline, false) int "
	                  "twice(int x) { return n + x * 2; }\n"
	                  "extern (C) int main() { return twice(n); }\n");
	must_run("%s", compiler);
	open_module("a");
	const struct spsym_location *l = at(hex_output("nm a | grep '_D1a5twice'"));
	assert_string_equal(l->symbol.name, "a.twice(int)");
	assert_string_equal(l->frames[0].function, "a.twice(int)");
	assert_int_equal(l->frames[0].line, 3);
	assert_non_null(strstr(l->frames[0].file, "a.d"));
	close_module();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clones),
		cmocka_unit_test(test_no_function),
		cmocka_unit_test(test_emitted_relocations),
		cmocka_unit_test(test_kernel_module),
		cmocka_unit_test(test_return_addresses),
		cmocka_unit_test(test_d),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
