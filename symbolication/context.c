/* Contexts: the registry of modules.
 *
 * A module is loaded once however many threads ask for it: the first one loads, outside the lock, the others wait. A
 * released module stays for the next request, in a list from least to most recently used, until the memory of all
 * modules is over the limit. */
#include "symbolication/module.h"

#include "common/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1024 };
#define DEFAULT_MEMORY_LIMIT ((size_t)1 << 30)

const char *spsym_error_message(const struct sp_error *error)
{
	return error->message;
}

void spsym_error_destroy(struct sp_error *error)
{
	sp_error_destroy(error);
}

static size_t list_length(const char *const *list)
{
	size_t length = 0;
	while (list && list[length])
		length++;
	return length;
}

/* Copies strings into context->strings[*at ...], with a NULL behind them; the copy's start in *ret. */
static bool copy_list(struct spsym_context *context, const char *const *list, size_t *at, const char *const **ret)
{
	*ret = (const char *const *)&context->strings[*at];
	for (size_t i = 0; list && list[i]; i++) {
		context->strings[*at] = strdup(list[i]);
		if (!context->strings[(*at)++])
			return false;
	}
	(*at)++; /* stays NULL */
	return true;
}

static bool copy_options(struct spsym_context *context, const struct spsym_options *options)
{
	static const char *const default_roots[] = { "/usr/lib/debug", NULL };
	const char *const *roots = options->debug_roots ? options->debug_roots : default_roots;
	const char *const cache[] = { options->cache_folder, NULL };
	const char *const *cache_copy;
	size_t at = 0;
	context->string_count = list_length(options->symbol_folders) + list_length(roots) + 4;
	context->strings = calloc(context->string_count, sizeof(*context->strings));
	if (!context->strings || !copy_list(context, options->symbol_folders, &at, &context->locate.symbol_folders) ||
	    !copy_list(context, roots, &at, &context->locate.debug_roots) ||
	    !copy_list(context, cache, &at, &cache_copy))
		return false;
	context->locate.cache_folder = cache_copy[0];
	context->locate.no_local_paths = options->no_local_paths;
	context->engine = options->engine;
	context->memory_limit = options->memory_limit ? options->memory_limit : DEFAULT_MEMORY_LIMIT;
	context->no_demangling = options->no_demangling;
	context->no_background = options->no_background;
	return true;
}

struct sp_error *spsym_context_create(const struct spsym_options *options, struct spsym_context **ret)
{
	static const struct spsym_options defaults = { 0 };
	if (!options)
		options = &defaults;
	struct spsym_context *context = calloc(1, sizeof(*context));
	if (!context)
		return sp_error_no_memory();
	pthread_mutex_init(&context->lock, NULL);
	pthread_cond_init(&context->loaded, NULL);
	pthread_mutex_init(&context->index_lock, NULL);
	pthread_cond_init(&context->index_done, NULL);
	context->buckets = calloc(BUCKETS, sizeof(*context->buckets));
	struct sp_debuginfod_options debuginfod = { .urls = options->debuginfod_urls,
		                                    .offline = options->offline,
		                                    .progress = options->progress,
		                                    .context = options->progress_context };
	struct sp_symstore_options symstore = { .path = options->symbol_path,
		                                .servers = options->windows_symbol_servers,
		                                .cache = options->windows_symbol_cache,
		                                .offline = options->offline,
		                                .progress = options->progress,
		                                .context = options->progress_context };
	struct sp_error *error = context->buckets && copy_options(context, options) ? NULL : sp_error_no_memory();
	if (!error)
		error = sp_debuginfod_create(&debuginfod, &context->locate.debuginfod);
	if (!error)
		error = sp_symstore_create(&symstore, &context->locate.symstore);
	if (error) {
		spsym_context_destroy(context);
		return error;
	}
	*ret = context;
	return NULL;
}

void spsym_context_destroy(struct spsym_context *context)
{
	if (!context)
		return;
	for (size_t i = 0; context->buckets && i < BUCKETS; i++) {
		struct spsym_module *module = context->buckets[i];
		while (module) {
			struct spsym_module *next = module->registration.next;
			sp_module_destroy(module);
			module = next;
		}
	}
	sp_debuginfod_destroy(context->locate.debuginfod);
	sp_symstore_destroy(context->locate.symstore);
	for (size_t i = 0; context->strings && i < context->string_count; i++)
		free(context->strings[i]);
	free(context->strings);
	free(context->buckets);
	pthread_mutex_destroy(&context->lock);
	pthread_cond_destroy(&context->loaded);
	pthread_mutex_destroy(&context->index_lock);
	pthread_cond_destroy(&context->index_done);
	free(context);
}

/* ---- The registry; all of these are called under the lock ---- */

static struct spsym_module **bucket_of(struct spsym_context *context, const char *key)
{
	return &context->buckets[sp_hash_bytes(key, strlen(key)) % BUCKETS];
}

