"""Compares a model on several ranks, connected by MLX's ring, with the same model in one process.

A process can be a rank of only one group, so each comparison is a process: `python -m tests.support.ring_mixes`.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.pipeline import PipelineMixin

from orchard.backends.ranks.launch import RankLauncher
from orchard.backends.text.model import TextModel, load_text_model
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.job import Job
from orchard.engine.ranks.leader import LeadingScheduler
from orchard.engine.ranks.shared_store import SharedStore
from orchard.engine.sampling.params import SamplingParams
from orchard.engine.scheduler import StepPlan
from tests.support.engine_driver import At, Driver, Happening, Leave, Pause, Resume, Squeeze, prompt
from tests.support.grammars import schema
from tests.support.models import ARCHITECTURES, PECULIAR, make_architecture, split_by_layers
from tests.support.tiny_models import alone

_MEMORY = 2**30
counts: Counter[str] = Counter()
"""What has happened."""
SPLIT: dict[str, dict[str, Any]] = {
    "qwen3": {"num_attention_heads": 12, "num_key_value_heads": 6, "intermediate_size": 96},
    "qwen3_moe": {
        "num_hidden_layers": 3,
        "num_attention_heads": 12,
        "num_key_value_heads": 6,
        "moe_intermediate_size": 96,
    },
    "qwen3_5": {
        "text_config": PECULIAR["qwen3_5"]["text_config"]
        | {"num_attention_heads": 12, "num_key_value_heads": 6, "intermediate_size": 96}
        | {"linear_num_value_heads": 12, "linear_num_key_heads": 6}
    },
    "gpt_oss": {"num_attention_heads": 12, "num_key_value_heads": 6, "intermediate_size": 96},
}
"""Changes to the tiny models, so that two and three ranks can share them."""


@contextmanager
def in_table(kind: str, changes: dict[str, Any]) -> Iterator[None]:
    """Change a tiny model's configuration for a while."""
    table = ARCHITECTURES if kind in ARCHITECTURES else PECULIAR
    usual = table[kind]
    table[kind] = usual | changes
    try:
        yield
    finally:
        table[kind] = usual


def make_split_model(parent: Path) -> Path:
    """Make a tiny model that two ranks can share, in the folder `split`; return the folder."""
    folder = parent / "split"
    folder.mkdir()
    with in_table("qwen3", SPLIT["qwen3"]):
        make_architecture(folder, "qwen3")
    return folder


def _mix(rng: random.Random, names: str) -> tuple[list[Job], list[Happening]]:
    """Jobs that join at once or at some token of another one; some leave, one is paused, memory runs short.

    Many prompts share their heads.
    """
    first: list[Job] = []
    happenings: list[Happening] = []
    for name in names:
        sampled = SamplingParams(
            seed=rng.randrange(99),
            temperature=0.9,
            top_k=rng.choice([0, 20]),
            top_p=rng.choice([1.0, 0.9]),
            repetition_penalty=rng.choice([1.0, 1.2]),
        )
        params = rng.choice([SamplingParams(seed=0, temperature=0.0), sampled])
        grammar = schema() if rng.random() < 0.2 else None
        tokens = prompt(rng.randrange(2), rng.choice([1, 15, 17, 40, 90]))
        job = Job(name, tokens, params, rng.randint(1, 12), rng.randint(1, 2), boundaries=(12,), grammar=grammar)
        others = [one.id for one in first]
        if others and rng.random() < 0.6:
            happenings.append((At(rng.choice(others), rng.randrange(8)), job))
        else:
            first.append(job)
        if rng.random() < 0.3:
            choice = rng.choice([None, 0]) if job.choices > 1 else None
            happenings.append((At(rng.choice([one.id for one in first]), rng.randrange(1, 8)), Leave(name, choice)))
    if len(first) > 1:
        paused, other = rng.sample([one.id for one in first], 2)
        place = rng.randrange(1, 4)
        happenings += [(At(other, place), Pause(paused)), (At(other, place + 3), Resume(paused))]
    if rng.random() < 0.4:
        happenings.append((At(first[0].id, rng.randrange(1, 6)), Squeeze()))
    return first, happenings


