"""sp record as its users meet it: exit status, signals, output, and the truth of what is shown."""

import json
import math
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

import support
import validate_profile


def shell(text):
    return ["sh", "-c", text]


@support.needs_perf_event()
class ExitStatus(support.TestCase):
    """The exit status is the command's own; sp's failures have theirs."""

    def record(self, *command, options=(), **keywords):
        return self.sp("record", "-s", *options, "--", *command, **keywords)

    def test_the_commands_own(self):
        for code in (0, 1, 3, 101, 255):
            with self.subTest(code=code):
                self.assertEqual(self.record(*shell(f"exit {code}")).status, code)

    def test_death_by_signal(self):
        result = self.record(*shell("kill -SEGV $$"))
        self.assertEqual(result.status, 128 + signal.SIGSEGV, result)
        self.assertIn("killed by signal 11", result.err)

    def test_not_found(self):
        result = self.record("no-such-command-here")
        self.assertEqual(result.status, 127, result)
        self.assertIn("command not found", result.err)
        self.assertEqual(len(result.err.strip().splitlines()), 1, result)
        self.assertFalse((self.folder / "profile.json.gz").exists())

    def test_not_executable(self):
        path = self.folder / "plain"
        path.write_text("text")
        result = self.record(path)
        self.assertEqual(result.status, 126, result)
        self.assertEqual(len(result.err.strip().splitlines()), 1, result)

    def test_a_kept_recording_is_not_overwritten(self):
        kept = self.folder / "profile.json.gz.recording"
        kept.write_text("what an earlier run could not turn into a profile")
        self.assertEqual(self.record("true").status, 0)
        self.assertEqual(kept.read_text(), "what an earlier run could not turn into a profile")
        kept.unlink()
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["cache", "profile.json.gz"])

    def test_nothing_left_behind(self):
        self.record("true")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["cache", "profile.json.gz"])

    def test_wrong_usage(self):
        for words in (["record"], ["record", "--nonsense", "x"], ["record", "-p", "1", "x"], ["record", "--all", "x"]):
            with self.subTest(words=words):
                result = self.sp(*words)
                self.assertEqual(result.status, 125, result)
                self.assertEqual(len(result.err.strip().splitlines()), 1, result)
        self.assertEqual(self.sp("load").status, 2)
        self.assertEqual(self.sp("load", "--map-path", "no-equals-sign", "x.json").status, 2)
        self.assertEqual(self.sp("nonsense").status, 2)

    def test_output_not_writable_is_known_before_the_command_runs(self):
        result = self.record(*shell("touch ran"), options=["-o", "no/such/folder/p.json.gz"])
        self.assertEqual(result.status, 125, result)
        self.assertFalse((self.folder / "ran").exists())
        (self.folder / "folder").mkdir()
        os.mkfifo(self.folder / "pipe")
        before = sorted(path.name for path in self.folder.iterdir())
        for name in ("folder", "pipe"):
            with self.subTest(name=name):
                result = self.record(*shell("touch ran"), options=["-o", name])
                self.assertEqual(result.status, 125, result)
                self.assertEqual(len(result.err.strip().splitlines()), 1, result)
                self.assertIn(name, result.err)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), before)

    def test_why_the_output_cannot_be_made_is_told(self):
        result = self.record("true", options=["-o", "no/folder/p.json.gz"])
        self.assertIn("there is no folder no/folder;", result.err)
        self.assertNotIn(".recording", result.err)
        result = self.record("true", options=["-o", "-"])
        self.assertEqual(result.status, 125, result)
        self.assertIn("stdout", result.err)
        gone = self.folder / "gone"
        gone.mkdir()
        result = self.sp("record", "-s", "true", cwd=gone, preexec=gone.rmdir)
        self.assertEqual(result.status, 125, result)
        self.assertIn("the current folder was deleted", result.err)

    @support.needs_root()
    def test_no_right_to_write_is_told(self):
        if int(support.setting("/proc/sys/kernel/perf_event_paranoid", "4")) > 2:
            self.skipTest("perf_event_paranoid is above 2")
        shutil.copy(support.SP, self.folder / "sp")
        result = support.run("./sp", "record", "-s", "true", user=support.NOBODY, cwd=self.folder,
                             env={"SP_CACHE_DIR": self.folder / "cache"})
        self.assertEqual(result.status, 125, result)
        self.assertIn("no file can be made in the folder .", result.err)

    def test_devices_as_output(self):
        temporary = self.folder / "temporary"
        temporary.mkdir()
        env = {"TMPDIR": temporary}
        self.assertEqual(self.record("true", options=["-o", "/dev/null"], env=env).status, 0)
        self.assertEqual(list(temporary.iterdir()), [])
        result = self.record("true", options=["-o", "/dev/full"], env=env)
        self.assertEqual(result.status, 125, result)
        self.assertIn("No space left on device", result.err)
        # A sample may have been taken of it.
        for path in temporary.iterdir():
            self.assertIn(f"kept in {path}\n", result.err)
        self.assertEqual(list(pathlib.Path("/dev").glob("*.recording*")), [])

    def test_a_limit_on_the_size_of_files_is_a_write_error(self):
        program = support.build_program("split.c", "-O1", "-g")
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        result = self.record(program, "100", preexec=limit)
        self.assertEqual(result.status, 125, result)
        self.assertEqual(result.err.count("cannot write the recording"), 1, result)
        self.assertEqual(result.err.count("cannot write the profile"), 1, result)
        self.assertIn("nothing of the recording could be kept", result.err)
        self.assertEqual([path.name for path in self.folder.iterdir() if path.name != "cache"], [])
        # The command dies of the signal as it would without sp.
        result = self.record(*shell(f"exec {sys.executable} -c \"import signal; signal.signal(signal.SIGXFSZ, "
                                    "signal.SIG_DFL); open('x','w').write('x')\""), preexec=limit)
        self.assertIn("killed by signal 25", result.err)

    def test_a_low_rate_is_not_taken_for_a_failure(self):
        program = support.build_program("split.c", "-O1", "-g")
        result = self.record(program, "200", options=["-r", "1"])
        self.assertEqual(result.status, 0, result)

    def test_long_names_of_programs_are_whole(self):
        for name, text in (("a-program-with-a-long-name", None), ("a-script-with-a-long-name.sh",
                           "#!/bin/sh\ni=0; while [ $i -lt 100000 ]; do i=$((i+1)); done\n")):
            with self.subTest(name=name):
                path = self.folder / name
                if text:
                    path.write_text(text)
                    path.chmod(0o755)
                else:
                    shutil.copy(support.build_program("split.c", "-O1", "-g"), path)
                self.record(path, "100")
                profile = support.read_profile(self.folder / "profile.json.gz")
                self.assertEqual({thread["processName"] for thread in profile["threads"]}, {name})

    def test_words_of_the_command_stay_whole(self):
        path = self.folder / "a b c"
        shutil.copy(support.build_program("split.c", "-O1", "-g"), path)
        self.record("./a b c", "100", options=["--include-args"])
        profile = support.read_profile(self.folder / "profile.json.gz")
        self.assertEqual(profile["meta"]["product"], "a b c")
        self.assertEqual(profile["meta"]["arguments"], "'./a b c' 100")
        self.assertEqual({thread["processName"] for thread in profile["threads"]}, {"a b c 100"})

    def test_numbers_out_of_range_are_told_exactly(self):
        result = self.sp("record", "-p", "99999999999")
        self.assertEqual(result.status, 125, result)
        self.assertIn("from 1 to 2147483647,", result.err)

    def test_environment_words(self):
        result = self.record("ANSWER=42", "OTHER=a b", *shell('echo "$ANSWER,$OTHER"'))
        self.assertEqual(result.out, "42,a b\n", result)

    def test_stdin_and_stdout_are_the_commands(self):
        result = self.record("cat", input="through")
        self.assertEqual(result.out, "through", result)


