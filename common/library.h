/* Shared libraries that are loaded on first use: a command that does not need one does not pay for its start.
 *
 * A part lists the functions that it calls and gets a table of them; calls look as if the library were linked:
 *
 *	#define FUNCTIONS(X) X(cs_open) X(cs_close)
 *	static struct { FUNCTIONS(SP_LIBRARY_MEMBER) } capstone;
 *	#define cs_open capstone.cs_open
 *	#define cs_close capstone.cs_close
 *	static const struct sp_library_function functions[] = { FUNCTIONS(SP_LIBRARY_ENTRY) };
 *
 * The names of libraries, with their ABI version, come from the build (sp_soname() in CMakeLists.txt). */
#ifndef SP_COMMON_LIBRARY_H
#define SP_COMMON_LIBRARY_H

#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>

struct sp_library_function {
	const char *name;
	void *pointer; /* to the pointer that gets the function */
};

/* NOLINTBEGIN(bugprone-macro-parentheses): a declaration, and a name that # needs as it is */
#define SP_LIBRARY_MEMBER(function) __typeof__(function) *function;
#define SP_LIBRARY_ENTRY(function) { #function, &function },
/* NOLINTEND(bugprone-macro-parentheses) */

/* Loads the first of `names` (NULL-terminated) that is there, finds all functions, and keeps it for the life of the
 * process. SP_ERROR_UNSUPPORTED: it is not installed, or lacks a function. */
struct sp_error *sp_library_load(const char *const *names, const struct sp_library_function *functions, size_t count);

#endif
