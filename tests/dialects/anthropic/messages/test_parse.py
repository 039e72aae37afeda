"""What Messages bodies ask for, and what is refused."""

import json
import re
from typing import Any

import pytest

from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from orchard.core.tasks.generate import (
    Count,
    Generate,
    Grammar,
    Message,
    Part,
    ReasoningPart,
    Sampling,
    TextPart,
    Tool,
    ToolCallPart,
    ToolResultPart,
    generate_task,
)
from orchard.dialects.anthropic.messages.parse import MAX_ITEMS, parse, parse_count
from orchard.dialects.anthropic.messages.schema import BODY, IGNORED

USER = {"role": "user", "content": "Hi"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
LOOK_UP = {"name": "look_up", "input_schema": SCHEMA}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {"city": "Paris"}}


def task(*messages: dict[str, Any], **fields: Any) -> Generate:
    body = {"model": "demo", "max_tokens": 100, "messages": list(messages) or [USER], **fields}
    generate = parse(json.dumps(body).encode(), "req_1").request.task
    assert isinstance(generate, Generate)
    return generate


def refusal(*messages: dict[str, Any], **fields: Any) -> OrchardError:
    with pytest.raises(OrchardError) as caught:
        task(*messages, **fields)
    assert caught.value.kind == "invalid_request"
    return caught.value


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def result(content: Any = "found", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, **fields}


def said(*parts: Part) -> Message:
    return Message("user", parts)


def texts(*values: str) -> Message:
    return said(*map(TextPart, values))


def test_a_small_body() -> None:
    assert task() == Generate(messages=(texts("Hi"),), max_tokens=100)


def test_max_tokens_may_be_absent_and_zero_reads_the_prompt_only() -> None:
    assert task(max_tokens=None).max_tokens is None
    body = {"model": "demo", "max_tokens": 0, "messages": [USER]}
    call = parse(json.dumps(body).encode(), "req_1")
    assert (generate_task(call.request).max_tokens, call.warms_up) == (1, True)


def test_every_number_is_passed_on() -> None:
    wanted = task(temperature=0.5, top_p=0.9, top_k=5, stop_sequences=["a", "b"], max_tokens=7)
    assert wanted.sampling == Sampling(temperature=0.5, top_p=0.9, top_k=5)
    assert (wanted.stop, wanted.max_tokens) == (("a", "b"), 7)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", 1.5),
        ("temperature", "1"),
        ("top_p", -0.1),
        ("top_k", -1),
        ("max_tokens", -1),
        ("max_tokens", 1.5),
        ("stop_sequences", "x"),
        ("stop_sequences[0]", [""]),
        ("messages", []),
        ("model", ""),
        ("stream", "yes"),
        ("tool_choice.type", {"type": "required"}),
        ("thinking.type", {"type": "on"}),
        ("thinking.display", {"type": "adaptive", "display": "bogus"}),
        ("output_config.effort", {"effort": "huge"}),
        ("output_config.format.type", {"format": {"type": "json", "schema": {}}}),
    ],
)
def test_a_wrong_value_is_named(field: str, value: Any) -> None:
    (name, *_) = re.split(r"[.\[]", field)
    error = refusal(**{name: value})
    assert error.param == field
    assert f"`{field}`" in error.message


def test_null_is_absent_and_unknown_fields_are_ignored() -> None:
    names = [name for name in BODY.schema()["properties"] if name not in ("model", "messages")]
    assert task(**dict.fromkeys([*names, "zzz"])) == Generate(messages=(texts("Hi"),))
    assert task(zzz=[{"a": 1}], **{name: [{"any": "thing"}] for name in IGNORED}) == task()


