"""Sets of tools: each request gives what its tool must have, and the tools beside it are others."""

from random import Random

import pytest
from tools.demo_model.skills import kitted, situated
from tools.demo_model.skills.kits import KITS

from tests.tools.demo_model.test_requests import leaves, spoken

LINES = [line for kit in KITS for line in kit]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split("|")[0])
def test_requests_give_what_the_tool_must_have(line: str) -> None:
    rng = Random(1)
    for _ in range(60):
        made, _ = situated.made(rng, "train", line)
        parameters = made.tool["function"]["parameters"]
        assert set(parameters.get("required", ())) <= set(made.arguments), (made.ask, made.arguments)
        assert not set("{<") & set(made.ask)
        for name, value in made.arguments.items():
            schema = parameters["properties"][name]
            assert value in schema.get("enum", [value])
            if "enum" not in schema:
                assert all(isinstance(leaf, bool) or spoken(leaf, made.ask) for leaf in leaves(value)), (
                    made.ask,
                    value,
                )


def test_tools_beside_have_other_names() -> None:
    rng = Random(2)
    for _ in range(300):
        made = kitted.kitted(rng, "train")
        names = [made.name, *(tool["function"]["name"] for tool in made.beside)]
        assert len(set(names)) == len(names)
