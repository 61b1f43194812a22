#!/usr/bin/env python3
"""A strict check of processed Firefox Profiler profiles, versions 60, 66 and 70.

The front-end checks nothing: a wrong index shows up as a wrong number, an exception in some later view, or an endless
loop. validate() knows the rules of the format and of what sp promises on top, and names every place that breaks one.

usage: tests/e2e/validate_profile.py PROFILE...
Prints the problems, one a line; the status is 1 when there are any.
"""

import collections
import gzip
import json
import math
import pathlib
import re
import sys

VERSIONS = (60, 66, 70)
MOST_PROBLEMS = 100
INT32_MAX = 2**31 - 1
COLORS = (
    "transparent purple green orange yellow lightblue blue brown magenta red lightred darkgrey grey".split()
)
GRAPH_COLORS = "blue green grey ink magenta orange purple red teal yellow".split()
DISPLAYS = (
    "marker-chart marker-table timeline-overview timeline-memory timeline-ipc timeline-fileio timeline-network "
    "stack-chart"
).split()
NUMBER_FORMATS = (
    "duration time seconds milliseconds microseconds nanoseconds bytes percentage integer decimal".split()
)
TEXT_FORMATS = "url file-path sanitized-string string hexadecimal pid tid".split()
STRING_INDEX_FORMATS = "unique-string flow-id terminating-flow-id".split()
FORMATS = NUMBER_FORMATS + TEXT_FORMATS + STRING_INDEX_FORMATS + ["list"]
RESERVED_SCHEMAS = ("Jank", "IPC", "Network")
WEIGHT_TYPES = ("samples", "tracing-ms", "bytes")
COUNTER_SOURCES = (
    "count rate cpu-ratio accumulated count-range selection-total selection-rate committed-range-total sample-number"
).split()
COUNTER_UNITS = ("bytes", "bytes-per-second", "percent", "number")
CPU_UNITS = ("ns", "µs", "variable CPU cycles")


class Broken(Exception):
    """Enough problems, or none of the rest can be checked."""


def table_columns(version):
    """The columns of each shared table."""
    tables = {
        "stackTable": "frame prefix" if version < 66 else "frame prefixOffset",
        "frameTable": "address inlineDepth category subcategory func nativeSymbol innerWindowID line column",
        "funcTable": "name isJS relevantForJS resource source lineNumber columnNumber",
        "nativeSymbols": "libIndex address name functionSize",
        "resourceTable": "name host type" if version >= 70 else "name host type lib",
        "sources": "uuid filename" if version < 61 else "id filename startLine startColumn sourceMapURL",
    }
    if version >= 64:
        tables["frameTable"] += " originalLocation"
        tables["funcTable"] += " originalLocation"
        tables["sources"] += " content"
        tables["sourceLocationTable"] = "source line column"
    if version >= 70:
        tables["frameTable"] += " lib"
    return {name: columns.split() for name, columns in tables.items()}


def is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value):
    return is_int(value) or (isinstance(value, float) and math.isfinite(value))


def is_text(value):
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


