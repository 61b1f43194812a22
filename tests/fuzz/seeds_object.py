#!/usr/bin/env python3
"""Writes seeds for fuzz_object into a folder: small ELF and PE files of many shapes, made by the compilers at hand.

    tests/fuzz/seeds_object.py FOLDER && build/fuzz/tests/fuzz_object FOLDER
"""

import sys

from seed_builds import write_seeds

SOURCE = """
int imported(int);
static inline __attribute__((always_inline)) int square(int x) { return x * x; }
static __attribute__((noinline)) int local(int n) { int s = 0; while (n--) s += square(n); return s; }
int exported(int n) { return local(n) + imported(n); }
"""

BUILDS = {
    "pe-x86_64": "clang --target=x86_64-w64-mingw32 -O1 -g -shared -nostdlib -fasynchronous-unwind-tables -fuse-ld=lld "
    "-Wl,-e,exported,--export-all-symbols -Dimported=exported a.c -o OUT",
    "pe-arm64": "clang --target=aarch64-w64-mingw32 -O1 -shared -nostdlib -fuse-ld=lld -Wl,-e,exported,--export-all-symbols "
    "-Dimported=exported a.c -o OUT",
    "pe-x86": "clang --target=i686-w64-mingw32 -O1 -g -shared -nostdlib -fuse-ld=lld -Wl,-e,exported,--export-all-symbols "
    "-Dimported=exported a.c -o OUT",
    "pe-rsds": "clang --target=x86_64-pc-windows-msvc -O1 -gcodeview -g -Dimported=exported -c a.c -o a.obj && "
    "lld-link /dll /noentry /nodefaultlib /debug /export:exported /implib:a.lib /pdb:a.pdb /out:OUT a.obj",
    "x86_64": "gcc -O1 -g -shared -fPIC -nostdlib a.c -o OUT",
    "x86_64-now": "gcc -O1 -shared -fPIC -nostdlib -fcf-protection -Wl,-z,now,-z,ibtplt a.c -o OUT",
    "x86_64-stripped": "gcc -O1 -s -shared -fPIC -nostdlib a.c -o OUT",
    "x86_64-bare": "gcc -O1 -s -shared -fPIC -nostdlib a.c -o OUT && llvm-objcopy --strip-sections OUT",
    "x86_64-object": "gcc -O1 -g -c a.c -o OUT",
    "x86_64-zlib": "gcc -O1 -g -gz=zlib -c a.c -o OUT",
    "x86_64-zdebug": "gcc -O1 -g -gz=zlib-gnu -c a.c -o OUT",
    "x86_64-zstd": "gcc -O1 -g -c a.c -o OUT && objcopy --compress-debug-sections=zstd OUT",
    "x86_64-linked": "gcc -O1 -g -shared -fPIC -nostdlib a.c -o a.so && objcopy --only-keep-debug a.so a.debug && "
    "objcopy --strip-all --add-gnu-debuglink=a.debug a.so OUT",
    "x86_64-debug": "gcc -O1 -g -shared -fPIC -nostdlib a.c -o a.so && objcopy --only-keep-debug a.so OUT",
    "lld": "clang -O1 -fuse-ld=lld -shared -fPIC -nostdlib a.c -o OUT",
    "i386": "gcc -m32 -O1 -g -shared -fPIC -nostdlib a.c -o OUT",
    "i386-object": "gcc -m32 -O1 -g -c a.c -o OUT",
    "aarch64": "aarch64-linux-gnu-gcc -O1 -g -shared -fPIC -nostdlib a.c -o OUT",
    "aarch64-object": "aarch64-linux-gnu-gcc -O1 -g -c a.c -o OUT",
    "arm-object": "clang --target=armv7-linux-gnueabi -O1 -g -c a.c -o OUT",
    "ppc64-object": "clang --target=powerpc64-linux-gnu -O1 -g -c a.c -o OUT",
    "riscv64-object": "clang --target=riscv64-linux-gnu -O1 -g -c a.c -o OUT",
    "s390x-object": "clang --target=s390x-linux-gnu -O1 -g -c a.c -o OUT",
}


if __name__ == "__main__":
    sys.exit(write_seeds(sys.argv[1], "a.c", SOURCE, BUILDS))
