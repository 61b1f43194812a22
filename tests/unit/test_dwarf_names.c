/* Names and inlined calls: chains of references, scopes, nesting. */
#include "dwarf_builder.h"

#define FUNCTION 2   /* abbreviations that begin_names() makes */
#define ABSTRACT 3   /* name */
#define NAMESPACE 4  /* name, children */
#define NAMELESS 5   /* namespace, children */
#define STRUCT 6     /* name, children */
#define BLOCK 7      /* children */
#define INLINED 8    /* origin ref4, low, high data2, call_file data1, call_line data1, children */
#define RANGELESS 9  /* the same without low and high */
#define BODY 10      /* function: name, low, high data2, children */
#define LINKED 11    /* linkage name, name */
#define INSTANCE 12  /* function: origin ref4, low, high data2 */
#define COMPLETED 13 /* specification ref4 */
#define BOTH 14      /* specification ref4, abstract_origin ref4 */

static void begin_names(struct image *image)
{
	begin_plain(image, 4);
	abbrev(image, ABSTRACT, DW_TAG_subprogram, false, DW_AT_name, DW_FORM_string, 0);
	abbrev(image, NAMESPACE, DW_TAG_namespace, true, DW_AT_name, DW_FORM_string, 0);
	abbrev(image, NAMELESS, DW_TAG_namespace, true, 0);
	abbrev(image, STRUCT, DW_TAG_structure_type, true, DW_AT_name, DW_FORM_string, 0);
	abbrev(image, BLOCK, DW_TAG_lexical_block, true, 0);
	abbrev(image, INLINED, DW_TAG_inlined_subroutine, true, DW_AT_abstract_origin, DW_FORM_ref4, DW_AT_low_pc,
	       DW_FORM_addr, DW_AT_high_pc, DW_FORM_data2, DW_AT_call_file, DW_FORM_data1, DW_AT_call_line,
	       DW_FORM_data1, 0);
	abbrev(image, RANGELESS, DW_TAG_inlined_subroutine, true, DW_AT_abstract_origin, DW_FORM_ref4, DW_AT_call_file,
	       DW_FORM_data1, DW_AT_call_line, DW_FORM_data1, 0);
	abbrev(image, BODY, DW_TAG_subprogram, true, DW_AT_name, DW_FORM_string, DW_AT_low_pc, DW_FORM_addr,
	       DW_AT_high_pc, DW_FORM_data2, 0);
	abbrev(image, LINKED, DW_TAG_subprogram, false, DW_AT_linkage_name, DW_FORM_string, DW_AT_name, DW_FORM_string,
	       0);
	abbrev(image, INSTANCE, DW_TAG_subprogram, false, DW_AT_abstract_origin, DW_FORM_ref4, DW_AT_low_pc,
	       DW_FORM_addr, DW_AT_high_pc, DW_FORM_data2, 0);
	abbrev(image, COMPLETED, DW_TAG_subprogram, false, DW_AT_specification, DW_FORM_ref4, 0);
	abbrev(image, BOTH, DW_TAG_subprogram, false, DW_AT_specification, DW_FORM_ref4, DW_AT_abstract_origin,
	       DW_FORM_ref4, 0);
}

static uint64_t put_named(struct image *image, unsigned code, const char *name)
{
	uint64_t at = here(image);
	put_uleb(image, INFO, code);
	if (name)
		put_string(image, INFO, name);
	return at;
}

static uint64_t put_linked(struct image *image, const char *linkage, const char *name)
{
	uint64_t at = put_named(image, LINKED, linkage);
	put_string(image, INFO, name);
	return at;
}

static uint64_t put_completed(struct image *image, uint64_t specification)
{
	uint64_t at = put_named(image, COMPLETED, NULL);
	put(image, INFO, 4, specification);
	return at;
}

/* A function whose name is that of `origin`, at the n-th 16 bytes. */
static void put_instance(struct image *image, uint64_t origin, unsigned n)
{
	put_uleb(image, INFO, INSTANCE);
	put(image, INFO, 4, origin);
	put(image, INFO, 8, CODE + 16 * n);
	put(image, INFO, 2, 16);
}

