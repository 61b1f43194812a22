/* Keeping what will not exist when symbols are wanted: deleted, replaced and anonymous files, the vdso. Copies lie in
 * the cache folder under their debug ID. Runs on the loader's thread. */
#include "common/file.h"
#include "sampler/record/module.h"
#include "symbolication/kallsyms.h"
#include "symbolication/locate/locate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define KEPT_FILE_MAX ((size_t)512 << 20)
#define KEPT_TOTAL_MAX ((uint64_t)2 << 30)

static struct sp_error *write_kept(const char *path, const void *bytes, size_t size)
{
	char *folder = strdup(path);
	if (!folder)
		return sp_error_no_memory();
	*strrchr(folder, '/') = '\0';
	struct sp_error *error = sp_file_make_folders(folder);
	free(folder);
	return error ? error : sp_file_write_atomic(path, bytes, size);
}

char *sp_module_keep_bytes(struct sp_modules *modules, const char *debug_id, const char *name, const void *bytes,
                           size_t size)
{
	const char *cache_folder = modules->options.cache_folder;
	char *path = NULL;
	struct stat st;
	if (!cache_folder || !debug_id[0])
		return NULL;
	struct sp_error *error = sp_kept_path(cache_folder, debug_id, &path);
	if (!error && !stat(path, &st) && (uint64_t)st.st_size == size)
		return path;
	if (error)
		path = NULL;
	else if (size > KEPT_FILE_MAX || modules->kept_bytes + size > KEPT_TOTAL_MAX)
		error = sp_error_create(SP_ERROR_LIMIT, "%zu MB are too much to keep", size >> 20);
	else
		error = write_kept(path, bytes, size);
	if (!error) {
		modules->kept_bytes += size;
		sp_log(modules->options.log, SP_LOG_DEBUG, "kept a copy of %s as %s", name, path);
		return path;
	}
	sp_log(modules->options.log, SP_LOG_WARNING, "%s will have no symbols later, no copy of it was kept: %s", name,
	       error->message);
	sp_error_destroy(error);
	free(path);
	return NULL;
}

/* Whether the path leads to another file than the opened one, or to none. */
static bool is_gone(const struct sp_module *module)
{
	struct stat st;
	if (stat(module->seen.path, &st))
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES;
	return (uint64_t)st.st_ino != module->inode;
}

void sp_module_keep_if_gone(struct sp_module *module)
{
	struct sp_modules *modules = module->registry;
	if (!modules->options.ops || !module->object || module->kept_path || !module->inode || !is_gone(module))
		return;
	size_t size;
	const uint8_t *bytes = sp_object_file_bytes(module->object, &size);
	module->kept_path = sp_module_keep_bytes(modules, module->debug_id, module->seen.path, bytes, size);
}

/* ---- The kernel's symbols ---- */

#define KALLSYMS_MAX ((size_t)256 << 20)

/* "[ext4]" -> "ext4"; NULL for the kernel itself. False without memory. */
static bool kernel_module_name(const struct sp_module *module, char **ret)
{
	const char *path = module->seen.path;
	size_t length = strlen(path);
	*ret = NULL;
	if (!strncmp(path, "[kernel.", 8) || length < 3 || path[0] != '[')
		return true;
	*ret = strdup(path + 1);
	if (!*ret)
		return false;
	(*ret)[length - 2] = '\0';
	return true;
}

static struct sp_error *make_kallsyms(const struct sp_module *module, char **ret, size_t *ret_size)
{
	char *text, *name;
	size_t size;
	if (!kernel_module_name(module, &name))
		return sp_error_no_memory();
	struct sp_error *error = sp_file_read("/proc/kallsyms", KALLSYMS_MAX, &text, &size);
	if (!error) {
		struct sp_kallsyms_image image = {
			.module = name,
			.base = module->seen.start,
			.build_id = module->seen.build_id,
			.build_id_size = module->seen.build_id_size,
			.arch = module->arch,
		};
		error = sp_kallsyms_make(text, size, &image, ret, ret_size, NULL);
		free(text);
	}
	free(name);
	return error;
}

/* The kernel with this ID has been here before. */
static bool is_kept(const struct sp_module *module)
{
	char *path;
	struct stat st;
	struct sp_error *error = sp_kept_path(module->registry->options.cache_folder, module->debug_id, &path);
	if (error) {
		sp_error_destroy(error);
		return false;
	}
	bool kept = !stat(path, &st);
	free(path);
	return kept;
}

static void keep_kernel(struct sp_module *module)
{
	if (!module->debug_id[0] || is_kept(module))
		return;
	char *text;
	size_t size;
	struct sp_error *error = make_kallsyms(module, &text, &size);
	if (error) {
		sp_log(module->registry->options.log, SP_LOG_DEBUG, "no symbols of %s are kept: %s", module->seen.path,
		       error->message);
		sp_error_destroy(error);
		return;
	}
	module->kept_path = sp_module_keep_bytes(module->registry, module->debug_id, module->seen.path, text, size);
	free(text);
}

/* ---- Jobs ---- */

static struct sp_module *module_of_keep_job(struct sp_job *job)
{
	return (struct sp_module *)((char *)job - offsetof(struct sp_module, close_job));
}

static void keep_job(struct sp_job *job)
{
	struct sp_module *module = module_of_keep_job(job);
	if (module->kind == SP_MODULE_KERNEL)
		keep_kernel(module);
	else
		sp_module_keep_if_gone(module);
}

static bool is_worth_keeping(struct sp_module *module)
{
	return module->handle != SP_HANDLE_NONE && module->kind != SP_MODULE_VDSO && !module->closed &&
	       sp_module_ready(module);
}

static struct sp_module *push_keep_jobs(struct sp_modules *modules, bool kernel)
{
	struct sp_module *last = NULL;
	for (struct sp_module *module = modules->all; module; module = module->next) {
		if (!is_worth_keeping(module) || (module->kind == SP_MODULE_KERNEL) != kernel)
			continue;
		module->close_job.run = keep_job;
		sp_loader_push(modules->options.loader, &module->close_job);
		last = module;
	}
	return last;
}

void sp_modules_keep_kernel(struct sp_modules *modules)
{
	if (!modules->options.cache_folder || !modules->options.ops || modules->kernel_kept)
		return;
	modules->kernel_kept = true;
	push_keep_jobs(modules, true);
}

void sp_modules_keep_gone(struct sp_modules *modules)
{
	if (!modules->options.cache_folder || !modules->options.ops)
		return;
	sp_modules_keep_kernel(modules);
	push_keep_jobs(modules, false);
	sp_loader_drain(modules->options.loader);
}
