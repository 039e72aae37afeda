"""A Qwen3-TTS that was made by hand and speaks: of a text, it says the last digit, in a voice of tests/demo/clips.

Each code is a frame of 80 ms of a recorded word, and each hidden dimension means one thing. The first step attends to
the last digit of the text, whose word's first frame it says; each frame is followed by the next one of its word, and
the last one by the end. So what it says can be heard, by people and by demo-whisper.
"""

import json
import re
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_audio.tts.models.qwen3_tts.config import ModelConfig, Qwen3TTSTokenizerConfig, Qwen3TTSTokenizerDecoderConfig
from mlx_audio.tts.models.qwen3_tts.qwen3_tts import Model
from mlx_audio.tts.models.qwen3_tts.speech_tokenizer import Qwen3TTSSpeechTokenizer
from numpy.typing import NDArray

from tests.support.models import make_tokenizer
from tests.support.speech_models import make_qwen3_tts
from tests.support.spoken_words import RATE, clips

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_SPEECH_RATE = 24_000
_CODES = 128
# A frame has 30 parts of 64 samples. Narrower convolutions would be read as PyTorch's.
_PARTS, _PART, _WIDE = 30, 64, 132
_FRAME = _PARTS * _PART
# Hidden dimensions: the frames, the digits of the text, the digit to say, and the beginning.
_TEXT, _SAY, _BEGIN, _HIDDEN = _CODES, _CODES + 10, _CODES + 20, _CODES + 32
_HEAD, _SLOWEST = 16, 7  # the dimensions of a head; the pair of them that positions turn least


def make_digit_speaker(folder: Path) -> None:
    """Write the model."""
    frames = _frames()
    assert sum(map(len, frames)) <= _CODES
    talker: dict[str, Any] = {"hidden_size": _HIDDEN, "rope_theta": 100.0, "intermediate_size": 8}
    talker |= {"num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": _HEAD}
    make_qwen3_tts(folder, codes=_CODES, **talker)
    config = json.loads((folder / "config.json").read_text())
    network = Model(ModelConfig.from_dict(config))
    weights = _zeros(network)
    text, layer = make_tokenizer().get_vocab(), "talker.model.layers.0."
    digits = [(token, int(found[0])) for word, token in text.items() if (found := re.findall(r"\d", word)[-1:])]
    attends = mx.full((_HEAD,), 15.0)
    weights["talker.model.norm.weight"] = mx.ones(_HIDDEN)
    weights[layer + "input_layernorm.weight"] = mx.ones(_HIDDEN)
    weights[layer + "self_attn.q_norm.weight"] = weights[layer + "self_attn.k_norm.weight"] = attends
    _set(weights, "talker.model.text_embedding", [(token, digit, 20) for token, digit in digits])
    _set(weights, "talker.text_projection.linear_fc1", [(at, at, 1) for at in range(10)])
    _set(weights, "talker.text_projection.linear_fc2", [(_TEXT + at, at, 0.05) for at in range(10)])
    begin = config["talker_config"]["codec_bos_id"], config["talker_config"]["codec_eos_token_id"]
    _set(weights, "talker.model.codec_embedding", [(code, code, 1) for code in range(_CODES)] + [(begin[0], _BEGIN, 1)])
    _set(weights, layer + "self_attn.q_proj", [(_SLOWEST, _BEGIN, 1)])
    _set(weights, layer + "self_attn.k_proj", [(_SLOWEST, _TEXT + digit, 1) for digit in range(10)])
    _set(weights, layer + "self_attn.v_proj", [(digit, _TEXT + digit, _HIDDEN**-0.5) for digit in range(10)])
    _set(weights, layer + "self_attn.o_proj", [(_SAY + digit, digit, 1) for digit in range(10)])
    follows: list[tuple[int, int, float]] = [(begin[1], _BEGIN, 3)]
    first = 0
    for digit, word in enumerate(frames):
        last = first + len(word) - 1
        follows += [(first, _SAY + digit, 10), (begin[1], last, 10)]
        follows += [(code + 1, code, 10) for code in range(first, last)]
        first = last + 1
    _set(weights, "talker.codec_head", follows)
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    _make_decoder(folder / "speech_tokenizer", np.concatenate(frames))


