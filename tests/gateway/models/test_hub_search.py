"""Searches of a Hub that lies, leads elsewhere or never ends."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from orchard.core.errors import OrchardError
from orchard.gateway.models import hub_info
from orchard.gateway.models.hub_search import HubModel, search_hub

Answer = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], None]]:
    """Let the Hub give an answer to questions about models."""
    servers = []
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)

    def begin(answer: Answer) -> None:
        handler = type("Handler", (BaseHTTPRequestHandler,), {"do_GET": answer, "log_message": lambda *_: None})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{server.server_port}")

    yield begin
    for server in servers:
        server.shutdown()
        server.server_close()


def send(handler: BaseHTTPRequestHandler, content: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    with suppress(OSError):
        handler.wfile.write(content)


def test_ids_that_no_model_can_have_are_left_out(play: Callable[[Answer], None]) -> None:
    ids = [
        "org/one",
        "org/<b>x</b>",
        "org/\x1b]0;title\x07",
        "../../etc/passwd",
        "",
        *(f"org/m{i}" for i in range(100)),
    ]
    play(lambda handler: send(handler, json.dumps([{"id": one, "pipeline_tag": "\x1b[2J"} for one in ids]).encode()))
    assert search_hub("x") == [HubModel("org/one", "other"), *(HubModel(f"org/m{i}", "other") for i in range(15))]


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'[{"id": 1}]', b"[" * 100_000, b"<html>", b"\xff"])
def test_nonsense_is_an_error(play: Callable[[Answer], None], content: bytes) -> None:
    play(lambda handler: send(handler, content))
    with pytest.raises(OrchardError, match="can't be searched"):
        search_hub("x")


def test_only_the_beginning_of_a_long_answer_is_read(play: Callable[[Answer], None]) -> None:
    sent = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        with suppress(OSError):
            for _ in range(64):
                sent.append(handler.wfile.write(bytes(2**20)))

    play(answer)
    with pytest.raises(OrchardError, match="too long"):
        search_hub("x")
    assert len(sent) < 64


@pytest.mark.parametrize("ask", [search_hub, hub_info.read_info], ids=["search", "sizes"])
def test_no_redirect_leads_to_another_server(play: Callable[[Answer], None], ask: Callable[[str], object]) -> None:
    elsewhere = []
    play(lambda handler: elsewhere.append(handler.path))
    play(lambda handler: send(handler, b"[]"))
    assert search_hub("x") == []  # from here on, the process may ask for sizes, too
    play(lambda handler: send(handler, b"", 302, Location="http://127.0.0.2:1/private"))
    with pytest.raises(OrchardError, match=r"another server, 127\.0\.0\.2"):
        ask("org/name")
    assert elsewhere == []


@pytest.mark.parametrize("size", ["large", {"bytes": 1}, [1]])
def test_sizes_that_are_no_numbers_are_an_error(play: Callable[[Answer], None], size: object) -> None:
    siblings = [{"rfilename": "model.safetensors", "size": size}, {"rfilename": "config.json", "size": 1}]
    play(lambda handler: send(handler, json.dumps({"id": "org/name", "siblings": siblings}).encode()))
    with pytest.raises(OrchardError, match="could not be fetched"):
        hub_info.read_info("org/name")


def test_a_hub_that_hangs_is_left(play: Callable[[Answer], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_info, "WAIT_SECONDS", 0.2)
    over = threading.Event()

    def hang(_: BaseHTTPRequestHandler) -> None:
        over.wait(30)

    play(hang)
    try:
        for ask in (search_hub, hub_info.read_info):
            with pytest.raises(OrchardError, match=r"timed out|timeout"):
                ask("org/name")
    finally:
        over.set()
