/* The DWARF engine's calls: open, look up, close. See internal.h for the plan of the whole. */
#include "internal.h"
#include "libdwarf_child.h"

#include <stdio.h>
#include <stdlib.h>

void dw_note(struct sp_dwarf *dwarf, const char *format, ...)
{
	if (atomic_load_explicit(&dwarf->note, memory_order_relaxed))
		return;
	va_list args;
	va_start(args, format);
	char *text = malloc(512), *none = NULL;
	if (text)
		vsnprintf(text, 512, format, args);
	va_end(args);
	if (text && !atomic_compare_exchange_strong(&dwarf->note, &none, text))
		free(text);
}

bool dw_spend(struct sp_dwarf *dwarf, enum dw_work work, uint64_t amount)
{
	int64_t bounded = amount < INT64_MAX / 2 ? (int64_t)amount : INT64_MAX / 2;
	if (atomic_fetch_sub_explicit(&dwarf->work[work], bounded, memory_order_relaxed) >= bounded)
		return true;
	atomic_fetch_add_explicit(&dwarf->work[work], bounded, memory_order_relaxed);
	dw_note(dwarf, "the debug information refers to its own parts too often; some of it was not read");
	return false;
}

const char *dw_keep_string(struct sp_dwarf *dwarf, const char *string, size_t length)
{
	uint64_t hash = sp_hash_bytes(string, length);
	pthread_mutex_lock(&dwarf->string_lock);
	uint64_t *known = sp_map_get(&dwarf->string_map, hash);
	const char *kept = known ? (const char *)(uintptr_t)*known : NULL;
	if (!kept || strlen(kept) != length || memcmp(kept, string, length) != 0) {
		size_t before = dwarf->strings.total;
		kept = sp_arena_strndup(&dwarf->strings, string, length);
		if (kept && !known && !sp_map_put(&dwarf->string_map, hash, (uintptr_t)kept))
			kept = NULL;
		dw_count_memory(dwarf, dwarf->strings.total - before);
	}
	pthread_mutex_unlock(&dwarf->string_lock);
	return kept;
}

#define MAX_SCANS 4        /* of .debug_aranges, before it is sorted */
#define MIN_FOR_HELP 64    /* addresses that are still to do */
#define CHUNK 16           /* addresses that a helper takes at a time */
#define MIN_FOR_BATCH 2048 /* addresses for which units are decoded one after the other and dropped */

/* ---- Open and close ---- */

struct sp_error *sp_dwarf_create(const struct sp_dwarf_files *files, struct sp_dwarf **ret)
{
	struct sp_dwarf *dwarf = calloc(1, sizeof(*dwarf));
	if (!dwarf)
		return sp_error_no_memory();
	pthread_mutex_init(&dwarf->map_lock, NULL);
	pthread_mutex_init(&dwarf->string_lock, NULL);
	pthread_mutex_init(&dwarf->dwo_lock, NULL);
	dwarf->helpers = files->helpers < DW_MAX_HELPERS ? files->helpers : DW_MAX_HELPERS;
	dwarf->open_dwo = files->open_dwo;
	dwarf->context = files->context;
	struct sp_error *error = files->libdwarf ? dw_child_create(files, &dwarf->child) : NULL;
	if (!error)
		error = dw_file_create(dwarf, files->main, false, &dwarf->main);
	if (!error && files->supplementary)
		error = dw_file_create(dwarf, files->supplementary, false, &dwarf->supplementary);
	if (!error && files->package)
		error = dw_file_create(dwarf, files->package, true, &dwarf->package);
	if (error) {
		sp_dwarf_destroy(dwarf);
		return error;
	}
	dwarf->main->supplementary = dwarf->supplementary;
	*ret = dwarf;
	return NULL;
}

void sp_dwarf_destroy(struct sp_dwarf *dwarf)
{
	if (!dwarf)
		return;
	dw_child_destroy(dwarf->child);
	dw_map_destroy(atomic_load(&dwarf->by_aranges));
	dw_map_destroy(atomic_load(&dwarf->by_units));
	dw_file_destroy(dwarf->main);
	dw_file_destroy(dwarf->supplementary);
	dw_file_destroy(dwarf->package);
	for (size_t i = 0; i < dwarf->dwo_files.capacity; i++)
		if (dwarf->dwo_files.used[i])
			dw_file_destroy((struct dw_file *)(uintptr_t)dwarf->dwo_files.slots[i].value);
	sp_map_deinit(&dwarf->dwo_files);
	sp_arena_deinit(&dwarf->strings);
	sp_map_deinit(&dwarf->string_map);
	free(atomic_load(&dwarf->note));
	pthread_mutex_destroy(&dwarf->map_lock);
	pthread_mutex_destroy(&dwarf->string_lock);
	pthread_mutex_destroy(&dwarf->dwo_lock);
	free(dwarf);
}

