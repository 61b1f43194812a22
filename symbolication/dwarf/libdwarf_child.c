/* Runs libdwarf on a file in a child process with limits (common/limited.h).
 *
 * The child inherits the sections, which we found, checked and decompressed, so it opens nothing. A child is forked for
 * each batch. */
#include "libdwarf_child.h"

#include "common/arena.h"
#include "common/cursor.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_LIMIT ((uint64_t)4 << 30) /* bytes on top of what the process has */
#define CPU_SECONDS 120
#define WALL_SECONDS 180
#define OUTPUT_LIMIT ((size_t)1 << 30) /* bytes of answers */
#define FRAME_LIMIT 65536              /* of one answer */

struct dw_child {
	struct sp_object *main;
	struct dw_child_job job;
	pthread_mutex_t lock; /* for the arena */
	struct sp_arena strings;
};

/* ---- The child ---- */

void dw_child_put_number(struct sp_limited_output *out, uint32_t number)
{
	sp_limited_put(out, &number, sizeof(number));
}

void dw_child_put_text(struct sp_limited_output *out, const char *text)
{
	size_t length = text ? strlen(text) : 0;
	length = length < UINT32_MAX ? length : UINT32_MAX - 1;
	dw_child_put_number(out, text ? (uint32_t)length + 1 : 0);
	sp_limited_put(out, text, length);
}

static bool work(void *context, struct sp_limited_output *out)
{
	bool ok = dw_child_answer(context, out);
	if (ok)
		dw_child_put_number(out, DW_CHILD_END);
	return ok;
}

/* ---- The parent ---- */

static const char *const section_names[] = { ".debug_info", ".debug_types",       ".debug_abbrev", ".debug_line",
	                                     ".debug_str",  ".debug_line_str",    ".debug_ranges", ".debug_rnglists",
	                                     ".debug_addr", ".debug_str_offsets", ".debug_aranges" };

/* Puts a file's sections, decompressed, in `ret`. */
static struct sp_error *take_sections(struct sp_object *object, struct dw_child_file *ret)
{
	ret->address_size = sp_object_address_size(object);
	ret->big_endian = sp_object_big_endian(object);
	for (size_t i = 0; i < sizeof(section_names) / sizeof(*section_names); i++) {
		const struct sp_section *section = sp_object_find_section(object, section_names[i]);
		const uint8_t *bytes;
		size_t size;
		if (!section || section->no_bits)
			continue;
		struct sp_error *error = sp_object_section_bytes(object, section, &bytes, &size);
		if (error)
			return error;
		if (size)
			ret->sections[ret->section_count++] = (struct dw_child_section){ section_names[i], bytes,
				                                                         size };
	}
	return NULL;
}

static void find_code(struct sp_object *object, struct dw_child_job *job)
{
	size_t count;
	const struct sp_section *sections = sp_object_sections(object, &count);
	if (sp_object_is_relocatable(object))
		return;
	for (size_t i = 0; i < count; i++) {
		uint64_t end = sections[i].address + sections[i].size;
		if (!sections[i].executable || !sections[i].size)
			continue;
		if (!job->code_end || sections[i].address < job->code_start)
			job->code_start = sections[i].address;
		if (end > job->code_end)
			job->code_end = end;
	}
}

struct sp_error *dw_child_create(const struct sp_dwarf_files *files, struct dw_child **ret)
{
	struct sp_error *missing = dw_child_need_libdwarf();
	if (missing)
		return missing;
	struct dw_child *child = calloc(1, sizeof(*child));
	if (!child)
		return sp_error_no_memory();
	pthread_mutex_init(&child->lock, NULL);
	child->main = files->main;
	struct sp_error *error = take_sections(files->main, &child->job.main);
	if (!error && files->supplementary)
		error = take_sections(files->supplementary, &child->job.supplementary);
	if (error) {
		dw_child_destroy(child);
		return error;
	}
	find_code(files->main, &child->job);
	*ret = child;
	return NULL;
}

void dw_child_destroy(struct dw_child *child)
{
	if (!child)
		return;
	pthread_mutex_destroy(&child->lock);
	sp_arena_deinit(&child->strings);
	free(child);
}

size_t dw_child_memory(struct dw_child *child)
{
	pthread_mutex_lock(&child->lock);
	size_t memory = sizeof(*child) + child->strings.total;
	pthread_mutex_unlock(&child->lock);
	return memory;
}

