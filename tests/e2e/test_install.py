"""What `cmake --install` gives: the command, its manual and completions, and a library that other programs can use."""

import pathlib
import shutil
import subprocess

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
    def setUp(self):
        super().setUp()
        if not (support.BUILD / "symbolication" / "install" / "spsym.pc").exists():
            self.skipTest("a build with sanitizers has no library to install")
        self.prefix = self.folder / "a prefix"
        result = support.run("cmake", "--install", support.BUILD, "--prefix", self.prefix)
        self.assertEqual(result.status, 0, result)

    def installed(self, pattern):
        """The one installed file of a pattern."""
        found = [path for path in self.prefix.glob(pattern) if not path.is_symlink()]
        self.assertEqual(len(found), 1, f"{pattern}: {found}")
        return found[0]

    def exported(self, *nm):
        lines = support.run("nm", "--defined-only", *nm).out.splitlines()
        return {line.split()[2] for line in lines if len(line.split()) == 3}

    @support.needs("cmake", "cc", "c++", "pkg-config", "nm")
    def test_everything(self):
        self.check_command()
        self.check_manual()
        self.check_completions()
        self.check_exports()
        for language in ("c", "c++"):
            for static in (False, True):
                with self.subTest(language=language, static=static):
                    self.check_link(language, static)

    def check_command(self):
        result = support.run(self.installed("bin/sp"), "--version")
        self.assertEqual(result.status, 0, result)

    def check_manual(self):
        page = self.installed("share/man/man1/sp.1")
        self.assertIn(".TH", page.read_text())
        if shutil.which("groff"):
            result = support.run("groff", "-man", "-Tutf8", "-ww", page)
            self.assertEqual((result.status, result.err), (0, ""), result)
            self.assertIn("record", result.out)

    def check_completions(self):
        files = {
            "bash": "share/bash-completion/completions/sp",
            "zsh": "share/zsh/site-functions/_sp",
            "fish": "share/fish/vendor_completions.d/sp.fish",
        }
        for shell, name in files.items():
            path = self.installed(name)
            if shutil.which(shell):
                result = support.run(shell, "-n", path)
                self.assertEqual((result.status, result.err), (0, ""), result)

    def check_exports(self):
        shared = self.exported("-D", self.installed("lib/**/libspsym.so.*"))
        static = self.exported("-g", self.installed("lib/**/libspsym.a"))
        self.assertEqual([name for name in shared | static if not name.startswith("spsym_")], [])
        self.assertEqual(shared, static)
        header = self.installed("include/spsym.h").read_text()
        declared = {name for name in shared if f"{name}(" in header}
        self.assertEqual(shared, declared)

    def check_link(self, language, static):
        source = self.folder / f"use.{'c' if language == 'c' else 'cpp'}"
        text = PROGRAM if language == "c" else PROGRAM.replace("int sp_error", 'extern "C" int sp_error')
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
        command = f"{compiler} -Wall -Wextra -Werror -o '{program}' '{source}' {flags}"
        result = support.run("sh", "-c", command, env=env)
        self.assertEqual(result.status, 0, f"{command}\n{result}")
        library = {} if static else {"LD_LIBRARY_PATH": pc.parent}
        result = support.run(program, env=library)
        self.assertEqual((result.status, result.out), (0, "0403020106050807090A0B0C0D0E0F100 7\n"), result)
