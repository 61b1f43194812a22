/* Object files: identity, segments, sections, symbols. Internal to symbolication/, and what the recorder gets its
 * load segments and unwind sections from; nothing else parses an object file.
 *
 * All input is hostile: every offset is checked, sizes have named limits. An object is immutable after opening, except
 * that compressed sections are inflated once, on demand, under a lock. */
#ifndef SP_SYMBOLICATION_OBJECT_OBJECT_H
#define SP_SYMBOLICATION_OBJECT_OBJECT_H

#include "common/arena.h"
#include "common/error.h"
#include "common/file.h"
#include "spsym.h"
#include "symbolication/object/source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sp_object;

struct sp_segment {
	uint64_t address; /* svma */
	uint64_t size;    /* in memory */
	uint64_t file_offset;
	uint64_t file_size;
	bool executable;
};

struct sp_section {
	const char *name;
	uint64_t address; /* svma; 0 when not loaded */
	uint64_t size;    /* in memory, or of the file's bytes; for a compressed section as stored */
	uint64_t file_offset;
	bool executable, allocated;
	bool no_bits; /* has no bytes in the file */
	bool compressed;
	uint32_t index; /* in the file's section table */
};

enum sp_symbol_source { SP_SYMBOL_SYMTAB, SP_SYMBOL_DYNSYM, SP_SYMBOL_PLT, SP_SYMBOL_EXPORT };

/* A raw entry of a symbol table. */
struct sp_symbol {
	const char *name; /* as in the file ("foo@plt" for SP_SYMBOL_PLT); lives as long as object and list */
	uint64_t address; /* svma; ARM: without the Thumb bit */
	uint64_t size;    /* 0 = unknown */
	uint8_t source;   /* enum sp_symbol_source */
	uint8_t binding;  /* 0 local, 1 global, 2 weak */
};

struct sp_symbols {
	struct sp_symbol *items; /* owned */
	size_t count;
	struct sp_arena names; /* names that no string table holds */
};

/* A function that unwind tables know, without a name. */
struct sp_function_range {
	uint64_t address; /* svma */
	uint64_t size;
};

/* Opens bytes that outlive the object. A file of no known format is SP_ERROR_UNSUPPORTED. `name` is for messages. */
struct sp_error *sp_object_open_bytes(const void *bytes, size_t size, const char *name, struct sp_object **ret);
/* As open_bytes for a buffer of malloc() that the object takes over, also when opening fails. */
struct sp_error *sp_object_open_owned(void *bytes, size_t size, const char *name, struct sp_object **ret);
/* Maps and opens a file; the mapping lives with the object. */
struct sp_error *sp_object_open_path(const char *path, struct sp_object **ret);
struct sp_error *sp_object_open_fd(int fd, const char *name, struct sp_object **ret);
/* As open_path for a file that is mapped already; the object takes the mapping over, also when opening fails. */
struct sp_error *sp_object_open_map(struct sp_file_map *map, const char *name, struct sp_object **ret);
/* As open_map for a file of which little is needed, here and there: it is read only where it is touched, and where
 * sp_object_want() says that it will be; until sp_object_want_all(). */
struct sp_error *sp_object_open_scattered(struct sp_file_map *map, const char *name, struct sp_object **ret);
/* Hints for an object that was opened so; they do nothing to others, nor with bytes that are not the file's. */
void sp_object_want(const struct sp_object *object, const uint8_t *bytes, size_t size);
void sp_object_want_all(struct sp_object *object);
/* As open_path for a file that is read in parts; the object takes the source over, also when opening fails. ELF only:
 * of other files all must have been read. */
struct sp_error *sp_object_open_source(struct sp_source *source, const char *name, struct sp_object **ret);
void sp_object_destroy(struct sp_object *object);

const struct spsym_file_info *sp_object_info(const struct sp_object *object);
const char *sp_object_name(const struct sp_object *object);
bool sp_object_is_relocatable(const struct sp_object *object); /* ET_REL */
bool sp_object_big_endian(const struct sp_object *object);
unsigned sp_object_address_size(const struct sp_object *object); /* 4 or 8 */
uint64_t sp_object_entry(const struct sp_object *object);        /* svma; 0 = none */
/* NULL, or what is odd about the file although it could be opened ("section header table past the end ..."). */
const char *sp_object_note(const struct sp_object *object);
/* NULL, or why a part of a file that is read in parts could not be read. The caller destroys it. */
struct sp_error *sp_object_read_failure(const struct sp_object *object);
/* Bytes held in memory beside the file: tables and inflated sections. */
size_t sp_object_memory(const struct sp_object *object);
/* The file's bytes, whole; NULL when they cannot be read. */
const uint8_t *sp_object_file_bytes(const struct sp_object *object, size_t *ret_size);
size_t sp_object_file_size(const struct sp_object *object);
/* What the file was when it was mapped (see struct sp_file_map); zeros when it was opened from bytes. */
void sp_object_file_identity(const struct sp_object *object, uint64_t *ret_device, uint64_t *ret_inode,
                             int64_t *ret_mtime_ns);

