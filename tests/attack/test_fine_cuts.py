"""Whoever cuts what it sends into tiny pieces delays nobody else, and is told so where that can't be served."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from _pytest.mark import ParameterSet

from tests.support.serving import Server, serve

CONNECTIONS = 16
HEALTHS = 10
JSON = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
FORM = b"POST /v1/audio/transcriptions HTTP/1.1\r\nhost: localhost\r\ncontent-type: multipart/form-data; boundary=b\r\n"
PART = b'--b\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
CHUNKED = b"transfer-encoding: chunked\r\n\r\n"
LONG = b"content-length: 20000000\r\n\r\n"
PICTURE = b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\n"
SOCKET = (
    b"GET /v1/responses HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
)
BEGUN = b"\x01\x81\0\0\0\0a"  # a frame that begins a message
CHUNK = b"1\r\n \r\n"
MANY = 10_000


class Sender:
    """Sends a piece again and again over its connections, until all have been ended by the others, or the context."""

    def __init__(self, piece: bytes) -> None:
        self._piece = piece
        self._rests: dict[socket.socket, bytes] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.heard = b""
        """What the others said last."""

    def add(self, sock: socket.socket, opening: bytes) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if opening.startswith(SOCKET):
            sock.sendall(SOCKET)
            assert sock.recv(4096).startswith(b"HTTP/1.1 101 ")
            opening = opening.removeprefix(SOCKET)
        sock.sendall(opening)
        sock.setblocking(False)
        self._rests[sock] = b""

    @property
    def is_sending(self) -> bool:
        return bool(self._rests)

    def __enter__(self) -> "Sender":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for sock in self._rests:
            sock.close()

    def _run(self) -> None:
        while not self._stop.wait(0.0005):
            for sock, rest in list(self._rests.items()):
                data = rest or self._piece
                try:
                    self._rests[sock] = data[sock.send(data) :]
                except BlockingIOError:
                    self._listen(sock)
                except OSError:
                    self._listen(sock)
                    sock.close()
                    del self._rests[sock]

    def _listen(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            self.heard = sock.recv(65536) or self.heard


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve(allow_private_media=True) as running:
        running.until(state="ready")
        yield running


def assert_healthy(server: Server) -> None:
    with httpx.Client(timeout=20) as client:
        for _ in range(HEALTHS):
            assert client.get(f"{server.url}/health").status_code == 200


ENDED = {
    "chunks of a body": (JSON + CHUNKED, CHUNK * MANY),
    "chunks of a form": (FORM + CHUNKED + b"%x\r\n%s\r\n" % (len(PART), PART), CHUNK * MANY),
    "chunks with extensions": (JSON + CHUNKED, (b"1;" + b"a" * 99 + b"\r\n \r\n") * 99),
}
OPEN = {
    "fragments without bytes": (SOCKET + BEGUN, b"\x00\x80\0\0\0\0" * MANY),
    "fragments of a byte": (SOCKET + BEGUN, b"\x00\x81\0\0\0\0a" * MANY),
    "pings": (SOCKET, b"\x89\x80\0\0\0\0" * MANY),
    "pongs": (SOCKET, b"\x8a\x80\0\0\0\0" * MANY),
    "messages": (SOCKET, b"\x81\x82\0\0\0\0{}" * MANY),
    "segments of a message": (SOCKET + b"\x81\xff" + (20_000_000).to_bytes(8, "big") + b"\0\0\0\0", b"a"),
    "segments of a body": (JSON + LONG, b" "),
    "segments of a form": (FORM + LONG + PART, b"a"),
}
FETCHED = {
    "chunks": (PICTURE + CHUNKED, CHUNK * MANY, "chunks that are too small"),
    "interim responses": (b"", b"HTTP/1.1 102 Wait\r\n\r\n" * MANY, "doesn't speak HTTP correctly"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"a: b\r\n" * MANY, "doesn't speak HTTP correctly"),
}
UNFETCHED = {
    "segments": (PICTURE + LONG, b"a"),
    "segments of chunks": (PICTURE + CHUNKED, CHUNK),
    "segments of a head": (b"HTTP/1.1 200 OK\r\na: ", b"b"),
}


def cases(table: Mapping[str, tuple[bytes | str, ...]]) -> list[ParameterSet]:
    """The first one in `make test`."""
    return [
        pytest.param(*row, id=name, marks=[pytest.mark.deep] if number else [])
        for number, (name, row) in enumerate(table.items())
    ]


@pytest.mark.parametrize(("opening", "piece"), cases(ENDED))
def test_a_body_in_tiny_chunks_is_refused(server: Server, opening: bytes, piece: bytes) -> None:
    sender = Sender(piece)
    for _ in range(CONNECTIONS):
        sender.add(socket.create_connection(("127.0.0.1", server.port)), opening)
    with sender:
        assert_healthy(server)
        while sender.is_sending:
            time.sleep(0.01)
    assert sender.heard.startswith(b"HTTP/1.1 400 ")
    assert b"chunks of the body are too small" in sender.heard


@pytest.mark.parametrize(("opening", "piece"), cases(OPEN))
def test_others_are_served_while_tiny_pieces_come(server: Server, opening: bytes, piece: bytes) -> None:
    sender = Sender(piece)
    for _ in range(CONNECTIONS):
        sender.add(socket.create_connection(("127.0.0.1", server.port)), opening)
    with sender:
        assert_healthy(server)
        assert sender.is_sending


@contextlib.contextmanager
def media_server(sender: Sender, opening: bytes) -> Iterator[int]:
    """Open the connections of a sender to all that ask; give the port."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening, ThreadPoolExecutor(1) as pool:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    sock = listening.accept()[0]
                    sock.recv(4096)
                    sender.add(sock, opening)

        pool.submit(accept)
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def ask(server: Server, port: int) -> httpx.Response:
    """Ask about eight pictures of that server."""
    links = [f"http://127.0.0.1:{port}/{number}" for number in range(8)]
    content = [{"type": "image_url", "image_url": {"url": link}} for link in links]
    body = {"model": "fake", "messages": [{"role": "user", "content": content}]}
    return httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)


@pytest.mark.parametrize(("opening", "piece", "why"), cases(FETCHED))
def test_media_in_tiny_pieces_are_refused(server: Server, opening: bytes, piece: bytes, why: str) -> None:
    with Sender(piece) as sender, media_server(sender, opening) as port, ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(ask, server, port) for _ in range(2)]
        assert_healthy(server)
        for answer in (one.result() for one in asked):
            error = answer.json()["error"]
            assert (answer.status_code, why in error["message"]) == (400, True)
            assert error["param"].startswith("messages[0].content[")


@pytest.mark.parametrize(("opening", "piece"), cases(UNFETCHED))
def test_others_are_served_while_tiny_pieces_of_media_come(server: Server, opening: bytes, piece: bytes) -> None:
    sender = Sender(piece)
    with media_server(sender, opening) as port, ThreadPoolExecutor(2) as pool:
        with sender:
            asked = [pool.submit(ask, server, port) for _ in range(2)]
            while not sender.is_sending:
                time.sleep(0.01)
            assert_healthy(server)
            assert not any(one.done() for one in asked)
        assert [one.result().status_code for one in asked] == [400, 400]
