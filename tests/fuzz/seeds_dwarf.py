#!/usr/bin/env python3
"""Writes the seed corpus of fuzz_dwarf (tests/fuzz/corpus/dwarf): the debug sections of a small program, compiled in
as many ways as the compilers at hand know. The form of a seed is described in fuzz_dwarf.c."""

import pathlib
import re
import struct
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE / "corpus" / "dwarf"
NAMES = ["info", "types", "abbrev", "line", "str", "line_str", "str_offsets", "addr", "ranges", "rnglists", "aranges",
         "cu_index", "tu_index"]

SOURCE = """
extern "C" volatile int sink;
volatile int sink;
namespace space {
struct thing {
	int a;
	inline __attribute__((always_inline)) int twice(int x) { if (x > a) sink = x; return x * 2; }
	__attribute__((noinline)) int far(int x) { return twice(x) + 1; }
};
}
static inline __attribute__((always_inline)) int around(int x) { space::thing t = { x }; return t.twice(x) + sink; }
extern "C" int entry(int x)
{
	auto f = [x](int y) __attribute__((noinline)) { return around(y) + x; };
	space::thing t = { x };
	return t.far(x) + f(x) + around(x);
}
"""

SEEDS = {
    "gcc2": "g++ -gdwarf-2 -O2 {}",
    "gcc4": "g++ -gdwarf-4 -O2 {}",
    "gcc4_types": "g++ -gdwarf-4 -O2 -fdebug-types-section {}",
    "gcc5": "g++ -gdwarf-5 -O2 {}",
    "gcc5_64": "g++ -gdwarf-5 -gdwarf64 -O2 {}",
    "clang4": "clang++ -gdwarf-4 -O2 {}",
    "clang5": "clang++ -gdwarf-5 -O2 {}",
    "clang5_types": "clang++ -gdwarf-5 -O2 -fdebug-types-section {}",
    "split4": "g++ -gdwarf-4 -gsplit-dwarf -O2 {}",
    "split5": "clang++ -gdwarf-5 -gsplit-dwarf -O2 {}",
    "package4": "g++ -gdwarf-4 -gsplit-dwarf -O2 -fdebug-types-section {} && dwp -e out -o out.dwp && rm *.dwo",
    "package5": "clang++ -gdwarf-5 -gsplit-dwarf -O2 {} && llvm-dwp *.dwo -o out.dwp && rm *.dwo",
    "dwz": "g++ -gdwarf-4 -O2 {} && cp out other && dwz -L none -l none -m common out other",
    "big_endian": "clang++ --target=mips-linux-gnu -fuse-ld=lld -gdwarf-5 -O2 {}",
}
LINK = "-ffreestanding -nostdlib -static -fno-exceptions -fno-asynchronous-unwind-tables -fdebug-prefix-map=$PWD=/s " \
       "-Wl,-e,entry -Wl,--build-id=none source.cpp -o out"


def sections(path):
    """name -> (type, address, bytes) of an ELF file."""
    data = path.read_bytes()
    wide, order = data[4] == 2, "<" if data[5] == 1 else ">"
    offset, = struct.unpack_from(order + ("Q" if wide else "I"), data, 40 if wide else 32)
    entry, count, strings = struct.unpack_from(order + "HHH", data, 58 if wide else 46)
    form = order + ("IIQQQQ" if wide else "IIIIII")
    headers = [struct.unpack_from(form, data, offset + i * entry) for i in range(count)]
    table = headers[strings]
    found = {}
    for name, kind, _, address, start, size in headers:
        end = data.index(b"\0", table[4] + name)
        found[data[table[4] + name:end].decode()] = (kind, address, data[start:start + size])
    return found


def pack(path, base):
    result = b""
    for name, (_, _, data) in sections(path).items():
        match = re.fullmatch(r"\.debug_(\w+)(\.dwo)?", name)
        if match and match[1] in NAMES:
            result += struct.pack("<I", base + NAMES.index(match[1]) | len(data) << 8) + data
    return result


def make(name, command):
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        (work / "source.cpp").write_text(SOURCE)
        subprocess.run(command.format(LINK), shell=True, check=True, cwd=work)
        out = work / "out"
        _, address, code = sections(out)[".text"]
        big = 2 | 4 if name == "big_endian" else 0
        seed = struct.pack("<BIH", big, address, len(code)) + pack(out, 0)
        for other, base in ("common", 0x40), ("out.dwp", 0xC0):
            if (work / other).exists():
                seed += pack(work / other, base)
        for dwo in work.glob("*.dwo"):
            seed += pack(dwo, 0x80)
        (FOLDER / name).write_bytes(seed)
        print(f"{name}: {len(seed)} bytes")


FOLDER.mkdir(parents=True, exist_ok=True)
for key, value in SEEDS.items():
    make(key, value)
