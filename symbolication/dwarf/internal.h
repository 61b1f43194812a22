/* What the files of the DWARF engine share.
 *
 * The engine is lazy: opening reads nothing; an address leads through .debug_aranges to one compilation unit, whose
 * tables (functions, line rows, names) are made at first touch and published with an atomic store, so that readers
 * never wait for a lock once a table exists. Tables are plain sorted arrays.
 *
 * Trust: all offsets come from the file. Reads go through sp_cursor; what a file could make us do again and again
 * (walk a unit, read a list, run a line program) is paid from a budget that grows only with the size of the sections
 * (dw_spend()), so the work done for a file is linear in its size whatever it says. */
#ifndef SP_SYMBOLICATION_DWARF_INTERNAL_H
#define SP_SYMBOLICATION_DWARF_INTERNAL_H

#include "common/arena.h"
#include "common/cursor.h"
#include "common/error.h"
#include "common/map.h"
#include "common/vector.h"
#include "constants.h"
#include "dwarf.h"
#include "symbolication/interval.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define DW_MAX_ATTRIBUTES 1024      /* of one abbreviation */
#define DW_MAX_DEPTH 1024           /* nesting of DIEs that is followed */
#define DW_MAX_REFERENCES 16        /* length of a chain of references from a DIE to its name */
#define DW_MAX_NAME 4096            /* bytes of a qualified name or joined path */
#define DW_MAX_UNIT UINT32_MAX      /* bytes of a unit: offsets inside one are 32 bits in our tables */
#define DW_MAX_INTERVALS (1u << 22) /* inlined ranges of one function */

struct dw_bytes {
	const uint8_t *bytes;
	size_t size;
};

/* ---- Files and sections (file.c) ---- */

enum dw_section_id {
	DW_INFO,
	DW_TYPES,
	DW_ABBREV,
	DW_LINE,
	DW_STR,
	DW_LINE_STR,
	DW_STR_OFFSETS,
	DW_ADDR,
	DW_RANGES,
	DW_RNGLISTS,
	DW_ARANGES,
	DW_CU_INDEX,
	DW_TU_INDEX,
	DW_SECTION_COUNT
};

struct dw_section {
	atomic_bool loaded;
	struct dw_bytes data;
	size_t string_size;               /* strings that start below this end inside the section */
	const struct sp_section *growing; /* it is still being inflated: wait before reading; NULL = all is there */
};

/* What work is paid from; each has its own budget. */
enum dw_work { DW_WORK_DIES, DW_WORK_LINES, DW_WORK_RANGES, DW_WORK_ABBREVS, DW_WORK_COUNT };

/* One object file with debug sections: the main file, the supplementary one, a package, a .dwo. */
struct dw_file {
	struct sp_dwarf *dwarf;
	struct sp_object *object;
	struct dw_file *supplementary; /* where GNU_ref_alt and the like lead; NULL = not there */
	bool split;                    /* its sections are the .dwo ones */
	bool any_address;              /* relocatable: address 0 is an address like any other */
	bool big_endian;
	uint64_t code_start, code_end; /* bounds of the executable sections; equal = unknown */
	atomic_size_t lists_wanted;    /* lists of ranges up to this offset will be there soon */
	pthread_mutex_t section_lock;  /* for loading */
	struct dw_section sections[DW_SECTION_COUNT];
	pthread_mutex_t lock;      /* for the maps below; held for look-ups and insertions only */
	struct sp_map units;       /* offset * 2 + (in .debug_types) -> struct dw_unit * */
	struct sp_map abbrevs;     /* dw_abbrevs_key() -> struct dw_abbrevs * */
	struct sp_map line_tables; /* offset in .debug_line -> struct dw_lines * */
	pthread_mutex_t list_lock; /* for making the list */
	_Atomic(struct dw_unit_list *) list;
};

