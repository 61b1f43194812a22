/* For tests that unwind another process: its mappings as an address space of unwind modules. */
#ifndef TESTS_UNIT_UNWIND_TARGET_H
#define TESTS_UNIT_UNWIND_TARGET_H

#include "sampler/unwind/unwind.h"
#include "symbolication/object/object.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>

#define TARGET_MAX_RANGES 256

struct target_mapping {
	uint64_t start, end, file_offset;
	char path[256];
};

/* Executable mappings of a process, and what is needed to unwind them. */
struct target {
	struct target_mapping mappings[TARGET_MAX_RANGES]; /* by address, like ranges */
	struct sp_code_range ranges[TARGET_MAX_RANGES];
	struct sp_object *objects[TARGET_MAX_RANGES];
	struct sp_unwind_module *modules[TARGET_MAX_RANGES];
	uint8_t *vdso; /* its bytes */
	size_t count;
	uint64_t stack_end; /* of the main thread's stack */
};

static inline bool target_read(pid_t pid, uint64_t address, void *buffer, size_t size)
{
	struct iovec local = { buffer, size }, remote = { (void *)(uintptr_t)address, size };
	return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)size;
}

/* Opens what a mapping shows; a range without a module when that fails. */
static inline void target_open(struct target *target, size_t at, pid_t pid)
{
	struct target_mapping *mapping = &target->mappings[at];
	struct sp_object *object = NULL;
	struct sp_error *error = NULL;
	if (strcmp(mapping->path, "[vdso]") == 0 && pid) {
		size_t size = mapping->end - mapping->start;
		target->vdso = malloc(size);
		if (target->vdso && target_read(pid, mapping->start, target->vdso, size))
			error = sp_object_open_bytes(target->vdso, size, "[vdso]", &object);
	} else if (mapping->path[0] == '/') {
		error = sp_object_open_path(mapping->path, &object);
	}
	struct sp_code_range *range = &target->ranges[at];
	*range = (struct sp_code_range){ .start = mapping->start, .end = mapping->end };
	if (!error && object) {
		size_t count;
		const struct sp_segment *segments = sp_object_segments(object, &count);
		for (size_t i = 0; i < count; i++) {
			/* Mappings start at page boundaries, segments anywhere. */
			uint64_t offset = segments[i].file_offset & ~(uint64_t)0xfff;
			if (segments[i].executable && mapping->file_offset >= offset &&
			    mapping->file_offset < segments[i].file_offset + segments[i].file_size)
				range->bias = mapping->start - mapping->file_offset + segments[i].file_offset -
				              segments[i].address;
		}
		error = sp_unwind_module_from_object(object, &target->modules[at]);
		range->module = error ? NULL : target->modules[at];
	}
	target->objects[at] = object;
	sp_error_destroy(error);
}

/* Adds an executable mapping; they come in order of address. `pid` is needed for the vdso, else 0. */
static inline void target_add(struct target *target, const struct target_mapping *mapping, pid_t pid)
{
	if (target->count == TARGET_MAX_RANGES)
		abort();
	target->mappings[target->count] = *mapping;
	target_open(target, target->count++, pid);
}

static inline void target_init(struct target *target, pid_t pid)
{
	memset(target, 0, sizeof(*target));
	char path[64], line[512];
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	FILE *file = fopen(path, "r");
	if (!file)
		abort();
	while (fgets(line, sizeof(line), file)) {
		struct target_mapping mapping = { 0 };
		char rights[8];
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %255s", &mapping.start, &mapping.end,
		           rights, &mapping.file_offset, mapping.path) < 4)
			continue;
		if (strcmp(mapping.path, "[stack]") == 0)
			target->stack_end = mapping.end;
		if (rights[2] == 'x' && strcmp(mapping.path, "[vsyscall]") != 0)
			target_add(target, &mapping, pid);
	}
	fclose(file);
}

static inline void target_deinit(struct target *target)
{
	for (size_t i = 0; i < target->count; i++) {
		sp_unwind_module_destroy(target->modules[i]);
		sp_object_destroy(target->objects[i]);
	}
	free(target->vdso);
}

static inline struct sp_code_map target_map(const struct target *target)
{
	return (struct sp_code_map){ target->ranges, target->count };
}

/* "file+0x123" of an address, for messages. */
static inline const char *target_name(const struct target *target, uint64_t address, char *buffer, size_t size)
{
	for (size_t i = 0; i < target->count; i++) {
		const struct sp_code_range *range = &target->ranges[i];
		if (address < range->start || address >= range->end)
			continue;
		const char *slash = strrchr(target->mappings[i].path, '/');
		snprintf(buffer, size, "%s+0x%" PRIx64, slash ? slash + 1 : target->mappings[i].path,
		         address - range->bias);
		return buffer;
	}
	snprintf(buffer, size, "0x%" PRIx64, address);
	return buffer;
}

#endif
