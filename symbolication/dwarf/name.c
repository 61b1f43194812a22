/* Names of functions: the linkage name, or the name with the scopes around it.
 *
 * A function's DIE often has neither: it is an instance of an abstract one, which completes a declaration in a class,
 * in this unit or another one. What was found is cached by DIE in an open-addressing table that readers search without
 * a lock: a slot's key is stored last, and a table that grew leaves the old one valid. */
#include "internal.h"

#include <stdlib.h>

/* ---- Following references ---- */

/* The attributes of one DIE that lead to a name. */
struct links {
	struct dw_value name, linkage, origin, specification, signature;
	unsigned tag;
};

static bool read_links(struct dw_die die, struct links *ret)
{
	*ret = (struct links){ 0 };
	struct sp_cursor c = dw_unit_cursor(die.unit, die.offset);
	const struct dw_abbrevs *abbrevs = die.unit->abbrevs;
	const struct dw_abbrev *abbrev = dw_abbrev_find(abbrevs, sp_cursor_uleb(&c));
	if (c.bad || !abbrev)
		return false;
	ret->tag = abbrev->tag;
	for (unsigned i = 0; i < abbrev->count && !c.bad; i++) {
		const struct dw_attribute *attribute = &abbrevs->attributes.items[abbrev->first + i];
		struct dw_value value;
		dw_read_attribute(&c, die.unit, attribute, &value);
		switch (attribute->name) {
		case DW_AT_name:
			ret->name = value;
			break;
		case DW_AT_linkage_name:
		case DW_AT_MIPS_linkage_name:
			ret->linkage = value;
			break;
		case DW_AT_abstract_origin:
			ret->origin = value;
			break;
		case DW_AT_specification:
			ret->specification = value;
			break;
		case DW_AT_signature:
			ret->signature = value;
			break;
		default:
			break;
		}
	}
	return !c.bad;
}

/* Follows origin and specification as far as there is something to find. *ret_last: the DIE where it ended. */
static void follow(struct dw_die die, struct dw_name *ret, struct dw_die *ret_last)
{
	for (unsigned i = 0; i < DW_MAX_REFERENCES; i++) {
		struct links links;
		if (!read_links(die, &links))
			return;
		*ret_last = die;
		if (!ret->linkage && links.linkage.form)
			ret->linkage = dw_value_string(die.unit, &links.linkage);
		if (!ret->name && links.name.form)
			ret->name = dw_value_string(die.unit, &links.name);
		if (ret->linkage && ret->name)
			return;
		const struct dw_value *next = links.origin.form ? &links.origin : &links.specification;
		if (!next->form || !dw_value_die(die.unit, next, &die))
			return;
	}
}

/* ---- Scopes ---- */

/* Scopes of the first few names in a unit are found by walking down to them, which is fast where compilers write
 * DW_AT_sibling, and keeps nothing; when there are more, a table of all scopes is made. */
#define MAX_WALKS 16

/* A DIE that can lend its name to what it holds, and holds a function somewhere. */
struct scope {
	uint32_t start, end; /* offsets in the unit: the DIE, and behind its last child */
	uint32_t parent;     /* index; the root scope is its own */
};

/* As the end of a scope that is still open. */
enum { OPEN = 0, OPEN_WITH_FUNCTION = 1 };

struct dw_scopes {
	struct scope *items; /* by start */
	size_t count;
};

void dw_scopes_destroy(struct dw_scopes *scopes)
{
	if (scopes)
		free(scopes->items);
	free(scopes);
}

static bool is_scope(unsigned tag)
{
	switch (tag) {
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_interface_type:
	case DW_TAG_enumeration_type:
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_subprogram:
	case DW_TAG_inlined_subroutine:
		return true;
	default:
		return false;
	}
}

