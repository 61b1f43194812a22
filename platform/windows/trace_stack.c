/* Stacks, and which samples they belong to.
 *
 * The kernel walks a stack some time after the sample: at once for its own half, on the way back to the program for the
 * other. Each half is an event of its own, with the sample's time and thread. With the stack cache on, the half is only
 * a key, and the frames come when the cache drops the entry, or at the end; keys are used again, so one means the first
 * definition after it. Kernel and user stacks have keys of their own. */
#include "platform/windows/trace.h"

#define TABLE_START ((size_t)1 << 16)
#define PENDING_SEARCH 64 /* newest samples of a thread that a kernel half may belong to */

/* ---- The tree ---- */

static uint64_t hash_node(uint32_t parent, uint64_t address)
{
	return sp_hash_u64(address ^ (uint64_t)parent * 0x9e3779b97f4a7c15u);
}

static bool grow_table(struct sp_trace *trace)
{
	size_t size = trace->node_table.capacity ? trace->node_table.count * 2 : TABLE_START;
	sp_spool_deinit(&trace->node_table);
	trace->node_table.store.folder = trace->folder;
	if (!sp_spool_reserve(&trace->node_table, size))
		return false;
	trace->node_table.count = size;
	memset(trace->node_table.items, 0, size * sizeof(uint32_t));
	for (size_t i = 0; i < trace->node_parent.count; i++) {
		size_t slot = (size_t)hash_node(trace->node_parent.items[i], trace->node_address.items[i]) & (size - 1);
		while (trace->node_table.items[slot])
			slot = (slot + 1) & (size - 1);
		trace->node_table.items[slot] = (uint32_t)i + 1;
	}
	return true;
}

/* The node of `address` called by `parent`; SP_TRACE_NONE without memory. */
static uint32_t node_of(struct sp_trace *trace, uint32_t parent, uint64_t address)
{
	if (trace->node_parent.count * 2 >= trace->node_table.count &&
	    (trace->node_parent.count >= UINT32_MAX / 4 || !grow_table(trace))) {
		trace->failed = true;
		return SP_TRACE_NONE;
	}
	size_t mask = trace->node_table.count - 1;
	size_t slot = (size_t)hash_node(parent, address) & mask;
	for (; trace->node_table.items[slot]; slot = (slot + 1) & mask) {
		uint32_t node = trace->node_table.items[slot] - 1;
		if (trace->node_address.items[node] == address && trace->node_parent.items[node] == parent)
			return node;
	}
	uint32_t node = (uint32_t)trace->node_parent.count;
	if (!sp_spool_push(&trace->node_parent, parent) || !sp_spool_push(&trace->node_address, address)) {
		trace->failed = true;
		return SP_TRACE_NONE;
	}
	trace->node_table.items[slot] = node + 1;
	return node;
}

/* The node of frames[first .. end), which are leaf first. */
static uint32_t stack_of(struct sp_trace *trace, const struct sp_etl_stack *stack, uint8_t pointer_size, uint32_t first,
                         uint32_t end)
{
	uint32_t node = SP_TRACE_NONE;
	for (uint32_t i = end; i-- > first && !trace->failed;)
		node = node_of(trace, node, sp_etl_pointer(stack->frames, pointer_size, i));
	return node;
}

/* ---- Halves ---- */

/* One half of a stack, known or to be known. */
struct half {
	uint32_t node;
	uint64_t key; /* when `keyed` */
	bool keyed, full;
};

static void set_half(struct sp_trace *trace, uint32_t index, bool kernel, const struct half *half)
{
	struct sp_trace_sample *sample = &trace->samples.items[index];
	uint32_t *place = kernel ? &sample->kernel : &sample->user;
	uint8_t waits = kernel ? SP_TRACE_KERNEL_WAITS : SP_TRACE_USER_WAITS;
	if (*place != SP_TRACE_NONE || sample->flags & waits)
		return; /* it has one */
	if (half->full)
		sample->flags |= kernel ? SP_TRACE_KERNEL_FULL : SP_TRACE_USER_FULL;
	if (!half->keyed) {
		*place = half->node;
		return;
	}
	struct sp_map *keys = kernel ? &trace->kernel_keys : &trace->user_keys;
	const uint64_t *newest = sp_map_get(keys, half->key);
	*place = newest ? (uint32_t)*newest : SP_TRACE_NONE;
	sample->flags |= waits;
	if (!sp_map_put(keys, half->key, index))
		trace->failed = true;
}

/* The frames of a key have come: all samples that wait for it get them. */
static void define_key(struct sp_trace *trace, struct sp_map *keys, uint64_t key, bool kernel, uint32_t node, bool full)
{
	const uint64_t *newest = sp_map_get(keys, key);
	if (!newest)
		return;
	uint32_t at = (uint32_t)*newest;
	while (at != SP_TRACE_NONE) {
		struct sp_trace_sample *sample = &trace->samples.items[at];
		uint32_t *place = kernel ? &sample->kernel : &sample->user;
		at = *place;
		*place = node;
		sample->flags &= (uint8_t) ~(kernel ? SP_TRACE_KERNEL_WAITS : SP_TRACE_USER_WAITS);
		if (full)
			sample->flags |= kernel ? SP_TRACE_KERNEL_FULL : SP_TRACE_USER_FULL;
	}
	sp_map_remove(keys, key);
}

/* A kernel half belongs to the sample of exactly its time. */
static bool give_kernel(struct sp_trace *trace, uint32_t thread, uint64_t time, const struct half *half)
{
	uint32_t at = trace->threads.items[thread].pending;
	for (unsigned i = 0; at != SP_TRACE_NONE && i < PENDING_SEARCH; i++, at = trace->samples.items[at].next) {
		if (trace->samples.items[at].time < time)
			return false;
		if (trace->samples.items[at].time == time) {
			set_half(trace, at, true, half);
			return true;
		}
	}
	return false;
}

