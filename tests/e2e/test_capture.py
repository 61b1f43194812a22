"""The Linux backend: what it reports of real processes, read from tests/tools/print_events (one event a line)."""

import contextlib
import errno
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import time
import unittest

import support

PRINT_EVENTS = support.BUILD / "tests" / "print_events"
PARANOID = "/proc/sys/kernel/perf_event_paranoid"
MS = 1_000_000


class Capture:
    """What print_events printed: info, events, end; and the processes of the tree, which grows by the events."""

    def __init__(self, result, path):
        if result.status:
            raise AssertionError(f"print_events: {result}")
        lines = pathlib.Path(path).read_text("utf-8", "surrogateescape").splitlines()
        self.result = result
        self.info = json.loads(lines[0])["info"]
        self.end = json.loads(lines[-1])["end"]
        self.events = [json.loads(line) for line in lines[1:-1]]
        self.events.sort(key=lambda event: event["time"])
        self.root = self.info["root_pid"]
        self.tree = self._tree()

    def _tree(self):
        tree = {self.root}
        for event in self.of("start"):
            if event["parent_pid"] in tree:
                tree.add(event["pid"])
        return tree

    def of(self, kind, pid=None):
        return [event for event in self.events if event["kind"] == kind and (pid is None or event["pid"] == pid)]

    def samples(self):
        """The samples of the process tree."""
        return [event for event in self.of("sample") if event["pid"] in self.tree]

    def sampled_ms(self):
        return sum(sample["period"] for sample in self.samples()) / MS


@contextlib.contextmanager
def system_setting(path, value):
    """Changes a setting of the machine for a while."""
    path = pathlib.Path(path)
    before = path.read_text()
    path.write_text(f"{value}\n")
    try:
        yield
    finally:
        path.write_text(before)


class CaptureTestCase(support.TestCase):
    def setUp(self):
        super().setUp()
        # Any user's.
        self.output = self.folder / "events"
        self.output.touch()
        self.output.chmod(0o666)

    def print_events(self, *args, program=PRINT_EVENTS, under=(), **options):
        options.setdefault("cwd", self.folder)
        return support.run(*under, program, "-o", self.output, *args, **options)

    def capture(self, *args, **options):
        return Capture(self.print_events(*args, **options), self.output)

    def copy_for_all(self, program):
        """A copy of a program where any user can reach it."""
        copy = self.folder / pathlib.Path(program).name
        shutil.copy(program, copy)
        copy.chmod(0o755)
        return copy

    def as_user(self, *args, **options):
        return self.capture(*args, program=self.copy_for_all(PRINT_EVENTS), user=support.NOBODY, **options)

    def assert_sampled(self, capture, cpu_ms, low=0.9, high=1.1):
        """The samples stand for about the CPU time that was used; sampling error and start-up are allowed for."""
        slack = 4 * cpu_ms**0.5 + 10
        self.assertGreater(capture.sampled_ms(), cpu_ms * low - slack)
        self.assertLess(capture.sampled_ms(), cpu_ms * high + slack)


