/* For the tests of the DWARF engine: debug sections written by hand, and what the engine makes of them.
 *
 * An image is one ELF file: code of CODE_SIZE bytes at CODE, and the debug sections, to which the put functions append.
 */
#ifndef DWARF_BUILDER_H
#define DWARF_BUILDER_H

#include "symbolication/dwarf/constants.h"
#include "symbolication/dwarf/dwarf.h"

#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CODE 0x1000
#define CODE_SIZE 0x1000

enum part { INFO, TYPES, ABBREV, LINE, STR, LINE_STR, STR_OFFSETS, ADDR, RANGES, RNGLISTS, ARANGES, PARTS };

static const char *const part_names[PARTS] = { ".debug_info",   ".debug_types",    ".debug_abbrev",      ".debug_line",
	                                       ".debug_str",    ".debug_line_str", ".debug_str_offsets", ".debug_addr",
	                                       ".debug_ranges", ".debug_rnglists", ".debug_aranges" };

struct bytes {
	uint8_t *items;
	size_t count, capacity;
};

struct image {
	struct bytes parts[PARTS];
	bool relocatable, big_endian, split;
	bool empty_sections; /* those without bytes are there, too */
	uint64_t code;       /* 0 = CODE */
	/* The unit at hand. */
	enum part unit_part;
	size_t unit_start;
	unsigned version, offset_size;
	/* What is opened of it. */
	uint8_t *file;
	struct sp_object *object;
	struct sp_dwarf *dwarf;
	struct image *supplementary;
	struct sp_object *(*open_dwo)(void *context, const char *path);
	void *context;
	const char *note;
};

/* ---- Putting ---- */

static void put(struct image *image, enum part part, unsigned size, uint64_t value)
{
	struct bytes *bytes = &image->parts[part];
	if (bytes->count + size > bytes->capacity) {
		bytes->capacity = 2 * bytes->capacity + 256;
		bytes->items = realloc(bytes->items, bytes->capacity);
		assert_non_null(bytes->items);
	}
	for (unsigned i = 0; i < size; i++)
		bytes->items[bytes->count + i] = (uint8_t)(value >> 8 * (image->big_endian ? size - 1 - i : i));
	bytes->count += size;
}

static void patch(struct image *image, enum part part, size_t at, unsigned size, uint64_t value)
{
	size_t count = image->parts[part].count;
	image->parts[part].count = at;
	put(image, part, size, value);
	image->parts[part].count = count;
}

static inline void put_uleb(struct image *image, enum part part, uint64_t value)
{
	do {
		put(image, part, 1, (value & 0x7f) | (value > 0x7f ? 0x80 : 0));
		value >>= 7;
	} while (value);
}

static inline void put_sleb(struct image *image, enum part part, int64_t value)
{
	for (;;) {
		uint8_t byte = value & 0x7f;
		value >>= 7;
		bool last = (value == 0 && !(byte & 0x40)) || (value == -1 && byte & 0x40);
		put(image, part, 1, byte | (last ? 0 : 0x80));
		if (last)
			return;
	}
}

static inline void put_string(struct image *image, enum part part, const char *text)
{
	do
		put(image, part, 1, (uint8_t)*text);
	while (*text++);
}

/* Puts a string in a string section and returns its offset. */
static inline uint64_t keep(struct image *image, enum part part, const char *text)
{
	uint64_t at = image->parts[part].count;
	put_string(image, part, text);
	return at;
}

/* An abbreviation: pairs of attribute and form (after implicit_const its value), ended by a 0. */
static inline void abbrev(struct image *image, unsigned code, unsigned tag, int children, ...)
{
	put_uleb(image, ABBREV, code);
	put_uleb(image, ABBREV, tag);
	put(image, ABBREV, 1, (uint64_t)children);
	va_list args;
	va_start(args, children);
	for (int name; (name = va_arg(args, int));) {
		int form = va_arg(args, int);
		put_uleb(image, ABBREV, (unsigned)name);
		put_uleb(image, ABBREV, (unsigned)form);
		if (form == DW_FORM_implicit_const)
			put_sleb(image, ABBREV, va_arg(args, int));
	}
	va_end(args);
	put(image, ABBREV, 2, 0);
}

