"""Prefill: compute the KV cache of a prompt, alone or in one pass with others.

On a GPU, a short chunk takes as long as its kernel launches, whatever its length. So several prompts share a pass. Each
row is padded at its end to the same number of tokens. No token attends to padding, since padding comes after the
row's own tokens, and the new caches end before it.

The sizes of such a pass are rounded up to one of a few, and copies of the first row fill the batch: with CUDA, the
first attention of a size takes 50 ms or more longer. So even a single prompt is read in this way.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import mlx.core as mx

from orchard.engine.batching.batched_cache import MIN_ROW_TOKENS, Lengths, pass_size
from orchard.engine.batching.job import MediaSpan
from orchard.engine.batching.kv_cache import Cache, KVStore, named_layers
from orchard.engine.batching.layer_kinds import Unbatchable, layer_kind_of
from orchard.engine.batching.layer_views import AttentionView
from orchard.engine.batching.model import LanguageModel, Piece, PromptEmbeddings
from orchard.engine.batching.traced_pass import TracedPasses
from orchard.engine.prefix_cache.values import EVERYBODY, CacheScope
from orchard.engine.sampling.logprobs import Scoring

_MAX_ROW_PADDING = 32


class Prefill:
    """Reads tokens into a new cache: all but the last one, which is the first input in decode.

    If the hidden state of the last token is wanted, it reads all of them. So it does if the logits after it are wanted,
    unless only the last token is left: a pass of its own would cost no less than the first step of decode.
    """

    def __init__(
        self,
        tokens: list[int],
        boundaries: Sequence[int],
        store: KVStore,
        *,
        spans: Sequence[MediaSpan] = (),
        scope: CacheScope = EVERYBODY,
        embed: Callable[[int], PromptEmbeddings] | None = None,
        scoring: Scoring | None = None,
        scored_tokens: int = 0,
        wants_hidden_state: bool = False,
        wants_logits: bool = False,
    ) -> None:
        """Begin with what the prefix cache has of `tokens`. `boundaries`: see `Job`.

        `spans`, `scope`, `embed`: see `Job`; `tokens` may continue after the job's prompt. `scoring` scores the token
        after each one that is read, but not after the first `scored_tokens`, where that is done already. So only those
        may come from the prefix cache. `wants_logits`: only for tokens that are read by their ids, not scored.
        """
        self.tokens = tokens
        self.scoring = scoring
        self._scored_tokens = scored_tokens
        self.wants_hidden_state = wants_hidden_state
        self.hidden_state: mx.array | None = None
        """The last hidden state (width,), if it is wanted and all tokens have been launched."""
        self._wants_logits = wants_logits
        self.logits: mx.array | None = None
        """The logits (1, vocab_size) after the last token, if they are wanted and all tokens have been launched."""
        self._spans = spans
        self._scope = scope
        self._embed = embed
        self._embeddings: PromptEmbeddings | None = None
        self._store = store
        self.pending_arrays: list[Any] = []
        self._arriving = 0  # the cache's length after a pass with other prompts that `advance` has not counted; else 0
        self.cache, self.cached_tokens, miss = store.find(
            tokens[: scored_tokens + 1] if scoring else tokens, spans, scope
        )
        self.miss = None if scoring else miss
        self.tokens_read = self.cached_tokens
        snapshots = store.snapshot_places(boundaries, self.cached_tokens)
        self._stops = self._places_ahead(store.prefill_stops(snapshots))
        self._saves = self._places_ahead([*snapshots, *self._stops])

    def _places_ahead(self, places: Sequence[int]) -> list[int]:
        """Return the places that are still to be read, ascending, moved behind the spans that they are in."""
        ahead = {self._skip_span(place, self._spans) for place in places}
        return sorted(p for p in ahead if self.tokens_read < p < len(self.tokens)) if self._store.in_pieces else []

    @property
    def tokens_left(self) -> int:
        """How many tokens are left to read."""
        left = len(self.tokens) - self.tokens_read
        if self._wants_logits:
            return left if left > 1 else 0
        return left if self.wants_hidden_state else left - 1

    @property
    def position_delta(self) -> int:
        """The position of the next generated token minus its place in the text."""
        embedded = self._current_embeddings()
        return embedded.position_delta if embedded else 0

    @property
    def encodes_next(self) -> bool:
        """Whether media must be encoded before the next chunk."""
        return self._needs_embeddings and any(span.stop > self.tokens_read for span in self._spans)

    @property
    def _needs_embeddings(self) -> bool:
        """Whether `embed` must be called for the next token."""
        known = self._embeddings
        return self._embed is not None and (known is None or bool(known.stop and known.stop <= self.tokens_read))

    def advance(self, model: LanguageModel, budget: int) -> int:
        """Launch passes over up to `budget` tokens; return how many. At most one chunk is unfinished on return."""
        before = self.tokens_read
        if self._arriving:
            self._move_to(self._arriving)
            return self.tokens_read - before
        while self.tokens_left and self.tokens_read - before < budget:
            self._read(model, min(self.tokens_left, budget - (self.tokens_read - before)))
        return self.tokens_read - before

    def _read(self, model: LanguageModel, count: int) -> None:
        stop = self.next_stop(count)
        mx.eval(self.pending_arrays)
        tokens = mx.array([self.tokens[self.tokens_read : stop]], mx.uint32)
        given = self._pass_input(stop)._asdict()
        results: list[mx.array] = []
        if self.wants_hidden_state and stop == len(self.tokens):
            self.hidden_state = model.hidden_states(tokens, self.cache, **given)[0, -1].astype(mx.float32)
            results = [self.hidden_state]
        elif self.ends_with_logits(stop):
            assert model.logits_at
            self.logits = model.logits_at(tokens, self.cache, mx.array([tokens.shape[1] - 1]))
            results = [self.logits]
        else:
            # Without scoring, only the cache is evaluated: MLX never computes the logits, which nobody reads.
            logits = model.forward(tokens, self.cache, **given)
            if self.scoring and self.tokens_read >= self._scored_tokens:
                results = self.scoring.add(logits[0], self.tokens[self.tokens_read + 1 : stop + 1])
        self._move_to(stop)
        self.pending_arrays = [*results, *(layer.state for _, layer in named_layers(self.cache))]
        mx.async_eval(self.pending_arrays)  # type: ignore[no-untyped-call]

    def ends_with_logits(self, stop: int) -> bool:
        """Return whether the logits are wanted of the last token of a pass up to `stop`."""
        return self._wants_logits and stop == len(self.tokens)

    def next_stop(self, count: int) -> int:
        """Return the place where the next chunk of at most `count` tokens ends."""
        stop = self.tokens_read + (min(self.tokens_left, count) if self._store.in_pieces else self.tokens_left)
        if self.scoring and self._store.in_pieces:
            stop = min(
                stop,
                self._scored_tokens
                if self.tokens_read < self._scored_tokens
                else self.tokens_read + self.scoring.most_places,
            )
        stop = min([stop, *self._stops[:1]])
        if (embedded := self._current_embeddings()) and embedded.stop:
            stop = min(stop, embedded.stop)
        return self._skip_span(stop, [span for span in self._spans if not span.divisible])

    @staticmethod
    def _skip_span(place: int, spans: Sequence[MediaSpan]) -> int:
        """Return the place or, if it lies inside a span, the end of that span."""
        return next((span.stop for span in spans if span.splits_at(place)), place)

    def _move_to(self, stop: int) -> None:
        """Note that the cache holds the tokens up to `stop`."""
        self.tokens_read, self._arriving = stop, 0
        while self._saves and self._saves[0] <= stop:
            self._save(self._saves.pop(0))
        if self._stops and self._stops[0] == stop:
            self._stops.pop(0)
        # A cached prompt must not split a span. At the prompt's end decode quantises, after it has saved the prompt.
        if stop < len(self.tokens) and not any(span.splits_at(stop) for span in self._spans):
            self.cache = self._store.quantize_if_due(self.cache, stop)

    def take_shared_result(
        self, cache: Cache, stop: int, last: mx.array | None, pending_arrays: list[mx.array]
    ) -> None:
        """Take over the result of a shared pass: a cache of the tokens up to `stop`, and the hidden state (width,) or
        the logits (vocab_size,) there, if they are wanted.

        The next `advance` counts it.
        """
        if last is not None and self.ends_with_logits(stop):
            self.logits = last[None]
        elif stop == len(self.tokens):
            self.hidden_state = last
        self.cache, self._arriving, self.pending_arrays = cache, stop, pending_arrays

    @property
    def batch_key(self) -> tuple[object, ...] | None:
        """A key that is equal for prefills that may share a pass; None: this one can't."""
        return (
            None
            if self._embed or self.scoring
            else (type(self.cache[0]), self.tokens_read > 0, self.wants_hidden_state)
        )

    def _pass_input(self, stop: int) -> Piece:
        """Return what the pass up to `stop` reads with token ids or in their place."""
        embedded = self._current_embeddings()
        if embedded and embedded.embeddings is not None:
            return embedded.cut(self.tokens_read, stop)
        delta = embedded.position_delta if embedded else 0
        return Piece(positions=mx.arange(self.tokens_read + delta, stop + delta) if delta else None)

    def _current_embeddings(self) -> PromptEmbeddings | None:
        """Return the embeddings of the next token, encoding media if necessary; None: it is read by its id."""
        if self._embed and self._needs_embeddings:
            self._embeddings = self._embed(self.tokens_read)
        return self._embeddings

    def save(self) -> None:
        """Save what has been read so far in the prefix cache, unless it ends inside a medium.

        Of a prompt that is read to its end, the same prompt could use all but the last token.
        """
        if not any(span.splits_at(self.tokens_read) for span in self._spans):
            self._save(self.tokens_read - (self.logits is not None))

    def _save(self, place: int) -> None:
        """Save the cache up to a place in the last pass or at its end."""
        self._store.save(self.tokens[:place], self.cache, self._spans, self._scope, self.tokens_read - place)


