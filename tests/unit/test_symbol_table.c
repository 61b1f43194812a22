/* The symbol table by construction, and against a slow model on random input. */
#include "symbolication/sort.h"
#include "symbolication/symbol_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add(struct sp_table_builder *builder, uint64_t start, uint64_t size, const char *name)
{
	struct sp_table_symbol symbol = { start, size, name };
	assert_true(sp_vector_push(&builder->symbols, symbol));
}

static void add_function(struct sp_table_builder *builder, uint64_t start, uint64_t size)
{
	struct sp_table_symbol function = { start, size, sp_symbol_no_name };
	assert_true(sp_vector_push(&builder->functions, function));
}

static void add_stop(struct sp_table_builder *builder, uint64_t address)
{
	assert_true(sp_vector_push(&builder->stops, address));
}

static void finish(struct sp_table_builder *builder, struct sp_symbol_table *table)
{
	struct sp_error *error = sp_table_finish(builder, table);
	if (error)
		fail_msg("%s", error->message);
}

/* "name+size" of what covers an address, "-" when nothing does. */
static const char *at(const struct sp_symbol_table *table, uint64_t address)
{
	static char text[100];
	const struct sp_table_symbol *s = sp_symbol_table_find(table, address);
	snprintf(text, sizeof(text), "%s", "-");
	if (s)
		snprintf(text, sizeof(text), "%s+%llu", s->name == sp_symbol_no_name ? "fun" : s->name,
		         (unsigned long long)s->size);
	return text;
}

static void test_gaps(void **state)
{
	(void)state;
	struct sp_table_builder builder = { 0 };
	struct sp_symbol_table table;
	add(&builder, 100, 20, "a");
	add(&builder, 140, 10, "b");
	add_stop(&builder, 200);
	finish(&builder, &table);
	assert_string_equal(at(&table, 99), "-");
	assert_string_equal(at(&table, 100), "a+20");
	assert_string_equal(at(&table, 119), "a+20");
	assert_string_equal(at(&table, 120), "-"); /* never the nearest below */
	assert_string_equal(at(&table, 149), "b+10");
	assert_string_equal(at(&table, 150), "-");
	assert_string_equal(at(&table, UINT64_MAX), "-");
	sp_symbol_table_deinit(&table);
}

static void test_aliases(void **state)
{
	(void)state;
	struct sp_table_builder builder = { 0 };
	struct sp_symbol_table table;
	add(&builder, 100, 20, "first");
	add(&builder, 100, 20, "second");
	add(&builder, 200, 4, "label");
	add(&builder, 200, 50, "whole");
	finish(&builder, &table);
	assert_string_equal(at(&table, 110), "first+20");
	assert_string_equal(at(&table, 203), "label+4");
	assert_string_equal(at(&table, 204), "whole+50");
	assert_string_equal(at(&table, 250), "-");
	sp_symbol_table_deinit(&table);
}

static void test_nested(void **state)
{
	(void)state;
	struct sp_table_builder builder = { 0 };
	struct sp_symbol_table table;
	add(&builder, 100, 100, "outer");
	add(&builder, 120, 20, "inner");
	add(&builder, 130, 5, "innermost");
	finish(&builder, &table);
	assert_string_equal(at(&table, 110), "outer+100");
	assert_string_equal(at(&table, 125), "inner+20");
	assert_string_equal(at(&table, 134), "innermost+5");
	assert_string_equal(at(&table, 135), "inner+20");
	assert_string_equal(at(&table, 140), "outer+100");
	assert_string_equal(at(&table, 200), "-");
	sp_symbol_table_deinit(&table);
}

static void test_unsized(void **state)
{
	(void)state;
	struct sp_table_builder builder = { 0 };
	struct sp_symbol_table table;
	add(&builder, 100, 0, "a");
	add(&builder, 120, 0, "b");
	add_stop(&builder, 150);
	add(&builder, 200, 0, "last"); /* nothing tells where it ends */
	finish(&builder, &table);
	assert_string_equal(at(&table, 119), "a+20");
	assert_string_equal(at(&table, 149), "b+30");
	assert_string_equal(at(&table, 150), "-");
	assert_string_equal(at(&table, 200), "-");
	sp_symbol_table_deinit(&table);
}

