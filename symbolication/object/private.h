/* What the readers of object formats share; only for files of this folder.
 *
 * A format is a probe, an opener that fills the common part of struct sp_object, and functions for what is read on
 * demand. object.c holds everything that does not depend on the format. */
#ifndef SP_SYMBOLICATION_OBJECT_PRIVATE_H
#define SP_SYMBOLICATION_OBJECT_PRIVATE_H

#include "common/arena.h"
#include "common/cursor.h"
#include "common/file.h"
#include "symbolication/object/object.h"
#include "symbolication/object/source.h"
#include "symbolication/object/stream.h"

#include <pthread.h>
#include <stdatomic.h>

/* Largest section that is inflated or relocated in memory. */
#define SP_SECTION_LIMIT (UINT64_C(4) << 30)
/* No deflate stream expands more; a declared size beyond this is a lie. Applied to zstd too, which has no such bound
 * but whose real sections stay far below. */
#define SP_SECTION_RATIO 1032

/* The bytes of a section that must be made (inflated, relocated) before use; made once. */
struct sp_lazy_bytes {
	pthread_mutex_t lock;
	atomic_bool ready;                  /* set after the other fields */
	uint8_t *bytes;                     /* owned; NULL when making them failed */
	size_t size;                        /* of `bytes` */
	struct sp_error *error;             /* owned; why it failed */
	_Atomic(struct sp_stream *) stream; /* owned; makes them in the background instead; NULL = none */
};

struct sp_object_format {
	bool (*probe)(const uint8_t *bytes, size_t size);
	/* Fills the object; on an error the object is destroyed by the caller. */
	struct sp_error *(*open)(struct sp_object *object);
	void (*close)(struct sp_object *object);
	/* Makes the bytes of section `at`, which has a lazy part; a buffer of malloc(). */
	struct sp_error *(*make_bytes)(struct sp_object *object, size_t at, uint8_t **ret, size_t *ret_size);
	/* Gives the zlib stream that section `at` is, when that alone makes its bytes, and their number; false for all
	 * others. May be NULL. */
	bool (*find_stream)(struct sp_object *object, size_t at, struct sp_cursor *ret, size_t *ret_size);
	struct sp_error *(*symbols)(struct sp_object *object, struct sp_symbols *ret);
	/* NULL: not offered for the format. */
	struct sp_error *(*raw_symbols)(struct sp_object *object, struct sp_raw_symbol **ret, size_t *ret_count);
	struct sp_error *(*functions)(struct sp_object *object, struct sp_function_range **ret, size_t *ret_count);
};

struct sp_object {
	const struct sp_object_format *format;
	char *name; /* owned; for messages */
	struct sp_cursor file;
	struct sp_file_map map;
	bool has_map;
	atomic_bool scattered;    /* the map is read only where it is touched */
	void *owned_bytes;        /* freed with the object */
	struct sp_source *source; /* owned; what the bytes are read from, as they are wanted; NULL = all are there */

	bool big_endian, relocatable;
	unsigned address_size;
	uint64_t entry;
	struct spsym_file_info info;
	const uint8_t *build_id;
	size_t build_id_size;
	const char *note; /* in the arena */

	struct sp_segment *segments; /* owned, sorted by address */
	size_t segment_count;
	struct sp_section *sections; /* owned */
	struct sp_lazy_bytes **lazy; /* owned; one a section, NULL for those that are used as they are in the file */
	size_t section_count;

	struct sp_arena arena; /* strings and small tables */
	atomic_size_t memory;
	void *data; /* the format's own */
};

/* Marks section `at` as one whose bytes must be made; false without memory. */
bool sp_object_make_lazy(struct sp_object *object, size_t at);

/* The bytes [offset, offset + size) of the file; a bad cursor when they are not all inside, or cannot be read. Nothing
 * else gives bytes of a file that is read in parts. */
struct sp_cursor sp_object_range(const struct sp_object *object, uint64_t offset, uint64_t size);

/* The stored bytes of a section: [file_offset, file_offset + size), an error when they are not all in the file. */
struct sp_error *sp_object_stored_bytes(const struct sp_object *object, const struct sp_section *section,
                                        struct sp_cursor *ret);

/* XOR of the first 4096 bytes in 16-byte lanes: the identity of files without one. False when all is zero. */
bool sp_object_text_hash(const uint8_t *text, size_t size, uint8_t ret[16]);

extern const struct sp_object_format sp_elf_format, sp_pe_format;

/* eh_frame.c: sp_object_format.functions of all formats that have .eh_frame. */
struct sp_error *sp_eh_frame_functions(struct sp_object *object, struct sp_function_range **ret, size_t *ret_count);

#endif
