"""Ollama's API with the bundled model: what only a real model shows."""

import json
from typing import Any

import httpx

from tests.support.serving import Server

SCHEMA = {
    "type": "object",
    "properties": {"age": {"type": "integer"}},
    "required": ["age"],
    "additionalProperties": False,
}
LONG = "Here is a list of words: " + "apple tree river stone " * 20


def ask(server: Server, path: str, **fields: Any) -> httpx.Response:
    return httpx.post(server.url + path, json={"model": "demo", "stream": False, **fields}, timeout=120)


def turn(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def test_a_small_window_drops_the_oldest_messages(server: Server) -> None:
    old = [turn(role, LONG) for _ in range(4) for role in ("user", "assistant")]
    messages = [turn("system", "Be brief."), *old, turn("user", "Hello")]
    whole = ask(server, "/api/chat", messages=messages)
    assert "x-orchard-dropped-messages" not in whole.headers
    assert whole.json()["prompt_eval_count"] > 500
    short = ask(server, "/api/chat", messages=messages, options={"num_ctx": 256.0})
    assert short.status_code == 200, short.text
    assert 5 <= int(short.headers["x-orchard-dropped-messages"]) <= 8
    assert short.json()["prompt_eval_count"] <= 256 - 32  # an eighth is for the answer
    used = short.json()["prompt_eval_count"] + short.json()["eval_count"]
    assert used <= 256
    streamed = ask(server, "/api/chat", messages=messages, options={"num_ctx": 256}, stream=True)
    assert streamed.headers["x-orchard-dropped-messages"] == short.headers["x-orchard-dropped-messages"]
    refused = ask(server, "/api/chat", messages=messages, options={"num_ctx": 256}, truncate=False)
    assert (refused.status_code, "maximum context length is 256 tokens" in refused.json()["error"]) == (400, True)
    alone = ask(server, "/api/chat", messages=[turn("user", LONG)], options={"num_ctx": 32})
    assert (alone.status_code, "maximum context length is 32 tokens" in alone.json()["error"]) == (400, True)


def test_the_window_ends_the_answer(server: Server) -> None:
    answer = ask(server, "/api/generate", prompt="1 2 3 4 5 6 7 8", raw=True, options={"num_ctx": 24, "seed": 1}).json()
    assert answer["prompt_eval_count"] + answer["eval_count"] <= 24


def test_statistics_add_up(server: Server) -> None:
    answer = ask(server, "/api/chat", messages=[turn("user", "Hello")]).json()
    parts = ("load_duration", "prompt_eval_duration", "eval_duration")
    assert all(answer[part] >= 0 for part in parts)
    assert 0 < sum(answer[part] for part in parts) <= answer["total_duration"]
    assert answer["eval_count"] > 1


def test_a_schema_is_enforced(server: Server) -> None:
    messages = [turn("user", "How old is Ann? She is 22.")]
    answer = ask(server, "/api/chat", messages=messages, format=SCHEMA).json()
    assert isinstance(json.loads(answer["message"]["content"])["age"], int)


def test_a_tool_is_called_and_its_result_read(server: Server) -> None:
    tool = {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add two numbers.",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "required": ["a", "b"],
            },
        },
    }
    messages: list[Any] = [turn("user", "What is 3 plus 4? Use the tool.")]
    answer = ask(server, "/api/chat", messages=messages, tools=[tool]).json()["message"]
    (call,) = answer["tool_calls"]
    assert call["function"]["arguments"] == {"a": 3, "b": 4}
    messages += [answer, {"role": "tool", "tool_name": "add", "content": "7"}]
    assert "7" in ask(server, "/api/chat", messages=messages, tools=[tool]).json()["message"]["content"]


def test_a_conversation_goes_on_from_its_context(server: Server) -> None:
    first = ask(server, "/api/generate", prompt="My name is Ann.").json()
    assert "Ann" in ask(server, "/api/generate", prompt="What is my name?", context=first["context"]).json()["response"]
