/* Fuzzes plain LZ77. The input is decoded, whole and cut short, and also encoded: what comes back must be the same. */
#include "platform/windows/xpress.h"

#include <stdlib.h>
#include <string.h>

#define OUT_SIZE 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *whole = malloc(OUT_SIZE), *part = malloc(64), *packed = malloc(sp_xpress_bound(size));
	uint8_t *back = malloc(size + 1);
	size_t got, got_part;
	if (!whole || !part || !packed || !back)
		abort();
	bool good = sp_xpress_decode(data, size, whole, OUT_SIZE, &got);
	bool good_part = sp_xpress_decode(data, size, part, 64, &got_part);
	if (good && (!good_part || got_part != (got < 64 ? got : 64)))
		abort();
	if (memcmp(whole, part, got < got_part ? got : got_part))
		abort();
	size_t packed_size = sp_xpress_encode(data, size, packed);
	if (packed_size > sp_xpress_bound(size))
		abort();
	if (!sp_xpress_decode(packed, packed_size, back, size, &got) || got != size || memcmp(back, data, size))
		abort();
	free(whole);
	free(part);
	free(packed);
	free(back);
	return 0;
}
