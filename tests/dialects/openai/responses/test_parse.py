"""What a Responses body asks for."""

import base64
import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.core.errors import OrchardError
from orchard.core.media import MediaOptions, MediaPart
from orchard.core.request import Adapter, Request
from orchard.core.tasks.generate import (
    Generate,
    Grammar,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    count_droppable_messages,
    drop_oldest,
    generate_task,
)
from orchard.dialects.openai.responses.call import ResponseCall
from orchard.dialects.openai.responses.parse import parse as read
from orchard.dialects.openai.responses.schema import BODY
from tests.support.crossing import crossed
from tests.support.examples import examples
from tests.support.mutation import places

FUNCTION = {"type": "function", "name": "look_up", "description": "Looks up.", "parameters": {"type": "object"}}
CALL = {"type": "function_call", "call_id": "call_1", "name": "look_up", "arguments": '{"a": 1}', "id": "fc_1"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "found"}
IMAGES = {"type": "image_generation", "output_format": "png"}
BREAKPOINT = {"prompt_cache_breakpoint": {"mode": "explicit"}}


def make_call(past: list[Any] | None = None, referenced: dict[str, Any] | None = None, **fields: Any) -> ResponseCall:
    body = {"model": "demo", "input": "Hi", **fields}
    return read(json.dumps(body).encode()).make_call(
        "req_1",
        None,
        [json.dumps(item).encode() for item in past or ()],
        {id_: json.dumps(item).encode() for id_, item in (referenced or {}).items()},
    )


def task(past: list[Any] | None = None, referenced: dict[str, Any] | None = None, **fields: Any) -> Generate:
    return generate_task(make_call(past, referenced, **fields).request)


def messages(items: Any, **fields: Any) -> tuple[Message, ...]:
    return task(input=items, **fields).messages


def said(role: Any, *texts: str) -> Message:
    return Message(role, tuple(TextPart(text) for text in texts))


def refused(**fields: Any) -> OrchardError:
    with pytest.raises(OrchardError) as caught:
        make_call(**fields)
    assert caught.value.kind == "invalid_request"
    return caught.value


def test_a_text() -> None:
    assert messages("Hi") == (said("user", "Hi"),)
    assert messages("Hi", instructions="Be brief.") == (said("system", "Be brief."), said("user", "Hi"))


def test_messages() -> None:
    items = [
        {"role": "system", "content": "One."},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Two."}]},
        {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [
                {"type": "output_text", "text": "c", "annotations": [], "logprobs": []},
                {"type": "refusal", "refusal": "d"},
            ],
        },
        {"role": "user", "content": None},
    ]
    assert messages(items) == (
        said("system", "One."),
        said("system", "Two."),
        said("user", "a", "b"),
        said("assistant", "c", "d"),
        said("user"),
    )


def test_what_an_assistant_did_in_one_turn_is_one_message() -> None:
    thought = {"type": "reasoning_text", "text": "Hm."}
    parts = [{"type": "input_text", "text": "x"}, {"type": "input_text", "text": "y"}]
    items = [
        {"role": "user", "content": "Hi"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [thought]},
        {"role": "assistant", "content": "Let me see."},
        CALL,
        {**CALL, "call_id": "call_2"},
        OUTPUT,
        {
            **OUTPUT,
            "call_id": "call_2",
            "output": parts,
        },
        {"role": "assistant", "content": "It is this."},
        {"role": "assistant", "content": "No, that."},
    ]
    assert messages(items) == (
        said("user", "Hi"),
        Message(
            "assistant",
            (
                ReasoningPart("Hm."),
                TextPart("Let me see."),
                ToolCallPart("call_1", "look_up", '{"a": 1}'),
                ToolCallPart("call_2", "look_up", '{"a": 1}'),
            ),
        ),
        Message("tool", (ToolResultPart("call_1", (TextPart("found"),)),)),
        Message("tool", (ToolResultPart("call_2", (TextPart("x"), TextPart("y"))),)),
        said("assistant", "It is this."),
        said("assistant", "No, that."),
    )


def test_words_behind_a_call_belong_to_its_turn() -> None:
    items = [{"role": "assistant", "content": "Let me see."}, CALL, {"role": "assistant", "content": "Wait."}, OUTPUT]
    call = ToolCallPart("call_1", "look_up", '{"a": 1}')
    assert messages(items)[0] == Message("assistant", (TextPart("Let me see."), call, TextPart("Wait.")))


PLACE = "input[0].content"


