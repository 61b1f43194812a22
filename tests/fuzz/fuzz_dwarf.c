/* Fuzzes the DWARF engine. The input is debug sections in a row, which are put into ELF files in memory:
 *
 *   flags (1 byte: 1 = relocatable, 2 = big-endian, 4 = 32 bits), address of the code (4 bytes, little-endian), its
 * size (2 bytes), then for each section: where (1 byte: index in `names`, + 0x40 for the supplementary file, + 0x80 for
 * a .dwo, + 0xc0 for a package), size (3 bytes), bytes. A last section may be cut short.
 *
 * 64 addresses of the code are looked up, twice, then as many at once as are answered unit by unit, and all is compiled
 * to an index, which is asked too. seeds_dwarf.py writes the corpus. */
#include "symbolication/dwarf/dwarf.h"
#include "symbolication/index/builder.h"
#include "symbolication/index/index.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NAMES 13

static const char *const names[NAMES] = { ".debug_info",    ".debug_types",    ".debug_abbrev",      ".debug_line",
	                                  ".debug_str",     ".debug_line_str", ".debug_str_offsets", ".debug_addr",
	                                  ".debug_ranges",  ".debug_rnglists", ".debug_aranges",     ".debug_cu_index",
	                                  ".debug_tu_index" };

enum { MAIN, SUPPLEMENTARY, DWO, PACKAGE, FILES };

struct part {
	const uint8_t *bytes;
	size_t size;
};

struct input {
	unsigned flags;
	uint32_t code, code_size;
	struct part parts[FILES][NAMES];
	bool used[FILES];
};

static bool parse(const uint8_t *data, size_t size, struct input *ret)
{
	if (size < 7)
		return false;
	ret->flags = data[0] & 7;
	memcpy(&ret->code, data + 1, 4);
	ret->code_size = data[5] | (uint32_t)data[6] << 8;
	data += 7;
	size -= 7;
	while (size >= 4) {
		unsigned file = data[0] >> 6, name = (data[0] & 0x3f) % NAMES;
		size_t length = data[1] | (size_t)data[2] << 8 | (size_t)data[3] << 16;
		data += 4;
		size -= 4;
		length = length < size ? length : size;
		ret->parts[file][name] = (struct part){ data, length };
		ret->used[file] = true;
		data += length;
		size -= length;
	}
	return ret->used[MAIN];
}

/* Writes a number of `size` bytes in the file's byte order. */
static void put(uint8_t *at, unsigned size, uint64_t value, bool big_endian)
{
	for (unsigned i = 0; i < size; i++)
		at[i] = (uint8_t)(value >> 8 * (big_endian ? size - 1 - i : i));
}

struct section {
	uint32_t name, type;
	uint64_t flags, address, offset, size;
};

static void put_section(uint8_t *at, const struct section *s, bool wide, bool big)
{
	unsigned word = wide ? 8 : 4;
	const uint64_t fields[] = { s->flags, s->address, s->offset, s->size };
	put(at, 4, s->name, big);
	put(at + 4, 4, s->type, big);
	for (unsigned i = 0; i < 4; i++)
		put(at + 8 + i * word, word, fields[i], big);
	put(at + 16 + 4 * word, word, 1, big);
}

/* An ELF file of the parts; the caller frees it. */
static uint8_t *make_elf(const struct input *input, unsigned file, size_t *ret_size)
{
	bool wide = !(input->flags & 4), big = input->flags & 2, split = file == DWO || file == PACKAGE;
	struct section sections[NAMES + 3] = { 0 };
	char strings[512] = "\0.text\0.shstrtab";
	size_t strings_size = 17, count = 1, header = wide ? 64 : 52, entry = wide ? 64 : 40, at = header;
	sections[count++] = (struct section){ .name = 1,
		                              .type = SHT_NOBITS,
		                              .flags = SHF_ALLOC | SHF_EXECINSTR,
		                              .address = input->flags & 1 ? 0 : input->code,
		                              .size = input->code_size };
	size_t total = header + sizeof(strings) + (NAMES + 3) * entry;
	for (unsigned i = 0; i < NAMES; i++)
		total += input->parts[file][i].size;
	uint8_t *bytes = calloc(1, total);
	if (!bytes)
		return NULL;
	for (unsigned i = 0; i < NAMES; i++) {
		const struct part *part = &input->parts[file][i];
		if (!part->size)
			continue;
		sections[count++] = (struct section){
			.name = (uint32_t)strings_size, .type = SHT_PROGBITS, .offset = at, .size = part->size
		};
		strcpy(strings + strings_size, names[i]);
		if (split && i < 11)
			strcat(strings + strings_size, ".dwo");
		strings_size += strlen(strings + strings_size) + 1;
		memcpy(bytes + at, part->bytes, part->size);
		at += part->size;
	}
	sections[count++] = (struct section){ .name = 7, .type = SHT_STRTAB, .offset = at, .size = strings_size };
	memcpy(bytes + at, strings, strings_size);
	at += strings_size;
	memcpy(bytes, "\177ELF", 4);
	bytes[EI_CLASS] = wide ? ELFCLASS64 : ELFCLASS32;
	bytes[EI_DATA] = big ? ELFDATA2MSB : ELFDATA2LSB;
	bytes[EI_VERSION] = EV_CURRENT;
	put(bytes + 16, 2, input->flags & 1 ? ET_REL : ET_EXEC, big);
	put(bytes + 18, 2, EM_X86_64, big);
	put(bytes + 20, 4, EV_CURRENT, big);
	put(bytes + (wide ? 40 : 32), wide ? 8 : 4, at, big);
	put(bytes + (wide ? 52 : 40), 2, header, big);
	put(bytes + (wide ? 58 : 46), 2, entry, big);
	put(bytes + (wide ? 60 : 48), 2, count, big);
	put(bytes + (wide ? 62 : 50), 2, count - 1, big);
	for (size_t i = 0; i < count; i++, at += entry)
		put_section(bytes + at, &sections[i], wide, big);
	*ret_size = at;
	return bytes;
}