class Validator:
    def __init__(self, profile):
        self.profile = profile
        self.problems = []

    # ---- Helpers ----

    def bad(self, where, what):
        self.problems.append(f"{where}: {what}")
        if len(self.problems) >= MOST_PROBLEMS:
            raise Broken

    def need(self, condition, where, what):
        if not condition:
            self.bad(where, what)
        return condition

    def member(self, parent, where, key, test, what, optional=False):
        """The member's value when it is there and good, else None."""
        if key not in parent:
            if not optional:
                self.bad(f"{where}.{key}", "missing")
            return None
        if not test(parent[key]):
            self.bad(f"{where}.{key}", f"is {parent[key]!r:.80}, not {what}")
            return None
        return parent[key]

    def text(self, parent, where, key, optional=False, empty=True):
        return self.member(
            parent, where, key, lambda v: is_text(v) and (empty or v), "a text" if empty else "a text with content",
            optional,
        )

    def object(self, parent, where, key):
        return self.member(parent, where, key, lambda v: isinstance(v, dict), "an object")

    def list(self, parent, where, key, optional=False):
        return self.member(parent, where, key, lambda v: isinstance(v, list), "a list", optional)

    def number(self, parent, where, key, optional=False, least=None, null=False):
        good = lambda v: (v is None and null) or (is_number(v) and (least is None or v >= least))
        return self.member(parent, where, key, good, "a number" + (f" >= {least}" if least is not None else ""), optional)

    def integer(self, parent, where, key, optional=False, least=0):
        return self.member(parent, where, key, lambda v: is_int(v) and v >= least, f"an integer >= {least}", optional)

    def boolean(self, parent, where, key, optional=False):
        return self.member(parent, where, key, lambda v: isinstance(v, bool), "true or false", optional)

    def only(self, parent, where, keys):
        for key in parent:
            self.need(key in keys, f"{where}.{key}", "no such member")

    def table(self, parent, where, columns, optional=(), other=()):
        """Checks the shape of a table and gives its length. Columns are lists of that length; `optional` ones may be
        left out, `other` are members that are no columns."""
        length = self.integer(parent, where, "length")
        if length is None:
            raise Broken
        self.only(parent, where, (*columns, *optional, *other, "length"))
        sound = True
        for column in (*columns, *optional):
            if column not in parent:
                sound = self.need(column in optional, f"{where}.{column}", "missing") and sound
                continue
            values = parent[column]
            if not self.need(isinstance(values, list), f"{where}.{column}", "is not a list"):
                sound = False
            elif not self.need(len(values) == length, f"{where}.{column}", f"has {len(values)} of {length} entries"):
                sound = False
        if not sound:
            raise Broken
        return length

    def column(self, table, where, name, test, what):
        for i, value in enumerate(table[name]):
            if not test(value):
                self.bad(f"{where}.{name}[{i}]", f"is {value!r:.80}, not {what}")

    def indexes(self, table, where, name, count, null=False, none=False):
        """A column of numbers below count; also null or -1 where asked."""
        what = f"an index below {count}" + (" or null" if null else "") + (" or -1" if none else "")
        good = lambda v: (null and v is None) or (none and v == -1 and is_int(v)) or (is_int(v) and 0 <= v < count)
        self.column(table, where, name, good, what)

    # ---- Meta ----

    def meta(self):
        meta = self.object(self.profile, "profile", "meta")
        if meta is None:
            raise Broken
        where = "meta"
        self.version = self.member(
            meta, where, "preprocessedProfileVersion", lambda v: v in VERSIONS, f"one of {VERSIONS}"
        )
        if self.version is None:
            raise Broken
        self.integer(meta, where, "version")
        self.member(meta, where, "interval", lambda v: is_number(v) and v > 0, "a number > 0")
        self.number(meta, where, "startTime", least=0)
        self.member(meta, where, "processType", lambda v: v == 0 and is_int(v), "0")
        self.member(meta, where, "stackwalk", lambda v: v in (0, 1), "0 or 1")
        self.text(meta, where, "product", empty=False)
        self.symbolicated = self.boolean(meta, where, "symbolicated")
        for key in ("oscpu", "platform", "abi", "misc", "CPUName", "arguments", "importedFrom", "device"):
            self.text(meta, where, key, optional=True, empty=False)
        for key in ("logicalCPUs", "physicalCPUs", "mainMemory"):
            self.integer(meta, where, key, optional=True, least=1)
        for key in ("debug", "usesOnlyOneStackType", "sourceCodeIsNotOnSearchfox", "symbolicationNotSupported"):
            self.boolean(meta, where, key, optional=True)
        self.profiling_range(meta)
        units = self.object(meta, where, "sampleUnits")
        if units is not None:
            self.member(units, "meta.sampleUnits", "time", lambda v: v == "ms", "ms")
            self.member(units, "meta.sampleUnits", "eventDelay", lambda v: v == "ms", "ms")
            self.member(units, "meta.sampleUnits", "threadCPUDelta", lambda v: v in CPU_UNITS, f"one of {CPU_UNITS}")
        self.categories(meta)
        self.schemas(meta)
        self.extra(meta)

    def profiling_range(self, meta):
        start = self.number(meta, "meta", "profilingStartTime", optional=True)
        end = self.number(meta, "meta", "profilingEndTime", optional=True)
        self.range = None
        if not self.need((start is None) == (end is None), "meta", "only one of profilingStartTime and profilingEndTime"):
            return
        if start is not None and self.need(end > start, "meta.profilingEndTime", "is not after profilingStartTime"):
            self.range = (start, end)

    def categories(self, meta):
        self.subcategories = []
        categories = self.list(meta, "meta", "categories")
        if categories is None:
            raise Broken
        self.need(0 < len(categories) <= 256, "meta.categories", f"has {len(categories)} entries, not 1 to 256")
        names = set()
        grey = False
        for i, category in enumerate(categories):
            where = f"meta.categories[{i}]"
            name = self.text(category, where, "name", empty=False)
            self.need(name not in names, f"{where}.name", f"{name!r} is there twice")
            names.add(name)
            color = self.member(category, where, "color", lambda v: v in COLORS, "a color")
            grey = grey or color == "grey"
            subcategories = self.list(category, where, "subcategories") or []
            self.need(subcategories[:1] == ["Other"], f"{where}.subcategories", "the first one is not Other")
            self.need(all(map(is_text, subcategories)), f"{where}.subcategories", "holds what is not a text")
            self.subcategories.append(len(subcategories))
        self.need(grey, "meta.categories", "none is grey")

    def schemas(self, meta):
        self.schema = {}
        for i, schema in enumerate(self.list(meta, "meta", "markerSchema") or []):
            where = f"meta.markerSchema[{i}]"
            name = self.text(schema, where, "name", empty=False)
            self.need(name not in self.schema, f"{where}.name", f"{name!r} is there twice")
            self.need(name not in RESERVED_SCHEMAS, f"{where}.name", f"{name!r} is the front-end's own")
            for display in self.list(schema, where, "display") or []:
                self.need(display in DISPLAYS, f"{where}.display", f"{display!r} is no place")
            fields = {}
            for j, field in enumerate(self.list(schema, where, "fields") or []):
                place = f"{where}.fields[{j}]"
                key = self.text(field, place, "key", empty=False)
                self.need(key not in fields, f"{place}.key", f"{key!r} is there twice")
                self.text(field, place, "label", optional=True)
                fields[key] = self.member(field, place, "format", self.is_format, "a format")
            self.schema[name] = fields
            self.labels(schema, where, fields)
            self.graphs(schema, where, fields)

    @staticmethod
    def is_format(value):
        if isinstance(value, dict):
            return value.get("type") == "table" and isinstance(value.get("columns"), list)
        return value in FORMATS

    def labels(self, schema, where, fields):
        for key in ("tooltipLabel", "tableLabel", "chartLabel"):
            label = self.text(schema, where, key, optional=True)
            for name in re.findall(r"{([^}]*)}", label or ""):
                data = re.match(r"marker\.data\.(\w+)", name)
                if data:
                    self.need(data[1] in fields, f"{where}.{key}", f"no field {data[1]!r}")
                else:
                    known = ("marker.name", "marker.start", "marker.end", "marker.duration", "marker.category")
                    self.need(name in known, f"{where}.{key}", f"nothing is called {name!r}")

    def graphs(self, schema, where, fields):
        for i, graph in enumerate(self.list(schema, where, "graphs", optional=True) or []):
            place = f"{where}.graphs[{i}]"
            self.member(graph, place, "key", lambda v: v in fields, "the key of a field")
            self.member(graph, place, "type", lambda v: v in ("bar", "line", "line-filled"), "a type of graph")
            self.member(graph, place, "color", lambda v: v in GRAPH_COLORS, "a graph color", optional=True)

    def extra(self, meta):
        for i, section in enumerate(self.list(meta, "meta", "extra", optional=True) or []):
            where = f"meta.extra[{i}]"
            self.text(section, where, "label", empty=False)
            for j, entry in enumerate(self.list(section, where, "entries") or []):
                place = f"{where}.entries[{j}]"
                self.text(entry, place, "label", empty=False)
                form = self.member(entry, place, "format", lambda v: v in FORMATS, "a format")
                if form:
                    self.value(entry, place, "value", form)

    def value(self, parent, where, key, form):
        """A value of a field's format."""
        if form in NUMBER_FORMATS:
            value = self.number(parent, where, key)
            if form == "percentage" and value is not None:
                self.need(0 <= value <= 1, f"{where}.{key}", f"{value} is no share of 1")
            if form == "integer" and value is not None:
                self.need(value == int(value), f"{where}.{key}", f"{value} is no integer")
        elif form in STRING_INDEX_FORMATS:
            count = len(self.strings)
            self.member(parent, where, key, lambda v: is_int(v) and 0 <= v < count, f"an index below {count}")
        elif form in TEXT_FORMATS:
            good = lambda v: is_text(v) or (form in ("pid", "tid", "hexadecimal") and is_number(v))
            self.member(parent, where, key, good, "a text")
        elif form == "list":
            self.list(parent, where, key)

    # ---- Libraries and shared tables ----

    def libs(self):
        seen = set()
        self.lib_count = len(self.list(self.profile, "profile", "libs") or [])
        for i, lib in enumerate(self.profile.get("libs") or []):
            where = f"libs[{i}]"
            self.only(lib, where, ("arch", "name", "path", "debugName", "debugPath", "breakpadId", "codeId"))
            for key in ("name", "path", "debugName", "debugPath"):
                self.text(lib, where, key, empty=False)
            self.need("/" not in lib.get("debugName", ""), f"{where}.debugName", "has a slash")
            good = lambda v: is_text(v) and re.fullmatch("[0-9A-Fa-f]*", v)
            self.member(lib, where, "breakpadId", good, "hexadecimal")
            for key in ("arch", "codeId"):
                self.member(lib, where, key, lambda v: v is None or (is_text(v) and v), "a text or null")
            key = (lib.get("debugName"), lib.get("breakpadId"))
            self.need(key not in seen, where, f"{key[0]}/{key[1]} is there twice")
            seen.add(key)

    def shared(self):
        shared = self.object(self.profile, "profile", "shared")
        if shared is None:
            raise Broken
        tables = table_columns(self.version)
        self.only(shared, "shared", (*tables, "stringArray"))
        self.strings = self.list(shared, "shared", "stringArray")
        if self.strings is None:
            raise Broken
        for i, string in enumerate(self.strings):
            self.need(is_text(string), f"shared.stringArray[{i}]", "is not a text")
        # Two names that are no UTF-8 may have become one text.
        whole = [string for string in self.strings if isinstance(string, str) and "\ufffd" not in string]
        self.need(len(set(whole)) == len(whole), "shared.stringArray", "has a text twice")
        self.count = {}
        for name, columns in tables.items():
            table = self.object(shared, "shared", name)
            if table is None:
                raise Broken
            self.count[name] = self.table(table, f"shared.{name}", columns)
        self.tables = shared
        before = len(self.problems)
        self.resources()
        self.sources()
        self.native_symbols()
        self.functions()
        self.frames()
        self.stacks()
        if len(self.problems) == before:
            self.relations()

    def resources(self):
        table, where = self.tables["resourceTable"], "shared.resourceTable"
        self.indexes(table, where, "name", len(self.strings))
        self.indexes(table, where, "host", len(self.strings), null=True)
        self.column(table, where, "type", lambda v: is_int(v) and 0 <= v <= 5, "a type from 0 to 5")
        if "lib" not in table:
            return
        self.indexes(table, where, "lib", self.lib_count, null=True)
        for i, kind in enumerate(table["type"]):
            self.need(
                (kind == 1) == (table["lib"][i] is not None), f"{where}.lib[{i}]", "only a library, and each, has one"
            )

    def sources(self):
        table, where = self.tables["sources"], "shared.sources"
        self.indexes(table, where, "filename", len(self.strings))
        null_or_text = lambda v: v is None or is_text(v)
        self.column(table, where, "uuid" if "uuid" in table else "id", null_or_text, "a text or null")
        for name in ("startLine", "startColumn"):
            if name in table:
                self.column(table, where, name, lambda v: is_int(v) and v >= 1, "an integer >= 1")
        if "sourceMapURL" in table:
            self.indexes(table, where, "sourceMapURL", len(self.strings), null=True)
        if "content" in table:
            self.column(table, where, "content", null_or_text, "a text or null")
        names = [(name, source) for name, source in zip(table["filename"], table.get("id", table.get("uuid")))]
        self.need(len(set(names)) == len(names), where, "has a file twice")
        if "sourceLocationTable" in self.tables:
            locations = self.tables["sourceLocationTable"]
            self.indexes(locations, "shared.sourceLocationTable", "source", self.count["sources"])
            for name in ("line", "column"):
                self.column(locations, "shared.sourceLocationTable", name, lambda v: is_int(v) and v >= 1, ">= 1")

    def native_symbols(self):
        table, where = self.tables["nativeSymbols"], "shared.nativeSymbols"
        self.indexes(table, where, "libIndex", self.lib_count)
        self.indexes(table, where, "name", len(self.strings))
        self.column(table, where, "address", lambda v: is_int(v) and 0 <= v <= INT32_MAX, "an address below 2^31")
        self.column(table, where, "functionSize", lambda v: v is None or (is_int(v) and v > 0), "a size or null")
        if self.symbolicated is False:
            self.need(not self.count["nativeSymbols"], where, "has symbols, though symbolicated is false")

    def functions(self):
        table, where = self.tables["funcTable"], "shared.funcTable"
        self.indexes(table, where, "name", len(self.strings))
        for name in ("isJS", "relevantForJS"):
            self.column(table, where, name, lambda v: isinstance(v, bool), "true or false")
        self.indexes(table, where, "resource", self.count["resourceTable"], none=True)
        self.indexes(table, where, "source", self.count["sources"], null=True)
        for name in ("lineNumber", "columnNumber"):
            self.column(table, where, name, lambda v: v is None or (is_int(v) and v >= 1), "an integer >= 1 or null")
        self.original_location(table, where)
        keys = list(zip(table["name"], table["resource"], table["source"], table["lineNumber"], table["columnNumber"]))
        for key, times in collections.Counter(keys).items():
            self.need(times == 1, where, f"function {key} is there {times} times: its samples fall apart")

    def original_location(self, table, where):
        if "originalLocation" in table:
            self.indexes(table, where, "originalLocation", self.count["sourceLocationTable"], null=True)

    def frames(self):
        table, where = self.tables["frameTable"], "shared.frameTable"
        self.indexes(table, where, "func", self.count["funcTable"])
        self.indexes(table, where, "nativeSymbol", self.count["nativeSymbols"], null=True)
        good = lambda v: is_int(v) and -1 <= v <= INT32_MAX
        self.column(table, where, "address", good, "-1 or an address below 2^31")
        self.column(table, where, "inlineDepth", lambda v: is_int(v) and 0 <= v <= 255, "a depth from 0 to 255")
        self.column(table, where, "innerWindowID", lambda v: v == 0 and is_int(v), "0")
        self.indexes(table, where, "category", len(self.subcategories), null=True)
        for name in ("line", "column"):
            self.column(table, where, name, lambda v: v is None or (is_int(v) and v >= 1), "an integer >= 1 or null")
        if "lib" in table:
            self.indexes(table, where, "lib", self.lib_count, none=True)
        self.original_location(table, where)
        for i, (category, subcategory) in enumerate(zip(table["category"], table["subcategory"])):
            count = self.subcategories[category] if is_int(category) and 0 <= category < len(self.subcategories) else 1
            good = is_int(subcategory) and 0 <= subcategory < count
            self.need(good, f"{where}.subcategory[{i}]", f"is {subcategory!r}, not an index below {count}")

    def stacks(self):
        table, where = self.tables["stackTable"], "shared.stackTable"
        self.indexes(table, where, "frame", self.count["frameTable"])
        if "prefix" in table:
            for i, prefix in enumerate(table["prefix"]):
                good = prefix is None or (is_int(prefix) and 0 <= prefix < i)
                self.need(good, f"{where}.prefix[{i}]", f"is {prefix!r}, not null or an earlier stack")
        else:
            for i, offset in enumerate(table["prefixOffset"]):
                good = is_int(offset) and 0 <= offset <= i
                self.need(good, f"{where}.prefixOffset[{i}]", f"is {offset!r}: the front-end would hang")

    # ---- What tables mean to each other (all indexes are in range by now) ----

    def lib_of_func(self, func):
        resource = self.tables["funcTable"]["resource"][func]
        if resource < 0:
            return -1
        lib = self.tables["resourceTable"]["lib"][resource]
        return -1 if lib is None else lib

    def relations(self):
        frames, where = self.tables["frameTable"], "shared.frameTable"
        symbol_libs = self.tables["nativeSymbols"]["libIndex"]
        self.frame_libs = frames.get("lib") or [self.lib_of_func(func) for func in frames["func"]]
        address_of_func = {}
        for i, lib in enumerate(self.frame_libs):
            address, symbol, func = frames["address"][i], frames["nativeSymbol"][i], frames["func"][i]
            self.need((lib < 0) == (address < 0), f"{where}.address[{i}]", f"{address} goes with lib {lib}")
            if symbol is not None:
                self.need(symbol_libs[symbol] == lib, f"{where}.nativeSymbol[{i}]", "is of another lib")
            if self.symbolicated is False and lib >= 0:
                known = address_of_func.setdefault(func, (lib, address))
                self.need(known == (lib, address), f"{where}.func[{i}]", "one function for two unsymbolicated addresses")
        used = set(self.frame_libs)
        for lib in range(self.lib_count):
            self.need(lib in used, f"libs[{lib}]", "no frame is in it")
        self.inlined()

    def inlined(self):
        """Frames of one inline stack share address, lib and symbol; the depth goes up by one."""
        frames, stacks = self.tables["frameTable"], self.tables["stackTable"]
        for i, frame in enumerate(stacks["frame"]):
            depth = frames["inlineDepth"][frame]
            if not depth:
                continue
            where = f"shared.stackTable[{i}]"
            prefix = stacks["prefix"][i] if "prefix" in stacks else i - stacks["prefixOffset"][i]
            if not self.need(prefix is not None and prefix != i, where, "an inlined frame at the root"):
                continue
            outer = stacks["frame"][prefix]
            same = all(frames[name][outer] == frames[name][frame] for name in ("address", "nativeSymbol"))
            same = same and self.frame_libs[outer] == self.frame_libs[frame]
            self.need(
                same and frames["inlineDepth"][outer] == depth - 1,
                where,
                "an inlined frame whose caller is not the next outer frame of the same address",
            )

    # ---- Threads ----

    def threads(self):
        threads = self.list(self.profile, "profile", "threads")
        if not self.need(threads, "threads", "there is none"):
            raise Broken
        mains = collections.Counter()
        processes = {}
        self.pids = []
        for i, thread in enumerate(threads):
            where = f"threads[{i}]"
            if not self.need(isinstance(thread, dict), where, "is not an object"):
                raise Broken
            self.thread(thread, where)
            pid = thread.get("pid")
            self.pids.append(pid)
            mains[pid] += thread.get("isMainThread") is True
            process = tuple(thread.get(key) for key in ("processName", "processStartupTime", "processShutdownTime"))
            known = processes.setdefault(pid, process)
            self.need(known == process, where, f"pid {pid} is {process} here and {known} elsewhere")
        for pid, count in mains.items():
            self.need(count <= 1, "threads", f"pid {pid} has {count} main threads: only one would be shown")
        self.initial_threads(len(threads))

    def initial_threads(self, count):
        meta = self.profile["meta"]
        for key in ("initialVisibleThreads", "initialSelectedThreads"):
            threads = self.list(meta, "meta", key, optional=True)
            if threads is None:
                continue
            self.need(threads, f"meta.{key}", "is empty")
            self.need(len(set(map(repr, threads))) == len(threads), f"meta.{key}", "has a thread twice")
            for thread in threads:
                self.need(is_int(thread) and 0 <= thread < count, f"meta.{key}", f"{thread!r} is no thread")
        visible, selected = meta.get("initialVisibleThreads"), meta.get("initialSelectedThreads")
        if isinstance(visible, list) and isinstance(selected, list):
            self.need(set(selected) <= set(visible), "meta.initialSelectedThreads", "selects what is not visible")

    def thread(self, thread, where):
        self.only(
            thread,
            where,
            "name processName processType pid tid isMainThread processStartupTime processShutdownTime registerTime "
            "unregisterTime pausedRanges samples markers showMarkersInTimeline nativeAllocations jsAllocations".split(),
        )
        self.text(thread, where, "name", empty=False)
        self.text(thread, where, "processName", optional=True, empty=False)
        self.text(thread, where, "processType", empty=False)
        good = lambda v: is_text(v) and re.fullmatch(r"[^-~\s]+", v)
        self.member(thread, where, "pid", good, "a text without - and ~")
        self.member(thread, where, "tid", lambda v: (is_int(v) and v >= 0) or (is_text(v) and v), "a thread ID")
        self.boolean(thread, where, "isMainThread")
        self.boolean(thread, where, "showMarkersInTimeline", optional=True)
        self.lifetime(thread, where, "processStartupTime", "processShutdownTime")
        self.lifetime(thread, where, "registerTime", "unregisterTime")
        for i, pause in enumerate(self.list(thread, where, "pausedRanges") or []):
            for key in ("startTime", "endTime"):
                self.number(pause, f"{where}.pausedRanges[{i}]", key, null=True)
            self.text(pause, f"{where}.pausedRanges[{i}]", "reason", empty=False)
        samples, markers = self.object(thread, where, "samples"), self.object(thread, where, "markers")
        if samples is not None:
            self.samples(samples, f"{where}.samples")
        if markers is not None:
            self.markers(markers, f"{where}.markers")
        if "nativeAllocations" in thread:
            self.allocations(thread["nativeAllocations"], f"{where}.nativeAllocations")

    def lifetime(self, thread, where, start_key, end_key):
        start = self.number(thread, where, start_key, least=0)
        end = self.number(thread, where, end_key, null=True)
        if start is not None and end is not None:
            self.need(end >= start, f"{where}.{end_key}", f"{end} is before {start_key} {start}")

    def times(self, table, where, deltas_allowed=True, inside=True):
        """The one of "time" and "timeDeltas" that is there, in order."""
        name = "timeDeltas" if "timeDeltas" in table else "time"
        if "timeDeltas" in table:
            self.need(deltas_allowed and "time" not in table, where, "time and timeDeltas")
        time = 0 if name == "timeDeltas" else -math.inf
        for i, value in enumerate(table[name]):
            if not self.need(is_number(value), f"{where}.{name}[{i}]", f"is {value!r}, not a number"):
                continue
            if name == "timeDeltas":
                self.need(value >= 0, f"{where}.{name}[{i}]", f"{value} goes back in time")
                time += value
            else:
                self.need(value >= time, f"{where}.{name}[{i}]", f"{value} is before the one above")
                time = value
            if self.range and inside:
                good = self.range[0] - 1e-6 <= time < self.range[1]
                self.need(good, f"{where}.{name}[{i}]", f"time {time} is outside of the profile's {self.range}")

    def samples(self, table, where):
        time = ("timeDeltas",) if "timeDeltas" in table else ("time",)
        has_weights = table.get("weight") is not None
        self.table(
            table,
            where,
            ("stack", *time, *(["weight"] if has_weights else [])),
            optional=("threadCPUDelta", "eventDelay", "responsiveness", "argumentValues"),
            other=("weightType", *([] if has_weights else ["weight"])),
        )
        self.need("weight" in table, f"{where}.weight", "missing")
        self.member(table, where, "weightType", lambda v: v in WEIGHT_TYPES, "a weight type")
        self.indexes(table, where, "stack", self.count["stackTable"], null=True)
        self.times(table, where)
        if has_weights:
            self.column(table, where, "weight", is_number, "a number")
        if "threadCPUDelta" in table:
            good = lambda v: v is None or (is_number(v) and v >= 0)
            self.column(table, where, "threadCPUDelta", good, "a number >= 0 or null")

    def markers(self, table, where):
        self.table(table, where, "data name startTime endTime phase category".split(), optional=("threadId",))
        self.indexes(table, where, "name", len(self.strings))
        self.indexes(table, where, "category", len(self.subcategories))
        self.column(table, where, "phase", lambda v: is_int(v) and 0 <= v <= 3, "a phase from 0 to 3")
        for name in ("startTime", "endTime"):
            self.column(table, where, name, lambda v: v is None or is_number(v), "a number or null")
        for i, (phase, start, end) in enumerate(zip(table["phase"], table["startTime"], table["endTime"])):
            self.need(phase == 3 or is_number(start), f"{where}.startTime[{i}]", f"is {start!r} in phase {phase}")
            self.need(phase not in (1, 3) or is_number(end), f"{where}.endTime[{i}]", f"is {end!r} in phase {phase}")
            if phase == 1 and is_number(start) and is_number(end):
                self.need(end >= start, f"{where}.endTime[{i}]", f"{end} is before the start, {start}")
            self.payload(table["data"][i], f"{where}.data[{i}]")

    def payload(self, data, where):
        if data is None:
            return
        if not self.need(isinstance(data, dict), where, "is not an object or null"):
            return
        kind = self.member(data, where, "type", lambda v: v in self.schema, "the name of a schema")
        if kind is None:
            return
        fields = self.schema[kind]
        for key in data:
            if key == "cause":
                stack = data[key].get("stack") if isinstance(data[key], dict) else None
                good = is_int(stack) and 0 <= stack < self.count["stackTable"]
                self.need(good, f"{where}.cause.stack", f"is {stack!r}, not a stack")
            elif key != "type" and self.need(key in fields, f"{where}.{key}", f"{kind} has no such field"):
                self.value(data, where, key, fields[key])

    def allocations(self, table, where):
        if not self.need(isinstance(table, dict), where, "is not an object"):
            return
        balanced = ("memoryAddress", "threadId") if "memoryAddress" in table or "threadId" in table else ()
        length = self.table(table, where, ("time", "weight", "stack", *balanced), other=("weightType",))
        self.need(length > 0, where, "is empty: it must be left out")
        self.member(table, where, "weightType", lambda v: v == "bytes", "bytes")
        self.indexes(table, where, "stack", self.count["stackTable"], null=True)
        self.times(table, where, deltas_allowed=False)
        self.column(table, where, "weight", is_number, "a number")

    # ---- Counters ----

    def counters(self):
        for i, counter in enumerate(self.list(self.profile, "profile", "counters", optional=True) or []):
            where = f"counters[{i}]"
            for key in ("name", "category", "description"):
                self.text(counter, where, key)
            pid = self.member(counter, where, "pid", lambda v: v in self.pids, "the pid of a thread")
            good = lambda v: is_int(v) and 0 <= v < len(self.pids)
            main = self.member(counter, where, "mainThreadIndex", good, "a thread")
            if pid is not None and main is not None:
                self.need(self.pids[main] == pid, f"{where}.mainThreadIndex", f"is not of pid {pid}")
            samples = self.object(counter, where, "samples")
            if samples is not None:
                self.counter_samples(samples, f"{where}.samples")
            display = self.object(counter, where, "display")
            if display is not None:
                self.counter_display(display, f"{where}.display")

    def counter_samples(self, table, where):
        time = "timeDeltas" if "timeDeltas" in table else "time"
        length = self.table(table, where, (time, "count"), optional=("number",))
        self.times(table, where, inside=False)
        self.column(table, where, "count", is_number, "a number")
        if length:
            self.need(table["count"][0] == 0, f"{where}.count[0]", "the front-end would make it 0")

    def counter_display(self, display, where):
        types = ("line-accumulated", "line-rate")
        self.member(display, where, "graphType", lambda v: v in types, f"one of {types}")
        self.text(display, where, "unit")
        self.member(display, where, "color", lambda v: v in GRAPH_COLORS, "a graph color")
        self.member(display, where, "markerSchemaLocation", lambda v: v is None or v in DISPLAYS, "a place or null")
        self.number(display, where, "sortWeight")
        self.text(display, where, "label")
        for i, row in enumerate(self.list(display, where, "tooltipRows") or []):
            place = f"{where}.tooltipRows[{i}]"
            kind = self.member(row, place, "type", lambda v: v in ("value", "separator"), "value or separator")
            if kind != "value":
                continue
            self.member(row, place, "source", lambda v: v in COUNTER_SOURCES, "a source")
            self.text(row, place, "label")
            form = self.object(row, place, "format")
            if form is not None:
                self.member(form, f"{place}.format", "unit", lambda v: v in COUNTER_UNITS, "a unit")

    # ---- All ----

    def run(self):
        try:
            if not isinstance(self.profile, dict):
                self.bad("profile", "is not an object")
                return self.problems
            self.only(
                self.profile,
                "profile",
                ("meta", "libs", "pages", "counters", "profilerOverhead", "shared", "threads"),
            )
            self.strings = ()
            self.meta()
            self.list(self.profile, "profile", "pages", optional=True)
            self.libs()
            self.shared()
            self.threads()
            self.counters()
        except Broken:
            pass
        except (AttributeError, IndexError, KeyError, TypeError) as error:  # something is of quite another kind
            self.problems.append(f"profile: malformed: {error!r}")
        return self.problems


def validate(profile):
    """The problems of a profile (as parsed from JSON): texts that name the place; none is good."""
    return Validator(profile).run()


def _no_constant(name):
    raise ValueError(f"{name} is no JSON")


def _no_duplicates(pairs):
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key is there twice")
    return result


def parse(data):
    """Parses the bytes of a profile, gzipped or not, by the strict rules of JSON. ValueError when they are broken."""
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if data[:1] != b"{":
        raise ValueError("the text does not start with {, by which the front-end knows a profile")
    return json.loads(data.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_no_duplicates)


def validate_file(path):
    """The problems of a profile file."""
    try:
        profile = parse(pathlib.Path(path).read_bytes())
    except (ValueError, OSError, EOFError) as error:
        return [f"file: {error}"]
    return validate(profile)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    status = 0
    for path in sys.argv[1:]:
        for problem in validate_file(path):
            print(f"{path}: {problem}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
