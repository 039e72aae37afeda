"""Tiny random transcription models besides Whisper, in the layouts of the real ones."""

import json
from collections.abc import Mapping
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_audio.stt.models.moonshine import moonshine
from mlx_audio.stt.models.moss_transcribe_diarize import moss_transcribe_diarize
from mlx_audio.stt.models.parakeet import parakeet
from mlx_audio.stt.models.qwen3_asr import qwen3_asr
from mlx_audio.stt.models.vibevoice_asr import vibevoice_asr
from tokenizers import AddedToken

from tests.support.models import make_tokenizer

_HEADS = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}


def make_parakeet(folder: Path) -> Path:
    """Write a Parakeet whose words have a letter or two, with NeMo's configuration, which names no type."""
    letters = [*ascii_lowercase[:8], *(f"▁{letter}" for letter in ascii_lowercase), "."]
    size, hidden, steps = len(letters), 16, [0, 1, 2, 3, 4]
    config = {
        "target": "nemo.collections.asr.models.rnnt_bpe_models.EncDecRNNTBPEModel",
        "model_defaults": {"tdt_durations": steps},
        "preprocessor": {
            "sample_rate": 16_000,
            "normalize": "per_feature",
            "window_size": 0.025,
            "window_stride": 0.01,
            "window": "hann",
            "features": 80,
            "n_fft": 512,
            "dither": 0.0,
        },
        "encoder": {
            "feat_in": 80,
            "n_layers": 1,
            "d_model": hidden,
            "n_heads": 2,
            "ff_expansion_factor": 2,
            "subsampling_factor": 8,
            "self_attention_model": "rel_pos",
            "subsampling": "dw_striding",
            "conv_kernel_size": 9,
            "subsampling_conv_channels": 8,
            "pos_emb_max_len": 500,
        },
        "decoder": {
            "blank_as_pad": True,
            "vocab_size": size,
            "prednet": {"pred_hidden": hidden, "pred_rnn_layers": 1},
        },
        "joint": {
            "num_classes": size,
            "vocabulary": letters,
            "jointnet": {
                "joint_hidden": hidden,
                "activation": "relu",
                "encoder_hidden": hidden,
                "pred_hidden": hidden,
            },
            "num_extra_outputs": len(steps),
        },
        "decoding": {"model_type": "tdt", "durations": steps, "greedy": {"max_symbols": 10}},
    }
    return _write(folder, config, parakeet.Model(parakeet.ModelConfig.from_dict(config)))


def make_moonshine(folder: Path) -> Path:
    """Write a Moonshine whose tokens are bytes."""
    size = _write_tokenizer(folder)
    config = {"model_type": "moonshine", "vocab_size": size, "hidden_size": 32, "intermediate_size": 32}
    for part in ("encoder", "decoder"):
        config |= {f"{part}_num_hidden_layers": 1, f"{part}_num_attention_heads": 2}
    return _write(folder, config, moonshine.Model(moonshine.ModelConfig.from_dict(config)))


def make_qwen3_asr(folder: Path) -> Path:
    """Write a Qwen3-ASR that knows English and German."""
    size = _write_tokenizer(folder, "<|audio_start|>", "<|audio_pad|>", "<|audio_end|>", "<asr_text>")
    extractor = {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 128}
    (folder / "preprocessor_config.json").write_text(json.dumps(extractor))
    config = {
        "model_type": "qwen3_asr",
        "support_languages": ["English", "German"],
        "thinker_config": {
            "audio_config": {
                "encoder_layers": 1,
                "encoder_attention_heads": 2,
                "encoder_ffn_dim": 32,
                "d_model": 32,
                "output_dim": 32,
                "downsample_hidden_size": 8,
            },
            "text_config": {
                "vocab_size": size,
                "hidden_size": 32,
                "intermediate_size": 32,
                "num_hidden_layers": 1,
                "tie_word_embeddings": True,
                **_HEADS,
            },
            "audio_start_token_id": size - 4,
            "audio_token_id": size - 3,
            "audio_end_token_id": size - 2,
        },
    }
    return _write(folder, config, qwen3_asr.Model(qwen3_asr.ModelConfig.from_dict(config)))


def make_moss(folder: Path) -> Path:
    """Write a MOSS-Transcribe-Diarize, which tells speakers apart."""
    size = _write_tokenizer(folder, "<|audio_start|>", "<|audio_pad|>", "<|audio_end|>")
    extractor = {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 80}
    (folder / "preprocessor_config.json").write_text(json.dumps(extractor))
    template = "{% for one in messages %}{% for part in one.content %}"
    template += (
        "{% if part.type == 'audio' %}<|audio_start|><|audio_pad|><|audio_end|>{% else %}{{ part.text }}{% endif %}"
    )
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}
    settings["chat_template"] = template + "{% endfor %}{% endfor %}"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    config = {
        "model_type": "moss_transcribe_diarize",
        "audio_token_id": size - 2,
        "audio_config": {"d_model": 32, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 32},
        "text_config": {
            "vocab_size": size,
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_hidden_layers": 1,
            **_HEADS,
        },
    }
    network = moss_transcribe_diarize.Model(moss_transcribe_diarize.ModelConfig.from_dict(config))
    return _write(folder, config, network)


def make_vibevoice_asr(folder: Path) -> Path:
    """Write a VibeVoice-ASR, which tells speakers apart. A token of speech is a fifteenth of a second."""
    size = _write_tokenizer(folder, "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>")
    encoder = {"vae_dim": 8, "encoder_n_filters": 4, "encoder_ratios": [40, 40], "encoder_depths": "1-1-1"}
    config = {
        "model_type": "vibevoice",
        "architectures": ["VibeVoiceForASRTraining"],
        "acoustic_vae_dim": 8,
        "semantic_vae_dim": 8,
        "acoustic_tokenizer_config": encoder,
        "semantic_tokenizer_config": encoder,
        "decoder_config": {
            "vocab_size": size,
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "tie_word_embeddings": True,
        },
    }
    return _write(folder, config, vibevoice_asr.Model(vibevoice_asr.ModelConfig.from_dict(config)))


def _write_tokenizer(folder: Path, *special: str) -> int:
    """Write a tokenizer of bytes, with these special tokens at its end; return how many tokens it has."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer()
    tokenizer.add_special_tokens([AddedToken(one, special=True) for one in special])
    tokenizer.save(str(folder / "tokenizer.json"))
    named = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    return tokenizer.get_vocab_size()


def _write(folder: Path, config: Mapping[str, Any], model: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    mx.random.seed(5)
    weights = {name: _random(name, value) for name, value in tree_flatten(model.parameters())}
    if config.get("model_type") == "moonshine":  # which mlx-audio takes for PyTorch's, whose axes lie otherwise
        weights = {name: value.swapaxes(1, 2) if value.ndim == 3 else value for name, value in weights.items()}
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def _random(name: str, like: mx.array) -> mx.array:
    """Return weights of which something can be heard; those of norms stay as they are, and nothing else is added."""
    if "norm" in name:
        return like
    return mx.random.normal(like.shape) * 0.3 if like.ndim > 1 else mx.zeros_like(like)
