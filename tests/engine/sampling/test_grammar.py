"""Rows that keep a grammar: what they may draw, where they are free, and that company changes nothing."""

import functools
import json
import random
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.engine.batching.batch import BatchMode
from orchard.engine.batching.job import Job
from orchard.engine.sampling.grammar import (
    BoundGrammar,
    GrammarError,
    GrammarState,
    GrammarVocabulary,
    Masks,
    ReasoningTokens,
)
from orchard.engine.sampling.params import SamplingParams
from tests.engine.test_runner import little_memory, no_reserve, preemptions, tight
from tests.support.engine_driver import greedy, prompt
from tests.support.examples import examples, some
from tests.support.grammars import CALL, THINK_END, THINK_START, alphabet, lark, schema, text
from tests.support.tiny_models import Course, Other, alone, make_runner, network, run

__all__ = ["no_reserve"]

OPENED = ReasoningTokens(b"</think>", opened=True)
MAYBE = ReasoningTokens(b"</think>", start=THINK_START)


def sampled(name: str, seed: int, grammar: BoundGrammar | None, count: int = 150, choices: int = 1, **way: Any) -> Job:
    params = SamplingParams(seed=seed, **way)
    return Job(name, prompt(seed, 3 + seed % 30), params, count, choices, grammar=grammar)


def answer(job: Job) -> tuple[str, str | None]:
    """Give a job's only answer and why it ended."""
    outcome = run(make_runner(network("qwen3")), [job]).outcomes[job.id]
    assert not outcome.broken
    return text(outcome.tokens[0]), outcome.reasons[0]


def kept(content: str) -> bool:
    """Whether an answer keeps grammars.SCHEMA."""
    value = json.loads(content)
    return (
        list(value) == ["count", "name", "list"]
        and type(value["count"]) is int
        and 0 <= value["count"] <= 99
        and len(value["name"]) <= 5
        and len(value["list"]) <= 3
        and all(type(one) is bool for one in value["list"])
    )


@functools.cache
def some_jobs() -> Sequence[Job]:
    """Jobs with and without grammars, greedy and sampled, of one and of several choices.

    They are made once: `alone` knows a job with a grammar only as long as the grammar is the same object.
    """
    strict = lark('start: "\\n" %json {"type": "object", "maxProperties": 1} "</x>"', trigger=b"<tool_call>")
    return [
        greedy("greedy", prompt(1, 20), 60, grammar=schema()),
        greedy("free", prompt(2, 9), 60),
        sampled("sampled", 3, schema(), temperature=1.2, top_p=0.9),
        sampled("free many", 4, None, 40, 2, top_k=30, repetition_penalty=1.2),
        sampled("many", 5, lark('start: /[a-z ]{3,}/ "." | "no"'), 40, 3, frequency_penalty=0.5),
        sampled("thinking", 6, schema(reasoning=OPENED), logit_bias={THINK_END: 4.0}),
        sampled("perhaps", 7, schema(reasoning=MAYBE), logit_bias={THINK_START: 5.0, THINK_END: 4.0}),
        sampled("calls", 8, strict, 60, logit_bias={CALL: 5.0}),
        sampled("free probed", 9, None, 30, top_logprobs=2, min_p=0.02),
        sampled("probed", 10, schema(), top_logprobs=2, presence_penalty=0.4),
    ]


@pytest.mark.parametrize("seed", some([1, 2]))
@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ("qwen3", BatchMode.SHARED),
        ("lfm2", BatchMode.BY_LENGTH),
        pytest.param("qwen3", BatchMode.SEQUENTIAL, marks=pytest.mark.deep),
    ],
)
def test_company_changes_nothing(kind: str, mode: BatchMode, seed: int) -> None:
    """Bound and free rows join and leave in any order."""
    model = network(kind)
    rng = random.Random(seed)
    jobs = rng.sample(some_jobs(), len(some_jobs()))
    left = list(jobs)
    runner = make_runner(model, mode=mode, short=8, cache_bytes=2**22)

    def join(course: Course) -> list[Job]:
        count = rng.choice([0, 0, 0, 1, 2])
        return [left.pop() for _ in range(min(count or runner.is_idle, len(left)))]

    course = run(runner, [left.pop()], join)
    for job in jobs:
        assert course.outcomes[job.id].tokens == alone(model, job), job.id
        assert not course.outcomes[job.id].broken


