/* What the files of the PDB reader share.
 *
 * A look-up goes: relative address -> section and offset (address.c) -> the contribution that covers it, and its module
 * (address.c) -> the module's procedures, lines and inline sites, parsed on first touch (module.c, lines.c, inline.c)
 * -> names from symbol records and types (type.c). */
#ifndef SP_SYMBOLICATION_PDB_INTERNAL_H
#define SP_SYMBOLICATION_PDB_INTERNAL_H

#include "common/intern.h"
#include "common/json.h"
#include "common/map.h"
#include "common/vector.h"
#include "symbolication/pdb/msf.h"
#include "symbolication/pdb/pdb.h"

#include <pthread.h>
#include <stdatomic.h>

enum { PDB_NO_STREAM = 0xffff, PDB_SECTIONS_MAX = 4096, PDB_INLINE_DEPTH_MAX = 256 };

/* Streams with a fixed number. */
enum { PDB_STREAM_INFO = 1, PDB_STREAM_TPI = 2, PDB_STREAM_DBI = 3, PDB_STREAM_IPI = 4 };

/* A place in the image as linkers count: section from 1, and offset in it. */
struct pdb_place {
	uint16_t section;
	uint32_t offset;
};

/* Sorts and compares as one number. */
static inline uint64_t pdb_place_key(uint16_t section, uint32_t offset)
{
	return (uint64_t)section << 32 | offset;
}

struct pdb_section {
	uint32_t address, size;
	bool executable;
};

/* One pair of an OMAP table: from `from` on, addresses are at `to` in the other address space; 0 or the top bit =
 * nowhere. */
struct pdb_omap_entry {
	uint32_t from, to;
};
struct pdb_omap {
	struct pdb_omap_entry *entries; /* owned, sorted; NULL = addresses are not mapped */
	size_t count;
};

/* A procedure, or a part of one that was moved away from it. */
struct pdb_procedure {
	uint64_t place; /* pdb_place_key() of its first byte */
	uint32_t size;
	uint32_t record;  /* offset of its symbol record in the module's stream */
	uint32_t type;    /* TPI index; 0 = unknown */
	uint32_t base;    /* what offsets of inline sites count from, in the section */
	const char *name; /* in the record; lives as long as the module's bytes */
	bool thunk;       /* has no inlined functions */
	uint64_t target;  /* place that a thunk of incremental linking jumps to; 0 = it is none */
	bool id_type;     /* `type` is an index of the IPI stream */
	_Atomic(const char *) readable;
	_Atomic(struct pdb_inlines *) inlines;
};

/* A row of the line table, for addresses from `offset` on. */
struct pdb_row {
	uint32_t offset; /* in the block's section */
	uint32_t line;   /* 0 = none */
	uint32_t file;   /* file ID: offset in the module's checksums */
	uint32_t column; /* 0 = unknown */
};

/* One lines subsection: what one contribution's code was made from. */
struct pdb_lines {
	uint64_t place; /* of its first byte */
	uint32_t size;
	uint32_t first_row, row_count;
};

/* Where an inlined function begins in the source. */
struct pdb_inlinee {
	uint32_t id; /* IPI index */
	uint32_t file, line;
	_Atomic(const char *) name;
};

/* A range of code that an inline site covers, relative to the procedure's base. */
struct pdb_inline_range {
	uint32_t start, end;
	uint32_t file, line, column;
};

/* Inline sites of a procedure in the order of their records: children stand behind their parent. */
struct pdb_inline_site {
	uint32_t inlinee; /* IPI index */
	uint32_t next;    /* index of the first site that is not inside this one */
	uint32_t first_range, range_count;
	uint32_t low, high; /* what it and the sites inside cover lies in [low, high) */
};
struct pdb_inlines {
	struct pdb_inline_site *sites;   /* owned */
	struct pdb_inline_range *ranges; /* owned; each site's sorted by start */
	uint32_t site_count, range_count;
};

/* What is in a module's stream. */
struct pdb_module_data {
	struct msf_bytes bytes;           /* the whole stream */
	uint32_t symbols_end;             /* symbol records are in [4, symbols_end) */
	struct pdb_procedure *procedures; /* owned, sorted by place */
	size_t procedure_count;
	struct pdb_lines *lines; /* owned, sorted by place */
	size_t line_count;
	struct pdb_row *rows; /* owned; each subsection's sorted by offset */
	size_t row_count;
	struct pdb_inlinee *inlinees; /* owned, sorted by ID */
	size_t inlinee_count;
	struct sp_cursor checksums; /* F4 subsection */
	struct sp_cursor imports;   /* F7: what it uses of other modules' types */
	struct sp_cursor exports;   /* F8: pairs of local and global index, sorted */
	char *error;                /* owned; why there is nothing else in here; NULL = it was read */
};

/* A module as the DBI stream lists it. */
struct pdb_module {
	uint32_t info; /* offset of its entry in the DBI stream, for its name */
	uint16_t stream;
	uint32_t symbol_size, c11_size, c13_size;
	_Atomic(struct pdb_module_data *) data; /* owned; NULL = not parsed yet */
};

/* A stream of type records with the hints where to find them. */
struct pdb_types {
	uint32_t stream;
	uint32_t first, end; /* indexes; `end` is not one */
	uint32_t header_size;
	uint32_t records_end;       /* offset in the stream */
	uint32_t hash_stream;       /* PDB_NO_STREAM = none */
	uint32_t hints, hint_count; /* pairs (index, offset) in that stream */
};

struct sp_pdb {
	char *name; /* owned; for messages */
	struct msf msf;
	struct spsym_file_info info;
	const char *note; /* constant, or in `names` */
	uint16_t machine;

