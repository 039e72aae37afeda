"""Ranks that MLX's ring connects give one process's tokens."""

import subprocess
import sys

import pytest

from tests.support.examples import is_deep

_FIRST = [("qwen3", 2, None), ("qwen3_moe", 2, None)]
_OTHERS = [
    *[("qwen3", 3, "tensor"), ("qwen3_moe", 2, "tensor"), ("qwen3_moe", 3, "pipeline"), ("gpt_oss", 2, "tensor")],
    *[("qwen3_5", 2, "tensor"), ("qwen3_5", 3, "pipeline")],
]


@pytest.mark.timeout(600)  # ranks that wait for each other spin, and may have fewer cores than there are ranks
@pytest.mark.parametrize(
    ("kind", "ranks", "parallel"), [*_FIRST, *(pytest.param(*case, marks=pytest.mark.deep) for case in _OTHERS)]
)
def test_ranks_give_the_tokens_of_one_process(kind: str, ranks: int, parallel: str | None) -> None:
    """Without a choice, qwen3_moe is a pipeline, and qwen3 has none."""
    options = ["--ranks", str(ranks), "--mixes", "25" if is_deep() else "2"]
    options += ["--parallel", parallel] if parallel else []
    command = [sys.executable, "-m", "tests.support.ring_mixes", kind, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    mode = "BY_LENGTH" if parallel == "pipeline" or (parallel, kind) == (None, "qwen3_moe") else "SHARED"
    cached = done.stdout.partition(f"mixes are equal, {mode}, ")[2].split()[0]
    # Ranks of a pipeline of a hybrid model have layers of different kinds.
    assert (int(cached) > 0) == ((kind, parallel) != ("qwen3_5", "pipeline"))
