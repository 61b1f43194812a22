/* From an address to the FDE that covers it.
 *
 * .eh_frame_hdr has a sorted table, which is searched in place, so that nothing is read or built when a module is
 * added. Where it is absent or not sound, and for .debug_frame, an index is made on the first look-up, once, under a
 * lock; it is as large as the section at most. What a search gives is believed only when the FDE found does cover the
 * address. */
#include "common/vector.h"
#include "internal.h"

#include <stdlib.h>

#define SEARCH_TABLE_ENCODING 0x3b /* DW_EH_PE_datarel | DW_EH_PE_sdata4: what all linkers write */
#define SEARCH_ENTRY_SIZE 8
#define CHECKED_ENTRIES 64

static int32_t table_value(const struct sp_unwind_module *module, size_t entry, size_t field)
{
	int32_t value;
	memcpy(&value, module->search_table + entry * SEARCH_ENTRY_SIZE + field * sizeof(value), sizeof(value));
	return value;
}

/* The offset in .eh_frame of the FDE that a table entry names. */
static uint64_t table_fde(const struct sp_unwind_module *module, size_t entry)
{
	uint64_t address = module->input.eh_frame_hdr.address + (uint64_t)(int64_t)table_value(module, entry, 1);
	return address - module->input.eh_frame.address;
}

/* A look at evenly spread entries: sorted, and each naming an FDE. Reading all would touch the whole table. */
static bool search_table_is_sound(const struct sp_unwind_module *module)
{
	size_t count = module->search_count;
	size_t checks = count < CHECKED_ENTRIES ? count : CHECKED_ENTRIES;
	int32_t previous = INT32_MIN;
	for (size_t i = 0; i < checks; i++) {
		size_t entry = checks > 1 ? i * (count - 1) / (checks - 1) : 0;
		int32_t start = table_value(module, entry, 0);
		struct cfi_entry fde;
		uint64_t next;
		if (start < previous || !cfi_read_entry(module, CFI_EH_FRAME, table_fde(module, entry), &fde, &next) ||
		    fde.is_cie)
			return false;
		previous = start;
	}
	return true;
}

void cfi_check_search_table(struct sp_unwind_module *module)
{
	const struct sp_unwind_section *section = &module->input.eh_frame_hdr;
	if (!section->bytes || !module->input.eh_frame.bytes)
		return;
	struct sp_cursor cursor = sp_cursor_init(section->bytes, section->size);
	uint8_t version = sp_cursor_u8(&cursor);
	uint8_t frame_encoding = sp_cursor_u8(&cursor);
	uint8_t count_encoding = sp_cursor_u8(&cursor);
	uint8_t table_encoding = sp_cursor_u8(&cursor);
	(void)cfi_read_pointer(&cursor, frame_encoding, 8, section, section->address);
	uint64_t count = cfi_read_pointer(&cursor, count_encoding, 8, section, section->address);
	if (cursor.bad || version != 1 || table_encoding != SEARCH_TABLE_ENCODING || count == 0 ||
	    count > sp_cursor_left(&cursor) / SEARCH_ENTRY_SIZE)
		return;
	module->search_table = cursor.at;
	module->search_count = (size_t)count;
	if (!search_table_is_sound(module))
		module->search_table = NULL;
}

static bool find_in_search_table(const struct sp_unwind_module *module, struct cfi_scratch *scratch, uint64_t address,
                                 struct cfi_fde *ret)
{
	int64_t target = (int64_t)(address - module->input.eh_frame_hdr.address);
	if (target != (int32_t)target || target < table_value(module, 0, 0))
		return false;
	size_t low = 0, count = module->search_count;
	while (count > 1) { /* the entry sought is in [low, low + count) */
		size_t half = count / 2;
		low += table_value(module, low + half, 0) <= target ? half : 0;
		count -= half;
	}
	return cfi_parse_fde(module, scratch, CFI_EH_FRAME, table_fde(module, low), ret) && address >= ret->start &&
	       address < ret->end;
}

