/* Forms of attributes, ways to write ranges, references and names: each written by hand. */
#include "dwarf_builder.h"

/* A DIE with one attribute of the form. */
static void put_form(struct image *image, unsigned form)
{
	switch (form) {
	case DW_FORM_addr:
	case DW_FORM_data8:
	case DW_FORM_ref8:
	case DW_FORM_ref_sig8:
	case DW_FORM_ref_sup8:
		put(image, INFO, 8, 0x0102030405060708);
		break;
	case DW_FORM_data1:
	case DW_FORM_flag:
	case DW_FORM_ref1:
	case DW_FORM_strx1:
	case DW_FORM_addrx1:
		put(image, INFO, 1, 1);
		break;
	case DW_FORM_data2:
	case DW_FORM_ref2:
	case DW_FORM_strx2:
	case DW_FORM_addrx2:
		put(image, INFO, 2, 0x0101);
		break;
	case DW_FORM_strx3:
	case DW_FORM_addrx3:
		put(image, INFO, 3, 0x010101);
		break;
	case DW_FORM_data4:
	case DW_FORM_ref4:
	case DW_FORM_ref_sup4:
	case DW_FORM_strx4:
	case DW_FORM_addrx4:
		put(image, INFO, 4, 0x01010101);
		break;
	case DW_FORM_data16:
		put(image, INFO, 8, 0x0101010101010101);
		put(image, INFO, 8, 0x0101010101010101);
		break;
	case DW_FORM_ref_addr:
		put(image, INFO, image->version == 2 ? 8 : image->offset_size, 0x01010101);
		break;
	case DW_FORM_sec_offset:
	case DW_FORM_strp:
	case DW_FORM_strp_sup:
	case DW_FORM_line_strp:
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_GNU_strp_alt:
		put(image, INFO, image->offset_size, 0x01010101);
		break;
	case DW_FORM_sdata:
	case DW_FORM_udata:
	case DW_FORM_ref_udata:
	case DW_FORM_strx:
	case DW_FORM_addrx:
	case DW_FORM_loclistx:
	case DW_FORM_rnglistx:
	case DW_FORM_GNU_addr_index:
	case DW_FORM_GNU_str_index:
		put_uleb(image, INFO, 0x12345678);
		break;
	case DW_FORM_block1:
		put(image, INFO, 1, 3);
		put(image, INFO, 3, 0x010101);
		break;
	case DW_FORM_block2:
		put(image, INFO, 2, 3);
		put(image, INFO, 3, 0x010101);
		break;
	case DW_FORM_block4:
		put(image, INFO, 4, 3);
		put(image, INFO, 3, 0x010101);
		break;
	case DW_FORM_block:
	case DW_FORM_exprloc:
		put_uleb(image, INFO, 200);
		for (unsigned i = 0; i < 200; i++)
			put(image, INFO, 1, 1);
		break;
	case DW_FORM_string:
		put_string(image, INFO, "text");
		break;
	case DW_FORM_indirect:
		put_uleb(image, INFO, DW_FORM_block1);
		put_form(image, DW_FORM_block1);
		break;
	default: /* nothing in .debug_info */
		break;
	}
}

static const unsigned all_forms[] = {
	DW_FORM_addr,        DW_FORM_block2,         DW_FORM_block4,   DW_FORM_data2,          DW_FORM_data4,
	DW_FORM_data8,       DW_FORM_string,         DW_FORM_block,    DW_FORM_block1,         DW_FORM_data1,
	DW_FORM_flag,        DW_FORM_sdata,          DW_FORM_strp,     DW_FORM_udata,          DW_FORM_ref_addr,
	DW_FORM_ref1,        DW_FORM_ref2,           DW_FORM_ref4,     DW_FORM_ref8,           DW_FORM_ref_udata,
	DW_FORM_indirect,    DW_FORM_sec_offset,     DW_FORM_exprloc,  DW_FORM_flag_present,   DW_FORM_strx,
	DW_FORM_addrx,       DW_FORM_ref_sup4,       DW_FORM_strp_sup, DW_FORM_data16,         DW_FORM_line_strp,
	DW_FORM_ref_sig8,    DW_FORM_implicit_const, DW_FORM_loclistx, DW_FORM_rnglistx,       DW_FORM_ref_sup8,
	DW_FORM_strx1,       DW_FORM_strx2,          DW_FORM_strx3,    DW_FORM_strx4,          DW_FORM_addrx1,
	DW_FORM_addrx2,      DW_FORM_addrx3,         DW_FORM_addrx4,   DW_FORM_GNU_addr_index, DW_FORM_GNU_str_index,
	DW_FORM_GNU_ref_alt, DW_FORM_GNU_strp_alt,
};
#define ALL_FORMS (sizeof(all_forms) / sizeof(*all_forms))

