/* Look-ups in an index. Its strings are made readable when they are first wanted, and then found by number. */
#include "symbolication/lookup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY ((size_t)16384) /* addresses for which all of the index is checked first */
#define GROUP ((size_t)32)   /* addresses whose places in the index are fetched together */

/* One call. */
struct reader {
	struct spsym_module *module;
	struct sp_indexed *indexed;
	struct sp_index_hint hint;
	uint32_t border;
	bool damaged, no_memory;
	const char *outermost, *symbol, *chosen; /* of the last plain name */
	struct sp_index_text names, files;
	struct sp_index_frame frames[SP_INDEX_MAX_FRAMES];
};

static const char *keep(struct reader *reader, const char *string)
{
	reader->no_memory |= !string;
	return string;
}

/* Makes a name readable. That of a symbol without name depends on the symbol: it is not kept here. */
static const char *make_name(struct reader *reader, uint32_t number)
{
	struct sp_indexed *indexed = reader->indexed;
	struct sp_names *names = reader->module->names;
	const char *raw;
	enum sp_index_name_kind kind;
	if (!sp_index_name(indexed->index, number, &reader->names, &raw, &kind)) {
		reader->damaged = true;
		return NULL;
	}
	if (kind == SP_INDEX_NAMELESS)
		return NULL;
	const char *name = keep(reader,
	                        kind == SP_INDEX_PLAIN ? sp_names_copy(names, raw) : sp_names_readable(names, raw));
	atomic_store_explicit(&indexed->plain[number], kind == SP_INDEX_PLAIN, memory_order_relaxed);
	atomic_store_explicit(&indexed->names[number], name, memory_order_release);
	return name;
}

/* Numbers were checked by the index. */
static inline const char *name_of(struct reader *reader, uint32_t number)
{
	if (!number)
		return NULL;
	const char *name = atomic_load_explicit(&reader->indexed->names[number], memory_order_acquire);
	return name ? name : make_name(reader, number);
}

static inline const char *file_of(struct reader *reader, uint32_t number)
{
	if (!number)
		return NULL;
	const char *file = atomic_load_explicit(&reader->indexed->files[number], memory_order_acquire);
	if (file)
		return file;
	if (!sp_index_file(reader->indexed->index, number, &reader->files, &file)) {
		reader->damaged = true;
		return NULL;
	}
	file = keep(reader, sp_names_copy(reader->module->names, file));
	atomic_store_explicit(&reader->indexed->files[number], file, memory_order_release);
	return file;
}

static struct spsym_symbol make_symbol(struct reader *reader, const struct sp_index_symbol *symbol)
{
	struct spsym_symbol made = { name_of(reader, symbol->name), symbol->start, symbol->size };
	if (!made.name && !reader->damaged && !reader->no_memory) {
		char text[32];
		snprintf(text, sizeof(text), "fun_%llx", (unsigned long long)symbol->start);
		made.name = keep(reader, sp_names_copy(reader->module->names, text));
	}
	return made;
}

/* sp_outermost_name(), kept for the next address, which is often of the same function. */
static const char *outermost_name(struct reader *reader, const char *name, const char *symbol)
{
	if (reader->outermost != name || reader->symbol != symbol) {
		reader->outermost = name;
		reader->symbol = symbol;
		reader->chosen = sp_outermost_name(name, symbol);
	}
	return reader->chosen;
}

static void add_frames(struct reader *reader, struct sp_result_storage *storage, const struct sp_index_spot *spot,
                       struct spsym_location *location)
{
	size_t count = sp_index_frames_at(reader->indexed->index, spot, reader->frames);
	if (count == SP_INDEX_DAMAGED) {
		reader->damaged = true;
		return;
	}
	if (!count)
		return;
	struct spsym_frame *frames = sp_result_frames(storage, count);
	if (!frames) {
		reader->no_memory = true;
		return;
	}
	for (size_t i = 0; i < count; i++) {
		const struct sp_index_frame *frame = &reader->frames[i];
		frames[i] = (struct spsym_frame){ name_of(reader, frame->name), file_of(reader, frame->place.file),
			                          frame->place.line, frame->place.column };
	}
	uint32_t outermost = reader->frames[count - 1].name;
	if (atomic_load_explicit(&reader->indexed->plain[outermost], memory_order_relaxed))
		frames[count - 1].function = outermost_name(reader, frames[count - 1].function, location->symbol.name);
	location->frames = frames;
	location->frame_count = count;
}

