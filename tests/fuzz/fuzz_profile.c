/* Fuzz target: the profile writer on recordings of any records in any order.
 *
 * The input is a list of records in a form of its own, a byte for the kind and small fields, so that mutations stay
 * plausible. The profile must be JSON, all columns of a table of its length, and no stack's prefix before the first. */
#include "common/cursor.h"
#include "common/json_read.h"
#include "sampler/output/output.h"
#include "sampler/profile/model.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RECORDS_MAX 400
#define FRAMES_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- The input as records ---- */

static uint32_t handle(struct sp_cursor *c)
{
	uint8_t byte = sp_cursor_u8(c);
	return byte >= 0xf0 ? SP_HANDLE_NONE : byte & 15;
}

/* Few different places, some of them at the edges. */
static uint64_t place(struct sp_cursor *c)
{
	uint8_t byte = sp_cursor_u8(c);
	if (byte >= 0xf8)
		return UINT64_MAX - (byte & 7);
	if (byte >= 0xf0)
		return 0xffffffff81000000 + (uint64_t)(byte & 7) * 0x1000;
	if (byte >= 0xe0)
		return sp_cursor_u64(c);
	return (uint64_t)byte * 0x100;
}

static uint64_t moment(struct sp_cursor *c)
{
	uint8_t byte = sp_cursor_u8(c);
	return byte >= 0xf0 ? sp_cursor_u64(c) : 1000000 + (uint64_t)byte * 100000;
}

static const char *text(struct sp_cursor *c)
{
	static const char *const texts[] = { "",       "a",           "main",  "lib/x.so",
		                             "\"\\\n", "\xff\xfe",    "[x]",   "f",
		                             "1000",   "AB0",         "0",     "[kernel, not sampled]",
		                             "mode",   "interval-ns", "empty", NULL };
	return texts[sp_cursor_u8(c) & 15];
}

static const char *some_text(struct sp_cursor *c)
{
	const char *string = text(c);
	return string ? string : "x";
}

static void read_sample(struct sp_cursor *c, struct sp_record_sample *ret, struct sp_frame *frames)
{
	uint8_t flags = sp_cursor_u8(c);
	*ret = (struct sp_record_sample){
		.thread = handle(c), .source = handle(c), .time = moment(c), .frames = frames
	};
	ret->end = flags & 7; /* SP_UNWIND_NOT_RECORDED is the last one */
	ret->label = flags & 8 ? text(c) : NULL;
	ret->cpu_delta_known = flags & 16;
	ret->cpu_delta = flags & 32 ? sp_cursor_u64(c) : flags;
	ret->weight = flags & 64 ? (int64_t)sp_cursor_u64(c) : 1;
	ret->frame_count = sp_cursor_u8(c) % FRAMES_MAX;
	for (uint32_t i = 0; i < ret->frame_count; i++) {
		uint8_t kind = sp_cursor_u8(c);
		frames[i] = (struct sp_frame){ .address = place(c),
			                       .kind = kind % (SP_FRAME_ADJUSTED + 1),
			                       .mode = (kind >> 2) % (SP_MODE_GUEST + 1),
			                       .origin = (kind >> 4) % (SP_FOUND_SPLICED_STACK + 1) };
	}
}

