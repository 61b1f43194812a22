"""A running sp serve, and small programs to put into it."""

import hashlib
import http.client
import json
import re
import signal
import subprocess
import threading
import urllib.parse

import support

C_SOURCE = """#include <stdio.h>
static inline int twice(int x) { return x * 2; }
__attribute__((noinline)) int work(int x)
{
	volatile int y = twice(x);
	return y + 1;
}
int main(int argc, char **argv)
{
	(void)argv;
	printf("%d\\n", work(argc));
	return 0;
}
"""


class Server:
    """A running sp serve on loopback."""

    def __init__(self, test, *args, folder="store"):
        self.test = test
        self.folder = test.folder / folder
        self.process = subprocess.Popen(
            [support.SP, "serve", str(self.folder), "--port", "0", "--admin-port", "0", *map(str, args)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=test.folder,
        )
        test.addCleanup(self.stop)
        said, ports = [], []
        for line in self.process.stderr:
            said.append(line)
            ports += [int(port) for port in re.findall(r"http://\S+:(\d+)", line)]
            if len(ports) == 2:
                break
        test.assertEqual(len(ports), 2, "".join(said))
        self.port, self.admin_port = ports
        self.url = f"http://127.0.0.1:{self.port}"
        self.log, self.errors = [], said
        # What follows must be read, or a full pipe would stop the server.
        for stream, lines in ((self.process.stdout, self.log), (self.process.stderr, self.errors)):
            threading.Thread(target=lines.extend, args=(stream,), daemon=True).start()

    def stop(self, sig=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(sig)
        return self.process.wait(support.TIMEOUT)

    def token(self, *args):
        """A new token that may upload to the release namespace, or what `args` say."""
        return self.test.sp_ok("serve", "token", "create", self.folder, *(args or ("--namespace", "release"))).out.strip()

    def ask(self, method, path, body=None, headers=None, port=None):
        """Status, headers and body of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=support.TIMEOUT)
        try:
            connection.request(method, path, body, headers or {})
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read()
        finally:
            connection.close()

    def put(self, token, data, name, namespace="release", **more):
        query = urllib.parse.urlencode({"name": name, "namespace": namespace, **more})
        sha = hashlib.sha256(data).hexdigest()
        status, _, body = self.ask("PUT", f"/v1/uploads/{sha}?{query}", data, {"Authorization": f"Bearer {token}"})
        return status, body.decode()

    def check(self, token, *files):
        body = json.dumps({"files": files})
        status, _, body = self.ask("POST", "/v1/uploads:check", body, {"Authorization": f"Bearer {token}"})
        return status, json.loads(body)


def build(test, name="program", source=C_SOURCE, flags=("-g", "-O1")):
    """A program with debug information, and its copies: (stripped program, debug file, build ID)."""
    folder = test.folder / f"build-{name}"
    folder.mkdir()
    path, debug = folder / name, folder / f"{name}.debug"
    (folder / f"{name}.c").write_text(source)
    for command in (
        ["cc", "-Wl,--build-id", *flags, "-o", path, folder / f"{name}.c"],
        ["objcopy", "--only-keep-debug", path, debug],
        ["strip", path],
    ):
        result = support.run(*command, cwd=folder)
        test.assertEqual(result.status, 0, result)
    notes = support.run("readelf", "-n", path).out
    return path, debug, re.search(r"Build ID: (\w+)", notes)[1]
