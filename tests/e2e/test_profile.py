"""The profile writer: recordings whose answer is known, made without sampling, become profiles that the validator
passes and in which profiler-cli finds that answer."""

import collections
import gzip
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import unittest

import support
import validate_profile

TOOL = support.BUILD / "tests" / "profile_tool"
VERSIONS = validate_profile.VERSIONS
MS = 1_000_000
START = 5_000 * MS  # the recording's start on its clock
WALL = 1_800_000_000_123 * MS

# Kinds, modes and origins of frames; ends of stacks; kinds of modules and losses (sampler/unwind/unwind.h, model.h).
IP, RETURN, ADJUSTED = range(3)
USER, KERNEL, GUEST = range(3)
EXACT, FRAME_POINTER, GUESS, SPLICED_CHAIN, SPLICED_STACK = range(5)
ROOT, DUMP_END, NO_TABLES, BAD_CFA, OTHER_STACK, DEPTH, NO_REGS = range(7)
FILE_MODULE, KERNEL_MODULE, VDSO_MODULE, ANONYMOUS_MODULE = range(4)
RING_FULL, SAMPLES_LOST, THROTTLED, LATE, BUFFER_LOST = range(5)


def big(value):
    """A number of a script; JSON readers may round those past 2^53."""
    return value if abs(value) < 2**53 else str(value)


class Recording:
    """Collects records and makes the files. The basics (clock, source) are there from the start."""

    def __init__(self, folder, basics=True):
        self.folder = folder
        self.lines = []
        self.counts = collections.Counter()
        self.time = START
        if basics:
            self.add("clock", name="CLOCK_MONOTONIC", time=START, wall_ns=big(WALL))
            self.add("source", source=0, name="cpu-clock", unit="samples", rate=1000)
            self.add("meta", key="interval-ns", value="1000000")

    def add(self, record, **fields):
        fields = {key: big(value) if isinstance(value, int) else value for key, value in fields.items()}
        self.lines.append(json.dumps({"record": record, **fields}, ensure_ascii=False))

    def new(self, space):
        self.counts[space] += 1
        return self.counts[space] - 1

    def process(self, pid=100, name="program", main=True, **fields):
        """A process, with its main thread; gives both handles."""
        process = self.new("process")
        self.add("process", process=process, pid=pid, name=name, **{"time": self.time, **fields})
        if not main:
            return process, None
        return process, self.thread(process, pid, name, main=True)

    def thread(self, process, tid, name="worker", **fields):
        thread = self.new("thread")
        self.add("thread", thread=thread, process=process, tid=tid, name=name, **{"time": self.time, **fields})
        return thread

    def module(self, name="program", debug_id=None, **fields):
        module = self.new("module")
        if debug_id is None:
            debug_id = f"{module + 1:032X}0"
        self.add("module", module=module, name=name, debug_id=debug_id, **{"path": f"/bin/{name}", **fields})
        return module

    def map(self, process, module, start, size=0x100000, **fields):
        if process is not None:
            fields["process"] = process
        self.add("mapping", module=module, start=start, size=size, **{"time": self.time, **fields})

    def program(self, start=0x10000, **fields):
        """A process with a mapped module; gives its main thread."""
        process, thread = self.process(**fields)
        self.map(process, self.module(), start)
        return thread

    def sample(self, thread, *frames, **fields):
        """A sample 1 ms after the one before. Frames are leaf first: an address, or (address, kind, mode, origin)."""
        self.time += MS
        stack = []
        for i, frame in enumerate(frames):
            frame = (frame, RETURN if i else IP) if isinstance(frame, int) else frame
            stack.append([big(value) for value in frame])
        fields = {"time": self.time, "cpu_delta": MS, **fields}
        self.add("sample", thread=thread, frames=stack, **fields)

    def write(self, name="test"):
        path = self.folder / f"{name}.recording"
        text = "".join(line + "\n" for line in self.lines)
        data = text.encode("utf-8", "surrogateescape")
        result = subprocess.run([TOOL, "record", path], input=data, capture_output=True, check=False)
        if result.returncode:
            raise AssertionError(f"profile_tool record: {result.stderr.decode(errors='replace')}")
        return path


class ProfileTestCase(support.TestCase):
    def setUp(self):
        super().setUp()
        self.recording = Recording(self.folder)

    def build(self, *options, version=66, recording=None):
        """The path of the profile, which the validator has passed; self.summary is what the writer saw."""
        source = (recording or self.recording).write()
        path = self.folder / f"profile-{version}.json.gz"
        result = support.run(TOOL, "profile", source, path, "--version", version, *options)
        self.assertEqual(result.status, 0, result)
        self.summary = json.loads(result.out)
        problems = validate_profile.validate_file(path)
        self.assertEqual(problems, [])
        return path

    def profile(self, *options, **more):
        """The profile's JSON, with helpers around it."""
        return Profile(support.read_profile(self.build(*options, **more)))


class Profile:
    """A profile's JSON and a reading of it that is independent of the front-end's."""

    def __init__(self, json_):
        self.json = json_
        self.shared = json_["shared"]
        self.strings = self.shared["stringArray"]
        self.threads = json_["threads"]

    def stack(self, index):
        """The frame numbers of a stack, leaf first."""
        table, frames = self.shared["stackTable"], []
        while index is not None:
            frames.append(table["frame"][index])
            if "prefix" in table:
                index = table["prefix"][index]
            else:
                index = index - table["prefixOffset"][index] if table["prefixOffset"][index] else None
        return frames

    def name(self, frame):
        return self.strings[self.shared["funcTable"]["name"][self.shared["frameTable"]["func"][frame]]]

    def lib(self, frame):
        resource = self.shared["funcTable"]["resource"][self.shared["frameTable"]["func"][frame]]
        return None if resource < 0 else self.strings[self.shared["resourceTable"]["name"][resource]]

    def category(self, frame):
        category = self.json["meta"]["categories"][self.shared["frameTable"]["category"][frame]]
        subcategory = category["subcategories"][self.shared["frameTable"]["subcategory"][frame]]
        return category["name"] if subcategory == "Other" else f"{category['name']}: {subcategory}"

    def stacks(self, thread=0, describe=None):
        """The stacks of a thread's samples, leaf first, each frame by name (or as `describe` says)."""
        describe = describe or self.name
        return [[describe(frame) for frame in self.stack(stack)] for stack in self.threads[thread]["samples"]["stack"]]

    def thread_names(self):
        return [(thread["pid"], thread["name"]) for thread in self.threads]

    def markers(self, thread=0):
        """(name, start, end, data) of a thread's markers."""
        table = self.threads[thread]["markers"]
        names = [self.strings[name] for name in table["name"]]
        return list(zip(names, table["startTime"], table["endTime"], table["data"]))

    def extra(self):
        sections = self.json["meta"]["extra"]
        return {section["label"]: {e["label"]: e["value"] for e in section["entries"]} for section in sections}


