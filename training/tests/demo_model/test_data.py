"""The generator: same seed, same text; training and evaluation apart; and its rendering is the template's."""

import itertools
import json
import re
from random import Random

import pytest

from demo_model import data, evaluate, template
from demo_model.skills import about, define, echo, facts, requests, sums, texts
from demo_model.text import Split, casual, expand, holdout, wording


def test_expand_is_a_grammar() -> None:
    found = {expand(Random(i), "a[ b|][ {c}|[d|e]]", c="[x]") for i in range(200)}
    assert found == {"a [x]", "a b [x]", "ad", "ae", "a bd", "a be"}


def test_a_shard_is_the_same_for_the_same_seed() -> None:
    assert data.training_conversations(7, 3, 40) == data.training_conversations(7, 3, 40)
    assert data.training_conversations(7, 3, 40) != data.training_conversations(7, 4, 40)


def test_evaluation_prompts_are_the_same_every_time() -> None:
    assert evaluate.cases("echo", 10) == evaluate.cases("echo", 10)


@pytest.mark.parametrize("skill", list(evaluate.SKILLS))
def test_half_of_the_evaluation_is_held_out(skill: str) -> None:
    found = evaluate.cases(skill, 8)
    assert [one.split for one in found] == ["seen"] * 4 + ["held"] * 4
    assert all(one.answer["role"] == "assistant" for one in found)


def test_training_never_draws_a_held_wording_or_value() -> None:
    patterns = [pattern for _, asks in facts.FACT_LIST for pattern in asks]
    rng = Random(0)
    for _ in range(2000):
        assert not wording(rng, patterns, "train").startswith("~")
    train, seen, held = (set(holdout([str(i) for i in range(70)], split)) for split in ("train", "seen", "held"))
    assert train == seen
    assert not train & held


def test_training_and_evaluation_conversations_differ() -> None:
    trained = {conversation.messages[-2]["content"] for conversation in data.training_conversations(1, 0, 300)}
    asked = {one.messages[-1]["content"] for one in evaluate.cases("echo", 60)}
    assert len(asked & trained) < 6  # a few one-word requests may come up twice


def test_every_kind_of_small_talk_has_a_held_wording() -> None:
    for answer, asks in about.CHAT_LIST:
        assert any(ask.startswith("~") for ask in asks), answer


def test_stories_have_the_numbers_of_their_answers() -> None:
    rng = Random(14)
    for plus in (True, False) * 200:
        # In words with or without a hyphen and an "and".
        told = sums.story(rng, "train", plus, 731, 52).lower().replace("hundred and ", "hundred ").replace("-", " ")
        assert "731" in told or "seven hundred thirty one" in told
        assert "52" in told or "fifty two" in told
        assert "{" not in told


def test_a_text_of_several_lines_is_said_back_with_its_lines() -> None:
    rng = Random(15)
    made = [echo.make(rng, "train").messages for _ in range(800)]
    assert sum("\n" in answer["content"] for _, answer in made) > 30
    assert all(answer["content"] in ask["content"] for ask, answer in made if "\n" in answer["content"])
    assert all(answer["content"] == answer["content"].strip() != "" for _, answer in made)


def test_what_was_said_last_is_said_again() -> None:
    rng = Random(16)
    for conversation in (data.conversation(rng, "train", "again", turns=1) for _ in range(60)):
        *before, _, answer = [message for message in conversation.messages if message["role"] != "system"]
        assert answer["content"] in {message["content"] for message in before[-2:]}


def test_paths_quantities_and_marks_are_said_back_whole() -> None:
    rng = Random(6)
    made = [texts.particular(rng) for _ in range(200)]
    assert any("/" in text for text in made)
    assert any("@" in text for text in made)
    assert any("kg" in text for text in made)
    assert not any("{" in text for text in made)
    for _ in range(400):
        one = echo.make(rng, "train")
        assert one.messages[1]["content"].split(" ")[-1] in one.messages[0]["content"]


def test_the_text_to_say_stands_in_the_request() -> None:
    rng = Random(4)
    splits: list[Split] = ["train", "seen", "held"]
    for i in range(300):
        made = echo.make(rng, splits[i % 3])
        assert made.messages[1]["content"].split(" ")[0] in made.messages[0]["content"]


def test_no_conversation_has_two_tools_of_one_name() -> None:
    for conversation in data.training_conversations(2, 0, 300):
        names = [tool["function"]["name"] for tool in conversation.tools]
        assert len(names) == len(set(names)) <= data.MOST_TOOLS
        calls = [c for m in conversation.messages for c in m.get("tool_calls", [])]
        assert {c["function"]["name"] for c in calls} <= set(names)


