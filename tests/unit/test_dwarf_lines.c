/* Line programs and paths: what compilers, assemblers and linkers may write. */
#include "dwarf_builder.h"

/* An image with one unit over [CODE, CODE + 0x100) that has function "f" there and uses the line table at `lines`. */
static void put_unit(struct image *image, uint64_t lines, const char *folder, unsigned version)
{
	uint64_t abbrevs = image->parts[ABBREV].count;
	abbrev(image, 1, DW_TAG_compile_unit, true, DW_AT_stmt_list, DW_FORM_data4, DW_AT_low_pc, DW_FORM_addr,
	       DW_AT_high_pc, DW_FORM_addr, DW_AT_comp_dir, DW_FORM_string, 0);
	unit_begin(image, version, DW_UT_compile, abbrevs);
	put_uleb(image, INFO, 1);
	put(image, INFO, 4, lines);
	put(image, INFO, 8, CODE);
	put(image, INFO, 8, CODE + 0x100);
	put_string(image, INFO, folder);
	put_function(image, 2, "f", CODE, CODE + 0x100, DW_FORM_addr);
	end_plain(image);
}

/* Begins a table of the version with one file "a.c". */
static size_t begin_lines(struct image *image, unsigned version, unsigned min_length, unsigned max_operations)
{
	size_t table = line_begin(image, version, min_length, max_operations);
	put(image, LINE, 1, 0);
	put_string(image, LINE, "a.c");
	put(image, LINE, 3, 0);
	put(image, LINE, 1, 0);
	line_program(image, table, version);
	return table;
}

static void op(struct image *image, unsigned opcode)
{
	put(image, LINE, 1, opcode);
}

static void advance_line(struct image *image, int by)
{
	op(image, DW_LNS_advance_line);
	put_sleb(image, LINE, by);
}

static void advance_pc(struct image *image, uint64_t by)
{
	op(image, DW_LNS_advance_pc);
	put_uleb(image, LINE, by);
}

static void finish(struct image *image, size_t table)
{
	line_end(image, table);
	put_unit(image, table, "/src", 4);
}

static void test_opcodes(void **state)
{
	(void)state;
	for (unsigned version = 2; version <= 4; version++) {
		struct image image = { 0 };
		size_t table = begin_lines(&image, version, 1, 1);
		set_address(&image, CODE);
		advance_line(&image, 9);
		op(&image, DW_LNS_copy);         /* line 10 */
		op(&image, 13 + 14 * 4 + 5 + 2); /* special: + 4, line + 2 */
		op(&image, 13 + 14 * 4 + 5 - 3); /* special: + 4, line - 3 */
		op(&image, DW_LNS_const_add_pc); /* as opcode 255: + 17 */
		op(&image, DW_LNS_copy);         /* line 9 again */
		op(&image, DW_LNS_fixed_advance_pc);
		put(&image, LINE, 2, 7);
		op(&image, DW_LNS_negate_stmt);
		op(&image, DW_LNS_set_basic_block);
		op(&image, DW_LNS_set_prologue_end);
		op(&image, DW_LNS_set_epilogue_begin);
		op(&image, DW_LNS_set_isa);
		put_uleb(&image, LINE, 300);
		op(&image, DW_LNS_set_column);
		put_uleb(&image, LINE, 5);
		advance_line(&image, 1);
		op(&image, DW_LNS_copy); /* line 10:5 at 0x20 */
		advance_pc(&image, 0x10);
		end_sequence(&image);
		finish(&image, table);
		expect(&image, CODE, "f /src/a.c:10");
		expect(&image, CODE + 4, "f /src/a.c:12");
		expect(&image, CODE + 8, "f /src/a.c:9");
		expect(&image, CODE + 0x1f, "f /src/a.c:9");
		expect(&image, CODE + 0x20, "f /src/a.c:10:5");
		expect(&image, CODE + 0x2f, "f /src/a.c:10:5");
		expect(&image, CODE + 0x30, "f ?:0");
		expect_note(&image, NULL);
		free_image(&image);
	}
}

