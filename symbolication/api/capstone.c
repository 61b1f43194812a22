/* Loads capstone; see capstone.h. */
#include "capstone.h"

#include <pthread.h>

struct api_capstone api_capstone;
static struct sp_error *failed;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
	static const char *const names[] = { API_CAPSTONE_LIBRARY, NULL };
	static const struct sp_library_function functions[] = { API_CAPSTONE_FUNCTIONS(SP_LIBRARY_ENTRY) };
	failed = sp_library_load(names, functions, sizeof(functions) / sizeof(functions[0]));
}

struct sp_error *api_need_capstone(void)
{
	pthread_once(&once, load);
	return failed ? sp_error_copy(failed) : NULL;
}