def test_pictures_and_files() -> None:
    text = base64.b64encode("naïve".encode()).decode()
    content = [
        {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"},
        {"type": "image_url", "image_url": {"url": "https://x.y/z.png"}},
        {"type": "text", "text": "a"},
        {"type": "input_file", "filename": "a.txt", "file_data": f"data:text/plain;base64,{text}"},
        {"type": "input_file", "file_data": text},
    ]
    (message,) = messages([{"role": "user", "content": content}])
    assert message.parts == (
        MediaPart("image", "data:image/png;base64,AA==", f"{PLACE}[0].image_url", options=MediaOptions(detail="low")),
        MediaPart("image", "https://x.y/z.png", f"{PLACE}[1].image_url"),
        TextPart("a"),
        MediaPart("document", f"data:text/plain;base64,{text}", f"{PLACE}[3].file_data", name="a.txt"),
        MediaPart("document", f"data:;base64,{text}", f"{PLACE}[4].file_data"),
    )


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ({"type": "input_image", "file_id": "file_1"}, "keeps no files"),
        ({"type": "input_image", "file_id": "file_1", "image_url": "https://x.y/z.png"}, "keeps no files"),
        ({"type": "input_file", "file_id": "file_1", "file_data": "QQ=="}, "keeps no files"),
        ({"type": "input_file", "file_url": "https://x.y/z.txt", "file_data": "QQ=="}, "`file_data`"),
        ({"type": "input_image", "image_url": "ftp://x"}, "http"),
        ({"type": "input_file", "file_id": "file_1"}, "keeps no files"),
        ({"type": "input_file", "file_url": "ftp://x"}, "http"),
        ({"type": "input_audio"}, "required"),
        ({"type": "sculpture"}, "input_audio"),
        ({"type": "input_text"}, "required"),
        ({"text": "a"}, "input_text"),
    ],
)
def test_parts_that_cannot_be_read(part: dict[str, Any], reason: str) -> None:
    error = refused(input=[{"role": "user", "content": [part]}])
    assert error.param
    assert error.param.startswith("input[0].content[0]")
    assert reason in error.message


def test_custom_calls() -> None:
    tool = {"type": "custom", "name": "patch"}
    items = [
        {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": 'a"b'},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
    ]
    call, result = messages(items, tools=[tool])
    assert call.parts == (ToolCallPart("c", "patch", '{"input":"a\\"b"}'),)
    assert result.parts == (ToolResultPart("c", (TextPart("done"),)),)


@pytest.mark.parametrize("field", [{"previous_response_id": "resp_1"}, {"conversation": "conv_1"}])
def test_a_stored_picture_is_named_by_the_field_that_brings_it(field: dict[str, Any]) -> None:
    past = [{"role": "user", "content": [{"type": "input_image", "image_url": "https://x/a.png"}]}]
    (picture,) = task(past, input="What is this?", **field).messages[0].parts
    assert picture == MediaPart("image", "https://x/a.png", f"{next(iter(field))}.items[0].content[0].image_url")


CLICK = {"type": "computer_call", "id": "cu_1", "call_id": "c", "action": {"type": "click", "x": 1, "y": 2}}


def screenshot(**fields: Any) -> dict[str, Any]:
    return {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", **fields}}


@pytest.mark.parametrize("type_", ["computer_screenshot", "input_image"])
def test_what_a_computer_shows_is_a_picture(type_: str) -> None:
    shown = screenshot(image_url="https://x/a.png", detail="low", type=type_)
    call, result = messages([CLICK, shown])
    assert call == Message("assistant", (ToolCallPart("c", "computer", '{"action":{"type":"click","x":1,"y":2}}'),))
    picture = MediaPart("image", "https://x/a.png", "input[1].output.image_url", options=MediaOptions(detail="low"))
    assert result == Message("tool", (ToolResultPart("c", (picture,)),))
    several = CLICK | {"action": None, "actions": [{"type": "wait"}, {"type": "screenshot"}]}
    (part,) = messages([several, shown])[0].parts
    assert part == ToolCallPart("c", "computer", '{"actions":[{"type":"wait"},{"type":"screenshot"}]}')


@pytest.mark.parametrize(
    ("item", "param", "words"),
    [
        (screenshot(), "input[1].output.image_url", "is required."),
        (screenshot(file_id="f"), "input[1].output.image_url", "this server keeps no files"),
        (screenshot(file_id="f", image_url="data:,"), "input[1].output.file_id", "this server keeps no files"),
        (screenshot(image_url="a.png"), "input[1].output.image_url", "must be a data: URL"),
        (screenshot(type="input_file"), "input[1].output.type", "'computer_screenshot'"),
        (screenshot(image_url="data:,") | {"call_id": "d"}, "input[1].call_id", "there is no call 'd'"),
        (screenshot() | {"output": "data:,"}, "input[1].output", "an object with a screenshot"),
        (screenshot() | {"output": None}, "input[1].output", "an object with a screenshot"),
        (OUTPUT | {"call_id": "c", "output": {"type": "input_text"}}, "input[1].output", "a string or an array"),
    ],
)
def test_what_is_no_screenshot_is_refused(item: dict[str, Any], param: str, words: str) -> None:
    error = refused(input=[CLICK, item])
    assert error.param == param
    assert words in error.message


@pytest.mark.parametrize(
    "item",
    [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
        {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "", "stderr": "", "outcome": {}}]},
        {"type": "local_shell_call", "id": "x", "call_id": "c", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "mcp_list_tools", "id": "x", "server_label": "s", "tools": [{"name": "a", "input_schema": {}}]},
        {"type": "tool_search_call", "arguments": {"q": 1}},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "of another server"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "orchard-reasoning-1:%%"},
    ],
)
def test_items_of_tools_that_are_not_here_are_passed_over(item: dict[str, Any]) -> None:
    assert messages([{"role": "user", "content": "Hi"}, item]) == (said("user", "Hi"),)