struct sp_error *dw_file_create(struct sp_dwarf *dwarf, struct sp_object *object, bool split, struct dw_file **ret);
void dw_file_destroy(struct dw_file *file);
/* The bytes of a section, empty when it is absent or unreadable (which makes a note). */
const struct dw_section *dw_section(struct dw_file *file, enum dw_section_id id);
/* Waits until the first `end` bytes of .debug_info are there. False, and a note, when they can't be read. */
bool dw_info_wait(struct dw_file *file, uint64_t end);
/* Tells that bytes of a section will be read soon: from the disk, where little else of the file is wanted. */
static inline void dw_want(const struct dw_file *file, const uint8_t *bytes, size_t size)
{
	sp_object_want(file->object, bytes, size);
}
/* A string in a string section; NULL when the offset is outside. */
const char *dw_section_string(struct dw_file *file, enum dw_section_id id, uint64_t offset);
/* False for the addresses that linkers put where code was dropped, and whatever else is outside of the code. */
bool dw_is_code(const struct dw_file *file, uint64_t address);

/* ---- Abbreviations (abbrev.c) ---- */

enum dw_abbrev_flags {
	DW_ABBREV_DEFINED = 1,
	DW_ABBREV_CHILDREN = 2,
	DW_ABBREV_RANGES = 4,       /* has DW_AT_low_pc or DW_AT_ranges */
	DW_ABBREV_SIBLING = 8,      /* has a DW_AT_sibling of form ref4 at the constant offset `sibling` */
	DW_ABBREV_FAR_SIBLING = 32, /* has one somewhere else */
	DW_ABBREV_DECLARATION = 16  /* has DW_AT_declaration */
};

struct dw_attribute {
	uint16_t name; /* enum dw_at; 0 = one that is too large to be known */
	uint16_t form;
	uint32_t constant; /* for implicit_const: index in dw_abbrevs.constants */
};

#define DW_SIZE_VARIES UINT32_MAX

struct dw_abbrev {
	uint32_t first;   /* attribute */
	uint32_t program; /* offset of its skip program in dw_abbrevs.programs */
	uint32_t size;    /* bytes of all attributes, or DW_SIZE_VARIES */
	uint16_t count;   /* of attributes */
	uint16_t tag;     /* 0 = one that is too large to be known */
	uint16_t sibling;
	uint16_t flags;
};

/* One table of abbreviations, compiled for units of one address size, offset size and kind. */
struct dw_abbrevs {
	/* By code, for the loops over all DIEs: the size of the attributes + 1 where a DIE's size is fixed and neither
	 * it nor what is below it needs a look; else 0. Code 0, the end of a list of children, counts as such a DIE. */
	uint32_t *steps;         /* when looking for functions */
	uint32_t *child_steps;   /* when levels are counted: of those only DIEs without children; none for code 0 */
	struct dw_abbrev *dense; /* by code; DW_ABBREV_DEFINED tells the holes */
	uint64_t dense_count;
	struct sp_map sparse; /* code -> index in `sparse_items` */
	SP_VECTOR(struct dw_abbrev) sparse_items;
	SP_VECTOR(struct dw_attribute) attributes;
	SP_VECTOR(int64_t) constants;
	SP_VECTOR(uint8_t) programs;
};

/* The table at an offset of `bytes` (.debug_abbrev, or a part of it); cached in the file. */
struct sp_error *dw_abbrevs_get(struct dw_file *file, struct dw_bytes bytes, uint64_t offset, unsigned address_size,
                                unsigned offset_size, unsigned version, const struct dw_abbrevs **ret);
void dw_abbrevs_destroy(struct dw_abbrevs *abbrevs);
const struct dw_abbrev *dw_abbrev_sparse(const struct dw_abbrevs *abbrevs, uint64_t code);

