/* Damaged files through the whole library: cut off at every place, and with bytes changed. Whatever comes out, nothing
 * crashes, hangs or is read out of bounds (the sanitizer builds run this too). */
#include "spsym.h"

#include "fixture_support.h"

static const char source[] =
    "int printf(const char *, ...);\nstatic inline int square(int x) { return x * x; }\n"
    "static __attribute__((noinline)) int hidden(int n) { int s = 0; while (n--) s += square(n); return s; }\n"
    "int shown(int n) { return hidden(n) + printf(\"x\"); }\n";

static spsym_context *context;

/* Opens the bytes and asks for all that the library gives. */
static void use(const uint8_t *bytes, size_t size)
{
	spsym_module *module;
	spsym_error *error = spsym_module_open_bytes(context, bytes, size, "damaged", &module);
	if (error) {
		assert_true(spsym_error_message(error)[0]);
		spsym_error_destroy(error);
		return;
	}
	uint64_t addresses[64];
	for (unsigned i = 0; i < 64; i++)
		addresses[i] = i < 32 ? 0x1000 + 16 * i : i < 48 ? 8 * i : UINT64_MAX >> i;
	struct spsym_result result = { 0 };
	error = spsym_lookup(module, addresses, 64, &result);
	if (error)
		assert_true(spsym_error_message(error)[0]);
	spsym_error_destroy(error);
	const struct spsym_symbol *symbols;
	size_t count;
	error = spsym_symbols(module, &symbols, &count);
	for (size_t i = 0; !error && i < count; i++)
		assert_true(symbols[i].name[0]);
	spsym_error_destroy(error);
	uint8_t code[32];
	spsym_error_destroy(spsym_code(module, addresses[0], code, sizeof(code), &count));
	char *text;
	assert_null(spsym_module_explain(module, &text));
	free(text);
	spsym_result_deinit(&result);
	spsym_module_release(module);
}

/* The sanitizers see a read behind the end only if the end is that of the allocation. */
static void use_copy(const uint8_t *bytes, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	assert_non_null(copy);
	memcpy(copy, bytes, size);
	use(copy, size);
	free(copy);
}

static void damage(const char *name, unsigned seed)
{
	size_t size;
	uint8_t *bytes = read_bytes(name, &size);
	use(bytes, size);
	size_t step = size / 200 + 1;
	for (size_t cut = 0; cut < size; cut += cut < 256 ? 4 : step)
		use_copy(bytes, cut);
	for (unsigned round = 0; round < 500; round++) {
		uint8_t *copy = malloc(size);
		assert_non_null(copy);
		memcpy(copy, bytes, size);
		unsigned changes = 1 + (unsigned)rand_r(&seed) % 8;
		for (unsigned i = 0; i < changes; i++) {
			/* Headers and tables are small; half of the changes go there. */
			size_t at = (size_t)rand_r(&seed) % size;
			if (rand_r(&seed) % 2)
				at = rand_r(&seed) % 2 ? at % (size < 512 ? size : 512)
				                       : size - 1 - at % (size < 2048 ? size : 2048);
			copy[at] = rand_r(&seed) % 3 ? (uint8_t)rand_r(&seed) : rand_r(&seed) % 2 ? 0xff : 0;
		}
		use(copy, size);
		free(copy);
	}
	free(bytes);
}

static void test_damage(void **state)
{
	(void)state;
	static const char *const builds[] = {
		"gcc -O2 -g -shared -fPIC -nostdlib a.c -o x",
		"gcc -O2 -g -gz=zlib -shared -fPIC -nostdlib a.c -o x",
		"gcc -O2 -g -gdwarf-4 -gz=zlib-gnu -shared -fPIC -nostdlib a.c -o x",
		"gcc -O2 -g -c a.c -o x",
		"gcc -O2 -s -shared -fPIC -nostdlib a.c -o x",
		"gcc -O2 -shared -fPIC -nostdlib a.c -o x && llvm-objcopy --strip-sections x",
		"clang -O2 -g -shared -fPIC -nostdlib -fuse-ld=lld a.c -o x",
		"clang -O2 -gdwarf-4 -c a.c -o x",
		"gcc -m32 -O2 -g -c a.c -o x",
		"aarch64-linux-gnu-gcc -O2 -g -c a.c -o x",
		"gcc -O2 -g -shared -fPIC -nostdlib a.c -o full && nm full >/dev/null && xz -kc full >m.xz && strip -o "
		"x full && "
		"objcopy --add-section .gnu_debugdata=m.xz x",
		"grep -m 300 . /proc/kallsyms >x",
	};
	assert_null(spsym_context_create(NULL, &context));
	write_text("a.c", source);
	for (unsigned i = 0; i < sizeof(builds) / sizeof(builds[0]); i++) {
		if (run("%s", builds[i]))
			damage("x", i);
		else
			skip_part("damaged files", builds[i]);
	}
	spsym_context_destroy(context);
}

/* One bad byte in one unit: the other unit still answers. */
static void test_one_bad_unit(void **state)
{
	(void)state;
	write_text("one.c", "volatile int sink; int one(int n) { sink += n; return n; }\n");
	write_text("two.c", "extern volatile int sink; int two(int n) { sink += 2 * n; return n; } int main(void) { "
	                    "return two(1); }\n");
	must_run("gcc -O1 -g one.c two.c -o x");
	size_t size;
	uint8_t *bytes = read_bytes("x", &size);
	uint64_t info = hex_output(
	    "readelf -SW x | sed -n 's/.* \\.debug_info *PROGBITS *[0-9a-f]* *\\([0-9a-f]*\\) .*/\\1/p'");
	uint64_t address = hex_output("nm x | grep ' T two'"), other = hex_output("nm x | grep ' T one'");
	memset(bytes + info + 12, 0xff, 20); /* the first unit's root */
	assert_null(spsym_context_create(NULL, &context));
	spsym_module *module;
	assert_null(spsym_module_open_bytes(context, bytes, size, "x", &module));
	struct spsym_result result = { 0 };
	uint64_t addresses[] = { address, other };
	assert_null(spsym_lookup(module, addresses, 2, &result));
	assert_int_equal(result.locations[0].frame_count, 1);
	assert_string_equal(result.locations[0].frames[0].function, "two");
	assert_string_equal(result.locations[1].symbol.name, "one");
	assert_non_null(result.debug_error); /* what was lost is said */
	spsym_result_deinit(&result);
	spsym_module_release(module);
	spsym_context_destroy(context);
	free(bytes);
}

/* What is odd about a file that is used all the same is told. */
static void test_note(void **state)
{
	(void)state;
	spsym_module *module;
	char *text;
	write_text("a.c", source);
	must_run("gcc -O1 -g -shared -fPIC a.c -o x && head -c 5000 x >cut");
	assert_null(spsym_context_create(NULL, &context));
	assert_null(spsym_module_open_path(context, in_folder("cut"), &module));
	assert_null(spsym_module_explain(module, &text));
	char *told = strstr(text, "cut: the section header table lies past the end");
	assert_non_null(told);
	assert_null(strstr(told + 20, "section header table")); /* once */
	free(text);
	spsym_module_release(module);
	spsym_context_destroy(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_one_bad_unit),
		cmocka_unit_test(test_note),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
