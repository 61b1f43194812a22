/* Fuzz target: the parser of perf-PID.map. */
#include "sampler/record/perf_map.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sp_cursor text = sp_cursor_init(data, size);
	struct sp_perf_map_function function;
	uint64_t skipped = 0, count = 0;
	while (sp_perf_map_next(&text, &function, &skipped)) {
		if (!function.size || function.size > UINT64_MAX - function.start ||
		    !memchr(function.name, 0, sizeof(function.name)))
			abort();
		count++;
	}
	/* Each line is one or the other, and at least a byte long. */
	if (count + skipped > size || text.at != text.end)
		abort();
	return 0;
}
