"""Prefill: a prompt on its way into a cache."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from orchard.engine.batching import batched_prefill, kv_cache
from orchard.engine.batching.kv_store import KVStore
from orchard.engine.batching.model import Embedded, LanguageModel
from orchard.engine.sampling.logprobs import Scoring


class Prefill:
    """Reads tokens into a cache of their own, all but the last one, which is the row's first input."""

    def __init__(
        self,
        tokens: list[int],
        boundaries: Sequence[int],
        store: KVStore,
        embedded: Embedded | None = None,
        *,
        scoring: Scoring | None = None,
        scored: int = 0,
    ) -> None:
        """Begin with what is cached of `tokens`. `boundaries`: where to keep a snapshot, ascending.

        Prompts from embeddings are not cached: equal tokens may stand for different images. `scoring` scores the tokens
        behind those that it reads, but for the first `scored`; so the others must be read, whatever is cached of them.
        """
        self.tokens = tokens
        self.scoring = scoring
        self._scored = scored
        self._embedded = embedded
        self.position_delta = embedded.position_delta if embedded else 0
        """How much further than its length the first generated token's position is."""
        self._store = store
        self.unfinished: list[Any] = []
        self._arriving = 0  # the length of the cache after a pass with others; 0: there was none
        found = None if embedded else store.find(tokens[: scored + 1] if scoring else tokens)
        self.cache, self.cached, miss = found or (store.new_cache(), 0, None)
        self.miss = None if scoring else miss
        self.done = self.cached
        self._stops = [stop for stop in store.prefill_stops(boundaries) if self.done < stop < len(tokens)]

    @property
    def left(self) -> int:
        """How many tokens are still to be read."""
        return len(self.tokens) - 1 - self.done

    def advance(self, model: LanguageModel, budget: int) -> int:
        """Launch the reading of up to `budget` tokens; return how many. At most one chunk is under way on return."""
        before = self.done
        if self._arriving:
            self._arrive(self._arriving)
            return self.done - before
        while self.left and self.done - before < budget:
            self._read(model, min(self.left, budget - (self.done - before)))
        return self.done - before

    def _read(self, model: LanguageModel, count: int) -> None:
        stop = self.next_stop(count)
        mx.eval(self.unfinished)
        tokens = mx.array([self.tokens[self.done : stop]], mx.uint32)
        embeddings, positions = self._embeddings(stop)
        # Mostly only the cache is evaluated, so that the logits of a prompt, which nobody reads, are never computed.
        logits = model.forward(tokens, self.cache, embeddings=embeddings, positions=positions)
        scores: list[mx.array] = []
        if self.scoring and self.done >= self._scored:
            scores = self.scoring.add(logits[0], self.tokens[self.done + 1 : stop + 1])
        self._arrive(stop)
        self.unfinished = [*scores, *(layer.state for _, layer in kv_cache.layers(self.cache))]
        mx.async_eval(self.unfinished)  # type: ignore[no-untyped-call]

    def next_stop(self, count: int) -> int:
        """Return the place where the next chunk of at most `count` tokens ends."""
        stop = self.done + min(self.left, count)
        if self.scoring:
            stop = min(stop, self._scored if self.done < self._scored else self.done + self.scoring.most_places)
        if self._stops:
            stop = min(stop, self._stops[0])
        if self._embedded and self.done < self._embedded.embeddings.shape[1]:
            stop = min(stop, self._embedded.embeddings.shape[1])
        return stop

    def _arrive(self, stop: int) -> None:
        """Note that the cache holds the tokens up to `stop`."""
        self.done, self._arriving = stop, 0
        if self._stops and stop == self._stops[0]:
            self._stops.pop(0)
            self.save()
        self.cache = self._store.quantized_if_due(self.cache, stop)

    def read_with_others(self, cache: kv_cache.Cache, stop: int, unfinished: list[mx.array]) -> None:
        """Go on, at the next `advance`, from a cache of the tokens up to `stop`."""
        self.cache, self._arriving, self.unfinished = cache, stop, unfinished

    @property
    def batch_key(self) -> tuple[object, ...] | None:
        """What prefills must have in common that share a pass; None: this one can't."""
        return None if self._embedded or self.scoring else (type(self.cache[0]), self.done > 0)

    def _embeddings(self, stop: int) -> tuple[mx.array | None, mx.array | None]:
        """Return the embeddings and positions of the next tokens, where they are not those of the tokens themselves."""
        if not self._embedded:
            return None, None
        embeddings, positions, delta = self._embedded
        if self.done < embeddings.shape[1]:
            own = None if positions is None else positions[..., self.done : stop]
            return embeddings[:, self.done : stop], own
        # A preempted row reads what it had generated, too.
        return None, mx.arange(self.done + delta, stop + delta) if delta else None

    def save(self) -> None:
        """Keep what has been read so far for later prompts."""
        if not self._embedded:
            self._store.save(self.tokens[: self.done], self.cache)


def read_batch(model: LanguageModel, due: Sequence[tuple[Prefill, int]]) -> None:
    """Launch the next chunk of each of these, of at most so many tokens, in one pass; `advance` counts it.

    Where it raises, all of them are as they were.
    """
    stops = [prefill.next_stop(budget) for prefill, budget in due]
    mx.eval([prefill.unfinished for prefill, _ in due])
    rows = [(one.cache, one.tokens[one.done : stop]) for (one, _), stop in zip(due, stops, strict=True)]
    caches, arrays = batched_prefill.read(model, rows)
    mx.async_eval(arrays)  # type: ignore[no-untyped-call]
    for (prefill, _), cache, stop in zip(due, caches, stops, strict=True):
        prefill.read_with_others(cache, stop, arrays)
