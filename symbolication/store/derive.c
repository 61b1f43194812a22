/* What an uploaded file is, by its own bytes: parsed in a limited child, which gives back one flat record and the
 * table of sections. */
#include "private.h"

#include "common/cursor.h"
#include "common/file.h"
#include "common/limited.h"
#include "symbolication/locate/symbol_file.h"

#include <stdlib.h>
#include <string.h>

#define MEMORY_LIMIT ((uint64_t)2 << 30) /* bytes */
#define CPU_SECONDS 30
#define WALL_SECONDS 60
#define OUTPUT_LIMIT ((size_t)64 << 20)
#define MAX_SECTIONS 65536

struct work {
	const void *bytes;
	size_t size;
	const char *name;
};

/* What comes before the sections. */
struct record {
	char problem[256]; /* "" = none */
	bool unsupported;  /* the problem is that it is of no known kind */
	struct spsym_file_info info;
	char pdb_name[SP_STORE_NAME_SIZE];
	uint32_t section_count;
};

static void copy(char *to, size_t size, const char *from)
{
	size_t length = strnlen(from, size - 1);
	memcpy(to, from, length);
	to[length] = 0;
}

static bool can_be_served(const struct sp_section *section, size_t file_size)
{
	return section->name && *section->name && strlen(section->name) < sizeof(((struct store_section *)0)->name) &&
	       !section->no_bits && section->file_offset <= file_size &&
	       section->size <= file_size - section->file_offset;
}

static void put_sections(struct sp_object *object, size_t file_size, uint32_t count, struct sp_limited_output *out)
{
	size_t total;
	const struct sp_section *sections = sp_object_sections(object, &total);
	for (size_t i = 0; i < total && count; i++) {
		struct store_section section = { .offset = sections[i].file_offset, .size = sections[i].size };
		if (!can_be_served(&sections[i], file_size))
			continue;
		copy(section.name, sizeof(section.name), sections[i].name);
		sp_limited_put(out, &section, sizeof(section));
		count--;
	}
}

static uint32_t count_sections(struct sp_object *object, size_t file_size)
{
	size_t total;
	uint32_t count = 0;
	const struct sp_section *sections = sp_object_sections(object, &total);
	for (size_t i = 0; i < total && count < MAX_SECTIONS; i++)
		count += can_be_served(&sections[i], file_size);
	return count;
}

static bool parse(void *context, struct sp_limited_output *out)
{
	const struct work *work = context;
	struct record record = { 0 };
	struct sp_symbol_file *file = NULL;
	struct sp_error *error = sp_symbol_file_open_bytes(work->bytes, work->size, work->name, &file);
	if (error) {
		copy(record.problem, sizeof(record.problem), error->message);
		record.unsupported = error->code == SP_ERROR_UNSUPPORTED;
		sp_limited_put(out, &record, sizeof(record));
		return true;
	}
	struct sp_object *object = file->unpacked ? NULL : file->object;
	record.info = file->info;
	if (file->object && sp_object_pdb_path(file->object))
		copy(record.pdb_name, sizeof(record.pdb_name), sp_file_base_name(sp_object_pdb_path(file->object)));
	record.section_count = object ? count_sections(object, work->size) : 0;
	sp_limited_put(out, &record, sizeof(record));
	if (object)
		put_sections(object, work->size, record.section_count, out);
	return true;
}

/* ---- In the server ---- */

static bool is_terminated(const char *text, size_t size)
{
	return memchr(text, 0, size);
}

/* The child may have been taken over by what it read: nothing of its answer is believed without a look. */
static struct sp_error *read_record(struct sp_cursor *c, const char *name, struct record *ret)
{
	const uint8_t *bytes = sp_cursor_bytes(c, sizeof(*ret));
	if (bytes)
		memcpy(ret, bytes, sizeof(*ret));
	if (!bytes || !is_terminated(ret->problem, sizeof(ret->problem)) ||
	    !is_terminated(ret->pdb_name, sizeof(ret->pdb_name)) ||
	    !is_terminated(ret->info.arch, sizeof(ret->info.arch)) ||
	    !is_terminated(ret->info.debug_id, sizeof(ret->info.debug_id)) ||
	    !is_terminated(ret->info.code_id, sizeof(ret->info.code_id)) || ret->section_count > MAX_SECTIONS)
		return sp_error_create(SP_ERROR_FORMAT, "%s: the parser's answer is garbled", name);
	if (*ret->problem)
		return sp_error_create(ret->unsupported ? SP_ERROR_UNSUPPORTED : SP_ERROR_FORMAT, "%s", ret->problem);
	return NULL;
}

