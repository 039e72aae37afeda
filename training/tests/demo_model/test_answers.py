"""Answers in JSON: whole, on one line, with values that suit their keys, and copied where the text gives them."""

import json
import re
from random import Random

from demo_model.skills import answers, keys

KEYS = {part.partition(":") for kind in answers.KINDS.values() for part in kind.split()}


def test_every_key_has_values() -> None:
    assert {like or key for key, _, like in KEYS} <= set(keys.BY_KEY)


def test_an_answer_is_one_short_line_of_json() -> None:
    rng = Random(1)
    amounts = set()
    for _ in range(500):
        text = answers.make(rng, "train").messages[-1]["content"]
        made = json.loads(text)
        assert text == json.dumps(made, ensure_ascii=False)
        assert len(text) < 500
        amounts.add(len(made))
    assert amounts == {1, 2, 3, 4, 5, 6, 7}


def test_any_key_has_a_short_value() -> None:
    rng = Random(6)
    drawn = {keys.some_key(rng) for _ in range(3000)}
    assert len(drawn) > 800
    for key in drawn:
        shown, value = keys.made(rng, "train", key)
        assert shown in key
        assert value not in ("", [], {})
        assert len(json.dumps(value)) < 200


def test_a_judgement_has_the_mood_of_the_text() -> None:
    rng = Random(7)
    good, bad = re.compile("i love it|very happy with|works perfectly"), re.compile("i hate it|unhappy|broke after")
    for _ in range(300):
        ask, answer = (message["content"] for message in answers.solved(rng, "train").messages[-2:])
        found = json.loads(answer)
        if bad.search(ask.lower()):
            assert "negative" in found.values()
        elif good.search(ask.lower()):
            assert "positive" in found.values()


def test_values_are_of_the_type_that_their_key_says() -> None:
    rng = Random(2)
    for _ in range(200):
        _, made = answers.invented(rng, "train")
        # Now and then a key has a value of another type: a number as text, or a list of one.
        assert str(made.get("age", 1)).strip("[].0") or made["age"] == 0
        assert isinstance(made.get("tags", []), list)
        assert made.get("is_active", True) in (True, False, "yes", "no")
        assert "street" in made.get("address", {"street": ""})
        assert "@" in str(made.get("email", "@"))


def test_what_is_extracted_stands_in_the_text() -> None:
    rng = Random(3)
    for _ in range(300):
        made = answers.extracted(rng, "train")
        ask, answer = (message["content"] for message in made.messages[-2:])
        found = json.loads(answer)
        assert found
        assert all(str(value) in ask for value in found.values()), (ask, found)


def test_some_questions_give_the_keys_or_the_schema_and_some_do_not() -> None:
    rng = Random(4)
    given = {"keys": 0, "schema": 0, "system": 0, "nothing": 0}
    for _ in range(300):
        made = answers.make(rng, "train")
        asked = " ".join(message["content"] for message in made.messages[:-1])
        named = all(key in asked for key in json.loads(made.messages[-1]["content"]))
        given["system"] += made.messages[0]["role"] == "system"
        given["schema"] += '"properties"' in asked
        given["keys"] += named
        given["nothing"] += not named
    assert min(given.values()) > 10, given


def test_a_description_names_the_thing() -> None:
    rng = Random(8)
    seen = 0
    for _ in range(2000):
        kind, made = answers.invented(rng, "train")
        for key in keys.ABOUT & set(made):
            if str(made[key]).startswith(("This ", "The ")):
                seen += kind.partition(" for ")[0] in str(made[key])
    assert seen > 10
    assert keys.described(Random(1), "article for a shop").count("shop") == 0
