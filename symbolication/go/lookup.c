/* Answers from Go's table. A function's steps are read when an address in it is asked for, and serve the next address.
 *
 * The frames of an address: the place is that of its steps; when an inlined call is there, the caller's place is that
 * of the steps at the call's position, and so on outwards. */
#include "symbolication/go/internal.h"

#include "symbolication/index/builder.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH_LIMIT 256

/* A function's steps. */
struct body {
	struct sp_go_function function;
	uint64_t index; /* UINT64_MAX = none is read */
	sp_go_steps files, lines, calls;
	uint64_t budget;
};

static void body_deinit(struct body *body)
{
	sp_vector_deinit(&body->files);
	sp_vector_deinit(&body->lines);
	sp_vector_deinit(&body->calls);
}

/* False without memory; *ret_known = the function is described. */
static bool read_body(const struct sp_go *go, uint64_t index, struct body *body, bool *ret_known)
{
	*ret_known = true;
	if (index == body->index && index != UINT64_MAX)
		return true;
	body->index = UINT64_MAX;
	*ret_known = sp_go_function(go, index, &body->function);
	if (!*ret_known)
		return true;
	const struct sp_go_function *f = &body->function;
	if (!sp_go_read_steps(go, f, f->file_steps, &body->budget, &body->files) ||
	    !sp_go_read_steps(go, f, f->line_steps, &body->budget, &body->lines) ||
	    !sp_go_read_steps(go, f, f->call_steps, &body->budget, &body->calls))
		return false;
	body->index = index;
	return true;
}

