"""Estimates the memory, and on a CPU the time, of encoding a medium.

Admission compares the bytes with the memory that is left. The seconds matter because a worker that is silent for long
is killed with all of its requests.
"""

import time
from collections.abc import Iterator
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from orchard.backends.vision.inputs import Medium, arrays_of, media_parts

_WIDTHS = ("hidden_size", "embed_dim", "width", "d_model")
_INNER = ("intermediate_size", "encoder_ffn_dim")
_CHANNELS = ("subsampling_conv_channels", "downsample_hidden_size")  # of convolutions over a spectrogram
_HEADS = ("num_heads", "num_attention_heads", "encoder_attention_heads")
_MLP_RATIO = 4
_DEPTHS = ("depth", "num_hidden_layers", "num_layers", "encoder_layers")
_LEAST_BYTES = 2**20
_TRIAL_PLACES = 256  # for timing attention
_COPIES = 6  # of a token's embedding: two or three, and the deepstack rows, usually of three layers
_WIDE, _INNER_WIDE = 10, 3  # arrays of a layer's width, and of its MLP's width, that exist at once


class EncodingCost:
    """Estimates the cost of a network's encoders for a medium from their sizes; too high rather than too low."""

    def __init__(self, network: Any) -> None:
        """Take the sizes of a network, which is not kept."""
        configs = list(_encoder_configs(network.config))
        self._width = max((_config_size(config, _WIDTHS) or 0 for config in configs), default=0) or 1024
        inner = max((_config_size(config, _INNER) or 0 for config in configs), default=0)
        self._inner = inner or _MLP_RATIO * self._width
        self._heads = max((_config_size(config, _HEADS) or 0 for config in configs), default=0) or 16
        self._channels = max((_config_size(config, _CHANNELS) or 0 for config in configs), default=0)
        self._patch = max(1, min((_config_size(config, ("patch_size",)) or 14 for config in configs), default=14))
        weights = [array for _, part in media_parts(network) for _, array in tree_flatten(part.parameters())]
        self._itemsize = max(
            (array.itemsize for array in weights if mx.issubdtype(array.dtype, mx.floating)), default=4
        )
        embedded = network.get_input_embeddings(mx.array([[0]], mx.int32), None).inputs_embeds
        self._token_bytes = _COPIES * int(embedded.nbytes)
        # If only some layers attend to all places, the others hardly count.
        depths = [
            len(getattr(config, "fullatt_block_indexes", None) or ()) or _config_size(config, _DEPTHS)
            for config in configs
        ]
        self._depth = max((depth or 1 for depth in depths), default=1)
        self._attention_seconds = _attention_seconds(self._heads, self._width // self._heads, self._itemsize)
        # On Metal, attention over hundreds of places keeps no scores in memory.
        self._holds_scores = mx.default_device() != mx.gpu or not mx.metal.is_available()

    def embedding_bytes(self, tokens: int) -> int:
        """Return the bytes of `tokens` embedded tokens."""
        return tokens * self._token_bytes

    def encoding_bytes(self, medium: Medium) -> int:
        """Return the bytes that encoding a medium takes."""
        most = _LEAST_BYTES
        for array in _encoder_inputs(medium):
            count, length = self._sequences(medium, array)
            most = max(most, self._layer_bytes(count, length))
            if medium.kind == "audio":
                most += int(array.size) * self._channels * self._itemsize
        return most + 3 * medium.bytes  # the input, the same in the encoder's type, and the first layer's result

    def encoding_seconds(self, medium: Medium) -> float:
        """Return about how many seconds an encoder's attention takes on a CPU: nearly all of its time for large media.

        Return 0.0 on a GPU, and for audio, whose encoders don't attend to all of it at once.
        """
        if medium.kind == "audio":
            return 0.0
        lengths = [self._sequences(medium, array) for array in _encoder_inputs(medium)]
        return sum(
            self._depth * count * (length / _TRIAL_PLACES) ** 2 * self._attention_seconds for count, length in lengths
        )

    def _layer_bytes(self, count: int, length: int) -> int:
        """Return the bytes of a layer that reads `count` sequences of `length` places."""
        arrays = _WIDE * self._width + _INNER_WIDE * self._inner
        # Scores, and their softmax in float32.
        scores = self._heads * length * (self._itemsize + 4) if self._holds_scores else 0
        return count * length * (arrays * self._itemsize + scores)

    def _sequences(self, medium: Medium, array: Any) -> tuple[int, int]:
        """Return how many sequences an encoder's input has, and how many places each has. Each attends to itself."""
        shape = array.shape
        if medium.kind == "audio":
            return 1, max(shape[1:], default=1)
        if len(shape) == 2:  # patches of one image, or of a video's times
            times = medium.grid[0] if medium.grid else 1
            return times, -(-shape[0] // times)
        if len(shape) >= 4:  # (..., channels, rows, columns) or (..., rows, columns, channels) of images or tiles
            sides = [side for side in shape[-3:] if side > 4]
            pixels = max(sides[0] * sides[-1], 1) if sides else 1
            tiles = max(1, array.size // max(1, pixels * 3))
            return tiles, -(-pixels // self._patch**2)
        return (shape[0], shape[1]) if len(shape) == 3 else (1, array.size)


def _encoder_inputs(medium: Medium) -> Iterator[Any]:
    """Yield the arrays of a medium that its encoder reads."""
    for name, value in medium.inputs.items():
        if name.startswith(("pixel_values", "input_features", "audio")):
            yield from arrays_of(value)


def _attention_seconds(heads: int, width: int, itemsize: int) -> float:
    """Time attention over a few places on a CPU, where MLX's time grows with the square of their number."""
    if mx.default_device() != mx.cpu:
        return 0.0
    tried = mx.zeros((1, heads, _TRIAL_PLACES, max(width, 1)), mx.float32 if itemsize > 2 else mx.bfloat16)
    mx.eval(tried)
    taken: list[float] = []
    for _ in range(2):
        begun = time.perf_counter()
        mx.eval(mx.fast.scaled_dot_product_attention(tried, tried, tried, scale=1.0))
        taken.append(time.perf_counter() - begun)
    return min(taken)


def _encoder_configs(config: Any) -> Iterator[Any]:
    for name, value in vars(config).items():
        if name == "thinker_config" and value is not None:
            yield from _encoder_configs(value)
        elif ("vision" in name or "audio" in name) and hasattr(value, "__dict__"):
            yield value


def _config_size(config: Any, names: tuple[str, ...]) -> int | None:
    found = (getattr(config, name, None) for name in names)
    # Encoders with stages have lists of sizes.
    sizes = [max(value) if isinstance(value, list | tuple) and value else value for value in found]
    return next((size for size in sizes if isinstance(size, int) and size > 0), None)
