from typing import Any

import pytest

from orchard.backends.text.prompt.chat_messages import (
    Efforts,
    Switch,
    TemplateCapabilities,
    Turn,
    tools_of,
    turns_of,
    variables_of,
)
from orchard.core.tasks.generate import Message, Part, ReasoningPart, Role, TextPart, Tool, ToolCallPart, ToolResultPart


def said(role: Role, *parts: Part | str, name: str | None = None) -> Message:
    return Message(role, tuple(TextPart(part) if isinstance(part, str) else part for part in parts), name)


def told(call_id: str, *texts: str, is_error: bool = False) -> ToolResultPart:
    return ToolResultPart(call_id, tuple(TextPart(text) for text in texts), is_error)


F = ToolCallPart("c1", "f", '{"a": 1}')
G = ToolCallPart("c2", "g", "")
CALLED_F: dict[str, Any] = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
CALLED_G: dict[str, Any] = {"id": "c2", "type": "function", "function": {"name": "g", "arguments": {}}}


def turn(role: str, content: Any, **more: Any) -> Turn:
    return {"role": role, "content": content, **more}


def thought(text: str) -> Turn:
    return {"reasoning_content": text, "reasoning": text}


def turns(*messages: Message, **takes: Any) -> list[Turn]:
    return turns_of(messages, TemplateCapabilities(**takes))


def test_a_conversation_as_most_templates_take_it() -> None:
    broken = ToolCallPart("c3", "h", "nonsense")
    assert turns(
        said("system", "Be", "brief"),
        said("user", "Hi", name="Ada"),
        said("assistant", ReasoningPart("Hm."), "I look.", F, broken),
        said("tool", told("c1", "one", "two"), told("other")),
        said("tool", told("c3", "no such place", is_error=True)),
        said("user"),
    ) == [
        turn("system", "Be\nbrief"),
        turn("user", "Hi", name="Ada"),
        turn(
            "assistant",
            "I look.",
            **thought("Hm."),
            tool_calls=[
                CALLED_F,
                {"id": "c3", "type": "function", "function": {"name": "h", "arguments": {"INVALID_JSON": "nonsense"}}},
            ],
        ),
        turn("tool", "one\ntwo", tool_call_id="c1", name="f"),
        turn("user", "<tool_response>\n\n</tool_response>"),
        turn("tool", "Error: no such place", tool_call_id="c3", name="h"),
        turn("user", ""),
    ]


def test_system_messages_at_the_beginning_are_one() -> None:
    assert turns(said("system", "a"), said("system"), said("system", "b"), said("user", "Hi")) == [
        turn("system", "a\n\nb"),
        turn("user", "Hi"),
    ]


def test_an_assistant_that_said_nothing_is_left_out() -> None:
    assert turns(said("user", "a"), said("assistant"), said("user", "b")) == [turn("user", "a"), turn("user", "b")]


LATER = (said("system", "a"), said("user", "b"), said("assistant", "c"), said("system", "d"), said("user", "e"))


@pytest.mark.parametrize(
    ("takes", "expected"),
    [
        ({}, [("system", "a"), ("user", "b"), ("assistant", "c"), ("system", "d"), ("user", "e")]),
        (
            {"later_system": False},
            [("system", "a"), ("user", "b"), ("assistant", "c"), ("user", "d"), ("user", "e")],
        ),
        (
            {"later_system": False, "repeated_roles": False},
            [("system", "a"), ("user", "b"), ("assistant", "c"), ("user", "d\n\ne")],
        ),
        (
            {"system": False, "later_system": False, "repeated_roles": False},
            [("user", "a\n\nb"), ("assistant", "c"), ("user", "d\n\ne")],
        ),
    ],
)
def test_a_system_message_that_is_not_taken_is_said_where_it_stands(
    takes: dict[str, bool], expected: list[tuple[str, str]]
) -> None:
    assert turns(*LATER, **takes) == [turn(*one) for one in expected]


