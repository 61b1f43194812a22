/* The loader's side of the modules: opens the file behind a mapping, makes sure that it is the one, finds its identity
 * and unwind sections. Runs on the loader's thread. */
#include "sampler/record/module.h"

#include "sampler/unwind/unwind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#include <io.h>
#else
#include <unistd.h>
#endif

#define VDSO_LIMIT ((uint64_t)1 << 20)

static struct sp_module *module_of_job(struct sp_job *job)
{
	return (struct sp_module *)((char *)job - offsetof(struct sp_module, job));
}

/* ---- Opening ---- */

static struct sp_error *open_vdso(const struct sp_modules *modules, const struct sp_module *module,
                                  struct sp_object **ret)
{
	if (!modules->options.ops)
		return sp_error_create(SP_ERROR_NOT_FOUND, "the vdso is not part of the trace");
	if (module->seen.size > VDSO_LIMIT)
		return sp_error_create(SP_ERROR_LIMIT, "a vdso of %llu bytes", (unsigned long long)module->seen.size);
	size_t size = (size_t)module->seen.size;
	void *bytes = malloc(size);
	if (!bytes)
		return sp_error_no_memory();
	struct sp_error *error = modules->options.ops->read_memory(modules->options.backend, module->pid,
	                                                           module->seen.start, bytes, size);
	if (error) {
		free(bytes);
		return error;
	}
	return sp_object_open_owned(bytes, size, "[vdso]", ret);
}

static struct sp_error *open_file(const struct sp_modules *modules, const struct sp_module *module,
                                  struct sp_object **ret)
{
	const struct sp_backend_ops *ops = modules->options.ops;
	if (!ops) {
		if (!module->seen.build_id_size)
			return sp_error_create(
			    SP_ERROR_NOT_FOUND,
			    "the trace gives no build ID for %s, so the file here may be another one",
			    module->seen.path);
		return sp_object_open_path(module->seen.path, ret);
	}
	int fd;
	struct sp_error *error = ops->open_mapped_file(modules->options.backend, module->pid, &module->seen, &fd);
	if (error)
		return error;
	error = sp_object_open_fd(fd, module->seen.path, ret);
	close(fd);
	return error;
}

/* Whether the opened file has the build ID that the mapping had. */
static struct sp_error *check_build_id(const struct sp_module *module, const struct sp_object *object)
{
	if (!module->seen.build_id_size)
		return NULL;
	size_t size;
	const uint8_t *id = sp_object_build_id(object, &size);
	if (id && size >= module->seen.build_id_size && !memcmp(id, module->seen.build_id, module->seen.build_id_size))
		return NULL;
	return sp_error_create(SP_ERROR_NOT_FOUND, "%s was replaced by another file after it was mapped",
	                       module->seen.path);
}

static struct sp_error *open_object(const struct sp_modules *modules, const struct sp_module *module,
                                    struct sp_object **ret)
{
	*ret = NULL;
	struct sp_error *error = module->kind == SP_MODULE_VDSO ? open_vdso(modules, module, ret)
	                                                        : open_file(modules, module, ret);
	if (!error)
		error = check_build_id(module, *ret);
	if (error) {
		sp_object_destroy(*ret);
		*ret = NULL;
	}
	return error;
}

/* ---- Unwinding ---- */

static void make_unwind(struct sp_module *module)
{
	struct sp_error *error = sp_unwind_module_from_object(module->object, &module->unwind);
	if (error) {
		sp_log(module->registry->options.log, SP_LOG_DEBUG, "%s: no unwinding: %s", module->seen.path,
		       error->message);
		sp_error_destroy(error);
		module->unwind = NULL;
	}
}

/* ---- Identity ---- */

static void set_identity(struct sp_module *module)
{
	const struct spsym_file_info *info = sp_object_info(module->object);
	memcpy(module->debug_id, info->debug_id, sizeof(module->debug_id));
	memcpy(module->code_id, info->code_id, sizeof(module->code_id));
	memcpy(module->arch, info->arch, sizeof(module->arch));
	module->base = info->base;
}

/* What the mapping alone tells. */
static void set_identity_from_mapping(struct sp_module *module)
{
	const struct sp_event_map *seen = &module->seen;
	if (!seen->build_id_size || seen->build_id_size > SP_BUILD_ID_MAX)
		return;
	spsym_debug_id_from_build_id(seen->build_id, seen->build_id_size, false, module->debug_id);
	for (unsigned i = 0; i < seen->build_id_size; i++)
		snprintf(module->code_id + 2 * (size_t)i, 3, "%02x", seen->build_id[i]);
}

