/* ELF: headers, segments, sections and identity.
 *
 * Opening reads the header and the two tables, nothing else; symbols, relocations and compressed sections are read on
 * demand by the neighbour files. A file whose section table is missing or outside (stripped of headers, cut off, taken
 * from memory) is read through its program headers. */
#include "symbolication/object/elf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PT_LOAD = 1, PT_NOTE = 4 };
enum { PF_X = 1 };
enum { NT_GNU_BUILD_ID = 3 };
enum { PN_XNUM = 0xffff };
enum { TEXT_MOST = 4096 }; /* bytes of code that identify a file without build ID */
enum { HEADER_MOST = 64 }; /* bytes of the file's header */
enum { BUILD_ID_LIMIT = (SPSYM_ID_MAX - 1) / 2 };

static bool elf_probe(const uint8_t *bytes, size_t size)
{
	return size >= 4 && memcmp(bytes, "\177ELF", 4) == 0;
}

static void elf_close(struct sp_object *object)
{
	struct sp_elf *elf = sp_elf(object);
	if (!elf)
		return;
	free(elf->sections);
	free(elf->segments);
	free(elf);
}

static const char *arch_name(const struct sp_elf *elf, bool big_endian)
{
	switch (elf->machine) {
	case SP_EM_386:
		return "x86";
	case SP_EM_X86_64:
		return "x86_64";
	case SP_EM_ARM:
		return "arm";
	case SP_EM_AARCH64:
		return "arm64";
	case SP_EM_PPC64:
		return big_endian ? "ppc64" : "ppc64le";
	case SP_EM_S390:
		return "s390x";
	case SP_EM_RISCV:
		return elf->is64 ? "riscv64" : "riscv32";
	default:
		return "";
	}
}

struct sp_elf_strings sp_elf_strings(const struct sp_cursor *bytes)
{
	size_t size = (size_t)(bytes->end - bytes->start);
	while (size && bytes->start[size - 1])
		size--;
	return (struct sp_elf_strings){ (const char *)bytes->start, size };
}

size_t sp_elf_find_type(const struct sp_object *object, uint32_t type)
{
	struct sp_elf *elf = sp_elf(object);
	size_t i = 0;
	while (i < object->section_count && elf->sections[i].type != type)
		i++;
	return i;
}

struct sp_cursor sp_elf_loaded_bytes(const struct sp_object *object, uint64_t address, uint64_t size)
{
	for (size_t i = 0; i < object->segment_count; i++) {
		const struct sp_segment *s = &object->segments[i];
		if (address < s->address || address - s->address >= s->file_size)
			continue;
		uint64_t skip = address - s->address, left = s->file_size - skip;
		uint64_t total = (uint64_t)(object->file.end - object->file.start);
		if (s->file_offset > total || skip >= total - s->file_offset)
			break;
		if (left > total - s->file_offset - skip)
			left = total - s->file_offset - skip;
		return sp_object_range(object, s->file_offset + skip, size < left ? size : left);
	}
	return (struct sp_cursor){ .big_endian = object->big_endian, .bad = true };
}

/* The numbers of e_phnum and e_shnum, which overflow into section 0. */
struct header_counts {
	uint64_t segments, sections;
};

static struct sp_error *read_header(struct sp_object *object, struct header_counts *ret)
{
	struct sp_elf *elf = sp_elf(object);
	size_t total = sp_object_file_size(object);
	struct sp_cursor c = sp_object_range(object, 0, total < HEADER_MOST ? total : HEADER_MOST);
	sp_cursor_skip(&c, 4);
	uint8_t class = sp_cursor_u8(&c), data = sp_cursor_u8(&c);
	if (class < 1 || class > 2 || data < 1 || data > 2)
		return sp_error_create(SP_ERROR_FORMAT, "ELF header: class %u, byte order %u", class, data);
	elf->is64 = class == 2;
	object->address_size = elf->is64 ? 8 : 4;
	object->big_endian = data == 2;
	object->file.big_endian = c.big_endian = object->big_endian;
	sp_cursor_seek(&c, 16);
	elf->type = sp_cursor_u16(&c);
	elf->machine = sp_cursor_u16(&c);
	sp_cursor_skip(&c, 4);
	object->entry = sp_elf_word(&c, elf);
	elf->segment_table = sp_elf_word(&c, elf);
	elf->section_table = sp_elf_word(&c, elf);
	sp_cursor_skip(&c, 6);
	elf->segment_entry = sp_cursor_u16(&c);
	ret->segments = sp_cursor_u16(&c);
	elf->section_entry = sp_cursor_u16(&c);
	ret->sections = sp_cursor_u16(&c);
	elf->section_names = sp_cursor_u16(&c);
	if (c.bad)
		return sp_error_create(SP_ERROR_FORMAT, "ELF header: the file ends inside it");
	object->relocatable = elf->type == SP_ET_REL;
	object->info.kind = SPSYM_KIND_ELF;
	snprintf(object->info.arch, sizeof(object->info.arch), "%s", arch_name(elf, object->big_endian));
	return NULL;
}