@support.needs_perf_event()
class TestLaunch(CaptureTestCase):
    def test_events_of_a_command(self):
        burn = support.build_program("burn.c", "-O1", "-pthread")
        capture = self.capture(burn, "300", "3")
        self.assertEqual(capture.end["exited"], True)
        self.assertEqual(capture.end["code"], 0)
        self.assertEqual(capture.end["late"], 0)
        starts = [event for event in capture.of("start") if event["pid"] == capture.root]
        self.assertEqual(starts[0]["tid"], capture.root)
        self.assertEqual(starts[0]["name"], "burn")
        self.assertEqual(len(starts), 3)
        exits = {event["tid"] for event in capture.of("exit", capture.root)}
        self.assertEqual(exits, {event["tid"] for event in starts})
        paths = [event["path"] for event in capture.of("map", capture.root)]
        self.assertIn(str(burn), paths)
        self.assertIn("[vdso]", paths)
        self.assertTrue(any("libc.so" in path for path in paths), paths)
        libc = next(event for event in capture.of("map", capture.root) if "libc.so" in event["path"])
        self.assertRegex(libc["build_id"], "^[0-9a-f]{40}$")
        self.assert_sampled(capture, 900)
        for sample in capture.samples():
            if not sample["kernel"]:
                self.assertTrue(sample["known_registers"])
                self.assertGreater(sample["stack"], 0)

    def test_nothing_before_the_exec(self):
        """The forked copy of the recorder is not the command: its first word is its start, at the exec."""
        for _ in range(20):
            capture = self.capture("-r", "10000", "/bin/true")
            own = [event for event in capture.events if event["pid"] == capture.root]
            self.assertEqual(own[0]["kind"], "start")
            self.assertEqual(own[0]["name"], "true")
            self.assertEqual(own[1]["kind"], "in")
            self.assertFalse([event for event in own if event["kind"] == "exec"])

    def test_status(self):
        end = self.capture("sh", "-c", "exit 7").end
        self.assertEqual((end["exited"], end["code"], end["signal"]), (True, 7, 0))
        end = self.capture("sh", "-c", "kill -SEGV $$").end
        self.assertEqual((end["exited"], end["code"], end["signal"]), (True, 0, signal.SIGSEGV))
        end = self.capture("/nonexistent/command").end
        self.assertEqual(end["exec_errno"], errno.ENOENT)
        end = self.capture("/etc/passwd").end
        self.assertEqual(end["exec_errno"], errno.EACCES)

    def test_environment(self):
        result = self.print_events("SP_TEST_A=one", "PATH=/bin:/usr/bin", "sh", "-c", 'echo "$SP_TEST_A $PATH"')
        self.assertIn("one /bin:/usr/bin\n", result.out)

    def test_command_keeps_group_and_priority(self):
        """The recorder's priority and file limit are its own."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = min(soft, 1000)
        result = self.print_events(
            "sh",
            "-c",
            "ps -o pgid= -o ni= -o cls= $$; ulimit -n",
            preexec=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard)),
        )
        words = [line.split() for line in result.out.splitlines()]
        self.assertEqual(words[0][1:], [str(os.nice(0)), "TS"])
        self.assertEqual(words[1], [str(limit)])
        capture = Capture(result, self.output)
        self.assertNotEqual(words[0][0], str(capture.root))

    def test_interrupted_wait(self):
        """Without the interrupt, the wait without an end would not return before the command's, in 100 s."""
        begin = time.monotonic()
        process = self.capture("-i", "sh", "-c", "exec sleep 100 >/dev/null 2>&1")
        self.assertLess(time.monotonic() - begin, 90)
        self.assertFalse(process.end["exited"])
        os.kill(process.root, signal.SIGKILL)

    def test_forked_children(self):
        zygote = support.build_program("zygote.c", "-O1")
        capture = self.capture(zygote, "4", "100")
        children = capture.tree - {capture.root}
        self.assertEqual(len(children), 4)
        names = {event["name"] for event in capture.of("name") if event["pid"] in children}
        self.assertEqual(names, {f"worker-{i}" for i in range(4)})
        self.assert_sampled(capture, 400)

    def test_exec_again(self):
        capture = self.capture("sh", "-c", "exec sleep 0.05")
        executed = capture.of("exec", capture.root)
        self.assertEqual([event["name"] for event in executed], ["sleep"])

    def test_other_cpus_than_ours(self):
        """sp under taskset samples a command that moves elsewhere."""
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2 or not shutil.which("taskset"):
            self.skipTest("needs taskset and two CPUs")
        burn = support.build_program("burn.c", "-O1", "-pthread")
        capture = self.capture(
            "taskset", "-c", str(cpus[1]), burn, "300", preexec=lambda: os.sched_setaffinity(0, {cpus[0]})
        )
        self.assert_sampled(capture, 300)
        self.assertEqual({sample["cpu"] for sample in capture.samples() if sample["ip"]} - {cpus[0]}, {cpus[1]})

    def test_deleted_binary(self):
        burn = self.folder / "gone"
        shutil.copy(support.build_program("burn.c", "-O1", "-pthread"), burn)
        capture = self.capture("sh", "-c", f"{burn} 300 & sleep 0.1; rm {burn}; wait")
        maps = [event for event in capture.of("map") if "gone" in event["path"]]
        self.assertTrue(maps)
        self.assertTrue(all(event["build_id"] for event in maps), maps)

    def test_memfd_binary(self):
        burn = support.build_program("burn.c", "-O1", "-pthread")
        capture = self.capture(support.build_program("memfd.c"), burn, "200")
        maps = [event for event in capture.of("map", capture.root) if "memfd:in-memory" in event["path"]]
        self.assertTrue(maps)
        self.assertTrue(all(event["memory"] == "read" for event in maps if event["executable"]), maps)
        if capture.info["whole_system"] and os.geteuid() == 0:
            self.assertTrue(all(event["file"] == "open" for event in maps), maps)

    def test_recorder_killed(self):
        """The command goes on as if nothing had been."""
        marker = self.folder / "done"
        process = subprocess.Popen(
            [PRINT_EVENTS, "-o", self.output, "sh", "-c", f"echo; sleep 1; echo done > {marker}"],
            stdout=subprocess.PIPE,
            cwd=self.folder,
        )
        process.stdout.readline()
        process.kill()
        process.wait()
        process.stdout.close()
        support.wait_for(marker.exists, "the command's end")

    def test_recorder_killed_before_the_start(self):
        """A child that was never let go does not run the command."""
        result = self.print_events("-r", "nan", "touch", self.folder / "ran")
        self.assertEqual(result.status, 2)
        time.sleep(0.2)
        self.assertFalse((self.folder / "ran").exists())