static void put_body(struct image *image, const char *name, uint64_t low, unsigned size)
{
	put_named(image, BODY, name);
	put(image, INFO, 8, low);
	put(image, INFO, 2, size);
}

static void put_inlined(struct image *image, uint64_t origin, uint64_t low, unsigned size, unsigned line)
{
	put_uleb(image, INFO, INLINED);
	put(image, INFO, 4, origin);
	put(image, INFO, 8, low);
	put(image, INFO, 2, size);
	put(image, INFO, 1, 2);
	put(image, INFO, 1, line);
}

static void put_end(struct image *image)
{
	put(image, INFO, 1, 0);
}

/* ---- References ---- */

static void test_reference_forms(void **state)
{
	(void)state;
	static const struct {
		unsigned form, size;
	} forms[] = { { DW_FORM_ref1, 1 },     { DW_FORM_ref2, 2 },      { DW_FORM_ref4, 4 },
		      { DW_FORM_ref8, 8 },     { DW_FORM_ref_udata, 0 }, { DW_FORM_ref_addr, 4 },
		      { DW_FORM_ref_sup4, 4 }, { DW_FORM_ref_sup8, 8 },  { DW_FORM_GNU_ref_alt, 4 },
		      { DW_FORM_indirect, 5 } };
	for (unsigned i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		struct image supplementary = { 0 };
		struct image image = { .supplementary = &supplementary };
		/* The other file: its first unit is in the way. */
		uint64_t other = 0;
		for (unsigned k = 0; k < 2; k++) {
			begin_names(&supplementary);
			other = supplementary.unit_start + put_named(&supplementary, ABSTRACT, k ? "found" : "wrong");
			end_plain(&supplementary);
		}
		begin_names(&image);
		abbrev(&image, 20, DW_TAG_subprogram, false, DW_AT_abstract_origin, forms[i].form, DW_AT_low_pc,
		       DW_FORM_addr, DW_AT_high_pc, DW_FORM_data2, 0);
		uint64_t origin = put_named(&image, ABSTRACT, "found");
		put_uleb(&image, INFO, 20);
		bool elsewhere = forms[i].form == DW_FORM_ref_sup4 || forms[i].form == DW_FORM_ref_sup8 ||
		                 forms[i].form == DW_FORM_GNU_ref_alt;
		if (forms[i].form == DW_FORM_indirect) {
			put_uleb(&image, INFO, DW_FORM_ref4);
			put(&image, INFO, 4, origin);
		} else if (forms[i].size) {
			put(&image, INFO, forms[i].size, elsewhere ? other : origin);
		} else {
			put_uleb(&image, INFO, origin);
		}
		put(&image, INFO, 8, CODE);
		put(&image, INFO, 2, 16);
		end_plain(&image);
		expect(&image, CODE, "found /src/a.c:100");
		expect_note(&image, NULL);
		free_image(&image);
	}
}

/* Into another unit of the file, before and after, as LTO does. */
static void test_reference_across_units(void **state)
{
	(void)state;
	struct image image = { 0 };
	begin_names(&image);
	uint64_t before = put_named(&image, ABSTRACT, "before");
	end_plain(&image);
	begin_names(&image);
	abbrev(&image, 20, DW_TAG_subprogram, false, DW_AT_abstract_origin, DW_FORM_ref_addr, DW_AT_low_pc,
	       DW_FORM_addr, DW_AT_high_pc, DW_FORM_data2, 0);
	size_t patches[2];
	for (unsigned i = 0; i < 2; i++) {
		put_uleb(&image, INFO, 20);
		patches[i] = image.parts[INFO].count;
		put(&image, INFO, 4, 0);
		put(&image, INFO, 8, CODE + 16 * i);
		put(&image, INFO, 2, 16);
	}
	end_plain(&image);
	begin_names(&image);
	uint64_t after = image.unit_start + put_named(&image, ABSTRACT, "after");
	end_plain(&image);
	patch(&image, INFO, patches[0], 4, before);
	patch(&image, INFO, patches[1], 4, after);
	expect(&image, CODE, "before /src/a.c:100");
	expect(&image, CODE + 16, "after /src/a.c:101");
	free_image(&image);
}

