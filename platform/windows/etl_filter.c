/* See etl_filter.h. */
#include "platform/windows/etl_filter.h"

#include "common/map.h"
#include "common/vector.h"
#include "platform/windows/etl_payload.h"
#include "platform/windows/etl_schema.h"
#include "platform/windows/trace.h"

#define PENDING_MAX 16 /* newest kept samples of a thread that a kernel half may belong to */

/* Kept samples of a thread that may still get stack halves. */
struct pending {
	uint64_t times[PENDING_MAX];
	uint32_t count; /* of all since the last user half; the newest PENDING_MAX have their time here */
};

struct sp_etl_filter {
	const struct sp_etl_oracle *oracle;
	uint8_t pointer_size;
	bool failed;
	SP_VECTOR(struct pending) pending;
	struct sp_map by_tid;                 /* tid (idle: 1 << 32 | CPU) -> index into pending */
	struct sp_map kernel_keys, user_keys; /* keys that kept references use */
};

struct sp_etl_filter *sp_etl_filter_create(const struct sp_etl_oracle *oracle, uint8_t pointer_size)
{
	struct sp_etl_filter *filter = calloc(1, sizeof(*filter));
	if (!filter)
		return NULL;
	filter->oracle = oracle;
	filter->pointer_size = pointer_size;
	return filter;
}

void sp_etl_filter_destroy(struct sp_etl_filter *filter)
{
	if (!filter)
		return;
	sp_vector_deinit(&filter->pending);
	sp_map_deinit(&filter->by_tid);
	sp_map_deinit(&filter->kernel_keys);
	sp_map_deinit(&filter->user_keys);
	free(filter);
}

bool sp_etl_filter_failed(const struct sp_etl_filter *filter)
{
	return filter->failed;
}

/* ---- The oracle's answers ---- */

static bool wants_pid(const struct sp_etl_filter *filter, uint32_t pid, uint64_t time)
{
	return pid != SP_ETL_ID_UNKNOWN && filter->oracle->is_wanted(filter->oracle->context, pid, time);
}

static bool wants_tid(const struct sp_etl_filter *filter, uint32_t tid, uint64_t time)
{
	if (tid == SP_ETL_ID_UNKNOWN)
		return false;
	uint32_t pid = tid ? filter->oracle->pid_of(filter->oracle->context, tid, time) : 0;
	return wants_pid(filter, pid, time);
}

static bool wants_time(const struct sp_etl_filter *filter, uint64_t time)
{
	return filter->oracle->is_wanted_time(filter->oracle->context, time);
}

/* ---- Samples and stacks ---- */

static uint64_t thread_key(uint32_t tid, uint16_t cpu)
{
	return tid ? tid : (uint64_t)1 << 32 | cpu;
}

static void expect_stack(struct sp_etl_filter *filter, uint32_t tid, uint16_t cpu, uint64_t time)
{
	const uint64_t *found = sp_map_get(&filter->by_tid, thread_key(tid, cpu));
	size_t index = found ? (size_t)*found : filter->pending.count;
	if (!found && (!sp_vector_push(&filter->pending, (struct pending){ .count = 0 }) ||
	               !sp_map_put(&filter->by_tid, thread_key(tid, cpu), index))) {
		filter->failed = true;
		return;
	}
	struct pending *pending = &filter->pending.items[index];
	pending->times[pending->count++ % PENDING_MAX] = time;
}

static struct pending *pending_of(const struct sp_etl_filter *filter, uint32_t tid, uint16_t cpu)
{
	const uint64_t *found = sp_map_get(&filter->by_tid, thread_key(tid, cpu));
	return found ? &filter->pending.items[*found] : NULL;
}

static bool wants_kernel_half(const struct pending *pending, uint64_t time)
{
	for (uint32_t i = 0; pending && i < pending->count && i < PENDING_MAX; i++)
		if (pending->times[i] == time)
			return true;
	return false;
}