def test_a_summary_stands_in_for_a_reasoning() -> None:
    item = {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
    }
    assert messages([item, {"role": "user", "content": "Hi"}])[0].parts == (ReasoningPart("a\n\nb"),)


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"type": "nonsense"}, "input[0].type"),
        ({"content": "Hi"}, "input[0].type"),
        ({"role": "boss", "content": "Hi"}, "input[0].role"),
        ({"type": "message", "content": "Hi"}, "input[0].role"),
        ({"role": "user", "content": 5}, "input[0].content"),
        ({**CALL, "call_id": None}, "input[0].call_id"),
        ({**CALL, "name": ""}, "input[0].name"),
        (OUTPUT, "input[0].call_id"),
        ({"type": "item_reference"}, "input[0].id"),
    ],
)
def test_items_that_cannot_be_read(item: dict[str, Any], param: str) -> None:
    assert refused(input=[item]).param == param


@pytest.mark.parametrize("fields", [{"input": None}, {"input": []}])
def test_something_must_be_said(fields: dict[str, Any]) -> None:
    assert refused(**fields).param == "input"
    assert generate_task(make_call(**fields, instructions="Go.").request).messages == (said("system", "Go."),)


def test_what_came_before() -> None:
    past = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}, OUTPUT]
    found = task(past, input="Bye", instructions="Be brief.", previous_response_id="resp_1").messages
    # A result whose call was deleted is no longer a part of it.
    assert found == (said("system", "Be brief."), said("user", "Hi"), said("assistant", "Hello"), said("user", "Bye"))


def test_references() -> None:
    stored = {"id": "fc_1", **CALL}
    items = [{"type": "item_reference", "id": "fc_1"}, {"id": "msg_1"}, OUTPUT]
    draft = read(json.dumps({"model": "m", "input": items}).encode())
    assert draft.references == ["fc_1", "msg_1"]
    call = make_call([{"id": "msg_1", "role": "user", "content": "Hi"}], {"fc_1": stored}, input=items)
    assert generate_task(call.request).messages == (
        said("user", "Hi"),
        Message("assistant", (ToolCallPart("call_1", "look_up", '{"a": 1}'),)),
        Message("tool", (ToolResultPart("call_1", (TextPart("found"),)),)),
    )
    assert [item["type"] for item in call.input] == ["function_call", "function_call_output"]


def test_a_reference_to_what_is_not_there() -> None:
    past = [{"id": "msg_1", "role": "user", "content": "Hi"}]
    with pytest.raises(OrchardError, match="msg_2") as refused:
        make_call(past, {"msg_3": past[0]}, input=[{"type": "item_reference", "id": "msg_2"}])
    assert (refused.value.kind, refused.value.param) == ("item_not_found", "input")


def test_an_id_stands_once_in_a_conversation() -> None:
    past = [{"id": "x", "role": "user", "content": "Hi"}]
    items = [{"id": "x", "role": "user", "content": "a"}, {"id": "y", "role": "user", "content": "b"}]
    call = make_call(past, input=items, previous_response_id="resp_1")
    assert [item["id"] for item in call.input] == ["msg_1i00", "y"]


