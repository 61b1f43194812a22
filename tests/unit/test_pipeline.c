/* Unit tests of the pipeline, with scripted streams and a target of the test's own. */
#include "pipeline_setup.h"

#include "common/file.h"
#include "symbolication/object/object.h"

#include <inttypes.h>
#include <sys/stat.h>

static void add_marker(struct fake_stream *stream, uint64_t time, const char *name)
{
	struct sp_event *event = fake_add(stream, SP_EVENT_MARKER, time, 0, 0);
	event->marker.name = name;
	event->marker.end_time = time;
}

/* ---- Order ---- */

static void test_streams_are_merged_by_time(void **state)
{
	(void)state;
	struct setup *s = start(NULL);
	add_marker(&s->a, 10, "1");
	add_marker(&s->b, 11, "2");
	add_marker(&s->c, 12, "3");
	add_marker(&s->c, 13, "4");
	add_marker(&s->a, 14, "5");
	add_marker(&s->b, 20, "6");
	ok(sp_pipeline_advance(s->pipeline, 14));
	/* What is at or past the watermark stays. */
	assert_int_equal(s->a.released, 1);
	assert_int_equal(s->b.released, 1);
	add_marker(&s->c, 15, "5b");
	ok(sp_pipeline_advance(s->pipeline, 30));
	finish(s, 30);
	expect(s, "marker",
	       "marker 4294967295 10-10 1 (null)\n"
	       "marker 4294967295 11-11 2 (null)\n"
	       "marker 4294967295 12-12 3 (null)\n"
	       "marker 4294967295 13-13 4 (null)\n"
	       "marker 4294967295 14-14 5 (null)\n"
	       "marker 4294967295 15-15 5b (null)\n"
	       "marker 4294967295 20-20 6 (null)\n");
	stop(s);
}

#define SAMPLE_LINE(thread, time, ip)                                                                               \
	"sample thread " thread " source 0 time " time " cpu 4294967295 end 0 label (null) delta 0/0 weight 1: " ip \
	"/0/1/0\n"

/* The child's first sample comes from another CPU than its fork, which is earlier. */
static void test_fork_is_seen_before_the_child(void **state)
{
	(void)state;
	struct setup *s = start(NULL);
	fake_fork(&s->a, 10, ROOT, ROOT, 1);
	fake_sample(&s->b, 20, 101, 101, 0xb0);
	fake_fork(&s->a, 15, 101, 101, ROOT);
	fake_fork(&s->c, 16, 102, 102, 101);
	fake_sample(&s->c, 17, 102, 102, 0xc0);
	fake_fork(&s->c, 18, 102, 103, 102);
	ok(sp_pipeline_advance(s->pipeline, 100));
	finish(s, 100);
	expect(s, "sample",
	       "sample thread 2 source 0 time 17 cpu 4294967295 end 0 label (null) delta 0/0 weight 1: "
	       "c0/0/1/0\n" SAMPLE_LINE("1", "20", "b0"));
	expect(s, "process",
	       "process 0 previous 4294967295 parent 4294967295 pid 100 generation 0 time 10 found 0  (null)\n"
	       "process 1 previous 4294967295 parent 0 pid 101 generation 0 time 15 found 0  (null)\n"
	       "process 2 previous 4294967295 parent 1 pid 102 generation 0 time 16 found 0  (null)\n");
	stop(s);
}

/* ---- The tree ---- */

static void test_others_are_dropped_at_once(void **state)
{
	(void)state;
	struct setup *s = start(NULL);
	fake_fork(&s->a, 10, ROOT, ROOT, 1);
	fake_fork(&s->a, 11, 500, 500, 1);
	fake_map(&s->a, 12, 500, "/gate", 0x1000, 0x1000);
	fake_sample(&s->a, 13, 500, 500, 0x1);
	fake_fork(&s->a, 14, 501, 501, 500);
	fake_sample(&s->a, 15, 501, 501, 0x2);
	fake_named(&s->a, SP_EVENT_EXEC, 16, 500, "other");
	fake_add(&s->a, SP_EVENT_SWITCH_IN, 17, 500, 500);
	fake_sample(&s->a, 18, 0, 0, 0x3);
	fake_sample(&s->a, 19, UINT32_MAX, UINT32_MAX, 0x4);
	fake_add(&s->a, SP_EVENT_THREAD_EXIT, 20, 500, 500);
	ok(sp_pipeline_advance(s->pipeline, 100));
	assert_int_equal(s->a.released, s->a.count);
	finish(s, 100);
	assert_int_equal(counts(s).samples, 0);
	expect(s, "process",
	       "process 0 previous 4294967295 parent 4294967295 pid 100 generation 0 time 10 found 0  "
	       "(null)\n");
	expect(s, "thread", "thread 0 process 0 tid 100 time 10 main 1 \n");
	stop(s);
}

