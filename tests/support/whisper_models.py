"""Tiny models of Whisper's architecture with random weights and a vocabulary of bytes."""

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_audio.stt.models.whisper.tokenizer import LANGUAGES
from mlx_audio.stt.models.whisper.whisper import Model, ModelDimensions
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

MULTILINGUAL = 51_865
# The encoder reads 1,500 places whatever is said: one head of one layer is enough.
_SIZES = {"n_audio_state": 32, "n_audio_head": 1, "n_audio_layer": 1, "n_text_state": 32, "n_text_head": 2}


@functools.cache
def tokenizer(size: int) -> Tokenizer:
    """Whisper's special tokens after bytes, pairs of them, and others that no text has: `size` in all."""
    special = ["<|endoftext|>", "<|startoftranscript|>", *(f"<|{code}|>" for code in list(LANGUAGES)[:99])]
    special += ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>"]
    special += ["<|notimestamps|>", *(f"<|{step / 50:.2f}|>" for step in range(1501))]
    characters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("Ġ", letter) for letter in "abcdefghijklmnopqrstuvwxyz"]
    names = [*characters, *("".join(pair) for pair in merges)]
    names += [f"<unused{number}>" for number in range(size - len(names) - len(special))]
    made = Tokenizer(models.BPE({name: at for at, name in enumerate(names)}, merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(name, special=True) for name in special])
    assert made.get_vocab_size() == size
    return made


def make_whisper(
    folder: Path,
    *,
    size: int = 2000,
    layout: str = "mlx",
    seed: int = 3,
    words: bool = True,
    layers: int = 2,
    sizes: Mapping[str, int] | None = None,
) -> Path:
    """Write a model with a vocabulary of `size` tokens; MULTILINGUAL is the smallest that knows languages.

    `layout`: "mlx" as mlx-audio saves it, "npz" as mlx-examples does, "hf" as transformers does. `words` False: without
    files of a tokenizer. `sizes` are further fields of the configuration.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config: dict[str, Any] = {**_SIZES, "n_mels": 80, "n_audio_ctx": 1500, "n_vocab": size, "n_text_ctx": 16}
    config |= {"n_text_layer": layers, "model_type": "whisper", **(sizes or {})}
    mx.random.seed(seed)
    weights = {name: _random(name, value) for name, value in tree_flatten(_network(config).parameters())}
    if layout == "npz":
        heads = np.array([[1, 0], [1, 1]], np.int32)
        arrays: dict[str, Any] = {name: np.array(value) for name, value in weights.items()}
        np.savez(folder / "weights.npz", alignment_heads=heads, **arrays)
    else:
        mx.save_safetensors(str(folder / "model.safetensors"), _as_transformers(weights) if layout == "hf" else weights)
    if layout == "hf":
        config = _transformers_config(config)
    (folder / "config.json").write_text(json.dumps(config))
    if words:
        tokenizer(size).save(str(folder / "tokenizer.json"))
        ends = dict.fromkeys(("eos_token", "unk_token"), "<|endoftext|>")
        named = {"tokenizer_class": "PreTrainedTokenizerFast", **ends}
        (folder / "tokenizer_config.json").write_text(json.dumps(named))
    return folder


def _network(config: Mapping[str, Any]) -> Any:
    return Model(ModelDimensions.from_dict(dict(config)))


def _random(name: str, like: mx.array) -> mx.array:
    if "ln" in name:
        return mx.full(like.shape, float(name.endswith("weight")), mx.float16)
    if "token_embedding" not in name:
        return (mx.random.normal(like.shape) * 0.2).astype(mx.float16)
    # Timestamps are unlikely: where they aren't, mlx-audio may forbid every token.
    spread = mx.concatenate([mx.full((like.shape[0] - 1501, 1), 0.6), mx.full((1501, 1), 0.05)])
    return (mx.random.normal(like.shape) * spread).astype(mx.float16)


_NAMES = (
    ("encoder.ln_post.", "encoder.layer_norm."),
    ("decoder.ln.", "decoder.layer_norm."),
    ("decoder.positional_embedding", "decoder.embed_positions.weight"),
    ("decoder.token_embedding.", "decoder.embed_tokens."),
    (".blocks.", ".layers."),
    (".cross_attn_ln.", ".encoder_attn_layer_norm."),
    (".attn_ln.", ".self_attn_layer_norm."),
    (".mlp_ln.", ".final_layer_norm."),
    (".mlp1.", ".fc1."),
    (".mlp2.", ".fc2."),
    (".cross_attn.query.", ".encoder_attn.q_proj."),
    (".cross_attn.key.", ".encoder_attn.k_proj."),
    (".cross_attn.value.", ".encoder_attn.v_proj."),
    (".cross_attn.out.", ".encoder_attn.out_proj."),
    (".attn.query.", ".self_attn.q_proj."),
    (".attn.key.", ".self_attn.k_proj."),
    (".attn.value.", ".self_attn.v_proj."),
    (".attn.out.", ".self_attn.out_proj."),
)


def _as_transformers(weights: Mapping[str, mx.array]) -> dict[str, mx.array]:
    found = {}
    for name, value in weights.items():
        changed = value.transpose(0, 2, 1) if "conv" in name and name.endswith("weight") else value
        theirs = name
        for old, new in _NAMES:
            theirs = theirs.replace(old, new)
        found[f"model.{theirs}"] = mx.contiguous(changed)
    return found


def _transformers_config(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "model_type": "whisper",
        "num_mel_bins": config["n_mels"],
        "max_source_positions": config["n_audio_ctx"],
        "d_model": config["n_audio_state"],
        "encoder_attention_heads": config["n_audio_head"],
        "encoder_layers": config["n_audio_layer"],
        "vocab_size": config["n_vocab"],
        "max_target_positions": config["n_text_ctx"],
        "decoder_attention_heads": config["n_text_head"],
        "decoder_layers": config["n_text_layer"],
    }
