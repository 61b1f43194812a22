/* Unit tests of samples, stacks and code in traces that no public file holds: 32-bit kernels, ARM64, counters, changing
 * rates, stack keys, DPCs, JavaScript. Names, counts and times are known since the trace was made so. */
#include "etl_made.h"

#define PID 60
#define TID 61
#define KERNEL 0xfffff80000001000u
#define USER 0x140001000u

static struct made *begin(void)
{
	struct made *made = made_begin(8, NULL);
	put_process(made, SP_ETL_DC_START, 0, PID, 1, "a.exe", false);
	put_thread(made, SP_ETL_DC_START, 0, PID, TID, "");
	return made;
}

/* Frames of a stack tree, leaf first, as "1 2 3". */
static const char *frames_of(const struct sp_trace *trace, uint32_t node, char out[256])
{
	size_t used = 0;
	*out = '\0';
	for (; node != SP_TRACE_NONE && used < 200; node = trace->node_parent.items[node])
		used += (size_t)snprintf(out + used, 256 - used, "%s%llx", used ? " " : "",
		                         (unsigned long long)trace->node_address.items[node]);
	return out;
}

static void assert_halves(const struct sp_trace *trace, size_t index, const char *kernel, const char *user)
{
	char text[256];
	assert_true(index < trace->samples.count);
	assert_string_equal(frames_of(trace, trace->samples.items[index].kernel, text), kernel);
	assert_string_equal(frames_of(trace, trace->samples.items[index].user, text), user);
}

/* ---- Machines ---- */

/* All pointers have 4 bytes, and the kernel begins at 2 GB. */
static void test_32_bit_trace(void **state)
{
	(void)state;
	struct made *made = made_begin(4, NULL);
	struct sp_import_result result;
	const uint64_t kernel[] = { 0x80001010, 0x80001020 }, user[] = { 0x401010, 0x401020 };
	put_process(made, SP_ETL_DC_START, 0, PID, 1, "small.exe", true);
	put_thread(made, SP_ETL_DC_START, 0, PID, TID, "narrow");
	put_image(made, SP_ETL_IMAGE_DC_START, 0, 0, 0x80000000, 0x10000, "\\SystemRoot\\system32\\ntkrnlpa.exe");
	put_image(made, SP_ETL_IMAGE_DC_START, 0, PID, 0x400000, 0x8000, "\\Device\\HarddiskVolume1\\small.exe");
	put_sample(made, 1 * MS, 0x80001010, TID, 0);
	put_stack(made, 1 * MS + 1, 1 * MS, PID, TID, kernel, 2);
	put_stack(made, 1 * MS + 9, 1 * MS, PID, TID, user, 2);
	put_sample(made, 2 * MS, 0x80001010, TID, 0);
	put_key(made, SP_ETL_STACK_KERNEL_KEY, 2 * MS + 1, 2 * MS, PID, TID, 0x90000001);
	put_key(made, SP_ETL_STACK_USER_KEY, 2 * MS + 2, 2 * MS, PID, TID, 0x90000001);
	put_definition(made, SP_ETL_STACK_RUNDOWN, 3 * MS, 0x90000001, user + 1, 1);
	put_definition(made, SP_ETL_STACK_RUNDOWN, 3 * MS, 0x90000001, kernel + 1, 1);
	const struct sp_trace *trace = read_back(made);
	assert_int_equal(trace->samples.count, 2);
	assert_halves(trace, 0, "80001010 80001020", "401010 401020");
	assert_halves(trace, 1, "80001020", "401020");
	const char *text = recorded(made, &result);
	assert_has(text, "meta arch = x86\n");
	assert_has(text, " 1 ntkrnlpa.exe C:\\Windows\\system32\\ntkrnlpa.exe");
	assert_has(text, " 0 small.exe \\Device\\HarddiskVolume1\\small.exe");
	assert_has(text, " 5F0000008000 x86 ");
	assert_has(text, "80001010/0/1/0 80001020/1/1/0 401010/0/0/0 401020/1/0/0\n");
	sp_import_result_deinit(&result);
	made_end(made);
}