static uint64_t file_key(const struct sp_module *module)
{
	size_t size;
	int64_t mtime;
	uint64_t device, inode;
	sp_object_file_bytes(module->object, &size);
	sp_object_file_identity(module->object, &device, &inode, &mtime);
	uint64_t parts[] = { device, inode, size, (uint64_t)mtime };
	return sp_hash_bytes(parts, sizeof(parts));
}

/* Whether the file is open already, under another name or seen without its build ID; then that module is used. */
static bool find_same(struct sp_modules *modules, struct sp_module *module)
{
	if (!module->inode)
		return false;
	uint64_t key = file_key(module);
	uint64_t *found = sp_map_get(&modules->by_file, key);
	struct sp_module *other = found ? (struct sp_module *)(uintptr_t)*found : NULL;
	if (!other || other == module || strcmp(other->debug_id, module->debug_id) != 0 ||
	    strcmp(other->seen.path, module->seen.path) != 0) {
		sp_map_put(&modules->by_file, key, (uintptr_t)module);
		return false;
	}
	pthread_mutex_lock(&modules->lock);
	bool usable = !other->closed;
	if (usable)
		other->pins++;
	pthread_mutex_unlock(&modules->lock);
	if (usable)
		module->same = other;
	return usable;
}

static void close_object(struct sp_module *module)
{
	sp_unwind_module_destroy(module->unwind);
	sp_object_destroy(module->object);
	module->unwind = NULL;
	module->object = NULL;
}

/* ---- The kernel ---- */

static void load_kernel(struct sp_module *module)
{
	set_identity_from_mapping(module);
#if defined(__x86_64__)
	snprintf(module->arch, sizeof(module->arch), "x86_64");
#elif defined(__aarch64__)
	snprintf(module->arch, sizeof(module->arch), "arm64");
#endif
	module->is_code_file = true;
}

/* ---- Jobs ---- */

/* What is said of a file that could not be opened. A file of no known format is not code that has a name. */
static void load_failed(struct sp_module *module, struct sp_error *error)
{
	module->is_code_file = error->code != SP_ERROR_UNSUPPORTED && strncmp(module->seen.path, "/memfd:", 7) != 0;
	if (!module->note)
		module->note = strdup(error->message);
	if (!module->debug_id[0])
		set_identity_from_mapping(module);
	sp_log(module->registry->options.log, SP_LOG_DEBUG, "%s", error->message);
	sp_error_destroy(error);
}

/* A file that was closed while unused and is needed again must still be the one it was. */
static bool is_as_before(const struct sp_module *module, const struct sp_object *object)
{
	return !strcmp(sp_object_info(object)->debug_id, module->debug_id);
}

void sp_module_load(struct sp_job *job)
{
	struct sp_module *module = module_of_job(job);
	struct sp_modules *modules = module->registry;
	if (module->kind == SP_MODULE_KERNEL) {
		load_kernel(module);
		return;
	}
	bool again = module->debug_id[0];
	struct sp_error *error = open_object(modules, module, &module->object);
	if (!error && again && !is_as_before(module, module->object)) {
		close_object(module);
		error = sp_error_create(SP_ERROR_NOT_FOUND, "%s was replaced by another file", module->seen.path);
	}
	if (error) {
		load_failed(module, error);
		return;
	}
	int64_t mtime;
	module->is_code_file = true;
	sp_object_file_identity(module->object, &module->device, &module->inode, &mtime);
	set_identity(module);
	if (!again && find_same(modules, module)) {
		close_object(module);
		return;
	}
	make_unwind(module);
	if (module->kind == SP_MODULE_VDSO && !module->kept_path) {
		size_t size;
		const uint8_t *bytes = sp_object_file_bytes(module->object, &size);
		module->kept_path = sp_module_keep_bytes(modules, module->debug_id, module->name, bytes, size);
	} else if (module->kind == SP_MODULE_FILE) {
		sp_module_keep_if_gone(module);
	}
}

void sp_module_unload(struct sp_job *job)
{
	struct sp_module *module = (struct sp_module *)((char *)job - offsetof(struct sp_module, close_job));
	if (!module->object)
		return;
	if (module->inode) {
		uint64_t key = file_key(module);
		uint64_t *found = sp_map_get(&module->registry->by_file, key);
		if (found && *found == (uintptr_t)module)
			sp_map_remove(&module->registry->by_file, key);
	}
	if (module->handle != SP_HANDLE_NONE)
		sp_module_keep_if_gone(module);
	close_object(module);
}
