#!/usr/bin/env python3
"""Writes seeds for fuzz_profile into a folder: small sound recordings in the form that the target reads.

    tests/fuzz/seeds_profile.py FOLDER && build/fuzz/tests/fuzz_profile FOLDER
"""

import pathlib
import sys

# Records by number - 1 (sampler/profile/model.h), and the texts of fuzz_profile.c by number.
META, CLOCK, SOURCE, PROCESS, PROCESS_END, THREAD, THREAD_NAME, THREAD_END, MODULE, MAPPING = range(10)
UNMAPPING, JIT, SAMPLE, MARKER, COUNTER, VALUE, LOSS = range(10, 17)
EMPTY, A, MAIN, PATH, QUOTES, BAD, LABEL, F, THOUSAND, ID, ZERO, UNSAMPLED, MODE, INTERVAL, REASON, NULL = range(16)
NONE = 0xFF
KERNEL = 0xF1  # a place in the kernel

START = [
    [CLOCK, MAIN, 0, 0],
    [META, INTERVAL, THOUSAND],
    [SOURCE, 0, A, F, 0],
    [PROCESS, 0, NONE, NONE, 7, 1, MAIN, PATH],
    [THREAD, 0, 0, 7, 1, 1, MAIN],
    [MODULE, 0, 0, PATH, PATH, NULL, NULL, ID, ZERO, A, NULL, NULL],
    [MAPPING, 0, 0, 1, 0x10, 0x20, 0x10],
]


def sample(thread, time, *frames, flags=0, source=0, more=()):
    """Frames are (kind | mode << 2 | origin << 4, place)."""
    return [SAMPLE, flags, thread, source, time, *more, len(frames), *(byte for frame in frames for byte in frame)]


SEEDS = {
    "plain": [sample(0, i, (0, 0x10 + i), (1, 0x18)) for i in range(2, 12)],
    "ends": [sample(0, i, (0, 0x10), (0x31, 0x18), (0x41, 0x19), flags=i) for i in range(7)],
    "kernel": [
        [MAPPING, NONE, 0, 1, KERNEL, 0x10, KERNEL],
        sample(0, 2, (4, KERNEL), (1, 0x12)),
        sample(0, 3, flags=8, more=[UNSAMPLED]),
    ],
    "jit": [
        sample(0, 2, (0, 0x50), (1, 0x11)),
        [JIT, 0, 3, 0x50, 1, F, 0],
        sample(0, 4, (0, 0x50), (1, 0x11)),
        [JIT, 0, 5, 0x40, 0x40, A, 1],
        sample(0, 6, (0, 0x60), (1, 0x11)),
        [UNMAPPING, 0, 7, 0x10, 1],
        sample(0, 8, (0, 0x10), (1, 0x11)),
    ],
    "processes": [
        sample(0, 2, (0, 0x10)),
        [THREAD_NAME, 0, 3, QUOTES],
        [PROCESS_END, 0, 4],
        [PROCESS, 1, 0, NONE, 7, 5, A, NULL],
        [THREAD, 1, 1, 7, 5, 1, BAD],
        [MAPPING, 1, 0, 5, 0x10, 0x20, 0x08],
        [THREAD, 2, 1, 8, 5, 0, F],
        sample(1, 6, (0, 0x10)),
        sample(2, 7, (0, 0x11)),
        [THREAD_END, 2, 8],
        [PROCESS, 2, NONE, 1, 7, 9, MAIN, PATH],
        [THREAD, 3, 2, 7, 9, 1, MAIN],
        sample(3, 10, (0, 0x10)),
    ],
    "markers": [
        [MARKER, 0, 2, 5, QUOTES, A],
        [MARKER, NONE, 3, 3, MAIN, NULL],
        [LOSS, 0, NONE, 1, 4, 4, 9],
        [LOSS, 2, 0, NONE, 4, 8, 0],
        [COUNTER, 0, 0, A, F, MAIN, PATH],
        [VALUE, 0, 6, 0, 0, 0, 0, 0, 0, 0, 1],
        [SOURCE, 1, F, F, 1],
        [SOURCE, 2, LABEL, F, 0],
        sample(0, 7, (0, 0x10), source=1, flags=16),
        sample(0, 8, (0, 0x10), source=2, flags=64, more=[0, 0, 0, 0, 1, 0, 0, 0]),
    ],
    "empty": [[META, REASON, A]],
}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, records) in enumerate(SEEDS.items()):
        data = bytes([number % 3 | (number << 2 & 0x3C)]) + bytes(byte for r in START + records for byte in r)
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