@support.needs_perf_event()
class TestLoss(CaptureTestCase):
    def test_told_loss_is_the_kernels(self):
        """The reader sleeps until the rings overflow: every dropped record is told of, none twice."""
        burn = support.build_program("burn.c", "-O1", "-pthread")
        capture = self.capture("-r", "5000", "-w", "1500", burn, "1500", "4")
        self.assertGreater(capture.end["lost"], 0)
        self.assertEqual(capture.end["told_lost"], capture.end["lost"])
        for loss in capture.of("loss"):
            self.assertLessEqual(loss["time"], loss["end_time"])

    @support.needs_root()
    def test_conservation(self):
        """As an ordinary user, whose events count this command only: samples seen and samples lost together are its
        CPU time. That does not rest on the kernel's own count of losses alone."""
        burn = self.copy_for_all(support.build_program("burn.c", "-O1", "-pthread"))
        capture = self.as_user("-r", "5000", "-w", "1000", burn, "1500", "2")
        self.assertGreater(capture.end["lost"], 100)
        self.assertEqual(capture.end["told_lost"], capture.end["lost"])
        lost_ms = sum(loss["count"] for loss in capture.of("loss") if loss["loss"] == 0) / 5
        total = capture.sampled_ms() + lost_ms
        self.assertGreater(total, 3000 * 0.85)
        self.assertLess(total, 3000 * 1.25)

    def test_rate_too_high(self):
        capture = self.capture("-r", "1000000", "/bin/true")
        self.assertLessEqual(capture.info["rate"], 20000)
        self.assertRegex(capture.info["rate_note"], "lowered from 1000000 to")


@support.needs_perf_event()
@support.needs_root()
class TestModes(CaptureTestCase):
    def test_modes_by_setting(self):
        burn = self.copy_for_all(support.build_program("burn.c", "-O1", "-pthread"))
        expected = {
            2: ("per-thread events, user code only", False, False, True),
            1: ("per-thread events", True, False, True),
            0: ("per-CPU events", True, True, False),
            -1: ("per-CPU events", True, True, False),
        }
        for level, (mode, kernel, whole, cured) in expected.items():
            with self.subTest(level=level), system_setting(PARANOID, level):
                capture = self.as_user(burn, "300")
                self.assertEqual(capture.info["mode"], mode)
                self.assertEqual(capture.info["kernel_sampled"], kernel)
                self.assertEqual(capture.info["whole_system"], whole)
                self.assertEqual(capture.info["cure"], "sudo sp setup" if cured else None)
                self.assertEqual(bool(capture.info["shortfall"]), cured)
                self.assert_sampled(capture, 300)
                if not whole:
                    self.assertEqual({event["pid"] for event in capture.of("sample")}, {capture.root})
                self.assertTrue(capture.of("in", capture.root))

    def test_user_rings_fit_the_allowance(self):
        """Few KiB may be locked: rings shrink, nothing fails, and the command is still sampled."""
        burn = self.copy_for_all(support.build_program("burn.c", "-O1", "-pthread"))

        def little():
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))

        with system_setting(PARANOID, 2):
            capture = self.as_user(burn, "300", preexec=little)
        cpus = os.cpu_count()
        self.assertLess(capture.info["ring_bytes"], 516 * 1024 * cpus)
        self.assertEqual(capture.end["told_lost"], capture.end["lost"])
        lost_ms = sum(loss["count"] for loss in capture.of("loss") if loss["loss"] == 0)
        self.assertGreater(capture.sampled_ms() + lost_ms, 200)

    def test_short_lived_children(self):
        """Children of under a ms get their share of the samples with per-CPU events."""
        storm = support.build_program("storm.c", "-O1")
        burn = support.build_program("burn.c", "-O1", "-pthread", "-static")
        capture = self.capture(storm, "600", burn, "0.7")
        self.assertTrue(capture.info["whole_system"])
        self.assertEqual(len(capture.tree), 601)
        children = [sample for sample in capture.samples() if sample["pid"] != capture.root]
        used = float(capture.result.out)
        sampled = sum(sample["period"] for sample in children) / MS
        self.assertGreater(sampled, used * 0.9 - 4 * used**0.5)


