/* Functions of a unit, and what is inlined where in one of them.
 *
 * The function table needs a walk over every DIE of the unit: functions hide in classes, and classes in functions. The
 * walk looks at nothing but the abbreviation code of most DIEs. What is inlined in a function is read when the function
 * is first hit, from its own DIEs, and flattened to a sorted array of starts, each with the innermost call there. */
#include "internal.h"

#include <stdlib.h>

/* The attributes of a subprogram, block or inlined call that matter here. */
struct body {
	struct dw_value low, high, ranges, origin, call_file, call_line, call_column;
};

static void take_attribute(struct body *body, unsigned name, const struct dw_value *value)
{
	switch (name) {
	case DW_AT_low_pc:
		body->low = *value;
		break;
	case DW_AT_high_pc:
		body->high = *value;
		break;
	case DW_AT_ranges:
		body->ranges = *value;
		break;
	case DW_AT_abstract_origin:
		body->origin = *value;
		break;
	case DW_AT_call_file:
		body->call_file = *value;
		break;
	case DW_AT_call_line:
		body->call_line = *value;
		break;
	case DW_AT_call_column:
		body->call_column = *value;
		break;
	default:
		break;
	}
}

static void read_body(struct sp_cursor *c, const struct dw_unit *unit, const struct dw_abbrev *abbrev, struct body *ret)
{
	*ret = (struct body){ 0 };
	for (unsigned i = 0; i < abbrev->count && !c->bad; i++) {
		const struct dw_attribute *attribute = &unit->abbrevs->attributes.items[abbrev->first + i];
		struct dw_value value;
		dw_read_attribute(c, unit, attribute, &value);
		take_attribute(ret, attribute->name, &value);
	}
}

/* ---- The function table ---- */

struct table {
	SP_VECTOR(struct dw_function) functions;
	SP_VECTOR(struct sp_interval) ranges; /* id = function */
};

static struct sp_error *add_function(const struct dw_unit *unit, uint32_t die, const struct body *body,
                                     struct dw_ranges *scratch, struct table *table)
{
	scratch->count = 0;
	struct sp_error *error = dw_ranges_read(unit, &body->low, &body->high, &body->ranges, scratch);
	if (error && error->code != SP_ERROR_NO_MEMORY) { /* only this function is lost, or part of it */
		dw_note(unit->file->dwarf, "%s", error->message);
		sp_error_destroy(error);
		error = NULL;
	}
	if (error || !scratch->count)
		return error;
	if (!sp_vector_push(&table->functions, (struct dw_function){ .die = die }))
		return sp_error_no_memory();
	for (size_t i = 0; i < scratch->count; i++) {
		struct sp_interval range = { scratch->items[i].start, scratch->items[i].end,
			                     (uint32_t)table->functions.count - 1 };
		if (!sp_vector_push(&table->ranges, range))
			return sp_error_no_memory();
	}
	return NULL;
}

/* Moves behind the children of the DIE whose attributes are at the cursor; false when it does not say where that is. */
static bool skip_children(struct sp_cursor *c, const struct dw_abbrev *abbrev)
{
	if (!(abbrev->flags & DW_ABBREV_SIBLING))
		return false;
	struct sp_cursor sibling = *c;
	sp_cursor_skip(&sibling, abbrev->sibling);
	uint32_t offset = sp_cursor_u32(&sibling);
	if (sibling.bad || offset <= sp_cursor_offset(c) || offset > (size_t)(c->end - c->start))
		return false;
	c->at = c->start + offset;
	return true;
}

/* A DIE that is not just stepped over, its attributes at the cursor. */
static struct sp_error *visit_any(const struct dw_unit *unit, struct sp_cursor *c, uint32_t die,
                                  const struct dw_abbrev *abbrev, struct dw_ranges *scratch, struct table *table)
{
	if (dw_abbrev_is_function(abbrev)) {
		struct body body;
		read_body(c, unit, abbrev, &body);
		return c->bad ? NULL : add_function(unit, die, &body, scratch, table);
	}
	if (!(dw_abbrev_is_hollow(abbrev) && skip_children(c, abbrev)))
		dw_skip_attributes(c, unit, unit->abbrevs, abbrev);
	return NULL;
}

