/* A module: the files that were found for one binary, and what is made from them on first use. */
#include "symbolication/module.h"

#include "common/compress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef _WIN32
#include <unistd.h>
#endif

/* .gnu_debugdata is a symbol table; real ones stay below a few MB. */
#define MINI_LIMIT ((size_t)256 << 20)

struct spsym_module *sp_module_create(struct spsym_context *context)
{
	struct spsym_module *module = calloc(1, sizeof(*module));
	if (!module)
		return NULL;
	module->context = context;
	pthread_mutex_init(&module->lock, NULL);
	pthread_mutex_init(&module->dwo_lock, NULL);
	sp_module_index_init(module);
	return module;
}

void sp_module_destroy(struct spsym_module *module)
{
	if (!module)
		return;
	sp_module_index_deinit(module);
	sp_dwarf_destroy(module->dwarf);
	free(module->dwarf_error);
	sp_go_destroy(module->go);
	sp_parts_deinit(&module->parts);
	for (size_t i = 0; i < module->dwos.count; i++)
		sp_symbol_file_destroy(module->dwos.items[i]);
	sp_vector_deinit(&module->dwos);
	free(module->list);
	sp_symbol_table_deinit(&module->table);
	for (size_t i = 0; i < SP_MODULE_LISTS; i++)
		sp_symbols_deinit(&module->lists[i]);
	sp_object_destroy(module->mini);
	sp_names_destroy(module->names);
	sp_symbol_file_destroy(atomic_load(&module->executable));
	sp_located_deinit(&module->found);
	pthread_mutex_destroy(&module->lock);
	pthread_mutex_destroy(&module->dwo_lock);
	free(module->registration.key);
	sp_error_destroy(module->registration.load_error);
	free(module);
}

struct sp_error *sp_module_open(struct spsym_module *module)
{
	const struct sp_symbol_file *binary = module->found.binary, *debug = module->found.debug;
	module->info = binary ? binary->info : debug->info;
	module->info.has_symbols |= debug->info.has_symbols;
	module->info.has_debug_info |= debug->info.has_debug_info;
	module->names = sp_names_create(module->context->no_demangling);
	return module->names ? NULL : sp_error_no_memory();
}

static size_t file_memory(const struct sp_symbol_file *file)
{
	if (!file)
		return 0;
	size_t memory = file->object ? sp_object_memory(file->object) : 0;
	memory += file->pdb ? sp_pdb_memory(file->pdb) : 0;
	memory += file->breakpad ? sp_breakpad_memory(file->breakpad) : 0;
	return memory + file->kallsyms.count * sizeof(*file->kallsyms.items) + file->kallsyms.names.total;
}

size_t sp_module_memory(struct spsym_module *module)
{
	const struct sp_found *found = &module->found;
	size_t memory = sizeof(*module) + file_memory(found->debug) + file_memory(found->supplementary) +
	                file_memory(found->package);
	if (found->binary != found->debug)
		memory += file_memory(found->binary);
	memory += sp_parts_memory(&module->parts);
	if (module->names)
		memory += sp_names_memory(module->names);
	if (atomic_load_explicit(&module->table_ready, memory_order_acquire)) {
		memory += sp_symbol_table_memory(&module->table);
		for (size_t i = 0; i < SP_MODULE_LISTS; i++)
			memory += module->lists[i].count * sizeof(struct sp_symbol) + module->lists[i].names.total;
		if (module->mini)
			memory += sp_object_memory(module->mini);
	}
	if (atomic_load_explicit(&module->list_ready, memory_order_acquire))
		memory += module->list_count * sizeof(*module->list);
	if (atomic_load_explicit(&module->dwarf_ready, memory_order_acquire) && module->dwarf)
		memory += sp_dwarf_memory(module->dwarf);
	memory += sp_module_index_memory(module);
	pthread_mutex_lock(&module->dwo_lock);
	for (size_t i = 0; i < module->dwos.count; i++)
		memory += file_memory(module->dwos.items[i]);
	pthread_mutex_unlock(&module->dwo_lock);
	return memory;
}

void sp_module_explain_line(struct spsym_module *module, const char *what, const char *why)
{
	char line[1024];
	int length = snprintf(line, sizeof(line), "%s: %s\n", what, why);
	size_t size = (size_t)length < sizeof(line) ? (size_t)length : sizeof(line) - 1;
	sp_error_destroy(sp_buffer_write(&module->found.trace, line, size));
}

/* A source that cannot be read costs its symbols only; a lack of memory is passed on. Consumes `error`. */
static struct sp_error *tolerate(struct spsym_module *module, const char *what, struct sp_error *error)
{
	if (!error || error->code == SP_ERROR_NO_MEMORY)
		return error;
	sp_module_explain_line(module, what, error->message);
	sp_error_destroy(error);
	return NULL;
}

