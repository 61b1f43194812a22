/* Makes recordings and profiles for the tests, without sampling anything.
 *
 * profile_tool record FILE < SCRIPT      a recording from a script: a JSON object a line, each a record
 * profile_tool profile RECORDING PROFILE [--version N] [--name TEXT] [--main-thread-only] [--reuse-threads]
 *              [--fold-recursive-prefix] [--include-args N] [--presymbolicate]
 * profile_tool synthetic FILE PROFILE SAMPLES   a compiler-like recording, followed as it grows; prints costs
 *
 * A line of a script names its kind in "record" ("meta", "process", "sample" ...) and has the fields of that record of
 * sampler/profile/model.h by their names; a field left out is 0, false or none. A stack is "frames": [[address, kind,
 * mode, origin], ...], leaf first, of which all but the address may be left out. Numbers past 2^53 are written as
 * strings. */
#include "common/clock.h"
#include "common/log.h"
#include "sampler/output/output.h"
#include "sampler/profile/model.h"

#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static _Noreturn void die(struct sp_error *error)
{
	fprintf(stderr, "profile_tool: %s\n", error ? error->message : "usage");
	exit(error ? 1 : 2);
}

static void check(struct sp_error *error)
{
	if (error)
		die(error);
}

/* ---- Scripts ---- */

static uint64_t number(const cJSON *object, const char *key, uint64_t otherwise)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
	if (cJSON_IsString(item))
		return strtoull(item->valuestring, NULL, 0);
	if (cJSON_IsNumber(item))
		return item->valuedouble < 0 ? (uint64_t)(int64_t)item->valuedouble : (uint64_t)item->valuedouble;
	return otherwise;
}

static double fraction(const cJSON *object, const char *key)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
	return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static uint32_t handle(const cJSON *object, const char *key)
{
	return (uint32_t)number(object, key, SP_HANDLE_NONE);
}

static uint64_t value(const cJSON *object, const char *key)
{
	return number(object, key, 0);
}

static bool flag(const cJSON *object, const char *key)
{
	return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, key));
}

static const char *text(const cJSON *object, const char *key)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
}

static const char *text_or_empty(const cJSON *object, const char *key)
{
	const char *string = text(object, key);
	return string ? string : "";
}

static uint64_t array_number(const cJSON *array, int index)
{
	const cJSON *item = cJSON_GetArrayItem(array, index);
	if (cJSON_IsString(item))
		return strtoull(item->valuestring, NULL, 0);
	return cJSON_IsNumber(item) ? (uint64_t)item->valuedouble : 0;
}

static void read_frames(const cJSON *line, struct sp_record_sample *sample, struct sp_frame *frames)
{
	const cJSON *item;
	cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(line, "frames"))
	{
		if (sample->frame_count == SP_UNWIND_MAX_FRAMES)
			break;
		frames[sample->frame_count++] = (struct sp_frame){ .address = array_number(item, 0),
			                                           .kind = (uint8_t)array_number(item, 1),
			                                           .mode = (uint8_t)array_number(item, 2),
			                                           .origin = (uint8_t)array_number(item, 3) };
	}
	sample->frames = frames;
}

