"""Multi-token-prediction (MTP) heads: their interface to the engine, and a model that feeds its head.

The head is a layer in addition to the model's. From the model's last hidden state of one token and the next token, it
guesses the token after that; from its own output and its guess, it guesses one more.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx

from orchard.device.out_of_memory import is_out_of_memory
from orchard.engine.batching.attention import GroupedArrays
from orchard.engine.batching.head_cache import HeadKVCache, LastHiddenState
from orchard.engine.batching.model import LanguageModel

log = logging.getLogger("orchard.engine")


class PredictionHead(ABC):
    """A head of one layer that was loaded for a model. Only the engine's thread calls it."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A string that differs between heads whose keys and values must not be mixed."""

    @abstractmethod
    def watch(self, read: Callable[[], mx.array]) -> tuple[mx.array, mx.array]:
        """Call `read`, a pass of the model; return its logits and the last hidden states (rows, n, width)."""

    @abstractmethod
    def read(
        self,
        tokens: mx.array,
        before: mx.array,
        cache: Any,
        first: int | mx.array,
        *,
        embeddings: mx.array | None = None,
        positions: mx.array | None = None,
    ) -> mx.array:
        """Read tokens (rows, n) with the hidden states before them; return the head's hidden states, (rows, n, width).

        `first`: the position of the first token, for all rows or one per row. `embeddings`, `positions`: see
        `LanguageModel.forward`; None: the tokens' own, and positions from `first` on.
        """

    @abstractmethod
    def logits(self, hidden: mx.array) -> mx.array:
        """Return the logits (rows, n, vocab_size) for hidden states of the model or of the head."""


class _KeysAndValues(Exception):
    """Carries a layer's new keys and values (rows, heads, n, width) and ends its pass: nothing else is needed."""

    def __init__(self, keys: mx.array, values: mx.array) -> None:
        super().__init__()
        self.arrays = keys, values


class _CapturingCache:
    """A cache that takes the new keys and values from a layer."""

    offset = 0

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Raise the new keys and values: building the rest of the layer would take longer than all before it."""
        raise _KeysAndValues(keys, values)

    def make_mask(self, n: int, **_: Any) -> None:
        """Return no mask."""


class HeadedModel:
    """A language model whose caches have the head's state after those of the model's layers.

    So the head's keys and values are cached, cut, batched and counted like the model's own.
    """

    def __init__(self, model: LanguageModel, head: PredictionHead) -> None:
        """Try the head with one token; raise what it raises."""
        self.head = head
        self.vocab_size = model.vocab_size
        self.eos_token_ids = model.eos_token_ids
        self.fingerprint = f"{model.fingerprint} {head.fingerprint}"
        self.logits_at = None  # a row must be read up to its last token: its last hidden state can't be cut
        self.has_failed = False
        """Whether the head has raised since, so that its keys and values are useless."""
        self.plain = model
        """The model without its head."""
        token = mx.array([[0]], mx.uint32)
        _, hidden = head.watch(lambda: model.forward(token, model.new_cache()))
        self._like = self._feed(token, hidden, 0, None, None)
        mx.eval(self._like)

    def new_cache(self) -> list[Any]:
        """Return an empty cache: the model's, then the head's."""
        return [*self.plain.new_cache(), LastHiddenState(), HeadKVCache()]

    def forward(
        self,
        tokens: mx.array,
        cache: list[Any],
        *,
        embeddings: mx.array | None = None,
        positions: mx.array | None = None,
        extras: dict[str, Any] | None = None,
    ) -> mx.array:
        """See `LanguageModel`. The logits depend on the head's keys and values, so that these are computed, too."""
        return self._read(tokens, cache, embeddings, positions, extras)[0]

    def drop_all(self) -> None:
        """See `LanguageModel`."""
        self.plain.drop_all()

    def hidden_states(self, tokens: mx.array, cache: list[Any], **given: Any) -> mx.array:
        """See `LanguageModel`."""
        return self._read(tokens, cache, given.get("embeddings"), given.get("positions"), given.get("extras"))[1]

    def _read(
        self,
        tokens: mx.array,
        cache: list[Any],
        embeddings: mx.array | None,
        positions: mx.array | None,
        extras: dict[str, Any] | None,
    ) -> tuple[mx.array, mx.array]:
        *own, last, kept = cache
        logits, hidden = self.head.watch(
            lambda: self.plain.forward(tokens, own, embeddings=embeddings, positions=positions, extras=extras)
        )
        new = self._feed_or_disable(tokens, last.push(hidden), kept.offset, embeddings, positions)
        written = [*last.arrays, *_fetched_arrays(kept.update_and_fetch(*new))]
        return mx.depends(logits, written), hidden

    def _feed_or_disable(
        self,
        tokens: mx.array,
        before: mx.array,
        first: int | mx.array,
        embeddings: mx.array | None,
        positions: mx.array | None,
    ) -> tuple[mx.array, mx.array]:
        """Return the head's keys and values of new tokens; if it raises, return zeros and never use it again."""
        if not self.has_failed:
            try:
                return self._feed(tokens, before, first, embeddings, positions)
            except Exception as error:
                if is_out_of_memory(error):
                    raise
                log.warning("the model's MTP head failed, and guesses nothing more", exc_info=error)
                self.has_failed = True
        keys, values = (mx.zeros((len(tokens), one.shape[1], tokens.shape[1], one.shape[3])) for one in self._like)
        return keys.astype(self._like[0].dtype), values.astype(self._like[1].dtype)

    def _feed(
        self,
        tokens: mx.array,
        before: mx.array,
        first: int | mx.array,
        embeddings: mx.array | None,
        positions: mx.array | None,
    ) -> tuple[mx.array, mx.array]:
        if positions is not None and positions.ndim == 1:
            first, positions = positions.reshape(tokens.shape)[:, 0], None
        try:
            self.head.read(tokens, before, _CapturingCache(), first, embeddings=embeddings, positions=positions)
        except _KeysAndValues as taken:
            return taken.arrays
        raise RuntimeError("the head has no attention")


def _fetched_arrays(fetched: Sequence[Any]) -> list[mx.array]:
    """Return the arrays in the keys and values that a cache returned."""
    return [array for one in fetched for array in (one.arrays if isinstance(one, GroupedArrays) else [one])]
