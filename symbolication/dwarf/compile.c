/* Everything that the debug information says of addresses, for an index: unit by unit, in several threads, from the
 * same tables that look-ups use, so that an index gives the answers that they give. The tables of a unit are dropped
 * when it is done. */
#include "internal.h"
#include "symbolication/index/builder.h"

#include <stdlib.h>

#define MAX_THREADS 8

/* A unit and the addresses that it may answer for. */
struct job {
	struct dw_map_unit *slot;
	const struct sp_interval **claims; /* in `all_claims` */
	size_t claim_count;
};

struct compiler {
	struct sp_dwarf *dwarf;
	struct sp_index_builder *builder;
	uint64_t base;
	const atomic_bool *cancel;
	struct job *jobs; /* owned; the order of a unit's part is its place */
	size_t job_count;
	const struct sp_interval **all_claims; /* owned */
	atomic_size_t next;
	atomic_bool failed, incomplete;
	_Atomic(struct sp_error *) error; /* the first one */
};

/* A name without the scopes in front. */
struct unscoped {
	struct dw_name name;
	struct dw_die last; /* the scopes are around this one */
	uint32_t origin;
};

/* What is at hand while a unit is compiled. */
struct unit_compiler {
	struct compiler *compiler;
	struct dw_unit *unit, *dies;
	struct dw_functions *functions;
	struct dw_lines *lines;
	struct sp_index_part *part;
	uint32_t *files;                     /* owned; numbers + 1 by file of the line table, 0 = not yet */
	struct sp_map names;                 /* offset of an origin -> number */
	SP_VECTOR(struct unscoped) unscoped; /* names that want scopes */
	uint32_t *firsts;                    /* owned; by function: number of its first node; 0 = not yet */
};

/* ---- Names, files, places ---- */

static uint32_t add_name(struct unit_compiler *c, const struct dw_name *name)
{
	const char *text = name->linkage ? name->linkage : name->name ? name->name : "";
	return sp_index_part_name(c->part, name->linkage ? SP_INDEX_LINKAGE : SP_INDEX_PLAIN, text, strlen(text));
}

/* The number of a name that name_all() found, or that stands in another unit. */
static struct sp_error *name_of(struct unit_compiler *c, const struct dw_inlines *inlines, uint32_t origin,
                                uint32_t *ret)
{
	if (!(origin & DW_FOREIGN)) {
		const uint64_t *known = sp_map_get(&c->names, origin);
		*ret = known ? (uint32_t)*known : 0;
		return NULL;
	}
	struct dw_name name;
	struct sp_error *error = dw_name_find(inlines->foreign[origin & ~DW_FOREIGN], &name);
	if (!error)
		*ret = add_name(c, &name);
	return error;
}

/* Names an origin in the unit unless that was done; one that wants scopes has to wait. */
static struct sp_error *name_origin(struct unit_compiler *c, uint32_t origin)
{
	struct unscoped item = { .origin = origin };
	if (origin & DW_FOREIGN || sp_map_get(&c->names, origin))
		return NULL;
	bool wait = dw_name_follow((struct dw_die){ c->dies, origin }, &item.name, &item.last);
	if (!sp_map_put(&c->names, origin, wait ? 0 : add_name(c, &item.name)) ||
	    (wait && !sp_vector_push(&c->unscoped, item)))
		return sp_error_no_memory();
	return NULL;
}

static int compare_unscoped(const void *a, const void *b)
{
	const struct unscoped *x = a, *y = b;
	return x->last.offset < y->last.offset ? -1 : x->last.offset > y->last.offset;
}

