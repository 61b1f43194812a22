/* What was found, not seen happening; see found.h. */
#include "platform/linux/found.h"

#include "platform/linux/kernel.h"
#include "platform/linux/proc.h"

#include <string.h>

static bool found_next(struct sp_stream *stream, struct sp_event *ret)
{
	struct sp_found_events *found = stream->context;
	if (found->next == found->events.count)
		return false;
	*ret = found->events.items[found->next++];
	return true;
}

/* Strings live as long as the stream. */
static void found_release(struct sp_stream *stream, size_t count)
{
	(void)stream;
	(void)count;
}

static const struct sp_stream_ops found_ops = { .next = found_next, .release = found_release };

void sp_found_events_init(struct sp_found_events *found)
{
	*found = (struct sp_found_events){ .stream = { .ops = &found_ops, .context = found } };
}

void sp_found_events_deinit(struct sp_found_events *found)
{
	sp_vector_deinit(&found->events);
	sp_arena_deinit(&found->arena);
}

static struct sp_error *copy_string(struct sp_found_events *found, const char **string)
{
	if (!*string)
		return NULL;
	*string = sp_arena_strndup(&found->arena, *string, strlen(*string));
	return *string ? NULL : sp_error_no_memory();
}

struct sp_error *sp_found_events_add(struct sp_found_events *found, const struct sp_event *event)
{
	struct sp_event copy = *event;
	copy.found = true;
	copy.cpu = SP_CPU_NONE;
	struct sp_error *error = NULL;
	if (copy.kind == SP_EVENT_THREAD_START)
		error = copy_string(found, &copy.thread_start.name);
	else if (copy.kind == SP_EVENT_MAP || copy.kind == SP_EVENT_KERNEL_MODULE)
		error = copy_string(found, &copy.map.path);
	if (!error && !sp_vector_push(&found->events, copy))
		error = sp_error_no_memory();
	return error;
}

struct sp_error *sp_found_events_add_thread(struct sp_found_events *found, uint64_t time, uint32_t pid, uint32_t tid,
                                            uint32_t parent_pid)
{
	char name[64];
	struct sp_event event = { .kind = SP_EVENT_THREAD_START, .time = time, .pid = pid, .tid = tid };
	event.thread_start.parent_pid = parent_pid;
	event.thread_start.parent_tid = parent_pid;
	if (sp_proc_name(pid, tid, name, sizeof(name)))
		event.thread_start.name = name;
	return sp_found_events_add(found, &event);
}

struct add_map {
	struct sp_found_events *found;
	uint64_t time;
	uint32_t pid;
};

static struct sp_error *add_map(void *context, const struct sp_event_map *map)
{
	const struct add_map *add = context;
	if (!map->executable)
		return NULL;
	struct sp_event event = { .kind = SP_EVENT_MAP, .time = add->time, .pid = add->pid, .tid = add->pid };
	event.map = *map;
	return sp_found_events_add(add->found, &event);
}

struct sp_error *sp_found_events_add_maps(struct sp_found_events *found, uint64_t time, uint32_t pid)
{
	struct add_map add = { .found = found, .time = time, .pid = pid };
	return sp_proc_maps(pid, add_map, &add);
}

static struct sp_error *add_kernel_module(void *context, const struct sp_event_map *module)
{
	const struct add_map *add = context;
	struct sp_event event = { .kind = SP_EVENT_KERNEL_MODULE, .time = add->time };
	event.map = *module;
	return sp_found_events_add(add->found, &event);
}

struct sp_error *sp_found_events_add_kernel(struct sp_found_events *found, uint64_t time)
{
	struct add_map add = { .found = found, .time = time };
	return sp_kernel_list(add_kernel_module, &add);
}
