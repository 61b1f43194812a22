/* PDBs of forms for which there are no compilers here: pages of every size, streams in disorder, images that were
 * rearranged after linking, code that was moved away from its function, thunks, old and new kinds of records. What is
 * written is read by llvm-pdbutil, too, where it can be. tests/oracle/test_pdb.c compares what compilers make. */
#include "spsym.h"

#include "pdb_builder.h"

enum {
	S_END = 0x0006,
	S_THUNK32 = 0x1102,
	S_GPROC32 = 0x1110,
	S_TRAMPOLINE = 0x112c,
	S_SEPCODE = 0x1132,
	LF_MODIFIER = 0x1001,
	LF_POINTER = 0x1002,
	LF_PROCEDURE = 0x1008,
	LF_ARGLIST = 0x1201,
	LF_STRUCTURE = 0x1505,
	LF_CLASS2 = 0x1608,
	LF_STRUCTURE2 = 0x1609,
	LF_UNION2 = 0x160a,
	IGNORED = (int)0x80000000,
};

static char long_name[701];

/* ---- What is in the modules ---- */

static void add_procedure(struct blob *b, const char *name, uint32_t offset, uint32_t size, uint32_t type)
{
	size_t at = begin_record(b, S_GPROC32);
	add_zeros(b, 12);
	add32(b, size);
	add32(b, 0);
	add32(b, size - 1);
	add32(b, type);
	add32(b, offset);
	add16(b, 1);
	add8(b, 0);
	add_string(b, name);
	end_record(b, at);
	end_record(b, begin_record(b, S_END));
}

static void add_separated(struct blob *b, uint32_t offset, uint32_t size, uint32_t parent)
{
	size_t at = begin_record(b, S_SEPCODE);
	add_zeros(b, 8);
	add32(b, size);
	add32(b, 0);
	add32(b, offset);
	add32(b, parent);
	add16(b, 1);
	add16(b, 1);
	end_record(b, at);
	end_record(b, begin_record(b, S_END));
}

static void add_thunk(struct blob *b, const char *name, uint32_t offset, unsigned size)
{
	size_t at = begin_record(b, S_THUNK32);
	add_zeros(b, 12);
	add32(b, offset);
	add16(b, 1);
	add16(b, size);
	add8(b, 0);
	add_string(b, name);
	end_record(b, at);
	end_record(b, begin_record(b, S_END));
}

static void add_trampoline(struct blob *b, uint32_t offset, uint32_t target)
{
	size_t at = begin_record(b, S_TRAMPOLINE);
	add16(b, 0);
	add16(b, 5);
	add32(b, offset);
	add32(b, target);
	add16(b, 1);
	add16(b, 1);
	end_record(b, at);
}

/* Rows as pairs of offset and line. */
static void add_lines(struct blob *b, uint32_t kind, uint32_t offset, uint32_t size, unsigned count,
                      const uint32_t *rows)
{
	size_t at = begin_part(b, kind);
	add32(b, offset);
	add16(b, 1);
	add16(b, 0);
	add32(b, size);
	add32(b, 0); /* the first of the files */
	add32(b, count);
	add32(b, 12 + 8 * count);
	for (unsigned i = 0; i < 2 * count; i++)
		add32(b, rows[i]);
	end_part(b, at);
}

/* A function type of a list of arguments: what a pointer to it would show. */
static uint32_t add_function_type(struct made_pdb *pdb, unsigned count, const uint32_t *arguments)
{
	struct blob *t = &pdb->streams[TPI];
	size_t at = begin_record(t, LF_ARGLIST);
	add32(t, count);
	for (unsigned i = 0; i < count; i++)
		add32(t, arguments[i]);
	uint32_t list = end_type(pdb, at);
	at = begin_record(t, LF_PROCEDURE);
	add32(t, 0x3);
	add16(t, 0);
	add16(t, count);
	add32(t, list);
	return end_type(pdb, at);
}

