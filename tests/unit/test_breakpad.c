/* Breakpad .sym files: a file whose answers are known by construction, from its text and from the index made of it, its
 * place in symbol folders, and files that are damaged in every way. */
#include "common/file.h"
#include "spsym.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define ID "0123456789ABCDEF0123456789ABCDEF0"

static const char text[] = "MODULE Linux x86_64 " ID " some name.so\n"
                           "INFO CODE_ID 67452301AB89EFCD0123456789ABCDEF00112233 some name.so\n"
                           "FILE 0 /src/a.c\r\n"
                           "FILE 1 /src/with blank.h\n"
                           "FILE 10 /src/c.c\n"
                           "INLINE_ORIGIN 0 inner<int, long>(int)\n"
                           "INLINE_ORIGIN 1 middle()\n"
                           "FUNC 1000 40 0 outer(int, char)\n"
                           "INLINE 0 12 0 1 1010 10 1030 8\n"
                           "INLINE 1 34 1 0 1014 4\n"
                           "1000 10 11 0\n"
                           "1010 4 33 1\n"
                           "1014 4 5 10\n"
                           "1018 8 35 1\n"
                           "1020 10 13 0\n"
                           "1030 8 36 1\n"
                           "1038 8 14 0\n"
                           "FUNC m 2000 10 0 folded\n"
                           "2000 10 7 10\n"
                           "FUNC 2010 10 0 no lines\n"
                           "PUBLIC 3000 0 public one\n"
                           "PUBLIC m 3010 0 public two\n"
                           "STACK CFI INIT 1000 40 .cfa: $rsp 8 + .ra: .cfa -8 + ^\n";

static const struct {
	uint64_t address;
	const char *symbol, *chain;
} answers[] = {
	{ 0xfff, NULL, "" },
	{ 0x1000, "outer(int, char)", "outer(int, char) /src/a.c:11;" },
	{ 0x1010, "outer(int, char)", "middle() /src/with blank.h:33;outer(int, char) /src/a.c:12;" },
	{ 0x1014, "outer(int, char)",
	  "inner<int, long>(int) /src/c.c:5;middle() /src/with blank.h:34;outer(int, char) /src/a.c:12;" },
	{ 0x1018, "outer(int, char)", "middle() /src/with blank.h:35;outer(int, char) /src/a.c:12;" },
	{ 0x1020, "outer(int, char)", "outer(int, char) /src/a.c:13;" },
	{ 0x1037, "outer(int, char)", "middle() /src/with blank.h:36;outer(int, char) /src/a.c:12;" },
	{ 0x103f, "outer(int, char)", "outer(int, char) /src/a.c:14;" },
	{ 0x1040, NULL, "" },
	{ 0x200f, "folded", "folded /src/c.c:7;" },
	{ 0x2010, "no lines", "no lines ??:0;" },
	{ 0x3008, "public one", "" },
};
#define COUNT (sizeof(answers) / sizeof(answers[0]))

static void check_answers(spsym_module *module)
{
	uint64_t addresses[COUNT];
	struct spsym_result result = { 0 };
	for (size_t i = 0; i < COUNT; i++)
		addresses[i] = answers[i].address;
	assert_null(spsym_lookup(module, addresses, COUNT, &result));
	for (size_t i = 0; i < COUNT; i++) {
		char chain[512] = "";
		for (size_t f = 0; f < result.locations[i].frame_count; f++) {
			const struct spsym_frame *frame = &result.locations[i].frames[f];
			size_t used = strlen(chain);
			snprintf(chain + used, sizeof(chain) - used, "%s %s:%u;", frame->function,
			         frame->file ? frame->file : "??", frame->line);
		}
		assert_string_equal(chain, answers[i].chain);
		if (answers[i].symbol)
			assert_string_equal(result.locations[i].symbol.name, answers[i].symbol);
		else
			assert_null(result.locations[i].symbol.name);
	}
	spsym_result_deinit(&result);
}

static void test_answers(void **state)
{
	(void)state;
	struct spsym_options options = { .no_background = true };
	spsym_context *context;
	spsym_module *module;
	assert_null(spsym_context_create(&options, &context));
	assert_null(spsym_module_open_bytes(context, text, sizeof(text) - 1, "x.sym", &module));
	const struct spsym_file_info *info = spsym_module_info(module);
	assert_int_equal(info->kind, SPSYM_KIND_BREAKPAD);
	assert_string_equal(info->debug_id, ID);
	assert_string_equal(info->code_id, "67452301AB89EFCD0123456789ABCDEF00112233");
	assert_string_equal(info->arch, "x86_64");
	check_answers(module);
	assert_null(spsym_module_index(module));
	check_answers(module); /* now from the index */

	const struct spsym_symbol *symbols;
	size_t count;
	assert_null(spsym_symbols(module, &symbols, &count));
	assert_int_equal(count, 5);
	assert_string_equal(symbols[4].name, "public two");
	spsym_module_release(module);
	spsym_context_destroy(context);
}

