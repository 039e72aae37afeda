"""What a body becomes, and what is refused with which words."""

import json
from typing import Any

import pytest

from orchard.core.errors import OrchardError
from orchard.core.media import MediaOptions, MediaPart
from orchard.core.request import Request
from orchard.core.tasks.generate import (
    Generate,
    Grammar,
    Message,
    ReasoningPart,
    Sampling,
    TextPart,
    Tool,
    ToolCallPart,
    ToolResultPart,
    generate_task,
)
from orchard.dialects.openai.chat.audio import ChatAudio
from orchard.dialects.openai.chat.encode import ChatCall
from orchard.dialects.openai.chat.parse import parse
from orchard.dialects.openai.chat.schema import BODY, IGNORED
from tests.support.crossing import crossed

USER = {"role": "user", "content": "Hi"}
HI = Message("user", (TextPart("Hi"),))
TOOL = {"type": "function", "function": {"name": "look_up"}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"a": 1}'}}
CALLS = {"role": "assistant"}
TEXT = {"type": "text", "text": "a"}
RESPONSES_TEXT = {"type": "input_text", "text": "a"}
RESPONSES_PICTURE = {"type": "input_image", "image_url": "https://x.y/z.png", "detail": "low"}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}}
LOW = MediaOptions(detail="low")


def picture(url: str, where: str, options: MediaOptions = LOW) -> MediaPart:
    return MediaPart("image", url, where, options=options)


OTHER = {"type": "function", "function": {"name": "f"}}
SAID = {"role": "assistant", "content": "Once"}
CALLED = Message("assistant", (ToolCallPart("call_1", "look_up", '{"a": 1}'),))


def allowed(*names: str, mode: str = "auto") -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


def custom(name: str, form: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "custom", "custom": {"name": name, "description": "Takes text.", "format": form}}


def free_text(**fields: Any) -> dict[str, Any]:
    """The parameters of the function that stands for a custom tool."""
    text = {"type": "string", **fields}
    return {"type": "object", "properties": {"input": text}, "required": ["input"], "additionalProperties": False}