/* NULL for a code without abbreviation. */
static inline const struct dw_abbrev *dw_abbrev_find(const struct dw_abbrevs *abbrevs, uint64_t code)
{
	if (code < abbrevs->dense_count && abbrevs->dense[code].flags & DW_ABBREV_DEFINED)
		return &abbrevs->dense[code];
	return dw_abbrev_sparse(abbrevs, code);
}

/* Reads the code of a DIE; the caller has checked that there is a byte. 0 and *ret_bad when it is cut short. */
static inline uint64_t dw_read_code(const uint8_t **at, const uint8_t *end, bool *ret_bad)
{
	uint8_t byte = *(*at)++;
	uint64_t code = byte & 0x7f;
	for (unsigned shift = 7; byte & 0x80; shift += 7) {
		if (*at == end || shift > 63) {
			*ret_bad = true;
			return 0;
		}
		byte = *(*at)++;
		code |= (uint64_t)(byte & 0x7f) << shift;
	}
	return code;
}

/* Moves over DIEs as far as `steps` knows their sizes, and their codes are of one or two bytes. Which of the two is not
 * branched on: it is as good as random, and a processor that guesses wrong stands still for longer than a step takes.
 */
static inline const uint8_t *dw_steps(const uint32_t *steps, uint64_t count, const uint8_t *at, const uint8_t *end)
{
	while (end - at >= 2) {
		uint32_t first = at[0], second = at[1], two = first >> 7;
		uint32_t code = (first & 0x7f) | ((second & 0x7f) << 7 & (0 - two));
		if ((two & second >> 7) || code >= count)
			break;
		size_t step = steps[code];
		if (!step || step + two > (size_t)(end - at))
			break;
		at += step + two; /* a step is one more than the size of the attributes: the first byte of the code */
	}
	return at;
}

/* Moves over DIEs that have no children and are no functions or calls. */
static inline void dw_step_over(const struct dw_abbrevs *abbrevs, struct sp_cursor *c)
{
	const uint8_t *at = dw_steps(abbrevs->child_steps, abbrevs->dense_count, c->at, c->end), *end = c->end;
	while (at < end) {
		const uint8_t *start = at;
		bool bad = false;
		uint64_t code = dw_read_code(&at, end, &bad);
		uint32_t step = code < abbrevs->dense_count ? abbrevs->child_steps[code] : 0;
		if (!step || step - 1 > (size_t)(end - at)) {
			at = start;
			break;
		}
		at += step - 1;
	}
	c->at = at;
}

/* Is it a DIE that looking for functions stops at? */
static inline bool dw_abbrev_is_function(const struct dw_abbrev *abbrev)
{
	return abbrev->tag == DW_TAG_subprogram && abbrev->flags & DW_ABBREV_RANGES;
}

/* A DIE whose children are skipped, where it says how: types that hold no functions, and declarations of functions. */
static inline bool dw_abbrev_is_hollow(const struct dw_abbrev *abbrev)
{
	switch (abbrev->tag) {
	case DW_TAG_array_type:
	case DW_TAG_enumeration_type:
	case DW_TAG_subroutine_type:
		return true;
	case DW_TAG_subprogram:
		return abbrev->flags & DW_ABBREV_DECLARATION && !(abbrev->flags & DW_ABBREV_RANGES);
	default:
		return false;
	}
}

struct dw_unit;

/* Moves over the attributes of a DIE; the cursor goes bad at the end of the unit. */
void dw_skip_program(struct sp_cursor *c, const struct dw_unit *unit, const uint8_t *program);

static inline void dw_skip_attributes(struct sp_cursor *c, const struct dw_unit *unit, const struct dw_abbrevs *abbrevs,
                                      const struct dw_abbrev *abbrev)
{
	if (abbrev->size != DW_SIZE_VARIES)
		sp_cursor_skip(c, abbrev->size);
	else
		dw_skip_program(c, unit, abbrevs->programs.items + abbrev->program);
}

/* ---- Attribute values (form.c) ---- */

