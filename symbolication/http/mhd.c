/* Loads libmicrohttpd; see mhd.h. */
#include "mhd.h"

#include <pthread.h>

struct http_mhd http_mhd;
static struct sp_error *failed;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
	static const char *const names[] = { HTTP_MHD_LIBRARY, NULL };
	static const struct sp_library_function functions[] = { HTTP_MHD_FUNCTIONS(SP_LIBRARY_ENTRY) };
	failed = sp_library_load(names, functions, sizeof(functions) / sizeof(functions[0]));
}

struct sp_error *http_need_mhd(void)
{
	pthread_once(&once, load);
	return failed ? sp_error_copy(failed) : NULL;
}
