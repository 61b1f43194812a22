/* Unit tests of the filter as it runs on events that come live: one at a time, and the oracle knows only what came
 * before. A real trace, whose rundown stands at its beginning, must be filtered as by two passes over the file. */
#include "etl_made.h"

#include "platform/windows/etl_filter.h"

#define PID 3676
#define CHILD 3700

/* What a live recorder knows: who had which number last. */
struct who {
	struct sp_trace trace;
	uint32_t pid;
	bool children;
	uint64_t asked;
};

static uint32_t pid_of(void *context, uint32_t tid, uint64_t time)
{
	struct who *who = context;
	const uint64_t *newest = sp_map_get(&who->trace.by_tid, tid);
	(void)time;
	who->asked++;
	if (!newest || who->trace.threads.items[*newest].process == SP_TRACE_NONE)
		return SP_ETL_ID_UNKNOWN;
	return who->trace.processes.items[who->trace.threads.items[*newest].process].pid;
}

static bool is_wanted(void *context, uint32_t pid, uint64_t time)
{
	const struct who *who = context;
	(void)time;
	if (pid == who->pid)
		return true;
	const uint64_t *newest = sp_map_get(&who->trace.by_pid, pid);
	return who->children && newest && who->trace.processes.items[*newest].parent_pid == who->pid;
}

static bool is_wanted_time(void *context, uint64_t time)
{
	(void)context, (void)time;
	return true;
}

static bool is_wanted_provider(void *context, const uint8_t *guid)
{
	(void)context, (void)guid;
	return false;
}

static uint64_t stack_time(void *context, const struct sp_etl_event *event, uint64_t raw)
{
	const struct who *who = context;
	return sp_etl_reader_time(who->trace.reader, event->file, raw);
}

static const struct sp_etl_oracle answers = { pid_of, is_wanted, is_wanted_time, is_wanted_provider, stack_time, NULL };

/* A kept event: where its record came from. */
struct kept {
	uint64_t time;
	uint32_t hash;
	uint8_t group, opcode;
};

struct kept_list {
	struct kept *items;
	size_t count, capacity;
};

static void keep(struct kept_list *list, const struct sp_etl_event *event)
{
	struct kept kept = { .time = event->time,
		             .hash = (uint32_t)sp_hash_bytes(event->record, event->record_size),
		             .group = event->group,
		             .opcode = event->opcode };
	assert_true(sp_vector_push(list, kept));
}

/* Events go to the oracle's knowledge first, then the filter decides: in one pass. */
static void filter_live(struct sp_etl_reader *reader, uint32_t pid, bool children, struct kept_list *list)
{
	static const struct sp_import_options nothing = { .time_limited = true };
	struct who *who = calloc(1, sizeof(*who));
	struct sp_etl_oracle oracle = answers;
	struct sp_etl_event event;
	assert_non_null(who);
	who->pid = pid;
	who->children = children;
	oracle.context = who;
	sp_trace_init(&who->trace, &nothing, reader, "/tmp");
	struct sp_etl_filter *filter = sp_etl_filter_create(&oracle, who->trace.pointer_size);
	assert_non_null(filter);
	while (sp_etl_reader_next(reader, &event)) {
		assert_true(sp_trace_feed(&who->trace, &event));
		if (sp_etl_filter_keeps(filter, &event))
			keep(list, &event);
	}
	assert_true(who->asked > 0);
	assert_int_equal(who->trace.samples.count, 0); /* samples are not held back for it */
	assert_false(sp_etl_filter_failed(filter));
	sp_etl_filter_destroy(filter);
	sp_trace_deinit(&who->trace);
	free(who);
}

static void read_file(const char *path, struct kept_list *list)
{
	struct sp_etl_sources sources = { 0 };
	struct sp_etl_reader *reader;
	struct sp_etl_event event;
	ok(sp_etl_sources_add(&sources, path));
	ok(sp_etl_reader_create(&sources, &reader));
	while (sp_etl_reader_next(reader, &event))
		if (event.group != SP_ETL_GROUP_TRACE || event.opcode != SP_ETL_TRACE_HEADER)
			keep(list, &event);
	sp_etl_reader_destroy(reader);
	sp_etl_sources_deinit(&sources);
}

static int compare(const void *left, const void *right)
{
	const struct kept *a = left, *b = right;
	if (a->time != b->time)
		return a->time < b->time ? -1 : 1;
	return a->hash < b->hash ? -1 : a->hash > b->hash;
}

