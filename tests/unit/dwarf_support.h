/* For the tests of the DWARF engine: fixtures are compiled in a folder of their own by a shell command, and every
 * fourth byte of their code is looked up by the engine and by an oracle, llvm-symbolizer. */
#ifndef DWARF_SUPPORT_H
#define DWARF_SUPPORT_H

#include "symbolication/dwarf/dwarf.h"

#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[256]; /* where fixtures are made */
static unsigned skipped;

static int make_folder(void **state)
{
	(void)state;
	const char *parent = getenv("TMPDIR");
	snprintf(folder, sizeof(folder), "%s/dwarf-test-XXXXXX", parent ? parent : "/tmp");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	char command[512];
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	if (skipped)
		printf("%u parts SKIPPED\n", skipped);
	return system(command);
}

static void skip_part(const char *what, const char *why)
{
	printf("SKIPPED: %s: %s\n", what, why);
	skipped++;
}

/* Runs a command in the fixtures' folder; $D is where the sources are, $B where we are, for what may be kept. */
static bool run(const char *command)
{
	char line[4096];
	snprintf(line, sizeof(line), "B=$PWD && cd '%s' && D='%s/dwarf' && { %s; } >log 2>&1", folder, TEST_DATA,
	         command);
	return system(line) == 0;
}

/* Are all of these programs there? */
static bool have(const char *program)
{
	char command[512];
	snprintf(command, sizeof(command), "for p in %s; do command -v $p || exit 1; done", program);
	return run(command);
}

static void path_of(const char *name, char *ret, size_t size)
{
	snprintf(ret, size, "%s/%s", folder, name);
}

/* ---- Answers, as text ---- */

struct text_frame {
	char *function, *place; /* "name", "file:line:column" */
};

struct text_answer {
	uint64_t address;
	struct text_frame *frames;
	size_t count;
};

struct text_answers {
	struct text_answer *items;
	size_t count;
};

static void free_answers(struct text_answers *answers)
{
	for (size_t i = 0; i < answers->count; i++) {
		for (size_t k = 0; k < answers->items[i].count; k++) {
			free(answers->items[i].frames[k].function);
			free(answers->items[i].frames[k].place);
		}
		free(answers->items[i].frames);
	}
	free(answers->items);
	*answers = (struct text_answers){ 0 };
}

static void add_frame(struct text_answer *answer, const char *function, const char *place)
{
	answer->frames = realloc(answer->frames, (answer->count + 1) * sizeof(*answer->frames));
	assert_non_null(answer->frames);
	answer->frames[answer->count++] = (struct text_frame){ strdup(function), strdup(place) };
}

static void keep_answer(void *context, size_t index, const struct sp_dwarf_answer *answer)
{
	struct text_answer *text = &((struct text_answers *)context)->items[index];
	char place[8192];
	for (size_t i = 0; i < answer->count; i++) {
		const struct sp_dwarf_frame *frame = &answer->frames[i];
		snprintf(place, sizeof(place), "%s:%u:%u", frame->file ? frame->file : "??", frame->line,
		         frame->column);
		add_frame(text, frame->linkage_name ? frame->linkage_name : frame->name ? frame->name : "??", place);
	}
	if (!answer->count)
		add_frame(text, "??", "??:0:0");
}

/* Every `step`th byte of the executable sections. */
static struct text_answers make_addresses(struct sp_object *object, unsigned step)
{
	struct text_answers answers = { 0 };
	size_t count, total = 0;
	const struct sp_section *sections = sp_object_sections(object, &count);
	for (size_t i = 0; i < count; i++)
		if (sections[i].executable)
			total += sections[i].size / step + 1;
	answers.items = calloc(total + 1, sizeof(*answers.items));
	assert_non_null(answers.items);
	for (size_t i = 0; i < count; i++)
		for (uint64_t k = 0; sections[i].executable && k < sections[i].size; k += step)
			answers.items[answers.count++].address = sections[i].address + k;
	return answers;
}

/* Our engine's answers for `answers`' addresses. */
static void look_up(const struct sp_dwarf_files *files, struct text_answers *answers, const char **ret_note)
{
	static char note[512];
	uint64_t *addresses = calloc(answers->count + 1, sizeof(*addresses));
	for (size_t i = 0; i < answers->count; i++)
		addresses[i] = answers->items[i].address;
	struct sp_dwarf *dwarf;
	const char *found;
	assert_null(sp_dwarf_create(files, &dwarf));
	struct sp_error *error = sp_dwarf_lookup(dwarf, addresses, answers->count, keep_answer, answers, &found);
	if (error)
		fail_msg("%s", error->message);
	snprintf(note, sizeof(note), "%s", found ? found : "");
	if (ret_note)
		*ret_note = *note ? note : NULL;
	sp_dwarf_destroy(dwarf);
	free(addresses);
}

