/* The parts of Go's table: functions, names, steps, files, inlined calls. Every read is checked where it is made. */
#include "symbolication/go/internal.h"

#include <stdlib.h>

#define NAME_LIMIT ((size_t)64 << 10)   /* bytes of one name; Go shortens the long ones */
#define STEPS_LIMIT (UINT32_C(1) << 20) /* of one function */

enum { PCDATA_CALLS = 2, FUNCDATA_CALLS = 3 };

/* ---- Opening ---- */

static enum sp_go_form form_of(uint32_t magic)
{
	return magic == 0xfffffffb   ? SP_GO_1_2
	       : magic == 0xfffffffa ? SP_GO_1_16
	       : magic == 0xfffffff0 ? SP_GO_1_18
	                             : SP_GO_1_20;
}

static size_t entry_size(const struct sp_go *go)
{
	return 2 * (size_t)(go->form >= SP_GO_1_18 ? 4 : go->pointer);
}

static struct sp_cursor rest(const struct sp_cursor *table, uint64_t offset)
{
	size_t size = (size_t)(table->end - table->start);
	return sp_cursor_sub(table, offset, offset <= size ? size - offset : 0);
}

/* Before 1.16 everything counts from the table's start; the files' names are behind the functions. */
static void read_header_1_2(struct sp_go *go, const struct sp_cursor *table, struct sp_cursor *c)
{
	go->count = sp_cursor_uint(c, go->pointer);
	go->functions = go->names = go->steps = *table;
	go->functions_address = go->address;
	go->entries = rest(table, 8 + go->pointer);
	if (go->count >= sp_cursor_left(&go->entries) / entry_size(go))
		return; /* said by the caller */
	struct sp_cursor behind = go->entries;
	sp_cursor_seek(&behind, go->count * entry_size(go) + go->pointer);
	uint32_t files = sp_cursor_u32(&behind);
	go->files = rest(table, files);
	struct sp_cursor first = go->files;
	go->file_count = sp_cursor_u32(&first);
}

static void read_header(struct sp_go *go, const struct sp_cursor *table, struct sp_cursor *c)
{
	go->count = sp_cursor_uint(c, go->pointer);
	(void)sp_cursor_uint(c, go->pointer); /* number of files */
	if (go->form >= SP_GO_1_18)
		go->text = sp_cursor_uint(c, go->pointer);
	uint64_t names = sp_cursor_uint(c, go->pointer);
	go->names = rest(table, names);
	go->units = rest(table, sp_cursor_uint(c, go->pointer));
	go->files = rest(table, sp_cursor_uint(c, go->pointer));
	go->steps = rest(table, sp_cursor_uint(c, go->pointer));
	uint64_t functions = sp_cursor_uint(c, go->pointer);
	go->functions = go->entries = rest(table, functions);
	go->functions_address = go->address + functions;
	uint64_t text = 0;
	if (go->form < SP_GO_1_18)
		return;
	go->has_calls = sp_go_find_module(go, go->address + names, &text, &go->calls) && go->calls;
	const struct sp_section *section = sp_object_find_section(go->object, ".text");
	go->text = text ? text : go->text ? go->text : section ? section->address : 0;
}

struct sp_error *sp_go_open(struct sp_object *object, struct sp_go **ret)
{
	struct sp_cursor table;
	uint64_t address;
	*ret = NULL;
	struct sp_error *error = sp_go_find(object, &table, &address);
	if (error || !sp_cursor_left(&table))
		return error;
	struct sp_go *go = calloc(1, sizeof(*go));
	if (!go)
		return sp_error_no_memory();
	struct sp_cursor c = table;
	*go = (struct sp_go){ .object = object, .address = address, .form = form_of(sp_cursor_u32(&c)) };
	sp_cursor_skip(&c, 2);
	go->quantum = sp_cursor_u8(&c);
	go->pointer = sp_cursor_u8(&c) == 4 ? 4 : 8; /* as sp_go_find() has checked */
	if (go->form == SP_GO_1_2)
		read_header_1_2(go, &table, &c);
	else
		read_header(go, &table, &c);
	if (c.bad || go->functions.bad || go->names.bad || go->steps.bad || go->files.bad || go->units.bad ||
	    go->count >= sp_cursor_left(&go->entries) / entry_size(go)) {
		free(go);
		return sp_error_create(SP_ERROR_FORMAT, "%s: the header of Go's table of functions is damaged",
		                       sp_object_name(object));
	}
	*ret = go;
	return NULL;
}

