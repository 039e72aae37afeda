import json
import time
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.formats.families.tagged import TaggedFormat
from orchard.formats.format import CallArguments, Content, Format
from orchard.formats.registry import choose_family
from tests.support.examples import some
from tests.support.format_reading import TOOLS, Call, cut, marked, parse, whole

CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
F = Call("f", '{"a": 1}')
LONG = "x" * 70

# Fragments that meet every branch, and every beginning of a tag.
FRAGMENTS = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "\n",
    "\n\n",
    "\n" * 70,
    " ",
    "text",
    "<",
    "<t",
    "</",
    "<tool_",
    "</tool_call",
    '{"name": "f", "arguments": {"a": 1}}',
    '{"name": "f"}',
    '{"name": "f", "arguments": {"a": "',
    LONG,
    '"}}',
    "{",
    "\\",
    "é😀",
]
texts = st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join)
cuts = st.lists(st.integers(0, 200), max_size=12)
settings = st.sampled_from([{"prompt": prompt, "calls": calls} for prompt in ("", "<think>\n") for calls in (0, 1)])


def begin(prompt: str = "", *, calls: bool = True) -> Format:
    return choose_family("<think><tool_call>").begin(prompt, TOOLS if calls else ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello", ["Hello"]),
        ("", []),
        ("\n\nHello\n", ["\n\nHello\n"]),
        ("<think>\nHm.\n</think>\n\nHello", ["[Hm.]", "Hello"]),
        ("\n <think>Hm.\n\nYes.</think>Hello\n", ["[Hm.\n\nYes.]", "Hello\n"]),
        ("<think>\n\n</think>\n\nHello", ["Hello"]),
        ("</think>\n\nHello", ["Hello"]),
        ("<think>still thinking", ["[still thinking]"]),
        ("<think>a</thi", ["[a</thi]"]),
        ("Use <think> and </think>.", ["Use <think> and </think>."]),
        (CALL, [F]),
        (f"<think>\nHm.\n</think>\n\n{CALL}\n{CALL}\n", ["[Hm.]", F, F]),
        (f"I look.\n\n{CALL}\nDone.", ["I look.", F, "Done."]),
        (CALL.removesuffix("\n</tool_call>"), [F]),
        (CALL.removesuffix("call>"), [F]),
        (CALL.replace("\n</", "\n" * 65 + "</"), [F, "</tool_call>"]),
        ("a\n<tool_call>{nonsense}</tool_call>\nb", ["a\n<tool_call>{nonsense}</tool_call>\nb"]),
        ('<tool_call>{"name": "f", "argum', ['<tool_call>{"name": "f", "argum']),
        ("<tool_call>", ["<tool_call>"]),
        ("a <tool", ["a <tool"]),
        ('<tool_call>{"name": "f"}</tool_call>', [Call("f", "{}")]),
        ('<tool_call>{"name": "f", "arguments": null}</tool_call>', [Call("f", "{}")]),
        ('<tool_call>{"name": "f", "arguments": ""}</tool_call>', [Call("f", "{}")]),
        ('<tool_call>{"name": "f", "arguments": "{\\"a\\": [1, 2]}"}</tool_call>', [Call("f", '{"a": [1, 2]}')]),
        ('<tool_call>{"name": "f", "arguments": {"a": "é\ny"}}</tool_call>', [Call("f", '{"a": "é\\ny"}')]),
        ('<tool_call>{"name": "f", "arguments": {"a": "</tool_call>"}}', [Call("f", '{"a": "</tool_call>"}')]),
        ('<tool_call>{"name": "f", "arguments": {"a": "\\ud800"}}</tool_call>', [Call("f", '{"a": "\\ud800"}')]),
        ('<tool_call>{"type": "function", "name": "f", "arguments": {}, "x": [1]}</tool_call>', [Call("f", "{}")]),
        ('<tool_call>{"id": "1", "name": "f", "arguments": {}}</tool_call>', [Call("f", "{}", "1")]),
        ('<tool_call>{"arguments": {}, "id": "1", "name": "f"}</tool_call>', [Call("f", "{}", "1")]),
    ],
)  # fmt: skip
def test_an_answer_with_tools(text: str, expected: list[Call | str]) -> None:
    assert whole(parse(begin(), text)) == expected


