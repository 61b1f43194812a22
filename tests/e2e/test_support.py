"""The tests' own tools: what they say of a profile whose answer is known must be that answer."""

import gzip
import json
import os
import pathlib
import signal

import support


def columns(length, **values):
    """A table of the profile format: scalars become columns of that value."""
    table = {key: value if isinstance(value, list) else [value] * length for key, value in values.items()}
    return {**table, "length": length}


def tiny_profile():
    """main calls work, work calls idle; 8 samples: 1 in main, 6 in work, 1 in idle."""
    category = {"name": "Other", "color": "grey", "subcategories": ["Other"]}
    frames = columns(
        3, address=-1, inlineDepth=0, category=0, subcategory=0, func=[0, 1, 2], nativeSymbol=None, innerWindowID=0,
        line=None, column=None, originalLocation=None,
    )
    functions = columns(
        3, name=[0, 1, 2], isJS=False, relevantForJS=False, resource=-1, source=None, lineNumber=None,
        columnNumber=None, originalLocation=None,
    )
    shared = {
        "stringArray": ["main", "work", "idle"],
        "stackTable": columns(3, frame=[0, 1, 2], prefixOffset=[0, 1, 1]),
        "frameTable": frames,
        "funcTable": functions,
        "nativeSymbols": columns(0, libIndex=[], address=[], name=[], functionSize=[]),
        "resourceTable": columns(0, name=[], host=[], type=[], lib=[]),
        "sources": columns(0, id=[], filename=[], startLine=[], startColumn=[], sourceMapURL=[], content=[]),
        "sourceLocationTable": columns(0, source=[], line=[], column=[]),
    }
    samples = columns(
        4, stack=[0, 1, 1, 2], time=[1, 2, 3, 4], weight=[1, 1, 5, 1], threadCPUDelta=[0, 1000, 1000, 1000]
    )
    samples["weightType"] = "samples"
    thread = {
        "processType": "default", "processStartupTime": 0, "processShutdownTime": None, "registerTime": 0,
        "unregisterTime": None, "pausedRanges": [], "name": "tiny", "isMainThread": True, "processName": "tiny",
        "pid": "1", "tid": 1, "samples": samples,
        "markers": columns(0, data=[], name=[], startTime=[], endTime=[], phase=[], category=[]),
    }
    meta = {
        "interval": 1, "startTime": 1.7e12, "processType": 0, "product": "tiny", "stackwalk": 1, "version": 24,
        "preprocessedProfileVersion": 66, "markerSchema": [], "symbolicated": True, "categories": [category],
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
    }
    return {"meta": meta, "libs": [], "pages": [], "shared": shared, "threads": [thread]}


class ProfilerTest(support.TestCase):
    def write(self, profile):
        path = self.folder / "tiny.json.gz"
        path.write_bytes(gzip.compress(json.dumps(profile).encode()))
        return path

    @support.needs_profiler_cli()
    def test_weights(self):
        path = self.write(tiny_profile())
        self.assertEqual(support.read_profile(path)["threads"][0]["name"], "tiny")
        profiler = self.profiler(path)
        functions = profiler.functions(profiler.thread("tiny"))
        weights = {name: (row.self_weight, row.total_weight) for name, row in functions.items()}
        self.assertEqual(weights, {"main": (1, 8), "work": (6, 7), "idle": (1, 1)})

    @support.needs_profiler_cli()
    def test_close_ends_the_daemon(self):
        profiler = support.Profiler(self.write(tiny_profile()))
        daemon = profiler._daemon
        self.assertIsNone(daemon.poll())
        os.kill(daemon.pid, signal.SIGSTOP)  # as if it hung
        profiler.close()
        self.assertEqual(daemon.poll(), -signal.SIGKILL)
        self.assertFalse(os.path.exists(profiler._sessions))

    @support.needs_profiler_cli()
    def test_no_profile_is_refused(self):
        path = self.folder / "x.json"
        path.write_text("{}")
        with self.assertRaisesRegex(AssertionError, "cannot load the profile"):
            support.Profiler(path)


class RunTest(support.TestCase):
    def test_run_tells_how_it_ended(self):
        result = support.run("sh", "-c", "echo out; echo err >&2; exit 3")
        self.assertEqual((result.status, result.out, result.err), (3, "out\n", "err\n"))
        self.assertEqual(support.run("sh", "-c", "kill -TERM $$").status, -signal.SIGTERM)

    def test_a_hang_is_ended_with_its_children(self):
        with self.assertRaisesRegex(AssertionError, "no end within 1 s"):
            support.run("sh", "-c", "sleep 1000 & echo $! > pid; wait", cwd=self.folder, timeout=1)
        pid = int((self.folder / "pid").read_text())
        state = pathlib.Path(f"/proc/{pid}/stat")
        support.wait_for(lambda: not state.exists() or ") Z " in state.read_text(), "the child's end")

    def test_sp_runs(self):
        self.assertRegex(self.sp_ok("--version").out, r"^sp \d+\.\d+\.\d+")
