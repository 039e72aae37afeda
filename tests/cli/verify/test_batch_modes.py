"""Random models of every batch mode are found right."""

from pathlib import Path

import pytest

from orchard.cli.verify.proof import Proof
from orchard.cli.verify.run import Candidate, verify_model
from orchard.config import ModelSettings
from orchard.gateway.models.registry import resolve_model
from tests.support.models import make_architecture

# Shared passes: qwen3, a window (gemma3_text) and states (lfm2); passes by length: deepseek_v32; turns: gemma2.
KINDS = ("qwen3", "gemma3_text", "lfm2", "deepseek_v32", "gemma2")

COMPARED = ("library loop", "company", "cache", "restart", "speculation")


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_found_wrong(kind: str, tmp_path: Path) -> None:
    make_architecture(tmp_path, kind)
    found: list[Proof] = []
    candidate = Candidate(resolve_model(str(tmp_path)), ModelSettings(model_path=str(tmp_path)))
    verify_model(candidate, ["right"], found.append, lambda what: None, long=True)  # without a limit of time
    assert [(proof.check, proof.seen) for proof in found if proof.status == "problem"] == []
    statuses = {proof.check: proof.status for proof in found}
    assert {statuses[name] for name in COMPARED} <= {"ok", "rounding"}, [(proof.check, proof.seen) for proof in found]
