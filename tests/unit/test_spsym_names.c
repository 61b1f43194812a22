/* Which name a frame and a symbol get: the symbol's is the linker's, clones and all; the frame's is the debug
 * information's, in the fullest spelling that there is of the same function. */
#include "spsym.h"

#include "fixture_support.h"

static struct spsym_result result;
static spsym_context *context;
static spsym_module *module;

static void open_fixture(const char *name)
{
	assert_null(spsym_context_create(NULL, &context));
	spsym_error *error = spsym_module_open_path(context, in_folder("%s", name), &module);
	if (error)
		fail_msg("%s", spsym_error_message(error));
}

static void close_fixture(void)
{
	spsym_result_deinit(&result);
	spsym_module_release(module);
	spsym_context_destroy(context);
}

/* The outermost frame and the symbol at an address. */
static const struct spsym_frame *outermost(uint64_t address)
{
	assert_null(spsym_lookup(module, &address, 1, &result));
	const struct spsym_location *l = &result.locations[0];
	return l->frame_count ? &l->frames[l->frame_count - 1] : NULL;
}

static void expect(uint64_t address, const char *function, const char *symbol)
{
	const struct spsym_frame *frame = outermost(address);
	assert_non_null(frame);
	assert_non_null(result.locations[0].symbol.name);
	assert_string_equal(frame->function, function);
	assert_string_equal(result.locations[0].symbol.name, symbol);
}

static void test_clones(void **state)
{
	(void)state;
	write_text(
	    "c.cpp",
	    "extern \"C\" void stop(int) __attribute__((cold, noreturn));\n"
	    "volatile int sink; struct pair { long a, b, c, d; };\n"
	    "namespace ns { static __attribute__((noinline)) long part(const pair *p, int unused)\n"
	    "{ for (int i = 0; i < 30; i++) sink += i; return p->a + p->b; }\n"
	    "__attribute__((noinline)) int checked(int n) { if (n < 0) { sink++; stop(n); } return n * sink; } }\n"
	    "int main(int argc, char **) { pair p = { argc, 2, 3, 4 };\n"
	    "return (int)(ns::part(&p, 7) + ns::checked(argc) + ns::part(&p, 7)); }\n"
	    "void stop(int n) { sink = n; for (;;) sink++; }\n");
	must_run("g++ -O2 -g c.cpp -o c && nm c");
	char *clone = output_of("nm c | grep 'ns.*4part' | head -1");
	assert_non_null(strchr(clone, '.')); /* gcc made a clone of it */
	uint64_t address = strtoull(clone, NULL, 16);
	free(clone);
	open_fixture("c");
	const struct spsym_frame *frame = outermost(address);
	assert_non_null(frame);
	assert_string_equal(frame->function, "ns::part"); /* the debug information has no more */
	assert_non_null(strstr(result.locations[0].symbol.name, "ns::part(pair const*, int) [clone ."));
	/* The cold part is a symbol of its own, but no function of its own. */
	address = hex_output("nm c | grep 'checked.*cold'");
	expect(address, "ns::checked(int)", "ns::checked(int) [clone .cold]");
	assert_int_equal(result.locations[0].symbol.address, address);
	close_fixture();
}

/* Compilers may leave linkage names out of the debug information; then the symbol's name is the fuller one. */
static void test_fuller_names(void **state)
{
	(void)state;
	static const char *const flags[] = { "-mllvm -dwarf-linkage-names=Abstract",
		                             "-mllvm -dwarf-linkage-names=Abstract -gsimple-template-names" };
	write_text("f.cpp",
	           "volatile int sink;\n"
	           "namespace ns { struct A { int x; __attribute__((noinline)) int run(int n);\n"
	           "bool operator()(int n) const; }; int A::run(int n) { sink += n; return x; }\n"
	           "bool A::operator()(int n) const { sink += n; return x == n; }\n"
	           "template <class T> __attribute__((noinline)) int make(T t) { sink += (int)t; return sink; } }\n"
	           "extern \"C\" int plain(int n) { sink += n; return 3; }\n"
	           "int main(int argc, char **) { ns::A a = { argc };\n"
	           "return a.run(1) + a(2) + ns::make(3L) + ns::make('x') + plain(4); }\n");
	for (unsigned i = 0; i < 2; i++) {
		if (!run("clang++ -O1 -g %s f.cpp -o f", flags[i])) {
			skip_part("fuller names", flags[i]);
			continue;
		}
		open_fixture("f");
		expect(hex_output("nm f | grep _ZN2ns1A3runEi"), "ns::A::run(int)", "ns::A::run(int)");
		expect(hex_output("nm f | grep _ZNK2ns1AclEi"), "ns::A::operator()(int) const",
		       "ns::A::operator()(int) const");
		expect(hex_output("nm f | grep _ZN2ns4makeIlEEiT_"), "ns::make<long>(long)", "ns::make<long>(long)");
		expect(hex_output("nm f | grep _ZN2ns4makeIcEEiT_"), "ns::make<char>(char)", "ns::make<char>(char)");
		expect(hex_output("nm f | grep ' T plain'"), "plain", "plain");
		expect(hex_output("nm f | grep ' T main'"), "main", "main");
		close_fixture();
	}
}

