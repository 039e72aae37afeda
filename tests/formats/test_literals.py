import ast
import io
import json
import tokenize
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from orchard.core.tasks.generate import Tool
from orchard.formats.registry import choose_family
from tests.support.format_reading import Call, cut, parse, whole

FREE = Tool("f", parameters={})
TYPED = Tool(
    "f", parameters={"properties": {"n": {"type": "integer"}, "s": {"type": "string"}, "l": {"type": "array"}}}
)

texts = st.text(max_size=8) | st.text("\"'\\\n{}[]()<|>,:=x ", max_size=8)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
names = st.from_regex(r"[a-z_$](?:[a-z0-9_ .\-]{0,4}[a-z0-9])?", fullmatch=True)
arguments = st.dictionaries(names, values, max_size=3)
places = st.lists(st.integers(0, 1000), max_size=8)


def called(parser: str, text: str, tool: Tool = FREE) -> list[Call | str]:
    return whole(parse(choose_family("", tool_call_parser=parser).begin("", [tool]), text))


def python(value: dict[str, Any]) -> str:
    return f"[f({', '.join(f'{name}={one!r}' for name, one in value.items())})]"


def gemma(value: Any, quote: str, *, quoted_keys: bool) -> str:
    """As Gemma's chat templates write values."""
    match value:
        case str():
            return f"{quote}{value}{quote}"
        case dict():
            keys = {key: f"{quote}{key}{quote}" if quoted_keys else key for key in value}
            pairs = (f"{keys[key]}:{gemma(one, quote, quoted_keys=True)}" for key, one in value.items())
            return f"{{{','.join(pairs)}}}"
        case list():
            return f"[{','.join(gemma(one, quote, quoted_keys=True) for one in value)}]"
        case _:
            return json.dumps(value)


@given(value=arguments, places=places)
def test_python_becomes_json(value: dict[str, Any], places: list[int]) -> None:
    text = python(value)
    (call,) = called("pythonic", text)
    assert isinstance(call, Call)
    assert json.loads(call.arguments) == value
    family = choose_family("", tool_call_parser="pythonic")
    assert whole(parse(family.begin("", [FREE]), *cut(text, places))) == [call]


def literals_in(source: str) -> int:
    """Neighbouring literals, which Python joins (`"a" u"b"`), are several."""
    return sum(token.type == tokenize.STRING for token in tokenize.generate_tokens(io.StringIO(source).readline))


@given(text=st.text("\"'\\\n01xu8Nabt{} ", max_size=12), quote=st.sampled_from(["'", '"', "'''", '"""']))
def test_strings_mean_what_python_says(text: str, quote: str) -> None:
    written = f"{quote}{text}{quote}"
    try:
        expected = ast.literal_eval(written)
    except (SyntaxError, ValueError):
        return
    if literals_in(written) == 1 and "\\N" not in text:
        (call,) = called("pythonic", f"[f(a={written})]")
        assert isinstance(call, Call)
        assert json.loads(call.arguments) == {"a": expected}


@given(value=arguments, parser=st.sampled_from(["functiongemma", "gemma4"]))
def test_gemmas_notation_becomes_json(value: dict[str, Any], parser: str) -> None:
    quote, opener, closer = {
        "functiongemma": ("<escape>", "<start_function_call>", "<end_function_call>"),
        "gemma4": ('<|"|>', "<|tool_call>", "<tool_call|>"),
    }[parser]
    assume(quote not in gemma(value, "", quoted_keys=True))
    (call,) = called(parser, f"{opener}call:f{gemma(value, quote, quoted_keys=False)}{closer}")
    assert isinstance(call, Call)
    assert json.loads(call.arguments) == value


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("n='5'", {"n": 5}),
        ("n='5.0'", {"n": 5}),
        ("n='five'", {"n": "five"}),
        ("s=5", {"s": 5}),
        ("l='[1, 2]'", {"l": [1, 2]}),
        ("l=[1, '2']", {"l": [1, "2"]}),
        ("n=0x10", {"n": 16}),
        ("n=-1_0", {"n": -10}),
        ("n=+.5", {"n": 0.5}),
        ("n=1e3", {"n": 1000.0}),
        ("s='\\ud83d\\ude00'", {"s": "😀"}),
        ("s='\\U00110000'", {"s": "\ufffd"}),
        ("s='a\\/b'", {"s": "a\\/b"}),
        ("s=null", {"s": None}),
    ],
)
def test_arguments_have_the_types_of_their_parameters(written: str, expected: dict[str, Any]) -> None:
    (call,) = called("pythonic", f"[f({written})]", TYPED)
    assert isinstance(call, Call)
    assert json.loads(call.arguments) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("s:5", {"s": "5"}),
        ("s:null", {"s": None}),
        ("n:<escape>5<escape>", {"n": 5}),
        ("n:5,s:a b", {"n": 5, "s": "a b"}),
        ('s:"a\\"b"', {"s": 'a"b'}),
        ("l:<escape>[1]<escape>", {"l": [1]}),
        ("x:0x1F", {"x": 31}),
        ("x:on", {"x": "on"}),
    ],
)
def test_words_without_quotes_are_strings_where_they_may_be(written: str, expected: dict[str, Any]) -> None:
    (call,) = called("functiongemma", f"<start_function_call>call:f{{{written}}}<end_function_call>", TYPED)
    assert isinstance(call, Call)
    assert json.loads(call.arguments) == expected


@pytest.mark.parametrize(
    "written",
    [
        "a=b", "a=f()", "a=1+1", "a=b'x'", "a=nan", "a=1e999", "a=9" * 500, "a=007", "a=1__0",
        "a=[1", "a={b: 1}", "a={1}",
        "a=[1,,2]", "a 1", "a=", "=1", "1", "*a", "**{}", "a='x", "a='x' 'y'", "a=(1",
    ],
)  # fmt: skip
def test_what_is_no_literal_is_text(written: str) -> None:
    assert called("pythonic", f"[f({written})]") == [f"[f({written})]"]


def test_a_tool_may_have_the_name_of_the_function_that_calls_stand_in() -> None:
    assert called("gemma3", "```tool_code\nprint(a=1)\n```", Tool("print")) == [Call("print", '{"a": 1}')]


def test_the_cost_is_that_of_the_text() -> None:
    """A reader that looked at everything again with each piece would take minutes."""
    long = "x" * 100_000
    format_ = choose_family("", tool_call_parser="pythonic").begin("", [FREE])
    found = parse(format_, "[f(a='", *long, "', b=[", *("1," * 20_000), "])]")
    assert sum(len(piece.text) for piece in found if hasattr(piece, "text")) > len(long)
