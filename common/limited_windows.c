/* There is no fork() on Windows; see limited.h. */
#include "common/limited.h"

void sp_limited_put(struct sp_limited_output *out, const void *bytes, size_t size)
{
	(void)bytes;
	(void)size;
	out->failed = true;
}

struct sp_error *sp_limited_run(const struct sp_limited *limited, uint8_t **ret, size_t *ret_size)
{
	(void)ret;
	(void)ret_size;
	return sp_error_create(SP_ERROR_UNSUPPORTED, "%s: %s is not available on Windows", limited->name,
	                       limited->what);
}
