/* Units: how an address finds its unit, units that are corrupt, and bounds on the work a file can ask for. */
#include "dwarf_builder.h"

/* A unit over [low, high) with one function of the same range, called `name`, and its lines. */
static void put_unit(struct image *image, const char *name, uint64_t low, uint64_t high, bool lines, bool function)
{
	uint64_t table = lines ? plain_lines(image, low, high) : 0, abbrevs = image->parts[ABBREV].count;
	abbrev(image, 1, DW_TAG_compile_unit, true, DW_AT_low_pc, DW_FORM_addr, DW_AT_high_pc, DW_FORM_data4,
	       lines ? DW_AT_stmt_list : 0x2222, DW_FORM_sec_offset, 0);
	unit_begin(image, 4, DW_UT_compile, abbrevs);
	put_uleb(image, INFO, 1);
	put(image, INFO, 8, low);
	put(image, INFO, 4, high - low);
	put(image, INFO, 4, table);
	if (function)
		put_function(image, 2, name, low, high, DW_FORM_addr);
	end_plain(image);
}

/* One set of .debug_aranges. */
static void put_aranges(struct image *image, uint64_t unit, uint64_t low, uint64_t size)
{
	put(image, ARANGES, 4, 44);
	put(image, ARANGES, 2, 2);
	put(image, ARANGES, 4, unit);
	put(image, ARANGES, 1, 8);
	put(image, ARANGES, 1, 0);
	put(image, ARANGES, 4, 0);
	put(image, ARANGES, 8, low);
	put(image, ARANGES, 8, size);
	put(image, ARANGES, 8, 0);
	put(image, ARANGES, 8, 0);
}

/* With sets for all units, for some, for none, and with sets that are wrong. */
static void test_aranges_are_a_hint(void **state)
{
	(void)state;
	for (unsigned variant = 0; variant < 6; variant++) {
		struct image image = { 0 };
		uint64_t units[3];
		for (unsigned i = 0; i < 3; i++) {
			units[i] = image.parts[INFO].count;
			static const char *const names[] = { "first", "second", "third" };
			put_unit(&image, names[i], CODE + 0x100 * i, CODE + 0x100 * (i + 1), true, true);
		}
		if (variant == 1) /* all */
			for (unsigned i = 0; i < 3; i++)
				put_aranges(&image, units[i], CODE + 0x100 * i, 0x100);
		if (variant == 2) /* some */
			put_aranges(&image, units[1], CODE + 0x100, 0x100);
		if (variant == 3) { /* offsets that are no units */
			put_aranges(&image, units[1] + 3, CODE, 0x300);
			put_aranges(&image, 0x7fffffff, CODE, 0x300);
		}
		if (variant == 4) { /* sets without addresses, or of dropped code */
			put_aranges(&image, units[0], CODE, 0);
			put_aranges(&image, units[1], 0, 0x100);
			put_aranges(&image, units[2], 0xffffffffffffffff, 0x100);
		}
		if (variant == 5) { /* a set of another version, and one cut short */
			put_aranges(&image, units[0], CODE, 0x100);
			patch(&image, ARANGES, 4, 2, 9);
			put_aranges(&image, units[1], CODE + 0x100, 0x100);
			image.parts[ARANGES].count -= 20;
		}
		expect(&image, CODE, "first a.c:100");
		expect(&image, CODE + 0x1ff, "second a.c:115");
		expect(&image, CODE + 0x200, "third a.c:100");
		expect(&image, CODE + 0x300, "");
		free_image(&image);
	}
}

/* A root without ranges: its lines and functions say where it is. */
static void test_root_without_ranges(void **state)
{
	(void)state;
	for (unsigned lines = 0; lines < 2; lines++) {
		struct image image = { 0 };
		uint64_t table = plain_lines(&image, CODE, CODE + 0x100);
		abbrev(&image, 1, DW_TAG_compile_unit, true, lines ? DW_AT_stmt_list : 0x2222, DW_FORM_sec_offset, 0);
		unit_begin(&image, 4, DW_UT_compile, 0);
		put_uleb(&image, INFO, 1);
		put(&image, INFO, 4, table);
		put_function(&image, 2, "f", CODE + 0x20, CODE + 0x120, DW_FORM_addr);
		end_plain(&image);
		expect(&image, CODE, lines ? "? a.c:100" : "");
		expect(&image, CODE + 0x20, lines ? "f a.c:102" : "f ?:0");
		expect(&image, CODE + 0x110, "f ?:0");
		free_image(&image);
	}
}

