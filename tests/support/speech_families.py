"""More tiny random speech models, in the layout of the real ones, with their codecs in a cache of the Hub."""

import importlib
import json
import shutil
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import huggingface_hub.constants
import mlx.core as mx
import numpy as np
import pytest
from mlx import nn
from mlx.utils import tree_flatten
from mlx_audio.codec.models.descript.dac import DAC
from mlx_audio.codec.models.mimi import mimi
from mlx_audio.codec.models.s3.model_v2 import ModelConfig as S3Config
from mlx_audio.codec.models.s3.model_v2 import S3TokenizerV2
from mlx_audio.codec.models.snac import SNAC
from mlx_audio.lm.models import llama
from mlx_audio.tts.models.chatterbox import chatterbox
from mlx_audio.tts.models.chatterbox import config as chatterbox_config
from mlx_audio.tts.models.chatterbox.s3gen import s3gen
from mlx_audio.tts.models.chatterbox.t3 import cond_enc
from mlx_audio.tts.models.dia.config import DiaConfig
from mlx_audio.tts.models.dia.layers import DiaModel
from mlx_audio.tts.models.sesame import sesame
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from orchard.backends.audio.speakers import speaker
from orchard.core.tasks.speak import RATE
from tests.support.models import make_tokenizer
from tests.support.sounds import noise, wav

_COMMIT = 40 * "0"
_LLAMA = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 4096,
}
_ORPHEUS_CODES = 128_266
_SESAME_CODES = 64  # more than the 50 that it draws from


def use_hub_cache(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Let this process find files of the Hub in this folder only. From now on, a passage has 0.6 s at most."""
    monkeypatch.setattr(speaker, "_LEAST_SECONDS", 0.6)
    monkeypatch.setattr(speaker, "_SECONDS_PER_CHAR", 0.01)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    return folder


def _cached_repo(cache: Path, name: str) -> Path:
    """Make a folder for the files of a repository in a cache of the Hub."""
    repo = cache / f"models--{name.replace('/', '--')}"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text(_COMMIT)
    snapshot = repo / "snapshots" / _COMMIT
    snapshot.mkdir(parents=True)
    return snapshot


def _write(folder: Path, config: Mapping[str, Any], weights: Mapping[str, mx.array]) -> None:
    (folder / "config.json").write_text(json.dumps(config))
    mx.save_safetensors(str(folder / "model.safetensors"), dict(weights))


def _weights(network: nn.Module) -> dict[str, mx.array]:
    return dict(tree_flatten(network.parameters()))


def _random(like: mx.array) -> mx.array:
    return mx.random.normal(like.shape) * 0.3


def make_orpheus(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, frames: int = 1) -> None:
    """Write an Orpheus. From now on models of the library's class only write codes that are in order, and then stop."""
    vocabulary = {"[UNK]": 0, "Hello": 1, "there": 2, "tara": 3, "leo": 4, ":": 5, ".": 6}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(":", "isolated"), pre_tokenizers.Split(".", "isolated")]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    size = _ORPHEUS_CODES + 7 * 4096
    config = {"model_type": "llama", "vocab_size": size, "tie_word_embeddings": False, **_LLAMA}
    mx.random.seed(0)
    network = llama.Model(llama.ModelArgs.from_dict(config))
    _write(folder, config, _weights(network))
    codec = {
        "sampling_rate": RATE,
        "encoder_dim": 2,
        "encoder_rates": [2, 4, 8, 8],
        "decoder_dim": 32,
        "decoder_rates": [8, 8, 4, 2],
        "attn_window_size": None,
        "codebook_size": 4096,
        "codebook_dim": 8,
        "vq_strides": [4, 2, 1],
        "noise": False,
    }
    snapshot = _cached_repo(cache, "mlx-community/snac_24khz")
    _write(snapshot, codec, _weights(SNAC(**codec)))
    for module in ("mlx_audio.tts.models.llama", "mlx_audio.tts.models.llama.llama"):
        monkeypatch.delitem(sys.modules, module, raising=False)  # it has read its codec already
    library = importlib.import_module("mlx_audio.tts.models.llama.llama")
    compute = library.Model.__call__
    prompt = [0]

    def write_in_order(self: Any, tokens: mx.array, cache: Any, **given: Any) -> mx.array:
        if not cache[0].offset:
            prompt[0] = tokens.shape[1] + 1  # the last token of a prompt is read apart
        logits = compute(self, tokens, cache=cache, **given)
        number = cache[0].offset - prompt[0] - 1
        least = _ORPHEUS_CODES + number % 7 * 4096
        first, last = (least, least + 4095) if 0 <= number < 7 * frames else (128_257 + (number > 0),) * 2
        ids = mx.arange(size)
        return mx.where((ids >= first) & (ids <= last), logits, -mx.inf)

    monkeypatch.setattr(library.Model, "__call__", write_in_order)


def make_dia(folder: Path, cache: Path) -> None:
    """Write a Dia that never stops."""
    part = {"n_layer": 1, "n_embd": 16, "n_hidden": 32}
    config = {
        "model_type": "dia",
        "model": {
            "encoder": {**part, "n_head": 2, "head_dim": 8},
            "decoder": {
                **part,
                "gqa_query_heads": 2,
                "kv_heads": 1,
                "gqa_head_dim": 8,
                "cross_query_heads": 2,
                "cross_head_dim": 8,
            },
            "src_vocab_size": 256,
        },
        "training": {},
        "data": {"text_length": 128, "audio_length": 3072},
    }
    mx.random.seed(0)
    loaded = DiaConfig.load_dict(config)
    assert loaded
    network = DiaModel(loaded)
    weights = {name: _random(value) for name, value in _weights(network).items()}
    _write(folder, config, weights)
    codec = {
        "encoder_dim": 2,
        "encoder_rates": [2, 4, 8, 8],
        "decoder_dim": 16,
        "decoder_rates": [8, 8, 4, 2],
        "n_codebooks": 9,
        "codebook_size": 1024,
        "codebook_dim": 8,
        "sample_rate": 44_100,
    }
    snapshot = _cached_repo(cache, "mlx-community/descript-audio-codec-44khz")
    _write(snapshot, codec, _weights(DAC(**codec)))


