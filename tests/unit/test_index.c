/* The flat index: what parts say is found again, where they overlap the right one wins, and damaged bytes are noticed.
 * The oracle is a list that is searched from end to end. */
#include "symbolication/index/builder.h"
#include "symbolication/index/format.h"
#include "symbolication/index/index.h"
#include "symbolication/symbol_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void ok(struct sp_error *error)
{
	if (error)
		fail_msg("%s", error->message);
}

static uint32_t name(struct sp_index_part *part, const char *text)
{
	return sp_index_part_name(part, SP_INDEX_LINKAGE, text, strlen(text));
}

static uint32_t file(struct sp_index_part *part, const char *path)
{
	return sp_index_part_file(part, path, strlen(path));
}

/* The frames at an address as "name file:line:column" lines. */
static const char *frames_at(struct sp_index *index, uint64_t address, char *text, size_t size)
{
	struct sp_index_frame frames[SP_INDEX_MAX_FRAMES];
	struct sp_index_hint hint = { 0 };
	struct sp_index_text string = { 0 };
	size_t count = sp_index_frames(index, address, &hint, frames), at = 0;
	text[0] = '\0';
	if (count == SP_INDEX_DAMAGED)
		return "damaged";
	for (size_t i = 0; i < count; i++) {
		const char *s = "?";
		enum sp_index_name_kind kind;
		if (frames[i].name)
			assert_true(sp_index_name(index, frames[i].name, &string, &s, &kind));
		at += (size_t)snprintf(text + at, size - at, "%s ", s);
		s = "?";
		if (frames[i].place.file)
			assert_true(sp_index_file(index, frames[i].place.file, &string, &s));
		at += (size_t)snprintf(text + at, size - at, "%s:%u:%u;", s, frames[i].place.line,
		                       frames[i].place.column);
	}
	sp_index_text_deinit(&string);
	return text;
}

#define expect(index, address, text) assert_string_equal(frames_at(index, address, (char[4096]){ 0 }, 4096), text)

/* The header's example, and around it. */
static void finds_what_was_put_in(void **state)
{
	(void)state;
	struct sp_index_builder *builder;
	struct sp_index_part *part;
	struct sp_index *index;
	ok(sp_index_builder_create(&builder));
	ok(sp_index_part_create(builder, 0, &part));
	uint32_t source = file(part, "/src/f.c"), header = file(part, "/src/g.h");
	assert_int_equal(source, file(part, "/src/f.c"));
	uint32_t f = sp_index_part_node(part, 0, name(part, "f"), NULL);
	struct sp_index_place call = { source, 5, 3 };
	uint32_t g = sp_index_part_node(part, f, name(part, "g"), &call);
	sp_index_part_range(part, f, 0x10, 0x30);
	sp_index_part_range(part, g, 0x18, 0x20);
	sp_index_part_row(part, 0x10, 0x18, &(struct sp_index_place){ source, 4, 1 });
	sp_index_part_row(part, 0x18, 0x1c, &(struct sp_index_place){ header, 70000, 70000 });
	sp_index_part_row(part, 0x28, 0x38, &(struct sp_index_place){ source, 9, 0 });
	ok(sp_index_part_finish(part));
	ok(sp_index_part_create(builder, 1, &part)); /* far away, over several pages */
	uint32_t far = sp_index_part_node(part, 0, name(part, "far"), NULL);
	sp_index_part_range(part, far, 0xffff81234567, 0xffff81260000);
	ok(sp_index_part_finish(part));
	ok(sp_index_part_create(builder, 2, &part)); /* says nothing */
	ok(sp_index_part_finish(part));
	ok(sp_index_builder_finish(builder, "the key", false, &index));
	sp_index_builder_destroy(builder);
	assert_string_equal(sp_index_key(index), "the key");
	expect(index, 0xf, "");
	expect(index, 0x10, "f /src/f.c:4:1;");
	expect(index, 0x17, "f /src/f.c:4:1;");
	expect(index, 0x18, "g /src/g.h:70000:70000;f /src/f.c:5:3;");
	expect(index, 0x1c, "g ?:0:0;f /src/f.c:5:3;");
	expect(index, 0x20, "f ?:0:0;");
	expect(index, 0x2f, "f /src/f.c:9:0;");
	expect(index, 0x30, "? /src/f.c:9:0;");
	expect(index, 0x38, "");
	expect(index, 0xffff81234566, "");
	expect(index, 0xffff81234567, "far ?:0:0;");
	expect(index, 0xffff81250000, "far ?:0:0;");
	expect(index, 0xffff8125ffff, "far ?:0:0;");
	expect(index, 0xffff81260000, "");
	expect(index, UINT64_MAX, "");
	sp_index_destroy(index);
}

