"""Every family of the table, through the one machine."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.formats.calls import CallSyntax
from orchard.formats.format import CallStart, Content, Format, Piece
from orchard.formats.registry import CALLS, Family, choose_family
from tests.support.examples import some
from tests.support.format_reading import TOOLS, Call, cut, marked, parse, whole
from tests.support.specimens.one import SPECIMENS, TEMPLATES, Specimen

# One test for all specimens of a parser: what pytest does for a test takes longer than what most specimens need.
each = pytest.mark.parametrize("parser", dict.fromkeys(one.parser for one in SPECIMENS))
places = st.lists(st.integers(0, 1000), max_size=12)
_FRAGMENT = re.compile(r"<[^<>\n]*>|\[[A-Z_/]+\]|[\w.]+|\s+|.")


def family(specimen: Specimen) -> Family:
    return choose_family("", tool_call_parser=specimen.parser, reasoning_parser=specimen.reasoning)


def specimens(parser: str) -> list[Specimen]:
    return [one for one in SPECIMENS if one.parser == parser]


def begin(specimen: Specimen) -> Format:
    return family(specimen).begin(specimen.prompt, TOOLS)


@each
def test_an_answer_means(parser: str) -> None:
    for specimen in specimens(parser):
        assert whole(parse(begin(specimen), specimen.text)) == specimen.expected, specimen.text


@each
def test_arguments_are_json_objects(parser: str) -> None:
    for specimen in specimens(parser):
        calls = [one for one in whole(parse(begin(specimen), specimen.text)) if isinstance(one, Call)]
        assert all(isinstance(json.loads(call.arguments), dict) and call.over for call in calls), specimen.text


@each
def test_cuts_change_nothing(parser: str) -> None:
    for specimen in specimens(parser):
        uncut = parse(begin(specimen), specimen.text)
        pieces = parse(begin(specimen), *specimen.text)
        assert whole(pieces) == whole(uncut), specimen.text
        assert marked(pieces) == marked(uncut), specimen.text


@each
def test_wherever_the_end_comes_nothing_is_lost(parser: str) -> None:
    for specimen in specimens(parser):
        for length in some(range(len(specimen.text)), 12):
            check(specimen, specimen.text[:length], [length // 2])


@given(data=st.data(), specimen=st.sampled_from(SPECIMENS), places=places)
def test_any_text_is_read_the_same_however_it_is_cut(
    data: st.DataObject, specimen: Specimen, places: list[int]
) -> None:
    fragments = [
        fragment for one in SPECIMENS if one.parser == specimen.parser for fragment in _FRAGMENT.findall(one.text)
    ]
    text = "".join(data.draw(st.lists(st.sampled_from(fragments), max_size=30)))
    check(specimen, text, places)


@given(data=st.data(), specimen=st.sampled_from(SPECIMENS), places=places)
def test_damaged_answers_are_read_the_same_however_they_are_cut(
    data: st.DataObject, specimen: Specimen, places: list[int]
) -> None:
    fragments = _FRAGMENT.findall(specimen.text)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(fragments) - 1))
        fragments[place] = data.draw(st.sampled_from(["", *fragments, '"', "\\", "{", "</", "<"]))
    check(specimen, "".join(fragments), places)


def check(specimen: Specimen, text: str, places: list[int]) -> None:
    uncut = parse(begin(specimen), text)
    pieces = parse(begin(specimen), *cut(text, places))
    assert whole(pieces) == whole(uncut) == whole(parse(begin(specimen), *text)), text
    assert marked(pieces) == marked(uncut), text
    in_order(text, pieces)
    if specimen.reasoning == "none":
        what_is_no_content_is_a_call(specimen, text, pieces)
    if specimen.reasoning == "none" and not any(isinstance(piece, CallStart) for piece in pieces):
        assert marked(pieces) == set(enumerate(text)), "text without calls is content"
    for call in whole(pieces):
        if isinstance(call, Call) and len(call.arguments) <= 64:
            assert call.over
            assert isinstance(json.loads(call.arguments), dict)


def in_order(text: str, pieces: list[Piece]) -> None:
    last = 0
    for piece in pieces:
        if isinstance(piece, Content):
            assert piece.text
            assert text.startswith(piece.text, piece.start)
            assert piece.start >= last
            last = piece.start + len(piece.text)


def what_is_no_content_is_a_call(specimen: Specimen, text: str, pieces: list[Piece]) -> None:
    made = next(row.value for row in CALLS if specimen.parser in row.names)
    if not isinstance(made, CallSyntax):  # a machine of its own
        return
    openers = (*made.opens, *made.leads)
    found = [piece for piece in pieces if isinstance(piece, Content)]
    starts = [0, *(piece.start + len(piece.text) for piece in found)]
    gaps = [text[begin:end] for begin, end in zip(starts, [*(piece.start for piece in found), len(text)], strict=True)]
    assert all(gap.lstrip().startswith(openers) for gap in gaps if gap.strip("\n"))


@each
def test_without_tools_calls_are_text(parser: str) -> None:
    for specimen in specimens(parser):
        pieces = parse(family(specimen).begin(specimen.prompt), specimen.text)
        assert not any(isinstance(piece, CallStart) for piece in pieces), specimen.text
        if specimen.reasoning == "none":
            assert whole(pieces) == [specimen.text]


@pytest.mark.parametrize(("template", "tokens", "calls", "reasoning"), TEMPLATES)
def test_the_family_is_found_by_the_template(
    template: str, tokens: set[str], calls: str, reasoning: tuple[str, str] | None
) -> None:
    found = choose_family(template, tokens)
    assert (found.name, found.reasoning_tags) == (calls, reasoning)


@pytest.mark.parametrize("row", CALLS, ids=lambda row: row.names[0])
def test_every_family_is_known_by_its_names_and_has_a_specimen(row: object) -> None:
    names = row.names  # type: ignore[attr-defined]
    assert all(
        choose_family("<tool_call>", tool_call_parser=name.upper().replace("_", "-")).name == names[0] for name in names
    )
    assert any(specimen.parser in names for specimen in SPECIMENS)


@pytest.mark.parametrize(
    ("template", "prompt", "text"),
    [
        ("<global_setting> <response> <think>", "<think>\n", "Hm.\n</think>\n\n<response>\nHi\n</response>\n"),
        ("<minimax:tool_call> <response> <think>", "<think>\n", "Hm.\n</think>\n\nHi"),
        ("<tool_calls> '<answer>' in content <think>", "", "<think>\nHm.\n</think>\n<answer>\nHi\n</answer>"),
        (
            "<|START_THINKING|> <|START_TEXT|>",
            "<|START_THINKING|>",
            "Hm.<|END_THINKING|><|START_TEXT|>Hi<|END_TEXT|>",
        ),
    ],
)
def test_tags_around_an_answer_are_found_by_the_template(template: str, prompt: str, text: str) -> None:
    assert whole(parse(choose_family(template).begin(prompt), text)) == ["[Hm.]", "Hi"]


@pytest.mark.parametrize(
    ("name", "calls", "reasoning"),
    [
        ("cohere_command3", "cohere", "<|START_THINKING|>"),
        ("cohere_command4", "cohere", "<|START_THINKING|>"),
        ("ernie45", "hermes", "<think>"),
        ("glm47_flash", "glm47", "<think>"),
        ("longcat_flash_lite", "longcat", "<longcat_think>"),
        ("mimo", "qwen3_coder", "<think>"),
        ("qwen3_coder", "qwen3_coder", "<think>"),
        ("functiongemma", "functiongemma", None),
        ("iquest_coder_v1", "hermes", "<think>"),
        ("ling3", "glm47", "<think>"),
        ("musespark1x", "muse_glimmer", " to=self<|message|>"),
        ("poolside_v1", "glm45", "<think>"),
        ("step5", "qwen3_coder", "<think>"),
        ("mixed_think_tool_handoff", "hermes", "<think>"),
    ],
)
def test_names_of_other_servers(name: str, calls: str, reasoning: str | None) -> None:
    found = choose_family("", tool_call_parser=name, reasoning_parser=name)
    assert (found.name, found.reasoning_tags and found.reasoning_tags[0]) == (calls, reasoning)


MLX_OPENAI_SERVERS = """
    functiongemma gemma4 glm47_flash glm4_moe harmony hermes iquest_coder_v1 kimi_k2 longcat_flash_lite minimax_m2
    mixed_think_tool_handoff nemotron3_nano qwen3 qwen3_5 qwen3_coder qwen3_moe qwen3_vl solar_open step_35
