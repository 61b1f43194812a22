/* A writer of small PDBs, for what compilers and linkers at hand do not make: streams of any content, in pages of any
 * size that lie in disorder. Layouts are those of Microsoft's open-sourced microsoft-pdb; fields that readers ignore
 * are 0. */
#ifndef PDB_BUILDER_H
#define PDB_BUILDER_H

#include "fixture_support.h"

struct blob {
	uint8_t *bytes; /* owned */
	size_t size, capacity;
};

static void add(struct blob *b, const void *bytes, size_t size)
{
	if (b->size + size > b->capacity) {
		b->capacity = (b->size + size) * 2;
		b->bytes = realloc(b->bytes, b->capacity);
		assert_non_null(b->bytes);
	}
	if (size)
		memcpy(b->bytes + b->size, bytes, size);
	b->size += size;
}
static void add8(struct blob *b, unsigned value)
{
	add(b, (uint8_t[]){ (uint8_t)value }, 1);
}
static void add16(struct blob *b, unsigned value)
{
	add8(b, value & 0xff);
	add8(b, value >> 8);
}
static void add32(struct blob *b, uint32_t value)
{
	add16(b, value & 0xffff);
	add16(b, value >> 16);
}
static void add_zeros(struct blob *b, size_t count)
{
	while (count--)
		add8(b, 0);
}
static void add_string(struct blob *b, const char *text)
{
	add(b, text, strlen(text) + 1);
}
static void add_align(struct blob *b)
{
	add_zeros(b, -b->size & 3);
}
static void set16(struct blob *b, size_t at, unsigned value)
{
	b->bytes[at] = (uint8_t)value;
	b->bytes[at + 1] = (uint8_t)(value >> 8);
}
static void set32(struct blob *b, size_t at, uint32_t value)
{
	set16(b, at, value & 0xffff);
	set16(b, at + 2, value >> 16);
}

/* Records of symbols and types: a length, a kind, a body padded to four bytes. */
static size_t begin_record(struct blob *b, unsigned kind)
{
	add16(b, 0);
	add16(b, kind);
	return b->size - 4;
}
static void end_record(struct blob *b, size_t at)
{
	add_align(b);
	set16(b, at, (unsigned)(b->size - at - 2));
}

/* Subsections of C13 debug information: a kind, a length, a body padded to four bytes. */
static size_t begin_part(struct blob *b, uint32_t kind)
{
	add32(b, kind);
	add32(b, 0);
	return b->size;
}
static void end_part(struct blob *b, size_t at)
{
	set32(b, at - 4, (uint32_t)(b->size - at));
	add_align(b);
}

enum { MADE_STREAMS = 24, NONE = 0xffff };

/* A page for the next bytes: the second and third of each interval of that many are the maps of free pages. */
static uint32_t take_page(uint32_t *next, uint32_t page_size)
{
	while (*next % page_size == 1 || *next % page_size == 2)
		++*next;
	return (*next)++;
}

static void put_page(struct blob *file, uint32_t page, uint32_t page_size, const uint8_t *bytes, size_t size)
{
	size_t at = (size_t)page * page_size;
	if (file->size < at + page_size)
		add_zeros(file, at + page_size - file->size);
	memcpy(file->bytes + at, bytes, size < page_size ? size : page_size);
}

/* Puts streams into a file. Their pages alternate, and every second one of a stream lies before the first: no two that
 * follow each other in a stream do so in the file. */
