/* Every event that another reader (PerfView) printed of a real trace must come out of ours: same time, CPU, size,
 * process and thread, same fields; and its counts. The text has the first five events of each kind. */
#include "platform/windows/etl_schema.h"
#include "platform/windows/trace.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

/* Kernel events by the names in the text; others are found by their provider. */
static const struct {
	const char *name;
	uint8_t group, code;
} kernel_names[] = {
	{ "EventTrace", SP_ETL_GROUP_TRACE, SP_ETL_TRACE_HEADER },
	{ "EventTrace/Extension", SP_ETL_GROUP_TRACE, SP_ETL_TRACE_EXTENSION },
	{ "EventTrace/RundownComplete", SP_ETL_GROUP_TRACE, 8 },
	{ "EventTrace/EndExtension", SP_ETL_GROUP_TRACE, 0x20 },
	{ "DiskIO/Read", SP_ETL_GROUP_DISK_IO, 10 },
	{ "DiskIO/Write", SP_ETL_GROUP_DISK_IO, 11 },
	{ "DiskIO/ReadInit", SP_ETL_GROUP_DISK_IO, 12 },
	{ "DiskIO/WriteInit", SP_ETL_GROUP_DISK_IO, 13 },
	{ "DiskIO/FlushBuffers", SP_ETL_GROUP_DISK_IO, 14 },
	{ "DiskIO/FlushInit", SP_ETL_GROUP_DISK_IO, 15 },
	{ "Memory/HardFault", SP_ETL_GROUP_PAGE_FAULT, 32 },
	{ "Process/Start", SP_ETL_GROUP_PROCESS, SP_ETL_START },
	{ "Process/Stop", SP_ETL_GROUP_PROCESS, SP_ETL_STOP },
	{ "Process/DCStart", SP_ETL_GROUP_PROCESS, SP_ETL_DC_START },
	{ "Process/DCStop", SP_ETL_GROUP_PROCESS, SP_ETL_DC_STOP },
	{ "Process/Defunct", SP_ETL_GROUP_PROCESS, 39 },
	{ "Process/PerfCtr", SP_ETL_GROUP_PROCESS, 32 },
	{ "Process/PerfCtrRundown", SP_ETL_GROUP_PROCESS, 33 },
	{ "Thread/Start", SP_ETL_GROUP_THREAD, SP_ETL_START },
	{ "Thread/Stop", SP_ETL_GROUP_THREAD, SP_ETL_STOP },
	{ "Image/Load", SP_ETL_GROUP_IMAGE, SP_ETL_IMAGE_LOAD },
	{ "Image/Unload", SP_ETL_GROUP_IMAGE, SP_ETL_IMAGE_UNLOAD },
	{ "Image/DCStart", SP_ETL_GROUP_IMAGE, SP_ETL_IMAGE_DC_START },
	{ "Image/DCStop", SP_ETL_GROUP_IMAGE, SP_ETL_IMAGE_DC_STOP },
	{ "PerfInfo/Sample", SP_ETL_GROUP_PERFINFO, SP_ETL_PERF_SAMPLE },
	{ "PerfInfo/CollectionStart", SP_ETL_GROUP_PERFINFO, SP_ETL_PERF_START },
	{ "PerfInfo/CollectionEnd", SP_ETL_GROUP_PERFINFO, SP_ETL_PERF_STOP },
	{ "SystemConfig/CPU", SP_ETL_GROUP_CONFIG, SP_ETL_CONFIG_CPU },
};

/* A line of the text. */
struct line {
	char name[128];
	char time[32]; /* ms with three decimals, as printed */
	int pid, tid;
	unsigned cpu, size;
	const char *fields; /* the rest */
	bool found;
};

static struct line lines[600];
static size_t line_count;

/* "1,234" -> 1234 */
static int64_t number_of(const char *text)
{
	char digits[40];
	size_t used = 0;
	for (; *text && *text != ';' && used < sizeof(digits) - 1; text++)
		if (*text != ',')
			digits[used++] = *text;
	digits[used] = '\0';
	return (int64_t)strtoll(digits, NULL, 0);
}

static const char *field_of(const char *fields, const char *name)
{
	char key[64];
	snprintf(key, sizeof(key), " %s=", name);
	const char *at = strstr(fields, key);
	return at ? at + strlen(key) : NULL;
}

static int64_t number_field(const char *fields, const char *name)
{
	const char *at = field_of(fields, name);
	assert_non_null(at);
	return number_of(at);
}

static void strip_commas(char *text)
{
	char *to = text;
	for (; *text; text++)
		if (*text != ',')
			*to++ = *text;
	*to = '\0';
}

