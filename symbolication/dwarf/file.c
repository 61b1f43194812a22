/* One object file as the DWARF engine sees it: its debug sections by number, loaded when first wanted, and the caches
 * of what was parsed from it. */
#include "internal.h"

#include <stdlib.h>

static const char *const section_names[DW_SECTION_COUNT] = {
	[DW_INFO] = ".debug_info",
	[DW_TYPES] = ".debug_types",
	[DW_ABBREV] = ".debug_abbrev",
	[DW_LINE] = ".debug_line",
	[DW_STR] = ".debug_str",
	[DW_LINE_STR] = ".debug_line_str",
	[DW_STR_OFFSETS] = ".debug_str_offsets",
	[DW_ADDR] = ".debug_addr",
	[DW_RANGES] = ".debug_ranges",
	[DW_RNGLISTS] = ".debug_rnglists",
	[DW_ARANGES] = ".debug_aranges",
	[DW_CU_INDEX] = ".debug_cu_index",
	[DW_TU_INDEX] = ".debug_tu_index",
};

static const char *const split_section_names[DW_SECTION_COUNT] = {
	[DW_INFO] = ".debug_info.dwo",         [DW_TYPES] = ".debug_types.dwo",
	[DW_ABBREV] = ".debug_abbrev.dwo",     [DW_LINE] = ".debug_line.dwo",
	[DW_STR] = ".debug_str.dwo",           [DW_STR_OFFSETS] = ".debug_str_offsets.dwo",
	[DW_RNGLISTS] = ".debug_rnglists.dwo", [DW_CU_INDEX] = ".debug_cu_index",
	[DW_TU_INDEX] = ".debug_tu_index",
};

/* The bounds of the code, from the executable sections, else segments. */
static void find_code(struct dw_file *file)
{
	size_t count;
	const struct sp_section *sections = sp_object_sections(file->object, &count);
	uint64_t start = UINT64_MAX, end = 0;
	for (size_t i = 0; i < count; i++) {
		if (!sections[i].executable || !sections[i].size)
			continue;
		uint64_t last = sections[i].address + sections[i].size;
		start = sections[i].address < start ? sections[i].address : start;
		end = last > end ? last : end;
	}
	if (start >= end) {
		const struct sp_segment *segments = sp_object_segments(file->object, &count);
		for (size_t i = 0; i < count; i++) {
			if (!segments[i].executable)
				continue;
			uint64_t last = segments[i].address + segments[i].size;
			start = segments[i].address < start ? segments[i].address : start;
			end = last > end ? last : end;
		}
	}
	if (start < end) {
		file->code_start = start;
		file->code_end = end;
	}
}

bool dw_is_code(const struct dw_file *file, uint64_t address)
{
	if (file->any_address)
		return true;
	if (file->code_start < file->code_end)
		return address >= file->code_start && address < file->code_end;
	return address > 0 && address < UINT64_MAX - 1;
}

struct sp_error *dw_file_create(struct sp_dwarf *dwarf, struct sp_object *object, bool split, struct dw_file **ret)
{
	struct dw_file *file = calloc(1, sizeof(*file));
	if (!file)
		return sp_error_no_memory();
	file->dwarf = dwarf;
	file->object = object;
	file->split = split;
	file->any_address = sp_object_is_relocatable(object);
	file->big_endian = sp_object_big_endian(object);
	find_code(file);
	pthread_mutex_init(&file->section_lock, NULL);
	pthread_mutex_init(&file->lock, NULL);
	pthread_mutex_init(&file->list_lock, NULL);
	*ret = file;
	return NULL;
}