class TestSystem:
    def test_it_comes_first(self) -> None:
        expected = (Message("system", (TextPart("Be brief."),)), texts("Hi"))
        assert task(system="Be brief.").messages == expected
        blocks = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
        assert task(system=blocks).messages == expected

    def test_several_blocks_are_several_parts(self) -> None:
        blocks = [{"type": "text", "text": text} for text in ("a", "", "b")]
        assert task(system=blocks).messages[0] == Message("system", (TextPart("a"), TextPart("b")))

    @pytest.mark.parametrize("empty", ["", [], [{"type": "text", "text": ""}]])
    def test_an_empty_one_is_none(self, empty: Any) -> None:
        assert task(system=empty).messages == (texts("Hi"),)

    def test_only_texts_are_allowed(self) -> None:
        assert refusal(system=[{"type": "image"}]).param == "system[0].type"
        assert refusal(system=[{"type": "text"}]).param == "system[0].text"
        assert refusal(system=5).param == "system"

    def test_in_mid_conversation_it_stays_where_it_is(self) -> None:
        later = {"role": "system", "content": [{"type": "text", "text": "Now be long."}]}
        roles = [message.role for message in task(USER, later, USER, system="Be brief.").messages]
        assert roles == ["system", "user", "system", "user"]

    def test_one_for_a_single_turn_goes_with_it(self) -> None:
        once = {"role": "system", "content": "Only now.", "clear_at": "next_user_message"}
        assert [message.role for message in task(USER, once).messages] == ["user", "system"]
        assert [message.role for message in task(USER, once, USER).messages] == ["user", "user"]

    def test_without_a_text_it_is_left_out(self) -> None:
        assert task({"role": "system", "output_config": {"effort": "low"}}, USER).messages == (texts("Hi"),)


