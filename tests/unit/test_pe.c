/* PE images: identity, sections, symbols and unwind functions against llvm-readobj and by construction; the DWARF of
 * MinGW-style binaries against llvm-symbolizer; real files of others where the shared data is there. */
#include "spsym.h"
#include "symbolication/object/object.h"

#include "fixture_support.h"

static const char small_c[] =
    "__attribute__((noinline)) static int inner(int x) { volatile int y = x * 3; return y; }\n"
    "static inline __attribute__((always_inline)) int middle(int x) { return inner(x) + 1; }\n"
    "__declspec(dllexport) int outer_function_with_a_long_name(int x)\n"
    "{ return middle(x) + 2; }\n"
    "int entry(void) { return outer_function_with_a_long_name(7); }\n";

static const struct {
	const char *target, *arch;
	unsigned address_size;
} targets[] = { { "x86_64", "x86_64", 8 }, { "aarch64", "arm64", 8 }, { "i686", "x86", 4 }, { "armv7", "arm", 4 } };
#define TARGETS (sizeof(targets) / sizeof(targets[0]))

/* Makes <target>-gnu.dll (DWARF and COFF symbols) and <target>-msvc.dll (RSDS record). False when the tools lack. */
static bool make_fixtures(void)
{
	if (!have("clang") || !have("lld-link") || !have("llvm-readobj") || !have("llvm-symbolizer")) {
		skip_part("PE files by clang", "clang, lld or llvm is not installed");
		return false;
	}
	write_text("small.c", small_c);
	for (size_t i = 0; i < TARGETS; i++) {
		const char *t = targets[i].target;
		must_run("clang --target=%s-w64-mingw32 -g -O1 -fasynchronous-unwind-tables -nostdlib -fuse-ld=lld "
		         "-shared -Wl,-e,entry small.c -o %s-gnu.dll",
		         t, t);
		if (i == 3)
			continue;
		must_run("clang --target=%s-pc-windows-msvc -g -gcodeview -O1 -fasynchronous-unwind-tables -c small.c "
		         "-o small.obj && lld-link /dll /noentry /nodefaultlib /debug /out:%s-msvc.dll small.obj",
		         t, t);
	}
	return true;
}

static struct sp_object *open_object(const char *name)
{
	struct sp_object *object;
	struct sp_error *error = sp_object_open_path(in_folder("%s", name), &object);
	if (error)
		fail_msg("%s", error->message);
	return object;
}

/* The debug ID of the GUID, which llvm-readobj prints as bytes "(58 DB 3A ...)", from version 15 on as a GUID
 * "{xxxxxxxx-xxxx-...}", and of the age. */
static void expected_debug_id(const char *name, char *ret)
{
	static const unsigned order[16] = { 3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15 };
	char *text = output_of("llvm-readobj --coff-debug-directory %s | sed -n "
	                       "'s/.*PDBGUID: [{(]\\(.*\\)[)}]/\\1/p; s/.*PDBAge: //p'",
	                       name);
	char *age = strchr(text, '\n') + 1;
	bool bytes = age - text == 3 * 16;
	assert_true(bytes || age - text == 36 + 1);
	for (unsigned i = 0; i < 16 && bytes; i++)
		memcpy(ret + 2 * i, text + 3 * order[i], 2);
	for (unsigned i = 0, digits = 0; i < 36 && !bytes; i++)
		if (text[i] != '-')
			ret[digits++] = text[i];
	age[strcspn(age, "\n")] = 0;
	strcpy(ret + 32, age);
	free(text);
}