static void read_definition(struct sp_cursor *c, struct sp_record *r)
{
	switch (r->type) {
	case SP_RECORD_META:
		r->meta = (struct sp_record_meta){ some_text(c), some_text(c) };
		break;
	case SP_RECORD_CLOCK:
		r->clock = (struct sp_record_clock){ some_text(c), moment(c), moment(c) };
		break;
	case SP_RECORD_SOURCE:
		r->source = (struct sp_record_source){ handle(c), some_text(c), some_text(c), sp_cursor_u8(c) & 1,
			                               1000 };
		break;
	case SP_RECORD_PROCESS:
		r->process = (struct sp_record_process){ .process = handle(c),
			                                 .previous = handle(c),
			                                 .parent = handle(c),
			                                 .pid = sp_cursor_u8(c),
			                                 .time = moment(c),
			                                 .name = some_text(c),
			                                 .command_line = text(c) };
		break;
	case SP_RECORD_THREAD:
		r->thread = (struct sp_record_thread){ .thread = handle(c),
			                               .process = handle(c),
			                               .tid = sp_cursor_u8(c),
			                               .time = moment(c),
			                               .main = sp_cursor_u8(c) & 1,
			                               .name = some_text(c) };
		break;
	case SP_RECORD_MODULE:
		r->module = (struct sp_record_module){ .module = handle(c),
			                               .kind = sp_cursor_u8(c) & 3,
			                               .name = some_text(c),
			                               .path = some_text(c),
			                               .debug_name = text(c),
			                               .debug_path = text(c),
			                               .debug_id = some_text(c),
			                               .code_id = some_text(c),
			                               .arch = some_text(c),
			                               .kept_path = text(c),
			                               .note = text(c) };
		break;
	default:
		r->counter = (struct sp_record_counter){ handle(c),    handle(c),    some_text(c),
			                                 some_text(c), some_text(c), some_text(c) };
		break;
	}
}

static void read_fact(struct sp_cursor *c, struct sp_record *r, struct sp_frame *frames)
{
	switch (r->type) {
	case SP_RECORD_PROCESS_END:
		r->process_end = (struct sp_record_process_end){ handle(c), moment(c) };
		break;
	case SP_RECORD_THREAD_NAME:
		r->thread_name = (struct sp_record_thread_name){ handle(c), moment(c), some_text(c) };
		break;
	case SP_RECORD_THREAD_END:
		r->thread_end = (struct sp_record_thread_end){ handle(c), moment(c) };
		break;
	case SP_RECORD_MAPPING:
		r->mapping = (struct sp_record_mapping){
			handle(c), handle(c), moment(c), place(c), place(c), place(c)
		};
		break;
	case SP_RECORD_UNMAPPING:
		r->unmapping = (struct sp_record_unmapping){ handle(c), moment(c), place(c), place(c) };
		break;
	case SP_RECORD_JIT_FUNCTION:
		r->jit_function = (struct sp_record_jit_function){ handle(c), moment(c),    place(c),
			                                           place(c),  some_text(c), sp_cursor_u8(c) & 1 };
		break;
	case SP_RECORD_SAMPLE:
		read_sample(c, &r->sample, frames);
		break;
	case SP_RECORD_MARKER:
		r->marker = (struct sp_record_marker){ handle(c), moment(c), moment(c), some_text(c), text(c) };
		break;
	case SP_RECORD_COUNTER_VALUE:
		r->counter_value = (struct sp_record_counter_value){ handle(c), moment(c), (double)sp_cursor_u64(c) };
		break;
	default:
		r->type = SP_RECORD_LOSS;
		r->loss = (struct sp_record_loss){ sp_cursor_u8(c) % (SP_LOSS_BUFFER + 1),
			                           handle(c),
			                           handle(c),
			                           moment(c),
			                           moment(c),
			                           sp_cursor_u8(c) };
		break;
	}
}

static bool is_definition(enum sp_record_type type)
{
	return type == SP_RECORD_META || type == SP_RECORD_CLOCK || type == SP_RECORD_SOURCE ||
	       type == SP_RECORD_PROCESS || type == SP_RECORD_THREAD || type == SP_RECORD_MODULE ||
	       type == SP_RECORD_COUNTER;
}

