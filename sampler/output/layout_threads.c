/* Which processes and threads the profile has, and what they are called.
 *
 * A process is what runs between two execs; its ID in the file is the pid, with ".1" and so on for the later ones of
 * the same number. With --reuse-threads a process joins an earlier one of the same name that has ended, and its threads
 * join those of the same name. */
#include "sampler/output/layout.h"

#include "common/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUT_NAME 15       /* bytes of a process name that Linux keeps */
#define REUSE_SEARCH 4096 /* candidates of one name that are looked at */

/* ---- Process names ---- */

/* The end of the first word of a command line; quotes and backslashes hold a word together. */
static const char *word_end(const char *at)
{
	char quote = 0;
	for (; *at; at++) {
		if (*at == '\\' && quote != '\'' && at[1])
			at++;
		else if (quote && *at == quote)
			quote = 0;
		else if (!quote && (*at == '"' || *at == '\''))
			quote = *at;
		else if (!quote && *at == ' ')
			break;
	}
	return at;
}

/* The command line's words after the first one, at most `count` (-1 = all). */
static const char *arguments(const char *command, int count, size_t *ret_size)
{
	const char *at = word_end(command);
	while (*at == ' ')
		at++;
	const char *end = at;
	for (int i = 0; *end && (count < 0 || i < count); i++) {
		const char *next = end;
		while (*next == ' ')
			next++;
		if (!*next)
			break;
		end = word_end(next);
	}
	*ret_size = (size_t)(end - at);
	return at;
}

/* Linux cuts names of processes at 15 bytes. The whole one, when the program or the script in the command line is what
 * was cut; owned, NULL = not known. */
static char *whole_name(const char *name, const char *command)
{
	if (!command || strlen(name) != CUT_NAME)
		return NULL;
	for (unsigned word = 0; word < 2 && *command; word++) {
		char *text = sp_words_first(command);
		const char *slash = text ? strrchr(text, '/') : NULL;
		const char *base = slash ? slash + 1 : text;
		char *whole = base && !strncmp(base, name, CUT_NAME) && base[CUT_NAME] ? strdup(base) : NULL;
		free(text);
		if (whole)
			return whole;
		command = word_end(command);
		command += strspn(command, " ");
	}
	return NULL;
}

/* The name of the process that a handle stands for. */
static uint32_t process_name(struct sp_layout *layout, uint32_t handle, const char *main_name)
{
	const struct sp_profile_builder *builder = layout->builder;
	const struct sp_build_process *process = &builder->processes.items[handle];
	const char *name = sp_build_string(builder, process->name);
	const char *command = sp_build_string(builder, process->command);
	char fallback[32];
	if (!name || !*name)
		name = main_name;
	if (!name || !*name) {
		snprintf(fallback, sizeof(fallback), "pid %u", process->pid);
		name = fallback;
	}
	size_t size = 0;
	const char *words = builder->options.include_args && command
	                        ? arguments(command, builder->options.include_args, &size)
	                        : "";
	char *whole = whole_name(name, command);
	if (whole)
		name = whole;
	size_t length = strlen(name);
	char *text = malloc(length + 1 + size);
	if (text) {
		memcpy(text, name, length);
		text[length] = ' ';
		memcpy(text + length + 1, words, size);
	}
	uint32_t result = text ? sp_intern(&layout->strings, text, size ? length + 1 + size : length) : SP_INTERN_NONE;
	free(text);
	free(whole);
	return result;
}

/* ---- Which threads there are ---- */

/* One thread of the recording that is to be shown. */
struct candidate {
	uint32_t thread, process; /* handles */
	uint64_t start, process_start;
	bool main;
};

static int compare_candidates(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;
	if (a->process_start != b->process_start)
		return a->process_start < b->process_start ? -1 : 1;
	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	if (a->main != b->main)
		return a->main ? -1 : 1;
	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return a->thread < b->thread ? -1 : a->thread > b->thread;
}