static void test_identity(void **state)
{
	(void)state;
	for (size_t i = 0; i < TARGETS; i++) {
		char name[64], wanted[64];
		snprintf(name, sizeof(name), "%s-%s.dll", targets[i].target, i == 3 ? "gnu" : "msvc");
		struct spsym_file_info info;
		assert_null(spsym_identify_path(in_folder("%s", name), &info));
		assert_int_equal(info.kind, SPSYM_KIND_PE);
		assert_string_equal(info.arch, targets[i].arch);
		assert_int_equal(info.base,
		                 hex_output("llvm-readobj --file-headers %s | sed -n 's/.*ImageBase: //p'", name));
		assert_true(info.has_code);
		char *image_size = output_of("llvm-readobj --file-headers %s | sed -n 's/.*SizeOfImage: //p'", name);
		snprintf(wanted, sizeof(wanted), "%08X%x",
		         (unsigned)hex_output(
		             "llvm-readobj --file-headers %s | sed -n 's/.*TimeDateStamp: .*(0x\\(.*\\))/\\1/p'", name),
		         (unsigned)strtoul(image_size, NULL, 10));
		free(image_size);
		assert_string_equal(info.code_id, wanted);
		if (i == 3)
			continue;
		assert_false(info.has_debug_info);
		expected_debug_id(name, wanted);
		assert_string_equal(info.debug_id, wanted);
		struct sp_object *object = open_object(name);
		assert_int_equal(sp_object_address_size(object), targets[i].address_size);
		snprintf(wanted, sizeof(wanted), "%s-msvc.pdb", targets[i].target);
		const char *path = sp_object_pdb_path(object);
		assert_true(path && strlen(path) > strlen(wanted));
		assert_string_equal(path + strlen(path) - strlen(wanted), wanted);
		sp_object_destroy(object);
	}
}

static const struct sp_symbol *find_symbol(const struct sp_symbols *symbols, const char *name, unsigned source)
{
	for (size_t i = 0; i < symbols->count; i++) {
		if (symbols->items[i].source == source && strcmp(symbols->items[i].name, name) == 0)
			return &symbols->items[i];
	}
	return NULL;
}

static void test_symbols(void **state)
{
	(void)state;
	for (size_t i = 0; i < TARGETS; i++) {
		char name[64];
		snprintf(name, sizeof(name), "%s-gnu.dll", targets[i].target);
		struct sp_object *object = open_object(name);
		struct sp_symbols symbols;
		assert_null(sp_object_symbols(object, &symbols));
		const char *prefix = i == 2 ? "_" : "";
		char long_name[64], short_name[64];
		snprintf(long_name, sizeof(long_name), "%souter_function_with_a_long_name", prefix);
		snprintf(short_name, sizeof(short_name), "%sentry", prefix);
		uint64_t address = hex_output("llvm-nm %s | sed -n 's/ T %s$//p'", name, long_name);
		const struct sp_symbol *symbol = find_symbol(&symbols, long_name, SP_SYMBOL_SYMTAB);
		assert_non_null(symbol);
		assert_int_equal(symbol->address, address);
		assert_non_null(find_symbol(&symbols, short_name, SP_SYMBOL_SYMTAB));
		symbol = find_symbol(&symbols, "outer_function_with_a_long_name", SP_SYMBOL_EXPORT);
		assert_non_null(symbol);
		assert_int_equal(symbol->address, address);
		sp_symbols_deinit(&symbols);
		sp_object_destroy(object);
	}
}

/* What llvm-readobj says of each function: where it starts and how long it is. */
static void test_functions(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		char name[64];
		snprintf(name, sizeof(name), "%s-msvc.dll", targets[i].target);
		struct sp_object *object = open_object(name);
		struct sp_function_range *ranges;
		size_t count;
		assert_null(sp_object_functions(object, &ranges, &count));
		assert_int_equal(count, 3);
		char *text = output_of(
		    "llvm-readobj --unwind %s | grep -E 'StartAddress|Function:' | grep -o '0x[0-9A-F]*'", name);
		uint64_t first = strtoull(text, NULL, 16);
		free(text);
		assert_int_equal(ranges[0].address, first);
		for (size_t k = 0; k < count; k++)
			assert_in_range(ranges[k].size, 4, 64);
		free(ranges);
		sp_object_destroy(object);
	}
}

