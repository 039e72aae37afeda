"""A load takes hardly more memory at any time than the model takes afterwards. No layer is a tenth of these models."""

import gc
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.models import qwen3

from orchard.backends.audio import whisper
from orchard.backends.kernels import cpu
from orchard.backends.text import model as text
from orchard.core.tasks.text_options import TextOptions
from tests.support.examples import some
from tests.support.models import TEMPLATE, make_tokenizer
from tests.support.whisper_models import make_whisper

_LAYERS = 24
_WIDTH = 256
_PACKED = 8  # weights of 4 bits in a number


def peak_share(load: Callable[[], Any]) -> float:
    """Return the most memory that a load takes, relative to what it holds afterwards."""
    gc.collect()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    model = load()
    peak = mx.get_peak_memory() - before
    gc.collect()
    held = mx.get_active_memory() - before
    del model
    return peak / held


def make_text(folder: Path, bits: int = 0, *, awq: bool = False) -> None:
    """Write a model in bfloat16, quantised by MLX to so many bits, or packed as AWQ does it."""
    tokenizer = make_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    config: dict[str, Any] = {"model_type": "qwen3", "hidden_size": _WIDTH, "num_hidden_layers": _LAYERS}
    config |= {"intermediate_size": 2 * _WIDTH, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64}
    config |= {"vocab_size": tokenizer.get_vocab_size(), "tie_word_embeddings": True, "rms_norm_eps": 1e-6}
    config |= {"rope_theta": 10000.0, "max_position_embeddings": 512}
    network = qwen3.Model(qwen3.ModelArgs.from_dict(config))
    network.set_dtype(mx.bfloat16)
    if bits:
        config["quantization"] = {"bits": bits, "group_size": 64}
        nn.quantize(network, **config["quantization"])
    weights: dict[str, mx.array] = dict(tree_flatten(network.parameters()))
    if awq:
        config["quantization_config"] = {"quant_method": "awq", "bits": 4, "group_size": 64}
        for name in [name for name in weights if name.endswith("proj.weight")]:
            outputs, inputs = weights.pop(name).shape
            layer = name.removesuffix("weight")
            weights[f"{layer}qweight"] = mx.random.randint(0, 2**31 - 1, (inputs, outputs // _PACKED))
            weights[f"{layer}qzeros"] = mx.random.randint(0, 2**31 - 1, (inputs // 64, outputs // _PACKED))
            weights[f"{layer}scales"] = mx.random.uniform(shape=(inputs // 64, outputs)).astype(mx.float16)
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(config))
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))


_ROOM = 2**34  # for unpacked weights


@pytest.mark.parametrize(
    ("made", "memory_limit"),
    [({}, 1), ({}, _ROOM), ({"bits": 4}, 1), ({"bits": 4}, _ROOM), ({"bits": 8}, _ROOM), ({"awq": True}, 1)],
)
def test_a_text_model(tmp_path: Path, made: dict[str, Any], memory_limit: int) -> None:
    make_text(tmp_path, **made)
    assert peak_share(lambda: text.load_text_model(str(tmp_path), TextOptions(memory_limit=memory_limit))) <= 1.1


@pytest.mark.parametrize(("layout", "is_slow"), some([*itertools.product(["mlx", "hf", "npz"], [False, True])], 3))
def test_whisper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, is_slow: bool) -> None:
    """Its weights become float16, or float32 where that is faster."""
    monkeypatch.setattr(cpu, "is_slow", lambda: is_slow)
    sizes = {"n_audio_state": 128, "n_audio_layer": _LAYERS, "n_text_state": 128}
    make_whisper(tmp_path, layout=layout, layers=_LAYERS, sizes=sizes)
    if layout == "npz":
        with np.load(tmp_path / "weights.npz") as arrays:
            wide = {name: arrays[name].astype(np.float32) if "heads" not in name else arrays[name] for name in arrays}
        np.savez(tmp_path / "weights.npz", **wide)
    assert peak_share(lambda: whisper.load_whisper(tmp_path, lambda fraction: None)) <= 1.1
