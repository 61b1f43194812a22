/* Unit tests of events that become markers: TraceLogging and manifest events, Firefox's and Chrome's own, and what may
 * stand between an event's header and its payload. Names, texts and times are known since the trace was made so. */
#include "etl_made.h"

#define PID 60
#define TID 61

static const struct sp_guid mine = SP_GUID(0x11223344, 0x5566, 0x7788, 1, 2, 3, 4, 5, 6, 7, 8);
static const struct sp_guid firefox = SP_GUID(0xc923f508, 0x96e4, 0x5515, 0xe3, 0x2c, 0x75, 0x39, 0xd1, 0xb1, 0x05,
                                              0x04);
static const struct sp_guid chrome = SP_GUID(0xd2d578d9, 0x2936, 0x45b6, 0xa0, 0x9f, 0x30, 0xe3, 0x27, 0x15, 0xf4,
                                             0x2d);

enum {
	IN_WIDE = 1,
	IN_NARROW = 2,
	IN_UINT8 = 4,
	IN_UINT16 = 6,
	IN_INT32 = 7,
	IN_UINT32 = 8,
	IN_UINT64 = 10,
	IN_DOUBLE = 12,
	IN_BOOL = 13,
	IN_POINTER = 16,
	IN_COUNTED_WIDE = 22,
	IN_STRUCT = 24,
	COUNTED = 0x40,
	CHAIN = 0x80
};

static struct made *begin(const char *const *markers)
{
	struct made *made = made_begin(8, NULL);
	made->options.markers = markers;
	put_process(made, SP_ETL_DC_START, 0, PID, 1, "a.exe", false);
	put_thread(made, SP_ETL_DC_START, 0, PID, TID, "");
	return made;
}

/* ---- TraceLogging ---- */

static void begin_schema(struct bytes *schema, const char *name)
{
	u16(schema, 0);
	u8(schema, 0);
	narrow(schema, name);
}

static void add_field(struct bytes *schema, const char *name, unsigned type)
{
	narrow(schema, name);
	u8(schema, type);
}

/* Extended data with schema and provider name; the stack of the event between them when `stack`. */
static struct bytes items_of(struct made *made, struct bytes *schema, const char *provider, bool stack)
{
	struct bytes items = begin_bytes(made), traits = begin_bytes(made), frames = begin_bytes(made);
	uint16_t size = (uint16_t)schema->n;
	memcpy(schema->b, &size, 2);
	u16(&traits, 2 + (unsigned)strlen(provider) + 1);
	narrow(&traits, provider);
	u64(&frames, 99);
	for (unsigned i = 0; i < 5; i++)
		u64(&frames, 0x140001000 + i);
	add_item(&items, SP_ETL_ITEM_SCHEMA, true, schema->b, schema->n);
	if (stack) {
		add_item(&items, SP_ETL_ITEM_STACK64, true, frames.b, frames.n);
		add_item(&items, SP_ETL_ITEM_STACK_KEY64, true, frames.b, 16);
	}
	add_item(&items, SP_ETL_ITEM_TRAITS, false, traits.b, traits.n);
	return items;
}

static void put_tlg(struct made *made, const struct sp_guid *guid, const char *provider, uint8_t opcode, uint64_t time,
                    struct bytes *schema, const struct bytes *payload, bool stack)
{
	struct bytes items = items_of(made, schema, provider, stack);
	put_event(made, &(struct made_event){ .guid = guid,
	                                      .opcode = opcode,
	                                      .time = time,
	                                      .tid = TID,
	                                      .pid = PID,
	                                      .items = &items,
	                                      .payload = payload });
}