static void test_pid_is_used_again(void **state)
{
	(void)state;
	struct setup *s = start(NULL);
	fake_fork(&s->a, 10, ROOT, ROOT, 1);
	fake_fork(&s->a, 20, 101, 101, ROOT);
	fake_sample(&s->a, 21, 101, 101, 0xa);
	fake_add(&s->a, SP_EVENT_THREAD_EXIT, 22, 101, 101);
	/* The same number, another child. */
	fake_fork(&s->b, 30, 101, 101, ROOT);
	fake_sample(&s->b, 31, 101, 101, 0xb);
	fake_add(&s->b, SP_EVENT_THREAD_EXIT, 32, 101, 101);
	/* And a process that is none of ours. */
	fake_fork(&s->c, 40 + 20 * MS, 101, 101, 1);
	fake_sample(&s->c, 41 + 20 * MS, 101, 101, 0xc);
	ok(sp_pipeline_advance(s->pipeline, 50));
	ok(sp_pipeline_advance(s->pipeline, 40 * MS));
	finish(s, 40 * MS);
	expect(s, "sample", SAMPLE_LINE("1", "21", "a") SAMPLE_LINE("2", "31", "b"));
	expect(s, "*101",
	       "process 1 previous 4294967295 parent 0 pid 101 generation 0 time 20 found 0  (null)\n"
	       "thread 1 process 1 tid 101 time 20 main 1 \n"
	       "process 2 previous 4294967295 parent 0 pid 101 generation 0 time 30 found 0  (null)\n"
	       "thread 2 process 2 tid 101 time 30 main 1 \n");
	expect(s, "process end", "process end 1 22\nprocess end 2 32\n");
	stop(s);
}

/* The kernel samples a thread until it has left its CPU; by then its end was reported. */
static void test_samples_after_the_end(void **state)
{
	(void)state;
	struct setup *s = start(NULL);
	fake_fork(&s->a, 10, ROOT, ROOT, 1);
	fake_add(&s->a, SP_EVENT_THREAD_EXIT, 20, ROOT, ROOT);
	fake_sample(&s->a, 21, ROOT, ROOT, 0xa);
	ok(sp_pipeline_advance(s->pipeline, 50));
	finish(s, 50);
	expect(s, "sample", SAMPLE_LINE("0", "21", "a"));
	expect(s, "process end", "process end 0 21\n");
	stop(s);
}

static void test_exec_begins_a_new_program(void **state)
{
	(void)state;
	struct sp_pipeline_options options = { .ops = &fake_backend,
		                               .sources = &source,
		                               .source_count = 1,
		                               .interval_ns = MS,
		                               .kernel_sampled = true,
		                               .root_pid = ROOT };
	struct setup *s = start(&options);
	fake_fork(&s->a, 10, ROOT, ROOT, 1);
	fake_named(&s->a, SP_EVENT_EXEC, 11, ROOT, "sh");
	fake_map(&s->a, 12, ROOT, "/none/sh", 0x1000, 0x1000);
	fake_sample(&s->a, 13, ROOT, ROOT, 0xa);
	fake_fork(&s->a, 14, 101, 101, ROOT);
	fake_named(&s->a, SP_EVENT_EXEC, 15, 101, "cc");
	fake_map(&s->a, 16, 101, "/none/cc", 0x2000, 0x1000);
	fake_sample(&s->a, 17, 101, 101, 0xb);
	fake_named(&s->a, SP_EVENT_EXEC, 18, 101, "as");
	fake_sample(&s->a, 19, 101, 101, 0xc);
	fake_fork(&s->a, 20, 102, 102, ROOT);
	fake_sample(&s->a, 21, 102, 102, 0xd);
	fake_named(&s->a, SP_EVENT_NAME, 22, 102, "zygote");
	ok(sp_pipeline_advance(s->pipeline, 100));
	finish(s, 100);
	expect(s, "process",
	       "process 0 previous 4294967295 parent 4294967295 pid 100 generation 1 time 11 found 0 sh command 100\n"
	       "process 1 previous 4294967295 parent 0 pid 101 generation 1 time 15 found 0 cc command 101\n"
	       "process end 1 18\n"
	       "process 2 previous 1 parent 0 pid 101 generation 2 time 18 found 0 as command 101\n"
	       "process 3 previous 4294967295 parent 0 pid 102 generation 0 time 20 found 0 sh command 102\n");
	/* The new program has nothing mapped; the child that goes on as it is has all. */
	expect(s, "mapping",
	       "mapping 0 0 12 1000+1000 base 1000\n"
	       "mapping 1 1 16 2000+1000 base 2000\n"
	       "mapping 3 0 20 1000+1000 base 1000\n");
	expect(s, "thread",
	       "thread 0 process 0 tid 100 time 11 main 1 sh\n"
	       "thread 1 process 1 tid 101 time 15 main 1 cc\n"
	       "thread end 1 18\n"
	       "thread 2 process 2 tid 101 time 18 main 1 as\n"
	       "thread 3 process 3 tid 102 time 20 main 1 sh\n"
	       "thread name 3 22 zygote\n");
	expect(s, "sample",
	       SAMPLE_LINE("0", "13", "a") SAMPLE_LINE("1", "17", "b") SAMPLE_LINE("2", "19", "c")
	           SAMPLE_LINE("3", "21", "d"));
	stop(s);
}

