"""What a schema becomes before llguidance gets it; what comes of that is test_constraint's."""

import json
from typing import Any

import pytest
from llguidance import LLMatcher, LLTokenizer

from orchard.backends.text.grammar.json_schema import are_exclusive, prepare_schema

A: dict[str, Any] = {"properties": {"a": {}}}
CLOSED = A | {"additionalProperties": False}


def made(schema: Any) -> dict[str, Any]:
    found = prepare_schema(schema)
    del found["x-guidance"]
    return found


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (A, CLOSED),
        ({"properties": {"b": {"items": A}}}, CLOSED | {"properties": {"b": {"items": CLOSED}}}),
        ({"anyOf": [A, {"type": "null"}]}, {"anyOf": [CLOSED, {"type": "null"}]}),
        ({"$defs": {"x": A}, "$ref": "#/$defs/x"}, {"$defs": {"x": CLOSED}, "$ref": "#/$defs/x"}),
        ({"properties": {"properties": {"enum": [A]}}}, CLOSED | {"properties": {"properties": {"enum": [A]}}}),
        (A | {"format": {"$ref": "#"}}, CLOSED),
        (A | {"required": ["a", "b"]}, CLOSED | {"required": ["a", "b"], "properties": {"a": {}, "b": {}}}),
    ],
)  # fmt: skip
def test_an_object_that_lists_its_properties_gets_no_others(schema: Any, expected: Any) -> None:
    assert made(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        A | {"additionalProperties": True},
        A | {"patternProperties": {"x": {}}},
        {"allOf": [A, {"properties": {"b": {}}}]},
        A | {"anyOf": [{"properties": {"b": {}}}, {"properties": {"c": {}}}]},
        A | {"$ref": "#/$defs/x", "$defs": {"x": {"properties": {"b": {}}}}},
    ],
)
def test_where_others_are_spoken_of_they_stay(schema: Any) -> None:
    assert made(schema) == schema


@pytest.mark.parametrize(
    ("bounds", "number"),
    [
        ({"exclusiveMinimum": 0, "maximum": 0.9}, "0"),
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 0.5}, "0"),
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 1e-9}, "0"),
        ({"exclusiveMinimum": 1, "exclusiveMaximum": 1.5}, "1"),
        ({"exclusiveMinimum": 5.0, "maximum": 5.5}, "5"),
        ({"minimum": -0.5, "exclusiveMaximum": 0}, "-0"),
        ({"minimum": -1.5, "exclusiveMaximum": -1}, "-1"),
        ({"exclusiveMinimum": 0, "maximum": 0.9, "minimum": 0}, "0"),
        ({"exclusiveMinimum": 0, "maximum": 0.9, "minimum": 0.1}, "0.05"),
        ({"exclusiveMinimum": 0, "maximum": 1}, "0"),
        ({"exclusiveMinimum": 0}, "0"),
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 5}, "5"),
    ],
)
def test_a_whole_number_that_is_excluded_is_none_that_comes(bounds: dict[str, Any], number: str) -> None:
    """llguidance lets it in where the other bound is less than 1 away."""
    bound = prepare_schema({"type": "number"} | bounds)
    assert not takes(bound, number)
    assert not takes(bound, str(float(number)))
    given = [*bounds.values(), bounds[next(iter(bounds))] + 1]  # two bounds, or one and what is beyond it
    assert takes(bound, f"{sum(given[:2]) / 2:.12f}".rstrip("0"))


def takes(schema: dict[str, Any], text: str) -> bool:
    tokens = LLTokenizer("byte")
    matcher = LLMatcher(tokens, LLMatcher.grammar_from_json_schema(json.dumps(schema)))
    assert not matcher.get_error()
    given = tokens.tokenize_str(text)
    return bool(matcher.try_consume_tokens(given) == len(given) and matcher.is_accepting())