/* NAME/ID/NAME.sym, by the identity that a profile gives. */
static void test_folder(void **state)
{
	(void)state;
	char folder[] = "/tmp/sp-breakpad-XXXXXX", path[256];
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/lib.so", folder);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/lib.so/" ID, folder);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/lib.so/" ID "/lib.so.sym", folder);
	assert_null(sp_file_write_atomic(path, text, sizeof(text) - 1));

	const char *const folders[] = { folder, NULL };
	struct spsym_options options = { .symbol_folders = folders, .no_background = true, .debuginfod_urls = "" };
	struct spsym_identity identity = { .debug_name = "lib.so", .debug_id = ID };
	spsym_context *context;
	spsym_module *module;
	assert_null(spsym_context_create(&options, &context));
	assert_null(spsym_module_find(context, &identity, &module));
	check_answers(module);
	spsym_module_release(module);
	/* Another build's file is not used, wherever it lies. */
	identity.debug_id = "1123456789ABCDEF0123456789ABCDEF0";
	spsym_error *error = spsym_module_find(context, &identity, &module);
	assert_non_null(error);
	spsym_error_destroy(error);
	spsym_context_destroy(context);

	unlink(path);
	snprintf(path, sizeof(path), "%s/lib.so/" ID, folder);
	rmdir(path);
	snprintf(path, sizeof(path), "%s/lib.so", folder);
	rmdir(path);
	rmdir(folder);
}

/* Opens and asks whatever `bytes` are; any answer is right, as long as there is one. */
static void ask_all(spsym_context *context, const char *bytes, size_t size)
{
	spsym_module *module;
	spsym_error *error = spsym_module_open_bytes(context, bytes, size, "x.sym", &module);
	if (error) {
		spsym_error_destroy(error);
		return;
	}
	struct spsym_result result = { 0 };
	static const uint64_t addresses[] = { 0, 0x1000, 0x1014, 0x1037, 0x2010, 0x3000, UINT64_MAX };
	assert_null(spsym_lookup(module, addresses, sizeof(addresses) / sizeof(addresses[0]), &result));
	spsym_result_deinit(&result);
	spsym_error_destroy(spsym_module_index(module));
	spsym_module_release(module);
}

static void test_damaged(void **state)
{
	(void)state;
	static const char *const lines[] = { "",
		                             "FUNC\nFUNC \nFUNC m\nFUNC zz 1 0 x\nFUNC 1000 10\n1000 10 1 0\n",
		                             "FUNC ffffffffffffffff ffffffffffffffff 0 wraps\nffffffffffffffff 2 1 0\n",
		                             "FUNC 1000 fffffffffffffffff 0 too long a number\n",
		                             ("FUNC 1000 40 0 f\nINLINE 5 1 0 0 1000 40\nINLINE 99999 1 0 0 1000 40\n"
		                              "INLINE 0 1 7 7 1000 40 1000\nINLINE\n"),
		                             "FILE 99999999999999999999 x\nFILE 0\nFILE x y\nINLINE_ORIGIN 0\n",
		                             "FUNC 1000 40 0 a\nFUNC 1000 40 0 b\nFUNC 1010 10 0 c\n1010 10 1 0\n",
		                             "PUBLIC\nPUBLIC m\nPUBLIC 1000\nPUBLIC 1000 0\nPUBLIC zz 0 x\n" };
	struct spsym_options options = { .no_background = true };
	spsym_context *context;
	assert_null(spsym_context_create(&options, &context));
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char whole[1024];
		int size = snprintf(whole, sizeof(whole), "MODULE Linux x86_64 " ID " x\n%s", lines[i]);
		ask_all(context, whole, (size_t)size);
	}
	for (size_t size = 0; size < sizeof(text); size++) /* cut off anywhere */
		ask_all(context, text, size);
	char copy[sizeof(text)];
	for (size_t at = 0; at < sizeof(text) - 1; at++) { /* one character changed */
		memcpy(copy, text, sizeof(text));
		copy[at] = at % 3 ? '\n' : 'f';
		ask_all(context, copy, sizeof(text) - 1);
	}
	spsym_context_destroy(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_folder),
		cmocka_unit_test(test_damaged),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