static void read_definition(const cJSON *line, const char *kind, struct sp_record *record)
{
	if (!strcmp(kind, "meta")) {
		record->type = SP_RECORD_META;
		record->meta = (struct sp_record_meta){ text_or_empty(line, "key"), text_or_empty(line, "value") };
	} else if (!strcmp(kind, "clock")) {
		record->type = SP_RECORD_CLOCK;
		record->clock = (struct sp_record_clock){ text_or_empty(line, "name"), value(line, "time"),
			                                  value(line, "wall_ns") };
	} else if (!strcmp(kind, "source")) {
		record->type = SP_RECORD_SOURCE;
		record->source = (struct sp_record_source){ .source = handle(line, "source"),
			                                    .name = text_or_empty(line, "name"),
			                                    .unit = text_or_empty(line, "unit"),
			                                    .off_cpu = flag(line, "off_cpu"),
			                                    .rate = fraction(line, "rate") };
	} else if (!strcmp(kind, "process")) {
		record->type = SP_RECORD_PROCESS;
		record->process = (struct sp_record_process){ .process = handle(line, "process"),
			                                      .previous = handle(line, "previous"),
			                                      .parent = handle(line, "parent"),
			                                      .pid = (uint32_t)value(line, "pid"),
			                                      .generation = (uint32_t)value(line, "generation"),
			                                      .time = value(line, "time"),
			                                      .found = flag(line, "found"),
			                                      .name = text_or_empty(line, "name"),
			                                      .command_line = text(line, "command_line") };
	} else if (!strcmp(kind, "thread")) {
		record->type = SP_RECORD_THREAD;
		record->thread = (struct sp_record_thread){ .thread = handle(line, "thread"),
			                                    .process = handle(line, "process"),
			                                    .tid = (uint32_t)value(line, "tid"),
			                                    .time = value(line, "time"),
			                                    .main = flag(line, "main"),
			                                    .name = text_or_empty(line, "name") };
	} else if (!strcmp(kind, "module")) {
		record->type = SP_RECORD_MODULE;
		record->module = (struct sp_record_module){ .module = handle(line, "module"),
			                                    .kind = (uint8_t)value(line, "kind"),
			                                    .name = text_or_empty(line, "name"),
			                                    .path = text_or_empty(line, "path"),
			                                    .debug_name = text(line, "debug_name"),
			                                    .debug_path = text(line, "debug_path"),
			                                    .debug_id = text_or_empty(line, "debug_id"),
			                                    .code_id = text_or_empty(line, "code_id"),
			                                    .arch = text_or_empty(line, "arch"),
			                                    .kept_path = text(line, "kept_path"),
			                                    .note = text(line, "note") };
	} else if (!strcmp(kind, "counter")) {
		record->type = SP_RECORD_COUNTER;
		record->counter = (struct sp_record_counter){ .counter = handle(line, "counter"),
			                                      .process = handle(line, "process"),
			                                      .name = text_or_empty(line, "name"),
			                                      .category = text_or_empty(line, "category"),
			                                      .description = text_or_empty(line, "description"),
			                                      .unit = text_or_empty(line, "unit") };
	}
}

static void read_change(const cJSON *line, const char *kind, struct sp_record *record)
{
	uint64_t time = value(line, "time"), start = value(line, "start"), size = value(line, "size");
	if (!strcmp(kind, "process_end")) {
		record->type = SP_RECORD_PROCESS_END;
		record->process_end = (struct sp_record_process_end){ handle(line, "process"), time };
	} else if (!strcmp(kind, "thread_name")) {
		record->type = SP_RECORD_THREAD_NAME;
		record->thread_name = (struct sp_record_thread_name){ handle(line, "thread"), time,
			                                              text_or_empty(line, "name") };
	} else if (!strcmp(kind, "thread_end")) {
		record->type = SP_RECORD_THREAD_END;
		record->thread_end = (struct sp_record_thread_end){ handle(line, "thread"), time };
	} else if (!strcmp(kind, "mapping")) {
		record->type = SP_RECORD_MAPPING;
		record->mapping = (struct sp_record_mapping){ .process = handle(line, "process"),
			                                      .module = handle(line, "module"),
			                                      .time = time,
			                                      .start = start,
			                                      .size = size,
			                                      .base = number(line, "base", start) };
	} else if (!strcmp(kind, "unmapping")) {
		record->type = SP_RECORD_UNMAPPING;
		record->unmapping = (struct sp_record_unmapping){ handle(line, "process"), time, start, size };
	} else if (!strcmp(kind, "jit_function")) {
		record->type = SP_RECORD_JIT_FUNCTION;
		record->jit_function = (struct sp_record_jit_function){ .process = handle(line, "process"),
			                                                .time = time,
			                                                .start = start,
			                                                .size = size,
			                                                .name = text_or_empty(line, "name"),
			                                                .late = flag(line, "late") };
	}
}