"""


@pytest.mark.parametrize("name", MLX_OPENAI_SERVERS.split())
def test_every_parser_of_mlx_openai_server_is_one_of_calls_and_of_reasoning(name: str) -> None:
    assert choose_family("", tool_call_parser=name).name
    choose_family("", reasoning_parser=name)


# The names of vLLM 0.33.0 whose formats are read. Others name formats that aren't read yet, and a parser that leaves
# reasoning in the content.
VLLM_CALLS = """
    apertus cohere_command3 cohere_command4 deepseek_v3 deepseek_v31 deepseek_v32 deepseek_v4 deepseek_v41 ernie45
    functiongemma gemma4 gigachat3 glm45 glm47 granite granite-20b-fc granite4 hermes hunyuan_a13b hy_v3 hy_v4
    inkling internlm jamba k2_horizon kimi_k2 kimi_k3 lfm2 ling3 llama3_json llama4_json llama4_pythonic
    longcat mimo minicpm5 minimax_m2 minimax_m3 mistral muse muse_glimmer musespark1x olmo3 openai phi4_mini_json
    plamo3 poolside_v1 pythonic qwen3_coder qwen3_json qwen3_xml seed_oss step3 step3p5 step5 xlam
"""
VLLM_REASONING = """
    cohere_command3 cohere_command4 deepseek_r1 deepseek_v3 deepseek_v4 deepseek_v41 ernie45 gemma4 glm45 glm47
    granite granite_thinking_parser holo2 hunyuan_a13b hy_v3 hy_v4 inkling k2_horizon kimi_k2 kimi_k3 ling3
    mimo minicpmv minimax_m2 minimax_m3 mistral muse muse_glimmer musespark1x nemotron_v3 olmo3 openai_gptoss plamo3
    poolside_v1 qwen3 seed_oss step3 step3p5 step5
"""


@pytest.mark.parametrize(("option", "names"), [("tool_call_parser", VLLM_CALLS), ("reasoning_parser", VLLM_REASONING)])
def test_parsers_of_vllm_are_known_by_their_names(option: str, names: str) -> None:
    for name in names.split():
        assert choose_family("", **{option: name}).name


@pytest.mark.parametrize("tag", ["think", "thinking"])
def test_mixed_tags(tag: str) -> None:
    family = choose_family("", tool_call_parser="hermes", reasoning_parser="mixed_think_tool_handoff")
    assert whole(parse(family.begin(""), f"<{tag}>Hm.</{tag}>Hi")) == ["[Hm.]", "Hi"]


def test_unknown_names_are_refused_with_those_that_are_known() -> None:
    with pytest.raises(
        ValueError, match=r"'x' is not a known tool_call_parser; the known ones are .*hermes.*qwen3_coder"
    ):
        choose_family("", tool_call_parser="x")
    with pytest.raises(ValueError, match=r"'x' is not a known reasoning_parser; the known ones are .*qwen3"):
        choose_family("", reasoning_parser="x")
