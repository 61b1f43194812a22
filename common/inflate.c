/* The decoder of inflate.h. Codes are looked up in tables: the next bits lead to an entry that has the symbol and its
 * length; codes longer than the table's index go through a second table. As long as there is enough input and room for
 * output, a fast loop decodes without checking either for each symbol. */
#include "common/inflate.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CODE 15     /* bits of a code */
#define LITERAL_BITS 11 /* index of the first tables */
#define OFFSET_BITS 9
#define LENGTHS_BITS 7
#define MAX_LITERALS 288
#define MAX_OFFSETS 32
#define MAX_LENGTHS 19
#define LONGEST 258              /* match */
#define REPORT ((size_t)1 << 18) /* bytes between two reports */
#define FAST_IN 16               /* bytes of input that an iteration of the fast loop may look at */
#define FAST_OUT (LONGEST + 32)

/* An entry: bits 0-7 the code's length, 8-12 the number of extra bits (or of bits of the index in a second table),
 * 13-15 the kind, 16-31 the literal, the base of the length or offset, or where the second table begins. */
enum { LITERAL = 1 << 13, END = 2 << 13, SECOND = 3 << 13, BAD = 4 << 13, KIND = 7 << 13 };

struct decoder {
	const uint8_t *in, *in_end;
	uint64_t bits;
	unsigned bit_count; /* valid in `bits` */
	unsigned missing;   /* bytes behind the end that were read as 0 */
	uint8_t *out_start, *out, *out_end;
	/* Second tables add less than two entries a symbol, and one table a first index. */
	uint32_t literals[(1 << LITERAL_BITS) + (1 << MAX_CODE)];
	uint32_t offsets[(1 << OFFSET_BITS) + (1 << MAX_CODE)];
	uint32_t lengths[1 << LENGTHS_BITS];
};

/* ---- Input ---- */