def test_greedy_is_the_likeliest_of_what_is_allowed() -> None:
    """Token by token, against a pass over the whole text and the matcher's own mask."""
    model = network("qwen3")
    job = greedy("a", prompt(1, 20), 60, grammar=schema())
    (tokens,) = alone(model, job)
    assert job.grammar
    matcher = job.grammar.compiled.first.deep_copy()
    for place, token in enumerate(tokens):
        logits = model.forward(mx.array([[*job.prompt, *tokens[:place]]]), model.new_cache())[0, -1]
        bits = "".join(f"{byte:08b}"[::-1] for byte in matcher.compute_bitmask())
        allowed = mx.array([bit == "1" for bit in bits[: model.vocab_size]])
        assert mx.argmax(mx.where(allowed, logits, -mx.inf)).item() == token
        matcher.consume_token(token)
    assert matcher.is_stopped()


def test_a_finished_answer_keeps_its_schema_and_one_cut_off_is_too_long() -> None:
    reasons = set()
    for seed in range(8):
        content, reason = answer(sampled("a", seed, schema(), 20 + 10 * seed))
        reasons.add(reason)
        if reason == "stop":
            assert kept(content), content
    assert reasons == {"stop", "length"}


values = st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"enum": ["x", 1, None]}, {"const": {"a": [1]}}])
strings = st.builds(
    lambda least, more: {"type": "string", "minLength": least, "maxLength": least + more}, *[st.integers(0, 3)] * 2
)
numbers = st.builds(
    lambda least, more: {"type": "integer", "minimum": least, "maximum": least + more},
    st.integers(-20, 20),
    st.integers(0, 30),
)


