/* Fuzzes the flat index: the making of one, and the reading of one that is damaged. The first byte of the input says
 * which:
 *
 *   even: the rest are calls of the builder, 8 bytes each; the index is made, and everything in it asked for
 *   odd: the rest are changes to the bytes of an index, 4 bytes each (where: 3 bytes, little-endian; the new byte);
 * with 2 set the checksums are made right again, so that what lies behind them is reached; with 4 set the file is cut
 * at the last change */
#include "symbolication/index/builder.h"
#include "symbolication/index/format.h"
#include "symbolication/index/index.h"
#include "symbolication/symbol_table.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SPAN 0x50000

static volatile uint64_t sink;

/* Asks for everything; false when something is damaged. */
static bool use(struct sp_index *index)
{
	static struct sp_index_frame frames[SP_INDEX_MAX_FRAMES];
	struct sp_index_hint hint = { 0 };
	struct sp_index_text text = { 0 };
	bool whole = true, damaged = false;
	uint32_t border = 0;
	for (uint64_t address = 0; address < SPAN; address += 0x333) {
		size_t count = sp_index_frames(index, address, &hint, frames);
		whole &= count != SP_INDEX_DAMAGED;
		for (size_t i = 0; count != SP_INDEX_DAMAGED && i < count; i++)
			if (frames[i].name > sp_index_name_count(index) ||
			    frames[i].place.file > sp_index_file_count(index))
				abort();
		const struct sp_index_symbol *symbol = sp_index_symbol_at(index, address, &border, &damaged);
		sink += symbol ? symbol->name : 0;
	}
	const char *string;
	enum sp_index_name_kind kind;
	for (uint32_t i = 0; i < sp_index_name_count(index) && i < 1000; i++)
		if (sp_index_name(index, i + 1, &text, &string, &kind))
			sink += strlen(string);
	for (uint32_t i = 0; i < sp_index_file_count(index) && i < 1000; i++)
		if (sp_index_file(index, i + 1, &text, &string))
			sink += strlen(string);
	for (uint32_t i = 0; i < sp_index_symbol_count(index) && i < 1000; i++)
		sink += sp_index_symbol(index, i + 1) != NULL;
	sink += strlen(sp_index_key(index));
	sp_index_text_deinit(&text);
	return whole && !damaged;
}

static uint32_t number(const uint8_t *at)
{
	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16;
}

static void call(struct sp_index_part *part, const uint8_t *c)
{
	char name[8];
	memcpy(name, c + 1, sizeof(name) - 1);
	struct sp_index_place place = { c[5] % 8, c[6], c[7] };
	uint64_t start = number(c + 2), end = start + (uint64_t)c[5] * c[6] * (c[0] & 0x80 ? 0x1000000 : 16);
	switch (c[0] % 7) {
	case 0:
		sp_index_part_node(part, c[1], c[2] % 8, &place);
		break;
	case 1:
		sp_index_part_name(part, c[7] % 3, name, c[7] % 8);
		break;
	case 2:
		sp_index_part_file(part, name, c[7] % 8);
		break;
	case 3:
	case 4:
		sp_index_part_range(part, c[1], start, end);
		break;
	case 5:
		sp_index_part_row(part, start, end, &place);
		break;
	default:
		sp_index_part_claim(part, start, end);
		break;
	}
}

static struct sp_index *make(const uint8_t *data, size_t size)
{
	struct sp_index_builder *builder;
	struct sp_index_part *part = NULL;
	struct sp_index *index = NULL;
	uint32_t order = 0;
	if (sp_index_builder_create(&builder))
		abort();
	struct sp_error *error = NULL;
	for (; size >= 8 && !error; data += 8, size -= 8) {
		if (!part && sp_index_part_create(builder, order++, &part))
			abort();
		call(part, data);
		if (data[0] % 16 == 15) {
			error = sp_index_part_finish(part);
			part = NULL;
		}
	}
	if (part && !error)
		error = sp_index_part_finish(part);
	struct sp_table_symbol symbols[] = { { 0, 100, "_ZN1a1bEv" }, { 0x200, 0x50, sp_symbol_no_name } };
	uint64_t borders[] = { 0, 100, 0x200, 0x250 };
	uint32_t owners[] = { 0, UINT32_MAX, 1, UINT32_MAX };
	struct sp_symbol_table table = { symbols, 2, borders, owners, 4 };
	if (!error)
		error = sp_index_builder_symbols(builder, &table);
	if (!error)
		error = sp_index_builder_finish(builder, "key", false, &index);
	if (error && error->code != SP_ERROR_LIMIT)
		abort();
	sp_error_destroy(error);
	sp_index_builder_destroy(builder);
	return index;
}

/* Calls that make a sound index. */
static struct sp_index *make_sound(void)
{
	static uint8_t calls[8 * 300];
	for (unsigned i = 0; i < sizeof(calls); i++)
		calls[i] = (uint8_t)((i * 2654435761u >> 13) & (i % 8 ? 0xff : 0x7f)); /* near each other */
	return make(calls, sizeof(calls));
}

static void damage(const uint8_t *data, size_t size)
{
	static struct sp_index *sound;
	static uint8_t *copy;
	size_t total, end;
	if (!sound)
		sound = make_sound();
	const void *bytes = sp_index_bytes(sound, &total);
	copy = copy ? copy : malloc(total);
	if (!copy)
		abort();
	memcpy(copy, bytes, total);
	end = total;
	for (size_t i = 1; i + 4 <= size; i += 4) {
		end = number(data + i) % total;
		copy[end] = data[i + 3];
	}
	end = data[0] & 4 ? end : total;
	if (data[0] & 2)
		sp_index_fix_checksums(copy, end);
	uint8_t *exact = malloc(end + !end); /* sanitizers see its end */
	struct sp_index *index;
	memcpy(exact, copy, end);
	struct sp_error *error = sp_index_open_owned(exact, end, &index);
	if (!error) {
		use(index);
		sp_index_destroy(index);
	}
	sp_error_destroy(error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (data[0] & 1) {
		damage(data, size);
		return 0;
	}
	struct sp_index *index = make(data + 1, size - 1);
	if (index && !use(index))
		abort();
	sp_index_destroy(index);
	return 0;
}
