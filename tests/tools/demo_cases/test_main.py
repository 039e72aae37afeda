"""Conversations with a scripted server: what is sent, turn by turn, and what is made of it."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from openai import OpenAI
from tools.demo_cases.__main__ import Conversation, table, tried
from tools.demo_cases.cases import trial

TOOL = {"add": {"about": "Add it.", "takes": {"item": "string", "count": "integer?"}}}


def answer(text: str | None, *calls: tuple[str, str], finish: str = "stop") -> dict[str, Any]:
    made = [
        {"id": f"call-{index}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for index, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": text} | ({"tool_calls": made} if made else {})
    return {"message": message, "finish_reason": "tool_calls" if made else finish, "index": 0}


class Script:
    """A server that gives these answers, and keeps the requests."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.requests: list[dict[str, Any]] = []
        self._answers: Iterator[dict[str, Any]] = iter(answers)
        http: Any = httpx.Client(transport=httpx.MockTransport(self._answer))
        self.client = OpenAI(base_url="http://server/v1", api_key="none", http_client=http)

    def wrong(self, **case: Any) -> str | None:
        return Conversation(self.client, "tiny", trial(case)).wrong()

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(json.loads(request.content))
        fields = {"id": "a", "object": "chat.completion", "created": 0, "model": "tiny"}
        return httpx.Response(200, json=fields | {"choices": [next(self._answers)]})


def test_turns_are_sent_after_the_models_own_answers() -> None:
    script = Script(answer("Hello Bo."), answer("You are Bo."))
    assert script.wrong(system="Be kind.", turns=["I'm Bo", {"say": "who am i", "has": ["Bo"]}]) is None
    assert script.requests[0]["model"] == "tiny"
    assert script.requests[1] == script.requests[0] | {
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "I'm Bo"},
            {"role": "assistant", "content": "Hello Bo."},
            {"role": "user", "content": "who am i"},
        ]
    }


def test_the_first_wrong_turn_ends_a_case() -> None:
    script = Script(answer("Hm."), answer("not asked for"))
    assert script.wrong(turns=[{"say": "hi", "has": ["hello"]}, "bye"]) == "'hi' → lacks hello: Hm."
    assert len(script.requests) == 1


def test_an_answer_that_is_cut_off_is_wrong() -> None:
    assert Script(answer("and so", finish="length")).wrong(say="hi") == "'hi' → doesn't end: and so"


def test_a_call_and_its_result() -> None:
    call = answer(None, ("add", '{"item": "tea"}'))
    case = {"say": "add tea", "tools": TOOL, "call": {"add": {"item": "tea"}}, "result": {"id": 7}, "has": ["7"]}
    script = Script(call, answer("It is number 7."))
    assert script.wrong(**case) is None
    function = script.requests[0]["tools"][0]["function"]
    assert (function["name"], function["description"]) == ("add", "Add it.")
    assert function["parameters"]["required"] == ["item"]
    *_, called, result = script.requests[1]["messages"]
    assert called["tool_calls"] == call["message"]["tool_calls"]
    assert result == {"role": "tool", "tool_call_id": "call-0", "content": '{"id": 7}'}
    assert Script(call, answer("Done.")).wrong(**case) == "'add tea' → lacks 7: Done."
    assert Script(call, call).wrong(**case) == '\'add tea\' → calls add({"item": "tea"})'
    assert Script(answer("No.")).wrong(**case) == "'add tea' → calls nothing: No."


def test_a_call_without_a_result_ends_the_turn() -> None:
    script = Script(answer("Sure.", ("add", '{"item": "tea"}')))
    assert script.wrong(say="add tea", tools=TOOL, call={"add": {"item": "tea"}}) is None


def test_an_answer_by_schema() -> None:
    script = Script(answer('{"age": 200}'))
    assert script.wrong(say="a person", schema={"age": "integer"}, fields={"age": [1, 110]}) is not None
    asked = script.requests[0]
    assert asked["max_tokens"] == 100
    assert asked["response_format"]["json_schema"]["schema"]["properties"] == {"age": {"type": "integer"}}
    assert asked["response_format"]["json_schema"]["strict"] is True


def test_cases_are_tried_in_order_and_counted() -> None:
    script = Script(*[answer("5")] * 3)
    found = tried(script.client, "tiny", [trial({"say": "2+3", "number": number}) for number in (5, 6, 5)])
    assert found == [None, "'2+3' → isn't 6: 5", None]
    assert [line.split() for line in table({"sums": found, "facts": [None]}).splitlines()] == [
        ["kind", "right", "cases"],
        ["sums", "2", "3", "67%"],
        ["facts", "1", "1", "100%"],
        ["all", "3", "4", "75%"],
    ]


@pytest.mark.parametrize("text", ["", "  "])
def test_a_message_without_a_needed_call_must_be_answered(text: str) -> None:
    assert Script(answer(text)).wrong(say="hi", tools=TOOL) == "'hi' → says nothing"
