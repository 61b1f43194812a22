/* Fuzz target: cabinets. LZX is left to libarchive, which has its own. */
#include "symbolication/locate/cabinet.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes;
	size_t unpacked;
	struct sp_error *error = sp_cabinet_unpack(data, size, 16 << 20, &bytes, &unpacked);
	if (error) {
		sp_error_destroy(error);
		return 0;
	}
	for (size_t i = 0; i < unpacked; i++)
		sink += bytes[i];
	free(bytes);
	return 0;
}
