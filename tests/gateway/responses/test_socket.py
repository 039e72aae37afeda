"""Responses over a WebSocket, with a model that plays scripts."""

import asyncio
import json
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from socket import SO_LINGER, SOL_SOCKET, create_connection
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from orchard.gateway.caller import ANYONE
from orchard.gateway.http.budget import Budget
from orchard.gateway.http.request_context import RequestLimit
from orchard.gateway.responses.socket import ResponsesSocket
from tests.support.serving import Server, serve

LAST = ("response.completed", "response.incomplete", "response.failed", "error")


@contextmanager
def socket(
    server: Server, path: str = "/v1/responses", max_queue: int | None = 16, /, **headers: str
) -> Iterator[ClientConnection]:
    url = f"ws://127.0.0.1:{server.port}{path}"
    client = connect(url, additional_headers=headers, open_timeout=30, max_queue=max_queue)
    try:
        yield client
    finally:
        client.close()


def create(fields: dict[str, Any] | None = None, /, **script: Any) -> dict[str, Any]:
    return {"type": "response.create", "model": "fake", "input": json.dumps(script), **(fields or {})}


def send(client: ClientConnection, *events: object) -> None:
    for event in events:
        client.send(event if isinstance(event, str | bytes) else json.dumps(event))


def turn(client: ClientConnection) -> list[dict[str, Any]]:
    """Read the events of one response."""
    events: list[dict[str, Any]] = []
    while not events or events[-1]["type"] not in LAST or (events[-1]["type"] == "error" and "code" in events[-1]):
        events.append(json.loads(client.recv(timeout=30)))
    return events


def ask(client: ClientConnection, event: object) -> dict[str, Any]:
    """Send an event, and return the last one that answers it."""
    send(client, event)
    return turn(client)[-1]


def text(event: dict[str, Any]) -> str:
    found: str = event["response"]["output"][0]["content"][0]["text"]
    return found


@pytest.mark.parametrize("path", ["/v1/responses", "/responses"])
def test_the_events_are_those_of_the_stream(server: Server, path: str) -> None:
    fields = {"model": "fake", "input": json.dumps({"text": "ab", "pieces": 2}), "stream": True}
    streamed = httpx.post(f"{server.url}{path}", json=fields, timeout=30).text
    with socket(server, path) as client:
        send(client, create(text="ab", pieces=2))
        told = turn(client)
    kinds = [json.loads(line[6:])["type"] for line in streamed.splitlines() if line.startswith("data: ")]
    assert list(dict.fromkeys(event["type"] for event in told)) == list(dict.fromkeys(kinds))  # texts may be merged
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    assert text(told[-1]) == "abab"


def test_one_response_goes_on_from_another_that_is_not_stored(server: Server) -> None:
    with socket(server) as client:
        first = ask(client, create({"store": False}, text="one"))["response"]
        going_on = {"store": False, "previous_response_id": first["id"]}
        second = ask(client, create(going_on, text="two"))
        assert text(second) == "two"
        assert second["response"]["previous_response_id"] == first["id"]
        assert second["response"]["usage"]["input_tokens"] > first["usage"]["input_tokens"]
        third = ask(client, create({"store": False, "previous_response_id": second["response"]["id"]}, text="three"))
        assert third["response"]["usage"]["input_tokens"] > second["response"]["usage"]["input_tokens"]
        # Only the last one is known, and only here.
        assert_not_found(ask(client, create(going_on, text="again")), first["id"])
    with socket(server) as other:
        last = third["response"]["id"]
        assert_not_found(ask(other, create({"store": False, "previous_response_id": last})), last)


def test_a_reference_beside_a_response_that_is_not_stored_is_to_its_chain(server: Server) -> None:
    with socket(server) as client:
        other = ask(client, create(text="other"))["response"]
        for referred in ("other", "own"):
            first = ask(client, create({"store": False}, text="one"))["response"]
            id_ = (other if referred == "other" else first)["output"][0]["id"]
            items = [{"type": "item_reference", "id": id_}, {"role": "user", "content": "on"}]
            last = ask(client, create({"store": False, "previous_response_id": first["id"], "input": items}))
            if referred == "other":
                assert (last["status"], last["error"]["code"]) == (404, "item_not_found")
            else:
                assert last["response"]["usage"]["input_tokens"] == 3