@support.needs_perf_event()
class TestRefusal(CaptureTestCase):
    def test_refused_by_a_filter(self):
        refuse = support.build_program("refuse.c")
        for number in (errno.EACCES, errno.EPERM, errno.ENOSYS):
            with self.subTest(errno=errno.errorcode[number]):
                result = self.print_events("touch", "ran", under=(refuse, "perf", number))
                self.assertEqual(result.status, 2)
                self.assertEqual(result.err.count("\n"), 1)
                self.assertIn("seccomp", result.err)
                self.assertIn(os.strerror(number), result.err)
                self.assertFalse((self.folder / "ran").exists())

    def test_kernel_without_pidfds(self):
        """The command's end is noticed all the same, and sp does not wait for ever."""
        under = (support.build_program("refuse.c"), "pidfd", errno.ENOSYS)
        capture = self.capture("-l", "sh", "-c", "sleep 0.3; exit 5", under=under)
        self.assertEqual((capture.end["exited"], capture.end["code"]), (True, 5))

    @support.needs_root()
    def test_anothers_process(self):
        sleeper = subprocess.Popen(["sleep", "100"])
        self.addCleanup(sleeper.wait)
        self.addCleanup(sleeper.kill)
        program = self.copy_for_all(PRINT_EVENTS)
        result = self.print_events("-p", sleeper.pid, "-d", "1", program=program, user=support.NOBODY)
        self.assertEqual(result.status, 2)
        self.assertEqual(
            result.err, f"process {sleeper.pid} belongs to another user: run `sudo sp record -p {sleeper.pid}`\n"
        )

    def test_no_such_process(self):
        result = self.print_events("-p", "4194304", "-d", "1")
        self.assertEqual((result.status, result.err), (2, "there is no process 4194304\n"))

    def test_a_process_that_waits_for_its_parent(self):
        zombie = subprocess.Popen(["true"])
        self.addCleanup(zombie.wait)
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        result = self.print_events("-p", zombie.pid, "-d", "1")
        self.assertEqual(result.status, 2)
        self.assertIn(f"process {zombie.pid} has ended already", result.err)

    def test_too_few_open_files(self):
        result = self.print_events("-l", "true", under=("sh", "-c", 'ulimit -n 5; exec "$@"', "sh"))
        self.assertEqual(result.status, 2)
        self.assertIn("raise the limit of open files (ulimit -n)", result.err)