static void is_empty(void **state)
{
	(void)state;
	struct sp_index_builder *builder;
	struct sp_index *index;
	ok(sp_index_builder_create(&builder));
	ok(sp_index_builder_finish(builder, "", true, &index));
	sp_index_builder_destroy(builder);
	expect(index, 0, "");
	sp_index_destroy(index);
}

/* ---- Random parts against a plain list ---- */

enum { PARTS = 40, RANGES = 30, SPAN = 300000 };

struct fact {
	uint32_t order, number; /* of the part, of the fact in it */
	bool is_row;
	uint64_t start, end;
	char text[64];   /* of the frame */
	uint32_t parent; /* fact of the same part + 1 */
};

struct facts {
	struct fact items[PARTS * RANGES * 2];
	size_t count;
};

static uint64_t seed = 7;

static uint32_t below(uint32_t limit)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % limit;
}

/* Functions with calls in them; the parts overlap each other, functions of a part do too. */
static void add_part(struct sp_index_builder *builder, uint32_t order, struct facts *facts)
{
	struct sp_index_part *part;
	ok(sp_index_part_create(builder, order, &part));
	uint32_t nodes[RANGES];
	size_t first = facts->count;
	for (uint32_t i = 0; i < RANGES; i++) {
		struct fact *fact = &facts->items[facts->count++];
		char text[32];
		*fact = (struct fact){ .order = order, .number = i };
		uint32_t parent = i && below(3) ? below(i) + 1 : 0;
		struct sp_index_place call = { 0 };
		snprintf(text, sizeof(text), "n%u", below(200));
		if (parent) {
			const struct fact *around = &facts->items[first + parent - 1];
			uint32_t size = (uint32_t)(around->end - around->start);
			fact->start = around->start + below(size);
			fact->end = fact->start + 1 + below((uint32_t)(around->end - fact->start));
			call = (struct sp_index_place){ file(part, "call"), below(50) + 1, below(3) };
		} else {
			fact->start = below(SPAN);
			fact->end = fact->start + 1 + below(i ? 2000 : 150000);
		}
		fact->end = fact->end > fact->start ? fact->end : fact->start + 1;
		nodes[i] = sp_index_part_node(part, parent ? nodes[parent - 1] : 0, name(part, text), &call);
		sp_index_part_range(part, nodes[i], fact->start, fact->end);
		fact->parent = parent;
		snprintf(fact->text, sizeof(fact->text), "%s|%s:%u:%u;", text, parent ? "call" : "?", call.line,
		         call.column);
	}
	for (uint32_t i = 0; i < RANGES; i++) {
		struct fact *fact = &facts->items[facts->count++];
		struct sp_index_place place = { file(part, below(2) ? "a" : "b"), below(100) + 1, below(5) };
		*fact = (struct fact){ .order = order, .number = i, .is_row = true };
		fact->start = below(SPAN);
		fact->end = fact->start + 1 + below(20000);
		sp_index_part_row(part, fact->start, fact->end, &place);
		struct sp_index_place again = place;
		snprintf(fact->text, sizeof(fact->text), "%c:%u:%u;", again.file == file(part, "a") ? 'a' : 'b',
		         place.line, place.column);
	}
	ok(sp_index_part_finish(part));
}

/* What a part says of an address: its last node and row. */
static void ask_part(const struct facts *facts, uint32_t order, uint64_t address, const struct fact **node,
                     const struct fact **row)
{
	*node = *row = NULL;
	for (size_t i = order * RANGES * 2; i < (order + 1) * RANGES * 2; i++) {
		const struct fact *fact = &facts->items[i];
		if (fact->start <= address && address < fact->end)
			*(fact->is_row ? row : node) = fact;
	}
}

