"""sp import, load and filter with the files that users have: archives, several files, unmerged and broken ones."""

import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import unittest
import urllib.parse
import zipfile

import etl_files
import support
import validate_profile
from test_import import TRACE, named_stacks, samples_by_process
from test_viewer import Server

PID = 3676
MILLISECOND = 10_000  # ticks of the made clock


def main_thread(profiler, pid):
    """The handle of the first thread of a process in profiler-cli."""
    threads = [thread for thread in profiler.threads() if str(thread["pid"]) == str(pid)]
    return threads[0]["threadHandle"]


class FilesTest(support.TestCase):
    def import_trace(self, *args):
        output = self.folder / "profile.json.gz"
        result = self.sp_ok("import", "-s", "-o", output, *args)
        profile = support.read_profile(output)
        self.assertEqual(validate_profile.validate(profile), [])
        return profile, result

    def fails(self, *args, status=1):
        """The one line that a failing sp prints."""
        result = self.sp(*args)
        self.assertEqual(result.status, status, result)
        lines = result.err.splitlines()
        self.assertEqual(len(lines), 1, result)
        self.assertEqual(result.out, "")
        return lines[0]

    def archive(self, name, *files, others=("notes.txt",)):
        path = self.folder / name
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for other in others:
                archive.writestr(other, "not a trace")
            for file in files:
                archive.write(file, f"folder/{file.name}")
        return path