static struct sp_error *read_sections(struct sp_cursor *c, const struct record *record, size_t file_size,
                                      const char *name, struct store_facts *ret)
{
	ret->sections = calloc(record->section_count + 1, sizeof(*ret->sections));
	if (!ret->sections)
		return sp_error_no_memory();
	for (uint32_t i = 0; i < record->section_count; i++) {
		struct store_section *section = &ret->sections[ret->section_count];
		const uint8_t *bytes = sp_cursor_bytes(c, sizeof(*section));
		if (bytes)
			memcpy(section, bytes, sizeof(*section));
		if (!bytes || !is_terminated(section->name, sizeof(section->name)) || section->offset > file_size ||
		    section->size > file_size - section->offset)
			return sp_error_create(SP_ERROR_FORMAT, "%s: the parser's answer is garbled", name);
		ret->section_count++;
	}
	return NULL;
}

static struct sp_error *check_use(const char *name, const struct spsym_file_info *info)
{
	if (info->kind == SPSYM_KIND_ELF && !*info->code_id)
		return sp_error_create(SP_ERROR_UNSUPPORTED,
		                       "%s has no build ID, nothing could find it: link with -Wl,--build-id", name);
	if (!*info->debug_id && !*info->code_id)
		return sp_error_create(SP_ERROR_UNSUPPORTED, "%s has no debug ID, nothing could find it", name);
	if (!info->has_symbols && !info->has_debug_info && !info->has_code)
		return sp_error_create(SP_ERROR_UNSUPPORTED, "%s has neither code nor symbols", name);
	return NULL;
}

static struct sp_error *take_facts(const uint8_t *output, size_t output_size, size_t size, const char *name,
                                   struct store_facts *ret)
{
	struct record record;
	struct sp_cursor c = sp_cursor_init(output, output_size);
	struct sp_error *error = read_record(&c, name, &record);
	if (error)
		return error;
	switch (record.info.kind) {
	case SPSYM_KIND_ELF:
	case SPSYM_KIND_PE:
	case SPSYM_KIND_MACHO:
		ret->kind = SP_STORE_OBJECT;
		break;
	case SPSYM_KIND_PDB:
	case SPSYM_KIND_PORTABLE_PDB:
		ret->kind = SP_STORE_PDB;
		break;
	case SPSYM_KIND_BREAKPAD:
		ret->kind = SP_STORE_BREAKPAD;
		break;
	case SPSYM_KIND_UNKNOWN:
	case SPSYM_KIND_KALLSYMS:
	default:
		return sp_error_create(SP_ERROR_UNSUPPORTED, "%s is of no kind that is kept here", name);
	}
	ret->info = record.info;
	memcpy(ret->pdb_name, record.pdb_name, sizeof(ret->pdb_name));
	error = check_use(name, &ret->info);
	return error ? error : read_sections(&c, &record, size, name, ret);
}

struct sp_error *store_derive(const void *bytes, size_t size, const char *name, struct store_facts *ret)
{
	struct work work = { bytes, size, name };
	const struct sp_limited limited = { .what = "the parser",
		                            .name = name,
		                            .memory = MEMORY_LIMIT,
		                            .cpu_s = CPU_SECONDS,
		                            .wall_s = WALL_SECONDS,
		                            .output_size = OUTPUT_LIMIT,
		                            .work = parse,
		                            .context = &work };
	uint8_t *output;
	size_t output_size;
	memset(ret, 0, sizeof(*ret));
	struct sp_error *error = sp_limited_run(&limited, &output, &output_size);
	if (error)
		return error;
	error = take_facts(output, output_size, size, name, ret);
	free(output);
	if (error)
		store_facts_deinit(ret);
	return error;
}

void store_facts_deinit(struct store_facts *facts)
{
	free(facts->sections);
	facts->sections = NULL;
	facts->section_count = 0;
}
