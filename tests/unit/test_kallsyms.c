/* Kernel symbol lists: kept, read back and looked up. */
#include "spsym.h"
#include "symbolication/kallsyms.h"
#include "symbolication/locate/locate.h"

#include "fixture_support.h"

static const char text[] = "0000000000000000 A fixed_percpu_data\n"
                           "ffffffff81000000 T startup_64\n"
                           "ffffffff81000000 T _stext\n"
                           "ffffffff81000000 T _text\n"
                           "ffffffff81000040 t local_function\n"
                           "ffffffff81000080 W weak_function\n"
                           "ffffffff81000100 T _etext\n"
                           "ffffffff81000200 D some_data\n"
                           "ffffffff82000000 T _sinittext\n"
                           "ffffffff82000000 T x86_init_noop\n"
                           "ffffffff82000010 T _einittext\n"
                           "ffffffffc0001000 t ext4_read\t[ext4]\n"
                           "ffffffffc0001040 t ext4_write\t[ext4]\n"
                           "ffffffffc0001040 d ext4_data\t[ext4]\n"
                           "ffffffffc0002000 t bpf_prog_1234_name\t[bpf]\n";

static const uint8_t build_id[20] = { 0xab, 0xcd, 0xef, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17 };

static struct spsym_module *open_text(struct spsym_context *context, const char *bytes, size_t size)
{
	struct spsym_module *module;
	struct sp_error *error = spsym_module_open_bytes(context, bytes, size, "kallsyms", &module);
	if (error)
		fail_msg("%s", error->message);
	return module;
}

static void expect_symbol(struct spsym_module *module, uint64_t address, const char *name, uint64_t start,
                          uint64_t size)
{
	struct spsym_result result = { 0 };
	assert_null(spsym_lookup(module, &address, 1, &result));
	if (!name) {
		assert_null(result.locations[0].symbol.name);
	} else {
		assert_non_null(result.locations[0].symbol.name);
		assert_string_equal(result.locations[0].symbol.name, name);
		assert_int_equal(result.locations[0].symbol.address, start);
		assert_int_equal(result.locations[0].symbol.size, size);
	}
	spsym_result_deinit(&result);
}

static void test_plain(void **state)
{
	(void)state;
	struct spsym_context *context;
	assert_null(spsym_context_create(NULL, &context));
	struct spsym_module *module = open_text(context, text, sizeof(text) - 1);
	const struct spsym_file_info *info = spsym_module_info(module);
	assert_int_equal(info->kind, SPSYM_KIND_KALLSYMS);
	assert_int_equal(info->base, 0xffffffff81000000);
	expect_symbol(module, 0x10, "startup_64", 0, 0x40); /* labels of the linker script give way */
	expect_symbol(module, 0x41, "local_function", 0x40, 0x40);
	expect_symbol(module, 0xff, "weak_function", 0x80, 0x80);
	expect_symbol(module, 0x100, NULL, 0, 0); /* behind _etext */
	expect_symbol(module, 0x201, NULL, 0, 0); /* data */
	expect_symbol(module, 0x1000001, "x86_init_noop", 0x1000000, 0x10);
	expect_symbol(module, 0x1000010, NULL, 0, 0);
	expect_symbol(module, 0x3f001001, "ext4_read [ext4]", 0x3f001000, 0x40);
	expect_symbol(module, 0x3f002fff, "bpf_prog_1234_name [bpf]", 0x3f002000, 0x1000);
	expect_symbol(module, 0x3f003000, NULL, 0, 0); /* the end of its page */
	spsym_module_release(module);
	spsym_context_destroy(context);
}

