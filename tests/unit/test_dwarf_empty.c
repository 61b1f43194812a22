/* Debug information in which parts are empty: sections, line tables, sequences, lists of ranges, units without
 * functions.
 *
 * Fuzzing found two kinds of undefined behaviour there: arithmetic on the NULL of an empty section, and qsort() of no
 * items at NULL. Sanitizers see both; here qsort() is ours, so that every build sees the second, and the cursor's rule
 * is asked for directly. */
#include "common/cursor.h"

#include "dwarf_builder.h"

/* In place of the C library's, for all that is linked here. Insertion sort: what is sorted here is short. */
void qsort(void *items, size_t count, size_t size, int (*compare)(const void *, const void *))
{
	uint8_t *at = items, one[256];
	assert_non_null(items);
	assert_true(size <= sizeof(one));
	for (size_t i = 1; i < count; i++) {
		size_t k = i;
		memcpy(one, at + i * size, size);
		for (; k && compare(at + (k - 1) * size, one) > 0; k--)
			memcpy(at + k * size, at + (k - 1) * size, size);
		memcpy(at + k * size, one, size);
	}
}

static void test_cursor_of_nothing(void **state)
{
	(void)state;
	struct sp_cursor nothing = sp_cursor_init(NULL, 0), past = sp_cursor_sub(&nothing, 1, 0);
	assert_true(nothing.start && nothing.start == nothing.end && !nothing.bad);
	assert_true(past.start && past.start == past.end && past.at == past.end && past.bad);
	struct sp_cursor none = sp_cursor_sub(&nothing, 0, 0), sized = sp_cursor_init(NULL, 16);
	assert_true(none.start && !none.bad && !sp_cursor_left(&none));
	assert_int_equal(sp_cursor_left(&sized), 0);
	sp_cursor_skip(&none, 0);
	sp_cursor_seek(&none, 0);
	assert_false(none.bad);
	assert_int_equal(sp_cursor_u8(&none), 0);
	assert_true(none.bad && none.start);
	assert_string_equal(sp_cursor_string(&past), "");
}

/* A line table with `sequences` empty sequences. */
static uint64_t empty_lines(struct image *image, unsigned sequences)
{
	size_t table = line_begin(image, 4, 1, 1);
	put(image, LINE, 2, 0); /* no folders, no files */
	line_program(image, table, 4);
	for (unsigned i = 0; i < sequences; i++) {
		set_address(image, CODE + 16 * i);
		end_sequence(image);
	}
	line_end(image, table);
	return table;
}

static void begin_unit(struct image *image, uint64_t lines, bool children)
{
	uint64_t abbrevs = image->parts[ABBREV].count;
	abbrev(image, 1, DW_TAG_compile_unit, children, DW_AT_name, DW_FORM_string, DW_AT_stmt_list, DW_FORM_sec_offset,
	       DW_AT_low_pc, DW_FORM_addr, DW_AT_high_pc, DW_FORM_addr, 0);
	unit_begin(image, 4, DW_UT_compile, abbrevs);
	put_uleb(image, INFO, 1);
	put_string(image, INFO, "a.c");
	put(image, INFO, 4, lines);
	put(image, INFO, 8, CODE);
	put(image, INFO, 8, CODE + 0x100);
}

static void end_unit(struct image *image, bool children)
{
	if (children)
		put(image, INFO, 1, 0);
	put(image, ABBREV, 1, 0);
	unit_end(image);
}

static void test_no_children(void **state)
{
	(void)state;
	for (unsigned sequences = 0; sequences < 3; sequences++) {
		struct image image = { 0 };
		begin_unit(&image, empty_lines(&image, sequences), false);
		end_unit(&image, false);
		expect(&image, CODE, "");
		expect(&image, CODE + 16, "");
		free_image(&image);
	}
}

/* Functions and an inlined call whose lists of ranges are empty, beside a whole function. */
static void test_no_ranges(void **state)
{
	(void)state;
	struct image image = { 0 };
	begin_unit(&image, empty_lines(&image, 1), true);
	abbrev(&image, 2, DW_TAG_subprogram, true, DW_AT_name, DW_FORM_string, DW_AT_ranges, DW_FORM_sec_offset, 0);
	abbrev(&image, 3, DW_TAG_inlined_subroutine, false, DW_AT_ranges, DW_FORM_sec_offset, 0);
	put(&image, RANGES, 8, 0);
	put(&image, RANGES, 8, 0);
	put_uleb(&image, INFO, 2);
	put_string(&image, INFO, "empty");
	put(&image, INFO, 4, 0);
	put_uleb(&image, INFO, 3);
	put(&image, INFO, 4, 0);
	put(&image, INFO, 1, 0);
	abbrev(&image, 5, DW_TAG_subprogram, true, DW_AT_name, DW_FORM_string, DW_AT_low_pc, DW_FORM_addr,
	       DW_AT_high_pc, DW_FORM_addr, 0);
	put_uleb(&image, INFO, 5);
	put_string(&image, INFO, "whole");
	put(&image, INFO, 8, CODE + 0x40);
	put(&image, INFO, 8, CODE + 0x80);
	put_uleb(&image, INFO, 3);
	put(&image, INFO, 4, 0);
	put(&image, INFO, 1, 0);
	end_unit(&image, true);
	expect(&image, CODE, "");
	expect(&image, CODE + 0x40, "whole ?:0");
	expect(&image, CODE + 0x80, "");
	free_image(&image);
}

/* Each section in turn is there and empty, or not there: answers may be less. */
static void test_empty_sections(void **state)
{
	(void)state;
	for (unsigned part = 0; part < 2 * PARTS; part++) {
		struct image image = { .empty_sections = part >= PARTS };
		char text[4096];
		uint64_t address = CODE;
		begin_plain(&image, 4);
		put_function(&image, 2, "f", CODE, CODE + 0x20, DW_FORM_addr);
		end_plain(&image);
		image.parts[part % PARTS].count = 0;
		open_image(&image);
		struct sp_error *error = sp_dwarf_lookup(image.dwarf, &address, 1, write_answer, text, &image.note);
		sp_error_destroy(error);
		free_image(&image);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cursor_of_nothing),
		cmocka_unit_test(test_no_children),
		cmocka_unit_test(test_no_ranges),
		cmocka_unit_test(test_empty_sections),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