static void test_found_processes_are_one(void **state)
{
	(void)state;
	struct setup *s = start(NULL);
	fake_fork(&s->a, 10, ROOT, ROOT, 1);
	s->a.events[0].found = true;
	s->a.events[0].thread_start.name = "old";
	fake_fork(&s->a, 10, ROOT, 150, ROOT);
	s->a.events[1].found = true;
	fake_fork(&s->a, 10, 101, 101, ROOT);
	s->a.events[2].found = true;
	/* Its fork was recorded too. */
	fake_fork(&s->b, 12, 101, 101, ROOT);
	fake_sample(&s->b, 13, 101, 101, 0xa);
	fake_sample(&s->b, 14, ROOT, 150, 0xb);
	/* A thread whose start is missing. */
	fake_sample(&s->b, 15, ROOT, 151, 0xc);
	ok(sp_pipeline_advance(s->pipeline, 100));
	finish(s, 100);
	expect(s, "process",
	       "process 0 previous 4294967295 parent 4294967295 pid 100 generation 0 time 10 found 1 old (null)\n"
	       "process 1 previous 4294967295 parent 0 pid 101 generation 0 time 10 found 0 old (null)\n");
	assert_int_equal(counts(s).samples, 3);
	stop(s);
}

static void emit_survivor(void *context, uint32_t pid, const char *name)
{
	say(context, "%u %s\n", pid, name);
}

static void test_survivors(void **state)
{
	(void)state;
	struct setup *s = start(NULL);
	fake_fork(&s->a, 10, ROOT, ROOT, 1);
	fake_fork(&s->a, 11, 101, 101, ROOT);
	fake_named(&s->a, SP_EVENT_EXEC, 12, 101, "daemon");
	fake_fork(&s->a, 13, 102, 102, ROOT);
	fake_add(&s->a, SP_EVENT_THREAD_EXIT, 14, 102, 102);
	ok(sp_pipeline_advance(s->pipeline, 100));
	finish(s, 100);
	static struct text found;
	sp_pipeline_survivors(s->pipeline, emit_survivor, &found);
	assert_string_equal(found.bytes, "101 daemon\n");
	assert_int_equal(counts(s).survivors, 1);
	expect(s, "process end", "process end 2 14\n");
	stop(s);
}

/* ---- Mappings ---- */

static void test_mappings_replace_and_cut(void **state)
{
	(void)state;
	struct sp_pipeline_options options = { .ops = &fake_backend,
		                               .sources = &source,
		                               .source_count = 1,
		                               .interval_ns = MS,
		                               .kernel_sampled = true,
		                               .root_pid = ROOT };
	struct setup *s = start(&options);
	fake_fork(&s->a, 1, ROOT, ROOT, 1);
	fake_map(&s->a, 2, ROOT, "/none/a", 0x10000, 0x10000);
	fake_map(&s->a, 3, ROOT, "/none/b", 0x14000, 0x1000);
	struct sp_event *unmap = fake_add(&s->a, SP_EVENT_UNMAP, 4, ROOT, ROOT);
	unmap->map.start = 0x1e000;
	unmap->map.size = 0x10000;
	/* Memory of a JIT hides what was there. */
	fake_map(&s->a, 5, ROOT, "//anon", 0x10000, 0x1000);
	fake_sample(&s->a, 6, ROOT, ROOT, 0xa);
	/* From the first sample on, changes are recorded as they come. */
	fake_map(&s->a, 7, ROOT, "", 0x11000, 0x1000);
	fake_map(&s->a, 8, ROOT, "/none/c", 0x50000, 0x1000);
	fake_map(&s->a, 9, ROOT, "/none/c", UINT64_MAX - 5, 0x1000);
	ok(sp_pipeline_advance(s->pipeline, 100));
	finish(s, 100);
	expect(s, "mapping",
	       "mapping 0 0 2 11000+3000 base 10000\n"
	       "mapping 0 1 3 14000+1000 base 14000\n"
	       "mapping 0 0 2 15000+9000 base 10000\n"
	       "mapping 0 2 8 50000+1000 base 50000\n");
	expect(s, "unmapping", "unmapping 0 7 11000+1000\n");
	expect(s, "module 0", "module 0 0 a /none/a a /none/a    (null) /none/a is not there\n");
	stop(s);
}