/* Names all functions and calls of the unit: scopes are found in one walk for all. */
static struct sp_error *name_all(struct unit_compiler *c)
{
	struct sp_error *error = NULL;
	for (size_t i = 0; i < c->functions->piece_count && !error; i++) {
		const struct dw_inlines *inlines;
		error = dw_inlines_get(c->dies, c->functions, c->functions->pieces[i].id, &inlines);
		for (uint32_t k = 0; !error && k < inlines->inline_count; k++)
			error = name_origin(c, inlines->inlines[k].origin);
	}
	struct dw_walker *walker = c->unscoped.count && !error ? dw_walker_create(c->dies) : NULL;
	dw_sort(c->unscoped.items, c->unscoped.count, sizeof(*c->unscoped.items), compare_unscoped);
	for (size_t i = 0; i < c->unscoped.count && !error; i++) {
		struct unscoped *item = &c->unscoped.items[i];
		error = dw_name_qualify(item->last, walker, &item->name);
		if (!error && !sp_map_put(&c->names, item->origin, add_name(c, &item->name)))
			error = sp_error_no_memory();
	}
	free(walker);
	return error;
}

static uint32_t file_of(struct unit_compiler *c, uint32_t file)
{
	if (!c->lines || file > c->lines->file_count)
		return 0;
	if (!c->files[file]) {
		char path[DW_MAX_NAME];
		size_t length = 0;
		if (!dw_join_path(c->unit, c->lines, file, path, &length))
			length = 0;
		c->files[file] = sp_index_part_file(c->part, path, length) + 1;
	}
	return c->files[file] - 1;
}

static struct sp_index_place place_of(struct unit_compiler *c, uint32_t file, uint32_t line, uint32_t column)
{
	return c->lines ? (struct sp_index_place){ file_of(c, file), line, column } : (struct sp_index_place){ 0 };
}

/* ---- Functions ---- */

static struct sp_error *add_nodes(struct unit_compiler *c, const struct dw_inlines *inlines, uint32_t *ret_first)
{
	for (uint32_t i = 0; i < inlines->inline_count; i++) {
		const struct dw_inline *call = &inlines->inlines[i];
		struct sp_index_place place = { 0 };
		uint32_t name = 0;
		struct sp_error *error = name_of(c, inlines, call->origin, &name);
		if (error)
			return error;
		if (i)
			place = place_of(c, call->file, call->line, call->column);
		uint32_t parent = call->parent < i ? *ret_first + call->parent : 0;
		uint32_t node = sp_index_part_node(c->part, parent, name, &place);
		if (!i)
			*ret_first = node;
	}
	return NULL;
}

static void add_range(struct unit_compiler *c, uint32_t node, uint64_t start, uint64_t end)
{
	if (start >= c->compiler->base)
		sp_index_part_range(c->part, node, start - c->compiler->base, end - c->compiler->base);
}

/* The part [start, end) of a function. What no start leads to belongs to the function itself. */
static void add_ranges(struct unit_compiler *c, const struct dw_inlines *inlines, uint32_t first, uint64_t start,
                       uint64_t end)
{
	uint32_t low = 0, high = inlines->start_count;
	while (low < high) { /* the first start above the function's part */
		uint32_t middle = (low + high) / 2;
		if (inlines->base + inlines->starts[middle] <= start)
			low = middle + 1;
		else
			high = middle;
	}
	uint32_t node = low ? inlines->nodes[low - 1] : DW_NO_NODE;
	for (;; low++) {
		uint64_t next = low < inlines->start_count ? inlines->base + inlines->starts[low] : end;
		next = next < end ? next : end;
		add_range(c, first + (node == DW_NO_NODE ? 0 : node), start, next);
		if (next == end)
			break;
		node = inlines->nodes[low];
		start = next;
	}
}

static struct sp_error *add_functions(struct unit_compiler *c)
{
	const struct dw_functions *functions = c->functions;
	c->firsts = calloc(functions->count + 1, sizeof(*c->firsts));
	if (!c->firsts)
		return sp_error_no_memory();
	for (size_t i = 0; i < functions->piece_count; i++) {
		const struct sp_interval *piece = &functions->pieces[i];
		const struct dw_inlines *inlines;
		struct sp_error *error = dw_inlines_get(c->dies, functions, piece->id, &inlines);
		if (!error && !c->firsts[piece->id])
			error = add_nodes(c, inlines, &c->firsts[piece->id]);
		if (error)
			return error;
		add_ranges(c, inlines, c->firsts[piece->id], piece->start, piece->end);
	}
	return NULL;
}

