/* What the reader of Go's tables shares between its files. */
#ifndef SP_SYMBOLICATION_GO_INTERNAL_H
#define SP_SYMBOLICATION_GO_INTERNAL_H

#include "common/cursor.h"
#include "common/vector.h"
#include "symbolication/go/pclntab.h"

/* Versions of the table. */
enum sp_go_form { SP_GO_1_2, SP_GO_1_16, SP_GO_1_18, SP_GO_1_20 };

struct sp_go {
	struct sp_object *object;
	enum sp_go_form form;
	unsigned pointer; /* bytes: 4 or 8 */
	unsigned quantum; /* what steps of addresses are multiplied with: the smallest instruction */
	uint64_t address; /* svma of the table */

	/* Parts of the table; each goes on to the table's end. */
	struct sp_cursor entries;   /* of functions: (address, offset in `functions`), and the end of the last one */
	struct sp_cursor functions; /* their descriptions */
	struct sp_cursor names;
	struct sp_cursor steps; /* how lines, files and calls change along the code */
	struct sp_cursor files; /* names of files; 1.2: their offsets in `names` */
	struct sp_cursor units; /* from 1.16 on: offsets of a unit's names in `files` */
	uint64_t functions_address;
	uint64_t count; /* of functions */

	uint64_t text;       /* from 1.18 on: svma that addresses count from */
	uint64_t calls;      /* from 1.18 on: svma that lists of inlined calls count from; */
	bool has_calls;      /* it is known */
	uint64_t file_count; /* 1.2 */
};

/* A function's description. */
struct sp_go_function {
	uint64_t start, end; /* svmas */
	const char *name;    /* NULL = unknown */
	uint32_t file_steps, line_steps;
	uint32_t call_steps; /* 0 = nothing is inlined */
	uint32_t unit;
	uint64_t calls; /* svma of the list of inlined calls; 0 = none */
};

/* A call that was inlined. */
struct sp_go_call {
	const char *name;  /* of what was called; NULL = unknown */
	uint64_t position; /* svma of an instruction that has the call's own place */
};

/* A value along the code: up to `end`, from where the one before ended. */
struct sp_go_step {
	uint64_t end; /* svma */
	int32_t value;
};
typedef SP_VECTOR(struct sp_go_step) sp_go_steps;

/* find.c */
struct sp_error *sp_go_find(struct sp_object *object, struct sp_cursor *ret, uint64_t *ret_address);
/* Where the program's description of itself says that code and lists of inlined calls begin; false when it is not
 * found. */
bool sp_go_find_module(const struct sp_go *go, uint64_t names, uint64_t *ret_text, uint64_t *ret_calls);

/* pclntab.c */

/* Function `index`; false when it is not in the table, or nothing can be said of it. */
bool sp_go_function(const struct sp_go *go, uint64_t index, struct sp_go_function *ret);
/* The function at an svma: its index, or UINT64_MAX. */
uint64_t sp_go_function_at(const struct sp_go *go, uint64_t address);
/* Reads steps, at most *budget of them, which it counts down; false without memory. */
bool sp_go_read_steps(const struct sp_go *go, const struct sp_go_function *function, uint32_t at, uint64_t *budget,
                      sp_go_steps *ret);
/* Where a function's code ends, without the padding behind it. */
uint64_t sp_go_code_end(const struct sp_go *go, const struct sp_go_function *function, uint64_t *budget);
/* A file by the number that steps give; NULL = unknown. */
const char *sp_go_file(const struct sp_go *go, const struct sp_go_function *function, int32_t number);
/* Inlined call `number`; false when there is none. */
bool sp_go_call(const struct sp_go *go, const struct sp_go_function *function, int32_t number, struct sp_go_call *ret);
/* How many steps may be read for a whole table or a batch of addresses: more than an undamaged one has. */
uint64_t sp_go_budget(const struct sp_go *go);

#endif
