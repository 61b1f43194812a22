/* The reader's side of the modules: which mapping shows which module, and which modules are in use. */
#include "sampler/record/module.h"

#include <stdlib.h>
#include <string.h>

/* Files that stay open although nothing maps them: the next process may. */
#define MAX_UNUSED 256
/* How long a file without build ID is taken for the same when it is mapped again. */
#define TRUST_NS 1000000000u

struct sp_error *sp_modules_create(const struct sp_modules_options *options, struct sp_modules **ret)
{
	struct sp_modules *modules = calloc(1, sizeof(*modules));
	if (!modules)
		return sp_error_no_memory();
	modules->options = *options;
	pthread_mutex_init(&modules->lock, NULL);
	*ret = modules;
	return NULL;
}

void sp_modules_set_backend(struct sp_modules *modules, struct sp_backend *backend)
{
	modules->options.backend = backend;
}

/* ---- Unused modules, oldest first ---- */

static bool is_unused(const struct sp_module *module)
{
	return module->newer || module->older || module->registry->oldest == module;
}

static void add_unused(struct sp_module *module)
{
	struct sp_modules *modules = module->registry;
	module->older = modules->newest;
	module->newer = NULL;
	if (modules->newest)
		modules->newest->newer = module;
	else
		modules->oldest = module;
	modules->newest = module;
	modules->unused_count++;
}

static void remove_unused(struct sp_module *module)
{
	struct sp_modules *modules = module->registry;
	if (!is_unused(module))
		return;
	if (module->newer)
		module->newer->older = module->older;
	else
		modules->newest = module->older;
	if (module->older)
		module->older->newer = module->newer;
	else
		modules->oldest = module->newer;
	module->newer = module->older = NULL;
	modules->unused_count--;
}

void sp_module_add_user(struct sp_module *module)
{
	if (module && !module->users++)
		remove_unused(module);
}

void sp_module_drop_user(struct sp_module *module)
{
	if (module && !--module->users)
		add_unused(module);
}

/* ---- Making and finding ---- */

static void free_module(struct sp_module *module)
{
	struct sp_modules *modules = module->registry;
	uint64_t *found = sp_map_get(&modules->by_key, module->key);
	if (found && *found == (uintptr_t)module)
		sp_map_remove(&modules->by_key, module->key);
	remove_unused(module);
	if (module->next)
		module->next->link = module->link;
	*module->link = module->next;
	sp_unwind_module_destroy(module->unwind);
	sp_object_destroy(module->object);
	free((char *)(uintptr_t)module->seen.path);
	free(module->name);
	free(module->note);
	free(module->kept_path);
	free(module);
}

void sp_modules_destroy(struct sp_modules *modules)
{
	if (!modules)
		return;
	while (modules->all)
		free_module(modules->all);
	sp_map_deinit(&modules->by_key);
	sp_map_deinit(&modules->by_file);
	pthread_mutex_destroy(&modules->lock);
	free(modules);
}

/* "/usr/lib/x.so (deleted)" -> "x.so" */
static char *name_of(const char *path)
{
	static const char suffix[] = " (deleted)";
	size_t length = strlen(path);
	if (length > sizeof(suffix) - 1 && !strcmp(path + length - (sizeof(suffix) - 1), suffix))
		length -= sizeof(suffix) - 1;
	size_t start = length;
	while (start && path[start - 1] != '/' && path[start - 1] != '\\')
		start--;
	char *name = malloc(length - start + 1);
	if (!name)
		return NULL;
	memcpy(name, path + start, length - start);
	name[length - start] = '\0';
	return name;
}

static struct sp_module *make_module(struct sp_modules *modules, enum sp_module_kind kind, uint64_t key,
                                     const struct sp_event_map *map)
{
	struct sp_module *module = calloc(1, sizeof(*module));
	if (!module)
		return NULL;
	module->registry = modules;
	module->kind = (uint8_t)kind;
	module->handle = SP_HANDLE_NONE;
	module->key = key;
	module->seen = *map;
	module->seen.path = strdup(map->path ? map->path : "");
	module->name = name_of(map->path ? map->path : "");
	module->link = &modules->all;
	module->next = modules->all;
	if (module->next)
		module->next->link = &module->next;
	modules->all = module;
	if (!module->seen.path || !module->name || !sp_map_put(&modules->by_key, key, (uintptr_t)module)) {
		free_module(module);
		return NULL;
	}
	return module;
}

