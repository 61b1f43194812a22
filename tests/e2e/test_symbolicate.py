"""sp symbolicate: addresses on the command line and on stdin, as text and as JSON."""

import json
import subprocess

import support


def symbols_of(path):
    """Name -> address, as nm prints them."""
    text = subprocess.run(["nm", path], check=True, capture_output=True, text=True).stdout
    fields = [line.split() for line in text.splitlines()]
    return {line[2]: int(line[0], 16) for line in fields if len(line) == 3}


class SymbolicateTest(support.TestCase):
    def program(self, *flags):
        return support.build_program("inlined.cpp", "-g", "-O2", *flags, compiler="c++")

    def test_inline_chain(self):
        program = self.program()
        address = symbols_of(program)["_ZN2ns7computeIiEET_S1_"]
        out = self.sp_ok("symbolicate", program, f"{address:x}").out
        lines = out.splitlines()
        self.assertTrue(lines[0].startswith(f"0x{address:x}: "), out)
        self.assertIn(" ns::compute<int>(int) at ", lines[-1])
        self.assertIn("inlined.cpp:", lines[0])

    def test_every_byte_agrees_with_addr2line(self):
        program = self.program()
        start = symbols_of(program)["_ZN2ns7computeIiEET_S1_"]
        addresses = [f"0x{start + i:x}" for i in range(24)]
        expected = subprocess.run(["addr2line", "-e", program, "-i"], input="\n".join(addresses), text=True,
                                  check=True, capture_output=True).stdout
        out = self.sp_ok("symbolicate", program, "--json", input="\n".join(addresses)).out
        answers = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([answer["address"] for answer in answers], addresses)
        frames = [f"{frame['file']}:{frame['line']}" for answer in answers for frame in answer["frames"]]
        expected = [line.split(" (discriminator")[0] for line in expected.splitlines()]
        # Padding between functions.
        self.assertEqual(frames, [line for line in expected if not line.startswith("??")])
        self.assertTrue(any(len(answer["frames"]) == 3 for answer in answers), out)

    def test_relative_addresses(self):
        program = self.program("-no-pie")
        address = symbols_of(program)["main"]
        header = subprocess.run(["readelf", "-lW", program], check=True, capture_output=True, text=True).stdout
        base = min(int(line.split()[2], 16) for line in header.splitlines() if line.split()[:1] == ["LOAD"])
        self.assertGreater(base, 0)
        absolute = self.sp_ok("symbolicate", program, hex(address)).out
        relative = self.sp_ok("symbolicate", "--relative", program, hex(address - base)).out
        self.assertIn(": main at", absolute)
        self.assertEqual(absolute.split(" ", 1)[1], relative.split(" ", 1)[1])

    def test_section_and_offset(self):
        """What is not linked has all its sections at 0; addresses are told by section."""
        source = support.ROOT / "tests/e2e/programs/inlined.cpp"
        path = self.folder / "x.o"
        subprocess.run(["c++", "-c", "-g", "-O2", "-o", path, source], check=True)
        name = ".text._ZN2ns7computeIlEET_S1_"
        expected = subprocess.run(["addr2line", "-e", path, "-j", name, "-i", "0", "4"], check=True,
                                  capture_output=True, text=True).stdout.splitlines()
        out = self.sp_ok("symbolicate", "--json", path, f"{name}+0", f"{name}+0x4").out
        frames = [frame for line in out.splitlines() for frame in json.loads(line)["frames"]]
        self.assertEqual([f"{frame['file']}:{frame['line']}" for frame in frames],
                         [line.split(" (discriminator")[0] for line in expected])
        self.assertEqual(frames[-1]["function"], "ns::compute<long>(long)")
        self.assertEqual(self.sp("symbolicate", path, ".nowhere+0x1").out, ".nowhere+0x1: ?? (not an address)\n")

    def test_unknown_addresses_and_words(self):
        result = self.sp("symbolicate", self.program(), input="0\n\nffffffffffffffff\nnonsense\n10000000000000000\n")
        self.assertEqual(result.out, "0x0: ??\n0xffffffffffffffff: ??\nnonsense: ?? (not an address)\n"
                                     "10000000000000000: ?? (not an address)\n")
        self.assertEqual(result.status, 1)
        result = self.sp("symbolicate", "--json", self.program(), "0", "nonsense")
        self.assertEqual([json.loads(line) for line in result.out.splitlines()],
                         [{"address": "0x0", "symbol": None, "frames": []},
                          {"input": "nonsense", "error": "not an address"}])

    def test_answers_while_input_goes_on(self):
        process = subprocess.Popen([support.SP, "symbolicate", self.program()], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True, bufsize=1)
        self.addCleanup(process.stdout.close)
        try:
            for i in range(3):
                process.stdin.write(f"{i:x}\n")
                process.stdin.flush()
                self.assertEqual(process.stdout.readline(), f"0x{i:x}: ??\n")
        finally:
            process.stdin.close()
            process.wait(support.TIMEOUT)

    def test_errors(self):
        self.assertEqual(self.sp("symbolicate").status, 2)
        self.assertEqual(self.sp("symbolicate", "--engine", "magic", self.program(), "0").status, 2)
        result = self.sp("symbolicate", "no-such-file", "0")
        self.assertEqual((result.status, result.out), (1, ""))
        self.assertIn("no-such-file", result.err)

    def test_both_engines_agree(self):
        program = self.program()
        start = symbols_of(program)["_ZN2ns7computeIlEET_S1_"]
        text = "\n".join(f"{start + i:x}" for i in range(16))
        answers = [self.sp_ok("symbolicate", "--json", "--engine", engine, program, input=text).out
                   for engine in ("native", "libdwarf")]
        lines = [[[(frame["file"], frame["line"]) for frame in json.loads(line)["frames"]]
                  for line in out.splitlines()] for out in answers]
        self.assertEqual(lines[0], lines[1])

    def test_loads_only_what_it_uses(self):
        """LD_DEBUG tells of every library that the dynamic loader maps."""
        result = self.sp("symbolicate", self.program(), "0", env={"LD_DEBUG": "files"})
        if "calling init" not in result.err:
            self.skipTest("this libc has no LD_DEBUG")
        if "libasan" in result.err or "libtsan" in result.err:
            self.skipTest("a sanitizer's build links all libraries")
        for name in ("libz", "libc"):
            self.assertIn(f"{name}.so", result.err)
        for name in ("libcurl", "libmicrohttpd", "libcapstone", "libdwarf", "libelf", "libgnutls", "libcjson"):
            self.assertNotIn(name, result.err)
        result = self.sp("symbolicate", "--engine", "libdwarf", self.program(), "0", env={"LD_DEBUG": "files"})
        self.assertIn("libdwarf", result.err)


