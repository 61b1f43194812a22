/* Writes to a file what the native backend reports, one JSON object a line: the backend alone, without the sampler
 * behind it.
 *
 * usage: print_events -o FILE [options] [VAR=value...] [command...]
 *
 *   -p PID, -d SECONDS, -r RATE, -s STACK-BYTES: as for sp record
 *   -w MILLISECONDS: sleep that long between two looks at the rings, so that they fill up
 *   -i: interrupt the first wait, and end
 *   -l: wait without a limit of time
 *
 * The first line is {"info": ...}, the last {"end": ...}. Ends with status 2 and the error on stderr when the capture
 * can't be opened. */
#include "common/clock.h"
#include "common/json.h"
#include "sampler/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct totals {
	uint64_t samples, lost, throttled, late;
	uint64_t last_time; /* of the stream being read */
	uint64_t stack_sum; /* of all stack bytes: they must be readable until released */
};

/* The file that is written. */
static struct sp_error *write_out(void *context, const void *bytes, size_t size)
{
	return fwrite(bytes, 1, size, context) == size ? NULL : sp_error_create(SP_ERROR_SYSTEM, "cannot write");
}

static void key_string(struct sp_json *json, const char *key, const char *value)
{
	sp_json_key(json, key);
	sp_json_string(json, value);
}

static void key_uint(struct sp_json *json, const char *key, uint64_t value)
{
	sp_json_key(json, key);
	sp_json_uint(json, value);
}

static void key_bool(struct sp_json *json, const char *key, bool value)
{
	sp_json_key(json, key);
	sp_json_bool(json, value);
}

static void print_map(struct sp_json *json, const struct sp_event_map *map)
{
	key_uint(json, "start", map->start);
	key_uint(json, "size", map->size);
	key_uint(json, "offset", map->file_offset);
	key_string(json, "path", map->path);
	key_uint(json, "inode", map->inode);
	key_bool(json, "executable", map->executable);
	char build_id[2 * SP_BUILD_ID_MAX + 1] = "";
	for (unsigned i = 0; i < map->build_id_size; i++)
		snprintf(build_id + 2 * i, 3, "%02x", map->build_id[i]);
	key_string(json, "build_id", build_id);
}

/* The backend whose event is printed, to try its look into the target while that lives. */
struct target {
	const struct sp_backend_ops *ops;
	struct sp_backend *backend;
};

/* Whether the file behind the mapping opens, and the first bytes of the mapping, read from the process. */
static void print_look(struct sp_json *json, const struct target *target, const struct sp_event *event)
{
	int fd = -1;
	struct sp_error *error = target->ops->open_mapped_file(target->backend, event->pid, &event->map, &fd);
	key_string(json, "file", error ? error->message : "open");
	sp_error_destroy(error);
	if (fd >= 0)
		close(fd);
	uint8_t bytes[4];
	error = target->ops->read_memory(target->backend, event->pid, event->map.start, bytes, sizeof(bytes));
	key_string(json, "memory", error ? error->message : "read");
	sp_error_destroy(error);
}

static void print_sample(struct sp_json *json, const struct sp_event_sample *sample)
{
	key_bool(json, "kernel", sample->in_kernel);
	key_uint(json, "ip", sample->ip);
	key_uint(json, "period", sample->period);
	key_uint(json, "known_registers", sample->regs.known);
	key_uint(json, "stack", sample->stack.size);
	key_bool(json, "cut", sample->stack_cut);
	key_uint(json, "kernel_chain", sample->kernel_chain_count);
	key_uint(json, "user_chain", sample->user_chain_count);
}

static const char *const kinds[] = { "start", "exit",   "name", "exec", "map",  "unmap", "kernel_module",
	                             "jit",   "sample", "in",   "out",  "loss", "marker" };

static void print_event(struct sp_json *json, FILE *out, const struct target *target, const struct sp_event *event,
                        bool late)
{
	sp_json_init(json, write_out, out);
	sp_json_object_begin(json);
	key_string(json, "kind", kinds[event->kind]);
	key_uint(json, "time", event->time);
	key_uint(json, "pid", event->pid);
	key_uint(json, "tid", event->tid);
	key_uint(json, "cpu", event->cpu);
	key_bool(json, "found", event->found);
	key_bool(json, "late", late);
	switch (event->kind) {
	case SP_EVENT_THREAD_START:
		key_uint(json, "parent_pid", event->thread_start.parent_pid);
		key_string(json, "name", event->thread_start.name);
		break;
	case SP_EVENT_NAME:
	case SP_EVENT_EXEC:
		key_string(json, "name", event->name.name);
		break;
	case SP_EVENT_MAP:
		print_map(json, &event->map);
		print_look(json, target, event);
		break;
	case SP_EVENT_KERNEL_MODULE:
		print_map(json, &event->map);
		break;
	case SP_EVENT_SAMPLE:
		print_sample(json, &event->sample);
		break;
	case SP_EVENT_SWITCH_OUT:
		key_bool(json, "preempted", event->context_switch.preempted);
		break;
	case SP_EVENT_LOSS:
		key_uint(json, "loss", event->loss.kind);
		key_uint(json, "count", event->loss.count);
		key_uint(json, "end_time", event->loss.end_time);
		break;
	default:
		break;
	}
	sp_json_object_end(json);
	sp_error_destroy(sp_json_finish(json));
	fputc('\n', out);
}

