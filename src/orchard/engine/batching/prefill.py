"""Prefill: compute the KV cache of a prompt, alone or in one pass with others.

A short chunk takes a GPU as long as its kernel launches, however few tokens it has: so several prompts share a pass.
Each row is padded at its end to the same number of tokens. No token attends to padding, since padding comes after the
row's own tokens, and the new caches end before it.

The sizes of such a pass are rounded up to one of a few, and copies of the first row fill the batch: with CUDA, each new
size costs about as much as the pass itself, once. So even a single prompt is read in this way.
"""

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx

from orchard.engine.batching.batched_cache import GROWTH, Lengths
from orchard.engine.batching.job import MediaSpan
from orchard.engine.batching.kv_cache import Cache, KVStore, layers
from orchard.engine.batching.layer_kinds import Unbatchable, kind_of
from orchard.engine.batching.layer_views import AttentionView
from orchard.engine.batching.model import Embedded, LanguageModel, Piece
from orchard.engine.prefix_cache.values import EVERYBODY, CacheScope
from orchard.engine.sampling.logprobs import Scoring

_FEWEST = 64  # tokens per row in a pass of several prompts
_LITTLE = 32


class Prefill:
    """Reads tokens into a new cache: all but the last one, which is the first input in decode.

    If the `hidden` state of the last token is wanted, it reads all of them.
    """

    def __init__(
        self,
        tokens: list[int],
        boundaries: Sequence[int],
        store: KVStore,
        *,
        spans: Sequence[MediaSpan] = (),
        scope: CacheScope = EVERYBODY,
        embed: Callable[[int], Embedded] | None = None,
        scoring: Scoring | None = None,
        scored: int = 0,
        hidden: bool = False,
    ) -> None:
        """Begin with what the prefix cache has of `tokens`. `boundaries`: where to keep snapshots, ascending.

        `spans`, `scope`, `embed`: see `Job`; `tokens` may continue after the job's prompt. `scoring` scores the token
        after each one that is read, except for the first `scored`, whose next tokens are scored already. So only those
        may come from the prefix cache.
        """
        self.tokens = tokens
        self.scoring = scoring
        self._scored = scored
        self.wants_hidden = hidden
        self.hidden: mx.array | None = None
        """The last hidden state (width,), if it is wanted and all tokens have been launched."""
        self._spans = spans
        self._scope = scope
        self._embed = embed
        self._embedded: Embedded | None = None
        self._store = store
        self.unfinished: list[Any] = []
        self._arriving = 0  # the cache's length after a pass with other prompts that `advance` has not counted; else 0
        self.cache, self.cached, miss = store.find(tokens[: scored + 1] if scoring else tokens, spans, scope)
        self.miss = None if scoring else miss
        self.done = self.cached
        stops = {self._behind_span(stop, self._spans) for stop in store.prefill_stops(boundaries)}
        self._stops = sorted(stop for stop in stops if self.done < stop < len(tokens)) if store.in_pieces else []

    @property
    def left(self) -> int:
        """How many tokens are left to read."""
        return len(self.tokens) - (0 if self.wants_hidden else 1) - self.done

    @property
    def position_delta(self) -> int:
        """The position of the next generated token minus its place in the text."""
        embedded = self._here()
        return embedded.position_delta if embedded else 0

    @property
    def encodes_next(self) -> bool:
        """Whether media must be encoded before the next chunk."""
        return self._unknown and any(span.stop > self.done for span in self._spans)

    @property
    def _unknown(self) -> bool:
        """Whether `embed` must be called for the next token."""
        known = self._embedded
        return self._embed is not None and (known is None or bool(known.stop and known.stop <= self.done))

    def advance(self, model: LanguageModel, budget: int) -> int:
        """Launch passes over up to `budget` tokens; return how many. At most one chunk is unfinished on return."""
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
        given = self._piece(stop)._asdict()
        results: list[mx.array] = []
        if self.wants_hidden and stop == len(self.tokens):
            self.hidden = model.hidden(tokens, self.cache, **given)[0, -1].astype(mx.float32)
            results = [self.hidden]
        else:
            # Without scoring, only the cache is evaluated: MLX never computes the logits, which nobody reads.
            logits = model.forward(tokens, self.cache, **given)
            if self.scoring and self.done >= self._scored:
                results = self.scoring.add(logits[0], self.tokens[self.done + 1 : stop + 1])
        self._arrive(stop)
        self.unfinished = [*results, *(layer.state for _, layer in layers(self.cache))]
        mx.async_eval(self.unfinished)  # type: ignore[no-untyped-call]

    def next_stop(self, count: int) -> int:
        """Return the place where the next chunk of at most `count` tokens ends."""
        stop = self.done + (min(self.left, count) if self._store.in_pieces else self.left)
        if self.scoring and self._store.in_pieces:
            stop = min(stop, self._scored if self.done < self._scored else self.done + self.scoring.most_places)
        if self._stops:
            stop = min(stop, self._stops[0])
        if (embedded := self._here()) and embedded.stop:
            stop = min(stop, embedded.stop)
        return self._behind_span(stop, [span for span in self._spans if not span.divisible])

    @staticmethod
    def _behind_span(place: int, spans: Sequence[MediaSpan]) -> int:
        """Return the place or, if it lies inside a span, the end of that span."""
        return next((span.stop for span in spans if span.splits_at(place)), place)

    def _arrive(self, stop: int) -> None:
        """Note that the cache holds the tokens up to `stop`."""
        self.done, self._arriving = stop, 0
        if self._stops and stop == self._stops[0]:
            self._stops.pop(0)
            self.save()
        if not any(span.splits_at(stop) for span in self._spans):  # otherwise a cached prompt would split it
            self.cache = self._store.quantized_if_due(self.cache, stop)

    def read_with_others(self, cache: Cache, stop: int, last: mx.array | None, unfinished: list[mx.array]) -> None:
        """Take over the result of a shared pass: a cache of the tokens up to `stop`, and the hidden state there.

        The next `advance` counts it.
        """
        if stop == len(self.tokens):
            self.hidden = last
        self.cache, self._arriving, self.unfinished = cache, stop, unfinished

    @property
    def batch_key(self) -> tuple[object, ...] | None:
        """A key that is equal for prefills that may share a pass; None: this one can't."""
        return None if self._embed or self.scoring else (type(self.cache[0]), self.done > 0, self.wants_hidden)

    def _piece(self, stop: int) -> Piece:
        """Return what the pass up to `stop` reads with token ids or in their place."""
        embedded = self._here()
        if embedded and embedded.embeddings is not None:
            return embedded.cut(self.done, stop)
        delta = embedded.position_delta if embedded else 0
        return Piece(positions=mx.arange(self.done + delta, stop + delta) if delta else None)

    def _here(self) -> Embedded | None:
        """Return the embeddings of the next token, encoding media if necessary; None: it is read by its id."""
        if self._embed and self._unknown:
            self._embedded = self._embed(self.done)
        return self._embedded

    def save(self) -> None:
        """Save what has been read so far in the prefix cache, unless it ends inside a medium."""
        if any(span.splits_at(self.done) for span in self._spans):
            return
        self._store.save(self.tokens[: self.done], self.cache, self._spans, self._scope)


