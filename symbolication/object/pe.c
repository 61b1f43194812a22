/* PE32 and PE32+ images: headers, sections, identity.
 *
 * Addresses inside the file are relative (RVA); the image base is added everywhere, so that DWARF of MinGW binaries,
 * which holds full addresses, and symbols meet in one space. */
#include "symbolication/object/pe.h"

#include "common/compress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	DOS_HEADER = 0x40,
	DOS_NEW_HEADER = 0x3c,
	SECTION_HEADER = 40,
	MAGIC_PE32 = 0x10b,
	MAGIC_PE32_PLUS = 0x20b,
	DEBUG_ENTRY = 28,
	DEBUG_ENTRIES_MAX = 64, /* real files have a handful */
	DEBUG_CODEVIEW = 2,
	PDB_PATH_MAX = 4096,
};

static struct sp_cursor file_at(const struct sp_object *object, uint64_t offset)
{
	struct sp_cursor c = object->file;
	sp_cursor_seek(&c, offset);
	return c;
}

static bool probe(const uint8_t *bytes, size_t size)
{
	struct sp_cursor c = sp_cursor_init(bytes, size);
	if (size < DOS_HEADER || bytes[0] != 'M' || bytes[1] != 'Z')
		return false;
	sp_cursor_seek(&c, DOS_NEW_HEADER);
	sp_cursor_seek(&c, sp_cursor_u32(&c));
	return sp_cursor_u32(&c) == 0x4550 && !c.bad; /* "PE\0\0" */
}

struct sp_cursor sp_pe_bytes(const struct sp_object *object, uint32_t address, uint64_t size)
{
	size_t length = size < SIZE_MAX ? (size_t)size : SIZE_MAX;
	const uint8_t *bytes = NULL;
	for (size_t i = 0; i < object->segment_count && !bytes; i++) {
		const struct sp_segment *s = &object->segments[i];
		uint64_t at = object->info.base + address;
		if (at < s->address || at - s->address >= s->file_size)
			continue;
		uint64_t skip = at - s->address, left = s->file_size - skip;
		struct sp_cursor c = sp_cursor_sub(&object->file, s->file_offset + skip, 0);
		if (c.bad)
			break;
		size_t in_file = (size_t)(object->file.end - c.start);
		if (length > left)
			length = (size_t)left;
		if (length > in_file)
			length = in_file;
		bytes = c.start;
	}
	struct sp_cursor c = sp_cursor_init(bytes, bytes ? length : 0);
	c.bad = !bytes;
	return c;
}

const char *sp_pe_string(const struct sp_pe *pe, uint64_t offset)
{
	struct sp_cursor c = pe->strings;
	if (offset < 4) /* the table's length stands there */
		return NULL;
	sp_cursor_seek(&c, offset);
	const char *string = sp_cursor_string(&c);
	return c.bad ? NULL : string;
}

static void find_strings(struct sp_object *object)
{
	struct sp_pe *pe = sp_pe(object);
	if (!pe->symbol_table)
		return;
	uint64_t at = pe->symbol_table + (uint64_t)pe->symbol_count * SP_PE_SYMBOL_SIZE;
	struct sp_cursor c = file_at(object, at);
	uint64_t size = sp_cursor_u32(&c);
	if (c.bad)
		return;
	size_t left = (size_t)(object->file.end - object->file.start) - (size_t)at;
	pe->strings = sp_cursor_sub(&object->file, at, size < left ? size : left);
}

static const char *machine_name(uint16_t machine)
{
	switch (machine) {
	case SP_PE_MACHINE_I386:
		return "x86";
	case SP_PE_MACHINE_ARMNT:
		return "arm";
	case SP_PE_MACHINE_AMD64:
		return "x86_64";
	case SP_PE_MACHINE_ARM64:
		return "arm64";
	default:
		return "";
	}
}