static void section_header_next(struct sp_object *object, struct sp_cursor *c, struct sp_section *section,
                                struct sp_elf_section *raw, uint32_t *name)
{
	struct sp_elf *elf = sp_elf(object);
	*name = sp_cursor_u32(c);
	raw->type = sp_cursor_u32(c);
	raw->flags = sp_elf_word(c, elf);
	section->address = sp_elf_word(c, elf);
	section->file_offset = sp_elf_word(c, elf);
	section->size = sp_elf_word(c, elf);
	raw->link = sp_cursor_u32(c);
	raw->info = sp_cursor_u32(c);
	raw->align = sp_elf_word(c, elf);
	raw->entry_size = sp_elf_word(c, elf);
	section->no_bits = raw->type == SP_SHT_NOBITS;
	section->allocated = raw->flags & SP_SHF_ALLOC;
	section->executable = raw->flags & SP_SHF_EXECINSTR;
	section->compressed = (raw->flags & SP_SHF_COMPRESSED) && !section->no_bits;
}

/* Settles the counts that overflow, and forgets tables that are not in the file. */
static void check_tables(struct sp_object *object, struct header_counts *counts)
{
	struct sp_elf *elf = sp_elf(object);
	size_t section_size = elf->is64 ? 64 : 40, segment_size = elf->is64 ? 56 : 32;
	if (elf->section_table && elf->section_entry >= section_size) {
		struct sp_cursor c = sp_object_range(object, elf->section_table, section_size);
		struct sp_section section = { 0 };
		struct sp_elf_section raw;
		uint32_t name;
		section_header_next(object, &c, &section, &raw, &name);
		if (!c.bad && counts->sections == 0)
			counts->sections = section.size;
		if (!c.bad && counts->segments == PN_XNUM)
			counts->segments = raw.info;
		if (!c.bad && elf->section_names == SP_SHN_XINDEX)
			elf->section_names = raw.link;
	} else {
		counts->sections = 0;
	}
	uint64_t total = (uint64_t)(object->file.end - object->file.start);
	if (counts->sections &&
	    (elf->section_table > total || counts->sections > (total - elf->section_table) / elf->section_entry)) {
		object->note = "the section header table lies past the end of the file (cut off?)";
		counts->sections = 0;
	}
	if (!elf->segment_table || elf->segment_entry < segment_size)
		counts->segments = 0;
	if (counts->segments &&
	    (elf->segment_table > total || counts->segments > (total - elf->segment_table) / elf->segment_entry)) {
		object->note = "the program header table lies past the end of the file (cut off?)";
		counts->segments = 0;
	}
}

static int compare_segments(const void *a, const void *b)
{
	const struct sp_segment *x = a, *y = b;
	return x->address < y->address ? -1 : x->address > y->address;
}

static struct sp_error *read_segments(struct sp_object *object, uint64_t count)
{
	struct sp_elf *elf = sp_elf(object);
	if (!count)
		return NULL;
	struct sp_cursor table = sp_object_range(object, elf->segment_table, count * elf->segment_entry);
	elf->segments = calloc(count, sizeof(*elf->segments));
	object->segments = calloc(count, sizeof(*object->segments));
	if (!elf->segments || !object->segments)
		return sp_error_no_memory();
	for (uint64_t i = 0; i < count; i++) {
		struct sp_cursor c = sp_cursor_sub(&table, i * elf->segment_entry, elf->segment_entry);
		struct sp_elf_segment *s = &elf->segments[i];
		s->type = sp_cursor_u32(&c);
		if (elf->is64)
			s->flags = sp_cursor_u32(&c);
		s->offset = sp_elf_word(&c, elf);
		s->address = sp_elf_word(&c, elf);
		(void)sp_elf_word(&c, elf); /* physical address */
		s->file_size = sp_elf_word(&c, elf);
		s->memory_size = sp_elf_word(&c, elf);
		if (!elf->is64)
			s->flags = sp_cursor_u32(&c);
		s->align = sp_elf_word(&c, elf);
		if (s->type != PT_LOAD)
			continue;
		if (!object->segment_count)
			object->info.base = s->address;
		object->segments[object->segment_count++] = (struct sp_segment){ s->address, s->memory_size, s->offset,
			                                                         s->file_size, s->flags & PF_X };
	}
	elf->segment_count = count;
	qsort(object->segments, object->segment_count, sizeof(*object->segments), compare_segments);
	return NULL;
}

