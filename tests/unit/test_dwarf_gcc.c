/* The DWARF engine against llvm-symbolizer, on programs made by gcc and changed by tools. */
#include "dwarf_support.h"

static const struct fixture fixtures[] = {
	{ GNU("-O0 -gdwarf-2 -gstrict-dwarf") },
	{ GNU("-O2 -gdwarf-2") },
	{ GNU("-O2 -gdwarf-3") },
	{ GNU("-O0 -gdwarf-4") },
	{ GNU("-O2 -gdwarf-4") },
	/* libdwarf of 2021 takes file 0 for the rows of a version 5 program that set no file; it is 1. */
	{ GNU("-O0 -gdwarf-5"), .other_files = true },
	{ GNU("-O1 -gdwarf-5") },
	{ GNU("-O2 -gdwarf-5") },
	{ GNU("-O3 -gdwarf-5") },
	{ GNU("-Os -g1") },
	{ GNU("-O2 -gdwarf-4 -gdwarf64") },
	{ GNU("-O2 -gdwarf-5 -gdwarf64") },
	{ GNU("-O2 -gdwarf-4 -fdebug-types-section") },
	{ GNU("-O2 -gdwarf-5 -fdebug-types-section") },
	{ GNU("-O2 -g -ffunction-sections -Wl,--gc-sections") },
	{ .name = "gcc, gold",
	  .needs = "gcc g++ ld.gold",
	  .build = BUILD("gcc", "g++", "-O2 -g -ffunction-sections -Wl,--gc-sections -fuse-ld=gold") },
	/* libdwarf of 2021 takes file 0 for the rows of a version 5 program that set no file; it is 1. */
	{ GNU("-O2 -g -flto"), .other_files = true },
	{ GNU("-O2 -g -flto -flto-partition=max"), .other_files = true },
	{ GNU("-O2 -g -gz=zlib") },
	{ GNU("-O2 -g -gz=zlib-gnu") },
	/* llvm-symbolizer 14 fails on the list at offset 0 that g++ makes in a .dwo, so it reads a program without.
	 * The libdwarf engine reads no split units. */
	{ SPLIT_GNU("-O2 -gdwarf-4"), .no_libdwarf = true },
	{ SPLIT_GNU("-O2 -gdwarf-5"), .no_libdwarf = true },
	{ SPLIT_GNU("-O2 -gdwarf-4 -fdebug-types-section"), .no_libdwarf = true },
	{ .name = "package, version 2",
	  .needs = "gcc g++ dwp",
	  .build = WHOLE_AND_SPLIT(
	      "gcc", "g++", "-O2 -gdwarf-4 -fdebug-types-section") " && dwp -e fixture -o fixture.dwp && rm *.dwo",
	  .package = "fixture.dwp",
	  .oracle = "before",
	  .no_libdwarf = true },
	{ CHANGED("zstd", "objcopy", "-O2 -g", "objcopy --compress-debug-sections=zstd fixture") },
	{ CHANGED("dwz, DWARF 4", "dwz", "-O2 -gdwarf-4", "dwz fixture") },
	{ CHANGED("dwz, DWARF 5", "dwz", "-O2 -gdwarf-5", "dwz fixture") },
	{ CHANGED("dwz with a supplementary file, DWARF 4", "dwz", "-O2 -gdwarf-4",
	          "cp fixture second && dwz -m common -r fixture second"),
	  .supplementary = "common" },
	/* libdwarf of 2021 gives no offset for DW_FORM_ref_sup4. */
	{ CHANGED("dwz with a supplementary file, DWARF 5", "dwz", "-O2 -gdwarf-5",
	          "cp fixture second && dwz -5 -m common -r fixture second"),
	  .supplementary = "common", .no_libdwarf = true },
	{ .name = "separate debug file",
	  .needs = "gcc g++ objcopy",
	  .build = BUILD("gcc", "g++", "-O2 -g") " && cp fixture before && objcopy --only-keep-debug fixture",
	  .oracle = "before" },
	{ .name = "aarch64",
	  .needs = "aarch64-linux-gnu-gcc",
	  .build = "aarch64-linux-gnu-gcc -O2 -g opaque.c -nostdlib -Wl,-e,opaque -o fixture" },
	{ .name = "object file", .needs = "gcc", .build = "gcc -c -O2 -g opaque.c -o fixture" },
};

static void test_programs(void **state)
{
	(void)state;
	check_fixtures(fixtures, sizeof(fixtures) / sizeof(*fixtures));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_programs),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