/* References that lead nowhere: out of the unit, out of the section, in circles, without end. */
static void test_bad_references(void **state)
{
	(void)state;
	struct image image = { 0 };
	begin_names(&image);
	put_instance(&image, 0, 0);
	put_instance(&image, 5, 1); /* into the header */
	put_instance(&image, 0x7fffffff, 2);
	put_instance(&image, 0xffffffff, 3);
	uint64_t itself = put_completed(&image, here(&image));
	put_instance(&image, itself, 4);
	uint64_t first = here(&image);
	uint64_t second = put_completed(&image, first + 5);
	put_completed(&image, second);
	put_instance(&image, first, 5);
	/* 15 steps are followed, 16 are not. */
	uint64_t chain = put_named(&image, ABSTRACT, "far");
	for (unsigned i = 0; i < 14; i++)
		chain = put_completed(&image, chain);
	put_instance(&image, chain, 6);
	chain = put_completed(&image, chain);
	put_instance(&image, chain, 7);
	end_plain(&image);
	for (unsigned i = 0; i < 8; i++) {
		char expected[64];
		snprintf(expected, sizeof(expected), "%s /src/a.c:%u", i == 6 ? "far" : "?", 100 + i);
		expect(&image, CODE + 16 * i, expected);
	}
	free_image(&image);
}

/* ---- Which name ---- */

static void test_name_order(void **state)
{
	(void)state;
	struct image image = { 0 };
	begin_names(&image);
	uint64_t linked = put_linked(&image, "_Z5firstv", "first");
	uint64_t plain = put_named(&image, ABSTRACT, "second");
	/* The linkage name is at the end of the chain, behind a DIE without. */
	put_instance(&image, put_completed(&image, linked), 0);
	/* abstract_origin goes before specification. */
	uint64_t both = put_named(&image, BOTH, NULL);
	put(&image, INFO, 4, linked);
	put(&image, INFO, 4, plain);
	put_instance(&image, both, 1);
	/* The old spelling. */
	abbrev(&image, 20, DW_TAG_subprogram, false, DW_AT_MIPS_linkage_name, DW_FORM_string, DW_AT_low_pc,
	       DW_FORM_addr, DW_AT_high_pc, DW_FORM_data2, 0);
	put_uleb(&image, INFO, 20);
	put_string(&image, INFO, "_Z5thirdv");
	put(&image, INFO, 8, CODE + 32);
	put(&image, INFO, 2, 16);
	end_plain(&image);
	expect(&image, CODE, "_Z5firstv /src/a.c:100");
	expect(&image, CODE + 16, "second /src/a.c:101");
	expect(&image, CODE + 32, "_Z5thirdv /src/a.c:102");
	free_image(&image);
}

/* Scopes are those around the declaration, not around the definition. */
static void test_scopes(void **state)
{
	(void)state;
	struct image image = { 0 };
	begin_names(&image);
	put_named(&image, NAMESPACE, "outer");
	put_named(&image, STRUCT, "thing");
	uint64_t member = put_named(&image, ABSTRACT, "member");
	put_end(&image);
	put_named(&image, NAMELESS, NULL);
	put_named(&image, STRUCT, "hidden");
	uint64_t hidden = put_named(&image, ABSTRACT, "member");
	put_end(&image);
	put_end(&image);
	uint64_t late = put_named(&image, ABSTRACT, "late"); /* after scopes that were closed */
	put_end(&image);
	put_instance(&image, put_completed(&image, member), 0);
	put_instance(&image, put_completed(&image, hidden), 1);
	put_instance(&image, put_completed(&image, late), 2);
	/* A class in a function, in a block. */
	put_body(&image, "around", CODE + 48, 16);
	put_uleb(&image, INFO, BLOCK);
	put_named(&image, STRUCT, "local");
	uint64_t local = put_named(&image, ABSTRACT, "call");
	put_end(&image);
	put_end(&image);
	put_end(&image);
	put_instance(&image, local, 4);
	end_plain(&image);
	expect(&image, CODE, "outer::thing::member /src/a.c:100");
	expect(&image, CODE + 16, "outer::(anonymous namespace)::hidden::member /src/a.c:101");
	expect(&image, CODE + 32, "outer::late /src/a.c:102");
	expect(&image, CODE + 48, "around /src/a.c:103");
	expect(&image, CODE + 64, "around::local::call /src/a.c:104");
	free_image(&image);
}