struct dw_value {
	uint16_t form;        /* 0 = the attribute is absent */
	uint64_t u;           /* number, offset, index, reference or block size; a signed one in two's complement */
	const uint8_t *bytes; /* of a block or string */
};

/* A DIE: `offset` counts from the start of the unit's header. */
struct dw_die {
	struct dw_unit *unit;
	uint64_t offset;
};

/* Reads one value; the cursor goes bad when it is cut short or of an unknown form. */
void dw_read_value(struct sp_cursor *c, const struct dw_unit *unit, unsigned form, int64_t constant,
                   struct dw_value *ret);
/* As dw_read_value() for one of the unit's attributes. */
static inline void dw_read_attribute(struct sp_cursor *c, const struct dw_unit *unit,
                                     const struct dw_attribute *attribute, struct dw_value *ret);
/* The value as text, NULL when it is none or its section lacks it. */
const char *dw_value_string(const struct dw_unit *unit, const struct dw_value *value);
bool dw_value_is_address(const struct dw_value *value);
bool dw_value_address(const struct dw_unit *unit, const struct dw_value *value, uint64_t *ret);
/* False when it is no reference, or leads nowhere. */
bool dw_value_die(const struct dw_unit *unit, const struct dw_value *value, struct dw_die *ret);
/* Entry `index` of .debug_addr for the unit. */
bool dw_indexed_address(const struct dw_unit *unit, uint64_t index, uint64_t *ret);

/* ---- Units (unit.c) ---- */

struct dw_unit {
	struct dw_file *file;
	struct dw_unit *skeleton; /* of a split unit: where its addresses, ranges and lines are; else NULL */
	struct dw_bytes bytes;    /* from the header to the end */
	uint64_t offset;          /* of the header in its section */
	uint32_t first_die;       /* offset of the root DIE from the header */
	bool in_types;            /* in .debug_types */
	uint8_t version, address_size, offset_size;
	uint8_t type;       /* enum dw_unit_type; before version 5 inferred */
	uint64_t signature; /* of a type unit; of a skeleton or split unit the dwo ID */
	uint32_t type_die;  /* of a type unit: offset of the type */
	const struct dw_abbrevs *abbrevs;
	/* Parts of sections that belong to the unit: all of the section, or what a package's index says. */
	struct dw_bytes str_offsets, rnglists;
	uint64_t str_offsets_base, addr_base, rnglists_base, ranges_base;

	/* From the root DIE. */
	uint16_t root_tag, language;
	const char *name, *comp_dir, *dwo_name; /* NULL = none */
	uint64_t low_pc;                        /* 0 = none */
	struct dw_value low, high, ranges;      /* as they stand there */
	bool has_lines;
	uint64_t lines_offset; /* in .debug_line */

	pthread_mutex_t lock;            /* for making the tables below */
	_Atomic(struct dw_unit *) split; /* of a skeleton: its split unit; itself when there is none */
	_Atomic(struct dw_functions *) functions;
	_Atomic(struct dw_lines *) lines;
	_Atomic(struct dw_paths *) paths;
	_Atomic(struct dw_names *) names;
	_Atomic(struct dw_scopes *) scopes;
	atomic_uint qualified; /* names for which scopes were looked for without that table */
};

struct dw_unit_entry {
	uint64_t offset, end;
	uint64_t signature; /* of type units */
	uint8_t type;       /* enum dw_unit_type; 0 = before version 5 */
};

/* All units of a file by their headers. */
struct dw_unit_list {
	struct dw_unit_entry *entries; /* of .debug_info, ascending; then those of .debug_types */
	size_t info_count, count;
	struct sp_map signatures; /* -> index of the type unit */
};

/* What a package's index gives for a unit. */
struct dw_contribution {
	struct dw_bytes info, abbrev, str_offsets, rnglists;
};