class TestBlocks:
    def test_texts(self) -> None:
        blocks = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}, "citations": []}]
        assert task(user(*blocks, {"type": "text", "text": "b"})).messages == (texts("a", "b"),)

    def test_texts_by_the_name_that_responses_has_for_them(self) -> None:
        text = {"type": "input_text", "text": "a"}
        assert task(user(text), system=[text]).messages == (Message("system", (TextPart("a"),)), texts("a"))
        found = {"type": "search_result", "source": "b", "title": "c", "content": [text]}
        call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "t", "content": [text, found]}
        *_, message = task(USER, {"role": "assistant", "content": [text, call]}, user(result)).messages
        assert message.parts == (ToolResultPart("t", tuple(map(TextPart, ("a", "c", "b", "a")))),)
        assert task(user({"type": "input_text", "text": ""})).messages == (Message("user", ()),)

    def test_pictures(self) -> None:
        data = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
        link = {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}}
        expected = said(
            MediaPart("image", "data:image/png;base64,QUJD", "messages[0].content[0].source.data"),
            MediaPart("image", "https://x.test/a.png", "messages[0].content[1].source.url"),
        )
        assert task(user(data, link)).messages == (expected,)

    @pytest.mark.parametrize(
        ("source", "param"),
        [
            ({"type": "file", "file_id": "file_1"}, "source.type"),
            ({"type": "url", "url": "ftp://x.test/a.png"}, "source.url"),
            ({"type": "url", "url": "data:image/png;base64,QUJD"}, "source.url"),
            ({"type": "base64", "media_type": "image/png;base64,QUJD", "data": "QUJD"}, "source.media_type"),
            ({"type": "url"}, "source.url"),
            ({"type": "base64", "data": "QUJD"}, "source.media_type"),
            ({"type": "base64", "media_type": "image/png", "data": ""}, "source.data"),
            ("x", "source"),
            (None, "source"),
        ],
    )
    def test_pictures_that_cannot_be_had(self, source: Any, param: str) -> None:
        error = refusal(user({"type": "image", "source": source}))
        assert error.param == f"messages[0].content[0].{param}"

    def test_documents_of_text(self) -> None:
        plain = {"type": "text", "media_type": "text/plain", "data": "Once."}
        blocks = {"type": "content", "content": [{"type": "text", "text": "Upon."}]}
        string = {"type": "content", "content": "A time."}
        documents: list[dict[str, Any]] = [{"type": "document", "source": source} for source in (plain, blocks, string)]
        documents[0] |= {"title": "Tale", "context": "Old", "citations": {"enabled": True}}
        assert task(user(*documents)).messages == (texts("Tale", "Old", "Once.", "Upon.", "A time."),)

    def test_documents_that_are_files(self) -> None:
        pdf = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
        text = {"type": "base64", "media_type": "text/plain", "data": "T25jZS4="}
        link = {"type": "url", "url": "https://x.test/a.pdf"}
        documents: list[dict[str, Any]] = [{"type": "document", "source": source} for source in (pdf, text, link)]
        assert task(user(*documents)).messages == (
            said(
                MediaPart("document", "data:application/pdf;base64,JVBERi0=", "messages[0].content[0].source.data"),
                MediaPart("document", "data:text/plain;base64,T25jZS4=", "messages[0].content[1].source.data"),
                MediaPart("document", "https://x.test/a.pdf", "messages[0].content[2].source.url"),
            ),
        )

    @pytest.mark.parametrize(
        ("source", "param"),
        [
            ({"type": "file", "file_id": "file_1"}, "type"),
            ({"type": "url"}, "url"),
            ({"type": "url", "url": "ftp://x.test/a.pdf"}, "url"),
            ({"type": "base64", "data": "QUJD"}, "media_type"),
            ({"type": "base64", "media_type": "application/pdf"}, "data"),
        ],
    )
    def test_documents_that_cannot_be_read(self, source: dict[str, Any], param: str) -> None:
        error = refusal(user({"type": "document", "source": source}))
        assert error.param == f"messages[0].content[0].source.{param}"

    def test_search_results(self) -> None:
        content = [{"type": "text", "text": "It rains."}]
        block = {"type": "search_result", "source": "https://x.test", "title": "Rain", "content": content}
        assert task(user(block)).messages == (texts("Rain", "https://x.test", "It rains."),)
        assert refusal(user({**block, "content": None})).param == "messages[0].content[0].content"
        error = refusal(user({**block, "content": [{"type": "video"}]}))
        assert error.param == "messages[0].content[0].content[0].type"

    def test_thoughts_sent_back(self) -> None:
        blocks = [
            {"type": "thinking", "thinking": "Hm.", "signature": ""},
            {"type": "redacted_thinking", "data": "xyz"},
            {"type": "text", "text": "Yes."},
        ]
        message = task(USER, assistant(*blocks), USER).messages[1]
        assert message == Message("assistant", (ReasoningPart("Hm."), TextPart("Yes.")))

    @pytest.mark.parametrize(
        "block",
        [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result"}]},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": {"error_code": "x"}},
            {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "x", "server_name": "y", "input": {}},
            {"type": "container_upload", "file_id": "file_1"},
            {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}},
        ],
    )
    def test_what_other_servers_wrote_for_themselves_is_skipped(self, block: dict[str, Any]) -> None:
        answer = assistant(block, {"type": "text", "text": "Yes."})
        assert task(USER, answer, USER).messages[1] == Message("assistant", (TextPart("Yes."),))
        assert task(USER, assistant(block), USER).messages == (texts("Hi"), texts("Hi"))

    def test_a_summary_of_what_was_before(self) -> None:
        block = {"type": "compaction", "content": "They said hi.", "encrypted_content": "x"}
        assert task(assistant(block), USER).messages[0] == Message("assistant", (TextPart("They said hi."),))

    @pytest.mark.parametrize(
        ("message", "kind"),
        [
            (user({"type": "video"}), "video"),
            (user(CALL), "tool_use"),
            (user({"type": "thinking", "thinking": "Hm."}), "thinking"),
            (assistant(result()), "tool_result"),
            ({"role": "system", "content": [{"type": "image"}]}, "image"),
        ],
    )
    def test_a_block_out_of_place_is_named(self, message: dict[str, Any], kind: str) -> None:
        error = refusal(message)
        assert error.param == "messages[0].content[0].type"
        assert f"got '{kind}'" in error.message
        assert "'text'" in error.message

    def test_a_block_needs_a_type_and_what_belongs_to_it(self) -> None:
        assert refusal(user({})).param == "messages[0].content[0].type"
        assert refusal(user({"type": "text"})).param == "messages[0].content[0].text"
        assert refusal(USER, assistant({**CALL, "id": None})).param == "messages[1].content[0].id"
        assert refusal(USER, assistant({**CALL, "name": ""})).param == "messages[1].content[0].name"

    def test_there_may_be_only_so_many(self) -> None:
        full = user(*[{"type": "text", "text": "a"}] * 4096)
        assert MAX_ITEMS % 4096 == 0
        task(*[full] * (MAX_ITEMS // 4096))
        inner = user({"type": "tool_result", "tool_use_id": "x", "content": [{"type": "text", "text": "a"}] * 4096})
        assert refusal(*[full] * (MAX_ITEMS // 4096 - 1), inner).param == "messages"


class TestResults:
    @pytest.mark.parametrize(
        ("content", "parts"),
        [
            ("found", (TextPart("found"),)),
            ("", ()),
            (None, ()),
            ([], ()),
            ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], (TextPart("a"), TextPart("b"))),
            (
                [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}],
                (MediaPart("image", "data:image/png;base64,QUJD", "messages[2].content[0].content[0].source.data"),),
            ),
            ([{"type": "document", "source": {"type": "text", "data": "Once."}}], (TextPart("Once."),)),
            (
                [{"type": "document", "source": {"type": "url", "url": "https://x.test/a.pdf"}}],
                (MediaPart("document", "https://x.test/a.pdf", "messages[2].content[0].content[0].source.url"),),
            ),
            ([{"type": "tool_reference", "tool_name": "add"}], (TextPart("The tool add is available."),)),
            ([{"type": "browser_state", "tabs": []}], ()),
        ],
    )
    def test_they_are_a_message_of_their_own(self, content: Any, parts: tuple[TextPart | MediaPart, ...]) -> None:
        messages = task(USER, assistant(CALL), user(result(content))).messages
        assert messages[1:] == (
            Message("assistant", (ToolCallPart("toolu_1", "look_up", '{"city":"Paris"}'),)),
            Message("tool", (ToolResultPart("toolu_1", parts),)),
        )

    def test_an_error_is_marked(self) -> None:
        messages = task(USER, assistant(CALL), user(result("no such city", is_error=True))).messages
        assert messages[2] == Message("tool", (ToolResultPart("toolu_1", (TextPart("no such city"),), True),))

    def test_they_come_before_what_the_user_says(self) -> None:
        messages = task(USER, assistant(CALL), user({"type": "text", "text": "Well?"}, result())).messages
        assert messages[2:] == (Message("tool", (ToolResultPart("toolu_1", (TextPart("found"),)),)), texts("Well?"))

    def test_one_without_a_call_is_refused(self) -> None:
        error = refusal(user(result()))
        assert error.param == "messages[0].content[0].tool_use_id"
        assert refusal(user({"type": "tool_result"})).param == "messages[0].content[0].tool_use_id"

    def test_a_wrong_content_is_refused(self) -> None:
        assert refusal(USER, assistant(CALL), user(result(5))).param == "messages[2].content[0].content"
        assert refusal(USER, assistant(CALL), user(result({}))).param == "messages[2].content[0].content"
        error = refusal(USER, assistant(CALL), user(result([{"type": "video"}])))
        assert error.param == "messages[2].content[0].content[0].type"


class TestNothing:
    @pytest.mark.parametrize("content", ["", None, [], [{"type": "text", "text": ""}]])
    def test_a_user_may_say_nothing(self, content: Any) -> None:
        silent = {"role": "user", "content": content}
        assert task(silent).messages == (Message("user", ()),)
        begun = assistant({"type": "text", "text": "Yes?"})
        assert [message.role for message in task(USER, begun, silent, begun, USER).messages] == [
            "user",
            "assistant",
            "user",
            "assistant",
            "user",
        ]

    def test_an_empty_text_beside_results_is_none(self) -> None:
        messages = task(USER, assistant(CALL), user(result(), {"type": "text", "text": ""})).messages
        assert [message.role for message in messages] == ["user", "assistant", "tool"]


class TestPrefill:
    @pytest.mark.parametrize("content", ["The answer is (", [{"type": "text", "text": "The answer is ("}]])
    def test_the_answer_goes_on_with_it(self, content: Any) -> None:
        wanted = task(USER, {"role": "assistant", "content": content})
        assert wanted.continue_last
        assert wanted.messages[-1] == Message("assistant", (TextPart("The answer is ("),))

    def test_calls_are_no_beginning(self) -> None:
        wanted = task(USER, assistant({"type": "text", "text": "Let me see."}, CALL))
        assert not wanted.continue_last
        assert wanted.messages[-1].role == "assistant"

    @pytest.mark.parametrize("blocks", [[], [{"type": "thinking", "thinking": "Hm."}], [{"type": "text", "text": " "}]])
    def test_nothing_but_thoughts_is_answered_anew(self, blocks: list[dict[str, Any]]) -> None:
        wanted = task(USER, assistant(*blocks))
        assert (wanted.continue_last, wanted.messages) == (False, (texts("Hi"),))

    def test_something_must_be_left(self) -> None:
        assert refusal(assistant()).param == "messages"
        assert refusal({"role": "system", "content": "x-anthropic-billing-header: a"}).param == "messages"


class TestTools:
    def test_the_callers_own(self) -> None:
        tool = {
            **LOOK_UP,
            "type": "custom",
            "description": "Looks up.",
            "strict": True,
            "input_schema": {"$schema": "https://json-schema.org/draft/2020-12/schema", **SCHEMA},
            "cache_control": {"type": "ephemeral"},
            "defer_loading": True,
            "eager_input_streaming": True,
            "input_examples": [{"city": "Rome"}],
        }
        assert task(tools=[tool]).tools == (Tool("look_up", "Looks up.", SCHEMA, strict=True),)

    @pytest.mark.parametrize(
        ("kind", "name", "wanted"),
        [
            ("bash_20250124", "bash", {"command", "restart"}),
            ("text_editor_20250124", "str_replace_editor", {"command", "path", "new_str"}),
            ("text_editor_20250728", "str_replace_based_edit_tool", {"command", "path", "insert_text"}),
            ("memory_20250818", "memory", {"command", "path", "old_path"}),
        ],
    )
    def test_anthropics_that_callers_run(self, kind: str, name: str, wanted: set[str]) -> None:
        (tool,) = task(tools=[{"type": kind, "name": name}]).tools
        assert tool.name == name
        assert tool.parameters
        assert wanted <= set(tool.parameters["properties"])
        assert ("insert_text" in tool.parameters["properties"]) == (kind in ("text_editor_20250728", "memory_20250818"))
        assert task(tools=[{"type": kind, "name": name, "max_characters": 10_000}]).tools == (tool,)

    @pytest.mark.parametrize(
        "tool",
        [
            {"type": "web_search_20250305", "name": "web_search"},
            {"type": "computer_20250124", "name": "computer", "display_width_px": 1, "display_height_px": 1},
            {"type": "mcp_toolset", "mcp_server_name": "x"},
            {"type": "of_the_future_20300101", "name": "x"},
        ],
    )
    def test_what_cannot_be_served_is_skipped(self, tool: dict[str, Any]) -> None:
        assert [tool.name for tool in task(tools=[tool, LOOK_UP]).tools] == ["look_up"]
        assert task(tools=[tool]).tools == ()
        body = {"model": "demo", "max_tokens": 100, "messages": [USER], "tools": [tool, LOOK_UP]}
        assert parse(json.dumps(body).encode(), "req_1").unserved_tools == (tool["type"],)

    def test_one_defined_in_mid_conversation(self) -> None:
        added = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": LOOK_UP}}
        known = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "look_up"}}
        wanted = task(USER, {"role": "system", "content": [added, known]})
        assert [tool.name for tool in wanted.tools] == ["look_up"]
        assert wanted.messages == (texts("Hi"),)

    def test_one_defined_in_mid_conversation_replaces_an_earlier_one(self) -> None:
        definition = {**LOOK_UP, "description": "New."}
        added = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}}
        (tool,) = task(USER, {"role": "system", "content": [added]}, tools=[LOOK_UP]).tools
        assert tool.description == "New."

    @pytest.mark.parametrize(
        ("tools", "param"),
        [
            ([LOOK_UP, LOOK_UP], "tools[1].name"),
            ([{"name": "look_up"}], "tools[0].input_schema"),
            ([{"input_schema": {}}], "tools[0].name"),
            ([{"name": "a b", "input_schema": {}}], "tools[0].name"),
            ([{"name": "a", "input_schema": []}], "tools[0].input_schema"),
            ([{"name": "a", "input_schema": {"type": "string"}}], "tools[0].input_schema.type"),
            ([{"name": "a", "input_schema": {"type": 5}}], "tools[0].input_schema.type"),
            ([{"name": "a", "input_schema": {"type": ["string", "null"]}}], "tools[0].input_schema.type"),
            ([{"name": "a", "input_schema": {"maximum": 2**64}}], "tools[0].input_schema"),
        ],
    )
    def test_wrong_ones_are_named(self, tools: list[Any], param: str) -> None:
        assert refusal(tools=tools).param == param

    def test_the_input_is_an_object_whatever_else_is_allowed(self) -> None:
        schemas: list[dict[str, Any]] = [{"type": ["object", "null"]}, {"type": "object"}, {}, {"anyOf": []}]
        tools = [{"name": f"f{i}", "input_schema": schema} for i, schema in enumerate(schemas)]
        kept = [tool.parameters for tool in task(tools=tools).tools]
        assert kept == [{"type": "object"}, *schemas[1:]]

    def test_choice(self) -> None:
        tools = [LOOK_UP, {**LOOK_UP, "name": "add"}]

        def chosen(**choice: Any) -> tuple[list[str], bool, bool]:
            wanted = task(tools=tools, tool_choice=choice)
            return [tool.name for tool in wanted.tools], wanted.must_call, wanted.parallel_tool_calls

        assert chosen(type="auto") == (["look_up", "add"], False, True)
        assert chosen(type="any") == (["look_up", "add"], True, True)
        assert chosen(type="tool", name="add") == (["add"], True, True)
        assert chosen(type="none") == ([], False, True)
        assert chosen(type="auto", disable_parallel_tool_use=True) == (["look_up", "add"], False, False)

    @pytest.mark.parametrize(
        ("choice", "tools", "param"),
        [
            ({"type": "tool", "name": "sub"}, [LOOK_UP], "tool_choice.name"),
            ({"type": "tool"}, [LOOK_UP], "tool_choice.name"),
            ({"type": "any"}, [], "tool_choice"),
            ({"type": "any"}, [{"type": "web_search_20250305", "name": "web_search"}], "tool_choice"),
        ],
    )
    def test_choices_that_cannot_be_kept(self, choice: dict[str, Any], tools: list[Any], param: str) -> None:
        assert refusal(tools=tools, tool_choice=choice).param == param