def nested(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    lists = st.builds(
        lambda items, least, more: {"type": "array", "items": items, "minItems": least, "maxItems": least + more},
        inner,
        st.integers(0, 1),
        st.integers(0, 2),
    )
    objects = st.dictionaries(st.sampled_from(["a", "b", "ä \"'"]), inner, max_size=3).flatmap(
        lambda properties: st.sets(st.sampled_from(sorted(properties)) if properties else st.nothing()).map(
            lambda required: {
                "type": "object",
                "properties": properties,
                "required": sorted(required),
                "additionalProperties": False,
            }
        )
    )
    either = st.lists(inner, min_size=1, max_size=2).map(lambda options: {"anyOf": options})
    return lists | objects | either


def valid(value: Any, of: dict[str, Any]) -> bool:
    """Whether a JSON value keeps one of these schemas."""
    if "type" not in of:
        options = of["enum"] if "enum" in of else [of["const"]] if "const" in of else []
        fits = any(type(value) is type(one) and value == one for one in options)
        return fits or any(valid(value, one) for one in of.get("anyOf", []))
    if type(value) is not _TYPES[of["type"]]:
        return False
    match value:
        case str():
            return bool(of["minLength"] <= len(value) <= of["maxLength"])
        case list():
            fits = of["minItems"] <= len(value) <= of["maxItems"]
            return fits and all(valid(one, of["items"]) for one in value)
        case dict():
            fits = set(of["required"]) <= value.keys() <= of["properties"].keys()
            return fits and all(valid(one, of["properties"][name]) for name, one in value.items())
    return "minimum" not in of or bool(of["minimum"] <= value <= of["maximum"])


_TYPES = {"boolean": bool, "null": type(None), "string": str, "integer": int, "array": list, "object": dict}


@examples(15, derandomize=True, database=None)
@given(st.recursive(values | strings | numbers, nested, max_leaves=5), st.integers(0, 1000))
def test_what_is_finished_keeps_any_schema(of: dict[str, Any], seed: int) -> None:
    jobs = [sampled(str(n), seed + n, schema(of), 120, temperature=n) for n in range(2)]
    outcomes = run(make_runner(network("qwen3")), jobs).outcomes
    for job in jobs:
        assert not outcomes[job.id].broken
        if outcomes[job.id].reasons == ["stop"]:
            assert valid(json.loads(text(outcomes[job.id].tokens[0])), of)


def test_the_reasoning_is_free_and_has_no_end_of_the_turn_in_it() -> None:
    model = network("qwen3")
    (eos, *_) = model.eos_token_ids
    for seed in range(3):
        job = sampled("a", seed, schema(reasoning=OPENED), 200, logit_bias={THINK_END: 3.0, eos: 5.0})
        never = {token: -1e4 for token, piece in enumerate(alphabet().pieces) if token == eos or not piece}
        content, reason = answer(job)
        thought, found, rest = content.partition("</think>")
        assert thought
        if reason == "stop":
            assert found
            assert kept(rest.removeprefix("\n").removeprefix("\n")), rest
            free = answer(sampled("b", seed, None, 200, logit_bias={THINK_END: 3.0, **never}))[0]
            assert free.startswith(thought + found)


def test_newlines_may_stand_between_reasoning_and_answer() -> None:
    newline = alphabet().tokenize_greedily(b"\n")[0]
    job = sampled("a", 1, schema(reasoning=OPENED), 200, logit_bias={newline: 50.0, THINK_END: 60.0}, temperature=0.0)
    content, reason = answer(job)
    assert reason == "stop"
    assert content.startswith("</think>\n\n{")


def test_the_model_may_open_its_reasoning_itself() -> None:
    opened = {THINK_START: 30.0, THINK_END: 25.0}
    content, _ = answer(sampled("a", 1, schema(reasoning=MAYBE), logit_bias=opened))
    assert content.startswith("<think>")
    assert kept(content.rpartition("</think>")[2].lstrip("\n"))
    content, _ = answer(sampled("a", 1, schema(reasoning=MAYBE), logit_bias={THINK_START: -30.0}))
    assert kept(content)
    content, _ = answer(sampled("a", 1, schema(), logit_bias=opened))
    assert kept(content)


def test_the_thinking_budget_brings_the_answer() -> None:
    way: dict[str, Any] = {"thinking_budget": 7, "think_end": THINK_END, "logit_bias": {THINK_END: -30.0}}
    content, reason = answer(sampled("a", 1, schema(reasoning=OPENED), **way))
    assert reason == "stop"
    assert kept(content.partition("</think>")[2].lstrip("\n"))


def test_what_follows_a_trigger_is_bound_each_time() -> None:
    grammar = lark('start: "\\n" /[0-3]{2}/ "</x>"', trigger=b"<tool_call>")
    content, _ = answer(sampled("a", 1, grammar, 120, logit_bias={CALL: 6.0}))
    free, *calls = content.split("<tool_call>")
    assert len(calls) > 2
    assert all(
        call[:1] == "\n" and set(call[1:3]) <= set("0123") and call[3:].startswith("</x>") for call in calls[:-1]
    )
    assert any(call[7:] for call in calls)
    assert free == answer(sampled("b", 1, None, 120, logit_bias={CALL: 6.0}))[0].partition("<tool_call>")[0]


EOS = 256


def letters(*more: bytes) -> GrammarVocabulary:
    """An alphabet of the bytes, the end of a turn, `more` tokens from 257 on, and one that is none."""
    pieces = [*(bytes([byte]) for byte in range(256)), b"<end>", *more, b""]
    return GrammarVocabulary(pieces, [EOS], [EOS], lambda text: list(text.encode()))


def allowed(follower: GrammarState) -> set[int]:
    """The tokens that may follow."""
    words, failed = Masks(len(letters().pieces) + 8).compute([follower])
    if failed:
        raise failed[0]
    assert words is not None
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())


CLOSED_IN_TIME = ReasoningTokens(b"</think>", opened=True, closing=(THINK_END,), needs=40)


@pytest.mark.parametrize("most", [30, 41, 42, 60, 100])
def test_the_reasoning_ends_where_a_short_answer_has_just_room(most: int) -> None:
    never = {THINK_END: -1e4}
    for way in ({}, {"thinking_budget": 1000, "think_end": THINK_END}):
        job = sampled("a", 1, schema(reasoning=CLOSED_IN_TIME), most, logit_bias=never, **way)
        (tokens,) = run(make_runner(network("qwen3")), [job]).outcomes["a"].tokens
        assert tokens.index(THINK_END) == max(0, most - 41)


