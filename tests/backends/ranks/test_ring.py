"""Ranks that MLX's ring connects give one process's tokens."""

import subprocess
import sys

import pytest

from tests.support.examples import is_deep


@pytest.mark.parametrize(
    ("kind", "ranks"),
    [
        ("qwen3", 2),
        *(
            pytest.param(*case, marks=pytest.mark.deep)
            for case in (("qwen3", 3), ("qwen3_moe", 2), ("qwen3_moe", 3), ("gpt_oss", 2), ("qwen3_5", 2))
        ),
    ],
)
def test_ranks_give_the_tokens_of_one_process(kind: str, ranks: int) -> None:
    mixes = "33" if is_deep() else "2"
    command = [sys.executable, "-m", "tests.support.ring_mixes", kind, "--ranks", str(ranks), "--mixes", mixes]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "mixes are equal, SHARED" in done.stdout
