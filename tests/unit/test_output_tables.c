/* The containers under the profile builder: range map, spools, interned frames and stacks. */
#include "sampler/output/range_map.h"
#include "sampler/output/spool.h"
#include "sampler/output/tables.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

/* ---- The range map against an array of one target a byte ---- */

#define SPACE 600

struct naive {
	uint32_t target[SPACE]; /* 0 = nothing */
	bool used[SPACE];
};

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static bool any_used(const struct naive *naive, unsigned start, unsigned end)
{
	bool used = false;
	for (unsigned i = start; i < end; i++)
		used = used || naive->used[i];
	return used;
}

/* Fills the naive space's range. Parts of a cut range that stay keep their mark, as in the map. */
static void fill(struct naive *naive, unsigned start, unsigned end, uint32_t target)
{
	for (unsigned i = start; i < end; i++) {
		naive->target[i] = target;
		naive->used[i] = false;
	}
}

/* A look-up marks the whole range, which in the naive space is the run of the same target around the address. */
static void look(struct sp_range_map *map, struct naive *naive, unsigned address)
{
	uint64_t low, high;
	struct sp_range *range = sp_range_map_find(map, address, &low, &high);
	if (!naive->target[address]) {
		assert_null(range);
		assert_true(low <= address && address < high);
		for (unsigned i = (unsigned)low; i < SPACE && i < high; i++)
			assert_int_equal(naive->target[i], 0);
		assert_true(!low || naive->target[low - 1]);
		assert_true(high == UINT64_MAX || naive->target[high]);
		return;
	}
	assert_non_null(range);
	assert_int_equal(range->target, naive->target[address]);
	assert_true(range->start <= address && address < range->end);
	for (uint64_t i = range->start; i < range->end; i++) {
		assert_int_equal(naive->target[i], range->target);
		naive->used[i] = true;
	}
	range->used = true;
}

static void range_map_is_like_an_array(void **state)
{
	(void)state;
	uint64_t seed = 0x9e3779b97f4a7c15;
	for (unsigned round = 0; round < 40; round++) {
		struct sp_range_map map = { 0 };
		struct naive naive = { 0 };
		for (uint32_t step = 1; step < 400; step++) {
			unsigned start = (unsigned)(next_random(&seed) % SPACE);
			unsigned longest = next_random(&seed) % 4 ? 12 : SPACE;
			unsigned end = start + 1 + (unsigned)(next_random(&seed) % longest);
			bool used, expected;
			end = end > SPACE ? SPACE : end;
			look(&map, &naive, (unsigned)(next_random(&seed) % SPACE));
			expected = any_used(&naive, start, end);
			if (next_random(&seed) % 4) {
				struct sp_range range = {
					.start = start, .end = end, .target = step, .kind = SP_RANGE_JIT
				};
				assert_true(sp_range_map_put(&map, &range, &used));
				fill(&naive, start, end, step);
			} else {
				assert_true(sp_range_map_remove(&map, start, end, &used));
				fill(&naive, start, end, 0);
			}
			assert_int_equal(used, expected);
		}
		for (unsigned i = 0; i < SPACE; i++)
			look(&map, &naive, i);
		sp_range_map_deinit(&map);
	}
}

static void range_map_reuses_its_nodes(void **state)
{
	(void)state;
	struct sp_range_map map = { 0 };
	bool used;
	for (uint64_t i = 0; i < 100000; i++) {
		struct sp_range range = { .start = i % 50 * 10, .end = i % 50 * 10 + 15, .target = 1 };
		assert_true(sp_range_map_put(&map, &range, &used));
	}
	assert_true(map.nodes.count <= 103);
	assert_true(sp_range_map_remove(&map, 0, UINT64_MAX, &used));
	assert_null(sp_range_map_find(&map, 0, NULL, NULL));
	sp_range_map_deinit(&map);
}

/* 200,000 functions in the worst order for a list must take no time to speak of (a list would take minutes). */
static void range_map_holds_many(void **state)
{
	(void)state;
	struct sp_range_map map = { 0 };
	bool used;
	for (uint64_t i = 200000; i--;) {
		struct sp_range range = { .start = i * 64, .end = i * 64 + 64, .target = (uint32_t)i };
		assert_true(sp_range_map_put(&map, &range, &used));
	}
	for (uint64_t i = 0; i < 200000; i += 997)
		assert_int_equal(sp_range_map_find(&map, i * 64 + 63, NULL, NULL)->target, i);
	assert_true(sp_range_map_remove(&map, 64, 200000 * 64, &used));
	assert_non_null(sp_range_map_find(&map, 0, NULL, NULL));
	sp_range_map_deinit(&map);
}

