"""Draft models for tests: proposers on tiny models, and drafts that are always wrong or break."""

from typing import Any

import mlx.core as mx

from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.batch import Batch
from orchard.engine.batching.kv_cache import KVStore
from orchard.engine.batching.model import LanguageModel
from orchard.engine.drafting.draft_proposer import DraftProposer
from orchard.engine.speculation.interface import Controller
from orchard.engine.speculation.speculation import Speculation
from tests.support.speculation import FixedController
from tests.support.tiny_models import network


class Wrong:
    """Says the least likely token of another model."""

    logits_at = None

    def __init__(self, model: LanguageModel) -> None:
        self.vocab_size = model.vocab_size
        self.eos_token_ids = model.eos_token_ids
        self.fingerprint = model.fingerprint
        self.new_cache = model.new_cache
        self._model = model

    def forward(self, tokens: mx.array, cache: list[Any], **given: Any) -> mx.array:
        return -self._model.forward(tokens, cache, **given)

    def drop_all(self) -> None:
        """Nothing is kept."""

    def hidden_states(self, tokens: mx.array, cache: list[Any], **given: Any) -> mx.array:
        raise NotImplementedError


def drafter(
    draft: LanguageModel, most: int = 4, chunk: int = 512, cache_bytes: int = 0, *, traced: bool = False
) -> DraftProposer:
    """A proposer; `cache_bytes` are all for the draft. `traced`: its passes are as on a GPU."""
    store = KVStore(draft, TextOptions(), cache_bytes)
    batch = Batch(draft, multiple=4 if traced else 1, short_length=16, traced=traced)
    return DraftProposer(draft, batch, store, most=most, chunk=chunk, share=1.0)


def drafting(draft: LanguageModel, most: int = 4, controller: Controller | None = None, **options: Any) -> Speculation:
    """Speculation with a draft alone, of whose guesses all are verified if no controller says something else."""
    speculation = Speculation([], controller or FixedController(most), network("qwen3").vocab_size)
    speculation.adopt(drafter(draft, most, **options))
    return speculation