static bool starts_with(const char *string, const char *start)
{
	return !strncmp(string, start, strlen(start));
}

/* Names that the OS gives to memory without a file. */
static bool is_anonymous(const char *path)
{
	return !path || !*path || starts_with(path, "//") || starts_with(path, "[") || starts_with(path, "/dev/zero") ||
	       starts_with(path, "/SYSV") || starts_with(path, "/anon_hugepage") || starts_with(path, "anon_inode:");
}

static uint64_t key_of(enum sp_module_kind kind, const struct sp_event_map *map)
{
	uint64_t key = sp_hash_bytes(map->path, strlen(map->path)) + kind;
	if (kind == SP_MODULE_VDSO)
		/* One for 64-bit processes, one for 32-bit ones. */
		return sp_hash_u64(key + map->size * 2 + (map->start >> 32 != 0));
	if (map->build_id_size)
		return sp_hash_u64(key) ^ sp_hash_bytes(map->build_id, map->build_id_size);
	return sp_hash_u64(key) ^ sp_hash_u64(map->device * 31 + map->inode);
}

static bool same_build_id(const struct sp_event_map *a, const struct sp_event_map *b)
{
	return a->build_id_size == b->build_id_size && !memcmp(a->build_id, b->build_id, a->build_id_size);
}

/* Whether a module that has the mapping's key is the mapping's. */
static bool is_module_of(struct sp_module *module, uint64_t time, const struct sp_event_map *map)
{
	if (strcmp(module->seen.path, map->path) != 0 || !same_build_id(&module->seen, map))
		return false;
	if (module->kind == SP_MODULE_KERNEL)
		return true;
	/* What could not be opened may be there in another process. */
	if (sp_module_ready(module) && !module->object && !module->same && !module->closed && module->pid)
		return module->is_code_file ? time - module->time < TRUST_NS : true;
	if (module->kind == SP_MODULE_VDSO || map->build_id_size)
		return true;
	return module->seen.device == map->device && module->seen.inode == map->inode && time - module->time < TRUST_NS;
}

static void load(struct sp_module *module, uint32_t pid, uint64_t time, const struct sp_event_map *map)
{
	module->pid = pid;
	module->time = time;
	module->seen.start = map->start;
	module->seen.size = map->size;
	module->seen.file_offset = map->file_offset;
	module->job.run = sp_module_load;
	sp_loader_push(module->registry->options.loader, &module->job);
}

static bool reopen(struct sp_module *module)
{
	pthread_mutex_lock(&module->registry->lock);
	bool was_closed = module->closed;
	module->closed = false;
	pthread_mutex_unlock(&module->registry->lock);
	return was_closed;
}

struct sp_error *sp_module_of_mapping(struct sp_modules *modules, uint32_t pid, uint64_t time,
                                      const struct sp_event_map *map, struct sp_module **ret)
{
	enum sp_module_kind kind = SP_MODULE_FILE;
	*ret = NULL;
	if (map->path && !strcmp(map->path, "[vdso]"))
		kind = SP_MODULE_VDSO;
	else if (is_anonymous(map->path))
		return NULL;
	uint64_t key = key_of(kind, map);
	uint64_t *found = sp_map_get(&modules->by_key, key);
	struct sp_module *module = found ? (struct sp_module *)(uintptr_t)*found : NULL;
	if (module && is_module_of(module, time, map)) {
		sp_module_add_user(module);
		if (reopen(module))
			load(module, pid, time, map);
	} else {
		module = make_module(modules, kind, key, map);
		if (!module)
			return sp_error_no_memory();
		sp_module_add_user(module);
		load(module, pid, time, map);
	}
	*ret = module;
	return NULL;
}

