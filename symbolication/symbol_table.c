/* Builds the table in one sweep over all borders in address order, with a stack of the sized symbols that are open. */
#include "symbolication/symbol_table.h"

#include "symbolication/sort.h"

#include <stdlib.h>

const char sp_symbol_no_name[] = "";
const char sp_symbol_entry_point[] = "EntryPoint";

#define NONE UINT32_MAX
/* Relative addresses above this are not believed: no sum of them wraps. */
#define ADDRESS_LIMIT (UINT64_C(1) << 62)

static struct sp_error *add_symbol(struct sp_table_builder *builder, const char *name, uint64_t address, uint64_t size,
                                   uint64_t base)
{
	if (address < base || address - base > ADDRESS_LIMIT)
		return NULL;
	struct sp_table_symbol symbol = { address - base, size < ADDRESS_LIMIT ? size : 0, name };
	return sp_vector_push(&builder->symbols, symbol) ? NULL : sp_error_no_memory();
}

struct sp_error *sp_table_add_symbols(struct sp_table_builder *builder, const struct sp_symbols *symbols, uint64_t base)
{
	if (!sp_vector_reserve(&builder->symbols, symbols->count))
		return sp_error_no_memory();
	struct sp_error *error = NULL;
	for (size_t i = 0; i < symbols->count && !error; i++) {
		const struct sp_symbol *s = &symbols->items[i];
		error = add_symbol(builder, s->name, s->address, s->size, base);
	}
	return error;
}

static struct sp_error *add_functions(struct sp_table_builder *builder, struct sp_object *object, uint64_t base)
{
	struct sp_function_range *ranges;
	size_t count;
	struct sp_error *error = sp_object_functions(object, &ranges, &count);
	if (error)
		return error;
	for (size_t i = 0; i < count && !error; i++) {
		if (ranges[i].address < base || ranges[i].address - base > ADDRESS_LIMIT ||
		    ranges[i].size > ADDRESS_LIMIT)
			continue;
		struct sp_table_symbol function = { ranges[i].address - base, ranges[i].size, sp_symbol_no_name };
		if (!sp_vector_push(&builder->functions, function))
			error = sp_error_no_memory();
	}
	free(ranges);
	return error;
}

struct sp_error *sp_table_add_object(struct sp_table_builder *builder, struct sp_object *object, uint64_t base,
                                     bool functions, struct sp_symbols *symbols)
{
	size_t count;
	const struct sp_section *sections = sp_object_sections(object, &count);
	for (size_t i = 0; i < count; i++) {
		const struct sp_section *s = &sections[i];
		uint64_t end = s->address + s->size;
		if (s->executable && s->allocated && end >= s->address && end >= base &&
		    !sp_vector_push(&builder->stops, end - base))
			return sp_error_no_memory();
	}
	uint64_t entry = sp_object_entry(object);
	if (entry >= base && entry && sp_object_info(object)->has_code && !sp_object_is_relocatable(object)) {
		builder->entry = entry - base;
		builder->has_entry = true;
	}
	struct sp_error *error = sp_object_symbols(object, symbols);
	if (!error)
		error = sp_table_add_symbols(builder, symbols, base);
	if (!error && functions)
		error = add_functions(builder, object, base);
	return error;
}

void sp_table_builder_deinit(struct sp_table_builder *builder)
{
	sp_vector_deinit(&builder->symbols);
	sp_vector_deinit(&builder->functions);
	sp_vector_deinit(&builder->stops);
}

/* What happens at a border, in the order in which it is handled there. */
enum { STOP, END, FUNCTION, SYMBOL, KINDS };

/* The state of the sweep. */
struct sweep {
	struct sp_table_builder *builder;
	struct sp_symbol_table *table;
	struct sp_keyed *events; /* key: address; value: kind and index */
	size_t event_count;
	uint32_t *open; /* stack of symbols (builder's numbering, functions behind symbols) that are sized and open */
	size_t open_count;
	uint32_t *numbers; /* builder's numbering -> table's, NONE = not used yet */
};

static uint64_t event_value(unsigned kind, size_t index)
{
	return (uint64_t)kind << 32 | index;
}