def schema_format(**fields: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", **fields}}


def read(**fields: Any) -> ChatCall:
    return parse(json.dumps({"model": "demo", "messages": [USER], **fields}).encode(), "request-1")


def task(**fields: Any) -> Generate:
    return generate_task(read(**fields).request)


def refused(**fields: Any) -> OrchardError:
    with pytest.raises(OrchardError) as caught:
        read(**fields)
    assert caught.value.kind == "invalid_request"
    return caught.value


def test_the_least_body() -> None:
    call = read()
    assert call.request == Request("request-1", "demo", Generate((HI,)))
    assert (call.stream, call.include_usage) == (False, False)


def test_everything_at_once() -> None:
    fields = {
        "max_completion_tokens": 50,
        "max_tokens": 50,
        "temperature": 1,
        "top_p": 0.5,
        "top_k": 40,
        "min_p": 0.1,
        "repetition_penalty": 1.1,
        "presence_penalty": -2,
        "frequency_penalty": 2.0,
        "logit_bias": {"0": -100, "17": 1.5},
        "seed": -(2**63),
        "xtc_probability": 1,
        "xtc_threshold": 0.5,
        "repetition_context_size": 1,
        "presence_context_size": 2,
        "frequency_context_size": 3,
        "thinking_budget": 4,
        "priority": "background",
        "stop": ["a", "b"],
        "n": 2,
        "logprobs": True,
        "top_logprobs": 3,
        "stream": True,
        "stream_options": {"include_usage": True, "include_obfuscation": False},
        "tools": [TOOL],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "chat_template_kwargs": {"style": ["x", 1]},
        "enable_thinking": True,
        "response_format": {"type": "text"},
        "modalities": ["text"],
        "made_up_field": {"deep": [1]},
    }
    call = read(**fields)
    sampling = Sampling(
        temperature=1.0,
        top_p=0.5,
        top_k=40,
        min_p=0.1,
        repetition_penalty=1.1,
        presence_penalty=-2.0,
        frequency_penalty=2.0,
        logit_bias={0: -100.0, 17: 1.5},
        seed=-(2**63),
        xtc_probability=1.0,
        xtc_threshold=0.5,
        repetition_context_size=1,
        presence_context_size=2,
        frequency_context_size=3,
    )
    assert call.request.priority == "background"
    assert call.request.task == Generate(
        messages=(HI,),
        tools=(Tool("look_up"),),
        parallel_tool_calls=False,
        sampling=sampling,
        max_tokens=50,
        stop=("a", "b"),
        n=2,
        top_logprobs=3,
        template_args={"style": ["x", 1], "enable_thinking": True, "thinking_budget": 4},
        thinking_budget=4,
    )
    assert (call.stream, call.include_usage) == (True, True)
    assert crossed(call.request) == call.request


def test_null_means_absent_everywhere() -> None:
    fields = [name for name in BODY.schema()["properties"] if name not in ("model", "messages")]
    nothing = {
        "role": "user",
        "content": "Hi",
        "name": None,
        "tool_calls": None,
        "refusal": None,
        "function_call": None,
    }
    assert read(messages=[nothing], **dict.fromkeys(fields)) == read()


# openai-python 3.52, types/chat/completion_create_params.py
OPENAI_FIELDS = """audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens
    messages metadata modalities model moderation n parallel_tool_calls prediction presence_penalty
    prompt_cache_key prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier
    seed service_tier stop store stream stream_options temperature tool_choice tools
    top_logprobs top_p user verbosity web_search_options"""


def test_every_field_of_openai_is_known() -> None:
    assert set(OPENAI_FIELDS.split()) <= set(BODY.schema()["properties"])


@pytest.mark.parametrize("name", IGNORED)
def test_ignored_fields_change_nothing(name: str) -> None:
    for value in ("x", 1, True, {"a": "b"}, [None]):
        assert read(**{name: value}) == read()


def test_the_schema_is_whole_in_itself() -> None:
    schema = BODY.schema()
    assert "$ref" not in json.dumps(schema)
    assert schema["required"] == ["messages"]
    assert schema["properties"]["messages"]["items"]["properties"]["role"]["enum"]


MESSAGES: list[tuple[list[Any], tuple[Message, ...]]] = [
    ([{"role": "system", "content": "S"}], (Message("system", (TextPart("S"),)),)),
    ([{"role": "developer", "content": "D"}], (Message("system", (TextPart("D"),)),)),
    ([{"role": "user", "content": "", "name": "Ann"}], (Message("user", (), "Ann"),)),
    (
        [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache": 1}]}],
        (Message("user", (TextPart("a"), TextPart("b"))),),
    ),
    ([{"role": "user", "content": []}], (Message("user", ()),)),
    ([{"role": "system", "content": None}, {"role": "user"}], (Message("system", ()), Message("user", ()))),
    (
        [
            {"role": "assistant", "tool_calls": [CALL], "function_call": {"name": "f"}},
            {"role": "tool", "tool_call_id": "call_1", "content": None},
            {"role": "function", "name": "f", "content": None},
        ],
        (
            Message("assistant", (*CALLED.parts, ToolCallPart("call_function_0", "f", "{}"))),
            Message("tool", (ToolResultPart("call_1", ()),)),
            Message("tool", (ToolResultPart("call_function_0", ()),), "f"),
        ),
    ),
    ([{"role": "assistant"}], (Message("assistant", ()),)),
    ([{"role": "assistant", "content": None, "refusal": "No."}], (Message("assistant", (TextPart("No."),)),)),
    (
        [{"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}]}],
        (Message("assistant", (TextPart("a"), TextPart("b"))),),
    ),
    (
        [{"role": "assistant", "content": "A", "reasoning_content": "R", "reasoning": "other"}],
        (Message("assistant", (ReasoningPart("R"), TextPart("A"))),),
    ),
    ([{"role": "assistant", "reasoning": "R"}], (Message("assistant", (ReasoningPart("R"),)),)),
    (
        [USER, {"role": "assistant", "tool_calls": [CALL | {"index": 0}]}, {"role": "system", "content": "S"}, USER],
        (HI, CALLED, Message("system", (TextPart("S"),)), HI),
    ),
    (
        [
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": ""},
            {
                "role": "tool",
                "tool_call_id": "call_1",
                "name": "look_up",
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            },
        ],
        (
            CALLED,
            Message("tool", (ToolResultPart("call_1", ()),)),
            Message("tool", (ToolResultPart("call_1", (TextPart("a"), TextPart("b"))),), "look_up"),
        ),
    ),
    (
        [
            {"role": "user", "content": [TEXT, PICTURE, {"type": "image_url", "image_url": "https://x.y/z.png"}]},
            {"role": "assistant", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": [PICTURE, TEXT]},
        ],
        (
            Message(
                "user",
                (
                    TextPart("a"),
                    picture("data:image/png;base64,AA==", "messages[0].content[1].image_url.url"),
                    picture("https://x.y/z.png", "messages[0].content[2].image_url", MediaOptions()),
                ),
            ),
            CALLED,
            Message(
                "tool",
                (
                    ToolResultPart(
                        "call_1",
                        (picture("data:image/png;base64,AA==", "messages[2].content[0].image_url.url"), TextPart("a")),
                    ),
                ),
            ),
        ),
    ),
    (
        [
            {"role": "system", "content": [RESPONSES_TEXT]},
            {"role": "user", "content": [RESPONSES_TEXT, RESPONSES_PICTURE]},
            {"role": "assistant", "content": [{"type": "output_text", "text": "b"}], "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": [RESPONSES_TEXT]},
        ],
        (
            Message("system", (TextPart("a"),)),
            Message("user", (TextPart("a"), picture("https://x.y/z.png", "messages[1].content[1].image_url"))),
            Message("assistant", (TextPart("b"), *CALLED.parts)),
            Message("tool", (ToolResultPart("call_1", (TextPart("a"),)),)),
        ),
    ),
    (
        [
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "f", "input": 'say "x"'}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "r"},
        ],
        (
            Message("assistant", (ToolCallPart("c", "f", '{"input":"say \\"x\\""}'),)),
            Message("tool", (ToolResultPart("c", (TextPart("r"),)),)),
        ),
    ),
    (
        [{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {"a": [1]}}}]}],
        (Message("assistant", (ToolCallPart("c", "f", '{"a":[1]}'),)),),
    ),
    (
        [{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": ""}}]}],
        (Message("assistant", (ToolCallPart("c", "f", "{}"),)),),
    ),
    (
        [
            {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "one"},
            {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "two"},
        ],
        (
            Message("assistant", (ToolCallPart("call_function_0", "f", "{}"),)),
            Message("tool", (ToolResultPart("call_function_0", (TextPart("one"),)),), "f"),
            Message("assistant", (ToolCallPart("call_function_1", "f", "{}"),)),
            Message("tool", (ToolResultPart("call_function_1", (TextPart("two"),)),), "f"),
        ),
    ),
]


@pytest.mark.parametrize(("messages", "expected"), MESSAGES)
def test_messages(messages: list[Any], expected: tuple[Message, ...]) -> None:
    assert task(messages=messages).messages == expected


FIELDS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"max_tokens": 7}, {"max_tokens": 7}),
    ({"max_completion_tokens": 9}, {"max_tokens": 9}),
    ({"max_tokens": -1}, {"max_tokens": None}),
    ({"max_tokens": -1, "max_completion_tokens": 5}, {"max_tokens": 5}),
    ({"stop": "\n"}, {"stop": ("\n",)}),
    ({"stop": []}, {"stop": ()}),
    ({"stop": ""}, {"stop": ()}),
    ({"stop": ["a", ""]}, {"stop": ("a",)}),
    ({"logprobs": True}, {"top_logprobs": 0}),
    ({"logprobs": False, "top_logprobs": 0}, {"top_logprobs": None}),
    ({"top_k": -1}, {"sampling": Sampling(top_k=0)}),
    ({"repetition_penalty": 0}, {"sampling": Sampling(repetition_penalty=1.0)}),
    (
        {"top_k": 0, "top_p": 0, "min_p": 1, "temperature": 0},
        {"sampling": Sampling(temperature=0.0, top_p=0.0, top_k=0, min_p=1.0)},
    ),
    ({"tools": []}, {"tools": ()}),
    ({"tools": [TOOL], "tool_choice": "none"}, {"tools": ()}),
    ({"tool_choice": "none"}, {"tools": ()}),
    ({"tool_choice": "auto", "tools": []}, {"tools": ()}),
    ({"functions": [{"name": "f"}], "function_call": "auto"}, {"tools": (Tool("f"),), "parallel_tool_calls": False}),
    ({"functions": [{"name": "f"}], "function_call": "none"}, {"parallel_tool_calls": False}),
    (
        {
            "tools": [
                {"function": {"name": "f.x-1", "description": "d", "parameters": {"type": "object"}, "strict": True}}
            ]
        },
        {"tools": (Tool("f.x-1", "d", {"type": "object"}, True),)},
    ),
    ({"tools": [TOOL, OTHER], "tool_choice": "required"}, {"tools": (Tool("look_up"), Tool("f")), "must_call": True}),
    ({"tools": [TOOL, OTHER], "tool_choice": OTHER}, {"tools": (Tool("f"),), "must_call": True}),
    ({"tools": [TOOL, OTHER], "tool_choice": {"function": {"name": "f"}}}, {"tools": (Tool("f"),), "must_call": True}),
    ({"tools": [TOOL, OTHER], "tool_choice": allowed("f", "f")}, {"tools": (Tool("f"),)}),
    (
        {"tools": [TOOL, OTHER], "tool_choice": allowed("f", "look_up", mode="required")},
        {"tools": (Tool("look_up"), Tool("f")), "must_call": True},
    ),
    (
        {"functions": [{"name": "f"}, {"name": "g"}], "function_call": {"name": "g"}},
        {"tools": (Tool("g"),), "must_call": True, "parallel_tool_calls": False},
    ),
    ({"tools": [custom("f")]}, {"tools": (Tool("f", "Takes text.", free_text()),)}),
    (
        {"tools": [TOOL, custom("f", {"type": "text"})], "tool_choice": {"type": "custom", "custom": {"name": "f"}}},
        {"tools": (Tool("f", "Takes text.", free_text()),), "must_call": True},
    ),
    (
        {"tools": [custom("f", {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /a/"}})]},
        {
            "tools": (
                Tool(
                    "f",
                    "Takes text.\n\nThe input must keep to this grammar:\nstart: /a/",
                    free_text(),
                    True,
                    "start: /a/",
                ),
            )
        },
    ),
    (
        {"tools": [custom("f", {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a+"}})]},
        {
            "tools": (
                Tool(
                    "f",
                    "Takes text.\n\nThe input must match this regular expression:\na+",
                    free_text(pattern="^(?:a+)$"),
                    True,
                ),
            )
        },
    ),
    ({"response_format": {"type": "json_object"}}, {"grammar": Grammar("json_object", None, "response_format")}),
    ({"response_format": schema_format()}, {"grammar": Grammar("json_object", None, "response_format")}),
    (
        {"response_format": schema_format(schema={"type": "array"}, strict=False)},
        {"grammar": Grammar("json_schema", {"type": "array"}, "response_format", strict=False)},
    ),
    (
        {"response_format": schema_format(schema={"type": "array"}, strict=True)},
        {"grammar": Grammar("json_schema", {"type": "array"}, "response_format")},
    ),
    (
        {"response_format": {"type": "json_object", "schema": {"type": "array"}}},
        {"grammar": Grammar("json_schema", {"type": "array"}, "response_format", strict=False)},
    ),
    (
        {"response_format": {"type": "json_schema", "schema": {"type": "array"}}},
        {"grammar": Grammar("json_schema", {"type": "array"}, "response_format", strict=False)},
    ),
    (
        {"tools": [TOOL], "tool_choice": "required", "response_format": {"type": "json_object"}},
        {"tools": (Tool("look_up"),), "must_call": True},
    ),
    ({"guided_json": {"a": 1}}, {"grammar": Grammar("json_schema", {"a": 1}, "guided_json")}),
    ({"guided_json": '{"a": 1}'}, {"grammar": Grammar("json_schema", {"a": 1}, "guided_json")}),
    ({"guided_regex": "a+"}, {"grammar": Grammar("regex", "a+", "guided_regex")}),
    ({"guided_choice": ["a", "b"]}, {"grammar": Grammar("choice", ["a", "b"], "guided_choice")}),
    ({"guided_grammar": "start: A"}, {"grammar": Grammar("lark", "start: A", "guided_grammar")}),
    (
        {"structured_outputs": {"json": "true"}},
        {"grammar": Grammar("json_schema", True, "structured_outputs.json")},
    ),
    (
        {"structured_outputs": {"json_object": True}},
        {"grammar": Grammar("json_object", None, "structured_outputs.json_object")},
    ),
    ({"structured_outputs": {"json_object": False}}, {}),
    (
        {"structured_outputs": {"choice": ["a"], "whitespace_pattern": " "}},
        {"grammar": Grammar("choice", ["a"], "structured_outputs.choice")},
    ),
    ({"reasoning": "hide"}, {"hide_reasoning": True}),
    ({"include_reasoning": False}, {"hide_reasoning": True}),
    ({"include_reasoning": True, "reasoning": {}}, {}),
    (
        {"reasoning": {"effort": "low", "max_tokens": 9, "exclude": True, "enabled": True}},
        {
            "hide_reasoning": True,
            "thinking_budget": 9,
            "template_args": {"enable_thinking": True, "reasoning_effort": "low", "thinking_budget": 9},
        },
    ),
    ({"enable_thinking": False}, {"template_args": {"enable_thinking": False}}),
    ({"reasoning_effort": "none"}, {"template_args": {"enable_thinking": False, "reasoning_effort": "none"}}),
    ({"reasoning_effort": "high"}, {"template_args": {"enable_thinking": True, "reasoning_effort": "high"}}),
    (
        {"reasoning_effort": "low", "enable_thinking": False},
        {"template_args": {"enable_thinking": False, "reasoning_effort": "low"}},
    ),
    (
        {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}},
        {"template_args": {"enable_thinking": True, "reasoning_effort": "none"}},
    ),
    (
        {"thinking_budget": 0},
        {"thinking_budget": 0, "template_args": {"thinking_budget": 0, "enable_thinking": False}},
    ),
    (
        {"thinking_budget": 9},
        {"thinking_budget": 9, "template_args": {"thinking_budget": 9, "enable_thinking": True}},
    ),
    (
        {"thinking_budget": 9, "enable_thinking": False},
        {"thinking_budget": 9, "template_args": {"thinking_budget": 9, "enable_thinking": False}},
    ),
    ({"chat_template_kwargs": {"thinking_budget": 9}}, {"template_args": {"thinking_budget": 9}}),
    ({"xtc_threshold": 0}, {"sampling": Sampling(xtc_threshold=0.0)}),
    (
        {"repetition_context_size": 0, "presence_context_size": 0, "frequency_context_size": 2**63 - 1},
        {"sampling": Sampling(repetition_context_size=0, presence_context_size=0, frequency_context_size=2**63 - 1)},
    ),
    (
        {"enable_thinking": True, "chat_template_kwargs": {"enable_thinking": True}},
        {"template_args": {"enable_thinking": True}},
    ),
]


@pytest.mark.parametrize(("fields", "expected"), FIELDS)
def test_fields(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    assert task(**fields) == Generate((HI,), **expected)


SPOKEN: dict[str, Any] = {"modalities": ["text", "audio"], "audio": {"format": "wav"}}
BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"model": None}, "model", "`model` is required, unless"),
    ({"model": ""}, "model", "non-empty string"),
    ({"model": 5}, "model", "got an integer"),
    ({"messages": None}, "messages", "must be a non-empty array of at most 8192 items, got null"),
    ({"messages": []}, "messages", "non-empty array"),
    ({"messages": [USER] * 10_000}, "messages", "at most 8192 items"),
    ({"messages": "Hi"}, "messages", "got a string"),
    ({"messages": [5]}, "messages[0]", "must be an object, got an integer"),
    ({"messages": [{"content": "Hi"}]}, "messages[0].role", "is required"),
    ({"messages": [USER, {"role": "robot"}]}, "messages[1].role", "'developer', 'function', 'system', 'tool', 'user'"),
    (
        {"messages": [{"role": "user", "content": 1}]},
        "messages[0].content",
        "a string or an array of at most 4096 items, got an integer",
    ),
    ({"messages": [{"role": "user", "content": ["Hi"]}]}, "messages[0].content[0]", "an object, got a string"),
    ({"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}, "messages[0].content[0].type", "required"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text", "required"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        "messages[0].content[0].image_url",
        "required",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "ftp://x"}]}]},
        "messages[0].content[0].image_url",
        "a data: URL or an http(s) URL",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "cat.png"}}]}]},
        "messages[0].content[0].image_url.url",
        "a data: URL or an http(s) URL",
    ),
    (
        {"messages": [{"role": "system", "content": [PICTURE]}]},
        "messages[0].content[0].type",
        "must be 'text' in a message of role 'system'",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "refusal"}]}]},
        "messages[0].content[0].type",
        "must be 'text', 'image_url', 'input_audio', 'video_url' or 'file' in a message of role 'user'",
    ),
    (
        {"messages": [{"role": "assistant", "content": [{"type": "file"}]}]},
        "messages[0].content[0].type",
        "must be 'text' or 'refusal' in a message of role 'assistant'",
    ),
    ({"messages": [{"role": "assistant", "audio": {"id": "a"}}]}, "messages[0].audio.id", "in the last hour"),
    ({"messages": [{"role": "assistant", "audio": {}}]}, "messages[0].audio.id", "required"),
    ({"messages": [{"role": "assistant", "audio": {"id": "a" * 257}}]}, "messages[0].audio.id", "256"),
    ({"messages": [{"role": "user", "audio": {"id": "a"}}]}, "messages[0].audio", "role 'assistant'"),
    ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages[0].tool_calls[0].id", "required"),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "c"}]}]},
        "messages[0].tool_calls[0].function",
        "required",
    ),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "type": "mcp"}]}]},
        "messages[0].tool_calls[0].type",
        "must be one of 'custom', 'function', got 'mcp'",
    ),
    (
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "type": "custom"}]}]},
        "messages[0].tool_calls[0].custom",
        "required",
    ),
    (
        {"messages": [{"role": "assistant", "tool_calls": [CALL | {"function": {"name": "f", "arguments": 1}}]}]},
        "messages[0].tool_calls[0].function.arguments",
        "a string or an object",
    ),
    ({"messages": [{"role": "tool", "content": "r"}]}, "messages[0].tool_call_id", "is required"),
    ({"messages": [{"role": "tool", "tool_call_id": "x", "content": "r"}]}, "messages[0].tool_call_id", "earlier"),
    ({"messages": [{"role": "function", "name": "f", "content": "r"}]}, "messages[0].name", "earlier"),
    ({"max_tokens": 0}, "max_tokens", "from 1 to 9223372036854775807, or -1 for no limit"),
    ({"max_completion_tokens": 0}, "max_completion_tokens", "from 1 to"),
    ({"max_tokens": -2}, "max_tokens", "from -1 to"),
    ({"max_tokens": "5"}, "max_tokens", "got a string"),
    ({"max_tokens": 5.5}, "max_tokens", "got a number with a fraction"),
    ({"max_tokens": 10**30}, "max_tokens", "from -1 to 9223372036854775807"),
    ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens", "give only one of them"),
    ({"temperature": 2.1}, "temperature", "a number from 0 to 2"),
    ({"temperature": -0.1}, "temperature", "a number from 0 to 2"),
    ({"temperature": "0.7"}, "temperature", "a number from 0 to 2, got a string"),
    ({"temperature": True}, "temperature", "got a boolean"),
    ({"top_p": 1.1}, "top_p", "a number from 0 to 1"),
    ({"top_k": -2}, "top_k", "an integer from -1 to"),
    ({"min_p": -1}, "min_p", "a number from 0 to 1"),
    ({"repetition_penalty": -0.1}, "repetition_penalty", "from 0 to 10"),
    ({"presence_penalty": 3}, "presence_penalty", "from -2 to 2"),
    ({"frequency_penalty": -3}, "frequency_penalty", "from -2 to 2"),
    ({"xtc_probability": 1.1}, "xtc_probability", "a number from 0 to 1"),
    ({"xtc_threshold": 0.6}, "xtc_threshold", "a number from 0 to 0.5"),
    ({"repetition_context_size": -1}, "repetition_context_size", "an integer from 0 to"),
    ({"presence_context_size": 1.5}, "presence_context_size", "an integer from 0 to"),
    ({"frequency_context_size": "all"}, "frequency_context_size", "an integer from 0 to"),
    ({"thinking_budget": -1}, "thinking_budget", "an integer from 0 to"),
    ({"thinking_budget": 5, "chat_template_kwargs": {"thinking_budget": 6}}, "thinking_budget", "contradict"),
    ({"priority": 5}, "priority", "one of 'background', 'interactive', 'normal', got an integer"),
    ({"priority": "high"}, "priority", "one of 'background', 'interactive', 'normal', got 'high'"),
    ({"logit_bias": {"the": 1}}, "logit_bias", "Each key of `logit_bias` must be an integer from 0"),
    ({"logit_bias": {"-1": 1}}, "logit_bias", "Each key"),
    ({"logit_bias": {"1.5": 1}}, "logit_bias", "Each key"),
    ({"logit_bias": {"1": 101}}, "logit_bias", "Each value of `logit_bias` must be a number from -100 to 100"),
    ({"logit_bias": [1]}, "logit_bias", "must be an object, got an array"),
    ({"seed": 2**63}, "seed", "from -9223372036854775808 to 9223372036854775807"),
    ({"seed": "x"}, "seed", "got a string"),
    ({"stop": "x" * 1025}, "stop", "a string of at most 1024 characters or an array of at most 16 items"),
    ({"stop": ["a", "x" * 1025]}, "stop[1]", "a string of at most 1024 characters"),
    ({"stop": ["a"] * 17}, "stop", "at most 16 items"),
    ({"n": 0}, "n", "from 1 to 16"),
    ({"n": 17}, "n", "from 1 to 16"),
    ({"n": 1.0}, "n", "an integer from 1 to 16"),
    ({"logprobs": 5}, "logprobs", "true or false, got an integer"),
    ({"top_logprobs": 3}, "top_logprobs", "when `logprobs` is true"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "from 0 to 20"),
    ({"stream": "true"}, "stream", "true or false"),
    ({"stream_options": {"include_usage": True}}, "stream_options", "when `stream` is true"),
    ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage", "true or false"),
    ({"tools": {}}, "tools", "an array of at most 512 items, got an object"),
    ({"tools": [{"type": "mcp"}]}, "tools[0].type", "must be one of 'custom', 'function', got 'mcp'"),
    ({"tools": [{"type": "custom"}]}, "tools[0].custom", "required"),
    ({"tools": [{"type": "custom", "custom": {}}]}, "tools[0].custom.name", "required"),
    ({"tools": [TOOL, custom("look_up")]}, "tools[1].custom.name", "must be unique"),
    ({"tools": [custom("f", {"type": "grammar"})]}, "tools[0].custom.format.grammar", "required"),
    ({"tools": [custom("f", {"type": "xml"})]}, "tools[0].custom.format.type", "'grammar', 'text'"),
    ({"tools": [{"type": "function"}]}, "tools[0].function", "required"),
    ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name", "required"),
    ({"tools": [TOOL, {"function": {"name": "a b"}}]}, "tools[1].function.name", "1 to 128"),
    ({"tools": [{"function": {"name": "a\n"}}]}, "tools[0].function.name", "letters, digits"),
    ({"tools": [{"function": {"name": "a" * 129}}]}, "tools[0].function.name", "1 to 128"),
    ({"tools": [TOOL, TOOL]}, "tools[1].function.name", "must be unique"),
    ({"tools": [{"function": {"name": "f", "parameters": []}}]}, "tools[0].function.parameters", "an object"),
    ({"tools": [{"function": {"name": "f", "parameters": {"a": 2**64}}}]}, "tools[0].function.parameters", "64 bits"),
    (
        {"tools": [TOOL, {"function": {"name": "f", "parameters": {"type": "string"}}}]},
        "tools[1].function.parameters.type",
        "must be 'object'",
    ),
    (
        {"functions": [{"name": "f", "parameters": {"type": ["array", "null"]}}]},
        "functions[0].parameters.type",
        "must be 'object'",
    ),
    ({"functions": [{"name": "f"}], "tools": [TOOL]}, "functions", "only one of them"),
    ({"tools": [TOOL] * 513}, "tools", "an array of at most 512 items"),
    ({"functions": [{"name": "f"}] * 513}, "functions", "an array of at most 512 items"),
    ({"messages": [{"role": "user", "content": [TEXT] * 4097}]}, "messages[0].content", "array of at most 4096 items"),
    ({"messages": [CALLS | {"tool_calls": [CALL] * 1025}]}, "messages[0].tool_calls", "an array of at most 1024 items"),
    ({"messages": [CALLS | {"tool_calls": [CALL] * 1000}] * 33}, "messages", "at most 32768 are allowed"),
    ({"messages": [{"role": "user", "content": [TEXT] * 4096}] * 9}, "messages", "at most 32768 are allowed"),
    ({"functions": [{"name": ""}]}, "functions[0].name", "1 to 128"),
    ({"tool_choice": "required"}, "tool_choice", "when tools are given"),
    ({"tools": [], "tool_choice": "required"}, "tool_choice", "when tools are given"),
    ({"tools": [TOOL], "tool_choice": "any"}, "tool_choice", "'auto', 'none', 'required' or an object, got 'any'"),
    ({"tools": [TOOL], "tool_choice": {"function": {"name": "x"}}}, "tool_choice", "not among the given tools"),
    ({"tools": [TOOL], "tool_choice": {"type": "function"}}, "tool_choice.function", "required"),
    ({"tools": [TOOL], "tool_choice": {"type": "custom"}}, "tool_choice.custom", "required"),
    ({"tools": [TOOL], "tool_choice": {"type": "mcp"}}, "tool_choice.type", "'allowed_tools', 'custom', 'function'"),
    ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools"}}, "tool_choice.allowed_tools", "required"),
    ({"tools": [TOOL], "tool_choice": allowed("x")}, "tool_choice.allowed_tools.tools", "not among the given tools"),
    ({"tools": [TOOL], "tool_choice": allowed()}, "tool_choice.allowed_tools.tools", "non-empty array"),
    ({"tools": [TOOL], "tool_choice": allowed("look_up", mode="any")}, "tool_choice.allowed_tools.mode", "'required'"),
    ({"tools": [TOOL], "function_call": {"name": "look_up"}}, "function_call", "when tools are given"),
    ({"functions": [{"name": "f"}], "function_call": {"name": "g"}}, "function_call", "not among the given tools"),
    ({"parallel_tool_calls": "no"}, "parallel_tool_calls", "true or false"),
    ({"reasoning_effort": "huge"}, "reasoning_effort", "'minimal', 'none', 'xhigh', got 'huge'"),
    ({"enable_thinking": "yes"}, "enable_thinking", "true or false"),
    ({"chat_template_kwargs": []}, "chat_template_kwargs", "an object"),
    ({"chat_template_kwargs": {"x": -(2**70)}}, "chat_template_kwargs", "64 bits"),
    ({"enable_thinking": True, "chat_template_kwargs": {"enable_thinking": False}}, "enable_thinking", "contradict"),
    ({"response_format": {"type": "yaml"}}, "response_format.type", "'json_object', 'json_schema', 'text', got 'yaml'"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "required"),
    ({"response_format": {"type": "json_object", "schema": []}}, "response_format.schema", "an object"),
    (
        {"response_format": {"type": "json_object", "schema": {"a": 2**64}}},
        "response_format.schema",
        "64 bits",
    ),
    ({"response_format": schema_format(schema={}) | {"schema": {"a": 1}}}, "response_format.schema", "give only one"),
    ({"response_format": schema_format(schema=[])}, "response_format.json_schema.schema", "an object"),
    ({"response_format": schema_format(schema={"a": 2**64})}, "response_format.json_schema.schema", "64 bits"),
    ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_choice", "`guided_regex` both set the form"),
    (
        {"response_format": {"type": "json_object"}, "structured_outputs": {"regex": "a"}},
        "structured_outputs.regex",
        "and `response_format` both set the form of the answer",
    ),
    ({"guided_json": "{"}, "guided_json", "a JSON schema, or one as JSON text"),
    ({"guided_json": "5"}, "guided_json", "a JSON schema, or one as JSON text"),
    ({"guided_json": 5}, "guided_json", "an object or a non-empty string"),
    ({"guided_regex": ""}, "guided_regex", "a non-empty string"),
    ({"guided_choice": []}, "guided_choice", "a non-empty array"),
    ({"structured_outputs": {"structural_tag": "{}"}}, "structured_outputs.structural_tag", "not supported"),
    ({"reasoning": "show"}, "reasoning", "must be 'hide' or an object"),
    ({"reasoning": {"effort": "huge"}}, "reasoning.effort", "got 'huge'"),
    ({"reasoning": {"effort": "low"}, "reasoning_effort": "high"}, "reasoning.effort", "give only one of them"),
    ({"reasoning": {"max_tokens": 5}, "thinking_budget": 6}, "reasoning.max_tokens", "give only one of them"),
    ({"reasoning": {"enabled": True}, "enable_thinking": False}, "reasoning.enabled", "give only one of them"),
    ({"continue_final_message": True}, "continue_final_message", "the last message is the assistant's"),
    ({"messages": [USER | {"prefix": True}]}, "messages[0].prefix", "the last message is the assistant's"),
    (
        {"messages": [USER, {"role": "assistant", "prefix": True, "tool_calls": [CALL]}]},
        "messages[1].prefix",
        "a call can't be continued",
    ),
    (
        {"messages": [USER, {"role": "assistant", "prefix": True, "function_call": CALL["function"]}]},
        "messages[1].prefix",
        "a call can't be continued",
    ),
    ({"add_generation_prompt": False}, "add_generation_prompt", "when `continue_final_message` is true"),
    (
        {"messages": [USER, SAID], "add_generation_prompt": True, "continue_final_message": True},
        "add_generation_prompt",
        "can't both be true",
    ),
    ({"response_format": "text"}, "response_format", "an object"),
    ({"modalities": ["audio"]}, "modalities", "must be ['text'] or ['text', 'audio']"),
    ({"modalities": []}, "modalities", "must be ['text'] or ['text', 'audio']"),
    ({"modalities": ["text", "audio"]}, "audio", "required"),
    ({**SPOKEN, "audio": {"voice": "ryan"}}, "audio.format", "required"),
    ({**SPOKEN, "audio": {"format": "pcm"}}, "audio.format", "'pcm16'"),
    ({**SPOKEN, "audio": {"format": "wav", "voice": ""}}, "audio.voice", "non-empty"),
    ({**SPOKEN, "stream": True}, "audio.format", "'pcm16' when `stream` is true"),
    ({**SPOKEN, "n": 2}, "n", "must be 1"),
    ({**SPOKEN, "store": True}, "store", "is not stored"),
    ({**SPOKEN, "response_format": {"type": "json_object"}}, "response_format", "can't ask for JSON"),
    ({**SPOKEN, "guided_json": {}}, "guided_json", "can't ask for JSON"),
    ({"modalities": ["video"]}, "modalities[0]", "one of 'audio', 'text'"),
    ({"audio": {"format": "wav"}}, "audio", "when `modalities` is ['text', 'audio']"),
    ({"moderation": {"model": "m"}}, "moderation", "no moderation"),
    ({"web_search_options": {}}, "web_search_options", "does not search the web"),
]


