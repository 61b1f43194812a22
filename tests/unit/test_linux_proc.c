/* Text and notes of /proc and /sys: mappings, kernel modules, build IDs; and the choice of a rate. */
#include "platform/linux/kernel.h"
#include "platform/linux/proc.h"
#include "platform/linux/rate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

static bool parse(const char *line, struct sp_event_map *ret)
{
	static char copy[512];
	assert_true(strlen(line) < sizeof(copy));
	strcpy(copy, line);
	return sp_proc_parse_map(copy, ret);
}

static void test_map_lines(void **state)
{
	(void)state;
	struct sp_event_map map;
	assert_true(
	    parse("55d0c0a00000-55d0c0a02000 r-xp 00001000 fd:01 4711                       /usr/bin/a b", &map));
	assert_int_equal(map.start, 0x55d0c0a00000);
	assert_int_equal(map.size, 0x2000);
	assert_int_equal(map.file_offset, 0x1000);
	assert_int_equal(map.device, makedev(0xfd, 1));
	assert_int_equal(map.inode, 4711);
	assert_string_equal(map.path, "/usr/bin/a b");
	assert_true(map.executable);
	assert_true(parse("7f0000000000-7f0000001000 rw-p 00000000 00:00 0 ", &map));
	assert_string_equal(map.path, "//anon");
	assert_false(map.executable);
	assert_int_equal(map.device, 0);
	assert_true(parse("7f0000000000-7f0000001000 r-xp 00000000 00:00 0                  [vdso]", &map));
	assert_string_equal(map.path, "[vdso]");
	assert_true(parse("7f0000000000-7f0000001000 r-xp 00000000 00:01 9  /memfd:x (deleted)", &map));
	assert_string_equal(map.path, "/memfd:x (deleted)");
	assert_true(parse("7f0000000000-7f0000001000 r-xp 00000000 08:01 9  /tmp/a\\012b\\012", &map));
	assert_string_equal(map.path, "/tmp/a\nb\n");
	/* The highest page of all. */
	assert_true(parse("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]", &map));
	assert_int_equal(map.size, 0x1000);
}

static void test_lines_that_are_none(void **state)
{
	(void)state;
	struct sp_event_map map;
	static const char *const lines[] = {
		"",
		"7f0000000000",
		"7f0000000000-7f0000001000",
		"7f0000001000-7f0000000000 r-xp 0 0:0 0 x",
		"x-y r-xp 0 0:0 0",
		"7f0000000000-7f0000001000 r-xp 0 0:0",
		"Size:   4 kB",
	};
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_false(parse(lines[i], &map));
}

static void test_own_process(void **state)
{
	(void)state;
	uint32_t parent;
	char name[64], value[64];
	assert_true(sp_proc_parent((uint32_t)getpid(), &parent));
	assert_int_equal(parent, getppid());
	assert_true(sp_proc_name((uint32_t)getpid(), (uint32_t)getpid(), name, sizeof(name)));
	assert_memory_equal(name, "test_linux_proc", 15);
	assert_true(sp_proc_status_field(0, "Pid", value, sizeof(value)));
	assert_int_equal(atoi(value), getpid());
	assert_false(sp_proc_status_field(0, "NoSuchField", value, sizeof(value)));
	assert_false(sp_proc_parent(4194305, &parent));
}

struct modules {
	struct sp_event_map seen[4];
	char paths[4][64];
	size_t count;
};

static struct sp_error *note_module(void *context, const struct sp_event_map *module)
{
	struct modules *modules = context;
	assert_true(modules->count < 4);
	modules->seen[modules->count] = *module;
	strcpy(modules->paths[modules->count++], module->path);
	return NULL;
}

static void test_modules(void **state)
{
	(void)state;
	char text[] = "nf_tables 372736 1 nft_chain,nf_x, Live 0xffffffffc0a00000 (OE)\n"
	              "hidden 4096 0 - Live 0x0000000000000000\n"
	              "garbage\n"
	              "ext4 1024000 2 - Live 0xffffffffc0200000\n";
	struct modules modules = { 0 };
	assert_null(sp_kernel_parse_modules(text, note_module, &modules));
	assert_int_equal(modules.count, 2);
	assert_string_equal(modules.paths[0], "[nf_tables]");
	assert_int_equal(modules.seen[0].start, 0xffffffffc0a00000);
	assert_int_equal(modules.seen[0].size, 372736);
	assert_string_equal(modules.paths[1], "[ext4]");
}

static void test_notes(void **state)
{
	(void)state;
	/* A Linux note of no interest, then the build ID, as in /sys/kernel/notes. */
	const uint8_t notes[] = { 6, 0, 0, 0, 4, 0, 0, 0, 1, 1, 0, 0, 'L', 'i', 'n', 'u', 'x', 0, 0, 0, 0, 0,
		                  0, 0, 4, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0,   0,   'G', 'N', 'U', 0, 1, 2, 3, 0 };
	uint8_t id[SP_BUILD_ID_MAX], size;
	assert_true(sp_kernel_parse_notes(notes, sizeof(notes), id, &size));
	assert_int_equal(size, 3);
	assert_memory_equal(id, "\1\2\3", 3);
	for (size_t cut = 0; cut + 1 < sizeof(notes); cut++) {
		uint8_t *exact = malloc(cut ? cut : 1);
		memcpy(exact, notes, cut);
		assert_false(sp_kernel_parse_notes(exact, cut, id, &size));
		free(exact);
	}
	const uint8_t huge[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 3, 0, 0, 0, 'G', 'N', 'U', 0 };
	assert_false(sp_kernel_parse_notes(huge, sizeof(huge), id, &size));
}

static void expect_rate(double wished, double rate, const char *note)
{
	double got;
	char *told;
	assert_null(sp_rate_choose(wished, &got, &told));
	assert_true(got == rate);
	if (!note)
		assert_null(told);
	else
		assert_non_null(strstr(told, note));
	free(told);
}

static void test_rates(void **state)
{
	(void)state;
	expect_rate(1, 1, NULL);
	expect_rate(997, 997, NULL);
	const double impossible[] = { 0, -1, 0.5, NAN, INFINITY };
	for (size_t i = 0; i < sizeof(impossible) / sizeof(impossible[0]); i++) {
		double got;
		char *told;
		struct sp_error *error = sp_rate_choose(impossible[i], &got, &told);
		assert_non_null(error);
		assert_int_equal(error->code, SP_ERROR_USAGE);
		sp_error_destroy(error);
	}
	double got;
	char *told;
	assert_null(sp_rate_choose(1e9, &got, &told));
	assert_true(got <= SP_RATE_MOST && got >= 100);
	assert_non_null(strstr(told, "lowered from 1000000000 to "));
	free(told);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_map_lines),   cmocka_unit_test(test_lines_that_are_none),
		cmocka_unit_test(test_own_process), cmocka_unit_test(test_modules),
		cmocka_unit_test(test_notes),       cmocka_unit_test(test_rates),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