static struct spsym_module *find_module(struct spsym_context *context, const char *key)
{
	struct spsym_module *module = *bucket_of(context, key);
	while (module && strcmp(module->registration.key, key) != 0)
		module = module->registration.next;
	return module;
}

static void link_module(struct spsym_context *context, struct spsym_module *module)
{
	struct spsym_module **bucket = bucket_of(context, module->registration.key);
	module->registration.next = *bucket;
	*bucket = module;
}

static void unlink_module(struct spsym_context *context, struct spsym_module *module)
{
	struct spsym_module **link = bucket_of(context, module->registration.key);
	while (*link != module)
		link = &(*link)->registration.next;
	*link = module->registration.next;
	context->memory -= module->registration.memory;
}

static void leave_idle_list(struct spsym_context *context, struct spsym_module *module)
{
	struct sp_registration *r = &module->registration;
	if (!r->idle)
		return;
	*(r->older ? &r->older->registration.newer : &context->oldest) = r->newer;
	*(r->newer ? &r->newer->registration.older : &context->newest) = r->older;
	r->older = r->newer = NULL;
	r->idle = false;
}

static void enter_idle_list(struct spsym_context *context, struct spsym_module *module)
{
	struct sp_registration *r = &module->registration;
	r->idle = true;
	r->older = context->newest;
	r->newer = NULL;
	*(r->older ? &r->older->registration.newer : &context->oldest) = module;
	context->newest = module;
}

static void count_memory(struct spsym_context *context, struct spsym_module *module)
{
	size_t memory = sp_module_memory(module);
	context->memory += memory - module->registration.memory;
	module->registration.memory = memory;
}

/* Takes unused modules out until the rest is within the limit; gives them as a list to destroy outside the lock. */
static struct spsym_module *evict(struct spsym_context *context)
{
	struct spsym_module *evicted = NULL;
	while (context->memory > context->memory_limit && context->oldest) {
		struct spsym_module *module = context->oldest;
		leave_idle_list(context, module);
		unlink_module(context, module);
		module->registration.next = evicted;
		evicted = module;
	}
	return evicted;
}

static void destroy_list(struct spsym_module *module)
{
	while (module) {
		struct spsym_module *next = module->registration.next;
		sp_module_destroy(module);
		module = next;
	}
}

/* ---- Loading ---- */

/* Waits until a module that is being loaded by another thread is ready; gives up the caller's use when that failed. */
static struct sp_error *wait_for(struct spsym_context *context, struct spsym_module *module, struct spsym_module **ret)
{
	while (module->registration.loading)
		pthread_cond_wait(&context->loaded, &context->lock);
	struct sp_error *failed = module->registration.load_error;
	if (!failed) {
		*ret = module;
		return NULL;
	}
	struct sp_error *error = sp_error_create(failed->code, "%s", failed->message);
	if (--module->registration.users == 0)
		sp_module_destroy(module);
	return error;
}

/* Ends the loading that the caller began: publishes the module, or takes it out and gives the waiting threads the
 * error. */
static struct sp_error *finish_loading(struct spsym_context *context, struct spsym_module *module,
                                       struct sp_error *error, struct spsym_module **ret)
{
	struct spsym_module *evicted = NULL;
	pthread_mutex_lock(&context->lock);
	module->registration.loading = false;
	if (error) {
		unlink_module(context, module);
		if (--module->registration.users == 0)
			sp_module_destroy(module);
		else
			module->registration.load_error = sp_error_create(error->code, "%s", error->message);
	} else {
		count_memory(context, module);
		evicted = evict(context);
		*ret = module;
	}
	pthread_cond_broadcast(&context->loaded);
	pthread_mutex_unlock(&context->lock);
	destroy_list(evicted);
	return error;
}

/* Finds the files of a new module and opens it. Consumes `given`. */
static struct sp_error *load(struct spsym_module *module, const struct spsym_identity *identity,
                             struct sp_symbol_file *given)
{
	struct sp_error *error = sp_locate(&module->context->locate, identity, given, &module->found);
	return error ? error : sp_module_open(module);
}

/* Gives the module of `key`, which it takes over; loads it when it is not there. Consumes `given`. */
static struct sp_error *get_module(struct spsym_context *context, char *key, const struct spsym_identity *identity,
                                   struct sp_symbol_file *given, struct spsym_module **ret)
{
	pthread_mutex_lock(&context->lock);
	struct spsym_module *module = find_module(context, key);
	if (module) {
		leave_idle_list(context, module);
		module->registration.users++;
		struct sp_error *error = wait_for(context, module, ret);
		pthread_mutex_unlock(&context->lock);
		free(key);
		sp_symbol_file_destroy(given);
		return error;
	}
	module = sp_module_create(context);
	if (module) {
		module->registration.key = key;
		module->registration.users = 1;
		module->registration.loading = true;
		link_module(context, module);
	}
	pthread_mutex_unlock(&context->lock);
	if (!module) {
		free(key);
		sp_symbol_file_destroy(given);
		return sp_error_no_memory();
	}
	return finish_loading(context, module, load(module, identity, given), ret);
}

