"""The validator's own tests: a good profile passes in every version, and each defect put into it is found."""

import copy
import gzip
import json

import support
import validate_profile


def columns(**values):
    return {**values, "length": len(next(iter(values.values())))}


def good_profile(version):
    """Two processes, a marker of each phase, inlined frames, a counter, allocations: something of everything."""
    strings = ["main", "work", "inlined", "libx.so", "/src/a.c", "JIT code", "go"]
    frames = columns(
        address=[16, 32, 32, -1], inlineDepth=[0, 0, 1, 0], category=[1, 1, 1, 0], subcategory=[0, 1, 1, 0],
        func=[0, 1, 2, 3], nativeSymbol=[None, 0, 0, None], innerWindowID=[0] * 4, line=[3, 5, 7, None],
        column=[None] * 4,
    )
    functions = columns(
        name=[0, 1, 2, 5], isJS=[False] * 4, relevantForJS=[False] * 4, resource=[0, 0, 0, -1],
        source=[0, 0, None, None], lineNumber=[None] * 4, columnNumber=[None] * 4,
    )
    shared = {
        "stringArray": strings,
        "frameTable": frames,
        "funcTable": functions,
        "stackTable": columns(frame=[0, 1, 2, 3], prefixOffset=[0, 1, 1, 3]),
        "nativeSymbols": columns(libIndex=[0], address=[32], name=[1], functionSize=[64]),
        "resourceTable": columns(name=[3], host=[None], type=[1], lib=[0]),
        "sources": columns(
            id=[None], filename=[4], startLine=[1], startColumn=[1], sourceMapURL=[None], content=[None]
        ),
        "sourceLocationTable": columns(source=[], line=[], column=[]),
    }
    frames["originalLocation"] = [None] * 4
    functions["originalLocation"] = [None] * 4
    if version >= 70:
        frames["lib"] = [0, 0, 0, -1]
        del shared["resourceTable"]["lib"]
    if version < 66:
        del shared["stackTable"]["prefixOffset"]
        shared["stackTable"]["prefix"] = [None, 0, 1, 0]
    if version < 61:
        del frames["originalLocation"], functions["originalLocation"], shared["sourceLocationTable"]
        shared["sources"] = columns(uuid=[None], filename=[4])
    markers = columns(
        data=[{"type": "note", "text": "x", "count": 2, "what": 6}, None, {"type": "note"}, {"type": "note"}],
        name=[6] * 4, startTime=[1, 2, 3, None], endTime=[None, 3.5, None, 4], phase=[0, 1, 2, 3], category=[0] * 4,
    )
    no_markers = columns(data=[], name=[], startTime=[], endTime=[], phase=[], category=[])
    allocations = columns(time=[1, 2], weight=[8, -8], stack=[2, None], memoryAddress=[64, 64], threadId=[1, 1])
    allocations["weightType"] = "bytes"

    def thread(pid, tid, main, samples, thread_markers):
        return {
            "name": "go", "processName": "go", "processType": "default", "pid": pid, "tid": tid, "isMainThread": main,
            "processStartupTime": 0, "processShutdownTime": None, "registerTime": 0, "unregisterTime": 9.5,
            "pausedRanges": [], "showMarkersInTimeline": True, "samples": samples, "markers": thread_markers,
        }

    first = columns(stack=[0, 2, 3, None], timeDeltas=[1, 0.5, 0, 2], weight=[1, 3, 1, -1], threadCPUDelta=[0, 5, 0, None])
    second = columns(stack=[2, 2], time=[1, 4])
    first["weightType"] = second["weightType"] = "samples"
    second["weight"] = None
    threads = [thread("7", 7, True, first, markers), thread("7", 8, False, second, no_markers)]
    threads.append(thread("7.1", "7", True, columns(stack=[], timeDeltas=[]), copy.deepcopy(no_markers)))
    threads[2]["samples"].update(weight=None, weightType="samples")
    threads[1]["nativeAllocations"] = allocations
    schema = {
        "name": "note", "tooltipLabel": "{marker.name} {marker.data.text}", "display": ["marker-chart", "marker-table"],
        "fields": [
            {"key": "text", "label": "Text", "format": "string"},
            {"key": "count", "label": "Count", "format": "integer"},
            {"key": "what", "label": "What", "format": "unique-string"},
        ],
        "graphs": [{"key": "count", "type": "bar", "color": "blue"}],
    }
    display = {
        "graphType": "line-accumulated", "unit": "bytes", "color": "orange", "markerSchemaLocation": "timeline-memory",
        "sortWeight": 20, "label": "Memory",
        "tooltipRows": [
            {"type": "value", "source": "accumulated", "format": {"unit": "bytes"}, "label": "Memory"},
            {"type": "separator"},
        ],
    }
    counter = {
        "name": "RSS", "category": "Memory", "description": "d", "pid": "7", "mainThreadIndex": 0,
        "samples": columns(time=[0, 1, 2], count=[0, 4096, -8.5]), "display": display,
    }
    meta = {
        "interval": 1, "startTime": 1.7e12, "processType": 0, "product": "go", "stackwalk": 1, "version": 24,
        "preprocessedProfileVersion": version, "symbolicated": True, "profilingStartTime": 0, "profilingEndTime": 10,
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs"}, "logicalCPUs": 2,
        "initialVisibleThreads": [0, 2], "initialSelectedThreads": [2], "markerSchema": [schema],
        "categories": [
            {"name": "Other", "color": "grey", "subcategories": ["Other"]},
            {"name": "User", "color": "yellow", "subcategories": ["Other", "Guessed"]},
        ],
        "extra": [{"label": "A", "entries": [{"label": "B", "format": "percentage", "value": 0.5}]}],
    }
    lib = {
        "arch": "x86_64", "name": "libx.so", "path": "/libx.so", "debugName": "libx.so", "debugPath": "/libx.so",
        "breakpadId": "AB0", "codeId": None,
    }
    return {
        "meta": meta, "libs": [lib], "pages": [], "counters": [counter], "shared": shared, "threads": threads,
    }