/* The optional header, which images always have. Leaves the cursor at its start. */
static struct sp_error *read_optional(struct sp_object *object, struct sp_cursor c)
{
	struct sp_pe *pe = sp_pe(object);
	uint16_t magic = sp_cursor_u16(&c);
	if (magic != MAGIC_PE32 && magic != MAGIC_PE32_PLUS)
		return sp_error_create(SP_ERROR_FORMAT, "no PE image: the magic of its optional header is 0x%x", magic);
	bool plus = magic == MAGIC_PE32_PLUS;
	object->address_size = plus ? 8 : 4;
	sp_cursor_seek(&c, 16);
	uint32_t entry = sp_cursor_u32(&c);
	sp_cursor_seek(&c, plus ? 24 : 28);
	object->info.base = plus ? sp_cursor_u64(&c) : sp_cursor_u32(&c);
	sp_cursor_seek(&c, 56);
	pe->image_size = sp_cursor_u32(&c);
	sp_cursor_seek(&c, plus ? 108 : 92);
	uint32_t count = sp_cursor_u32(&c);
	if (c.bad)
		return sp_error_create(SP_ERROR_FORMAT, "the optional header is cut off");
	if (object->info.base > UINT64_MAX - UINT32_MAX)
		return sp_error_create(SP_ERROR_FORMAT, "the image base 0x%llx leaves no room for the image",
		                       (unsigned long long)object->info.base);
	for (uint32_t i = 0; i < count && i < SP_PE_DIRECTORIES && sp_cursor_left(&c) >= 8; i++) {
		pe->directories[i].address = sp_cursor_u32(&c);
		pe->directories[i].size = sp_cursor_u32(&c);
	}
	object->entry = entry ? object->info.base + entry : 0;
	return NULL;
}

/* "//" and six digits of base 64: LLVM's form for offsets of more than seven decimal digits. */
static bool base64_offset(const char *digits, uint64_t *ret)
{
	static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint64_t value = 0;
	for (size_t i = 0; i < 6 && digits[i]; i++) {
		const char *at = strchr(alphabet, digits[i]);
		if (!at)
			return false;
		value = value * 64 + (uint64_t)(at - alphabet);
	}
	*ret = value;
	return true;
}

/* A section's name: eight characters, or where in the string table it stands. */
static const char *section_name(struct sp_object *object, const uint8_t *raw)
{
	char name[9] = { 0 };
	memcpy(name, raw, 8);
	uint64_t offset = 0;
	bool is_long = false;
	if (name[0] == '/' && name[1] == '/')
		is_long = base64_offset(name + 2, &offset);
	else if (name[0] == '/' && name[1] >= '0' && name[1] <= '9')
		is_long = sscanf(name + 1, "%llu", (unsigned long long *)&offset) == 1;
	const char *string = is_long ? sp_pe_string(sp_pe(object), offset) : NULL;
	return string ? string : sp_arena_strndup(&object->arena, name, strlen(name));
}

static bool read_section(struct sp_object *object, struct sp_cursor *c, size_t at)
{
	struct sp_section *s = &object->sections[at];
	const uint8_t *raw_name = sp_cursor_bytes(c, 8);
	uint32_t virtual_size = sp_cursor_u32(c), address = sp_cursor_u32(c);
	uint32_t raw_size = sp_cursor_u32(c), raw_offset = sp_cursor_u32(c);
	sp_cursor_skip(c, 12); /* relocations and line numbers, of objects only */
	uint32_t flags = sp_cursor_u32(c);
	if (!raw_name || !(s->name = section_name(object, raw_name)))
		return false;
	s->address = object->info.base + address;
	s->file_offset = raw_offset;
	s->no_bits = !raw_size || !raw_offset || (flags & SP_PE_SECTION_UNINITIALIZED && !raw_offset);
	/* What stands in the file is padded; what has more in memory is zero there. */
	s->size = s->no_bits ? virtual_size : virtual_size && virtual_size < raw_size ? virtual_size : raw_size;
	s->executable = flags & SP_PE_SECTION_EXECUTE;
	s->compressed = strncmp(s->name, ".zdebug_", 8) == 0 && !s->no_bits;
	if (s->compressed && !sp_object_make_lazy(object, at))
		return false;
	s->allocated = address != 0;
	s->index = (uint32_t)at + 1;
	struct sp_segment segment = { .address = s->address,
		                      .size = virtual_size > raw_size ? virtual_size : raw_size,
		                      .file_offset = raw_offset,
		                      .file_size = s->no_bits ? 0 : s->size,
		                      .executable = s->executable };
	object->segments[object->segment_count++] = segment;
	return true;
}