/* Each form, alone and between others, in DIEs that are skipped and in one that is read. */
static void test_forms_are_skipped(void **state)
{
	(void)state;
	for (unsigned variant = 0; variant < 12; variant++) {
		struct image image = { .offset_size = variant & 1 ? 8 : 4 };
		unsigned version = 2 + variant / 2 % 4;
		bool all_in_one = variant / 8;
		begin_plain(&image, version);
		for (unsigned i = 0; i < ALL_FORMS; i++) {
			unsigned form = all_forms[i];
			/* The table's own text: abbrev() takes no lists. */
			put_uleb(&image, ABBREV, 10 + i);
			put_uleb(&image, ABBREV, all_in_one ? DW_TAG_subprogram : DW_TAG_pointer_type);
			put(&image, ABBREV, 1, 0);
			for (unsigned k = 0; k < 3; k++) {
				put_uleb(&image, ABBREV, k == 1 ? 0x2222 : 0x2223); /* attributes that nobody knows */
				put_uleb(&image, ABBREV, k == 1 ? form : DW_FORM_data2);
				if (k == 1 && form == DW_FORM_implicit_const)
					put_sleb(&image, ABBREV, -5);
			}
			if (all_in_one) {
				put_uleb(&image, ABBREV, DW_AT_low_pc);
				put_uleb(&image, ABBREV, DW_FORM_addr);
			}
			put(&image, ABBREV, 2, 0);
			put_uleb(&image, INFO, 10 + i);
			put(&image, INFO, 2, 0x0101);
			put_form(&image, form);
			put(&image, INFO, 2, 0x0101);
			if (all_in_one)
				put(&image, INFO, 8, 0);
		}
		abbrev(&image, 2, DW_TAG_subprogram, false, DW_AT_name, DW_FORM_string, DW_AT_low_pc, DW_FORM_addr,
		       DW_AT_high_pc, DW_FORM_addr, 0);
		put_uleb(&image, INFO, 2);
		put_string(&image, INFO, "behind");
		put(&image, INFO, 8, CODE + 16);
		put(&image, INFO, 8, CODE + 32);
		end_plain(&image);
		expect(&image, CODE + 16, "behind /src/a.c:101");
		expect(&image, CODE + 32, "? /src/a.c:102");
		expect_note(&image, NULL);
		free_image(&image);
	}
}

/* A form from the future: what was read before it stays, with a complaint. */
static void test_unknown_form(void **state)
{
	(void)state;
	struct image image = { 0 };
	begin_plain(&image, 4);
	abbrev(&image, 2, DW_TAG_subprogram, false, DW_AT_name, DW_FORM_string, DW_AT_low_pc, DW_FORM_addr,
	       DW_AT_high_pc, DW_FORM_addr, 0);
	abbrev(&image, 3, DW_TAG_subprogram, false, DW_AT_name, 0x7e, 0);
	for (unsigned i = 0; i < 2; i++) {
		put_uleb(&image, INFO, 2);
		put_string(&image, INFO, i ? "after" : "before");
		put(&image, INFO, 8, CODE + 16 * i);
		put(&image, INFO, 8, CODE + 16 * i + 16);
		put_uleb(&image, INFO, 3);
	}
	end_plain(&image);
	expect(&image, CODE, "before /src/a.c:100");
	expect(&image, CODE + 16, "? /src/a.c:101");
	expect_note(&image, "is corrupt");
	free_image(&image);
}

/* ---- Strings ---- */