/* On ARM64 one walk may hold both halves. */
static void test_arm64_stack(void **state)
{
	(void)state;
	struct made *made = begin();
	struct sp_import_result result;
	const uint64_t both[] = { KERNEL, KERNEL + 0x10, USER, USER + 0x10 };
	put_cpu_config(made, 12);
	put_image(made, SP_ETL_IMAGE_DC_START, 0, PID, 0x7ff800000000, 0x8000, "\\Windows\\System32\\ntdll.dll");
	put_sample(made, 1 * MS, KERNEL, TID, 0);
	put_stack(made, 1 * MS + 1, 1 * MS, PID, TID, both, 4);
	put_sample(made, 2 * MS, USER, TID, 0);
	put_stack(made, 2 * MS + 1, 2 * MS, PID, TID, both + 2, 2);
	const struct sp_trace *trace = read_back(made);
	assert_halves(trace, 0, "fffff80000001000 fffff80000001010", "140001000 140001010");
	assert_halves(trace, 1, "", "140001000 140001010");
	assert_int_equal(trace->counts.other_stacks, 0);
	const char *text = recorded(made, &result);
	assert_has(text, "meta arch = arm64\n");
	assert_has(text, "meta cpu = arm64 2400 MHz\n");
	assert_has(text, "meta host = BOX\n");
	assert_has(text, "meta memory = 8589934592\n");
	assert_has(text, " C:\\Windows\\System32\\ntdll.dll ");
	sp_import_result_deinit(&result);
	made_end(made);
}

/* ---- Rates ---- */

/* The shortest interval is what a weight of 1 stands for; each change is a marker. */
static void test_changing_interval(void **state)
{
	(void)state;
	struct made *made = begin();
	struct sp_import_result result;
	put_interval(made, SP_ETL_PERF_START, 0, 0, 10000, 10000, "Timer");
	put_sample(made, 1 * MS, USER, TID, 0);
	put_interval(made, SP_ETL_PERF_SET_INTERVAL, 2 * MS, 0, 2500, 10000, "Timer");
	put_sample(made, 2 * MS + MS / 4, USER, TID, 0);
	put_interval(made, SP_ETL_PERF_SET_INTERVAL, 3 * MS, 0, 20000, 2500, "Timer");
	put_sample(made, 5 * MS, USER, TID, 0);
	put_interval(made, SP_ETL_PERF_STOP, 6 * MS, 0, 20000, 20000, "Timer");
	read_back(made);
	const char *text = recorded(made, &result);
	assert_has(text, "meta interval-ns = 250000\n");
	assert_has(text, "source 0 profile timer samples 0 4000\n");
	assert_has(text, "time 1000000 cpu 0 end 7 label (null) delta 1000000/1 weight 4:");
	assert_has(text, "time 2250000 cpu 0 end 7 label (null) delta 250000/1 weight 1:");
	assert_has(text, "time 5000000 cpu 0 end 7 label (null) delta 2000000/1 weight 8:");
	assert_has(text, "2000000-2000000 Sampling interval changed from 1 ms to 0.25 ms\n");
	assert_has(text, "3000000-3000000 Sampling interval changed from 0.25 ms to 2 ms\n");
	assert_has_not(text, "rate-note");
	sp_import_result_deinit(&result);
	made_end(made);
}

/* Samples of hardware counters are a source each, weighted by what a sample stands for. */
static void test_counter_samples(void **state)
{
	(void)state;
	struct made *made = begin();
	struct sp_import_result result;
	put_interval(made, SP_ETL_PERF_START, 0, 11, 65536, 65536, "CacheMisses");
	for (unsigned i = 0; i < 5; i++) {
		struct bytes p = sample_payload(made, USER + i, TID, i < 3 ? 11 : 6, 0);
		const uint64_t frames[] = { USER + i, USER + 0x100 };
		put_perf(made, 0, SP_ETL_GROUP_PERFINFO, SP_ETL_PERF_PMC, 2, (1 + i) * MS, &p);
		put_stack(made, (1 + i) * MS + 1, (1 + i) * MS, PID, TID, frames, 2);
	}
	const struct sp_trace *trace = read_back(made);
	assert_int_equal(trace->counts.pmc, 5);
	assert_int_equal(trace->counts.samples, 0);
	assert_halves(trace, 4, "", "140001004 140001100");
	const char *text = recorded(made, &result);
	assert_has(text, "source 2 CacheMisses events 0 0\n");
	assert_has(text, "source 3 counter 6 samples 0 0\n");
	assert_has(text, "source 2 time 3000000 cpu 0 end 0 label (null) delta 0/0 weight 65536: 140001002/0/0/0");
	assert_has(text, "source 3 time 4000000 cpu 0 end 0 label (null) delta 0/0 weight 1: 140001003/0/0/0");
	assert_has_not(text, "meta empty");
	sp_import_result_deinit(&result);
	made_end(made);
}

/* ---- Stacks ---- */

