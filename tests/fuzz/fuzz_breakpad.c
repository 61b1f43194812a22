/* Fuzz target: Breakpad .sym files, from the text and from the index made of it. The first 4 bytes choose addresses. */
#include "look_up.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t addresses[64];
	if (size < 4)
		return 0;
	for (size_t i = 0; i < 64; i++)
		addresses[i] = ((uint64_t)data[i % 4] << (i / 8)) + i;
	look_up(data + 4, size - 4, "fuzz.sym", addresses, 64);
	return 0;
}