def read_batch(model: LanguageModel, due: Sequence[tuple[Prefill, int]]) -> None:
    """Launch the next chunk of each (prefill, most tokens) of `due` in one pass; the next `advance` counts it.

    If this raises, all prefills are unchanged.
    """
    stops = [prefill.next_stop(budget) for prefill, budget in due]
    mx.eval([prefill.unfinished for prefill, _ in due])
    rows = [(one.cache, one.tokens[one.done : stop]) for (one, _), stop in zip(due, stops, strict=True)]
    wants_hidden = due[0][0].wants_hidden
    caches, made, arrays = read_together(model, rows, hidden=wants_hidden)
    ends = [len(tokens) - 1 for _, tokens in rows]
    last = [made[row, end].astype(mx.float32) if wants_hidden else None for row, end in enumerate(ends)]
    arrays += [state for state in last if state is not None]
    mx.async_eval(arrays)  # type: ignore[no-untyped-call]
    for (prefill, _), cache, stop, state in zip(due, caches, stops, last, strict=True):
        prefill.read_with_others(cache, stop, state, arrays)


def read_together(
    model: LanguageModel, rows: Sequence[tuple[Cache, list[int]]], *, hidden: bool = False
) -> tuple[list[Cache], mx.array, list[mx.array]]:
    """Read the tokens of each row (cache, tokens) in one pass; return the rows' new caches, the output, all arrays.

    The output is the logits, or the last `hidden` states, (rows or more, tokens or more, width). Everything is lazy;
    the arrays are those of the new caches, to be evaluated. The caches given don't change: either all or none must be
    empty. Raise an exception if a layer is not a KVCache or its quantised form.
    """
    lengths = [int(cache[0].offset) for cache, _ in rows]
    spare = _power(len(rows)) - len(rows)
    count, reach = _size(max(lengths), max(len(tokens) for _, tokens in rows))
    known = Lengths(lengths + lengths[:1] * spare, count, reach)
    batched = [_batched(same, known, spare) for same in zip(*(cache for cache, _ in rows), strict=True)]
    views = [AttentionView([layer], [], known.array) for layer in batched]
    padded = [tokens + tokens[:1] * (count - len(tokens)) for _, tokens in rows]
    read = model.hidden if hidden else model.forward
    made = read(mx.array(padded + padded[:1] * spare, mx.uint32), views)
    caches = [
        [layer.extract(row, length + len(tokens)) for layer in batched]
        for row, (length, (_, tokens)) in enumerate(zip(lengths, rows, strict=True))
    ]
    return caches, made, [array for layer in batched for array in layer.arrays]