/* ---- Indexes ---- */

static int compare_entries(const void *a, const void *b)
{
	const struct cfi_index_entry *left = a, *right = b;
	return left->start < right->start ? -1 : left->start > right->start;
}

static struct cfi_index *make_index(const struct sp_unwind_module *module, struct cfi_scratch *scratch,
                                    enum cfi_table table)
{
	const struct sp_unwind_section *section = table == CFI_EH_FRAME ? &module->input.eh_frame
	                                                                : &module->input.debug_frame;
	SP_VECTOR(struct cfi_index_entry) found = { 0 };
	struct cfi_index *index = calloc(1, sizeof(*index));
	if (!index)
		return NULL;
	struct sp_cursor cursor = sp_cursor_init(section->bytes, section->size);
	for (uint64_t offset = 0, next; sp_cursor_left(&cursor) >= 4; offset = next) {
		sp_cursor_seek(&cursor, offset);
		if (sp_cursor_u32(&cursor) == 0) { /* a terminator; linkers can leave one in the middle */
			next = offset + 4;
			continue;
		}
		struct cfi_entry entry;
		if (!cfi_read_entry(module, table, offset, &entry, &next))
			break;
		struct cfi_fde fde;
		if (entry.is_cie || !cfi_parse_fde(module, scratch, table, offset, &fde) || fde.start == fde.end)
			continue;
		if (!sp_vector_push(&found, (struct cfi_index_entry){ .start = fde.start, .offset = offset })) {
			sp_vector_deinit(&found);
			break; /* without memory: an empty index */
		}
	}
	if (found.count)
		qsort(found.items, found.count, sizeof(found.items[0]), compare_entries);
	index->entries = found.items;
	index->count = found.count;
	return index;
}

/* The index of a table, made now if need be; NULL without memory. */
static const struct cfi_index *get_index(const struct sp_unwind_module *module, struct cfi_scratch *scratch,
                                         enum cfi_table table)
{
	/* The index is a cache inside a module that is immutable to its users. */
	struct sp_unwind_module *mutable = (struct sp_unwind_module *)module;
	struct cfi_index *index = atomic_load_explicit(&mutable->indexes[table], memory_order_acquire);
	if (index)
		return index;
	pthread_mutex_lock(&mutable->index_lock);
	index = atomic_load_explicit(&mutable->indexes[table], memory_order_relaxed);
	if (!index) {
		index = make_index(module, scratch, table);
		atomic_store_explicit(&mutable->indexes[table], index, memory_order_release);
	}
	pthread_mutex_unlock(&mutable->index_lock);
	return index;
}

static bool find_in_index(const struct sp_unwind_module *module, struct cfi_scratch *scratch, enum cfi_table table,
                          uint64_t address, struct cfi_fde *ret)
{
	const struct cfi_index *index = get_index(module, scratch, table);
	if (!index || !index->count || address < index->entries[0].start)
		return false;
	size_t low = 0, count = index->count;
	while (count > 1) {
		size_t half = count / 2;
		low += index->entries[low + half].start <= address ? half : 0;
		count -= half;
	}
	return cfi_parse_fde(module, scratch, table, index->entries[low].offset, ret) && address >= ret->start &&
	       address < ret->end;
}

bool cfi_find(const struct sp_unwind_module *module, struct cfi_scratch *scratch, uint64_t address, struct cfi_fde *ret)
{
	if (module->search_table) {
		if (find_in_search_table(module, scratch, address, ret))
			return true;
	} else if (module->input.eh_frame.bytes && find_in_index(module, scratch, CFI_EH_FRAME, address, ret)) {
		return true;
	}
	return module->input.debug_frame.bytes && find_in_index(module, scratch, CFI_DEBUG_FRAME, address, ret);
}

void cfi_indexes_deinit(struct sp_unwind_module *module)
{
	for (size_t i = 0; i < 2; i++) {
		struct cfi_index *index = atomic_load(&module->indexes[i]);
		if (index)
			free(index->entries);
		free(index);
	}
}