class OracleTest(ProfileTestCase):
    """Random call trees, counted here and by profiler-cli."""

    def random_recording(self, seed):
        """Two processes with three threads that share two libraries; gives the recording and each thread's expected
        {function: [self, total]}."""
        chance = random.Random(seed)
        recording = Recording(self.folder)
        libs = [recording.module("liba.so"), recording.module("libb.so")]
        threads = []
        for pid in (100, 200):
            process, main = recording.process(pid, f"program{pid}")
            bases = [0x7F0000000000 + pid * 0x10000000, 0x7F0080000000 + pid * 0x10000000]
            for lib, base in zip(libs, bases):
                recording.map(process, lib, base)
            threads.append((main, bases))
            if pid == 100:
                threads.append((recording.thread(process, 101, "worker"), bases))
        expected = [collections.defaultdict(lambda: [0, 0]) for _ in threads]
        for _ in range(300):
            number = chance.randrange(len(threads))
            thread, bases = threads[number]
            places = [(chance.randrange(2), 16 * chance.randrange(1, 8)) for _ in range(chance.randrange(1, 9))]
            weight = chance.choice([1, 1, 1, 2, 5])
            # A return address stands one past the call.
            frames = [bases[lib] + offset + (1 if i else 0) for i, (lib, offset) in enumerate(places)]
            recording.sample(thread, *frames, weight=weight)
            names = [hex(offset) for lib, offset in places]
            expected[number][names[0]][0] += weight
            for place in set(places):
                expected[number][hex(place[1])][1] += weight
        return recording, [{name: tuple(counts) for name, counts in thread.items()} for thread in expected]

    @support.needs_profiler_cli()
    def test_functions_self_and_total(self):
        for version in VERSIONS:
            recording, expected = self.random_recording(version)
            profiler = self.profiler(self.build(version=version, recording=recording))
            for number, thread in enumerate(expected):
                functions = profiler.functions(f"t-{number}")
                found = {name: (row.self_weight, row.total_weight) for name, row in functions.items()}
                self.assertEqual(found, thread, (version, number))

    @support.needs_profiler_cli()
    def test_call_tree(self):
        thread = self.recording.program()
        for _ in range(3):
            self.recording.sample(thread, 0x10030, 0x10021, 0x10011)
        self.recording.sample(thread, 0x10020, 0x10011)
        self.recording.sample(thread, 0x10040, 0x10021, 0x10011)
        for version in VERSIONS:
            tree = self.profiler(self.build(version=version)).tree()
            found = []

            def walk(node, depth):
                found.append((depth, node["name"], node["totalSamples"], node["selfSamples"]))
                for child in node.get("children", []):
                    walk(child, depth + 1)

            for root in tree["regularCallTree"]["children"]:
                walk(root, 0)
            self.assertEqual(
                found,
                [(0, "0x10", 5, 0), (1, "0x20", 5, 1), (2, "0x30", 3, 3), (2, "0x40", 1, 1)],
                version,
            )

    @support.needs_profiler_cli()
    def test_everything_at_once_loads(self):
        recording = self.recording
        thread = recording.program(command_line="program -x")
        recording.sample(thread, (0xFFFFFFFF81000010, IP, KERNEL), (0x10020, RETURN, USER, SPLICED_STACK), end=DUMP_END)
        recording.sample(thread, label="[kernel, not sampled]", weight=3)
        recording.add("marker", thread=thread, time=recording.time, end_time=recording.time + MS, name="span", text="t")
        recording.add("loss", kind=RING_FULL, time=recording.time, count=12, cpu=1)
        recording.add("counter", counter=0, process=0, name="RSS", category="Memory", description="", unit="bytes")
        recording.add("counter_value", counter=0, time=recording.time, delta=4096)
        for version in VERSIONS:
            profiler = self.profiler(self.build(version=version))
            self.assertEqual(profiler.functions()["[kernel, not sampled]"].self_weight, 3)
            self.assertEqual(profiler.markers()["totalMarkerCount"], 3)
            self.assertEqual(len(profiler.query("counter", "list")["counters"]), 1)
            self.assertEqual(profiler.query("profile", "info")["threadCount"], 1)
            profiler.meta()


class AddressTest(ProfileTestCase):
    def test_return_addresses_are_callers_minus_one(self):
        thread = self.recording.program()
        self.recording.sample(thread, (0x10100, IP), (0x10200, RETURN), (0x10300, ADJUSTED), (0x10400, IP))
        profile = self.profile()
        self.assertEqual(profile.stacks(), [["0x100", "0x1ff", "0x300", "0x400"]])
        frames = profile.stack(profile.threads[0]["samples"]["stack"][0])
        addresses = [profile.shared["frameTable"]["address"][frame] for frame in frames]
        self.assertEqual(addresses, [0x100, 0x1FF, 0x300, 0x400])

    def test_return_address_at_the_start_of_a_mapping(self):
        """A call that is the last instruction of one module returns to the first byte of the next."""
        process, thread = self.recording.process()
        self.recording.map(process, self.recording.module("one"), 0x10000, 0x1000)
        self.recording.map(process, self.recording.module("two"), 0x11000, 0x1000)
        self.recording.sample(thread, 0x11000, 0x11000)
        profile = self.profile()
        self.assertEqual(profile.stacks(describe=lambda f: (profile.lib(f), profile.name(f))),
                         [[("two", "0x0"), ("one", "0xfff")]])

    def test_address_zero_and_the_last(self):
        thread = self.recording.program()
        self.recording.sample(thread, 0, 0, 0xFFFFFFFFFFFFFFFF, (0xFFFFFFFFFFFFFFFF, IP, KERNEL))
        self.assertEqual(self.profile().stacks(), [["0x0", "0x0", "0xfffffffffffffffe", "0xffffffffffffffff"]])

    def test_base_is_not_the_start(self):
        process, thread = self.recording.process()
        self.recording.map(process, self.recording.module("lib"), 0x20000, base=0x1F000)
        self.recording.map(process, self.recording.module("far"), 0x200000000000, base=0x100000000000)
        self.recording.map(process, self.recording.module("before"), 0x300000, base=0x400000)
        self.recording.sample(thread, 0x20010, 0x200000000011, 0x300011)
        profile = self.profile()
        # What does not fit 31 bits (or lies before the base) must not wrap: it stays an address of no library.
        self.assertEqual(profile.stacks(describe=lambda f: (profile.lib(f), profile.name(f))),
                         [[("lib", "0x1010"), (None, "0x200000000010"), (None, "0x300010")]])

    def test_mappings_change_over_time(self):
        recording = self.recording
        process, thread = recording.process()
        one, two = recording.module("one"), recording.module("two")
        recording.sample(thread, 0x10010, 0x10021)
        recording.map(process, one, 0x10000, 0x1000)
        recording.sample(thread, 0x10010, 0x10021)
        recording.map(process, two, 0x10000, 0x20)
        recording.sample(thread, 0x10010, 0x10021)
        recording.map(process, two, 0x80000, 0x1000)  # elsewhere: nothing of the above changes
        recording.sample(thread, 0x10010, 0x10021)
        recording.add("unmapping", process=process, time=recording.time, start=0x10000, size=0x20)
        recording.sample(thread, 0x10010, 0x10021)
        recording.map(process, one, 0x10000, 0x1000)
        recording.sample(thread, 0x10010, 0x10021)
        profile = self.profile()
        libs = profile.stacks(describe=profile.lib)
        self.assertEqual(libs, [[None] * 2, ["one"] * 2, ["two", "one"], ["two", "one"], [None, "one"], ["one"] * 2])

    def test_each_process_has_its_own_addresses(self):
        recording = self.recording
        (first, one), (second, two) = recording.process(1), recording.process(2)
        recording.map(first, recording.module("one"), 0x10000)
        recording.map(second, recording.module("two"), 0x10000, base=0xF000)
        for _ in range(3):
            recording.sample(one, 0x10010, 0x10021)
            recording.sample(two, 0x10010, 0x10021)
        profile = self.profile()
        self.assertEqual(profile.stacks(0, profile.lib), [["one", "one"]] * 3)
        self.assertEqual(profile.stacks(1), [["0x1010", "0x1020"]] * 3)
        self.assertEqual(profile.stacks(1, profile.lib), [["two", "two"]] * 3)

    def test_stacks_of_equal_programs_are_shared(self):
        recording = self.recording
        module = recording.module("cc")
        for pid in range(50):
            process, thread = recording.process(pid + 1)
            recording.map(process, module, 0x10000 * (pid + 1), 0x10000)
            recording.sample(thread, 0x10000 * (pid + 1) + 16, 0x10000 * (pid + 1) + 33)
        profile = self.profile()
        self.assertEqual(profile.shared["stackTable"]["length"], 2)
        self.assertEqual(profile.shared["funcTable"]["length"], 2)

    def test_mapping_that_is_told_late(self):
        """A trace may list at its end what was mapped all the time."""
        process, thread = self.recording.process()
        self.recording.sample(thread, 0x10010, (0xFFFFFFFF81000020, IP, KERNEL))
        self.recording.map(process, self.recording.module("late"), 0x10000, time=START)
        self.recording.map(None, self.recording.module("kernel", kind=KERNEL_MODULE), 0xFFFFFFFF81000000, time=START)
        profile = self.profile()
        self.assertEqual(profile.stacks(describe=profile.lib), [["late", "kernel"]])

    def test_kernel(self):
        kernel = self.recording.module("kernel", kind=KERNEL_MODULE)
        self.recording.map(None, kernel, 0xFFFFFFFF81000000, 0x2000000)
        thread = self.recording.program()
        self.recording.sample(
            thread, (0xFFFFFFFF81000010, IP, KERNEL), (0xFFFFFFFF81000021, RETURN, KERNEL), (0x10031, RETURN, USER)
        )
        self.recording.sample(thread, (0xFFFFFFFFC0000000, IP, KERNEL))
        profile = self.profile()
        self.assertEqual(profile.stacks(), [["0x10", "0x20", "0x30"], ["0xffffffffc0000000"]])
        self.assertEqual(profile.stacks(describe=profile.lib), [["kernel", "kernel", "program"], [None]])
        self.assertEqual(profile.stacks(describe=profile.category), [["Kernel", "Kernel", "User"], ["Kernel"]])

    def test_guest(self):
        thread = self.recording.program()
        self.recording.sample(thread, (0x10010, IP, GUEST))
        profile = self.profile()
        self.assertEqual(profile.stacks(describe=lambda f: (profile.lib(f), profile.category(f))), [[(None, "Guest")]])


