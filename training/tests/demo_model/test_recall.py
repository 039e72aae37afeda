"""What people tell and ask for again: the last value counts, and other models' replies are read, not learnt."""

import re
from random import Random

from demo_model import template
from demo_model.exchange import Exchange, assistant, user
from demo_model.skills import attributes, recall
from demo_model.text import Split


def between() -> Exchange:
    return Exchange([user("hi"), assistant("Hello!", "")])


def made(split: Split = "train") -> list[Exchange]:
    rng = Random(8)
    return [recall.make(rng, split, between) for _ in range(400)]


def test_the_answer_says_what_was_told() -> None:
    for one in made():
        *before, question, answer = one.messages
        if answer["content"] == recall.UNKNOWN:
            continue
        if not before:  # told and asked in one message
            told = answer["reasoning_content"].removeprefix("The user told me earlier: ").removesuffix(".")
            assert told in question["content"]
            assert told in answer["content"]
            continue
        for value in (
            answer["reasoning_content"].removeprefix("The user told me earlier: ").removesuffix(".").split("; ")
        ):
            assert value in answer["content"]
            assert any(value in message["content"] for message in before if message["role"] == "user")
            assert value not in question["content"] or len(value) < 4


def test_some_questions_are_for_several_things_and_some_for_what_was_not_told() -> None:
    rng = Random(9)
    answers = [recall.make(rng, "train", between).messages[-1] for _ in range(600)]
    assert sum(answer["content"] == recall.UNKNOWN for answer in answers) > 10
    assert sum("; " in answer["reasoning_content"] for answer in answers) > 20


def test_what_is_told_has_a_question_of_its_own() -> None:
    rng = Random(10)
    for _ in range(300):
        known = recall.things(rng, "train", 4)
        asks = [ask for one in known for ask in set(one.asks)]
        assert len(asks) == len(set(asks))
        assert len({one.value for one in known}) == 4


def test_replies_of_other_models_are_not_learnt() -> None:
    foreign = [m for one in made() for m in one.messages if m.get("learn") is False]
    assert len(foreign) > 200
    for one in made():
        segments = template.render(one.messages, [], thinking=False)
        learnt = [part for part, is_learnt in segments if is_learnt]
        own = [m for m in one.messages if m["role"] == "assistant" and m.get("learn", True)]
        assert learnt == [m["content"] + "<|im_end|>" for m in own]
    assert all(one.messages[-1].get("learn", True) for one in made())


def test_a_correction_counts() -> None:
    rng = Random(2)
    for _ in range(200):
        (known,) = recall.things(rng, "train", 1)
        changed = recall._corrected(rng, "train", known)
        if changed:
            assert re.sub("^(at|on|in) ", "", changed[1].value) in changed[0]
            assert changed[1].value in changed[1].answer
            assert changed[1].value != known.value
            assert changed[1].key == known.key


def test_questions_for_evaluation_are_held_out() -> None:
    for line in attributes.FACTS + attributes.OTHERS:
        assert "~" in line.split(" ; ")[3], line
    train = {one.messages[-2]["content"].lower().rstrip("?") for one in made()}
    held = {one.messages[-2]["content"].lower().rstrip("?") for one in made("held")}
    assert len(held - train) > len(held) * 0.9


def test_each_line_tells_a_value_and_answers_with_it() -> None:
    for line in attributes.FACTS + attributes.OTHERS:
        key, kind, clauses, asks, answer = line.split(" ; ")
        assert kind in attributes.VALUES
        for place in ("{k}", "{w}"):
            held = {place in text for text in (*clauses.split("|"), *asks.split("|"), answer)}
            assert len(held) == 1, line
            assert place != "{k}" or held == {key in attributes.OPTIONS}, line
        assert all("{v}" in clause for clause in (*clauses.split("|"), answer))


def test_two_things_and_titles_with_dots_are_said_whole() -> None:
    rng = Random(11)
    both, titled = ([one for one in attributes.FACTS if one.startswith(key)] for key in ("pair", "titled"))
    for _ in range(100):
        one = recall.thing(rng, "train", both[0])
        assert " and " in one.value
        assert one.answer.endswith(f"{one.value}.")
    assert sum(". " in recall.thing(rng, "train", titled[0]).value for _ in range(100)) > 20


def test_what_is_asked_as_not_told_was_not_told_in_other_words() -> None:
    rng = Random(12)
    for _ in range(1500):
        known = recall.things(rng, "train", 3)
        told = {one.line.split(" ; ", 1)[0] for one in known}
        ask = recall._not_told(rng, "train", known)[0]["content"].lower()
        assert "brothers" not in ask or not told & {"pair", "siblings"}
        assert not any(word in ask for word in ("buy", "bought")) or not told & {"bought", "number_of"}
        assert "my diet" not in ask or "diet" not in told
