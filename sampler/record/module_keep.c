/* Keeping what will not exist when symbols are wanted: deleted, replaced and anonymous files, the vdso. Copies lie in
 * the cache folder under their debug ID. Runs on the loader's thread. */
#include "common/file.h"
#include "sampler/record/module.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define KEPT_FILE_MAX ((size_t)512 << 20)
#define KEPT_TOTAL_MAX ((uint64_t)2 << 30)

/* Debug IDs come from files; only what is one becomes a file name. */
static bool is_plain_id(const char *id)
{
	size_t length = strspn(id, "0123456789abcdefABCDEF");
	return length >= 8 && !id[length];
}

static char *kept_path(const char *cache_folder, const char *debug_id)
{
	size_t size = strlen(cache_folder) + strlen(debug_id) + sizeof("/kept/");
	char *path = malloc(size);
	if (path)
		snprintf(path, size, "%s/kept/%s", cache_folder, debug_id);
	return path;
}

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
	if (!cache_folder || !is_plain_id(debug_id))
		return NULL;
	char *path = kept_path(cache_folder, debug_id);
	struct stat st;
	if (!path || (!stat(path, &st) && (uint64_t)st.st_size == size))
		return path;
	struct sp_error *error = NULL;
	if (size > KEPT_FILE_MAX || modules->kept_bytes + size > KEPT_TOTAL_MAX)
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

static struct sp_module *module_of_keep_job(struct sp_job *job)
{
	return (struct sp_module *)((char *)job - offsetof(struct sp_module, close_job));
}

static void keep_job(struct sp_job *job)
{
	sp_module_keep_if_gone(module_of_keep_job(job));
}

static bool job_done(void *context)
{
	return sp_job_done(context);
}

void sp_modules_keep_gone(struct sp_modules *modules)
{
	if (!modules->options.cache_folder)
		return;
	struct sp_module *last = NULL;
	for (struct sp_module *module = modules->all; module; module = module->next) {
		if (module->handle == SP_HANDLE_NONE || module->kind != SP_MODULE_FILE || module->closed ||
		    !sp_module_ready(module) || module->kept_path)
			continue;
		module->close_job.run = keep_job;
		sp_loader_push(modules->options.loader, &module->close_job);
		last = module;
	}
	if (last)
		sp_signal_wait(modules->options.progress, job_done, &last->close_job);
}
