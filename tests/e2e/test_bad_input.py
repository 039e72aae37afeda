"""Whatever is thrown at a server with a real model is refused in OpenAI's shape while a stream beside it runs on."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.support.serving import Server

USER = {"role": "user", "content": "Hello"}
CALL = {"id": "c", "function": {"name": "f"}}
LONG = {"name": "f", "arguments": "[" + "1," * 2_000_000 + "1]"}


def _chat(**fields: Any) -> bytes:
    return json.dumps({"model": "demo", "messages": [USER]} | fields).encode()


def _deep(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


BAD: dict[str, tuple[Callable[[], bytes], str | None]] = {
    "no messages": (lambda: _chat(messages=[]), "messages"),
    "messages is a string": (lambda: _chat(messages="hi"), "messages"),
    "unknown role": (lambda: _chat(messages=[{"role": "robot", "content": "hi"}]), "messages[0].role"),
    "content is a number": (lambda: _chat(messages=[{"role": "user", "content": 3}]), "messages[0].content"),
    "temperature is a string": (lambda: _chat(temperature="hot"), "temperature"),
    "temperature out of range": (lambda: _chat(temperature=2.5), "temperature"),
    "temperature is NaN": (lambda: b'{"model":"demo","messages":[],"temperature":NaN}', None),
    "temperature is infinite": (lambda: _chat().replace(b'"model"', b'"temperature":1e999,"model"'), "temperature"),
    "top_p out of range": (lambda: _chat(top_p=1.5), "top_p"),
    "min_p of five": (lambda: _chat(min_p=5), "min_p"),
    "max_tokens of zero": (lambda: _chat(max_tokens=0), "max_tokens"),
    "logit_bias of no token": (lambda: _chat(logit_bias={"fox": 1}), "logit_bias"),
    "logit_bias beyond the vocabulary": (lambda: _chat(logit_bias={"10000000": 1}), "logit_bias"),
    "too many answers": (lambda: _chat(n=1000), "n"),
    "too many logprobs": (lambda: _chat(logprobs=True, top_logprobs=99), "top_logprobs"),
    "a prompt over the window": (lambda: _chat(messages=[USER | {"content": "word " * 480_000}]), "messages"),
    "10,000 messages": (lambda: _chat(messages=[USER] * 10_000), "messages"),
    "invalid UTF-8": (lambda: _chat().replace(b"Hello", b"\xff\xfe"), None),
    "a lone surrogate": (lambda: _chat().replace(b"Hello", b"\\ud800"), None),
    "deep JSON": (lambda: b'{"model":"demo","messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}", None),
    "three million template variables": (
        lambda: _chat().replace(b'"model"', b'"chat_template_kwargs":{"a":[' + b"[]," * 3_000_000 + b'1]},"model"'),
        "chat_template_kwargs",
    ),
    "a long template variable": (lambda: _chat(chat_template_kwargs={"a": "x" * 5_000_000}), "chat_template_kwargs"),
    "a long schema": (
        lambda: _chat(tools=[{"function": {"name": "f", "parameters": {"enum": [1] * 200_000}}}]),
        "tools[0].function.parameters",
    ),
    "too many tools": (lambda: _chat(tools=[{"function": {"name": f"f{n}"}} for n in range(1000)]), "tools"),
    "two million empty tools": (lambda: _chat(tools=[{}] * 2_000_000), "tools"),
    "too many calls": (
        lambda: _chat(messages=[USER, {"role": "assistant", "tool_calls": [CALL] * 100_000}]),
        "messages",
    ),
    "as many calls as may be sent": (
        lambda: _chat(messages=[USER, *[{"role": "assistant", "tool_calls": [CALL] * 1000}] * 32]),
        "messages",
    ),
    "long arguments": (
        lambda: _chat(messages=[USER, {"role": "assistant", "tool_calls": [CALL | {"function": LONG}]}]),
        "messages[1].tool_calls[0].function.arguments",
    ),
    "a long stop string": (lambda: _chat(stop="ab" * 2_000_000), "stop"),
    "an internal template variable": (lambda: _chat(chat_template_kwargs={"self": 1}), "chat_template_kwargs"),
    "a deep schema": (
        lambda: _chat().replace(b'"model"', f'"chat_template_kwargs":{_deep(500)},"model"'.encode()),
        None,
    ),
}


@pytest.mark.parametrize("name", BAD)
async def test_bad_input_is_refused_while_others_run(server: Server, name: str) -> None:
    content, param = BAD[name]
    url = f"{server.url}/v1/chat/completions"
    async with httpx.AsyncClient(timeout=30) as client:
        running = asyncio.create_task(client.post(url, content=_chat(temperature=0)))
        response = await client.post(url, content=content())
        assert 400 <= response.status_code < 500
        error = response.json()["error"]
        assert error["message"]
        if param:
            assert (error["param"] or "").startswith(param)
        assert (await running).json()["choices"][0]["message"]["content"]
    assert server.health("demo")["state"] == "ready"


async def test_pictures_are_refused_alike_in_every_dialect(server: Server) -> None:
    data, link = "data:image/png;base64,AA==", "http://127.0.0.1:1/a.png"  # which nobody tries to fetch
    chat = [{"type": "image_url", "image_url": {"url": link}}, {"type": "input_image", "image_url": data}]
    source = {"type": "base64", "media_type": "image/png", "data": "AA=="}
    asked: list[tuple[str, dict[str, Any]]] = [
        *(("chat/completions", {"messages": [{"role": "user", "content": [part]}]}) for part in chat),
        *(("responses", {"input": [{"role": "user", "content": [part]}]}) for part in chat),
        (
            "messages",
            {"messages": [{"role": "user", "content": [{"type": "image", "source": source}]}], "max_tokens": 9},
        ),
    ]
    async with httpx.AsyncClient(timeout=30) as client:
        answers = [await client.post(f"{server.url}/v1/{path}", json={"model": "demo", **body}) for path, body in asked]
    assert {answer.status_code for answer in answers} == {400}
    told = "Images can't be read by this model: it takes a vision model, and the extra mlx-orchard[vision]."
    *openais, anthropics = (answer.json()["error"]["message"] for answer in answers)
    assert set(openais) == {told}  # where the picture is, is in a field of its own
    assert anthropics == f"`messages[0].content[0].source.data`: {told}"