@support.needs_perf_event()
class Iterations(support.TestCase):
    def test_stops_at_the_first_failure(self):
        script = "echo x >> runs; [ $(wc -l < runs) -lt 2 ]"
        result = self.sp("record", "-s", "--iteration-count", "4", *shell(script))
        self.assertEqual(result.status, 1, result)
        self.assertEqual((self.folder / "runs").read_text().count("x"), 2)
        self.assertIn("stopped after run 2 of 4", result.err)

    def test_ignore_exit_code(self):
        result = self.sp("record", "-s", "--iteration-count", "3", "-i", *shell("echo x >> runs; exit 4"))
        self.assertEqual(result.status, 4, result)
        self.assertEqual((self.folder / "runs").read_text().count("x"), 3)

    def test_a_command_that_vanishes_leaves_the_earlier_runs(self):
        script = self.folder / "once"
        for options in ((), ("-i",)):
            with self.subTest(options=options):
                script.write_text('#!/bin/sh\ni=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; rm "$0"\n')
                script.chmod(0o755)
                result = self.sp("record", "-s", "--iteration-count", "3", *options, script)
                self.assertEqual(result.status, 127, result)
                self.assertIn("command not found", result.err)
                profile = support.read_profile(self.folder / "profile.json.gz")
                self.assertGreater(sum(len(thread["samples"]["stack"]) for thread in profile["threads"]), 0)

    def test_all_runs_are_in_one_profile(self):
        program = support.build_program("split.c", "-O1", "-g")
        self.sp_ok("record", "-s", "--iteration-count", "3", program, "200")
        profile = support.read_profile(self.folder / "profile.json.gz")
        self.assertEqual(validate_profile.validate(profile), [])
        names = [thread["processName"] for thread in profile["threads"] if thread["isMainThread"]]
        self.assertEqual(names.count("split"), 3, names)
        self.sp_ok("record", "-s", "--iteration-count", "3", "--reuse-threads", program, "200")
        profile = support.read_profile(self.folder / "profile.json.gz")
        self.assertEqual(validate_profile.validate(profile), [])
        names = [thread["processName"] for thread in profile["threads"] if thread["isMainThread"]]
        self.assertEqual(names.count("split"), 1, names)