static uint64_t get_number(const unsigned char *bytes, size_t at, unsigned size, bool big_endian)
{
	uint64_t value = 0;
	for (unsigned i = 0; i < size; i++)
		value |= (uint64_t)bytes[at + i] << 8 * (big_endian ? size - 1 - i : i);
	return value;
}

/* A copy of an ELF file without symbol tables: llvm-symbolizer replaces names of functions by names of symbols. */
static void hide_symbols(const char *from, const char *to)
{
	FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
	assert_non_null(in);
	assert_non_null(out);
	fseek(in, 0, SEEK_END);
	size_t size = (size_t)ftell(in);
	rewind(in);
	unsigned char *bytes = malloc(size);
	assert_int_equal(fread(bytes, 1, size, in), size);
	bool wide = bytes[EI_CLASS] == ELFCLASS64, big = bytes[EI_DATA] == ELFDATA2MSB;
	/* A relocatable file's symbols are needed for its relocations. */
	bool relocatable = get_number(bytes, 16, 2, big) == ET_REL;
	uint64_t at = wide ? get_number(bytes, 40, 8, big) : get_number(bytes, 32, 4, big);
	uint64_t entry = get_number(bytes, wide ? 58 : 46, 2, big), count = get_number(bytes, wide ? 60 : 48, 2, big);
	for (uint64_t i = 0; i < count && !relocatable; i++, at += entry) {
		uint64_t type = get_number(bytes, at + 4, 4, big);
		if (type == SHT_SYMTAB || type == SHT_DYNSYM)
			bytes[at + (big ? 7 : 4)] = SHT_PROGBITS;
		if (type == SHT_DYNSYM)
			bytes[at + (big ? 6 : 5)] = 0;
	}
	assert_int_equal(fwrite(bytes, 1, size, out), size);
	free(bytes);
	fclose(in);
	fclose(out);
}

/* llvm-symbolizer's answers for the addresses of `like`. */
static struct text_answers ask_llvm(const char *path, const struct text_answers *like)
{
	struct text_answers answers = { calloc(like->count + 1, sizeof(*answers.items)), like->count };
	char name[600], command[2048], line[8192];
	path_of("addresses", name, sizeof(name));
	FILE *file = fopen(name, "w");
	assert_non_null(file);
	for (size_t i = 0; i < like->count; i++)
		fprintf(file, "0x%llx\n", (unsigned long long)like->items[i].address);
	fclose(file);
	snprintf(command, sizeof(command),
	         "cd '%s' && llvm-symbolizer --obj='%s' --no-demangle --inlines --functions=linkage <'%s'", folder,
	         path, name);
	FILE *pipe = popen(command, "r");
	assert_non_null(pipe);
	char function[8192] = "";
	bool has_function = false;
	for (size_t i = 0; i < like->count && fgets(line, sizeof(line), pipe);) {
		answers.items[i].address = like->items[i].address;
		line[strcspn(line, "\n")] = '\0';
		if (!*line) {
			i++;
		} else if (!has_function) {
			strcpy(function, line);
			has_function = true;
		} else {
			add_frame(&answers.items[i], function, line);
			has_function = false;
		}
	}
	assert_int_equal(pclose(pipe), 0);
	return answers;
}

/* ---- Comparing ---- */

/* Where llvm-symbolizer prints the bare name, we put the scopes in front. */
static bool same_function(const char *ours, const char *theirs)
{
	size_t a = strlen(ours), b = strlen(theirs);
	if (a == b)
		return !strcmp(ours, theirs);
	return a > b + 2 && !memcmp(ours + a - b - 2, "::", 2) && !strcmp(ours + a - b, theirs);
}

static bool same_answer(const struct text_answer *ours, const struct text_answer *theirs)
{
	if (ours->count != theirs->count)
		return false;
	for (size_t i = 0; i < ours->count; i++)
		if (!same_function(ours->frames[i].function, theirs->frames[i].function) ||
		    strcmp(ours->frames[i].place, theirs->frames[i].place) != 0)
			return false;
	return true;
}

static void print_answer(const char *who, const struct text_answer *answer)
{
	for (size_t i = 0; i < answer->count; i++)
		printf("  %s %s at %s\n", who, answer->frames[i].function, answer->frames[i].place);
}

