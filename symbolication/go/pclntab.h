/* Go's own table of functions and lines (.gopclntab), which is in every Go program, also in a stripped one: functions,
 * files, lines, inlined calls. Internal to symbolication/.
 *
 * The format has no document; it is what Go's runtime/symtab.go and debug/gosym read, in four versions, told apart by
 * the first four bytes: Go 1.2, 1.16, 1.18, 1.20. Inlined calls are known from Go 1.12 on. A file without section names
 * (PE, position-independent programs that the system's linker made) is searched for the table.
 *
 * All functions are thread-safe: nothing is kept but where things are. */
#ifndef SP_SYMBOLICATION_GO_PCLNTAB_H
#define SP_SYMBOLICATION_GO_PCLNTAB_H

#include "common/error.h"
#include "symbolication/dwarf/dwarf.h"
#include "symbolication/object/object.h"

#include <stdatomic.h>

struct sp_go;

/* Finds the table; *ret is NULL when the object, which must outlive it, is no Go program. A table that cannot be used
 * is an error. */
struct sp_error *sp_go_open(struct sp_object *object, struct sp_go **ret);
void sp_go_destroy(struct sp_go *go);
/* The first version of Go that wrote this form of the table: "1.18". */
const char *sp_go_version(const struct sp_go *go);

/* As sp_dwarf_lookup(), one call of `emit` after the other. */
struct sp_error *sp_go_lookup(const struct sp_go *go, const uint64_t *addresses, size_t count,
                              void (*emit)(void *context, size_t index, const struct sp_dwarf_answer *answer),
                              void *context);
/* All functions. The caller calls sp_symbols_deinit(). */
struct sp_error *sp_go_symbols(const struct sp_go *go, struct sp_symbols *ret);

struct sp_index_builder;
/* As sp_dwarf_compile(). */
struct sp_error *sp_go_compile(const struct sp_go *go, uint64_t base, const atomic_bool *cancel,
                               struct sp_index_builder *builder);

#endif
