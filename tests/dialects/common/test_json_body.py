from typing import Any

import msgspec
import pytest

from orchard.core.errors import OrchardError
from orchard.dialects.common.json_body import MAX_DEPTH, check_free_form, decode_body


class Inner(msgspec.Struct):
    name: str


class Sample(msgspec.Struct):
    items: list[Inner] | None = None
    anything: Any = None


decoder = msgspec.json.Decoder(Sample)


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        (b"", None, "empty"),
        (b" \r\n\t", None, "empty"),
        (b"{", None, "ends too early"),
        (b'{"anything": NaN}', None, "not valid JSON: invalid character (byte 13)"),
        (b'{"anything": -Infinity}', None, "not valid JSON"),
        (b'{"anything": 1} x', None, "trailing characters"),
        (b'{"anything": "\xff"}', None, "not valid UTF-8: byte 14"),
        (b'{"unknown": "\xc3"}', None, "not valid UTF-8"),
        (b'{"anything": "\\ud800"}', None, "half of a surrogate pair"),
        (b'{"anything": "\\ud800 and more text"}', None, "surrogate pair"),
        (b'{"anything": "\\udc00\\ud800 in the wrong order"}', None, "surrogate pair"),
        (b'{"anything": "\xed\xa0\x80"}', None, "not valid UTF-8"),
        (b"[]", None, "The body must be an object, got an array."),
        (b'"text"', None, "The body must be an object, got a string."),
        (b"null", None, "The body must be an object, got null."),
        (b'{"anything": 1e999}', "anything", "`anything` holds a number that is out of range."),
        (b'{"anything": {"a": [1, -1e999]}}', "anything", "out of range"),
        (b'{"items": [{"name": "a"}, {}]}', "items[1].name", "`items[1].name` is required."),
        (b'{"items": [{"name": 1.5}]}', "items[0].name", "must be a string, got a number with a fraction"),
        (b'{"items": [null]}', "items[0]", "must be an object, got null"),
        (b'{"items": {}}', "items", "must be an array, got an object"),
    ],
)
def test_a_bad_body_is_explained(body: bytes, param: str | None, words: str) -> None:
    with pytest.raises(OrchardError) as caught:
        decode_body(decoder, body)
    assert (caught.value.kind, caught.value.param) == ("invalid_request", param)
    assert words in caught.value.message


def test_null_is_absent_and_unknown_fields_are_ignored() -> None:
    assert decode_body(decoder, b'{"items": null, "unknown": {"deep": [1e999]}}') == Sample()


@pytest.mark.parametrize("opening", [b'{"anything": ', b'{"unknown": ', b'{"items": [{"name": "a", "x": '])
@pytest.mark.parametrize(("unit", "end"), [(b"[", b"]"), (b'{"a": ', b"}")])
@pytest.mark.timeout(10)
def test_deep_nesting_is_refused(opening: bytes, unit: bytes, end: bytes) -> None:
    closed = opening + unit * 100_000 + b"1" + end * 100_000 + b"}"
    for body in (closed, opening + unit * 100_000):
        with pytest.raises(OrchardError, match="nested too deeply"):
            decode_body(decoder, body)


def nested(depth: int) -> object:
    value: object = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


def test_a_free_form_value_may_nest_to_the_limit() -> None:
    check_free_form(nested(MAX_DEPTH), "schema")
    with pytest.raises(OrchardError, match="`schema` is nested too deeply: at most 64 levels") as caught:
        check_free_form(nested(MAX_DEPTH + 1), "schema")
    assert caught.value.param == "schema"


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**200])
def test_a_free_form_value_may_not_hold_huge_integers(number: int) -> None:
    check_free_form({"a": [2**64 - 1, -(2**63), True, 1.5, None, "x"]}, "schema")
    with pytest.raises(OrchardError, match="64 bits"):
        check_free_form({"a": [number]}, "schema")