/* The unit whose header is at an offset; made when not yet there. */
struct sp_error *dw_unit_get(struct dw_file *file, bool in_types, uint64_t offset, struct dw_unit **ret);
/* As dw_unit_get() for a unit of a package. `part` NULL: the whole sections. */
struct sp_error *dw_unit_get_part(struct dw_file *file, bool in_types, uint64_t offset,
                                  const struct dw_contribution *part, struct dw_unit *skeleton, struct dw_unit **ret);
void dw_unit_destroy(struct dw_unit *unit);
struct sp_error *dw_unit_list_get(struct dw_file *file, const struct dw_unit_list **ret);
/* The unit of .debug_info that holds an offset of the section; NULL when there is none. */
struct dw_unit *dw_unit_containing(struct dw_file *file, uint64_t offset);
/* NULL when there is none. */
struct dw_unit *dw_type_unit(struct dw_file *file, uint64_t signature);
/* A cursor over the unit's bytes at an offset from its header. */
static inline struct sp_cursor dw_unit_cursor(const struct dw_unit *unit, uint64_t offset)
{
	struct sp_cursor c = sp_cursor_init(unit->bytes.bytes, unit->bytes.size);
	c.big_endian = unit->file->big_endian;
	sp_cursor_seek(&c, offset);
	return c;
}

static inline void dw_read_attribute(struct sp_cursor *c, const struct dw_unit *unit,
                                     const struct dw_attribute *attribute, struct dw_value *ret)
{
	unsigned form = attribute->form;
	/* The forms that hot DIEs are full of. */
	switch (form) {
	case DW_FORM_data1:
		*ret = (struct dw_value){ .form = DW_FORM_data1, .u = sp_cursor_u8(c) };
		return;
	case DW_FORM_data2:
		*ret = (struct dw_value){ .form = DW_FORM_data2, .u = sp_cursor_u16(c) };
		return;
	case DW_FORM_ref4:
		*ret = (struct dw_value){ .form = DW_FORM_ref4, .u = sp_cursor_u32(c) };
		return;
	case DW_FORM_addr:
		if (unit->address_size != 8)
			break;
		*ret = (struct dw_value){ .form = DW_FORM_addr, .u = sp_cursor_u64(c) };
		return;
	case DW_FORM_data8:
		*ret = (struct dw_value){ .form = DW_FORM_data8, .u = sp_cursor_u64(c) };
		return;
	case DW_FORM_data4:
		*ret = (struct dw_value){ .form = DW_FORM_data4, .u = sp_cursor_u32(c) };
		return;
	case DW_FORM_sec_offset:
		if (unit->offset_size != 4)
			break;
		*ret = (struct dw_value){ .form = DW_FORM_sec_offset, .u = sp_cursor_u32(c) };
		return;
	case DW_FORM_implicit_const:
		*ret = (struct dw_value){ .form = DW_FORM_implicit_const,
			                  .u = (uint64_t)unit->abbrevs->constants.items[attribute->constant] };
		return;
	default:
		break;
	}
	dw_read_value(c, unit, form, 0, ret);
}

/* The unit that has the DIEs: the split unit of a skeleton where it can be found, else the unit itself. */
struct dw_unit *dw_unit_with_dies(struct dw_unit *unit);
/* A type unit of a package; NULL when there is none. */
struct dw_unit *dw_package_type_unit(struct dw_file *package, uint64_t signature);

/* ---- Ranges (ranges.c) ---- */

struct dw_range {
	uint64_t start, end;
};
struct dw_ranges { /* an SP_VECTOR */
	struct dw_range *items;
	size_t count, capacity;
};

/* Appends the ranges that DW_AT_low_pc, DW_AT_high_pc and DW_AT_ranges of a DIE stand for; empty, inverted and dropped
 * ones are left out. */
struct sp_error *dw_ranges_read(const struct dw_unit *unit, const struct dw_value *low, const struct dw_value *high,
                                const struct dw_value *ranges, struct dw_ranges *ret);

