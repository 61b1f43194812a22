/* The DWARF engine from many threads at once: all of them meet undecoded units together, with and without helpers, and
 * get what a single thread gets. (The thread sanitizer's build is what makes this a test of the locking.) */
#include "dwarf_support.h"

#include <pthread.h>

#define THREADS 6

struct work {
	struct sp_dwarf *dwarf;
	const uint64_t *addresses;
	size_t count;
	struct text_answers answers;
	struct sp_error *error;
};

static void *run_thread(void *argument)
{
	struct work *work = argument;
	work->error = sp_dwarf_lookup(work->dwarf, work->addresses, work->count, keep_answer, &work->answers, NULL);
	return NULL;
}

static bool equal(const struct text_answer *a, const struct text_answer *b)
{
	for (size_t i = 0; i < a->count && a->count == b->count; i++)
		if (strcmp(a->frames[i].function, b->frames[i].function) != 0 ||
		    strcmp(a->frames[i].place, b->frames[i].place) != 0)
			return false;
	return a->count == b->count;
}

static void check(const struct sp_dwarf_files *files, const struct text_answers *expected)
{
	struct work work[THREADS] = { 0 };
	pthread_t threads[THREADS];
	struct sp_dwarf *dwarf;
	uint64_t *addresses = calloc(expected->count, sizeof(*addresses));
	assert_non_null(addresses);
	for (size_t i = 0; i < expected->count; i++)
		addresses[i] = expected->items[i].address;
	assert_null(sp_dwarf_create(files, &dwarf));
	for (unsigned i = 0; i < THREADS; i++) {
		/* Each begins somewhere else. */
		size_t skip = expected->count / THREADS * i / 2;
		work[i] = (struct work){ .dwarf = dwarf,
			                 .addresses = addresses + skip,
			                 .count = expected->count - skip };
		work[i].answers.count = work[i].count;
		work[i].answers.items = calloc(work[i].count, sizeof(*work[i].answers.items));
		assert_non_null(work[i].answers.items);
		assert_int_equal(pthread_create(&threads[i], NULL, run_thread, &work[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_null(work[i].error);
		for (size_t k = 0; k < work[i].count; k++)
			assert_true(
			    equal(&work[i].answers.items[k], &expected->items[expected->count - work[i].count + k]));
		free_answers(&work[i].answers);
	}
	sp_dwarf_destroy(dwarf);
	free(addresses);
}

static void test_many_threads(void **state)
{
	(void)state;
	static const char *const flags[] = { "-O2 -gdwarf-4", "-O2 -gdwarf-5 -flto -flto-partition=max",
		                             "-O2 -gdwarf-4 -gsplit-dwarf -fdebug-types-section" };
	char command[1024];
	if (!have("gcc g++")) {
		skip_part("threads", "no gcc here");
		return;
	}
	for (unsigned i = 0; i < 3; i++) {
		snprintf(command, sizeof(command),
		         "rm -rf ./* && cp $D/* . && gcc -c %s opaque.c -o opaque.o && "
		         "g++ %s shapes1.cpp shapes2.cpp opaque.o -o fixture",
		         flags[i], flags[i]);
		assert_true(run(command));
		for (unsigned helpers = 0; helpers < 3; helpers += 2) {
			struct sp_object *opened[64] = { 0 };
			struct sp_dwarf_files files = { .main = open_file("fixture"),
				                        .open_dwo = open_dwo,
				                        .context = opened,
				                        .helpers = helpers };
			struct text_answers expected = make_addresses(files.main, 3);
			look_up(&files, &expected, NULL);
			assert_true(expected.count > 100);
			for (unsigned k = 0; k < 5; k++)
				check(&files, &expected);
			free_answers(&expected);
			sp_object_destroy(files.main);
			for (size_t k = 0; opened[k]; k++)
				sp_object_destroy(opened[k]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_threads),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