static void test_module_identity(void **state)
{
	(void)state;
	char self[512], copy[128], expected[2048];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	assert_true(length > 0);
	self[length] = '\0';
	struct sp_object *object;
	ok(sp_object_open_path(self, &object));
	const struct spsym_file_info *info = sp_object_info(object);
	size_t segment_count, id_size;
	const struct sp_segment *segments = sp_object_segments(object, &segment_count);
	const struct sp_segment *code = NULL;
	for (size_t i = 0; i < segment_count && !code; i++)
		code = segments[i].executable ? &segments[i] : NULL;
	assert_non_null(code);

	/* The same bytes, deleted since they were mapped. */
	struct sp_file_map bytes;
	ok(sp_file_map_path(self, &bytes));
	snprintf(copy, sizeof(copy), "%s/gone.deleted", folder);
	ok(sp_file_write_atomic(copy, bytes.bytes, bytes.size));
	snprintf(copy, sizeof(copy), "%s/gone (deleted)", folder);

	struct sp_pipeline_options options = { .ops = &fake_backend,
		                               .sources = &source,
		                               .source_count = 1,
		                               .interval_ns = MS,
		                               .kernel_sampled = true,
		                               .cache_folder = folder,
		                               .root_pid = ROOT };
	struct setup *s = start(&options);
	fake_fork(&s->a, 1, ROOT, ROOT, 1);
	uint64_t page = code->file_offset & ~(uint64_t)4095;
	for (unsigned i = 0; i < 3; i++) {
		struct sp_event *event = fake_map(&s->a, 2, ROOT, i < 2 ? self : copy, 0x7f0000000000 + i * 0x10000000,
		                                  code->file_size + code->file_offset - page);
		event->map.file_offset = page;
		/* Once with the build ID, once without: it is the same file. */
		if (i == 0) {
			const uint8_t *id = sp_object_build_id(object, &id_size);
			assert_int_equal(id_size, 20);
			memcpy(event->map.build_id, id, id_size);
			event->map.build_id_size = (uint8_t)id_size;
		}
	}
	fake_sample(&s->a, 3, ROOT, ROOT, 0xa);
	ok(sp_pipeline_advance(s->pipeline, 100));
	finish(s, 100);
	const char *name = strrchr(self, '/') + 1;
	snprintf(expected, sizeof(expected),
	         "module 0 0 %s %s %s %s %s %s %s (null) (null)\n"
	         "module 1 0 gone %s gone %s %s %s %s %s/kept/%s (null)\n",
	         name, self, name, self, info->debug_id, info->code_id, info->arch, copy, copy, info->debug_id,
	         info->code_id, info->arch, folder, info->debug_id);
	expect(s, "module", expected);
	uint64_t base = 0x7f0000000000 - (code->address - (code->file_offset - page)) + info->base;
	uint64_t size = code->file_size + code->file_offset - page;
	snprintf(expected, sizeof(expected),
	         "mapping 0 0 2 7f0000000000+%" PRIx64 " base %" PRIx64 "\n"
	         "mapping 0 0 2 7f0010000000+%" PRIx64 " base %" PRIx64 "\n"
	         "mapping 0 1 2 7f0020000000+%" PRIx64 " base %" PRIx64 "\n",
	         size, base, size, base + 0x10000000, size, base + 0x20000000);
	expect(s, "mapping", expected);
	struct sp_file_map kept;
	snprintf(expected, sizeof(expected), "%s/kept/%s", folder, info->debug_id);
	ok(sp_file_map_path(expected, &kept));
	assert_int_equal(kept.size, bytes.size);
	assert_memory_equal(kept.bytes, bytes.bytes, bytes.size);
	sp_file_unmap(&kept);
	sp_file_unmap(&bytes);
	unlink(expected);
	sp_object_destroy(object);
	stop(s);
}

/* A file that was replaced after it was mapped is not taken for what was mapped. */
static void test_replaced_file_is_not_used(void **state)
{
	(void)state;
	struct sp_pipeline_options options = { .ops = &fake_backend,
		                               .sources = &source,
		                               .source_count = 1,
		                               .interval_ns = MS,
		                               .kernel_sampled = true,
		                               .root_pid = ROOT };
	struct setup *s = start(&options);
	fake_fork(&s->a, 1, ROOT, ROOT, 1);
	struct sp_event *event = fake_map(&s->a, 2, ROOT, "/proc/self/exe", 0x10000, 0x10000);
	memset(event->map.build_id, 0xab, 20);
	event->map.build_id_size = 20;
	fake_sample(&s->a, 3, ROOT, ROOT, 0xa);
	ok(sp_pipeline_advance(s->pipeline, 100));
	finish(s, 100);
	expect(s, "module",
	       "module 0 0 exe /proc/self/exe exe /proc/self/exe ABABABABABABABABABABABABABABABAB0 "
	       "abababababababababababababababababababab  (null) /proc/self/exe was replaced by another file after it "
	       "was mapped\n");
	stop(s);
}