/* A user half completes all that the thread waits for up to its time. */
static bool wants_user_half(struct pending *pending, uint64_t time)
{
	bool wanted = false;
	uint32_t kept = 0;
	uint64_t later[PENDING_MAX];
	if (!pending || !pending->count)
		return false;
	wanted = pending->count > PENDING_MAX;
	for (uint32_t i = 0; i < pending->count && i < PENDING_MAX; i++) {
		if (pending->times[i] <= time)
			wanted = true;
		else
			later[kept++] = pending->times[i];
	}
	if (wanted) {
		memcpy(pending->times, later, kept * sizeof(*later));
		pending->count = kept;
	}
	return wanted;
}

static void use_key(struct sp_etl_filter *filter, bool kernel, uint64_t key)
{
	if (!sp_map_put(kernel ? &filter->kernel_keys : &filter->user_keys, key, 1))
		filter->failed = true;
}

static bool keeps_definition(struct sp_etl_filter *filter, const struct sp_etl_event *event,
                             const struct sp_etl_stack *stack)
{
	if (!stack->frame_count)
		return false;
	uint64_t last = sp_etl_pointer(stack->frames, event->pointer_size, stack->frame_count - 1);
	bool kernel = sp_etl_is_kernel(last, filter->pointer_size);
	return sp_map_remove(kernel ? &filter->kernel_keys : &filter->user_keys, stack->key);
}

static bool keeps_stack(struct sp_etl_filter *filter, const struct sp_etl_event *event)
{
	struct sp_etl_stack stack;
	uint8_t code = event->opcode;
	if ((code != SP_ETL_STACK_WALK && (code < SP_ETL_STACK_DELETE || code > SP_ETL_STACK_USER_KEY)) ||
	    !sp_etl_stack_parse(event, &stack))
		return false;
	if (code == SP_ETL_STACK_DELETE || code == SP_ETL_STACK_RUNDOWN)
		return keeps_definition(filter, event, &stack);
	uint64_t time = filter->oracle->stack_time(filter->oracle->context, event, stack.event_time);
	struct pending *pending = pending_of(filter, stack.tid, event->cpu);
	bool kernel = code == SP_ETL_STACK_KERNEL_KEY, user = code == SP_ETL_STACK_USER_KEY, keeps = false;
	if (code == SP_ETL_STACK_WALK && stack.frame_count) {
		uint64_t first = sp_etl_pointer(stack.frames, event->pointer_size, 0);
		uint64_t last = sp_etl_pointer(stack.frames, event->pointer_size, stack.frame_count - 1);
		kernel = sp_etl_is_kernel(first, filter->pointer_size);
		user = !sp_etl_is_kernel(last, filter->pointer_size);
	}
	if (kernel)
		keeps = wants_kernel_half(pending, time);
	if (user)
		keeps = wants_user_half(pending, time) || keeps;
	if (keeps && code != SP_ETL_STACK_WALK)
		use_key(filter, kernel, stack.key);
	return keeps;
}

static bool keeps_perf(struct sp_etl_filter *filter, const struct sp_etl_event *event)
{
	struct sp_etl_sample sample;
	if (event->opcode != SP_ETL_PERF_SAMPLE && event->opcode != SP_ETL_PERF_PMC)
		return event->opcode >= SP_ETL_PERF_SET_INTERVAL && event->opcode <= SP_ETL_PERF_STOP;
	if (!wants_time(filter, event->time) || !sp_etl_sample_parse(event, &sample) ||
	    !wants_tid(filter, sample.tid, event->time))
		return false;
	expect_stack(filter, sample.tid, event->cpu, event->time);
	return true;
}

/* ---- Others ---- */

