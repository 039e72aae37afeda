"""Continuous batching and the prompt cache as clients see them: company changes nothing, and nobody is lost."""

import asyncio
import json
import os
import random
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchard.backends.text.model import load_text_model
from orchard.core.tasks.text_options import TextOptions
from orchard.demo import MODEL_PATH
from orchard.gateway.models.registry import resolve_model
from tests.support.engine_driver import store_calibration
from tests.support.examples import is_deep
from tests.support.models import in_float32
from tests.support.serving import Server, serve

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
MIXED: list[dict[str, Any]] = [
    {"text": "Count from 1 to 12", "temperature": 0},
    {"text": "Tell me a story about a fox", "temperature": 1.8, "seed": 1, "n": 3, "max_tokens": 16},
    {"text": "Tell me a story about a fox", "temperature": 1.8, "seed": -1, "top_p": 0.8, "max_tokens": 16},
    {"text": "Tell me a story", "temperature": 2, "seed": 3, "top_k": 50, "min_p": 0.01, "max_tokens": 16},
    {"text": "Tell me a story", "seed": 4, "xtc_probability": 0.7, "xtc_threshold": 0.05, "max_tokens": 16},
    {
        "text": "Count from 1 to 12",
        "seed": 5,
        "repetition_penalty": 1.3,
        "repetition_context_size": 8,
        "max_tokens": 24,
    },
    {"text": "Count from 1 to 12", "seed": 6, "presence_penalty": 2, "frequency_penalty": -1, "max_tokens": 24},
    {"text": "Hello", "temperature": 1.5, "seed": 7, "logprobs": True, "top_logprobs": 3, "max_tokens": 16},
    {"text": "Hello", "temperature": 0, "logit_bias": {"5": 100}, "logprobs": True, "max_tokens": 3},
    {"text": "Count from 1 to 12", "seed": 8, "stop": ["7", "nowhere"], "n": 2},
    {"text": "What's the weather in Paris?", "temperature": 0, "tools": [WEATHER]},
    {"text": "What's the weather in Paris and Rome?", "seed": 9, "tools": [WEATHER], "parallel_tool_calls": False},
    {"text": "What is 12 + 30?", "temperature": 0, "enable_thinking": True},
    {"text": "What is 12 + 30?", "seed": 10, "thinking_budget": 3, "temperature": 1.5, "max_tokens": 24},
    {"text": "What is 12 + 30?", "seed": 11, "thinking_budget": 0},
    {"text": "Say this is a test. " * 20, "temperature": 0, "max_tokens": 16},
    {"text": "Hi", "seed": 12, "temperature": 2, "max_tokens": 1, "priority": "background"},
]


