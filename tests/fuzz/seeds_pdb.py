#!/usr/bin/env python3
"""Writes seeds for fuzz_pdb into a folder: small PDBs made by clang and lld.

    tests/fuzz/seeds_pdb.py FOLDER && build/fuzz/tests/fuzz_pdb FOLDER
"""

import struct
import sys

from seed_builds import write_seeds

SOURCE = """
namespace outer { namespace {
struct Shape { int sides; int area(int scale) const; };
static inline __attribute__((always_inline)) int middle(int x) { return x * 3 + 1; }
static inline __attribute__((always_inline)) int upper(int x) { if (x > 3) x = middle(x) * 5; return x; }
int Shape::area(int scale) const { return sides * upper(scale); }
} }
extern "C" __declspec(dllexport) int run(int n, const char **names, double (*f)(int))
{
	outer::Shape shape;
	shape.sides = n;
	return shape.area(n) + outer::upper(n) + names[0][n];
}
"""

BUILDS = {
    name: f"clang++ --target={target}-pc-windows-msvc -g -gcodeview -O1 -fno-exceptions -c a.cpp -o a.obj && "
    f"lld-link /dll /noentry /nodefaultlib /debug /force:unresolved /pdbpagesize:{page} /out:a.dll /pdb:OUT a.obj"
    for name, target, page in (
        ("x64", "x86_64", 4096),
        ("x64-8k", "x86_64", 8192),
        ("x86", "i686", 4096),
        ("arm64", "aarch64", 4096),
    )
}


def portable():
    """A portable PDB of one document and one method."""
    blobs = b"\0\3src\4a.cs\3/\1\5" + b"\x0b\0\0\0\3\x0a\5\4\0\0\5\1"
    tables = struct.pack("<IBBBBQQII", 0, 2, 0, 0, 1, 3 << 48, 0, 1, 1) + struct.pack("<HHHHHH", 10, 0, 0, 0, 1, 14)
    root = b"BSJB" + struct.pack("<HHII", 1, 1, 0, 12) + b"PDB v1.0\0\0\0\0" + struct.pack("<HH", 0, 3)
    start = len(root) + 16 + 12 + 16
    root += struct.pack("<II", start, 32) + b"#Pdb\0\0\0\0"
    root += struct.pack("<II", start + 32, len(tables)) + b"#~\0\0"
    root += struct.pack("<II", start + 32 + len(tables), len(blobs)) + b"#Blob\0\0\0"
    return root + bytes(range(1, 33)) + tables + blobs


if __name__ == "__main__":
    sys.exit(write_seeds(sys.argv[1], "a.cpp", SOURCE, BUILDS, {"portable": portable()}))
