"""What people tell and ask for again: the last value counts, and other models' replies are read, not learnt."""

from random import Random

from tools.demo_model.exchange import Exchange, assistant, user
from tools.demo_model.skills import recall
from tools.demo_model.text import Split

from tools.demo_model import template


def made(split: Split = "train") -> list[Exchange]:
    rng = Random(8)
    return [recall.make(rng, split, lambda: Exchange([user("hi"), assistant("Hello!", "")])) for _ in range(400)]


def test_the_answer_says_what_was_told() -> None:
    for one in made():
        *before, question, answer = one.messages
        value = answer["reasoning_content"].removeprefix("The user told me earlier: ").removesuffix(".")
        assert value in answer["content"]
        assert any(value in message["content"] for message in before if message["role"] == "user")
        assert value not in question["content"] or len(value) < 4


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
    lines = {line.split(" ; ")[0]: line for line in recall.FACTS}
    for _ in range(100):
        known = recall.thing(rng, "train", lines["city"])
        changed = recall._corrected(rng, "train", known, lines["city"])
        if changed:
            assert changed[1].value in changed[0]
            assert changed[1].value in changed[1].answer
            assert changed[1].value != known.value


def test_questions_for_evaluation_are_held_out() -> None:
    for line in recall.FACTS + recall.OTHERS:
        assert "~" in line.split(" ; ")[3], line
    train = {one.messages[-2]["content"].lower().rstrip("?") for one in made()}
    held = {one.messages[-2]["content"].lower().rstrip("?") for one in made("held")}
    assert len(held - train) > len(held) * 0.9
