"""sp upload, and the whole way: a project is built by CMake, uploaded and stripped; gdb and sp find names, lines and sources by
ID alone."""

import contextlib
import json
import pathlib
import shutil
import socket
import threading

import server_support
import support

CMAKE = """cmake_minimum_required(VERSION 3.13)
project(demo C)
add_library(part SHARED part.c)
add_executable(demo demo.c)
target_link_libraries(demo part)
target_link_options(demo PRIVATE -Wl,--build-id)
target_link_options(part PRIVATE -Wl,--build-id)
"""
DEMO = """int part(int x);
int main(int argc, char **argv)
{
	(void)argv;
	return part(argc + 1);
}
"""
PART = """#include <stdlib.h>
static int helper(int x)
{
	if (x < 0)
		abort();
	return x - 2;
}
int part(int x)
{
	return helper(x);
}
"""


class Upload(support.TestCase):
    def setUp(self):
        super().setUp()
        self.server = server_support.Server(self)
        self.token = self.server.token("--namespace", "branch/*")

    def upload(self, *args, token=None, server=None, namespace="branch/main"):
        env = {"SP_UPLOAD_TOKEN": token or self.token}
        return self.sp("upload", "--server", server or self.server.url, "--namespace", namespace, *args, env=env)

    def test_what_is_found_and_sent_once(self):
        program, debug, build_id = server_support.build(self)
        folder = program.parent
        (folder / "deep").mkdir()
        shutil.copy(debug, folder / "deep" / "same-bytes")
        (folder / "text.txt").write_text("MZ but not much more")
        (folder / "loop").symlink_to(folder)
        first = self.upload("--json", folder)
        self.assertEqual(first.status, 0, first)
        results = {pathlib.Path(row["file"]).name: row for row in json.loads(first.out)}
        self.assertEqual({name for name, row in results.items() if row["result"] == "sent"}, {"program", "same-bytes"}, results)
        self.assertEqual(results["program"]["codeId"], build_id)
        self.assertEqual(results["text.txt"]["result"], "left out")
        self.assertTrue(results["text.txt"]["reason"])
        second = self.upload("--json", folder)
        self.assertEqual(second.status, 0, second)
        self.assertEqual({row["result"] for row in json.loads(second.out)}, {"there", "left out"})
        self.wait_for_puts(2)

    def wait_for_puts(self, count):
        """The server tells of a request when it is over, which its client may know first."""
        support.wait_for(lambda: len([line for line in list(self.server.log) if '"PUT"' in line]) == count, f"{count} files sent")

    def test_sources(self):
        program, debug, build_id = server_support.build(self)
        source = program.parent / "program.c"
        result = self.upload("--sources", "--json", debug)
        self.assertEqual(result.status, 0, result)
        row = next(row for row in json.loads(result.out) if row["file"] == str(source))
        self.assertEqual((row["source"], row["codeId"], row["result"]), (True, build_id, "sent"))
        self.assertEqual(self.server.ask("GET", f"/buildid/{build_id}/source{source}")[2], source.read_bytes())
        # Another binary of the same sources: their bytes are not sent again.
        _, other, _ = server_support.build(self, "other")
        shutil.copy(other.parent / "other.c", self.folder / "kept")
        self.wait_for_puts(2)
        self.assertEqual(self.upload("--sources", other).status, 0)
        self.wait_for_puts(3)

    def test_refusals_and_failures(self):
        program, debug, _ = server_support.build(self)
        plain = self.folder / "plain"
        self.assertEqual(support.run("cc", "-Wl,--build-id=none", "-o", plain, program.parent / "program.c").status, 0)
        named = self.upload(plain, debug)
        self.assertEqual(named.status, 1, named)
        self.assertIn("no build ID", named.err)
        self.assertIn("1 sent", named.err)
        (self.folder / "only").mkdir()
        shutil.move(plain, self.folder / "only")
        self.assertEqual(self.upload(self.folder / "only").status, 0)
        for result, status, text in (
            (self.upload(debug, namespace="release"), 1, "does not allow"),
            (self.upload(debug, token="sps_a_b"), 1, "no token"),
            (self.upload(self.folder / "nothing"), 1, "nothing"),
            (self.upload(), 2, "--server"),
            (self.upload("--auth", "env:NOT_THERE", debug), 2, "NOT_THERE"),
            (self.upload("--auth", f"file:{self.folder}/none", debug), 1, "none"),
        ):
            self.assertEqual(result.status, status, result)
            self.assertIn(text, result.err)
        file = self.folder / "token"
        file.write_text(self.token + "\n")
        self.assertEqual(self.upload("--auth", f"file:{file}", debug, token="x").status, 0)

    def test_a_connection_that_breaks(self):
        """Through a proxy that resets the first connections in the middle of a transfer."""
        big = self.folder / "big.c"
        big.write_text("char data[3000000] = {1};\n" + server_support.C_SOURCE)
        program, debug, build_id = server_support.build(self, "big", source=big.read_text())
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        transfers = []

        def relay(client):
            server = socket.create_connection(("127.0.0.1", self.server.port))
            head = client.recv(65536)
            cut = head.startswith(b"PUT") and len(transfers) < 2
            if head.startswith(b"PUT"):
                transfers.append(head)
            server.sendall(head)
            back = threading.Thread(target=pump, args=(server, client, None), daemon=True)
            back.start()
            pump(client, server, 500000 if cut else None)
            if cut:
                for end in (client, server):
                    with contextlib.suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
                    end.close()

        def pump(source, sink, limit):
            passed = 0
            try:
                while limit is None or passed < limit:
                    data = source.recv(65536)
                    if not data:
                        sink.shutdown(socket.SHUT_WR)
                        return
                    passed += len(data)
                    sink.sendall(data)
            except OSError:
                pass

        def accept():
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=relay, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        result = self.upload(program, server=f"http://127.0.0.1:{listener.getsockname()[1]}")
        self.assertEqual(result.status, 0, result)
        self.assertGreaterEqual(len(transfers), 3)
        self.assertRegex(transfers[2].decode("latin-1"), r"^PUT \S+\?offset=[1-9]")
        self.assertEqual(self.server.ask("GET", f"/buildid/{build_id}/executable")[2], program.read_bytes())

    @support.needs("cmake", "ninja", "gdb", "debuginfod-find")
    def test_a_newcomers_project(self):
        project, clean = self.folder / "project", self.folder / "clean"
        project.mkdir()
        clean.mkdir()
        for name, text in (("CMakeLists.txt", CMAKE), ("demo.c", DEMO), ("part.c", PART)):
            (project / name).write_text(text)
        for number, kind in enumerate(("Debug", "RelWithDebInfo")):
            build = self.folder / f"build{number}"
            configure = ("cmake", "-G", "Ninja", "-S", project, "-B", build, f"-DCMAKE_BUILD_TYPE={kind}")
            for command in (configure, ("cmake", "--build", build)):
                result = support.run(*command)
                self.assertEqual(result.status, 0, result)
            result = self.upload("--sources", "--ref", f"build-{number}", build)
            self.assertEqual(result.status, 0, result)
            (clean / kind).mkdir()
            for name in ("demo", "libpart.so"):
                stripped = clean / kind / name
                result = support.run("strip", "-o", stripped, build / name)
                self.assertEqual(result.status, 0, result)
            shutil.rmtree(build)
        shutil.rmtree(project)

        for kind in ("Debug", "RelWithDebInfo"):
            env = {
                "DEBUGINFOD_URLS": self.server.url,
                "DEBUGINFOD_CACHE_PATH": self.folder / f"client-{kind}",
                "HOME": clean,
                "LD_LIBRARY_PATH": clean / kind,
            }
            commands = ("break main", "run", "break part", "continue", "bt", "list helper")
            args = [part for command in commands for part in ("-ex", command)]
            result = support.run(
                "gdb", "-nx", "-batch", "-iex", "set debuginfod enabled on", *args, clean / kind / "demo", env=env, cwd=clean
            )
            self.assertRegex(result.out, r"#0 +(0x\w+ in )?part \(x=2\) at .*/project/part\.c:\d+", result)
            self.assertRegex(result.out, r"main \(argc=.*\) at .*/project/demo\.c:[35]\b", result)
            self.assertIn("return x - 2;", result.out, result)

            # sp finds the same by --symbol-server and by $SP_SYMBOL_SERVER; nothing else is at hand.
            library = clean / kind / "libpart.so"
            exports = support.run("nm", "-D", "--defined-only", library).out
            address = next(line.split()[0] for line in exports.splitlines() if line.endswith(" part"))
            for options, more in ((("--symbol-server", self.server.url), {}), ((), {"SP_SYMBOL_SERVER": self.server.url})):
                env = {"DEBUGINFOD_CACHE_PATH": self.folder / f"sp-{kind}-{len(options)}", "DEBUGINFOD_URLS": None, **more}
                result = self.sp_ok("symbolicate", *options, library, "0x" + address, env=env)
                self.assertIn("part", result.out)
                self.assertRegex(result.out, r"part\.c:\d+", result)
            # Offline, what was fetched is found.
            result = self.sp_ok("symbolicate", "--offline", "--symbol-server", self.server.url, library, "0x" + address, env=env)
            self.assertRegex(result.out, r"part\.c:\d+", result)