/* The step that holds at an address; NULL = none. */
static const struct sp_go_step *step_at(const sp_go_steps *steps, uint64_t address)
{
	size_t low = 0, high = steps->count; /* the first step that ends behind the address */
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (steps->items[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < steps->count ? &steps->items[low] : NULL;
}

static void set_place(const struct sp_go *go, const struct body *body, uint64_t address, struct sp_dwarf_frame *frame)
{
	const struct sp_go_step *file = step_at(&body->files, address), *line = step_at(&body->lines, address);
	frame->file = file ? sp_go_file(go, &body->function, file->value) : NULL;
	frame->line = line && line->value > 0 ? (uint32_t)line->value : 0;
}

/* The inlined call at an address. */
static bool call_at(const struct sp_go *go, const struct body *body, uint64_t address, struct sp_go_call *ret)
{
	const struct sp_go_step *step = step_at(&body->calls, address);
	return step && sp_go_call(go, &body->function, step->value, ret);
}

static size_t make_frames(const struct sp_go *go, const struct body *body, uint64_t address,
                          struct sp_dwarf_frame frames[DEPTH_LIMIT])
{
	size_t count = 0;
	struct sp_go_call call;
	while (count + 1 < DEPTH_LIMIT && call_at(go, body, address, &call)) {
		frames[count] = (struct sp_dwarf_frame){ .name = call.name };
		set_place(go, body, address, &frames[count++]);
		address = call.position;
	}
	frames[count] = (struct sp_dwarf_frame){ .name = body->function.name };
	set_place(go, body, address, &frames[count++]);
	return count;
}

struct sp_error *sp_go_lookup(const struct sp_go *go, const uint64_t *addresses, size_t count,
                              void (*emit)(void *context, size_t index, const struct sp_dwarf_answer *answer),
                              void *context)
{
	struct body body = { .index = UINT64_MAX, .budget = sp_go_budget(go) };
	struct sp_dwarf_frame *frames = malloc(DEPTH_LIMIT * sizeof(*frames));
	struct sp_error *error = frames ? NULL : sp_error_no_memory();
	for (size_t i = 0; i < count && !error; i++) {
		struct sp_dwarf_answer answer = { frames, 0 };
		uint64_t index = sp_go_function_at(go, addresses[i]);
		bool known;
		if (!read_body(go, index, &body, &known))
			error = sp_error_no_memory();
		else if (!body.budget)
			error = sp_error_create(SP_ERROR_FORMAT, "Go's table of lines is damaged: it has no end");
		if (error)
			break;
		if (known && step_at(&body.files, addresses[i])) /* padding has no file */
			answer.count = make_frames(go, &body, addresses[i], frames);
		emit(context, i, &answer);
	}
	body_deinit(&body);
	free(frames);
	return error;
}

struct sp_error *sp_go_symbols(const struct sp_go *go, struct sp_symbols *ret)
{
	SP_VECTOR(struct sp_symbol) symbols = { 0 };
	/* In a damaged table many functions may have the same endless name, which is read each time. */
	uint64_t budget = sp_go_budget(go), name_budget = 4 * (uint64_t)(go->names.end - go->names.start);
	*ret = (struct sp_symbols){ 0 };
	for (uint64_t i = 0; i < go->count && name_budget; i++) {
		struct sp_go_function function;
		if (!sp_go_function(go, i, &function) || !function.name)
			continue;
		uint64_t length = strlen(function.name) + 1;
		name_budget -= length < name_budget ? length : name_budget;
		struct sp_symbol symbol = { .name = function.name,
			                    .address = function.start,
			                    .size = sp_go_code_end(go, &function, &budget) - function.start,
			                    .source = SP_SYMBOL_SYMTAB };
		if (!sp_vector_push(&symbols, symbol)) {
			sp_vector_deinit(&symbols);
			return sp_error_no_memory();
		}
	}
	ret->items = symbols.items;
	ret->count = symbols.count;
	return NULL;
}

/* ---- The flat index ---- */

struct compiler {
	const struct sp_go *go;
	struct sp_index_part *part;
	struct body body;
	uint64_t base;
	SP_VECTOR(uint32_t) nodes; /* of the function's inlined calls, by number; 0 = not made yet */
	bool no_memory;
};

static uint32_t part_name(struct sp_index_part *part, const char *name)
{
	return name ? sp_index_part_name(part, SP_INDEX_PLAIN, name, strlen(name)) : 0;
}

static struct sp_index_place part_place(struct compiler *c, const char *file, int32_t line)
{
	return (struct sp_index_place){ file ? sp_index_part_file(c->part, file, strlen(file)) : 0,
		                        line > 0 ? (uint32_t)line : 0, 0 };
}

/* The node of the calls at an address, made with all around it; `function` when nothing is inlined there. Each of them
 * gets the range, as a call's addresses must be those of its callers, too. */
static uint32_t node_at(struct compiler *c, uint32_t function, uint64_t address, uint64_t start, uint64_t end)
{
	int32_t chain[DEPTH_LIMIT];
	struct sp_go_call calls[DEPTH_LIMIT];
	size_t depth = 0;
	for (; depth + 1 < DEPTH_LIMIT && call_at(c->go, &c->body, address, &calls[depth]); depth++) {
		chain[depth] = step_at(&c->body.calls, address)->value;
		address = calls[depth].position;
	}
	uint32_t node = function;
	c->body.budget -= depth < c->body.budget ? depth : c->body.budget;
	while (depth-- > 0) { /* from the outermost one inwards */
		size_t number = (size_t)chain[depth];
		while (c->nodes.count <= number && !c->no_memory)
			c->no_memory = !sp_vector_push(&c->nodes, 0);
		if (c->no_memory)
			return 0;
		if (!c->nodes.items[number]) {
			struct sp_dwarf_frame frame;
			memset(&frame, 0, sizeof(frame));
			set_place(c->go, &c->body, calls[depth].position, &frame);
			struct sp_index_place place = part_place(c, frame.file, (int32_t)frame.line);
			c->nodes.items[number] = sp_index_part_node(c->part, node,
			                                            part_name(c->part, calls[depth].name), &place);
		}
		node = c->nodes.items[number];
		sp_index_part_range(c->part, node, start - c->base, end - c->base);
	}
	return node;
}

/* Lines and files are two lists of steps: a row is where neither changes. */
static void add_rows(struct compiler *c)
{
	const struct body *body = &c->body;
	uint64_t at = body->function.start;
	size_t file = 0, line = 0;
	while (file < body->files.count) {
		uint64_t end = body->files.items[file].end;
		while (line < body->lines.count && body->lines.items[line].end <= at)
			line++;
		bool has_line = line < body->lines.count;
		if (has_line && body->lines.items[line].end < end)
			end = body->lines.items[line].end;
		struct sp_index_place place = part_place(
		    c, sp_go_file(c->go, &body->function, body->files.items[file].value),
		    has_line ? body->lines.items[line].value : 0);
		if (end > at)
			sp_index_part_row(c->part, at - c->base, end - c->base, &place);
		at = end > at ? end : at;
		if (body->files.items[file].end <= at)
			file++;
	}
}

static void compile_function(struct compiler *c)
{
	const struct body *body = &c->body;
	const struct sp_go_function *f = &body->function;
	uint64_t end = body->files.count ? body->files.items[body->files.count - 1].end : f->start;
	if (f->start < c->base || end <= f->start)
		return;
	uint32_t function = sp_index_part_node(c->part, 0, part_name(c->part, f->name), NULL);
	sp_index_part_range(c->part, function, f->start - c->base, end - c->base);
	add_rows(c);
	c->nodes.count = 0;
	uint64_t at = f->start;
	for (size_t i = 0; i < body->calls.count && !c->no_memory; i++) {
		uint64_t step_end = body->calls.items[i].end < end ? body->calls.items[i].end : end;
		if (step_end > at && body->calls.items[i].value >= 0)
			node_at(c, function, at, at, step_end);
		at = step_end > at ? step_end : at;
	}
}

struct sp_error *sp_go_compile(const struct sp_go *go, uint64_t base, const atomic_bool *cancel,
                               struct sp_index_builder *builder)
{
	struct compiler c = { .go = go, .base = base, .body = { .index = UINT64_MAX, .budget = sp_go_budget(go) } };
	struct sp_error *error = sp_index_part_create(builder, 0, &c.part);
	if (error)
		return error;
	for (uint64_t i = 0; i < go->count && !error; i++) {
		bool known;
		if (atomic_load_explicit(cancel, memory_order_relaxed))
			error = sp_error_create(SP_ERROR_CANCELLED, "cancelled");
		else if (!read_body(go, i, &c.body, &known))
			error = sp_error_no_memory();
		else if (!c.body.budget)
			error = sp_error_create(SP_ERROR_FORMAT, "Go's table of lines is damaged: it has no end");
		else if (known)
			compile_function(&c);
		if (!error && c.no_memory)
			error = sp_error_no_memory();
	}
	body_deinit(&c.body);
	sp_vector_deinit(&c.nodes);
	if (error)
		sp_index_part_destroy(c.part);
	else
		error = sp_index_part_finish(c.part);
	return error;
}
