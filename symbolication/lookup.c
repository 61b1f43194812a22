/* Look-ups: a batch of addresses is sorted, the debug information answers in that order, and each answer is joined with
 * the symbol that covers its address. */
#include "symbolication/module.h"

#include "symbolication/sort.h"

#include <stdlib.h>
#include <string.h>

/* spsym_result.storage */
struct storage {
	SP_VECTOR(struct spsym_frame) frames;
	size_t *first;          /* owned; index of each location's first frame */
	struct sp_keyed *order; /* owned; addresses sorted, with their place in the request */
	uint64_t *addresses;    /* owned; those, as svmas of the debug file */
	size_t capacity;        /* of these and of the locations */
};

void spsym_result_deinit(struct spsym_result *result)
{
	struct storage *storage = result->storage;
	if (storage) {
		sp_vector_deinit(&storage->frames);
		free(storage->first);
		free(storage->order);
		free(storage->addresses);
	}
	free(storage);
	free(result->locations);
	*result = (struct spsym_result){ 0 };
}

/* Grows one array; false without memory. */
static bool grow(void **array, size_t count, size_t item)
{
	void *larger = count < SIZE_MAX / item ? realloc(*array, count * item) : NULL;
	if (larger)
		*array = larger;
	return larger;
}

/* Makes an empty result of `count` locations. */
static struct sp_error *prepare(struct spsym_result *result, size_t count)
{
	if (!result->storage)
		result->storage = calloc(1, sizeof(struct storage));
	struct storage *storage = result->storage;
	if (!storage)
		return sp_error_no_memory();
	result->count = 0;
	result->debug_error = NULL;
	storage->frames.count = 0;
	if (count > storage->capacity || !result->locations) {
		size_t wanted = count < 16 ? 16 : count;
		if (!grow((void **)&result->locations, wanted, sizeof(*result->locations)) ||
		    !grow((void **)&storage->first, wanted, sizeof(*storage->first)) ||
		    !grow((void **)&storage->order, wanted, sizeof(*storage->order)) ||
		    !grow((void **)&storage->addresses, wanted, sizeof(*storage->addresses)))
			return sp_error_no_memory();
		storage->capacity = wanted;
	}
	return NULL;
}

static struct spsym_symbol make_symbol(struct spsym_module *module, const struct sp_table_symbol *symbol)
{
	if (!symbol)
		return (struct spsym_symbol){ 0 };
	return (struct spsym_symbol){ sp_module_symbol_name(module, symbol), symbol->start, symbol->size };
}

struct sp_error *spsym_lookup_symbols(struct spsym_module *module, const uint64_t *addresses, size_t count,
                                      struct spsym_result *ret)
{
	struct sp_error *error = prepare(ret, count);
	if (!error)
		error = sp_module_need_table(module);
	if (error)
		return error;
	for (size_t i = 0; i < count; i++) {
		const struct sp_table_symbol *symbol = sp_symbol_table_find(&module->table, addresses[i]);
		ret->locations[i] = (struct spsym_location){ .symbol = make_symbol(module, symbol) };
	}
	ret->count = count;
	return NULL;
}

/* Where the answers of one batch go. */
struct batch {
	struct spsym_module *module;
	struct spsym_result *result;
	bool failed; /* no memory */
};

/* The length of a readable name up to its parameters. */
static size_t length_without_parameters(const char *name)
{
	size_t depth = 0, length = strlen(name);
	for (size_t i = 0; i < length; i++) {
		if (name[i] == '<' || name[i] == '[')
			depth++;
		else if ((name[i] == '>' && i && name[i - 1] != '-') || name[i] == ']')
			depth -= depth > 0;
		else if (name[i] == '(' && !depth && i && strncmp(name + i, "(anonymous", 10) != 0 &&
		         strncmp(name + i, "()(", 3) != 0)
			return i;
	}
	return length;
}

/* Cuts template arguments off the end. */
static size_t length_without_arguments(const char *name, size_t length)
{
	size_t depth = 0;
	if (!length || name[length - 1] != '>')
		return length;
	for (size_t i = length; i-- > 0;) {
		if (name[i] == '>')
			depth++;
		else if (name[i] == '<' && --depth == 0)
			return i;
	}
	return length;
}

static bool ends_with_identifier(const char *name, size_t length, const char *identifier)
{
	size_t size = strlen(identifier);
	if (size > length || memcmp(name + length - size, identifier, size) != 0)
		return false;
	return size == length ||
	       (length - size >= 2 && name[length - size - 1] == ':' && name[length - size - 2] == ':');
}

/* Whether a symbol's readable name is the name that the debug information gives, more fully qualified (compilers that
 * leave linkage names out, or template arguments). A clone ("[clone .isra.0]", ".cold") is another thing. */
static bool is_fuller_name(const char *symbol, const char *name)
{
	if (strstr(symbol, " [clone "))
		return false;
	size_t length = length_without_parameters(symbol);
	return ends_with_identifier(symbol, length, name) ||
	       ends_with_identifier(symbol, length_without_arguments(symbol, length), name);
}