static uint32_t add_pointer(struct made_pdb *pdb, uint32_t to, unsigned mode)
{
	struct blob *t = &pdb->streams[TPI];
	size_t at = begin_record(t, LF_POINTER);
	add32(t, to);
	add32(t, 12 | mode << 5 | 8 << 13);
	return end_type(pdb, at);
}

/* A class, structure or union in the form of Visual C++ 2019. */
static uint32_t add_wide(struct made_pdb *pdb, unsigned kind, const char *name)
{
	struct blob *t = &pdb->streams[TPI];
	size_t at = begin_record(t, kind);
	add32(t, 0x80);
	add_zeros(t, kind == LF_UNION2 ? 4 : 12);
	add16(t, 0x8004); /* members: a number in four bytes */
	add32(t, 70000);
	add16(t, 8);
	add_string(t, name);
	return end_type(pdb, at);
}

/* void (Wide const&, Narrow*, Mixed*, Klass&) */
static uint32_t add_types(struct made_pdb *pdb)
{
	struct blob *t = &pdb->streams[TPI];
	uint32_t wide = add_wide(pdb, LF_STRUCTURE2, "Wide");
	size_t at = begin_record(t, LF_MODIFIER);
	add32(t, wide);
	add16(t, 1);
	uint32_t constant = end_type(pdb, at);
	at = begin_record(t, LF_STRUCTURE);
	add16(t, 0);
	add16(t, 0x80);
	add_zeros(t, 12);
	add16(t, 0);
	add_string(t, "Narrow");
	uint32_t narrow = end_type(pdb, at);
	uint32_t arguments[] = { add_pointer(pdb, constant, 1), add_pointer(pdb, narrow, 0),
		                 add_pointer(pdb, add_wide(pdb, LF_UNION2, "Mixed"), 0),
		                 add_pointer(pdb, add_wide(pdb, LF_CLASS2, "Klass"), 1) };
	return add_function_type(pdb, 4, arguments);
}

/* a.obj: functions, one of which has a part elsewhere, and lines between other subsections. */
static void add_usual_module(struct made_pdb *pdb)
{
	struct blob *b = &pdb->streams[FIRST_MODULE];
	add32(b, 4);
	add_procedure(b, "work", 0x100, 0x40, add_types(pdb));
	add_procedure(b, long_name, 0x140, 0x20, 0);
	add_separated(b, 0x1000, 0x20, 0x100);
	add_separated(b, 0x1020, 0x10, 0x120); /* named by a place within */
	add_separated(b, 0x1030, 0x10, 0x900); /* of nothing that is there */
	add_thunk(b, "adjustor", 0x180, 0x10);
	size_t symbols = b->size;
	add_lines(b, (uint32_t)IGNORED | 0xf2, 0x100, 0x40, 1, (uint32_t[]){ 0, 77 });
	end_part(b, (add_zeros(b, 0), begin_part(b, 0xf3)));
	size_t at = begin_part(b, 0xf4);
	add32(b, 1); /* where the name is */
	add16(b, 0);
	add_align(b);
	end_part(b, at);
	at = begin_part(b, 0xf5); /* frame data, 13 bytes of it */
	add_zeros(b, 13);
	end_part(b, at);
	add_lines(b, 0xf2, 0x100, 0x60, 3, (uint32_t[]){ 0, 10, 0x10, 12, 0x40, 20 });
	add_lines(b, 0xf2, 0x1000, 0x30, 2, (uint32_t[]){ 0, 30, 0x20, 31 });
	add_zeros(b, 4); /* no global references */
	add_module(pdb, "a.obj", FIRST_MODULE, symbols, 0, b->size - symbols - 4);
	add_contribution(pdb, 1, 0x100, 0x100, 0);
	add_contribution(pdb, 1, 0x1000, 0x100, 0);
}

