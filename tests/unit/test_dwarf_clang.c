/* The DWARF engine against llvm-symbolizer, on programs made by clang, Rust and Go. */
#include "dwarf_support.h"

static const struct fixture fixtures[] = {
	{ LLVM("-O0 -gdwarf-2") },
	{ LLVM("-O2 -gdwarf-3") },
	{ LLVM("-O0 -gdwarf-4") },
	{ LLVM("-O2 -gdwarf-4") },
	{ LLVM("-O0 -gdwarf-5") },
	{ LLVM("-O1 -gdwarf-5") },
	{ LLVM("-O2 -gdwarf-5") },
	{ LLVM("-O3 -gdwarf-5") },
	{ LLVM("-O2 -g -gdwarf-aranges") },
	{ LLVM("-O2 -gline-tables-only") },
	{ LLVM("-O2 -gdwarf-5 -gdwarf64") },
	{ LLVM("-O2 -gdwarf-4 -fdebug-types-section") },
	{ LLVM("-O2 -gdwarf-5 -fdebug-types-section") },
	{ LLVM("-O2 -g -gsimple-template-names") },
	{ LLVM("-O2 -g -ffunction-sections -Wl,--gc-sections -Wl,--icf=all -fuse-ld=lld") },
	{ LLVM("-O2 -g -flto -fuse-ld=lld") },
	{ LLVM("-O2 -g -flto=thin -fuse-ld=lld") },
	{ SPLIT_LLVM("-O2 -gdwarf-4") },
	{ SPLIT_LLVM("-O2 -gdwarf-5") },
	{ SPLIT_LLVM("-O2 -gdwarf-5 -fdebug-types-section") },
	{ .name = "package, version 5",
	  .needs = "clang clang++ llvm-dwp",
	  .build = WHOLE_AND_SPLIT("clang", "clang++",
	                           "-O2 -gdwarf-5") " && llvm-dwp -e fixture -o fixture.dwp && rm *.dwo",
	  .package = "fixture.dwp",
	  .oracle = "before" },
	{ .name = "32 bits, big-endian, DWARF 4",
	  .needs = "clang ld.lld",
	  .build =
	      "clang --target=mips-linux-gnu -O2 -gdwarf-4 opaque.c -nostdlib -fuse-ld=lld -Wl,-e,opaque -o fixture" },
	{ .name = "32 bits, big-endian, DWARF 5",
	  .needs = "clang ld.lld",
	  .build =
	      "clang --target=mips-linux-gnu -O2 -gdwarf-5 opaque.c -nostdlib -fuse-ld=lld -Wl,-e,opaque -o fixture" },
	{ .name = "Rust",
	  .needs = "rustc",
	  .build = "rustc -O -g --crate-name fixture --crate-type bin hello.rs -o fixture",
	  .step = 64 },
	{ .name = "Go",
	  .needs = "go",
	  .build = "GOCACHE=$B/go-cache go build -o fixture hello.go",
	  .step = 64,
	  .dot = true },
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
