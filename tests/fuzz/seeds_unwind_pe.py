#!/usr/bin/env python3
"""Writes seeds for fuzz_unwind_pe into a folder: small Windows binaries made by clang and lld.

    tests/fuzz/seeds_unwind_pe.py FOLDER && build/fuzz/tests/fuzz_unwind_pe FOLDER
"""

import pathlib
import subprocess
import sys
import tempfile

SOURCE = """
int callee(int *, ...);
int many(int a, int b, int c, int d) { int x[4] = { a, b, c, d }; return callee(x, a) + callee(x, b) + callee(x, c, d); }
int large(int a) { int x[7000]; x[a] = a; return callee(x) + a; }
int grows(int n) { int *p = __builtin_alloca(n * 4); callee(p, n); return callee(p) + n; }
"""


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    made = 0
    with tempfile.TemporaryDirectory() as work:
        pathlib.Path(work, "a.c").write_text(SOURCE)
        for target in ("x86_64", "aarch64"):
            for level in ("-O0", "-O2"):
                name = target + level
                command = (
                    f"clang --target={target}-pc-windows-msvc {level} -fasynchronous-unwind-tables -mno-stack-arg-probe "
                    f"-c a.c -o a.obj && lld-link /dll /noentry /nodefaultlib /force:unresolved /export:many "
                    f"/implib:a.lib /out:{folder / name} a.obj"
                )
                done = subprocess.run(command, shell=True, cwd=work, capture_output=True)
                if done.returncode:
                    print(f"{name}: not made here")
                    (folder / name).unlink(missing_ok=True)
                made += not done.returncode
    print(f"{made} seeds in {folder}")
    return 0 if made else 1


if __name__ == "__main__":
    sys.exit(main())