static void answer(struct reader *reader, struct spsym_result *result, uint64_t address,
                   const struct sp_index_spot *spot, size_t at)
{
	struct spsym_location *location = &result->locations[at];
	const struct sp_index_symbol *symbol = sp_index_symbol_at(reader->indexed->index, address, &reader->border,
	                                                          &reader->damaged);
	*location = (struct spsym_location){ 0 };
	if (symbol)
		location->symbol = make_symbol(reader, symbol);
	if (spot && !reader->damaged)
		add_frames(reader, result->storage, spot, location);
}

/* Answers a few addresses that follow each other in the sorted order. */
static void answer_group(struct reader *reader, struct spsym_result *result, const uint64_t *addresses,
                         const struct sp_keyed *order, size_t count, size_t first, bool frames)
{
	uint64_t sorted[GROUP];
	struct sp_index_spot spots[GROUP];
	for (size_t i = 0; i < count; i++)
		sorted[i] = order ? order[first + i].key : addresses[first + i];
	if (frames)
		sp_index_spots(reader->indexed->index, sorted, count, &reader->hint, spots);
	for (size_t i = 0; i < count && !reader->damaged && !reader->no_memory; i++)
		answer(reader, result, sorted[i], frames ? &spots[i] : NULL,
		       order ? order[first + i].value : first + i);
}

static bool is_sorted(const uint64_t *addresses, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (addresses[i] < addresses[i - 1])
			return false;
	return true;
}

static struct reader *reader_create(struct spsym_module *module, struct sp_indexed *indexed)
{
	struct reader *reader = malloc(sizeof(*reader));
	if (reader) {
		memset(reader, 0, offsetof(struct reader, frames));
		reader->module = module;
		reader->indexed = indexed;
	}
	return reader;
}

/* Ends the use of a reader. */
static struct sp_error *reader_finish(struct reader *reader, bool *ret_damaged)
{
	struct sp_error *error = reader->no_memory && !reader->damaged ? sp_error_no_memory() : NULL;
	*ret_damaged = reader->damaged;
	sp_index_text_deinit(&reader->names);
	sp_index_text_deinit(&reader->files);
	free(reader);
	return error;
}

struct sp_error *sp_lookup_index(struct spsym_module *module, struct sp_indexed *indexed, const uint64_t *addresses,
                                 size_t count, bool frames, struct spsym_result *result, bool *ret_damaged)
{
	struct sp_result_storage *storage = result->storage;
	bool sorted = is_sorted(addresses, count);
	if (!sorted && !sp_result_sort(storage, addresses, count))
		return sp_error_no_memory();
	struct reader *reader = reader_create(module, indexed);
	if (!reader)
		return sp_error_no_memory();
	if (count >= MANY)
		sp_index_check_tables(indexed->index);
	const struct sp_keyed *order = sorted ? NULL : storage->order;
	for (size_t i = 0; i < count && !reader->damaged && !reader->no_memory; i += GROUP)
		answer_group(reader, result, addresses, order, count - i < GROUP ? count - i : GROUP, i, frames);
	return reader_finish(reader, ret_damaged);
}

struct sp_error *sp_symbols_index(struct spsym_module *module, struct sp_indexed *indexed, struct spsym_symbol **ret,
                                  size_t *ret_count, bool *ret_damaged)
{
	uint32_t count = sp_index_symbol_count(indexed->index);
	struct reader *reader = reader_create(module, indexed);
	struct spsym_symbol *list = malloc((count + (size_t)1) * sizeof(*list));
	if (!reader || !list) {
		free(reader);
		free(list);
		return sp_error_no_memory();
	}
	for (uint32_t i = 0; i < count && !reader->damaged; i++) {
		const struct sp_index_symbol *symbol = sp_index_symbol(indexed->index, i + 1);
		if (symbol)
			list[i] = make_symbol(reader, symbol);
		reader->damaged |= !symbol;
	}
	struct sp_error *error = reader_finish(reader, ret_damaged);
	if (error || *ret_damaged) {
		free(list);
		return error;
	}
	*ret = list;
	*ret_count = count;
	return NULL;
}