def read_batch(model: LanguageModel, due: Sequence[tuple[Prefill, int]], traced: TracedPasses | None = None) -> None:
    """Launch the next chunk of each (prefill, most tokens) of `due` in one pass; the next `advance` counts it.

    If this raises, all prefills are unchanged. `traced`: see `read_rows`.
    """
    stops = [prefill.next_stop(budget) for prefill, budget in due]
    mx.eval([prefill.pending_arrays for prefill, _ in due])
    rows = [(one.cache, one.tokens[one.tokens_read : stop]) for (one, _), stop in zip(due, stops, strict=True)]
    last: list[mx.array | None] = [None] * len(rows)
    if due[0][0].wants_hidden_state:
        caches, states, arrays = read_rows(model, rows, "hidden")
        ends = [len(tokens) - 1 for _, tokens in rows]
        last = [states[row, end].astype(mx.float32) for row, end in enumerate(ends)]
    elif any(prefill.ends_with_logits(stop) for (prefill, _), stop in zip(due, stops, strict=True)):
        caches, logits, arrays = read_rows(model, rows, "last", traced)
        last = [logits[row] for row in range(len(rows))]
    else:
        caches, _, arrays = read_rows(model, rows)
    arrays += [one for one in last if one is not None]
    mx.async_eval(arrays)  # type: ignore[no-untyped-call]
    for (prefill, _), cache, stop, one in zip(due, caches, stops, last, strict=True):
        prefill.take_shared_result(cache, stop, one, arrays)