@pytest.mark.parametrize(("fields", "param", "words"), BAD)
def test_bad_fields_are_named(fields: dict[str, Any], param: str, words: str) -> None:
    error = refused(**fields)
    assert error.param == param
    assert words in error.message
    assert param.split("[", maxsplit=1)[0] in error.message


@pytest.mark.parametrize(
    ("last", "fields", "expected"),
    [
        (SAID, {}, False),
        (SAID | {"prefix": False}, {}, False),
        (SAID | {"prefix": True}, {}, True),
        (SAID, {"continue_final_message": True}, True),
        (SAID, {"continue_final_message": True, "add_generation_prompt": False}, True),
        (SAID, {"add_generation_prompt": True}, False),
    ],
)
def test_an_answer_may_go_on_with_the_last_message(
    last: dict[str, Any], fields: dict[str, Any], expected: bool
) -> None:
    assert task(messages=[USER, last], **fields).continue_last is expected


def test_a_message_that_was_continued_once_is_like_any_other() -> None:
    assert task(messages=[SAID | {"prefix": True}, USER]) == task(messages=[SAID, USER])


def test_a_deployment_names_the_model() -> None:
    body: dict[str, Any] = {"messages": [USER]}
    for given in ({}, {"model": "other"}, {"model": 5}):
        call = parse(json.dumps(body | given).encode(), "request-1", model="demo")
        assert call == read()