/* ---- Overlapping intervals (tree.c) ---- */

/* qsort(), for which no items may be NULL. */
static inline void dw_sort(void *items, size_t count, size_t size, int (*compare)(const void *, const void *))
{
	if (count > 1)
		qsort(items, count, size, compare);
}

/* All of the intervals kept: finds every one that holds an address. */
struct dw_tree {
	struct sp_interval *intervals; /* owned; sorted by start */
	uint64_t *ends; /* owned; the highest end of the subtree whose root is in the middle of its range */
	size_t count;
};
/* Takes over `intervals`, also when it fails. */
struct sp_error *dw_tree_init(struct dw_tree *tree, struct sp_interval *intervals, size_t count);
void dw_tree_deinit(struct dw_tree *tree);
/* Appends the ids to a vector that has SP_VECTOR's layout; false without memory. */
struct dw_ids { /* an SP_VECTOR */
	uint32_t *items;
	size_t count, capacity;
};
bool dw_tree_find(const struct dw_tree *tree, uint64_t address, struct dw_ids *ret);

/* ---- Lines (line.c) ---- */

struct dw_line_file {
	const char *name; /* NULL = unreadable */
	uint64_t folder;  /* index as in the file */
};

/* One line program: rows that repeat the one before are dropped, the rest is two arrays. */
struct dw_lines {
	uint16_t version;
	struct sp_interval *pieces; /* of sequences; id = index in `sequences`. Disjoint */
	size_t piece_count;
	struct dw_sequence *sequences;
	size_t sequence_count;
	uint32_t *deltas; /* of a row: its address less the sequence's start */
	uint64_t *places; /* of a row: packed, see line.c */
	struct dw_place *wide;
	size_t row_count;
	const char **folders; /* as in the file: without DWARF 2-4's implied entry 0 */
	size_t folder_count;
	struct dw_line_file *files; /* likewise */
	size_t file_count;
};

struct dw_sequence {
	uint64_t start, end;
	uint32_t first, count; /* rows */
};

struct dw_place {
	uint32_t file, line, column;
};

/* The unit's line table; NULL when it has none. Made at first use, shared by the units that name the same offset. */
struct sp_error *dw_lines_get(struct dw_unit *unit, const struct dw_lines **ret);
/* As dw_lines_get(), but the table is the caller's. */
struct sp_error *dw_lines_create(struct dw_unit *unit, struct dw_lines **ret);
/* As dw_lines_create(), with discriminators in the place of columns. NULL when there is no table. */
struct sp_error *dw_discriminators_create(struct dw_unit *unit, struct dw_lines **ret);
void dw_lines_destroy(struct dw_lines *lines);
/* What an item of `places` says. */
void dw_lines_unpack(const struct dw_lines *lines, uint64_t packed, struct dw_place *ret);
/* The row that covers an address; false when none does. */
bool dw_lines_find(const struct dw_lines *lines, uint64_t address, struct dw_place *ret);
/* A file of the line table, as a path that lives as long as the sp_dwarf; NULL when unknown. False without memory. */
bool dw_unit_path(struct dw_unit *unit, const struct dw_lines *lines, uint64_t file, const char **ret);
/* As dw_unit_path(), into a buffer of DW_MAX_NAME; no NUL. False when unknown. */
bool dw_join_path(const struct dw_unit *unit, const struct dw_lines *lines, uint64_t file, char *buffer,
                  size_t *ret_length);
void dw_paths_destroy(struct dw_paths *paths);

/* ---- Functions and inlined calls (function.c) ---- */

#define DW_NO_NODE UINT32_MAX

/* A function body in another one. Node 0 stands for the function itself. */
struct dw_inline {
	uint32_t
	    origin; /* offset in the unit of the DIE that it is an instance of; or DW_FOREIGN + index in `foreign` */
	uint32_t parent;             /* node */
	uint32_t file, line, column; /* of the call, as in the unit's line table */
};
#define DW_FOREIGN 0x80000000u