/* The class that a declaration stands in can have its name in a type unit. */
static void test_scope_in_type_unit(void **state)
{
	(void)state;
	for (unsigned version = 4; version <= 5; version++) {
		struct image image = { 0 };
		uint64_t abbrevs = 0;
		abbrev(&image, 1, DW_TAG_type_unit, true, DW_AT_language, DW_FORM_data1, 0);
		abbrev(&image, 2, DW_TAG_namespace, true, DW_AT_name, DW_FORM_string, 0);
		abbrev(&image, 3, DW_TAG_structure_type, false, DW_AT_name, DW_FORM_string, 0);
		put(&image, ABBREV, 1, 0);
		for (unsigned i = 0; i < 2; i++) {
			enum part part = version < 5 ? TYPES : INFO;
			unit_begin(&image, version, DW_UT_type, abbrevs);
			put(&image, part, 8, 0x1111222233330000 + i);
			size_t type = image.parts[part].count;
			put(&image, part, 4, 0);
			put(&image, part, 1, 1);
			put(&image, part, 1, 4);
			put(&image, part, 1, 2);
			put_string(&image, part, "space");
			patch(&image, part, type, 4, here(&image));
			put(&image, part, 1, 3);
			put_string(&image, part, i ? "right" : "wrong");
			put(&image, part, 2, 0);
			unit_end(&image);
		}
		begin_names(&image);
		abbrev(&image, 20, DW_TAG_structure_type, true, DW_AT_signature, DW_FORM_ref_sig8, 0);
		put_uleb(&image, INFO, 20);
		put(&image, INFO, 8, 0x1111222233330001);
		uint64_t member = put_named(&image, ABSTRACT, "member");
		put_end(&image);
		put_instance(&image, member, 0);
		end_plain(&image);
		expect(&image, CODE, "space::right::member /src/a.c:100");
		expect_note(&image, NULL);
		free_image(&image);
	}
}

/* In C and Go no scope belongs to the name. */
static void test_flat_language(void **state)
{
	(void)state;
	struct image image = { 0 };
	uint64_t lines = plain_lines(&image, CODE, CODE + 0x100);
	abbrev(&image, 1, DW_TAG_compile_unit, true, DW_AT_stmt_list, DW_FORM_sec_offset, DW_AT_low_pc, DW_FORM_addr,
	       DW_AT_high_pc, DW_FORM_data2, DW_AT_language, DW_FORM_data1, 0);
	abbrev(&image, 2, DW_TAG_subprogram, true, DW_AT_name, DW_FORM_string, DW_AT_low_pc, DW_FORM_addr,
	       DW_AT_high_pc, DW_FORM_data2, 0);
	unit_begin(&image, 4, DW_UT_compile, 0);
	put_uleb(&image, INFO, 1);
	put(&image, INFO, 4, lines);
	put(&image, INFO, 8, CODE);
	put(&image, INFO, 2, 0x100);
	put(&image, INFO, 1, DW_LANG_C99);
	for (unsigned i = 0; i < 2; i++) { /* nested functions of GNU C */
		put_uleb(&image, INFO, 2);
		put_string(&image, INFO, i ? "inner" : "outer");
		put(&image, INFO, 8, CODE + 16 * i);
		put(&image, INFO, 2, 16);
	}
	put_end(&image);
	put_end(&image);
	end_plain(&image);
	expect(&image, CODE, "outer a.c:100");
	expect(&image, CODE + 16, "inner a.c:101");
	free_image(&image);
}

