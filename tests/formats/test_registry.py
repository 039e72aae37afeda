"""Families that read Hermes' calls beside their own, and the names of converters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.formats.registry import Family, add_hermes, choose_family, template_converter
from tests.support.format_reading import TOOLS, Call, cut, marked, parse, whole

HERMES = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
LONG = f'{{"content": "{"x" * 80}"'
BROKEN = f'<tool_call>\n{{"name": "write", "arguments": {LONG} oops</tool_call>'
LFM = "<|tool_call_start|>[now()]<|tool_call_end|>"
QWEN = "<tool_call>\n<function=now>\n</function>\n</tool_call>"

SPECIMENS: list[tuple[str, str, list[Call | str]]] = [
    ("lfm2", f"So:\n{HERMES}\n{LFM} Done.", ["So:", Call("now"), Call("now"), " Done."]),
    ("lfm2", f"{BROKEN}{HERMES}", [Call("write", f"{LONG} oops"), Call("now")]),
    ("lfm2", BROKEN.removesuffix("ll>"), [Call("write", f"{LONG} oops</tool_ca", over=False)]),
    ("lfm2", "<tool_call>\nnone</tool_call>", ["<tool_call>\nnone</tool_call>"]),
    ("gemma3", f"```tool_code\nnow()\n```\n{HERMES}", [Call("now"), Call("now")]),
    ("qwen3_coder", f"{QWEN}\n{HERMES}\n{QWEN}", [Call("now")] * 3),
    ("qwen3_coder", f"{BROKEN}{QWEN}", [Call("write", f"{LONG} oops"), Call("now")]),
    ("deepseek_v3", HERMES, [Call("now")]),
    ("json", f'{{"name": "now"}}\n{HERMES}', [Call("now"), Call("now")]),
    ("hermes", HERMES, [Call("now")]),
]


def family(parser: str) -> Family:
    return add_hermes(choose_family("", tool_call_parser=parser))


@pytest.mark.parametrize(("parser", "text", "expected"), SPECIMENS)
def test_both_ways_are_read(parser: str, text: str, expected: list[Call | str]) -> None:
    assert whole(parse(family(parser).begin("", TOOLS), text)) == expected
    assert whole(parse(family(parser).begin("", TOOLS), *text)) == expected


@given(data=st.data(), specimen=st.sampled_from(SPECIMENS), places=st.lists(st.integers(0, 1000), max_size=12))
def test_damaged_answers_are_read_the_same_however_they_are_cut(
    data: st.DataObject, specimen: tuple[str, str, list[Call | str]], places: list[int]
) -> None:
    parser, text, _ = specimen
    begin, end = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=2, max_size=2)))
    text = text[:begin] + data.draw(st.sampled_from(["", '"', "{", "</", "<tool_call>", text])) + text[end:]
    uncut = parse(family(parser).begin("", TOOLS), text)
    pieces = parse(family(parser).begin("", TOOLS), *cut(text, places))
    assert whole(pieces) == whole(uncut)
    assert marked(pieces) == marked(uncut)


def test_calls_are_forced_as_the_prompt_describes_them() -> None:
    lfm = choose_family("", tool_call_parser="lfm2")
    assert add_hermes(lfm).calls_grammar(TOOLS) == lfm.calls_grammar(TOOLS)
    assert add_hermes(lfm, described=True).calls_grammar(TOOLS) == choose_family(
        "", tool_call_parser="hermes"
    ).calls_grammar(TOOLS)


def test_harmony_is_left_as_it_is() -> None:
    harmony = choose_family("", tool_call_parser="harmony")
    assert add_hermes(harmony) is harmony


@pytest.mark.parametrize("name", ["minimax", "MiniMax-M2", "glm4_moe", "qwen3_coder"])
def test_most_take_arguments_as_objects(name: str) -> None:
    assert template_converter(name) == {"calls": True, "text_arguments": False}


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match=r"'x' is not a known message_converter; the known ones are .*hermes.*minimax"):
        template_converter("x")
