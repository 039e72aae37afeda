"""A server with canned answers, for what Orchard's own never answers."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec


class Stub(http.server.ThreadingHTTPServer):
    """A server that answers every POST with `answer`, and every GET with the list of its `models`."""

    answer = b""
    status = 200
    request_queue_size = 64  # connections at once

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _StubHandler)
        self.models = ["stub"]


class _StubHandler(http.server.BaseHTTPRequestHandler):
    server: Stub

    def do_GET(self) -> None:
        self._send(200, msgspec.json.encode({"data": [{"id": name} for name in self.server.models]}))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._send(self.server.status, self.server.answer)

    def log_message(self, *args: Any) -> None:
        pass

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def run_stub() -> Iterator[Stub]:
    with Stub() as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()
