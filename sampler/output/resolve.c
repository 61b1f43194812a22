/* From absolute addresses to what the profile shows.
 *
 * A stack is resolved when its sample is taken in, by what the process had mapped then. A segment's stack tree gives
 * the same node for the same chain of addresses, so what a node became is remembered for the segment, and what an
 * address became in a small cache; a process's view number tells whether that still holds. A view only changes when a
 * mapping covers something that a look-up has used: for that, ranges carry a mark, and looking into nothing leaves a
 * hole of a page that carries one too. */
#include "sampler/output/builder.h"
#include "sampler/profile/stack_node.h"

#include <stdlib.h>
#include <string.h>

#define VIEW_MAX (1u << 26)
#define LOOK_PAGE 4096u
#define RELATIVE_MAX ((uint64_t)INT32_MAX) /* what the front-end can hold */
#define FORK_DEPTH 16

uint32_t sp_build_new_view(struct sp_profile_builder *builder)
{
	return builder->views < VIEW_MAX ? ++builder->views : 0;
}

/* ---- Address spaces ---- */

static struct sp_range_map *map_of(struct sp_profile_builder *builder, uint32_t process)
{
	return process == SP_HANDLE_NONE ? &builder->kernel : &builder->processes.items[process].map;
}

static struct sp_error *too_many_views(void)
{
	return sp_error_create(SP_ERROR_LIMIT, "more than %u changes of address spaces", VIEW_MAX);
}

/* What was remembered for the process (all processes for SP_HANDLE_NONE) holds no longer. */
static struct sp_error *renew_views(struct sp_profile_builder *builder, uint32_t process)
{
	size_t first = process == SP_HANDLE_NONE ? 0 : process;
	size_t end = process == SP_HANDLE_NONE ? builder->processes.count : (size_t)process + 1;
	for (size_t i = first; i < end; i++) {
		builder->processes.items[i].view = sp_build_new_view(builder);
		if (!builder->processes.items[i].view)
			return too_many_views();
	}
	return NULL;
}

struct sp_error *sp_build_map_range(struct sp_profile_builder *builder, uint32_t process, const struct sp_range *range)
{
	struct sp_range_map *map = map_of(builder, process);
	const struct sp_range *old = sp_range_map_find(map, range->start, NULL, NULL);
	bool used;
	if (old && old->end >= range->end && old->kind == range->kind && old->target == range->target &&
	    old->base == range->base)
		return NULL; /* shown already */
	if (!sp_range_map_put(map, range, &used))
		return sp_error_no_memory();
	return used ? renew_views(builder, process) : NULL;
}

struct sp_error *sp_build_unmap_range(struct sp_profile_builder *builder, uint32_t process, uint64_t start,
                                      uint64_t end)
{
	bool used;
	if (!sp_range_map_remove(map_of(builder, process), start, end, &used))
		return sp_error_no_memory();
	return used ? renew_views(builder, process) : NULL;
}

/* ---- Frames ---- */

/* What lies at an address; NULL = nothing that is known. Marks it as looked at. */
static struct sp_error *look(struct sp_range_map *map, uint64_t address, const struct sp_range **ret)
{
	uint64_t low, high;
	struct sp_range *range = sp_range_map_find(map, address, &low, &high);
	if (range) {
		range->used = true;
		*ret = range->kind == SP_RANGE_HOLE ? NULL : range;
		return NULL;
	}
	struct sp_range hole = { .start = address & ~(uint64_t)(LOOK_PAGE - 1), .kind = SP_RANGE_HOLE, .used = true };
	hole.end = hole.start > UINT64_MAX - LOOK_PAGE ? UINT64_MAX : hole.start + LOOK_PAGE;
	hole.start = hole.start < low ? low : hole.start;
	hole.end = hole.end > high ? high : hole.end;
	bool used;
	*ret = NULL;
	if (hole.start < hole.end && !sp_range_map_put(map, &hole, &used))
		return sp_error_no_memory();
	return NULL;
}

static uint8_t subcategory_of(uint8_t origin)
{
	switch (origin) {
	case SP_FOUND_FRAME_POINTER:
		return SP_SUBCATEGORY_FRAME_POINTER;
	case SP_FOUND_GUESS:
		return SP_SUBCATEGORY_GUESS;
	case SP_FOUND_SPLICED_CHAIN:
		return SP_SUBCATEGORY_SPLICED_CHAIN;
	case SP_FOUND_SPLICED_STACK:
		return SP_SUBCATEGORY_SPLICED_STACK;
	default:
		return SP_SUBCATEGORY_OTHER;
	}
}