def read_rows(
    model: LanguageModel,
    rows: Sequence[tuple[Cache, list[int]]],
    output: Literal["all", "hidden", "last"] = "all",
    traced: TracedPasses | None = None,
) -> tuple[list[Cache], mx.array, list[mx.array]]:
    """Read the tokens of each row (cache, tokens) in one pass; return the rows' new caches, the output, all arrays.

    The output: the logits, or the last hidden states, (rows or more, tokens or more, width), or the logits after each
    row's last token, (rows or more, vocab_size). Everything is lazy; the arrays are those of the new caches, to be
    evaluated. The caches given don't change: either all or none must be empty. Raise an exception if a layer is not a
    KVCache or its quantised form. `traced`: passes for the last logits after cached tokens are compiled if they recur.
    """
    lengths = [int(cache[0].offset) for cache, _ in rows]
    spare = _round_to_power(len(rows)) - len(rows)
    count, reach = pass_size(max(lengths), max(len(tokens) for _, tokens in rows))
    known = Lengths(lengths + lengths[:1] * spare, count, reach)
    batched = [_batch_layer(same, known, spare) for same in zip(*(cache for cache, _ in rows), strict=True)]
    padded = [tokens + tokens[:1] * (count - len(tokens)) for _, tokens in rows]
    given = mx.array(padded + padded[:1] * spare, mx.uint32)
    made: mx.array | None = None
    if output == "last":
        read, ends = _LastLogits(model), [len(tokens) - 1 for _, tokens in rows]
        places = mx.array(ends + ends[:1] * spare)
        if traced and lengths[0]:
            made = traced.run(read, given, [places], [known], [batched])
        if made is None:
            made = read(given, [places], [known.array], [batched])
    else:
        made = (model.hidden_states if output == "hidden" else model.forward)(given, _view_layers(batched, known.array))
    caches = [
        [layer.extract(row, length + len(tokens)) for layer in batched]
        for row, (length, (_, tokens)) in enumerate(zip(lengths, rows, strict=True))
    ]
    return caches, made, [array for layer in batched for array in layer.arrays]