	uint32_t public_stream, symbol_stream, names_stream; /* PDB_NO_STREAM = none */
	uint32_t address_map, address_map_count; /* in the public stream: offsets of symbol records by address */
	uint32_t names_at, names_size;           /* the strings in the /names stream */

	struct pdb_module *modules; /* owned */
	size_t module_count;

	uint32_t contributions, contribution_size; /* in the DBI stream: where the first is, bytes of each */
	size_t contribution_count;
	uint32_t *contribution_order; /* owned; NULL when they are sorted in the file */

	struct pdb_section *sections; /* owned; what symbols count by */
	size_t section_count;
	struct pdb_omap to_source, from_source;

	struct pdb_types types, ids;

	pthread_mutex_t lock;       /* guards what follows, and the parsing of modules */
	struct sp_intern names;     /* strings made here */
	struct sp_map files;        /* offset in /names -> string */
	struct sp_map module_names; /* hash of a lower-case name -> index + 1; made on first use */
	atomic_size_t memory;
	uint64_t parse_budget; /* bytes of module streams that may still be parsed: streams may share pages */
};

/* address.c */
struct sp_error *pdb_read_sections(struct sp_pdb *pdb, const uint16_t *debug_streams, size_t count);
struct sp_error *pdb_read_contributions(struct sp_pdb *pdb, uint32_t at, uint32_t size);
/* False when the address is in no section, or a tool that rearranged the image put something of its own there. */
bool pdb_place_of(const struct sp_pdb *pdb, uint64_t address, struct pdb_place *ret);
/* The relative address of a place in the image as it is now; false when there is none. */
bool pdb_address_of(const struct sp_pdb *pdb, uint16_t section, uint32_t offset, uint32_t *ret);

struct pdb_contribution {
	uint16_t section;
	uint32_t offset, size;
	uint16_t module;
};
/* Contribution `index`; false behind the last. */
bool pdb_contribution_at(const struct sp_pdb *pdb, size_t index, struct pdb_contribution *ret);
bool pdb_find_contribution(const struct sp_pdb *pdb, struct pdb_place place, struct pdb_contribution *ret);

/* public.c */
struct pdb_public {
	struct pdb_place place;
	uint32_t next;    /* offset in the section where it ends at the latest; UINT32_MAX = at the section's end */
	const char *name; /* lives as long as the PDB */
};
struct sp_error *pdb_open_publics(struct sp_pdb *pdb);
/* The last public symbol at or before a place, in its section. */
bool pdb_find_public(struct sp_pdb *pdb, struct pdb_place place, struct pdb_public *ret);
/* Public symbol `index` in address order. */
bool pdb_public_at(struct sp_pdb *pdb, uint32_t index, struct pdb_public *ret);

/* module.c */
/* Parses a module on first use. *ret is NULL when it has nothing. The error of one that cannot be read is given once,
 * and stays in its data. */
struct sp_error *pdb_need_module(struct sp_pdb *pdb, size_t index, struct pdb_module_data **ret);
void pdb_module_data_destroy(struct pdb_module_data *data);
/* The procedure that covers a place, or NULL. */
struct pdb_procedure *pdb_find_procedure(const struct pdb_module_data *data, uint64_t place);

/* lines.c */
struct sp_error *pdb_read_c13(struct sp_pdb *pdb, struct pdb_module_data *data, struct sp_cursor c13);
/* The first lines subsection that may cover a place or what is behind it. */
size_t pdb_first_lines(const struct pdb_module_data *data, uint64_t place);
/* The row that holds for a place, which has a line; NULL = none. */
const struct pdb_row *pdb_find_row(const struct pdb_module_data *data, uint64_t place);
struct pdb_inlinee *pdb_find_inlinee(const struct pdb_module_data *data, uint32_t id);
/* The name of a file of a module, NULL when it has none. */
const char *pdb_file_name(struct sp_pdb *pdb, const struct pdb_module_data *data, uint32_t file);

/* inline.c */
/* Decodes a procedure's inline sites, once. NULL when there are none, or no memory (*ret_no_memory). */
const struct pdb_inlines *pdb_need_inlines(struct sp_pdb *pdb, const struct pdb_module_data *data,
                                           struct pdb_procedure *procedure, bool *ret_no_memory);

/* lookup.c */
struct pdb_frame {
	struct sp_dwarf_frame frame;
	uint32_t site; /* 0 = the procedure, else index of the inline site + 1 */
	uint32_t file; /* file ID */
};
struct pdb_frames { /* a vector */
	struct pdb_frame *items;
	size_t count, capacity;
};
/* The frames at a place of a module, outermost first; false without memory. */
bool pdb_frames_at(struct sp_pdb *pdb, const struct pdb_module_data *data, struct pdb_place place,
                   struct pdb_frames *ret);

/* type.c */
struct sp_error *pdb_open_types(struct sp_pdb *pdb, uint32_t stream, struct pdb_types *ret);
/* Names with scopes and parameters; they live as long as the PDB. NULL without memory. */
const char *pdb_procedure_name(struct sp_pdb *pdb, struct pdb_procedure *procedure);
const char *pdb_inlinee_name(struct sp_pdb *pdb, const struct pdb_module_data *data, uint32_t id);

/* pdb.c */
/* A copy of a string that lives as long as the PDB, once for equal strings. NULL without memory. */
const char *pdb_keep(struct sp_pdb *pdb, const char *text, size_t length);
/* The NUL-terminated string at an offset of a stream, kept where it lies or copied. NULL: not there or no memory. */
const char *pdb_stream_string(struct sp_pdb *pdb, uint32_t stream, uint32_t offset, uint32_t end);
/* The first module of a name, without regard to case; module_count when there is none. */
size_t pdb_module_by_name(struct sp_pdb *pdb, const char *name);

#endif