class JitTest(ProfileTestCase):
    def setUp(self):
        super().setUp()
        self.thread = self.recording.program()

    def jit(self, start, size, name, late=False, **fields):
        self.recording.add(
            "jit_function", process=0, time=self.recording.time, start=start, size=size, name=name, late=late, **fields
        )

    def test_function_replaced_and_gone(self):
        self.jit(0x900000, 0x100, "first")
        self.recording.sample(self.thread, 0x900010, 0x900021, 0x10010)
        self.jit(0x900000, 0x20, "second")
        self.recording.sample(self.thread, 0x900010, 0x900021, 0x10010)
        self.jit(0x900000, 0x20, "")
        self.recording.sample(self.thread, 0x900010, 0x900021, 0x10010)
        profile = self.profile()
        self.assertEqual(
            profile.stacks(),
            [["first", "first", "0xf"], ["second", "first", "0xf"], ["0x900010", "first", "0xf"]],
        )
        self.assertEqual(profile.stacks(describe=profile.category)[0], ["JIT", "JIT", "User"])

    def test_functions_of_scripts(self):
        """V8's names give function, file, line; the tiers of its compilers are one function."""
        for i, mark in enumerate("~^+*"):
            self.jit(0x900000 + i * 0x100, 0x100, f"JS:{mark}fib /path/n.js:3:15")
        self.jit(0x900400, 0x100, "JS:*fib /path/other.js:3:15")
        self.jit(0x900500, 0x100, "JS:~ node:fs:1:1")
        self.jit(0x900600, 0x100, "Builtin:ArrayPush")
        self.recording.sample(self.thread, *(0x900010 + i * 0x100 for i in range(7)))
        profile = self.profile()
        self.assertEqual(profile.stacks(), [["fib"] * 5 + ["(anonymous)", "Builtin:ArrayPush"]])
        table = profile.shared["funcTable"]
        sources = profile.shared["sources"]["filename"]
        self.assertEqual(
            sorted((profile.strings[table["name"][i]],
                    table["isJS"][i] and profile.strings[sources[table["source"][i]]],
                    table["lineNumber"][i], table["columnNumber"][i]) for i in range(table["length"])),
            sorted([("fib", "/path/n.js", 3, 15), ("fib", "/path/other.js", 3, 15), ("(anonymous)", "node:fs", 1, 1),
                    ("Builtin:ArrayPush", False, None, None)]),
        )

    def test_late_functions(self):
        """A perf map is read when the process ends: it names what was sampled before, but not what is in a file."""
        self.recording.sample(self.thread, 0x900010, 0x900101, 0x10010)
        self.jit(0x900000, 0x200, "early", late=True)
        self.jit(0x900000, 0x80, "moved here later", late=True)
        self.jit(0x10000, 0x1000, "not this", late=True)
        self.recording.sample(self.thread, 0x900010, 0x900101, 0x10010)
        profile = self.profile()
        self.assertEqual(profile.stacks(), [["moved here later", "early", "0xf"]] * 2)
        self.assertEqual(profile.stacks(describe=profile.category), [["JIT", "JIT", "User"]] * 2)

    def test_late_functions_are_those_of_the_process(self):
        other, thread = self.recording.process(200)
        self.recording.sample(self.thread, 0x900010)
        self.recording.sample(thread, 0x900010)
        self.jit(0x900000, 0x200, "mine", late=True)
        profile = self.profile()
        self.assertEqual(profile.stacks(0), [["mine"]])
        self.assertEqual(profile.stacks(1), [["0x900010"]])

    def test_forked_child_runs_its_parents_code(self):
        child, thread = self.recording.process(200, parent=0)
        self.recording.sample(thread, 0x900010)
        program, after_exec = self.recording.process(201, previous=child, parent=0)
        self.recording.sample(after_exec, 0x900010)
        self.jit(0x900000, 0x200, "parent's", late=True)
        profile = self.profile()
        self.assertEqual(profile.stacks(1), [["parent's"]])
        self.assertEqual(profile.stacks(2), [["0x900010"]])

    def test_anonymous_memory_is_jit(self):
        anonymous = self.recording.module("//anon", kind=ANONYMOUS_MODULE, debug_id="")
        self.recording.map(0, anonymous, 0x900000)
        self.recording.sample(self.thread, 0x900010, 0x900301)
        self.jit(0x900200, 0x200, "named", late=True)
        profile = self.profile()
        self.assertEqual(profile.stacks(), [["0x900010", "named"]])
        self.assertEqual(profile.stacks(describe=profile.category), [["JIT", "JIT"]])
        self.assertEqual(profile.json["libs"], [])

    def test_functions_of_one_name_are_one(self):
        for start in (0x900000, 0x901000):
            self.jit(start, 0x100, "hot")
            self.recording.sample(self.thread, start)
        profile = self.profile()
        self.assertEqual(profile.stacks(), [["hot"], ["hot"]])
        self.assertEqual(profile.shared["funcTable"]["length"], 1)

    def test_many_functions_while_samples_are_taken(self):
        for i in range(3000):
            self.jit(0x900000 + i * 0x40, 0x40, f"f{i}")
            self.recording.sample(self.thread, 0x900000 + i * 0x40, 0x10011)
        profile = self.profile()
        self.assertEqual(profile.stacks(), [[f"f{i}", "0x10"] for i in range(3000)])

    def test_kernel_function(self):
        self.recording.add("jit_function", time=START, start=0xFFFFFFFFC0000000, size=64, name="bpf_prog_1")
        self.recording.sample(self.thread, (0xFFFFFFFFC0000004, IP, KERNEL))
        profile = self.profile()
        self.assertEqual(profile.stacks(describe=lambda f: (profile.name(f), profile.category(f))),
                         [[("bpf_prog_1", "Kernel")]])


