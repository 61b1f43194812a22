/* DWARF: address -> function, file, line, inline chain. Internal to symbolication/.
 *
 * Two engines behind the same two calls: our own (dwarf.c and neighbours), and libdwarf in a limited child process
 * (libdwarf_child.c), the reference that tests compare with. */
#ifndef SP_SYMBOLICATION_DWARF_DWARF_H
#define SP_SYMBOLICATION_DWARF_DWARF_H

#include "common/error.h"
#include "symbolication/object/object.h"

#include <stdatomic.h>

struct sp_dwarf;

/* Files that complete `main`; borrowed, must outlive the sp_dwarf; any may be NULL. */
struct sp_dwarf_files {
	struct sp_object *main;          /* has .debug_info */
	struct sp_object *supplementary; /* dwz: .gnu_debugaltlink, or DWARF 5 .debug_sup */
	struct sp_object *package;       /* .dwp */
	/* Opens a .dwo that a skeleton unit names; may be NULL. `path` is as composed from comp_dir and dwo_name. The
	 * object belongs to the callee's side and lives as long as the sp_dwarf. */
	struct sp_object *(*open_dwo)(void *context, const char *path);
	void *context;
	unsigned helpers; /* threads that a look-up may start beside the caller's when it has much to decode */
	bool libdwarf;    /* answer by libdwarf in a child process (Unix only): names without scopes, no split units */
};

/* One frame as the debug information has it, names not demangled. Strings live as long as the sp_dwarf. */
struct sp_dwarf_frame {
	const char *linkage_name; /* mangled; NULL = none */
	const char *name;         /* DW_AT_name, qualified by namespaces where there is no linkage name; NULL = none */
	const char *file;         /* joined with folder and comp_dir; NULL = unknown */
	uint32_t line, column;    /* 0 = unknown */
};

/* What is found at one address: frames innermost first. */
struct sp_dwarf_answer {
	const struct sp_dwarf_frame *frames;
	size_t count;
};

/* Opens; cheap (no unit is decoded). */
struct sp_error *sp_dwarf_create(const struct sp_dwarf_files *files, struct sp_dwarf **ret);
void sp_dwarf_destroy(struct sp_dwarf *dwarf);

/* Looks up `count` svmas (not relative), sorted ascending. Calls `emit` once for each, in any order, maybe in
 * several threads at once; the answer is valid during the call, its strings longer. Thread-safe. A corrupt unit
 * costs that unit only; *ret_note (may be NULL) then gets a message that lives as long as the sp_dwarf. */
struct sp_error *sp_dwarf_lookup(struct sp_dwarf *dwarf, const uint64_t *addresses, size_t count,
                                 void (*emit)(void *context, size_t index, const struct sp_dwarf_answer *answer),
                                 void *context, const char **ret_note);

/* The discriminators of the rows that cover addresses, 0 = none. Line tables are decoded anew for it: it is for tools
 * that print them, not for speed. Ascending addresses take the least time. */
struct sp_error *sp_dwarf_discriminators(struct sp_dwarf *dwarf, const uint64_t *addresses, size_t count,
                                         uint32_t *ret);

struct sp_index_builder;

/* Gives all that the debug information says of addresses to the builder of an index, with addresses relative to `base`.
 * Works in `threads` threads, the caller's among them, and keeps nothing. Ends with SP_ERROR_CANCELLED soon after
 * *cancel is set. *ret_whole = no split unit was missing. *ret_note: NULL, or what was wrong with some of it; the
 * caller frees it. */
struct sp_error *sp_dwarf_compile(const struct sp_dwarf_files *files, uint64_t base, unsigned threads,
                                  const atomic_bool *cancel, struct sp_index_builder *builder, bool *ret_whole,
                                  char **ret_note);

/* Bytes of memory in parsed tables, for the memory budget. */
size_t sp_dwarf_memory(const struct sp_dwarf *dwarf);

#endif