static inline uint64_t load64(const uint8_t *at)
{
	uint64_t word;
	memcpy(&word, at, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	word = __builtin_bswap64(word);
#endif
	return word;
}

/* At least 56 bits; behind the end of the input come zeroes. */
static inline void refill(struct decoder *d)
{
	while (d->bit_count < 56) {
		if (d->in < d->in_end)
			d->bits |= (uint64_t)*d->in++ << d->bit_count;
		else
			d->missing++;
		d->bit_count += 8;
	}
}

static inline uint32_t take(struct decoder *d, unsigned count)
{
	uint32_t value = (uint32_t)(d->bits & (((uint64_t)1 << count) - 1));
	d->bits >>= count;
	d->bit_count -= count;
	return value;
}

/* More bits were used than the input has. */
static bool is_past_end(const struct decoder *d)
{
	return d->missing * 8 > d->bit_count;
}

/* ---- Tables ---- */

static unsigned reverse(unsigned code, unsigned length)
{
	unsigned reversed = 0;
	for (; length; length--, code >>= 1)
		reversed = reversed << 1 | (code & 1);
	return reversed;
}

/* The codes of symbols, by length and then by symbol: counts[length] and firsts[length]. False when there are more
 * codes than fit, or fewer than all (which only a single code of one bit, or none at all, may be). */
static bool count_codes(const uint8_t *lengths, unsigned count, unsigned *counts, unsigned *firsts)
{
	unsigned used = 0, left = 1, code = 0;
	memset(counts, 0, (MAX_CODE + 1) * sizeof(*counts));
	for (unsigned i = 0; i < count; i++)
		counts[lengths[i]]++;
	used = count - counts[0];
	counts[0] = 0;
	for (unsigned length = 1; length <= MAX_CODE; length++) {
		code = (code + counts[length - 1]) << 1;
		firsts[length] = code;
		left <<= 1;
		if (counts[length] > left)
			return false;
		left -= counts[length];
	}
	return !left || !used || (used == 1 && counts[1] == 1);
}

/* Fills in a table with an index of `bits`; entries[symbol] without their code's length. */
static bool make_table(const uint8_t *lengths, const uint32_t *entries, unsigned count, unsigned bits, uint32_t *table)
{
	unsigned counts[MAX_CODE + 1], codes[MAX_CODE + 1], longest[1 << LITERAL_BITS];
	unsigned size = 1u << bits, next = size;
	if (!count_codes(lengths, count, counts, codes))
		return false;
	for (unsigned i = 0; i < size; i++)
		table[i] = BAD | 1;
	/* How large the second tables must be. */
	unsigned start[MAX_CODE + 1];
	memcpy(start, codes, sizeof(start));
	bool second = false;
	for (unsigned length = bits + 1; length <= MAX_CODE; length++)
		second |= counts[length] > 0;
	if (second) {
		memset(longest, 0, size * sizeof(*longest));
		for (unsigned symbol = 0; symbol < count; symbol++) {
			unsigned length = lengths[symbol];
			if (!length)
				continue;
			unsigned code = reverse(start[length]++, length);
			if (length > bits && length > longest[code & (size - 1)])
				longest[code & (size - 1)] = length;
		}
		for (unsigned i = 0; i < size; i++) {
			if (!longest[i])
				continue;
			unsigned more = longest[i] - bits;
			table[i] = next << 16 | more << 8 | SECOND | bits;
			for (unsigned k = 0; k < 1u << more; k++)
				table[next + k] = BAD | 1;
			next += 1u << more;
		}
	}
	for (unsigned symbol = 0; symbol < count; symbol++) {
		unsigned length = lengths[symbol];
		if (!length)
			continue;
		unsigned code = reverse(codes[length]++, length);
		if (length <= bits) {
			for (unsigned i = code; i < size; i += 1u << length)
				table[i] = entries[symbol] | length;
			continue;
		}
		uint32_t first = table[code & (size - 1)];
		unsigned more = first >> 8 & 0x1f, at = first >> 16;
		for (unsigned i = code >> bits; i < 1u << more; i += 1u << (length - bits))
			table[at + i] = entries[symbol] | (length - bits);
	}
	return true;
}

static void fill_literal_entries(uint32_t *entries)
{
	static const uint16_t base[] = { 3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
		                         31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258 };
	static const uint8_t extra[] = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
		                         2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0 };
	for (uint32_t i = 0; i < 256; i++)
		entries[i] = i << 16 | LITERAL;
	entries[256] = END;
	for (uint32_t i = 257; i < MAX_LITERALS; i++)
		entries[i] = i < 286 ? (uint32_t)base[i - 257] << 16 | (uint32_t)extra[i - 257] << 8 : BAD;
}

static void fill_offset_entries(uint32_t *entries)
{
	for (uint32_t i = 0; i < MAX_OFFSETS; i++) {
		uint32_t extra = i < 2 ? 0 : i / 2 - 1, base = i < 2 ? i + 1 : ((2 + (i & 1)) << extra) + 1;
		entries[i] = i < 30 ? base << 16 | extra << 8 : BAD;
	}
}

static bool make_tables(struct decoder *d, const uint8_t *lengths, unsigned literals, unsigned offsets)
{
	uint32_t entries[MAX_LITERALS];
	fill_literal_entries(entries);
	if (!lengths[256] || !make_table(lengths, entries, literals, LITERAL_BITS, d->literals))
		return false;
	fill_offset_entries(entries);
	return make_table(lengths + literals, entries, offsets, OFFSET_BITS, d->offsets);
}

static bool fixed_tables(struct decoder *d)
{
	uint8_t lengths[MAX_LITERALS + MAX_OFFSETS];
	memset(lengths, 8, 144);
	memset(lengths + 144, 9, 112);
	memset(lengths + 256, 7, 24);
	memset(lengths + 280, 8, 8);
	memset(lengths + MAX_LITERALS, 5, MAX_OFFSETS);
	return make_tables(d, lengths, MAX_LITERALS, MAX_OFFSETS);
}

