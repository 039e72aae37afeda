"""Makes the next token certain with random weights, so that different kernels choose the same token.

With random weights, two logits often differ by less than the rounding of kernels, and a verifying pass uses other
kernels than plain decode. So the answers differ after a few tokens, and an oracle that knows one is always wrong in the
other.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx

_STEP = 7919
_WRITERS = ("o_proj", "out_proj", "down_proj")  # what adds a layer's result to a token's vector
_LESS = 2.0**-12
_MORE = 8.0  # so that sampling at temperature 1 is as certain
_EMBEDDING = "model.embed_tokens"


def steady_copy(path: str, folder: Path) -> str:
    """Copy a model's folder so that after token t always comes t + 7919, modulo the vocabulary; return the new folder.

    Layers compute what they did, but add next to nothing to a token's vector, and the output layer is the embedding
    with its rows moved. A pass costs what it did.
    """
    shutil.copytree(path, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    for file in sorted(Path(path).glob("*.safetensors")):
        weights, metadata = mx.load(str(file), return_metadata=True)
        assert isinstance(weights, dict)
        assert isinstance(metadata, dict)
        mx.save_safetensors(str(folder / file.name), _steady(weights), metadata)
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    for part in (config, config.get("text_config", {})):
        part["tie_word_embeddings"] = False
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def _steady(weights: dict[str, mx.array]) -> dict[str, mx.array]:
    made: dict[str, mx.array] = {}
    for name, weight in weights.items():
        module, _, kind = name.rpartition(".")
        if module.endswith("lm_head"):
            continue
        made[name] = weight
        if module.endswith(_WRITERS) and mx.issubdtype(weight.dtype, mx.floating):
            made[name] = weight * _LESS
        if module.endswith(_EMBEDDING):
            moved = mx.roll(weight, _STEP, 0)
            floating = mx.issubdtype(weight.dtype, mx.floating)
            made[f"{module.removesuffix(_EMBEDDING)}lm_head.{kind}"] = moved * _MORE if floating else moved
    return made