@support.needs_perf_event()
class Signals(support.TestCase):
    def start(self, *command, options=()):
        process = subprocess.Popen(
            [support.SP, "record", "-s", *options, "--", *command],
            stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=self.folder, start_new_session=True,
            env={**os.environ, "SP_CACHE_DIR": str(self.folder / "cache")},
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        return process

    def started(self, process):
        """Waits until the command has written its pid to the file `pid`."""
        path = self.folder / "pid"
        support.wait_for(lambda: path.exists() and path.read_text().endswith("\n"), "the command's start")
        return int(path.read_text())

    def finish(self, process):
        out, err = process.communicate(timeout=60)
        return support.Result(process.returncode, out, err)

    def test_a_signal_for_sp_alone_is_passed_on(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number):
                (self.folder / "pid").unlink(missing_ok=True)
                process = self.start(*shell("trap 'echo got; exit 0' INT TERM HUP; echo $$ > pid; while :; do :; done"))
                self.started(process)
                os.kill(process.pid, number)
                result = self.finish(process)
                self.assertEqual(result.status, 128 + number, result)
                self.assertEqual(result.out, "got\n")
                self.assertTrue((self.folder / "profile.json.gz").exists())

    def test_a_deaf_command_is_ended(self):
        process = self.start(*shell("trap '' INT TERM HUP; echo $$ > pid; while :; do :; done"))
        command = self.started(process)
        os.kill(process.pid, signal.SIGTERM)
        result = self.finish(process)
        self.assertEqual(result.status, 128 + signal.SIGTERM, result)
        self.assertFalse(pathlib.Path(f"/proc/{command}").exists())
        self.assertEqual(validate_profile.validate(support.read_profile(self.folder / "profile.json.gz")), [])

    def test_the_second_one_ends_the_command_at_once(self):
        process = self.start(*shell("trap '' INT TERM; echo $$ > pid; while :; do :; done"))
        command = self.started(process)
        time.sleep(0.2)
        os.kill(process.pid, signal.SIGINT)
        time.sleep(0.2)
        os.kill(process.pid, signal.SIGINT)
        result = self.finish(process)
        self.assertEqual(result.status, 128 + signal.SIGINT, result)
        self.assertIn("ended at once", result.err)
        self.assertFalse(pathlib.Path(f"/proc/{command}").exists())
        self.assertEqual(validate_profile.validate(support.read_profile(self.folder / "profile.json.gz")), [])
        self.assertFalse(list(self.folder.glob("*.recording*")))

    def test_the_third_one_quits(self):
        process = self.start(*shell("trap '' INT TERM; echo $$ > pid; exec sleep 30 >&- 2>&-"))
        command = self.started(process)
        # A recorder that is stopped meanwhile gets no turn between the signals.
        os.kill(process.pid, signal.SIGSTOP)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(process.pid, number)
        os.kill(process.pid, signal.SIGCONT)
        result = self.finish(process)
        self.addCleanup(subprocess.run, ["kill", "-9", str(command)], stderr=subprocess.DEVNULL)
        self.assertGreater(result.status, 128, result)
        self.assertIn("what was recorded is in profile.json.gz.recording", result.err)
        self.assertTrue((self.folder / "profile.json.gz.recording").exists())

    def at_terminal(self, *command, keys):
        """Runs sp record on a terminal of its own; `keys` are (seconds, bytes). The status and what was shown."""
        pid, fd = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.environ["SP_CACHE_DIR"] = str(self.folder / "cache")
            os.execv(support.SP, [support.SP, "record", "-s", *command])
        self.started(None)
        for seconds, text in keys:
            time.sleep(seconds)
            os.write(fd, text)
        output = b""
        try:
            while chunk := os.read(fd, 4096):
                output += chunk
        except OSError:
            pass
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status), output.decode()

    def test_ctrl_c_at_a_deaf_command(self):
        """Once: it is ended after a while; twice: at once. Either way the status is that of the signal."""
        for keys in ([(0.3, b"\x03")], [(0.3, b"\x03"), (0.3, b"\x03")]):
            with self.subTest(keys=len(keys)):
                (self.folder / "pid").unlink(missing_ok=True)
                (self.folder / "profile.json.gz").unlink(missing_ok=True)
                status, output = self.at_terminal(*shell("trap '' INT; echo $$ > pid; while :; do :; done"), keys=keys)
                self.assertEqual(status, 128 + signal.SIGINT, output)
                self.assertEqual(validate_profile.validate(support.read_profile(self.folder / "profile.json.gz")), [])

    def test_sigint_reaches_a_background_job(self):
        """Shells without job control start background jobs with SIGINT ignored: sp heeds it, the command need not."""
        ignore = lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)
        script = "echo $$ > pid; kill -INT $$; echo lived on; exec sleep 30"
        process = subprocess.Popen([support.SP, "record", "-s", *shell(script)], stderr=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True, cwd=self.folder, preexec_fn=ignore,
                                   env={**os.environ, "SP_CACHE_DIR": str(self.folder / "cache")})
        self.addCleanup(process.kill)
        self.started(process)
        time.sleep(0.2)
        os.kill(process.pid, signal.SIGINT)
        result = self.finish(process)
        self.assertEqual(result.status, 128 + signal.SIGINT, result)
        self.assertEqual(result.out, "lived on\n")
        self.assertTrue((self.folder / "profile.json.gz").exists())

    def test_sigkill_leaves_the_command_alone(self):
        process = self.start(*shell("echo $$ > pid; sleep 1; echo done > end"))
        self.started(process)
        process.kill()
        process.wait()
        support.wait_for((self.folder / "end").exists, "the command's own end")

    def test_ctrl_c_at_a_terminal_reaches_both_once(self):
        pid, fd = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.environ["SP_CACHE_DIR"] = str(self.folder / "cache")
            os.execv(support.SP, [support.SP, "record", "-s", "python3", "-c", (
                "import signal,time,os\nn=[]\nsignal.signal(signal.SIGINT,lambda *a:n.append(1))\n"
                "open('pid','w').write(str(os.getpid())+'\\n')\n"
                "while not n: pass\ntime.sleep(0.3)\nprint('signals',len(n))\nraise SystemExit(7)")])
        self.started(None)
        os.write(fd, b"\x03")
        output = b""
        try:
            while chunk := os.read(fd, 4096):
                output += chunk
        except OSError:
            pass
        _, status = os.waitpid(pid, 0)
        self.assertIn(b"signals 1", output)
        self.assertEqual(os.waitstatus_to_exitcode(status), 7, output)

    def test_ctrl_z_and_on(self):
        pid, fd = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execvp("bash", ["bash", "--norc", "-i"])
        command = (f"SP_CACHE_DIR=cache {support.SP} record -s sh -c 'echo $$ > pid; "
                   "while [ ! -e go ]; do :; done'\n")
        os.write(fd, command.encode())
        child = self.started(None)
        state = lambda: re.search(r"State:\s+(\w)", pathlib.Path(f"/proc/{child}/status").read_text()).group(1)
        os.write(fd, b"\x1a")
        support.wait_for(lambda: state() == "T", "the command's stop")
        time.sleep(0.3)
        os.write(fd, b"fg\n")
        support.wait_for(lambda: state() != "T", "the command going on")
        (self.folder / "go").touch()
        os.write(fd, b"echo status=$?.\n")
        output = b""
        while b"status=0." not in output:
            output += os.read(fd, 4096)
        os.write(fd, b"exit\n")
        os.close(fd)
        os.waitpid(pid, 0)
        self.assertEqual(validate_profile.validate(support.read_profile(self.folder / "profile.json.gz")), [])

    def test_duration_leaves_the_command_running(self):
        process = self.start(*shell("echo $$ > pid; sleep 2; echo done > end"), options=["-d", "0.5"])
        command = self.started(process)
        result = self.finish(process)
        self.assertEqual(result.status, 0, result)
        self.assertIn("left running", result.err)
        self.assertTrue(pathlib.Path(f"/proc/{command}").exists())
        support.wait_for((self.folder / "end").exists, "the command's own end")

    def test_survivors_are_left_alone_and_named(self):
        result = self.sp("record", "-s", *shell("sleep 3 >/dev/null 2>&1 & echo $!"))
        self.assertEqual(result.status, 0, result)
        child = int(result.out)
        self.addCleanup(lambda: os.kill(child, signal.SIGKILL))
        self.assertTrue(pathlib.Path(f"/proc/{child}").exists())
        self.assertRegex(result.err, rf"process {child} \((sleep|sh)\) lives on.*sp record -p {child}\b")


