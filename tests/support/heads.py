"""A tiny model with an MTP head, and a proposer whose guesses an oracle decides after the head's passes have run."""

import functools
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
from mlx_vlm.speculative.drafters import load_drafter

from orchard.backends.text.model import TextModel, load_text_model
from orchard.backends.text.mtp import load_head
from orchard.engine.batching import attention
from orchard.engine.batching.batch import Batch, Pass
from orchard.engine.batching.decode import Row
from orchard.engine.drafting.head import HeadedModel
from orchard.engine.drafting.mtp_proposer import MtpProposer
from orchard.engine.runner import Runner
from orchard.engine.speculation.interface import Controller, SpeculatingRow
from orchard.engine.speculation.proposal import DraftedTokens
from orchard.engine.speculation.speculation import Speculation
from orchard.engine.ticket import Limits
from tests.support.engine_driver import WORDS
from tests.support.models import add_head, make_architecture
from tests.support.speculation import FixedController
from tests.support.tiny_models import LOOSE, make_runner


class Headed(NamedTuple):
    """A random model of the Qwen3.5 family in float32, without its head and with it, and the head as mlx-vlm has it."""

    plain: TextModel
    model: HeadedModel
    library: Any


@functools.cache
def headed() -> Headed:
    """The same for all tests of a process."""
    with tempfile.TemporaryDirectory() as folder:
        make_architecture(Path(folder), "qwen3_5")
        add_head(Path(folder))
        model = load_text_model(folder)
        mx.eval(model.network.parameters())
        head = load_head(model, Path(folder))
        library, _ = load_drafter(folder, "mtp")
    attention.install_attention()
    return Headed(model, HeadedModel(model, head), library)


class OracleHead(MtpProposer):
    """Runs the head's passes, and then guesses what its rows will say, each token wrong with some chance."""

    def __init__(
        self, model: HeadedModel, batch: Batch, most: int, answers: dict[str, list[list[int]]], right: float
    ) -> None:
        super().__init__(model, batch, most)
        self._answers, self._right = answers, right
        self._rng = random.Random(1)
        self.errors: list[Exception] = []

    def draft(self, rows: Sequence[SpeculatingRow], counts: Sequence[int]) -> DraftedTokens:
        try:
            return super().draft(rows, counts)
        except Exception as error:
            self.errors.append(error)
            raise

    def guess(self, one: Pass, rows: Sequence[SpeculatingRow | None], most: int) -> mx.array:
        own = super().guess(one, rows, most)
        said = mx.array([[self._said(row, place) for place in range(most)] for row in rows], mx.uint32)
        found: mx.array = mx.depends(said, own)
        return found

    def _said(self, row: SpeculatingRow | None, place: int) -> int:
        if not isinstance(row, Row) or self._rng.random() >= self._right:
            return self._rng.randrange(WORDS)
        answer = self._answers[row.job.id][row.choice]
        ahead = answer[len(row.tokens) - row.prompt_length + place :]
        return ahead[0] if ahead else 0


def head_runner(
    model: HeadedModel,
    most: int = 3,
    *,
    answers: dict[str, list[list[int]]] | None = None,
    right: float = 1.0,
    controller: Controller | None = None,
    limits: Limits = LOOSE,
    traced: bool = False,
    **options: Any,
) -> Runner:
    """A runner for which the head alone guesses, always; with `answers`, what an oracle says in its place."""
    speculation = Speculation([], controller or FixedController(most), model.vocab_size)
    runner = make_runner(model, limits, speculation=speculation, traced=traced, **options)
    batch = runner._rows._batch
    speculation.adopt(OracleHead(model, batch, most, answers, right) if answers else MtpProposer(model, batch, most))
    return runner
