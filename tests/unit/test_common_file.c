/* Files and clocks. */
#include "common/clock.h"
#include "common/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static int setup(void **state)
{
	char template[] = "/tmp/sp-test-XXXXXX";
	assert_non_null(mkdtemp(template));
	assert_int_equal(chdir(template), 0);
	*state = strdup(template);
	return 0;
}

static int teardown(void **state)
{
	char command[100];
	assert_int_equal(chdir("/"), 0);
	snprintf(command, sizeof(command), "rm -rf '%s'", (char *)*state);
	assert_int_equal(system(command), 0);
	free(*state);
	return 0;
}

static void expect_error(struct sp_error *error, enum sp_error_code code)
{
	assert_non_null(error);
	assert_int_equal(error->code, code);
	assert_true(strlen(error->message) > 5);
	sp_error_destroy(error);
}

static unsigned count_entries(void)
{
	DIR *folder = opendir(".");
	unsigned count = 0;
	while (readdir(folder))
		count++;
	closedir(folder);
	return count - 2;
}

static void test_write_and_map(void **state)
{
	(void)state;
	assert_null(sp_file_write_atomic("x", "hello", 5));
	assert_null(sp_file_write_atomic("x", "other", 5));
	assert_int_equal(count_entries(), 1);
	struct sp_file_map map;
	assert_null(sp_file_map_path("x", &map));
	assert_int_equal(map.size, 5);
	assert_memory_equal(map.bytes, "other", 5);
	struct stat st;
	assert_int_equal(stat("x", &st), 0);
	assert_int_equal(map.inode, st.st_ino);
	assert_int_equal(map.device, st.st_dev);
	assert_int_equal(map.mtime_ns / 1000000000, st.st_mtim.tv_sec);
	/* The old bytes stay what they were under the mapping. */
	assert_null(sp_file_write_atomic("x", "newer and longer", 16));
	assert_memory_equal(map.bytes, "other", 5);
	sp_file_unmap(&map);
	sp_file_unmap(&map);

	assert_null(sp_file_write_atomic("empty", NULL, 0));
	assert_null(sp_file_map_path("empty", &map));
	assert_null(map.bytes);
	assert_int_equal(map.size, 0);
	sp_file_unmap(&map);
}

static void test_what_cannot_be_mapped(void **state)
{
	(void)state;
	struct sp_file_map map;
	char *text;
	assert_int_equal(mkfifo("fifo", 0600), 0);
	expect_error(sp_file_map_path("fifo", &map), SP_ERROR_FORMAT);
	expect_error(sp_file_read("fifo", 100, &text, NULL), SP_ERROR_FORMAT);
	expect_error(sp_file_map_path(".", &map), SP_ERROR_FORMAT);
	expect_error(sp_file_map_path("/dev/zero", &map), SP_ERROR_FORMAT);
	expect_error(sp_file_map_path("none", &map), SP_ERROR_NOT_FOUND);
	expect_error(sp_file_write_atomic("none/x", "", 0), SP_ERROR_NOT_FOUND);
	expect_error(sp_file_map_fd(-1, "nothing", &map), SP_ERROR_SYSTEM);
}

static void test_failed_write_leaves_nothing(void **state)
{
	(void)state;
	assert_int_equal(mkdir("folder", 0700), 0);
	struct sp_error *error = sp_file_write_atomic("folder", "x", 1);
	assert_non_null(error);
	sp_error_destroy(error);
	assert_int_equal(count_entries(), 1);
}

static void test_read(void **state)
{
	(void)state;
	char *text;
	size_t size;
	assert_null(sp_file_read("/proc/self/stat", 65536, &text, &size));
	assert_int_equal(strlen(text), size);
	assert_int_equal(atoi(text), getpid());
	free(text);
	char bytes[10000];
	memset(bytes, 'a', sizeof(bytes));
	assert_null(sp_file_write_atomic("f", bytes, sizeof(bytes)));
	for (size_t limit = 9998; limit < 10003; limit++) {
		struct sp_error *error = sp_file_read("f", limit, &text, &size);
		if (limit < sizeof(bytes)) {
			expect_error(error, SP_ERROR_LIMIT);
			continue;
		}
		assert_null(error);
		assert_int_equal(size, sizeof(bytes));
		assert_int_equal(strlen(text), size);
		free(text);
	}
	expect_error(sp_file_read("/proc/self/maps", 100, &text, &size), SP_ERROR_LIMIT);
	assert_null(sp_file_write_atomic("empty", "", 0));
	assert_null(sp_file_read("empty", 0, &text, &size));
	assert_string_equal(text, "");
	free(text);
}

static void test_folders(void **state)
{
	char path[300], *cache;
	struct stat st;
	assert_null(sp_file_make_folders("a/b//c/"));
	assert_null(sp_file_make_folders("a/b/c"));
	assert_int_equal(stat("a/b/c", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	snprintf(path, sizeof(path), "%s/p/q", (char *)*state);
	assert_null(sp_file_make_folders(path));
	assert_null(sp_file_write_atomic("file", "", 0));
	expect_error(sp_file_make_folders("file/x"), SP_ERROR_SYSTEM);
	expect_error(sp_file_make_folders("file"), SP_ERROR_SYSTEM);

	snprintf(path, sizeof(path), "%s/cache", (char *)*state);
	setenv("SP_CACHE_DIR", path, 1);
	assert_null(sp_file_cache_folder("symbols", &cache));
	assert_int_equal(stat("cache/symbols", &st), 0);
	free(cache);
	unsetenv("SP_CACHE_DIR");
	setenv("XDG_CACHE_HOME", path, 1);
	assert_null(sp_file_cache_folder("symbols", &cache));
	assert_int_equal(stat("cache/sp/symbols", &st), 0);
	free(cache);
	setenv("XDG_CACHE_HOME", "relative", 1); /* to be ignored, says the XDG base directory specification */
	setenv("HOME", *state, 1);
	assert_null(sp_file_cache_folder("symbols", &cache));
	assert_int_equal(stat(".cache/sp/symbols", &st), 0);
	free(cache);
	unsetenv("HOME");
	expect_error(sp_file_cache_folder("symbols", &cache), SP_ERROR_NOT_FOUND);
}

static void test_clocks(void **state)
{
	(void)state;
	uint64_t before = sp_clock_now();
	assert_true(sp_clock_now() >= before);
	assert_true(sp_clock_wall() > UINT64_C(1700000000) * 1000000000);
	uint64_t cpu = sp_clock_process_cpu();
	assert_true(cpu > 0 && cpu < UINT64_C(1000) * 1000000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_write_and_map, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_cannot_be_mapped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_failed_write_leaves_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_read, setup, teardown),
		cmocka_unit_test_setup_teardown(test_folders, setup, teardown),
		cmocka_unit_test_setup_teardown(test_clocks, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
