/* The symbol library on this very program, whose answers are known: its own functions, lines and threads. */
#include "spsym.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void);

/* An address inside a function inlined into another one, and the lines of both. */
struct mark {
	void *address;
	unsigned inner_line, outer_line;
};

#ifdef __x86_64__
#define TAKE_ADDRESS "leaq 0(%%rip), %0"
#else
#define TAKE_ADDRESS "adr %0, ."
#endif

static inline __attribute__((always_inline)) void inlined_mark(struct mark *mark)
{
	mark->inner_line = __LINE__ + 1;
	__asm__ volatile(TAKE_ADDRESS : "=r"(mark->address));
}

__attribute__((noinline)) static void outer_mark(struct mark *mark)
{
	mark->outer_line = __LINE__ + 1;
	inlined_mark(mark);
}

static int first_object(struct dl_phdr_info *info, size_t size, void *base)
{
	(void)size;
	*(uint64_t *)base = info->dlpi_addr;
	return 1;
}

static uint64_t load_address(void)
{
	uint64_t base = 0;
	dl_iterate_phdr(first_object, &base);
	return base;
}

static void expect_ok(spsym_error *error)
{
	if (error)
		fail_msg("%s", spsym_error_message(error));
}

/* The address as the module counts it: both this program and a position-dependent one. */
static uint64_t relative(spsym_module *module, const void *address)
{
	return (uint64_t)address - load_address() - spsym_module_info(module)->base;
}

static void test_own_functions(void **state)
{
	(void)state;
	spsym_context *context;
	spsym_module *module;
	expect_ok(spsym_context_create(NULL, &context));
	expect_ok(spsym_module_open_path(context, "/proc/self/exe", &module));
	assert_true(spsym_module_info(module)->has_symbols && spsym_module_info(module)->has_debug_info);
	assert_string_not_equal(spsym_module_info(module)->debug_id, "");

	struct mark mark;
	outer_mark(&mark);
	uint64_t addresses[] = { relative(module, mark.address), relative(module, (void *)(uintptr_t)main), 1 };
	struct spsym_result result = { 0 };
	expect_ok(spsym_lookup(module, addresses, 3, &result));
	assert_int_equal(result.count, 3);
	assert_string_equal(result.locations[0].symbol.name, "outer_mark");
	assert_int_equal(result.locations[0].frame_count, 2);
	const struct spsym_frame *frames = result.locations[0].frames;
	assert_string_equal(frames[0].function, "inlined_mark");
	assert_string_equal(frames[1].function, "outer_mark");
	assert_int_equal(frames[0].line, mark.inner_line);
	assert_int_equal(frames[1].line, mark.outer_line);
	assert_string_equal(strrchr(frames[0].file, '/'), "/test_spsym_self.c");
	assert_string_equal(result.locations[1].symbol.name, "main");
	assert_int_equal(result.locations[1].symbol.address, addresses[1]);
	assert_null(result.locations[2].symbol.name);
	assert_int_equal(result.locations[2].frame_count, 0);
	spsym_result_deinit(&result);
	spsym_module_release(module);
	spsym_context_destroy(context);
}

static void *find_and_look(void *context)
{
	for (int i = 0; i < 50; i++) {
		spsym_module *module;
		struct spsym_result result = { 0 };
		expect_ok(spsym_module_open_path(context, "/proc/self/exe", &module));
		uint64_t address = relative(module, (void *)(uintptr_t)main);
		expect_ok(spsym_lookup(module, &address, 1, &result));
		assert_string_equal(result.locations[0].symbol.name, "main");
		assert_int_equal(result.locations[0].frame_count, 1);
		spsym_result_deinit(&result);
		spsym_module_release(module);
	}
	return NULL;
}

static void look_from_threads(size_t memory_limit)
{
	struct spsym_options options = { .memory_limit = memory_limit };
	spsym_context *context;
	pthread_t threads[8];
	expect_ok(spsym_context_create(&options, &context));
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, find_and_look, context), 0);
	for (size_t i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	spsym_context_destroy(context);
}

static void test_threads(void **state)
{
	(void)state;
	look_from_threads(0);
	look_from_threads(1); /* every released module is evicted */
}

static void test_one_module(void **state)
{
	(void)state;
	spsym_context *context;
	spsym_module *first, *second;
	expect_ok(spsym_context_create(NULL, &context));
	expect_ok(spsym_module_open_path(context, "/proc/self/exe", &first));
	expect_ok(spsym_module_open_path(context, "/proc/self/exe", &second));
	assert_ptr_equal(first, second);
	spsym_module_release(first);
	spsym_module_release(second);
	expect_ok(spsym_module_open_path(context, "/proc/self/exe", &second));
	assert_ptr_equal(first, second);
	spsym_module_release(second);
	spsym_context_destroy(context);
}

static void test_identity(void **state)
{
	(void)state;
	struct spsym_file_info info;
	spsym_context *context;
	spsym_module *module;
	char *text;
	expect_ok(spsym_identify_path("/proc/self/exe", &info));
	expect_ok(spsym_context_create(NULL, &context));

	struct spsym_identity identity = { .name = "test", .path = "/proc/self/exe", .debug_id = info.debug_id };
	expect_ok(spsym_module_find(context, &identity, &module));
	assert_string_equal(spsym_module_info(module)->code_id, info.code_id);
	spsym_module_release(module);

	/* The same path, but another build is wanted. */
	char other[SPSYM_ID_MAX];
	memcpy(other, info.debug_id, sizeof(other));
	other[5] = other[5] == '0' ? '1' : '0';
	identity.debug_id = other;
	spsym_error *error = spsym_module_find(context, &identity, &module);
	assert_non_null(error);
	assert_non_null(strstr(spsym_error_message(error), "another build"));
	assert_non_null(strstr(spsym_error_message(error), "/proc/self/exe"));
	spsym_error_destroy(error);
	expect_ok(spsym_explain(context, &identity, &text));
	assert_non_null(strstr(text, "another build"));
	free(text);
	spsym_context_destroy(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_functions),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_one_module),
		cmocka_unit_test(test_identity),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
