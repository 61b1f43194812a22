/* What the ELF reader's files share. Format: the System V gABI, chapters "Object Files" and "Program Loading", and its
 * processor supplements. Numbers are named here rather than taken from <elf.h>, which not every OS has. */
#ifndef SP_SYMBOLICATION_OBJECT_ELF_H
#define SP_SYMBOLICATION_OBJECT_ELF_H

#include "common/vector.h"
#include "symbolication/object/private.h"

enum { SP_ET_REL = 1, SP_ET_EXEC = 2, SP_ET_DYN = 3 };

enum {
	SP_EM_386 = 3,
	SP_EM_PPC64 = 21,
	SP_EM_S390 = 22,
	SP_EM_ARM = 40,
	SP_EM_X86_64 = 62,
	SP_EM_AARCH64 = 183,
	SP_EM_RISCV = 243
};

enum {
	SP_SHT_PROGBITS = 1,
	SP_SHT_SYMTAB = 2,
	SP_SHT_STRTAB = 3,
	SP_SHT_RELA = 4,
	SP_SHT_DYNAMIC = 6,
	SP_SHT_NOTE = 7,
	SP_SHT_NOBITS = 8,
	SP_SHT_REL = 9,
	SP_SHT_DYNSYM = 11,
	SP_SHT_SYMTAB_SHNDX = 18
};

enum { SP_SHF_WRITE = 1, SP_SHF_ALLOC = 2, SP_SHF_EXECINSTR = 4, SP_SHF_COMPRESSED = 0x800 };

enum {
	SP_SHN_UNDEF = 0,
	SP_SHN_LORESERVE = 0xff00,
	SP_SHN_ABS = 0xfff1,
	SP_SHN_COMMON = 0xfff2,
	SP_SHN_XINDEX = 0xffff
};

enum { SP_STT_NOTYPE = 0, SP_STT_FUNC = 2, SP_STT_SECTION = 3, SP_STT_GNU_IFUNC = 10 };

/* What only ELF knows of a section; parallel to sp_object.sections. */
struct sp_elf_section {
	uint32_t type, link, info;
	uint64_t flags, align, entry_size;
	uint32_t relocations; /* index of the section that relocates this one; 0 = none */
};

struct sp_elf_segment {
	uint32_t type, flags;
	uint64_t offset, address, file_size, memory_size, align;
};

/* sp_object.data of an ELF file. */
struct sp_elf {
	bool is64;
	uint16_t type, machine;
	uint64_t section_table, segment_table; /* file offsets; 0 = none */
	uint32_t section_names;                /* index of the section with section names */
	uint32_t section_entry, segment_entry; /* bytes an entry of those tables */
	struct sp_elf_section *sections;       /* owned */
	struct sp_elf_segment *segments;       /* owned; all program headers in file order */
	size_t segment_count;
	bool section_table_used; /* false: the sections were made from the dynamic segment */
	uint64_t plt_got; /* DT_PLTGOT: svma of the GOT's reserved entries, what i386 stubs count from; 0 = unknown */
};

static inline struct sp_elf *sp_elf(const struct sp_object *object)
{
	return object->data;
}

/* An address, offset or size of the file's class. */
static inline uint64_t sp_elf_word(struct sp_cursor *c, const struct sp_elf *elf)
{
	return elf->is64 ? sp_cursor_u64(c) : sp_cursor_u32(c);
}

/* A table of strings whose last byte may lack its NUL. */
struct sp_elf_strings {
	const char *bytes;
	size_t size; /* up to and with the last NUL */
};

struct sp_elf_strings sp_elf_strings(const struct sp_cursor *bytes);

/* The string at `offset`, NULL when it is not inside. */
static inline const char *sp_elf_string(const struct sp_elf_strings *strings, uint64_t offset)
{
	return offset < strings->size ? strings->bytes + offset : NULL;
}

/* A symbol as it stands in the table. */
struct sp_elf_symbol {
	uint32_t name;
	uint8_t info, other;
	uint32_t section; /* SP_SHN_XINDEX already replaced */
	uint64_t value, size;
};

/* Symbol `index` of a table's bytes; zeros when it is past the end. `extended` holds the SHT_SYMTAB_SHNDX table, or is
 * empty. */
struct sp_elf_symbol sp_elf_symbol_at(const struct sp_elf *elf, const struct sp_cursor *table,
                                      const struct sp_cursor *extended, uint64_t index);

static inline size_t sp_elf_symbol_size(const struct sp_elf *elf)
{
	return elf->is64 ? 24 : 16;
}

/* A relocation; REL entries have addend 0 here. */
struct sp_elf_relocation {
	uint64_t offset;
	uint32_t symbol, type;
	int64_t addend;
};

static inline size_t sp_elf_relocation_size(const struct sp_elf *elf, bool with_addend)
{
	return (elf->is64 ? 16 : 8) + (with_addend ? (elf->is64 ? 8 : 4) : 0);
}

struct sp_elf_relocation sp_elf_relocation_next(const struct sp_elf *elf, struct sp_cursor *table, bool with_addend);

/* The index of the first section of `type`, or section_count. */
size_t sp_elf_find_type(const struct sp_object *object, uint32_t type);

/* The file bytes of an svma by program header, up to `size`; for files without section headers. */
struct sp_cursor sp_elf_loaded_bytes(const struct sp_object *object, uint64_t address, uint64_t size);

/* elf_dynamic.c: reads PT_DYNAMIC; makes sections from it when the file has none. */
struct sp_error *sp_elf_read_dynamic(struct sp_object *object);
/* elf_layout.c: gives the sections of an ET_REL file addresses. */
struct sp_error *sp_elf_layout(struct sp_object *object);
/* elf_sections.c: the bytes of a section, inflated and relocated. */
struct sp_error *sp_elf_make_bytes(struct sp_object *object, size_t at, uint8_t **ret, size_t *ret_size);
bool sp_elf_find_stream(struct sp_object *object, size_t at, struct sp_cursor *ret, size_t *ret_size);
/* Applies the relocations for section `at` to its bytes; entries that cannot be applied are left alone. */
struct sp_error *sp_elf_relocate(struct sp_object *object, size_t at, uint8_t *bytes, size_t size);
/* elf_symbols.c, elf_plt.c */
struct sp_error *sp_elf_symbols(struct sp_object *object, struct sp_symbols *ret);
struct sp_error *sp_elf_raw_symbols(struct sp_object *object, struct sp_raw_symbol **ret, size_t *ret_count);

typedef SP_VECTOR(struct sp_symbol) sp_symbol_vector;
/* Appends the names of the procedure linkage table's stubs. */
struct sp_error *sp_elf_plt_symbols(struct sp_object *object, struct sp_arena *names, sp_symbol_vector *symbols);

#endif