/* The mini debug file inside a binary: the symbols that .dynsym lacks. */
static struct sp_error *open_mini(struct spsym_module *module, struct sp_object *binary)
{
	const struct sp_section *section = sp_object_find_section(binary, ".gnu_debugdata");
	if (!section || module->mini)
		return NULL;
	const uint8_t *packed;
	uint8_t *bytes;
	size_t packed_size, size;
	struct sp_error *error = sp_object_section_bytes(binary, section, &packed, &packed_size);
	if (!error)
		error = sp_decompress(SP_COMPRESSION_XZ, packed, packed_size, MINI_LIMIT, &bytes, &size);
	return error ? error : sp_object_open_owned(bytes, size, "the mini debug file", &module->mini);
}

/* An object that was put into the table before memory ran out must not be put in twice: its list is emptied first. */
static struct sp_error *add_object(struct spsym_module *module, struct sp_table_builder *builder, const char *what,
                                   struct sp_object *object, uint64_t base, bool functions, struct sp_symbols *lists,
                                   size_t list)
{
	sp_symbols_deinit(&lists[list]);
	return tolerate(module, what, sp_table_add_object(builder, object, base, functions, &lists[list]));
}

/* Opens Go's table where nothing better is there; under the module's lock. */
static struct sp_error *open_go(struct spsym_module *module)
{
	const struct sp_symbol_file *binary = module->found.binary;
	if (atomic_load_explicit(&module->go_ready, memory_order_relaxed))
		return NULL;
	struct sp_error *error = NULL;
	if (binary && binary->object && !module->info.has_debug_info)
		error = tolerate(module, "Go's table of functions", sp_go_open(binary->object, &module->go));
	if (error)
		return error;
	if (module->go)
		sp_module_explain_line(module, "functions and lines from Go's own table, since version",
		                       sp_go_version(module->go));
	atomic_store_explicit(&module->go_ready, true, memory_order_release);
	return NULL;
}

struct sp_error *sp_module_need_go(struct spsym_module *module)
{
	if (atomic_load_explicit(&module->go_ready, memory_order_acquire))
		return NULL;
	pthread_mutex_lock(&module->lock);
	struct sp_error *error = open_go(module);
	pthread_mutex_unlock(&module->lock);
	return error;
}

static struct sp_error *add_go(struct spsym_module *module, struct sp_table_builder *builder, struct sp_symbols *lists)
{
	struct sp_error *error = open_go(module);
	sp_symbols_deinit(&lists[3]);
	if (!error && module->go)
		error = sp_go_symbols(module->go, &lists[3]);
	return error ? error : sp_table_add_symbols(builder, &lists[3], module->found.binary->info.base);
}

/* Best source first: the debug file, the binary with its dynamic symbols, stubs and unwind functions, its mini file. */
static struct sp_error *fill_table(struct spsym_module *module, struct sp_table_builder *builder,
                                   struct sp_symbols *lists)
{
	const struct sp_symbol_file *debug = module->found.debug, *binary = module->found.binary;
	struct sp_error *error = NULL;
	if (debug->pdb || debug->breakpad) {
		sp_symbols_deinit(&lists[0]);
		error = debug->pdb ? sp_pdb_symbols(debug->pdb, &lists[0])
		                   : sp_breakpad_symbols(debug->breakpad, &lists[0]);
		if (!error)
			error = sp_table_add_symbols(builder, &lists[0], 0);
	} else if (!debug->object)
		error = sp_table_add_symbols(builder, &debug->kallsyms, debug->info.base);
	else if (debug != binary)
		error = add_object(module, builder, "symbols of the debug file", debug->object, debug->info.base, false,
		                   lists, 0);
	if (error || !binary)
		return error;
	if (!module->info.has_symbols) {
		error = tolerate(module, ".gnu_debugdata", open_mini(module, binary->object));
		if (!error && module->mini)
			error = add_object(module, builder, "symbols of .gnu_debugdata", module->mini,
			                   sp_object_info(module->mini)->base ? sp_object_info(module->mini)->base
			                                                      : binary->info.base,
			                   false, lists, 2);
	}
	if (!error)
		error = add_object(module, builder, "symbols of the binary", binary->object, binary->info.base, true,
		                   lists, 1);
	if (!error && !module->info.has_symbols)
		error = add_go(module, builder, lists);
	return error;
}

struct sp_error *sp_module_need_table(struct spsym_module *module)
{
	if (atomic_load_explicit(&module->table_ready, memory_order_acquire))
		return NULL;
	pthread_mutex_lock(&module->lock);
	struct sp_error *error = NULL;
	if (!atomic_load_explicit(&module->table_ready, memory_order_relaxed)) {
		struct sp_table_builder builder = { 0 };
		error = fill_table(module, &builder, module->lists);
		if (!error)
			error = sp_table_finish(&builder, &module->table);
		sp_table_builder_deinit(&builder);
		if (!error)
			atomic_store_explicit(&module->table_ready, true, memory_order_release);
	}
	pthread_mutex_unlock(&module->lock);
	return error;
}