def test_the_reasoning_of_a_row_that_was_stopped_ends_in_time_too() -> None:
    grammar = lark('start: "ab"', CLOSED_IN_TIME, letters=letters(b"</think>"))
    reasoning = msgspec.structs.replace(CLOSED_IN_TIME, closing=(257,), needs=3)
    grammar = BoundGrammar("a", grammar.compiled, reasoning)
    for left, due in ((5, False), (4, True), (3, True)):
        follower = GrammarState(grammar, [65, 65])
        follower.tokens_left = left
        assert (allowed(follower) == {257}) is due


def test_a_tag_of_several_tokens_is_closed_from_where_the_model_has_begun_it() -> None:
    own = letters(b"<open>", b"<end>", b"next")
    text = 'start: (<[257]> /(.|\\n)*/ <[258]> "next")? "ab"'
    reasoning = ReasoningTokens(b"<end>next", within=b"<open>", closing=(258, 259), needs=3)
    grammar = BoundGrammar("a", lark(text, letters=own).compiled, reasoning)
    follower = GrammarState(grammar)
    follower.tokens_left = 3
    assert allowed(follower) == {257, ord("a")}  # it has not been opened
    follower.take(257)
    follower.tokens_left = 6
    assert allowed(follower) > {ord("a"), ord("b"), 258}
    follower.tokens_left = 5
    assert allowed(follower) == {258}
    follower.take(258)
    follower.tokens_left = 4
    assert allowed(follower) == {259}
    follower.take(259)
    follower.tokens_left = 3
    assert allowed(follower) == {ord("a")}
    answered = GrammarState(grammar, list(b"ab"))
    answered.tokens_left = 1
    assert allowed(answered) == {EOS}


@pytest.mark.parametrize(
    "cut", [["</thi", "nk>"], ["so</", "think", ">"], ["x</think>a"], ["</think>\n a"], ["</think>\n"]]
)
def test_tags_are_found_however_they_are_cut(cut: list[str]) -> None:
    own = letters(*(piece.encode() for piece in cut))
    given = range(257, 257 + len(cut))
    begun = cut[-1].endswith("a")
    bound = GrammarState(lark('start: "ab"', OPENED, letters=own))
    called = GrammarState(lark('start: "ab"', trigger=b"</think>", letters=own))
    for token in given:
        assert called.is_free
        assert allowed(bound) == set(range(256)) | set(given)  # anything but the end of the turn
        bound.take(token)
        called.take(token)
    newlines = set() if begun or cut[-1].endswith("\n") else {10}
    assert allowed(bound) == {ord("b" if begun else "a")} | newlines
    assert called.is_free == (cut[-1].partition("</think>")[2] not in ("", "a"))


def test_what_a_call_does_not_begin_with_leaves_it_free() -> None:
    follower = GrammarState(lark('start: "ab"', trigger=b"<x>", letters=letters(b"<x>c", b"<x>a")))
    follower.take(257)
    assert follower.is_free
    follower.take(258)
    assert allowed(follower) == {ord("b")}
    follower.take(ord("b"))
    assert follower.is_free


def test_after_the_end_only_the_end_of_the_turn_comes() -> None:
    follower = GrammarState(lark('start: "a" "b"?', letters=letters()))
    assert allowed(follower) == {ord("a")}
    follower.take(ord("a"))
    assert allowed(follower) == {ord("b"), EOS}
    follower.take(ord("b"))
    assert allowed(follower) == {EOS}


def test_ids_without_a_token_are_never_allowed() -> None:
    assert allowed(GrammarState(lark("start: <[*]>", letters=letters(b"x")))) == set(range(258))


def test_a_row_that_was_stopped_goes_on_where_it_was() -> None:
    grammar = lark('start: "ab" "\\n" "c"', OPENED, letters=letters(b"</think>"))
    tokens = [65, 257, 10, 10, *b"ab\nc"]
    follower = GrammarState(grammar)
    for place, token in enumerate(tokens):
        assert allowed(GrammarState(grammar, tokens[:place])) == allowed(follower)
        follower.take(token)
    assert allowed(follower) == {EOS}