@pytest.mark.parametrize(
    "body",
    [
        "[1]",
        "{}",
        '{"name": 1, "arguments": {}}',
        '{"name": "", "arguments": {}}',
        '{"name": "\\ud800", "arguments": {}}',
        '{"name": "f", "arguments": [1]}',
        '{"name": "f", "arguments": "x"}',
        '{"name": "f", "arguments": "{} {}"}',
        '{"arguments": "[", "name": "f"}',
        '{"name": "f", "arguments": {"a": NaN}}',
        '{"name": "f", "arguments": {"a": 1e999}}',
        '{"name": "f", "arguments": {"a": 1,}}',
        '{"name": "f", "arguments": {"a": "\\x"}}',
        '{"name": "f", "arguments": {"a": {"b": "\\x"}}}',
        '{"name": "f", "arguments": {"a": [}]}}',
        '{"name": "f", "arguments": {"a": ' + "9" * 5000 + "}}",
        '{"name": "f", "arguments": {"a": [1,]}}',
        '{"name": "f", "arguments": {"a": [1 2]}}',
        '{"name": "f", "arguments": {"a": {1: 2}}}',
        '{"name": "f", "arguments": {"a": {"b" 2}}}',
        '{"name": "f", "arguments": {"a": [nothing]}}',
    ],
)
def test_what_is_no_call_comes_back(body: str) -> None:
    text = f"\n<tool_call>{body}</tool_call>\n"
    assert whole(parse(begin(), text)) == [text]


@pytest.mark.parametrize(
    ("rest", "arguments", "over", "after"),
    [
        ("\\q and\n</tool_call>\nAfter", "\\q and\n", True, ["After"]),
        ('", "b": nothing}}</tool_call>', '", "b": nothing}}', True, []),
        ('", "b": [1, "</tool_call>", nothing]}}</tool_call>', '", "b": [1, "</tool_call>", nothing]}}', True, []),
        ('", "b": [1, "c', '", "b": [1, "c', False, []),
        ('", "b": [1, {"c": 2], 3]}}</tool_call>', '", "b": [1, {"c": 2], 3]}}', True, []),
        ('", "b": [{"c": "d\\q"}]}}</tool_call>', '", "b": [{"c": "d\\q"}]}}', True, []),
        ('", "b": ' + "[" * 10_000 + "</tool_call>", '", "b": ' + "[" * 10_000, True, []),
        (" and", " and", False, []),
        ("\\u00", "\\u00", False, []),
        ("\\q</tool_", "\\q</tool_", False, []),
    ],
)
def test_a_call_that_breaks_when_it_was_given_out_goes_on_raw(
    rest: str, arguments: str, over: bool, after: list[str]
) -> None:
    text = f'<tool_call>{{"name": "f", "arguments": {{"a": "{LONG}{rest}'
    assert whole(parse(begin(), text)) == [Call("f", f'{{"a": "{LONG}{arguments}', over=over), *after]


def test_arguments_come_as_they_are_written() -> None:
    format_ = begin()
    format_.feed(f'<tool_call>{{"name": "write", "arguments": {{"path": "{LONG}')
    assert format_.feed("so") == [CallArguments("so")]
    assert format_.feed("\n") == [CallArguments("\\n")]
    assert format_.feed('", "content"') == [CallArguments('", ')]
    assert format_.feed(": [1, 2") == [CallArguments('"content": [1, ')]
    assert format_.feed("]") == [CallArguments("2]")]


