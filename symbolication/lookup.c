/* Look-ups: from the index where there is one (lookup_index.c); else a batch of addresses is sorted, the debug
 * information answers in that order, and each answer is joined with the symbol that covers its address. */
#include "symbolication/lookup.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BLOCK ((size_t)64) /* frames */
#define LAST_BLOCK ((size_t)16384)

void spsym_result_deinit(struct spsym_result *result)
{
	struct sp_result_storage *storage = result->storage;
	while (storage && storage->blocks) {
		struct sp_frame_block *next = storage->blocks->next;
		free(storage->blocks);
		storage->blocks = next;
	}
	if (storage) {
		free(storage->order);
		free(storage->addresses);
	}
	free(storage);
	free(result->locations);
	*result = (struct spsym_result){ 0 };
}

static struct sp_frame_block *add_block(struct sp_result_storage *storage, size_t count)
{
	size_t capacity = storage->block ? 2 * storage->block->capacity : FIRST_BLOCK;
	capacity = capacity < LAST_BLOCK ? capacity : LAST_BLOCK;
	capacity = capacity > count ? capacity : count;
	struct sp_frame_block *block = malloc(sizeof(*block) + capacity * sizeof(*block->frames));
	if (!block)
		return NULL;
	block->next = NULL;
	block->used = 0;
	block->capacity = capacity;
	*(storage->block ? &storage->block->next : &storage->blocks) = block;
	return block;
}

struct spsym_frame *sp_result_frames(struct sp_result_storage *storage, size_t count)
{
	struct sp_frame_block *block = storage->block;
	while (!block || block->capacity - block->used < count) {
		struct sp_frame_block *next = block ? block->next : storage->blocks;
		if (next)
			next->used = 0; /* of an earlier result */
		else
			next = add_block(storage, count);
		if (!next)
			return NULL;
		storage->block = block = next;
	}
	block->used += count;
	return &block->frames[block->used - count];
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
		result->storage = calloc(1, sizeof(struct sp_result_storage));
	struct sp_result_storage *storage = result->storage;
	if (!storage)
		return sp_error_no_memory();
	result->count = 0;
	result->debug_error = NULL;
	storage->block = NULL;
	if (count > storage->capacity || !result->locations) {
		size_t wanted = count < 16 ? 16 : count;
		if (!grow((void **)&result->locations, wanted, sizeof(*result->locations)))
			return sp_error_no_memory();
		storage->capacity = wanted;
	}
	return NULL;
}

bool sp_result_sort(struct sp_result_storage *storage, const uint64_t *addresses, size_t count)
{
	if (count > storage->order_capacity) {
		if (!grow((void **)&storage->order, count, sizeof(*storage->order)) ||
		    !grow((void **)&storage->addresses, count, sizeof(*storage->addresses)))
			return false;
		storage->order_capacity = count;
	}
	for (size_t i = 0; i < count; i++)
		storage->order[i] = (struct sp_keyed){ addresses[i], i };
	return sp_sort_keyed(storage->order, count);
}

static struct spsym_symbol make_symbol(struct spsym_module *module, const struct sp_table_symbol *symbol)
{
	if (!symbol)
		return (struct spsym_symbol){ 0 };
	return (struct spsym_symbol){ sp_module_symbol_name(module, symbol), symbol->start, symbol->size };
}

/* Answers from the module's index. *ret_done = there is one, and it did. */
static struct sp_error *try_index(struct spsym_module *module, const uint64_t *addresses, size_t count, bool frames,
                                  struct spsym_result *result, bool *ret_done)
{
	struct sp_indexed *indexed;
	bool damaged = false;
	struct sp_error *error = sp_module_indexed(module, &indexed);
	*ret_done = false;
	if (error || !indexed)
		return error;
	error = sp_lookup_index(module, indexed, addresses, count, frames, result, &damaged);
	if (damaged) {
		sp_module_index_damaged(module, indexed);
	} else if (!error) {
		result->count = count;
		result->debug_error = frames ? indexed->note : NULL;
		*ret_done = true;
	}
	return error;
}

/* The symbol of an address. A PDB gives it without a table of all of them, which would take all of its modules. */
static struct spsym_symbol find_symbol(struct spsym_module *module, uint64_t address)
{
	struct sp_pdb *pdb = module->found.debug->pdb;
	struct sp_symbol symbol;
	if (!pdb)
		return make_symbol(module, sp_symbol_table_find(&module->table, address));
	if (!sp_pdb_symbol(pdb, address, &symbol))
		return (struct spsym_symbol){ 0 };
	return (struct spsym_symbol){ sp_names_get(module->names, symbol.name), symbol.address, symbol.size };
}

