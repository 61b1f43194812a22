/* One search; shared by the files of this folder. */
#ifndef SP_SYMBOLICATION_LOCATE_PRIVATE_H
#define SP_SYMBOLICATION_LOCATE_PRIVATE_H

#include "symbolication/locate/locate.h"

struct sp_search {
	const struct sp_locate_options *options;
	const struct spsym_identity *identity;
	struct sp_found *found;
	const char *name, *debug_name;      /* plain file names; NULL = unknown or not usable as one */
	uint8_t build_id[SPSYM_ID_MAX / 2]; /* of the wanted file: from the code ID or the binary */
	size_t build_id_size;
	char debug_id[SPSYM_ID_MAX]; /* of the wanted file: from the identity or the binary; "" = unknown */
	bool downloading;            /* what is opened now comes from a server */
	bool for_binary;             /* debug information was found, now only the binary is wanted */
	struct sp_error *error;      /* no memory: the search ends */
};

/* How a candidate is checked. */
enum sp_check {
	SP_CHECK_ID,         /* it must have the wanted ID */
	SP_CHECK_ID_OR_NONE, /* as before, but anything goes when the identity has no ID at all */
	SP_CHECK_CRC,        /* the wanted ID, or where one side has none, the CRC of the debug link */
};

/* Whether what is wanted was found: debug information, then the binary. */
bool sp_search_done(const struct sp_search *search);
/* Opens a candidate and keeps it if it is the right one and better than what there is. `place` is for the trace. */
void sp_search_try(struct sp_search *search, const char *place, const char *path, enum sp_check check, uint32_t crc);
/* sp_search_try() with SP_CHECK_ID on a path put together from a format. */
void sp_search_tryf(struct sp_search *search, const char *place, const char *format, ...) SP_PRINTF(3, 4);
/* Whether the IDs of a file are those that are wanted. */
bool sp_search_fits(const struct sp_search *search, const struct spsym_file_info *info);
/* Adds a line to the trace. */
void sp_search_trace(struct sp_search *search, const char *format, ...) SP_PRINTF(2, 3);

/* places.c */
void sp_search_folders(struct sp_search *search);  /* symbol folders, the kept file */
void sp_search_build_id(struct sp_search *search); /* build-ID folders under the debug roots */
void sp_search_beside(struct sp_search *search);   /* beside the binary, under the roots by path, kernel places */
void sp_search_debug_link(struct sp_search *search);
void sp_search_pdb(struct sp_search *search);    /* the PDB that the binary names */
void sp_search_binary(struct sp_search *search); /* where the binary of a debug file may be */
struct sp_error *sp_find_supplementary(struct sp_search *search);
void sp_search_symstore(struct sp_search *search);   /* symbol stores and servers: PDBs, and PE files by code ID */
void sp_search_debuginfod(struct sp_search *search); /* debuginfod servers, by build ID */

/* symstore_search.c: the binary of a PDB, by its name and code ID. */
struct sp_error *sp_symstore_binary(const struct sp_locate_options *options, const struct sp_found *found,
                                    struct sp_symbol_file **ret);

/* The path up to the last slash, "" when there is none; malloc()ed, NULL without memory. */
char *sp_path_folder(const char *path);
const char *sp_path_name(const char *path);
/* A name that is safe as one component of a path. */
bool sp_path_is_component(const char *name);
/* Formats into malloc()ed memory, NULL without. */
char *sp_path_format(const char *format, ...) SP_PRINTF(1, 2);

#endif