class TruthTest(ProfileTestCase):
    """What was lost, cut, guessed or not seen must be visible."""

    def setUp(self):
        super().setUp()
        self.thread = self.recording.program()

    def test_truncated_stacks(self):
        ends = [DUMP_END, NO_TABLES, BAD_CFA, OTHER_STACK, DEPTH, NO_REGS]
        for end in [ROOT, *ends]:
            self.recording.sample(self.thread, 0x10010, 0x10021, end=end)
        self.recording.sample(self.thread, end=NO_REGS)
        self.recording.sample(self.thread)
        profile = self.profile()
        stacks = profile.stacks()
        self.assertEqual(stacks[0], ["0x10", "0x20"])
        self.assertEqual(len({stack[-1] for stack in stacks[1:7]}), 6)
        for stack in stacks[1:7]:
            self.assertEqual(stack[:2], ["0x10", "0x20"])
            self.assertTrue(stack[2].startswith("[truncated: "), stack)
        self.assertEqual(stacks[7], ["[truncated: no user registers]"])
        self.assertEqual(stacks[8], ["[no stack]"])
        categories = profile.stacks(describe=profile.category)
        self.assertEqual(categories[1], ["User", "User", "Truncated"])
        self.assertEqual(self.summary["truncated"], 7)
        self.assertEqual(profile.extra()["What was and was not seen"]["Truncated stacks"], 7)
        (marker,) = [marker for marker in profile.markers() if marker[0] == "Truncated stacks"]
        self.assertEqual(marker[3], {"type": "sp-truncated", "count": 7, "share": 7 / 9})
        self.assertEqual(marker[1:3], (1, 9))

    def test_spliced_and_guessed(self):
        self.recording.sample(
            self.thread, 0x10010, (0x10021, RETURN, USER, SPLICED_CHAIN), (0x10031, RETURN, USER, SPLICED_CHAIN)
        )
        self.recording.sample(self.thread, 0x10010, (0x10021, RETURN, USER, SPLICED_STACK))
        self.recording.sample(
            self.thread, 0x10010, (0x10021, RETURN, USER, SPLICED_CHAIN), (0x10031, RETURN, USER, SPLICED_STACK)
        )
        self.recording.sample(self.thread, 0x10010, (0x10021, RETURN, USER, GUESS), (0x10031, RETURN, USER, FRAME_POINTER))
        profile = self.profile()
        chain, stack = "[spliced: callers by the kernel's frame pointers]", "[spliced: callers from an earlier stack]"
        self.assertEqual(
            profile.stacks(),
            [["0x10", chain, "0x20", "0x30"], ["0x10", stack, "0x20"], ["0x10", chain, "0x20", "0x30"], ["0x10", "0x20", "0x30"]],
        )
        categories = profile.stacks(describe=profile.category)
        self.assertEqual(categories[0][:3], ["User", "Spliced", "User: Spliced: kernel's frame pointers"])
        self.assertEqual(categories[3], ["User", "User: Guessed", "User: By frame pointer"])
        self.assertEqual((self.summary["spliced"], self.summary["guessed"]), (3, 1))
        extra = profile.extra()["What was and was not seen"]
        self.assertEqual((extra["Spliced stacks"], extra["Stacks with guessed frames"]), (3, 1))
        # One function whatever way its frames were found.
        self.assertEqual(profile.shared["funcTable"]["length"], 5)

    def test_spliced_mark_survives_the_memory_of_nodes(self):
        """The outer part is known from the first sample when the second one adds exact frames to it."""
        outer = (0x10021, RETURN, USER, SPLICED_STACK)
        self.recording.sample(self.thread, outer)
        self.recording.sample(self.thread, 0x10010, outer)
        mark = "[spliced: callers from an earlier stack]"
        self.assertEqual(self.profile().stacks(), [["0x20"], ["0x10", mark, "0x20"]])
        self.assertEqual(self.summary["spliced"], 2)

    def test_kernel_share_that_was_not_sampled(self):
        for _ in range(3):
            self.recording.sample(self.thread, 0x10010)
            self.recording.sample(self.thread, label="[kernel, not sampled]", weight=2, cpu_delta=2 * MS)
        profile = self.profile()
        self.assertEqual(profile.stacks()[1], ["[kernel, not sampled]"])
        self.assertEqual(profile.stacks(describe=profile.category)[1], ["Kernel, not sampled"])
        self.assertEqual(profile.threads[0]["samples"]["weight"], [1, 2] * 3)
        self.assertEqual(profile.extra()["What was and was not seen"]["Kernel time not sampled"], 6 / 9)
        self.assertEqual((self.summary["kernel_unsampled_ns"], self.summary["cpu_ns"]), (6 * MS, 9 * MS))

    def test_losses(self):
        for kind, count in [(RING_FULL, 5), (RING_FULL, 7), (SAMPLES_LOST, 2), (LATE, 1), (BUFFER_LOST, 3)]:
            self.recording.add("loss", kind=kind, count=count, time=START + MS, cpu=1)
        self.recording.add("loss", kind=THROTTLED, time=START + MS, end_time=START + 4 * MS, thread=self.thread)
        profile = self.profile()
        extra = profile.extra()["What was and was not seen"]
        found = {key: extra[key] for key in extra if "ost" in key or "hrottle" in key or "late" in key}
        self.assertEqual(
            found,
            {"Records lost: buffer full": 12, "Samples lost": 2, "Sampling throttled": 1, "Records too late": 1,
             "Buffers lost": 3, "Time throttled": 3},
        )
        self.assertEqual((self.summary["lost"], self.summary["throttled"]), (18, 1))
        markers = profile.markers()
        self.assertEqual(
            [(name, data["count"]) for name, _, _, data in markers if data["type"] == "sp-loss"],
            [("Records lost: buffer full", 5), ("Records lost: buffer full", 7), ("Samples lost", 2),
             ("Records too late", 1), ("Buffers lost", 3), ("Sampling throttled", 0)],
        )
        self.assertEqual([marker[1:3] for marker in markers if marker[0] == "Sampling throttled"], [(1, 4)])
        self.assertEqual(markers[0][3], {"type": "sp-loss", "count": 5, "cpu": 1})

    def test_mode_and_shortfall(self):
        for key, value in {
            "mode": "per CPU", "shortfall": "no kernel stacks", "cure": "sysctl x=1", "rate-note": "lowered", "odd": "7",
            "product": "sp", "command": "prog -x", "os": "Linux 6.1", "cpu": "Brand 3", "cpus": "8", "arch": "x86_64",
            "memory": "1024", "platform": "Linux", "host": "box",
        }.items():
            self.recording.add("meta", key=key, value=value)
        self.recording.add("meta", key="mode", value="per thread")  # the last one counts
        self.recording.sample(self.thread, 0x10010)
        profile = self.profile()
        self.assertEqual(
            profile.extra()["Recording"],
            {"Mode": "per thread", "What is missing": "no kernel stacks", "How to get it": "sysctl x=1",
             "Rate": "lowered", "Host": "box", "odd": "7", "cpu-clock": "1000 a second"},
        )
        markers = {name: data["text"] for name, _, _, data in profile.markers()}
        self.assertEqual(markers, {"Recording mode": "per thread", "Recording falls short": "no kernel stacks"})
        meta = profile.json["meta"]
        found = {key: meta[key] for key in ("product", "arguments", "oscpu", "CPUName", "logicalCPUs", "abi", "mainMemory", "platform")}
        self.assertEqual(
            found,
            {"product": "prog", "arguments": "prog -x", "oscpu": "Linux 6.1", "CPUName": "Brand 3", "logicalCPUs": 8,
             "abi": "x86_64", "mainMemory": 1024, "platform": "Linux"},
        )

    def test_title(self):
        product = lambda *options: self.profile(*options).json["meta"]["product"]
        self.assertEqual(product(), "sp")
        self.recording.add("meta", key="product", value="converted")
        self.assertEqual(product(), "converted")
        for command, name in [("/usr/bin/g++ -O2 a/b.cc", "g++"), ("prog", "prog"), ("'/my dir/x y' z", "x y"), ('"a b"', "a b")]:
            self.recording.add("meta", key="command", value=command)
            self.assertEqual(product(), name)
        self.recording.add("meta", key="profile-name", value="my build")
        self.assertEqual(product(), "my build")
        self.assertEqual(product("--name", "my name"), "my name")

    def test_shares_with_off_cpu_samples(self):
        self.recording.add("source", source=1, name="off-cpu", unit="samples", off_cpu=True)
        self.recording.sample(self.thread, 0x10010)
        for _ in range(3):
            self.recording.sample(self.thread, 0x10010, source=1, end=DUMP_END)
        self.assertEqual(self.profile().extra()["What was and was not seen"]["Share of truncated stacks"], 0.75)

    def test_unreadable_modules(self):
        process, thread = self.recording.process(5)
        for i in range(25):
            module = self.recording.module(f"lib{i}", note="cut off")
            self.recording.map(process, module, 0x100000 * (i + 1))
            self.recording.sample(thread, 0x100000 * (i + 1))
        section = self.profile().extra()["Modules that could not be read"]
        self.assertEqual((section["lib0"], section["More"], len(section)), ("cut off", 5, 21))

    def test_recording_without_a_sample(self):
        self.recording.add("meta", key="empty", value="the program never ran")
        profile = self.profile()
        self.assertEqual(profile.extra()["Recording"]["No samples"], "the program never ran")
        self.assertIn("the program never ran", [data.get("text") for _, _, _, data in profile.markers()])
        self.assertEqual(self.summary["samples"], 0)

    @support.needs_profiler_cli()
    def test_recording_of_nothing(self):
        for version in VERSIONS:
            path = self.build(version=version, recording=Recording(self.folder, basics=False))
            self.assertEqual((self.summary["processes"], self.summary["threads"]), (0, 0))
            profiler = self.profiler(path)
            self.assertEqual(len(profiler.threads()), 1)
            self.assertEqual(profiler.functions(), {})


