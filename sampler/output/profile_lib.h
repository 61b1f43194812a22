/* A library as a saved profile lists it. */
#ifndef SP_SAMPLER_OUTPUT_PROFILE_LIB_H
#define SP_SAMPLER_OUTPUT_PROFILE_LIB_H

#include "common/arena.h"
#include "common/json_read.h"
#include "spsym.h"

/* Reads the next value, an entry of "libs"; what is no object gives an empty identity. The strings go into the arena.
 */
void sp_profile_lib_read(struct sp_json_reader *reader, struct sp_arena *arena, struct spsym_identity *ret);

#endif
