"""sp serve: uploads over HTTP, and what clients find: debuginfod's own client and gdb as Debian has them, and requests as
those of other clients look."""

import base64
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct

import server_support
import support


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Files(support.TestCase):
    def setUp(self):
        super().setUp()
        self.server = server_support.Server(self)
        self.token = self.server.token()
        self.program, self.debug, self.build_id = server_support.build(self)
        for path in (self.program, self.debug):
            status, body = self.server.put(self.token, path.read_bytes(), path.name)
            self.assertEqual(status, 201, body)
            self.assertEqual(json.loads(body)["codeId"], self.build_id)

    def get(self, path, headers=None, method="GET"):
        return self.server.ask(method, path, headers=headers)

    def test_debuginfod_paths(self):
        for part, path in (("debuginfo", self.debug), ("executable", self.program)):
            status, headers, body = self.get(f"/buildid/{self.build_id}/{part}")
            self.assertEqual(status, 200)
            self.assertEqual(body, path.read_bytes())
            self.assertEqual(headers["X-DEBUGINFOD-SIZE"], str(len(body)))
            self.assertEqual(headers["X-DEBUGINFOD-FILE"], path.name)
            self.assertEqual(headers["Content-Type"], "application/octet-stream")
            self.assertEqual(headers["ETag"], f'"{sha256(body)}"')
            status, head, nothing = self.get(f"/buildid/{self.build_id.upper()}/{part}", method="HEAD")
            self.assertEqual((status, nothing, head["Content-Length"]), (200, b"", str(len(body))))
            status, _, middle = self.get(f"/buildid/{self.build_id}/{part}", {"Range": "bytes=100-199"})
            self.assertEqual((status, middle), (206, body[100:200]))
            status, _, _ = self.get(f"/buildid/{self.build_id}/{part}", {"If-None-Match": headers["ETag"]})
            self.assertEqual(status, 304)
        # A section as readelf finds it, of the debug file or the binary.
        for name, path in ((".debug_line", self.debug), (".text", self.program), (".debug_info", self.debug)):
            status, headers, body = self.get(f"/buildid/{self.build_id}/section/{name}")
            self.assertEqual(status, 200, name)
            table = support.run("readelf", "-SW", path).out
            offset, size = (int(part, 16) for part in re.search(rf" {re.escape(name)} +\S+ +\S+ (\S+) (\S+) ", table).groups())
            self.assertEqual(body, path.read_bytes()[offset : offset + size], name)
            self.assertEqual(headers["X-DEBUGINFOD-SIZE"], str(len(body)))
        for path in (
            f"/buildid/{self.build_id}/section/.nothing",
            f"/buildid/{self.build_id}/other",
            f"/buildid/{self.build_id}",
            f"/buildid/{self.build_id[:-2]}/debuginfo",
            "/buildid//debuginfo",
            "/buildid/" + "0" * 40 + "/debuginfo",
            "/buildid/" + "0" * 4000 + "/debuginfo",
            "/buildid/..%2f..%2fetc%2fpasswd/debuginfo",
            f"/buildid/{self.build_id}/source/etc/passwd",
            f"/buildid/{self.build_id}/source//etc/passwd",
            "/pingme.txt",
            "/",
        ):
            status, headers, _ = self.get(path)
            self.assertEqual((status, headers["Cache-Control"]), (404, "max-age=60"), path)
        self.assertEqual(self.get(f"/buildid/{self.build_id}/debuginfo", method="DELETE")[0], 405)

    @support.needs("debuginfod-find")
    def test_debuginfods_client(self):
        source = self.debug.parent / "program.c"
        status, body = self.server.put(self.token, source.read_bytes(), str(source), buildId=self.build_id)
        self.assertEqual(status, 201, body)
        env = {"DEBUGINFOD_URLS": self.server.url, "DEBUGINFOD_CACHE_PATH": self.folder / "client"}
        for args, original in (
            (("debuginfo", self.build_id), self.debug),
            (("executable", self.program), self.program),
            (("source", self.build_id, source), source),
        ):
            found = support.run("debuginfod-find", *args, env=env)
            self.assertEqual(found.status, 0, found)
            self.assertEqual(pathlib.Path(found.out.strip()).read_bytes(), original.read_bytes())
        self.assertNotEqual(support.run("debuginfod-find", "debuginfo", "0" * 40, env=env).status, 0)

    @support.needs("gdb")
    def test_gdb_finds_names_lines_and_sources(self):
        source = self.debug.parent / "program.c"
        self.assertEqual(self.server.put(self.token, source.read_bytes(), str(source), buildId=self.build_id)[0], 201)
        # In a clean place: the program alone, and no source at its old path.
        alone = self.folder / "alone"
        alone.mkdir()
        program = alone / "program"
        program.write_bytes(self.program.read_bytes())
        source.unlink()
        self.debug.unlink()
        env = {"DEBUGINFOD_URLS": self.server.url, "DEBUGINFOD_CACHE_PATH": self.folder / "gdb", "HOME": alone}
        result = support.run(
            "gdb", "-nx", "-batch", "-iex", "set debuginfod enabled on", "-ex", "info line work", "-ex", "list work", program, env=env, cwd=alone
        )
        self.assertRegex(result.out, r'Line \d+ of ".*/program.c" starts at address \S+ <work>', result)
        self.assertIn("volatile int y = twice(x);", result.out, result)

    @support.needs("debuginfod-find")
    def test_trouble_is_no_miss(self):
        """debuginfod's client remembers errors as misses, for ten minutes: it must not be told of the server's own."""
        env = {"DEBUGINFOD_URLS": self.server.url, "DEBUGINFOD_CACHE_PATH": self.folder / "client"}
        blobs = self.server.folder / "blobs"
        blobs.rename(self.server.folder / "away")
        for _ in range(2):
            self.assertNotEqual(support.run("debuginfod-find", "debuginfo", self.build_id, env=env).status, 0)
        (self.server.folder / "away").rename(blobs)
        found = support.run("debuginfod-find", "debuginfo", self.build_id, env=env)
        self.assertEqual(found.status, 0, found)

        def statuses():
            return {json.loads(line)["status"] for line in list(self.server.log) if "/buildid/" in line}

        support.wait_for(lambda: 200 in statuses(), "the last line of the access log")
        self.assertEqual(statuses(), {0, 200})

    def find_line(self, *command):
        """Runs a symbolizer on the stripped program alone, with nothing else at hand, at the start of work()."""
        lines = self.sp_ok("symbols", "list", "--json", self.debug).out.splitlines()
        address = next(row["address"] for row in map(json.loads, lines) if row["name"] == "work")
        alone = self.folder / "alone"
        alone.mkdir()
        (alone / "program").write_bytes(self.program.read_bytes())
        self.debug.rename(self.folder / "hidden")
        env = {"DEBUGINFOD_URLS": self.server.url, "DEBUGINFOD_CACHE_PATH": self.folder / "client", "HOME": alone}
        result = support.run(*command, address, env=env, cwd=alone)
        self.assertIn("work", result.out, result)
        self.assertRegex(result.out, r"program\.c:\d+", result)

    @support.needs("eu-addr2line", "debuginfod-find")
    def test_elfutils_finds_lines(self):
        self.find_line("eu-addr2line", "-i", "-f", "-e", "program")

    @support.needs("llvm-symbolizer", "ldd")
    def test_llvm_symbolizer_finds_lines(self):
        tool = os.path.realpath(shutil.which("llvm-symbolizer"))
        if "libcurl" not in support.run("ldd", tool).out:
            self.skipTest("llvm-symbolizer was built without debuginfod")
        self.find_line(tool, "--obj=program")

    def test_symbol_store_paths(self):
        code, sym = self.build_id, self.build_id.upper()
        for path, original in (
            (f"/program/elf-buildid-{code}/program", self.program),
            (f"/PROGRAM/ELF-BUILDID-{sym}/program", self.program),
            (f"/_.debug/elf-buildid-sym-{code}/_.debug", self.debug),
        ):
            status, _, body = self.get(path)
            self.assertEqual((status, body), (200, original.read_bytes()), path)
        status, _, _ = self.get(f"/program/elf-buildid-{'0' * 40}/program")
        self.assertEqual(status, 404)
        # Short build IDs come filled up with zeros.
        short, _, short_id = server_support.build(self, "short", flags=("-g", "-Wl,--build-id=0x0102030405060708090a0b0c"))
        self.assertEqual(self.server.put(self.token, short.read_bytes(), "short")[0], 201)
        self.assertEqual(self.get(f"/short/elf-buildid-{short_id}{'00' * 8}/short")[2], short.read_bytes())

    def test_breakpad_files(self):
        debug_id = "0123456789ABCDEF0123456789ABCDEF1a"
        text = f"MODULE Linux x86_64 {debug_id} thing\nFILE 0 a.c\nFUNC 1000 10 0 f\n1000 10 7 0\n".encode()
        self.assertEqual(self.server.put(self.token, text, "thing.sym")[0], 201)
        for spelling in (debug_id, debug_id.lower(), debug_id.upper()):
            self.assertEqual(self.get(f"/thing/{spelling}/thing.sym")[2], text)
        answer = self.symbolicate("thing", debug_id, [0x1004])
        self.assertEqual((answer[0]["function"], answer[0]["line"]), ("f", 7))

    def symbolicate(self, name, debug_id, addresses, prefix=""):
        body = json.dumps({"jobs": [{"memoryMap": [[name, debug_id]], "stacks": [[[0, a] for a in addresses]]}]})
        status, headers, reply = self.server.ask("POST", prefix + "/symbolicate/v5", body, {"Origin": "https://x.example"})
        self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (200, "*"))
        return json.loads(reply)["results"][0]["stacks"][0]

    def test_symbolication(self):
        identity = json.loads(self.sp_ok("symbols", "identify", "--json", self.debug).out)
        lines = self.sp_ok("symbols", "list", "--relative", "--json", self.debug).out.splitlines()
        address = next(int(row["address"], 16) for row in map(json.loads, lines) if row["name"] == "work")
        # Where the inlined function begins is the compiler's to choose.
        frames = self.symbolicate("program", identity["debugId"], [address + step for step in range(24)])
        frame = next(frame for frame in frames if "inlines" in frame)
        source = self.debug.parent / "program.c"
        self.assertEqual((frame["function"], frame["file"], frame["line"]), ("work", str(source), 5))
        self.assertEqual((frame["inlines"][0]["function"], frame["inlines"][0]["line"]), ("twice", 2))
        where = {"debugName": "program", "debugId": identity["debugId"], "moduleOffset": hex(address), "file": str(source)}

        def ask(path, what):
            status, _, reply = self.server.ask("POST", path, json.dumps(what))
            self.assertEqual(status, 200)
            return json.loads(reply)

        # The server's own disk is never read, although the file is there; an uploaded one is handed out.
        self.assertIn("not uploaded", ask("/source/v1", where)["error"])
        self.assertEqual(self.server.put(self.token, source.read_bytes(), str(source), buildId=self.build_id)[0], 201)
        self.assertEqual(ask("/source/v1", where)["source"], source.read_text())
        self.assertIn("not a source file", ask("/source/v1", {**where, "file": "/etc/passwd"})["error"])
        code = {**where, "startAddress": hex(address), "size": "0x10", "continueUntilFunctionEnd": True}
        self.assertTrue(ask("/asm/v1", code)["instructions"])
        # What is not stored is a module error; a browser may ask first.
        body = json.dumps({"jobs": [{"memoryMap": [["x", "0" * 31 + "10"]], "stacks": [[[0, 1]]]}]})
        self.assertIn("module_errors", ask("/symbolicate/v5", json.loads(body))["results"][0])
        status, headers, _ = self.server.ask("OPTIONS", "/symbolicate/v5", headers={"Access-Control-Request-Headers": "x-a"})
        self.assertEqual((status, headers["Access-Control-Allow-Headers"]), (204, "x-a"))
        self.assertEqual(self.server.ask("POST", "/symbolicate/v5", "{")[0], 400)

    def test_many_equal_requests(self):
        identity = json.loads(self.sp_ok("symbols", "identify", "--json", self.debug).out)["debugId"]
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            answers = list(pool.map(lambda _: self.symbolicate("program", identity, [0x1100])[0], range(200)))
        self.assertTrue(all(answer == answers[0] for answer in answers))

    def test_admin_and_access_log(self):
        for path, expected in (("/healthz", b"ok\n"), ("/readyz", b"ok\n")):
            status, _, body = self.server.ask("GET", path, port=self.server.admin_port)
            self.assertEqual((status, body), (200, expected))
            self.assertEqual(self.server.ask("GET", path)[0], 404)
        self.get(f"/buildid/{self.build_id}/debuginfo")

        def metrics_now():
            return self.server.ask("GET", "/metrics", port=self.server.admin_port)[2].decode()

        # A request counts when it is over, which its client may know first.
        support.wait_for(lambda: 'sp_requests_total{route="buildid",status="2xx"} 1\n' in metrics_now(), "the count of requests")
        metrics = metrics_now()
        self.assertIn("sp_store_files 2\n", metrics)
        self.assertIn(f"sp_upload_bytes_total {self.program.stat().st_size + self.debug.stat().st_size}\n", metrics)
        self.get(f"/t/{self.token}/buildid/{self.build_id}/debuginfo")
        self.server.stop()
        support.wait_for(lambda: len(self.server.log) >= 6, "the access log")
        log = [json.loads(line) for line in self.server.log]
        self.assertEqual(log[-1]["path"], f"/buildid/{self.build_id}/debuginfo")
        self.assertEqual(log[-1]["token"], self.token.split("_")[1])
        self.assertNotIn(self.token.split("_")[2], "".join(self.server.log + self.server.errors))

    def test_kept_across_a_kill(self):
        self.server.stop(signal.SIGKILL)
        self.server = server_support.Server(self)
        self.assertEqual(self.get(f"/buildid/{self.build_id}/debuginfo")[2], self.debug.read_bytes())