static volatile uint64_t sink;

static void touch(void *context, size_t index, const struct sp_dwarf_answer *answer)
{
	(void)context;
	(void)index;
	for (size_t i = 0; i < answer->count; i++) {
		const struct sp_dwarf_frame *frame = &answer->frames[i];
		sink += (frame->linkage_name ? strlen(frame->linkage_name) : 0) +
		        (frame->name ? strlen(frame->name) : 0) + (frame->file ? strlen(frame->file) : 0);
	}
}

static struct sp_object *give(void *context, const char *path)
{
	(void)path;
	return context;
}

#define MANY 2112 /* a multiple of 64 */

static void look_up_many(struct sp_dwarf *dwarf, const uint64_t *addresses)
{
	static uint64_t many[MANY];
	const char *note;
	for (unsigned i = 0; i < MANY; i++)
		many[i] = addresses[i / (MANY / 64)];
	if (sp_dwarf_lookup(dwarf, many, MANY, touch, NULL, &note))
		abort();
}

static void compile(const struct sp_dwarf_files *files, const uint64_t *addresses)
{
	static struct sp_index_frame frames[SP_INDEX_MAX_FRAMES];
	static const atomic_bool never;
	struct sp_index_builder *builder;
	struct sp_index *index = NULL;
	bool whole;
	char *note = NULL;
	if (sp_index_builder_create(&builder))
		abort();
	struct sp_error *error = sp_dwarf_compile(files, 0, 1, &never, builder, &whole, &note);
	if (!error)
		error = sp_index_builder_finish(builder, "", false, &index);
	if (error && error->code != SP_ERROR_LIMIT)
		abort();
	struct sp_index_hint hint = { 0 };
	for (unsigned i = 0; !error && i < 64; i++)
		if (sp_index_frames(index, addresses[i], &hint, frames) == SP_INDEX_DAMAGED)
			abort();
	sp_error_destroy(error);
	sp_index_destroy(index);
	sp_index_builder_destroy(builder);
	free(note);
}

static void look_up(const struct input *input, struct sp_object **objects)
{
	struct sp_dwarf_files files = { .main = objects[MAIN],
		                        .supplementary = objects[SUPPLEMENTARY],
		                        .package = objects[PACKAGE],
		                        .open_dwo = give,
		                        .context = objects[DWO] };
	struct sp_dwarf *dwarf;
	uint64_t addresses[64];
	if (!objects[MAIN] || sp_dwarf_create(&files, &dwarf))
		return;
	uint64_t start = input->flags & 1 ? 0 : input->code;
	for (unsigned i = 0; i < 64; i++)
		addresses[i] = start + (uint64_t)input->code_size * i / 64;
	for (unsigned i = 0; i < 2; i++) {
		const char *note;
		struct sp_error *error = sp_dwarf_lookup(dwarf, addresses, 64, touch, NULL, &note);
		sink += note ? strlen(note) : 0;
		if (error) /* only without memory */
			abort();
	}
	look_up_many(dwarf, addresses);
	compile(&files, addresses);
	/* Tables grow with the input, not with what it says. */
	size_t limit = 1 << 24;
	for (unsigned i = 0; i < FILES; i++)
		for (unsigned k = 0; k < NAMES; k++)
			limit += 1024 * input->parts[i][k].size;
	if (sp_dwarf_memory(dwarf) > limit)
		abort();
	sp_dwarf_destroy(dwarf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { 0 };
	struct sp_object *objects[FILES] = { 0 };
	uint8_t *bytes[FILES] = { 0 };
	if (!parse(data, size, &input))
		return 0;
	for (unsigned i = 0; i < FILES; i++) {
		size_t file_size;
		if (!input.used[i])
			continue;
		bytes[i] = make_elf(&input, i, &file_size);
		struct sp_error *error = bytes[i] ? sp_object_open_bytes(bytes[i], file_size, "input", &objects[i])
		                                  : NULL;
		if (error)
			objects[i] = NULL;
		sp_error_destroy(error);
	}
	look_up(&input, objects);
	for (unsigned i = 0; i < FILES; i++) {
		sp_object_destroy(objects[i]);
		free(bytes[i]);
	}
	return 0;
}