/* Old compressed sections say so in their name and first four bytes. */
static bool is_zdebug(const struct sp_object *object, const struct sp_section *section)
{
	if (strncmp(section->name, ".zdebug_", 8) != 0 || section->no_bits)
		return false;
	struct sp_cursor c = sp_object_range(object, section->file_offset, section->size < 4 ? section->size : 4);
	const uint8_t *magic = sp_cursor_bytes(&c, 4);
	return magic && memcmp(magic, "ZLIB", 4) == 0;
}

static struct sp_error *read_sections(struct sp_object *object, uint64_t count)
{
	struct sp_elf *elf = sp_elf(object);
	if (!count)
		return NULL;
	struct sp_cursor table = sp_object_range(object, elf->section_table, count * elf->section_entry);
	object->sections = calloc(count, sizeof(*object->sections));
	elf->sections = calloc(count, sizeof(*elf->sections));
	uint32_t *names = calloc(count, sizeof(*names));
	if (!object->sections || !elf->sections || !names) {
		free(names);
		return sp_error_no_memory();
	}
	for (uint64_t i = 0; i < count; i++) {
		struct sp_cursor c = sp_cursor_sub(&table, i * elf->section_entry, elf->section_entry);
		section_header_next(object, &c, &object->sections[i], &elf->sections[i], &names[i]);
		object->sections[i].index = (uint32_t)i;
	}
	object->section_count = count;
	struct sp_elf_strings strings = { 0 };
	if (elf->section_names < count) {
		const struct sp_section *s = &object->sections[elf->section_names];
		struct sp_cursor bytes = sp_object_range(object, s->file_offset, s->no_bits ? 0 : s->size);
		strings = sp_elf_strings(&bytes);
	}
	for (uint64_t i = 0; i < count; i++) {
		const char *name = sp_elf_string(&strings, names[i]);
		object->sections[i].name = name ? name : "";
		if (is_zdebug(object, &object->sections[i]))
			object->sections[i].compressed = true;
	}
	free(names);
	return NULL;
}

/* Connects the sections whose bytes are read (debug information, unwind tables) with their relocations. Only ET_REL:
 * a kernel image linked with --emit-relocs carries relocations that were applied already. */
static void find_relocations(struct sp_object *object)
{
	struct sp_elf *elf = sp_elf(object);
	for (size_t i = 1; i < object->section_count; i++) {
		const struct sp_elf_section *s = &elf->sections[i];
		if ((s->type != SP_SHT_RELA && s->type != SP_SHT_REL) || s->info >= object->section_count)
			continue;
		const char *target = object->sections[s->info].name;
		if (strncmp(target, ".debug_", 7) == 0 || strncmp(target, ".zdebug_", 8) == 0 ||
		    strcmp(target, ".eh_frame") == 0)
			elf->sections[s->info].relocations = (uint32_t)i;
	}
}

/* Marks the sections whose bytes are not usable as they are in the file. */
static struct sp_error *mark_lazy(struct sp_object *object)
{
	object->lazy = calloc(object->section_count ? object->section_count : 1, sizeof(*object->lazy));
	if (!object->lazy)
		return sp_error_no_memory();
	for (size_t i = 0; i < object->section_count; i++) {
		bool relocated = sp_elf(object)->sections[i].relocations;
		if ((object->sections[i].compressed || relocated) && !object->sections[i].no_bits &&
		    !sp_object_make_lazy(object, i))
			return sp_error_no_memory();
	}
	return NULL;
}

/* Takes the build ID from a sequence of notes, if it is there. */
static void find_build_id(struct sp_object *object, struct sp_cursor notes, uint64_t align)
{
	uint64_t mask = align == 8 ? 7 : 3;
	while (!object->build_id && !notes.bad && sp_cursor_left(&notes) >= 12) {
		uint32_t name_size = sp_cursor_u32(&notes), size = sp_cursor_u32(&notes), type = sp_cursor_u32(&notes);
		const uint8_t *name = sp_cursor_bytes(&notes, name_size);
		sp_cursor_skip(&notes, -sp_cursor_offset(&notes) & mask);
		const uint8_t *desc = sp_cursor_bytes(&notes, size);
		if (!name || !desc)
			return;
		if (type == NT_GNU_BUILD_ID && name_size == 4 && memcmp(name, "GNU", 4) == 0 && size &&
		    size <= BUILD_ID_LIMIT) {
			object->build_id = desc;
			object->build_id_size = size;
		}
		uint64_t padding = -sp_cursor_offset(&notes) & mask;
		sp_cursor_skip(&notes, padding < sp_cursor_left(&notes) ? padding : sp_cursor_left(&notes));
	}
}

