"""Several things told of one, and one thing told of several: what is asked was told, and the last value counts."""

from random import Random

import pytest

from demo_model.exchange import Exchange, assistant, user
from demo_model.skills import contrast_lines, contrasts, profile_lines, profiles, recall, talks
from demo_model.skills.scenes import yours
from demo_model.skills.talks import Story


def between() -> Exchange:
    return Exchange([user("hi"), assistant("Hello!", "")])


def drawn(seed: int, count: int = 400) -> list[Story]:
    rng = Random(seed)
    return [(profiles, contrasts)[i % 2].story(rng, "train") for i in range(count)]


def heard(story: Story) -> str:
    return yours(" ".join(story.told)).lower()


def test_what_may_be_asked_was_told_and_the_answer_says_it() -> None:
    for story in drawn(1):
        assert story.told
        assert story.facts
        for fact in story.facts:
            assert fact.answer.endswith(".")
            assert "{" not in fact.answer + " ".join((*fact.asks, *fact.short, *story.told)), fact
            assert any(not ask.startswith("~") for ask in fact.asks)
            # The number of a group is counted; the rest is told as it is answered, a list or day and hour in parts.
            for word in yours(fact.value).lower().split():
                counted = fact.answer.startswith(("You have ", "There are "))
                assert counted or word.strip(",") in heard(story) or word in ("on", "at", "and"), (story.told, fact)


def test_each_line_has_its_parts_and_a_question_for_evaluation() -> None:
    for name in ("PERSON", "ANIMAL", "EVENT", "TRIP", "VENUE", "OBJECT", "WORK", "STAY"):
        for line in getattr(profile_lines, name):
            _, kind, clauses, asks, _ = line.split(" ; ")
            assert kind in profiles.KINDS, line
            assert all("{v}" in clause for clause in clauses.split("|")), line
            assert not any("{v}" in ask for ask in asks.split("|")), line
            assert name in ("PERSON",) or "~" in asks, line
    assert set(contrast_lines.BASES) == set(contrast_lines.POOLS["event"])
    for line in contrast_lines.FRAMES:
        keys, kind, first, _, asks, turned, _ = line.split(" ; ")
        assert keys in (*contrast_lines.POOLS, "who", "name", "thing"), line
        assert kind in (*contrast_lines.POOLS, *profiles.KINDS, "name") or kind[0].isdigit(), line
        assert all("{k}" in told and "{v}" in told for told in first.split("|")), line
        assert "~" in asks, line
        assert turned == "-" or all("{v}" in ask for ask in turned.split("|")), line


def test_questions_about_different_things_are_different() -> None:
    for story in drawn(2):
        answers: dict[str, set[str]] = {}
        for fact in story.facts:
            for ask in fact.asks:
                answers.setdefault(ask, set()).add(fact.answer)
        assert all(len(found) == 1 for found in answers.values()), (story.told, answers)


def test_a_correction_changes_an_answer() -> None:
    changed = 0
    for story in drawn(3):
        fixed = story.fix() if story.fix else None
        if fixed:
            text, facts = fixed
            changed += 1
            assert facts[0].value.lower() in text.lower()
            assert facts[0].answer not in {fact.answer for fact in story.facts}
    assert changed > 200


def test_some_ask_at_once_some_in_short_words_and_some_for_what_was_not_told() -> None:
    rng = Random(4)
    made = [talks.make(rng, "train", between, story) for story in drawn(5, 800)]
    assert sum(len(one.messages) == 2 for one in made) > 100
    assert sum(one.messages[-1]["content"] == recall.UNKNOWN for one in made) > 15
    assert all((one.messages[-1]["content"] == recall.UNKNOWN) == (one.topic == "unknown") for one in made)
    asked = [m["content"].lower() for one in made for m in one.messages if m["role"] == "user"]
    assert sum("and what about" in ask or ask.startswith("and ") for ask in asked) > 50
    assert all(one.messages[-1].get("learn", True) for one in made)


@pytest.mark.parametrize("module", [profiles, contrasts])
def test_questions_for_evaluation_are_not_trained_on(module: object) -> None:
    rng = Random(6)
    make = profiles.story if module is profiles else contrasts.story
    for _ in range(200):
        story = make(rng, "train")
        shown = [m["content"] for m in talks.make(rng, "train", between, story).messages]
        assert not any("~" in text for text in shown)


def test_the_same_seed_tells_the_same() -> None:
    assert [story.told for story in drawn(7, 60)] == [story.told for story in drawn(7, 60)]