void dw_file_destroy(struct dw_file *file)
{
	if (!file)
		return;
	for (size_t i = 0; i < file->units.capacity; i++)
		if (file->units.used[i])
			dw_unit_destroy((struct dw_unit *)(uintptr_t)file->units.slots[i].value);
	for (size_t i = 0; i < file->abbrevs.capacity; i++)
		if (file->abbrevs.used[i])
			dw_abbrevs_destroy((struct dw_abbrevs *)(uintptr_t)file->abbrevs.slots[i].value);
	for (size_t i = 0; i < file->line_tables.capacity; i++)
		if (file->line_tables.used[i])
			dw_lines_destroy((struct dw_lines *)(uintptr_t)file->line_tables.slots[i].value);
	sp_map_deinit(&file->units);
	sp_map_deinit(&file->abbrevs);
	sp_map_deinit(&file->line_tables);
	struct dw_unit_list *list = atomic_load(&file->list);
	if (list) {
		free(list->entries);
		sp_map_deinit(&list->signatures);
		free(list);
	}
	pthread_mutex_destroy(&file->section_lock);
	pthread_mutex_destroy(&file->lock);
	pthread_mutex_destroy(&file->list_lock);
	free(file);
}

/* Each byte of a section allows that many bytes of work. One reading by each table that is made from it is the rule;
 * what is beyond comes from units, lists and programs that overlap, which no compiler writes. */
static void grant(struct sp_dwarf *dwarf, enum dw_section_id id, size_t size)
{
	enum dw_work work;
	int64_t times;
	switch (id) {
	case DW_INFO:
	case DW_TYPES:
		work = DW_WORK_DIES;
		times = 16;
		break;
	case DW_LINE:
		work = DW_WORK_LINES;
		times = 4;
		break;
	case DW_RANGES:
	case DW_RNGLISTS:
		work = DW_WORK_RANGES;
		times = 32;
		break;
	case DW_ABBREV:
		work = DW_WORK_ABBREVS;
		times = 16;
		break;
	default:
		return;
	}
	int64_t bounded = size < INT64_MAX / 64 ? (int64_t)size : INT64_MAX / 64;
	atomic_fetch_add(&dwarf->work[work], bounded * times + 65536);
}

static void load(struct dw_file *file, enum dw_section_id id, struct dw_section *section)
{
	const char *name = file->split ? split_section_names[id] : section_names[id];
	const struct sp_section *found = name ? sp_object_find_section(file->object, name) : NULL;
	if (!found || found->no_bits)
		return;
	struct sp_error *error = (id == DW_INFO && !file->split ? sp_object_section_begin : sp_object_section_bytes)(
	    file->object, found, &section->data.bytes, &section->data.size);
	if (error) {
		dw_note(file->dwarf, "%s", error->message);
		sp_error_destroy(error);
		section->data = (struct dw_bytes){ 0 };
		return;
	}
	section->growing = id == DW_INFO && !file->split && found->compressed ? found : NULL;
	grant(file->dwarf, id, section->data.size);
	if (id == DW_STR || id == DW_LINE_STR) {
		section->string_size = section->data.size;
		while (section->string_size && section->data.bytes[section->string_size - 1])
			section->string_size--;
	}
}

const struct dw_section *dw_section(struct dw_file *file, enum dw_section_id id)
{
	struct dw_section *section = &file->sections[id];
	if (atomic_load_explicit(&section->loaded, memory_order_acquire))
		return section;
	pthread_mutex_lock(&file->section_lock);
	if (!atomic_load_explicit(&section->loaded, memory_order_relaxed)) {
		load(file, id, section);
		atomic_store_explicit(&section->loaded, true, memory_order_release);
	}
	pthread_mutex_unlock(&file->section_lock);
	return section;
}

bool dw_info_wait(struct dw_file *file, uint64_t end)
{
	const struct dw_section *info = dw_section(file, DW_INFO);
	if (!info->growing)
		return true;
	/* While a thread inflates .debug_info there is time for what will be wanted next. */
	dw_section(file, DW_ABBREV);
	dw_section(file, DW_LINE);
	dw_section(file, DW_LINE_STR);
	dw_section(file, DW_STR);
	size_t bytes = end < info->data.size ? (size_t)end : info->data.size;
	struct sp_error *error = sp_object_section_wait(file->object, info->growing, bytes);
	if (!error)
		return true;
	dw_note(file->dwarf, "%s", error->message);
	sp_error_destroy(error);
	return false;
}

const char *dw_section_string(struct dw_file *file, enum dw_section_id id, uint64_t offset)
{
	const struct dw_section *section = dw_section(file, id);
	return offset < section->string_size ? (const char *)section->data.bytes + offset : NULL;
}
