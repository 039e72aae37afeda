"""Ranks that MLX's ring connects give one process's tokens."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.examples import is_deep

_FIRST = ("qwen3_moe", 2, None)  # `test_failure.py` compares answers of a model that is split in the other way
_OTHERS = [
    *[("qwen3", 2, None), ("qwen3", 3, "tensor")],
    *[("qwen3_moe", 2, "tensor"), ("qwen3_moe", 3, "pipeline"), ("gpt_oss", 2, "tensor"), ("gpt_oss", 3, "tensor")],
    *[("qwen3_5", 2, "tensor"), ("qwen3_5", 3, "pipeline"), ("qwen3_5", 3, "tensor")],
]


@pytest.mark.timeout(900)  # ranks that wait for each other spin, and may have fewer cores than there are ranks
@pytest.mark.parametrize(
    ("kind", "ranks", "parallel"), [_FIRST, *(pytest.param(*case, marks=pytest.mark.deep) for case in _OTHERS)]
)
def test_ranks_give_the_tokens_of_one_process(tmp_path: Path, kind: str, ranks: int, parallel: str | None) -> None:
    """Without a choice, qwen3_moe is a pipeline, and qwen3 has none. The group is restarted among the mixes."""
    options = ["--ranks", str(ranks), *(["--parallel", parallel] if parallel else [])]
    counts: Counter[str] = Counter()
    for first, mixes in ((0, 10), (10, 10)) if is_deep() else ((0, 4),):
        command = [sys.executable, "-m", "tests.support.ring_mixes", kind, str(tmp_path), *options]
        command += ["--first", str(first), "--mixes", str(mixes)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        print(done.stdout)
        mode = "BY_LENGTH" if parallel == "pipeline" or (parallel, kind) == (None, "qwen3_moe") else "SHARED"
        told = done.stdout.partition(f"{mixes} mixes are equal, {mode}: ")[2]
        counts.update({name: int(count) for count, name in re.findall(r"(\d+) ([a-z ]+)", told)})
    is_cached = (kind, parallel) != ("qwen3_5", "pipeline")  # there, each rank has layers of different kinds
    expected = {"joins", "cancels", "pauses", "preemptions"} | ({"choices cancelled"} if is_deep() else set())
    if is_cached:
        expected |= {"tokens from the prompt cache"} | ({"prompts from disk"} if is_deep() else set())
    assert {name for name, count in counts.items() if count} >= expected
    assert is_cached or not counts["tokens from the prompt cache"]