/* Several units claim an address: it belongs to the first that has a function and a line there. */
static void test_overlapping_units(void **state)
{
	(void)state;
	for (unsigned with_aranges = 0; with_aranges < 2; with_aranges++) {
		struct image image = { 0 };
		uint64_t units[6];
		unsigned n = 0;
		units[n++] = image.parts[INFO].count;
		put_unit(&image, "no_lines", CODE, CODE + 0x100, false, true);
		units[n++] = image.parts[INFO].count;
		put_unit(&image, "no_function", CODE, CODE + 0x100, true, false);
		units[n++] = image.parts[INFO].count;
		put_unit(&image, "kept", CODE, CODE + 0x100, true, true);
		units[n++] = image.parts[INFO].count;
		put_unit(&image, "dropped", CODE, CODE + 0x100, true, true);
		units[n++] = image.parts[INFO].count;
		put_unit(&image, "only_lines", CODE + 0x200, CODE + 0x300, true, false);
		units[n++] = image.parts[INFO].count;
		put_unit(&image, "only_function", CODE + 0x200, CODE + 0x300, false, true);
		for (unsigned i = n; with_aranges && i-- > 0;)
			put_aranges(&image, units[i], CODE + (i < 4 ? 0 : 0x200), 0x100);
		expect(&image, CODE + 0x10, "kept a.c:101");
		expect(&image, CODE + 0x210, "only_function ?:0");
		free_image(&image);
	}
}

/* A corrupt unit costs that unit only. */
static void test_corrupt_units(void **state)
{
	(void)state;
	for (unsigned variant = 0; variant < 7; variant++) {
		struct image image = { 0 };
		put_unit(&image, "before", CODE, CODE + 0x100, true, true);
		size_t corrupt = image.parts[INFO].count;
		put_unit(&image, "corrupt", CODE + 0x100, CODE + 0x200, true, true);
		put_unit(&image, "after", CODE + 0x200, CODE + 0x300, true, true);
		switch (variant) {
		case 0: /* version */
			patch(&image, INFO, corrupt + 4, 2, 77);
			break;
		case 1: /* abbreviations that are not there */
			patch(&image, INFO, corrupt + 6, 4, 0x7fffffff);
			break;
		case 2: /* size of addresses */
			patch(&image, INFO, corrupt + 10, 1, 3);
			break;
		case 3: /* no such abbreviation, for the root */
			patch(&image, INFO, corrupt + 11, 1, 99);
			break;
		case 4: /* and for the function */
			patch(&image, INFO, corrupt + 28, 1, 99);
			break;
		case 5: /* in the middle of an abbreviation */
			patch(&image, INFO, corrupt + 6, 4, 1);
			break;
		default: /* a string without end, in the last unit */
			image.parts[INFO].count -= 22;
			break;
		}
		expect(&image, CODE, "before a.c:100");
		if (variant < 6)
			expect(&image, CODE + 0x200, "after a.c:100");
		expect(&image, CODE + 0x100, variant == 6 ? "corrupt a.c:100" : variant == 4 ? "? a.c:100" : "");
		free_image(&image);
	}
}

/* The list of units ends where a length makes no sense; a last one that is cut short is read as far as it goes. */
static void test_bad_lengths(void **state)
{
	(void)state;
	static const uint32_t lengths[] = { 0, 1, 2, 0x7fffffff, 0xfffffff0, 0xffffffff };
	for (unsigned i = 0; i < 6; i++) {
		struct image image = { 0 };
		put_unit(&image, "before", CODE, CODE + 0x100, true, true);
		size_t corrupt = image.parts[INFO].count;
		put_unit(&image, "last", CODE + 0x100, CODE + 0x200, true, true);
		patch(&image, INFO, corrupt, 4, lengths[i]);
		expect(&image, CODE, "before a.c:100");
		expect(&image, CODE + 0x100, i == 3 ? "last a.c:100" : "");
		free_image(&image);
	}
}