static struct sp_table_symbol *symbol_at(struct sweep *sweep, uint32_t number)
{
	size_t symbols = sweep->builder->symbols.count;
	return number < symbols ? &sweep->builder->symbols.items[number]
	                        : &sweep->builder->functions.items[number - symbols];
}

static struct sp_error *make_events(struct sweep *sweep)
{
	struct sp_table_builder *b = sweep->builder;
	if (b->symbols.count + b->functions.count >= NONE)
		return sp_error_create(SP_ERROR_LIMIT, "more than 2^32 symbols");
	size_t most = b->stops.count + 2 * (b->symbols.count + b->functions.count);
	sweep->events = malloc((most + 1) * sizeof(*sweep->events));
	sweep->open = malloc((b->symbols.count + b->functions.count + 1) * sizeof(*sweep->open));
	sweep->numbers = malloc((b->symbols.count + b->functions.count + 1) * sizeof(*sweep->numbers));
	if (!sweep->events || !sweep->open || !sweep->numbers)
		return sp_error_no_memory();
	size_t n = 0;
	for (size_t i = 0; i < b->stops.count; i++)
		sweep->events[n++] = (struct sp_keyed){ b->stops.items[i], event_value(STOP, 0) };
	for (size_t i = 0; i < b->symbols.count + b->functions.count; i++) {
		const struct sp_table_symbol *s = symbol_at(sweep, (uint32_t)i);
		bool function = i >= b->symbols.count;
		sweep->events[n++] = (struct sp_keyed){ s->start, event_value(function ? FUNCTION : SYMBOL, i) };
		if (s->size)
			sweep->events[n++] = (struct sp_keyed){ s->start + s->size, event_value(END, i) };
		sweep->numbers[i] = NONE;
	}
	sweep->event_count = n;
	return sp_sort_keyed(sweep->events, n) ? NULL : sp_error_no_memory();
}

/* Closes the sized symbols that end at or before `address`. */
static void close_ended(struct sweep *sweep, uint64_t address)
{
	while (sweep->open_count) {
		const struct sp_table_symbol *top = symbol_at(sweep, sweep->open[sweep->open_count - 1]);
		if (top->start + top->size > address)
			return;
		sweep->open_count--;
	}
}

/* The best symbol that starts in events [first, next), which share an address; NONE when there is none. */
static uint32_t best_start(struct sweep *sweep, size_t first, size_t next)
{
	uint32_t best = NONE;
	for (size_t i = first; i < next; i++) {
		unsigned kind = (unsigned)(sweep->events[i].value >> 32);
		uint32_t number = (uint32_t)sweep->events[i].value;
		if ((kind == SYMBOL || kind == FUNCTION) && number < best)
			best = number;
	}
	/* An unwind range that starts inside a sized symbol is a part of it. */
	size_t symbols = sweep->builder->symbols.count;
	if (best != NONE && best >= symbols && sweep->open_count && sweep->open[sweep->open_count - 1] < symbols)
		return NONE;
	return best;
}

/* Opens the sized symbols that start here: the best one on top, and under it the largest of the others if it reaches
 * further, so that it gets the rest. */
static void open_started(struct sweep *sweep, uint32_t best, size_t first, size_t next)
{
	if (best == NONE || !symbol_at(sweep, best)->size)
		return;
	uint32_t largest = best;
	for (size_t i = first; i < next; i++) {
		uint32_t number = (uint32_t)sweep->events[i].value;
		if (sweep->events[i].value >> 32 == SYMBOL &&
		    symbol_at(sweep, number)->size > symbol_at(sweep, largest)->size)
			largest = number;
	}
	if (largest != best)
		sweep->open[sweep->open_count++] = largest;
	sweep->open[sweep->open_count++] = best;
}

/* A section ends: so does everything in it. */
static void close_all(struct sweep *sweep, uint64_t address)
{
	for (size_t i = 0; i < sweep->open_count; i++) {
		uint32_t number = sweep->numbers[sweep->open[i]];
		struct sp_table_symbol *s = number == NONE ? NULL : &sweep->table->symbols[number];
		if (s && s->start + s->size > address)
			s->size = address - s->start;
	}
	sweep->open_count = 0;
}

