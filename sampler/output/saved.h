/* A saved profile that is to get symbols: its text, and of that the tables that change. Shared by the files saved*.c.
 *
 * Everything else is copied as it stands, so what sp does not know of a profile is kept. Rows of tables keep their
 * numbers; new ones are added behind them. Only stacks are counted anew, since callers stand before callees. */
#ifndef SP_SAMPLER_OUTPUT_SAVED_H
#define SP_SAMPLER_OUTPUT_SAVED_H

#include "common/arena.h"
#include "common/compress.h"
#include "common/file.h"
#include "common/intern.h"
#include "common/json_read.h"
#include "common/map.h"
#include "common/vector.h"
#include "sampler/output/output.h"

#define SAVED_NONE UINT32_MAX

/* A value of the profile's text. */
struct saved_value {
	const char *text;
	size_t size;
};

/* A table is columns of one length. Zeroed storage is an empty table. */
struct saved_column {
	const char *name; /* in the arena */
	SP_VECTOR(struct saved_value) values;
};
struct saved_table {
	SP_VECTOR(struct saved_column) columns;
	size_t length;
};

/* What a frame of the profile became. */
struct saved_frame {
	uint32_t func, native_symbol; /* SAVED_NONE = as it was (func), none (native_symbol) */
	uint32_t line, column;        /* 0 = none */
	uint32_t first_inlined;       /* of the new frames, outermost first */
	uint32_t inlined_count;
	bool named;
};

/* New rows. */
struct saved_inlined {
	uint32_t frame; /* the row that it is like */
	uint32_t depth;
	uint32_t func, line, column;
};
struct saved_func {
	uint32_t name, source; /* source: SAVED_NONE = unknown */
	uint32_t resource;     /* SAVED_NONE = -1 */
};
struct saved_symbol {
	uint32_t lib, address, name, size; /* size 0 = unknown */
};

struct saved_profile {
	struct sp_file_map map;
	uint8_t *unpacked; /* owned; the text, when the file is compressed */
	const char *text;
	size_t size;

	struct sp_arena arena;
	uint64_t version;
	SP_VECTOR(struct spsym_identity) libs;
	struct saved_value shared; /* the object "shared" */
	struct saved_table stacks, frames, funcs, symbols, resources, sources;
	SP_VECTOR(struct saved_value) strings;
	struct sp_intern intern;            /* the strings decoded, and new ones */
	SP_VECTOR(uint32_t) string_numbers; /* of interned strings */
	size_t new_strings;

	SP_VECTOR(struct saved_frame) frame_changes; /* one a frame */
	SP_VECTOR(struct saved_inlined) inlined;
	SP_VECTOR(struct saved_func) new_funcs;
	struct sp_map func_by_key; /* hash (plus probes) -> func */
	SP_VECTOR(struct saved_symbol) new_symbols;
	struct sp_map symbol_by_key;     /* lib << 32 | address -> symbol */
	SP_VECTOR(uint32_t) new_sources; /* string numbers */
	struct sp_map source_by_name;    /* string number -> source */
	uint32_t *stack_map;             /* owned; stack -> its new number; NULL = all are as they were */
};

/* saved.c */
struct sp_error *saved_open(const char *path, struct saved_profile *ret);
void saved_deinit(struct saved_profile *profile);
/* The next value as text. */
bool saved_read_value(struct sp_json_reader *reader, struct saved_value *ret);
const struct saved_column *saved_column(const struct saved_table *table, const char *name);
/* A row of a column that holds numbers of rows of another table: SAVED_NONE for null, negative numbers, what is no
 * number or not below `limit`, and a column that is not there (NULL). */
uint32_t saved_index(const struct saved_column *column, size_t row, size_t limit);

/* saved_symbols.c: looks all frames up that have no names yet, and works out the new rows. */
struct sp_error *saved_symbolicate(struct saved_profile *profile, spsym_context *symbols, const struct sp_log *log);

/* saved_write.c: a sp_profile_text_fn; `context` is the struct saved_profile. */
struct sp_error *saved_write(void *context, sp_write_fn write, void *sink, struct sp_gzip *gzip);

#endif