def warm_up_prefill(model: LanguageModel, most: int, tick: Callable[[], None] = lambda: None) -> None:
    """Run passes of all sizes over new prompts: up to 512 tokens each, `most` together; call `tick` in between."""
    for count in range(_FEWEST, 8 * _FEWEST + 1, _FEWEST):
        rows = 1
        while rows * count <= most:
            tick()
            mx.eval(read_together(model, [(model.new_cache(), [0] * count)] * rows)[2])
            rows *= 2


def _power(rows: int) -> int:
    """Round up to a power of two."""
    return 1 << (rows - 1).bit_length()


def _size(before: int, own: int) -> tuple[int, int]:
    """Return how many tokens a pass reads per row, and how many places it attends to."""
    count = _up(own, max(1 << max((own - 1).bit_length() - 3, 0), _FEWEST))
    return count, _up(before + count, GROWTH) if before else count


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


def _batched(of_rows: Sequence[Any], lengths: Lengths, spare: int) -> Any:
    kind = kind_of(of_rows[0])
    if not kind.batches_prefill:
        raise Unbatchable(type(of_rows[0]).__name__)
    batched: Any = kind.batch(of_rows[0])
    batched.rebuild([], of_rows, spare, [lengths.reach - 1])  # with room for the new tokens
    batched.begin(lengths)
    return batched


def group_by_length(pieces: Sequence[tuple[int, int]], most_places: int) -> list[list[int]]:
    """Group pieces, each (tokens before it, its own tokens), for shared passes; return the indices of each group.

    In a group, padding is at most a quarter of the tokens to read, or `_LITTLE` tokens per row, and at most half of the
    places of tokens before. A group of several pieces has at most `most_places` places.
    """
    found: list[list[int]] = []
    for index in sorted(range(len(pieces)), key=lambda index: pieces[index], reverse=True):
        longer = [*found[-1], index] if found else []
        before, own = ([pieces[one][part] for one in longer] for part in range(2))
        if longer and _alike(before, own) and _power(len(longer)) * _size(max(before), max(own))[1] <= most_places:
            found[-1] = longer
        else:
            found.append([index])
    return found


def _alike(before: list[int], own: list[int]) -> bool:
    rows = len(own)
    padding = rows * max(own) - sum(own)
    return padding <= max(sum(own) // 4, rows * _LITTLE) and rows * max(before) <= 2 * sum(before)
