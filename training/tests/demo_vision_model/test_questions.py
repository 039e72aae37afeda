"""Every answer is right: what it and its question speak of is looked up in the scene again."""

import re
from collections.abc import Iterator
from random import Random

import pytest

from demo_model.text import Split, expand
from demo_vision_model import questions
from demo_vision_model.scenes import COLOURS, PLACES, SHAPES, Scene, Thing, scene

SPLITS: tuple[Split, ...] = ("train", "seen", "held")
ASKS = ("COLOUR", "SHAPE", "PLACE", "COUNT", "PRESENT", "DESCRIBE", "WHICH", "APART")
ROWS = {"top": 0, "upper": 0, "bottom": 2, "lower": 2}
COLUMNS = {"left": 0, "right": 2}


def meant(one: Scene, phrase: str) -> list[Thing]:
    """Return the things of a scene that fit all colours, shapes and places in a phrase."""
    words = re.findall(r"[a-z]+", phrase.lower())
    kinds = {"crosses": "cross"} | {shape + "s": shape for shape in SHAPES} | {shape: shape for shape in SHAPES}
    things = list(one.things)
    things = [thing for thing in things if all(thing.colour == word for word in words if word in COLOURS)]
    things = [thing for thing in things if all(thing.shape == kinds[word] for word in words if word in kinds)]
    if {*ROWS, *COLUMNS, "center", "middle"} & set(words):
        row = next((ROWS[word] for word in words if word in ROWS), 1)
        column = next((COLUMNS[word] for word in words if word in COLUMNS), 1)
        things = [thing for thing in things if thing.place == 3 * row + column]
    return things


def found(pattern: str, text: str) -> tuple[str, ...]:
    match = re.fullmatch(pattern, text)
    assert match, text
    return match.groups()


def asked(kind: str) -> Iterator[tuple[Scene, str, str]]:
    """Ask about many scenes: each scene, the question's pattern and the answer."""
    for seed in range(150):
        rng = Random(f"{kind}:{seed}")
        one = scene(rng, SPLITS[seed % 3], seed % 6 + 1)
        if made := questions.SINGLE[kind](rng, SPLITS[seed % 3], one):
            yield one, *made


def pairs(kind: str) -> Iterator[tuple[Scene, Scene, str, str]]:
    for seed in range(100):
        rng = Random(f"{kind}:{seed}")
        first, second = questions.two(rng, SPLITS[seed % 3], (seed % 4 + 1, seed % 3 + 1), [(1, 1), (1, 1)])
        made = questions.DOUBLE[kind](rng, SPLITS[seed % 3], first, second)
        assert made
        yield first, second, *made


@pytest.mark.parametrize("kind", ["colour", "shape", "position"])
def test_one_thing_is_meant_and_told_of(kind: str) -> None:
    missing = 0
    for one, question, answer in asked(kind):
        if answer.startswith("There is no "):
            missing += 1
            assert kind != "shape"
            assert meant(one, answer) == meant(one, question) == []
            continue
        subject, told = found(r"The (.*) is (.*)\.", answer)
        (thing,) = meant(one, subject)
        assert meant(one, question) == [thing]
        if kind == "position":
            assert told == PLACES[thing.place]
        else:
            assert told.removeprefix("a ").removeprefix("an ") == getattr(thing, kind)
        assert told not in question.split()  # else it gives itself away
    assert (missing > 0) == (kind != "shape")


def test_counts() -> None:
    numbers = set()
    for one, question, answer in asked("count"):
        verb, number, what = found(r"There (is|are) (no|\d) (.*)\.", answer)
        count = 0 if number == "no" else int(number)
        numbers.add(count)
        assert count == len(meant(one, what)) == len(meant(one, question))
        assert (verb == "is") == (count == 1)
    assert numbers == set(range(7))


def test_presence() -> None:
    kinds = set()
    for one, question, answer in asked("present"):
        there, what = found(r"(Yes, there is an?|No, there is no) (.*)\.", answer)
        kinds.add(there[:2])
        assert there.startswith("Yes") == bool(meant(one, what)) == bool(meant(one, question))
    assert kinds == {"Ye", "No"}


def test_descriptions() -> None:
    for one, _, answer in asked("describe"):
        if len(one.things) > 4:
            assert answer == f"I see {len(one.things)} shapes."
        else:
            named = re.findall(rf"an? ({'|'.join(COLOURS)}) ({'|'.join(SHAPES)})", answer)
            assert named == [(thing.colour, thing.shape) for thing in sorted(one.things, key=lambda thing: thing.place)]


def test_which_picture() -> None:
    says = {
        "The first picture": (1, 0),
        "The second picture": (0, 1),
        "Both pictures": (1, 1),
        "Neither picture": (0, 0),
    }
    given = set()
    for first, second, question, answer in pairs("which"):
        subject, what = found(r"(.* pictures?) (?:has|have) an? (.*)\.", answer)
        given.add(subject)
        for phrase in (what, question.replace("{w}", what)):
            assert says[subject] == tuple(int(bool(meant(one, phrase))) for one in (first, second))
    assert given == says.keys()


def test_what_tells_pictures_apart() -> None:
    given = set()
    for first, second, _, answer in pairs("apart"):
        one, other = ({(thing.place, thing.colour, thing.shape) for thing in each.things} for each in (first, second))
        lost, new = ([f"{colour} {shape}" for _, colour, shape in side] for side in (one - other, other - one))
        named = re.findall(rf"an? ((?:{'|'.join(COLOURS)}) (?:{'|'.join(SHAPES)}))", answer)
        way = re.sub(r"an? \w+ \w+", "X", answer)
        given.add(way)
        expected = {
            "The two pictures show the same.": not lost and not new,
            "They differ: the first picture has X, the second X.": [lost, new] == [[name] for name in named],
            "They differ: only the first picture has X.": (lost, new) == (named, []),
            "They differ: only the second picture has X.": (lost, new) == ([], named),
            "They differ: they show different shapes.": len(lost + new) > 1 and (len(lost), len(new)) != (1, 1),
        }
        assert expected[way], answer
    assert len(given) == 5


def test_articles() -> None:
    for colour in COLOURS:
        article = "an" if colour == "orange" else "a"
        thing = Thing(colour, "oval", 0, 0.1, 0.1, 90, (0, 0, 0), 0.0, 0.0)
        assert questions.named(thing) == f"{article} {colour} oval"


def test_a_question_says_which_picture_it_is_about() -> None:
    for seed in range(40):
        rng = Random(seed)
        number = seed % 2
        for pattern in ("Is there a star{in}?", "Does {this} have a star?"):
            text = questions.asked(rng, pattern, number).lower()
            assert {"first": 0, "1": 0, "second": 1, "2": 1}[found(r".*(first|second|1|2).*", text)[0]] == number
            assert not re.search(r"first|second|\d|\{", questions.asked(rng, pattern, None))


@pytest.mark.parametrize("name", ASKS)
def test_every_kind_has_held_wordings(name: str) -> None:
    patterns: list[str] = getattr(questions, name)
    held, trained = (
        {expand(Random(i), ask.lstrip("~")) for ask in patterns if ask.startswith("~") == wanted for i in range(30)}
        for wanted in (True, False)
    )
    assert held
    assert not held & trained
