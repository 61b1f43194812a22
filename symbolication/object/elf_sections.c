/* Bytes of ELF sections that are not usable as they stand in the file: SHF_COMPRESSED (zlib, zstd), .zdebug_*, and the
 * debug sections of relocatable files. */
#include "symbolication/object/elf.h"

#include "common/compress.h"

#include <stdlib.h>
#include <string.h>

enum { ELFCOMPRESS_ZLIB = 1, ELFCOMPRESS_ZSTD = 2 };

/* Reads the header in front of the compressed bytes, leaves the cursor behind it. */
static struct sp_error *compression_header(const struct sp_object *object, size_t at, struct sp_cursor *bytes,
                                           enum sp_compression *kind, uint64_t *size)
{
	const struct sp_elf *elf = sp_elf(object);
	uint32_t type = ELFCOMPRESS_ZLIB;
	if (elf->sections[at].flags & SP_SHF_COMPRESSED) {
		type = sp_cursor_u32(bytes);
		if (elf->is64)
			sp_cursor_skip(bytes, 4);
		*size = sp_elf_word(bytes, elf);
		(void)sp_elf_word(bytes, elf); /* alignment */
	} else {
		sp_cursor_skip(bytes, 4); /* "ZLIB" */
		bytes->big_endian = true;
		*size = sp_cursor_u64(bytes);
	}
	if (bytes->bad)
		return sp_error_create(SP_ERROR_FORMAT, "the compression header is cut off");
	if (type != ELFCOMPRESS_ZLIB && type != ELFCOMPRESS_ZSTD)
		return sp_error_create(SP_ERROR_UNSUPPORTED, "compression type %u is not known", type);
	*kind = type == ELFCOMPRESS_ZLIB ? SP_COMPRESSION_ZLIB : SP_COMPRESSION_ZSTD;
	return NULL;
}

/* The size that a section says it has when inflated, unless that cannot be. */
static struct sp_error *check_size(uint64_t size, size_t stored)
{
	if (size > SP_SECTION_LIMIT || size > SIZE_MAX || size / SP_SECTION_RATIO > stored)
		return sp_error_create(SP_ERROR_LIMIT, "%llu bytes cannot have been compressed to %zu",
		                       (unsigned long long)size, stored);
	return NULL;
}

bool sp_elf_find_stream(struct sp_object *object, size_t at, struct sp_cursor *ret, size_t *ret_size)
{
	enum sp_compression kind = SP_COMPRESSION_ZLIB;
	uint64_t size = 0;
	if (!object->sections[at].compressed || sp_elf(object)->sections[at].relocations)
		return false;
	struct sp_error *error = sp_object_stored_bytes(object, &object->sections[at], ret);
	if (!error)
		error = compression_header(object, at, ret, &kind, &size);
	if (!error)
		error = check_size(size, sp_cursor_left(ret));
	bool found = !error && kind == SP_COMPRESSION_ZLIB;
	sp_error_destroy(error); /* sp_elf_make_bytes() will say it */
	*ret_size = (size_t)size;
	return found;
}

static struct sp_error *inflate_section(const struct sp_object *object, size_t at, struct sp_cursor bytes,
                                        uint8_t **ret, size_t *ret_size)
{
	enum sp_compression kind;
	uint64_t size;
	struct sp_error *error = compression_header(object, at, &bytes, &kind, &size);
	if (error)
		return error;
	size_t stored = sp_cursor_left(&bytes);
	error = check_size(size, stored);
	if (error)
		return error;
	uint8_t *buffer = malloc(size ? (size_t)size : 1);
	if (!buffer)
		return sp_error_no_memory();
	error = sp_decompress_exact(kind, bytes.at, stored, buffer, (size_t)size);
	if (error) {
		free(buffer);
		return error;
	}
	*ret = buffer;
	*ret_size = (size_t)size;
	return NULL;
}

static struct sp_error *copy_section(struct sp_cursor bytes, uint8_t **ret, size_t *ret_size)
{
	size_t size = sp_cursor_left(&bytes);
	uint8_t *buffer = malloc(size ? size : 1);
	if (!buffer)
		return sp_error_no_memory();
	if (size)
		memcpy(buffer, bytes.start, size);
	*ret = buffer;
	*ret_size = size;
	return NULL;
}

struct sp_error *sp_elf_make_bytes(struct sp_object *object, size_t at, uint8_t **ret, size_t *ret_size)
{
	const struct sp_section *section = &object->sections[at];
	struct sp_cursor bytes;
	struct sp_error *error = sp_object_stored_bytes(object, section, &bytes);
	if (error)
		return error;
	uint8_t *buffer;
	size_t size;
	error = section->compressed ? inflate_section(object, at, bytes, &buffer, &size)
	                            : copy_section(bytes, &buffer, &size);
	if (!error && sp_elf(object)->sections[at].relocations) {
		error = sp_elf_relocate(object, at, buffer, size);
		if (error)
			free(buffer);
	}
	if (error)
		return sp_error_prefix(error, "cannot read %s: section %s", object->name, section->name);
	*ret = buffer;
	*ret_size = size;
	return NULL;
}