static void test_unwind_functions(void **state)
{
	(void)state;
	struct sp_table_builder builder = { 0 };
	struct sp_symbol_table table;
	add(&builder, 100, 0, "exported"); /* its function ends at 150 */
	add_function(&builder, 100, 50);
	add_function(&builder, 150, 30);
	add(&builder, 200, 100, "sized"); /* a part of it has an entry of its own */
	add_function(&builder, 200, 40);
	add_function(&builder, 240, 60);
	finish(&builder, &table);
	assert_string_equal(at(&table, 149), "exported+50");
	assert_string_equal(at(&table, 150), "fun+30");
	assert_string_equal(at(&table, 180), "-");
	assert_string_equal(at(&table, 250), "sized+100");
	assert_string_equal(at(&table, 299), "sized+100");
	sp_symbol_table_deinit(&table);
}

static void test_section_ends(void **state)
{
	(void)state;
	struct sp_table_builder builder = { 0 };
	struct sp_symbol_table table;
	add(&builder, 100, 1000, "lies");
	add_stop(&builder, 150);
	add(&builder, 160, 10, "next");
	finish(&builder, &table);
	assert_string_equal(at(&table, 149), "lies+50");
	assert_string_equal(at(&table, 155), "-");
	assert_string_equal(at(&table, 160), "next+10");
	assert_string_equal(at(&table, 170), "-");
	sp_symbol_table_deinit(&table);
}

static void test_entry_point(void **state)
{
	(void)state;
	struct sp_table_builder builder = { .entry = 500, .has_entry = true };
	struct sp_symbol_table table;
	add(&builder, 100, 10, "a");
	add_stop(&builder, 600);
	finish(&builder, &table);
	assert_string_equal(at(&table, 510), "EntryPoint+100");
	sp_symbol_table_deinit(&table);
	builder = (struct sp_table_builder){ .entry = 105, .has_entry = true };
	add(&builder, 100, 10, "a");
	finish(&builder, &table);
	assert_string_equal(at(&table, 105), "a+10");
	sp_symbol_table_deinit(&table);
}

static void test_empty(void **state)
{
	(void)state;
	struct sp_table_builder builder = { 0 };
	struct sp_symbol_table table;
	finish(&builder, &table);
	assert_null(sp_symbol_table_find(&table, 0));
	sp_symbol_table_deinit(&table);
}

/* The model: of the sized symbols that cover an address, the one that starts last; of several that start there, the
 * first given. */
static const struct sp_table_symbol *model(const struct sp_table_symbol *symbols, size_t count, uint64_t address)
{
	const struct sp_table_symbol *best = NULL;
	for (size_t i = 0; i < count; i++) {
		const struct sp_table_symbol *s = &symbols[i];
		if (address >= s->start && address - s->start < s->size && (!best || s->start > best->start))
			best = s;
	}
	return best;
}

/* Symbols that are apart or inside one another, as code is; at most one starts at an address. */
static size_t random_tree(struct sp_table_symbol *symbols, size_t most, uint64_t start, uint64_t end, unsigned *seed)
{
	size_t count = 0;
	while (start + 4 < end && count < most) {
		start += 1 + (uint64_t)rand_r(seed) % 20;
		uint64_t size = 1 + (uint64_t)rand_r(seed) % 60;
		if (start + size > end)
			break;
		symbols[count++] = (struct sp_table_symbol){ start, size, "s" };
		if (rand_r(seed) % 3 == 0 && size > 10)
			count += random_tree(symbols + count, most - count, start, start + size, seed);
		start += size;
	}
	return count;
}

static void test_random(void **state)
{
	(void)state;
	unsigned seed = 7;
	for (unsigned round = 0; round < 200; round++) {
		struct sp_table_symbol symbols[200];
		size_t count = random_tree(symbols, 200, 0, 3000, &seed);
		struct sp_table_builder builder = { 0 };
		struct sp_symbol_table table;
		/* The order in which they are given does not matter. */
		size_t shift = count ? (size_t)rand_r(&seed) % count : 0;
		for (size_t i = 0; i < count; i++) {
			const struct sp_table_symbol *s = &symbols[(i + shift) % count];
			add(&builder, s->start, s->size, s->name);
		}
		finish(&builder, &table);
		for (uint64_t address = 0; address < 3100; address++) {
			const struct sp_table_symbol *expected = model(symbols, count, address);
			const struct sp_table_symbol *found = sp_symbol_table_find(&table, address);
			assert_int_equal(found != NULL, expected != NULL);
			if (found)
				assert_true(found->start == expected->start && found->size == expected->size);
		}
		sp_symbol_table_deinit(&table);
	}
}

