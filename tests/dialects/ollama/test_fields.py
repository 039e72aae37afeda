"""Durations, and what Ollama's options become."""

import pytest

from orchard.core.errors import OrchardError
from orchard.core.tasks.generate import Grammar, Sampling
from orchard.dialects.common.fields import MAX_TTL
from orchard.dialects.common.json_body import FreeForm
from orchard.dialects.ollama.fields import (
    Options,
    answer_grammar,
    answer_sampling,
    keep_alive_seconds,
    stop_texts,
    thinking_variables,
    token_limit,
    whole_option,
)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (None, None),
        ("", None),
        (0, 0),
        ("0", 0),
        (300, 300),
        ("300", 300),
        ("5m", 300),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("250ms", 0.25),
        (-1, MAX_TTL),
        ("-1", MAX_TTL),
        ("-1m", MAX_TTL),
        (1e300, MAX_TTL),
        ("9" * 15 + "h", MAX_TTL),
    ],
)
def test_how_long_a_model_is_kept(given: float | str | None, seconds: float | None) -> None:
    assert keep_alive_seconds(given) == seconds


@pytest.mark.parametrize("given", ["soon", "5 m", "m", "1h-5m", "٣m", "5d", "1" * 100 + "h"])
def test_what_is_no_duration(given: str) -> None:
    with pytest.raises(OrchardError, match="`keep_alive` must be a number of seconds") as caught:
        keep_alive_seconds(given)
    assert caught.value.param == "keep_alive"


def test_options_become_sampling() -> None:
    given = Options(temperature=0.5, top_p=0.9, top_k=40.0, min_p=0.1, seed=7, presence_penalty=0.2)
    assert answer_sampling(given) == Sampling(
        temperature=0.5, top_p=0.9, top_k=40, min_p=0.1, seed=7, presence_penalty=0.2
    )
    assert answer_sampling(Options()) == Sampling()
    assert answer_sampling(Options(seed=-1, top_k=-1)) == Sampling(top_k=0)


@pytest.mark.parametrize(
    ("penalty", "last", "expected"),
    [
        (1.2, None, (1.2, 64)),
        (1.2, 10, (1.2, 10)),
        (1.2, -1, (1.2, 0)),
        (1.2, 0, (1.0, 0)),
        (0, None, (1.0, None)),
        (None, 10, (None, 10)),
    ],
)
def test_the_repeat_penalty_and_what_it_covers(
    penalty: float | None, last: int | None, expected: tuple[float | None, int | None]
) -> None:
    found = answer_sampling(Options(repeat_penalty=penalty, repeat_last_n=last))
    assert (found.repetition_penalty, found.repetition_context_size) == expected


@pytest.mark.parametrize(
    ("options", "name"),
    [(Options(typical_p=0.7), "typical_p"), (Options(mirostat=1), "mirostat"), (Options(tfs_z=0.5), "tfs_z")],
)
def test_other_kinds_of_sampling_are_refused_by_name(options: Options, name: str) -> None:
    with pytest.raises(OrchardError, match=f"`options.{name}` must be .* or left out"):
        answer_sampling(options)
    assert answer_sampling(Options(typical_p=1.0, mirostat=0, tfs_z=1.0)) == Sampling()


def test_integers_may_be_written_with_a_fraction_of_zero() -> None:
    assert whole_option(Options(num_ctx=8192.0), "num_ctx") == 8192
    assert whole_option(Options(), "num_ctx") is None
    with pytest.raises(OrchardError, match=r"`options.num_ctx` must be an integer"):
        whole_option(Options(num_ctx=8192.5), "num_ctx")
    with pytest.raises(OrchardError, match="64 bits"):
        answer_sampling(Options(seed=2**63))


@pytest.mark.parametrize(("given", "limit"), [(None, None), (-1, None), (-2, None), (0, None), (5, 5)])
def test_the_token_limit(given: int | None, limit: int | None) -> None:
    assert token_limit(Options(num_predict=given)) == limit


def test_stops() -> None:
    assert stop_texts(Options(stop="a")) == ("a",)
    assert stop_texts(Options(stop=["a", "", "b"])) == ("a", "b")
    assert stop_texts(Options()) == ()


def test_formats() -> None:
    assert answer_grammar(None, FreeForm()) is answer_grammar("", FreeForm()) is None
    assert answer_grammar("json", FreeForm()) == Grammar("json_object", None, "format")
    schema = {"type": "object"}
    assert answer_grammar(schema, FreeForm()) == Grammar("json_schema", schema, "format", strict=False)
    assert answer_grammar({}, FreeForm()) == Grammar("json_object", None, "format")


def test_thinking() -> None:
    assert thinking_variables(None) == {}
    assert thinking_variables(False) == {"enable_thinking": False}
    assert thinking_variables("high") == {"enable_thinking": True, "reasoning_effort": "high"}
