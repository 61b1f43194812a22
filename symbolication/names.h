/* Readable names, each made once. Internal to symbolication/.
 *
 * The key is the pointer of the raw name, which stays the same for as long as the symbol file is open, so that a known
 * name costs one probe without a lock; equal names at different pointers share their readable form. */
#ifndef SP_SYMBOLICATION_NAMES_H
#define SP_SYMBOLICATION_NAMES_H

#include <stdbool.h>
#include <stddef.h>

struct sp_names;

/* NULL without memory. `raw` = leave all names as they are. */
struct sp_names *sp_names_create(bool raw);
void sp_names_destroy(struct sp_names *names);

/* The readable form of `name`, which must outlive `names`; lives as long as `names`. Without memory the name itself.
 * Thread-safe. */
const char *sp_names_get(struct sp_names *names, const char *name);

/* A copy of a string that is no raw name of a file, made once for equal strings; NULL without memory. Thread-safe. */
const char *sp_names_copy(struct sp_names *names, const char *string);

/* The readable form of a name that does not outlive the call, made once for equal ones; NULL without memory.
 * Thread-safe. */
const char *sp_names_readable(struct sp_names *names, const char *name);

size_t sp_names_memory(const struct sp_names *names);

#endif