/* A key means the first definition after it, in its role: kernel and user keys may be equal, and numbers come again. */
static void test_stack_keys(void **state)
{
	(void)state;
	struct made *made = begin();
	const uint64_t key = 0xfffffa8300000010u;
	const uint64_t kernel[] = { KERNEL }, first[] = { USER, USER + 1 }, second[] = { USER + 2 };
	put_sample(made, 1 * MS, KERNEL, TID, 0);
	put_key(made, SP_ETL_STACK_KERNEL_KEY, 1 * MS + 1, 1 * MS, PID, TID, key);
	put_key(made, SP_ETL_STACK_USER_KEY, 1 * MS + 2, 1 * MS, PID, TID, key);
	put_definition(made, SP_ETL_STACK_DELETE, 2 * MS, key, first, 2);
	put_sample(made, 3 * MS, USER, TID, 0);
	put_key(made, SP_ETL_STACK_USER_KEY, 3 * MS + 2, 3 * MS, PID, TID, key);
	put_definition(made, SP_ETL_STACK_DELETE, 4 * MS, key, kernel, 1);
	put_definition(made, SP_ETL_STACK_RUNDOWN, 5 * MS, key, second, 1);
	put_sample(made, 6 * MS, USER, TID, 0);
	put_key(made, SP_ETL_STACK_USER_KEY, 6 * MS + 2, 6 * MS, PID, TID, 77); /* never defined */
	const struct sp_trace *trace = read_back(made);
	assert_halves(trace, 0, "fffff80000001000", "140001000 140001001");
	assert_halves(trace, 1, "", "140001002");
	assert_halves(trace, 2, "", "");
	assert_int_equal(trace->counts.unresolved_keys, 1);
	made_end(made);
}

/* A stack as deep as Windows walks goes on: its root is not shown as one. */
static void test_deep_stack(void **state)
{
	(void)state;
	struct made *made = begin();
	struct sp_import_result result;
	uint64_t frames[SP_ETL_STACK_MAX];
	char line[96];
	for (unsigned i = 0; i < SP_ETL_STACK_MAX; i++)
		frames[i] = USER + i;
	put_sample(made, 1 * MS, USER, TID, 0);
	put_stack(made, 1 * MS + 1, 1 * MS, PID, TID, frames, SP_ETL_STACK_MAX);
	read_back(made);
	snprintf(line, sizeof(line), "time 1000000 cpu 0 end %u ", SP_UNWIND_DEPTH);
	assert_has(recorded(made, &result), line);
	sp_import_result_deinit(&result);
	made_end(made);
}

/* DPCs and interrupts run on whatever thread has the CPU: a frame between theirs and the thread's says so. */
static void test_dpc_and_isr(void **state)
{
	(void)state;
	enum { DPC = 1, ISR = 2, PRIORITY = 8 << 3 };
	struct made *made = begin();
	struct sp_import_result result;
	const uint64_t kernel[] = { KERNEL }, user[] = { USER };
	static const unsigned flags[] = { DPC | PRIORITY, ISR, DPC | ISR };
	for (unsigned i = 0; i < 3; i++) {
		put_sample(made, (1 + i) * MS, KERNEL, TID, flags[i]);
		put_stack(made, (1 + i) * MS + 1, (1 + i) * MS, PID, TID, kernel, 1);
		put_stack(made, (1 + i) * MS + 2, (1 + i) * MS, PID, TID, user, 1);
	}
	made->cpu = 1;
	put_sample(made, 5 * MS, KERNEL, 0, DPC); /* on an idle CPU: no idle sample */
	put_sample(made, 6 * MS, KERNEL, 0, PRIORITY);
	const struct sp_trace *trace = read_back(made);
	assert_int_equal(trace->counts.samples, 4);
	assert_int_equal(trace->counts.dpc_isr, 4);
	assert_int_equal(trace->counts.idle, 1);
	const char *text = recorded(made, &result);
	assert_has(text, "+100 [DPC] 0\n");
	assert_has(text, "+100 [ISR] 0\n");
	assert_has(text, "weight 1: fffff80000001000/0/1/0 fffffffffffff001/0/1/0 140001000/0/0/0\n");
	assert_has(text, "weight 1: fffff80000001000/0/1/0 fffffffffffff801/0/1/0 140001000/0/0/0\n");
	assert_has(text, "weight 1: fffff80000001000/0/1/0 fffffffffffff801/0/1/0 fffffffffffff001/0/1/0 140001000");
	assert_has(text, "tid 0 time 0 main 0 Idle, CPU 1\n");
	assert_has(text, "time 5000000 cpu 1 ");
	sp_import_result_deinit(&result);
	made_end(made);
}

/* ---- Code ---- */

static const struct sp_guid jscript = SP_GUID(0x57277741, 0x3638, 0x4a4b, 0xbd, 0xba, 0x0a, 0xc6, 0xe4, 0x5d, 0xa5,
                                              0x6c);