static void write_recording(const char *path, struct sp_cursor *c)
{
	struct sp_frame frames[FRAMES_MAX];
	struct sp_recording_writer *writer;
	if (sp_recording_writer_create(path, &writer))
		abort();
	for (unsigned i = 0; i < RECORDS_MAX && sp_cursor_left(c); i++) {
		struct sp_record record = { .type = (enum sp_record_type)(sp_cursor_u8(c) % SP_RECORD_LOSS + 1) };
		if (is_definition(record.type))
			read_definition(c, &record);
		else
			read_fact(c, &record, frames);
		sp_error_destroy(sp_recording_write(writer, &record)); /* what makes no sense is refused */
	}
	sp_error_destroy(sp_recording_writer_finish(writer));
}

/* ---- The profile ---- */

static void check_value(struct sp_json_reader *r);

/* Items of an array; those of a prefixOffset column must not reach before the first stack. */
static uint64_t check_array(struct sp_json_reader *r, bool offsets)
{
	uint64_t count = 0;
	for (sp_json_read_array(r); sp_json_next_item(r); count++) {
		uint64_t offset = 0;
		if (!offsets)
			check_value(r);
		else if (!sp_json_read_u64(r, &offset) || offset > count)
			abort();
	}
	return count;
}

static void check_object(struct sp_json_reader *r)
{
	const char *key;
	size_t key_size;
	uint64_t length = UINT64_MAX, columns[32];
	unsigned column_count = 0;
	sp_json_read_object(r);
	while (sp_json_next_key(r, &key, &key_size)) {
		bool is_length = key_size == 6 && !memcmp(key, "length", 6);
		bool offsets = key_size == 12 && !memcmp(key, "prefixOffset", 12);
		if (is_length)
			sp_json_read_u64(r, &length);
		else if (sp_json_peek(r) == SP_JSON_KIND_ARRAY && column_count < 32)
			columns[column_count++] = check_array(r, offsets);
		else
			check_value(r);
	}
	for (unsigned i = 0; length != UINT64_MAX && i < column_count; i++)
		if (columns[i] != length)
			abort();
}

static void check_value(struct sp_json_reader *r)
{
	enum sp_json_kind kind = sp_json_peek(r);
	if (kind == SP_JSON_KIND_OBJECT)
		check_object(r);
	else if (kind == SP_JSON_KIND_ARRAY)
		check_array(r, false);
	else
		sp_json_skip(r);
}

static void check_profile(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	off_t size = lseek(fd, 0, SEEK_END);
	char *bytes = size > 0 ? malloc((size_t)size) : NULL;
	struct sp_json_reader reader;
	if (fd < 0 || !bytes || pread(fd, bytes, (size_t)size, 0) != size)
		abort();
	close(fd);
	unlink(path);
	sp_json_read_init(&reader, bytes, (size_t)size);
	check_value(&reader);
	struct sp_error *error = sp_json_read_finish(&reader);
	if (error) {
		fprintf(stderr, "%s\n%.*s\n", error->message, (int)size, bytes);
		abort();
	}
	sp_json_read_deinit(&reader);
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned versions[] = { 60, 66, 70 };
	struct sp_cursor c = sp_cursor_init(data, size);
	uint8_t flags = sp_cursor_u8(&c);
	struct sp_profile_options options = { .version = versions[flags % 3],
		                              .main_thread_only = flags & 4,
		                              .reuse_threads = flags & 8,
		                              .fold_recursive_prefix = flags & 16,
		                              .include_args = flags & 32 ? -1 : 1 };
	struct sp_profile_builder *builder;
	struct sp_profile_summary summary;
	char recording[64], profile[64];
	snprintf(recording, sizeof(recording), "/tmp/fuzz_profile-%d.recording", (int)getpid());
	snprintf(profile, sizeof(profile), "/tmp/fuzz_profile-%d.json", (int)getpid());
	write_recording(recording, &c);
	if (sp_profile_builder_create(recording, &options, &builder))
		abort();
	struct sp_error *error = sp_profile_builder_write(builder, profile, &summary);
	if (!error)
		check_profile(profile);
	sp_error_destroy(error);
	sp_profile_builder_destroy(builder);
	unlink(recording);
	return 0;
}