@support.needs_shared_data("etl")
class RealFilesTest(FilesTest):
    """Made of a real trace, filtered to one process to be small."""

    def setUp(self):
        super().setUp()
        self.trace = self.folder / "one.etl"
        self.sp_ok("filter", "--pid", PID, TRACE, self.trace)
        self.header, self.records = etl_files.read(self.trace)

    def make(self, name, keeps):
        return etl_files.write(self.folder / name, self.header, [r for r in self.records if keeps(r)])

    def check_in_profiler(self, *args):
        """Imports and looks at the result with the Firefox Profiler's own code: it has the process, its samples and the
        functions where the time went."""
        profile, result = self.import_trace(*args)
        self.assertEqual(samples_by_process(profile), {("Test.x64.exe", str(PID)): 5129})
        if support.profiler_cli():
            profiler = self.profiler(self.folder / "profile.json.gz")
            self.assertEqual({thread["processName"] for thread in profiler.threads()}, {"Test.x64.exe"})
            functions = profiler.functions(main_thread(profiler, PID))
            self.assertEqual(functions["System.DateTime.GetDatePart(int32)"].self_weight, 1856)
            self.assertGreater(functions["Test.Program.Main(class System.String[])"].total_weight, 4400)
        return profile, result

    def test_written_anew(self):
        # What the others here rest on: this file's reading and writing changes nothing.
        whole = named_stacks(self.import_trace(self.trace)[0])
        self.assertEqual(named_stacks(self.check_in_profiler(self.make("plain.etl", lambda r: True))[0]), whole)

    def test_kernel_and_user_file(self):
        whole = named_stacks(self.import_trace(self.trace)[0])
        kernel = self.make("kernel.etl", lambda r: r.type != etl_files.EVENT64)
        user = self.make("user.etl", lambda r: r.type == etl_files.EVENT64)
        for files in ((kernel, user), (user, kernel)):
            self.assertEqual(named_stacks(self.check_in_profiler(*files)[0]), whole)
        alone, _ = self.import_trace(kernel)
        self.assertEqual(len(named_stacks(alone)), 5129)
        self.assertNotEqual(named_stacks(alone), whole)  # without names of methods
        result = self.sp_ok("import", "--list", kernel, user)
        self.assertRegex(result.out, r"5129 +3676  Test\.x64\.exe")
        self.assertIn("Microsoft-Windows-DotNETRuntime", result.out)

    def test_archives(self):
        whole = named_stacks(self.import_trace(self.trace)[0])
        kernel = self.make("kernel.etl", lambda r: r.type != etl_files.EVENT64)
        user = self.make("user.etl", lambda r: r.type == etl_files.EVENT64)
        for path in (self.archive("x.etl.zip", self.trace), self.archive("x.diagsession", user, kernel)):
            self.assertEqual(named_stacks(self.check_in_profiler(path)[0]), whole)
        self.assertIn("without an .etl file in it", self.fails("import", "-s", self.archive("none.etl.zip")))
        damaged = self.folder / "damaged.etl.zip"
        data = bytearray(self.archive("good.etl.zip", self.trace).read_bytes())
        data[len(data) // 2 : len(data) // 2 + 8] = b"\xff" * 8
        damaged.write_bytes(data)
        self.assertRegex(self.fails("import", "-s", damaged), r"damaged\.etl\.zip: folder/one\.etl: .*(damaged|checksum)")
        damaged.write_bytes(data[: len(data) // 2])
        self.assertIn("damaged.etl.zip: not a readable zip", self.fails("import", "-s", damaged))
        # A filter takes an archive with one trace in it.
        again = self.folder / "again.etl"
        self.sp_ok("filter", "--pid", PID, self.archive("x.etl.zip", self.trace), again)
        self.assertEqual(again.read_bytes(), self.trace.read_bytes())
        self.assertIn(
            "x.diagsession has 2 traces",
            self.fails("filter", "--pid", PID, self.archive("x.diagsession", user, kernel), again),
        )

    def test_unmerged(self):
        path = self.make("raw.etl", lambda r: not r.is_added_by_merging)
        profile, result = self.import_trace(path)
        self.assertEqual(len(named_stacks(profile)), 5129)
        self.assertIn("the trace was not merged", result.err)
        self.assertEqual({lib["breakpadId"].strip("0") for lib in profile["libs"]}, {""})
        self.assertIn("clr.dll", {lib["name"] for lib in profile["libs"]})

    def test_no_samples_no_stacks(self):
        silent = self.make("silent.etl", lambda r: r.group not in (etl_files.GROUP_PERFINFO, etl_files.GROUP_STACK))
        _, result = self.import_trace(silent)
        self.assertEqual(len(re.findall("the profile is empty: the trace has no CPU samples", result.err)), 1, result)
        flat = self.make("flat.etl", lambda r: r.group != etl_files.GROUP_STACK)
        profile, result = self.import_trace(flat)
        self.assertEqual(len(named_stacks(profile)), 5129)
        self.assertEqual(len(re.findall("the samples have no stacks", result.err)), 1, result)

    def test_truncated(self):
        data = self.make("plain.etl", lambda r: True).read_bytes()
        cut = self.folder / "cut.etl"
        cut.write_bytes(data[: len(data) // 2 + 1000])
        profile, result = self.import_trace(cut)
        self.assertRegex(result.err, r"the file ends in \d+ bytes that are no whole buffer: it was cut short")
        self.assertTrue(0 < len(named_stacks(profile)) < 5129)
        for size in (1000, 400, 0x70):
            cut.write_bytes(data[:size])
            self.assertIn("cut short", self.fails("import", "-s", cut))
        for size in (0x6F, 1, 0):
            cut.write_bytes(data[:size])
            self.assertRegex(self.fails("import", "-s", cut), r"cut\.etl: .*(not a trace that sp knows|is empty)")
        cut.write_bytes(data[:65536])
        _, result = self.import_trace(cut)
        self.assertIn("the profile is empty", result.err)

    def test_corrupt(self):
        data = bytearray(self.make("plain.etl", lambda r: True).read_bytes())
        for number in range(3, 6):
            data[number * 65536 + 20000 : number * 65536 + 20064] = bytes(range(1, 65))
        broken = self.folder / "broken.etl"
        broken.write_bytes(data)
        profile, result = self.import_trace(broken)
        self.assertRegex(result.err, r"[123] buffers are damaged")
        self.assertTrue(3000 < len(named_stacks(profile)) < 5129)
        names = [profile["shared"]["stringArray"][n] for t in profile["threads"] for n in t["markers"]["name"]]
        self.assertTrue([name for name in names if "Lost" in name or "lost" in name], names)

    def test_wrong_files(self):
        self.assertIn("none.etl", self.fails("import", "-s", self.folder / "none.etl"))
        self.assertRegex(self.fails("import", "-s", self.folder), "not a regular file")
        text = self.folder / "text.etl"
        text.write_text("a text\n" * 100)
        self.assertIn("text.etl: not an ETL file", self.fails("import", "-s", self.trace, text))
        for more in ([], ["--list"]):
            self.assertIn("not a trace that sp knows", self.fails("import", *more, text))
        zeros = self.folder / "zeros.etl"
        zeros.write_bytes(bytes(1 << 20))
        self.assertIn("zeros.etl: not a trace", self.fails("import", "-s", self.archive("zeros.etl.zip", zeros)))
        pipe = self.folder / "pipe.etl"
        os.mkfifo(pipe)
        for command in (["import", "-s"], ["filter", "--pid", PID]):
            self.assertIn("not a regular file", self.fails(*command, pipe, *["x"] * (command[0] == "filter")))
        self.assertIn("not a regular file", self.fails("import", "-s", self.trace, pipe))
        missing = self.folder / "no" / "x"
        self.assertIn("there is no folder", self.fails("import", "-s", "-o", missing, self.trace))
        self.assertIn("cannot", self.fails("filter", "--pid", PID, self.trace, missing))

    def test_load(self):
        temporary = self.folder / "tmp"
        temporary.mkdir()
        for trace in (self.trace, self.archive("x.etl.zip", self.trace)):
            server = Server(self, trace, env={"TMPDIR": str(temporary)})
            path = urllib.parse.urlsplit(server.profile_url).path
            status, _, body = server.ask("GET", "/" + path)
            self.assertEqual(status, 200)
            profile = json.loads(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)
            self.assertEqual(samples_by_process(profile), {("Test.x64.exe", str(PID)): 5129})
            server.stop()
            self.assertEqual(list(temporary.iterdir()), [])
        broken = self.folder / "broken.etl"
        broken.write_bytes(self.trace.read_bytes()[:300])
        self.assertIn("cut short", self.fails("load", broken))

    def test_time_range(self):
        whole = self.import_trace(self.trace)[0]
        _, result = self.import_trace(self.trace, "--time-range", "100,")
        self.assertIn("the profile is empty: no samples in the chosen time", result.err)
        before, after = (self.import_trace(self.trace, "--time-range", part)[0] for part in (",4", "4,"))
        self.assertEqual(len(named_stacks(before)) + len(named_stacks(after)), len(named_stacks(whole)))
        self.assertEqual(
            sorted(sample[2] for sample in named_stacks(before) + named_stacks(after)),
            sorted(sample[2] for sample in named_stacks(whole)),
        )


class MadeFilesTest(FilesTest):
    """Traces written here, whose contents are known by construction."""

    KERNEL, PROGRAM, LIBRARY = 0xFFFFF80000000000, 0x140000000, 0x7FF800000000

    def begin(self, **header):
        records = [
            etl_files.process(4, 0, "System", ""),
            etl_files.process(700, 4, "server.exe", "server.exe --fast"),
            etl_files.process(800, 700, "client.exe", '"C:\\a b\\client.exe" x'),
            etl_files.thread(700, 710, "Server main"),
            etl_files.thread(800, 810),
            etl_files.thread(800, 820, "Worker"),
            etl_files.image(0, self.KERNEL, 0x100000, "\\SystemRoot\\system32\\ntoskrnl.exe"),
            etl_files.image(800, self.PROGRAM, 0x10000, "\\Device\\HarddiskVolume1\\a b\\client.exe"),
            etl_files.image(800, self.LIBRARY, 0x10000, "\\Windows\\System32\\ntdll.dll"),
        ]
        return etl_files.header_event(**header), records

    def stacks(self, profile, tid):
        return [stack for thread, _, stack in named_stacks(profile) if str(thread) == str(tid)]

    @support.needs_profiler_cli()
    def test_waits(self):
        header, records = self.begin()
        for i in range(20):
            time = (10 + i * 10) * MILLISECOND
            kernel, user = [self.KERNEL + 0x100], [self.LIBRARY + 0x20, self.PROGRAM + 0x30]
            records += [
                etl_files.switch(time, 0, 820, reason=6, state=5),
                etl_files.ready(time + 6 * MILLISECOND, 820, 710, 700),
                etl_files.switch(time + 6 * MILLISECOND + 10, 820, 0),
                etl_files.stack(time + 6 * MILLISECOND + 20, time + 6 * MILLISECOND + 10, 800, 820, kernel),
                etl_files.stack(time + 6 * MILLISECOND + 30, time + 6 * MILLISECOND + 10, 800, 820, user),
                etl_files.sample(time + 8 * MILLISECOND, 820, self.PROGRAM + 0x40),
                etl_files.stack(time + 8 * MILLISECOND + 9, time + 8 * MILLISECOND, 800, 820, [self.PROGRAM + 0x40]),
            ]
        path = etl_files.write(self.folder / "waits.etl", header, records)
        profile, result = self.import_trace(path)
        self.assertIn("40 context switches and 20 wake-ups", result.err)
        self.assertIn("20 waits are shown as off-CPU samples", result.err)
        profiler = self.profiler(self.folder / "profile.json.gz")
        worker = profiler.thread("Worker")
        functions = profiler.functions(worker)
        blocked = functions["[blocked: UserRequest, woken by Server main of server.exe]"]
        # 6 ms of each 10, at a sample a millisecond.
        self.assertEqual(blocked.self_weight, 20 * 6)
        # The stack of the wait is that of the thread when it comes back: its root is the program.
        waits = [stack for stack in self.stacks(profile, 820) if stack[-1].startswith("[blocked")]
        self.assertEqual(len({stack[:-1] for stack in waits}), 1, waits)
        self.assertEqual(len(waits[0]), 4)

    def test_interrupts_and_unknown_processes(self):
        header, records = self.begin()
        dpc, isr = 1, 2
        records += [
            etl_files.sample(20 * MILLISECOND, 0, self.KERNEL + 0x10),  # idle
            etl_files.sample(21 * MILLISECOND, 0, self.KERNEL + 0x20, dpc),
            etl_files.sample(22 * MILLISECOND, 820, self.KERNEL + 0x30, isr),
            etl_files.stack(22 * MILLISECOND + 5, 22 * MILLISECOND, 800, 820, [self.KERNEL + 0x30]),
            etl_files.stack(22 * MILLISECOND + 9, 22 * MILLISECOND, 800, 820, [self.PROGRAM + 0x30]),
            etl_files.sample(23 * MILLISECOND, 999, self.PROGRAM + 0x30),
        ]
        path = etl_files.write(self.folder / "dpc.etl", header, records)
        profile, result = self.import_trace(path)
        self.assertIn("3 CPU samples (2 in DPCs and interrupts) and 1 of idle CPUs, left out", result.err)
        (stack,) = self.stacks(profile, 820)
        self.assertEqual([name for name in stack if name.startswith("[")], ["[ISR]"])
        self.assertEqual(len(stack), 3)
        (stack,) = self.stacks(profile, 0)
        self.assertIn("[DPC]", stack)
        (stack,) = self.stacks(profile, 999)
        self.assertIn("[process not in the trace]", {thread["processName"] for thread in profile["threads"]})
        profile, _ = self.import_trace(path, "--idle")
        self.assertEqual(len(self.stacks(profile, 0)), 2)

    def test_losses(self):
        header, records = self.begin(events_lost=7, buffers_lost=3)
        records.append(etl_files.sample(20 * MILLISECOND, 820, self.PROGRAM))
        path = etl_files.write(self.folder / "lost.etl", header, records)
        profile, result = self.import_trace(path)
        self.assertIn("events were lost while the trace was recorded (7 by its header)", result.err)
        self.assertIn("buffers were lost while the trace was recorded (3 by its header", result.err)
        self.assertIn("lost", str(profile["meta"].get("extra", "")) + str(profile["shared"]["stringArray"]).lower())

    def test_a_signal_leaves_nothing(self):
        header, records = self.begin()
        path = etl_files.write(self.folder / "long.etl", header, records)
        with open(path, "ab") as file:
            for i in range(2000):  # a billion samples of an idle CPU: minutes of reading
                idle = etl_files.sample((20 + i) * MILLISECOND, 0, self.KERNEL)
                file.write(etl_files.repeated(idle, 500_000, 100 + i))
        temporary, out = self.folder / "tmp", self.folder / "out"
        for args in (["import", "-s", "-o", out / "p"], ["load", "--no-open"], ["filter", "--pid", "800"]):
            for number in (signal.SIGINT, signal.SIGTERM):
                for folder in (temporary, out):
                    shutil.rmtree(folder, ignore_errors=True)
                    folder.mkdir()
                command = [support.SP, *args, path, *([out / "f.etl"] if args[0] == "filter" else [])]
                process = subprocess.Popen(
                    [str(part) for part in command], env=dict(os.environ, TMPDIR=str(temporary)), stderr=subprocess.PIPE
                )
                try:
                    support.wait_for(lambda: self.has_begun(process), "sp reads the trace")
                    process.send_signal(number)
                    err = process.communicate(timeout=support.TIMEOUT)[1]
                finally:
                    process.kill()
                    process.wait()
                self.assertEqual(process.returncode, -number, err)
                self.assertEqual(err, b"sp: cancelled\n")
                self.assertEqual([*temporary.iterdir(), *out.iterdir()], [])

    def has_begun(self, process):
        """Whether sp catches SIGINT: from then on it cleans up."""
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        caught = int(re.search(r"SigCgt:\s*([0-9a-f]+)", status)[1], 16)
        self.assertIsNone(process.poll())
        return caught >> (signal.SIGINT - 1) & 1

    @support.needs_shared_data("pdb")
    def test_symbols(self):
        # By the ID in the trace the PDB is found; another build's is not taken.
        folder, base = support.SHARED_DATA / "pdb", 0x7FF900000000
        known = json.loads(self.sp_ok("symbols", "identify", "-j", folder / "softokn3.dll").out)
        stamp, size = int(known["codeId"][:8], 16), int(known["codeId"][8:], 16)
        functions = {0x1010: "BL_Init", 0x2000: "MD2_Begin", 0x5000: "sftk_AuditCryptInit"}
        for age in ("", "f"):
            header, records = self.begin()
            debug_id = known["debugId"] + age
            records += etl_files.image_ids(800, base, size, stamp, "softokn3.dll", debug_id, "softokn3.pdb")
            records.append(etl_files.image(800, base, size, "\\Device\\HarddiskVolume1\\softokn3.dll"))
            for i, address in enumerate(functions):
                time = (20 + i) * MILLISECOND
                frames = [base + address, self.PROGRAM + 0x30]
                records += [
                    etl_files.sample(time, 820, base + address),
                    etl_files.stack(time + 5, time, 800, 820, frames),
                ]
            path = etl_files.write(self.folder / "symbols.etl", header, records)
            profile, _ = self.import_trace("--presymbolicate", "--symbol-path", folder, path)
            (lib,) = [lib for lib in profile["libs"] if lib["name"] == "softokn3.dll"]
            self.assertEqual((lib["debugName"], lib["breakpadId"]), ("softokn3.pdb", debug_id))
            self.assertEqual(lib["codeId"], known["codeId"])
            leaves = [stack[-1].split("(")[0] for stack in self.stacks(profile, 820)]
            found = leaves == list(functions.values())
            self.assertEqual(found, not age, leaves)

    def test_list_of_a_made_file(self):
        header, records = self.begin()
        records += [etl_files.sample((20 + i) * MILLISECOND, 820, self.PROGRAM) for i in range(5)]
        records.append(etl_files.perf(0x77, 3, 1, 30 * MILLISECOND, struct.pack("<Q", 1)))
        path = etl_files.write(self.folder / "list.etl", header, records)
        out = self.sp_ok("import", "--list", path).out
        self.assertRegex(out, r"\n +5  kernel: PerfInfo/Sample\n")
        self.assertRegex(out, r"\n +1  kernel: group 0x77, event 3\n")
        self.assertRegex(out, r"\n +5 +800  client\.exe\n")
        self.assertRegex(out, r"\n +0 +700  server\.exe\n")


if __name__ == "__main__":
    unittest.main()
