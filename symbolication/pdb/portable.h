/* Portable PDBs, which .NET compilers write: places in the source of methods' IL. Internal to symbolication/.
 *
 * They know nothing of machine code: a runtime's events tell which method and which IL offset an address belongs to,
 * and the assembly has the names. Methods are numbered as in the assembly's MethodDef table: token 0x06000001 is 1. */
#ifndef SP_SYMBOLICATION_PDB_PORTABLE_H
#define SP_SYMBOLICATION_PDB_PORTABLE_H

#include "common/error.h"
#include "spsym.h"

struct sp_portable_pdb;

bool sp_portable_pdb_probe(const uint8_t *bytes, size_t size);
/* Opens bytes that outlive it. `name` is for messages. */
struct sp_error *sp_portable_pdb_open(const uint8_t *bytes, size_t size, const char *name,
                                      struct sp_portable_pdb **ret);
void sp_portable_pdb_destroy(struct sp_portable_pdb *pdb);

/* The debug ID is the GUID with the age 1, as in the assembly. */
const struct spsym_file_info *sp_portable_pdb_info(const struct sp_portable_pdb *pdb);
uint32_t sp_portable_pdb_method_count(const struct sp_portable_pdb *pdb);

struct sp_portable_place {
	uint32_t il_offset; /* from here on, up to the next place */
	uint32_t line, column;
	char *file; /* owned; NULL = unknown */
};
/* The place of an IL offset of method 1 ... method_count. SP_ERROR_NOT_FOUND: the method has none there, or it is
 * hidden. The caller frees ret->file. Thread-safe. */
struct sp_error *sp_portable_pdb_find(const struct sp_portable_pdb *pdb, uint32_t method, uint32_t il_offset,
                                      struct sp_portable_place *ret);

#endif