def test_fields_that_change_nothing_here() -> None:
    text = {"type": "input_text", "text": "Hi"}
    picture = {"type": "input_image", "image_url": "data:,"}
    plain: list[dict[str, Any]] = [{"role": "user", "content": [text, picture]}, CALL, OUTPUT]
    caller = {"caller": {"type": "program", "caller_id": "x"}}
    full = [
        {**plain[0], "phase": "commentary", "content": [text | BREAKPOINT, picture | BREAKPOINT]},
        CALL | caller | {"async": True},
        OUTPUT | caller | {"name": "look_up", "namespace": "n"},
    ]
    tool = FUNCTION | {"defer_loading": True, "allowed_callers": ["programmatic"], "output_schema": {"type": "object"}}
    cached = {"mode": "explicit", "ttl": "12h", "comparison_response_id": "resp_1", "prewarm": False}
    found = task(input=full, tools=[tool | {"async": True}], personality="friendly", prompt_cache_options=cached)
    assert found == task(input=plain, tools=[FUNCTION])


def test_tools() -> None:
    tools = [
        FUNCTION,
        {"type": "namespace", "name": "mail", "description": "Mail.", "tools": [{**FUNCTION, "name": "send"}]},
        {"type": "web_search", "filters": {}},
        {"type": "mcp", "server_label": "s", "server_url": "http://x"},
        {"type": "local_shell"},
        {"type": "custom", "name": "run", "format": {"type": "grammar", "syntax": "regex", "definition": "a+"}},
    ]
    added = {"type": "additional_tools", "role": "developer", "tools": [{**FUNCTION, "name": "late", "strict": True}]}
    found = task(tools=tools, input=[added, {"role": "user", "content": "Hi"}], parallel_tool_calls=False)
    assert [(tool.name, tool.strict) for tool in found.tools] == [
        ("look_up", False),
        ("send", False),
        ("run", True),
        ("late", True),
    ]
    assert found.parallel_tool_calls is False
    assert make_call(tools=tools).unserved_tools == ("web_search", "mcp", "local_shell")
    custom = found.tools[2]
    assert custom.parameters
    assert custom.parameters["properties"] == {"input": {"type": "string", "pattern": "^(?:a+)$"}}
    assert "a+" in (custom.description or "")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [IMAGES]}, "tools[0].type"),
        ({"input": [{"type": "additional_tools", "tools": [IMAGES]}]}, "input[0].tools[0].type"),
        ({"tools": [FUNCTION, IMAGES], "tool_choice": {"type": "image_generation"}}, "tool_choice.type"),
    ],
)
def test_who_wants_nothing_but_images_learns_where_they_are_made(fields: dict[str, Any], param: str) -> None:
    error = refused(**fields)
    assert error.param == param
    assert "'image_generation' can't be served" in error.message
    assert "/v1/images/generations" in error.message


def test_images_beside_other_tools_are_left_out() -> None:
    assert task(tools=[IMAGES, FUNCTION]) == task(tools=[FUNCTION])


def test_the_namespace_tells_tools_of_one_name_apart() -> None:
    tools = [
        {"type": "namespace", "name": name, "tools": [{**FUNCTION, "name": tool} for tool in ("send", name)]}
        for name in ("mail", "post")
    ]
    names = [tool.name for tool in task(tools=tools).tools]
    assert names == ["mail__send", "mail", "post__send", "post"]


def test_the_grammar_of_a_custom_tool_is_kept() -> None:
    form = {"type": "grammar", "syntax": "lark", "definition": "start: /a/"}
    (tool,) = task(tools=[{"type": "custom", "name": "run", "format": form}]).tools
    assert (tool.name, tool.strict, tool.input_grammar) == ("run", True, "start: /a/")
    assert "start: /a/" in (tool.description or "")


TWO = [FUNCTION, {**FUNCTION, "name": "other"}, {"type": "custom", "name": "run"}, {"type": "web_search"}]


