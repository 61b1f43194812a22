/* Debug IDs and code IDs: the forms that Breakpad, samply and the Firefox Profiler use. */
#include "spsym.h"

#include <stdio.h>
#include <string.h>

void spsym_debug_id_from_build_id(const uint8_t *build_id, size_t size, bool big_endian, char *ret)
{
	/* The first 16 bytes are read as a GUID, whose first three fields are numbers in the file's byte order. */
	static const unsigned char order[16] = { 3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15 };
	uint8_t guid[16] = { 0 };
	memcpy(guid, build_id, size < 16 ? size : 16);
	for (unsigned i = 0; i < 16; i++)
		snprintf(ret + 2 * i, 3, "%02X", guid[big_endian ? i : order[i]]);
	memcpy(ret + 32, "0", 2);
}
