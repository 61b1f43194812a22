/* A file that is read in parts, when they are wanted, by functions of the caller. Its bytes have room in memory at
 * once, so that they are used as those of a mapped file; what was not read yet takes none. Internal to symbolication/.
 */
#ifndef SP_SYMBOLICATION_OBJECT_SOURCE_H
#define SP_SYMBOLICATION_OBJECT_SOURCE_H

#include "common/error.h"
#include "spsym.h"

struct sp_source;

/* Takes the reader over: closes it, also when this fails. */
struct sp_error *sp_source_create(const struct spsym_reader *reader, const char *name, struct sp_source **ret);
void sp_source_destroy(struct sp_source *source);
const uint8_t *sp_source_bytes(const struct sp_source *source, size_t *ret_size);
/* Reads what is not there yet of [offset, offset + size), clipped to the file. Thread-safe. */
struct sp_error *sp_source_need(struct sp_source *source, uint64_t offset, uint64_t size);
/* NULL, or why a read failed. The caller destroys it. */
struct sp_error *sp_source_failure(struct sp_source *source);
/* Bytes that were read. */
size_t sp_source_memory(const struct sp_source *source);

#endif