void sp_go_destroy(struct sp_go *go)
{
	free(go);
}

const char *sp_go_version(const struct sp_go *go)
{
	static const char *const versions[] = { "1.2", "1.16", "1.18", "1.20" };
	return versions[go->form];
}

uint64_t sp_go_budget(const struct sp_go *go)
{
	return 8 * (uint64_t)(go->steps.end - go->steps.start) + STEPS_LIMIT;
}

/* ---- Strings ---- */

static const char *string_at(const struct sp_cursor *strings, uint64_t offset)
{
	size_t size = (size_t)(strings->end - strings->start);
	if (offset >= size)
		return NULL;
	size_t left = size - (size_t)offset;
	struct sp_cursor c = sp_cursor_sub(strings, offset, left < NAME_LIMIT ? left : NAME_LIMIT);
	const char *string = sp_cursor_string(&c);
	return string[0] ? string : NULL;
}

const char *sp_go_file(const struct sp_go *go, const struct sp_go_function *function, int32_t number)
{
	if (number < 0)
		return NULL;
	if (go->form == SP_GO_1_2) {
		struct sp_cursor c = go->files;
		if (!number || (uint32_t)number >= go->file_count)
			return NULL;
		sp_cursor_seek(&c, 4 * (uint64_t)number);
		uint32_t offset = sp_cursor_u32(&c);
		return c.bad ? NULL : string_at(&go->names, offset);
	}
	struct sp_cursor c = go->units;
	sp_cursor_seek(&c, 4 * ((uint64_t)function->unit + (uint32_t)number));
	uint32_t offset = sp_cursor_u32(&c);
	return c.bad || offset == UINT32_MAX ? NULL : string_at(&go->files, offset);
}

/* ---- Functions ---- */

/* An entry's address as it stands. */
static uint64_t entry_address(const struct sp_go *go, uint64_t index, uint64_t *ret_offset)
{
	struct sp_cursor c = go->entries;
	unsigned size = go->form >= SP_GO_1_18 ? 4 : go->pointer;
	sp_cursor_seek(&c, index * entry_size(go));
	uint64_t address = sp_cursor_uint(&c, size);
	*ret_offset = index < go->count ? sp_cursor_uint(&c, size) : 0; /* the last one has none */
	return go->form >= SP_GO_1_18 ? go->text + address : address;
}

/* The lists behind a description: offsets of steps, then of data. */
static void read_lists(const struct sp_go *go, struct sp_cursor *c, uint32_t step_lists, uint32_t data_lists,
                       struct sp_go_function *ret)
{
	struct sp_cursor data = *c;
	if (step_lists <= PCDATA_CALLS || data_lists <= FUNCDATA_CALLS)
		return;
	sp_cursor_skip(c, 4 * PCDATA_CALLS);
	uint32_t steps = sp_cursor_u32(c);
	sp_cursor_skip(&data, 4 * (uint64_t)step_lists);
	if (go->form >= SP_GO_1_18) {
		sp_cursor_skip(&data, 4 * FUNCDATA_CALLS);
		uint32_t offset = sp_cursor_u32(&data);
		ret->calls = go->has_calls && offset != UINT32_MAX ? go->calls + offset : 0;
	} else {
		uint64_t at = go->functions_address + sp_cursor_offset(&data);
		sp_cursor_skip(&data, -at & (go->pointer - 1));
		sp_cursor_skip(&data, (uint64_t)FUNCDATA_CALLS * go->pointer);
		ret->calls = sp_cursor_uint(&data, go->pointer);
	}
	if (c->bad || data.bad)
		ret->calls = 0;
	ret->call_steps = ret->calls ? steps : 0;
}

