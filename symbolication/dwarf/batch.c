/* A look-up of very many addresses: they are grouped by unit, and each unit's tables are made, used and dropped, in
 * several threads. That takes little memory, and time only for what is asked.
 *
 * First an address goes to the first unit that claims it, which nearly always has a function and a line for it. The few
 * others then go to all units that claim them, and the best answer counts. */
#include "internal.h"

#include <stdlib.h>

/* An address and a unit that claims it. */
struct claim {
	uint32_t unit; /* those of the second map behind those of the first */
	uint32_t index;
};

/* The best answer so far to an address that has no good one. */
struct best {
	uint32_t index, unit;
	int rank;
	struct sp_dwarf_frame *frames; /* owned */
	size_t count;
};

struct batch {
	struct sp_dwarf *dwarf;
	const uint64_t *addresses;
	size_t count;
	void (*emit)(void *context, size_t index, const struct sp_dwarf_answer *answer);
	void *context;

	const struct dw_map *maps[2]; /* by aranges, by units; NULL = was not wanted */
	SP_VECTOR(struct claim) claims;
	struct claim *sorted; /* owned; by unit, in each ascending by address */
	size_t *firsts;       /* owned; by unit: its first claim; one more at the end */
	size_t unit_count;
	bool *done;                  /* owned; by address: it has its answer */
	SP_VECTOR(struct best) rest; /* ascending by index; empty in the first round */
	pthread_mutex_t lock;        /* for `rest` */
	atomic_size_t next;
	_Atomic(struct sp_error *) error; /* the first one */
};

/* ---- Grouping ---- */

/* The units of a map that claim an address, ascending, in search->ids. */
static struct sp_error *find_units(struct batch *batch, struct dw_search *search, bool by_units, uint64_t address)
{
	struct sp_error *error = dw_map_get(batch->dwarf, by_units, &batch->maps[by_units]);
	search->ids.count = 0;
	if (error)
		return error;
	if (!dw_tree_find(&batch->maps[by_units]->tree, address, &search->ids))
		return sp_error_no_memory();
	dw_sort(search->ids.items, search->ids.count, sizeof(*search->ids.items), dw_compare_ids);
	return NULL;
}

static bool add_claims(struct batch *batch, const struct dw_search *search, bool by_units, size_t most, uint32_t index)
{
	uint32_t before = by_units ? (uint32_t)batch->maps[0]->count : 0;
	for (size_t i = 0; i < search->ids.count && i < most; i++)
		if (!sp_vector_push(&batch->claims, (struct claim){ before + search->ids.items[i], index }))
			return false;
	return true;
}

/* Adds the claims on an address: the first one, or all. */
static struct sp_error *claim_address(struct batch *batch, struct dw_search *search, uint32_t index, bool all)
{
	struct sp_error *error = find_units(batch, search, false, batch->addresses[index]);
	if (!error && !add_claims(batch, search, false, all ? SIZE_MAX : 1, index))
		error = sp_error_no_memory();
	if (error || (!all && search->ids.count))
		return error;
	error = find_units(batch, search, true, batch->addresses[index]);
	if (!error && !add_claims(batch, search, true, all ? SIZE_MAX : 1, index))
		error = sp_error_no_memory();
	return error;
}

/* Orders the claims by unit: a counting sort. */
static struct sp_error *group(struct batch *batch)
{
	batch->unit_count = batch->maps[0]->count + (batch->maps[1] ? batch->maps[1]->count : 0);
	free(batch->firsts);
	free(batch->sorted);
	batch->firsts = calloc(batch->unit_count + 2, sizeof(*batch->firsts));
	batch->sorted = malloc((batch->claims.count + 1) * sizeof(*batch->sorted));
	if (!batch->firsts || !batch->sorted)
		return sp_error_no_memory();
	size_t *places = batch->firsts + 1;
	for (size_t i = 0; i < batch->claims.count; i++)
		places[batch->claims.items[i].unit + 1]++;
	for (size_t unit = 0; unit < batch->unit_count; unit++)
		places[unit + 1] += places[unit];
	for (size_t i = 0; i < batch->claims.count; i++)
		batch->sorted[places[batch->claims.items[i].unit]++] = batch->claims.items[i];
	return NULL; /* places[unit] has become the end of the unit, which is firsts[unit + 1] */
}

/* ---- One unit ---- */

/* In the second round: keeps the frames of a match unless there is a better one, or an equal one of a unit before. */
static bool keep(struct batch *batch, const struct dw_search *search, const struct claim *claim, int rank)
{
	size_t low = 0, high = batch->rest.count;
	while (high - low > 1) {
		size_t middle = (low + high) / 2;
		if (batch->rest.items[middle].index <= claim->index)
			low = middle;
		else
			high = middle;
	}
	struct best *best = &batch->rest.items[low];
	if (rank < best->rank || (rank == best->rank && claim->unit > best->unit))
		return true;
	struct sp_dwarf_frame *frames = malloc((search->frames.count + 1) * sizeof(*frames));
	if (!frames)
		return false;
	if (search->frames.count)
		memcpy(frames, search->frames.items, search->frames.count * sizeof(*frames));
	free(best->frames);
	*best = (struct best){ claim->index, claim->unit, rank, frames, search->frames.count };
	return true;
}