/* PT_LOAD and the like, sorted by address. */
const struct sp_segment *sp_object_segments(const struct sp_object *object, size_t *ret_count);
/* In the file's order. A relocatable file's allocated sections get addresses: .text at 0, the others behind it in the
 * kernel's order for modules (code, read-only, read-only after init, writable; then .init sections). A file without
 * section headers gets the sections that its dynamic segment describes. */
const struct sp_section *sp_object_sections(const struct sp_object *object, size_t *ret_count);
/* By name, NULL when absent; ".debug_info" also finds ".zdebug_info", "__debug_info", PE long names. */
const struct sp_section *sp_object_find_section(const struct sp_object *object, const char *name);
/* The section's bytes: in the file, or inflated (zlib, zstd, .zdebug) with ET_REL relocations of debug sections
 * applied. Valid as long as the object. Thread-safe. Limits: the declared size of an inflated section, which must be
 * plausible for the stored size, and 4 GiB. */
struct sp_error *sp_object_section_bytes(struct sp_object *object, const struct sp_section *section,
                                         const uint8_t **ret, size_t *ret_size);
/* As section_bytes(), but where a large section has to be inflated for it, that only begins: the bytes below an offset
 * are there after section_wait() for it, those above may change. section_bytes() waits for all. */
struct sp_error *sp_object_section_begin(struct sp_object *object, const struct sp_section *section,
                                         const uint8_t **ret, size_t *ret_size);
struct sp_error *sp_object_section_wait(struct sp_object *object, const struct sp_section *section, size_t end);
/* File bytes of [address, address + size) of the loaded image; fewer when they end; NOT inflated. */
const uint8_t *sp_object_image_bytes(const struct sp_object *object, uint64_t address, size_t *size);

/* The raw symbol tables in file order: symtab, then dynsym, then PLT names. FUNC, IFUNC and sized NOTYPE symbols of
 * executable sections only. The caller calls sp_symbols_deinit(). */
struct sp_error *sp_object_symbols(struct sp_object *object, struct sp_symbols *ret);
void sp_symbols_deinit(struct sp_symbols *symbols);

/* Every named symbol of a table with an address, as in the file: .symtab, or where there is none .dynsym. */
struct sp_raw_symbol {
	const char *name;
	const char *file; /* source file as the linker notes it, for local symbols, and in an object file for all; NULL
	                     = none */
	uint64_t address; /* svma */
	uint64_t size;
	uint32_t section; /* index into the sections; UINT32_MAX = absolute or common */
	uint8_t type;     /* STT_NOTYPE 0, STT_OBJECT 1, STT_FUNC 2, STT_TLS 6, STT_GNU_IFUNC 10 */
	uint8_t binding;  /* 0 local, 1 global, 2 weak */
};
/* In the table's order; SP_ERROR_UNSUPPORTED for other formats than ELF. The caller frees *ret. */
struct sp_error *sp_object_raw_symbols(struct sp_object *object, struct sp_raw_symbol **ret, size_t *ret_count);

/* Functions known from unwind tables (.eh_frame, .pdata), in the table's order; duplicates are possible. A corrupt
 * table ends the list early. The caller frees *ret. */
struct sp_error *sp_object_functions(struct sp_object *object, struct sp_function_range **ret, size_t *ret_count);

/* The build ID or UUID bytes; NULL when there are none. */
const uint8_t *sp_object_build_id(const struct sp_object *object, size_t *ret_size);

/* The path of the PDB as a PE file's linker wrote it; NULL when there is none. */
const char *sp_object_pdb_path(const struct sp_object *object);

/* Where a PE file's table of functions with unwind information is (.pdata), as a relative address; false when there is
 * none. */
bool sp_object_exception_table(const struct sp_object *object, uint32_t *ret_address, uint32_t *ret_size);

struct sp_debug_link {
	const char *name; /* .gnu_debuglink */
	uint32_t crc;
};
/* False when the file has none. */
bool sp_object_debug_link(const struct sp_object *object, struct sp_debug_link *ret);
/* Where the part lies that several files share: .gnu_debugaltlink (dwz) or DWARF 5's .debug_sup: path and build ID. */
bool sp_object_debug_alt_link(const struct sp_object *object, const char **ret_path, const uint8_t **ret_build_id,
                              size_t *ret_size);
/* Whether the file is that shared part: its build ID, or the checksum in its own .debug_sup, is `id`. */
bool sp_object_is_supplementary(const struct sp_object *object, const uint8_t *id, size_t size);

#endif