@pytest.mark.parametrize(
    ("choice", "names", "must"),
    [
        (None, ["look_up", "other", "run"], False),
        ("auto", ["look_up", "other", "run"], False),
        ("none", [], False),
        ("required", ["look_up", "other", "run"], True),
        ({"type": "function", "name": "other"}, ["other"], True),
        ({"type": "custom", "name": "run"}, ["run"], True),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [
                    {"type": "function", "name": "look_up"},
                    {"type": "web_search"},
                    {"type": "custom", "name": "run"},
                ],
            },
            ["look_up", "run"],
            True,
        ),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]}, [], False),
    ],
)
def test_tool_choice(choice: Any, names: list[str], must: bool) -> None:
    found = task(tools=TWO, tool_choice=choice)
    assert ([tool.name for tool in found.tools], found.must_call) == (names, must)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [{"type": "function", "function": {"name": "nested"}}]}, "tools[0].name"),
        ({"tools": [{"type": "function", "name": "a b"}]}, "tools[0].name"),
        ({"tools": [FUNCTION, FUNCTION]}, "tools[1].name"),
        ({"tools": [{**FUNCTION, "parameters": {"type": "array"}}]}, "tools[0].parameters.type"),
        ({"tools": [{"type": "nonsense"}]}, "tools[0].type"),
        ({"tools": [{"type": "custom", "name": "a", "format": {"type": "grammar"}}]}, "tools[0].format"),
        ({"tools": [FUNCTION], "tool_choice": {"type": "function", "name": "other"}}, "tool_choice.name"),
        ({"tools": TWO, "tool_choice": {"type": "web_search_preview"}}, "tool_choice.type"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [{"type": "web_search"}], "tool_choice": "required"}, "tool_choice"),
        (
            {"tools": TWO, "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [{"type": "mcp"}]}},
            "tool_choice",
        ),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format.schema"),
        ({"text": {"format": {"type": "yaml"}}}, "text.format.type"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"truncation": "middle"}, "truncation"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"metadata": {"a" * 65: "b"}}, "metadata"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"moderation": {"model": "m"}}, "moderation"),
        ({"background": True, "store": False}, "store"),
        ({"previous_response_id": "resp_1", "conversation": "conv_1"}, "previous_response_id"),
        ({"model": None}, "model"),
        ({"reasoning": {"effort": "much"}}, "reasoning.effort"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"prompt_cache_options": {"prewarm": "yes"}}, "prompt_cache_options.prewarm"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], param: str) -> None:
    assert refused(**fields).param == param


def test_a_number_out_of_range_where_nobody_reads_it() -> None:
    with pytest.raises(OrchardError) as caught:
        read(b'{"model": "demo", "input": [{"role": "user", "content": "Hi", "more": 1e999}]}')
    assert (caught.value.kind, caught.value.param) == ("invalid_request", "input[0]")


def test_the_form_of_the_answer() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    form = {"format": {"type": "json_schema", "name": "a", "schema": schema, "strict": True}}
    assert task(text=form).grammar == Grammar("json_schema", schema, "text.format")
    assert task(text={"format": {"type": "json_object"}}).grammar == Grammar("json_object", None, "text.format")
    assert task(text={"format": {"type": "text"}}).grammar is None
    assert task(guided_regex="a+").grammar == Grammar("regex", "a+", "guided_regex")
    assert task(text=form, tools=[FUNCTION], tool_choice="required").grammar is None


def test_how_it_is_drawn() -> None:
    found = task(
        max_output_tokens=5, temperature=0.5, top_k=3, stop="x", top_logprobs=2, seed=1, reasoning={"effort": "none"}
    )
    assert (found.max_tokens, found.sampling.temperature, found.sampling.top_k, found.sampling.seed) == (5, 0.5, 3, 1)
    assert (found.stop, found.top_logprobs) == (("x",), 2)
    assert found.template_args == {"reasoning_effort": "none", "enable_thinking": False}
    assert task().top_logprobs is None
    assert task(include=["message.output_text.logprobs"]).top_logprobs == 0


def test_the_conversation_may_be_named_in_two_ways() -> None:
    for value in ("conv_1", {"id": "conv_1"}):
        assert read(json.dumps({"model": "m", "conversation": value}).encode()).body.conversation_id == "conv_1"


def test_an_address_may_name_the_model() -> None:
    assert read(b'{"input": "Hi"}', "mine").make_call("req_1").request.model == "mine"


def test_how_a_request_is_served() -> None:
    about = {"adapters": "poet", "ttl": 5, "priority": "background", "context_overflow": "summarize"}
    draft = read(json.dumps({"model": "m", "input": "Hi", **about}).encode())
    task = Generate((said("user", "Hi"),))
    request = Request("req_1", "m", task, "background", Adapter("poet"), 5, "summarize")
    assert draft.make_call("req_1").request == request


