"""The encoder of images and videos of Qwen3-VL and Qwen3.5, without waits for the device between its layers.

mlx-vlm's encoder reads the images' sizes from the device, although the host knows them: three times in each layer and a
dozen times before the layers. The model reads them once more. Each such wait leaves a GPU idle.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
from mlx_vlm.models import qwen3_vl, qwen3_vl_moe

from orchard.backends.bounded_cache import BoundedCache

_MOST_PLACES_BYTES = 32 * 2**20
_INPUTS = (("pixel_values", "image_grid_thw"), ("pixel_values_videos", "video_grid_thw"))


class _Places(NamedTuple):
    """An encoder's position embeddings, (patches, width), and rotary angles, (patches, half a head)."""

    embeddings: mx.array
    rotary: mx.array

    @property
    def bytes(self) -> int:
        """Its size in bytes."""
        return int(self.embeddings.nbytes + self.rotary.nbytes)


class QwenTower:
    """Runs the encoder of a network of mlx-vlm for which `can_run` returns True. Only one thread may use it.

    It caches what depends only on the size of an image, for the most recently used sizes.
    """

    def __init__(self, network: Any) -> None:
        self._tower = network.vision_tower
        self._places: BoundedCache[_Places] = BoundedCache(_MOST_PLACES_BYTES)

    @staticmethod
    def can_run(network: Any) -> bool:
        """Return whether a network's encoder is of this kind."""
        return isinstance(getattr(network, "vision_tower", None), qwen3_vl.VisionModel | qwen3_vl_moe.VisionModel)

    def drop_all(self) -> None:
        """Forget all that is cached between requests."""
        self._places.clear()

    def __call__(self, inputs: Mapping[str, Any]) -> tuple[mx.array, list[mx.array]]:
        """Encode the one image or video that a processor has prepared.

        Return its rows (tokens, width), and those of each deepstack layer.
        """
        tower = self._tower
        pixels, grid = next((inputs[pixels], inputs[grid]) for pixels, grid in _INPUTS if grid in inputs)
        times, rows, columns = (int(size) for size in np.asarray(grid).reshape(3))
        places = self._places.get((times, rows, columns), lambda: self._compute_places(times, rows, columns))
        hidden = tower.patch_embed(mx.array(pixels).astype(tower.patch_embed.proj.weight.dtype)) + places.embeddings
        ends = np.arange(times + 1) * rows * columns  # the patches of a time attend to each other
        deepstack = []
        for layer, block in enumerate(tower.blocks):
            hidden = block(hidden, cu_seqlens=ends, rotary_pos_emb=places.rotary)
            if layer in tower.deepstack_visual_indexes:
                merger = tower.deepstack_merger_list[tower.deepstack_visual_indexes.index(layer)]
                deepstack.append(merger(hidden))
        return tower.merger(hidden), deepstack

    def _compute_places(self, times: int, rows: int, columns: int) -> _Places:
        grid = mx.array([[times, rows, columns]])
        return _Places(self._tower.fast_pos_embed_interpolate(grid), self._tower.rot_pos_emb(grid))
