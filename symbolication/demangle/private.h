/* The demanglers of single languages; their contract is sp_demangle()'s. `name` is NUL-terminated at `length`. */
#ifndef SP_SYMBOLICATION_DEMANGLE_PRIVATE_H
#define SP_SYMBOLICATION_DEMANGLE_PRIVATE_H

#include "symbolication/demangle/demangle.h"

/* "?f@ns@@YAXH@Z" -> "ns::f(int)". */
bool sp_demangle_msvc(const char *name, size_t length, struct sp_buffer *out);
bool sp_demangle_d(const char *name, size_t length, struct sp_buffer *out);
/* "camlStdlib__array__map_154" -> "Stdlib.array.map_154". */
bool sp_demangle_ocaml(const char *name, size_t length, struct sp_buffer *out);

#endif
