"""What a model's own files say about it: its context window and its capabilities.

Anybody may have written its config.json and chat template, so nothing here raises, whatever they contain.
"""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any, Literal

Capability = Literal["vision", "tools", "thinking"]

_NEMO = "nemo.collections.asr."
TRANSCRIPTION_KINDS = {
    "canary": "canary",
    "cohere_asr": "cohere_asr",
    "fireredasr2": "fireredasr2",
    "fun_asr_nano": "fun_asr_nano",
    "glmasr": "glmasr",
    "granite_speech": "granite_speech",
    "granite_speech5_ctc": "granite_speech5_ctc",
    "granite_speech_nar": "granite_speech_nar",
    "granite_speech_plus": "granite_speech",
    "mms": "mms",
    "moonshine": "moonshine",
    "moss_transcribe_diarize": "moss_transcribe_diarize",
    "nemotron_asr": "nemotron_asr",
    "nemotron_asr_streaming": "nemotron_asr",
    "parakeet": "parakeet",
    "parakeet_tdt": "parakeet",
    "qwen3_asr": "qwen3_asr",
    "sensevoice": "sensevoice",
    "vibevoice_asr": "vibevoice_asr",
    "voxtral_realtime": "voxtral_realtime",
}
"""The model types of transcription models besides Whisper, and mlx-audio's names for them.

They need only the files in their folder.
"""
_VIBEVOICE_ASR = "VibeVoiceForASR"  # VibeVoice's models of speech and of transcription have the same type

DIARIZER_KINDS = ("nemotron_diarization", "sortformer")
"""The model types of diarizers: models that only tell who speaks when. mlx-audio calls them the same."""

TURN_DETECTION_KINDS = ("smart_turn",)
"""The model types of models that tell whether somebody has finished speaking. mlx-audio calls them the same."""

_WINDOW_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "max_seq_length",
    "max_seq_len",
    "seq_length",
    "n_ctx",
    "context_length",
    "max_target_positions",
    "model_max_length",
)
_DTYPE_KEYS = ("dtype", "torch_dtype")
_DTYPES = {"float32": ("f32", 32), "float16": ("f16", 16), "bfloat16": ("bf16", 16)}
_TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
_MAX_NESTING = 4
# transformers writes 10^30 if a tokenizer or a configuration has no limit.
_NO_LIMIT = 2**31
# transformers omits a type's defaults, and so do Google's own files for Gemma 3.
_DEFAULT_WINDOWS = {"gemma3": 131_072, "gemma3_text": 131_072}

_SCALES_ORIGINAL = {"yarn", "deepseek_yarn", "telechat3-yarn", "linear", "dynamic"}

_NEVER_NEGATIVE = {"num_hidden_layers", "num_layers", "n_layers", "n_layer", "hidden_size", "d_model", "vocab_size"}
# Several times the sizes of the largest models.
_MOST_LAYERS, _MOST_WIDTH, _MOST_HEADS, _MOST_EXPERTS, _MOST_WORDS = 2048, 2**20, 4096, 2**16, 2**24
_MAX_SIZES = {
    **dict.fromkeys(
        ("num_hidden_layers", "num_layers", "n_layers", "n_layer", "num_nextn_predict_layers"), _MOST_LAYERS
    ),
    **dict.fromkeys(("depth", "encoder_layers", "decoder_layers", "first_k_dense_replace"), _MOST_LAYERS),
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "model_dim", "head_dim", "hidden_dim"), _MOST_WIDTH),
    **dict.fromkeys(("intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size"), _MOST_WIDTH),
    **dict.fromkeys(
        ("ffn_hidden_size", "d_inner", "n_inner", "q_lora_rank", "kv_lora_rank", "state_size"), _MOST_WIDTH
    ),
    **dict.fromkeys(("num_attention_heads", "num_key_value_heads", "num_heads", "n_heads", "n_head"), _MOST_HEADS),
    **dict.fromkeys(("linear_num_value_heads", "linear_num_key_heads", "mamba_num_heads"), _MOST_HEADS),
    **dict.fromkeys(("num_experts", "n_routed_experts", "num_local_experts", "n_shared_experts"), _MOST_EXPERTS),
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input", "embedding_size"), _MOST_WORDS),
}

_THINKING = (
    "thinking",
    "THINKING",
    "reasoning_content",
    "reasoning_effort",
    "think>",
    "[THINK]",
    "<|channel>",
    "Here is my thought process",
)


def context_window(config: Mapping[str, Any]) -> int | None:
    """Return the longest sequence, in tokens, that the model was made for; None if its config.json doesn't say.

    A nested configuration of the text model takes precedence over the outer one.
    """
    for part in _text_parts(config):
        said = next((value for key in _WINDOW_KEYS if (value := _valid_tokens(part.get(key)))), None)
        model_type = part.get("model_type")
        if said is None and isinstance(model_type, str):
            said = _DEFAULT_WINDOWS.get(model_type)
        if said:
            return _scaled_window(said, part)
    return None