class TestThinking:
    @pytest.mark.parametrize(
        ("thinking", "args", "budget", "hidden"),
        [
            (None, {}, None, False),
            ({"type": "enabled", "budget_tokens": 100}, {"enable_thinking": True}, 100, False),
            ({"type": "adaptive", "display": "summarized"}, {"enable_thinking": True}, None, False),
            ({"type": "adaptive", "display": "updates"}, {"enable_thinking": True}, None, False),
            ({"type": "disabled"}, {"enable_thinking": False}, None, True),
            ({"type": "between_tools"}, {"enable_thinking": False}, None, True),
        ],
    )
    def test_it_reaches_the_template(self, thinking: Any, args: dict[str, Any], budget: Any, hidden: bool) -> None:
        wanted = task(thinking=thinking)  # a budget of all of max_tokens is none of our business
        assert (wanted.template_args, wanted.thinking_budget, wanted.hide_reasoning) == (args, budget, hidden)

    def test_enabled_needs_a_budget(self) -> None:
        assert refusal(thinking={"type": "enabled"}).param == "thinking.budget_tokens"

    def test_effort(self) -> None:
        assert task(output_config={"effort": "low", "task_budget": {}}).template_args == {"reasoning_effort": "low"}


class TestFormat:
    def test_a_schema_binds_the_answer(self) -> None:
        wanted = {"type": "json_schema", "schema": SCHEMA}
        new = task(output_config={"format": wanted}).grammar
        assert new == Grammar("json_schema", SCHEMA, "output_config.format.schema")
        assert task(output_format=wanted).grammar == Grammar("json_schema", SCHEMA, "output_format.schema")

    def test_an_answer_that_must_be_a_call_has_no_text_to_bind(self) -> None:
        wanted = {"format": {"type": "json_schema", "schema": SCHEMA}}
        assert task(output_config=wanted, tools=[LOOK_UP], tool_choice={"type": "any"}).grammar is None