def test_a_token_that_is_not_allowed_shows() -> None:
    follower = GrammarState(lark('start: "ab"', letters=letters()))
    follower.take(ord("b"))
    with pytest.raises(GrammarError, match="the answer can't continue under its grammar"):
        allowed(follower)


@pytest.mark.parametrize("choices", [1, 2])
def test_a_grammar_that_grows_too_large_fails_its_own_request_alone(choices: int) -> None:
    """Its limit is reached in the middle of the answer."""
    grammar = lark('start: "x"{20} ("a" "b"? "c"?){1,300} "y"', max_items_in_row=2000, step_max_items=40)
    bad = sampled("bad", 1, grammar, 100, choices)
    others = some_jobs()[:4]
    course = run(make_runner(network("qwen3")), [others[0], bad, *others[1:]])
    (message,) = course.outcomes["bad"].broken
    assert message.startswith("the answer can't continue under its grammar: ")
    assert "\n" not in message
    assert all(one.by_grammar for step in course.steps for one in step.failures)
    for job in others:
        assert course.outcomes[job.id].tokens == alone(network("qwen3"), job), job.id


def test_a_lexer_that_others_have_filled_is_renewed() -> None:
    """All rows of a grammar share it, for as long as the grammar is cached."""
    grammar = lark("start: /[a-z]{1,30}(x|y)[0-9]{1,30}[a-z]{3,40}z/", max_lexer_states=150)
    first = grammar.compiled.first
    model = network("qwen3")
    for seed in range(8):
        job = sampled(f"row {seed}", seed, grammar, 40)
        outcome = run(make_runner(model), [job]).outcomes[job.id]
        assert not outcome.broken
        fresh = lark("start: /[a-z]{1,30}(x|y)[0-9]{1,30}[a-z]{3,40}z/")
        assert outcome.tokens == alone(model, sampled(f"fresh {seed}", seed, fresh, 40))
    assert grammar.compiled.first is not first


@little_memory
def test_preempted_rows_go_on_in_the_middle_of_their_grammars() -> None:
    model = network("qwen3")
    jobs = some_jobs()
    runner = make_runner(model, tight(model, jobs, 3))
    preempted = preemptions(runner)
    course = run(runner, jobs)
    for job in jobs:
        assert course.outcomes[job.id].tokens == alone(model, job), job.id
    assert len(set(preempted)) > 3


def test_rows_go_on_in_the_middle_of_their_grammars_after_a_pass_that_failed() -> None:
    model = network("qwen3")
    passes = 0

    def before(tokens: mx.array, given: dict[str, Any]) -> None:
        nonlocal passes
        passes += 1
        if tokens.shape[0] > 1 and passes in (40, 50):
            raise RuntimeError("unlucky")

    jobs = some_jobs()[:5]
    course = run(make_runner(Other(model, before=before)), jobs)
    for job in jobs:
        assert course.outcomes[job.id].tokens == alone(model, job), job.id


@pytest.mark.parametrize("moment", [2, 5, 9])
def test_a_bound_row_may_be_cancelled(moment: int) -> None:
    model = network("qwen3")
    runner = make_runner(model)
    jobs = some_jobs()[:4]

    def cancel(course: Course) -> Sequence[Job]:
        if len(course.steps) == moment:
            runner.cancel("greedy")
            course.outcomes["greedy"].reasons = ["length"]
        return []

    course = run(runner, jobs, cancel)
    assert len(course.outcomes["greedy"].tokens[0]) < moment
    for job in jobs[1:]:
        assert course.outcomes[job.id].tokens == alone(model, job), job.id


def test_no_token_is_launched_beyond_the_last() -> None:
    """Each step reads the token before and launches one, and the passes are as many as without a grammar."""
    passes: list[int] = []
    model = Other(network("qwen3"), before=lambda tokens, given: passes.append(tokens.shape[0]))
    runner = make_runner(model)
    passes.clear()
    course = run(runner, [greedy("a", [5], 7, grammar=lark("start: /[a-z]{9}/"))])
    assert passes == [1] * 7
    assert [len(step.tokens) for step in course.steps] == [0, *[1] * 7]