/* Where the children of the DIE whose attributes are at the cursor end; 0 = it does not say. */
static uint32_t end_of_children(struct sp_cursor c, const struct dw_unit *unit, const struct dw_abbrev *abbrev)
{
	struct dw_value value = { 0 };
	uint64_t here = sp_cursor_offset(&c);
	if (abbrev->flags & DW_ABBREV_SIBLING) {
		sp_cursor_skip(&c, abbrev->sibling);
		value.u = sp_cursor_u32(&c);
	} else if (abbrev->flags & DW_ABBREV_FAR_SIBLING) {
		for (unsigned i = 0; i < abbrev->count && !c.bad; i++) {
			const struct dw_attribute *attribute = &unit->abbrevs->attributes.items[abbrev->first + i];
			dw_read_attribute(&c, unit, attribute, &value);
			if (attribute->name == DW_AT_sibling)
				break;
		}
		if (value.form == DW_FORM_ref_addr)
			return 0;
	}
	return !c.bad && value.u > here && value.u <= unit->bytes.size ? (uint32_t)value.u : 0;
}

/* The scopes around a DIE. */
struct chain {
	uint32_t scopes[DW_MAX_DEPTH]; /* offsets of DIEs, the outermost first */
	size_t count;
};

/* Goes down a unit, to one DIE after the other. */
struct dw_walker {
	const struct dw_unit *unit;
	struct sp_cursor c;
	struct chain chain;         /* the scopes around it */
	size_t depth;               /* of the open DIEs */
	bool is_open[DW_MAX_DEPTH]; /* by level: is it a scope? */
};

static void walker_init(struct dw_walker *walker, const struct dw_unit *unit)
{
	walker->unit = unit;
	walker->c = dw_unit_cursor(unit, unit->first_die);
	walker->chain.count = 0;
	walker->depth = 0;
}

struct dw_walker *dw_walker_create(const struct dw_unit *unit)
{
	struct dw_walker *walker = malloc(sizeof(*walker));
	if (walker)
		walker_init(walker, unit);
	return walker;
}

/* Enters a DIE with children, or skips them when `die` is behind them. False when it is too deep. */
static bool walk_over(struct dw_walker *walker, const struct dw_abbrev *abbrev, uint32_t start, uint64_t die)
{
	struct sp_cursor *c = &walker->c;
	if (abbrev->flags & DW_ABBREV_CHILDREN) {
		uint32_t end = end_of_children(*c, walker->unit, abbrev);
		if (end && end <= die) {
			c->at = c->start + end;
			return true;
		}
		if (walker->depth == DW_MAX_DEPTH)
			return false;
		bool scope = is_scope(abbrev->tag);
		walker->is_open[walker->depth++] = scope;
		if (scope)
			walker->chain.scopes[walker->chain.count++] = start;
	}
	dw_skip_attributes(c, walker->unit, walker->unit->abbrevs, abbrev);
	return true;
}

/* Goes on to a DIE. False when it is not there, too deep, or was passed already. */
static bool walk_to(struct dw_walker *walker, uint64_t die)
{
	struct sp_cursor *c = &walker->c;
	while (c->at < c->end) {
		dw_step_over(walker->unit->abbrevs, c);
		uint32_t start = (uint32_t)sp_cursor_offset(c);
		if (start >= die || c->at == c->end)
			break;
		uint64_t code = sp_cursor_uleb(c);
		if (!code) {
			if (!walker->depth)
				break;
			walker->chain.count -= walker->is_open[--walker->depth];
			continue;
		}
		const struct dw_abbrev *abbrev = dw_abbrev_find(walker->unit->abbrevs, code);
		if (!abbrev || !walk_over(walker, abbrev, start, die)) {
			sp_cursor_fail(c);
			break;
		}
	}
	return !c->bad && sp_cursor_offset(c) == die;
}

/* What is being made. */
struct scope_table {
	SP_VECTOR(struct scope) items;
	SP_VECTOR(uint32_t) stack; /* of the open DIEs: the scope that its children are in */
	size_t deeper;             /* open DIEs that are not in the stack */
};

static uint32_t innermost(const struct scope_table *table)
{
	return table->stack.count ? table->stack.items[table->stack.count - 1] : 0;
}

/* The end of a list of children. */
static void close_scope(struct scope_table *table, uint32_t end)
{
	uint32_t closed = table->stack.items[--table->stack.count], around = innermost(table);
	if (closed == around) /* no scope of its own */
		return;
	if (table->items.items[closed].end == OPEN) { /* and all scopes in it are gone already */
		table->items.count = closed;
		return;
	}
	table->items.items[closed].end = end;
	if (around)
		table->items.items[around].end = OPEN_WITH_FUNCTION;
}

