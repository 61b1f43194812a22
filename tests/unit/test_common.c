/* Unit tests of common/. */
#include "common/cursor.h"
#include "common/intern.h"
#include "common/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void test_map_survives_removal(void **state)
{
	(void)state;
	struct sp_map map = { 0 };
	for (uint64_t i = 0; i < 1000; i++)
		assert_true(sp_map_put(&map, i, i * 2));
	for (uint64_t i = 0; i < 1000; i += 3)
		assert_true(sp_map_remove(&map, i));
	for (uint64_t i = 0; i < 1000; i++) {
		uint64_t *value = sp_map_get(&map, i);
		if (i % 3 == 0)
			assert_null(value);
		else
			assert_int_equal(*value, i * 2);
	}
	sp_map_deinit(&map);
}

/* After a read past the end nothing more is given, not even no bytes. */
static void test_bad_cursor_gives_nothing(void **state)
{
	(void)state;
	struct sp_cursor cursor = sp_cursor_init("abc", 3);
	assert_non_null(sp_cursor_bytes(&cursor, 3));
	assert_non_null(sp_cursor_bytes(&cursor, 0));
	assert_false(cursor.bad);
	sp_cursor_skip(&cursor, 1);
	assert_true(cursor.bad);
	assert_null(sp_cursor_bytes(&cursor, 0));
	assert_null(sp_cursor_bytes(&cursor, 1));
	assert_int_equal(sp_cursor_u16(&cursor), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_map_survives_removal),
		cmocka_unit_test(test_bad_cursor_gives_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
