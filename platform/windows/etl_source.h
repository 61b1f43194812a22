/* Where the bytes of a trace come from: a file, a file inside of a zip (.etl.zip, .diagsession), or memory. */
#ifndef SP_PLATFORM_WINDOWS_ETL_SOURCE_H
#define SP_PLATFORM_WINDOWS_ETL_SOURCE_H

#include "common/error.h"
#include "common/vector.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct sp_etl_source {
	char *name; /* owned; for messages: "x.etl", "x.etl.zip: x.etl" */
	uint64_t size;
	const uint8_t *bytes; /* borrowed; NULL = read from `file` */
	FILE *file;           /* owned */
};

struct sp_etl_sources {
	SP_VECTOR(struct sp_etl_source) list;
};

/* Opens a file and adds it, or all *.etl in it when it is a zip. */
struct sp_error *sp_etl_sources_add(struct sp_etl_sources *sources, const char *path);
/* Adds bytes, which are borrowed. */
struct sp_error *sp_etl_sources_add_bytes(struct sp_etl_sources *sources, const char *name, const void *bytes,
                                          size_t size);
void sp_etl_sources_deinit(struct sp_etl_sources *sources);

/* Reads `size` bytes at `offset`; *ret_size is less only at the end of the file. */
struct sp_error *sp_etl_source_read(struct sp_etl_source *source, uint64_t offset, void *buffer, size_t size,
                                    size_t *ret_size);

/* zip_file.c: unpacks all *.etl of a zip, each into a nameless file. */
struct sp_error *sp_etl_sources_add_zip(struct sp_etl_sources *sources, const char *path);

#endif