/* An opcode_base of 10 (DWARF 2), of 17 with standard opcodes that nobody knows, and unknown extended ones. */
static void test_unknown_opcodes(void **state)
{
	(void)state;
	struct image image = { 0 };
	size_t table = image.parts[LINE].count;
	put(&image, LINE, 4, 0);
	put(&image, LINE, 2, 3);
	put(&image, LINE, 4, 0);
	put(&image, LINE, 1, 1);
	put(&image, LINE, 1, 1);
	put(&image, LINE, 1, 0xfb);
	put(&image, LINE, 1, 14);
	put(&image, LINE, 1, 17);
	static const uint8_t lengths[16] = { 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 2, 0, 1, 3 };
	for (unsigned i = 0; i < 16; i++)
		put(&image, LINE, 1, lengths[i]);
	put(&image, LINE, 1, 0);
	put_string(&image, LINE, "a.c");
	put(&image, LINE, 3, 0);
	put(&image, LINE, 1, 0);
	line_program(&image, table, 3);
	set_address(&image, CODE);
	advance_line(&image, 9);
	op(&image, 13);
	put_uleb(&image, LINE, 1000);
	put_uleb(&image, LINE, 1000);
	op(&image, 14);
	op(&image, 16);
	for (unsigned i = 0; i < 3; i++)
		put_uleb(&image, LINE, 1);
	op(&image, 0); /* extended: DW_LNE_set_discriminator, then a vendor's */
	put_uleb(&image, LINE, 2);
	put(&image, LINE, 2, 0x0504);
	op(&image, 0);
	put_uleb(&image, LINE, 200);
	put(&image, LINE, 1, 0x80);
	for (unsigned i = 0; i < 199; i++)
		put(&image, LINE, 1, DW_LNS_copy);
	op(&image, 0); /* and one without even an opcode */
	put_uleb(&image, LINE, 0);
	op(&image, DW_LNS_copy);
	advance_pc(&image, 16);
	end_sequence(&image);
	finish(&image, table);
	expect(&image, CODE + 15, "f /src/a.c:10");
	expect_note(&image, NULL);
	free_image(&image);

	image = (struct image){ 0 };
	table = image.parts[LINE].count;
	put(&image, LINE, 4, 0);
	put(&image, LINE, 2, 2);
	put(&image, LINE, 4, 0);
	put(&image, LINE, 1, 1);
	put(&image, LINE, 1, 1);
	put(&image, LINE, 1, 0xfb);
	put(&image, LINE, 1, 14);
	put(&image, LINE, 1, 10);
	for (unsigned i = 0; i < 9; i++)
		put(&image, LINE, 1, lengths[i]);
	put(&image, LINE, 1, 0);
	put_string(&image, LINE, "a.c");
	put(&image, LINE, 3, 0);
	put(&image, LINE, 1, 0);
	line_program(&image, table, 2);
	set_address(&image, CODE);
	op(&image, 10 + 5 + 4); /* special, though 12 would be set_isa */
	op(&image, 12 + 14);    /* + 1, line - 3 */
	advance_pc(&image, 16);
	end_sequence(&image);
	finish(&image, table);
	expect(&image, CODE, "f /src/a.c:5");
	expect(&image, CODE + 1, "f /src/a.c:2");
	free_image(&image);
}

/* Instructions of 4 bytes; and several operations in one instruction. */
static void test_instruction_lengths(void **state)
{
	(void)state;
	struct image image = { 0 };
	size_t table = begin_lines(&image, 4, 4, 1);
	set_address(&image, CODE);
	op(&image, DW_LNS_copy);
	op(&image, 13 + 14 * 2 + 5 + 1); /* + 2 instructions */
	advance_pc(&image, 2);
	op(&image, DW_LNS_fixed_advance_pc); /* in bytes */
	put(&image, LINE, 2, 3);
	advance_line(&image, 1);
	op(&image, DW_LNS_copy);
	advance_pc(&image, 4);
	end_sequence(&image);
	finish(&image, table);
	expect(&image, CODE + 7, "f /src/a.c:1");
	expect(&image, CODE + 8, "f /src/a.c:2");
	expect(&image, CODE + 0x12, "f /src/a.c:2");
	expect(&image, CODE + 0x13, "f /src/a.c:3");
	expect(&image, CODE + 0x23, "f ?:0");
	free_image(&image);

	image = (struct image){ 0 };
	table = begin_lines(&image, 4, 16, 3);
	set_address(&image, CODE);
	op(&image, DW_LNS_copy);
	op(&image, 13 + 14 * 2 + 5 + 1); /* operation 2 of the first instruction: line 2 at the same address */
	op(&image, 13 + 14 * 2 + 5 + 1); /* operation 1 of the second: line 3 */
	op(&image, 13 + 14 * 5 + 5 + 1); /* operation 0 of the fourth */
	advance_pc(&image, 3);
	end_sequence(&image);
	finish(&image, table);
	expect(&image, CODE, "f /src/a.c:2");
	expect(&image, CODE + 0x10, "f /src/a.c:3");
	expect(&image, CODE + 0x2f, "f /src/a.c:3");
	expect(&image, CODE + 0x30, "f /src/a.c:4");
	expect(&image, CODE + 0x40, "f ?:0");
	free_image(&image);
}