@support.needs_perf_event()
class Attach(support.TestCase):
    def test_a_running_process(self):
        program = support.build_program("split.c", "-O1", "-g")
        target = subprocess.Popen([program, "60000"])
        self.addCleanup(target.wait)
        self.addCleanup(target.kill)
        result = self.sp_ok("record", "-s", "-d", "1", "-p", str(target.pid))
        self.assertIsNone(target.poll(), result)
        profile = support.read_profile(self.folder / "profile.json.gz")
        self.assertEqual(validate_profile.validate(profile), [])
        count = sum(thread["samples"]["length"] for thread in profile["threads"])
        seconds = float(re.search(r"([\d.]+) s of CPU time", result.err).group(1))
        self.assertGreater(seconds, 0.05, result)
        # Loose: clock events of a busy virtual machine come late.
        self.assertGreater(count, 600 * seconds, result)
        self.assertEqual(profile["meta"]["product"], "split")
        self.assertEqual(profile["meta"]["arguments"], f"{program} 60000")

    def test_no_such_process(self):
        result = self.sp("record", "-s", "-p", "4194000")
        self.assertEqual(result.status, 125, result)
        self.assertEqual(len(result.err.strip().splitlines()), 1, result)

    def test_the_end_of_the_process_ends_the_recording(self):
        target = subprocess.Popen(shell("sleep 1"))
        self.addCleanup(target.wait)
        # Nobody reaps it until after: a zombie is an ended process too.
        self.assertEqual(self.sp("record", "-s", "-p", str(target.pid)).status, 0)


