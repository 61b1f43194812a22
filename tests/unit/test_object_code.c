/* Names of stubs against objdump, unwind functions against readelf, identity against readelf and by construction. */
#include "symbolication/object/object.h"

#include "fixture_support.h"

static struct sp_object *open_fixture(const char *name)
{
	struct sp_object *object;
	struct sp_error *error = sp_object_open_path(in_folder("%s", name), &object);
	if (error)
		fail_msg("%s", error->message);
	return object;
}

static const struct sp_symbol *stub_at(const struct sp_symbols *symbols, uint64_t address)
{
	for (size_t i = 0; i < symbols->count; i++) {
		if (symbols->items[i].source == SP_SYMBOL_PLT && symbols->items[i].address == address)
			return &symbols->items[i];
	}
	return NULL;
}

static size_t count_stubs(const struct sp_symbols *symbols)
{
	size_t count = 0;
	for (size_t i = 0; i < symbols->count; i++)
		count += symbols->items[i].source == SP_SYMBOL_PLT;
	return count;
}

/* objdump labels stubs as "0000000000001030 <puts@plt>:". Every label must be ours; `expected` stubs in all. */
static void compare_with_objdump(const char *name, const char *objdump, size_t expected)
{
	struct sp_object *object = open_fixture(name);
	struct sp_symbols symbols;
	assert_null(sp_object_symbols(object, &symbols));
	char *text = output_of("%s -d --no-show-raw-insn %s | grep '@plt>:$' || true", objdump, name);
	size_t labels = 0;
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		char label[256];
		unsigned long long address;
		if (sscanf(line, "%llx <%255[^>]>:", &address, label) != 2 || strchr(label, '*'))
			continue;
		const struct sp_symbol *stub = stub_at(&symbols, address);
		if (!stub)
			fail_msg("%s: no stub at 0x%llx, which objdump calls %s", name, address, label);
		assert_string_equal(stub->name, label);
		labels++;
	}
	free(text);
	assert_int_equal(count_stubs(&symbols), expected);
	assert_true(labels == expected);
	sp_symbols_deinit(&symbols);
	sp_object_destroy(object);
}

static void test_stubs(void **state)
{
	(void)state;
	static const struct {
		const char *compiler, *objdump;
		size_t stubs;
	} cases[] = {
		{ "gcc -Wl,-z,lazy", "objdump", 2 },
		{ "gcc -Wl,-z,now", "objdump", 2 },
		{ "gcc -fcf-protection -Wl,-z,ibtplt,-z,lazy", "objdump", 2 },
		{ "gcc -fcf-protection -Wl,-z,ibtplt,-z,now", "objdump", 2 },
		{ "gcc -m32 -Wl,-z,lazy", "objdump", 2 },
		{ "gcc -m32 -Wl,-z,now", "objdump", 2 },
		{ "gcc -m32 -fcf-protection -Wl,-z,ibtplt", "objdump", 2 },
		{ "clang -fuse-ld=lld", "objdump", 2 },
		{ "clang -fuse-ld=lld -fcf-protection -Wl,-z,force-ibt", "objdump", 2 },
		{ "clang -fuse-ld=gold", "objdump", 2 },
		{ "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-objdump", 2 },
		{ "aarch64-linux-gnu-gcc -mbranch-protection=standard -Wl,-z,force-bti", "aarch64-linux-gnu-objdump",
		  2 },
		{ "aarch64-linux-gnu-gcc -mbranch-protection=standard -Wl,-z,force-bti,-z,pac-plt",
		  "aarch64-linux-gnu-objdump", 2 },
		{ "clang --target=aarch64-linux-gnu -fuse-ld=lld", "aarch64-linux-gnu-objdump", 2 },
		{ "clang --target=aarch64-linux-gnu -fuse-ld=lld -mbranch-protection=standard "
		  "-Wl,-z,force-bti,-z,pac-plt",
		  "aarch64-linux-gnu-objdump", 2 },
	};
	write_text("p.c", "int imported(int); int other(void); int f(int x) { return imported(x) + other(); }\n");
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (!run("%s -O2 -shared -fPIC -nostdlib p.c -o p.so", cases[i].compiler)) {
			skip_part("stubs", cases[i].compiler);
			continue;
		}
		compare_with_objdump("p.so", cases[i].objdump, cases[i].stubs);
	}
}