class Caller:
    """Sends requests to one server, and gives of an answer what must not depend on its company."""

    def __init__(self, server: Server) -> None:
        self.server = server
        limits = httpx.Limits(max_connections=None)
        self._http = httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=120, limits=limits)

    async def close(self) -> None:
        await self._http.aclose()

    async def post(self, text: str | list[dict[str, Any]], **fields: Any) -> httpx.Response:
        return await self._http.post("/v1/chat/completions", json=_body(text, fields))

    async def get(self, path: str, **params: str) -> httpx.Response:
        return await self._http.get(path, params=params)

    async def whole(self, text: str, **fields: Any) -> Any:
        answer = (await self.post(text, **fields)).raise_for_status().json()
        heard = {choice["index"]: _Heard(choice["message"], choice) for choice in answer["choices"]}
        return _told(heard, answer["usage"])

    async def streamed(self, text: str, **fields: Any) -> Any:
        body = _body(text, fields) | {"stream": True, "stream_options": {"include_usage": True}}
        heard: dict[int, _Heard] = {}
        usage: dict[str, Any] = {}
        last = ""
        async with self._http.stream("POST", "/v1/chat/completions", json=body) as response:
            response.raise_for_status()
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    chunk = json.loads(line.removeprefix("data: "))
                    assert "error" not in chunk, chunk
                    usage = chunk["usage"] or usage
                    for choice in chunk["choices"]:
                        heard.setdefault(choice["index"], _Heard()).add(choice["delta"], choice)
                last = line or last
        assert last == "data: [DONE]"
        return _told(heard, usage)

    async def leave(self, streaming: bool, after: float, text: str, **fields: Any) -> None:
        """Go away after so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(after):
                await (self.streamed if streaming else self.whole)(text, **fields)


class _Heard:
    """What one choice said."""

    def __init__(self, message: dict[str, Any] | None = None, choice: dict[str, Any] | None = None) -> None:
        self.content = self.reasoning = ""
        self.calls: dict[int, list[str]] = {}
        self.logprobs: list[tuple[str, float, list[str]]] = []
        self.reason = None
        if message and choice:
            self.add(message, choice)

    def add(self, part: dict[str, Any], choice: dict[str, Any]) -> None:
        self.content += part.get("content") or ""
        self.reasoning += part.get("reasoning_content") or ""
        for index, call in enumerate(part.get("tool_calls") or []):
            heard = self.calls.setdefault(call.get("index", index), ["", ""])
            heard[0] += call["function"].get("name") or ""
            heard[1] += call["function"].get("arguments") or ""
        for one in (choice.get("logprobs") or {}).get("content") or []:
            self.logprobs.append((one["token"], one["logprob"], [top["token"] for top in one["top_logprobs"]]))
        self.reason = choice["finish_reason"] or self.reason


def _body(text: str | list[dict[str, Any]], fields: dict[str, Any]) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}] if isinstance(text, str) else text
    return {"model": "demo", "messages": messages} | fields


def _told(heard: dict[int, _Heard], usage: dict[str, Any]) -> Any:
    said = [
        (
            one.content,
            one.reasoning,
            one.calls,
            [(token, pytest.approx(logprob, abs=0.05), top) for token, logprob, top in one.logprobs],
            one.reason,
        )
        for _, one in sorted(heard.items())
    ]
    return said, usage["prompt_tokens"], usage["completion_tokens"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One whose numbers of a row don't depend on its company in the last bits, see `backends/kernels/cpu.py`."""
    folder = in_float32(MODEL_PATH, tmp_path_factory.mktemp("float32") / "demo")
    store_calibration(load_text_model(str(folder)), TextOptions())
    with serve([resolve_model(str(folder))], spare=False) as running:
        running.until("demo", state="ready")
        yield running


@pytest.fixture
async def caller(server: Server) -> AsyncIterator[Caller]:
    one = Caller(server)
    yield one
    await one.close()


@pytest.fixture(scope="module")
def alone(server: Server) -> list[Any]:
    """What each of the mixed requests is answered without company."""

    async def ask() -> list[Any]:
        caller = Caller(server)
        answers = [await caller.whole(**fields) for fields in MIXED]
        await caller.close()
        return answers

    return asyncio.run(ask())


async def test_company_changes_no_answer(caller: Caller, alone: list[Any]) -> None:
    together = await asyncio.gather(
        *(caller.whole(**fields) for fields in MIXED), *(caller.streamed(**fields) for fields in MIXED)
    )
    for fields, expected, whole, streamed in zip(
        MIXED, alone, together[: len(MIXED)], together[len(MIXED) :], strict=True
    ):
        assert whole == expected, fields
        assert streamed == expected, fields


async def test_more_streams_at_once_than_there_are_rows(caller: Caller) -> None:
    """There are 64 rows; the deep profile has twice as many streams."""
    count = 128 if is_deep() else 80
    brief: dict[str, Any] = {"temperature": 0, "max_tokens": 5}
    answers = await asyncio.gather(*(caller.streamed(f"{n}?", **brief) for n in range(count)))
    assert len(answers) == count
    for n in (0, 5, 64, count - 1):
        assert answers[n] == await caller.whole(f"{n}?", **brief)
    caller.server.until("demo", running=0, waiting=0)


async def test_those_who_leave_are_forgotten_and_change_nothing(caller: Caller, alone: list[Any]) -> None:
    chance = random.Random(0)
    leaving = [
        caller.leave(
            chance.random() < 0.5, chance.choice((0.001, 0.02, 0.1, 0.3)), "Count from 1 to 99", logit_bias={"2": -100}
        )
        for _ in range(20)
    ]
    staying = [caller.streamed(**fields) for fields in MIXED]
    answers = (await asyncio.gather(*leaving, *staying))[len(leaving) :]
    assert answers == alone
    caller.server.until("demo", running=0, waiting=0, timeout=10)


