#!/usr/bin/env python3
"""Writes the seeds of fuzz_unwind: small but sound tables, code and stacks in the form that the target takes.

Usage: tests/fuzz/seeds_unwind.py FOLDER     (the seeds in corpus/unwind were made by this)
"""

import struct
import sys
from pathlib import Path

HDR, EH_FRAME, DEBUG_FRAME, CODE, STACK = 0x1000, 0x2000, 0x20000, 0x40000, 0x7F0000000000


def entry(body: bytes) -> bytes:
    body += b"\0" * (-len(body) % 4)
    return struct.pack("<I", len(body)) + body


def eh_frame(aarch64: bool, program: bytes, augmentation: bytes = b"zR", code_size: int = 64) -> bytes:
    first = b"\x0c\x1f\x00" if aarch64 else b"\x0c\x07\x08\x90\x01"
    data_align, ra = (b"\x78", 30) if aarch64 else (b"\x78", 16)
    cie = entry(struct.pack("<I", 0) + b"\x01" + augmentation + b"\0" + b"\x01" + data_align + bytes([ra]) + b"\x01\x1b" + first)
    at = EH_FRAME + len(cie)
    fde = struct.pack("<Iii", len(cie) + 4, CODE - (at + 8), code_size) + b"\x00" + program
    return cie + entry(fde)


def header(fde_offset: int) -> bytes:
    head = b"\x01\x1b\x03\x3b" + struct.pack("<iI", EH_FRAME - (HDR + 4), 1)
    return head + struct.pack("<ii", CODE - HDR, EH_FRAME + fde_offset - HDR)


def debug_frame(program: bytes) -> bytes:
    cie = entry(struct.pack("<I", 0xFFFFFFFF) + b"\x04\0\x08\x00\x01\x78\x10" + b"\x0c\x07\x08\x90\x01")
    return cie + entry(struct.pack("<IQQ", 0, CODE, 64) + program)


def seed(flags: int, hdr: bytes, eh: bytes, debug: bytes, code: bytes, stack: bytes, pc: int = 8, fp: int = 4) -> bytes:
    eh, debug, code = (part + b"\0" * (-len(part) % 4) for part in (eh, debug, code))
    head = bytes([flags, len(hdr), len(eh) // 4, len(debug) // 4, len(code) // 4, pc, fp, 0, *range(8)])
    return head + hdr + eh + debug + code + stack


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    call = b"\x90" * 11 + b"\xe8\0\0\0\0" + b"\x90" * 48  # returns to CODE + 16
    stack = b"".join(struct.pack("<Q", CODE + 16 if i % 2 else STACK + 8 * i + 32) for i in range(40))
    push_rbp = b"\x41\x0e\x10\x86\x02\x43\x0d\x06"
    plt = b"\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22"
    realigned = b"\x0f\x03\x76\x78\x06\x10\x06\x02\x76\x00"
    indexed = b"\x0f\x0a\x77\x08\x79\x00\x38\x1e\x22\x06\x23\x08"
    signal = b"\x0f\x04\x77\xa0\x01\x06\x10\x10\x03\x77\xa8\x01\x10\x06\x03\x77\xf8\x00"
    rbx = b"\x0c\x03\x10\x83\x03"
    loop = b"\x16\x06\x03\x2f\xfd\xff"
    states = b"\x0a\x0e\x18\x41\x0b\x0e\x20\x2e\x10\x05\x0c\x03\x06\x03\x07\x11\x08\x0c\x09\x0d\x0e"
    cases = {"push": push_rbp, "plt": plt, "realigned": realigned, "indexed": indexed, "rbx": rbx, "loop": loop, "states": states}
    for name, program in cases.items():
        tables = eh_frame(False, program)
        fde = struct.unpack_from("<I", tables)[0] + 4
        (folder / name).write_bytes(seed(4, header(fde), tables, b"", call, stack))
        (folder / f"{name}-debug").write_bytes(seed(4, b"", b"", debug_frame(program), call, stack))
    (folder / "signal").write_bytes(seed(4, b"", eh_frame(False, signal, b"zRS"), b"", call, stack * 2))
    (folder / "frame-pointers").write_bytes(seed(6, b"", b"", b"", call, stack))
    code = struct.pack("<8I", 0xA9BE7BFD, 0x910003FD, 0xD503201F, 0x94000001, 0xA9417BFD, 0x910083FF, 0xA8C27BFD, 0xD65F03C0)
    frame = b"\x44\x0e\x20\x9d\x04\x9e\x03"
    for pc in (0, 4, 8, 16, 24, 28):
        tables = eh_frame(True, frame)
        (folder / f"aarch64-{pc}").write_bytes(seed(5, b"", tables, b"", code, stack, pc))


if __name__ == "__main__":
    main()
