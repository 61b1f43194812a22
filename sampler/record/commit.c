/* The way into the recording: a queue in order of time, whose head waits for what is not finished yet (a stack being
 * unwound, a module being opened). */
#include "sampler/record/internal.h"
#include "sampler/record/perf_map.h"

#include <stdlib.h>
#include <string.h>

/* JIT functions written in one go, so that the reader gets back to its streams. */
#define PERF_MAP_BATCH 2048

void sp_pipeline_fail(struct sp_pipeline *p, struct sp_error *error)
{
	if (p->error)
		sp_error_destroy(error);
	else
		p->error = error;
}

static void write_record(struct sp_pipeline *p, const struct sp_record *record)
{
	if (!p->error)
		sp_pipeline_fail(p, sp_recording_write(p->options.recording, record));
}

/* ---- Copies of records ---- */

/* The strings of the records that are ever queued. */
static size_t strings_of(struct sp_record *record, const char **ret[2])
{
	switch (record->type) {
	case SP_RECORD_PROCESS:
		ret[0] = &record->process.name;
		ret[1] = &record->process.command_line;
		return 2;
	case SP_RECORD_THREAD:
		ret[0] = &record->thread.name;
		return 1;
	case SP_RECORD_THREAD_NAME:
		ret[0] = &record->thread_name.name;
		return 1;
	case SP_RECORD_JIT_FUNCTION:
		ret[0] = &record->jit_function.name;
		return 1;
	case SP_RECORD_MARKER:
		ret[0] = &record->marker.name;
		ret[1] = &record->marker.text;
		return 2;
	case SP_RECORD_SAMPLE:
		ret[0] = &record->sample.label;
		return 1;
	case SP_RECORD_CLOCK:
		ret[0] = &record->clock.name;
		return 1;
	default:
		return 0;
	}
}

/* One block with the record and its strings; NULL without memory. */
static struct sp_record *copy_record(const struct sp_record *record)
{
	const char **strings[2];
	struct sp_record shallow = *record;
	size_t count = strings_of(&shallow, strings), size = sizeof(*record);
	for (size_t i = 0; i < count; i++)
		size += *strings[i] ? strlen(*strings[i]) + 1 : 0;
	struct sp_record *copy = malloc(size);
	if (!copy)
		return NULL;
	*copy = *record;
	char *at = (char *)(copy + 1);
	strings_of(copy, strings);
	for (size_t i = 0; i < count; i++) {
		if (!*strings[i])
			continue;
		size_t length = strlen(*strings[i]) + 1;
		memcpy(at, *strings[i], length);
		*strings[i] = at;
		at += length;
	}
	return copy;
}

/* ---- The queue ---- */

static struct sp_entry *entry_at(const struct sp_commit *commit, size_t index)
{
	return &commit->entries[(commit->first + index) & (commit->capacity - 1)];
}

static bool grow(struct sp_commit *commit)
{
	size_t capacity = commit->capacity ? commit->capacity * 2 : 256;
	struct sp_entry *entries = malloc(capacity * sizeof(*entries));
	if (!entries)
		return false;
	for (size_t i = 0; i < commit->count; i++)
		entries[i] = *entry_at(commit, i);
	free(commit->entries);
	commit->entries = entries;
	commit->first = 0;
	commit->capacity = capacity;
	return true;
}

static void drop_entry(struct sp_pipeline *p, struct sp_entry *entry)
{
	switch (entry->kind) {
	case SP_ENTRY_RECORD:
		free(entry->record);
		break;
	case SP_ENTRY_PROCESS:
		free(entry->record);
		sp_facts_release(p, entry->facts);
		break;
	case SP_ENTRY_SPACE:
		sp_space_release(entry->space);
		break;
	case SP_ENTRY_MAPPING:
		sp_module_drop_user(entry->mapping.module);
		break;
	case SP_ENTRY_PERF_MAP:
		sp_perf_map_job_free(entry->perf_map);
		sp_facts_release(p, entry->facts);
		break;
	default:
		break;
	}
}

void sp_commit_push(struct sp_pipeline *p, const struct sp_entry *entry)
{
	struct sp_commit *commit = &p->commit;
	if (commit->count == commit->capacity && !grow(commit)) {
		/* What the entry holds is lost with it: the recording ends here. */
		sp_pipeline_fail(p, sp_error_no_memory());
		if (entry->kind == SP_ENTRY_SAMPLE)
			p->tasks--;
		return;
	}
	commit->count++;
	*entry_at(commit, commit->count - 1) = *entry;
}

void sp_commit_record(struct sp_pipeline *p, const struct sp_record *record)
{
	if (!p->commit.count) {
		write_record(p, record);
		return;
	}
	struct sp_entry entry = { .kind = SP_ENTRY_RECORD, .record = copy_record(record) };
	if (entry.record)
		sp_commit_push(p, &entry);
	else
		sp_pipeline_fail(p, sp_error_no_memory());
}

void sp_commit_process(struct sp_pipeline *p, const struct sp_record *record, struct sp_facts *facts)
{
	struct sp_entry entry = { .kind = SP_ENTRY_PROCESS, .record = copy_record(record), .facts = facts };
	if (entry.record)
		sp_commit_push(p, &entry);
	else
		sp_pipeline_fail(p, sp_error_no_memory());
}

/* ---- Modules and mappings ---- */

static bool space_ready(const struct sp_space *space)
{
	for (size_t i = 0; i < space->count; i++) {
		if (space->mappings[i].module && !sp_module_ready(space->mappings[i].module))
			return false;
	}
	return true;
}

static void define_module(struct sp_pipeline *p, struct sp_module *module)
{
	struct sp_record record = { .type = SP_RECORD_MODULE };
	module->handle = p->commit.next_module++;
	sp_module_record(module, module->handle, &record.module);
	write_record(p, &record);
}

