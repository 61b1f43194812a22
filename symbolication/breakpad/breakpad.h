/* Breakpad .sym files: text with functions, lines and inlined calls. Internal to symbolication/.
 *
 * The format is documented in Breakpad's docs/symbol_files.md. Opening reads the first lines only. The first question
 * makes an index of where each function, file name and inline origin stands; a function's lines are read when an
 * address in it is asked for. Addresses are relative to the module, which is how everything above counts, too. STACK
 * records are passed over. */
#ifndef SP_SYMBOLICATION_BREAKPAD_BREAKPAD_H
#define SP_SYMBOLICATION_BREAKPAD_BREAKPAD_H

#include "common/error.h"
#include "spsym.h"
#include "symbolication/dwarf/dwarf.h"
#include "symbolication/object/object.h"

#include <stdatomic.h>

struct sp_breakpad;

bool sp_breakpad_probe(const uint8_t *bytes, size_t size);
/* Opens bytes that outlive it. `name` is for messages. */
struct sp_error *sp_breakpad_open(const uint8_t *bytes, size_t size, const char *name, struct sp_breakpad **ret);
void sp_breakpad_destroy(struct sp_breakpad *breakpad);
const struct spsym_file_info *sp_breakpad_info(const struct sp_breakpad *breakpad);

/* As sp_dwarf_lookup(), for relative addresses. Names are as they stand in the file. */
struct sp_error *sp_breakpad_lookup(struct sp_breakpad *breakpad, const uint64_t *addresses, size_t count,
                                    void (*emit)(void *context, size_t index, const struct sp_dwarf_answer *answer),
                                    void *context);
/* Functions, then public symbols. The caller calls sp_symbols_deinit(). */
struct sp_error *sp_breakpad_symbols(struct sp_breakpad *breakpad, struct sp_symbols *ret);

struct sp_index_builder;
/* As sp_dwarf_compile(). */
struct sp_error *sp_breakpad_compile(struct sp_breakpad *breakpad, const atomic_bool *cancel,
                                     struct sp_index_builder *builder);
size_t sp_breakpad_memory(struct sp_breakpad *breakpad);

#endif
