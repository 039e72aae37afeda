"""Lists of invented things: never empty, as long as the request says, and learnt where an object begins in one."""

import json
import re
from random import Random

from demo_model import template
from demo_model.skills import answers, crowds, forms, values

NUMBERS = {values.spoken(number): number for number in range(1, 6)} | {str(number): number for number in range(1, 6)}


def _lists(value: object) -> list[list[object]]:
    if isinstance(value, list):
        return [value, *(found for one in value for found in _lists(one))]
    return [found for one in value.values() for found in _lists(one)] if isinstance(value, dict) else []


def test_a_list_has_as_many_entries_as_the_request_says() -> None:
    rng = Random(1)
    counted = 0
    for _ in range(600):
        ask, found = crowds.crowd(rng, "train")
        (made,) = _lists(found)
        assert made
        assert "{" not in ask
        words = re.search(rf"\b({'|'.join(NUMBERS)}) [a-z]", ask.lower())
        if words:
            counted += 1
            assert len(made) == NUMBERS[words[1]], (ask, found)
        assert len({json.dumps(one) for one in made}) == len(made) or len(made) > 3
    assert counted > 200


def test_no_answer_has_an_empty_list() -> None:
    rng = Random(2)
    met = 0
    for _ in range(3000):
        text = answers.make(rng, "train").messages[-1]["content"]
        if text.startswith("{"):
            found = _lists(json.loads(text))
            met += len(found)
            assert all(found), text
    assert met > 400


def test_that_an_object_begins_in_a_list_is_learnt() -> None:
    answer = forms.answered("x", {"members": [{"name": "Ada"}, {"name": "Bo"}]}).messages[-1]
    assert answer["content"] == json.dumps({"members": [{"name": "Ada"}, {"name": "Bo"}]})
    learnt = [part for part, is_learnt in template.render([answer], [], thinking=False) if is_learnt and part]
    key = '": '
    assert learnt == [key, "[", "{", key, '"Ada"', "}", ",", "{", key, '"Bo"', "}", "]", "}", "<|im_end|>"]


def test_what_is_held_out_is_asked_in_other_words() -> None:
    rng = Random(3)
    asked = [crowds.crowd(rng, "held")[0] for _ in range(20)]
    assert all(re.match("(?i)conjure up|kindly devise", ask) for ask in asked)
