"""sp in the place of addr2line and llvm-symbolizer: the same output to the byte, compared with the installed tools.

The output of those tools differs between versions; the ones that sp is written after are in VERSIONS. Others are skipped.
"""

import itertools
import os
import shutil
import subprocess
import unittest

import support

VERSIONS = {"addr2line": "2.40", "llvm-symbolizer": "14.", "llvm-addr2line": "14."}


def version_fits(tool):
    path = shutil.which(tool)
    return path and VERSIONS[tool] in subprocess.run([path, "--version"], capture_output=True, text=True).stdout


def section(path, name):
    """(address, size)."""
    out = subprocess.run(["readelf", "-SW", path], check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        fields = line.replace("[ ", "[").split()
        if len(fields) > 5 and fields[1] == name:
            return int(fields[3], 16), int(fields[5], 16)
    raise AssertionError(f"{path} has no {name}")


def text_of(path):
    start, size = section(path, ".text")
    return [f"0x{start + i:x}" for i in range(size)]


class PeersTest(support.TestCase):
    def compare(self, tool, *args, input="", exact_errors=True, call="link"):
        """The tool's output and status, which sp's must equal."""
        if not version_fits(tool):
            self.skipTest(f"{tool} {VERSIONS[tool]} is not installed")
        env = {"SP_CACHE_DIR": self.folder / "cache"}
        theirs = support.run(tool, *args, input=input, cwd=self.folder)
        link = self.folder / tool
        if not link.exists():
            os.symlink(support.SP, link)
        command = [link] if call == "link" else [support.SP, "symbolicate", f"--{tool}"]
        ours = support.run(*command, *args, input=input, cwd=self.folder, env=env)
        if ours.out != theirs.out:  # not assertEqual: a diff of long texts takes minutes
            pairs = enumerate(itertools.zip_longest(ours.out.splitlines(), theirs.out.splitlines()))
            self.fail(f"{tool} {' '.join(map(str, args))}: " +
                      next((f"line {i}: {a!r}, not {b!r}" for i, (a, b) in pairs if a != b), "line breaks"))
        self.assertEqual(ours.status, theirs.status)
        if exact_errors:
            self.assertEqual(ours.err.replace(str(link), tool), theirs.err)
        return ours

    def programs(self, lto=True):
        yield support.build_program("inlined.cpp", "-g", "-O2", compiler="c++")
        for level in ("-O0", "-O1", "-O3"):
            yield support.build_program("inlined.c", "-g", level)
        if lto:
            yield support.build_program("inlined.c", "-g", "-O2", "-flto")
        if shutil.which("clang"):
            yield support.build_program("inlined.c", "-g", "-O2", compiler="clang")

    def test_addr2line_every_byte(self):
        # Not with link-time optimisation: there addr2line 2.40 names units "<artificial>".
        for program in self.programs(lto=False):
            addresses = "\n".join(text_of(program))
            for flags in (["-fi"], ["-fiC"], ["-f"], [], ["-a", "-f", "-i", "-p", "-s", "-C"], ["-ap"], ["-pi"]):
                with self.subTest(program=program, flags=flags):
                    self.compare("addr2line", "-e", program, *flags, input=addresses)

    def test_llvm_symbolizer_every_byte(self):
        for program in self.programs():
            addresses = "\n".join(text_of(program))
            for flags in ([], ["--no-inlines"], ["--functions=none"], ["--no-demangle"], ["-a", "-p", "-s"],
                          ["--output-style=GNU", "-f", "--no-inlines"], ["--output-style=GNU"]):
                with self.subTest(program=program, flags=flags):
                    self.compare("llvm-symbolizer", "--obj", program, *flags, input=addresses)
            self.compare("llvm-addr2line", "-e", program, "-fi", input=addresses)

    def test_addr2line_input(self):
        program = next(self.programs())
        start, _ = section(program, ".text")
        text = f"{start:x} junk\n  0x{start + 1:X}\n\nfoo\nzz\n-1\n{'f' * 20}\n{start:0150x}\n{start + 2:x}"
        self.compare("addr2line", "-e", program, "-a", "-f", input=text)
        for args in (["-e", program, "0", "zz", hex(start)], [f"-e{program}", "-fi", hex(start)],
                     [f"--exe={program}", "--func", "--inl", hex(start)], [hex(start)],
                     ["-e", program, "-f", "--demangle=none", hex(start)],
                     ["-e", program, "-j", ".text", "-a", "-f", "0", "1"],
                     ["-e", program, "-j", ".nowhere", "0"]):
            with self.subTest(args=args):
                self.compare("addr2line", *args)
                self.compare("addr2line", *args, call="option")

    def test_addr2line_files(self):
        (self.folder / "text").write_text("no object file\n" * 20)
        for path in ("nowhere", "text", "."):
            self.compare("addr2line", "-e", path, "0")
        # The usage that follows is not theirs.
        self.assertIn("unrecognized option '--nonsense'",
                      self.compare("addr2line", "--nonsense", exact_errors=False).err)

    def test_addr2line_of_an_object_file(self):
        source = support.ROOT / "tests/e2e/programs/inlined.c"
        subprocess.run(["cc", "-c", "-g", "-O2", source, "-o", self.folder / "x.o"], check=True)
        _, size = section(self.folder / "x.o", ".text.startup")
        addresses = "\n".join(hex(i) for i in range(size))
        self.compare("addr2line", "-e", "x.o", "-j", ".text.startup", "-f", "-i", "-a", input=addresses)

    def test_llvm_symbolizer_input(self):
        program = next(self.programs())
        shutil.copy(program, self.folder / "a file")
        shutil.copy(program, self.folder / "a")
        start, _ = section(program, ".text")
        data = int(subprocess.run(f"nm '{program}' | grep data_object", shell=True, check=True, capture_output=True,
                                  text=True).stdout.split()[0], 16)
        lines = [f"a 0x{start:x}", f'"a file" 0x{start:x}', f"'a file' {start}", "a", "", f"CODE a 0{start:o}",
                 f"DATA a 0x{data:x}", f"DATA a 0x{data + 3:x}", f"DATA a 0x{data + 4:x}", "DATA a 0", "a 0xzz",
                 f"a 0x{start:x} junk", f"  a   0x{start:x}", "a 0x0", "'a 0x1", "a 18446744073709551616"]
        self.compare("llvm-symbolizer", input="\n".join(lines) + "\n")
        self.compare("llvm-symbolizer", *lines)
        self.compare("llvm-symbolizer", "-a", *lines, call="option")
        self.compare("llvm-symbolizer", "--obj", "a", f"0x{start:x}", f"DATA 0x{data:x}", f"CODE {start}", "hello")
        self.compare("llvm-symbolizer", "-e", "a", f"--adjust-vma=0x{16:x}", f"0x{start + 16:x}")

    def test_llvm_symbolizer_files(self):
        (self.folder / "text").write_text("no object file\n" * 20)
        self.compare("llvm-symbolizer", "-e", "nowhere", "0x1", "DATA 0x2", "0x3")
        self.compare("llvm-symbolizer", "-e", "text", "0x1")
        self.compare("llvm-symbolizer", "--nonsense")
        self.compare("llvm-addr2line", "-e", "nowhere", "-f", "1")

    def test_names_of_the_program(self):
        program = next(self.programs())
        start, _ = section(program, ".text")
        for name in ("addr2line", "x86_64-linux-gnu-addr2line", "llvm-symbolizer", "llvm-symbolizer-14",
                     "llvm-addr2line"):
            os.symlink(support.SP, self.folder / name)
            result = support.run(self.folder / name, "-e", program, "-f", hex(start))
            self.assertEqual(result.status, 0, result)
            self.assertEqual(result.out.splitlines()[0], "main")
        os.symlink(support.SP, self.folder / "myaddr2line")
        self.assertEqual(support.run(self.folder / "myaddr2line", "-e", program).status, 2)