/* The code lengths of a block, which are coded themselves. */
static bool read_lengths(struct decoder *d, uint8_t *lengths, unsigned count)
{
	for (unsigned i = 0; i < count;) {
		refill(d);
		uint32_t entry = d->lengths[d->bits & ((1u << LENGTHS_BITS) - 1)];
		if ((entry & KIND) == BAD)
			return false;
		take(d, entry & 0xff);
		unsigned symbol = entry >> 16, repeat = 1, value = symbol;
		if (symbol >= 16) {
			repeat = symbol == 16 ? 3 + take(d, 2) : symbol == 17 ? 3 + take(d, 3) : 11 + take(d, 7);
			if (symbol == 16 && !i)
				return false;
			value = symbol == 16 ? lengths[i - 1] : 0;
		}
		if (repeat > count - i || is_past_end(d))
			return false;
		memset(lengths + i, (int)value, repeat);
		i += repeat;
	}
	return true;
}

static bool dynamic_tables(struct decoder *d)
{
	static const uint8_t order[] = { 16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15 };
	uint8_t lengths[MAX_LITERALS + MAX_OFFSETS] = { 0 };
	uint32_t entries[MAX_LENGTHS];
	refill(d);
	unsigned literals = 257 + take(d, 5), offsets = 1 + take(d, 5), count = 4 + take(d, 4);
	if (literals > 286)
		return false;
	for (unsigned i = 0; i < count; i++) {
		refill(d);
		lengths[order[i]] = (uint8_t)take(d, 3);
	}
	for (uint32_t i = 0; i < MAX_LENGTHS; i++)
		entries[i] = i << 16;
	if (!make_table(lengths, entries, MAX_LENGTHS, LENGTHS_BITS, d->lengths))
		return false;
	memset(lengths, 0, sizeof(lengths));
	return read_lengths(d, lengths, literals + offsets) && make_tables(d, lengths, literals, offsets);
}

/* ---- Blocks ---- */

/* Copies a match; up to 15 bytes behind it may be overwritten. */
static inline void copy_fast(uint8_t *out, unsigned offset, unsigned length)
{
	const uint8_t *from = out - offset;
	uint8_t *end = out + length;
	if (offset >= 16) {
		do {
			memcpy(out, from, 16);
			out += 16;
			from += 16;
		} while (out < end);
	} else if (offset >= 8) {
		do {
			memcpy(out, from, 8);
			out += 8;
			from += 8;
		} while (out < end);
	} else if (offset == 1) {
		memset(out, *from, length);
	} else {
		while (out < end)
			*out++ = *from++;
	}
}

#define TAKE(count)                   \
	do {                          \
		bits >>= (count);     \
		bit_count -= (count); \
	} while (0)
/* NOLINTBEGIN(bugprone-macro-parentheses): `entry` is declared here */
#define LOOK_UP(table, table_bits, entry)                                                             \
	uint32_t entry = (table)[bits & ((1u << (table_bits)) - 1)];                                  \
	if (__builtin_expect((entry & KIND) == SECOND, 0)) {                                          \
		TAKE(table_bits);                                                                     \
		entry = (table)[(entry >> 16) + (bits & (((uint64_t)1 << (entry >> 8 & 0x1f)) - 1))]; \
	}                                                                                             \
	TAKE(entry & 0xff)
/* NOLINTEND(bugprone-macro-parentheses) */

enum outcome { MORE, ENDED, CORRUPT };

