"""Calls with mistakes: those that are certain are read as the corrected text is, streamed or not; others stay text."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.core.tasks.generate import Tool
from orchard.formats.format import CallStart
from orchard.formats.registry import CALLS, add_hermes, choose_family
from tests.support.examples import examples, some
from tests.support.format_reading import TOOLS, Call, cut, marked, parse, whole
from tests.support.specimens.no_calls import NO_CALLS
from tests.support.specimens.one import CODER, HERMES_NOW, HERMES_PARIS, NOW, PARIS, PARIS_3

_K3 = "<|open|>{}<|sep|>"
# How families write a call: its name, and its arguments as JSON in the place of @.
JSON_FORMS = {
    "hermes": '<tool_call>\n{{"name": "{}", "arguments": @}}\n</tool_call>',
    "qwen3_coder": '<tool_call>\n{{"name": "{}", "arguments": @}}\n</tool_call>',
    "glm45": '<tool_call>{{"name": "{}", "arguments": @}}</tool_call>',
    "granite_20b_fc": '<function_call> {{"name": "{}", "arguments": @}}</function_call>',
    "nemotron": '<TOOLCALL>[{{"name": "{}", "arguments": @}}]</TOOLCALL>',
    "cohere": '<|START_ACTION|>[{{"tool_name": "{}", "parameters": @}}]<|END_ACTION|>',
    "lfm2": '<|tool_call_start|>[{{"name": "{}", "arguments": @}}]<|tool_call_end|>',
    "llama3_json": '{{"name": "{}", "parameters": @}}',
    "json": '{{"name": "{}", "arguments": @}}',
}
NAMED_FORMS = {
    "mistral": "[TOOL_CALLS]{}[ARGS]@",
    "functionary_v3_1": "<function={}>@</function>",
    "functionary_v3_2": ">>>{}\n@",
    "deepseek_v31": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{}<｜tool▁sep｜>@"
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "apertus": '<|tools_prefix|>[{{"{}": @}}]<|tools_suffix|>',
    "kimi_k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.{}:0<|tool_call_argument_begin|>@"
    "<|tool_call_end|><|tool_calls_section_end|>",
    "plamo3": "<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|>"
    "<|plamo:begin_tool_name:plamo|>{}<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|>"
    "<|plamo:constrain|>json<|plamo:msg|>@<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>"
    "<|plamo:end_tool_requests:plamo|>",
    "inkling": '<|content_invoke_tool_json|>{{"name":"{}","args":@}}<|end_message|>',
    "harmony": "<|channel|>commentary to=functions.{} <|constrain|>json<|message|>@<|call|>",
}
# How families write a call with tags: what stands around the parameters, a parameter, and what ends its value.
TAGGED_FORMS = {
    "hermes": ("<tool_call>\n<function={}>\n@</function>\n</tool_call>", "<parameter={}>\n{}", "\n</parameter>\n"),
    "qwen3_coder": ("<tool_call>\n<function={}>\n@</function>\n</tool_call>", "<parameter={}>\n{}", "\n</parameter>\n"),
    "seed_oss": (
        "<seed:tool_call>\n<function={}>\n@</function>\n</seed:tool_call>",
        "<parameter={}>{}",
        "</parameter>\n",
    ),
    "minimax_m2": (
        '<minimax:tool_call>\n<invoke name="{}">\n@</invoke>\n</minimax:tool_call>',
        '<parameter name="{}">{}',
        "</parameter>\n",
    ),
    "minicpm5": ('<function name="{}">@</function>', '<param name="{}">{}', "</param>"),
    "glm45": ("<tool_call>{}\n@</tool_call>", "<arg_key>{}</arg_key>\n<arg_value>{}", "</arg_value>\n"),
    "glm47": ("<tool_call>{}@</tool_call>", "<arg_key>{}</arg_key><arg_value>{}", "</arg_value>"),
    "deepseek_v32": (
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="{}">\n@</｜DSML｜invoke>\n</｜DSML｜function_calls>',
        '<｜DSML｜parameter name="{}" string="true">{}',
        "</｜DSML｜parameter>\n",
    ),
    "deepseek_v41": (
        '<｜DSML｜ calls>\n<｜DSML｜ invoke name="{}">\n@</｜DSML｜ invoke>\n</｜DSML｜ calls>',
        '<｜DSML｜ parameter name="{}" string="true">{}',
        "</｜DSML｜ parameter>\n",
    ),
    "hy_v4": (
        "<tool_calls:6124c78e><tool_call:6124c78e>{}@</tool_call:6124c78e></tool_calls:6124c78e>",
        "<arg_key:6124c78e>{}</arg_key:6124c78e><arg_value:6124c78e>{}",
        "</arg_value:6124c78e>",
    ),
    "k2_horizon": (
        "<ifm|tool_calls>\n<ifm|tool_call>{}\n@</ifm|tool_call>\n</ifm|tool_calls>",
        "<ifm|arg_key>{}</ifm|arg_key>\n<ifm|arg_value>{}",
        "</ifm|arg_value>\n",
    ),
    "kimi_k3": (
        f'{_K3.format("tools")}<|open|>call tool="{{}}" index="1"<|sep|>@<|close|>call<|sep|><|close|>tools<|sep|>',
        '<|open|>argument key="{}" type="string"<|sep|>{}',
        "<|close|>argument<|sep|>",
    ),
}
EDIT = Tool(
    "edit",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "text": {"type": "string"},
            "old": {"type": "string"},
            "n": {"type": "integer"},
            "all": {"type": ["boolean", "null"]},
            "marks": {"type": "array", "items": {"type": "string"}},
            "options": {"type": "object"},
        },
        "required": ["path"],
    },
)
words = st.text("ab 1é😀.,:'\"{}[]\\/\n\t", max_size=20)
long_words = st.builds(lambda word: word * 12, words)
numbers = st.integers(-(10**9), 10**9)
arguments = st.fixed_dictionaries(
    {"path": words},
    optional={
        "text": long_words,
        "n": numbers,
        "all": st.booleans() | st.none(),
        "marks": st.lists(words, max_size=3),
        "options": st.dictionaries(st.text("ab", min_size=1), words | numbers | st.booleans() | st.none(), max_size=2),
    },
)
places = st.lists(st.integers(0, 1000), max_size=6)


def read(parser: str, text: str, places: list[int] | None = None, tools: Any = (EDIT,)) -> list[Call | str]:
    """What an answer means; it is the same streamed and whole."""
    family = choose_family("", tool_call_parser=parser, reasoning_parser="think")
    uncut = parse(family.begin("", tools), text)
    for texts in (cut(text, places or []), list(text)):
        pieces = parse(family.begin("", tools), *texts)
        assert whole(pieces) == whole(uncut), text
        assert marked(pieces) == marked(uncut), text
    return whole(uncut)


def equal(parser: str, spoilt: str, right: str, places: list[int]) -> None:
    """Both texts are one and the same call, and nothing else."""
    (expected,) = read(parser, right)
    (found,) = read(parser, spoilt, places)
    assert isinstance(found, Call)
    assert isinstance(expected, Call)
    assert found._replace(arguments="") == expected._replace(arguments=""), spoilt
    assert json.loads(found.arguments) == json.loads(expected.arguments), spoilt


def python(form: str, given: dict[str, Any]) -> str:
    """A call as Python would write it: single quotes, True, False and None."""
    return re.sub(r'"(name|tool_name|arguments|parameters|edit)"', r"'\1'", form).replace("@", repr(given))


def constants(form: str, given: dict[str, Any]) -> str:
    """A call in JSON but for Python's constants."""
    values = (repr(value) if value in (True, False, None) else json.dumps(value) for value in given.values())
    members = (f"{json.dumps(name)}: {value}" for name, value in zip(given, values, strict=True))
    return form.replace("@", "{" + ", ".join(members) + "}")


