/* Where Go's table is, and what the program's description of itself (runtime.moduledata) says of it.
 *
 * In a position-independent program the description's pointers may be in relocations only: those are searched, too. */
#include "symbolication/go/internal.h"

#include <string.h>

/* The words of the description (runtime/symtab.go): the table, six slices of three words, findfunctab, minpc, maxpc,
 * text, etext, ... */
enum { WORD_NAMES = 1, WORD_TEXT = 22, WORD_CALLS_1_18 = 38, WORD_CALLS_1_20 = 40, WORDS = 41 };

static struct sp_cursor section_cursor(struct sp_object *object, const struct sp_section *section)
{
	const uint8_t *bytes;
	size_t size;
	struct sp_cursor cursor = sp_cursor_init(NULL, 0);
	struct sp_error *error = section && !section->no_bits ? sp_object_section_bytes(object, section, &bytes, &size)
	                                                      : NULL;
	if (section && !section->no_bits && !error)
		cursor = sp_cursor_init(bytes, size);
	sp_error_destroy(error);
	cursor.big_endian = sp_object_big_endian(object);
	return cursor;
}

/* Whether a table can begin here: its first 8 bytes are magic, 0, 0, smallest instruction, size of a pointer. */
static bool is_table(struct sp_cursor c)
{
	uint32_t magic = sp_cursor_u32(&c);
	uint16_t zero = sp_cursor_u16(&c);
	uint8_t quantum = sp_cursor_u8(&c), pointer = sp_cursor_u8(&c);
	return (magic == 0xfffffffb || magic == 0xfffffffa || magic == 0xfffffff0 || magic == 0xfffffff1) && !zero &&
	       (quantum == 1 || quantum == 2 || quantum == 4) && (pointer == 4 || pointer == 8);
}

static bool search(struct sp_object *object, const struct sp_section *section, struct sp_cursor *ret,
                   uint64_t *ret_address)
{
	struct sp_cursor bytes = section_cursor(object, section);
	size_t size = sp_cursor_left(&bytes);
	for (size_t at = 0; size >= 16 && at <= size - 16; at += 4) {
		/* the first bytes in either order */
		if ((bytes.start[at] < 0xf0 || bytes.start[at + 1] != 0xff) && bytes.start[at] != 0xff)
			continue;
		*ret = sp_cursor_sub(&bytes, at, size - at);
		*ret_address = section->address + at;
		if (is_table(*ret))
			return true;
	}
	return false;
}

/* A mark of Go's linker. */
static bool is_go(struct sp_object *object)
{
	static const char mark[] = "\xff Go buildinf:";
	if (sp_object_find_section(object, ".go.buildinfo") || sp_object_find_section(object, ".note.go.buildid"))
		return true;
	if (sp_object_info(object)->kind != SPSYM_KIND_PE)
		return false;
	struct sp_cursor data = section_cursor(object, sp_object_find_section(object, ".data"));
	return sp_cursor_left(&data) >= sizeof(mark) - 1 && memcmp(data.start, mark, sizeof(mark) - 1) == 0;
}

struct sp_error *sp_go_find(struct sp_object *object, struct sp_cursor *ret, uint64_t *ret_address)
{
	static const char *const names[] = { ".gopclntab", ".data.rel.ro.gopclntab", "__gopclntab" };
	static const char *const others[] = { ".data.rel.ro", ".rodata", ".rdata", ".text" };
	*ret = sp_cursor_init(NULL, 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct sp_section *section = sp_object_find_section(object, names[i]);
		if (!section || section->no_bits)
			continue;
		*ret = section_cursor(object, section);
		*ret_address = section->address;
		return is_table(*ret) ? NULL
		                      : sp_error_create(SP_ERROR_FORMAT,
		                                        "%s: section %s is no table that Go is known "
		                                        "to make",
		                                        sp_object_name(object), names[i]);
	}
	if (!sp_object_info(object)->has_code || !is_go(object))
		return NULL;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (search(object, sp_object_find_section(object, others[i]), ret, ret_address))
			return NULL;
	*ret = sp_cursor_init(NULL, 0);
	return NULL;
}