@support.needs_perf_event()
class Truth(support.TestCase):
    """The profile shows what is so by construction."""

    def check_split(self, path, least):
        profile = support.read_profile(path)
        self.assertEqual(validate_profile.validate(profile), [])
        functions = self.profiler(path).functions()
        total = sum(functions[name].total_weight for name in ("seventy", "twenty", "ten") if name in functions)
        self.assertGreater(total, least, functions)
        for name, share in (("seventy", 0.7), ("twenty", 0.2), ("ten", 0.1)):
            bound = 4 * math.sqrt(share * (1 - share) / total)
            self.assertAlmostEqual(functions[name].total_weight / total, share, delta=bound, msg=str(functions))
        self.assertGreaterEqual(functions["main"].total_weight, total)

    @support.needs_profiler_cli()
    def test_known_split(self):
        program = support.build_program("split.c", "-O1", "-g")
        self.sp_ok("record", "-s", "--presymbolicate", program, "4000")
        self.check_split(self.folder / "profile.json.gz", 3500)

    @support.needs_profiler_cli()
    @support.needs_root()
    def test_known_split_as_an_ordinary_user(self):
        if int(support.setting("/proc/sys/kernel/perf_event_paranoid", "4")) > 2:
            self.skipTest("perf_event_paranoid is above 2")
        program = support.build_program("split.c", "-O1", "-g")
        shutil.copy(program, self.folder / "split")
        # The build folder may be where only its owner can go.
        shutil.copy(support.SP, self.folder / "sp")
        os.chown(self.folder, support.NOBODY, support.NOBODY)
        result = support.run("./sp", "record", "-s", "--presymbolicate", "./split", "4000", user=support.NOBODY,
                             cwd=self.folder, env={"SP_CACHE_DIR": self.folder / "cache"})
        self.assertEqual(result.status, 0, result)
        self.check_split(self.folder / "profile.json.gz", 3400)

    def record_as_ordinary_user(self, *command):
        """The profile and the result of recording programs in self.folder, user code only."""
        if int(support.setting("/proc/sys/kernel/perf_event_paranoid", "4")) != 2:
            self.skipTest("perf_event_paranoid is not 2")
        # The build folder may be where only its owner can go.
        shutil.copy(support.SP, self.folder / "sp")
        os.chown(self.folder, support.NOBODY, support.NOBODY)
        result = support.run("./sp", "record", "-s", *command, user=support.NOBODY, cwd=self.folder,
                             env={"SP_CACHE_DIR": self.folder / "cache"})
        self.assertEqual(result.status, 0, result)
        profile = support.read_profile(self.folder / "profile.json.gz")
        self.assertEqual(validate_profile.validate(profile), [])
        return profile, result

    @support.needs_root()
    def test_weights_are_the_cpu_time_of_many_children(self):
        """By the kernel's accounting of a storm of forks: no time counts twice, little of it as the kernel's."""
        shutil.copy(support.build_program("children.c", "-O1"), self.folder / "children")
        for children, loops in (("200", "2000000"), ("40", "10000000")):
            with self.subTest(children=children):
                profile, result = self.record_as_ordinary_user("./children", children, "4", loops)
                used = sum(map(int, result.out.split()))
                weights = sum(sum(thread["samples"].get("weight") or [1] * thread["samples"]["length"])
                              for thread in profile["threads"])
                self.assertLess(weights, 1.1 * used + 50, result)
                # A child's first sample is due after 1 ms on a CPU, so up to that is missing of each.
                self.assertGreater(weights, 0.8 * used - int(children), result)

    @support.needs_root()
    def test_one_number_for_the_kernels_share(self):
        """What is said at the end, the info panel, and the weights agree."""
        profile, result = self.record_as_ordinary_user(*shell("seq 100000 | sort | md5sum"))
        samples = int(re.search(r"(\d+) samples, ", result.err).group(1))
        share, added = re.search(r"([\d.]+) % of the CPU time was in the kernel and not sampled: (\d+) samples",
                                 result.err).groups()
        weights = sum(sum(thread["samples"].get("weight") or [1] * thread["samples"]["length"])
                      for thread in profile["threads"])
        self.assertEqual(weights, samples + int(added), result)
        self.assertAlmostEqual(float(share) / 100, int(added) / weights, delta=0.0006)
        info = {entry["label"]: entry["value"] for section in profile["meta"]["extra"]
                for entry in section["entries"]}
        self.assertEqual(info["Samples"], samples)
        self.assertAlmostEqual(info["Kernel time not sampled"], int(added) / weights)

    @support.needs_profiler_cli()
    def test_symbols_through_the_server(self):
        program = support.build_program("split.c", "-O1", "-g")
        self.sp_ok("record", "-s", program, "1000")
        server = subprocess.Popen([support.SP, "load", "-n", "profile.json.gz"], cwd=self.folder,
                                  stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, "SP_CACHE_DIR": str(self.folder / "cache")})
        self.addCleanup(server.stderr.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        lines = [server.stderr.readline() for _ in range(2)]
        found = re.search(r"symbolServer=(\S+)", "".join(lines))
        self.assertTrue(found, lines)
        url = found.group(1).replace("%3A", ":").replace("%2F", "/")
        functions = self.profiler(self.folder / "profile.json.gz", url).functions()
        self.assertIn("seventy", functions)

    def test_an_empty_recording_says_why(self):
        result = self.sp("record", "-s", "true")
        self.assertEqual(result.status, 0, result)
        profile = support.read_profile(self.folder / "profile.json.gz")
        self.assertEqual(validate_profile.validate(profile), [])
        if not sum(thread["samples"]["length"] for thread in profile["threads"]):
            self.assertIn("the profile is empty: no sample was taken", result.err)
            self.assertIn("no sample was taken", json.dumps(profile))

    def test_summary_names_the_mode(self):
        result = self.sp("record", "-s", *shell("exit 0"))
        self.assertRegex(result.err, r"\d+ samples, \d+ lost")
        self.assertRegex(result.err, r"mode: .*Hz")

    @support.needs_root()
    @support.needs("ps")
    def test_who_works_for_the_reader_gets_its_turn(self):
        """The reader runs before all others, sp's other threads before ordinary ones, the command as ever."""
        if support.run("chrt", "-f", "1", "true").status:
            self.skipTest("no real-time priority is allowed")
        listing = 'ps -L -o cls= -o ni= -p "$PPID"; echo; ps -o cls= -o ni= -p $$'
        result = self.sp_ok("record", "-s", *shell(listing))
        recorder, command = result.out.split("\n\n")
        classes = [tuple(line.split()) for line in recorder.splitlines()]
        self.assertEqual([c for c, _ in classes].count("FF"), 1, recorder)
        self.assertGreaterEqual(classes.count(("TS", "-10")), 2, recorder)
        self.assertEqual(command.split(), ["TS", str(os.nice(0))])

    def test_the_profile_opens_later_too(self):
        """A profile that is no profile is one clear line."""
        (self.folder / "junk.json").write_text("[1, 2]")
        for name in ("junk.json", "absent.json"):
            result = self.sp("load", "-n", name, timeout=30)
            self.assertEqual(result.status, 1, result)
            self.assertEqual(len(result.err.strip().splitlines()), 1, result)


@support.needs_root()
@support.needs_perf_event()
class Sudo(support.TestCase):
    """Under sudo everything belongs to the user behind it."""

    def test_the_command_and_the_files_are_the_users(self):
        os.chown(self.folder, support.NOBODY, support.NOBODY)
        env = {"SUDO_UID": support.NOBODY, "SUDO_GID": support.NOBODY, "SP_CACHE_DIR": self.folder / "kept"}
        result = self.sp("record", "-s", "-o", "p.json.gz", *shell("id -u; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"),
                         env=env)
        self.assertEqual(result.status, 0, result)
        self.assertEqual(result.out.strip(), str(support.NOBODY))
        made = [self.folder / "p.json.gz", *(self.folder / "kept").rglob("*")]
        self.assertGreater(len(made), 1)
        for path in made:
            self.assertEqual(path.lstat().st_uid, support.NOBODY, path)


@support.needs_perf_event()
class FullDisk(support.TestCase):
    @support.needs_root()
    def test_what_could_be_written_stands(self):
        mount = self.folder / "small"
        mount.mkdir()
        if support.run("mount", "-t", "tmpfs", "-o", "size=256k", "none", mount).status:
            self.skipTest("cannot mount a tmpfs here")
        self.addCleanup(support.run, "umount", mount)
        (mount / "filler").write_bytes(bytes(200 * 1024))
        program = support.build_program("split.c", "-O1", "-g")
        result = self.sp("record", "-s", "-r", "8000", "-o", mount / "p.json.gz", "sh", "-c", f"{program} 3000; exit 5")
        self.assertEqual(result.err.count("the recording ended early"), 1, result)
        self.assertIn("No space left on device", result.err)
        self.assertNotIn("could not keep up", result.err)
        self.assertEqual(result.status, 125, result)
        self.assertNotEqual(result.status, -signal.SIGBUS)


if __name__ == "__main__":
    unittest.main()