static void test_vdso_is_kept(void **state)
{
	(void)state;
	uint64_t vdso = getauxval(AT_SYSINFO_EHDR);
	if (!vdso) {
		print_message("SKIPPED: no vdso\n");
		skip();
	}
	struct sp_pipeline_options options = { .ops = &fake_backend,
		                               .sources = &source,
		                               .source_count = 1,
		                               .interval_ns = MS,
		                               .kernel_sampled = true,
		                               .cache_folder = folder,
		                               .root_pid = ROOT };
	struct setup *s = start(&options);
	fake_fork(&s->a, 1, ROOT, ROOT, 1);
	fake_map(&s->a, 2, ROOT, "[vdso]", vdso, 4096);
	fake_sample(&s->a, 3, ROOT, ROOT, 0xa);
	ok(sp_pipeline_advance(s->pipeline, 100));
	finish(s, 100);
	char expected[64], *kept = strstr(s->text.bytes, "/kept/");
	snprintf(expected, sizeof(expected), "mapping 0 0 2 %" PRIx64 "+1000 base %" PRIx64 "\n", vdso, vdso);
	expect(s, "mapping", expected);
	assert_non_null(strstr(s->text.bytes, "module 0 2 [vdso] [vdso]"));
	assert_non_null(kept);
	/* The copy is whole, and can be opened. */
	char file[256];
	snprintf(file, sizeof(file), "%s%.*s", folder, (int)strcspn(kept, " "), kept);
	struct stat st;
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_size, 4096);
	unlink(file);
	stop(s);
}

/* ---- JIT ---- */

static void test_perf_map(void **state)
{
	(void)state;
	char file[128];
	struct sp_pipeline_options options = { .ops = &fake_backend,
		                               .sources = &source,
		                               .source_count = 1,
		                               .interval_ns = MS,
		                               .kernel_sampled = true,
		                               .root_pid = 2000 };
	struct setup *s = start(&options);
	s->backend.folder = folder;
	fake_fork(&s->a, 1, 2000, 2000, 1);
	fake_named(&s->a, SP_EVENT_EXEC, 2, 2000, "java");
	fake_sample(&s->a, 3, 2000, 2000, 0xa);
	ok(sp_pipeline_advance(s->pipeline, 5));
	/* Written at its end, under the number that it has in its own namespace. */
	static const char map[] = "1000 20 first\n1000 40 second(int, char)\nnonsense\n0x2000 0 third\n";
	snprintf(file, sizeof(file), "%s/perf-1000.map", folder);
	ok(sp_file_write_atomic(file, map, sizeof(map) - 1));
	fake_add(&s->a, SP_EVENT_THREAD_EXIT, 9, 2000, 2000);
	struct sp_event *bpf = fake_add(&s->b, SP_EVENT_JIT_FUNCTION, 4, 0, 0);
	bpf->jit.start = 0xffffffffc0000000;
	bpf->jit.size = 64;
	bpf->jit.name = "bpf_prog";
	ok(sp_pipeline_advance(s->pipeline, 100));
	finish(s, 100);
	expect(s, "jit",
	       "jit 4294967295 4 ffffffffc0000000+40 bpf_prog 0\n"
	       "jit 0 9 1000+20 first 1\n"
	       "jit 0 9 1000+40 second(int, char) 1\n"
	       "jit 0 9 2000+1 third 1\n");
	expect(s, "process end", "process end 0 9\n");
	unlink(file);
	stop(s);
}

/* ---- CPU time ---- */

static void add_switch(struct fake_stream *stream, uint64_t in, uint64_t out, uint32_t pid, uint32_t tid)
{
	fake_add(stream, SP_EVENT_SWITCH_IN, in, pid, tid);
	fake_add(stream, SP_EVENT_SWITCH_OUT, out, pid, tid);
}