static void parse_line(char *text)
{
	struct line *line = &lines[line_count++];
	assert_true(line_count < sizeof(lines) / sizeof(lines[0]));
	char *colon = strstr(text, ": "), *pid = strstr(text, " PID=");
	assert_non_null(colon);
	assert_non_null(pid);
	*colon = '\0';
	snprintf(line->time, sizeof(line->time), "%s", text + strlen("EVENT "));
	strip_commas(line->time);
	*pid = '\0';
	snprintf(line->name, sizeof(line->name), "%s", colon + 2);
	*pid = ' ';
	line->fields = pid;
	line->pid = (int)number_field(pid, "PID");
	line->tid = (int)number_field(pid, "TID");
	line->cpu = (unsigned)number_field(pid, "ProceNum");
	line->size = (unsigned)number_field(pid, "DataLen");
}

/* Whether a printed text, perhaps cut short with "...", is ours. */
static bool same_text(const char *fields, const char *name, const char *ours)
{
	const char *at = field_of(fields, name);
	const char *end = at ? strstr(at, "; ") : NULL;
	if (!end)
		return false;
	size_t length = (size_t)(end - at);
	if (length > 3 && !strncmp(end - 3, "...", 3))
		return !strncmp(at, ours, length - 3);
	return strlen(ours) == length && !strncmp(at, ours, length);
}

/* Checks what we decode of the event against the printed fields. */
static bool same_fields(const struct sp_etl_event *event, const struct line *line)
{
	struct sp_etl_process process;
	struct sp_etl_thread thread;
	struct sp_etl_image image;
	struct sp_etl_sample sample;
	char text[512];
	switch (event->group) {
	case SP_ETL_GROUP_PERFINFO:
		if (event->opcode != SP_ETL_PERF_SAMPLE)
			return true;
		return sp_etl_sample_parse(event, &sample) && sample.tid == (uint32_t)line->tid &&
		       sample.ip == strtoull(field_of(line->fields, "InstructionPointer"), NULL, 0) &&
		       sample.dpc == !strncmp(field_of(line->fields, "ExecutingDPC"), "True", 4) &&
		       sample.isr == !strncmp(field_of(line->fields, "ExecutingISR"), "True", 4) &&
		       sample.count == number_field(line->fields, "Count");
	case SP_ETL_GROUP_PROCESS:
		if (event->opcode > SP_ETL_DC_STOP)
			return true;
		if (!sp_etl_process_parse(event, &process))
			return false;
		sp_etl_text_utf8(&process.name, text, sizeof(text));
		if (!same_text(line->fields, "ImageFileName", text))
			return false;
		sp_etl_text_utf8(&process.command, text, sizeof(text));
		return process.pid == number_field(line->fields, "ProcessID") &&
		       process.parent_pid == (uint32_t)number_field(line->fields, "ParentID") &&
		       same_text(line->fields, "CommandLine", text);
	case SP_ETL_GROUP_THREAD:
		return sp_etl_thread_parse(event, &thread) && thread.pid == (uint32_t)line->pid &&
		       thread.tid == (uint32_t)line->tid;
	case SP_ETL_GROUP_IMAGE:
		if (event->opcode > SP_ETL_IMAGE_LOAD)
			return true;
		return sp_etl_image_parse(event, &image) &&
		       image.base == strtoull(field_of(line->fields, "ImageBase"), NULL, 0) &&
		       image.size == (uint64_t)number_field(line->fields, "ImageSize") &&
		       (int32_t)image.timestamp == number_field(line->fields, "TimeDateStamp") &&
		       image.pid == (uint32_t)line->pid;
	default:
		return true;
	}
}

static bool same_image_id(const struct sp_etl_event *event, const struct line *line)
{
	struct sp_etl_image_id id;
	char text[512];
	if (strcmp(line->name, "KernelTraceControl/ImageID/DbgID_RSDS") &&
	    strcmp(line->name, "KernelTraceControl/ImageID/DbgID_ILRSDS"))
		return true;
	if (!sp_etl_image_id_parse(event, &id))
		return false;
	sp_etl_text_utf8(&id.name, text, sizeof(text));
	return id.base == strtoull(field_of(line->fields, "ImageBase"), NULL, 0) &&
	       id.age == number_field(line->fields, "Age") && same_text(line->fields, "PDBFileName", text);
}

static bool same_method(const struct sp_etl_event *event, const struct line *line)
{
	const char *start = field_of(line->fields, "MethodStartAddress");
	uint64_t address;
	uint32_t size;
	if (!start || event->payload_size < 28)
		return !start;
	memcpy(&address, event->payload + 16, 8);
	memcpy(&size, event->payload + 24, 4);
	return address == strtoull(start, NULL, 0) && size == number_field(line->fields, "MethodSize");
}

