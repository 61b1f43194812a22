"""What the end-to-end tests share: running sp, temporary folders, test programs, and reading a profile with
profiler-cli, the Firefox Profiler's own code without a browser.

A test file is tests/e2e/test_NAME.py with unittest classes derived from support.TestCase; tests/e2e/run runs them. A
test that cannot run here says so with one of the needs_... decorators or self.skipTest(reason): the runner prints
every one, with its reason.
"""

import contextlib
import ctypes
import dataclasses
import functools
import gzip
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED_DATA = ROOT.parent / "shared" / "data"
# Set by tests/e2e/run.
SP = os.environ.get("SP_BINARY", str(ROOT / "build" / "sampler" / "cli" / "sp"))
BUILD = pathlib.Path(os.environ.get("SP_BUILD", str(ROOT / "build")))
QUICK = os.environ.get("SP_E2E_QUICK") == "1"
# Time limits are there to end a hang, never to judge speed; sanitizers and busy machines are slow.
TIMEOUT = 300
NOBODY = 65534


# ---- Running programs ----


@dataclasses.dataclass
class Result:
    """How a program ended. status is the exit status, or -N for signal N."""

    status: int
    out: str
    err: str

    def __str__(self):
        return f"status {self.status}\n--- stdout\n{self.out}\n--- stderr\n{self.err}\n---"