def _text_parts(config: Mapping[str, Any], depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield the configurations that may describe the text model, the innermost first."""
    if depth < _MAX_NESTING:
        for name in _TEXT_PARTS:
            if isinstance(part := config.get(name), dict):
                yield from _text_parts(part, depth + 1)
    yield config


def _scaled_window(length: int, config: Mapping[str, Any]) -> int:
    """Return the context window, in tokens, that results from RoPE scaling.

    With YaRN and linear scaling it is the original length, if the file has it, times the factor, as in vLLM: `length`
    may be the original or the scaled length. With dynamic scaling, the original length is `length` by default, as in
    transformers and mlx-lm. In all other cases, such as llama3 and longrope, it is `length`, which may be the scaled
    length already.
    """
    rope = _rope_parameters(config)
    kind = rope.get("rope_type") or rope.get("type")
    factor = rope.get("factor")
    if not isinstance(kind, str) or kind not in _SCALES_ORIGINAL:
        return length
    if not isinstance(factor, int | float) or isinstance(factor, bool) or not 1 <= factor < _NO_LIMIT:
        return length
    original = _valid_tokens(rope.get("original_max_position_embeddings"))
    if original is None:
        original = _valid_tokens(config.get("original_max_position_embeddings"))
    if kind == "dynamic":
        original = original or length
    return _valid_tokens(int(original * factor)) or length if original else length


def _rope_parameters(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters of RoPE scaling; if kinds of layers differ, those of full attention."""
    for key in ("rope_parameters", "rope_scaling"):
        rope = config.get(key)
        if isinstance(rope, dict):
            inner = rope.get("full_attention")
            return inner if isinstance(inner, dict) else rope
    return {}


def _valid_tokens(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _NO_LIMIT:
        return value
    return None


def architecture(config: Mapping[str, Any]) -> str:
    """Return the name of a model's architecture; empty if its config.json names none."""
    kind = config.get("model_type")
    return kind if isinstance(kind, str) else ""


def weight_format(config: Mapping[str, Any]) -> tuple[str, int]:
    """Return the format of most weights, such as "4bit" or "bf16" ("" if unknown), and how many bits a weight has."""
    for quantised in _quantization(config):
        if bits := _bits_of(quantised):
            return f"{bits}bit", bits
    dtype = next(
        (part[key] for part in _text_parts(config) for key in _DTYPE_KEYS if isinstance(part.get(key), str)), ""
    )
    return _DTYPES.get(dtype, ("", 16))


def layer_bits(config: Mapping[str, Any]) -> dict[str, int]:
    """Return how many bits a weight has in the layers that config.json names, because most others have more or less."""
    layers = (layer for quantised in _quantization(config) for layer in quantised.items())
    return {name: bits for name, own in layers if isinstance(own, dict) and (bits := _bits_of(own))}


def _quantization(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = (config.get(key) for key in ("quantization", "quantization_config"))
    return [one for one in found if isinstance(one, dict)]


def _bits_of(quantised: Mapping[str, Any]) -> int | None:
    bits = quantised.get("bits")
    return bits if isinstance(bits, int) and not isinstance(bits, bool) and 1 <= bits <= 8 else None


def absurd_size(config: Mapping[str, Any]) -> str | None:
    """Return a sentence about the first size that is negative or absurdly large, with its bound; None: there is none.

    A network is built, layer by layer, before its weights are read, so a wrong size takes minutes or all memory.
    """
    return next(_absurd_sizes(config, 0), None)


def _absurd_sizes(config: Mapping[str, Any], depth: int) -> Iterator[str]:
    for key, value in config.items():
        if isinstance(value, dict) and depth < _MAX_NESTING:
            yield from _absurd_sizes(value, depth + 1)
        if (most := _MAX_SIZES.get(key)) is None:
            continue
        for size in value if isinstance(value, list) else [value]:
            if key in _NEVER_NEGATIVE and isinstance(size, int | float) and size < 0:
                yield f"{key} is {size:,}, and must not be negative"
            if isinstance(size, int | float) and size > most:
                yield f"{key} is {size:,}, and models have at most {most:,}"


def capabilities(kind: str, template: str) -> tuple[Capability, ...]:
    """Return what a model can do besides answering text with text, judged by words in its chat template.

    Without the extra `vision`, vision models are served as text models.
    """
    installed = find_spec("mlx_vlm") is not None  # this imports nothing
    found: list[Capability] = ["vision"] if kind == "vision" and installed else []
    if "tools" in template:
        found.append("tools")
    if any(word in template for word in _THINKING):
        found.append("thinking")
    return tuple(found)


def transcription_kind(config: Mapping[str, Any]) -> str | None:
    """Return mlx-audio's name of a transcription model's kind; None for Whisper and for all other models."""
    kind = config.get("model_type")
    if kind is None and str(config.get("target")).startswith(_NEMO):
        return "parakeet"
    if kind == "vibevoice" and _VIBEVOICE_ASR in str(config.get("architectures")):
        return "vibevoice_asr"
    return TRANSCRIPTION_KINDS.get(kind) if isinstance(kind, str) else None