/* Decodes while there is plenty of input and room, and until the next report is due. */
static enum outcome run_fast(struct decoder *d, const uint8_t *stop)
{
	const uint8_t *in = d->in, *const in_stop = d->in_end - FAST_IN;
	uint8_t *out = d->out;
	uint64_t bits = d->bits;
	unsigned bit_count = d->bit_count;
	enum outcome outcome = MORE;
	while (in < in_stop && out < stop) {
		/* The bits above bit_count are those of the next bytes, or 0: what is added is the same. */
		bits |= load64(in) << bit_count;
		in += (63 - bit_count) >> 3;
		bit_count |= 56;
		LOOK_UP(d->literals, LITERAL_BITS, entry);
		if (entry & LITERAL && (entry & KIND) == LITERAL) {
			*out++ = (uint8_t)(entry >> 16);
			LOOK_UP(d->literals, LITERAL_BITS, second);
			entry = second;
			if ((entry & KIND) == LITERAL) {
				*out++ = (uint8_t)(entry >> 16);
				continue;
			}
			bits |= load64(in) << bit_count;
			in += (63 - bit_count) >> 3;
			bit_count |= 56;
		}
		if (__builtin_expect(entry & KIND, 0)) {
			outcome = (entry & KIND) == END ? ENDED : CORRUPT;
			break;
		}
		unsigned extra = entry >> 8 & 0x1f;
		unsigned length = (entry >> 16) + (unsigned)(bits & ((1u << extra) - 1));
		TAKE(extra);
		LOOK_UP(d->offsets, OFFSET_BITS, far);
		extra = far >> 8 & 0x1f;
		unsigned offset = (far >> 16) + (unsigned)(bits & ((1u << extra) - 1));
		TAKE(extra);
		if (__builtin_expect(far & KIND || offset > (size_t)(out - d->out_start), 0)) {
			outcome = CORRUPT;
			break;
		}
		copy_fast(out, offset, length);
		out += length;
	}
	/* Bytes that are in `bits` beyond bit_count are read again. */
	d->in = in;
	d->out = out;
	d->bits = bits & (((uint64_t)1 << bit_count) - 1);
	d->bit_count = bit_count;
	return outcome;
}

/* Decodes one symbol with every check. */
static enum outcome run_slow(struct decoder *d)
{
	refill(d);
	uint64_t bits = d->bits;
	unsigned bit_count = d->bit_count;
	LOOK_UP(d->literals, LITERAL_BITS, entry);
	unsigned length = 0, offset = 0;
	bool bad = (entry & KIND) == BAD || (entry & KIND) == SECOND;
	if (!bad && !(entry & KIND)) {
		unsigned extra = entry >> 8 & 0x1f;
		length = (entry >> 16) + (unsigned)(bits & ((1u << extra) - 1));
		TAKE(extra);
		LOOK_UP(d->offsets, OFFSET_BITS, far);
		extra = far >> 8 & 0x1f;
		offset = (far >> 16) + (unsigned)(bits & ((1u << extra) - 1));
		TAKE(extra);
		bad = (far & KIND) || offset > (size_t)(d->out - d->out_start) ||
		      length > (size_t)(d->out_end - d->out);
	}
	d->bits = bits;
	d->bit_count = bit_count;
	if (bad || is_past_end(d))
		return CORRUPT;
	if ((entry & KIND) == END)
		return ENDED;
	if ((entry & KIND) == LITERAL) {
		if (d->out == d->out_end)
			return CORRUPT;
		*d->out++ = (uint8_t)(entry >> 16);
	}
	for (; length; length--, d->out++)
		*d->out = d->out[-(ptrdiff_t)offset];
	return MORE;
}

/* Gives whole bytes that were read ahead back to the input. */
static void align_input(struct decoder *d)
{
	take(d, d->bit_count & 7);
	while (d->bit_count) {
		take(d, 8);
		if (d->missing)
			d->missing--;
		else
			d->in--;
	}
}

static bool copy_stored(struct decoder *d)
{
	align_input(d);
	if (d->missing || d->in_end - d->in < 4)
		return false;
	unsigned length = d->in[0] | (unsigned)d->in[1] << 8, inverse = d->in[2] | (unsigned)d->in[3] << 8;
	d->in += 4;
	if ((length ^ inverse) != 0xffff || length > (size_t)(d->in_end - d->in) ||
	    length > (size_t)(d->out_end - d->out))
		return false;
	memcpy(d->out, d->in, length);
	d->in += length;
	d->out += length;
	return true;
}