class Rights(support.TestCase):
    def test_who_may_upload_what(self):
        server = server_support.Server(self)
        program, debug, build_id = server_support.build(self)
        data = debug.read_bytes()
        pull = server.token("--namespace", "pr/*", "--kind", "object", "--max-size", "1", "--ref", "r1")
        reader = server.token("--can-read")
        for token, namespace, status in (
            (pull, "release", 403),
            (pull, "pr/", 403),
            (reader, "release", 401),
            ("", "release", 401),
            ("sps_x_y", "release", 401),
            (pull[:-1] + ("a" if pull[-1] != "a" else "b"), "pr/1", 401),
        ):
            self.assertEqual(server.put(token, data, "d", namespace, ref="r1")[0], status, (token, namespace))
        self.assertEqual(server.put(pull, data, "d", "pr/1", ref="r2")[0], 403)
        large = f"PUT /v1/uploads/{'0' * 64}?name=d&namespace=pr/1&ref=r1 HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        large += f"Authorization: Bearer {pull}\r\nContent-Length: {2 << 20}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(large.encode())
            self.assertIn(b" 413 ", connection.makefile("rb").readline())
        self.assertEqual(server.put(pull, b"int x;", "/a.c", "pr/1", ref="r1", buildId=build_id)[0], 403)
        sym = b"MODULE Linux x86_64 0123456789ABCDEF0123456789ABCDEF0 thing\nFUNC 1000 10 0 f\n"
        self.assertEqual(server.put(pull, sym, "d", "pr/1", ref="r1")[0], 403)
        self.assertEqual(server.put(pull, data, "d", "pr/1", ref="r1")[0], 201)
        # Seen under its namespace only.
        self.assertEqual(server.ask("GET", f"/buildid/{build_id}/debuginfo")[0], 404)
        self.assertEqual(server.ask("GET", f"/n/pr/2/buildid/{build_id}/debuginfo")[0], 404)
        self.assertEqual(server.ask("GET", f"/n/pr/1/buildid/{build_id}/debuginfo")[2], data)
        self.assertEqual(server.ask("GET", f"/t/{reader}/n/pr/1/buildid/{build_id}/debuginfo")[2], data)
        # Revoked while the server runs.
        self.sp_ok("serve", "token", "revoke", server.folder, pull.split("_")[1])
        self.assertEqual(server.put(pull, data, "e", "pr/1", ref="r1")[0], 401)
        listed = self.sp_ok("serve", "token", "list", server.folder).out
        self.assertIn("revoked", listed)
        self.assertNotIn(pull.split("_")[2], listed)

    def test_reading_by_token(self):
        server = server_support.Server(self, "--read", "token")
        writer, reader = server.token(), server.token("--can-read")
        program, debug, build_id = server_support.build(self)
        self.assertEqual(server.put(writer, debug.read_bytes(), "d")[0], 201)
        path = f"/buildid/{build_id}/debuginfo"
        basic = base64.b64encode(f"{reader}:".encode()).decode()
        basic2 = base64.b64encode(f"user:{reader}".encode()).decode()
        for headers, prefix, status in (
            ({}, "", 401),
            ({"Authorization": f"Bearer {writer}"}, "", 401),
            ({"Authorization": f"Bearer {reader}"}, "", 200),
            ({"Authorization": f"Basic {basic}"}, "", 200),
            ({"Authorization": f"Basic {basic2}"}, "", 200),
            ({"Authorization": "Basic !"}, "", 401),
            ({"Authorization": "Nonsense"}, "", 401),
            ({}, f"/t/{reader}", 200),
            ({}, "/t/x", 401),
            ({}, "/t//", 401),
        ):
            self.assertEqual(server.ask("GET", prefix + path, headers=headers)[0], status, (headers, prefix))

    def test_it_must_be_said_who_reads(self):
        result = self.sp("serve", self.folder / "s", "--address", "0.0.0.0", "--port", "0")
        self.assertEqual(result.status, 2)
        self.assertIn("--read", result.err)
        first = server_support.Server(self)
        second = self.sp("serve", first.folder, "--port", "0")
        self.assertEqual(second.status, 1)
        self.assertIn("another process", second.err)