/* Symbols of a few addresses, without making the table: reading all symbols is less than half of that. */
static struct sp_error *find_few(struct spsym_module *module, const uint64_t *addresses, size_t count,
                                 struct spsym_symbol *ret)
{
	struct sp_table_builder builder = { 0 };
	struct sp_symbols lists[SP_MODULE_LISTS] = { 0 };
	struct sp_symbol_table table = { 0 };
	pthread_mutex_lock(&module->lock);
	struct sp_error *error = fill_table(module, &builder, lists);
	pthread_mutex_unlock(&module->lock);
	if (!error) {
		sp_table_narrow(&builder, addresses, count);
		error = sp_table_finish(&builder, &table);
	}
	for (size_t i = 0; i < count && !error; i++) {
		const struct sp_table_symbol *symbol = sp_symbol_table_find(&table, addresses[i]);
		if (!symbol)
			continue;
		/* The lists go: a name must not be known by where it is in them. */
		const char *name = symbol->name == sp_symbol_no_name ? sp_module_symbol_name(module, symbol)
		                                                     : sp_names_readable(module->names, symbol->name);
		ret[i] = (struct spsym_symbol){ name, symbol->start, symbol->size };
		error = name ? NULL : sp_error_no_memory();
	}
	sp_symbol_table_deinit(&table);
	sp_table_builder_deinit(&builder);
	for (size_t i = 0; i < SP_MODULE_LISTS; i++)
		sp_symbols_deinit(&lists[i]);
	return error;
}

struct sp_error *sp_module_few_symbols(struct spsym_module *module, const uint64_t *addresses, size_t count,
                                       struct spsym_symbol *ret, bool *ret_done)
{
	*ret_done = count <= SP_TABLE_FEW && !atomic_load_explicit(&module->table_ready, memory_order_acquire) &&
	            !atomic_exchange(&module->asked_few, true);
	return *ret_done ? find_few(module, addresses, count, ret) : NULL;
}

static struct sp_object *object_of(const struct sp_symbol_file *file)
{
	return file ? file->object : NULL;
}

/* Threads that decode beside the caller's: the other processors, a few at most. */
static unsigned count_helpers(void)
{
#ifdef _WIN32
	return 0;
#else
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	return processors <= 1 ? 0 : processors < 4 ? (unsigned)processors - 1 : 3;
#endif
}

/* sp_dwarf_files.open_dwo */
static struct sp_object *open_dwo(void *context, const char *path)
{
	struct spsym_module *module = context;
	struct sp_symbol_file *file;
	struct sp_error *error = sp_locate_dwo(&module->context->locate, &module->found, path, &file);
	if (error) {
		sp_error_destroy(error);
		return NULL;
	}
	pthread_mutex_lock(&module->dwo_lock);
	bool kept = sp_vector_push(&module->dwos, file);
	pthread_mutex_unlock(&module->dwo_lock);
	if (!kept) {
		sp_symbol_file_destroy(file);
		return NULL;
	}
	return file->object;
}

void sp_module_dwarf_files(struct spsym_module *module, struct sp_dwarf_files *ret)
{
	*ret = (struct sp_dwarf_files){ .main = object_of(module->found.debug),
		                        .supplementary = object_of(module->found.supplementary),
		                        .package = object_of(module->found.package),
		                        .open_dwo = open_dwo,
		                        .context = module,
		                        .helpers = count_helpers(),
		                        .libdwarf = module->context->engine == SPSYM_ENGINE_LIBDWARF };
}

struct sp_error *sp_module_need_dwarf(struct spsym_module *module)
{
	if (atomic_load_explicit(&module->dwarf_ready, memory_order_acquire))
		return NULL;
	pthread_mutex_lock(&module->lock);
	struct sp_error *error = NULL;
	if (!atomic_load_explicit(&module->dwarf_ready, memory_order_relaxed)) {
		struct sp_dwarf_files files;
		sp_module_dwarf_files(module, &files);
		if (files.main && module->found.debug->info.has_debug_info)
			error = sp_dwarf_create(&files, &module->dwarf);
		if (error && error->code != SP_ERROR_NO_MEMORY) {
			module->dwarf_error = strdup(error->message);
			error = tolerate(module, "debug information", error);
		}
		if (!error)
			atomic_store_explicit(&module->dwarf_ready, true, memory_order_release);
	}
	pthread_mutex_unlock(&module->lock);
	return error;
}