static void write_msf(const struct blob *streams, unsigned count, uint32_t page_size, struct blob *file)
{
	struct blob directory = { 0 }, list = { 0 };
	uint32_t next = 3, *pages[MADE_STREAMS];
	size_t left = 0, counts[MADE_STREAMS];
	add32(&directory, count);
	for (unsigned i = 0; i < count; i++) {
		counts[i] = (streams[i].size + page_size - 1) / page_size;
		pages[i] = calloc(counts[i] + 1, sizeof(*pages[i]));
		left += counts[i];
		add32(&directory, (uint32_t)streams[i].size);
	}
	for (size_t round = 0; left; round++) {
		for (unsigned i = 0; i < count; i++) {
			size_t number = round ^ 1; /* 1, 0, 3, 2, ... */
			if (round >= counts[i])
				continue;
			if (number == counts[i])
				number = round; /* the last of an odd number */
			pages[i][number] = take_page(&next, page_size);
			put_page(file, pages[i][number], page_size, streams[i].bytes + number * page_size,
			         streams[i].size - number * page_size);
			left--;
		}
	}
	for (unsigned i = 0; i < count; i++) {
		for (size_t k = 0; k < counts[i]; k++)
			add32(&directory, pages[i][k]);
		free(pages[i]);
	}
	for (size_t at = 0; at < directory.size; at += page_size) {
		uint32_t page = take_page(&next, page_size);
		put_page(file, page, page_size, directory.bytes + at, directory.size - at);
		add32(&list, page);
	}
	assert_true(list.size <= page_size);
	uint32_t list_page = take_page(&next, page_size);
	put_page(file, list_page, page_size, list.bytes, list.size);
	memcpy(file->bytes,
	       "Microsoft C/C++ MSF 7.00\r\n\x1a"
	       "DS\0\0\0",
	       32);
	set32(file, 32, page_size);
	set32(file, 36, 1);
	set32(file, 40, (uint32_t)(file->size / page_size));
	set32(file, 44, (uint32_t)directory.size);
	set32(file, 48, 0);
	set32(file, 52, list_page);
	free(directory.bytes);
	free(list.bytes);
}

/* Streams of a PDB by their numbers here. */
enum {
	OLD_DIRECTORY,
	INFO,
	TPI,
	DBI,
	IPI,
	GLOBALS,
	PUBLICS,
	SYMBOLS,
	STRINGS, /* "/names" */
	HEADERS, /* of sections */
	ORIGINAL_HEADERS,
	TO_SOURCE,
	FROM_SOURCE,
	FIRST_MODULE,
};

/* The streams that hold a whole image together; what is in modules is made by the caller. */
struct made_pdb {
	struct blob streams[MADE_STREAMS];
	unsigned stream_count;
	struct blob modules;       /* the list in the DBI stream */
	struct blob contributions; /* without the version in front */
	struct blob public_order;  /* offsets of public symbols, in the order of their places */
	uint32_t type_count, id_count;
	unsigned module_count;
	bool omap, fastlink;
};

/* Adds a type record that `begin_record` began; gives its index. */
static uint32_t end_type(struct made_pdb *pdb, size_t at)
{
	end_record(&pdb->streams[TPI], at);
	return 0x1000 + pdb->type_count++;
}

static void add_section(struct blob *headers, const char *name, uint32_t address, uint32_t size, uint32_t flags)
{
	char padded[8] = { 0 };
	memcpy(padded, name, strlen(name));
	add(headers, padded, 8);
	add32(headers, size);
	add32(headers, address);
	add32(headers, size);
	add32(headers, address);
	add_zeros(headers, 12);
	add32(headers, flags);
}

/* Lists a module and its stream, whose symbols take `symbols` bytes and whose lines the rest. */
static void add_module(struct made_pdb *pdb, const char *name, unsigned stream, size_t symbols, size_t c11, size_t c13)
{
	struct blob *m = &pdb->modules;
	pdb->module_count++;
	add_zeros(m, 34);
	add16(m, stream);
	add32(m, (uint32_t)symbols);
	add32(m, (uint32_t)c11);
	add32(m, (uint32_t)c13);
	add_zeros(m, 16);
	add_string(m, name);
	add_string(m, name);
	add_align(m);
}

static void add_contribution(struct made_pdb *pdb, unsigned section, uint32_t offset, uint32_t size, unsigned module)
{
	struct blob *c = &pdb->contributions;
	add16(c, section);
	add16(c, 0);
	add32(c, offset);
	add32(c, size);
	add32(c, 0x60000020);
	add16(c, module);
	add_zeros(c, 10);
}

/* Public symbols are given in the order of their places. */
static void add_public(struct made_pdb *pdb, const char *name, unsigned section, uint32_t offset)
{
	struct blob *s = &pdb->streams[SYMBOLS];
	add32(&pdb->public_order, (uint32_t)s->size);
	size_t at = begin_record(s, 0x110e);
	add32(s, 2); /* a function */
	add32(s, offset);
	add16(s, section);
	add_string(s, name);
	end_record(s, at);
}

