/* Unit tests of what a trace becomes: the counts that are known of a real file, by the model itself. */
#include "platform/windows/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

struct loaded {
	struct sp_import_options options;
	struct sp_etl_sources sources;
	struct sp_etl_reader *reader;
	struct sp_trace trace;
};

static void load(struct loaded *loaded, const char *name)
{
	struct sp_etl_event event;
	char path[512];
	snprintf(path, sizeof(path), "%s/etl/%s", TEST_SHARED_DATA, name);
	if (access(path, R_OK)) {
		printf("SKIPPED: no shared data (%s)\n", name);
		skip();
	}
	assert_null(sp_etl_sources_add(&loaded->sources, path));
	assert_null(sp_etl_reader_create(&loaded->sources, &loaded->reader));
	sp_trace_init(&loaded->trace, &loaded->options, loaded->reader, "/tmp");
	while (sp_etl_reader_next(loaded->reader, &event))
		assert_true(sp_trace_feed(&loaded->trace, &event));
	assert_true(sp_trace_finish(&loaded->trace));
}

static void unload(struct loaded *loaded)
{
	sp_trace_deinit(&loaded->trace);
	sp_etl_reader_destroy(loaded->reader);
	sp_etl_sources_deinit(&loaded->sources);
}

static bool in_method(const struct sp_trace *trace, uint32_t process, const struct sp_trace_sample *sample)
{
	for (size_t i = 0; i < trace->methods.count; i++) {
		const struct sp_trace_method *method = &trace->methods.items[i];
		if (method->process == process && sample->ip - method->start < method->size &&
		    method->load <= sample->time && sample->time <= method->unload)
			return true;
	}
	return false;
}

/* What PerfView and an independent reader counted in net.4.5.2.x64.etl. */
static void test_known_counts(void **state)
{
	(void)state;
	static struct loaded loaded;
	load(&loaded, "net.4.5.2.x64.etl.zip");
	const struct sp_trace *trace = &loaded.trace;
	unsigned halves[4] = { 0 }, of_test = 0, managed = 0;
	for (size_t i = 0; i < trace->samples.count; i++) {
		const struct sp_trace_sample *sample = &trace->samples.items[i];
		uint32_t process = trace->threads.items[sample->thread].process;
		halves[(sample->kernel != SP_TRACE_NONE) | (sample->user != SP_TRACE_NONE) << 1]++;
		assert_int_not_equal(process, SP_TRACE_NONE);
		if (trace->processes.items[process].pid != 3676)
			continue;
		assert_string_equal(sp_trace_get(trace, trace->processes.items[process].name), "Test.x64.exe");
		of_test++;
		managed += in_method(trace, process, sample);
	}
	assert_int_equal(trace->samples.count, 6320);
	assert_int_equal(trace->counts.idle, 79528 - 6320);
	assert_int_equal(trace->counts.dpc_isr, 135);
	assert_int_equal(of_test, 5129);
	assert_int_equal(managed, 4456);
	/* 6318 have a stack. By time alone 304 would have only a kernel half and 458 both; 79 of the 304 get their user
	 * half from the walk that Windows made once for several samples. */
	assert_int_equal(halves[0], 2);
	assert_int_equal(halves[1], 304 - 79);
	assert_int_equal(halves[3], 458 + 79);
	assert_int_equal(halves[2], 5556);
	assert_int_equal(trace->counts.unresolved_keys, 0);
	assert_int_equal(trace->counts.image_ids, 3534);
	assert_int_equal(trace->counts.images, 1763 + 1766 + 35 + 32);
	assert_int_equal(trace->counts.bad_payloads, 0);
	assert_int_equal(trace->intervals.count, 1);
	assert_int_equal(trace->intervals.items[0].ns, 1000000);
	unload(&loaded);
}

/* Start and end rundown and the events between them agree on every process, thread and image. */
static void test_timelines(void **state)
{
	(void)state;
	static struct loaded loaded;
	load(&loaded, "net.4.5.2.x64.etl.zip");
	const struct sp_trace *trace = &loaded.trace;
	unsigned processes = 0, threads = 0, images = 0, with_debug = 0, with_id = 0;
	for (size_t i = 0; i < trace->processes.count; i++)
		processes += trace->processes.items[i].name != SP_INTERN_NONE;
	for (size_t i = 0; i < trace->threads.count; i++)
		threads += !trace->threads.items[i].guessed;
	for (size_t i = 0; i < trace->images.count; i++) {
		const struct sp_trace_ids *ids = sp_trace_ids_of(trace, &trace->images.items[i]);
		images++;
		with_debug += ids && ids->has_debug;
		with_id += ids && ids->has_id;
	}
	assert_int_equal(processes, 32 + 1); /* at the start, and one started */
	/* 670 at the start, of which 8 are the idle threads; 9 started. */
	assert_int_equal(threads, 670 - 8 + 9);
	assert_int_equal(images, 1763 + 35);
	/* Crash-dump drivers are copies that are in no file; resource DLLs and some .NET ones have no PDB. */
	assert_int_equal(images - with_id, 3);
	assert_int_equal(images - with_debug, 3 + 6);
	char path[256];
	sp_trace_dos_path(trace, "\\Device\\HarddiskVolume2\\Windows\\System32\\ntdll.dll", path, sizeof(path));
	assert_string_equal(path, "C:\\Windows\\System32\\ntdll.dll");
	sp_trace_dos_path(trace, "\\SystemRoot\\system32\\ntoskrnl.exe", path, sizeof(path));
	assert_string_equal(path, "C:\\Windows\\system32\\ntoskrnl.exe");
	sp_trace_dos_path(trace, "\\Device\\Mup\\server\\share\\x.dll", path, sizeof(path));
	assert_string_equal(path, "\\\\server\\share\\x.dll");
	sp_trace_dos_path(trace, "\\DfsClient\\;Z:00000000000412a1\\server\\share\\x.dll", path, sizeof(path));
	assert_string_equal(path, "\\\\server\\share\\x.dll");
	unload(&loaded);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_known_counts), cmocka_unit_test(test_timelines) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
