/* A module's index: looked for in the cache folder when the module is first asked, made by a thread in the background
 * when it was asked for much, saved and mapped. */
#include "symbolication/module.h"

#include "symbolication/index/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUCH 200 /* addresses, after which an index is made */

void sp_module_index_init(struct spsym_module *module)
{
	pthread_mutex_init(&module->index.lock, NULL);
}

static void indexed_destroy(struct sp_indexed *indexed)
{
	while (indexed) {
		struct sp_indexed *next = indexed->retired;
		sp_index_destroy(indexed->index);
		free(indexed->names);
		free(indexed->plain);
		free(indexed->files);
		free(indexed->note);
		free(indexed);
		indexed = next;
	}
}

void sp_module_index_deinit(struct spsym_module *module)
{
	struct sp_module_index *state = &module->index;
	if (state->has_thread) {
		atomic_store(&state->cancel, true);
		pthread_mutex_lock(&module->context->index_lock); /* it may wait for its turn */
		pthread_cond_broadcast(&module->context->index_done);
		pthread_mutex_unlock(&module->context->index_lock);
		pthread_join(state->thread, NULL);
	}
	indexed_destroy(atomic_load(&state->current));
	indexed_destroy(state->retired);
	pthread_mutex_destroy(&state->lock);
}

size_t sp_module_index_memory(struct spsym_module *module)
{
	const struct sp_indexed *indexed = atomic_load_explicit(&module->index.current, memory_order_acquire);
	if (!indexed)
		return 0;
	size_t names = sp_index_name_count(indexed->index), files = sp_index_file_count(indexed->index);
	return sp_index_memory(indexed->index) + names * (sizeof(char *) + 1) + files * sizeof(char *);
}

/* Takes over index and note, also when it fails. */
static struct sp_error *indexed_create(struct sp_index *index, char *note, struct sp_indexed **ret)
{
	struct sp_indexed *indexed = calloc(1, sizeof(*indexed));
	if (!indexed) {
		sp_index_destroy(index);
		free(note);
		return sp_error_no_memory();
	}
	size_t names = (size_t)sp_index_name_count(index) + 1, files = (size_t)sp_index_file_count(index) + 1;
	indexed->index = index;
	indexed->note = note;
	indexed->names = calloc(names, sizeof(*indexed->names));
	indexed->plain = calloc(names, sizeof(*indexed->plain));
	indexed->files = calloc(files, sizeof(*indexed->files));
	if (!indexed->names || !indexed->plain || !indexed->files) {
		indexed_destroy(indexed);
		return sp_error_no_memory();
	}
	*ret = indexed;
	return NULL;
}

/* ---- The key ---- */

/* What a file is: nothing when it is no file of its own, whose index can't be kept. */
static bool describe(struct sp_buffer *key, const char *role, const struct sp_symbol_file *file)
{
	uint64_t device = 0, inode = 0;
	int64_t mtime = 0;
	size_t size = 0;
	char text[256 + SPSYM_ID_MAX];
	if (!file)
		return true;
	if (file->pdb || file->breakpad) {
		device = file->map.device;
		inode = file->map.inode;
		mtime = file->map.mtime_ns;
		size = file->map.size;
	} else if (file->object) {
		sp_object_file_identity(file->object, &device, &inode, &mtime);
		size = sp_object_file_size(file->object);
	}
	if (!inode && !mtime)
		return false;
	int length = snprintf(text, sizeof(text), "%s %llx:%llx %llx %zx %llx %s\n", role, (unsigned long long)device,
	                      (unsigned long long)inode, (unsigned long long)mtime, size,
	                      (unsigned long long)file->info.base, file->info.debug_id);
	struct sp_error *error = sp_buffer_write(key, text, (size_t)length);
	bool written = !error;
	sp_error_destroy(error);
	return written;
}

/* What the module's index is made of; NULL = it can't be told. The caller frees it. */
static char *make_key(const struct spsym_module *module)
{
	const struct sp_found *found = &module->found;
	struct sp_buffer key = { 0 };
	bool ok = describe(&key, "debug", found->debug) &&
	          describe(&key, "binary", found->binary != found->debug ? found->binary : NULL) &&
	          describe(&key, "supplementary", found->supplementary) && describe(&key, "package", found->package);
	struct sp_error *error = ok ? sp_buffer_write(&key, "", 1) : NULL;
	if (ok && !error)
		return key.bytes;
	sp_error_destroy(error);
	free(key.bytes);
	return NULL;
}