static int compare_segments(const void *a, const void *b)
{
	const struct sp_segment *x = a, *y = b;
	return x->address < y->address ? -1 : x->address > y->address;
}

static struct sp_error *read_sections(struct sp_object *object, uint64_t offset, size_t count)
{
	struct sp_cursor c = file_at(object, offset);
	size_t fits = sp_cursor_left(&c) / SECTION_HEADER;
	if (count > fits) {
		object->note = "the section table is cut off";
		count = fits;
	}
	object->sections = calloc(count + 1, sizeof(*object->sections));
	object->segments = calloc(count + 1, sizeof(*object->segments));
	object->lazy = calloc(count + 1, sizeof(*object->lazy));
	if (!object->sections || !object->segments || !object->lazy)
		return sp_error_no_memory();
	for (size_t i = 0; i < count; i++) {
		if (!read_section(object, &c, i))
			return sp_error_no_memory();
		object->section_count = i + 1;
	}
	qsort(object->segments, object->segment_count, sizeof(*object->segments), compare_segments);
	return NULL;
}

/* A CodeView record: "RSDS", GUID, age, path of the PDB. */
static struct sp_error *read_codeview(struct sp_object *object, struct sp_cursor c)
{
	struct sp_pe *pe = sp_pe(object);
	uint32_t signature = sp_cursor_u32(&c);
	const uint8_t *guid = sp_cursor_bytes(&c, 16);
	uint32_t age = sp_cursor_u32(&c);
	if (c.bad || signature != 0x53445352)
		return NULL;
	spsym_debug_id_from_build_id(guid, 16, false, object->info.debug_id);
	snprintf(object->info.debug_id + 32, 9, "%x", age);
	size_t left = sp_cursor_left(&c), length = 0;
	while (length < left && length < PDB_PATH_MAX && c.at[length])
		length++;
	if (!length)
		return NULL;
	pe->pdb_path = sp_arena_strndup(&object->arena, (const char *)c.at, length);
	return pe->pdb_path ? NULL : sp_error_no_memory();
}

/* The debug directory; the first RSDS record counts. */
static struct sp_error *read_debug(struct sp_object *object)
{
	const struct sp_pe_directory *directory = &sp_pe(object)->directories[SP_PE_DIR_DEBUG];
	struct sp_cursor c = sp_pe_bytes(object, directory->address, directory->size);
	for (unsigned i = 0; i < DEBUG_ENTRIES_MAX && sp_cursor_left(&c) >= DEBUG_ENTRY; i++) {
		sp_cursor_skip(&c, 12);
		uint32_t type = sp_cursor_u32(&c), size = sp_cursor_u32(&c);
		uint32_t address = sp_cursor_u32(&c), offset = sp_cursor_u32(&c);
		if (type != DEBUG_CODEVIEW)
			continue;
		struct sp_cursor record = sp_cursor_sub(&object->file, offset, size);
		if (record.bad || !offset)
			record = sp_pe_bytes(object, address, size);
		struct sp_error *error = read_codeview(object, record);
		if (error || object->info.debug_id[0])
			return error;
	}
	return NULL;
}

/* Files without a record are named by their code, as ELF files without a build ID are. */
static void identify(struct sp_object *object)
{
	struct sp_pe *pe = sp_pe(object);
	uint8_t hash[16];
	snprintf(object->info.code_id, sizeof(object->info.code_id), "%08X%x", pe->time_stamp, pe->image_size);
	for (size_t i = 0; i < object->section_count && !object->info.debug_id[0]; i++) {
		const struct sp_section *s = &object->sections[i];
		if (strcmp(s->name, ".text") != 0)
			continue;
		struct sp_cursor text = sp_cursor_sub(&object->file, s->file_offset, s->no_bits ? 0 : s->size);
		if (!text.bad && sp_object_text_hash(text.start, sp_cursor_left(&text), hash))
			spsym_debug_id_from_build_id(hash, sizeof(hash), false, object->info.debug_id);
	}
}