/* Of several rows at one address the last counts. */
static void test_rows_at_one_address(void **state)
{
	(void)state;
	struct image image = { 0 };
	size_t table = begin_lines(&image, 4, 1, 1);
	struct line_row rows[] = { { CODE, 1, 1, 0 },      { CODE, 1, 2, 0 },     { CODE, 1, 3, 0 },
		                   { CODE + 8, 1, 3, 0 },  { CODE + 9, 1, 5, 0 }, { CODE + 9, 1, 3, 0 },
		                   { CODE + 12, 1, 3, 1 }, { CODE + 13, 1, 6, 0 } };
	sequence(&image, rows, 8, CODE + 16);
	finish(&image, table);
	expect(&image, CODE, "f /src/a.c:3");
	expect(&image, CODE + 8, "f /src/a.c:3");
	expect(&image, CODE + 9, "f /src/a.c:3");
	expect(&image, CODE + 12, "f /src/a.c:3:1");
	expect(&image, CODE + 15, "f /src/a.c:6");
	free_image(&image);
}

/* Addresses that go back inside a sequence: as if they had been in order. */
static void test_rows_out_of_order(void **state)
{
	(void)state;
	struct image image = { 0 };
	size_t table = begin_lines(&image, 4, 1, 1);
	/* The first repeats line 1: it must not be lost when line 2 comes between. */
	struct line_row rows[] = { { CODE, 1, 1, 0 },
		                   { CODE + 8, 1, 1, 0 },
		                   { CODE + 4, 1, 2, 0 },
		                   { CODE + 12, 1, 3, 0 },
		                   { CODE + 4, 1, 4, 0 } };
	sequence(&image, rows, 5, CODE + 16);
	/* And a sequence after it that is in order. */
	struct line_row more[] = { { CODE + 0x20, 1, 7, 0 } };
	sequence(&image, more, 1, CODE + 0x30);
	finish(&image, table);
	expect(&image, CODE, "f /src/a.c:1");
	expect(&image, CODE + 4, "f /src/a.c:4");
	expect(&image, CODE + 8, "f /src/a.c:1");
	expect(&image, CODE + 15, "f /src/a.c:3");
	expect(&image, CODE + 16, "f ?:0");
	expect(&image, CODE + 0x20, "f /src/a.c:7");
	free_image(&image);
}

/* A sequence without an end is dropped; what was before it stays. */
static void test_missing_end(void **state)
{
	(void)state;
	struct image image = { 0 };
	size_t table = begin_lines(&image, 4, 1, 1);
	struct line_row rows[] = { { CODE, 1, 1, 0 } };
	sequence(&image, rows, 1, CODE + 16);
	set_address(&image, CODE + 0x20);
	op(&image, DW_LNS_copy);
	advance_pc(&image, 16);
	op(&image, DW_LNS_copy);
	finish(&image, table);
	expect(&image, CODE, "f /src/a.c:1");
	expect(&image, CODE + 0x20, "f ?:0");
	free_image(&image);
}

