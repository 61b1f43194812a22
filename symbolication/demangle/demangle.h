/* Names as people write them, from names as linkers see them. Internal to symbolication/. */
#ifndef SP_SYMBOLICATION_DEMANGLE_DEMANGLE_H
#define SP_SYMBOLICATION_DEMANGLE_DEMANGLE_H

#include "common/json.h"

#include <stdbool.h>
#include <stddef.h>

#define SP_DEMANGLE_INPUT_LIMIT ((size_t)64 << 10)
#define SP_DEMANGLE_OUTPUT_LIMIT ((size_t)1 << 20)

/* Appends the readable form of `name` to `out`, which the caller empties between names. Names that begin with '?' are
 * those of Visual C++; for others are tried, in this order: Rust (v0 and legacy, hash dropped), Itanium C++
 * (parameters, no return types), D, OCaml. A suffix from '@' on ("@plt", a symbol version) stays. False, with `out` as
 * it was, when the name is not mangled, is over the input limit, or its readable form is over the output limit: then
 * the name itself is the best there is. Thread-safe. */
bool sp_demangle(const char *name, struct sp_buffer *out);

/* As sp_demangle(), as other tools do: C++ with return types and Rust only. LLVM's spelling of C++ names differs in
 * more, which is not made here. */
enum sp_demangle_style { SP_DEMANGLE_PLAIN, SP_DEMANGLE_BINUTILS, SP_DEMANGLE_LLVM };
bool sp_demangle_as(const char *name, enum sp_demangle_style style, struct sp_buffer *out);

#endif