/* Fills a builder with symbols that overlap, lie and have no size, functions, stops and an entry point. */
static void add_random(struct sp_table_builder *builder, unsigned seed)
{
	*builder = (struct sp_table_builder){ .entry = (uint64_t)rand_r(&seed) % 1000, .has_entry = rand_r(&seed) % 2 };
	static const char *const names[] = { "a", "b", "c", "d" };
	unsigned symbols = (unsigned)rand_r(&seed) % 30, functions = (unsigned)rand_r(&seed) % 10;
	for (unsigned i = 0; i < symbols; i++)
		add(builder, (uint64_t)rand_r(&seed) % 1000, (uint64_t)(rand_r(&seed) % 3 ? rand_r(&seed) % 100 : 0),
		    names[rand_r(&seed) % 4]);
	for (unsigned i = 0; i < functions; i++)
		add_function(builder, (uint64_t)rand_r(&seed) % 1000, (uint64_t)rand_r(&seed) % 60);
	for (unsigned i = 0; i < 3; i++)
		add_stop(builder, (uint64_t)rand_r(&seed) % 1100);
}

/* What is left of a builder for a few addresses says the same of them. */
static void test_narrow(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed < 20000; seed++) {
		struct sp_table_builder builder;
		struct sp_symbol_table whole, few;
		unsigned more = seed * 7;
		uint64_t addresses[SP_TABLE_FEW];
		for (unsigned i = 0; i < SP_TABLE_FEW; i++)
			addresses[i] = (uint64_t)rand_r(&more) % 1100;
		add_random(&builder, seed);
		finish(&builder, &whole);
		add_random(&builder, seed);
		sp_table_narrow(&builder, addresses, SP_TABLE_FEW);
		finish(&builder, &few);
		for (unsigned i = 0; i < SP_TABLE_FEW; i++) {
			const struct sp_table_symbol *x = sp_symbol_table_find(&whole, addresses[i]);
			const struct sp_table_symbol *y = sp_symbol_table_find(&few, addresses[i]);
			if (!x != !y || (x && (x->start != y->start || x->size != y->size || x->name != y->name)))
				fail_msg("seed %u, address %llu: %s at %llu + %llu, not %s at %llu + %llu", seed,
				         (unsigned long long)addresses[i], y ? y->name : "-",
				         y ? (unsigned long long)y->start : 0, y ? (unsigned long long)y->size : 0,
				         x ? x->name : "-", x ? (unsigned long long)x->start : 0,
				         x ? (unsigned long long)x->size : 0);
		}
		sp_symbol_table_deinit(&whole);
		sp_symbol_table_deinit(&few);
	}
}

static void test_sort(void **state)
{
	(void)state;
	unsigned seed = 3;
	static const size_t counts[] = { 0, 1, 2, 47, 48, 1000, 50000 };
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		for (unsigned shift = 0; shift < 64; shift += 9) {
			struct sp_keyed *items = malloc((counts[i] + 1) * sizeof(*items));
			assert_non_null(items);
			for (size_t k = 0; k < counts[i]; k++)
				items[k] = (struct sp_keyed){ (uint64_t)(rand_r(&seed) & 0xfff) << shift, k };
			assert_true(sp_sort_keyed(items, counts[i]));
			for (size_t k = 1; k < counts[i]; k++)
				assert_true(items[k - 1].key < items[k].key ||
				            (items[k - 1].key == items[k].key && items[k - 1].value < items[k].value));
			free(items);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gaps),
		cmocka_unit_test(test_aliases),
		cmocka_unit_test(test_nested),
		cmocka_unit_test(test_unsized),
		cmocka_unit_test(test_unwind_functions),
		cmocka_unit_test(test_section_ends),
		cmocka_unit_test(test_entry_point),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_narrow),
		cmocka_unit_test(test_sort),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
