/* A large compressed section that is inflated by a thread while the front of it is in use. Only for files of this
 * folder.
 */
#ifndef SP_SYMBOLICATION_OBJECT_STREAM_H
#define SP_SYMBOLICATION_OBJECT_STREAM_H

#include "common/error.h"

#include <stddef.h>
#include <stdint.h>

#define SP_STREAM_LEAST ((size_t)4 << 20) /* smaller ones are inflated at once */

struct sp_stream;

/* Begins; `in` (a zlib stream) must outlive the stream. */
struct sp_error *sp_stream_create(const uint8_t *in, size_t in_size, size_t size, struct sp_stream **ret);
/* Stops the thread. */
void sp_stream_destroy(struct sp_stream *stream);
/* All of the bytes; those that were not waited for are not there yet. */
const uint8_t *sp_stream_bytes(const struct sp_stream *stream, size_t *ret_size);
/* Returns when the first `end` bytes are there, or never will be. */
struct sp_error *sp_stream_wait(struct sp_stream *stream, size_t end);

#endif