class TimeTest(ProfileTestCase):
    def setUp(self):
        super().setUp()
        self.thread = self.recording.program()

    def test_times(self):
        self.recording.sample(self.thread, 0x10010, time=START + 1_500_999)
        self.recording.sample(self.thread, 0x10010, time=START + 1_501_000)
        self.recording.sample(self.thread, 0x10010, time=START + 4_000_001)
        profile = self.profile()
        samples = profile.threads[0]["samples"]
        self.assertEqual(samples["timeDeltas"], [1.5, 0.001, 2.499])
        meta = profile.json["meta"]
        self.assertEqual((meta["startTime"], meta["interval"]), (WALL / MS, 1))
        self.assertEqual(meta["startTimeAsClockMonotonicNanosecondsSinceBoot"], START)
        self.assertEqual((meta["profilingStartTime"], meta["profilingEndTime"]), (0, 5.000001))

    def test_sample_before_the_first_clock(self):
        self.recording.sample(self.thread, 0x10010, time=START - 3 * MS)
        self.recording.sample(self.thread, 0x10010, time=START)
        profile = self.profile()
        self.assertEqual(profile.threads[0]["samples"]["timeDeltas"], [0, 3])
        self.assertEqual(profile.json["meta"]["startTime"], WALL / MS - 3)

    def test_samples_out_of_order(self):
        for ms, address in [(5, 0x10050), (2, 0x10020), (9, 0x10090), (2, 0x10021)]:
            self.recording.sample(self.thread, address, time=START + ms * MS)
        profile = self.profile()
        self.assertEqual(profile.threads[0]["samples"]["timeDeltas"], [2, 0, 3, 4])
        self.assertEqual(profile.stacks(), [["0x20"], ["0x21"], ["0x50"], ["0x90"]])

    @support.needs_profiler_cli()
    def test_the_last_sample_is_inside(self):
        """The front-end's range is open at its end."""
        self.recording.sample(self.thread, 0x10010)
        self.recording.add("clock", name="CLOCK_MONOTONIC", time=self.recording.time, wall_ns=big(WALL))
        self.recording.sample(self.thread, 0x10010)
        self.assertEqual(self.profiler(self.build()).functions()["0x10"].total_weight, 2)

    def test_cpu_time(self):
        for delta in (1_500, 1_500, 500, 5_000_000_000, 0):
            self.recording.sample(self.thread, 0x10010, cpu_delta=delta)
        profile = self.profile()
        # Microseconds; what rounding cuts off is carried on, nothing is lost.
        self.assertEqual(profile.threads[0]["samples"]["threadCPUDelta"], [1, 2, 0, 5_000_000, 0])
        self.assertEqual(profile.json["meta"]["sampleUnits"]["threadCPUDelta"], "µs")
        self.assertEqual(self.summary["cpu_ns"], 5_000_003_500)

    def without_cpu_delta(self, **fields):
        self.recording.time += MS
        self.recording.add("sample", thread=self.thread, time=self.recording.time, frames=[[0x10010]], **fields)

    def test_unknown_cpu_time(self):
        self.without_cpu_delta()
        self.assertNotIn("threadCPUDelta", self.profile().threads[0]["samples"])
        self.recording.sample(self.thread, 0x10010)
        self.assertEqual(self.profile().threads[0]["samples"]["threadCPUDelta"], [None, 1000])

    def test_off_cpu_is_no_cpu_time(self):
        self.recording.add("source", source=1, name="off-cpu", unit="samples", off_cpu=True)
        self.recording.sample(self.thread, 0x10010)
        self.without_cpu_delta(source=1, weight=40)
        profile = self.profile()
        self.assertEqual(profile.threads[0]["samples"]["threadCPUDelta"], [1000, 0])
        self.assertEqual((self.summary["samples"], self.summary["off_cpu_samples"]), (1, 1))
        self.assertEqual(len(profile.threads), 1)

    def test_weights(self):
        for weight in (1, 2, -3, 2**40, -(2**40), 2**31, -(2**31)):
            self.recording.sample(self.thread, 0x10010, weight=weight)
        weights = self.profile().threads[0]["samples"]["weight"]
        self.assertEqual(weights, [1, 2, -3, 2**40, -(2**40), 2**31, -(2**31)])

    def test_another_source_has_its_own_thread(self):
        self.recording.add("source", source=1, name="page-faults", unit="faults")
        self.recording.sample(self.thread, 0x10010)
        self.recording.sample(self.thread, 0x10020, source=1, weight=7)
        profile = self.profile()
        self.assertEqual(profile.thread_names(), [("100", "program"), ("100", "program: page-faults")])
        self.assertEqual((profile.stacks(0), profile.stacks(1)), ([["0x10"]], [["0x20"]]))
        self.assertEqual(profile.threads[1]["samples"]["weight"], [7])


class ThreadTest(ProfileTestCase):
    def test_names(self):
        recording = self.recording
        process, main = recording.process(100, "program")
        worker = recording.thread(process, 101, "program")
        recording.thread(process, 102, "")
        for thread, name in [(main, "MainThread"), (worker, "before"), (worker, "after")]:
            recording.add("thread_name", thread=thread, time=recording.time, name=name)
        recording.process(200, "")
        profile = self.profile()
        self.assertEqual(
            profile.thread_names(),
            [("100", "program"), ("100", "after"), ("100", "thread 102"), ("200", "pid 200")],
        )
        self.assertEqual([thread["isMainThread"] for thread in profile.threads], [True, False, False, True])
        self.assertEqual([thread["processName"] for thread in profile.threads], ["program"] * 3 + ["pid 200"])

    def test_lifetimes(self):
        recording = self.recording
        process, _ = recording.process(100, time=START - 5 * MS, found=True)
        recording.time += 2 * MS
        short = recording.thread(process, 101)
        recording.add("thread_end", thread=short, time=recording.time)
        recording.add("process_end", process=process, time=recording.time + MS)
        main, worker = self.profile().threads
        times = ("processStartupTime", "processShutdownTime", "registerTime", "unregisterTime")
        self.assertEqual([main[key] for key in times], [0, 3, 0, None])
        self.assertEqual([worker[key] for key in times], [0, 3, 2, 2])

    def test_ends_before_starts(self):
        """As of a trace with a clock that went back."""
        recording = self.recording
        recording.time += 5 * MS
        process, thread = recording.process(100)
        recording.add("thread_end", thread=thread, time=START)
        recording.add("process_end", process=process, time=START)
        (thread,) = self.profile().threads
        times = ("processStartupTime", "processShutdownTime", "registerTime", "unregisterTime")
        self.assertEqual([thread[key] for key in times], [5, 5, 5, 5])

    def test_reused_pids_and_execs(self):
        recording = self.recording
        first, one = recording.process(100, "one")
        recording.sample(one, 0x10010)
        recording.add("process_end", process=first, time=recording.time)
        second, two = recording.process(100, "two")
        recording.sample(two, 0x10010)
        third, three = recording.process(100, "three", previous=second, generation=1, command_line="three -x")
        recording.sample(three, 0x10010)
        for version in VERSIONS:
            profile = self.profile(version=version)
            self.assertEqual(profile.thread_names(), [("100", "one"), ("100.1", "two"), ("100.2", "three")])
        self.assertEqual([(m[0], m[1], m[3]["text"]) for m in profile.markers(2)], [("exec", 2, "three -x")])
        self.assertEqual([thread["processShutdownTime"] for thread in profile.threads], [1, 2, None])

    def test_exec_chain(self):
        """A process that was replaced before anything was seen of it is left out: a shell's children would double."""
        recording = self.recording
        previous = {}
        for i in range(6):
            process, thread = recording.process(100, f"step{i}", generation=i, **previous)
            previous = {"previous": process}
            if i in (2, 5):
                recording.sample(thread, 0x10010)
        self.assertEqual(self.profile().thread_names(), [("100", "step2"), ("100.1", "step5")])

    def test_one_main_thread(self):
        recording = self.recording
        process, _ = recording.process(100)
        recording.thread(process, 101, "second", main=True)
        recording.thread(process, 102, "third", main=True)
        self.assertEqual([thread["isMainThread"] for thread in self.profile().threads], [True, False, False])

    def test_process_without_main_thread(self):
        recording = self.recording
        process, _ = recording.process(100, "program", main=False)
        thread = recording.thread(process, 105, "left over")
        recording.sample(thread, 0x10010)
        profile = self.profile()
        self.assertEqual(profile.thread_names(), [("100", "left over")])
        self.assertEqual(profile.threads[0]["processName"], "program")

    @support.needs_profiler_cli()
    def test_two_thousand_threads(self):
        recording = self.recording
        process, main = recording.process(100)
        recording.map(process, recording.module(), 0x10000)
        threads = [recording.thread(process, 101 + i, f"worker {i}") for i in range(2000)]
        for i, thread in enumerate(threads):
            if i % 3:
                recording.sample(thread, 0x10010 + i, 0x10009)
            if i % 2:
                recording.add("thread_end", thread=thread, time=recording.time)
        profile = self.profile()
        self.assertEqual(len(profile.threads), 2001)
        self.assertLessEqual(len(profile.json["meta"]["initialVisibleThreads"]), 16)
        profiler = self.profiler(self.folder / "profile-66.json.gz")
        self.assertEqual(len(profiler.threads()), 2001)
        self.assertEqual(profiler.functions("t-2")["0x11"].self_weight, 1)

    def test_visible_threads_are_the_busy_ones(self):
        recording = self.recording
        for pid in range(1, 31):
            process, thread = recording.process(pid)
            for _ in range(pid if pid > 10 else 0):
                recording.sample(thread, 0x10010)
        meta = self.profile().json["meta"]
        self.assertEqual(sorted(meta["initialVisibleThreads"]), [0, *range(15, 30)])
        self.assertEqual(meta["initialSelectedThreads"], [29])

    def test_threads_with_little_are_hidden(self):
        recording = self.recording
        threads = [recording.process(pid)[1] for pid in range(1, 6)]
        for thread, count in zip(threads, [0, 100, 5, 4, 1]):
            for _ in range(count):
                recording.sample(thread, 0x10010)
        self.assertEqual(sorted(self.profile().json["meta"]["initialVisibleThreads"]), [0, 1, 2])

    def test_processes_in_order_of_their_starts(self):
        """They may be told in another one."""
        recording = self.recording
        for pid, start in [(3, 30), (1, 10), (2, 20), (1, 40)]:
            recording.process(pid, f"at {start}", time=START + start * MS)
        self.assertEqual(self.profile().thread_names(), [("1", "at 10"), ("2", "at 20"), ("3", "at 30"), ("1.1", "at 40")])