def test_what_follows_a_call_is_not_joined_with_it() -> None:
    messages = (said("user", "x"), said("assistant", F), said("assistant", "a"), said("assistant", "b"))
    assert turns(*messages, repeated_roles=False) == [
        turn("user", "x"),
        turn("assistant", "", tool_calls=[CALLED_F]),
        turn("assistant", "a\n\nb"),
    ]


def test_user_and_assistant_take_turns_where_they_must_whatever_stands_between() -> None:
    messages = (
        said("system", "a"),
        said("assistant", "b"),
        said("user", "c"),
        said("assistant", F),
        said("tool", told("c1", "d")),
        said("user", "e"),
    )
    assert turns(*messages, repeated_roles=False) == [
        turn("system", "a"),
        turn("user", "..."),
        turn("assistant", "b"),
        turn("user", "c"),
        turn("assistant", "", tool_calls=[CALLED_F]),
        turn("tool", "d", tool_call_id="c1", name="f"),
        turn("assistant", "..."),
        turn("user", "e"),
    ]


def test_what_was_said_beside_a_call_stays_where_users_and_assistants_take_turns() -> None:
    messages = (
        said("user", "a"),
        said("assistant", "Let me look.", F),
        said("tool", told("c1", "b")),
        said("assistant", "And on.", G),
        said("tool", told("c2", "c")),
        said("assistant", "Done."),
    )
    assert turns(*messages, repeated_roles=False, text_beside_calls=False) == [
        turn("user", "a"),
        turn("assistant", "Let me look."),
        turn("user", "..."),
        turn("assistant", "", tool_calls=[CALLED_F]),
        turn("tool", "b", tool_call_id="c1", name="f"),
        turn("assistant", "And on."),
        turn("user", "..."),
        turn("assistant", "", tool_calls=[CALLED_G]),
        turn("tool", "c", tool_call_id="c2", name="g"),
        turn("assistant", "Done."),
    ]


def test_text_before_a_call_is_joined_with_it_where_it_may_stand_beside_it() -> None:
    messages = (said("user", "a"), said("assistant", "Let me look."), said("assistant", F))
    assert turns(*messages, repeated_roles=False) == [
        turn("user", "a"),
        turn("assistant", "Let me look.", tool_calls=[CALLED_F]),
    ]


def test_a_system_message_that_is_all_there_is() -> None:
    assert turns(said("system", "a")) == [turn("system", "a")]
    assert turns(said("system", "a"), said("system", "b"), lone_system=False) == [turn("user", "a\n\nb")]
    assert turns(said("system", "a"), said("user", "b"), lone_system=False) == [turn("system", "a"), turn("user", "b")]


def test_arguments_as_text() -> None:
    (called,) = turns(said("assistant", F), text_arguments=True)
    assert called["tool_calls"][0]["function"]["arguments"] == '{"a": 1}'
    assert called["content"] is None


def test_text_and_reasoning_that_may_not_stand_beside_a_call() -> None:
    message = said("assistant", ReasoningPart("Hm."), "I look.", F)
    assert turns(message, text_beside_calls=False) == [
        turn("assistant", "I look."),
        turn("assistant", "", **thought("Hm."), tool_calls=[CALLED_F]),
    ]
    assert turns(message, reasoning_beside_text=False) == [
        turn("assistant", "", **thought("Hm.\n\nI look."), tool_calls=[CALLED_F])
    ]


def test_reasoning_in_a_content_block() -> None:
    messages = (
        said("assistant", ReasoningPart("Hm."), "I look.", F),
        said("assistant", ReasoningPart("So."), G),
        said("assistant", "Done."),
    )
    first, second, last = turns(*messages, thinking_blocks=True)
    assert first["content"] == [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "I look."}]
    assert second["content"] == [{"type": "thinking", "thinking": "So."}, {"type": "text", "text": ""}]
    assert last == turn("assistant", "Done.")
    (joined,) = turns(messages[0], messages[2], thinking_blocks=True, repeated_roles=False)[1:2]
    assert joined["content"][1]["text"] == "I look."