static void read_fact(const cJSON *line, const char *kind, struct sp_record *record, struct sp_frame *frames)
{
	uint64_t time = value(line, "time");
	if (!strcmp(kind, "sample")) {
		record->type = SP_RECORD_SAMPLE;
		record->sample = (struct sp_record_sample){
			.thread = handle(line, "thread"),
			.source = (uint32_t)value(line, "source"),
			.time = time,
			.cpu = (uint32_t)value(line, "cpu"),
			.stack = SP_HANDLE_NONE,
			.end = (uint8_t)value(line, "end"),
			.label = text(line, "label"),
			.cpu_delta = value(line, "cpu_delta"),
			.cpu_delta_known = cJSON_HasObjectItem(line, "cpu_delta"),
			.weight = (int64_t)number(line, "weight", 1),
		};
		read_frames(line, &record->sample, frames);
	} else if (!strcmp(kind, "marker")) {
		record->type = SP_RECORD_MARKER;
		record->marker = (struct sp_record_marker){ .thread = handle(line, "thread"),
			                                    .time = time,
			                                    .end_time = number(line, "end_time", time),
			                                    .name = text_or_empty(line, "name"),
			                                    .text = text(line, "text") };
	} else if (!strcmp(kind, "counter_value")) {
		record->type = SP_RECORD_COUNTER_VALUE;
		record->counter_value = (struct sp_record_counter_value){ handle(line, "counter"), time,
			                                                  fraction(line, "delta") };
	} else if (!strcmp(kind, "loss")) {
		record->type = SP_RECORD_LOSS;
		record->loss = (struct sp_record_loss){ .kind = (uint8_t)value(line, "kind"),
			                                .thread = handle(line, "thread"),
			                                .cpu = (uint32_t)number(line, "cpu", SP_CPU_NONE),
			                                .time = time,
			                                .end_time = number(line, "end_time", time),
			                                .count = value(line, "count") };
	}
}

static void record_script(const char *path)
{
	static struct sp_frame frames[SP_UNWIND_MAX_FRAMES];
	struct sp_recording_writer *writer;
	char *line = NULL;
	size_t size = 0;
	check(sp_recording_writer_create(path, &writer));
	while (getline(&line, &size, stdin) >= 0) {
		struct sp_record record = { 0 };
		cJSON *object = cJSON_Parse(line);
		const char *kind = text(object, "record");
		if (kind) {
			read_definition(object, kind, &record);
			read_change(object, kind, &record);
			read_fact(object, kind, &record, frames);
		}
		if (!record.type) {
			fprintf(stderr, "profile_tool: no record: %.200s\n", line);
			exit(2);
		}
		check(sp_recording_write(writer, &record));
		cJSON_Delete(object);
	}
	free(line);
	check(sp_recording_writer_finish(writer));
}

/* ---- Profiles ---- */

static void emit(void *context, enum sp_log_level level, const char *line)
{
	(void)context, (void)level;
	fprintf(stderr, "log: %s\n", line);
}

static void print_summary(const struct sp_profile_summary *summary)
{
	printf("{\"samples\":%llu,\"off_cpu_samples\":%llu,\"truncated\":%llu,\"spliced\":%llu,\"guessed\":%llu,"
	       "\"lost\":%llu,\"throttled\":%llu,\"processes\":%llu,\"threads\":%llu,\"kernel_unsampled_ns\":%llu,"
	       "\"cpu_ns\":%llu}\n",
	       (unsigned long long)summary->samples, (unsigned long long)summary->off_cpu_samples,
	       (unsigned long long)summary->truncated, (unsigned long long)summary->spliced,
	       (unsigned long long)summary->guessed, (unsigned long long)summary->lost,
	       (unsigned long long)summary->throttled, (unsigned long long)summary->processes,
	       (unsigned long long)summary->threads, (unsigned long long)summary->kernel_unsampled_ns,
	       (unsigned long long)summary->cpu_ns);
}