/* A DIE; false without memory. */
static bool open_scope(struct scope_table *table, const struct dw_abbrev *abbrev, uint32_t start)
{
	uint32_t around = innermost(table), scope = around;
	if (abbrev->tag == DW_TAG_subprogram && around)
		table->items.items[around].end = OPEN_WITH_FUNCTION;
	if (!(abbrev->flags & DW_ABBREV_CHILDREN))
		return true;
	if (table->stack.count == DW_MAX_DEPTH) { /* what is down there is in the last scope that fits */
		table->deeper++;
		return true;
	}
	if (is_scope(abbrev->tag)) {
		scope = (uint32_t)table->items.count;
		if (!sp_vector_push(&table->items, (struct scope){ start, OPEN, around }))
			return false;
	}
	return sp_vector_push(&table->stack, scope);
}

static bool find_all_scopes(const struct dw_unit *unit, struct scope_table *table)
{
	struct sp_cursor c = dw_unit_cursor(unit, unit->first_die);
	if (!sp_vector_push(&table->items, (struct scope){ unit->first_die, UINT32_MAX, 0 }))
		return false;
	for (;;) {
		dw_step_over(unit->abbrevs, &c);
		if (c.at == c.end)
			break;
		uint32_t start = (uint32_t)sp_cursor_offset(&c);
		uint64_t code = sp_cursor_uleb(&c);
		if (!code && table->deeper) {
			table->deeper--;
		} else if (!code && table->stack.count) {
			close_scope(table, (uint32_t)sp_cursor_offset(&c));
		} else {
			const struct dw_abbrev *abbrev = code ? dw_abbrev_find(unit->abbrevs, code) : NULL;
			if (!abbrev)
				break;
			dw_skip_attributes(&c, unit, unit->abbrevs, abbrev);
			if (!open_scope(table, abbrev, start))
				return false;
		}
	}
	for (size_t i = 0; i < table->items.count; i++) /* where the unit is cut short */
		if (table->items.items[i].end <= OPEN_WITH_FUNCTION)
			table->items.items[i].end = UINT32_MAX;
	return true;
}

static struct sp_error *scopes_create(const struct dw_unit *unit, struct dw_scopes **ret)
{
	struct scope_table table = { 0 };
	struct dw_scopes *scopes = calloc(1, sizeof(*scopes));
	bool paid = dw_spend(unit->file->dwarf, DW_WORK_DIES, unit->bytes.size);
	dw_want(unit->file, unit->bytes.bytes, unit->bytes.size);
	bool ok = scopes && (!paid || find_all_scopes(unit, &table));
	sp_vector_deinit(&table.stack);
	if (!ok) {
		sp_vector_deinit(&table.items);
		free(scopes);
		return sp_error_no_memory();
	}
	scopes->items = table.items.items;
	scopes->count = table.items.count;
	dw_count_memory(unit->file->dwarf, sizeof(*scopes) + table.items.capacity * sizeof(*table.items.items));
	*ret = scopes;
	return NULL;
}

static struct sp_error *scopes_get(struct dw_unit *unit, const struct dw_scopes **ret)
{
	struct dw_scopes *scopes = atomic_load_explicit(&unit->scopes, memory_order_acquire);
	struct sp_error *error = NULL;
	if (!scopes) {
		pthread_mutex_lock(&unit->lock);
		scopes = atomic_load_explicit(&unit->scopes, memory_order_relaxed);
		if (!scopes) {
			error = scopes_create(unit, &scopes);
			if (!error)
				atomic_store_explicit(&unit->scopes, scopes, memory_order_release);
		}
		pthread_mutex_unlock(&unit->lock);
	}
	*ret = scopes;
	return error;
}