/* Turns an entry of unknown meaning into what `range` shows there. */
static void apply_range(const struct sp_profile_builder *builder, const struct sp_range *range,
                        struct sp_frame_entry *entry)
{
	if (range->kind == SP_RANGE_JIT) {
		if (entry->category == SP_CATEGORY_USER)
			entry->category = SP_CATEGORY_JIT;
		entry->kind = SP_ENTRY_JIT;
		entry->target = range->target;
		entry->address = 0;
		return;
	}
	if (range->kind != SP_RANGE_MODULE)
		return;
	if (builder->modules.items[range->target].kind == SP_MODULE_ANONYMOUS) {
		if (entry->category == SP_CATEGORY_USER)
			entry->category = SP_CATEGORY_JIT; /* code that is in no file was made at run time */
		return;
	}
	uint64_t relative = entry->address - range->base;
	if (relative > RELATIVE_MAX)
		return;
	entry->kind = SP_ENTRY_MODULE;
	entry->target = range->target;
	entry->address = relative;
}

static struct sp_error *resolve_frame(struct sp_profile_builder *builder, uint32_t process,
                                      const struct sp_frame *frame, uint32_t *ret)
{
	struct sp_frame_entry entry = { .kind = SP_ENTRY_UNKNOWN, .target = process, .address = frame->address };
	struct sp_range_map *map = NULL;
	if (frame->kind == SP_FRAME_RETURN_ADDRESS && entry.address)
		entry.address--;
	entry.subcategory = subcategory_of(frame->origin);
	if (frame->mode == SP_MODE_KERNEL) {
		entry.category = SP_CATEGORY_KERNEL;
		entry.target = SP_INDEX_NONE;
		entry.subcategory = SP_SUBCATEGORY_OTHER;
		map = &builder->kernel;
	} else if (frame->mode == SP_MODE_GUEST) {
		entry.category = SP_CATEGORY_GUEST;
	} else {
		entry.category = SP_CATEGORY_USER;
		map = map_of(builder, process);
	}
	if (map) {
		const struct sp_range *range;
		struct sp_error *error = look(map, entry.address, &range);
		if (error)
			return error;
		if (range)
			apply_range(builder, range, &entry);
	}
	*ret = sp_tables_frame(&builder->tables, &entry);
	return *ret == SP_INDEX_NONE ? sp_error_no_memory() : NULL;
}

/* The frame of a node, through the cache. */
static struct sp_error *find_frame(struct sp_profile_builder *builder, uint32_t process,
                                   const struct sp_stack_node *node, uint32_t *ret)
{
	uint32_t view = builder->processes.items[process].view;
	size_t slot = (size_t)sp_hash_u64(node->address + view) & (SP_FRAME_CACHE - 1);
	struct sp_frame_cache *cached = &builder->frame_cache[slot];
	if (cached->view == view && cached->address == node->address && cached->flags == node->flags) {
		*ret = cached->frame;
		return NULL;
	}
	struct sp_frame frame = sp_stack_frame(node->address, node->flags);
	struct sp_error *error = resolve_frame(builder, process, &frame, ret);
	if (!error)
		*cached = (struct sp_frame_cache){
			.address = node->address, .view = view, .frame = *ret, .flags = node->flags
		};
	return error;
}

/* ---- Stacks ---- */

static const char *truncation_text(uint8_t end)
{
	switch (end) {
	case SP_UNWIND_DUMP_END:
		return "[truncated: stack dump too short]";
	case SP_UNWIND_NO_TABLES:
		return "[truncated: code without unwind tables]";
	case SP_UNWIND_BAD_CFA:
		return "[truncated: unwind tables gave an impossible frame]";
	case SP_UNWIND_OTHER_STACK:
		return "[truncated: went on on another stack]";
	case SP_UNWIND_DEPTH:
		return "[truncated: more frames than are followed]";
	case SP_UNWIND_NO_REGS:
		return "[truncated: no user registers]";
	case SP_UNWIND_NOT_RECORDED:
		return "[truncated: the trace has no user stack]";
	default:
		return "[truncated]";
	}
}

/* Puts a label frame below `prefix`. */
static struct sp_error *push_label(struct sp_profile_builder *builder, uint32_t prefix, const char *text,
                                   enum sp_category category, uint32_t *ret)
{
	struct sp_frame_entry entry = { .kind = SP_ENTRY_LABEL, .category = (uint8_t)category };
	entry.target = sp_intern(&builder->strings, text, strlen(text));
	uint32_t frame = entry.target == SP_INTERN_NONE ? SP_INDEX_NONE : sp_tables_frame(&builder->tables, &entry);
	*ret = frame == SP_INDEX_NONE ? SP_INDEX_NONE : sp_tables_stack(&builder->tables, prefix, frame);
	return *ret == SP_INDEX_NONE ? sp_error_no_memory() : NULL;
}