class Uploads(support.TestCase):
    def setUp(self):
        super().setUp()
        self.server = server_support.Server(self)
        self.token = self.server.token()
        self.program, self.debug, self.build_id = server_support.build(self)

    def test_what_is_needed(self):
        data = self.debug.read_bytes()
        file = {"sha256": sha256(data), "size": len(data), "name": "d", "namespace": "release"}
        self.assertEqual(self.server.check(self.token, file)[1], {"files": [{"action": "upload", "offset": 0}]})
        self.assertEqual(self.server.put(self.token, data, "d")[0], 201)
        self.assertEqual(self.server.put(self.token, data, "d")[0], 200)
        self.assertEqual(self.server.check(self.token, file)[1], {"files": [{"action": "skip"}]})
        # Known bytes under another name need not be sent again.
        self.assertEqual(self.server.check(self.token, {**file, "name": "e"})[1], {"files": [{"action": "skip"}]})
        bad = [{}, {**file, "namespace": "x"}, {**file, "sha256": "x"}, {**file, "size": 1 << 62}]
        answers = self.server.check(self.token, *bad)[1]["files"]
        self.assertEqual([answer["action"] for answer in answers], ["reject"] * 4)
        self.assertEqual(self.server.check(self.token, *[file] * 1024)[0], 200)
        self.assertEqual(self.server.check(self.token, *[file] * 1025)[0], 400)
        for body in ("", "{", "[]", '{"files":1}', '{"files":[1]}', '{"files":[{"name":1}]}', '{"files":[{"size":-1}]}', "[" * 100000, '{"files":[{"name":"\\u0000"}]}'):
            status, _, reply = self.server.ask("POST", "/v1/uploads:check", body, {"Authorization": f"Bearer {self.token}"})
            self.assertEqual(status, 400, body[:50])
            self.assertTrue(json.loads(reply)["error"])

    def test_refusals_have_reasons(self):
        data = self.debug.read_bytes()
        plain = self.folder / "plain"
        support.run("cc", "-Wl,--build-id=none", "-o", plain, self.debug.parent / "program.c")
        for content, reason in (
            (b"hello", "d"),
            (plain.read_bytes(), "no build ID"),
            (data[:200], "d"),
        ):
            status, body = self.server.put(self.token, content, "d")
            self.assertEqual(status, 422, body)
            self.assertIn(reason, json.loads(body)["error"])
        status, _, body = self.server.ask("PUT", f"/v1/uploads/{'0' * 64}?name=d&namespace=release", data, {"Authorization": f"Bearer {self.token}"})
        self.assertEqual(status, 422)
        self.assertIn(sha256(data), json.loads(body)["error"])
        for path in ("/v1/uploads/x?name=d&namespace=release", f"/v1/uploads/{'0' * 64}", f"/v1/uploads/{'0' * 64}?name=%zz&namespace=release"):
            self.assertEqual(self.server.ask("PUT", path, data, {"Authorization": f"Bearer {self.token}"})[0], 400, path)
        self.assertFalse(os.listdir(self.server.folder / "staging"))

    def test_it_goes_on_where_it_broke_off(self):
        data = self.debug.read_bytes()
        half = len(data) // 2
        path = f"/v1/uploads/{sha256(data)}?name=d&namespace=release"
        head = f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self.token}\r\nContent-Length: {len(data)}\r\n\r\n"
        file = {"sha256": sha256(data), "size": len(data), "name": "d", "namespace": "release"}
        with socket.create_connection(("127.0.0.1", self.server.port)) as connection:
            connection.sendall(head.encode() + data[:half])
            support.wait_for(lambda: self.server.check(self.token, file)[1]["files"][0]["offset"] == half, "the first half")
            # Meanwhile nobody else sends it.
            self.assertEqual(self.server.put(self.token, data, "d")[0], 409)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        def go_on():
            status, _, _ = self.server.ask("PUT", path + f"&offset={half}", data[half:], {"Authorization": f"Bearer {self.token}"})
            return status if status != 409 else None

        self.assertEqual(support.wait_for(go_on, "the server to notice"), 201)
        self.assertEqual(self.server.ask("GET", f"/buildid/{self.build_id}/debuginfo")[2], data)

    def test_racing_clients(self):
        data = self.debug.read_bytes()
        tokens = [self.server.token() for _ in range(4)]
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            statuses = list(pool.map(lambda i: self.server.put(tokens[i % 4], data, "d")[0], range(32)))
        self.assertTrue(set(statuses) <= {200, 201, 409}, statuses)
        self.assertEqual(statuses.count(201), 1, statuses)
        self.assertEqual(self.server.ask("GET", f"/buildid/{self.build_id}/debuginfo")[2], data)
        metrics = self.server.ask("GET", "/metrics", port=self.server.admin_port)[2].decode()
        self.assertIn("sp_store_artifacts 1\n", metrics)