/* ---- Lines ---- */

static void add_row(struct unit_compiler *c, uint64_t start, uint64_t end, uint64_t packed)
{
	struct dw_place place;
	dw_lines_unpack(c->lines, packed, &place);
	struct sp_index_place to = place_of(c, place.file, place.line, place.column);
	if (start >= c->compiler->base)
		sp_index_part_row(c->part, start - c->compiler->base, end - c->compiler->base, &to);
}

/* The rows of a sequence where the sequence has the addresses. */
static void add_piece(struct unit_compiler *c, const struct sp_interval *piece)
{
	const struct dw_sequence *sequence = &c->lines->sequences[piece->id];
	const uint32_t *deltas = c->lines->deltas + sequence->first;
	const uint64_t *places = c->lines->places + sequence->first;
	for (uint32_t i = 0; i < sequence->count; i++) {
		uint64_t start = sequence->start + deltas[i];
		uint64_t end = i + 1 < sequence->count ? sequence->start + deltas[i + 1] : piece->end;
		start = start > piece->start ? start : piece->start;
		end = end < piece->end ? end : piece->end;
		if (start < end)
			add_row(c, start, end, places[i]);
	}
}

static struct sp_error *add_lines(struct unit_compiler *c)
{
	if (!c->lines)
		return NULL;
	c->files = calloc(c->lines->file_count + 1, sizeof(*c->files));
	if (!c->files)
		return sp_error_no_memory();
	for (size_t i = 0; i < c->lines->piece_count; i++)
		add_piece(c, &c->lines->pieces[i]);
	return NULL;
}

/* ---- Units ---- */

static void add_claims(struct unit_compiler *c, const struct job *job)
{
	uint64_t base = c->compiler->base;
	for (size_t i = 0; i < job->claim_count; i++) {
		const struct sp_interval *claim = job->claims[i];
		if (claim->end > base)
			sp_index_part_claim(c->part, claim->start > base ? claim->start - base : 0, claim->end - base);
	}
}

static struct sp_error *fill_part(struct unit_compiler *c, const struct job *job)
{
	struct sp_error *error = dw_functions_create(c->dies, &c->functions);
	if (!error)
		error = dw_lines_create(c->unit, &c->lines);
	if (!error)
		error = add_lines(c);
	if (!error)
		error = name_all(c);
	if (!error)
		error = add_functions(c);
	if (!error)
		add_claims(c, job);
	return error;
}

static struct sp_error *compile_unit(struct compiler *compiler, size_t number)
{
	const struct job *job = &compiler->jobs[number];
	struct unit_compiler c = { .compiler = compiler };
	struct sp_error *error = dw_map_unit_get(compiler->dwarf, job->slot, &c.unit);
	if (error || !c.unit || !job->claim_count)
		return error;
	c.dies = dw_unit_with_dies(c.unit);
	if (c.dies == c.unit && c.unit->dwo_name)
		atomic_store(&compiler->incomplete, true);
	error = sp_index_part_create(compiler->builder, (uint32_t)number, &c.part);
	if (!error)
		error = fill_part(&c, job);
	if (error)
		sp_index_part_destroy(c.part);
	else
		error = sp_index_part_finish(c.part);
	dw_functions_destroy(c.functions);
	dw_lines_destroy(c.lines);
	free(c.files);
	free(c.firsts);
	sp_map_deinit(&c.names);
	sp_vector_deinit(&c.unscoped);
	return error;
}