/* A name that is longer than any we make: without its scopes. */
static void test_long_name(void **state)
{
	(void)state;
	struct image image = { 0 };
	char name[2001];
	memset(name, 'n', 2000);
	name[2000] = '\0';
	begin_names(&image);
	for (unsigned i = 0; i < 3; i++)
		put_named(&image, NAMESPACE, name);
	put_body(&image, "short", CODE, 16);
	put_end(&image);
	for (unsigned i = 0; i < 3; i++)
		put_end(&image);
	end_plain(&image);
	expect(&image, CODE, "short /src/a.c:100");
	free_image(&image);
}

/* ---- Inlined calls ---- */

static void test_inline_nesting(void **state)
{
	(void)state;
	struct image image = { 0 };
	begin_names(&image);
	uint64_t a = put_named(&image, ABSTRACT, "a"), b = put_named(&image, ABSTRACT, "b");
	put_body(&image, "f", CODE, 0x80);
	/* In a block without ranges. */
	put_uleb(&image, INFO, BLOCK);
	put_inlined(&image, a, CODE + 0x10, 0x20, 1);
	put_inlined(&image, b, CODE + 0x18, 0x08, 2);
	put_end(&image);
	put_end(&image);
	put_end(&image);
	/* A call without ranges stands between its child and its parent. */
	put_uleb(&image, INFO, RANGELESS);
	put(&image, INFO, 4, a);
	put(&image, INFO, 1, 1);
	put(&image, INFO, 1, 3);
	put_inlined(&image, b, CODE + 0x30, 0x10, 4);
	put_end(&image);
	put_end(&image);
	/* A call that is longer than what it is in: cut. */
	put_inlined(&image, a, CODE + 0x40, 0x10, 5);
	put_inlined(&image, b, CODE + 0x48, 0x20, 6);
	put_end(&image);
	put_end(&image);
	/* Two that overlap: the later one has the shared part, and what is in the earlier one does not move. */
	put_inlined(&image, a, CODE + 0x60, 0x10, 7);
	put_inlined(&image, b, CODE + 0x60, 0x0c, 8);
	put_end(&image);
	put_end(&image);
	put_inlined(&image, b, CODE + 0x68, 0x10, 9);
	put_end(&image);
	put_end(&image);
	end_plain(&image);
	expect(&image, CODE + 0x0f, "f /src/a.c:100");
	expect(&image, CODE + 0x10, "a /src/a.c:101 < f /src/b.c:1");
	expect(&image, CODE + 0x18, "b /src/a.c:101 < a /src/b.c:2 < f /src/b.c:1");
	expect(&image, CODE + 0x20, "a /src/a.c:102 < f /src/b.c:1");
	expect(&image, CODE + 0x30, "b /src/a.c:103 < a /src/b.c:4 < f /src/a.c:3");
	expect(&image, CODE + 0x4f, "b /src/a.c:104 < a /src/b.c:6 < f /src/b.c:5");
	expect(&image, CODE + 0x50, "f /src/a.c:105");
	expect(&image, CODE + 0x64, "b /src/a.c:106 < a /src/b.c:8 < f /src/b.c:7");
	expect(&image, CODE + 0x68, "b /src/a.c:106 < f /src/b.c:9");
	expect(&image, CODE + 0x70, "b /src/a.c:107 < f /src/b.c:9");
	expect(&image, CODE + 0x78, "f /src/a.c:107");
	expect_note(&image, NULL);
	free_image(&image);
}