/* Begins a unit, whose abbreviations start at `abbrevs`. `type` is for version 5 and for .debug_types (DW_UT_type). */
static inline void unit_begin(struct image *image, unsigned version, unsigned type, uint64_t abbrevs)
{
	image->unit_part = version < 5 && type == DW_UT_type ? TYPES : INFO;
	enum part part = image->unit_part;
	image->unit_start = image->parts[part].count;
	image->version = version;
	if (!image->offset_size)
		image->offset_size = 4;
	if (image->offset_size == 8)
		put(image, part, 4, 0xffffffff);
	put(image, part, image->offset_size, 0);
	put(image, part, 2, version);
	if (version >= 5) {
		put(image, part, 1, type);
		put(image, part, 1, 8);
	}
	put(image, part, image->offset_size, abbrevs);
	if (version < 5)
		put(image, part, 1, 8);
}

static inline void unit_end(struct image *image)
{
	unsigned length_end = image->offset_size == 8 ? 12 : 4;
	patch(image, image->unit_part, image->unit_start + length_end - image->offset_size, image->offset_size,
	      image->parts[image->unit_part].count - image->unit_start - length_end);
}

/* Offset in the unit of what comes next. */
static inline uint64_t here(const struct image *image)
{
	return image->parts[image->unit_part].count - image->unit_start;
}

/* ---- Line tables ---- */

struct line_row {
	uint64_t address;
	unsigned file, line, column;
};

/* Begins a table with the given rules; files come next, then line_program(). Returns where its length is. */
static inline size_t line_begin(struct image *image, unsigned version, unsigned min_length, unsigned max_operations)
{
	size_t start = image->parts[LINE].count;
	put(image, LINE, 4, 0);
	put(image, LINE, 2, version);
	if (version >= 5) {
		put(image, LINE, 1, 8);
		put(image, LINE, 1, 0);
	}
	put(image, LINE, 4, 0); /* length of the header */
	put(image, LINE, 1, min_length);
	if (version >= 4)
		put(image, LINE, 1, max_operations);
	put(image, LINE, 1, 1);    /* is_stmt */
	put(image, LINE, 1, 0xfb); /* line_base -5 */
	put(image, LINE, 1, 14);   /* line_range */
	put(image, LINE, 1, 13);   /* opcode_base */
	static const uint8_t lengths[12] = { 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1 };
	for (unsigned i = 0; i < 12; i++)
		put(image, LINE, 1, lengths[i]);
	return start;
}

static inline void line_program(struct image *image, size_t start, unsigned version)
{
	size_t at = start + (version >= 5 ? 8 : 6);
	patch(image, LINE, at, 4, image->parts[LINE].count - at - 4);
}

static inline void line_end(struct image *image, size_t start)
{
	patch(image, LINE, start, 4, image->parts[LINE].count - start - 4);
}

static inline void set_address(struct image *image, uint64_t address)
{
	put(image, LINE, 1, 0);
	put(image, LINE, 1, 9);
	put(image, LINE, 1, DW_LNE_set_address);
	put(image, LINE, 8, address);
}

static inline void end_sequence(struct image *image)
{
	put(image, LINE, 1, 0);
	put(image, LINE, 1, 1);
	put(image, LINE, 1, DW_LNE_end_sequence);
}

/* One sequence, each row with set_address. */
static inline void sequence(struct image *image, const struct line_row *rows, size_t count, uint64_t end)
{
	unsigned line = 1;
	for (size_t i = 0; i < count; i++) {
		set_address(image, rows[i].address);
		put(image, LINE, 1, DW_LNS_set_file);
		put_uleb(image, LINE, rows[i].file);
		put(image, LINE, 1, DW_LNS_set_column);
		put_uleb(image, LINE, rows[i].column);
		put(image, LINE, 1, DW_LNS_advance_line);
		put_sleb(image, LINE, (int64_t)rows[i].line - line);
		line = rows[i].line;
		put(image, LINE, 1, DW_LNS_copy);
	}
	set_address(image, end);
	end_sequence(image);
}

/* A version 4 table with file 1 = "a.c", file 2 = "b.c" of the compilation folder, and one sequence that gives line
 * 100 + n to the n-th 16 bytes of [start, end). Returns its offset. */
