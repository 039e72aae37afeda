"""A server that may open only a few files, as under `ulimit -n 64`."""

import contextlib
import resource

import httpx

from tests.support.gateway_client import body
from tests.support.serving import Server, serve

_FILES = 64
_CHAT = "/v1/chat/completions"


def _few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES))


def _ask(client: httpx.Client) -> int:
    return client.post(_CHAT, json=body(text="hello")).status_code


def test_a_server_out_of_files_says_so_and_keeps_those_that_it_needs_itself() -> None:
    with serve(prepare=_few_files) as server, contextlib.ExitStack() as stack:
        server.until(state="ready")
        clients = [_client(server, stack) for _ in range(_FILES)]
        first = next(number for number, client in enumerate(clients) if _ask(client) == 429)
        assert first > _FILES // 4
        assert [_ask(client) for client in clients[:first]] == [200] * first
        # A process needs several files.
        for what in ("unload", "load"):
            assert clients[0].post(f"/v1/models/fake/{what}").status_code == 200
        for client in clients[:first]:
            client.close()
        assert _ask(_client(server, stack)) == 200


def _client(server: Server, stack: contextlib.ExitStack) -> httpx.Client:
    return stack.enter_context(httpx.Client(base_url=server.url, timeout=30))