static void expected_at(const struct facts *facts, uint64_t address, char *text, size_t size)
{
	const struct fact *node = NULL, *row = NULL;
	unsigned best = 0;
	size_t at = 0;
	for (uint32_t order = 0; order < PARTS; order++) {
		const struct fact *n, *r;
		ask_part(facts, order, address, &n, &r);
		unsigned rank = (n ? 2 : 0) + (r ? 1 : 0);
		if (rank > best) {
			best = rank;
			node = n;
			row = r;
		}
	}
	text[0] = '\0';
	const char *place = row ? row->text : "?:0:0;";
	if (!node && row)
		snprintf(text, size, "? %s", place);
	for (; node; node = node->parent ? &facts->items[node->order * RANGES * 2 + node->parent - 1] : NULL) {
		const char *bar = strchr(node->text, '|');
		at += (size_t)snprintf(text + at, size - at, "%.*s %s", (int)(bar - node->text), node->text, place);
		place = bar + 1;
	}
}

static struct sp_index *make_random(struct facts *facts)
{
	struct sp_index_builder *builder;
	struct sp_index *index;
	facts->count = 0;
	ok(sp_index_builder_create(&builder));
	for (uint32_t i = 0; i < PARTS; i++)
		add_part(builder, i, facts);
	struct sp_table_symbol symbols[] = { { 0, 100, "_ZN1a1bEv" }, { 200, 50, sp_symbol_no_name }, { 250, 9, "c" } };
	uint64_t borders[] = { 0, 100, 200, 250, 259 };
	uint32_t owners[] = { 0, UINT32_MAX, 1, 2, UINT32_MAX };
	struct sp_symbol_table table = { symbols, 3, borders, owners, 5 };
	ok(sp_index_builder_symbols(builder, &table));
	ok(sp_index_builder_finish(builder, "random", true, &index));
	sp_index_builder_destroy(builder);
	return index;
}

static void agrees_with_a_plain_list(void **state)
{
	(void)state;
	struct facts *facts = malloc(sizeof(*facts));
	struct sp_index *index = make_random(facts);
	size_t found = 0;
	for (uint64_t address = 0; address < SPAN + 160000; address += 1 + below(60)) {
		char expected[4096];
		expected_at(facts, address, expected, sizeof(expected));
		expect(index, address, expected);
		found += expected[0] != 0;
	}
	assert_true(found > 5000);
	sp_index_destroy(index);
	free(facts);
}

/* A hint changes the way, not the answer. */
static void hints_change_no_answer(void **state)
{
	(void)state;
	struct facts *facts = malloc(sizeof(*facts));
	struct sp_index *index = make_random(facts);
	struct sp_index_hint hint = { 0 };
	struct sp_index_frame some[SP_INDEX_MAX_FRAMES], same[SP_INDEX_MAX_FRAMES];
	for (unsigned i = 0; i < 200000; i++) {
		uint64_t address = i < 100000 ? i * 4 : below(SPAN + 160000);
		size_t count = sp_index_frames(index, address, &hint, some);
		assert_int_equal(count, sp_index_frames(index, address, &(struct sp_index_hint){ 0 }, same));
		if (count)
			assert_memory_equal(some, same, count * sizeof(*some));
	}
	sp_index_destroy(index);
	free(facts);
}

static void has_the_symbols(void **state)
{
	(void)state;
	struct facts *facts = malloc(sizeof(*facts));
	struct sp_index *index = make_random(facts);
	const struct {
		uint64_t address, start;
		const char *name;
		enum sp_index_name_kind kind;
	} rows[] = { { 0, 0, "_ZN1a1bEv", SP_INDEX_LINKAGE }, { 99, 0, "_ZN1a1bEv", SP_INDEX_LINKAGE },
		     { 100, 0, NULL, SP_INDEX_PLAIN },        { 249, 200, "", SP_INDEX_NAMELESS },
		     { 250, 250, "c", SP_INDEX_LINKAGE },     { 259, 0, NULL, SP_INDEX_PLAIN } };
	uint32_t hint = 0;
	bool damaged = false;
	struct sp_index_text text = { 0 };
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct sp_index_symbol *symbol = sp_index_symbol_at(index, rows[i].address, &hint, &damaged);
		const char *found;
		enum sp_index_name_kind kind;
		assert_true(!symbol == !rows[i].name);
		if (!symbol)
			continue;
		assert_int_equal(symbol->start, rows[i].start);
		assert_true(sp_index_name(index, symbol->name, &text, &found, &kind));
		assert_string_equal(found, rows[i].name);
		assert_int_equal(kind, rows[i].kind);
	}
	assert_false(damaged);
	sp_index_text_deinit(&text);
	sp_index_destroy(index);
	free(facts);
}