/* Forks a child for the addresses and collects what it writes. */
static struct sp_error *run(struct dw_child *child, const uint64_t *addresses, size_t count, uint8_t **ret,
                            size_t *ret_size)
{
	struct dw_child_job job = child->job;
	job.addresses = addresses;
	job.count = count;
	const struct sp_limited limited = { .what = "libdwarf",
		                            .name = sp_object_name(child->main),
		                            .memory = MEMORY_LIMIT,
		                            .cpu_s = CPU_SECONDS,
		                            .wall_s = WALL_SECONDS,
		                            .output_size = OUTPUT_LIMIT,
		                            .work = work,
		                            .context = &job };
	return sp_limited_run(&limited, ret, ret_size);
}

/* ---- Reading the answers ---- */

/* A string of the output, copied to live as long as the engine. */
static bool read_text(struct dw_child *child, struct sp_cursor *c, const char **ret)
{
	uint32_t length;
	const uint8_t *size = sp_cursor_bytes(c, sizeof(length));
	*ret = NULL;
	if (!size)
		return true;
	memcpy(&length, size, sizeof(length));
	if (!length)
		return true;
	const uint8_t *text = sp_cursor_bytes(c, length - 1);
	if (!text)
		return true;
	*ret = sp_arena_strndup(&child->strings, (const char *)text, length - 1);
	return *ret;
}

static uint32_t read_number(struct sp_cursor *c)
{
	uint32_t number = 0;
	const uint8_t *at = sp_cursor_bytes(c, sizeof(number));
	if (at)
		memcpy(&number, at, sizeof(number));
	return number;
}

/* Moves over the frames of an answer. */
static void skip_frames(struct sp_cursor *c, uint32_t count)
{
	if (count > FRAME_LIMIT)
		sp_cursor_fail(c);
	for (uint32_t i = 0; i < count && !c->bad; i++) {
		for (unsigned k = 0; k < 3; k++) {
			uint32_t length = read_number(c);
			sp_cursor_skip(c, length ? length - 1 : 0);
		}
		sp_cursor_skip(c, 8);
	}
}

/* Where the frames of each address are in the output; 0 = there are none. */
static struct sp_error *find_answers(struct dw_child *child, struct sp_cursor c, size_t *offsets, size_t count)
{
	for (;;) {
		uint32_t index = read_number(&c);
		size_t offset = sp_cursor_offset(&c);
		if (index == DW_CHILD_END && !c.bad)
			return NULL;
		skip_frames(&c, read_number(&c));
		if (c.bad || index >= count)
			return sp_error_create(SP_ERROR_FORMAT, "%s: libdwarf's answer is garbled",
			                       sp_object_name(child->main));
		offsets[index] = offset;
	}
}

typedef SP_VECTOR(struct sp_dwarf_frame) frames;

static bool read_frames(struct dw_child *child, struct sp_cursor *c, frames *ret)
{
	uint32_t count = read_number(c);
	bool ok = true;
	ret->count = 0;
	pthread_mutex_lock(&child->lock);
	for (uint32_t i = 0; i < count && ok; i++) {
		struct sp_dwarf_frame frame = { 0 };
		ok = read_text(child, c, &frame.linkage_name) && read_text(child, c, &frame.name) &&
		     read_text(child, c, &frame.file);
		frame.line = read_number(c);
		frame.column = read_number(c);
		ok = ok && sp_vector_push(ret, frame);
	}
	pthread_mutex_unlock(&child->lock);
	return ok;
}

struct sp_error *dw_child_lookup(struct dw_child *child, const uint64_t *addresses, size_t count,
                                 void (*emit)(void *context, size_t index, const struct sp_dwarf_answer *answer),
                                 void *context)
{
	uint8_t *output = NULL;
	size_t size = 0;
	frames found = { 0 };
	size_t *offsets = calloc(count + 1, sizeof(*offsets));
	struct sp_error *error = offsets ? run(child, addresses, count, &output, &size) : sp_error_no_memory();
	struct sp_cursor c = sp_cursor_init(output, size);
	if (!error)
		error = find_answers(child, c, offsets, count);
	for (size_t i = 0; i < count && !error; i++) {
		found.count = 0;
		sp_cursor_seek(&c, offsets[i]);
		if (offsets[i] && !read_frames(child, &c, &found))
			error = sp_error_no_memory();
		struct sp_dwarf_answer answer = { found.items, found.count };
		if (!error)
			emit(context, i, &answer);
	}
	free(offsets);
	free(output);
	sp_vector_deinit(&found);
	return error;
}