static void finish_info(struct made_pdb *pdb)
{
	struct blob *b = &pdb->streams[INFO];
	add32(b, 20000404);
	add32(b, 0);
	add32(b, 7); /* the age here is not the one that counts */
	for (unsigned i = 0; i < 16; i++)
		add8(b, i + 1);
	add32(b, 7);
	add_string(b, "/names");
	add32(b, 1); /* entries, slots, one word of which are used, none of which are deleted */
	add32(b, 1);
	add32(b, 1);
	add32(b, 1);
	add32(b, 0);
	add32(b, 0);
	add32(b, STRINGS);
	add32(b, 0);
	add32(b, 20140508); /* there is an IPI stream */
	if (pdb->fastlink)
		add32(b, 0x494d544d);
}

/* Puts a header before the records of a stream of types. */
static void finish_types(struct blob *b, uint32_t count)
{
	struct blob whole = { 0 };
	add32(&whole, 20040203);
	add32(&whole, 56);
	add32(&whole, 0x1000);
	add32(&whole, 0x1000 + count);
	add32(&whole, (uint32_t)b->size);
	add16(&whole, NONE);
	add16(&whole, NONE);
	add32(&whole, 4);
	add32(&whole, 0x3ffff);
	add_zeros(&whole, 24);
	add(&whole, b->bytes, b->size);
	free(b->bytes);
	*b = whole;
}

static void finish_publics(struct made_pdb *pdb)
{
	struct blob *b = &pdb->streams[PUBLICS];
	add32(b, 0); /* no hash table */
	add32(b, (uint32_t)pdb->public_order.size);
	add_zeros(b, 20);
	add(b, pdb->public_order.bytes, pdb->public_order.size);
}

static void finish_dbi(struct made_pdb *pdb)
{
	struct blob *b = &pdb->streams[DBI];
	add32(b, UINT32_MAX);
	add32(b, 19990903);
	add32(b, 2); /* the age */
	add16(b, GLOBALS);
	add16(b, 0x8e00);
	add16(b, PUBLICS);
	add16(b, 0);
	add16(b, SYMBOLS);
	add16(b, 0);
	add32(b, (uint32_t)pdb->modules.size);
	add32(b, (uint32_t)pdb->contributions.size + 4);
	add32(b, 0);
	add32(b, 4 + 4 * pdb->module_count); /* source files of modules: none */
	add_zeros(b, 8);
	add32(b, 22); /* the debug header, then no names of edit and continue */
	add32(b, 0);
	add16(b, 0);
	add16(b, 0x8664);
	add32(b, 0);
	add(b, pdb->modules.bytes, pdb->modules.size);
	add32(b, 0xf12eba2d);
	add(b, pdb->contributions.bytes, pdb->contributions.size);
	add16(b, pdb->module_count);
	add16(b, 0);
	add_zeros(b, (size_t)4 * pdb->module_count);
	for (unsigned i = 0; i < 11; i++)
		add16(b, i == 3 && pdb->omap    ? TO_SOURCE
		         : i == 4 && pdb->omap  ? FROM_SOURCE
		         : i == 5               ? HEADERS
		         : i == 10 && pdb->omap ? ORIGINAL_HEADERS
		                                : NONE);
}

/* Ends the streams and writes the file; everything that was made for it is freed. */
static void finish_pdb(struct made_pdb *pdb, uint32_t page_size, struct blob *file)
{
	finish_info(pdb);
	finish_types(&pdb->streams[TPI], pdb->type_count);
	finish_types(&pdb->streams[IPI], pdb->id_count);
	finish_publics(pdb);
	finish_dbi(pdb);
	write_msf(pdb->streams, pdb->stream_count, page_size, file);
	for (unsigned i = 0; i < MADE_STREAMS; i++)
		free(pdb->streams[i].bytes);
	free(pdb->modules.bytes);
	free(pdb->contributions.bytes);
	free(pdb->public_order.bytes);
}

#endif
