"""What a job gives depends on nothing but the job: not on its company, nor on how its prompt is cut."""

import itertools

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm import stream_generate

from orchard.backends.text.model import load_text_model
from orchard.engine.batching.job import Job
from orchard.engine.sampling.params import SamplingParams
from tests.support.engine_driver import WORDS, At, Engines, Happening, Leave, Result, greedy, prompt
from tests.support.examples import examples, some
from tests.support.models import KINDS, SLIDING_WINDOW

EDGES = [SLIDING_WINDOW - 1, SLIDING_WINDOW, SLIDING_WINDOW + 1, 255, 256, 257]

every_kind = pytest.mark.parametrize("kind", KINDS)


def company() -> list[Job]:
    """Jobs of every kind, short enough to be run many times."""
    penalised = SamplingParams(
        seed=3, temperature=0.0, repetition_penalty=1.3, frequency_penalty=0.4, presence_penalty=0.2
    )
    return [
        greedy("greedy", prompt(1, 20), 12),
        Job("sampled", prompt(2, 33), SamplingParams(seed=11, temperature=0.9, top_p=0.95), 9),
        Job("many", prompt(3, 9), SamplingParams(seed=12, top_k=50), 7, choices=3),
        Job("penalised", prompt(4, 50), penalised, 15),
        Job("probed", prompt(5, 1), SamplingParams(seed=13, min_p=0.01, top_logprobs=2), 5),
    ]


@every_kind
def test_the_models_look_at_all_of_their_context(engines: Engines, kind: str) -> None:
    """Else the other tests would prove little. Every layer's cache matters, and so does the first token."""
    text = prompt(1, 40)
    answers = [engines.alone(kind, greedy("a", [word, *text[1:]], 12)).only for word in range(6)]
    assert len({tuple(answer) for answer in answers}) > 3
    assert all(len(set(answer)) > len(answer) / 2 for answer in answers)
    model = load_text_model(str(engines.folder(kind)))

    def logits(foreign_layer: int | None) -> mx.array:
        caches = []
        for tokens in (text, prompt(2, 40)):
            caches.append(model.new_cache())
            model.forward(mx.array([tokens[:-1]]), caches[-1])
        mine, foreign = caches
        if foreign_layer is not None:
            mine[foreign_layer] = foreign[foreign_layer]
        return model.forward(mx.array([text[-1:]]), mine)

    for layer in range(len(model.new_cache())):
        assert mx.abs(logits(layer) - logits(None)).max().item() > 0.1  # type: ignore[operator]


@every_kind
def test_greedy_is_what_mlx_lm_generates(engines: Engines, kind: str) -> None:
    jobs = [greedy(str(length), prompt(length, length), 12) for length in some((1, 2, 3, *EDGES, 100), 2)]
    together = engines.get(kind).run(jobs)
    model = load_text_model(str(engines.folder(kind)))
    for job in jobs:
        parts = stream_generate(model.network, model.tokenizer, job.prompt, max_tokens=job.max_tokens)
        theirs = [part.token for part in parts]
        assert engines.alone(kind, job).only == theirs, job.id
        assert together[job.id].only == theirs, job.id


@st.composite
def params(draw: st.DrawFn) -> SamplingParams:
    seed = draw(st.integers(0, 2**64))
    if draw(st.booleans()):
        return SamplingParams(seed=seed, temperature=0.0)
    bias = st.dictionaries(st.integers(0, WORDS - 1), st.floats(-3, 3, width=16), max_size=3)
    return SamplingParams(
        seed=seed,
        temperature=draw(st.sampled_from([0.0, 0.5, 1.0, 1.7])),
        top_p=draw(st.sampled_from([1.0, 0.9, 0.3])),
        top_k=draw(st.sampled_from([0, 1, 20])),
        min_p=draw(st.sampled_from([0.0, 0.05])),
        repetition_penalty=draw(st.sampled_from([1.0, 1.2])),
        presence_penalty=draw(st.sampled_from([0.0, 0.7])),
        frequency_penalty=draw(st.sampled_from([0.0, -0.3])),
        logit_bias=draw(bias),
        top_logprobs=draw(st.sampled_from([None, 0, 3])),
    )