/* Answers from the symbol table. */
static struct sp_error *add_symbols(struct spsym_module *module, const uint64_t *addresses, size_t count,
                                    struct spsym_result *result)
{
	struct spsym_symbol few[SP_TABLE_FEW] = { 0 };
	bool table = !module->found.debug->pdb, done = false;
	struct sp_error *error = table ? sp_module_few_symbols(module, addresses, count, few, &done) : NULL;
	if (!error && table && !done)
		error = sp_module_need_table(module);
	if (error)
		return error;
	for (size_t i = 0; i < count; i++)
		result->locations[i] = (struct spsym_location){ .symbol = done ? few[i]
			                                                       : find_symbol(module, addresses[i]) };
	result->count = count;
	return NULL;
}

struct sp_error *spsym_lookup_symbols(struct spsym_module *module, const uint64_t *addresses, size_t count,
                                      struct spsym_result *ret)
{
	bool done = false;
	struct sp_error *error = prepare(ret, count);
	if (!error)
		error = try_index(module, addresses, count, false, ret, &done);
	return error || done ? error : add_symbols(module, addresses, count, ret);
}

/* Where the answers of one batch go. */
struct batch {
	struct spsym_module *module;
	struct spsym_result *result;
	pthread_mutex_t lock; /* for the result's storage */
	atomic_bool failed;   /* no memory */
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

const char *sp_outermost_name(const char *name, const char *symbol)
{
	if (!symbol || !name || symbol == name || strcmp(symbol, name) == 0)
		return name;
	return is_fuller_name(symbol, name) ? symbol : name;
}

static struct spsym_frame *make_room(struct batch *batch, size_t count)
{
	pthread_mutex_lock(&batch->lock);
	struct spsym_frame *frames = sp_result_frames(batch->result->storage, count);
	pthread_mutex_unlock(&batch->lock);
	return frames;
}

/* sp_dwarf_lookup()'s answer for the address at `index` of the sorted batch. */
static void take_answer(void *context, size_t index, const struct sp_dwarf_answer *answer)
{
	struct batch *batch = context;
	struct sp_result_storage *storage = batch->result->storage;
	struct spsym_location *location = &batch->result->locations[storage->order[index].value];
	struct spsym_frame *frames = answer->count ? make_room(batch, answer->count) : NULL;
	if (!frames) {
		if (answer->count)
			atomic_store(&batch->failed, true);
		return;
	}
	for (size_t i = 0; i < answer->count; i++) {
		const struct sp_dwarf_frame *frame = &answer->frames[i];
		const char *name = frame_name(batch->module, frame);
		if (i + 1 == answer->count && !frame->linkage_name)
			name = sp_outermost_name(name, location->symbol.name);
		frames[i] = (struct spsym_frame){ name, frame->file, frame->line, frame->column };
	}
	location->frames = frames;
	location->frame_count = answer->count;
}

/* Asks the debug information for all addresses of the batch. */
static struct sp_error *add_frames(struct batch *batch, size_t count)
{
	struct spsym_module *module = batch->module;
	struct sp_result_storage *storage = batch->result->storage;
	struct sp_pdb *pdb = module->found.debug->pdb;
	uint64_t base = module->go ? module->found.binary->info.base : module->found.debug->info.base;
	for (size_t i = 0; i < count; i++)
		storage->addresses[i] = base + storage->order[i].key;
	const char *note = NULL;
	struct sp_breakpad *breakpad = module->found.debug->breakpad;
	struct sp_error *error;
	if (pdb)
		error = sp_pdb_lookup(pdb, storage->addresses, count, take_answer, batch, &note);
	else if (breakpad)
		error = sp_breakpad_lookup(breakpad, storage->addresses, count, take_answer, batch);
	else if (module->go)
		error = sp_go_lookup(module->go, storage->addresses, count, take_answer, batch);
	else
		error = sp_dwarf_lookup(module->dwarf, storage->addresses, count, take_answer, batch, &note);
	if (error && error->code != SP_ERROR_NO_MEMORY) { /* the symbols stand */
		note = sp_names_copy(module->names, error->message);
		sp_error_destroy(error);
		error = NULL;
	}
	batch->result->debug_error = note;
	if (!error && atomic_load(&batch->failed))
		error = sp_error_no_memory();
	return error;
}

/* Adds the frames of the debug information to the symbols. */
static struct sp_error *look_up_frames(struct spsym_module *module, const uint64_t *addresses, size_t count,
                                       struct spsym_result *result)
{
	struct sp_error *error = sp_module_need_dwarf(module);
	if (!error)
		error = sp_module_need_go(module);
	if (error)
		return error;
	result->debug_error = module->dwarf_error;
	if ((!module->dwarf && !module->go && !module->found.debug->pdb && !module->found.debug->breakpad) || !count)
		return NULL;
	if (!sp_result_sort(result->storage, addresses, count))
		return sp_error_no_memory();
	struct batch batch = { .module = module, .result = result };
	pthread_mutex_init(&batch.lock, NULL);
	error = add_frames(&batch, count);
	pthread_mutex_destroy(&batch.lock);
	if (!error)
		sp_module_asked(module, count);
	return error;
}

struct sp_error *spsym_lookup(struct spsym_module *module, const uint64_t *addresses, size_t count,
                              struct spsym_result *ret)
{
	bool done = false;
	struct sp_error *error = prepare(ret, count);
	if (!error)
		error = try_index(module, addresses, count, true, ret, &done);
	if (error || done)
		return error;
	error = add_symbols(module, addresses, count, ret);
	return error ? error : look_up_frames(module, addresses, count, ret);
}

static int compare_symbols(const void *a, const void *b)
{
	const struct spsym_symbol *x = a, *y = b;
	return x->address < y->address ? -1 : x->address > y->address;
}

/* The list from the symbol table; the caller frees *ret. */
static struct sp_error *list_table(struct spsym_module *module, struct spsym_symbol **ret, size_t *ret_count)
{
	const struct sp_symbol_table *table = &module->table;
	struct spsym_symbol *list = malloc((table->symbol_count + 1) * sizeof(*list));
	if (!list)
		return sp_error_no_memory();
	for (size_t i = 0; i < table->symbol_count; i++)
		list[i] = make_symbol(module, &table->symbols[i]);
	*ret = list;
	*ret_count = table->symbol_count;
	return NULL;
}

/* Makes the list of symbols from what is there. */
static struct sp_error *make_list(struct spsym_module *module, struct spsym_symbol **ret, size_t *ret_count)
{
	struct sp_indexed *indexed;
	bool damaged = false;
	*ret = NULL;
	struct sp_error *error = sp_module_indexed(module, &indexed);
	if (!error && indexed) {
		error = sp_symbols_index(module, indexed, ret, ret_count, &damaged);
		if (damaged)
			sp_module_index_damaged(module, indexed);
	}
	if (error || *ret)
		return error;
	error = sp_module_need_table(module);
	return error ? error : list_table(module, ret, ret_count);
}

struct sp_error *spsym_symbols(struct spsym_module *module, const struct spsym_symbol **ret, size_t *ret_count)
{
	struct sp_error *error = NULL;
	if (!atomic_load_explicit(&module->list_ready, memory_order_acquire)) {
		struct spsym_symbol *list;
		size_t count;
		error = make_list(module, &list, &count);
		if (error)
			return error;
		if (count > 1)
			qsort(list, count, sizeof(*list), compare_symbols);
		pthread_mutex_lock(&module->lock);
		if (atomic_load_explicit(&module->list_ready, memory_order_relaxed)) {
			free(list); /* another thread was faster */
		} else {
			module->list = list;
			module->list_count = count;
			atomic_store_explicit(&module->list_ready, true, memory_order_release);
		}
		pthread_mutex_unlock(&module->lock);
	}
	*ret = module->list;
	*ret_count = module->list_count;
	return NULL;
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

struct sp_error *spsym_discriminators(struct spsym_module *module, const uint64_t *addresses, size_t count,
                                      uint32_t *ret)
{
	struct sp_error *error = sp_module_need_dwarf(module);
	uint64_t *svmas = malloc((count + 1) * sizeof(*svmas));
	uint32_t *found = malloc((count + 1) * sizeof(*found));
	struct sp_keyed *order = malloc((count + 1) * sizeof(*order));
	memset(ret, 0, count * sizeof(*ret));
	for (size_t i = 0; i < count && order; i++)
		order[i] = (struct sp_keyed){ module->found.debug->info.base + addresses[i], i };
	if (!error && (!svmas || !found || !order || !sp_sort_keyed(order, count)))
		error = sp_error_no_memory();
	if (!error && module->dwarf) {
		for (size_t i = 0; i < count; i++)
			svmas[i] = order[i].key;
		error = sp_dwarf_discriminators(module->dwarf, svmas, count, found);
		for (size_t i = 0; i < count && !error; i++)
			ret[order[i].value] = found[i];
	}
	free(svmas);
	free(found);
	free(order);
	return error;
}