def make_sesame(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, *voices: str) -> None:
    """Write a Sesame CSM with these voices, whose codec has a fixed size: from now on the library makes a small one."""
    tokenizer = make_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|endoftext|>", "eos_token": "<|im_end|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    snapshot = shutil.copytree(folder, _cached_repo(cache, "unsloth/Llama-3.2-1B"), dirs_exist_ok=True)
    (snapshot / "config.json").write_text("{}")
    sizes = {**_LLAMA, "attention_bias": False, "attention_dropout": 0.0, "hidden_act": "silu", "mlp_bias": False}
    sizes |= {"initializer_range": 0.02, "rope_scaling": None, "rope_theta": 10_000, "use_cache": True}
    sizes |= {"num_codebooks": 2, "vocab_size": _SESAME_CODES}
    scaling = {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_type": "llama3"}
    sizes["rope_scaling"] = {**scaling, "original_max_position_embeddings": 8192}
    config = {
        **sizes,
        "model_type": "sesame",
        "text_vocab_size": tokenizer.get_vocab_size(),
        "audio_vocab_size": _SESAME_CODES,
        "audio_num_codebooks": 2,
        "depth_decoder_config": {**sizes, "model_type": "csm_depth", "backbone_hidden_size": sizes["hidden_size"]},
    }
    small = mimi.mimi_202407(2)
    small.seanet.dimension, small.seanet.nfilters = 16, 2
    transformer = {"d_model": 16, "num_heads": 2, "num_layers": 1, "dim_feedforward": 32}
    for name, value in transformer.items():
        setattr(small.transformer, name, value)
    small.quantizer_bins, small.quantizer_dim = _SESAME_CODES, 8

    def make_codec(repo: str) -> mimi.Mimi:
        mx.random.seed(1)
        codec = mimi.Mimi(small)
        weights = _weights(codec).items()
        used = (mx.ones_like(value) if name.endswith("cluster_usage") else _random(value) for name, value in weights)
        codec.load_weights(list(zip(_weights(codec), used, strict=True)))
        for module in codec.modules():
            if hasattr(module, "update_in_place"):
                module.update_in_place()
        return codec

    monkeypatch.setattr(sesame.Mimi, "from_pretrained", make_codec)
    network = sesame.Model(config | {"text_tokenizer": str(folder)})
    weights = {name: _random(value) for name, value in _weights(network).items()}
    _write(folder, config, weights)
    (folder / "prompts").mkdir()
    for number, name in enumerate(voices):
        (folder / "prompts" / f"{name}.wav").write_bytes(wav(noise(0.5 + number, RATE), RATE))
        (folder / "prompts" / f"{name}.txt").write_text(f"I am {name}.")


def make_chatterbox(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a Chatterbox, most of whose parts have fixed sizes: from now on the library makes small ones."""
    sizes = {**chatterbox_config.LLAMA_520M_CONFIG, **_LLAMA, "hidden_size": 32}
    monkeypatch.setitem(chatterbox_config.LLAMA_CONFIGS, "Llama_520M", sizes)
    encoder = {"linear_units": 32, "num_blocks": 1, "num_up_blocks": 1}
    decoder = {"channels": [16], "attention_head_dim": 8, "n_blocks": 1, "num_mid_blocks": 1, "num_heads": 2}
    sound = {"base_channels": 16}
    width = sizes["hidden_size"]
    _shrink(monkeypatch, cond_enc, "Perceiver", {"pre_attention_query_size": width, "embedding_dim": width})
    _shrink(monkeypatch, s3gen, "UpsampleConformerEncoder", encoder)
    _shrink(monkeypatch, s3gen, "ConditionalDecoder", decoder)
    _shrink(monkeypatch, s3gen, "HiFTGenerator", sound)
    tokens = S3Config(n_audio_state=64, n_audio_head=1, n_audio_layer=1)
    monkeypatch.setattr(chatterbox, "S3TokenizerV2", partial(S3TokenizerV2, config=tokens))
    tokenizer = make_tokenizer()
    tokenizer.add_special_tokens([AddedToken(one, special=True) for one in ("[START]", "[STOP]", "[SPACE]", "[UNK]")])
    tokenizer.save(str(folder / "tokenizer.json"))
    mx.random.seed(2)
    network = chatterbox.Model(chatterbox.ModelConfig())
    _write(folder, {"model_type": "chatterbox"}, _weights(network))
    snapshot = _cached_repo(cache, "mlx-community/S3TokenizerV2")
    _write(snapshot, {}, _weights(network._s3_tokenizer))
    network.eval()
    voice = network.prepare_conditionals(mx.array(noise(1, RATE).astype(np.float32) / np.float32(32768)), RATE)
    conditions = {f"gen.{name}": value for name, value in voice.gen.items()}
    conditions |= {
        "t3.speaker_emb": voice.t3.speaker_emb,
        "t3.cond_prompt_speech_tokens": voice.t3.cond_prompt_speech_tokens,
        "t3.emotion_adv": voice.t3.emotion_adv,
    }
    mx.save_safetensors(str(folder / "conds.safetensors"), conditions)


def _shrink(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, sizes: Mapping[str, Any]) -> None:
    original = getattr(module, name)
    monkeypatch.setattr(module, name, lambda **given: original(**{**given, **sizes}))
