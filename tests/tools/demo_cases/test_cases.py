"""The cases themselves: they are written as the runner reads them, and they can be right and wrong."""

import functools
import json
from collections import Counter

import msgspec
import pytest
from tools.demo_cases.cases import Step, Trial, kinds, object_schema, trial
from tools.demo_cases.judge import Said, misfit, wrong_calls

from tools.demo_cases import cases

read = functools.cache(cases.read)  # parsing takes longer than all else here


def right_value(value: object, schema: dict[str, object]) -> object:
    """A value that a case takes: the first one of a list of right ones."""
    return value[0] if isinstance(value, list) and schema["type"] != "array" else value


def test_there_are_three_hundred() -> None:
    assert sum(len(read(kind)) for kind in kinds()) == 300


def test_no_conversation_is_tried_twice() -> None:
    every = [(case.turns, case.system, case.tools, case.schema) for kind in kinds() for case in read(kind)]
    counts = Counter(msgspec.json.encode(case) for case in every)
    assert [case for case, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("kind", kinds())
def test_cases_expect_something(kind: str) -> None:
    for case in read(kind):
        steps = case.steps()
        assert steps
        expects = any(step != Step(step.say) for step in steps)
        assert expects or case.tools or case.schema, case


@pytest.mark.parametrize("kind", kinds())
def test_expected_calls_fit_their_tools(kind: str) -> None:
    for case in read(kind):
        schemas = {name: object_schema(tool.takes) for name, tool in case.tools.items()}
        for step in case.steps():
            calls = []
            for name, wanted in step.calls():
                properties = schemas[name]["properties"]
                arguments = {key: right_value(value, properties[key]) for key, value in wanted.items()}
                assert misfit(arguments, schemas[name]) is None, step
                calls.append((name, json.dumps(arguments)))
            assert not calls or wrong_calls(step, Said("", calls), schemas) is None


def test_fields_are_properties_of_their_schema() -> None:
    for case in read("schemas"):
        for step in case.steps():
            for path in step.fields:
                schema = object_schema(case.schema or {})
                for name in path.split("."):
                    schema = schema["properties"][name]


def test_the_notation_of_properties() -> None:
    written = {
        "name": "string (who it is)",
        "sizes": "number[]",
        "when": "date",
        "how": "fast|slow?",
        "home": {"street": "string"},
        "pets": [{"legs": "integer?"}],
    }
    pets = {
        "type": "object",
        "properties": {"legs": {"type": "integer"}},
        "required": [],
        "additionalProperties": False,
    }
    home = {
        "type": "object",
        "properties": {"street": {"type": "string"}},
        "required": ["street"],
        "additionalProperties": False,
    }
    assert object_schema(written) == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "who it is"},
            "sizes": {"type": "array", "items": {"type": "number"}},
            "when": {"type": "string", "format": "date"},
            "how": {"type": "string", "enum": ["fast", "slow"]},
            "home": home,
            "pets": {"type": "array", "items": pets},
        },
        "required": ["name", "sizes", "when", "home", "pets"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("written", ["text", "string (", "strings[]", "string ?"])
def test_a_type_that_is_none(written: str) -> None:
    with pytest.raises(ValueError, match="not a type"):
        object_schema({"name": written})


def test_a_case_with_one_turn_and_one_with_several() -> None:
    assert trial({"say": "hi", "has": ["hello"]}) == Trial([Step("hi", has=["hello"])])
    assert trial({"turns": ["hi", {"say": "bye"}], "system": "Be kind."}).steps() == [Step("hi"), Step("bye")]
    with pytest.raises(msgspec.ValidationError, match="holds"):
        trial({"say": "hi", "holds": ["hello"]})