def test_one_call_a_message() -> None:
    messages = (
        said("assistant", ReasoningPart("Hm."), F, G),
        said("tool", told("c2", "of g"), told("c1", "of f")),
        said("user", "Go on"),
        said("assistant", F),
        said("tool", told("c1", "again")),
    )
    assert turns(*messages, several_calls=False) == [
        turn("assistant", "", **thought("Hm."), tool_calls=[CALLED_F]),
        turn("tool", "of f", tool_call_id="c1", name="f"),
        turn("assistant", "", tool_calls=[CALLED_G]),
        turn("tool", "of g", tool_call_id="c2", name="g"),
        turn("user", "Go on"),
        turn("assistant", "", tool_calls=[CALLED_F]),
        turn("tool", "again", tool_call_id="c1", name="f"),
    ]


def test_ids_of_nine_letters_are_the_same_in_call_and_result() -> None:
    called, result = turns(said("assistant", F), said("tool", told("c1", "one")), ids="short")
    (id_,) = {called["tool_calls"][0]["id"], result["tool_call_id"]}
    assert len(id_) == 9
    assert id_.isalnum()


def test_numbered_ids_count_over_the_whole_conversation() -> None:
    found = turns(said("assistant", F, G), said("tool", told("c2", "x")), said("assistant", F), ids="numbered")
    ids = [call["id"] for one in found for call in one.get("tool_calls", [])]
    assert ids == ["functions.f:0", "functions.g:1", "functions.f:2"]
    assert found[1]["tool_call_id"] == "functions.g:1"


def test_results_within_the_message_of_their_calls() -> None:
    messages = (
        said("assistant", F, G),
        said("tool", told("c1", "one")),
        said("tool", told("c2", "two")),
        said("assistant", "Done."),
        said("user", "Thanks"),
    )
    responses = [{"name": "f", "response": "one"}, {"name": "g", "response": "two"}]
    assert turns(*messages, results_beside_calls=True) == [
        turn("assistant", "Done.", tool_calls=[CALLED_F, CALLED_G], tool_responses=responses),
        turn("user", "Thanks"),
    ]


def test_a_template_without_tools_gets_them_as_text() -> None:
    takes = TemplateCapabilities(tools=False, calls=False)
    tools = (Tool("f", "does f", {"type": "object"}),)
    messages = (said("user", "Hi"), said("assistant", "Look:", F), said("tool", told("c1", "one")))
    described, *rest = turns_of(messages, takes, tools)
    assert described["role"] == "system"
    assert '{"type": "function", "function": {"name": "f", "description": "does f"' in described["content"]
    assert rest == [
        turn("user", "Hi"),
        turn("assistant", 'Look:\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'),
        turn("user", "<tool_response>\none\n</tool_response>"),
    ]
    assert tools_of(tools, takes) is None


def test_results_may_have_a_role_where_calls_are_text() -> None:
    messages = (said("assistant", F), said("tool", told("c1", "one"), told("other", "two")))
    assert turns(*messages, calls=False, lone_results=True)[1:] == [
        turn("tool", "one", tool_call_id="c1", name="f"),
        turn("user", "<tool_response>\ntwo\n</tool_response>"),
    ]


def test_tools_are_given_as_openai_writes_them() -> None:
    first, second = tools_of((Tool("f", "does f", {"type": "object", "x": 1}), Tool("g")), TemplateCapabilities()) or []
    assert first == {
        "type": "function",
        "function": {"name": "f", "description": "does f", "parameters": {"type": "object", "x": 1}},
    }
    assert second["function"] == {"name": "g", "parameters": {"type": "object", "properties": {}}}
    assert tools_of((), TemplateCapabilities()) is None


NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
NULL_OR_TEXT = {"anyOf": [{"type": "string"}, {"type": "null"}]}


