"""The requests that have not ended: who sees them, how far they are, and cancelling them."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.gateway_client import Stream, body, chat, streamed
from tests.support.serving import FAKE, Server, serve

ANN, BEN, ROOT = "ann-key", "ben-key", "root-key"
LONG: dict[str, Any] = {"pieces": 5000, "interval": 0.01}


@pytest.fixture(scope="module")
def locked() -> Iterator[Server]:
    with serve([FAKE], api_keys=(ANN, BEN), admin_keys=(ROOT,)) as server:
        server.until(state="ready")
        yield server


async def told(server: Server, key: str = "") -> list[dict[str, Any]]:
    async with httpx.AsyncClient(headers={"x-api-key": key}) as http:
        return list((await http.get(f"{server.url}/v1/requests")).json()["data"])


async def cancel(server: Server, id_: str, key: str = "", **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(headers={"x-api-key": key} | headers) as http:
        return await http.delete(f"{server.url}/v1/requests/{id_}")


async def until(server: Server, *states: str) -> list[dict[str, Any]]:
    """Wait until there are requests in just these states."""
    while True:
        found = await told(server)
        if [live["state"] for live in found] == list(states):
            return found
        await asyncio.sleep(0.01)


async def test_a_request_from_begin_to_end(server: Server) -> None:
    server.until(state="ready")
    assert await told(server) == []
    slow = asyncio.create_task(chat(server, pieces=1000, interval=0.5, delay=0.3))
    (queued,) = await until(server, "queued")
    assert (queued["object"], queued["model"], queued["dialect"]) == ("request", "fake", "/v1/chat/completions")
    assert (queued["caller"], queued["priority"], queued["prompt_tokens"]) == ("127.0.0.1", "normal", None)
    (prefill,) = await until(server, "prefill")
    while prefill["prompt_tokens"] is None:  # until the process has reported on the request
        (prefill,) = await until(server, "prefill")
    assert (prefill["prompt_tokens"], prefill["read_tokens"], prefill["generated_tokens"]) == (1, 0, 0)
    assert (prefill["id"], prefill["created_at"]) == (queued["id"], queued["created_at"])
    (decode,) = await until(server, "decode")
    assert decode["read_tokens"] == 1
    assert (await cancel(server, queued["id"])).json() == {"id": queued["id"], "object": "request", "cancelled": True}
    answer = await slow
    assert (answer.status_code, answer.json()["error"]["code"]) == (499, "cancelled")
    assert answer.headers["x-request-id"] == queued["id"]
    assert await told(server) == []
    gone = await cancel(server, queued["id"])
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "request_not_found")


async def test_a_stream_is_cancelled_and_its_speed_is_told(server: Server) -> None:
    async with streamed(server, **LONG) as stream:
        await stream.read(until=20)
        (live,) = await told(server)
        assert live["generated_tokens"] >= 20
        assert 30 < live["tokens_per_second"] < 120
        await cancel(server, live["id"])
        await stream.read()
        assert stream.error
        assert stream.error["code"] == "cancelled"


async def test_all_requests_of_several_prompts_are_cancelled(server: Server) -> None:
    script = body(**LONG)["messages"][0]["content"]
    async with httpx.AsyncClient(timeout=30) as http:
        prompts = {"model": "fake", "prompt": [script, script]}
        answer = asyncio.create_task(http.post(f"{server.url}/v1/completions", json=prompts))
        first, _ = await until(server, "decode", "decode")
        whole = first["id"].partition("-")[0]
        assert (await cancel(server, whole[:-1])).status_code == 404
        assert (await cancel(server, whole)).status_code == 200
        assert (await answer).status_code == 499
    assert await told(server) == []


async def test_a_response_in_the_background_is_cancelled(server: Server) -> None:
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
        script = body(**LONG)["messages"][0]["content"]
        run = (await http.post("/v1/responses", json={"model": "fake", "input": script, "background": True})).json()
        (live,) = await until(server, "decode")
        assert live["dialect"] == "/v1/responses"
        await cancel(server, live["id"])
        stream = await http.get(f"/v1/responses/{run['id']}?stream=true")  # until its end
        assert "response.in_progress" in stream.text
        assert (await http.get(f"/v1/responses/{run['id']}")).json()["status"] == "cancelled"


async def _begin(server: Server, key: str, http: httpx.AsyncClient) -> Stream:
    request = http.build_request(
        "POST", f"{server.url}/v1/chat/completions", json=body(stream=True, **LONG), headers={"x-api-key": key}
    )
    stream = Stream(await http.send(request, stream=True))
    return await stream.read(until=1)


async def test_everybody_sees_and_cancels_their_own(locked: Server) -> None:
    async with httpx.AsyncClient(timeout=30) as http:
        streams = {key: await _begin(locked, key, http) for key in (ANN, BEN)}
        ids = {key: stream.response.headers["x-request-id"] for key, stream in streams.items()}
        for key in (ANN, BEN):
            (own,) = await told(locked, key)
            assert own["id"] == ids[key]
            assert re.fullmatch("key [0-9a-f]{8}", own["caller"])
        assert {one["id"] for one in await told(locked, ROOT)} == set(ids.values())
        assert (await cancel(locked, ids[ANN], BEN)).status_code == 404
        assert (await cancel(locked, ids[ANN], ANN, origin="https://elsewhere.example")).status_code == 403
        assert (await cancel(locked, ids[ANN])).status_code == 401
        assert (await cancel(locked, ids[ANN], ANN)).status_code == 200
        assert (await cancel(locked, ids[BEN], ROOT)).status_code == 200
        for stream in streams.values():
            assert (await stream.read()).error
