/* Where the kernel and its modules lie, and their build IDs.
 *
 * The text begins at the symbol _text (the first lines of /proc/kallsyms). Its end, _etext, comes 100,000 lines later,
 * which takes the kernel 40 ms to print; root finds the size in /proc/iomem instead. */
#include "platform/linux/kernel.h"

#include "common/cursor.h"
#include "common/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_LIMIT (1u << 20)
#define NOTE_BUILD_ID 3

bool sp_kernel_parse_notes(const void *bytes, size_t size, uint8_t build_id[SP_BUILD_ID_MAX], uint8_t *ret_size)
{
	struct sp_cursor c = sp_cursor_init(bytes, size);
	while (sp_cursor_left(&c) >= 12) {
		uint32_t name_size = sp_cursor_u32(&c), desc_size = sp_cursor_u32(&c), type = sp_cursor_u32(&c);
		const uint8_t *name = sp_cursor_bytes(&c, ((uint64_t)name_size + 3) & ~3ull);
		const uint8_t *desc = sp_cursor_bytes(&c, desc_size);
		if (!name || !desc)
			return false;
		if (type == NOTE_BUILD_ID && name_size == 4 && !memcmp(name, "GNU", 4)) {
			*ret_size = (uint8_t)(desc_size < SP_BUILD_ID_MAX ? desc_size : SP_BUILD_ID_MAX);
			memcpy(build_id, desc, *ret_size);
			return desc_size > 0;
		}
		if (sp_cursor_left(&c) >= (-desc_size & 3u))
			sp_cursor_skip(&c, -desc_size & 3u);
	}
	return false;
}

static void read_build_id(const char *path, struct sp_event_map *map)
{
	char *bytes;
	size_t size;
	struct sp_error *error = sp_file_read(path, SMALL_LIMIT, &bytes, &size);
	if (error) {
		sp_error_destroy(error);
		return;
	}
	if (!sp_kernel_parse_notes(bytes, size, map->build_id, &map->build_id_size))
		map->build_id_size = 0;
	free(bytes);
}

/* "  01000000-0220998b : Kernel code" */
static uint64_t text_size_from_iomem(void)
{
	char *text;
	size_t size;
	struct sp_error *error = sp_file_read("/proc/iomem", SMALL_LIMIT, &text, &size);
	if (error) {
		sp_error_destroy(error);
		return 0;
	}
	unsigned long long start = 0, end = 0;
	char *line = strstr(text, " : Kernel code");
	while (line && line > text && line[-1] != '\n')
		line--;
	if (line && sscanf(line, " %llx-%llx", &start, &end) != 2)
		start = end = 0;
	free(text);
	return end > start ? end - start + 1 : 0;
}

/* Reads /proc/kallsyms up to what is missing of _text and _etext. */
static void find_text(uint64_t *start, uint64_t *size)
{
	FILE *file = fopen("/proc/kallsyms", "re");
	if (!file)
		return;
	char line[512];
	while ((!*start || !*size) && fgets(line, sizeof(line), file)) {
		/* "ffffffff81000000 T _text" */
		char *name = strrchr(line, ' ');
		if (!name || name[1] != '_')
			continue;
		unsigned long long address = strtoull(line, NULL, 16);
		if (!strcmp(name, " _text\n") || (!strcmp(name, " _stext\n") && !*start)) {
			if (!address)
				break; /* hidden from this user */
			*start = address;
		}
		if (!strcmp(name, " _etext\n") && *start && address > *start)
			*size = address - *start;
	}
	fclose(file);
}

struct sp_error *sp_kernel_list(sp_kernel_module_fn each, void *context)
{
	uint64_t size = text_size_from_iomem(), start = 0;
	find_text(&start, &size);
	if (!start || !size)
		return NULL;
	struct sp_event_map map = { .start = start, .size = size, .path = "[kernel.kallsyms]", .executable = true };
	read_build_id("/sys/kernel/notes", &map);
	struct sp_error *error = each(context, &map);
	if (error)
		return error;
	char *modules;
	error = sp_file_read("/proc/modules", SMALL_LIMIT, &modules, &size);
	if (error) {
		sp_error_destroy(error);
		return NULL;
	}
	error = sp_kernel_parse_modules(modules, each, context);
	free(modules);
	return error;
}

/* "ext4 1024000 1 - Live 0xffffffffc0200000" */
struct sp_error *sp_kernel_parse_modules(char *text, sp_kernel_module_fn each, void *context)
{
	struct sp_error *error = NULL;
	for (char *line; !error && (line = strsep(&text, "\n"));) {
		char name[64], path[128], file[128];
		unsigned long long size, address;
		if (sscanf(line, "%63s %llu %*s %*s %*s 0x%llx", name, &size, &address) != 3 || !address || !size)
			continue;
		snprintf(path, sizeof(path), "[%s]", name);
		struct sp_event_map map = { .start = address, .size = size, .path = path, .executable = true };
		snprintf(file, sizeof(file), "/sys/module/%s/notes/.note.gnu.build-id", name);
		read_build_id(file, &map);
		error = each(context, &map);
	}
	return error;
}