static inline uint64_t plain_lines(struct image *image, uint64_t start, uint64_t end)
{
	size_t table = line_begin(image, 4, 1, 1);
	put(image, LINE, 1, 0);
	for (unsigned i = 0; i < 2; i++) {
		put_string(image, LINE, i ? "b.c" : "a.c");
		put(image, LINE, 3, 0);
	}
	put(image, LINE, 1, 0);
	line_program(image, table, 4);
	struct line_row rows[256];
	size_t count = 0;
	for (uint64_t at = start; at < end; at += 16, count++)
		rows[count] = (struct line_row){ at, 1, 100 + (unsigned)count, 0 };
	sequence(image, rows, count, end);
	line_end(image, table);
	return table;
}

/* ---- A plain unit ---- */

/* A unit of version 4 with root "a.c" in "/src", lines for [CODE, CODE + 0x100) and abbreviation 1 for the root. */
static inline void begin_plain(struct image *image, unsigned version)
{
	uint64_t lines = plain_lines(image, CODE, CODE + 0x100);
	uint64_t abbrevs = image->parts[ABBREV].count;
	abbrev(image, 1, DW_TAG_compile_unit, true, DW_AT_name, DW_FORM_string, DW_AT_comp_dir, DW_FORM_string,
	       DW_AT_stmt_list, version < 4 ? DW_FORM_data4 : DW_FORM_sec_offset, DW_AT_low_pc, DW_FORM_addr,
	       DW_AT_high_pc, DW_FORM_addr, 0);
	unit_begin(image, version, DW_UT_compile, abbrevs);
	put_uleb(image, INFO, 1);
	put_string(image, INFO, "a.c");
	put_string(image, INFO, "/src");
	put(image, INFO, image->offset_size == 8 && version >= 4 ? 8 : 4, lines);
	put(image, INFO, 8, CODE);
	put(image, INFO, 8, CODE + 0x100);
}

static inline void end_plain(struct image *image)
{
	put(image, INFO, 1, 0); /* end of the root's children */
	put(image, ABBREV, 1, 0);
	unit_end(image);
}

/* One function of a plain unit with the given attributes. */
static inline void put_function(struct image *image, unsigned code, const char *name, uint64_t low, uint64_t high,
                                unsigned high_form)
{
	abbrev(image, code, DW_TAG_subprogram, false, DW_AT_name, DW_FORM_string, DW_AT_low_pc, DW_FORM_addr,
	       DW_AT_high_pc, high_form, 0);
	put_uleb(image, INFO, code);
	put_string(image, INFO, name);
	put(image, INFO, 8, low);
	switch (high_form) {
	case DW_FORM_udata:
		put_uleb(image, INFO, high);
		break;
	case DW_FORM_data1:
		put(image, INFO, 1, high);
		break;
	case DW_FORM_data2:
		put(image, INFO, 2, high);
		break;
	case DW_FORM_data4:
		put(image, INFO, 4, high);
		break;
	default:
		put(image, INFO, 8, high);
		break;
	}
}

/* ---- Opening ---- */

static void append(struct bytes *file, const void *items, size_t count)
{
	if (file->count + count > file->capacity) {
		file->capacity = 2 * (file->capacity + count);
		file->items = realloc(file->items, file->capacity);
		assert_non_null(file->items);
	}
	if (count)
		memcpy(file->items + file->count, items, count);
	file->count += count;
}