class DeepStackTest(ProfileTestCase):
    @support.needs_profiler_cli()
    def test_deepest_stack(self):
        thread = self.recording.program()
        deep = [0x10000 + i * 16 for i in range(16384)]
        self.recording.sample(thread, *deep)
        self.recording.sample(thread, *deep[1:], end=DEPTH)
        profile = self.profile()
        stacks = profile.stacks()
        self.assertEqual((len(stacks[0]), len(stacks[1])), (16384, 16384))
        self.assertEqual((stacks[0][0], stacks[0][-1]), ("0x0", hex(16383 * 16 - 1)))
        profiler = self.profiler(self.folder / "profile-66.json.gz")
        self.assertEqual(profiler.functions()[hex(16383 * 16 - 1)].total_weight, 2)

    def test_recursion_by_fold(self):
        thread = self.recording.program()
        self.recording.sample(thread, 0x10020, 0x10011, 0x10011, 0x10011)
        self.recording.sample(thread, 0x10020, 0x10011, 0x10011, 0x10031)
        self.recording.sample(thread, 0x10011, 0x10011)
        self.recording.sample(thread, 0x10020, 0x10011, 0x10011, end=DUMP_END)
        profile = self.profile("--fold-recursive-prefix")
        cut = "[truncated: stack dump too short]"
        self.assertEqual(
            profile.stacks(),
            [["0x20", "0x10"], ["0x20", "0x10", "0x10", "0x30"], ["0x11", "0x10"], ["0x20", "0x10", "0x10", cut]],
        )


ODD_STRINGS = {
    "quotes": 'a"b\\c/d',
    "lines": "two\nlines\r\n\ttab",
    "controls": "bell \x07 escape \x1b nul-free \x01 del \x7f",
    "unicode": "größe 漢字 🦊 \u2028\u2029",
    "markup": "</script><!-- &amp; --> {marker.name}",
    "huge": "x" * 60000,
    "template": "std::vector<std::map<int, std::string> >::operator[](unsigned long) const",
    "prototype": "__proto__",
}


class StringTest(ProfileTestCase):
    def test_odd_names_everywhere(self):
        recording = self.recording
        expected = []
        for i, odd in enumerate(ODD_STRINGS.values()):
            process, thread = recording.process(100 + i, odd, command_line=f"{odd} {odd}")
            recording.map(process, recording.module(odd, path=f"/x/{odd}"), 0x10000)
            recording.add("jit_function", process=process, time=START, start=0x900000, size=16, name=odd)
            recording.add("marker", thread=thread, time=recording.time, name=odd, text=odd)
            recording.add("meta", key=odd, value=odd)
            recording.sample(thread, 0x10010, 0x900001)
            recording.sample(thread, label=odd)
            expected.append(odd)
        for version in VERSIONS:
            profile = self.profile(version=version)
            self.assertEqual([thread["name"] for thread in profile.threads], expected)
            for i, odd in enumerate(expected):
                self.assertEqual(profile.stacks(i), [["0x10", odd], [odd]])
                self.assertIn(odd, [data.get("text") for _, _, _, data in profile.markers(i)])
                lib = next(lib for lib in profile.json["libs"] if lib["path"] == f"/x/{odd}")
                self.assertEqual(lib["debugName"], odd.rsplit("/", 1)[-1])
                self.assertEqual(profile.extra()["Recording"][odd], odd)

    @support.needs_profiler_cli()
    def test_odd_names_load(self):
        thread = self.recording.program(name=ODD_STRINGS["quotes"])
        for i, odd in enumerate(ODD_STRINGS.values()):
            self.recording.add("jit_function", process=0, time=START, start=0x900000 + i * 16, size=16, name=odd)
            self.recording.sample(thread, 0x900000 + i * 16)
        tree = self.profiler(self.build()).tree()["regularCallTree"]
        found = {node["name"]: node["totalSamples"] for node in tree["children"]}
        for odd in ODD_STRINGS.values():
            self.assertEqual(found[odd], 1, odd)

    def test_broken_utf8(self):
        """Bytes that are no UTF-8 become U+FFFD; two names that then look the same stay two functions."""
        thread = self.recording.program(name="bad \udcff name")
        for i, name in enumerate(["f\udcff", "f\udcfe", "\udcc3", "cut \udce6\udcbc"]):
            self.recording.add("jit_function", process=0, time=START, start=0x900000 + i * 16, size=16, name=name)
            self.recording.sample(thread, 0x900000 + i * 16)
        path = self.folder / "p.json"
        source = self.recording.write()
        self.assertEqual(support.run(TOOL, "profile", source, path).status, 0)
        profile = Profile(validate_profile.parse(path.read_bytes()))
        self.assertEqual(profile.threads[0]["name"], "bad \ufffd name")
        self.assertEqual(validate_profile.validate(profile.json), [])
        self.assertEqual([stack[0] for stack in profile.stacks()][:2], ["f\ufffd", "f\ufffd"])
        self.assertEqual(profile.shared["funcTable"]["length"], 4)


class LibTest(ProfileTestCase):
    def libs(self, *modules, **options):
        """The libs after one sample in each of the modules (dictionaries of their fields)."""
        process, thread = self.recording.process()
        for i, fields in enumerate(modules):
            self.recording.map(process, self.recording.module(**fields), 0x1000000 * (i + 1), base=0x1000000 * (i + 1))
            self.recording.sample(thread, 0x1000000 * (i + 1) + 16 * i)
        return self.profile(**options).json["libs"]

    def test_fields(self):
        identity = {"name": "libx.so.1", "path": "/lib/libx.so.1", "debug_id": "A" * 32 + "0", "code_id": "a" * 40,
                    "arch": "x86_64"}
        for version in VERSIONS:
            self.recording = Recording(self.folder)
            (lib,) = self.libs(identity, version=version)
            self.assertEqual(
                lib,
                {"arch": "x86_64", "name": "libx.so.1", "path": "/lib/libx.so.1", "debugName": "libx.so.1",
                 "debugPath": "/lib/libx.so.1", "breakpadId": "A" * 32 + "0", "codeId": "a" * 40},
            )

    def test_separate_and_kept_symbol_files(self):
        libs = self.libs(
            {"name": "a.exe", "debug_name": "a.pdb", "debug_path": "C:\\a.pdb"},
            {"name": "[vdso]", "path": "[vdso]", "kind": VDSO_MODULE, "kept_path": "/cache/AB0"},
        )
        self.assertEqual([(lib["name"], lib["debugName"], lib["debugPath"]) for lib in libs],
                         [("a.exe", "a.pdb", "C:\\a.pdb"), ("[vdso]", "[vdso]", "/cache/AB0")])

    def test_the_same_library_twice(self):
        libs = self.libs({"name": "a.so", "debug_id": "AB0"}, {"name": "a.so", "debug_id": "AB0", "path": "/other/a.so"})
        self.assertEqual([lib["path"] for lib in libs], ["/bin/a.so"])

    def test_names_without_an_id_stay_apart(self):
        libs = self.libs(
            {"name": "a.so", "debug_id": ""}, {"name": "a.so", "debug_id": "", "path": "/other/a.so"},
            {"name": "a.so", "debug_id": ""}, {"name": "a.so", "debug_id": "AB0"},
        )
        self.assertEqual([(lib["debugName"], lib["path"]) for lib in libs],
                         [("a.so", "/bin/a.so"), ("a.so (2)", "/other/a.so"), ("a.so", "/bin/a.so")])

    def test_slashes_and_empty_names(self):
        libs = self.libs(
            {"name": "/memfd:jit (deleted)"}, {"name": "", "path": "/x/y.so"}, {"name": "", "path": ""}
        )
        self.assertEqual([lib["debugName"] for lib in libs], ["memfd:jit (deleted)", "y.so", "(unnamed)"])

    def test_id_that_is_none(self):
        (lib,) = self.libs({"name": "a.so", "debug_id": "not/hex"})
        self.assertEqual(lib["breakpadId"], "")

    def test_only_used_libraries(self):
        process, thread = self.recording.process()
        for i in range(10):
            self.recording.map(process, self.recording.module(f"lib{i}"), 0x1000000 * (i + 1))
        self.recording.sample(thread, 0x1000000 * 8)
        self.assertEqual([lib["name"] for lib in self.profile().json["libs"]], ["lib7"])

    def test_one_function_per_library_and_address(self):
        process, thread = self.recording.process()
        for i, name in enumerate(["a", "b"]):
            self.recording.map(process, self.recording.module(name), 0x1000000 * (i + 1))
            self.recording.sample(thread, 0x1000000 * (i + 1) + 16)
        self.assertEqual(self.profile().shared["funcTable"]["length"], 2)


