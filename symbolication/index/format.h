/* The bytes of an index; shared by the files of this folder only.
 *
 * Header, checksums of the body's chunks, key; then the body: sections, each aligned to 8 bytes and followed by at
 * least 8 more, so that numbers of 3 bytes can be read as 4. Numbers are in the machine's byte order: an index is a
 * cache, another machine makes its own. Node, place, name, file and symbol numbers count from 1; 0 is "none". */
#ifndef SP_SYMBOLICATION_INDEX_FORMAT_H
#define SP_SYMBOLICATION_INDEX_FORMAT_H

#include "symbolication/index/index.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SP_INDEX_MAGIC "sp-index"
#define SP_INDEX_VERSION 1u /* of the format and of what the engines put in; a file of another one is made anew */
#define SP_INDEX_ORDER 0x01020304u

#define SP_INDEX_PAGE_BITS 16         /* a segment's address within its page */
#define SP_INDEX_CHUNK_BITS 16        /* bytes with one checksum */
#define SP_INDEX_STRINGS_PER_BLOCK 64 /* packed together */
#define SP_INDEX_MAX_STRING ((size_t)256 << 10)
#define SP_INDEX_MAX_BLOCK (SP_INDEX_STRINGS_PER_BLOCK * (SP_INDEX_MAX_STRING + 2))
#define SP_INDEX_PADDING 8

enum sp_index_section {
	SP_INDEX_PAGES,        /* struct sp_index_page, ascending, and one behind the last */
	SP_INDEX_LOWS,         /* uint16_t: a segment's address within its page */
	SP_INDEX_SEGMENT_NODE, /* `width` bytes: the innermost node; with place 0: nothing is known here */
	SP_INDEX_SEGMENT_PLACE,
	SP_INDEX_NODES,        /* 3 * `width` bytes: name, parent (a lower node), place of the call */
	SP_INDEX_PLACES,       /* struct sp_index_place */
	SP_INDEX_NAME_OFFSETS, /* uint64_t: where blocks begin in the next section, and the end of the last */
	SP_INDEX_NAME_BLOCKS,  /* zstd; of each string its kind + 1 as a byte, then the string and a NUL */
	SP_INDEX_FILE_OFFSETS,
	SP_INDEX_FILE_BLOCKS,
	SP_INDEX_SYMBOLS, /* struct sp_index_symbol */
	SP_INDEX_BORDERS, /* uint64_t, ascending: from here on, up to the next one, ... */
	SP_INDEX_OWNERS,  /* ... uint32_t: this symbol has the address */
	SP_INDEX_SECTIONS
};

struct sp_index_page {
	uint32_t page;  /* address >> SP_INDEX_PAGE_BITS */
	uint32_t first; /* segment */
};

struct sp_index_extent {
	uint64_t offset, size; /* in the file */
};

struct sp_index_header {
	char magic[8];
	uint32_t version;
	uint32_t order;
	uint64_t size;     /* of the file */
	uint64_t checksum; /* of all bytes before the body, with 0 in this place */
	uint64_t body;     /* where it begins */
	uint32_t width;    /* of numbers: 3 or 4 */
	uint32_t key_size; /* with its NUL */
	uint32_t pages, segments, nodes, places, names, files, symbols, borders;
	struct sp_index_extent sections[SP_INDEX_SECTIONS];
};

/* Where the key is: behind the checksums of the body's chunks. */
static inline uint64_t sp_index_key_offset(const struct sp_index_header *h)
{
	uint64_t chunks = (h->size - h->body + (1u << SP_INDEX_CHUNK_BITS) - 1) >> SP_INDEX_CHUNK_BITS;
	return sizeof(*h) + chunks * sizeof(uint64_t);
}

/* The sizes of the sections by what the header counts; those of packed strings are given. */
static inline void sp_index_section_sizes(const struct sp_index_header *h, uint64_t name_bytes, uint64_t file_bytes,
                                          uint64_t ret[SP_INDEX_SECTIONS])
{
	uint64_t name_blocks = ((uint64_t)h->names + SP_INDEX_STRINGS_PER_BLOCK - 1) / SP_INDEX_STRINGS_PER_BLOCK;
	uint64_t file_blocks = ((uint64_t)h->files + SP_INDEX_STRINGS_PER_BLOCK - 1) / SP_INDEX_STRINGS_PER_BLOCK;
	ret[SP_INDEX_PAGES] = ((uint64_t)h->pages + 1) * sizeof(struct sp_index_page);
	ret[SP_INDEX_LOWS] = (uint64_t)h->segments * 2;
	ret[SP_INDEX_SEGMENT_NODE] = (uint64_t)h->segments * h->width;
	ret[SP_INDEX_SEGMENT_PLACE] = (uint64_t)h->segments * h->width;
	ret[SP_INDEX_NODES] = (uint64_t)h->nodes * 3 * h->width;
	ret[SP_INDEX_PLACES] = (uint64_t)h->places * sizeof(struct sp_index_place);
	ret[SP_INDEX_NAME_OFFSETS] = (name_blocks + 1) * sizeof(uint64_t);
	ret[SP_INDEX_NAME_BLOCKS] = name_bytes;
	ret[SP_INDEX_FILE_OFFSETS] = (file_blocks + 1) * sizeof(uint64_t);
	ret[SP_INDEX_FILE_BLOCKS] = file_bytes;
	ret[SP_INDEX_SYMBOLS] = (uint64_t)h->symbols * sizeof(struct sp_index_symbol);
	ret[SP_INDEX_BORDERS] = (uint64_t)h->borders * sizeof(uint64_t);
	ret[SP_INDEX_OWNERS] = (uint64_t)h->borders * sizeof(uint32_t);
}

/* Reads a number of the given width. */
static inline uint32_t sp_index_number(const uint8_t *at, uint32_t width)
{
	uint32_t number;
	memcpy(&number, at, sizeof(number));
	return width == 3 ? number & 0xffffff : number;
}

/* A checksum, fast and not for enemies. */
uint64_t sp_index_checksum(const uint8_t *bytes, size_t size);

/* Writes the checksums of an index whose header fits the size; does nothing to another. */
void sp_index_fix_checksums(uint8_t *bytes, size_t size);

#endif
