"""The interface of a language model to the engine, and helpers that tell MLX's device."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol
from zlib import crc32

import mlx.core as mx
from numpy.typing import NDArray


class SlicedArray(NamedTuple):
    """An array with an entry for each token along `axis`."""

    array: mx.array | NDArray[Any]
    axis: int = 1

    def cut(self, start: int, stop: int) -> mx.array | NDArray[Any]:
        """Return the entries of the tokens from `start` to `stop`."""
        return self.array[(slice(None),) * self.axis + (slice(start, stop),)]


class PlacedRows(NamedTuple):
    """Arrays (rows, width), one per layer, whose rows are added to the tokens at `places` (ascending): DeepStack."""

    arrays: list[mx.array]
    places: Sequence[int]

    def cut(self, start: int, stop: int) -> list[mx.array] | None:
        """Return the rows of the tokens from `start` to `stop`, one array per layer; None if there are none."""
        first, last = bisect_left(self.places, start), bisect_left(self.places, stop)
        return [array[first:last] for array in self.arrays] if last > first else None


class Piece(NamedTuple):
    """What a forward pass reads with token ids or in their place; see `LanguageModel.forward`."""

    embeddings: mx.array | None = None
    positions: mx.array | None = None
    extras: dict[str, Any] | None = None


class PromptEmbeddings(NamedTuple):
    """The embeddings, (1, m, width), of m tokens of a prompt of n tokens, from token `start` on.

    They end at the prompt's end (m = n - start) or, so that not all media are encoded at once, at the end of a medium.
    The prompt's last token is read by its id.
    `positions`: of the m tokens, in the last axis, in the form that `forward` takes; None: from `start` on.
    `position_delta`: the first generated token has position n + position_delta (M-RoPE,
    https://arxiv.org/abs/2409.12191: the tokens of an image share positions).
    `extras`: other arguments of `forward` for these tokens.
    `embeddings` None: no medium is left, so the tokens are read by their ids, at their places + position_delta.
    """

    start: int
    embeddings: mx.array | None = None
    positions: mx.array | None = None
    position_delta: int = 0
    extras: dict[str, SlicedArray | PlacedRows] = {}  # noqa: RUF012 - nobody writes to it

    @property
    def stop(self) -> int | None:
        """The place where the embeddings end; None: tokens are read by id to the prompt's end."""
        return None if self.embeddings is None else self.start + self.embeddings.shape[1]

    def cut(self, start: int, stop: int) -> Piece:
        """Return what a pass over the prompt's tokens from `start` to `stop` reads; both lie within the embeddings."""
        first, last = start - self.start, stop - self.start
        embeddings = None if self.embeddings is None else self.embeddings[:, first:last]
        positions = None if self.positions is None else self.positions[..., first:last]
        extras = {name: cut for name, extra in self.extras.items() if (cut := extra.cut(first, last)) is not None}
        return Piece(embeddings, positions, extras or None)


def on_cuda() -> bool:
    """Return whether MLX computes on an NVIDIA GPU."""
    return bool(mx.default_device() == mx.gpu and mx.cuda.is_available())


def cuda_kernel(name: str, inputs: list[str], outputs: list[str], source: str, header: str = "") -> Any:
    """Return a kernel as `mx.fast.cuda_kernel` does; add a hash of the source to its name.

    MLX caches compiled kernels by name, also on disk, so another version of Orchard would run this version's kernel.
    """
    return mx.fast.cuda_kernel(f"{name}_{crc32((header + source).encode()):08x}", inputs, outputs, source, header)


LogitsAt = Callable[[mx.array, list[Any], mx.array], mx.array]
"""Reads tokens (rows, n) as `LanguageModel.forward` does; returns the lazy logits (rows, vocab_size) after one token of
each row, whose places (rows,) it gets. No other logits are computed."""


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
        """A string that differs between models whose cached prompts must not be mixed."""

    def new_cache(self) -> list[Any]:
        """Return an empty cache, one entry per layer. `copy.deepcopy` forks it; evaluate each entry's `state`."""

    def forward(
        self,
        tokens: mx.array,
        cache: list[Any],
        *,
        embeddings: mx.array | None = None,
        positions: mx.array | None = None,
        extras: dict[str, Any] | None = None,
    ) -> mx.array:
        """Read tokens (rows, n), append them to the cache, and return lazy logits (rows, n, vocab_size).

        `embeddings` (rows, n, width) replace the tokens' own. `positions`: of the tokens, if they don't simply continue
        the cache's lengths; for text (rows * n,), else as in `PromptEmbeddings`. `extras`: by name, as there.
        """

    def drop_all(self) -> None:
        """Forget what is kept between requests, such as encoded media."""

    @property
    def logits_at(self) -> LogitsAt | None:
        """See `LogitsAt`; None: the model always computes the logits of all tokens."""

    def hidden_states(self, tokens: mx.array, cache: list[Any], **given: Any) -> mx.array:
        """Read tokens as `forward` does, but return the lazy last hidden states (rows, n, width), from which logits
        are computed. Only jobs with `hidden` need this."""