@pytest.mark.parametrize(
    ("takes", "tool", "expected"),
    [
        ({"missing_descriptions": False}, Tool("f"), {"description": "", "parameters": NOTHING}),
        ({"missing_descriptions": False}, Tool("f", "d"), {"description": "d", "parameters": NOTHING}),
        (
            {"missing_properties": False},
            Tool("f", None, {"type": "object", "x": 1}),
            {"parameters": {"type": "object", "properties": {}, "x": 1}},
        ),
        (
            {"missing_properties": False},
            Tool("f", None, {"properties": {"a": {}}}),
            {"parameters": {"properties": {"a": {}}}},
        ),
        (
            {"null_in_type_lists": False},
            Tool("f", None, {"properties": {"a": {"type": ["string", "null"], "title": "A"}, "b": True}}),
            {"parameters": {"properties": {"a": {"title": "A"} | NULL_OR_TEXT, "b": True}}},
        ),
        (
            {"null_in_type_lists": False},
            Tool("f", None, {"properties": {"a": {"type": ["string", "integer"]}}}),
            {"parameters": {"properties": {"a": {"type": ["string", "integer"]}}}},
        ),
    ],
)  # fmt: skip
def test_what_a_template_wants_of_a_tool_is_filled_in(takes: Any, tool: Tool, expected: dict[str, Any]) -> None:
    (found,) = tools_of((tool,), TemplateCapabilities(**takes)) or []
    assert found["function"] == {"name": "f"} | expected


def low_and_high(**fields: Any) -> TemplateCapabilities:
    return TemplateCapabilities(efforts=Efforts("effort", ("low", "high")), **fields)


NO_BUDGET = Switch("budget", None, 0)
NO_THINK = Switch("effort", "high", "no_think")


@pytest.mark.parametrize(
    ("takes", "given", "expected"),
    [
        (TemplateCapabilities(), {"reasoning_effort": "none", "other": 1}, {"reasoning_effort": "none", "other": 1}),
        (low_and_high(), {"reasoning_effort": "minimal"}, {"effort": "low"}),
        (low_and_high(), {"reasoning_effort": "medium"}, {"effort": "high"}),
        (low_and_high(), {"reasoning_effort": "max"}, {"effort": "high"}),
        (low_and_high(), {"reasoning_effort": "max", "effort": "low"}, {"effort": "low"}),
        (low_and_high(), {"reasoning_effort": "deep"}, {"reasoning_effort": "deep"}),
        (low_and_high(), {"reasoning_effort": "none", "enable_thinking": False}, {"enable_thinking": False}),
        (low_and_high(thinking_off=False), {"reasoning_effort": "none", "enable_thinking": False}, {"effort": "low"}),
        (
            low_and_high(switch=NO_THINK),
            {"reasoning_effort": "none", "enable_thinking": False},
            {"enable_thinking": False, "effort": "no_think"},
        ),
        (
            low_and_high(switch=NO_THINK),
            {"reasoning_effort": "low", "enable_thinking": True},
            {"enable_thinking": True, "effort": "low"},
        ),
        (
            low_and_high(switch=NO_THINK),
            {"reasoning_effort": "low", "enable_thinking": False},
            {"enable_thinking": False, "effort": "no_think"},
        ),
        (
            TemplateCapabilities(efforts=Efforts("reasoning_effort", ())),
            {"reasoning_effort": "low", "other": 1},
            {"other": 1},
        ),
        (TemplateCapabilities(thinking_budget=False), {"thinking_budget": 5}, {}),
        (TemplateCapabilities(switch=NO_BUDGET), {"enable_thinking": True}, {"enable_thinking": True}),
        (TemplateCapabilities(switch=NO_BUDGET), {"enable_thinking": False}, {"enable_thinking": False, "budget": 0}),
        (TemplateCapabilities(switch=NO_THINK), {"enable_thinking": True}, {"enable_thinking": True, "effort": "high"}),
        (TemplateCapabilities(thinking_off=False), {"enable_thinking": False}, {}),
        (TemplateCapabilities(thinking_off=False), {"enable_thinking": True}, {"enable_thinking": True}),
    ],
)
def test_variables_get_the_templates_names_and_values(
    takes: TemplateCapabilities, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert variables_of(given, takes) == expected