/* The number of differing answers; the first few are printed. */
static unsigned count_differences(const char *what, const char *who, const struct text_answers *ours,
                                  const struct text_answers *theirs)
{
	unsigned differences = 0;
	assert_int_equal(ours->count, theirs->count);
	for (size_t i = 0; i < ours->count; i++) {
		if (same_answer(&ours->items[i], &theirs->items[i]))
			continue;
		if (++differences <= 3) {
			printf("%s: 0x%llx\n", what, (unsigned long long)ours->items[i].address);
			print_answer("own ", &ours->items[i]);
			print_answer(who, &theirs->items[i]);
		}
	}
	return differences;
}

/* ---- Fixtures ---- */

/* One way to make a program. */
struct fixture {
	const char *name;
	const char *needs;  /* programs that must be there */
	const char *build;  /* makes "fixture", in a folder with opaque.c, shapes1.cpp, shapes2.cpp and shapes.h */
	const char *oracle; /* what llvm-symbolizer reads; NULL = "fixture" */
	const char *supplementary; /* of dwz */
	const char *package;       /* .dwp */
	unsigned differences;      /* answers where the oracle is wrong; the reason stands in front of the entry */
	const char *note;          /* what the engine must complain about; NULL = nothing */
	unsigned step;             /* look up every so many bytes; 0 = 4 */
	bool no_libdwarf;          /* libdwarf can't read it; the reason stands in front of the entry */
	bool other_files;          /* its lines and chains are as ours, not its files */
	bool dot;                  /* the compilation folder is "."; llvm-symbolizer puts it in front twice */
};

#define SOURCES "shapes1.cpp shapes2.cpp opaque.o -o fixture"
#define BUILD(cc, cxx, flags) cc " -c " flags " opaque.c -o opaque.o && " cxx " " flags " " SOURCES
#define GNU(flags) .name = "gcc " flags, .needs = "gcc g++", .build = BUILD("gcc", "g++", flags)
#define LLVM(flags) .name = "clang " flags, .needs = "clang clang++", .build = BUILD("clang", "clang++", flags)
#define WHOLE_AND_SPLIT(cc, cxx, flags) \
	BUILD(cc, cxx, flags) " && mv fixture before && " BUILD(cc, cxx, flags " -gsplit-dwarf")
#define SPLIT_GNU(flags)                                                            \
	.name = "gcc -gsplit-dwarf " flags, .needs = "gcc g++", .oracle = "before", \
	.build = WHOLE_AND_SPLIT("gcc", "g++", flags)
#define SPLIT_LLVM(flags)                                                                   \
	.name = "clang -gsplit-dwarf " flags, .needs = "clang clang++", .oracle = "before", \
	.build = WHOLE_AND_SPLIT("clang", "clang++", flags)
/* A program changed after linking; llvm-symbolizer reads the one before. */
#define CHANGED(what, program, flags, command)     \
	.name = what, .needs = "gcc g++ " program, \
	.build = BUILD("gcc", "g++", flags) " && cp fixture before && " command, .oracle = "before"

static struct sp_object *open_dwo(void *context, const char *path)
{
	struct sp_object **opened = context;
	struct sp_object *object = NULL;
	struct sp_error *error = sp_object_open_path(path, &object);
	sp_error_destroy(error);
	while (*opened)
		opened++;
	return *opened = object;
}

static struct sp_object *open_file(const char *name)
{
	char path[512];
	struct sp_object *object;
	if (!name)
		return NULL;
	path_of(name, path, sizeof(path));
	struct sp_error *error = sp_object_open_path(path, &object);
	if (error)
		fail_msg("%s", error->message);
	return object;
}

/* Gives a "file:line:column" the file of another one. */
static void take_file(char **place, const char *from)
{
	const char *line = strrchr(*place, ':'), *end = strrchr(from, ':');
	while (line > *place && line[-1] != ':')
		line--;
	while (end > from && end[-1] != ':')
		end--;
	char *text = malloc((size_t)(end - from) + strlen(line) + 1);
	assert_non_null(text);
	memcpy(text, from, (size_t)(end - from));
	strcpy(text + (end - from), line);
	free(*place);
	*place = text;
}

/* libdwarf 0.11 finds no line for some addresses of clang 19's tables that llvm-symbolizer, asked too, does find: where
 * it has none, its place is not compared. */