REMOVE = object()


def put(profile, path, value):
    """Sets (or takes out) what a path of keys, separated by dots, names."""
    *parents, last = [int(key) if key.lstrip("-").isdigit() else key for key in path.split(".")]
    for key in parents:
        profile = profile[key]
    if value is REMOVE:
        del profile[last]
    else:
        profile[last] = value


def row(path, value):
    """The defect of a value at a path, and what the finding must name."""
    return path, value, path.split(".")[-1] if not path.split(".")[-1].isdigit() else path.split(".")[-2]


STACKS, FRAMES, FUNCS = "shared.stackTable", "shared.frameTable", "shared.funcTable"
SYMBOLS, RESOURCES, SOURCES = "shared.nativeSymbols", "shared.resourceTable", "shared.sources"
SAMPLES, MARKERS, ALLOCATIONS = "threads.0.samples", "threads.0.markers", "threads.1.nativeAllocations"

# Defects of every version: where, what is put there, what the finding must contain.
DEFECTS = [
    # The profile as a whole, and meta.
    row("meta", REMOVE),
    row("libs", REMOVE),
    row("threads", []),
    row("shared", REMOVE),
    row("meta.interval", REMOVE),
    row("meta.interval", 0),
    row("meta.startTime", "now"),
    row("meta.preprocessedProfileVersion", 99),
    row("meta.product", ""),
    row("meta.symbolicated", REMOVE),
    row("meta.markerSchema", REMOVE),
    row("meta.sampleUnits", REMOVE),
    row("meta.sampleUnits.threadCPUDelta", "ms"),
    row("meta.profilingEndTime", REMOVE),
    row("meta.profilingEndTime", 0),
    ("meta.profilingEndTime", 3.5, "outside"),  # the last sample is at 3.5 and would be cut off
    row("meta.logicalCPUs", 0),
    row("meta.oscpu", 5),
    row("meta.initialVisibleThreads", [3]),
    row("meta.initialVisibleThreads", []),
    row("meta.initialSelectedThreads", [1]),
    row("meta.initialSelectedThreads", [-1]),
    row("meta.categories", []),
    ("meta.categories.0.color", "yellow", "grey"),
    ("meta.categories.1.color", "pink", "color"),
    ("meta.categories.1.name", "Other", "twice"),
    ("meta.categories.1.subcategories", ["Guessed", "Other"], "subcategories"),
    ("meta.categories", [{"name": str(i), "color": "grey", "subcategories": ["Other"]} for i in range(257)], "257"),
    ("meta.extra.0.entries.0.value", 1.5, "value"),
    ("meta.extra.0.entries.0.format", "percent", "format"),
    row("meta.extra.0.label", ""),
    # Marker schemas.
    ("meta.markerSchema.0.name", "IPC", "front-end"),
    ("meta.markerSchema.0.display", ["chart"], "display"),
    ("meta.markerSchema.0.fields.0.format", "text", "format"),
    row("meta.markerSchema.0.fields", REMOVE),
    row("meta.markerSchema.0.display", REMOVE),
    ("meta.markerSchema.0.fields.1.key", "text", "twice"),
    ("meta.markerSchema.0.tooltipLabel", "{marker.data.nothing}", "nothing"),
    ("meta.markerSchema.0.tooltipLabel", "{name}", "tooltipLabel"),
    ("meta.markerSchema.0.graphs.0.key", "nothing", "graphs"),
    ("meta.markerSchema.0.graphs.0.color", "pink", "graphs"),
    # Libraries.
    row("libs.0.debugName", "a/b"),
    row("libs.0.debugName", ""),
    row("libs.0.breakpadId", None),
    row("libs.0.codeId", REMOVE),
    row("libs.0.arch", REMOVE),
    row("libs.0.path", REMOVE),
    ("libs", lambda libs: libs * 2, "twice"),
    ("libs", lambda libs: libs + [{**libs[0], "debugName": "unused"}], "no frame"),
    # Strings.
    ("shared.stringArray", lambda strings: strings[:-1], "index below 6"),
    ("shared.stringArray.1", None, "not a text"),
    ("shared.stringArray.1", "\ud800", "not a text"),
    ("shared.stringArray.1", "main", "twice"),
    # Stacks.
    row(f"{STACKS}.frame.1", 4),
    row(f"{STACKS}.frame.1", -1),
    row(f"{STACKS}.frame", [0, 1, 2]),
    row(f"{STACKS}.frame", REMOVE),
    (f"{STACKS}.length", 3, "has 4 of 3 entries"),
    row(f"{STACKS}.length", REMOVE),
    # Frames.
    row(f"{FRAMES}.func.0", 4),
    row(f"{FRAMES}.func.0", None),
    row(f"{FRAMES}.address.0", 2**31),
    row(f"{FRAMES}.address.0", -2),
    row(f"{FRAMES}.address.0", -1),
    row(f"{FRAMES}.address.3", 5),
    row(f"{FRAMES}.inlineDepth.0", 256),
    row(f"{FRAMES}.inlineDepth.0", None),
    row(f"{FRAMES}.category.0", 2),
    row(f"{FRAMES}.subcategory.0", 2),
    row(f"{FRAMES}.subcategory.3", 1),
    row(f"{FRAMES}.subcategory.0", None),
    row(f"{FRAMES}.nativeSymbol.1", 1),
    row(f"{FRAMES}.innerWindowID.0", None),
    row(f"{FRAMES}.line.0", 0),
    row(f"{FRAMES}.line", [3]),
    row(f"{FRAMES}.column", REMOVE),
    row(f"{FRAMES}.implementation", [None] * 4),
    ("shared.frameTable.inlineDepth.2", 2, "inlined"),
    ("shared.frameTable.address.2", 33, "inlined"),
    ("shared.frameTable.nativeSymbol.2", None, "inlined"),
    ("shared.frameTable.inlineDepth.0", 1, "root"),
    # Functions, symbols, resources, sources.
    row(f"{FUNCS}.name.0", 7),
    row(f"{FUNCS}.resource.0", 1),
    row(f"{FUNCS}.resource.0", None),
    row(f"{FUNCS}.source.0", 1),
    row(f"{FUNCS}.source.0", -1),
    row(f"{FUNCS}.isJS.0", None),
    row(f"{FUNCS}.relevantForJS", REMOVE),
    ("shared.funcTable", lambda t: {**t, "name": [0, 0, 2, 5]}, "fall apart"),
    row(f"{SYMBOLS}.libIndex.0", 1),
    row(f"{SYMBOLS}.functionSize.0", -1),
    row(f"{SYMBOLS}.address.0", 2**31),
    row(f"{RESOURCES}.type.0", 6),
    row(f"{RESOURCES}.name.0", None),
    row(f"{SOURCES}.filename.0", 99),
    row("shared.sources", REMOVE),
    ("meta.symbolicated", False, "symbolicated"),
    # Threads.
    row("threads.0.pid", 7),
    row("threads.0.pid", "7-1"),
    row("threads.0.pid", REMOVE),
    row("threads.0.tid", None),
    row("threads.0.name", ""),
    row("threads.0.isMainThread", REMOVE),
    ("threads.1.isMainThread", True, "main threads"),
    ("threads.1.processName", "other", "elsewhere"),
    row("threads.0.processStartupTime", -1),
    row("threads.0.registerTime", None),
    row("threads.0.registerTime", 9.6)[:2] + ("unregisterTime",),
    row("threads.0.unregisterTime", REMOVE),
    row("threads.0.pausedRanges", REMOVE),
    row("threads.0.processType", REMOVE),
    row("threads.0.samples", REMOVE),
    row("threads.0.markers", REMOVE),
    row("threads.0.stackTable", {}),
    # Samples.
    row(f"{SAMPLES}.stack.1", 4),
    row(f"{SAMPLES}.stack", [0]),
    row(f"{SAMPLES}.timeDeltas.1", -0.5),
    row(f"{SAMPLES}.timeDeltas.1", None),
    row(f"{SAMPLES}.timeDeltas.1", float("nan")),
    row(f"{SAMPLES}.timeDeltas", [1, 0.5, 0]),
    row(f"{SAMPLES}.timeDeltas.3", 8.5),
    row(f"{SAMPLES}.time", [1, 2, 3, 4]),
    row(f"{SAMPLES}.weight", [1]),
    row(f"{SAMPLES}.weight.0", None),
    row(f"{SAMPLES}.weight", REMOVE),
    row(f"{SAMPLES}.weightType", "counts"),
    row(f"{SAMPLES}.weightType", REMOVE),
    row(f"{SAMPLES}.threadCPUDelta.1", -1),
    row(f"{SAMPLES}.threadCPUDelta", [0]),
    ("threads.1.samples.time", [4, 1], "before"),
    ("threads.1.samples.time", REMOVE, "time"),
    # Markers.
    row(f"{MARKERS}.name.0", 7),
    row(f"{MARKERS}.phase.0", 4),
    row(f"{MARKERS}.category.0", 2),
    row(f"{MARKERS}.category", REMOVE),
    row(f"{MARKERS}.startTime.0", None),
    row(f"{MARKERS}.endTime.1", None),
    row(f"{MARKERS}.endTime.1", 1.5),
    row(f"{MARKERS}.endTime.3", None),
    (f"{MARKERS}.data.0.type", "unknown", "schema"),
    (f"{MARKERS}.data.0.other", 1, "no such field"),
    (f"{MARKERS}.data.0.count", "2", "count"),
    (f"{MARKERS}.data.0.what", 7, "what"),
    (f"{MARKERS}.data.0.cause", {"stack": 4}, "cause"),
    # Allocations.
    (ALLOCATIONS, {"time": [], "weight": [], "stack": [], "weightType": "bytes", "length": 0}, "left out"),
    row(f"{ALLOCATIONS}.weightType", "samples"),
    row(f"{ALLOCATIONS}.time", [2, 1])[:2] + ("before",),
    row(f"{ALLOCATIONS}.memoryAddress", REMOVE),
    row(f"{ALLOCATIONS}.stack.0", 9),
    # Counters.
    row("counters.0.display", REMOVE),
    row("counters.0.display.color", "pink"),
    row("counters.0.display.graphType", "area"),
    ("counters.0.display.tooltipRows.0.source", "sum", "source"),
    row("counters.0.pid", "8"),
    row("counters.0.mainThreadIndex", 2),
    row("counters.0.mainThreadIndex", 3),
    row("counters.0.samples.count.0", 5),
    row("counters.0.samples.count", [0]),
    row("counters.0.samples.time", [2, 1, 0])[:2] + ("before",),
    row("counters.0.category", REMOVE),
]

