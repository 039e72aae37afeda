"""Tiny random diarizers, in the layouts of the real ones."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_audio.vad.models.nemotron_diarization import nemotron_diarization
from mlx_audio.vad.models.sortformer import sortformer


def make_sortformer(folder: Path, *, streams: bool = True, only: int | None = None) -> Path:
    """Write a Sortformer for four speakers; `streams`: version 2.1, which is made for chunks.

    `only`: the number of the speaker whom it always hears, and nobody else.
    """
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = {
        "model_type": "sortformer",
        "fc_encoder_config": {**sizes, "subsampling_conv_channels": 8},
        "tf_encoder_config": {"d_model": 16, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 16},
        "modules_config": {
            "fc_d_model": 16,
            "tf_d_model": 16,
            "chunk_len": 25,
            "fifo_len": 25,
            "spkcache_len": 40,
            "spkcache_update_period": 25,
            "use_aosc": streams,
        },
        "processor_config": {},
    }
    network = sortformer.Model(sortformer.ModelConfig.from_dict(config))
    if only is not None:
        network.sortformer_modules.single_hidden_to_spks.bias = mx.where(mx.arange(4) == only, 99.0, -99.0)
    return _write(folder, config, network)


def make_nemotron_diarizer(folder: Path) -> Path:
    """Write a Nemotron 3 Diarization for eight speakers."""
    config = {
        "model_type": "nemotron_diarization",
        "encoder_config": {"d_model": 16, "n_layers": 1, "n_heads": 2, "feat_in": 128},
        "modules_config": {
            "fc_d_model": 16,
            "tf_d_model": 16,
            "chunk_len": 30,
            "fifo_len": 10,
            "chunk_right_context": 5,
            "spkcache_len": 40,
            "spkcache_update_period": 20,
        },
    }
    network = nemotron_diarization.Model(nemotron_diarization.ModelConfig.from_dict(json.loads(json.dumps(config))))
    return _write(folder, config, network)


def _write(folder: Path, config: Mapping[str, Any], network: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    mx.random.seed(5)
    weights = {
        name: mx.random.normal(value.shape) * 0.5 if value.ndim > 1 and "preprocessor" not in name else value
        for name, value in tree_flatten(network.parameters())
    }
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    (folder / "config.json").write_text(json.dumps(config))
    return folder
