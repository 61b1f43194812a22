/* Modules: files (and the vdso) that are mapped as code, each opened once, and what the unwinder needs of them.
 *
 * The reader thread asks for the module of a mapping and goes on; the loader opens the file. Users wait until it is
 * ready. What could not be opened is a module too, with a note that says why. Files that nothing maps any more stay
 * open up to a limit, least recently used first out. */
#ifndef SP_SAMPLER_RECORD_MODULE_H
#define SP_SAMPLER_RECORD_MODULE_H

#include "common/log.h"
#include "common/map.h"
#include "sampler/backend.h"
#include "sampler/profile/model.h"
#include "sampler/record/loader.h"
#include "symbolication/object/object.h"

#include <stdbool.h>
#include <stdint.h>

struct sp_modules;

struct sp_module {
	/* Set when it is made. */
	struct sp_modules *registry;
	uint8_t kind;             /* enum sp_module_kind */
	struct sp_event_map seen; /* the mapping that it was first seen in; path is owned */
	char *name;               /* owned: last part of the path */
	uint64_t key;             /* where the reader finds it again */

	/* The reader's. */
	uint32_t pid;                    /* a process that maps it */
	uint64_t time;                   /* when it did */
	uint32_t handle;                 /* in the recording; SP_HANDLE_NONE = not written yet */
	uint32_t users;                  /* mappings that refer to it */
	struct sp_module *newer, *older; /* in the list of unused ones */
	struct sp_module *next, **link;  /* in the list of all */

	/* Under the registry's lock. */
	uint32_t pins; /* modules that are this one under another name */
	bool closed;   /* let go since it was not in use */

	/* The loader's, until `job` is done; then constant. */
	struct sp_job job, close_job;
	struct sp_module *same;          /* NULL, or the module of the same file that was there before: use that one */
	struct sp_object *object;        /* NULL = could not be opened */
	struct sp_unwind_module *unwind; /* NULL = no unwinding in it */
	bool is_code_file;               /* false: data of no known format; not a module at all */
	char debug_id[SPSYM_ID_MAX], code_id[SPSYM_ID_MAX], arch[16];
	uint64_t base;          /* svma of relative address 0 */
	char *note;             /* owned; NULL = fine */
	char *kept_path;        /* owned; NULL = not kept */
	uint64_t device, inode; /* of the file that was opened */
};

struct sp_modules_options {
	const struct sp_backend_ops *ops; /* NULL: nothing is alive */
	struct sp_backend *backend;
	const char *cache_folder; /* NULL = nothing is kept */
	struct sp_loader *loader;
	struct sp_signal *progress;
	const struct sp_log *log;
};

struct sp_error *sp_modules_create(const struct sp_modules_options *options, struct sp_modules **ret);
/* The loader must be idle. */
void sp_modules_destroy(struct sp_modules *modules);
/* Another run, of another backend; the loader must be idle. */
void sp_modules_set_backend(struct sp_modules *modules, struct sp_backend *backend);

/* The module behind an executable mapping that process `pid` just made; the caller is one more user. NULL in *ret when
 * no file is behind it (memory of a JIT). */
struct sp_error *sp_module_of_mapping(struct sp_modules *modules, uint32_t pid, uint64_t time,
                                      const struct sp_event_map *map, struct sp_module **ret);
/* The kernel or one of its modules. */
struct sp_error *sp_module_of_kernel(struct sp_modules *modules, const struct sp_event_map *map,
                                     struct sp_module **ret);
void sp_module_add_user(struct sp_module *module);
void sp_module_drop_user(struct sp_module *module);

/* Whether the loader is done with it. Any thread. */
bool sp_module_ready(struct sp_module *module);
/* Waits for that. Not on the loader's thread. */
void sp_module_wait(struct sp_module *module);
/* The module to use, once it is ready. */
struct sp_module *sp_module_resolve(struct sp_module *module);

/* Target address - svma for a mapping of a ready module. */
uint64_t sp_module_bias(const struct sp_module *module, uint64_t start, uint64_t size, uint64_t file_offset);

/* Writes the definition (a ready, resolved module without handle) as a record; its strings live as long as the module.
 */
void sp_module_record(const struct sp_module *module, uint32_t handle, struct sp_record_module *ret);

/* Unused modules beyond the limit, the oldest first, at most `capacity`: the caller makes all unwinders forget them,
 * then closes them. */
size_t sp_modules_excess(struct sp_modules *modules, struct sp_module **ret, size_t capacity);
void sp_module_close(struct sp_module *module);

/* Has the loader keep the running kernel's symbols, if it has no copy of them yet. Takes 0.1 s of CPU time, once. */
void sp_modules_keep_kernel(struct sp_modules *modules);
/* Keeps copies of used files that are no longer where they were, and waits until that is done. */
void sp_modules_keep_gone(struct sp_modules *modules);

/* ---- Between module.c and module_load.c ---- */

struct sp_modules {
	struct sp_modules_options options;
	/* The reader's. */
	struct sp_map by_key; /* build ID and path, or device, inode and path -> struct sp_module * */
	struct sp_module *all;
	struct sp_module *oldest, *newest; /* without users */
	size_t unused_count;
	bool kernel_kept; /* asked for */
	/* The loader's. */
	struct sp_map by_file; /* hash of the file's identity -> struct sp_module * */
	uint64_t kept_bytes;
	pthread_mutex_t lock; /* for pins and closed */
};

/* Jobs, in the loader's thread. */
void sp_module_load(struct sp_job *job);
void sp_module_unload(struct sp_job *job);

/* Copies the file to the cache when it is not at its path any more (module_keep.c). */
void sp_module_keep_if_gone(struct sp_module *module);
/* Keeps bytes under a debug ID; gives the path, NULL when they are not kept. */
char *sp_module_keep_bytes(struct sp_modules *modules, const char *debug_id, const char *name, const void *bytes,
                           size_t size);

#endif