class SymbolsTest(support.TestCase):
    def setUp(self):
        super().setUp()
        self.program = support.build_program("inlined.cpp", "-g", "-O2", "-Wl,--build-id=sha1", compiler="c++")

    def test_identify(self):
        notes = subprocess.run(["readelf", "-n", self.program], check=True, capture_output=True, text=True).stdout
        build_id = notes.split("Build ID: ")[1].split()[0]
        (self.folder / "text").write_text("nothing\n")
        result = self.sp("symbols", "identify", "--json", self.program, "text", "nowhere")
        self.assertEqual(result.status, 1)
        info = json.loads(result.out)
        self.assertEqual((info["kind"], info["codeId"], info["hasDebugInfo"]), ("ELF", build_id, True))
        self.assertTrue(info["debugId"].endswith("0") and len(info["debugId"]) == 33)
        for part in ("text", "nowhere"):
            self.assertIn(part, result.err)
        self.assertIn(build_id, self.sp_ok("symbols", "identify", self.program).out)

    def test_list_has_what_nm_has(self):
        expected = {address for name, address in symbols_of(self.program).items()
                    if name in ("main", "_start", "_ZN2ns7computeIiEET_S1_")}
        out = self.sp_ok("symbols", "list", "--json", self.program).out
        listed = [json.loads(line) for line in out.splitlines()]
        addresses = [int(symbol["address"], 16) for symbol in listed]
        self.assertEqual(addresses, sorted(addresses))
        self.assertLessEqual(expected, set(addresses))
        self.assertIn("main", [symbol["name"] for symbol in listed])
        self.assertEqual(len(self.sp_ok("symbols", "list", self.program).out.splitlines()), len(listed))

    def test_why(self):
        stripped = self.folder / "stripped"
        subprocess.run(["strip", "-o", stripped, self.program], check=True)
        out = self.sp_ok("symbols", "why", stripped).out
        self.assertIn("/usr/lib/debug/.build-id/", out)
        self.assertIn("not there", out)
        missing = self.sp("symbols", "why", "--json", "/nowhere/file")
        self.assertEqual(missing.status, 1, missing)
        result = json.loads(missing.out)
        self.assertEqual(result["file"], "/nowhere/file")
        self.assertTrue(any("/nowhere/file" in place for place in result["places"]))

    def test_control_characters_are_shown(self):
        """What a file says cannot give orders to the terminal."""
        orders = self.folder / "a\033[2Jb.sym"
        orders.write_text("MODULE Linux x86_64 0123456789ABCDEF0123456789ABCDEF0 a\033]0;x\007\n"
                          "FUNC 1000 10 0 f\033[31m\u009b1m\n")
        for args in (["symbols", "list", orders], ["symbols", "identify", orders], ["symbols", "why", orders],
                     ["symbolicate", "--relative", orders, "1000", "\033[2J"], ["symbolicate", orders / "no", "1"]):
            result = self.sp(*args)
            self.assertNotRegex(result.out + result.err, "[\0-\010\013-\037\177-\u009f]", args)
            self.assertIn("\\x1b[", result.out + result.err, args)

    def test_lost_output_is_no_success(self):
        for args in (["--help"], ["symbols", "list", self.program], ["symbolicate", self.program, "0"]):
            with open("/dev/full", "w") as full:
                status = subprocess.run([support.SP, *args], stdout=full, stderr=subprocess.PIPE).returncode
            self.assertEqual(status, 1, args)

    def test_usage(self):
        for args in ([], ["identify"], ["nonsense", self.program]):
            self.assertEqual(self.sp("symbols", *args).status, 2)