static void find_notes(struct sp_object *object)
{
	struct sp_elf *elf = sp_elf(object);
	for (size_t i = 0; i < object->section_count && !object->build_id; i++) {
		const struct sp_section *s = &object->sections[i];
		if (elf->sections[i].type == SP_SHT_NOTE && !s->compressed)
			find_build_id(object, sp_object_range(object, s->file_offset, s->size), elf->sections[i].align);
	}
	for (size_t i = 0; i < elf->segment_count && !object->build_id; i++) {
		const struct sp_elf_segment *s = &elf->segments[i];
		if (s->type == PT_NOTE)
			find_build_id(object, sp_object_range(object, s->offset, s->file_size), s->align);
	}
}

/* The code that stands in for a missing build ID: .text, or the first executable segment of a file without section
 * table. A separate debug file has neither. */
static struct sp_cursor text_bytes(const struct sp_object *object)
{
	const struct sp_section *text = sp_object_find_section(object, ".text");
	if (text && !text->no_bits && !text->compressed)
		return sp_object_range(object, text->file_offset, text->size < TEXT_MOST ? text->size : TEXT_MOST);
	for (size_t i = 0; !object->section_count && i < object->segment_count; i++) {
		if (object->segments[i].executable)
			return sp_elf_loaded_bytes(object, object->segments[i].address, TEXT_MOST);
	}
	return (struct sp_cursor){ .bad = true };
}

static void identify(struct sp_object *object)
{
	struct spsym_file_info *info = &object->info;
	find_notes(object);
	if (object->build_id) {
		spsym_debug_id_from_build_id(object->build_id, object->build_id_size, object->big_endian,
		                             info->debug_id);
		for (size_t i = 0; i < object->build_id_size; i++)
			snprintf(info->code_id + 2 * i, 3, "%02x", object->build_id[i]);
		return;
	}
	uint8_t hash[16];
	struct sp_cursor text = text_bytes(object);
	if (!text.bad && sp_object_text_hash(text.start, sp_cursor_left(&text), hash))
		spsym_debug_id_from_build_id(hash, sizeof(hash), object->big_endian, info->debug_id);
}

/* What the file can be used for. */
static void describe(struct sp_object *object)
{
	struct sp_elf *elf = sp_elf(object);
	struct spsym_file_info *info = &object->info;
	for (size_t i = 0; i < object->section_count; i++) {
		const struct sp_section *s = &object->sections[i];
		if (elf->sections[i].type == SP_SHT_SYMTAB && s->size > sp_elf_symbol_size(elf))
			info->has_symbols = true;
		if (s->allocated && s->executable && !s->no_bits && s->size)
			info->has_code = true;
	}
	const struct sp_section *debug = sp_object_find_section(object, ".debug_info");
	info->has_debug_info = debug && !debug->no_bits && debug->size;
	for (size_t i = 0; !object->section_count && i < object->segment_count; i++)
		info->has_code |= object->segments[i].executable && object->segments[i].file_size;
}

static struct sp_error *elf_open(struct sp_object *object)
{
	object->data = calloc(1, sizeof(struct sp_elf));
	if (!object->data)
		return sp_error_no_memory();
	struct header_counts counts;
	struct sp_error *error = read_header(object, &counts);
	if (error)
		return error;
	check_tables(object, &counts);
	if ((error = read_segments(object, counts.segments)) || (error = read_sections(object, counts.sections)))
		return error;
	if (!object->section_count && !object->segment_count)
		return sp_error_create(SP_ERROR_FORMAT, "%s",
		                       object->note ? object->note : "neither sections nor segments");
	identify(object);
	describe(object);
	if ((error = sp_elf_read_dynamic(object)))
		return error;
	if (object->relocatable) {
		object->info.base = 0;
		if ((error = sp_elf_layout(object)))
			return error;
		find_relocations(object);
	}
	return mark_lazy(object);
}

const struct sp_object_format sp_elf_format = {
	.probe = elf_probe,
	.open = elf_open,
	.close = elf_close,
	.make_bytes = sp_elf_make_bytes,
	.find_stream = sp_elf_find_stream,
	.symbols = sp_elf_symbols,
	.raw_symbols = sp_elf_raw_symbols,
	.functions = sp_eh_frame_functions,
};
