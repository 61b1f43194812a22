/* PDBs against llvm-symbolizer on the same files: function, file, line and inline depth of every sixteenth byte of
 * .text. With files as arguments it compares those instead, and prints what it found; PDB_ADDR2LINE=COMMAND makes it
 * compare with that program (of the crate pdb-addr2line, which samply uses), whose names must then be equal to the
 * letter.
 *
 * Known differences, seen by hand on softokn3 and WriteArgument, where pdb-addr2line answers as we do:
 * - depth: LLVM does not see inlined code that older Visual C++ describes with lengths after the fact;
 * - line, file: of several rows at one address we take the last one, LLVM the first;
 * - line of inlined frames: LLVM 14 gives that of the next row; they are compared with later versions only;
 * - lines that stand for "none" (0xfeefee, 0xf00f00) are lines to the others;
 * - pdb-addr2line writes "<NoType>" for "..." and "void*" for std::nullptr_t. */
#include "spsym.h"
#include "symbolication/object/object.h"

#include "../unit/fixture_support.h"

enum { STEP = 16, FRAMES_MAX = 64, SHOWN = 5 };

struct frame {
	char function[8192], file[8192];
	unsigned line;
};

struct counts {
	unsigned addresses, frames, inlined;
	unsigned depth, function, file, line, inlined_line;
};

/* A name up to its parameters, without blanks, and without the words that only one of the two writes. */
static void normalize(const char *name, char *ret, size_t size)
{
	size_t length = 0, depth = 0;
	for (const char *c = name; *c && length + 1 < size; c++) {
		if (*c == '<')
			depth++;
		if (*c == '>' && c > name && c[-1] != '-')
			depth -= depth > 0;
		if (*c == '(' && !depth && c > name && strncmp(c, "(anonymous", 10) != 0 && strncmp(c, "()", 2) != 0)
			break;
		if (*c == '(' && !depth && strncmp(c, "()", 2) == 0 && strstr(name, "operator()") != c - 8)
			break;
		if (*c != ' ')
			ret[length++] = *c;
	}
	ret[length] = 0;
}

/* Reads the other tool's frames of one address: pairs of lines, then an empty one. */
static size_t read_frames(FILE *in, struct frame *frames)
{
	size_t count = 0;
	char line[8192];
	/* The first line may be empty: a symbol without a name. */
	while (fgets(line, sizeof(line), in) && (line[0] != '\n' || !count)) {
		struct frame *frame = &frames[count < FRAMES_MAX - 1 ? count++ : count];
		line[strcspn(line, "\n")] = 0;
		snprintf(frame->function, sizeof(frame->function), "%s", line);
		assert_non_null(fgets(line, sizeof(line), in));
		line[strcspn(line, "\n")] = 0;
		char *column = strrchr(line, ':');
		assert_non_null(column);
		*column = 0;
		char *number = strrchr(line, ':');
		assert_non_null(number);
		*number = 0;
		frame->line = (unsigned)strtoul(number + 1, NULL, 10);
		bool hidden = frame->line == 0xfeefee || frame->line == 0xf00f00;
		if (hidden)
			frame->line = 0;
		snprintf(frame->file, sizeof(frame->file), "%s", line);
	}
	return count;
}

static void show(const char *kind, unsigned number, uint64_t address, const struct spsym_location *ours,
                 const struct frame *theirs, size_t their_count)
{
	if (number > SHOWN)
		return;
	printf("  %s at 0x%llx\n", kind, (unsigned long long)address);
	for (size_t i = 0; i < ours->frame_count; i++)
		printf("    ours:   %s  %s:%u\n", ours->frames[i].function ? ours->frames[i].function : "-",
		       ours->frames[i].file ? ours->frames[i].file : "-", ours->frames[i].line);
	for (size_t i = 0; i < their_count; i++)
		printf("    theirs: %s  %s:%u\n", theirs[i].function, theirs[i].file, theirs[i].line);
}