size_t sp_dwarf_memory(const struct sp_dwarf *dwarf)
{
	return atomic_load_explicit(&dwarf->memory, memory_order_relaxed) +
	       (dwarf->child ? dw_child_memory(dwarf->child) : 0);
}

/* ---- Look-ups ---- */

/* Many addresses need most of the files. */
static void want_all(struct sp_dwarf *dwarf)
{
	struct dw_file *files[] = { dwarf->main, dwarf->supplementary, dwarf->package };
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		if (files[i])
			sp_object_want_all(files[i]->object);
}

struct sp_error *dw_map_get(struct sp_dwarf *dwarf, bool by_units, const struct dw_map **ret)
{
	_Atomic(struct dw_map *) *place = by_units ? &dwarf->by_units : &dwarf->by_aranges;
	struct dw_map *map = atomic_load_explicit(place, memory_order_acquire);
	struct sp_error *error = NULL;
	if (!map) {
		pthread_mutex_lock(&dwarf->map_lock);
		map = atomic_load_explicit(place, memory_order_relaxed);
		if (!map) {
			error = by_units ? dw_map_by_units(dwarf, atomic_load(&dwarf->by_aranges), &map)
			                 : dw_map_by_aranges(dwarf, 0, UINT64_MAX, &map);
			if (!error) {
				dw_count_memory(dwarf, dw_map_memory(map));
				atomic_store_explicit(place, map, memory_order_release);
			}
		}
		pthread_mutex_unlock(&dwarf->map_lock);
	}
	*ret = map;
	return error;
}

struct sp_error *dw_map_unit_get(struct sp_dwarf *dwarf, struct dw_map_unit *slot, struct dw_unit **ret)
{
	*ret = atomic_load_explicit(&slot->unit, memory_order_acquire);
	if (*ret)
		return NULL;
	struct sp_error *error = dw_unit_get(dwarf->main, false, slot->offset, ret);
	if (!error) {
		atomic_store_explicit(&slot->unit, *ret, memory_order_release);
		return NULL;
	}
	*ret = NULL;
	if (error->code == SP_ERROR_NO_MEMORY)
		return error;
	dw_note(dwarf, "%s", error->message);
	sp_error_destroy(error);
	return NULL;
}

static struct sp_error *match_unit(struct dw_unit *unit, uint64_t address, struct dw_match *ret)
{
	*ret = (struct dw_match){ .unit = unit, .dies = dw_unit_with_dies(unit) };
	struct sp_error *error = dw_functions_get(ret->dies, &ret->functions);
	if (!error)
		error = dw_lines_get(unit, &ret->lines);
	if (error)
		return error;
	dw_match_tables(ret, address);
	return NULL;
}

void dw_match_tables(struct dw_match *match, uint64_t address)
{
	match->function = sp_interval_at(match->functions->pieces, match->functions->piece_count, address);
	match->has_place = match->lines && dw_lines_find(match->lines, address, &match->place);
}