/* .plt.got: a stub for a function whose address is taken, too. */
static void test_stub_beside_got(void **state)
{
	(void)state;
	write_text("g.c", "int imported(int); int (*volatile kept)(int);\n"
	                  "int f(int x) { kept = imported; return imported(x); }\n");
	static const char *const flags[] = { "", "-fcf-protection -Wl,-z,ibtplt", "-m32" };
	for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		must_run(
		    "gcc %s -O2 -shared -fPIC -nostdlib g.c -o g.so && objdump -d g.so | grep -q 'section .plt.got'",
		    flags[i]);
		compare_with_objdump("g.so", "objdump", 1);
	}
}

/* A position-dependent i386 program calls through absolute slots. */
static void test_stub_absolute(void **state)
{
	(void)state;
	write_text("lib.c", "int imported(int x) { return x; }\n");
	write_text("main.c", "int imported(int); void _start(void) { imported(1); for (;;) ; }\n");
	must_run("gcc -m32 -shared -fPIC -nostdlib lib.c -o lib32.so && "
	         "gcc -m32 -no-pie -fno-pic -nostdlib main.c lib32.so -o main32");
	compare_with_objdump("main32", "objdump", 1);
}

/* lld's 24-byte stubs with BTI, which objdump 2.40 places wrongly: what each stub loads is its own slot. */
static void test_stub_sizes(void **state)
{
	(void)state;
	write_text("p.c", "int imported(int); int other(void); int f(int x) { return imported(x) + other(); }\n");
	if (!run("clang --target=aarch64-linux-gnu -fuse-ld=lld -mbranch-protection=standard -Wl,-z,force-bti -O2 "
	         "-shared "
	         "-fPIC -nostdlib p.c -o p.so")) {
		skip_part("stubs of lld with BTI", "clang or lld is missing");
		return;
	}
	struct sp_object *object = open_fixture("p.so");
	struct sp_symbols symbols;
	assert_null(sp_object_symbols(object, &symbols));
	assert_int_equal(count_stubs(&symbols), 2);
	const struct sp_section *plt = sp_object_find_section(object, ".plt");
	const struct sp_symbol *first = stub_at(&symbols, plt->address + 32),
	                       *second = stub_at(&symbols, plt->address + 56);
	assert_non_null(first);
	assert_non_null(second);
	assert_int_equal(first->size, 24);
	assert_int_equal(second->size, 24);
	assert_string_equal(first->name, "imported@plt");
	assert_string_equal(second->name, "other@plt");
	sp_symbols_deinit(&symbols);
	sp_object_destroy(object);
}

/* IRELATIVE: the stub gets the name of the function whose resolver its slot names. */
static void test_stub_resolver(void **state)
{
	(void)state;
	write_text("i.c", "static int one(void) { return 1; }\n"
	                  "static void *resolve(void) { return one; }\n"
	                  "int chosen(void) __attribute__((ifunc(\"resolve\")));\n"
	                  "void _start(void) { for (;;) chosen(); }\n");
	static const char *const compilers[] = { "gcc", "clang -fuse-ld=lld", "aarch64-linux-gnu-gcc" };
	for (unsigned i = 0; i < sizeof(compilers) / sizeof(compilers[0]); i++) {
		if (!run("%s -O0 -static -nostdlib -fno-pic -no-pie i.c -o i", compilers[i])) {
			skip_part("stubs of resolvers", compilers[i]);
			continue;
		}
		struct sp_object *object = open_fixture("i");
		struct sp_symbols symbols;
		assert_null(sp_object_symbols(object, &symbols));
		assert_int_equal(count_stubs(&symbols), 1);
		for (size_t k = 0; k < symbols.count; k++) {
			if (symbols.items[k].source == SP_SYMBOL_PLT)
				assert_string_equal(symbols.items[k].name, "chosen@plt");
		}
		sp_symbols_deinit(&symbols);
		sp_object_destroy(object);
	}
}

static bool has_range(const struct sp_function_range *ranges, size_t count, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < count; i++) {
		if (ranges[i].address == start && ranges[i].address + ranges[i].size == end)
			return true;
	}
	return false;
}