/* ---- The whole ---- */

struct report {
	bool (*progress)(void *context, size_t done);
	void *context;
	uint8_t *summed; /* up to here the checksum is made */
	uint32_t checksum;
	bool stopped;
};

static bool tell(struct decoder *d, struct report *report)
{
	report->checksum = libdeflate_adler32(report->checksum, report->summed, (size_t)(d->out - report->summed));
	report->summed = d->out;
	report->stopped = !report->progress(report->context, (size_t)(d->out - d->out_start));
	return !report->stopped;
}

/* The symbols of a block; false when they are corrupt, or the decoder is stopped. */
static bool decode_block(struct decoder *d, struct report *report)
{
	enum outcome outcome = MORE;
	while (outcome == MORE) {
		size_t room = (size_t)(d->out_end - d->out);
		if (room > FAST_OUT && d->in_end - d->in > FAST_IN) {
			size_t most = room - FAST_OUT < REPORT ? room - FAST_OUT : REPORT;
			outcome = run_fast(d, d->out + most);
		} else {
			outcome = run_slow(d);
		}
		if ((size_t)(d->out - report->summed) >= REPORT && !tell(d, report))
			return false;
	}
	return outcome == ENDED;
}

static bool decode_blocks(struct decoder *d, struct report *report)
{
	bool last = false;
	while (!last) {
		refill(d);
		last = take(d, 1);
		unsigned type = take(d, 2);
		bool good = !is_past_end(d) && type < 3;
		if (good && type == 0)
			good = copy_stored(d);
		else if (good)
			good = (type == 1 ? fixed_tables(d) : dynamic_tables(d)) && decode_block(d, report);
		if (!good)
			return false;
	}
	return true;
}

static struct sp_error *decode(struct decoder *d, struct report *report)
{
	if (d->in_end - d->in < 6 || (d->in[0] & 0xf) != 8 || d->in[0] >> 4 > 7 || (d->in[0] << 8 | d->in[1]) % 31 ||
	    d->in[1] & 0x20)
		return sp_error_create(SP_ERROR_FORMAT, "corrupt compressed data: not a zlib stream");
	d->in += 2;
	bool good = decode_blocks(d, report);
	if (report->stopped)
		return sp_error_create(SP_ERROR_CANCELLED, "decompression was stopped");
	if (!good)
		return sp_error_create(SP_ERROR_FORMAT, "corrupt compressed data at offset 0x%zx",
		                       (size_t)(d->out - d->out_start));
	align_input(d);
	if (d->out != d->out_end)
		return sp_error_create(SP_ERROR_FORMAT, "decompressed data has %zu bytes, not %zu",
		                       (size_t)(d->out - d->out_start), (size_t)(d->out_end - d->out_start));
	if (!tell(d, report))
		return sp_error_create(SP_ERROR_CANCELLED, "decompression was stopped");
	if (d->missing || d->in_end - d->in < 4 || (uint32_t)d->in[0] << 24 != (report->checksum & 0xff000000) ||
	    ((uint32_t)d->in[1] << 16 | (uint32_t)d->in[2] << 8 | d->in[3]) != (report->checksum & 0xffffff))
		return sp_error_create(SP_ERROR_FORMAT, "corrupt compressed data: the checksum is another");
	return NULL;
}

struct sp_error *sp_inflate(const uint8_t *in, size_t in_size, uint8_t *out, size_t out_size,
                            bool (*progress)(void *context, size_t done), void *context)
{
	struct decoder *d = malloc(sizeof(*d));
	if (!d)
		return sp_error_no_memory();
	d->in = in;
	d->in_end = in + in_size;
	d->bits = 0;
	d->bit_count = 0;
	d->missing = 0;
	d->out_start = d->out = out;
	d->out_end = out + out_size;
	struct report report = { .progress = progress, .context = context, .summed = out, .checksum = 1 };
	struct sp_error *error = decode(d, &report);
	free(d);
	return error;
}
