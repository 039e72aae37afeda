"""A row's KV cache: its size, its quantisation, and how it is split into pieces, stored and restored.

It is a list of mlx-lm's caches, one per layer; `layer_kinds` says how to treat each. Layers that keep every token can
be cut at any token. The others (sliding windows, recurrent states) only have the state after their last token, so the
store keeps snapshots of them.
"""

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx

from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.batched_cache import capacity_for, pass_size
from orchard.engine.batching.job import MediaSpan
from orchard.engine.batching.layer_kinds import Footprint, LayerKind, layer_kind_of
from orchard.engine.batching.model import LanguageModel, on_cuda
from orchard.engine.prefix_cache.cache import Match, Miss, PrefixCache
from orchard.engine.prefix_cache.disk_io import DiskTier
from orchard.engine.prefix_cache.values import EVERYBODY, CacheScope, Cut, Stack, State, media_ids

_WRITE_BACK_BYTES = 32 * 2**20
_SECONDS_BETWEEN_LOOKS = 0.01
_LEAST_TOKENS_BETWEEN = 8  # snapshots; reading so few tokens again is cheaper than a pass and a snapshot more
_UNLIMITED = 2**31
_MOST_ROOM = 2048  # tokens of the next pass for which a restored cache has room
Cache = list[Any]