/* Loads a module that is not shared. Consumes `given`. */
static struct sp_error *load_alone(struct spsym_context *context, const struct spsym_identity *identity,
                                   struct sp_symbol_file *given, struct spsym_module **ret)
{
	struct spsym_module *module = sp_module_create(context);
	if (!module) {
		sp_symbol_file_destroy(given);
		return sp_error_no_memory();
	}
	module->registration.users = 1;
	struct sp_error *error = load(module, identity, given);
	if (error)
		sp_module_destroy(module);
	else
		*ret = module;
	return error;
}

/* All fields, apart by a character that names do not have. */
static char *identity_key(const struct spsym_identity *identity)
{
	const char *fields[] = { identity->name,     identity->path,    identity->debug_name, identity->debug_path,
		                 identity->debug_id, identity->code_id, identity->arch };
	struct sp_buffer key = { 0 };
	struct sp_error *error = sp_buffer_write(&key, "id", 2);
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]) && !error; i++) {
		error = sp_buffer_write(&key, "\n", 1);
		if (!error && fields[i])
			error = sp_buffer_write(&key, fields[i], strlen(fields[i]));
	}
	if (!error)
		error = sp_buffer_write(&key, "", 1);
	if (error) {
		sp_error_destroy(error);
		free(key.bytes);
		return NULL;
	}
	return key.bytes;
}

struct sp_error *spsym_module_find(struct spsym_context *context, const struct spsym_identity *identity,
                                   struct spsym_module **ret)
{
	char *key = identity_key(identity);
	return key ? get_module(context, key, identity, NULL, ret) : sp_error_no_memory();
}

/* The identity of a file that was opened by name. */
static struct spsym_identity identity_of(const struct sp_symbol_file *file)
{
	struct spsym_identity identity = { .path = file->path,
		                           .debug_id = file->info.debug_id,
		                           .code_id = file->info.code_id,
		                           .arch = file->info.arch };
	return identity;
}

struct sp_error *spsym_module_open_path(struct spsym_context *context, const char *path, struct spsym_module **ret)
{
	struct sp_symbol_file *file;
	struct sp_error *error = sp_symbol_file_open_path(path, &file);
	if (error)
		return error;
	/* A file that was replaced is another module. */
	uint64_t device = 0, inode = 0;
	int64_t mtime = 0;
	size_t size = 0;
	if (file->object) {
		sp_object_file_identity(file->object, &device, &inode, &mtime);
		size = sp_object_file_size(file->object);
	}
	struct spsym_identity identity = identity_of(file);
	size_t length = strlen(path) + 100;
	char *key = malloc(length);
	if (!key) {
		sp_symbol_file_destroy(file);
		return sp_error_no_memory();
	}
	snprintf(key, length, "path\n%llx\n%llx\n%llx\n%zx\n%s", (unsigned long long)device, (unsigned long long)inode,
	         (unsigned long long)mtime, size, path);
	return get_module(context, key, &identity, file, ret);
}

struct sp_error *spsym_module_open_fd(struct spsym_context *context, int fd, const char *name,
                                      struct spsym_module **ret)
{
	struct sp_symbol_file *file;
	struct sp_error *error = sp_symbol_file_open_fd(fd, name, &file);
	if (error)
		return error;
	struct spsym_identity identity = identity_of(file);
	return load_alone(context, &identity, file, ret);
}

struct sp_error *spsym_module_open_reader(struct spsym_context *context, const struct spsym_reader *reader,
                                          const char *name, struct spsym_module **ret)
{
	struct sp_symbol_file *file;
	struct sp_error *error = sp_symbol_file_open_reader(reader, name, &file);
	if (error)
		return error;
	struct spsym_identity identity = identity_of(file);
	return load_alone(context, &identity, file, ret);
}

struct sp_error *spsym_module_open_bytes(struct spsym_context *context, const void *bytes, size_t size,
                                         const char *name, struct spsym_module **ret)
{
	struct sp_symbol_file *file;
	struct sp_error *error = sp_symbol_file_open_bytes(bytes, size, name, &file);
	if (error)
		return error;
	struct spsym_identity identity = identity_of(file);
	return load_alone(context, &identity, file, ret);
}

void spsym_module_release(struct spsym_module *module)
{
	if (!module)
		return;
	struct spsym_context *context = module->context;
	if (!module->registration.key) {
		sp_module_destroy(module);
		return;
	}
	pthread_mutex_lock(&context->lock);
	struct spsym_module *evicted = NULL;
	if (--module->registration.users == 0) {
		count_memory(context, module);
		enter_idle_list(context, module);
		evicted = evict(context);
	}
	pthread_mutex_unlock(&context->lock);
	destroy_list(evicted);
}