@dataclass(frozen=True)
class _LastLogits:
    """A pass over prompts whose result is the logits after one token of each row: a `traced_pass.Forward`."""

    model: LanguageModel

    def __call__(
        self, tokens: mx.array, places: Sequence[mx.array], lengths: list[mx.array], groups: list[list[Any]]
    ) -> mx.array:
        """Return the logits, (rows, vocab_size), after the tokens at `places`, an array (rows,), of the only group."""
        assert self.model.logits_at
        return self.model.logits_at(tokens, _view_layers(groups[0], lengths[0]), places[0])


def _view_layers(batched: Sequence[Any], lengths: mx.array) -> list[Any]:
    """Return what the model sees of layers of one group."""
    return [AttentionView([layer], [], lengths) for layer in batched]


def warm_up_prefill(
    model: LanguageModel, most: int, *, logits: bool = False, traced: bool = False
) -> Generator[None, None, None]:
    """Run passes of all sizes over new prompts: up to 512 tokens each, `most` together; each pass is a unit.

    `logits`: the passes compute those after the prompts, too. `traced`: a pass may be traced, which has other kernels,
    since it joins operations.
    """
    output: Literal["all", "last"] = "last" if logits else "all"
    for count in sorted({pass_size(0, tokens)[0] for tokens in range(1, 8 * MIN_ROW_TOKENS + 1)}):
        rows = 1
        while rows * count <= most:
            _, made, arrays = read_rows(model, [(model.new_cache(), [0] * count)] * rows, output)
            mx.eval(arrays, made if output == "last" else ())
            rows *= 2
            yield
    for rows in (1, 2) if logits and traced else ():
        caches, *_ = read_rows(model, [(model.new_cache(), [0])] * rows)
        _, made, arrays = read_rows(model, [(cache, [0]) for cache in caches], "last", TracedPasses(0))
        mx.eval(arrays, made)
        yield


def _round_to_power(rows: int) -> int:
    """Round up to a power of two."""
    return 1 << (rows - 1).bit_length()


def _batch_layer(of_rows: Sequence[Any], lengths: Lengths, spare: int) -> Any:
    kind = layer_kind_of(of_rows[0])
    if not kind.batches_prefill:
        raise Unbatchable(type(of_rows[0]).__name__)
    batched: Any = kind.batch(of_rows[0])
    batched.rebuild([], of_rows, spare, [lengths.reach - 1])  # with room for the new tokens
    batched.begin(lengths)
    return batched


def group_by_length(pieces: Sequence[tuple[int, int]], most_places: int) -> list[list[int]]:
    """Group pieces, each (tokens before it, its own tokens), for shared passes; return the indices of each group.

    In a group, padding is at most a quarter of the tokens to read, or `_MAX_ROW_PADDING` tokens per row. It is at most
    half of the places of tokens before. A group of several pieces has at most `most_places` places.
    """
    found: list[list[int]] = []
    for index in sorted(range(len(pieces)), key=lambda index: pieces[index], reverse=True):
        longer = [*found[-1], index] if found else []
        before, own = ([pieces[one][part] for one in longer] for part in range(2))
        if (
            longer
            and _has_little_padding(before, own)
            and _round_to_power(len(longer)) * pass_size(max(before), max(own))[1] <= most_places
        ):
            found[-1] = longer
        else:
            found.append([index])
    return found


def _has_little_padding(before: list[int], own: list[int]) -> bool:
    rows = len(own)
    padding = rows * max(own) - sum(own)
    return padding <= max(sum(own) // 4, rows * _MAX_ROW_PADDING) and rows * max(before) <= 2 * sum(before)
