"""A model's forward pass over groups of rows, each group with batched layer caches of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from orchard.engine.batching.kv_cache import Cache, map_layers
from orchard.engine.batching.layer_kinds import KINDS
from orchard.engine.batching.model import LanguageModel


@dataclass(frozen=True)
class GroupedForward:
    """The pass without the groups: a trace must not keep them.

    `bounds`: where each group's rows begin and end. `kinds`: the layers' types. `nesting`: a cache without its layers.
    """

    model: LanguageModel
    bounds: list[int]
    kinds: Sequence[str]
    nesting: Cache

    def __call__(
        self, tokens: mx.array, positions: mx.array | None, lengths: list[mx.array], groups: list[list[Any]]
    ) -> mx.array:
        """Return the logits, (rows, vocab_size), after one token a row, (rows,), by the layers of each group.

        After several tokens a row, (rows, n): those of each, (rows, n, vocab_size).
        """
        offset = lengths[0] if len(lengths) == 1 else mx.concatenate(lengths)
        pairs = zip(self.kinds, zip(*groups, strict=True), strict=True)
        views = iter([KINDS[name].view(list(of), self.bounds, offset) for name, of in pairs])
        cache = map_layers(lambda _: next(views), self.nesting)
        if tokens.ndim > 1:
            return self.model.forward(tokens, cache, positions=positions)
        return self.model.forward(tokens[:, None], cache, positions=positions)[:, -1]
