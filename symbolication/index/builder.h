/* Compiles debug information of any format to the flat index (index.h). Internal to symbolication/.
 *
 * A reader makes a *part* for each unit of its format that stands alone (a DWARF compilation unit, a module of a PDB, a
 * whole Breakpad file) and tells it
 *   - nodes: functions (parent 0) and the calls that were inlined into them;
 *   - ranges: which addresses belong to a node. Where they overlap the node made last has the address, so a call wins
 *     over the function around it; the addresses of a call must be inside those of its parent;
 *   - rows: which addresses belong to a line of source. Where they overlap the row given last wins.
 * Any order is right; ranges and rows that come ascending and disjoint cost least. All addresses are relative to the
 * module. Where several parts claim an address, one with a function and a line is preferred, then one with a function,
 * then one with a line; of equals the part with the lowest `order`.
 *
 * Example, a function f at [0x10, 0x30) that calls g (inlined at [0x18, 0x20)) in its line 5:
 *   struct sp_index_part *part;
 *   sp_index_part_create(builder, 0, &part);
 *   uint32_t file = sp_index_part_file(part, "/src/f.c", 8);
 *   uint32_t f = sp_index_part_node(part, 0, sp_index_part_name(part, SP_INDEX_LINKAGE, "f", 1), NULL);
 *   struct sp_index_place call = { file, 5, 3 };
 *   uint32_t g = sp_index_part_node(part, f, sp_index_part_name(part, SP_INDEX_LINKAGE, "g", 1), &call);
 *   sp_index_part_range(part, f, 0x10, 0x30);
 *   sp_index_part_range(part, g, 0x18, 0x20);
 *   sp_index_part_row(part, 0x10, 0x30, &(struct sp_index_place){ file, 4, 1 });
 *   error = sp_index_part_finish(part);
 *
 * Threads: any number of them may make parts at the same time, each part in one thread. The rest is for one thread. */
#ifndef SP_SYMBOLICATION_INDEX_BUILDER_H
#define SP_SYMBOLICATION_INDEX_BUILDER_H

#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sp_index;
struct sp_index_builder;
struct sp_index_part;
struct sp_symbol_table;

/* How a name is shown. */
enum sp_index_name_kind {
	SP_INDEX_PLAIN,    /* as it is */
	SP_INDEX_LINKAGE,  /* demangled where it is mangled */
	SP_INDEX_NAMELESS, /* of symbols only: "fun_<address>" */
};

/* A place in the source. */
struct sp_index_place {
	uint32_t file;         /* of sp_index_part_file(); 0 = unknown */
	uint32_t line, column; /* 0 = unknown */
};

struct sp_error *sp_index_builder_create(struct sp_index_builder **ret);
void sp_index_builder_destroy(struct sp_index_builder *builder);

/* Begins a part. No two parts of a builder have the same order, which is below SP_INDEX_MAX_PARTS. */
#define SP_INDEX_MAX_PARTS (1u << 28)
struct sp_error *sp_index_part_create(struct sp_index_builder *builder, uint32_t order, struct sp_index_part **ret);
/* Drops a part that is not wanted. */
void sp_index_part_destroy(struct sp_index_part *part);

/* What follows reports a lack of memory, and what is too large, only at the part's end. */

/* Numbers of strings, which are copied; equal ones get the same number in all parts of a builder. 0 stands for "none",
 * and is what an empty string gets. */
uint32_t sp_index_part_name(struct sp_index_part *part, enum sp_index_name_kind kind, const char *name, size_t length);
uint32_t sp_index_part_file(struct sp_index_part *part, const char *path, size_t length);
/* A function, or a call inlined into `parent`; `call` is where the parent calls it (NULL for a function, or unknown).
 * Gives its number, never 0. */
uint32_t sp_index_part_node(struct sp_index_part *part, uint32_t parent, uint32_t name,
                            const struct sp_index_place *call);
void sp_index_part_range(struct sp_index_part *part, uint32_t node, uint64_t start, uint64_t end);
void sp_index_part_row(struct sp_index_part *part, uint64_t start, uint64_t end, const struct sp_index_place *place);
/* Limits the part to addresses that it claims; none = all. */
void sp_index_part_claim(struct sp_index_part *part, uint64_t start, uint64_t end);
/* Hands the part over to its builder; it is gone also when this fails. */
struct sp_error *sp_index_part_finish(struct sp_index_part *part);

/* Adds the module's symbol table. Once, after the last part. */
struct sp_error *sp_index_builder_symbols(struct sp_index_builder *builder, const struct sp_symbol_table *table);

/* Makes the index. `key` tells what it was made of (cache.h); `helper` = use a second thread. The builder is then empty
 * and can only be destroyed. */
struct sp_error *sp_index_builder_finish(struct sp_index_builder *builder, const char *key, bool helper,
                                         struct sp_index **ret);

#endif