static const char *frame_name(struct spsym_module *module, const struct sp_dwarf_frame *frame)
{
	return frame->linkage_name ? sp_names_get(module->names, frame->linkage_name) : frame->name;
}

/* The outermost frame's name: a fuller spelling of it if the symbol has one. */
static const char *outermost_name(const char *name, const struct sp_dwarf_frame *frame, const char *symbol)
{
	if (!symbol || frame->linkage_name || !name || strcmp(symbol, name) == 0)
		return name;
	return is_fuller_name(symbol, name) ? symbol : name;
}

/* sp_dwarf_lookup()'s answer for the address at `index` of the sorted batch. */
static void take_answer(void *context, size_t index, const struct sp_dwarf_answer *answer)
{
	struct batch *batch = context;
	struct storage *storage = batch->result->storage;
	size_t at = storage->order[index].value;
	struct spsym_location *location = &batch->result->locations[at];
	if (!sp_vector_reserve(&storage->frames, answer->count)) {
		batch->failed = true;
		return;
	}
	storage->first[at] = storage->frames.count;
	location->frame_count = answer->count;
	for (size_t i = 0; i < answer->count; i++) {
		const struct sp_dwarf_frame *frame = &answer->frames[i];
		const char *name = frame_name(batch->module, frame);
		if (i + 1 == answer->count)
			name = outermost_name(name, frame, location->symbol.name);
		storage->frames.items[storage->frames.count++] = (struct spsym_frame){ name, frame->file, frame->line,
			                                                               frame->column };
	}
}

/* Asks the debug information for all addresses of the batch. */
static struct sp_error *add_frames(struct batch *batch, size_t count)
{
	struct spsym_module *module = batch->module;
	struct storage *storage = batch->result->storage;
	uint64_t base = module->found.debug->info.base;
	for (size_t i = 0; i < count; i++)
		storage->addresses[i] = base + storage->order[i].key;
	const char *note = NULL;
	struct sp_error *error = sp_dwarf_lookup(module->dwarf, storage->addresses, count, take_answer, batch, &note);
	if (error && error->code != SP_ERROR_NO_MEMORY) { /* the symbols stand */
		note = sp_names_copy(module->names, error->message);
		sp_error_destroy(error);
		error = NULL;
	}
	batch->result->debug_error = note;
	if (!error && batch->failed)
		error = sp_error_no_memory();
	return error;
}

struct sp_error *spsym_lookup(struct spsym_module *module, const uint64_t *addresses, size_t count,
                              struct spsym_result *ret)
{
	struct sp_error *error = spsym_lookup_symbols(module, addresses, count, ret);
	if (!error)
		error = sp_module_need_dwarf(module);
	if (error)
		return error;
	ret->debug_error = module->dwarf_error;
	if (!module->dwarf || !count)
		return NULL;
	struct storage *storage = ret->storage;
	for (size_t i = 0; i < count; i++)
		storage->order[i] = (struct sp_keyed){ addresses[i], i };
	if (!sp_sort_keyed(storage->order, count))
		return sp_error_no_memory();
	struct batch batch = { .module = module, .result = ret };
	error = add_frames(&batch, count);
	if (error)
		return error;
	for (size_t i = 0; i < count; i++) {
		if (ret->locations[i].frame_count)
			ret->locations[i].frames = &storage->frames.items[storage->first[i]];
	}
	return NULL;
}

static int compare_symbols(const void *a, const void *b)
{
	const struct spsym_symbol *x = a, *y = b;
	return x->address < y->address ? -1 : x->address > y->address;
}

struct sp_error *spsym_symbols(struct spsym_module *module, const struct spsym_symbol **ret, size_t *ret_count)
{
	struct sp_error *error = sp_module_need_table(module);
	if (error)
		return error;
	pthread_mutex_lock(&module->lock);
	if (!atomic_load_explicit(&module->list_ready, memory_order_relaxed)) {
		const struct sp_symbol_table *table = &module->table;
		module->list = malloc((table->symbol_count + 1) * sizeof(*module->list));
		for (size_t i = 0; module->list && i < table->symbol_count; i++)
			module->list[i] = make_symbol(module, &table->symbols[i]);
		module->list_count = table->symbol_count;
		if (module->list) {
			qsort(module->list, module->list_count, sizeof(*module->list), compare_symbols);
			atomic_store_explicit(&module->list_ready, true, memory_order_release);
		} else {
			error = sp_error_no_memory();
		}
	}
	pthread_mutex_unlock(&module->lock);
	*ret = module->list;
	*ret_count = module->list_count;
	return error;
}

struct sp_error *spsym_code(struct spsym_module *module, uint64_t address, void *buffer, size_t size, size_t *ret_size)
{
	const struct sp_symbol_file *binary;
	*ret_size = 0;
	struct sp_error *error = sp_module_need_code(module, &binary);
	if (error)
		return error;
	const uint8_t *bytes = sp_object_image_bytes(binary->object, binary->info.base + address, &size);
	if (!bytes)
		return sp_error_create(SP_ERROR_NOT_FOUND, "%s has no bytes at 0x%llx", binary->path,
		                       (unsigned long long)address);
	memcpy(buffer, bytes, size);
	*ret_size = size;
	return NULL;
}