# Defects of some versions only.
VERSION_DEFECTS = {
    60: [
        row(f"{STACKS}.prefix.1", 1),
        row(f"{STACKS}.prefix.1", 3),
        row(f"{STACKS}.prefix.1", -1),
        row(f"{STACKS}.prefix", REMOVE),
        row(f"{STACKS}.prefixOffset", [0, 1, 1, 3]),
        row(f"{RESOURCES}.lib", REMOVE),
        row(f"{RESOURCES}.lib.0", 1),
        row(f"{SOURCES}.uuid", REMOVE),
        row(f"{FRAMES}.originalLocation", [None] * 4),
        row("shared.sourceLocationTable", {}),
    ],
    66: [
        row(f"{STACKS}.prefixOffset.1", 2),
        row(f"{STACKS}.prefixOffset.1", -1),
        row(f"{STACKS}.prefixOffset.1", None),
        row(f"{STACKS}.prefixOffset", REMOVE),
        row(f"{STACKS}.prefix", [None, 0, 1, 0]),
        row(f"{RESOURCES}.lib", REMOVE),
        row(f"{RESOURCES}.lib.0", None),
        row(f"{FRAMES}.originalLocation", REMOVE),
        row(f"{FUNCS}.originalLocation", REMOVE),
        row(f"{FRAMES}.lib", [0, 0, 0, -1]),
        row(f"{SOURCES}.content", REMOVE),
        row(f"{SOURCES}.startLine.0", 0),
        row("shared.sourceLocationTable", REMOVE),
    ],
    70: [
        row(f"{STACKS}.prefixOffset.3", 4),
        row(f"{FRAMES}.lib", REMOVE),
        row(f"{FRAMES}.lib.0", 1),
        row(f"{FRAMES}.lib.0", None),
        row(f"{FRAMES}.lib.0", -1)[:2] + ("address",),
        row(f"{RESOURCES}.lib", [0]),
        row("shared.sourceLocationTable", REMOVE),
    ],
}


