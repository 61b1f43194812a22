/* Facts about this machine; see machine.h. */
#include "platform/linux/machine.h"

#include "common/file.h"
#include "sampler/profile/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define FILE_LIMIT (4u << 20)

/* The value on the first line "NAME<spaces>SEPARATOR value" of a file, without quotes; NULL = none. The caller frees.
 */
static char *file_value(const char *path, const char *name, char separator)
{
	char *text;
	size_t size;
	struct sp_error *error = sp_file_read(path, FILE_LIMIT, &text, &size);
	if (error) {
		sp_error_destroy(error);
		return NULL;
	}
	char *value = NULL, *rest = text;
	for (char *line; !value && (line = strsep(&rest, "\n"));) {
		if (strncmp(line, name, strlen(name)))
			continue;
		char *at = line + strlen(name);
		at += strspn(at, " \t");
		if (*at != separator)
			continue;
		at += 1 + strspn(at + 1, " \t\"");
		at[strcspn(at, "\"")] = 0;
		value = strdup(at);
	}
	free(text);
	return value;
}

static void emit_file_value(void (*emit)(void *, const char *, const char *), void *context, const char *key,
                            const char *path, const char *name, char separator)
{
	char *value = file_value(path, name, separator);
	if (value)
		emit(context, key, value);
	free(value);
}

void sp_machine_describe(void (*emit)(void *context, const char *key, const char *value), void *context)
{
	char number[32];
	struct utsname name;
	emit(context, SP_META_PLATFORM, "Linux");
	if (!uname(&name)) {
		char *distribution = file_value("/etc/os-release", "PRETTY_NAME", '=');
		char os[512];
		snprintf(os, sizeof(os), "%s%s%s %s", distribution ? distribution : "", distribution ? ", " : "",
		         name.sysname, name.release);
		free(distribution);
		emit(context, SP_META_OS, os);
		emit(context, SP_META_ARCH, name.machine);
		emit(context, SP_META_HOST, name.nodename);
	}
	emit_file_value(emit, context, SP_META_CPU, "/proc/cpuinfo", "model name", ':');
	snprintf(number, sizeof(number), "%ld", sysconf(_SC_NPROCESSORS_ONLN));
	emit(context, SP_META_CPUS, number);
	long long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	snprintf(number, sizeof(number), "%lld", pages * page);
	emit(context, SP_META_MEMORY, number);
	char *boot_id;
	size_t size;
	struct sp_error *error = sp_file_read("/proc/sys/kernel/random/boot_id", 64, &boot_id, &size);
	if (error) {
		sp_error_destroy(error);
		return;
	}
	boot_id[strcspn(boot_id, "\n")] = 0;
	emit(context, SP_META_BOOT_ID, boot_id);
	free(boot_id);
}
