/* Functions that a PE image has unwind information for: the exception directory (.pdata) of x64, ARM64 and ARM. */
#include "symbolication/object/pe.h"

#include <stdlib.h>

/* The size of an ARM or ARM64 function: packed into its entry, else the first word of its .xdata record. */
static uint64_t arm_size(const struct sp_object *object, uint32_t unwind)
{
	uint32_t unit = sp_pe(object)->machine == SP_PE_MACHINE_ARM64 ? 4 : 2;
	if (unwind & 3)
		return (uint64_t)(unwind >> 2 & 0x7ff) * unit;
	struct sp_cursor c = sp_pe_bytes(object, unwind, 4);
	return (uint64_t)(sp_cursor_u32(&c) & 0x3ffff) * unit;
}

struct sp_error *sp_pe_functions(struct sp_object *object, struct sp_function_range **ret, size_t *ret_count)
{
	const struct sp_pe *pe = sp_pe(object);
	const struct sp_pe_directory *directory = &pe->directories[SP_PE_DIR_EXCEPTION];
	*ret = NULL;
	*ret_count = 0;
	bool x64 = pe->machine == SP_PE_MACHINE_AMD64;
	bool arm = pe->machine == SP_PE_MACHINE_ARM64 || pe->machine == SP_PE_MACHINE_ARMNT;
	struct sp_cursor c = sp_pe_bytes(object, directory->address, directory->size);
	if (c.bad || (!x64 && !arm))
		return sp_eh_frame_functions(object, ret, ret_count);
	size_t count = sp_cursor_left(&c) / (x64 ? 12 : 8), kept = 0;
	struct sp_function_range *ranges = malloc((count + 1) * sizeof(*ranges));
	if (!ranges)
		return sp_error_no_memory();
	for (size_t i = 0; i < count; i++) {
		uint32_t start = sp_cursor_u32(&c), end = sp_cursor_u32(&c);
		if (x64)
			sp_cursor_skip(&c, 4);
		uint64_t size = x64 ? (uint64_t)end - start : arm_size(object, end);
		if (pe->machine == SP_PE_MACHINE_ARMNT)
			start &= ~UINT32_C(1); /* the Thumb bit */
		if (start && size && size <= UINT32_MAX)
			ranges[kept++] = (struct sp_function_range){ object->info.base + start, size };
	}
	*ret = ranges;
	*ret_count = kept;
	return NULL;
}
