/* The dynamic segment: what a file without section headers still says of its symbols, relocations and unwind tables.
 * Sections are made from it, under the names that they have in other files. */
#include "symbolication/object/elf.h"

#include <stdlib.h>
#include <string.h>

enum { PT_DYNAMIC = 2, PT_GNU_EH_FRAME = 0x6474e550 };
enum {
	DT_PLTRELSZ = 2,
	DT_PLTGOT = 3,
	DT_HASH = 4,
	DT_STRTAB = 5,
	DT_SYMTAB = 6,
	DT_RELA = 7,
	DT_RELASZ = 8,
	DT_STRSZ = 10,
	DT_REL = 17,
	DT_RELSZ = 18,
	DT_PLTREL = 20,
	DT_JMPREL = 23,
	DT_SMALL = 32, /* the tags above are below this */
	DT_GNU_HASH = 0x6ffffef5
};
enum { SECTIONS_MADE = 8 };

struct dynamic {
	uint64_t values[DT_SMALL];
	uint64_t gnu_hash;
};

static const struct sp_elf_segment *find_segment(const struct sp_elf *elf, uint32_t type)
{
	for (size_t i = 0; i < elf->segment_count; i++) {
		if (elf->segments[i].type == type)
			return &elf->segments[i];
	}
	return NULL;
}

static void read_entries(const struct sp_object *object, const struct sp_elf_segment *segment, struct dynamic *ret)
{
	struct sp_cursor c = sp_object_range(object, segment->offset, segment->file_size);
	while (!c.bad && sp_cursor_left(&c)) {
		uint64_t tag = sp_elf_word(&c, sp_elf(object)), value = sp_elf_word(&c, sp_elf(object));
		if (c.bad || tag == 0)
			break;
		if (tag < DT_SMALL)
			ret->values[tag] = value;
		else if (tag == DT_GNU_HASH)
			ret->gnu_hash = value;
	}
}

/* Symbols behind a GNU hash table: the chain of the last bucket ends with the last symbol. */
static uint64_t count_by_gnu_hash(const struct sp_object *object, uint64_t address)
{
	struct sp_cursor c = sp_elf_loaded_bytes(object, address, UINT64_MAX);
	uint32_t buckets = sp_cursor_u32(&c), first = sp_cursor_u32(&c), bloom = sp_cursor_u32(&c);
	sp_cursor_skip(&c, 4 + (uint64_t)bloom * object->address_size);
	if (buckets > sp_cursor_left(&c) / 4)
		return 0;
	uint32_t last = 0;
	for (uint32_t i = 0; i < buckets; i++) {
		uint32_t start = sp_cursor_u32(&c);
		last = start > last ? start : last;
	}
	if (last < first || c.bad)
		return first;
	sp_cursor_skip(&c, (uint64_t)(last - first) * 4);
	while (!c.bad && !(sp_cursor_u32(&c) & 1))
		last++;
	return c.bad ? 0 : (uint64_t)last + 1;
}

static uint64_t count_symbols(const struct sp_object *object, const struct dynamic *dynamic)
{
	uint64_t count = 0;
	if (dynamic->values[DT_HASH]) {
		struct sp_cursor c = sp_elf_loaded_bytes(object, dynamic->values[DT_HASH], 8);
		sp_cursor_skip(&c, 4);
		count = sp_cursor_u32(&c);
	}
	if (!count && dynamic->gnu_hash)
		count = count_by_gnu_hash(object, dynamic->gnu_hash);
	if (!count && dynamic->values[DT_STRTAB] > dynamic->values[DT_SYMTAB]) /* the usual order of the two */
		count = (dynamic->values[DT_STRTAB] - dynamic->values[DT_SYMTAB]) / sp_elf_symbol_size(sp_elf(object));
	return count;
}

