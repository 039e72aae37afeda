"""Answers in JSON: whole, on one line, with values that suit their keys, and copied where the text gives them."""

import json
from random import Random

from tools.demo_model.skills import answers

KEYS = {part.partition(":") for kind in answers.KINDS.values() for part in kind.split()}


def test_every_key_has_values() -> None:
    assert {like or key for key, _, like in KEYS} <= set(answers.BY_KEY)


def test_an_answer_is_one_short_line_of_json() -> None:
    rng = Random(1)
    amounts = set()
    for _ in range(500):
        text = answers.make(rng, "train").messages[-1]["content"]
        made = json.loads(text)
        assert text == json.dumps(made, ensure_ascii=False)
        assert len(text) < 500
        amounts.add(len(made))
    assert amounts == {1, 2, 3, 4, 5, 6}


def test_values_are_of_the_type_that_their_key_says() -> None:
    rng = Random(2)
    for _ in range(200):
        _, made = answers.invented(rng, "train")
        assert isinstance(made.get("age", 1), int)
        assert isinstance(made.get("tags", []), list)
        assert isinstance(made.get("is_active", True), bool)
        assert "street" in made.get("address", {"street": ""})
        assert "@" in made.get("email", "@")


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
