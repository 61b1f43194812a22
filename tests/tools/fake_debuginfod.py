#!/usr/bin/env python3
"""A debuginfod server for tests, good or bad by the first part of the URL's path.

    fake_debuginfod.py FOLDER

Serves FOLDER/buildid/... under /good. Under /busy everything is 503, under /wrong every object is FOLDER/wrong, under
/silent there is no reply, under /slow the reply stops in the middle, under /moved it is a redirection to /good. Writes its
port to FOLDER/port when it is ready, and each request's path to FOLDER/requests. Ends with its parent.
"""

import ctypes
import http.server
import pathlib
import signal
import sys
import threading
import time
import urllib.parse


class Handler(http.server.BaseHTTPRequestHandler):
    folder: pathlib.Path
    lock = threading.Lock()

    def log_message(self, *args):
        pass

    def do_GET(self):
        path = urllib.parse.unquote(self.path)
        with self.lock, open(self.folder / "requests", "a") as log:
            log.write(path + "\n")
        _, mode, rest = path.split("/", 2)
        file = self.folder / rest
        if mode == "busy":
            self.send_error(503)
        elif mode == "silent":
            time.sleep(30)
        elif mode == "moved":
            self.send_response(302)
            self.send_header("Location", f"/good/{rest}")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif mode == "wrong":
            self.reply((self.folder / "wrong").read_bytes())
        elif ".." in rest or not file.is_file():
            self.send_error(404)
        else:
            self.reply(file.read_bytes(), stop_in_the_middle=mode == "slow")

    def reply(self, body, stop_in_the_middle=False):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if stop_in_the_middle:
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            time.sleep(30)
        else:
            self.wfile.write(body)


def main():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    Handler.folder = pathlib.Path(sys.argv[1])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    temporary = Handler.folder / "port.new"
    temporary.write_text(str(server.server_address[1]))
    temporary.rename(Handler.folder / "port")
    server.serve_forever()


if __name__ == "__main__":
    main()