@pytest.mark.parametrize(
    ("bounds", "good", "bad"),
    [
        ({"minimum": 3, "exclusiveMinimum": True}, "4", "3"),
        ({"maximum": 3, "exclusiveMaximum": True}, "2", "3"),
        ({"minimum": 3, "exclusiveMinimum": False}, "3", "2"),
        ({"minimum": 0, "exclusiveMinimum": True, "maximum": 3, "exclusiveMaximum": True}, "1", "3"),
    ],
)
def test_bounds_may_be_written_as_draft_4_has_them(bounds: dict[str, Any], good: str, bad: str) -> None:
    for kind in ("integer", "number"):
        bound = prepare_schema({"type": kind} | bounds)
        assert takes(bound, good)
        assert not takes(bound, bad)
    assert made({"type": "integer", "exclusiveMinimum": True}) == {"type": "integer"}


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ('^[^"]*$', ["", "a\\b", "a\nb", "é"], ['a"b', '"']),
        (r"^[^\\]*$", ['a"b', "a\tb"], ["a\\b", "\\"]),
        (r'^[^\\/:*?"<>|]+$', ["a.b", "é\n"], ['a"b', "a\\b", "a:b", ""]),
        (r'^[^-"]$', ["a", "\\"], ["-", '"']),
        (r'^[^]"]$', ["a", "["], ["]", '"']),
        (r'^[^a-]$', ["b", '"'], ["a", "-"]),
        (r'^\[\^"]$', ['[^"]'], ["a"]),
        (r"^\\[^a]$", [r"\b", r"\\"], [r"\a", "b"]),
        ('[^"]', ['"a'], ["", '""']),
    ],
)  # fmt: skip
def test_a_class_that_excludes_what_json_escapes(pattern: str, good: list[str], bad: list[str]) -> None:
    """llguidance adds quote and backslash to a class that has all control characters."""
    bound = prepare_schema({"type": "string", "pattern": pattern})
    assert [text for text in good if not takes(bound, json.dumps(text, ensure_ascii=False))] == []
    assert [text for text in bad if takes(bound, json.dumps(text))] == []
    names = prepare_schema({"type": "object", "patternProperties": {pattern: {}}, "additionalProperties": False})
    assert [name for name in good if not takes(names, json.dumps({name: 1}, ensure_ascii=False))] == []
    assert [name for name in bad if takes(names, json.dumps({name: 1}))] == []


def branch(tag: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "object", "properties": {"kind": tag, **more}, "required": ["kind"], "additionalProperties": False
    }  # fmt: skip


UNION = {"oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}]}
MAPPED = UNION | {"discriminator": {"propertyName": "kind"}}


@pytest.mark.parametrize("union", [UNION, MAPPED])
@pytest.mark.parametrize("lenient", [False, True])
def test_a_union_behind_references(union: dict[str, Any], *, lenient: bool) -> None:
    """llguidance sees that nothing keeps two branches only where they stand in the `oneOf` itself."""
    for cat, dog in (({"const": "cat"}, {"const": "dog"}), ({"enum": ["cat"]}, {"enum": ["dog", "wolf"]})):
        branches = {"cat": branch(cat, a={"type": "integer"}), "dog": branch(dog, puppy=union)}
        schema = prepare_schema(union | {"$defs": branches}, lenient=lenient)
        assert takes(schema, '{"kind": "cat", "a": 1}')
        assert takes(schema, '{"kind": "dog", "puppy": {"kind": "cat"}}')
        assert not takes(schema, '{"kind": "cat", "puppy": {"kind": "cat"}}')
        assert not takes(schema, '{"kind": "cow"}')


def test_a_union_that_may_overlap_stays_a_oneof() -> None:
    schema = UNION | {"$defs": {"cat": branch({"type": "string"}), "dog": branch({"const": "dog"})}}
    assert made(schema) == schema
    branches = {"cat": branch({"const": "cat"}), "dog": branch({"const": "dog"})}
    assert "anyOf" in made(UNION | {"$id": "x", "$defs": branches})
    assert "oneOf" in made(UNION | {"$defs": branches | {"other": {"$id": "y"}}})  # references may count from there
    beside = {"oneOf": [{"const": 1}, {"const": 2}], "anyOf": [{"minimum": 0}]}
    assert made(beside) == beside


def test_what_says_nothing_is_left_out() -> None:
    """Libraries write it."""
    silent = {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {"uniqueItems": False}}
    assert made(silent) == {"type": "object", "additionalProperties": {}}


@pytest.mark.parametrize(
    "pattern", ["^(([a-z]{1,10}){1,10}x?){1,10}$", r"^(.{1,72}\n?){1,50}$", "([a-z]{1,50}){1,50}y"]
)
def test_patterns_that_can_be_read_in_too_many_ways_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="repeats too much within repetitions"):
        prepare_schema({"pattern": pattern})
    assert "pattern" not in prepare_schema({"pattern": pattern}, lenient=True)


