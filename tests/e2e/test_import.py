"""sp import: traces of other tools become profiles that the Firefox Profiler reads."""

import collections
import os
import unittest

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
        profile, result, _ = self.import_trace()
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
        _, result, _ = self.import_trace("--pid", "99999")
        self.assertIn("the profile is empty: the trace has no such process", result.err)

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

    def test_not_a_trace(self):
        text = self.folder / "x.etl"
        text.write_bytes(b"nothing of the kind" * 50)
        result = self.sp("import", "-s", text)
        self.assertEqual(result.status, 1)
        self.assertIn("not a trace that sp knows", result.err)
        self.assertEqual(self.sp("import").status, 2)
        self.assertEqual(self.sp("import", "--time-range", "5,4", text).status, 2)


if __name__ == "__main__":
    unittest.main()