static const struct sp_guid clr = SP_GUID(0xe13c0d23, 0xccbc, 0x4e12, 0x93, 0x1b, 0xd9, 0xcc, 0x2e, 0xee, 0x27, 0xe4);
static const struct sp_guid clr_rundown = SP_GUID(0xa669021c, 0xc450, 0x4609, 0xa0, 0x35, 0x5a, 0xf5, 0x9a, 0xf4, 0xdf,
                                                  0x18);

static void put_script(struct made *made, uint64_t time, uint64_t source, const char *url)
{
	struct bytes p = begin_bytes(made);
	u64(&p, source);
	ptr(&p, 0xc0de);
	u32(&p, 0);
	wide(&p, url);
	put_event(made, &(struct made_event){ .guid = &jscript,
	                                      .id = 41,
	                                      .opcode = 12,
	                                      .task = 2,
	                                      .time = time,
	                                      .tid = TID,
	                                      .pid = PID,
	                                      .payload = &p });
}

static void put_javascript(struct made *made, uint16_t id, uint64_t time, uint64_t start, uint64_t size,
                           uint64_t source, uint32_t line, const char *name)
{
	struct bytes p = begin_bytes(made);
	ptr(&p, 0xc0de);
	ptr(&p, start);
	u64(&p, size);
	u32(&p, 7);
	u16(&p, 0);
	u16(&p, 0);
	u64(&p, source);
	u32(&p, line);
	u32(&p, 3);
	wide(&p, name);
	put_event(made, &(struct made_event){ .guid = &jscript,
	                                      .id = id,
	                                      .opcode = 10,
	                                      .task = 1,
	                                      .time = time,
	                                      .tid = TID,
	                                      .pid = PID,
	                                      .payload = &p });
}

/* Functions of Edge's old engine and of V8 (Chrome, Node.js): by name, script and line, for the time that they lie
 * there. */
static void test_javascript(void **state)
{
	(void)state;
	struct made *made = begin();
	struct sp_import_result result;
	put_script(made, 1 * MS, 5, "https://x.test/app.js");
	put_javascript(made, 9, 2 * MS, 0x30001000, 0x100, 5, 12, "render");
	put_javascript(made, 9, 2 * MS, 0x30002000, 0x100, 5, 40, "");
	put_javascript(made, 9, 2 * MS, 0x30003000, 0x100, 0, 0, "Builtin:Call");
	put_sample(made, 3 * MS, 0x30001010, TID, 0);
	put_javascript(made, 9, 4 * MS, 0x30001000, 0x80, 5, 70, "replaced"); /* moved there after a collection */
	put_javascript(made, 11, 9 * MS, 0x30004000, 0x100, 5, 90, "old");    /* the rundown's */
	const struct sp_trace *trace = read_back(made);
	assert_int_equal(trace->counts.methods, 5);
	const char *text = recorded(made, &result);
	assert_has(text, "jit 0 2000000 30001000+100 render https://x.test/app.js:12 0\n");
	assert_has(text, "jit 0 2000000 30002000+100 (anonymous) https://x.test/app.js:40 0\n");
	assert_has(text, "jit 0 2000000 30003000+100 Builtin:Call 0\n");
	assert_has(text, "jit 0 4000000 30001000+100 (null) 0\n");
	assert_has(text, "jit 0 4000000 30001000+80 replaced https://x.test/app.js:70 0\n");
	assert_has(text, "30004000+100 old https://x.test/app.js:90 1\n");
	sp_import_result_deinit(&result);
	made_end(made);
}

static void put_method(struct made *made, const struct sp_guid *guid, uint16_t id, uint64_t time, uint64_t start,
                       const char *space, const char *name, const char *signature)
{
	struct bytes p = begin_bytes(made);
	u64(&p, 1);
	u64(&p, 2);
	u64(&p, start);
	u32(&p, 0x40);
	u32(&p, 0x6000001);
	u32(&p, 1);
	wide(&p, space);
	wide(&p, name);
	wide(&p, signature);
	u16(&p, 9); /* the runtime's number */
	put_event(made, &(struct made_event){ .guid = guid,
	                                      .id = id,
	                                      .version = 1,
	                                      .opcode = 37,
	                                      .task = 9,
	                                      .time = time,
	                                      .tid = TID,
	                                      .pid = PID,
	                                      .payload = &p });
}

