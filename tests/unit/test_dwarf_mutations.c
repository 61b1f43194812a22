/* The DWARF engine on damaged input: the fuzz target's seeds with random bytes changed, cut, swapped, and numbers made
 * extreme. The target itself checks what must hold: no crash, no error but for want of memory, tables in bounds. */
#include "../fuzz/fuzz_dwarf.c"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define ROUNDS 500 /* for each seed */

static uint64_t random_state = 7;

static uint32_t random_below(uint32_t limit)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((random_state >> 33) % limit);
}

static void mutate(uint8_t *bytes, size_t *size)
{
	static const uint8_t extremes[] = { 0, 1, 0x7f, 0x80, 0xfe, 0xff };
	unsigned changes = 1 + random_below(8);
	for (unsigned i = 0; i < changes; i++) {
		uint32_t at = 7 + random_below((uint32_t)*size - 7), other = 7 + random_below((uint32_t)*size - 7);
		switch (random_below(5)) {
		case 0:
			bytes[at] ^= (uint8_t)(1u << random_below(8));
			break;
		case 1:
			bytes[at] = extremes[random_below(sizeof(extremes))];
			break;
		case 2: /* a number of four bytes */
			for (uint32_t k = at; k < at + 4 && k < *size; k++)
				bytes[k] = extremes[random_below(2) * 5];
			break;
		case 3:
			for (uint32_t k = 0; k < 8 && at + k < *size && other + k < *size; k++)
				bytes[at + k] = bytes[other + k];
			break;
		default:
			if (random_below(8) == 0)
				*size = at + 1;
			break;
		}
	}
}

static unsigned run_seed(const char *path)
{
	uint8_t seed[65536], bytes[65536];
	FILE *file = fopen(path, "rb");
	assert_non_null(file);
	size_t size = fread(seed, 1, sizeof(seed), file);
	fclose(file);
	assert_true(size > 100);
	assert_int_equal(LLVMFuzzerTestOneInput(seed, size), 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		size_t mutated = size;
		memcpy(bytes, seed, size);
		mutate(bytes, &mutated);
		/* In storage of its own size, for the sanitizers to see a step outside. */
		uint8_t *exact = malloc(mutated);
		assert_non_null(exact);
		memcpy(exact, bytes, mutated);
		LLVMFuzzerTestOneInput(exact, mutated);
		free(exact);
	}
	return ROUNDS;
}

static void test_mutations(void **state)
{
	(void)state;
	const char *folder = TEST_DATA "/../fuzz/corpus/dwarf";
	DIR *seeds = opendir(folder);
	unsigned runs = 0;
	assert_non_null(seeds);
	for (struct dirent *entry; (entry = readdir(seeds));) {
		char path[4096];
		if (*entry->d_name == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		runs += run_seed(path);
	}
	closedir(seeds);
	assert_true(runs >= 10 * ROUNDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mutations),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
