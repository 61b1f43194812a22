/* The flat index of a module: address -> chain of functions and places, and the symbol table, in one block of bytes
 * that has no pointers, so that it can be saved and mapped (cache.h). Internal to symbolication/. builder.h makes one.
 *
 * Segments of addresses are sorted; each leads to a node (the innermost function or call there, with its parent, its
 * name, and the place of the call) and to a place in the source. format.h has the layout.
 *
 * An index from a file is not trusted: its table of contents is checked when it is opened, every number that leads
 * somewhere when it is used, and each 64 KiB of it against a checksum before they are first used. What does not fit is
 * SP_INDEX_DAMAGED. All functions are thread-safe. */
#ifndef SP_SYMBOLICATION_INDEX_INDEX_H
#define SP_SYMBOLICATION_INDEX_INDEX_H

#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "symbolication/index/builder.h"

struct sp_index;

#define SP_INDEX_MAX_FRAMES 1100 /* of one address; no format has more levels */
#define SP_INDEX_DAMAGED SIZE_MAX

/* Opens an index. The bytes are borrowed, or owned by the index (buffer of malloc(), mapping), also when this fails. */
struct sp_error *sp_index_open_bytes(const void *bytes, size_t size, struct sp_index **ret);
struct sp_error *sp_index_open_owned(void *bytes, size_t size, struct sp_index **ret);
struct sp_error *sp_index_open_map(struct sp_file_map *map, struct sp_index **ret);
void sp_index_destroy(struct sp_index *index);

const void *sp_index_bytes(const struct sp_index *index, size_t *ret_size);
/* What it was made of. */
const char *sp_index_key(const struct sp_index *index);
/* Bytes of memory, without those of a mapping. */
size_t sp_index_memory(const struct sp_index *index);
uint32_t sp_index_name_count(const struct sp_index *index); /* names are 1 ... count */
uint32_t sp_index_file_count(const struct sp_index *index);

/* Checks all that is not a string now, which makes many look-ups faster than checking what each of them reads. What is
 * damaged is found by the look-ups that read it, as ever. */
void sp_index_check_tables(struct sp_index *index);

struct sp_index_frame {
	uint32_t name; /* 0 = unknown */
	struct sp_index_place place;
};

/* Where the search for the next address of a sorted batch begins. Zeroed at first. */
struct sp_index_hint {
	uint32_t page, segment;
};

/* Gives the frames at a relative address, the innermost first, and their number. `frames` has room for
 * SP_INDEX_MAX_FRAMES. `hint` may be of any address, but makes the search short for a slightly higher one. */
size_t sp_index_frames(struct sp_index *index, uint64_t address, struct sp_index_hint *hint,
                       struct sp_index_frame *frames);

/* The same in two steps, for several addresses side by side: what all of them need of memory is on its way when the
 * second step begins. */
struct sp_index_spot {
	uint32_t node, place; /* 0 = none */
	bool damaged;
};
void sp_index_spots(struct sp_index *index, const uint64_t *addresses, size_t count, struct sp_index_hint *hint,
                    struct sp_index_spot *ret);
size_t sp_index_frames_at(struct sp_index *index, const struct sp_index_spot *spot, struct sp_index_frame *frames);

/* A string at work: the unpacked block that it is in. Zeroed at first. */
struct sp_index_text {
	struct sp_buffer block;
	uint64_t number; /* of the block, + 1 */
};
void sp_index_text_deinit(struct sp_index_text *text);

/* A name or file. It is in `text`, until the next call. False when it is not there: damaged, or without memory. */
bool sp_index_name(struct sp_index *index, uint32_t name, struct sp_index_text *text, const char **ret,
                   enum sp_index_name_kind *ret_kind);
bool sp_index_file(struct sp_index *index, uint32_t file, struct sp_index_text *text, const char **ret);

/* The symbol table, as symbol_table.h has it: symbols, and their borders. */
struct sp_index_symbol {
	uint64_t start, size;
	uint32_t name;
	uint32_t unused;
};
uint32_t sp_index_symbol_count(const struct sp_index *index);
/* NULL when it is damaged. */
const struct sp_index_symbol *sp_index_symbol(struct sp_index *index, uint32_t number);
/* The symbol that covers an address, or NULL. *hint as above, a number. */
const struct sp_index_symbol *sp_index_symbol_at(struct sp_index *index, uint64_t address, uint32_t *hint,
                                                 bool *ret_damaged);

#endif