/* Dropped code: sequences at 0 (which then run over real addresses), 1, -1, -2; and in the middle of a sequence. */
static void test_dropped_sequences(void **state)
{
	(void)state;
	static const uint64_t starts[] = { 0, 1, 0xffffffffffffffff, 0xfffffffffffffffe };
	struct image image = { 0 };
	size_t table = begin_lines(&image, 4, 1, 1);
	for (unsigned i = 0; i < 4; i++) {
		set_address(&image, starts[i]);
		advance_line(&image, 99);
		op(&image, DW_LNS_copy);
		advance_pc(&image, CODE + 0x80);
		op(&image, DW_LNS_copy);
		advance_pc(&image, 0x80);
		end_sequence(&image);
	}
	set_address(&image, CODE);
	op(&image, DW_LNS_copy);
	set_address(&image, 0);
	advance_line(&image, 1);
	op(&image, DW_LNS_copy);
	set_address(&image, CODE + 8);
	advance_line(&image, 1);
	op(&image, DW_LNS_copy);
	set_address(&image, CODE + 16);
	end_sequence(&image);
	/* An address that no instruction sets is 0. */
	advance_pc(&image, CODE + 0x40);
	op(&image, DW_LNS_copy);
	advance_pc(&image, 16);
	end_sequence(&image);
	finish(&image, table);
	expect(&image, CODE, "f /src/a.c:1");
	expect(&image, CODE + 7, "f /src/a.c:1");
	expect(&image, CODE + 8, "f /src/a.c:3");
	expect(&image, CODE + 0x10, "f ?:0");
	expect(&image, CODE + 0x40, "f ?:0");
	expect(&image, CODE + 0x80, "f ?:0");
	free_image(&image);
}

/* An operand of set_address that is shorter or longer than addresses are. */
static void test_set_address_sizes(void **state)
{
	(void)state;
	static const unsigned sizes[] = { 2, 3, 4, 7, 8 };
	for (unsigned i = 0; i < 5; i++) {
		struct image image = { 0 };
		size_t table = begin_lines(&image, 4, 1, 1);
		op(&image, 0);
		put_uleb(&image, LINE, sizes[i] + 1);
		put(&image, LINE, 1, DW_LNE_set_address);
		put(&image, LINE, sizes[i], CODE + 4);
		op(&image, DW_LNS_copy);
		op(&image, 0); /* 12 bytes: no address */
		put_uleb(&image, LINE, 13);
		put(&image, LINE, 1, DW_LNE_set_address);
		for (unsigned k = 0; k < 12; k++)
			put(&image, LINE, 1, 0xff);
		advance_pc(&image, 8);
		end_sequence(&image);
		finish(&image, table);
		expect(&image, CODE + 4, "f /src/a.c:1");
		expect(&image, CODE + 11, "f /src/a.c:1");
		expect(&image, CODE + 12, "f ?:0");
		free_image(&image);
	}
}

/* advance_pc past the end of the address space. */
static void test_wrapping(void **state)
{
	(void)state;
	struct image image = { 0 };
	size_t table = begin_lines(&image, 4, 1, 1);
	set_address(&image, CODE + 0x10);
	op(&image, DW_LNS_copy);
	advance_pc(&image, 0xfffffffffffffff8); /* back by 8 */
	advance_line(&image, 1);
	op(&image, DW_LNS_copy);
	advance_pc(&image, 0x18);
	end_sequence(&image);
	set_address(&image, CODE + 0x40);
	op(&image, DW_LNS_copy);
	advance_pc(&image, 0x4000000000000000); /* a row that far away is dropped */
	op(&image, DW_LNS_copy);
	end_sequence(&image);
	finish(&image, table);
	expect(&image, CODE + 8, "f /src/a.c:2");
	expect(&image, CODE + 0x10, "f /src/a.c:1");
	expect(&image, CODE + 0x40, "f /src/a.c:1");
	free_image(&image);
}

