"""Encodes media in the engine's thread, and gives the engine embeddings in place of tokens."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from orchard.backends.bounded_cache import BoundedCache
from orchard.backends.vision.inputs import Medium
from orchard.backends.vision.positions import TokenGrid, positions_of
from orchard.backends.vision.qwen_tower import QwenTower
from orchard.core.errors import OrchardError, short_message
from orchard.device.out_of_memory import is_out_of_memory
from orchard.engine.batching.model import PlacedRows, PromptEmbeddings, SlicedArray

MOST_FEATURE_BYTES = 256 * 2**20


class PlacedMedium(NamedTuple):
    """A medium, and the ascending places of the prompt's tokens that its features replace.

    `param`: the request's field that it came in.
    """

    medium: Medium
    places: NDArray[np.intp]
    param: str = ""

    @property
    def start(self) -> int:
        """The first place."""
        return int(self.places[0])

    @property
    def stop(self) -> int:
        """The place after the last one."""
        return int(self.places[-1]) + 1

    def grids(self, tokens_per_second: float) -> Iterator[TokenGrid]:
        """Yield the grids of its tokens: one for an image or a video, or one for each separate time of a video.

        `tokens_per_second`: how many positions a second of a video spans (Qwen2.5-VL); 0: times are one apart.
        """
        if self.medium.grid is None:
            return
        times, rows, columns = self.medium.grid
        breaks = np.flatnonzero(np.diff(self.places) > 1) + 1
        pieces = np.split(self.places, breaks)
        if len(pieces) == times:
            yield from (TokenGrid(int(piece[0]), 1, rows, columns) for piece in pieces)
        else:
            step = tokens_per_second * self.medium.seconds if tokens_per_second and times > 1 else 1.0
            yield TokenGrid(self.start, times, rows, columns, step)


def place_media(tokens: Sequence[int], media: Sequence[Medium], feature_ids: frozenset[int]) -> list[PlacedMedium]:
    """Find media, in their order, in a prompt. Raise ValueError if the prompt's tokens aren't those of the media."""
    places = np.flatnonzero(np.isin(np.array(tokens), list(feature_ids)))
    if len(places) != sum(medium.features for medium in media):
        raise ValueError(f"{len(places)} tokens stand for media")
    bounds = np.cumsum([medium.features for medium in media])[:-1]
    return [PlacedMedium(medium, own) for medium, own in zip(media, np.split(places, bounds), strict=True)]


class Features(NamedTuple):
    """An encoded medium: rows (tokens, width), and such rows for each deepstack layer, if any."""

    rows: mx.array
    deepstack: list[mx.array]

    @property
    def bytes(self) -> int:
        """Its size in bytes."""
        return sum(int(array.nbytes) for array in (self.rows, *self.deepstack))


class MediaEncoder:
    """Encodes media with mlx-vlm's network, and caches the last features by digest. Only one thread may use it."""

    def __init__(self, network: Any, feature_ids: frozenset[int], most_bytes: int = MOST_FEATURE_BYTES) -> None:
        self._network = network
        self._feature_ids = feature_ids
        self._tower = QwenTower(network) if QwenTower.can_run(network) else None
        self._cache: BoundedCache[Features] = BoundedCache(most_bytes)
        self.dense_deepstack = False
        """Whether the model needs deepstack rows for all tokens, not only for visual ones."""

    def encode(self, medium: Medium) -> Features:
        """Return the features of a medium, from the cache or encoded now."""
        return self._cache.get(medium.digest, lambda: self._encode_medium(medium))

    def drop_all(self) -> None:
        """Forget all that is cached between requests."""
        self._cache.clear()
        if self._tower:
            self._tower.drop_all()

    def _encode_or_blame(self, placed: PlacedMedium) -> Features:
        try:
            return self.encode(placed.medium)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            message = f"the model can't encode this {placed.medium.kind}: {short_message(error)}"
            raise OrchardError("invalid_request", message, param=placed.param) from error

    def _encode_medium(self, medium: Medium) -> Features:
        if not self._tower:
            features = self._encode_by_model(medium)
            mx.eval(features.rows, features.deepstack)
            return features
        features = Features(*self._tower(medium.inputs))
        mx.async_eval(features.rows, features.deepstack)  # type: ignore[no-untyped-call]
        return features  # the host continues with the pass that reads them

    def _encode_by_model(self, medium: Medium) -> Features:
        # Pass one medium at a time and only its tokens: mlx-vlm puts the features in their places. mlx-vlm's own cache
        # of features is not used, because it loses the deepstack features.
        ids = mx.array([medium.tokens], mx.int32)
        given = {name: _to_device(value) for name, value in medium.inputs.items()}
        pixels = given.pop("pixel_values", None)
        made = self._network.get_input_embeddings(ids, pixels, mask=mx.ones_like(ids), **given)
        if made.cross_attention_states is not None:
            raise ValueError("mlx-vlm's model reads media by cross attention, which is not served")
        if made.inputs_embeds.shape[1] != len(medium.tokens):
            raise ValueError("mlx-vlm's model has other tokens for the medium than its processor")
        own = np.flatnonzero(np.isin(np.array(medium.tokens), list(self._feature_ids)))
        places = mx.array(own, mx.uint32)
        return Features(made.inputs_embeds[0][places], self._deepstack_rows(made.deepstack_visual_embeds, places))

    def _deepstack_rows(self, found: Any, places: mx.array) -> list[mx.array]:
        """Return the rows of each deepstack layer; some families return them for visual tokens, others for all."""
        found = getattr(found, "embeddings", found)  # Cohere Compass returns them with their places
        if found is None or len(found) == 0:
            return []
        if isinstance(found, mx.array) and found.ndim == 4:  # (1, tokens, layers, width)
            self.dense_deepstack = True
            return [found[0, :, layer][places] for layer in range(found.shape[2])]
        if found[0].shape[0] != places.size:
            raise ValueError(f"the model gives deepstack features of {found[0].shape[0]} tokens, not {places.size}")
        return list(found)

    def embed(self, tokens: Sequence[int], start: int, stop: int, media: Sequence[PlacedMedium]) -> PromptEmbeddings:
        """Return the embeddings of a prompt's tokens from `start` to `stop`, with all `media` between them.

        Raise OrchardError("invalid_request") that blames a medium which the model fails to encode.
        """
        text = self._network.get_input_embeddings(mx.array([tokens[start:stop]], mx.int32), None)
        features: list[Features] = []
        for placed in media:
            mx.eval(features)  # one at a time, as the memory estimate assumes
            features.append(self._encode_or_blame(placed))
        places = np.concatenate([placed.places for placed in media]) - start
        rows = mx.concatenate([found.rows for found in features]).astype(text.inputs_embeds.dtype)
        embeddings = text.inputs_embeds
        embeddings[0, mx.array(places, mx.uint32)] = rows
        extras: dict[str, SlicedArray | PlacedRows] = {}
        if text.per_layer_inputs is not None:
            extras["per_layer_inputs"] = SlicedArray(text.per_layer_inputs)
        visual = [
            (found, placed.places - start) for found, placed in zip(features, media, strict=True) if found.deepstack
        ]
        if visual:
            extras |= self._deepstack_extras(visual, stop - start, rows.dtype)
        return PromptEmbeddings(start, embeddings, extras=extras)

    def _deepstack_extras(
        self, visual: Sequence[tuple[Features, NDArray[np.intp]]], length: int, dtype: mx.Dtype
    ) -> dict[str, SlicedArray | PlacedRows]:
        places = np.concatenate([own for _, own in visual])
        layers = [
            mx.concatenate(list(of)).astype(dtype) for of in zip(*(one.deepstack for one, _ in visual), strict=True)
        ]
        if self.dense_deepstack:
            dense = mx.zeros((1, length, len(layers), layers[0].shape[-1]), dtype)
            dense[0, mx.array(places, mx.uint32)] = mx.stack(layers, axis=1)
            return {"deepstack_visual_embeds": SlicedArray(dense)}
        mask = np.zeros((1, length), np.bool_)
        mask[0, places] = True
        return {
            "deepstack_visual_embeds": PlacedRows(layers, places.tolist()),
            # mlx-vlm's Qwen3-VL reads the places in each of these layers, and would wait for the device.
            "visual_pos_masks": SlicedArray(mask if self._tower else mx.array(mask)),
        }


def _to_device(value: Any) -> Any:
    if isinstance(value, list):
        return [_to_device(one) for one in value]
    return mx.array(value) if isinstance(value, np.ndarray) else value


def prompt_positions(length: int, media: Sequence[PlacedMedium], tokens_per_second: float) -> tuple[mx.array, int]:
    """Return the positions (3, 1, length) of a prompt's tokens for M-RoPE, and the delta of the positions after it."""
    grids = [grid for placed in media for grid in placed.grids(tokens_per_second)]
    positions, delta = positions_of(length, grids)
    return mx.array(positions)[:, None], delta