/* The folder of saved indexes; NULL = nothing is saved. The caller frees it. */
static char *make_folder(const struct spsym_module *module)
{
	const char *cache = module->context->locate.cache_folder;
	size_t size = cache ? strlen(cache) + 16 : 0;
	char *folder = cache ? malloc(size) : NULL;
	if (folder)
		snprintf(folder, size, "%s/indexes", cache);
	return folder;
}

/* ---- Finding one ---- */

/* Whether there is debug information that our engines read. */
static bool has_debug_information(struct spsym_module *module)
{
	const struct sp_symbol_file *debug = module->found.debug;
	sp_error_destroy(sp_module_need_go(module));
	if (module->go)
		return true;
	if (module->context->engine != SPSYM_ENGINE_NATIVE || !debug->info.has_debug_info)
		return false;
	return debug->object || debug->breakpad || (debug->pdb && sp_pdb_can_compile(debug->pdb));
}

/* A saved index, *ret NULL when there is none. */
static struct sp_error *load(const struct spsym_module *module, const char *key, struct sp_indexed **ret)
{
	char *folder = key ? make_folder(module) : NULL;
	struct sp_index *index = NULL;
	struct sp_error *error = folder ? sp_index_cache_load(folder, key, &index) : NULL;
	if (!error && index)
		error = indexed_create(index, NULL, ret);
	free(folder);
	return error;
}

static void tell_of_it(struct spsym_module *module)
{
	pthread_mutex_lock(&module->lock);
	sp_module_explain_line(module, "saved index", "in use");
	pthread_mutex_unlock(&module->lock);
}

struct sp_error *sp_module_indexed(struct spsym_module *module, struct sp_indexed **ret)
{
	struct sp_module_index *state = &module->index;
	*ret = atomic_load_explicit(&state->current, memory_order_acquire);
	if (*ret || atomic_load_explicit(&state->looked, memory_order_acquire))
		return NULL;
	pthread_mutex_lock(&state->lock);
	struct sp_error *error = NULL;
	if (!atomic_load(&state->looked)) {
		char *key = has_debug_information(module) ? make_key(module) : NULL;
		error = load(module, key, ret);
		if (!error) {
			if (*ret)
				tell_of_it(module);
			atomic_store_explicit(&state->current, *ret, memory_order_release);
			atomic_store_explicit(&state->looked, true, memory_order_release);
		}
		free(key);
	}
	*ret = atomic_load(&state->current);
	pthread_mutex_unlock(&state->lock);
	return error;
}

void sp_module_index_damaged(struct spsym_module *module, struct sp_indexed *indexed)
{
	struct sp_module_index *state = &module->index;
	pthread_mutex_lock(&state->lock);
	if (atomic_load(&state->current) == indexed) {
		char *folder = make_folder(module);
		if (folder)
			sp_index_cache_remove(folder, sp_index_key(indexed->index));
		free(folder);
		indexed->retired = state->retired;
		state->retired = indexed;
		atomic_store_explicit(&state->current, NULL, memory_order_release);
	}
	pthread_mutex_unlock(&state->lock);
}

/* ---- Making one ---- */

static struct sp_error *compile(struct spsym_module *module, struct sp_index_builder *builder, bool *ret_whole,
                                char **ret_note)
{
	const struct sp_pdb *pdb = module->found.debug->pdb;
	struct sp_dwarf_files files;
	if (pdb) {
		size_t size;
		const uint8_t *bytes = sp_pdb_bytes(pdb, &size);
		*ret_whole = true;
		return sp_pdb_compile(bytes, size, &module->index.cancel, builder, ret_note);
	}
	if (module->found.debug->breakpad) {
		*ret_whole = true;
		return sp_breakpad_compile(module->found.debug->breakpad, &module->index.cancel, builder);
	}
	if (module->go) {
		*ret_whole = true;
		return sp_go_compile(module->go, module->found.binary->info.base, &module->index.cancel, builder);
	}
	sp_module_dwarf_files(module, &files);
	return sp_dwarf_compile(&files, module->found.debug->info.base, files.helpers + 1, &module->index.cancel,
	                        builder, ret_whole, ret_note);
}