/* Whether a sample has its kernel half and can only be completed on the way back to the program. */
static bool waits_in_kernel(const struct sp_trace_sample *sample)
{
	return sample->kernel != SP_TRACE_NONE || sample->flags & SP_TRACE_KERNEL_WAITS;
}

/* A user half belongs to the sample of its time, and to the older ones of the thread whose kernel half is there and
 * which still wait: Windows walks the user stack once for all that was asked for while the thread was in the kernel,
 * with the time of the last. */
static bool give_user(struct sp_trace *trace, uint32_t thread, uint64_t time, const struct half *half)
{
	uint32_t *link = &trace->threads.items[thread].pending;
	bool given = false;
	while (*link != SP_TRACE_NONE && trace->samples.items[*link].time > time)
		link = &trace->samples.items[*link].next;
	uint32_t at = *link;
	*link = SP_TRACE_NONE;
	while (at != SP_TRACE_NONE) {
		struct sp_trace_sample *sample = &trace->samples.items[at];
		uint32_t next = sample->next;
		if (sample->time == time || waits_in_kernel(sample)) {
			set_half(trace, at, false, half);
			given = given || sample->time == time;
		}
		trace->samples.items[at].next = SP_TRACE_NONE;
		at = next;
	}
	return given;
}

/* ---- Events ---- */

static bool is_full(const struct sp_etl_stack *stack)
{
	return stack->frame_count >= SP_ETL_STACK_MAX;
}

/* Frames as they come: kernel ones first, if any; on ARM64 both halves may be in one event. */
static bool take_frames(struct sp_trace *trace, const struct sp_etl_event *event, const struct sp_etl_stack *stack,
                        uint32_t thread, uint64_t time)
{
	uint8_t size = event->pointer_size;
	uint32_t kernel = 0;
	bool given = false;
	while (kernel < stack->frame_count &&
	       sp_etl_is_kernel(sp_etl_pointer(stack->frames, size, kernel), trace->pointer_size))
		kernel++;
	if (kernel) {
		struct half half = { .node = stack_of(trace, stack, size, 0, kernel), .full = is_full(stack) };
		given = give_kernel(trace, thread, time, &half);
	}
	if (kernel < stack->frame_count) {
		struct half half = { .node = stack_of(trace, stack, size, kernel, stack->frame_count),
			             .full = is_full(stack) };
		given = give_user(trace, thread, time, &half) || given;
	}
	return given;
}

static void take_definition(struct sp_trace *trace, const struct sp_etl_event *event, const struct sp_etl_stack *stack)
{
	trace->counts.definitions++;
	if (!stack->frame_count)
		return;
	uint64_t last = sp_etl_pointer(stack->frames, event->pointer_size, stack->frame_count - 1);
	bool kernel = sp_etl_is_kernel(last, trace->pointer_size);
	struct sp_map *keys = kernel ? &trace->kernel_keys : &trace->user_keys;
	if (!sp_map_get(keys, stack->key))
		return; /* of events that are no samples */
	uint32_t node = stack_of(trace, stack, event->pointer_size, 0, stack->frame_count);
	define_key(trace, keys, stack->key, kernel, node, is_full(stack));
}

bool sp_trace_stack_event(struct sp_trace *trace, const struct sp_etl_event *event)
{
	struct sp_etl_stack stack;
	uint8_t code = event->opcode;
	if (code != SP_ETL_STACK_WALK && (code < SP_ETL_STACK_DELETE || code > SP_ETL_STACK_USER_KEY))
		return true;
	if (!sp_etl_stack_parse(event, &stack)) {
		trace->counts.bad_payloads++;
		return true;
	}
	if (code == SP_ETL_STACK_DELETE || code == SP_ETL_STACK_RUNDOWN) {
		take_definition(trace, event, &stack);
		return !trace->failed;
	}
	uint64_t time = sp_etl_reader_time(trace->reader, event->file, stack.event_time);
	uint32_t thread = sp_trace_thread_now(trace, stack.tid, stack.pid, event->cpu, event->time);
	if (thread == SP_TRACE_NONE)
		return !trace->failed;
	bool given;
	if (code == SP_ETL_STACK_WALK) {
		trace->counts.stacks++;
		given = take_frames(trace, event, &stack, thread, time);
	} else {
		struct half half = { .node = SP_TRACE_NONE, .key = stack.key, .keyed = true };
		trace->counts.keys++;
		given = code == SP_ETL_STACK_KERNEL_KEY ? give_kernel(trace, thread, time, &half)
		                                        : give_user(trace, thread, time, &half);
	}
	trace->counts.other_stacks += !given;
	return !trace->failed;
}

/* Samples whose key was never defined have no such half. */
bool sp_trace_stack_finish(struct sp_trace *trace)
{
	struct sp_map *const both[] = { &trace->kernel_keys, &trace->user_keys };
	for (unsigned i = 0; i < 2; i++) {
		for (size_t slot = 0; slot < both[i]->capacity; slot++) {
			uint32_t at = both[i]->used[slot] ? (uint32_t)both[i]->slots[slot].value : SP_TRACE_NONE;
			while (at != SP_TRACE_NONE) {
				struct sp_trace_sample *sample = &trace->samples.items[at];
				uint32_t *place = i ? &sample->user : &sample->kernel;
				at = *place;
				*place = SP_TRACE_NONE;
				trace->counts.unresolved_keys++;
			}
		}
		sp_map_clear(both[i]);
	}
	return !trace->failed;
}