def test_a_question_is_refused_beside_tools_that_do_not_serve_it() -> None:
    rng = Random(17)
    everyday = requests.known(rng, "train")
    verb, noun = everyday.key.split(" ", 1)
    assert data._meant(everyday, {verb, noun, "please"})
    other = define.Offer("pay rent", everyday.tool, "", {}, everyday=True)
    assert not data._meant(other, {"who", "won", "the", "cup"})
    assert data._meant(other, {"what", "rent", "is", "usual"})
    assert data._meant(define.Offer("search web", everyday.tool, "", {}, everyday=True), {"who", "won"})
    offered = [data.conversation(rng, "train", "refuse", turns=1).tools for _ in range(300)]
    assert sum(bool(tools) for tools in offered) > 90


def test_what_no_tool_serves_is_refused_in_any_shape_but_not_what_the_model_does_itself() -> None:
    rng = Random(18)
    asks = [made.messages[0]["content"] for _ in range(200) if (made := data.unserved(rng, "train", []))]
    assert len(set(asks)) > 150
    assert not any(data._OWN_WORDS.search(ask) for ask in asks)
    assert data._OWN_WORDS.search("My pulse is 72")
    assert not data._OWN_WORDS.search("Play a song by the Beatles")


def test_in_haste_the_values_stay() -> None:
    assert casual("I'm Ada and what's my age?") == "im Ada and whats my age?"
    assert casual("My book is I Robot", "I Robot") == "My book is I Robot"


def test_learnt_segments_are_what_the_assistant_writes() -> None:
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Hello!", "reasoning_content": "Small talk."},
    ]
    on = "".join(part for part, learnt in template.render(messages, [], thinking=True) if learnt)
    assert on == "<think>\nSmall talk.\n</think>\n\nHello!<|im_end|>"
    off = [{**m, "reasoning_content": None} for m in messages]
    assert "".join(part for part, learnt in template.render(off, [], thinking=False) if learnt) == "Hello!<|im_end|>"


def judged(skill: str, want: str, got: str, ask: str = "", /) -> bool:
    one = evaluate.Case(skill, "seen", [{"role": "user", "content": ask}], [], False, {"content": want})
    return evaluate.judge(one, got)[0]


def test_json_is_judged_by_its_keys_where_they_are_named() -> None:
    want = '{"name": "Ada", "age": 30}'
    assert judged("json", want, '{"name": "Bo", "age": 9}', "with name and age")
    assert not judged("json", want, '{"name": "Bo", "age": "9"}', "with name and age")
    assert not judged("json", want, '{"city": "Rome"}', "with name and age")
    assert judged("json", want, '{"city": "Rome"}', "invent a person")
    assert not judged("json", want, '{"city": "Rome"', "invent a person")
    assert not judged("json", want, "[1]", "invent a person")


def test_a_call_is_wrong_where_none_is_needed() -> None:
    assert judged("quiet", "Hello!", "You are welcome!")
    assert not judged("quiet", "Hello!", '<tool_call>\n{"name": "greet", "arguments": {}}\n</tool_call>')


def test_a_refusal_may_say_more() -> None:
    assert judged("refuse", "I can't.", "I can't.")
    assert judged("refuse", "I can't.", "I can't. I can count.")
    assert not judged("refuse", "I can't.", "I can count.")


def test_conversations_fit_and_most_are_short() -> None:
    made = data.training_conversations(4, 0, 500)
    lengths = [sum(len(part) for part, _ in template.render(c.messages, c.tools, c.thinking)) for c in made]
    assert sum(length < 512 * 3 for length in lengths) > len(lengths) * 0.5  # three characters a token, or more
    # What is longer than any row is left out; there must hardly be any.
    assert sum(length >= 4096 * 3 for length in lengths) <= 1


def test_a_system_prompt_that_asks_for_json_stands_alone() -> None:
    seen = 0
    for made in data.training_conversations(5, 0, 2500):
        systems = [m["content"] for m in made.messages if m["role"] == "system" and "JSON" in m["content"]]
        seen += len(systems)
        assert not systems or sum(m["role"] == "user" for m in made.messages) == 1
    assert seen > 3


def test_orders_lists_and_questions_on_a_text_are_common() -> None:
    lists = plurals = asked = 0
    for made in data.training_conversations(9, 0, 3000):
        for before, message in itertools.pairwise(made.messages):
            ask, answer = before["content"].lower(), message["content"]
            if message["role"] == "assistant" and answer.startswith('{"'):
                found = list(json.loads(answer).values())
                entries = [one for value in found if isinstance(value, list) for one in value if isinstance(one, dict)]
                firsts = [str(next(iter(one.values()))).lower() for one in entries]
                lists += len(entries) > 1 and all(first in ask for first in firsts)
                plurals += any(isinstance(one, str) and f" {one}" in re.sub(r"\d+", "", ask) for one in found)
            elif answer.startswith("The ") and "?" in ask:
                asked += answer.lower().rstrip(".") in ask
    assert lists > 50
    assert plurals > 150
    assert asked > 50