bool sp_go_function(const struct sp_go *go, uint64_t index, struct sp_go_function *ret)
{
	uint64_t offset, unused;
	if (index >= go->count)
		return false;
	*ret = (struct sp_go_function){ 0 };
	ret->start = entry_address(go, index, &offset);
	ret->end = entry_address(go, index + 1, &unused);
	struct sp_cursor c = go->functions;
	sp_cursor_seek(&c, offset);
	sp_cursor_skip(&c, go->form >= SP_GO_1_18 ? 4 : go->pointer);
	ret->name = string_at(&go->names, sp_cursor_u32(&c));
	sp_cursor_skip(&c, 4 + 4 + 4); /* arguments, frame, stack pointer */
	ret->file_steps = sp_cursor_u32(&c);
	ret->line_steps = sp_cursor_u32(&c);
	uint32_t step_lists = sp_cursor_u32(&c);
	if (go->form >= SP_GO_1_16)
		ret->unit = sp_cursor_u32(&c);
	if (go->form >= SP_GO_1_20)
		sp_cursor_skip(&c, 4); /* first line */
	sp_cursor_skip(&c, 3);
	uint32_t data_lists = sp_cursor_u8(&c);
	if (c.bad || ret->end <= ret->start)
		return false;
	read_lists(go, &c, step_lists, data_lists, ret);
	return true;
}

uint64_t sp_go_function_at(const struct sp_go *go, uint64_t address)
{
	uint64_t low = 0, high = go->count + 1, unused; /* of the entries, the last of which is the end */
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (entry_address(go, middle, &unused) <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low && low <= go->count ? low - 1 : UINT64_MAX;
}

/* ---- Steps ---- */

/* Steps are read one after the other. */
struct walk {
	struct sp_cursor at;
	uint64_t address;
	int32_t value;
	bool first;
};

static struct walk walk_begin(const struct sp_go *go, const struct sp_go_function *function, uint32_t at)
{
	struct walk walk = { .at = go->steps, .address = function->start, .value = -1, .first = true };
	sp_cursor_seek(&walk.at, at ? at : UINT64_MAX); /* 0 = there are none */
	return walk;
}

/* Gives the next value, which holds up to walk->address; false at the end. */
static bool walk_next(const struct sp_go *go, struct walk *walk)
{
	uint32_t change = (uint32_t)sp_cursor_uleb(&walk->at);
	if (walk->at.bad || (!change && !walk->first))
		return false;
	uint64_t distance = (uint32_t)sp_cursor_uleb(&walk->at);
	if (walk->at.bad)
		return false;
	walk->value = (int32_t)((uint32_t)walk->value + ((change >> 1) ^ -(change & 1)));
	walk->address += distance * go->quantum;
	walk->first = false;
	return true;
}

bool sp_go_read_steps(const struct sp_go *go, const struct sp_go_function *function, uint32_t at, uint64_t *budget,
                      sp_go_steps *ret)
{
	ret->count = 0;
	struct walk walk = walk_begin(go, function, at);
	while (ret->count < STEPS_LIMIT && *budget && walk_next(go, &walk)) {
		--*budget;
		uint64_t end = walk.address < function->end ? walk.address : function->end;
		if (!sp_vector_push(ret, (struct sp_go_step){ end, walk.value }))
			return false;
		if (end == function->end)
			break;
	}
	return true;
}

uint64_t sp_go_code_end(const struct sp_go *go, const struct sp_go_function *function, uint64_t *budget)
{
	struct walk walk = walk_begin(go, function, function->file_steps);
	while (*budget && walk.address < function->end && walk_next(go, &walk))
		--*budget;
	return walk.address > function->start && walk.address < function->end ? walk.address : function->end;
}

/* ---- Inlined calls ---- */

bool sp_go_call(const struct sp_go *go, const struct sp_go_function *function, int32_t number, struct sp_go_call *ret)
{
	/* 1.20: kind (4 bytes), name, position, first line; before: caller and kind (4), file, line, name, position. */
	bool newer = go->form >= SP_GO_1_20;
	size_t item = newer ? 16 : 20, size = item;
	if (number < 0 || !function->calls)
		return false;
	const uint8_t *bytes = sp_object_image_bytes(go->object, function->calls + (uint64_t)number * item, &size);
	struct sp_cursor c = sp_cursor_init(bytes, bytes ? size : 0);
	c.big_endian = sp_object_big_endian(go->object);
	sp_cursor_skip(&c, newer ? 4 : 12);
	uint32_t name = sp_cursor_u32(&c), position = sp_cursor_u32(&c);
	if (c.bad || position >= function->end - function->start)
		return false;
	*ret = (struct sp_go_call){ string_at(&go->names, name), function->start + position };
	return ret->name;
}