def run(*command, env=None, cwd=None, input="", user=None, timeout=TIMEOUT, preexec=None):
    """Runs a program to its end and returns a Result. Text that is not UTF-8 is kept by surrogateescape.

    `env` adds to the environment (None as a value takes a variable out); `user` is a uid to run as, when the tests
    run as root; `preexec` is called in the child before it executes the program. After `timeout` seconds the program
    and all in its process group are killed, and the test fails."""
    environment = dict(os.environ)
    for key, value in (env or {}).items():
        if value is None:
            environment.pop(key, None)
        else:
            environment[key] = str(value)
    identity = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    process = subprocess.Popen(
        [str(part) for part in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=cwd,
        start_new_session=True,
        preexec_fn=preexec,
        **identity,
    )
    try:
        out, err = process.communicate(input.encode(), timeout)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        text = Result(-signal.SIGKILL, _text(out), _text(err))
        raise AssertionError(f"no end within {timeout} s: {' '.join(map(str, command))}\n{text}") from None
    return Result(process.returncode, _text(out), _text(err))


def _text(data):
    return data.decode("utf-8", "surrogateescape")


def wait_for(condition, what, timeout=60):
    """Waits until condition() is true and returns its value; fails with `what` after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what}")
        time.sleep(0.02)


# ---- What a test needs ----


def needs(*programs):
    """Skips the test when one of the programs is not installed."""
    missing = [program for program in programs if not shutil.which(program)]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


def needs_root():
    return unittest.skipIf(os.geteuid() != 0, "needs root")


def slow():
    """For tests that take long: skipped in a quick run."""
    return unittest.skipIf(QUICK, "slow, left out of a quick run")


def needs_shared_data(name=""):
    """Skips the test where the real files made by others are not at hand (they are not part of the repository)."""
    return unittest.skipIf(not (SHARED_DATA / name).exists(), "no shared data")


def needs_profiler_cli():
    return unittest.skipIf(not profiler_cli(), "no node or no profiler-cli (tools/test installs both)")


def setting(path, default=None):
    """The text of a one-line file such as /proc/sys/kernel/perf_event_paranoid, stripped."""
    try:
        return pathlib.Path(path).read_text().strip()
    except OSError:
        return default


@functools.lru_cache(None)
def perf_event_works():
    """Whether this process may sample itself with a software clock, in user mode only."""
    # struct perf_event_attr: type SOFTWARE, size of its first version, config CPU_CLOCK, exclude_kernel|exclude_hv.
    attr = (ctypes.c_uint32 * 16)(1, 64, 0, 0)
    flags = (1 << 5) | (1 << 6)
    attr[10] = flags
    libc = ctypes.CDLL(None, use_errno=True)
    number = {"x86_64": 298, "aarch64": 241}.get(os.uname().machine)
    if number is None:
        return False
    fd = libc.syscall(number, ctypes.byref(attr), 0, -1, -1, 8)
    if fd < 0:
        return False
    os.close(fd)
    return True


def needs_perf_event():
    return unittest.skipIf(not perf_event_works(), "this machine does not permit perf_event_open")


# ---- The base of all tests ----


class TestCase(unittest.TestCase):
    """Each test gets a folder of its own (self.folder, also sp's working and cache folder) that is removed after."""

    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sp-e2e-"))
        self.folder.chmod(0o755)
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def sp(self, *args, **options):
        """Runs sp; see run(). The cache is inside self.folder, no browser is opened."""
        env = {"SP_CACHE_DIR": self.folder / "cache", "BROWSER": "true", "DISPLAY": None, "WAYLAND_DISPLAY": None}
        env.update(options.pop("env", None) or {})
        options.setdefault("cwd", self.folder)
        return run(SP, *args, env=env, **options)

    def sp_ok(self, *args, **options):
        """As sp(), demanding status 0."""
        result = self.sp(*args, **options)
        self.assertEqual(result.status, 0, f"sp {' '.join(map(str, args))}: {result}")
        return result

    def profiler(self, path, symbol_server=None):
        """A Profiler for a profile, closed when the test ends."""
        profiler = Profiler(path, symbol_server)
        self.addCleanup(profiler.close)
        return profiler


# ---- Test programs ----


def build_program(source, *flags, compiler="cc", name=None):
    """Compiles tests/e2e/programs/SOURCE (or an absolute path) and returns the program's path.

    The result is kept in the build folder for as long as source, compiler and flags are the same."""
    source = ROOT / "tests" / "e2e" / "programs" / source
    key = hashlib.sha256(repr([compiler, flags]).encode() + source.read_bytes()).hexdigest()[:16]
    folder = BUILD / "e2e-programs" / key
    program = folder / (name or source.stem)
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # Several test files may build the same at once: each its own file, then a rename.
        fd, partial = tempfile.mkstemp(dir=folder)
        os.close(fd)
        result = run(compiler, "-o", partial, source, *flags)
        if result.status:
            raise AssertionError(f"cannot build {source.name}: {result}")
        os.chmod(partial, 0o755)
        os.rename(partial, program)
    return program


# ---- Profiles ----


def read_profile(path):
    """The JSON of a profile file, gzipped or not."""
    data = pathlib.Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return json.loads(data)


@functools.lru_cache(None)
def profiler_cli():
    """The command that runs profiler-cli, as a tuple, or None."""
    node = shutil.which("node") or shutil.which("nodejs")
    relative = pathlib.Path("node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js")
    for folder in (os.environ.get("SP_E2E_NPM"), BUILD / "npm", ROOT / "build" / "npm"):
        if node and folder and (pathlib.Path(folder) / relative).exists():
            return (node, str(pathlib.Path(folder) / relative))
    return None


@dataclasses.dataclass
class Function:
    """One row of the function list: weights (sample counts) of the samples that it is the leaf of, or is in."""

    name: str
    library: str
    self_weight: float
    total_weight: float
    handle: str


class Profiler:
    """A profile loaded in profiler-cli: the Firefox Profiler's own reading of it.

    A daemon per object holds the profile; close() ends it (TestCase.profiler() sees to that)."""

    def __init__(self, path, symbol_server=None):
        self._command = profiler_cli()
        if not self._command:
            raise unittest.SkipTest("no node or no profiler-cli (tools/test installs both)")
        # The daemon's socket is in this folder, and the path of a socket may have 107 bytes at most.
        self._sessions = tempfile.mkdtemp(prefix="sp-pq-", dir="/tmp")
        self._closed = False
        options = ["--symbol-server", symbol_server] if symbol_server else []
        try:
            self._load(str(path), *options)
        except BaseException:
            self.close()
            raise

    def _load(self, *args):
        """Loads the profile. profiler-cli gives its daemon half a second to start, which a busy machine needs more
        than once: then the daemon, which goes on starting, is asked until it answers."""
        try:
            self._run("load", *args)
        except AssertionError as error:
            pid = re.search(r"daemon may still be running as pid (\d+)", str(error))
            if not pid:
                raise
            deadline = time.monotonic() + TIMEOUT
            while time.monotonic() < deadline and _is_daemon(int(pid[1]), self._command[1]):
                with contextlib.suppress(AssertionError):
                    self._run("profile", "info", "--json")
                    return
                time.sleep(0.1)
            raise

    def _run(self, *args, timeout=TIMEOUT):
        env = {"PROFILER_CLI_SESSION_DIR": self._sessions, "NODE_NO_WARNINGS": "1"}
        result = run(*self._command, *args, "--session", "s", env=env, timeout=timeout)
        if result.status:
            log = pathlib.Path(self._sessions, "s.log")
            text = log.read_text(errors="replace") if log.exists() else ""
            raise AssertionError(f"profiler-cli {' '.join(args)}: {result}\n{text}")
        return result.out

    def query(self, *args):
        """The parsed answer of any command, for example query("profile", "info")."""
        return json.loads(self._run(*args, "--json"))

    def meta(self):
        return self.query("profile", "meta")

    def threads(self):
        """All threads as dictionaries: threadHandle, name, processName, pid, tid, cpuMs, markerCount ..."""
        return self.query("thread", "list", "--limit", "0", "--sort", "index")["threads"]

    def thread(self, name):
        """The handle of the only thread with that name."""
        handles = [thread["threadHandle"] for thread in self.threads() if thread["name"] == name]
        if len(handles) != 1:
            raise AssertionError(f"{len(handles)} threads named {name!r} among {self.threads()}")
        return handles[0]

    def functions(self, thread="t-0"):
        """The function list of a thread, idle samples included: {name: Function}. Functions of one name in different
        libraries are added up."""
        answer = self.query("thread", "functions", "--thread", thread, "--include-idle", "--limit", "0")
        functions = {}
        for row in answer["functions"]:
            row = Function(
                row["name"], row.get("library", ""), row["selfSamples"], row["totalSamples"], row["functionHandle"]
            )
            known = functions.get(row.name)
            if known:
                known.self_weight += row.self_weight
                known.total_weight += row.total_weight
            else:
                functions[row.name] = row
        return functions

    def tree(self, thread="t-0", inverted=False):
        """The call tree of a thread as profiler-cli prints it, in JSON, idle samples included."""
        order = "samples-bottom-up" if inverted else "samples-top-down"
        return self.query("thread", order, "--thread", thread, "--include-idle", "--max-lines", "100000")

    def markers(self, thread="t-0"):
        return self.query("thread", "markers", "--thread", thread, "--limit", "0")

    def close(self):
        """Ends the daemon; it is killed when it does not answer (a broken profile can make it hang)."""
        if self._closed:
            return
        self._closed = True
        pid = None
        with contextlib.suppress(OSError, ValueError, KeyError):
            pid = json.loads(pathlib.Path(self._sessions, "s.json").read_text())["pid"]
        with contextlib.suppress(AssertionError):
            self._run("stop", timeout=20)
        if pid:
            deadline = time.monotonic() + 5
            while _is_daemon(pid, self._command[1]) and time.monotonic() < deadline:
                time.sleep(0.05)
            if _is_daemon(pid, self._command[1]):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self._sessions, ignore_errors=True)


def _is_daemon(pid, script):
    """Whether the process is still the daemon (and no other that got its number)."""
    with contextlib.suppress(OSError):
        return script.encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


if __name__ == "__main__":
    sys.exit("run tests/e2e/run")