static void print_info(struct sp_json *json, FILE *out, const struct sp_capture_info *info)
{
	sp_json_init(json, write_out, out);
	sp_json_object_begin(json);
	sp_json_key(json, "info");
	sp_json_object_begin(json);
	key_string(json, "mode", info->mode);
	key_string(json, "shortfall", info->shortfall);
	key_string(json, "cure", info->cure);
	key_bool(json, "kernel_sampled", info->kernel_sampled);
	key_bool(json, "whole_system", info->whole_system);
	sp_json_key(json, "rate");
	sp_json_double(json, info->rate);
	key_string(json, "rate_note", info->rate_note);
	key_uint(json, "ring_bytes", info->ring_bytes);
	key_uint(json, "root_pid", info->root_pid);
	key_string(json, "source", info->sources[0].name);
	sp_json_object_end(json);
	sp_json_object_end(json);
	sp_error_destroy(sp_json_finish(json));
	fputc('\n', out);
}

static void print_end(struct sp_json *json, FILE *out, const struct totals *totals, struct sp_exit_status status,
                      struct sp_capture_counts counts)
{
	sp_json_init(json, write_out, out);
	sp_json_object_begin(json);
	sp_json_key(json, "end");
	sp_json_object_begin(json);
	key_bool(json, "exited", status.exited);
	sp_json_key(json, "code");
	sp_json_int(json, status.code);
	sp_json_key(json, "signal");
	sp_json_int(json, status.signal);
	sp_json_key(json, "exec_errno");
	sp_json_int(json, status.exec_errno);
	key_uint(json, "samples", totals->samples);
	key_uint(json, "told_lost", totals->lost);
	key_uint(json, "late", totals->late);
	key_uint(json, "lost", counts.lost);
	key_uint(json, "throttled", counts.throttled);
	key_uint(json, "stack_sum", totals->stack_sum);
	sp_json_object_end(json);
	sp_json_object_end(json);
	sp_error_destroy(sp_json_finish(json));
	fputc('\n', out);
}

static void note(struct totals *totals, const struct sp_event *event)
{
	if (event->kind == SP_EVENT_SAMPLE) {
		totals->samples++;
		for (size_t i = 0; i < event->sample.stack.size; i++)
			totals->stack_sum += event->sample.stack.bytes[i];
	}
	if (event->kind == SP_EVENT_LOSS && event->loss.kind != SP_LOSS_THROTTLED)
		totals->lost += event->loss.count;
}

static void drain(struct sp_json *json, FILE *out, const struct target *target, uint64_t passed, struct totals *totals)
{
	for (size_t i = 0; i < target->ops->stream_count(target->backend); i++) {
		struct sp_stream *stream = target->ops->stream(target->backend, i);
		struct sp_event event;
		size_t held = 0;
		while (stream->ops->next(stream, &event)) {
			bool late = i > 0 && event.time < passed && event.kind != SP_EVENT_LOSS;
			totals->late += late;
			note(totals, &event);
			print_event(json, out, target, &event, late);
			if (++held < 64)
				continue;
			stream->ops->release(stream, held);
			held = 0;
		}
		stream->ops->release(stream, held);
	}
}

static int fail(struct sp_error *error)
{
	fprintf(stderr, "%s\n", error->message);
	sp_error_destroy(error);
	return 2;
}

int main(int argc, char **argv)
{
	struct sp_capture_options options = { .rate = 1000 };
	double seconds = 1e9;
	unsigned nap_ms = 0;
	bool interrupt = false;
	int timeout_ms = 100;
	FILE *out = NULL;
	for (int c; (c = getopt(argc, argv, "+o:p:d:r:s:w:il")) != -1;) {
		if (c == 'o')
			out = fopen(optarg, "we");
		else if (c == 'p')
			options.pid = (uint32_t)atoi(optarg);
		else if (c == 'd')
			seconds = atof(optarg);
		else if (c == 'r')
			options.rate = atof(optarg);
		else if (c == 's')
			options.stack_bytes = (uint32_t)atoi(optarg);
		else if (c == 'w')
			nap_ms = (unsigned)atoi(optarg);
		else if (c == 'i' || c == 'l') {
			interrupt = c == 'i';
			timeout_ms = -1;
		} else
			return 2;
	}
	if (!out)
		return 2;
	char *env[16] = { NULL };
	for (int i = 0; i < 15 && optind < argc && strchr(argv[optind], '=') && !options.pid; i++)
		env[i] = argv[optind++];
	options.env = env;
	options.argv = optind < argc ? argv + optind : NULL;

	static struct sp_json writer; /* large */
	struct sp_json *json = &writer;
	struct target target = { .ops = sp_native_backend };
	struct sp_error *error = target.ops->create(&options, &target.backend);
	if (error)
		return fail(error);
	print_info(json, out, target.ops->info(target.backend));
	error = target.ops->start(target.backend);
	if (error)
		return fail(error);
	if (interrupt)
		target.ops->interrupt(target.backend);
	struct totals totals = { 0 };
	struct sp_exit_status status;
	uint64_t begin = sp_clock_now(), watermark = 0;
	for (bool done = false; !done;) {
		uint64_t passed = watermark;
		status = target.ops->status(target.backend);
		done = status.exited || status.exec_errno || (double)(sp_clock_now() - begin) > seconds * 1e9;
		if (done)
			target.ops->stop(target.backend);
		else
			error = target.ops->wait(target.backend, timeout_ms, &watermark);
		if (error)
			return fail(error);
		if (interrupt)
			seconds = 0;
		drain(json, out, &target, passed, &totals);
		usleep(nap_ms * 1000);
	}
	print_end(json, out, &totals, status, target.ops->counts(target.backend));
	target.ops->destroy(target.backend);
	return fclose(out) ? 2 : 0;
}