/* Another symbol at the same code (an alias, folded code) does not rename the function. */
static void test_aliases(void **state)
{
	(void)state;
	write_text("a.c", "volatile int sink; int real_name(int n) { sink += n; return 1; }\n"
	                  "int a_name(int n) __attribute__((alias(\"real_name\")));\n"
	                  "int main(void) { return real_name(1); }\n");
	must_run("gcc -O1 -g a.c -o a");
	open_fixture("a");
	const struct spsym_frame *frame = outermost(hex_output("nm a | grep real_name"));
	assert_non_null(frame);
	assert_string_equal(frame->function, "real_name");
	close_fixture();
}

/* Code without debug information has its symbol only; a gap has neither; line 0 is no line. */
static void test_missing_parts(void **state)
{
	(void)state;
	write_text("s.s",
	           ".text\n.globl in_assembler\n.type in_assembler,@function\n.p2align 6\nin_assembler: nop\nret\n"
	           ".size in_assembler, .-in_assembler\n.p2align 6\n.globl next\n.type next,@function\n"
	           "next: ret\n.size next, .-next\n");
	write_text("m.c", "int in_assembler(void); int main(void) { return in_assembler(); }\n");
	must_run("gcc -c s.s && gcc -O1 -g m.c s.o -o m");
	uint64_t address = hex_output("nm m | grep in_assembler");
	open_fixture("m");
	assert_null(outermost(address + 1));
	assert_string_equal(result.locations[0].symbol.name, "in_assembler");
	assert_int_equal(result.locations[0].symbol.size, 2);
	assert_null(outermost(address + 10));
	assert_null(result.locations[0].symbol.name);
	close_fixture();
}

/* The second engine gives the same frames through the same calls. */
static void test_libdwarf(void **state)
{
	(void)state;
	write_text(
	    "l.c",
	    "volatile int sink; static inline __attribute__((always_inline)) int twice(int n)\n"
	    "{ sink += n;\nreturn 2 * n; }\nint main(int argc, char **argv) { (void)argv;\nreturn twice(argc); }\n");
	must_run("gcc -O1 -g -gz=zlib l.c -o l");
	struct spsym_options options = { .engine = SPSYM_ENGINE_LIBDWARF };
	assert_null(spsym_context_create(&options, &context));
	assert_null(spsym_module_open_path(context, in_folder("l"), &module));
	/* Somewhere in main, which may begin with an instruction of its own. */
	uint64_t start = hex_output("nm l | grep ' T main'"), offset = 0;
	do {
		expect(start + offset, "main", "main");
	} while (result.locations[0].frame_count < 2 && ++offset < 8);
	assert_int_equal(result.locations[0].frame_count, 2);
	assert_string_equal(result.locations[0].frames[0].function, "twice");
	close_fixture();
}

static void test_no_demangling(void **state)
{
	(void)state;
	write_text("n.cpp", "int function(int n) { return n; } int main() { return function(1); }\n");
	must_run("g++ -O0 -g n.cpp -o n");
	struct spsym_options options = { .no_demangling = true };
	assert_null(spsym_context_create(&options, &context));
	assert_null(spsym_module_open_path(context, in_folder("n"), &module));
	expect(hex_output("nm n | grep function"), "_Z8functioni", "_Z8functioni");
	close_fixture();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clones),        cmocka_unit_test(test_fuller_names),
		cmocka_unit_test(test_aliases),       cmocka_unit_test(test_missing_parts),
		cmocka_unit_test(test_no_demangling), cmocka_unit_test(test_libdwarf),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