/* The table's number of a symbol, which is added on first use. */
static uint32_t use_symbol(struct sweep *sweep, uint32_t number)
{
	if (number == NONE)
		return NONE;
	struct sp_symbol_table *table = sweep->table;
	if (sweep->numbers[number] == NONE) {
		sweep->numbers[number] = (uint32_t)table->symbol_count;
		table->symbols[table->symbol_count++] = *symbol_at(sweep, number);
	}
	return sweep->numbers[number];
}

static void add_border(struct sweep *sweep, uint64_t address, uint32_t owner)
{
	struct sp_symbol_table *table = sweep->table;
	size_t n = table->border_count;
	if (n && table->owners[n - 1] == owner)
		return;
	table->borders[n] = address;
	table->owners[n] = owner;
	table->border_count = n + 1;
}

static void run(struct sweep *sweep)
{
	for (size_t i = 0; i < sweep->event_count;) {
		uint64_t address = sweep->events[i].key;
		size_t next = i;
		bool stop = false;
		while (next < sweep->event_count && sweep->events[next].key == address)
			stop |= sweep->events[next++].value >> 32 == STOP;
		if (stop)
			close_all(sweep, address);
		close_ended(sweep, address);
		uint32_t best = best_start(sweep, i, next);
		open_started(sweep, best, i, next);
		uint32_t owner = best;
		if (owner == NONE && sweep->open_count)
			owner = sweep->open[sweep->open_count - 1];
		add_border(sweep, address, use_symbol(sweep, owner));
		i = next;
	}
}

/* Symbols without a size reach to the next border; nothing reaches over the last border. */
static void settle_sizes(struct sp_symbol_table *table)
{
	for (size_t i = 0; i + 1 < table->border_count; i++) {
		uint32_t owner = table->owners[i];
		if (owner == NONE)
			continue;
		struct sp_table_symbol *s = &table->symbols[owner];
		if (!s->size && s->start == table->borders[i])
			s->size = table->borders[i + 1] - s->start;
	}
}

/* ---- A table for few addresses ---- */

#define MAX_PASSES 16

/* The borders around an address: what is in between decides, and what reaches into it. */
struct window {
	uint64_t address, low, high;
};

static void take_border(struct window *windows, size_t count, uint64_t border)
{
	for (size_t i = 0; i < count; i++) {
		if (border <= windows[i].address)
			windows[i].low = border > windows[i].low ? border : windows[i].low;
		else
			windows[i].high = border < windows[i].high ? border : windows[i].high;
	}
}

static void take_borders(struct window *windows, size_t count, const struct sp_table_symbol *symbols,
                         size_t symbol_count)
{
	for (size_t i = 0; i < symbol_count; i++) {
		take_border(windows, count, symbols[i].start);
		take_border(windows, count, symbols[i].start + symbols[i].size);
	}
}

/* What reaches into a window counts from its start on, and with what reached into it there. True when one grew. */
static bool widen(struct window *windows, size_t count, const struct sp_table_symbol *symbols, size_t symbol_count)
{
	bool grew = false;
	for (size_t i = 0; i < symbol_count; i++) {
		const struct sp_table_symbol *s = &symbols[i];
		for (size_t k = 0; k < count; k++)
			if (s->start < windows[k].low && s->start + s->size > windows[k].low) {
				windows[k].low = s->start;
				grew = true;
			}
	}
	return grew;
}

/* Keeps those that touch a window; gives their number. */
static size_t keep_near(const struct window *windows, size_t count, struct sp_table_symbol *symbols,
                        size_t symbol_count)
{
	size_t kept = 0;
	for (size_t i = 0; i < symbol_count; i++) {
		bool near = false;
		for (size_t k = 0; k < count; k++)
			near |= symbols[i].start <= windows[k].high &&
			        symbols[i].start + symbols[i].size >= windows[k].low;
		if (near)
			symbols[kept++] = symbols[i];
	}
	return kept;
}

