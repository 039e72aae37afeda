"""Patterns and formats of JSON Schema for texts as they are, beside what llguidance makes of them in JSON."""

import json
import re
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer

from orchard.backends.text.grammar.json_schema import prepare_schema
from orchard.backends.text.grammar.text_schema import FORMATS, search_terminal


@cache
def byte_tokens() -> Any:
    return LLTokenizer("byte")


def has(terminal: str, text: str) -> bool:
    return matches(LLMatcher.grammar_from_lark(f"start: T\nT: {terminal}"), text)


def matches(grammar: str, text: str) -> bool:
    matcher = LLMatcher(byte_tokens(), grammar)
    assert not matcher.get_error()
    tokens = byte_tokens().tokenize_str(text)
    return bool(matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting())


atoms = st.sampled_from(["a", "b", r"\d", "[^a]", r"[$^|(]", r"\$", r"\|", "[]a]", "a*", "."])
sequences = st.lists(atoms, max_size=3).map("".join)
edges = st.tuples(st.sampled_from(["", "^"]), sequences, st.sampled_from(["", "$"])).map("".join)
choices = st.lists(edges, min_size=1, max_size=3).map("|".join)
patterns = choices | choices.map(lambda pattern: f"^({pattern})") | choices.map(lambda pattern: f"(?:{pattern})|a$")


@given(patterns, st.text("ab1$^|(]", max_size=4))
def test_a_pattern_is_found_where_python_finds_it(pattern: str, text: str) -> None:
    assert has(search_terminal(pattern), text) == bool(re.search(pattern, text))


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a^b", "has an anchor within it"),
        ("(a|^b)c", "has an anchor within it"),
        (r"\Aa", "anchors other than"),
        ("a\\", "within an escape"),
        ("(?=a)", "look-around"),
        (r"\bx", "lookarounds"),
        ("(a", "unclosed group"),
        (r"(a)\1", "backreferences"),
    ],
)
def test_what_cannot_be_kept_is_told(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as failure:
        search_terminal(pattern)
    assert repr(pattern) in str(failure.value)
    assert "\n" not in str(failure.value)


GOOD = {
    "date": ["2024-02-29", "1999-12-31", "2000-02-29", "0004-02-29", "2023-02-28", "0001-01-01"],
    "time": ["23:59:59Z", "01:02:03.5+01:00"],
    "date-time": ["2024-01-31t00:00:00z", "2024-01-31T23:00:00.123-12:30"],
    "duration": ["P1Y2M3DT4H5M6S", "PT1S", "P3W", "P1M"],
    "email": ["a.b+c@x-y.org", "a@[1.2.3.4]"],
    "hostname": ["a-b.c", "x"],
    "ipv4": ["255.0.10.1"],
    "ipv6": ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "1::8", "1:2::5:6:7:8", "1:2:3:4:5:6::8"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000"],
    "uri": ["http://u:p@x.y:80/a/b?c=d#e", "mailto:a@b", "urn:isbn:1", "file:///etc", "http://[::1]/"],
}
BAD = {
    "date": ["2024-13-01", "2024-04-31", "2024-02-30", "2024-1-1", "2023-02-29", "1900-02-29", "0000-01-01"],
    "time": ["24:00:00Z", "12:00:00", "12:00Z", "23:59:60Z"],
    "date-time": ["2024-01-31", "2024-01-31 00:00:00Z"],
    "duration": ["P", "1Y", "PT", "P1S"],
    "email": ["a", "a@", "a b@c", ".a@b"],
    "hostname": ["-a", "a..b", "", "a-"],
    "ipv4": ["256.1.1.1", "1.2.3", "01.2.3.4"],
    "ipv6": [":", ":::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "1:2:3:4:5:6:7:8::"],
    "uuid": ["123e4567e89b12d3a456426614174000"],
    "uri": ["/a", "a b:c", "http://a b"],
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_those_of_json(name: str) -> None:
    in_json = LLMatcher.grammar_from_json_schema(json.dumps(prepare_schema({"type": "string", "format": name})))
    for text, good in [*((text, True) for text in GOOD[name]), *((text, False) for text in BAD[name])]:
        assert has(FORMATS[name], text) is good, text
        assert matches(in_json, json.dumps(text)) is good, text


@pytest.mark.parametrize("text", ["::ffff:1.2.3.4", "1:2:3:4:5:6:1.2.3.4", "1:2::5:6:7:1.2.3.4"])
def test_an_address_may_end_like_an_old_one(text: str) -> None:
    assert has(FORMATS["ipv6"], text)
