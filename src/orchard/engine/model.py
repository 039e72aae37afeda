"""What the engine needs of a language model."""

from typing import Any, Protocol

import mlx.core as mx


class Model(Protocol):
    """A loaded language model. Only the engine's thread calls its methods."""

    @property
    def vocab_size(self) -> int:
        """The width of the logits (may be larger than the tokenizer's vocabulary)."""
        ...

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """The tokens that end a turn."""
        ...

    def new_cache(self) -> list[Any]:
        """Give an empty cache, one entry a layer; `copy.deepcopy` forks it, `state` is what must be evaluated."""
        ...

    def forward(self, tokens: mx.array, cache: list[Any]) -> mx.array:
        """Read tokens (1, n), append them to the cache, and give lazy logits (1, n, vocab_size)."""
        ...
