/* PDB: address -> function, file, line, inline chain. Internal to symbolication/.
 *
 * Opening reads the container's directory and the list of modules (object files); a module is parsed when an address in
 * it is asked for. Addresses are relative to the image (RVA), which is how everything above counts, too. */
#ifndef SP_SYMBOLICATION_PDB_PDB_H
#define SP_SYMBOLICATION_PDB_PDB_H

#include "common/error.h"
#include "spsym.h"
#include "symbolication/dwarf/dwarf.h"
#include "symbolication/object/object.h"

#include <stdatomic.h>

struct sp_pdb;

bool sp_pdb_probe(const uint8_t *bytes, size_t size);
/* Opens bytes that outlive it. `name` is for messages. */
struct sp_error *sp_pdb_open(const uint8_t *bytes, size_t size, const char *name, struct sp_pdb **ret);
void sp_pdb_destroy(struct sp_pdb *pdb);

/* The debug ID is the GUID with the age of the DBI stream, which is the one that linkers write into the image. */
const struct spsym_file_info *sp_pdb_info(const struct sp_pdb *pdb);
const uint8_t *sp_pdb_bytes(const struct sp_pdb *pdb, size_t *ret_size);

/* As sp_dwarf_lookup(), for relative addresses. Names have no linkage name. */
struct sp_error *sp_pdb_lookup(struct sp_pdb *pdb, const uint64_t *addresses, size_t count,
                               void (*emit)(void *context, size_t index, const struct sp_dwarf_answer *answer),
                               void *context, const char **ret_note);

/* The symbol that covers a relative address: a procedure of the address's module, else the public symbol before it.
 * `address` in the result is relative; the name may be decorated and lives as long as the PDB. False: none. */
bool sp_pdb_symbol(struct sp_pdb *pdb, uint64_t address, struct sp_symbol *ret);
/* All procedures and public symbols; parses every module. The caller calls sp_symbols_deinit(). */
struct sp_error *sp_pdb_symbols(struct sp_pdb *pdb, struct sp_symbols *ret);

struct sp_index_builder;

/* Whether an index can say what the PDB says: not when a tool has rearranged the image piece by piece. */
bool sp_pdb_can_compile(const struct sp_pdb *pdb);
/* As sp_dwarf_compile(), for the bytes of a PDB. Keeps nothing. */
struct sp_error *sp_pdb_compile(const uint8_t *bytes, size_t size, const atomic_bool *cancel,
                                struct sp_index_builder *builder, char **ret_note);

size_t sp_pdb_memory(struct sp_pdb *pdb);

#endif
