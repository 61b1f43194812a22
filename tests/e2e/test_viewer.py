"""sp load as clients see it: profiler-cli as the symbolicating front-end, and raw HTTP for everything that a browser or an
attacker may send."""

import concurrent.futures
import gzip
import http.client
import contextlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import urllib.parse

import support

PROGRAM_FLAGS = ("-O2", "-g", "-fno-omit-frame-pointer")


class Server:
    """A running sp load."""

    def __init__(self, test, profile, *args, env=None):
        environment = dict(os.environ, SP_CACHE_DIR=str(test.folder / "cache"))
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION", "SSH_TTY", "BROWSER", "PROFILER_URL"):
            environment.pop(name, None)
        environment.update(env or {})
        self.process = subprocess.Popen(
            [support.SP, "load", str(profile), "--no-open", "--port", "0", *map(str, args)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=test.folder,
        )
        test.addCleanup(self.stop)
        self.lines = []
        self.url = None
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.search(r"(\S+/from-url/\S+)", line)
            if found:
                self.url = found[1]
                break
        test.assertTrue(self.url, "".join(self.lines))
        # What follows must be read, or a full pipe would stop the server.
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr), daemon=True)
        self.reader.start()
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.url).query)
        self.base = query["symbolServer"][0]
        self.profile_url = urllib.parse.unquote(self.url.split("/from-url/")[1].split("/")[0])
        parts = urllib.parse.urlsplit(self.base)
        self.host, self.port, self.prefix = parts.hostname, parts.port, parts.path

    def stop(self, sig=signal.SIGTERM):
        """Ends it and returns its status."""
        if self.process.poll() is None:
            self.process.send_signal(sig)
        status = self.process.wait(support.TIMEOUT)
        self.reader.join(10)
        self.process.stdout.close()
        self.process.stderr.close()
        return status

    def ask(self, method, path, body=None, headers=None):
        """(status, headers, body) for a path under the token, or any when it begins with //."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=support.TIMEOUT)
        try:
            path = path[1:] if path.startswith("//") else self.prefix + path
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def post(self, path, value):
        status, _, body = self.ask("POST", path, json.dumps(value), {"Content-Type": "text/plain"})
        return status, json.loads(body)


def debug_id(build_id):
    """The Breakpad form of a build ID in hex."""
    data = bytes.fromhex(build_id)[:16].ljust(16, b"\0")
    return "%08X%04X%04X" % struct.unpack("<IHH", data[:8]) + data[8:].hex().upper() + "0"


class Program:
    """The test program with what is known of it from other tools."""

    def __init__(self):
        self.path = support.build_program("inline.c", *PROGRAM_FLAGS)
        self.source = str(support.ROOT / "tests" / "e2e" / "programs" / "inline.c")
        notes = support.run("readelf", "-n", self.path).out
        self.code_id = re.search(r"Build ID: ([0-9a-f]+)", notes)[1]
        self.debug_id = debug_id(self.code_id)
        self.name = self.path.name
        base = 0
        for line in support.run("readelf", "-lW", self.path).out.splitlines():
            if line.split()[:1] == ["LOAD"]:
                base = int(line.split()[2], 16)
                break
        self.symbols = {}
        for line in support.run("nm", "-S", self.path).out.splitlines():
            parts = line.split()
            if len(parts) >= 3 and re.fullmatch("[0-9a-f]+", parts[0]):
                self.symbols[parts[-1]] = (
                    int(parts[0], 16) - base, int(parts[1], 16) if len(parts) == 4 else 0
                )
        self.lines = {}
        with open(self.source) as file:
            for number, text in enumerate(file, 1):
                found = re.search(r"line: (\w+)", text)
                if found:
                    self.lines[found[1]] = number

    def address(self, symbol):
        return self.symbols[symbol][0]

    def lib(self):
        return {
            "arch": {"aarch64": "arm64"}.get(os.uname().machine, os.uname().machine), "name": self.name, "path": str(self.path), "debugName": self.name,
            "debugPath": str(self.path), "breakpadId": self.debug_id, "codeId": self.code_id,
        }

    def request(self, *symbols):
        return {
            "memoryMap": [[self.name, self.debug_id]],
            "stacks": [[[0, self.address(symbol)] for symbol in symbols]],
        }

    def profile(self):
        """An unsymbolicated profile with a sample in main, outer and the inlined step each."""
        order = ["main", "here_outer", "here_inlined"]
        columns = lambda length, **values: {
            **{key: value if isinstance(value, list) else [value] * length for key, value in values.items()},
            "length": length,
        }
        shared = {
            "stringArray": [hex(self.address(symbol)) for symbol in order] + [self.name],
            "stackTable": columns(3, frame=[0, 1, 2], prefixOffset=[0, 1, 2]),
            "frameTable": columns(
                3, address=[self.address(symbol) for symbol in order], inlineDepth=0, category=0, subcategory=0,
                func=[0, 1, 2], nativeSymbol=None, innerWindowID=0, line=None, column=None, originalLocation=None,
            ),
            "funcTable": columns(
                3, name=[0, 1, 2], isJS=False, relevantForJS=False, resource=0, source=None, lineNumber=None,
                columnNumber=None, originalLocation=None,
            ),
            "nativeSymbols": columns(0, libIndex=[], address=[], name=[], functionSize=[]),
            "resourceTable": columns(1, name=[3], host=None, type=1, lib=0),
            "sources": columns(0, id=[], filename=[], startLine=[], startColumn=[], sourceMapURL=[], content=[]),
            "sourceLocationTable": columns(0, source=[], line=[], column=[]),
        }
        samples = columns(3, stack=[0, 1, 2], time=[1, 2, 3], weight=[1, 2, 4], threadCPUDelta=0)
        samples["weightType"] = "samples"
        thread = {
            "processType": "default", "processStartupTime": 0, "processShutdownTime": None, "registerTime": 0,
            "unregisterTime": None, "pausedRanges": [], "name": "t", "isMainThread": True, "processName": "t",
            "pid": "1", "tid": 1, "samples": samples,
            "markers": columns(0, data=[], name=[], startTime=[], endTime=[], phase=[], category=[]),
        }
        meta = {
            "interval": 1, "startTime": 1.7e12, "processType": 0, "product": "t", "stackwalk": 1, "version": 24,
            "preprocessedProfileVersion": 66, "markerSchema": [], "symbolicated": False,
            "categories": [{"name": "Other", "color": "grey", "subcategories": ["Other"]}],
            "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
        }
        return {"meta": meta, "libs": [self.lib()], "pages": [], "shared": shared, "threads": [thread]}


class ViewerTest(support.TestCase):
    def setUp(self):
        super().setUp()
        self.program = Program()
        self.profile_path = self.folder / "profile.json.gz"
        self.profile_path.write_bytes(gzip.compress(json.dumps(self.program.profile()).encode()))

    def serve(self, *args, **options):
        return Server(self, self.profile_path, *args, **options)

    # ---- The front-end's own code as the client ----

    @support.needs_profiler_cli()
    def test_a_front_end_symbolicates(self):
        server = self.serve()
        profiler = self.profiler(self.profile_path, server.base)
        functions = profiler.functions()
        self.assertEqual(
            {name: (f.self_weight, f.total_weight) for name, f in functions.items()},
            {"main": (1, 7), "outer": (2, 6), "step": (4, 4)},
        )
        for mode, expected in (("src", "line: inlined"), ("asm", "nop")):
            answer = profiler.query(
                "function", "annotate", functions["step"].handle, "--mode", mode, "--symbol-server", server.base,
                "--context", "file",
            )
            self.assertIn(expected, json.dumps(answer), mode)

    # ---- The API on a real program ----

    def test_symbolicate(self):
        server, program = self.serve(), self.program
        status, reply = server.post("/symbolicate/v5", program.request("main", "here_outer", "here_inlined"))
        self.assertEqual(status, 200)
        result = reply["results"][0]
        self.assertEqual(result["found_modules"], {f"{program.name}/{program.debug_id}": True})
        self.assertNotIn("module_errors", result)
        frames = result["stacks"][0]
        outer_start, outer_size = program.symbols["outer"]
        for frame, symbol in ((frames[1], "here_outer"), (frames[2], "here_inlined")):
            self.assertEqual(frame["function"], "outer")
            self.assertEqual(frame["function_offset"], hex(program.address(symbol) - outer_start))
            self.assertEqual(frame["function_size"], hex(outer_size))
            self.assertEqual(frame["file"], program.source)
        self.assertEqual(frames[0]["function"], "main")
        self.assertEqual(frames[1]["line"], program.lines["outer"])
        self.assertNotIn("inlines", frames[1])
        self.assertEqual(frames[2]["line"], program.lines["call"])
        self.assertEqual(
            frames[2]["inlines"],
            [{"function": "step", "file": program.source, "line": program.lines["inlined"]}],
        )
        self.assertNotIn("null", json.dumps(reply))

    def test_source_needs_the_address_of_its_code(self):
        server, program = self.serve(), self.program
        request = {
            "debugName": program.name, "debugId": program.debug_id, "file": program.source,
            "moduleOffset": hex(program.address("here_inlined")),
        }
        status, reply = server.post("/source/v1", request)
        self.assertEqual(status, 200)
        with open(program.source) as file:
            self.assertEqual(reply["source"], file.read())
        for change in (
            {"file": "/etc/passwd"},
            {"file": program.source + "/../inline.c"},
            {"moduleOffset": "0x1"},
            {"debugId": "11112233445566778899AABBCCDDEEFF0"},
        ):
            status, reply = server.post("/source/v1", {**request, **change})
            self.assertEqual((status, list(reply)), (200, ["error"]), change)

    def test_assembly(self):
        server, program = self.serve(), self.program
        start, size = program.symbols["outer"]
        request = {
            "debugName": program.name, "debugId": program.debug_id, "name": program.name, "codeId": program.code_id,
            "startAddress": hex(start), "size": hex(size), "continueUntilFunctionEnd": False,
        }
        status, reply = server.post("/asm/v1", request)
        self.assertEqual((status, reply["startAddress"], reply["size"]), (200, hex(start), hex(size)))
        offsets = [instruction[0] for instruction in reply["instructions"]]
        # The same instructions begin where another disassembler sees them.
        text = support.run("objdump", "-d", "--no-show-raw-insn", f"--disassemble=outer", program.path).out
        listed = [int(found[1], 16) for found in re.finditer(r"^\s+([0-9a-f]+):\t", text, re.M)]
        self.assertEqual(offsets, [address - listed[0] for address in listed if address - listed[0] < size])
        whole = {**request, "size": "0x1", "continueUntilFunctionEnd": True}
        self.assertEqual(server.post("/asm/v1", whole)[1]["size"], hex(size))

    def test_a_profile_again_and_again(self):
        server = self.serve()
        for _ in range(3):
            status, headers, body = server.ask("GET", "/profile.json", headers={"Accept-Encoding": "gzip"})
            self.assertEqual((status, headers["Content-Encoding"]), (200, "gzip"))
            self.assertEqual(body, self.profile_path.read_bytes())
            self.assertEqual(headers["Access-Control-Allow-Origin"], "*")
        self.assertEqual(server.profile_url, server.base + "/profile.json")

    def test_many_clients_at_once(self):
        server, program = self.serve(), self.program
        request = json.dumps(program.request(*["main", "here_outer", "here_inlined"] * 500))
        expected = server.ask("POST", "/symbolicate/v5", request)[2]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            asked = [pool.submit(server.ask, "POST", "/symbolicate/v5", request) for _ in range(200)]
            for future in asked:
                status, _, body = future.result()
                self.assertEqual(status, 200)
                self.assertEqual(body, expected)

    # ---- Who may not ----

    def test_only_the_token_answers(self):
        server = self.serve()
        token = server.prefix[1:]
        self.assertRegex(token, r"^[a-z2-7]{39}$")
        wrong = token[:-1] + ("a" if token[-1] != "a" else "b")
        for path in ("///", "//profile.json", f"///{wrong}/profile.json", f"///{token}", f"///{token[:-1]}/profile.json"):
            status, headers, body = server.ask("GET", path, headers={"Origin": "https://evil.example"})
            self.assertEqual(status, 404, path)
            self.assertNotIn(token.encode(), body)
            if path != f"///{token}":
                self.assertNotIn("Access-Control-Allow-Origin", headers)
        other = self.serve()
        self.assertNotEqual(other.prefix, server.prefix)

    def test_a_rebound_name_is_refused(self):
        server = self.serve()
        for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example", ""):
            status, headers, body = server.ask("GET", "/profile.json", headers={"Host": host})
            self.assertEqual(status, 403, host)
            self.assertNotIn("Access-Control-Allow-Origin", headers)
            self.assertLess(len(body), 200)
        for host in ("localhost:1", "127.0.0.1", f"[::1]:{server.port}"):
            self.assertEqual(server.ask("GET", "/profile.json", headers={"Host": host})[0], 200, host)

    def test_preflight(self):
        server = self.serve()
        status, headers, _ = server.ask(
            "OPTIONS", "/symbolicate/v5",
            headers={
                "Origin": "https://profiler.firefox.com", "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "user-agent",
            },
        )
        self.assertEqual(status, 204)
        self.assertEqual(headers["Access-Control-Allow-Headers"], "user-agent")
        self.assertIn("POST", headers["Access-Control-Allow-Methods"])

    def test_a_huge_body_is_refused_before_it_is_read(self):
        server = self.serve()
        with socket.create_connection((server.host, server.port), support.TIMEOUT) as client:
            head = f"POST {server.prefix}/symbolicate/v5 HTTP/1.1\r\nHost: localhost\r\nContent-Length: {1 << 40}\r\n\r\n"
            client.sendall(head.encode())
            self.assertTrue(client.recv(100).startswith(b"HTTP/1.1 413 "))
        status, reply = server.post("/symbolicate/v5", self.program.request("main"))
        self.assertEqual(status, 200)

    def test_requests_that_are_no_requests(self):
        server = self.serve()
        for body in (b"", b"{", b"[]", b"\xff\xfe", b"\0", b"{" * 100000, b"[" * 100000, b'{"jobs":1}', b"null"):
            for path in ("/symbolicate/v5", "/source/v1", "/asm/v1"):
                status, _, reply = server.ask("POST", path, body)
                self.assertEqual((status, list(json.loads(reply))), (400, ["error"]), (path, body[:20]))
        for data in (b"\0\0\0\0", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"A" * 100000, b"\x16\x03\x01\x02\x00\x01"):
            with socket.create_connection((server.host, server.port), support.TIMEOUT) as client:
                # The server may hang up at any moment of this.
                with contextlib.suppress(OSError):
                    client.sendall(data + b"\r\n\r\n")
                    client.shutdown(socket.SHUT_WR)
                    while client.recv(65536):
                        pass
        self.assertEqual(server.post("/symbolicate/v5", self.program.request("main"))[0], 200)

    def test_idle_connections_do_not_block_others(self):
        server = self.serve()
        idle = [socket.create_connection((server.host, server.port), support.TIMEOUT) for _ in range(200)]
        try:
            for client in idle[::2]:
                client.sendall(b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
            self.assertEqual(server.post("/symbolicate/v5", self.program.request("main"))[0], 200)
        finally:
            for client in idle:
                client.close()

    # ---- Starting and ending ----

    def test_what_is_no_profile(self):
        cases = {
            "empty": b"", "text": b"hello\n", "array": b"[]", "other": b'{"a":1}', "perf": b"PERFILE2" + bytes(100),
            "cut.gz": self.profile_path.read_bytes()[:100], "bad.gz": b"\x1f\x8b\x08" + b"\xff" * 40,
        }
        for name, data in cases.items():
            path = self.folder / name
            path.write_bytes(data)
            result = self.sp("load", path, "--no-open", "--port", "0")
            self.assertNotEqual(result.status, 0, name)
            self.assertEqual(len(result.err.splitlines()), 1, result)
            self.assertIn(name, result.err)
        result = self.sp("load", self.folder / "missing.json", "--no-open", "--port", "0")
        self.assertEqual(len(result.err.splitlines()), 1, result)

    def test_a_taken_port(self):
        first = self.serve()
        result = self.sp("load", self.profile_path, "--no-open", "--port", first.port)
        self.assertNotEqual(result.status, 0)
        self.assertEqual(len(result.err.splitlines()), 1, result)
        self.assertIn(f"{first.port}", result.err)
        second = Server(self, self.profile_path, "--port", f"{first.port}+")
        self.assertNotEqual(second.port, first.port)

    def test_signals_end_it(self):
        for sig in (signal.SIGINT, signal.SIGTERM):
            server = self.serve()
            self.assertEqual(server.post("/symbolicate/v5", self.program.request("main"))[0], 200)
            self.assertEqual(server.stop(sig), 0)

    def test_links(self):
        server = self.serve(env={"PROFILER_URL": "http://127.0.0.1:4242"})
        self.assertTrue(server.url.startswith("http://127.0.0.1:4242/from-url/http%3A%2F%2F127.0.0.1%3A"), server.url)
        server = self.serve("--profiler-url", "https://profiler.example/")
        self.assertTrue(server.url.startswith("https://profiler.example/from-url/"), server.url)
        self.assertTrue(server.url.endswith("/?symbolServer=" + urllib.parse.quote(server.base, safe="")), server.url)

    def test_a_front_end_folder(self):
        site = self.folder / "site"
        site.mkdir()
        (site / "index.html").write_text("the index")
        (site / "app.js").write_text("the script")
        (site / "sw.js").write_text("the worker")
        (site / "leak").symlink_to(self.profile_path)
        server = self.serve("--viewer-dir", site)
        self.assertTrue(server.url.startswith(f"http://127.0.0.1:{server.port}/from-url/"), server.url)
        link = urllib.parse.urlsplit(server.url)
        for path, status, expected in (
            ("/" + link.path, 200, b"the index"), ("//app.js", 200, b"the script"), ("//sw.js", 404, None),
            ("//any/where", 200, b"the index"), ("//leak", 200, b"the index"), ("//../profile.json.gz", 404, None),
        ):
            answer = server.ask("GET", path)
            self.assertEqual(answer[0], status, path)
            self.assertNotIn("Access-Control-Allow-Origin", answer[1])
            if expected:
                self.assertEqual(answer[2], expected, path)
        self.assertEqual(server.ask("POST", "//app.js", "x")[0], 405)
        self.assertEqual(server.ask("GET", "/profile.json")[0], 200)
