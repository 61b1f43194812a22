/* Parser of perf-PID.map: one function a line, "START SIZE name", numbers in hex. Written by JITs (V8, the JVM, .NET,
 * LuaJIT ...) in the format that Linux' tools/perf/Documentation/jit-interface.txt describes. */
#ifndef SP_SAMPLER_RECORD_PERF_MAP_H
#define SP_SAMPLER_RECORD_PERF_MAP_H

#include "common/cursor.h"

#include <stdbool.h>
#include <stdint.h>

#define SP_PERF_MAP_NAME_MAX 4096 /* longer names are cut */

struct sp_perf_map_function {
	uint64_t start, size; /* start + size does not overflow; size is at least 1 */
	char name[SP_PERF_MAP_NAME_MAX + 1];
};

/* The next function; false at the end. Lines that are none are passed over and counted in *skipped. */
bool sp_perf_map_next(struct sp_cursor *text, struct sp_perf_map_function *ret, uint64_t *skipped);

#endif
