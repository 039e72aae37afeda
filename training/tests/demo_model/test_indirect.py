"""Requests that are hard to read: the values of a call stand in them, and no word that asks is one."""

import re
from collections.abc import Callable
from random import Random

import pytest

from demo_model.skills import (
    around,
    assembled,
    copied,
    implied,
    implied_words,
    kept,
    questions,
    rated,
    situated,
    tools,
)
from demo_model.skills.define import Offer
from demo_model.text import Split
from tests.demo_model.test_requests import check_arguments, leaves, spoken

Maker = Callable[[Random, Split], Offer]
MAKERS: list[Maker] = [
    *dict.fromkeys(questions.MAKERS),
    *dict.fromkeys(kept.MAKERS),
    *dict.fromkeys(rated.MAKERS),
    implied.implied,
    around.excused,
    around.meant,
    copied.copied,
]
MAKER = pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)


def _choices(made: Offer) -> list[object]:
    properties = made.tool["function"].get("parameters", {"properties": {}})["properties"]
    return [option for schema in properties.values() for option in schema.get("enum", ())]


@MAKER
@pytest.mark.parametrize("split", ["train", "held"])
def test_every_value_stands_in_the_request_or_is_a_choice(maker: Maker, split: Split) -> None:
    rng = Random(1)
    for _ in range(400):
        made = maker(rng, split)
        check_arguments(made)
        assert not re.search(r"[{}]|  | ,|please, please|\b(the|my|our) (the|my|our)\b", made.ask), made.ask
        for value in leaves(made.arguments):
            said = isinstance(value, bool) or value in _choices(made) or spoken(value, made.ask)
            assert said, (made.ask, made.arguments)
            copied_whole = not isinstance(value, str) or value in _choices(made) or value in made.ask
            assert copied_whole, (made.ask, made.arguments)


@pytest.mark.parametrize("maker", questions.MAKERS)
def test_no_word_that_asks_is_a_value(maker: Maker) -> None:
    asking = {"who", "what", "which", "when", "where", "how", "run", "is", "are", "the", "open", "free"}
    rng = Random(2)
    for _ in range(400):
        made = maker(rng, "train")
        assert not any(str(value).lower() in asking for value in leaves(made.arguments)), (made.ask, made.arguments)


def test_questions_may_name_nothing_to_look_for() -> None:
    rng = Random(3)
    made = [questions.opened(rng, "train") for _ in range(200)]
    assert all(one.arguments == {} for one in made)
    assert sum(bool(one.tool["function"].get("parameters", {}).get("properties")) for one in made) > 80


def test_two_that_are_compared_are_in_the_order_in_which_they_are_said() -> None:
    rng = Random(4)
    for _ in range(300):
        made = questions.compared(rng, "train")
        about = made.tool["function"]["parameters"]["properties"]
        values = {about[name].get("description", "")[:5]: str(value) for name, value in made.arguments.items()}
        places = [made.ask.find(value) for start, value in sorted(values.items()) if start in {"First", "Secon"}]
        assert len(places) < 2 or values["First"] in values["Secon"] or places == sorted(places), made.ask


def test_a_flag_is_what_is_said_in_other_words() -> None:
    rng = Random(5)
    seen = set()
    ways = {
        key: (plain.split("|"), opposite.split("|"), yes.split("|"), no.split("|"))
        for key, plain, opposite, yes, no in (line.split(" ; ") for line in implied_words.FLAGS)
    }
    for _ in range(1500):
        made = implied.implied(rng, "train")
        flags = {name: value for name, value in made.arguments.items() if isinstance(value, bool)}
        for plain, opposite, yes, no in ways.values():
            for name, value in flags.items():
                named = re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()
                if named not in {*plain, *opposite}:
                    continue
                meant = value if named in plain else not value
                said = [way.rstrip("!").lower() in made.ask.lower() for way in (yes if meant else no)]
                seen.add((named in plain, meant, any(said)))
    assert {(True, True, True), (True, False, True), (False, True, True), (False, False, True)} <= seen


def test_flags_have_both_ways_and_no_name_of_another_one() -> None:
    names: set[str] = set()
    keys = set()
    for line in implied_words.FLAGS:
        key, plain, opposite, yes, no = line.split(" ; ")
        keys.add(key)
        own = {*plain.split("|"), *opposite.split("|")}
        assert len(own) == len(plain.split("|")) + len(opposite.split("|")), line
        assert not {*yes.split("|")} & {*no.split("|")}
        names |= own
    assert all(set(line.split(" ; ")[-1].split()) <= keys for line in implied_words.BASES)


@pytest.mark.parametrize("line", [*copied.COPIED, *(line.rsplit(" ; ", 1)[0] for line in implied_words.BASES)])
def test_lines_give_what_the_tool_must_have(line: str) -> None:
    rng = Random(6)
    for _ in range(40):
        made, _ = situated.made(rng, "train", line)
        required = made.tool["function"].get("parameters", {}).get("required", ())
        assert set(required) <= set(made.arguments), (made.ask, made.arguments)


def test_what_is_taken_back_is_not_called() -> None:
    rng = Random(7)
    marks = re.compile(r"not|no|mean|actually|wait|sorry|only|just|rather|make|better|scratch|will do|uh", re.I)
    for _ in range(300):
        made = around.meant(rng, "train")
        assert marks.search(made.ask), made.ask


def test_a_note_keeps_the_text_and_not_that_it_is_urgent() -> None:
    rng = Random(8)
    flags = []
    for _ in range(400):
        made = kept.noted(rng, "train")
        flags += [value for value in made.arguments.values() if isinstance(value, bool)]
        assert not any("urgent" in str(value).lower() for value in made.arguments.values())
    assert 0 < sum(flags) < len(flags)


def test_tools_beside_are_others() -> None:
    rng = Random(9)
    several = 0
    for _ in range(500):
        made = tools.indirect(rng, "train")
        names = [made.name, *(tool["function"]["name"] for tool in made.beside)]
        assert len(set(names)) == len(names)
        several += len(names) > 1
    assert several > 200
    assert not tools.indirect(rng, "train", alone=True).beside


def test_two_arguments_of_one_name_are_both_kept() -> None:
    rng = Random(10)
    one, two = (assembled.argument(rng, "name", value) for value in ("Ada", "Bo"))
    made = assembled.assembled(rng, "greet", "Greet.", [one, two], [], "Greet Ada and Bo")
    assert list(made.arguments.values()) == ["Ada", "Bo"]
