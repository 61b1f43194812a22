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
 * one. Waits only while SP_SEGMENTS_WAITING segments are not written yet. An error is that of an earlier segment. */
struct sp_error *sp_segment_file_put(struct sp_segment_file *file, const struct sp_segment_header *header,
                                     struct sp_bytes *payload);
#define SP_SEGMENTS_WAITING 8

/* Waits until all is written; the first error, which stays. */
struct sp_error *sp_segment_file_wait(struct sp_segment_file *file);

/* Waits, ends the thread, closes the file. NULL is fine. */
struct sp_error *sp_segment_file_destroy(struct sp_segment_file *file);

#endif
