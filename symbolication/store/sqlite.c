/* Loads SQLite; see sqlite.h. */
#include "sqlite.h"

#include <pthread.h>

struct store_sqlite store_sqlite;
static struct sp_error *failed;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
	static const char *const names[] = { STORE_SQLITE_LIBRARY, NULL };
	static const struct sp_library_function functions[] = { STORE_SQLITE_FUNCTIONS(SP_LIBRARY_ENTRY) };
	failed = sp_library_load(names, functions, sizeof(functions) / sizeof(functions[0]));
}

struct sp_error *store_need_sqlite(void)
{
	pthread_once(&once, load);
	return failed ? sp_error_copy(failed) : NULL;
}