const char *sp_module_symbol_name(struct spsym_module *module, const struct sp_table_symbol *symbol)
{
	if (symbol->name != sp_symbol_no_name)
		return sp_names_get(module->names, symbol->name);
	char text[32];
	snprintf(text, sizeof(text), "fun_%llx", (unsigned long long)symbol->start);
	return sp_names_copy(module->names, text);
}

struct sp_error *sp_module_need_code(struct spsym_module *module, const struct sp_symbol_file **ret)
{
	*ret = module->found.binary;
	if (*ret && (*ret)->object)
		return NULL;
	*ret = atomic_load_explicit(&module->executable, memory_order_acquire);
	if (*ret)
		return NULL;
	pthread_mutex_lock(&module->lock);
	struct sp_symbol_file *file = atomic_load_explicit(&module->executable, memory_order_relaxed);
	struct sp_error *error = NULL;
	if (!file) {
		error = sp_locate_executable(&module->context->locate, &module->found, &file);
		if (!error)
			atomic_store_explicit(&module->executable, file, memory_order_release);
	}
	pthread_mutex_unlock(&module->lock);
	*ret = file;
	return error;
}

bool spsym_module_is_downloaded(const struct spsym_module *module)
{
	return module->found.debug->downloaded;
}

struct sp_error *spsym_module_fetch_source(struct spsym_module *module, const char *file, char **ret)
{
	struct sp_debuginfod *debuginfod = module->context->locate.debuginfod;
	const struct sp_symbol_file *debug = module->found.debug;
	size_t size = 0;
	const uint8_t *id = debug->object ? sp_object_build_id(debug->object, &size) : NULL;
	if (!debuginfod || !id || file[0] != '/')
		return sp_error_create(SP_ERROR_NOT_FOUND, "no server is known that may have %s", file);
	return sp_debuginfod_get(debuginfod, id, size, SP_DEBUGINFOD_SOURCE, file, ret);
}

const struct spsym_file_info *spsym_module_info(const struct spsym_module *module)
{
	return &module->info;
}

static struct sp_error *write_strings(struct sp_buffer *out, const char *const *strings)
{
	struct sp_error *error = NULL;
	for (; *strings && !error; strings++)
		error = sp_buffer_write(out, *strings, strlen(*strings));
	return error;
}

/* A file, and what is odd about it. */
static struct sp_error *describe_file(struct sp_buffer *out, const char *role, const struct sp_symbol_file *file,
                                      bool described)
{
	if (!file)
		return NULL;
	const char *const line[] = { role, ": ", file->path, file->info.debug_id[0] ? " ID " : "", file->info.debug_id,
		                     "\n", NULL };
	struct sp_error *error = write_strings(out, line);
	if (error || described)
		return error;
	const char *note = file->object ? sp_object_note(file->object) : NULL;
	const char *const note_line[] = { file->path, ": ", note, "\n", NULL };
	if (!error && note)
		error = write_strings(out, note_line);
	struct sp_error *unread = file->object ? sp_object_read_failure(file->object) : NULL;
	if (!error && unread) {
		const char *const unread_line[] = { unread->message, "\n", NULL };
		error = write_strings(out, unread_line);
	}
	sp_error_destroy(unread);
	return error;
}

/* The report: the files in use, then every place that was tried. */
static struct sp_error *make_explanation(const struct sp_found *found, char **ret)
{
	struct sp_buffer out = { 0 };
	struct sp_error *error = describe_file(&out, "binary", found->binary, found->binary == found->debug);
	if (!error)
		error = describe_file(&out, "symbols from", found->debug, false);
	if (!error)
		error = describe_file(&out, "shared debug information", found->supplementary, false);
	if (!error)
		error = describe_file(&out, "split debug information", found->package, false);
	if (!error && found->trace.size)
		error = sp_buffer_write(&out, found->trace.bytes, found->trace.size);
	if (!error)
		error = sp_buffer_write(&out, "", 1);
	if (error) {
		free(out.bytes);
		return error;
	}
	*ret = out.bytes;
	return NULL;
}

struct sp_error *spsym_module_explain(struct spsym_module *module, char **ret)
{
	pthread_mutex_lock(&module->lock); /* lines are added when tables are made */
	struct sp_error *error = make_explanation(&module->found, ret);
	pthread_mutex_unlock(&module->lock);
	return error;
}

struct sp_error *spsym_explain(struct spsym_context *context, const struct spsym_identity *identity, char **ret)
{
	struct sp_found found;
	struct sp_error *error = sp_locate(&context->locate, identity, NULL, &found);
	if (error && error->code == SP_ERROR_NOT_FOUND) {
		sp_error_destroy(error);
		error = NULL;
	}
	if (!error)
		error = make_explanation(&found, ret);
	sp_located_deinit(&found);
	return error;
}