/* What is inlined where in one function; one allocation. */
struct dw_inlines {
	uint64_t base;             /* starts[] count from here */
	struct dw_die *foreign;    /* origins in other units */
	struct dw_inline *inlines; /* those that some start leads to */
	uint32_t *starts;          /* ascending */
	uint32_t *nodes;           /* the innermost node from that start on; DW_NO_NODE = outside of the function */
	uint32_t start_count, inline_count;
};

struct dw_function {
	uint32_t die; /* offset in the unit */
	_Atomic(struct dw_inlines *) inlines;
};

struct dw_functions {
	struct sp_interval *pieces; /* disjoint; id = index in `functions` */
	size_t piece_count;
	struct dw_function *functions;
	size_t count;
};

/* The functions of a unit that has DIEs. */
struct sp_error *dw_functions_get(struct dw_unit *unit, const struct dw_functions **ret);
/* As dw_functions_get(), but the table is the caller's. */
struct sp_error *dw_functions_create(const struct dw_unit *unit, struct dw_functions **ret);
void dw_functions_destroy(struct dw_functions *functions);
/* What is inlined in function `index`. */
struct sp_error *dw_inlines_get(struct dw_unit *unit, const struct dw_functions *functions, uint32_t index,
                                const struct dw_inlines **ret);
/* The innermost node at an address, DW_NO_NODE when it is not in the function. */
uint32_t dw_inlines_find(const struct dw_inlines *inlines, uint64_t address);

/* ---- Names (name.c) ---- */

struct dw_name {
	const char *linkage; /* mangled; NULL = none */
	const char *name;    /* NULL = none */
};

/* The name of a function's DIE or of what it is an instance of. Cached in the unit. */
struct sp_error *dw_name_get(struct dw_die die, struct dw_name *ret);
/* As dw_name_get(), without the cache. */
struct sp_error *dw_name_find(struct dw_die die, struct dw_name *ret);
/* The same in two steps, for many names of a unit: first what the DIE and those that it refers to say. True = scopes
 * belong in front of the name, those around *ret_last. Then these; a walker of the unit makes that fast when it is
 * taken from one DIE to the next one in the order of the file. It is freed with free(); NULL without memory. */
struct dw_walker;
bool dw_name_follow(struct dw_die die, struct dw_name *ret, struct dw_die *ret_last);
struct sp_error *dw_name_qualify(struct dw_die die, struct dw_walker *walker, struct dw_name *name);
struct dw_walker *dw_walker_create(const struct dw_unit *unit);
void dw_names_destroy(struct dw_names *names);
void dw_scopes_destroy(struct dw_scopes *scopes);

/* ---- From address to unit (map.c) ---- */

/* Which units claim an address. */
struct dw_map {
	struct dw_tree tree;       /* ids: index in `units` */
	struct dw_map_unit *units; /* ascending by offset */
	size_t count;
};

struct dw_map_unit {
	uint64_t offset;
	_Atomic(struct dw_unit *) unit;
};

/* The units that .debug_aranges names for addresses in [first, last]; then all the others, which costs a look at every
 * unit. */
struct sp_error *dw_map_by_aranges(struct sp_dwarf *dwarf, uint64_t first, uint64_t last, struct dw_map **ret);
struct sp_error *dw_map_by_units(struct sp_dwarf *dwarf, const struct dw_map *known, struct dw_map **ret);
/* One of the two, made at first use. */
struct sp_error *dw_map_get(struct sp_dwarf *dwarf, bool by_units, const struct dw_map **ret);
/* Opens a unit of a map; *ret is NULL when it is corrupt. */
struct sp_error *dw_map_unit_get(struct sp_dwarf *dwarf, struct dw_map_unit *slot, struct dw_unit **ret);
void dw_map_destroy(struct dw_map *map);
size_t dw_map_memory(const struct dw_map *map);