/* A process that an exec replaced before anything was seen of it only clutters. */
static bool is_shown(const struct sp_layout *layout, const struct sp_build_thread *thread)
{
	const struct sp_build_process *process = &layout->builder->processes.items[thread->process];
	if (layout->builder->options.main_thread_only && !thread->main)
		return false;
	return !process->replaced || process->samples || thread->markers != SP_INDEX_NONE;
}

/* Further mains of a process (which a sound recording has not) are ordinary threads. */
static void keep_one_main(struct candidate *candidates, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (candidates[i].main && candidates[i - 1].process == candidates[i].process)
			candidates[i].main = false;
}

static struct sp_error *collect_candidates(const struct sp_layout *layout, struct candidate **ret, size_t *ret_count)
{
	const struct sp_profile_builder *builder = layout->builder;
	struct candidate *candidates = malloc((builder->threads.count + 1) * sizeof(*candidates));
	size_t count = 0;
	if (!candidates)
		return sp_error_no_memory();
	for (size_t i = 0; i < builder->threads.count; i++) {
		const struct sp_build_thread *thread = &builder->threads.items[i];
		if (thread->process == SP_HANDLE_NONE || !is_shown(layout, thread))
			continue;
		candidates[count++] = (struct candidate){
			.thread = (uint32_t)i,
			.process = thread->process,
			.start = thread->start,
			.process_start = builder->processes.items[thread->process].start,
			.main = thread->main
		};
	}
	qsort(candidates, count, sizeof(*candidates), compare_candidates);
	keep_one_main(candidates, count);
	*ret = candidates;
	*ret_count = count;
	return NULL;
}

/* ---- Processes ---- */

static uint64_t end_or(bool ended, uint64_t end)
{
	return ended ? end : UINT64_MAX;
}

/* Older processes of a name, for reuse: name -> the last one, linked by `older`. */
struct reuse {
	struct sp_map by_name;
	SP_VECTOR(uint32_t) older;
};

static uint32_t find_reusable(const struct sp_layout *layout, const struct reuse *reuse, uint32_t name, uint64_t start)
{
	const uint64_t *last = sp_map_get(&reuse->by_name, name);
	uint32_t at = last ? (uint32_t)*last : SP_INDEX_NONE, best = SP_INDEX_NONE;
	for (unsigned i = 0; at < reuse->older.count && i < REUSE_SEARCH; i++, at = reuse->older.items[at]) {
		const struct sp_out_process *process = &layout->processes.items[at];
		if (process->ended && process->end <= start)
			best = at; /* the oldest that is free */
	}
	return best;
}

static struct sp_error *set_pid(struct sp_out_process *process, struct sp_map *pids, uint32_t pid)
{
	uint64_t *seen = sp_map_get(pids, pid);
	uint64_t before = seen ? *seen : 0;
	if (before)
		snprintf(process->pid, sizeof(process->pid), "%u.%llu", pid, (unsigned long long)before);
	else
		snprintf(process->pid, sizeof(process->pid), "%u", pid);
	return sp_map_put(pids, pid, before + 1) ? NULL : sp_error_no_memory();
}

static struct sp_error *add_process(struct sp_layout *layout, uint32_t handle, uint32_t name, struct sp_map *pids,
                                    struct reuse *reuse)
{
	const struct sp_build_process *process = &layout->builder->processes.items[handle];
	uint32_t index = SP_INDEX_NONE;
	if (layout->builder->options.reuse_threads)
		index = find_reusable(layout, reuse, name, process->start);
	layout->out_process.items[handle] = index;
	if (index != SP_INDEX_NONE) {
		layout->processes.items[index].end = process->end;
		layout->processes.items[index].ended = process->ended;
		return NULL;
	}
	struct sp_out_process out = { .name = name,
		                      .start = process->start,
		                      .end = process->end,
		                      .ended = process->ended,
		                      .main_thread = SP_INDEX_NONE };
	index = (uint32_t)layout->processes.count;
	struct sp_error *error = set_pid(&out, pids, process->pid);
	if (error)
		return error;
	const uint64_t *last = sp_map_get(&reuse->by_name, name);
	if (!sp_vector_push(&layout->processes, out) ||
	    !sp_vector_push(&reuse->older, last ? (uint32_t)*last : SP_INDEX_NONE) ||
	    !sp_map_put(&reuse->by_name, name, index))
		return sp_error_no_memory();
	layout->out_process.items[handle] = index;
	return NULL;
}