static void range_map_at_the_edges(void **state)
{
	(void)state;
	struct sp_range_map map = { 0 };
	bool used;
	struct sp_range all = { .start = 0, .end = UINT64_MAX, .target = 7 };
	struct sp_range inner = { .start = 100, .end = 200, .target = 8 };
	assert_true(sp_range_map_put(&map, &all, &used));
	assert_true(sp_range_map_put(&map, &inner, &used));
	assert_int_equal(sp_range_map_find(&map, 0, NULL, NULL)->target, 7);
	assert_int_equal(sp_range_map_find(&map, 99, NULL, NULL)->end, 100);
	assert_int_equal(sp_range_map_find(&map, 199, NULL, NULL)->target, 8);
	assert_int_equal(sp_range_map_find(&map, 200, NULL, NULL)->start, 200);
	assert_int_equal(sp_range_map_find(&map, UINT64_MAX - 1, NULL, NULL)->target, 7);
	assert_null(sp_range_map_find(&map, UINT64_MAX, NULL, NULL));
	sp_range_map_deinit(&map);
}

/* ---- Spools ---- */

static void fill_spool(const char *folder, bool in_file)
{
	SP_SPOOL(uint64_t) spool = { .store.folder = folder };
	size_t count = SP_SPOOL_HEAP / sizeof(uint64_t) * 5;
	for (uint64_t i = 0; i < count; i++) {
		assert_true(sp_spool_push(&spool, i * 3));
		if (i == 1000)
			assert_int_equal(spool.store.file, 0);
	}
	assert_int_equal(spool.store.file != 0, in_file);
	for (uint64_t i = 0; i < count; i++)
		assert_int_equal(spool.items[i], i * 3);
	sp_spool_deinit(&spool);
	assert_int_equal(spool.store.file, 0);
}

static void spool_moves_to_a_file(void **state)
{
	(void)state;
	fill_spool("/tmp", true);
	fill_spool("/nowhere/at/all", false);
	fill_spool("/proc", false);
	fill_spool(NULL, false);
}

/* A limit on file sizes stands for the full disk: what is in the file comes back to the heap. */
static void spool_survives_a_full_disk(void **state)
{
	(void)state;
	struct rlimit old, limit;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
	limit = (struct rlimit){ .rlim_cur = SP_SPOOL_HEAP * 2, .rlim_max = old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	fill_spool("/tmp", false);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	signal(SIGXFSZ, handler);
}

static void spool_refuses_the_impossible(void **state)
{
	(void)state;
	SP_SPOOL(uint64_t) spool = { 0 };
	assert_true(sp_spool_push(&spool, 5));
	assert_false(sp_spool_reserve(&spool, SIZE_MAX / 8));
	assert_false(sp_spool_reserve(&spool, SIZE_MAX));
	assert_int_equal(spool.items[0], 5);
	sp_spool_deinit(&spool);
}

/* ---- Tables ---- */

static void tables_keep_each_once(void **state)
{
	(void)state;
	struct sp_tables tables;
	sp_tables_init(&tables, NULL);
	for (unsigned round = 0; round < 2; round++)
		for (uint32_t i = 0; i < 5000; i++) {
			struct sp_frame_entry entry = { .address = i / 2, .target = i % 2, .kind = SP_ENTRY_MODULE };
			assert_int_equal(sp_tables_frame(&tables, &entry), i);
		}
	for (unsigned round = 0; round < 2; round++)
		for (uint32_t i = 0; i < 50000; i++)
			assert_int_equal(sp_tables_stack(&tables, i ? (i - 1) / 3 : SP_INDEX_NONE, i % 5000), i);
	assert_int_equal(tables.frames.count, 5000);
	assert_int_equal(tables.stacks.count, 50000);
	sp_tables_deinit(&tables);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(range_map_is_like_an_array),   cmocka_unit_test(range_map_reuses_its_nodes),
		cmocka_unit_test(range_map_holds_many),         cmocka_unit_test(range_map_at_the_edges),
		cmocka_unit_test(spool_moves_to_a_file),        cmocka_unit_test(spool_survives_a_full_disk),
		cmocka_unit_test(spool_refuses_the_impossible), cmocka_unit_test(tables_keep_each_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
