"""Ranks that MLX's ring connects give one process's tokens."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.examples import is_deep

_FIRST = [("qwen3", 2, None), ("qwen3_moe", 2, None)]
_OTHERS = [
    *[("qwen3", 3, "tensor"), ("qwen3_moe", 2, "tensor"), ("qwen3_moe", 3, "pipeline"), ("gpt_oss", 2, "tensor")],
    *[("gpt_oss", 3, "tensor"), ("qwen3_5", 2, "tensor"), ("qwen3_5", 3, "pipeline"), ("qwen3_5", 3, "tensor")],
]
_HAPPENINGS = {"joins", "cancels", "choices cancelled", "pauses", "preemptions"}
_CACHED = {"tokens from the prompt cache", "prompts from disk"}


@pytest.mark.timeout(900)  # ranks that wait for each other spin, and may have fewer cores than there are ranks
@pytest.mark.parametrize(
    ("kind", "ranks", "parallel"), [*_FIRST, *(pytest.param(*case, marks=pytest.mark.deep) for case in _OTHERS)]
)
def test_ranks_give_the_tokens_of_one_process(tmp_path: Path, kind: str, ranks: int, parallel: str | None) -> None:
    """Without a choice, qwen3_moe is a pipeline, and qwen3 has none. The group is restarted among the mixes."""
    options = ["--ranks", str(ranks), *(["--parallel", parallel] if parallel else [])]
    counts: Counter[str] = Counter()
    for first, mixes in ((0, 10), (10, 10)) if is_deep() else ((0, 2),):
        command = [sys.executable, "-m", "tests.support.ring_mixes", kind, str(tmp_path), *options]
        command += ["--first", str(first), "--mixes", str(mixes)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        print(done.stdout)
        mode = "BY_LENGTH" if parallel == "pipeline" or (parallel, kind) == (None, "qwen3_moe") else "SHARED"
        told = done.stdout.partition(f"{mixes} mixes are equal, {mode}: ")[2]
        counts.update({name: int(count) for count, name in re.findall(r"(\d+) ([a-z ]+)", told)})
    happened = {name for name, count in counts.items() if count}
    # Ranks of a pipeline of a hybrid model have layers of different kinds.
    cached = _CACHED if (kind, parallel) != ("qwen3_5", "pipeline") else set()
    assert happened & _CACHED == (cached if is_deep() else cached - {"prompts from disk"})
    assert not is_deep() or happened >= _HAPPENINGS, counts