def with_header(header: str, **fields: Any) -> str:
    body = json.dumps({"model": "demo", "messages": [USER], **fields}).encode()
    return parse(body, "request-1", header).request.priority


def test_the_header_gives_the_priority_where_the_body_does_not() -> None:
    assert read().request.priority == "normal"
    assert with_header("interactive") == "interactive"
    assert with_header("background", priority="interactive") == "interactive"
    assert with_header("5", priority="normal") == "normal"
    for wrong in ("5", "", "high"):
        with pytest.raises(OrchardError, match="`X-Priority` must be one of 'interactive', 'normal', 'b") as caught:
            with_header(wrong)
        assert (caught.value.kind, caught.value.param) == ("invalid_request", "X-Priority")


def test_a_long_wrong_value_is_not_repeated() -> None:
    assert len(refused(messages=[{"role": "x" * 100_000}]).message) < 200


@pytest.mark.parametrize("missing", ["model", "messages"])
def test_required_fields(missing: str) -> None:
    body = {"model": "demo", "messages": [USER]}
    del body[missing]
    with pytest.raises(OrchardError, match=f"`{missing}` is required") as caught:
        parse(json.dumps(body).encode(), "r")
    assert caught.value.param == missing


def deep(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


FREE_FORM = {
    "tools[0].function.parameters": '"tools": [{"function": {"name": "f", "parameters": %s}}]',
    "chat_template_kwargs": '"chat_template_kwargs": %s',
    "messages[0].tool_calls[0].function.arguments": (
        '"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": %s}}]}]'
    ),
}


@pytest.mark.parametrize("param", FREE_FORM)
@pytest.mark.timeout(20)
def test_free_form_values_have_a_depth_limit(param: str) -> None:
    def body(depth: int) -> bytes:
        field = FREE_FORM[param] % deep(depth)
        return ('{"model": "m", "messages": [{"role": "user", "content": ""}], ' + field + "}").encode()

    request = parse(body(64), "r").request
    assert crossed(request) == request
    for depth in (65, 200, 500):
        with pytest.raises(OrchardError, match="nested too deeply") as caught:
            parse(body(depth), "r")
        assert caught.value.param == param
    with pytest.raises(OrchardError, match="nested too deeply"):
        parse(body(100_000), "r")


@pytest.mark.parametrize(("param", "limit"), [*zip(FREE_FORM, (262_144, 262_144, 1_048_576), strict=True)])
def test_free_form_values_have_a_length_limit(param: str, limit: int) -> None:
    def body(size: int) -> bytes:
        field = FREE_FORM[param] % ('{ "a":  "' + "x" * (size - len('{"a":""}')) + '"}')
        return ('{"model": "m", "messages": [{"role": "user", "content": ""}], ' + field + "}").encode()

    parse(body(limit), "r")
    with pytest.raises(OrchardError, match=f"at most {limit} are allowed") as caught:
        parse(body(limit + 1), "r")
    assert caught.value.param == param
    assert f"`{param}`" in caught.value.message


def test_arguments_given_as_text_have_a_length_limit() -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": "é" * (512 * 1024)}}
    assert task(messages=[{"role": "assistant", "tool_calls": [call]}])
    call["function"] = {"name": "f", "arguments": "é" * (512 * 1024) + "x"}
    error = refused(messages=[{"role": "assistant", "tool_calls": [call]}])
    assert error.param == "messages[0].tool_calls[0].function.arguments"
    assert "it has 1048577 bytes of JSON; at most 1048576" in error.message


def test_all_free_form_values_together_have_a_length_limit() -> None:
    def tools(count: int) -> list[Any]:
        parameters = {"a": "x" * (256 * 1024 - 8)}
        return [{"function": {"name": f"f{n}", "parameters": parameters}} for n in range(count)]

    assert len(task(tools=tools(31), chat_template_kwargs={"a": 1}).tools) == 31
    assert refused(tools=tools(32), chat_template_kwargs={"a": 1}).param == "chat_template_kwargs"
    error = refused(tools=tools(33))
    assert error.param == "tools[32].function.parameters"
    assert "8388608 bytes of JSON in all" in error.message


def test_ollamas_images_are_images() -> None:
    message = {"role": "user", "content": "What is it?", "images": ["AA==", "data:image/png;base64,AA=="]}
    urls = ("data:;base64,AA==", "data:image/png;base64,AA==")
    images = [picture(url, f"messages[0].images[{i}]", MediaOptions()) for i, url in enumerate(urls)]
    body = {"model": "m", "messages": [message]}
    (read,) = generate_task(parse(json.dumps(body).encode(), "req_1").request).messages
    assert read == Message("user", (*images, TextPart("What is it?")))


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({**SAID, "images": ["AA=="]}, "messages[0].images"),
        ({"role": "system", "content": "Hi", "images": ["AA=="]}, "messages[0].images"),
        ({**USER, "images": [""]}, "messages[0].images[0]"),
        ({**USER, "images": "AA=="}, "messages[0].images"),
    ],
)
def test_images_that_can_not_be_read_are_refused(message: dict[str, Any], param: str) -> None:
    with pytest.raises(OrchardError) as refused:
        parse(json.dumps({"model": "m", "messages": [message]}).encode(), "req_1")
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("fields", "audio"),
    [
        ({}, None),
        ({"modalities": ["text"]}, None),
        (SPOKEN, ChatAudio("audio_request", None, "wav")),
        (
            {**SPOKEN, "modalities": ["audio", "text"], "audio": {"format": "mp3", "voice": "ryan"}, "n": 1},
            ChatAudio("audio_request", "ryan", "mp3"),
        ),
        (
            {**SPOKEN, "audio": {"format": "pcm16", "voice": {"id": "alloy"}}, "stream": True, "guided_regex": "a+"},
            ChatAudio("audio_request", "alloy", "pcm"),
        ),
    ],
)
def test_how_an_answer_is_spoken(fields: dict[str, Any], audio: ChatAudio | None) -> None:
    body = {"model": "m", "messages": [USER], **fields}
    assert parse(json.dumps(body).encode(), "request").audio == audio


def test_spoken_answers_are_read_as_their_transcripts_and_each_once() -> None:
    said = {"a": "Six.", "b": "Seven."}.get
    whole = {"role": "assistant", "content": None, "audio": {"id": "a", "data": "AAAA", "transcript": "Nine."}}
    more = {"role": "assistant", "content": "So:", "audio": {"id": "b"}}

    def read_messages(*messages: Any) -> tuple[Message, ...]:
        body = {"model": "m", "messages": messages}
        return generate_task(parse(json.dumps(body).encode(), "request", find_transcript=said).request).messages

    found = read_messages(USER, whole, more)
    assert found[1:] == (
        Message("assistant", (TextPart("Six."),)),
        Message("assistant", (TextPart("So:"), TextPart("Seven."))),
    )
    for again in ({"role": "assistant", "audio": {"id": "a"}}, {"role": "assistant", "audio": {"id": "c"}}):
        with pytest.raises(OrchardError) as refused_again:
            read_messages(whole, again)
        assert refused_again.value.param == "messages[1].audio.id"
