/* The DWARF engine against llvm-symbolizer, on programs that the compilers at hand make. */
#include "dwarf_support.h"

/* One way to compile. */
struct fixture {
	const char *name;
	const char *needs;    /* a program that must be there */
	const char *build;    /* makes "fixture" of $D/shapes1.cpp, $D/shapes2.cpp and $D/opaque.c */
	unsigned differences; /* that the oracle is known to have, for the reason given where it is set */
};

#define BUILD(cc, cxx, flags)                                        \
	cc " -c " flags " $D/opaque.c -o opaque.o && " cxx " " flags \
	   " $D/shapes1.cpp $D/shapes2.cpp opaque.o -o fixture"
#define GNU(name, flags)                                          \
	{                                                         \
		"gcc " name, "g++", BUILD("gcc", "g++", flags), 0 \
	}
#define LLVM(name, flags)                                                     \
	{                                                                     \
		"clang " name, "clang++", BUILD("clang", "clang++", flags), 0 \
	}

static const struct fixture fixtures[] = {
	GNU("-O0 -gdwarf-4", "-O0 -gdwarf-4"),  GNU("-O2 -gdwarf-4", "-O2 -gdwarf-4"),
	GNU("-O0 -gdwarf-5", "-O0 -gdwarf-5"),  GNU("-O1 -gdwarf-5", "-O1 -gdwarf-5"),
	GNU("-O2 -gdwarf-5", "-O2 -gdwarf-5"),  GNU("-O3 -gdwarf-5", "-O3 -gdwarf-5"),
	LLVM("-O0 -gdwarf-4", "-O0 -gdwarf-4"), LLVM("-O2 -gdwarf-4", "-O2 -gdwarf-4"),
	LLVM("-O0 -gdwarf-5", "-O0 -gdwarf-5"), LLVM("-O1 -gdwarf-5", "-O1 -gdwarf-5"),
	LLVM("-O2 -gdwarf-5", "-O2 -gdwarf-5"), LLVM("-O3 -gdwarf-5", "-O3 -gdwarf-5"),
};

static void check_fixture(const struct fixture *fixture)
{
	char path[512], hidden[512];
	const char *note;
	if (!have(fixture->needs)) {
		skip_part(fixture->name, "no such compiler here");
		return;
	}
	if (!run(fixture->build)) {
		run("cat log >&2");
		fail_msg("%s: does not compile", fixture->name);
	}
	path_of("fixture", path, sizeof(path));
	path_of("hidden", hidden, sizeof(hidden));
	hide_symbols(path, hidden);
	struct sp_dwarf_files files = { 0 };
	assert_null(sp_object_open_path(path, &files.main));
	struct text_answers ours = make_addresses(files.main, 4);
	look_up(&files, &ours, &note);
	struct text_answers theirs = ask_llvm(hidden, &ours);
	assert_null(note);
	assert_true(ours.count > 100);
	unsigned differences = count_differences(fixture->name, &ours, &theirs);
	if (differences != fixture->differences)
		fail_msg("%s: %u of %zu answers differ", fixture->name, differences, ours.count);
	free_answers(&ours);
	free_answers(&theirs);
	sp_object_destroy(files.main);
}

static void test_compilers(void **state)
{
	(void)state;
	if (!have("llvm-symbolizer")) {
		skip_part("all compilers", "no llvm-symbolizer here");
		return;
	}
	for (size_t i = 0; i < sizeof(fixtures) / sizeof(*fixtures); i++)
		check_fixture(&fixtures[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_compilers),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
