/* Growth of the arrays of vector.h: doubling, with overflow checks. */
#include "common/vector.h"

#include <stdint.h>

bool sp_vector_grow(void **items, size_t *capacity, size_t count, size_t extra, size_t item_size)
{
	if (extra <= *capacity - count)
		return true;
	if (extra > SIZE_MAX / item_size / 2 - count)
		return false;
	size_t wanted = *capacity ? *capacity * 2 : 8;
	if (wanted < count + extra)
		wanted = count + extra;
	void *grown = realloc(*items, wanted * item_size);
	if (!grown)
		return false;
	*items = grown;
	*capacity = wanted;
	return true;
}