static bool is_spliced(uint8_t origin)
{
	return origin == SP_FOUND_SPLICED_CHAIN || origin == SP_FOUND_SPLICED_STACK;
}

/* What the cache remembers of a node. The same node may end in different ways, hence `end`. */
#define TAG_SPLICED 1u
#define TAG_GUESSED 2u
#define TAG_FLAGS 3u

static uint32_t node_tag(uint32_t view, uint8_t end)
{
	return view << 5 | (uint32_t)(end & 7) << 2;
}

/* Collects the nodes that must be resolved, leaf first. *ret_known is the first that was resolved before, or none. */
static struct sp_error *collect_path(struct sp_profile_builder *builder, uint32_t node, uint32_t tag,
                                     uint32_t *ret_known)
{
	size_t total;
	const struct sp_stack_node *nodes = sp_recording_stack_nodes(builder->reader, &total);
	if (builder->segment != sp_recording_segment(builder->reader)) {
		builder->segment = sp_recording_segment(builder->reader);
		builder->nodes.count = 0;
	}
	if (builder->nodes.count < total) {
		size_t extra = total - builder->nodes.count;
		if (!sp_vector_reserve(&builder->nodes, extra))
			return sp_error_no_memory();
		memset(builder->nodes.items + builder->nodes.count, 0, extra * sizeof(*builder->nodes.items));
		builder->nodes.count = total;
	}
	builder->path.count = 0;
	while (node != SP_HANDLE_NONE) {
		if (node >= total)
			return sp_error_create(SP_ERROR_FORMAT, "stack node %u of %zu", node, total);
		if ((builder->nodes.items[node].tag & ~TAG_FLAGS) == tag)
			break;
		uint32_t parent = nodes[node].parent;
		if (parent != SP_HANDLE_NONE && parent >= node)
			return sp_error_create(SP_ERROR_FORMAT, "stack node %u comes before its parent", node);
		if (!sp_vector_push(&builder->path, node))
			return sp_error_no_memory();
		node = parent;
	}
	*ret_known = node;
	return NULL;
}

/* Whether `frame` only repeats the outermost one of a stack (--fold-recursive-prefix). */
static bool folds(const struct sp_profile_builder *builder, uint32_t stack, uint32_t frame)
{
	if (!builder->options.fold_recursive_prefix || stack == SP_INDEX_NONE)
		return false;
	const struct sp_stack_entry *entry = &builder->tables.stacks.items[stack];
	return entry->prefix == SP_INDEX_NONE && entry->frame == frame;
}

/* Puts one node's frame below `*stack`. */
static struct sp_error *push_node(struct sp_profile_builder *builder, uint32_t process,
                                  const struct sp_stack_node *node, uint8_t *last_origin, uint32_t *flags,
                                  uint32_t *stack)
{
	uint32_t frame;
	struct sp_error *error = NULL;
	uint8_t origin = sp_stack_origin(node->flags);
	if (is_spliced(*last_origin) && !is_spliced(origin))
		error = push_label(builder, *stack,
		                   *last_origin == SP_FOUND_SPLICED_CHAIN
		                       ? "[spliced: callers by the kernel's frame pointers]"
		                       : "[spliced: callers from an earlier stack]",
		                   SP_CATEGORY_SPLICED, stack);
	*last_origin = origin;
	*flags |= (is_spliced(origin) ? TAG_SPLICED : 0) | (origin == SP_FOUND_GUESS ? TAG_GUESSED : 0);
	if (!error)
		error = find_frame(builder, process, node, &frame);
	if (error)
		return error;
	if (!folds(builder, *stack, frame))
		*stack = sp_tables_stack(&builder->tables, *stack, frame);
	return *stack == SP_INDEX_NONE ? sp_error_no_memory() : NULL;
}

static struct sp_error *resolve_nodes(struct sp_profile_builder *builder, const struct sp_record_sample *sample,
                                      uint32_t process, struct sp_resolved_stack *ret)
{
	uint32_t known, flags = 0, tag = node_tag(builder->processes.items[process].view, sample->end);
	uint8_t last_origin = SP_FOUND_EXACT;
	struct sp_error *error = collect_path(builder, sample->stack, tag, &known);
	if (error)
		return error;
	size_t count;
	const struct sp_stack_node *nodes = sp_recording_stack_nodes(builder->reader, &count);
	if (known != SP_HANDLE_NONE) {
		last_origin = sp_stack_origin(nodes[known].flags);
		flags = builder->nodes.items[known].tag & TAG_FLAGS;
		ret->stack = builder->nodes.items[known].stack;
	} else if (sample->end != SP_UNWIND_ROOT) {
		error = push_label(builder, SP_INDEX_NONE, truncation_text(sample->end), SP_CATEGORY_TRUNCATED,
		                   &ret->stack);
	}
	for (size_t i = builder->path.count; i-- && !error;) {
		uint32_t node = builder->path.items[i];
		error = push_node(builder, process, &nodes[node], &last_origin, &flags, &ret->stack);
		builder->nodes.items[node] = (struct sp_node_cache){ ret->stack, error ? 0 : tag | flags };
	}
	ret->spliced = flags & TAG_SPLICED;
	ret->guessed = flags & TAG_GUESSED;
	return error;
}

