"""Tiny random speech models, in the layout of the real ones."""

import json
from functools import partial
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_audio.tts.models.qwen3_tts.config import ModelConfig, Qwen3TTSTokenizerConfig, Qwen3TTSTokenizerDecoderConfig
from mlx_audio.tts.models.qwen3_tts.qwen3_tts import Model
from mlx_audio.tts.models.qwen3_tts.speech_tokenizer import Qwen3TTSSpeechTokenizer
from mlx_audio.tts.models.soprano import soprano

from tests.support.models import make_tokenizer

_CODES = 32
_NEVER_DRAWN = 1024  # the last tokens of a vocabulary, but for the end
_GROUPS = 2
_WIDE = 72  # narrower convolutions would be read as PyTorch's
_ATTENTION = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "intermediate_size": 32}


def make_qwen3_tts(
    folder: Path, kind: str = "custom_voice", size: str = "1b7", *, codes: int = _CODES, **talker: Any
) -> None:
    """Write a random Qwen3-TTS with the voices `vivian` and `ryan`, whose speech never ends by itself."""
    tokenizer = make_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    words = tokenizer.get_vocab_size()
    special = ("codec_eos_token_id", "codec_think_id", "codec_nothink_id", "codec_think_bos_id", "codec_think_eos_id")
    config = {
        "model_type": "qwen3_tts",
        "tts_model_type": kind,
        "tts_model_size": size,
        "tts_pad_token_id": 1,
        "tts_bos_token_id": 2,
        "tts_eos_token_id": 3,
        "sample_rate": 24_000,
        "speaker_encoder_config": {
            "enc_dim": 32,  # the talker puts it beside its own embeddings
            "enc_channels": [*[_WIDE] * 4, 3 * _WIDE],
            "enc_attention_channels": _WIDE,
        },
        "talker_config": {
            **{name: codes + at for at, name in enumerate((*special, "codec_pad_id", "codec_bos_id"))},
            "spk_id": {"vivian": codes + 10, "ryan": codes + 11} if kind == "custom_voice" else {},
            "codec_language_id": {"english": codes + 12},
            "vocab_size": codes + _NEVER_DRAWN,
            "text_vocab_size": words,
            "text_hidden_size": 32,
            "hidden_size": 32,
            "num_hidden_layers": 1,
            "num_code_groups": _GROUPS,
            "rope_scaling": {"interleaved": True, "mrope_section": [4, 2, 2], "rope_type": "default"},
            "code_predictor_config": {
                **_ATTENTION,
                "vocab_size": codes,
                "hidden_size": 32,
                "num_hidden_layers": 1,
                "num_code_groups": _GROUPS,
            },
            **_ATTENTION,
            **talker,
        },
    }
    (folder / "config.json").write_text(json.dumps(config))
    mx.random.seed(0)
    network = Model(ModelConfig.from_dict(json.loads((folder / "config.json").read_text())))
    # As it is initialised, what is said hardly depends on the prompt.
    for layer in network.talker.model.layers:
        for part in (layer.self_attn.v_proj, layer.self_attn.o_proj):
            part.weight = part.weight * 30
    network.talker.codec_head.weight = network.talker.codec_head.weight * 8
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(network.parameters())))
    _make_decoder(folder / "speech_tokenizer")


def _make_decoder(folder: Path) -> None:
    """Write what turns codes into sound: 64 samples of each."""
    folder.mkdir()
    decoder = {
        **_ATTENTION,
        "latent_dim": _WIDE,
        "codebook_dim": 2 * _WIDE,
        "codebook_size": _CODES,
        "semantic_codebook_size": _CODES,
        "decoder_dim": 2 * _WIDE,
        "upsample_rates": [16],
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_quantizers": _GROUPS,
        "vector_quantization_hidden_dimension": 16,
    }
    # A frame counts as a second, so that a passage has only a few of them.
    (folder / "config.json").write_text(json.dumps({"decode_upsample_rate": 24_000, "decoder_config": decoder}))
    network = Qwen3TTSSpeechTokenizer(
        Qwen3TTSTokenizerConfig(decoder_config=Qwen3TTSTokenizerDecoderConfig(**cast(Any, decoder)))
    )
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(network.parameters())))


def make_soprano(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a random Soprano, whose decoder has no size in its files: from now on the library makes small ones."""
    small = {"decoder_num_layers": 1, "decoder_dim": 32, "decoder_intermediate_dim": 32}
    sizes = {"n_fft": 256, "hop_length": 64, "token_size": 256}
    monkeypatch.setattr(soprano, "DecoderConfig", partial(soprano.DecoderConfig, **small, **sizes))
    tokenizer = make_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    config = {
        "model_type": "soprano",
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "intermediate_size": 32,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "rms_norm_eps": 1e-6,
        "vocab_size": tokenizer.get_vocab_size(),
        "max_position_embeddings": 512,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "sample_rate": 3_200,
    }
    (folder / "config.json").write_text(json.dumps(config))
    mx.random.seed(0)
    network = soprano.Model(soprano.ModelConfig.from_dict({**config, "model_path": str(folder)}))
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(network.parameters())))
