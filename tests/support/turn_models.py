"""Tiny random models of turn detection, in the layout of the real ones."""

import json
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_audio.vad.models.smart_turn import smart_turn


def make_smart_turn(folder: Path, *, bias: float = 0.0) -> Path:
    """Write a random Smart Turn. With a `bias` far from zero, every turn is over (above) or none (below)."""
    encoder = {"d_model": 32, "encoder_attention_heads": 2, "encoder_layers": 1, "encoder_ffn_dim": 48}
    config = {"model_type": "smart_turn", "encoder_config": encoder}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    mx.random.seed(3)
    network = smart_turn.Model(smart_turn.ModelConfig.from_dict(config))
    weights = {
        name: mx.random.normal(value.shape) * 0.3 if value.ndim > 1 else value
        for name, value in tree_flatten(network.parameters())
    }
    weights["classifier_6.bias"] = mx.array([bias])
    # The library reads convolutions as PyTorch writes them.
    for name in ("encoder.conv1.weight", "encoder.conv2.weight"):
        weights[name] = weights[name].transpose(0, 2, 1)
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    return folder