struct sp_error *sp_build_stack(struct sp_profile_builder *builder, const struct sp_record_sample *sample,
                                uint32_t process, struct sp_resolved_stack *ret)
{
	struct sp_error *error = NULL;
	*ret = (struct sp_resolved_stack){ .stack = SP_INDEX_NONE };
	bool off_cpu = sample->source < builder->sources.count && builder->sources.items[sample->source].off_cpu;
	if (sample->stack != SP_HANDLE_NONE)
		error = resolve_nodes(builder, sample, process, ret);
	if (!error && sample->label)
		error = push_label(builder, ret->stack, sample->label,
		                   off_cpu                                            ? SP_CATEGORY_OFF_CPU
		                   : strcmp(sample->label, SP_LABEL_KERNEL_UNSAMPLED) ? SP_CATEGORY_OTHER
		                                                                      : SP_CATEGORY_KERNEL_UNSAMPLED,
		                   &ret->stack);
	else if (!error && ret->stack == SP_INDEX_NONE)
		error = push_label(
		    builder, SP_INDEX_NONE, sample->end == SP_UNWIND_ROOT ? "[no stack]" : truncation_text(sample->end),
		    sample->end == SP_UNWIND_ROOT ? SP_CATEGORY_OTHER : SP_CATEGORY_TRUNCATED, &ret->stack);
	return error;
}

/* ---- What became known late ---- */

struct late_map {
	uint32_t process;
	struct sp_range_map map;
};

struct sp_late_index {
	const struct sp_profile_builder *builder;
	SP_VECTOR(struct late_map) maps;
	struct sp_map by_process; /* process -> index into maps */
};

static struct sp_range_map *late_map_of(struct sp_late_index *index, uint32_t process)
{
	uint64_t *found = sp_map_get(&index->by_process, process);
	if (found)
		return &index->maps.items[*found].map;
	if (!sp_vector_push(&index->maps, (struct late_map){ .process = process }) ||
	    !sp_map_put(&index->by_process, process, index->maps.count - 1))
		return NULL;
	return &index->maps.items[index->maps.count - 1].map;
}

struct sp_error *sp_late_index_create(const struct sp_profile_builder *builder, struct sp_late_index **ret)
{
	struct sp_late_index *index = calloc(1, sizeof(*index));
	if (!index)
		return sp_error_no_memory();
	index->builder = builder;
	for (size_t i = 0; i < builder->late.count; i++) {
		const struct sp_late_range *late = &builder->late.items[i];
		struct sp_range_map *map = late_map_of(index, late->process);
		bool used;
		if (!map || !sp_range_map_put(map, &late->range, &used)) {
			sp_late_index_destroy(index);
			return sp_error_no_memory();
		}
	}
	*ret = index;
	return NULL;
}

struct sp_frame_entry sp_late_index_resolve(const struct sp_late_index *index, const struct sp_frame_entry *entry)
{
	struct sp_frame_entry result = *entry;
	if (entry->kind != SP_ENTRY_UNKNOWN || entry->category == SP_CATEGORY_GUEST || !index->maps.count)
		return result;
	uint32_t process = entry->target;
	for (unsigned depth = 0; depth < FORK_DEPTH; depth++) {
		const uint64_t *found = sp_map_get(&index->by_process, process);
		const struct sp_range *range = found ? sp_range_map_find(&index->maps.items[*found].map, entry->address,
		                                                         NULL, NULL)
		                                     : NULL;
		if (range) {
			apply_range(index->builder, range, &result);
			break;
		}
		/* A forked child runs its parent's code. */
		if (process == SP_HANDLE_NONE || index->builder->processes.items[process].previous != SP_HANDLE_NONE)
			break;
		process = index->builder->processes.items[process].parent;
		if (process >= index->builder->processes.count)
			break;
	}
	return result;
}

void sp_late_index_destroy(struct sp_late_index *index)
{
	if (!index)
		return;
	for (size_t i = 0; i < index->maps.count; i++)
		sp_range_map_deinit(&index->maps.items[i].map);
	sp_vector_deinit(&index->maps);
	sp_map_deinit(&index->by_process);
	free(index);
}