/* old.obj, of a compiler before Visual C++ 7; and the linker's own, with thunks of incremental linking. */
static void add_other_modules(struct made_pdb *pdb)
{
	struct blob *b = &pdb->streams[FIRST_MODULE + 1];
	add32(b, 2);
	add_zeros(b, 20);
	add_zeros(b, 40);
	add_module(pdb, "old.obj", FIRST_MODULE + 1, 24, 40, 0);
	b = &pdb->streams[FIRST_MODULE + 2];
	add32(b, 4);
	add_trampoline(b, 5, 0x100);
	add_trampoline(b, 10, 0x400);
	add_trampoline(b, 15, 0x3000);
	add_zeros(b, 4);
	add_module(pdb, "* Linker *", FIRST_MODULE + 2, b->size - 4, 0, 0);
}

static void begin_pdb(struct made_pdb *pdb)
{
	*pdb = (struct made_pdb){ .stream_count = FIRST_MODULE + 3 };
	add_section(&pdb->streams[HEADERS], ".text", 0x1000, 0x4000, 0x60000020);
	add_section(&pdb->streams[HEADERS], ".data", 0x5000, 0x1000, 0xc0000040);
	struct blob *names = &pdb->streams[STRINGS];
	add32(names, 0xeffeeffe);
	add32(names, 1);
	add32(names, 12);
	add(names, "\0c:\\src\\a.c", 12);
	add32(names, 1); /* a hash table of one slot */
	add32(names, 1);
	add32(names, 1);
}

/* Everything at once. Contributions do not stand in the order of their places, as linkers put them. */
static void make_usual(const char *name, uint32_t page_size)
{
	struct made_pdb pdb;
	struct blob file = { 0 };
	begin_pdb(&pdb);
	add_contribution(&pdb, 1, 0, 0x20, 2);
	add_usual_module(&pdb);
	add_contribution(&pdb, 1, 0x400, 0x20, 2);
	add_contribution(&pdb, 1, 0x1200, 0x100, 1);
	add_other_modules(&pdb);
	add_public(&pdb, "?work@@YAXXZ", 1, 0x100);
	add_public(&pdb, "?other@@YAHXZ", 1, 0x400);
	add_public(&pdb, "?old@@YAHH@Z", 1, 0x1200);
	finish_pdb(&pdb, page_size, &file);
	FILE *out = fopen(in_folder("%s", name), "wb");
	assert_non_null(out);
	assert_int_equal(fwrite(file.bytes, 1, file.size, out), file.size);
	fclose(out);
	free(file.bytes);
}

/* ---- Look-ups ---- */

struct answer {
	uint64_t address;
	const char *symbol; /* NULL = none */
	uint64_t symbol_address;
	const char *function; /* NULL = no frame */
	unsigned line;
};

static void expect(const char *name, const struct answer *wanted, size_t count, const char *note)
{
	struct spsym_context *context;
	struct spsym_module *module;
	struct spsym_options options = { .no_background = true };
	assert_null(spsym_context_create(&options, &context));
	spsym_error *error = spsym_module_open_path(context, in_folder("%s", name), &module);
	if (error)
		fail_msg("%s: %s", name, spsym_error_message(error));
	for (size_t i = 0; i < count; i++) {
		struct spsym_result result = { 0 };
		assert_null(spsym_lookup(module, &wanted[i].address, 1, &result));
		const struct spsym_location *l = &result.locations[0];
		const char *function = l->frame_count ? l->frames[0].function : NULL;
		printf("%s 0x%llx: %s 0x%llx, %s:%u\n", name, (unsigned long long)wanted[i].address,
		       l->symbol.name ? l->symbol.name : "-", (unsigned long long)l->symbol.address,
		       function ? function : "-", l->frame_count ? l->frames[0].line : 0);
		assert_int_equal(!l->symbol.name, !wanted[i].symbol);
		if (wanted[i].symbol) {
			assert_string_equal(l->symbol.name, wanted[i].symbol);
			assert_int_equal(l->symbol.address, wanted[i].symbol_address);
		}
		assert_int_equal(!function, !wanted[i].function);
		assert_true(l->frame_count <= 1);
		if (function) {
			assert_string_equal(function, wanted[i].function);
			assert_int_equal(l->frames[0].line, wanted[i].line);
			if (l->frames[0].line)
				assert_string_equal(l->frames[0].file, "c:\\src\\a.c");
		}
		if (note) {
			assert_non_null(result.debug_error);
			assert_non_null(strstr(result.debug_error, note));
		}
		spsym_result_deinit(&result);
	}
	spsym_module_release(module);
	spsym_context_destroy(context);
}

