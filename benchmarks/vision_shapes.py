"""Vision models with random weights, a small one and ones in the shapes of real models.

    python -m benchmarks.vision_shapes qwen3-vl-4b FOLDER

`small` has Qwen3-VL's architecture with 4 layers of width 128, in float32; the others are quantised to 4 bits.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.models import add_head
from tests.support.vision_families import FAMILIES
from tests.support.vision_models import make_vision_model


class Shape(NamedTuple):
    """What a model has other than the tiny one of its family."""

    family: str
    text: dict[str, Any]
    vision: dict[str, Any]
    vocabulary: int = 0
    bits: int = 0


_PATCHES = {"patch_size": 16, "spatial_patch_size": 16, "num_position_embeddings": 2304}
_ENCODER = _PATCHES | {"depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "num_heads": 16}
_LONG = {"max_position_embeddings": 32768, "tie_word_embeddings": True}
_QWEN3_4B = {
    "hidden_size": 2560,
    "num_hidden_layers": 36,
    "intermediate_size": 9728,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "rope_theta": 5e6,
    "rope_scaling": {"rope_type": "default", "mrope_section": [24, 20, 20], "mrope_interleaved": True},
}
_QWEN3_5_4B = {
    "hidden_size": 2560,
    "num_hidden_layers": 32,
    "intermediate_size": 9216,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "full_attention_interval": 4,
    "linear_num_value_heads": 32,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25}
    | {"mrope_section": [11, 11, 10], "mrope_interleaved": True},
}

SHAPES = {
    "small": Shape(
        "qwen3_vl",
        {"hidden_size": 128, "num_hidden_layers": 4, "intermediate_size": 256, "max_position_embeddings": 32768},
        _PATCHES | {"out_hidden_size": 128},
    ),
    "qwen3-vl-4b": Shape(
        "qwen3_vl",
        _LONG | _QWEN3_4B,
        _ENCODER | {"out_hidden_size": 2560, "deepstack_visual_indexes": [5, 11, 17]},
        151936,
        4,
    ),
    "qwen3.5-4b": Shape("qwen3_5", _LONG | _QWEN3_5_4B, _ENCODER | {"out_hidden_size": 2560}, 248320, 4),
}


def make_shape(folder: Path, name: str) -> Path:
    """Write a model of one of SHAPES, and return its folder."""
    shape = SHAPES[name]
    tiny = FAMILIES[shape.family]
    config = tiny.config | {
        "text_config": tiny.config["text_config"] | shape.text,
        "vision_config": tiny.config["vision_config"] | shape.vision,
    }
    processor = {"patch_size": 16, "temporal_patch_size": 2, "merge_size": 2, "min_pixels": 65536, "max_pixels": 2**24}
    files = {name: file | processor for name, file in tiny.files.items()}
    folder.mkdir(parents=True)
    family = replace(tiny, config=config, files=files)
    make_vision_model(folder, family, vocabulary=shape.vocabulary, bits=shape.bits)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--head", action="store_true", help="with an MTP head (qwen3.5-4b)")
    args = parser.parse_args()
    make_shape(args.folder, args.shape)
    if args.head:
        add_head(args.folder)


if __name__ == "__main__":
    main()
