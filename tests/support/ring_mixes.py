"""Compares a model on several ranks, connected by MLX's ring, with the same model in one process.

A process can be a rank of only one group, so each comparison is a process: `python -m tests.support.ring_mixes`.
"""

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from orchard.backends.ranks.launch import RankLauncher
from orchard.backends.text.model import TextModel, load_text_model
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.job import Job
from orchard.engine.sampling.params import SamplingParams
from tests.support.engine_driver import At, Driver, Happening, Leave, prompt
from tests.support.grammars import schema
from tests.support.models import ARCHITECTURES, PECULIAR, make_architecture
from tests.support.tiny_models import alone

_MEMORY = 2**30
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
    """Jobs that join at once or at some token of another one; some leave. Many prompts share their heads."""
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
        if rng.random() < 0.2:
            happenings.append((At(rng.choice([one.id for one in first]), rng.randrange(8)), Leave(name)))
    return first, happenings


def _load(launcher: RankLauncher, folder: Path, options: TextOptions) -> TextModel:
    """Load rank 0's part, and see that no more memory was taken than for the part and the two largest tensors."""
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    model = launcher.load(options, lambda fraction: None)
    taken = mx.get_peak_memory() - before
    sizes = [array.nbytes for file in folder.glob("*.safetensors") for array in mx.load(str(file)).values()]  # type: ignore[union-attr]
    part = sum(array.nbytes for _, array in tree_flatten(model.network.parameters()))
    if taken > (most := part + sum(sorted(sizes)[-2:])):
        sys.exit(f"the load took {taken:,} bytes; {most:,} would be its part and the two largest tensors")
    print(f"the load took {taken:,} bytes, its part {part:,}, the model {sum(sizes):,}")
    return model


def main() -> None:
    """Compare some mixes; exit with 1 at the first difference."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=SPLIT)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--parallel", choices=["tensor", "pipeline"])
    parser.add_argument("--mixes", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with in_table(args.kind, SPLIT[args.kind]):
            make_architecture(Path(folder), args.kind)
        options: dict[str, Any] = {"ranks": args.ranks, "parallel": args.parallel}
        options |= {"memory_limit": _MEMORY, "prefill_step_size": 16}
        launcher = RankLauncher(folder, TextOptions(**options))
        together = Driver(partial(_load, launcher, Path(folder), TextOptions(**options)), **options)
        whole = load_text_model(folder)
        cached = 0
        for number in range(args.mixes):
            rng = random.Random(number)
            first, happenings = _mix(rng, "abcde")
            left = {act.job for _, act in happenings if isinstance(act, Leave)}
            found = together.run(first, happenings)
            for job in [*first, *(act for _, act in happenings if isinstance(act, Job))]:
                cached += found[job.id].cached_tokens or 0
                expected = alone(whole, job)
                if job.id in left:
                    pairs = zip(found[job.id].tokens, expected, strict=True)
                    expected = [answer[: len(part)] for part, answer in pairs]
                if found[job.id].tokens != expected:
                    sys.exit(f"mix {number}, job {job.id}: {found[job.id].tokens} instead of {expected}")
        together.close()
        launcher.end()
    print(f"{args.mixes} mixes are equal, {together.batch_mode.name}, {cached} tokens came from the prompt cache")


if __name__ == "__main__":
    main()