def assert_not_found(event: dict[str, Any], id_: str) -> None:
    assert (event["type"], event["status"]) == ("error", 400)
    assert event["error"]["code"] == "previous_response_not_found"
    assert event["error"]["param"] == "previous_response_id"
    assert id_ in event["error"]["message"]


def test_one_response_goes_on_from_another_that_is_stored(server: Server) -> None:
    with socket(server) as client:
        first = ask(client, create(text="one"))["response"]
    assert httpx.get(f"{server.url}/v1/responses/{first['id']}").json()["status"] == "completed"
    with socket(server) as client:
        second = ask(client, create({"previous_response_id": first["id"]}, text="two"))["response"]
    assert second["usage"]["input_tokens"] > first["usage"]["input_tokens"]


def test_what_is_not_stored_goes_on_from_what_is(server: Server) -> None:
    with socket(server) as client:
        first = ask(client, create(text="one"))["response"]
        second = ask(client, create({"store": False, "previous_response_id": first["id"]}, text="two"))["response"]
        third = ask(client, create({"store": False, "previous_response_id": second["id"]}, text="three"))["response"]
    messages = [response["usage"]["input_tokens"] for response in (first, second, third)]  # the script counts these
    assert messages == [1, 3, 5]


def test_keys_are_users_here_too() -> None:
    with serve(api_keys=("one", "two")) as server:
        with socket(server, authorization="Bearer one") as client:
            first = ask(client, create())["response"]["id"]
            assert ask(client, create({"previous_response_id": first}))["type"] == "response.completed"
        with socket(server, authorization="Bearer two") as client:
            assert_not_found(ask(client, create({"previous_response_id": first})), first)


def test_what_is_stored_does_not_go_on_from_what_is_not(server: Server) -> None:
    with socket(server) as client:
        first = ask(client, create({"store": False}))["response"]["id"]
        refused = ask(client, create({"previous_response_id": first}))
        assert (refused["status"], refused["error"]["param"]) == (400, "store")
        # A turn that failed has lost what it went on from, as the API has it.
        assert_not_found(ask(client, create({"store": False, "previous_response_id": first})), first)


def test_what_connections_know_has_a_limit(capfd: pytest.CaptureFixture[str]) -> None:
    with serve(max_body_bytes_in_flight=2000) as server, socket(server) as client:
        first = ask(client, create({"store": False}, text="x" * 1500))["response"]
        assert_not_found(ask(client, create({"store": False, "previous_response_id": first["id"]})), first["id"])
        assert text(ask(client, create({"store": False}, text="still here"))) == "still here"
    assert f"{first['id']} is not kept for its connection" in capfd.readouterr().err


def test_a_warm_up_says_nothing_and_can_be_gone_on_from(server: Server) -> None:
    with socket(server) as client:
        warm = ask(client, create({"store": False, "generate": False}, text="not this"))["response"]
        assert (warm["status"], warm["output"], warm["usage"]["output_tokens"]) == ("completed", [], 0)
        after = ask(client, create({"store": False, "previous_response_id": warm["id"]}, text="this"))
        assert text(after) == "this"
        assert after["response"]["usage"]["input_tokens"] > warm["usage"]["input_tokens"]


def test_events_are_answered_one_after_the_other(server: Server) -> None:
    with socket(server) as client:
        send(client, create(text="a", pieces=3, interval=0.05), create(text="b"), b"{", create(text="c"))
        turns = [turn(client) for _ in range(4)]
    assert [text(turns[i][-1]) for i in (0, 1, 3)] == ["aaa", "b", "c"]
    assert turns[2][-1]["status"] == 400
    ids = [[event["response"]["id"] for event in told if "response" in event] for told in turns]
    assert all(len(set(found)) <= 1 for found in ids)


def test_only_so_many_events_may_wait(server: Server) -> None:
    with socket(server) as client:
        send(client, create(text="a", pieces=2, interval=0.5))
        assert json.loads(client.recv(timeout=30))["type"] == "response.created"  # it no longer waits
        send(client, *[create(text="b")] * 17)
        kinds = [event["error"]["code"] for event in (turn(client)[-1] for _ in range(18)) if event["type"] == "error"]
    assert kinds == ["rate_limit_exceeded"]