/* ---- The description ---- */

static uint64_t word_at(const struct sp_go *go, struct sp_cursor *bytes, uint64_t index)
{
	sp_cursor_seek(bytes, index * go->pointer);
	return sp_cursor_uint(bytes, go->pointer);
}

/* What the system's linker and Go's own call it. */
static const struct sp_section *relocation_section(struct sp_object *object)
{
	const struct sp_section *section = sp_object_find_section(object, ".rela.dyn");
	return section ? section : sp_object_find_section(object, ".rela");
}

/* The addend of the relocation for an svma, 0 when there is none. */
static uint64_t relocated(const struct sp_go *go, uint64_t address)
{
	struct sp_cursor c = section_cursor(go->object, relocation_section(go->object));
	for (; go->pointer == 8 && sp_cursor_left(&c) >= 24; sp_cursor_skip(&c, 16)) {
		if (sp_cursor_u64(&c) != address)
			continue;
		sp_cursor_skip(&c, 8);
		return sp_cursor_u64(&c);
	}
	return 0;
}

/* A pointer of the image. */
static uint64_t pointer_at(const struct sp_go *go, uint64_t address)
{
	size_t size = go->pointer;
	const uint8_t *bytes = sp_object_image_bytes(go->object, address, &size);
	struct sp_cursor c = sp_cursor_init(bytes, bytes ? size : 0);
	c.big_endian = sp_object_big_endian(go->object);
	uint64_t value = sp_cursor_uint(&c, go->pointer);
	return value ? value : relocated(go, address);
}

/* Whether the description is at an svma: it names the table and the names in it. */
static bool is_module(const struct sp_go *go, uint64_t address, uint64_t names)
{
	return pointer_at(go, address) == go->address && pointer_at(go, address + WORD_NAMES * go->pointer) == names;
}

static bool search_section(const struct sp_go *go, const char *name, uint64_t names, uint64_t *ret)
{
	const struct sp_section *section = sp_object_find_section(go->object, name);
	struct sp_cursor bytes = section_cursor(go->object, section);
	uint64_t words = sp_cursor_left(&bytes) / go->pointer;
	for (uint64_t i = 0; i + WORDS <= words; i++) {
		if (word_at(go, &bytes, i) != go->address || word_at(go, &bytes, i + WORD_NAMES) != names)
			continue;
		*ret = section->address + i * go->pointer;
		return true;
	}
	return false;
}

/* The same in the relocations of a program that can be loaded anywhere. */
static bool search_relocations(const struct sp_go *go, uint64_t names, uint64_t *ret)
{
	struct sp_cursor c = section_cursor(go->object, relocation_section(go->object));
	unsigned tried = 0;
	while (go->pointer == 8 && sp_cursor_left(&c) >= 24 && tried < 16) {
		*ret = sp_cursor_u64(&c);
		sp_cursor_skip(&c, 8);
		if (sp_cursor_u64(&c) != go->address)
			continue;
		if (is_module(go, *ret, names))
			return true;
		tried++;
	}
	return false;
}

bool sp_go_find_module(const struct sp_go *go, uint64_t names, uint64_t *ret_text, uint64_t *ret_calls)
{
	static const char *const sections[] = { ".go.module", ".noptrdata", ".data", ".data.rel.ro" };
	uint64_t at = 0;
	bool found = false;
	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]) && !found; i++)
		found = search_section(go, sections[i], names, &at);
	if (!found && !search_relocations(go, names, &at))
		return false;
	*ret_text = pointer_at(go, at + WORD_TEXT * go->pointer);
	*ret_calls = pointer_at(go, at + (uint64_t)(go->form == SP_GO_1_20 ? WORD_CALLS_1_20 : WORD_CALLS_1_18) *
	                                     go->pointer);
	return true;
}
