"""What the engine needs of a language model, and what MLX runs it on."""

from typing import Any, NamedTuple, Protocol

import mlx.core as mx


class Embedded(NamedTuple):
    """A prompt that is read from embeddings, (1, n, width), instead of its n tokens; the last one is read by its id.

    `positions`: the prompt's own positions, in the form that the model's `forward` takes; None: 0 to n - 1.
    `position_delta`: the first generated token has position n + position_delta (M-RoPE,
    https://arxiv.org/abs/2409.12191: the tokens of an image share positions).
    """

    embeddings: mx.array
    positions: mx.array | None = None
    position_delta: int = 0


def on_cuda() -> bool:
    """Return whether MLX computes on an NVIDIA GPU."""
    return bool(mx.default_device() == mx.gpu and mx.cuda.is_available())


class LanguageModel(Protocol):
    """A loaded language model. Only the engine's thread calls its methods."""

    @property
    def vocab_size(self) -> int:
        """The width of the logits (may be larger than the tokenizer's vocabulary)."""

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """The tokens that end a turn."""

    @property
    def fingerprint(self) -> str:
        """Different for models whose caches must not be mixed up."""

    def new_cache(self) -> list[Any]:
        """Return an empty cache, one entry a layer; `copy.deepcopy` forks it, `state` is what must be evaluated."""

    def forward(
        self,
        tokens: mx.array,
        cache: list[Any],
        *,
        embeddings: mx.array | None = None,
        positions: mx.array | None = None,
    ) -> mx.array:
        """Read tokens (rows, n), append them to the cache, and return lazy logits (rows, n, vocab_size).

        `embeddings` (rows, n, width) are read in place of the tokens' own. `positions`: of the tokens, where they are
        not simply the cache's lengths and on; (rows,) in decode, else as `Embedded` has them.
        """