/* Functions in classes, in functions, in blocks: each is a function of its own. */
static void test_functions_everywhere(void **state)
{
	(void)state;
	struct image image = { 0 };
	begin_names(&image);
	uint64_t a = put_named(&image, ABSTRACT, "a");
	put_named(&image, STRUCT, "type");
	put_body(&image, "in_class", CODE, 0x10);
	put_end(&image);
	put_end(&image);
	put_body(&image, "outer", CODE + 0x10, 0x30);
	put_uleb(&image, INFO, BLOCK);
	put_named(&image, STRUCT, "closure");
	put_body(&image, "operator()", CODE + 0x40, 0x10);
	put_inlined(&image, a, CODE + 0x44, 4, 3);
	put_end(&image);
	put_end(&image);
	put_end(&image);
	put_end(&image);
	/* Inside of the range of the other one: the tighter one has it. */
	put_body(&image, "nested", CODE + 0x20, 0x10);
	put_inlined(&image, a, CODE + 0x24, 4, 4);
	put_end(&image);
	put_end(&image);
	put_inlined(&image, a, CODE + 0x34, 4, 5);
	put_end(&image);
	put_end(&image);
	end_plain(&image);
	expect(&image, CODE, "type::in_class /src/a.c:100");
	expect(&image, CODE + 0x10, "outer /src/a.c:101");
	expect(&image, CODE + 0x20, "outer::nested /src/a.c:102");
	expect(&image, CODE + 0x24, "a /src/a.c:102 < outer::nested /src/b.c:4");
	expect(&image, CODE + 0x34, "a /src/a.c:103 < outer /src/b.c:5");
	expect(&image, CODE + 0x40, "outer::closure::operator() /src/a.c:104");
	expect(&image, CODE + 0x44, "a /src/a.c:104 < outer::closure::operator() /src/b.c:3");
	free_image(&image);
}

/* A cold part far away is the same function. */
static void test_cold_part(void **state)
{
	(void)state;
	struct image image = { 0 };
	begin_names(&image);
	put(&image, RANGES, 8, 0x00);
	put(&image, RANGES, 8, 0x10);
	put(&image, RANGES, 8, 0xc0);
	put(&image, RANGES, 8, 0xd0);
	put(&image, RANGES, 8, 0);
	put(&image, RANGES, 8, 0);
	abbrev(&image, 20, DW_TAG_subprogram, true, DW_AT_name, DW_FORM_string, DW_AT_ranges, DW_FORM_sec_offset, 0);
	uint64_t a = put_named(&image, ABSTRACT, "a");
	put_uleb(&image, INFO, 20);
	put_string(&image, INFO, "split");
	put(&image, INFO, 4, 0);
	put_inlined(&image, a, CODE + 0xc8, 0x08, 9);
	put_end(&image);
	put_end(&image);
	end_plain(&image);
	expect(&image, CODE + 0x0f, "split /src/a.c:100");
	expect(&image, CODE + 0x10, "? /src/a.c:101");
	expect(&image, CODE + 0xc0, "split /src/a.c:112");
	expect(&image, CODE + 0xc8, "a /src/a.c:112 < split /src/b.c:9");
	expect(&image, CODE + 0xd0, "? /src/a.c:113");
	free_image(&image);
}

/* Deeper than is followed: the function stays, with a complaint. */
static void test_depth(void **state)
{
	(void)state;
	for (unsigned deep = 0; deep < 2; deep++) {
		struct image image = { 0 };
		unsigned levels = deep ? 5000 : 1000;
		begin_names(&image);
		uint64_t a = put_named(&image, ABSTRACT, "a");
		put_body(&image, "f", CODE, 0x10);
		for (unsigned i = 0; i < levels; i++)
			put_uleb(&image, INFO, BLOCK);
		put_inlined(&image, a, CODE + 8, 8, 2);
		put_end(&image);
		for (unsigned i = 0; i < levels; i++)
			put_end(&image);
		put_end(&image);
		put_body(&image, "g", CODE + 0x10, 0x10);
		put_end(&image);
		end_plain(&image);
		expect(&image, CODE + 8, deep ? "f /src/a.c:100" : "a /src/a.c:100 < f /src/b.c:2");
		expect_note(&image, deep ? "can't be read" : NULL);
		expect(&image, CODE + 0x10, "g /src/a.c:101");
		free_image(&image);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reference_forms), cmocka_unit_test(test_reference_across_units),
		cmocka_unit_test(test_bad_references),  cmocka_unit_test(test_name_order),
		cmocka_unit_test(test_scopes),          cmocka_unit_test(test_scope_in_type_unit),
		cmocka_unit_test(test_flat_language),   cmocka_unit_test(test_long_name),
		cmocka_unit_test(test_inline_nesting),  cmocka_unit_test(test_functions_everywhere),
		cmocka_unit_test(test_cold_part),       cmocka_unit_test(test_depth),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
