/* A scripted capture: streams that give listed events, and a target whose files and memory are the test's. */
#ifndef SP_TESTS_FAKE_CAPTURE_H
#define SP_TESTS_FAKE_CAPTURE_H

#include "record_text.h"
#include "sampler/record/pipeline.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <unistd.h>

#define FAKE_EVENTS 4096

struct fake_stream {
	struct sp_stream stream;
	struct sp_event events[FAKE_EVENTS];
	size_t count, given, released;
	size_t store; /* events that fill the stream; 0 = it has no pressure */
	bool spoil;   /* overwrite the stack bytes of what is released */
};

static inline bool fake_next(struct sp_stream *stream, struct sp_event *ret)
{
	struct fake_stream *fake = stream->context;
	if (fake->given == fake->count)
		return false;
	*ret = fake->events[fake->given++];
	return true;
}

static inline void fake_release(struct sp_stream *stream, size_t count)
{
	struct fake_stream *fake = stream->context;
	assert_true(count <= fake->given - fake->released);
	for (size_t i = 0; i < count; i++) {
		struct sp_event *event = &fake->events[fake->released++];
		if (fake->spoil && event->kind == SP_EVENT_SAMPLE) {
			memset((void *)(uintptr_t)event->sample.stack.bytes, 0xee, event->sample.stack.size);
			memset((void *)(uintptr_t)event->sample.kernel_chain, 0xee,
			       event->sample.kernel_chain_count * 8);
		}
	}
}

static inline uint8_t fake_pressure(struct sp_stream *stream)
{
	struct fake_stream *fake = stream->context;
	size_t used = (fake->given - fake->released) * 255 / fake->store;
	return used > 255 ? 255 : (uint8_t)used;
}

static const struct sp_stream_ops fake_ops = { .next = fake_next, .release = fake_release };
static const struct sp_stream_ops fake_full_ops = { .next = fake_next,
	                                            .release = fake_release,
	                                            .pressure = fake_pressure };

static inline void fake_init(struct fake_stream *fake)
{
	memset(fake, 0, sizeof(*fake));
	fake->stream.ops = &fake_ops;
	fake->stream.context = fake;
}

static inline struct sp_event *fake_add(struct fake_stream *fake, enum sp_event_kind kind, uint64_t time, uint32_t pid,
                                        uint32_t tid)
{
	assert_true(fake->count < FAKE_EVENTS);
	struct sp_event *event = &fake->events[fake->count++];
	*event = (struct sp_event){ .kind = kind, .time = time, .pid = pid, .tid = tid, .cpu = SP_CPU_NONE };
	return event;
}

static inline void fake_fork(struct fake_stream *fake, uint64_t time, uint32_t pid, uint32_t tid, uint32_t parent)
{
	struct sp_event *event = fake_add(fake, SP_EVENT_THREAD_START, time, pid, tid);
	event->thread_start.parent_pid = event->thread_start.parent_tid = parent;
}

static inline void fake_named(struct fake_stream *fake, enum sp_event_kind kind, uint64_t time, uint32_t pid,
                              const char *name)
{
	fake_add(fake, kind, time, pid, pid)->name.name = name;
}

/* A sample in the kernel without a user part: its frame is `ip`. */
static inline struct sp_event *fake_sample(struct fake_stream *fake, uint64_t time, uint32_t pid, uint32_t tid,
                                           uint64_t ip)
{
	struct sp_event *event = fake_add(fake, SP_EVENT_SAMPLE, time, pid, tid);
	event->sample.in_kernel = true;
	event->sample.ip = ip;
	return event;
}

static inline struct sp_event *fake_map(struct fake_stream *fake, uint64_t time, uint32_t pid, const char *path,
                                        uint64_t start, uint64_t size)
{
	struct sp_event *event = fake_add(fake, SP_EVENT_MAP, time, pid, pid);
	event->map.path = path;
	event->map.start = start;
	event->map.size = size;
	event->map.executable = true;
	return event;
}

/* ---- The target ---- */

struct sp_backend {
	pthread_mutex_t lock;
	pthread_cond_t opened;
	bool closed_gate;   /* "/gate" does not open until this is false */
	const char *folder; /* for perf maps */
	unsigned opens;
};

static inline void fake_backend_init(struct sp_backend *backend)
{
	*backend = (struct sp_backend){ .folder = "/nonexistent" };
	pthread_mutex_init(&backend->lock, NULL);
	pthread_cond_init(&backend->opened, NULL);
}

static inline void fake_open_gate(struct sp_backend *backend)
{
	pthread_mutex_lock(&backend->lock);
	backend->closed_gate = false;
	pthread_cond_broadcast(&backend->opened);
	pthread_mutex_unlock(&backend->lock);
}

static inline struct sp_error *fake_open_mapped_file(struct sp_backend *backend, uint32_t pid,
                                                     const struct sp_event_map *map, int *ret_fd)
{
	(void)pid;
	char path[512];
	snprintf(path, sizeof(path), "%s", map->path);
	char *deleted = strstr(path, " (deleted)");
	if (deleted)
		strcpy(deleted, ".deleted");
	pthread_mutex_lock(&backend->lock);
	backend->opens++;
	while (!strcmp(map->path, "/gate") && backend->closed_gate)
		pthread_cond_wait(&backend->opened, &backend->lock);
	pthread_mutex_unlock(&backend->lock);
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
	return *ret_fd < 0 ? sp_error_create(SP_ERROR_NOT_FOUND, "%s is not there", path) : NULL;
}

static inline struct sp_error *fake_read_memory(struct sp_backend *backend, uint32_t pid, uint64_t address,
                                                void *buffer, size_t size)
{
	(void)backend;
	(void)pid;
	/* The test's own vdso is all there is. */
	if (!address || address != getauxval(AT_SYSINFO_EHDR) || size > 4096)
		return sp_error_create(SP_ERROR_NOT_FOUND, "nothing is mapped there");
	memcpy(buffer, (const void *)(uintptr_t)address, size);
	return NULL;
}

static inline struct sp_error *fake_target_path(struct sp_backend *backend, uint32_t pid, const char *path, char **ret)
{
	(void)pid;
	const char *name = strrchr(path, '/');
	*ret = malloc(strlen(backend->folder) + strlen(name) + 1);
	assert_non_null(*ret);
	strcpy(*ret, backend->folder);
	strcat(*ret, name);
	return NULL;
}

/* In a namespace where all numbers are 1000 less. */
static inline uint32_t fake_target_pid(struct sp_backend *backend, uint32_t pid)
{
	(void)backend;
	return pid > 1000 ? pid - 1000 : pid;
}

static inline char *fake_command_line(struct sp_backend *backend, uint32_t pid)
{
	(void)backend;
	char line[32];
	snprintf(line, sizeof(line), "command %u", pid);
	return strdup(line);
}

static const struct sp_backend_ops fake_backend = {
	.name = "fake",
	.open_mapped_file = fake_open_mapped_file,
	.read_memory = fake_read_memory,
	.target_path = fake_target_path,
	.target_pid = fake_target_pid,
	.command_line = fake_command_line,
};

#endif