/* Lines, columns and file numbers that are larger than what is packed; line 0; files that are not there. */
static void test_large_numbers(void **state)
{
	(void)state;
	struct image image = { 0 };
	size_t table = begin_lines(&image, 4, 1, 1);
	struct line_row rows[] = { { CODE, 1, 0x7fffffff, 0 },      { CODE + 16, 1, 0xffffff, 3 },
		                   { CODE + 32, 1, 5, 0xffffffff }, { CODE + 48, 0x7fffffff, 6, 0 },
		                   { CODE + 64, 1, 0, 7 },          { CODE + 80, 0, 8, 0 },
		                   { CODE + 96, 2, 9, 0 },          { CODE + 112, 1, 0xfffffe, 0 } };
	sequence(&image, rows, 8, CODE + 128);
	finish(&image, table);
	expect(&image, CODE, "f /src/a.c:2147483647");
	expect(&image, CODE + 16, "f /src/a.c:16777215:3");
	expect(&image, CODE + 32, "f /src/a.c:5:4294967295");
	expect(&image, CODE + 48, "f ?:6");
	expect(&image, CODE + 64, "f /src/a.c:0:7");
	expect(&image, CODE + 80, "f ?:8");
	expect(&image, CODE + 96, "f ?:9");
	expect(&image, CODE + 112, "f /src/a.c:16777214");
	free_image(&image);
}

/* Two sequences of one table over the same code (identical functions that were folded): the tighter one. */
static void test_overlapping_sequences(void **state)
{
	(void)state;
	struct image image = { 0 };
	size_t table = begin_lines(&image, 4, 1, 1);
	struct line_row wide[] = { { CODE, 1, 1, 0 }, { CODE + 0x30, 1, 2, 0 } },
	                tight[] = { { CODE + 0x10, 1, 7, 0 } };
	sequence(&image, wide, 2, CODE + 0x40);
	sequence(&image, tight, 1, CODE + 0x20);
	finish(&image, table);
	expect(&image, CODE, "f /src/a.c:1");
	expect(&image, CODE + 0x10, "f /src/a.c:7");
	expect(&image, CODE + 0x20, "f /src/a.c:1");
	expect(&image, CODE + 0x30, "f /src/a.c:2");
	free_image(&image);
}

/* ---- Files ---- */

static void test_define_file(void **state)
{
	(void)state;
	struct image image = { 0 };
	size_t table = begin_lines(&image, 3, 1, 1);
	set_address(&image, CODE);
	op(&image, 0);
	put_uleb(&image, LINE, 1 + 6 + 3);
	put(&image, LINE, 1, DW_LNE_define_file);
	put_string(&image, LINE, "new.c");
	put(&image, LINE, 3, 0);
	op(&image, DW_LNS_set_file);
	put_uleb(&image, LINE, 2);
	op(&image, DW_LNS_copy);
	advance_pc(&image, 16);
	end_sequence(&image);
	finish(&image, table);
	expect(&image, CODE, "f /src/new.c:1");
	free_image(&image);
}