#define WORK "work(Wide const&, Narrow*, Mixed*, Klass&)"

static const struct answer usual[] = {
	{ 0x1100, WORK, 0x1100, WORK, 10 },
	{ 0x1110, WORK, 0x1100, WORK, 12 },
	{ 0x113f, WORK, 0x1100, WORK, 12 },
	{ 0x1140, long_name, 0x1140, long_name, 20 },
	{ 0x1180, "adjustor", 0x1180, "adjustor", 0 },
	{ 0x2000, WORK, 0x2000, WORK, 30 }, /* moved away */
	{ 0x2024, WORK, 0x2020, WORK, 31 },
	{ 0x2030, NULL, 0, NULL, 0 },
	{ 0x1005, "ILT+5(" WORK ")", 0x1005, "ILT+5(" WORK ")", 0 }, /* by incremental linking */
	{ 0x100e, "ILT+10(?other@@YAHXZ)", 0x100a, "ILT+10(?other@@YAHXZ)", 0 },
	{ 0x1400, "?other@@YAHXZ", 0x1400, NULL, 0 }, /* public only */
	{ 0x5000, NULL, 0, NULL, 0 },
	{ 0x9000, NULL, 0, NULL, 0 },
};
#define USUAL (sizeof(usual) / sizeof(usual[0]))

static void test_page_sizes(void **state)
{
	(void)state;
	for (uint32_t size = 512; size <= 65536; size *= 2) {
		char name[40];
		snprintf(name, sizeof(name), "pages-%u.pdb", size);
		make_usual(name, size);
		expect(name, usual, USUAL, "Visual C++ 6");
		/* 4 KB are what another reader knows for certain. */
		if (size == 4096 && have("llvm-pdbutil")) {
			char *text = output_of("llvm-pdbutil dump --symbols --section-contribs "
			                       "--section-headers --modi=0 -l %s",
			                       name);
			assert_non_null(strstr(text, "S_SEPCODE"));
			assert_non_null(strstr(text, long_name));
			assert_non_null(strstr(text, "c:\\src\\a.c"));
			assert_non_null(strstr(text, "addr = 0001:0256"));
			free(text);
			text = output_of("llvm-pdbutil dump --symbols --modi=2 %s", name);
			assert_non_null(strstr(text, "S_TRAMPOLINE"));
			free(text);
		} else if (size == 4096) {
			skip_part("the made PDB by another reader", "llvm-pdbutil is not installed");
		}
	}
}

/* An address in a module of an old form: its public symbol, and why there is no more. */
static void test_old_module(void **state)
{
	(void)state;
	static const struct answer answer = { 0x2204, "?old@@YAHH@Z", 0x2200, NULL, 0 };
	make_usual("old.pdb", 4096);
	expect("old.pdb", &answer, 1, "old form (version 2, of Visual C++ 6 or before)");
}