static unsigned drop_missing_lines(struct text_answers *theirs, const struct text_answers *ours)
{
	unsigned missing = 0;
	for (size_t i = 0; i < theirs->count; i++) {
		for (size_t k = 0; k < theirs->items[i].count && k < ours->items[i].count; k++) {
			char **place = &theirs->items[i].frames[k].place;
			size_t length = strlen(*place);
			const char *mine = ours->items[i].frames[k].place;
			if (length < 4 || strcmp(*place + length - 4, ":0:0") || !strcmp(*place, mine))
				continue;
			free(*place);
			*place = strdup(mine);
			assert_non_null(*place);
			missing++;
		}
	}
	return missing;
}

/* The reference engine reads no split units; where the oracle is another file it has the answers anyway. */
static unsigned compare_with_libdwarf(const struct fixture *fixture, const struct sp_dwarf_files *files,
                                      const struct text_answers *ours)
{
	struct sp_dwarf_files other = *files;
	if (fixture->no_libdwarf)
		return 0;
	struct text_answers theirs = make_addresses(files->main, fixture->step ? fixture->step : 4);
	other.libdwarf = true;
	look_up(&other, &theirs, NULL);
	for (size_t i = 0; i < theirs.count && fixture->other_files; i++)
		for (size_t k = 0; k < theirs.items[i].count && k < ours->items[i].count; k++)
			take_file(&theirs.items[i].frames[k].place, ours->items[i].frames[k].place);
	unsigned missing = drop_missing_lines(&theirs, ours);
	if (missing)
		printf("%s: libdwarf has no line for %u frames\n", fixture->name, missing);
	unsigned differences = count_differences(fixture->name, "libdwarf", ours, &theirs);
	free_answers(&theirs);
	return differences;
}

static unsigned compare_with_llvm(const struct fixture *fixture)
{
	struct sp_object *opened[16] = { 0 };
	struct sp_dwarf_files files = { .main = open_file("fixture"),
		                        .supplementary = open_file(fixture->supplementary),
		                        .package = open_file(fixture->package),
		                        .open_dwo = open_dwo,
		                        .context = opened };
	char path[512], hidden[512];
	const char *note;
	path_of(fixture->oracle ? fixture->oracle : "fixture", path, sizeof(path));
	path_of("hidden", hidden, sizeof(hidden));
	hide_symbols(path, hidden);
	struct text_answers ours = make_addresses(files.main, fixture->step ? fixture->step : 4);
	unsigned differences = 0;
	look_up(&files, &ours, &note);
	differences += compare_with_libdwarf(fixture, &files, &ours);
	struct text_answers theirs = ask_llvm(hidden, &ours);
	for (size_t i = 0; i < theirs.count && fixture->dot; i++)
		for (size_t k = 0; k < theirs.items[i].count; k++) {
			char *place = theirs.items[i].frames[k].place;
			if (!strncmp(place, "././", 4))
				memmove(place, place + 2, strlen(place + 2) + 1);
		}
	differences += count_differences(fixture->name, "llvm", &ours, &theirs);
	if (note && (!fixture->note || !strstr(note, fixture->note))) {
		printf("%s: note: %s\n", fixture->name, note);
		differences = UINT32_MAX;
	}
	if (ours.count < 40)
		differences = UINT32_MAX;
	free_answers(&ours);
	free_answers(&theirs);
	sp_object_destroy(files.main);
	sp_object_destroy(files.supplementary);
	sp_object_destroy(files.package);
	for (size_t i = 0; opened[i]; i++)
		sp_object_destroy(opened[i]);
	return differences;
}

/* Returns false when the fixture is not as expected. */
static bool check_fixture(const struct fixture *fixture)
{
	if (!have(fixture->needs)) {
		skip_part(fixture->name, "a compiler or tool is not here");
		return true;
	}
	if (!run("rm -rf ./* && cp $D/* ./ ") || !run(fixture->build)) {
		printf("%s: can't be made\n", fixture->name);
		run("cat log >&2");
		return false;
	}
	unsigned differences = compare_with_llvm(fixture);
	if (differences == fixture->differences)
		return true;
	printf("%s: %u answers differ\n", fixture->name, differences);
	return false;
}

static inline void check_fixtures(const struct fixture *fixtures, size_t count)
{
	unsigned failures = 0;
	if (!have("llvm-symbolizer")) {
		skip_part("all compilers", "no llvm-symbolizer here");
		return;
	}
	for (size_t i = 0; i < count; i++)
		failures += !check_fixture(&fixtures[i]);
	assert_int_equal(failures, 0);
}

#endif
