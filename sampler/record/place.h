/* Where the recording of a profile lies while it is made. */
#ifndef SP_SAMPLER_RECORD_PLACE_H
#define SP_SAMPLER_RECORD_PLACE_H

#include "common/error.h"

/* Checks that `output` can take a profile and makes an empty file beside it for the recording, of a name that was free:
 * one that an earlier run had to keep is not overwritten. That of a device lies in $TMPDIR. The caller frees *ret. */
struct sp_error *sp_recording_place(const char *output, char **ret);

#endif