@pytest.mark.parametrize(
    ("event", "status", "param"),
    [
        ("{", 400, None),
        (b"\xff", 400, None),
        ("[]", 400, None),
        ({"model": "fake", "input": "hi"}, 400, "type"),
        ({"type": "response.steer", "model": "fake", "input": "hi"}, 400, "type"),
        (create({"background": True}), 400, "background"),
        (create({"stream": False}), 400, "stream"),
        (create({"stream_id": "lane"}), 400, "stream_id"),
        (create({"generate": "no"}), 400, "generate"),
        (create({"temperature": 9}), 400, "temperature"),
        (create({"input": None}), 400, "input"),
        (create({"model": "other"}), 404, "model"),
        (create(refuse="context_length_exceeded"), 400, "input"),
    ],
)
def test_errors_are_events_and_the_connection_stays(
    server: Server, event: object, status: int, param: str | None
) -> None:
    with socket(server) as client:
        refused = ask(client, event)
        assert (refused["type"], refused["status"], refused["error"]["param"]) == ("error", status, param)
        assert refused["error"]["message"]
        assert text(ask(client, create(text="still here"))) == "still here"


def test_what_fails_later_fails_as_in_a_stream(server: Server) -> None:
    with socket(server) as client:
        send(client, create(text="a", pieces=2, fail="internal"))
        told = turn(client)
        assert [event["type"] for event in told[-2:]] == ["error", "response.failed"]
        assert text(ask(client, create(text="still here"))) == "still here"


@pytest.mark.parametrize("politely", [True, False])
def test_a_client_that_leaves_frees_its_row(politely: bool, capfd: pytest.CaptureFixture[str]) -> None:
    with serve() as server:
        # With a limit on its queue, it waits ten seconds for the close frame behind events that nobody reads.
        with socket(server, "/v1/responses", None) as client:
            send(client, create(text="a", pieces=10_000, interval=0.01), create(text="b"))
            server.until(running=1)
            client.close_timeout = 0.2  # it reads no answer, so it would not see that the server closes, too
            if not politely:
                client.socket.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
                client.socket.close()
        server.until(running=0)
    logged = capfd.readouterr().err
    assert "response.create /v1/responses cancelled" in logged
    assert "Traceback" not in logged


def test_every_check_of_a_request_is_one_of_the_handshake() -> None:
    with serve(api_keys=("key",), cors_origins=("https://good.example",)) as server:
        key = "Bearer key"
        for headers, status in (
            ({}, 401),
            ({"authorization": "Bearer wrong"}, 401),
            ({"authorization": key, "origin": "https://evil.example"}, 403),
            ({"authorization": key, "origin": "null"}, 403),
            ({"authorization": key, "sec-fetch-site": "same-site"}, 403),
        ):
            with pytest.raises(InvalidStatus) as refused, socket(server, **headers):
                pass
            assert refused.value.response.status_code == status
            assert json.loads(refused.value.response.body)["error"]["message"]
        for origin in ("https://good.example", "vscode-webview://1", f"http://127.0.0.1:{server.port}"):
            with socket(server, authorization=key, origin=origin) as client:
                assert text(ask(client, create(text="in"))) == "in"


def test_a_strange_name_is_refused(server: Server) -> None:
    with create_connection(("127.0.0.1", server.port)) as sock, pytest.raises(InvalidStatus) as refused:
        connect(f"ws://evil.example:{server.port}/v1/responses", sock=sock)
    assert refused.value.response.status_code == 403


def test_there_is_no_socket_elsewhere(server: Server) -> None:
    for path in ("/v1/chat/completions", "/nowhere"):
        with pytest.raises(InvalidStatus) as refused, socket(server, path):
            pass
        assert refused.value.response.status_code == 404


def test_tools_that_are_left_out_are_logged(capfd: pytest.CaptureFixture[str]) -> None:
    with serve() as server, socket(server) as client:
        ask(client, create({"tools": [{"type": "mcp", "server_label": "x"}]}, text="a"))
    assert "so the model doesn't see them: 'mcp'" in capfd.readouterr().err