def named_layers(cache: Sequence[Any], name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each layer's name and cache, with nested lists flattened."""
    for index, layer in enumerate(cache):
        if hasattr(layer, "caches"):
            yield from named_layers(layer.caches, f"{name}{index}.")
        else:
            yield f"{name}{index}", layer


def map_layers(function: Callable[[Any], Any], cache: Sequence[Any]) -> Cache:
    """Return a cache of the same nesting, with each layer replaced by what `function` returns for it."""
    return [
        type(layer)(*map_layers(function, layer.caches)) if hasattr(layer, "caches") else function(layer)
        for layer in cache
    ]


def is_cacheable(cache: Cache) -> bool:
    """Return whether every layer is of a kind that can be stored and restored."""
    return all(layer_kind_of(layer).cut or layer_kind_of(layer).snapshot for _, layer in named_layers(cache))


def needs_snapshot(cache: Cache) -> bool:
    """Return whether some layer can't be cut at any token."""
    return any(not layer_kind_of(layer).cut for _, layer in named_layers(cache))


def looks_back(cache: Cache) -> bool:
    """Return whether a snapshot of every layer that can't be cut may leave out tokens of the last pass."""
    kinds = [layer_kind_of(layer) for _, layer in named_layers(cache)]
    return all(kind.cut or kind.looks_back for kind in kinds)


def is_quantized(cache: Cache) -> bool:
    """Return whether some layer is quantised."""
    return any(hasattr(layer, "bits") for _, layer in named_layers(cache))


def footprint(cache: Cache) -> Footprint:
    """Return the footprint of a cache that has read at least one token."""
    footprints = [layer_kind_of(layer).footprint(layer) for _, layer in named_layers(cache)]
    windows = tuple(window for one in footprints for window in one.windows)
    return Footprint(sum(one.per_token for one in footprints), windows, sum(one.fixed for one in footprints))


def quantize_cache(cache: Cache, bits: int, group_size: int) -> Cache:
    """Quantise the layers that can be quantised; keep the others."""
    return map_layers(lambda layer: layer_kind_of(layer).quantize(layer, group_size, bits), cache)


def cut_cache(cache: Cache, start: int, stop: int, scale: tuple[int, int] = (1, 1)) -> Cut:
    """Return the keys and values from `start` to `stop` of every layer that can be cut; they share its memory.

    `scale`: see `State`.
    """
    return Cut(_name_arrays(cache, lambda kind, layer: kind.cut(layer, start, stop) if kind.cut else []), scale)


def layer_bytes(cache: Cache) -> int | None:
    """Return the bytes of a token in each layer, if all are of one kind that can be cut at any token; else None.

    The cache must have read at least one token.
    """
    sizes = [(layer_kind_of(layer), layer_kind_of(layer).footprint(layer)) for _, layer in named_layers(cache)]
    kind, size = sizes[0]
    is_even = all(one == (kind, size) for one in sizes) and kind.cut and size == Footprint(size.per_token)
    return size.per_token if is_even else None


def snapshot_cache(cache: Cache, beyond: int = 0) -> State:
    """Copy the state of every layer that can't be cut, lazily, without the last `beyond` tokens of the last pass.

    `beyond` must be 0 unless the cache `looks_back`.
    """
    return State(_name_arrays(cache, lambda kind, layer: kind.snapshot(layer, beyond) if kind.snapshot else []))


def _name_arrays(cache: Cache, arrays: Callable[[LayerKind, Any], Sequence[mx.array | None]]) -> dict[str, mx.array]:
    return {
        f"{name}.{index}": array
        for name, layer in named_layers(cache)
        for index, array in enumerate(arrays(layer_kind_of(layer), layer))
        if array is not None
    }


def restore_cache(
    cache: Cache, pieces: Sequence[tuple[Cut, int]], state: State | None, length: int, reach: int = 0
) -> None:
    """Fill an empty cache with `length` tokens.

    `pieces`: each cut, and how many of its first tokens to use. `state`: a snapshot, for layers that can't be cut.
    `reach`: how many places the next pass attends to, if it is one over prompts.
    """
    if on_cuda():
        pieces = _join_stacks(pieces, max(capacity_for(length), reach))
    cuts = [(_group_by_layer(piece), used) for piece, used in pieces]
    states = _group_by_layer(state) if state else {}
    for name, layer in named_layers(cache):
        kind = layer_kind_of(layer)
        own = [states.get(name, {})]
        if kind.cut:
            own = [{index: array[:, :, :used] for index, array in piece[name].items()} for piece, used in cuts]
        kind.restore(layer, own, length)


def _join_stacks(pieces: Sequence[tuple[Cut, int]], places: int) -> Sequence[tuple[Cut, int]]:
    """Join pieces whose stacks are alike to one of so many `places`; return that, or the pieces as they are.

    On CUDA a launch takes longer than a small copy, and there is one for each piece, but not for each layer.
    """
    names = [[stack.names for stack in piece.stacks] for piece, _ in pieces]
    if not (names and names[0]) or any(own != names[0] for own in names):
        return pieces
    joined: dict[str, mx.array] = {}
    for place, stack in enumerate(pieces[0][0].stacks):
        parts = [piece.stacks[place].array[:, :, :used] for piece, used in pieces]
        layers, heads, _, width = stack.array.shape
        free = places - sum(used for _, used in pieces)
        parts.append(mx.zeros((layers, heads, free, width), stack.array.dtype))
        joined |= Stack(stack.names, mx.concatenate(parts, axis=2)).split()
    return [(Cut({name: joined[name] for name in pieces[0][0].arrays}), places)]


def _group_by_layer(state: State) -> dict[str, dict[int, mx.array]]:
    """Group arrays by the names of their layers, then by their indices."""
    found: dict[str, dict[int, mx.array]] = {}
    for key, array in state.arrays.items():
        name, _, index = key.rpartition(".")
        found.setdefault(name, {})[int(index)] = array
    return found


def _cache_text(tokens: Sequence[int], spans: Sequence[MediaSpan], scope: CacheScope) -> Sequence[int]:
    """Return the text under which the prefix cache keeps a prompt: its tokens, with the scope's salt.

    Ids that are made of a medium's content stand in place of its tokens.
    """
    if not spans:
        return scope.add_salt(tokens)
    text = list(tokens)
    for span in spans:
        text[span.start : span.stop] = media_ids(span.digest, span.stop - span.start)
    return scope.add_salt(text[: len(tokens)])  # the tokens may end within a span


class CacheHit(NamedTuple):
    """A row's cache that holds the first `length` tokens of a prompt, and the reason why it holds no more."""

    cache: Cache
    length: int
    miss: Miss | None


class KVStore:
    """Makes, quantises, finds and saves the KV caches of one model. Only the engine's thread uses it."""

    def __init__(
        self,
        model: LanguageModel,
        options: TextOptions,
        budget: int = 0,
        wake: Callable[[], None] = lambda: None,
        *,
        in_pieces: bool = True,
        counted_layers: int | None = None,
    ) -> None:
        """`budget`: bytes of memory for cached prompts; 0: none are cached. `wake` is called in the disk's thread when
        `write_back` may have more to do. `in_pieces` False: prompts must be read whole, so none are cached.
        `counted_layers`: cached prompts count as if the model had that many layers, all of one kind; None: as it has.
        """
        self.in_pieces = in_pieces
        self._model = model
        self._bits = options.kv_bits
        self._group_size = options.kv_group_size
        self._quantization_start = options.quantized_kv_start
        self._prefixes: PrefixCache | None = None
        self._disk: DiskTier | None = None
        self._snapshots = self._looks_back = False
        self._scale = (counted_layers, len(model.new_cache())) if counted_layers else (1, 1)
        self._last_find: tuple[object, Cache] | None = None
        self.tokens_per_second = 0.0
        """The speed of prefill; 0: unknown."""
        if budget and in_pieces and is_cacheable(model.new_cache()):
            if options.prompt_cache_dir:
                folder = Path(options.prompt_cache_dir)
                form = (self._bits, self._group_size, self._quantization_start) if self._bits else ()
                fingerprint = f"{model.fingerprint} {form} {options.max_kv_size}"
                self._disk = DiskTier(folder, fingerprint, options.prompt_cache_dir_bytes, wake)
            self._snapshots = needs_snapshot(model.new_cache())
            self._looks_back = looks_back(model.new_cache())
            self._prefixes = PrefixCache(budget, self._snapshots, self._disk, options.prompt_cache_size)

    def copy_without_cache(self) -> "KVStore":
        """Return a store like this one that caches no prompts."""
        other = copy.copy(self)
        other._prefixes = other._disk = other._last_find = None
        other._snapshots = False
        return other

    @property
    def nbytes(self) -> int:
        """The bytes of memory that cached prompts take."""
        return self._prefixes.nbytes if self._prefixes else 0

    def limit(self, budget: int, *, saves: bool = False) -> None:
        """Limit cached prompts to `budget` bytes of memory from now on; 0: none are cached.

        `saves`: write some of those that must go to the disk first, which takes a moment.
        """
        if self._prefixes is not None:
            self._prefixes.limit(budget, _WRITE_BACK_BYTES if saves else 0)
            self._last_find = None

    def new_cache(self) -> Cache:
        """Return an empty cache."""
        return self.quantize_if_due(self._model.new_cache(), 0)

    def quantize_if_due(self, cache: Cache, length: int) -> Cache:
        """Return a cache of `length` tokens, quantised if the options say so for this length."""
        if self._bits is None or length < self._quantization_start:
            return cache
        return quantize_cache(cache, self._bits, self._group_size)

    def quantizes_at(self, length: int) -> bool:
        """Return whether a row in decode must be quantised at this length."""
        return self._bits is not None and length == self._quantization_start > 0

    def tokens_until_quantization(self, length: int) -> int:
        """Return how many tokens a row of this length may get before it must be quantised."""
        if self._bits is None or length >= self._quantization_start:
            return _UNLIMITED
        return self._quantization_start - length

    def snapshot_places(self, boundaries: Sequence[int], cached_tokens: int) -> list[int]:
        """Return the boundaries at which to take a snapshot: those that are not soon after another one, or after
        `cached_tokens`, where there is one."""
        places: list[int] = []
        for boundary in boundaries if self._snapshots else ():
            if boundary - (places[-1] if places else cached_tokens) >= _LEAST_TOKENS_BETWEEN:
                places.append(boundary)
        return places

    def prefill_stops(self, snapshots: Sequence[int]) -> list[int]:
        """Return the places where prefill must pause, ascending: for snapshots, and where quantisation begins.

        It needn't pause if a snapshot can be taken after a pass that goes on beyond its place.
        """
        stops = set() if self._looks_back else set(snapshots)
        if self._bits is not None and self._quantization_start:
            stops.add(self._quantization_start)
        return sorted(stops)

    def find(self, tokens: list[int], spans: Sequence[MediaSpan] = (), scope: CacheScope = EVERYBODY) -> CacheHit:
        """Return a cache with the longest cached beginning of a prompt, without its last token.

        The beginning never ends inside a medium.
        """
        if self._prefixes is None:
            return CacheHit(self.new_cache(), 0, None)
        match = self._match(self._prefixes, tokens, spans, scope, disk=False)
        if not match.length:
            return CacheHit(self.new_cache(), 0, match.miss)
        known = match.pieces, match.snapshot
        if not self._last_find or self._last_find[0] != known:
            cache = self.quantize_if_due(self._model.new_cache(), match.length)
            _, reach = pass_size(match.length, min(len(tokens) - match.length, _MOST_ROOM))
            restore_cache(cache, match.pieces, match.snapshot, match.length, reach)
            self._last_find = known, cache
        return CacheHit(copy.deepcopy(self._last_find[1]), match.length, match.miss)

    def end_admission(self) -> None:
        """Forget the last result of `find`. Until then, rows with the same result share its memory until they write."""
        self._last_find = None

    @staticmethod
    def _match(
        prefixes: PrefixCache, tokens: list[int], spans: Sequence[MediaSpan], scope: CacheScope, disk: bool
    ) -> Match:
        media = [(span.start, span.stop) for span in spans]
        return prefixes.find(_cache_text(tokens, spans, scope), len(tokens) - 1, disk, media, scope)

    def fetch(
        self,
        tokens: list[int],
        on_done: Callable[[], None],
        spans: Sequence[MediaSpan] = (),
        scope: CacheScope = EVERYBODY,
    ) -> bool:
        """Begin to read a prompt's cached beginning from disk; return False if there is nothing to wait for.

        Nothing is read if computing it would be faster. `on_done` is called in another thread, even if reading fails.
        """
        if self._prefixes is None:
            return False
        match = self._match(self._prefixes, tokens, spans, scope, disk=True)
        if not match.cold:
            return False
        if self._disk and self.tokens_per_second:
            computing = (match.length - match.warm_length) / self.tokens_per_second
            if computing < match.cold_bytes / self._disk.bytes_per_second:
                return False
        self._prefixes.fetch(match, on_done)
        return True

    def save(
        self,
        tokens: Sequence[int],
        cache: Cache,
        spans: Sequence[MediaSpan] = (),
        scope: CacheScope = EVERYBODY,
        beyond: int = 0,
    ) -> None:
        """Save a row's cache in the prefix cache. It must hold these tokens, which must not end in a span.

        The cache may hold `beyond` more tokens of the last pass if its layers look back.
        """
        if self._prefixes is None or not tokens:
            return
        tokens = _cache_text(tokens, spans, scope)
        start = self._prefixes.count_covered(tokens)
        if self._bits is not None and start < self._quantization_start <= len(tokens) and is_quantized(cache):
            return  # the tokens before quantisation began no longer exist unquantised
        state = snapshot_cache(cache, beyond) if self._snapshots and not self._prefixes.has_snapshot(tokens) else None
        piece = cut_cache(cache, start, len(tokens), self._scale) if start < len(tokens) else None
        if state:
            # A lazy copy would keep all of the row's cache alive; the prefix cache copies pieces itself.
            mx.async_eval(state.arrays)  # type: ignore[no-untyped-call]
        if piece or state:
            self._prefixes.insert(tokens, start, piece, state)

    def settle(self, reached_mark: int, mark: int) -> None:
        """Confirm what was saved under marks up to `reached_mark`: see `MemoryTier.settle`."""
        if self._prefixes is not None:
            self._prefixes.settle(reached_mark, mark)

    def confirm(self) -> None:
        """Confirm all that was saved. What comes before the next `settle` is confirmed, too."""
        if self._prefixes is not None:
            self._prefixes.confirm()

    def retract(self) -> None:
        """Drop the saved prompts that are not confirmed, and what `find` has kept."""
        self._last_find = None
        if self._prefixes is not None:
            self._prefixes.retract()

    def drop_all(self) -> None:
        """Drop all saved prompts from memory."""
        self._last_find = None
        if self._prefixes is not None:
            self._prefixes.drop_all()

    def write_back(self) -> bool:
        """Give the disk's thread some cached prompts that aren't on disk yet; return whether it could take more now."""
        return self._prefixes is not None and self._prefixes.write_back(_WRITE_BACK_BYTES)

    def counters(self) -> dict[str, int]:
        """Return the prefix cache's counters; empty if prompts are not cached."""
        return self._prefixes.counters if self._prefixes else {}

    def wait_for_files(self, timeout: float) -> None:
        """Wait for at most `timeout` seconds until the disk has been scanned for the prompts of earlier processes."""
        if self._disk:
            self._disk.scanned.wait(timeout)

    def close(self, timeout: float) -> None:
        """Write cached prompts that aren't on disk yet, for at most about `timeout` seconds."""
        if not self._disk:
            return
        end = time.monotonic() + timeout
        self.wait_for_files(timeout)  # nothing can be saved before
        while (self.write_back() or self._disk.is_busy) and time.monotonic() < end:
            if self._disk.is_busy:
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        self._disk.close(max(end - time.monotonic(), 0))