/* Every kind of field, arrays and a structure, whatever else is in the extended data. */
static void test_tracelogging(void **state)
{
	(void)state;
	static const char *const markers[] = { "My.Provider", NULL };
	struct made *made = begin(markers);
	struct sp_import_result result;
	for (unsigned i = 0; i < 2; i++) {
		struct bytes schema = begin_bytes(made), payload = begin_bytes(made);
		begin_schema(&schema, i ? "WithStack" : "Plain");
		add_field(&schema, "Count", IN_INT32);
		u32(&payload, (uint32_t)-7);
		add_field(&schema, "Text", IN_WIDE);
		wide(&payload, "hi there");
		add_field(&schema, "Counted", IN_COUNTED_WIDE);
		u16(&payload, 4);
		u16(&payload, 'o');
		u16(&payload, 'k');
		add_field(&schema, "List", IN_UINT16 | COUNTED);
		u16(&payload, 3);
		for (unsigned j = 0; j < 3; j++)
			u16(&payload, 10 + j);
		add_field(&schema, "Pair", IN_STRUCT | CHAIN);
		u8(&schema, 2);
		add_field(&schema, "X", IN_UINT8);
		add_field(&schema, "Y", IN_DOUBLE);
		u8(&payload, 5);
		double y = 2.5;
		put_bytes(&payload, &y, sizeof(y));
		add_field(&schema, "Good", IN_BOOL);
		u32(&payload, 1);
		add_field(&schema, "At", IN_POINTER);
		u64(&payload, 0xabc);
		put_tlg(made, &mine, "My.Provider", 0, (1 + i) * MS, &schema, &payload, i);
	}
	const struct sp_trace *trace = read_back(made);
	assert_int_equal(trace->providers.count, 1);
	assert_int_equal(trace->providers.items[0].events, 2);
	assert_int_equal(trace->counts.marker_stacks, 1);
	assert_string_equal(sp_trace_get(trace, trace->providers.items[0].name), "My.Provider");
	const char *text = recorded(made, &result);
	assert_has(text, "marker 0 1000000-1000000 Plain Count: -7, Text: hi there, Counted: ok, List: 10, List: 11, "
	                 "List: 12, X: 5, Y: 2.5, Good: true, At: 0xabc\n");
	assert_has(text, "marker 0 2000000-2000000 WithStack Count: -7, Text: hi there, ");
	assert_int_equal(result.markers, 2);
	assert_int_equal(result.markers_undecoded, 0);
	sp_import_result_deinit(&result);
	made_end(made);
}

/* A Start and its Stop are one marker; nested ones of a name belong together from the inside; what does not end goes on
 * to the trace's end. */
static void test_start_and_stop(void **state)
{
	(void)state;
	static const char *const markers[] = { "all", NULL };
	static const struct {
		uint8_t opcode, time, id;
		const char *name;
	} events[] = { { 1, 1, 1, "Work" },  { 1, 2, 2, "Work" }, { 2, 4, 3, "Work" },
		       { 1, 5, 4, "Other" }, { 2, 7, 5, "Work" }, { 2, 8, 6, "Lone" } };
	struct made *made = begin(markers);
	struct sp_import_result result;
	for (unsigned i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		struct bytes schema = begin_bytes(made), payload = begin_bytes(made);
		begin_schema(&schema, events[i].name);
		add_field(&schema, "Id", IN_UINT8);
		u8(&payload, events[i].id);
		put_tlg(made, &mine, "P", events[i].opcode, events[i].time * MS, &schema, &payload, false);
	}
	read_back(made);
	const char *text = recorded(made, &result);
	assert_has(text, "marker 0 2000000-4000000 Work Id: 2; Id: 3\n");
	assert_has(text, "marker 0 1000000-7000000 Work Id: 1; Id: 5\n");
	assert_has(text, "marker 0 5000000-8000000 Other Id: 4 (no end in the trace)\n");
	assert_has(text, "marker 0 8000000-8000000 Lone Id: 6\n");
	assert_int_equal(result.markers, 4);
	sp_import_result_deinit(&result);
	made_end(made);
}

/* Without being asked for, only Firefox's and Chrome's events are markers. */
static void test_who_is_wanted(void **state)
{
	(void)state;
	static const char *const by_guid[] = { "{11223344-5566-7788-0102-030405060708}", NULL };
	for (unsigned i = 0; i < 2; i++) {
		struct made *made = begin(i ? by_guid : NULL);
		struct sp_import_result result;
		struct bytes schema = begin_bytes(made), payload = begin_bytes(made);
		begin_schema(&schema, "Mine");
		put_tlg(made, &mine, "P", 0, 1 * MS, &schema, &payload, false);
		read_back(made);
		recorded(made, &result);
		assert_int_equal(result.markers, i);
		sp_import_result_deinit(&result);
		made_end(made);
	}
}

/* ---- Browsers ---- */

