/* The sorted symbol table of a module: which symbol covers an address. Internal to symbolication/.
 *
 * Several files and kinds of symbols go in, best first: full symbol table, dynamic symbols, PLT stubs, then functions
 * that only unwind tables know. Out comes one owner (or none) for each range between two neighbouring borders:
 * - of several symbols at one address the first one given wins;
 * - a sized symbol ends at its size, and one inside another gives the rest back to the outer one;
 * - a symbol without size ends at the next border of any kind;
 * - unwind functions count only where no sized symbol is; they end unsized neighbours;
 * - nothing reaches over the end of its section. */
#ifndef SP_SYMBOLICATION_SYMBOL_TABLE_H
#define SP_SYMBOLICATION_SYMBOL_TABLE_H

#include "common/error.h"
#include "common/vector.h"
#include "symbolication/object/object.h"

/* Raw names of functions that have none; the readable one is made from the address ("fun_1f00") or fixed. */
extern const char sp_symbol_no_name[];
extern const char sp_symbol_entry_point[];

struct sp_table_symbol {
	uint64_t start; /* relative address */
	uint64_t size;  /* as far as it reaches */
	const char *name;
};

struct sp_symbol_table {
	struct sp_table_symbol *symbols; /* owned; only those that own a range, in the order of their first range */
	size_t symbol_count;
	uint64_t *borders; /* owned, sorted */
	uint32_t *owners;  /* owned, one a border: index of the symbol up to the next border, UINT32_MAX = none */
	size_t border_count;
};

/* Collects what goes into a table. Zeroed storage is empty. All addresses are relative to the module. */
struct sp_table_builder {
	SP_VECTOR(struct sp_table_symbol) symbols;
	SP_VECTOR(struct sp_table_symbol) functions; /* unwind functions; no names */
	SP_VECTOR(uint64_t) stops;                   /* ends of sections */
	uint64_t entry;
	bool has_entry;
};

/* Adds the symbols, section ends and, when wanted, unwind functions of an object. `base` is the svma of relative
 * address 0 in this object; `symbols` receives the lists that own names and must live as long as the table. */
struct sp_error *sp_table_add_object(struct sp_table_builder *builder, struct sp_object *object, uint64_t base,
                                     bool functions, struct sp_symbols *symbols);
/* Adds a list of symbols. */
struct sp_error *sp_table_add_symbols(struct sp_table_builder *builder, const struct sp_symbols *symbols,
                                      uint64_t base);
/* Leaves only what decides about a few relative addresses: of these, the table that is then made says what the whole
 * one would say. Takes one look at each symbol, not the time to sort them. */
#define SP_TABLE_FEW 4
void sp_table_narrow(struct sp_table_builder *builder, const uint64_t *addresses, size_t count);
/* Makes the table; empties the builder, also on errors. */
struct sp_error *sp_table_finish(struct sp_table_builder *builder, struct sp_symbol_table *ret);
void sp_table_builder_deinit(struct sp_table_builder *builder);

void sp_symbol_table_deinit(struct sp_symbol_table *table);
/* The symbol that covers a relative address, or NULL. */
const struct sp_table_symbol *sp_symbol_table_find(const struct sp_symbol_table *table, uint64_t address);
size_t sp_symbol_table_memory(const struct sp_symbol_table *table);

#endif
