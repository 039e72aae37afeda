"""Forms: each value stands in the text or follows from it, and the keys, which a server forces, are not learnt."""

# ruff: noqa: E501 - lists read best unbroken

import json
from itertools import pairwise
from random import Random
from typing import Any

from demo_model import data, template
from demo_model.skills import choices, forms, things, values
from demo_model.text import expand
from tests.demo_model.test_products import check


def test_what_is_forced_is_not_learnt() -> None:
    found = {"name": "Ada", "age": 30, "tags": ["a", "b"], "home": {"city": "Rome"}, "ok": True}
    (_, answer) = forms.answered("x", found).messages
    assert answer["content"] == json.dumps(found)
    learnt = [part for part, is_learnt in template.render([answer], [], thinking=False) if is_learnt and part]
    # The token that ends a key says of which type the value is.
    key = '": '
    ends = [key, '"Ada"', ",", key, "30", ",", key, "[", '"a"', ",", '"b"', "]", ",", key, key, '"Rome"', "}", ",", key, "true", "}"]  # fmt: skip
    assert learnt == [*ends, "<|im_end|>"]


def test_some_values_are_cut_from_their_keys() -> None:
    found = {"name": "Ada", "tags": ["a", "b"], "home": {"city": "Rome"}}
    cut = 0
    for number in range(60):
        (_, answer) = forms.answered(f"ask {number}", found).messages
        assert "".join(text for text, _ in answer["parts"]) == json.dumps(found)
        for (before, _), segment in pairwise(answer["parts"]):
            if segment == forms.CUT:
                cut += 1
                assert before in {'": ', "["}
    assert 10 < cut < 120


def test_amounts_of_a_text_have_the_keys_of_their_units() -> None:
    rng = Random(9)
    for _ in range(200):
        ask, answer = (message["content"] for message in forms.measured(rng, "train").messages)
        found = json.loads(answer)
        assert found
        for value in found.values():
            spelled = values.spoken(value) if isinstance(value, int) and value < 1000 else ""
            assert any(way in ask.lower() for way in (str(value).lower(), values.figures(value) if not isinstance(value, str) else value.lower(), spelled) if way)  # fmt: skip


def test_conversations_with_forms_are_rendered_whole() -> None:
    seen = 0
    for made in data.training_conversations(8, 0, 300):
        for message in made.messages:
            if "parts" in message:
                seen += 1
                assert "".join(text for text, _ in message["parts"]) == message["content"]
                assert message["content"] == json.dumps(json.loads(message["content"]), ensure_ascii=False)
    assert seen > 20


def stands(value: Any, text: str) -> bool:
    if isinstance(value, bool):
        return True
    if isinstance(value, list):
        return all(stands(one, text) for one in value)
    said = text.lower()
    if isinstance(value, int | float):
        ways = {str(value), values.figures(value), f"minus {-value}", values.spoken(int(abs(value)) % 1000)}
        ways |= {way for way, amount in values.SPANS["minutes"].items() if amount == value}
        return any(way in said for way in ways)
    return value.lower() in said


def test_every_value_of_a_form_stands_in_the_text() -> None:
    rng = Random(4)
    for _ in range(1500):
        text, found = forms.filled(rng, "train")
        assert found
        assert "{" not in text
        for key, value in found.items():
            if value in ("yes", "no"):
                continue
            assert stands(value, text), (key, value, text)


def test_lists_of_people_have_all_of_them() -> None:
    rng = Random(12)
    seen = 0
    for _ in range(1500):
        text, found = forms.filled(rng, "train")
        for value in found.values():
            if isinstance(value, list):
                seen += 1
                assert 2 <= len(value) == len(set(value))
                assert all(name in text for name in value)
    assert seen > 50


def test_what_is_so_is_not_said_of_what_is_not() -> None:
    rng = Random(5)
    for names, yes, no in (line.split(" ; ") for line in forms.FLAGS.values()):
        said, unsaid = ({expand(rng, way) for _ in range(200)} for way in (yes, no))
        assert len(said) > 2, names
        assert not said & unsaid, names


def test_sums_in_a_form_are_right() -> None:
    rng = Random(6)
    for _ in range(400):
        made = json.loads(forms.sum_form(rng, "train").messages[-1]["content"])
        *steps, result = made.values()
        assert isinstance(result, int)
        assert not steps or check(steps[0]) == result


def test_a_language_is_that_of_the_sentence() -> None:
    rng = Random(7)
    met = set()
    for _ in range(300):
        ask, answer = (message["content"] for message in forms.tongue(rng, "train").messages)
        (language,) = (value for value in json.loads(answer).values() if value in forms.TONGUES)
        met.add(language)
        if language != "English":
            assert any(text in ask for text in forms.TONGUES[language].split("|"))
    assert met == set(forms.TONGUES)


def test_lists_hold_several_different_things() -> None:
    rng = Random(8)
    known = dict(things.LISTS)
    for _ in range(300):
        found = json.loads(forms.dreamt(rng, "train").messages[-1]["content"])
        for key, value in found.items():
            if isinstance(value, list) and key in known and set(value) <= set(known[key]):
                assert 2 <= len(value) == len(set(value))
    for key, items in things.LISTS:
        assert len(items) == len(set(items)) >= 5, key


def test_evaluation_names_the_keys() -> None:
    rng = Random(9)
    for _ in range(100):
        made = forms.make(rng, "held")
        assert "parts" not in made.messages[-1]
        assert all(key in made.messages[0]["content"] for key in json.loads(made.messages[-1]["content"]))


def test_each_label_has_ways_of_its_own() -> None:
    rng = Random(10)
    for line in choices.LABELS:
        keys, labels = choices._line(line)
        assert len(keys) > 1
        ways = {label: {expand(rng, way) for _ in range(100)} for label, way in labels}
        assert len(ways) == len(labels) > 1
        for label, said in ways.items():
            assert len(said) > 1, (keys, label)
            assert not any("[" in one or "|" in one for one in said)
            assert not said & set().union(*(other for key, other in ways.items() if key != label))


def test_a_label_is_one_of_its_line() -> None:
    rng = Random(11)
    known = {label for line in choices.LABELS for label, _ in choices._line(line)[1]} | {True, False}
    for _ in range(300):
        ask, answer = (message["content"] for message in choices.make(rng).messages)
        found = json.loads(answer)
        assert "{" not in ask
        assert any(value in known for value in found.values() if not isinstance(value, float))
        assert all(value in ask for value in found.values() if isinstance(value, str) and value not in known)