/* ---- One address (dwarf.c), many (batch.c) ---- */

/* What one unit knows of an address. */
struct dw_match {
	struct dw_unit *unit, *dies; /* NULL unit = no match */
	const struct dw_functions *functions;
	const struct sp_interval *function; /* NULL = none */
	const struct dw_lines *lines;       /* may be NULL */
	struct dw_place place;
	bool has_place;
};

/* Names of one unit that are dropped with it. */
struct dw_local_names {
	struct sp_map numbers; /* offset of a DIE -> index */
	SP_VECTOR(struct dw_name) items;
};

/* Scratch of one call in one thread. */
struct dw_search {
	struct sp_dwarf *dwarf;
	struct dw_ids ids;
	SP_VECTOR(struct sp_dwarf_frame) frames;
	struct dw_local_names *names; /* NULL: the units' own caches are used */
};

/* Fills in a match whose unit and tables are set. */
void dw_match_tables(struct dw_match *match, uint64_t address);
/* 3 = a function and a line; 2 = a function; 1 = a line; 0 = nothing. */
static inline int dw_match_rank(const struct dw_match *match)
{
	return match->unit ? (match->function ? 2 : 0) + match->has_place : 0;
}
/* Appends the frames of a match to search->frames, the innermost first. */
struct sp_error *dw_make_frames(struct dw_search *search, const struct dw_match *match, uint64_t address);
/* Puts the frames at an address in search->frames. */
struct sp_error *dw_look_up(struct dw_search *search, uint64_t address);
int dw_compare_ids(const void *a, const void *b);
/* sp_dwarf_lookup() that keeps no tables of units. */
struct sp_error *dw_look_up_batch(struct sp_dwarf *dwarf, const uint64_t *addresses, size_t count,
                                  void (*emit)(void *context, size_t index, const struct sp_dwarf_answer *answer),
                                  void *context, const char **ret_note);

/* ---- The whole (dwarf.c) ---- */

#define DW_MAX_HELPERS 8 /* threads of one look-up */

struct dw_child;

struct sp_dwarf {
	struct dw_child *child; /* the other engine, which then gives all answers; NULL = ours */
	struct dw_file *main, *supplementary, *package;
	struct sp_object *(*open_dwo)(void *context, const char *path);
	void *context;

	_Atomic(struct dw_map *) by_aranges, by_units;
	pthread_mutex_t map_lock; /* for making them */
	atomic_uint scans;        /* look-ups that went through .debug_aranges instead */
	pthread_mutex_t dwo_lock;
	struct sp_map dwo_files; /* hash of a path -> struct dw_file *, 0 = not there */
	pthread_mutex_t string_lock;
	struct sp_arena strings;  /* paths and qualified names */
	struct sp_map string_map; /* hash of a string -> the string */

	unsigned helpers;
	atomic_bool batched;                  /* a large look-up came before: the next one keeps tables */
	atomic_size_t decoded;                /* tables of units that were made */
	_Atomic(char *) note;                 /* the first complaint */
	atomic_size_t memory;                 /* bytes of tables */
	_Atomic(int64_t) work[DW_WORK_COUNT]; /* what is left */
};

/* Keeps the first complaint. */
void dw_note(struct sp_dwarf *dwarf, const char *format, ...) SP_PRINTF(2, 3);
/* Takes `amount` from a budget; false, and a note, when it is used up. */
bool dw_spend(struct sp_dwarf *dwarf, enum dw_work work, uint64_t amount);
static inline void dw_count_memory(struct sp_dwarf *dwarf, size_t size)
{
	atomic_fetch_add_explicit(&dwarf->memory, size, memory_order_relaxed);
}
/* A copy of a string that lives as long as `dwarf`, equal ones shared; NULL without memory. */
const char *dw_keep_string(struct sp_dwarf *dwarf, const char *string, size_t length);

#endif