def test_other_repetitions_are_kept() -> None:
    for pattern in ("^([A-Z][a-z]{1,20} ?){1,40}$", "^[a-z]{1,5000}$", "^([a-z]{0,100}){0,100}$"):
        assert prepare_schema({"pattern": pattern})["pattern"] == pattern


def tagged(tag: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"kind": tag, "a": {"type": "string"}}, "required": ["kind"], **more}


CAT, DOG = tagged({"const": "cat"}), tagged({"enum": ["dog", "wolf"]})
ROOT = {"$defs": {"cat": CAT, "dog": DOG, "same": {"$ref": "#/$defs/cat"}, "tag": {"const": 1}, "loop": {"$ref": "#"}}}
CAT_REF, DOG_REF = {"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}


@pytest.mark.parametrize(
    "branches",
    [
        [],
        [{}],
        [CAT, DOG],
        [CAT_REF, DOG_REF, {"type": "null"}],
        [{"$ref": "#/$defs/same"}, DOG_REF],
        [tagged({"$ref": "#/$defs/tag"}), tagged({"const": 2})],
        [tagged({"type": "string"}), tagged({"type": ["integer", "null"]})],
        [{"type": "string"}, {"type": "integer"}, {"type": "array"}, CAT],
        [{"enum": ["a", 1]}, {"enum": ["b", 2]}],
        [{"enum": ["a"]}, {"enum": [{"a": 1}]}],
        [{"type": "string", "const": "a"}, {"type": "string", "const": "b"}],
    ],
)
def test_branches_that_shut_each_other_out(branches: list[Any]) -> None:
    assert are_exclusive(branches, ROOT)


@pytest.mark.parametrize(
    "branches",
    [
        [CAT, CAT],
        [CAT_REF, {"$ref": "#/$defs/same"}],
        [CAT_REF, {"$ref": "#/$defs/none"}],
        [{"type": "string"}, {"$ref": "#anchor"}],
        [{"$ref": "#/$defs/loop"}, CAT],
        [CAT, tagged({"enum": ["dog", "cat"]})],
        [CAT, tagged({"const": "dog"}, required=[])],
        [CAT, tagged({"const": "dog"}, type=["object", "null"]), {"type": "null"}],
        [CAT, {key: value for key, value in DOG.items() if key != "type"}],  # what is no object keeps it
        [CAT, {"type": "object"}],
        [CAT, True],
        [{"const": 1}, {"const": 1.0}],
        [{"const": {"a": 1}}, {"const": {"a": 1.0}}],
        [{"type": "integer"}, {"type": "number"}],
        [{"type": "string"}, {"const": "a"}],
        [{"type": "array", "minItems": 1}, {"type": "array", "maxItems": 0}],
    ],
)
def test_branches_that_may_overlap(branches: list[Any]) -> None:
    assert not are_exclusive(branches, ROOT)
