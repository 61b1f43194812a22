/* For tests whose fixtures are made by compilers and binary tools when they run: a folder, commands in it, and parts
 * that are counted as skipped where a tool is missing. */
#ifndef FIXTURE_SUPPORT_H
#define FIXTURE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[256]; /* where fixtures are made; no trailing slash */
static unsigned skipped;

static int make_folder(void **state)
{
	(void)state;
	const char *parent = getenv("TMPDIR");
	snprintf(folder, sizeof(folder), "%s/sp-fixtures-XXXXXX", parent ? parent : "/tmp");
	if (!mkdtemp(folder))
		return -1;
	char *real = realpath(folder, NULL);
	if (real)
		snprintf(folder, sizeof(folder), "%s", real);
	free(real);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	char command[512];
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	if (skipped)
		printf("%u parts SKIPPED\n", skipped);
	return system(command);
}

__attribute__((unused)) static void skip_part(const char *what, const char *why)
{
	printf("SKIPPED: %s: %s\n", what, why);
	skipped++;
}

/* Runs a shell command in the folder; $D is where the sources are. Its output goes to "log". */
__attribute__((unused, format(printf, 1, 2))) static bool run(const char *format, ...)
{
	char command[4096], line[5000];
	va_list args;
	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	snprintf(line, sizeof(line), "cd '%s' && D='%s' && { %s; } >log 2>&1", folder, TEST_DATA, command);
	return system(line) == 0;
}

/* As run() for a command that must work. */
#define must_run(...)                                                         \
	do {                                                                  \
		if (!run(__VA_ARGS__)) {                                      \
			char show[300];                                       \
			snprintf(show, sizeof(show), "cat '%s/log'", folder); \
			(void)!system(show);                                  \
			fail_msg("a command failed: " __VA_ARGS__);           \
		}                                                             \
	} while (0)

__attribute__((unused)) static bool have(const char *program)
{
	return run("command -v %s", program);
}

/* A path in the folder; the storage is used again after eight calls. */
__attribute__((unused, format(printf, 1, 2))) static const char *in_folder(const char *format, ...)
{
	static char paths[8][600];
	static unsigned next;
	char *path = paths[next++ % 8], name[300];
	va_list args;
	va_start(args, format);
	vsnprintf(name, sizeof(name), format, args);
	va_end(args);
	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

/* Writes a source or other small file into the folder. */
__attribute__((unused)) static void write_text(const char *name, const char *text)
{
	FILE *file = fopen(in_folder("%s", name), "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* The bytes of a file of the folder, NUL-terminated; the caller frees them. */
__attribute__((unused)) static uint8_t *read_bytes(const char *name, size_t *ret_size)
{
	FILE *file = fopen(in_folder("%s", name), "rb");
	assert_non_null(file);
	assert_int_equal(fseek(file, 0, SEEK_END), 0);
	long size = ftell(file);
	rewind(file);
	uint8_t *bytes = malloc((size_t)size + 1);
	assert_non_null(bytes);
	assert_int_equal(fread(bytes, 1, (size_t)size, file), size);
	bytes[size] = 0;
	fclose(file);
	*ret_size = (size_t)size;
	return bytes;
}

/* What a command prints; the caller frees it. */
__attribute__((unused, format(printf, 1, 2))) static char *output_of(const char *format, ...)
{
	char command[4096];
	va_list args;
	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	must_run("{ %s; } >output", command);
	size_t size;
	return (char *)read_bytes("output", &size);
}

/* The number that a command prints in hex, for example a field of nm's output. */
#define hex_output(...)                                            \
	({                                                         \
		char *hex_text = output_of(__VA_ARGS__);           \
		uint64_t hex_value = strtoull(hex_text, NULL, 16); \
		free(hex_text);                                    \
		hex_value;                                         \
	})

#endif
