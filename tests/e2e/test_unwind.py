"""Unwinding real stacks of a compiler: libdw on the same dumps, and splicing against the whole stacks."""

import re
import struct
import subprocess
import unittest

import support

BENCH = support.ROOT / "tests" / "bench"
UNWIND_DUMPS = support.BUILD / "tests" / "unwind_dumps"


def frame_lists(path):
    """What unwind_dumps --result wrote: a list of addresses for each sample."""
    data, at, lists = path.read_bytes(), 0, []
    while at < len(data):
        (count,) = struct.unpack_from("=Q", data, at)
        lists.append(struct.unpack_from(f"={count}Q", data, at + 8))
        at += 8 + 8 * count
    return lists


@unittest.skipIf(not UNWIND_DUMPS.exists(), "unwind_dumps is for x86-64")
@support.needs_root()
@support.needs_perf_event()
class RealStacks(support.TestCase):
    def setUp(self):
        super().setUp()
        dump_stacks = support.build_program(BENCH / "dump-stacks.c", "-O2", "-D_GNU_SOURCE")
        source, self.dump = self.folder / "large.cpp", self.folder / "dump"
        subprocess.run([BENCH / "make-large-cpp", source, "--units", "4"], check=True)
        compiler = ["g++", "-O2", "-c", source, "-o", "/dev/null"]
        subprocess.run([dump_stacks, "-F", "500", "-o", self.dump, *compiler], check=True, capture_output=True)

    def unwind(self, *options):
        return subprocess.run([UNWIND_DUMPS, *options, self.dump], capture_output=True, text=True, check=False)

    def test_frame_lists_are_libdws(self):
        ours, theirs = self.folder / "sp", self.folder / "libdw"
        result = self.unwind("--passes", "1", "--result", ours)
        self.assertEqual(result.returncode, 0, result.stderr)
        result = self.unwind("--engine", "libdw", "--passes", "1", "--result", theirs)
        if result.returncode == 3:
            self.skipTest("no libdw in this build")
        self.assertEqual(result.returncode, 0, result.stderr)
        ours, theirs = frame_lists(ours), frame_lists(theirs)
        self.assertEqual(len(ours), len(theirs))
        self.assertGreater(len(ours), 200)
        # libdw 0.190 gives up some stacks after a frame or two that sp follows to the root: no contradiction.
        shorter = [i for i, (a, b) in enumerate(zip(ours, theirs)) if len(b) < len(a) and a[: len(b)] == b]
        self.assertLessEqual(len(shorter), len(ours) // 100, shorter)
        different = [i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b and i not in shorter]
        # One in a thousand; one at all is no proof of more on this few samples.
        self.assertLessEqual(len(different), max(1, len(ours) // 1000), different)

    def test_what_was_spliced_is_true(self):
        spliced = wrong = 0
        for clip in ("8192", "16384", "32768"):
            result = self.unwind("--splice", "--clip", clip)
            self.assertEqual(result.returncode, 0, result.stderr)
            counts = re.search(r"(\d+) checked: (\d+) wrong", result.stdout)
            if counts:
                spliced += int(counts[1])
                wrong += int(counts[2])
        self.assertGreater(spliced, 0, "no dump was short enough to be spliced")
        self.assertLessEqual(wrong, max(1, spliced // 100))