/* Only little-endian hosts make big-endian files wrong here; tests of those come from compilers. */
static struct bytes make_elf(const struct image *image)
{
	struct bytes file = { 0 };
	Elf64_Shdr headers[PARTS + 3] = { 0 };
	char names[1024] = "\0.text\0.shstrtab";
	size_t names_size = 17, count = 1;
	Elf64_Ehdr header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		              .e_type = image->relocatable ? ET_REL : ET_EXEC,
		              .e_machine = EM_X86_64,
		              .e_version = EV_CURRENT,
		              .e_ehsize = sizeof(header),
		              .e_shentsize = sizeof(Elf64_Shdr) };
	append(&file, &header, sizeof(header));
	headers[count++] = (Elf64_Shdr){ .sh_name = 1,
		                         .sh_type = SHT_NOBITS,
		                         .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
		                         .sh_addr = image->relocatable ? 0
		                                    : image->code      ? image->code
		                                                       : CODE,
		                         .sh_size = CODE_SIZE,
		                         .sh_addralign = 16 };
	for (unsigned i = 0; i < PARTS; i++) {
		if (!image->parts[i].count && !image->empty_sections)
			continue;
		headers[count++] = (Elf64_Shdr){ .sh_name = (Elf64_Word)names_size,
			                         .sh_type = SHT_PROGBITS,
			                         .sh_offset = file.count,
			                         .sh_size = image->parts[i].count,
			                         .sh_addralign = 1 };
		names_size += (size_t)snprintf(names + names_size, sizeof(names) - names_size, "%s%s", part_names[i],
		                               image->split ? ".dwo" : "") +
		              1;
		if (image->parts[i].count)
			append(&file, image->parts[i].items, image->parts[i].count);
	}
	headers[count++] = (Elf64_Shdr){
		.sh_name = 7, .sh_type = SHT_STRTAB, .sh_offset = file.count, .sh_size = names_size, .sh_addralign = 1
	};
	append(&file, names, names_size);
	append(&file, "\0\0\0\0\0\0\0", -file.count & 7);
	header.e_shoff = file.count;
	header.e_shnum = (Elf64_Half)count;
	header.e_shstrndx = (Elf64_Half)(count - 1);
	append(&file, headers, count * sizeof(*headers));
	memcpy(file.items, &header, sizeof(header));
	return file;
}

static void open_object(struct image *image)
{
	struct bytes file = make_elf(image);
	image->file = file.items;
	struct sp_error *error = sp_object_open_bytes(file.items, file.count, "built", &image->object);
	if (error)
		fail_msg("%s", error->message);
}

static void open_image(struct image *image)
{
	open_object(image);
	if (image->supplementary)
		open_object(image->supplementary);
	struct sp_dwarf_files files = { .main = image->object,
		                        .supplementary = image->supplementary ? image->supplementary->object : NULL,
		                        .open_dwo = image->open_dwo,
		                        .context = image->context };
	assert_null(sp_dwarf_create(&files, &image->dwarf));
}

static void free_image(struct image *image)
{
	sp_dwarf_destroy(image->dwarf);
	sp_object_destroy(image->object);
	free(image->file);
	for (unsigned i = 0; i < PARTS; i++)
		free(image->parts[i].items);
	if (image->supplementary)
		free_image(image->supplementary);
	*image = (struct image){ 0 };
}

/* ---- Asking ---- */

static void write_answer(void *context, size_t index, const struct sp_dwarf_answer *answer)
{
	(void)index;
	char *text = context;
	*text = '\0';
	for (size_t i = 0; i < answer->count; i++) {
		const struct sp_dwarf_frame *frame = &answer->frames[i];
		const char *name = frame->linkage_name ? frame->linkage_name : frame->name;
		text += sprintf(text, "%s%s %s:%u", i ? " < " : "", name ? name : "?", frame->file ? frame->file : "?",
		                frame->line);
		if (frame->column)
			text += sprintf(text, ":%u", frame->column);
	}
}

/* Looks up an address; the answer must be `expected`: "name file:line[:column] < caller file:line …", "" = nothing. */
static inline void expect(struct image *image, uint64_t address, const char *expected)
{
	static char text[65536];
	if (!image->dwarf)
		open_image(image);
	struct sp_error *error = sp_dwarf_lookup(image->dwarf, &address, 1, write_answer, text, &image->note);
	if (error)
		fail_msg("%s", error->message);
	if (strcmp(text, expected) != 0)
		fail_msg("0x%llx: \"%s\", not \"%s\"; note: %s", (unsigned long long)address, text, expected,
		         image->note ? image->note : "none");
}

/* The complaint must hold `part`; NULL = there must be none. */
static inline void expect_note(const struct image *image, const char *part)
{
	if (part ? !image->note || !strstr(image->note, part) : !!image->note)
		fail_msg("note: %s", image->note ? image->note : "none");
}

#endif