static void put_firefox(struct made *made, uint64_t time, const char *type, uint64_t start, uint64_t end,
                        unsigned phase, const char *name)
{
	struct bytes schema = begin_bytes(made), payload = begin_bytes(made);
	begin_schema(&schema, type);
	add_field(&schema, "MarkerName", IN_WIDE);
	wide(&payload, name);
	add_field(&schema, "StartTime", IN_UINT64);
	u64(&payload, start);
	add_field(&schema, "EndTime", IN_UINT64);
	u64(&payload, end);
	add_field(&schema, "Phase", IN_UINT8);
	u8(&payload, phase);
	add_field(&schema, "InnerWindowId", IN_UINT64);
	u64(&payload, 12);
	add_field(&schema, "CategoryPair", IN_UINT32);
	u32(&payload, 3);
	add_field(&schema, "url", IN_WIDE);
	wide(&payload, "https://x.test/");
	put_tlg(made, &firefox, "Mozilla.FirefoxTraceLogger", 0, time, &schema, &payload, false);
}

/* The marker's times are fields, by the raw clock; they, window and category are not shown as text. */
static void test_firefox(void **state)
{
	(void)state;
	enum { INSTANT, INTERVAL, START, END };
	struct made *made = begin(NULL);
	struct sp_import_result result;
	put_firefox(made, 9 * MS, "Load", 1 * MS, 0, INSTANT, "Instant");
	put_firefox(made, 9 * MS, "Load", 2 * MS, 5 * MS, INTERVAL, "Interval");
	put_firefox(made, 3 * MS, "Load", 3 * MS, 0, START, "Pair");
	put_firefox(made, 9 * MS, "Load", 0, 8 * MS, END, "Pair");
	read_back(made);
	const char *text = recorded(made, &result);
	assert_has(text, "marker 0 1000000-1000000 Instant url: https://x.test/\n");
	assert_has(text, "marker 0 2000000-5000000 Interval url: https://x.test/\n");
	assert_has(text, "marker 0 3000000-8000000 Pair url: https://x.test/\n");
	assert_int_equal(result.markers, 3);
	sp_import_result_deinit(&result);
	made_end(made);
}

static void put_chrome(struct made *made, const char *name, uint64_t microseconds, uint64_t duration, const char *phase)
{
	struct bytes schema = begin_bytes(made), payload = begin_bytes(made);
	begin_schema(&schema, name);
	add_field(&schema, "Timestamp", IN_UINT64);
	u64(&payload, microseconds);
	add_field(&schema, "Phase", IN_NARROW);
	narrow(&payload, phase);
	add_field(&schema, "Duration", IN_UINT64);
	u64(&payload, duration);
	add_field(&schema, "frame", IN_UINT32);
	u32(&payload, 4);
	put_tlg(made, &chrome, "Google.Chrome", 0, 9 * MS, &schema, &payload, false);
}

static void test_chrome(void **state)
{
	(void)state;
	struct made *made = begin(NULL);
	struct sp_import_result result;
	put_chrome(made, "Paint", 1000, 0, "Begin");
	put_chrome(made, "Paint", 2500, 0, "End");
	put_chrome(made, "Layout", 3000, 700, "Complete");
	put_chrome(made, "Click", 4000, 0, "Instant");
	read_back(made);
	const char *text = recorded(made, &result);
	assert_has(text, "marker 0 1000000-2500000 Paint frame: 4\n");
	assert_has(text, "marker 0 3000000-3700000 Layout frame: 4\n");
	assert_has(text, "marker 0 4000000-4000000 Click frame: 4\n");
	assert_int_equal(result.markers, 3);
	sp_import_result_deinit(&result);
	made_end(made);
}

/* ---- Manifests ---- */

