"""sp import: traces of other tools become profiles that the Firefox Profiler reads."""

import collections
import json
import os
import unittest
import zipfile

import etl_files
import support
import validate_profile

TRACE = support.SHARED_DATA / "etl" / "net.4.5.2.x64.etl.zip"


def samples_by_process(profile):
    counts = collections.Counter()
    for thread in profile["threads"]:
        counts[thread["processName"], thread["pid"]] += thread["samples"]["length"]
    return counts


@support.needs_shared_data("etl")
class EtlTest(support.TestCase):
    """A real trace of Windows 8, whose contents other readers have counted."""

    def import_trace(self, *options, trace=TRACE):
        output = self.folder / "profile.json.gz"
        result = self.sp_ok("import", "-s", "-o", output, trace, *options)
        profile = support.read_profile(output)
        self.assertEqual(validate_profile.validate(profile), [])
        return profile, result, output

    def test_everything(self):
        profile, result, output = self.import_trace()
        counts = samples_by_process(profile)
        self.assertEqual(sum(counts.values()), 6320)
        self.assertEqual(counts["Test.x64.exe", "3676"], 5129)
        self.assertIn("kept 6320 samples, 6318 with stacks, of 33 processes", result.err)
        self.assertIn("135 in DPCs and interrupts", result.err)
        self.assertEqual(profile["meta"]["platform"], "Windows")
        self.assertEqual(profile["meta"]["oscpu"], "Windows 8 Pro (6.2, build 9200)")
        self.assertEqual(profile["meta"]["interval"], 1)
        busiest = profile["threads"][profile["meta"]["initialSelectedThreads"][0]]
        self.assertEqual((busiest["processName"], busiest["isMainThread"]), ("Test.x64.exe", True))
        libs = {lib["name"]: lib for lib in profile["libs"]}
        self.assertEqual(libs["clr.dll"]["debugName"], "clr.pdb")
        self.assertRegex(libs["clr.dll"]["breakpadId"], "^[0-9A-F]{32}[0-9a-f]+$")
        self.assertRegex(libs["clr.dll"]["codeId"], "^[0-9A-F]{8}[0-9a-f]+$")
        self.assertEqual([lib["path"] for lib in libs.values() if not lib["path"].startswith("C:\\")], [])
        if support.profiler_cli():
            shown = self.profiler(output).threads()
            self.assertEqual(len(shown), len(profile["threads"]))
            self.assertEqual(len({thread["pid"] for thread in shown}), 33)
            self.assertEqual({thread["processName"] for thread in shown}, {name for name, _ in counts})

    @support.needs_profiler_cli()
    def test_profiler_reads_it(self):
        _, _, output = self.import_trace("--pid", "3676")
        profiler = self.profiler(output)
        handle = next(thread["threadHandle"] for thread in profiler.threads() if thread["tid"] == 3680)
        functions = profiler.functions(handle)
        self.assertEqual(functions["System.DateTime.GetDatePart(int32)"].self_weight, 1856)
        self.assertGreater(functions["Test.Program.Main(class System.String[])"].total_weight, 4400)

    def test_filters(self):
        profile, _, _ = self.import_trace("--name", "test.x64")
        self.assertEqual(samples_by_process(profile), {("Test.x64.exe", "3676"): 5129})
        profile, _, _ = self.import_trace("--pid", "3676", "--time-range", "4,5")
        count = samples_by_process(profile)["Test.x64.exe", "3676"]
        self.assertTrue(900 < count <= 1000, count)
        profile, _, _ = self.import_trace("--idle")
        self.assertEqual(sum(samples_by_process(profile).values()), 79528)
        for wrong in (("--pid", "99999"), ("--name", "nosuch")):
            result = self.sp("import", "-s", "-o", "none.json.gz", *wrong, TRACE)
            self.assertEqual(result.status, 1, result)
            self.assertIn("the trace has no such process", result.err)
            self.assertEqual(list(self.folder.glob("none*")), [])
        _, result, _ = self.import_trace("--markers", "No-Such-Provider")
        self.assertIn("there is no event of No-Such-Provider", result.err)

    def test_list(self):
        result = self.sp_ok("import", "--list", TRACE)
        for line in ("79528  kernel: PerfInfo/Sample", "7046  kernel: StackWalk/KeyUser", "5129      3676  Test.x64.exe"):
            self.assertIn(line, result.out)
        self.assertEqual(os.listdir(self.folder), [])

    def test_markers(self):
        profile, _, _ = self.import_trace("--markers", "Microsoft-Windows-Kernel-File")
        names = collections.Counter()
        for thread in profile["threads"]:
            names.update(profile["shared"]["stringArray"][name] for name in thread["markers"]["name"])
        self.assertEqual(sum(names.values()) - names["Trace"] - names["Recording mode"] - names["Truncated stacks"], 562)

    def test_no_samples(self):
        _, result, _ = self.import_trace(trace=support.SHARED_DATA / "etl" / "gcevents.etl.zip")
        self.assertIn("the trace has no CPU samples: it was recorded without the sampled profile", result.err)

    def test_markers_alone(self):
        for name, markers, undecoded in (("gcevents", 67, 69), ("primitive-types", 5, 0)):
            trace = support.SHARED_DATA / "etl" / f"{name}.etl.zip"
            profile, result, output = self.import_trace("--markers", "all", trace=trace)
            self.assertIn(f"{markers} markers; of their events, the trace lacks the schema of {undecoded}\n", result.err)
            self.assertIn("the profile has markers, but no samples: the trace has no CPU samples", result.err)
            self.assertGreaterEqual(sum(len(thread["markers"]["name"]) for thread in profile["threads"]), markers)
            if support.profiler_cli():
                shown = sum(thread["markerCount"] for thread in self.profiler(output).threads())
                self.assertGreaterEqual(shown, markers)
        # What merging adds to a trace is no event of a program.
        trace = support.SHARED_DATA / "etl" / "SelfDescribingSingleEvent.etl"
        _, result, _ = self.import_trace("--markers", "all", trace=trace)
        self.assertIn("4 markers; of their events, the trace lacks the schema of 3\n", result.err)
        self.assertIn("no CPU samples\n", self.sp_ok("import", "--list", trace).out)

    def test_not_a_trace(self):
        text = self.folder / "x.etl"
        text.write_bytes(b"nothing of the kind" * 50)
        result = self.sp("import", "-s", text)
        self.assertEqual(result.status, 1)
        self.assertIn("not a trace that sp knows", result.err)
        self.assertEqual(self.sp("import").status, 2)
        self.assertEqual(self.sp("import", "--time-range", "5,4", text).status, 2)


