#!/usr/bin/env python3
"""Writes seeds for fuzz_unwind_pe into a folder: small Windows binaries made by clang and lld.

    tests/fuzz/seeds_unwind_pe.py FOLDER && build/fuzz/tests/fuzz_unwind_pe FOLDER
"""

import sys

from seed_builds import write_seeds

SOURCE = """
int callee(int *, ...);
int many(int a, int b, int c, int d) { int x[4] = { a, b, c, d }; return callee(x, a) + callee(x, b) + callee(x, c, d); }
int large(int a) { int x[7000]; x[a] = a; return callee(x) + a; }
int grows(int n) { int *p = __builtin_alloca(n * 4); callee(p, n); return callee(p) + n; }
"""

BUILDS = {
    target + level: f"clang --target={target}-pc-windows-msvc {level} -fasynchronous-unwind-tables "
    "-mno-stack-arg-probe -c a.c -o a.obj && lld-link /dll /noentry /nodefaultlib /force:unresolved /export:many "
    "/implib:a.lib /out:OUT a.obj"
    for target in ("x86_64", "aarch64")
    for level in ("-O0", "-O2")
}


if __name__ == "__main__":
    sys.exit(write_seeds(sys.argv[1], "a.c", SOURCE, BUILDS))
