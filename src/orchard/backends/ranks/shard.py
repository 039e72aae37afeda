"""One rank's part of a model."""

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, CacheList

from orchard.backends.model_folder import Progress
from orchard.backends.text.model import TextModel, load_text_model
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.ranks.group import RankGroup


@dataclass(frozen=True, kw_only=True)
class PipelineModel(TextModel):
    """Some of a model's layers. What a rank receives depends on nothing in its own graph: if several passes were
    computed at once, MLX might receive them in another order than they are sent. So each pass is launched at once."""

    def forward(self, tokens: mx.array, cache: list[Any], **given: Any) -> mx.array:
        """See `TextModel`."""
        logits = super().forward(tokens, cache, **given)
        # In mlx-lm's pipeline, this part of the last layer's cache waits for what is received and sent.
        last = cache[-1][0] if isinstance(cache[-1], ArraysCache | CacheList) else cache[-1]
        mx.async_eval(getattr(last, "keys", last))  # type: ignore[no-untyped-call]
        return logits


def load_shard(path: str, options: TextOptions, progress: Progress, group: RankGroup) -> TextModel:
    """Load this rank's part of a model. Raise what `load_text_model` raises."""
    model = load_text_model(path, options, progress, group)
    return PipelineModel(**vars(model)) if group.is_pipeline else model
