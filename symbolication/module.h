/* Inside of contexts and modules; shared by the files of this folder only. */
#ifndef SP_SYMBOLICATION_MODULE_H
#define SP_SYMBOLICATION_MODULE_H

#include "common/vector.h"
#include "spsym.h"
#include "symbolication/dwarf/dwarf.h"
#include "symbolication/go/pclntab.h"
#include "symbolication/index/index.h"
#include "symbolication/locate/locate.h"
#include "symbolication/names.h"
#include "symbolication/symbol_table.h"

#include <pthread.h>
#include <stdatomic.h>

/* A module's part of the registry; guarded by the context's lock. */
struct sp_registration {
	char *key;                  /* owned; NULL = not shared */
	struct spsym_module *next;  /* in the bucket's list */
	struct spsym_module *older; /* unused modules, least recently used first */
	struct spsym_module *newer;
	unsigned users; /* references, and threads that wait for the loading */
	bool loading;
	bool idle;                   /* in the list of unused modules */
	struct sp_error *load_error; /* owned; after a failed loading */
	size_t memory;               /* as counted in the context */
};

/* An index in use, with the strings of it that were wanted so far. */
struct sp_indexed {
	struct sp_index *index;       /* owned */
	_Atomic(const char *) *names; /* owned; readable, by number */
	atomic_uchar *plain;          /* owned; by number: the name is no linkage name. Written before the name */
	_Atomic(const char *) *files; /* owned; by number */
	char *note;                   /* owned; what was wrong with the debug information; NULL = nothing */
	struct sp_indexed *retired;   /* one that was damaged, which readers may still be in */
};

/* A module's index (module_index.c). */
struct sp_module_index {
	_Atomic(struct sp_indexed *) current; /* NULL = none */
	atomic_bool looked;                   /* for a saved one */
	atomic_size_t asked;                  /* addresses that were looked up without it */
	pthread_mutex_t lock;                 /* guards what follows, and changes of `current` */
	struct sp_indexed *retired;
	bool has_thread; /* one was started, which makes the index */
	pthread_t thread;
	atomic_bool cancel;
};

#define SP_MODULE_LISTS 4

/* parts.c: what spsym_segments() and the like give; each made on first use, guarded by the module's lock. */
struct sp_parts {
	struct spsym_segment *segments; /* owned */
	struct spsym_section *sections; /* owned */
	struct spsym_raw_symbol *raw;   /* owned */
	size_t segment_count, section_count, raw_count;
	atomic_bool segments_ready, sections_ready, raw_ready; /* set last */
};
void sp_parts_deinit(struct sp_parts *parts);
size_t sp_parts_memory(const struct sp_parts *parts);

struct spsym_module {
	struct spsym_context *context;
	struct sp_parts parts;
	struct sp_registration registration;
	struct spsym_file_info info;
	struct sp_found found;
	struct sp_names *names;

	pthread_mutex_t lock;  /* guards the making of what follows; the flags are set last and read without it */
	atomic_bool asked_few; /* symbols were found without the table, which the first look-up need not make */
	atomic_bool table_ready;
	struct sp_symbol_table table;
	struct sp_symbols lists[SP_MODULE_LISTS]; /* own the names of symbols of: the debug file, the binary, the mini
	                                             debug file, Go's table */
	struct sp_object *mini;                   /* .gnu_debugdata, unpacked; NULL = none */
	atomic_bool list_ready;
	struct spsym_symbol *list; /* for spsym_symbols() */
	size_t list_count;
	atomic_bool dwarf_ready;
	struct sp_dwarf *dwarf; /* NULL = no debug information, or it cannot be read: dwarf_error */
	char *dwarf_error;      /* owned */
	atomic_bool go_ready;
	struct sp_go *go; /* Go's own table, where there is no debug information; NULL = none */

	struct sp_module_index index;

	_Atomic(struct sp_symbol_file *) executable; /* owned; the binary, downloaded when its code is wanted */

	pthread_mutex_t dwo_lock;
	SP_VECTOR(struct sp_symbol_file *) dwos; /* owned */
};

struct spsym_context {
	struct sp_locate_options locate;
	char **strings; /* owned copies behind `locate` */
	size_t string_count;
	enum spsym_engine engine;
	size_t memory_limit;
	bool no_demangling;
	bool no_background;

	pthread_mutex_t index_lock; /* guards index_busy: one index is made at a time */
	pthread_cond_t index_done;
	bool index_busy;

	pthread_mutex_t lock;
	pthread_cond_t loaded;
	struct spsym_module **buckets; /* owned; modules by hash of the key */
	size_t module_count;
	size_t memory;                        /* sum over the registered modules */
	struct spsym_module *oldest, *newest; /* unused modules */
};

/* Makes the module's tables from the files in module->found. */
struct sp_error *sp_module_open(struct spsym_module *module);
void sp_module_destroy(struct spsym_module *module);
struct spsym_module *sp_module_create(struct spsym_context *context);
/* Bytes held for it. */
size_t sp_module_memory(struct spsym_module *module);
/* Make what is made on first use. */
struct sp_error *sp_module_need_table(struct spsym_module *module);
/* The symbols at a few addresses, without a table, where that is faster: *ret_done, and `ret` is filled in. */
struct sp_error *sp_module_few_symbols(struct spsym_module *module, const uint64_t *addresses, size_t count,
                                       struct spsym_symbol *ret, bool *ret_done);
struct sp_error *sp_module_need_dwarf(struct spsym_module *module);
struct sp_error *sp_module_need_go(struct spsym_module *module);
/* Adds a line to what spsym_module_explain() tells; under the module's lock. */
void sp_module_explain_line(struct spsym_module *module, const char *what, const char *why);
/* What the debug information is in, for whoever reads it. */
void sp_module_dwarf_files(struct spsym_module *module, struct sp_dwarf_files *ret);

/* ---- The index (module_index.c) ---- */

void sp_module_index_init(struct spsym_module *module);
/* Stops the making of an index first. */
void sp_module_index_deinit(struct spsym_module *module);
/* The module's index, a saved one if there is one; NULL = none (yet). Only a lack of memory is an error. */
struct sp_error *sp_module_indexed(struct spsym_module *module, struct sp_indexed **ret);
/* Begins to make an index in the background when enough addresses were looked up without. */
void sp_module_asked(struct spsym_module *module, size_t count);
/* Stops using an index that turned out to be damaged. */
void sp_module_index_damaged(struct spsym_module *module, struct sp_indexed *indexed);
size_t sp_module_index_memory(struct spsym_module *module);

/* The file with the module's code; an error when there is none. */
struct sp_error *sp_module_need_code(struct spsym_module *module, const struct sp_symbol_file **ret);
/* The readable name of a symbol; lives as long as the module. */
const char *sp_module_symbol_name(struct spsym_module *module, const struct sp_table_symbol *symbol);

#endif