/* Linked for speed: everything but public symbols stayed in object files. */
static void test_fastlink(void **state)
{
	(void)state;
	static const struct answer answers[] = { { 0x1110, "?work@@YAXXZ", 0x1100, NULL, 0 },
		                                 { 0x1404, "?other@@YAHXZ", 0x1400, NULL, 0 } };
	struct made_pdb pdb;
	struct blob file = { 0 };
	begin_pdb(&pdb);
	pdb.fastlink = true;
	add_module(&pdb, "a.obj", NONE, 0, 0, 0);
	add_contribution(&pdb, 1, 0x100, 0x100, 0);
	add_public(&pdb, "?work@@YAXXZ", 1, 0x100);
	add_public(&pdb, "?other@@YAHXZ", 1, 0x400);
	finish_pdb(&pdb, 4096, &file);
	FILE *out = fopen(in_folder("fast.pdb"), "wb");
	assert_int_equal(fwrite(file.bytes, 1, file.size, out), file.size);
	fclose(out);
	free(file.bytes);
	struct spsym_file_info info;
	assert_null(spsym_identify_path(in_folder("fast.pdb"), &info));
	assert_string_equal(info.debug_id, "0403020106050807090A0B0C0D0E0F102");
	assert_false(info.has_debug_info);
	assert_true(info.has_symbols);
	expect("fast.pdb", answers, 2, "/DEBUG:FASTLINK");
}

/* ---- Images that a tool has rearranged ---- */

static void add_pair(struct made_pdb *pdb, uint32_t image, uint32_t source)
{
	add32(&pdb->streams[TO_SOURCE], image);
	add32(&pdb->streams[TO_SOURCE], source);
}

/* `nowhere` is what the tool writes for what has no counterpart. */
static void check_omap(const char *name, uint32_t nowhere)
{
	static const struct answer answers[] = {
		{ 0x1100, WORK, 0x1100, WORK, 10 },
		{ 0x1114, WORK, 0x1100, WORK, 10 },           /* inserted between two instructions of it */
		{ 0x1118, WORK, 0x1100, WORK, 12 },           /* the second */
		{ 0x1150, NULL, 0, NULL, 0 },                 /* of the tool's own */
		{ 0x7004, long_name, 0x7000, long_name, 20 }, /* moved to a section that is new */
		{ 0x7020, NULL, 0, NULL, 0 },
		{ 0xfff, NULL, 0, NULL, 0 }, /* before the table */
	};
	struct made_pdb pdb;
	struct blob file = { 0 };
	begin_pdb(&pdb);
	pdb.omap = true;
	/* The linker's sections, and those of the image. */
	struct blob *headers = pdb.streams;
	add(&headers[ORIGINAL_HEADERS], headers[HEADERS].bytes, headers[HEADERS].size);
	add_section(&headers[HEADERS], ".new", 0x7000, 0x1000, 0x60000020);
	add_usual_module(&pdb);
	add_public(&pdb, "?work@@YAXXZ", 1, 0x100);
	add_pair(&pdb, 0x1000, 0x1000);
	add_pair(&pdb, 0x1110, nowhere);
	add_pair(&pdb, 0x1118, 0x1110);
	add_pair(&pdb, 0x1148, nowhere);
	add_pair(&pdb, 0x7000, 0x1140);
	add_pair(&pdb, 0x7020, nowhere);
	static const uint32_t back[][2] = { { 0x1000, 0x1000 }, { 0x1110, 0x1118 }, { 0x1140, 0x7000 } };
	for (size_t i = 0; i < 3; i++) {
		add32(&pdb.streams[FROM_SOURCE], back[i][0]);
		add32(&pdb.streams[FROM_SOURCE], back[i][1]);
	}
	add32(&pdb.streams[FROM_SOURCE], 0x1160);
	add32(&pdb.streams[FROM_SOURCE], nowhere);
	finish_pdb(&pdb, 1024, &file);
	FILE *out = fopen(in_folder("%s", name), "wb");
	assert_int_equal(fwrite(file.bytes, 1, file.size, out), file.size);
	fclose(out);
	free(file.bytes);
	expect(name, answers, sizeof(answers) / sizeof(answers[0]), NULL);
}

static void test_omap(void **state)
{
	(void)state;
	check_omap("omap-zero.pdb", 0);
	check_omap("omap-top.pdb", 0x80000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_page_sizes), cmocka_unit_test(test_old_module),
		                            cmocka_unit_test(test_fastlink), cmocka_unit_test(test_omap) };
	memset(long_name, 'x', sizeof(long_name) - 1);
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
