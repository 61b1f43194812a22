/* Unit tests of V8's names of code. */
#include "sampler/output/script_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check(const char *text, const char *function, const char *file, uint32_t line, uint32_t column)
{
	struct sp_script_name name;
	assert_true(sp_script_name_parse(text, &name));
	assert_int_equal(name.function_size, strlen(function));
	assert_memory_equal(name.function, function, name.function_size);
	assert_int_equal(name.file_size, strlen(file));
	assert_memory_equal(name.file, file, name.file_size);
	assert_int_equal(name.line, line);
	assert_int_equal(name.column, column);
}

static void test_names(void **state)
{
	(void)state;
	check("JS:*fib /path/n.js:1:15", "fib", "/path/n.js", 1, 15);
	check("JS:^fib /path/n.js:1:15", "fib", "/path/n.js", 1, 15);
	check("JS:+fib /path/n.js:1:15", "fib", "/path/n.js", 1, 15);
	check("JS:~fib /path/n.js:1:15", "fib", "/path/n.js", 1, 15);
	check("JS:fib /path/n.js:1:15", "fib", "/path/n.js", 1, 15);
	check("JS:~writeOrBuffer node:internal/streams/writable:548:23", "writeOrBuffer",
	      "node:internal/streams/writable", 548, 23);
	check("Eval:~ node:internal/util:1:1", "", "node:internal/util", 1, 1);
	check("LazyCompile:*get size /my files/a b.js:20:3", "get size", "/my files/a b.js", 20, 3);
	check("JS:~f relative.js:2147483647:1", "f", "relative.js", INT32_MAX, 1);
}

static void test_others(void **state)
{
	(void)state;
	static const char *const texts[] = {
		"",
		"JS:",
		"JS:*",
		"JS:*fib",
		"JS:*fib /path/n.js",
		"JS:*fib /path/n.js:1",
		"JS:*fib /path/n.js::1",
		"JS:*fib /path/n.js:0:1",
		"JS:*fib :1:2",
		"JS:fib:1:2",
		"JS::1:2",
		"JS:~f a.js:2147483648:1",
		"JS:~f a.js:99999999999999999999999999:1",
		"Builtin:ArrayPush",
		"py::fib:/a.py",
		"JS",
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct sp_script_name name;
		assert_false(sp_script_name_parse(texts[i], &name));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_others),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