def _load(launcher: RankLauncher, folder: Path, options: TextOptions) -> TextModel:
    """Load rank 0's part, and see that no more was taken and opened than that takes."""
    opened: set[str] = set()
    load = mx.load

    def record(file: str, *given: Any, **named: Any) -> Any:
        if (real := Path(file).resolve()).parent == folder.resolve():
            opened.add(real.name)
        return load(file, *given, **named)

    before = mx.get_active_memory()
    mx.reset_peak_memory()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mx, "load", record)
        model = launcher.load(options, lambda fraction: None)
    taken = mx.get_peak_memory() - before
    files = [file.name for file in folder.glob("*.safetensors")]
    pipelines = [one for one in model.network.modules() if isinstance(one, PipelineMixin)]
    for pipeline in (one for one in pipelines if one.pipeline_size > 1):
        files = ["model-rest.safetensors"]
        files += [f"model-{layer}.safetensors" for layer in range(pipeline.start_idx, pipeline.end_idx)]
    if opened != set(files):
        sys.exit(f"it opened {sorted(opened)} instead of {sorted(files)}")
    sizes = [array.nbytes for file in folder.glob("*.safetensors") for array in mx.load(str(file)).values()]  # type: ignore[union-attr]
    part = sum(array.nbytes for _, array in tree_flatten(model.network.parameters()))
    if taken > (most := part + sum(sorted(sizes)[-2:])):
        sys.exit(f"the load took {taken:,} bytes; {most:,} would be its part and the two largest tensors")
    print(f"the load took {taken:,} bytes, its part {part:,}, the model {sum(sizes):,}; it opened {sorted(opened)}")
    return model


@contextmanager
def _counted() -> Iterator[None]:
    """Count what the leading runner does."""
    plan, end_read = LeadingScheduler.plan, SharedStore.end_read

    def count_plan(scheduler: LeadingScheduler) -> StepPlan:
        found = plan(scheduler)
        counts["pauses"] += len(found.pause)
        counts["preemptions"] += len(found.preempt)
        return found

    def count_read(store: SharedStore, *, restores: bool) -> None:
        before = store.nbytes
        end_read(store, restores=restores)
        counts["prompts from disk"] += store.nbytes > before

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LeadingScheduler, "plan", count_plan)
        patch.setattr(SharedStore, "end_read", count_read)
        yield


def _compare(number: int, together: Driver, whole: TextModel) -> None:
    """Run a mix; exit with 1 if something differs."""
    rng = random.Random(number)
    first, happenings = _mix(rng, "abcde")
    found = together.run(first, happenings)
    for act in (act for _, act in happenings):
        counts["joins"] += isinstance(act, Job) and found[act.id].cached_tokens is not None
        if isinstance(act, Leave) and None in found[act.job].reasons:
            counts["cancels" if act.choice is None else "choices cancelled"] += 1
    for job in [*first, *(act for _, act in happenings if isinstance(act, Job))]:
        result = found[job.id]
        counts["tokens from the prompt cache"] += result.cached_tokens or 0
        for choice, expected in enumerate(alone(whole, job)):
            tokens = result.tokens[choice]
            if tokens != (expected if result.reasons[choice] else expected[: len(tokens)]):
                sys.exit(f"mix {number}, choice {choice} of {job.id}: {tokens} instead of {expected}")


def main() -> None:
    """Compare some mixes; exit with 1 at the first difference."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=SPLIT)
    parser.add_argument("folder", type=Path, help="with the model and its cached prompts; they are made if it is empty")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--parallel", choices=["tensor", "pipeline"])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--mixes", type=int, default=3)
    args = parser.parse_args()
    model, cache = args.folder / "model", args.folder / "cache"
    if not model.exists():
        model.mkdir()
        with in_table(args.kind, SPLIT[args.kind]):
            make_architecture(model, args.kind)
        split_by_layers(model)
    options: dict[str, Any] = {"ranks": args.ranks, "parallel": args.parallel, "prompt_cache_dir": str(cache)}
    options |= {"memory_limit": _MEMORY, "prefill_step_size": 16}
    launcher = RankLauncher(str(model), TextOptions(**options))
    with _counted():
        together = Driver(lambda: _load(launcher, model, TextOptions(**options)), **options)
        whole = load_text_model(str(model))
        for number in range(args.first, args.first + args.mixes):
            _compare(number, together, whole)
        together.close()
    launcher.end()
    told = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    print(f"{args.mixes} mixes are equal, {together.batch_mode.name}: {told}")


if __name__ == "__main__":
    main()