static void test_string_forms(void **state)
{
	(void)state;
	static const unsigned forms[] = { DW_FORM_strp,     DW_FORM_line_strp,    DW_FORM_strx,   DW_FORM_strx1,
		                          DW_FORM_strx2,    DW_FORM_strx3,        DW_FORM_strx4,  DW_FORM_GNU_str_index,
		                          DW_FORM_strp_sup, DW_FORM_GNU_strp_alt, DW_FORM_string, DW_FORM_indirect };
	for (unsigned i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		struct image supplementary = { 0 };
		struct image image = { .supplementary = &supplementary };
		unsigned form = forms[i];
		keep(&image, STR, "no");
		keep(&image, LINE_STR, "neither");
		keep(&supplementary, STR, "nor");
		uint64_t where[3] = { keep(&image, STR, "found"), keep(&image, LINE_STR, "found"),
			              keep(&supplementary, STR, "found") };
		/* .debug_str_offsets: a header, then entry 0 and the one we want. */
		put(&image, STR_OFFSETS, 4, 12);
		put(&image, STR_OFFSETS, 2, 5);
		put(&image, STR_OFFSETS, 2, 0);
		put(&image, STR_OFFSETS, 4, 0);
		put(&image, STR_OFFSETS, 4, where[0]);
		uint64_t lines = plain_lines(&image, CODE, CODE + 0x100);
		abbrev(&image, 1, DW_TAG_compile_unit, true, DW_AT_stmt_list, DW_FORM_sec_offset,
		       DW_AT_str_offsets_base, DW_FORM_sec_offset, DW_AT_low_pc, DW_FORM_addr, DW_AT_high_pc,
		       DW_FORM_data2, 0);
		abbrev(&image, 2, DW_TAG_subprogram, false, DW_AT_name, form, DW_AT_low_pc, DW_FORM_addr, DW_AT_high_pc,
		       DW_FORM_data2, 0);
		unit_begin(&image, 5, DW_UT_compile, 0);
		put_uleb(&image, INFO, 1);
		put(&image, INFO, 4, lines);
		put(&image, INFO, 4, 8);
		put(&image, INFO, 8, CODE);
		put(&image, INFO, 2, 0x100);
		put_uleb(&image, INFO, 2);
		switch (form) {
		case DW_FORM_strp:
			put(&image, INFO, 4, where[0]);
			break;
		case DW_FORM_line_strp:
			put(&image, INFO, 4, where[1]);
			break;
		case DW_FORM_strp_sup:
		case DW_FORM_GNU_strp_alt:
			put(&image, INFO, 4, where[2]);
			break;
		case DW_FORM_strx2:
			put(&image, INFO, 2, 1);
			break;
		case DW_FORM_strx3:
			put(&image, INFO, 3, 1);
			break;
		case DW_FORM_strx4:
			put(&image, INFO, 4, 1);
			break;
		case DW_FORM_string:
			put_string(&image, INFO, "found");
			break;
		case DW_FORM_indirect:
			put_uleb(&image, INFO, DW_FORM_string);
			put_string(&image, INFO, "found");
			break;
		default:
			put(&image, INFO, 1, 1);
			break;
		}
		put(&image, INFO, 8, CODE);
		put(&image, INFO, 2, 16);
		end_plain(&image);
		expect(&image, CODE, "found a.c:100");
		expect_note(&image, NULL);
		free_image(&image);
	}
}

/* Offsets outside, and a section that does not end with NUL. */
static void test_bad_strings(void **state)
{
	(void)state;
	static const uint32_t offsets[] = { 0, 5, 6, 100, 0xffffffff };
	static const char *const names[] = { "fine", "?", "?", "?", "?" };
	for (unsigned i = 0; i < 5; i++) {
		struct image image = { 0 };
		begin_plain(&image, 4);
		keep(&image, STR, "fine");
		put(&image, STR, 1, 'x');
		abbrev(&image, 2, DW_TAG_subprogram, false, DW_AT_name, DW_FORM_strp, DW_AT_low_pc, DW_FORM_addr,
		       DW_AT_high_pc, DW_FORM_data2, 0);
		put_uleb(&image, INFO, 2);
		put(&image, INFO, 4, offsets[i]);
		put(&image, INFO, 8, CODE);
		put(&image, INFO, 2, 16);
		end_plain(&image);
		char expected[64];
		snprintf(expected, sizeof(expected), "%s /src/a.c:100", names[i]);
		expect(&image, CODE, expected);
		free_image(&image);
	}
}

/* ---- Addresses and ranges ---- */