static void *run(void *argument)
{
	struct compiler *compiler = argument;
	for (;;) {
		size_t number = atomic_fetch_add(&compiler->next, 1);
		if (number >= compiler->job_count || atomic_load(&compiler->failed))
			return NULL;
		struct sp_error *error = atomic_load(compiler->cancel)
		                             ? sp_error_create(SP_ERROR_CANCELLED, "the index is not wanted any more")
		                             : compile_unit(compiler, number);
		if (!error)
			continue;
		struct sp_error *none = NULL;
		if (!atomic_compare_exchange_strong(&compiler->error, &none, error))
			sp_error_destroy(error);
		atomic_store(&compiler->failed, true);
	}
}

/* Sorts the claims of a map by unit, in counting sort's way. */
static void take_map(struct compiler *compiler, const struct dw_map *map, size_t *claim_count)
{
	struct job *jobs = compiler->jobs + compiler->job_count;
	const struct sp_interval **claims = compiler->all_claims + *claim_count;
	for (size_t i = 0; i < map->tree.count; i++)
		jobs[map->tree.intervals[i].id].claim_count++;
	for (size_t i = 0; i < map->count; i++) {
		jobs[i].slot = &map->units[i];
		jobs[i].claims = claims;
		claims += jobs[i].claim_count;
		jobs[i].claim_count = 0;
	}
	for (size_t i = 0; i < map->tree.count; i++) {
		struct job *job = &jobs[map->tree.intervals[i].id];
		job->claims[job->claim_count++] = &map->tree.intervals[i];
	}
	compiler->job_count += map->count;
	*claim_count += map->tree.count;
}

/* Units that .debug_aranges knows come first, as in look-ups. */
static struct sp_error *list_jobs(struct compiler *compiler)
{
	const struct dw_map *by_aranges, *by_units;
	struct sp_error *error = dw_map_get(compiler->dwarf, false, &by_aranges);
	if (!error)
		error = dw_map_get(compiler->dwarf, true, &by_units);
	if (error)
		return error;
	size_t claim_count = 0;
	compiler->jobs = calloc(by_aranges->count + by_units->count + 1, sizeof(*compiler->jobs));
	compiler->all_claims = calloc(by_aranges->tree.count + by_units->tree.count + 1, sizeof(*compiler->all_claims));
	if (!compiler->jobs || !compiler->all_claims)
		return sp_error_no_memory();
	if (by_aranges->count + by_units->count >= SP_INDEX_MAX_PARTS)
		return sp_error_create(SP_ERROR_LIMIT, "too many units for an index");
	take_map(compiler, by_aranges, &claim_count);
	take_map(compiler, by_units, &claim_count);
	return NULL;
}

static struct sp_error *run_jobs(struct compiler *compiler, unsigned threads)
{
	pthread_t helpers[MAX_THREADS];
	unsigned count = 0;
	while (count < MAX_THREADS && count + 1 < threads && count + 1 < compiler->job_count &&
	       pthread_create(&helpers[count], NULL, run, compiler) == 0)
		count++;
	run(compiler);
	while (count)
		pthread_join(helpers[--count], NULL);
	return atomic_load(&compiler->error);
}

struct sp_error *sp_dwarf_compile(const struct sp_dwarf_files *files, uint64_t base, unsigned threads,
                                  const atomic_bool *cancel, struct sp_index_builder *builder, bool *ret_whole,
                                  char **ret_note)
{
	struct compiler compiler = { .builder = builder, .base = base, .cancel = cancel };
	struct sp_error *error = sp_dwarf_create(files, &compiler.dwarf);
	sp_object_want_all(files->main);
	if (!error)
		error = list_jobs(&compiler);
	if (!error)
		error = run_jobs(&compiler, threads);
	*ret_whole = !error && !atomic_load(&compiler.incomplete);
	*ret_note = !error ? atomic_exchange(&compiler.dwarf->note, NULL) : NULL;
	free(compiler.jobs);
	free(compiler.all_claims);
	sp_dwarf_destroy(compiler.dwarf);
	return error;
}
