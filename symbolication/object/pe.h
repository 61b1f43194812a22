/* PE and COFF: what the files that read Windows binaries share (Microsoft, "PE Format"). */
#ifndef SP_SYMBOLICATION_OBJECT_PE_H
#define SP_SYMBOLICATION_OBJECT_PE_H

#include "common/vector.h"
#include "symbolication/object/private.h"

enum {
	SP_PE_MACHINE_I386 = 0x14c,
	SP_PE_MACHINE_ARMNT = 0x1c4,
	SP_PE_MACHINE_AMD64 = 0x8664,
	SP_PE_MACHINE_ARM64 = 0xaa64,
};

enum { SP_PE_DIR_EXPORT = 0, SP_PE_DIR_EXCEPTION = 3, SP_PE_DIR_DEBUG = 6, SP_PE_DIRECTORIES = 16 };

enum { SP_PE_SECTION_UNINITIALIZED = 0x80, SP_PE_SECTION_DISCARDABLE = 0x02000000, SP_PE_SECTION_EXECUTE = 0x20000000 };

/* A COFF symbol takes this many bytes, and so does each auxiliary record behind it. */
enum { SP_PE_SYMBOL_SIZE = 18 };

struct sp_pe_directory {
	uint32_t address, size; /* relative virtual address; 0 = absent */
};

/* sp_object.data of a PE file. */
struct sp_pe {
	uint16_t machine;
	uint32_t time_stamp, image_size;
	struct sp_pe_directory directories[SP_PE_DIRECTORIES];
	uint64_t symbol_table;    /* file offset of the COFF symbols; 0 = none */
	uint32_t symbol_count;    /* with auxiliary records */
	struct sp_cursor strings; /* the COFF string table, from its length field on; empty = none */
	char *pdb_path;           /* from the debug directory, in the arena; NULL = none */
};

static inline struct sp_pe *sp_pe(const struct sp_object *object)
{
	return object->data;
}

/* The file bytes behind a relative virtual address, up to `size`; an empty bad cursor when there are none. */
struct sp_cursor sp_pe_bytes(const struct sp_object *object, uint32_t address, uint64_t size);
/* The string at an offset of the COFF string table, NULL when it is not inside. */
const char *sp_pe_string(const struct sp_pe *pe, uint64_t offset);

/* pe_symbols.c: COFF symbols, then exports. */
struct sp_error *sp_pe_symbols(struct sp_object *object, struct sp_symbols *ret);
/* pe_functions.c: .pdata, or .eh_frame where there is none. */
struct sp_error *sp_pe_functions(struct sp_object *object, struct sp_function_range **ret, size_t *ret_count);

#endif