async def test_cached_tokens_are_exact(caller: Caller) -> None:
    """A growing conversation is read once; an edit of its head costs all after it, and the report says where."""
    messages = [{"role": "system", "content": "The time is 10:41. You help."}]
    known = 0
    for turn in range(4):
        messages.append({"role": "user", "content": f"My number {turn} is {turn * 7}."})
        answer = (await caller.post(messages, temperature=0, max_tokens=30)).raise_for_status().json()
        usage = answer["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        # All that was read and said before, but perhaps for what the template writes after the end of a turn.
        assert known - 2 <= cached < usage["prompt_tokens"] or not turn
        known = usage["prompt_tokens"] + usage["completion_tokens"]
        messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
    again = await caller.post(messages[:-1], temperature=0, max_tokens=1)
    usage = again.json()["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1
    messages[0]["content"] = "The time is 10:42. You help."
    edited = await caller.post(messages, temperature=0, max_tokens=1)
    usage = edited.json()["usage"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    report = await _report(caller, edited)
    assert (report["cached_tokens"], report["prompt_tokens"]) == (cached, usage["prompt_tokens"])
    assert report["parted_at"] == cached < 20
    assert report["before"].endswith("The time is 10:4")
    assert (report["cached"][0], report["given"][0]) == ("1", "2")


async def _report(caller: Caller, response: httpx.Response) -> dict[str, Any]:
    answer = await caller.get("/v1/cache", request_id=response.headers["x-request-id"])
    found: dict[str, Any] = answer.raise_for_status().json()
    return found


async def test_a_full_queue_refuses(narrow: Server) -> None:
    caller = Caller(narrow)
    endless = {"logit_bias": {"2": -100}, "max_tokens": 3000}
    first = asyncio.create_task(caller.leave(True, 60, "Hello", **endless))
    await _until(narrow, running=1, waiting=0)
    waiting = [asyncio.create_task(caller.leave(True, 60, "Hello", **endless)) for _ in range(2)]
    await _until(narrow, running=1, waiting=2)
    refused = await caller.post("Hello")
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) > 0
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    for task in (first, *waiting):
        task.cancel()
    await asyncio.gather(first, *waiting, return_exceptions=True)
    await _until(narrow, running=0, waiting=0)
    assert (await caller.post("Hello")).status_code == 200
    await caller.close()


async def test_the_interactive_go_first(narrow: Server) -> None:
    caller = Caller(narrow)
    first = asyncio.create_task(caller.leave(True, 60, "Hello", logit_bias={"2": -100}, max_tokens=3000))
    await _until(narrow, running=1, waiting=0)
    done: list[str] = []

    async def ask(priority: str) -> None:
        await caller.whole("Hello", priority=priority)
        done.append(priority)

    late = asyncio.create_task(ask("background"))
    await _until(narrow, running=1, waiting=1)
    soon = asyncio.create_task(ask("interactive"))
    await _until(narrow, running=1, waiting=2)
    first.cancel()
    await asyncio.gather(first, late, soon, return_exceptions=True)
    assert done == ["interactive", "background"]
    await caller.close()


async def _until(server: Server, **expected: int) -> None:
    await asyncio.to_thread(server.until, "demo", **expected)


def _ask(server: Server, text: str) -> tuple[str, int, int]:
    body = _body(text, {"temperature": 0, "max_tokens": 16})
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=120)
    usage = answer.raise_for_status().json()["usage"]
    content = answer.json()["choices"][0]["message"]["content"]
    return content, usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


def test_cached_prompts_outlive_the_server(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Whether it ends well or is killed in the middle; what is broken there is ignored."""
    text = "My name is Ada. " * 20
    options = TextOptions(prompt_cache_dir=str(tmp_path))
    with serve([resolve_model("demo")], text=options, spare=False) as server:
        answer, tokens, cached = _ask(server, text)
        assert cached == 0
    with serve([resolve_model("demo")], text=options, spare=False) as server:
        assert _ask(server, text) == (answer, tokens, tokens - 1)
        body = _body("Count from 1 to 99", {"stream": True})
        with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body, timeout=60) as stream:
            next(stream.iter_lines())
            os.kill(server.process.pid, signal.SIGKILL)
            server.process.wait()
    with serve([resolve_model("demo")], text=options, spare=False) as server:
        assert _ask(server, text) == (answer, tokens, tokens - 1)
        httpx.post(f"{server.url}/v1/models/demo/unload", timeout=60).raise_for_status()
        files = sorted(tmp_path.glob("*/*.safetensors"))
        assert files
        for file in files:
            whole = file.read_bytes()
            file.write_bytes(whole[: len(whole) // 2])
        assert _ask(server, text) == (answer, tokens, 0)
    assert "Traceback" not in capfd.readouterr().err
