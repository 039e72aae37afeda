"""Wishes: what the request says of a thing is in the answer, and the rest is of the kind that its key says."""

import json
import re
from random import Random

from tokenizers import Tokenizer, models, pre_tokenizers

from demo_model import batches
from demo_model.skills import values, wishes
from demo_model.skills.wish_beings import SHARED


def test_every_kind_of_thing_has_fields_and_none_twice() -> None:
    assert len(wishes._ALL) > 25
    for kinds, traits in wishes._ALL:
        assert len(traits) > 6, kinds
        assert len({(trait.keys[0], len(trait.inner)) for trait in traits}) == len(traits), kinds
    assert SHARED.count(" ; ") > 60


def test_a_wish_is_short_and_says_nothing_that_is_not_in_the_answer() -> None:
    rng = Random(1)
    told = 0
    for _ in range(2000):
        ask, found = wishes.wished(rng, "train")
        text = json.dumps(found, ensure_ascii=False)
        assert len(text) <= 230
        assert not re.search(r"[{}#\[\]~]|  |\ba [aeio]", ask), ask
        for number in re.findall(r"\d[\d,.]*\d|\d", ask):
            told += 1
            if not re.search(rf"(?<!\d){re.escape(number.replace(',', ''))}", text):
                raise AssertionError((ask, text))
    assert told > 300


def test_numbers_may_be_said_in_words() -> None:
    rng = Random(2)
    seen = 0
    for _ in range(6000):
        ask, found = wishes.wished(rng, "train")
        word = re.search(r" for (two|three|four|five|six)\b", ask)
        if word:
            seen += 1
            assert any(values.spoken(value) == word[1] for value in _numbers(found)), (ask, found)
    assert seen > 10


def _numbers(found: dict[str, object]) -> list[int]:
    inner = [one for value in found.values() if isinstance(value, dict) for one in _numbers(value)]
    return inner + [value for value in found.values() if isinstance(value, int) and 0 <= value < 1000]


def test_capitals_are_those_of_their_countries() -> None:
    rng = Random(3)
    for _ in range(300):
        ask, answer = (message["content"] for message in wishes.capital(rng).messages)
        first, *_ = json.loads(answer).values()
        country = next(name for name in wishes.CAPITALS if name in ask.split(" the capital of ")[-1])
        city = wishes.CAPITALS[country]
        assert first == (city in ask if isinstance(first, bool) else city)


def test_no_token_goes_on_at_an_empty_text() -> None:
    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("x", "removed")
    assert batches._tokens(tokenizer, ["a", "b"]) == ([2], [0])
    assert batches._tokens(tokenizer, ["a", "", "b", "ab"]) == ([0, 1, 2], [0, 1, 2])
