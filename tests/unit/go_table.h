/* Made Go programs with a table of functions and lines in each of its versions, for tests and the fuzz target. */
#ifndef GO_TABLE_H
#define GO_TABLE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* main.f is 0x30 bytes long: line 10 of a.go, from 0x10 to 0x20 main.g inlined (called at 8) and from 0x18 on in that
 * main.h (called at 0x14), in b.go, line 21; then line 12. main.last follows at 0x40. */

enum {
	TEXT = 0x400,
	TABLE = 0x800,
	MODULE = 0x1000,
	CALLS = 0x1800,
	HEADERS = 0x1c00,
	STRINGS = 0x1f00,
	SIZE = 0x2000
};
#define BASE UINT64_C(0x10000)

struct made {
	uint8_t bytes[SIZE];
	unsigned form; /* 2, 16, 18, 20 */
	unsigned pointer;
	bool big_endian;
	size_t at;
};

static void put(struct made *m, unsigned size, uint64_t value)
{
	for (unsigned i = 0; i < size && m->at < SIZE - size; i++)
		m->bytes[m->at + i] = (uint8_t)(value >> 8 * (m->big_endian ? size - 1 - i : i));
	m->at += size;
}

static void put_at(struct made *m, size_t at, unsigned size, uint64_t value)
{
	size_t back = m->at;
	m->at = at;
	put(m, size, value);
	m->at = back;
}

static size_t put_text(struct made *m, const char *text)
{
	size_t at = m->at;
	do
		put(m, 1, (uint8_t)*text);
	while (*text++);
	return at;
}

/* Pairs of value and end, ended by an end of 0. */
static size_t put_steps(struct made *m, const int (*steps)[2])
{
	size_t at = m->at;
	int value = -1, end = 0;
	for (; (*steps)[1]; steps++) {
		int change = (*steps)[0] - value;
		put(m, 1, (uint64_t)(change < 0 ? -2 * change - 1 : 2 * change));
		put(m, 1, (uint64_t)((*steps)[1] - end));
		value = (*steps)[0];
		end = (*steps)[1];
	}
	put(m, 1, 0);
	return at;
}

/* What a description needs; offsets as the form counts them. */
struct description {
	size_t start, name, files, lines, calls, list;
};

static void put_description(struct made *m, const struct description *d)
{
	bool newer = m->form >= 18;
	put(m, newer ? 4 : m->pointer, newer ? d->start : BASE + TEXT + d->start);
	put(m, 4, d->name);
	put(m, 4, 0);
	put(m, 4, 0);
	put(m, 4, 0);
	put(m, 4, d->files);
	put(m, 4, d->lines);
	put(m, 4, d->calls ? 3 : 0);
	if (m->form >= 16)
		put(m, 4, 0); /* unit */
	if (m->form >= 20)
		put(m, 4, 9); /* first line */
	put(m, 3, 0);
	put(m, 1, d->calls ? 4 : 0);
	if (!d->calls)
		return;
	put(m, 4, 0);
	put(m, 4, 0);
	put(m, 4, d->calls);
	while (!newer && (m->at & (m->pointer - 1)))
		put(m, 1, 0);
	for (int i = 0; i < 3; i++)
		put(m, newer ? 4 : m->pointer, newer ? UINT32_MAX : 0);
	put(m, newer ? 4 : m->pointer, newer ? 0 : BASE + CALLS);
}

static void put_call(struct made *m, size_t name, size_t position)
{
	if (m->form >= 20) {
		put(m, 4, 0);
		put(m, 4, name);
		put(m, 4, position);
		put(m, 4, 1);
		return;
	}
	put(m, 4, 0);
	put(m, 4, 1);
	put(m, 4, 1);
	put(m, 4, name);
	put(m, 4, position);
}

