"""Turns a Whisper model of CTranslate2, which faster-whisper runs, into a folder in the layout of mlx-audio.

The format of model.bin: `Model::load` in https://github.com/OpenNMT/CTranslate2/blob/master/src/models/model.cc.
"""

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

Weights = dict[str, NDArray[Any]]

_TYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
# A product of several matrices at once, by the layer that has it and its number.
_FUSED = {
    ("self_attention", 0): ("attn.query", "attn.key", "attn.value"),
    ("self_attention", 1): ("attn.out",),
    ("attention", 0): ("cross_attn.query",),
    ("attention", 1): ("cross_attn.key", "cross_attn.value"),
    ("attention", 2): ("cross_attn.out",),
    ("ffn", 0): ("mlp1",),
    ("ffn", 1): ("mlp2",),
}
_NORMS = {"self_attention": "attn_ln", "attention": "cross_attn_ln", "ffn": "mlp_ln"}
_NAMES = {
    "decoder/embeddings/weight": "decoder.token_embedding.weight",
    "decoder/position_encodings/encodings": "decoder.positional_embedding",
    "decoder/layer_norm/gamma": "decoder.ln.weight",
    "decoder/layer_norm/beta": "decoder.ln.bias",
    "encoder/layer_norm/gamma": "encoder.ln_post.weight",
    "encoder/layer_norm/beta": "encoder.ln_post.bias",
    **{f"encoder/conv{n}/{part}": f"encoder.conv{n}.{part}" for n in (1, 2) for part in ("weight", "bias")},
}
_PARTS = {"gamma": "weight", "beta": "bias", "weight": "weight", "bias": "bias"}


def convert(source: Path, folder: Path, heads: list[list[int]]) -> None:
    """Write the folder of a model.bin of float16; `heads` are its alignment heads. Raise KeyError for other weights.

    The folder has no tokenizer, as OpenAI's models have none.
    """
    found = read(source)
    weights = {name: mx.array(array) for old, array in found.items() for name, array in _renamed(old, array)}
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    (folder / "config.json").write_text(json.dumps(_config(found)))
    (folder / "generation_config.json").write_text(json.dumps({"alignment_heads": heads}))


def read(source: Path) -> Weights:
    """Return all arrays of a model.bin by their names."""
    with source.open("rb") as file:
        (version,) = _numbers(file, "<I")
        if version != 6:
            raise ValueError(f"{source} has version {version} of the format, not 6")
        _name(file)
        _, count = _numbers(file, "<II")
        found = {}
        for _ in range(count):
            name = _name(file)
            (rank,) = _numbers(file, "<B")
            shape = _numbers(file, f"<{rank}I")
            kind, size = _numbers(file, "<BI")
            found[name] = np.frombuffer(file.read(size), _TYPES[kind]).reshape(shape)
        return found


def _numbers(file: BinaryIO, form: str) -> tuple[int, ...]:
    return struct.unpack(form, file.read(struct.calcsize(form)))


def _name(file: BinaryIO) -> str:
    (size,) = _numbers(file, "<H")
    return file.read(size)[:-1].decode()


def _renamed(old: str, array: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Return the names and weights in MLX of one array of the file; none for settings, and for what MLX computes."""
    if array.ndim == 0 or old.startswith("decoder/alignment_") or old == "encoder/position_encodings/encodings":
        return
    if old in _NAMES:
        yield _NAMES[old], array.transpose(0, 2, 1) if array.ndim == 3 else array  # MLX has the channels last
        return
    half, number, layer, inner, part = old.split("/")
    block, part = f"{half}.blocks.{number.removeprefix('layer_')}", _PARTS[part]
    if inner == "layer_norm":
        yield f"{block}.{_NORMS[layer]}.{part}", array
        return
    names = _FUSED[layer, int(inner.removeprefix("linear_"))]
    for name, one in zip(names, np.split(array, len(names)), strict=True):
        if not (name.endswith(".key") and part == "bias"):  # Whisper has none: it is 0
            yield f"{block}.{name}.{part}", one


def _config(found: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    width, mels, _ = found["encoder/conv1/weight"].shape
    size, _ = found["decoder/embeddings/weight"].shape
    config: dict[str, Any] = {"model_type": "whisper", "n_mels": mels, "n_vocab": size}
    for half, name in (("encoder", "audio"), ("decoder", "text")):
        layers = {one.split("/")[1] for one in found if one.startswith(f"{half}/layer_") and "layer_norm" not in one}
        config |= {f"n_{name}_state": width, f"n_{name}_head": int(found[f"{half}/num_heads"])}
        config |= {f"n_{name}_ctx": len(found[f"{half}/position_encodings/encodings"]), f"n_{name}_layer": len(layers)}
    return config
