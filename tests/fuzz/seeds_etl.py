#!/usr/bin/env python3
"""Writes seeds for fuzz_etl into the given folder: small ETL files with each kind of record."""
import pathlib
import struct
import sys


def buffer(records, kind=0, cpu=0, sequence=0, flags=0x20, packed=None):
    body = packed if packed is not None else records
    used = 0x48 + len(records)
    head = struct.pack("<IIIIqqQHHIIHH", 0x48 + len(body), used, used, 0, 0, sequence, 0, cpu, 0, 3, used, flags, kind)
    return head.ljust(0x48, b"\0") + body


def pad(record):
    return record + bytes(-len(record) % 8)


def system(group, code, payload, time=100, version=2, kind=2):
    size = 0x20 + len(payload)
    return pad(struct.pack("<HBBHBBIIqq", version, kind, 0xC0, size, code, group, 8, 4, time, 0) + payload)


def perfinfo(group, code, payload, time=100, version=2):
    return pad(struct.pack("<HBBHBBq", version, 0x11, 0xC0, 0x10 + len(payload), code, group, time) + payload)


def event(guid, identity, payload, time=100, items=b""):
    size = 0x50 + len(items) + len(payload)
    head = struct.pack("<HBBHHIIq", size, 0x13, 0xC0, 1 if items else 0, 0, 8, 4, time)
    head += guid + struct.pack("<HBBBBHQq16x", identity, 0, 11, 4, 0, 0, 0, 0)
    return pad(head + items + payload)


def header():
    payload = struct.pack("<IBBBBIIqIIIIIIII", 65536, 6, 2, 0, 5, 9200, 2, 0, 156250, 0, 1, 2, 1, 8, 0, 3000)
    payload = payload.ljust(248, b"\0") + struct.pack("<qqqII", 1, 10000000, 130000000000000000, 1, 0)
    return buffer(system(0, 0, payload, 50), kind=4)


def item(kind, data, more=False):
    return struct.pack("<HHHH", 8 + len(data), kind, int(more), len(data)) + pad(data)


STACK = struct.pack("<QII", 100, 4, 8)
PROCESS = struct.pack("<QIIIiQII", 1, 4, 0, 0, 0, 0, 0, 0) + b"a.exe\0" + "a b\0".encode("utf-16le")
IMAGE = struct.pack("<QQIIIIQ4I", 0x10000, 0x1000, 4, 0, 0, 0, 0x10000, 0, 0, 0, 0) + "\\a.dll\0".encode("utf-16le")
SEEDS = {
    "sample": perfinfo(15, 46, struct.pack("<QIHBB", 0x10001, 8, 1, 0x58, 0))
    + perfinfo(24, 32, STACK + struct.pack("<QQ", 0x10001, 0x10002), 110),
    "keys": perfinfo(24, 37, STACK + struct.pack("<Q", 77)) + perfinfo(24, 36, struct.pack("<QQ", 77, 0x10003), 120),
    "process": system(3, 1, PROCESS, version=4) + system(20, 10, IMAGE, version=2),
    "thread": system(5, 1, struct.pack("<IIQQQQQQQIBBBB", 4, 8, *([0] * 7), 0, 0, 0, 0, 0), version=3)
    + system(5, 36, struct.pack("<IIbbBbbbbbII", 8, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0), 130, 2, 4),
    "tracelogging": event(
        bytes(range(16)), 0, b"hi\0" + struct.pack("<I", 7), 100,
        item(0xB, struct.pack("<HB", 17, 0) + b"Ev\0s\0\x02n\0\x08", True) + item(0xC, struct.pack("<H", 5) + b"Pr\0"),
    ),
}

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, records in SEEDS.items():
        (folder / name).write_bytes(header() + buffer(records, sequence=1))
    literal = b"\0\0\0\0" + SEEDS["sample"][:32]
    (folder / "compressed").write_bytes(header() + buffer(SEEDS["sample"][:32], flags=0x60, packed=literal))
    far = [buffer(SEEDS["sample"], sequence=number) for number in (-(1 << 63), (1 << 63) - 1)]
    (folder / "far_numbers").write_bytes(header() + b"".join(far))