def test_a_prompt_that_is_only_to_be_cached() -> None:
    call = make_call(prompt_cache_options={"mode": "implicit", "prewarm": True}, max_output_tokens=50)
    assert (generate_task(call.request).max_tokens, call.body.warms_up) == (1, True)
    assert not make_call(prompt_cache_options={"mode": "implicit"}).body.warms_up


def test_unknown_fields_and_nulls_are_no_matter() -> None:
    fields = dict.fromkeys(BODY.schema()["properties"])
    assert task(**fields | {"model": "demo", "input": "Hi", "unheard": {"of": 1}}) == task()


def test_dropping_the_oldest() -> None:
    items = [
        {"role": "user", "content": "one"},
        CALL,
        OUTPUT,
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "three"},
    ]
    call = make_call(input=items, instructions="Be brief.", truncation="auto")
    task = generate_task(call.request)
    assert count_droppable_messages(task) == 4
    assert call.may_drop
    assert not make_call(input=items).may_drop

    def left(count: int) -> list[str]:
        texts = [part for message in drop_oldest(task, count).messages for part in message.parts]
        return [part.text if isinstance(part, TextPart) else type(part).__name__ for part in texts]

    assert left(0) == ["Be brief.", "one", "ToolCallPart", "ToolResultPart", "two", "three"]
    assert left(1) == ["Be brief.", "ToolCallPart", "ToolResultPart", "two", "three"]
    assert left(2) == ["Be brief.", "two", "three"]  # no result without its call
    assert left(4) == ["Be brief.", "three"]


def test_results_at_the_end_are_not_dropped_with_their_call() -> None:
    items = [{"role": "user", "content": "one"}, CALL, {**CALL, "call_id": "call_2"}, OUTPUT]
    call = make_call(input=[*items, {**OUTPUT, "call_id": "call_2"}], truncation="auto")
    assert count_droppable_messages(generate_task(call.request)) == 1


REAL: dict[str, Any] = {
    "model": "demo",
    "input": [
        {"role": "system", "content": "Be brief."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
        CALL,
        OUTPUT,
        {"type": "custom_tool_call", "call_id": "c", "name": "run", "input": "a"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "b"}]},
        {"type": "item_reference", "id": "msg_1"},
        {"type": "web_search_call", "id": "ws_1", "action": {"query": "x"}},
    ],
    "tools": [
        FUNCTION,
        {"type": "custom", "name": "run", "format": {"type": "grammar", "syntax": "lark", "definition": "start: /a/"}},
        {"type": "namespace", "name": "n", "tools": [{**FUNCTION, "name": "inner"}]},
        {"type": "web_search"},
    ],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look_up"}]},
    "text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}}, "verbosity": "low"},
    "reasoning": {"effort": "low", "summary": "auto"},
    "include": ["reasoning.encrypted_content"],
    "metadata": {"a": "b"},
    "conversation": {"id": "conv_1"},
    "max_output_tokens": 5,
    "truncation": "auto",
    "stream": True,
    "stream_options": {"include_obfuscation": False},
    "temperature": 0.5,
    "store": True,
}
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(2**62, 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["user", "assistant", "message", "reasoning", "function_call", "item_reference", "custom", "call_1"]
    ),
)
NAMES = st.sampled_from([*BODY.schema()["properties"], "role", "content", "type", "name", "call_id", "id", "output"])
JSON = st.recursive(
    SCALARS,
    lambda children: st.one_of(st.lists(children, max_size=3), st.dictionaries(NAMES, children, max_size=4)),
    max_leaves=10,
)


def outcome_of(body: Any) -> ResponseCall | OrchardError:
    try:
        draft = read(json.dumps(body).encode())
        known = {id_: json.dumps({"type": "message", "id": id_, "role": "user"}).encode() for id_ in draft.references}
        return draft.make_call("req_1", None, (), known)
    except OrchardError as error:
        return error


@examples(500)
@given(st.data())
def test_a_real_body_with_something_wrong(data: st.DataObject) -> None:
    body = copy.deepcopy(REAL)
    for _ in range(data.draw(st.integers(0, 3))):
        container, key = data.draw(st.sampled_from(places(body)))
        if data.draw(st.booleans()):
            del container[key]
        else:
            container[key] = data.draw(JSON)
    call = outcome_of(body)
    if isinstance(call, OrchardError):
        assert call.kind == "invalid_request"
        assert call.message
        return
    assert crossed(call.request) == call.request
    # What is stored of it can be read again.
    again = [json.dumps(item).encode() for item in call.input]
    assert read(b'{"model": "m", "input": "x"}').make_call("req_2", None, again)