static void make_table(struct made *m)
{
	static const uint32_t magics[] = { [2] = 0xfffffffb, [16] = 0xfffffffa, [18] = 0xfffffff0, [20] = 0xfffffff1 };
	/* files are numbered from 1 in the first form, from 0 in the others */
	int a = m->form == 2, b = a + 1;
	const int f_files[][2] = { { a, 0x10 }, { b, 0x20 }, { a, 0x30 }, { 0, 0 } };
	const int f_lines[][2] = { { 10, 0x10 }, { 21, 0x20 }, { 12, 0x30 }, { 0, 0 } };
	const int f_calls[][2] = { { -1, 0x10 }, { 0, 0x18 }, { 1, 0x20 }, { -1, 0x30 }, { 0, 0 } };
	const int l_files[][2] = { { b, 0x18 }, { 0, 0 } }, l_lines[][2] = { { 49, 0x18 }, { 0, 0 } };
	unsigned p = m->pointer, entry = m->form >= 18 ? 4 : p;
	m->at = TABLE;
	put(m, 4, magics[m->form]);
	put(m, 2, 0);
	put(m, 1, 1);
	put(m, 1, p);
	put(m, p, 2);
	size_t header = m->at, names = TABLE, units = 0, files = TABLE, steps = TABLE, functions = TABLE;
	m->at = TABLE + 0x100;
	if (m->form > 2) {
		names = m->at;
		put(m, 1, 0); /* the first name is empty */
	}
	size_t f = put_text(m, "main.f") - names, g = put_text(m, "main.g") - names, h = put_text(m, "main.h") - names,
	       last = put_text(m, "main.last") - names;
	if (m->form > 2)
		files = m->at;
	size_t a_go = put_text(m, "/src/a.go") - files, b_go = put_text(m, "/src/b.go") - files;
	m->at = (m->at + 7) & ~(size_t)7;
	units = m->at;
	if (m->form == 2)
		put(m, 4, 3);
	put(m, 4, a_go);
	put(m, 4, b_go);
	if (m->form > 2)
		steps = m->at;
	put(m, 1, 0);
	struct description df = {
		0, f, put_steps(m, f_files) - steps, put_steps(m, f_lines) - steps, put_steps(m, f_calls) - steps, 0
	};
	struct description dl = { 0x40, last, put_steps(m, l_files) - steps, put_steps(m, l_lines) - steps, 0, 0 };
	m->at = (m->at + 15) & ~(size_t)15;
	if (m->form > 2)
		functions = m->at;
	size_t entries = m->form > 2 ? m->at : header;
	size_t at_f = entries + 5 * p + 16, at_l = at_f + 0xc0;
	if (m->form == 2)
		at_f = TABLE + 0x300, at_l = at_f + 0xc0;
	m->at = entries;
	uint64_t text = m->form >= 18 ? 0 : BASE + TEXT;
	put(m, entry, text);
	put(m, entry, at_f - functions);
	put(m, entry, text + 0x40);
	put(m, entry, at_l - functions);
	put(m, entry, text + 0x60);
	if (m->form == 2)
		put(m, 4, units - TABLE);
	m->at = at_f;
	put_description(m, &df);
	m->at = at_l;
	put_description(m, &dl);
	m->at = header;
	if (m->form > 2) {
		put(m, p, 2);
		if (m->form >= 18)
			put(m, p,
			    m->form == 18 ? BASE + TEXT : 0); /* newer ones have it in the module's description only */
		put(m, p, names - TABLE);
		put(m, p, units - TABLE);
		put(m, p, files - TABLE);
		put(m, p, steps - TABLE);
		put(m, p, functions - TABLE);
	}
	m->at = CALLS;
	put_call(m, g, 8);
	put_call(m, h, 0x14);
	put_at(m, MODULE + 0 * p, p, BASE + TABLE);
	put_at(m, MODULE + 1 * p, p, BASE + names);
	put_at(m, MODULE + 22 * p, p, BASE + TEXT);
	put_at(m, MODULE + (m->form >= 20 ? 40 : 38) * p, p, BASE + CALLS);
}

static void put_section(struct made *m, size_t name, unsigned type, unsigned flags, size_t at, size_t size)
{
	unsigned p = m->pointer;
	put(m, 4, name);
	put(m, 4, type);
	put(m, p, flags);
	put(m, p, flags ? BASE + at : 0);
	put(m, p, at);
	put(m, p, size);
	put(m, 4, 0);
	put(m, 4, 0);
	put(m, p, 1);
	put(m, p, 0);
}

static void make_file(struct made *m, const char *table_name)
{
	unsigned p = m->pointer;
	memcpy(m->bytes, ELFMAG, SELFMAG);
	m->bytes[EI_CLASS] = p == 8 ? ELFCLASS64 : ELFCLASS32;
	m->bytes[EI_DATA] = m->big_endian ? ELFDATA2MSB : ELFDATA2LSB;
	m->bytes[EI_VERSION] = EV_CURRENT;
	m->at = EI_NIDENT;
	put(m, 2, ET_EXEC);
	put(m, 2, p == 8 ? EM_X86_64 : EM_386);
	put(m, 4, EV_CURRENT);
	put(m, p, BASE + TEXT);
	put(m, p, 0x40 + 8);
	put(m, p, HEADERS);
	put(m, 4, 0);
	put(m, 2, 0x40);
	put(m, 2, p == 8 ? 56 : 32);
	put(m, 2, 1);
	put(m, 2, p == 8 ? 64 : 40);
	put(m, 2, 6);
	put(m, 2, 5);
	m->at = 0x48;
	put(m, 4, PT_LOAD);
	if (p == 8)
		put(m, 4, PF_R | PF_X);
	put(m, p, 0);
	put(m, p, BASE);
	put(m, p, BASE);
	put(m, p, SIZE);
	put(m, p, SIZE);
	if (p == 4)
		put(m, 4, PF_R | PF_X);
	put(m, p, 0x1000);
	m->at = STRINGS;
	put(m, 1, 0);
	size_t text = put_text(m, ".text") - STRINGS, table = put_text(m, table_name) - STRINGS,
	       module = put_text(m, ".noptrdata") - STRINGS, info = put_text(m, ".go.buildinfo") - STRINGS,
	       names = put_text(m, ".shstrtab") - STRINGS;
	m->at = HEADERS;
	put_section(m, 0, 0, 0, 0, 0);
	put_section(m, text, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT, 0x60);
	put_section(m, table, SHT_PROGBITS, SHF_ALLOC, TABLE, MODULE - TABLE);
	put_section(m, module, SHT_PROGBITS, SHF_ALLOC, MODULE, CALLS - MODULE);
	put_section(m, info, SHT_PROGBITS, SHF_ALLOC, CALLS, 0x40);
	put_section(m, names, SHT_STRTAB, 0, STRINGS, SIZE - STRINGS);
	make_table(m);
}

static inline void make(struct made *m, unsigned form, unsigned pointer, bool big_endian, const char *table_name)
{
	*m = (struct made){ .form = form, .pointer = pointer, .big_endian = big_endian };
	make_file(m, table_name);
}

static const unsigned forms[] = { 2, 16, 18, 20 };

#endif
