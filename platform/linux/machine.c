/* Facts about this machine, for the profile's meta data. What can't be read is left out. */
#include "platform/linux/machine.h"

#include "common/file.h"
#include "sampler/profile/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define FILE_LIMIT (1 << 20)

/* The value of the first line "<key><separators><value>" of a file, without quotes; NULL when absent. The caller frees
 * it. */
static char *read_value(const char *path, const char *key)
{
	char *text;
	size_t size;
	struct sp_error *error = sp_file_read(path, FILE_LIMIT, &text, &size);
	if (error) {
		sp_error_destroy(error);
		return NULL;
	}
	char *value = NULL;
	for (char *line = text; line && !value; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, strlen(key)) != 0)
			continue;
		char *start = line + strlen(key) + strspn(line + strlen(key), " \t:=\"");
		value = strndup(start, strcspn(start, "\"\n"));
	}
	free(text);
	return value;
}

static void emit_owned(void (*emit)(void *context, const char *key, const char *value), void *context, const char *key,
                       char *value)
{
	if (value && *value)
		emit(context, key, value);
	free(value);
}

void sp_linux_describe(void (*emit)(void *context, const char *key, const char *value), void *context)
{
	struct utsname name;
	char text[512];
	emit(context, SP_META_PLATFORM, "Linux");
	if (!uname(&name)) {
		char *distribution = read_value("/etc/os-release", "PRETTY_NAME");
		snprintf(text, sizeof(text), "%s%sLinux %s", distribution ? distribution : "", distribution ? ", " : "",
		         name.release);
		free(distribution);
		emit(context, SP_META_OS, text);
		emit(context, SP_META_ARCH, name.machine);
		emit(context, SP_META_HOST, name.nodename);
	}
	emit_owned(emit, context, SP_META_CPU, read_value("/proc/cpuinfo", "model name"));
	snprintf(text, sizeof(text), "%ld", sysconf(_SC_NPROCESSORS_ONLN));
	emit(context, SP_META_CPUS, text);
	snprintf(text, sizeof(text), "%llu",
	         (unsigned long long)sysconf(_SC_PHYS_PAGES) * (unsigned long long)sysconf(_SC_PAGESIZE));
	emit(context, SP_META_MEMORY, text);
	emit_owned(emit, context, SP_META_BOOT_ID, read_value("/proc/sys/kernel/random/boot_id", ""));
}