def without_brace(form: str, given: dict[str, Any]) -> str:
    before, after = form.split("@")
    given = {name: given[name] for name in sorted(given, key=lambda name: name == "path")}
    call = before + json.dumps(given)  # a string is last: at an answer's end, a number may not be complete
    return call + after.replace("}", "", 1) if "}" in after else call[:-1] + after


def surplus(form: str, given: dict[str, Any]) -> str:
    before, after = form.split("@")
    return f"{before}{json.dumps(given)}}}{after}"


@given(
    parser=st.sampled_from([*JSON_FORMS, *NAMED_FORMS]),
    spoil=st.sampled_from([python, constants, without_brace, surplus]),
    given_=arguments,
    places=places,
)
@examples(600)
def test_json_with_a_mistake_is_read_as_if_it_had_none(
    parser: str, spoil: Any, given_: dict[str, Any], places: list[int]
) -> None:
    form = (JSON_FORMS | NAMED_FORMS)[parser].format("edit")
    equal(parser, spoil(form, given_), form.replace("@", json.dumps(given_)), places)


@given(
    parser=st.sampled_from(list(JSON_FORMS)[:-2]),
    given_=arguments,
    places=places,
    language=st.sampled_from(["json", ""]),
)
@examples(200)
def test_a_code_block_within_the_tags_is_none_of_the_call(
    parser: str, given_: dict[str, Any], places: list[int], language: str
) -> None:
    right = JSON_FORMS[parser].format("edit").replace("@", json.dumps(given_))
    opener, inner, closer = re.findall(r"(?s)(<[^>]+>)\s*(.*?)\s*(<[^>]+>)$", right)[0]
    equal(parser, f"{opener}\n```{language}\n{inner}\n```\n{closer}", right, places)