static void test_address_forms(void **state)
{
	(void)state;
	static const struct {
		unsigned form, size;
	} forms[] = { { DW_FORM_addrx, 0 },  { DW_FORM_addrx1, 1 }, { DW_FORM_addrx2, 2 },
		      { DW_FORM_addrx3, 3 }, { DW_FORM_addrx4, 4 }, { DW_FORM_GNU_addr_index, 0 } };
	for (unsigned i = 0; i < 6; i++) {
		struct image image = { 0 };
		put(&image, ADDR, 4, 4 + 3 * 8);
		put(&image, ADDR, 2, 5);
		put(&image, ADDR, 1, 8);
		put(&image, ADDR, 1, 0);
		put(&image, ADDR, 8, 0x4444);
		put(&image, ADDR, 8, CODE + 16);
		put(&image, ADDR, 8, CODE + 32);
		uint64_t lines = plain_lines(&image, CODE, CODE + 0x100);
		abbrev(&image, 1, DW_TAG_compile_unit, true, DW_AT_low_pc, forms[i].form, DW_AT_high_pc, DW_FORM_data2,
		       DW_AT_stmt_list, DW_FORM_sec_offset, DW_AT_addr_base, DW_FORM_sec_offset, 0);
		abbrev(&image, 2, DW_TAG_subprogram, false, DW_AT_name, DW_FORM_string, DW_AT_low_pc, forms[i].form,
		       DW_AT_high_pc, forms[i].form, 0);
		unit_begin(&image, 5, DW_UT_compile, 0);
		put_uleb(&image, INFO, 1);
		put(&image, INFO, forms[i].size ? forms[i].size : 1, 1); /* before the base is known */
		put(&image, INFO, 2, 0x80);
		put(&image, INFO, 4, lines);
		put(&image, INFO, 4, 8);
		put_uleb(&image, INFO, 2);
		put_string(&image, INFO, "indexed");
		put(&image, INFO, forms[i].size ? forms[i].size : 1, 1);
		put(&image, INFO, forms[i].size ? forms[i].size : 1, 2);
		end_plain(&image);
		expect(&image, CODE + 16, "indexed a.c:101");
		expect(&image, CODE + 31, "indexed a.c:101");
		expect(&image, CODE + 32, "? a.c:102");
		free_image(&image);
	}
}

static void test_high_pc(void **state)
{
	(void)state;
	static const unsigned forms[] = { DW_FORM_data1, DW_FORM_data2, DW_FORM_data4, DW_FORM_data8, DW_FORM_udata };
	struct image image = { 0 };
	begin_plain(&image, 4);
	put_function(&image, 2, "absolute", CODE, CODE + 16, DW_FORM_addr);
	for (unsigned i = 0; i < 5; i++)
		put_function(&image, 3 + i, "offset", CODE + 16 * (i + 1), 8, forms[i]);
	/* Empty, inverted, wrapping. */
	put_function(&image, 20, "empty", CODE + 0x80, CODE + 0x80, DW_FORM_addr);
	put_function(&image, 21, "inverted", CODE + 0x90, CODE + 0x80, DW_FORM_addr);
	put_function(&image, 22, "wrapping", CODE + 0x90, 0xfffffffffffffff0, DW_FORM_data8);
	/* low_pc alone is no range. */
	abbrev(&image, 23, DW_TAG_subprogram, false, DW_AT_name, DW_FORM_string, DW_AT_low_pc, DW_FORM_addr, 0);
	put_uleb(&image, INFO, 23);
	put_string(&image, INFO, "alone");
	put(&image, INFO, 8, CODE + 0xa0);
	end_plain(&image);
	expect(&image, CODE + 15, "absolute /src/a.c:100");
	for (unsigned i = 0; i < 5; i++) {
		char expected[64];
		snprintf(expected, sizeof(expected), "offset /src/a.c:%u", 101 + i);
		expect(&image, CODE + 16 * (i + 1) + 7, expected);
		snprintf(expected, sizeof(expected), "? /src/a.c:%u", 101 + i);
		expect(&image, CODE + 16 * (i + 1) + 8, expected);
	}
	expect(&image, CODE + 0x80, "? /src/a.c:108");
	expect(&image, CODE + 0x90, "? /src/a.c:109");
	expect(&image, CODE + 0xa0, "? /src/a.c:110");
	expect_note(&image, NULL);
	free_image(&image);
}

static void put_pair(struct image *image, uint64_t start, uint64_t end)
{
	put(image, RANGES, 8, start);
	put(image, RANGES, 8, end);
}