/* The innermost scope around a DIE, which may be a scope itself; 0 = the unit. */
static uint32_t scope_around(const struct dw_scopes *scopes, uint64_t die)
{
	size_t low = 0, high = scopes->count;
	while (low < high) {
		size_t middle = (low + high) / 2;
		if (scopes->items[middle].start < die)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return 0;
	uint32_t scope = (uint32_t)low - 1;
	while (scope && scopes->items[scope].end <= die)
		scope = scopes->items[scope].parent;
	return scope;
}

/* The scopes around a DIE by the unit's table. */
static struct sp_error *look_up_scopes(struct dw_die die, struct chain *ret)
{
	const struct dw_scopes *scopes;
	struct sp_error *error = scopes_get(die.unit, &scopes);
	ret->count = 0;
	if (error)
		return error;
	for (uint32_t scope = scope_around(scopes, die.offset); scope && ret->count < DW_MAX_DEPTH;
	     scope = scopes->items[scope].parent)
		ret->scopes[ret->count++] = scopes->items[scope].start;
	for (size_t i = 0; i < ret->count / 2; i++) {
		uint32_t swap = ret->scopes[i];
		ret->scopes[i] = ret->scopes[ret->count - 1 - i];
		ret->scopes[ret->count - 1 - i] = swap;
	}
	return NULL;
}

/* `walker` may be NULL, of another unit, or too far on. */
static struct sp_error *find_scopes(struct dw_die die, struct dw_walker *walker, struct chain *ret)
{
	if (walker && walker->unit == die.unit && walk_to(walker, die.offset)) {
		ret->count = walker->chain.count;
		memcpy(ret->scopes, walker->chain.scopes, ret->count * sizeof(*ret->scopes));
		return NULL;
	}
	if (!atomic_load_explicit(&die.unit->scopes, memory_order_relaxed) &&
	    atomic_fetch_add_explicit(&die.unit->qualified, 1, memory_order_relaxed) < MAX_WALKS) {
		struct dw_walker own;
		walker_init(&own, die.unit);
		if (walk_to(&own, die.offset)) {
			*ret = own.chain;
			return NULL;
		}
	}
	return look_up_scopes(die, ret);
}

static const char *unnamed(unsigned tag)
{
	switch (tag) {
	case DW_TAG_namespace:
		return "(anonymous namespace)";
	case DW_TAG_class_type:
		return "(anonymous class)";
	case DW_TAG_structure_type:
		return "(anonymous struct)";
	case DW_TAG_union_type:
		return "(anonymous union)";
	default:
		return NULL;
	}
}

/* The name of a scope; its declaration in a type unit may have it. *ret_die: where it stands, which tells what is
 * around it. */
static const char *scope_name(struct dw_die die, struct dw_die *ret_die)
{
	const char *empty = NULL;
	*ret_die = die;
	for (unsigned i = 0; i < DW_MAX_REFERENCES; i++) {
		struct links links;
		if (!read_links(die, &links))
			break;
		*ret_die = die;
		empty = empty ? empty : unnamed(links.tag);
		const char *name = links.name.form ? dw_value_string(die.unit, &links.name) : NULL;
		if (name)
			return name;
		const struct dw_value *next = links.signature.form ? &links.signature
		                              : links.origin.form  ? &links.origin
		                                                   : &links.specification;
		if (!next->form || !dw_value_die(die.unit, next, &die))
			break;
	}
	return empty;
}

/* Writes "scope::" in front of what is in the buffer, which is filled from the end. */
static bool prepend(char *buffer, size_t *at, const char *text, const char *separator)
{
	size_t size = strlen(text), separator_size = strlen(separator);
	if (size + separator_size > *at)
		return false;
	*at -= separator_size;
	memcpy(buffer + *at, separator, separator_size);
	*at -= size;
	memcpy(buffer + *at, text, size);
	return true;
}

/* Languages whose functions are in no scopes that belong to the name. */
static bool is_flat(const struct dw_unit *unit)
{
	switch (unit->language) {
	case DW_LANG_C89:
	case DW_LANG_C:
	case DW_LANG_C99:
	case DW_LANG_C11:
	case DW_LANG_C17:
	case DW_LANG_Go:
	case DW_LANG_Mips_Assembler:
		return true;
	default:
		return false;
	}
}

/* Puts the scopes in front of a name. A scope whose name is in another unit goes on there. */
struct sp_error *dw_name_qualify(struct dw_die die, struct dw_walker *walker, struct dw_name *name)
{
	char buffer[DW_MAX_NAME];
	size_t at = sizeof(buffer);
	struct chain chain;
	if (is_flat(die.unit) || !prepend(buffer, &at, name->name, ""))
		return NULL;
	bool moved = true;
	for (unsigned i = 0; i < DW_MAX_REFERENCES && moved; i++) {
		struct sp_error *error = find_scopes(die, walker, &chain);
		if (error)
			return error;
		moved = false;
		while (chain.count && !moved) {
			struct dw_die scope = { die.unit, chain.scopes[--chain.count] };
			const char *text = scope_name(scope, &die);
			if (text && !prepend(buffer, &at, text, "::"))
				return NULL; /* too long: without scopes */
			/* Declared elsewhere: there it goes on. */
			moved = die.unit != scope.unit || die.offset != scope.offset;
		}
	}
	name->name = dw_keep_string(die.unit->file->dwarf, buffer + at, sizeof(buffer) - at);
	return name->name ? NULL : sp_error_no_memory();
}

bool dw_name_follow(struct dw_die die, struct dw_name *ret, struct dw_die *ret_last)
{
	*ret_last = die;
	*ret = (struct dw_name){ 0 };
	follow(die, ret, ret_last);
	return !ret->linkage && ret->name;
}

struct sp_error *dw_name_find(struct dw_die die, struct dw_name *ret)
{
	struct dw_die last;
	return dw_name_follow(die, ret, &last) ? dw_name_qualify(last, NULL, ret) : NULL;
}

/* ---- The cache ---- */

struct slot {
	_Atomic uint32_t key; /* offset of the DIE; 0 = free */
	struct dw_name name;
};

struct dw_names {
	struct dw_names *old; /* the smaller table before this one */
	size_t mask, count;
	struct slot slots[];
};

void dw_names_destroy(struct dw_names *names)
{
	while (names) {
		struct dw_names *old = names->old;
		free(names);
		names = old;
	}
}

/* The slot of a key, or the free one where it belongs. */
static struct slot *find_slot(struct dw_names *names, uint32_t key)
{
	size_t i = (size_t)sp_hash_u64(key) & names->mask;
	for (;; i = (i + 1) & names->mask) {
		uint32_t used = atomic_load_explicit(&names->slots[i].key, memory_order_acquire);
		if (!used || used == key)
			return &names->slots[i];
	}
}

static struct dw_names *grow(struct dw_unit *unit, struct dw_names *old)
{
	size_t capacity = old ? 2 * (old->mask + 1) : 64;
	size_t size = sizeof(*old) + capacity * sizeof(struct slot);
	struct dw_names *names = calloc(1, size);
	if (!names)
		return NULL;
	dw_count_memory(unit->file->dwarf, size);
	names->old = old;
	names->mask = capacity - 1;
	for (size_t i = 0; old && i <= old->mask; i++) {
		uint32_t key = atomic_load_explicit(&old->slots[i].key, memory_order_relaxed);
		if (!key)
			continue;
		struct slot *slot = find_slot(names, key);
		slot->name = old->slots[i].name;
		atomic_store_explicit(&slot->key, key, memory_order_relaxed);
		names->count++;
	}
	return names;
}

static bool insert(struct dw_unit *unit, uint32_t key, const struct dw_name *name)
{
	struct dw_names *names = atomic_load_explicit(&unit->names, memory_order_relaxed);
	if (!names || names->count + 1 > names->mask / 4 * 3) {
		names = grow(unit, names);
		if (!names)
			return false;
		atomic_store_explicit(&unit->names, names, memory_order_release);
	}
	struct slot *slot = find_slot(names, key);
	if (atomic_load_explicit(&slot->key, memory_order_relaxed))
		return true;
	slot->name = *name;
	names->count++;
	atomic_store_explicit(&slot->key, key, memory_order_release);
	return true;
}

struct sp_error *dw_name_get(struct dw_die die, struct dw_name *ret)
{
	uint32_t key = (uint32_t)die.offset; /* units are below 4 GiB, and no DIE is at 0 */
	struct dw_names *names = atomic_load_explicit(&die.unit->names, memory_order_acquire);
	if (names) {
		struct slot *slot = find_slot(names, key);
		if (atomic_load_explicit(&slot->key, memory_order_acquire)) {
			*ret = slot->name;
			return NULL;
		}
	}
	struct sp_error *error = dw_name_find(die, ret);
	if (error)
		return error;
	pthread_mutex_lock(&die.unit->lock);
	bool ok = insert(die.unit, key, ret);
	pthread_mutex_unlock(&die.unit->lock);
	return ok ? NULL : sp_error_no_memory();
}
