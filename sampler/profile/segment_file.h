/* The file behind a recording writer: compresses closed segments and appends them, on a thread of its own. The reader
 * of the kernel's rings writes records; a disk that is slow for a moment must not make it lose samples. */
#ifndef SP_SAMPLER_PROFILE_SEGMENT_FILE_H
#define SP_SAMPLER_PROFILE_SEGMENT_FILE_H

#include "common/error.h"
#include "sampler/profile/recording.h"

struct sp_segment_file;

/* Creates `path` (an existing file is replaced) and starts the thread. */
struct sp_error *sp_segment_file_create(const char *path, struct sp_segment_file **ret);

/* Hands over a segment: `header` with type, sequence and times, and the payload, whose buffer is exchanged for an empty
 * one. Waits only while more than SP_SEGMENTS_WAITING_BYTES are not written yet. An error is that of an earlier
 * segment. */
struct sp_error *sp_segment_file_put(struct sp_segment_file *file, const struct sp_segment_header *header,
                                     struct sp_bytes *payload);
/* A minute of 4 kHz: a disk that is behind with other programs' gigabytes stands still for many seconds. */
#define SP_SEGMENTS_WAITING_BYTES ((size_t)32 << 20)

/* Waits until all is written; the first error, which stays. */
struct sp_error *sp_segment_file_wait(struct sp_segment_file *file);

/* Waits, ends the thread, closes the file. NULL is fine. */
struct sp_error *sp_segment_file_destroy(struct sp_segment_file *file);

#endif