static struct sp_error *build(struct spsym_module *module, const char *key, bool *ret_whole, struct sp_indexed **ret)
{
	struct sp_index_builder *builder;
	struct sp_index *index;
	char *note = NULL;
	struct sp_error *error = sp_module_need_table(module);
	if (!error)
		error = sp_index_builder_create(&builder);
	if (error)
		return error;
	error = compile(module, builder, ret_whole, &note);
	if (!error)
		error = sp_index_builder_symbols(builder, &module->table);
	if (!error)
		error = sp_index_builder_finish(builder, key ? key : "", true, &index);
	sp_index_builder_destroy(builder);
	*ret_whole = *ret_whole && !note;
	if (!error)
		return indexed_create(index, note, ret);
	free(note);
	return error;
}

/* Saves an index and gives back the memory that it takes. That it can't be saved is no reason not to use it. */
static struct sp_error *save(struct spsym_module *module, const char *key, struct sp_indexed **indexed)
{
	char *folder = make_folder(module);
	struct sp_error *error = folder ? sp_index_cache_save(folder, (*indexed)->index, SP_INDEX_CACHE_LIMIT) : NULL;
	bool saved = folder && !error;
	sp_error_destroy(error);
	free(folder);
	if (!saved)
		return NULL;
	struct sp_indexed *mapped = NULL;
	error = load(module, key, &mapped);
	if (mapped) {
		indexed_destroy(*indexed);
		*indexed = mapped;
	}
	return error;
}

static struct sp_error *make(struct spsym_module *module)
{
	struct sp_indexed *indexed = NULL;
	char *key = make_key(module);
	bool whole;
	struct sp_error *error = build(module, key, &whole, &indexed);
	if (!error && key && whole)
		error = save(module, key, &indexed);
	free(key);
	if (error) {
		indexed_destroy(indexed);
		return error;
	}
	pthread_mutex_lock(&module->index.lock);
	atomic_store_explicit(&module->index.current, indexed, memory_order_release);
	pthread_mutex_unlock(&module->index.lock);
	return NULL;
}

/* Makes the index when it is the module's turn, and nobody was faster. */
static struct sp_error *make_in_turn(struct spsym_module *module)
{
	struct spsym_context *context = module->context;
	struct sp_error *error = NULL;
	pthread_mutex_lock(&context->index_lock);
	while (context->index_busy && !atomic_load(&module->index.cancel))
		pthread_cond_wait(&context->index_done, &context->index_lock);
	bool mine = !context->index_busy;
	context->index_busy = true;
	pthread_mutex_unlock(&context->index_lock);
	if (!mine)
		return sp_error_create(SP_ERROR_CANCELLED, "the index is not wanted any more");
	if (!atomic_load(&module->index.current))
		error = make(module);
	pthread_mutex_lock(&context->index_lock);
	context->index_busy = false;
	pthread_cond_broadcast(&context->index_done);
	pthread_mutex_unlock(&context->index_lock);
	return error;
}

static void *run(void *argument)
{
	sp_error_destroy(make_in_turn(argument)); /* look-ups go on without */
	return NULL;
}

void sp_module_asked(struct spsym_module *module, size_t count)
{
	struct sp_module_index *state = &module->index;
	size_t before = atomic_fetch_add_explicit(&state->asked, count, memory_order_relaxed);
	if (before + count < MUCH || module->context->no_background || !has_debug_information(module))
		return;
	pthread_mutex_lock(&state->lock);
	if (!state->has_thread && !atomic_load(&state->current))
		state->has_thread = pthread_create(&state->thread, NULL, run, module) == 0;
	pthread_mutex_unlock(&state->lock);
}

struct sp_error *spsym_module_index(struct spsym_module *module)
{
	struct sp_indexed *indexed;
	if (!has_debug_information(module))
		return sp_error_create(SP_ERROR_UNSUPPORTED, "%s has no debug information that an index can be made of",
		                       module->found.debug->path);
	struct sp_error *error = sp_module_indexed(module, &indexed);
	return error || indexed ? error : make_in_turn(module);
}