/* Abbreviations: codes with holes, huge ones, twice the same, more attributes than are allowed. */
static void test_abbreviations(void **state)
{
	(void)state;
	struct image image = { 0 };
	uint64_t table = plain_lines(&image, CODE, CODE + 0x100);
	abbrev(&image, 1000000, DW_TAG_compile_unit, true, DW_AT_low_pc, DW_FORM_addr, DW_AT_high_pc, DW_FORM_data4,
	       DW_AT_stmt_list, DW_FORM_sec_offset, 0);
	abbrev(&image, 1000000, DW_TAG_namespace, true, 0); /* the first counts */
	abbrev(&image, 50, DW_TAG_subprogram, false, DW_AT_name, DW_FORM_string, DW_AT_low_pc, DW_FORM_addr,
	       DW_AT_high_pc, DW_FORM_addr, 0);
	abbrev(&image, 50, DW_TAG_namespace, true, 0);
	put_uleb(&image, ABBREV, 0xffffffffffffffff);
	put_uleb(&image, ABBREV, DW_TAG_subprogram);
	put(&image, ABBREV, 1, 0);
	put_uleb(&image, ABBREV, DW_AT_name);
	put_uleb(&image, ABBREV, DW_FORM_string);
	put(&image, ABBREV, 2, 0);
	put(&image, ABBREV, 1, 0);
	unit_begin(&image, 4, DW_UT_compile, 0);
	put_uleb(&image, INFO, 1000000);
	put(&image, INFO, 8, CODE);
	put(&image, INFO, 4, 0x100);
	put(&image, INFO, 4, table);
	put_uleb(&image, INFO, 0xffffffffffffffff);
	put_string(&image, INFO, "skipped");
	put_uleb(&image, INFO, 50);
	put_string(&image, INFO, "f");
	put(&image, INFO, 8, CODE);
	put(&image, INFO, 8, CODE + 16);
	put(&image, INFO, 1, 0);
	unit_end(&image);
	expect(&image, CODE, "f a.c:100");
	expect_note(&image, NULL);
	free_image(&image);

	for (unsigned extra = 0; extra < 2; extra++) {
		image = (struct image){ 0 };
		begin_plain(&image, 4);
		put_function(&image, 2, "f", CODE, CODE + 16, DW_FORM_addr);
		put_uleb(&image, ABBREV, 3);
		put_uleb(&image, ABBREV, DW_TAG_pointer_type);
		put(&image, ABBREV, 1, 0);
		for (unsigned i = 0; i < 1024 + extra; i++) {
			put_uleb(&image, ABBREV, 0x2222);
			put_uleb(&image, ABBREV, DW_FORM_flag_present);
		}
		put(&image, ABBREV, 2, 0);
		end_plain(&image);
		expect(&image, CODE, extra ? "" : "f /src/a.c:100");
		expect_note(&image, extra ? "more than 1024 attributes" : NULL);
		free_image(&image);
	}
}

/* ---- What is split off ---- */

static struct sp_object *give(void *context, const char *path)
{
	struct image *image = context;
	if (strcmp(path, "/src/a.dwo") != 0)
		return NULL;
	if (!image->object)
		open_object(image);
	return image->object;
}

/* A skeleton finds its unit by path and ID; one of another build is not used. */
static void test_split(void **state)
{
	(void)state;
	static const char *const notes[] = { NULL, "another build", "not found" };
	for (unsigned variant = 0; variant < 3; variant++) {
		struct image dwo = { .split = true };
		abbrev(&dwo, 1, DW_TAG_compile_unit, true, 0);
		abbrev(&dwo, 2, DW_TAG_subprogram, false, DW_AT_name, DW_FORM_strx1, DW_AT_low_pc, DW_FORM_addrx,
		       DW_AT_high_pc, DW_FORM_data1, 0);
		abbrev(&dwo, 3, DW_TAG_subprogram, false, DW_AT_name, DW_FORM_strx1, DW_AT_ranges, DW_FORM_rnglistx, 0);
		/* Without bases: they are behind the headers. */
		put(&dwo, STR_OFFSETS, 4, 8);
		put(&dwo, STR_OFFSETS, 4, 5);
		put(&dwo, STR_OFFSETS, 4, keep(&dwo, STR, "whole"));
		put(&dwo, STR_OFFSETS, 4, keep(&dwo, STR, "parts"));
		put(&dwo, RNGLISTS, 4, 0);
		put(&dwo, RNGLISTS, 2, 5);
		put(&dwo, RNGLISTS, 2, 8);
		put(&dwo, RNGLISTS, 4, 1);
		put(&dwo, RNGLISTS, 4, 4);
		put(&dwo, RNGLISTS, 1, DW_RLE_offset_pair);
		put_uleb(&dwo, RNGLISTS, 0x20);
		put_uleb(&dwo, RNGLISTS, 0x30);
		put(&dwo, RNGLISTS, 1, DW_RLE_end_of_list);
		unit_begin(&dwo, 5, DW_UT_split_compile, 0);
		put(&dwo, INFO, 8, variant == 1 ? 0x99 : 0x1234);
		put_uleb(&dwo, INFO, 1);
		put_uleb(&dwo, INFO, 2);
		put(&dwo, INFO, 1, 0);
		put_uleb(&dwo, INFO, 0);
		put(&dwo, INFO, 1, 0x10);
		put_uleb(&dwo, INFO, 3);
		put(&dwo, INFO, 1, 1);
		put_uleb(&dwo, INFO, 0);
		end_plain(&dwo);

		struct image image = { .open_dwo = give, .context = &dwo };
		uint64_t lines = plain_lines(&image, CODE, CODE + 0x100);
		put(&image, ADDR, 8, 0); /* a header, whatever it says */
		put(&image, ADDR, 8, CODE);
		abbrev(&image, 1, DW_TAG_skeleton_unit, false, DW_AT_low_pc, DW_FORM_addr, DW_AT_high_pc, DW_FORM_data4,
		       DW_AT_stmt_list, DW_FORM_sec_offset, DW_AT_addr_base, DW_FORM_sec_offset, DW_AT_comp_dir,
		       DW_FORM_string, DW_AT_dwo_name, DW_FORM_string, 0);
		put(&image, ABBREV, 1, 0);
		unit_begin(&image, 5, DW_UT_skeleton, 0);
		put(&image, INFO, 8, 0x1234);
		put_uleb(&image, INFO, 1);
		put(&image, INFO, 8, CODE);
		put(&image, INFO, 4, 0x100);
		put(&image, INFO, 4, lines);
		put(&image, INFO, 4, 8);
		put_string(&image, INFO, "/src");
		put_string(&image, INFO, variant == 2 ? "b.dwo" : "a.dwo");
		unit_end(&image);
		expect(&image, CODE, variant ? "? /src/a.c:100" : "whole /src/a.c:100");
		expect(&image, CODE + 0x20, variant ? "? /src/a.c:102" : "parts /src/a.c:102");
		expect_note(&image, notes[variant]);
		free_image(&image);
		free_image(&dwo);
	}
}

