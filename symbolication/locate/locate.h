/* Finds the files that a module's symbols are in. Internal to symbolication/.
 *
 * Places are tried from the nearest to the farthest (locate.c); a file is used only if its ID is the wanted one. */
#ifndef SP_SYMBOLICATION_LOCATE_LOCATE_H
#define SP_SYMBOLICATION_LOCATE_LOCATE_H

#include "common/json.h"
#include "symbolication/locate/debuginfod.h"
#include "symbolication/locate/symbol_file.h"
#include "symbolication/locate/symstore.h"

/* All borrowed. Lists are NULL-terminated and may be NULL. */
struct sp_locate_options {
	const char *const *symbol_folders;
	const char *const *debug_roots;   /* "/usr/lib/debug" */
	const char *cache_folder;         /* files kept by the recorder are in its "kept" folder; NULL = none */
	bool no_local_paths;              /* never open paths that an identity or a file names */
	struct sp_debuginfod *debuginfod; /* NULL = nothing is downloaded */
	struct sp_symstore *symstore;     /* NULL = no symbol store is known */
};

/* What was found. `debug` is the best file for symbols and may be the same as `binary`. */
struct sp_found {
	struct sp_symbol_file *binary;        /* has the code; NULL = not found */
	struct sp_symbol_file *debug;         /* NULL = not found, then there is no binary either */
	struct sp_symbol_file *supplementary; /* dwz's shared part, for `debug` */
	struct sp_symbol_file *package;       /* .dwp */
	struct sp_buffer trace;               /* what was tried, one place a line */
	char *binary_name;                    /* owned; what a symbol store calls the binary of a PDB; NULL = unknown */
	char binary_id[SPSYM_ID_MAX];         /* its code ID */
};

/* Searches for an identity; `given` (may be NULL) is a file that the caller opened and vouches for; it is taken over.
 * No file at all is SP_ERROR_NOT_FOUND; `ret` is filled with the trace then, too. Call sp_located_deinit() in any case.
 */
struct sp_error *sp_locate(const struct sp_locate_options *options, const struct spsym_identity *identity,
                           struct sp_symbol_file *given, struct sp_found *ret);
void sp_located_deinit(struct sp_found *found);

/* Downloads the binary of a module of which only a debug file is there. */
struct sp_error *sp_locate_executable(const struct sp_locate_options *options, const struct sp_found *found,
                                      struct sp_symbol_file **ret);

/* Opens a split DWARF file that a unit names: the path itself, else its name beside the binary or in a symbol folder.
 * The caller checks that it is the right one. */
struct sp_error *sp_locate_dwo(const struct sp_locate_options *options, const struct sp_found *found, const char *path,
                               struct sp_symbol_file **ret);

/* Where the recorder keeps a file that will not exist later (vdso, deleted and memfd files, kernel symbols):
 * <cache_folder>/kept/<debug ID>. The caller frees *ret. */
struct sp_error *sp_kept_path(const char *cache_folder, const char *debug_id, char **ret);

#endif
