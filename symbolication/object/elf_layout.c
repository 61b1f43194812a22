/* Addresses for the sections of a relocatable file, which all stand at 0 in the file.
 *
 * .text is at 0, as the relative addresses of kernel modules are counted; behind it come the other sections in the
 * order in which the kernel lays a module out (kernel/module/main.c, layout_sections): code, read-only data, data that
 * is read-only after init, writable data, each group on its own pages; then the .init sections the same way. */
#include "symbolication/object/elf.h"

#include <string.h>

enum { GROUP_ALIGN = 4096, SECTION_ALIGN_LIMIT = 1 << 20, GROUPS = 4 };
/* Larger modules do not exist; keeps sums of hostile sizes from wrapping. */
#define LAYOUT_LIMIT (UINT64_C(1) << 40)

static bool is_init(const struct sp_section *section)
{
	return strncmp(section->name, ".init", 5) == 0;
}

static unsigned group_of(const struct sp_object *object, size_t at)
{
	const struct sp_section *section = &object->sections[at];
	if (section->executable)
		return 0;
	if (!(sp_elf(object)->sections[at].flags & SP_SHF_WRITE))
		return 1;
	bool after_init = strcmp(section->name, ".data..ro_after_init") == 0 ||
	                  strcmp(section->name, "__jump_table") == 0;
	return after_init ? 2 : 3;
}

static uint64_t align_up(uint64_t address, uint64_t align)
{
	if (align < 2 || align > SECTION_ALIGN_LIMIT || (align & (align - 1)))
		return address;
	return (address + align - 1) & -align;
}

static bool place(struct sp_object *object, size_t at, uint64_t *next)
{
	struct sp_section *section = &object->sections[at];
	section->address = align_up(*next, sp_elf(object)->sections[at].align);
	if (section->size > LAYOUT_LIMIT || section->address + section->size > LAYOUT_LIMIT)
		return false;
	*next = section->address + section->size;
	return true;
}

struct sp_error *sp_elf_layout(struct sp_object *object)
{
	uint64_t next = 0;
	bool fits = true;
	size_t text = object->section_count;
	for (size_t i = object->section_count; i-- > 0;) {
		object->sections[i].address = 0;
		if (strcmp(object->sections[i].name, ".text") == 0 && object->sections[i].allocated)
			text = i;
	}
	if (text < object->section_count)
		fits = place(object, text, &next);
	for (unsigned pass = 0; pass < 2 * GROUPS; pass++) {
		bool init = pass >= GROUPS;
		if (pass)
			next = align_up(next, GROUP_ALIGN);
		for (size_t i = 0; fits && i < object->section_count; i++) {
			const struct sp_section *s = &object->sections[i];
			if (i != text && s->allocated && is_init(s) == init && group_of(object, i) == pass % GROUPS)
				fits = place(object, i, &next);
		}
	}
	if (!fits)
		return sp_error_create(SP_ERROR_LIMIT,
		                       "the sections of the relocatable file are larger than 2^40 bytes");
	return NULL;
}