static void make_profile(int argc, char **argv)
{
	const struct sp_log log = { .level = SP_LOG_DEBUG, .emit = emit };
	struct sp_profile_options options = { .log = &log };
	struct sp_profile_builder *builder;
	struct sp_profile_summary summary;
	for (int i = 4; i < argc; i++) {
		const char *next = i + 1 < argc ? argv[i + 1] : "";
		if (!strcmp(argv[i], "--version"))
			options.version = (unsigned)atoi(next), i++;
		else if (!strcmp(argv[i], "--name"))
			options.profile_name = next, i++;
		else if (!strcmp(argv[i], "--include-args"))
			options.include_args = atoi(next), i++;
		else if (!strcmp(argv[i], "--main-thread-only"))
			options.main_thread_only = true;
		else if (!strcmp(argv[i], "--reuse-threads"))
			options.reuse_threads = true;
		else if (!strcmp(argv[i], "--fold-recursive-prefix"))
			options.fold_recursive_prefix = true;
		else if (!strcmp(argv[i], "--presymbolicate"))
			check(spsym_context_create(NULL, &options.presymbolicate));
		else
			die(NULL);
	}
	check(sp_profile_builder_create(argv[2], &options, &builder));
	check(sp_profile_builder_advance(builder));
	check(sp_profile_builder_write(builder, argv[3], &summary));
	sp_profile_builder_destroy(builder);
	if (options.presymbolicate)
		spsym_context_destroy(options.presymbolicate);
	print_summary(&summary);
}

/* ---- A recording like that of a compiler: deep stacks with 5 to 8 new tree nodes a sample ---- */

#define SYNTHETIC_THREADS 2
#define SYNTHETIC_DEPTH 45
#define SYNTHETIC_RATE 4000

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void synthetic_definitions(struct sp_recording_writer *writer)
{
	struct sp_record record = { .type = SP_RECORD_CLOCK,
		                    .clock = { "CLOCK_MONOTONIC", 1000000000, 1800000000000000000 } };
	check(sp_recording_write(writer, &record));
	record = (struct sp_record){ .type = SP_RECORD_SOURCE, .source = { .name = "cpu-clock", .unit = "samples" } };
	check(sp_recording_write(writer, &record));
	for (uint32_t i = 0; i < SYNTHETIC_THREADS; i++) {
		record = (struct sp_record){ .type = SP_RECORD_PROCESS,
			                     .process = { .process = i,
			                                  .previous = SP_HANDLE_NONE,
			                                  .parent = SP_HANDLE_NONE,
			                                  .pid = 100 + i,
			                                  .time = 1000000000,
			                                  .name = "cc1plus" } };
		check(sp_recording_write(writer, &record));
		record = (struct sp_record){ .type = SP_RECORD_THREAD,
			                     .thread = { .thread = i,
			                                 .process = i,
			                                 .tid = 100 + i,
			                                 .time = 1000000000,
			                                 .main = true,
			                                 .name = "cc1plus" } };
		check(sp_recording_write(writer, &record));
	}
	record = (struct sp_record){ .type = SP_RECORD_MODULE,
		                     .module = { .name = "cc1plus",
		                                 .path = "/usr/bin/cc1plus",
		                                 .debug_id = "0123456789ABCDEF0123456789ABCDEF0",
		                                 .code_id = "0123456789abcdef0123456789abcdef01234567",
		                                 .arch = "x86_64" } };
	check(sp_recording_write(writer, &record));
	for (uint32_t i = 0; i < SYNTHETIC_THREADS; i++) {
		record = (struct sp_record){ .type = SP_RECORD_MAPPING,
			                     .mapping = { .process = i,
			                                  .time = 1000000000,
			                                  .start = (0x5555ull + i) << 32,
			                                  .size = 32 << 20,
			                                  .base = (0x5555ull + i) << 32 } };
		check(sp_recording_write(writer, &record));
	}
}

/* The next stack of a thread: the one before, with the inner 4 to 9 frames replaced. */
static void synthetic_stack(uint64_t *state, uint32_t thread, struct sp_frame *frames)
{
	unsigned changed = 4 + (unsigned)(next_random(state) % 6);
	for (unsigned i = 0; i < changed; i++) {
		uint64_t r = next_random(state);
		/* Ten thousand places in all, some much hotter than others. */
		uint64_t place = r % 10 < 7 ? (r >> 8) % 500 : (r >> 8) % 10000;
		frames[i].address = ((0x5555ull + thread) << 32) + 0x1000 + place * 1283;
		frames[i].kind = i ? SP_FRAME_RETURN_ADDRESS : SP_FRAME_IP;
	}
}