static void test_cpu_time_between_samples(void **state)
{
	(void)state;
	struct setup *s = start(NULL);
	fake_fork(&s->a, 0, ROOT, ROOT, 1);
	add_switch(&s->a, 10, 20, ROOT, ROOT);
	add_switch(&s->a, 50, 80, ROOT, ROOT);
	add_switch(&s->a, 90, 100, ROOT, ROOT);
	fake_sample(&s->b, 15, ROOT, ROOT, 0x1);
	fake_sample(&s->b, 60, ROOT, ROOT, 0x2);
	fake_sample(&s->b, 95, ROOT, ROOT, 0x3);
	ok(sp_pipeline_advance(s->pipeline, 200));
	finish(s, 200);
	expect(s, "sample",
	       "sample thread 0 source 0 time 15 cpu 4294967295 end 0 label (null) delta 5/1 weight 1: 1/0/1/0\n"
	       "sample thread 0 source 0 time 60 cpu 4294967295 end 0 label (null) delta 15/1 weight 1: 2/0/1/0\n"
	       "sample thread 0 source 0 time 95 cpu 4294967295 end 0 label (null) delta 25/1 weight 1: 3/0/1/0\n");
	assert_int_equal(counts(s).cpu_ns, 50);
	stop(s);
}

/* On a CPU for 100 ms with 60 samples: 40 are missing. Whole numbers, the rest is carried. */
static void test_kernel_time_is_estimated(void **state)
{
	(void)state;
	struct sp_pipeline_options options = {
		.sources = &source, .source_count = 1, .interval_ns = MS, .kernel_sampled = false, .root_pid = ROOT
	};
	struct setup *s = start(&options);
	fake_fork(&s->a, 0, ROOT, ROOT, 1);
	uint64_t time = 0, samples = 0;
	for (unsigned i = 0; i < 40; i++) {
		/* 2.5 ms on the CPU, of which 1 to 2 are seen. */
		fake_add(&s->a, SP_EVENT_SWITCH_IN, time, ROOT, ROOT);
		for (unsigned k = 0; k < 1 + i % 2; k++, samples++)
			fake_sample(&s->a, time + (k + 1) * MS, ROOT, ROOT, 0x1);
		time += 2500000;
		fake_add(&s->a, SP_EVENT_SWITCH_OUT, time, ROOT, ROOT);
		time += 10 * MS;
		ok(sp_pipeline_advance(s->pipeline, time));
	}
	assert_int_equal(samples, 60);
	finish(s, time);
	assert_int_equal(counts(s).samples, 60);
	assert_int_equal(counts(s).cpu_ns, 100 * MS);
	assert_int_equal(counts(s).kernel_estimated, 40);
	/* The records say the same, and their CPU time is all there was. */
	uint64_t weight = 0, delta = 0;
	for (const char *at = s->text.bytes; (at = strstr(at, "\nsample")); at++) {
		unsigned long long d, known;
		long long w;
		const char *label = strstr(at, "label ");
		assert_int_equal(sscanf(strstr(label, "delta "), "delta %llu/%llu weight %lld", &d, &known, &w), 3);
		assert_int_equal(known, 1);
		delta += d;
		if (!strncmp(label, "label [kernel, not sampled]", 27))
			weight += (uint64_t)w;
		else
			assert_int_equal(w, 1);
	}
	assert_int_equal(weight, 40);
	assert_int_equal(delta, 100 * MS);
	stop(s);
}

/* A thread that is in the kernel all the time shows while it is there, not when it leaves. */
static void test_kernel_time_of_a_running_thread(void **state)
{
	(void)state;
	struct sp_pipeline_options options = {
		.sources = &source, .source_count = 1, .interval_ns = MS, .kernel_sampled = false, .root_pid = ROOT
	};
	struct setup *s = start(&options);
	fake_fork(&s->a, 0, ROOT, ROOT, 1);
	fake_add(&s->a, SP_EVENT_SWITCH_IN, 10, ROOT, ROOT);
	ok(sp_pipeline_advance(s->pipeline, 20));
	add_marker(&s->b, 10 + 50 * MS, "tick");
	ok(sp_pipeline_advance(s->pipeline, 11 + 50 * MS));
	assert_int_equal(counts(s).kernel_estimated, 50);
	/* Samples that were lost are not taken for time in the kernel. */
	struct sp_event *loss = fake_add(&s->a, SP_EVENT_LOSS, 10 + 100 * MS, ROOT, ROOT);
	loss->loss = (struct sp_event_loss){ .kind = SP_LOSS_SAMPLES, .count = 30, .end_time = loss->time };
	fake_add(&s->a, SP_EVENT_SWITCH_OUT, 10 + 100 * MS, ROOT, ROOT);
	finish(s, 200 * MS);
	assert_int_equal(counts(s).kernel_estimated, 70);
	expect(s, "loss", "loss 1 thread 4294967295 cpu 4294967295 100000010-100000010 30\n");
	stop(s);
}

/* Events of a thread end with it, before it leaves its CPU: the time after is not its own, although the thread is kept
 * for a while. */