@st.composite
def mixes(draw: st.DrawFn) -> tuple[list[Job], list[Happening]]:
    """Jobs that join at once or at some token of an earlier one, and cancellations of a job or of one of its choices.

    There are few texts, so that many prompts share their heads.
    """
    first: list[Job] = []
    happenings: list[Happening] = []
    names: list[str] = []
    for name in "abcde"[: draw(st.integers(2, 5))]:
        tokens = prompt(draw(st.integers(0, 2)), draw(st.one_of(st.sampled_from(EDGES), st.integers(1, 200))))
        job = Job(name, tokens, draw(params()), draw(st.integers(1, 40)), draw(st.integers(1, 3)))
        if draw(st.booleans()) and names:
            happenings.append((At(draw(st.sampled_from(names)), draw(st.integers(0, 30))), job))
        else:
            first.append(job)
        names.append(name)
        match draw(st.sampled_from(["stays", "stays", "goes", "loses one"])):
            case "goes":
                happenings.append((At(draw(st.sampled_from(names)), draw(st.integers(0, 30))), Leave(name)))
            case "loses one":  # which must have begun
                choice = draw(st.integers(0, job.choices - 1))
                happenings.append((At(name, draw(st.integers(1, 30))), Leave(name, choice)))
    return first, happenings


def expect(results: dict[str, Result], jobs: list[Job], alone: dict[str, Result]) -> None:
    """What was not cancelled is what it is alone; what was is the beginning of that."""
    for job in jobs:
        for choice, (tokens, reason) in enumerate(zip(results[job.id].tokens, results[job.id].reasons, strict=True)):
            expected = alone[job.id].tokens[choice]
            assert tokens == (expected if reason else expected[: len(tokens)]), (job.id, choice)
            assert reason in (None, alone[job.id].reasons[choice])


@every_kind
@examples(8, derandomize=True, database=None)
@given(mix=mixes(), cached=st.booleans())
def test_company_changes_nothing(
    engines: Engines, kind: str, mix: tuple[list[Job], list[Happening]], cached: bool
) -> None:
    first, happenings = mix
    jobs = [*first, *(act for _, act in happenings if isinstance(act, Job))]
    crowd = engines.get(kind, decode_concurrency=6, prompt_cache_bytes=2**30 if cached else 0)
    expect(crowd.run(first, happenings), jobs, {job.id: engines.alone(kind, job) for job in jobs})


@every_kind
def test_what_an_engine_did_before_changes_nothing(engines: Engines, kind: str) -> None:
    """So one engine may say for all tests what a job gives alone."""
    with engines.fresh(kind, prompt_cache_bytes=0) as fresh:
        for job in reversed(company()):
            assert fresh.alone(job) == engines.alone(kind, job)


@pytest.mark.parametrize(("chunk", "kind"), some([*itertools.product([1, 7, 64, 4096], KINDS)], 3))
def test_a_prompt_may_be_cut_anywhere(engines: Engines, chunk: int, kind: str) -> None:
    """Also while another answer is being generated, when the chunks have their given size."""
    jobs = [greedy(str(length), prompt(length, length), 6) for length in (1, 2, 8, SLIDING_WINDOW + 1, 65, 130)]
    stream = greedy("stream", prompt(9, 5), 40)
    with engines.fresh(kind, prefill_step_size=chunk, prompt_cache_bytes=0) as driver:
        together = driver.run([stream], [(At("stream", 2), job) for job in jobs])
    for job in (stream, *jobs):
        assert together[job.id] == engines.alone(kind, job), job.id


@every_kind
def test_leaving_changes_nothing_for_others(engines: Engines, kind: str) -> None:
    jobs = company()
    alone = {job.id: engines.alone(kind, job) for job in jobs}
    driver = engines.get(kind, decode_concurrency=5, prefill_step_size=8)
    moments = [
        (who, At(watched or who, tokens))
        for who in ("greedy", "many", "penalised")
        for watched, tokens in [("sampled", 0), ("sampled", 4), ("", 1), ("", 6)]
    ]
    for who, at in some(moments, 3):
        results = driver.run(jobs, [(at, Leave(who))])
        expect(results, jobs, alone)
        assert all(results[job.id].reasons == alone[job.id].reasons for job in jobs if job.id != who)
    for tokens in (1, 8):
        left = driver.run(jobs, [(At("many", tokens), Leave("many", 1))])
        expect(left, jobs, alone)
        assert left["many"].reasons[0] == left["many"].reasons[2] == "length"
