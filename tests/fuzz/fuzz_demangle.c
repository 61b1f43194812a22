/* Fuzz target: demangling stays within its bounds. */
#include "symbolication/demangle/demangle.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sp_buffer out = { 0 };
	char *name = malloc(size + 1);
	if (!name)
		return 0;
	memcpy(name, data, size);
	name[size] = 0;
	bool done = sp_demangle(name, &out);
	if (out.size > SP_DEMANGLE_OUTPUT_LIMIT + size || (!done && out.size))
		abort();
	free(out.bytes);
	free(name);
	return 0;
}