/* ---- Bounds on work ---- */

/* Thousands of units that share one long list of ranges, one long line program, one table of abbreviations, or overlap
 * each other: quadratic work, which is refused. */
static void test_shared_parts(void **state)
{
	(void)state;
	for (unsigned variant = 0; variant < 3; variant++) {
		struct image image = { 0 };
		if (variant == 0) {
			for (unsigned i = 0; i < 100000; i++) {
				put(&image, RANGES, 8, 1); /* dropped */
				put(&image, RANGES, 8, 2);
			}
			put(&image, RANGES, 8, 0);
			put(&image, RANGES, 8, 0);
		}
		if (variant == 1) { /* headers one behind the other, and one program for all */
			enum { HEADERS = 2000, SIZE = 30, PROGRAM = 1000000 };
			for (unsigned i = 0; i < HEADERS; i++) {
				size_t table = line_begin(&image, 4, 1, 1);
				put(&image, LINE, 2, 0);
				assert_int_equal(image.parts[LINE].count - table, SIZE);
				patch(&image, LINE, table, 4, (HEADERS - i) * SIZE + PROGRAM - 4);
				patch(&image, LINE, table + 6, 4, (HEADERS - i) * SIZE - 10);
			}
			for (unsigned i = 0; i < PROGRAM; i++)
				put(&image, LINE, 1, DW_LNS_copy);
		}
		abbrev(&image, 1, DW_TAG_compile_unit, true, variant == 0 ? DW_AT_ranges : 0x2222, DW_FORM_sec_offset,
		       variant == 1 ? DW_AT_stmt_list : 0x2222, DW_FORM_sec_offset, 0);
		uint64_t first = image.parts[ABBREV].count;
		if (variant == 2) /* tables that begin inside each other */
			for (unsigned i = 0; i < 200000; i++)
				abbrev(&image, 1, DW_TAG_compile_unit, false, 0);
		put(&image, ABBREV, 1, 0);
		for (unsigned i = 0; i < 20000; i++) {
			unit_begin(&image, 4, DW_UT_compile, variant == 2 ? first + 5 * (i % 1000) : 0);
			put_uleb(&image, INFO, 1);
			if (variant < 2) {
				put(&image, INFO, 4, 0);
				put(&image, INFO, 4, i % 2000 * 30);
				put(&image, INFO, 1, 0);
			}
			unit_end(&image);
		}
		expect(&image, CODE, "");
		expect_note(&image, "too often");
		free_image(&image);
	}
}

/* What is counted is what a budget is kept by: it must grow with the tables. */
static void test_memory_is_counted(void **state)
{
	(void)state;
	struct image image = { 0 };
	put_unit(&image, "first", CODE, CODE + 0x100, true, true);
	put_unit(&image, "second", CODE + 0x100, CODE + 0x200, true, true);
	open_image(&image);
	size_t none = sp_dwarf_memory(image.dwarf);
	expect(&image, CODE, "first a.c:100");
	size_t one = sp_dwarf_memory(image.dwarf);
	expect(&image, CODE + 0x100, "second a.c:100");
	size_t two = sp_dwarf_memory(image.dwarf);
	expect(&image, CODE + 0x100, "second a.c:100");
	assert_true(none < one && one < two);
	assert_true(sp_dwarf_memory(image.dwarf) == two);
	free_image(&image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_aranges_are_a_hint),
		cmocka_unit_test(test_root_without_ranges),
		cmocka_unit_test(test_overlapping_units),
		cmocka_unit_test(test_corrupt_units),
		cmocka_unit_test(test_bad_lengths),
		cmocka_unit_test(test_abbreviations),
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_shared_parts),
		cmocka_unit_test(test_memory_is_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