static bool is_kind(const struct sp_etl_event *event, const char *name)
{
	static const char prefix[] = "Windows Kernel/";
	if (strncmp(name, prefix, strlen(prefix)))
		return true;
	for (size_t i = 0; i < sizeof(kernel_names) / sizeof(kernel_names[0]); i++)
		if (!strcmp(name + strlen(prefix), kernel_names[i].name))
			return event->group == kernel_names[i].group && event->opcode == kernel_names[i].code;
	return true;
}

static void match(const struct sp_etl_event *event, uint64_t start)
{
	char time[32];
	uint64_t ns = event->time - start;
	/* The text rounds to µs; halves may go either way. */
	snprintf(time, sizeof(time), "%" PRIu64 ".%03" PRIu64, (ns + 500) / 1000000, (ns + 500) / 1000 % 1000);
	char other[32];
	snprintf(other, sizeof(other), "%" PRIu64 ".%03" PRIu64, (ns + 499) / 1000000, (ns + 499) / 1000 % 1000);
	for (size_t i = 0; i < line_count; i++) {
		struct line *line = &lines[i];
		if (line->found || (strcmp(line->time, time) && strcmp(line->time, other)) || line->cpu != event->cpu ||
		    line->size != event->payload_size || !is_kind(event, line->name))
			continue;
		/* The text has the event's own process for these, and what it found out for others. */
		bool header_tells = event->group == SP_ETL_GROUP_NONE && event->pid != SP_ETL_ID_UNKNOWN &&
		                    event->tid != SP_ETL_ID_UNKNOWN;
		if (header_tells && (event->pid != (uint32_t)line->pid || event->tid != (uint32_t)line->tid))
			continue;
		if (!same_fields(event, line) || !same_image_id(event, line) || !same_method(event, line))
			continue;
		line->found = true;
		return;
	}
}

static char *read_text(const char *name)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/etl/%s", TEST_SHARED_DATA, name);
	if (access(path, R_OK)) {
		printf("SKIPPED: no shared data (%s)\n", name);
		skip();
	}
	FILE *file = fopen(path, "rb");
	char *text = calloc(1, 1 << 20);
	assert_non_null(file);
	assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
	fclose(file);
	return text;
}

static void check_count(const char *name, uint64_t count, uint64_t counts[256][256])
{
	static const char prefix[] = "Windows Kernel/";
	if (strncmp(name, prefix, strlen(prefix)) || strstr(name, "PerfInfo/Sample"))
		return;
	for (size_t i = 0; i < sizeof(kernel_names) / sizeof(kernel_names[0]); i++)
		if (!strcmp(name + strlen(prefix), kernel_names[i].name))
			assert_int_equal(counts[kernel_names[i].group][kernel_names[i].code], count);
}

static void test_baseline(void **state)
{
	(void)state;
	static uint64_t counts[256][256];
	char path[512], *text = read_text("net.4.5.2.x64.etl.baseline.txt");
	struct sp_etl_sources sources = { 0 };
	struct sp_etl_reader *reader;
	struct sp_etl_event event;
	for (char *at = strtok(text, "\r\n"); at; at = strtok(NULL, "\r\n"))
		if (!strncmp(at, "EVENT ", 6))
			parse_line(at);
	assert_int_equal(line_count, 480);
	snprintf(path, sizeof(path), "%s/etl/net.4.5.2.x64.etl.zip", TEST_SHARED_DATA);
	assert_null(sp_etl_sources_add(&sources, path));
	assert_null(sp_etl_reader_create(&sources, &reader));
	uint64_t start = sp_etl_reader_time(reader, 0, sp_etl_reader_header(reader, 0)->raw_start);
	while (sp_etl_reader_next(reader, &event)) {
		counts[event.group][event.opcode]++;
		match(&event, start);
	}
	unsigned missing = 0;
	for (size_t i = 0; i < line_count; i++) {
		if (!lines[i].found)
			printf("not found: %s at %s ms, CPU %u, %u bytes\n", lines[i].name, lines[i].time, lines[i].cpu,
			       lines[i].size);
		missing += !lines[i].found;
	}
	assert_int_equal(missing, 0);
	char *again = read_text("net.4.5.2.x64.etl.baseline.txt");
	for (char *at = strtok(again, "\r\n"); at; at = strtok(NULL, "\r\n")) {
		char *colon = strrchr(at, ':');
		if (strncmp(at, "COUNT ", 6) || !colon)
			continue;
		*colon = '\0';
		check_count(at + 6, strtoull(colon + 1, NULL, 10), counts);
	}
	free(text);
	free(again);
	sp_etl_reader_destroy(reader);
	sp_etl_sources_deinit(&sources);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_baseline) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