static struct sp_error *layout_processes(struct sp_layout *layout, const struct candidate *candidates, size_t count)
{
	const struct sp_profile_builder *builder = layout->builder;
	struct sp_map pids = { 0 };
	struct reuse reuse = { 0 };
	struct sp_error *error = NULL;
	if (!sp_vector_reserve(&layout->out_process, builder->processes.count + 1))
		return sp_error_no_memory();
	for (size_t i = 0; i < builder->processes.count; i++)
		layout->out_process.items[i] = SP_INDEX_NONE;
	layout->out_process.count = builder->processes.count;
	for (size_t i = 0; i < count && !error; i++) {
		if (i && candidates[i - 1].process == candidates[i].process)
			continue;
		const char *main_name = sp_build_string(builder, builder->threads.items[candidates[i].thread].name);
		uint32_t name = process_name(layout, candidates[i].process, main_name);
		error = name == SP_INTERN_NONE ? sp_error_no_memory()
		                               : add_process(layout, candidates[i].process, name, &pids, &reuse);
	}
	sp_map_deinit(&pids);
	sp_map_deinit(&reuse.by_name);
	sp_vector_deinit(&reuse.older);
	return error;
}

/* ---- Threads ---- */

static uint32_t thread_name(struct sp_layout *layout, const struct sp_build_thread *thread)
{
	const char *name = sp_build_string(layout->builder, thread->name);
	char fallback[32];
	if (!name || !*name) {
		snprintf(fallback, sizeof(fallback), "thread %u", thread->tid);
		name = fallback;
	}
	return sp_layout_string(layout, name);
}

/* The older out thread that a thread may join, SP_INDEX_NONE = none. `last` is the newest of that name. */
static uint32_t find_thread(const struct sp_layout *layout, const struct sp_out_thread *thread, uint32_t last)
{
	uint32_t best = SP_INDEX_NONE;
	for (unsigned i = 0; last != SP_INDEX_NONE && i < REUSE_SEARCH; i++) {
		const struct sp_out_thread *other = &layout->threads.items[last];
		if (end_or(other->ended, other->end) <= thread->start)
			best = last;
		last = other->next_same;
	}
	return best;
}

/* Adds a thread, or joins it to an older one. `by_name`: (process, name) -> newest out thread. */
static struct sp_error *add_thread(struct sp_layout *layout, struct sp_out_thread *thread, struct sp_map *by_name)
{
	struct sp_out_process *process = &layout->processes.items[thread->process];
	uint64_t key = (uint64_t)thread->process << 32 | thread->name;
	uint32_t index = SP_INDEX_NONE;
	if (layout->builder->options.reuse_threads) {
		uint64_t *last = sp_map_get(by_name, key);
		thread->next_same = last ? (uint32_t)*last : SP_INDEX_NONE;
		index = thread->main ? process->main_thread : find_thread(layout, thread, thread->next_same);
	}
	if (index != SP_INDEX_NONE) {
		struct sp_out_thread *other = &layout->threads.items[index];
		layout->next_member.items[other->last_member] = thread->member;
		other->last_member = thread->member;
		other->end = thread->end;
		other->ended = thread->ended;
		other->samples += thread->samples;
		return NULL;
	}
	index = (uint32_t)layout->threads.count;
	if (!sp_vector_push(&layout->threads, *thread))
		return sp_error_no_memory();
	if (thread->main) {
		process->main_thread = index;
		return NULL;
	}
	return !layout->builder->options.reuse_threads || sp_map_put(by_name, key, index) ? NULL : sp_error_no_memory();
}