/* ---- Damage ---- */

/* Asks for everything. Returns false when damage was met. */
static bool use_all(struct sp_index *index)
{
	struct sp_index_frame frames[SP_INDEX_MAX_FRAMES];
	struct sp_index_hint hint = { 0 };
	struct sp_index_text text = { 0 };
	bool whole = true, damaged = false;
	uint32_t border = 0;
	for (uint64_t address = 0; address < SPAN + 160000; address += 97) {
		whole &= sp_index_frames(index, address, &hint, frames) != SP_INDEX_DAMAGED;
		sp_index_symbol_at(index, address, &border, &damaged);
	}
	const char *string;
	enum sp_index_name_kind kind;
	for (uint32_t i = 1; i <= sp_index_name_count(index); i++)
		whole &= sp_index_name(index, i, &text, &string, &kind);
	for (uint32_t i = 1; i <= sp_index_file_count(index); i++)
		whole &= sp_index_file(index, i, &text, &string);
	for (uint32_t i = 1; i <= sp_index_symbol_count(index); i++)
		whole &= sp_index_symbol(index, i) != NULL;
	sp_index_text_deinit(&text);
	return whole && !damaged;
}

/* A changed byte anywhere that is looked at is noticed; a cut file is refused. */
static void notices_damage(void **state)
{
	(void)state;
	struct facts *facts = malloc(sizeof(*facts));
	struct sp_index *index = make_random(facts), *other;
	size_t size;
	const uint8_t *bytes = sp_index_bytes(index, &size);
	uint8_t *copy = malloc(size);
	memcpy(copy, bytes, size);
	ok(sp_index_open_bytes(copy, size, &other));
	assert_true(use_all(other));
	sp_index_destroy(other);
	for (size_t i = 0; i < 400; i++) {
		size_t at = i < 200 ? i * 4 : below((uint32_t)size);
		copy[at] ^= (uint8_t)(1 + below(255));
		struct sp_error *error = sp_index_open_bytes(copy, size, &other);
		if (!error) {
			assert_false(use_all(other));
			sp_index_destroy(other);
		}
		sp_error_destroy(error);
		copy[at] = bytes[at];
	}
	for (size_t i = 0; i < 100; i++) {
		struct sp_error *error = sp_index_open_bytes(copy, below((uint32_t)size), &other);
		assert_non_null(error);
		sp_error_destroy(error);
	}
	free(copy);
	sp_index_destroy(index);
	free(facts);
}

/* Where the checksums are right but the numbers are not, nothing is read that is not there (sanitizers look on). */
static void survives_numbers_that_lie(void **state)
{
	(void)state;
	struct facts *facts = malloc(sizeof(*facts));
	struct sp_index *index = make_random(facts), *other;
	size_t size;
	const uint8_t *bytes = sp_index_bytes(index, &size);
	uint8_t *copy = malloc(size);
	for (size_t i = 0; i < 300; i++) {
		struct sp_index_header h;
		memcpy(copy, bytes, size);
		for (unsigned k = 0; k < 20; k++)
			copy[below(4) ? sizeof(h) + below((uint32_t)(size - sizeof(h))) : 32 + below(sizeof(h) - 32)] =
			    (uint8_t)below(256);
		sp_index_fix_checksums(copy, size);
		struct sp_error *error = sp_index_open_bytes(copy, size, &other);
		if (!error) {
			use_all(other);
			sp_index_destroy(other);
		}
		sp_error_destroy(error);
	}
	free(copy);
	sp_index_destroy(index);
	free(facts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_what_was_put_in),     cmocka_unit_test(is_empty),
		cmocka_unit_test(agrees_with_a_plain_list),  cmocka_unit_test(hints_change_no_answer),
		cmocka_unit_test(has_the_symbols),           cmocka_unit_test(notices_damage),
		cmocka_unit_test(survives_numbers_that_lie),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