@given(parser=st.sampled_from([*TAGGED_FORMS]), data=st.data(), given_=arguments, places=places)
@examples(600)
def test_values_without_end_tags_end_before_the_next_parameter(
    parser: str, data: st.DataObject, given_: dict[str, Any], places: list[int]
) -> None:
    """The last one may miss it, too."""
    form, parameter, close = TAGGED_FORMS[parser]
    tag = close.strip()
    right = spoilt = ""
    for name, value in given_.items():
        written = value if isinstance(value, str) else json.dumps(value)
        one = parameter.format(name, written)
        right += one + close
        spoilt += one + (close.replace(tag, "").replace("\n\n", "\n") if data.draw(st.booleans()) else close)
    before, after = form.format("edit").split("@")
    equal(parser, f"{before}{spoilt}{after}", f"{before}{right}{after}", places)


@given(given_=arguments, places=places)
@examples(100)
def test_tags_of_qwen3_coder_in_place_of_json(given_: dict[str, Any], places: list[int]) -> None:
    form, parameter, close = TAGGED_FORMS["hermes"]
    members = (
        parameter.format(name, value if isinstance(value, str) else json.dumps(value)) for name, value in given_.items()
    )
    right = JSON_FORMS["hermes"].format("edit").replace("@", json.dumps(given_))
    equal("hermes", form.format("edit").replace("@", "".join(one + close for one in members)), right, places)


