"""Texts with a question in the same message: any of their facts is asked for, and answered by that fact alone."""

import re
from collections import Counter
from random import Random

from demo_model.skills import passages, recall
from demo_model.skills.scenes import yours


def test_each_line_has_values_and_a_question_for_evaluation() -> None:
    for line in passages._LINES:
        assert set(line.kinds) <= set(passages.SUBJECTS), line
        assert line.kind == "count" or line.kind in passages._DRAWS, line
        assert all("{v}" in told for told in line.told), line
        assert all("{s}" in ask for ask in line.asks), line
        assert [ask[0] for ask in line.asks].count("~") == 1, line
    assert all(len({line.key for line in passages._of(kind)}) > 7 for kind in passages.SUBJECTS)


def test_the_facts_stand_in_the_text() -> None:
    rng = Random(1)
    for _ in range(800):
        told = passages.passage(rng, "train")
        assert "{" not in told.text
        assert len(told.facts) > 1
        for subject, fact in told.facts:
            assert fact.value in told.text
            assert fact.words.split(" ", 1)[1] in told.text
            assert subject.lower() in told.text.lower()


def test_questions_about_different_facts_are_different() -> None:
    rng = Random(2)
    for _ in range(800):
        asks = [ask for _, fact in passages.passage(rng, "train").facts for ask in fact.asks]
        assert len(asks) == len(set(asks)), asks


def test_the_answer_is_the_fact_that_was_asked_for() -> None:
    rng = Random(3)
    places: Counter[int] = Counter()
    for _ in range(800):
        told = passages.passage(rng, "train")
        for at, (subject, fact) in enumerate(told.facts):
            answer = passages._answer(subject, fact)
            assert answer.lower() == f"{yours(subject)} {fact.words}.".lower()
            others = [other.value for _, other in told.facts if other is not fact]
            assert not any(re.search(rf"\b{re.escape(other)}\b", answer) for other in others), (told.text, answer)
            places[at] += 1
    assert places[1] == places[0]
    assert places[2] > 200


def test_any_fact_may_be_asked_for_at_once_or_later_and_some_that_are_not_told() -> None:
    rng = Random(4)
    counts: Counter[str] = Counter()
    for _ in range(1500):
        made = passages.make(rng, "train")
        said = [message["content"] for message in made.messages]
        answer = said[-1]
        assert (answer == recall.UNKNOWN) == (made.topic == "unknown")
        counts[made.topic] += 1
        counts["later"] += made.messages[1]["content"] == "I will remember that."
        counts["second"] += len(made.messages) == 4 and made.messages[1]["content"] != "I will remember that."
        if made.topic == "memory":
            value = made.messages[-1]["reasoning_content"].removeprefix("The user told me earlier: ").removesuffix(".")
            assert value in answer
            assert value in yours(said[0])
    assert min(counts[one] for one in ("unknown", "later", "second")) > 40, counts
    assert counts["memory"] > 1300


def test_questions_for_evaluation_are_held_out() -> None:
    held = {ask[1:] for line in passages._LINES for ask in line.asks if ask[0] == "~"}
    rng = Random(5)
    for _ in range(300):
        shown = passages.make(rng, "train").messages[0]["content"].lower()
        assert "~" not in shown
        assert not any(ask.split("{", 1)[0].lower() in shown for ask in held if len(ask.split("{", 1)[0]) > 14)