/* readelf prints "... FDE cie=00000000 pc=0000000000001000..0000000000001010". */
static size_t compare_with_readelf(const char *path)
{
	struct sp_object *object;
	assert_null(sp_object_open_path(path, &object));
	struct sp_function_range *ranges;
	size_t count, expected = 0;
	assert_null(sp_object_functions(object, &ranges, &count));
	char *text = output_of("readelf --debug-dump=frames '%s' 2>/dev/null | "
	                       "sed -n '/section contains:/h;/Contents of the .eh_frame section/h;"
	                       "/Contents of the .debug_frame/h;/ FDE /{x;/eh_frame/{x;p;x};x}'",
	                       path);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		unsigned long long start, end;
		const char *at = strstr(line, "pc=");
		if (!at || sscanf(at, "pc=%llx..%llx", &start, &end) != 2 || start == end)
			continue;
		if (!has_range(ranges, count, start, end))
			fail_msg("%s: no function %llx..%llx", path, start, end);
		expected++;
	}
	free(text);
	assert_int_equal(count, expected);
	free(ranges);
	sp_object_destroy(object);
	return expected;
}

static void test_unwind_functions(void **state)
{
	(void)state;
	static const char *const compilers[] = {
		"gcc", "clang", "gcc -m32", "aarch64-linux-gnu-gcc", "clang -fuse-ld=lld", "musl-gcc"
	};
	assert_true(compare_with_readelf("/bin/ls") > 50);
	write_text("u.cpp", "extern \"C\" int g(int); struct S { ~S(); };\n"
	                    "int f(int x) { S s; return g(x) + 1; } int h(int x) { S s; return g(x) + f(x); }\n");
	write_text("u.c", "int g(int); int f(int x) { return g(x) + 1; } int h(int x) { return g(x) + f(x); }\n");
	for (unsigned i = 0; i < sizeof(compilers) / sizeof(compilers[0]); i++) {
		if (!run("%s -O2 -shared -fPIC -fasynchronous-unwind-tables -nostdlib u.c -o u.so", compilers[i])) {
			skip_part("unwind functions", compilers[i]);
			continue;
		}
		assert_true(compare_with_readelf(in_folder("u.so")) >= 2);
		/* With a personality and LSDA pointers in the augmentation. */
		if (run("%s -O2 -shared -fPIC -nostdlib u.cpp -o u.so", compilers[i]))
			assert_true(compare_with_readelf(in_folder("u.so")) >= 2);
	}
}

/* Build IDs of every length, in a section and only in a segment; the debug ID is 16 of their bytes. */
static void test_build_id(void **state)
{
	(void)state;
	static const struct {
		const char *flag, *code_id, *debug_id;
	} cases[] = {
		{ "0x0123456789abcdef0123456789abcdef01234567", "0123456789abcdef0123456789abcdef01234567",
		  "67452301AB89EFCD0123456789ABCDEF0" },
		{ "0x0123456789abcdef", "0123456789abcdef", "67452301AB89EFCD00000000000000000" },
		{ "0xff", "ff", "000000FF0000000000000000000000000" },
	};
	write_text("b.c", "int f(int x) { return x; }\n");
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		must_run("gcc -shared -nostdlib -Wl,--build-id=%s b.c -o b.so && cp b.so c.so && "
		         "llvm-objcopy --strip-sections c.so",
		         cases[i].flag);
		static const char *const names[] = { "b.so", "c.so" };
		for (unsigned k = 0; k < 2; k++) {
			struct sp_object *object = open_fixture(names[k]);
			assert_string_equal(sp_object_info(object)->code_id, cases[i].code_id);
			assert_string_equal(sp_object_info(object)->debug_id, cases[i].debug_id);
			sp_object_destroy(object);
		}
	}
	/* Big-endian fields stay as they are. */
	char id[SPSYM_ID_MAX];
	spsym_debug_id_from_build_id(
	    (const uint8_t *)"\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef", 16, true, id);
	assert_string_equal(id, "0123456789ABCDEF0123456789ABCDEF0");
}