@support.needs_perf_event()
class TestAttach(CaptureTestCase):
    def start(self, *command, **options):
        process = subprocess.Popen([str(part) for part in command], **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def check(self, capture, pid, threads):
        """All threads are known, once, before anything is said of them; none is sampled twice at a time."""
        starts = [event for event in capture.of("start") if event["pid"] == pid]
        tids = [event["tid"] for event in starts if event["found"]]
        self.assertEqual(len(tids), len(set(tids)))
        self.assertGreaterEqual(len(tids), threads)
        known = {event["tid"]: event["time"] for event in reversed(starts)}
        for sample in capture.of("sample", pid):
            self.assertIn(sample["tid"], known)
            self.assertGreaterEqual(sample["time"], known[sample["tid"]])
        moments = [(sample["cpu"], sample["time"]) for sample in capture.of("sample", pid)]
        self.assertEqual(len(moments), len(set(moments)))

    def test_many_threads_under_load(self):
        burn = support.build_program("burn.c", "-O1", "-pthread")
        process = self.start(burn, "1000000", "500")
        support.wait_for(lambda: len(os.listdir(f"/proc/{process.pid}/task")) == 500, "500 threads")
        capture = self.capture("-p", process.pid, "-d", "1")
        self.check(capture, process.pid, 500)
        found = [event for event in capture.of("map", process.pid) if event["found"]]
        self.assertIn(str(burn), [event["path"] for event in found])
        self.assertFalse(capture.end["exited"])
        self.assertGreater(len(capture.of("sample", process.pid)), 100)

    @support.needs_root()
    def test_threads_that_come_and_go(self):
        """With events of threads: none is missed, none is counted twice, while threads make threads."""
        churn = self.copy_for_all(support.build_program("churn.c", "-O1", "-pthread"))
        identity = {"user": support.NOBODY, "group": support.NOBODY, "extra_groups": []}
        process = self.start(churn, "1000", "20", **identity)
        time.sleep(0.3)
        with system_setting(PARANOID, 2):
            capture = self.as_user("-p", process.pid, "-d", "2")
        self.assertFalse(capture.info["whole_system"])
        self.check(capture, process.pid, 1)
        # All CPU time that the switch records tell of has its samples, and no more; on a busy machine both are rough.
        samples = capture.of("sample", process.pid)
        begin, end = samples[0]["time"], samples[-1]["time"]
        on_cpu, since = 0, {}
        for event in capture.events:
            if event["kind"] == "in":
                since[event["tid"]] = event["time"]
            elif event["kind"] in ("out", "exit") and event["tid"] in since:
                on_cpu += max(0, min(event["time"], end) - max(since.pop(event["tid"]), begin))
        sampled = sum(sample["period"] for sample in samples)
        self.assertGreater(sampled, on_cpu * 0.7)
        self.assertLess(sampled, on_cpu * 1.3)

    def test_whole_tree(self):
        burn = support.build_program("burn.c", "-O1", "-pthread")
        shell = self.start("sh", "-c", f"sh -c '{burn} 1000000 & wait' & wait")

        def children():
            listed = support.run("pgrep", "-f", f"^{burn} 1000000").out.split()
            return [int(pid) for pid in listed]

        pids = support.wait_for(children, "the grandchild")
        self.addCleanup(lambda: [os.kill(pid, signal.SIGKILL) for pid in pids])
        capture = self.capture("-p", shell.pid, "-d", "0.5")
        self.assertLessEqual(set(pids), capture.tree)
        self.assertTrue([sample for sample in capture.samples() if sample["pid"] in pids])

    @support.needs_root()
    def test_too_many_threads_for_the_descriptors(self):
        burn = self.copy_for_all(support.build_program("burn.c", "-O1", "-pthread"))
        identity = {"user": support.NOBODY, "group": support.NOBODY, "extra_groups": []}
        process = self.start(burn, "1000000", "50", **identity)
        support.wait_for(lambda: len(os.listdir(f"/proc/{process.pid}/task")) == 50, "50 threads")
        program = self.copy_for_all(PRINT_EVENTS)
        with system_setting(PARANOID, 2):
            result = self.print_events(
                *("-p", process.pid, "-d", "1"),
                program=program,
                user=support.NOBODY,
                preexec=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)),
            )
        self.assertEqual(result.status, 2)
        self.assertRegex(result.err, "^raise the limit of open files .*: cannot sample thread [0-9]+: .*\n$")

    def test_recorder_leaves_itself_out(self):
        shell = self.start("sh", "-c", f"sleep 0.3; {PRINT_EVENTS} -o {self.output} -p $$ -d 0.5; true")
        shell.wait()
        capture = Capture(support.Result(0, "", ""), self.output)
        self.assertEqual(capture.root, shell.pid)
        self.assertEqual(capture.tree, {shell.pid})

    def test_end_of_the_target(self):
        burn = support.build_program("burn.c", "-O1", "-pthread")
        process = self.start(burn, "700")
        capture = self.capture("-p", process.pid)
        self.assertTrue(capture.end["exited"])