/* Visits all DIEs of the unit in file order. */
static struct sp_error *walk(const struct dw_unit *unit, struct dw_ranges *scratch, struct table *table)
{
	struct sp_cursor c = dw_unit_cursor(unit, unit->first_die);
	const uint32_t *steps = unit->abbrevs->steps;
	const uint64_t step_count = unit->abbrevs->dense_count;
	const uint8_t *at = c.at, *end = c.end;
	while (!c.bad && (at = dw_steps(steps, step_count, at, end)) < end) {
		const uint8_t *start = at;
		uint64_t code = dw_read_code(&at, end, &c.bad);
		uint32_t step = code < step_count ? steps[code] : !code;
		if (step) {
			if (step - 1 > (size_t)(end - at))
				c.bad = true;
			at += c.bad ? 0 : step - 1;
			continue;
		}
		const struct dw_abbrev *abbrev = dw_abbrev_find(unit->abbrevs, code);
		c.at = at;
		if (!abbrev)
			c.bad = true;
		struct sp_error *error = abbrev
		                             ? visit_any(unit, &c, (uint32_t)(start - c.start), abbrev, scratch, table)
		                             : NULL;
		if (error)
			return error;
		at = c.at;
	}
	if (c.bad)
		dw_note(unit->file->dwarf, "section .debug_info: unit at 0x%llx is corrupt",
		        (unsigned long long)unit->offset);
	return NULL;
}

struct sp_error *dw_functions_create(const struct dw_unit *unit, struct dw_functions **ret)
{
	struct table table = { 0 };
	struct dw_ranges scratch = { 0 };
	struct dw_functions *functions = calloc(1, sizeof(*functions));
	struct sp_error *error = functions ? NULL : sp_error_no_memory();
	dw_want(unit->file, unit->bytes.bytes, unit->bytes.size);
	if (!error && dw_spend(unit->file->dwarf, DW_WORK_DIES, unit->bytes.size))
		error = walk(unit, &scratch, &table);
	/* Where functions overlap, the tightest range has the address; of equal ones the last in the file. */
	if (!error)
		error = sp_interval_tightest(table.ranges.items, table.ranges.count, &functions->pieces,
		                             &functions->piece_count);
	sp_vector_deinit(&scratch);
	sp_vector_deinit(&table.ranges);
	if (error) {
		sp_vector_deinit(&table.functions);
		free(functions);
		return error;
	}
	functions->functions = table.functions.items;
	functions->count = table.functions.count;
	dw_count_memory(unit->file->dwarf, sizeof(*functions) +
	                                       table.functions.capacity * sizeof(*functions->functions) +
	                                       functions->piece_count * sizeof(*functions->pieces));
	*ret = functions;
	return NULL;
}

struct sp_error *dw_functions_get(struct dw_unit *unit, const struct dw_functions **ret)
{
	struct dw_functions *functions = atomic_load_explicit(&unit->functions, memory_order_acquire);
	struct sp_error *error = NULL;
	if (!functions) {
		pthread_mutex_lock(&unit->lock);
		functions = atomic_load_explicit(&unit->functions, memory_order_relaxed);
		if (!functions) {
			error = dw_functions_create(unit, &functions);
			if (!error) {
				atomic_fetch_add_explicit(&unit->file->dwarf->decoded, 1, memory_order_relaxed);
				atomic_store_explicit(&unit->functions, functions, memory_order_release);
			}
		}
		pthread_mutex_unlock(&unit->lock);
	}
	*ret = functions;
	return error;
}

void dw_functions_destroy(struct dw_functions *functions)
{
	if (!functions)
		return;
	for (size_t i = 0; i < functions->count; i++)
		free(atomic_load(&functions->functions[i].inlines));
	free(functions->functions);
	free(functions->pieces);
	free(functions);
}

/* ---- Inlined calls ---- */

/* An open DIE with children on the way down. */
struct level {
	uint32_t node;               /* the innermost call around */
	size_t clip_first, clip_end; /* in tree.clips: the ranges that its children must lie in */
};

struct tree {
	struct dw_unit *unit;
	SP_VECTOR(struct dw_inline) inlines;
	SP_VECTOR(struct dw_die) foreign;
	SP_VECTOR(struct sp_interval) intervals; /* id = node */
	SP_VECTOR(struct dw_range) clips;        /* of the open levels, those of a level sorted */
	struct dw_ranges scratch;
	size_t depth;
	bool too_many;
	struct level levels[DW_MAX_DEPTH];
};