class ValidatorTest(support.TestCase):
    def test_good_profiles(self):
        for version in validate_profile.VERSIONS:
            self.assertEqual(validate_profile.validate(good_profile(version)), [], version)

    @support.needs_profiler_cli()
    def test_good_profiles_are_good_to_the_front_end(self):
        for version in validate_profile.VERSIONS:
            path = self.folder / f"{version}.json"
            path.write_text(json.dumps(good_profile(version)))
            profiler = self.profiler(path)
            functions = profiler.functions("t-0")
            weights = {name: (row.self_weight, row.total_weight) for name, row in functions.items()}
            self.assertEqual(weights, {"main": (1, 5), "work": (0, 3), "inlined": (3, 3), "JIT code": (1, 1)}, version)
            self.assertEqual(profiler.markers("t-0")["totalMarkerCount"], 3)
            self.assertEqual(len(profiler.query("counter", "list")["counters"]), 1)

    def test_every_defect_is_found(self):
        for version in validate_profile.VERSIONS:
            for path, value, word in DEFECTS + VERSION_DEFECTS[version]:
                with self.subTest(version=version, path=path, value=repr(value)[:60]):
                    profile = good_profile(version)
                    if callable(value):
                        parent = profile
                        for key in path.split(".")[:-1]:
                            parent = parent[key]
                        value = value(parent[path.split(".")[-1]])
                    put(profile, path, value)
                    problems = validate_profile.validate(profile)
                    self.assertTrue(problems, "nothing was found")
                    self.assertTrue(any(word in problem for problem in problems), problems)

    def test_one_function_for_two_unsymbolicated_addresses(self):
        profile = good_profile(66)
        profile["meta"]["symbolicated"] = False
        profile["shared"]["nativeSymbols"] = columns(libIndex=[], address=[], name=[], functionSize=[])
        profile["shared"]["frameTable"].update(nativeSymbol=[None] * 4, inlineDepth=[0] * 4)
        self.assertEqual(validate_profile.validate(profile), [])
        profile["shared"]["frameTable"]["func"] = [0, 0, 2, 3]
        self.assertIn("two unsymbolicated addresses", validate_profile.validate(profile)[0])

    def test_files(self):
        text = json.dumps(good_profile(66)).encode()
        cases = [
            (text, None),
            (gzip.compress(text), None),
            (b"\n" + text, "does not start"),
            (gzip.compress(text)[:-20], "end-of-stream"),
            (text[:-1], "delimiter"),
            (text.replace(b'"interval": 1', b'"interval": NaN'), "NaN"),
            (text.replace(b'"interval": 1', b'"interval": 1, "interval": 1'), "twice"),
            (text.replace(b"libx", b"lib\xff", 1), "utf-8"),
        ]
        for data, word in cases:
            path = self.folder / "profile.json"
            path.write_bytes(data)
            problems = validate_profile.validate_file(path)
            if word is None:
                self.assertEqual(problems, [])
            else:
                self.assertEqual(len(problems), 1, problems)
                self.assertIn(word, problems[0])

    def test_command(self):
        good, bad = self.folder / "good.json", self.folder / "bad.json"
        good.write_text(json.dumps(good_profile(66)))
        bad.write_text("{}")
        result = support.run(validate_profile.__file__, good)
        self.assertEqual((result.status, result.out), (0, ""))
        result = support.run(validate_profile.__file__, good, bad)
        self.assertEqual((result.status, result.out), (1, f"{bad}: profile.meta: missing\n"))