static void test_dotnet(void **state)
{
	(void)state;
	struct made *made = begin();
	struct sp_import_result result;
	put_method(made, &clr, 143, 1 * MS, 0x50001000, "Shop.Cart", "Add", "instance void  (int32,class Item)");
	put_method(made, &clr, 144, 5 * MS, 0x50001000, "Shop.Cart", "Add", "instance void  (int32,class Item)");
	put_method(made, &clr_rundown, 144, 9 * MS, 0x50002000, "Shop.Cart", "Total", "float64  ()");
	put_method(made, &clr_rundown, 144, 9 * MS, 0x50003000, "", "Main", "");
	read_back(made);
	const char *text = recorded(made, &result);
	assert_has(text, "jit 0 1000000 50001000+40 Shop.Cart.Add(int32,class Item) 0\n");
	assert_has(text, "jit 0 5000000 50001000+40 (null) 0\n");
	assert_has(text, "50002000+40 Shop.Cart.Total() 1\n");
	assert_has(text, "50003000+40 Main 1\n");
	sp_import_result_deinit(&result);
	made_end(made);
}

/* ---- Images ---- */

static void put_volume(struct made *made, const char *nt, const char *dos)
{
	struct bytes p = begin_bytes(made);
	wide(&p, nt);
	wide(&p, dos);
	put_classic(made, &sp_etl_guid_system, SP_ETL_SYS_VOLUME, 0, 0, 0, 0, &p);
}

static void put_ids(struct made *made, uint64_t time, uint32_t pid, uint64_t base, uint8_t first, const char *pdb)
{
	struct bytes id = begin_bytes(made), debug = begin_bytes(made);
	ptr(&id, base);
	ptr(&id, 0x9000);
	u32(&id, pid);
	u32(&id, 0x61234567);
	wide(&id, "original.dll");
	put_classic(made, &sp_etl_guid_image_id, SP_ETL_IMAGE_ID, 2, time, 0, 0, &id);
	ptr(&debug, base);
	u32(&debug, pid);
	for (unsigned i = 0; i < SP_GUID_SIZE; i++)
		u8(&debug, first + i);
	u32(&debug, 10);
	narrow(&debug, pdb);
	put_classic(made, &sp_etl_guid_image_id, SP_ETL_IMAGE_RSDS, 2, time, 0, 0, &debug);
}

/* Paths get their drive letters; IDs belong to the image that lay there at their time. */
static void test_volumes_and_ids(void **state)
{
	(void)state;
	struct made *made = begin();
	struct sp_import_result result;
	put_volume(made, "\\Device\\HarddiskVolume3\\", "D:\\");
	put_volume(made, "\\Device\\HarddiskVolume33\\", "E:\\");
	put_ids(made, 1 * MS, PID, 0x10000000, 0x10, "one.pdb");
	put_image(made, SP_ETL_IMAGE_LOAD, 1 * MS, PID, 0x10000000, 0x9000, "\\Device\\HarddiskVolume3\\lib\\one.dll");
	put_sample(made, 2 * MS, 0x10000010, TID, 0);
	put_image(made, SP_ETL_IMAGE_UNLOAD, 3 * MS, PID, 0x10000000, 0x9000,
	          "\\Device\\HarddiskVolume3\\lib\\one.dll");
	put_ids(made, 4 * MS, PID, 0x10000000, 0x40, "c:\\build\\two.pdb");
	put_image(made, SP_ETL_IMAGE_LOAD, 4 * MS, PID, 0x10000000, 0x9000, "\\Device\\HarddiskVolume33\\two.dll");
	put_sample(made, 5 * MS, 0x10000010, TID, 0);
	read_back(made);
	const char *text = recorded(made, &result);
	assert_has(text, "one.dll D:\\lib\\one.dll one.pdb one.pdb 1312111015141716"
	                 "18191A1B1C1D1E1Fa 612345679000 ");
	assert_has(text, "two.dll E:\\two.dll two.pdb c:\\build\\two.pdb 43424140454447464"
	                 "8494A4B4C4D4E4Fa 612345679000 ");
	assert_has(text, "mapping 0 0 1000000 10000000+9000 base 10000000\n");
	assert_has(text, "unmapping 0 3000000 10000000+9000\n");
	assert_has(text, "mapping 0 1 4000000 10000000+9000 base 10000000\n");
	sp_import_result_deinit(&result);
	made_end(made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_32_bit_trace),
		cmocka_unit_test(test_arm64_stack),
		cmocka_unit_test(test_changing_interval),
		cmocka_unit_test(test_counter_samples),
		cmocka_unit_test(test_stack_keys),
		cmocka_unit_test(test_deep_stack),
		cmocka_unit_test(test_dpc_and_isr),
		cmocka_unit_test(test_javascript),
		cmocka_unit_test(test_dotnet),
		cmocka_unit_test(test_volumes_and_ids),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
