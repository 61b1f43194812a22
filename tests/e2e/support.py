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
import shutil
import signal
import socket
import subprocess
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


@functools.lru_cache(None)
def dissect_python():
    """A Python that has dissect.etl, or None."""
    for folder in (os.environ.get("SP_E2E_VENV"), BUILD / "venv", ROOT / "build" / "venv"):
        python = pathlib.Path(folder, "bin", "python") if folder else None
        if python and python.exists() and not run(python, "-c", "import dissect.etl").status:
            return str(python)
    return None


def needs_dissect():
    return unittest.skipIf(not dissect_python(), "no dissect.etl (tools/test installs it)")


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

    A daemon per object holds the profile; close() ends it (TestCase.profiler() sees to that). It is started here, as
    a child, and not by `profiler-cli load`: that gives up after half a second, which a busy machine needs to start it.
    """

    def __init__(self, path, symbol_server=None):
        command = profiler_cli()
        if not command:
            raise unittest.SkipTest("no node or no profiler-cli (tools/test installs both)")
        self._command = command
        # The daemon's socket is in this folder, and the path of a socket may have 107 bytes at most.
        self._sessions = tempfile.mkdtemp(prefix="sp-pq-", dir="/tmp")
        self._environment = {"PROFILER_CLI_SESSION_DIR": self._sessions, "NODE_NO_WARNINGS": "1"}
        options = ["--symbol-server", symbol_server] if symbol_server else []
        with open(os.path.join(self._sessions, "out"), "wb") as out:
            self._daemon = subprocess.Popen(
                [*command, "--daemon", os.path.abspath(path), "--session", "s", *options],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, **self._environment},
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        try:
            self._wait_until_loaded()
        except BaseException:
            self.close()
            raise

    def _wait_until_loaded(self):
        deadline = time.monotonic() + TIMEOUT
        answer = {"type": "starting"}
        while answer["type"] != "ready":
            if answer["type"] == "error" or self._daemon.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"profiler-cli cannot load the profile: {answer}\n{self._log()}")
            time.sleep(0.05)
            answer = self._message({"type": "status"}) or answer

    def _message(self, message):
        """The daemon's answer to one line of JSON on its socket; None when it does not listen (yet)."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(TIMEOUT)
                connection.connect(os.path.join(self._sessions, "s.sock"))
                connection.sendall(json.dumps(message).encode() + b"\n")
                return json.loads(connection.makefile().readline())
        except (OSError, ValueError):
            return None

    def _log(self):
        texts = [pathlib.Path(self._sessions, name) for name in ("out", "s.log")]
        return "\n".join(path.read_text(errors="replace") for path in texts if path.exists())

    def _run(self, *args):
        result = run(*self._command, *args, "--session", "s", env=self._environment)
        if result.status:
            raise AssertionError(f"profiler-cli {' '.join(args)}: {result}\n{self._log()}")
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
        """Ends the daemon, whatever it is doing (a broken profile can make it hang)."""
        self._daemon.kill()
        self._daemon.wait()
        shutil.rmtree(self._sessions, ignore_errors=True)


def _end_with_parent():
    """In a child: the kernel ends it when the thread that started it is gone."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