static void test_kept(void **state)
{
	(void)state;
	struct sp_kallsyms_image image = { .build_id = build_id, .build_id_size = sizeof(build_id), .arch = "x86_64" };
	char *kept, *path;
	size_t size;
	uint64_t base;
	struct sp_error *error = sp_kallsyms_make(text, sizeof(text) - 1, &image, &kept, &size, &base);
	assert_null(error);
	assert_int_equal(base, 0xffffffff81000000);

	/* As the recorder keeps it, and the viewer asks for it. */
	char debug_id[SPSYM_ID_MAX];
	spsym_debug_id_from_build_id(build_id, sizeof(build_id), false, debug_id);
	assert_null(sp_kept_path(folder, debug_id, &path));
	must_run("mkdir -p kept");
	FILE *file = fopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(kept, 1, size, file), size);
	fclose(file);
	free(kept);
	free(path);
	struct spsym_options options = { .cache_folder = folder };
	struct spsym_context *context;
	struct spsym_module *module;
	struct spsym_identity identity = { .name = "[kernel.kallsyms]", .debug_id = debug_id };
	assert_null(spsym_context_create(&options, &context));
	assert_null(spsym_module_find(context, &identity, &module));
	const struct spsym_file_info *info = spsym_module_info(module);
	assert_string_equal(info->debug_id, debug_id);
	assert_string_equal(info->code_id, "abcdef0102030405060708090a0b0c0d0e0f1011");
	assert_string_equal(info->arch, "x86_64");
	assert_int_equal(info->base, 0xffffffff81000000);
	expect_symbol(module, 0x41, "local_function", 0x40, 0x40);
	expect_symbol(module, 0x3f001001, NULL, 0, 0); /* modules are images of their own */
	spsym_module_release(module);
	debug_id[3] ^= 1;
	error = spsym_module_find(context, &identity, &module);
	assert_non_null(error);
	spsym_error_destroy(error);
	spsym_context_destroy(context);
}

static void test_kept_module(void **state)
{
	(void)state;
	struct sp_kallsyms_image image = { .module = "ext4", .base = 0xffffffffc0001000, .arch = "x86_64" };
	char *kept;
	size_t size;
	assert_null(sp_kallsyms_make(text, sizeof(text) - 1, &image, &kept, &size, NULL));
	struct spsym_context *context;
	assert_null(spsym_context_create(NULL, &context));
	struct spsym_module *module = open_text(context, kept, size);
	expect_symbol(module, 0, "ext4_read", 0, 0x40);
	expect_symbol(module, 0x41, "ext4_write", 0x40, 0xfc0);
	spsym_module_release(module);
	spsym_context_destroy(context);
	free(kept);
	image.module = "xfs";
	struct sp_error *error = sp_kallsyms_make(text, sizeof(text) - 1, &image, &kept, &size, NULL);
	assert_non_null(error);
	assert_int_equal(error->code, SP_ERROR_NOT_FOUND);
	sp_error_destroy(error);
}

static void test_hidden(void **state)
{
	(void)state;
	static const char hidden[] = "0000000000000000 T _text\n0000000000000000 t f\n";
	struct sp_kallsyms_image image = { .arch = "x86_64" };
	char *kept;
	size_t size;
	struct sp_error *error = sp_kallsyms_make(hidden, sizeof(hidden) - 1, &image, &kept, &size, NULL);
	assert_non_null(error);
	assert_int_equal(error->code, SP_ERROR_PERMISSION);
	sp_error_destroy(error);
	struct spsym_context *context;
	struct spsym_module *module;
	assert_null(spsym_context_create(NULL, &context));
	error = spsym_module_open_bytes(context, hidden, sizeof(hidden) - 1, "kallsyms", &module);
	assert_non_null(error);
	assert_int_equal(error->code, SP_ERROR_PERMISSION);
	sp_error_destroy(error);
	spsym_context_destroy(context);
}

/* Every line's own address finds it, or a name beside it at that address. */
static void test_this_kernel(void **state)
{
	(void)state;
	size_t size;
	must_run("cat /proc/kallsyms >kallsyms");
	char *list = (char *)read_bytes("kallsyms", &size);
	struct spsym_file_info info;
	struct sp_symbols symbols;
	struct sp_error *error = sp_kallsyms_read(list, size, &symbols, &info);
	if (error) {
		assert_int_equal(error->code, SP_ERROR_PERMISSION);
		sp_error_destroy(error);
		skip_part("this kernel's symbols", "it hides their addresses");
		free(list);
		return;
	}
	char *count_text = output_of("grep -c ' [tTwW] ' kallsyms");
	size_t expected = strtoul(count_text, NULL, 10);
	assert_true(symbols.count <= expected && symbols.count + 20 > expected); /* without end labels */
	for (size_t i = 1; i < symbols.count; i++)
		assert_true(symbols.items[i].address >= symbols.items[i - 1].address);
	printf("%zu symbols of this kernel\n", symbols.count);
	sp_symbols_deinit(&symbols);
	free(count_text);
	free(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),  cmocka_unit_test(test_kept),        cmocka_unit_test(test_kept_module),
		cmocka_unit_test(test_hidden), cmocka_unit_test(test_this_kernel),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
