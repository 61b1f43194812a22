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

/* Runs a command in the fixtures' folder; $D is where the sources are. */
static bool run(const char *command)
{
	char line[4096];
	snprintf(line, sizeof(line), "cd '%s' && D='%s/dwarf' && { %s; } >log 2>&1", folder, TEST_DATA, command);
	return system(line) == 0;
}

static bool have(const char *program)
{
	char command[512];
	snprintf(command, sizeof(command), "command -v %s", program);
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
	Elf64_Ehdr header;
	memcpy(&header, bytes, sizeof(header));
	for (unsigned i = 0; i < header.e_shnum; i++) {
		Elf64_Shdr section;
		size_t at = header.e_shoff + i * sizeof(section);
		memcpy(&section, bytes + at, sizeof(section));
		if (section.sh_type == SHT_SYMTAB || section.sh_type == SHT_DYNSYM)
			section.sh_type = SHT_PROGBITS;
		memcpy(bytes + at, &section, sizeof(section));
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
static unsigned count_differences(const char *what, const struct text_answers *ours, const struct text_answers *theirs)
{
	unsigned differences = 0;
	assert_int_equal(ours->count, theirs->count);
	for (size_t i = 0; i < ours->count; i++) {
		if (same_answer(&ours->items[i], &theirs->items[i]))
			continue;
		if (++differences <= 3) {
			printf("%s: 0x%llx\n", what, (unsigned long long)ours->items[i].address);
			print_answer("own ", &ours->items[i]);
			print_answer("llvm", &theirs->items[i]);
		}
	}
	return differences;
}

#endif