def _make_decoder(folder: Path, frames: NDArray[np.float32]) -> None:
    """Write what turns each code into its frame (frames, samples)."""
    config = json.loads((folder / "config.json").read_text())
    decoder = config["decoder_config"] | {
        "latent_dim": _CODES,
        "codebook_dim": 2 * _CODES,
        "codebook_size": _CODES,
        "semantic_codebook_size": _CODES,
        "decoder_dim": _WIDE,
        "upsampling_ratios": [_PARTS],
        "upsample_rates": [_PART],
        "hidden_size": _CODES,
    }
    (folder / "config.json").write_text(json.dumps({"decode_upsample_rate": _FRAME, "decoder_config": decoder}))
    tokenizer = Qwen3TTSTokenizerConfig(decoder_config=Qwen3TTSTokenizerDecoderConfig(**cast(Any, decoder)))
    weights = _zeros(Qwen3TTSSpeechTokenizer(tokenizer))
    same = mx.eye(_CODES)
    weights["decoder.quantizer.rvq_first.vq.layers.0.codebook.embed.weight"] = same
    weights["decoder.pre_transformer.input_proj.weight"] = weights["decoder.pre_transformer.output_proj.weight"] = same
    weights["decoder.pre_transformer.norm.weight"] = mx.full((_CODES,), _CODES**-0.5)
    for name in weights:
        if name.endswith(".beta"):  # without the activation
            weights[name] = mx.full(weights[name].shape, 30.0)
    _set(weights, "decoder.quantizer.rvq_first.output_proj", [(at, 0, at, 1) for at in range(_CODES)])
    _set(weights, "decoder.pre_conv.conv", [(at, 2, at, 1) for at in range(_CODES)])
    parts = np.zeros((_CODES, _PARTS, _CODES), np.float32)  # (outputs, places, codes)
    parts[:_PART, :, : len(frames)] = frames.reshape(-1, _PARTS, _PART).transpose(2, 1, 0)
    weights["decoder.upsample.0.0.conv.weight"] = mx.array(parts)
    _set(weights, "decoder.decoder.0.conv", [(at, 6, at, 1) for at in range(_PART)])
    _set(weights, "decoder.decoder.1.block.1.conv", [(0, at, at, 1) for at in range(_PART)])
    _set(weights, "decoder.decoder.3.conv", [(0, 6, 0, 1)])
    mx.save_safetensors(str(folder / "model.safetensors"), weights)


def _frames() -> list[NDArray[np.float32]]:
    """Return the frames of each digit's word, as far as possible in one voice: (frames, samples)."""
    voices = clips()
    known = {word: clip for voice in reversed(voices) for word, clip in voice} | dict(voices[0])
    found = []
    for word in WORDS:
        clip = known[word]
        places = np.arange(len(clip) * _SPEECH_RATE // RATE) * RATE / _SPEECH_RATE
        sound = np.interp(places, np.arange(len(clip)), clip).astype(np.float32) * np.float32(0.7)
        found.append(np.pad(sound, (0, -len(sound) % _FRAME)).reshape(-1, _FRAME))
    return found


def _zeros(network: Any) -> dict[str, mx.array]:
    return {name: mx.zeros(value.shape) for name, value in tree_flatten(network.parameters())}


def _set(weights: dict[str, mx.array], name: str, values: list[Any]) -> None:
    """Set some weights of a layer: each as its place and its value."""
    array = np.zeros(weights[f"{name}.weight"].shape, np.float32)
    for *place, value in values:
        array[tuple(place)] = value
    weights[f"{name}.weight"] = mx.array(array)
