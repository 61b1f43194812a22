/* What a profile file holds, worked out from a builder just before it is written: which processes and threads there
 * are and what they are called, libraries, functions, frames, with or without symbols. */
#ifndef SP_SAMPLER_OUTPUT_LAYOUT_H
#define SP_SAMPLER_OUTPUT_LAYOUT_H

#include "sampler/output/builder.h"

struct sp_out_lib {
	uint32_t module;
	uint32_t name, debug_name; /* strings of the layout; debug_name is unique together with the debug ID */
};

struct sp_out_func {
	uint32_t name;         /* string of the layout */
	uint32_t lib;          /* SP_INDEX_NONE = none */
	uint32_t source;       /* SP_INDEX_NONE = unknown */
	uint32_t line, column; /* where it begins; 0 = unknown */
	uint32_t script;       /* 1: of JavaScript */
};

struct sp_out_frame {
	uint32_t func, lib, native_symbol; /* SP_INDEX_NONE = none */
	uint32_t address;                  /* relative to the lib; counts only when there is one */
	uint32_t line, column;             /* 0 = unknown */
	uint8_t category, subcategory;
	uint8_t inline_depth; /* 0 = the outermost */
};

struct sp_out_symbol {
	uint32_t lib, name, address, size; /* size 0 = unknown */
};

struct sp_out_process {
	char pid[32];  /* unique */
	uint32_t name; /* string of the layout */
	uint64_t start, end;
	bool ended;
	uint32_t main_thread; /* index into the threads; SP_INDEX_NONE = none */
};

struct sp_out_thread {
	uint32_t process; /* index into the layout's processes */
	uint32_t member;  /* first thread handle; SP_HANDLE_NONE for the thread of a recording that has none */
	uint32_t last_member;
	uint32_t source; /* as sp_build_row.source */
	uint32_t name, tid;
	uint64_t start, end;
	uint64_t samples;
	bool main, ended;
	uint32_t next_same; /* older thread of the same process and name (reuse) */
};

struct sp_layout {
	struct sp_profile_builder *builder; /* borrowed */
	struct sp_intern strings;           /* the profile's string array */
	uint64_t zero, end;                 /* times; `zero` is the profile's time 0 */
	bool symbolicated;

	SP_VECTOR(struct sp_out_process) processes;
	SP_VECTOR(struct sp_out_thread) threads;
	SP_VECTOR(uint32_t) next_member; /* thread handle -> the next one that its out thread stands for */
	SP_VECTOR(uint32_t) out_process; /* process handle -> index into processes */

	SP_VECTOR(struct sp_out_lib) libs;
	SP_VECTOR(uint32_t) lib_of_module;
	struct sp_map lib_by_key; /* hash (plus probes) -> lib */
	SP_VECTOR(struct sp_out_func) funcs;
	struct sp_map func_by_key;
	SP_VECTOR(struct sp_out_symbol) symbols;
	struct sp_map symbol_by_key; /* lib << 32 | address -> symbol */
	SP_VECTOR(uint32_t) sources; /* strings */
	struct sp_map source_by_name;
	SP_VECTOR(struct sp_out_frame) frames;
	SP_VECTOR(struct sp_frame_entry) entries; /* the builder's frames with late knowledge */
	SP_VECTOR(uint32_t) first_frame;          /* entry -> its first (outermost) frame; one more at the end */
	SP_SPOOL(uint32_t) last_stack; /* builder's stack -> stack in the file; empty when they are the same */
	uint32_t stack_count;          /* in the file */
};

struct sp_error *sp_layout_create(struct sp_profile_builder *builder, struct sp_layout **ret);
void sp_layout_destroy(struct sp_layout *layout);

/* layout_threads.c */
struct sp_error *sp_layout_threads(struct sp_layout *layout);
/* symbolicate.c: the frames of all entries, with names, files, lines and inlined functions. */
struct sp_error *sp_layout_symbols(struct sp_layout *layout, spsym_context *symbols);

/* Numbers of interned things; SP_INDEX_NONE without memory. */
uint32_t sp_layout_string(struct sp_layout *layout, const char *string);
uint32_t sp_layout_func(struct sp_layout *layout, const struct sp_out_func *func);
/* ... of a source; SP_INDEX_NONE for none (NULL or empty). */
struct sp_error *sp_layout_source(struct sp_layout *layout, const char *file, uint32_t *ret);
/* The frame of an entry, without a function yet. */
struct sp_error *sp_layout_bare_frame(struct sp_layout *layout, const struct sp_frame_entry *entry,
                                      struct sp_out_frame *ret);
/* Gives a frame the function of an entry without symbols: the label's text, or its address. */
struct sp_error *sp_layout_plain_func(struct sp_layout *layout, const struct sp_frame_entry *entry,
                                      struct sp_out_frame *frame);

/* The stack in the file that a builder's stack became. */
static inline uint32_t sp_layout_stack(const struct sp_layout *layout, uint32_t stack)
{
	return layout->last_stack.count ? layout->last_stack.items[stack] : stack;
}

#endif