class OptionTest(ProfileTestCase):
    def test_main_thread_only(self):
        recording = self.recording
        process, main = recording.process(100)
        worker = recording.thread(process, 101)
        for thread in (main, worker, worker):
            recording.sample(thread, 0x10010)
        profile = self.profile("--main-thread-only")
        self.assertEqual(profile.thread_names(), [("100", "program")])
        self.assertEqual(len(profile.stacks()), 1)

    def test_include_args(self):
        recording = self.recording
        for pid, line in enumerate(["prog one two three", "prog", "'a prog' 'x y' z", "", "prog  one   two "], 1):
            recording.process(pid, "prog", command_line=line)
        names = lambda count: [t["name"] for t in self.profile("--include-args", count).threads]
        self.assertEqual(names(0), ["prog"] * 5)
        self.assertEqual(names(1), ["prog one", "prog", "prog 'x y'", "prog", "prog one"])
        self.assertEqual(names(-1), ["prog one two three", "prog", "prog 'x y' z", "prog", "prog one   two"])

    def runs(self):
        """Two runs of a command, each with two workers of one name, one after the other, and a helper."""
        recording = self.recording
        module = recording.module()
        for pid in (100, 200):
            process, main = recording.process(pid)
            recording.map(process, module, 0x10000)
            workers = [recording.thread(process, pid + 1 + i, "worker") for i in range(2)]
            helper = recording.thread(process, pid + 3, "helper")
            for thread, address in [(main, 0x10000), (workers[0], 0x10010), (workers[1], 0x10020), (helper, 0x10030)]:
                recording.sample(thread, address + pid)
            for thread in (main, *workers, helper):
                recording.add("thread_end", thread=thread, time=recording.time)
            recording.add("process_end", process=process, time=recording.time)

    def test_reuse_threads(self):
        self.runs()
        profile = self.profile("--reuse-threads")
        self.assertEqual(profile.thread_names(),
                         [("100", "program"), ("100", "worker"), ("100", "worker"), ("100", "helper")])
        self.assertEqual([profile.stacks(i) for i in range(4)],
                         [[["0x64"], ["0xc8"]], [["0x74"], ["0xd8"]], [["0x84"], ["0xe8"]], [["0x94"], ["0xf8"]]])
        self.assertEqual({thread["processShutdownTime"] for thread in profile.threads}, {8})
        self.assertEqual(len(self.profile().threads), 8)

    def test_reuse_only_what_has_ended(self):
        recording = self.recording
        first, one = recording.process(100)
        second, two = recording.process(200)
        for thread in (one, two):
            recording.sample(thread, 0x10010)
        self.assertEqual(len(self.profile("--reuse-threads").threads), 2)

    def test_unknown_version(self):
        source = self.recording.write()
        result = support.run(TOOL, "profile", source, self.folder / "x.json", "--version", "65")
        self.assertEqual(result.status, 1)
        self.assertIn("profile version 65", result.err)


def debug_id(program):
    """The Breakpad ID of an ELF file: the first 16 bytes of its build ID as a little-endian GUID, and the age 0."""
    notes = support.run("readelf", "-n", program).out
    build_id = bytes.fromhex(re.search(r"Build ID: ([0-9a-f]+)", notes)[1])
    first, second, third = struct.unpack("<IHH", build_id[:8])
    return f"{first:08X}{second:04X}{third:04X}{build_id[8:16].hex().upper()}0"


class PresymbolicateTest(ProfileTestCase):
    """Names, lines and inline frames baked in, against addr2line of binutils on the same program."""

    def setUp(self):
        super().setUp()
        self.program = support.build_program("inlined.c", "-O2", "-g", "-Wl,--build-id=sha1")

    def instructions(self, function):
        """The addresses of a function's instructions."""
        text = support.run("objdump", "-d", f"--disassemble={function}", "--no-show-raw-insn", self.program).out
        return [int(address, 16) for address in re.findall(r"^ +([0-9a-f]+):", text, re.MULTILINE)]

    def addr2line(self, addresses):
        """For each address: [(function, file, line)], innermost first."""
        out = support.run("addr2line", "-a", "-f", "-i", "-e", self.program, *map(hex, addresses)).out
        chains = []
        lines = iter(out.splitlines())
        for line in lines:
            if line.startswith("0x"):
                chains.append([])
                continue
            file, number = next(lines).split(" ")[0].rsplit(":", 1)
            chains[-1].append((line, file, int(number)))
        return chains

    def record(self, **module):
        """One sample for each instruction of outermost(), called from each of main()'s in turn."""
        base = 0x555555554000
        process, thread = self.recording.process()
        fields = {"path": str(self.program), "debug_id": debug_id(self.program), "arch": "x86_64", **module}
        self.recording.map(process, self.recording.module("inlined", **fields), base)
        leaves, callers = self.instructions("outermost"), self.instructions("main")
        self.assertGreater(len(leaves), 20)
        self.stacks = [(leaf, callers[i % len(callers)]) for i, leaf in enumerate(leaves)]
        for leaf, caller in self.stacks:
            self.recording.sample(thread, base + leaf, base + caller + 1)

    @support.needs("readelf", "objdump", "addr2line", "cc")
    def test_inline_chains(self):
        self.record()
        chains = self.addr2line([address for stack in self.stacks for address in stack])
        expected = [leaf + caller for leaf, caller in zip(chains[::2], chains[1::2])]
        self.assertEqual(max(map(len, expected)), 4)  # two inlined ones in outermost(), called by main()
        for version in VERSIONS:
            profile = self.profile("--presymbolicate", version=version)
            self.assertTrue(profile.json["meta"]["symbolicated"])
            table, functions = profile.shared["frameTable"], profile.shared["funcTable"]

            def describe(frame):
                source = functions["source"][table["func"][frame]]
                file = profile.strings[profile.shared["sources"]["filename"][source]]
                return profile.name(frame), file, table["line"][frame]

            self.assertEqual(profile.stacks(describe=describe), expected)
            depths = profile.stacks(describe=lambda frame: table["inlineDepth"][frame])
            self.assertEqual([stack[:-1] for stack in depths], [list(range(len(s) - 1))[::-1] for s in expected])
            symbols = profile.shared["nativeSymbols"]
            names = [profile.strings[name] for name in symbols["name"]]
            self.assertEqual(sorted(names), ["main", "outermost"])
            start = self.instructions("outermost")[0]
            self.assertEqual(symbols["address"][names.index("outermost")], start)

    @support.needs_profiler_cli()
    @support.needs("readelf", "objdump", "addr2line", "cc")
    def test_counts(self):
        self.record()
        chains = self.addr2line([address for stack in self.stacks for address in stack])
        weights = collections.defaultdict(lambda: [0, 0])
        for leaf, caller in zip(chains[::2], chains[1::2]):
            names = [name for name, _, _ in leaf + caller]
            weights[names[0]][0] += 1
            for name in set(names):
                weights[name][1] += 1
        for version in VERSIONS:
            functions = self.profiler(self.build("--presymbolicate", version=version)).functions()
            found = {name: (row.self_weight, row.total_weight) for name, row in functions.items()}
            self.assertEqual(found, {name: tuple(counts) for name, counts in weights.items()}, version)

    @support.needs("readelf", "objdump", "cc")
    def test_module_without_symbols(self):
        """It keeps its addresses, and the log says why; the others get their names."""
        process, thread = self.recording.process(50)
        self.recording.map(process, self.recording.module("gone", path="/nowhere/gone"), 0x10000)
        self.recording.sample(thread, 0x10010, 0x10021)
        self.record()
        path = self.folder / "p.json"
        result = support.run(TOOL, "profile", self.recording.write(), path, "--presymbolicate")
        self.assertEqual(result.status, 0, result)
        self.assertRegex(result.err, "no symbols for gone: ")
        self.assertEqual(validate_profile.validate_file(path), [])
        profile = Profile(support.read_profile(path))
        self.assertEqual(profile.stacks(0), [["0x10", "0x20"]])
        self.assertIn("outermost", profile.stacks(1)[0])

    @support.needs("readelf", "objdump", "cc")
    def test_wrong_id(self):
        """Another build's symbols are worse than none."""
        self.record(debug_id="1234" * 8 + "0")
        profile = self.profile("--presymbolicate")
        self.assertTrue(all(name.startswith("0x") for stack in profile.stacks() for name in stack))

    @support.needs("readelf", "objdump", "cc")
    def test_kept_copy(self):
        """The file is gone; the copy that was kept has its symbols."""
        kept = self.folder / "kept"
        shutil.copy(self.program, kept)
        self.record(path="/nowhere/inlined", kept_path=str(kept))
        self.assertIn("outermost", self.profile("--presymbolicate").stacks()[0])