int dw_compare_ids(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

/* Several units can claim an address: the linker points the copies of a function that it dropped at the one that it
 * kept. That one is in the first unit, and only a unit with a function and a line is a good answer. */
static struct sp_error *match_units(struct dw_search *search, const struct dw_map *map, uint64_t address,
                                    struct dw_match *best)
{
	search->ids.count = 0;
	if (!dw_tree_find(&map->tree, address, &search->ids))
		return sp_error_no_memory();
	dw_sort(search->ids.items, search->ids.count, sizeof(*search->ids.items), dw_compare_ids);
	for (size_t i = 0; i < search->ids.count && dw_match_rank(best) < 3; i++) {
		struct dw_unit *unit;
		struct dw_match match;
		if (i && search->ids.items[i] == search->ids.items[i - 1])
			continue;
		struct sp_error *error = dw_map_unit_get(search->dwarf, &map->units[search->ids.items[i]], &unit);
		if (!error && unit)
			error = match_unit(unit, address, &match);
		if (error)
			return error;
		if (unit && dw_match_rank(&match) > dw_match_rank(best))
			*best = match;
	}
	return NULL;
}

/* The first few addresses are looked for in .debug_aranges itself: that takes less time than sorting it. */
static struct sp_error *match_by_scan(struct dw_search *search, uint64_t address, struct dw_match *best)
{
	struct dw_map *map;
	struct sp_error *error = dw_map_by_aranges(search->dwarf, address, address, &map);
	if (error)
		return error;
	error = match_units(search, map, address, best);
	dw_map_destroy(map);
	return error;
}

static struct sp_error *match_by_map(struct dw_search *search, bool by_units, uint64_t address, struct dw_match *best)
{
	const struct dw_map *map;
	struct sp_error *error = dw_map_get(search->dwarf, by_units, &map);
	return error ? error : match_units(search, map, address, best);
}

static struct sp_error *find_match(struct dw_search *search, uint64_t address, struct dw_match *best)
{
	struct sp_dwarf *dwarf = search->dwarf;
	struct sp_error *error = NULL;
	if (!atomic_load_explicit(&dwarf->by_aranges, memory_order_acquire) &&
	    atomic_fetch_add_explicit(&dwarf->scans, 1, memory_order_relaxed) < MAX_SCANS) {
		error = match_by_scan(search, address, best);
		if (error || dw_match_rank(best) == 3)
			return error;
	}
	error = match_by_map(search, false, address, best);
	if (!error && dw_match_rank(best) < 3)
		error = match_by_map(search, true, address, best);
	return error;
}

/* A name of the unit at hand, or of another one. */
static struct sp_error *get_name(struct dw_search *search, const struct dw_match *match, struct dw_die die,
                                 struct dw_name *ret)
{
	if (!search->names || die.unit != match->dies)
		return dw_name_get(die, ret);
	const uint64_t *known = sp_map_get(&search->names->numbers, die.offset);
	if (known) {
		*ret = search->names->items.items[*known];
		return NULL;
	}
	struct sp_error *error = dw_name_find(die, ret);
	if (error)
		return error;
	if (!sp_map_put(&search->names->numbers, die.offset, search->names->items.count) ||
	    !sp_vector_push(&search->names->items, *ret))
		return sp_error_no_memory();
	return NULL;
}

static bool push_frame(struct dw_search *search, const struct dw_match *match, const struct dw_name *name,
                       const struct dw_place *place)
{
	struct sp_dwarf_frame frame = { .linkage_name = name->linkage, .name = name->name };
	if (place && match->lines) {
		if (!dw_unit_path(match->unit, match->lines, place->file, &frame.file))
			return false;
		frame.line = place->line;
		frame.column = place->column;
	}
	return sp_vector_push(&search->frames, frame);
}

struct sp_error *dw_make_frames(struct dw_search *search, const struct dw_match *match, uint64_t address)
{
	struct dw_name name = { 0 };
	struct dw_place place = match->place;
	bool has_place = match->has_place;
	if (!match->function)
		return push_frame(search, match, &name, has_place ? &place : NULL) ? NULL : sp_error_no_memory();
	const struct dw_inlines *inlines;
	struct sp_error *error = dw_inlines_get(match->dies, match->functions, match->function->id, &inlines);
	if (error)
		return error;
	uint32_t node = dw_inlines_find(inlines, address);
	node = node == DW_NO_NODE ? 0 : node;
	for (; node < inlines->inline_count; node = inlines->inlines[node].parent) {
		const struct dw_inline *call = &inlines->inlines[node];
		struct dw_die die = { match->dies, call->origin };
		if (call->origin & DW_FOREIGN)
			die = inlines->foreign[call->origin & ~DW_FOREIGN];
		error = get_name(search, match, die, &name);
		if (error)
			return error;
		if (!push_frame(search, match, &name, has_place ? &place : NULL))
			return sp_error_no_memory();
		place = (struct dw_place){ call->file, call->line, call->column };
		has_place = true;
	}
	return NULL;
}

struct sp_error *dw_look_up(struct dw_search *search, uint64_t address)
{
	struct dw_match best = { 0 };
	search->frames.count = 0;
	struct sp_error *error = find_match(search, address, &best);
	if (!error && dw_match_rank(&best))
		error = dw_make_frames(search, &best, address);
	return error;
}

/* ---- Helpers ---- */

/* A look-up that has to decode much is helped: other threads go through its addresses from the end, so that what the
 * caller's thread needs there exists when it comes. They give no answers, and what they fail at it meets itself. */
struct help {
	struct sp_dwarf *dwarf;
	const uint64_t *addresses;
	atomic_size_t done; /* the caller's thread has answered those before */
	atomic_size_t end;  /* helpers have taken those from here on */
	pthread_t threads[DW_MAX_HELPERS];
	unsigned count;
};

static void *run_helper(void *argument)
{
	struct help *help = argument;
	struct dw_search search = { .dwarf = help->dwarf };
	size_t end = atomic_load(&help->end);
	for (;;) {
		size_t start = end > CHUNK ? end - CHUNK : 0;
		if (start <= atomic_load(&help->done))
			break;
		if (!atomic_compare_exchange_weak(&help->end, &end, start))
			continue;
		while (end > start)
			sp_error_destroy(dw_look_up(&search, help->addresses[--end]));
		end = atomic_load(&help->end);
	}
	sp_vector_deinit(&search.ids);
	sp_vector_deinit(&search.frames);
	return NULL;
}

static void start_helpers(struct help *help)
{
	while (help->count < help->dwarf->helpers) {
		if (pthread_create(&help->threads[help->count], NULL, run_helper, help) != 0)
			break;
		help->count++;
	}
}

struct sp_error *sp_dwarf_lookup(struct sp_dwarf *dwarf, const uint64_t *addresses, size_t count,
                                 void (*emit)(void *context, size_t index, const struct sp_dwarf_answer *answer),
                                 void *context, const char **ret_note)
{
	if (ret_note)
		*ret_note = NULL;
	if (dwarf->child)
		return dw_child_lookup(dwarf->child, addresses, count, emit, context);
	if (count > MIN_FOR_HELP)
		want_all(dwarf);
	if (count >= MIN_FOR_BATCH && !atomic_exchange(&dwarf->batched, true))
		return dw_look_up_batch(dwarf, addresses, count, emit, context, ret_note);
	struct dw_search search = { .dwarf = dwarf };
	struct help help = { .dwarf = dwarf, .addresses = addresses, .end = count };
	size_t decoded = atomic_load(&dwarf->decoded);
	struct sp_error *error = NULL;
	for (size_t i = 0; i < count && !error; i++) {
		error = dw_look_up(&search, addresses[i]);
		struct sp_dwarf_answer answer = { search.frames.items, search.frames.count };
		if (!error)
			emit(context, i, &answer);
		atomic_store(&help.done, i);
		/* Not for the first unit: most look-ups need few. */
		if (!help.count && count - i > MIN_FOR_HELP && atomic_load(&dwarf->decoded) - decoded > 1)
			start_helpers(&help);
	}
	atomic_store(&help.done, count);
	while (help.count)
		pthread_join(help.threads[--help.count], NULL);
	sp_vector_deinit(&search.ids);
	sp_vector_deinit(&search.frames);
	if (ret_note)
		*ret_note = atomic_load_explicit(&dwarf->note, memory_order_acquire);
	return error;
}

/* ---- Discriminators ---- */

struct sp_error *sp_dwarf_discriminators(struct sp_dwarf *dwarf, const uint64_t *addresses, size_t count, uint32_t *ret)
{
	struct dw_search search = { .dwarf = dwarf };
	const struct dw_unit *unit = NULL; /* that `lines` is of */
	struct dw_lines *lines = NULL;
	struct sp_error *error = NULL;
	/* In sorted order hardly a table is decoded twice; of tables that overlap, the work is limited. */
	uint64_t work = dw_section(dwarf->main, DW_LINE)->data.size * 16;
	for (size_t i = 0; i < count && !error; i++) {
		struct dw_match match = { 0 };
		struct dw_place place;
		ret[i] = 0;
		error = find_match(&search, addresses[i], &match);
		if (error || !match.has_place)
			continue;
		if (match.unit != unit) {
			dw_lines_destroy(lines);
			lines = NULL;
			unit = match.unit;
			if (work)
				error = dw_discriminators_create(match.unit, &lines);
			uint64_t done = lines ? lines->row_count + 1 : 1;
			work = done < work ? work - done : 0;
		}
		if (lines && dw_lines_find(lines, addresses[i], &place))
			ret[i] = place.column;
	}
	dw_lines_destroy(lines);
	sp_vector_deinit(&search.ids);
	sp_vector_deinit(&search.frames);
	return error;
}