struct sp_error *sp_module_of_kernel(struct sp_modules *modules, const struct sp_event_map *map, struct sp_module **ret)
{
	struct sp_event_map named = *map;
	if (!named.path)
		named.path = "";
	uint64_t key = key_of(SP_MODULE_KERNEL, &named);
	uint64_t *found = sp_map_get(&modules->by_key, key);
	*ret = found ? (struct sp_module *)(uintptr_t)*found : NULL;
	if (*ret && is_module_of(*ret, 0, &named)) {
		sp_module_add_user(*ret);
		return NULL;
	}
	*ret = make_module(modules, SP_MODULE_KERNEL, key, &named);
	if (!*ret)
		return sp_error_no_memory();
	sp_module_add_user(*ret);
	load(*ret, 0, 0, &named);
	return NULL;
}

/* ---- Use ---- */

bool sp_module_ready(struct sp_module *module)
{
	return sp_job_done(&module->job);
}

static bool job_done(void *context)
{
	return sp_job_done(context);
}

void sp_module_wait(struct sp_module *module)
{
	if (!sp_job_done(&module->job))
		sp_signal_wait(module->registry->options.progress, job_done, &module->job);
}

struct sp_module *sp_module_resolve(struct sp_module *module)
{
	return module->same ? module->same : module;
}

/* The segment that the mapping shows, preferring one with code. */
static const struct sp_segment *find_segment(const struct sp_object *object, uint64_t file_offset, uint64_t size)
{
	size_t count;
	const struct sp_segment *segments = sp_object_segments(object, &count), *found = NULL;
	uint64_t end = file_offset + size < file_offset ? UINT64_MAX : file_offset + size;
	for (size_t i = 0; i < count; i++) {
		const struct sp_segment *s = &segments[i];
		bool overlaps = s->file_size && s->file_offset < end &&
		                (file_offset < s->file_offset || file_offset - s->file_offset < s->file_size);
		if (overlaps && (!found || (s->executable && !found->executable)))
			found = s;
	}
	return found;
}

uint64_t sp_module_bias(const struct sp_module *module, uint64_t start, uint64_t size, uint64_t file_offset)
{
	if (module->kind == SP_MODULE_KERNEL)
		return start;
	const struct sp_segment *segment = module->object ? find_segment(module->object, file_offset, size) : NULL;
	if (!segment)
		return start - file_offset;
	return start - (segment->address + (file_offset - segment->file_offset));
}

void sp_module_record(const struct sp_module *module, uint32_t handle, struct sp_record_module *ret)
{
	*ret = (struct sp_record_module){
		.module = handle,
		.kind = module->kind,
		.name = module->name,
		.path = module->seen.path,
		.debug_name = module->name,
		.debug_path = module->seen.path,
		.debug_id = module->debug_id,
		.code_id = module->code_id,
		.arch = module->arch,
		.kept_path = module->kept_path,
		.note = module->note,
	};
}

/* ---- Letting go ---- */

static bool is_same_as_other(struct sp_module *module)
{
	if (!module->same || module->handle != SP_HANDLE_NONE)
		return false;
	pthread_mutex_lock(&module->registry->lock);
	module->same->pins--;
	pthread_mutex_unlock(&module->registry->lock);
	return true;
}

/* Marks it closed unless it is in use under another name. */
static bool try_close(struct sp_module *module)
{
	pthread_mutex_lock(&module->registry->lock);
	bool can = !module->pins && !module->closed;
	if (can)
		module->closed = true;
	pthread_mutex_unlock(&module->registry->lock);
	return can;
}

size_t sp_modules_excess(struct sp_modules *modules, struct sp_module **ret, size_t capacity)
{
	size_t count = 0;
	for (struct sp_module *module = modules->oldest, *newer;
	     module && count < capacity && modules->unused_count > MAX_UNUSED; module = newer) {
		newer = module->newer;
		if (!sp_module_ready(module))
			continue;
		if (is_same_as_other(module) || (!module->object && module->handle == SP_HANDLE_NONE)) {
			free_module(module);
		} else if (!module->object) {
			remove_unused(module);
		} else if (try_close(module)) {
			remove_unused(module);
			ret[count++] = module;
		}
	}
	return count;
}

void sp_module_close(struct sp_module *module)
{
	module->close_job.run = sp_module_unload;
	sp_loader_push(module->registry->options.loader, &module->close_job);
}