static void describe(struct sp_object *object)
{
	struct spsym_file_info *info = &object->info;
	info->kind = SPSYM_KIND_PE;
	memcpy(info->arch, machine_name(sp_pe(object)->machine), strlen(machine_name(sp_pe(object)->machine)) + 1);
	for (size_t i = 0; i < object->section_count; i++) {
		const struct sp_section *s = &object->sections[i];
		info->has_code |= s->executable && !s->no_bits;
	}
	const struct sp_section *debug = sp_object_find_section(object, ".debug_info");
	info->has_debug_info = debug && !debug->no_bits && debug->size;
	info->has_symbols = sp_pe(object)->symbol_table && sp_pe(object)->symbol_count;
}

static struct sp_error *open_pe(struct sp_object *object)
{
	struct sp_pe *pe = sp_arena_alloc(&object->arena, sizeof(*pe));
	if (!pe)
		return sp_error_no_memory();
	*pe = (struct sp_pe){ .strings = sp_cursor_init(NULL, 0) };
	object->data = pe;
	struct sp_cursor c = file_at(object, DOS_NEW_HEADER);
	uint64_t header = sp_cursor_u32(&c);
	c = file_at(object, header + 4);
	pe->machine = sp_cursor_u16(&c);
	uint16_t sections = sp_cursor_u16(&c);
	pe->time_stamp = sp_cursor_u32(&c);
	pe->symbol_table = sp_cursor_u32(&c);
	pe->symbol_count = sp_cursor_u32(&c);
	uint16_t optional_size = sp_cursor_u16(&c);
	if (c.bad)
		return sp_error_create(SP_ERROR_FORMAT, "the PE header is cut off");
	uint64_t optional = header + 24;
	find_strings(object);
	struct sp_error *error = read_optional(object, sp_cursor_sub(&object->file, optional, optional_size));
	if (!error)
		error = read_sections(object, optional + optional_size, sections);
	if (!error)
		error = read_debug(object);
	if (error)
		return error;
	describe(object);
	identify(object);
	return NULL;
}

static void close_pe(struct sp_object *object)
{
	(void)object; /* all of it is in the arena */
}

/* .zdebug_*: "ZLIB", the size as a big-endian number, a zlib stream. */
static struct sp_error *make_bytes(struct sp_object *object, size_t at, uint8_t **ret, size_t *ret_size)
{
	struct sp_cursor c;
	struct sp_error *error = sp_object_stored_bytes(object, &object->sections[at], &c);
	if (error)
		return error;
	sp_cursor_skip(&c, 4);
	c.big_endian = true;
	uint64_t size = sp_cursor_u64(&c);
	size_t stored = sp_cursor_left(&c);
	if (c.bad || size > SP_SECTION_LIMIT || size > SIZE_MAX || size / SP_SECTION_RATIO > stored)
		return sp_error_create(SP_ERROR_LIMIT, "%s: section %s: %llu bytes cannot have been compressed to %zu",
		                       object->name, object->sections[at].name, (unsigned long long)size, stored);
	uint8_t *buffer = malloc(size ? (size_t)size : 1);
	if (!buffer)
		return sp_error_no_memory();
	error = sp_decompress_exact(SP_COMPRESSION_ZLIB, c.at, stored, buffer, (size_t)size);
	if (error) {
		free(buffer);
		return sp_error_prefix(error, "cannot read %s: section %s", object->name, object->sections[at].name);
	}
	*ret = buffer;
	*ret_size = (size_t)size;
	return NULL;
}

const char *sp_object_pdb_path(const struct sp_object *object)
{
	return object->info.kind == SPSYM_KIND_PE ? sp_pe(object)->pdb_path : NULL;
}

bool sp_object_exception_table(const struct sp_object *object, uint32_t *ret_address, uint32_t *ret_size)
{
	if (object->info.kind != SPSYM_KIND_PE)
		return false;
	const struct sp_pe_directory *directory = &sp_pe(object)->directories[SP_PE_DIR_EXCEPTION];
	*ret_address = directory->address;
	*ret_size = directory->size;
	return directory->address && directory->size;
}

const struct sp_object_format sp_pe_format = {
	.probe = probe,
	.open = open_pe,
	.close = close_pe,
	.make_bytes = make_bytes,
	.symbols = sp_pe_symbols,
	.functions = sp_pe_functions,
};
