/* The file of a profile: gzip when its name ends in ".gz", and a temporary file beside it that takes its place at the
 * end. */
#ifndef SP_SAMPLER_OUTPUT_PROFILE_FILE_H
#define SP_SAMPLER_OUTPUT_PROFILE_FILE_H

#include "common/compress.h"

#define SP_GZIP_LEVEL 1

/* Writes the text to a sink. `gzip`: the sink again when it is one, else NULL. */
typedef struct sp_error *(*sp_profile_text_fn)(void *context, sp_write_fn write, void *sink, struct sp_gzip *gzip);

struct sp_error *sp_profile_file_write(const char *path, sp_profile_text_fn text, void *context);

#endif