@support.needs_perf_event()
@support.needs_root()
class TestRights(CaptureTestCase):
    def give_capabilities(self, program):
        value = (0x02000001).to_bytes(4, "little") + (1 << 14).to_bytes(4, "little") + bytes(4)
        value += ((1 << 38 | 1 << 34) >> 32).to_bytes(4, "little") + bytes(4)
        os.setxattr(program, "security.capability", value)

    def test_file_capabilities(self):
        """A binary with them samples everything of its command, which inherits none of them."""
        program = self.copy_for_all(PRINT_EVENTS)
        self.give_capabilities(program)
        with system_setting(PARANOID, 2):
            capture = self.capture(
                "grep", "-E", "^Cap(Inh|Prm|Eff|Amb)", "/proc/self/status", program=program, user=support.NOBODY
            )
        self.assertEqual(capture.info["mode"], "per-CPU events")
        self.assertTrue(capture.of("kernel_module"))
        lines = capture.result.out.splitlines()
        self.assertEqual(len(lines), 4)
        for line in lines:
            self.assertEqual(int(line.split()[1], 16), 0, line)
        maps = [event for event in capture.of("map", capture.root) if event["path"].startswith("/")]
        self.assertTrue(all(event["memory"] == "read" or "process" in event["memory"] for event in maps), maps)

    def test_file_capabilities_do_not_open_others_processes(self):
        program = self.copy_for_all(PRINT_EVENTS)
        self.give_capabilities(program)
        sleeper = subprocess.Popen(["sleep", "100"])
        self.addCleanup(sleeper.wait)
        self.addCleanup(sleeper.kill)
        result = self.print_events("-p", sleeper.pid, "-d", "1", program=program, user=support.NOBODY)
        self.assertEqual(result.status, 2)
        self.assertIn("belongs to another user", result.err)

    def test_sudo_runs_as_the_user(self):
        environment = {"SUDO_UID": support.NOBODY, "SUDO_GID": support.NOBODY, "HOME": "/root", "USER": "root"}
        result = self.print_events("sh", "-c", 'echo "$(id -u) $(id -g) $(id -G) $HOME $USER"', env=environment)
        self.assertIn(f"{support.NOBODY} {support.NOBODY} {support.NOBODY} /nonexistent nobody\n", result.out)
        environment["SUDO_UID"] = "0"
        result = self.print_events("id", "-u", env=environment)
        self.assertIn("0\n", result.out)
        environment["SUDO_UID"] = "no number"
        self.assertIn("0\n", self.print_events("id", "-u", env=environment).out)

    def test_process_namespace(self):
        """A command in pid and mount namespaces of its own is reported by the numbers seen here."""
        namespaces = ("unshare", "--pid", "--fork", "--mount", "--mount-proc")
        if not shutil.which("unshare") or support.run(*namespaces, "true").status:
            self.skipTest("unshare cannot make these namespaces here (as in a chroot)")
        burn = support.build_program("burn.c", "-O1", "-pthread")
        capture = self.capture(*namespaces, burn, "300")
        self.assertEqual(len(capture.tree), 2)
        child = (capture.tree - {capture.root}).pop()
        self.assertNotEqual(child, 1)
        self.assert_sampled(capture, 300)
        own = [event for event in capture.of("map", child) if event["path"] == str(burn)]
        self.assertTrue(own and own[0]["file"] == "open", own)


