"""What `cmake --install` gives: the command, its manual and completions, and a library that other programs can use."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import support

PROGRAM = r"""
#include <spsym.h>
#include <stdio.h>

/* A name of the library's own, which must not clash. */
int sp_error_create(void);
int sp_error_create(void)
{
	return 7;
}

int main(void)
{
	unsigned char id[20];
	char text[SPSYM_ID_MAX];
	for (unsigned i = 0; i < sizeof(id); i++)
		id[i] = (unsigned char)(i + 1);
	spsym_debug_id_from_build_id(id, sizeof(id), false, text);
	printf("%s %d\n", text, sp_error_create());
	return 0;
}
"""


class InstallTest(support.TestCase):
    @classmethod
    def setUpClass(cls):
        if not (support.BUILD / "symbolication" / "install" / "spsym.pc").exists():
            raise unittest.SkipTest("a build with sanitizers has no library to install")
        folder = tempfile.mkdtemp(prefix="sp-e2e-install-")
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.prefix = pathlib.Path(folder) / "a prefix"
        result = support.run("cmake", "--install", support.BUILD, "--prefix", cls.prefix)
        assert result.status == 0, result

    def installed(self, pattern):
        """The one installed file of a pattern."""
        found = [path for path in self.prefix.glob(pattern) if not path.is_symlink()]
        self.assertEqual(len(found), 1, f"{pattern}: {found}")
        return found[0]

    def check_quiet(self, *command):
        """Runs a checker, which must find nothing to say; gives its output."""
        result = support.run(*command)
        self.assertEqual((result.status, result.err), (0, ""), result)
        return result.out

    def exported(self, *nm):
        lines = support.run("nm", "--defined-only", *nm).out.splitlines()
        return {line.split()[2] for line in lines if len(line.split()) == 3}

    def test_command(self):
        result = support.run(self.installed("bin/sp"), "--version")
        self.assertEqual(result.status, 0, result)

    @support.needs("groff")
    def test_manual(self):
        text = self.check_quiet("groff", "-man", "-Tutf8", "-ww", self.installed("share/man/man1/sp.1"))
        self.assertIn("record", text)

    @support.needs("bash")
    def test_completion_bash(self):
        self.check_quiet("bash", "-n", self.installed("share/bash-completion/completions/sp"))

    @support.needs("zsh")
    def test_completion_zsh(self):
        self.check_quiet("zsh", "-n", self.installed("share/zsh/site-functions/_sp"))

    @support.needs("fish")
    def test_completion_fish(self):
        self.check_quiet("fish", "-n", self.installed("share/fish/vendor_completions.d/sp.fish"))

    def test_only_public_names_are_exported(self):
        shared = self.exported("-D", self.installed("lib/**/libspsym.so.*"))
        static = self.exported("-g", self.installed("lib/**/libspsym.a"))
        header = self.installed("include/spsym.h").read_text()
        declared = set(re.findall(r"\b(spsym_\w+)\(", header))
        self.assertEqual(shared, declared)
        self.assertEqual(static, declared)

    @support.needs("cc", "c++", "pkg-config")
    def test_programs_link(self):
        for language in ("c", "c++"):
            for static in (False, True):
                with self.subTest(language=language, static=static):
                    self.check_link(language, static)

    @support.needs("cc", "c++", "pkg-config")
    def test_example_of_the_manual(self):
        """The program in docs/symbolication.md compiles as C and as C++, and finds its own main()."""
        text = (support.ROOT / "docs" / "symbolication.md").read_text()
        blocks = re.findall(r"^```c\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        self.assertEqual(len(blocks), 1)
        for language in ("c", "c++"):
            with self.subTest(language=language):
                program, env = self.link(language, False, blocks[0], "-g")
                address = re.search(r"^(\w+) T main$", support.run("nm", program).out, re.MULTILINE)[1]
                result = support.run(program, program, address, "0", env=env)
                self.assertEqual((result.status, result.err), (0, ""), result)
                line = 1 + blocks[0][: blocks[0].index("int main(")].count("\n")
                self.assertRegex(result.out, rf"^0x\w+: main\n    main at .*/use\.c\w*:({line}|{line + 1})\n0x0: \?\?\n$")
                self.assertEqual(support.run(program, "nowhere", "0", env=env).status, 1)

    def check_link(self, language, static):
        text = PROGRAM if language == "c" else PROGRAM.replace("int sp_error", 'extern "C" int sp_error')
        program, env = self.link(language, static, text)
        result = support.run(program, env=env)
        self.assertEqual((result.status, result.out), (0, "0403020106050807090A0B0C0D0E0F100 7\n"), result)

    def link(self, language, static, text, *options):
        """Compiles against what is installed; gives the program and the environment that it runs in."""
        source = self.folder / f"use.{'c' if language == 'c' else 'cpp'}"
        source.write_text(text)
        pc = self.installed("lib/**/spsym.pc").parent
        env = {"PKG_CONFIG_PATH": pc}
        modules = ["--static"] if static else []
        flags = subprocess.run(
            ["pkg-config", *modules, "--cflags", "--libs", "spsym"],
            env={"PATH": "/usr/bin:/bin", "PKG_CONFIG_PATH": str(pc)}, capture_output=True, text=True, check=True,
        ).stdout
        # Through a shell, as a Makefile would, since the prefix has a space that pkg-config escapes.
        program = self.folder / "use"
        compiler = "cc -std=c11" if language == "c" else "c++"
        if static:
            flags = flags.replace("-lspsym", "-Wl,-Bstatic -lspsym -Wl,-Bdynamic")
        command = f"{compiler} {' '.join(options)} -Wall -Wextra -Werror -o '{program}' '{source}' {flags}"
        result = support.run("sh", "-c", command, env=env)
        self.assertEqual(result.status, 0, f"{command}\n{result}")
        return program, {} if static else {"LD_LIBRARY_PATH": pc.parent}