/* .debug_ranges: base of the unit, base selection, tombstones (1 of GNU ld, -2 of lld, a dead base), low_pc beside. */
static void test_ranges(void **state)
{
	(void)state;
	struct image image = { 0 };
	begin_plain(&image, 4);
	put_pair(&image, 0, 0);
	uint64_t list = image.parts[RANGES].count;
	put_pair(&image, 0x00, 0x08); /* from the unit's low_pc */
	put_pair(&image, 1, 1);
	put_pair(&image, 0x08, 0x08); /* empty */
	put_pair(&image, 0xfffffffffffffffe, 0xfffffffffffffffe);
	put_pair(&image, 0xffffffffffffffff, CODE + 0x40);
	put_pair(&image, 0x00, 0x10);
	put_pair(&image, 0xffffffffffffffff, 0xffffffffffffffff); /* a dead base */
	put_pair(&image, CODE + 0x61, CODE + 0x71);
	put_pair(&image, 0xffffffffffffffff, 0);
	put_pair(&image, CODE + 0x80, CODE + 0x90);
	put_pair(&image, 0, 0);
	put_pair(&image, CODE + 0xa0, CODE + 0xb0);
	abbrev(&image, 2, DW_TAG_subprogram, false, DW_AT_name, DW_FORM_string, DW_AT_low_pc, DW_FORM_addr,
	       DW_AT_ranges, DW_FORM_sec_offset, 0);
	put_uleb(&image, INFO, 2);
	put_string(&image, INFO, "parts");
	put(&image, INFO, 8, 0);
	put(&image, INFO, 4, list);
	end_plain(&image);
	expect(&image, CODE + 7, "parts /src/a.c:100");
	expect(&image, CODE + 8, "? /src/a.c:100");
	expect(&image, CODE + 0x40, "parts /src/a.c:104");
	expect(&image, CODE + 0x50, "? /src/a.c:105");
	expect(&image, CODE + 0x60, "? /src/a.c:106");
	expect(&image, CODE + 0x80, "parts /src/a.c:108");
	expect(&image, CODE + 0xa0, "? /src/a.c:110");
	expect_note(&image, NULL);
	free_image(&image);
}

/* Every kind of entry in .debug_rnglists, by offset and by index. */
static void test_rnglists(void **state)
{
	(void)state;
	for (unsigned indexed = 0; indexed < 2; indexed++) {
		struct image image = { 0 };
		put(&image, ADDR, 8, 0); /* the base is given: no header is needed */
		put(&image, ADDR, 8, CODE + 0x40);
		put(&image, ADDR, 8, CODE + 0x48);
		put(&image, ADDR, 8, 0xffffffffffffffff);
		put(&image, RNGLISTS, 4, 0);
		put(&image, RNGLISTS, 2, 5);
		put(&image, RNGLISTS, 2, 8);
		put(&image, RNGLISTS, 4, 2); /* offsets */
		put(&image, RNGLISTS, 4, 8);
		put(&image, RNGLISTS, 4, 9);
		put(&image, RNGLISTS, 1, DW_RLE_end_of_list);
		uint64_t list = image.parts[RNGLISTS].count;
		put(&image, RNGLISTS, 1, DW_RLE_offset_pair); /* from the unit's low_pc */
		put_uleb(&image, RNGLISTS, 0x00);
		put_uleb(&image, RNGLISTS, 0x04);
		put(&image, RNGLISTS, 1, DW_RLE_base_address);
		put(&image, RNGLISTS, 8, CODE + 0x10);
		put(&image, RNGLISTS, 1, DW_RLE_offset_pair);
		put_uleb(&image, RNGLISTS, 0x00);
		put_uleb(&image, RNGLISTS, 0x04);
		put(&image, RNGLISTS, 1, DW_RLE_start_end);
		put(&image, RNGLISTS, 8, CODE + 0x20);
		put(&image, RNGLISTS, 8, CODE + 0x24);
		put(&image, RNGLISTS, 1, DW_RLE_start_length);
		put(&image, RNGLISTS, 8, CODE + 0x30);
		put_uleb(&image, RNGLISTS, 4);
		put(&image, RNGLISTS, 1, DW_RLE_startx_endx);
		put_uleb(&image, RNGLISTS, 1);
		put_uleb(&image, RNGLISTS, 2);
		put(&image, RNGLISTS, 1, DW_RLE_startx_length);
		put_uleb(&image, RNGLISTS, 2);
		put_uleb(&image, RNGLISTS, 4);
		put(&image, RNGLISTS, 1, DW_RLE_base_addressx);
		put_uleb(&image, RNGLISTS, 1);
		put(&image, RNGLISTS, 1, DW_RLE_offset_pair);
		put_uleb(&image, RNGLISTS, 0x20);
		put_uleb(&image, RNGLISTS, 0x24);
		put(&image, RNGLISTS, 1, DW_RLE_base_addressx); /* dead: what follows it must not wrap into the code */
		put_uleb(&image, RNGLISTS, 3);
		put(&image, RNGLISTS, 1, DW_RLE_offset_pair);
		put_uleb(&image, RNGLISTS, CODE + 0x71);
		put_uleb(&image, RNGLISTS, CODE + 0x75);
		put(&image, RNGLISTS, 1, DW_RLE_end_of_list);
		patch(&image, RNGLISTS, 0, 4, image.parts[RNGLISTS].count - 4);
		uint64_t lines = plain_lines(&image, CODE, CODE + 0x100);
		abbrev(&image, 1, DW_TAG_compile_unit, true, DW_AT_low_pc, DW_FORM_addr, DW_AT_high_pc, DW_FORM_data2,
		       DW_AT_stmt_list, DW_FORM_sec_offset, DW_AT_addr_base, DW_FORM_sec_offset, DW_AT_rnglists_base,
		       DW_FORM_sec_offset, 0);
		abbrev(&image, 2, DW_TAG_subprogram, false, DW_AT_name, DW_FORM_string, DW_AT_ranges,
		       indexed ? DW_FORM_rnglistx : DW_FORM_sec_offset, 0);
		unit_begin(&image, 5, DW_UT_compile, 0);
		put_uleb(&image, INFO, 1);
		put(&image, INFO, 8, CODE);
		put(&image, INFO, 2, 0x100);
		put(&image, INFO, 4, lines);
		put(&image, INFO, 4, 0);
		put(&image, INFO, 4, 12);
		put_uleb(&image, INFO, 2);
		put_string(&image, INFO, "parts");
		put(&image, INFO, indexed ? 1 : 4, indexed ? 1 : list);
		end_plain(&image);
		for (unsigned i = 0; i < 8; i++) {
			char expected[64];
			snprintf(expected, sizeof(expected), "%s a.c:%u", i == 7 || i == 5 ? "?" : "parts", 100 + i);
			expect(&image, CODE + 16 * i, expected);
		}
		expect(&image, CODE + 0x47, "parts a.c:104");
		expect(&image, CODE + 0x4b, "parts a.c:104");
		expect(&image, CODE + 0x4c, "? a.c:104");
		expect(&image, CODE + 0x34, "? a.c:103");
		expect_note(&image, NULL);
		free_image(&image);
	}
}