def test_a_message_has_a_limit() -> None:
    with serve(max_body_bytes=1000) as server, socket(server) as client:
        send(client, create({"input": "x" * 2000}))
        with pytest.raises(ConnectionClosed) as closed:
            client.recv(timeout=30)
        assert closed.value.rcvd
        assert closed.value.rcvd.code == 1009


def test_all_messages_have_a_limit_together() -> None:
    with serve(max_body_bytes_in_flight=100_000) as server, socket(server) as one, socket(server) as other:
        send(one, create(delay=30, pieces=1))
        server.until(running=1)
        send(one, create({"input": "x" * 60_000}))
        assert text(ask(other, create(text="small"))) == "small"
        send(other, create({"input": "x" * 60_000}))
        with pytest.raises(ConnectionClosed) as closed:
            client_says(other)
        assert closed.value.rcvd
        assert closed.value.rcvd.code == 1013


def client_says(client: ClientConnection) -> None:
    while True:
        client.recv(timeout=30)


def test_responses_count_as_requests(capfd: pytest.CaptureFixture[str]) -> None:
    with serve(max_requests=1) as server, socket(server) as other:
        with socket(server) as one:
            send(one, create(text="a", pieces=10_000, interval=0.01))
            server.until(running=1)
            busy = ask(other, create())
            assert (busy["status"], busy["error"]["headers"]) == (429, {"retry-after": "1"})
        server.until(running=0)
        assert text(ask(other, create(text="b"))) == "b"
    logged = capfd.readouterr().err
    assert "response.create /v1/responses overloaded" in logged
    assert "response.create /v1/responses ok" in logged


def test_the_end_of_the_server_lets_an_answer_finish(capfd: pytest.CaptureFixture[str]) -> None:
    with serve() as server, socket(server) as busy, socket(server) as idle:
        send(busy, create(text="a", pieces=20, interval=0.05))
        server.until(running=1)
        server.process.send_signal(signal.SIGTERM)
        for client in (idle, busy):
            if client is busy:
                assert text(turn(client)[-1]) == "a" * 20
            with pytest.raises(ConnectionClosed) as closed:
                client.recv(timeout=30)
            assert closed.value.rcvd
            assert closed.value.rcvd.code == 1012
        assert server.process.wait(30) == 0
    logged = capfd.readouterr().err
    assert "waiting for 1 request" in logged
    assert "ERROR" not in logged
    assert "Traceback" not in logged


class Stub:
    """A WebSocket whose client sends these events, and nothing more."""

    def __init__(self, *events: bytes) -> None:
        connection = SimpleNamespace(
            message_budget=Budget(9, "messages"), past_budget=Budget(9, "pasts"), stay_open=nullcontext
        )
        self.scope = {
            "path": "/v1/responses",
            "state": {"socket": connection, "in_hand": RequestLimit(1), "caller": ANYONE},
        }
        self.told: list[str] = []
        self._events = list(events)
        self._closed = asyncio.Event()

    async def accept(self) -> None:
        self.told.append("accepted")

    async def receive(self) -> dict[str, Any]:
        if self._events:
            return {"type": "websocket.receive", "bytes": self._events.pop(0)}
        await self._closed.wait()
        return {"type": "websocket.disconnect"}

    async def send_text(self, text: str) -> None:
        self.told.append(json.loads(text)["error"]["code"])

    async def close(self) -> None:
        self.told.append("closed")
        self._closed.set()


async def test_a_connection_lasts_so_long() -> None:
    stub: Any = Stub()
    nothing: Any = None
    await ResponsesSocket(stub, nothing, nothing, lifetime=0.01).run()
    assert stub.told == ["accepted", "websocket_connection_limit_reached", "closed"]


async def test_a_bug_is_an_event_too(caplog: pytest.LogCaptureFixture) -> None:
    stub: Any = Stub(b"{}")
    nothing: Any = None
    await ResponsesSocket(stub, nothing, nothing, lifetime=0.5).run()
    assert stub.told[:2] == ["accepted", "internal_error"]
    assert "response.create broke" in caplog.text