static int compare_ranges(const void *a, const void *b)
{
	const struct dw_range *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

static void sort_ranges(struct dw_ranges *ranges)
{
	for (size_t i = 1; i < ranges->count; i++) {
		if (ranges->items[i - 1].start <= ranges->items[i].start)
			continue;
		dw_sort(ranges->items, ranges->count, sizeof(*ranges->items), compare_ranges);
		return;
	}
}

/* Reads the DIE's ranges, cuts them to those of `level`, records them for `node`, and makes them the clips of `ret`. */
static struct sp_error *clip(struct tree *tree, const struct body *body, const struct level *level, uint32_t node,
                             struct level *ret)
{
	tree->scratch.count = 0;
	struct sp_error *error = dw_ranges_read(tree->unit, &body->low, &body->high, &body->ranges, &tree->scratch);
	if (error && error->code != SP_ERROR_NO_MEMORY) {
		dw_note(tree->unit->file->dwarf, "%s", error->message);
		sp_error_destroy(error);
		error = NULL;
	}
	if (error)
		return error;
	sort_ranges(&tree->scratch);
	ret->clip_first = tree->clips.count;
	size_t k = level->clip_first;
	for (size_t i = 0; i < tree->scratch.count && !tree->too_many; i++) {
		struct dw_range range = tree->scratch.items[i];
		while (k < level->clip_end && tree->clips.items[k].end <= range.start)
			k++;
		for (size_t m = k; m < level->clip_end && tree->clips.items[m].start < range.end; m++) {
			struct dw_range around = tree->clips.items[m];
			struct dw_range cut = { range.start > around.start ? range.start : around.start,
				                range.end < around.end ? range.end : around.end };
			if (cut.start >= cut.end)
				continue;
			if (!sp_vector_push(&tree->clips, cut) ||
			    !sp_vector_push(&tree->intervals, (struct sp_interval){ cut.start, cut.end, node }))
				return sp_error_no_memory();
			tree->too_many = tree->intervals.count > DW_MAX_INTERVALS;
		}
	}
	ret->clip_end = tree->clips.count;
	return NULL;
}

/* Where an inlined call's name is found. */
static bool set_origin(struct tree *tree, uint32_t die, const struct body *body, struct dw_inline *ret)
{
	struct dw_die origin;
	if (!body->origin.form || !dw_value_die(tree->unit, &body->origin, &origin))
		origin = (struct dw_die){ tree->unit, die };
	if (origin.unit == tree->unit && origin.offset < DW_FOREIGN) {
		ret->origin = (uint32_t)origin.offset;
		return true;
	}
	ret->origin = DW_FOREIGN | (uint32_t)tree->foreign.count;
	return sp_vector_push(&tree->foreign, origin);
}

static uint32_t small(const struct dw_value *value)
{
	return value->u <= UINT32_MAX ? (uint32_t)value->u : 0;
}

/* An inlined call: a new node. */
static struct sp_error *add_inline(struct tree *tree, uint32_t die, const struct body *body, const struct level *level,
                                   struct level *ret)
{
	struct dw_inline node = { .parent = level->node,
		                  .file = small(&body->call_file),
		                  .line = small(&body->call_line),
		                  .column = small(&body->call_column) };
	uint32_t index = (uint32_t)tree->inlines.count;
	if (!set_origin(tree, die, body, &node) || !sp_vector_push(&tree->inlines, node))
		return sp_error_no_memory();
	ret->node = index;
	/* A call without ranges of its own still stands between its children and its parent. */
	if (!body->ranges.form && !(body->low.form && body->high.form))
		return NULL;
	return clip(tree, body, level, index, ret);
}

/* Reads the DIE at the cursor, which becomes a level of its own when it has children. False at the end. */
static struct sp_error *visit(struct tree *tree, struct sp_cursor *c)
{
	uint32_t die = (uint32_t)sp_cursor_offset(c);
	uint64_t code = sp_cursor_uleb(c);
	struct level *level = &tree->levels[tree->depth - 1];
	if (!code) {
		tree->depth--;
		return NULL;
	}
	const struct dw_abbrev *abbrev = dw_abbrev_find(tree->unit->abbrevs, code);
	if (!abbrev) {
		sp_cursor_fail(c);
		return NULL;
	}
	if ((dw_abbrev_is_hollow(abbrev) || abbrev->tag == DW_TAG_subprogram) && skip_children(c, abbrev))
		return NULL;
	bool children = abbrev->flags & DW_ABBREV_CHILDREN;
	struct level below = { level->node, level->clip_first, level->clip_end };
	tree->clips.count = level->clip_end; /* those of DIEs that are done */
	if (abbrev->tag == DW_TAG_inlined_subroutine && level->node != DW_NO_NODE) {
		struct body body;
		read_body(c, tree->unit, abbrev, &body);
		struct sp_error *error = add_inline(tree, die, &body, level, &below);
		if (error)
			return error;
	} else {
		dw_skip_attributes(c, tree->unit, tree->unit->abbrevs, abbrev);
		if (abbrev->tag == DW_TAG_subprogram) /* a function of its own */
			below.node = DW_NO_NODE;
	}
	if (children && tree->depth == DW_MAX_DEPTH)
		sp_cursor_fail(c);
	else if (children)
		tree->levels[tree->depth++] = below;
	return NULL;
}

/* Reads the function's DIE and all below it. Node 0 is made in any case. */
static struct sp_error *read_tree(struct tree *tree, uint32_t die)
{
	struct dw_inline function = { .origin = die, .parent = DW_NO_NODE };
	if (die >= DW_FOREIGN) {
		function.origin = DW_FOREIGN;
		if (!sp_vector_push(&tree->foreign, (struct dw_die){ tree->unit, die }))
			return sp_error_no_memory();
	}
	if (!sp_vector_push(&tree->clips, (struct dw_range){ 0, UINT64_MAX }) ||
	    !sp_vector_push(&tree->inlines, function))
		return sp_error_no_memory();
	struct sp_cursor c = dw_unit_cursor(tree->unit, die);
	const uint8_t *start = c.at;
	const struct dw_abbrev *abbrev = dw_abbrev_find(tree->unit->abbrevs, sp_cursor_uleb(&c));
	if (!abbrev)
		return NULL;
	struct body body;
	read_body(&c, tree->unit, abbrev, &body);
	struct level root = { 0, 0, 1 }, below = { 0 };
	struct sp_error *error = clip(tree, &body, &root, 0, &below);
	if (error || !(abbrev->flags & DW_ABBREV_CHILDREN))
		return error;
	tree->levels[tree->depth++] = below;
	while (!error && tree->depth && c.at < c.end && !tree->too_many) {
		dw_step_over(tree->unit->abbrevs, &c);
		if (c.at < c.end)
			error = visit(tree, &c);
	}
	if (c.bad || tree->too_many)
		dw_note(tree->unit->file->dwarf, "section .debug_info: inlined calls at 0x%llx can't be read",
		        (unsigned long long)(tree->unit->offset + die));
	if (!error && !dw_spend(tree->unit->file->dwarf, DW_WORK_DIES, (uint64_t)(c.at - start)))
		tree->intervals.count = 0;
	return error;
}

/* Numbers the nodes that pieces lead to, and those around them, anew: places[node] = new number. */
static uint32_t number_nodes(const struct tree *tree, const struct sp_interval *pieces, size_t count, uint32_t *places)
{
	uint32_t used = 0;
	memset(places, 0, tree->inlines.count * sizeof(*places));
	places[0] = 1; /* the function itself */
	for (size_t i = 0; i < count; i++)
		for (uint32_t node = pieces[i].id; !places[node]; node = tree->inlines.items[node].parent)
			places[node] = 1;
	for (size_t i = 0; i < tree->inlines.count; i++)
		places[i] = places[i] ? used++ : DW_NO_NODE;
	return used;
}

/* Turns pieces into starts, with a start of "outside" in each gap. */
static void set_starts(const struct sp_interval *pieces, size_t count, const uint32_t *places,
                       struct dw_inlines *inlines)
{
	uint32_t n = 0;
	inlines->base = count ? pieces[0].start : 0;
	for (size_t i = 0; i < count; i++) {
		uint64_t start = pieces[i].start - inlines->base, end = pieces[i].end - inlines->base;
		if (end > UINT32_MAX)
			break;
		inlines->starts[n] = (uint32_t)start;
		inlines->nodes[n++] = places[pieces[i].id];
		if (i + 1 == count || pieces[i + 1].start > pieces[i].end) {
			inlines->starts[n] = (uint32_t)end;
			inlines->nodes[n++] = DW_NO_NODE;
		}
	}
	inlines->start_count = n;
}

static size_t count_starts(const struct sp_interval *pieces, size_t count)
{
	size_t starts = count;
	for (size_t i = 0; i < count; i++)
		starts += i + 1 == count || pieces[i + 1].start > pieces[i].end;
	return starts;
}

/* Packs what was read into one allocation. */
static struct sp_error *pack(const struct tree *tree, const struct sp_interval *pieces, size_t count,
                             struct dw_inlines **ret, size_t *ret_size)
{
	uint32_t *places = malloc(tree->inlines.count * sizeof(*places));
	if (!places)
		return sp_error_no_memory();
	uint32_t nodes = number_nodes(tree, pieces, count, places);
	size_t starts = count_starts(pieces, count), foreign = tree->foreign.count;
	size_t size = sizeof(**ret) + foreign * sizeof(*(*ret)->foreign) + nodes * sizeof(*(*ret)->inlines) +
	              starts * 2 * sizeof(uint32_t);
	struct dw_inlines *inlines = malloc(size);
	if (!inlines) {
		free(places);
		return sp_error_no_memory();
	}
	inlines->foreign = (struct dw_die *)(void *)(inlines + 1);
	inlines->inlines = (struct dw_inline *)(void *)(inlines->foreign + foreign);
	inlines->starts = (uint32_t *)(void *)(inlines->inlines + nodes);
	inlines->nodes = inlines->starts + starts;
	inlines->inline_count = nodes;
	if (foreign)
		memcpy(inlines->foreign, tree->foreign.items, foreign * sizeof(*inlines->foreign));
	for (size_t i = 0; i < tree->inlines.count; i++) {
		struct dw_inline node = tree->inlines.items[i];
		if (places[i] == DW_NO_NODE)
			continue;
		node.parent = node.parent == DW_NO_NODE ? DW_NO_NODE : places[node.parent];
		inlines->inlines[places[i]] = node;
	}
	set_starts(pieces, count, places, inlines);
	free(places);
	*ret = inlines;
	*ret_size = size;
	return NULL;
}

static struct sp_error *inlines_create(struct dw_unit *unit, uint32_t die, struct dw_inlines **ret)
{
	struct tree *tree = malloc(sizeof(*tree)); /* its levels are set before they are read */
	struct sp_interval *pieces = NULL;
	size_t count = 0, size = 0;
	if (!tree)
		return sp_error_no_memory();
	memset(tree, 0, offsetof(struct tree, levels));
	tree->unit = unit;
	struct sp_error *error = read_tree(tree, die);
	if (!error)
		error = sp_interval_sweep(tree->intervals.items, tree->intervals.count, &pieces, &count);
	if (!error)
		error = pack(tree, pieces, count, ret, &size);
	dw_count_memory(unit->file->dwarf, size);
	free(pieces);
	sp_vector_deinit(&tree->inlines);
	sp_vector_deinit(&tree->foreign);
	sp_vector_deinit(&tree->intervals);
	sp_vector_deinit(&tree->clips);
	sp_vector_deinit(&tree->scratch);
	free(tree);
	return error;
}

struct sp_error *dw_inlines_get(struct dw_unit *unit, const struct dw_functions *functions, uint32_t index,
                                const struct dw_inlines **ret)
{
	struct dw_function *function = &functions->functions[index];
	struct dw_inlines *inlines = atomic_load_explicit(&function->inlines, memory_order_acquire);
	struct sp_error *error = NULL;
	if (!inlines) {
		pthread_mutex_lock(&unit->lock);
		inlines = atomic_load_explicit(&function->inlines, memory_order_relaxed);
		if (!inlines) {
			error = inlines_create(unit, function->die, &inlines);
			if (!error)
				atomic_store_explicit(&function->inlines, inlines, memory_order_release);
		}
		pthread_mutex_unlock(&unit->lock);
	}
	*ret = inlines;
	return error;
}

uint32_t dw_inlines_find(const struct dw_inlines *inlines, uint64_t address)
{
	uint64_t delta = address - inlines->base;
	size_t low = 0, high = inlines->start_count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (inlines->starts[middle] <= delta)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? inlines->nodes[low - 1] : DW_NO_NODE;
}
