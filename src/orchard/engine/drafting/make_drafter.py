"""Makes the proposer of a loaded draft model: tries it, warms it up and computes the memory that it needs."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching import kv_cache
from orchard.engine.batching.batch import Batch
from orchard.engine.batching.kv_cache import KVStore
from orchard.engine.batching.layer_kinds import Footprint
from orchard.engine.batching.model import LanguageModel, on_cuda
from orchard.engine.drafting.draft_proposer import DraftProposer
from orchard.engine.drafting.head import HeadedModel, PredictionHead
from orchard.engine.prefix_cache.values import EVERYBODY, CacheScope
from orchard.engine.sampling.grammar import GrammarState

log = logging.getLogger("orchard.engine")

DRAFT_TOKENS = 2
"""The default of the most tokens that a draft guesses per step."""
_CHUNK = 512
_TYPICAL_LENGTH = 1024  # tokens; the memory for cached prompts is divided by the footprints of rows of this length
_TRIAL_ROWS = (1, 3)  # rows


@dataclass(eq=False)
class _TrialRow:
    """A row for trying the draft."""

    tokens: list[int]
    prompt_length: int = 2
    prediction: Sequence[int] = ()
    grammar: GrammarState | None = field(default=None)
    cache_scope: CacheScope = EVERYBODY


def make_drafter(
    draft: LanguageModel, options: TextOptions, footprint: Footprint, cache_bytes: int
) -> tuple[DraftProposer, Footprint] | None:
    """Return a draft's proposer, and a row's footprint in both models; log a warning and return None if it fails.

    `footprint`: a row's footprint in the model alone. `cache_bytes`: for the cached prompts of both.
    """
    most = options.num_draft_tokens or DRAFT_TOKENS
    chunk = options.halve_tokens(options.prefill_step_size or _CHUNK)
    try:
        cache = draft.new_cache()
        draft.forward(mx.array([[0]], mx.uint32), cache)
        own = kv_cache.footprint(cache)
        share = own.bytes(_TYPICAL_LENGTH) / max(own.bytes(_TYPICAL_LENGTH) + footprint.bytes(_TYPICAL_LENGTH), 1)
        kept = KVStore(draft, TextOptions(), int(share * cache_bytes))
        tried, drafter = (
            DraftProposer(draft, _draft_batch(draft), store, most=most, chunk=chunk, share=share)
            for store in (KVStore(draft, TextOptions()), kept)
        )
        _try_drafter(tried, most)
    except Exception as error:
        log.warning("the draft model can't be used, and nothing is drafted", exc_info=error)
        return None
    return drafter, footprint.plus(own)


def add_head(model: LanguageModel, head: PredictionHead) -> LanguageModel:
    """Return a model that feeds its head; log a warning and return `model` itself if the head can't be used."""
    try:
        return HeadedModel(model, head)
    except Exception as error:
        log.warning("the model's MTP head can't be used, and nothing is drafted", exc_info=error)
        return model


def _draft_batch(draft: LanguageModel) -> Batch:
    return Batch(draft, multiple=8 if on_cuda() else 1, traced=on_cuda())


def _try_drafter(drafter: DraftProposer, most: int) -> None:
    """Guess for one row and for several, so that no request waits for compilation."""
    for count in _TRIAL_ROWS:
        rows = [_TrialRow([0, 0]) for _ in range(count)]
        for row in rows:
            drafter.open(row)
        for _ in range(3):
            drafter.promise(rows, [most] * count)
            drafter.read(rows)
            for row, guesses in zip(rows, drafter.draft(rows, [most] * count).read(), strict=True):
                row.tokens += [*guesses[:1], 0]
        for row in rows:
            drafter.close(row)