@pytest.mark.parametrize(
    ("written", "given"),
    [
        ('{"days": "5"}', 5),
        ('{"days": "5.0"}', 5),
        ('{"days": "5.5"}', "5.5"),
        ('{"days": "five"}', "five"),
        ('{"days": 5.0}', 5.0),
        ('{"days": "true"}', "true"),
        ('{"exact": "true"}', True),
        ('{"exact": "False"}', False),
        ('{"exact": "1"}', "1"),
        ('{"tags": "[1, 2]"}', [1, 2]),
        ('{"tags": ["1", "2"]}', ["1", "2"]),
        ('{"tags": "[1"}', "[1"),
        ('{"filter": "{\\"a\\": \\"b\\nc\\"}"}', {"a": "b\nc"}),
        ('{"limit": "5"}', 5),
        ('{"limit": "1e999"}', "1e999"),
        ('{"page": "null"}', None),
        ('{"until": "null"}', "null"),
        ('{"until": null}', None),
        ('{"unit": "5"}', "5"),
        ('{"other": "5"}', "5"),
    ],
)
def test_arguments_have_the_types_of_the_schema(written: str, given: Any) -> None:
    (parameter,) = json.loads(written)
    name = next((tool.name for tool in TOOLS if f"'{parameter}'" in str(tool.parameters)), "now")
    for arguments in (written, json.dumps(written)):
        (call,) = whole(parse(begin(), f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>'))
        assert isinstance(call, Call)
        (found,) = json.loads(call.arguments).values()
        assert (found, type(found)) == (given, type(given))


def test_reasoning_that_the_prompt_opened() -> None:
    assert whole(parse(begin("assistant\n<think>\n"), "Hm.\n</think>\n\nHello")) == ["[Hm.]", "Hello"]


def test_reasoning_that_the_prompt_closed_and_the_model_opens_again() -> None:
    assert whole(parse(begin("<think>\n\n</think>\n\n"), "<think>Hm.</think>Hello")) == ["[Hm.]", "Hello"]


def test_reasoning_that_the_prompt_opened_and_the_model_opens_again() -> None:
    assert whole(parse(begin("assistant\n<think>\n"), "<think>\nHm.\n</think>\n\nHello")) == ["[Hm.]", "Hello"]
    assert whole(parse(begin("assistant\n<think>\n"), "A <think> is")) == ["[A <think> is]"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hi<channel|> there", ["Hi there"]),
        ("Hi\n<channel|>\nthere", ["Hi\n\nthere"]),
        ("<channel|>Hi", ["Hi"]),
        ("<|channel>Hi", ["Hi"]),
        ("Hi <|channel>", ["Hi "]),
        ("<|channel>thought\n<channel|>Hi", ["Hi"]),
        ("<|channel>thought\nHm.<channel|>Hi<|channel>thought\nSo.\n<channel|>You", ["[Hm.]", "Hi", "[So.]", "You"]),
        ("Hi<|channel>thought\nHm.", ["Hi", "[Hm.]"]),
        ("Hi<|channel>though<channel|>", ["Hithough"]),
        ("Hi<|channel>thought\nHm.<|tool_call>call:now{}<tool_call|>", ["Hi", "[Hm.]", Call("now")]),
    ],
)
def test_tags_that_no_text_has_are_left_out_wherever_they_stand(text: str, expected: list[Call | str]) -> None:
    for parts in ([text], list(text)):
        for tools in (TOOLS, ()):
            if tools or "tool_call" not in text:
                format_ = choose_family("", tool_call_parser="gemma4", reasoning_parser="gemma4").begin("", tools)
                assert whole(parse(format_, *parts)) == expected


def test_reasoning_that_nobody_opened_by_a_parser_that_assumes_it() -> None:
    family = choose_family("", reasoning_parser="deepseek_r1")
    assert whole(parse(family.begin("assistant\n"), "Hm.\n</think>\n\nHello")) == ["[Hm.]", "Hello"]
    assert whole(parse(family.begin("<think></think>"), "Hello")) == ["Hello"]
    assert whole(parse(family.begin("assistant\n"), "<think>\nHm.\n</think>\n\nHello")) == ["[Hm.]", "Hello"]


def test_thinking_is_known_while_it_lasts() -> None:
    format_ = begin()
    seen = [(format_.feed(text), format_.thinking)[1] for text in ("<thi", "nk>", "a", "</think", ">", "b")]
    assert seen == [False, True, True, True, False, False]


@given(text=texts, options=settings, places=cuts)
def test_cuts_change_nothing(text: str, options: dict[str, Any], places: list[int]) -> None:
    uncut = parse(begin(**options), text)
    pieces = parse(begin(**options), *cut(text, places))
    assert whole(pieces) == whole(uncut) == whole(parse(begin(**options), *text))
    assert marked(pieces) == marked(uncut)


@given(text=texts, options=settings, places=cuts)
def test_content_says_where_it_stood(text: str, options: dict[str, Any], places: list[int]) -> None:
    last = 0
    for piece in parse(begin(**options), *cut(text, places)):
        if isinstance(piece, Content):
            assert piece.text
            assert text[piece.start :].startswith(piece.text)
            assert piece.start >= last
            last = piece.start + len(piece.text)


@pytest.mark.parametrize("parser", ["hermes", "json"])
def test_newlines_that_end_reasoning_are_none_of_it_whether_or_not_calls_have_tags(parser: str) -> None:
    family = choose_family("", tool_call_parser=parser, reasoning_parser="think")
    assert whole(parse(family.begin("", TOOLS), *"<think>Hm.\n</think>\nHi")) == ["[Hm.]", "Hi"]


@given(text=st.lists(st.sampled_from([f for f in FRAGMENTS if not f.endswith(">")]), max_size=12).map("".join))
def test_text_without_tags_is_the_answer(text: str) -> None:
    assert "".join(str(piece) for piece in whole(parse(begin(), *text))) == text
    thought = whole(parse(begin("<think>\n"), *text))
    assert thought == ([f"[{text.lstrip(chr(10))}]"] if text.strip("\n") else [])


@given(text=st.text(), places=cuts)
def test_plain_passes_everything_through(text: str, places: list[int]) -> None:
    for format_ in (TaggedFormat(), choose_family("").begin("", ())):
        pieces = parse(format_, *cut(text, places))
        assert "".join(str(piece) for piece in whole(pieces)) == text
        assert marked(pieces) == set(enumerate(text))


ROWS = json.dumps([LONG] * 5_000)
LONG_ANSWERS = [
    ("hermes", LONG * 5_000),
    ("hermes", "<think>" + LONG * 5_000),
    ("hermes", "\n" * 350_000),
    ("hermes", f'<tool_call>{{"name": "write", "arguments": {{"path": "{LONG * 5_000}"}}}}</tool_call>'),
    ("hermes", f'<tool_call>{{"name": "search", "arguments": {{"tags": {ROWS}}}}}</tool_call>'),
    ("hermes", f'<tool_call>{{"name": "write", "arguments": {{"any": {[[1]] * 50_000}}}}}</tool_call>'),
    ("hermes", f'<tool_call>{{"arguments": {{"path": "{LONG * 5_000}"}}, "name": "write"}}</tool_call>'),
    ("hermes", '<tool_call>{"name": "f", "arguments": {"a": "\\x"}}</tool_call>' * 5_000),
    ("qwen3_coder", f"<tool_call><function=write><parameter=content>{LONG * 5_000}</parameter></function></tool_call>"),
    ("qwen3_coder", f"<tool_call><function=search><parameter=tags>{ROWS}</parameter></function></tool_call>"),
    ("qwen3_coder", f"<tool_call><function=write><parameter=any>{ROWS}</parameter></function></tool_call>"),
    ("qwen3_coder", f"<tool_call><function=write><parameter=any>{'[' * 350_000}</parameter></function></tool_call>"),
    (
        "qwen3_coder",
        f"<tool_call><function=write><parameter=any>{chr(10) * 350_000}</parameter></function></tool_call>",
    ),
    ("qwen3_coder", f"<tool_call><function=search><parameter=limit>{'9' * 350_000}</parameter></function></tool_call>"),
    ("qwen3_coder", f"<tool_call><function=write><parameter=content>x</parameter>{chr(10) * 350_000}"),
    ("qwen3_coder", f"<tool_call><function=write><parameter=content>x</function>{chr(10) * 350_000}"),
    ("json", f'{{"name": "search", "arguments": {{"tags": {ROWS}}}}}'),
    ("hermes", f"<tool_call>{{'name': 'write', 'arguments': {{'path': '{LONG * 5_000}'}}}}</tool_call>"),
    ("hermes", f"<think></think><think>{LONG * 5_000}"),
    (
        "qwen3_coder",
        f"<tool_call><function=write><parameter=path>\nx\n<parameter=content>{LONG * 5_000}</parameter></function>",
    ),
    ("qwen3_coder", "<tool_call><function=write><parameter=path>" + f"{LONG}\n<parameter=content>" * 5_000),
]


@pytest.mark.parametrize(("parser", "text"), some(LONG_ANSWERS, 2), ids=lambda value: value[:60])
def test_the_cost_is_that_of_the_text(parser: str, text: str) -> None:
    format_ = choose_family("<think>", tool_call_parser=parser).begin("", TOOLS)
    taken: list[float] = []
    for place in range(0, len(text), 10):
        begun = time.perf_counter()
        format_.feed(text[place : place + 10])
        taken.append(time.perf_counter() - begun)
    format_.finish()
    tenth = len(taken) // 10
    # In quadratic time the last tenth takes twenty times as long as the first one.
    assert median(taken[-tenth:]) < 6 * median(taken[:tenth])