static bool keeps_thread(struct sp_etl_filter *filter, const struct sp_etl_event *event)
{
	struct sp_etl_thread thread;
	struct sp_etl_switch change;
	uint32_t tid;
	if (event->opcode == SP_ETL_THREAD_CSWITCH) {
		if (!wants_time(filter, event->time) || !sp_etl_switch_parse(event, &change))
			return false;
		bool comes = change.new_tid && wants_tid(filter, change.new_tid, event->time);
		bool goes = change.old_tid && wants_tid(filter, change.old_tid, event->time);
		if (comes)
			expect_stack(filter, change.new_tid, event->cpu, event->time);
		return comes || goes;
	}
	if (event->opcode == SP_ETL_THREAD_READY)
		return wants_time(filter, event->time) && sp_etl_ready_parse(event, &tid) &&
		       wants_tid(filter, tid, event->time);
	bool told = event->opcode >= SP_ETL_START && event->opcode <= SP_ETL_DC_STOP;
	return (told || event->opcode == SP_ETL_THREAD_SET_NAME) && sp_etl_thread_parse(event, &thread) &&
	       wants_pid(filter, thread.pid, event->time);
}

static bool keeps_image(const struct sp_etl_filter *filter, uint32_t pid, uint64_t base, uint64_t time)
{
	return !pid || sp_etl_is_kernel(base, filter->pointer_size) || wants_pid(filter, pid, time);
}

static bool keeps_kernel(struct sp_etl_filter *filter, const struct sp_etl_event *event)
{
	struct sp_etl_process process;
	struct sp_etl_image image;
	switch (event->group) {
	case SP_ETL_GROUP_TRACE:
		return event->opcode != SP_ETL_TRACE_HEADER;
	case SP_ETL_GROUP_CONFIG: /* the other ones list services and devices */
		return event->opcode == SP_ETL_CONFIG_CPU || event->opcode == SP_ETL_CONFIG_PLATFORM;
	case SP_ETL_GROUP_PERFINFO:
		return keeps_perf(filter, event);
	case SP_ETL_GROUP_STACK:
		return keeps_stack(filter, event);
	case SP_ETL_GROUP_THREAD:
		return keeps_thread(filter, event);
	case SP_ETL_GROUP_PROCESS:
		return event->opcode >= SP_ETL_START && event->opcode <= SP_ETL_DC_STOP &&
		       sp_etl_process_parse(event, &process) && wants_pid(filter, process.pid, event->time);
	case SP_ETL_GROUP_IMAGE:
		return sp_etl_image_parse(event, &image) && keeps_image(filter, image.pid, image.base, event->time);
	default:
		return false;
	}
}

static bool keeps_image_id(const struct sp_etl_filter *filter, const struct sp_etl_event *event)
{
	struct sp_etl_image_id id;
	if (event->opcode != SP_ETL_IMAGE_ID && event->opcode != SP_ETL_IMAGE_RSDS &&
	    event->opcode != SP_ETL_IMAGE_IL_RSDS && event->opcode != SP_ETL_IMAGE_PORTABLE_PDB)
		return false;
	return sp_etl_image_id_parse(event, &id) && keeps_image(filter, id.pid, id.base, event->time);
}

bool sp_etl_filter_keeps(struct sp_etl_filter *filter, const struct sp_etl_event *event)
{
	if (event->group != SP_ETL_GROUP_NONE || !event->guid)
		return keeps_kernel(filter, event);
	if (event->type == SP_ETL_TYPE_FULL32 || event->type == SP_ETL_TYPE_FULL64) {
		if (sp_guid_equal(event->guid, &sp_etl_guid_image_id))
			return keeps_image_id(filter, event);
		if (sp_guid_equal(event->guid, &sp_etl_guid_system) || sp_guid_equal(event->guid, &sp_etl_guid_rt_lost))
			return true;
		if (sp_guid_equal(event->guid, &sp_etl_guid_metadata))
			return event->payload_size >= SP_GUID_SIZE &&
			       filter->oracle->is_wanted_provider(filter->oracle->context, event->payload);
	}
	if (!wants_pid(filter, event->pid, event->time))
		return false;
	/* Methods name what samples of any time ran. */
	return sp_trace_is_code(event) || (wants_time(filter, event->time) &&
	                                   filter->oracle->is_wanted_provider(filter->oracle->context, event->guid));
}