PARAMETER = "<tool_call>\n<function=edit>\n<parameter=path>\nx\n{}</function>\n</tool_call>"


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("<parameter=n>\n3\n</parameter>\n", {"path": "x", "n": 3}),
        ("<parameter=n>\n3\n<parameter=text>\ny\n", {"path": "x", "n": 3, "text": "y"}),
        # No name of the tool's, the same name again, a value that doesn't fit, and no line of its own.
        ("<parameter=m>\n3\n</parameter>\n", {"path": "x\n<parameter=m>\n3"}),
        ("<parameter=path>\n3\n</parameter>\n", {"path": "x\n<parameter=path>\n3"}),
        ("<parameter=n>\nthree\n</parameter>\n", {"path": "x\n<parameter=n>\nthree"}),
        ("is <parameter=n>\n3\n</parameter>\n", {"path": "x\nis <parameter=n>\n3"}),
        (
            "<parameter=n>\n1\n</parameter> is it\n</parameter>\n<parameter=n>\n3\n</parameter>\n",
            {"path": "x\n<parameter=n>\n1\n</parameter> is it", "n": 3},
        ),
    ],
)
@pytest.mark.parametrize("length", [1, 100])
def test_a_value_ends_only_before_a_name_that_the_tool_has(rest: str, expected: dict[str, Any], length: int) -> None:
    """However much of it was emitted before."""
    text = PARAMETER.format(rest).replace("x", "x" * length, 1)
    (call,) = read("qwen3_coder", text)
    assert isinstance(call, Call)
    assert json.loads(call.arguments) == {**expected, "path": str(expected["path"]).replace("x", "x" * length, 1)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"<tool_call>\n{HERMES_PARIS}", [PARIS]),
        (f"<tool_call><tool_call>\n{HERMES_PARIS}", [PARIS]),
        (f"{HERMES_PARIS}\n</tool_call>\nSo.", [PARIS, "So."]),
        (HERMES_PARIS.replace("</tool_call>", "<tool_call>"), [PARIS]),
        (f"{HERMES_PARIS.replace('</tool_call>', '<tool_call>')}\nSo.", [PARIS, "<tool_call>\nSo."]),
        (f"{HERMES_PARIS}\n<tool_call>\n{HERMES_NOW}", [PARIS, NOW]),
        (HERMES_PARIS.replace("}\n", "}}}\n"), [PARIS]),
        (HERMES_PARIS.replace("}\n", "} } so\n"), [PARIS, " } so\n</tool_call>"]),
        (HERMES_PARIS.replace("}}\n</tool_call>", ""), [PARIS]),
        ('<tool_call>{"name": "now"', ['<tool_call>{"name": "now"']),
        ('<tool_call>{"name": "now"</tool_call>', [NOW]),
        (HERMES_PARIS.replace('"weather"', "'weather'").replace('"Paris"', "'Paris', 'days': 3"), [PARIS_3]),
    ],
)
def test_hermes_calls_with_mistakes(text: str, expected: list[Call | str]) -> None:
    found = [
        one._replace(arguments=json.dumps(json.loads(one.arguments))) if isinstance(one, Call) else one
        for one in read("hermes", text, tools=TOOLS)
    ]
    assert found == expected


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (
            "{'name': 'other', 'arguments': {}}",
            "a call breaks after 31 characters, and it stays text: the request has no tool",
        ),
        (
            "{'name': 'edit', 'arguments': {'n': 3}}",
            "a call of 'edit' .*: the parameter 'path' is missing, after single quotes",
        ),
        ("{'name': 'edit', 'arguments': {'path': 'x', 'm': 3}}", "a call of 'edit' .*: the tool has no such parameter"),
        ("{'name': 'edit', 'arguments': {'path': 'x', 'n': 'y'}}", "a call of 'edit' .*: the value of 'n' doesn't fit"),
        ("{'name': 'edit', 'arguments': {'path': 'x', 'marks': ['y', 3]}}", "the value of 'marks' doesn't fit"),
        ('{"name": "edit", "arguments": {"path": x}}', "a call of 'edit' .*: a value is not JSON"),
        ('{"name": "edit", "arguments": {"path": "x",}}', "a string is missing"),
        ('{"name": "edit", "arguments": {"path": "x" "n": 3}}', "a comma or a brace is missing"),
        ('{"name": "edit", "arguments": {"path": "\\d"}}', "a backslash begins no escape of JSON"),
        ("<function=edit>\n<parameter=n>\n3\n</parameter>\n</function>", "the parameter 'path' is missing"),
        ("```json\n{'path': 'x'}\n```", "the name is missing"),
        ("edit(path='x')", "a call breaks after 0 characters"),
    ],
)
def test_what_is_not_certain_stays_text_and_the_log_says_why(call: str, why: str) -> None:
    text = f"<tool_call>{call}</tool_call>"
    assert read("hermes", text) == [text]
    format_ = choose_family("", tool_call_parser="hermes").begin("", [EDIT])
    for char in text:
        format_.feed(char)
    (note,) = format_.notes  # at once, not at the answer's end
    assert re.search(why, note), note
    assert "x" not in re.sub(r"text|doesn't fit its schema|'path'", "", note), "the model's text is not in the log"


@pytest.mark.parametrize("value", [f"['{'x' * 100}', 'a'b']", f"{{'a': '{'x' * 100}', 'b':: 1}}"])
def test_a_call_with_a_mistake_whose_value_breaks_late_stays_text(value: str) -> None:
    """The mistake are the tags of another model."""
    path = "<parameter=path>\nx\n</parameter>\n"
    name = "marks" if value[0] == "[" else "options"
    parameters = f"{path}<parameter={name}>\n{value}\n</parameter>\n"
    call = f"<tool_call>\n<function=edit>\n{parameters}</function>\n</tool_call>"
    assert read("hermes", call) == [call]


def test_arguments_that_break_after_they_were_emitted_are_noted() -> None:
    format_ = choose_family("", tool_call_parser="hermes").begin("", [EDIT])
    parse(format_, '<tool_call>{"name": "edit", "arguments": {"path": "' + "x" * 70 + '\\d"}}</tool_call>')
    (note,) = format_.notes
    assert "passed on as they are: a backslash" in note


@pytest.mark.parametrize("parser", ["harmony", "functionary_v3_2"])
def test_calls_in_messages_are_noted(parser: str) -> None:
    format_ = choose_family("", tool_call_parser=parser).begin("", [EDIT])
    parse(format_, NAMED_FORMS[parser].format("edit").replace("@", '{"path": x}'))
    (note,) = format_.notes
    assert "a value is not JSON" in note


def test_answers_in_json_are_not_noted() -> None:
    format_ = choose_family("", tool_call_parser="json").begin("", [EDIT])
    assert whole(parse(format_, '{"title": "x"}')) == ['{"title": "x"}']
    assert format_.notes == []