/* Function, file and line of every address of the code, and the inline chain, as llvm-symbolizer gives them. */
static void compare_dwarf(const char *name)
{
	struct spsym_context *context;
	struct spsym_module *module;
	assert_null(spsym_context_create(NULL, &context));
	assert_null(spsym_module_open_path(context, in_folder("%s", name), &module));
	struct sp_object *object = open_object(name);
	const struct sp_section *text = sp_object_find_section(object, ".text");
	assert_non_null(text);
	uint64_t base = sp_object_info(object)->base;
	unsigned inlined = 0;
	for (uint64_t address = text->address - base; address < text->address - base + text->size; address += 3) {
		struct spsym_result result = { 0 };
		assert_null(spsym_lookup(module, &address, 1, &result));
		char *wanted = output_of("llvm-symbolizer --obj=%s --output-style=GNU -s 0x%llx", name,
		                         (unsigned long long)(base + address));
		char *at = wanted;
		const struct spsym_location *location = &result.locations[0];
		for (size_t f = 0; f < location->frame_count; f++) {
			char ours[400];
			/* Padding behind a function has a line and no name; the other tool names the nearest symbol. */
			const char *function = location->frames[f].function;
			const char *expected = function ? at : strchr(at, '\n') + 1;
			snprintf(ours, sizeof(ours), "%s%ssmall.c:%u\n", function ? function : "", function ? "\n" : "",
			         location->frames[f].line);
			if (location->frames[f].line && strncmp(expected, ours, strlen(ours)) != 0)
				fail_msg("%s at 0x%llx: \"%s\", wanted \"%s\"", name, (unsigned long long)address, ours,
				         at);
			at = strchr(at, '\n');
			at = strchr(at + 1, '\n') + 1;
		}
		if (location->frame_count ? *at && *at != '\n' : !strstr(at, "\n??:0\n"))
			fail_msg("%s at 0x%llx: there are more frames: %s", name, (unsigned long long)address, at);
		inlined += location->frame_count > 1;
		free(wanted);
		spsym_result_deinit(&result);
	}
	assert_true(inlined > 0);
	sp_object_destroy(object);
	spsym_module_release(module);
	spsym_context_destroy(context);
}

static void test_dwarf(void **state)
{
	(void)state;
	for (size_t i = 0; i < TARGETS; i++) {
		char name[64];
		snprintf(name, sizeof(name), "%s-gnu.dll", targets[i].target);
		compare_dwarf(name);
	}
}

static void expect_identity(const char *name, const char *debug_id)
{
	char path[600];
	struct spsym_file_info info;
	snprintf(path, sizeof(path), "%s/pdb/%s", TEST_SHARED_DATA, name);
	struct sp_error *error = spsym_identify_path(path, &info);
	assert_null(error);
	assert_string_equal(info.debug_id, debug_id);
	assert_string_equal(info.arch, "x86_64");
}

/* A binary without symbols: functions of .pdata, and nothing where there is none. The numbers are those of another
 * symbol server's reply for this file (api-v5-win-exe.txt). */
static void test_shared(void **state)
{
	(void)state;
	if (access(TEST_SHARED_DATA "/pdb/updater.exe", R_OK) != 0) {
		skip_part("PE files of others", "no shared data");
		return;
	}
	expect_identity("updater.exe", "5C08299576CB004F4C4C44205044422E1");
	struct spsym_context *context;
	struct spsym_module *module;
	struct spsym_result result = { 0 };
	assert_null(spsym_context_create(NULL, &context));
	assert_null(spsym_module_open_path(context, TEST_SHARED_DATA "/pdb/updater.exe", &module));
	uint64_t addresses[] = { 27799, 158574 };
	assert_null(spsym_lookup(module, addresses, 2, &result));
	assert_string_equal(result.locations[0].symbol.name, "fun_6520");
	assert_int_equal(result.locations[0].symbol.address, 27799 - 0x777);
	assert_int_equal(result.locations[0].symbol.size, 0x175a);
	assert_null(result.locations[1].symbol.name);
	spsym_result_deinit(&result);
	spsym_module_release(module);
	spsym_context_destroy(context);
}

int main(void)
{
	make_folder(NULL);
	int failed = 0;
	if (make_fixtures()) {
		const struct CMUnitTest tests[] = {
			cmocka_unit_test(test_identity),
			cmocka_unit_test(test_symbols),
			cmocka_unit_test(test_functions),
			cmocka_unit_test(test_dwarf),
		};
		failed = cmocka_run_group_tests(tests, NULL, NULL);
	}
	const struct CMUnitTest shared[] = { cmocka_unit_test(test_shared) };
	failed += cmocka_run_group_tests(shared, NULL, NULL);
	remove_folder(NULL);
	return failed;
}
