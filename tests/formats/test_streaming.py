"""Arguments of every type are given out as they are written, and held back no longer than they must be."""

import json
from collections.abc import Iterator

import pytest

from orchard.core.tasks.generate import Tool
from orchard.formats.format import CallArguments, Content
from orchard.formats.registry import choose_family
from tests.support.format_reading import TOOLS, Call, parse, whole

LONG = "word " * 100
EDIT = Tool(
    "edit",
    parameters={
        "properties": {
            "edits": {"type": "array"},
            "options": {"type": "object"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "mixed": {"type": ["string", "array", "integer"]},
        }
    },
)
EDITS: list[object] = [{"old": LONG, "new": [1, None, True, 'é"\\/\n', [], {}]}]
MARK = "]<]minimax[>["
FORMS = {
    "hermes": '<tool_call>\n{"name": "edit", "arguments": {"edits": @}}\n</tool_call>',
    "mistral": '[TOOL_CALLS]edit[ARGS]{"edits": @}',
    "llama3_json": '{"name": "edit", "parameters": {"edits": @}}',
    "kimi_k2": '<|tool_call_begin|>functions.edit:0<|tool_call_argument_begin|>{"edits": @}<|tool_call_end|>',
    "deepseek_v31": '<｜tool▁call▁begin｜>edit<｜tool▁sep｜>{"edits": @}<｜tool▁call▁end｜>',
    "harmony": '<|channel|>commentary to=functions.edit<|message|>{"edits": @}<|call|>',
    "qwen3_coder": "<function=edit>\n<parameter=edits>\n@\n</parameter>\n</function>",
    "glm45": "<tool_call>edit\n<arg_key>edits</arg_key>\n<arg_value>@</arg_value>\n</tool_call>",
    "minimax_m2": '<invoke name="edit">\n<parameter name="edits">@</parameter>\n</invoke>',
    "deepseek_v32": '<｜DSML｜invoke name="edit">\n<｜DSML｜parameter name="edits" string="false">@'
    "</｜DSML｜parameter>\n</｜DSML｜invoke>",
    "minimax_m3": f'{MARK}<invoke name="edit">{MARK}<edits>@{MARK}</edits>{MARK}</invoke>',
    "minicpm5": '<function name="edit"><param name="edits">@</param></function>',
    "step3": '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="edit">\n'
    '<steptml:parameter name="edits">@</steptml:parameter>\n</steptml:invoke><｜tool_call_end｜>',
    "hy_v3": "<tool_call:opensource>edit<tool_sep:opensource>\n<arg_key:opensource>edits</arg_key:opensource>\n"
    "<arg_value:opensource>@</arg_value:opensource>\n</tool_call:opensource>",
    "functionary_v3_1": '<function=edit>{"edits": @}</function>',
}
TAGGED = ("qwen3_coder", "glm45", "minimax_m2", "deepseek_v32", "minimax_m3", "minicpm5", "step3", "hy_v3")
CODER = "<function=edit>\n<parameter={}>\n{}\n</parameter>\n</function>"


def lags(parser: str, text: str) -> Iterator[int]:
    """How many characters stand after the last that was given out, with each of the text."""
    format_ = choose_family("", tool_call_parser=parser).begin("", [EDIT, *TOOLS])
    last = 0
    for place, char in enumerate(text):
        if any(isinstance(piece, CallArguments | Content) for piece in format_.feed(char)):
            last = place
        yield place - last


@pytest.mark.parametrize(("parser", "form"), FORMS.items())
@pytest.mark.parametrize(
    "value", [EDITS, [LONG], [list(range(300))], [EDITS * 3]], ids=["objects", "text", "numbers", ""]
)
def test_arrays_are_given_out_as_they_are_written(parser: str, form: str, value: object) -> None:
    before, after = form.split("@")
    text = f"{before}{json.dumps(value)}"
    # The first characters of arguments are held back: the call may be none.
    assert max(list(lags(parser, text))[len(before) + 70 :]) < 10
    (call,) = whole(parse(choose_family("", tool_call_parser=parser).begin("", [EDIT]), *text, after))
    assert isinstance(call, Call)
    assert (json.loads(call.arguments), call.over) == ({"edits": value}, True)


@pytest.mark.parametrize(("parser", "form"), FORMS.items())
def test_a_call_that_is_cut_off_within_an_array_is_a_part_of_one(parser: str, form: str) -> None:
    text = form.partition("@")[0] + '[{"old": "' + LONG + '", "new": 12'
    for cut in (len(text), len(text) - 2, len(text) - 13, len(text) - 400):
        for pieces in ([text[:cut]], text[:cut]):
            (call,) = whole(parse(choose_family("", tool_call_parser=parser).begin("", [EDIT]), *pieces))
            assert isinstance(call, Call)
            assert not call.over
            written = '{"edits": ' + text[text.index("[{") : cut]
            assert call.arguments.replace(" ", "") == written.replace(" ", "")


@pytest.mark.parametrize(("parser", "form"), FORMS.items())
@pytest.mark.parametrize("value", ["[1, 2", "[1 2]", '{"a" 1}', '[{"a": x}]'])
def test_what_breaks_early_is_taken_back(parser: str, form: str, value: str) -> None:
    text = form.replace("@", value)
    found = whole(parse(choose_family("", tool_call_parser=parser).begin("", [EDIT]), text))
    # What is between tags is a string then.
    kept = text.partition("<|message|>")[2].removesuffix("<|call|>") if parser == "harmony" else text
    assert found == ([Call("edit", json.dumps({"edits": value}))] if parser in TAGGED else [kept])


def test_what_breaks_early_behind_a_long_call_is_taken_back() -> None:
    broken = '[TOOL_CALLS]edit[ARGS]{"note" 1}'
    text = FORMS["mistral"].replace("@", json.dumps(EDITS)) + broken
    found = whole(parse(choose_family("", tool_call_parser="mistral").begin("", [EDIT]), text))
    assert found == [Call("edit", json.dumps({"edits": EDITS})), broken]


@pytest.mark.parametrize(
    ("name", "value", "given"),
    [
        ("edits", f"['it', \"{LONG}it's\", True, (1,),]", ["it", f"{LONG}it's", True, [1]]),
        ("edits", '["a\\/b"]', ["a/b"]),
        ("edits", f'["a\\/b", "{LONG}\\/"]', ["a/b", f"{LONG}/"]),
        ("edits", "(1, 2)", [1, 2]),
        ("edits", '{"a": 1}', '{"a": 1}'),
        ("edits", f"{LONG}[", f"{LONG}["),
        ("edits", " [1]\n\n", [1]),
        ("edits", "", ""),
        ("options", f'{{"a": "{LONG}"}}', {"a": LONG}),
        ("note", "null", None),
        ("note", "None", None),
        ("note", " null ", None),
        ("note", "nul", "nul"),
        ("note", "nullable", "nullable"),
        ("note", "[1]", "[1]"),
        ("mixed", "[1, 2]", [1, 2]),
        ("mixed", "[1, 2] and so on", "[1, 2] and so on"),
        ("mixed", f'["{LONG}"] and so on', f'["{LONG}"] and so on'),
        ("mixed", "['a']", "['a']"),
        ("mixed", "12", 12),
        ("mixed", "12 apples", "12 apples"),
    ],
)
def test_values_between_tags(name: str, value: str, given: object) -> None:
    for pieces in ([CODER.format(name, value)], CODER.format(name, value)):
        (call,) = whole(parse(choose_family("", tool_call_parser="qwen3_coder").begin("", [EDIT]), *pieces))
        assert isinstance(call, Call)
        assert json.loads(call.arguments) == {name: given}


@pytest.mark.parametrize(
    ("value", "given"),
    [
        (f'["{LONG}" "a"]', f'["{LONG}" "a"]'),
        (f'["{LONG}", nothing]', f'["{LONG}", nothing]'),
        (f'["{LONG}"] and so on', f'["{LONG}"] and so on'),
        (f'["{LONG}", 12', f'["{LONG}", 12'),
        (f'["{LONG}', f'["{LONG}'),
        (f'["{LONG}", x </tool_call> y', f'["{LONG}", x </tool_call> y'),
    ],
)
def test_a_value_that_breaks_late_goes_on_raw(value: str, given: str) -> None:
    text = CODER.format("edits", value).replace("</function>", "<parameter=note>\nso\n</parameter>\n</function> After")
    for pieces in ([text], text):
        found = whole(parse(choose_family("", tool_call_parser="qwen3_coder").begin("", [EDIT]), *pieces))
        assert found == [Call("edit", f'{{"edits": {given}, "note": "so"}}'), " After"]


@pytest.mark.parametrize(
    ("name", "value"), [("note", "n" + LONG), ("note", " " + LONG), ("mixed", "[x] " + LONG), ("mixed", "5 " + LONG)]
)
def test_a_string_that_begins_like_something_else_is_given_out_as_it_is_written(name: str, value: str) -> None:
    assert max(list(lags("qwen3_coder", CODER.format(name, value).split("\n</par")[0]))[110:]) < 10


@pytest.mark.parametrize("parser", ["json", "llama3_json"])
@pytest.mark.parametrize(
    "text",
    [
        '{"title": "x", "body": "@"}',
        '```json\n{"title": "@"}',
        '[{"title": "@"}',
        '{"id": 1, "type": "a", "body": "@"}',
        '{"name": "Bob", "body": "@"}',
    ],
)
def test_an_answer_in_json_is_given_out_as_it_is_written(parser: str, text: str) -> None:
    assert max(lags(parser, text.replace("@", LONG))) < 100


@pytest.mark.parametrize(("parser", "form"), FORMS.items())
def test_nothing_of_a_forced_call_is_held_back(parser: str, form: str) -> None:
    """A grammar keeps the answer, so what begins as a call is never text, however early it is cut off."""
    text = form.split("@", maxsplit=1)[0] + '[{"old": "ab'
    (call,) = whole(parse(choose_family("", tool_call_parser=parser).begin("", [EDIT], forced=True), *text))
    assert isinstance(call, Call)
    assert (call.name, call.arguments) == ("edit", '{"edits": [{"old": "ab')


@pytest.mark.parametrize("parser", TAGGED)
def test_tags_that_are_cut_off_are_no_arguments(parser: str) -> None:
    text = FORMS[parser].split("@", maxsplit=1)[0][:-4]
    (call,) = whole(parse(choose_family("", tool_call_parser=parser).begin("", [EDIT], forced=True), *text))
    assert isinstance(call, Call)
    assert (call.name, call.arguments, call.over) == ("edit", "", False)