static void test_no_kernel_time_after_the_end(void **state)
{
	(void)state;
	struct sp_pipeline_options options = {
		.sources = &source, .source_count = 1, .interval_ns = MS, .kernel_sampled = false, .root_pid = ROOT
	};
	struct setup *s = start(&options);
	fake_fork(&s->a, 0, ROOT, ROOT, 1);
	uint64_t time = 10;
	for (unsigned i = 0; i < 50; i++) {
		uint32_t child = ROOT + 1 + i;
		fake_fork(&s->a, time, child, child, ROOT);
		fake_add(&s->a, SP_EVENT_SWITCH_IN, time + 1, child, child);
		for (unsigned k = 1; k <= 3; k++)
			fake_sample(&s->a, time + 1 + k * MS, child, child, 0x1);
		fake_add(&s->a, SP_EVENT_THREAD_EXIT, time + 1 + 3 * MS, child, child);
		for (unsigned k = 4; k < 9; k++) {
			add_marker(&s->b, time + k * MS, "tick");
			ok(sp_pipeline_advance(s->pipeline, time + k * MS + 1));
		}
		time += 9 * MS;
	}
	finish(s, time + 100 * MS);
	assert_int_equal(counts(s).samples, 150);
	assert_int_equal(counts(s).cpu_ns, 150 * MS);
	assert_int_equal(counts(s).kernel_estimated, 0);
	stop(s);
}

/* ---- Late events ---- */

static void test_late_events(void **state)
{
	(void)state;
	struct setup *s = start(NULL);
	fake_fork(&s->a, 10, ROOT, ROOT, 1);
	fake_sample(&s->a, 90, ROOT, ROOT, 0x1);
	ok(sp_pipeline_advance(s->pipeline, 100));
	/* Both are from before 100: the fork still counts, the samples do not. */
	fake_fork(&s->b, 50, 101, 101, ROOT);
	fake_sample(&s->b, 60, 101, 101, 0x2);
	fake_sample(&s->c, 70, ROOT, ROOT, 0x3);
	fake_sample(&s->c, 110, 101, 101, 0x4);
	ok(sp_pipeline_advance(s->pipeline, 200));
	finish(s, 200);
	assert_int_equal(counts(s).late, 2);
	expect(s, "sample", SAMPLE_LINE("0", "90", "1") SAMPLE_LINE("1", "110", "4"));
	expect(s, "loss", "loss 3 thread 4294967295 cpu 4294967295 60-70 2\n");
	stop(s);
}

/* The kernel samples a thread in its last moments too, when the thread has no number any more. */
static void test_samples_of_ended_threads(void **state)
{
	(void)state;
	struct setup *s = start(NULL);
	fake_fork(&s->a, 10, ROOT, ROOT, 1);
	fake_sample(&s->a, 20, ROOT, ROOT, 0x1);
	fake_sample(&s->a, 30, ROOT, SP_TID_ENDED, 0x2);
	fake_sample(&s->a, 40, 999, SP_TID_ENDED, 0x3); /* another process's */
	finish(s, 100);
	assert_int_equal(counts(s).late, 1);
	expect(s, "sample", SAMPLE_LINE("0", "20", "1"));
	expect(s, "loss", "loss 3 thread 4294967295 cpu 4294967295 30-30 1\n");
	stop(s);
}

/* ---- Ends ---- */

static void test_full_disk(void **state)
{
	(void)state;
	if (access("/dev/full", W_OK)) {
		print_message("SKIPPED: no /dev/full\n");
		skip();
	}
	struct setup *s = start(NULL);
	struct sp_recording_writer *full;
	ok(sp_recording_writer_create("/dev/full", &full));
	s->options.recording = full;
	sp_pipeline_destroy(s->pipeline);
	ok(sp_pipeline_create(&s->options, &s->pipeline));
	ok(sp_pipeline_add_stream(s->pipeline, &s->a.stream));
	fake_fork(&s->a, 1, ROOT, ROOT, 1);
	for (unsigned i = 0; i < 1000; i++)
		fake_sample(&s->a, 10 + i, ROOT, ROOT, 1);
	ok(sp_pipeline_advance(s->pipeline, 500));
	struct sp_error *error = sp_recording_flush(full);
	assert_non_null(error);
	sp_error_destroy(error);
	/* Said at every step from now on; events are still taken and given back. */
	error = sp_pipeline_advance(s->pipeline, 2000);
	assert_non_null(error);
	sp_error_destroy(error);
	error = sp_pipeline_finish(s->pipeline, 2000);
	assert_non_null(error);
	assert_non_null(strstr(error->message, "/dev/full"));
	sp_error_destroy(error);
	assert_int_equal(s->a.released, s->a.count);
	sp_error_destroy(sp_recording_writer_finish(full));
	stop(s);
}

