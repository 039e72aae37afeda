"""Tools of pieces: the call has what the request says, in the types that the tool's definition asks for."""

import re
from random import Random

from demo_model.skills import frames, parts
from demo_model.skills.define import Offer
from tests.demo_model.test_requests import check_arguments, leaves, spoken


def offers() -> list[Offer]:
    rng = Random(4)
    return [frames.framed(rng, "train") for _ in range(600)]


def test_every_value_stands_in_the_request() -> None:
    for made in offers():
        for value in leaves(made.arguments):
            assert isinstance(value, bool) or spoken(value, made.ask), (made.ask, made.arguments)


def test_arguments_follow_the_schema() -> None:
    for made in offers():
        assert "object" not in check_arguments(made)
        names = made.tool["function"].get("parameters", {"properties": {}})["properties"]
        assert len({re.sub("_", "", name).lower() for name in names}) == len(names)


def test_one_argument_at_most_is_told_by_its_place_alone() -> None:
    rng = Random(5)
    for _ in range(300):
        said = frames._pieces(rng, "train")
        assert said
        assert sum(part.free for part in said) <= 1
        assert all(not (one.words & other.words) for one in said for other in said if one is not other)


def test_nothing_stands_after_a_text_without_quotes() -> None:
    rng = Random(6)
    for _ in range(300):
        text = parts.span(rng, "train", quoted=False)
        assert text.last
        assert frames._ended(rng, "Do it", [" now"], text.mention).rstrip(".?").endswith(text.one.value.rstrip(".?"))


def test_what_follows_says_its_own_values_and_keeps_the_others() -> None:
    rng = Random(7)
    for _ in range(200):
        first, then = frames.followed(rng, "train")
        assert list(then.arguments) == list(first.arguments)
        for name, value in then.arguments.items():
            said = all(isinstance(one, bool) or spoken(one, then.ask) for one in leaves(value))
            assert value == first.arguments[name] or said, (then.ask, then.arguments)