/* Adds the section of [address, address + size), clipped to what is in the file; 0 when there is nothing. */
static size_t make_section(struct sp_object *object, const char *name, uint32_t type, uint64_t address, uint64_t size)
{
	struct sp_cursor bytes = sp_elf_loaded_bytes(object, address, size);
	if (!address || bytes.bad || !sp_cursor_left(&bytes))
		return 0;
	size_t at = object->section_count++;
	object->sections[at] = (struct sp_section){ .name = name,
		                                    .address = address,
		                                    .size = sp_cursor_left(&bytes),
		                                    .file_offset = (uint64_t)(bytes.start - object->file.start),
		                                    .allocated = true,
		                                    .index = (uint32_t)at };
	sp_elf(object)->sections[at] = (struct sp_elf_section){ .type = type, .flags = SP_SHF_ALLOC };
	return at;
}

static void make_relocations(struct sp_object *object, const struct dynamic *dynamic)
{
	const uint64_t *v = dynamic->values;
	make_section(object, ".rela.dyn", SP_SHT_RELA, v[DT_RELA], v[DT_RELASZ]);
	make_section(object, ".rel.dyn", SP_SHT_REL, v[DT_REL], v[DT_RELSZ]);
	bool with_addend = v[DT_PLTREL] == DT_RELA;
	make_section(object, with_addend ? ".rela.plt" : ".rel.plt", with_addend ? SP_SHT_RELA : SP_SHT_REL,
	             v[DT_JMPREL], v[DT_PLTRELSZ]);
}

/* .eh_frame_hdr has its own program header and points to .eh_frame, whose end is told by its terminator. */
static void make_unwind(struct sp_object *object)
{
	const struct sp_elf_segment *segment = find_segment(sp_elf(object), PT_GNU_EH_FRAME);
	if (!segment || !make_section(object, ".eh_frame_hdr", SP_SHT_PROGBITS, segment->address, segment->file_size))
		return;
	struct sp_cursor c = sp_elf_loaded_bytes(object, segment->address, segment->file_size);
	uint8_t version = sp_cursor_u8(&c), encoding = sp_cursor_u8(&c);
	sp_cursor_skip(&c, 2);
	if (version != 1 || (encoding & 0x7f) != 0x1b) /* pc-relative, four bytes: what linkers write */
		return;
	uint64_t eh_frame = segment->address + 4 + (uint64_t)(int64_t)(int32_t)sp_cursor_u32(&c);
	if (!c.bad)
		make_section(object, ".eh_frame", SP_SHT_PROGBITS, eh_frame, UINT64_MAX);
}

static struct sp_error *make_sections(struct sp_object *object, const struct dynamic *dynamic)
{
	struct sp_elf *elf = sp_elf(object);
	free(object->sections);
	free(elf->sections);
	object->sections = calloc(SECTIONS_MADE, sizeof(*object->sections));
	elf->sections = calloc(SECTIONS_MADE, sizeof(*elf->sections));
	if (!object->sections || !elf->sections)
		return sp_error_no_memory();
	object->sections[0].name = "";
	object->section_count = 1;
	const uint64_t *v = dynamic->values;
	size_t strings = make_section(object, ".dynstr", SP_SHT_STRTAB, v[DT_STRTAB], v[DT_STRSZ]);
	uint64_t count = count_symbols(object, dynamic);
	size_t entry = sp_elf_symbol_size(elf);
	if (strings && count && count < UINT64_MAX / entry) {
		size_t symbols = make_section(object, ".dynsym", SP_SHT_DYNSYM, v[DT_SYMTAB], count * entry);
		elf->sections[symbols].link = (uint32_t)strings;
	}
	make_relocations(object, dynamic);
	make_unwind(object);
	return NULL;
}

struct sp_error *sp_elf_read_dynamic(struct sp_object *object)
{
	struct sp_elf *elf = sp_elf(object);
	elf->section_table_used = object->section_count > 0;
	if (elf->section_table_used) {
		const struct sp_section *got = sp_object_find_section(object, ".got.plt");
		if (!got)
			got = sp_object_find_section(object, ".got");
		elf->plt_got = got ? got->address : 0;
		return NULL;
	}
	struct dynamic dynamic = { 0 };
	const struct sp_elf_segment *segment = find_segment(elf, PT_DYNAMIC);
	if (segment)
		read_entries(object, segment, &dynamic);
	elf->plt_got = dynamic.values[DT_PLTGOT];
	return make_sections(object, &dynamic);
}
