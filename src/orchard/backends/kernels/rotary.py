"""Rotary embeddings of models with M-RoPE: text is rotated as in a text model, at the same cost.

mlx-vlm 0.7.10 rotates every token by three positions, in a dozen operations per layer except on Metal. If the three are
equal, as in all text and so in all of decode, this is an ordinary rotation, for which MLX has a kernel.
"""

from typing import Any

import mlx.core as mx
from mlx import nn
from mlx_vlm.models.rope_utils import MRoPERotaryEmbedding, apply_multimodal_rotary_pos_emb

UNUSED_POSITIONS = mx.zeros((3, 1, 1), mx.int32)
"""A placeholder for the positions of text; `Rotary` ignores it."""
mx.eval(UNUSED_POSITIONS)  # mlx-vlm may do this in another thread, which can't evaluate this thread's arrays


class Rotary:
    """Replaces the rotary embeddings of all layers. Only one thread may use it.

    `offset`: the position of the first token, for all rows or one per row, if the current pass reads text; None:
    `apply_rotary` uses the positions that it gets.
    """

    fused_apply = True  # so that the model leaves the rotation to `apply_rotary`

    def __init__(self, embedding: MRoPERotaryEmbedding) -> None:
        """`embedding`: any layer's rotary embedding; all are the same."""
        self.offset: int | mx.array | None = None
        self._embedding = embedding
        self._positions: mx.array | None = None
        self._angles: tuple[mx.array, mx.array] | None = None

    def apply_rotary(self, queries: mx.array, keys: mx.array, positions: mx.array, **_: Any) -> tuple[Any, ...]:
        """Rotate queries and keys (rows, heads, n, width), whose positions are (3, rows, n)."""
        if self.offset is not None:
            return tuple(self._rotate(one, self.offset) for one in (queries, keys))
        if self._embedding.fused_apply:
            return self._embedding.apply_rotary(queries, keys, positions)  # type: ignore[no-any-return]
        if positions is not self._positions or self._angles is None:  # once a pass, not once a layer
            self._positions, self._angles = positions, self._embedding(keys, positions)
        section, style = self._embedding.mrope_section, self._embedding.style
        return apply_multimodal_rotary_pos_emb(  # type: ignore[no-any-return]
            queries, keys, *self._angles, mrope_section=section, style=style
        )

    def _rotate(self, array: mx.array, offset: int | mx.array) -> mx.array:
        of = self._embedding
        return mx.fast.rope(array, of.dim, traditional=False, base=of.base, scale=1.0, offset=offset)


def install_rotary(network: nn.Module) -> Rotary | None:
    """Make a language model's layers rotate text in this way; return None, changing nothing, if they can't."""
    attentions = [module for _, module in network.named_modules() if isinstance(module.get("rotary_emb"), nn.Module)]
    embeddings = [attention.rotary_emb for attention in attentions]
    # A rotary embedding above the layers (PaddleOCR-VL) only gives angles, and rotates nothing itself.
    if not embeddings or not all(map(_is_ordinary, embeddings)) or any("layers" in one for one in attentions):
        return None
    if len({(one.dim, one.base, one.style, tuple(one.mrope_section)) for one in embeddings}) > 1:
        return None
    rotary = Rotary(embeddings[0])
    for attention in attentions:
        attention.rotary_emb = rotary
    return rotary


def _is_ordinary(embedding: Any) -> bool:
    known = isinstance(embedding, MRoPERotaryEmbedding) and embedding.pairing == "half_split"
    return known and embedding.attention_scaling == 1
