/* SQLite, loaded when the first store is opened (common/library.h): its functions are called by their own names. */
#ifndef SP_SYMBOLICATION_STORE_SQLITE_H
#define SP_SYMBOLICATION_STORE_SQLITE_H

#include "common/library.h"

#include <sqlite3.h>

#define STORE_SQLITE_FUNCTIONS(X) \
	X(sqlite3_bind_blob64)    \
	X(sqlite3_bind_int64)     \
	X(sqlite3_bind_text)      \
	X(sqlite3_busy_timeout)   \
	X(sqlite3_changes)        \
	X(sqlite3_clear_bindings) \
	X(sqlite3_close)          \
	X(sqlite3_column_blob)    \
	X(sqlite3_column_bytes)   \
	X(sqlite3_column_int64)   \
	X(sqlite3_column_text)    \
	X(sqlite3_errmsg)         \
	X(sqlite3_exec)           \
	X(sqlite3_finalize)       \
	X(sqlite3_open_v2)        \
	X(sqlite3_prepare_v3)     \
	X(sqlite3_reset)          \
	X(sqlite3_step)

struct store_sqlite {
	STORE_SQLITE_FUNCTIONS(SP_LIBRARY_MEMBER)
};
extern struct store_sqlite store_sqlite;

/* Loads it unless it is there. In any thread. */
struct sp_error *store_need_sqlite(void);

#define sqlite3_bind_blob64 store_sqlite.sqlite3_bind_blob64
#define sqlite3_bind_int64 store_sqlite.sqlite3_bind_int64
#define sqlite3_bind_text store_sqlite.sqlite3_bind_text
#define sqlite3_busy_timeout store_sqlite.sqlite3_busy_timeout
#define sqlite3_changes store_sqlite.sqlite3_changes
#define sqlite3_clear_bindings store_sqlite.sqlite3_clear_bindings
#define sqlite3_close store_sqlite.sqlite3_close
#define sqlite3_column_blob store_sqlite.sqlite3_column_blob
#define sqlite3_column_bytes store_sqlite.sqlite3_column_bytes
#define sqlite3_column_int64 store_sqlite.sqlite3_column_int64
#define sqlite3_column_text store_sqlite.sqlite3_column_text
#define sqlite3_errmsg store_sqlite.sqlite3_errmsg
#define sqlite3_exec store_sqlite.sqlite3_exec
#define sqlite3_finalize store_sqlite.sqlite3_finalize
#define sqlite3_open_v2 store_sqlite.sqlite3_open_v2
#define sqlite3_prepare_v3 store_sqlite.sqlite3_prepare_v3
#define sqlite3_reset store_sqlite.sqlite3_reset
#define sqlite3_step store_sqlite.sqlite3_step

#endif