static void compare(uint64_t address, const struct spsym_location *ours, const struct frame *theirs, size_t their_count,
                    bool exact, struct counts *counts)
{
	counts->addresses++;
	if (their_count == 1 && !theirs[0].line && !ours->frame_count) {
		if (theirs[0].function[0] && strcmp(theirs[0].function, "??") != 0 && !ours->symbol.name)
			show("function", ++counts->function, address, ours, theirs, their_count);
		return;
	}
	if (ours->frame_count != their_count) {
		show("depth", ++counts->depth, address, ours, theirs, their_count);
		return;
	}
	counts->frames += (unsigned)their_count;
	counts->inlined += their_count > 1;
	bool function = false, file = false, line = false, inlined_line = false;
	for (size_t i = 0; i < their_count; i++) {
		char a[4096], b[4096];
		normalize(ours->frames[i].function ? ours->frames[i].function : "", a, sizeof(a));
		normalize(theirs[i].function, b, sizeof(b));
		function |= exact ? strcmp(ours->frames[i].function ? ours->frames[i].function : "??",
		                           theirs[i].function) != 0
		                  : strcmp(a, b) != 0;
		*(i + 1 < their_count ? &inlined_line : &line) |= ours->frames[i].line != theirs[i].line;
		file |= theirs[i].line && (!ours->frames[i].file || strcmp(ours->frames[i].file, theirs[i].file) != 0);
	}
	if (function)
		show("function", ++counts->function, address, ours, theirs, their_count);
	if (file)
		show("file", ++counts->file, address, ours, theirs, their_count);
	if (line)
		show("line", ++counts->line, address, ours, theirs, their_count);
	counts->inlined_line += inlined_line;
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* The index that is made of the PDB gives the same frames. */
static void check_index(spsym_module *module, const uint64_t *addresses, const struct spsym_result *result)
{
	struct spsym_result indexed = { 0 };
	assert_null(spsym_module_index(module));
	assert_null(spsym_lookup(module, addresses, result->count, &indexed));
	for (size_t i = 0; i < result->count; i++) {
		const struct spsym_location *a = &result->locations[i], *b = &indexed.locations[i];
		bool same = a->frame_count == b->frame_count;
		for (size_t k = 0; same && k < a->frame_count; k++) {
			const struct spsym_frame *x = &a->frames[k], *y = &b->frames[k];
			same = same_text(x->function, y->function) && same_text(x->file, y->file) &&
			       x->line == y->line && x->column == y->column;
		}
		if (!same) {
			for (size_t k = 0; k < a->frame_count; k++)
				printf("  lazy:  %s %s:%u\n", a->frames[k].function, a->frames[k].file,
				       a->frames[k].line);
			for (size_t k = 0; k < b->frame_count; k++)
				printf("  index: %s %s:%u\n", b->frames[k].function, b->frames[k].file,
				       b->frames[k].line);
			fflush(stdout);
			fail_msg("the index differs at 0x%llx", (unsigned long long)addresses[i]);
		}
	}
	spsym_result_deinit(&indexed);
}

static void compare_file(const char *path, struct counts *counts)
{
	*counts = (struct counts){ 0 };
	struct sp_object *object;
	assert_null(sp_object_open_path(path, &object));
	const struct sp_section *text = sp_object_find_section(object, ".text");
	assert_non_null(text);
	uint64_t start = text->address - sp_object_info(object)->base, size = text->size;
	size_t count = (size_t)((size + STEP - 1) / STEP);
	uint64_t *addresses = malloc(count * sizeof(*addresses));
	assert_non_null(addresses);
	FILE *list = fopen(in_folder("addresses"), "w");
	for (size_t i = 0; i < count; i++) {
		addresses[i] = start + i * STEP;
		fprintf(list, "0x%llx\n", (unsigned long long)addresses[i]);
	}
	fclose(list);
	char pdb[600];
	snprintf(pdb, sizeof(pdb), "%.*s.pdb", (int)(strrchr(path, '.') - path), path);
	bool exact = getenv("PDB_ADDR2LINE");
	if (exact)
		must_run("$PDB_ADDR2LINE -e '%s' --llvm -f -i <addresses >answers", pdb);
	else
		must_run("${LLVM_SYMBOLIZER:-llvm-symbolizer} --obj='%s' --relative-address --functions=short "
		         "<addresses >answers",
		         path);
	struct spsym_context *context;
	struct spsym_module *module;
	struct spsym_result result = { 0 };
	struct spsym_options options = { .no_background = true };
	assert_null(spsym_context_create(&options, &context));
	assert_null(spsym_module_open_path(context, path, &module));
	assert_true(spsym_module_info(module)->has_debug_info);
	assert_null(spsym_lookup(module, addresses, count, &result));
	assert_null(result.debug_error);
	FILE *in = fopen(in_folder("answers"), "r");
	static struct frame frames[FRAMES_MAX];
	for (size_t i = 0; i < count; i++)
		compare(addresses[i], &result.locations[i], frames, read_frames(in, frames), exact, counts);
	fclose(in);
	check_index(module, addresses, &result);
	free(addresses);
	spsym_result_deinit(&result);
	spsym_module_release(module);
	spsym_context_destroy(context);
	sp_object_destroy(object);
	printf("%s: %u addresses, %u frames, %u with inlined functions; differences: %u depth, %u function, %u file, "
	       "%u line, %u line of an inlined frame\n",
	       path, counts->addresses, counts->frames, counts->inlined, counts->depth, counts->function, counts->file,
	       counts->line, counts->inlined_line);
}

/* Lines of inlined frames are right in LLVM 15 and later. */
static bool has_inlined_lines(void)
{
	static unsigned version;
	if (version)
		return version >= 15;
	char *text = output_of("${LLVM_SYMBOLIZER:-llvm-symbolizer} --version | grep -o 'version [0-9]*'");
	version = (unsigned)strtoul(text + strlen("version "), NULL, 10);
	assert_true(version > 0);
	free(text);
	if (version < 15)
		skip_part("lines of inlined frames", "llvm-symbolizer is older than 15");
	return version >= 15;
}

/* Checks a file against the differences that are known. */
static void expect(const char *path, struct counts most)
{
	struct counts counts;
	compare_file(path, &counts);
	assert_true(counts.addresses >= most.addresses && counts.inlined >= most.inlined);
	assert_in_range(counts.depth, 0, most.depth);
	assert_in_range(counts.function, 0, most.function);
	assert_in_range(counts.file, 0, most.file);
	assert_in_range(counts.line, 0, most.line);
	if (has_inlined_lines())
		assert_in_range(counts.inlined_line, 0, most.inlined_line);
}

static void test_shared(void **state)
{
	(void)state;
	if (access(SOURCE_ROOT "/../shared/data/pdb/softokn3.dll", R_OK) != 0) {
		skip_part("softokn3.dll, WriteArgument.exe", "no shared data");
		return;
	}
	expect(SOURCE_ROOT "/../shared/data/pdb/softokn3.dll",
	       (struct counts){ 13000, 0, 4000, .depth = 13, .file = 6, .line = 56, .inlined_line = 60 });
	expect(SOURCE_ROOT "/../shared/data/pdb/WriteArgument.exe",
	       (struct counts){ 200, 0, 10, .depth = 10, .function = 1, .line = 5 });
}

static const char source[] = "extern \"C\" int _fltused = 0;\n"
                             "namespace outer { namespace {\n"
                             "struct Shape { int sides; virtual int area(int scale) const; template <class T> T "
                             "scaled(T by, const char *name); };\n"
                             "__attribute__((noinline)) int leaf(int x)\n"
                             "{\n"
                             "	volatile int y = x * 3;\n"
                             "	return y;\n"
                             "}\n"
                             "static inline __attribute__((always_inline)) int middle(int x)\n"
                             "{\n"
                             "	return leaf(x) + 1;\n"
                             "}\n"
                             "static inline __attribute__((always_inline)) int upper(int x)\n"
                             "{\n"
                             "	if (x > 3)\n"
                             "		x = middle(x) * 5;\n"
                             "	return x + middle(x + 1);\n"
                             "}\n"
                             "int Shape::area(int scale) const\n"
                             "{\n"
                             "	return sides * upper(scale);\n"
                             "}\n"
                             "template <class T> __attribute__((noinline)) T Shape::scaled(T by, const char *name)\n"
                             "{\n"
                             "	return by * name[0] + upper(sides);\n"
                             "}\n"
                             "} }\n"
                             "extern \"C\" __declspec(dllexport) int run(int n, const char **names, double (*f)(int))\n"
                             "{\n"
                             "	outer::Shape shape;\n"
                             "	shape.sides = n;\n"
                             "	return shape.area(n) + shape.scaled<long>(n, names[0]) + outer::upper(n);\n"
                             "}\n";

/* By clang and lld for three architectures, in pages of several sizes: no difference is expected. */
static void test_made(void **state)
{
	(void)state;
	static const struct {
		const char *target;
		unsigned page_size;
	} builds[] = {
		{ "x86_64", 4096 }, { "x86_64", 8192 }, { "x86_64", 16384 }, { "i686", 4096 }, { "aarch64", 4096 }
	};
	if (!have("clang++") || !have("lld-link")) {
		skip_part("PDBs by clang and lld", "they are not installed");
		return;
	}
	write_text("a.cpp", source);
	for (size_t i = 0; i < sizeof(builds) / sizeof(builds[0]); i++) {
		must_run(
		    "clang++ --target=%s-pc-windows-msvc -g -gcodeview -O1 -fno-exceptions -fno-rtti -c a.cpp -o a.obj "
		    "&& "
		    "lld-link /dll /noentry /nodefaultlib /debug /force:unresolved /pdbpagesize:%u /out:m%zu.dll a.obj",
		    builds[i].target, builds[i].page_size, i);
		expect(in_folder("m%zu.dll", i), (struct counts){ 10, 0, 5, .depth = 0 });
	}
}

int main(int argc, char **argv)
{
	make_folder(NULL);
	int failed = 0;
	if (!have("llvm-symbolizer")) {
		skip_part("PDBs", "llvm-symbolizer is not installed");
	} else if (argc > 1) {
		for (int i = 1; i < argc; i++) {
			struct counts counts;
			compare_file(argv[i], &counts);
		}
	} else {
		const struct CMUnitTest tests[] = { cmocka_unit_test(test_shared), cmocka_unit_test(test_made) };
		failed = cmocka_run_group_tests(tests, NULL, NULL);
	}
	remove_folder(NULL);
	return failed;
}