/* Folders and files of versions 2 to 4: numbers from 1, folder 0 is the compilation folder. */
static void test_paths(void **state)
{
	(void)state;
	static const struct {
		const char *folder, *name;
		unsigned index;
		const char *comp_dir, *expected;
	} cases[] = {
		{ "sub", "a.c", 0, "/src", "/src/a.c" },
		{ "sub", "a.c", 1, "/src", "/src/sub/a.c" },
		{ "/usr/include", "a.h", 1, "/src", "/usr/include/a.h" },
		{ "sub", "/abs/a.c", 1, "/src", "/abs/a.c" },
		{ "../other", "../a.c", 1, "/src/./x", "/src/./x/../other/../a.c" },
		{ "sub/", "a.c", 1, "/src/", "/src/sub/a.c" },
		{ "sub", "a.c", 2, "/src", "/src/a.c" }, /* no such folder */
		{ "sub", "a.c", 1, "", "sub/a.c" },
		{ "sub", "a.c", 1, "C:\\src", "C:\\src\\sub\\a.c" },
		{ "C:\\inc", "a.h", 1, "D:\\src", "C:\\inc\\a.h" },
		{ "C:/inc", "a.h", 1, "D:/src", "C:/inc/a.h" },
		{ "\\\\server\\share", "a.h", 1, "D:\\src", "\\\\server\\share\\a.h" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct image image = { 0 };
		char expected[256];
		size_t table = line_begin(&image, 4, 1, 1);
		put_string(&image, LINE, cases[i].folder);
		put(&image, LINE, 1, 0);
		put_string(&image, LINE, cases[i].name);
		put_uleb(&image, LINE, cases[i].index);
		put(&image, LINE, 2, 0);
		put(&image, LINE, 1, 0);
		line_program(&image, table, 4);
		struct line_row row = { CODE, 1, 3, 0 };
		sequence(&image, &row, 1, CODE + 16);
		line_end(&image, table);
		put_unit(&image, table, cases[i].comp_dir, 4);
		snprintf(expected, sizeof(expected), "f %s:3", cases[i].expected);
		expect(&image, CODE, expected);
		free_image(&image);
	}
}

/* Version 5: described columns (here with MD5, size, time and a vendor's), numbers from 0, folder 0 given. */
static void test_version_5(void **state)
{
	(void)state;
	struct image image = { 0 };
	uint64_t name = keep(&image, LINE_STR, "b.c"), other = keep(&image, STR, "c.c");
	size_t table = line_begin(&image, 5, 1, 1);
	put(&image, LINE, 1, 1);
	put_uleb(&image, LINE, DW_LNCT_path);
	put_uleb(&image, LINE, DW_FORM_string);
	put_uleb(&image, LINE, 2);
	put_string(&image, LINE, "/src");
	put_string(&image, LINE, "sub");
	put(&image, LINE, 1, 6);
	static const unsigned columns[6][2] = {
		{ 0x2001, DW_FORM_block }, { 5, DW_FORM_data16 }, { DW_LNCT_directory_index, DW_FORM_udata },
		{ 3, DW_FORM_data4 },      { 4, DW_FORM_udata },  { DW_LNCT_path, DW_FORM_line_strp }
	};
	for (unsigned i = 0; i < 6; i++) {
		put_uleb(&image, LINE, columns[i][0]);
		put_uleb(&image, LINE, columns[i][1]);
	}
	put_uleb(&image, LINE, 2);
	for (unsigned i = 0; i < 2; i++) {
		put_uleb(&image, LINE, 2);
		put(&image, LINE, 2, 0);
		put(&image, LINE, 8, 0);
		put(&image, LINE, 8, 0);
		put_uleb(&image, LINE, i);
		put(&image, LINE, 4, 1);
		put_uleb(&image, LINE, 200);
		put(&image, LINE, 4, name);
	}
	line_program(&image, table, 5);
	struct line_row rows[] = { { CODE, 0, 3, 0 }, { CODE + 16, 1, 4, 0 }, { CODE + 32, 2, 5, 0 } };
	sequence(&image, rows, 3, CODE + 48);
	line_end(&image, table);
	put_unit(&image, table, "/src", 5);
	(void)other;
	expect(&image, CODE, "f /src/b.c:3");
	expect(&image, CODE + 16, "f /src/sub/b.c:4");
	expect(&image, CODE + 32, "f ?:5");
	expect_note(&image, NULL);
	free_image(&image);
}

/* A table that is not there, or is cut short, costs the lines only. */
static void test_bad_tables(void **state)
{
	(void)state;
	size_t whole = 1;
	for (size_t cut = 0; cut <= whole; cut++) {
		struct image image = { 0 };
		size_t table = begin_lines(&image, 4, 1, 1);
		struct line_row row = { CODE, 1, 3, 0 };
		sequence(&image, &row, 1, CODE + 16);
		line_end(&image, table);
		whole = image.parts[LINE].count;
		image.parts[LINE].count = cut;
		put_unit(&image, table, "/src", 4);
		expect(&image, CODE, cut == whole ? "f /src/a.c:3" : "f ?:0");
		free_image(&image);
	}
	struct image image = { 0 };
	put_unit(&image, 0x12345678, "/src", 4);
	expect(&image, CODE, "f ?:0");
	expect_note(&image, ".debug_line");
	free_image(&image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_opcodes),
		cmocka_unit_test(test_unknown_opcodes),
		cmocka_unit_test(test_instruction_lengths),
		cmocka_unit_test(test_rows_at_one_address),
		cmocka_unit_test(test_rows_out_of_order),
		cmocka_unit_test(test_missing_end),
		cmocka_unit_test(test_dropped_sequences),
		cmocka_unit_test(test_set_address_sizes),
		cmocka_unit_test(test_wrapping),
		cmocka_unit_test(test_large_numbers),
		cmocka_unit_test(test_overlapping_sequences),
		cmocka_unit_test(test_define_file),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_version_5),
		cmocka_unit_test(test_bad_tables),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