static struct sp_error *add_candidate(struct sp_layout *layout, const struct candidate *candidate,
                                      struct sp_map *by_name)
{
	const struct sp_profile_builder *builder = layout->builder;
	const struct sp_build_thread *thread = &builder->threads.items[candidate->thread];
	struct sp_out_thread out = { .process = layout->out_process.items[candidate->process],
		                     .member = candidate->thread,
		                     .last_member = candidate->thread,
		                     .source = SP_HANDLE_NONE,
		                     .tid = thread->tid,
		                     .start = thread->start,
		                     .end = thread->end,
		                     .ended = thread->ended,
		                     .main = candidate->main,
		                     .next_same = SP_INDEX_NONE };
	out.name = out.main ? layout->processes.items[out.process].name : thread_name(layout, thread);
	if (out.name == SP_INTERN_NONE)
		return sp_error_no_memory();
	if (thread->row != SP_INDEX_NONE)
		out.samples = builder->rows.items[thread->row].count;
	return add_thread(layout, &out, by_name);
}

/* A thread of its own for what a further source counted in a thread. */
static struct sp_error *add_source_row(struct sp_layout *layout, const struct sp_build_row *row)
{
	const struct sp_profile_builder *builder = layout->builder;
	const struct sp_build_thread *thread = &builder->threads.items[row->thread];
	if (row->source == SP_HANDLE_NONE || !is_shown(layout, thread))
		return NULL;
	const char *name = sp_build_string(builder, thread->name);
	const char *source = sp_build_string(builder, builder->sources.items[row->source].name);
	char text[256];
	snprintf(text, sizeof(text), "%s: %s", name ? name : "", source ? source : "other samples");
	struct sp_out_thread out = { .process = layout->out_process.items[thread->process],
		                     .member = row->thread,
		                     .last_member = row->thread,
		                     .source = row->source,
		                     .name = sp_layout_string(layout, text),
		                     .tid = thread->tid,
		                     .start = thread->start,
		                     .end = thread->end,
		                     .ended = thread->ended,
		                     .samples = row->count,
		                     .next_same = SP_INDEX_NONE };
	return out.name != SP_INTERN_NONE && sp_vector_push(&layout->threads, out) ? NULL : sp_error_no_memory();
}

/* A profile must have a thread. */
static struct sp_error *add_empty_thread(struct sp_layout *layout)
{
	const char *name = sp_build_meta(layout->builder, SP_META_PRODUCT);
	uint32_t string = sp_layout_string(layout, name && *name ? name : "sp");
	struct sp_out_process process = { .pid = "0", .name = string, .start = layout->zero, .main_thread = 0 };
	struct sp_out_thread thread = { .member = SP_HANDLE_NONE,
		                        .last_member = SP_HANDLE_NONE,
		                        .source = SP_HANDLE_NONE,
		                        .name = string,
		                        .start = layout->zero,
		                        .main = true,
		                        .next_same = SP_INDEX_NONE };
	return string != SP_INTERN_NONE && sp_vector_push(&layout->processes, process) &&
	               sp_vector_push(&layout->threads, thread)
	           ? NULL
	           : sp_error_no_memory();
}

static struct sp_error *layout_threads(struct sp_layout *layout, const struct candidate *candidates, size_t count)
{
	const struct sp_profile_builder *builder = layout->builder;
	struct sp_map by_name = { 0 };
	struct sp_error *error = NULL;
	if (!sp_vector_reserve(&layout->next_member, builder->threads.count + 1))
		return sp_error_no_memory();
	for (size_t i = 0; i < builder->threads.count; i++)
		layout->next_member.items[i] = SP_HANDLE_NONE;
	layout->next_member.count = builder->threads.count;
	for (size_t i = 0; i < count && !error; i++)
		error = add_candidate(layout, &candidates[i], &by_name);
	for (size_t i = 0; i < builder->rows.count && !error; i++)
		error = add_source_row(layout, &builder->rows.items[i]);
	if (!error && !layout->threads.count)
		error = add_empty_thread(layout);
	sp_map_deinit(&by_name);
	return error;
}

struct sp_error *sp_layout_threads(struct sp_layout *layout)
{
	struct candidate *candidates;
	size_t count;
	struct sp_error *error = collect_candidates(layout, &candidates, &count);
	if (error)
		return error;
	error = layout_processes(layout, candidates, count);
	if (!error)
		error = layout_threads(layout, candidates, count);
	free(candidates);
	return error;
}