/* TRACE_EVENT_INFO of tdh.h for an event with the fields Name (a text) and Id (a number). */
static void put_info(struct made *made, uint16_t id, uint16_t task, uint8_t opcode, const char *task_name,
                     const char *opcode_name)
{
	enum { HEADER = 0x70, PROPERTY = 24 };
	struct bytes p = begin_bytes(made), strings = begin_bytes(made);
	uint32_t at = HEADER + 2 * PROPERTY, offsets[5];
	const char *const texts[] = { "Contoso-Shop", task_name, opcode_name, "Name", "Id" };
	for (unsigned i = 0; i < 5; i++) {
		offsets[i] = at + strings.n;
		wide(&strings, texts[i]);
	}
	put_bytes(&p, &mine, SP_GUID_SIZE);
	zeros(&p, 16);
	u16(&p, id);
	u8(&p, 1);
	u8(&p, 16);
	u8(&p, 4);
	u8(&p, opcode);
	u16(&p, task);
	u64(&p, 0);
	u32(&p, 0);
	u32(&p, offsets[0]);
	zeros(&p, 0x44 - p.n);
	u32(&p, offsets[1]);
	u32(&p, offsets[2]);
	zeros(&p, 0x64 - p.n);
	u32(&p, 2);
	u32(&p, 2);
	zeros(&p, HEADER - p.n);
	for (unsigned i = 0; i < 2; i++) {
		u32(&p, 0);
		u32(&p, offsets[3 + i]);
		u16(&p, i ? IN_UINT32 : IN_WIDE);
		u16(&p, 0);
		u32(&p, 0);
		u16(&p, 1);
		u16(&p, i ? 4 : 0);
		u32(&p, 0);
	}
	put_bytes(&p, strings.b, strings.n);
	put_classic(made, &sp_etl_guid_metadata, SP_ETL_META_EVENT, 0, 10 * MS, 0, 0, &p);
}

static void put_manifest(struct made *made, uint16_t id, uint16_t task, uint8_t opcode, uint64_t time, const char *name,
                         uint32_t number)
{
	struct bytes p = begin_bytes(made);
	wide(&p, name);
	u32(&p, number);
	put_event(made, &(struct made_event){ .guid = &mine,
	                                      .id = id,
	                                      .version = 1,
	                                      .task = task,
	                                      .opcode = opcode,
	                                      .time = time,
	                                      .tid = TID,
	                                      .pid = PID,
	                                      .payload = &p });
}

/* The schemas come at the trace's end, and with them the provider's name, by which it was asked for. */
static void test_manifest(void **state)
{
	(void)state;
	static const char *const markers[] = { "contoso-shop", NULL };
	struct made *made = begin(markers);
	struct sp_import_result result;
	put_manifest(made, 5, 3, 1, 1 * MS, "cart", 17);
	put_manifest(made, 6, 3, 2, 4 * MS, "cart", 18);
	put_manifest(made, 7, 4, 13, 5 * MS, "bill", 19);
	put_manifest(made, 8, 4, 0, 6 * MS, "what", 20); /* the trace does not describe it */
	put_info(made, 5, 3, 1, "Order", "Start");
	put_info(made, 6, 3, 2, "Order", "Stop");
	put_info(made, 7, 4, 13, "Print", "Queue");
	const struct sp_trace *trace = read_back(made);
	assert_true(trace->merged);
	const char *text = recorded(made, &result);
	assert_has(text, "marker 0 1000000-4000000 Order Name: cart, Id: 17; Name: cart, Id: 18\n");
	assert_has(text, "marker 0 5000000-5000000 Print/Queue Name: bill, Id: 19\n");
	assert_has(text, "marker 0 6000000-6000000 event 8 payload: 14 bytes that the trace has no schema for\n");
	assert_int_equal(result.markers, 3);
	assert_int_equal(result.markers_undecoded, 1);
	sp_import_result_deinit(&result);
	made_end(made);
}

/* Of a 32-bit program in a 64-bit trace: the record says so, and its pointers have four bytes. */
static void test_narrow_program(void **state)
{
	(void)state;
	static const char *const markers[] = { "all", NULL };
	struct made *made = begin(markers);
	struct sp_import_result result;
	struct bytes schema = begin_bytes(made), payload = begin_bytes(made);
	begin_schema(&schema, "Narrow");
	add_field(&schema, "At", IN_POINTER);
	add_field(&schema, "Behind", IN_UINT16);
	u32(&payload, 0xfedcba98);
	u16(&payload, 77);
	made->pointer_size = 4;
	put_tlg(made, &mine, "P", 0, 1 * MS, &schema, &payload, false);
	made->pointer_size = 8;
	read_back(made);
	assert_has(recorded(made, &result), "Narrow At: 0xfedcba98, Behind: 77\n");
	sp_import_result_deinit(&result);
	made_end(made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tracelogging),   cmocka_unit_test(test_start_and_stop),
		cmocka_unit_test(test_who_is_wanted),  cmocka_unit_test(test_firefox),
		cmocka_unit_test(test_chrome),         cmocka_unit_test(test_manifest),
		cmocka_unit_test(test_narrow_program),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
