"""Keys and values in fewer bits or fewer places, and weights whose rounding shows."""

from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import make_prompt_cache

from orchard.backends.text.model import TextModel, load_text_model
from orchard.engine.batching.job import Job
from orchard.engine.sampling.params import SamplingParams
from tests.support.engine_driver import At, Engines, greedy, prompt
from tests.support.examples import some

QUANTIZED = {"kv_bits": 8, "kv_group_size": 32}
OPTIONS: list[dict[str, Any]] = [
    QUANTIZED,
    {**QUANTIZED, "kv_bits": 4, "quantized_kv_start": 40},  # 8 bits from there on would rarely show
    {"max_kv_size": 48},
]
LENGTHS = some((1, 20, 40, 39, 41, 47, 49, 130), 2)


def jobs() -> list[Job]:
    seeded = SamplingParams(seed=2, temperature=1.1, top_k=30)
    return [greedy(str(length), prompt(length, length), 30) for length in LENGTHS] + [
        Job("seeded", prompt(7, 30), seeded, 30, choices=2)
    ]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_company_changes_nothing(engines: Engines, options: dict[str, Any]) -> None:
    driver = engines.get("qwen3", prefill_step_size=4096, prompt_cache_bytes=0, **options)
    first, *rest = jobs()
    together = driver.run([first], [(At(first.id, 2 * n), job) for n, job in enumerate(rest)])
    for job in jobs():
        assert together[job.id] == driver.alone(job), job.id


def in_mlx_lms_cache(model: TextModel, job: Job, options: dict[str, Any]) -> list[int]:
    """Greedy tokens of a plain loop; keys and values are quantised from the place on where the options say so."""
    cache = make_prompt_cache(model.network, options.get("max_kv_size"))
    start = options.get("quantized_kv_start", 0) if "kv_bits" in options else None
    tokens, done = list(job.prompt), 0
    while len(tokens) < len(job.prompt) + job.max_tokens and not set(tokens[len(job.prompt) :]) & model.eos_token_ids:
        if done == start:
            cache = [layer.to_quantized(options["kv_group_size"], options["kv_bits"]) for layer in cache]
        # All but the last at once, as far as they are of one form; the last one alone, as in decode.
        last = len(tokens) - 1
        stop = len(tokens) if done == last else start if start is not None and done < start < last else last
        logits = model.network(mx.array([tokens[done:stop]]), cache=cache)
        done = stop
        if done == len(tokens):
            tokens.append(int(mx.argmax(logits[0, -1])))
    return tokens[len(job.prompt) :]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_it_is_what_mlx_lms_caches_give(engines: Engines, options: dict[str, Any]) -> None:
    driver = engines.get("qwen3", prefill_step_size=4096, prompt_cache_bytes=0, **options)
    model = load_text_model(str(engines.folder("qwen3")))
    for job in jobs()[:-1]:
        assert driver.alone(job).only == in_mlx_lms_cache(model, job, options), job.id


@pytest.mark.parametrize("options", [option for option in OPTIONS if "kv_bits" in option], ids=str)
def test_pieces_of_a_quantised_prompt_change_nothing(engines: Engines, options: dict[str, Any]) -> None:
    whole = engines.get("qwen3", prefill_step_size=4096, prompt_cache_bytes=0, **options)
    pieces = engines.get("qwen3", prefill_step_size=7, **options)
    for job in jobs():
        assert pieces.alone(job).tokens == whole.alone(job).tokens, job.id
        assert pieces.alone(job).tokens == whole.alone(job).tokens, f"{job.id} from the cache"


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_they_change_something(engines: Engines, options: dict[str, Any]) -> None:
    """Else the options would have been tested in vain."""
    driver = engines.get("qwen3", prefill_step_size=4096, prompt_cache_bytes=0, **options)
    assert any(driver.alone(job).tokens != engines.alone("qwen3", job).tokens for job in jobs())


def rounding(folder: Path, text: list[int]) -> tuple[mx.array, float]:
    """Give the logits after `text` in float32, and how far off rounding may put one of them (at most, in this text).

    The second is measured: every logit of the text is computed twice by a plain forward pass with the same weights, in
    bfloat16 and in float32. The largest difference is what bfloat16's rounding (2^-9 of a value, at every operation)
    amounts to after this network's layers.
    """
    logits = []
    for dtype in (mx.bfloat16, mx.float32):
        model = load_text_model(str(folder))
        model.network.set_dtype(dtype)
        logits.append(model.network(mx.array([text])).astype(mx.float32)[0])
    off = mx.abs(logits[0] - logits[1]).max().item()
    assert isinstance(off, float)
    return logits[1][-1], off


def as_good(logits: mx.array, off: float) -> set[int]:
    """Give the tokens that some computation may take for the best, whose logits are each wrong by `off` at most."""
    behind: list[float] = (mx.max(logits) - logits).tolist()  # type: ignore[assignment]
    return {token for token, distance in enumerate(behind) if distance <= 2 * off}


def differ_by_rounding(folder: Path, text: list[int], ours: list[int], theirs: list[int]) -> bool:
    """Whether two greedy answers to `text` are equal, or rounding alone may have made them part.

    Where each of two computations is off by e at most, and the one prefers a token by any margin and the other another
    one, then the exact logits of both lie within 2e of each other, and of the best. After that, they are answers to
    different texts.
    """
    place = next((n for n, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None)
    if place is None:
        return len(ours) == len(theirs)
    logits, off = rounding(folder, text + ours[:place])
    return {ours[place], theirs[place]} <= as_good(logits, off)


# Without the mixtures of experts: there a router's rounding may choose another expert, whose logits are any.
@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text", "lfm2"])
def test_bfloat16_parts_only_where_two_tokens_are_as_good(engines: Engines, kind: str) -> None:
    """In company against alone, and against mlx-lm."""
    folder = engines.folder(kind, mx.bfloat16)
    model = load_text_model(str(folder))
    first, *rest = [
        greedy(str(length), prompt(length, length), 30) for length in some((1, 3, 17, 16, 40, 90, 257, 130), 2)
    ]
    together = engines.get(kind, mx.bfloat16).run([first], [(At(first.id, 3 * n), job) for n, job in enumerate(rest)])
    for job in (first, *rest):
        alone = engines.alone(kind, job, mx.bfloat16).only
        assert differ_by_rounding(folder, job.prompt, together[job.id].only, alone), job.id
        assert differ_by_rounding(folder, job.prompt, alone, _mlx_lm(model, job)), job.id


def _mlx_lm(model: TextModel, job: Job) -> list[int]:
    """Give mlx-lm's greedy answer, as long as an engine would make it."""
    tokens: list[int] = []
    for token, _ in generate_step(mx.array(job.prompt), model.network, max_tokens=job.max_tokens):
        tokens.append(token)
        if token in model.eos_token_ids:
            break
    return tokens


def test_a_wrong_token_is_no_rounding(engines: Engines) -> None:
    """The measure tells a wrong answer from a near-tie: hardly any other token is as good as the best."""
    folder = engines.folder("qwen3", mx.bfloat16)
    text = prompt(1, 60)
    right = engines.alone("qwen3", greedy("a", text, 1), mx.bfloat16).only
    logits, off = rounding(folder, text)
    assert right[0] in as_good(logits, off)
    assert len(as_good(logits, off)) < 5