/* Code that was dropped: what the linkers write in place of its address. */
static void test_tombstones(void **state)
{
	(void)state;
	struct image image = { 0 };
	begin_plain(&image, 4);
	put_function(&image, 2, "kept", CODE, 16, DW_FORM_data8);
	put_function(&image, 3, "zero", 0, CODE + 0x100, DW_FORM_data8);
	put_function(&image, 4, "one", 1, CODE + 0x100, DW_FORM_data8);
	put_function(&image, 5, "minus_one", 0xffffffffffffffff, CODE + 0x100, DW_FORM_data8);
	put_function(&image, 6, "minus_two", 0xfffffffffffffffe, CODE + 0x100, DW_FORM_data8);
	put_function(&image, 7, "below", CODE - 0x100, 0x200, DW_FORM_data8);
	end_plain(&image);
	expect(&image, CODE + 1, "kept /src/a.c:100");
	expect(&image, CODE + 17, "? /src/a.c:101");
	expect(&image, 0, "");
	expect(&image, 0x100, "");
	expect_note(&image, NULL);
	free_image(&image);
}

/* In a relocatable file, and where code really is at 0, 0 is an address. */
static void test_address_zero(void **state)
{
	(void)state;
	struct image image = { .relocatable = true };
	uint64_t lines = plain_lines(&image, 0, 0x100);
	abbrev(&image, 1, DW_TAG_compile_unit, true, DW_AT_stmt_list, DW_FORM_sec_offset, DW_AT_low_pc, DW_FORM_addr,
	       DW_AT_high_pc, DW_FORM_data2, 0);
	unit_begin(&image, 4, DW_UT_compile, 0);
	put_uleb(&image, INFO, 1);
	put(&image, INFO, 4, lines);
	put(&image, INFO, 8, 0);
	put(&image, INFO, 2, 0x100);
	put_function(&image, 2, "start", 0, 16, DW_FORM_data8);
	end_plain(&image);
	expect(&image, 0, "start a.c:100");
	expect(&image, 15, "start a.c:100");
	expect(&image, 16, "? a.c:101");
	free_image(&image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms_are_skipped),
		cmocka_unit_test(test_unknown_form),
		cmocka_unit_test(test_string_forms),
		cmocka_unit_test(test_bad_strings),
		cmocka_unit_test(test_address_forms),
		cmocka_unit_test(test_high_pc),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_rnglists),
		cmocka_unit_test(test_tombstones),
		cmocka_unit_test(test_address_zero),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
