/* The limited child: answers come back whole; whatever else happens there is one error here. */
#include "common/limited.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct sp_error *run(bool (*work)(void *, struct sp_limited_output *), void *context, uint8_t **ret,
                            size_t *size)
{
	const struct sp_limited limited = { .what = "the parser",
		                            .name = "x",
		                            .memory = 256 << 20,
		                            .cpu_s = 1,
		                            .wall_s = 20,
		                            .output_size = 4 << 20,
		                            .work = work,
		                            .context = context };
	struct sp_error *error = sp_limited_run(&limited, ret, size);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left over */
	return error;
}

static void expect_error(bool (*work)(void *, struct sp_limited_output *), enum sp_error_code code)
{
	uint8_t *bytes;
	size_t size;
	struct sp_error *error = run(work, NULL, &bytes, &size);
	assert_non_null(error);
	assert_int_equal(error->code, code);
	sp_error_destroy(error);
}

static bool write_much(void *context, struct sp_limited_output *out)
{
	for (unsigned i = 0; i < *(unsigned *)context; i++)
		sp_limited_put(out, &i, sizeof(i));
	return true;
}

static void test_output(void **state)
{
	(void)state;
	for (unsigned count = 0; count < 300000; count = count * 3 + 1) {
		uint8_t *bytes;
		size_t size;
		assert_null(run(write_much, &count, &bytes, &size));
		assert_int_equal(size, count * sizeof(count));
		for (unsigned i = 0; i < count; i++)
			assert_memory_equal(bytes + i * sizeof(i), &i, sizeof(i));
		free(bytes);
	}
}

static bool give_up(void *context, struct sp_limited_output *out)
{
	(void)context;
	sp_limited_put(out, "x", 1);
	return false;
}

static bool crash(void *context, struct sp_limited_output *out)
{
	(void)context;
	(void)out;
	raise(SIGSEGV);
	return true;
}

static bool babble(void *context, struct sp_limited_output *out)
{
	(void)context;
	for (;;)
		sp_limited_put(out, "abcdefgh", 8);
	return true;
}

static bool spin(void *context, struct sp_limited_output *out)
{
	(void)context;
	for (volatile unsigned i = 0;; i++)
		(void)out;
	return true;
}

static bool leave(void *context, struct sp_limited_output *out)
{
	(void)context;
	(void)out;
	_exit(0);
}

static void test_trouble(void **state)
{
	(void)state;
	expect_error(give_up, SP_ERROR_FORMAT);
	expect_error(crash, SP_ERROR_FORMAT);
	expect_error(babble, SP_ERROR_LIMIT);
	expect_error(spin, SP_ERROR_LIMIT);
	expect_error(leave, SP_ERROR_FORMAT);
}

/* It may not open anything. Where the kernel or a sanitizer keeps the filter off, the limit on descriptors holds. */
static bool open_something(void *context, struct sp_limited_output *out)
{
	(void)context;
	(void)out;
	return open("/etc/passwd", O_RDONLY) >= 0 || socket(AF_INET, SOCK_STREAM, 0) >= 0;
}

static bool take_memory(void *context, struct sp_limited_output *out)
{
	(void)context;
	volatile char *bytes = malloc((size_t)1 << 30);
	if (bytes)
		bytes[0] = 1;
	sp_limited_put(out, bytes ? "y" : "n", 1);
	return true;
}

static void test_rights(void **state)
{
	(void)state;
	expect_error(open_something, SP_ERROR_FORMAT);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	uint8_t *bytes;
	size_t size;
	assert_null(run(take_memory, NULL, &bytes, &size));
	assert_int_equal(bytes[0], 'n');
	free(bytes);
#else
	(void)take_memory;
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_output),
		cmocka_unit_test(test_trouble),
		cmocka_unit_test(test_rights),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