static void write_mapping(struct sp_pipeline *p, uint32_t process, uint64_t time, const struct sp_mapping *mapping)
{
	struct sp_module *module = sp_module_resolve(mapping->module);
	uint64_t size = mapping->end - mapping->start;
	if (!module->is_code_file) {
		/* Memory that a JIT shares, for example: it only hides what was there. */
		struct sp_record unmapping = {
			.type = SP_RECORD_UNMAPPING,
			.unmapping = { .process = process, .time = time, .start = mapping->start, .size = size },
		};
		write_record(p, &unmapping);
		return;
	}
	if (module->handle == SP_HANDLE_NONE)
		define_module(p, module);
	struct sp_record record = {
		.type = SP_RECORD_MAPPING,
		.mapping = { .process = process,
		             .module = module->handle,
		             .time = time,
		             .start = mapping->start,
		             .size = size,
		             .base = sp_module_bias(module, mapping->start, size, mapping->file_offset) +
		                     module->base },
	};
	write_record(p, &record);
}

static void write_space(struct sp_pipeline *p, const struct sp_entry *entry)
{
	for (size_t i = 0; i < entry->space->count; i++) {
		const struct sp_mapping *mapping = &entry->space->mappings[i];
		uint64_t time = mapping->time > entry->time ? mapping->time : entry->time;
		if (mapping->module && sp_module_resolve(mapping->module)->is_code_file)
			write_mapping(p, entry->process, time, mapping);
	}
}

/* ---- perf-PID.map ---- */

/* False while there is more. */
static bool write_perf_map(struct sp_pipeline *p, const struct sp_entry *entry)
{
	struct sp_perf_map_job *job = entry->perf_map;
	struct sp_perf_map_function function;
	for (unsigned i = 0; i < PERF_MAP_BATCH; i++) {
		if (job->given >= SP_PERF_MAP_FUNCTIONS_MAX) {
			sp_log(p->options.log, SP_LOG_WARNING, "%s: functions after the first %llu are left out",
			       job->facts->perf_map_path, (unsigned long long)job->given);
			return true;
		}
		if (!sp_perf_map_next(&job->text, &function, &job->skipped))
			return true;
		job->given++;
		struct sp_record record = {
			.type = SP_RECORD_JIT_FUNCTION,
			.jit_function = { .process = entry->process,
			                  .time = entry->time,
			                  .start = function.start,
			                  .size = function.size,
			                  .name = function.name,
			                  .late = true },
		};
		write_record(p, &record);
	}
	return false;
}

/* ---- Writing what is ready ---- */

static bool entry_ready(const struct sp_entry *entry)
{
	switch (entry->kind) {
	case SP_ENTRY_PROCESS:
		return !entry->facts || sp_job_done(&entry->facts->job);
	case SP_ENTRY_SAMPLE:
		return sp_task_done(entry->task);
	case SP_ENTRY_SPACE:
		return space_ready(entry->space);
	case SP_ENTRY_MAPPING:
		return sp_module_ready(entry->mapping.module);
	case SP_ENTRY_PERF_MAP:
		return sp_job_done(&entry->perf_map->job);
	default:
		return true;
	}
}

/* False when the entry is not finished and must be written again. */
static bool write_entry(struct sp_pipeline *p, struct sp_entry *entry)
{
	switch (entry->kind) {
	case SP_ENTRY_PROCESS:
		if (entry->facts && !entry->record->process.command_line)
			entry->record->process.command_line = entry->facts->command_line;
		write_record(p, entry->record);
		return true;
	case SP_ENTRY_SAMPLE:
		sp_write_sample(p, entry->task);
		return true;
	case SP_ENTRY_SPACE:
		write_space(p, entry);
		return true;
	case SP_ENTRY_MAPPING:
		write_mapping(p, entry->process, entry->mapping.time, &entry->mapping);
		return true;
	case SP_ENTRY_PERF_MAP:
		return write_perf_map(p, entry);
	default:
		write_record(p, entry->record);
		return true;
	}
}

bool sp_commit_first_ready(const struct sp_pipeline *p)
{
	return !p->commit.count || entry_ready(entry_at(&p->commit, 0));
}

/* The next sample was written by another CPU: asks for it early. */
static void prefetch_sample(const struct sp_commit *commit)
{
	if (commit->count < 3)
		return;
	const struct sp_entry *far = entry_at(commit, 2), *near = entry_at(commit, 1);
	if (far->kind == SP_ENTRY_SAMPLE)
		__builtin_prefetch(far->task);
	if (near->kind == SP_ENTRY_SAMPLE && sp_task_done(near->task)) {
		const uint8_t *bytes = (const uint8_t *)near->task->addresses;
		for (unsigned line = 0; bytes && line < 5; line++)
			__builtin_prefetch(bytes + (size_t)line * 64);
	}
}

static bool first_ready(void *context)
{
	return sp_commit_first_ready(context);
}

void sp_commit_run(struct sp_pipeline *p, bool all)
{
	struct sp_commit *commit = &p->commit;
	while (commit->count) {
		struct sp_entry *entry = entry_at(commit, 0);
		if (!entry_ready(entry)) {
			if (!all)
				return;
			sp_signal_wait(&p->progress, first_ready, p);
		}
		prefetch_sample(commit);
		if (!write_entry(p, entry)) {
			if (!all)
				return;
			continue;
		}
		struct sp_entry written = *entry;
		commit->first = (commit->first + 1) & (commit->capacity - 1);
		commit->count--;
		drop_entry(p, &written);
	}
}

void sp_commit_deinit(struct sp_pipeline *p)
{
	free(p->commit.entries);
}
