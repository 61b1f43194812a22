/* A mapped file that shrinks while it is read. */
#include "common/file.h"
#include "sampler/cli/mapped_files.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SIZE ((size_t)65536)

static void test_pages_past_the_new_end_read_as_zeros(void **state)
{
	(void)state;
	char path[] = "/tmp/sp-test-XXXXXX";
	int fd = mkstemp(path);
	char *bytes = malloc(SIZE);
	memset(bytes, 'x', SIZE);
	assert_int_equal(write(fd, bytes, SIZE), SIZE);
	struct sp_file_map map;
	assert_null(sp_file_map_path(path, &map));
	assert_int_equal(ftruncate(fd, 100), 0);
	sp_mapped_files_guard();
	assert_int_equal(map.bytes[10], 'x');
	for (size_t i = 8192; i < SIZE; i += 4096)
		assert_int_equal(map.bytes[i], 0);
	sp_file_unmap(&map);
	close(fd);
	unlink(path);
	free(bytes);
}

static void test_other_bus_errors_still_end_the_process(void **state)
{
	(void)state;
	pid_t pid = fork();
	if (!pid) {
		sp_mapped_files_guard();
		raise(SIGBUS);
		raise(SIGBUS); /* the first one took the handler away */
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGBUS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pages_past_the_new_end_read_as_zeros),
		cmocka_unit_test(test_other_bus_errors_still_end_the_process),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
