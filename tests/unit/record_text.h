/* Records as text, for tests to compare: every field is spelled out, so the same function says what was written and
 * what was read. */
#ifndef SP_TESTS_RECORD_TEXT_H
#define SP_TESTS_RECORD_TEXT_H

#include "sampler/profile/stack_node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEXT_MAX (8 << 20)

struct text {
	char bytes[TEXT_MAX];
	size_t size;
};

static inline void say(struct text *text, const char *format, ...) SP_PRINTF(2, 3);
static inline void say(struct text *text, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int n = vsnprintf(text->bytes + text->size, TEXT_MAX - text->size, format, args);
	va_end(args);
	assert_true(n >= 0 && (size_t)n < TEXT_MAX - text->size);
	text->size += (size_t)n;
}

static inline const char *or_null(const char *string)
{
	return string ? string : "(null)";
}

static inline void say_frame(struct text *text, const struct sp_frame *frame)
{
	say(text, " %llx/%u/%u/%u", (unsigned long long)frame->address, frame->kind, frame->mode, frame->origin);
}

static inline void render_sample(struct text *t, const struct sp_record_sample *r,
                                 const struct sp_recording_reader *reader)
{
	say(t, "sample thread %u source %u time %llu cpu %u end %u label %s delta %llu/%d weight %lld:", r->thread,
	    r->source, (unsigned long long)r->time, r->cpu, r->end, or_null(r->label),
	    r->cpu_delta_known ? (unsigned long long)r->cpu_delta : 0, r->cpu_delta_known, (long long)r->weight);
	if (!reader) {
		for (uint32_t i = 0; i < r->frame_count; i++)
			say_frame(t, &r->frames[i]);
	} else {
		size_t count;
		const struct sp_stack_node *nodes = sp_recording_stack_nodes(reader, &count);
		for (uint32_t node = r->stack; node != SP_HANDLE_NONE; node = nodes[node].parent) {
			struct sp_frame frame = sp_stack_frame(nodes[node].address, nodes[node].flags);
			assert_true(nodes[node].parent == SP_HANDLE_NONE || nodes[node].parent < node);
			say_frame(t, &frame);
		}
	}
}

static inline void render(struct text *t, const struct sp_record *r, const struct sp_recording_reader *reader)
{
	switch (r->type) {
	case SP_RECORD_META:
		say(t, "meta %s = %s", r->meta.key, r->meta.value);
		break;
	case SP_RECORD_CLOCK:
		say(t, "clock %s %llu %llu", r->clock.name, (unsigned long long)r->clock.time,
		    (unsigned long long)r->clock.wall_ns);
		break;
	case SP_RECORD_SOURCE:
		say(t, "source %u %s %s %d %g", r->source.source, r->source.name, r->source.unit, r->source.off_cpu,
		    r->source.rate);
		break;
	case SP_RECORD_PROCESS:
		say(t, "process %u previous %u parent %u pid %u generation %u time %llu found %d %s %s",
		    r->process.process, r->process.previous, r->process.parent, r->process.pid, r->process.generation,
		    (unsigned long long)r->process.time, r->process.found, r->process.name,
		    or_null(r->process.command_line));
		break;
	case SP_RECORD_PROCESS_END:
		say(t, "process end %u %llu", r->process_end.process, (unsigned long long)r->process_end.time);
		break;
	case SP_RECORD_THREAD:
		say(t, "thread %u process %u tid %u time %llu main %d %s", r->thread.thread, r->thread.process,
		    r->thread.tid, (unsigned long long)r->thread.time, r->thread.main, r->thread.name);
		break;
	case SP_RECORD_THREAD_NAME:
		say(t, "thread name %u %llu %s", r->thread_name.thread, (unsigned long long)r->thread_name.time,
		    r->thread_name.name);
		break;
	case SP_RECORD_THREAD_END:
		say(t, "thread end %u %llu", r->thread_end.thread, (unsigned long long)r->thread_end.time);
		break;
	case SP_RECORD_MODULE:
		say(t, "module %u %u %s %s %s %s %s %s %s %s %s", r->module.module, r->module.kind, r->module.name,
		    r->module.path, r->module.debug_name, r->module.debug_path, r->module.debug_id, r->module.code_id,
		    r->module.arch, or_null(r->module.kept_path), or_null(r->module.note));
		break;
	case SP_RECORD_MAPPING:
		say(t, "mapping %u %u %llu %llx+%llx base %llx", r->mapping.process, r->mapping.module,
		    (unsigned long long)r->mapping.time, (unsigned long long)r->mapping.start,
		    (unsigned long long)r->mapping.size, (unsigned long long)r->mapping.base);
		break;
	case SP_RECORD_UNMAPPING:
		say(t, "unmapping %u %llu %llx+%llx", r->unmapping.process, (unsigned long long)r->unmapping.time,
		    (unsigned long long)r->unmapping.start, (unsigned long long)r->unmapping.size);
		break;
	case SP_RECORD_JIT_FUNCTION:
		say(t, "jit %u %llu %llx+%llx %s %d", r->jit_function.process, (unsigned long long)r->jit_function.time,
		    (unsigned long long)r->jit_function.start, (unsigned long long)r->jit_function.size,
		    or_null(r->jit_function.name), r->jit_function.late);
		break;
	case SP_RECORD_SAMPLE:
		render_sample(t, &r->sample, reader);
		break;
	case SP_RECORD_MARKER:
		say(t, "marker %u %llu-%llu %s %s", r->marker.thread, (unsigned long long)r->marker.time,
		    (unsigned long long)r->marker.end_time, r->marker.name, or_null(r->marker.text));
		break;
	case SP_RECORD_COUNTER:
		say(t, "counter %u %u %s %s %s %s", r->counter.counter, r->counter.process, r->counter.name,
		    r->counter.category, r->counter.description, r->counter.unit);
		break;
	case SP_RECORD_COUNTER_VALUE:
		say(t, "counter value %u %llu %g", r->counter_value.counter, (unsigned long long)r->counter_value.time,
		    r->counter_value.delta);
		break;
	case SP_RECORD_LOSS:
		say(t, "loss %u thread %u cpu %u %llu-%llu %llu", r->loss.kind, r->loss.thread, r->loss.cpu,
		    (unsigned long long)r->loss.time, (unsigned long long)r->loss.end_time,
		    (unsigned long long)r->loss.count);
		break;
	}
	say(t, "\n");
}

static inline void ok(struct sp_error *error)
{
	if (error)
		fail_msg("%s", error->message);
}

#endif
