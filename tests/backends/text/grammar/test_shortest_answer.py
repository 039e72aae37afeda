"""Short answers keep their grammars, and are about as short as they can be."""

from typing import Any

import pytest

from orchard.backends.text.grammar import lark
from orchard.backends.text.grammar.constraint import Constraints
from orchard.backends.text.grammar.writer import GrammarText, GrammarWriter
from orchard.backends.text.model import TextModel
from orchard.backends.text.output import Vocabulary
from orchard.backends.text.prompt.special_tokens import special_tokens
from orchard.core.tasks.generate import Generate, Grammar, Tool
from orchard.formats import registry
from orchard.formats.registry import Family, choose_family
from tests.support.examples import some

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "note": {}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
LISTED = {"type": "array", "items": {"anyOf": [PERSON, {"type": "string", "minLength": 2}]}, "minItems": 2}
TREE = {
    "type": "object",
    "properties": {"value": {"type": "number"}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
    "required": ["value", "next"],
}
PLACE = Tool(
    "place",
    parameters={
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        },
        "required": ["city", "tags"],
    },
)


@pytest.fixture(scope="module")
def constraints(model: TextModel) -> Constraints:
    special = special_tokens(model.tokenizer)
    write = GrammarWriter(special).write
    return Constraints(
        model.tokenizer,
        Vocabulary(model.tokenizer).bytes_of,
        model.vocab_size,
        special_tokens=special,
        write=write,
    )


def written(constraints: Constraints, task: Generate, family: Family) -> GrammarText:
    constraint = constraints.describe(task, family, "")
    assert constraint
    found = constraints._write(constraint.request)
    assert found
    return found


def shortest(constraints: Constraints, task: Generate, parser: str = "hermes") -> tuple[str, int]:
    """The text of a short answer, which keeps the grammar, and its number of tokens."""
    family = choose_family("", tool_call_parser=parser)
    constraint = constraints.describe(task, family, "")
    assert constraint
    grammar = constraints.compile(constraint)
    assert grammar
    source = written(constraints, task, family)
    count = constraints._short_answer_length(source)
    assert constraints._short_answers
    tokens = constraints._short_answers.find(source.text, lark.LIMITS, source.ends)
    assert tokens is not None
    assert count == len(tokens)
    matcher = grammar.compiled.first.deep_copy()
    assert matcher.try_consume_tokens(tokens) == len(tokens)
    assert matcher.is_accepting()
    return b"".join(grammar.vocabulary.pieces[token] for token in tokens).decode(), len(tokens)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("json_schema", PERSON, '{"name":"","age":0}'),
        ("json_schema", True, "0"),
        ("json_schema", {"enum": ["a" * 50, "xyz", "bb"]}, '"bb"'),
        ("json_schema", {"anyOf": [PERSON, {"type": "null"}]}, "null"),
        ("json_schema", {"type": "string", "minLength": 4, "maxLength": 9}, '"AAAA"'),
        ("json_schema", {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"}, '"AA-000"'),
        ("json_schema", {"type": "string", "format": "date"}, '"0001-01-01"'),
        ("json_schema", {"type": "integer", "minimum": 17, "maximum": 19}, "17"),
        ("json_schema", LISTED, '["AA","AA"]'),
        ("json_schema", TREE, '{"value":0,"next":null}'),
        ("json_schema", {"const": 'a "{[ \\ b'}, '"a \\"{[ \\\\ b"'),
        ("json_object", None, "{}"),
        ("choice", ["a very long text of many words", "yes", "no"], "no"),
        ("regex", r"[a-c]+/\d{2}", "a/00"),
        ("regex", r"\w{3,9}@\w+\.com", "___@_.com"),
        ("lark", 'start: "a" b\nb: "(" b ")" | "x"', "ax"),
    ],
)
def test_a_short_answer(constraints: Constraints, kind: Any, value: Any, text: str) -> None:
    found, _ = shortest(constraints, Generate(grammar=Grammar(kind, value, "response_format")))
    assert found == text


@pytest.mark.parametrize("parser", some([row.names[0] for row in registry.CALLS], 4))
def test_a_short_call_of_every_family(constraints: Constraints, parser: str) -> None:
    text, count = shortest(constraints, Generate(tools=(PLACE,), must_call=True), parser)
    # Where the marks are no tokens here and begin alike, another call is tried before the end.
    assert text.count('""]') == (2 if parser == "plamo3" else 1)
    assert count <= len(text.encode()) < 700


def test_where_no_short_answer_is_found_some_tokens_are_kept_for_one(constraints: Constraints) -> None:
    task = Generate(grammar=Grammar("regex", ".*END", "response_format"))
    assert constraints._short_answer_length(written(constraints, task, choose_family(""))) == 64
