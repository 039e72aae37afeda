"""Orders and lists as a form takes them: all that stands in the text, copied, and "a lemon" is one lemon."""

import json
import re
from collections import Counter
from random import Random
from typing import Any

from demo_model.skills import amounts, orders, schemas, things, values

WORDS = {number: {str(number), values.spoken(number)} for number in range(1000)}
for said, many in values.AMOUNTS.items():
    WORDS[many].add(said)
WORDS[1] |= {"a", "an", "one", "a single", "just one"}


def stands(value: Any, text: str) -> bool:
    if isinstance(value, str):
        other = orders.SIZES.get(value, "").split("|")
        other += [one for one, several, _ in amounts.UNITS if several == value]
        return any(way and way.lower() in text.lower() for way in (value, *other))
    if isinstance(value, int):
        return any(
            re.search(rf"(?<![a-wyz\d-]){way}(?![a-wyz\d-])", text, re.IGNORECASE)
            for way in WORDS.get(value, {str(value)})
        )
    return True


def test_what_is_ordered_stands_in_the_text() -> None:
    rng = Random(1)
    seen: Counter[str] = Counter()
    for _ in range(1500):
        text, found = orders.ordered(rng, "train")
        assert "{" not in text
        assert found
        for key, value in found.items():
            assert stands(value, text.replace(",", "") if isinstance(value, int) else text), (text, key, value)
            kinds = {"one": value == 1, "words": isinstance(value, int) and str(value) not in text}
            seen.update(kind for kind, so in kinds.items() if so)
            seen.update([value] if isinstance(value, str) and value in orders.SIZES else [])
    assert min(seen[one] for one in ("one", "words", *orders.SIZES)) > 100, seen


def test_several_are_called_by_their_plural_and_one_by_its_singular() -> None:
    rng = Random(2)
    for _ in range(500):
        said, fields = orders._goods(rng)
        (_, noun), (_, number), *_ = fields
        if " of " not in said.removeprefix("a couple of").removeprefix("a pair of"):
            assert said.endswith(noun)
            assert number > 1 or said.split(" ", 1)[0] in ("a", "an", "one", "1", "just")
    assert things.several("pear") == "pears"
    assert things.several("box") == "boxes"
    assert things.several("cherry") == "cherries"
    assert things.several("old leaf") == "old leaves"


def test_nouns_are_many_and_some_are_made_up() -> None:
    rng = Random(3)
    drawn = {things.counted(rng) for _ in range(4000)}
    assert len(drawn) > 2000
    assert {("pear", "pears"), ("book", "books"), ("sock", "socks"), ("chair", "chairs")} <= drawn


def test_a_list_has_each_of_its_entries_with_the_same_keys() -> None:
    rng = Random(4)
    lengths: Counter[int] = Counter()
    ones = 0
    for _ in range(1500):
        text, found = orders.listed(rng, "train")
        assert "{" not in text
        (entries,) = [value for value in found.values() if isinstance(value, list)]
        lengths[len(entries)] += 1
        for one in entries:
            parts = one.values() if isinstance(one, dict) else [one]
            assert all(stands(part, text) for part in parts), (text, one)
        if isinstance(entries[-1], dict):
            assert len({tuple(one) for one in entries}) == 1
            ones += 1 in entries[-1].values() and bool(re.search(r"(and|plus|,) an? [^,]*$", text))
    assert set(lengths) == {1, 2, 3, 4, 5, 6}
    assert ones > 150


def test_what_is_told_of_each_of_several_is_kept_together() -> None:
    rng = Random(5)
    for _ in range(600):
        text, found = orders.paired(rng, "train")
        assert not re.search(r"[{}]", text)
        ((_, entries),) = found.items()
        assert entries
        for one in entries:
            assert len(one) == 2
            assert all(stands(value, text) for value in one.values()), (text, one)


def test_the_keys_are_mostly_the_servers_and_evaluation_names_them() -> None:
    rng = Random(6)
    made = [orders.make(rng, "train").messages for _ in range(400)]
    assert 250 < sum("parts" in answer for _, answer in made) < 350
    assert sum('"properties"' in ask["content"] for ask, _ in made) > 10
    for _ in range(100):
        ask, answer = orders.make(rng, "held").messages
        assert "parts" not in answer
        assert all(key in ask["content"] for key in json.loads(answer["content"]))


def test_a_size_is_one_of_the_choices_of_its_schema() -> None:
    rng = Random(7)
    for _ in range(50):
        schema = json.loads(orders._schema(rng, {"size": "large", "items": [{"name": "pears", "n": 2}]}))
        assert "large" in schema["properties"]["size"]["enum"]
        assert schema["properties"]["items"] == schemas.type_of([{"name": "pears", "n": 2}])
        assert schema["required"] == ["size", "items"]