static void test_given_up(void **state)
{
	(void)state;
	struct setup *s = start(NULL);
	fake_fork(&s->a, 1, ROOT, ROOT, 1);
	for (unsigned i = 0; i < 100; i++)
		fake_sample(&s->a, 10 + i, ROOT, ROOT, 1);
	ok(sp_pipeline_advance(s->pipeline, 50));
	stop(s);
}

static void test_next_run(void **state)
{
	(void)state;
	struct setup *s = start(NULL);
	struct fake_stream *second = calloc(1, sizeof(*second));
	assert_non_null(second);
	fake_init(second);
	fake_fork(&s->a, 10, ROOT, ROOT, 1);
	fake_sample(&s->a, 11, ROOT, ROOT, 0x1);
	ok(sp_pipeline_finish(s->pipeline, 20));
	ok(sp_pipeline_next_run(s->pipeline, &s->backend, 200));
	ok(sp_pipeline_add_stream(s->pipeline, &second->stream));
	fake_fork(second, 30, 200, 200, 1);
	fake_sample(second, 31, 200, 200, 0x2);
	fake_sample(second, 32, ROOT, ROOT, 0x3);
	ok(sp_pipeline_advance(s->pipeline, 100));
	finish(s, 100);
	expect(s, "sample", SAMPLE_LINE("0", "11", "1") SAMPLE_LINE("1", "31", "2"));
	stop(s);
	free(second);
}

/* Events that make no sense must do no harm; run under the sanitizers. */
static void test_random_events(void **state)
{
	(void)state;
	static const char *const paths[] = { "/none/a", "/none/b", "//anon", "[vdso]", "/proc/self/exe", "", NULL };
	struct sp_pipeline_options options = { .ops = &fake_backend,
		                               .sources = &source,
		                               .source_count = 1,
		                               .interval_ns = 100,
		                               .kernel_sampled = false,
		                               .root_pid = 1 };
	struct setup *s = start(&options);
	struct fake_stream *streams[] = { &s->a, &s->b, &s->c };
	uint64_t random = 42, time = 0;
	for (unsigned i = 0; i < 9000; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		uint32_t r = (uint32_t)(random >> 33);
		enum sp_event_kind kind = r % 3 ? SP_EVENT_SAMPLE : r / 3 % (SP_EVENT_MARKER + 1);
		uint32_t pid = 1 + r / 64 % 8, tid = r & 0x8000 ? pid : 1 + r / 512 % 16;
		if (kind == SP_EVENT_SWITCH_IN && r & 0x10000)
			kind = SP_EVENT_EXEC;
		time += r / 4096 % 64;
		uint64_t when = r % 101 ? time : time / 2;
		struct sp_event *event = fake_add(streams[i % 3], kind, when, pid, tid);
		if (kind == SP_EVENT_THREAD_START) {
			event->found = r & 0x20000;
			event->thread_start.parent_pid = event->thread_start.parent_tid = 1 + r / 1024 % 8;
		} else if (kind == SP_EVENT_MAP || kind == SP_EVENT_UNMAP) {
			event->map.start = (r / 128 % 64) * 0x1000;
			event->map.size = (r / 8192 % 16) * 0x1000;
			event->map.path = paths[r % 7];
			event->map.executable = r & 0x40000;
		} else if (kind == SP_EVENT_KERNEL_MODULE) {
			event->map.start = r;
			event->map.size = 10;
		} else if (kind == SP_EVENT_SAMPLE) {
			event->sample.in_kernel = r & 0x80000;
			event->sample.ip = r;
		}
		if (i % 300 == 299)
			ok(sp_pipeline_advance(s->pipeline, time - time % 128));
	}
	finish(s, time);
	stop(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_streams_are_merged_by_time),
		cmocka_unit_test(test_fork_is_seen_before_the_child),
		cmocka_unit_test(test_others_are_dropped_at_once),
		cmocka_unit_test(test_pid_is_used_again),
		cmocka_unit_test(test_samples_after_the_end),
		cmocka_unit_test(test_exec_begins_a_new_program),
		cmocka_unit_test(test_found_processes_are_one),
		cmocka_unit_test(test_survivors),
		cmocka_unit_test(test_mappings_replace_and_cut),
		cmocka_unit_test(test_module_identity),
		cmocka_unit_test(test_replaced_file_is_not_used),
		cmocka_unit_test(test_vdso_is_kept),
		cmocka_unit_test(test_perf_map),
		cmocka_unit_test(test_cpu_time_between_samples),
		cmocka_unit_test(test_kernel_time_is_estimated),
		cmocka_unit_test(test_kernel_time_of_a_running_thread),
		cmocka_unit_test(test_no_kernel_time_after_the_end),
		cmocka_unit_test(test_late_events),
		cmocka_unit_test(test_samples_of_ended_threads),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_given_up),
		cmocka_unit_test(test_next_run),
		cmocka_unit_test(test_random_events),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
