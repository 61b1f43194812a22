/* The bridge from object files to unwind modules: which sections and addresses the unwinder needs. */
#include "sampler/unwind/unwind.h"
#include "symbolication/object/object.h"

#include <string.h>

/* A section's bytes; an absent or unreadable section is left out, and other tables or frame pointers serve. */
static void take_section(struct sp_object *object, const char *name, struct sp_unwind_section *ret)
{
	const struct sp_section *section = sp_object_find_section(object, name);
	const uint8_t *bytes = NULL;
	size_t size = 0;
	if (!section || section->no_bits)
		return;
	struct sp_error *error = sp_object_section_bytes(object, section, &bytes, &size);
	if (!error)
		*ret = (struct sp_unwind_section){ .bytes = bytes, .size = size, .address = section->address };
	sp_error_destroy(error);
}

/* The largest executable segment that has bytes in the file. */
static void take_code(const struct sp_object *object, struct sp_unwind_section *ret)
{
	size_t count;
	const struct sp_segment *segments = sp_object_segments(object, &count);
	for (size_t i = 0; i < count; i++) {
		size_t size = segments[i].file_size;
		if (!segments[i].executable || size <= ret->size)
			continue;
		const uint8_t *bytes = sp_object_image_bytes(object, segments[i].address, &size);
		if (bytes)
			*ret = (struct sp_unwind_section){ .bytes = bytes,
				                           .size = size,
				                           .address = segments[i].address };
	}
}

struct sp_error *sp_unwind_module_from_object(struct sp_object *object, struct sp_unwind_module **ret)
{
	const struct spsym_file_info *info = sp_object_info(object);
	struct sp_unwind_input input = {
		.image_base = info->base,
		.entry = sp_object_entry(object),
		.big_endian = sp_object_big_endian(object),
	};
	if (strcmp(info->arch, "x86_64") == 0)
		input.arch = SP_ARCH_X86_64;
	else if (strcmp(info->arch, "arm64") == 0)
		input.arch = SP_ARCH_AARCH64;
	take_section(object, ".eh_frame_hdr", &input.eh_frame_hdr);
	take_section(object, ".eh_frame", &input.eh_frame);
	take_section(object, ".debug_frame", &input.debug_frame);
	take_code(object, &input.text);
	const struct sp_section *got = sp_object_find_section(object, ".got");
	if (got)
		input.got.address = got->address;
	struct sp_error *error = sp_unwind_module_create(&input, ret);
	return error ? sp_error_prefix(error, "%s", sp_object_name(object)) : NULL;
}