@pytest.mark.parametrize("field", ["mcp_servers", "compaction"])
def test_what_is_not_there_is_refused(field: str) -> None:
    error = refusal(**{field: [{"type": "url"}]})
    assert error.param == field
    assert "not supported" in error.message


def test_a_thread_may_begin_but_is_not_stored() -> None:
    for thread in ({"type": "create"}, "x", [1]):
        assert task(thread=thread) == task()
    with pytest.raises(OrchardError) as caught:
        task(thread={"type": "continue", "previous_message_id": "msg_1"})
    assert (caught.value.kind, caught.value.param) == ("response_not_found", "thread")


def test_counting_takes_the_same_body() -> None:
    body = json.dumps({"model": "demo", "messages": [USER], "system": "Be brief.", "tools": [LOOK_UP]}).encode()
    counted = parse_count(body, "req_1")
    assert isinstance(counted.task, Count)
    assert counted.task.of == parse(body, "req_1").request.task


def test_volatile_lines_are_left_alone_where_that_is_wanted() -> None:
    body = json.dumps({"model": "demo", "messages": [USER], "system": "x-anthropic-billing-header: a"}).encode()
    assert [message.role for message in generate_task(parse(body, "r").request).messages] == ["user"]
    kept = generate_task(parse(body, "r", stable_prompts=False).request).messages
    assert [message.role for message in kept] == ["system", "user"]
    assert generate_task(parse_count(body, "r", stable_prompts=False)).messages == kept


def test_the_headers_priority() -> None:
    body = json.dumps({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}).encode()
    assert parse(body, "req_1").request.priority == "normal"
    assert parse(body, "req_1", priority="background").request.priority == "background"
    with pytest.raises(OrchardError, match="X-Priority"):
        parse(body, "req_1", priority="urgent")
