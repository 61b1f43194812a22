/* One opened file that symbols may come from, whatever its kind. Internal to symbolication/. */
#ifndef SP_SYMBOLICATION_LOCATE_SYMBOL_FILE_H
#define SP_SYMBOLICATION_LOCATE_SYMBOL_FILE_H

#include "common/error.h"
#include "common/file.h"
#include "symbolication/breakpad/breakpad.h"
#include "symbolication/object/object.h"
#include "symbolication/pdb/pdb.h"
#include "symbolication/pdb/portable.h"

struct sp_symbol_file {
	char *path; /* owned; as opened, or the name given */
	struct spsym_file_info info;
	struct sp_object *object;         /* owned; NULL for the kinds below */
	struct sp_symbols kallsyms;       /* SPSYM_KIND_KALLSYMS */
	struct sp_pdb *pdb;               /* owned; SPSYM_KIND_PDB */
	struct sp_breakpad *breakpad;     /* owned; SPSYM_KIND_BREAKPAD */
	struct sp_portable_pdb *portable; /* owned; SPSYM_KIND_PORTABLE_PDB */
	struct sp_file_map map;           /* what those three read, if it was mapped for them */
	uint8_t *unpacked;                /* owned; what they read, if it was unpacked for them */
	struct sp_source *source;         /* owned; what they read, if it came from a reader */
	bool downloaded;                  /* from a server: paths in it mean nothing on this machine */
};

/* Opens and identifies a file: object files, PDBs, Breakpad files, kernel symbol lists, and any of them compressed
 * whole (xz, zstd, gzip: kernel modules are). */
struct sp_error *sp_symbol_file_open_path(const char *path, struct sp_symbol_file **ret);
/* As open_path for a descriptor (stays the caller's), or for bytes that outlive the file. */
struct sp_error *sp_symbol_file_open_fd(int fd, const char *name, struct sp_symbol_file **ret);
struct sp_error *sp_symbol_file_open_bytes(const void *bytes, size_t size, const char *name,
                                           struct sp_symbol_file **ret);
/* As open_path for a reader, which is taken over, also when this fails. */
struct sp_error *sp_symbol_file_open_reader(const struct spsym_reader *reader, const char *name,
                                            struct sp_symbol_file **ret);
void sp_symbol_file_destroy(struct sp_symbol_file *file);

#endif
