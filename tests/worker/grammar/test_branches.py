from typing import Any

import pytest

from orchard.worker.grammar.branches import exclusive


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
    assert exclusive(branches, ROOT)


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
    assert not exclusive(branches, ROOT)
