#!/usr/bin/env python3
"""Writes the seed corpus of fuzz_perf_records (tests/fuzz/corpus/perf_records)."""

import pathlib
import struct

FOLDER = pathlib.Path(__file__).resolve().parent / "corpus" / "perf_records"
KERNEL, USER = -128 & (2**64 - 1), -512 & (2**64 - 1)


def record(kind, misc, body):
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def identity(pid, tid, time):
    return struct.pack("<IIQIIQ", pid, tid, time, 0, 0, 6)


def text(string):
    return string.encode() + b"\0" * (8 - len(string) % 8)


def sample(pid, time, stack):
    body = struct.pack("<QQIIQIIQ", 5, 0x401000, pid, pid, time, 0, 0, 1000000)
    chain = [KERNEL, 0xFFFFFFFF81000000, USER, 0x401000, 0x402000]
    body += struct.pack(f"<Q{len(chain)}Q", len(chain), *chain)
    body += struct.pack("<Q17Q", 2, *range(17))
    body += struct.pack("<Q", stack) + bytes(stack) + struct.pack("<Q", stack // 2)
    return record(9, 2, body)


def side_band():
    build_id = struct.pack("<BBH20s", 20, 0, 0, b"build id")
    inode = struct.pack("<IIQQ", 8, 3, 4711, 0)
    place = struct.pack("<IIQQQ", 50, 50, 0x400000, 0x2000, 0x1000)
    rights = struct.pack("<II", 5, 2)
    return [
        record(3, 1 << 13, struct.pack("<II", 50, 50) + text("command") + identity(50, 50, 1)),
        record(10, 1 << 14, place + build_id + rights + text("/bin/x") + identity(50, 50, 2)),
        record(10, 0, place + inode + rights + text("/lib/libx.so") + identity(50, 50, 3)),
        record(7, 0, struct.pack("<IIIIQ", 51, 50, 51, 50, 4) + identity(50, 50, 4)),
        record(15, 3 << 13, struct.pack("<II", 1, 1) + identity(50, 50, 5)),
        record(14, 0, identity(50, 50, 6)),
        record(2, 0, struct.pack("<QQ", 6, 3) + identity(50, 50, 7)),
        record(5, 0, struct.pack("<QQQ", 8, 6, 6) + identity(50, 50, 8)),
        record(6, 0, struct.pack("<QQQ", 9, 6, 6) + identity(50, 50, 9)),
        record(13, 0, struct.pack("<Q", 3) + identity(50, 50, 10)),
        record(17, 0, struct.pack("<QIHH", 2**63, 64, 1, 0) + text("bpf_prog") + identity(0, 0, 11)),
        record(4, 0, struct.pack("<IIIIQ", 51, 50, 51, 50, 12) + identity(51, 51, 12)),
    ]


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "side_band").write_bytes(bytes([0b1001, 3]) + b"".join(side_band()))
    (FOLDER / "samples").write_bytes(bytes([0b1000, 20]) + b"".join(sample(51, n, 8 * n) for n in range(6)))


main()
