/* libdwarf in a child process: what its two files share. The parent (libdwarf_child.c) hands over sections that it has
 * decompressed and takes back bytes; the child (libdwarf_engine.c) asks libdwarf. */
#ifndef SP_SYMBOLICATION_DWARF_LIBDWARF_CHILD_H
#define SP_SYMBOLICATION_DWARF_LIBDWARF_CHILD_H

#include "common/error.h"
#include "common/limited.h"
#include "common/vector.h"
#include "dwarf.h"

struct dw_child_section {
	const char *name; /* the ELF spelling: ".debug_info" */
	const uint8_t *bytes;
	uint64_t size;
};

#define DW_CHILD_SECTIONS 16

struct dw_child_file {
	struct dw_child_section sections[DW_CHILD_SECTIONS];
	size_t section_count;
	unsigned address_size;
	bool big_endian;
};

/* What the child works on; all of it is read only there. */
struct dw_child_job {
	struct dw_child_file main, supplementary; /* no sections = not there */
	uint64_t code_start, code_end;            /* bounds of the code; equal = unknown */
	const uint64_t *addresses;
	size_t count;
};

/* What the child writes: for each answer the index of its address, the number of frames, and for each frame linkage
 * name, name, file, line and column. Numbers are 32 bits of this machine; texts are a length + 1 (0 = none) and the
 * bytes. An answer takes the place of an earlier one to the same address. At the end stands DW_CHILD_END. */
#define DW_CHILD_END UINT32_MAX

void dw_child_put_number(struct sp_limited_output *out, uint32_t number);
void dw_child_put_text(struct sp_limited_output *out, const char *text);

/* Loads libdwarf unless it is there: before the child is made, which must not load anything. */
struct sp_error *dw_child_need_libdwarf(void);

/* Answers the job. False when libdwarf can't open the file, or without memory. Only in a child process. */
bool dw_child_answer(const struct dw_child_job *job, struct sp_limited_output *out);

/* The engine in the parent: the two calls of dwarf.h. */
struct dw_child;
struct sp_error *dw_child_create(const struct sp_dwarf_files *files, struct dw_child **ret);
void dw_child_destroy(struct dw_child *child);
struct sp_error *dw_child_lookup(struct dw_child *child, const uint64_t *addresses, size_t count,
                                 void (*emit)(void *context, size_t index, const struct sp_dwarf_answer *answer),
                                 void *context);
size_t dw_child_memory(struct dw_child *child);

#endif