/* Without a build ID the code identifies a file; a separate debug file then has no ID at all. */
static void test_text_hash(void **state)
{
	(void)state;
	write_text("b.c", "int f(int x) { return x * 3; } int g(int x) { return x + f(x); }\n");
	must_run("gcc -O1 -g -shared -nostdlib -Wl,--build-id=none b.c -o n.so && strip -o s.so n.so && "
	         "objcopy --only-keep-debug n.so n.debug && objcopy -O binary -j .text n.so text");
	size_t size;
	uint8_t *text = read_bytes("text", &size), hash[16] = { 0 };
	for (size_t i = 0; i < size && i < 4096; i++)
		hash[i % 16] ^= text[i];
	free(text);
	char expected[SPSYM_ID_MAX];
	spsym_debug_id_from_build_id(hash, 16, false, expected);
	struct sp_object *object = open_fixture("n.so");
	assert_string_equal(sp_object_info(object)->debug_id, expected);
	assert_string_equal(sp_object_info(object)->code_id, "");
	sp_object_destroy(object);
	object = open_fixture("s.so");
	assert_string_equal(sp_object_info(object)->debug_id, expected);
	assert_true(sp_object_info(object)->has_code && !sp_object_info(object)->has_symbols);
	sp_object_destroy(object);
	object = open_fixture("n.debug");
	assert_string_equal(sp_object_info(object)->debug_id, "");
	assert_true(!sp_object_info(object)->has_code && sp_object_info(object)->has_symbols &&
	            sp_object_info(object)->has_debug_info);
	sp_object_destroy(object);
}

/* Code comes from the binary only, also when a debug file's segments claim to have it. */
static void test_image_bytes(void **state)
{
	(void)state;
	write_text("b.c", "int f(int x) { return x * 3; }\n");
	must_run("gcc -O1 -g -shared -nostdlib b.c -o n.so && eu-strip -f n.debug -o s.so n.so && "
	         "objcopy -O binary -j .text n.so text");
	size_t size, text_size;
	uint8_t *text = read_bytes("text", &text_size);
	struct sp_object *object = open_fixture("s.so");
	uint64_t address = sp_object_find_section(object, ".text")->address;
	size = text_size;
	const uint8_t *bytes = sp_object_image_bytes(object, address, &size);
	assert_non_null(bytes);
	assert_int_equal(size, text_size);
	assert_memory_equal(bytes, text, size);
	size = 16;
	assert_null(sp_object_image_bytes(object, UINT64_MAX - 4, &size));
	assert_int_equal(size, 0);
	sp_object_destroy(object);
	object = open_fixture("n.debug");
	assert_null(sp_object_image_bytes(object, address, &size));
	sp_object_destroy(object);
	free(text);
}

/* The Thumb bit is no part of an address; mapping symbols are no functions. */
static void test_arm(void **state)
{
	(void)state;
	write_text("t.s", ".syntax unified\n.thumb\n.text\n.global f\n.type f,%function\n.thumb_func\nf: bx lr\n"
	                  ".size f, .-f\n.arm\n.global g\n.type g,%function\ng: bx lr\n.size g, .-g\n");
	if (!run("clang --target=armv7-linux-gnueabi -c t.s -o t.o && ld.lld -shared t.o -o t.so")) {
		skip_part("ARM", "clang or lld cannot make it");
		return;
	}
	struct sp_object *object = open_fixture("t.so");
	assert_string_equal(sp_object_info(object)->arch, "arm");
	uint64_t text = sp_object_find_section(object, ".text")->address;
	struct sp_symbols symbols;
	assert_null(sp_object_symbols(object, &symbols));
	size_t f = 0, g = 0;
	for (size_t i = 0; i < symbols.count; i++) {
		f += strcmp(symbols.items[i].name, "f") == 0 && symbols.items[i].address == text;
		g += strcmp(symbols.items[i].name, "g") == 0 && symbols.items[i].address > text;
	}
	assert_int_equal(f, 2); /* .symtab and .dynsym */
	assert_int_equal(g, 2);
	assert_int_equal(symbols.count, 4);
	sp_symbols_deinit(&symbols);
	sp_object_destroy(object);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stubs),         cmocka_unit_test(test_stub_beside_got),
		cmocka_unit_test(test_stub_absolute), cmocka_unit_test(test_stub_sizes),
		cmocka_unit_test(test_stub_resolver), cmocka_unit_test(test_unwind_functions),
		cmocka_unit_test(test_build_id),      cmocka_unit_test(test_text_hash),
		cmocka_unit_test(test_image_bytes),   cmocka_unit_test(test_arm),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