class SymbolicateTest(PresymbolicateTest):
    """The same by `sp symbolicate` of a profile that was saved without names."""

    def build(self, *options, version=66, recording=None):
        bare = super().build(version=version, recording=recording)
        path = self.folder / f"named-{version}.json.gz"
        self.sp_ok("symbolicate", "-o", path, bare)
        self.assertEqual(validate_profile.validate_file(path), [])
        return path

    @support.needs("readelf", "objdump", "cc")
    def test_module_without_symbols(self):
        process, thread = self.recording.process(50)
        self.recording.map(process, self.recording.module("gone", path="/nowhere/gone"), 0x10000)
        self.recording.sample(thread, 0x10010, 0x10021)
        self.record()
        bare = super().build()
        result = self.sp_ok("symbolicate", "-o", "p.json", bare)
        self.assertRegex(result.err, "no symbols for gone: ")
        self.assertEqual(Profile(support.read_profile(self.folder / "p.json")).stacks(0), [["0x10", "0x20"]])

    @support.needs("readelf", "objdump", "cc")
    def test_what_has_names_keeps_them(self):
        """Also what sp does not know of, and stacks of markers and allocations."""
        self.record()
        named = support.read_profile(self.build())
        self.sp_ok("symbolicate", "-o", "again.json", self.folder / "named-66.json.gz")
        self.assertEqual(support.read_profile(self.folder / "again.json"), named)

        bare = support.read_profile(self.folder / "profile-66.json.gz")
        stacks = bare["threads"][0]["samples"]["stack"]
        bare["x\u0000\"y"] = {"stack": [1, {"cause": {"stack": 0}}]}
        bare["threads"][0]["nativeAllocations"] = {"stack": [None, *stacks], "length": len(stacks) + 1}
        markers = bare["threads"][0]["markers"]
        for column in markers:
            if column not in ("length", "data"):
                markers[column] = [0] * len(stacks)
        markers["data"] = [{"type": "Text", "cause": {"time": 1, "stack": stack}} for stack in stacks]
        markers["data"][0] = None
        markers["length"] = len(stacks)
        (self.folder / "bare.json").write_text(json.dumps(bare))
        self.sp_ok("symbolicate", "-o", "bare.json", "bare.json")
        profile = support.read_profile(self.folder / "bare.json")
        self.assertEqual(profile["x\u0000\"y"], bare["x\u0000\"y"])
        thread = profile["threads"][0]
        moved = named["threads"][0]["samples"]["stack"]
        self.assertNotEqual(moved, stacks)
        self.assertEqual(thread["samples"]["stack"], moved)
        self.assertEqual(thread["nativeAllocations"]["stack"], [None, *moved])
        self.assertEqual([data and data["cause"]["stack"] for data in thread["markers"]["data"]], [None, *moved[1:]])

    @support.needs("readelf", "objdump", "cc")
    def test_what_cannot_be_named(self):
        self.record()
        bare = support.read_profile(super().build())
        self.assertEqual(self.sp("symbolicate", self.folder / "profile-66.json.gz").status, 2)
        path = self.folder / "bad.json"

        def check(message, change):
            bad = json.loads(json.dumps(bare))
            change(bad)
            path.write_text(json.dumps(bad))
            result = self.sp("symbolicate", "-o", "new.json", path)
            self.assertEqual(result.status, 1, result)
            self.assertIn(message, result.err)
            self.assertFalse((self.folder / "new.json").exists())

        shared = "shared"
        check("format 59", lambda p: p["meta"].update(preprocessedProfileVersion=59))
        check("format 71", lambda p: p["meta"].update(preprocessedProfileVersion=71))
        check("not as long as its table", lambda p: p[shared]["frameTable"]["func"].pop())
        check("has no column func", lambda p: p[shared]["frameTable"].pop("func"))
        check("no such stack", lambda p: p["threads"][0]["samples"]["stack"].append(1 << 30))
        check("does not stand before it", lambda p: p[shared]["stackTable"]["prefixOffset"].__setitem__(0, 1))
        check("has no frame", lambda p: p[shared]["stackTable"]["frame"].__setitem__(0, 1 << 30))


class FileTest(ProfileTestCase):
    def setUp(self):
        super().setUp()
        thread = self.recording.program()
        for i in range(20000):
            self.recording.sample(thread, 0x10010 + i, 0x10000 + (i * 7919) % 65536)
        self.source = self.recording.write()

    def make(self, path, **options):
        return support.run(TOOL, "profile", self.source, path, **options)

    def test_plain_and_gzip(self):
        for name in ("p.json", "p.json.gz"):
            self.assertEqual(self.make(self.folder / name).status, 0)
        plain, packed = (self.folder / "p.json").read_bytes(), (self.folder / "p.json.gz").read_bytes()
        self.assertEqual(plain, gzip.decompress(packed))
        self.assertLess(len(packed), len(plain) / 2)
        self.assertEqual(sorted(os.listdir(self.folder)), ["p.json", "p.json.gz", "test.recording"])

    def limit(self):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    def test_full_disk_keeps_what_was_there(self):
        path = self.folder / "p.json.gz"
        path.write_text("old")
        result = self.make(path, preexec=self.limit)
        self.assertEqual(result.status, 1)
        self.assertIn(f"{path}: cannot write the profile: ", result.err)
        self.assertEqual(path.read_text(), "old")
        self.assertEqual(sorted(os.listdir(self.folder)), ["p.json.gz", "test.recording"])

    def test_full_device(self):
        result = self.make("/dev/full")
        self.assertEqual(result.status, 1)
        self.assertIn("No space left on device", result.err)
        self.assertTrue(pathlib.Path("/dev/full").is_char_device())

    def test_pipe(self):
        path = self.folder / "pipe.json"
        os.mkfifo(path)
        with open(self.folder / "copy", "w+b") as copy:
            with subprocess.Popen(["cat", path], stdout=copy):
                self.assertEqual(self.make(path).status, 0)
            copy.seek(0)
            profile = json.loads(copy.read())
        self.assertEqual(validate_profile.validate(profile), [])
        self.assertTrue(path.is_fifo())

    def test_no_folder(self):
        result = self.make(self.folder / "none" / "p.json")
        self.assertEqual(result.status, 1)
        self.assertIn("cannot write beside", result.err)

    def test_file_in_the_way(self):
        path = self.folder / "p.json"
        (self.folder / "p.json.0.tmp").write_text("someone else's")
        self.assertEqual(self.make(path).status, 0)
        self.assertEqual((self.folder / "p.json.0.tmp").read_text(), "someone else's")

    def test_recording_cut_off(self):
        data = self.source.read_bytes()
        self.source.write_bytes(data[: len(data) * 2 // 3])
        self.assertEqual(self.make(self.folder / "p.json").status, 0)
        self.assertEqual(validate_profile.validate_file(self.folder / "p.json"), [])


class FollowTest(ProfileTestCase):
    def test_followed_recording(self):
        """A recording followed as it grows, large enough for the spools to move into files."""
        path = self.folder / "p.json.gz"
        result = support.run(TOOL, "synthetic", self.folder / "s.recording", path, 60000)
        self.assertEqual(result.status, 0, result)
        self.assertEqual(validate_profile.validate_file(path), [])
        profile = support.read_profile(path)
        self.assertEqual([thread["samples"]["length"] for thread in profile["threads"]], [30000, 30000])
        again = self.folder / "again.json.gz"
        self.assertEqual(support.run(TOOL, "profile", self.folder / "s.recording", again).status, 0)
        self.assertEqual(gzip.decompress(path.read_bytes()), gzip.decompress(again.read_bytes()))


if __name__ == "__main__":
    unittest.main()