def named_stacks(profile):
    """The samples of all threads as (tid, time, names and addresses of the stack), whatever their numbers are."""
    shared = profile["shared"]
    strings, frames, stacks = shared["stringArray"], shared["frameTable"], shared["stackTable"]
    names = [strings[shared["funcTable"]["name"][func]] for func in frames["func"]]
    whole = []
    for frame, offset in zip(stacks["frame"], stacks["prefixOffset"]):
        whole.append((whole[len(whole) - offset] if offset else ()) + (names[frame],))
    result = []
    for thread in profile["threads"]:
        time = 0
        for delta, stack in zip(thread["samples"]["timeDeltas"], thread["samples"]["stack"]):
            time += delta
            result.append((thread["tid"], round(time, 3), whole[stack]))
    return result


# Counts what dissect.etl, an independent reader, sees in a file.
DISSECT = """
import collections, json, sys
from dissect.etl.etl import ETL
counts = collections.Counter()
for record in ETL(open(sys.argv[1], "rb")):
    counts[type(record.header).__name__] += 1
print(json.dumps(counts))
"""


@support.needs_shared_data("etl")
class FilterTest(support.TestCase):
    def setUp(self):
        super().setUp()
        self.trace = self.folder / "in.etl"
        with zipfile.ZipFile(TRACE) as archive:
            self.trace.write_bytes(archive.read("net.4.5.2.x64.etl"))

    def filter(self, *options, source=None, name="out.etl"):
        output = self.folder / name
        return output, self.sp_ok("filter", source or self.trace, output, *options)

    def import_trace(self, trace, *options):
        output = self.folder / "profile.json.gz"
        self.sp_ok("import", "-s", "-o", output, trace, *options)
        return support.read_profile(output)

    def test_one_process(self):
        output, result = self.filter("--pid", "3676")
        self.assertIn("5129 samples", result.err)
        self.assertLess(output.stat().st_size, self.trace.stat().st_size / 10)
        filtered = named_stacks(self.import_trace(output))
        direct = named_stacks(self.import_trace(self.trace, "--pid", "3676"))
        self.assertEqual(len(filtered), 5129)
        self.assertEqual(filtered, direct)
        profile = self.import_trace(output)
        self.assertEqual({thread["processName"] for thread in profile["threads"]}, {"Test.x64.exe"})
        # Nothing of the other processes is left, in any encoding.
        events = b"".join(buffer.body for buffer in etl_files.buffers(output))
        for word in ("MsMpEng", "explorer.exe", "PerfView.exe"):
            self.assertFalse(word.encode() in events, word)
            self.assertFalse(word.encode("utf-16le") in events, word)
        again, _ = self.filter("--pid", "3676", source=output, name="again.etl")
        self.assertEqual(again.read_bytes(), output.read_bytes())

    def test_time_range(self):
        output, _ = self.filter("--name", "Test.x64.exe", "--time-range", "4,5")
        filtered = named_stacks(self.import_trace(output))
        direct = named_stacks(self.import_trace(self.trace, "--pid", "3676", "--time-range", "4,5"))
        # Both begin at their first event.
        self.assertEqual([sample[2] for sample in filtered], [sample[2] for sample in direct])
        again, _ = self.filter("--name", "Test.x64.exe", "--time-range", "4,5", source=output, name="again.etl")
        self.assertEqual(again.read_bytes(), output.read_bytes())

    @support.needs_dissect()
    def test_another_reader(self):
        output, result = self.filter("--pid", "3676")
        counts = support.run(support.dissect_python(), "-c", DISSECT, output)
        self.assertEqual(counts.status, 0, counts)
        kept = int(result.err.split(" of ")[0].split(": ")[-1])
        counts = json.loads(counts.out)
        self.assertEqual(sum(counts.values()), kept + 1)  # and the header event
        self.assertEqual(sorted(counts), ["EventHeader", "EventTraceHeader", "PerfinfoTraceHeader", "SystemHeader"])

    def test_usage(self):
        self.assertEqual(self.sp("filter", self.trace, self.folder / "x.etl").status, 2)
        self.assertEqual(self.sp("filter", "--pid", "1", self.trace).status, 2)
        self.assertEqual(self.sp("filter", "--pid", "1", self.folder / "none.etl", "x").status, 1)
        result = self.sp_ok("filter", "--pid", "99999", self.trace, self.folder / "x.etl")
        self.assertIn("there is no sample in it", result.err)


if __name__ == "__main__":
    unittest.main()