static void assert_same(struct kept_list *live, struct kept_list *file)
{
	qsort(live->items, live->count, sizeof(*live->items), compare);
	qsort(file->items, file->count, sizeof(*file->items), compare);
	for (size_t i = 0; i < live->count && i < file->count; i++)
		if (compare(&live->items[i], &file->items[i]))
			fail_msg("event %zu: live %llu %u/%u, file %llu %u/%u", i,
			         (unsigned long long)live->items[i].time, live->items[i].group, live->items[i].opcode,
			         (unsigned long long)file->items[i].time, file->items[i].group, file->items[i].opcode);
	assert_int_equal(live->count, file->count);
}

/* Filters the sources in both ways and compares. */
static void check(struct sp_etl_sources *sources, uint32_t pid, bool children, unsigned samples)
{
	const uint32_t pids[] = { pid };
	const struct sp_import_options options = {
		.pids = pids, .pid_count = 1, .children = children, .folder = "/tmp"
	};
	struct kept_list live = { 0 }, file = { 0 };
	struct sp_filter_result result;
	struct sp_etl_reader *reader;
	char output[] = "/tmp/sp-live-XXXXXX";
	close(mkstemp(output));
	ok(sp_etl_reader_create(sources, &reader));
	filter_live(reader, pid, children, &live);
	sp_etl_reader_destroy(reader);
	ok(sp_etl_filter_source(&options, sources, output, &result));
	assert_int_equal(result.samples, samples);
	read_file(output, &file);
	assert_same(&live, &file);
	remove(output);
	sp_vector_deinit(&live);
	sp_vector_deinit(&file);
}

static void test_real_trace(void **state)
{
	(void)state;
	const char *path = TEST_SHARED_DATA "/etl/net.4.5.2.x64.etl.zip";
	struct sp_etl_sources sources = { 0 };
	if (access(path, R_OK)) {
		printf("SKIPPED: no shared data\n");
		skip();
	}
	ok(sp_etl_sources_add(&sources, path));
	check(&sources, PID, false, 5129);
	sp_etl_sources_deinit(&sources);
}

/* Children are known from their start on; a thread's number that another process gets is not ours any more. */
static void test_children_and_reuse(void **state)
{
	(void)state;
	struct made *made = made_begin(8, NULL);
	const uint64_t frames[] = { 0x140001000 };
	put_process(made, SP_ETL_DC_START, 0, PID, 1, "parent.exe", true);
	put_thread(made, SP_ETL_DC_START, 0, PID, 11, "");
	put_process(made, SP_ETL_DC_START, 0, 50, 1, "other.exe", true);
	put_thread(made, SP_ETL_DC_START, 0, 50, 51, "");
	put_sample(made, 1 * MS, 0x140001000, 11, 0);
	put_sample(made, 1 * MS, 0x140001000, 51, 0);
	put_stack(made, 1 * MS + 5, 1 * MS, 50, 51, frames, 1);
	put_stack(made, 1 * MS + 5, 1 * MS, PID, 11, frames, 1);
	put_process(made, SP_ETL_START, 2 * MS, CHILD, PID, "child.exe", true);
	put_thread(made, SP_ETL_START, 2 * MS, CHILD, 21, "");
	put_image(made, SP_ETL_IMAGE_LOAD, 2 * MS, CHILD, 0x140000000, 0x4000, "\\child.exe");
	put_sample(made, 3 * MS, 0x140001000, 21, 0);
	put_switch(made, 4 * MS, 51, 21, 6, 5);
	put_ready(made, 5 * MS, 51, 50, 21);
	put_switch(made, 6 * MS, 21, 51, 6, 5);
	put_thread(made, SP_ETL_STOP, 7 * MS, PID, 11, "");
	put_sample(made, 7 * MS + 5, 0x140001000, 11, 0); /* late */
	put_thread(made, SP_ETL_START, 8 * MS, 50, 11, "");
	put_sample(made, 9 * MS, 0x140001000, 11, 0); /* not ours */
	uint64_t bytes;
	ok(sp_etl_writer_finish(made->writer, &bytes));
	made->writer = NULL;
	ok(sp_etl_sources_add(&made->sources, made->path));
	check(&made->sources, PID, true, 3);
	check(&made->sources, PID, false, 2);
	sp_etl_sources_deinit(&made->sources);
	remove(made->path);
	free(made);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_real_trace),
		                            cmocka_unit_test(test_children_and_reuse) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