void sp_table_narrow(struct sp_table_builder *builder, const uint64_t *addresses, size_t count)
{
	struct window windows[SP_TABLE_FEW];
	count = count < SP_TABLE_FEW ? count : SP_TABLE_FEW;
	for (size_t i = 0; i < count; i++)
		windows[i] = (struct window){ addresses[i], 0, UINT64_MAX };
	take_borders(windows, count, builder->symbols.items, builder->symbols.count);
	take_borders(windows, count, builder->functions.items, builder->functions.count);
	for (size_t i = 0; i < builder->stops.count; i++)
		take_border(windows, count, builder->stops.items[i]);
	bool grew = true;
	for (unsigned pass = 0; grew && pass < MAX_PASSES; pass++) {
		grew = widen(windows, count, builder->symbols.items, builder->symbols.count);
		grew |= widen(windows, count, builder->functions.items, builder->functions.count);
	}
	if (grew) /* symbols that overlap without end: all of them count */
		return;
	builder->symbols.count = keep_near(windows, count, builder->symbols.items, builder->symbols.count);
	builder->functions.count = keep_near(windows, count, builder->functions.items, builder->functions.count);
}

/* Adds the entry point where nothing else is. */
static struct sp_error *add_entry(struct sp_table_builder *builder)
{
	if (!builder->has_entry)
		return NULL;
	for (size_t i = 0; i < builder->symbols.count + builder->functions.count; i++) {
		const struct sp_table_symbol *s = i < builder->symbols.count
		                                      ? &builder->symbols.items[i]
		                                      : &builder->functions.items[i - builder->symbols.count];
		if (builder->entry == s->start || (builder->entry > s->start && builder->entry - s->start < s->size))
			return NULL;
	}
	struct sp_table_symbol entry = { builder->entry, 0, sp_symbol_entry_point };
	return sp_vector_push(&builder->symbols, entry) ? NULL : sp_error_no_memory();
}

static struct sp_error *allocate(struct sweep *sweep)
{
	struct sp_symbol_table *table = sweep->table;
	size_t symbols = sweep->builder->symbols.count + sweep->builder->functions.count;
	table->symbols = malloc((symbols + 1) * sizeof(*table->symbols));
	table->borders = malloc((sweep->event_count + 1) * sizeof(*table->borders));
	table->owners = malloc((sweep->event_count + 1) * sizeof(*table->owners));
	return table->symbols && table->borders && table->owners ? NULL : sp_error_no_memory();
}

/* Gives back what the estimate was too large by; failing to shrink costs nothing. */
static void shrink(struct sp_symbol_table *table)
{
	void *smaller = realloc(table->symbols, (table->symbol_count + 1) * sizeof(*table->symbols));
	table->symbols = smaller ? smaller : table->symbols;
	smaller = realloc(table->borders, (table->border_count + 1) * sizeof(*table->borders));
	table->borders = smaller ? smaller : table->borders;
	smaller = realloc(table->owners, (table->border_count + 1) * sizeof(*table->owners));
	table->owners = smaller ? smaller : table->owners;
}

struct sp_error *sp_table_finish(struct sp_table_builder *builder, struct sp_symbol_table *ret)
{
	*ret = (struct sp_symbol_table){ 0 };
	struct sweep sweep = { .builder = builder, .table = ret };
	struct sp_error *error = add_entry(builder);
	if (!error)
		error = make_events(&sweep);
	if (!error)
		error = allocate(&sweep);
	if (!error) {
		run(&sweep);
		settle_sizes(ret);
		shrink(ret);
	} else {
		sp_symbol_table_deinit(ret);
	}
	free(sweep.events);
	free(sweep.open);
	free(sweep.numbers);
	sp_table_builder_deinit(builder);
	return error;
}

void sp_symbol_table_deinit(struct sp_symbol_table *table)
{
	free(table->symbols);
	free(table->borders);
	free(table->owners);
	*table = (struct sp_symbol_table){ 0 };
}

const struct sp_table_symbol *sp_symbol_table_find(const struct sp_symbol_table *table, uint64_t address)
{
	if (!table->border_count || address < table->borders[0])
		return NULL;
	const uint64_t *border = table->borders;
	for (size_t count = table->border_count; count > 1;) {
		size_t half = count / 2;
		border = border[half] <= address ? border + half : border;
		count -= half;
	}
	uint32_t owner = table->owners[border - table->borders];
	/* The last border ends everything that has a size; an unsized symbol there reaches nowhere. */
	if (owner == NONE || address - table->symbols[owner].start >= table->symbols[owner].size)
		return NULL;
	return &table->symbols[owner];
}

size_t sp_symbol_table_memory(const struct sp_symbol_table *table)
{
	return table->symbol_count * sizeof(*table->symbols) +
	       table->border_count * (sizeof(*table->borders) + sizeof(*table->owners));
}
