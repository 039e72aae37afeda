"""A marked part of a request is said back: it stands between its marks, once, and without them."""

from random import Random

from demo_model.skills import echo, marked
from demo_model.text import Split


def test_what_is_said_stands_in_the_request_without_its_marks() -> None:
    rng = Random(1)
    splits: list[Split] = ["train", "held"]
    for index in range(1500):
        ask, text = marked.asked(rng, splits[index % 2])
        assert text in ask
        assert text == text.strip() != ""
        assert not any(place in ask for place in ("{t}", "{m}", "{j}", "{n}"))


def test_every_pair_of_marks_is_met() -> None:
    rng = Random(2)
    asked = [marked.asked(rng, "train") for _ in range(3000)]
    for start, end, _ in marked.AROUND:
        assert any(f"{start}{text}{end}" in ask for ask, text in asked), start
    for mark, _ in marked.AFTER:
        assert any(f"{mark}{text}" in ask for ask, text in asked), mark


def test_marked_parts_are_among_what_is_said_back() -> None:
    rng = Random(3)
    asked = [echo.make(rng, "train").messages[0]["content"] for _ in range(600)]
    assert sum("after the" in ask or "brackets" in ask or "before the" in ask for ask in asked) > 10