static struct sp_error *answer(struct batch *batch, struct dw_search *search, struct dw_match *match,
                               const struct claim *claim)
{
	bool ok = true, second = batch->rest.count;
	dw_match_tables(match, batch->addresses[claim->index]);
	int rank = dw_match_rank(match);
	if (rank < (second ? 1 : 3))
		return NULL;
	search->frames.count = 0;
	struct sp_error *error = dw_make_frames(search, match, batch->addresses[claim->index]);
	if (error)
		return error;
	if (second) {
		pthread_mutex_lock(&batch->lock);
		ok = keep(batch, search, claim, rank);
		pthread_mutex_unlock(&batch->lock);
	} else {
		struct sp_dwarf_answer found = { search->frames.items, search->frames.count };
		batch->emit(batch->context, claim->index, &found);
		batch->done[claim->index] = true;
	}
	return ok ? NULL : sp_error_no_memory();
}

static struct sp_error *answer_unit(struct batch *batch, struct dw_search *search, size_t number)
{
	const struct dw_map *first = batch->maps[0];
	struct dw_map_unit *slot = number < first->count ? &first->units[number]
	                                                 : &batch->maps[1]->units[number - first->count];
	struct dw_match match = { 0 };
	struct dw_functions *functions = NULL;
	struct dw_lines *lines = NULL;
	struct dw_local_names names = { 0 };
	struct sp_error *error = dw_map_unit_get(batch->dwarf, slot, &match.unit);
	if (error || !match.unit)
		return error;
	match.dies = dw_unit_with_dies(match.unit);
	error = dw_functions_create(match.dies, &functions);
	if (!error)
		error = dw_lines_create(match.unit, &lines);
	match.functions = functions;
	match.lines = lines;
	search->names = &names;
	for (size_t i = batch->firsts[number]; i < batch->firsts[number + 1] && !error; i++)
		error = answer(batch, search, &match, &batch->sorted[i]);
	search->names = NULL;
	sp_map_deinit(&names.numbers);
	sp_vector_deinit(&names.items);
	dw_functions_destroy(functions);
	dw_lines_destroy(lines);
	return error;
}

static void *run(void *argument)
{
	struct batch *batch = argument;
	struct dw_search search = { .dwarf = batch->dwarf };
	while (!atomic_load(&batch->error)) {
		size_t number = atomic_fetch_add(&batch->next, 1);
		if (number >= batch->unit_count)
			break;
		if (batch->firsts[number] == batch->firsts[number + 1])
			continue;
		struct sp_error *error = answer_unit(batch, &search, number), *none = NULL;
		if (error && !atomic_compare_exchange_strong(&batch->error, &none, error))
			sp_error_destroy(error);
	}
	sp_vector_deinit(&search.ids);
	sp_vector_deinit(&search.frames);
	return NULL;
}

/* ---- All ---- */

/* Answers all claims, in the caller's thread and helpers. */
static struct sp_error *answer_claims(struct batch *batch)
{
	pthread_t threads[DW_MAX_HELPERS];
	unsigned count = 0;
	struct sp_error *error = group(batch);
	if (error)
		return error;
	atomic_store(&batch->next, 0);
	while (count < batch->dwarf->helpers && pthread_create(&threads[count], NULL, run, batch) == 0)
		count++;
	run(batch);
	while (count)
		pthread_join(threads[--count], NULL);
	return atomic_load(&batch->error);
}

static struct sp_error *first_round(struct batch *batch, struct dw_search *search)
{
	struct sp_error *error = NULL;
	for (size_t i = 0; i < batch->count && !error; i++)
		error = claim_address(batch, search, (uint32_t)i, false);
	return error ? error : answer_claims(batch);
}

static struct sp_error *second_round(struct batch *batch, struct dw_search *search)
{
	struct sp_error *error = NULL;
	batch->claims.count = 0;
	for (size_t i = 0; i < batch->count && !error; i++) {
		if (batch->done[i])
			continue;
		error = claim_address(batch, search, (uint32_t)i, true);
		if (!error && !sp_vector_push(&batch->rest, (struct best){ .index = (uint32_t)i, .unit = UINT32_MAX }))
			error = sp_error_no_memory();
	}
	if (!error && batch->rest.count)
		error = answer_claims(batch);
	for (size_t i = 0; i < batch->rest.count && !error; i++) {
		struct sp_dwarf_answer found = { batch->rest.items[i].frames, batch->rest.items[i].count };
		batch->emit(batch->context, batch->rest.items[i].index, &found);
	}
	return error;
}

struct sp_error *dw_look_up_batch(struct sp_dwarf *dwarf, const uint64_t *addresses, size_t count,
                                  void (*emit)(void *context, size_t index, const struct sp_dwarf_answer *answer),
                                  void *context, const char **ret_note)
{
	struct batch batch = {
		.dwarf = dwarf, .addresses = addresses, .count = count, .emit = emit, .context = context
	};
	struct dw_search search = { .dwarf = dwarf };
	if (count > UINT32_MAX)
		return sp_error_create(SP_ERROR_LIMIT, "too many addresses");
	batch.done = calloc(count, sizeof(*batch.done));
	pthread_mutex_init(&batch.lock, NULL);
	struct sp_error *error = batch.done ? first_round(&batch, &search) : sp_error_no_memory();
	if (!error)
		error = second_round(&batch, &search);
	for (size_t i = 0; i < batch.rest.count; i++)
		free(batch.rest.items[i].frames);
	pthread_mutex_destroy(&batch.lock);
	sp_vector_deinit(&batch.rest);
	sp_vector_deinit(&batch.claims);
	free(batch.sorted);
	free(batch.firsts);
	free(batch.done);
	sp_vector_deinit(&search.ids);
	sp_vector_deinit(&search.frames);
	if (ret_note)
		*ret_note = atomic_load_explicit(&dwarf->note, memory_order_acquire);
	return error;
}
