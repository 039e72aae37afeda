"""The interval of a median, the oracle that a benchmark of speculation asks, and the drafts that it makes."""

from dataclasses import dataclass, field
from pathlib import Path

import mlx.core as mx
import pytest
from benchmarks.noisy_copy import noisy_copy
from benchmarks.speculation import DraftOracle, MtpOracle, Oracle, median_interval
from benchmarks.steady_copy import steady_copy

from orchard.backends.text.model import load_text_model
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.batch import Batch
from orchard.engine.batching.kv_cache import KVStore
from orchard.engine.prefix_cache.values import EVERYBODY, CacheScope
from orchard.engine.speculation.speculation import Speculation
from tests.support.engine_driver import greedy, prompt
from tests.support.heads import headed
from tests.support.models import model_folder
from tests.support.speculation import FixedController
from tests.support.tiny_models import Other, alone, make_runner, network, run

__all__ = ["model_folder"]


@pytest.mark.parametrize(
    ("count", "low", "high"), [(1, 0, 0), (5, 0, 4), (6, 0, 5), (9, 1, 7), (20, 5, 14), (21, 5, 15)]
)
def test_the_interval_is_that_of_the_ranks(count: int, low: int, high: int) -> None:
    assert median_interval(list(range(count))[::-1]) == (low, high)


@dataclass(eq=False)
class AskedRow:
    tokens: list[int] = field(default_factory=lambda: [1, 2])
    prompt_length: int = 2
    cache_scope: CacheScope = EVERYBODY
    prediction: tuple[int, ...] = ()
    grammar: None = None


@pytest.mark.parametrize(("chance", "right"), [(1.0, 4), (0.0, 0)])
def test_the_oracle_guesses_as_often_right_as_it_is_told(chance: float, right: int) -> None:
    oracle, row = Oracle(chance), AskedRow()
    oracle.answers[1, 2] = [5, 6, 7, 8]
    oracle.open(row)
    row.tokens.append(5)
    [proposal] = oracle.propose([row], [3])
    assert proposal
    assert len(proposal.tokens) == 3
    assert sum(map(int.__eq__, proposal.tokens, [6, 7, 8])) == min(right, 3)


@pytest.mark.parametrize(("chance", "right"), [(1.0, True), (0.0, False)])
def test_the_drafts_own_pass_runs_and_only_its_tokens_are_replaced(chance: float, right: bool) -> None:
    passes: list[tuple[int, ...]] = []
    model = Other(network("qwen3"), before=lambda tokens, given: passes.append(tuple(tokens.shape)))
    oracle, row = Oracle(chance), AskedRow()
    store = KVStore(model, TextOptions())
    draft = DraftOracle(model, Batch(model), store, oracle=oracle, most=3, chunk=64, share=1.0)
    draft.open(row)
    draft.promise([row], [3])
    assert [draft.read([row]), draft.read([row])] == [1, 0]
    assert len(draft.draft([row], [3]).read()[0]) == 3  # its own guesses: the answer is not known
    oracle.answers[1, 2] = [5, 6, 7, 8, 9]
    row.tokens.append(5)
    passes.clear()
    draft.promise([row], [3])
    assert draft.draft([row], [3]).read() == [[6, 7, 8] if right else [7, 8, 9]]
    assert passes == [(1, 1)] * 3


@pytest.mark.parametrize(("chance", "right"), [(1.0, True), (0.0, False)])
def test_the_heads_own_pass_runs_and_only_its_tokens_are_replaced(chance: float, right: bool) -> None:
    plain, model, _ = headed()
    job = greedy("a", prompt(1, 30), 14)
    [answer] = alone(plain, job)
    oracle = Oracle(chance)
    oracle.answers[tuple(job.prompt)] = answer
    runner = make_runner(model, speculation=Speculation([], FixedController(2), model.vocab_size))
    assert runner.speculation
    runner.speculation.adopt(MtpOracle(model, runner._rows._batch, 2, oracle=oracle))
    course = run(runner, [job])
    assert course.outcomes["a"].tokens == [answer]
    assert isinstance(controller := runner.speculation.controller, FixedController)
    assert (controller.accepted()["mtp"] > 5) == right


def weights_of(folder: str) -> dict[str, mx.array]:
    loaded = mx.load(f"{folder}/model.safetensors")
    assert isinstance(loaded, dict)
    return loaded


def test_a_noisy_copy_is_the_same_model_with_other_weights(model_folder: Path, tmp_path: Path) -> None:
    paths = [noisy_copy(str(model_folder), tmp_path / name, 0.1) for name in ("a", "b")]
    own, first, second = (weights_of(str(path)) for path in (model_folder, *paths))
    for name, weight in own.items():
        assert mx.array_equal(first[name], second[name])
        assert mx.abs(first[name] - weight).max() < mx.std(weight) or mx.array_equal(weight, mx.ones_like(weight))
    assert not mx.array_equal(first["lm_head.weight"], own["lm_head.weight"])
    assert load_text_model(paths[0]).vocab_size == load_text_model(str(model_folder)).vocab_size


def test_of_a_steady_copy_each_token_has_one_successor(model_folder: Path, tmp_path: Path) -> None:
    model = load_text_model(steady_copy(str(model_folder), tmp_path / "steady"))
    tokens = [5, 9, 1, 1]
    logits = model.forward(mx.array([tokens], mx.uint32), model.new_cache())
    assert mx.softmax(logits[0].astype(mx.float32), -1).max(-1).min() > 0.9
    assert logits[0].argmax(-1).tolist() == [(token + 7919) % model.vocab_size for token in tokens]