def test_mistakes_of_forced_calls_and_of_answers_without_tools_are_not_read_over() -> None:
    text = "<tool_call>\n{'name': 'edit', 'arguments': {'path': 'x'}}\n</tool_call>"
    assert read("hermes", text, tools=()) == [text]
    for tools, forced in (((), False), ([EDIT], True)):
        format_ = choose_family("", tool_call_parser="hermes").begin("", tools, forced=forced)
        assert not any(isinstance(piece, CallStart) for piece in parse(format_, text))


def test_the_end_of_a_call_with_a_mistake_may_be_cut_off() -> None:
    format_ = choose_family("", tool_call_parser="hermes").begin("", [EDIT])
    pieces = format_.feed("<tool_call>\n{'name': 'edit', 'arguments': {'path': '" + "x" * 100)
    assert pieces == []
    (call,) = whole(format_.finish(cut_off=True))
    assert isinstance(call, Call)
    assert (call.arguments, call.over) == ('{"path": "' + "x" * 100, False)


@pytest.mark.parametrize("row", CALLS, ids=lambda row: row.names[0])
def test_text_about_calls_is_none(row: Any) -> None:
    family = choose_family("", tool_call_parser=row.names[0], reasoning_parser="none")
    for known in (family, add_hermes(family)):
        for text in some(NO_CALLS, 2):
            for texts in ([text], list(text)):
                pieces = parse(known.begin("", TOOLS), *texts)
                assert not any(isinstance(piece, CallStart) for piece in pieces), text


_SPOILT = "<tool_call>\n{'name': 'edit', 'arguments': {'path': 'x'}}\n</tool_call>"
_BREAKS = f'<tool_call>\n{{"name": "edit", "arguments": {{"path": "{"x" * 100}"\n</tool_call>'


@pytest.mark.parametrize("call", [_SPOILT, _BREAKS])
@pytest.mark.parametrize(
    "shown", ["`@`", "Not `so: @`.", "``a `b` @``", "```\n@\n```", "````\n```\n@\n````", "So `a`: ```@```"]
)
def test_calls_with_mistakes_in_code_stay_text(shown: str, call: str) -> None:
    """However much of their arguments was right."""
    text = shown.replace("@", call)
    assert read("hermes", text) == [text]


@pytest.mark.parametrize("before", ["Don`t.\n", "`a` ", "```\n``\n```\n", "````\n```\n````\n", "So: ```a``` "])
def test_behind_code_mistakes_are_read_over(before: str) -> None:
    said, call = read("hermes", before + _SPOILT)
    assert isinstance(call, Call)
    assert said == before.rstrip("\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>\nHm.\n</think>\n\n<think>\nSo.\n</think>\n\nHi", ["[Hm.\n\nSo.]", "Hi"]),
        ("<think>\n\n</think>\n\n<think>\n\n</think>\n\nHi", ["Hi"]),
        ("</think>\n<think>So.</think>Hi", ["[So.]", "Hi"]),
        ("<think>Hm.</think>\n</think>\n\nHi", ["[Hm.]", "Hi"]),
        (f"<think>Hm.</think><think>So.</think>{HERMES_NOW}", ["[Hm.\n\nSo.]", NOW]),
        ("<think>Hm.</think>\n\n<think> is a tag.", ["[Hm.]", "<think> is a tag."]),
        ("<think>Hm.</think>\n\n <think> is a tag.", ["[Hm.]", " <think> is a tag."]),
        ("<think>Hm.</think>Use <think> and </think>.", ["[Hm.]", "Use <think> and </think>."]),
        (f"<think>Hm.</think><think>So.{HERMES_NOW}", ["[Hm.]", "<think>So.", NOW]),
    ],
)
def test_reasoning_that_follows_reasoning(text: str, expected: list[Call | str]) -> None:
    assert read("hermes", text, tools=TOOLS) == expected


def test_a_second_reasoning_that_a_limit_cuts_off() -> None:
    format_ = choose_family("", reasoning_parser="think").begin("")
    assert whole(format_.feed("<think>Hm.</think><think>So") + format_.finish(cut_off=True)) == ["[Hm.\n\nSo]"]
    assert format_.thinking


def test_coders_last_value_may_miss_its_end_tag_as_before() -> None:
    assert read("qwen3_coder", CODER.format("").replace("</parameter>\n", ""), tools=TOOLS) == [PARIS]