static uint64_t status_kb(const char *key)
{
	char line[256];
	unsigned long long kb = 0;
	FILE *file = fopen("/proc/self/status", "r");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, key, strlen(key)))
			kb = strtoull(line + strlen(key) + 1, NULL, 10);
	if (file)
		fclose(file);
	return kb;
}

static void synthetic(const char *recording, const char *profile, uint64_t samples)
{
	static struct sp_frame frames[SYNTHETIC_THREADS][SYNTHETIC_DEPTH];
	struct sp_profile_options options = { 0 };
	struct sp_profile_builder *builder;
	struct sp_profile_summary summary;
	struct sp_recording_writer *writer;
	uint64_t state = 88172645463325252, follow = 0, longest = 0;
	uint64_t before_kb = status_kb("RssAnon:");
	check(sp_recording_writer_create(recording, &writer));
	check(sp_profile_builder_create(recording, &options, &builder));
	synthetic_definitions(writer);
	for (uint32_t t = 0; t < SYNTHETIC_THREADS; t++)
		for (unsigned i = 0; i < SYNTHETIC_DEPTH; i++)
			frames[t][i] = (struct sp_frame){ .address = ((0x5555ull + t) << 32) + 64 * i,
				                          .kind = SP_FRAME_RETURN_ADDRESS };
	for (uint64_t i = 0; i < samples; i++) {
		uint32_t thread = (uint32_t)(i % SYNTHETIC_THREADS);
		synthetic_stack(&state, thread, frames[thread]);
		struct sp_record record = { .type = SP_RECORD_SAMPLE,
			                    .sample = { .thread = thread,
			                                .time = 1000000000 + i / SYNTHETIC_THREADS * 250000 + i % 1000,
			                                .frames = frames[thread],
			                                .frame_count = SYNTHETIC_DEPTH,
			                                .cpu_delta = 249000 + i % 2000,
			                                .cpu_delta_known = true,
			                                .weight = 1 } };
		check(sp_recording_write(writer, &record));
		if (i % (SYNTHETIC_RATE * SYNTHETIC_THREADS / 4))
			continue;
		uint64_t start = sp_clock_process_cpu();
		check(sp_recording_flush(writer));
		uint64_t flushed = sp_clock_process_cpu();
		check(sp_profile_builder_advance(builder));
		uint64_t took = sp_clock_process_cpu() - flushed;
		(void)start;
		follow += took;
		longest = took > longest ? took : longest;
	}
	check(sp_recording_writer_finish(writer));
	uint64_t follow_kb = status_kb("RssAnon:"), start = sp_clock_now(), cpu = sp_clock_process_cpu();
	check(sp_profile_builder_write(builder, profile, &summary));
	uint64_t end = sp_clock_now();
	printf("{\"samples\":%llu,\"follow_cpu_ms\":%.1f,\"longest_advance_ms\":%.1f,\"write_ms\":%.1f,\"write_cpu_"
	       "ms\":%.1f,"
	       "\"anonymous_kb_before_write\":%llu,\"anonymous_kb\":%llu,\"file_kb\":%llu,\"peak_kb\":%llu}\n",
	       (unsigned long long)samples, (double)follow / 1e6, (double)longest / 1e6, (double)(end - start) / 1e6,
	       (double)(sp_clock_process_cpu() - cpu) / 1e6, (unsigned long long)(follow_kb - before_kb),
	       (unsigned long long)(status_kb("RssAnon:") - before_kb), (unsigned long long)status_kb("RssFile:"),
	       (unsigned long long)status_kb("VmHWM:"));
	sp_profile_builder_destroy(builder);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "record"))
		record_script(argv[2]);
	else if (argc >= 4 && !strcmp(argv[1], "profile"))
		make_profile(argc, argv);
	else if (argc == 5 && !strcmp(argv[1], "synthetic"))
		synthetic(argv[2], argv[3], strtoull(argv[4], NULL, 10));
	else
		die(NULL);
	return 0;
}