@support.needs_perf_event()
class TestSpRecord(support.TestCase):
    """The same through sp record, as far as its summary tells."""

    def samples(self, result):
        return int(re.search(r"^sp: (\d+) samples, ", result.err, re.MULTILINE)[1])

    def test_refused(self):
        refuse = support.build_program("refuse.c")
        for number in (errno.EACCES, errno.EPERM, errno.ENOSYS):
            with self.subTest(errno=errno.errorcode[number]):
                result = support.run(refuse, "perf", number, support.SP, "record", "-s", "touch", "ran", cwd=self.folder)
                self.assertEqual(result.status, 125)
                self.assertEqual(result.err.count("\n"), 1, result)
                self.assertIn("seccomp", result.err)
                self.assertFalse((self.folder / "ran").exists())

    @support.needs_root()
    def test_short_lived_children(self):
        storm = support.build_program("storm.c", "-O1")
        burn = support.build_program("burn.c", "-O1", "-pthread", "-static")
        result = self.sp_ok("record", "-s", storm, "600", burn, "0.7")
        used = float(result.out)
        self.assertGreater(self.samples(result), used * 0.9 - 4 * used**0.5)

    def test_taskset(self):
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2 or not shutil.which("taskset"):
            self.skipTest("needs taskset and two CPUs")
        burn = support.build_program("burn.c", "-O1", "-pthread")
        command = ("record", "-s", "taskset", "-c", str(cpus[1]), burn, "300")
        result = self.sp_ok(*command, preexec=lambda: os.sched_setaffinity(0, {cpus[0]}))
        self.assertGreater(self.samples(result), 200)

    @support.needs_root()
    def test_file_capabilities(self):
        """An ordinary user's sp, after sudo sp setup."""
        self.folder.chmod(0o777)
        program = self.folder / "sp"
        shutil.copy(support.SP, program)
        program.chmod(0o755)
        burn = self.folder / "burn"
        shutil.copy(support.build_program("burn.c", "-O1", "-pthread"), burn)
        with system_setting(PARANOID, 2):
            self.assertEqual(support.run(program, "setup").status, 0)
            env = {"SP_CACHE_DIR": self.folder / "cache"}
            result = support.run(
                program, "record", "-s", burn, "300", user=support.NOBODY, cwd=self.folder, env=env
            )
        self.assertEqual(result.status, 0, result)
        self.assertIn("per-CPU events", result.err)
        self.assertGreater(self.samples(result), 200)


@support.needs_root()
class TestSetup(support.TestCase):
    """On a copy of sp, so that the built one keeps none of it."""

    def setUp(self):
        super().setUp()
        self.binary = self.folder / "sp"
        shutil.copy(support.SP, self.binary)
        self.binary.chmod(0o755)
        if pathlib.Path("/etc/sysctl.d/90-sp.conf").exists():
            self.skipTest("sp setup --sysctl is in force on this machine")

    def setup_command(self, *args, **options):
        return support.run(self.binary, "setup", *args, **options)

    def test_needs_root(self):
        result = self.setup_command(user=support.NOBODY)
        self.assertEqual((result.status, result.err), (1, "sp: this needs root: run `sudo sp setup`\n"))

    @support.needs_perf_event()
    def test_grant_and_undo(self):
        with system_setting(PARANOID, 2):
            self.assertEqual(self.setup_command("--status", user=support.NOBODY).status, 1)
            result = self.setup_command()
            self.assertEqual(result.status, 0, result)
            self.assertIn("cap_perfmon", result.out)
            self.assertIn("risk:", result.out)
            self.assertEqual(self.setup_command("--status", user=support.NOBODY).status, 0)
            self.assertIn("took the capabilities", self.setup_command("--undo").out)
            self.assertEqual(self.setup_command("--status", user=support.NOBODY).status, 1)
            self.assertIn("nothing to undo", self.setup_command("--undo").out)

    @support.needs_perf_event()
    def test_sysctl_and_undo(self):
        keys = ("perf_event_paranoid", "perf_event_mlock_kb", "kptr_restrict")
        read = lambda: [support.setting(f"/proc/sys/kernel/{key}") for key in keys]
        with system_setting(PARANOID, 2):
            before = read()
            try:
                self.assertEqual(self.setup_command("--sysctl").status, 0)
                self.assertEqual(self.setup_command("--status", user=support.NOBODY).status, 0)
                # Given twice, the undo still restores what was before the first.
                self.assertEqual(self.setup_command("--sysctl").status, 0)
            finally:
                self.assertEqual(self.setup_command("--undo").status, 0)
            self.assertEqual(read(), before)
            self.assertFalse(pathlib.Path("/etc/sysctl.d/90-sp.conf").exists())

    def test_options_exclude_each_other(self):
        self.assertEqual(self.setup_command("--undo", "--status").status, 2)
        self.assertEqual(self.setup_command("--frobnicate").status, 2)


if __name__ == "__main__":
    unittest.main()
